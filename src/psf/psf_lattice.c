/* From sums over pairs of points to the structure function of the residual phase on the grid of
 * rho. Model section 7.
 *
 * D = D_turb(rho) + S(rho): the first, exact, has a cusp at 0 and is large; S comes from the sums,
 * is smooth, and cancels most of it. Interpolated is S + D_s, D_s(rho) = D_turb(sqrt(rho^2 + d^2))
 * - D_turb(d), smooth too and nearly D_turb: so what is interpolated is as small as the residual.
 */
#include "psf_phase.h"

#include "matcov/formula.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define HALF (PHASE_TAPS / 2)
#define WINDOW 9.0 /* of Kaiser */

/* Modified Bessel function of the first kind, order 0. */
static double bessel_i0(double x) {
    double term = 1, sum = 1;
    for (int k = 1; k < 60 && term > 1e-17 * sum; k++) {
        term *= 0.25 * x * x / ((double)k * k);
        sum += term;
    }
    return sum;
}

/* Weights of the points floor(c) - HALF + 1 .. floor(c) + HALF of a row for the place c: a sinc
 * under Kaiser's window, its sum 1. Returns the first of them. */
static int tap_weights(double c, double *w) {
    const int first = (int)floor(c) - HALF + 1;
    double sum = 0;
    for (int i = 0; i < PHASE_TAPS; i++) {
        const double t = c - (first + i), u = t / HALF;
        w[i] = u * u < 1 ? psf_sinc(t) * bessel_i0(WINDOW * sqrt(1 - u * u)) : 0;
        sum += w[i];
    }
    for (int i = 0; i < PHASE_TAPS; i++)
        w[i] /= sum;
    return first;
}

void phase_weights(psf *p) {
    const int s = p->lattice;
    const double step = (double)p->lattice / p->P; /* a pixel of the grid, in points */
    for (int u = 0; u < p->P; u++)
        for (int odd = 0; odd < 2; odd++)
            p->tap_x[odd][u] =
                tap_weights(u * step + s - 0.5 * odd, p->tap_wx[odd] + u * PHASE_TAPS);
    for (int v = 1 - p->P; v < p->P; v++)
        p->tap_y[v + p->P - 1] = tap_weights(v * step + s, p->tap_wy + (v + p->P - 1) * PHASE_TAPS);
}

double phase_length(const psf *p, int at) {
    const int s = p->lattice, dj = at / p->nsep - s;
    return hypot(dj * p->h, (at % p->nsep - s + (dj & p->shift ? 0.5 : 0)) * p->h);
}

int phase_opposite(const psf *p, int at) {
    const int s = p->lattice, dj = at / p->nsep - s, di = at % p->nsep - s;
    return (s - dj) * p->nsep + s - di - (dj & p->shift);
}

/* A sum over pairs (of_pairs) or a function of the separation on the lattice, with a margin of HALF
 * points on all sides; beyond the pairs the mean of the outer ones. */
static void lattice_mean(psf *p, const double *sum, bool of_pairs) {
    const int nsep = p->nsep, wide = nsep + 2 * HALF;
    double far = 0, pairs = 0;
    for (int i = 0; i < nsep * nsep; i++)
        if (p->norm[i] > 0 && phase_length(p, i) > 0.6 * p->n * p->pitch) {
            far += of_pairs ? sum[i] : p->norm[i] * sum[i];
            pairs += p->norm[i];
        }
    far /= pairs > 0 ? pairs : 1;
    for (int i = 0; i < wide * wide; i++)
        p->mean[i] = far;
    for (int j = 0; j < nsep; j++)
        for (int i = 0; i < nsep; i++) {
            const int at = j * nsep + i;
            if (p->norm[at] > 0)
                p->mean[(j + HALF) * wide + i + HALF] =
                    of_pairs ? (sum[at] + sum[phase_opposite(p, at)]) / (2 * p->norm[at]) : sum[at];
        }
}

