/* Numbers with units are converted exactly or refused, and written so that they come back bit for
 * bit. */
#include "params/units.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void accepted(void **state) {
    (void)state;
    static const struct {
        const char *text;
        dimension dim;
        const char *unit;
        double value;
    } c[] = {
        {"1.65", DIM_LENGTH, "um", 1.65e-6},
        {"1.65 um", DIM_LENGTH, "m", 1.65e-6},
        {"1650nm", DIM_LENGTH, "m", 1.65e-6},
        {"1.65 \xc2\xb5m", DIM_LENGTH, "m", 1.65e-6},
        {"10 min", DIM_TIME, "s", 600},
        {"1e3", DIM_NONE, "", 1000},
        {"-.5E-1", DIM_NONE, "", -0.05},
        {"+3.", DIM_NONE, "", 3},
        {"4 GB", DIM_BYTES, "B", 4e9},
        {"1 GiB", DIM_BYTES, "B", 1073741824},
        {"36 km/h", DIM_SPEED, "m/s", 10},
        {"2 ph/cm2/s", DIM_FLUX, "ph/m2/s", 2e4},
        {"3 e-", DIM_CHARGE, "e-", 3},
        {"2 mas2", DIM_VARIANCE, "arcsec2", 2e-6},
        {"180", DIM_ANGLE, "deg", 3.141592653589793},
        {"0.5 kHz", DIM_RATE, "Hz", 500},
        {"H", DIM_WAVELENGTH, "um", 1.65e-6},
        {"Ks", DIM_WAVELENGTH, "um", 2.15e-6},
        {"2.2", DIM_WAVELENGTH, "um", 2.2e-6},
        {"589 nm", DIM_WAVELENGTH, "um", 589e-9},
        {"1e-310", DIM_STRENGTH, "m^-5/3", 1e-310}, /* small, but a double holds it */
    };
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        double v = NAN;
        char why[128];
        if (!units_parse(c[i].text, c[i].dim, c[i].unit, false, &v, why, sizeof why))
            fail_msg("%s: %s", c[i].text, why);
        if (!(fabs(v - c[i].value) <= DBL_EPSILON * fabs(v)))
            fail_msg("%s: %.17g is not %.17g", c[i].text, v, c[i].value);
    }
}

/* Every unit and every band by its definition, and none but these. */
static void every_unit(void **state) {
    (void)state;
    static const double degree = 3.141592653589793 / 180;
    static const struct {
        dimension dim;
        const char *names; /* as units_list has them, then others of the same value each */
        double value[12];
    } of[] = {
        {DIM_LENGTH, "m, km, cm, mm, um, nm, angstrom", {1, 1e3, 1e-2, 1e-3, 1e-6, 1e-9, 1e-10}},
        {DIM_ANGLE,
         "rad, mrad, urad, deg, arcmin, arcsec, mas",
         {1, 1e-3, 1e-6, degree, degree / 60, degree / 3600, degree / 3.6e6}},
        {DIM_TIME, "s, ms, us, min, h, d", {1, 1e-3, 1e-6, 60, 3600, 86400}},
        {DIM_SPEED, "m/s, km/h", {1, 1 / 3.6}},
        {DIM_BYTES,
         "B, kB, MB, GB, TB, KiB, MiB, GiB, TiB",
         {1, 1e3, 1e6, 1e9, 1e12, 1024, 1048576, 1073741824, 1099511627776}},
        {DIM_VARIANCE, "arcsec2, arcsec^2, mas2, mas^2", {1, 1, 1e-6, 1e-6}},
        {DIM_FLUX, "ph/m2/s, ph/m^2/s, ph/cm2/s, ph/cm^2/s", {1, 1, 1e4, 1e4}},
        {DIM_CHARGE, "e-", {1}},
        {DIM_STRENGTH, "m^-5/3, m^(-5/3)", {1, 1}},
        {DIM_RATE, "Hz, kHz", {1, 1e3}},
        {DIM_WAVELENGTH,
         "m, km, cm, mm, um, nm, angstrom",
         {1, 1e3, 1e-2, 1e-3, 1e-6, 1e-9, 1e-10}},
    };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        char list[256], text[300], why[128], *rest = list;
        units_list(of[i].dim, list, sizeof list);
        assert_string_equal(list, of[i].names);
        for (int k = 0; rest != NULL && *rest != '\0'; k++) {
            char *name = rest, *end = strstr(rest, ", ");
            double v = NAN;
            rest = end != NULL ? end + 2 : NULL;
            if (end != NULL)
                *end = '\0';
            snprintf(text, sizeof text, "3 %s", name);
            assert_true(units_parse(text, of[i].dim, name, false, &v, why, sizeof why));
            if (!(fabs(v / 3 - of[i].value[k]) <= 4 * DBL_EPSILON * of[i].value[k]))
                fail_msg("%s is %.17g, not %.17g", text, v, 3 * of[i].value[k]);
            double in = units_in(of[i].value[k], of[i].dim, name); /* and back */
            if (!(fabs(in - 1) <= 4 * DBL_EPSILON))
                fail_msg("%.17g is %.17g %s, not 1", of[i].value[k], in, name);
        }
    }
}

