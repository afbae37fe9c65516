/* Super-panels of a factor that are kept in another form than doubles in the backend's memory:
 * in single precision, some columns as halves, in the host's memory, or several of these. They come
 * back into one of two places when they are used; while one is in use the next one is on its way,
 * in a stream of its own. What is used is what was kept, so results do not depend on where that
 * was.
 *
 * With halves, first all numbers in single precision stand together, tile by tile, then all halves;
 * a list of runs in the backend's memory leads from there to where they stand in one precision and
 * back. u and v have an exponent each, which brings their largest entry to 2^15: halves keep all
 * bits down to 2^-29 of that, and are wrong by 2^-40 of it below, so that neither each tile nor
 * each column needs an exponent. A half is the first of the two that a solve in terms makes of a
 * number, and the second is 0. */
#include "tlr/internal.h"

#include <math.h>

static bool kept_apart(const tlr *a) {
    return a->factor && (a->o.singles || a->o.host);
}

/* Numbers of u, and where v begins: aligned as memory of its own is, for libraries choose their
 * ways by that. */
static int64_t numbers(const tlr *a, const panel *p) {
    int64_t n = 0;
    for (int64_t i = p->r0; i < p->r1; i++)
        n += p->ucols[i - p->r0] * tlr_extent(a->rows, i);
    return n;
}

static int64_t begin_of_v(const tlr *a, const panel *p) {
    return (numbers(a, p) + 63) / 64 * 64;
}

static int64_t all_numbers(const tlr *a, const panel *p) {
    int64_t n = begin_of_v(a, p);
    for (int64_t k = p->c0; k < p->c1; k++)
        n += p->vcols[k - p->c0] * tlr_extent(a->cols, k);
    return n;
}

static size_t size_of(const tlr *a) {
    return a->o.singles ? sizeof(float) : sizeof(double);
}

void tlr_store_release(tlr *a, panel *p) {
    if (a->o.host)
        a->be->release_host(a->ctx, p->kept);
    else
        a->be->release(a->ctx, p->kept);
    a->be->release(a->ctx, p->run);
    free(p->row_run);
    p->kept = NULL;
    p->row_run = NULL;
    p->singles = NULL;
    p->run = NULL;
}

/* Count numbers in double precision, wherever they are, to what is kept; `to` may be the host's. */
static status keep(tlr_work *w, const tlr *a, int64_t count, const double *from, char *to) {
    const int64_t bytes = count * (int64_t)size_of(a);
    double *staged;
    status st = MOAO_OK;
    if (count == 0)
        return st;
    if (!a->o.singles)
        return w->be->copy(w->ctx, to, bytes, from, bytes, bytes, 1);
    if (!a->o.host)
        return w->be->half->cast_to_single(w->ctx, count, 1, from, count, (float *)(void *)to,
                                           count);
    TRY(tlr_work_room(w, BUF_SLOT, count, &staged));
    TRY(w->be->half->cast_to_single(w->ctx, count, 1, from, count, (float *)(void *)staged, count));
    st = w->be->copy(w->ctx, to, bytes, staged, bytes, bytes, 1);
done:
    return st;
}

#define BOUND_ROWS 256 /* for the largest modulus numbers are taken as columns of so many */

/* Largest modulus of what is kept of u, and of v, n[k] numbers. Waits. */
static status bounds_of(tlr_work *w, const int64_t n[2], const float *const kept[2],
                        double most[2]) {
    double *there, found[4];
    status st;
    TRY(tlr_work_room(w, BUF_BOUND, 4, &there));
    for (int k = 0; k < 2; k++) {
        const int64_t cols = n[k] / BOUND_ROWS, rest = n[k] % BOUND_ROWS;
        TRY(w->be->half->max_abs(w->ctx, BACKEND_S, BOUND_ROWS, cols, kept[k], BOUND_ROWS,
                                 there + 2 * k));
        TRY(w->be->half->max_abs(w->ctx, BACKEND_S, rest, 1, kept[k] + cols * BOUND_ROWS,
                                 largest(rest, 1), there + 2 * k + 1));
    }
    TRY(tlr_dense_copy(w, 4, 1, there, 4, found, 4));
    TRY(w->be->sync(w->ctx));
    for (int k = 0; k < 2; k++)
        most[k] = fmax(found[2 * k], found[2 * k + 1]);
done:
    return st;
}

/* --- with halves --- */

/* The next run: count numbers from `at` on, of which `kept` are there already. */
static void add_run(terms_run *list, int64_t *n, int64_t at, int64_t count, int64_t *kept,
                    bool halves) {
    if (count > 0)
        list[(*n)++] = (terms_run){at, count, halves ? -1 - *kept : *kept};
    *kept += count;
}

