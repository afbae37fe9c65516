/* A factor of Cmm0 in split FP16: what the product in FP16, whose W it computes, asks of it. */
#ifndef MOAO_FACTOR_FP16_H
#define MOAO_FACTOR_FP16_H

#include "factor/cholesky.h"
#include "factor/factor.h"
#include "moao/fp16_factor.h"

/* Targets of a factor in the host's memory in place of `targets` here: their W is twice as large.
 */
static inline int fp16_host_targets(int targets) {
    return targets > 3 ? targets / 2 : 1;
}

/* Leading dimension of n rows of FP16 numbers: a multiple of 8, which products on tensor cores
 * want. */
static inline int64_t fp16_rows(int64_t n) {
    return (n + 7) / 8 * 8;
}

/* Doubles of the split FP16 parts of L. */
int64_t fp16_place(int64_t m);

/* Local. Before solves: as accurate as f->accuracy says, or as can be. */
status fp16_factor_begin_solves(factor *f, bool accurate);
/* Local. b, a right-hand side in single precision (rows of W of a target x m), becomes W, which is
 * also split to hi and lo (leading dimension fp16_rows), 2^fp16_factor_w_exponent times W. */
status fp16_factor_divide(factor *f, float *b, backend_f16 *hi, backend_f16 *lo);
int fp16_factor_w_exponent(const factor *f);

#endif
