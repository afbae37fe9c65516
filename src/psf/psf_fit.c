/* What the deformable mirror is too coarse to correct. Model section 7. */
#include "psf_phase.h"

#include <math.h>
#include <stdlib.h>

typedef struct { /* layers of one outer scale */
    double strength;
    double cut; /* L0^-2 [m^-2] */
} group;

/* Layers of the same outer scale count as one. Returns the number of groups. */
static int group_layers(const profile *prof, group *g) {
    int count = 0;
    for (int l = 0; l < prof->nlayer; l++) {
        double cut = 1 / (prof->L0[l] * prof->L0[l]);
        int i = 0;
        if (!(prof->strength[l] > 0))
            continue;
        while (i < count && g[i].cut != cut)
            i++;
        if (i == count)
            g[count++] = (group){0, cut};
        g[i].strength += prof->strength[l];
    }
    return count;
}

/* Length of the overlap of the cell j +- 1/2 with the interval +-h. */
static double overlap(int j, double h) {
    return fmax(0, fmin(j + 0.5, h) - fmax(j - 0.5, -h));
}

/* w(f) W(f) df^2 on one quadrant of the frequency grid, side x side points. */
static void fill_spectrum(const psf *p, const group *g, int ngroup, int side, double *w) {
    double df = 1 / (p->N * p->pixel), cut = p->N / (2.0 * p->k);
#pragma omp parallel for schedule(dynamic, 16)
    for (int j = 0; j < side; j++)
        for (int i = 0; i <= j; i++) {
            double outside = 1 - overlap(i, cut) * overlap(j, cut), sum = 0;
            double f2 = ((double)i * i + (double)j * j) * df * df;
            if (outside > 0)
                for (int l = 0; l < ngroup; l++) {
                    double x = f2 + g[l].cut;
                    sum += g[l].strength * cbrt(sqrt(x)) / (x * x); /* x^(-11/6) */
                }
            w[(size_t)j * (size_t)side + (size_t)i] = w[(size_t)i * (size_t)side + (size_t)j] =
                outside * PSF_SPECTRUM * sum * df * df;
        }
}

/* Integral of W outside the square: 8 sectors of 45 degrees, the radius done analytically
 * (int f (f^2 + c)^(-11/6) df = 0.6 (f^2 + c)^(-5/6) from f on), the angle by Simpson's rule. */
static double variance_outside(double pitch, const group *g, int ngroup) {
    const int n = 256;
    double fc = 0.5 / pitch, h = M_PI / 4 / n, sum = 0;
    for (int i = 0; i <= n; i++) {
        double f = fc / cos(i * h), simpson = i == 0 || i == n ? 1 : i % 2 ? 4 : 2;
        for (int l = 0; l < ngroup; l++)
            sum += simpson * g[l].strength * pow(f * f + g[l].cut, -5.0 / 6);
    }
    return 8 * 0.6 * PSF_SPECTRUM * sum * h / 3;
}

status psf_fit_init(const psf *p, const profile *prof, psf_fit **out) {
    int side = p->N / 2 + 1, P = p->P;
    double *b = NULL, beyond = 0;
    group *g = NULL;
    psf_fit *f = NULL;
    status st = MOAO_OK;
    *out = NULL;
    TRY(ALLOC(f, 1, "fitting error"));
    TRY(ALLOC(f->d, (size_t)P * (size_t)P, "structure function of the fitting error"));
    TRY(ALLOC(b, (size_t)side * (size_t)side, "spectrum of the fitting error"));
    TRY(ALLOC(g, (size_t)prof->nlayer, "layers of the fitting error"));
    int ngroup = group_layers(prof, g);
    f->P = P;
    f->variance = variance_outside(p->pitch, g, ngroup);
    for (int l = 0; l < ngroup; l++)
        beyond += PSF_BEYOND * g[l].strength * pow(p->pixel, 5.0 / 3);
    fill_spectrum(p, g, ngroup, side, b);
    fftw_execute_r2r(p->spectrum, b, b);
    for (int u = 0; u < P; u++)
        for (int v = 0; v < P; v++)
            f->d[(size_t)u * (size_t)P + (size_t)v] =
                u + v > 0 ? 2 * (b[0] - b[(size_t)u * (size_t)side + (size_t)v] + beyond) : 0;
    *out = f;
    f = NULL;
done:
    psf_fit_free(f);
    free(b);
    free(g);
    return st;
}

status psf_fit_ideal(const psf *p, const profile *prof, double *variance) {
    group *g = NULL;
    status st = ALLOC(g, (size_t)prof->nlayer, "layers of the fitting error");
    if (st == MOAO_OK)
        *variance =
            variance_outside(p->pitch, g, group_layers(prof, g)) * pow(LAMBDA_REF / (2 * M_PI), 2);
    free(g);
    return st;
}

status psf_rest_init(const psf *p, const profile *prof, psf_fit **out) {
    psf_fit *f = NULL;
    status st;
    *out = NULL;
    if (p->lattice == 0) {
        TRY(psf_fit_init(p, prof, &f));
    } else {
        TRY(ALLOC(f, 1, "turbulence"));
        TRY(ALLOC(f->d, (size_t)p->P * (size_t)p->P, "structure function of the turbulence"));
        f->P = p->P;
        TRY(phase_rest(p, prof, f));
    }
    psf_errors_add(p, f);
    *out = f;
    f = NULL;
done:
    psf_fit_free(f);
    return st;
}

void psf_fit_free(psf_fit *f) {
    if (f == NULL)
        return;
    free(f->d);
    free(f);
}

double psf_fit_variance(const psf_fit *f, double lambda) {
    return f->variance * pow(LAMBDA_REF / lambda, 2);
}

double psf_fit_strehl(const psf *p, const psf_fit *f, int ilambda) {
    double scale = 0.5 * pow(LAMBDA_REF / p->lambda[ilambda], 2), sum = 0;
    for (int u = 0; u < p->P; u++) {
        const double *tel = telescope_row(p, p->first[ilambda], u);
        for (int v = 0; v <= p->vmax[u]; v++) {
            size_t i = (size_t)u * (size_t)p->P + (size_t)v;
            sum += (u == 0 ? 1 : 2) * (v == 0 ? tel[0] : tel[v] + tel[-v]) * exp(-scale * f->d[i]);
        }
    }
    return sum;
}
