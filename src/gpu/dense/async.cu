/* trsm and trmm on host data: panels of B stream through the device while A arrives in the order in
 * which the recursion needs it; and trsm over several devices, which get A in the same way. */
#include "gpu/core/common.cuh"
#include <thread>
#include <vector>

static size_t align(size_t bytes) {
    return (bytes + 255) / 256 * 256;
}

/* Start to copy a block of `rows` rows and `columns` columns on stream q. */
static status send_block(cudaStream_t q, backend_type t, int64_t rows, int64_t columns,
                         const void *src, int64_t lds, void *dst, int64_t ldd) {
    const size_t e = backend_size(t);
    CUDA_TRY(cudaMemcpy2DAsync(dst, (size_t)ldd * e, src, (size_t)lds * e, (size_t)rows * e,
                               (size_t)columns, cudaMemcpyDefault, q));
    return MOAO_OK;
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
        GPU_TRY(send_block(ctx->in, p.t, c.size + c.left, c.size, gpu_at(p.t, src, i, c.at, lds),
                           lds, gpu_at(p.t, dst, i, c.at, ldd), ldd));
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

#define BUFFERS ((int64_t)(sizeof(backend_ctx::stored) / sizeof(cudaEvent_t)))

/* Widths of the panels of B. The first is worked on while A arrives. With FIRST columns, the
 * arithmetic takes about as long as the transfer of A, whatever its order; with many columns it is
 * CORNER wide and taken by halves of its rows, so that work begins before all of them are there.
 * The next one must be there soon after A, so it is narrow, and those after it grow. The last ones
 * shrink again, so that little is left to store at the end; halving keeps the way out as busy as
 * the arithmetic. */
#define FIRST ((int64_t)4096)
#define SECOND ((int64_t)1024)
#define LAST ((int64_t)512)
#define CORNER ((int64_t)8192)
struct widths {
    int64_t first, panel; /* of the first one, and of all others at most */
    int64_t most;         /* columns of a buffer */
    bool halves;          /* they are taken by halves of the triangle */
};

static widths widths_of(int64_t other, int64_t shrink) {
    const int64_t panel = gpu_ceil(gpu_ceil(other, 8), 256) * 256, first = FIRST >> shrink,
                  wide = (panel < 512 ? 512 : gpu_min(panel, FIRST)) >> shrink;
    widths w = {gpu_min(other, first > 1 ? first : 1), gpu_min(other, wide > 1 ? wide : 1), 0,
                false};
    w.most = w.first > w.panel ? w.first : w.panel;
    return w;
}
static bool by_halves(int64_t n, int64_t other) {
    return n >= 1024 && other >= n / 2;
}
static widths widths_by_halves(int64_t other) {
    widths w = widths_of(other, 0);
    w.first = w.most = gpu_min(CORNER, other);
    w.panel = gpu_min(w.first, FIRST);
    w.halves = true;
    return w;
}

/* Of panel number k (from 1), `left` columns before the end. Most of a panel by halves is stored
 * before the rest is made, so that the last ones may shrink faster. */
static int64_t width_of(widths w, int64_t k, int64_t left) {
    const int64_t most = w.halves ? left / 3 * 2 : left / 2, shrunk = gpu_ceil(most, 256) * 256,
                  grown = k < 8 ? SECOND << (k - 1) : w.panel;
    return gpu_min(gpu_min(w.panel, left), gpu_min(grown, shrunk > LAST ? shrunk : LAST));
}

static size_t panel_bytes(bool solve, backend_type t, int64_t n, widths w) {
    return op_work(solve, t, n, w.most) + BUFFERS * align((size_t)(n * w.most) * backend_size(t));
}

/* The largest widths for a memory of `bytes` beyond A; false: not even one column fits. */
static bool fit_widths(bool solve, backend_type t, int64_t n, int64_t other, size_t bytes,
                       widths *w) {
    *w = widths_by_halves(other);
    if (by_halves(n, other) && panel_bytes(solve, t, n, *w) <= bytes)
        return true;
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
           panel_bytes(op == BACKEND_TRSM, t, order,
                       by_halves(order, other) ? widths_by_halves(other) : widths_of(other, 0));
}

typedef struct {
    backend_ctx *ctx;
    gpu_tri p;
    bool solve;
    int64_t n, other, lda, ldb;
    const void *alpha;
    char *dev, *work, *panels; /* A on the device, leading dimension n; buffers */
    size_t panel_bytes;
    const void *a; /* host */
    void *b;
} streaming;

static void *buffer(const streaming *s, int64_t k) {
    return s->panels + k % BUFFERS * s->panel_bytes;
}
/* Row i, column j of B or of a panel of it; side R: column i, row j. */
static void *place(const streaming *s, const void *b, int64_t i, int64_t j, int64_t ld) {
    return s->p.side == 'L' ? gpu_at(s->p.t, b, i, j, ld) : gpu_at(s->p.t, b, j, i, ld);
}

static int64_t panel_ld(const streaming *s, int64_t w) {
    return s->p.side == 'L' ? s->n : w;
}

/* Start to copy the block of `rows` rows and w columns (side R: columns, rows) at (row, from) of B
 * to the device, or back from there. */
static status transfer(const streaming *s, cudaStream_t q, int64_t row, int64_t rows, int64_t from,
                       int64_t w, void *part, int64_t ld, bool to_host) {
    const bool left = s->p.side == 'L';
    const int64_t lines = left ? rows : w, columns = left ? w : rows;
    void *host = place(s, s->b, row, from, s->ldb);
    return to_host ? send_block(q, s->p.t, lines, columns, part, ld, host, s->ldb)
                   : send_block(q, s->p.t, lines, columns, host, s->ldb, part, ld);
}

/* What `in` has been given so far comes before all that the main stream does next. */
static status use_what_comes(const streaming *s) {
    CUDA_TRY(cudaEventRecord(s->ctx->arrived, s->ctx->in));
    CUDA_TRY(cudaStreamWaitEvent(s->ctx->main.stream, s->ctx->arrived, 0));
    return MOAO_OK;
}
/* A block of buffer k, at `part`, on its way back after what the main stream has been given so far.
 */
static status store(const streaming *s, int64_t k, int64_t row, int64_t rows, int64_t from,
                    int64_t w, void *part, int64_t ld) {
    backend_ctx *c = s->ctx;
    CUDA_TRY(cudaEventRecord(c->computed, c->main.stream));
    CUDA_TRY(cudaStreamWaitEvent(c->out, c->computed, 0));
    GPU_TRY(transfer(s, c->out, row, rows, from, w, part, ld, true));
    CUDA_TRY(cudaEventRecord(c->stored[k % BUFFERS], c->out));
    return MOAO_OK;
}

/* The operation on the triangle of order n at (at, at) of A and w columns of a panel. */
static status compute(const streaming *s, int64_t at, int64_t n, int64_t w, const void *alpha,
                      void *part, int64_t ld, gpu_arrival *wait) {
    const bool left = s->p.side == 'L';
    return (s->solve ? gpu_trsm_run : gpu_trmm_run)(s->ctx, s->p, left ? n : w, left ? w : n, alpha,
                                                    gpu_at(s->p.t, s->dev, at, at, s->n), s->n,
                                                    part, ld, s->work, wait);
}
static status send_triangle(const streaming *s, int64_t at, int64_t n, gpu_arrival *wait) {
    return gpu_send_triangle(s->ctx, s->p, s->solve, false, n, gpu_at(s->p.t, s->a, at, at, s->lda),
                             s->lda, gpu_at(s->p.t, s->dev, at, at, s->n), s->n, wait);
}

/* Panel number k of w columns from `from` on its way. */
static status load(const streaming *s, int64_t from, int64_t w, int64_t k) {
    CUDA_TRY(cudaStreamWaitEvent(s->ctx->in, s->ctx->stored[k % BUFFERS], 0));
    GPU_TRY(transfer(s, s->ctx->in, 0, s->n, from, w, buffer(s, k), panel_ld(s, w), false));
    return use_what_comes(s);
}
/* A panel as a whole. */
static status whole_panel(const streaming *s, int64_t from, int64_t w, int64_t k,
                          gpu_arrival *wait) {
    GPU_TRY(load(s, from, w, k));
    GPU_TRY(compute(s, 0, s->n, w, s->alpha, buffer(s, k), panel_ld(s, w), wait));
    return store(s, k, 0, s->n, from, w, buffer(s, k), panel_ld(s, w));
}

/* Final rows of the first panel, w columns, leave in blocks of STORE or more. */
#define STORE ((int64_t)2048)
struct leaving {
    const streaming *s;
    int64_t w, from, to; /* rows that are final and have not been stored */
    int64_t told;        /* rows that are final, as far as is known */
};
static status store_rows(leaving *l) {
    const int64_t ld = panel_ld(l->s, l->w), row = l->from, rows = l->to - l->from;
    l->from = l->to = 0;
    return rows == 0
               ? MOAO_OK
               : store(l->s, 0, row, rows, 0, l->w, place(l->s, buffer(l->s, 0), row, 0, ld), ld);
}
static status rows_made(void *who, gpu_piece c) {
    leaving *l = (leaving *)who; /* pieces are neighbours */
    l->from = l->from < l->to ? gpu_min(l->from, c.at) : c.at;
    l->to = l->to > c.at + c.size ? l->to : c.at + c.size;
    l->told += c.size;
    return l->to - l->from < STORE ? MOAO_OK : store_rows(l);
}
/* The first panel as a whole, while A arrives and final rows leave. */
static status first_panel(const streaming *s, int64_t w, gpu_arrival *wait) {
    leaving l = {s, w, 0, 0, 0};
    GPU_TRY(load(s, 0, w, 0));
    GPU_TRY(send_triangle(s, 0, s->n, wait));
    wait->made = rows_made, wait->who = &l;
    GPU_TRY(compute(s, 0, s->n, w, s->alpha, buffer(s, 0), panel_ld(s, w), wait));
    wait->made = NULL;
    if (l.told == 0) /* it did not go by pieces, or nothing was final before the end */
        l.to = s->n;
    return store_rows(&l);
}

/* ---- panels by halves of the triangle */

/* The half whose result needs nothing else, the other one, and the block off the diagonal. */
struct halves {
    int64_t early, rows_early, late, rows_late;
    gpu_piece off;
};
static halves halves_of(const streaming *s, int64_t at, int64_t n) {
    const int64_t half = n / 2, rest = n - half, second = at + half;
    const gpu_piece off =
        s->p.uplo == 'L' ? gpu_piece{at, half, second, rest} : gpu_piece{second, rest, at, half};
    if (backend_source_first(s->p.side, s->p.uplo, s->p.trans))
        return halves{at, half, second, rest, off};
    return halves{second, rest, at, half, off};
}

/* late := coefficient op(off) early + beta late, for some columns of the block off the diagonal and
 * w columns of a panel; trsm: coefficient -1, trmm: alpha. */
static status join(const streaming *s, gpu_piece off, int64_t w, const void *beta, void *panel,
                   int64_t ld) {
    const void *coefficient = s->solve ? gpu_scalar(s->p.t, -1) : s->alpha;
    return gpu_piece_product(&s->ctx->main, &s->p, off, w, coefficient, s->dev, s->n, beta, panel,
                             ld);
}

/* The same with beta = 0, while the block arrives by columns, which are sources or targets. */
static status join_as_it_comes(const streaming *s, gpu_piece off, int64_t w, void *panel,
                               int64_t ld) {
    const backend_type t = s->p.t;
    const bool sums = gpu_piece_spreads(&s->p);
    gpu_piece g = off;
    for (int64_t at = 0; at < off.size; at += g.size) {
        g.at = off.at + at;
        g.size = gpu_min(off.size - at, gpu_ceil(off.size, at == 0 ? 16 : 8));
        GPU_TRY(send_block(s->ctx->in, t, g.left, g.size, gpu_at(t, s->a, g.rest, g.at, s->lda),
                           s->lda, gpu_at(t, s->dev, g.rest, g.at, s->n), s->n));
        GPU_TRY(use_what_comes(s));
        GPU_TRY(join(s, g, w, gpu_scalar(t, sums && at > 0), panel, ld));
    }
    return MOAO_OK;
}

/* A panel when all of A is there. Each half of the result leaves as soon as it is made; of a
 * triangle of more than `least` rows the half that remains is halved again. */
static status panel_by_halves(const streaming *s, int64_t from, int64_t w, int64_t k,
                              int64_t least) {
    const int64_t ld = panel_ld(s, w);
    const void *one = gpu_scalar(s->p.t, 1), *alpha = s->alpha;
    void *panel = buffer(s, k);
    int64_t at = 0, n = s->n;
    GPU_TRY(load(s, from, w, k));
    while (n > least) {
        const halves h = halves_of(s, at, n);
        const int64_t row = s->solve ? h.early : h.late,
                      rows = s->solve ? h.rows_early : h.rows_late;
        void *made = place(s, panel, row, 0, ld);
        GPU_TRY(compute(s, row, rows, w, alpha, made, ld, NULL));
        if (!s->solve)
            GPU_TRY(join(s, h.off, w, one, panel, ld));
        GPU_TRY(store(s, k, row, rows, from, w, made, ld));
        if (s->solve) {
            GPU_TRY(join(s, h.off, w, alpha, panel, ld));
            alpha = one;
        }
        at = s->solve ? h.late : h.early, n -= rows;
    }
    void *made = place(s, panel, at, 0, ld);
    GPU_TRY(compute(s, at, n, w, alpha, made, ld, NULL));
    return store(s, k, at, n, from, w, made, ld);
}

/* The first panel, w columns, while A arrives. Early rows of half of the columns come first, then
 * their triangle, then the block off the diagonal, whose product with them is summed by itself;
 * then early rows of the other columns, a few first; late rows and their triangle come last. Buffer
 * 1 gets the result; buffer 0 late rows as they came (trsm), or early rows as they came and that
 * product (trmm). */
static status first_by_halves(const streaming *s, const halves *h, int64_t w) {
    backend_ctx *c = s->ctx;
    const backend_type t = s->p.t;
    const bool left = s->p.side == 'L';
    const int64_t ld = panel_ld(s, w);
    const void *one = gpu_scalar(t, 1);
    void *result = buffer(s, 1), *beside = buffer(s, 0), *sources = s->solve ? result : beside;
    gpu_arrival wait;
    for (int64_t j = 0, width = gpu_ceil(w, 2); j < w;
         j += width, width = gpu_min(w - j, j <= gpu_ceil(w, 2) ? gpu_ceil(w, 8) : w)) {
        void *to = place(s, sources, h->early, j, ld), *made = place(s, result, h->early, j, ld);
        GPU_TRY(transfer(s, c->in, h->early, h->rows_early, j, width, to, ld, false));
        GPU_TRY(use_what_comes(s));
        if (j == 0)
            GPU_TRY(send_triangle(s, h->early, h->rows_early, &wait));
        if (!s->solve)
            GPU_TRY(gpu_copy_block(c->main.stream, t, 'A', false, left ? h->rows_early : width,
                                   left ? width : h->rows_early, to, ld, made, ld));
        GPU_TRY(
            compute(s, h->early, h->rows_early, width, s->alpha, made, ld, j == 0 ? &wait : NULL));
        GPU_TRY(store(s, 1, h->early, h->rows_early, j, width, made, ld));
        GPU_TRY(j == 0 ? join_as_it_comes(s, h->off, width, sources, ld)
                       : join(s, h->off, width, gpu_scalar(t, 0), place(s, sources, 0, j, ld), ld));
    }
    GPU_TRY(send_triangle(s, h->late, h->rows_late, &wait));
    /* in more parts where no panel follows: the last part is stored at the end */
    const int64_t part = gpu_ceil(w, w < s->other ? 2 : 4);
    for (int64_t j = 0, width = part; j < w; j += width, width = gpu_min(part, w - j)) {
        void *made = place(s, result, h->late, j, ld), *other = place(s, beside, h->late, j, ld);
        GPU_TRY(transfer(s, c->in, h->late, h->rows_late, j, width, s->solve ? other : made, ld,
                         false));
        GPU_TRY(use_what_comes(s)); /* the triangle too */
        if (!s->solve)
            GPU_TRY(compute(s, h->late, h->rows_late, width, s->alpha, made, ld, NULL));
        GPU_TRY(blas_add(&c->main, t, left ? h->rows_late : width, left ? width : h->rows_late,
                         s->solve ? s->alpha : one, other, ld, made, ld));
        CUDA_TRY(cudaEventRecord(c->stored[0], c->main.stream)); /* buffer 0 is free */
        if (s->solve)
            GPU_TRY(compute(s, h->late, h->rows_late, width, one, made, ld, NULL));
        GPU_TRY(store(s, 1, h->late, h->rows_late, j, width, made, ld));
    }
    return MOAO_OK;
}

static status stream_panels(const streaming *s, widths w) {
    backend_ctx *c = s->ctx;
    const halves h = halves_of(s, 0, s->n);
    gpu_arrival wait;
    CUDA_TRY(cudaEventRecord(c->fork, c->main.stream));
    CUDA_TRY(cudaStreamWaitEvent(c->in, c->fork, 0));
    CUDA_TRY(cudaStreamWaitEvent(c->out, c->fork, 0));
    for (cudaEvent_t e : c->stored)
        CUDA_TRY(cudaEventRecord(e, c->out));
    GPU_TRY(w.halves ? first_by_halves(s, &h, w.first) : first_panel(s, w.first, &wait));
    /* by halves: next into the buffer that is free */
    for (int64_t width, from = w.first, k = w.halves ? 2 : 1; from < s->other; from += width, k++) {
        width = width_of(w, k, s->other - from);
        const int64_t least = gpu_ceil(s->n, from + width == s->other ? 8 : 2);
        GPU_TRY(w.halves ? panel_by_halves(s, from, width, k, least)
                         : whole_panel(s, from, width, k, &wait));
    }
    CUDA_TRY(cudaEventRecord(c->join, c->out));
    CUDA_TRY(cudaStreamWaitEvent(c->main.stream, c->join, 0));
    CUDA_TRY(cudaEventRecord(c->join, c->in)); /* pieces of A that nothing waited for (alpha = 0) */
    CUDA_TRY(cudaStreamWaitEvent(c->main.stream, c->join, 0));
    return MOAO_OK;
}

static status host_data(bool solve, backend_ctx *ctx, backend_type t, char side, char uplo,
                        char trans, char diag, int64_t m, int64_t n, const void *alpha,
                        const void *a, int64_t lda, void *b, int64_t ldb, void *work,
                        size_t lwork) {
    gpu_device_guard guard(ctx->device);
    const char *name = solve ? "trsm_host" : "trmm_host";
    if (m == 0 || n == 0)
        return MOAO_OK;
    const int64_t order = side == 'L' ? m : n, other = side == 'L' ? n : m;
    const size_t triangle = align((size_t)(order * order) * backend_size(t));
    widths w;
    if (lwork <= triangle || !fit_widths(solve, t, order, other, lwork - triangle, &w))
        return status_fail(MOAO_INPUT, "%s: the workspace is too small", name);
    streaming s = {ctx, gpu_tri{t, side, uplo, trans, diag}, solve, order, other, lda, ldb, alpha};
    s.dev = (char *)work;
    s.work = s.dev + triangle;
    s.panels = s.work + op_work(solve, t, order, w.most);
    s.panel_bytes = align((size_t)(order * w.most) * backend_size(t));
    s.a = a, s.b = b;
    if (w.halves && backend_equals(t, alpha, 0)) /* nothing is read, no product is made */
        w = widths_of(other, 0);
    return stream_panels(&s, w);
}

status gpu_trsm_host(backend_ctx *ctx, backend_type t, char side, char uplo, char trans, char diag,
                     int64_t m, int64_t n, const void *alpha, const void *a, int64_t lda, void *b,
                     int64_t ldb, void *work, size_t lwork) {
    return host_data(true, ctx, t, side, uplo, trans, diag, m, n, alpha, a, lda, b, ldb, work,
                     lwork);
}

status gpu_trmm_host(backend_ctx *ctx, backend_type t, char side, char uplo, char trans, char diag,
                     int64_t m, int64_t n, const void *alpha, const void *a, int64_t lda, void *b,
                     int64_t ldb, void *work, size_t lwork) {
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
