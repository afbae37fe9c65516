/* The report of stages: figures of all ranks together, the same on any number of ranks.
 * ranks: 1 2 3 */
#include "base/comm.h"
#include "base/file.h"
#include "base/progress.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static comm world;

/* The number after "key": in the object of a stage. */
static double number_of(const char *text, const char *stage, const char *key) {
    char word[64];
    snprintf(word, sizeof word, "\"stage\": \"%s\"", stage);
    const char *p = strstr(text, word);
    assert_non_null(p);
    snprintf(word, sizeof word, "\"%s\":", key);
    p = strstr(p, word);
    assert_non_null(p);
    return strtod(p + strlen(word), NULL);
}

static void expect_near(double a, double b) {
    if (!(fabs(a - b) <= 1e-12 * fabs(b)))
        fail_msg("%.17g is not %.17g", a, b);
}

/* Time is the slowest rank's, flops are summed, the share is of the summed dgemm rates, the idle
 * share compares the mean busy time with the slowest; a directory that is not there is the same
 * error on all ranks. */
static void test_figures(void **state) {
    (void)state;
    char dir[] = "/tmp/moao-report-XXXXXX", path[64];
    int n = world.size, r = world.rank;
    report rep = {.dgemm = 5e9, .start = report_now()};
    rep.wall[STAGE_PSF] = 4 + r;
    rep.wait[STAGE_PSF] = 1;
    rep.flops[STAGE_PSF] = 1e9 * (r + 1);
    rep.wall[STAGE_SETUP] = 2;
    if (r == 0)
        assert_non_null(mkdtemp(dir));
    MPI_Bcast(dir, sizeof dir, MPI_CHAR, 0, world.mpi);
    assert_int_equal(report_finish(&world, &rep, dir, r == 0), MOAO_OK);
    if (r == 0) {
        char *text;
        snprintf(path, sizeof path, "%s/run.json", dir);
        assert_int_equal(file_read_text(path, &text), MOAO_OK);
        double rate = 1e9 * n * (n + 1) / 2.0 / (3 + n), slowest = 2 + n, mean = 3 + (n - 1) / 2.0;
        expect_near(number_of(text, "psf", "time_s"), 3 + n);
        expect_near(number_of(text, "psf", "gflops"), rate / 1e9);
        expect_near(number_of(text, "psf", "dgemm_share"), rate / (5e9 * n));
        expect_near(number_of(text, "psf", "idle_share") + 1, (slowest - mean) / slowest + 1);
        expect_near(number_of(text, "total", "time_s"), 5 + n);
        assert_true(number_of(text, "setup", "flop") == 0);
        const char *peak = strstr(text, "\"peak_sum_bytes\":");
        assert_non_null(peak);
        assert_true(strtod(peak + 17, NULL) > 1e5 * n);
        free(text);
        unlink(path);
        rmdir(dir);
    }
    MPI_Barrier(world.mpi);
    assert_int_equal(report_finish(&world, &rep, dir, false), MOAO_IO);
    assert_non_null(strstr(status_message(), dir));
    status_clear();
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int failed = comm_init(MPI_COMM_WORLD, &world) != MOAO_OK;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_figures)};
    if (!failed)
        failed = cmocka_run_group_tests(tests, NULL, NULL);
    MPI_Finalize();
    return failed;
}
