/* Stationary average of covariances of commands, and the phase covariance it stands for. Model
 * section 7. */
#include "psf_phase.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

/* w_a: sum of the squared influence function over the pupil's pixels of d_t/4. x, y: the actuator's
 * indices. */
static double pupil_energy(const psf *p, const sys *s, int x, int y) {
    int reach = (int)ceil(4 * p->x0 / p->pitch * sqrt(17 * log(10)));
    int lo[2] = {4 * x - reach, 4 * y - reach}, hi[2] = {4 * x + reach, 4 * y + reach};
    double t = p->pitch / (4 * p->x0), sum = 0;
    double rin = 4 * p->n * s->obs,
           rout = 4 * p->n; /* diameters in pixels = radii in half pixels */
    for (int a = 0; a < 2; a++) {
        lo[a] = lo[a] < 0 ? 0 : lo[a];
        hi[a] = hi[a] > 4 * p->n ? 4 * p->n : hi[a];
    }
    for (int j = lo[1]; j < hi[1]; j++) {
        double gy = exp(-pow(t * (j + 0.5 - 4 * y), 2));
        for (int i = lo[0]; i < hi[0]; i++) {
            double r = hypot(2 * i + 1 - 4 * p->n, 2 * j + 1 - 4 * p->n);
            if (r >= rin && r < rout &&
                (s->pupil == NULL || sys_is_lit(s, (i + 0.5 - 2 * p->n) * p->pitch / 4,
                                                (j + 0.5 - 2 * p->n) * p->pitch / 4)))
                sum += gy * exp(-pow(t * (i + 0.5 - 4 * x), 2));
        }
    }
    return sum;
}

/* Runs of neighbours, and where the rows of actuators start. */
static void find_runs(psf *p) {
    const int *act = p->place;
    int side = p->n + 1, row = 0;
    p->nrun = 0;
    for (int a = 0; a < p->nact; a++) {
        int iy = act[a] / side, ix = act[a] % side;
        for (; row <= iy; row++) {
            p->row_run[row] = p->nrun;
            p->row_act[row] = a;
        }
        if (a > 0 && act[a] == act[a - 1] + 1 && ix > 0) {
            p->run[p->nrun - 1].len++;
            continue;
        }
        p->run[p->nrun++] = (psf_run){.first = a, .ix = ix, .len = 1};
    }
    for (; row <= side; row++) {
        p->row_run[row] = p->nrun;
        p->row_act[row] = p->nact;
    }
}

/* norm(delta) = sum of w_a w_b, from the weights laid out on the square of actuators. */
static void norm_by_pairs(psf *p) {
    for (int ay = 0; ay <= p->n; ay++)
        for (int by = 0; by <= p->n; by++)
            for (int ra = p->row_run[ay]; ra < p->row_run[ay + 1]; ra++)
                for (int rb = p->row_run[by]; rb < p->row_run[by + 1]; rb++) {
                    psf_run a = p->run[ra], b = p->run[rb];
                    double *norm = p->norm + (by - ay + p->n) * p->nsep + p->n + b.ix - a.ix;
                    for (int i = 0; i < a.len; i++)
                        for (int j = 0; j < b.len; j++)
                            norm[j - i] += p->weight[a.first + i] * p->weight[b.first + j];
                }
}

/* Autocorrelation of what stands on the square of actuators, by Fourier transforms on `size` x
 * `size` points: grid (size rows of size + 2) is replaced by it, times size^2. */
static status correlate(double *grid, int size) {
    fftw_complex *f = (fftw_complex *)grid;
    fftw_plan there = fftw_plan_dft_r2c_2d(size, size, grid, f, FFTW_ESTIMATE);
    fftw_plan back = fftw_plan_dft_c2r_2d(size, size, f, grid, FFTW_ESTIMATE);
    if (there != NULL && back != NULL) {
        fftw_execute(there);
        for (size_t i = 0; i < (size_t)size * (size_t)(size / 2 + 1); i++)
            f[i] = creal(f[i]) * creal(f[i]) + cimag(f[i]) * cimag(f[i]);
        fftw_execute(back);
    }
    status st = there != NULL && back != NULL
                    ? MOAO_OK
                    : status_fail(MOAO_INTERNAL, "FFTW cannot plan transforms of %d points", size);
    fftw_destroy_plan(there);
    fftw_destroy_plan(back);
    return st;
}

/* The same in n^2 log n. The pairs themselves are counted in the same way, as whole numbers, so
 * that separations without any keep a norm of exactly zero. */
