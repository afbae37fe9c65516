/* Covariance of two mean gradients on a layer from the tables that every backend has of the host:
 * for host and device. Model section 4. */
#ifndef MOAO_MATCOV_GRADIENT_FORMULA_H
#define MOAO_MATCOV_GRADIENT_FORMULA_H

#include "backend/backend_matcov.h"
#include "matcov/formula.h"
#include <string.h>

/* Radial functions P and Q of the squared separation s: cubic polynomials on 2^bits intervals of
 * each octave, of which the first begins at or below half the squared radius of the near grids. */
#define GRADIENT_BITS 5
#define GRADIENT_OCTAVES 24
#define GRADIENT_INTERVALS (GRADIENT_OCTAVES << GRADIENT_BITS)
#define GRADIENT_TERMS 4

/* Both axes of the rows' sensor, whose rotation is (cos, sin) = rows, with one axis of the
 * columns', the unit vector v in the pupil. (cos, sin) = turn of the sensor whose axes the grids
 * have; the grids' kind for each axis of the rows. */
typedef struct {
    double rows[2], v[2], turn[2];
    int kind[2];
} gradient_axes;

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
 * grids, one after the other, those of all kinds at a place side by side. */
MOAO_HD static inline double gradient_near(const matcov_gradient *t, const double *near, int kind,
                                           double x, double y) {
    const int grid = !(fabs(x) < t->inner && fabs(y) < t->inner), n = t->side[grid];
    const double at[2] = {(x + t->half[grid]) * t->inverse[grid],
                          (y + t->half[grid]) * t->inverse[grid]};
    const int i = (int)at[0], j = (int)at[1];
    double wx[4], wy[4], sum = 0.0;
    const int step = t->kinds;
    const double *c =
        near + (grid ? step * gradient_cells(t, 0) : 0) + ((j - 1) * n + i - 1) * step + kind;
    gradient_spline(at[0] - i, wx);
    gradient_spline(at[1] - j, wy);
    for (int k = 0; k < 4; k++, c += n * step)
        sum += wy[k] * (wx[0] * c[0] + wx[1] * c[step] + wx[2] * c[2 * step] + wx[3] * c[3 * step]);
    return sum;
}

/* Two neighbours of a table, whose first one is at an even place. */
MOAO_HD static inline void gradient_two(const double *c, double v[2]) {
#ifdef __CUDA_ARCH__
    const double2 two = *(const double2 *)c;
    v[0] = two.x, v[1] = two.y;
#else
    v[0] = c[0], v[1] = c[1];
#endif
}

/* Values of both kinds of a grid of the phase (gradient_near). */
MOAO_HD static inline void gradient_near_phases(const matcov_gradient *t, const double *near,
                                                double x, double y, double e[2]) {
    const int grid = !(fabs(x) < t->inner && fabs(y) < t->inner), n = t->side[grid];
    const double at[2] = {(x + t->half[grid]) * t->inverse[grid],
                          (y + t->half[grid]) * t->inverse[grid]};
    const int i = (int)at[0], j = (int)at[1];
    const double *c = near + (grid ? 2 * gradient_cells(t, 0) : 0) + ((j - 1) * n + i - 1) * 2;
    double wx[4], wy[4];
    gradient_spline(at[0] - i, wx);
    gradient_spline(at[1] - j, wy);
    e[0] = e[1] = 0.0;
    for (int k = 0; k < 4; k++, c += 2 * n) {
        double v[4][2];
        for (int l = 0; l < 4; l++)
            gradient_two(c + 2 * l, v[l]);
        for (int kind = 0; kind < 2; kind++)
            e[kind] += wy[k] * (wx[0] * v[0][kind] + wx[1] * v[1][kind] + wx[2] * v[2][kind] +
                                wx[3] * v[3][kind]);
    }
}

/* Interval of a squared separation s >= near2, and its position about the interval's middle. */
MOAO_HD static inline int gradient_interval(const matcov_gradient *t, double s, double *m) {
#ifdef __CUDA_ARCH__
    long long bits = __double_as_longlong(s);
#else
    long long bits;
    memcpy(&bits, &s, sizeof bits);
#endif
    const int shift = 52 - GRADIENT_BITS;
    const int i = (int)(bits >> shift) - t->lowest;
    bits = (bits & ((1ll << shift) - 1)) | 0x3ff0000000000000ll;
#ifdef __CUDA_ARCH__
    *m = __longlong_as_double(bits);
#else
    memcpy(m, &bits, sizeof bits);
#endif
    *m -= 1.0 + 0.5 / (1 << GRADIENT_BITS);
    return i < GRADIENT_INTERVALS - 1 ? i : GRADIENT_INTERVALS - 1;
}

