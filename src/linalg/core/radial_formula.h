/* Correlations as functions of the scaled distance, for both backends and for gradients: Matern in
 * closed form, or from a table in log t (gp/radial.c), t = sqrt(2 nu) d. */
#ifndef MOAO_RADIAL_FORMULA_H
#define MOAO_RADIAL_FORMULA_H

#include <math.h>
#include <stdint.h>

#ifdef __CUDACC__
#define RADIAL_HOST_DEVICE __host__ __device__
#else
#define RADIAL_HOST_DEVICE
#endif

#define RADIAL_STEP 0.01 /* of a table, in log t */

/* Place in a table of so many steps from log t = first on, and the weights of eight values; false:
 * before it (f = 1; *at < 0) or past it (f = 0). */
RADIAL_HOST_DEVICE static inline bool radial_place(double first, int64_t steps, double log_t,
                                                   int64_t *at, double w[8]) {
    const double binomial[8] = {-1, 7, -21, 35, -35, 21, -7, 1};
    const double x = (log_t - first) / RADIAL_STEP;
    double sum = 0;
    *at = x > 4 ? 0 : -1;
    if (!(x > 4 && x < (double)(steps - 5)))
        return false;
    *at = (int64_t)x - 3;
    const double u = x - (double)*at; /* 3 <= u < 4 */
    for (int i = 0; i < 8; i++) {
        const double off = u - i;
        w[i] = binomial[i] / (fabs(off) > 1e-13 ? off : 1e-13);
        sum += w[i];
    }
    for (int i = 0; i < 8; i++)
        w[i] /= sum;
    return true;
}

RADIAL_HOST_DEVICE static inline double radial_weighted(const double *table, const double w[8]) {
    double sum = 0;
    for (int i = 0; i < 8; i++)
        sum += w[i] * table[i];
    return sum;
}

RADIAL_HOST_DEVICE static inline bool radial_matern_closed(double nu) {
    return nu == 0.5 || nu == 1.5 || nu == 2.5;
}

RADIAL_HOST_DEVICE static inline double radial_matern(double nu, double t) {
    return nu == 0.5 ? exp(-t) : nu == 1.5 ? (1 + t) * exp(-t) : (1 + t + t * t / 3) * exp(-t);
}

/* exp(-d^power), of the square of d. */
RADIAL_HOST_DEVICE static inline double radial_powered(double power, double square) {
    return power == 1 ? exp(-sqrt(square)) : exp(-pow(square, power / 2));
}

#endif
