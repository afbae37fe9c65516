/* A left-looking factor by several members (tlr.h): the tile rows below a block column's diagonal
 * block are cut into parts, each of which is updated, divided and compressed by the member whose
 * turn it is. Products of a library are made of one part at a time, so that their sizes, on which
 * bits depend, do not depend on how many members there are; all else, where the bits of a tile do
 * not depend on other tiles, takes all rows of a member at once. Which block columns share large
 * products, and which rows go together, depends on all rows, whoever has them.
 *
 * Members meet three times in a block column: for the pivots, for the ranks of the tiles, and for
 * their columns, which every member sends to the others in one message. Up to the next meeting a
 * member that fails is alone with it, and tells the others there. */
#include "update.h"

#include <math.h>

void tlr_part(const tlr *l, int64_t p, int64_t k, int64_t *i0, int64_t *i1) {
    const panel *here = l->panel + p;
    const int64_t rows = here->r1 - here->r0, parts = tlr_parts(l);
    if (l->block > 0) {
        *i0 = least(largest(k * l->block, here->r0), here->r1);
        *i1 = least(largest((k + 1) * l->block, here->r0), here->r1);
        return;
    }
    *i0 = here->r0 + rows * k / parts;
    *i1 = here->r0 + rows * (k + 1) / parts;
}

/* The same in every block column, so that a member needs the entries of few rows. Parts are dealt
 * out forwards and backwards in turn, for those near the diagonal have the higher ranks; the blocks
 * of a factor that is spread forwards (distributed.c). */
static int owner(const tlr_procs *m, const tlr *l, int64_t k) {
    if (!m)
        return 0;
    const int64_t at = k % m->size;
    return (int)(l->block == 0 && k / m->size % 2 ? m->size - 1 - at : at);
}

bool tlr_part_is_mine(const tlr_procs *m, const tlr *l, int64_t k) {
    return !m || owner(m, l, k) == m->rank;
}

void tlr_rows_of(const tlr_procs *m, const tlr *l, int64_t p, bool *rows) {
    int64_t i0, i1;
    for (int64_t k = 0; k < tlr_parts(l); k++) {
        tlr_part(l, p, k, &i0, &i1);
        for (int64_t i = i0; i < i1; i++)
            rows[i - l->panel[p].r0] = tlr_part_is_mine(m, l, k);
    }
}

status tlr_merge(const tlr_procs *m, status local, int64_t *v, int64_t n) {
    return m ? m->merge(m->arg, local, v, n) : local;
}

/* Strips of block column p: the block on the diagonal, then each part; without parts all rows. */
static status strips_of(const tlr_procs *m, const tlr *l, int64_t p, tlr_strip **out,
                        int64_t *count) {
    const panel *here = l->panel + p;
    tlr_strip *s;
    status st;
    *count = l->o.parts > 0 ? 1 + tlr_parts(l) : 1;
    TRY(ALLOC(*out, (size_t)*count, "strips of tile rows"));
    s = *out;
    s[0] = (tlr_strip){.i0 = here->c0, .i1 = *count > 1 ? here->c1 : l->rows->nt, .mine = true};
    for (int64_t k = 0; k + 1 < *count; k++) {
        tlr_part(l, p, k, &s[k + 1].i0, &s[k + 1].i1);
        s[k + 1].mine = tlr_part_is_mine(m, l, k);
    }
done:
    return st;
}

/* Strips that follow one another, of this member or of others, are a run. */
static int64_t end_of_run(const tlr_strip *s, int64_t strips, int64_t k) {
    int64_t end = k + 1;
    while (end < strips && s[end].mine == s[k].mine)
        end++;
    return end;
}

static int64_t runs_of(const tlr_strip *s, int64_t strips) {
    int64_t n = 0;
    for (int64_t k = 0; k < strips; k = end_of_run(s, strips, k))
        n += s[k].mine;
    return n;
}

