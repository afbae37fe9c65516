/* Parameters get the values that files and command line state, in SI units; later sources override
 * earlier ones; the effective parameters reproduce them exactly. */
#include "job/setup.h"
#include "params_case.h"

#include <math.h>
#include <sys/stat.h>

/* Equal to a few rounding errors. */
static void assert_near(double value, double expected) {
    if (!(fabs(value - expected) <= 8e-16 * fabs(expected)))
        fail_msg("%.17g is not %.17g", value, expected);
}

static void values_are_in_si_units(void **state) {
    (void)state;
    params p;
    write_case("a.yaml");
    load("a.yaml", NULL, &p);
    assert_string_equal(p.title, "good");
    assert_near(p.telescope_diameter, 8);
    assert_int_equal(p.dm_nssp, 16);
    assert_int_equal(p.sensors.n, 3);
    assert_int_equal(p.sensors.v[2].type, SENSOR_LGS);
    assert_near(p.sensors.v[0].direction[0], 40 / 206264.80624709636);
    assert_near(p.sensors.v[2].altitude, 90e3);
    assert_string_equal(p.sensors.v[1].name, "NGS 2");
    assert_string_equal(p.sensors.v[2].name, "LGS 1");
    assert_near(p.sensors.v[0].wavelength, 650e-9);
    assert_near(p.sensors.v[2].wavelength, 589e-9);
    assert_near(p.sensors.v[2].lgs_width, 1 / 206264.80624709636);
    assert_false(params_given(p.sensors.v[2].noise_variance));
    assert_near(p.atmosphere_profiles.v[1].time, 600);
    assert_near(p.psf_wavelengths.v[0], 1.65e-6);
    assert_int_equal(p.psf_weighting, WEIGHTING_ENERGY);
    assert_near(p.psf_ee_boxes.v[2], 0.15 / 206264.80624709636);
    assert_int_equal(p.output_psf, PSF_LONG);
    assert_false(params_wants_matrix(&p, "Cmm"));
    params_free(&p);
}

static void units_are_converted(void **state) {
    (void)state;
    static const struct {
        const char *override;
        double expected;
    } u[] = {
        {"telescope.zenith=30", 0.5235987755982988},
        {"telescope.zenith=30 deg", 0.5235987755982988},
        {"telescope.zenith=0.5 rad", 0.5},
        {"telescope.zenith=1 arcmin", 60 / 206264.80624709636},
        {"telescope.zenith=100 mas", 0.1 / 206264.80624709636},
        {"telescope.zenith= 2 mrad", 2e-3},
        {"telescope.zenith=0.5rad", 0.5},
        {"telescope.zenith='0.5 rad'", 0.5},
        {"telescope.zenith=+.5e0 rad", 0.5},
    };
    params p;
    for (size_t i = 0; i < sizeof u / sizeof *u; i++) {
        load("a.yaml", u[i].override, &p);
        assert_near(p.telescope_zenith, u[i].expected);
        params_free(&p);
    }
    load("a.yaml", "compute.memory=4 GB", &p);
    assert_near(p.compute_memory, 4e9);
    params_free(&p);
    load("a.yaml",
         "sensors[0]={noise_variance: 100 mas2, bandwidth: 3300 angstrom, frame_time: 2 ms}", &p);
    assert_near(p.sensors.v[0].noise_variance, 1e-4);
    assert_near(p.sensors.v[0].bandwidth, 330e-9);
    assert_near(p.sensors.v[0].frame_time, 2e-3);
    assert_near(p.sensors.v[0].magnitude, 10); /* mappings merge */
    params_free(&p);
}

