/* ranks: 1 2
 * Reconstructors of as many targets as memory has room for: fewer at a time where it ends, and W is
 * the same. */
#include "support/matcov_case.h"
#include "tor/command.h"
#include "tor/tor.h"

#include <mpi.h>

enum { TARGETS = 8 };

static comm world;
static sys s;
static profile p;
static double *dplus;

/* The backend with arrays of a limited size. */
static size_t limit;
static status limited_alloc(backend_ctx *ctx, size_t bytes, void **to) {
    return bytes > limit ? status_fail(MOAO_MEMORY, "no array of %zu bytes", bytes)
                         : backend_cpu.alloc(ctx, bytes, to);
}

/* Opens t for targets on all ranks, with room for `fit` of them on each; MOAO_MEMORY: for none. */
static status open_tor(const backend *be, report *rep, int fit, tor *t, int *chunk) {
    const int v = s.dm.nact;
    static plan plan;
    plan = (struct plan){.pair = linop_find("dense"),
                         .be = be,
                         .devices = true,
                         .rows = v,
                         .largest = &p,
                         .width = 64,
                         .nrank = world.size,
                         .block = 32,
                         .grid = {1, world.size},
                         .group_size = 1,
                         .chunk = TARGETS,
                         .most = (TARGETS + world.size - 1) / world.size,
                         .fits = TARGETS,
                         .sharing = 1,
                         .nsample = 4};
    limit = SIZE_MAX;
    case_ok(tor_open(&world, &s, rep, &plan, &(command_matrix){.p = dplus}, NULL, t));
    limit = ((size_t)fit * s.m * (size_t)v + s.m * (size_t)v / 2) * sizeof(double);
    const status st = tor_take(t, 0, chunk);
    limit = SIZE_MAX;
    return st;
}

/* W of target k, solved with those beside it that there is room for. */
static double *solved(tor *t, int chunk, int k) {
    double residual, *w = calloc(s.m * (size_t)s.dm.nact, sizeof *w);
    const int first = k / chunk * chunk, n = first + chunk < TARGETS ? chunk : TARGETS - first;
    case_ok(tor_solve(t, first, n, &residual));
    assert_true(residual > 0 && residual < 1e-11);
    for (int i = 0; i < t->ch.nmine; i++)
        if (t->ch.mine + i == k) {
            case_ok(engine_copy(&t->e, w, t->w[i], (int64_t)s.m * s.dm.nact));
            case_ok(engine_sync(&t->e));
        }
    comm_sum(&world, w, s.m * (size_t)s.dm.nact);
    return w;
}

/* Of n that fit one is left as room for libraries, where there are two at least. */
static void test_memory(void **state) {
    (void)state;
    backend be = backend_cpu;
    report rep = {.start = report_now()};
    const int most = TARGETS / world.size;
    double *expected = NULL;
    be.alloc = limited_alloc;
    for (int fit = most; fit >= 0; fit--) {
        int chunk;
        tor t;
        const status st = open_tor(&be, &rep, fit, &t, &chunk);
        assert_int_equal(st, fit > 0 ? MOAO_OK : MOAO_MEMORY);
        if (fit > 0) {
            const int some = fit == most ? most : fit > 1 ? fit - 1 : 1;
            assert_int_equal(chunk, some * world.size);
            assert_int_equal(t.nw, some);
            case_ok(tor_factor(&t, &p));
            double *w = solved(&t, chunk, TARGETS - 1);
            if (expected == NULL)
                expected = w;
            else {
                assert_memory_equal(w, expected, s.m * (size_t)s.dm.nact * sizeof *w);
                free(w);
            }
        } else
            assert_non_null(strstr(status_message(), "W of the targets"));
        status_clear();
        tor_close(&t);
    }
    free(expected);
}

/* The last rank has less memory than the others: chunks are what it has room for, on all. */
static void test_least_memory(void **state) {
    (void)state;
    backend be = backend_cpu;
    report rep = {.start = report_now()};
    const int some = 2;
    int chunk;
    tor t;
    be.alloc = limited_alloc;
    case_ok(open_tor(&be, &rep, world.rank == world.size - 1 ? some + 1 : TARGETS, &t, &chunk));
    assert_int_equal(chunk, some * world.size);
    case_ok(tor_factor(&t, &p));
    free(solved(&t, chunk, TARGETS - 1));
    tor_close(&t);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_memory),
                                       cmocka_unit_test(test_least_memory)};
    MPI_Init(&argc, &argv);
    if (comm_init(MPI_COMM_WORLD, &world) != MOAO_OK)
        return 1;
    static const case_sensor stars[] = {{5, {30, 5}, INFINITY, 1, 0, {0}, 11},
                                        {4, {-25, 22}, INFINITY, 1, 0, {0}, 12}};
    static const double layer[2][5] = {{0, 25, 12, 8, 3}, {5000, 25, 6, -9, 10}};
    case_sys(4, 0.2, 6, 2, stars, &s);
    case_profile(2, layer, &p);
    s.ntarget = TARGETS;
    case_ok(ALLOC(s.targets, TARGETS, "targets"));
    for (int k = 0; k < TARGETS; k++)
        s.targets[k][0] = CASE_ARCSEC(3.0 * k), s.targets[k][1] = CASE_ARCSEC(20 - 4.0 * k);
    dplus = calloc((size_t)s.dm.nact * s.t, sizeof *dplus);
    case_ok(command_init(&world, &s, dplus, NULL));
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(dplus);
    case_profile_free(&p);
    sys_free(&s);
    comm_free(&world);
    MPI_Finalize();
    return failed;
}