/* p->otf += factor times what p->mean is on the grid. */
static void add_grid(psf *p, double factor) {
    const int wide = p->nsep + 2 * HALF, s = p->lattice;
#pragma omp parallel for schedule(static) if (p->N >= PSF_PARALLEL)
    for (int u = 0; u < p->P; u++) {
        double *part = p->part + (size_t)u * (size_t)wide;
        double *row = p->otf + (size_t)u * (size_t)p->stride;
        for (int j = 0; j < wide; j++) {
            const int odd = (j - HALF - s) & p->shift;
            const double *w = p->tap_wx[odd] + u * PHASE_TAPS;
            const double *f = p->mean + (size_t)j * (size_t)wide + HALF + p->tap_x[odd][u];
            part[j] = 0;
            for (int i = 0; i < PHASE_TAPS; i++)
                part[j] += w[i] * f[i];
        }
        for (int v = -p->vmax[u]; v <= p->vmax[u]; v++) {
            const double *w = p->tap_wy + (v + p->P - 1) * PHASE_TAPS;
            const double *f = part + HALF + p->tap_y[v + p->P - 1];
            double value = 0;
            for (int j = 0; j < PHASE_TAPS; j++)
                value += w[j] * f[j];
            row[v < 0 ? v + p->N : v] += factor * value;
        }
    }
}

/* Into p->otf: c0 - (S + D_s)/2, c0 half the mean of S + D_s over all pairs, which is its part of
 * the variance over the pupil. */
void phase_covariance(psf *p, const double *sum) {
    double c0 = 0;
    lattice_mean(p, sum, true);
    for (int i = 0; i < p->nsep * p->nsep; i++)
        c0 += sum[i];
    c0 *= 0.5 / ((double)p->np * p->np);
    for (int u = 0; u < p->P; u++) {
        double *row = p->otf + (size_t)u * (size_t)p->stride;
        memset(row, 0, (size_t)p->N * sizeof *row);
        for (int v = -p->vmax[u]; v <= p->vmax[u]; v++)
            row[v < 0 ? v + p->N : v] = c0;
    }
    add_grid(p, -0.5);
}

void phase_add_grid(psf *p, const double *value, double factor) {
    lattice_mean(p, value, false);
    add_grid(p, factor);
}

typedef struct { /* layers of the same outer scale count as one */
    int n;
    double *strength, *L0;
} turbulence;

static status turbulence_init(const profile *prof, turbulence *t) {
    status st;
    *t = (turbulence){0};
    TRY(ALLOC(t->strength, (size_t)prof->nlayer, "layers"));
    TRY(ALLOC(t->L0, (size_t)prof->nlayer, "layers"));
    for (int l = 0; l < prof->nlayer; l++) {
        int i = 0;
        if (!(prof->strength[l] > 0))
            continue;
        while (i < t->n && t->L0[i] != prof->L0[l])
            i++;
        t->n += i == t->n;
        t->L0[i] = prof->L0[l];
        t->strength[i] += prof->strength[l];
    }
done:
    return st;
}

static void turbulence_free(turbulence *t) {
    free(t->strength);
    free(t->L0);
}

/* D_turb at 500 nm [rad^2]. */
static double structure_at(const turbulence *t, double rho) {
    double sum = 0;
    for (int i = 0; i < t->n; i++)
        sum += formula_structure(t->strength[i], t->L0[i], rho);
    return sum;
}

static double smooth_at(const psf *p, const turbulence *t, double rho) {
    return structure_at(t, hypot(rho, p->pitch)) - structure_at(t, p->pitch);
}

/* D_s of the separations of one quadrant of the lattice, or D_turb - D_s: [s + 1][s + 1]. */
static void fill_quadrant(const psf *p, const turbulence *t, bool rest, double *quadrant) {
    const int s = p->lattice;
#pragma omp parallel for schedule(dynamic, 4)
    for (int j = 0; j <= s; j++)
        for (int i = 0; i <= s; i++) {
            const double rho = hypot(j, i + (j & p->shift ? 0.5 : 0)) * p->h;
            const double d = smooth_at(p, t, rho);
            quadrant[j * (s + 1) + i] = rest ? structure_at(t, rho) - d : d;
        }
}

