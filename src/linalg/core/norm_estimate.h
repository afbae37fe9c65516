/* Estimate of the 1-norm of a matrix that is known by its products with vectors alone, for
 * condition numbers: a lower bound, nearly always within a factor of 3 (Hager, SIAM J. Sci. Stat.
 * Comput. 5 (1984) 311; Higham, ACM TOMS 14 (1988) 381, algorithm 4.1, as LAPACK's lacn2). */
#ifndef MOAO_BACKEND_NORM_ESTIMATE_H
#define MOAO_BACKEND_NORM_ESTIMATE_H

#include "moao/status.h"
#include <stdbool.h>
#include <stdint.h>

/* x := B x, or B' x; x [n] on the host. */
typedef status norm_product(void *arg, bool turned, double *x);

/* At most 11 products. *norm is infinite where a product is not finite. */
status norm_estimate(int64_t n, norm_product *product, void *arg, double *norm);

/* Reciprocal condition of which factors in a precision of that unit roundoff are refused: with a
 * smaller one not one digit of a solution is certain. */
static inline double norm_least_rcond(double unit) {
    return 4 * unit;
}

#endif
