/* The batched operations with their arguments checked. Nothing to do (no matrices) is done here. */
#include "checked_batch.h"

static status admit(const backend *own, bool there, bool fine, const char *name) {
    if (!there)
        return backend_lacks(own, name);
    return fine ? MOAO_OK
                : status_fail(MOAO_INPUT, "%s: an argument is out of range (order at most %d)",
                              name, BATCH_MAX);
}

/* One triangle of order n in each matrix. */
static bool triangle_ok(backend_type t, char uplo, int64_t count, batch_dim n, batch_mat a) {
    return backend_is_real(t) && backend_is(uplo, "LU") && count >= 0 &&
           batch_dim_ok(n, BATCH_MAX) && batch_mat_ok(a, n.n);
}

/* Tiles of 64 x 64 in all C. */
static bool tiles_ok(int64_t count, int64_t m, int64_t n) {
    const int64_t tiles = ((m + 63) / 64) * ((n + 63) / 64);
    return tiles == 0 || count <= INT32_MAX / tiles;
}

static status gemm(backend_ctx *ctx, backend_type t, char transa, char transb, int64_t count,
                   batch_dim m, batch_dim n, batch_dim k, const void *alpha, batch_mat a,
                   batch_mat b, const void *beta, batch_mat c) {
    const backend *own = backend_own(ctx);
    const bool fine = backend_is_real(t) && backend_is(transa, "NTC") &&
                      backend_is(transb, "NTC") && count >= 0 && batch_dim_ok(m, BATCH_WIDE_MAX) &&
                      batch_dim_ok(n, BATCH_WIDE_MAX) && batch_dim_ok(k, BATCH_WIDE_MAX) &&
                      batch_mat_ok(a, transa == 'N' ? m.n : k.n) &&
                      batch_mat_ok(b, transb == 'N' ? k.n : n.n) && batch_mat_ok(c, m.n) &&
                      tiles_ok(count, m.n, n.n);
    const status st = checked_admit(own, own->batch->gemm, fine, "batched gemm");
    return st != MOAO_OK || count == 0
               ? st
               : own->batch->gemm(ctx, t, transa, transb, count, m, n, k, alpha, a, b, beta, c);
}

static status syrk(backend_ctx *ctx, backend_type t, char uplo, char trans, int64_t count,
                   batch_dim n, batch_dim k, const void *alpha, batch_mat a, const void *beta,
                   batch_mat c) {
    const backend *own = backend_own(ctx);
    const bool fine = triangle_ok(t, uplo, count, n, c) && backend_is(trans, "NTC") &&
                      batch_dim_ok(k, BATCH_WIDE_MAX) && batch_mat_ok(a, trans == 'N' ? n.n : k.n);
    const status st = admit(own, own->batch->syrk, fine, "batched syrk");
    return st != MOAO_OK || count == 0
               ? st
               : own->batch->syrk(ctx, t, uplo, trans, count, n, k, alpha, a, beta, c);
}

static bool on_b_ok(backend_type t, char side, char uplo, char trans, char diag, int64_t count,
                    batch_dim m, batch_dim n, batch_mat a, batch_mat b) {
    const batch_dim order = side == 'L' ? m : n, width = side == 'L' ? n : m;
    return backend_is(side, "LR") && triangle_ok(t, uplo, count, order, a) &&
           backend_is(trans, "NTC") && backend_is(diag, "NU") &&
           batch_dim_ok(width, BATCH_WIDE_MAX) && batch_mat_ok(b, m.n);
}

static status trsm(backend_ctx *ctx, backend_type t, char side, char uplo, char trans, char diag,
                   int64_t count, batch_dim m, batch_dim n, const void *alpha, batch_mat a,
                   batch_mat b) {
    const backend *own = backend_own(ctx);
    const bool fine = on_b_ok(t, side, uplo, trans, diag, count, m, n, a, b);
    const status st = admit(own, own->batch->trsm, fine, "batched trsm");
    return st != MOAO_OK || count == 0
               ? st
               : own->batch->trsm(ctx, t, side, uplo, trans, diag, count, m, n, alpha, a, b);
}

static status trmm(backend_ctx *ctx, backend_type t, char side, char uplo, char trans, char diag,
                   int64_t count, batch_dim m, batch_dim n, const void *alpha, batch_mat a,
                   batch_mat b) {
    const backend *own = backend_own(ctx);
    const bool fine = on_b_ok(t, side, uplo, trans, diag, count, m, n, a, b);
    const status st = admit(own, own->batch->trmm, fine, "batched trmm");
    return st != MOAO_OK || count == 0
               ? st
               : own->batch->trmm(ctx, t, side, uplo, trans, diag, count, m, n, alpha, a, b);
}

