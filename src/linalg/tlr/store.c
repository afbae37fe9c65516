/* Block columns of a factor that are kept in another form than doubles in the backend's memory:
 * in single precision, some columns in FP16 (fp16.c), in the host's memory, or several of
 * these. From the host's memory they come into one of two places when they are used; while one is
 * in use the next one is in transit, in a stream of its own. Where products use it, in their
 * precision, one block column is at a time. What is used is what was kept, so results do not depend
 * on where that was. */
#include "distributed.h"

#include <math.h>

static bool kept_apart(const tlr *a) {
    return a->factor && (a->o.fp32 || a->o.host);
}

/* Numbers of u, and where v begins: aligned as memory of its own is, for libraries choose their
 * ways by that. */
static int64_t numbers(const tlr *a, const panel *p) {
    return panel_ubegin(a, p, p->r1);
}

int64_t tlr_store_begin_of_v(const tlr *a, const panel *p) {
    return (numbers(a, p) + 63) / 64 * 64;
}

int64_t tlr_store_numbers(const tlr *a, const panel *p) {
    int64_t n = tlr_store_begin_of_v(a, p);
    for (int64_t k = p->c0; k < p->c1; k++)
        n += p->vcols[k - p->c0] * tlr_extent(a->cols, k);
    return n;
}

static size_t size_of(const tlr *a) {
    return backend_size(tlr_kept(a));
}

void tlr_store_release(tlr *a, panel *p) {
    if (!a->o.host) /* the host's memory goes with the factor */
        a->be->release(a->ctx, p->kept);
    a->be->release(a->ctx, p->run);
    free(p->row_run);
    p->kept = NULL;
    p->row_run = NULL;
    p->fp32 = NULL;
    p->run = NULL;
}

/* u and v of a finished panel, in doubles, as they are kept. */
static status as_kept(tlr_work *w, const tlr *a, const panel *p, void *to) {
    const int64_t n[2] = {numbers(a, p), tlr_store_numbers(a, p) - p->kept_v};
    const double *const from[2] = {p->u, p->v};
    status st = MOAO_OK;
    for (int k = 0; k < 2; k++) {
        char *const there = (char *)to + (size_t)(k * p->kept_v) * size_of(a);
        if (n[k] > 0 && a->o.fp32)
            TRY(w->be->fp16->cast_to_single(w->ctx, n[k], 1, from[k], n[k], (float *)(void *)there,
                                            n[k]));
        else
            TRY(tlr_dense_copy(w, n[k], 1, from[k], n[k], (double *)(void *)there, n[k]));
    }
done:
    return st;
}

/* The same to the host's memory; single precision goes concurrently with what follows in the stream
 * of w, where there is a stream for it. */
static status to_host(tlr_work *w, backend_ctx *feed, const tlr *a, const panel *p) {
    const int64_t n = tlr_store_numbers(a, p), bytes = n * (int64_t)size_of(a);
    void *staged;
    status st;
    if (!a->o.fp32)
        return as_kept(w, a, p, p->kept);
    if (feed) /* the one before is in transit from there */
        TRY(w->be->wait_for(w->ctx, feed));
    TRY(tlr_work_typed(w, BUF_SLOT, BACKEND_S, n, &staged));
    TRY(as_kept(w, a, p, staged));
    if (feed)
        TRY(w->be->wait_for(feed, w->ctx));
    st = n > 0 ? w->be->copy(feed ? feed : w->ctx, p->kept, bytes, staged, bytes, bytes, 1)
               : MOAO_OK;
done:
    return st;
}

#define BOUND_ROWS 256 /* for the largest modulus numbers are taken as columns of so many */

status tlr_store_bounds(tlr_work *w, const int64_t n[2], const float *const kept[2],
                        double most[2]) {
    double *there, found[4];
    status st;
    TRY(tlr_work_room(w, BUF_BOUND, 4, &there));
    for (int k = 0; k < 2; k++) {
        const int64_t cols = n[k] / BOUND_ROWS, rest = n[k] % BOUND_ROWS;
        TRY(w->be->fp16->max_abs(w->ctx, BACKEND_S, BOUND_ROWS, cols, kept[k], BOUND_ROWS,
                                 there + 2 * k));
        TRY(w->be->fp16->max_abs(w->ctx, BACKEND_S, rest, 1, kept[k] + cols * BOUND_ROWS,
                                 largest(rest, 1), there + 2 * k + 1));
    }
    TRY(tlr_dense_copy(w, 4, 1, there, 4, found, 4));
    TRY(w->be->sync(w->ctx));
    for (int k = 0; k < 2; k++)
        most[k] = fmax(found[2 * k], found[2 * k + 1]);
done:
    return st;
}

