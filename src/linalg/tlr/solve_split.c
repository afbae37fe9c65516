/* Solves from the right by products of FP16 numbers in some terms (backend_split_ops.h): X := X
 * L^-T, X := X L^-1. X is in single precision all the way; what is below a block column's diagonal
 * block, nearly all of the work, is two calls, each of which makes all products of one kind: first
 * X with V of each tile column (or U of each tile row), whose results go in FP16, Z, to where the
 * others take them; then Z with U of each tile row (or V of each tile column), and X itself with
 * dense tiles. The diagonal blocks divide in single precision. Nothing is waited for. */
#include "solve_split.h"
#include "distributed.h"

#include <math.h>

/* --- lists of products --- */

/* Those of a call, on the host and, in the same order in one piece, there. */
typedef struct {
    split_task *task;
    split_segment *segment;
    int64_t tasks, segments, *host, *there, segment_at;
} orders;

enum { MOST_TERMS = 3 };

static int64_t words(int64_t count, size_t size) {
    return (count * (int64_t)size + 7) / 8;
}

/* Room for so many. */
static status open_orders(solve_job *s, int64_t tasks, int64_t segments, orders *o) {
    status st;
    *o = (orders){.segment_at = words(tasks, sizeof *o->task)};
    TRY(tlr_work_indices(s->w, o->segment_at + words(segments, sizeof *o->segment), &o->host,
                         &o->there));
    o->task = (split_task *)(void *)o->host;
    o->segment = (split_segment *)(void *)(o->host + o->segment_at);
done:
    return st;
}

static status send_orders(solve_job *s, const orders *o, split_products *p) {
    *p = (split_products){.m = s->v,
                          .count = o->tasks,
                          .task = (const split_task *)(void *)o->there,
                          .segment = (const split_segment *)(void *)(o->there + o->segment_at),
                          .exponent = s->ex,
                          .a = s->a,
                          .b = s->b,
                          .lda = s->ld,
                          .a_cols = s->x_cols + s->z_cols,
                          .ldb = s->ldb,
                          .b_cols = s->b_cols};
    return tlr_work_send(s->w, o->segment_at + words(o->segments, sizeof *o->segment), o->host,
                         o->there);
}

static void open_task(orders *o, int64_t cols, int64_t to, int parts) {
    o->task[o->tasks++] =
        (split_task){(int32_t)o->segments, 0, (int32_t)cols, (int32_t)to, (int32_t)parts};
}

/* Columns of two operands: the first of them, and how far rests are from upper parts; exponents of
 * A's and of B's (-1: in the scale); whose rests are multiplied too. */
typedef struct {
    int64_t a, a_step, b, b_step, of, of_b;
    bool rests_of_a, rests_of_b;
} operands;

/* The terms for columns of a kind. */
static operands of_kind(const solve_job *s, int kind, operands x) {
    x.of_b = -1;
    x.rests_of_a = kind == 0 ? s->terms > 2 : s->of_fp16 > 1;
    x.rests_of_b = kind == 0 && s->terms > 1;
    return x;
}

/* A product of such: with columns of B (down) as they are, or turned from row `row` on. */
typedef struct {
    bool down;
    int64_t row, inner;
    double scale; /* without A's exponent */
} shape;

static void add_segment(orders *o, const operands *x, bool a_rest, bool b_rest, const shape *f) {
    o->segment[o->segments++] = (split_segment){.a = (int32_t)(x->a + (a_rest ? x->a_step : 0)),
                                                .b = (int32_t)(x->b + (b_rest ? x->b_step : 0)),
                                                .row = (int32_t)f->row,
                                                .inner = (int32_t)f->inner,
                                                .down = f->down,
                                                .of = (int32_t)x->of,
                                                .of_b = (int32_t)x->of_b,
                                                .scale = (float)f->scale};
    o->task[o->tasks - 1].segments++;
}

/* The terms of a product, the largest last: tensor cores cut off what does not fit within a sum. */
static void add_terms(orders *o, operands x, shape f) {
    if (f.inner == 0)
        return;
    if (x.rests_of_b)
        add_segment(o, &x, false, true, &f);
    if (x.rests_of_a)
        add_segment(o, &x, true, false, &f);
    add_segment(o, &x, false, false, &f);
}

/* Pieces of at most SPLIT_WIDEST. */
static int64_t pieces(int64_t n) {
    return (n + SPLIT_WIDEST - 1) / SPLIT_WIDEST;
}

