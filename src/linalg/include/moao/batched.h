/* Batched operations by one call each, typed, with LAPACK's names and letters: the operations of
 * moao/backend_batch.h and moao/backend_lowrank.h for those who neither bring workspace nor wait.
 *
 * moao_dNAME_batched takes matrices through an array of pointers, moao_dNAME_strided_batched the
 * first one and the distance to the next in elements (0 is allowed where a matrix is only read);
 * moao_s... is single precision. `count` matrices of one size, column-major.
 *
 * - ctx: a context of a backend (be->open); NULL: the CPU. Entries of matrices and vectors lie in
 *   the backend's memory (be->alloc, or what the device can reach). All else lies in the host's:
 *   the arrays of pointers, ranks, info.
 * - A call brings what it works in, and waits: a workspace of at most 1 GiB, unless one matrix
 * needs more; for products of low-rank matrices their intermediate factors. The context keeps that
 *   memory for the next call (2 GiB at most) until be->close or moao_batched_trim, so that only the
 *   first call of a size allocates; with ctx NULL nothing is kept. Calls in one context are one
 *   thread's at a time, as all use of a context. Tables can be captured in a graph, calls cannot.
 * - MOAO_INPUT: an argument is wrong, and nothing was touched. The message (moao_status_message)
 *   says which one, counted from ctx as 1: "moao_dgeqrf_batched: argument 5 (lda) is 3, at least 5
 *   is expected". MOAO_NUMERIC: a matrix failed; the message names the first one, info (NULL: not
 *   asked for) has the number of each as in the two headers. No matrix disturbs another.
 * - Results have the bits that the tables' operations give. Local. */
#ifndef MOAO_BATCHED_H
#define MOAO_BATCHED_H

#include "backend.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Memory that a context keeps for these calls goes back to the backend; the next call takes its
 * own. NULL is fine. */
MOAO_PUBLIC void moao_batched_trim(moao_backend_ctx *ctx);

/* Products, triangular operations. */

/* C := alpha op(A) op(B) + beta C, C m x n, k the inner size; op: trans N, T (C: as T). A and B
 * are only read. */
MOAO_PUBLIC moao_status moao_dgemm_batched(moao_backend_ctx *ctx, char transa, char transb,
                                           int64_t m, int64_t n, int64_t k, double alpha,
                                           double *const *a, int64_t lda, double *const *b,
                                           int64_t ldb, double beta, double *const *c, int64_t ldc,
                                           int64_t count);
MOAO_PUBLIC moao_status moao_sgemm_batched(moao_backend_ctx *ctx, char transa, char transb,
                                           int64_t m, int64_t n, int64_t k, float alpha,
                                           float *const *a, int64_t lda, float *const *b,
                                           int64_t ldb, float beta, float *const *c, int64_t ldc,
                                           int64_t count);
MOAO_PUBLIC moao_status moao_dgemm_strided_batched(moao_backend_ctx *ctx, char transa, char transb,
                                                   int64_t m, int64_t n, int64_t k, double alpha,
                                                   const double *a, int64_t lda, int64_t stridea,
                                                   const double *b, int64_t ldb, int64_t strideb,
                                                   double beta, double *c, int64_t ldc,
                                                   int64_t stridec, int64_t count);
MOAO_PUBLIC moao_status moao_sgemm_strided_batched(moao_backend_ctx *ctx, char transa, char transb,
                                                   int64_t m, int64_t n, int64_t k, float alpha,
                                                   const float *a, int64_t lda, int64_t stridea,
                                                   const float *b, int64_t ldb, int64_t strideb,
                                                   float beta, float *c, int64_t ldc,
                                                   int64_t stridec, int64_t count);

/* Triangle uplo of C := alpha op(A) op(A)^T + beta C, C n x n, op(A) n x k. */
MOAO_PUBLIC moao_status moao_dsyrk_batched(moao_backend_ctx *ctx, char uplo, char trans, int64_t n,
                                           int64_t k, double alpha, double *const *a, int64_t lda,
                                           double beta, double *const *c, int64_t ldc,
                                           int64_t count);
MOAO_PUBLIC moao_status moao_ssyrk_batched(moao_backend_ctx *ctx, char uplo, char trans, int64_t n,
                                           int64_t k, float alpha, float *const *a, int64_t lda,
                                           float beta, float *const *c, int64_t ldc, int64_t count);
MOAO_PUBLIC moao_status moao_dsyrk_strided_batched(moao_backend_ctx *ctx, char uplo, char trans,
                                                   int64_t n, int64_t k, double alpha,
                                                   const double *a, int64_t lda, int64_t stridea,
                                                   double beta, double *c, int64_t ldc,
                                                   int64_t stridec, int64_t count);
MOAO_PUBLIC moao_status moao_ssyrk_strided_batched(moao_backend_ctx *ctx, char uplo, char trans,
                                                   int64_t n, int64_t k, float alpha,
                                                   const float *a, int64_t lda, int64_t stridea,
                                                   float beta, float *c, int64_t ldc,
                                                   int64_t stridec, int64_t count);

/* B := alpha op(A)^-1 B (side L) or alpha B op(A)^-1 (side R), B m x n, A triangular of order at
 * most MOAO_BATCH_MAX. */
