/* The calls of moao/batched.h in one precision: REAL, TYPE (backend_type) and CALL (a name with its
 * letter); batched.c includes this once for each. */

status CALL(gemm_batched)(backend_ctx *ctx, char transa, char transb, int64_t m, int64_t n,
                          int64_t k, REAL alpha, REAL *const *a, int64_t lda, REAL *const *b,
                          int64_t ldb, REAL beta, REAL *const *c, int64_t ldc, int64_t count) {
    return call_gemm(CALLED(gemm_batched, false), transa, transb, m, n, k, &alpha, POINTERS(a, lda),
                     POINTERS(b, ldb), &beta, POINTERS(c, ldc));
}

status CALL(gemm_strided_batched)(backend_ctx *ctx, char transa, char transb, int64_t m, int64_t n,
                                  int64_t k, REAL alpha, const REAL *a, int64_t lda,
                                  int64_t stridea, const REAL *b, int64_t ldb, int64_t strideb,
                                  REAL beta, REAL *c, int64_t ldc, int64_t stridec, int64_t count) {
    return call_gemm(CALLED(gemm_strided_batched, true), transa, transb, m, n, k, &alpha,
                     STRIDED(a, lda, stridea), STRIDED(b, ldb, strideb), &beta,
                     STRIDED(c, ldc, stridec));
}

status CALL(syrk_batched)(backend_ctx *ctx, char uplo, char trans, int64_t n, int64_t k, REAL alpha,
                          REAL *const *a, int64_t lda, REAL beta, REAL *const *c, int64_t ldc,
                          int64_t count) {
    return call_syrk(CALLED(syrk_batched, false), uplo, trans, n, k, &alpha, POINTERS(a, lda),
                     &beta, POINTERS(c, ldc));
}

status CALL(syrk_strided_batched)(backend_ctx *ctx, char uplo, char trans, int64_t n, int64_t k,
                                  REAL alpha, const REAL *a, int64_t lda, int64_t stridea,
                                  REAL beta, REAL *c, int64_t ldc, int64_t stridec, int64_t count) {
    return call_syrk(CALLED(syrk_strided_batched, true), uplo, trans, n, k, &alpha,
                     STRIDED(a, lda, stridea), &beta, STRIDED(c, ldc, stridec));
}

status CALL(trsm_batched)(backend_ctx *ctx, char side, char uplo, char trans, char diag, int64_t m,
                          int64_t n, REAL alpha, REAL *const *a, int64_t lda, REAL *const *b,
                          int64_t ldb, int64_t count) {
    return call_tri(CALLED(trsm_batched, false), checked_batch.trsm, side, uplo, trans, diag, m, n,
                    &alpha, POINTERS(a, lda), POINTERS(b, ldb));
}

status CALL(trsm_strided_batched)(backend_ctx *ctx, char side, char uplo, char trans, char diag,
                                  int64_t m, int64_t n, REAL alpha, const REAL *a, int64_t lda,
                                  int64_t stridea, REAL *b, int64_t ldb, int64_t strideb,
                                  int64_t count) {
    return call_tri(CALLED(trsm_strided_batched, true), checked_batch.trsm, side, uplo, trans, diag,
                    m, n, &alpha, STRIDED(a, lda, stridea), STRIDED(b, ldb, strideb));
}

status CALL(trmm_batched)(backend_ctx *ctx, char side, char uplo, char trans, char diag, int64_t m,
                          int64_t n, REAL alpha, REAL *const *a, int64_t lda, REAL *const *b,
                          int64_t ldb, int64_t count) {
    return call_tri(CALLED(trmm_batched, false), checked_batch.trmm, side, uplo, trans, diag, m, n,
                    &alpha, POINTERS(a, lda), POINTERS(b, ldb));
}

status CALL(trmm_strided_batched)(backend_ctx *ctx, char side, char uplo, char trans, char diag,
                                  int64_t m, int64_t n, REAL alpha, const REAL *a, int64_t lda,
                                  int64_t stridea, REAL *b, int64_t ldb, int64_t strideb,
                                  int64_t count) {
    return call_tri(CALLED(trmm_strided_batched, true), checked_batch.trmm, side, uplo, trans, diag,
                    m, n, &alpha, STRIDED(a, lda, stridea), STRIDED(b, ldb, strideb));
}

