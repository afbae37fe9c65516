/* D += alpha A B^T where tiles of B are dense, whose rank would be their order: with the inner
 * extent of A's tiles, U_i (B_k V_i)^T, the latter for all i at once; and of two dense tiles their
 * product. */
#include "update.h"

typedef struct {
    const tlr_span *x; /* block column q, which is current */
    tlr_work *w;
    const panel *pa, *pb;
    backend_type type; /* of the products */
    double alpha, *d;  /* where they go, from the rows and columns current on */
    int64_t ldd;
} job;

/* Columns of V of a in tile column j. */
static int64_t columns_of_a(const job *s, int64_t j) {
    return panel_vcol(s->pa, s->x->ib, j) - panel_vcol(s->pa, s->x->ia, j);
}

/* Element k of one of these. */
static void *at_of(const job *s, void *p, int64_t k) {
    return (char *)p + k * (int64_t)backend_size(s->type);
}

/* Tile rows k .. *end of b whose products with V of a take a quarter of the memory together, or
 * one; numbers in those, and dense tiles among them. */
static void choose_rows(const job *s, int64_t k, int64_t *end, int64_t *numbers, int64_t *tiles) {
    *numbers = *tiles = 0;
    for (*end = k; *end < s->x->kb; ++*end) {
        int64_t more = 0, dense = 0;
        for (int64_t j = s->pb->c0; j < s->pb->c1; j++)
            if (tlr_is_dense(s->pb, *end, j)) {
                more += s->x->b->b * columns_of_a(s, j);
                dense++;
            }
        if (*end > k && (size_t)(*numbers + more) * s->x->size > s->x->a->o.memory / 4)
            break;
        *numbers += more;
        *tiles += dense;
    }
}

/* What tile (i, j) of a adds with dense tile (k, j) of b, whose product with V of a is at bv, to
 * columns `from` on. */
static void list_part(const job *s, int64_t i, int64_t j, int64_t k, const void *bv, int64_t from,
                      gather_list *l) {
    const int64_t m = tlr_extent(s->x->a->rows, i), n = tlr_extent(s->x->b->rows, k),
                  ld = s->x->b->b;
    const tlr_tile *t = panel_tile(s->pa, i, j);
    const void *u = typed_u(s->x->a, s->type, s->pa, i, j);
    if (t->kind == TLR_DENSE)
        l->part[l->parts++] = (batch_part){
            u, tlr_at(s->type, typed_u(s->x->b, s->type, s->pb, k, j), from), m, n, t->rank};
    else if (t->kind == TLR_LOWRANK)
        l->part[l->parts++] = (batch_part){
            u,
            tlr_at(s->type, bv,
                   (panel_vcol(s->pa, i, j) - panel_vcol(s->pa, s->x->ia, j)) * ld + from),
            m, ld, t->rank};
}

/* The sums for columns from .. end of tile row k of b, all rows i: bv: its products with V of a,
 * one tile after another. */
static void list_sums(const job *s, int64_t k, int64_t from, int64_t end, const void *bv,
                      gather_list *l) {
    const int64_t col = s->x->b->rows->first[k] - s->x->b->rows->first[s->x->ka];
    for (int64_t i = tlr_span_next(s->x, tlr_span_first(s->x, s->x->ia, k)); i < s->x->ib;
         i = tlr_span_next(s->x, i + 1)) {
        const int64_t first = l->parts;
        int64_t at = 0;
        for (int64_t j = s->pb->c0; j < s->pb->c1; j++)
            if (tlr_is_dense(s->pb, k, j)) {
                list_part(s, i, j, k, tlr_at(s->type, bv, at), from, l);
                at += s->x->b->b * columns_of_a(s, j);
            }
        if (l->parts > first)
            l->p[l->count++] =
                (batch_gather){s->d + s->x->a->rows->first[i] - s->x->row + (col + from) * s->ldd,
                               tlr_extent(s->x->a->rows, i), end - from, first, l->parts - first};
    }
}

/* Products with the dense tiles of b in block column q. */
status tlr_update_dense(tlr_work *w, backend_type t, const tlr_span *x, double alpha, double *d,
                        int64_t ldd) {
    job of = {x, w, x->a->panel + x->q, x->b->panel + x->q, t, alpha, d, ldd}, *const s = &of;
    const int64_t ni = x->ib - x->ia, step = tlr_few_tiles(w, x) ? TLR_PIECE : x->b->b,
                  pieces = tlr_pieces(x->b->b, step);
    status st = MOAO_OK;
    for (int64_t k = s->x->ka, end; k < s->x->kb; k = end) {
        int64_t numbers, tiles, at = 0;
        gather_list list;
        void *bv;
        choose_rows(s, k, &end, &numbers, &tiles);
        if (tiles == 0)
            continue;
        TRY(tlr_work_typed(s->w, BUF_V, s->type, numbers, &bv));
        TRY(tlr_dense_parts(w, t, x, k, end, bv));
        TRY(tlr_gather_open(w, pieces * (end - k) * ni, pieces * tiles * ni, &list));
        for (int64_t y = k; y < end; y++) { /* while the device is at work */
            const int64_t n = tlr_extent(x->b->rows, y);
            for (int64_t from = 0; from < n; from += step)
                list_sums(s, y, from, least(from + step, n), at_of(s, bv, at), &list);
            for (int64_t j = s->pb->c0; j < s->pb->c1; j++)
                at += tlr_is_dense(s->pb, y, j) ? x->b->b * columns_of_a(s, j) : 0;
        }
        TRY(tlr_gather_run(s->w, &list, s->type, s->x->a->b, s->x->b->b, s->alpha, s->ldd));
    }
    tlr_work_lap(s->w, TLR_DENSE_TILES);
done:
    return st;
}
