/* What a loop leaves of the image's motion, against closed forms; tables of spectra as people write
 * them, and those that cannot be meant. */
#include "params_case.h"
#include "system/motion.h"

#include <math.h>

#define MAS (1e-3 / ARCSEC_PER_RAD)

static void expect(double got, double want, double tolerance, const char *what) {
    if (!(fabs(got - want) <= tolerance * fabs(want)))
        fail_msg("%s is %.10g, expected %.10g", what, got, want);
}

/* White noise through a delay: 2 - 2 cos; a power law without a loop; both in closed form. */
static void test_spectra(void **state) {
    (void)state;
    const double f[] = {1, 300}, flat[] = {4, 4}, steep[] = {9, 9 * pow(300, -2.5)};
    const rejection off = {0}, delay = {.kind = REJECTION_DELAY, .delay = 3e-3};
    const double a = 2 * M_PI * 3e-3;
    expect(motion_variance(2, f, flat, &off), 4 * 299, 1e-7, "white noise");
    expect(motion_variance(2, f, steep, &off), 9 / 1.5 * (1 - pow(300, -1.5)), 1e-7, "a power law");
    expect(motion_variance(2, f, flat, &delay), 4 * (2 * 299 - 2 / a * (sin(300 * a) - sin(a))),
           1e-6, "white noise after a delay");
}

/* Slow motion: a delay and a frame leave (2 pi f tau)^2, tau to the frame's middle; an integrator
 * (2 pi f T/g)^2. At the frame's rate its mean is 0, and so nothing is corrected. */
static void test_limits(void **state) {
    (void)state;
    const rejection open = {.kind = REJECTION_DELAY, .delay = 2e-3, .frame = 1e-3};
    const rejection loop = {
        .kind = REJECTION_INTEGRATOR, .delay = 1e-3, .frame = 1e-3, .gain = 0.4};
    expect(rejection_at(&open, 0.01), pow(2 * M_PI * 0.01 * 2.5e-3, 2), 1e-4, "a delay");
    expect(rejection_at(&open, 1000), 1, 1e-9, "a frame's own frequency");
    expect(rejection_at(&loop, 0.01), pow(2 * M_PI * 0.01 * 1e-3 / 0.4, 2), 1e-3, "an integrator");
    assert_true(rejection_at(&loop, 0) == 0 && rejection_at(&open, 0) == 0);
}

/* |1 + L| by hand at one frequency: T = 1 ms, no further delay, f = 1/(4 T): s T = i pi/2, 1 - exp
 * = 1 + i; L = g (1 + i)/(i pi/2)^2 = -0.405 g (1 + i). */
static void test_integrator(void **state) {
    (void)state;
    const rejection r = {.kind = REJECTION_INTEGRATOR, .frame = 1e-3, .gain = 0.5};
    const double l = 0.5 * 4 / (M_PI * M_PI);
    expect(rejection_at(&r, 250), 1 / (pow(1 - l, 2) + l * l), 1e-12, "|E|^2");
    assert_true(rejection_is_stable(&r));
    const rejection slow = {
        .kind = REJECTION_INTEGRATOR, .frame = 1e-3, .delay = 2e-3, .gain = 1.2};
    assert_false(rejection_is_stable(&slow));
}

static void test_table(void **state) {
    (void)state;
    const double f[] = {10, 20}, power[] = {0.1, 0.5};
    const rejection r = {.kind = REJECTION_TABLE, .n = 2, .frequency = f, .power = power};
    expect(rejection_at(&r, 1), 0.1, 1e-15, "below");
    expect(rejection_at(&r, 12.5), 0.2, 1e-12, "between");
    expect(rejection_at(&r, 99), 0.5, 1e-15, "above");
}

static void expect_motion(const char *text, double x, double y) {
    params p;
    write_bytes("psd.txt", text, strlen(text));
    load("a.yaml", "errors={jitter: [3, 4], jitter_psd: psd.txt}", &p);
    expect(p.errors_jitter[0], hypot(3, x) * MAS, 1e-7, text);
    expect(p.errors_jitter[1], hypot(4, y) * MAS, 1e-7, text);
    assert_null(p.errors_jitter_psd);
    assert_int_equal(p.told.n, 1);
    params_free(&p);
}

