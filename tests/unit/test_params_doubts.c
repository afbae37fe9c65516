/* Input that is legal but probably a slip gets one line that holds the number and what was probably
 * meant; a good case gets none. */
#include "params_case.h"

#include <time.h>

/* The case with an override: the number of warnings, one of which must hold the phrase. */
static int warnings_with(const char *override, const char *phrase) {
    params p;
    sys s;
    atmos a;
    char **lines;
    bool found = false;
    load_all("a.yaml", override, &p, &s, &a);
    int n = params_warnings(&p, &s, &a, &lines);
    for (int i = 0; i < n; i++) {
        found = found || strstr(lines[i], phrase) != NULL;
        assert_null(strchr(lines[i], '\n'));
    }
    if (!found && *phrase)
        fail_msg("%s: no warning with '%s' among %d, first: %s", override, phrase, n,
                 n ? lines[0] : "");
    params_free_warnings(n, lines);
    atmos_free(&a);
    sys_free(&s);
    params_free(&p);
    return n;
}

static const struct {
    const char *override, *phrase;
} doubts[] = {
    {"atmosphere.profiles[0].layers.altitude=[0, 4, 10]",
     "profile 1: all layers are below 1 km, the highest at 10 m; was 10 km meant?"},
    {"loop.delay=2",
     "loop.delay: 2 is in seconds; were frames meant? 2 of NGS 1's frames are 8 ms"},
    {"loop.integration=1", "loop.integration: 1 is in seconds; were frames meant?"},
    {"psf.ee_boxes=[50, 0.1]",
     "psf.ee_boxes: a box of 0.1 mas is far below the diffraction limit, 42.5 mas at 1.65 um; was "
     "0.1 arcsec meant?"},
    {"sensors[0].frame_time=2", "NGS 1: frame_time is 2 s; was 2 ms meant?"},
    {"ngs_defaults.frame_time=2", "NGS 1 (and 1 other): frame_time is 2 s"},
    {"loop.delay=3 ms", "NGS 1 (and 2 others): frame_time 4 ms is longer than loop.delay, 3 ms"},
    {"sensors[1]={band: V, wavelength: H}",
     "NGS 2: a magnitude in V and a sensor at 1.65 um without spectral_type"},
    {"sensors[1].magnitude=19", "NGS 2: 0.66 photons per subaperture and frame"},
    {"sensors[1].magnitude=21", "NGS 2: magnitude 21 is fainter than 20"},
    {"sensors[2].lgs_return=700", "LGS 1: lgs_return is 700 ph/m2/s"},
    {"atmosphere.profiles[0].r0=15",
     "first 15 m (a seeing of 0.00671 arcsec) at zenith in profile 1; was 15 cm meant?"},
    {"atmosphere.profiles[1].r0=0.01", "first 0.01 m (a seeing of 10.1 arcsec) at zenith"},
    {"sensors[0].direction=[700, 0]",
     "NGS 1: direction [700, 0] arcsec is 11.7 arcmin from the axis"},
    {"sensors[1].direction=[40, 10]", "NGS 1 and NGS 2: the same star twice, at [40, 10] arcsec"},
    {"targets={list: [[1, 2], [3, 4], [1, 2]]}", "targets: 1 and 3 are the same direction, [1, 2]"},
    {"targets={list: [[1, 2], [3, 4]], names: [A, A]}", "targets.names: A names two targets"},
    {"psf.wavelengths=[H, K, 1.65]", "psf.wavelengths: 1.65 um is given twice"},
    {"compute={factor: tlr, precision: mixed}", "precision: mixed is for the factor"},
    {"compute={factor: dense, tlr_tile: 64}",
     "tlr_tile and tlr_distributed are for compute.factor: tlr"},
    {"compute={factor: dense, tlr_distributed: true}",
     "tlr_tile and tlr_distributed are for compute.factor: tlr"},
    {"compute.tlr_order=sensor",
     "compute.tlr_order: no longer a parameter, measurements are ordered sensor by sensor"},
    {"output.ranks=true", "output.ranks is for compute.factor: tlr"},
    {"compute={factor: tlr, tlr_tolerance: 30}", "with 30 times the noise"},
    {"sensors[1].name=NGS 1", "sensors[0] and sensors[1] have the same name NGS 1"},
};

static void slips_are_told_with_what_was_meant(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof doubts / sizeof *doubts; i++)
        warnings_with(doubts[i].override, doubts[i].phrase);
}

