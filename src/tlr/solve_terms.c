/* Solves from the right by products of halves in some terms (backend_terms.h): X := X L^-T,
 * X := X L^-1. X is in single precision all the way; what is below a super-panel's diagonal block,
 * nearly all of the work, is two calls, each of which makes all products of one kind: first X with
 * V of a tile column (or U of a tile row), whose results go as halves, Z, to where the other kind
 * takes them; then Z with U of a tile row (or V of a tile column), and X itself with dense tiles.
 * The diagonal blocks divide in single precision. Exponents are chosen by the largest entry of X so
 * far, for which the host waits, once a super-panel.
 *
 * Operands have one or two halves of each number, first all top halves, then all rests; which of
 * them meet, the segments of a product say. Where one term is all, columns that are kept as halves
 * are as the others. */
#include "solve_terms.h"
#include "tlr/spread.h"

#include <math.h>

/* --- products --- */

/* Lists of a call, on the host and, in the same order in one piece, there. */
typedef struct {
    terms_task *task;
    terms_place *place;
    terms_segment *segment;
    int64_t tasks, segments, *host, *there, place_at, segment_at;
} orders;

enum { MOST_TERMS = 3 };

static int64_t words(int64_t count, size_t size) {
    return (count * (int64_t)size + 7) / 8;
}

/* Room for so many. */
static status open_orders(solve_job *s, int64_t tasks, int64_t places, int64_t segments,
                          orders *o) {
    status st;
    *o = (orders){.place_at = words(tasks, sizeof *o->task)};
    o->segment_at = o->place_at + words(places, sizeof *o->place);
    TRY(tlr_work_indices(s->w, o->segment_at + words(segments, sizeof *o->segment), &o->host,
                         &o->there));
    o->task = (terms_task *)(void *)o->host;
    o->place = (terms_place *)(void *)(o->host + o->place_at);
    o->segment = (terms_segment *)(void *)(o->host + o->segment_at);
done:
    return st;
}

