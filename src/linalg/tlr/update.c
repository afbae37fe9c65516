/* D += alpha A B^T for low-rank tiles and dense ones. With a low-rank tile of B: first the small
 * products that lead to the left factors of all tiles of A, side by side, for as many block columns
 * as the memory holds, then one large product for each tile column and strip of D, whose inner
 * extent is all ranks together. What dense tiles of B add: update_dense.c. */
#include "update.h"

/* Some block columns q0 .. q1 of a and b, some of the rows. */
typedef struct {
    tlr_span x;           /* the first member */
    tlr_work *w, *sums;   /* sums: of left factors of several block columns, and their U */
    const panel *pa, *pb; /* the current one */
    bool there;           /* block columns are fetched by the caller */
    backend_type type;    /* of the products */
    double alpha, *d;     /* where they go, from the current rows on */
    int64_t ldd;
    void *t; /* left factors, rows x columns of low-rank tiles of b */
    void *u; /* U of b, low-rank tiles of all block columns side by side */
} job;

/* Element k of one of these. */
static void *at_of(const job *s, void *p, int64_t k) {
    return (char *)p + k * (int64_t)backend_size(s->type);
}

int64_t tlr_span_columns(const tlr_span *s, int64_t k, int64_t q) {
    int64_t c = 0;
    for (int64_t x = s->q0; x < q; x++)
        c += s->b->panel[x].lcols[k - s->b->panel[x].r0];
    return c;
}

int64_t tlr_span_before(const tlr_span *s, int64_t k) {
    int64_t c = 0;
    for (int64_t x = s->ka; x < k; x++)
        c += tlr_span_columns(s, x, s->q1);
    return c;
}

/* Columns of V of b in tile column j. */
static int64_t columns_of_b(const job *s, int64_t j) {
    return panel_vcol(s->pb, s->x.kb, j) - panel_vcol(s->pb, s->x.ka, j);
}

/* --- left factors: one product for a tile of a and all low-rank ones of tile column j of b --- */

/* Where the columns of V of b in tile column j have their left factors. */
static void place_columns(const job *s, int64_t j, scatter_list *l) {
    for (int64_t k = s->x.ka; k < s->x.kb; k++) {
        const tlr_tile *t = panel_tile(s->pb, k, j);
        const int64_t at = tlr_span_before(&s->x, k) + tlr_span_columns(&s->x, k, s->x.q) +
                           tlr_low_before(s->pb, k, j);
        for (int64_t x = 0; t->kind == TLR_LOWRANK && x < t->rank; x++)
            l->column[l->columns++] = at + x;
    }
}

/* Left factors of block column q. */
static status left_factors(job *s) {
    int64_t columns = 0, at = 0, ld;
    scatter_list list;
    void *core;
    status st;
    for (int64_t j = s->pa->c0; j < s->pa->c1; j++)
        columns += columns_of_b(s, j);
    TRY(tlr_common_parts(s->w, s->type, &s->x, &core, &ld));
    TRY(tlr_scatter_open(s->w, tlr_count_left(s->w, &s->x), columns, &list));
    for (int64_t j = s->pa->c0; j < s->pa->c1; j++) { /* while the device is at work */
        const int64_t cols = columns_of_b(s, j);
        place_columns(s, j, &list);
        tlr_list_left(s->w, s->type, &s->x, j, cols, at_of(s, core, ld * at), ld, s->t, at, &list);
        at += cols;
    }
    tlr_work_lap(s->w, TLR_CORES);
    TRY(tlr_scatter_run(s->w, &list, s->type, least(s->x.a->b, s->x.ld), s->x.ld));
    tlr_work_lap(s->w, TLR_SMALL);
done:
    return st;
}

/* U of low-rank tiles of b in block column q to the place where all of a tile row stand side by
 * side: those between two dense ones at once. */
static status collect(job *s) {
    int64_t at = 0;
    status st = MOAO_OK;
    for (int64_t k = s->x.ka; k < s->x.kb; k++) {
        const int64_t n = tlr_extent(s->x.b->rows, k);
        int64_t to = at + tlr_span_columns(&s->x, k, s->x.q) * n, c;
        for (int64_t j = s->pb->c0, end; j < s->pb->c1; j = end + 1) {
            end = tlr_low_run(s->pb, k, j, &c);
            TRY(c == 0 ? MOAO_OK
                       : tlr_full_copy(s->w, s->type, n, c, typed_u(s->x.b, s->type, s->pb, k, j),
                                       n, at_of(s, s->u, to), n));
            to += c * n;
        }
        at += tlr_span_columns(&s->x, k, s->x.q1) * n;
    }
done:
    return st;
}

