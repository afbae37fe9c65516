/* trmm in place: recursion into gemm down to parts of B whose copy fits the workspace. From a copy
 * all block rows can be made independently: first the diagonal blocks, then off-diagonal blocks of
 * doubling size, each size in one batched gemm. */
#include "arrival.cuh"

#define COPY_BYTES ((int64_t)32 << 20)
#define LEAF_MOST ((int64_t)8192) /* largest order handled from a copy */

/* Order of the diagonal blocks: dense copies of 8192 / block of them take at most 8 MiB. */
static int64_t block_order(backend_type t) {
    return t == BACKEND_Z ? 64 : 128;
}

static bool fits(backend_type t, int64_t n, int64_t other) {
    return n <= LEAF_MOST && n <= COPY_BYTES / (int64_t)backend_size(t) / other;
}

/* The largest order of a leaf in the recursion on a triangle of order n. */
static int64_t leaf_order(backend_type t, int64_t n, int64_t other) {
    if (n <= gpu_tune.trmm_leaf || fits(t, n, other))
        return n;
    const int64_t most = gpu_min(LEAF_MOST, COPY_BYTES / (int64_t)backend_size(t) / other);
    return most > gpu_tune.trmm_leaf ? most : gpu_tune.trmm_leaf;
}

static int64_t panel_width(backend_type t, int64_t n, int64_t other) {
    return gpu_min(other, COPY_BYTES / (n * (int64_t)backend_size(t)));
}

size_t gpu_trmm_work(backend_type t, int64_t n, int64_t other) {
    const int64_t e = (int64_t)backend_size(t);
    if (n <= 0 || other <= 0)
        return 0;
    const int64_t order = leaf_order(t, n, other), nb = block_order(t);
    /* smaller parts of a split may take wider panels, in no more memory than the limit */
    const int64_t copy = order < n ? COPY_BYTES : order * panel_width(t, order, other) * e;
    return (size_t)(copy + gpu_ceil(order, nb) * nb * nb * e);
}

size_t gpu_trmm_work_most(backend_type t, int64_t n, int64_t other) {
    const int64_t e = (int64_t)backend_size(t), nb = block_order(t);
    const int64_t copy = n <= COPY_BYTES / e / (other > 0 ? other : 1) ? n * other * e : COPY_BYTES;
    return (size_t)(copy + gpu_ceil(gpu_min(n, LEAF_MOST), nb) * nb * nb * e);
}

/* `count` products at strides sa, sb (in elements): B_target = or += alpha op(A) copy_source, with
 * `to` rows from `from` rows of w columns (side R: columns and rows exchanged). */
static status products(const gpu_multiply *s, int64_t to, int64_t from, int64_t w, const void *a,
                       int64_t lda, int64_t sa, const void *source, int64_t ldc, int64_t sc,
                       bool add, void *target, int64_t sb, int64_t count) {
    const backend_type t = s->p.t;
    const void *beta = gpu_scalar(t, add);
    if (s->p.side == 'L')
        return blas_gemm_strided(s->q, t, s->p.trans, 'N', to, w, from, s->alpha, a, lda, sa,
                                 source, ldc, sc, beta, target, s->ldb, sb, count);
    return blas_gemm_strided(s->q, t, 'N', s->p.trans, w, to, from, s->alpha, source, ldc, sc, a,
                             lda, sa, beta, target, s->ldb, sb, count);
}

/* B := alpha op(A) copy for one panel, A of order n; the copy has leading dimension ldc. */
static status from_copy(const gpu_multiply *s, int64_t n, int64_t w, const void *a, int64_t ldc,
                        void *b) {
    const backend_type t = s->p.t;
    const bool left = s->p.side == 'L',
               first = backend_source_first(s->p.side, s->p.uplo, s->p.trans);
    const int64_t nb = block_order(t), row_b = left ? 1 : s->ldb, row_c = left ? 1 : ldc,
                  whole = n / nb;
    GPU_TRY(products(s, nb, nb, w, s->blocks, nb, nb * nb, s->copy, ldc, nb * row_c, false, b,
                     nb * row_b, whole));
    if (n % nb)
        GPU_TRY(products(s, n % nb, n % nb, w, gpu_at(t, s->blocks, 0, whole * nb, nb), nb, 0,
                         gpu_at(t, s->copy, 0, whole * nb, row_c), ldc, 0, false,
                         gpu_at(t, b, 0, whole * nb, row_b), 0, 1));
    for (int64_t h = nb; h < n; h *= 2) {
        const int64_t pairs = n / (2 * h), last = pairs * 2 * h;
        for (int64_t o = 0; o <= last;
             o += last > 0 ? last : 1) { /* all whole pairs, then what is left */
            const int64_t h2 = o < last ? h : n - last - h, count = o < last ? pairs : 1;
            if (h2 <= 0)
                break;
            const void *off =
                s->p.uplo == 'L' ? gpu_at(t, a, o + h, o, s->lda) : gpu_at(t, a, o, o + h, s->lda);
            const int64_t source = first ? o : o + h, target = first ? o + h : o;
            GPU_TRY(products(s, first ? h2 : h, first ? h : h2, w, off, s->lda,
                             2 * h * (s->lda + 1), gpu_at(t, s->copy, 0, source, row_c), ldc,
                             2 * h * row_c, true, gpu_at(t, b, 0, target, row_b), 2 * h * row_b,
                             count));
            if (o == last)
                break;
        }
    }
    return MOAO_OK;
}