/* Tile columns j0 .. j1 of them; D begins at tile column c0. */
static status fill_columns(const tlr_source *from, const tlr *l, const tlr_strip *s, int64_t strips,
                           int64_t c0, int64_t j0, int64_t j1, double *d, int64_t ldd) {
    const int64_t *first = l->rows->first, top = first[c0], col = first[j0];
    status st = MOAO_OK;
    for (int64_t k = 0, end; k < strips; k = end) {
        end = end_of_run(s, strips, k);
        const int64_t row = first[s[k].i0], rows = first[s[end - 1].i1] - row;
        if (s[k].mine && rows > 0)
            TRY(from->fill(from->arg, row, rows, col, first[j1] - col,
                           d + row - top + (col - top) * ldd, ldd));
    }
done:
    return st;
}

/* Strips of a run are asked for at once; where there are several runs, tile column by tile column,
 * for of what a source holds of one (tlr_cmm.c: the columns of a sensor) the others are made too.
 */
status tlr_fill_own(const tlr_source *from, const tlr *l, int64_t p, double *d, int64_t ldd) {
    const tlr_procs *m = from->own_rows ? from->members : NULL;
    const int64_t c0 = l->panel[p].c0, c1 = l->panel[p].c1;
    tlr_strip *s = NULL;
    int64_t strips;
    status st;
    TRY(strips_of(m, l, p, &s, &strips));
    const int64_t step = runs_of(s, strips) > 1 ? 1 : c1 - c0;
    for (int64_t j = c0; j < c1; j += step)
        TRY(fill_columns(from, l, s, strips, c0, j, j + step, d, ldd));
done:
    free(s);
    return st;
}

status tlr_update_own(tlr_work *w, const tlr_procs *m, const tlr *l, int64_t q0, int64_t q1,
                      int64_t p, double *d, int64_t ldd) {
    tlr_strip *strip = NULL;
    int64_t strips;
    status st;
    TRY(strips_of(m, l, p, &strip, &strips));
    st = tlr_update_strips(w, l, q0, q1, p, strip, strips, d, ldd);
done:
    free(strip);
    return st;
}

/* --- ranks --- */

/* A tile in one number: its kind, rank, and columns that are kept in FP16. */
#define KINDS 4
#define RANKS ((int64_t)1 << 24)
static int64_t packed(const tlr_tile *t) {
    return (t->fp16 * RANKS + t->rank) * KINDS + (int64_t)t->kind;
}

/* A number of each tile, which its owner has: `get` it, merge, `put` it. */
static status share_numbers(const tlr_procs *m, const tlr *l, int64_t p, status local,
                            int64_t (*get)(const tlr_tile *t),
                            void (*put)(tlr_tile *t, int64_t v)) {
    const panel *here = l->panel + p;
    const int64_t rows = here->r1 - here->r0, cols = here->c1 - here->c0;
    int64_t *v = NULL;
    bool *mine = NULL;
    status st = local;
    if (st == MOAO_OK)
        st = ALLOC(v, (size_t)(rows * cols), "ranks of tiles");
    if (st == MOAO_OK)
        st = ALLOC(mine, (size_t)rows, "tile rows");
    if (st == MOAO_OK)
        tlr_rows_of(m, l, p, mine);
    for (int64_t t = 0; st == MOAO_OK && t < rows * cols; t++)
        v[t] = mine[t / cols] ? get(here->tile + t) : -1;
    st = tlr_merge(m, st, v, rows * cols);
    for (int64_t t = 0; st == MOAO_OK && t < rows * cols; t++)
        if (!mine[t / cols])
            put(here->tile + t, v[t]);
    free(v), free(mine);
    return st;
}

static void put_kind(tlr_tile *t, int64_t v) {
    t->kind = (tlr_kind)(v % KINDS);
    t->rank = (int32_t)(v / KINDS % RANKS);
    t->fp16 = (int32_t)(v / KINDS / RANKS);
    t->dropped = NAN;
}

status tlr_share_kinds(const tlr_procs *m, const tlr *l, int64_t p, status local) {
    return m ? share_numbers(m, l, p, local, packed, put_kind) : local;
}

static int64_t get_dropped(const tlr_tile *t) {
    return tlr_bits_of(fabs(t->dropped));
}

static void put_dropped(tlr_tile *t, int64_t v) {
    t->dropped = tlr_number_of(v);
}

/* --- columns --- */