status CALL(potrf_batched)(backend_ctx *ctx, char uplo, int64_t n, REAL *const *a, int64_t lda,
                           int *info, int64_t count) {
    return call_factor(CALLED(potrf_batched, false), checked_batch.potrf, uplo, n, POINTERS(a, lda),
                       info);
}

status CALL(potrf_strided_batched)(backend_ctx *ctx, char uplo, int64_t n, REAL *a, int64_t lda,
                                   int64_t stridea, int *info, int64_t count) {
    return call_factor(CALLED(potrf_strided_batched, true), checked_batch.potrf, uplo, n,
                       STRIDED(a, lda, stridea), info);
}

status CALL(potri_batched)(backend_ctx *ctx, char uplo, int64_t n, REAL *const *a, int64_t lda,
                           int *info, int64_t count) {
    return call_factor(CALLED(potri_batched, false), checked_batch.potri, uplo, n, POINTERS(a, lda),
                       info);
}

status CALL(potri_strided_batched)(backend_ctx *ctx, char uplo, int64_t n, REAL *a, int64_t lda,
                                   int64_t stridea, int *info, int64_t count) {
    return call_factor(CALLED(potri_strided_batched, true), checked_batch.potri, uplo, n,
                       STRIDED(a, lda, stridea), info);
}

status CALL(poti_batched)(backend_ctx *ctx, char uplo, int64_t n, REAL *const *a, int64_t lda,
                          int *info, int64_t count) {
    return call_factor(CALLED(poti_batched, false), checked_batch.poti, uplo, n, POINTERS(a, lda),
                       info);
}

status CALL(poti_strided_batched)(backend_ctx *ctx, char uplo, int64_t n, REAL *a, int64_t lda,
                                  int64_t stridea, int *info, int64_t count) {
    return call_factor(CALLED(poti_strided_batched, true), checked_batch.poti, uplo, n,
                       STRIDED(a, lda, stridea), info);
}

status CALL(trtri_batched)(backend_ctx *ctx, char uplo, char diag, int64_t n, REAL *const *a,
                           int64_t lda, int *info, int64_t count) {
    return call_trtri(CALLED(trtri_batched, false), uplo, diag, n, POINTERS(a, lda), info);
}

status CALL(trtri_strided_batched)(backend_ctx *ctx, char uplo, char diag, int64_t n, REAL *a,
                                   int64_t lda, int64_t stridea, int *info, int64_t count) {
    return call_trtri(CALLED(trtri_strided_batched, true), uplo, diag, n, STRIDED(a, lda, stridea),
                      info);
}

status CALL(lauum_batched)(backend_ctx *ctx, char uplo, int64_t n, REAL *const *a, int64_t lda,
                           int64_t count) {
    return call_lauum(CALLED(lauum_batched, false), uplo, n, POINTERS(a, lda));
}

status CALL(lauum_strided_batched)(backend_ctx *ctx, char uplo, int64_t n, REAL *a, int64_t lda,
                                   int64_t stridea, int64_t count) {
    return call_lauum(CALLED(lauum_strided_batched, true), uplo, n, STRIDED(a, lda, stridea));
}

status CALL(potrs_batched)(backend_ctx *ctx, char uplo, int64_t n, int64_t nrhs, REAL *const *a,
                           int64_t lda, REAL *const *b, int64_t ldb, int64_t count) {
    return call_potrs(CALLED(potrs_batched, false), uplo, n, nrhs, POINTERS(a, lda),
                      POINTERS(b, ldb));
}

status CALL(potrs_strided_batched)(backend_ctx *ctx, char uplo, int64_t n, int64_t nrhs,
                                   const REAL *a, int64_t lda, int64_t stridea, REAL *b,
                                   int64_t ldb, int64_t strideb, int64_t count) {
    return call_potrs(CALLED(potrs_strided_batched, true), uplo, n, nrhs, STRIDED(a, lda, stridea),
                      STRIDED(b, ldb, strideb));
}