/* Does the vendor's out-of-place product beat the levels above? In double precision it does for
 * small orders, and it is at the ceiling for an upper op(A) from the left. */
static bool vendor_wins(const gpu_tri *p, int64_t n) {
    return p->t == BACKEND_D &&
           (n <= 2048 || (p->side == 'L' && (p->uplo == 'U') == (p->trans == 'N')));
}

static bool is_leaf(const gpu_multiply *s, int64_t n) {
    return n <= gpu_tune.trmm_leaf || fits(s->p.t, n, s->other);
}

/* What a leaf works from, in stream q: the copy of w right-hand sides, and with the first of them
 * the diagonal blocks. */
static status load(const gpu_multiply *s, cudaStream_t q, int64_t n, int64_t w, bool first,
                   const void *a, const void *b) {
    const bool left = s->p.side == 'L';
    if (first && !vendor_wins(&s->p, n))
        GPU_TRY(gpu_dense_blocks(q, s->p.t, s->p.uplo, s->p.diag, n, block_order(s->p.t), a, s->lda,
                                 s->blocks));
    return gpu_copy_block(q, s->p.t, 'A', false, left ? n : w, left ? w : n, b, s->ldb, s->copy,
                          left ? n : w);
}

/* The same concurrently with what the main stream does next, which only reads B there. */
static status load_ahead(gpu_multiply *s, int64_t n, const void *a, const void *b) {
    cudaStream_t side = s->ctx->side.stream;
    CUDA_TRY(cudaEventRecord(s->ctx->fork, s->q->stream));
    CUDA_TRY(cudaStreamWaitEvent(side, s->ctx->fork, 0));
    GPU_TRY(load(s, side, n, panel_width(s->p.t, n, s->other), true, a, b));
    CUDA_TRY(cudaEventRecord(s->ctx->join, side));
    s->loaded = true;
    return MOAO_OK;
}

static status leaf(gpu_multiply *s, int64_t at, int64_t n, const void *a, void *b) {
    const backend_type t = s->p.t;
    const int64_t panel = panel_width(t, n, s->other);
    GPU_TRY(gpu_await(s->wait, at, at + n));
    for (int64_t j = 0; j < s->other; j += panel) {
        const int64_t w = gpu_min(panel, s->other - j), rows = s->p.side == 'L' ? n : w;
        const int64_t cols = s->p.side == 'L' ? w : n;
        void *part = s->p.side == 'L' ? gpu_at(t, b, 0, j, s->ldb) : gpu_at(t, b, j, 0, s->ldb);
        if (j == 0 && s->loaded)
            CUDA_TRY(cudaStreamWaitEvent(s->q->stream, s->ctx->join, 0));
        else
            GPU_TRY(load(s, s->q->stream, n, w, j == 0, a, part));
        s->loaded = false;
        if (vendor_wins(&s->p, n))
            GPU_TRY(blas_trmm(s->q, s->p, rows, cols, s->alpha, a, s->lda, s->copy, rows, part,
                              s->ldb));
        else
            GPU_TRY(from_copy(s, n, w, a, rows, part));
    }
    return MOAO_OK;
}

