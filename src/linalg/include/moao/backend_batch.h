/* Batched operations of a backend: the same operation on many small matrices, orders up to
 * MOAO_BATCH_MAX. The conventions of backend.h hold (letters, types, streams, unused triangles,
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
#define MOAO_BATCH_MAX 256
#define MOAO_BATCH_WIDE_MAX 4000000

/* The matrices of a batch, column-major. Matrix b begins at base + b stride (elements of the type),
 * or, if ptrs is not NULL, at ptrs[b]; its leading dimension is ld, or lds[b] if lds is not NULL.
 * The arrays have `count` entries and lie in the backend's memory. */
typedef struct {
    void *base;
    int64_t stride;
    void *const *ptrs;
    int64_t ld;
    const int64_t *lds;
} moao_batch_mat;

/* A size: n for all, or, if each is not NULL, each[b] (array in the backend's memory) of at most n.
 */
typedef struct {
    int64_t n;
    const int64_t *each;
} moao_batch_dim;

/* Strided batch and uniform size, the common case. */
static inline moao_batch_mat moao_batch_strided(void *base, int64_t ld, int64_t stride) {
    moao_batch_mat m = {base, stride, NULL, ld, NULL};
    return m;
}
static inline moao_batch_mat moao_batch_pointers(void *const *ptrs, int64_t ld) {
    moao_batch_mat m = {NULL, 0, ptrs, ld, NULL};
    return m;
}
static inline moao_batch_dim moao_batch_size(int64_t n) {
    moao_batch_dim d = {n, NULL};
    return d;
}

/* The operations, each as its dense counterpart in backend.h; types D and S. MOAO_INPUT: a letter
 * or the type is wrong, count is negative, a size is negative or above its bound, or a leading
 * dimension too small (what lies in arrays is not looked at). */

/* C := alpha op(A) op(B) + beta C, C m x n, k the inner size; each of the three at most
 * MOAO_BATCH_WIDE_MAX, and at most 2^31 - 1 tiles of 64 x 64 in all C together. A matrix of which
 * any size in an array is out of range is left alone. The order of a sum depends on k alone, so the
 * bits of C do not depend on the other matrices, or on where it stands among them. */
typedef moao_status moao_batch_gemm_op(moao_backend_ctx *ctx, moao_backend_type t, char transa,
                                       char transb, int64_t count, moao_batch_dim m,
                                       moao_batch_dim n, moao_batch_dim k, const void *alpha,
                                       moao_batch_mat a, moao_batch_mat b, const void *beta,
                                       moao_batch_mat c);
typedef moao_status moao_batch_syrk_op(moao_backend_ctx *ctx, moao_backend_type t, char uplo,
                                       char trans, int64_t count, moao_batch_dim n,
                                       moao_batch_dim k, const void *alpha, moao_batch_mat a,
                                       const void *beta, moao_batch_mat c);
/* trsm, trmm */
typedef moao_status moao_batch_tri_op(moao_backend_ctx *ctx, moao_backend_type t, char side,
                                      char uplo, char trans, char diag, int64_t count,
                                      moao_batch_dim m, moao_batch_dim n, const void *alpha,
                                      moao_batch_mat a, moao_batch_mat b);
/* potrf, potri, poti */
typedef moao_status moao_batch_factor_op(moao_backend_ctx *ctx, moao_backend_type t, char uplo,
                                         int64_t count, moao_batch_dim n, moao_batch_mat a,
                                         int *info);
typedef moao_status moao_batch_trtri_op(moao_backend_ctx *ctx, moao_backend_type t, char uplo,
                                        char diag, int64_t count, moao_batch_dim n,
                                        moao_batch_mat a, int *info);
typedef moao_status moao_batch_lauum_op(moao_backend_ctx *ctx, moao_backend_type t, char uplo,
                                        int64_t count, moao_batch_dim n, moao_batch_mat a);
typedef moao_status moao_batch_potrs_op(moao_backend_ctx *ctx, moao_backend_type t, char uplo,
                                        int64_t count, moao_batch_dim n, moao_batch_dim nrhs,
                                        moao_batch_mat a, moao_batch_mat b);
typedef moao_status moao_batch_posv_op(moao_backend_ctx *ctx, moao_backend_type t, char uplo,
                                       int64_t count, moao_batch_dim n, moao_batch_dim nrhs,
                                       moao_batch_mat a, moao_batch_mat b, int *info);

/* A product whose columns go to places of their own: C, of m rows, gets op(A) B, m x k times k x n;
 * turned: A is given as k x m. Column x of the product becomes column column[first + x] of C. k =
 * 0: zeros. */
typedef struct {
    const void *a, *b;
    void *c;
    int64_t lda, ldb, m, n, k, first, turned;
} moao_batch_scatter;

/* `count` products of at most `rows` rows, all C of one leading dimension; list and column lie in
 * the backend's memory and are not looked at. No column is written twice. The order of a sum
 * depends on k alone. At most 2^31 - 1 runs of 64 rows in all. */
typedef moao_status moao_batch_scatter_op(moao_backend_ctx *ctx, moao_backend_type t, int64_t count,
                                          int64_t rows, const moao_batch_scatter *list,
                                          const int64_t *column, int64_t ldc);

/* A B^T, A m x k, B n x k; and a matrix in double precision, m x n, to which alpha times the sum of
 * such products, first .. first + parts of a list, is added. */
typedef struct {
    const void *a, *b;
    int64_t lda, ldb, k;
} moao_batch_part;
typedef struct {
    double *c;
    int64_t m, n, first, parts;
} moao_batch_gather;

/* `count` matrices of at most rows x cols, all of one leading dimension, products of type t; both
 * lists lie in the backend's memory and are not looked at. No entry is in two matrices. The order
 * of a sum depends on the parts alone. At most 2^31 - 1 runs of 64 rows in all. */
typedef moao_status moao_batch_gather_op(moao_backend_ctx *ctx, moao_backend_type t, int64_t count,
                                         int64_t rows, int64_t cols, const moao_batch_gather *list,
                                         const moao_batch_part *part, double alpha, int64_t ldc);

typedef struct moao_backend_batch {
    size_t size; /* sizeof(moao_backend_batch) */
    moao_batch_gemm_op *gemm;
    moao_batch_syrk_op *syrk;
    moao_batch_tri_op *trsm, *trmm;
    moao_batch_factor_op *potrf, *potri, *poti;
    moao_batch_trtri_op *trtri;
    moao_batch_lauum_op *lauum;
    moao_batch_potrs_op *potrs;
    moao_batch_posv_op *posv;
    moao_batch_scatter_op *scatter;
    moao_batch_gather_op *gather;
} moao_backend_batch;

#ifdef __cplusplus
}
#endif
/* at the end, for it needs what stands above */
#include "backend_lowrank.h"

#endif
