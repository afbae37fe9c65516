/* docs/parameters.md is what the program prints, and every parameter is described. */
#include "params_case.h"

#include "params/params_table.h"

static char *read_page(void) {
    const char *root = getenv("MOAO_ROOT");
    char name[4096];
    snprintf(name, sizeof name, "%s/docs/parameters.md", root ? root : ".");
    FILE *f = fopen(name, "rb");
    char *text = calloc(1, 1 << 20);
    assert_non_null(f);
    assert_non_null(text);
    assert_true(fread(text, 1, (1 << 20) - 1, f) > 0);
    fclose(f);
    return text;
}

static void page_is_up_to_date(void **state) {
    (void)state;
    char *page = read_page(), *made = params_reference(REFERENCE_MARKDOWN);
    assert_non_null(made);
    if (strcmp(page, made) != 0)
        fail_msg("docs/parameters.md is out of date: moao params --markdown > docs/parameters.md");
    free(page);
    free(made);
}

static void check_table(const param_table *t, const char *reference) {
    char path[PARAM_PATH], expected[512], ticked[PARAM_PATH + 2];
    for (int i = 0; i < t->n; i++) {
        const param_field *f = &t->fields[i];
        size_t n = strlen(f->sentence);
        param_field_path(f, path);
        snprintf(ticked, sizeof ticked, "`%.500s`", path);
        assert_non_null(strstr(reference, ticked));
        param_field_expected(f, expected, sizeof expected);
        assert_true(strlen(expected) > 3);
        assert_true(n > 10 && f->sentence[n - 1] == '.');
        assert_null(strchr(f->sentence, '|')); /* would break the page's tables */
        assert_ptr_equal(param_table_find(t, path), f);
    }
}

static void every_parameter_is_described(void **state) {
    (void)state;
    char *reference = params_reference(REFERENCE_MARKDOWN),
         *plain = params_reference(REFERENCE_PLAIN);
    check_table(&params_main_table, reference);
    check_table(&params_sensor_table, reference);
    check_table(&params_profile_table, reference);
    assert_non_null(
        strstr(plain, "telescope.diameter: number, m, default: required, range: [0.1, 200]"));
    for (const char *p = plain; *p; p += strcspn(p, "\n") + 1) /* lines for a terminal */
        assert_true(strcspn(p, "\n") < 80);
    free(reference);
    free(plain);
}

/* A section, a key by its name or path, the keys of a sensor; and what is none. */
static void parts_are_found(void **state) {
    (void)state;
    static const struct {
        const char *name, *has, *has_not;
    } c[] = {
        {"telescope", "telescope.zenith:", "dm.nssp:"},
        {"targets.grid", "targets.grid.nx:", "targets.list:"},
        {"sensors", "  frame_rate: number, Hz", "telescope."},
        {"sensors.magnitude", "  magnitude: number", "magnification:"},
        {"frame_time", "It counts the photons", "  magnitude:"},
        {"layers", "  layers.L0:", "  r0:"},
        {"profiles", "  seeing: number, arcsec", "telescope."},
        {"atmosphere", "atmosphere.legacy.interval:", "telescope."},
        {"units", "H=1.65", "telescope"},
        /* words of the field, in names and texts, and what they are called here */
        {"actuators", "dm.nssp, it counts subapertures across", "telescope.diameter:"},
        {"photon", "  lgs_return:", "telescope."},
        {"Pupil", "telescope.diameter:", "output."},
        {"vibration", "errors.jitter:", "telescope."},
        {"laser", "  lgs_return:", "telescope.diameter:"},
        {"obscuration", "telescope.obscuration:", "dm."},
        {"spider", "telescope.spiders.number:", "dm."},
        {"segment", "telescope.segments.gap:", "dm."},
        {"latency", "loop.delay:", "telescope."},
    };
    char *text;
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        assert_int_equal(params_reference_section(c[i].name, &text), MOAO_OK);
        if (strstr(text, c[i].has) == NULL || strstr(text, c[i].has_not) != NULL)
            fail_msg("%s: %s", c[i].name, text);
        free(text);
    }
    status_clear();
    assert_int_equal(params_reference_section("telescpoe", &text), MOAO_INPUT);
    assert_null(text);
    assert_string_equal(status_message(),
                        "telescpoe: no such section or key, nor a word of their texts, did you "
                        "mean telescope?");
    status_clear();
}

/* Each default passes the check of its own range. */
static void defaults_are_valid(void **state) {
    (void)state;
    const param_table *const tables[] = {&params_main_table, &params_sensor_table,
                                         &params_sensor_table, &params_profile_table};
    params p = {0};
    sensor_params ngs = {0}, lgs = {0};
    profile_params q = {0};
    void *const bases[] = {&p, &ngs, &lgs, &q};
    const int types[] = {0, SENSOR_NGS, SENSOR_LGS, 0};
    status_clear();
    for (int i = 0; i < 4; i++) {
        status st = param_table_defaults(tables[i], types[i], bases[i]);
        assert_string_equal(status_message(), "");
        assert_int_equal(st, MOAO_OK);
        param_table_free(tables[i], bases[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(page_is_up_to_date),
        cmocka_unit_test(every_parameter_is_described),
        cmocka_unit_test(parts_are_found),
        cmocka_unit_test(defaults_are_valid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
