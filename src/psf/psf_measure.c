/* FWHM of an image that was kept, for example the mean of several exposures. */
#include "psf_plan.h"

#include <math.h>

#define TAPS 8    /* pixels on each side that an interpolated value takes */
#define SHAPE 8.4 /* of the window: best for images sampled 1.5 times finer than they need */

typedef struct {
    const float *pixel;
    int side;
} picture;

/* Pixel (x, y) from the axis, 0 outside. */
static double pixel_at(const picture *q, int x, int y) {
    x += q->side / 2;
    y += q->side / 2;
    if (x < 0 || y < 0 || x >= q->side || y >= q->side)
        return 0;
    return (double)q->pixel[(size_t)y * (size_t)q->side + (size_t)x];
}

/* Bilinear value: good enough to find where to look. */
static double rough_at(const picture *q, double x, double y) {
    int ix = (int)floor(x), iy = (int)floor(y);
    double tx = x - ix, ty = y - iy;
    return (1 - ty) * ((1 - tx) * pixel_at(q, ix, iy) + tx * pixel_at(q, ix + 1, iy)) +
           ty * ((1 - tx) * pixel_at(q, ix, iy + 1) + tx * pixel_at(q, ix + 1, iy + 1));
}

/* Weights of the pixels floor(x) - TAPS + 1 ... floor(x) + TAPS: windowed sinc. */
static void weights(double x, double w[2 * TAPS]) {
    double t = x - floor(x), s = sin(M_PI * t) / M_PI;
    for (int i = 0; i < 2 * TAPS; i++) {
        double d = t - (i - TAPS + 1), inside = 1 - d * d / ((double)TAPS * TAPS);
        double sinc = fabs(d) < 1e-12 ? 1 : (i % 2 == TAPS % 2 ? -s : s) / d;
        w[i] = inside > 0 ? sinc * exp(SHAPE * (sqrt(inside) - 1)) : 0;
    }
}

static double value_at(const picture *q, double x, double y) {
    double wx[2 * TAPS], wy[2 * TAPS], sum = 0;
    int ix = (int)floor(x) - TAPS + 1, iy = (int)floor(y) - TAPS + 1;
    weights(x, wx);
    weights(y, wy);
    for (int j = 0; j < 2 * TAPS; j++) {
        double row = 0;
        for (int i = 0; i < 2 * TAPS; i++)
            row += wx[i] * pixel_at(q, ix + i, iy + j);
        sum += wy[j] * row;
    }
    return sum;
}

/* Root of value_at - half along (c, s) between lo (above) and hi (below): false position with
 * Illinois' rule. */
static double root(const picture *q, double c, double s, double half, double lo, double hi) {
    double flo = value_at(q, lo * c, lo * s) - half, fhi = value_at(q, hi * c, hi * s) - half;
    for (int i = 0, last = 0; i < 60 && hi - lo > 1e-9 * hi; i++) {
        double r = (lo * fhi - hi * flo) / (fhi - flo), f = value_at(q, r * c, r * s) - half;
        if (fabs(f) < 1e-10 * half)
            return r;
        if (f > 0) {
            lo = r;
            flo = f;
            fhi *= last > 0 ? 0.5 : 1;
        } else {
            hi = r;
            fhi = f;
            flo *= last < 0 ? 0.5 : 1;
        }
        last = f > 0 ? 1 : -1;
    }
    return 0.5 * (lo + hi);
}

/* Radius of the first half-peak crossing along (c, s), NaN when there is none inside the image. */
static double crossing(const picture *q, double c, double s, double half) {
    double limit = q->side / 2 - 1, hi = 0.5;
    while (hi < limit && rough_at(q, hi * c, hi * s) >= half)
        hi += 0.5;
    double lo = hi;
    while (lo > 0 && value_at(q, lo * c, lo * s) < half)
        lo -= 0.5;
    while (hi <= limit && value_at(q, hi * c, hi * s) >= half)
        hi += 0.5;
    return hi > limit ? NAN : root(q, c, s, half, fmax(lo, 0), hi);
}

double psf_image_fwhm(const psf *p, int ilambda, const float *image) {
    picture q = {image, p->crop};
    double sum = 0, half = 0.5 * pixel_at(&q, 0, 0);
    if (!(half > 0))
        return NAN;
    for (int i = 0; i < PSF_NDIR; i++) {
        double t = M_PI * i / PSF_NDIR;
        sum += 2 * crossing(&q, cos(t), sin(t), half) / PSF_NDIR;
    }
    return sum * psf_image_pixel(p, ilambda);
}
