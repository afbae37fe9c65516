/* trsm: recursion into gemm down to diagonal blocks whose inverses are at hand.
 *
 * Diagonal blocks of order up to 512 (few right-hand sides) or 256 are inverted, many at once; with
 * them a leaf is one gemm from a copy, which is made of as many rows at once as 8 MiB hold. All
 * else is gemm on halves whose sizes are a power of two times the block. A long triangle has its
 * inverses made group by group, in the side stream, one group ahead of the recursion. */
#include "arrival.cuh"

#define PANEL_BYTES ((int64_t)8 << 20)

static int64_t block_order(backend_type t, int64_t n, int64_t other) {
    const int64_t want =
        other <= gpu_tune.trsm_narrow ? gpu_tune.trsm_nb_narrow : gpu_tune.trsm_nb_wide;
    int64_t nb = gpu_invert_base(t);
    while (nb < want && nb < n)
        nb *= 2;
    return nb;
}

/* Sizes of the parts of the workspace: one group of inverses, the scratch of their making, the
 * copy. */
static void plan(backend_type t, int64_t n, int64_t other, int64_t nb, int64_t *group,
                 int64_t *panel, size_t bytes[3]) {
    const int64_t e = (int64_t)backend_size(t),
                  bytes_of_group = gpu_tune.trsm_group << (other <= gpu_tune.trsm_narrow ? 20 : 19);
    const int64_t most = bytes_of_group / (nb * nb * e);
    const int64_t blocks = gpu_min(gpu_ceil(n, nb), most > 1 ? most : 1);
    *group = blocks * nb;
    *panel = gpu_min(other, PANEL_BYTES / (nb * e));
    bytes[0] = (size_t)(blocks * nb * nb * e);
    bytes[1] = (gpu_invert_tmp(t, *group, nb) + 255) / 256 * 256;
    bytes[2] = (size_t)gpu_min(n * other * e, PANEL_BYTES);
}

static size_t work_of(backend_type t, int64_t n, int64_t other) {
    int64_t group, panel;
    size_t bytes[3];
    const int64_t nb = block_order(t, n, other);
    plan(t, n, other, nb, &group, &panel, bytes);
    return bytes[0] * (n > nb ? 2 : 1) + bytes[1] +
           bytes[2]; /* groups are smaller while A arrives */
}

/* Also for fewer right-hand sides, of which few have larger groups. */
size_t gpu_trsm_work(backend_type t, int64_t n, int64_t other) {
    if (n <= 0 || other <= 0)
        return 0;
    const size_t few = work_of(t, n, gpu_min(other, gpu_tune.trsm_narrow)),
                 all = work_of(t, n, other);
    return few > all ? few : all;
}

/* The k-th group in the order of the recursion. */
static int64_t group_start(const gpu_solve *s, int64_t k) {
    const bool ascending = backend_source_first(s->p.side, s->p.uplo, s->p.trans);
    return (ascending ? k : s->groups - 1 - k) * s->group;
}

/* Make the inverses of the k-th group in queue q. */
static status invert_group(gpu_solve *s, gpu_queue *q, gpu_arrival *w, int64_t k) {
    const int64_t g0 = group_start(s, k), rows = gpu_min(s->group, s->n - g0);
    GPU_TRY(gpu_await(w, g0, g0 + rows));
    return gpu_invert_blocks(q, s->p.t, s->p.uplo, s->p.diag, rows,
                             gpu_at(s->p.t, s->a, g0, g0, s->lda), s->lda, s->nb, s->inv[k & 1],
                             s->tmp);
}

/* In the side stream, after all that the main stream has done so far; mark[k & 1] tells that it is
 * made. */
static status invert_ahead(gpu_solve *s, int64_t k) {
    gpu_queue *side = &s->ctx->side;
    CUDA_TRY(cudaEventRecord(s->ctx->fork, s->q->stream));
    CUDA_TRY(cudaStreamWaitEvent(side->stream, s->ctx->fork, 0));
    GPU_TRY(invert_group(s, side, s->wait ? &s->wait_side : NULL, k));
    CUDA_TRY(cudaEventRecord(s->ctx->ahead[k & 1], side->stream));
    return MOAO_OK;
}

/* The recursion has come to the k-th group. */
static status enter_group(gpu_solve *s, int64_t k) {
    s->at_group = k;
    if (k == 0)
        GPU_TRY(invert_group(s, s->q, s->wait, 0));
    else
        CUDA_TRY(cudaStreamWaitEvent(s->q->stream, s->ctx->ahead[k & 1], 0));
    return k + 1 < s->groups ? invert_ahead(s, k + 1) : MOAO_OK;
}

