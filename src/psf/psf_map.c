/* A static error that is known: a map of optical path over the pupil. It is no random phase with a
 * structure function, but multiplies the OTF by a complex factor. Model section 7.
 *
 * With u = exp(2 pi i path/lambda) on the pupil, and 0 outside, the factor is the autocorrelation
 * of u over that of the pupil, both on the same samples, so that their edges matter little; what it
 * multiplies is the exact OTF of the annulus. */
#include "psf_plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LEAST_SAMPLES 512 /* across the pupil */
#define MOST_SAMPLES 1024 /* where the map has more pixels */
#define EXACT 1e-6        /* of a pixel */

/* Value at (x, y) in pixels from the first one's centre, between the pixels that have one; NAN
 * where none has. */
static double value_at(const psf_map *m, double x, double y) {
    const int i0 = (int)floor(x), j0 = (int)floor(y);
    double sum = 0, weight = 0;
    for (int k = 0; k < 4; k++) {
        const int i = i0 + (k & 1), j = j0 + (k >> 1);
        const double w = (k & 1 ? x - i0 : 1 - (x - i0)) * (k >> 1 ? y - j0 : 1 - (y - j0));
        if (i < 0 || j < 0 || i >= m->nx || j >= m->ny || w < EXACT)
            continue;
        const double v = m->path[(size_t)j * (size_t)m->nx + (size_t)i];
        if (isfinite(v)) {
            sum += w * v;
            weight += w;
        }
    }
    return weight > 0 ? sum / weight : NAN;
}

double psf_map_path(const psf_map *m, double x, double y) {
    const double px = x / m->pixel + 0.5 * (m->nx - 1), py = y / m->pixel + 0.5 * (m->ny - 1);
    const double i = floor(px + 0.5), j = floor(py + 0.5);
    if (m->blocks && i >= 0 && j >= 0 && i < m->nx && j < m->ny) {
        const double v = m->path[(size_t)j * (size_t)m->nx + (size_t)i];
        if (isfinite(v))
            return v;
    }
    return value_at(m, px, py);
}

int psf_map_samples(const psf_map *m, double diameter, int P) {
    const double pixels = fmin(ceil(diameter / m->pixel), MOST_SAMPLES);
    const int least = (int)fmax(LEAST_SAMPLES, pixels);
    return (least + P - 1) / P * P;
}

typedef struct {
    int n, side;       /* samples across the pupil, of the transforms */
    double *path;      /* [n][n] without its mean; NAN outside the pupil */
    double *amplitude; /* [n][n] of the pupil; NULL: of an annulus */
    double *area;      /* [side][side] autocorrelation of the pupil */
    fftw_complex *u;
    fftw_plan there, back;
} work;

static void close_work(work *k) {
    free(k->path);
    free(k->amplitude);
    free(k->area);
    free(k->u);
    fftw_destroy_plan(k->there);
    fftw_destroy_plan(k->back);
}

static double amplitude_at(const work *k, int i, int j) {
    return k->amplitude != NULL ? k->amplitude[(size_t)j * (size_t)k->n + (size_t)i] : 1;
}

/* The path at the samples, and its variance [m^2]. */
static status sample(const psf_map *m, const sys *s, work *k, double *variance) {
    const double diameter = s->diameter, step = diameter / k->n, radius = 0.5 * diameter;
    double mean = 0, square = 0, count = 0;
    for (int j = 0; j < k->n; j++)
        for (int i = 0; i < k->n; i++) {
            double *p = &k->path[(size_t)j * (size_t)k->n + (size_t)i];
            const double x = (i + 0.5) * step - radius, y = (j + 0.5) * step - radius;
            const double r = hypot(x, y), a = amplitude_at(k, i, j), w = a * a;
            *p = NAN;
            if (k->amplitude != NULL ? !(a > 0) : r >= radius || r < s->obs * radius)
                continue;
            *p = psf_map_path(m, x, y);
            if (!isfinite(*p) && a < 0.5) /* a cell on the edge */
                continue;
            if (!isfinite(*p))
                return status_fail(MOAO_INPUT,
                                   "errors.static_map: no value at (%.3g, %.3g) m, inside the "
                                   "pupil of %.4g m; expected finite values all over it",
                                   x, y, diameter);
            mean += w * *p;
            count += w;
        }
    mean /= count;
    for (int j = 0; j < k->n; j++)
        for (int i = 0; i < k->n; i++) {
            double *p = &k->path[(size_t)j * (size_t)k->n + (size_t)i];
            const double a = amplitude_at(k, i, j);
            *p -= mean;
            square += isfinite(*p) ? a * a * *p * *p : 0;
        }
    *variance = square / count;
    return MOAO_OK;
}

