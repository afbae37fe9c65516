/* Matrices from their entries, copies, and the dense form. */
#include "distributed.h"

static status build_panel(tlr_work *w, tlr *a, int64_t q, tlr_fill *fill, void *arg) {
    const panel *p = a->panel + q;
    const int64_t rows = panel_rows(a, q), below = a->symmetric ? p->width : 0;
    double *d;
    status st;
    TRY(tlr_work_room(w, BUF_PANEL, rows * p->width, &d));
    if (rows * p->width > 0)
        TRY(fill(arg, panel_row(a, q), rows, a->cols->first[p->c0], p->width, d, rows));
    TRY(tlr_compress_panel(w, a, q, d + below, largest(rows, 1), d + below, largest(rows, 1)));
    if (a->symmetric)
        TRY(tlr_dense_copy(w, p->width, p->width, d, rows, p->diag, p->width));
done:
    return st;
}

status tlr_build(const backend *be, backend_ctx *ctx, const tlr_layout *rows,
                 const tlr_layout *cols, tlr_fill *fill, void *arg, const tlr_options *o,
                 tlr **out) {
    tlr_work w;
    tlr *a = NULL;
    status st;
    tlr_work_open(&w, be, ctx);
    TRY(tlr_new(be, ctx, rows, cols ? cols : rows, cols == NULL, o, &a));
    for (int64_t q = 0; q < a->panels; q++)
        TRY(build_panel(&w, a, q, fill, arg));
    TRY(be->sync(ctx));
done:
    tlr_work_close(&w);
    if (st != MOAO_OK) {
        tlr_close(a);
        a = NULL;
    }
    *out = a;
    return st;
}

/* Copies into a matrix whose tiles have their kinds and ranks. */
static status copy_tile(tlr_work *w, const tlr *from, const panel *p, int64_t i, int64_t k, tlr *to,
                        const panel *q, bool turn, const double *identity) {
    const tlr_tile *t = panel_tile(p, i, k);
    const int64_t m = tlr_extent(from->rows, i), n = tlr_extent(from->cols, k), ti = turn ? k : i,
                  tk = turn ? i : k;
    double *u = panel_u(to, q, ti, tk), *v = panel_v(to, q, ti, tk);
    status st = MOAO_OK;
    if (t->kind == TLR_DENSE && turn) {
        TRY(tlr_dense_gemm(w, 'T', 'N', n, m, m, 1, panel_u(from, p, i, k), m, identity,
                           w->identity, 0, u, n));
    } else if (t->kind == TLR_DENSE) {
        TRY(tlr_dense_copy(w, m, n, panel_u(from, p, i, k), m, u, m));
    } else if (t->kind == TLR_LOWRANK) {
        TRY(tlr_dense_copy(w, m, t->rank, panel_u(from, p, i, k), m, turn ? v : u, m));
        TRY(tlr_dense_copy(w, n, t->rank, panel_v(from, p, i, k), n, turn ? u : v, n));
    }
done:
    return st;
}

static status copy_panel(tlr_work *w, const tlr *a, tlr *to, int64_t q, bool turn,
                         const double *identity) {
    panel *p = to->panel + q;
    status st;
    for (int64_t i = p->r0; i < p->r1; i++)
        for (int64_t k = p->c0; k < p->c1; k++) {
            tlr_tile *t = panel_tile(p, i, k);
            *t = turn ? *panel_tile(panel_of(a, i), k, i) : *panel_tile(a->panel + q, i, k);
            if (turn && t->kind == TLR_DENSE)
                t->rank = (int32_t)tlr_extent(a->rows, k);
        }
    TRY(tlr_panel_reserve(to, q));
    TRY(tlr_store_fetch(w, a, q, -1)); /* of a factor, which is not turned */
    for (int64_t i = p->r0; i < p->r1; i++)
        for (int64_t k = p->c0; k < p->c1; k++)
            TRY(copy_tile(w, a, turn ? panel_of(a, i) : a->panel + q, turn ? k : i, turn ? i : k,
                          to, p, turn, identity));
    if (a->symmetric)
        TRY(tlr_dense_copy(w, p->width, p->width, a->panel[q].diag, p->width, p->diag, p->width));
    TRY(tlr_store_panel(w, NULL, to, q));
done:
    return st;
}

status tlr_copy(const tlr *a, char trans, tlr **out) {
    const bool turn = trans == 'T';
    double *identity = NULL;
    tlr_work w;
    tlr *c = NULL;
    status st;
    *out = NULL;
    tlr_work_open(&w, a->be, a->ctx);
    if (a->spread)
        st = status_fail(MOAO_INPUT, "copy of a factor that is distributed over members");
    else if ((!turn && trans != 'N') || (turn && a->symmetric))
        st = status_fail(MOAO_INPUT, "copy of a tile low-rank matrix: letter %c", trans);
    else
        st = tlr_new(a->be, a->ctx, turn ? a->cols : a->rows, turn ? a->rows : a->cols,
                     a->symmetric, &a->o, &c);
    if (st == MOAO_OK && turn)
        st = tlr_work_identity(&w, a->b, &identity);
    if (st == MOAO_OK)
        c->factor = a->factor;
    for (int64_t q = 0; st == MOAO_OK && q < c->panels; q++)
        st = copy_panel(&w, a, c, q, turn, identity);
    if (st == MOAO_OK)
        st = a->be->sync(a->ctx);
    tlr_work_close(&w);
    if (st != MOAO_OK)
        tlr_close(c);
    else
        *out = c;
    return st;
}

static status expand_all(tlr_work *w, const tlr *a, double *dense, int64_t ld) {
    status st = MOAO_OK;
    for (int64_t q = 0; q < a->panels; q++) {
        const int64_t col = a->cols->first[a->panel[q].c0], row = panel_row(a, q);
        TRY(tlr_distributed_next(w, a, q));
        if (a->factor && row > 0)
            TRY(tlr_dense_scale(w, row, a->panel[q].width, 0, dense + col * ld, ld));
        TRY(tlr_expand_panel(w, a, q, 1, dense + row + col * ld, ld));
    }
done:
    return st;
}

status tlr_expand(const tlr *a, double *dense, int64_t ld) {
    tlr_work w;
    status st = MOAO_OK;
    tlr_work_open(&w, a->be, a->ctx);
    TRY(tlr_distributed_begin(&w, a, BACKEND_D, 1, "T", a->panels));
    st = expand_all(&w, a, dense, ld);
    TRY(tlr_distributed_end(&w, a, st));
    if (a->symmetric && !a->factor)
        TRY(a->be->mirror(a->ctx, BACKEND_D, 'L', a->rows->n, dense, ld));
    TRY(a->be->sync(a->ctx));
done:
    tlr_work_close(&w);
    return st;
}
