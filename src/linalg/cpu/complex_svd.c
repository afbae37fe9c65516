/* Singular value decompositions of complex matrices of the CPU backend: one-sided Jacobi rotations
 * (Demmel and Veselic 1992, SIAM J. Matrix Anal. Appl. 13, 1204), one thread for each matrix, in
 * double precision for both types. B = A, or A^H where that is wide, is rotated, and V with it. */
#include "cpu_own.h"
#include "moao/cpu_threads.h"

#include <complex.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FEW 1e5 /* work with fewer operations is one thread's */
enum { BLOCK = 32, SWEEPS = 30, TOP = 450 };
#define FLOOR 0x1p-480 /* values up to it are zero; the largest entry is near 2^TOP */

typedef double complex number;

extern void zgeqrf_(const int *, const int *, void *, const int *, void *, void *, const int *,
                    int *);
extern void zungqr_(const int *, const int *, const int *, void *, const int *, void *, void *,
                    const int *, int *);

typedef struct {
    backend_type t;
    char jobl, jobr;      /* of vectors on the left and right of B = A, or A^H where that is wide */
    bool turned, by_left; /* by_left: vectors on the left decide the phases */
    int64_t m, n, lda, ldl, ldr;
    int rows, cols; /* of B */
} job;

/* What one matrix is worked on in; most: the largest square that a column had. */
typedef struct {
    number *x, *v, *q, *tau, *work; /* x: B times 2^shift, then its left vectors */
    double *most, *sigma;
    int *order; /* column of each value */
    int shift;
} room;

static number get(backend_type t, const void *p, int64_t e) {
    return t == BACKEND_Z ? ((const number *)p)[e] : ((const float complex *)p)[e];
}
static void set(backend_type t, void *p, int64_t e, number v) {
    if (t == BACKEND_Z)
        ((number *)p)[e] = v;
    else
        ((float complex *)p)[e] = (float complex)v;
}
static number scaled(number z, int shift) {
    return CMPLX(ldexp(creal(z), shift), ldexp(cimag(z), shift));
}

static void room_close(room *r) {
    free(r->x), free(r->v), free(r->q), free(r->tau), free(r->work), free(r->most);
    free(r->sigma), free(r->order);
}

static bool room_open(const job *j, room *r) {
    const size_t m = (size_t)j->rows, n = (size_t)j->cols, e = sizeof(number);
    *r = (room){.x = malloc(e * m * n), .v = malloc(e * n * n), .q = malloc(e * m * n)};
    r->tau = malloc(e * n), r->work = malloc(e * BLOCK * n);
    r->most = malloc(sizeof(double) * n), r->sigma = malloc(sizeof(double) * n);
    r->order = malloc(sizeof(int) * n);
    return r->x && r->v && r->q && r->tau && r->work && r->most && r->sigma && r->order;
}

/* x := B scaled; the first column of A that is not finite, from 1, or 0. */
static int load(const job *j, const void *a, room *r) {
    double top = 0;
    for (int64_t k = 0; k < j->n; k++)
        for (int64_t i = 0; i < j->m; i++) {
            const number z = get(j->t, a, i + k * j->lda);
            if (!isfinite(creal(z)) || !isfinite(cimag(z)))
                return (int)k + 1;
            top = fmax(top, fmax(fabs(creal(z)), fabs(cimag(z))));
        }
    r->shift = top > 0 ? TOP - ilogb(top) : 0;
    for (int64_t k = 0; k < j->n; k++)
        for (int64_t i = 0; i < j->m; i++) {
            const number z = scaled(get(j->t, a, i + k * j->lda), r->shift);
            r->x[j->turned ? k + i * j->rows : i + k * j->rows] = j->turned ? conj(z) : z;
        }
    return 0;
}

/* x^H y */
static number product(int64_t n, const number *x, const number *y) {
    const double *a = (const double *)x, *b = (const double *)y;
    double re = 0, im = 0;
#pragma omp simd reduction(+ : re, im)
    for (int64_t i = 0; i < n; i++) {
        re += a[2 * i] * b[2 * i] + a[2 * i + 1] * b[2 * i + 1];
        im += a[2 * i] * b[2 * i + 1] - a[2 * i + 1] * b[2 * i];
    }
    return CMPLX(re, im);
}