static void later_sources_override(void **state) {
    (void)state;
    static const char second[] = "telescope: {zenith: 20}\n"
                                 "targets: {list: [[1, 2], [3 arcmin, 4]]}\n"
                                 "psf: {wavelengths: 2.2}\n"
                                 "schedule: {tor_interval: 100, end: 1000}\n";
    const char *files[2] = {"a.yaml", "b.yaml"};
    const char *overrides[3] = {"telescope.zenith=40",
                                "atmosphere.profiles[0].layers.strength=[1, 2, 3]",
                                "output.matrices=[Cmm, R]"};
    params p;
    write_bytes("b.yaml", second, sizeof second - 1);
    assert_int_equal(params_load(NULL, 2, files, 3, overrides, &p), MOAO_OK);
    assert_near(p.telescope_diameter, 8);
    assert_near(p.telescope_zenith, 40 * 3.141592653589793 / 180);
    assert_int_equal(p.targets_grid_nx, 0); /* a list drops the grid of an earlier file */
    assert_int_equal(p.targets_list.n, 2);
    assert_near(p.targets_list.v[1][0], 180 / 206264.80624709636);
    assert_int_equal(p.psf_wavelengths.n, 1);
    assert_int_equal(p.schedule_tor_times.n, 0);
    assert_near(p.schedule_tor_interval, 100);
    assert_int_equal(p.schedule_exposure_times.n, 3);
    const real_list *v = &p.atmosphere_profiles.v[0].layers_strength; /* scaled to r0 = 0.15 */
    assert_near(v->v[2], pow(0.15, -5. / 3) / 2);
    assert_true(params_wants_matrix(&p, "R"));
    params_free(&p);
}

static void strengths_follow_from_fractions(void **state) {
    (void)state;
    params p;
    load("a.yaml",
         "atmosphere.profiles[0].layers={altitude: [0, 1], fraction: [3, 1], L0: [inf, 30 m], "
         "wind_speed: 10}",
         &p);
    const profile_params *q = &p.atmosphere_profiles.v[0];
    assert_near(q->layers_strength.v[0], 0.75 * pow(0.15, -5. / 3));
    assert_near(q->layers_strength.v[1], 0.25 * pow(0.15, -5. / 3));
    assert_true(isinf(q->layers_L0.v[0]));
    assert_near(q->layers_L0.v[1], 30);
    assert_near(q->layers_wind_speed.v[1], 10);
    assert_int_equal(p.notes.n, 1); /* the fractions did not sum to 1 */
    params_free(&p);
}

/* Files named in a file are looked for beside it, whatever the current folder. */
static void files_are_relative_to_their_file(void **state) {
    (void)state;
    static const char legacy[] =
        "Nlayer\n2\nr0\n0.128916\ncn2\n28.5115 1.88506\nh\n30 12500\nl0\n25 20\n";
    static const char profile[] = "r0: 0.2\nlayers: {altitude: [0], fraction: [1]}\n";
    static const char list[] = "profiles:\n  - {file: sub-p.yaml, layers: {L0: 30}}\n"
                               "  - {time: 5, file: prof2.txt, r0: 0.1}\n";
    static const char targets[] = "# x y\n1 2\n 3.5,\t4  # second\n\n-1e1 +2\r\n";
    params p;
    assert_int_equal(mkdir("sub", 0700), 0);
    write_case("sub/a.yaml");
    write_bytes("sub/prof2.txt", legacy, sizeof legacy - 1);
    write_bytes("sub/prof10.txt", legacy, sizeof legacy - 1);
    write_bytes("sub/sub-p.yaml", profile, sizeof profile - 1);
    write_bytes("sub/night.yaml", list, sizeof list - 1);
    write_bytes("sub/t.txt", targets, sizeof targets - 1);
    const char *files[2] = {"sub/a.yaml", "sub/b.yaml"};
    const char second[] = "targets: {file: t.txt}\natmosphere: {file: night.yaml}\n";
    write_bytes("sub/b.yaml", second, sizeof second - 1);
    assert_int_equal(params_load(NULL, 2, files, 0, NULL, &p), MOAO_OK);
    assert_int_equal(p.targets_list.n, 3);
    assert_near(p.targets_list.v[1][1], 4 / 206264.80624709636);
    assert_near(p.atmosphere_profiles.v[0].layers_L0.v[0], 30);
    assert_near(p.atmosphere_profiles.v[0].layers_strength.v[0], pow(0.2, -5. / 3));
    assert_near(p.atmosphere_profiles.v[1].layers_altitude.v[1], 12500);
    assert_near(p.atmosphere_profiles.v[1].layers_strength.v[1],
                pow(0.1, -5. / 3) * 1.88506 / 30.39656);
    /* the effective parameters hold all that and name no file: they can be read anywhere */
    char *effective = params_effective_text(&p);
    assert_non_null(effective);
    assert_null(strstr(effective, " file:"));
    write_bytes("effective.yaml", effective, strlen(effective));
    free(effective);
    params_free(&p);
    load("effective.yaml", NULL, &p);
    assert_near(p.atmosphere_profiles.v[0].layers_L0.v[0], 30);
    params_free(&p);
    load("sub/a.yaml", "atmosphere.legacy={pattern: sub/prof*.txt, start: 1 h, interval: 5 min}",
         &p);
    assert_int_equal(p.atmosphere_profiles.n, 2);
    assert_string_equal(p.atmosphere_profiles.v[0].label, "prof2.txt"); /* 2 before 10 */
    assert_near(p.atmosphere_profiles.v[1].time, 3900);
    assert_near(p.atmosphere_profiles.v[0].layers_strength.v[0], 28.5115); /* not the r0 line */
    params_free(&p);
    for (int i = 0; i < 7; i++)
        remove((const char *[]){"sub/a.yaml", "sub/b.yaml", "sub/prof2.txt", "sub/prof10.txt",
                                "sub/sub-p.yaml", "sub/night.yaml", "sub/t.txt"}[i]);
}

