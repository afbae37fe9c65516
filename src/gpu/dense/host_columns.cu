/* trsm and trmm on host data by whole columns of B.
 *
 * The first panel is there before A is. A comes in pieces, in the order in which they can be used;
 * with each, one block of rows of the panel becomes final and leaves:
 *
 *     in    panel 0 | piece 0 | piece 1 | ... | last piece | panel 1 | panel 2 | ...
 *     main            make 0 use 0 | make 1 use 1 | ...    |           panel 1 | panel 2 ...
 *     out                       rows 0    rows 1   ...  last rows              panel 1 | ...
 *
 * "make" ends with the rows of B at the piece final, "use" takes them from the rows to come. Rows
 * leave in blocks of STORE or more; trmm whose pieces spread into rows made before has final rows
 * only at the end. When all of A is there, each panel is one trsm or trmm, while the next one comes
 * and the one before it leaves; three buffers take turns. */
#include "host_data.cuh"

#define STORE ((int64_t)2048)

/* Rows of the first panel, w columns, that are final and have not left: neighbouring pieces. */
struct final_rows {
    int64_t w, from, to;
};

static status rows_leave(const host_call *s, final_rows *l) {
    const int64_t ld = host_panel_ld(s, l->w), row = l->from, rows = l->to - l->from;
    l->from = l->to = 0;
    return rows == 0 ? MOAO_OK
                     : host_store(s, 0, row, rows, 0, l->w,
                                  host_place(s, host_buffer(s, 0), row, 0, ld), ld);
}

static status rows_made(const host_call *s, final_rows *l, gpu_piece c) {
    l->from = l->from < l->to ? gpu_min(l->from, c.at) : c.at;
    l->to = l->to > c.at + c.size ? l->to : c.at + c.size;
    return l->to - l->from < STORE ? MOAO_OK : rows_leave(s, l);
}

static status solve_first(const host_call *s, int64_t w, gpu_arrival *wait, final_rows *l) {
    const bool left = s->p.side == 'L';
    gpu_solve x;
    gpu_trsm_begin(&x, s->ctx, s->p, left ? s->n : w, left ? w : s->n, s->alpha, s->dev, s->n,
                   host_buffer(s, 0), host_panel_ld(s, w), s->work, wait);
    for (int k = 0; k < wait->pieces; k++) {
        GPU_TRY(gpu_trsm_make(&x, k));
        GPU_TRY(rows_made(s, l, gpu_piece_of(wait, k)));
        GPU_TRY(gpu_trsm_use(&x, k));
    }
    return MOAO_OK;
}

static status multiply_first(const host_call *s, int64_t w, gpu_arrival *wait, final_rows *l) {
    const bool left = s->p.side == 'L', spreads = gpu_piece_spreads(&s->p);
    gpu_multiply x;
    gpu_trmm_begin(&x, s->ctx, s->p, left ? s->n : w, left ? w : s->n, s->alpha, s->dev, s->n,
                   host_buffer(s, 0), host_panel_ld(s, w), s->work, wait);
    for (int k = 0; k < wait->pieces; k++) {
        GPU_TRY(gpu_trmm_make(&x, k));
        if (!spreads)
            GPU_TRY(rows_made(s, l, gpu_piece_of(wait, k)));
    }
    if (spreads)
        l->to = s->n;
    return MOAO_OK;
}

/* The first panel, while A arrives and final rows leave. */
static status first_panel(const host_call *s, int64_t w, gpu_arrival *wait) {
    final_rows l = {w, 0, 0};
    GPU_TRY(host_load(s, 0, w, 0));
    GPU_TRY(host_send_triangle(s, 0, s->n, wait));
    if (backend_equals(s->p.t, s->alpha, 0)) {
        GPU_TRY(
            host_compute(s, 0, s->n, w, s->alpha, host_buffer(s, 0), host_panel_ld(s, w), wait));
        l.to = s->n;
    } else {
        GPU_TRY(s->solve ? solve_first(s, w, wait, &l) : multiply_first(s, w, wait, &l));
    }
    return rows_leave(s, &l);
}

/* A panel as a whole. */
static status whole_panel(const host_call *s, int64_t from, int64_t w, int64_t k,
                          gpu_arrival *wait) {
    GPU_TRY(host_load(s, from, w, k));
    GPU_TRY(host_compute(s, 0, s->n, w, s->alpha, host_buffer(s, k), host_panel_ld(s, w), wait));
    return host_store(s, k, 0, s->n, from, w, host_buffer(s, k), host_panel_ld(s, w));
}

status host_columns(const host_call *s) {
    gpu_arrival wait;
    GPU_TRY(first_panel(s, s->w.first, &wait));
    for (int64_t width, from = s->w.first, k = 1; from < s->other; from += width, k++) {
        width = host_width(s->w, k, s->other - from);
        GPU_TRY(whole_panel(s, from, width, k, &wait));
    }
    return MOAO_OK;
}
