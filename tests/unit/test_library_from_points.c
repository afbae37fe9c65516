/* Matrices of covariances from kernels that are data (moao/from_points.h): entries against closed
 * forms, HSS, H2 and tile low-rank matrices against their sums, what is refused. */
#include "moao/from_points.h"
#include "support/hier_case.h"

enum { COUNT = 500 };

/* exp(-t) times a polynomial: Matern of nu = 7/2, which the library takes from a table. */
static double seven_halves(double t) {
    return (1 + t + 2 * t * t / 5 + t * t * t / 15) * exp(-t);
}

static double closed_form(const gp_kernel *k, double d) {
    const double t = sqrt(2 * k->shape) * d;
    if (k->family == MOAO_GP_SQUARED_EXPONENTIAL)
        return exp(-d * d / 2);
    if (k->family == MOAO_GP_POWERED_EXPONENTIAL)
        return exp(-pow(d, k->shape));
    return k->shape == 0.5   ? exp(-t)
           : k->shape == 1.5 ? (1 + t) * exp(-t)
           : k->shape == 2.5 ? (1 + t + t * t / 3) * exp(-t)
                             : seven_halves(t);
}

static double covariance(const gp_kernel *k, int dim, const double *at, int64_t i, int64_t j) {
    double square = 0;
    for (int d = 0; d < dim; d++)
        square += pow((at[dim * i + d] - at[dim * j + d]) / k->length[k->length[1] > 0 ? d : 0], 2);
    return k->variance * closed_form(k, sqrt(square)) + (i == j ? k->nugget : 0);
}

/* n points in a box, at random. */
static double *cloud(int dim, int64_t n) {
    double *at = malloc(sizeof *at * (size_t)(dim * n));
    float v[4];
    for (int64_t e = 0; e < dim * n; e++) {
        backend_random(5, e / 4, 0, v);
        at[e] = 2 * v[e % 4];
    }
    return at;
}

static const gp_kernel kernels[] = {
    {MOAO_GP_MATERN, 2, {0.7, 1.1, 1.9}, 0.5, 0.25},
    {MOAO_GP_MATERN, 1.5, {0.9}, 1.5, 0},
    {MOAO_GP_MATERN, 1, {1.2, 0.8, 0.9}, 2.5, 0.5},
    {MOAO_GP_MATERN, 3, {0.8, 1.3, 1}, 3.5, 0.125},
    {MOAO_GP_SQUARED_EXPONENTIAL, 1, {0.6}, 0, 0.5},
    {MOAO_GP_POWERED_EXPONENTIAL, 2, {1, 0.5, 0.7}, 1.3, 0.25},
    {MOAO_GP_POWERED_EXPONENTIAL, 1, {0.75}, 1, 0.5},
};
enum { KERNELS = sizeof kernels / sizeof *kernels };

/* Every entry of a block that crosses the diagonal, in both types, in 1 to 3 dimensions. */
static void entries(void **state) {
    enum { N = 40, I0 = 3, NI = 20, J0 = 11, NJ = 17, LD = 23 };
    (void)state;
    for (int c = 0; c < KERNELS * 6; c++) {
        const gp_kernel *k = kernels + c % KERNELS;
        const int dim = 1 + c / KERNELS % 3;
        const backend_type t = c / KERNELS / 3 ? BACKEND_S : BACKEND_D;
        double *at = cloud(dim, N), host[LD * NJ], worst = 0;
        void *p = poison(sizeof host);
        hier_source s;
        must(moao_hier_kernel_open(be, ctx, k, dim, N, at, &s));
        assert_true(s.symmetric && s.rows == N && s.dim == dim);
        must(s.block(s.from, ctx, t, I0, NI, J0, NJ, p, LD));
        to_host(host, p, sizeof host);
        for (int j = 0; j < NJ; j++)
            for (int i = 0; i < NI; i++)
                worst = fmax(worst, fabs(number(t, host, i + j * LD) -
                                         covariance(k, dim, at, I0 + i, J0 + j)));
        if (!(worst < (t == BACKEND_D ? 2e-13 : 1e-6)))
            fail_msg("kernel %d in %d dimensions, type %d: off by %.1e", c % KERNELS, dim, (int)t,
                     worst);
        moao_hier_points_close(&s);
        be->release(ctx, p), free(at);
    }
}