/* An alias stands for a copy of what its anchor names. */
static void aliases_are_copies(void **state) {
    (void)state;
    static const char second[] = "targets: {list: [&t [1, 2], *t]}\n";
    const char *files[2] = {"a.yaml", "b.yaml"};
    params p;
    write_bytes("b.yaml", second, sizeof second - 1);
    const char *override = "targets.list[1]=[3, 2]";
    assert_int_equal(params_load(NULL, 2, files, 1, &override, &p), MOAO_OK);
    assert_near(p.targets_list.v[0][0], 1 / 206264.80624709636);
    assert_near(p.targets_list.v[1][0], 3 / 206264.80624709636);
    params_free(&p);
}

/* The sensor's own keys go before those of its type, those before the reference's defaults. */
static void sensors_take_the_defaults_of_their_type(void **state) {
    (void)state;
    const char *overrides[3] = {"lgs_defaults.tiptilt_variance=5", "sensors[2].tiptilt_factor=20",
                                "ngs_defaults={ron: 1, nssp: 3}"};
    const char *file = "a.yaml";
    params p;
    assert_int_equal(params_load(NULL, 1, &file, 3, overrides, &p), MOAO_OK);
    assert_near(p.sensors.v[0].ron, 1);
    assert_int_equal(p.sensors.v[0].nssp, 10);
    assert_near(p.sensors.v[2].ron, 3);
    assert_near(p.sensors.v[2].tiptilt_factor, 20);
    assert_false(params_given(p.sensors.v[2].tiptilt_variance));
    params_free(&p);
}

