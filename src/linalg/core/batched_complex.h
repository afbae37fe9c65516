/* The calls of moao/batched_complex.h in one precision: TYPE (backend_type), REAL (that of singular
 * values) and CALL (a name with its letter); batched.c includes this once for each. */

status CALL(gemm_batched)(backend_ctx *ctx, char transa, char transb, int64_t m, int64_t n,
                          int64_t k, const void *alpha, const void *const *a, int64_t lda,
                          const void *const *b, int64_t ldb, const void *beta, void *const *c,
                          int64_t ldc, int64_t count) {
    return complex_gemm(CALLED(gemm_batched, false), transa, transb, m, n, k, alpha,
                        POINTERS(a, lda), POINTERS(b, ldb), beta, POINTERS(c, ldc));
}

status CALL(gemm_strided_batched)(backend_ctx *ctx, char transa, char transb, int64_t m, int64_t n,
                                  int64_t k, const void *alpha, const void *a, int64_t lda,
                                  int64_t stridea, const void *b, int64_t ldb, int64_t strideb,
                                  const void *beta, void *c, int64_t ldc, int64_t stridec,
                                  int64_t count) {
    return complex_gemm(CALLED(gemm_strided_batched, true), transa, transb, m, n, k, alpha,
                        STRIDED(a, lda, stridea), STRIDED(b, ldb, strideb), beta,
                        STRIDED(c, ldc, stridec));
}

status CALL(trsm_batched)(backend_ctx *ctx, char side, char uplo, char trans, char diag, int64_t m,
                          int64_t n, const void *alpha, const void *const *a, int64_t lda,
                          void *const *b, int64_t ldb, int64_t count) {
    return complex_trsm(CALLED(trsm_batched, false), side, uplo, trans, diag, m, n, alpha,
                        POINTERS(a, lda), POINTERS(b, ldb));
}

status CALL(trsm_strided_batched)(backend_ctx *ctx, char side, char uplo, char trans, char diag,
                                  int64_t m, int64_t n, const void *alpha, const void *a,
                                  int64_t lda, int64_t stridea, void *b, int64_t ldb,
                                  int64_t strideb, int64_t count) {
    return complex_trsm(CALLED(trsm_strided_batched, true), side, uplo, trans, diag, m, n, alpha,
                        STRIDED(a, lda, stridea), STRIDED(b, ldb, strideb));
}

status CALL(potrf_batched)(backend_ctx *ctx, char uplo, int64_t n, void *const *a, int64_t lda,
                           int *info, int64_t count) {
    return complex_potrf(CALLED(potrf_batched, false), uplo, n, POINTERS(a, lda), info);
}

status CALL(potrf_strided_batched)(backend_ctx *ctx, char uplo, int64_t n, void *a, int64_t lda,
                                   int64_t stridea, int *info, int64_t count) {
    return complex_potrf(CALLED(potrf_strided_batched, true), uplo, n, STRIDED(a, lda, stridea),
                         info);
}

status CALL(geqrf_batched)(backend_ctx *ctx, int64_t m, int64_t n, void *const *a, int64_t lda,
                           void *const *tau, int64_t count) {
    return complex_geqrf(CALLED(geqrf_batched, false), m, n, POINTERS(a, lda), POINTERS(tau, 1));
}

status CALL(geqrf_strided_batched)(backend_ctx *ctx, int64_t m, int64_t n, void *a, int64_t lda,
                                   int64_t stridea, void *tau, int64_t stridetau, int64_t count) {
    return complex_geqrf(CALLED(geqrf_strided_batched, true), m, n, STRIDED(a, lda, stridea),
                         STRIDED(tau, 1, stridetau));
}

status CALL(gesvj_batched)(backend_ctx *ctx, char jobu, char jobv, int64_t m, int64_t n,
                           const void *const *a, int64_t lda, REAL *const *s, void *const *u,
                           int64_t ldu, void *const *v, int64_t ldv, int *info, int64_t count) {
    return complex_gesvj(CALLED(gesvj_batched, false), jobu, jobv, m, n, POINTERS(a, lda),
                         POINTERS(s, 1), POINTERS(u, ldu), POINTERS(v, ldv), info);
}

status CALL(gesvj_strided_batched)(backend_ctx *ctx, char jobu, char jobv, int64_t m, int64_t n,
                                   const void *a, int64_t lda, int64_t stridea, REAL *s,
                                   int64_t strides, void *u, int64_t ldu, int64_t strideu, void *v,
                                   int64_t ldv, int64_t stridev, int *info, int64_t count) {
    return complex_gesvj(CALLED(gesvj_strided_batched, true), jobu, jobv, m, n,
                         STRIDED(a, lda, stridea), STRIDED(s, 1, strides), STRIDED(u, ldu, strideu),
                         STRIDED(v, ldv, stridev), info);
}
