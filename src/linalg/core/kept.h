/* Memory that a context keeps from one call to the next, so that calls that bring their own
 * workspace (moao/batched.h) do not allocate each time. As the context, it is one thread's at a
 * time. */
#ifndef MOAO_KEPT_H
#define MOAO_KEPT_H

#include "checked.h"

typedef struct {
    char *p;
    size_t bytes;
} kept;

/* That of a context: none at first, and for NULL (the CPU without a context) always NULL. */
kept *kept_of(backend_ctx *ctx);

/* At least so many bytes for the next call, up to 2 GB: more is not kept. What is there is not used
 * any more. Without memory there is none, which is no error. */
void kept_grow(backend_ctx *ctx, kept *k, size_t bytes);

/* Back to the backend. */
void kept_release(backend_ctx *ctx);

/* backend.close with what the context keeps. */
void checked_close(backend_ctx *ctx);

#endif
