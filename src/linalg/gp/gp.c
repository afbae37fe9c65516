/* Gaussian processes: parameters, data, likelihood. */
#include "internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- parameters ------------------------------------------------------------------------------ */

static status in_range(const char *name, double value, double low, double high) {
    if (value >= low && value <= high)
        return MOAO_OK;
    return status_fail(MOAO_INPUT, "kernel: %s is %g, %g to %g is possible", name, value, low,
                       high);
}

status gp_check_kernel(const gp_kernel *k, int dim) {
    static const char *const name[] = {"length[0]", "length[1]", "length[2]"};
    status st;
    if (dim < 1 || dim > 3)
        return status_fail(MOAO_INPUT, "Gaussian process: %d dimensions, 1 to 3 are possible", dim);
    TRY(in_range("variance", k->variance, 1e-100, 1e100));
    TRY(in_range("nugget", k->nugget, 0, 1e100));
    for (int d = 0; d < gp_lengths(k, dim); d++)
        TRY(in_range(name[d], k->length[d], 1e-100, 1e100));
    if (k->family == MOAO_GP_MATERN)
        TRY(in_range("shape (nu of Matern)", k->shape, 0.1, 50));
    else if (k->family == MOAO_GP_POWERED_EXPONENTIAL)
        TRY(in_range("shape (the power)", k->shape, 0.1, 2));
    else if (k->family != MOAO_GP_SQUARED_EXPONENTIAL)
        TRY(status_fail(MOAO_INPUT, "kernel: family %d is not known", (int)k->family));
done:
    return st;
}

status gp_scale(const gp_kernel *k, int dim, int64_t n, const double *at, const int64_t *perm,
                double *scaled) {
    for (int64_t i = 0; i < n; i++)
        for (int d = 0; d < dim; d++) {
            const double x = at[dim * (perm ? perm[i] : i) + d];
            scaled[dim * i + d] = x / gp_length(k, d);
            if (!isfinite(x))
                return status_fail(MOAO_INPUT,
                                   "Gaussian process: coordinate %d of point %lld is %g", d,
                                   (long long)(perm ? perm[i] : i), x);
            if (!(fabs(scaled[dim * i + d]) < 1e100))
                return status_fail(MOAO_INPUT,
                                   "kernel: length[%d] is %g, too small for a coordinate of %g", d,
                                   gp_length(k, d), x);
        }
    return MOAO_OK;
}

void gp_values(const gp_radial *r, double variance, int dim, int64_t n, const double *x, int64_t m,
               const double *y, double *c, int64_t ldc) {
#pragma omp parallel for schedule(dynamic, 4)
    for (int64_t j = 0; j < m; j++)
        for (int64_t i = 0; i < n; i++)
            c[i + j * ldc] =
                variance * gp_radial_value(r, gp_square(dim, x + dim * i, y + dim * j));
}

status gp_covariance(const gp_kernel *k, int dim, int64_t n, const double *a, int64_t m,
                     const double *b, double *c, int64_t ldc) {
    gp_radial r = {0};
    double *x = NULL;
    status st;
    TRY(gp_check_kernel(k, dim));
    if (n < 0 || m < 0 || ldc < (n > 1 ? n : 1))
        TRY(status_fail(MOAO_INPUT, "covariance: %lld x %lld with leading dimension %lld",
                        (long long)n, (long long)m, (long long)ldc));
    TRY(ALLOC(x, (size_t)(dim * (n + m)), "scaled coordinates"));
    TRY(gp_scale(k, dim, n, a, NULL, x));
    TRY(gp_scale(k, dim, m, b, NULL, x + dim * n));
    TRY(gp_radial_set(&r, k, false));
    gp_values(&r, k->variance, dim, n, x, m, x + dim * n, c, ldc);
done:
    gp_radial_free(&r);
    free(x);
    return st;
}

/* --- data ------------------------------------------------------------------------------------ */

