/* trsm and trmm on host data: panels of B stream through the device while A arrives in the order in
 * which the recursion needs it; and trsm over several devices, which get A in the same way. */
#include "common.cuh"
#include <thread>
#include <vector>

#define BUFFERS 3

static size_t align(size_t bytes) {
    return (bytes + 255) / 256 * 256;
}

/* ---- a triangle on its way */

status gpu_await(gpu_arrival *w, int64_t from, int64_t to) {
    if (!w)
        return MOAO_OK;
    const int64_t block = w->descending ? gpu_ceil(w->n, w->block) - 1 - from / w->block
                                        : (to - 1) / w->block; /* the last one to arrive */
    int last = 0;
    while (gpu_piece_start(w, last + 1) <= block)
        last++;
    if (last > w->waited) {
        CUDA_TRY(cudaStreamWaitEvent(w->stream, w->event[last], 0));
        w->waited = last;
    }
    return MOAO_OK;
}

status gpu_send_triangle(backend_ctx *ctx, gpu_tri p, bool solve, bool doubling, int64_t n,
                         const void *src, int64_t lds, void *dst, int64_t ldd, gpu_arrival *w) {
    const size_t e = backend_size(p.t);
    const bool descending = backend_source_first(p.side, p.uplo, p.trans) != solve,
               upper = p.uplo == 'U';
    const int64_t nb = gpu_tune.trsm_nb_narrow > gpu_tune.trsm_nb_wide ? gpu_tune.trsm_nb_narrow
                                                                       : gpu_tune.trsm_nb_wide;
    const int64_t block = gpu_ceil(gpu_ceil(n, doubling ? 16 : GPU_PIECES), nb) * nb;
    *w = gpu_arrival{n, block, descending, upper, doubling, 0, -1, ctx->piece, ctx->main.stream};
    while (gpu_piece_start(w, w->pieces) < gpu_ceil(n, block))
        w->pieces++;
    for (int k = 0; k < w->pieces; k++) {
        const gpu_piece c = gpu_piece_of(w, k);
        const int64_t i = upper ? 0 : c.at;
        CUDA_TRY(cudaMemcpy2DAsync(gpu_at(p.t, dst, i, c.at, ldd), (size_t)ldd * e,
                                   gpu_at(p.t, src, i, c.at, lds), (size_t)lds * e,
                                   (size_t)(c.size + c.left) * e, (size_t)c.size, cudaMemcpyDefault,
                                   ctx->in));
        CUDA_TRY(cudaEventRecord(w->event[k], ctx->in));
    }
    return MOAO_OK;
}

status gpu_piece_product(gpu_queue *q, const gpu_tri *p, gpu_piece c, int64_t other,
                         const void *alpha, const void *a, int64_t lda, const void *beta, void *b,
                         int64_t ldb) {
    const bool spreads = gpu_piece_spreads(p), left = p->side == 'L';
    const int64_t source = spreads ? c.at : c.rest, target = spreads ? c.rest : c.at;
    const int64_t from = spreads ? c.size : c.left, to = spreads ? c.left : c.size;
    const void *off = gpu_at(p->t, a, c.rest, c.at, lda),
               *x = left ? gpu_at(p->t, b, source, 0, ldb) : gpu_at(p->t, b, 0, source, ldb);
    void *y = left ? gpu_at(p->t, b, target, 0, ldb) : gpu_at(p->t, b, 0, target, ldb);
    if (left)
        return blas_gemm(q, p->t, p->trans, 'N', to, other, from, alpha, off, lda, x, ldb, beta, y,
                         ldb);
    return blas_gemm(q, p->t, 'N', p->trans, other, to, from, alpha, x, ldb, off, lda, beta, y,
                     ldb);
}

/* ---- host data */

/* For panels of up to `other` columns: fewer of them may take larger diagonal blocks. */
static size_t op_work(bool solve, backend_type t, int64_t n, int64_t other) {
    if (!solve)
        return align(gpu_trmm_work_most(t, n, other));
    const size_t wide = gpu_trsm_work(t, n, other),
                 narrow = gpu_trsm_work(t, n, gpu_min(other, gpu_tune.trsm_narrow));
    return align(wide > narrow ? wide : narrow);
}

