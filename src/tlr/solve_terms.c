/* Solves from the right by products of halves in some terms (backend_terms.h): X := X L^-T,
 * X := X L^-1. X is in single precision all the way; what is below a super-panel's diagonal block,
 * nearly all of the work, is two products of halves for each tile row and tile column, with a
 * reordering between them; the diagonal blocks divide in single precision. Exponents are chosen by
 * the largest entry of the part of X in hand, for which the host waits, once a super-panel. */
#include "tlr/spread.h"

#include <math.h>

/* Parts of operands (backend_terms.h) for so many terms; with columns that are kept as halves, of
 * which one half is all there is: of what they meet, X being there in left_parts. */
static const char *const left_parts[] = {"", "h", "hh", "hrh"};
static const char *const right_parts[] = {"", "h", "rh", "rhh"};
static const char *const left_of_halves[] = {"", "h", "rh"};
static const char *const right_halves[] = {"", "h", "hh"};

/* U of a tile row, or V of a tile column: columns of so many rows, of which some are kept as
 * halves, and where they lie as operands. As a second factor they stand side by side, halves last,
 * all with the leading dimension ld. */
typedef struct {
    int64_t rows, cols, halves, to, ld, halves_to, halves_ld;
} place;

static int64_t leading(const place *p) {
    return p->cols - p->halves;
}

typedef struct {
    tlr_work *w;
    const tlr *l;
    const panel *p;
    int terms, of_halves; /* of these with columns that are kept as halves */
    int64_t v, ldv;       /* ldv: of halves */
    float *x;             /* v x n */
    float *block;         /* the diagonal block in hand */
    double bound;         /* |x| of what is multiplied */
    bool taken;           /* X of the super-panel is an operand */
    int ex, ev, eu, et;
    backend_f16 *left, *right, *beside; /* operands: X; what it meets first, and then */
    float *t;                           /* products of the first kind */
    backend_f16 *z;                     /* these as an operand */
} job;

static backend_f16 *as_halves(void *p) {
    return p;
}

/* --- operands --- */

static status room_of(job *s, int which, int64_t count, backend_f16 **p) {
    void *at;
    const status st = tlr_work_typed(s->w, which, BACKEND_S, (s->terms * count + 1) / 2, &at);
    *p = as_halves(at);
    return st;
}

/* X(:, first[t0] .. first[t1]) as a left operand, each tile's columns on their own. */
static status take_x(job *s, const tlr_layout *l, int64_t t0, int64_t t1) {
    const int64_t from = l->first[t0], n = l->first[t1] - from;
    int64_t *host, *there;
    terms_column *c;
    double *most;
    status st;
    TRY(tlr_work_room(s->w, BUF_BOUND, 1, &most));
    TRY(s->w->be->half->max_abs(s->w->ctx, BACKEND_S, s->v, n, s->x + from * s->v, s->v, most));
    TRY(tlr_dense_copy(s->w, 1, 1, most, 1, &s->bound, 1));
    TRY(tlr_work_indices(s->w, 3 * n, &host, &there));
    c = (terms_column *)(void *)host;
    for (int64_t t = t0; t < t1; t++)
        for (int64_t i = l->first[t]; i < l->first[t + 1]; i++)
            c[i - from] = (terms_column){i, s->terms * (l->first[t] - from) + i - l->first[t],
                                         tlr_extent(l, t)};
    TRY(tlr_work_send(s->w, 3 * n, host, there));
    TRY(room_of(s, BUF_CORE, s->ldv * n, &s->left));
    TRY(s->w->be->sync(s->w->ctx));
    s->ex = terms_exponent(s->bound);
    st = s->w->be->terms->columns(s->w->ctx, left_parts[s->terms], s->v, n,
                                  (const terms_column *)there, s->ex, s->x, s->v, NULL, 1, s->left,
                                  s->ldv);
done:
    return st;
}

/* Where `n` of these lie as right operands, the inner extent of whose terms is rows (stacked) or
 * columns; numbers of all of them. */
static int64_t lay_out(const job *s, int64_t n, place *p, bool stacked) {
    int64_t all = 0;
    for (; n > 0; n--, p++) {
        p->ld = terms_pad(stacked ? s->terms * p->rows : p->rows);
        p->halves_ld = stacked ? terms_pad(s->of_halves * p->rows) : p->ld;
        p->to = all;
        all += (stacked ? 1 : s->terms) * p->ld * leading(p);
        p->halves_to = all;
        all += (stacked ? 1 : s->of_halves) * p->halves_ld * p->halves;
    }
    return all;
}