/* Part of B, or of a copy of it, from row (side R: column) i on. */
static void *rows_from(const gpu_solve *s, const void *b, int64_t i, int64_t ld) {
    return s->p.side == 'L' ? gpu_at(s->p.t, b, i, 0, ld) : gpu_at(s->p.t, b, 0, i, ld);
}

/* target := alpha op(a) source + beta target for w right-hand sides; side R likewise. */
static status product(const gpu_solve *s, int64_t to, int64_t from, int64_t w, const void *alpha,
                      const void *a, int64_t lda, const void *source, int64_t lds, const void *beta,
                      void *target, int64_t ldt) {
    if (s->p.side == 'L')
        return blas_gemm(s->q, s->p.t, s->p.trans, 'N', to, w, from, alpha, a, lda, source, lds,
                         beta, target, ldt);
    return blas_gemm(s->q, s->p.t, 'N', s->p.trans, w, to, from, alpha, source, lds, a, lda, beta,
                     target, ldt);
}

/* n rows of w right-hand sides into s->copy; its leading dimension is *ldc. */
static status copy_rows(const gpu_solve *s, int64_t n, int64_t w, const void *b, int64_t *ldc) {
    const bool left = s->p.side == 'L';
    *ldc = left ? n : w;
    return gpu_copy_block(s->q->stream, s->p.t, 'A', false, left ? n : w, left ? w : n, b, s->ldb,
                          s->copy, *ldc);
}

/* B_leaf := alpha op(inverse) C with a copy C of B_leaf, made here, panel by panel, when NULL. */
static status leaf(gpu_solve *s, int64_t at, int64_t order, const void *alpha, void *b,
                   const void *c, int64_t ldc) {
    const backend_type t = s->p.t;
    const int64_t g0 = at / s->group * s->group;
    if (s->at_group < 0 || g0 != group_start(s, s->at_group))
        GPU_TRY(enter_group(s, s->at_group + 1));
    GPU_TRY(gpu_await(s->wait, at, at + order));
    const void *inv = gpu_at(t, s->inv[s->at_group & 1], 0, at - g0, s->nb),
               *zero = gpu_scalar(t, 0);
    if (c)
        return product(s, order, order, s->other, alpha, inv, s->nb, c, ldc, zero, b, s->ldb);
    for (int64_t j = 0; j < s->other; j += s->panel) {
        const int64_t w = gpu_min(s->panel, s->other - j);
        void *part = s->p.side == 'L' ? gpu_at(t, b, 0, j, s->ldb) : gpu_at(t, b, j, 0, s->ldb);
        GPU_TRY(copy_rows(s, order, w, part, &ldc));
        GPU_TRY(product(s, order, order, w, alpha, inv, s->nb, s->copy, ldc, zero, part, s->ldb));
    }
    return MOAO_OK;
}

/* b: where the solution goes; c: what is to be solved, a copy of B from some size of the triangle
 * down (one copy for all its leaves), NULL: it is in b. */
static status recurse(gpu_solve *s, int64_t at, int64_t n, const void *alpha, void *b, void *c,
                      int64_t ldc) {
    const backend_type t = s->p.t;
    if (!c && n * s->other <= PANEL_BYTES / (int64_t)backend_size(t)) {
        GPU_TRY(copy_rows(s, n, s->other, b, &ldc));
        c = s->copy;
    }
    if (n <= s->nb)
        return leaf(s, at, n, alpha, b, c, ldc);
    const int64_t n1 = backend_split(n, s->nb), n2 = n - n1;
    const void *off = s->p.uplo == 'L' ? gpu_at(t, s->a, at + n1, at, s->lda)
                                       : gpu_at(t, s->a, at, at + n1, s->lda);
    const bool first = backend_source_first(s->p.side, s->p.uplo, s->p.trans);
    const int64_t ns = first ? n1 : n2, nt = first ? n2 : n1;
    const int64_t source = first ? 0 : n1, target = first ? n1 : 0; /* where their rows start */
    void *bs = rows_from(s, b, source, s->ldb), *bt = rows_from(s, b, target, s->ldb);
    void *cs = c ? rows_from(s, c, source, ldc) : NULL,
         *ct = c ? rows_from(s, c, target, ldc) : NULL;
    GPU_TRY(recurse(s, at + source, ns, alpha, bs, cs, ldc));
    GPU_TRY(product(s, nt, ns, s->other, gpu_scalar(t, -1), off, s->lda, bs, s->ldb, alpha,
                    c ? ct : bt, c ? ldc : s->ldb));
    return recurse(s, at + target, nt, gpu_scalar(t, 1), bt, ct, ldc);
}