/* x := c x - s f y, y := s x + c f y, |f| = 1 */
static void turn(int64_t n, number *x, number *y, double c, double s, number f) {
    double *a = (double *)x, *b = (double *)y;
    const double p = creal(f), q = cimag(f);
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const double u = a[2 * i], v = a[2 * i + 1], w = p * b[2 * i] - q * b[2 * i + 1],
                     z = p * b[2 * i + 1] + q * b[2 * i];
        a[2 * i] = c * u - s * w, a[2 * i + 1] = c * v - s * z;
        b[2 * i] = s * u + c * w, b[2 * i + 1] = s * v + c * z;
    }
}

/* Squares of column k, which becomes 0 where rotations have left no more than rounding errors. */
static double square(const job *j, room *r, int k, bool *moved) {
    const double unit = j->t == BACKEND_Z ? 0x1p-53 : 0x1p-24;
    number *x = r->x + (int64_t)k * j->rows;
    const double s = creal(product(j->rows, x, x));
    r->most[k] = fmax(r->most[k], s);
    if (s == 0 || (s > 1024 * unit * unit * r->most[k] && s > FLOOR * FLOOR))
        return s;
    memset(x, 0, sizeof *x * (size_t)j->rows);
    *moved = true;
    return 0;
}

/* Columns k and l, orthogonal. */
static void pair(const job *j, room *r, int k, int l, bool *moved) {
    const double unit = j->t == BACKEND_Z ? 0x1p-53 : 0x1p-24, root = sqrt(j->cols),
                 tol = unit * (root > 10 ? root : 10);
    number *x = r->x + (int64_t)k * j->rows, *y = r->x + (int64_t)l * j->rows;
    const double xx = square(j, r, k, moved), yy = square(j, r, l, moved);
    if (xx == 0 || yy == 0)
        return;
    const number xy = product(j->rows, x, y);
    const double off = cabs(xy);
    if (!(off > tol * sqrt(xx) * sqrt(yy)))
        return;
    const double zeta = 0.5 * ((yy - xx) / off), size = fabs(zeta),
                 t = copysign(size > 1e150 ? 0.5 / size : 1 / (size + sqrt(1 + size * size)), zeta),
                 c = 1 / sqrt(1 + t * t);
    turn(j->rows, x, y, c, c * t, conj(xy) / off);
    if (j->jobr != 'N')
        turn(j->cols, r->v + (int64_t)k * j->cols, r->v + (int64_t)l * j->cols, c, c * t,
             conj(xy) / off);
    *moved = true;
}

/* Values of the columns, and their order. */
static void values(const job *j, room *r) {
    for (int k = 0; k < j->cols; k++) {
        const number *x = r->x + (int64_t)k * j->rows;
        const double s = sqrt(creal(product(j->rows, x, x)));
        r->sigma[k] = s > FLOOR ? s : 0;
    }
    for (int k = 0; k < j->cols; k++) {
        int before = 0;
        for (int l = 0; l < j->cols; l++)
            before += r->sigma[l] > r->sigma[k] || (l < k && r->sigma[l] == r->sigma[k]);
        r->order[before] = k;
    }
}

/* Sweeps until all columns are orthogonal; whether SWEEPS were enough. */
static bool rotated(const job *j, room *r) {
    bool moved = true;
    for (int k = 0; k < j->cols; k++) {
        r->most[k] = 0;
        for (int l = 0; l < j->cols && j->jobr != 'N'; l++)
            r->v[l + (int64_t)k * j->cols] = l == k;
    }
    values(j, r);
    for (int sweep = 0; sweep < SWEEPS && moved; sweep++) {
        moved = false;
        for (int k = 0; k < j->cols - 1; k++)
            for (int l = k + 1; l < j->cols; l++)
                pair(j, r, r->order[k], r->order[l], &moved);
    }
    values(j, r);
    return !moved;
}

/* Vectors on the left of the values 0, rank of which are not: orthonormal too. q: vectors in the
 * order of the values. */
static void complete(const job *j, room *r, int rank) {
    const int lwork = BLOCK * j->cols;
    int info;
    memcpy(r->x, r->q, sizeof *r->x * (size_t)j->rows * (size_t)j->cols);
    if (rank > 0)
        zgeqrf_(&j->rows, &rank, r->x, &j->rows, r->tau, r->work, &lwork, &info);
    zungqr_(&j->rows, &j->cols, &rank, r->x, &j->rows, r->tau, r->work, &lwork, &info);
    const size_t done = (size_t)rank * (size_t)j->rows;
    memcpy(r->q + done, r->x + done, sizeof *r->q * ((size_t)j->cols * (size_t)j->rows - done));
}

