/* The backend under test with counted allocations, one of which fails: be becomes it in
 * counting_begin, and is itself again after counting_end. */
#ifndef MOAO_TESTS_TLR_COUNTED_H
#define MOAO_TESTS_TLR_COUNTED_H

#include "support/backend.h"

static const backend *whole; /* the backend itself */
static backend counted;
static int64_t left, live; /* allocations until one fails, < 0: none; what is not released yet */

static status count_alloc(backend_ctx *c, size_t bytes, void **p) {
    if (left-- == 0)
        return status_fail(MOAO_MEMORY, "no memory for a test");
    const status st = whole->alloc(c, bytes, p);
    live += st == MOAO_OK;
    return st;
}
static void count_release(backend_ctx *c, void *p) {
    live -= p != NULL;
    whole->release(c, p);
}
static status count_alloc_host(backend_ctx *c, size_t bytes, void **p) {
    if (left-- == 0)
        return status_fail(MOAO_MEMORY, "no pinned memory for a test");
    const status st = whole->alloc_host(c, bytes, p);
    live += st == MOAO_OK;
    return st;
}
static void count_release_host(backend_ctx *c, void *p) {
    live -= p != NULL;
    whole->release_host(c, p);
}

static void counting_begin(void) {
    whole = be;
    counted = *be;
    counted.alloc = count_alloc, counted.release = count_release;
    counted.mapped = NULL; /* all is counted */
    counted.alloc_host = count_alloc_host, counted.release_host = count_release_host;
    be = &counted;
    left = -1;
}
static void counting_end(void) {
    be = whole;
}

#endif
