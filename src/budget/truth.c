/* With B = A D+ (points x t), D+'G D+ = B'B/points. Ctt depends on the difference of two
 * subapertures alone, so of B'B its sums over all pairs with the same difference are enough:
 * autocorrelations of the rows of B, laid out on the square of subapertures, which are added up as
 * power spectra. A row of points at a time B is made, transformed, and multiplied with Cpt, and not
 * kept. */
#include "budget/truth.h"

#include "matcov/matcov.h"
#include "moao/cpu_threads.h"

#include <cblas.h>
#include <complex.h>
#include <fftw3.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PARTS 16  /* into which sums are divided, whatever the number of threads */
#define PANEL 128 /* slopes whose covariances with a row of points are made together */

typedef struct { /* covariances of a layer of strength 1 on the ground */
    sys seen;    /* a system whose one sensor is the truth sensor */
    profile p;
    double h, strength, wind[2];
    matcov *mc;
    matcov_target *target;
} layer;

enum { XX, YY, XY, KINDS }; /* axes of two slopes */

typedef struct {
    const sys *s;
    const psf *p;
    const double *dplus, *mean;
    double *level;     /* [t] mean of each column of IF D+ over the points */
    int t, side, size; /* slopes; subapertures across; points of a transform along a side */
    int most;          /* points of a row, at most */
    size_t waves;      /* size (size/2 + 1) */
    int n;             /* outer scales */
    layer *y;          /* [n] */
    fftw_plan there;
} job;

typedef struct {           /* sums of a part of the rows of points, and its room */
    double *cross;         /* [n] <B, Cpt> */
    fftw_complex *spectra; /* [KINDS][waves] */
    double *influence, *b; /* of a row of points: actuators in reach x points; t x points */
    double *cov;           /* points x PANEL */
    double *image;         /* [size][size] slopes of an axis where their subapertures are */
    fftw_complex *wave[2]; /* [waves] of x slopes, of y slopes */
} part;

static status open_layer(const sys *s, double *L0, layer *y) {
    status st;
    y->seen = *s;
    y->seen.sensors = &y->seen.ts;
    y->seen.nsensor = 1;
    y->seen.m = s->t;
    y->seen.ts.altitude = INFINITY;
    y->seen.ts.mag = 1;
    y->seen.ts.noise = (sensor_noise){0};
    y->strength = 1;
    y->p = (profile){.nlayer = 1,
                     .h = &y->h,
                     .L0 = L0,
                     .strength = &y->strength,
                     .wind = {&y->wind[0], &y->wind[1]},
                     .r0 = 1};
    TRY(matcov_prepare(&y->seen, &y->p, &y->mc));
    TRY(matcov_tabulate(y->mc));
    st = matcov_target_init(y->mc, (double[2]){0, 0}, false, &y->target);
done:
    return st;
}

static void close_layer(layer *y) {
    matcov_target_free(y->target);
    matcov_free(y->mc);
}

/* --- sums over the rows of points */

static status open_part(const job *k, part *w) {
    const size_t most = (size_t)k->most, side = (size_t)k->size;
    status st;
    TRY(ALLOC(w->cross, (size_t)k->n, "variances"));
    TRY(ALLOC(w->spectra, KINDS * k->waves, "spectra of slopes"));
    TRY(ALLOC(w->influence, most * (size_t)k->s->dm.nact, "influence functions"));
    TRY(ALLOC(w->b, most * (size_t)k->t, "shapes of slopes"));
    TRY(ALLOC(w->cov, most * PANEL, "covariances of the truth sensor"));
    TRY(ALLOC(w->image, side * side, "slopes"));
    TRY(ALLOC(w->wave[0], k->waves, "spectra of slopes"));
    TRY(ALLOC(w->wave[1], k->waves, "spectra of slopes"));
done:
    return st;
}

static void close_part(part *w) { /* all but the sums */
    void *const room[] = {w->influence, w->b, w->cov, w->image, w->wave[0], w->wave[1]};
    for (size_t i = 0; i < sizeof room / sizeof *room; i++)
        free(room[i]);
}

/* b (t x n) = B at the points of a row, transposed. */
static void shapes_of(const job *k, const psf_strip *z, const double *influence, double *b) {
    const int v = k->s->dm.nact, t = k->t;
    for (int i = 0; i < z->n; i++)
        for (int j = 0; j < t; j++)
            b[(size_t)i * (size_t)t + (size_t)j] = -k->level[j];
    if (z->nact > 0)
        cblas_dgemm(CblasColMajor, CblasTrans, CblasNoTrans, t, z->n, z->nact, 1.0,
                    k->dplus + z->act, v, influence, z->nact, 1.0, b, t);
}

