/* ranks: 1 2
 * timeout: 300
 * Systems with fewer measurements than actuators, and the smallest ones, in every format on the CPU
 * and on the road of devices (of a GPU where MOAO_TEST_BACKEND names it): Strehl ratios are those
 * of the dense format, and no operand ends beyond its array (MOAO_CHECK_MEMORY; the sanitizers see
 * the rest). */
#include "job/run.h"

#include <fitsio.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MOST 8

static comm world;
static char folder[64] = "/tmp/moao-small-XXXXXX";
static const char *const by_area = "gradient", *const by_points = "points";
static const char *slope;

/* 2 targets, 1 profile, 1 sensor; a second one where `sensors` is 2. */
static void write_case(const char *path) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs("telescope: {diameter: 4 m}\n"
          "targets: {list: [[0, 0], [10, 5]]}\n"
          "atmosphere: {profiles: [{time: 0, r0: 12 cm, layers: {altitude: [0, 5 km], "
          "fraction: [0.6, 0.4]}}]}\n"
          "schedule: {tor_times: [0], exposure_times: [0]}\n"
          "psf: {wavelengths: [2.2 um], oversampling: 2}\n"
          "output: {psf: none}\n",
          f);
    assert_int_equal(fclose(f), 0);
}

static int read_strehl(const char *out, float *strehl) {
    char path[160];
    fitsfile *f = NULL;
    int bad = 0, column = 0, type = 0;
    long repeat = 0, width = 0, rows = 0;
    snprintf(path, sizeof path, "%s/maps.fits", out);
    fits_open_file(&f, path, READONLY, &bad);
    fits_movnam_hdu(f, BINARY_TBL, "TARGETS", 0, &bad);
    fits_get_num_rows(f, &rows, &bad);
    fits_get_colnum(f, CASEINSEN, "STREHL", &column, &bad);
    fits_get_coltype(f, column, &type, &repeat, &width, &bad);
    assert_true(bad == 0 && rows * repeat > 0 && rows * repeat <= MOST);
    fits_read_col(f, TFLOAT, column, 1, 1, rows * repeat, NULL, strehl, NULL, &bad);
    fits_close_file(f, &bad);
    assert_int_equal(bad, 0);
    return (int)(rows * repeat);
}

/* Strehl ratios of a run, on rank 0; how many. */
static int run_case(int sensors, int nssp, int mirror, const char *format, float *strehl) {
    char file[96], out[96], dm[32], list[256];
    cmdline cl = {0};
    snprintf(file, sizeof file, "%s/t.yaml", folder);
    snprintf(out, sizeof out, "%s/out", folder);
    snprintf(dm, sizeof dm, "dm.nssp=%d", mirror);
    snprintf(list, sizeof list,
             "sensors=[{type: ngs, nssp: %d, direction: [20, 10], magnitude: 10, slope: %s}%s]",
             nssp, nssp > 1 ? slope : "gradient",
             sensors > 1 ? ", {type: lgs, nssp: 3, direction: [-20, 10], altitude: 90 km}" : "");
    char word[64], *argv[] = {"run", file, dm, list, word, "-o", out, "-q", "--overwrite"};
    snprintf(word, sizeof word, "%s", format);
    assert_int_equal(cmdline_parse(sizeof argv / sizeof *argv, argv, "-o -q --overwrite", &cl),
                     MOAO_OK);
    const double start = MPI_Wtime();
    const status st = run_all(&world, &cl);
    const char *device = getenv("MOAO_TEST_DEVICE");
    if (world.rank == 0)
        print_message("small case %s on %s: %d sensors of %d, mirror of %d, %.2f s\n", format,
                      device != NULL ? device : "none", sensors, nssp, mirror, MPI_Wtime() - start);
    if (st != MOAO_OK)
        print_error("%d sensors of %d, mirror of %d, %s: %s\n", sensors, nssp, mirror, format,
                    status_message());
    assert_int_equal(st, MOAO_OK);
    cmdline_free(&cl);
    return world.rank == 0 ? read_strehl(out, strehl) : 0;
}

/* the last ones on devices alone: without one toeplitz is that of the third, mixed computes by the
 * dense format */
