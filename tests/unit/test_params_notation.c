/* Every notation that is understood has one canonical form: what it stands for, in effective
 * parameters that read again give the same. */
#include "params_case.h"

#include <math.h>

static const double ARCSEC = 1 / ARCSEC_PER_RAD;

static void expect_near(double value, double expected) {
    if (!(fabs(value - expected) <= 1e-14 * fabs(expected)))
        fail_msg("%.17g is not %.17g", value, expected);
}

/* The effective text of a.yaml with up to two overrides; free it. */
static char *effective(const char *one, const char *two) {
    const char *file = "a.yaml", *overrides[2] = {one, two};
    params p;
    status_clear();
    if (params_load(NULL, 1, &file, (one != NULL) + (two != NULL), overrides, &p) != MOAO_OK)
        fail_msg("%s", status_message());
    char *text = params_effective_text(&p);
    assert_non_null(text);
    params_free(&p);
    return text;
}

/* Both ways of writing give the same effective parameters, which read again are the same. */
static void expect_same(const char *one, const char *other) {
    const char *file = "effective.yaml";
    char *a = effective(one, NULL), *b = effective(other, NULL);
    params p;
    assert_string_equal(a, b);
    write_bytes(file, a, strlen(a));
    if (params_load(NULL, 1, &file, 0, NULL, &p) != MOAO_OK)
        fail_msg("%s", status_message());
    char *again = params_effective_text(&p);
    assert_string_equal(a, again);
    params_free(&p);
    free(again);
    free(a);
    free(b);
}

static void other_words_for_the_same(void **state) {
    (void)state;
    static const char *const same[][2] = {
        {"psf.wavelengths=[J, H, K]", "psf.wavelengths=[1.25, 1.65 um, 2200 nm]"},
        {"psf.wavelengths=Ks", "psf.wavelengths=2.15"},
        {"sensors[0].wavelength=R", "sensors[0].wavelength=640 nm"},
        {"sensors[0].type=NGS", "sensors[0].type=ngs"},
        {"psf.weighting=Uniform", "psf.weighting=uniform"},
        {"sensors[0].frame_rate=500", "sensors[0].frame_time=2 ms"},
        {"sensors[2].frame_rate=0.5 kHz", "sensors[2].frame_time=2 ms"},
        {"lgs_defaults.frame_rate=500 Hz", "lgs_defaults.frame_time=2 ms"},
        {"sensors.NGS1.magnitude=12", "sensors[0].magnitude=12"},
        {"sensors.ngs 2.direction[1]=7", "sensors[1].direction[1]=7"},
        {"sensors.LGS1={ron: 1, nssp: 9}", "sensors[2]={ron: 1, nssp: 9}"},
    };
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        expect_same(same[i][0], same[i][1]);
}

