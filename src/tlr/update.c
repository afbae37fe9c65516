/* D += alpha A B^T for low-rank tiles and dense ones: first the small products that lead to the
 * left factors of all tiles, side by side, for as many super-panels as the memory holds, then one
 * large product for each tile column of D, whose inner extent is all ranks together. */
#include "tlr/internal.h"

/* Some super-panels q0 .. q1 of a and b, some of the rows. */
typedef struct {
    tlr_span x;           /* the first member */
    tlr_work *w, *sums;   /* sums: of left factors of several super-panels, and of U beside them */
    const panel *pa, *pb; /* the one in hand */
    bool there;           /* super-panels are fetched by the caller */
    backend_type type;    /* of the products */
    void *core, *t;       /* V_i^T V_k of one tile column; left factors, rows x those of b */
    double *identity; /* of a tile's order: a dense tile times it is the tile; NULL: is copied */
    void *u;          /* U of b, of more than one super-panel side by side */
    product_list narrow, wide, turned;
    scatter_list list;
} job;

/* Element k of one of these. */
static void *at_of(const job *s, void *p, int64_t k) {
    return (char *)p + k * (int64_t)backend_size(s->type);
}

int64_t tlr_span_columns(const tlr_span *s, int64_t k, int64_t q) {
    int64_t c = 0;
    for (int64_t x = s->q0; x < q; x++)
        c += s->b->panel[x].ucols[k - s->b->panel[x].r0];
    return c;
}

int64_t tlr_span_before(const tlr_span *s, int64_t k) {
    int64_t c = 0;
    for (int64_t x = s->ka; x < k; x++)
        c += tlr_span_columns(s, x, s->q1);
    return c;
}

/* Left factors of tile (i, j) of a with tile (k, j) of b, columns `at` and following: which product
 * makes them, and whether its right factor is turned. m = 0: none. */
static product left_factor(const job *s, int64_t i, int64_t j, int64_t k, int64_t at,
                           const void *core, int64_t ldcore, bool *turned) {
    const tlr_tile *ta = panel_tile(s->pa, i, j), *tb = panel_tile(s->pb, k, j);
    const int64_t m = tlr_extent(s->x.a->rows, i), n = tlr_extent(s->x.a->cols, j);
    void *to = at_of(s, s->t, s->x.a->rows->first[i] - s->x.row + at * s->x.rows);
    product p = {
        typed_u(s->x.a, s->type, s->pa, i, j), NULL, to, m, 1, s->x.rows, m, tb->rank, ta->rank};
    *turned = ta->kind == TLR_LOWRANK && tb->kind == TLR_DENSE;
    if (ta->kind == TLR_DENSE && tb->kind == TLR_DENSE) {
        if (!s->identity)
            return (product){.lda = 1, .ldb = 1, .ldc = 1};
        p.b = s->identity;
        p.ldb = s->w->identity;
        p.k = n;
    } else if (ta->kind == TLR_DENSE) {
        p.b = typed_v(s->x.b, s->type, s->pb, k, j);
        p.ldb = n;
    } else if (*turned) {
        p.b = typed_v(s->x.a, s->type, s->pa, i, j);
        p.ldb = n;
    } else { /* low-rank both, or a's tile empty: zeros */
        p.b = tlr_at(s->type, core,
                     panel_vcol(s->pa, i, j) - panel_vcol(s->pa, s->x.ia, j) +
                         (panel_vcol(s->pb, k, j) - panel_vcol(s->pb, s->x.ka, j)) * ldcore);
        p.ldb = ldcore;
    }
    return tb->kind == TLR_EMPTY ? (product){.lda = 1, .ldb = 1, .ldc = 1} : p;
}

/* What V of a and of b have in common in tile column j. */
static status common_part(job *s, int64_t j, void *core) {
    const int64_t n = tlr_extent(s->x.a->cols, j),
                  ra = panel_vcol(s->pa, s->x.ib, j) - panel_vcol(s->pa, s->x.ia, j),
                  rb = panel_vcol(s->pb, s->x.kb, j) - panel_vcol(s->pb, s->x.ka, j);
    return tlr_full_gemm(s->w, s->type, 'T', 'N', ra, rb, n, 1,
                         typed_v(s->x.a, s->type, s->pa, s->x.ia, j), n,
                         typed_v(s->x.b, s->type, s->pb, s->x.ka, j), n, 0, core, largest(ra, 1));
}