/* k->u = autocorrelation of exp(i wave path), times side^2. */
static void correlate(const work *k, double wave) {
    const size_t n = (size_t)k->n, side = (size_t)k->side;
    memset(k->u, 0, side * side * sizeof *k->u);
    for (size_t j = 0; j < n; j++)
        for (size_t i = 0; i < n; i++)
            if (isfinite(k->path[j * n + i]))
                k->u[j * side + i] =
                    amplitude_at(k, (int)i, (int)j) * cexp(I * wave * k->path[j * n + i]);
    fftw_execute(k->there);
    for (size_t i = 0; i < side * side; i++)
        k->u[i] = creal(k->u[i]) * creal(k->u[i]) + cimag(k->u[i]) * cimag(k->u[i]);
    fftw_execute(k->back);
}

/* The factor at (u, v) pixels of the grid: of the OTF whose image is the sum of OTF exp(+2 pi i
 * rho.theta). */
static void fill_factor(const psf *p, const work *k, int l) {
    const size_t side = (size_t)k->side, step = (size_t)(k->n / p->P);
    for (int u = 0; u < p->P; u++)
        for (int v = 1 - p->P; v < p->P; v++) {
            const size_t at =
                (size_t)((v < 0 ? v + (int)(side / step) : v)) * step * side + (size_t)u * step;
            const size_t to = ((size_t)l * (size_t)p->P + (size_t)u) * (size_t)(2 * p->P - 1) +
                              (size_t)(v + p->P - 1);
            const double scale = (double)side * (double)side, area = k->area[at] / scale;
            p->map_even[to] = area > 0.5 ? creal(k->u[at]) / scale / area : 1;
            p->map_odd[to] = area > 0.5 ? -cimag(k->u[at]) / scale / area : 0;
        }
}

status psf_map_init(psf *p, const psf_map *m, const sys *s) {
    const double diameter = p->P * p->pixel, rad = 2 * M_PI / LAMBDA_REF;
    work k = {0};
    double variance = 0;
    status st;
    if (m == NULL)
        return MOAO_OK;
    k.n = psf_map_samples(m, diameter, p->P);
    k.side = 2 * k.n;
    const size_t all = (size_t)k.side * (size_t)k.side;
    TRY(ALLOC(k.path, (size_t)k.n * (size_t)k.n, "static map"));
    TRY(ALLOC(k.area, all, "static map"));
    TRY(ALLOC(k.u, all, "static map"));
    k.there = fftw_plan_dft_2d(k.side, k.side, k.u, k.u, FFTW_FORWARD, FFTW_ESTIMATE);
    k.back = fftw_plan_dft_2d(k.side, k.side, k.u, k.u, FFTW_BACKWARD, FFTW_ESTIMATE);
    if (k.there == NULL || k.back == NULL)
        TRY(status_fail(MOAO_INTERNAL, "FFTW cannot plan transforms of %d points", k.side));
    if (s->pupil != NULL) {
        TRY(ALLOC(k.amplitude, (size_t)k.n * (size_t)k.n, "static map"));
        pupil_cells(s->pupil, k.n, k.amplitude, NULL);
    }
    TRY(sample(m, s, &k, &variance));
    correlate(&k, 0);
    for (size_t i = 0; i < all; i++)
        k.area[i] = creal(k.u[i]);
    for (int l = 0; l < p->nmono; l++) {
        correlate(&k, 2 * M_PI / p->mono[l]);
        fill_factor(p, &k, l);
    }
    p->errors_part[1] += rad * rad * variance;
done:
    close_work(&k);
    return st;
}