/* Spectra of the slopes b[t] of a point. */
static void add_spectra(const job *k, const double *b, part *w) {
    const int *sub = k->s->ts.sub, nsub = k->s->ts.nsub;
    for (int axis = 0; axis < 2; axis++) {
        for (int i = 0; i < nsub; i++)
            w->image[sub[i] / k->side * k->size + sub[i] % k->side] = b[axis * nsub + i];
        fftw_execute_dft_r2c(k->there, w->image, w->wave[axis]);
    }
    const double *x = (const double *)w->wave[0], *y = (const double *)w->wave[1];
    double *xx = (double *)(w->spectra + XX * k->waves),
           *yy = (double *)(w->spectra + YY * k->waves),
           *xy = (double *)(w->spectra + XY * k->waves);
    for (size_t i = 0; i < 2 * k->waves; i += 2) {
        xx[i] += x[i] * x[i] + x[i + 1] * x[i + 1];
        yy[i] += y[i] * y[i] + y[i + 1] * y[i + 1];
        xy[i] += x[i] * y[i] + x[i + 1] * y[i + 1]; /* conj(x) y */
        xy[i + 1] += x[i] * y[i + 1] - x[i + 1] * y[i];
    }
}

/* Their products with Cpt. */
static status add_cross(const job *k, const psf_strip *z, part *w) {
    const double *px, *py;
    status st = MOAO_OK;
    psf_points(k->p, &px, &py);
    for (int l = 0; l < k->n; l++)
        for (int j = 0, n; j < k->t; j += n) {
            n = k->t - j < PANEL ? k->t - j : PANEL;
            TRY(matcov_fill_cpm(k->y[l].target, (matcov_points){z->n, px + z->first, py + z->first},
                                (size_t)j, (size_t)n, w->cov, (size_t)z->n));
            for (int i = 0; i < z->n; i++)
                w->cross[l] +=
                    cblas_ddot(n, w->b + (size_t)i * (size_t)k->t + j, 1, w->cov + i, z->n);
        }
done:
    return st;
}

/* Every step-th row from `first` on. */
static status add_rows(const job *k, int first, int step, part *w) {
    status st = open_part(k, w);
    for (int j = first; j < psf_lattice_rows(k->p) && st == MOAO_OK; j += step) {
        const psf_strip z = psf_influence(k->p, j, 0, w->influence);
        shapes_of(k, &z, w->influence, w->b);
        for (int i = 0; i < z.n; i++)
            add_spectra(k, w->b + (size_t)i * (size_t)k->t, w);
        if (z.n > 0)
            st = add_cross(k, &z, w);
    }
    close_part(w);
    return st;
}

/* --- sums by differences */

/* Two subapertures with a difference of places; false: there are none. */
static bool find_pair(const job *k, const int *number, int dx, int dy, int *a, int *b) {
    const sensor *ts = &k->s->ts;
    for (int i = 0; i < ts->nsub; i++) {
        const int x = ts->sub[i] % k->side + dx, y = ts->sub[i] / k->side + dy;
        if (x < 0 || x >= k->side || y < 0 || y >= k->side || number[y * k->side + x] < 0)
            continue;
        *a = i;
        *b = number[y * k->side + x];
        return true;
    }
    return false;
}

/* out[n] += sum over differences of one dy of the autocorrelations and the covariances. */
static status add_differences(const job *k, const int *number, double *const sums[KINDS], int dy,
                              double *out) {
    const size_t nsub = (size_t)k->s->ts.nsub;
    status st = MOAO_OK;
    for (int dx = 1 - k->side; dx < k->side; dx++) {
        const size_t at = (size_t)((dy + k->size) % k->size * k->size + (dx + k->size) % k->size);
        int a, b;
        if (!find_pair(k, number, dx, dy, &a, &b))
            continue;
        for (int l = 0; l < k->n; l++)
            for (int kind = 0; kind < KINDS; kind++) {
                const size_t i = (size_t)a + (kind == YY ? nsub : 0),
                             j = (size_t)b + (kind == XX ? 0 : nsub);
                double c;
                TRY(matcov_fill_ctt(k->y[l].mc, i, 1, j, 1, &c, 1));
                out[l] += (kind == XY ? 2 : 1) * sums[kind][at] * c;
            }
    }
done:
    return st;
}

/* out[n] += <B'B, Ctt>/points of the spectra. */
static status multiply(const job *k, fftw_complex *spectra, double *out) {
    const size_t side = (size_t)k->side, size = (size_t)k->size, rows = 2 * side - 1;
    const double *x, *y, scale = 1.0 / (double)(size * size * psf_points(k->p, &x, &y));
    double *sums[KINDS] = {NULL}, *found = NULL;
    int *number = NULL;
    fftw_plan back = NULL;
    status st, worst = MOAO_OK;
    TRY(ALLOC(number, side * side, "subapertures"));
    TRY(ALLOC(found, rows * (size_t)k->n, "variances"));
    for (size_t i = 0; i < side * side; i++)
        number[i] = -1;
    for (int i = 0; i < k->s->ts.nsub; i++)
        number[k->s->ts.sub[i]] = i;
    for (int kind = 0; kind < KINDS; kind++) {
        TRY(ALLOC(sums[kind], size * size, "autocorrelations of slopes"));
        back = fftw_plan_dft_c2r_2d(k->size, k->size, spectra + (size_t)kind * k->waves, sums[kind],
                                    FFTW_ESTIMATE);
        if (back == NULL)
            TRY(status_fail(MOAO_INTERNAL, "FFTW cannot plan transforms of %d points", k->size));
        fftw_execute(back);
        fftw_destroy_plan(back);
    }
#pragma omp parallel for schedule(dynamic)
    for (int dy = 1 - k->side; dy < k->side; dy++) {
        const status mine =
            add_differences(k, number, sums, dy, found + (size_t)(dy + k->side - 1) * (size_t)k->n);
        if (mine != MOAO_OK)
#pragma omp critical
            worst = mine;
    }
    for (size_t i = 0; i < rows * (size_t)k->n; i++)
        out[i % (size_t)k->n] += scale * found[i];
    st = worst;
done:
    for (int kind = 0; kind < KINDS; kind++)
        free(sums[kind]);
    free(found);
    free(number);
    return st;
}

