/* ranks: 1 3
 * The command matrix D+ keeps the low orders within 1 % at every size, removes piston, and is the
 * same on every number of ranks; the inverse that stands beside it, and when that is used. */
#include "matcov/matcov.h"
#include "tor/command.h"
#include "tor/command_internal.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static comm world;

static void dm_of(int nssp, sys *s) {
    memset(s, 0, sizeof *s);
    s->diameter = 0.5 * nssp;
    s->obs = 0.2;
    s->ts.nssp = s->dm.nssp = nssp;
    s->ts.altitude = INFINITY;
    s->ts.mag = 1;
    s->dm.coupling = 0.2;
    s->dm.mu = 3e-3;
    assert_int_equal(sys_derive(s), MOAO_OK);
}

/* Low-order mode i at actuator k, without mean. */
static void mode(const sys *s, int i, double *a) {
    const int v = s->dm.nact, n1 = s->dm.nssp + 1;
    double mean = 0;
    for (int k = 0; k < v; k++) {
        double x = 2.0 * (s->dm.act[k] % n1) / s->dm.nssp - 1,
               y = 2.0 * (s->dm.act[k] / n1) / s->dm.nssp - 1;
        const double value[5] = {x, y, x * x + y * y, x * x - y * y, 2 * x * y};
        a[k] = value[i];
        mean += a[k] / v;
    }
    for (int k = 0; k < v; k++)
        a[k] -= mean;
}

/* y = D+ D a */
static void project(const sys *s, const double *d, const double *dplus, const double *a,
                    double *y) {
    const size_t t = s->t, v = (size_t)s->dm.nact;
    double *slopes = calloc(t, sizeof *slopes);
    memset(y, 0, v * sizeof *y);
    for (size_t j = 0; j < v; j++)
        for (size_t i = 0; i < t; i++)
            slopes[i] += d[i + j * t] * a[j];
    for (size_t j = 0; j < t; j++)
        for (size_t i = 0; i < v; i++)
            y[i] += dplus[i + j * v] * slopes[j];
    free(slopes);
}

static void test_low_orders(void **state) {
    (void)state;
    static const int sizes[] = {7, 10, 20, 40};
    for (size_t n = 0; n < sizeof sizes / sizeof *sizes; n++) {
        sys s;
        dm_of(sizes[n], &s);
        const size_t v = (size_t)s.dm.nact;
        double *d = calloc(s.t * v, sizeof *d), *dplus = calloc(s.t * v, sizeof *dplus);
        double *a = calloc(v, sizeof *a), *y = calloc(v, sizeof *y);
        assert_int_equal(matcov_fill_interaction(&s, d, s.t), MOAO_OK);
        assert_int_equal(command_init(&world, &s, dplus, NULL), MOAO_OK);
        for (int i = 0; i < 5; i++) {
            double error = 0, norm = 0;
            mode(&s, i, a);
            project(&s, d, dplus, a, y);
            for (size_t k = 0; k < v; k++) {
                error += (y[k] - a[k]) * (y[k] - a[k]);
                norm += a[k] * a[k];
            }
            assert_true(sqrt(error) <= 0.01 * sqrt(norm));
        }
        for (size_t j = 0; j < s.t; j++) {
            double sum = 0, most = 0;
            for (size_t i = 0; i < v; i++) {
                sum += dplus[i + j * v];
                most = fmax(most, fabs(dplus[i + j * v]));
            }
            assert_true(fabs(sum) <= 1e-12 * most * (double)v);
        }
        free(d);
        free(dplus);
        free(a);
        free(y);
        sys_free(&s);
    }
}

static void test_ranks_agree(void **state) {
    (void)state;
    sys s;
    comm self;
    dm_of(17, &s);
    const size_t n = s.t * (size_t)s.dm.nact;
    double *all = calloc(n, sizeof *all), *one = calloc(n, sizeof *one), most = 0, worst = 0;
    assert_int_equal(comm_init(MPI_COMM_SELF, &self), MOAO_OK);
    comm_set_threads(&self, world.threads);
    assert_int_equal(command_init(&world, &s, all, NULL), MOAO_OK);
    assert_int_equal(command_init(&self, &s, one, NULL), MOAO_OK);
    for (size_t i = 0; i < n; i++) {
        worst = fmax(worst, fabs(all[i] - one[i]));
        most = fmax(most, fabs(one[i]));
    }
    assert_true(worst <= 1e-12 * most && most > 0);
    free(all);
    free(one);
    sys_free(&s);
}