status CALL(posv_batched)(backend_ctx *ctx, char uplo, int64_t n, int64_t nrhs, REAL *const *a,
                          int64_t lda, REAL *const *b, int64_t ldb, int *info, int64_t count) {
    return call_posv(CALLED(posv_batched, false), uplo, n, nrhs, POINTERS(a, lda), POINTERS(b, ldb),
                     info);
}

status CALL(posv_strided_batched)(backend_ctx *ctx, char uplo, int64_t n, int64_t nrhs, REAL *a,
                                  int64_t lda, int64_t stridea, REAL *b, int64_t ldb,
                                  int64_t strideb, int *info, int64_t count) {
    return call_posv(CALLED(posv_strided_batched, true), uplo, n, nrhs, STRIDED(a, lda, stridea),
                     STRIDED(b, ldb, strideb), info);
}

status CALL(geqrf_batched)(backend_ctx *ctx, int64_t m, int64_t n, REAL *const *a, int64_t lda,
                           REAL *const *tau, int *info, int64_t count) {
    return call_geqrf(CALLED(geqrf_batched, false), m, n, POINTERS(a, lda), POINTERS(tau, 1), info);
}

status CALL(geqrf_strided_batched)(backend_ctx *ctx, int64_t m, int64_t n, REAL *a, int64_t lda,
                                   int64_t stridea, REAL *tau, int64_t stridetau, int *info,
                                   int64_t count) {
    return call_geqrf(CALLED(geqrf_strided_batched, true), m, n, STRIDED(a, lda, stridea),
                      STRIDED(tau, 1, stridetau), info);
}

status CALL(orgqr_batched)(backend_ctx *ctx, int64_t m, int64_t n, int64_t k, REAL *const *a,
                           int64_t lda, REAL *const *tau, int64_t count) {
    return call_orgqr(CALLED(orgqr_batched, false), m, n, k, POINTERS(a, lda), POINTERS(tau, 1));
}

status CALL(orgqr_strided_batched)(backend_ctx *ctx, int64_t m, int64_t n, int64_t k, REAL *a,
                                   int64_t lda, int64_t stridea, const REAL *tau, int64_t stridetau,
                                   int64_t count) {
    return call_orgqr(CALLED(orgqr_strided_batched, true), m, n, k, STRIDED(a, lda, stridea),
                      STRIDED(tau, 1, stridetau));
}

status CALL(ormqr_batched)(backend_ctx *ctx, char side, char trans, int64_t m, int64_t n, int64_t k,
                           REAL *const *a, int64_t lda, REAL *const *tau, REAL *const *c,
                           int64_t ldc, int64_t count) {
    return call_ormqr(CALLED(ormqr_batched, false), side, trans, m, n, k, POINTERS(a, lda),
                      POINTERS(tau, 1), POINTERS(c, ldc));
}

status CALL(ormqr_strided_batched)(backend_ctx *ctx, char side, char trans, int64_t m, int64_t n,
                                   int64_t k, const REAL *a, int64_t lda, int64_t stridea,
                                   const REAL *tau, int64_t stridetau, REAL *c, int64_t ldc,
                                   int64_t stridec, int64_t count) {
    return call_ormqr(CALLED(ormqr_strided_batched, true), side, trans, m, n, k,
                      STRIDED(a, lda, stridea), STRIDED(tau, 1, stridetau),
                      STRIDED(c, ldc, stridec));
}

status CALL(qr_batched)(backend_ctx *ctx, char job, int64_t m, int64_t n, REAL *const *a,
                        int64_t lda, REAL *const *r, int64_t ldr, int *info, int64_t count) {
    return call_qr(CALLED(qr_batched, false), job, m, n, POINTERS(a, lda), POINTERS(r, ldr), info);
}

status CALL(qr_strided_batched)(backend_ctx *ctx, char job, int64_t m, int64_t n, REAL *a,
                                int64_t lda, int64_t stridea, REAL *r, int64_t ldr, int64_t strider,
                                int *info, int64_t count) {
    return call_qr(CALLED(qr_strided_batched, true), job, m, n, STRIDED(a, lda, stridea),
                   STRIDED(r, ldr, strider), info);
}