static status send_orders(solve_job *s, const orders *o, terms_products *p) {
    *p = (terms_products){.m = s->v,
                          .count = o->tasks,
                          .task = (const terms_task *)(void *)o->there,
                          .segment = (const terms_segment *)(void *)(o->there + o->segment_at),
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
        (terms_task){(int32_t)o->segments, 0, (int32_t)cols, (int32_t)to, (int32_t)parts};
}

static void add_segment(orders *o, int64_t a, int64_t b, int64_t row, int64_t inner, bool down,
                        double scale) {
    if (inner == 0)
        return;
    o->segment[o->segments++] =
        (terms_segment){(int32_t)a, (int32_t)b, (int32_t)row, (int32_t)inner, down, (float)scale};
    o->task[o->tasks - 1].segments++;
}

/* The terms of a product of two operands of a kind, the largest last: rests are `ra` and `rb`
 * columns after the top halves. */
static void add_terms(const solve_job *s, orders *o, int kind, int64_t a, int64_t ra, int64_t b,
                      int64_t rb, int64_t row, int64_t inner, bool down, double scale) {
    const int terms = kind == 0 ? s->terms : s->of_halves;
    if (kind == 0 && terms > 1)
        add_segment(o, a, b + rb, row, inner, down, scale);
    if (kind == 0 ? terms > 2 : terms > 1)
        add_segment(o, a + ra, b, row, inner, down, scale);
    add_segment(o, a, b, row, inner, down, scale);
}

/* Pieces of at most TERMS_WIDEST. */
static int64_t pieces(int64_t n) {
    return (n + TERMS_WIDEST - 1) / TERMS_WIDEST;
}

/* X of tile t with all columns of a place, which is `at` in the list of places for Z. */
static void first_tasks(const solve_job *s, orders *o, int64_t t, const solve_place *b,
                        double scale, const int64_t at[2]) {
    for (int h = 0; h < 2; h++)
        for (int64_t j = 0; j < b->n[h]; j += TERMS_WIDEST) {
            open_task(o, least(TERMS_WIDEST, b->n[h] - j), at[h] + j, solve_z_parts(s, h));
            add_terms(s, o, h, solve_x_at(s, t), b->rows, b->at[h] + j, solve_pad(b->n[h]), 0,
                      b->rows, true, scale);
        }
}

/* Z with the rows from `row` on of a place. */
static void z_terms(const solve_job *s, orders *o, const solve_place *b, int64_t row,
                    double scale) {
    for (int h = 0; h < 2; h++)
        add_terms(s, o, h, s->x_cols + b->z[h], b->n[h], b->at[h], solve_pad(b->n[h]), row, b->n[h],
                  false, scale);
}

/* X of tile t with dense tile (i, k), by its columns (down) or rows from `from` on. */
static void dense_terms(const solve_job *s, orders *o, int64_t i, int64_t k, int64_t t,
                        int64_t from, bool down, double scale) {
    const tlr_tile *tile = panel_tile(s->p, i, k);
    const int64_t n = tlr_extent(s->l->cols, t), at = solve_spot_of(s, i, k)->dense;
    add_terms(s, o, solve_halves_of(s, tile) > 0, solve_x_at(s, t), n, at + (down ? from : 0),
              solve_pad(tile->rank), down ? 0 : from, n, down, scale);
}

/* First product: columns of each place to where Z has them. */
static status make_z(solve_job *s) {
    const panel *p = s->p;
    const bool ahead = s->form == 'T';
    const int64_t n = ahead ? p->c1 - p->c0 : s->ib - s->ia;
    const solve_place *first = ahead ? s->vb : s->ub, *second = ahead ? s->ub : s->vb;
    int64_t tasks = 0, cols = 0;
    orders o;
    terms_products products;
    status st;
    for (int64_t j = 0; j < n; j++)
        for (int h = 0; h < 2; h++) {
            tasks += pieces(first[j].n[h]);
            cols += first[j].n[h];
        }
    TRY(open_orders(s, tasks, cols, MOST_TERMS * tasks, &o));
    cols = 0;
    for (int64_t j = 0; j < n; j++) {
        const int64_t at[2] = {cols, cols + first[j].n[0]}, t = j + (ahead ? p->c0 : s->ia);
        const int e = s->ex[panel_of(s->l, t) - s->l->panel] + (ahead ? s->ev : s->eu);
        first_tasks(s, &o, t, first + j, ldexp(1, s->et - e), at);
        for (int64_t m = 0; m < (ahead ? s->ib - s->ia : p->c1 - p->c0); m++) {
            const solve_spot *here =
                ahead ? solve_spot_of(s, s->ia + m, t) : solve_spot_of(s, t, p->c0 + m);
            for (int h = 0; h < 2; h++) {
                const int64_t from = at[h] + (ahead ? here->v : here->u)[h],
                              to = second[m].z[h] + (ahead ? here->u : here->v)[h];
                for (int64_t c = 0; c < here->n[h]; c++)
                    o.place[from + c] = (terms_place){(int32_t)(to + c), (int32_t)second[m].n[h]};
            }
        }
        cols += first[j].n[0] + first[j].n[1];
    }
    TRY(send_orders(s, &o, &products));
    st = s->w->be->terms->halve(s->w->ctx, &products,
                                (const terms_place *)(void *)(o.there + o.place_at),
                                s->a + s->x_cols * s->ld, s->ld);
done:
    return st;
}

/* X below -= X_p L^T: a task for each tile row. */
static status add_rows(solve_job *s) {
    const panel *p = s->p;
    const int64_t nk = p->c1 - p->c0, ex = s->ex[p - s->l->panel];
    const double of_z = -ldexp(1, -s->et - s->eu), of_x = -ldexp(1, (int)-ex - s->eu);
    int64_t tasks = 0;
    orders o;
    terms_products products;
    status st;
    for (int64_t i = s->ia; i < s->ib; i++)
        tasks += pieces(tlr_extent(s->l->rows, i));
    TRY(open_orders(s, tasks, 0, MOST_TERMS * tasks * (nk + 2), &o));
    for (int64_t i = s->ia; i < s->ib; i++) {
        const solve_place *b = s->ub + (i - s->ia);
        for (int64_t j = 0; j < b->rows; j += TERMS_WIDEST) {
            open_task(&o, least(TERMS_WIDEST, b->rows - j), s->l->rows->first[i] + j, 1);
            for (int64_t k = p->c0; k < p->c1; k++)
                if (solve_spot_of(s, i, k)->dense >= 0)
                    dense_terms(s, &o, i, k, k, j, false, of_x);
            z_terms(s, &o, b, j, of_z); /* et <= ex */
        }
    }
    TRY(send_orders(s, &o, &products));
    st = s->w->be->terms->add(s->w->ctx, &products, s->x, s->ld);
done:
    return st;
}

/* X_p -= X below L: a task for each tile column. Exponents of X fall from the last rows to the
 * first. */
static status add_columns(solve_job *s) {
    const panel *p = s->p;
    const double of_z = -ldexp(1, -s->et - s->ev);
    int64_t tasks = 0;
    orders o;
    terms_products products;
    status st;
    for (int64_t k = p->c0; k < p->c1; k++)
        tasks += pieces(tlr_extent(s->l->cols, k));
    TRY(open_orders(s, tasks, 0, MOST_TERMS * tasks * (s->ib - s->ia + 2), &o));
    for (int64_t k = p->c0; k < p->c1; k++) {
        const solve_place *b = s->vb + (k - p->c0);
        for (int64_t j = 0; j < b->rows; j += TERMS_WIDEST) {
            bool done = false;
            open_task(&o, least(TERMS_WIDEST, b->rows - j), s->l->cols->first[k] + j, 1);
            for (int64_t i = s->ib - 1; i >= s->ia; i--) {
                const double of_x = -ldexp(1, -s->ex[panel_of(s->l, i) - s->l->panel] - s->eu);
                if (solve_spot_of(s, i, k)->dense < 0)
                    continue;
                if (!done && of_z > of_x) {
                    z_terms(s, &o, b, j, of_z);
                    done = true;
                }
                dense_terms(s, &o, i, k, i, j, true, of_x);
            }
            if (!done)
                z_terms(s, &o, b, j, of_z);
        }
    }
    TRY(send_orders(s, &o, &products));
    st = s->w->be->terms->add(s->w->ctx, &products, s->x, s->ld);
done:
    return st;
}

/* --- below a diagonal block --- */

/* Tile rows ia .. ib of the super-panel in hand. */
static status some_rows(solve_job *s, int64_t ia, int64_t ib) {
    const panel *p = s->p;
    const bool ahead = s->form == 'T';
    status st;
    s->ia = ia;
    s->ib = ib;
    s->ub = s->vb = NULL;
    s->spots = NULL;
    TRY(ALLOC(s->ub, (size_t)(ib - ia), "places of tiles"));
    TRY(ALLOC(s->vb, (size_t)(p->c1 - p->c0), "places of tiles"));
    TRY(ALLOC(s->spots, (size_t)((ib - ia) * (p->c1 - p->c0)), "places of tiles"));
    solve_lay_out(s);
    if (s->b_cols == 0)
        goto done;
    TRY(tlr_store_typed(s->w, s->l, BACKEND_S, p - s->l->panel, ia, ib, -1));
    s->eu = terms_exponent(p->most[0]);
    s->ev = terms_exponent(p->most[1]);
    s->et = terms_exponent(s->bound * fmax(1, (double)s->l->b * p->most[ahead ? 1 : 0]));
    TRY(solve_take_tiles(s));
    TRY(make_z(s));
    st = ahead ? add_rows(s) : add_columns(s);
done:
    free(s->ub), free(s->vb), free(s->spots);
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

static status divide(solve_job *s) {
    const panel *p = s->p;
    const int64_t n = p->width;
    const float one = 1;
    const backend *be = s->w->be;
    status st;
    TRY(be->half->cast_to_single(s->w->ctx, n, n, p->diag, n, s->block, n));
    TRY(tlr_work_bytes(s->w, be->workspace(BACKEND_TRSM, BACKEND_S, s->v, n)));
    st = be->trsm(s->w->ctx, BACKEND_S, 'R', 'L', s->form, 'N', s->v, n, &one, s->block, n,
                  s->x + s->l->cols->first[p->c0] * s->ld, s->ld, s->w->work, s->w->lwork);
done:
    return st;
}

/* A: X of a super-panel, or in form 'N' of all, then Z. */
static status open_left(solve_job *s) {
    const tlr *l = s->l;
    int64_t widest = 0;
    void *p;
    status st;
    s->z_cols = 0;
    for (int64_t q = 0; q < l->panels; q++) {
        const panel *here = l->panel + q;
        int64_t cols;
        widest = largest(widest, here->width);
        for (int64_t i = here->r0; i < here->r1;) {
            i = solve_rows_that_fit(s, here, i, &cols);
            s->z_cols = largest(s->z_cols, cols);
        }
    }
    s->x_cols = solve_left_parts(s) * (s->form == 'T' ? widest : l->rows->n);
    TRY(tlr_work_typed(s->w, BUF_SIDE, BACKEND_S, s->ld / 2 * (s->x_cols + s->z_cols), &p));
    s->a = solve_as_halves(p);
    /* what is read beside what was written is finite */
    st = s->w->be->half->gemm(s->w->ctx, 'N', 'N', s->ld / 2, s->x_cols + s->z_cols, 0, 0, s->a,
                              s->ld, s->a, s->ld, 0, p, s->ld / 2);
done:
    return st;
}

static status one_triangle(solve_job *s, char form) {
    status st;
    s->form = form;
    s->bound = 0;
    TRY(open_left(s));
    for (int64_t q = 0; q < s->l->panels; q++) {
        s->p = s->l->panel + (form == 'T' ? q : s->l->panels - 1 - q);
        TRY(tlr_spread_next(s->w, s->l, s->p - s->l->panel));
        if (form == 'N')
            TRY(all_rows(s));
        TRY(divide(s));
        if (form == 'T' ? s->p->r0 < s->p->r1 : s->p > s->l->panel)
            TRY(solve_take_x(s));
        if (form == 'T')
            TRY(all_rows(s));
    }
done:
    return st;
}

status tlr_solve_terms(tlr_work *w, const tlr *l, char form, int64_t v, double *x, int64_t ldx) {
    const int64_t n = l->rows->n;
    int64_t widest = 0;
    solve_job s = {.w = w,
                   .l = l,
                   .terms = l->terms,
                   .of_halves = l->terms > 1 ? l->of_halves : 1,
                   .v = v,
                   .ld = terms_pad(v),
                   .ldb = solve_pad(l->b)};
    void *p;
    status st;
    if (n == 0 || v == 0)
        return MOAO_OK;
    for (int64_t q = 0; q < l->panels; q++)
        widest = largest(widest, l->panel[q].width);
    TRY(ALLOC(s.ex, (size_t)l->panels, "exponents"));
    TRY(tlr_work_typed(w, BUF_PANEL, BACKEND_S, s.ld * n, &p));
    s.x = p;
    TRY(tlr_work_typed(w, BUF_METRIC, BACKEND_S, widest * widest, &p));
    s.block = p;
    TRY(w->be->half->cast_to_single(w->ctx, v, n, x, ldx, s.x, s.ld));
    if (form != 'N')
        TRY(one_triangle(&s, 'T'));
    if (form != 'T')
        TRY(one_triangle(&s, 'N'));
    st = w->be->half->cast_to_double(w->ctx, v, n, 1, s.x, s.ld, 0, x, ldx);
done:
    free(s.ex);
    return st;
}
