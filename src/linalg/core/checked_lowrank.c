/* Batched QR, SVD and compression with their arguments checked. Nothing to do (no matrices) is done
 * here. */
#include "checked_batch.h"

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Of counts that may be as large as an int64_t holds: the most that it holds, where the sum is
 * more. */
static int64_t sum(int64_t a, int64_t b) {
    int64_t c;
    return __builtin_add_overflow(a, b, &c) ? INT64_MAX : c;
}

static bool extents_ok(backend_type t, int64_t count, batch_dim m, batch_dim n, int64_t bound) {
    return backend_is_real(t) && count >= 0 && batch_dim_ok(m, BATCH_WIDE_MAX) &&
           batch_dim_ok(n, BATCH_WIDE_MAX) && least(m.n, n.n) <= bound;
}

static bool cut_ok(const batch_cut *c) {
    return c->most >= 0 && c->most <= BATCH_SVD_MAX && backend_is(c->kind, "RA") &&
           backend_is(c->norm, "2F") && (c->tol_each != NULL || c->tol >= 0) && c->later >= 0 &&
           c->later <= BATCH_SVD_MAX && c->sweeps_most >= 0 && c->sweeps_most <= BATCH_SWEEPS_MAX;
}

/* What admits an operation with work: it is there, its arguments are in range, and the work is
 * enough for one matrix. */
static status admit(const backend *own, bool there, bool fine, const char *name, batch_op op,
                    backend_type t, batch_dim m, batch_dim n, int64_t k, int64_t count,
                    size_t lwork) {
    const status st = checked_admit(own, there, fine, name);
    if (st != MOAO_OK || count == 0 || lwork >= own->lowrank->workspace(op, t, 1, m.n, n.n, k))
        return st;
    return status_fail(MOAO_INPUT, "%s: work is smaller than what one matrix needs (workspace)",
                       name);
}

/* ---- orthogonal factors */

static bool geqrf_ok(backend_type t, int64_t count, batch_dim m, batch_dim n, batch_mat a,
                     batch_mat tau) {
    return extents_ok(t, count, m, n, BATCH_ORTH_MAX) && batch_mat_ok(a, m.n) &&
           batch_mat_ok(tau, 1);
}

status checked_geqrf(backend_ctx *ctx, backend_type t, int64_t count, batch_dim m, batch_dim n,
                     batch_mat a, batch_mat tau, int *info) {
    const backend *own = backend_own(ctx);
    const bool fine = geqrf_ok(t, count, m, n, a, tau);
    const status st = checked_admit(own, own->lowrank->geqrf, fine, "batched geqrf");
    return st != MOAO_OK || count == 0 ? st
                                       : own->lowrank->geqrf(ctx, t, count, m, n, a, tau, info);
}

status checked_orgqr(backend_ctx *ctx, backend_type t, int64_t count, batch_dim m, batch_dim n,
                     batch_dim k, batch_mat a, batch_mat tau) {
    const backend *own = backend_own(ctx);
    const bool fine = geqrf_ok(t, count, m, n, a, tau) && batch_dim_ok(k, least(m.n, n.n)) &&
                      (n.n <= m.n || m.each != NULL || n.each != NULL);
    const status st = checked_admit(own, own->lowrank->orgqr, fine, "batched orgqr");
    return st != MOAO_OK || count == 0 ? st : own->lowrank->orgqr(ctx, t, count, m, n, k, a, tau);
}

status checked_ormqr(backend_ctx *ctx, backend_type t, char side, char trans, int64_t count,
                     batch_dim m, batch_dim n, batch_dim k, batch_mat a, batch_mat tau,
                     batch_mat c) {
    const backend *own = backend_own(ctx);
    const int64_t order = side == 'L' ? m.n : n.n;
    const bool fine = extents_ok(t, count, m, n, BATCH_WIDE_MAX) && backend_is(side, "LR") &&
                      backend_is(trans, "NT") && batch_dim_ok(k, least(order, BATCH_ORTH_MAX)) &&
                      batch_mat_ok(a, order) && batch_mat_ok(tau, 1) && batch_mat_ok(c, m.n);
    const status st = checked_admit(own, own->lowrank->ormqr, fine, "batched ormqr");
    return st != MOAO_OK || count == 0
               ? st
               : own->lowrank->ormqr(ctx, t, side, trans, count, m, n, k, a, tau, c);
}

status checked_qr(backend_ctx *ctx, backend_type t, char job, int64_t count, batch_dim m,
                  batch_dim n, batch_mat a, batch_mat r, int *info, void *work, size_t lwork) {
    const backend *own = backend_own(ctx);
    const bool fine = extents_ok(t, count, m, n, BATCH_ORTH_MAX) && backend_is(job, "QR") &&
                      batch_mat_ok(a, m.n) && batch_mat_ok(r, least(m.n, n.n));
    const status st =
        admit(own, own->lowrank->qr, fine, "batched qr", BATCH_QR, t, m, n, 0, count, lwork);
    return st != MOAO_OK || count == 0
               ? st
               : own->lowrank->qr(ctx, t, job, count, m, n, a, r, info, work, lwork);
}

/* ---- singular values, sketches, compression */

