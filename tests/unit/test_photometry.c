/* Photons of stars by band and colour, against figures worked out from the cited tables. */
#include "system/photometry.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#define CLOSE(got, want, tolerance)                                                                \
    do {                                                                                           \
        const double close_a = (got), close_b = (want);                                            \
        if (!(fabs(close_a / close_b - 1) <= (tolerance)))                                         \
            fail_msg("%s is %.10g, expected %.10g", #got, close_a, close_b);                       \
    } while (0)

/* In a narrow filter at a band's effective wavelength: flux times wavelength over h c, the fluxes
 * of Bessell, Castelli & Plez 1998 (table A2) in photons/s/cm^2/angstrom. */
static void test_zero_points(void **state) {
    (void)state;
    const struct {
        int band;
        double um, photons;
    } known[] = {{BAND_U, 0.366, 769.2},  {BAND_B, 0.438, 1393.5}, {BAND_V, 0.545, 996.2},
                 {BAND_R, 0.641, 702.5},  {BAND_I, 0.798, 452.3},  {BAND_Z, 0.8817, 382.0},
                 {BAND_Y, 1.0305, 296.7}, {BAND_J, 1.22, 193.3},   {BAND_H, 1.63, 93.38},
                 {BAND_K, 2.19, 43.67},   {BAND_KS, 2.19, 43.67},  {BAND_L, 3.45, 12.30}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        CLOSE(photometry_zero(known[i].band, NAN, known[i].um * 1e-6, 1e-10),
              1e4 * known[i].photons, 5e-4);
}

/* The published constant, 10^2.9, is 8.5 times too bright in H and 18 times in K. */
static void test_against_the_constant(void **state) {
    (void)state;
    CLOSE(pow(10, 2.9) * 1e4 / photometry_zero(BAND_H, NAN, 1.63e-6, 1e-10), 8.506, 1e-3);
    CLOSE(pow(10, 2.9) * 1e4 / photometry_zero(BAND_K, NAN, 2.19e-6, 1e-10), 18.19, 1e-3);
    CLOSE(pow(10, 2.9) * 1e4 / photometry_zero(BAND_V, NAN, 0.545e-6, 1e-10), 0.7974, 1e-3);
}

/* A wide band has the mean: of a power law between V and R, whose integral is elementary. */
static void test_width(void **state) {
    (void)state;
    const double a = log(702.5 / 996.2) / log(0.641 / 0.545), from = 0.56, to = 0.63;
    const double mean = 996.2 * (pow(to / 0.545, a + 1) - pow(from / 0.545, a + 1)) * 0.545 /
                        ((a + 1) * (to - from));
    CLOSE(photometry_zero(BAND_V, NAN, 0.595e-6, 0.07e-6), 0.07e-6 * 1e14 * mean, 1e-3);
}

/* Pecaut & Mamajek 2013, table 5: of a G2V star V - Ks 1.564, H - Ks 0.073, J - H 0.293; of K4V
 * B - V 1.09, taken between K3 and K5; Gaia's of M2V: G - V -0.925, G - RP 1.06. */
static void test_colours(void **state) {
    (void)state;
    const double vega[] = {photometry_zero(BAND_K, NAN, 2.19e-6, 1e-10),
                           photometry_zero(BAND_J, NAN, 1.22e-6, 1e-10),
                           photometry_zero(BAND_B, NAN, 0.438e-6, 1e-10),
                           photometry_zero(BAND_V, NAN, 0.545e-6, 1e-10)};
    double type;
    assert_true(photometry_type("G2V", &type));
    CLOSE(photometry_zero(BAND_V, type, 2.19e-6, 1e-10), vega[0] * pow(10, 0.4 * 1.564), 1e-4);
    CLOSE(photometry_zero(BAND_V, type, 1.22e-6, 1e-10),
          vega[1] * pow(10, 0.4 * (1.564 - 0.073 - 0.293)), 1e-4);
    assert_true(photometry_type("K4", &type));
    CLOSE(photometry_zero(BAND_V, type, 0.438e-6, 1e-10), vega[2] * pow(10, -0.4 * 1.09), 0.03);
    CLOSE(photometry_zero(BAND_V, type, 0.438e-6, 1e-10),
          vega[2] * pow(10, -0.4 * (0.990 + 1.150) / 2), 1e-4);
    assert_true(photometry_type("M2 V", &type));
    CLOSE(photometry_zero(BAND_G, type, 0.545e-6, 1e-10), vega[3] * pow(10, -0.4 * 0.925), 1e-4);
    CLOSE(photometry_zero(BAND_RP, type, 0.545e-6, 1e-10), vega[3] * pow(10, -0.4 * (0.925 + 1.06)),
          1e-4);
}

static void test_words(void **state) {
    (void)state;
    const char *const wrong[] = {"",    "G",     "B8", "M6.5", "O5", "L2",
                                 "G10", "G2III", "2G", "G-1",  "sun"};
    double type;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (photometry_type(wrong[i], &type))
            fail_msg("%s is taken for a type", wrong[i]);
    assert_true(photometry_type("k3.5v", &type) && type == 43.5);
    assert_int_equal(photometry_band_at(0.65e-6), BAND_R);
    assert_int_equal(photometry_band_at(1.65e-6), BAND_H);
    assert_int_equal(photometry_band_at(9e-6), BAND_L);
    assert_true(photometry_in_band(BAND_R, 0.65e-6) && photometry_in_band(BAND_G, 0.65e-6));
    assert_false(photometry_in_band(BAND_V, 0.65e-6) || photometry_in_band(BAND_KS, 1.65e-6));
    assert_string_equal(photometry_band_name(BAND_RP), "RP");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_zero_points), cmocka_unit_test(test_against_the_constant),
        cmocka_unit_test(test_width), cmocka_unit_test(test_colours), cmocka_unit_test(test_words)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