typedef struct {
    tlr_work *w;
    const tlr *l;
    const panel *p;
    bool fp32;
    char *message;
    widen_list wide;
    bool out; /* into the message, or from it */
    int64_t at;
} packing;

/* n numbers in doubles, which follow in the message. */
static status pack(packing *s, double *x, int64_t n) {
    const int64_t size = (int64_t)(s->fp32 ? sizeof(float) : sizeof(double));
    char *there = s->message + s->at * size;
    const backend *be = s->w->be;
    s->at += n;
    if (n == 0 || !s->message)
        return MOAO_OK;
    if (s->fp32)
        return s->out ? be->fp16->cast_to_single(s->w->ctx, n, 1, x, n, (float *)(void *)there, n)
                      : tlr_widen_add(s->w, &s->wide, (float *)(void *)there, x, n);
    return s->out ? be->copy(s->w->ctx, there, n * size, x, n * size, n * size, 1)
                  : be->copy(s->w->ctx, x, n * size, there, n * size, n * size, 1);
}

/* U of tile rows i0 .. i1, and V of all tile columns in these rows. */
static status pack_part(packing *s, int64_t i0, int64_t i1) {
    const panel *p = s->p;
    const int64_t u = panel_ubegin(s->l, p, i0);
    status st = MOAO_OK;
    if (i0 < i1)
        TRY(pack(s, p->u + u, panel_ubegin(s->l, p, i1) - u));
    for (int64_t k = p->c0; i0 < i1 && k < p->c1; k++)
        TRY(pack(s, panel_v(s->l, p, i0, k),
                 (panel_vcol(p, i1, k) - panel_vcol(p, i0, k)) * tlr_extent(s->l->cols, k)));
done:
    return st;
}

/* All of member r; s->at: numbers of its message. Without a message they are only counted. */
static status pack_member(packing *s, const tlr_procs *m, int64_t p, int r) {
    int64_t i0, i1;
    status st = MOAO_OK;
    s->at = 0;
    for (int64_t k = 0; k < tlr_parts(s->l); k++) {
        tlr_part(s->l, p, k, &i0, &i1);
        if (owner(m, s->l, k) == r)
            TRY(pack_part(s, i0, i1));
    }
    st = tlr_widen_run(s->w, &s->wide);
done:
    s->wide.count = 0;
    return st;
}

/* Every member's columns, one after another. One that cannot read or write them goes on, so that
 * none waits for it, and tells when they meet next. */
static status broadcast(packing *s, const tlr_procs *m, int64_t p) {
    const size_t size = s->fp32 ? sizeof(float) : sizeof(double);
    char *const message = s->message;
    status st = MOAO_OK, now;
    for (int r = 0; r < m->size; r++) {
        s->out = r == m->rank;
        s->message = s->out ? message : NULL;
        now = pack_member(s, m, p, r);
        st = st == MOAO_OK ? now : st;
        s->message = message;
        if (s->at > 0)
            now = m->bcast(m->arg, message, (size_t)s->at * size, r);
        st = st == MOAO_OK ? now : st;
        if (!s->out && st == MOAO_OK)
            st = pack_member(s, m, p, r);
    }
    return st;
}

status tlr_share_dropped(const tlr_procs *m, const tlr *l, int64_t p, status local) {
    return l->o.norms ? share_numbers(m, l, p, local, get_dropped, put_dropped)
                      : tlr_merge(m, local, NULL, 0);
}

status tlr_share_columns(tlr_work *w, const tlr_procs *m, const tlr *l, int64_t p, status local) {
    packing s = {.w = w, .l = l, .p = l->panel + p, .fp32 = l->o.fp32};
    int64_t most = 0;
    void *room = NULL;
    status st = local;
    if (!m)
        return local;
    for (int r = 0; st == MOAO_OK && r < m->size; r++) {
        st = pack_member(&s, m, p, r);
        most = largest(most, s.at);
    }
    if (st == MOAO_OK)
        st = tlr_work_typed(w, BUF_MESSAGE, s.fp32 ? BACKEND_S : BACKEND_D, most, &room);
    st = tlr_share_dropped(m, l, p, st);
    s.message = room;
    return st == MOAO_OK ? broadcast(&s, m, p) : st;
}
