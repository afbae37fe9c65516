/* D += alpha L L^T of a factor's tiles by products of FP16 numbers in three terms
 * (backend_split_ops.h), but for what dense tiles of the right factor add (update_dense.c). Of each
 * block column first the left factors T of all tile pairs, in single precision: tile (i, j) times
 * what V_i and V of all low-rank tiles (k, j) have in common, one product for all k. Then T goes,
 * in split FP16 (hi + lo), to where all that belongs to a tile column k of D stands side by side,
 * and the large products for each k add up all block columns that the memory for T holds: first the
 * small terms, for tensor cores cut off what does not fit within a sum, always towards zero. */
#include "update.h"

#include <math.h>

/* Some block columns q0 .. q1 of a, some of the rows. */
typedef struct {
    tlr_span x; /* the first member */
    tlr_work *w;
    const panel *p;      /* the current one, q */
    int et, eu;          /* exponents of left factors and of U */
    float *t;            /* left factors of the block column current: x.ld x (j, k, columns) */
    backend_f16 *to, *u; /* operands of the large products, for k: all block columns */
} job;

/* Columns that left factors with tile column j have for all k. */
static int64_t columns_with(const job *s, int64_t j) {
    return panel_vcol(s->p, s->x.kb, j) - panel_vcol(s->p, s->x.ka, j);
}

/* T of block column q. */
static status left_factors(job *s) {
    int64_t columns = 0, at = 0, ld;
    scatter_list list;
    void *core, *t;
    status st;
    for (int64_t j = s->p->c0; j < s->p->c1; j++)
        columns += columns_with(s, j);
    TRY(tlr_work_typed(s->w, BUF_TILES, BACKEND_S, s->x.ld * columns, &t));
    s->t = t;
    TRY(tlr_common_parts(s->w, BACKEND_S, &s->x, &core, &ld));
    TRY(tlr_scatter_open(s->w, tlr_count_left(s->w, &s->x), columns, &list));
    for (int64_t j = s->p->c0; j < s->p->c1; j++) {
        const int64_t cols = columns_with(s, j);
        tlr_list_left(s->w, BACKEND_S, &s->x, j, cols, (const float *)core + ld * at, ld, s->t, at,
                      &list);
        for (int64_t x = 0; x < cols; x++, at++)
            list.column[list.columns++] = at;
    }
    tlr_work_lap(s->w, TLR_CORES);
    TRY(tlr_scatter_run(s->w, &list, BACKEND_S, least(s->x.a->b, s->x.ld), s->x.ld));
done:
    return st;
}

/* T of block column q to its places in the operands of all k. */
static status place_left(job *s) {
    int64_t n = 0, from = 0;
    int64_t *host, *there;
    status st;
    for (int64_t j = s->p->c0; j < s->p->c1; j++)
        n += columns_with(s, j);
    TRY(tlr_work_indices(s->w, 3 * n, &host, &there));
    split_column *const c = (split_column *)(void *)host;
    for (int64_t j = s->p->c0; j < s->p->c1; j++)
        for (int64_t k = s->x.ka; k < s->x.kb; k++) {
            const tlr_tile *t = panel_tile(s->p, k, j);
            const int64_t all = tlr_span_columns(&s->x, k, s->x.q1),
                          to = 2 * tlr_span_before(&s->x, k) + tlr_span_columns(&s->x, k, s->x.q) +
                               tlr_low_before(s->p, k, j);
            for (int64_t x = 0; t->kind == TLR_LOWRANK && x < t->rank; x++, from++)
                c[from] = (split_column){from, to + x, all};
        }
    TRY(tlr_work_send(s->w, 3 * n, host, there));
    for (const tlr_strip *x = s->x.strip; x < s->x.strip + s->x.strips; x++)
        if (x->rows > 0)
            TRY(s->w->be->split->columns(s->w->ctx, "hr", x->rows, n, (const split_column *)there,
                                         s->et, s->t + x->at, s->x.ld, NULL, 1, s->to + x->at,
                                         s->x.ld));
done:
    return st;
}

/* U of low-rank tiles in tile rows k of block column q to where all of a tile row stand side by
 * side: those between two dense ones at once. */
static status place_right(job *s) {
    const int64_t each = (int64_t)(sizeof(split_block) / sizeof(int64_t)),
                  room = (s->x.kb - s->x.ka) * (s->p->c1 - s->p->c0);
    int64_t *host, *there, n = 0, at = 0, most = 0;
    status st;
    TRY(tlr_work_indices(s->w, each * room, &host, &there));
    split_block *const b = (split_block *)(void *)host;
    for (int64_t k = s->x.ka; k < s->x.kb; k++) {
        const int64_t rows = tlr_extent(s->x.a->rows, k), all = tlr_span_columns(&s->x, k, s->x.q1),
                      ld = split_pad(rows);
        int64_t to = 2 * at + tlr_span_columns(&s->x, k, s->x.q) * ld, cols;
        for (int64_t j = s->p->c0, end; j < s->p->c1; j = end + 1) {
            end = tlr_low_run(s->p, k, j, &cols);
            if (cols > 0)
                b[n++] =
                    (split_block){s->p->ubegin[k - s->p->r0] + panel_tile(s->p, k, j)->u * rows,
                                  rows,
                                  cols,
                                  to,
                                  ld,
                                  all * ld};
            to += cols * ld;
            most = largest(most, rows * cols);
        }
        at += all * ld;
    }
    TRY(tlr_work_send(s->w, each * n, host, there));
    st = s->w->be->split->blocks(s->w->ctx, "hr", n, (const split_block *)there, most, s->eu,
                                 s->p->fp32, s->u);
done:
    return st;
}