/* Column c of one, counted without the halves or, of these, by themselves. */
static terms_block block_of(const place *p, int64_t from, int64_t c, int64_t cols, bool halves,
                            bool stacked) {
    const int64_t ld = halves ? p->halves_ld : p->ld, all = halves ? p->halves : leading(p);
    return (terms_block){.from = from,
                         .rows = p->rows,
                         .cols = cols,
                         .to = (halves ? p->halves_to : p->to) + c * ld,
                         .ld = ld,
                         .step = stacked ? p->rows : all * ld};
}

/* U of a tile, or V, and what lies before it beside others. */
typedef struct {
    place *p;
    int64_t from, before, halves_before;
} tile_columns;

static tile_columns columns_of(const job *s, bool of_v, int64_t ia, int64_t i, int64_t k,
                               place *all) {
    const panel *p = s->p;
    const tlr_tile *t = panel_tile(p, i, k), *first = panel_tile(p, ia, k);
    const tlr *l = s->l;
    return of_v ? (tile_columns){all + (k - p->c0),
                                 p->kept_v + p->vbegin[k - p->c0] + t->v * tlr_extent(l->cols, k),
                                 t->v - first->v, t->v_halves - first->v_halves}
                : (tile_columns){all + (i - ia),
                                 p->ubegin[i - p->r0] + t->u * tlr_extent(l->rows, i), t->u,
                                 t->u_halves};
}

/* U (of_v: V) of tile rows ia .. ib as right operands, the leading columns or those that are kept
 * as halves. */
static status take_some(job *s, bool of_v, int64_t ia, int64_t ib, place *all, bool stacked,
                        bool halves, backend_f16 *to) {
    const panel *p = s->p;
    int64_t *host, *there, n = 0, most = 0;
    status st;
    TRY(tlr_work_indices(s->w, 6 * (ib - ia) * (p->c1 - p->c0), &host, &there));
    terms_block *const b = (terms_block *)(void *)host;
    for (int64_t i = ia; i < ib; i++)
        for (int64_t k = p->c0; k < p->c1; k++) {
            const tlr_tile *t = panel_tile(p, i, k);
            const int64_t cols = halves ? t->halves : t->rank - t->halves;
            const tile_columns c = columns_of(s, of_v, ia, i, k, all);
            if (cols == 0 || (of_v && t->kind == TLR_DENSE))
                continue;
            b[n++] = block_of(c.p, c.from + (halves ? t->rank - t->halves : 0) * c.p->rows,
                              halves ? c.halves_before : c.before - c.halves_before, cols, halves,
                              stacked);
            most = largest(most, cols * c.p->rows);
        }
    TRY(tlr_work_send(s->w, 6 * n, host, there));
    st = s->w->be->terms->blocks(
        s->w->ctx, halves ? right_halves[s->of_halves] : right_parts[s->terms], n,
        (const terms_block *)there, most, of_v ? s->ev : s->eu, p->singles, to);
done:
    return st;
}

static status take_blocks(job *s, bool of_v, int64_t ia, int64_t ib, place *all, bool stacked,
                          backend_f16 **to) {
    const int64_t n = of_v ? s->p->c1 - s->p->c0 : ib - ia;
    void *room;
    status st;
    TRY(tlr_work_typed(s->w, of_v ? BUF_V : BUF_U, BACKEND_S, (lay_out(s, n, all, stacked) + 1) / 2,
                       &room));
    *to = as_halves(room);
    for (int part = 0; part < 2; part++)
        TRY(take_some(s, of_v, ia, ib, all, stacked, part == 1, *to));
done:
    return st;
}

/* U of tile rows ia .. ib, V of all tile columns in these rows. */
static status places_of(const job *s, int64_t ia, int64_t ib, place **u, place **v) {
    const panel *p = s->p;
    status st;
    *u = *v = NULL;
    TRY(ALLOC(*u, (size_t)(ib - ia), "places of tiles"));
    TRY(ALLOC(*v, (size_t)(p->c1 - p->c0), "places of tiles"));
    for (int64_t i = ia; i < ib; i++)
        for (int64_t k = p->c0; k < p->c1; k++) {
            const tlr_tile *t = panel_tile(p, i, k);
            place *const of_u = *u + (i - ia), *const of_v = *v + (k - p->c0);
            of_u->rows = tlr_extent(s->l->rows, i);
            of_v->rows = tlr_extent(s->l->cols, k);
            of_u->cols += t->rank;
            of_u->halves += t->halves;
            of_v->cols += t->kind == TLR_LOWRANK ? t->rank : 0;
            of_v->halves += t->kind == TLR_LOWRANK ? t->halves : 0;
        }
done:
    return st;
}