/* --- all of them --- */

/* Numbers of U of low-rank tiles of b in all block columns together. */
static int64_t collected(const job *s) {
    int64_t c = 0;
    for (int64_t k = s->x.ka; k < s->x.kb; k++)
        c += tlr_span_columns(&s->x, k, s->x.q1) * tlr_extent(s->x.b->rows, k);
    return c;
}

/* Room for the current rows, of all block columns q0 .. q1. */
static status begin_rows(job *s) {
    tlr_work *w = s->x.q1 > s->x.q0 + 1 ? s->sums : s->w;
    status st;
    TRY(tlr_work_typed(w, BUF_PRODUCT, s->type, s->x.ld * tlr_span_before(&s->x, s->x.kb), &s->t));
    TRY(tlr_work_typed(w, BUF_SIDE, s->type, collected(s), &s->u));
done:
    return st;
}

/* What is to be done with block column s->x.q, which is current, at once. */
static status take_panel(job *s) {
    status st;
    s->pa = s->x.a->panel + s->x.q;
    s->pb = s->x.b->panel + s->x.q;
    TRY(left_factors(s));
    TRY(collect(s));
    st = tlr_update_dense(s->w, s->type, &s->x, s->alpha, s->d, s->ldd);
done:
    return st;
}

/* Rows up to which a large product does not fill a device. */
#define FEW_ROWS 16384

static bool few_rows(const tlr_span *s) {
    for (const tlr_strip *x = s->strip; x < s->strip + s->strips; x++)
        if (x->rows > 0 && x->rows < FEW_ROWS)
            return true;
    return false;
}

/* Products of the block on the diagonal, tile by tile, on a device in pieces: of no size that a
 * library is fast at. */
static status list_block(job *s, const tlr_strip *x, gather_list *l) {
    const int64_t *first = s->x.a->rows->first, piece = s->w->ctx ? TLR_PIECE : s->x.b->b,
                  room = (x->h1 - x->h0) * (s->x.kb - s->x.ka) * tlr_pieces(s->x.b->b, piece);
    int64_t before = 0, at = 0;
    status st;
    TRY(tlr_gather_open(s->w, room, room, l));
    for (int64_t k = s->x.ka; k < s->x.kb; k++) {
        const int64_t n = tlr_extent(s->x.b->rows, k), c = tlr_span_columns(&s->x, k, s->x.q1);
        for (int64_t i = tlr_span_first(&s->x, x->h0, k); c > 0 && i < x->h1; i++) {
            const void *t = at_of(s, s->t, before * s->x.ld + x->at + first[i] - first[x->h0]);
            double *d = s->d + first[i] - s->x.row + (first[k] - first[s->x.ka]) * s->ldd;
            for (int64_t y = 0; y < n; y += piece) {
                l->part[l->parts] = (batch_part){t, at_of(s, s->u, at + y), s->x.ld, n, c};
                l->p[l->count++] = (batch_gather){d + y * s->ldd, tlr_extent(s->x.a->rows, i),
                                                  least(piece, n - y), l->parts++, 1};
            }
        }
        before += c;
        at += c * n;
    }
done:
    return st;
}

/* The large product of a strip's rows with tile row k of b, of c columns; before it there are
 * `before` columns of left factors and `at` numbers of U. All of its rows, also those above the
 * diagonal: a library is slower with fewer ones that begin anywhere. */
static status large_product(job *s, const tlr_strip *x, int64_t k, int64_t c, int64_t before,
                            int64_t at) {
    const int64_t *first = s->x.a->rows->first, n = tlr_extent(s->x.b->rows, k),
                  col = s->x.b->rows->first[k] - s->x.b->rows->first[s->x.ka];
    return tlr_add_product(s->w, s->type, BUF_TURNED, 'N', 'T', x->rows, n, c, s->alpha,
                           at_of(s, s->t, before * s->x.ld + x->at), s->x.ld, at_of(s, s->u, at), n,
                           s->d + first[x->h0] - s->x.row + col * s->ldd, s->ldd);
}