/* Products of tile column j with tile row k of b, for all rows i, to the lists. */
static void list_products(const job *s, int64_t j, int64_t k, const void *core, product *straight,
                          product *turned) {
    const int64_t ra = panel_vcol(s->pa, s->x.ib, j) - panel_vcol(s->pa, s->x.ia, j);
    const int64_t at =
        tlr_span_before(&s->x, k) + tlr_span_columns(&s->x, k, s->x.q) + panel_tile(s->pb, k, j)->u;
    for (int64_t i = s->x.ia; i < s->x.ib; i++) {
        bool turn;
        const product p = left_factor(s, i, j, k, at, core, largest(ra, 1), &turn),
                      none = {.lda = 1, .ldb = 1, .ldc = 1};
        straight[i - s->x.ia] = turn ? none : p;
        if (turned)
            turned[i - s->x.ia] = turn ? p : none;
    }
}

/* Numbers in what V of a and of b have in common, for all tile columns, one after another. */
static int64_t core_size(const job *s, int64_t j) {
    return (panel_vcol(s->pa, s->x.ib, j) - panel_vcol(s->pa, s->x.ia, j)) *
           (panel_vcol(s->pb, s->x.kb, j) - panel_vcol(s->pb, s->x.ka, j));
}

/* Products that go together: batches are cut into squares of this order by their largest sizes. */
#define NARROW 64

/* All products of super-panel q; the host has many of them to write down. */
static status list_all(job *s) {
    const int64_t nj = s->pa->c1 - s->pa->c0, nk = s->x.kb - s->x.ka, ni = s->x.ib - s->x.ia;
    /* where the common part of each column begins, and the products of each pair, -1: none */
    int64_t *core = NULL, *place[3] = {NULL}, count[3] = {0};
    product_list *const list[3] = {&s->narrow, &s->wide, &s->turned};
    status st;
    TRY(ALLOC(core, (size_t)nj, "products of tiles"));
    for (int c = 0; c < 3; c++)
        TRY(ALLOC(place[c], (size_t)(nj * nk), "products of tiles"));
    for (int64_t j = 1; j < nj; j++)
        core[j] = core[j - 1] + core_size(s, s->pa->c0 + j - 1);
    for (int64_t x = 0; x < nj * nk; x++) {
        const tlr_tile *t = panel_tile(s->pb, s->x.ka + x % nk, s->pa->c0 + x / nk);
        const bool dense = t->kind == TLR_DENSE, narrow = !dense && t->rank <= NARROW;
        place[0][x] = narrow && t->rank > 0 ? ni * count[0]++ : -1;
        place[1][x] = !narrow ? ni * count[1]++ : -1;
        place[2][x] = dense ? ni * count[2]++ : -1;
    }
    for (int c = 0; c < 3; c++)
        TRY(tlr_list_room(list[c], ni * count[c]));
#pragma omp parallel for if (nj * nk * ni > 16384)
    for (int64_t x = 0; x < nj * nk; x++) {
        product *const straight = place[0][x] >= 0   ? s->narrow.p + place[0][x]
                                  : place[1][x] >= 0 ? s->wide.p + place[1][x]
                                                     : NULL;
        if (straight)
            list_products(s, s->pa->c0 + x / nk, s->x.ka + x % nk, at_of(s, s->core, core[x / nk]),
                          straight, place[2][x] >= 0 ? s->turned.p + place[2][x] : NULL);
    }
done:
    free(core);
    for (int c = 0; c < 3; c++)
        free(place[c]);
    return st;
}

/* Dense tiles times dense tiles, on the CPU: copies one after another. On a device they are
 * products with the identity in the lists, which a call for each would take longer than. */
