/* Covariances of mean gradients from their tables. Model section 4. One evaluation at a separation
 * gives those of all axes. */
#include "gradient.h"

#include <stdint.h>
#include <string.h>

/* One version per instruction set, chosen when the program starts; others get the plain one. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && defined(__gnu_linux__) &&   \
    !defined(__SANITIZE_ADDRESS__) && !defined(__AVX2__)
#define CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define CLONES
#endif

#define SHIFT (52 - GRADIENT_BITS)
#define REST ((INT64_C(1) << SHIFT) - 1)
#define ONE INT64_C(0x3ff0000000000000)
#define MIDDLE (1.0 + 0.5 / (1 << GRADIENT_BITS))
#define AT_ONCE 256

/* Far entries; `square`: squared separations, which tell what is left to the grids. */
CLONES static void add_far(const matcov_gradient *t, const double *restrict radial,
                           const gradient_axes *axes, size_t n, const double *restrict x,
                           const double *restrict y, double x0, double y0, double coef,
                           double *restrict f, double *restrict g, double *restrict square) {
    const double c = axes->rows[0], s1 = axes->rows[1], vx = axes->v[0], vy = axes->v[1];
    const double along = c * vx + s1 * vy, across = c * vy - s1 * vx, near2 = t->near2;
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
        const double *k = radial + i * (2 * GRADIENT_TERMS);
        double p = w * (k[0] + m * (k[1] + m * (k[2] + m * k[3])));
        double q = w * (vx * dx + vy * dy) * (k[4] + m * (k[5] + m * (k[6] + m * k[7])));
        f[e] += along * p + (c * dx + s1 * dy) * q;
        g[e] += across * p + (c * dy - s1 * dx) * q;
    }
}

/* The same of the phase: along the sensor's axes. */
CLONES static void add_far_phase(const matcov_gradient *t, const double *restrict radial,
                                 const double turn[2], size_t n, const double *restrict x,
                                 const double *restrict y, double x0, double y0, double coef,
                                 double *restrict f, double *restrict g, double *restrict square) {
    const double c = turn[0], s1 = turn[1], near2 = t->near2;
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
        const double *k = radial + i * (2 * GRADIENT_TERMS);
        double p = w * (k[0] + m * (k[1] + m * (k[2] + m * k[3])));
        f[e] += (c * dx + s1 * dy) * p;
        g[e] += (c * dy - s1 * dx) * p;
    }
}

typedef double four __attribute__((vector_size(32)));

/* gradient_near for all kinds: a grid has those of a place side by side. Reads four numbers at each
 * place, whatever their number: gradient_near_size has room for that. */
static inline void near_values(const matcov_gradient *t, const double *near, double x, double y,
                               four *out) {
    const int grid = !(fabs(x) < t->inner && fabs(y) < t->inner), n = t->side[grid] * t->kinds;
    const double at[2] = {(x + t->half[grid]) * t->inverse[grid],
                          (y + t->half[grid]) * t->inverse[grid]};
    const int i = (int)at[0], j = (int)at[1];
    double wx[4], wy[4];
    const double *c =
        near + (grid ? t->kinds * gradient_cells(t, 0) : 0) + (j - 1) * n + (i - 1) * t->kinds;
    four sum = {0};
    gradient_spline(at[0] - i, wx);
    gradient_spline(at[1] - j, wy);
    for (int k = 0; k < 4; k++, c += n) {
        four line = {0};
        for (int l = 0; l < 4; l++) {
            four v;
            memcpy(&v, c + l * t->kinds, sizeof v);
            line += wx[l] * v;
        }
        sum += wy[k] * line;
    }
    *out = sum;
}

/* Entries that are near, of two of the kinds. */
CLONES static void add_near(const matcov_gradient *t, const double *near, const double turn[2],
                            const int kind[2], size_t n, const double *x, const double *y,
                            double x0, double y0, double coef, const double *square, double *f,
                            double *g) {
    for (size_t e = 0; e < n; e++) {
        if (!(square[e] < t->near2))
            continue;
        const double dx = x[e] - x0, dy = y[e] - y0;
        four v;
        near_values(t, near, turn[0] * dx + turn[1] * dy, turn[0] * dy - turn[1] * dx, &v);
        f[e] += coef * v[kind[0]];
        g[e] += coef * v[kind[1]];
    }
}

void gradient_add(const matcov_gradient *table, const double *values, const gradient_axes *axes,
                  size_t n, const double *x, const double *y, double x0, double y0, double coef,
                  double *f, double *g) {
    double square[AT_ONCE];
    while (n > 0) {
        const size_t some = n < AT_ONCE ? n : AT_ONCE;
        add_far(table, values + table->radial, axes, some, x, y, x0, y0, coef, f, g, square);
        add_near(table, values + table->near, axes->turn, axes->kind, some, x, y, x0, y0, coef,
                 square, f, g);
        n -= some, x += some, y += some, f += some, g += some;
    }
}

void gradient_add_phase(const matcov_gradient *table, const double *values, const double turn[2],
                        size_t n, const double *x, const double *y, double x0, double y0,
                        double coef, double *f, double *g) {
    static const int kind[2] = {0, 1};
    double square[AT_ONCE];
    while (n > 0) {
        const size_t some = n < AT_ONCE ? n : AT_ONCE;
        add_far_phase(table, values + table->radial, turn, some, x, y, x0, y0, coef, f, g, square);
        add_near(table, values + table->near, turn, kind, some, x, y, x0, y0, coef, square, f, g);
        n -= some, x += some, y += some, f += some, g += some;
    }
}