status CALL(gesvj_batched)(backend_ctx *ctx, char jobu, char jobv, int64_t m, int64_t n,
                           REAL *const *a, int64_t lda, REAL *const *s, REAL *const *u, int64_t ldu,
                           REAL *const *v, int64_t ldv, int *info, int64_t count) {
    return call_gesvj(CALLED(gesvj_batched, false), jobu, jobv, m, n, POINTERS(a, lda),
                      POINTERS(s, 1), POINTERS(u, ldu), POINTERS(v, ldv), info);
}

status CALL(gesvj_strided_batched)(backend_ctx *ctx, char jobu, char jobv, int64_t m, int64_t n,
                                   REAL *a, int64_t lda, int64_t stridea, REAL *s, int64_t strides,
                                   REAL *u, int64_t ldu, int64_t strideu, REAL *v, int64_t ldv,
                                   int64_t stridev, int *info, int64_t count) {
    return call_gesvj(CALLED(gesvj_strided_batched, true), jobu, jobv, m, n,
                      STRIDED(a, lda, stridea), STRIDED(s, 1, strides), STRIDED(u, ldu, strideu),
                      STRIDED(v, ldv, stridev), info);
}

status CALL(rsvd_batched)(backend_ctx *ctx, char jobu, char jobv, int64_t m, int64_t n, int64_t k,
                          int64_t over, int power, uint64_t seed, REAL *const *a, int64_t lda,
                          REAL *const *s, REAL *const *u, int64_t ldu, REAL *const *v, int64_t ldv,
                          int64_t *rank, int *info, int64_t count) {
    return call_rsvd(CALLED(rsvd_batched, false), jobu, jobv, m, n, k, over, power, seed,
                     POINTERS(a, lda), POINTERS(s, 1), POINTERS(u, ldu), POINTERS(v, ldv), rank,
                     info);
}

status CALL(rsvd_strided_batched)(backend_ctx *ctx, char jobu, char jobv, int64_t m, int64_t n,
                                  int64_t k, int64_t over, int power, uint64_t seed, const REAL *a,
                                  int64_t lda, int64_t stridea, REAL *s, int64_t strides, REAL *u,
                                  int64_t ldu, int64_t strideu, REAL *v, int64_t ldv,
                                  int64_t stridev, int64_t *rank, int *info, int64_t count) {
    return call_rsvd(CALLED(rsvd_strided_batched, true), jobu, jobv, m, n, k, over, power, seed,
                     STRIDED(a, lda, stridea), STRIDED(s, 1, strides), STRIDED(u, ldu, strideu),
                     STRIDED(v, ldv, stridev), rank, info);
}

status CALL(ara_batched)(backend_ctx *ctx, char job, int64_t m, int64_t n, double tol, char kind,
                         int64_t most, uint64_t seed, REAL *const *a, int64_t lda, REAL *const *u,
                         int64_t ldu, REAL *const *v, int64_t ldv, int64_t *rank, int *info,
                         int64_t count) {
    return call_ara(CALLED(ara_batched, false), job, m, n, tol, kind, most, seed, POINTERS(a, lda),
                    POINTERS(u, ldu), POINTERS(v, ldv), rank, info);
}

status CALL(ara_strided_batched)(backend_ctx *ctx, char job, int64_t m, int64_t n, double tol,
                                 char kind, int64_t most, uint64_t seed, const REAL *a, int64_t lda,
                                 int64_t stridea, REAL *u, int64_t ldu, int64_t strideu, REAL *v,
                                 int64_t ldv, int64_t stridev, int64_t *rank, int *info,
                                 int64_t count) {
    return call_ara(CALLED(ara_strided_batched, true), job, m, n, tol, kind, most, seed,
                    STRIDED(a, lda, stridea), STRIDED(u, ldu, strideu), STRIDED(v, ldv, stridev),
                    rank, info);
}

