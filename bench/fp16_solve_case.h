/* What bench_fp16_solve computes with: a case from parameter files, on a device. */
#ifndef MOAO_BENCH_FP16_SOLVE_CASE_H
#define MOAO_BENCH_FP16_SOLVE_CASE_H

#include "backend/backend_matcov.h"
#include "fp16_solve_raw.h"
#include "job/setup.h"
#include "matcov/matcov.h"
#include "moao/fp16_factor.h"
#include "params/params.h"
#include "psf/psf.h"
#include "timing.h"
#include "tor/command.h"

#include <math.h>
#include <mpi.h>
#include <string.h>

#define PANEL ((int64_t)1024) /* columns of a panel of covariances */
#define MOST 8                /* tilings, accuracies, figures of merit */

static const backend *be;
static const backend_matcov *mat;
static const backend_psf *img;
static backend_ctx *ctx;
static comm world;

static params par;
static sys s;
static atmos air;
static psf_opts opts;
static psf *images;
static int64_t m, t, v, sample = 256;
static bool raw;

/* On the device. */
static backend_cov *cov;
static backend_cov_target *target;
static backend_imager *imager;
static double *dplus, *project, *inverse, *a, *b0, *w, *panel, *z, *g, *y, *average, *mtt, *number;
static float *b32, *x32;
static backend_rows stencil[2]; /* D' in double and in single precision */
static backend_f16 *dplus16[2], *wide16[2], *w16[2];
static void *work;
static size_t lwork;
static int dplus_exponent;
static double bound; /* of the entries of L */

static void *take(size_t count, size_t size) {
    void *p;
    check(be->alloc(ctx, count * size, &p));
    return p;
}

static void fetch(void *to, const void *from, size_t bytes) {
    const int64_t n = (int64_t)bytes;
    check(be->copy(ctx, to, n, from, n, n, 1));
    check(be->sync(ctx));
}

static void copy(void *to, const void *from, size_t bytes) {
    const int64_t rows = 1 << 20, whole = (int64_t)bytes / rows, rest = (int64_t)bytes % rows;
    check(be->copy(ctx, to, rows, from, rows, rows, whole));
    check(be->copy(ctx, (char *)to + whole * rows, rest, (const char *)from + whole * rows, rest,
                   rest, 1));
}

static void multiply(char ta, char tb, int64_t rows, int64_t cols, int64_t k, double alpha,
                     const double *p, int64_t ldp, const double *q, int64_t ldq, double beta,
                     double *c, int64_t ldc) {
    check(be->gemm(ctx, BACKEND_D, ta, tb, rows, cols, k, &alpha, p, ldp, q, ldq, &beta, c, ldc,
                   work, lwork));
}

static int64_t width(int64_t j, int64_t end) {
    return end - j < PANEL ? end - j : PANEL;
}

/* Make p the profile of the covariances to come; shifted: with the wind of an exposure. */
static void load(const profile *p, bool shifted) {
    static matcov *mc; /* what the CPU backend computes from */
    matcov_model model;
    matcov *before = mc;
    check(matcov_prepare(&s, p, &mc));
    check(matcov_model_init(mc, &model));
    if (cov == NULL) {
        check(mat->open(ctx, &model, &cov));
        check(mat->open_target(cov, &target));
    } else {
        check(mat->load(cov, &model));
    }
    check(mat->aim(target, s.targets[s.ntarget / 2], shifted));
    check(be->sync(ctx));
    matcov_model_free(&model);
    matcov_free(before);
}

static double largest(backend_type type, int64_t rows, int64_t cols, const void *p) {
    double most;
    check(be->fp16->max_abs(ctx, type, rows, cols, p, rows, number));
    fetch(&most, number, sizeof most);
    return most;
}

