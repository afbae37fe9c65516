/* Products of tiles with many dense vectors, and what they lead to: apply, and triangular solves.
 * First the vectors of a tile column (or row) with all that stands side by side there, one large
 * product; then the results are put in the order of the other side, and a large product for each
 * tile row (or column) adds them up. */
#include "distributed.h"

#include <math.h>

typedef struct {
    tlr_work *w;
    const tlr *a;
    const panel *p;
    char side;
    int64_t v, ldx, ldy, ldz, ldt;
    double alpha;
    backend_type type; /* of the products */
    const void *x;     /* X from index x0 on, of that type */
    int64_t x0;
    double *y;
    void *z, *t; /* in the order of the first products, and of the second */
} job;

static double *at(char side, const double *p, int64_t i, int64_t ld) {
    return (double *)p + side_at(side, i, 0, ld);
}

/* The same of the products' type. */
static void *at_of(const job *s, const void *p, int64_t i, int64_t ld) {
    return (char *)p + side_at(s->side, i, 0, ld) * (int64_t)backend_size(s->type);
}

/* X from index i0 to i1, in the type of the products. */
static status take_x(job *s, int64_t i0, int64_t i1, const double *x, int64_t ldx) {
    const bool right = s->side == 'R';
    const int64_t n = i1 - i0;
    void *own;
    status st = MOAO_OK;
    s->x = x;
    s->ldx = ldx;
    if (s->type == BACKEND_D)
        return st;
    TRY(tlr_work_typed(s->w, BUF_PANEL, s->type, n * s->v, &own));
    s->x = own;
    s->x0 = i0;
    s->ldx = right ? s->v : n;
    st = s->w->be->fp16->cast_to_single(s->w->ctx, right ? s->v : n, right ? n : s->v,
                                        at(s->side, x, i0, ldx), ldx, own, s->ldx);
done:
    return st;
}

/* T := alpha X F, F rows x r: vectors r of T are made of `rows` vectors of X. */
static status first_product(job *s, double alpha, int64_t xi, const void *f, int64_t rows,
                            int64_t r, int64_t tc) {
    const void *x = at_of(s, s->x, xi - s->x0, s->ldx);
    void *t = at_of(s, s->t, tc, s->ldt);
    return s->side == 'R' ? tlr_full_gemm(s->w, s->type, 'N', 'N', s->v, r, rows, alpha, x, s->ldx,
                                          f, rows, 0, t, s->ldt)
                          : tlr_full_gemm(s->w, s->type, 'T', 'N', r, s->v, rows, alpha, f, rows, x,
                                          s->ldx, 0, t, s->ldt);
}

/* Y(yi ..) += alpha Z(zc ..) F^T, F rows x r. */
static status second_product(job *s, double alpha, int64_t zc, const void *f, int64_t rows,
                             int64_t r, int64_t yi) {
    const void *z = at_of(s, s->z, zc, s->ldz);
    double *y = at(s->side, s->y, yi, s->ldy);
    return s->side == 'R' ? tlr_add_product(s->w, s->type, BUF_PRODUCT, 'N', 'T', s->v, rows, r,
                                            alpha, z, s->ldz, f, rows, y, s->ldy)
                          : tlr_add_product(s->w, s->type, BUF_PRODUCT, 'N', 'N', rows, s->v, r,
                                            alpha, f, rows, z, s->ldz, y, s->ldy);
}

/* Z := vectors `list` [count, in the backend's memory] of T. */
static status reorder(job *s, const int64_t *list, int64_t count) {
    const bool right = s->side == 'R';
    if (count == 0)
        return MOAO_OK;
    return s->w->be->gather(s->w->ctx, s->type, right ? s->v : count, right ? count : s->v,
                            right ? NULL : list, right ? list : NULL, s->t, s->ldt, 0, s->z,
                            s->ldz);
}

/* Y over tile rows: T holds X V of all tiles of a column, Z of all tiles of a row (of a dense tile
 * X itself). */