static status copy_dense(job *s) {
    status st = MOAO_OK;
    for (int64_t j = s->pa->c0; j < s->pa->c1; j++)
        for (int64_t k = s->x.ka; k < s->x.kb; k++) {
            const tlr_tile *tb = panel_tile(s->pb, k, j);
            const int64_t at =
                tlr_span_before(&s->x, k) + tlr_span_columns(&s->x, k, s->x.q) + tb->u;
            for (int64_t i = s->x.ia; tb->kind == TLR_DENSE && i < s->x.ib; i++)
                if (panel_tile(s->pa, i, j)->kind == TLR_DENSE)
                    TRY(tlr_full_copy(
                        s->w, s->type, tlr_extent(s->x.a->rows, i), tb->rank,
                        typed_u(s->x.a, s->type, s->pa, i, j), tlr_extent(s->x.a->rows, i),
                        at_of(s, s->t, s->x.a->rows->first[i] - s->x.row + at * s->x.rows),
                        s->x.rows));
        }
done:
    return st;
}

static status left_factors_old(job *s) {
    int64_t size = 0, at = 0;
    status st;
    s->pa = s->x.a->panel + s->x.q;
    s->pb = s->x.b->panel + s->x.q;
    for (int64_t j = s->pa->c0; j < s->pa->c1; j++)
        size += core_size(s, j);
    TRY(tlr_work_typed(s->w, BUF_CORE, s->type, size, &s->core));
    if (strcmp(s->w->be->name, "cpu") != 0 && s->type == BACKEND_D)
        TRY(tlr_work_identity(s->w, s->x.a->b, &s->identity));
    TRY(list_all(s));         /* while the device is at work */
    TRY(tlr_work_fork(s->w)); /* none of them fills a device */
    for (int64_t j = s->pa->c0; j < s->pa->c1; j++) {
        tlr_work_turn(s->w);
        TRY(common_part(s, j, at_of(s, s->core, at)));
        at += core_size(s, j);
    }
    TRY(tlr_work_join(s->w));
    tlr_work_lap(s->w, TLR_CORES);
    if (!s->identity)
        TRY(copy_dense(s));
    TRY(tlr_list_run(s->w, &s->narrow, s->type, 'N', 'N'));
    TRY(tlr_list_run(s->w, &s->wide, s->type, 'N', 'N'));
    TRY(tlr_list_run(s->w, &s->turned, s->type, 'N', 'T'));
    tlr_work_lap(s->w, TLR_SMALL);
done:
    return st;
}

/* --- left factors: one product for a tile of a and all that stands beside it in tile column j of b
 * --- */

/* First column of the left factors with tile (k, j) of b. */
static int64_t left_at(const job *s, int64_t k, int64_t j) {
    return tlr_span_before(&s->x, k) + tlr_span_columns(&s->x, k, s->x.q) +
           panel_tile(s->pb, k, j)->u;
}

static void put_columns(scatter_list *l, int64_t from, int64_t n) {
    for (int64_t x = 0; x < n; x++)
        l->column[l->columns++] = from + x;
}

/* Products of tile column j to the list: with the low-rank tiles of b at once, their columns in the
 * order of V, and with each dense one. */
static void list_column(job *s, int64_t j, const void *core) {
    const tlr_span *x = &s->x;
    const int64_t n = tlr_extent(x->a->cols, j), first = panel_vcol(s->pa, x->ia, j),
                  ra = panel_vcol(s->pa, x->ib, j) - first,
                  rb = panel_vcol(s->pb, x->kb, j) - panel_vcol(s->pb, x->ka, j);
    scatter_list *l = &s->list;
    for (int64_t k = x->ka - 1; k < x->kb; k++) { /* ka - 1: all low-rank ones */
        const bool all = k < x->ka;
        const int64_t at = l->columns, cols = all ? rb : n;
        if (all ? rb == 0 : panel_tile(s->pb, k, j)->kind != TLR_DENSE)
            continue;
        if (!all)
            put_columns(l, left_at(s, k, j), n);
        for (int64_t y = x->ka; all && y < x->kb; y++)
            if (panel_tile(s->pb, y, j)->kind == TLR_LOWRANK)
                put_columns(l, left_at(s, y, j), panel_tile(s->pb, y, j)->rank);
        for (int64_t i = x->ia; i < x->ib; i++) {
            const tlr_tile *t = panel_tile(s->pa, i, j);
            const int64_t m = tlr_extent(x->a->rows, i);
            const bool dense = t->kind == TLR_DENSE;
            batch_scatter p = {typed_u(x->a, s->type, s->pa, i, j),
                               NULL,
                               at_of(s, s->t, x->a->rows->first[i] - x->row),
                               m,
                               n,
                               m,
                               cols,
                               t->rank,
                               at,
                               !all};
            if (all && dense) {
                p.b = typed_v(x->b, s->type, s->pb, x->ka, j);
            } else if (all) { /* a's tile empty: zeros */
                p.b = tlr_at(s->type, core, panel_vcol(s->pa, i, j) - first);
                p.ldb = largest(ra, 1);
            } else if (!dense) {
                p.b = typed_v(x->a, s->type, s->pa, i, j);
            }
            l->p[l->count++] = p;
        }
    }
}

