/* What the updates have in common: products with V of all tiles of a tile column, for all tile
 * columns of a super-panel in one call on a device, which one of them would not fill unless tiles
 * are large. */
#include "tlr/update.h"

#define PIECE 64 /* columns of a product on a device */

/* C := op(A) B, C m x n, to the list in pieces; C from column `to` on of c. */
static void list_pieces(backend_type t, bool turned, int64_t m, int64_t n, int64_t k, const void *a,
                        int64_t lda, const void *b, int64_t ldb, void *c, int64_t to,
                        scatter_list *l) {
    for (int64_t x = 0; m > 0 && x < n; x += PIECE) {
        const int64_t cols = least(PIECE, n - x);
        l->p[l->count++] =
            (batch_scatter){a, tlr_at(t, b, x * ldb), c, lda, ldb, m, cols, k, to + x, turned};
    }
}

static int64_t pieces(int64_t n) {
    return (n + PIECE - 1) / PIECE;
}

static void columns_as_they_are(int64_t n, scatter_list *l) {
    for (; l->columns < n; l->columns++)
        l->column[l->columns] = l->columns;
}

static int64_t v_columns(const panel *p, int64_t i0, int64_t i1, int64_t j) {
    return panel_vcol(p, i1, j) - panel_vcol(p, i0, j);
}

/* On a device a dense tile's product is cut in pieces: it has so many operations that a block with
 * all of its columns would be the last one by far. */
static void list_left(const tlr_work *w, backend_type type, const tlr_span *s, int64_t i, int64_t j,
                      int64_t cols, const void *core, int64_t ldcore, void *c, int64_t first,
                      scatter_list *l) {
    const panel *p = s->a->panel + s->q;
    const tlr_tile *tile = panel_tile(p, i, j);
    const bool dense = tile->kind == TLR_DENSE; /* an empty one: zeros */
    const int64_t m = tlr_extent(s->a->rows, i), n = tlr_extent(s->a->cols, j),
                  ldb = dense ? n : ldcore, step = dense && w->ctx ? PIECE : cols;
    const void *a = typed_u(s->a, type, p, i, j),
               *b = dense ? typed_v(s->b, type, s->b->panel + s->q, s->ka, j)
                          : tlr_at(type, core, panel_vcol(p, i, j) - panel_vcol(p, s->ia, j));
    for (int64_t x = 0; x < cols; x += step)
        l->p[l->count++] = (batch_scatter){a, tlr_at(type, b, x * ldb), c,          m,         ldb,
                                           m, least(step, cols - x),    tile->rank, first + x, 0};
}

void tlr_list_left(const tlr_work *w, backend_type type, const tlr_span *s, int64_t j, int64_t cols,
                   const void *core, int64_t ldcore, void *t, int64_t first, scatter_list *l) {
    for (const tlr_strip *x = s->strip; x < s->strip + s->strips; x++) {
        char *c = (char *)t + x->at * (int64_t)backend_size(type);
        for (int64_t i = x->h0; i < x->h1; i++) {
            list_left(w, type, s, i, j, cols, core, ldcore, c, first, l);
            c += tlr_extent(s->a->rows, i) * (int64_t)backend_size(type);
        }
    }
}

int64_t tlr_count_left(const tlr_span *s) {
    const panel *pa = s->a->panel + s->q, *pb = s->b->panel + s->q;
    int64_t n = 0;
    for (int64_t j = pa->c0; j < pa->c1; j++)
        for (const tlr_strip *x = s->strip; x < s->strip + s->strips; x++)
            for (int64_t i = x->h0; i < x->h1; i++)
                n += tlr_is_dense(pa, i, j) ? pieces(v_columns(pb, s->ka, s->kb, j)) : 1;
    return n;
}

