/* Batched operations on complex matrices, one size for a call: a table, as moao/backend_batch.h for
 * real ones. Types Z (two double numbers an entry) and C (two float numbers); matrices are given by
 * an array of `count` pointers in the backend's memory, column-major, with one leading dimension.
 * Letters are those of BLAS: trans T is the transpose, C the conjugate transpose. On GPUs products,
 * solves and reflectors are the vendor's, the Cholesky factor and singular values are kernels of
 * our own. Local. */
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

/* A = U diag(S) V^H by one-sided Jacobi rotations; k = min(m, n) <= 512. jobu, jobv: N none (its
 * pointers may be NULL), U orthonormal, S times the singular values. s: k real numbers of the
 * precision of t, descending. u: m x k, v: n x k; the entry of largest modulus (the first of
 * equals) of each column of u, of v if jobu is N, is real and positive. A is only read. Values are
 * accurate to some units of rounding of themselves where A is a well-conditioned matrix times a
 * diagonal one from the right (m >= n; else from the left). info [count], in the backend's memory:
 * 0; k > 0: column k is the first with a NaN or an infinity, and nothing is written; -2: 30 sweeps
 * were not enough. work: moao_complex_gesvj_bytes at best, those of count = 1 at least. */
typedef moao_status moao_complex_gesvj_op(moao_backend_ctx *ctx, moao_backend_type t, char jobu,
                                          char jobv, int64_t count, int64_t m, int64_t n,
                                          void *const *a, int64_t lda, void *const *s,
                                          void *const *u, int64_t ldu, void *const *v, int64_t ldv,
                                          int *info, void *work, size_t lwork);

typedef struct moao_backend_complex {
    size_t size; /* of this table */
    moao_complex_gemm_op *gemm;
    moao_complex_trsm_op *trsm;
    moao_complex_potrf_op *potrf;
    moao_complex_geqrf_op *geqrf;
    moao_complex_gesvj_op *gesvj;
} moao_backend_complex;

/* Bytes of workspace of gesvj: of as many matrices as are worked on together, at most; the CPU
 * needs none. */
static inline size_t moao_complex_gesvj_bytes(const moao_backend *be, moao_backend_type t,
                                              int64_t count, int64_t m, int64_t n) {
    const int64_t k = m < n ? m : n, l = m < n ? n : m, most = 512;
    const size_t one = (moao_backend_size(t) * (size_t)(k * (k + l)) + 255) / 256 * 256;
    return be == &moao_backend_cpu ? 0 : one * (size_t)(count < most ? count : most);
}

#ifdef __cplusplus
}
#endif
#endif