/* Widths of the panels of B. The first is worked on while A arrives: with FIRST columns, the
 * arithmetic takes about as long as the transfer of A, whatever its order. The next one must be
 * there soon after A, so it is narrow, and those after it grow. The last ones shrink again, so that
 * little is left to store at the end; halving keeps the way out as busy as the arithmetic. */
#define FIRST ((int64_t)4096)
#define SECOND ((int64_t)1024)
#define LAST ((int64_t)512)
struct widths {
    int64_t first, panel; /* of the first one, and of all others at most */
    int64_t most;         /* columns of a buffer */
};

static widths widths_of(int64_t other, int64_t shrink) {
    const int64_t panel = gpu_ceil(gpu_ceil(other, 8), 256) * 256, first = FIRST >> shrink,
                  wide = (panel < 512 ? 512 : gpu_min(panel, FIRST)) >> shrink;
    widths w = {gpu_min(other, first > 1 ? first : 1), gpu_min(other, wide > 1 ? wide : 1), 0};
    w.most = w.first > w.panel ? w.first : w.panel;
    return w;
}

/* Of panel number k (from 1), `left` columns before the end. */
static int64_t width_of(widths w, int64_t k, int64_t left) {
    const int64_t half = gpu_ceil(left, 512) * 256, grown = k < 8 ? SECOND << (k - 1) : w.panel;
    return gpu_min(gpu_min(w.panel, left), gpu_min(grown, half > LAST ? half : LAST));
}

static size_t panel_bytes(bool solve, backend_type t, int64_t n, widths w) {
    return op_work(solve, t, n, w.most) + BUFFERS * align((size_t)(n * w.most) * backend_size(t));
}

/* The largest widths for a memory of `bytes` beyond A; false: not even one column fits. */
static bool fit_widths(bool solve, backend_type t, int64_t n, int64_t other, size_t bytes,
                       widths *w) {
    for (int64_t shrink = 0; shrink < 13; shrink++) {
        *w = widths_of(other, shrink);
        if (panel_bytes(solve, t, n, *w) <= bytes)
            return true;
    }
    return false;
}

size_t gpu_host_workspace(backend_op op, backend_type t, char side, int64_t m, int64_t n) {
    const int64_t order = side == 'L' ? m : n, other = side == 'L' ? n : m;
    if (m <= 0 || n <= 0)
        return 0;
    return align((size_t)(order * order) * backend_size(t)) +
           panel_bytes(op == BACKEND_TRSM, t, order, widths_of(other, 0));
}

typedef struct {
    backend_ctx *ctx;
    gpu_tri p;
    bool solve;
    int64_t n, other, ldb;
    const void *alpha;
    char *a, *work, *panels;
    void *b; /* host */
    gpu_arrival wait;
} streaming;

/* Copy columns (rows for side R) [from, from + w) of B to or from a panel. */
static status transfer(const streaming *s, cudaStream_t q, int64_t from, int64_t w, void *panel,
                       bool to_host) {
    const size_t e = backend_size(s->p.t);
    const bool left = s->p.side == 'L';
    const size_t rows = (size_t)(left ? s->n : w) * e, cols = (size_t)(left ? w : s->n);
    void *host =
        left ? gpu_at(s->p.t, s->b, 0, from, s->ldb) : gpu_at(s->p.t, s->b, from, 0, s->ldb);
    const size_t ld = (size_t)s->ldb * e;
    if (to_host)
        CUDA_TRY(cudaMemcpy2DAsync(host, ld, panel, rows, rows, cols, cudaMemcpyDefault, q));
    else
        CUDA_TRY(cudaMemcpy2DAsync(panel, rows, host, ld, rows, cols, cudaMemcpyDefault, q));
    return MOAO_OK;
}

