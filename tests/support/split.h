/* What tests of products of FP16 numbers in several terms share: numbers, their halves, ways there
 * and back. */
#ifndef MOAO_TESTS_SPLIT_H
#define MOAO_TESTS_SPLIT_H

#include "moao/backend_split.h"
#include "support/matrix.h"

#define POISON 0x7e5a /* a NaN */

static inline void *sent(const void *host, size_t bytes) {
    void *there = NULL;
    must(be->alloc(ctx, bytes, &there));
    must(be->copy(ctx, there, (int64_t)bytes, host, (int64_t)bytes, (int64_t)bytes, 1));
    must(be->sync(ctx));
    return there;
}

static inline void fetched(void *host, const void *there, size_t bytes) {
    must(be->copy(ctx, host, (int64_t)bytes, there, (int64_t)bytes, (int64_t)bytes, 1));
    must(be->sync(ctx));
}

static inline backend_f16 *poisoned(int64_t n) {
    backend_f16 *h = malloc(sizeof *h * (size_t)n);
    for (int64_t i = 0; i < n; i++)
        h[i] = POISON;
    return h;
}

static inline float *numbers(int64_t n) {
    float *x = malloc(sizeof *x * (size_t)n);
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)ldexp(lin_random(), (int)(20 * lin_random()));
    x[n / 2] = NAN;
    return x;
}

/* The split FP16 of n numbers, on the host. */
static inline void fp16_of(int64_t n, int exponent, const float *x, backend_f16 *h,
                           backend_f16 *r) {
    must(backend_cpu.fp16->split(NULL, BACKEND_S, 'A', n, 1, exponent, x, n, h, n, r, n));
}

static inline void same(const backend_f16 *got, const backend_f16 *want, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (got[i] != want[i])
            fail_msg("place %d is %04x, not %04x", (int)i, got[i], want[i]);
}

#endif
