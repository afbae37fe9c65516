/* What the updates have in common: products with V of all tiles of a tile column, for all tile
 * columns of a block column in one call on a device, which one of them would not fill unless tiles
 * are large. */
#include "update.h"

/* C := op(A) B, C m x n, to the list in pieces; C from column `to` on of c. */
static void list_pieces(backend_type t, bool turned, int64_t m, int64_t n, int64_t k, const void *a,
                        int64_t lda, const void *b, int64_t ldb, void *c, int64_t to,
                        scatter_list *l) {
    for (int64_t x = 0; m > 0 && x < n; x += TLR_PIECE) {
        const int64_t cols = least(TLR_PIECE, n - x);
        l->p[l->count++] =
            (batch_scatter){a, tlr_at(t, b, x * ldb), c, lda, ldb, m, cols, k, to + x, turned};
    }
}

/* Up to where all tile rows from i on are current. */
static int64_t end_in_hand(const tlr_span *s, int64_t i) {
    for (const tlr_strip *x = s->strip; x < s->strip + s->strips; x++)
        i = x->h0 <= i && i < x->h1 ? x->h1 : i;
    return i;
}

status tlr_span_fetch(tlr_work *w, backend_type t, const tlr_span *s) {
    status st;
    for (int64_t i = tlr_span_next(s, s->ia), end; i < s->ib; i = tlr_span_next(s, end)) {
        end = end_in_hand(s, i);
        TRY(tlr_store_typed(w, s->a, t, s->q, i, end, -1));
    }
    st = tlr_store_typed(w, s->b, t, s->q, s->ka, s->kb, -1);
done:
    return st;
}

static void columns_as_they_are(int64_t n, scatter_list *l) {
    for (; l->columns < n; l->columns++)
        l->column[l->columns] = l->columns;
}

static int64_t v_columns(const panel *p, int64_t i0, int64_t i1, int64_t j) {
    return panel_vcol(p, i1, j) - panel_vcol(p, i0, j);
}

/* Tile rows whose products do not fill a device, each with all of its columns. */
#define FEW_TILES 64

bool tlr_few_tiles(const tlr_work *w, const tlr_span *s) {
    int64_t tiles = 0;
    for (const tlr_strip *x = s->strip; x < s->strip + s->strips; x++)
        tiles += x->h1 - x->h0;
    return w->ctx && tiles <= FEW_TILES;
}

/* Columns of a left factor of tile (i, j) that are made at a time. On a device a dense tile's
 * product is cut in pieces: it has so many operations that a block with all of its columns would be
 * the last one by far; where there are few tiles all products are, in longer ones. */
static int64_t left_step(const tlr_work *w, const tlr_span *s, int64_t i, int64_t j, int64_t cols) {
    if (w->ctx && tlr_is_dense(s->a->panel + s->q, i, j))
        return TLR_PIECE;
    return tlr_few_tiles(w, s) ? 2 * TLR_PIECE : cols;
}

static void list_left(const tlr_work *w, backend_type type, const tlr_span *s, int64_t i, int64_t j,
                      int64_t cols, const void *core, int64_t ldcore, void *c, int64_t first,
                      scatter_list *l) {
    const panel *p = s->a->panel + s->q;
    const tlr_tile *tile = panel_tile(p, i, j);
    const bool dense = tile->kind == TLR_DENSE; /* an empty one: zeros */
    const int64_t m = tlr_extent(s->a->rows, i), n = tlr_extent(s->a->cols, j),
                  ldb = dense ? n : ldcore, step = left_step(w, s, i, j, cols);
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
            const int64_t wanted =
                tlr_is_block(s, x) ? v_columns(s->b->panel + s->q, s->ka, i + 1, j) : cols;
            list_left(w, type, s, i, j, wanted, core, ldcore, c, first, l);
            c += tlr_extent(s->a->rows, i) * (int64_t)backend_size(type);
        }
    }
}

int64_t tlr_count_left(const tlr_work *w, const tlr_span *s) {
    const panel *pa = s->a->panel + s->q, *pb = s->b->panel + s->q;
    int64_t n = 0;
    for (int64_t j = pa->c0; j < pa->c1; j++)
        for (const tlr_strip *x = s->strip; x < s->strip + s->strips; x++)
            for (int64_t i = x->h0; i < x->h1; i++)
                n += tlr_pieces(v_columns(pb, s->ka, s->kb, j),
                                left_step(w, s, i, j, v_columns(pb, s->ka, s->kb, j)));
    return n;
}

/* Products op(A) B into columns of one matrix, which is C of all of them but for the row where each
 * begins: in one call, or one after another. */
typedef struct {
    tlr_work *w;
    backend_type type;
    bool listed;
    int64_t ld; /* of C */
    scatter_list list;
} parts;