static void effective_parameters_reproduce_the_run(void **state) {
    (void)state;
    static const char *const overrides[] = {
        "telescope.zenith=33.333333333333336",
        "targets={list: [[0.1, 0.30000000000000004], [1e-300, -7 mas]]}",
        "atmosphere.profiles[0].layers={altitude: [0, 1.1 km], fraction: [0.1, 0.9], L0: inf, "
        "wind_direction: 77.7}",
        "title=\"say \\\"a\\\\b\\\" \\u00e9 \\U0001F52D #:\"",
        "sensors[2].launch=[1e-17, 3.3333333333333335]",
        "psf.wavelengths=[0.1e1, 1.7000000000000002 um, 999.9999999 nm]",
        "output.matrices=[Cmm, Dplus]",
        "schedule={tor_interval: 7.7 min, exposure_interval: 1.1, start: -3, end: 1 h}",
    };
    for (size_t i = 0; i < sizeof overrides / sizeof *overrides; i++) {
        params p, q;
        char difference[256];
        load("a.yaml", overrides[i], &p);
        char *text = params_effective_text(&p);
        assert_non_null(text);
        write_bytes("effective.yaml", text, strlen(text));
        load("effective.yaml", NULL, &q);
        char *again = params_effective_text(&q);
        assert_non_null(again);
        assert_string_equal(text, again);
        assert_int_equal(params_compare_effective(text, again, difference, sizeof difference),
                         MOAO_OK);
        assert_string_equal(difference, "");
        assert_memory_equal(p.sensors.v[2].direction, q.sensors.v[2].direction, sizeof(double[2]));
        assert_memory_equal(&p.telescope_zenith, &q.telescope_zenith, sizeof(double));
        assert_memory_equal(p.psf_wavelengths.v, q.psf_wavelengths.v,
                            (size_t)p.psf_wavelengths.n * sizeof(double));
        assert_memory_equal(p.atmosphere_profiles.v[0].layers_strength.v,
                            q.atmosphere_profiles.v[0].layers_strength.v, sizeof(double[2]));
        assert_string_equal(p.title, q.title);
        free(text);
        free(again);
        params_free(&p);
        params_free(&q);
    }
}

static void changed_parameters_are_named(void **state) {
    (void)state;
    static const struct {
        const char *override, *difference;
    } c[] = {
        {"title=other", ""},
        {"output.directory=there", ""},
        {"output.ranks=true", ""},
        {"compute.memory=1 GB", ""},
        {"telescope.diameter=8.0", ""},
        {"telescope.diameter=8.1", "telescope.diameter: 8 before, 8.1 now"},
        {"sensors[1].magnitude=12", "sensors[1].magnitude: 11 before, 12 now"},
        {"sensors[1].noise_variance=0.1", "sensors[1].noise_variance: not given before, 0.1 now"},
        {"psf.wavelengths=[1.65]", "psf.wavelengths: 2 items before, 1 now"},
        {"psf.wavelengths=[1.65, 2.1]", "psf.wavelengths[1]: 2.2 before, 2.1 now"},
        {"targets.list=[[0, 0]]", "targets.grid: a list or mapping before, not given now"},
        {"atmosphere.profiles[1].layers.L0=24",
         "atmosphere.profiles[1].layers.L0[0]: 25 before, 24 now"},
    };
    params p;
    char difference[256];
    load("a.yaml", NULL, &p);
    char *old_text = params_effective_text(&p);
    params_free(&p);
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        load("a.yaml", c[i].override, &p);
        char *text = params_effective_text(&p);
        status st = params_compare_effective(old_text, text, difference, sizeof difference);
        assert_string_equal(difference, c[i].difference);
        assert_int_equal(st, c[i].difference[0] ? MOAO_INPUT : MOAO_OK);
        assert_string_equal(status_message(), "");
        free(text);
        params_free(&p);
    }
    assert_int_equal(params_compare_effective("a: [", old_text, difference, sizeof difference),
                     MOAO_INPUT);
    assert_string_equal(status_message(), "");
    free(old_text);
}

/* Number of warnings about the case with an override, one of which must hold the phrase. */
static int warnings_with(const char *override, const char *phrase) {
    params p;
    sys s;
    atmos a;
    char **lines;
    bool found = false;
    load_all("a.yaml", override, &p, &s, &a);
    int n = params_warnings(&p, &s, &a, &lines);
    for (int i = 0; i < n; i++)
        found = found || strstr(lines[i], phrase) != NULL;
    if (!found && *phrase)
        fail_msg("no warning with '%s' among %d, first: %s", phrase, n, n ? lines[0] : "");
    params_free_warnings(n, lines);
    atmos_free(&a);
    sys_free(&s);
    params_free(&p);
    return n;
}