static status over_rows(job *s, int64_t ia, int64_t ib) {
    const panel *p = s->p;
    const tlr_layout *rows = s->a->rows, *cols = s->a->cols;
    int64_t *list, *there, tc = 0, zc = 0;
    status st = MOAO_OK;
    for (int64_t i = ia; i < ib; i++)
        zc += p->ucols[i - p->r0];
    TRY(tlr_work_indices(s->w, zc, &list, &there));
    for (int64_t k = p->c0; k < p->c1; k++) {
        const int64_t r = panel_vcol(p, ib, k) - panel_vcol(p, ia, k);
        int64_t base = 0;
        TRY(first_product(s, 1, cols->first[k], typed_v(s->a, s->type, p, ia, k),
                          tlr_extent(cols, k), r, tc));
        for (int64_t i = ia; i < ib; base += p->ucols[i - p->r0], i++) {
            const tlr_tile *t = panel_tile(p, i, k);
            for (int64_t c = 0; c < t->rank; c++) /* of a dense tile nothing is used */
                list[base + t->u + c] = t->kind == TLR_LOWRANK
                                            ? tc + panel_vcol(p, i, k) - panel_vcol(p, ia, k) + c
                                            : 0;
        }
        tc += r;
    }
    TRY(tlr_work_send(s->w, zc, list, there));
    TRY(reorder(s, there, tc > 0 ? zc : 0));
    if (s->type == BACKEND_D) /* sums in FP32 share a buffer */
        TRY(tlr_work_fork(s->w));
    zc = 0;
    for (int64_t i = ia; i < ib; i++) {
        const int64_t r = p->ucols[i - p->r0];
        if (s->type == BACKEND_D)
            tlr_work_turn(s->w);
        for (int64_t k = p->c0; k < p->c1; k++) {
            const int64_t n = tlr_extent(cols, k);
            const bool right = s->side == 'R';
            if (panel_tile(p, i, k)->kind == TLR_DENSE)
                TRY(tlr_full_copy(s->w, s->type, right ? s->v : n, right ? n : s->v,
                                  at_of(s, s->x, cols->first[k] - s->x0, s->ldx), s->ldx,
                                  at_of(s, s->z, zc + panel_tile(p, i, k)->u, s->ldz), s->ldz));
        }
        TRY(second_product(s, s->alpha, zc, typed_u(s->a, s->type, p, i, p->c0),
                           tlr_extent(rows, i), r, rows->first[i]));
        zc += r;
    }
    st = tlr_work_join(s->w);
done:
    return st;
}

/* Y over tile columns: what T holds of dense tiles. */
static status add_dense(job *s, int64_t ia, int64_t ib) {
    const panel *p = s->p;
    const bool right = s->side == 'R';
    int64_t tc = 0;
    status st = MOAO_OK;
    for (int64_t i = ia; i < ib; tc += p->ucols[i - p->r0], i++)
        for (int64_t k = p->c0; k < p->c1; k++) {
            const tlr_tile *t = panel_tile(p, i, k);
            const int64_t n = tlr_extent(s->a->cols, k);
            const int64_t mt = right ? s->v : n, nt = right ? n : s->v;
            const void *part = at_of(s, s->t, tc + t->u, s->ldt);
            double *y = at(s->side, s->y, s->a->cols->first[k], s->ldy);
            if (t->kind == TLR_DENSE && s->type == BACKEND_S)
                TRY(s->w->be->fp16->cast_to_double(s->w->ctx, mt, nt, 1, part, s->ldt, 1, y,
                                                   s->ldy));
            else if (t->kind == TLR_DENSE)
                TRY(s->w->be->gather(s->w->ctx, BACKEND_D, mt, nt, NULL, NULL, part, s->ldt, 1, y,
                                     s->ldy));
        }
done:
    return st;
}

/* Y over tile columns: T holds alpha X U of all tiles of a row, which for a dense tile is its part
 * of Y; Z the others of all tiles of a column. */