static void take_memory(void) {
    const size_t d = sizeof(double), h = sizeof(backend_f16), f = sizeof(float);
    const size_t vm = (size_t)(v * m), vv = (size_t)(v * v), w0 = (size_t)PANEL;
    const size_t tall = (size_t)(m > t ? m : t) * w0, ns = psf_sep_count(images);
    const backend_op ops[] = {BACKEND_POTRF, BACKEND_TRSM};
    for (int k = 0; k < 2; k++) {
        const size_t need = be->workspace(ops[k], BACKEND_D, k == 0 ? m : v, m);
        lwork = need > lwork ? need : lwork;
    }
    work = take(lwork, 1);
    a = take((size_t)m * (size_t)m, d);
    dplus = take((size_t)(v * t), d);
    b0 = take(vm, d), w = take(vm > (size_t)(sample * m) ? vm : (size_t)(sample * m), d);
    panel = take(tall > vv ? tall : vv, d), z = take((size_t)v * w0, d);
    g = take(vv, d), y = take(vv, d);
    average = take(ns, d), mtt = take(ns, d), number = take(1, d);
    b32 = take(vm, f), x32 = take(vm > vv ? vm : vv, f);
    for (int k = 0; k < 2; k++) {
        w16[k] = take(vm, h);
        dplus16[k] = take((size_t)(v * t), h);
        wide16[k] = take((size_t)t * w0, h);
    }
}

/* D' and J M^-1, and how well they make D+. */
static void set_up_raw(void) {
    double *host, *d, *turned;
    check(ALLOC(host, (size_t)(v * v), "J M^-1"));
    check(ALLOC(turned, (size_t)(v * t), "interaction matrix"));
    check(ALLOC(d, (size_t)(t * v), "interaction matrix"));
    check(matcov_fill_interaction(&s, d, (size_t)t));
    check(raw_inverse(&s, d, host));
    inverse = take((size_t)(v * v), sizeof *inverse);
    copy(inverse, host, (size_t)(v * v) * sizeof *inverse);
    for (int k = 0; k < 2; k++)
        check(raw_stencil(be, ctx, k == 0 ? BACKEND_D : BACKEND_S, t, v, d, k == 0 ? 1e-15 : 1e-8,
                          &stencil[k]));
    project = take((size_t)(v * t), sizeof *project);
    for (int64_t i = 0; i < v; i++)
        for (int64_t k = 0; k < t; k++)
            turned[i + k * v] = d[k + i * t];
    copy(project, turned, (size_t)(v * t) * sizeof *turned);
    copy(b0, dplus, (size_t)(v * t) * sizeof *b0);
    multiply('N', 'N', v, t, v, -1, inverse, v, project, v, 1, b0, v);
    printf("J M^-1 D' - D+: %.1e of the largest, %d and %d entries a column of D\n",
           largest(BACKEND_D, v, t, b0) / largest(BACKEND_D, v, t, dplus), (int)stencil[0].width,
           (int)stencil[1].width);
    free(turned);
    free(d);
    free(host);
}

static void set_up(int nfile, const char *const *files, int nover, const char *const *over) {
    double *host;
    psf_model pm;
    psf_fit *fit;
    psf_fit_model fm;
    check(params_load(&world, nfile, files, nover, over, &par));
    if (par.psf_residual != RESIDUAL_SENSOR)
        check(status_fail(MOAO_INPUT, "the Strehl ratios here are those of psf.residual=sensor"));
    check(sys_init(&par, &s));
    check(atmos_init(&par, &s, &air));
    params_psf_opts(&par, &opts);
    opts.crop = 2;
    check(psf_init(&s, &opts, &images));
    m = (int64_t)s.m, t = (int64_t)s.t, v = s.dm.nact;
    take_memory();
    psf_model_init(images, &pm);
    check(img->open(ctx, &pm, &imager));
    check(psf_fit_init(images, atmos_profile_at(&air, air.exposure_time[0]), &fit));
    psf_fit_model_init(fit, &fm);
    check(img->load(imager, &fm));
    check(ALLOC(host, (size_t)(v * t), "D+"));
    check(command_init(&world, &s, host, NULL));
    copy(dplus, host, (size_t)(v * t) * sizeof *host);
    check(be->sync(ctx));
    free(host);
    project = dplus;
    if (raw)
        set_up_raw();
    dplus_exponent = backend_fp16_exponent(largest(BACKEND_D, v, t, project));
    check(be->fp16->split(ctx, BACKEND_D, 'A', v, t, dplus_exponent, project, v, dplus16[0], v,
                          dplus16[1], v));
    load(atmos_profile_at(&air, air.tor_time[0]), false);
}

#endif
