/* Memory that is cut from one piece while a factor is made. Two sides take it, with a stream each:
 * what finishes block columns, and updates ahead of that. */
#ifndef MOAO_TLR_POOL_H
#define MOAO_TLR_POOL_H

#include "moao/backend.h"

typedef struct tlr_pool tlr_pool;

enum { TLR_MAIN, TLR_AHEAD };
/* bytes: of the piece; at: NULL, or where it is, borrowed. *out is NULL where bytes is 0, or where
 * the backend has no room for it. */
status tlr_pool_open(const backend *be, backend_ctx *main, backend_ctx *ahead, size_t bytes,
                     void *at, tlr_pool **out);
/* All has been given back. */
void tlr_pool_close(tlr_pool *x);
/* For work in the stream of a side; low: it does not stay. x may be NULL: the backend's own. */
status tlr_pool_take(tlr_pool *x, const backend *be, backend_ctx *ctx, int side, bool low,
                     size_t bytes, void **p);
/* What is in the stream of that side may still use it. */
void tlr_pool_give(tlr_pool *x, const backend *be, backend_ctx *ctx, int side, void *p);
/* The stream of that side has waited for the other one's. x may be NULL. */
void tlr_pool_met(tlr_pool *x, int side);
/* Whether so many bytes are there at one place, and then so many others at one place; not while
 * anything that was taken found no place. */
bool tlr_pool_fits(const tlr_pool *x, size_t bytes, size_t rest);

#endif