static status recurse(gpu_multiply *s, int64_t at, int64_t n, const void *a, void *b) {
    const backend_type t = s->p.t;
    if (is_leaf(s, n))
        return leaf(s, at, n, a, b);
    const int64_t n1 = backend_split(n, gpu_min(gpu_tune.trmm_leaf, 2048)), n2 = n - n1;
    const void *a2 = gpu_at(t, a, n1, n1, s->lda);
    const void *off = s->p.uplo == 'L' ? gpu_at(t, a, n1, 0, s->lda) : gpu_at(t, a, 0, n1, s->lda);
    void *b2 = s->p.side == 'L' ? gpu_at(t, b, n1, 0, s->ldb) : gpu_at(t, b, 0, n1, s->ldb);
    const bool first = backend_source_first(s->p.side, s->p.uplo, s->p.trans);
    const int64_t ns = first ? n1 : n2, nt = first ? n2 : n1;
    void *bs = first ? b : b2, *bt = first ? b2 : b;
    GPU_TRY(recurse(s, first ? at + n1 : at, nt, first ? a2 : a, bt));
    if (is_leaf(s, ns) && !s->wait)
        GPU_TRY(load_ahead(s, ns, first ? a : a2, bs));
    if (s->p.side == 'L')
        GPU_TRY(blas_gemm(s->q, t, s->p.trans, 'N', nt, s->other, ns, s->alpha, off, s->lda, bs,
                          s->ldb, gpu_scalar(t, 1), bt, s->ldb));
    else
        GPU_TRY(blas_gemm(s->q, t, 'N', s->p.trans, s->other, nt, ns, s->alpha, bs, s->ldb, off,
                          s->lda, gpu_scalar(t, 1), bt, s->ldb));
    return recurse(s, first ? at : at + n1, ns, first ? a : a2, bs);
}

/* ---- while A arrives: each piece, as soon as it is there, is used for all that it can be used for
 */

status gpu_trmm_make(gpu_multiply *s, int k) {
    const backend_type t = s->p.t;
    const gpu_piece c = gpu_piece_of(s->wait, k);
    const bool spreads = gpu_piece_spreads(&s->p), left = s->p.side == 'L';
    void *mine = left ? gpu_at(t, s->b, c.at, 0, s->ldb) : gpu_at(t, s->b, 0, c.at, s->ldb);
    GPU_TRY(gpu_await(s->wait, c.at, c.at + c.size));
    if (spreads) /* before it is changed */
        GPU_TRY(gpu_piece_product(s->q, &s->p, c, s->other, s->alpha, s->a, s->lda,
                                  gpu_scalar(t, 1), s->b, s->ldb));
    GPU_TRY(recurse(s, c.at, c.size, gpu_at(t, s->a, c.at, c.at, s->lda), mine));
    if (!spreads && c.left > 0)
        GPU_TRY(gpu_piece_product(s->q, &s->p, c, s->other, s->alpha, s->a, s->lda,
                                  gpu_scalar(t, 1), s->b, s->ldb));
    return MOAO_OK;
}

static status piecewise(gpu_multiply *s) {
    for (int k = 0; k < s->wait->pieces; k++)
        GPU_TRY(gpu_trmm_make(s, k));
    return MOAO_OK;
}

void gpu_trmm_begin(gpu_multiply *s, backend_ctx *ctx, gpu_tri p, int64_t m, int64_t n,
                    const void *alpha, const void *a, int64_t lda, void *b, int64_t ldb, void *work,
                    gpu_arrival *w) {
    const int64_t order = p.side == 'L' ? m : n, nb = block_order(p.t);
    *s = gpu_multiply{};
    s->ctx = ctx;
    s->q = &ctx->main;
    s->p = p;
    s->alpha = alpha, s->a = a, s->b = b;
    s->other = p.side == 'L' ? n : m;
    s->lda = lda, s->ldb = ldb;
    s->blocks = work;
    s->copy = gpu_at(p.t, work, 0, gpu_ceil(leaf_order(p.t, order, s->other), nb) * nb, nb);
    s->wait = gpu_arriving(w) ? w : NULL; /* NULL: all of A is there */
}

status gpu_trmm_run(backend_ctx *ctx, gpu_tri p, int64_t m, int64_t n, const void *alpha,
                    const void *a, int64_t lda, void *b, int64_t ldb, void *work, gpu_arrival *w) {
    gpu_multiply s;
    if (m == 0 || n == 0)
        return MOAO_OK;
    if (backend_equals(p.t, alpha, 0))
        return gpu_zero_block(ctx->main.stream, p.t, m, n, b, ldb);
    gpu_trmm_begin(&s, ctx, p, m, n, alpha, a, lda, b, ldb, work, w);
    return s.wait ? piecewise(&s) : recurse(&s, 0, p.side == 'L' ? m : n, a, b);
}

status gpu_trmm(backend_ctx *ctx, backend_type t, char side, char uplo, char trans, char diag,
                int64_t m, int64_t n, const void *alpha, const void *a, int64_t lda, void *b,
                int64_t ldb, void *work, size_t lwork) {
    gpu_device_guard guard(ctx->device);
    if (lwork < gpu_trmm_work(t, side == 'L' ? m : n, side == 'L' ? n : m))
        return status_fail(MOAO_INPUT, "trmm: the workspace is too small");
    return gpu_trmm_run(ctx, gpu_tri{t, side, uplo, trans, diag}, m, n, alpha, a, lda, b, ldb, work,
                        NULL);
}