static const char *const formats[] = {"compute.factor=tlr",
                                      "compute.factor=auto",
                                      "compute={factor: distributed, product: toeplitz}",
                                      "compute.factor=fp16",
                                      "compute.product=toeplitz",
                                      "compute.precision=mixed"};
#define FORMATS (sizeof formats / sizeof *formats)
#define WITHOUT_DEVICE (FORMATS - 2)

/* Strehl ratios of the dense format without a device, kept from the first time. */
static const float *dense_of(int sensors, int nssp, int mirror, int *count) {
    static struct {
        int sensors, nssp, mirror, count;
        const char *slope;
        float strehl[MOST];
    } kept[64];
    static int n;
    int k = 0;
    while (k < n && !(kept[k].sensors == sensors && kept[k].nssp == nssp &&
                      kept[k].mirror == mirror && kept[k].slope == slope))
        k++;
    if (k == n) {
        assert_true(n < 64);
        kept[n].sensors = sensors, kept[n].nssp = nssp, kept[n].mirror = mirror;
        kept[n].slope = slope;
        unsetenv("MOAO_TEST_DEVICE");
        kept[n].count = run_case(sensors, nssp, mirror, "compute.factor=dense", kept[n].strehl);
        n++;
    }
    *count = kept[k].count;
    return kept[k].strehl;
}

/* In all formats; where `device` is NULL, each as a machine without a GPU has it. */
static void compare(int sensors, int nssp, int mirror, const char *device) {
    int n;
    float other[MOST] = {0};
    const float *dense = dense_of(sensors, nssp, mirror, &n);
    unsetenv("MOAO_TEST_DEVICE");
    if (device != NULL)
        setenv("MOAO_TEST_DEVICE", device, 1);
    for (size_t i = 0; i < (device != NULL ? FORMATS : WITHOUT_DEVICE); i++) {
        assert_int_equal(run_case(sensors, nssp, mirror, formats[i], other), n);
        for (int k = 0; k < n; k++) {
            const double gap = fabs((double)other[k] - (double)dense[k]);
            if (!(dense[k] > 1e-6 && dense[k] <= 1 && gap < 1e-5))
                print_error("%d sensors of %d, mirror of %d, %s: %.7f, dense %.7f\n", sensors, nssp,
                            mirror, formats[i], (double)other[k], (double)dense[k]);
            assert_true(dense[k] > 1e-6 && dense[k] <= 1 && gap < 1e-5);
        }
    }
}

static void test_all(bool few, const char *device) {
    static const int mirrors[] = {2, 8, 3, 5};
    slope = by_area;
    for (int nssp = 1; nssp <= (few ? 2 : 4); nssp++)
        for (int i = 0; i < (few ? 2 : 4); i++)
            compare(1, nssp, mirrors[i], device);
    compare(2, 2, 8, device);
    compare(2, 1, 2, device);
    slope = by_points;
    compare(1, 2, 4, device);
    compare(1, 4, 4, device); /* the truth sensor's lattice: no pair needs room of its own */
}

static void on_cpu(void **state) {
    (void)state;
    test_all(world.size > 1 || getenv("MOAO_TEST_SMALL") != NULL, NULL);
}

static void on_device(void **state) {
    const char *named = getenv("MOAO_TEST_BACKEND");
    (void)state;
    test_all(named == NULL, named != NULL ? named : "cpu");
}

int main(int argc, char **argv) {
    setenv("MOAO_CHECK_MEMORY", "yes", 1);
    MPI_Init(&argc, &argv);
    if (comm_init(MPI_COMM_WORLD, &world) != MOAO_OK)
        return 1;
    if (world.rank == 0 && mkdtemp(folder) == NULL)
        return 1;
    comm_bcast(&world, folder, sizeof folder);
    char command[96], file[96];
    snprintf(file, sizeof file, "%s/t.yaml", folder);
    if (world.rank == 0)
        write_case(file);
    const struct CMUnitTest tests[] = {cmocka_unit_test(on_cpu), cmocka_unit_test(on_device)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    if (world.rank == 0 && system(command) != 0)
        failed++;
    comm_free(&world);
    MPI_Finalize();
    return failed;
}
