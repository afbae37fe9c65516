/* trsm and trmm on host data by halves of the triangle, for B of many columns.
 *
 * The triangle is split FP16 and the block between them. "early" rows are those whose result needs
 * nothing else (trsm) or that the other rows need (trmm); the block takes them to the "late" rows.
 * The first panel works while A arrives, and everything is used as soon as it is there:
 *
 *     in    early rows (half the columns) | early triangle | block, by columns | early rows (the
 *           other columns, a few first) | late triangle | late rows, some columns at a time
 *     main  early half of those columns | their product with the block, summed by itself | the same
 *           for the other columns | late half: late rows and that product together
 *     out   early results of those columns | ... | late results, some columns at a time
 *
 * Every later panel is made when all of A is there, one half after the other, and each half leaves
 * while the other is made; of the last panel the half that remains is halved again, so that little
 * is left to store at the end. */
#include "host_data.cuh"

/* The half whose result needs nothing else, the other one, and the block off the diagonal. */
struct fp16 {
    int64_t early, rows_early, late, rows_late;
    gpu_piece off;
};
static fp16 fp16_of(const host_call *s, int64_t at, int64_t n) {
    const int64_t half = n / 2, rest = n - half, second = at + half;
    const gpu_piece off =
        s->p.uplo == 'L' ? gpu_piece{at, half, second, rest} : gpu_piece{second, rest, at, half};
    if (backend_source_first(s->p.side, s->p.uplo, s->p.trans))
        return fp16{at, half, second, rest, off};
    return fp16{second, rest, at, half, off};
}

/* late := coefficient op(off) early + beta late, for some columns of the block off the diagonal and
 * w columns of a panel; trsm: coefficient -1, trmm: alpha. */
static status join(const host_call *s, gpu_piece off, int64_t w, const void *beta, void *panel,
                   int64_t ld) {
    const void *coefficient = s->solve ? gpu_scalar(s->p.t, -1) : s->alpha;
    return gpu_piece_product(&s->ctx->main, &s->p, off, w, coefficient, s->dev, s->n, beta, panel,
                             ld);
}

/* The same with beta = 0, while the block arrives by columns, which are sources or targets. */
static status join_as_it_comes(const host_call *s, gpu_piece off, int64_t w, void *panel,
                               int64_t ld) {
    const backend_type t = s->p.t;
    const bool sums = gpu_piece_spreads(&s->p);
    gpu_piece g = off;
    for (int64_t at = 0; at < off.size; at += g.size) {
        g.at = off.at + at;
        g.size = gpu_min(off.size - at, gpu_ceil(off.size, at == 0 ? 16 : 8));
        GPU_TRY(gpu_send_block(s->ctx->in, t, g.left, g.size, gpu_at(t, s->a, g.rest, g.at, s->lda),
                               s->lda, gpu_at(t, s->dev, g.rest, g.at, s->n), s->n));
        GPU_TRY(host_use_what_comes(s));
        GPU_TRY(join(s, g, w, gpu_scalar(t, sums && at > 0), panel, ld));
    }
    return MOAO_OK;
}

/* A panel when all of A is there. Each half of the result leaves as soon as it is made; of a
 * triangle of more than `least` rows the half that remains is halved again. */
static status panel_by_fp16(const host_call *s, int64_t from, int64_t w, int64_t k, int64_t least) {
    const int64_t ld = host_panel_ld(s, w);
    const void *one = gpu_scalar(s->p.t, 1), *alpha = s->alpha;
    void *panel = host_buffer(s, k);
    int64_t at = 0, n = s->n;
    GPU_TRY(host_load(s, from, w, k));
    while (n > least) {
        const fp16 h = fp16_of(s, at, n);
        const int64_t row = s->solve ? h.early : h.late,
                      rows = s->solve ? h.rows_early : h.rows_late;
        void *made = host_place(s, panel, row, 0, ld);
        GPU_TRY(host_compute(s, row, rows, w, alpha, made, ld, NULL));
        if (!s->solve)
            GPU_TRY(join(s, h.off, w, one, panel, ld));
        GPU_TRY(host_store(s, k, row, rows, from, w, made, ld));
        if (s->solve) {
            GPU_TRY(join(s, h.off, w, alpha, panel, ld));
            alpha = one;
        }
        at = s->solve ? h.late : h.early, n -= rows;
    }
    void *made = host_place(s, panel, at, 0, ld);
    GPU_TRY(host_compute(s, at, n, w, alpha, made, ld, NULL));
    return host_store(s, k, at, n, from, w, made, ld);
}