/* What a device made, of a mirror for which it stands. */
static void same_of_device(const sys *s, const double *dplus, const command_inverse *inverse) {
    const size_t v = (size_t)s->dm.nact, n = s->t * v;
    command_inverse own = {.h = calloc(v * v, sizeof(double))};
    double *made = calloc(n, sizeof *made), worst = 0, most = 0;
    assert_int_equal(command_init_device(&world, s, &backend_cpu, made, &own), MOAO_OK);
    for (size_t i = 0; i < n; i++) {
        worst = fmax(worst, fabs(made[i] - dplus[i]));
        most = fmax(most, fabs(dplus[i]));
    }
    assert_true(worst <= 1e-12 * most);
    worst = most = 0;
    for (size_t i = 0; i < v * v; i++) {
        worst = fmax(worst, fabs(own.h[i] - inverse->h[i]));
        most = fmax(most, fabs(inverse->h[i]));
    }
    assert_true(worst <= 1e-12 * most);
    assert_true(fabs(own.condition - inverse->condition) <= 1e-6 * inverse->condition);
    free(own.h);
    free(made);
}

/* H D' is D+; H of a mirror without regularisation is not trusted. */
static void test_inverse(void **state) {
    (void)state;
    static const struct {
        int nssp;
        double coupling, mu;
        bool gradient, exact;
    } of[] = {
        {7, 0.2, 3e-3, false, true}, {20, 0.3, 3e-3, true, true}, {12, 0.2, 1e-12, true, false}};
    for (size_t k = 0; k < sizeof of / sizeof *of; k++) {
        sys s;
        backend_filter f;
        command_inverse inverse;
        dm_of(of[k].nssp, &s);
        s.dm.coupling = of[k].coupling;
        s.dm.mu = of[k].mu;
        s.ts.gradient = of[k].gradient;
        const size_t v = (size_t)s.dm.nact;
        double *d = calloc(s.t * v, sizeof *d), *dplus = calloc(s.t * v, sizeof *d), worst = 0,
               most = 0;
        inverse.h = calloc(v * v, sizeof *inverse.h);
        assert_int_equal(matcov_fill_interaction(&s, d, s.t), MOAO_OK);
        assert_int_equal(matcov_interaction_filter(&s, &f), MOAO_OK);
        assert_int_equal(command_init(&world, &s, dplus, &inverse), MOAO_OK);
        assert_int_equal(command_exact(&inverse), of[k].exact);
        assert_true(inverse.condition > 10 && f.reach > 0);
        for (size_t j = 0; of[k].exact && j < s.t; j++)
            for (size_t i = 0; i < v; i++) {
                double sum = 0;
                for (size_t l = 0; l < v; l++)
                    sum += inverse.h[i + l * v] * d[j + l * s.t];
                worst = fmax(worst, fabs(sum - dplus[i + j * v]));
                most = fmax(most, fabs(dplus[i + j * v]));
            }
        assert_true(worst <= 1e-12 * most);
        if (of[k].exact)
            same_of_device(&s, dplus, &inverse);
        free(d);
        free(dplus);
        free(inverse.h);
        sys_free(&s);
    }
}

/* 1-norm of an n x n matrix. */
static double norm_of(const double *a, size_t n) {
    double most = 0;
    for (size_t j = 0; j < n; j++) {
        double sum = 0;
        for (size_t i = 0; i < n; i++)
            sum += fabs(a[i + j * n]);
        most = fmax(most, sum);
    }
    return most;
}

/* The inverse of a positive definite matrix, by Gauss and Jordan. */
static void invert(double *a, size_t n) {
    for (size_t k = 0; k < n; k++) {
        const double pivot = a[k + k * n];
        a[k + k * n] = 1;
        for (size_t j = 0; j < n; j++)
            a[k + j * n] /= pivot;
        for (size_t i = 0; i < n; i++) {
            const double factor = a[i + k * n];
            if (i == k)
                continue;
            a[i + k * n] = 0;
            for (size_t j = 0; j < n; j++)
                a[i + j * n] -= factor * a[k + j * n];
        }
    }
}