/* Another place may have them since. */
static void leave(tlr_place *s) {
    if (s->p && s->p->fp32 == s->at)
        s->p->fp32 = NULL;
    if (s->p && s->p->u == s->at)
        s->p->u = s->p->v = NULL;
    s->p = NULL;
}

status tlr_store_room(tlr_work *w, void **at, size_t *has, size_t bytes) {
    if (*at && *has >= bytes)
        return MOAO_OK;
    bytes = (size_t)tlr_more((int64_t)bytes, (int64_t)*has);
    tlr_work_give(w, *at);
    *at = NULL;
    *has = 0;
    const status st = tlr_work_take(w, bytes, at);
    *has = st == MOAO_OK ? bytes : 0;
    return st;
}

/* Memory of a place for panel p, for work that follows in the stream of w. */
static status place_room(tlr_work *w, const tlr *a, const panel *p, tlr_place *s) {
    const size_t bytes = (size_t)largest(tlr_store_numbers(a, p), 1) * size_of(a);
    status st = MOAO_OK;
    s->busy = s->busy || s->bytes < bytes;
    if (s->bytes < bytes && s->at &&
        w->feed) /* one that nobody asked for may be in transit there */
        TRY(w->be->wait_for(w->ctx, w->feed));
    st = tlr_store_room(w, &s->at, &s->bytes, bytes);
done:
    return st;
}

/* The panel current, which is in transit to the host, to a place of `to` as well, in the stream of
 * that. */
static status hand_over(tlr_work *to, const tlr_work *w, const tlr *a, panel *p) {
    tlr_place *const s = &to->place[to->last = 1 - to->last];
    status st;
    leave(s);
    TRY(to->be->wait_for(to->ctx, w->ctx));
    if (to->feed)
        TRY(to->be->wait_for(to->ctx, to->feed));
    TRY(place_room(to, a, p, s));
    TRY(as_kept(to, a, p, s->at));
    s->p = p;
    s->i0 = 0;
    s->busy = true;
done:
    return st;
}

/* What is to come into places waits for what has used them. */
static status let_come(tlr_work *w) {
    w->place[0].busy = w->place[1].busy = false;
    return w->feed ? w->be->wait_for(w->feed, w->ctx) : MOAO_OK;
}

/* A finished block column in one precision; *bytes: of what is kept of u and v; feed: the stream
 * for what goes to the host, or NULL. */
static status keep_all(tlr_work *w, backend_ctx *feed, tlr *a, int64_t q, size_t *bytes) {
    panel *p = a->panel + q;
    const int64_t nu = p->kept_v, n = tlr_store_numbers(a, p);
    void *room = NULL;
    char *there = NULL;
    status st;
    *bytes = (size_t)largest(n, 1) * size_of(a);
    if (a->o.host)
        TRY(tlr_block_room(a, q, (int64_t)*bytes, &there));
    else
        TRY(a->be->alloc(a->ctx, *bytes, &room));
    p->kept = a->o.host ? there : room;
    if (a->o.fp32 && !a->o.host)
        p->fp32 = room;
    TRY(a->o.host ? to_host(w, feed, a, p) : as_kept(w, a, p, p->kept));
    if (tlr_takes_split(a))
        TRY(tlr_store_bounds(w, (int64_t[2]){numbers(a, p), n - nu},
                             (const float *[2]){p->fp32, p->fp32 + nu}, p->most));
done:
    return st;
}

status tlr_store_panel(tlr_work *w, tlr_work *to, tlr *a, int64_t q) {
    panel *p = a->panel + q;
    if (!kept_apart(a))
        return MOAO_OK;
    size_t bytes = 0;
    status st;
    p->kept_v = tlr_store_begin_of_v(a, p);
    if (to) /* before its way to the host, which takes longer, for that waits for what is in the
               feed */
        TRY(hand_over(to, w, a, p));
    TRY(a->o.fp16 ? tlr_fp16_keep(w, a, p, &bytes)
                  : keep_all(w, to ? to->feed : NULL, a, q, &bytes));
    tlr_panel_give(a, p);
    p->bytes = (double)bytes + 8.0 * (double)(p->width * p->width);
done:
    if (st != MOAO_OK) { /* u and v are still the panel's own */
        tlr_store_release(a, p);
        if (to)
            leave(&to->place[to->last]);
    }
    return st;
}

