/* Products with a sparse matrix of few entries a row, such as the transposed interaction matrix of
 * a mirror, which is a stencil but for the pupil's edge. The conventions of backend.h hold. */
#ifndef MOAO_BACKEND_SPARSE_H
#define MOAO_BACKEND_SPARSE_H

#include "backend.h"

#ifdef __cplusplus
extern "C" {
#endif

/* S, rows x cols: entry k of row i is value[i + k rows] in column column[i + k rows], -1: there is
 * none. Both arrays are rows x width, in the backend's memory; values are of the type of the call.
 */
typedef struct {
    int64_t rows, cols, width;
    const int *column;
    const void *value;
} backend_rows;

/* C := alpha S A + beta C, A cols x n, C rows x n; types D, S. beta = 0 does not read C. Sums are
 * in the type of the call, in the order of the entries. */
typedef status sparse_times_op(backend_ctx *ctx, backend_type t, const backend_rows *s, int64_t n,
                               double alpha, const void *a, int64_t lda, double beta, void *c,
                               int64_t ldc);

typedef struct backend_sparse {
    size_t size; /* sizeof(backend_sparse) */
    sparse_times_op *times;
} backend_sparse;

#ifdef __cplusplus
}
#endif
#endif