static void every_band(void **state) {
    (void)state;
    static const struct {
        const char *name;
        double um;
    } of[] = {{"U", 0.36}, {"B", 0.44}, {"V", 0.55}, {"R", 0.64}, {"I", 0.79},
              {"Z", 0.88}, {"Y", 1.02}, {"J", 1.25}, {"H", 1.65}, {"Ks", 2.15},
              {"K", 2.2},  {"L", 3.45}, {"M", 4.8},  {"N", 10.5}};
    char want[256] = "", list[256];
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        double v = NAN;
        char why[128];
        assert_true(units_parse(of[i].name, DIM_WAVELENGTH, "um", false, &v, why, sizeof why));
        if (!(fabs(v - 1e-6 * of[i].um) <= 4 * DBL_EPSILON * v))
            fail_msg("%s is %.17g m", of[i].name, v);
        snprintf(want + strlen(want), sizeof want - strlen(want), "%s%s=%g", i > 0 ? ", " : "",
                 of[i].name, of[i].um);
    }
    units_bands(list, sizeof list);
    assert_string_equal(list, want);
}

static void refused(void **state) {
    (void)state;
    static const char *const bad[] = {"",
                                      " 1",
                                      "nan",
                                      "inf",
                                      "-inf",
                                      "0x10",
                                      "1e",
                                      "1 e3",
                                      "--1",
                                      "+",
                                      "1e400",
                                      "1 kg",
                                      "1 s",
                                      "1,5",
                                      "1 m 2",
                                      "m",
                                      ".",
                                      "e5",
                                      "1m2",
                                      "1 M",
                                      "infinity",
                                      "NAN(1)",
                                      "1.2.3",
                                      "1_000",
                                      "\xc2\xa0"
                                      "1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        double v;
        char why[128] = "";
        if (units_parse(bad[i], DIM_LENGTH, "m", false, &v, why, sizeof why))
            fail_msg("'%s' was taken for %g", bad[i], v);
        assert_true(strlen(why) > 0);
    }
    double v;
    char why[128];
    assert_false(units_parse("1 m", DIM_NONE, "", false, &v, why, sizeof why));
    assert_string_equal(why, "has a unit");
    assert_true(units_parse("inf", DIM_LENGTH, "m", true, &v, why, sizeof why));
    assert_true(isinf(v));
}

/* 20,000 numbers of all sizes, in units whose factor is no power of two. */
static void written_numbers_come_back(void **state) {
    (void)state;
    static const struct {
        dimension dim;
        const char *unit;
    } u[] = {{DIM_ANGLE, "arcsec"}, {DIM_ANGLE, "mas"}, {DIM_ANGLE, "deg"}, {DIM_LENGTH, "um"},
             {DIM_LENGTH, "nm"},    {DIM_TIME, "s"},    {DIM_NONE, ""}};
    uint64_t x = 88172645463325252u;
    for (int i = 0; i < 20000; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        double v = ((double)(x >> 11) - 4503599627370496.0) * pow(2, (int)(x % 120) - 110), back;
        char text[64], why[128];
        size_t k = (size_t)i % (sizeof u / sizeof *u);
        units_format(v, u[k].dim, u[k].unit, text, sizeof text);
        if (!units_parse(text, u[k].dim, u[k].unit, false, &back, why, sizeof why) ||
            memcmp(&v, &back, sizeof v) != 0)
            fail_msg("%.17g written as %s %s", v, text, u[k].unit);
    }
}

static void written_numbers_are_short(void **state) {
    (void)state;
    char text[64];
    double v;
    units_parse("16.617009", DIM_ANGLE, "arcsec", false, &v, text, sizeof text);
    units_format(v, DIM_ANGLE, "arcsec", text, sizeof text);
    assert_string_equal(text, "16.617009");
    units_format(90e3, DIM_LENGTH, "m", text, sizeof text);
    assert_string_equal(text, "90000");
    units_format(7e6, DIM_NONE, "", text, sizeof text);
    assert_string_equal(text, "7000000");
    units_format(3e-3, DIM_NONE, "", text, sizeof text);
    assert_string_equal(text, "0.003");
    units_format(INFINITY, DIM_LENGTH, "m", text, sizeof text);
    assert_string_equal(text, "inf");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accepted),
        cmocka_unit_test(every_unit),
        cmocka_unit_test(every_band),
        cmocka_unit_test(refused),
        cmocka_unit_test(written_numbers_come_back),
        cmocka_unit_test(written_numbers_are_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