status CALL(recompress_batched)(backend_ctx *ctx, char job, int64_t m, int64_t n, double tol,
                                char kind, int64_t most, REAL beta, const int64_t *k,
                                REAL *const *u, int64_t ldu, REAL *const *v, int64_t ldv,
                                REAL alpha, const int64_t *k2, REAL *const *u2, int64_t ldu2,
                                REAL *const *v2, int64_t ldv2, int64_t *rank, int *info,
                                int64_t count) {
    return call_recompress(CALLED(recompress_batched, false), job, m, n, tol, kind, most, &beta, k,
                           POINTERS(u, ldu), POINTERS(v, ldv), &alpha, k2, POINTERS(u2, ldu2),
                           POINTERS(v2, ldv2), rank, info);
}

status CALL(recompress_strided_batched)(backend_ctx *ctx, char job, int64_t m, int64_t n,
                                        double tol, char kind, int64_t most, REAL beta,
                                        const int64_t *k, REAL *u, int64_t ldu, int64_t strideu,
                                        REAL *v, int64_t ldv, int64_t stridev, REAL alpha,
                                        const int64_t *k2, const REAL *u2, int64_t ldu2,
                                        int64_t strideu2, const REAL *v2, int64_t ldv2,
                                        int64_t stridev2, int64_t *rank, int *info, int64_t count) {
    return call_recompress(CALLED(recompress_strided_batched, true), job, m, n, tol, kind, most,
                           &beta, k, STRIDED(u, ldu, strideu), STRIDED(v, ldv, stridev), &alpha, k2,
                           STRIDED(u2, ldu2, strideu2), STRIDED(v2, ldv2, stridev2), rank, info);
}

status CALL(gemm_lld_batched)(backend_ctx *ctx, char transa, char transb, int64_t m, int64_t n,
                              int64_t k, REAL alpha, const int64_t *ka, REAL *const *ua,
                              int64_t ldua, REAL *const *va, int64_t ldva, const int64_t *kb,
                              REAL *const *ub, int64_t ldub, REAL *const *vb, int64_t ldvb,
                              REAL beta, REAL *const *c, int64_t ldc, int64_t count) {
    const lr_product p = {
        .transa = transa,
        .transb = transb,
        .m = m,
        .n = n,
        .k = k,
        .alpha = &alpha,
        .beta = &beta,
        .a = {.low = true, .rank = ka, .u = POINTERS(ua, ldua), .v = POINTERS(va, ldva)},
        .b = {.low = true, .rank = kb, .u = POINTERS(ub, ldub), .v = POINTERS(vb, ldvb)},
        .c = {.u = POINTERS(c, ldc)}};
    return lowrank_gemm(CALLED(gemm_lld_batched, false), &p);
}

status CALL(gemm_lld_strided_batched)(backend_ctx *ctx, char transa, char transb, int64_t m,
                                      int64_t n, int64_t k, REAL alpha, const int64_t *ka,
                                      const REAL *ua, int64_t ldua, int64_t strideua,
                                      const REAL *va, int64_t ldva, int64_t strideva,
                                      const int64_t *kb, const REAL *ub, int64_t ldub,
                                      int64_t strideub, const REAL *vb, int64_t ldvb,
                                      int64_t stridevb, REAL beta, REAL *c, int64_t ldc,
                                      int64_t stridec, int64_t count) {
    const lr_product p = {.transa = transa,
                          .transb = transb,
                          .m = m,
                          .n = n,
                          .k = k,
                          .alpha = &alpha,
                          .beta = &beta,
                          .a = {.low = true,
                                .rank = ka,
                                .u = STRIDED(ua, ldua, strideua),
                                .v = STRIDED(va, ldva, strideva)},
                          .b = {.low = true,
                                .rank = kb,
                                .u = STRIDED(ub, ldub, strideub),
                                .v = STRIDED(vb, ldvb, stridevb)},
                          .c = {.u = STRIDED(c, ldc, stridec)}};
    return lowrank_gemm(CALLED(gemm_lld_strided_batched, true), &p);
}