static status norm_by_transform(psf *p) {
    const int side = p->n + 1, size = 2 * side;
    const size_t row = (size_t)size + 2, all = (size_t)size * row;
    const double scale = 1 / ((double)size * size);
    double *weight = NULL, *count = NULL;
    status st;
    TRY(ALLOC(weight, all, "weights of the actuators"));
    TRY(ALLOC(count, all, "pairs of actuators"));
    for (int a = 0; a < p->nact; a++) {
        size_t at = (size_t)(p->place[a] / side) * row + (size_t)(p->place[a] % side);
        weight[at] = p->weight[a];
        count[at] = 1;
    }
    TRY(correlate(weight, size));
    TRY(correlate(count, size));
    for (int dy = -p->n; dy <= p->n; dy++)
        for (int dx = -p->n; dx <= p->n; dx++) {
            size_t at = (size_t)((dy + size) % size) * row + (size_t)((dx + size) % size);
            p->norm[(size_t)(dy + p->n) * (size_t)p->nsep + (size_t)(dx + p->n)] =
                count[at] * scale > 0.5 ? weight[at] * scale : 0;
        }
done:
    free(weight);
    free(count);
    return st;
}

/* Actuators from which on the transform is faster, and as accurate as is needed. */
#define MANY_ACTUATORS 16384

static status find_norm(psf *p) {
    if (p->nact >= MANY_ACTUATORS)
        return norm_by_transform(p);
    norm_by_pairs(p);
    return MOAO_OK;
}

status psf_average_init(psf *p, const sys *s, bool weighted) {
    double mean = 0;
    for (int a = 0; a < p->nact; a++) {
        int x = s->dm.act[a] % (p->n + 1), y = s->dm.act[a] / (p->n + 1);
        p->place[a] = s->dm.act[a];
        p->weight[a] = weighted ? pupil_energy(p, s, x, y) : 1;
        mean += p->weight[a] / p->nact;
    }
    for (int a = 0; a < p->nact; a++)
        p->weight[a] /= mean;
    find_runs(p);
    return p->lattice > 0 ? MOAO_OK : find_norm(p);
}

/* --- sums over pairs --- */

typedef struct { /* rows of the covariance that a call adds */
    const psf *p;
    int a0, a1;
    const double *c;
    size_t ld;
    bool both;
    double *sum;
} block;

/* Actuators of row y among a0..a1. */
static int row_count(const block *k, int y) {
    if (y < 0 || y > k->p->n)
        return 0;
    int lo = k->p->row_act[y], hi = k->p->row_act[y + 1];
    lo = lo < k->a0 ? k->a0 : lo;
    hi = hi > k->a1 ? k->a1 : hi;
    return hi > lo ? hi - lo : 0;
}

/* Elements whose separation along y is +-m. */
static double pair_count(const block *k, int m) {
    double sum = 0;
    for (int y = 0; y <= k->p->n; y++) {
        int n = row_count(k, y - m) + (m > 0 ? row_count(k, y + m) : 0);
        sum += (double)n * (k->p->row_act[y + 1] - k->p->row_act[y]);
    }
    return sum;
}

/* Share `t` of `nt` of the work as a range of |separation along y|: what a thread adds nobody else
 * adds, so the sums do not depend on the number of threads. */
static void share(const block *k, int t, int nt, int *m0, int *m1) {
    double total = 0, sum = 0;
    int n = k->p->n;
    for (int m = 0; m <= n; m++)
        total += pair_count(k, m);
    *m0 = t == 0 ? 0 : n + 1;
    *m1 = n + 1;
    for (int m = 0; m <= n; m++) {
        if (t > 0 && *m0 > n && sum >= total * t / nt)
            *m0 = m;
        if (t < nt - 1 && sum >= total * (t + 1) / nt) {
            *m1 = m;
            return;
        }
        sum += pair_count(k, m);
    }
}

/* Add the runs of actuator rows y0..y1 of column b, at column bx and row by of the mirror. */
static void add_rows(const block *k, int y0, int y1, int b, int bx, int by) {
    const psf *p = k->p;
    double wb = p->weight[b];
    const double *col = k->c + (size_t)b * k->ld;
    y0 = y0 < 0 ? 0 : y0;
    y1 = y1 > p->n ? p->n : y1;
    for (int y = y0; y <= y1; y++)
        for (int r = p->row_run[y]; r < p->row_run[y + 1]; r++) {
            int lo = p->run[r].first, hi = lo + p->run[r].len;
            int first = lo < k->a0 ? k->a0 : lo, len = (hi > k->a1 ? k->a1 : hi) - first;
            int dx = bx - p->run[r].ix - (first - lo);
            const double *restrict c = col + (first - k->a0), *restrict w = p->weight + first;
            double *restrict s = k->sum + (by - y + p->n) * p->nsep + p->n + dx;
#pragma omp simd
            for (int i = 0; i < len; i++)
                s[-i] += wb * w[i] * c[i];
            if (!k->both)
                continue;
            s = k->sum + (y - by + p->n) * p->nsep + p->n - dx;
#pragma omp simd
            for (int i = 0; i < len; i++)
                s[i] += wb * w[i] * c[i];
        }
}

