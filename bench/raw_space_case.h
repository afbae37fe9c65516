/* What bench_raw_space computes with: a case of a parameter file, its mirror, its covariances as
 * whole matrices, halves and images. */
#ifndef MOAO_BENCH_RAW_SPACE_CASE_H
#define MOAO_BENCH_RAW_SPACE_CASE_H

#include "fp16_solve_raw.h"
#include "moao/backend_sparse.h"
#include "timing.h"

#include "job/setup.h"
#include "linalg/fp16/fp16_gemm.h"
#include "matcov/matcov.h"
#include "params/params.h"
#include "tor/command.h"

#include <cblas.h>
#include <math.h>
#include <string.h>

#define PANEL 512

static const backend *const be = &backend_cpu;
static params par;
static sys s;
static atmos a;
static psf_opts opts;
static psf *ps;
static comm world;
static int m, t, v, np;
static const double *px, *py;

static backend_rows rows[2]; /* D' without entries that are nil, or that a device would drop */
static double *h, *dplus;    /* H, v x v; D+, v x t, where it is needed */

static double *numbers(size_t count) {
    double *p;
    check(ALLOC(p, count > 0 ? count : 1, "a matrix"));
    return p;
}

static size_t size(int rows, int cols) {
    return (size_t)rows * (size_t)cols;
}

static void gemm(char ta, char tb, int rows, int cols, int k, double alpha, const double *x,
                 int ldx, const double *y, int ldy, double beta, double *z) {
    cblas_dgemm(CblasColMajor, ta == 'T' ? CblasTrans : CblasNoTrans,
                tb == 'T' ? CblasTrans : CblasNoTrans, rows, cols, k, alpha, x, ldx, y, ldy, beta,
                z, rows);
}

/* --- halves */

typedef struct {
    backend_f16 *hi, *lo; /* lo: NULL, or what hi leaves */
    int64_t ld;
    int exponent;
} fp16;

static fp16 to_fp16(backend_type type, bool both, int rows, int cols, const void *x) {
    fp16 r = {.ld = rows};
    double most;
    check(ALLOC(r.hi, size(rows, cols), "halves"));
    check(be->fp16->max_abs(NULL, type, rows, cols, x, rows, &most));
    r.exponent = backend_fp16_exponent(most);
    if (!both) {
        check(be->fp16->cast_to_fp16(NULL, type, rows, cols, r.exponent, x, rows, r.hi, rows));
        return r;
    }
    check(ALLOC(r.lo, size(rows, cols), "halves"));
    check(
        be->fp16->split(NULL, type, 'A', rows, cols, r.exponent, x, rows, r.hi, rows, r.lo, rows));
    return r;
}

static void drop(fp16 *x) {
    free(x->hi);
    free(x->lo);
}

/* z := alpha x op(y) + beta z, where `both` have lo in three products. x and y begin at column,
 * row or column `from` of their inner size. */
static void fp16_product_of(char tb, int rows, int cols, int k, float alpha, const fp16 *x,
                            int64_t xat, const fp16 *y, int64_t yat, float beta, float *z) {
    if (x->lo != NULL && y->lo != NULL)
        check(fp16_gemm(be, NULL, 'N', tb, rows, cols, k, alpha,
                        (fp16_pair){x->hi + xat, x->lo + xat, x->ld, x->exponent},
                        (fp16_pair){y->hi + yat, y->lo + yat, y->ld, y->exponent}, beta, z, rows));
    else
        check(be->fp16->gemm(NULL, 'N', tb, rows, cols, k,
                             alpha * ldexpf(1, -x->exponent - y->exponent), x->hi + xat, x->ld,
                             y->hi + yat, y->ld, beta, z, rows));
}

/* w dT in single precision, dT m x m lower triangular. */
static float *times_triangle(const fp16 *w, const fp16 *dt) {
    float *z;
    check(ALLOC(z, size(v, m), "W dT"));
    for (int j = 0, n; j < m; j += n) {
        n = m - j < PANEL ? m - j : PANEL;
        fp16_product_of('N', v, n, m - j, 1, w, (int64_t)j * v, dt, j + (int64_t)j * m, 0,
                        z + size(v, j));
    }
    return z;
}