/* A * stands for every item of a list that takes the key: natural stars alone have a magnitude. */
static void a_star_sets_many_items(void **state) {
    (void)state;
    static const char *const one[] = {"sensors[0].magnitude=13", "sensors[1].magnitude=13"};
    static const char *const key[] = {"sensors.*.magnitude=13", "sensors[*].magnitude=13",
                                      "sensors.ngs*.magnitude=13", "sensors.*1.magnitude=13"};
    char *both = effective(one[0], one[1]), *first = effective(one[0], NULL);
    for (int i = 0; i < 4; i++) {
        char *text = effective(key[i], NULL);
        assert_string_equal(text, i < 3 ? both : first);
        free(text);
    }
    free(both);
    free(first);
    params p;
    load("a.yaml", "atmosphere.profiles.*.layers={altitude: 0, fraction: 1, L0: 17}", &p);
    assert_true(p.atmosphere_profiles.n > 1);
    for (int i = 0; i < p.atmosphere_profiles.n; i++)
        expect_near(p.atmosphere_profiles.v[i].layers_L0.v[0], 17);
    params_free(&p);
    const char *file = "a.yaml",
               *list[] = {"targets={list: [[1, 2], [3, 4], [5, 6]]}", "targets.list[*][1]=9"};
    assert_int_equal(params_load(NULL, 1, &file, 2, list, &p), MOAO_OK);
    for (int i = 0; i < 3; i++) {
        expect_near(p.targets_list.v[i][0], (1 + 2 * i) * ARCSEC);
        expect_near(p.targets_list.v[i][1], 9 * ARCSEC);
    }
    params_free(&p);
    write_changed("good", "bad");
    mistakes_missed = 0;
    expect_mistake("sensors.X*.ron=1", "command line:1:8: sensors.X*.ron",
                   "no sensor has such a name, expected one of NGS 1, NGS 2, LGS 1");
    expect_mistake("sensors.NGS.ron=1", "command line:1:9: sensors.NGS.ron",
                   "expected one of NGS 1, NGS 2, LGS 1, or NGS*");
    expect_mistake("sensors.LGS*.magnitude=3", "command line:1:8: sensors.LGS*.magnitude",
                   "none of these sensors takes magnitude");
    expect_mistake("sensors.*.ring.radius=3", "command line:1:8: sensors.*.ring.radius",
                   "none of these sensors takes ring.radius");
    expect_mistake("stars.*.magnitude=3", "command line:1:6: stars.*.magnitude",
                   "no list in the files");
    expect_mistake("atmosphere.profiles.x*.r0=3", "command line:1:20: atmosphere.profiles.x*.r0",
                   "items without names");
    expect_mistake("sensors.*.magnitude=99", "command line:1:21: sensors[0].magnitude",
                   "out of range");
    assert_int_equal(mistakes_missed, 0);
}

/* Seeing is 0.976 lambda/r0 at 500 nm and zenith. */
static void seeing_stands_for_r0(void **state) {
    (void)state;
    params p;
    double sum = 0;
    load("a.yaml", "atmosphere.profiles[0].seeing=0.8", &p); /* drops the file's r0 */
    for (int i = 0; i < 3; i++)
        sum += p.atmosphere_profiles.v[0].layers_strength.v[i];
    expect_near(pow(sum, -0.6), 0.976 * 500e-9 / (0.8 * ARCSEC));
    assert_false(params_given(p.atmosphere_profiles.v[0].seeing));
    params_free(&p);
    expect_same("atmosphere.profiles[0].seeing=0.8", "atmosphere.profiles[0].seeing=0.8 arcsec");
}

/* A sensor's own frame time goes before its type's rate, and the other way round. */
static void rates_and_times_override_each_other(void **state) {
    (void)state;
    const char *file = "a.yaml";
    const char *overrides[] = {"lgs_defaults.frame_rate=250", "sensors[2].frame_time=1 ms",
                               "ngs_defaults.frame_time=8 ms", "sensors[0].frame_rate=1 kHz"};
    params p;
    assert_int_equal(params_load(NULL, 1, &file, 4, overrides, &p), MOAO_OK);
    expect_near(p.sensors.v[2].frame_time, 1e-3);
    expect_near(p.sensors.v[0].frame_time, 1e-3);
    expect_near(p.sensors.v[1].frame_time, 8e-3);
    assert_false(params_given(p.sensors.v[0].frame_rate));
    params_free(&p);
}

static const char ring[] = "sensors=[{type: ngs, nssp: 10, direction: [40, 10], magnitude: 10}, "
                           "{name: L, type: LGS, ring: {n: 4, radius: 1 arcmin, angle: 90}}]";

