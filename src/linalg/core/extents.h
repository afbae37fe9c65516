/* Where arrays of the backends begin and end. With MOAO_CHECK_MEMORY=yes, as the tests have it,
 * the checked operations end the program at an operand that begins in an array and ends beyond it,
 * on every backend: a workspace that was sized by another formula than its user's is found by the
 * first call. */
#ifndef MOAO_EXTENTS_H
#define MOAO_EXTENTS_H

#include "moao/status.h"

#include <stddef.h>
#include <stdint.h>

typedef struct {   /* a matrix, column-major */
    const void *p; /* memory that is no array of a backend is fine, and so is NULL */
    int64_t rows, cols, ld;
    size_t size; /* of an element [bytes] */
} extent;

/* Local. An array begins, or is released. */
void extents_add(const void *p, size_t bytes);
void extents_remove(const void *p);

/* Local. st; where that is MOAO_OK and one of n operands ends beyond its array, the program ends
 * with the operation's name. */
status extents_check(status st, const char *name, int n, const extent *x);

#endif
