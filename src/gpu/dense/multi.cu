/* trsm and trmm over several devices: each is fed by a thread of its own, and has the triangle sent
 * from the first one's memory, in pieces that double, while it computes with what is there. */
#include "arrival.cuh"
#include <system_error>
#include <thread>
#include <vector>

size_t gpu_multi_workspace(int g, backend_type t, char side, int64_t size, int64_t part) {
    (void)side;
    const size_t triangle =
        g > 0 && size > 0 ? gpu_align((size_t)(size * size) * backend_size(t)) : 0;
    const size_t solve = gpu_trsm_work(t, size, part), multiply = gpu_trmm_work_most(t, size, part);
    return triangle + (solve > multiply ? solve : multiply);
}

static status enable_peer(int from, int to) {
    int can = 0;
    if (from == to)
        return MOAO_OK;
    CUDA_TRY(cudaDeviceCanAccessPeer(&can, from, to));
    if (!can)
        return MOAO_OK; /* copies then pass through host memory */
    cudaError_t e = cudaDeviceEnablePeerAccess(to, 0);
    if (e == cudaErrorPeerAccessAlreadyEnabled)
        cudaGetLastError();
    else
        CUDA_TRY(e);
    return MOAO_OK;
}

typedef struct {
    backend_ctx *ctx, *root;
    gpu_tri p;
    bool solve;
    int64_t size, part, lda, ldb;
    const void *alpha, *a;
    void *b, *dev;
    status result;
} share;

static status start_share(share *s) {
    backend_ctx *c = s->ctx;
    const bool left = s->p.side == 'L', remote = c != s->root;
    const size_t triangle =
        remote ? gpu_align((size_t)(s->size * s->size) * backend_size(s->p.t)) : 0;
    gpu_arrival w;
    if (remote) {
        GPU_TRY(enable_peer(c->device, s->root->device));
        CUDA_TRY(cudaEventRecord(c->fork, c->main.stream));
        CUDA_TRY(cudaStreamWaitEvent(c->in, c->fork, 0));
        CUDA_TRY(cudaStreamWaitEvent(c->in, s->root->mark[0], 0));
        GPU_TRY(
            gpu_send_triangle(c, s->p, s->solve, true, s->size, s->a, s->lda, s->dev, s->size, &w));
    }
    GPU_TRY((s->solve ? gpu_trsm_run
                      : gpu_trmm_run)(c, s->p, left ? s->size : s->part, left ? s->part : s->size,
                                      s->alpha, remote ? s->dev : s->a, remote ? s->size : s->lda,
                                      s->b, s->ldb, (char *)s->dev + triangle, remote ? &w : NULL));
    return MOAO_OK;
}

static status work_share(share *s) {
    backend_ctx *c = s->ctx;
    gpu_device_guard guard(c->device);
    const status st = start_share(s);
    if (c == s->root)
        return st;
    /* also after a failure, and for pieces that nothing waited for */
    CUDA_TRY(cudaEventRecord(c->join, c->in));
    CUDA_TRY(cudaStreamWaitEvent(c->main.stream, c->join, 0));
    CUDA_TRY(cudaEventRecord(c->mark[1], c->main.stream));
    return st;
}

/* One device by a thread of its own, or by the caller's where the system has none. */
static void feed(std::vector<std::thread> *threads, share *s) {
    const auto run = [s] { s->result = work_share(s); };
    try {
        threads->emplace_back(run);
    } catch (const std::system_error &) {
        run();
    }
}

static status over_devices(bool solve, int count, backend_ctx *const *ctx, backend_type t,
                           char side, char uplo, char trans, char diag, int64_t size,
                           const int64_t *part, const void *alpha, const void *a, int64_t lda,
                           void *const *b, const int64_t *ldb, void *const *dev,
                           const size_t *ldev) {
    std::vector<share> work;
    std::vector<std::thread> threads;
    for (int g = 0; g < count; g++) {
        if (ldev[g] < gpu_multi_workspace(g, t, side, size, part[g]))
            return status_fail(MOAO_INPUT, "%s_multi: the workspace of part %d is too small",
                               solve ? "trsm" : "trmm", g);
        work.push_back(share{ctx[g], ctx[0], gpu_tri{t, side, uplo, trans, diag}, solve, size,
                             part[g], lda, ldb[g], alpha, a, b[g], dev[g], MOAO_OK});
    }
    if (count == 0 || size == 0)
        return MOAO_OK;
    gpu_device_guard guard(ctx[0]->device);
    CUDA_TRY(cudaEventRecord(ctx[0]->mark[0], ctx[0]->main.stream));
    threads.reserve((size_t)count);
    for (int g = 1; g < count; g++) /* none starts late */
        feed(&threads, &work[g]);
    work[0].result = work_share(&work[0]);
    for (std::thread &one : threads)
        one.join();
    status st = work[0].result;
    for (int g = 1; g < count; g++) { /* after a failure, too: A is read until then */
        if (work[g].result != MOAO_OK && st == MOAO_OK) /* its message is that of its thread */
            st = status_fail(work[g].result, "%s_multi: GPU %d failed at part %d",
                             solve ? "trsm" : "trmm", ctx[g]->device, g);
        CUDA_TRY(cudaStreamWaitEvent(ctx[0]->main.stream, ctx[g]->mark[1], 0));
    }
    return st;
}

#define OVER_DEVICES(op, solve)                                                                    \
    status gpu_##op##_multi(int count, backend_ctx *const *ctx, backend_type t, char side,         \
                            char uplo, char trans, char diag, int64_t size, const int64_t *part,   \
                            const void *alpha, const void *a, int64_t lda, void *const *b,         \
                            const int64_t *ldb, void *const *dev, const size_t *ldev) {            \
        return over_devices(solve, count, ctx, t, side, uplo, trans, diag, size, part, alpha, a,   \
                            lda, b, ldb, dev, ldev);                                               \
    }
OVER_DEVICES(trsm, true)
OVER_DEVICES(trmm, false)