static status over_columns(job *s, int64_t ia, int64_t ib) {
    const panel *p = s->p;
    const tlr_layout *rows = s->a->rows, *cols = s->a->cols;
    int64_t *list, *there, tc = 0, zc = 0;
    status st = MOAO_OK;
    for (int64_t k = p->c0; k < p->c1; k++)
        zc += panel_vcol(p, ib, k) - panel_vcol(p, ia, k);
    TRY(tlr_work_indices(s->w, zc, &list, &there));
    TRY(tlr_work_fork(s->w));
    for (int64_t i = ia; i < ib; i++) {
        const int64_t r = p->ucols[i - p->r0];
        int64_t base = 0;
        tlr_work_turn(s->w);
        TRY(first_product(s, s->alpha, rows->first[i], typed_u(s->a, s->type, p, i, p->c0),
                          tlr_extent(rows, i), r, tc));
        for (int64_t k = p->c0; k < p->c1; k++) {
            const tlr_tile *t = panel_tile(p, i, k);
            const int64_t before = panel_vcol(p, ia, k);
            for (int64_t c = 0; t->kind == TLR_LOWRANK && c < t->rank; c++)
                list[base + panel_vcol(p, i, k) - before + c] = tc + t->u + c;
            base += panel_vcol(p, ib, k) - before;
        }
        tc += r;
    }
    TRY(tlr_work_join(s->w));
    TRY(tlr_work_send(s->w, zc, list, there));
    TRY(reorder(s, there, zc));
    TRY(add_dense(s, ia, ib));
    if (s->type == BACKEND_D)
        TRY(tlr_work_fork(s->w));
    zc = 0;
    for (int64_t k = p->c0; k < p->c1; k++) {
        const int64_t r = panel_vcol(p, ib, k) - panel_vcol(p, ia, k);
        if (s->type == BACKEND_D)
            tlr_work_turn(s->w);
        TRY(second_product(s, 1, zc, typed_v(s->a, s->type, p, ia, k), tlr_extent(cols, k), r,
                           cols->first[k]));
        zc += r;
    }
    st = tlr_work_join(s->w);
done:
    return st;
}

/* Columns of U in tile rows ia .. ib of a block column. */
static int64_t columns(const panel *p, int64_t ia, int64_t ib) {
    int64_t c = 0;
    for (int64_t i = ia; i < ib; i++)
        c += p->ucols[i - p->r0];
    return c;
}

status tlr_side_product(tlr_work *w, const tlr *a, int64_t q, int64_t ia, int64_t ib, char side,
                        char trans, int64_t v, double alpha, const double *x, int64_t ldx,
                        double *y, int64_t ldy) {
    job s = {.w = w,
             .a = a,
             .p = a->panel + q,
             .side = side,
             .v = v,
             .ldy = ldy,
             .alpha = alpha,
             .type = tlr_type(a),
             .y = y};
    const int64_t cols = columns(s.p, ia, ib);
    status st = MOAO_OK;
    if (cols == 0 || v == 0)
        return MOAO_OK;
    s.ldz = s.ldt = side == 'R' ? v : cols;
    TRY(tlr_store_typed(w, a, s.type, q, ia, ib, trans == 'T' ? q + 1 : q - 1));
    TRY(trans == 'T' ? take_x(&s, a->cols->first[s.p->c0], a->cols->first[s.p->c1], x, ldx)
                     : take_x(&s, a->rows->first[ia], a->rows->first[ib], x, ldx));
    TRY(tlr_work_typed(w, BUF_SIDE, s.type, v * cols, &s.z));
    TRY(tlr_work_typed(w, BUF_TURNED, s.type, v * cols, &s.t));
    st = trans == 'T' ? over_rows(&s, ia, ib) : over_columns(&s, ia, ib);
done:
    return st;
}

/* Vectors to take at a time so that intermediate products stay within the memory. */
static int64_t chunk(const tlr *a, int64_t v) {
    int64_t cols = 1;
    for (int64_t q = 0; q < a->panels; q++) {
        const panel *p = a->panel + q;
        for (int64_t i = p->r0; i < p->r1; i += a->step)
            cols = largest(cols, columns(p, i, least(i + a->step, p->r1)));
    }
    return largest(1, least(v, (int64_t)(a->o.memory / sizeof(double)) / cols));
}

static int64_t chunks(const tlr *a, int64_t v) {
    const int64_t step = chunk(a, v);
    return (v + step - 1) / step;
}

/* Tile rows from ia on whose intermediate products fit in the memory, at least one. */
static int64_t rows_that_fit(const tlr *a, const panel *p, int64_t v, int64_t ia) {
    int64_t i = ia + 1, cols = columns(p, ia, i);
    for (; i < p->r1; i++) {
        cols += p->ucols[i - p->r0];
        if ((size_t)cols * (size_t)v * sizeof(double) > a->o.memory)
            break;
    }
    return i;
}

/* All of block column q, as many tile rows at a time as memory allows. */
static status panel_product(tlr_work *w, const tlr *a, int64_t q, char side, char trans, int64_t v,
                            double alpha, const double *x, int64_t ldx, double *y, int64_t ldy) {
    const panel *p = a->panel + q;
    status st = MOAO_OK;
    for (int64_t i = p->r0, end; i < p->r1 && st == MOAO_OK; i = end) {
        end = rows_that_fit(a, p, v, i);
        st = tlr_side_product(w, a, q, i, end, side, trans, v, alpha, x, ldx, y, ldy);
    }
    return st;
}