static void a_good_case_has_none(void **state) {
    (void)state;
    static const char *const good[] = {
        "targets={list: [[5, 5], [35, 0]]}",
        "sensors[0]={magnitude: 25, noise_variance: 0.01}", /* the magnitude is not used */
        "atmosphere.profiles[0].layers.altitude=[0, 0, 0]",
    };
    const int outside = warnings_with(NULL, "lie outside"); /* the case's own, of its grid */
    assert_int_equal(outside, 1);
    assert_int_equal(warnings_with(good[0], ""), 0);
    for (size_t i = 1; i < sizeof good / sizeof *good; i++)
        assert_int_equal(warnings_with(good[i], ""), outside);
}

/* A thousand sensors make a few lines, not one for each pair. */
static void many_cases_make_one_line(void **state) {
    (void)state;
    assert_true(warnings_with("sensors=[{type: ngs, nssp: 4, magnitude: 22, name: A, ring: {n: 9, "
                              "radius: 0}}]",
                              "(and 7 others): the same star twice") <= 6);
}

/* The field of the stars by hand: a square of 60 arcsec; targets inside, on its edge and corner,
 * just outside of both, and far. */
static void targets_outside_are_counted(void **state) {
    (void)state;
    static const struct {
        const char *targets, *phrase;
    } c[] = {
        {"[[0, 0], [30, 30], [30, 5], [-30, -30], [29.9, -29.9]]", ""},
        {"[[0, 0], [30.01, 0], [30.01, 30.01]]", "2 of 3 lie outside"},
        {"[[0, 0], [60, 0], [0, 70], [-31, 5]]",
         "3 of 4 lie outside the field spanned by the guide stars, by up to 40 arcsec at [0, 70]"},
        {"[[33, 34]]", "by up to 5 arcsec at [33, 34]"},
    };
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        char text[256];
        snprintf(text, sizeof text, "targets={list: %s}", c[i].targets);
        const char *file = "a.yaml",
                   *two[2] = {"sensors=[{type: ngs, nssp: 9, magnitude: 9, ring: {n: 4, radius: "
                              "42.42640687119285, angle: 45}}]",
                              text};
        params p;
        sys s;
        atmos a;
        char **lines;
        status_clear();
        if (params_load(NULL, 1, &file, 2, two, &p) != MOAO_OK)
            fail_msg("%s", status_message());
        assert_int_equal(sys_init(&p, &s), MOAO_OK);
        assert_int_equal(atmos_init(&p, &s, &a), MOAO_OK);
        int n = params_warnings(&p, &s, &a, &lines);
        assert_int_equal(n, *c[i].phrase ? 1 : 0);
        if (n > 0 && strstr(lines[0], c[i].phrase) == NULL)
            fail_msg("%s", lines[0]);
        params_free_warnings(n, lines);
        atmos_free(&a);
        sys_free(&s);
        params_free(&p);
    }
}

/* The largest cases take a second, not the product of their numbers. */
static void large_cases_are_judged_in_time(void **state) {
    (void)state;
    struct timespec t0, t1;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t0);
    warnings_with("schedule={tor_interval: 60, exposure_interval: 1, end: 60000}",
                  "later than the last profile");
    warnings_with("targets={grid: {nx: 1000, width: 600}}", "lie outside");
    const char *file = "a.yaml",
               *two[2] = {
                   "sensors=[{type: ngs, nssp: 2, magnitude: 9, ring: {n: 1000, radius: 60}}]",
                   "targets={grid: {nx: 1000, width: 600}}"};
    params p;
    sys s;
    atmos a;
    char **lines;
    assert_int_equal(params_load(NULL, 1, &file, 2, two, &p), MOAO_OK);
    assert_int_equal(sys_init(&p, &s), MOAO_OK);
    assert_int_equal(atmos_init(&p, &s, &a), MOAO_OK);
    int n = params_warnings(&p, &s, &a, &lines);
    params_free_warnings(n, lines);
    atmos_free(&a);
    sys_free(&s);
    params_free(&p);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t1);
    assert_true(t1.tv_sec - t0.tv_sec < 30); /* minutes before */
}

static int begin(void **state) {
    int rc = enter_folder(state);
    write_case("a.yaml");
    return rc;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slips_are_told_with_what_was_meant),
        cmocka_unit_test(a_good_case_has_none),
        cmocka_unit_test(many_cases_make_one_line),
        cmocka_unit_test(targets_outside_are_counted),
        cmocka_unit_test(large_cases_are_judged_in_time),
    };
    return cmocka_run_group_tests(tests, begin, leave_folder);
}
