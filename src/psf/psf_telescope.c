/* OTF of the telescope: the autocorrelation of its pupil, over its sum on the grid, so that the
 * diffraction-limited image peaks at 1. Model section 7.
 *
 * Of the annulus it is exact, of other pupils that of cells (pupil.h). Segments with random pistons
 * and tilts, independent and Gaussian: with s = 2 pi piston/lambda, t = 2 pi tiptilt/lambda and
 * x_s the centre of the segment around x, the mean of exp(i (phase(x) - phase(x'))) is
 *
 *     exp(-t^2 |x - x'|^2 / 2)                               x and x' on one segment,
 *     g(x) g(x'),  g(x) = exp(-s^2/2 - t^2 |x - x_s|^2 / 2)   on two,
 *
 * so OTF = corr(A g) + sum over segments of [exp(-t^2 rho^2/2) corr(A_s) - corr(A_s g)]. */
#include "psf_plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Area common to two discs of radii a and b whose centres are s apart. */
static double lens(double a, double b, double s) {
    if (s >= a + b)
        return 0;
    if (s <= fabs(a - b))
        return M_PI * fmin(a, b) * fmin(a, b);
    double ca = (s * s + a * a - b * b) / (2 * s * a);
    double cb = (s * s + b * b - a * a) / (2 * s * b);
    double kite = (a + b - s) * (s + a - b) * (s - a + b) * (s + a + b);
    return a * a * acos(fmin(1, fmax(-1, ca))) + b * b * acos(fmin(1, fmax(-1, cb))) -
           0.5 * sqrt(fmax(0, kite));
}

/* Place of (u, v) in a plane of p->tel. */
static size_t at_of(const psf *p, int u, int v) {
    return (size_t)u * (size_t)(2 * p->P - 1) + (size_t)(v + p->P - 1);
}

static void annulus_init(psf *p, double obs) {
    double R = 0.5 * p->P, r = obs * R, sum = 0; /* in pixels */
    for (int u = 0; u < p->P; u++) {
        p->vmax[u] = 0;
        for (int v = 0; v < p->P; v++) {
            double rho = sqrt((double)u * u + (double)v * v);
            double t = rho < 2 * R ? lens(R, R, rho) - 2 * lens(R, r, rho) + lens(r, r, rho) : 0;
            p->tel[at_of(p, u, v)] = p->tel[at_of(p, u, -v)] = t;
            sum += t * (u == 0 ? 1 : 2) * (v == 0 ? 1 : 2);
            if (rho < 2 * R)
                p->vmax[u] = v;
        }
    }
    for (size_t i = 0; i < (size_t)p->P * (size_t)(2 * p->P - 1); i++)
        p->tel[i] /= sum;
}

/* --- correlations by Fourier transforms */

typedef struct { /* side x side numbers and, in their place, side x (side/2 + 1) of the transform */
    int side;
    double *a;
    fftw_plan there, back;
} transform;

static size_t row_of(const transform *t) {
    return (size_t)t->side + 2;
}

static void transform_close(transform *t) {
    free(t->a);
    fftw_destroy_plan(t->there);
    fftw_destroy_plan(t->back);
}

static status transform_open(int side, transform *t) {
    status st;
    *t = (transform){.side = side};
    TRY(ALLOC(t->a, (size_t)side * row_of(t), "OTF of the pupil"));
    const int n[2] = {side, side}, real[2] = {side, (int)row_of(t)}, half[2] = {side, side / 2 + 1};
    fftw_complex *f = (fftw_complex *)t->a;
    t->there = fftw_plan_many_dft_r2c(2, n, 1, t->a, real, 1, 0, f, half, 1, 0, FFTW_ESTIMATE);
    t->back = fftw_plan_many_dft_c2r(2, n, 1, f, half, 1, 0, t->a, real, 1, 0, FFTW_ESTIMATE);
    if (t->there == NULL || t->back == NULL)
        st = status_fail(MOAO_INTERNAL, "FFTW cannot plan transforms of %d points", side);
done:
    return st;
}

static void clear(transform *t) {
    memset(t->a, 0, (size_t)t->side * row_of(t) * sizeof *t->a);
}

/* The transform becomes its power, that of the autocorrelation. */
static void square(transform *t) {
    fftw_complex *f = (fftw_complex *)t->a;
    for (size_t i = 0; i < (size_t)t->side * (row_of(t) / 2); i++)
        f[i] = creal(f[i]) * creal(f[i]) + cimag(f[i]) * cimag(f[i]);
}

