/* trsm and trmm on host data: which schedule, how wide its panels are, and the steps of both. */
#include "host_data.cuh"

/* ---- widths of panels */

/* For panels of up to `other` columns. */
static size_t op_work(bool solve, backend_type t, int64_t n, int64_t other) {
    return gpu_align(solve ? gpu_trsm_work(t, n, other) : gpu_trmm_work_most(t, n, other));
}

/* The first panel is worked on while A arrives. With FIRST columns, the arithmetic takes about as
 * long as the transfer of A, whatever its order; with many columns it is CORNER wide and taken by
 * halves of its rows, so that work begins before all of them are there. The next one must be there
 * soon after A, so it is narrow, and those after it grow. The last ones shrink again, so that
 * little is left to store at the end; halving keeps the way out as busy as the arithmetic. */
#define FIRST ((int64_t)4096)
#define SECOND ((int64_t)1024)
#define LAST ((int64_t)512)
#define CORNER ((int64_t)8192)
#define SHRINKS 13 /* times that the columns may be halved: FIRST to one */

/* The k-th choice of widths, from the one that is wanted to the one that takes the least memory: by
 * halves where B is wide enough for it, then whole columns, narrower each time. */
static bool choice(int64_t n, int64_t other, int k, host_widths *w) {
    const bool fp16 = n >= 1024 && other >= n / 2;
    const int64_t shrink = k - (fp16 ? 1 : 0);
    if (shrink >= SHRINKS)
        return false;
    const int64_t panel = gpu_ceil(gpu_ceil(other, 8), 256) * 256, s = shrink < 0 ? 0 : shrink;
    const int64_t first = FIRST >> s, wide = (panel < 512 ? 512 : gpu_min(panel, FIRST)) >> s;
    *w = host_widths{gpu_min(other, first > 1 ? first : 1), gpu_min(other, wide > 1 ? wide : 1), 0,
                     shrink < 0};
    if (w->fp16) {
        w->first = gpu_min(CORNER, other);
        w->panel = gpu_min(w->first, FIRST);
    }
    w->most = w->first > w->panel ? w->first : w->panel;
    return true;
}

/* Most of a panel by halves is stored before the rest is made, so that the last ones may shrink
 * faster. */
int64_t host_width(host_widths w, int64_t k, int64_t left) {
    const int64_t most = w.fp16 ? left / 3 * 2 : left / 2, shrunk = gpu_ceil(most, 256) * 256,
                  grown = k < 8 ? SECOND << (k - 1) : w.panel;
    return gpu_min(gpu_min(w.panel, left), gpu_min(grown, shrunk > LAST ? shrunk : LAST));
}

static size_t panel_bytes(bool solve, backend_type t, int64_t n, host_widths w) {
    return op_work(solve, t, n, w.most) +
           HOST_BUFFERS * gpu_align((size_t)(n * w.most) * backend_size(t));
}

size_t gpu_host_workspace(backend_op op, backend_type t, char side, int64_t m, int64_t n) {
    const int64_t order = side == 'L' ? m : n, other = side == 'L' ? n : m;
    host_widths w;
    if (m <= 0 || n <= 0)
        return 0;
    choice(order, other, 0, &w);
    return gpu_align((size_t)(order * order) * backend_size(t)) +
           panel_bytes(op == BACKEND_TRSM, t, order, w);
}

/* ---- steps of both schedules */

/* The block of `rows` rows and w columns (side R: columns, rows) at (row, from) of B to the device,
 * or back from there. */
static status transfer(const host_call *s, cudaStream_t q, int64_t row, int64_t rows, int64_t from,
                       int64_t w, void *part, int64_t ld, bool to_host) {
    const bool left = s->p.side == 'L';
    const int64_t lines = left ? rows : w, columns = left ? w : rows;
    void *host = host_place(s, s->b, row, from, s->ldb);
    return to_host ? gpu_send_block(q, s->p.t, lines, columns, part, ld, host, s->ldb)
                   : gpu_send_block(q, s->p.t, lines, columns, host, s->ldb, part, ld);
}

status host_fetch(const host_call *s, int64_t row, int64_t rows, int64_t from, int64_t w,
                  void *part, int64_t ld) {
    return transfer(s, s->ctx->in, row, rows, from, w, part, ld, false);
}

status host_use_what_comes(const host_call *s) {
    CUDA_TRY(cudaEventRecord(s->ctx->arrived, s->ctx->in));
    CUDA_TRY(cudaStreamWaitEvent(s->ctx->main.stream, s->ctx->arrived, 0));
    return MOAO_OK;
}

status host_store(const host_call *s, int64_t k, int64_t row, int64_t rows, int64_t from, int64_t w,
                  void *part, int64_t ld) {
    backend_ctx *c = s->ctx;
    CUDA_TRY(cudaEventRecord(c->computed, c->main.stream));
    CUDA_TRY(cudaStreamWaitEvent(c->out, c->computed, 0));
    GPU_TRY(transfer(s, c->out, row, rows, from, w, part, ld, true));
    CUDA_TRY(cudaEventRecord(c->stored[k % HOST_BUFFERS], c->out));
    return MOAO_OK;
}

