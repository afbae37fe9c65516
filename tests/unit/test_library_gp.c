/* Gaussian processes (moao/gp.h) against a direct evaluation on the host: kernels, likelihood and
 * its gradient, fit, prediction; one point, coincident points, NaN, parameters out of range. */
#include "moao/gp.h"
#include "support/backend.h"

#include <math.h>
#include <string.h>

#define ok must

static uint64_t uniform_state = 1; /* what the next number follows from */
static double uniform(void) {
    uniform_state = uniform_state * 6364136223846793005u + 1442695040888963407u;
    return (double)(uniform_state >> 11) * 0x1p-53;
}

enum { COUNT = 150, AT = 12 };

static const gp_kernel matern15 = {MOAO_GP_MATERN, 1.7, {0.4}, 1.5, 0.05};

/* --- the direct evaluation ----------------------------------------------------------------------
 */

/* K_nu by the trapezoidal rule on int_0^inf exp(-x cosh t) cosh(nu t) dt. */
static double bessel_k(double nu, double x) {
    const int parts = 300;
    const double end = log(2 * (60 + 20 * nu) / x + 2), h = end / parts;
    double sum = exp(-x) / 2;
    for (int i = 1; i <= parts; i++)
        sum += exp(-x * cosh(h * i)) * cosh(nu * h * i);
    return sum * h;
}

static double value(const gp_kernel *k, int dim, const double *a, const double *b) {
    double square = 0;
    for (int d = 0; d < dim; d++)
        square += pow((a[d] - b[d]) / k->length[k->length[1] == 0 ? 0 : d], 2);
    const double r = sqrt(square), t = sqrt(2 * k->shape) * r;
    if (r == 0)
        return k->variance;
    if (k->family == MOAO_GP_SQUARED_EXPONENTIAL)
        return k->variance * exp(-square / 2);
    if (k->family == MOAO_GP_POWERED_EXPONENTIAL)
        return k->variance * exp(-pow(r, k->shape));
    if (k->shape == 0.5)
        return k->variance * exp(-t);
    if (k->shape == 1.5)
        return k->variance * (1 + t) * exp(-t);
    return k->variance * pow(2, 1 - k->shape) / tgamma(k->shape) * pow(t, k->shape) *
           bessel_k(k->shape, t);
}

typedef struct {
    int dim;
    int64_t n;
    double at[3 * COUNT], y[COUNT], c[COUNT * COUNT], alpha[COUNT], mean, precision;
} direct;

static void fill_points(direct *x, int dim, int64_t n) {
    x->dim = dim, x->n = n;
    for (int64_t i = 0; i < dim * n; i++)
        x->at[i] = uniform();
    for (int64_t i = 0; i < n; i++)
        x->y[i] = 3 + sin(5 * x->at[dim * i]) + 0.3 * uniform();
}

/* x := L^-1 x or L^-T x. */
static void substitute(const direct *d, bool turned, double *x) {
    const int64_t n = d->n;
    for (int64_t s = 0; s < n; s++) {
        const int64_t i = turned ? n - 1 - s : s;
        for (int64_t j = turned ? i + 1 : 0; j < (turned ? n : i); j++)
            x[i] -= (turned ? d->c[j + i * n] : d->c[i + j * n]) * x[j];
        x[i] /= d->c[i + i * n];
    }
}

/* The likelihood's logarithm; c becomes L. */
static double likelihood(direct *x, const gp_kernel *k, bool mean, double *logdet) {
    const int64_t n = x->n;
    double ones[COUNT], det = 0, square = 0, uy = 0;
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < n; i++)
            x->c[i + j * n] =
                value(k, x->dim, x->at + x->dim * i, x->at + x->dim * j) + (i == j) * k->nugget;
    for (int64_t j = 0; j < n; j++) {
        for (int64_t p = 0; p < j; p++)
            for (int64_t i = j; i < n; i++)
                x->c[i + j * n] -= x->c[i + p * n] * x->c[j + p * n];
        const double root = sqrt(x->c[j + j * n]);
        det += 2 * log(root);
        for (int64_t i = j; i < n; i++)
            x->c[i + j * n] /= root;
    }
    for (int64_t i = 0; i < n; i++)
        x->alpha[i] = x->y[i], ones[i] = 1;
    substitute(x, false, x->alpha), substitute(x, false, ones);
    x->precision = 0, x->mean = 0;
    for (int64_t i = 0; i < n; i++)
        uy += ones[i] * x->alpha[i], x->precision += ones[i] * ones[i];
    if (mean)
        x->mean = uy / x->precision;
    for (int64_t i = 0; i < n; i++) {
        x->alpha[i] -= x->mean * ones[i];
        square += x->alpha[i] * x->alpha[i];
    }
    substitute(x, true, x->alpha);
    *logdet = det;
    return -0.5 * ((double)n * log(2 * M_PI) + det + square);
}

