/* Image quality from the OTF: no field truncation, no pixels. Model section 7. */
#include "psf_plan.h"

#include <cblas.h>
#include <math.h>
#include <string.h>

double psf_strehl(const psf *p) {
    double sum = 0;
    for (int u = 0; u < p->P; u++) {
        const double *even = p->even + (size_t)u * (size_t)p->ld;
        double row = 0;
        for (int v = 0; v <= p->vmax[u]; v++)
            row += even[v];
        sum += u == 0 ? row : 2 * row;
    }
    return sum;
}

static double sinc(double x) {
    return x == 0 ? 1 : sin(M_PI * x) / (M_PI * x);
}

double psf_ensquared(const psf *p, double lambda, double side) {
    double step = side * p->pixel / lambda,
           sum = 0; /* box in units of a pixel's spatial frequency */
    double *s = p->trig;
    for (int v = 0; v < p->P; v++)
        s[v] = sinc(step * v);
    for (int u = 0; u < p->P; u++) {
        const double *even = p->even + (size_t)u * (size_t)p->ld;
        double row = 0;
#pragma omp simd reduction(+ : row)
        for (int v = 0; v <= p->vmax[u]; v++)
            row += even[v] * s[v];
        sum += (u == 0 ? 1 : 2) * s[u] * row;
    }
    return sum * step * step / p->otf[0];
}

/* --- first guess: along each direction on the sampled image --- */

/* Catmull-Rom cubic through f[1] and f[2], at t in [0, 1] between them. */
static double cubic(const double f[4], double t) {
    double a = 0.5 * (f[2] - f[0]), b = 0.5 * (f[3] - f[1]), d = f[1] - f[2];
    return f[1] + t * (a + t * (-3 * d - 2 * a - b + t * (2 * d + a + b)));
}

/* PSF at (x, y) pixels from the axis, y <= 0, interpolated between the rows that are there. */
static double image_at(const psf *p, double x, double y) {
    int ix = (int)floor(x), iy = (int)-y;
    double rows[4], f[4];
    for (int j = 0; j < 4; j++) {
        int yy = iy + j - 1, sign = yy < 0 ? -1 : 1;
        const double *row = p->image + (size_t)(sign * yy) * (size_t)p->stride;
        for (int i = 0; i < 4; i++)
            f[i] = row[(sign * (ix + i - 1) % p->N + p->N) % p->N];
        rows[j] = cubic(f, x - ix);
    }
    return cubic(rows, -y - iy);
}

/* First radius [pixels] at which the image falls to `half` along (c, s); -1: beyond the rows that
 * are there, or beyond N/2. */
static double guess_radius(const psf *p, double c, double s, double half) {
    const double step = 0.25;
    double last = 2 * half;
    int n = (int)(p->N / 2 / step);
    for (int i = 1; i <= n; i++) {
        double r = i * step;
        if ((int)(r * s) + 2 >= p->nrow)
            return p->nrow > p->N / 2 ? p->N / 2.0 : -1;
        double f = image_at(p, -r * c, -r * s);
        if (f < half)
            return r - step * (half - f) / (last - f);
        last = f;
    }
    return p->N / 2.0;
}

/* Guesses for all directions, making image rows as needed: first as many as a round PSF would take.
 */
static void guess_all(psf *p, const double *c, const double *s, double half, double *r) {
    psf_image_extend(p, PSF_BATCH);
    psf_image_extend(p, (int)(1.25 * guess_radius(p, 1, 0, half)) + 8);
    for (int i = 0; i < PSF_NDIR; i++) {
        r[i] = guess_radius(p, c[i], s[i], half);
        if (r[i] < 0) {
            psf_image_extend(p, p->N / 2 + 1);
            r[i] = guess_radius(p, c[i], s[i], half);
        }
    }
}

/* --- exact cosine sums of the OTF, in all directions at once --- */

enum { ND = PSF_NDIR, WIDTH = 2 * PSF_NDIR };

typedef struct { /* cosines and sines of 0, 1, 2... times ND angles, by rotation: error of order n
                    eps */
    double c[ND], s[ND], dc[ND], ds[ND];
} rotor;

