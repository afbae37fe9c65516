/* Memory that contexts keep (kept.h): a list, for a backend's context is its own. */
#include "kept.h"

#include <pthread.h>
#include <stdlib.h>

#define MOST ((size_t)2 << 30)

typedef struct entry {
    backend_ctx *ctx;
    kept memory;
    struct entry *next;
} entry;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static entry *all;

static entry **find(const backend_ctx *ctx) {
    entry **e = &all;
    while (*e && (*e)->ctx != ctx)
        e = &(*e)->next;
    return e;
}

kept *kept_of(backend_ctx *ctx) {
    if (!ctx)
        return NULL;
    pthread_mutex_lock(&lock);
    entry **e = find(ctx), *found = *e;
    if (!found && (found = calloc(1, sizeof *found))) {
        found->ctx = ctx;
        *e = found;
    }
    pthread_mutex_unlock(&lock);
    return found ? &found->memory : NULL;
}

void kept_grow(backend_ctx *ctx, kept *k, size_t bytes) {
    const backend *own = backend_own(ctx);
    const bool quiet = status_message()[0] == '\0';
    void *p = NULL;
    if (!k || bytes <= k->bytes || bytes > MOST)
        return;
    own->release(ctx, k->p);
    *k = (kept){0};
    if (own->alloc(ctx, bytes, &p) == MOAO_OK)
        *k = (kept){p, bytes};
    else if (quiet)
        status_clear();
}

void kept_release(backend_ctx *ctx) {
    if (!ctx)
        return;
    pthread_mutex_lock(&lock);
    entry **e = find(ctx), *found = *e;
    if (found)
        *e = found->next;
    pthread_mutex_unlock(&lock);
    if (found)
        backend_own(ctx)->release(ctx, found->memory.p);
    free(found);
}

void checked_close(backend_ctx *ctx) {
    if (!ctx)
        return;
    kept_release(ctx);
    backend_own(ctx)->close(ctx);
}