status tlr_common_parts(tlr_work *w, backend_type t, const tlr_span *x, void **core, int64_t *ld) {
    const panel *pa = x->a->panel + x->q, *pb = x->b->panel + x->q;
    int64_t all = 0, count = 0, at = 0, most = 0;
    /* where there are few tile columns they are wide, and products of their own better */
    const bool listed = w->ctx && pa->c1 - pa->c0 > TLR_FEW_COLUMNS;
    scatter_list list = {0};
    status st;
    *ld = 1;
    for (int64_t j = pa->c0; j < pa->c1; j++) {
        *ld = largest(*ld, v_columns(pa, x->ia, x->ib, j));
        all += v_columns(pb, x->ka, x->kb, j);
        count += x->strips * pieces(v_columns(pb, x->ka, x->kb, j));
        for (const tlr_strip *s = x->strip; s < x->strip + x->strips; s++)
            most = largest(most, v_columns(pa, s->h0, s->h1, j));
    }
    TRY(tlr_work_typed(w, BUF_CORE, t, *ld * all, core));
    if (listed) {
        TRY(tlr_scatter_open(w, count, all, &list));
        columns_as_they_are(all, &list);
    } else {
        TRY(tlr_work_fork(w));
    }
    for (int64_t j = pa->c0; j < pa->c1; j++) {
        const int64_t n = v_columns(pb, x->ka, x->kb, j), k = tlr_extent(x->a->cols, j);
        const void *vb = typed_v(x->b, t, pb, x->ka, j);
        for (const tlr_strip *s = x->strip; s < x->strip + x->strips; s++) {
            const int64_t m = v_columns(pa, s->h0, s->h1, j);
            const void *va = typed_v(x->a, t, pa, s->h0, j);
            char *c = (char *)*core + v_columns(pa, x->ia, s->h0, j) * (int64_t)backend_size(t);
            if (listed) {
                list_pieces(t, true, m, n, k, va, k, vb, k, c, at, &list);
                continue;
            }
            tlr_work_turn(w);
            TRY(tlr_full_gemm(w, t, 'T', 'N', m, n, k, 1, va, k, vb, k, 0,
                              c + at * *ld * (int64_t)backend_size(t), *ld));
        }
        at += n;
    }
    st = listed ? tlr_scatter_run(w, &list, t, most, *ld) : tlr_work_join(w);
done:
    return st;
}

status tlr_dense_parts(tlr_work *w, backend_type t, const tlr_span *x, int64_t k0, int64_t k1,
                       void *to) {
    const panel *pa = x->a->panel + x->q, *pb = x->b->panel + x->q;
    const int64_t ld = x->b->b;
    int64_t most = 0, count = 0, at = 0;
    scatter_list list = {0};
    status st = MOAO_OK;
    for (int64_t k = k0; k < k1; k++)
        for (int64_t j = pb->c0; j < pb->c1; j++)
            if (tlr_is_dense(pb, k, j)) {
                most = largest(most, v_columns(pa, x->ia, x->ib, j));
                count += x->strips + pieces(v_columns(pa, x->ia, x->ib, j));
            }
    if (w->ctx) {
        TRY(tlr_scatter_open(w, count, most, &list));
        columns_as_they_are(most, &list);
    }
    for (int64_t k = k0; k < k1; k++)
        for (int64_t j = pb->c0; j < pb->c1; j++) {
            const int64_t m = tlr_extent(x->b->rows, k), inner = tlr_extent(x->a->cols, j);
            char *const c = (char *)to + at * ld * (int64_t)backend_size(t);
            const void *d = typed_u(x->b, t, pb, k, j);
            if (!tlr_is_dense(pb, k, j))
                continue;
            for (const tlr_strip *s = x->strip; s < x->strip + x->strips; s++) {
                const int64_t n = v_columns(pa, s->h0, s->h1, j),
                              first = v_columns(pa, x->ia, s->h0, j);
                const void *v = typed_v(x->a, t, pa, s->h0, j);
                if (w->ctx)
                    list_pieces(t, false, m, n, inner, d, m, v, inner, c, first, &list);
                else
                    TRY(tlr_full_gemm(w, t, 'N', 'N', m, n, inner, 1, d, m, v, inner, 0,
                                      c + first * ld * (int64_t)backend_size(t), ld));
            }
            at += v_columns(pa, x->ia, x->ib, j);
        }
    if (w->ctx)
        st = tlr_scatter_run(w, &list, t, ld, ld);
done:
    return st;
}