MOAO_PUBLIC moao_status moao_dtrsm_batched(moao_backend_ctx *ctx, char side, char uplo, char trans,
                                           char diag, int64_t m, int64_t n, double alpha,
                                           double *const *a, int64_t lda, double *const *b,
                                           int64_t ldb, int64_t count);
MOAO_PUBLIC moao_status moao_strsm_batched(moao_backend_ctx *ctx, char side, char uplo, char trans,
                                           char diag, int64_t m, int64_t n, float alpha,
                                           float *const *a, int64_t lda, float *const *b,
                                           int64_t ldb, int64_t count);
MOAO_PUBLIC moao_status moao_dtrsm_strided_batched(moao_backend_ctx *ctx, char side, char uplo,
                                                   char trans, char diag, int64_t m, int64_t n,
                                                   double alpha, const double *a, int64_t lda,
                                                   int64_t stridea, double *b, int64_t ldb,
                                                   int64_t strideb, int64_t count);
MOAO_PUBLIC moao_status moao_strsm_strided_batched(moao_backend_ctx *ctx, char side, char uplo,
                                                   char trans, char diag, int64_t m, int64_t n,
                                                   float alpha, const float *a, int64_t lda,
                                                   int64_t stridea, float *b, int64_t ldb,
                                                   int64_t strideb, int64_t count);

/* B := alpha op(A) B (side L) or alpha B op(A) (side R), as trsm. */
MOAO_PUBLIC moao_status moao_dtrmm_batched(moao_backend_ctx *ctx, char side, char uplo, char trans,
                                           char diag, int64_t m, int64_t n, double alpha,
                                           double *const *a, int64_t lda, double *const *b,
                                           int64_t ldb, int64_t count);
MOAO_PUBLIC moao_status moao_strmm_batched(moao_backend_ctx *ctx, char side, char uplo, char trans,
                                           char diag, int64_t m, int64_t n, float alpha,
                                           float *const *a, int64_t lda, float *const *b,
                                           int64_t ldb, int64_t count);
MOAO_PUBLIC moao_status moao_dtrmm_strided_batched(moao_backend_ctx *ctx, char side, char uplo,
                                                   char trans, char diag, int64_t m, int64_t n,
                                                   double alpha, const double *a, int64_t lda,
                                                   int64_t stridea, double *b, int64_t ldb,
                                                   int64_t strideb, int64_t count);
MOAO_PUBLIC moao_status moao_strmm_strided_batched(moao_backend_ctx *ctx, char side, char uplo,
                                                   char trans, char diag, int64_t m, int64_t n,
                                                   float alpha, const float *a, int64_t lda,
                                                   int64_t stridea, float *b, int64_t ldb,
                                                   int64_t strideb, int64_t count);

/* Cholesky factors and what is made of them; order n at most MOAO_BATCH_MAX. */

/* The Cholesky factor in place of triangle uplo: A = L L^T or U^T U. */
MOAO_PUBLIC moao_status moao_dpotrf_batched(moao_backend_ctx *ctx, char uplo, int64_t n,
                                            double *const *a, int64_t lda, int *info,
                                            int64_t count);
MOAO_PUBLIC moao_status moao_spotrf_batched(moao_backend_ctx *ctx, char uplo, int64_t n,
                                            float *const *a, int64_t lda, int *info, int64_t count);
MOAO_PUBLIC moao_status moao_dpotrf_strided_batched(moao_backend_ctx *ctx, char uplo, int64_t n,
                                                    double *a, int64_t lda, int64_t stridea,
                                                    int *info, int64_t count);
MOAO_PUBLIC moao_status moao_spotrf_strided_batched(moao_backend_ctx *ctx, char uplo, int64_t n,
                                                    float *a, int64_t lda, int64_t stridea,
                                                    int *info, int64_t count);

/* The inverse of A in place of its factor. */
MOAO_PUBLIC moao_status moao_dpotri_batched(moao_backend_ctx *ctx, char uplo, int64_t n,
                                            double *const *a, int64_t lda, int *info,
                                            int64_t count);
MOAO_PUBLIC moao_status moao_spotri_batched(moao_backend_ctx *ctx, char uplo, int64_t n,
                                            float *const *a, int64_t lda, int *info, int64_t count);
MOAO_PUBLIC moao_status moao_dpotri_strided_batched(moao_backend_ctx *ctx, char uplo, int64_t n,
                                                    double *a, int64_t lda, int64_t stridea,
                                                    int *info, int64_t count);
MOAO_PUBLIC moao_status moao_spotri_strided_batched(moao_backend_ctx *ctx, char uplo, int64_t n,
                                                    float *a, int64_t lda, int64_t stridea,
                                                    int *info, int64_t count);

/* The inverse of A in place of A (potrf, potri). */
MOAO_PUBLIC moao_status moao_dpoti_batched(moao_backend_ctx *ctx, char uplo, int64_t n,
                                           double *const *a, int64_t lda, int *info, int64_t count);
MOAO_PUBLIC moao_status moao_spoti_batched(moao_backend_ctx *ctx, char uplo, int64_t n,
                                           float *const *a, int64_t lda, int *info, int64_t count);
MOAO_PUBLIC moao_status moao_dpoti_strided_batched(moao_backend_ctx *ctx, char uplo, int64_t n,
                                                   double *a, int64_t lda, int64_t stridea,
                                                   int *info, int64_t count);
