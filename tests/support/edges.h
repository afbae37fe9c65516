/* Sizes at the edge and what a call with them has to return, for tests of every entry of the
 * library. */
#ifndef MOAO_TESTS_EDGES_H
#define MOAO_TESTS_EDGES_H

#include "support/hier_case.h"

enum { N = 6, ROOM = 4 * N * N };

static const int64_t sizes[] = {-1, 0, 1, 3, INT64_MAX, INT64_MIN};
enum { SIZES = sizeof sizes / sizeof *sizes };

/* A call with legal arguments has to succeed, one with others is MOAO_INPUT. */
static inline void expect(status st, bool legal, const char *what, int64_t m, int64_t n,
                          int64_t ld) {
    const int64_t most = (int64_t)1 << 30; /* beyond, a library may refuse what is legal */
    if (legal && (m > most || n > most || ld > most) && st == MOAO_INPUT)
        legal = false;
    if (st != (legal ? MOAO_OK : MOAO_INPUT))
        fail_msg("%s, %lld x %lld, ld %lld: status %d, %s", what, (long long)m, (long long)n,
                 (long long)ld, (int)st, status_message());
    assert_true((st == MOAO_OK) == (status_message()[0] == '\0'));
    status_clear();
}

/* Numbers in the backend's memory: an SPD matrix of order N at the head, dominant everywhere. */
static inline void *numbers(backend_type t) {
    void *host = malloc(ROOM * sizeof(double));
    for (int i = 0; i < ROOM; i++) {
        const double v = i % (N + 1) == 0 ? 4 : 0.25 / (1 + i % 5);
        if (t == BACKEND_D)
            ((double *)host)[i] = v;
        else
            ((float *)host)[i] = (float)v;
    }
    void *p = device_copy(host, ROOM * sizeof(double));
    free(host);
    return p;
}

/* Whether a block of so many rows may have that leading dimension. */
static inline bool fits(int64_t rows, int64_t ld) {
    return rows >= 0 && ld >= (rows > 1 ? rows : 1);
}

/* Sizes that the arrays of this test hold, or of which nothing is touched. */
static inline bool holds(int64_t m, int64_t n, int64_t ld) {
    return m <= 0 || n <= 0 || (m <= 3 && n <= 3 && ld <= N) || !fits(m, ld);
}

#endif
