/* D += alpha L L^T of a factor's tiles by products of halves in three terms (backend_terms.h). Of
 * each super-panel first the left factors T of all tile pairs, in single precision: tile (i, j)
 * times what V_i and V of all tiles (k, j) have in common, one product for all k. Then T goes, in
 * two halves each number, to where all that belongs to a tile column k of D stands side by side,
 * and the large products for each k add up all super-panels that the memory for T holds: first the
 * small terms, for tensor cores cut off what does not fit beside a sum, always towards zero. */
#include "tlr/internal.h"

#include <math.h>

/* Some super-panels q0 .. q1 of a, some of the rows. */
typedef struct {
    tlr_work *w;
    const tlr *a;
    const panel *p; /* the one in hand, q */
    int64_t q0, q1, q;
    int64_t ia, ib, ka, kb;
    int64_t row, rows;   /* first row of tile row ia; rows of ia .. ib */
    int64_t ld;          /* of what has so many rows, in halves */
    int et, eu;          /* exponents of left factors and of U */
    float *t;            /* left factors of the super-panel in hand: ld x (j, k, columns) */
    backend_f16 *to, *u; /* operands of the large products, for k: all super-panels */
    product_list list;
} job;

/* Columns of U of tile row k in super-panels q0 .. q. */
static int64_t columns_of(const job *s, int64_t k, int64_t q) {
    int64_t c = 0;
    for (int64_t x = s->q0; x < q; x++)
        c += s->a->panel[x].ucols[k - s->a->panel[x].r0];
    return c;
}

/* Columns of all tile rows ka .. k, of all super-panels. */
static int64_t columns_before(const job *s, int64_t k) {
    int64_t c = 0;
    for (int64_t x = s->ka; x < k; x++)
        c += columns_of(s, x, s->q1);
    return c;
}

/* Columns that left factors with tile column j have for all k: of a dense tile those of the tile.
 */
static int64_t columns_with(const job *s, int64_t j) {
    int64_t c = 0;
    for (int64_t k = s->ka; k < s->kb; k++)
        c += panel_tile(s->p, k, j)->rank;
    return c;
}

static int64_t common_rows(const job *s, int64_t j) {
    return panel_vcol(s->p, s->ib, j) - panel_vcol(s->p, s->ia, j);
}

/* V of all tiles k of tile column j side by side, the identity for a dense one: where it lies, in
 * `own` unless it stands so in the factor. */
static status right_parts(job *s, int64_t j, float *own, const float **at) {
    const int64_t n = tlr_extent(s->a->cols, j);
    int64_t done = 0;
    bool dense = false;
    float *unit;
    status st = MOAO_OK;
    for (int64_t k = s->ka; k < s->kb; k++)
        dense = dense || panel_tile(s->p, k, j)->kind == TLR_DENSE;
    *at = dense ? own : typed_v(s->a, BACKEND_S, s->p, s->ka, j);
    for (int64_t k = s->ka; dense && k < s->kb; k++) {
        const tlr_tile *t = panel_tile(s->p, k, j);
        if (t->kind == TLR_DENSE)
            TRY(tlr_work_unit(s->w, s->a->b, &unit));
        const void *from =
            t->kind == TLR_DENSE ? (const void *)unit : typed_v(s->a, BACKEND_S, s->p, k, j);
        TRY(tlr_full_copy(s->w, BACKEND_S, n, t->rank, from, t->kind == TLR_DENSE ? s->a->b : n,
                          own + done * n, n));
        done += t->rank;
    }
done:
    return st;
}

/* Products of tile column j to the list, for all rows: into columns `at` and following of T. */
static void list_products(job *s, int64_t j, const float *right, const float *core, int64_t at,
                          product *to) {
    const int64_t n = tlr_extent(s->a->cols, j), ra = common_rows(s, j), cols = columns_with(s, j);
    for (int64_t i = s->ia; i < s->ib; i++) {
        const tlr_tile *t = panel_tile(s->p, i, j);
        const int64_t m = tlr_extent(s->a->rows, i);
        const bool dense = t->kind == TLR_DENSE; /* an empty one: zeros */
        const float *b = dense ? right : core + panel_vcol(s->p, i, j) - panel_vcol(s->p, s->ia, j);
        to[i - s->ia] = (product){typed_u(s->a, BACKEND_S, s->p, i, j),
                                  b,
                                  s->t + s->a->rows->first[i] - s->row + at * s->ld,
                                  m,
                                  dense ? n : largest(ra, 1),
                                  s->ld,
                                  m,
                                  cols,
                                  t->rank};
    }
}