static void rings_are_written_out(void **state) {
    (void)state;
    static const double want[4][2] = {{0, 60}, {-60, 0}, {0, -60}, {60, 0}};
    params p;
    load("a.yaml", ring, &p);
    assert_int_equal(p.sensors.n, 5);
    for (int i = 0; i < 4; i++) {
        const sensor_params *s = &p.sensors.v[1 + i];
        char name[8];
        snprintf(name, sizeof name, "L %d", i + 1);
        assert_string_equal(s->name, name);
        assert_int_equal(s->nssp, 12); /* of lgs_defaults */
        for (int k = 0; k < 2; k++)
            if (!(fabs(s->direction[k] / ARCSEC - want[i][k]) < 1e-12))
                fail_msg("star %d: %.17g", i, s->direction[k] / ARCSEC);
        assert_int_equal(s->ring_n, 0);
    }
    params_free(&p);
    expect_same(ring, ring);
    load("a.yaml",
         "sensors=[{type: ngs, nssp: 10, magnitude: 9, ring: {n: 3, radius: 30}}, {type: NGS, "
         "nssp: 9, magnitude: 9, direction: [0, 0]}]",
         &p);
    assert_string_equal(p.sensors.v[2].name, "NGS 3");
    assert_string_equal(p.sensors.v[3].name, "NGS 4");
    assert_true(p.sensors.v[0].direction[1] == 0 && p.sensors.v[0].direction[0] > 0);
    params_free(&p);
}

/* A number of a ring may be a list, one for each star; its own light goes before a common one. */
static void stars_of_a_ring_have_their_own_values(void **state) {
    (void)state;
    static const char many[] =
        "sensors=[{type: ngs, nssp: 10, magnitude: [9, 10.5, 12], ron: [1, 2, 3], ring: {n: 3, "
        "radius: 30}}, {type: lgs, photons: [400, 500 e-], ring: {n: 2, radius: 9}}]";
    params p;
    load("a.yaml", many, &p);
    assert_int_equal(p.sensors.n, 5);
    for (int i = 0; i < 3; i++) {
        expect_near(p.sensors.v[i].magnitude, (double[]){9, 10.5, 12}[i]);
        expect_near(p.sensors.v[i].ron, i + 1);
        assert_true(isnan(p.sensors.v[i].photons));
    }
    for (int i = 0; i < 2; i++) {
        expect_near(p.sensors.v[3 + i].photons, 400 + 100 * i);
        assert_true(isnan(p.sensors.v[3 + i].lgs_return));
    }
    params_free(&p);
    expect_same(many, many);
}

static void light_has_one_source(void **state) {
    (void)state;
    const char *file = "a.yaml";
    const char *overrides[] = {"ngs_defaults={photons: 120, band: H}", "sensors.NGS1.photons=70",
                               "sensors.LGS1.photons=300"};
    params p;
    sys s;
    status_clear();
    if (params_load(NULL, 1, &file, 3, overrides, &p) != MOAO_OK)
        fail_msg("%s", status_message());
    assert_true(isnan(p.sensors.v[0].magnitude) && p.sensors.v[0].photons == 70);
    assert_true(p.sensors.v[1].magnitude == 11 && isnan(p.sensors.v[1].photons)); /* its own */
    assert_int_equal(sys_init(&p, &s), MOAO_OK);
    assert_true(sys_photons(&s, &s.sensors[0]) == 70 && sys_photons(&s, &s.sensors[2]) == 300);
    sys_free(&s);
    params_free(&p);
}

/* The published constant with slopes between points, else the band's zero point; spots too. */
static void the_published_model_is_that_of_points(void **state) {
    (void)state;
    const struct {
        const char *override;
        bool zero, full;
    } c[] = {{"sensors.NGS1.ron=3", true, true},
             {"sensors.NGS1.slope=points", false, false},
             {"sensors.NGS1.photometry=published", false, true},
             {"sensors.NGS1.spot=seeing", true, false}};
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        params p;
        sys s;
        load("a.yaml", c[i].override, &p);
        assert_int_equal(sys_init(&p, &s), MOAO_OK);
        const sensor_noise *n = &s.sensors[0].noise;
        if ((n->zero > 0) != c[i].zero || n->full_spot != c[i].full)
            fail_msg("%s: %g, %d", c[i].override, n->zero, n->full_spot);
        sys_free(&s);
        params_free(&p);
    }
}