static bool svd_ok(backend_type t, char jobu, char jobv, const batch_cut *cut, int64_t count,
                   batch_dim m, batch_dim n, int64_t bound, batch_mat a, batch_mat s, batch_mat u,
                   batch_mat v, const int64_t *rank) {
    return extents_ok(t, count, m, n, bound) && backend_is(jobu, "NUS") &&
           backend_is(jobv, "NUS") && (cut == NULL || (cut_ok(cut) && rank != NULL)) &&
           batch_mat_ok(a, m.n) && batch_mat_ok(s, 1) && (jobu == 'N' || batch_mat_ok(u, m.n)) &&
           (jobv == 'N' || batch_mat_ok(v, n.n));
}

status checked_gesvj(backend_ctx *ctx, backend_type t, char jobu, char jobv, const batch_cut *cut,
                     int64_t count, batch_dim m, batch_dim n, batch_mat a, batch_mat s, batch_mat u,
                     batch_mat v, int64_t *rank, int *info, void *work, size_t lwork) {
    const backend *own = backend_own(ctx);
    const bool fine = svd_ok(t, jobu, jobv, cut, count, m, n, BATCH_SVD_MAX, a, s, u, v, rank);
    const status st = admit(own, own->lowrank->gesvj, fine, "batched gesvj", BATCH_GESVJ, t, m, n,
                            0, count, lwork);
    return st != MOAO_OK || count == 0 ? st
                                       : own->lowrank->gesvj(ctx, t, jobu, jobv, cut, count, m, n,
                                                             a, s, u, v, rank, info, work, lwork);
}

status checked_rsvd(backend_ctx *ctx, backend_type t, char jobu, char jobv, const batch_cut *cut,
                    int64_t over, int power, uint64_t seed, int64_t count, batch_dim m, batch_dim n,
                    batch_mat a, batch_mat s, batch_mat u, batch_mat v, int64_t *rank, int *info,
                    void *work, size_t lwork) {
    const backend *own = backend_own(ctx);
    const int64_t samples = cut != NULL ? sum(cut->most, over < 0 ? 8 : over) : 0;
    const bool fine = cut != NULL &&
                      svd_ok(t, jobu, jobv, cut, count, m, n, BATCH_WIDE_MAX, a, s, u, v, rank) &&
                      power >= 0 && power <= 2 && samples <= BATCH_SVD_MAX;
    const status st = admit(own, own->lowrank->rsvd, fine, "batched rsvd", BATCH_RSVD, t, m, n,
                            samples, count, lwork);
    return st != MOAO_OK || count == 0
               ? st
               : own->lowrank->rsvd(ctx, t, jobu, jobv, cut, over, power, seed, count, m, n, a, s,
                                    u, v, rank, info, work, lwork);
}

status checked_ara(backend_ctx *ctx, backend_type t, char job, const batch_cut *cut, uint64_t seed,
                   int64_t count, batch_dim m, batch_dim n, batch_mat a, batch_mat u, batch_mat v,
                   int64_t *rank, int *info, void *work, size_t lwork) {
    const backend *own = backend_own(ctx);
    const bool fine = extents_ok(t, count, m, n, BATCH_WIDE_MAX) && cut != NULL && cut_ok(cut) &&
                      rank != NULL && backend_is(job, "LRB") && batch_mat_ok(a, m.n) &&
                      batch_mat_ok(u, m.n) && batch_mat_ok(v, n.n);
    const status st = admit(own, own->lowrank->ara, fine, "batched ara", BATCH_ARA, t, m, n,
                            cut != NULL ? cut->most : 0, count, lwork);
    return st != MOAO_OK || count == 0 ? st
                                       : own->lowrank->ara(ctx, t, job, cut, seed, count, m, n, a,
                                                           u, v, rank, info, work, lwork);
}

status checked_recompress(backend_ctx *ctx, backend_type t, char job, const batch_cut *cut,
                          int64_t count, batch_dim m, batch_dim n, const void *beta, batch_dim k,
                          batch_mat u, batch_mat v, const void *alpha, batch_dim k2, batch_mat u2,
                          batch_mat v2, int64_t *rank, int *info, void *work, size_t lwork) {
    const backend *own = backend_own(ctx);
    const bool fine = extents_ok(t, count, m, n, BATCH_WIDE_MAX) && cut != NULL && cut_ok(cut) &&
                      rank != NULL && backend_is(job, "LRB") && batch_dim_ok(k, BATCH_SUM_MAX) &&
                      batch_dim_ok(k2, BATCH_SUM_MAX) && k.n + k2.n <= BATCH_SUM_MAX &&
                      batch_mat_ok(u, m.n) && batch_mat_ok(v, n.n) &&
                      (k2.n == 0 || (batch_mat_ok(u2, m.n) && batch_mat_ok(v2, n.n)));
    const status st = admit(own, own->lowrank->recompress, fine, "batched recompress",
                            BATCH_RECOMPRESS, t, m, n, sum(k.n, k2.n), count, lwork);
    return st != MOAO_OK || count == 0
               ? st
               : own->lowrank->recompress(ctx, t, job, cut, count, m, n, beta, k, u, v, alpha, k2,
                                          u2, v2, rank, info, work, lwork);
}
