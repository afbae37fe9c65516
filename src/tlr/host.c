/* Memory of the host for the super-panels of a factor: blocks of many super-panels, for pages are
 * pinned faster so, and taken before they are needed, while the device is at work. They go back
 * with the factor. */
#include "tlr/internal.h"

#define BLOCK ((int64_t)1 << 30) /* bytes */

struct tlr_host {
    char *at;
    int64_t bytes, used;
    tlr_host *before; /* taken earlier */
};

/* A block for super-panels from q on, of which the first takes so many bytes and the others about
 * as many. */
static status take(tlr *a, int64_t q, int64_t bytes) {
    const int64_t all = largest(bytes, least(bytes * (a->panels - q), BLOCK));
    tlr_host *h = NULL;
    void *at = NULL;
    status st;
    TRY(ALLOC(h, 1, "block of the host's memory"));
    TRY(a->be->alloc_host(a->ctx, (size_t)all, &at));
    *h = (tlr_host){.at = at, .bytes = all, .before = a->host};
    a->host = h;
    h = NULL;
done:
    free(h);
    return st;
}

static bool has_room(const tlr_host *h, int64_t bytes) {
    return h && h->bytes - h->used >= bytes;
}

status tlr_host_room(tlr *a, int64_t q, int64_t bytes, char **p) {
    tlr_host *h;
    status st = MOAO_OK;
    bytes = (bytes + 511) / 512 * 512; /* places in memory are those of memory of its own */
    if (!has_room(a->host, bytes) && !has_room(a->host ? a->host->before : NULL, bytes))
        TRY(take(a, q, bytes));
    h = a->host->before;
    if (!has_room(h, bytes)) /* the last but one is filled up first */
        h = a->host;
    *p = h->at + h->used;
    h->used += bytes;
done:
    return st;
}

/* Half as much again as the super-panel before took. */
status tlr_host_prepare(tlr *a, int64_t q) {
    const panel *before = a->panel + q - 1;
    if (!a->o.host || q == 0)
        return MOAO_OK;
    const int64_t bytes = (int64_t)before->bytes - 8 * before->width * before->width,
                  wanted = (bytes + bytes / 2) / 512 * 512 + 512;
    return has_room(a->host, wanted) ? MOAO_OK : take(a, q, wanted);
}

void tlr_host_free(tlr *a) {
    while (a->host) {
        tlr_host *h = a->host;
        a->host = h->before;
        a->be->release_host(a->ctx, h->at);
        free(h);
    }
}