/* Largest |(A x - y)_i| of the exact matrix, rows in the order given (NULL: as they are). */
static double off(const gp_kernel *k, int dim, const double *at, int64_t n, const int64_t *order,
                  const double *x, const double *y) {
    double worst = 0;
    for (int64_t i = 0; i < n; i++) {
        double sum = -y[i];
        for (int64_t j = 0; j < n; j++)
            sum += covariance(k, dim, at, order ? order[i] : i, order ? order[j] : j) * x[j];
        worst = fmax(worst, fabs(sum));
    }
    return worst;
}

static void formats(void **state) {
    (void)state;
    for (int c = 0; c < KERNELS; c++) {
        const bool h2 = c % 2; /* two dimensions; HSS in one */
        const int dim = h2 ? 2 : 1;
        const gp_kernel *k = kernels + c;
        const hier_options o = {.tol = 1e-8, .lean = true};
        double *at = cloud(dim, COUNT), x[COUNT], y[COUNT];
        hier_info info;
        format *f;
        must((h2 ? moao_h2_from_points : moao_hss_from_points)(be, ctx, k, dim, COUNT, at, &o, &f));
        hier_describe(f, &info);
        assert_int_equal(info.kind, h2 ? HIER_H2 : HIER_HSS);
        for (int i = 0; i < COUNT; i++)
            x[i] = sin(i);
        const size_t lwork = hier_workspace(f, 'L', 1);
        void *dx = device_copy(x, sizeof x), *dy = poison(sizeof y), *work = poison(lwork);
        must(hier_apply(f, 'L', 'N', 'A', 1, 1, dx, COUNT, 0, dy, COUNT, work, lwork));
        to_host(y, dy, sizeof y);
        assert_true(off(k, dim, at, COUNT, info.order, x, y) < 1e-6 * COUNT);
        if (!h2 && k->nugget > 0) { /* the nugget is on the diagonal: no shift */
            must(hier_factor(f, 0));
            const size_t lsolve = hier_solve_workspace(f, 1);
            void *room = poison(lsolve);
            must(hier_solve(f, 'N', 1, dx, COUNT, room, lsolve));
            to_host(y, dx, sizeof y);
            assert_true(off(k, dim, at, COUNT, info.order, y, x) < 1e-5);
            be->release(ctx, room);
        }
        be->release(ctx, dx), be->release(ctx, dy), be->release(ctx, work);
        hier_close(f), free(at);
    }
}

static void tiles(void **state) {
    const gp_kernel *k = kernels + 3;
    double *at = cloud(2, COUNT), x[COUNT], y[COUNT];
    const tlr_options o = {.tau = 1e-7, .cut = -1};
    tlr_layout l;
    tlr *a;
    (void)state;
    must(tlr_layout_cloud(2, COUNT, at, 32, &l));
    must(moao_tlr_from_points(be, ctx, &l, k, 2, at, &o, &a));
    for (int i = 0; i < COUNT; i++)
        x[i] = cos(i);
    void *dx = device_copy(x, sizeof x), *dy = poison(sizeof y);
    must(tlr_apply(a, 'L', 'N', 1, 1, dx, COUNT, 0, dy, COUNT));
    to_host(y, dy, sizeof y);
    assert_true(off(k, 2, at, COUNT, l.perm, x, y) < 1e-4);
    be->release(ctx, dx), be->release(ctx, dy);
    tlr_close(a), tlr_layout_free(&l), free(at);
}

static void refused(const gp_kernel *k, int dim, int64_t n, const double *at, const char *text) {
    hier_source s;
    format *f = (format *)&s;
    assert_int_equal(moao_hier_kernel_open(be, ctx, k, dim, n, at, &s), MOAO_INPUT);
    assert_null(s.from);
    if (strstr(status_message(), text) == NULL)
        fail_msg("\"%s\" without \"%s\"", status_message(), text);
    status_clear();
    assert_int_equal(moao_h2_from_points(be, ctx, k, dim, n, at, &(hier_options){.tol = 1}, &f),
                     MOAO_INPUT);
    assert_null(f);
    status_clear();
}

static void bad(void **state) {
    const double at[] = {0, 1, 2, NAN};
    gp_kernel k = kernels[0];
    (void)state;
    refused(&k, 2, 2, at, "coordinate 1 of point 1 is nan");
    refused(&k, 4, 1, at, "4 dimensions");
    refused(&k, 1, -1, at, "-1 points");
    k.shape = 99;
    refused(&k, 1, 2, at, "shape (nu of Matern) is 99");
    k = kernels[5], k.length[0] = 0;
    refused(&k, 1, 2, at, "length[0] is 0");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(entries), cmocka_unit_test(formats),
                                       cmocka_unit_test(tiles), cmocka_unit_test(bad)};
    return RUN_ON_BACKENDS(tests);
}