static char flip(char trans) {
    return trans == 'T' ? 'N' : 'T';
}

/* X and Y with a factor's block on the diagonal, of which the triangle alone is there. */
static status triangle_product(tlr_work *w, const panel *p, char side, char form, int64_t v,
                               double alpha, const double *x, int64_t ldx, double *y, int64_t ldy) {
    const bool right = side == 'R';
    const int64_t rows = right ? v : p->width, cols = right ? p->width : v, ld = largest(rows, 1);
    double *part;
    status st;
    TRY(tlr_work_room(w, BUF_TURNED, rows * cols, &part));
    TRY(tlr_dense_copy(w, rows, cols, x, ldx, part, ld));
    TRY(tlr_dense_trmm(w, side, right ? form : flip(form), rows, cols, alpha, p->diag, p->width,
                       part, ld));
    st = w->be->gather(w->ctx, BACKEND_D, rows, cols, NULL, NULL, part, ld, 1, y, ldy);
done:
    return st;
}

/* X and Y with the diagonal block of block column q, in a form as of tlr_side_product. */
static status diagonal_product(tlr_work *w, const tlr *a, int64_t q, char side, char form,
                               int64_t v, double alpha, const double *x, int64_t ldx, double *y,
                               int64_t ldy) {
    const panel *p = a->panel + q;
    const int64_t n = p->width, from = a->cols->first[p->c0];
    x = at(side, x, from, ldx);
    y = at(side, y, from, ldy);
    if (a->factor)
        return triangle_product(w, p, side, form, v, alpha, x, ldx, y, ldy);
    return side == 'R'
               ? tlr_dense_gemm(w, 'N', form, v, n, n, alpha, x, ldx, p->diag, n, 1, y, ldy)
               : tlr_dense_gemm(w, flip(form), 'N', n, v, n, alpha, p->diag, n, x, ldx, 1, y, ldy);
}

static status apply_chunk(tlr_work *w, const tlr *a, char side, char form, int64_t v, double alpha,
                          const double *x, int64_t ldx, double *y, int64_t ldy) {
    status st = MOAO_OK;
    for (int64_t q = 0; q < a->panels; q++) {
        TRY(tlr_distributed_next(w, a, q));
        TRY(panel_product(w, a, q, side, form, v, alpha, x, ldx, y, ldy));
        if (a->symmetric && !a->factor)
            TRY(panel_product(w, a, q, side, flip(form), v, alpha, x, ldx, y, ldy));
        if (a->symmetric)
            TRY(diagonal_product(w, a, q, side, form, v, alpha, x, ldx, y, ldy));
    }
done:
    return st;
}

static status apply_all(tlr_work *w, const tlr *a, char side, char form, int64_t v, double alpha,
                        const double *x, int64_t ldx, double *y, int64_t ldy) {
    status st = MOAO_OK;
    for (int64_t r = 0, step = chunk(a, v); r < v && st == MOAO_OK; r += step)
        st = apply_chunk(w, a, side, form, least(step, v - r), alpha, x + side_at(side, 0, r, ldx),
                         ldx, y + side_at(side, 0, r, ldy), ldy);
    return st;
}

static bool is_letter(char c, const char *set) {
    return c != 0 && strchr(set, c) != NULL;
}

status tlr_apply(const tlr *a, char side, char trans, int64_t v, double alpha, const double *x,
                 int64_t ldx, double beta, double *y, int64_t ldy) {
    const char form = side == 'R' ? trans : flip(trans);
    const int64_t out = form == 'T' ? a->rows->n : a->cols->n,
                  in = form == 'T' ? a->cols->n : a->rows->n;
    tlr_work w;
    status st;
    if (!is_letter(side, "LR") || !is_letter(trans, "NT") || v < 0 ||
        ldx < (side == 'R' ? largest(v, 1) : largest(in, 1)) ||
        ldy < (side == 'R' ? largest(v, 1) : largest(out, 1)))
        return status_fail(MOAO_INPUT, "tlr_apply: an argument is out of range");
    tlr_work_open(&w, a->be, a->ctx);
    TRY(side == 'R' ? tlr_dense_scale(&w, v, out, beta, y, ldy)
                    : tlr_dense_scale(&w, out, v, beta, y, ldy));
    if (alpha != 0) {
        TRY(tlr_distributed_begin(&w, a, tlr_type(a), chunks(a, v), "T", a->panels));
        st = apply_all(&w, a, side, form, v, alpha, x, ldx, y, ldy);
        TRY(tlr_distributed_end(&w, a, st));
    }
    TRY(a->be->sync(a->ctx));
done:
    tlr_work_close(&w);
    return st;
}