status host_compute(const host_call *s, int64_t at, int64_t n, int64_t w, const void *alpha,
                    void *part, int64_t ld, gpu_arrival *wait) {
    const bool left = s->p.side == 'L';
    return (s->solve ? gpu_trsm_run : gpu_trmm_run)(s->ctx, s->p, left ? n : w, left ? w : n, alpha,
                                                    gpu_at(s->p.t, s->dev, at, at, s->n), s->n,
                                                    part, ld, s->work, wait);
}

status host_send_triangle(const host_call *s, int64_t at, int64_t n, gpu_arrival *wait) {
    return gpu_send_triangle(s->ctx, s->p, s->solve, false, n, gpu_at(s->p.t, s->a, at, at, s->lda),
                             s->lda, gpu_at(s->p.t, s->dev, at, at, s->n), s->n, wait);
}

status host_load(const host_call *s, int64_t from, int64_t w, int64_t k) {
    CUDA_TRY(cudaStreamWaitEvent(s->ctx->in, s->ctx->stored[k % HOST_BUFFERS], 0));
    GPU_TRY(host_fetch(s, 0, s->n, from, w, host_buffer(s, k), host_panel_ld(s, w)));
    return host_use_what_comes(s);
}

/* ---- the operations */

/* All three streams begin after the main stream's work so far, and end before what comes to it. */
static status stream_panels(const host_call *s) {
    backend_ctx *c = s->ctx;
    CUDA_TRY(cudaEventRecord(c->fork, c->main.stream));
    CUDA_TRY(cudaStreamWaitEvent(c->in, c->fork, 0));
    CUDA_TRY(cudaStreamWaitEvent(c->out, c->fork, 0));
    for (cudaEvent_t e : c->stored)
        CUDA_TRY(cudaEventRecord(e, c->out));
    GPU_TRY(s->w.fp16 ? host_fp16(s) : host_columns(s));
    CUDA_TRY(cudaEventRecord(c->join, c->out));
    CUDA_TRY(cudaStreamWaitEvent(c->main.stream, c->join, 0));
    CUDA_TRY(cudaEventRecord(c->join, c->in)); /* pieces of A that nothing waited for (alpha = 0) */
    CUDA_TRY(cudaStreamWaitEvent(c->main.stream, c->join, 0));
    return MOAO_OK;
}

static status host_data(bool solve, backend_ctx *ctx, gpu_tri p, int64_t m, int64_t n,
                        const void *alpha, const void *a, int64_t lda, void *b, int64_t ldb,
                        void *work, size_t lwork) {
    gpu_device_guard guard(ctx->device);
    const int64_t order = p.side == 'L' ? m : n, other = p.side == 'L' ? n : m;
    const size_t triangle = gpu_align((size_t)(order * order) * backend_size(p.t));
    host_call s = {};
    bool fits = false;
    if (m == 0 || n == 0)
        return MOAO_OK;
    for (int k = 0; !fits && choice(order, other, k, &s.w); k++)
        fits = triangle + panel_bytes(solve, p.t, order, s.w) <= lwork;
    if (!fits)
        return status_fail(MOAO_INPUT, "%s: the workspace is too small",
                           solve ? "trsm_host" : "trmm_host");
    s.ctx = ctx;
    s.p = p;
    s.solve = solve;
    s.n = order, s.other = other;
    s.alpha = alpha;
    s.a = a, s.b = b;
    s.lda = lda, s.ldb = ldb;
    s.dev = (char *)work;
    s.work = s.dev + triangle;
    s.panels = s.work + op_work(solve, p.t, order, s.w.most);
    s.panel_bytes = gpu_align((size_t)(order * s.w.most) * backend_size(p.t));
    if (s.w.fp16 && backend_equals(p.t, alpha, 0)) /* nothing is read, no product is made */
        choice(order, other, 1, &s.w);
    return stream_panels(&s);
}

status gpu_trsm_host(backend_ctx *ctx, backend_type t, char side, char uplo, char trans, char diag,
                     int64_t m, int64_t n, const void *alpha, const void *a, int64_t lda, void *b,
                     int64_t ldb, void *work, size_t lwork) {
    return host_data(true, ctx, gpu_tri{t, side, uplo, trans, diag}, m, n, alpha, a, lda, b, ldb,
                     work, lwork);
}

status gpu_trmm_host(backend_ctx *ctx, backend_type t, char side, char uplo, char trans, char diag,
                     int64_t m, int64_t n, const void *alpha, const void *a, int64_t lda, void *b,
                     int64_t ldb, void *work, size_t lwork) {
    return host_data(false, ctx, gpu_tri{t, side, uplo, trans, diag}, m, n, alpha, a, lda, b, ldb,
                     work, lwork);
}
