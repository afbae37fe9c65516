/* The memory that making a factor may take, one piece of the backend's from which buffers are cut:
 * to take memory from the backend takes time, and to give it back waits for all that the device has
 * to do. What is given back here may still be in use by what is in a stream; who takes it next
 * waits for that in its own stream. What waits for its turn, D of block columns above all, lies at
 * the lower end, where one after another comes and goes; what stays lies at the upper end. What
 * does not fit is the backend's own.
 *
 * Where the backend has memory by pages (moao/backend_mapped.h), no buffer fails for holes: if none
 * is large enough, free pages of several come to one place, whose addresses follow from what is
 * unused of a range ROOM times as large. That waits for both streams, and what is taken stays. */
#include "pool.h"
#include "internal.h"
#include "moao/backend_mapped.h"

#define UNIT ((size_t)512) /* places in it are those of memory of its own */
#define PAGES 4096         /* of memory that can be moved; fewer where they would be too small */
#define ROOM 8             /* addresses, by the memory behind them */

typedef struct {
    char *at;
    size_t bytes;
    bool taken;
    unsigned in_use; /* by work in the streams of these sides, where it is not taken */
} part;

struct tlr_pool {
    const backend *be;
    backend_ctx *ctx[2]; /* of the sides */
    char *at;
    void *mine;         /* at, unless that is borrowed or mapped */
    mapped_memory *map; /* NULL: the piece stays one */
    size_t page, range; /* of it: bytes of a page, and of addresses */
    part *part;         /* by place; all of the piece */
    int64_t count, room;
    int64_t beyond; /* taken from the backend, at present */
};

/* A piece by pages; NULL: the backend has none, or no room for it as such. */
static void *map_pages(const backend *be, backend_ctx *ctx, size_t *bytes, size_t *page,
                       mapped_memory **map) {
    void *at = NULL;
    size_t got = 0;
    if (be->mapped == NULL)
        return NULL;
    if (be->mapped->open(ctx, *bytes, ROOM * *bytes, PAGES, page, &got, &at, map) != MOAO_OK) {
        status_clear();
        return NULL;
    }
    *bytes = got;
    return at;
}

status tlr_pool_open(const backend *be, backend_ctx *main, backend_ctx *ahead, size_t bytes,
                     void *at, tlr_pool **out) {
    tlr_pool *x = NULL;
    void *mine = NULL;
    mapped_memory *map = NULL;
    size_t page = 0;
    status st;
    *out = NULL;
    bytes = bytes / UNIT * UNIT;
    if (bytes == 0)
        return MOAO_OK;
    if (at == NULL)
        at = map_pages(be, main, &bytes, &page, &map);
    if (at == NULL && be->alloc(main, bytes, &mine) != MOAO_OK) {
        status_clear();
        return MOAO_OK;
    }
    TRY(ALLOC(x, 1, "memory of a factor"));
    *x = (tlr_pool){.be = be,
                    .ctx = {main, ahead},
                    .at = at != NULL ? at : mine,
                    .mine = mine,
                    .map = map,
                    .page = page,
                    .range = ROOM * bytes,
                    .room = 64};
    mine = NULL, map = NULL;
    TRY(ALLOC(x->part, (size_t)x->room, "memory of a factor"));
    x->part[x->count++] = (part){.at = x->at, .bytes = bytes};
    *out = x;
    x = NULL;
done:
    be->release(main, mine);
    if (map != NULL)
        be->mapped->close(map);
    tlr_pool_close(x);
    return st;
}

void tlr_pool_close(tlr_pool *x) {
    if (!x)
        return;
    if (x->map != NULL) { /* which does not wait by itself */
        x->be->sync(x->ctx[0]), x->be->sync(x->ctx[1]);
        x->be->mapped->close(x->map);
    }
    x->be->release(x->ctx[0], x->mine);
    free(x->part);
    free(x);
}

void tlr_pool_met(tlr_pool *x, int side) {
    for (int64_t k = 0; x && k < x->count; k++)
        x->part[k].in_use &= 1U << side;
}

