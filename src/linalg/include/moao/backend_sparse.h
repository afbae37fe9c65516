/* Products with sparse matrices: of few entries a row, and those of a mirror's transposed
 * interaction matrix, which is a separable stencil but for the pupil's edge. The conventions of
 * backend.h hold. */
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
} moao_backend_rows;

/* C := alpha S A + beta C, A cols x n, C rows x n; types D, S. beta = 0 does not read C. Sums are
 * in the type of the call, in the order of the entries. */
typedef moao_status moao_sparse_times_op(moao_backend_ctx *ctx, moao_backend_type t,
                                         const moao_backend_rows *s, int64_t n, double alpha,
                                         const void *a, int64_t lda, double beta, void *c,
                                         int64_t ldc);

/* D', corners x 2 squares: from two numbers (one along x, one along y; first all of x) in each of
 * the valid squares of an n x n grid to one at each of the valid corners of these, of which there
 * are (n + 1) x (n + 1). With the distances dx, dy from a corner to a square's middle [squares] the
 * entries are turn(dx) even(dy) for x and even(dx) turn(dy) for y; turn(d) = odd[k] at d = k + 1/2,
 * -odd[k] at d = -(k + 1/2), even(d) = even[k] at both, for k < reach, and 0 beyond. */
#define MOAO_BACKEND_REACH 16
typedef struct {
    int64_t n, squares, corners;
    /* iy n + ix, iy (n + 1) + ix of those that are valid, increasing; in the backend's memory */
    const int *square, *corner;
    int reach;
    double odd[MOAO_BACKEND_REACH], even[MOAO_BACKEND_REACH];
} moao_backend_filter;

/* B := alpha D' A + beta B, A (2 squares) x n, B corners x n; types D, S; A and B must not overlap.
 * beta = 0 does not read B. Two filters along the rows and two along the columns of the grid, not
 * products with D's entries: 8 reach operations for each place instead of 8 reach^2. The CPU takes
 * memory for it: MOAO_MEMORY. */
typedef moao_status moao_sparse_filter_op(moao_backend_ctx *ctx, moao_backend_type t,
                                          const moao_backend_filter *f, int64_t n, double alpha,
                                          const void *a, int64_t lda, double beta, void *b,
                                          int64_t ldb);

typedef struct moao_backend_sparse {
    size_t size; /* sizeof(moao_backend_sparse) */
    moao_sparse_times_op *times;
    moao_sparse_filter_op *filter;
} moao_backend_sparse;

#ifdef __cplusplus
}
#endif
#endif
