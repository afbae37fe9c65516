/* Files of the published framework: both variants of the system file, profiles, and their mistakes.
 * The small texts here are written by hand in that format. */
#include "params/legacy.h"
#include "params_case.h"

#include <math.h>

static const char full[] =
    "tel diam in meters\n39\ncent obs\n0.2\nTframe s\n0.004\nN WFS\n4\nnlgs\n2\nnTarget\n2\n"
    "Nssp n subaps per wfs\n10\nGsAlt\n1e-05 1.1e-05 0 0  \ntype\n2 2 1 1  \nalphaX in arcsec\n23 "
    "-11.5 -16 0\n"
    "alphaY in arcsec\n0 19.5 -36 0\nXPup\n0 0.5 0 0\nYPup\n0 0 0 0\nthetaML\n0 1 0 0\nthetaCam\n0 "
    "0 0 0\n"
    "sensibilite\n1 1 1 1\ntracking\n0 0 0\npasDphi\n0.0001\nncpu\n12\nmagnitude of NGS\n13. 14.\n"
    "Flux for LGS\n6e7\npixel size for ngs\n0.3\npixel size for lgs\n1\nwave NGS\n650e-9\nwave "
    "LGS\n589e-9\n"
    "bandwidth\n3300e-10\ntransmission for NGS\n0.425\ntransmission for "
    "LGS\n0.382\natmosphere\n0.84\n"
    "Read Out Noise\n3\nlgs_cst\n1\nspot_width arcsec\n1.5\nlgs_alt (m)\n100000\nlgs_depth "
    "(m)\n5000\n"
    "targetX\n0 1\ntargetY\n0 2\n";

static const char brief[] =
    "tel diam in meters\n39\ncent obs\n0.2\nN WFS\n4\nNssp\n29\nGsAlt\n1e-05 1e-05 0  \ntype\n2 2 "
    "1\nnlgs\n2\n"
    "alphaX\n23 7.1 -16 0\nalphaY\n0 21.8 -36 0\nXPup\n0 0 0\nYPup\n0 0 0\nthetaML\n0 0 "
    "0\nthetaCam\n0 0 0\n"
    "sensibilite\n1 1 1\ntracking\n0 0 "
    "0\npasDphi\n0.0001\nncpu\n12\nlgs_cst\n1\nnoise_var\n0.01\nspot_width\n1\n"
    "lgs_alt (m)\n100000\nlgs_depth (m)\n5000";

static const char layers[] = "Nlayer\n3\nr0 @ wfs lambda\n0.5\ncn2 ESO units\n28.5 1.5 0.0\nh in "
                             "meters\n30 12500\n15000\nl0 in meters\n25 20 25";

static void assert_number(double value, double expected) {
    if (!(value == expected))
        fail_msg("%.17g is not %.17g", value, expected);
}

static void full_variant(void **state) {
    (void)state;
    legacy_system s;
    status_clear();
    assert_int_equal(legacy_system_parse("s", full, &s), MOAO_OK);
    assert_true(s.full);
    assert_int_equal(s.nsensor, 3);
    assert_int_equal(s.nlgs, 2);
    assert_int_equal(s.nssp, 10);
    assert_number(s.frame_time, 0.004);
    assert_number(s.inverse_altitude[1], 1.1e-5);
    assert_number(s.direction[1][1], 19.5);
    assert_number(s.shift[0][1], 0.5);
    assert_number(s.rotation[1], 1);
    assert_number(s.magnitude[0], 13);
    assert_number(s.bandwidth, 3300e-10);
    assert_number(s.lgs_width, 1.5);
    assert_int_equal(s.ntarget, 2);
    assert_number(s.target[1][1], 2);
    legacy_system_free(&s);
    legacy_system_free(&s); /* idempotent */
}

/* One entry short in the lists whose last is the truth sensor's. */
static void brief_variant(void **state) {
    (void)state;
    legacy_system s;
    status_clear();
    assert_int_equal(legacy_system_parse("s", brief, &s), MOAO_OK);
    assert_false(s.full);
    assert_int_equal(s.nsensor, 3);
    assert_int_equal(s.nssp, 29);
    assert_int_equal(s.type[2], 1);
    assert_number(s.noise_variance, 0.01);
    assert_number(s.tiptilt, 1);
    assert_number(s.lgs_depth, 5000);
    assert_int_equal(s.ntarget, 0);
    assert_null(s.magnitude);
    assert_true(isnan(s.frame_time));
    legacy_system_free(&s);
}

