/* For those who write a backend. Its own table is what it implements: arguments have been checked
 * before an operation of it is called (checked.h), what it does not check is in range. A pointer of
 * an operation may be NULL: the backend lacks it, and callers are told so. The members that are no
 * typed operations (up to workspace, and the families' bytes, open and close) must be there, and so
 * must the tables batch, half, lowrank and sparse, be they without an operation. */
#ifndef MOAO_BACKEND_OWN_H
#define MOAO_BACKEND_OWN_H

#include "moao/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What every context begins with, so that the checked operations find the backend's own. */
typedef struct {
    const backend *own;
} backend_head;

extern const backend backend_cpu_own;

/* The one way to say that a backend has no operation of that name: MOAO_INPUT. */
static inline status backend_lacks(const backend *b, const char *operation) {
    return status_fail(MOAO_INPUT, "the %s backend has no %s", b->name, operation);
}

#ifdef __cplusplus
}
#endif
#endif