static void doubtful_input_gets_warnings(void **state) {
    (void)state;
    assert_int_equal(warnings_with("targets={list: [[5, 5], [35, 0], [40, 10]]}", ""), 0);
    warnings_with("targets={list: [[5, 5], [41, 10]]}", "1 of 2 lie outside");
    warnings_with("sensors=[{type: ngs, nssp: 8, direction: [0, 0], magnitude: 9}]",
                  "8 of 8 lie outside");
    warnings_with("sensors=[{type: lgs, direction: [0, 0]}]", "no natural guide star");
    warnings_with(
        "atmosphere.profiles[0]={layers: {fraction: [0.6, 0.39, 0.01], altitude: [0, 1, 95e3]}}",
        "LGS 1: layers with 1 %");
    warnings_with("atmosphere.profiles[1].r0=2",
                  "r0 is outside 0.02 to 1 m in 1 profile, first 2 m");
    warnings_with("atmosphere.profiles[0].layers.fraction=[1, 0, 0]",
                  "zero strength in 1 profile, first 2 of 3");
    warnings_with("loop.delay=2 ms", "without wind");
    warnings_with("schedule={tor_times: [0], exposure_times: [0, 599]}",
                  "1 of 2 profiles never in force");
    warnings_with("schedule.tor_times=[0, 601]", "1 of 2 reconstructors used by no exposure");
    warnings_with("schedule.exposure_times=[0, 1 h]", "is 3000 s later than the last profile");
    warnings_with("sensors[1].name=NGS 1", "same name NGS 1");
}

static void free_all(params *p, sys *s, atmos *a) {
    atmos_free(a);
    sys_free(s);
    params_free(p);
}

/* Slopes, noise, integration and jitter reach what computes with them; half a frame is lag. */
static void errors_and_noise_arrive(void **state) {
    (void)state;
    params p;
    sys s;
    atmos a;
    psf_opts o;
    write_case("a.yaml");
    load_all("a.yaml", "loop={delay: 3 ms, integration: 2 ms}", &p, &s, &a);
    assert_near(s.delay, 4e-3);
    assert_true(s.ts.gradient && s.sensors[0].gradient && s.sensors[2].gradient);
    assert_true(!s.sensors[0].noise.gaussian && !s.sensors[0].noise.has_sky);
    params_psf_opts(&p, &o);
    assert_true(o.jitter[0] == 0 && o.jitter[1] == 0 && o.static_rms == 0);
    free_all(&p, &s, &a);
    load_all("a.yaml",
             "ngs_defaults={noise_model: gaussian, sky: 18, excess_noise: 2, background: 0.5, "
             "extinction: 0.1}",
             &p, &s, &a);
    const sensor_noise *n = &s.sensors[1].noise;
    assert_true(n->gaussian && n->has_sky && n->extinct && !s.sensors[2].noise.extinct);
    assert_near(n->sky + n->excess + n->background + n->extinction, 20.6);
    free_all(&p, &s, &a);
    load_all("a.yaml", "errors={jitter: [3, 0], windshake: [4, 2], static_rms: 80}", &p, &s, &a);
    params_psf_opts(&p, &o);
    assert_near(o.jitter[0] * ARCSEC_PER_RAD, 5e-3);
    assert_near(o.jitter[1] * ARCSEC_PER_RAD, 2e-3);
    assert_near(o.static_rms, 80e-9);
    assert_near(o.static_power, 2);
    free_all(&p, &s, &a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_in_si_units),
        cmocka_unit_test(units_are_converted),
        cmocka_unit_test(later_sources_override),
        cmocka_unit_test(strengths_follow_from_fractions),
        cmocka_unit_test(files_are_relative_to_their_file),
        cmocka_unit_test(aliases_are_copies),
        cmocka_unit_test(sensors_take_the_defaults_of_their_type),
        cmocka_unit_test(effective_parameters_reproduce_the_run),
        cmocka_unit_test(changed_parameters_are_named),
        cmocka_unit_test(doubtful_input_gets_warnings),
        cmocka_unit_test(errors_and_noise_arrive),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