/* Exponents for all block columns together: of U what was found, of a left factor a bound. U of a
 * low-rank tile is orthonormal: a left factor's entries are below what V_i and V_k have in
 * common times the root of the rank; of a dense tile its entries times V_k. */
static void choose_exponents(job *s) {
    const double b = (double)s->x.a->b;
    double most = 0, left = 0;
    for (int64_t q = s->x.q0; q < s->x.q1; q++) {
        const double u = s->x.a->panel[q].most[0], v = s->x.a->panel[q].most[1];
        most = fmax(most, u);
        left = fmax(left, b * v * fmax(u, sqrt(b) * v));
    }
    s->eu = split_exponent(most);
    s->et = split_exponent(left);
}

/* SUM := T_k U_k^T, m rows of T, c columns of each: the small terms, then the large one. */
static status product_of_fp16(job *s, int64_t m, int64_t n, int64_t c, const backend_f16 *t,
                              const backend_f16 *u, float *sum) {
    const int64_t ld = split_pad(n), ldt = s->x.ld;
    const backend_fp16 *h = s->w->be->fp16;
    backend_ctx *ctx = s->w->ctx;
    status st;
    TRY(h->gemm(ctx, 'N', 'T', m, n, c, 1, t, ldt, u + c * ld, ld, 0, sum, ldt));
    TRY(h->gemm(ctx, 'N', 'T', m, n, c, 1, t + c * ldt, ldt, u, ld, 1, sum, ldt));
    st = h->gemm(ctx, 'N', 'T', m, n, c, 1, t, ldt, u, ld, 1, sum, ldt);
done:
    return st;
}

/* D += alpha T_k U_k^T for each k and strip. */
static status large_products(job *s, double alpha, double *d, int64_t ldd) {
    const int64_t col = s->x.a->rows->first[s->x.ka];
    int64_t before = 0, at = 0;
    void *sum;
    status st;
    TRY(tlr_work_typed(s->w, BUF_TURNED, BACKEND_S, s->x.ld * s->x.a->b, &sum));
    for (int64_t k = s->x.ka; k < s->x.kb; k++) {
        const int64_t n = tlr_extent(s->x.a->rows, k), c = tlr_span_columns(&s->x, k, s->x.q1);
        double *const to = d + (s->x.a->rows->first[k] - col) * ldd;
        for (const tlr_strip *x = s->x.strip; c > 0 && x < s->x.strip + s->x.strips; x++)
            if (x->rows > 0) {
                TRY(product_of_fp16(s, x->rows, n, c, s->to + 2 * before * s->x.ld + x->at,
                                    s->u + 2 * at, sum));
                TRY(s->w->be->fp16->cast_to_double(
                    s->w->ctx, x->rows, n, ldexp(alpha, -s->et - s->eu), sum, s->x.ld, 1,
                    to + s->x.a->rows->first[x->h0] - s->x.row, ldd));
            }
        before += c;
        at += c * split_pad(n);
    }
    tlr_work_lap(s->w, TLR_LARGE);
done:
    return st;
}

static status update_rows(tlr_span *x, double alpha, double *d, int64_t ldd) {
    job *s = (job *)(void *)x;
    const int64_t cols = tlr_span_before(&s->x, s->x.kb);
    int64_t numbers = 0;
    void *p;
    status st;
    for (int64_t k = s->x.ka; k < s->x.kb; k++)
        numbers += tlr_span_columns(&s->x, k, s->x.q1) * split_pad(tlr_extent(s->x.a->rows, k));
    choose_exponents(s);
    /* split FP16 take the room of a single */
    TRY(tlr_work_typed(s->w, BUF_PRODUCT, BACKEND_S, s->x.ld * cols, &p));
    s->to = p;
    TRY(tlr_work_typed(s->w, BUF_SIDE, BACKEND_S, numbers, &p));
    s->u = p;
    for (s->x.q = s->x.q0; s->x.q < s->x.q1; s->x.q++) {
        s->p = s->x.a->panel + s->x.q;
        TRY(tlr_span_fetch(s->w, BACKEND_S, &s->x));
        TRY(left_factors(s));
        TRY(place_left(s));
        TRY(place_right(s));
        tlr_work_lap(s->w, TLR_SMALL);
        TRY(tlr_update_dense(s->w, BACKEND_S, &s->x, alpha, d, ldd));
    }
    st = large_products(s, alpha, d, ldd);
done:
    return st;
}

status tlr_update_split(tlr_work *w, const tlr *l, int64_t q0, int64_t q1, int64_t p,
                        tlr_strip *strip, int64_t strips, double *d, int64_t ldd) {
    job s = {.x = {.a = l,
                   .b = l,
                   .strip = strip,
                   .strips = strips,
                   .q0 = q0,
                   .ka = l->panel[p].c0,
                   .kb = l->panel[p].c1,
                   .size = sizeof(float),
                   .update = update_rows},
             .w = w};
    return tlr_update_spans(&s.x, -1, q1, d, ldd);
}
