/* Solves from the right by products of halves in some terms (backend_terms.h): X := X L^-T,
 * X := X L^-1. X is in single precision all the way; what is below a super-panel's diagonal block,
 * nearly all of the work, is two products of halves for each tile row and tile column, with a
 * reordering between them; the diagonal blocks divide in single precision. Exponents are chosen by
 * the largest entry of the part of X in hand, for which the host waits, once a super-panel. */
#include "tlr/internal.h"

#include <math.h>

/* Parts of operands (backend_terms.h) for so many terms. */
static const char *const left_parts[] = {"", "h", "hh", "hrh"};
static const char *const right_parts[] = {"", "h", "rh", "rhh"};

/* U of a tile row, or V of a tile column: rows x cols numbers as they are kept, and where they lie
 * as an operand. */
typedef struct {
    int64_t from, rows, cols, to, ld;
} place;

typedef struct {
    tlr_work *w;
    const tlr *l;
    const panel *p;
    int terms;
    int64_t v, ldv; /* ldv: of halves */
    float *x;       /* v x n */
    float *block;   /* the diagonal block in hand */
    double bound;   /* |x| of what is multiplied */
    bool taken;     /* X of the super-panel is an operand */
    int ex, ev, eu, et;
    backend_f16 *left, *right, *beside; /* operands: X; what it meets first, and then */
    float *t;                           /* products of the first kind */
    backend_f16 *z;                     /* these as an operand */
} job;

static backend_f16 *halves(void *p) {
    return p;
}

/* --- operands --- */