/* C := alpha A B^(T) + beta C, A of v rows. */
static status product_of(job *s, char tb, int64_t n, int64_t k, double alpha, const backend_f16 *a,
                         const backend_f16 *b, int64_t ldb, float beta, float *c) {
    return n == 0 || k == 0 ? MOAO_OK
                            : s->w->be->half->gemm(s->w->ctx, 'N', tb, s->v, n, k, (float)alpha, a,
                                                   s->ldv, b, ldb, beta, c, s->v);
}

/* T := alpha X A, X the part of what was taken from number `at` on; leading columns of A
 * first. */
static status first_product(job *s, const place *a, int64_t at, double alpha, float *t) {
    const int64_t n = a->rows, lead = leading(a);
    const backend_f16 *x = s->left + s->terms * at * s->ldv;
    status st;
    TRY(product_of(s, 'N', lead, s->terms * n, alpha, x, s->right + a->to, a->ld, 0, t));
    st = product_of(s, 'N', a->halves, s->of_halves * n, alpha,
                    x + (s->terms - s->of_halves) * n * s->ldv, s->right + a->halves_to,
                    a->halves_ld, 0, t + lead * s->v);
done:
    return st;
}

/* Inner extent of a second product. */
static int64_t inner(const job *s, const place *b) {
    return s->terms * leading(b) + s->of_halves * b->halves;
}

/* --- below a diagonal block --- */

/* Columns of T (or of X) to their places in Z: those in terms from the beginning of the list, those
 * that are kept as halves from its end. */
typedef struct {
    terms_column *list, *there;
    int64_t room, n[2];
} orders;

static status open_orders(job *s, int64_t columns, orders *o) {
    int64_t *host, *there;
    const status st = tlr_work_indices(s->w, 3 * columns, &host, &there);
    *o = (orders){(terms_column *)(void *)host, (terms_column *)(void *)there, columns, {0}};
    return st;
}

/* `count` columns of Z from z on, from column `from` of T on (< 0: columns of X), whose parts stand
 * `step` columns apart. */
static void add_order(orders *o, bool halves, int64_t count, int64_t from, int64_t z,
                      int64_t step) {
    terms_column *to = o->list + (halves ? o->room - o->n[1] - count : o->n[0]);
    o->n[halves] += count;
    for (int64_t x = 0; x < count; x++)
        to[x] = (terms_column){from < 0 ? from - x : from + x, z + x, step};
}

static status send_orders(job *s, const orders *o) {
    const terms_column *const part[] = {o->there, o->there + o->room - o->n[1]};
    const char *const parts[] = {left_parts[s->terms], left_of_halves[s->of_halves]};
    status st;
    TRY(tlr_work_send(s->w, 3 * o->room, (const int64_t *)(const void *)o->list,
                      (int64_t *)(void *)o->there));
    for (int k = 0; k < 2; k++)
        TRY(s->w->be->terms->columns(s->w->ctx, parts[k], s->v, o->n[k], part[k], s->et, s->t, s->v,
                                     s->x, s->v, s->z, s->ldv));
done:
    return st;
}

/* Z: the columns of T in the order of tile rows (forward), of dense tiles those of X. */
static status order_by_rows(job *s, int64_t ia, int64_t ib, place *ub, place *vb) {
    const panel *p = s->p;
    int64_t tc = 0, zc = 0;
    orders o;
    status st;
    for (int64_t i = 0; i < ib - ia; i++)
        zc += ub[i].cols;
    TRY(open_orders(s, zc, &o));
    for (int64_t k = p->c0; k < p->c1; k++) {
        const place *v = vb + (k - p->c0);
        int64_t base = 0;
        for (int64_t i = ia; i < ib; base += inner(s, ub + (i - ia)), i++) {
            const tlr_tile *t = panel_tile(p, i, k);
            const place *u = ub + (i - ia);
            const tile_columns at = columns_of(s, true, ia, i, k, vb);
            const int64_t lead = t->rank - t->halves, x = -1 - s->l->cols->first[k];
            const bool dense = t->kind == TLR_DENSE;
            add_order(&o, false, lead, dense ? x : tc + at.before - at.halves_before,
                      base + t->u - t->u_halves, leading(u));
            add_order(&o, true, t->halves, dense ? x : tc + leading(v) + at.halves_before,
                      base + s->terms * leading(u) + t->u_halves, u->halves);
        }
        tc += v->cols;
    }
    st = send_orders(s, &o);
done:
    return st;
}

