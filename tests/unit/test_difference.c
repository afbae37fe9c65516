/* The difference form of the residual (model section 6) equals the plain one in double precision,
 * for any beta: the algebra behind mixed precision, with nothing rounded. */
#include "moao/backend.h"
#include "support/matcov_case.h"

#include <mpi.h>

static comm world;
static const backend *const be = &backend_cpu;
static backend_ctx *ctx;

#define ROWS 23 /* of the projection in the place of D+ */

/* c (m x n) = alpha op(a) op(b) + beta c, without leading dimensions. */
static void gemm(char ta, char tb, size_t m, size_t n, size_t k, double alpha, const double *a,
                 const double *b, double beta, double *c) {
    case_ok(be->gemm(ctx, BACKEND_D, ta, tb, (int64_t)m, (int64_t)n, (int64_t)k, &alpha, a,
                     (int64_t)(ta == 'N' ? m : k), b, (int64_t)(tb == 'N' ? k : n), &beta, c,
                     (int64_t)m, NULL, 0));
}

static double *zeros(size_t n) {
    double *a = calloc(n, sizeof *a);
    assert_non_null(a);
    return a;
}

/* T of Cmm = T + T', in full. */
static double *triangle(const sys *s, backend_cov *c, unsigned with) {
    const int64_t m = (int64_t)s->m;
    double *t = zeros(s->m * s->m);
    case_ok(
        matcov_backend(be)->fill_cmm(c, BACKEND_D, 'T', with, (matcov_region){0, m, 0, m}, t, m));
    return t;
}

static backend_cov *open_model(matcov *mc) {
    matcov_model model;
    backend_cov *c;
    case_ok(matcov_model_init(mc, &model));
    case_ok(matcov_backend(be)->open(ctx, &model, &c));
    matcov_model_free(&model);
    return c;
}

static double *truth_covariance(const sys *s, backend_cov *c, bool shifted) {
    const int64_t m = (int64_t)s->m, t = (int64_t)s->t;
    const backend_matcov *mat = matcov_backend(be);
    backend_cov_target *v;
    double *a = zeros(s->t * s->m);
    case_ok(mat->open_target(c, &v));
    case_ok(mat->aim(v, (double[2]){CASE_ARCSEC(8), CASE_ARCSEC(-5)}, shifted));
    case_ok(mat->fill_ctm(v, BACKEND_D, (matcov_region){0, t, 0, m}, a, t));
    mat->close_target(v);
    return a;
}

typedef struct {
    sys s;
    profile p, p0;
    double *proj;   /* ROWS x t */
    double *b0, *w; /* ROWS x m: B0 = P Ctm0 and W = B0 Cmm0^-1 */
} setting;

static void prepare(const double (*layers)[5], int n, setting *g) {
    matcov *mc;
    int info;
    case_golden(&g->s, &g->p0);
    case_profile(n, layers, &g->p);
    const size_t m = g->s.m, t = g->s.t;
    case_ok(matcov_prepare(&g->s, &g->p0, &mc));
    backend_cov *c = open_model(mc);
    double *ctm = truth_covariance(&g->s, c, false), *right = zeros(m * ROWS), *full = zeros(m * m);
    g->proj = zeros(ROWS * t);
    g->b0 = zeros(ROWS * m);
    g->w = zeros(ROWS * m);
    for (size_t i = 0; i < ROWS * t; i++)
        g->proj[i] = sin((double)(i * i % 1009)) / (double)(1 + i % 11);
    gemm('N', 'N', ROWS, m, t, 1, g->proj, ctm, 0, g->b0);
    for (size_t j = 0; j < m; j++)
        for (size_t i = 0; i < ROWS; i++)
            right[j + i * m] = g->b0[i + j * ROWS];
    case_ok(matcov_fill_cmm(mc, 0, m, 0, m, full, m));
    case_ok(be->posv(ctx, BACKEND_D, 'L', (int64_t)m, ROWS, full, (int64_t)m, right, (int64_t)m,
                     &info, NULL, 0));
    assert_int_equal(info, 0);
    for (size_t j = 0; j < m; j++)
        for (size_t i = 0; i < ROWS; i++)
            g->w[i + j * ROWS] = right[j + i * m];
    matcov_backend(be)->close(c);
    matcov_free(mc);
    free(ctm), free(right), free(full);
}

static void finish(setting *g) {
    free(g->proj), free(g->b0), free(g->w);
    case_profile_free(&g->p);
    case_profile_free(&g->p0);
    sys_free(&g->s);
}

/* (W T - P Ctm + more) W' into y. */
static void residual(const setting *g, const double *triangle, const double *ctm,
                     const double *more, double *y) {
    const size_t m = g->s.m;
    double *z = zeros(ROWS * m);
    memcpy(z, more, ROWS * m * sizeof *z);
    gemm('N', 'N', ROWS, m, m, 1, g->w, triangle, 1, z);
    gemm('N', 'N', ROWS, m, g->s.t, -1, g->proj, ctm, 1, z);
    gemm('N', 'T', ROWS, ROWS, m, 1, z, g->w, 0, y);
    free(z);
}