MOAO_PUBLIC moao_status moao_spoti_strided_batched(moao_backend_ctx *ctx, char uplo, int64_t n,
                                                   float *a, int64_t lda, int64_t stridea,
                                                   int *info, int64_t count);

/* The inverse of a triangle in its place. */
MOAO_PUBLIC moao_status moao_dtrtri_batched(moao_backend_ctx *ctx, char uplo, char diag, int64_t n,
                                            double *const *a, int64_t lda, int *info,
                                            int64_t count);
MOAO_PUBLIC moao_status moao_strtri_batched(moao_backend_ctx *ctx, char uplo, char diag, int64_t n,
                                            float *const *a, int64_t lda, int *info, int64_t count);
MOAO_PUBLIC moao_status moao_dtrtri_strided_batched(moao_backend_ctx *ctx, char uplo, char diag,
                                                    int64_t n, double *a, int64_t lda,
                                                    int64_t stridea, int *info, int64_t count);
MOAO_PUBLIC moao_status moao_strtri_strided_batched(moao_backend_ctx *ctx, char uplo, char diag,
                                                    int64_t n, float *a, int64_t lda,
                                                    int64_t stridea, int *info, int64_t count);

/* L^T L or U U^T in place of the triangle. */
MOAO_PUBLIC moao_status moao_dlauum_batched(moao_backend_ctx *ctx, char uplo, int64_t n,
                                            double *const *a, int64_t lda, int64_t count);
MOAO_PUBLIC moao_status moao_slauum_batched(moao_backend_ctx *ctx, char uplo, int64_t n,
                                            float *const *a, int64_t lda, int64_t count);
MOAO_PUBLIC moao_status moao_dlauum_strided_batched(moao_backend_ctx *ctx, char uplo, int64_t n,
                                                    double *a, int64_t lda, int64_t stridea,
                                                    int64_t count);
MOAO_PUBLIC moao_status moao_slauum_strided_batched(moao_backend_ctx *ctx, char uplo, int64_t n,
                                                    float *a, int64_t lda, int64_t stridea,
                                                    int64_t count);

/* B := A^-1 B, B n x nrhs, by the factor of A. */
MOAO_PUBLIC moao_status moao_dpotrs_batched(moao_backend_ctx *ctx, char uplo, int64_t n,
                                            int64_t nrhs, double *const *a, int64_t lda,
                                            double *const *b, int64_t ldb, int64_t count);
MOAO_PUBLIC moao_status moao_spotrs_batched(moao_backend_ctx *ctx, char uplo, int64_t n,
                                            int64_t nrhs, float *const *a, int64_t lda,
                                            float *const *b, int64_t ldb, int64_t count);
MOAO_PUBLIC moao_status moao_dpotrs_strided_batched(moao_backend_ctx *ctx, char uplo, int64_t n,
                                                    int64_t nrhs, const double *a, int64_t lda,
                                                    int64_t stridea, double *b, int64_t ldb,
                                                    int64_t strideb, int64_t count);
MOAO_PUBLIC moao_status moao_spotrs_strided_batched(moao_backend_ctx *ctx, char uplo, int64_t n,
                                                    int64_t nrhs, const float *a, int64_t lda,
                                                    int64_t stridea, float *b, int64_t ldb,
                                                    int64_t strideb, int64_t count);

/* B := A^-1 B; the factor takes A's place. */
MOAO_PUBLIC moao_status moao_dposv_batched(moao_backend_ctx *ctx, char uplo, int64_t n,
                                           int64_t nrhs, double *const *a, int64_t lda,
                                           double *const *b, int64_t ldb, int *info, int64_t count);
MOAO_PUBLIC moao_status moao_sposv_batched(moao_backend_ctx *ctx, char uplo, int64_t n,
                                           int64_t nrhs, float *const *a, int64_t lda,
                                           float *const *b, int64_t ldb, int *info, int64_t count);
MOAO_PUBLIC moao_status moao_dposv_strided_batched(moao_backend_ctx *ctx, char uplo, int64_t n,
                                                   int64_t nrhs, double *a, int64_t lda,
                                                   int64_t stridea, double *b, int64_t ldb,
                                                   int64_t strideb, int *info, int64_t count);
MOAO_PUBLIC moao_status moao_sposv_strided_batched(moao_backend_ctx *ctx, char uplo, int64_t n,
                                                   int64_t nrhs, float *a, int64_t lda,
                                                   int64_t stridea, float *b, int64_t ldb,
                                                   int64_t strideb, int *info, int64_t count);

/* Orthogonal factors; min(m, n) at most MOAO_BATCH_ORTH_MAX. */

/* A = Q R as LAPACK's: R on and above the diagonal, reflectors below, tau: min(m, n) numbers. */
MOAO_PUBLIC moao_status moao_dgeqrf_batched(moao_backend_ctx *ctx, int64_t m, int64_t n,
                                            double *const *a, int64_t lda, double *const *tau,
                                            int *info, int64_t count);
MOAO_PUBLIC moao_status moao_sgeqrf_batched(moao_backend_ctx *ctx, int64_t m, int64_t n,
                                            float *const *a, int64_t lda, float *const *tau,
                                            int *info, int64_t count);
