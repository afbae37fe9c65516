/* How a PSF is measured, for host and device: spectrum of a box, interpolation of the sampled image
 * for a first guess, and the search on the exact cosine sums. Model section 7. */
#ifndef MOAO_PSF_FORMULA_H
#define MOAO_PSF_FORMULA_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>

#ifdef __CUDACC__
#define PSF_HD __host__ __device__
#else
#define PSF_HD
#endif

#define PSF_NDIR 36    /* directions in which the FWHM is measured, over half a turn */
#define PSF_GUESS 0.25 /* step along a direction on the sampled image [pixel] */
#define PSF_PI 3.14159265358979323846

/* The mean of exp(-D/2) over pairs of points of one separation (psf_pairwise.c). Up to
 * PSF_ALL_PAIRS points all pairs are taken, beyond those of any point with one in PSF_THINNING, or
 * with as many as PSF_SAMPLES. */
#define PSF_ALL_PAIRS 4096
#define PSF_THINNING                                                                               \
    11 /* odd: an even one leaves out places of lattices with 2 or 4 points a pitch */
#define PSF_SAMPLES 2048
/* Where it is not asked for (psf.average: auto), it is made where the exponential of the mean would
 * be too low by more than a thousandth: half the variance of D/2 from pair to pair, whose rms is
 * 0.2 to 0.6 times the residual variance [rad^2]. */
#define PSF_AVERAGE_ERROR 1e-3
#define PSF_AVERAGE_SPREAD 0.6
PSF_HD static inline bool psf_average_needed(bool always, double variance) {
    const double spread = PSF_AVERAGE_SPREAD * variance;
    return always || spread * spread / 4 > PSF_AVERAGE_ERROR;
}

/* exp(y) - 1 - y in single precision, to 1e-7 of its largest term; y is at most 80. */
PSF_HD static inline float psf_excess_term(float y) {
    const float top = y < 80 ? y : 80, x = top > -80 ? top : -80;
    const float t = x * 1.44269504f + 12582912.0f, n = t - 12582912.0f; /* nearest integer */
    const float r = (x - n * 0.693145752f) - n * 1.42860682e-6f;
    const float e =
        1 +
        r * (1 + r * (0.5f + r * (0.166666667f + r * (0.0416666667f +
                                                      r * (8.33333333e-3f + r * 1.38888889e-3f)))));
    union {
        int bits;
        float value;
    } power = {((int)n + 127) << 23};
    return e * power.value - 1 - top;
}

PSF_HD static inline double psf_sinc(double x) {
    return x == 0 ? 1 : sin(PSF_PI * x) / (PSF_PI * x);
}

/* Catmull-Rom cubic through f[1] and f[2], at t in [0, 1] between them. */
PSF_HD static inline double psf_cubic(const double f[4], double t) {
    double a = 0.5 * (f[2] - f[0]), b = 0.5 * (f[3] - f[1]), d = f[1] - f[2];
    return f[1] + t * (a + t * (-3 * d - 2 * a - b + t * (2 * d + a + b)));
}

/* PSF at (x, y) pixels from the axis, y <= 0, interpolated. image: row -y of N pixels, wrapped
 * along x, at image + (-y) stride; the rows up to 2 - y must be there. */
PSF_HD static inline double psf_image_at(const double *image, size_t stride, int N, double x,
                                         double y) {
    int ix = (int)floor(x), iy = (int)-y;
    double rows[4], f[4];
    for (int j = 0; j < 4; j++) {
        int yy = iy + j - 1, sign = yy < 0 ? -1 : 1;
        const double *row = image + (size_t)(sign * yy) * stride;
        for (int i = 0; i < 4; i++)
            f[i] = row[(sign * (ix + i - 1) % N + N) % N];
        rows[j] = psf_cubic(f, x - ix);
    }
    return psf_cubic(rows, -y - iy);
}

typedef struct {   /* search for the half-peak radius in one direction */
    double lo, hi; /* above and below half the peak; hi is infinite until known */
    double r;
    bool done;
} psf_search;

/* One safeguarded Newton step; f, df: value and slope at r. The bracket [lo, hi] only shrinks and
 * steps outside it are at most one pixel, so a search ends: at a crossing, or beyond `limit` with
 * NaN. */
PSF_HD static inline void psf_search_step(psf_search *k, double limit, double half, double f,
                                          double df) {
    if (k->done)
        return;
    bool above = f > half;
    if (above)
        k->lo = k->r;
    else
        k->hi = k->r;
    double step = (half - f) / df, next;
    if (fabs(step) < 1e-6 * k->r) {
        k->r += step;
        k->done = true;
        return;
    }
    if (!(df < 0) || fabs(step) > 1)
        step = above ? 1 : -1;
    next = k->r + step;
    if (next <= k->lo || next >= k->hi)
        next = isinf(k->hi) ? k->lo + 1 : 0.5 * (k->lo + k->hi);
    if (above && k->r >= limit)
        next = NAN;
    k->done = isnan(next) || k->hi - k->lo < 1e-12 * k->hi;
    k->r = next > limit ? limit : next;
}

#endif
