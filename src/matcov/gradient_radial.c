/* Radial functions of the covariance of two mean gradients, far from zero separation. Model
 * section 4. */
#include "gradient.h"

#include <math.h>

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