/* All products of super-panel q, while the device is at work. */
static status list_products_of(job *s) {
    const int64_t ni = s->x.ib - s->x.ia;
    int64_t count = 0, columns = 0, at = 0;
    status st;
    for (int64_t j = s->pa->c0; j < s->pa->c1; j++) {
        count += ni;
        for (int64_t k = s->x.ka; k < s->x.kb; k++) {
            count += panel_tile(s->pb, k, j)->kind == TLR_DENSE ? ni : 0;
            columns += panel_tile(s->pb, k, j)->rank;
        }
    }
    TRY(tlr_scatter_open(s->w, count, columns, &s->list));
    for (int64_t j = s->pa->c0; j < s->pa->c1; j++) {
        list_column(s, j, at_of(s, s->core, at));
        at += core_size(s, j);
    }
done:
    return st;
}

/* Left factors of super-panel q. */
static status left_factors(job *s) {
    int64_t size = 0, at = 0;
    status st;
    s->pa = s->x.a->panel + s->x.q;
    s->pb = s->x.b->panel + s->x.q;
    for (int64_t j = s->pa->c0; j < s->pa->c1; j++)
        size += core_size(s, j);
    if (getenv("TLR_OLD"))
        return left_factors_old(s);
    TRY(tlr_work_typed(s->w, BUF_CORE, s->type, size, &s->core));
    TRY(list_products_of(s));
    TRY(tlr_work_fork(s->w)); /* none of them fills a device */
    for (int64_t j = s->pa->c0; j < s->pa->c1; j++) {
        tlr_work_turn(s->w);
        TRY(common_part(s, j, at_of(s, s->core, at)));
        at += core_size(s, j);
    }
    TRY(tlr_work_join(s->w));
    tlr_work_lap(s->w, TLR_CORES);
    TRY(tlr_scatter_run(s->w, &s->list, s->type, least(s->x.a->b, s->x.rows), s->x.rows));
    tlr_work_lap(s->w, TLR_SMALL);
done:
    return st;
}

/* U of b in super-panel q to the place where all of a tile row stand side by side. */
static status collect(job *s) {
    int64_t at = 0;
    status st = MOAO_OK;
    for (int64_t k = s->x.ka; k < s->x.kb; k++) {
        const int64_t n = tlr_extent(s->x.b->rows, k), c = s->pb->ucols[k - s->pb->r0];
        TRY(tlr_full_copy(s->w, s->type, n, c, typed_u(s->x.b, s->type, s->pb, k, s->pb->c0), n,
                          at_of(s, s->u, at + tlr_span_columns(&s->x, k, s->x.q) * n), n));
        at += tlr_span_columns(&s->x, k, s->x.q1) * n;
    }
done:
    return st;
}

/* Numbers of U of b in all super-panels together. */
static int64_t collected(const job *s) {
    int64_t c = 0;
    for (int64_t k = s->x.ka; k < s->x.kb; k++)
        c += tlr_span_columns(&s->x, k, s->x.q1) * tlr_extent(s->x.b->rows, k);
    return c;
}

/* Room for the rows in hand, of all super-panels q0 .. q1. */
static status begin_rows(job *s) {
    const bool several = s->x.q1 > s->x.q0 + 1;
    status st;
    TRY(tlr_work_typed(several ? s->sums : s->w, BUF_PRODUCT, s->type,
                       s->x.rows * tlr_span_before(&s->x, s->x.kb), &s->t));
    if (several)
        TRY(tlr_work_typed(s->sums, BUF_SIDE, s->type, collected(s), &s->u));
done:
    return st;
}

