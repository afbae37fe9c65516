/* Formulas of the slope covariances: pure scalar functions, for host and device. Model sections 3
 * to 5. */
#ifndef MOAO_MATCOV_FORMULA_H
#define MOAO_MATCOV_FORMULA_H

#include <math.h>

#ifdef __CUDACC__
#define MOAO_HD __host__ __device__
#else
#define MOAO_HD
#endif

#define FORMULA_NU (5.0 / 6.0)                /* order of the Bessel function */
#define FORMULA_K1 0.17166136212457085112     /* factor of von Karman's structure function */
#define FORMULA_K2 1.0056349179985902637      /* Gamma(5/6) / 2^(1/6) */
#define FORMULA_KOLMOGOROV 6.8838771822938116 /* 2 (24/5 Gamma(6/5))^(5/6) */
#define FORMULA_TWO_PI 6.283185307179586477
#define FORMULA_SERIES_END 1.5 /* u up to which the power series is used */

/* k2 - u^(5/6) K_{5/6}(u) for 0 <= u <= FORMULA_SERIES_END, from K_nu = pi/2 (I_{-nu} -
 * I_nu)/sin(nu pi): the constant k2 cancels term by term, which keeps the relative accuracy down to
 * u = 0. */
MOAO_HD static inline double formula_bracket_series(double u) {
    double q = 0.25 * u * u;
    double a = 1.8743935382686446692 * u * cbrt(u * u); /* pi / (2^nu Gamma(1 + nu)) u^(2 nu) */
    double b = 6.0338095079915415823 * q;               /* pi 2^nu / Gamma(2 - nu) u^2 / 4 */
    double sum = a - b;
    for (int m = 1; m <= 12; m++) {
        a *= q / (m * (m + FORMULA_NU));
        b *= q / ((m + 1) * (m + 1 - FORMULA_NU));
        sum += a - b;
        if (a < 1e-17 * sum)
            break;
    }
    return sum;
}

/* K_{5/6}(u) for u >= 1 by Temme's continued fraction (J. Comput. Phys. 19, 324, 1975) for K_mu and
 * the normalising sum, with mu = -1/6, and one step of the recurrence up to mu + 1 = 5/6. */
MOAO_HD static inline double formula_bessel_k56(double u) {
    const double mu = FORMULA_NU - 1.0, c1 = 0.25 - mu * mu;
    double b = 2.0 * (1.0 + u), d = 1.0 / b, step = d, h = d; /* h: the fraction, Steed's way */
    double a = -c1, c = c1, q = c1, q0 = 0.0, q1 = 1.0, s = 1.0 + q * d;
    for (int n = 2; n < 200; n++) {
        a -= 2.0 * (n - 1);
        c *= -a / n;
        double q2 = (q0 - b * q1) / a;
        q0 = q1;
        q1 = q2;
        q += c * q2;
        b += 2.0;
        d = 1.0 / (b + a * d);
        step *= b * d - 1.0;
        h += step;
        s += q * step;
        if (fabs(q * step) < 1e-16 * s)
            break;
    }
    double k = sqrt(FORMULA_TWO_PI / (4.0 * u)) * exp(-u) / s; /* K_mu */
    return k * (mu + u + 0.5 - c1 * h) / u;
}

/* Von Karman's bracket k2 - u^(5/6) K_{5/6}(u), u >= 0: relative accuracy of some 1e-15 everywhere.
 */
MOAO_HD static inline double formula_bracket(double u) {
    if (u <= FORMULA_SERIES_END)
        return formula_bracket_series(u);
    if (u > 60.0)
        return FORMULA_K2;
    return FORMULA_K2 - sqrt(u) * cbrt(u) * formula_bessel_k56(u);
}

/* Phase structure function [rad^2 at 500 nm] of one layer at a separation rho >= 0 [m]; strength:
 * r0^(-5/3) [m^(-5/3)], L0: outer scale [m], INFINITY for Kolmogorov. Model section 3. */