static moao_gp *process(const direct *x, gp_method method, bool mean, double tau) {
    const gp_options o = {.method = method, .mean = mean, .tile = 32, .tau = tau};
    moao_gp *g;
    ok(gp_open(be, ctx, x->dim, x->n, x->at, x->y, &o, &g));
    return g;
}

/* --- tests --------------------------------------------------------------------------------------
 */

static void test_kernels(void **state) {
    static const gp_kernel kernels[] = {{MOAO_GP_MATERN, 2, {0.5}, 0.5, 0},
                                        {MOAO_GP_MATERN, 2, {0.5}, 1.5, 0},
                                        {MOAO_GP_MATERN, 2, {0.5, 0.2, 3}, 2.5, 0},
                                        {MOAO_GP_MATERN, 1, {0.5}, 0.15, 0},
                                        {MOAO_GP_MATERN, 1, {0.3}, 0.8, 0},
                                        {MOAO_GP_MATERN, 1, {0.1, 2, 0.4}, 3.5, 0},
                                        {MOAO_GP_MATERN, 1, {0.3}, 1 + 1e-9, 0},
                                        {MOAO_GP_MATERN, 3, {0.2}, 20, 0},
                                        {MOAO_GP_SQUARED_EXPONENTIAL, 2, {1}, 0, 0},
                                        {MOAO_GP_POWERED_EXPONENTIAL, 2, {0.7}, 1.3, 0}};
    direct x;
    double c[AT * AT];
    (void)state;
    for (size_t k = 0; k < sizeof kernels / sizeof *kernels; k++)
        for (int dim = kernels[k].length[1] == 0 ? 1 : 3; dim <= 3; dim++) {
            fill_points(&x, dim, AT);
            for (int d = 0; d < dim; d++) /* near each other, and far */
                x.at[dim + d] = x.at[d] + 1e-7, x.at[2 * dim + d] = 1e3;
            ok(gp_covariance(kernels + k, dim, AT, x.at, AT, x.at, c, AT));
            for (int i = 0; i < AT; i++)
                for (int j = 0; j < AT; j++) {
                    const double v = value(kernels + k, dim, x.at + dim * i, x.at + dim * j);
                    if (!(fabs(c[i + AT * j] - v) <= 4e-13 * kernels[k].variance))
                        fail_msg("kernel %d, %d dimensions, (%d, %d): %.17g, not %.17g", (int)k,
                                 dim, i, j, c[i + AT * j], v);
                }
        }
}

/* Values to rounding (dense) or to what tau leaves; one point; fewer points than a tile has rows.
 */
static void test_likelihood(void **state) {
    static const int64_t counts[] = {1, 2, 31, COUNT};
    gp_result r;
    direct x;
    (void)state;
    for (size_t e = 0; e < sizeof counts / sizeof *counts; e++)
        for (int way = 0; way < 4; way++) {
            const bool mean = way & 1, dense = way & 2;
            double logdet;
            fill_points(&x, 1 + (int)e % 3, counts[e]);
            const double exact = likelihood(&x, &matern15, mean, &logdet);
            moao_gp *g = process(&x, dense ? MOAO_GP_DENSE : MOAO_GP_TLR, mean, 1e-10);
            ok(gp_likelihood(g, &matern15, false, 8, &r));
            const double off = dense ? 1e-11 : 1e-6;
            assert_true(fabs(r.likelihood - exact) < off * (1 + fabs(exact)));
            assert_true(fabs(r.logdet - logdet) < off * (1 + fabs(logdet)));
            assert_true(fabs(r.mean - x.mean) < 1e-7);
            assert_true(mean ? fabs(r.mean_deviation * sqrt(x.precision) - 1) < 1e-6
                             : r.mean_deviation == 0);
            assert_true(r.logdet_error < 1e-6 && isnan(r.gradient[0]));
            assert_true((gp_factor(g) == NULL) == dense && (r.tau == 0) == dense);
            assert_true(r.bytes > 0);
            gp_close(g);
        }
}