MOAO_PUBLIC moao_status moao_dgeqrf_strided_batched(moao_backend_ctx *ctx, int64_t m, int64_t n,
                                                    double *a, int64_t lda, int64_t stridea,
                                                    double *tau, int64_t stridetau, int *info,
                                                    int64_t count);
MOAO_PUBLIC moao_status moao_sgeqrf_strided_batched(moao_backend_ctx *ctx, int64_t m, int64_t n,
                                                    float *a, int64_t lda, int64_t stridea,
                                                    float *tau, int64_t stridetau, int *info,
                                                    int64_t count);

/* A := the first n columns of Q = H_1 ... H_k, k <= n <= m. */
MOAO_PUBLIC moao_status moao_dorgqr_batched(moao_backend_ctx *ctx, int64_t m, int64_t n, int64_t k,
                                            double *const *a, int64_t lda, double *const *tau,
                                            int64_t count);
MOAO_PUBLIC moao_status moao_sorgqr_batched(moao_backend_ctx *ctx, int64_t m, int64_t n, int64_t k,
                                            float *const *a, int64_t lda, float *const *tau,
                                            int64_t count);
MOAO_PUBLIC moao_status moao_dorgqr_strided_batched(moao_backend_ctx *ctx, int64_t m, int64_t n,
                                                    int64_t k, double *a, int64_t lda,
                                                    int64_t stridea, const double *tau,
                                                    int64_t stridetau, int64_t count);
MOAO_PUBLIC moao_status moao_sorgqr_strided_batched(moao_backend_ctx *ctx, int64_t m, int64_t n,
                                                    int64_t k, float *a, int64_t lda,
                                                    int64_t stridea, const float *tau,
                                                    int64_t stridetau, int64_t count);

/* C := op(Q) C (side L) or C op(Q) (side R), trans N or T, C m x n; k reflectors in A. */
MOAO_PUBLIC moao_status moao_dormqr_batched(moao_backend_ctx *ctx, char side, char trans, int64_t m,
                                            int64_t n, int64_t k, double *const *a, int64_t lda,
                                            double *const *tau, double *const *c, int64_t ldc,
                                            int64_t count);
MOAO_PUBLIC moao_status moao_sormqr_batched(moao_backend_ctx *ctx, char side, char trans, int64_t m,
                                            int64_t n, int64_t k, float *const *a, int64_t lda,
                                            float *const *tau, float *const *c, int64_t ldc,
                                            int64_t count);
MOAO_PUBLIC moao_status moao_dormqr_strided_batched(moao_backend_ctx *ctx, char side, char trans,
                                                    int64_t m, int64_t n, int64_t k,
                                                    const double *a, int64_t lda, int64_t stridea,
                                                    const double *tau, int64_t stridetau, double *c,
                                                    int64_t ldc, int64_t stridec, int64_t count);
MOAO_PUBLIC moao_status moao_sormqr_strided_batched(moao_backend_ctx *ctx, char side, char trans,
                                                    int64_t m, int64_t n, int64_t k, const float *a,
                                                    int64_t lda, int64_t stridea, const float *tau,
                                                    int64_t stridetau, float *c, int64_t ldc,
                                                    int64_t stridec, int64_t count);

/* A = Q R with R_jj >= 0, R min(m, n) x n with zeros below its diagonal. job Q: Q in the first
 * min(m, n) columns of A; R: A is unspecified. */
MOAO_PUBLIC moao_status moao_dqr_batched(moao_backend_ctx *ctx, char job, int64_t m, int64_t n,
                                         double *const *a, int64_t lda, double *const *r,
                                         int64_t ldr, int *info, int64_t count);
MOAO_PUBLIC moao_status moao_sqr_batched(moao_backend_ctx *ctx, char job, int64_t m, int64_t n,
                                         float *const *a, int64_t lda, float *const *r, int64_t ldr,
                                         int *info, int64_t count);
MOAO_PUBLIC moao_status moao_dqr_strided_batched(moao_backend_ctx *ctx, char job, int64_t m,
                                                 int64_t n, double *a, int64_t lda, int64_t stridea,
                                                 double *r, int64_t ldr, int64_t strider, int *info,
                                                 int64_t count);
MOAO_PUBLIC moao_status moao_sqr_strided_batched(moao_backend_ctx *ctx, char job, int64_t m,
                                                 int64_t n, float *a, int64_t lda, int64_t stridea,
                                                 float *r, int64_t ldr, int64_t strider, int *info,
                                                 int64_t count);

/* Singular values, low rank. */

/* A = U diag(S) V^T by one-sided Jacobi rotations; U m x r, V n x r, r = min(m, n) at most
 * MOAO_BATCH_SVD_MAX, S descending. jobu, jobv: N none (the pointer may be NULL), U orthonormal, S
 * times the singular values. A is unspecified afterwards. */
MOAO_PUBLIC moao_status moao_dgesvj_batched(moao_backend_ctx *ctx, char jobu, char jobv, int64_t m,
                                            int64_t n, double *const *a, int64_t lda,
                                            double *const *s, double *const *u, int64_t ldu,
                                            double *const *v, int64_t ldv, int *info,
                                            int64_t count);