/* X := X L^-T in form 'T', X L^-1 in form 'N' (side L: their transposes). */
static status solve_chunk(tlr_work *w, const tlr *l, char side, char form, int64_t v, double *x,
                          int64_t ldx) {
    status st = MOAO_OK;
    for (int64_t s = 0; s < l->panels; s++) {
        const int64_t p = form == 'T' ? s : l->panels - 1 - s;
        const panel *here = l->panel + p;
        TRY(tlr_distributed_next(w, l, p));
        if (form == 'N')
            TRY(panel_product(w, l, p, side, 'N', v, -1, x, ldx, x, ldx));
        TRY(tlr_dense_trsm(w, side, side == 'R' ? form : flip(form), side == 'R' ? v : here->width,
                           side == 'R' ? here->width : v, here->diag, here->width,
                           at(side, x, l->cols->first[here->c0], ldx), ldx));
        if (form == 'T')
            TRY(panel_product(w, l, p, side, 'T', v, -1, x, ldx, x, ldx));
    }
done:
    return st;
}

void tlr_set_split(tlr *l, int terms, int of_fp16) {
    if (tlr_takes_split(l))
        l->terms = terms < 0 ? 0 : terms > 3 ? 3 : terms;
    l->of_fp16 = l->terms < 3 || of_fp16 == 1 ? 1 : 2;
}

/* With one triangle, or both: 'A'. */
static status solve_all(tlr_work *w, const tlr *l, char side, char form, int64_t v, double *x,
                        int64_t ldx) {
    status st = MOAO_OK;
    for (int64_t r = 0, step = chunk(l, v); r < v; r += step) {
        const int64_t here = least(step, v - r);
        double *part = x + side_at(side, 0, r, ldx);
        if (side == 'R' && l->terms > 0) {
            TRY(tlr_solve_split(w, l, form, here, part, ldx));
            continue;
        }
        if (form != 'N')
            TRY(solve_chunk(w, l, side, 'T', here, part, ldx));
        if (form != 'T')
            TRY(solve_chunk(w, l, side, 'N', here, part, ldx));
    }
done:
    return st;
}

status tlr_solve(const tlr *l, char side, char job, int64_t v, double *x, int64_t ldx) {
    tlr_work *const w = l->solving;
    status st = MOAO_OK;
    if (!is_letter(side, "LR") || !is_letter(job, "NTA") || v < 0 || !l->factor ||
        ldx < (side == 'R' ? largest(v, 1) : largest(l->rows->n, 1)))
        return status_fail(MOAO_INPUT, "tlr_solve: an argument is out of range");
    const char form = job == 'A' || side == 'R' ? job : flip(job);
    const backend_type type = side == 'R' && l->terms > 0 ? BACKEND_S : tlr_type(l);
    if (!w->be)
        tlr_work_open(w, l->be, l->ctx);
    TRY(tlr_distributed_begin(w, l, type, chunks(l, v),
                              form == 'A'   ? "TN"
                              : form == 'T' ? "T"
                                            : "N",
                              l->panels));
    st = solve_all(w, l, side, form, v, x, ldx);
    TRY(tlr_distributed_end(w, l, st));
    TRY(l->be->sync(l->ctx));
    tlr_work_rest(w);
    return MOAO_OK;
done:
    tlr_work_close(w);
    return st;
}

status tlr_diagonal_of(const tlr *l, double *host) {
    const int64_t e = sizeof(double);
    status st = MOAO_OK;
    for (int64_t q = 0; q < l->panels; q++) {
        const panel *p = l->panel + q;
        TRY(l->be->copy(l->ctx, host + l->cols->first[p->c0], e, p->diag, e * (p->width + 1), e,
                        p->width));
    }
    st = l->be->sync(l->ctx);
done:
    return st;
}

status tlr_logdet(const tlr *l, double *logdet) {
    double *host = NULL, sum = 0;
    status st;
    if (!l->factor)
        return status_fail(MOAO_INPUT, "tlr_logdet: the matrix is not a factor");
    TRY(ALLOC(host, (size_t)l->rows->n, "diagonal of a factor"));
    TRY(tlr_diagonal_of(l, host));
    for (int64_t i = 0; i < l->rows->n; i++)
        sum += log(host[i]);
    *logdet = 2 * sum;
done:
    free(host);
    return st;
}
