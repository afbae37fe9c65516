/* Radial functions of the covariance of two mean gradients, far from zero separation. Model
 * section 4. */
#include "gradient.h"

#include <math.h>

/* K_nu(u), u >= 1, by the trapezoidal rule on the integral of exp(-u cosh t) cosh(nu t), which
 * converges faster than any power of the step. */
static void bessel_pair(double u, double *k16, double *k76) {
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
static void derivatives_series(double s, double b[5]) {
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

void gradient_derivatives(double s, bool kolmogorov, double b[5]) {
    double u = sqrt(s);
    b[0] = b[1] = b[2] = b[3] = b[4] = 0.0;
    if (kolmogorov) {
        double v = u * cbrt(s);
        for (int k = 1; k < 5; k++)
            b[k] = v *= (FORMULA_NU - k + 1) / s;
    } else if (u <= FORMULA_SERIES_END) {
        derivatives_series(s, b);
    } else {
        /* d/ds u^nu K_nu = -1/2 u^(nu-1) K_(nu-1), and the recurrence of K upwards from 1/6 */
        double k[5] = {0}, power = 1.0 / sqrt(cbrt(u)), factor = 0.5; /* u^(-1/6) */
        bessel_pair(u, &k[1], &k[2]);
        k[3] = k[1] + 7.0 / (3.0 * u) * k[2];
        k[4] = k[2] + 13.0 / (3.0 * u) * k[3];
        for (int i = 1; i < 5; i++, power /= u, factor *= -0.5)
            b[i] = factor * power * k[i];
    }
}

/* Powers about the middle of a cubic through the four Chebyshev nodes of (-half, half). */
static void cubic(const double value[4], double half, double c[4]) {
    double t[4];
    for (int k = 0; k < 4; k++) {
        t[k] = 0.0;
        for (int i = 0; i < 4; i++)
            t[k] += (k == 0 ? 0.25 : 0.5) * value[i] * cos(FORMULA_TWO_PI / 8.0 * k * (i + 0.5));
    }
    c[0] = t[0] - t[2];
    c[1] = (t[1] - 3.0 * t[3]) / half;
    c[2] = 2.0 * t[2] / (half * half);
    c[3] = 4.0 * t[3] / (half * half * half);
}

void gradient_fill_radial(const gradient_key *k, const matcov_gradient *t, double *radial) {
    const double k2 = k->kappa * k->kappa, half = 0.5 / (1 << GRADIENT_BITS);
    const double spread = k2 * (k->la * k->la + k->lb * k->lb) / 24.0;
    const bool phase = k->la == 0.0;
    const double scale = 0.5 * k2 * k->lb * (phase ? 1.0 : k->la);
    for (int i = 0; i < GRADIENT_INTERVALS; i++) {
        int bits = t->lowest + i, within = bits & ((1 << GRADIENT_BITS) - 1);
        double octave = ldexp(1.0, (bits >> GRADIENT_BITS) - 1023), p[4], q[4], b[5];
        double middle = 1.0 + (within + 0.5) / (1 << GRADIENT_BITS);
        for (int j = 0; j < 4; j++) {
            double s = k2 * octave * (middle + half * cos(FORMULA_TWO_PI / 8.0 * (j + 0.5)));
            gradient_derivatives(s, k->kolmogorov, b);
            gradient_radial(s, spread, b, &p[j], &q[j]);
            p[j] *= scale;
            q[j] *= phase ? 0.0 : scale * k2;
        }
        cubic(p, half, radial + (size_t)i * 2 * GRADIENT_TERMS);
        cubic(q, half, radial + (size_t)i * 2 * GRADIENT_TERMS + GRADIENT_TERMS);
    }
}