/* Those of a tile's columns of so many numbers, the first of which is at `at`. */
static void add_runs(const tlr_tile *t, int64_t numbers, int64_t at, panel *p, terms_run *list,
                     int64_t *n, int64_t *halves) {
    const int64_t whole = (t->rank - t->halves) * numbers, rest = t->halves * numbers;
    add_run(list, n, at, whole, &p->leading, false);
    add_run(list, n, at + whole, rest, halves, true);
    p->longest = largest(p->longest, largest(whole, rest));
}

/* The runs of a super-panel; *halves: numbers that are kept as such. */
static status list_runs(tlr_work *w, const tlr *a, panel *p, int64_t *halves) {
    const int64_t tiles = (p->r1 - p->r0) * (p->c1 - p->c0);
    const int64_t each = (int64_t)(sizeof(terms_run) / sizeof(int64_t));
    int64_t *host, *there, n = 0;
    void *room = NULL;
    status st;
    TRY(ALLOC(p->row_run, (size_t)(2 * (p->r1 - p->r0 + 1)), "runs of columns"));
    TRY(tlr_work_indices(w, each * 4 * tiles, &host, &there));
    terms_run *const list = (terms_run *)(void *)host;
    p->leading = p->longest = *halves = 0;
    for (int v = 0; v < 2; v++) {
        int64_t *const before = p->row_run + v * (p->r1 - p->r0 + 1);
        for (int64_t i = p->r0; i < p->r1; i++) {
            before[i - p->r0] = n;
            for (int64_t k = p->c0; k < p->c1; k++) {
                const int64_t m = v ? tlr_extent(a->cols, k) : tlr_extent(a->rows, i);
                const tlr_tile *t = panel_tile(p, i, k);
                if (v == 0)
                    add_runs(t, m, p->ubegin[i - p->r0] + t->u * m, p, list, &n, halves);
                else if (t->kind == TLR_LOWRANK)
                    add_runs(t, m, p->kept_v + p->vbegin[k - p->c0] + t->v * m, p, list, &n,
                             halves);
            }
        }
        before[p->r1 - p->r0] = n;
    }
    TRY(w->be->alloc(w->ctx, sizeof *p->run * (size_t)largest(n, 1), &room));
    p->run = room;
    st = tlr_work_send(w, each * n, host, (int64_t *)room);
done:
    return st;
}

/* Runs of u (v = 1: of v) in tile rows i0 .. i1, the first of them and how many. */
static int64_t runs_of(const panel *p, int v, int64_t i0, int64_t i1, const terms_run **first) {
    const int64_t *before = p->row_run + v * (p->r1 - p->r0 + 1);
    *first = p->run + before[i0 - p->r0];
    return before[i1 - p->r0] - before[i0 - p->r0];
}

static backend_f16 *halves_of(const panel *p, void *kept) {
    return (backend_f16 *)(void *)((float *)kept + p->leading);
}

/* u and v in single precision to what is kept of them, in the backend's memory. */
static status narrow(tlr_work *w, const panel *p, const float *from, void *kept) {
    status st = MOAO_OK;
    for (int v = 0; v < 2; v++) {
        const terms_run *first;
        const int64_t n = runs_of(p, v, p->r0, p->r1, &first);
        TRY(w->be->terms->narrow(w->ctx, n, first, p->longest, terms_exponent(p->most[v]), from,
                                 kept, halves_of(p, kept)));
    }
done:
    return st;
}

/* The way back, of tile rows i0 .. i1. */
static status widen(tlr_work *w, backend_ctx *ctx, const panel *p, int64_t i0, int64_t i1,
                    void *kept, float *to) {
    status st = MOAO_OK;
    for (int v = 0; v < 2; v++) {
        const terms_run *first;
        const int64_t n = runs_of(p, v, i0, i1, &first);
        TRY(w->be->terms->widen(ctx, n, first, p->longest, terms_exponent(p->most[v]), kept,
                                halves_of(p, kept), to));
    }
done:
    return st;
}