/* X of tile t, as the A of products with columns of a kind. */
static operands with_x(const solve_job *s, int64_t t, int kind) {
    const panel *p = panel_of(s->l, t);
    const int64_t q = p - s->l->panel, *first = s->l->cols->first;
    const operands x = {
        .a = solve_x_of(s, q) + first[t] - first[p->c0], .a_step = p->width, .of = q};
    return of_kind(s, kind, x);
}

/* X of tile t with the columns of a place. */
static void first_tasks(const solve_job *s, orders *o, int64_t t, const solve_place *b,
                        double scale) {
    for (int h = 0; h < 2; h++)
        for (int64_t j = 0; j < b->n[h]; j += SPLIT_WIDEST) {
            operands x = with_x(s, t, h);
            x.b = b->at[h] + j;
            x.b_step = solve_pad(b->n[h]);
            open_task(o, least(SPLIT_WIDEST, b->n[h] - j), x.b, solve_z_parts(s, h));
            add_terms(o, x, (shape){true, 0, b->rows, scale});
        }
}

/* Z with the rows from `row` on of a place. */
static void z_terms(const solve_job *s, orders *o, const solve_place *b, int64_t row,
                    double scale) {
    for (int h = 0; h < 2; h++) {
        const operands x = {.a = s->x_cols + b->z[h],
                            .a_step = b->n[h],
                            .b = b->at[h],
                            .b_step = solve_pad(b->n[h]),
                            .of = s->et - s->ex};
        add_terms(o, of_kind(s, h, x), (shape){false, row, b->n[h], scale});
    }
}

/* X of tile t with the columns (down) or rows from `from` on of tile (i, k), if that is dense. */
static void dense_split(const solve_job *s, orders *o, int64_t i, int64_t k, int64_t t,
                        int64_t from, bool down, double scale) {
    const tlr_tile *tile = panel_tile(s->p, i, k);
    const int64_t at = solve_spot_of(s, i, k)->dense;
    operands x = with_x(s, t, solve_dense_kind(s, tile));
    if (at < 0)
        return;
    x.b = at + (down ? from : 0);
    x.b_step = solve_pad(tile->rank);
    add_terms(o, x, (shape){down, down ? 0 : from, tlr_extent(s->l->cols, t), scale});
}

/* --- below a diagonal block --- */

/* Z: X with the columns of all places of the side that comes first. */
static status make_z(solve_job *s) {
    const bool ahead = s->form == 'T';
    const int64_t n = ahead ? s->p->c1 - s->p->c0 : s->ib - s->ia;
    const solve_place *all = ahead ? s->vb : s->ub;
    const double scale = ldexp(1, ahead ? -s->ev : -s->eu);
    int64_t tasks = 0;
    orders o;
    split_products products;
    status st;
    for (int64_t j = 0; j < n; j++)
        tasks += pieces(all[j].n[0]) + pieces(all[j].n[1]);
    TRY(open_orders(s, tasks, MOST_TERMS * tasks, &o));
    for (int64_t j = 0; j < n; j++)
        first_tasks(s, &o, j + (ahead ? s->p->c0 : s->ia), all + j, scale);
    TRY(send_orders(s, &o, &products));
    st = s->w->be->split->halve(s->w->ctx, &products, s->et, s->places, s->a + s->x_cols * s->ld,
                                s->ld);
done:
    return st;
}

/* X below -= X_p L^T: a task for each tile row. The exponent of Z is at most that of X. */
static void add_rows(const solve_job *s, orders *o, int64_t i, int64_t j) {
    const double scale = -ldexp(1, -s->eu);
    for (int64_t k = s->p->c0; k < s->p->c1; k++)
        dense_split(s, o, i, k, k, j, false, scale);
    z_terms(s, o, s->ub + (i - s->ia), j, scale);
}

/* X_p -= X below L: a task for each tile column. Exponents of X fall from the last rows to the
 * first; Z comes where the units of the sum do not become much smaller. */
static void add_columns(const solve_job *s, orders *o, int64_t k, int64_t j) {
    const double of_z = -ldexp(1, -s->ev), of_x = -ldexp(1, -s->eu);
    const bool z_first = s->ev > s->eu;
    if (z_first)
        z_terms(s, o, s->vb + (k - s->p->c0), j, of_z);
    for (int64_t i = s->ib - 1; i >= s->ia; i--)
        dense_split(s, o, i, k, i, j, true, of_x);
    if (!z_first)
        z_terms(s, o, s->vb + (k - s->p->c0), j, of_z);
}

