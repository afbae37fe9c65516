/* The table of batched QR, SVD and low-rank routines: arguments and workspace are checked, then the
 * kernels are started. */
#include "gpu/batch/batch_gpu.h"
#include "lowrank_gpu.h"

static size_t gpu_workspace(batch_op o, backend_type t, int64_t count, int64_t m, int64_t n,
                            int64_t k) {
    if (count <= 0 || m < 0 || n < 0 || k < 0 || (t != BACKEND_D && t != BACKEND_S))
        return 0;
    switch (o) {
    case BATCH_QR:
        return lowrank_qr_work(t, count, m, n);
    case BATCH_GESVJ:
        return lowrank_gesvj_work(t, count, m, n);
    case BATCH_RSVD:
        return lowrank_rsvd_work(t, count, m, n, k);
    case BATCH_ARA:
        return lowrank_ara_work(t, count, m, n, k);
    default:
        return lowrank_recompress_work(t, count, m, n, k);
    }
}

static status gpu_geqrf(backend_ctx *ctx, backend_type t, int64_t count, batch_dim m, batch_dim n,
                        batch_mat a, batch_mat tau, int *info) {
    const gpu_batch_call c(ctx);
    return lowrank_geqrf(c.stream, t, count, m, n, a, tau, info);
}

static status gpu_orgqr(backend_ctx *ctx, backend_type t, int64_t count, batch_dim m, batch_dim n,
                        batch_dim k, batch_mat a, batch_mat tau) {
    const gpu_batch_call c(ctx);
    return lowrank_orgqr(c.stream, t, count, m, n, k, a, tau);
}

static status gpu_ormqr(backend_ctx *ctx, backend_type t, char side, char trans, int64_t count,
                        batch_dim m, batch_dim n, batch_dim k, batch_mat a, batch_mat tau,
                        batch_mat x) {
    const gpu_batch_call c(ctx);
    return lowrank_ormqr(c.stream, t, side, trans, count, m, n, k, a, tau, x);
}

static status gpu_qr(backend_ctx *ctx, backend_type t, char job, int64_t count, batch_dim m,
                     batch_dim n, batch_mat a, batch_mat r, int *info, void *work, size_t lwork) {
    const gpu_batch_call c(ctx);
    return lowrank_qr(c.stream, t, job, count, m, n, a, r, info, work, lwork);
}

static status gpu_gesvj(backend_ctx *ctx, backend_type t, char jobu, char jobv,
                        const batch_cut *cut, int64_t count, batch_dim m, batch_dim n, batch_mat a,
                        batch_mat s, batch_mat u, batch_mat v, int64_t *rank, int *info, void *work,
                        size_t lwork) {
    const gpu_batch_call c(ctx);
    return lowrank_gesvj(c.stream, t, jobu, jobv, cut, count, m, n, a, s, u, v, rank, info, work,
                         lwork);
}

static status gpu_rsvd(backend_ctx *ctx, backend_type t, char jobu, char jobv, const batch_cut *cut,
                       int64_t over, int power, uint64_t seed, int64_t count, batch_dim m,
                       batch_dim n, batch_mat a, batch_mat s, batch_mat u, batch_mat v,
                       int64_t *rank, int *info, void *work, size_t lwork) {
    const gpu_batch_call c(ctx);
    return lowrank_rsvd(c.stream, t, jobu, jobv, cut, over, power, seed, count, m, n, a, s, u, v,
                        rank, info, work, lwork);
}

static status gpu_ara(backend_ctx *ctx, backend_type t, char job, const batch_cut *cut,
                      uint64_t seed, int64_t count, batch_dim m, batch_dim n, batch_mat a,
                      batch_mat u, batch_mat v, int64_t *rank, int *info, void *work,
                      size_t lwork) {
    const gpu_batch_call c(ctx);
    return lowrank_ara(c.stream, t, job, cut, seed, count, m, n, a, u, v, rank, info, work, lwork);
}

static status gpu_recompress(backend_ctx *ctx, backend_type t, char job, const batch_cut *cut,
                             int64_t count, batch_dim m, batch_dim n, const void *beta, batch_dim k,
                             batch_mat u, batch_mat v, const void *alpha, batch_dim k2,
                             batch_mat u2, batch_mat v2, int64_t *rank, int *info, void *work,
                             size_t lwork) {
    const gpu_batch_call c(ctx);
    return lowrank_recompress(c.stream, t, job, cut, count, m, n, beta, k, u, v, alpha, k2, u2, v2,
                              rank, info, work, lwork);
}

const backend_lowrank backend_lowrank_gpu = {
    .size = sizeof(backend_lowrank),
    .workspace = gpu_workspace,
    .geqrf = gpu_geqrf,
    .orgqr = gpu_orgqr,
    .ormqr = gpu_ormqr,
    .qr = gpu_qr,
    .gesvj = gpu_gesvj,
    .rsvd = gpu_rsvd,
    .ara = gpu_ara,
    .recompress = gpu_recompress,
};
