/* Prediction from a process's factor, and random fields. */
#include "internal.h"

#include "moao/backend_random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const moao_gp *g;
    int64_t m;
    const double *at;        /* scaled */
    double *c;               /* [n x m] or of a chunk: covariances, then L^-1 of them */
    double *trend;           /* [m] 1 - 1' C^-1 c: what the mean's error contributes */
    double *mean, *variance; /* variance: NULL or [m] */
    bool solve;
} prediction;

/* Points j0 .. j0 + m, into columns of c. */
static status predict_chunk(const prediction *x, int64_t j0, int64_t m, double *c) {
    const moao_gp *g = x->g;
    const int64_t n = g->n;
    status st = MOAO_OK;
    gp_values(&g->radial, g->k.variance, g->dim, n, g->scaled, m, x->at + g->dim * j0, c, n);
#pragma omp parallel for schedule(static)
    for (int64_t j = 0; j < m; j++) {
        double mean = g->mean, trend = 1;
        for (int64_t i = 0; i < n; i++) {
            mean += c[i + j * n] * g->alpha[i];
            trend -= g->o.mean ? c[i + j * n] * g->ones[i] : 0;
        }
        x->mean[j0 + j] = mean, x->trend[j0 + j] = trend;
    }
    if (x->solve)
        TRY(gp_solve(g, 'N', m, c));
done:
    return st;
}

/* Of the mean's error in the covariance of points i and j. */
static double of_mean(const prediction *x, int64_t i, int64_t j) {
    return x->g->o.mean ? x->trend[i] * x->trend[j] / x->g->precision : 0;
}

/* variance - |L^-1 c|^2; what is negative by rounding or by compression becomes 0, but no more. */
static status variances(const prediction *x, int64_t j0, int64_t m, const double *c) {
    const moao_gp *g = x->g;
    for (int64_t j = 0; j < m; j++) {
        double known = 0;
        for (int64_t i = 0; i < g->n; i++)
            known += c[i + j * g->n] * c[i + j * g->n];
        const double v = g->k.variance - known + of_mean(x, j0 + j, j0 + j);
        if (!(v >= -1e-3 * g->k.variance))
            return status_fail(MOAO_NUMERIC,
                               "prediction: variance %g at point %lld: tau of %g is too loose", v,
                               (long long)(j0 + j), g->tau);
        x->variance[j0 + j] = fmax(v, 0);
    }
    return MOAO_OK;
}

/* covariance := C(x, x) - V' V + the mean's, V = L^-1 c whole. */
static status covariances(const prediction *x, double *covariance) {
    const moao_gp *g = x->g;
    const int64_t m = x->m;
    const double minus = -1, one = 1;
    status st;
    gp_values(&g->radial, g->k.variance, g->dim, m, x->at, m, x->at, covariance, m);
    TRY(backend_cpu.syrk(NULL, BACKEND_D, 'L', 'T', m, g->n, &minus, x->c, g->n, &one, covariance,
                         m, NULL, 0));
    for (int64_t j = 0; j < m; j++)
        for (int64_t i = j; i < m; i++) {
            covariance[i + j * m] += of_mean(x, i, j);
            covariance[j + i * m] = covariance[i + j * m];
        }
done:
    return st;
}

status gp_predict(moao_gp *g, int64_t m, const double *at, double *mean, double *variance,
                  double *covariance) {
    const int64_t chunk = m < GP_PANEL ? m : GP_PANEL;
    prediction x = {.g = g, .m = m, .mean = mean, .variance = variance};
    double *scaled = NULL;
    status st;
    if (!g->ready)
        return status_fail(MOAO_INPUT, "prediction: no factor: call moao_gp_likelihood or "
                                       "moao_gp_fit first");
    if (m < 0)
        return status_fail(MOAO_INPUT, "prediction: %lld points", (long long)m);
    TRY(ALLOC(scaled, (size_t)(g->dim * m), "scaled coordinates"));
    TRY(ALLOC(x.trend, (size_t)m, "trends"));
    TRY(ALLOC(x.c, (size_t)(g->n * (covariance ? m : chunk)), "covariances of predictions"));
    TRY(gp_scale(&g->k, g->dim, m, at, NULL, scaled));
    x.at = scaled, x.solve = variance || covariance;
    for (int64_t j = 0; j < m; j += chunk) {
        const int64_t now = m - j < chunk ? m - j : chunk;
        double *c = covariance ? x.c + g->n * j : x.c;
        TRY(predict_chunk(&x, j, now, c));
        if (variance)
            TRY(variances(&x, j, now, c));
    }
    if (covariance && m > 0)
        TRY(covariances(&x, covariance));
done:
    free(scaled), free(x.trend), free(x.c);
    return st;
}

/* Normal numbers by Box and Muller's method, from words of a counter. */
static void normal_numbers(uint64_t seed, int64_t n, double *z) {
    for (int64_t i = 0; i < n; i++) {
        uint32_t c[4] = {(uint32_t)i, (uint32_t)(i >> 32), 0, 1},
                 k[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
        backend_philox(c, k);
        const double u = ((double)c[0] * 0x1p32 + (double)c[1] + 0.5) * 0x1p-64,
                     v = ((double)c[2] * 0x1p32 + (double)c[3]) * 0x1p-64;
        z[i] = sqrt(-2 * log(u)) * cos(2 * M_PI * v);
    }
}

status gp_simulate(const backend *be, backend_ctx *ctx, const gp_kernel *k, int dim, int64_t n,
                   const double *at, uint64_t seed, double *z) {
    const gp_options o = {.method = MOAO_GP_DENSE};
    moao_gp *g = NULL;
    status st;
    TRY(gp_check_kernel(k, dim));
    normal_numbers(seed, n, z);
    TRY(gp_open(be, ctx, dim, n, at, z, &o, &g));
    TRY(gp_check_twins(g, k));
    TRY(gp_make_factor(g, k, false));
    st = gp_times_factor(g, z);
done:
    gp_close(g);
    return st;
}