/* The ring itself by number or name, its stars by name, in any order of the arguments. */
static void rings_and_their_stars_are_overridden(void **state) {
    (void)state;
    const char *file = "a.yaml";
    const char *overrides[] = {ring, "sensors.L3.direction=[5, 6]", "sensors[1].ring.n=3",
                               "sensors.L.ring.radius=30", "sensors.L 1.ron=7"};
    params p;
    status_clear();
    if (params_load(NULL, 1, &file, 5, overrides, &p) != MOAO_OK)
        fail_msg("%s", status_message());
    assert_int_equal(p.sensors.n, 4);
    expect_near(p.sensors.v[1].direction[1], 30 * ARCSEC);
    expect_near(p.sensors.v[3].direction[1], 6 * ARCSEC);
    expect_near(p.sensors.v[1].ron, 7);
    expect_near(p.sensors.v[2].ron, 3);
    params_free(&p);
}

static const struct {
    const char *text;
    double x1;                /* arcsec */
    const char *first, *last; /* names; NULL: none */
} files[] = {
    {"1 2\n3 4\n", 1, NULL, NULL},
    {"# x y\n1 2\n3 4", 1, NULL, NULL},
    {"x y\n1, 2\n3,4\n", 1, NULL, NULL},
    {"1 2 A\n\n3 4 \"B star\" # last\n", 1, "A", "B star"},
    {"1 2 A\n3 4\n", 1, "A", ""},
    {"Name,X,Y,mag\nA,1,2,17\n\"B, C\",3,4,18\n", 1, "A", "B, C"},
    {"# made by hand\n# y x name\n2 1 A\n4 3 B\n", 1, "A", "B"},
    {"x[mas] y[arcmin] name\n1 2 A\n3 4arcsec B\n", 1e-3, "A", "B"},
    {"x y\n1 2\n# x and y in any case\n3 4\n", 1, NULL, NULL},
};

static void target_files_have_columns_and_names(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        params p, q;
        const char *again = "effective.yaml";
        write_bytes("t.txt", files[i].text, strlen(files[i].text));
        load("a.yaml", "targets={file: t.txt}", &p);
        assert_int_equal(p.targets_list.n, 2);
        expect_near(p.targets_list.v[0][0], files[i].x1 * ARCSEC);
        expect_near(p.targets_list.v[1][1], 4 * ARCSEC);
        assert_int_equal(p.targets_names.n, files[i].first ? 2 : 0);
        if (files[i].first != NULL) {
            assert_string_equal(p.targets_names.v[0], files[i].first);
            assert_string_equal(p.targets_names.v[1], files[i].last);
        }
        char *text = params_effective_text(&p);
        write_bytes(again, text, strlen(text));
        load(again, NULL, &q);
        char *second = params_effective_text(&q);
        assert_string_equal(text, second);
        assert_memory_equal(p.targets_list.v, q.targets_list.v, 2 * sizeof *p.targets_list.v);
        free(text);
        free(second);
        params_free(&p);
        params_free(&q);
    }
    params p;
    load("a.yaml", "targets={file: t.txt, names: [one, two]}", &p); /* goes before the file's */
    assert_string_equal(p.targets_names.v[1], "two");
    params_free(&p);
}

static int begin(void **state) {
    int rc = enter_folder(state);
    write_case("a.yaml");
    return rc;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_words_for_the_same),
        cmocka_unit_test(a_star_sets_many_items),
        cmocka_unit_test(seeing_stands_for_r0),
        cmocka_unit_test(rates_and_times_override_each_other),
        cmocka_unit_test(rings_are_written_out),
        cmocka_unit_test(stars_of_a_ring_have_their_own_values),
        cmocka_unit_test(light_has_one_source),
        cmocka_unit_test(the_published_model_is_that_of_points),
        cmocka_unit_test(rings_and_their_stars_are_overridden),
        cmocka_unit_test(target_files_have_columns_and_names),
    };
    return cmocka_run_group_tests(tests, begin, leave_folder);
}