/* All columns, for separations m0 <= |dy| < m1. */
static void add_share(const block *k, int m0, int m1) {
    const psf *p = k->p;
    if (m0 >= m1)
        return;
    for (int by = 0; by <= p->n; by++)
        for (int r = p->row_run[by]; r < p->row_run[by + 1]; r++)
            for (int i = 0; i < p->run[r].len; i++) {
                int b = p->run[r].first + i, bx = p->run[r].ix + i;
                add_rows(k, by - m1 + 1, by - m0, b, bx, by);
                add_rows(k, by + (m0 > 0 ? m0 : 1), by + m1 - 1, b, bx, by);
            }
}

void psf_accumulate(const psf *p, size_t a0, size_t na, const double *c, size_t ld, bool both,
                    double *sum) {
    block k = {p, (int)a0, (int)(a0 + na), c, ld, both, sum};
#pragma omp parallel if (na * (size_t)p->nact > 65536)
    {
        int m0, m1;
        share(&k, omp_get_thread_num(), omp_get_num_threads(), &m0, &m1);
        add_share(&k, m0, m1);
    }
}

/* --- phase covariance --- */

/* M(delta) with x slow; what is not even in delta is rounding, or a half of the covariance. */
static void stationary_mean(psf *p, const double *sum) {
    int n = p->n;
    for (int dy = -n; dy <= n; dy++)
        for (int dx = -n; dx <= n; dx++) {
            int i = (dy + n) * p->nsep + dx + n, j = (n - dy) * p->nsep + n - dx;
            double pairs = p->norm[i] + p->norm[j];
            p->mean[(dx + n) * p->nsep + dy + n] = pairs > 0 ? (sum[i] + sum[j]) / pairs : 0;
        }
}

/* out[v] += h kernel(v - centre) for lo <= v <= hi; `out` is where v = 0 is. */
static void add_kernel(const psf *p, double h, int centre, int lo, int hi, double *restrict out) {
    const double *restrict kernel = p->kernel + p->reach - centre;
    lo = lo < centre - p->reach ? centre - p->reach : lo;
    hi = hi > centre + p->reach ? centre + p->reach : hi;
#pragma omp simd
    for (int v = lo; v <= hi; v++)
        out[v] += h * kernel[v];
}

/* The kernel where the separation of two actuators along an axis is that of the point 0. */
static double kernel_at(const psf *p, int steps) {
    const int t = p->k * steps;
    return t < -p->reach || t > p->reach ? 0 : p->kernel[t + p->reach];
}

void psf_variance_weights(const psf *p, double *g) {
    const int side = p->n + 1;
    for (int b = 0; b < p->nact; b++)
        for (int a = 0; a < p->nact; a++) {
            const int dx = p->place[b] % side - p->place[a] % side,
                      dy = p->place[b] / side - p->place[a] / side;
            const int i = (dy + p->n) * p->nsep + dx + p->n;
            const double pairs = p->norm[i] + p->norm[(p->n - dy) * p->nsep + p->n - dx];
            g[(size_t)a + (size_t)b * (size_t)p->nact] =
                pairs > 0
                    ? 2 * p->weight[a] * p->weight[b] * kernel_at(p, dx) * kernel_at(p, dy) / pairs
                    : 0;
        }
}

void psf_covariance(psf *p, const double *sum) {
    int n = p->n, k = p->k;
    if (p->lattice > 0) {
        phase_covariance(p, sum);
        return;
    }
    stationary_mean(p, sum);
#pragma omp parallel for schedule(static) if (p->N >= PSF_PARALLEL)
    for (int u = 0; u < p->P; u++) {
        double *part = p->part + (size_t)u * (size_t)p->nsep;
        double *row = p->otf + (size_t)u * (size_t)p->stride;
        int vmax = p->vmax[u];
        memset(part, 0, (size_t)p->nsep * sizeof *part);
        for (int dx = -n; dx <= n; dx++) {
            int t = u - k * dx;
            if (t < -p->reach || t > p->reach)
                continue;
            double h = p->kernel[t + p->reach];
            const double *mean = p->mean + (dx + n) * p->nsep;
            for (int i = 0; i < p->nsep; i++)
                part[i] += h * mean[i];
        }
        memset(row, 0, (size_t)p->N * sizeof *row);
        for (int dy = -n; dy <= n; dy++) {
            add_kernel(p, part[dy + n], k * dy, 0, vmax, row);
            add_kernel(p, part[dy + n], k * dy, -vmax, -1, row + p->N);
        }
    }
}