static void profile_counts_its_strengths(void **state) {
    (void)state;
    legacy_profile p;
    status_clear();
    assert_int_equal(legacy_profile_parse("p", layers, &p), MOAO_OK);
    assert_int_equal(p.n, 3);
    assert_number(p.strength[0], 28.5);
    assert_number(p.altitude[2], 15000);
    assert_number(p.L0[1], 20);
    assert_number(p.r0, 0.5);
    legacy_profile_free(&p);
    legacy_profile_free(&p);
    params par;
    write_case("a.yaml");
    write_bytes("prof.txt", layers, strlen(layers));
    load("a.yaml", "atmosphere.legacy={files: [prof.txt]}", &par);
    assert_number(par.atmosphere_profiles.v[0].layers_strength.v[0], 28.5);
    assert_int_equal(par.notes.n, 1); /* r0 of the strengths is 0.130 m */
    assert_non_null(strstr(par.notes.v[0], "0.1299 m from the strengths, which count, not 0.5 m"));
    params_free(&par);
}

/* `text` with old replaced by new must give the message. */
static void expect(bool profile, const char *text, const char *old, const char *new,
                   const char *place, const char *phrase) {
    char changed[4096];
    const char *at = strstr(text, old);
    assert_non_null(at);
    snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text, new, at + strlen(old));
    legacy_profile p = {0};
    legacy_system s = {0};
    status_clear();
    status st =
        profile ? legacy_profile_parse("f", changed, &p) : legacy_system_parse("f", changed, &s);
    const char *message = status_message();
    if (st != MOAO_INPUT || strncmp(message, place, strlen(place)) != 0 || !strstr(message, phrase))
        fail_msg("expected %s %s, got %d %s", place, phrase, (int)st, message);
    legacy_profile_free(&p);
    legacy_system_free(&s);
}

static void mistakes_name_their_line(void **state) {
    (void)state;
    expect(true, layers, "3\n", "2.5\n", "f:3:1: layers:", "not a whole number");
    expect(true, layers, "28.5", "-28.5",
           "f:7:1: strength:", "number 1 is -28.5, expected none below 0");
    expect(true, layers, "28.5", "nan", "f:6:1: strength:", "0 numbers, expected 3");
    expect(true, layers, "1.5", "nan", "f:6:6: strength:", "'nan' is not a finite number");
    expect(true, layers, "1.5", "1.5x", "f:6:6: strength:", "'1.5x' is not a finite number");
    expect(true, layers, "1.5", "1e999", "f:6:6: strength:", "not a finite number");
    expect(true, layers, "28.5 1.5", "28.5", "f:7:1: strength:", "2 numbers, expected 3");
    expect(true, layers, "28.5 1.5", "28.5 1 1.5", "f:6:15: strength:", "more than 3 numbers");
    expect(true, layers, "25 20 25", "25 20", "f:11:6: L0:", "2 numbers, expected 3");
    expect(true, layers, "l0 in meters\n25 20 25", "", "f:10:1: L0:", "the file ends");
    expect(true, layers, "Nlayer\n", "", "f:1:1: layers:", "expected a line of comment");
    expect(true, layers, "20 25", "0 25", "f:11:8: L0:", "number 2 is 0");
    expect(false, full, "2 2 1 1", "2 1 1 1",
           "f:", "sensor 2 is of type 1 with an inverse altitude of 1.1e-05");
    expect(false, full, "2 2 1 1", "2 3 1 1", "f:", "neither 1 nor 2");
    expect(false, full, "nlgs\n2", "nlgs\n1", "f:", "1 LGS are stated, expected 2");
    expect(false, full, "13. 14.", "13. 14. 15.", "f:", "magnitude: more than 2 numbers");
    expect(false, full, "0.2", "1.2", "f:5:1: obs:", "out of range");
    expect(false, brief, "7.1 -16 0", "7.1", "f:17:1: alphaX:", "2 numbers, expected 3");
    expect(false, brief, "lgs_depth (m)\n5000", "", "f:43:1: lgs_depth:", "the file ends");
}

static void no_prefix_crashes(void **state) {
    (void)state;
    const char *const texts[] = {full, brief, layers};
    char *text = malloc(sizeof full + sizeof brief);
    assert_non_null(text);
    for (int i = 0; i < 3; i++)
        for (size_t n = 0; n < strlen(texts[i]); n++) {
            legacy_profile p = {0};
            legacy_system s = {0};
            memcpy(text, texts[i], n);
            text[n] = '\0';
            status_clear();
            status st =
                i == 2 ? legacy_profile_parse("f", text, &p) : legacy_system_parse("f", text, &s);
            assert_true(st == MOAO_OK ||
                        (st == MOAO_INPUT && strncmp(status_message(), "f:", 2) == 0));
            legacy_profile_free(&p);
            legacy_system_free(&s);
        }
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full_variant),
        cmocka_unit_test(brief_variant),
        cmocka_unit_test(profile_counts_its_strengths),
        cmocka_unit_test(mistakes_name_their_line),
        cmocka_unit_test(no_prefix_crashes),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