/* X below -= X_p L^T. */
static status forward(job *s, int64_t ia, int64_t ib, place *ub, place *vb) {
    const panel *p = s->p;
    const int64_t nk = p->c1 - p->c0;
    int64_t tc = 0, zc = 0;
    status st;
    for (int64_t k = 0; k < nk; k++) {
        const int64_t at = s->l->cols->first[p->c0 + k] - s->l->cols->first[p->c0];
        TRY(first_product(s, vb + k, at, ldexp(1, -s->ex - s->ev), s->t + tc * s->v));
        tc += vb[k].cols;
    }
    TRY(order_by_rows(s, ia, ib, ub, vb));
    TRY(tlr_work_fork(s->w));
    for (int64_t i = 0; i < ib - ia; i++) {
        tlr_work_turn(s->w);
        TRY(product_of(s, 'T', ub[i].rows, inner(s, ub + i), -ldexp(1, -s->et - s->eu),
                       s->z + zc * s->ldv, s->beside + ub[i].to, ub[i].ld, 1,
                       s->x + s->l->rows->first[ia + i] * s->v));
        zc += inner(s, ub + i);
    }
    st = tlr_work_join(s->w);
done:
    return st;
}

/* Z: the columns of T in the order of tile columns (backward). */
static status order_by_columns(job *s, int64_t ia, int64_t ib, place *ub, place *vb) {
    const panel *p = s->p;
    int64_t tc = 0, columns = 0;
    orders o;
    status st;
    for (int64_t k = 0; k < p->c1 - p->c0; k++)
        columns += vb[k].cols;
    TRY(open_orders(s, columns, &o));
    for (int64_t i = ia; i < ib; i++) {
        const place *u = ub + (i - ia);
        int64_t base = 0;
        for (int64_t k = p->c0; k < p->c1; base += inner(s, vb + (k - p->c0)), k++) {
            const tlr_tile *t = panel_tile(p, i, k);
            const place *v = vb + (k - p->c0);
            const tile_columns at = columns_of(s, true, ia, i, k, vb);
            if (t->kind != TLR_LOWRANK)
                continue;
            add_order(&o, false, t->rank - t->halves, tc + t->u - t->u_halves,
                      base + at.before - at.halves_before, leading(v));
            add_order(&o, true, t->halves, tc + leading(u) + t->u_halves,
                      base + s->terms * leading(v) + at.halves_before, v->halves);
        }
        tc += u->cols;
    }
    st = send_orders(s, &o);
done:
    return st;
}

/* What T holds of dense tiles is their part of X. */
static status add_dense(job *s, int64_t ia, int64_t ib, const place *ub) {
    const panel *p = s->p;
    int64_t tc = 0;
    status st = MOAO_OK;
    for (int64_t i = ia; i < ib; tc += ub[i - ia].cols, i++)
        for (int64_t k = p->c0; k < p->c1; k++) {
            const tlr_tile *t = panel_tile(p, i, k);
            const int64_t at =
                tc + (t->halves ? leading(ub + (i - ia)) + t->u_halves : t->u - t->u_halves);
            if (t->kind == TLR_DENSE)
                TRY(s->w->be->gather(s->w->ctx, BACKEND_S, s->v, t->rank, NULL, NULL,
                                     s->t + at * s->v, s->v, 1, s->x + s->l->cols->first[k] * s->v,
                                     s->v));
        }
done:
    return st;
}

/* X_p -= X below L. */
static status backward(job *s, int64_t ia, int64_t ib, place *ub, place *vb) {
    const panel *p = s->p;
    int64_t tc = 0, zc = 0;
    status st;
    TRY(tlr_work_fork(s->w));
    for (int64_t i = 0; i < ib - ia; i++) {
        const int64_t at = s->l->rows->first[ia + i] - s->l->rows->first[ia];
        tlr_work_turn(s->w);
        TRY(first_product(s, ub + i, at, -ldexp(1, -s->ex - s->eu), s->t + tc * s->v));
        tc += ub[i].cols;
    }
    TRY(tlr_work_join(s->w));
    TRY(order_by_columns(s, ia, ib, ub, vb));
    TRY(add_dense(s, ia, ib, ub));
    for (int64_t k = p->c0; k < p->c1; k++) {
        const place *b = vb + (k - p->c0);
        TRY(product_of(s, 'T', b->rows, inner(s, b), ldexp(1, -s->et - s->ev), s->z + zc * s->ldv,
                       s->beside + b->to, b->ld, 1, s->x + s->l->cols->first[k] * s->v));
        zc += inner(s, b);
    }
done:
    return st;
}