static void let_go(tlr_work *w, tlr_place *s) {
    leave(s);
    tlr_work_give(w, s->at);
    free(s->row);
    *s = (tlr_place){0};
}

void tlr_store_forget(tlr_work *w) {
    let_go(w, &w->place[0]);
    let_go(w, &w->place[1]);
    let_go(w, &w->used);
    if (w->feed)
        w->be->close(w->feed);
    w->feed = NULL;
}

/* From where a panel is as it is kept to the same places of `to`, as it is or in doubles. */
typedef struct {
    tlr_work *w;
    backend_ctx *ctx;
    const tlr *a;
    const char *from;
    char *to;
    widen_list *wide; /* NULL: as it is */
} passage;

/* n elements from element `at` on. */
static status bring_part(const passage *s, int64_t at, int64_t n) {
    const int64_t size = (int64_t)size_of(s->a), bytes = n * size;
    const backend *be = s->w->be;
    if (n == 0)
        return MOAO_OK;
    if (s->wide)
        return tlr_widen_add(s->w, s->wide, (const float *)(const void *)s->from + at,
                             (double *)(void *)s->to + at, n);
    s->w->fetched += (double)bytes;
    return be->copy(s->ctx, s->to + at * size, bytes, s->from + at * size, bytes, bytes, 1);
}

/* Tile rows i0 .. i1, r0 <= i0: of some of them U in one piece, V of each tile column in another.
 * All are copied at once, with what lies between U and V, which nothing sets; it is not widened. */
static status bring_rows(const passage *s, const panel *p, int64_t i0, int64_t i1) {
    const tlr *a = s->a;
    const int64_t u = panel_ubegin(a, p, i0);
    status st;
    if (i0 == p->r0 && i1 == p->r1 && !s->wide)
        return bring_part(s, 0, tlr_store_numbers(a, p));
    TRY(bring_part(s, u, panel_ubegin(a, p, i1) - u));
    for (int64_t k = p->c0; k < p->c1; k++) {
        const int64_t before = panel_vcol(p, i0, k), n = tlr_extent(a->cols, k);
        TRY(bring_part(s, p->kept_v + p->vbegin[k - p->c0] + before * n,
                       (panel_vcol(p, i1, k) - before) * n));
    }
done:
    return st;
}

/* The panel's way from the host's memory into place s from tile row i0 on, in the stream of ctx,
 * after what is in that of w, which uses what was there before. */
static status bring(tlr_work *w, backend_ctx *ctx, const tlr *a, panel *p, int64_t i0,
                    tlr_place *s) {
    status st;
    leave(s);
    TRY(place_room(w, a, p, s));
    if (ctx != w->ctx && s->busy)
        TRY(let_come(w));
    if (ctx == w->ctx)
        s->busy = true;
    TRY(bring_rows(&(passage){w, ctx, a, p->kept, s->at, NULL}, p, largest(i0, p->r0), p->r1));
    s->p = p;
    s->i0 = i0;
done:
    return st;
}

/* Tile rows i0 .. i1 from what is kept of them to the place where they are used, in type t. */
static status convert_rows(tlr_work *w, const tlr *a, const panel *p, backend_type t, int64_t i0,
                           int64_t i1, void *kept) {
    widen_list wide = {.count = 0};
    void *fp32 = t == BACKEND_S ? w->used.at : kept;
    status st = MOAO_OK;
    if (a->o.fp16 && t == BACKEND_D)
        TRY(tlr_work_typed(w, BUF_SLOT, BACKEND_S, tlr_store_numbers(a, p), &fp32));
    if (a->o.fp16)
        TRY(tlr_fp16_widen(w, p, i0, i1, kept, fp32));
    if (t == BACKEND_D)
        TRY(bring_rows(&(passage){w, w->ctx, a, fp32, w->used.at, &wide}, p, i0, i1));
    st = tlr_widen_run(w, &wide);
done:
    return st;
}

/* Those of tile rows i0 .. i1 that are not there. */
static status use_rows(tlr_work *w, const tlr *a, backend_type t, int64_t q, int64_t i0, int64_t i1,
                       void *kept) {
    const panel *p = a->panel + q;
    status st;
    TRY(tlr_store_place(w, a, t, q));
    bool *const there = w->used.row;
    for (int64_t i = largest(i0, p->r0), end; i < i1; i = end) {
        for (end = i + 1; end < i1 && there[end - p->r0] == there[i - p->r0];)
            end++;
        if (there[i - p->r0])
            continue;
        TRY(convert_rows(w, a, p, t, i, end, kept));
        memset(there + (i - p->r0), true, (size_t)(end - i) * sizeof *there);
    }
done:
    return st;
}