static status add_products(solve_job *s) {
    const bool ahead = s->form == 'T';
    const int64_t from = ahead ? s->ia : s->p->c0, to = ahead ? s->ib : s->p->c1,
                  others = ahead ? s->p->c1 - s->p->c0 : s->ib - s->ia;
    const int64_t *first = s->l->cols->first;
    int64_t tasks = 0;
    orders o;
    split_products products;
    status st;
    for (int64_t t = from; t < to; t++)
        tasks += pieces(first[t + 1] - first[t]);
    TRY(open_orders(s, tasks, MOST_TERMS * tasks * (others + 2), &o));
    for (int64_t t = from; t < to; t++)
        for (int64_t j = first[t]; j < first[t + 1]; j += SPLIT_WIDEST) {
            open_task(&o, least(SPLIT_WIDEST, first[t + 1] - j), j, 1);
            if (ahead)
                add_rows(s, &o, t, j - first[t]);
            else
                add_columns(s, &o, t, j - first[t]);
        }
    TRY(send_orders(s, &o, &products));
    st = s->w->be->split->sum(s->w->ctx, &products, true, s->x, s->ld, s->l->cols->n);
done:
    return st;
}

/* Tile rows ia .. ib of the block column current. */
static status some_rows(solve_job *s, int64_t ia, int64_t ib) {
    const panel *p = s->p;
    status st;
    TRY(solve_rows_open(s, ia, ib));
    if (s->b_cols == 0)
        goto done;
    s->eu = split_exponent(p->most[0]);
    s->ev = split_exponent(p->most[1]);
    TRY(s->w->be->split->exponent(s->w->ctx, NULL, s->bound,
                                  fmax(1, (double)s->l->b * p->most[s->form == 'T' ? 1 : 0]),
                                  s->et));
    TRY(solve_take_tiles(s));
    TRY(make_z(s));
    st = add_products(s);
done:
    solve_rows_close(s);
    return st;
}

static status all_rows(solve_job *s) {
    status st = MOAO_OK;
    int64_t cols;
    for (int64_t ia = s->p->r0, ib; ia < s->p->r1; ia = ib) {
        ib = solve_rows_that_fit(s, s->p, ia, &cols);
        TRY(some_rows(s, ia, ib));
    }
done:
    return st;
}

/* --- triangles --- */

/* X of the block column times the inverse of its diagonal block, all three terms. */
static status multiply_by_inverse(solve_job *s) {
    const panel *p = s->p;
    const backend *be = s->w->be;
    const int64_t n = p->width, q = p - s->l->panel, from = s->l->cols->first[p->c0];
    float *const x = s->x + from * s->ld;
    const bool turned = s->form == 'T';
    orders o;
    split_products products;
    status st;
    TRY(be->fp16->max_abs(s->w->ctx, BACKEND_S, s->v, n, x, s->ld, s->own));
    TRY(be->split->exponent(s->w->ctx, NULL, s->own, 1, s->ey));
    TRY(be->split->take(s->w->ctx, 2, s->v, n, s->ey, x, s->ld, n, s->a, s->ld));
    TRY(open_orders(s, pieces(n), MOST_TERMS * pieces(n), &o));
    for (int64_t k = 0; k < pieces(n); k++) { /* the longest ones first */
        const int64_t j = SPLIT_WIDEST * (turned ? pieces(n) - 1 - k : k), end = j + SPLIT_WIDEST;
        const operands y = {.a = turned ? 0 : j,
                            .a_step = n,
                            .b = turned ? 0 : j,
                            .b_step = solve_pad(n),
                            .of = s->ey - s->ex,
                            .of_b = s->e_inverse - s->ex + q,
                            .rests_of_a = true,
                            .rests_of_b = true};
        open_task(&o, least(end, n) - j, from + j, 1);
        add_terms(&o, y, (shape){!turned, j, turned ? least(end, n) : n - j, 1});
    }
    TRY(send_orders(s, &o, &products));
    products.b = solve_inverse_of(s, q);
    products.ldb = s->ld_inverse;
    products.b_cols = 2 * solve_pad(n);
    st = be->split->sum(s->w->ctx, &products, false, s->x, s->ld, s->l->cols->n);
done:
    return st;
}