/* The first panel, w columns, while A arrives. Early rows of half of the columns come first, then
 * their triangle, then the block off the diagonal, whose product with them is summed by itself;
 * then early rows of the other columns, a few first; late rows and their triangle come last. Buffer
 * 1 gets the result; buffer 0 late rows as they came (trsm), or early rows as they came and that
 * product (trmm). */
static status first_by_fp16(const host_call *s, const fp16 *h, int64_t w) {
    backend_ctx *c = s->ctx;
    const backend_type t = s->p.t;
    const bool left = s->p.side == 'L';
    const int64_t ld = host_panel_ld(s, w);
    const void *one = gpu_scalar(t, 1);
    void *result = host_buffer(s, 1), *beside = host_buffer(s, 0),
         *sources = s->solve ? result : beside;
    gpu_arrival wait;
    for (int64_t j = 0, width = gpu_ceil(w, 2); j < w;
         j += width, width = gpu_min(w - j, j <= gpu_ceil(w, 2) ? gpu_ceil(w, 8) : w)) {
        void *to = host_place(s, sources, h->early, j, ld),
             *made = host_place(s, result, h->early, j, ld);
        GPU_TRY(host_fetch(s, h->early, h->rows_early, j, width, to, ld));
        GPU_TRY(host_use_what_comes(s));
        if (j == 0)
            GPU_TRY(host_send_triangle(s, h->early, h->rows_early, &wait));
        if (!s->solve)
            GPU_TRY(gpu_copy_block(c->main.stream, t, 'A', false, left ? h->rows_early : width,
                                   left ? width : h->rows_early, to, ld, made, ld));
        GPU_TRY(host_compute(s, h->early, h->rows_early, width, s->alpha, made, ld,
                             j == 0 ? &wait : NULL));
        GPU_TRY(host_store(s, 1, h->early, h->rows_early, j, width, made, ld));
        GPU_TRY(j == 0 ? join_as_it_comes(s, h->off, width, sources, ld)
                       : join(s, h->off, width, gpu_scalar(t, 0), host_place(s, sources, 0, j, ld),
                              ld));
    }
    GPU_TRY(host_send_triangle(s, h->late, h->rows_late, &wait));
    /* in more parts where no panel follows: the last part is stored at the end */
    const int64_t part = gpu_ceil(w, w < s->other ? 2 : 4);
    for (int64_t j = 0, width = part; j < w; j += width, width = gpu_min(part, w - j)) {
        void *made = host_place(s, result, h->late, j, ld),
             *other = host_place(s, beside, h->late, j, ld);
        GPU_TRY(host_fetch(s, h->late, h->rows_late, j, width, s->solve ? other : made, ld));
        GPU_TRY(host_use_what_comes(s)); /* the triangle too */
        if (!s->solve)
            GPU_TRY(host_compute(s, h->late, h->rows_late, width, s->alpha, made, ld, NULL));
        GPU_TRY(blas_add(&c->main, t, left ? h->rows_late : width, left ? width : h->rows_late,
                         s->solve ? s->alpha : one, other, ld, made, ld));
        CUDA_TRY(cudaEventRecord(c->stored[0], c->main.stream)); /* buffer 0 is free */
        if (s->solve)
            GPU_TRY(host_compute(s, h->late, h->rows_late, width, one, made, ld, NULL));
        GPU_TRY(host_store(s, 1, h->late, h->rows_late, j, width, made, ld));
    }
    return MOAO_OK;
}

status host_fp16(const host_call *s) {
    const fp16 h = fp16_of(s, 0, s->n);
    GPU_TRY(first_by_fp16(s, &h, s->w.first));
    /* next into the buffer that is free */
    for (int64_t width, from = s->w.first, k = 2; from < s->other; from += width, k++) {
        width = host_width(s->w, k, s->other - from);
        const int64_t least = gpu_ceil(s->n, from + width == s->other ? 8 : 2);
        GPU_TRY(panel_by_fp16(s, from, width, k, least));
    }
    return MOAO_OK;
}