/* y = z w' (v x v) in double precision, z rounded to FP16 first. */
static double *outer_fp16(const float *z, const fp16 *w, bool wide) {
    fp16 zh = to_fp16(BACKEND_S, wide, v, m, z);
    float *y;
    check(ALLOC(y, size(v, v), "Y"));
    fp16_product_of('T', v, v, m, 1, &zh, 0, w, 0, 0, y);
    double *out = numbers(size(v, v));
    for (size_t i = 0; i < size(v, v); i++)
        out[i] = (double)y[i];
    free(y);
    drop(&zh);
    return out;
}

/* --- the mirror */

/* q = D'c of n columns; small: without entries that a device would drop. */
static void stencil(bool small, int n, const double *c, double *q) {
    check(be->sparse->times(NULL, BACKEND_D, &rows[small], n, 1, c, t, 0, q, v));
}

static void free_stencil(backend_rows *of) {
    be->release(NULL, (void *)of->column);
    be->release(NULL, (void *)of->value);
}

static int by_size(const void *x, const void *y) {
    return *(const int *)x - *(const int *)y;
}

static void count_stencil(const char *least, const backend_rows *of) {
    int *n;
    long all = 0;
    check(ALLOC(n, (size_t)v, "counts"));
    for (int64_t k = 0; k < of->width * v; k++)
        n[k % v] += of->column[k] >= 0;
    for (int k = 0; k < v; k++)
        all += n[k];
    qsort(n, (size_t)v, sizeof *n, by_size);
    printf("entries of a column of D above %s of the largest: mean %.1f, median %d, most %d\n",
           least, (double)all / v, n[v / 2], n[v - 1]);
    free(n);
}

/* Largest eigenvalue of x (v x v), by its powers. */
static double largest_eigenvalue(const double *x) {
    double *p = numbers((size_t)v), *q = numbers((size_t)v), norm = 0;
    for (int i = 0; i < v; i++)
        p[i] = sin(1 + 7.3 * i * i);
    for (int step = 0; step < 400; step++) {
        cblas_dscal(v, 1 / cblas_dnrm2(v, p, 1), p, 1);
        cblas_dgemv(CblasColMajor, CblasNoTrans, v, v, 1, x, v, p, 1, 0, q, 1);
        norm = cblas_ddot(v, p, 1, q, 1);
        memcpy(p, q, sizeof *p * (size_t)v);
    }
    free(p), free(q);
    return norm;
}

static void make_mirror(bool exact) {
    double *d = numbers(size(t, v));
    h = numbers(size(v, v));
    dplus = numbers(size(v, t));
    check(matcov_fill_interaction(&s, d, (size_t)t));
    check(command_normal(&s, d, h));
    check(be->mirror(NULL, BACKEND_D, 'L', v, h, v));
    const double largest = largest_eigenvalue(h);
    memset(h, 0, sizeof *h * size(v, v));
    check(raw_inverse(&s, d, h));
    printf("cond(M) %.0f\n", largest * largest_eigenvalue(h));
    check(raw_stencil(be, NULL, BACKEND_D, t, v, d, 1e-4, &rows[0]));
    count_stencil("1e-4", &rows[0]);
    free_stencil(&rows[0]);
    check(raw_stencil(be, NULL, BACKEND_D, t, v, d, 1e-6, &rows[1]));
    count_stencil("1e-6", &rows[1]);
    check(raw_stencil(be, NULL, BACKEND_D, t, v, d, 1e-17, &rows[0]));
    free(d);
    if (exact)
        check(command_init(&world, &s, dplus, NULL));
    else /* H D', which is the same up to rounding */
        for (int64_t k = 0; k < rows[0].width * v; k++)
            if (rows[0].column[k] >= 0)
                cblas_daxpy(v, ((const double *)rows[0].value)[k], h + size(v, (int)(k % v)), 1,
                            dplus + size(v, rows[0].column[k]), 1);
}

/* H x H', in x's place. */
static void both_sides(double *x) {
    double *y = numbers(size(v, v));
    gemm('N', 'N', v, v, v, 1, h, v, x, v, 0, y);
    gemm('N', 'T', v, v, v, 1, y, v, h, v, 0, x);
    free(y);
}

/* --- covariances */

static matcov *prepared(const profile *p) {
    matcov *mc;
    check(matcov_prepare(&s, p, &mc));
    check(matcov_tabulate(mc));
    return mc;
}