static void rotor_start(rotor *t, const double *r, const double *direction, double turn) {
    for (int i = 0; i < ND; i++) {
        t->c[i] = 1;
        t->s[i] = 0;
        t->dc[i] = cos(turn * r[i] * direction[i]);
        t->ds[i] = sin(turn * r[i] * direction[i]);
    }
}

static void rotor_step(rotor *t) {
#pragma omp simd
    for (int i = 0; i < ND; i++) {
        double c = t->c[i] * t->dc[i] - t->s[i] * t->ds[i];
        t->s[i] = t->s[i] * t->dc[i] + t->c[i] * t->ds[i];
        t->c[i] = c;
    }
}

/* Value and radial derivative [per pixel] of the cosine sum at radius r[i] pixels along (c[i],
 * s[i]). With b = 2 pi r s/N the sums along v are two products of matrices: even part with cos(v b)
 * and v sin(v b), odd part with sin(v b) and v cos(v b). */
static void cosine_sums(psf *p, const double *c, const double *s, const double *r, double *f,
                        double *df) {
    size_t P = (size_t)p->P;
    double *even = p->trig, *odd = even + P * WIDTH;
    double *sum_even = p->proj, *sum_odd = sum_even + P * WIDTH;
    double turn = 2 * M_PI / p->N;
    rotor t;
    rotor_start(&t, r, s, turn);
    for (size_t v = 0; v < P; v++, rotor_step(&t)) {
        double *restrict e = even + v * WIDTH, *restrict o = odd + v * WIDTH;
#pragma omp simd
        for (int i = 0; i < ND; i++) {
            e[i] = t.c[i];
            e[ND + i] = (double)v * t.s[i];
            o[i] = t.s[i];
            o[ND + i] = (double)v * t.c[i];
        }
    }
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, p->P, WIDTH, p->P, 1, p->even, p->ld,
                even, WIDTH, 0, sum_even, WIDTH);
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, p->P, WIDTH, p->P, 1, p->odd, p->ld, odd,
                WIDTH, 0, sum_odd, WIDTH);
    rotor_start(&t, r, c, turn);
    memset(f, 0, ND * sizeof *f);
    memset(df, 0, ND * sizeof *df);
    for (size_t u = 0; u < P; u++, rotor_step(&t)) {
        const double *e = sum_even + u * WIDTH, *o = sum_odd + u * WIDTH;
        double twice = u == 0 ? 1 : 2;
#pragma omp simd
        for (int i = 0; i < ND; i++) {
            double along_x = c[i] * (double)u * (t.s[i] * e[i] + t.c[i] * o[i]);
            double along_y = s[i] * (t.c[i] * e[ND + i] + t.s[i] * o[ND + i]);
            f[i] += twice * (t.c[i] * e[i] - t.s[i] * o[i]);
            df[i] -= twice * turn * (along_x + along_y);
        }
    }
}

typedef struct {   /* search for the half-peak radius in one direction */
    double lo, hi; /* above and below half the peak; hi is infinite until known */
    double r;
    bool done;
} search;

/* One safeguarded Newton step. The bracket [lo, hi] only shrinks and steps outside it are at most
 * one pixel, so a search ends: at a crossing, or beyond N/2 with NaN. */
static void search_step(search *k, double limit, double half, double f, double df) {
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

double psf_fwhm(psf *p) {
    double c[PSF_NDIR], s[PSF_NDIR], r[PSF_NDIR], f[PSF_NDIR], df[PSF_NDIR];
    search k[PSF_NDIR];
    double half = 0.5 * psf_strehl(p), sum = 0;
    bool busy = true;
    for (int i = 0; i < PSF_NDIR; i++) {
        c[i] = cos(M_PI * i / PSF_NDIR);
        s[i] = sin(M_PI * i / PSF_NDIR);
    }
    guess_all(p, c, s, half, r);
    for (int i = 0; i < PSF_NDIR; i++)
        k[i] = (search){0, INFINITY, r[i], false};
    while (busy) {
        cosine_sums(p, c, s, r, f, df);
        busy = false;
        for (int i = 0; i < PSF_NDIR; i++) {
            search_step(&k[i], p->N / 2.0, half, f[i], df[i]);
            r[i] = isnan(k[i].r) ? 0 : k[i].r;
            busy = busy || !k[i].done;
        }
    }
    for (int i = 0; i < PSF_NDIR; i++)
        sum += 2 * k[i].r / PSF_NDIR;
    return sum;
}