/* ---- while A arrives: each piece, as soon as it is there, is used for all that it can be used
 * for. A recursion would put most of the work off to the end of the transfer. */

status gpu_trsm_make(gpu_solve *s, int k) {
    const gpu_piece c = gpu_piece_of(s->wait, k);
    const bool spreads = gpu_piece_spreads(&s->p), collects = !spreads && c.left > 0;
    const void *minus = gpu_scalar(s->p.t, -1), *one = gpu_scalar(s->p.t, 1);
    GPU_TRY(gpu_await(s->wait, c.at, c.at + c.size));
    if (collects)
        GPU_TRY(gpu_piece_product(s->q, &s->p, c, s->other, minus, s->a, s->lda, s->alpha, s->b,
                                  s->ldb));
    return recurse(s, c.at, c.size, collects || (spreads && k > 0) ? one : s->alpha,
                   rows_from(s, s->b, c.at, s->ldb), NULL, 0);
}

status gpu_trsm_use(gpu_solve *s, int k) {
    const void *minus = gpu_scalar(s->p.t, -1), *one = gpu_scalar(s->p.t, 1);
    if (!gpu_piece_spreads(&s->p))
        return MOAO_OK;
    return gpu_piece_product(s->q, &s->p, gpu_piece_of(s->wait, k), s->other, minus, s->a, s->lda,
                             k > 0 ? one : s->alpha, s->b, s->ldb);
}

static status piecewise(gpu_solve *s) {
    for (int k = 0; k < s->wait->pieces; k++) {
        GPU_TRY(gpu_trsm_make(s, k));
        GPU_TRY(gpu_trsm_use(s, k));
    }
    return MOAO_OK;
}

void gpu_trsm_begin(gpu_solve *s, backend_ctx *ctx, gpu_tri p, int64_t m, int64_t n,
                    const void *alpha, const void *a, int64_t lda, void *b, int64_t ldb, void *work,
                    gpu_arrival *w) {
    size_t bytes[3];
    char *part = (char *)work;
    *s = gpu_solve{};
    s->ctx = ctx;
    s->q = &ctx->main;
    s->p = p;
    s->alpha = alpha, s->a = a, s->b = b;
    s->n = p.side == 'L' ? m : n;
    s->other = p.side == 'L' ? n : m;
    s->lda = lda, s->ldb = ldb;
    s->nb = block_order(p.t, s->n, s->other);
    plan(p.t, s->n, s->other, s->nb, &s->group, &s->panel, bytes);
    /* a group must not wait for more than one piece; pieces are whole blocks */
    if (w && s->group > w->block)
        s->group = w->block;
    s->groups = gpu_ceil(s->n, s->group);
    s->at_group = -1;
    s->inv[0] = part, part += bytes[0];
    s->inv[1] = part, part += s->n > s->nb ? bytes[0] : 0;
    s->tmp = part, part += bytes[1];
    s->copy = part;
    s->wait = w;
    if (w) {
        s->wait_side = *w;
        s->wait_side.stream = ctx->side.stream;
    }
}

status gpu_trsm_run(backend_ctx *ctx, gpu_tri p, int64_t m, int64_t n, const void *alpha,
                    const void *a, int64_t lda, void *b, int64_t ldb, void *work, gpu_arrival *w) {
    gpu_solve s;
    if (m == 0 || n == 0)
        return MOAO_OK;
    if (backend_equals(p.t, alpha, 0))
        return gpu_zero_block(ctx->main.stream, p.t, m, n, b, ldb);
    gpu_trsm_begin(&s, ctx, p, m, n, alpha, a, lda, b, ldb, work, w);
    return gpu_arriving(w) ? piecewise(&s) : recurse(&s, 0, s.n, alpha, b, NULL, 0);
}

status gpu_trsm(backend_ctx *ctx, backend_type t, char side, char uplo, char trans, char diag,
                int64_t m, int64_t n, const void *alpha, const void *a, int64_t lda, void *b,
                int64_t ldb, void *work, size_t lwork) {
    gpu_device_guard guard(ctx->device);
    if (lwork < gpu_trsm_work(t, side == 'L' ? m : n, side == 'L' ? n : m))
        return status_fail(MOAO_INPUT, "trsm: the workspace is too small");
    return gpu_trsm_run(ctx, gpu_tri{t, side, uplo, trans, diag}, m, n, alpha, a, lda, b, ldb, work,
                        NULL);
}