MOAO_PUBLIC moao_status moao_sgesvj_batched(moao_backend_ctx *ctx, char jobu, char jobv, int64_t m,
                                            int64_t n, float *const *a, int64_t lda,
                                            float *const *s, float *const *u, int64_t ldu,
                                            float *const *v, int64_t ldv, int *info, int64_t count);
MOAO_PUBLIC moao_status moao_dgesvj_strided_batched(moao_backend_ctx *ctx, char jobu, char jobv,
                                                    int64_t m, int64_t n, double *a, int64_t lda,
                                                    int64_t stridea, double *s, int64_t strides,
                                                    double *u, int64_t ldu, int64_t strideu,
                                                    double *v, int64_t ldv, int64_t stridev,
                                                    int *info, int64_t count);
MOAO_PUBLIC moao_status moao_sgesvj_strided_batched(moao_backend_ctx *ctx, char jobu, char jobv,
                                                    int64_t m, int64_t n, float *a, int64_t lda,
                                                    int64_t stridea, float *s, int64_t strides,
                                                    float *u, int64_t ldu, int64_t strideu,
                                                    float *v, int64_t ldv, int64_t stridev,
                                                    int *info, int64_t count);

/* A ~ U diag(S) V^T of rank k from k + over random samples (over < 0: 8), `power` (0 to 2)
 * subspace iterations; k + over at most MOAO_BATCH_SVD_MAX. A is only read. S: min(m, n, k)
 * numbers; U, V: k columns. *rank: less than k where singular values are 0. */
MOAO_PUBLIC moao_status moao_drsvd_batched(moao_backend_ctx *ctx, char jobu, char jobv, int64_t m,
                                           int64_t n, int64_t k, int64_t over, int power,
                                           uint64_t seed, double *const *a, int64_t lda,
                                           double *const *s, double *const *u, int64_t ldu,
                                           double *const *v, int64_t ldv, int64_t *rank, int *info,
                                           int64_t count);
MOAO_PUBLIC moao_status moao_srsvd_batched(moao_backend_ctx *ctx, char jobu, char jobv, int64_t m,
                                           int64_t n, int64_t k, int64_t over, int power,
                                           uint64_t seed, float *const *a, int64_t lda,
                                           float *const *s, float *const *u, int64_t ldu,
                                           float *const *v, int64_t ldv, int64_t *rank, int *info,
                                           int64_t count);
MOAO_PUBLIC moao_status moao_drsvd_strided_batched(
    moao_backend_ctx *ctx, char jobu, char jobv, int64_t m, int64_t n, int64_t k, int64_t over,
    int power, uint64_t seed, const double *a, int64_t lda, int64_t stridea, double *s,
    int64_t strides, double *u, int64_t ldu, int64_t strideu, double *v, int64_t ldv,
    int64_t stridev, int64_t *rank, int *info, int64_t count);
MOAO_PUBLIC moao_status moao_srsvd_strided_batched(
    moao_backend_ctx *ctx, char jobu, char jobv, int64_t m, int64_t n, int64_t k, int64_t over,
    int power, uint64_t seed, const float *a, int64_t lda, int64_t stridea, float *s,
    int64_t strides, float *u, int64_t ldu, int64_t strideu, float *v, int64_t ldv, int64_t stridev,
    int64_t *rank, int *info, int64_t count);

/* A ~ U V^T with norm_F(A - U V^T) <= tol norm_F(A) (kind R) or tol (kind A), in at most `most`
 * columns (MOAO_BATCH_SVD_MAX). A is only read. job L: U orthonormal; R: V; B: both carry roots of
 * the singular values. */
MOAO_PUBLIC moao_status moao_dara_batched(moao_backend_ctx *ctx, char job, int64_t m, int64_t n,
                                          double tol, char kind, int64_t most, uint64_t seed,
                                          double *const *a, int64_t lda, double *const *u,
                                          int64_t ldu, double *const *v, int64_t ldv, int64_t *rank,
                                          int *info, int64_t count);
MOAO_PUBLIC moao_status moao_sara_batched(moao_backend_ctx *ctx, char job, int64_t m, int64_t n,
                                          double tol, char kind, int64_t most, uint64_t seed,
                                          float *const *a, int64_t lda, float *const *u,
                                          int64_t ldu, float *const *v, int64_t ldv, int64_t *rank,
                                          int *info, int64_t count);
MOAO_PUBLIC moao_status moao_dara_strided_batched(moao_backend_ctx *ctx, char job, int64_t m,
                                                  int64_t n, double tol, char kind, int64_t most,
                                                  uint64_t seed, const double *a, int64_t lda,
                                                  int64_t stridea, double *u, int64_t ldu,
                                                  int64_t strideu, double *v, int64_t ldv,
                                                  int64_t stridev, int64_t *rank, int *info,
                                                  int64_t count);
MOAO_PUBLIC moao_status moao_sara_strided_batched(moao_backend_ctx *ctx, char job, int64_t m,
                                                  int64_t n, double tol, char kind, int64_t most,
                                                  uint64_t seed, const float *a, int64_t lda,
                                                  int64_t stridea, float *u, int64_t ldu,
                                                  int64_t strideu, float *v, int64_t ldv,
                                                  int64_t stridev, int64_t *rank, int *info,
                                                  int64_t count);

/* U V^T := beta U V^T + alpha U2 V2^T, cut as by ara. k, k2: columns of each matrix on entry, the
 * largest ones together at most MOAO_BATCH_SUM_MAX; U and V have room for max(most, largest k)
 * columns. rank may be k. */
