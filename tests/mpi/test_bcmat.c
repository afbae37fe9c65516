/* ranks: 1 2 3 4 6
 * The block-cyclic matrix: filling, panels and the Cholesky factorisation give on every grid what
 * LAPACK gives on the whole matrix; a matrix that is not positive definite, or holds a NaN, is
 * reported with its minor. */
#include "factor/bcmat.h"
#include "factor/scalapack.h"

#include <float.h>
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

/* A covariance that anybody can evaluate: exp(-|i-j|/9) + delta; `bad` spoils one diagonal element.
 */
typedef struct {
    long bad;
    double value;
} model;

static double entry(const model *k, size_t i, size_t j) {
    if (i == j && (long)i == k->bad)
        return k->value;
    return exp(-fabs((double)i - (double)j) / 9) + (i == j);
}

static status fill(void *ctx, size_t i0, size_t ni, size_t j0, size_t nj, double *a, size_t ld) {
    for (size_t j = 0; j < nj; j++)
        for (size_t i = 0; i < ni; i++)
            a[i + j * ld] = entry(ctx, i0 + i, j0 + j);
    return MOAO_OK;
}

static void each_grid(void (*body)(int n, int nb, int nprow, int npcol)) {
    static const int order[] = {1, 7, 33, 64, 100, 257};
    for (int nprow = 1; nprow <= world.size; nprow++)
        for (size_t k = 0; world.size % nprow == 0 && k < sizeof order / sizeof *order; k++) {
            body(order[k], 32, nprow, world.size / nprow);
            body(order[k], 5, nprow, world.size / nprow);
        }
}

/* Every panel of the filled matrix holds the lower triangle's entries. */
static void panels_of(int n, int nb, int nprow, int npcol) {
    model k = {.bad = -1};
    bcmat m;
    assert_int_equal(bcmat_init(&world, n, nb, nprow, npcol, &m), MOAO_OK);
    assert_int_equal(bcmat_fill(&m, fill, &k), MOAO_OK);
    size_t width = 3 * (size_t)nb;
    double *work = malloc((bcmat_panel_work(n, nb, nprow, npcol, width) + 1) * sizeof *work);
    for (size_t j0 = 0; j0 < (size_t)n; j0 += width) {
        size_t w = (size_t)n - j0 < width ? (size_t)n - j0 : width, ld;
        const double *p;
        assert_int_equal(bcmat_panel(&m, j0, w, work, &p, &ld), MOAO_OK);
        for (size_t j = 0; j < w; j++)
            for (size_t i = j; i < (size_t)n - j0; i++)
                assert_true(p[i + j * ld] == entry(&k, j0 + i, j0 + j));
    }
    free(work);
    bcmat_free(&m);
    bcmat_free(&m);
}

static void test_panels(void **state) {
    (void)state;
    each_grid(panels_of);
}

/* The factor equals LAPACK's to a few eps. */
static void factor_of(int n, int nb, int nprow, int npcol) {
    model k = {.bad = -1};
    bcmat m;
    int minor, info;
    size_t nn = (size_t)n, ld;
    double *whole = malloc(nn * nn * sizeof *whole);
    double *work = malloc((bcmat_panel_work(n, nb, nprow, npcol, nn) + 1) * sizeof *work);
    const double *l;
    assert_int_equal(bcmat_init(&world, n, nb, nprow, npcol, &m), MOAO_OK);
    assert_int_equal(bcmat_fill(&m, fill, &k), MOAO_OK);
    assert_int_equal(bcmat_cholesky(&m, &minor), MOAO_OK);
    assert_int_equal(minor, 0);
    fill(&k, 0, nn, 0, nn, whole, nn);
    dpotrf_("L", &n, whole, &n, &info);
    assert_int_equal(info, 0);
    assert_int_equal(bcmat_panel(&m, 0, nn, work, &l, &ld), MOAO_OK);
    double worst = 0;
    for (size_t j = 0; j < nn; j++)
        for (size_t i = j; i < nn; i++)
            worst = fmax(worst, fabs(l[i + j * ld] - whole[i + j * nn]));
    assert_true(worst <= 20 * DBL_EPSILON);
    free(whole);
    free(work);
    bcmat_free(&m);
}

static void test_cholesky(void **state) {
    (void)state;
    each_grid(factor_of);
}

/* A diagonal element that is negative or not a number: the minor that it closes is named on every
 * rank. */
static void not_definite(int n, int nb, int nprow, int npcol) {
    for (int nan = 0; nan < 2; nan++) {
        model k = {.bad = n / 2, .value = nan ? NAN : -1};
        bcmat m;
        int minor;
        assert_int_equal(bcmat_init(&world, n, nb, nprow, npcol, &m), MOAO_OK);
        assert_int_equal(bcmat_fill(&m, fill, &k), MOAO_OK);
        assert_int_equal(bcmat_cholesky(&m, &minor), MOAO_NUMERIC);
        if (!nan)
            assert_int_equal(minor, n / 2 + 1);
        assert_true(minor > 0);
        status_clear();
        bcmat_free(&m);
    }
}

static void test_not_definite(void **state) {
    (void)state;
    each_grid(not_definite);
}

/* An injected fault on one rank is every rank's status, with that rank's message. */
static void test_agreement(void **state) {
    (void)state;
    char spec[32];
    for (int r = 0; r < world.size; r++) {
        snprintf(spec, sizeof spec, "factor:%d", r);
        setenv("MOAO_FAULT", spec, 1);
        model k = {.bad = -1};
        bcmat m;
        int minor;
        assert_int_equal(bcmat_init(&world, 40, 8, 1, world.size, &m), MOAO_OK);
        assert_int_equal(bcmat_fill(&m, fill, &k), MOAO_OK);
        assert_int_equal(bcmat_cholesky(&m, &minor), MOAO_INTERNAL);
        unsetenv("MOAO_FAULT");
        snprintf(spec, sizeof spec, "rank %d: ", r);
        assert_true(world.size == 1 || strncmp(status_message(), spec, strlen(spec)) == 0);
        status_clear();
        bcmat_free(&m);
    }
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    if (comm_init(MPI_COMM_WORLD, &world) != MOAO_OK)
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_panels), cmocka_unit_test(test_cholesky),
        cmocka_unit_test(test_not_definite), cmocka_unit_test(test_agreement)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    MPI_Finalize();
    return failed;
}