typedef struct {
    int dim;
    const double *at;
    int64_t i;
} place;

static int by_place(const void *a, const void *b) {
    const place *p = a, *q = b;
    for (int d = 0; d < p->dim; d++)
        if (p->at[d] != q->at[d])
            return p->at[d] < q->at[d] ? -1 : 1;
    return (p->i > q->i) - (p->i < q->i);
}

static status find_twins(moao_gp *g) {
    place *p = NULL;
    status st;
    g->twin[0] = g->twin[1] = -1;
    TRY(ALLOC(p, (size_t)g->n, "order of points"));
    for (int64_t i = 0; i < g->n; i++)
        p[i] = (place){g->dim, g->at + g->dim * i, i};
    qsort(p, (size_t)g->n, sizeof *p, by_place);
    for (int64_t i = 1; i < g->n && g->twin[0] < 0; i++)
        if (gp_square(g->dim, p[i - 1].at, p[i].at) == 0)
            g->twin[0] = p[i - 1].i, g->twin[1] = p[i].i;
done:
    free(p);
    return st;
}

static status check_options(const gp_options *o) {
    if ((unsigned)o->method > MOAO_GP_TLR)
        return status_fail(MOAO_INPUT, "Gaussian process: method %d is not known", (int)o->method);
    if (!(o->tau >= 0 && isfinite(o->tau)))
        return status_fail(MOAO_INPUT, "Gaussian process: tau is %g, at least 0 is needed", o->tau);
    if (o->tile < 0)
        return status_fail(MOAO_INPUT, "Gaussian process: tiles of %lld rows", (long long)o->tile);
    return MOAO_OK;
}

static void set_defaults(moao_gp *g) {
    const int64_t tile = 32 * (int64_t)lround(2 * sqrt((double)g->n) / 32);
    if (g->o.method == MOAO_GP_AUTO)
        g->o.method = g->n <= 10000 ? MOAO_GP_DENSE : MOAO_GP_TLR;
    if (g->o.tile == 0)
        g->o.tile = tile < 32 ? 32 : tile > 512 ? 512 : tile;
}

status gp_open(const backend *be, backend_ctx *ctx, int dim, int64_t n, const double *at,
               const double *y, const gp_options *o, moao_gp **out) {
    moao_gp *g = NULL;
    status st;
    *out = NULL;
    if (dim < 1 || dim > 3 || n < 1)
        return status_fail(MOAO_INPUT,
                           "Gaussian process: %lld points in %d dimensions, at least 1 in 1 to 3 "
                           "are needed",
                           (long long)n, dim);
    if (o)
        TRY(check_options(o));
    TRY(ALLOC(g, 1, "Gaussian process"));
    g->be = be, g->ctx = ctx, g->dim = dim, g->n = n;
    g->o = o ? *o : (gp_options){0};
    set_defaults(g);
    TRY(ALLOC(g->at, (size_t)(dim * n), "points"));
    TRY(ALLOC(g->y, (size_t)n, "data"));
    TRY(ALLOC(g->scaled, (size_t)(dim * n), "points"));
    TRY(ALLOC(g->alpha, (size_t)n, "solution"));
    TRY(ALLOC(g->ones, (size_t)n, "solution"));
    memcpy(g->at, at, sizeof *at * (size_t)(dim * n));
    memcpy(g->y, y, sizeof *y * (size_t)n);
    TRY(gp_scale(&(gp_kernel){.length = {1}}, dim, n, at, NULL, g->scaled));
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(y[i]))
            TRY(status_fail(MOAO_INPUT, "Gaussian process: datum %lld is %g", (long long)i, y[i]));
    TRY(find_twins(g));
    *out = g;
    g = NULL;
done:
    gp_close(g);
    return st;
}

void gp_close(moao_gp *g) {
    if (!g)
        return;
    gp_drop_factor(g);
    gp_radial_free(&g->radial);
    free(g->at), free(g->y), free(g->scaled), free(g->alpha), free(g->ones);
    free(g);
}