/* --- all of it */

/* Points of a transform, where differences of so many subapertures do not meet again. */
static int transform_size(int nssp) {
    for (int n = 2 * nssp - 1;; n++) {
        int rest = n;
        for (int f = 2; f <= 7; f++)
            while (rest % f == 0)
                rest /= f;
        if (rest == 1)
            return n;
    }
}

static status open_job(job *k, double *L0) {
    const size_t size = (size_t)k->size;
    double *image = NULL;
    fftw_complex *wave = NULL;
    status st;
    for (int j = 0; j < psf_lattice_rows(k->p); j++) {
        const psf_strip z = psf_influence(k->p, j, 0, NULL);
        k->most = z.n > k->most ? z.n : k->most;
    }
    TRY(ALLOC(k->y, (size_t)k->n, "layers"));
    TRY(ALLOC(k->level, (size_t)k->t, "shapes of slopes"));
    TRY(ALLOC(image, size * size, "slopes"));
    TRY(ALLOC(wave, k->waves, "spectra of slopes"));
    cblas_dgemv(CblasColMajor, CblasTrans, k->s->dm.nact, k->t, 1.0, k->dplus, k->s->dm.nact,
                k->mean, 1, 0.0, k->level, 1);
    k->there = fftw_plan_dft_r2c_2d(k->size, k->size, image, wave, FFTW_ESTIMATE);
    if (k->there == NULL)
        TRY(status_fail(MOAO_INTERNAL, "FFTW cannot plan transforms of %d points", k->size));
    for (int i = 0; i < k->n; i++)
        TRY(open_layer(k->s, &L0[i], &k->y[i]));
done:
    free(image);
    free(wave);
    return st;
}

status truth_variance(const comm *c, const sys *s, const psf *p, const double *dplus,
                      const double *mean, int n, double *L0, double *out) {
    const double *x, *y;
    const size_t np = psf_points(p, &x, &y);
    const int size = transform_size(s->ts.nssp);
    job k = {.s = s,
             .p = p,
             .dplus = dplus,
             .mean = mean,
             .t = (int)s->t,
             .side = s->ts.nssp,
             .size = size,
             .waves = (size_t)size * (size_t)(size / 2 + 1),
             .n = n};
    part w[PARTS] = {{0}};
    status st, worst = MOAO_OK;
    TRY(open_job(&k, L0));
    const int blas = blas_alone();
#pragma omp parallel for schedule(dynamic)
    for (int i = 0; i < PARTS; i++) {
        const status mine = add_rows(&k, c->rank + i * c->size, PARTS * c->size, &w[i]);
        if (mine != MOAO_OK)
#pragma omp critical
            worst = mine;
    }
    blas_together(blas);
    TRY(worst);
    for (int i = 0; i < PARTS; i++) {
        for (int l = 0; l < n; l++)
            out[l] -= 2 * w[i].cross[l] / (double)np;
        for (size_t j = 0; i > 0 && j < KINDS * k.waves; j++)
            w[0].spectra[j] += w[i].spectra[j];
    }
    st = multiply(&k, w[0].spectra, out);
done:
    for (int i = 0; i < PARTS; i++) {
        free(w[i].cross);
        free(w[i].spectra);
    }
    for (int i = 0; k.y != NULL && i < n; i++)
        close_layer(&k.y[i]);
    free(k.y);
    free(k.level);
    fftw_destroy_plan(k.there);
    return st;
}

static double actuators_in_reach(const sys *s) {
    const double v = s->dm.nact;
    return fmin(v, 14 * sqrt(v));
}

size_t truth_bytes(const sys *s, size_t points) {
    const size_t row = (size_t)(1.5 * sqrt((double)points)) + 1,
                 size = (size_t)transform_size(s->ts.nssp);
    return (PARTS * (row * (s->t + PANEL + (size_t)s->dm.nact) + 6 * size * size) + s->t) *
           sizeof(double);
}

double truth_flops(const sys *s, size_t points) {
    const double size = transform_size(s->ts.nssp), square = size * size;
    return (double)points * (2 * (double)s->t * actuators_in_reach(s) + 5 * square * log2(square));
}