/* 1/2 W (K - beta K0) - beta/2 B0 */
static double *exact_terms(const setting *g, const matcov *mc, double beta) {
    const sys *s = &g->s;
    double *z = zeros(ROWS * s->m);
    for (int w = 0; w < s->nsensor; w++)
        for (int axis = 0; axis < 2; axis++) {
            const size_t n = (size_t)s->sensors[w].nsub,
                         first = s->sensors[w].first + (size_t)axis * n;
            for (size_t i = 0; i < ROWS; i++) {
                double sum = 0;
                for (size_t k = 0; k < n; k++)
                    sum += g->w[i + (first + k) * ROWS];
                for (size_t k = 0; k < n; k++)
                    z[i + (first + k) * ROWS] = 0.5 * matcov_tiptilt(mc, w) * sum;
            }
        }
    for (size_t i = 0; i < ROWS * s->m; i++)
        z[i] -= 0.5 * beta * g->b0[i];
    return z;
}

static void check(const setting *g, double beta) {
    const sys *s = &g->s;
    double y[ROWS * ROWS], other[ROWS * ROWS], size = 0, bound, *none = zeros(ROWS * s->m);
    matcov *mc;
    case_ok(matcov_prepare(s, &g->p, &mc));
    backend_cov *c = open_model(mc);
    double *t = triangle(s, c, MATCOV_ALL), *ctm = truth_covariance(s, c, true);
    residual(g, t, ctm, none, y);
    matcov_backend(be)->close(c);
    matcov_free(mc);
    free(t), free(ctm);

    case_ok(matcov_prepare_difference(s, &g->p, &g->p0, beta, false, &mc, &bound));
    c = open_model(mc);
    t = triangle(s, c, MATCOV_NOISE);
    double *exact = exact_terms(g, mc, beta);
    matcov_backend(be)->close(c);
    matcov_free(mc);
    case_ok(matcov_prepare_difference(s, &g->p, &g->p0, beta, true, &mc, &bound));
    c = open_model(mc);
    ctm = truth_covariance(s, c, true);
    residual(g, t, ctm, exact, other);
    matcov_backend(be)->close(c);
    matcov_free(mc);

    for (int i = 0; i < ROWS * ROWS; i++)
        size = fmax(size, fabs(y[i]));
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < ROWS; j++) {
            const double a = y[i + j * ROWS] + y[j + i * ROWS],
                         b = other[i + j * ROWS] + other[j + i * ROWS];
            if (!(fabs(a - b) <= 1e-12 * size))
                fail_msg("beta %g: (%d, %d) is %.17g, not %.17g, of %g", beta, i, j, b, a, size);
        }
    free(t), free(ctm), free(exact), free(none);
}

/* Another strength and shape, with wind, layers that agree or not, and one of Kolmogorov's. */
static void test_algebra(void **state) {
    (void)state;
    static const double layers[][5] = {{0, 25, 22, 4, -3},
                                       {4000, 40, 9, 10, 2},
                                       {10000, 25, 5, 20, 8},
                                       {14000, INFINITY, 2, 9, 1}};
    setting g;
    prepare(layers, 4, &g);
    check(&g, matcov_scale(&g.p, &g.p0));
    check(&g, 0);
    check(&g, 1);
    check(&g, -0.7);
    finish(&g);
}

/* The reconstructor's own conditions: only the tip-tilt constants and D+ Ctm0 are left. */
static void test_same_profile(void **state) {
    (void)state;
    setting g;
    sys s;
    profile p;
    case_golden(&s, &p);
    double layers[3][5];
    for (int l = 0; l < 3; l++)
        memcpy(layers[l], (double[]){p.h[l], p.L0[l], p.strength[l], 0, 0}, sizeof layers[l]);
    prepare((const double(*)[5])layers, 3, &g);
    assert_true(matcov_scale(&g.p, &g.p0) == 1);
    check(&g, 1);
    finish(&g);
    case_profile_free(&p);
    sys_free(&s);
}

/* How many times the reconstructor's profile is taken off another one, and what is left then:
 * layers of the same altitude and outer scale alone cancel, whatever their winds. */
static void test_distance(void **state) {
    (void)state;
    static const double now[][5] = {{0, 25, 3, 5, 0}, {4000, 30, 1, 0, 9}},
                        then[][5] = {{0, 25, 1, -7, 2}, {4000, 25, 1, 0, 9}};
    profile p, p0;
    double distance;
    case_profile(2, now, &p);
    case_profile(2, then, &p0);
    assert_true(fabs(matcov_scale(&p, &p0) - 2) <= 1e-15);
    assert_true(fabs(matcov_scale(&p0, &p) - 0.5) <= 1e-15);
    case_ok(matcov_distance(&p, &p0, &distance));
    assert_true(fabs(distance - (1 + 1 + 2)) <= 1e-12);
    case_ok(matcov_distance(&p, &p, &distance));
    assert_true(distance == 0);
    case_profile_free(&p);
    case_profile_free(&p0);
}