/* T of super-panel q. */
static status left_factors(job *s) {
    const int64_t nj = s->p->c1 - s->p->c0, ni = s->ib - s->ia;
    int64_t size = 0, own = 0, at = 0;
    float *core, *parts;
    void *p;
    status st;
    for (int64_t j = s->p->c0; j < s->p->c1; j++) {
        size += common_rows(s, j) * columns_with(s, j);
        own += columns_with(s, j) * tlr_extent(s->a->cols, j);
        at += columns_with(s, j);
    }
    TRY(tlr_work_typed(s->w, BUF_CORE, BACKEND_S, size, &p));
    core = p;
    TRY(tlr_work_typed(s->w, BUF_V, BACKEND_S, own, &p));
    parts = p;
    TRY(tlr_work_typed(s->w, BUF_TILES, BACKEND_S, s->ld * at, &p));
    s->t = p;
    TRY(tlr_list_room(&s->list, nj * ni));
    at = 0;
    for (int64_t j = s->p->c0; j < s->p->c1; j++) {
        const int64_t n = tlr_extent(s->a->cols, j), ra = common_rows(s, j),
                      cols = columns_with(s, j);
        const float *right;
        TRY(right_parts(s, j, parts, &right));
        TRY(tlr_full_gemm(s->w, BACKEND_S, 'T', 'N', ra, cols, n, 1,
                          typed_v(s->a, BACKEND_S, s->p, s->ia, j), n, right, n, 0, core,
                          largest(ra, 1)));
        list_products(s, j, right, core, at, s->list.p + (j - s->p->c0) * ni);
        core += ra * cols;
        parts += cols * n;
        at += cols;
    }
    tlr_work_lap(s->w, TLR_CORES);
    TRY(tlr_list_run(s->w, &s->list, BACKEND_S, 'N', 'N'));
done:
    return st;
}

/* T of super-panel q to its places in the operands of all k. */
static status place_left(job *s) {
    int64_t n = 0, from = 0;
    int64_t *host, *there;
    status st;
    for (int64_t j = s->p->c0; j < s->p->c1; j++)
        n += columns_with(s, j);
    TRY(tlr_work_indices(s->w, 3 * n, &host, &there));
    terms_column *const c = (terms_column *)(void *)host;
    for (int64_t j = s->p->c0; j < s->p->c1; j++)
        for (int64_t k = s->ka; k < s->kb; k++) {
            const tlr_tile *t = panel_tile(s->p, k, j);
            const int64_t all = columns_of(s, k, s->q1),
                          to = 2 * columns_before(s, k) + columns_of(s, k, s->q) + t->u;
            for (int64_t x = 0; x < t->rank; x++, from++)
                c[from] = (terms_column){from, to + x, all};
        }
    TRY(tlr_work_send(s->w, 3 * n, host, there));
    st = s->w->be->terms->columns(s->w->ctx, "hr", s->rows, n, (const terms_column *)there, s->et,
                                  s->t, s->ld, NULL, 1, s->to, s->ld);
done:
    return st;
}

/* U of tile rows k of super-panel q to where all of a tile row stand side by side. */
static status place_right(job *s) {
    const int64_t n = s->kb - s->ka;
    int64_t *host, *there, at = 0, most = 0;
    status st;
    TRY(tlr_work_indices(s->w, 6 * n, &host, &there));
    terms_block *const b = (terms_block *)(void *)host;
    for (int64_t k = s->ka; k < s->kb; k++) {
        const int64_t rows = tlr_extent(s->a->rows, k), cols = s->p->ucols[k - s->p->r0],
                      all = columns_of(s, k, s->q1), ld = terms_pad(rows);
        b[k - s->ka] = (terms_block){s->p->ubegin[k - s->p->r0],           rows, cols,
                                     2 * at + columns_of(s, k, s->q) * ld, ld,   all * ld};
        at += all * ld;
        most = largest(most, rows * cols);
    }
    TRY(tlr_work_send(s->w, 6 * n, host, there));
    st = s->w->be->terms->blocks(s->w->ctx, "hr", n, (const terms_block *)there, most, s->eu,
                                 (const float *)(const void *)s->p->kept, s->u);
done:
    return st;
}

/* Exponents for all super-panels together: of U what was found, of a left factor a bound. U of a
 * low-rank tile is orthonormal: a left factor's entries are below what V_i and V_k have in
 * common times the root of the rank; of a dense tile its entries times V_k. */
