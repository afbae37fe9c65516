/* Covariances prepared by several ranks together: the same as by one alone, and errors are
 * replicated. ranks: 1 2 3 */
#include "support/matcov_case.h"

#include <mpi.h>

static comm world, self;

static const case_sensor sensors[] = {
    {9, {10, 0}, 9e4, 1, 0, {0}, 0},       {9, {-10, 3}, 9e4, 1, 0, {0}, 0},
    {9, {0, 9}, 9e4, 1, 0.1, {0}, 0},      {9, {0, 5}, INFINITY, 1, 0, {0}, 9},
    {6, {7, 5}, INFINITY, 1, 0, {0}, 9.5}, {9, {7, -5}, INFINITY, 1, 0, {0}, 9}};
static const double layer[2][5] = {{0, 25, 30, 3, 4}, {9000, INFINITY, 8, -9, 1}};

/* Cmm and a target's Ctm by all ranks equal bit for bit, on every rank, those that the rank makes
 * by itself: tables that were computed elsewhere came over whole and to their places. */
static void test_same_as_alone(void **state) {
    (void)state;
    sys s;
    profile p;
    case_sys(9, 0.3, 9, 6, sensors, &s);
    case_profile(2, layer, &p);
    double *cmm[2], *ctm[2];
    for (int alone = 0; alone < 2; alone++) {
        matcov *mc;
        matcov_target *mt;
        cmm[alone] = calloc(s.m * s.m, sizeof(double));
        ctm[alone] = calloc(s.t * s.m, sizeof(double));
        case_ok(matcov_init(alone ? &self : &world, &s, &p, &mc));
        case_ok(matcov_fill_cmm(mc, 0, s.m, 0, s.m, cmm[alone], s.m));
        case_ok(matcov_target_init(mc, (double[2]){3e-5, -1e-5}, true, &mt));
        case_ok(matcov_fill_ctm(mt, 0, s.m, ctm[alone], s.t));
        matcov_target_free(mt);
        matcov_free(mc);
    }
    assert_true(cmm[0][s.m] != 0);
    assert_memory_equal(cmm[0], cmm[1], s.m * s.m * sizeof(double));
    assert_memory_equal(ctm[0], ctm[1], s.t * s.m * sizeof(double));
    for (int alone = 0; alone < 2; alone++) {
        free(cmm[alone]);
        free(ctm[alone]);
    }
    case_profile_free(&p);
    sys_free(&s);
}

/* When the last rank fails, every rank gets its error and no object. */
static void test_fault(void **state) {
    (void)state;
    sys s;
    profile p;
    matcov *mc;
    char fault[64];
    case_sys(9, 0.3, 9, 6, sensors, &s);
    case_profile(2, layer, &p);
    snprintf(fault, sizeof fault, "matcov:%d", world.size - 1);
    setenv("MOAO_FAULT", fault, 1);
    assert_int_equal(matcov_init(&world, &s, &p, &mc), MOAO_INTERNAL);
    unsetenv("MOAO_FAULT");
    assert_null(mc);
    assert_non_null(strstr(status_message(), "injected fault"));
    status_clear();
    case_profile_free(&p);
    sys_free(&s);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_as_alone),
                                       cmocka_unit_test(test_fault)};
    MPI_Init(&argc, &argv);
    comm_init(MPI_COMM_WORLD, &world);
    comm_init(MPI_COMM_SELF, &self);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    comm_free(&self);
    comm_free(&world);
    MPI_Finalize();
    return failed;
}