MOAO_PUBLIC moao_status moao_drecompress_batched(moao_backend_ctx *ctx, char job, int64_t m,
                                                 int64_t n, double tol, char kind, int64_t most,
                                                 double beta, const int64_t *k, double *const *u,
                                                 int64_t ldu, double *const *v, int64_t ldv,
                                                 double alpha, const int64_t *k2, double *const *u2,
                                                 int64_t ldu2, double *const *v2, int64_t ldv2,
                                                 int64_t *rank, int *info, int64_t count);
MOAO_PUBLIC moao_status moao_srecompress_batched(moao_backend_ctx *ctx, char job, int64_t m,
                                                 int64_t n, double tol, char kind, int64_t most,
                                                 float beta, const int64_t *k, float *const *u,
                                                 int64_t ldu, float *const *v, int64_t ldv,
                                                 float alpha, const int64_t *k2, float *const *u2,
                                                 int64_t ldu2, float *const *v2, int64_t ldv2,
                                                 int64_t *rank, int *info, int64_t count);
MOAO_PUBLIC moao_status moao_drecompress_strided_batched(
    moao_backend_ctx *ctx, char job, int64_t m, int64_t n, double tol, char kind, int64_t most,
    double beta, const int64_t *k, double *u, int64_t ldu, int64_t strideu, double *v, int64_t ldv,
    int64_t stridev, double alpha, const int64_t *k2, const double *u2, int64_t ldu2,
    int64_t strideu2, const double *v2, int64_t ldv2, int64_t stridev2, int64_t *rank, int *info,
    int64_t count);
MOAO_PUBLIC moao_status moao_srecompress_strided_batched(
    moao_backend_ctx *ctx, char job, int64_t m, int64_t n, double tol, char kind, int64_t most,
    float beta, const int64_t *k, float *u, int64_t ldu, int64_t strideu, float *v, int64_t ldv,
    int64_t stridev, float alpha, const int64_t *k2, const float *u2, int64_t ldu2,
    int64_t strideu2, const float *v2, int64_t ldv2, int64_t stridev2, int64_t *rank, int *info,
    int64_t count);

/* Products of dense (D) and low-rank (L) matrices, named A B C: C := alpha op(A) op(B) + beta C, C
 * m x n, k the inner size. A low-rank A is UA VA^T of ka[b] columns, B of kb[b], C of kc[b]:
 * columns of each matrix, at most MOAO_BATCH_SVD_MAX. Factors are multiplied in the order that
 * costs least; no dense A or B is formed. */

MOAO_PUBLIC moao_status moao_dgemm_lld_batched(moao_backend_ctx *ctx, char transa, char transb,
                                               int64_t m, int64_t n, int64_t k, double alpha,
                                               const int64_t *ka, double *const *ua, int64_t ldua,
                                               double *const *va, int64_t ldva, const int64_t *kb,
                                               double *const *ub, int64_t ldub, double *const *vb,
                                               int64_t ldvb, double beta, double *const *c,
                                               int64_t ldc, int64_t count);
MOAO_PUBLIC moao_status moao_sgemm_lld_batched(moao_backend_ctx *ctx, char transa, char transb,
                                               int64_t m, int64_t n, int64_t k, float alpha,
                                               const int64_t *ka, float *const *ua, int64_t ldua,
                                               float *const *va, int64_t ldva, const int64_t *kb,
                                               float *const *ub, int64_t ldub, float *const *vb,
                                               int64_t ldvb, float beta, float *const *c,
                                               int64_t ldc, int64_t count);
MOAO_PUBLIC moao_status moao_dgemm_lld_strided_batched(
    moao_backend_ctx *ctx, char transa, char transb, int64_t m, int64_t n, int64_t k, double alpha,
    const int64_t *ka, const double *ua, int64_t ldua, int64_t strideua, const double *va,
    int64_t ldva, int64_t strideva, const int64_t *kb, const double *ub, int64_t ldub,
    int64_t strideub, const double *vb, int64_t ldvb, int64_t stridevb, double beta, double *c,
    int64_t ldc, int64_t stridec, int64_t count);
MOAO_PUBLIC moao_status moao_sgemm_lld_strided_batched(
    moao_backend_ctx *ctx, char transa, char transb, int64_t m, int64_t n, int64_t k, float alpha,
    const int64_t *ka, const float *ua, int64_t ldua, int64_t strideua, const float *va,
    int64_t ldva, int64_t strideva, const int64_t *kb, const float *ub, int64_t ldub,
    int64_t strideub, const float *vb, int64_t ldvb, int64_t stridevb, float beta, float *c,
    int64_t ldc, int64_t stridec, int64_t count);

MOAO_PUBLIC moao_status moao_dgemm_dld_batched(moao_backend_ctx *ctx, char transa, char transb,
                                               int64_t m, int64_t n, int64_t k, double alpha,
                                               double *const *a, int64_t lda, const int64_t *kb,
                                               double *const *ub, int64_t ldub, double *const *vb,
                                               int64_t ldvb, double beta, double *const *c,
                                               int64_t ldc, int64_t count);