/* Its value for the separation at place `at`. */
static double of_quadrant(const psf *p, const double *quadrant, int at) {
    const int s = p->lattice, dj = at / p->nsep - s;
    const int dx = 2 * (at % p->nsep - s) + (dj & p->shift); /* in FP16 of h */
    return quadrant[abs(dj) * (s + 1) + (abs(dx) >> 1)];
}

status psf_structure(const psf *p, const profile *prof, double *d) {
    const double scale = pow(LAMBDA_REF / (2 * M_PI), 2);
    const int s = p->lattice;
    double *quadrant = NULL;
    turbulence t = {0};
    status st;
    TRY(turbulence_init(prof, &t));
    TRY(ALLOC(quadrant, (size_t)(s + 1) * (size_t)(s + 1), "structure function"));
#pragma omp parallel for schedule(dynamic, 4)
    for (int j = 0; j <= s; j++)
        for (int i = 0; i <= s; i++)
            quadrant[j * (s + 1) + i] =
                scale * structure_at(&t, hypot(j, i + (j & p->shift ? 0.5 : 0)) * p->h);
    for (int i = 0; i < p->nsep * p->nsep; i++)
        d[i] = p->norm[i] > 0 ? of_quadrant(p, quadrant, i) : 0;
done:
    turbulence_free(&t);
    free(quadrant);
    return st;
}

void psf_structure_displaced(const psf *p, double strength, double L0, const double shift[2],
                             double *d) {
    const double scale = pow(LAMBDA_REF / (2 * M_PI), 2);
    const int s = p->lattice;
#pragma omp parallel for schedule(dynamic, 4)
    for (int dj = -s; dj <= s; dj++)
        for (int di = 0; di < p->nsep; di++) {
            const int at = (dj + s) * p->nsep + di;
            const double x = (di - s + (dj & p->shift ? 0.5 : 0)) * p->h, y = dj * p->h;
            if (p->norm[at] > 0)
                d[at] += scale * formula_structure(strength, L0, hypot(x + shift[0], y + shift[1]));
        }
}

double psf_pair_mean(const psf *p, const double *d) {
    double sum = 0;
    for (int i = 0; i < p->nsep * p->nsep; i++)
        sum += p->norm[i] * d[i];
    return sum / ((double)p->np * p->np);
}

status psf_phase_common(const psf *p, const profile *prof, double *sum) {
    const double scale = pow(LAMBDA_REF / (2 * M_PI), 2);
    const size_t side = (size_t)(p->lattice) + 1;
    double *quadrant = NULL;
    turbulence t = {0};
    status st;
    TRY(turbulence_init(prof, &t));
    TRY(ALLOC(quadrant, side * side, "structure function of the turbulence"));
    fill_quadrant(p, &t, false, quadrant);
    for (int i = 0; i < p->nsep * p->nsep; i++)
        if (p->norm[i] > 0)
            sum[i] += scale * p->norm[i] * of_quadrant(p, quadrant, i);
done:
    turbulence_free(&t);
    free(quadrant);
    return st;
}

status phase_rest(const psf *p, const profile *prof, psf_fit *f) {
    const size_t side = (size_t)(p->lattice) + 1;
    double *quadrant = NULL, variance = 0;
    turbulence t = {0};
    status st;
    TRY(turbulence_init(prof, &t));
    TRY(ALLOC(quadrant, side * side, "structure function of the turbulence"));
    fill_quadrant(p, &t, true, quadrant);
    for (int i = 0; i < p->nsep * p->nsep; i++)
        if (p->norm[i] > 0)
            variance += p->norm[i] * of_quadrant(p, quadrant, i);
    f->variance = 0.5 * variance / ((double)p->np * p->np);
#pragma omp parallel for schedule(dynamic, 4)
    for (int u = 0; u < p->P; u++)
        for (int v = 0; v <= u; v++) {
            const double rho = hypot(u, v) * p->pixel;
            f->d[(size_t)u * (size_t)p->P + (size_t)v] =
                f->d[(size_t)v * (size_t)p->P + (size_t)u] =
                    structure_at(&t, rho) - smooth_at(p, &t, rho);
        }
done:
    turbulence_free(&t);
    free(quadrant);
    return st;
}