static void choose_exponents(job *s) {
    const double b = (double)s->a->b;
    double most = 0, left = 0;
    for (int64_t q = s->q0; q < s->q1; q++) {
        const double u = s->a->panel[q].most[0], v = s->a->panel[q].most[1];
        most = fmax(most, u);
        left = fmax(left, fmax(fmax(u, sqrt(b) * v), b * v * fmax(u, sqrt(b) * v)));
    }
    s->eu = terms_exponent(most);
    s->et = terms_exponent(left);
}

/* SUM := T_k U_k^T, c columns of each: the small terms, then the large one. */
static status product_of_halves(job *s, int64_t n, int64_t c, const backend_f16 *t,
                                const backend_f16 *u, float *sum) {
    const int64_t ld = terms_pad(n);
    const backend_half *h = s->w->be->half;
    backend_ctx *ctx = s->w->ctx;
    status st;
    TRY(h->gemm(ctx, 'N', 'T', s->rows, n, c, 1, t, s->ld, u + c * ld, ld, 0, sum, s->ld));
    TRY(h->gemm(ctx, 'N', 'T', s->rows, n, c, 1, t + c * s->ld, s->ld, u, ld, 1, sum, s->ld));
    st = h->gemm(ctx, 'N', 'T', s->rows, n, c, 1, t, s->ld, u, ld, 1, sum, s->ld);
done:
    return st;
}

/* D += alpha T_k U_k^T for each k. */
static status large_products(job *s, double alpha, double *d, int64_t ldd) {
    const int64_t col = s->a->rows->first[s->ka];
    int64_t before = 0, at = 0;
    void *sum;
    status st;
    TRY(tlr_work_typed(s->w, BUF_TURNED, BACKEND_S, s->ld * s->a->b, &sum));
    for (int64_t k = s->ka; k < s->kb; k++) {
        const int64_t n = tlr_extent(s->a->rows, k), c = columns_of(s, k, s->q1);
        if (c > 0) {
            TRY(product_of_halves(s, n, c, s->to + 2 * before * s->ld, s->u + 2 * at, sum));
            TRY(s->w->be->half->cast_to_double(s->w->ctx, s->rows, n, ldexp(alpha, -s->et - s->eu),
                                               sum, s->ld, 1,
                                               d + (s->a->rows->first[k] - col) * ldd, ldd));
        }
        before += c;
        at += c * terms_pad(n);
    }
    tlr_work_lap(s->w, TLR_LARGE);
done:
    return st;
}

static status update_rows(job *s, double alpha, double *d, int64_t ldd) {
    const int64_t cols = columns_before(s, s->kb);
    int64_t numbers = 0;
    void *p;
    status st;
    s->ld = terms_pad(s->rows);
    for (int64_t k = s->ka; k < s->kb; k++)
        numbers += columns_of(s, k, s->q1) * terms_pad(tlr_extent(s->a->rows, k));
    choose_exponents(s);
    /* two halves take the room of a single */
    TRY(tlr_work_typed(s->w, BUF_PRODUCT, BACKEND_S, s->ld * cols, &p));
    s->to = p;
    TRY(tlr_work_typed(s->w, BUF_SIDE, BACKEND_S, numbers, &p));
    s->u = p;
    for (s->q = s->q0; s->q < s->q1; s->q++) {
        s->p = s->a->panel + s->q;
        TRY(left_factors(s));
        TRY(place_left(s));
        TRY(place_right(s));
        tlr_work_lap(s->w, TLR_SMALL);
    }
    st = large_products(s, alpha, d, ldd);
done:
    return st;
}

/* Whether left factors for tile rows ia .. ib fit in the memory. */
static bool fits(const job *s, int64_t ia, int64_t ib) {
    const tlr_layout *l = s->a->rows;
    return (size_t)(l->first[ib] - l->first[ia]) * (size_t)columns_before(s, s->kb) *
               sizeof(float) <=
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

status tlr_update_terms(tlr_work *w, double alpha, const tlr *a, int64_t q0, int64_t q1, int64_t ia,
                        int64_t ib, int64_t ka, int64_t kb, double *d, int64_t ldd) {
    job s = {.w = w, .a = a, .q0 = q0, .ka = ka, .kb = kb};
    status st = MOAO_OK;
    for (; s.q0 < q1 && ia < ib; s.q0 = s.q1)
        TRY(update_some(&s, alpha, q1, ia, ib, d, ldd));
done:
    tlr_list_free(&s.list);
    return st;
}