/* Those of all of them; of few rows (a member's strip) side by side. */
static status end_rows(job *s) {
    const bool few = s->type == BACKEND_D && few_rows(&s->x); /* others share memory */
    const tlr_strip *const end = s->x.strip + s->x.strips;
    gather_list block = {0};
    int64_t before = 0, at = 0;
    status st = MOAO_OK;
    for (const tlr_strip *x = s->x.strip; x < end; x++)
        if (tlr_is_block(&s->x, x))
            TRY(list_block(s, x, &block));
    if (few)
        TRY(tlr_work_fork(s->w));
    TRY(tlr_gather_run(s->w, &block, s->type, s->x.a->b, s->x.b->b, s->alpha, s->ldd));
    for (int64_t k = s->x.ka; k < s->x.kb; k++) {
        const int64_t c = tlr_span_columns(&s->x, k, s->x.q1);
        for (const tlr_strip *x = s->x.strip; x < end; x++) {
            if (tlr_is_block(&s->x, x))
                continue;
            if (few)
                tlr_work_turn(s->w);
            TRY(large_product(s, x, k, c, before, at));
        }
        before += c;
        at += c * tlr_extent(s->x.b->rows, k);
    }
    if (few)
        TRY(tlr_work_join(s->w));
    tlr_work_lap(s->w, TLR_LARGE);
done:
    return st;
}

static void set_target(job *s, double alpha, double *d, int64_t ldd) {
    s->alpha = alpha;
    s->d = d;
    s->ldd = ldd;
}

/* What is used of block column s->x.q, to the places where it is used. Only a factor is kept apart:
 * a is b, or is not. */
static status fetch(job *s) {
    const int64_t from = least(s->x.ia, s->x.ka);
    return s->x.b->o.host ? tlr_store_fetch_rows(s->w, s->x.b, s->x.q, from, s->x.q + 1, from)
                          : tlr_span_fetch(s->w, s->type, &s->x);
}

static status update_rows(tlr_span *x, double alpha, double *d, int64_t ldd) {
    job *s = (job *)(void *)x;
    status st;
    set_target(s, alpha, d, ldd);
    TRY(begin_rows(s));
    for (s->x.q = s->x.q0; s->x.q < s->x.q1; s->x.q++) {
        if (!s->there)
            TRY(fetch(s));
        TRY(take_panel(s));
    }
    st = end_rows(s);
done:
    return st;
}

/* Columns of b that count where memory is chosen: of a dense tile, which has no left factors, a
 * quarter, so that sums with many of them end too. */
static int64_t columns_that_count(const tlr_span *s) {
    int64_t c = 0;
    for (int64_t x = s->q0; x < s->q1; x++)
        for (int64_t k = s->ka; k < s->kb; k++) {
            const panel *p = s->b->panel + x;
            const int64_t all = p->ucols[k - p->r0], low = p->lcols[k - p->r0];
            c += low + (all - low + 3) / 4;
        }
    return c;
}

/* Whether left factors for tile rows ia .. ib of a, whoever's they are, fit in the memory. */
static bool fits(const tlr_span *s, int64_t ia, int64_t ib) {
    const tlr_layout *l = s->a->rows;
    return (size_t)(l->first[ib] - l->first[ia]) * (size_t)columns_that_count(s) * s->size <=
           s->a->o.memory;
}

/* Tile rows of all strips together. */
static int64_t first_of(const tlr_span *s) {
    return s->strip[0].i0;
}
static int64_t end_of(const tlr_span *s) {
    return s->strip[s->strips - 1].i1;
}

/* q1: as many block columns from q0 on as go together with all rows, up to `end`. */
static void choose_span(tlr_span *s, int64_t end) {
    for (s->q1 = s->q0 + 1; s->q1 < end; s->q1++) {
        s->q1++;
        const bool more = fits(s, first_of(s), end_of(s));
        s->q1--;
        if (!more)
            break;
    }
}

/* Tile rows ia .. ib are current. */
static void take_rows(tlr_span *s, int64_t ia, int64_t ib) {
    const int64_t *first = s->a->rows->first;
    s->ia = ia;
    s->ib = ib;
    s->row = first[ia];
    s->ld = 0;
    for (tlr_strip *x = s->strip; x < s->strip + s->strips; x++) {
        x->h0 = least(largest(x->i0, ia), ib);
        x->h1 = largest(least(x->i1, ib), x->h0);
        x->at = s->ld;
        s->ld += split_pad(first[x->h1] - first[x->h0]);
        x->h1 = x->mine ? x->h1 : x->h0;
        x->rows = first[x->h1] - first[x->h0];
    }
    s->ld = largest(s->ld, 1);
}

/* These block columns; of one that does not go with all rows as many rows at a time as do. */
static status update_span(tlr_span *s, double alpha, double *d, int64_t ldd) {
    const int64_t end = end_of(s);
    status st = MOAO_OK;
    for (int64_t i = first_of(s), to; i < end; i = to) {
        for (to = i + 1; to < end && fits(s, i, to + 1);)
            to++;
        take_rows(s, i, to);
        TRY(s->update(s, alpha, d + s->row - s->a->rows->first[first_of(s)], ldd));
    }
done:
    return st;
}

