#include "extents.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    uintptr_t from, to;
} array;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool on;
static array *known; /* sorted by address */
static size_t count, room;

static void begin(void) {
    const char *word = getenv("MOAO_CHECK_MEMORY");
    on = word != NULL && strcmp(word, "yes") == 0;
}

static bool is_on(void) {
    pthread_once(&once, begin);
    return on;
}

/* Arrays that begin at or before p. */
static size_t before(uintptr_t p) {
    size_t low = 0, high = count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (known[middle].from <= p)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void extents_add(const void *p, size_t bytes) {
    if (!is_on() || p == NULL)
        return;
    pthread_mutex_lock(&lock);
    if (count == room) {
        array *more = realloc(known, (2 * room + 64) * sizeof *known);
        if (more == NULL) { /* what is not known is not checked */
            pthread_mutex_unlock(&lock);
            return;
        }
        known = more;
        room = 2 * room + 64;
    }
    const size_t at = before((uintptr_t)p);
    memmove(known + at + 1, known + at, (count++ - at) * sizeof *known);
    known[at] = (array){(uintptr_t)p, (uintptr_t)p + bytes};
    pthread_mutex_unlock(&lock);
}

void extents_remove(const void *p) {
    if (!is_on() || p == NULL)
        return;
    pthread_mutex_lock(&lock);
    const size_t at = before((uintptr_t)p);
    if (at > 0 && known[at - 1].from == (uintptr_t)p)
        memmove(known + at - 1, known + at, (count-- - at) * sizeof *known);
    pthread_mutex_unlock(&lock);
}

/* Bytes by which an operand is longer than what is left of its array. */
static size_t beyond(const extent *x) {
    const uintptr_t from = (uintptr_t)x->p;
    size_t excess = 0;
    if (x->p == NULL || x->rows <= 0 || x->cols <= 0)
        return 0;
    const uintptr_t to = from + ((size_t)(x->cols - 1) * (size_t)x->ld + (size_t)x->rows) * x->size;
    pthread_mutex_lock(&lock);
    const size_t at = before(from);
    if (at > 0 && from < known[at - 1].to && to > known[at - 1].to)
        excess = to - known[at - 1].to;
    pthread_mutex_unlock(&lock);
    return excess;
}

status extents_check(status st, const char *name, int n, const extent *x) {
    for (int i = 0; st == MOAO_OK && is_on() && i < n; i++) {
        const size_t excess = beyond(&x[i]);
        if (excess == 0)
            continue;
        fprintf(stderr,
                "moao: %s: operand %d (%lld x %lld, leading dimension %lld) ends %zu bytes beyond "
                "its array\n",
                name, i + 1, (long long)x[i].rows, (long long)x[i].cols, (long long)x[i].ld,
                excess);
        abort();
    }
    return st;
}