/* The estimate of what compression did to the determinant is near what it did. */
static void test_logdet_error(void **state) {
    gp_result r;
    direct x;
    double logdet;
    (void)state;
    fill_points(&x, 2, COUNT);
    likelihood(&x, &matern15, false, &logdet);
    moao_gp *g = process(&x, MOAO_GP_TLR, false, 0.02);
    ok(gp_likelihood(g, &matern15, false, 32, &r));
    const double error = r.logdet - logdet;
    assert_true(fabs(error) > 1e-5);
    assert_true(fabs(r.logdet_error - error) < 4 * r.logdet_deviation + 0.1 * fabs(error));
    gp_close(g);
}

/* Derivatives by central differences of the direct evaluation. */
static void check_gradient(direct *x, gp_kernel k, gp_method method, bool mean, double tau) {
    double *const at[] = {&k.variance, k.length, k.length + 1, k.length + 2, &k.shape, &k.nugget};
    const double h = 1e-4;
    gp_result r;
    double unused;
    moao_gp *g = process(x, method, mean, tau);
    ok(gp_likelihood(g, &k, true, 0, &r));
    for (int p = 0; p < MOAO_GP_PARAMETERS; p++) {
        const double v = *at[p];
        double side[2], by = 0;
        const bool is = v > 0 && !(p == MOAO_GP_SHAPE && k.family == MOAO_GP_SQUARED_EXPONENTIAL) &&
                        !(p > MOAO_GP_LENGTH && p < MOAO_GP_SHAPE && p - MOAO_GP_LENGTH >= x->dim);
        for (int s = 0; is && s < 2; s++) {
            *at[p] = v * exp(s ? h : -h);
            side[s] = likelihood(x, &k, mean, &unused);
        }
        *at[p] = v;
        if (is)
            by = (side[1] - side[0]) / (2 * h);
        if (!(fabs(r.gradient[p] - by) < 1e-5 * (10 + fabs(by))))
            fail_msg("parameter %d of family %d, method %d: %.9g, not %.9g", p, (int)k.family,
                     (int)method, r.gradient[p], by);
    }
    gp_close(g);
}

static void test_gradient(void **state) {
    static const gp_kernel kernels[] = {
        {MOAO_GP_MATERN, 1.7, {0.4}, 1.5, 0.05},
        {MOAO_GP_MATERN, 1.7, {0.4, 0.8, 0.3}, 0.8, 0.05},
        {MOAO_GP_SQUARED_EXPONENTIAL, 0.7, {0.4, 0.2, 0.6}, 0, 0.1},
        {MOAO_GP_POWERED_EXPONENTIAL, 1.7, {0.4}, 1.4, 0.05},
        {MOAO_GP_POWERED_EXPONENTIAL, 1.7, {0.4}, 0.9, 0},
    };
    direct x;
    (void)state;
    for (size_t k = 0; k < sizeof kernels / sizeof *kernels; k++) {
        fill_points(&x, 1 + (int)k % 3, 60);
        check_gradient(&x, kernels[k], MOAO_GP_DENSE, k % 2, 0);
        check_gradient(&x, kernels[k], MOAO_GP_TLR, k % 2, 1e-11);
    }
    fill_points(&x, 1, 1);
    check_gradient(&x, matern15, MOAO_GP_DENSE, false, 0);
}

/* The factor serves after a gradient was formed in its place, too. */
static void test_predict(void **state) {
    gp_result r;
    direct x;
    double at[2 * AT], mean[AT], alone[AT], variance[AT], covariance[AT * AT], v[AT][COUNT];
    double logdet, trend[AT];
    (void)state;
    fill_points(&x, 2, COUNT);
    for (int i = 0; i < 2 * AT; i++)
        at[i] = 1.2 * uniform();
    at[0] = x.at[0], at[1] = x.at[1]; /* a point with data */
    for (int way = 0; way < 4; way++) {
        moao_gp *g = process(&x, way & 2 ? MOAO_GP_DENSE : MOAO_GP_TLR, way & 1, 1e-10);
        ok(gp_likelihood(g, &matern15, true, 0, &r));
        ok(gp_predict(g, AT, at, mean, variance, covariance));
        likelihood(&x, &matern15, way & 1, &logdet);
        for (int j = 0; j < AT; j++) {
            double ones[COUNT], exact = x.mean;
            trend[j] = way & 1;
            for (int i = 0; i < COUNT; i++) {
                v[j][i] = value(&matern15, 2, x.at + 2 * i, at + 2 * j), ones[i] = 1;
                exact += v[j][i] * x.alpha[i];
            }
            substitute(&x, false, v[j]), substitute(&x, false, ones);
            for (int i = 0; way & 1 && i < COUNT; i++)
                trend[j] -= v[j][i] * ones[i];
            assert_true(fabs(mean[j] - exact) < 1e-6);
        }
        for (int i = 0; i < AT; i++)
            for (int j = 0; j < AT; j++) {
                double exact =
                    value(&matern15, 2, at + 2 * i, at + 2 * j) + trend[i] * trend[j] / x.precision;
                for (int p = 0; p < COUNT; p++)
                    exact -= v[i][p] * v[j][p];
                assert_true(fabs(covariance[i + AT * j] - exact) < 1e-6);
                assert_true(i != j || fabs(variance[i] - exact) < 1e-6);
            }
        ok(gp_predict(g, AT, at, alone, NULL, NULL));
        assert_memory_equal(alone, mean, sizeof mean);
        ok(gp_predict(g, 0, at, mean, NULL, NULL));
        gp_close(g);
    }
}