/* A finished super-panel with halves; *bytes: of what is kept of u and v, and *room. */
static status keep_halves(tlr_work *w, const tlr *a, panel *p, void **room, size_t *bytes) {
    const int64_t nu = numbers(a, p), nv = all_numbers(a, p) - p->kept_v;
    int64_t halves;
    double *staged;
    void *there;
    status st;
    TRY(list_runs(w, a, p, &halves));
    *bytes = sizeof(float) * (size_t)p->leading + sizeof(backend_f16) * (size_t)halves;
    st = a->o.host ? a->be->alloc_host(a->ctx, *bytes + 1, room)
                   : a->be->alloc(a->ctx, *bytes + 1, room);
    TRY(st);
    TRY(tlr_work_room(w, BUF_SLOT, (p->kept_v + nv) / 2 + 1, &staged));
    float *const u = (float *)(void *)staged, *const v = u + p->kept_v;
    if (nu > 0)
        TRY(w->be->half->cast_to_single(w->ctx, nu, 1, p->u, nu, u, nu));
    if (nv > 0)
        TRY(w->be->half->cast_to_single(w->ctx, nv, 1, p->v, nv, v, nv));
    TRY(bounds_of(w, (int64_t[2]){nu, nv}, (const float *[2]){u, v}, p->most));
    there = *room;
    if (a->o.host)
        TRY(tlr_work_typed(w, BUF_PRODUCT, BACKEND_S, (int64_t)(*bytes / sizeof(float)) + 1,
                           &there));
    TRY(narrow(w, p, u, there));
    if (a->o.host)
        TRY(w->be->copy(w->ctx, *room, (int64_t)*bytes, there, (int64_t)*bytes, (int64_t)*bytes,
                        1));
    *bytes += sizeof *p->run * (size_t)p->row_run[2 * (p->r1 - p->r0) + 1];
done:
    return st;
}

/* One without. */
static status keep_all(tlr_work *w, const tlr *a, panel *p, void **room, size_t *bytes) {
    const int64_t nu = p->kept_v, n = all_numbers(a, p);
    char *kept;
    status st;
    *bytes = (size_t)largest(n, 1) * size_of(a);
    st = a->o.host ? a->be->alloc_host(a->ctx, *bytes, room) : a->be->alloc(a->ctx, *bytes, room);
    TRY(st);
    kept = *room;
    TRY(keep(w, a, numbers(a, p), p->u, kept));
    TRY(keep(w, a, n - nu, p->v, kept + (size_t)nu * size_of(a)));
    if (a->o.singles && !a->o.host)
        p->singles = *room;
    if (a->o.terms > 0)
        TRY(bounds_of(w, (int64_t[2]){numbers(a, p), n - nu},
                      (const float *[2]){p->singles, p->singles + nu}, p->most));
done:
    return st;
}

status tlr_store_panel(tlr_work *w, tlr *a, int64_t q) {
    panel *p = a->panel + q;
    void *room = NULL;
    size_t bytes = 0;
    status st;
    if (!kept_apart(a))
        return MOAO_OK;
    p->kept_v = begin_of_v(a, p);
    TRY(a->o.halves ? keep_halves(w, a, p, &room, &bytes) : keep_all(w, a, p, &room, &bytes));
    if (a->o.host)
        TRY(w->be->sync(w->ctx));
    w->be->release(w->ctx, p->u);
    w->be->release(w->ctx, p->v);
    p->u = p->v = NULL;
    p->bytes = (double)bytes + 8.0 * (double)(p->width * p->width);
done:
    p->kept = room;
    if (st != MOAO_OK) { /* u and v are still the panel's own */
        tlr_store_release(a, p);
    }
    return st;
}

/* --- back --- */

static void leave(tlr_place *s) {
    if (s->p)
        s->p->u = s->p->v = NULL;
    s->p = NULL;
}

/* The same of the place for singles; another one may have them since. */
static void leave_singles(tlr_place *s) {
    if (s->p && s->p->singles == s->at)
        s->p->singles = NULL;
    s->p = NULL;
}

void tlr_store_forget(tlr_work *w) {
    for (int k = 0; k < 2; k++) {
        leave(&w->place[k]);
        w->be->release(w->ctx, w->place[k].at);
        w->be->release(w->ctx, w->place[k].raw);
        w->be->release(w->ctx, w->place[k].single);
        w->place[k] = (tlr_place){0};
    }
    leave_singles(&w->narrow);
    w->be->release(w->ctx, w->narrow.at);
    free(w->narrow.row);
    w->narrow = (tlr_place){0};
    if (w->feed)
        w->be->close(w->feed);
    w->feed = NULL;
}

static status room_for(tlr_work *w, void **at, size_t *has, size_t bytes) {
    if (*at && *has >= bytes)
        return MOAO_OK;
    w->be->release(w->ctx, *at);
    *at = NULL;
    *has = 0;
    const status st = w->be->alloc(w->ctx, bytes, at);
    *has = st == MOAO_OK ? bytes : 0;
    return st;
}