/* Covariance of the phase at a point with both axes of a mean gradient; (dx, dy): the point less
 * the slope's centre on the layer [m]; turn: (cos, sin) of the sensor's rotation. In units of the
 * scale-free structure function. */
MOAO_HD static inline void gradient_phases(const matcov_gradient *t, const double *values,
                                           const double turn[2], double dx, double dy,
                                           double e[2]) {
    const double s = dx * dx + dy * dy, x = turn[0] * dx + turn[1] * dy,
                 y = turn[0] * dy - turn[1] * dx;
    double m;
    if (s < t->near2) {
        gradient_near_phases(t, values + t->near, x, y, e);
        return;
    }
    const double *c = values + t->radial + (size_t)gradient_interval(t, s, &m) * 2 * GRADIENT_TERMS;
    double a[2], b[2];
    gradient_two(c, a), gradient_two(c + 2, b);
    const double f = a[0] + m * (a[1] + m * (b[0] + m * b[1]));
    e[0] = x * f, e[1] = y * f;
}

/* gradient_interval in single precision, whose tables begin at the same octave. */
MOAO_HD static inline int gradient_interval_single(const matcov_gradient *t, float s, float *m) {
    const int shift = 23 - GRADIENT_BITS;
    const int lowest = ((t->lowest >> GRADIENT_BITS) - 1023 + 127) << GRADIENT_BITS;
    int32_t bits;
    memcpy(&bits, &s, sizeof bits);
    const int i = (int)(bits >> shift) - lowest;
    bits = (bits & ((1 << shift) - 1)) | 0x3f800000;
    memcpy(m, &bits, sizeof bits);
    *m -= 1.0f + 0.5f / (1 << GRADIENT_BITS);
    return i < GRADIENT_INTERVALS - 1 ? i : GRADIENT_INTERVALS - 1;
}

/* K_nu(u), u >= 1, by the trapezoidal rule on the integral of exp(-u cosh t) cosh(nu t), which
 * converges faster than any power of the step. */
MOAO_HD static inline void gradient_bessel_pair(double u, double *k16, double *k76) {
    const double h = 0.2;
    *k16 = *k76 = 0.5 * exp(-u);
    for (int i = 1; i < 40; i++) {
        double t = i * h, e = exp(-u * cosh(t));
        *k16 += e * cosh(t / 6.0);
        *k76 += e * cosh(7.0 * t / 6.0);
        if (e * cosh(7.0 * t / 6.0) < 1e-18 * *k76)
            break;
    }
    *k16 *= h;
    *k76 *= h;
}

/* The power series of formula_bracket_series, term by term. */
MOAO_HD static inline void gradient_derivatives_series(double s, double b[5]) {
    double q = 0.25 * s, p = sqrt(s) * cbrt(s); /* s^(5/6) */
    double x = 1.8743935382686446692 * p, y = 6.0338095079915415823 * q;
    for (int m = 0; m <= 12; m++) {
        double dx = x, dy = y;
        for (int k = 1; k < 5; k++) {
            dx *= (m + FORMULA_NU - k + 1) / s;
            dy *= (m + 1.0 - k + 1) / s;
            b[k] += dx - dy;
        }
        x *= q / ((m + 1) * (m + 1 + FORMULA_NU));
        y *= q / ((m + 2) * (m + 2 - FORMULA_NU));
    }
}

/* Derivatives 0 .. 4 in s of the scale-free structure function (b[0] is not set). */
MOAO_HD static inline void gradient_derivatives(double s, int kolmogorov, double b[5]) {
    double u = sqrt(s);
    b[0] = b[1] = b[2] = b[3] = b[4] = 0.0;
    if (kolmogorov) {
        double v = u * cbrt(s);
        for (int k = 1; k < 5; k++)
            b[k] = v *= (FORMULA_NU - k + 1) / s;
    } else if (u <= FORMULA_SERIES_END) {
        gradient_derivatives_series(s, b);
    } else {
        /* d/ds u^nu K_nu = -1/2 u^(nu-1) K_(nu-1), and the recurrence of K upwards from 1/6 */
        double k[5] = {0}, power = 1.0 / sqrt(cbrt(u)), factor = 0.5; /* u^(-1/6) */
        gradient_bessel_pair(u, &k[1], &k[2]);
        k[3] = k[1] + 7.0 / (3.0 * u) * k[2];
        k[4] = k[2] + 13.0 / (3.0 * u) * k[3];
        for (int i = 1; i < 5; i++, power /= u, factor *= -0.5)
            b[i] = factor * power * k[i];
    }
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
