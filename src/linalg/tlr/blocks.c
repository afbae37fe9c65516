/* Memory for the block columns of a factor, the host's or the device's: blocks of many block
 * columns, for taking memory takes time, most of all to pin pages, and giving it back waits for the
 * device. They are taken before they are needed, while the device is at work, and go back with the
 * factor.
 */
#include "internal.h"

#define BLOCK ((int64_t)1 << 30) /* bytes */

struct tlr_block {
    char *at;
    int64_t bytes, used;
    tlr_block *before; /* taken earlier */
};

/* A block for block columns from q on, of which the first takes so many bytes and the others about
 * as many. */
static status take(tlr *a, int64_t q, int64_t bytes) {
    const int64_t all = largest(bytes, least(bytes * (a->panels - q), BLOCK));
    tlr_block *h = NULL;
    void *at = NULL;
    status st;
    TRY(ALLOC(h, 1, "block of memory"));
    TRY(a->o.host ? a->be->alloc_host(a->ctx, (size_t)all, &at)
                  : a->be->alloc(a->ctx, (size_t)all, &at));
    *h = (tlr_block){.at = at, .bytes = all, .before = a->memory};
    a->memory = h;
    h = NULL;
done:
    free(h);
    return st;
}

static bool has_room(const tlr_block *h, int64_t bytes) {
    return h && h->bytes - h->used >= bytes;
}

status tlr_block_room(tlr *a, int64_t q, int64_t bytes, char **p) {
    tlr_block *h = a->memory;
    status st = MOAO_OK;
    bytes = tlr_block_round(bytes); /* places in memory are those of memory of its own */
    if (!has_room(h, bytes) && !has_room(h ? h->before : NULL, bytes))
        TRY(take(a, q, bytes));
    h = a->memory->before;
    if (!has_room(h, bytes)) /* the last but one is filled up first */
        h = a->memory;
    *p = h->at + h->used;
    h->used += bytes;
done:
    return st;
}

/* Half as much again as the block column before took. */
status tlr_block_prepare(tlr *a, int64_t q) {
    const panel *before = a->panel + q - 1;
    if (!a->o.host || q == 0)
        return MOAO_OK;
    const int64_t bytes = (int64_t)before->bytes - 8 * before->width * before->width,
                  wanted = (bytes + bytes / 2) / 512 * 512 + 512;
    return has_room(a->memory, wanted) ? MOAO_OK : take(a, q, wanted);
}

void tlr_block_free(tlr *a) {
    while (a->memory) {
        tlr_block *h = a->memory;
        a->memory = h->before;
        if (a->o.host)
            a->be->release_host(a->ctx, h->at);
        else
            a->be->release(a->ctx, h->at);
        free(h);
    }
}