status tlr_update_spans(tlr_span *s, double alpha, int64_t q1, double *d, int64_t ldd) {
    status st = MOAO_OK;
    for (; s->q0 < q1 && first_of(s) < end_of(s); s->q0 = s->q1) {
        choose_span(s, q1);
        TRY(update_span(s, alpha, d, ldd));
    }
done:
    return st;
}

static job new_job(tlr_work *w, tlr_work *sums, const tlr *a, const tlr *b, int64_t ka, int64_t kb,
                   tlr_strip *strip, int64_t strips) {
    const backend_type type = tlr_type(a) == tlr_type(b) ? tlr_type(a) : BACKEND_D;
    return (job){.x = {.a = a,
                       .b = b,
                       .strip = strip,
                       .strips = strips,
                       .ka = ka,
                       .kb = kb,
                       .size = backend_size(type),
                       .update = update_rows},
                 .w = w,
                 .sums = sums,
                 .type = type};
}

status tlr_update(tlr_work *w, double alpha, const tlr *a, const tlr *b, int64_t q0, int64_t q1,
                  int64_t ia, int64_t ib, int64_t ka, int64_t kb, double *d, int64_t ldd) {
    tlr_strip all = {.i0 = ia, .i1 = ib, .mine = true};
    job s = new_job(w, w, a, b, ka, kb, &all, 1);
    s.x.q0 = q0;
    return tlr_update_spans(&s.x, alpha, q1, d, ldd);
}

status tlr_update_strips(tlr_work *w, const tlr *l, int64_t q0, int64_t q1, int64_t p,
                         tlr_strip *strip, int64_t strips, double *d, int64_t ldd) {
    const panel *here = l->panel + p;
    job s = new_job(w, w, l, l, here->c0, here->c1, strip, strips);
    s.x.q0 = q0;
    s.x.lower = true;
    return l->o.terms > 0 ? tlr_update_split(w, l, q0, q1, p, strip, strips, d, ldd)
                          : tlr_update_spans(&s.x, -1, q1, d, ldd);
}

/* --- in steps --- */

struct tlr_steps {
    job s;
    tlr_strip all;
    double *d;
    int64_t ldd;
    int64_t q1; /* end of the current span, 0: none is */
};

status tlr_steps_open(tlr_work *w, tlr_work *sums, const tlr *l, int64_t p, double *d, int64_t ldd,
                      tlr_steps **out) {
    const panel *here = l->panel + p;
    tlr_steps *x = NULL;
    const status st = ALLOC(x, 1, "steps of an update");
    *out = x;
    if (st == MOAO_OK) {
        *x = (tlr_steps){.s = new_job(w, sums, l, l, here->c0, here->c1, &x->all, 1),
                         .all = {.i0 = here->c0, .i1 = l->rows->nt, .mine = true},
                         .d = d,
                         .ldd = ldd};
        x->s.there = true;
        x->s.x.lower = true;
    }
    return st;
}

void tlr_steps_close(tlr_steps *x) {
    free(x);
}

int64_t tlr_steps_span(tlr_steps *x, int64_t q, int64_t end, int64_t known, size_t *bytes) {
    tlr_span *s = &x->s.x;
    s->q0 = q;
    choose_span(s, least(end, known));
    take_rows(s, x->all.i0, x->all.i1);
    const bool several = s->q1 > q + 1;
    *bytes = several ? s->size * (size_t)(s->ld * tlr_span_before(s, s->kb) + collected(&x->s)) : 0;
    return s->q1 < known || s->q1 == end || !fits(s, s->ia, s->ib) ? s->q1 : -1;
}

status tlr_steps_take(tlr_steps *x, int64_t q, int64_t end, int64_t known) {
    tlr_span *s = &x->s.x;
    size_t bytes;
    status st = MOAO_OK;
    if (x->q1 == 0) {
        x->q1 = tlr_steps_span(x, q, end, known, &bytes);
        if (x->q1 == q + 1) {
            x->q1 = 0;
            return update_span(s, -1, x->d, x->ldd);
        }
        set_target(&x->s, -1, x->d, x->ldd);
        TRY(begin_rows(&x->s));
    }
    const bool last = q + 1 == x->q1;
    s->q = q;
    if (last)
        x->q1 = 0;
    TRY(take_panel(&x->s));
    if (last)
        st = end_rows(&x->s);
done:
    return st;
}