/* One panel of w columns from `from`, in buffer k: in, computed, out. */
static status one_panel(streaming *s, int64_t from, int64_t w, void *panel, int k, bool first,
                        const void *a, int64_t lda) {
    backend_ctx *c = s->ctx;
    cudaEvent_t loaded = c->panel[k], computed = c->panel[BUFFERS + k],
                stored = c->panel[2 * BUFFERS + k];
    const bool left = s->p.side == 'L';
    const int64_t m = left ? s->n : w, n = left ? w : s->n;
    CUDA_TRY(cudaStreamWaitEvent(c->in, stored, 0));
    GPU_TRY(transfer(s, c->in, from, w, panel, false));
    CUDA_TRY(cudaEventRecord(loaded, c->in));
    if (first)
        GPU_TRY(gpu_send_triangle(c, s->p, s->solve, false, s->n, a, lda, s->a, s->n, &s->wait));
    CUDA_TRY(cudaStreamWaitEvent(c->main.stream, loaded, 0));
    if (s->solve)
        GPU_TRY(gpu_trsm_run(c, s->p, m, n, s->alpha, s->a, s->n, panel, m, s->work, &s->wait));
    else
        GPU_TRY(gpu_trmm_run(c, s->p, m, n, s->alpha, s->a, s->n, panel, m, s->work, &s->wait));
    CUDA_TRY(cudaEventRecord(computed, c->main.stream));
    CUDA_TRY(cudaStreamWaitEvent(c->out, computed, 0));
    GPU_TRY(transfer(s, c->out, from, w, panel, true));
    CUDA_TRY(cudaEventRecord(stored, c->out));
    return MOAO_OK;
}

static status stream_panels(streaming *s, widths w, const void *a, int64_t lda) {
    backend_ctx *c = s->ctx;
    const size_t bytes = align((size_t)(s->n * w.most) * backend_size(s->p.t));
    CUDA_TRY(cudaEventRecord(c->fork, c->main.stream));
    CUDA_TRY(cudaStreamWaitEvent(c->in, c->fork, 0));
    CUDA_TRY(cudaStreamWaitEvent(c->out, c->fork, 0));
    for (int k = 0; k < BUFFERS; k++)
        CUDA_TRY(cudaEventRecord(c->panel[2 * BUFFERS + k], c->out));
    int64_t width = w.first;
    for (int64_t from = 0, k = 0; from < s->other; from += width, k++) {
        if (k > 0)
            width = width_of(w, k, s->other - from);
        GPU_TRY(one_panel(s, from, width, s->panels + k % BUFFERS * bytes, (int)(k % BUFFERS),
                          k == 0, a, lda));
    }
    CUDA_TRY(cudaEventRecord(c->join, c->out));
    CUDA_TRY(cudaStreamWaitEvent(c->main.stream, c->join, 0));
    CUDA_TRY(cudaEventRecord(c->join, c->in)); /* pieces of A that nothing waited for (alpha = 0) */
    CUDA_TRY(cudaStreamWaitEvent(c->main.stream, c->join, 0));
    return MOAO_OK;
}

static status host_data(bool solve, GPU_TRI_ARGS) {
    gpu_device_guard guard(ctx->device);
    const char *name = solve ? "trsm_host" : "trmm_host";
    if (!backend_tri_ok(side, uplo, trans, diag, m, n, lda, ldb))
        return status_fail(MOAO_INPUT, "%s: an argument is out of range", name);
    if (m == 0 || n == 0)
        return MOAO_OK;
    const int64_t order = side == 'L' ? m : n, other = side == 'L' ? n : m;
    const size_t triangle = align((size_t)(order * order) * backend_size(t));
    widths w;
    if (lwork <= triangle || !fit_widths(solve, t, order, other, lwork - triangle, &w))
        return status_fail(MOAO_INPUT, "%s: the workspace is too small", name);
    streaming s = {ctx, gpu_tri{t, side, uplo, trans, diag}, solve, order, other, ldb, alpha};
    s.a = (char *)work;
    s.work = s.a + triangle;
    s.panels = s.work + op_work(solve, t, order, w.most);
    s.b = b;
    return stream_panels(&s, w, a, lda);
}

status gpu_trsm_host(GPU_TRI_ARGS) {
    return host_data(true, ctx, t, side, uplo, trans, diag, m, n, alpha, a, lda, b, ldb, work,
                     lwork);
}