/* Left factors of super-panel s->x.q, which is in hand. */
static status take_panel(job *s) {
    const status st = left_factors(s);
    return st == MOAO_OK && s->x.q1 > s->x.q0 + 1 ? collect(s) : st;
}

/* The large products of all of them. */
static status end_rows(job *s, double alpha, double *d, int64_t ldd) {
    const bool several = s->x.q1 > s->x.q0 + 1;
    const int64_t col = s->x.b->rows->first[s->x.ka];
    int64_t before = 0, at = 0;
    status st = MOAO_OK;
    for (int64_t k = s->x.ka; k < s->x.kb; k++) {
        const int64_t n = tlr_extent(s->x.b->rows, k), c = tlr_span_columns(&s->x, k, s->x.q1);
        TRY(tlr_add_product(s->w, s->type, BUF_TURNED, 'N', 'T', s->x.rows, n, c, alpha,
                            at_of(s, s->t, before * s->x.rows), s->x.rows,
                            several ? at_of(s, s->u, at)
                                    : typed_u(s->x.b, s->type, s->pb, k, s->pb->c0),
                            n, d + (s->x.b->rows->first[k] - col) * ldd, ldd));
        before += c;
        at += c * n;
    }
    tlr_work_lap(s->w, TLR_LARGE);
done:
    return st;
}

static status update_rows(tlr_span *x, double alpha, double *d, int64_t ldd) {
    job *s = (job *)(void *)x;
    status st;
    TRY(begin_rows(s));
    for (s->x.q = s->x.q0; s->x.q < s->x.q1; s->x.q++) {
        const int64_t from = s->x.a->o.host ? least(s->x.ia, s->x.ka) : 0;
        if (s->type == BACKEND_D && !s->there &&
            !s->x.a->spread) { /* only a factor is kept apart: a is b */
            TRY(tlr_store_fetch_rows(s->w, s->x.a, s->x.q, from, s->x.q + 1, from));
            TRY(tlr_store_fetch_rows(s->w, s->x.b, s->x.q, from, s->x.q + 1, from));
        } else if (s->type == BACKEND_S || s->x.a->spread) {
            TRY(tlr_store_typed(s->w, s->x.a, s->type, s->x.q, s->x.ia, s->x.ib, -1));
            TRY(tlr_store_typed(s->w, s->x.b, s->type, s->x.q, s->x.ka, s->x.kb, -1));
        }
        TRY(take_panel(s));
    }
    st = end_rows(s, alpha, d, ldd);
done:
    return st;
}

/* Whether left factors for tile rows ia .. ib of a fit in the memory. */
static bool fits(const tlr_span *s, int64_t ia, int64_t ib) {
    const tlr_layout *l = s->a->rows;
    return (size_t)(l->first[ib] - l->first[ia]) * (size_t)tlr_span_before(s, s->kb) * s->size <=
           s->a->o.memory;
}

/* q1: as many super-panels from q0 on as go together with all rows, up to `end`. */
static void choose_span(tlr_span *s, int64_t end, int64_t ia, int64_t ib) {
    for (s->q1 = s->q0 + 1; s->q1 < end; s->q1++) {
        s->q1++;
        const bool more = fits(s, ia, ib);
        s->q1--;
        if (!more)
            break;
    }
}

/* These super-panels; of one that does not go with all rows as many rows at a time as do. */
static status update_span(tlr_span *s, double alpha, int64_t ia, int64_t ib, double *d,
                          int64_t ldd) {
    status st = MOAO_OK;
    if (tlr_span_before(s, s->kb) == 0)
        return MOAO_OK;
    for (int64_t i = ia; i < ib; i = s->ib) {
        s->ia = i;
        for (s->ib = i + 1; s->ib < ib && fits(s, i, s->ib + 1);)
            s->ib++;
        s->row = s->a->rows->first[i];
        s->rows = s->a->rows->first[s->ib] - s->row;
        TRY(s->update(s, alpha, d + s->row - s->a->rows->first[ia], ldd));
    }
done:
    return st;
}