const tlr *gp_factor(const moao_gp *g) {
    return g->ready ? g->l : NULL;
}

/* --- likelihood ------------------------------------------------------------------------------ */

static double dot(int64_t n, const double *x, const double *y) {
    double s = 0;
    for (int64_t i = 0; i < n; i++)
        s += x[i] * y[i];
    return s;
}

/* alpha, mean and the quadratic form: with u = L^-1 y and e = L^-1 1 the best mean is u'e / e'e. */
static status solve_data(moao_gp *g, gp_result *r) {
    const int64_t n = g->n;
    status st;
    g->mean = g->precision = 0;
    for (int64_t i = 0; i < n; i++)
        g->alpha[i] = g->y[g->order.perm[i]];
    TRY(gp_solve(g, 'N', 1, g->alpha));
    if (g->o.mean) {
        for (int64_t i = 0; i < n; i++)
            g->ones[i] = 1;
        TRY(gp_solve(g, 'N', 1, g->ones));
        g->precision = dot(n, g->ones, g->ones);
        g->mean = dot(n, g->ones, g->alpha) / g->precision;
        for (int64_t i = 0; i < n; i++)
            g->alpha[i] -= g->mean * g->ones[i];
        TRY(gp_solve(g, 'T', 1, g->ones));
    }
    r->quadratic = dot(n, g->alpha, g->alpha);
    r->mean = g->mean;
    r->mean_deviation = g->o.mean ? 1 / sqrt(g->precision) : 0;
    st = gp_solve(g, 'T', 1, g->alpha);
done:
    return st;
}

status gp_check_twins(const moao_gp *g, const gp_kernel *k) {
    if (g->twin[0] < 0 || k->nugget > 0)
        return MOAO_OK;
    return status_fail(MOAO_INPUT,
                       "Gaussian process: points %lld and %lld are in the same place: the "
                       "covariance is singular without a nugget; give one, or drop a point",
                       (long long)g->twin[0], (long long)g->twin[1]);
}

static void describe(const moao_gp *g, gp_result *r) {
    tlr_stats s = {.bytes = 8.0 * (double)g->n * (double)g->n};
    if (g->l)
        tlr_statistics(g->l, &s);
    r->bytes = s.bytes;
    r->bytes_dense = 4.0 * (double)g->n * ((double)g->n + 1);
}

status gp_likelihood(moao_gp *g, const gp_kernel *k, bool gradient, int probes, gp_result *r) {
    gp_result to = {.kernel = *k, .logdet_error = NAN, .logdet_deviation = NAN};
    status st;
    gp_drop_factor(g);
    if (probes != 0 && (probes < 2 || probes > 64))
        return status_fail(MOAO_INPUT, "likelihood: %d probes, 0 or 2 to 64 are possible", probes);
    TRY(gp_check_kernel(k, g->dim));
    TRY(gp_check_twins(g, k));
    TRY(gp_make_factor(g, k, gradient));
    TRY(gp_logdet(g, &to.logdet));
    TRY(solve_data(g, &to));
    to.likelihood = -0.5 * ((double)g->n * log(2 * M_PI) + to.logdet + to.quadratic);
    if (!isfinite(to.likelihood))
        TRY(status_fail(MOAO_NUMERIC, "likelihood: not finite with variance %g, nugget %g",
                        k->variance, k->nugget));
    to.tau = g->tau;
    describe(g, &to);
    if (probes)
        TRY(gp_logdet_error(g, probes, &to.logdet_error, &to.logdet_deviation));
    for (int p = 0; p < MOAO_GP_PARAMETERS; p++)
        to.gradient[p] = NAN;
    if (gradient)
        TRY(gp_gradient(g, to.gradient));
    g->ready = true;
    *r = to;
done:
    if (st != MOAO_OK)
        gp_drop_factor(g);
    return st;
}
