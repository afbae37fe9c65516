/* Covariances of whole mean gradients by their tables, what outlines of the lit parts
 * (matcov_outline) change of them far away, and where nodes on the outlines serve instead: for host
 * and device. Model section 4. */
#ifndef MOAO_MATCOV_OUTLINE_FORMULA_H
#define MOAO_MATCOV_OUTLINE_FORMULA_H

#include "matcov/gradient_formula.h"

/* Separation, in root mean square sizes of two footprints, up to which nodes replace the tables. */
#define OUTLINE_RADIUS 6.107
/* Share of a covariance that nodes of one set on both sides have; the rest is that of one set with
 * the other, whose error is the opposite. */
#define OUTLINE_SAME (2.0 / 7.0)
/* Separation, in the same sizes, from which on few nodes serve. */
#define OUTLINE_APART 2.3
/* The same beyond which second moments change less than 1e-5 of the slope variance; between two
 * sensors they are left out there. Within one they decide its smallest eigenvalues. */
#define OUTLINE_MOMENTS 16.0

/* e[axis of the first + 2 axis of the second] += factor times the covariance of two mean gradients
 * by their table; (dx, dy): the first's centre less the second's [m]. axes: with either axis of the
 * second. */
MOAO_HD static inline void outline_table(const matcov_gradient *t, const double *values,
                                         const gradient_axes axes[2], double dx, double dy,
                                         double factor, double e[4]) {
    const double s = dx * dx + dy * dy, c = axes[0].rows[0], s1 = axes[0].rows[1];
    double m;
    if (s < t->near2) {
        const double x = axes[0].turn[0] * dx + axes[0].turn[1] * dy;
        const double y = axes[0].turn[0] * dy - axes[0].turn[1] * dx;
        for (int k = 0; k < 4; k++)
            e[k] += factor * gradient_near(t, values + t->near, axes[k / 2].kind[k % 2], x, y);
        return;
    }
    const double *at =
        values + t->radial + (size_t)gradient_interval(t, s, &m) * 2 * GRADIENT_TERMS;
    double k[8];
    for (int i = 0; i < 8; i += 2)
        gradient_two(at + i, k + i);
    const double P = factor * (k[0] + m * (k[1] + m * (k[2] + m * k[3])));
    const double Q = factor * (k[4] + m * (k[5] + m * (k[6] + m * k[7])));
    for (int b = 0; b < 2; b++) {
        const double vx = axes[b].v[0], vy = axes[b].v[1], q = (vx * dx + vy * dy) * Q;
        e[2 * b] += (c * vx + s1 * vy) * P + (c * dx + s1 * dy) * q;
        e[2 * b + 1] += (c * vy - s1 * vx) * P + (c * dy - s1 * dx) * q;
    }
}

/* e += factor times what the second moments of outline i add to outline_table, beyond
 * OUTLINE_RADIUS: second differences of the covariance over a subaperture. c:
 * the outline's scale on the layer. */
MOAO_HD static inline void outline_moments(const matcov_gradient *t, const double *values,
                                           const gradient_axes axes[2], const matcov_outline *o,
                                           int i, double c, double dx, double dy, double factor,
                                           double e[4]) {
    const double *m = o->moments + 6 * i;
    outline_table(t, values, axes, dx, dy, -2.0 * factor * (m[2] + m[5]), e);
    for (int k = 0; k < 2; k++) {
        const double x = c * m[3 * k], y = c * m[3 * k + 1], f = factor * m[3 * k + 2];
        outline_table(t, values, axes, dx + x, dy + y, f, e);
        outline_table(t, values, axes, dx - x, dy - y, f, e);
    }
}

#endif