status gpu_trmm_host(GPU_TRI_ARGS) {
    return host_data(false, ctx, t, side, uplo, trans, diag, m, n, alpha, a, lda, b, ldb, work,
                     lwork);
}

/* ---- several devices */

size_t gpu_multi_workspace(int g, backend_type t, char side, int64_t size, int64_t part) {
    (void)side;
    const size_t triangle = g > 0 && size > 0 ? align((size_t)(size * size) * backend_size(t)) : 0;
    return triangle + gpu_trsm_work(t, size, part);
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
    int64_t size, part, lda, ldb;
    const void *alpha, *a;
    void *b, *dev;
    status result;
} share;

static status solve_share(share *s) {
    backend_ctx *c = s->ctx;
    gpu_device_guard guard(c->device);
    const bool left = s->p.side == 'L', remote = c != s->root;
    const size_t triangle = remote ? align((size_t)(s->size * s->size) * backend_size(s->p.t)) : 0;
    gpu_arrival w;
    if (remote) {
        GPU_TRY(enable_peer(c->device, s->root->device));
        CUDA_TRY(cudaEventRecord(c->fork, c->main.stream));
        CUDA_TRY(cudaStreamWaitEvent(c->in, c->fork, 0));
        CUDA_TRY(cudaStreamWaitEvent(c->in, s->root->mark[0], 0));
        GPU_TRY(gpu_send_triangle(c, s->p, true, true, s->size, s->a, s->lda, s->dev, s->size, &w));
    }
    GPU_TRY(gpu_trsm_run(c, s->p, left ? s->size : s->part, left ? s->part : s->size, s->alpha,
                         remote ? s->dev : s->a, remote ? s->size : s->lda, s->b, s->ldb,
                         (char *)s->dev + triangle, remote ? &w : NULL));
    if (remote) { /* also pieces that nothing waited for */
        CUDA_TRY(cudaEventRecord(c->join, c->in));
        CUDA_TRY(cudaStreamWaitEvent(c->main.stream, c->join, 0));
        CUDA_TRY(cudaEventRecord(c->mark[1], c->main.stream));
    }
    return MOAO_OK;
}

status gpu_trsm_multi(int count, backend_ctx *const *ctx, backend_type t, char side, char uplo,
                      char trans, char diag, int64_t size, const int64_t *part, const void *alpha,
                      const void *a, int64_t lda, void *const *b, const int64_t *ldb,
                      void *const *dev, const size_t *ldev) {
    std::vector<share> work;
    std::vector<std::thread> threads;
    for (int g = 0; g < count; g++) {
        if (!backend_tri_ok(side, uplo, trans, diag, side == 'L' ? size : part[g],
                            side == 'L' ? part[g] : size, lda, ldb[g]))
            return status_fail(MOAO_INPUT, "trsm_multi: an argument is out of range");
        if (ldev[g] < gpu_multi_workspace(g, t, side, size, part[g]))
            return status_fail(MOAO_INPUT, "trsm_multi: the workspace of part %d is too small", g);
        work.push_back(share{ctx[g], ctx[0], gpu_tri{t, side, uplo, trans, diag}, size, part[g],
                             lda, ldb[g], alpha, a, b[g], dev[g], MOAO_OK});
    }
    if (count == 0 || size == 0)
        return MOAO_OK;
    gpu_device_guard guard(ctx[0]->device);
    CUDA_TRY(cudaEventRecord(ctx[0]->mark[0], ctx[0]->main.stream));
    for (int g = 1; g < count;
         g++) /* each device is fed by a thread of its own: none starts late */
        threads.emplace_back([&work, g] { work[g].result = solve_share(&work[g]); });
    work[0].result = solve_share(&work[0]);
    for (std::thread &one : threads)
        one.join();
    for (int g = 0; g < count; g++)
        GPU_TRY(work[g].result);
    for (int g = 1; g < count; g++)
        CUDA_TRY(cudaStreamWaitEvent(ctx[0]->main.stream, ctx[g]->mark[1], 0));
    return MOAO_OK;
}