status CALL(gemm_dld_batched)(backend_ctx *ctx, char transa, char transb, int64_t m, int64_t n,
                              int64_t k, REAL alpha, REAL *const *a, int64_t lda, const int64_t *kb,
                              REAL *const *ub, int64_t ldub, REAL *const *vb, int64_t ldvb,
                              REAL beta, REAL *const *c, int64_t ldc, int64_t count) {
    const lr_product p = {
        .transa = transa,
        .transb = transb,
        .m = m,
        .n = n,
        .k = k,
        .alpha = &alpha,
        .beta = &beta,
        .a = {.u = POINTERS(a, lda)},
        .b = {.low = true, .rank = kb, .u = POINTERS(ub, ldub), .v = POINTERS(vb, ldvb)},
        .c = {.u = POINTERS(c, ldc)}};
    return lowrank_gemm(CALLED(gemm_dld_batched, false), &p);
}

status CALL(gemm_dld_strided_batched)(backend_ctx *ctx, char transa, char transb, int64_t m,
                                      int64_t n, int64_t k, REAL alpha, const REAL *a, int64_t lda,
                                      int64_t stridea, const int64_t *kb, const REAL *ub,
                                      int64_t ldub, int64_t strideub, const REAL *vb, int64_t ldvb,
                                      int64_t stridevb, REAL beta, REAL *c, int64_t ldc,
                                      int64_t stridec, int64_t count) {
    const lr_product p = {.transa = transa,
                          .transb = transb,
                          .m = m,
                          .n = n,
                          .k = k,
                          .alpha = &alpha,
                          .beta = &beta,
                          .a = {.u = STRIDED(a, lda, stridea)},
                          .b = {.low = true,
                                .rank = kb,
                                .u = STRIDED(ub, ldub, strideub),
                                .v = STRIDED(vb, ldvb, stridevb)},
                          .c = {.u = STRIDED(c, ldc, stridec)}};
    return lowrank_gemm(CALLED(gemm_dld_strided_batched, true), &p);
}

status CALL(gemm_ldd_batched)(backend_ctx *ctx, char transa, char transb, int64_t m, int64_t n,
                              int64_t k, REAL alpha, const int64_t *ka, REAL *const *ua,
                              int64_t ldua, REAL *const *va, int64_t ldva, REAL *const *b,
                              int64_t ldb, REAL beta, REAL *const *c, int64_t ldc, int64_t count) {
    const lr_product p = {
        .transa = transa,
        .transb = transb,
        .m = m,
        .n = n,
        .k = k,
        .alpha = &alpha,
        .beta = &beta,
        .a = {.low = true, .rank = ka, .u = POINTERS(ua, ldua), .v = POINTERS(va, ldva)},
        .b = {.u = POINTERS(b, ldb)},
        .c = {.u = POINTERS(c, ldc)}};
    return lowrank_gemm(CALLED(gemm_ldd_batched, false), &p);
}

status CALL(gemm_ldd_strided_batched)(backend_ctx *ctx, char transa, char transb, int64_t m,
                                      int64_t n, int64_t k, REAL alpha, const int64_t *ka,
                                      const REAL *ua, int64_t ldua, int64_t strideua,
                                      const REAL *va, int64_t ldva, int64_t strideva, const REAL *b,
                                      int64_t ldb, int64_t strideb, REAL beta, REAL *c, int64_t ldc,
                                      int64_t stridec, int64_t count) {
    const lr_product p = {.transa = transa,
                          .transb = transb,
                          .m = m,
                          .n = n,
                          .k = k,
                          .alpha = &alpha,
                          .beta = &beta,
                          .a = {.low = true,
                                .rank = ka,
                                .u = STRIDED(ua, ldua, strideua),
                                .v = STRIDED(va, ldva, strideva)},
                          .b = {.u = STRIDED(b, ldb, strideb)},
                          .c = {.u = STRIDED(c, ldc, stridec)}};
    return lowrank_gemm(CALLED(gemm_ldd_strided_batched, true), &p);
}