/* A fit finds what the data were drawn with, to its errors; its gradient is 0 but at a bound. */
static void test_fit(void **state) {
    enum { M = 200 };
    const gp_kernel true_one = {MOAO_GP_MATERN, 2, {0.15, 0.4}, 1.5, 0.02},
                    start = {MOAO_GP_MATERN, 1, {0.3, 0.3}, 1.5, 0.1};
    double at[2 * M], z[M], other[M];
    gp_fit_result r;
    gp_result truth;
    moao_gp *g;
    (void)state;
    for (int i = 0; i < 2 * M; i++)
        at[i] = uniform();
    ok(gp_simulate(be, ctx, &true_one, 2, M, at, 5, z));
    ok(gp_simulate(be, ctx, &true_one, 2, M, at, 5, other));
    assert_memory_equal(z, other, sizeof z);
    for (int i = 0; i < M; i++)
        z[i] += 7;
    ok(gp_open(be, ctx, 2, M, at, z, &(gp_options){.mean = true}, &g));
    ok(gp_likelihood(g, &true_one, false, 0, &truth));
    ok(gp_fit(g, &start, NULL, &r));
    const gp_kernel *k = &r.at.kernel;
    const double found[] = {k->variance, k->length[0], k->length[1], k->nugget},
                 of[] = {2, 0.15, 0.4, 0.02};
    static const int place[] = {MOAO_GP_VARIANCE, MOAO_GP_LENGTH, MOAO_GP_LENGTH + 1,
                                MOAO_GP_NUGGET};
    assert_true(r.converged && r.evaluations < 60);
    assert_true(r.at.likelihood > truth.likelihood);
    assert_true(fabs(r.at.mean - 7) < 4 * r.at.mean_deviation);
    for (int p = 0; p < 4; p++) {
        assert_true(r.error[place[p]] > 0 && r.error[place[p]] < 1);
        assert_true(fabs(log(found[p] / of[p])) < 4 * r.error[place[p]]);
        assert_true(fabs(r.at.gradient[place[p]]) < 0.1);
        assert_true(r.covariance[place[p]][place[p]] > 0 &&
                    r.covariance[place[p]][MOAO_GP_SHAPE] == 0 &&
                    fabs(r.covariance[MOAO_GP_VARIANCE][place[p]]) <=
                        1.000001 * r.error[MOAO_GP_VARIANCE] * r.error[place[p]]);
    }
    assert_true(k->shape == 1.5 && r.error[MOAO_GP_SHAPE] == 0);
    const gp_fit_options bounded = {.free = 1 << MOAO_GP_LENGTH | 1 << MOAO_GP_SHAPE,
                                    .most = 12,
                                    .low = &(gp_kernel){0, 1, {0.2, 0.1}, 1, 0.1}};
    ok(gp_fit(g, &start, &bounded, &r));
    assert_true(r.at.kernel.length[0] >= 0.2 * (1 - 1e-12) && r.at.kernel.nugget == 0.1);
    assert_true(r.error[MOAO_GP_NUGGET] == 0);
    gp_close(g);
}

static void refused(status st, status as, const char *word) {
    if (st != as || !strstr(status_message(), word))
        fail_msg("status %d, \"%s\", not %d with %s", (int)st, status_message(), (int)as, word);
    status_clear();
}

