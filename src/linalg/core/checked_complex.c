/* The batched operations on complex matrices with their arguments checked. */
#include "checked.h"

static bool type_ok(backend_type t) {
    return t == BACKEND_Z || t == BACKEND_C;
}

static bool sizes_ok(int64_t count, int64_t m, int64_t n) {
    return count >= 0 && m >= 0 && n >= 0 && m <= INT32_MAX && n <= INT32_MAX;
}

static status gemm(backend_ctx *ctx, backend_type t, char transa, char transb, int64_t count,
                   int64_t m, int64_t n, int64_t k, const void *alpha, const void *const *a,
                   int64_t lda, const void *const *b, int64_t ldb, const void *beta, void *const *c,
                   int64_t ldc) {
    const backend *own = backend_own(ctx);
    const bool fine = type_ok(t) && backend_is(transa, "NTC") && backend_is(transb, "NTC") &&
                      sizes_ok(count, m, n) && sizes_ok(count, k, k) &&
                      backend_ld_ok(transa == 'N' ? m : k, lda) &&
                      backend_ld_ok(transb == 'N' ? k : n, ldb) && backend_ld_ok(m, ldc);
    const status st = checked_admit(own, own->batch_complex->gemm, fine, "batched complex gemm");
    return st != MOAO_OK || count == 0 || m == 0 || n == 0
               ? st
               : own->batch_complex->gemm(ctx, t, transa, transb, count, m, n, k, alpha, a, lda, b,
                                          ldb, beta, c, ldc);
}

static status trsm(backend_ctx *ctx, backend_type t, char side, char uplo, char trans, char diag,
                   int64_t count, int64_t m, int64_t n, const void *alpha, const void *const *a,
                   int64_t lda, void *const *b, int64_t ldb) {
    const backend *own = backend_own(ctx);
    const bool fine = type_ok(t) && backend_is(side, "LR") && backend_is(uplo, "LU") &&
                      backend_is(trans, "NTC") && backend_is(diag, "NU") && sizes_ok(count, m, n) &&
                      backend_ld_ok(side == 'L' ? m : n, lda) && backend_ld_ok(m, ldb);
    const status st = checked_admit(own, own->batch_complex->trsm, fine, "batched complex trsm");
    return st != MOAO_OK || count == 0 || m == 0 || n == 0
               ? st
               : own->batch_complex->trsm(ctx, t, side, uplo, trans, diag, count, m, n, alpha, a,
                                          lda, b, ldb);
}

static status potrf(backend_ctx *ctx, backend_type t, char uplo, int64_t count, int64_t n,
                    void *const *a, int64_t lda, int *info) {
    const backend *own = backend_own(ctx);
    const bool fine =
        type_ok(t) && backend_is(uplo, "LU") && sizes_ok(count, n, n) && backend_ld_ok(n, lda);
    const status st = checked_admit(own, own->batch_complex->potrf, fine, "batched complex potrf");
    return st != MOAO_OK || count == 0
               ? st
               : own->batch_complex->potrf(ctx, t, uplo, count, n, a, lda, info);
}

static status geqrf(backend_ctx *ctx, backend_type t, int64_t count, int64_t m, int64_t n,
                    void *const *a, int64_t lda, void *const *tau) {
    const backend *own = backend_own(ctx);
    const bool fine = type_ok(t) && sizes_ok(count, m, n) && backend_ld_ok(m, lda);
    const status st = checked_admit(own, own->batch_complex->geqrf, fine, "batched complex geqrf");
    return st != MOAO_OK || count == 0 || m == 0 || n == 0
               ? st
               : own->batch_complex->geqrf(ctx, t, count, m, n, a, lda, tau);
}

static status gesvj(backend_ctx *ctx, backend_type t, char jobu, char jobv, int64_t count,
                    int64_t m, int64_t n, void *const *a, int64_t lda, void *const *s,
                    void *const *u, int64_t ldu, void *const *v, int64_t ldv, int *info, void *work,
                    size_t lwork) {
    const backend *own = backend_own(ctx);
    const bool fine = type_ok(t) && backend_is(jobu, "NUS") && backend_is(jobv, "NUS") &&
                      sizes_ok(count, m, n) && batch_least(m, n) <= BATCH_SVD_MAX &&
                      backend_ld_ok(m, lda) && (jobu == 'N' || backend_ld_ok(m, ldu)) &&
                      (jobv == 'N' || backend_ld_ok(n, ldv));
    const status st = checked_admit(own, own->batch_complex->gesvj, fine, "batched complex gesvj");
    return st != MOAO_OK || count == 0 || m == 0 || n == 0
               ? st
               : own->batch_complex->gesvj(ctx, t, jobu, jobv, count, m, n, a, lda, s, u, ldu, v,
                                           ldv, info, work, lwork);
}

const backend_complex checked_complex = {.size = sizeof(backend_complex),
                                         .gemm = gemm,
                                         .trsm = trsm,
                                         .potrf = potrf,
                                         .geqrf = geqrf,
                                         .gesvj = gesvj};