status CALL(gemm_lll_batched)(backend_ctx *ctx, char transa, char transb, int64_t m, int64_t n,
                              int64_t k, REAL alpha, const int64_t *ka, REAL *const *ua,
                              int64_t ldua, REAL *const *va, int64_t ldva, const int64_t *kb,
                              REAL *const *ub, int64_t ldub, REAL *const *vb, int64_t ldvb,
                              REAL beta, double tol, char kind, int64_t most, int64_t *kc,
                              REAL *const *uc, int64_t lduc, REAL *const *vc, int64_t ldvc,
                              int *info, int64_t count) {
    const lr_product p = {
        .transa = transa,
        .transb = transb,
        .m = m,
        .n = n,
        .k = k,
        .alpha = &alpha,
        .beta = &beta,
        .a = {.low = true, .rank = ka, .u = POINTERS(ua, ldua), .v = POINTERS(va, ldva)},
        .b = {.low = true, .rank = kb, .u = POINTERS(ub, ldub), .v = POINTERS(vb, ldvb)},
        .c = {.low = true, .rank = kc, .u = POINTERS(uc, lduc), .v = POINTERS(vc, ldvc)},
        .tol = tol,
        .kind = kind,
        .most = most,
        .kc = kc,
        .info = info};
    return lowrank_gemm(CALLED(gemm_lll_batched, false), &p);
}

status CALL(gemm_lll_strided_batched)(
    backend_ctx *ctx, char transa, char transb, int64_t m, int64_t n, int64_t k, REAL alpha,
    const int64_t *ka, const REAL *ua, int64_t ldua, int64_t strideua, const REAL *va, int64_t ldva,
    int64_t strideva, const int64_t *kb, const REAL *ub, int64_t ldub, int64_t strideub,
    const REAL *vb, int64_t ldvb, int64_t stridevb, REAL beta, double tol, char kind, int64_t most,
    int64_t *kc, REAL *uc, int64_t lduc, int64_t strideuc, REAL *vc, int64_t ldvc, int64_t stridevc,
    int *info, int64_t count) {
    const lr_product p = {.transa = transa,
                          .transb = transb,
                          .m = m,
                          .n = n,
                          .k = k,
                          .alpha = &alpha,
                          .beta = &beta,
                          .a = {.low = true,
                                .rank = ka,
                                .u = STRIDED(ua, ldua, strideua),
                                .v = STRIDED(va, ldva, strideva)},
                          .b = {.low = true,
                                .rank = kb,
                                .u = STRIDED(ub, ldub, strideub),
                                .v = STRIDED(vb, ldvb, stridevb)},
                          .c = {.low = true,
                                .rank = kc,
                                .u = STRIDED(uc, lduc, strideuc),
                                .v = STRIDED(vc, ldvc, stridevc)},
                          .tol = tol,
                          .kind = kind,
                          .most = most,
                          .kc = kc,
                          .info = info};
    return lowrank_gemm(CALLED(gemm_lll_strided_batched, true), &p);
}

status CALL(gemm_dll_batched)(backend_ctx *ctx, char transa, char transb, int64_t m, int64_t n,
                              int64_t k, REAL alpha, REAL *const *a, int64_t lda, const int64_t *kb,
                              REAL *const *ub, int64_t ldub, REAL *const *vb, int64_t ldvb,
                              REAL beta, double tol, char kind, int64_t most, int64_t *kc,
                              REAL *const *uc, int64_t lduc, REAL *const *vc, int64_t ldvc,
                              int *info, int64_t count) {
    const lr_product p = {
        .transa = transa,
        .transb = transb,
        .m = m,
        .n = n,
        .k = k,
        .alpha = &alpha,
        .beta = &beta,
        .a = {.u = POINTERS(a, lda)},
        .b = {.low = true, .rank = kb, .u = POINTERS(ub, ldub), .v = POINTERS(vb, ldvb)},
        .c = {.low = true, .rank = kc, .u = POINTERS(uc, lduc), .v = POINTERS(vc, ldvc)},
        .tol = tol,
        .kind = kind,
        .most = most,
        .kc = kc,
        .info = info};
    return lowrank_gemm(CALLED(gemm_dll_batched, false), &p);
}

