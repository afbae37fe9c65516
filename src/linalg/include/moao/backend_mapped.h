/* Memory of a device in pages that can come to other addresses: what is free in many places becomes
 * one place, and what is in use stays where it is. */
#ifndef MOAO_BACKEND_MAPPED_H
#define MOAO_BACKEND_MAPPED_H

#include "backend.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct moao_mapped_memory moao_mapped_memory; /* such memory of one context's device */

typedef struct moao_backend_mapped {
    size_t size; /* sizeof(moao_backend_mapped) */
    /* Local. Memory of `bytes` at most, in whole pages of *page bytes, at *at; addresses from there
     * on for `room` bytes, which hold nothing further yet. pages: into how many it is cut, about.
     * MOAO_INPUT: not on this device; MOAO_MEMORY. Then *out is NULL. */
    moao_status (*open)(moao_backend_ctx *ctx, size_t bytes, size_t room, size_t pages,
                        size_t *page, size_t *mapped, void **at, moao_mapped_memory **out);
    /* Local. The `count` pages at from[] [bytes from the beginning, whole pages] come to `to`, one
     * after another, where nothing is; addresses at from[] hold nothing then. Their contents are
     * undefined, and no work in a stream may use them. */
    moao_status (*move)(moao_mapped_memory *x, size_t count, const size_t *from, size_t to);
    /* Local; no work in a stream uses it. close(NULL) is fine. */
    void (*close)(moao_mapped_memory *x);
} moao_backend_mapped;

#ifdef __cplusplus
}
#endif
#endif
