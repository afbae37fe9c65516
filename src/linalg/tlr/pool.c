/* The memory that making a factor may take, one piece of the backend's from which buffers are cut:
 * to take memory from the backend takes time, and to give it back waits for all that the device has
 * to do. What is given back here may still be in use by what is in a stream; who takes it next
 * waits for that in its own stream. What waits for its turn, D of block columns above all, lies at
 * the lower end, where one after another comes and goes; what stays lies at the upper end. What
 * does not fit is the backend's own. */
#include "pool.h"
#include "internal.h"

#define UNIT ((size_t)512) /* places in it are those of memory of its own */

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
    void *mine; /* at, unless that is borrowed */
    part *part; /* by place; all of the piece */
    int64_t count, room;
    int64_t beyond; /* taken from the backend, at present */
};

status tlr_pool_open(const backend *be, backend_ctx *main, backend_ctx *ahead, size_t bytes,
                     void *at, tlr_pool **out) {
    tlr_pool *x = NULL;
    void *mine = NULL;
    status st;
    *out = NULL;
    bytes = bytes / UNIT * UNIT;
    if (bytes == 0)
        return MOAO_OK;
    if (at == NULL && be->alloc(main, bytes, &mine) != MOAO_OK) {
        status_clear();
        return MOAO_OK;
    }
    TRY(ALLOC(x, 1, "memory of a factor"));
    *x = (tlr_pool){
        .be = be, .ctx = {main, ahead}, .at = at != NULL ? at : mine, .mine = mine, .room = 64};
    mine = NULL;
    TRY(ALLOC(x->part, (size_t)x->room, "memory of a factor"));
    x->part[x->count++] = (part){.at = x->at, .bytes = bytes};
    *out = x;
    x = NULL;
done:
    be->release(main, mine);
    tlr_pool_close(x);
    return st;
}

void tlr_pool_close(tlr_pool *x) {
    if (!x)
        return;
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

bool tlr_pool_fits(const tlr_pool *x, size_t bytes, size_t rest) {
    const int64_t at = x->beyond > 0 ? -1 : find(x, bytes, true);
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

status tlr_pool_take(tlr_pool *x, const backend *be, backend_ctx *ctx, int side, bool low,
                     size_t bytes, void **p) {
    const size_t exact = bytes;
    bytes = bytes > 0 ? (bytes + UNIT - 1) / UNIT * UNIT : UNIT;
    int64_t k = x ? find(x, bytes, low) : -1;
    status st;
    *p = NULL;
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
    if (k < 0 || k + 1 >= x->count || x->part[k].taken || x->part[k + 1].taken)
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