/* Cmm, without tip-tilt constants where `bare`; its lower triangle with half the diagonal. */
static double *lower(const matcov *mc, bool bare, bool half) {
    double *c = numbers(size(m, m));
    check(matcov_fill_cmm(mc, 0, (size_t)m, 0, (size_t)m, c, (size_t)m));
    for (int w = 0; w < s.nsensor && bare; w++)
        for (int axis = 0; axis < 2 && s.sensors[w].lgs; axis++) {
            const int n = s.sensors[w].nsub, first = (int)s.sensors[w].first + axis * n;
            for (int j = first; j < first + n; j++)
                for (int i = first; i < first + n; i++)
                    c[(size_t)i + size(m, j)] -= matcov_tiptilt(mc, w);
        }
    for (int j = 0; j < m; j++) {
        memset(c + size(m, j), 0, sizeof *c * (size_t)j);
        c[(size_t)j + size(m, j)] *= half ? 0.5 : 1;
    }
    return c;
}

static double *ctm_of(const matcov *mc, const double *dir, bool shifted) {
    double *c = numbers(size(t, m));
    matcov_target *mt;
    check(matcov_target_init(mc, dir, shifted, &mt));
    check(matcov_fill_ctm(mt, 0, (size_t)m, c, (size_t)t));
    matcov_target_free(mt);
    return c;
}

static double *cpm_of(const matcov *mc, const double *dir, bool shifted) {
    double *c = numbers(size(np, m));
    matcov_target *mt;
    check(matcov_target_init(mc, dir, shifted, &mt));
    check(matcov_fill_cpm(mt, (size_t)np, px, py, 0, (size_t)m, c, (size_t)np));
    matcov_target_free(mt);
    return c;
}

/* w x dT, dT lower triangular: in double precision. */
static double *times_lower(const double *w, const double *dt) {
    double *z = numbers(size(v, m));
    for (int j = 0, n; j < m; j += n) {
        n = m - j < PANEL ? m - j : PANEL;
        gemm('N', 'N', v, n, m - j, 1, w + size(v, j), v, dt + (size_t)j + size(m, j), m, 0,
             z + size(v, j));
    }
    return z;
}

/* --- images */

static double *common; /* what all targets of the exposure have in common */
static psf_fit *fit;

typedef struct {
    double strehl[8], ee[8][8], variance; /* of the first wavelength [rad^2] */
} quality;

static quality images(const double *y, const double *ct) {
    quality q = {0};
    const size_t nsep = psf_sep_count(ps);
    double *sum = numbers(nsep);
    memcpy(sum, common, nsep * sizeof *sum);
    if (np > 0)
        check(psf_accumulate_phase(ps, 0, (size_t)v, y, (size_t)v, ct, (size_t)v, sum, NULL));
    else
        psf_accumulate(ps, 0, (size_t)v, y, (size_t)v, true, sum);
    for (int l = 0; l < opts.nlambda && l < 8; l++) {
        psf_result r = {.ee = q.ee[l]};
        check(psf_compute(ps, sum, fit, l, &r));
        q.strehl[l] = r.strehl;
        q.variance = l == 0 ? r.variance : q.variance;
    }
    free(sum);
    return q;
}

static quality exact_images;
static const double *exact_y, *exact_ct;
static double worst_c; /* largest entry of Cvv, or of W Cmm W' */

/* y and ct are changes of the exact ones; takes both. */
static void compare(const char *name, double *y, double *ct) {
    double ss = 0, most = 0, ee = 0;
    for (int j = 0; j < v; j++)
        for (int i = 0; i <= j; i++) {
            const double x = y[(size_t)i + size(v, j)] + y[(size_t)j + size(v, i)];
            ss += (i < j ? 2 : 1) * x * x;
            most = fmax(most, fabs(x));
        }
    for (size_t i = 0; i < size(v, v); i++)
        y[i] += exact_y[i];
    for (size_t i = 0; ct != NULL && i < size(v, np); i++)
        ct[i] += exact_ct[i];
    const quality q = images(y, ct);
    for (int l = 0; l < opts.nlambda && l < 8; l++)
        for (int i = 0; i < opts.nbox; i++)
            ee = fmax(ee, fabs(q.ee[l][i] - exact_images.ee[l][i]));
    printf("  %-34s %8.1e %8.1e  %+9.1e %8.1e  dSR", name, sqrt(ss) / v / worst_c, most / worst_c,
           q.variance - exact_images.variance, ee);
    for (int l = 0; l < opts.nlambda && l < 8; l++)
        printf(" %+9.1e", q.strehl[l] - exact_images.strehl[l]);
    printf("\n");
    fflush(stdout);
    free(y);
    free(ct);
}

#endif
