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
/* R is brought to 2^-FP16_SMALLER of the size of B0: Cmm0^-1 makes it grow more than B0, which is
 * smooth, and the split FP16 parts of W have room for what B0 needs; two of them stay accurate
 * enough down to there. */
#define FP16_SMALLER 8
/* Local. A step of refinement: W := R Cmm0^-1, or (add) W += R Cmm0^-1, v x m. r: R in single
 * precision, which is lost; 2^up R is divided. hi, lo: v x m each, leading dimension fp16_rows. */
status fp16_factor_step(factor *f, int up, float *r, backend_f16 *hi, backend_f16 *lo, bool add,
                        double *w, int64_t ld);
/* Local. Largest entry of the rows of the right-hand side by which the factor was split. */
double fp16_factor_right(const factor *f);

#endif