/* Bytes of what is kept. */
static int64_t kept_bytes(const tlr *a, const panel *p) {
    const int64_t n = all_numbers(a, p);
    if (!a->o.halves)
        return n * (int64_t)size_of(a);
    const int64_t used = numbers(a, p) + n - p->kept_v;
    return p->leading * (int64_t)sizeof(float) + (used - p->leading) * (int64_t)sizeof(backend_f16);
}

/* The panel's way into place s, in the stream of ctx. */
static status bring(tlr_work *w, backend_ctx *ctx, const tlr *a, panel *p, tlr_place *s) {
    const int64_t n = all_numbers(a, p), bytes = kept_bytes(a, p);
    void *from = p->kept;
    status st;
    leave(s);
    TRY(room_for(w, &s->at, &s->bytes, (size_t)largest(n, 1) * sizeof(double)));
    if (n > 0 && a->o.host && a->o.singles) {
        TRY(room_for(w, &s->raw, &s->raw_bytes, (size_t)bytes));
        TRY(w->be->copy(ctx, s->raw, bytes, p->kept, bytes, bytes, 1));
        from = s->raw;
    }
    if (n > 0 && a->o.halves) {
        TRY(room_for(w, &s->single, &s->single_bytes, (size_t)n * sizeof(float)));
        TRY(widen(w, ctx, p, p->r0, p->r1, from, s->single));
        from = s->single;
    }
    if (n > 0 && a->o.singles)
        TRY(w->be->half->cast_to_double(ctx, n, 1, 1, from, n, 0, s->at, n));
    else if (n > 0)
        TRY(w->be->copy(ctx, s->at, bytes, p->kept, bytes, bytes, 1));
    s->p = p;
    p->u = s->at;
    p->v = p->u + begin_of_v(a, p);
done:
    return st;
}

/* Where the memory of a place is too small it is taken anew, which waits for all streams. */
status tlr_store_fetch(tlr_work *w, const tlr *a, int64_t q, int64_t next) {
    panel *p = a->panel + q;
    tlr_place *other;
    status st = MOAO_OK;
    if (!kept_apart(a) || !p->kept)
        return MOAO_OK; /* in doubles: it is in hand, or all are */
    if (!w->feed && a->o.host && w->ctx)
        TRY(w->be->open_low_priority(w->ctx, &w->feed));
    if (!p->u) {
        TRY(bring(w, w->ctx, a, p, &w->place[w->last = 1 - w->last]));
    } else if (w->feed && w->place[w->last].p != p) { /* it was on its way */
        w->last = 1 - w->last;
        TRY(w->be->wait_for(w->ctx, w->feed));
    }
    other = &w->place[1 - w->last];
    if (w->feed && next >= 0 && next < a->panels && next != q && a->panel[next].kept &&
        !a->panel[next].u) {
        TRY(w->be->wait_for(w->feed, w->ctx)); /* until what was there before is used */
        TRY(bring(w, w->feed, a, a->panel + next, other));
    }
done:
    return st;
}

/* The place for singles, where nothing of p is yet. */
static status open_singles(tlr_work *w, const tlr *a, panel *p) {
    tlr_place *s = &w->narrow;
    status st;
    leave_singles(s);
    free(s->row);
    s->row = NULL;
    TRY(ALLOC(s->row, (size_t)(p->r1 - p->r0), "tile rows"));
    TRY(room_for(w, &s->at, &s->bytes, (size_t)largest(all_numbers(a, p), 1) * sizeof(float)));
    s->p = p;
    p->singles = s->at;
done:
    return st;
}

status tlr_store_typed(tlr_work *w, const tlr *a, backend_type t, int64_t q, int64_t i0, int64_t i1,
                       int64_t next) {
    panel *p = a->panel + q;
    tlr_place *s = &w->narrow;
    status st = MOAO_OK;
    if (t == BACKEND_D)
        return tlr_store_fetch(w, a, q, next);
    if (!a->o.halves)
        return st;
    if (s->p != p || p->singles != s->at)
        TRY(open_singles(w, a, p));
    for (int64_t end; i0 < i1; i0 = end) {
        for (end = i0 + 1; end < i1 && s->row[end - p->r0] == s->row[i0 - p->r0];)
            end++;
        if (s->row[i0 - p->r0])
            continue;
        TRY(widen(w, w->ctx, p, i0, end, p->kept, s->at));
        memset(s->row + (i0 - p->r0), true, (size_t)(end - i0) * sizeof *s->row);
    }
done:
    return st;
}