/* Tile rows ia .. ib of the super-panel in hand. */
static status some_rows(job *s, char form, int64_t ia, int64_t ib) {
    const panel *p = s->p;
    const bool ahead = form == 'T';
    const double b = (double)s->l->b;
    place *ub, *vb;
    int64_t cols = 0;
    void *t;
    status st;
    TRY(places_of(s, ia, ib, &ub, &vb));
    for (int64_t i = 0; i < ib - ia; i++)
        cols += ub[i].cols;
    if (cols == 0)
        goto done;
    TRY(tlr_store_typed(s->w, s->l, BACKEND_S, p - s->l->panel, ia, ib, -1));
    if (!ahead || !s->taken) /* forward X is the same for all rows */
        TRY(ahead ? take_x(s, s->l->cols, p->c0, p->c1) : take_x(s, s->l->rows, ia, ib));
    s->taken = true;
    s->eu = terms_exponent(p->most[0]);
    s->ev = terms_exponent(p->most[1]);
    s->et = terms_exponent(s->bound * fmax(1, b * p->most[ahead ? 1 : 0]));
    TRY(take_blocks(s, false, ia, ib, ub, !ahead, ahead ? &s->beside : &s->right));
    TRY(take_blocks(s, true, ia, ib, vb, ahead, ahead ? &s->right : &s->beside));
    TRY(tlr_work_typed(s->w, BUF_TURNED, BACKEND_S, s->v * cols, &t));
    s->t = t;
    TRY(room_of(s, BUF_SIDE, s->ldv * cols, &s->z));
    st = ahead ? forward(s, ia, ib, ub, vb) : backward(s, ia, ib, ub, vb);
done:
    free(ub), free(vb);
    return st;
}

/* Tile rows from ia on whose intermediate products fit in the memory, at least one. */
static int64_t rows_that_fit(const job *s, int64_t ia) {
    const panel *p = s->p;
    int64_t i = ia + 1, cols = p->ucols[ia - p->r0];
    for (; i < p->r1; i++) {
        cols += p->ucols[i - p->r0];
        if ((size_t)cols * (size_t)s->v * sizeof(double) > s->l->o.memory)
            break;
    }
    return i;
}

static status all_rows(job *s, char form) {
    status st = MOAO_OK;
    s->taken = false;
    for (int64_t ia = s->p->r0, ib; ia < s->p->r1; ia = ib) {
        ib = rows_that_fit(s, ia);
        TRY(some_rows(s, form, ia, ib));
    }
done:
    return st;
}

static status divide(job *s, char form) {
    const panel *p = s->p;
    const int64_t n = p->width;
    const float one = 1;
    const backend *be = s->w->be;
    status st;
    TRY(be->half->cast_to_single(s->w->ctx, n, n, p->diag, n, s->block, n));
    TRY(tlr_work_bytes(s->w, be->workspace(BACKEND_TRSM, BACKEND_S, s->v, n)));
    st = be->trsm(s->w->ctx, BACKEND_S, 'R', 'L', form, 'N', s->v, n, &one, s->block, n,
                  s->x + s->l->cols->first[p->c0] * s->v, s->v, s->w->work, s->w->lwork);
done:
    return st;
}

static status one_triangle(job *s, char form) {
    status st = MOAO_OK;
    for (int64_t q = 0; q < s->l->panels; q++) {
        s->p = s->l->panel + (form == 'T' ? q : s->l->panels - 1 - q);
        TRY(tlr_spread_next(s->w, s->l, s->p - s->l->panel));
        if (form == 'N')
            TRY(all_rows(s, form));
        TRY(divide(s, form));
        if (form == 'T')
            TRY(all_rows(s, form));
    }
done:
    return st;
}

status tlr_solve_terms(tlr_work *w, const tlr *l, char form, int64_t v, double *x, int64_t ldx) {
    const int64_t n = l->rows->n;
    int64_t widest = 0;
    job s = {
        .w = w, .l = l, .terms = l->terms, .of_halves = l->of_halves, .v = v, .ldv = terms_pad(v)};
    void *p;
    status st;
    if (n == 0 || v == 0)
        return MOAO_OK;
    for (int64_t q = 0; q < l->panels; q++)
        widest = largest(widest, l->panel[q].width);
    TRY(tlr_work_typed(w, BUF_PANEL, BACKEND_S, v * n, &p));
    s.x = p;
    TRY(tlr_work_typed(w, BUF_METRIC, BACKEND_S, widest * widest, &p));
    s.block = p;
    TRY(w->be->half->cast_to_single(w->ctx, v, n, x, ldx, s.x, v));
    if (form != 'N')
        TRY(one_triangle(&s, 'T'));
    if (form != 'T')
        TRY(one_triangle(&s, 'N'));
    st = w->be->half->cast_to_double(w->ctx, v, n, 1, s.x, v, 0, x, ldx);
done:
    return st;
}