MOAO_PUBLIC moao_status moao_sgemm_dld_batched(moao_backend_ctx *ctx, char transa, char transb,
                                               int64_t m, int64_t n, int64_t k, float alpha,
                                               float *const *a, int64_t lda, const int64_t *kb,
                                               float *const *ub, int64_t ldub, float *const *vb,
                                               int64_t ldvb, float beta, float *const *c,
                                               int64_t ldc, int64_t count);
MOAO_PUBLIC moao_status moao_dgemm_dld_strided_batched(
    moao_backend_ctx *ctx, char transa, char transb, int64_t m, int64_t n, int64_t k, double alpha,
    const double *a, int64_t lda, int64_t stridea, const int64_t *kb, const double *ub,
    int64_t ldub, int64_t strideub, const double *vb, int64_t ldvb, int64_t stridevb, double beta,
    double *c, int64_t ldc, int64_t stridec, int64_t count);
MOAO_PUBLIC moao_status moao_sgemm_dld_strided_batched(
    moao_backend_ctx *ctx, char transa, char transb, int64_t m, int64_t n, int64_t k, float alpha,
    const float *a, int64_t lda, int64_t stridea, const int64_t *kb, const float *ub, int64_t ldub,
    int64_t strideub, const float *vb, int64_t ldvb, int64_t stridevb, float beta, float *c,
    int64_t ldc, int64_t stridec, int64_t count);

MOAO_PUBLIC moao_status moao_dgemm_ldd_batched(moao_backend_ctx *ctx, char transa, char transb,
                                               int64_t m, int64_t n, int64_t k, double alpha,
                                               const int64_t *ka, double *const *ua, int64_t ldua,
                                               double *const *va, int64_t ldva, double *const *b,
                                               int64_t ldb, double beta, double *const *c,
                                               int64_t ldc, int64_t count);
MOAO_PUBLIC moao_status moao_sgemm_ldd_batched(moao_backend_ctx *ctx, char transa, char transb,
                                               int64_t m, int64_t n, int64_t k, float alpha,
                                               const int64_t *ka, float *const *ua, int64_t ldua,
                                               float *const *va, int64_t ldva, float *const *b,
                                               int64_t ldb, float beta, float *const *c,
                                               int64_t ldc, int64_t count);
MOAO_PUBLIC moao_status moao_dgemm_ldd_strided_batched(
    moao_backend_ctx *ctx, char transa, char transb, int64_t m, int64_t n, int64_t k, double alpha,
    const int64_t *ka, const double *ua, int64_t ldua, int64_t strideua, const double *va,
    int64_t ldva, int64_t strideva, const double *b, int64_t ldb, int64_t strideb, double beta,
    double *c, int64_t ldc, int64_t stridec, int64_t count);
MOAO_PUBLIC moao_status moao_sgemm_ldd_strided_batched(
    moao_backend_ctx *ctx, char transa, char transb, int64_t m, int64_t n, int64_t k, float alpha,
    const int64_t *ka, const float *ua, int64_t ldua, int64_t strideua, const float *va,
    int64_t ldva, int64_t strideva, const float *b, int64_t ldb, int64_t strideb, float beta,
    float *c, int64_t ldc, int64_t stridec, int64_t count);

/* A low-rank C is cut as by recompress (job L: UC orthonormal) to at most `most` columns. kc has
 * its columns on entry and on return. Where the largest kc and the largest number of columns of a
 * product are together more than MOAO_BATCH_SUM_MAX, C is formed dense, m x n for each matrix, and
 * compressed as by ara: give `most` 16 more than the rank where tol is below 3e-7. */

MOAO_PUBLIC moao_status moao_dgemm_lll_batched(
    moao_backend_ctx *ctx, char transa, char transb, int64_t m, int64_t n, int64_t k, double alpha,
    const int64_t *ka, double *const *ua, int64_t ldua, double *const *va, int64_t ldva,
    const int64_t *kb, double *const *ub, int64_t ldub, double *const *vb, int64_t ldvb,
    double beta, double tol, char kind, int64_t most, int64_t *kc, double *const *uc, int64_t lduc,
    double *const *vc, int64_t ldvc, int *info, int64_t count);
MOAO_PUBLIC moao_status moao_sgemm_lll_batched(
    moao_backend_ctx *ctx, char transa, char transb, int64_t m, int64_t n, int64_t k, float alpha,
    const int64_t *ka, float *const *ua, int64_t ldua, float *const *va, int64_t ldva,
    const int64_t *kb, float *const *ub, int64_t ldub, float *const *vb, int64_t ldvb, float beta,
    double tol, char kind, int64_t most, int64_t *kc, float *const *uc, int64_t lduc,
    float *const *vc, int64_t ldvc, int *info, int64_t count);
MOAO_PUBLIC moao_status moao_dgemm_lll_strided_batched(
    moao_backend_ctx *ctx, char transa, char transb, int64_t m, int64_t n, int64_t k, double alpha,
    const int64_t *ka, const double *ua, int64_t ldua, int64_t strideua, const double *va,
    int64_t ldva, int64_t strideva, const int64_t *kb, const double *ub, int64_t ldub,
    int64_t strideub, const double *vb, int64_t ldvb, int64_t stridevb, double beta, double tol,
    char kind, int64_t most, int64_t *kc, double *uc, int64_t lduc, int64_t strideuc, double *vc,
    int64_t ldvc, int64_t stridevc, int *info, int64_t count);