/* Which place of w holds panel p from tile row i0 on, -1: none. */
static int place_of(tlr_work *w, const panel *p, int64_t i0) {
    for (int k = 0; k < 2; k++)
        if (w->place[k].p == p && w->place[k].i0 <= i0)
            return k;
        else if (w->place[k].p == p)
            leave(&w->place[k]); /* too few of its rows */
    return -1;
}

status tlr_store_wait(tlr_work *w) {
    return w->feed ? w->be->sync(w->feed) : MOAO_OK;
}

status tlr_store_feed(tlr_work *w, const tlr *a) {
    return !w->feed && a->o.host && w->ctx ? w->be->open_low_priority(w->ctx, &w->feed) : MOAO_OK;
}

/* Panel p from the host's memory into a place, the last one that is used from then on, and the
 * `next` one after it in transit. Where the memory of a place is too small it is taken anew, which
 * waits for all streams. */
static status fetch_rows(tlr_work *w, const tlr *a, panel *p, int64_t i0, panel *next,
                         int64_t next_i0) {
    status st;
    TRY(tlr_store_feed(w, a));
    const int at = place_of(w, p, i0);
    if (at != w->last && w->feed) /* it was in transit, or what was is not wanted */
        TRY(w->be->wait_for(w->ctx, w->feed));
    if (at < 0)
        TRY(bring(w, w->ctx, a, p, i0, &w->place[w->last = 1 - w->last]));
    else
        w->last = at;
    if (w->feed && next && next != p && next->kept && place_of(w, next, next_i0) < 0)
        TRY(bring(w, w->feed, a, next, next_i0, &w->place[1 - w->last]));
done:
    return st;
}

status tlr_store_fetch_rows(tlr_work *w, const tlr *a, int64_t q, int64_t i0, int64_t next,
                            int64_t next_i0) {
    panel *p = a->panel + q;
    status st;
    if (!kept_apart(a) || !p->kept)
        return MOAO_OK; /* in doubles: it is current, or all are */
    if (a->spread)
        return tlr_distributed_rows(w, a, BACKEND_D, q, i0, p->r1);
    if (!a->o.host)
        return use_rows(w, a, BACKEND_D, q, i0, p->r1, p->kept);
    TRY(fetch_rows(w, a, p, i0, next >= 0 && next < a->panels ? a->panel + next : NULL, next_i0));
    void *const at = w->place[w->last].at;
    w->place[w->last].busy = true;
    if (a->o.fp32) {
        TRY(use_rows(w, a, BACKEND_D, q, i0, p->r1, at));
        return let_come(w); /* another one may come now */
    }
    p->u = at;
    p->v = p->u + p->kept_v;
done:
    return st;
}

status tlr_store_fetch(tlr_work *w, const tlr *a, int64_t q, int64_t next) {
    return tlr_store_fetch_rows(w, a, q, 0, next, 0);
}

status tlr_store_place(tlr_work *w, const tlr *a, backend_type t, int64_t q) {
    panel *p = a->panel + q;
    tlr_place *s = &w->used;
    status st;
    if (s->p == p && (t == BACKEND_D ? (void *)p->u : p->fp32) == s->at)
        return MOAO_OK;
    leave(s);
    free(s->row);
    s->row = NULL;
    TRY(ALLOC(s->row, (size_t)(p->r1 - p->r0), "tile rows"));
    TRY(tlr_store_room(w, &s->at, &s->bytes,
                       (size_t)largest(tlr_store_numbers(a, p), 1) * backend_size(t)));
    s->p = p;
    if (t == BACKEND_D) {
        p->u = s->at;
        p->v = p->u + p->kept_v;
    } else {
        p->fp32 = s->at;
    }
done:
    return st;
}

status tlr_store_typed(tlr_work *w, const tlr *a, backend_type t, int64_t q, int64_t i0, int64_t i1,
                       int64_t next) {
    if (a->spread)
        return tlr_distributed_rows(w, a, t, q, i0, i1);
    if (a->o.host)
        return tlr_store_fetch(w, a, q, next);
    if (!kept_apart(a) || !a->panel[q].kept || (t == BACKEND_S && !a->o.fp16))
        return MOAO_OK;
    return use_rows(w, a, t, q, i0, i1, a->panel[q].kept);
}
