/* Batched operations on complex matrices by one call each, as moao/batched.h for real ones: what it
 * says of contexts, memory, errors and the workspace that a context keeps holds here too.
 *
 * moao_z... has entries of two double numbers (double _Complex, std::complex<double>), moao_c... of
 * two float numbers. Pointers to entries are void *, as in CBLAS; strides and leading dimensions
 * count entries. alpha and beta point to one entry in the host's memory. trans: N, T (transposed)
 * or C (conjugate transpose). Local; they wait. */
#ifndef MOAO_BATCHED_COMPLEX_H
#define MOAO_BATCHED_COMPLEX_H

#include "backend.h"

#ifdef __cplusplus
extern "C" {
#endif

/* C := alpha op(A) op(B) + beta C, C m x n, k the inner size. */
MOAO_PUBLIC moao_status moao_zgemm_batched(moao_backend_ctx *ctx, char transa, char transb,
                                           int64_t m, int64_t n, int64_t k, const void *alpha,
                                           const void *const *a, int64_t lda, const void *const *b,
                                           int64_t ldb, const void *beta, void *const *c,
                                           int64_t ldc, int64_t count);
MOAO_PUBLIC moao_status moao_zgemm_strided_batched(moao_backend_ctx *ctx, char transa, char transb,
                                                   int64_t m, int64_t n, int64_t k,
                                                   const void *alpha, const void *a, int64_t lda,
                                                   int64_t stridea, const void *b, int64_t ldb,
                                                   int64_t strideb, const void *beta, void *c,
                                                   int64_t ldc, int64_t stridec, int64_t count);
MOAO_PUBLIC moao_status moao_cgemm_batched(moao_backend_ctx *ctx, char transa, char transb,
                                           int64_t m, int64_t n, int64_t k, const void *alpha,
                                           const void *const *a, int64_t lda, const void *const *b,
                                           int64_t ldb, const void *beta, void *const *c,
                                           int64_t ldc, int64_t count);
MOAO_PUBLIC moao_status moao_cgemm_strided_batched(moao_backend_ctx *ctx, char transa, char transb,
                                                   int64_t m, int64_t n, int64_t k,
                                                   const void *alpha, const void *a, int64_t lda,
                                                   int64_t stridea, const void *b, int64_t ldb,
                                                   int64_t strideb, const void *beta, void *c,
                                                   int64_t ldc, int64_t stridec, int64_t count);

/* B := alpha op(A)^-1 B (side L) or alpha B op(A)^-1 (side R), B m x n, A triangular. A 0 on the
 * diagonal gives what a division by it gives. */
MOAO_PUBLIC moao_status moao_ztrsm_batched(moao_backend_ctx *ctx, char side, char uplo, char trans,
                                           char diag, int64_t m, int64_t n, const void *alpha,
                                           const void *const *a, int64_t lda, void *const *b,
                                           int64_t ldb, int64_t count);
MOAO_PUBLIC moao_status moao_ztrsm_strided_batched(moao_backend_ctx *ctx, char side, char uplo,
                                                   char trans, char diag, int64_t m, int64_t n,
                                                   const void *alpha, const void *a, int64_t lda,
                                                   int64_t stridea, void *b, int64_t ldb,
                                                   int64_t strideb, int64_t count);
MOAO_PUBLIC moao_status moao_ctrsm_batched(moao_backend_ctx *ctx, char side, char uplo, char trans,
                                           char diag, int64_t m, int64_t n, const void *alpha,
                                           const void *const *a, int64_t lda, void *const *b,
                                           int64_t ldb, int64_t count);
MOAO_PUBLIC moao_status moao_ctrsm_strided_batched(moao_backend_ctx *ctx, char side, char uplo,
                                                   char trans, char diag, int64_t m, int64_t n,
                                                   const void *alpha, const void *a, int64_t lda,
                                                   int64_t stridea, void *b, int64_t ldb,
                                                   int64_t strideb, int64_t count);

/* A = L L^H (uplo L) or U^H U, A Hermitian positive definite of order n; the other triangle is not
 * touched. info k: the leading minor of order k is not positive, or not finite. */
MOAO_PUBLIC moao_status moao_zpotrf_batched(moao_backend_ctx *ctx, char uplo, int64_t n,
                                            void *const *a, int64_t lda, int *info, int64_t count);
MOAO_PUBLIC moao_status moao_zpotrf_strided_batched(moao_backend_ctx *ctx, char uplo, int64_t n,
                                                    void *a, int64_t lda, int64_t stridea,
                                                    int *info, int64_t count);
MOAO_PUBLIC moao_status moao_cpotrf_batched(moao_backend_ctx *ctx, char uplo, int64_t n,
                                            void *const *a, int64_t lda, int *info, int64_t count);
MOAO_PUBLIC moao_status moao_cpotrf_strided_batched(moao_backend_ctx *ctx, char uplo, int64_t n,
                                                    void *a, int64_t lda, int64_t stridea,
                                                    int *info, int64_t count);

/* A = Q R, m x n, as LAPACK: R, below it the reflectors I - tau v v^H, min(m, n) entries of tau. */
MOAO_PUBLIC moao_status moao_zgeqrf_batched(moao_backend_ctx *ctx, int64_t m, int64_t n,
                                            void *const *a, int64_t lda, void *const *tau,
                                            int64_t count);
MOAO_PUBLIC moao_status moao_zgeqrf_strided_batched(moao_backend_ctx *ctx, int64_t m, int64_t n,
                                                    void *a, int64_t lda, int64_t stridea,
                                                    void *tau, int64_t stridetau, int64_t count);
MOAO_PUBLIC moao_status moao_cgeqrf_batched(moao_backend_ctx *ctx, int64_t m, int64_t n,
                                            void *const *a, int64_t lda, void *const *tau,
                                            int64_t count);
MOAO_PUBLIC moao_status moao_cgeqrf_strided_batched(moao_backend_ctx *ctx, int64_t m, int64_t n,
                                                    void *a, int64_t lda, int64_t stridea,
                                                    void *tau, int64_t stridetau, int64_t count);

/* A = U diag(S) V^H by one-sided Jacobi rotations; A is only read. U m x k, V n x k, k = min(m, n)
 * at most MOAO_BATCH_SVD_MAX, S real and descending. jobu, jobv: N none (the pointer may be NULL),
 * U orthonormal, S times the singular values. The entry of largest modulus of each column of U (of
 * V, where jobu is N) is real and positive. info k: column k has a NaN or an infinity; -2: the
 * rotations did not converge. */
MOAO_PUBLIC moao_status moao_zgesvj_batched(moao_backend_ctx *ctx, char jobu, char jobv, int64_t m,
                                            int64_t n, const void *const *a, int64_t lda,
                                            double *const *s, void *const *u, int64_t ldu,
                                            void *const *v, int64_t ldv, int *info, int64_t count);
MOAO_PUBLIC moao_status moao_zgesvj_strided_batched(moao_backend_ctx *ctx, char jobu, char jobv,
                                                    int64_t m, int64_t n, const void *a,
                                                    int64_t lda, int64_t stridea, double *s,
                                                    int64_t strides, void *u, int64_t ldu,
                                                    int64_t strideu, void *v, int64_t ldv,
                                                    int64_t stridev, int *info, int64_t count);
MOAO_PUBLIC moao_status moao_cgesvj_batched(moao_backend_ctx *ctx, char jobu, char jobv, int64_t m,
                                            int64_t n, const void *const *a, int64_t lda,
                                            float *const *s, void *const *u, int64_t ldu,
                                            void *const *v, int64_t ldv, int *info, int64_t count);
MOAO_PUBLIC moao_status moao_cgesvj_strided_batched(moao_backend_ctx *ctx, char jobu, char jobv,
                                                    int64_t m, int64_t n, const void *a,
                                                    int64_t lda, int64_t stridea, float *s,
                                                    int64_t strides, void *u, int64_t ldu,
                                                    int64_t strideu, void *v, int64_t ldv,
                                                    int64_t stridev, int *info, int64_t count);

#ifdef __cplusplus
}
#endif
#endif
