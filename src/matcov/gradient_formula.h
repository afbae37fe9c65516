/* Covariance of two mean gradients on a layer from the tables that every backend has of the host:
 * for host and device. Model section 4. */
#ifndef MOAO_MATCOV_GRADIENT_FORMULA_H
#define MOAO_MATCOV_GRADIENT_FORMULA_H

#include "backend/backend_matcov.h"
#include "matcov/formula.h"

/* Radial functions P and Q of the squared separation s: cubic polynomials on 2^bits intervals of
 * each octave, of which the first begins at or below the squared radius of the near grids. */
#define GRADIENT_BITS 5
#define GRADIENT_OCTAVES 24
#define GRADIENT_INTERVALS (GRADIENT_OCTAVES << GRADIENT_BITS)
#define GRADIENT_TERMS 4

/* Which of the grid's kinds holds the covariance of axis `a` of the first and `b` of the second. */
MOAO_HD static inline int gradient_kind(int kinds, int a, int b) {
    return kinds == 3 ? a + b : a + 2 * b;
}

/* Coefficients that a grid of one kind has. */
MOAO_HD static inline int gradient_cells(const matcov_gradient *t, int grid) {
    return t->side[grid] * t->side[grid];
}

/* Weights of the four cubic B-splines that are not zero at f, 0 <= f < 1. */
MOAO_HD static inline void gradient_spline(double f, double w[4]) {
    const double g = 1.0 - f, sixth = 1.0 / 6.0;
    w[0] = sixth * g * g * g;
    w[3] = sixth * f * f * f;
    w[1] = 2.0 / 3.0 - 0.5 * f * f * (1.0 + g);
    w[2] = 2.0 / 3.0 - 0.5 * g * g * (1.0 + f);
}

/* Value of a grid at (x, y), in the axes of the first sensor; near: the coefficients of the two
 * grids, one after the other, kind by kind. */
MOAO_HD static inline double gradient_near(const matcov_gradient *t, const double *near, int kind,
                                           double x, double y) {
    const int grid = !(fabs(x) < t->inner && fabs(y) < t->inner), n = t->side[grid];
    const double at[2] = {(x + t->half[grid]) * t->inverse[grid],
                          (y + t->half[grid]) * t->inverse[grid]};
    const int i = (int)at[0], j = (int)at[1];
    double wx[4], wy[4], sum = 0.0;
    const double *c = near + (grid ? t->kinds * gradient_cells(t, 0) : 0) +
                      kind * gradient_cells(t, grid) + (j - 1) * n + i - 1;
    gradient_spline(at[0] - i, wx);
    gradient_spline(at[1] - j, wy);
    for (int k = 0; k < 4; k++, c += n)
        sum += wy[k] * (wx[0] * c[0] + wx[1] * c[1] + wx[2] * c[2] + wx[3] * c[3]);
    return sum;
}

/* What is needed of the derivatives of the scale-free structure function: with s = r^2 and E = B +
 * spread * laplacian(B), spread = (la^2 + lb^2) / 24 in units of 1 / kappa^2, b[1] .. b[4] its
 * derivatives in s: P = 2 dE/ds, Q = 4 d2E/ds2. */
MOAO_HD static inline void gradient_radial(double s, double spread, const double b[5], double *P,
                                           double *Q) {
    *P = 2.0 * (b[1] + spread * (8.0 * b[2] + 4.0 * s * b[3]));
    *Q = 4.0 * (b[2] + spread * (12.0 * b[3] + 4.0 * s * b[4]));
}

#endif
