/* Batched operations of a backend: the same operation on many small matrices, orders up to
 * BATCH_MAX. The conventions of backend.h hold (letters, types, streams, unused triangles,
 * repeatability), with these additions.
 * - No workspace is needed, and nothing is allocated: every call can be captured in a CUDA graph.
 * - A size may be the same for all matrices or given for each; a size in the array that is negative
 * or above the stated bound makes that matrix be left alone, with info -1.
 * - info: one int for each matrix, in the backend's memory, always written: 0 fine; k > 0: the
 * leading minor of order k is not positive (a pivot must be a normal, finite, positive number, so
 * NaN counts as not positive), or diagonal element k of a triangle to be inverted is 0 or NaN; -1:
 * size out of range. The triangle of a matrix with info != 0 is unspecified, its right-hand sides
 * (posv) are left as they were.
 * - Solves multiply by the reciprocal of the diagonal: a diagonal element below the smallest normal
 *   number counts as 0. Backward error: a few times n eps, as without reciprocals.
 * - Matrices of a batch must not overlap where they are written. */
#ifndef MOAO_BACKEND_BATCH_H
#define MOAO_BACKEND_BATCH_H

#include "backend.h"
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Largest order of the triangular or symmetric matrix, and of the other extent of B (trsm, trmm,
 * potrs, posv) and k of syrk. */
#define BATCH_MAX 256
#define BATCH_WIDE_MAX 4000000

/* The matrices of a batch, column-major. Matrix b begins at base + b stride (elements of the type),
 * or, if ptrs is not NULL, at ptrs[b]; its leading dimension is ld, or lds[b] if lds is not NULL.
 * The arrays have `count` entries and lie in the backend's memory. */
typedef struct {
    void *base;
    int64_t stride;
    void *const *ptrs;
    int64_t ld;
    const int64_t *lds;
} batch_mat;

/* A size: n for all, or, if each is not NULL, each[b] (array in the backend's memory) of at most n.
 */
typedef struct {
    int64_t n;
    const int64_t *each;
} batch_dim;

/* Strided batch and uniform size, the common case. */
static inline batch_mat batch_strided(void *base, int64_t ld, int64_t stride) {
    batch_mat m = {base, stride, NULL, ld, NULL};
    return m;
}
static inline batch_mat batch_pointers(void *const *ptrs, int64_t ld) {
    batch_mat m = {NULL, 0, ptrs, ld, NULL};
    return m;
}
static inline batch_dim batch_size(int64_t n) {
    batch_dim d = {n, NULL};
    return d;
}

/* The operations, each as its dense counterpart in backend.h; types D and S. MOAO_INPUT: a letter
 * or the type is wrong, count is negative, a size is negative or above its bound, or a leading
 * dimension too small (what lies in arrays is not looked at). */

/* C := alpha op(A) op(B) + beta C, C m x n, k the inner size; each of the three at most
 * BATCH_WIDE_MAX, and at most 2^31 - 1 tiles of 64 x 64 in all C together. A matrix of which any
 * size in an array is out of range is left alone. The order of a sum depends on k alone, so the
 * bits of C do not depend on the other matrices, or on where it stands among them. */
typedef status batch_gemm_op(backend_ctx *ctx, backend_type t, char transa, char transb,
                             int64_t count, batch_dim m, batch_dim n, batch_dim k,
                             const void *alpha, batch_mat a, batch_mat b, const void *beta,
                             batch_mat c);
typedef status batch_syrk_op(backend_ctx *ctx, backend_type t, char uplo, char trans, int64_t count,
                             batch_dim n, batch_dim k, const void *alpha, batch_mat a,
                             const void *beta, batch_mat c);
/* trsm, trmm */
typedef status batch_tri_op(backend_ctx *ctx, backend_type t, char side, char uplo, char trans,
                            char diag, int64_t count, batch_dim m, batch_dim n, const void *alpha,
                            batch_mat a, batch_mat b);
/* potrf, potri, poti */
typedef status batch_factor_op(backend_ctx *ctx, backend_type t, char uplo, int64_t count,
                               batch_dim n, batch_mat a, int *info);
typedef status batch_trtri_op(backend_ctx *ctx, backend_type t, char uplo, char diag, int64_t count,
                              batch_dim n, batch_mat a, int *info);
typedef status batch_lauum_op(backend_ctx *ctx, backend_type t, char uplo, int64_t count,
                              batch_dim n, batch_mat a);
typedef status batch_potrs_op(backend_ctx *ctx, backend_type t, char uplo, int64_t count,
                              batch_dim n, batch_dim nrhs, batch_mat a, batch_mat b);
typedef status batch_posv_op(backend_ctx *ctx, backend_type t, char uplo, int64_t count,
                             batch_dim n, batch_dim nrhs, batch_mat a, batch_mat b, int *info);

/* A product whose columns go to places of their own: C, of m rows, gets op(A) B, m x k times k x n;
 * turned: A is given as k x m. Column x of the product becomes column column[first + x] of C. k =
 * 0: zeros. */
typedef struct {
    const void *a, *b;
    void *c;
    int64_t lda, ldb, m, n, k, first, turned;
} batch_scatter;

/* `count` products of at most `rows` rows, all C of one leading dimension; list and column lie in
 * the backend's memory and are not looked at. No column is written twice. The order of a sum
 * depends on k alone. At most 2^31 - 1 runs of 64 rows in all. */
typedef status batch_scatter_op(backend_ctx *ctx, backend_type t, int64_t count, int64_t rows,
                                const batch_scatter *list, const int64_t *column, int64_t ldc);

/* A B^T, A m x k, B n x k; and a matrix in double precision, m x n, to which alpha times the sum of
 * such products, first .. first + parts of a list, is added. */
typedef struct {
    const void *a, *b;
    int64_t lda, ldb, k;
} batch_part;
typedef struct {
    double *c;
    int64_t m, n, first, parts;
} batch_gather;

/* `count` matrices of at most rows x cols, all of one leading dimension, products of type t; both
 * lists lie in the backend's memory and are not looked at. No entry is in two matrices. The order
 * of a sum depends on the parts alone. At most 2^31 - 1 runs of 64 rows in all. */
typedef status batch_gather_op(backend_ctx *ctx, backend_type t, int64_t count, int64_t rows,
                               int64_t cols, const batch_gather *list, const batch_part *part,
                               double alpha, int64_t ldc);

typedef struct backend_batch {
    size_t size; /* sizeof(backend_batch) */
    batch_gemm_op *gemm;
    batch_syrk_op *syrk;
    batch_tri_op *trsm, *trmm;
    batch_factor_op *potrf, *potri, *poti;
    batch_trtri_op *trtri;
    batch_lauum_op *lauum;
    batch_potrs_op *potrs;
    batch_posv_op *posv;
    batch_scatter_op *scatter;
    batch_gather_op *gather;
} backend_batch;

#ifdef __cplusplus
}
#endif
/* at the end, for it needs what stands above */
#include "backend_lowrank.h"

#endif