static void test_refused(void **state) {
    gp_kernel k;
    direct x;
    double c[4];
    (void)state;
    fill_points(&x, 2, 40);
    x.at[0] = 1e3;
#define WITH(member, v, word)                                                                      \
    k = matern15, k.member = v;                                                                    \
    refused(gp_covariance(&k, 2, 2, x.at, 2, x.at, c, 2), MOAO_INPUT, word)
    WITH(variance, 0, "variance is 0"), WITH(variance, NAN, "variance is");
    WITH(length[0], -1, "length[0] is -1"), WITH(length[1], INFINITY, "length[1] is inf");
    WITH(length[0], 1e-99, "too small for"), WITH(nugget, -1e-9, "nugget is -1e-09");
    WITH(shape, 0.01, "nu of Matern"), WITH(shape, 51, "0.1 to 50"), WITH(family, 7, "family 7");
    k = matern15, k.family = MOAO_GP_POWERED_EXPONENTIAL, k.shape = 2.1;
    refused(gp_covariance(&k, 2, 2, x.at, 2, x.at, c, 2), MOAO_INPUT, "power");
}

static void test_refused_data(void **state) {
    gp_kernel k = matern15;
    gp_fit_result f;
    gp_result r;
    direct x;
    double c[4], mean;
    moao_gp *g = NULL;
    (void)state;
    fill_points(&x, 2, 40);
    refused(gp_covariance(&k, 4, 2, x.at, 2, x.at, c, 2), MOAO_INPUT, "4 dimensions");
    refused(gp_covariance(&k, 2, 2, x.at, 2, x.at, c, 1), MOAO_INPUT, "leading dimension 1");
    refused(gp_open(be, ctx, 2, 0, x.at, x.y, NULL, &g), MOAO_INPUT, "0 points");
    refused(gp_open(be, ctx, 2, 9, x.at, x.y, &(gp_options){.tau = -1}, &g), MOAO_INPUT,
            "tau is -1");
    x.y[17] = NAN;
    refused(gp_open(be, ctx, 2, 40, x.at, x.y, NULL, &g), MOAO_INPUT, "datum 17 is");
    x.y[17] = 1, x.at[31] = INFINITY;
    refused(gp_open(be, ctx, 2, 40, x.at, x.y, NULL, &g), MOAO_INPUT,
            "coordinate 1 of point 15 is inf");
    assert_null(g);
    x.at[31] = x.at[7], x.at[30] = x.at[6];
    for (int way = 0; way < 2; way++) {
        k = matern15;
        g = process(&x, way ? MOAO_GP_DENSE : MOAO_GP_TLR, false, 0);
        refused(gp_predict(g, 1, x.at, &mean, NULL, NULL), MOAO_INPUT, "no factor");
        ok(gp_likelihood(g, &k, false, 0, &r)); /* with a nugget */
        k.nugget = 0;
        refused(gp_likelihood(g, &k, false, 0, &r), MOAO_INPUT,
                "points 3 and 15 are in the same place");
        refused(gp_fit(g, &k, NULL, &f), MOAO_INPUT, "nugget");
        refused(gp_predict(g, 1, x.at, &mean, NULL, NULL), MOAO_INPUT, "no factor");
        k.nugget = 1e-20, k.family = MOAO_GP_SQUARED_EXPONENTIAL, k.length[0] = 1e4;
        assert_int_equal(gp_likelihood(g, &k, false, 0, &r), MOAO_NUMERIC);
        status_clear();
        refused(gp_likelihood(g, &matern15, false, 65, &r), MOAO_INPUT, "65 probes");
        refused(gp_fit(g, &k, &(gp_fit_options){.free = 1 << MOAO_GP_SHAPE}, &f), MOAO_INPUT,
                "shape");
        refused(gp_fit(g, &matern15, &(gp_fit_options){.free = 1 << 9}, &f), MOAO_INPUT, "free");
        refused(gp_fit(g, &matern15, &(gp_fit_options){.high = &k}, &f), MOAO_INPUT, "bounds");
        gp_close(g);
    }
    x.n = 2;
    g = process(&x, MOAO_GP_DENSE, false, 0);
    refused(gp_fit(g, &matern15, NULL, &f), MOAO_INPUT, "2 data for 3 parameters");
    gp_close(g);
    tlr_layout l;
    refused(tlr_layout_cloud(4, 2, x.at, 2, &l), MOAO_INPUT, "4 dimensions");
    x.at[3] = NAN;
    refused(tlr_layout_cloud(2, 2, x.at, 2, &l), MOAO_INPUT, "point 1");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kernels),  cmocka_unit_test(test_likelihood),
        cmocka_unit_test(test_gradient), cmocka_unit_test(test_logdet_error),
        cmocka_unit_test(test_predict),  cmocka_unit_test(test_fit),
        cmocka_unit_test(test_refused),  cmocka_unit_test(test_refused_data),
    };
    return run_on_backends(&(backend_tests){tests, sizeof tests / sizeof *tests, NULL, NULL});
}