/* Value for a separation in cells. */
static double value_at(const transform *t, int x, int y) {
    const int side = t->side;
    return t->a[(size_t)((y + side) % side) * row_of(t) + (size_t)((x + side) % side)] /
           ((double)side * (double)side);
}

/* --- a pupil by its cells */

typedef struct {
    const psf *p;
    const pupil *shape;
    int n, step;  /* cells across; of a pixel of the grid */
    double cell;  /* [m] */
    double *a;    /* [n][n] amplitude */
    double light; /* sum over the cells */
    transform all;
} work;

static void place_cell(const work *k, size_t at, double x[2]) {
    x[0] = ((double)(at % (size_t)k->n) + 0.5 - 0.5 * k->n) * k->cell;
    x[1] = ((double)(at / (size_t)k->n) + 0.5 - 0.5 * k->n) * k->cell;
}

/* Amplitude of a cell with the errors of its segment: A g. */
static double damped(const work *k, size_t at, double s, double t) {
    const double(*centre)[2];
    double x[2];
    if (!(k->a[at] > 0))
        return 0;
    place_cell(k, at, x);
    const int i = s > 0 || t > 0 ? pupil_segment_at(k->shape, x[0], x[1]) : -1;
    if (i < 0)
        return k->a[at];
    pupil_segment_count(k->shape, &centre);
    const double dx = x[0] - centre[i][0], dy = x[1] - centre[i][1];
    return k->a[at] * exp(-0.5 * s * s - 0.5 * t * t * (dx * dx + dy * dy));
}

/* k->all: corr(A g). */
static void correlate(work *k, double s, double t) {
    clear(&k->all);
    for (size_t j = 0; j < (size_t)k->n; j++)
        for (size_t i = 0; i < (size_t)k->n; i++)
            k->all.a[j * row_of(&k->all) + i] = damped(k, j * (size_t)k->n + i, s, t);
    fftw_execute(k->all.there);
    square(&k->all);
    fftw_execute(k->all.back);
}

/* The cells of segment number i into a transform. */
static void place_segment(const work *k, int i, double s, double t, transform *to) {
    const double(*centre)[2];
    const int half = to->side / 4;
    int from[2];
    pupil_segment_count(k->shape, &centre);
    for (int axis = 0; axis < 2; axis++)
        from[axis] = (int)floor(centre[i][axis] / k->cell + 0.5 * k->n) - half;
    clear(to);
    for (int y = 0; y < 2 * half; y++)
        for (int x = 0; x < 2 * half; x++) {
            const int cx = from[0] + x, cy = from[1] + y;
            const size_t at = (size_t)cy * (size_t)k->n + (size_t)cx;
            double place[2];
            if (cx < 0 || cy < 0 || cx >= k->n || cy >= k->n || !(k->a[at] > 0))
                continue;
            place_cell(k, at, place);
            if (pupil_segment_at(k->shape, place[0], place[1]) == i)
                to->a[(size_t)y * row_of(to) + (size_t)x] = damped(k, at, s, t);
        }
}

/* Sum of the autocorrelations of the segments. `one` is room, `sum` of the same size. */
static void correlate_segments(const work *k, double s, double t, transform *one, transform *sum) {
    const double(*centre)[2];
    const int count = pupil_segment_count(k->shape, &centre);
    clear(sum);
    for (int i = 0; i < count; i++) {
        place_segment(k, i, s, t, one);
        fftw_execute(one->there);
        square(one);
        for (size_t j = 0; j < (size_t)one->side * row_of(one); j++)
            sum->a[j] += one->a[j];
    }
    fftw_execute(sum->back);
}

/* One plane of p->tel from k->all and, where segments have errors, `own` and `damped`. */
static void fill_plane(const work *k, double t, const transform *own, const transform *damped,
                       double *tel) {
    const psf *p = k->p;
    for (int u = 0; u < p->P; u++)
        for (int v = 1 - p->P; v < p->P; v++) {
            const int x = u * k->step, y = v * k->step, half = own != NULL ? own->side / 2 : 0;
            double *to = &tel[at_of(p, u, v)];
            const double rho2 = ((double)x * x + (double)y * y) * k->cell * k->cell;
            *to = value_at(&k->all, x, y);
            if (x < half && abs(y) < half)
                *to += exp(-0.5 * t * t * rho2) * value_at(own, x, y) - value_at(damped, x, y);
            if (x == 0 && y == 0)
                *to = k->light;
            if (abs(v) > p->vmax[u] || *to < 1e-9 * k->light)
                *to = 0;
        }
}