status CALL(gemm_dll_strided_batched)(backend_ctx *ctx, char transa, char transb, int64_t m,
                                      int64_t n, int64_t k, REAL alpha, const REAL *a, int64_t lda,
                                      int64_t stridea, const int64_t *kb, const REAL *ub,
                                      int64_t ldub, int64_t strideub, const REAL *vb, int64_t ldvb,
                                      int64_t stridevb, REAL beta, double tol, char kind,
                                      int64_t most, int64_t *kc, REAL *uc, int64_t lduc,
                                      int64_t strideuc, REAL *vc, int64_t ldvc, int64_t stridevc,
                                      int *info, int64_t count) {
    const lr_product p = {.transa = transa,
                          .transb = transb,
                          .m = m,
                          .n = n,
                          .k = k,
                          .alpha = &alpha,
                          .beta = &beta,
                          .a = {.u = STRIDED(a, lda, stridea)},
                          .b = {.low = true,
                                .rank = kb,
                                .u = STRIDED(ub, ldub, strideub),
                                .v = STRIDED(vb, ldvb, stridevb)},
                          .c = {.low = true,
                                .rank = kc,
                                .u = STRIDED(uc, lduc, strideuc),
                                .v = STRIDED(vc, ldvc, stridevc)},
                          .tol = tol,
                          .kind = kind,
                          .most = most,
                          .kc = kc,
                          .info = info};
    return lowrank_gemm(CALLED(gemm_dll_strided_batched, true), &p);
}

status CALL(gemm_ldl_batched)(backend_ctx *ctx, char transa, char transb, int64_t m, int64_t n,
                              int64_t k, REAL alpha, const int64_t *ka, REAL *const *ua,
                              int64_t ldua, REAL *const *va, int64_t ldva, REAL *const *b,
                              int64_t ldb, REAL beta, double tol, char kind, int64_t most,
                              int64_t *kc, REAL *const *uc, int64_t lduc, REAL *const *vc,
                              int64_t ldvc, int *info, int64_t count) {
    const lr_product p = {
        .transa = transa,
        .transb = transb,
        .m = m,
        .n = n,
        .k = k,
        .alpha = &alpha,
        .beta = &beta,
        .a = {.low = true, .rank = ka, .u = POINTERS(ua, ldua), .v = POINTERS(va, ldva)},
        .b = {.u = POINTERS(b, ldb)},
        .c = {.low = true, .rank = kc, .u = POINTERS(uc, lduc), .v = POINTERS(vc, ldvc)},
        .tol = tol,
        .kind = kind,
        .most = most,
        .kc = kc,
        .info = info};
    return lowrank_gemm(CALLED(gemm_ldl_batched, false), &p);
}

status CALL(gemm_ldl_strided_batched)(backend_ctx *ctx, char transa, char transb, int64_t m,
                                      int64_t n, int64_t k, REAL alpha, const int64_t *ka,
                                      const REAL *ua, int64_t ldua, int64_t strideua,
                                      const REAL *va, int64_t ldva, int64_t strideva, const REAL *b,
                                      int64_t ldb, int64_t strideb, REAL beta, double tol,
                                      char kind, int64_t most, int64_t *kc, REAL *uc, int64_t lduc,
                                      int64_t strideuc, REAL *vc, int64_t ldvc, int64_t stridevc,
                                      int *info, int64_t count) {
    const lr_product p = {.transa = transa,
                          .transb = transb,
                          .m = m,
                          .n = n,
                          .k = k,
                          .alpha = &alpha,
                          .beta = &beta,
                          .a = {.low = true,
                                .rank = ka,
                                .u = STRIDED(ua, ldua, strideua),
                                .v = STRIDED(va, ldva, strideva)},
                          .b = {.u = STRIDED(b, ldb, strideb)},
                          .c = {.low = true,
                                .rank = kc,
                                .u = STRIDED(uc, lduc, strideuc),
                                .v = STRIDED(vc, ldvc, stridevc)},
                          .tol = tol,
                          .kind = kind,
                          .most = most,
                          .kc = kc,
                          .info = info};
    return lowrank_gemm(CALLED(gemm_ldl_strided_batched, true), &p);
}