static status parts_open(parts *s, int64_t count, int64_t columns) {
    status st;
    if (!s->listed)
        return tlr_work_fork(s->w);
    TRY(tlr_scatter_open(s->w, count, columns, &s->list));
    columns_as_they_are(columns, &s->list);
done:
    return st;
}

/* m x n, of depth k, to column `to` of c on. */
static status parts_add(parts *s, bool turned, int64_t m, int64_t n, int64_t k, const void *a,
                        int64_t lda, const void *b, int64_t ldb, char *c, int64_t to) {
    if (s->listed) {
        list_pieces(s->type, turned, m, n, k, a, lda, b, ldb, c, to, &s->list);
        return MOAO_OK;
    }
    tlr_work_turn(s->w);
    return tlr_full_gemm(s->w, s->type, turned ? 'T' : 'N', 'N', m, n, k, 1, a, lda, b, ldb, 0,
                         c + to * s->ld * (int64_t)backend_size(s->type), s->ld);
}

/* rows: of the largest. */
static status parts_run(parts *s, int64_t rows) {
    return s->listed ? tlr_scatter_run(s->w, &s->list, s->type, rows, s->ld) : tlr_work_join(s->w);
}

status tlr_common_parts(tlr_work *w, backend_type t, const tlr_span *x, void **core, int64_t *ld) {
    const panel *pa = x->a->panel + x->q, *pb = x->b->panel + x->q;
    int64_t all = 0, count = 0, at = 0, most = 0;
    parts of = {.w = w, .type = t, .listed = w->ctx && !tlr_few_columns(pa), .ld = 1};
    status st;
    for (int64_t j = pa->c0; j < pa->c1; j++) {
        of.ld = largest(of.ld, v_columns(pa, x->ia, x->ib, j));
        all += v_columns(pb, x->ka, x->kb, j);
        count += x->strips * tlr_pieces(v_columns(pb, x->ka, x->kb, j), TLR_PIECE);
        for (const tlr_strip *s = x->strip; s < x->strip + x->strips; s++)
            most = largest(most, v_columns(pa, s->h0, s->h1, j));
    }
    *ld = of.ld;
    TRY(tlr_work_typed(w, BUF_CORE, t, *ld * all, core));
    TRY(parts_open(&of, count, all));
    for (int64_t j = pa->c0; j < pa->c1; j++) {
        const int64_t n = v_columns(pb, x->ka, x->kb, j), k = tlr_extent(x->a->cols, j);
        for (const tlr_strip *s = x->strip; s < x->strip + x->strips; s++)
            TRY(parts_add(&of, true, v_columns(pa, s->h0, s->h1, j), n, k,
                          typed_v(x->a, t, pa, s->h0, j), k, typed_v(x->b, t, pb, x->ka, j), k,
                          (char *)*core + v_columns(pa, x->ia, s->h0, j) * (int64_t)backend_size(t),
                          at));
        at += n;
    }
    st = parts_run(&of, most);
done:
    return st;
}

status tlr_dense_parts(tlr_work *w, backend_type t, const tlr_span *x, int64_t k0, int64_t k1,
                       void *to) {
    const panel *pa = x->a->panel + x->q, *pb = x->b->panel + x->q;
    int64_t most = 0, count = 0;
    parts of = {.w = w, .type = t, .listed = w->ctx, .ld = x->b->b};
    char *c = to;
    status st;
    for (int64_t k = k0; k < k1; k++)
        for (int64_t j = pb->c0; j < pb->c1; j++)
            if (tlr_is_dense(pb, k, j)) {
                most = largest(most, v_columns(pa, x->ia, x->ib, j));
                count += x->strips + tlr_pieces(v_columns(pa, x->ia, x->ib, j), TLR_PIECE);
            }
    TRY(parts_open(&of, count, most));
    for (int64_t k = k0; k < k1; k++)
        for (int64_t j = pb->c0; j < pb->c1; j++) {
            const int64_t m = tlr_extent(x->b->rows, k), inner = tlr_extent(x->a->cols, j);
            if (!tlr_is_dense(pb, k, j))
                continue;
            for (const tlr_strip *s = x->strip; s < x->strip + x->strips; s++) {
                const int64_t i = least(tlr_span_first(x, s->h0, k), s->h1);
                TRY(parts_add(&of, false, m, v_columns(pa, i, s->h1, j), inner,
                              typed_u(x->b, t, pb, k, j), m, typed_v(x->a, t, pa, i, j), inner, c,
                              v_columns(pa, x->ia, i, j)));
            }
            c += v_columns(pa, x->ia, x->ib, j) * of.ld * (int64_t)backend_size(t);
        }
    st = parts_run(&of, of.ld);
done:
    return st;
}