/* The variance of the segments' errors over the pupil at LAMBDA_REF [rad^2]. */
static status segments_variance(const work *k, double *variance) {
    const double(*centre)[2];
    const int count = pupil_segment_count(k->shape, &centre);
    const double wave = 2 * M_PI / LAMBDA_REF, s = wave * pupil_piston(k->shape),
                 t = wave * pupil_tiptilt(k->shape);
    double *area = NULL, all = 0, square = 0, apart = 0;
    status st;
    TRY(ALLOC(area, (size_t)count, "segments"));
    for (size_t at = 0; at < (size_t)k->n * (size_t)k->n; at++) {
        double x[2];
        place_cell(k, at, x);
        const int i = k->a[at] > 0 ? pupil_segment_at(k->shape, x[0], x[1]) : -1;
        if (i < 0)
            continue;
        area[i] += k->a[at];
        all += k->a[at];
        square += k->a[at] * (pow(x[0] - centre[i][0], 2) + pow(x[1] - centre[i][1], 2));
    }
    for (int i = 0; i < count; i++)
        apart += area[i] * area[i] / (all * all);
    *variance = s * s * (1 - apart) + t * t * square / all;
done:
    free(area);
    return st;
}

static status segments_init(psf *p, work *k) {
    const double(*centre)[2];
    const int count = pupil_segment_count(k->shape, &centre);
    const size_t plane = (size_t)p->P * (size_t)(2 * p->P - 1);
    double variance = 0;
    transform one = {0}, own = {0}, damped_sum = {0};
    status st;
    const double far = count > 0 ? pupil_segment_radius(k->shape) / k->cell + 2 : 0;
    const int side = psf_even_size(4 * (int)ceil(far) + 4) / 4 * 4;
    TRY(transform_open(side, &one));
    TRY(transform_open(side, &own));
    TRY(transform_open(side, &damped_sum));
    correlate_segments(k, 0, 0, &one, &own);
    for (int l = 0; l < p->nmono; l++) {
        const double wave = 2 * M_PI / p->mono[l];
        const double s = wave * pupil_piston(k->shape), t = wave * pupil_tiptilt(k->shape);
        correlate(k, s, t);
        correlate_segments(k, s, t, &one, &damped_sum);
        fill_plane(k, t, &own, &damped_sum, p->tel + (size_t)l * plane);
    }
    TRY(segments_variance(k, &variance));
    p->errors_part[1] += variance;
done:
    transform_close(&one);
    transform_close(&own);
    transform_close(&damped_sum);
    return st;
}

/* Of the plane without errors: its sum on the grid. */
static double sum_plane(const psf *p, const double *tel) {
    double sum = 0;
    for (int u = 0; u < p->P; u++)
        for (int v = 1 - p->P; v < p->P; v++)
            sum += (u == 0 ? 1 : 2) * tel[at_of(p, u, v)];
    return sum;
}

static status shape_init(psf *p, const sys *s) {
    const size_t plane = (size_t)p->P * (size_t)(2 * p->P - 1);
    work k = {.p = p, .shape = s->pupil};
    double *light = NULL;
    status st;
    k.step = (TELESCOPE_CELLS + p->P - 1) / p->P;
    k.n = k.step * p->P;
    k.cell = s->diameter / k.n;
    const size_t all = (size_t)k.n * (size_t)k.n;
    TRY(ALLOC(k.a, all, "OTF of the pupil"));
    TRY(ALLOC(light, all, "OTF of the pupil"));
    pupil_cells(s->pupil, k.n, k.a, light);
    for (size_t i = 0; i < all; i++)
        k.light += light[i];
    TRY(transform_open(2 * k.n, &k.all));
    correlate(&k, 0, 0);
    fill_plane(&k, 0, NULL, NULL, p->tel);
    const double sum = sum_plane(p, p->tel);
    if (pupil_piston(s->pupil) > 0 || pupil_tiptilt(s->pupil) > 0)
        TRY(segments_init(p, &k));
    for (size_t i = 0; i < (size_t)p->ntel * plane; i++)
        p->tel[i] /= sum;
done:
    transform_close(&k.all);
    free(k.a);
    free(light);
    return st;
}