MOAO_PUBLIC moao_status moao_sgemm_lll_strided_batched(
    moao_backend_ctx *ctx, char transa, char transb, int64_t m, int64_t n, int64_t k, float alpha,
    const int64_t *ka, const float *ua, int64_t ldua, int64_t strideua, const float *va,
    int64_t ldva, int64_t strideva, const int64_t *kb, const float *ub, int64_t ldub,
    int64_t strideub, const float *vb, int64_t ldvb, int64_t stridevb, float beta, double tol,
    char kind, int64_t most, int64_t *kc, float *uc, int64_t lduc, int64_t strideuc, float *vc,
    int64_t ldvc, int64_t stridevc, int *info, int64_t count);

MOAO_PUBLIC moao_status moao_dgemm_dll_batched(
    moao_backend_ctx *ctx, char transa, char transb, int64_t m, int64_t n, int64_t k, double alpha,
    double *const *a, int64_t lda, const int64_t *kb, double *const *ub, int64_t ldub,
    double *const *vb, int64_t ldvb, double beta, double tol, char kind, int64_t most, int64_t *kc,
    double *const *uc, int64_t lduc, double *const *vc, int64_t ldvc, int *info, int64_t count);
MOAO_PUBLIC moao_status moao_sgemm_dll_batched(
    moao_backend_ctx *ctx, char transa, char transb, int64_t m, int64_t n, int64_t k, float alpha,
    float *const *a, int64_t lda, const int64_t *kb, float *const *ub, int64_t ldub,
    float *const *vb, int64_t ldvb, float beta, double tol, char kind, int64_t most, int64_t *kc,
    float *const *uc, int64_t lduc, float *const *vc, int64_t ldvc, int *info, int64_t count);
MOAO_PUBLIC moao_status moao_dgemm_dll_strided_batched(
    moao_backend_ctx *ctx, char transa, char transb, int64_t m, int64_t n, int64_t k, double alpha,
    const double *a, int64_t lda, int64_t stridea, const int64_t *kb, const double *ub,
    int64_t ldub, int64_t strideub, const double *vb, int64_t ldvb, int64_t stridevb, double beta,
    double tol, char kind, int64_t most, int64_t *kc, double *uc, int64_t lduc, int64_t strideuc,
    double *vc, int64_t ldvc, int64_t stridevc, int *info, int64_t count);
MOAO_PUBLIC moao_status moao_sgemm_dll_strided_batched(
    moao_backend_ctx *ctx, char transa, char transb, int64_t m, int64_t n, int64_t k, float alpha,
    const float *a, int64_t lda, int64_t stridea, const int64_t *kb, const float *ub, int64_t ldub,
    int64_t strideub, const float *vb, int64_t ldvb, int64_t stridevb, float beta, double tol,
    char kind, int64_t most, int64_t *kc, float *uc, int64_t lduc, int64_t strideuc, float *vc,
    int64_t ldvc, int64_t stridevc, int *info, int64_t count);

MOAO_PUBLIC moao_status moao_dgemm_ldl_batched(
    moao_backend_ctx *ctx, char transa, char transb, int64_t m, int64_t n, int64_t k, double alpha,
    const int64_t *ka, double *const *ua, int64_t ldua, double *const *va, int64_t ldva,
    double *const *b, int64_t ldb, double beta, double tol, char kind, int64_t most, int64_t *kc,
    double *const *uc, int64_t lduc, double *const *vc, int64_t ldvc, int *info, int64_t count);
MOAO_PUBLIC moao_status moao_sgemm_ldl_batched(
    moao_backend_ctx *ctx, char transa, char transb, int64_t m, int64_t n, int64_t k, float alpha,
    const int64_t *ka, float *const *ua, int64_t ldua, float *const *va, int64_t ldva,
    float *const *b, int64_t ldb, float beta, double tol, char kind, int64_t most, int64_t *kc,
    float *const *uc, int64_t lduc, float *const *vc, int64_t ldvc, int *info, int64_t count);
MOAO_PUBLIC moao_status moao_dgemm_ldl_strided_batched(
    moao_backend_ctx *ctx, char transa, char transb, int64_t m, int64_t n, int64_t k, double alpha,
    const int64_t *ka, const double *ua, int64_t ldua, int64_t strideua, const double *va,
    int64_t ldva, int64_t strideva, const double *b, int64_t ldb, int64_t strideb, double beta,
    double tol, char kind, int64_t most, int64_t *kc, double *uc, int64_t lduc, int64_t strideuc,
    double *vc, int64_t ldvc, int64_t stridevc, int *info, int64_t count);
MOAO_PUBLIC moao_status moao_sgemm_ldl_strided_batched(
    moao_backend_ctx *ctx, char transa, char transb, int64_t m, int64_t n, int64_t k, float alpha,
    const int64_t *ka, const float *ua, int64_t ldua, int64_t strideua, const float *va,
    int64_t ldva, int64_t strideva, const float *b, int64_t ldb, int64_t strideb, float beta,
    double tol, char kind, int64_t most, int64_t *kc, float *uc, int64_t lduc, int64_t strideuc,
    float *vc, int64_t ldvc, int64_t stridevc, int *info, int64_t count);

#ifdef __cplusplus
}
#endif
#endif
