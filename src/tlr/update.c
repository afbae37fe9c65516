/* D += alpha A B^T for low-rank tiles and dense ones: first the small products that lead to the
 * left factors of all tiles, side by side, for as many super-panels as the memory holds, then one
 * large product for each tile column of D, whose inner extent is all ranks together. */
#include "tlr/internal.h"

/* Some super-panels q0 .. q1 of a and b, some of the rows. */
typedef struct {
    tlr_work *w;
    const tlr *a, *b;
    const panel *pa, *pb; /* the one in hand */
    int64_t q0, q1, q;
    int64_t ia, ib, ka, kb;
    int64_t row, rows; /* first row of tile row ia; rows of ia .. ib */
    double *core, *t;  /* V_i^T V_k of one tile column; left factors, rows x those of b */
    double *u;         /* U of b, of more than one super-panel side by side */
    product_list straight, turned;
} job;

/* Columns of U of b in tile row k, of super-panels q0 .. q. */
static int64_t columns_of(const job *s, int64_t k, int64_t q) {
    int64_t c = 0;
    for (int64_t x = s->q0; x < q; x++)
        c += s->b->panel[x].ucols[k - s->b->panel[x].r0];
    return c;
}

/* Left factors before tile row k of b: those of all super-panels stand together. */
static int64_t columns_before(const job *s, int64_t k) {
    int64_t c = 0;
    for (int64_t x = s->ka; x < k; x++)
        c += columns_of(s, x, s->q1);
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
        const int64_t at =
            columns_before(s, k) + columns_of(s, k, s->q) + panel_tile(s->pb, k, j)->u;
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

/* Left factors of super-panel q. */
static status left_factors(job *s) {
    int64_t size = 0, at = 0;
    status st;
    s->pa = s->a->panel + s->q;
    s->pb = s->b->panel + s->q;
    for (int64_t j = s->pa->c0; j < s->pa->c1; j++)
        size += core_size(s, j);
    TRY(tlr_work_room(s->w, BUF_CORE, size, &s->core));
    for (int64_t j = s->pa->c0; j < s->pa->c1; j++) {
        TRY(tile_column(s, j, s->core + at));
        at += core_size(s, j);
    }
    tlr_work_lap(s->w, TLR_CORES);
    TRY(tlr_list_run(s->w, &s->straight, 'N', 'N'));
    TRY(tlr_list_run(s->w, &s->turned, 'N', 'T'));
    tlr_work_lap(s->w, TLR_SMALL);
done:
    return st;
}

/* U of b in super-panel q to the place where all of a tile row stand side by side. */
static status collect(job *s) {
    int64_t at = 0;
    status st = MOAO_OK;
    for (int64_t k = s->ka; k < s->kb; k++) {
        const int64_t n = tlr_extent(s->b->rows, k), c = s->pb->ucols[k - s->pb->r0];
        TRY(tlr_dense_copy(s->w, n, c, s->pb->u + s->pb->ubegin[k - s->pb->r0], n,
                           s->u + at + columns_of(s, k, s->q) * n, n));
        at += columns_of(s, k, s->q1) * n;
    }
done:
    return st;
}

/* Numbers of U of b in all super-panels together. */
static int64_t collected(const job *s) {
    int64_t c = 0;
    for (int64_t k = s->ka; k < s->kb; k++)
        c += columns_of(s, k, s->q1) * tlr_extent(s->b->rows, k);
    return c;
}

static status update_rows(job *s, double alpha, double *d, int64_t ldd) {
    const int64_t cols = columns_before(s, s->kb), col = s->b->rows->first[s->ka];
    const bool several = s->q1 > s->q0 + 1;
    int64_t before = 0, at = 0;
    status st;
    TRY(tlr_work_room(s->w, BUF_PRODUCT, s->rows * cols, &s->t));
    if (several)
        TRY(tlr_work_room(s->w, BUF_SIDE, collected(s), &s->u));
    for (s->q = s->q0; s->q < s->q1; s->q++) {
        TRY(tlr_store_fetch(s->w, s->a, s->q, s->q + 1)); /* only a factor is kept apart: a is b */
        TRY(tlr_store_fetch(s->w, s->b, s->q, s->q + 1));
        TRY(left_factors(s));
        if (several)
            TRY(collect(s));
    }
    for (int64_t k = s->ka; k < s->kb; k++) {
        const int64_t n = tlr_extent(s->b->rows, k), c = columns_of(s, k, s->q1);
        TRY(tlr_dense_gemm(s->w, 'N', 'T', s->rows, n, c, alpha, s->t + before * s->rows, s->rows,
                           several ? s->u + at : s->pb->u + s->pb->ubegin[k - s->pb->r0], n, 1,
                           d + (s->b->rows->first[k] - col) * ldd, ldd));
        before += c;
        at += c * n;
    }
    tlr_work_lap(s->w, TLR_LARGE);
done:
    return st;
}

/* Whether left factors for tile rows ia .. ib of a fit in the memory. */
static bool fits(const job *s, int64_t ia, int64_t ib) {
    const tlr_layout *l = s->a->rows;
    return (size_t)(l->first[ib] - l->first[ia]) * (size_t)columns_before(s, s->kb) *
               sizeof(double) <=
           s->a->o.memory;
}

/* As many super-panels as go together with all rows, up to `end`; where not even one does, of one
 * as many rows at a time. */
static status update_some(job *s, double alpha, int64_t end, int64_t ia, int64_t ib, double *d,
                          int64_t ldd) {
    status st = MOAO_OK;
    for (s->q1 = s->q0 + 1; s->q1 < end; s->q1++) {
        s->q1++;
        const bool more = fits(s, ia, ib);
        s->q1--;
        if (!more)
            break;
    }
    if (columns_before(s, s->kb) == 0)
        return MOAO_OK;
    for (int64_t i = ia; i < ib; i = s->ib) {
        s->ia = i;
        for (s->ib = i + 1; s->ib < ib && fits(s, i, s->ib + 1);)
            s->ib++;
        s->row = s->a->rows->first[i];
        s->rows = s->a->rows->first[s->ib] - s->row;
        TRY(update_rows(s, alpha, d + s->row - s->a->rows->first[ia], ldd));
    }
done:
    return st;
}

status tlr_update(tlr_work *w, double alpha, const tlr *a, const tlr *b, int64_t q0, int64_t q1,
                  int64_t ia, int64_t ib, int64_t ka, int64_t kb, double *d, int64_t ldd) {
    job s = {.w = w, .a = a, .b = b, .q0 = q0, .ka = ka, .kb = kb};
    status st = MOAO_OK;
    for (; s.q0 < q1 && ia < ib; s.q0 = s.q1)
        TRY(update_some(&s, alpha, q1, ia, ib, d, ldd));
done:
    tlr_list_free(&s.straight);
    tlr_list_free(&s.turned);
    return st;
}