static status room_of(job *s, int which, int64_t count, backend_f16 **p) {
    void *at;
    const status st = tlr_work_typed(s->w, which, BACKEND_S, (s->terms * count + 1) / 2, &at);
    *p = halves(at);
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

/* `n` blocks of U or V as right operands: beside each other, or stacked, for the terms of the inner
 * extent. */
static status take_blocks(job *s, int64_t n, place *block, bool stacked, int exponent, int64_t kept,
                          int which, backend_f16 **to) {
    int64_t *host, *there, most = 0, all = 0;
    terms_block *b;
    void *room;
    status st;
    TRY(tlr_work_indices(s->w, 6 * n, &host, &there));
    b = (terms_block *)(void *)host;
    for (int64_t e = 0; e < n; e++) {
        place *p = block + e;
        p->to = all;
        p->ld = terms_pad(stacked ? s->terms * p->rows : p->rows);
        b[e] = (terms_block){p->from, p->rows, p->cols,
                             p->to,   p->ld,   stacked ? p->rows : p->ld * p->cols};
        all += (stacked ? 1 : s->terms) * p->ld * p->cols;
        most = largest(most, p->rows * p->cols);
    }
    TRY(tlr_work_send(s->w, 6 * n, host, there));
    TRY(tlr_work_typed(s->w, which, BACKEND_S, (all + 1) / 2, &room));
    *to = halves(room);
    st = s->w->be->terms->blocks(s->w->ctx, right_parts[s->terms], n, (const terms_block *)there,
                                 most, exponent, (const float *)(const void *)s->p->kept + kept,
                                 *to);
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
        (*u)[i - ia] = (place){.from = p->ubegin[i - p->r0],
                               .rows = tlr_extent(s->l->rows, i),
                               .cols = p->ucols[i - p->r0]};
    for (int64_t k = p->c0; k < p->c1; k++) {
        const int64_t n = tlr_extent(s->l->cols, k), before = panel_vcol(p, ia, k);
        (*v)[k - p->c0] = (place){.from = p->vbegin[k - p->c0] + before * n,
                                  .rows = n,
                                  .cols = panel_vcol(p, ib, k) - before};
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

/* --- below a diagonal block --- */

/* Z: the columns of T in the order of tile rows (forward), of dense tiles those of X. */
static status order_by_rows(job *s, int64_t ia, int64_t ib, int64_t zc) {
    const panel *p = s->p;
    int64_t *host, *there, tc = 0;
    terms_column *c;
    status st;
    TRY(tlr_work_indices(s->w, 3 * zc, &host, &there));
    c = (terms_column *)(void *)host;
    for (int64_t k = p->c0; k < p->c1; k++) {
        int64_t base = 0;
        for (int64_t i = ia; i < ib; base += p->ucols[i - p->r0], i++) {
            const tlr_tile *t = panel_tile(p, i, k);
            const int64_t from = t->kind == TLR_DENSE
                                     ? -1 - s->l->cols->first[k]
                                     : tc + panel_vcol(p, i, k) - panel_vcol(p, ia, k);
            for (int64_t x = 0; x < t->rank; x++)
                c[base + t->u + x] =
                    (terms_column){t->kind == TLR_DENSE ? from - x : from + x,
                                   s->terms * base + t->u + x, p->ucols[i - p->r0]};
        }
        tc += panel_vcol(p, ib, k) - panel_vcol(p, ia, k);
    }
    TRY(tlr_work_send(s->w, 3 * zc, host, there));
    st = s->w->be->terms->columns(s->w->ctx, left_parts[s->terms], s->v, zc,
                                  (const terms_column *)there, s->et, s->t, s->v, s->x, s->v, s->z,
                                  s->ldv);
done:
    return st;
}

/* X below -= X_p L^T. */
static status forward(job *s, int64_t ia, int64_t ib, const place *ub, const place *vb) {
    const panel *p = s->p;
    const int64_t nk = p->c1 - p->c0, terms = s->terms;
    int64_t tc = 0, zc = 0;
    status st;
    for (int64_t k = 0; k < nk; k++) {
        const int64_t n = vb[k].rows, at = s->l->cols->first[p->c0 + k] - s->l->cols->first[p->c0];
        TRY(product_of(s, 'N', vb[k].cols, terms * n, ldexp(1, -s->ex - s->ev),
                       s->left + terms * at * s->ldv, s->right + vb[k].to, vb[k].ld, 0,
                       s->t + tc * s->v));
        tc += vb[k].cols;
    }
    for (int64_t i = 0; i < ib - ia; i++)
        zc += ub[i].cols;
    TRY(order_by_rows(s, ia, ib, zc));
    TRY(tlr_work_fork(s->w));
    zc = 0;
    for (int64_t i = 0; i < ib - ia; i++) {
        tlr_work_turn(s->w);
        TRY(product_of(s, 'T', ub[i].rows, terms * ub[i].cols, -ldexp(1, -s->et - s->eu),
                       s->z + terms * zc * s->ldv, s->beside + ub[i].to, ub[i].ld, 1,
                       s->x + s->l->rows->first[ia + i] * s->v));
        zc += ub[i].cols;
    }
    st = tlr_work_join(s->w);
done:
    return st;
}

/* Z: the columns of T in the order of tile columns (backward). */
static status order_by_columns(job *s, int64_t ia, int64_t ib, const place *vb) {
    const panel *p = s->p;
    int64_t *host, *there, tc = 0, zc = 0, at = 0;
    terms_column *c;
    status st;
    for (int64_t k = 0; k < p->c1 - p->c0; k++)
        zc += vb[k].cols;
    TRY(tlr_work_indices(s->w, 3 * zc, &host, &there));
    c = (terms_column *)(void *)host;
    for (int64_t i = ia; i < ib; i++) {
        int64_t base = 0;
        for (int64_t k = p->c0; k < p->c1; k++) {
            const tlr_tile *t = panel_tile(p, i, k);
            const int64_t r = vb[k - p->c0].cols,
                          before = panel_vcol(p, i, k) - panel_vcol(p, ia, k);
            for (int64_t x = 0; t->kind == TLR_LOWRANK && x < t->rank; x++)
                c[at++] = (terms_column){tc + t->u + x, s->terms * base + before + x, r};
            base += r;
        }
        tc += p->ucols[i - p->r0];
    }
    TRY(tlr_work_send(s->w, 3 * zc, host, there));
    st = s->w->be->terms->columns(s->w->ctx, left_parts[s->terms], s->v, at,
                                  (const terms_column *)there, s->et, s->t, s->v, NULL, 1, s->z,
                                  s->ldv);
done:
    return st;
}

/* What T holds of dense tiles is their part of X. */
static status add_dense(job *s, int64_t ia, int64_t ib) {
    const panel *p = s->p;
    int64_t tc = 0;
    status st = MOAO_OK;
    for (int64_t i = ia; i < ib; tc += p->ucols[i - p->r0], i++)
        for (int64_t k = p->c0; k < p->c1; k++) {
            const tlr_tile *t = panel_tile(p, i, k);
            if (t->kind == TLR_DENSE)
                TRY(s->w->be->gather(s->w->ctx, BACKEND_S, s->v, t->rank, NULL, NULL,
                                     s->t + (tc + t->u) * s->v, s->v, 1,
                                     s->x + s->l->cols->first[k] * s->v, s->v));
        }
done:
    return st;
}

/* X_p -= X below L. */
static status backward(job *s, int64_t ia, int64_t ib, const place *ub, const place *vb) {
    const panel *p = s->p;
    const int64_t terms = s->terms;
    int64_t tc = 0, zc = 0;
    status st;
    TRY(tlr_work_fork(s->w));
    for (int64_t i = 0; i < ib - ia; i++) {
        const int64_t m = ub[i].rows, at = s->l->rows->first[ia + i] - s->l->rows->first[ia];
        tlr_work_turn(s->w);
        TRY(product_of(s, 'N', ub[i].cols, terms * m, -ldexp(1, -s->ex - s->eu),
                       s->left + terms * at * s->ldv, s->right + ub[i].to, ub[i].ld, 0,
                       s->t + tc * s->v));
        tc += ub[i].cols;
    }
    TRY(tlr_work_join(s->w));
    TRY(order_by_columns(s, ia, ib, vb));
    TRY(add_dense(s, ia, ib));
    for (int64_t k = p->c0; k < p->c1; k++) {
        const place *b = vb + (k - p->c0);
        TRY(product_of(s, 'T', b->rows, terms * b->cols, ldexp(1, -s->et - s->ev),
                       s->z + terms * zc * s->ldv, s->beside + b->to, b->ld, 1,
                       s->x + s->l->cols->first[k] * s->v));
        zc += b->cols;
    }
done:
    return st;
}

/* Tile rows ia .. ib of the super-panel in hand. */
static status some_rows(job *s, char form, int64_t ia, int64_t ib) {
    const panel *p = s->p;
    const bool ahead = form == 'T';
    const int64_t nk = p->c1 - p->c0, ni = ib - ia;
    const double b = (double)s->l->b;
    place *ub, *vb;
    int64_t cols = 0;
    void *t;
    status st;
    TRY(places_of(s, ia, ib, &ub, &vb));
    for (int64_t i = 0; i < ni; i++)
        cols += ub[i].cols;
    if (cols == 0)
        goto done;
    if (!ahead || !s->taken) /* forward X is the same for all rows */
        TRY(ahead ? take_x(s, s->l->cols, p->c0, p->c1) : take_x(s, s->l->rows, ia, ib));
    s->taken = true;
    s->eu = terms_exponent(p->most[0]);
    s->ev = terms_exponent(p->most[1]);
    s->et = terms_exponent(s->bound * fmax(1, b * p->most[ahead ? 1 : 0]));
    TRY(take_blocks(s, ni, ub, !ahead, s->eu, 0, BUF_U, ahead ? &s->beside : &s->right));
    TRY(take_blocks(s, nk, vb, ahead, s->ev, p->kept_v, BUF_V, ahead ? &s->right : &s->beside));
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
    job s = {.w = w, .l = l, .terms = l->terms, .v = v, .ldv = terms_pad(v)};
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
