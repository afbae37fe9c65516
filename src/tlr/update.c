/* D += alpha A B^T for low-rank tiles and dense ones: first the small products that lead to the
 * left factors of all tiles, side by side, then one large product for each tile column of D. */
#include "tlr/internal.h"

/* One call, for some of the rows. */
typedef struct {
    tlr_work *w;
    const tlr *a, *b;
    const panel *pa, *pb;
    int64_t ia, ib, ka, kb;
    int64_t row, rows; /* first row of tile row ia; rows of ia .. ib */
    double *core, *t;  /* V_i^T V_k of one tile column; left factors, rows x those of b */
    product_list straight, turned;
} job;

/* Columns of U of b before tile row k. */
static int64_t columns_before(const job *s, int64_t k) {
    int64_t c = 0;
    for (int64_t x = s->ka; x < k; x++)
        c += s->pb->ucols[x - s->pb->r0];
    return c;
}

/* Left factors of tile (i, j) of a with tile (k, j) of b, columns `at` and following. */
static status left_factor(job *s, int64_t i, int64_t j, int64_t k, int64_t at, const double *core,
                          int64_t ldcore) {
    const tlr_tile *ta = panel_tile(s->pa, i, j), *tb = panel_tile(s->pb, k, j);
    const int64_t m = tlr_extent(s->a->rows, i), n = tlr_extent(s->a->cols, j);
    double *to = s->t + s->a->rows->first[i] - s->row + at * s->rows;
    product p = {panel_u(s->a, s->pa, i, j), NULL, to, m, 1, s->rows, m, tb->rank, ta->rank};
    if (tb->kind == TLR_EMPTY)
        return MOAO_OK;
    if (ta->kind == TLR_DENSE && tb->kind == TLR_DENSE)
        return tlr_dense_copy(s->w, m, n, p.a, m, to, s->rows);
    if (ta->kind == TLR_DENSE) {
        p.b = panel_v(s->b, s->pb, k, j);
        p.ldb = n;
    } else if (ta->kind == TLR_LOWRANK && tb->kind == TLR_DENSE) {
        p.b = panel_v(s->a, s->pa, i, j);
        p.ldb = n;
        return tlr_list_add(&s->turned, p);
    } else { /* low-rank both, or a's tile empty: zeros */
        p.b = core + panel_vcol(s->pa, i, j) - panel_vcol(s->pa, s->ia, j) +
              (panel_vcol(s->pb, k, j) - panel_vcol(s->pb, s->ka, j)) * ldcore;
        p.ldb = ldcore;
    }
    return tlr_list_add(&s->straight, p);
}

/* All of one tile column j; core: what V of a and of b have in common. */
static status tile_column(job *s, int64_t j, double *core) {
    const int64_t n = tlr_extent(s->a->cols, j),
                  ra = panel_vcol(s->pa, s->ib, j) - panel_vcol(s->pa, s->ia, j),
                  rb = panel_vcol(s->pb, s->kb, j) - panel_vcol(s->pb, s->ka, j);
    status st;
    TRY(tlr_dense_gemm(s->w, 'T', 'N', ra, rb, n, 1, panel_v(s->a, s->pa, s->ia, j), n,
                       panel_v(s->b, s->pb, s->ka, j), n, 0, core, largest(ra, 1)));
    for (int64_t k = s->ka; k < s->kb; k++) {
        const int64_t at = columns_before(s, k) + panel_tile(s->pb, k, j)->u;
        for (int64_t i = s->ia; i < s->ib; i++)
            TRY(left_factor(s, i, j, k, at, core, largest(ra, 1)));
    }
done:
    return st;
}

/* Numbers in what V of a and of b have in common, for all tile columns, one after another. */
static int64_t core_size(const job *s, int64_t j) {
    return (panel_vcol(s->pa, s->ib, j) - panel_vcol(s->pa, s->ia, j)) *
           (panel_vcol(s->pb, s->kb, j) - panel_vcol(s->pb, s->ka, j));
}

static status update_rows(job *s, double alpha, double *d, int64_t ldd) {
    const int64_t cols = columns_before(s, s->kb), col = s->b->rows->first[s->ka];
    int64_t size = 0, at = 0;
    status st;
    for (int64_t j = s->pa->c0; j < s->pa->c1; j++)
        size += core_size(s, j);
    TRY(tlr_work_room(s->w, BUF_CORE, size, &s->core));
    TRY(tlr_work_room(s->w, BUF_PRODUCT, s->rows * cols, &s->t));
    for (int64_t j = s->pa->c0; j < s->pa->c1; j++) {
        TRY(tile_column(s, j, s->core + at));
        at += core_size(s, j);
    }
    tlr_work_lap(s->w, TLR_CORES);
    TRY(tlr_list_run(s->w, &s->straight, 'N', 'N'));
    TRY(tlr_list_run(s->w, &s->turned, 'N', 'T'));
    tlr_work_lap(s->w, TLR_SMALL);
    for (int64_t k = s->ka; k < s->kb; k++) {
        const int64_t n = tlr_extent(s->b->rows, k), before = columns_before(s, k);
        TRY(tlr_dense_gemm(s->w, 'N', 'T', s->rows, n, s->pb->ucols[k - s->pb->r0], alpha,
                           s->t + before * s->rows, s->rows,
                           s->pb->u + s->pb->ubegin[k - s->pb->r0], n, 1,
                           d + (s->b->rows->first[k] - col) * ldd, ldd));
    }
    tlr_work_lap(s->w, TLR_LARGE);
done:
    return st;
}

/* Tile rows from ia on whose left factors fit in the memory, at least one. */
static int64_t rows_that_fit(const job *s, int64_t ia, int64_t ib) {
    const int64_t cols = columns_before(s, s->kb);
    const tlr_layout *l = s->a->rows;
    int64_t i = ia + 1;
    while (i < ib && (size_t)(l->first[i + 1] - l->first[ia]) * (size_t)cols * sizeof(double) <=
                         s->a->o.memory)
        i++;
    return i;
}

status tlr_update(tlr_work *w, double alpha, const tlr *a, const tlr *b, int64_t q, int64_t ia,
                  int64_t ib, int64_t ka, int64_t kb, double *d, int64_t ldd) {
    job s = {.w = w, .a = a, .b = b, .pa = a->panel + q, .pb = b->panel + q, .ka = ka, .kb = kb};
    status st = MOAO_OK;
    if (ia == ib || columns_before(&s, kb) == 0)
        return MOAO_OK;
    for (int64_t i = ia; i < ib; i = s.ib) {
        s.ia = i;
        s.ib = rows_that_fit(&s, i, ib);
        s.row = a->rows->first[i];
        s.rows = a->rows->first[s.ib] - s.row;
        TRY(update_rows(&s, alpha, d + s.row - a->rows->first[ia], ldd));
    }
done:
    tlr_list_free(&s.straight);
    tlr_list_free(&s.turned);
    return st;
}