status tlr_update_spans(tlr_span *s, double alpha, int64_t q1, int64_t ia, int64_t ib, double *d,
                        int64_t ldd) {
    status st = MOAO_OK;
    for (; s->q0 < q1 && ia < ib; s->q0 = s->q1) {
        choose_span(s, q1, ia, ib);
        TRY(update_span(s, alpha, ia, ib, d, ldd));
    }
done:
    return st;
}

static job new_job(tlr_work *w, tlr_work *sums, const tlr *a, const tlr *b, int64_t ka,
                   int64_t kb) {
    const backend_type type = tlr_type(a) == tlr_type(b) ? tlr_type(a) : BACKEND_D;
    return (job){
        .x =
            {.a = a, .b = b, .ka = ka, .kb = kb, .size = backend_size(type), .update = update_rows},
        .w = w,
        .sums = sums,
        .type = type};
}

static void end_job(job *s) {
    tlr_list_free(&s->narrow);
    tlr_list_free(&s->wide);
    tlr_list_free(&s->turned);
}

status tlr_update(tlr_work *w, double alpha, const tlr *a, const tlr *b, int64_t q0, int64_t q1,
                  int64_t ia, int64_t ib, int64_t ka, int64_t kb, double *d, int64_t ldd) {
    job s = new_job(w, w, a, b, ka, kb);
    s.x.q0 = q0;
    if (a == b && a->factor && a->o.terms > 0)
        return tlr_update_terms(w, alpha, a, q0, q1, ia, ib, ka, kb, d, ldd);
    const status st = tlr_update_spans(&s.x, alpha, q1, ia, ib, d, ldd);
    end_job(&s);
    return st;
}

/* --- in steps --- */

struct tlr_steps {
    job s;
    int64_t ia, ib;
    double *d;
    int64_t ldd;
    int64_t q1; /* end of the span in hand, 0: none is */
};

status tlr_steps_open(tlr_work *w, tlr_work *sums, const tlr *l, int64_t p, double *d, int64_t ldd,
                      tlr_steps **out) {
    const panel *here = l->panel + p;
    tlr_steps *x = NULL;
    const status st = ALLOC(x, 1, "steps of an update");
    *out = x;
    if (st == MOAO_OK) {
        *x = (tlr_steps){.s = new_job(w, sums, l, l, here->c0, here->c1),
                         .ia = here->c0,
                         .ib = l->rows->nt,
                         .d = d,
                         .ldd = ldd};
        x->s.there = true;
    }
    return st;
}

void tlr_steps_close(tlr_steps *x) {
    if (x)
        end_job(&x->s);
    free(x);
}

int64_t tlr_steps_span(tlr_steps *x, int64_t q, int64_t end, int64_t known, size_t *bytes) {
    tlr_span *s = &x->s.x;
    s->q0 = q;
    choose_span(s, least(end, known), x->ia, x->ib);
    const bool several = s->q1 > q + 1;
    const int64_t rows = s->a->rows->first[x->ib] - s->a->rows->first[x->ia];
    *bytes = several ? s->size * (size_t)(rows * tlr_span_before(s, s->kb) + collected(&x->s)) : 0;
    return s->q1 < known || s->q1 == end || !fits(s, x->ia, x->ib) ? s->q1 : -1;
}

status tlr_steps_take(tlr_steps *x, int64_t q, int64_t end, int64_t known) {
    tlr_span *s = &x->s.x;
    size_t bytes;
    status st = MOAO_OK;
    if (x->q1 == 0) {
        x->q1 = tlr_steps_span(x, q, end, known, &bytes);
        if (x->q1 == q + 1) {
            x->q1 = 0;
            return update_span(s, -1, x->ia, x->ib, x->d, x->ldd);
        }
        s->ia = x->ia;
        s->ib = x->ib;
        s->row = s->a->rows->first[s->ia];
        s->rows = s->a->rows->first[s->ib] - s->row;
        TRY(begin_rows(&x->s));
    }
    const bool last = q + 1 == x->q1, any = tlr_span_before(s, s->kb) > 0;
    s->q = q;
    if (last)
        x->q1 = 0;
    if (any)
        TRY(take_panel(&x->s));
    if (any && last)
        st = end_rows(&x->s, -1, x->d, x->ldd);
done:
    return st;
}
