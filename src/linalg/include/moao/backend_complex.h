/* Batched operations on complex matrices, one size for a call: a table, as moao/backend_batch.h for
 * real ones. Types Z (two double numbers an entry) and C (two float numbers); matrices are given by
 * an array of `count` pointers in the backend's memory, column-major, with one leading dimension.
 * Letters are those of BLAS: trans T is the transpose, C the conjugate transpose. On GPUs products,
 * solves and reflectors are the vendor's, the Cholesky factor is a kernel of its own. Local. */
#ifndef MOAO_BACKEND_COMPLEX_H
#define MOAO_BACKEND_COMPLEX_H

#include "backend.h"

#ifdef __cplusplus
extern "C" {
#endif

/* C := alpha op(A) op(B) + beta C, C m x n, k the inner size. beta = 0 does not read C. */
typedef moao_status moao_complex_gemm_op(moao_backend_ctx *ctx, moao_backend_type t, char transa,
                                         char transb, int64_t count, int64_t m, int64_t n,
                                         int64_t k, const void *alpha, const void *const *a,
                                         int64_t lda, const void *const *b, int64_t ldb,
                                         const void *beta, void *const *c, int64_t ldc);
/* B := alpha op(A)^-1 B (side L) or alpha B op(A)^-1 (side R), B m x n, A triangular. */
typedef moao_status moao_complex_trsm_op(moao_backend_ctx *ctx, moao_backend_type t, char side,
                                         char uplo, char trans, char diag, int64_t count, int64_t m,
                                         int64_t n, const void *alpha, const void *const *a,
                                         int64_t lda, void *const *b, int64_t ldb);
/* A = L L^H (uplo L) or U^H U of a Hermitian positive definite matrix of order n, whose other
 * triangle is not touched; imaginary parts of the diagonal are not read. info [count], in the
 * backend's memory: 0, or k: the leading minor of order k is not positive, or not finite. */
typedef moao_status moao_complex_potrf_op(moao_backend_ctx *ctx, moao_backend_type t, char uplo,
                                          int64_t count, int64_t n, void *const *a, int64_t lda,
                                          int *info);
/* A = Q R, m x n, as LAPACK: R in the upper triangle, reflectors I - tau v v^H below, tau[b]
 * min(m, n) entries each. */
typedef moao_status moao_complex_geqrf_op(moao_backend_ctx *ctx, moao_backend_type t, int64_t count,
                                          int64_t m, int64_t n, void *const *a, int64_t lda,
                                          void *const *tau);

typedef struct moao_backend_complex {
    size_t size; /* of this table */
    moao_complex_gemm_op *gemm;
    moao_complex_trsm_op *trsm;
    moao_complex_potrf_op *potrf;
    moao_complex_geqrf_op *geqrf;
} moao_backend_complex;

#ifdef __cplusplus
}
#endif
#endif