/* What makes the entry of largest modulus (the first of equals) of a column real and positive. */
static number phase_of(const number *x, int64_t rows) {
    number top = 0;
    for (int64_t i = 0; i < rows; i++)
        if (cabs(x[i]) > cabs(top))
            top = x[i];
    return top == 0 ? 1 : conj(top) / cabs(top);
}

static void put(const job *j, const number *x, int64_t rows, number factor, int shift, void *to,
                int64_t at) {
    for (int64_t i = 0; i < rows; i++)
        set(j->t, to, at + i, scaled(factor * x[i], shift));
}

static int decompose(const job *j, room *r, const void *a, void *s, void *left, void *right) {
    const int bad = load(j, a, r);
    if (bad)
        return bad;
    const bool done = rotated(j, r);
    int rank = 0;
    while (rank < j->cols && r->sigma[r->order[rank]] > 0)
        rank++;
    for (int p = 0; p < j->cols; p++) {
        const number *x = r->x + (int64_t)r->order[p] * j->rows;
        for (int64_t i = 0; i < j->rows; i++)
            r->q[i + (int64_t)p * j->rows] = p < rank ? x[i] / r->sigma[r->order[p]] : 0;
    }
    if (j->jobl == 'U' && rank < j->cols)
        complete(j, r, rank);
    for (int p = 0; p < j->cols; p++) {
        const double sigma = r->sigma[r->order[p]];
        const number *x = r->q + (int64_t)p * j->rows, *v = r->v + (int64_t)r->order[p] * j->cols,
                     phase = j->by_left       ? phase_of(x, j->rows)
                             : j->jobr != 'N' ? phase_of(v, j->cols)
                                              : 1;
        if (j->t == BACKEND_Z)
            ((double *)s)[p] = ldexp(sigma, -r->shift);
        else
            ((float *)s)[p] = (float)ldexp(sigma, -r->shift);
        if (j->jobl != 'N')
            put(j, x, j->rows, j->jobl == 'S' ? sigma * phase : phase,
                j->jobl == 'S' ? -r->shift : 0, left, p * j->ldl);
        if (j->jobr != 'N')
            put(j, v, j->cols, j->jobr == 'S' ? sigma * phase : phase,
                j->jobr == 'S' ? -r->shift : 0, right, p * j->ldr);
    }
    return done ? 0 : -2;
}

status complex_cpu_gesvj(backend_ctx *ctx, backend_type t, char jobu, char jobv, int64_t count,
                         int64_t m, int64_t n, void *const *a, int64_t lda, void *const *s,
                         void *const *u, int64_t ldu, void *const *v, int64_t ldv, int *info,
                         void *work, size_t lwork) {
    const bool turned = m < n;
    const job j = {.t = t,
                   .jobl = turned ? jobv : jobu,
                   .jobr = turned ? jobu : jobv,
                   .turned = turned,
                   .by_left = (jobu != 'N') == !turned,
                   .m = m,
                   .n = n,
                   .lda = lda,
                   .ldl = turned ? ldv : ldu,
                   .ldr = turned ? ldu : ldv,
                   .rows = (int)(turned ? n : m),
                   .cols = (int)(turned ? m : n)};
    void *const *const left = turned ? v : u, *const *const right = turned ? u : v;
    const int blas = blas_alone();
    bool full = false;
    (void)ctx, (void)work, (void)lwork;
#pragma omp parallel if ((double)count * (double)m * (double)n * (double)j.cols > FEW)             \
    reduction(||                                                                                   \
              : full)
    {
        room r;
        full = !room_open(&j, &r);
#pragma omp for schedule(dynamic)
        for (int64_t q = 0; q < count; q++)
            if (!full)
                info[q] = decompose(&j, &r, a[q], s[q], j.jobl == 'N' ? NULL : left[q],
                                    j.jobr == 'N' ? NULL : right[q]);
        room_close(&r);
    }
    blas_together(blas);
    return full ? status_fail(MOAO_MEMORY, "no memory for the work of complex matrices") : MOAO_OK;
}
