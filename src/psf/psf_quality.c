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

double psf_ensquared(const psf *p, double lambda, double side) {
    double step = side * p->pixel / lambda,
           sum = 0; /* box in units of a pixel's spatial frequency */
    double *s = p->trig;
    for (int v = 0; v < p->P; v++)
        s[v] = psf_sinc(step * v);
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

/* First radius [pixels] at which the image falls to `half` along (c, s); -1: beyond the rows that
 * are there, or beyond N/2. */
static double guess_radius(const psf *p, double c, double s, double half) {
    const double step = PSF_GUESS;
    double last = 2 * half;
    int n = (int)(p->N / 2 / step);
    for (int i = 1; i <= n; i++) {
        double r = i * step;
        if ((int)(r * s) + 2 >= p->nrow)
            return p->nrow > p->N / 2 ? p->N / 2.0 : -1;
        double f = psf_image_at(p->image, (size_t)p->stride, p->N, -r * c, -r * s);
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
static void cosine_sums(psf *p, const psf_layer *layer, const double *c, const double *s,
                        const double *r, double *f, double *df) {
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
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, p->P, WIDTH, p->P, 1, layer->even, p->ld,
                even, WIDTH, 0, sum_even, WIDTH);
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, p->P, WIDTH, p->P, 1, layer->odd, p->ld,
                odd, WIDTH, 0, sum_odd, WIDTH);
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

/* Those of all layers, at radius r[i] pixels of their sum. */
static void layer_sums(psf *p, int n, const psf_layer *layer, const double *c, const double *s,
                       const double *r, double *f, double *df) {
    double own[PSF_NDIR], g[PSF_NDIR], dg[PSF_NDIR];
    memset(f, 0, PSF_NDIR * sizeof *f);
    memset(df, 0, PSF_NDIR * sizeof *df);
    for (int k = 0; k < n; k++) {
        const double light = layer[k].light, scale = layer[k].scale;
        for (int i = 0; i < PSF_NDIR; i++)
            own[i] = r[i] * scale;
        cosine_sums(p, &layer[k], c, s, own, g, dg);
        for (int i = 0; i < PSF_NDIR; i++) {
            f[i] += light * g[i];
            df[i] += light * scale * dg[i];
        }
    }
}

double psf_fwhm_of(psf *p, int n, const psf_layer *layer, int guess, double near, double peak) {
    double c[PSF_NDIR], s[PSF_NDIR], r[PSF_NDIR], f[PSF_NDIR], df[PSF_NDIR];
    psf_search k[PSF_NDIR];
    double half = 0.5 * peak, sum = 0;
    bool busy = true;
    for (int i = 0; i < PSF_NDIR; i++) {
        c[i] = cos(M_PI * i / PSF_NDIR);
        s[i] = sin(M_PI * i / PSF_NDIR);
    }
    guess_all(p, c, s, 0.5 * near, r);
    for (int i = 0; i < PSF_NDIR; i++) {
        r[i] /= layer[guess].scale;
        k[i] = (psf_search){0, INFINITY, r[i], false};
    }
    while (busy) {
        layer_sums(p, n, layer, c, s, r, f, df);
        busy = false;
        for (int i = 0; i < PSF_NDIR; i++) {
            psf_search_step(&k[i], p->N / 2.0, half, f[i], df[i]);
            r[i] = isnan(k[i].r) ? 0 : k[i].r;
            busy = busy || !k[i].done;
        }
    }
    for (int i = 0; i < PSF_NDIR; i++)
        sum += 2 * k[i].r / PSF_NDIR;
    return sum;
}

double psf_fwhm(psf *p) {
    const psf_layer all = {p->even, p->odd, 1, 1};
    const double peak = psf_strehl(p);
    return psf_fwhm_of(p, 1, &all, 0, peak, peak);
}