MOAO_HD static inline double formula_structure(double strength, double L0, double rho) {
    if (isinf(L0))
        return FORMULA_KOLMOGOROV * strength * rho * cbrt(rho * rho);
    double c = cbrt(L0);
    return strength * FORMULA_K1 * L0 * c * c * formula_bracket(FORMULA_TWO_PI / L0 * rho);
}

/* Second difference of a structure function between the edges (+, -) of two slopes: pp is its value
 * between the + edge of the first and the + edge of the second, and so on. Exchanging the slopes
 * exchanges pm and mp: the result is the same to the last bit. Model section 4. */
MOAO_HD static inline double formula_second_difference(double pp, double pm, double mp, double mm) {
    return 0.5 * ((pm + mp) - (pp + mm));
}

/* Product of the scales of two slopes [arcsec^2/rad^2]: k of model section 4; sizes in the pupil
 * plane [m]. */
MOAO_HD static inline double formula_slope_scale(double size_a, double size_b) {
    double c = 500e-9 / FORMULA_TWO_PI * 206264.80624709636;
    return c * c / (size_a * size_b);
}

/* Scale of a phase and a slope [m arcsec/rad^2]; size of the slope in the pupil plane [m]. */
MOAO_HD static inline double formula_phase_scale(double size) {
    double c = 500e-9 / FORMULA_TWO_PI;
    return c * c * 206264.80624709636 / size;
}

/* Position on a layer at altitude h [m] of a sensor's pupil-plane point p: c p + offset, both times
 * kappa; the star at `altitude` [m] in direction dir [rad], the sensor displaced there by drift
 * [m]. False when the layer is at or above the star. Model section 2. */
MOAO_HD static inline int formula_on_layer(double h, double kappa, double altitude,
                                           const double dir[2], const double drift[2], double *c,
                                           double offset[2]) {
    *c = kappa * (1.0 - h / altitude);
    for (int i = 0; i < 2; i++)
        offset[i] = kappa * (dir[i] * h + drift[i]);
    return h < altitude;
}

/* Slope variance [arcsec^2] of a spot of width `along` the slope and `across` it (FWHM, arcsec):
 * flux in photo-electrons, whose variance counts `photons` times; noise of a pixel [e-], pixel
 * [arcsec]. Model section 5. */
MOAO_HD static inline double formula_spot_variance(double flux, double photons, double noise,
                                                   double pixel, double along, double across) {
    double g = noise / (flux * pixel);
    return photons / flux * along * along + 0.82 * g * g * along * along * along * across;
}
#define FORMULA_PHOTONS_PUBLISHED 0.32
#define FORMULA_PHOTONS_GAUSSIAN 0.18033688011112043 /* 1 / (8 ln 2): the width's variance */

/* What a pixel adds to the square of a spot's FWHM: a square's variance, pixel^2/12, times 8 ln 2.
 */
MOAO_HD static inline double formula_pixel_width(double pixel) {
    return 0.46209812037329687 * pixel * pixel;
}

/* A Gaussian of FWHM *width is cut by a stop of size `field` around its centre: returns the share
 * of its light that is left, and makes *width 2.355 times the standard deviation of that. */
MOAO_HD static inline double formula_stop(double field, double *width) {
    const double a = 0.5 * field * 2.3548200450309493 / *width; /* in standard deviations */
    if (!(a < 8.0))
        return 1.0;
    const double kept = erf(0.70710678118654752 * a);
    const double narrow = a < 0.01 ? a * a / 3.0 * (1.0 - a * a / 7.5)
                                   : 1.0 - 0.79788456080286536 * a * exp(-0.5 * a * a) / kept;
    *width *= sqrt(narrow);
    return kept;
}

/* Seeing [arcsec] at a wavelength [m] for r0 [m] quoted at 500 nm; 0 for r0 = INFINITY. */
MOAO_HD static inline double formula_seeing(double r0, double wavelength) {
    return 206264.80624709636 * 500e-9 / r0 * pow(500e-9 / wavelength, 0.2);
}

#endif
