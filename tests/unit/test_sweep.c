/* The grid of a sweep: ranges, lists, what is swept and what is not; the list of runs is read back
 * as it was written. */
#include "job/sweep.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static status parse(const char *const *overrides, int n, sweep_grid *g) {
    const char *copy[8];
    memcpy(copy, overrides, (size_t)n * sizeof *copy);
    cmdline cl = {.noverride = n, .overrides = copy};
    status_clear();
    return sweep_parse(&cl, g);
}

/* Values of the axis that one override makes, joined by '|'; "" when it is not swept. */
static const char *values(const char *override) {
    static char text[1024];
    const char *both[] = {"loop.delay=[1, 2]", override};
    sweep_grid g;
    text[0] = '\0';
    if (parse(both, 2, &g) != MOAO_OK) {
        snprintf(text, sizeof text, "%s", status_message());
    } else if (g.naxis == 2) {
        for (int i = 0; i < g.axis[1].n; i++)
            snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i ? "|" : "",
                     g.axis[1].value[i]);
    }
    sweep_free(&g);
    return text;
}

static void test_values(void **state) {
    (void)state;
    static const char *const good[][2] = {
        {"telescope.zenith=0..60:15", "0|15|30|45|60"},
        {"telescope.zenith=0..3", "0|1|2|3"},
        {"telescope.zenith=3..0", "3|2|1|0"},
        {"telescope.zenith=0..1:0.3", "0|0.3|0.6|0.9"},
        {"telescope.zenith=0..0.3:0.1", "0|0.1|0.2|0.3"},
        {"telescope.zenith=-1..1:1", "-1|0|1"},
        {"atmosphere.profiles[0].r0=10..20:5 cm", "10 cm|15 cm|20 cm"},
        {"atmosphere.profiles[0].r0=10 cm..20 cm:5 cm", "10 cm|15 cm|20 cm"},
        {"sensors[2].magnitude=[10, 12.5]", "10|12.5"},
        {"sensors.NGS 1.magnitude=10..12", "10|11|12"},
        {"sensors.*.magnitude=12..16:2", "12|14|16"},
        {"sensors[*].direction=[[0, 1], [2, 3]]", "[0, 1]|[2, 3]"},
        {"atmosphere.profiles.*.seeing=[0.8, 1]", "0.8|1"},
        {"ngs_defaults.nssp=[8,16]", "8|16"},
        {"psf.wavelengths=1..2:0.5 um", "1 um|1.5 um|2 um"},
        {"psf.wavelengths=[[1, 2], [1.65 um]]", "[1, 2]|[1.65 um]"},
        {"sensors[0].direction=[[0, 1], [2, 3]]", "[0, 1]|[2, 3]"},
        {"output.psf=[long, none]", "long|none"},
        {"atmosphere.file=[a.yaml, 'b, c.yaml']", "a.yaml|'b, c.yaml'"},
        /* what the key takes as it is */
        {"psf.wavelengths=[1, 2]", ""},
        {"sensors[0].direction=[0, 1]", ""},
        {"atmosphere.profiles[*].layers.altitude=[0, 1]", ""},
        {"atmosphere.profiles.*.layers.altitude=[0, 1]", ""},
        {"targets.list=[[0, 1], [2, 3]]", ""},
        {"atmosphere.file=../night.yaml", ""},
        {"title=from 1..2", ""},
        {"telescope.zenith=30", ""},
        /* mistakes */
        {"telescope.zenith=0..0.5",
         "telescope.zenith=0..0.5: no step, expected one, as in 0..0.5:0.125"},
        {"telescope.zenith=0..x",
         "telescope.zenith=0..x: not a range, expected a..b or a..b:step with "
         "one unit behind"},
        {"telescope.zenith=0..1:0",
         "telescope.zenith=0..1:0: not a range, expected a..b or a..b:step "
         "with one unit behind"},
        {"telescope.zenith=0 deg..1 rad",
         "telescope.zenith=0 deg..1 rad: not a range, expected a..b or "
         "a..b:step with one unit behind"},
        {"telescope.zenith=0..1:1e-9",
         "telescope.zenith=0..1:1e-9: more than 10000 values, expected fewer"},
        {"telescope.zenith=[1, 2",
         "telescope.zenith=[1, 2: the list is not closed, expected [a, b, ...]"},
        {"telescope.zenith=[1,,2]",
         "telescope.zenith=[1,,2]: an empty value, expected [a, b, ...]"},
        {"loop.delay=[3]", "moao sweep: loop.delay is swept twice"},
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_string_equal(values(good[i][0]), good[i][1]);
}

/* A range whose steps do not reach its end says so. */
static void test_missed_end(void **state) {
    (void)state;
    static const struct {
        const char *range;
        bool missed;
        double end;
    } of[] = {{"telescope.zenith=0..40:15", true, 40},
              {"telescope.zenith=0..45:15", false, 45},
              {"telescope.zenith=0..0.3:0.1", false, 0.3},
              {"telescope.zenith=3..0.5", true, 0.5}};
    sweep_grid g;
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        assert_int_equal(parse(&of[i].range, 1, &g), MOAO_OK);
        assert_int_equal(g.axis[0].missed, of[i].missed);
        assert_true(g.axis[0].end == of[i].end);
        sweep_free(&g);
    }
}