/* Cmm of a profile, or of its difference from another one (p0 not NULL). */
static double *covariance(const sys *s, const profile *p, const profile *p0, double *bound) {
    matcov *mc;
    double *a = zeros(s->m * s->m);
    if (p0 != NULL)
        case_ok(matcov_prepare_difference(s, p, p0, 1, false, &mc, bound));
    else
        case_ok(matcov_prepare(s, p, &mc));
    case_ok(matcov_tabulate(mc));
    case_ok(matcov_fill_cmm(mc, 0, s->m, 0, s->m, a, s->m));
    matcov_free(mc);
    return a;
}

/* Differences have subapertures that are dark by less than 0.01, or 8e-5 n^2 of n across, as whole
 * ones: *nout of the *n partly lit ones of sensor 0, in sub; out: which. */
static void count_whole(const sys *s, int *n, int *nout, int *sub, bool *out) {
    const sensor *o = &s->sensors[0];
    const double dark = fmax(0.01, 8e-5 * o->nssp * o->nssp);
    int kept[512], nkept = matcov_outlined(s, o, true, kept);
    *n = matcov_outlined(s, o, false, sub);
    *nout = *n - nkept;
    for (int k = 0, i = 0; k < *n; k++) {
        out[k] = i >= nkept || kept[i] != sub[k];
        i += !out[k];
        assert_true(out[k] == (1 - sys_lit_share(s, o, sub[k]) < dark));
    }
}

/* How many are: of large sensors most. Those of two subapertures across are never whole. */
static void test_count_of_whole(void **state) {
    (void)state;
    static const int nssp[] = {2, 8, 16, 40, 76}, all[] = {4, 24, 52, 96, 212},
                     whole[] = {0, 0, 8, 40, 196};
    for (int i = 0; i < 5; i++) {
        const case_sensor one = {nssp[i], {0, 0}, INFINITY, 1, 0, {0}, 10};
        int n, nout, sub[512];
        bool out[512];
        sys s;
        case_sys(8, 0.14, nssp[i], 1, &one, &s);
        s.sensors[0].gradient = true;
        count_whole(&s, &n, &nout, sub, out);
        print_message("%d across: %d of %d partly lit ones are whole\n", nssp[i], nout, n);
        assert_int_equal(n, all[i]);
        assert_int_equal(nout, whole[i]);
        sys_free(&s);
    }
}

/* Entries of others are those of two profiles. */
static void test_nearly_whole(void **state) {
    (void)state;
    static const case_sensor all[] = {{16, {10, -5}, INFINITY, 1, 0, {0}, 10},
                                      {16, {-30, 12}, 9e4, 1, 0, {0}, 0}};
    static const double now[][5] = {{0, 25, 30, 0, 0}, {8000, 25, 9, 0, 0}},
                        then[][5] = {{0, 25, 20, 0, 0}, {8000, 25, 12, 0, 0}};
    profile p, p0;
    sys s;
    int sub[512], n, nout;
    bool out[512];
    double bound, worst = 0;
    case_sys(8, 0.14, 16, 2, all, &s);
    for (int w = 0; w < 2; w++)
        s.sensors[w].gradient = true;
    case_profile(2, now, &p);
    case_profile(2, then, &p0);
    count_whole(&s, &n, &nout, sub, out);
    bool *left = calloc(s.m, sizeof *left);
    for (int k = 0; k < n; k++)
        for (int w = 0; w < 4; w++)
            left[sub[k] + w * s.sensors[0].nsub] = out[k];
    double *c = covariance(&s, &p, NULL, NULL), *c0 = covariance(&s, &p0, NULL, NULL),
           *d = covariance(&s, &p, &p0, &bound);
    for (size_t j = 0; j < s.m; j++)
        for (size_t i = 0; i < s.m; i++) {
            const double e = fabs(d[i + j * s.m] - (c[i + j * s.m] - c0[i + j * s.m])) / bound;
            if (!(e <= (left[i] || left[j] ? 5e-3 : 1e-12)))
                fail_msg("(%zu, %zu) is off by %.1e of the largest entry", i, j, e);
            worst = fmax(worst, e);
        }
    print_message("nearly whole: errors at most %.1e of the largest entry\n", worst);
    assert_true(worst > 1e-6);
    free(c), free(c0), free(d), free(left);
    case_profile_free(&p);
    case_profile_free(&p0);
    sys_free(&s);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_algebra), cmocka_unit_test(test_distance),
        cmocka_unit_test(test_count_of_whole), cmocka_unit_test(test_nearly_whole),
        cmocka_unit_test(test_same_profile)};
    MPI_Init(&argc, &argv);
    comm_init(MPI_COMM_SELF, &world);
    case_ok(be->open(0, NULL, &ctx));
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    be->close(ctx);
    comm_free(&world);
    MPI_Finalize();
    return failed;
}
