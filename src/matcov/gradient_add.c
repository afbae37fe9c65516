/* Covariances of mean gradients from their tables. Model section 4. */
#include "base/clones.h"
#include "gradient.h"

#include <stdint.h>
#include <string.h>

#define SHIFT (52 - GRADIENT_BITS)
#define REST ((INT64_C(1) << SHIFT) - 1)
#define ONE INT64_C(0x3ff0000000000000)
#define MIDDLE (1.0 + 0.5 / (1 << GRADIENT_BITS))
#define AT_ONCE 256

/* Far entries; near[e] says whether one is left to the grids. */
CLONES static void add_far(const matcov_gradient *t, const double *restrict radial,
                           const gradient_axes *axes, size_t n, const double *x, const double *y,
                           double x0, double y0, double coef, double *restrict f,
                           double *restrict square) {
    const double ux = axes->u[0], uy = axes->u[1], vx = axes->v[0], vy = axes->v[1];
    const double uv = ux * vx + uy * vy, near2 = t->near2;
    const int64_t lowest = t->lowest;
#pragma GCC ivdep
    for (size_t e = 0; e < n; e++) {
        double dx = x[e] - x0, dy = y[e] - y0, s = dx * dx + dy * dy, m;
        double w = s < near2 ? 0.0 : coef;
        int64_t bits;
        square[e] = s;
        s = s < near2 ? near2 : s;
        memcpy(&bits, &s, sizeof bits);
        int64_t i = (bits >> SHIFT) - lowest;
        i = i > GRADIENT_INTERVALS - 1 ? GRADIENT_INTERVALS - 1 : i;
        bits = (bits & REST) | ONE;
        memcpy(&m, &bits, sizeof m);
        m -= MIDDLE;
        const double *c = radial + i * (2 * GRADIENT_TERMS);
        double p = c[0] + m * (c[1] + m * (c[2] + m * c[3]));
        double q = c[4] + m * (c[5] + m * (c[6] + m * c[7]));
        f[e] += w * (uv * p + (ux * dx + uy * dy) * (vx * dx + vy * dy) * q);
    }
}

void gradient_add(const matcov_gradient *table, const double *values, const gradient_axes *axes,
                  size_t n, const double *x, const double *y, double x0, double y0, double coef,
                  double *f) {
    double square[AT_ONCE];
    while (n > 0) {
        size_t some = n < AT_ONCE ? n : AT_ONCE;
        add_far(table, values + table->radial, axes, some, x, y, x0, y0, coef, f, square);
        for (size_t e = 0; e < some; e++) {
            if (!(square[e] < table->near2))
                continue;
            double dx = x[e] - x0, dy = y[e] - y0;
            double along = axes->turn[0] * dx + axes->turn[1] * dy;
            double across = axes->turn[0] * dy - axes->turn[1] * dx;
            f[e] += coef * gradient_near(table, values + table->near, axes->kind, along, across);
        }
        n -= some, x += some, y += some, f += some;
    }
}

void gradient_add_phase(const matcov_gradient *table, const double *values,
                        const gradient_axes *axes, size_t n, const double *x, const double *y,
                        double x0, double y0, double coef, double *f) {
    for (size_t e = 0; e < n; e++)
        f[e] += coef * gradient_phase(table, values, axes->v, axes->turn, axes->kind, x[e] - x0,
                                      y[e] - y0);
}