static void files_as_people_write_them(void **state) {
    (void)state;
    write_case("a.yaml");
    expect_motion("1 4 9\n2 4 9\n", 2, 3);
    expect_motion("# measured\n\n1, 4\n2, 4 # one for both\n", 2, 2);
    expect_motion("frequency[Hz] y[mas2/Hz] x[mas^2/Hz]\n1 4 9\n2 4 9\n", 3, 2);
    expect_motion("Freq,PSD (arcsec2/Hz)\n1,4e-6\n2,4e-6\n", 2, 2);
    expect_motion("f x y\n0 0 0\n2 4 9\n", 2, 3);
}

static void vibrations_and_the_loop(void **state) {
    (void)state;
    params p;
    write_case("a.yaml");
    write_bytes("r.txt", "1 0.25\n100 0.25\n", 15);
    load("a.yaml",
         "errors={vibrations: {frequency: [20, 50], x: [6, 8], y: [0, 2]}, rejection: file, "
         "rejection_file: r.txt}",
         &p);
    expect(p.errors_jitter[0], 5 * MAS, 1e-12, "lines along x");
    expect(p.errors_jitter[1], 1 * MAS, 1e-12, "lines along y");
    assert_true(p.errors_rejection == 0 && p.errors_vibrations_x.n == 0);
    params_free(&p);
}

static void expect_refused(const char *file, const char *override, const char *place,
                           const char *phrase) {
    write_bytes("psd.txt", file, strlen(file));
    write_changed("good", "bad");
    expect_mistake(override, place, phrase);
}

static void what_cannot_be_meant(void **state) {
    (void)state;
    static const char psd[] = "errors={windshake_psd: psd.txt}", good[] = "1 2\n2 2\n";
    mistakes_missed = 0;
    expect_refused("1 2\n1 3\n", psd, "psd.txt:2:1: errors.windshake_psd",
                   "not above the one before");
    expect_refused("1 2\n2 -3\n", psd, "psd.txt:2:3: errors.windshake_psd", "0 or more");
    expect_refused("1 2\n2 nan\n", psd, "psd.txt:2:3: errors.windshake_psd", "0 or more");
    expect_refused("1 2 3\n2 3\n", psd, "psd.txt:2:1: errors.windshake_psd", "not three numbers");
    expect_refused("f x z\n1 2 3\n", psd, "psd.txt:1:5: errors.windshake_psd", "a column's name");
    expect_refused("f x[m2]\n1 2\n", psd, "psd.txt:1:3: errors.windshake_psd", "unit is not known");
    expect_refused("f y\n1 2\n", psd, "psd.txt:1:1: errors.windshake_psd",
                   "without frequency and x");
    expect_refused("1 2\n", psd, "psd.txt:1:1: errors.windshake_psd", "1 line of numbers");
    expect_refused(good, "errors={jitter_psd: none.txt}", "command line:1:21: errors.jitter_psd",
                   "cannot be read");
    expect_refused(good, "errors={rejection: file}", "command line:1:20: errors.rejection",
                   "without errors.rejection_file");
    expect_refused(good, "errors={rejection_file: psd.txt}",
                   "command line:1:25: errors.rejection_file", "without errors.rejection: file");
    expect_refused(good, "errors={rejection: integrator}", "command line:1:20: errors.rejection",
                   "without loop.integration");
    expect_refused(good, "errors={vibrations: {frequency: [1, 2], x: [3], y: [1, 2]}}",
                   "command line:1:21: errors.vibrations", "2 frequencies with 1 and 2 rms");
    assert_int_equal(mistakes_missed, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_spectra),
                                       cmocka_unit_test(test_limits),
                                       cmocka_unit_test(test_integrator),
                                       cmocka_unit_test(test_table),
                                       cmocka_unit_test(files_as_people_write_them),
                                       cmocka_unit_test(vibrations_and_the_loop),
                                       cmocka_unit_test(what_cannot_be_meant)};
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