/* The condition number of M = D'D + regularisation, in the 1-norm, of all of M and of its inverse
 * made here. */
static void test_condition(void **state) {
    (void)state;
    for (int nssp = 5; nssp < 10; nssp += 2) {
        sys s;
        dm_of(nssp, &s);
        const size_t v = (size_t)s.dm.nact;
        command_inverse inverse = {.h = calloc(v * v, sizeof(double))};
        double *d = calloc(s.t * v, sizeof *d), *m = calloc(v * v, sizeof *m),
               *dplus = calloc(s.t * v, sizeof *dplus), norm;
        assert_int_equal(matcov_fill_interaction(&s, d, s.t), MOAO_OK);
        assert_int_equal(command_regularise(&s, m), MOAO_OK);
        for (size_t j = 0; j < v; j++)
            for (size_t i = j; i < v; i++) {
                for (size_t k = 0; k < s.t; k++)
                    m[i + j * v] += d[k + i * s.t] * d[k + j * s.t];
                m[j + i * v] = i > j ? NAN : m[j + i * v]; /* the lower triangle is read */
            }
        assert_int_equal(command_norm(&s, m, &norm), MOAO_OK);
        for (size_t j = 0; j < v; j++)
            for (size_t i = 0; i < j; i++)
                m[i + j * v] = m[j + i * v];
        const double all = norm_of(m, v);
        assert_true(fabs(norm - all) <= 1e-12 * all);
        invert(m, v);
        const double want = all * norm_of(m, v);
        assert_int_equal(command_init(&world, &s, dplus, &inverse), MOAO_OK);
        if (!(fabs(inverse.condition - want) <= 1e-9 * want))
            fail_msg("%d subapertures: condition %g, not %g", nssp, inverse.condition, want);
        same_of_device(&s, dplus, &inverse);
        free(inverse.h);
        free(d);
        free(m);
        free(dplus);
        sys_free(&s);
    }
}

/* What is asked for, where there is a filter; else the matrix for small mirrors. */
static void test_ways(void **state) {
    (void)state;
    sys small, large, full;
    dm_of(10, &small);
    dm_of(30, &large);
    dm_of(40, &full);
    unsetenv("MOAO_TEST_PROJECTION");
    assert_int_equal(command_choose(&small, true), COMMAND_MATRIX);
    assert_int_equal(command_choose(&large, true), COMMAND_RAW);
    assert_int_equal(command_choose(&large, false), COMMAND_MATRIX);
    assert_int_equal(command_choose(&full, false), COMMAND_RAW);
    setenv("MOAO_TEST_PROJECTION", "filter", 1);
    assert_int_equal(command_choose(&small, false), COMMAND_FILTER);
    setenv("MOAO_TEST_PROJECTION", "matrix", 1);
    assert_int_equal(command_choose(&large, true), COMMAND_MATRIX);
    setenv("MOAO_TEST_PROJECTION", "raw", 1);
    large.dm.coupling = 0.9;
    assert_int_equal(command_choose(&large, true), COMMAND_MATRIX);
    unsetenv("MOAO_TEST_PROJECTION");
    sys_free(&small);
    sys_free(&large);
    sys_free(&full);
}

/* D+ alone; with H; with what V comes to, but for the residual phase. */
static void test_bytes(void **state) {
    (void)state;
    assert_int_equal(command_bytes(3, 10, COMMAND_MATRIX, false), 30 * sizeof(double));
    assert_int_equal(command_bytes(3, 10, COMMAND_FILTER, false), 39 * sizeof(double));
    assert_int_equal(command_bytes(3, 10, COMMAND_RAW, false), 48 * sizeof(double));
    assert_int_equal(command_bytes(3, 10, COMMAND_RAW, true), 39 * sizeof(double));
    assert_int_equal(command_panel_rows(3, 10, COMMAND_MATRIX), 10);
    assert_int_equal(command_panel_rows(3, 10, COMMAND_RAW), 13);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    if (comm_init(MPI_COMM_WORLD, &world) != MOAO_OK)
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_low_orders), cmocka_unit_test(test_ranks_agree),
        cmocka_unit_test(test_inverse),    cmocka_unit_test(test_condition),
        cmocka_unit_test(test_ways),       cmocka_unit_test(test_bytes)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    MPI_Finalize();
    return failed;
}