static status divide(solve_job *s) {
    const panel *p = s->p;
    const int64_t n = p->width;
    const float one = 1;
    const backend *be = s->w->be;
    status st;
    if (s->inverse)
        return multiply_by_inverse(s);
    TRY(be->fp16->cast_to_single(s->w->ctx, n, n, p->diag, n, s->block, n));
    TRY(tlr_work_bytes(s->w, be->workspace(BACKEND_TRSM, BACKEND_S, s->v, n)));
    st = be->trsm(s->w->ctx, BACKEND_S, 'R', 'L', s->form, 'N', s->v, n, &one, s->block, n,
                  s->x + s->l->cols->first[p->c0] * s->ld, s->ld, s->w->work, s->w->lwork);
done:
    return st;
}

/* Room for A; what of it a triangle of form 'N' has more is taken with the first one (both). */
static status open_left(solve_job *s, bool both) {
    const tlr *l = s->l;
    const int64_t m = s->ld / 2; /* FP16 numbers in FP32 */
    int64_t cols;
    void *p;
    status st;
    s->z_cols = 0;
    for (int64_t q = 0; q < l->panels; q++)
        for (int64_t i = l->panel[q].r0; i < l->panel[q].r1;) {
            i = solve_rows_that_fit(s, l->panel + q, i, &cols);
            s->z_cols = largest(s->z_cols, cols);
        }
    const int64_t parts = solve_x_parts(s), most = s->form == 'N' || both ? l->cols->n : s->widest;
    s->x_cols = s->y_cols + parts * (s->form == 'T' ? s->widest : l->cols->n);
    TRY(tlr_work_typed(s->w, BUF_SIDE, BACKEND_S, m * (s->y_cols + parts * most + s->z_cols), &p));
    s->a = p;
    /* columns that are read next to those that were written are finite */
    st = tlr_full_gemm(s->w, BACKEND_S, 'N', 'N', m, s->x_cols + s->z_cols, 1, 0, p, m, p, 1, 0, p,
                       m);
done:
    return st;
}

static status one_triangle(solve_job *s, char form, bool both) {
    const backend *be = s->w->be;
    status st;
    s->form = form;
    TRY(open_left(s, both));
    TRY(be->fp16->max_abs(s->w->ctx, BACKEND_S, 0, 0, s->x, s->ld, s->bound)); /* 0 */
    for (int64_t q = 0; q < s->l->panels; q++) {
        s->p = s->l->panel + (form == 'T' ? q : s->l->panels - 1 - q);
        TRY(tlr_distributed_next(s->w, s->l, s->p - s->l->panel));
        if (form == 'N')
            TRY(all_rows(s));
        TRY(divide(s));
        if (q < s->l->panels - 1)
            TRY(solve_take_x(s));
        if (form == 'T')
            TRY(all_rows(s));
    }
done:
    return st;
}

status tlr_solve_split(tlr_work *w, const tlr *l, char form, int64_t v, double *x, int64_t ldx) {
    const int64_t n = l->rows->n;
    int64_t most = 0;
    solve_job s = {.w = w,
                   .l = l,
                   .terms = l->terms,
                   .of_fp16 = l->of_fp16,
                   .v = v,
                   .ld = split_pad(v),
                   .ldb = solve_pad(l->b)};
    void *p;
    status st;
    if (n == 0 || v == 0)
        return MOAO_OK;
    for (int64_t q = 0; q < l->panels; q++) {
        const panel *here = l->panel + q;
        s.widest = largest(s.widest, here->width);
        most = largest(most, (here->r1 - here->r0) * (here->c1 - here->c0));
    }
    TRY(ALLOC(s.kept, (size_t)(4 * most), "places of columns"));
    TRY(tlr_work_room(w, BUF_BOUND, 3 + l->panels + 1, &s.most));
    s.bound = s.most + 1;
    s.own = s.most + 2;
    s.ex = (int32_t *)(void *)(s.most + 3);
    s.e_inverse = s.ex + l->panels;
    s.et = s.e_inverse + l->panels;
    s.ey = s.et + 1;
    TRY(tlr_work_typed(w, BUF_PANEL, BACKEND_S, s.ld * n, &p));
    s.x = p;
    TRY(tlr_work_typed(w, BUF_METRIC, BACKEND_S, s.widest * s.widest, &p));
    s.block = p;
    TRY(w->be->fp16->cast_to_single(w->ctx, v, n, x, ldx, s.x, s.ld));
    if (v >= s.widest) /* else dividing takes less than inverting */
        TRY(solve_invert(&s));
    if (form != 'N')
        TRY(one_triangle(&s, 'T', form == 'A'));
    if (form != 'T')
        TRY(one_triangle(&s, 'N', false));
    st = w->be->fp16->cast_to_double(w->ctx, v, n, 1, s.x, s.ld, 0, x, ldx);
done:
    free(s.kept);
    return st;
}