static void test_product(void **state) {
    (void)state;
    static const char *const words[] = {"telescope.zenith=[0, 30]", "title=it's",
                                        "sensors[0].magnitude=10..12"};
    sweep_grid g;
    assert_int_equal(parse(words, 3, &g), MOAO_OK);
    assert_int_equal(g.nrun, 6);
    assert_int_equal(g.nplain, 1);
    assert_string_equal(sweep_value(&g, 0, 2), "0");
    assert_string_equal(sweep_value(&g, 1, 2), "12");
    assert_string_equal(sweep_value(&g, 0, 3), "30");
    assert_string_equal(sweep_value(&g, 1, 3), "10");
    sweep_free(&g);
    static const char *const many[] = {"telescope.zenith=0..60:0.1", "loop.delay=0..100"};
    assert_int_equal(parse(many, 2, &g), MOAO_INPUT);
    assert_non_null(strstr(status_message(), "60701 runs, expected at most 10000"));
    sweep_free(&g);
    assert_int_equal(parse(&words[1], 1, &g), MOAO_INPUT);
    assert_non_null(strstr(status_message(), "no key takes several values"));
    sweep_free(&g);
}

/* Names of folders are plain and all different; what is written is read back; further values join.
 */
static void test_list(void **state) {
    (void)state;
    static const char *const words[] = {"sensors[0].direction=[[0, 1], [2, 3]]",
                                        "title=it's a \"b\\c\"", "loop.delay=[1 ms]"};
    static const char *const more[] = {"sensors[0].direction=[[2, 3], [4, 5]]",
                                       "loop.delay=[1 ms]"};
    static const char *const lattice_pairs[] = {"output.psf=[long, 'long']"};
    char dir[] = "/tmp/moao-sweep-XXXXXX", path[64];
    sweep_grid g;
    sweep_list l, back;
    assert_non_null(mkdtemp(dir));
    assert_int_equal(parse(words, 3, &g), MOAO_OK);
    assert_int_equal(sweep_list_make(&g, &l), MOAO_OK);
    assert_string_equal(l.run[1].folder, "sensors0.direction=2_3,loop.delay=1ms");
    assert_int_equal(sweep_list_write(dir, &l), MOAO_OK);
    assert_int_equal(sweep_list_read(dir, &back), MOAO_OK);
    assert_int_equal(back.nrun, 2);
    assert_int_equal(back.nkey, 2);
    assert_string_equal(back.key[0], "sensors[0].direction");
    for (int i = 0; i < 2; i++) {
        assert_string_equal(back.run[i].folder, l.run[i].folder);
        assert_int_equal(back.run[i].n, 3);
        for (int k = 0; k < 3; k++)
            assert_string_equal(back.run[i].word[k], l.run[i].word[k]);
    }
    sweep_list_free(&l);
    sweep_free(&g);
    assert_int_equal(parse(more, 2, &g), MOAO_OK);
    assert_int_equal(sweep_list_make(&g, &l), MOAO_OK);
    assert_int_equal(sweep_list_join(&l, &back, dir), MOAO_OK);
    assert_int_equal(l.nrun, 3);
    sweep_list_free(&l);
    sweep_list_free(&back);
    sweep_free(&g);
    assert_int_equal(parse(lattice_pairs, 1, &g), MOAO_OK);
    assert_int_equal(sweep_list_make(&g, &l), MOAO_OK);
    assert_string_not_equal(l.run[0].folder, l.run[1].folder);
    sweep_list_free(&l);
    sweep_free(&g);
    snprintf(path, sizeof path, "%s/runs.txt", dir);
    unlink(path);
    assert_int_equal(sweep_list_read(dir, &back), MOAO_OK);
    assert_int_equal(back.nkey, 0);
    rmdir(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_missed_end),
        cmocka_unit_test(test_product),
        cmocka_unit_test(test_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