/* The part from which so many bytes are to be cut, -1: none. The lowest; or the smallest, of like
 * ones the last. */
static int64_t find(const tlr_pool *x, size_t bytes, bool low) {
    int64_t found = -1;
    for (int64_t k = 0; k < x->count && (found < 0 || !low); k++)
        if (!x->part[k].taken && x->part[k].bytes >= bytes &&
            (found < 0 || x->part[k].bytes <= x->part[found].bytes))
            found = k;
    return found;
}

/* Whole pages of a free part, from *first on [bytes from the beginning]. */
static size_t free_pages(const tlr_pool *x, const part *p, size_t *first) {
    const size_t from = (size_t)(p->at - x->at), a = (from + x->page - 1) / x->page,
                 b = (from + p->bytes) / x->page;
    *first = a * x->page;
    return p->taken || b <= a ? 0 : b - a;
}

static size_t all_free_pages(const tlr_pool *x) {
    size_t pages = 0, first;
    for (int64_t k = 0; k < x->count; k++)
        pages += free_pages(x, x->part + k, &first);
    return pages;
}

static size_t pages_of(const tlr_pool *x, size_t bytes) {
    return (bytes + x->page - 1) / x->page;
}

bool tlr_pool_fits(const tlr_pool *x, size_t bytes, size_t rest) {
    const int64_t at = x->beyond > 0 ? -1 : find(x, bytes, true);
    if (x->map != NULL && x->beyond == 0 &&
        pages_of(x, bytes) + pages_of(x, rest) <= all_free_pages(x))
        return true;
    for (int64_t k = 0; at >= 0 && k < x->count; k++)
        if (!x->part[k].taken && x->part[k].bytes >= rest + (k == at ? bytes : 0))
            return true;
    return false;
}

static status one_more(tlr_pool *x) {
    if (x->count < x->room)
        return MOAO_OK;
    part *more = realloc(x->part, 2 * (size_t)x->room * sizeof *more);
    if (!more)
        return status_fail(MOAO_MEMORY, "cannot allocate a list of %lld pieces of memory",
                           2 * (long long)x->room);
    x->part = more;
    x->room *= 2;
    return MOAO_OK;
}

/* Addresses for so many bytes behind which nothing is, in whole pages from the beginning; where the
 * part to come stands in the list. -1: there are none. */
static int64_t unused(const tlr_pool *x, size_t bytes, size_t *to) {
    size_t from = 0;
    for (int64_t k = 0; k <= x->count; k++) {
        const size_t end = k < x->count ? (size_t)(x->part[k].at - x->at) : x->range;
        if (end >= from && end - from >= bytes) {
            *to = from;
            return k;
        }
        if (k < x->count)
            from = (end + x->part[k].bytes + x->page - 1) / x->page * x->page;
    }
    return -1;
}

/* Part k without `bytes` of it from `first` on: what is before them and after them stays. Room for
 * one part more is there. */
static void take_out(tlr_pool *x, int64_t k, size_t first, size_t bytes) {
    part *const p = x->part + k;
    const size_t from = (size_t)(p->at - x->at), after = from + p->bytes - (first + bytes);
    const bool before = first > from;
    const part rest = {.at = x->at + first + bytes, .bytes = after, .in_use = p->in_use};
    p->bytes = first - from;
    if (before && after > 0) {
        memmove(p + 2, p + 1, (size_t)(x->count - k - 1) * sizeof *p);
        p[1] = rest;
        x->count++;
    } else if (after > 0) {
        *p = rest;
    } else if (!before) {
        memmove(p, p + 1, (size_t)(x->count - k - 1) * sizeof *p);
        x->count--;
    }
}