#define FACTOR(op)                                                                                 \
    static status op(backend_ctx *ctx, backend_type t, char uplo, int64_t count, batch_dim n,      \
                     batch_mat a, int *info) {                                                     \
        const backend *own = backend_own(ctx);                                                     \
        const status st =                                                                          \
            admit(own, own->batch->op, triangle_ok(t, uplo, count, n, a), "batched " #op);         \
        return st != MOAO_OK || count == 0 ? st : own->batch->op(ctx, t, uplo, count, n, a, info); \
    }
FACTOR(potrf)
FACTOR(potri)
FACTOR(poti)

static status trtri(backend_ctx *ctx, backend_type t, char uplo, char diag, int64_t count,
                    batch_dim n, batch_mat a, int *info) {
    const backend *own = backend_own(ctx);
    const bool fine = triangle_ok(t, uplo, count, n, a) && backend_is(diag, "NU");
    const status st = admit(own, own->batch->trtri, fine, "batched trtri");
    return st != MOAO_OK || count == 0 ? st
                                       : own->batch->trtri(ctx, t, uplo, diag, count, n, a, info);
}

static status lauum(backend_ctx *ctx, backend_type t, char uplo, int64_t count, batch_dim n,
                    batch_mat a) {
    const backend *own = backend_own(ctx);
    const status st =
        admit(own, own->batch->lauum, triangle_ok(t, uplo, count, n, a), "batched lauum");
    return st != MOAO_OK || count == 0 ? st : own->batch->lauum(ctx, t, uplo, count, n, a);
}

static bool solve_ok(backend_type t, char uplo, int64_t count, batch_dim n, batch_dim nrhs,
                     batch_mat a, batch_mat b) {
    return triangle_ok(t, uplo, count, n, a) && batch_dim_ok(nrhs, BATCH_WIDE_MAX) &&
           batch_mat_ok(b, n.n);
}

static status potrs(backend_ctx *ctx, backend_type t, char uplo, int64_t count, batch_dim n,
                    batch_dim nrhs, batch_mat a, batch_mat b) {
    const backend *own = backend_own(ctx);
    const bool fine = solve_ok(t, uplo, count, n, nrhs, a, b);
    const status st = admit(own, own->batch->potrs, fine, "batched potrs");
    return st != MOAO_OK || count == 0 ? st : own->batch->potrs(ctx, t, uplo, count, n, nrhs, a, b);
}

static status posv(backend_ctx *ctx, backend_type t, char uplo, int64_t count, batch_dim n,
                   batch_dim nrhs, batch_mat a, batch_mat b, int *info) {
    const backend *own = backend_own(ctx);
    const bool fine = solve_ok(t, uplo, count, n, nrhs, a, b);
    const status st = admit(own, own->batch->posv, fine, "batched posv");
    return st != MOAO_OK || count == 0 ? st
                                       : own->batch->posv(ctx, t, uplo, count, n, nrhs, a, b, info);
}

static status scatter(backend_ctx *ctx, backend_type t, int64_t count, int64_t rows,
                      const batch_scatter *list, const int64_t *column, int64_t ldc) {
    const backend *own = backend_own(ctx);
    const bool fine = backend_is_real(t) && count >= 0 && rows >= 0 && rows <= BATCH_WIDE_MAX &&
                      backend_ld_ok(rows, ldc) && tiles_ok(count, rows, 1);
    const status st = checked_admit(own, own->batch->scatter, fine, "products with places");
    return st != MOAO_OK || count == 0
               ? st
               : own->batch->scatter(ctx, t, count, rows, list, column, ldc);
}

static status gather(backend_ctx *ctx, backend_type t, int64_t count, int64_t rows, int64_t cols,
                     const batch_gather *list, const batch_part *part, double alpha, int64_t ldc) {
    const backend *own = backend_own(ctx);
    const bool fine = backend_is_real(t) && count >= 0 && rows >= 0 && rows <= BATCH_WIDE_MAX &&
                      cols >= 0 && cols <= BATCH_WIDE_MAX && backend_ld_ok(rows, ldc) &&
                      tiles_ok(count, rows, 1);
    const status st = checked_admit(own, own->batch->gather, fine, "sums of products");
    return st != MOAO_OK || count == 0
               ? st
               : own->batch->gather(ctx, t, count, rows, cols, list, part, alpha, ldc);
}

const backend_batch checked_batch = {
    .size = sizeof(backend_batch),
    .gemm = gemm,
    .syrk = syrk,
    .trsm = trsm,
    .trmm = trmm,
    .potrf = potrf,
    .potri = potri,
    .poti = poti,
    .trtri = trtri,
    .lauum = lauum,
    .potrs = potrs,
    .posv = posv,
    .scatter = scatter,
    .gather = gather,
};