size_t telescope_bytes(const psf *p, const sys *s) {
    const size_t n = (size_t)((TELESCOPE_CELLS + p->P - 1) / p->P * p->P);
    return s->pupil != NULL ? (2 * n * n + 2 * n * (2 * n + 2)) * sizeof(double) : 0;
}

int telescope_planes(const psf *p, const sys *s) {
    return s->pupil != NULL && (pupil_piston(s->pupil) > 0 || pupil_tiptilt(s->pupil) > 0)
               ? p->nmono
               : 1;
}

/* In its place that of a square of side `side` [pixels of the grid]. */
static void square_init(psf *p, double side) {
    const size_t plane = (size_t)p->P * (size_t)(2 * p->P - 1);
    double sum = 0;
    for (int u = 0; u < p->P; u++) {
        p->vmax[u] = u < side ? (int)fmin(ceil(side) - 1, p->P - 1) : 0;
        for (int v = 0; v < p->P; v++) {
            const double t = hypot(u, v) < p->P ? fmax(0, 1 - u / side) * fmax(0, 1 - v / side) : 0;
            p->tel[at_of(p, u, v)] = p->tel[at_of(p, u, -v)] = t;
            sum += t * (u == 0 ? 1 : 2) * (v == 0 ? 1 : 2);
        }
    }
    for (size_t i = 0; i < plane; i++)
        p->tel[i] /= sum;
    for (int k = 1; k < p->ntel; k++)
        memcpy(p->tel + (size_t)k * plane, p->tel, plane * sizeof *p->tel);
}

status telescope_init(psf *p, const sys *s, double subaperture) {
    annulus_init(p, s->obs);
    const status st = s->pupil != NULL ? shape_init(p, s) : MOAO_OK;
    if (subaperture > 0)
        square_init(p, subaperture / p->pixel);
    return st;
}

/* --- the mean of (r'^2 - r^2)^2 over the pairs of a separation */

status telescope_radii(const psf *p, const pupil *shape, double *mean, double *variance) {
    const int step = (256 + p->P - 1) / p->P, n = step * p->P;
    const double cell = 2.0 / n; /* of the radius */
    transform t[3] = {{0}};
    double *a = NULL, sum[3] = {0, 0, 0};
    status st;
    TRY(ALLOC(a, (size_t)n * (size_t)n, "pairs of the pupil"));
    pupil_cells(shape, n, a, NULL);
    for (int q = 0; q < 3; q++) /* A r^(2 q) */
        TRY(transform_open(2 * n, &t[q]));
    for (int q = 0; q < 3; q++) {
        clear(&t[q]);
        for (int j = 0; j < n; j++)
            for (int i = 0; i < n; i++) {
                const double x = (i + 0.5) * cell - 1, y = (j + 0.5) * cell - 1;
                const double v = a[(size_t)j * (size_t)n + (size_t)i] * pow(x * x + y * y, q);
                t[q].a[(size_t)j * row_of(&t[q]) + (size_t)i] = v;
                sum[q] += v;
            }
        fftw_execute(t[q].there);
    }
    fftw_complex *f0 = (fftw_complex *)t[0].a, *f1 = (fftw_complex *)t[1].a,
                 *f2 = (fftw_complex *)t[2].a;
    for (size_t i = 0; i < (size_t)(2 * n) * (row_of(&t[0]) / 2); i++) {
        f2[i] = 2 * creal(conj(f0[i]) * f2[i]) - 2 * creal(conj(f1[i]) * f1[i]);
        f0[i] = creal(conj(f0[i]) * f0[i]);
    }
    fftw_execute(t[0].back);
    fftw_execute(t[2].back);
    for (int u = 0; u < p->P; u++)
        for (int v = 0; v < p->P; v++) {
            const int x = u * step, y = v * step;
            const double pairs = value_at(&t[0], x, y) + value_at(&t[0], x, -y);
            const double all = value_at(&t[2], x, y) + value_at(&t[2], x, -y);
            mean[(size_t)u * (size_t)p->P + (size_t)v] = pairs > 0.5 ? fmax(0, all / pairs) : 0;
        }
    *variance = sum[2] / sum[0] - sum[1] * sum[1] / (sum[0] * sum[0]);
done:
    for (int q = 0; q < 3; q++)
        transform_close(&t[q]);
    free(a);
    return st;
}