/* A free part of so many bytes at least, of pages of several; -1: there are not enough. */
static status gather_pages(tlr_pool *x, size_t bytes, int64_t *found) {
    const size_t pages = x->map != NULL ? pages_of(x, bytes) : 0;
    size_t *from = NULL, to = 0, n = 0;
    status st = MOAO_OK;
    *found = -1;
    if (x->map == NULL || pages > all_free_pages(x) || unused(x, pages * x->page, &to) < 0)
        return MOAO_OK;
    TRY(ALLOC(from, pages, "pages of memory"));
    for (int side = 0; side < 2; side++)
        TRY(x->be->sync(x->ctx[side]));
    for (int64_t k = 0; k < x->count; k++)
        x->part[k].in_use = 0;
    for (int64_t k = x->count - 1; k >= 0 && n < pages; k--) { /* the upper ones: what stays */
        size_t first, has = free_pages(x, x->part + k, &first);
        has = has < pages - n ? has : pages - n;
        if (has == 0)
            continue;
        TRY(one_more(x));
        for (size_t i = 0; i < has; i++)
            from[n++] = first + i * x->page;
        take_out(x, k, first, has * x->page);
    }
    TRY(one_more(x));
    TRY(x->be->mapped->move(x->map, n, from, to));
    *found = 0; /* its place among what is left */
    while (*found < x->count && (size_t)(x->part[*found].at - x->at) < to)
        ++*found;
    memmove(x->part + *found + 1, x->part + *found, (size_t)(x->count - *found) * sizeof *x->part);
    x->part[*found] = (part){.at = x->at + to, .bytes = n * x->page};
    x->count++;
done:
    free(from);
    return st;
}

status tlr_pool_take(tlr_pool *x, const backend *be, backend_ctx *ctx, int side, bool low,
                     size_t bytes, void **p) {
    const size_t exact = bytes;
    bytes = bytes > 0 ? (bytes + UNIT - 1) / UNIT * UNIT : UNIT;
    int64_t k = x ? find(x, bytes, low) : -1;
    status st;
    *p = NULL;
    if (x && k < 0)
        TRY(gather_pages(x, bytes, &k));
    if (k < 0) {
        st = be->alloc(ctx, exact, p);
        if (x)
            x->beyond += st == MOAO_OK;
        return st;
    }
    TRY(one_more(x));
    if (x->part[k].in_use & ~(1U << side)) {
        TRY(x->be->wait_for(x->ctx[side], x->ctx[1 - side]));
        tlr_pool_met(x, side);
    }
    if (x->part[k].bytes > bytes) { /* in two, of which one is free */
        part *const here = x->part + k;
        memmove(here + 1, here, (size_t)(x->count - k) * sizeof *here);
        const size_t cut = low ? bytes : here->bytes - bytes;
        here->bytes = cut;
        here[1].at += cut;
        here[1].bytes -= cut;
        x->count++;
        k += !low;
    }
    x->part[k].taken = true;
    *p = x->part[k].at;
done:
    return st;
}

/* Part k and the one after it, where both are free. */
static void join(tlr_pool *x, int64_t k) {
    if (k < 0 || k + 1 >= x->count || x->part[k].taken || x->part[k + 1].taken ||
        x->part[k].at + x->part[k].bytes != x->part[k + 1].at)
        return;
    x->part[k].bytes += x->part[k + 1].bytes;
    x->part[k].in_use |= x->part[k + 1].in_use;
    x->count--;
    memmove(x->part + k + 1, x->part + k + 2, (size_t)(x->count - k - 1) * sizeof *x->part);
}

/* The part that begins at p, -1: none does. */
static int64_t part_at(const tlr_pool *x, const void *p) {
    int64_t k = x ? x->count - 1 : -1;
    while (k >= 0 && x->part[k].at != p)
        k--;
    return k;
}

void tlr_pool_give(tlr_pool *x, const backend *be, backend_ctx *ctx, int side, void *p) {
    const int64_t k = part_at(x, p);
    if (k < 0) {
        if (x && p)
            x->beyond--;
        be->release(ctx, p);
        return;
    }
    x->part[k].taken = false;
    x->part[k].in_use = 1U << side;
    join(x, k);
    join(x, k - 1);
}
