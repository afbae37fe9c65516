/* Times of a backend's operations, for the benches. */
#ifndef MOAO_BENCH_TIMING_H
#define MOAO_BENCH_TIMING_H

#include "moao/backend.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void check(status st) {
    if (st != MOAO_OK) {
        fprintf(stderr, "%s: %s\n", program_invocation_short_name, status_message());
        exit(1);
    }
}

static inline double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

#define REPEAT 9

/* Median time of a few calls until their results are there [s], after one that warms up. The
 * backend and its context are called be and ctx. */
#define TIME(call)                                                                                 \
    __extension__({                                                                                \
        double t_[REPEAT];                                                                         \
        for (int r_ = -1; r_ < REPEAT; r_++) {                                                     \
            double from_ = now();                                                                  \
            check(call);                                                                           \
            check(be->sync(ctx));                                                                  \
            if (r_ >= 0)                                                                           \
                t_[r_] = now() - from_;                                                            \
        }                                                                                          \
        qsort(t_, REPEAT, sizeof *t_, by_value);                                                   \
        t_[REPEAT / 2];                                                                            \
    })

#endif
