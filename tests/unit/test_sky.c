/* The field on the sky, and what is written of it: projections there and back, times, angles,
 * wanted figures, stars of a field. (Against astropy: tests/e2e/test_asterism.py.) */
#include "asterism/stars.h"
#include "asterism/want.h"
#include "job/asterism_scene.h"
#include "system/sky.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const double DEGREE = M_PI / 180, ARCSEC = M_PI / 648000;

static void near(double a, double b, double tolerance) {
    if (!(fabs(a - b) <= tolerance))
        fail_msg("%.15g is not %.15g within %g", a, b, tolerance);
}

static void test_projection(void **state) {
    (void)state;
    const sky s = {.ra = 10 * DEGREE, .dec = 60 * DEGREE, .angle = 0};
    const sky turned = {.ra = 10 * DEGREE, .dec = 60 * DEGREE, .angle = 90 * DEGREE};
    double xy[2], ra, dec;
    assert_true(sky_project(&s, s.ra, s.dec + 10 * ARCSEC, xy)); /* north is y */
    near(xy[0], 0, 1e-15);
    near(xy[1], 10 * ARCSEC, 1e-12);
    assert_true(
        sky_project(&s, s.ra + 20 * ARCSEC, s.dec, xy)); /* east is -x, shorter by cos(dec) */
    near(xy[0], -10 * ARCSEC, 1e-8 * ARCSEC + 1e-12);
    assert_true(sky_project(&turned, s.ra, s.dec + 10 * ARCSEC, xy)); /* y points east, x north */
    near(xy[0], 10 * ARCSEC, 1e-12);
    near(xy[1], 0, 1e-15);
    assert_false(sky_project(&s, s.ra + M_PI, 20 * DEGREE, xy));
    for (int i = 0; i < 200; i++) { /* there and back, poles included */
        const sky any = {.ra = i * 0.031, .dec = (i - 100) * 0.0157, .angle = i * 0.05};
        const double at[2] = {(i % 7 - 3) * 400 * ARCSEC, (i % 11 - 5) * 300 * ARCSEC};
        sky_deproject(&any, at, &ra, &dec);
        assert_true(ra >= 0 && ra < 2 * M_PI && fabs(dec) <= M_PI / 2);
        assert_true(sky_project(&any, ra, dec, xy));
        near(xy[0], at[0], 1e-12);
        near(xy[1], at[1], 1e-12);
    }
}

static void test_zenith(void **state) {
    (void)state;
    sky s = {.ra = 2, .dec = -30 * DEGREE};
    sky_from_hour_angle(&s, 0, -24 * DEGREE); /* on the meridian, the zenith is 6 degrees north */
    near(s.zenith, 6 * DEGREE, 1e-12);
    near(s.parallactic, 0, 1e-9);
    sky_from_hour_angle(&s, 30 * DEGREE, -24 * DEGREE); /* the formulas of textbooks */
    const double phi = -24 * DEGREE, d = s.dec, h = 30 * DEGREE;
    near(s.zenith, acos(sin(phi) * sin(d) + cos(phi) * cos(d) * cos(h)), 1e-12);
    near(s.parallactic, atan2(sin(h), tan(phi) * cos(d) - sin(d) * cos(h)), 1e-12);
    sky t = {.ra = 2,
             .dec = -30 * DEGREE}; /* at J2000 without precession, and a sidereal day later */
    sky_from_time(&t, 2451545.0, 1, -24 * DEGREE);
    s = t;
    sky_from_hour_angle(&s, t.hour_angle, -24 * DEGREE);
    near(s.zenith, t.zenith, 1e-9);
    near(s.parallactic, t.parallactic, 1e-9);
    sky_from_time(&t, 2451545.0 + 1 / 1.00273781191135448, 1, -24 * DEGREE);
    near(s.zenith, t.zenith, 1e-5);
}

static void test_words(void **state) {
    (void)state;
    double v;
    assert_true(sky_read_angle("10:00:28.6", true, &v));
    near(v, (10 + 28.6 / 3600) * 15 * DEGREE, 1e-14);
    assert_true(sky_read_angle(" -00:30:00 ", false, &v));
    near(v, -0.5 * DEGREE, 1e-15);
    assert_true(sky_read_angle("-12.5", true, &v)); /* a bare number is in degrees */
    near(v, -12.5 * DEGREE, 1e-15);
    assert_true(sky_read_angle("1.5 h", true, &v));
    near(v, 22.5 * DEGREE, 1e-15);
    assert_true(sky_read_angle("7 deg", true, &v));
    near(v, 7 * DEGREE, 1e-15);
    static const char *const bad[] = {
        "",        "east",   "1:60:00", "1:2:3:4",   "1:2 x", "--1",    "1e400",
        "3 h",     "0x10",   "0X1p3",   "inf",       "nan",   "+-1",    "1:0x2:3",
        "10.5:30", "10:3e1", "1:2:",    "7 degrees", "1 2",   "1:2:60", "10:00:75"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (sky_read_angle(bad[i], false, &v))
            fail_msg("'%s' was taken for an angle", bad[i]);
    assert_true(sky_read_time("2000-01-01T12:00:00", &v));
    near(v, 2451545.0, 1e-9);
    assert_true(sky_read_time("2026-11-22 03:14:15.5Z", &v));
    near(v, 2461366.5 + (3 + 14 / 60. + 15.5 / 3600) / 24, 1e-8);
    assert_true(sky_read_time("2024-02-29", &v));
    near(v, 2460369.5, 1e-9);
    assert_true(sky_read_time("2000-02-29T00:00Z", &v)); /* a century with a leap day */
    near(v, 2451603.5, 1e-9);
    assert_true(sky_read_time("2016-12-31T23:59:60", &v)); /* a leap second */
    near(v, 2457754.5, 1e-8);
    static const char *const none[] = {"",
                                       "now",
                                       "2026-13-01",
                                       "2026-11-22T24:30",
                                       "2026-11-22T23:60",
                                       "2026-11-22T03:14ZZ",
                                       "2026-11-22T25:00",
                                       "2026-11-22T03",
                                       "2026-11-22T03:14:xx",
                                       "2026-11-22T03:14:15 UTC",
                                       "2026-02-31",
                                       "2023-02-29",
                                       "1900-02-29",
                                       "2026-04-31",
                                       "2026-00-10",
                                       "2026-01-00",
                                       " 2026-01-01",
                                       "2026-+1-01",
                                       "2026-1-01",
                                       "20260-01-01",
                                       "0x10-01-01",
                                       "2026-11-22T03:14:0x1",
                                       "2026-11-22T03:14:1e1",
                                       "2026-11-22T03:14:60",
                                       "2026-11-22T03:14:15.5.5",
                                       "2026-11-22T+3:14"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        if (sky_read_time(none[i], &v))
            fail_msg("'%s' was taken for a time", none[i]);
}

/* A target without a value leaves none to the field; what images of a variance would have. */
static void test_values(void **state) {
    (void)state;
    static const char *const words[] = {"mean strehl", "min strehl", "max rms", "p30 strehl",
                                        "median rms"};
    const double v[3] = {0.2, NAN, 0.7}, two[2] = {4, 2};
    double scratch[3];
    want w;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        assert_int_equal(want_parse(words[i], &w), MOAO_OK);
        assert_true(isnan(want_value(&w, 3, v, scratch)));
    }
    assert_int_equal(want_parse("p25 rms", &w), MOAO_OK);
    near(want_value(&w, 2, two, scratch), 2.5, 1e-15);
    assert_false(want_larger(&w));
    near(want_guess(&w, 9e-14), 300, 1e-10); /* nm */
    near(want_guess(&w, -1e-20), 0, 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(want_parse(i ? "mean ee 50mas at 1.65um" : "mean strehl at 1.65um", &w),
                         MOAO_OK);
        assert_true(want_larger(&w));
        near(want_guess(&w, 9e-14), exp(-pow(2 * M_PI / 1.65e-6 * 3e-7, 2)), 1e-12);
    }
}

static void test_wants(void **state) {
    (void)state;
    static const struct {
        const char *text, *name, *column;
    } good[] = {{"min ee 75mas over targets", "min ee 75mas", "EE_75mas"},
                {"Mean Strehl", "mean strehl", "STREHL"},
                {"p10 ee 37.5 mas at K", "p10 ee 37.5mas at 2.2um", "EE_37p5mas"},
                {"median rms at 1650 nm over targets", "median rms at 1.65um", "VARIANCE"}};
    static const char *const bad[] = {"",
                                      "mean",
                                      "best strehl",
                                      "mean ee",
                                      "mean ee 75",
                                      "p101 strehl",
                                      "mean strehl at",
                                      "mean strehl at noon",
                                      "mean strehl over stars"};
    const double v[5] = {4, 1, 3, 2, 5};
    double scratch[5];
    char text[96];
    want w;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(want_parse(good[i].text, &w), MOAO_OK);
        want_name(&w, text, sizeof text);
        assert_string_equal(text, good[i].name);
        assert_int_equal(want_parse(text, &w), MOAO_OK);
        want_column(&w, text, sizeof text);
        assert_string_equal(text, good[i].column);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (strcmp(bad[i], "mean ee 75") == 0)
            continue; /* a bare number is in mas */
        assert_int_equal(want_parse(bad[i], &w), MOAO_INPUT);
        status_clear();
    }
    static const struct {
        const char *text;
        double value;
    } of[] = {{"mean strehl", 3}, {"min strehl", 1}, {"max rms", 5},
              {"median rms", 3},  {"p25 rms", 2},    {"p10 rms", 1.4}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        assert_int_equal(want_parse(of[i].text, &w), MOAO_OK);
        near(want_value(&w, 5, v, scratch), of[i].value, 1e-12);
    }
    assert_true(isnan(want_value(&w, 2, (double[]){1, NAN}, scratch)));
}

/* Names of the stars of a field, one after another. */
static void names(const ast_stars *s, char *out) {
    *out = '\0';
    for (int i = 0; i < s->n; i++)
        strcat(out, s->v[i].name);
}

/* A table as a file, read. */
static status read_text(const char *table, bool magnitudes, ast_stars *s, ast_left_out *left) {
    char path[] = "/tmp/moao-stars-XXXXXX";
    const int fd = mkstemp(path);
    assert_int_equal(write(fd, table, strlen(table)), strlen(table));
    close(fd);
    const status st = ast_stars_read(path, magnitudes, s, left);
    unlink(path);
    return st;
}

static void test_stars(void **state) {
    (void)state;
    const sky s = {.ra = 0, .dec = 0, .angle = 0};
    char text[64];
    ast_stars all, some;
    ast_left_out left;
    assert_int_equal(read_text("# stars\nid, RA, Dec, colour, mag\n"
                               "a, 00:00:00, +00:00:05, 1, 12\n\n\"b\", 359.999, 0.0, , 10 # near\n"
                               "c, 0.5, 0, 1, 9\nd, 0, -0.01, 1, \ne, 0, 0.002, 2, 14\n",
                               true, &all, &left),
                     MOAO_OK);
    assert_int_equal(left.count[AST_NO_MAGNITUDE], 1);
    assert_int_equal(left.line[AST_NO_MAGNITUDE], 7);
    assert_true(all.celestial);
    names(&all, text);
    assert_string_equal(text, "abce");
    assert_int_equal(ast_stars_of_field(&all, &s, 60 * ARCSEC, NAN, 10, &some), MOAO_OK);
    names(&some, text); /* the brightest first, c is too far */
    assert_string_equal(text, "bae");
    near(some.v[1].xy[1], 5 * ARCSEC, 1e-12);
    near(some.v[0].xy[0], 3.6 * ARCSEC, 1e-10); /* west is x */
    ast_stars_free(&some);
    assert_int_equal(ast_stars_of_field(&all, &s, 60 * ARCSEC, 13, 1, &some), MOAO_OK);
    names(&some, text);
    assert_string_equal(text, "b");
    ast_stars_free(&some);
    ast_stars_free(&all);
    /* a star without a magnitude is in a field, but passes no limit */
    assert_int_equal(
        read_text("name,x,y,mag\na,1,0,12\nb,2,0,\nc,3,0,15\nd,4,0,9\n", false, &all, &left),
        MOAO_OK);
    assert_int_equal(ast_stars_of_field(&all, &s, 60 * ARCSEC, NAN, 10, &some), MOAO_OK);
    assert_int_equal(some.n, 4);
    ast_stars_free(&some);
    assert_int_equal(ast_stars_of_field(&all, &s, 60 * ARCSEC, 13, 10, &some), MOAO_OK);
    names(&some, text);
    assert_string_equal(text, "da");
    ast_stars_free(&some);
    ast_stars_free(&all);
}

/* What is no star is left out, counted and named; CSV as spreadsheets write it. */
static void test_left_out(void **state) {
    (void)state;
    char text[160];
    ast_stars s;
    ast_left_out left;
    assert_int_equal(read_text("\xEF\xBB\xBFname,ra,dec,magnitude\r\n"
                               "Gaia DR3 1,10,-20,12.5\r\n\"Gaia, \"\"2\"\"\",10.001,-20,-999\r\n"
                               "'=3,10.002,-20,99.99\r\nD,null,--,11\r\nE,-999,-999,11\r\n"
                               "\"again\",10.00001,-20,12.501\r\nGaia DR3 1,10,-20.00003,13\r\n"
                               "near,10,-20.0001,12.5\r\n\"'=H\",11,-20,9\r\nI,12,-20,\r\n",
                               true, &s, &left),
                     MOAO_OK);
    assert_int_equal(s.n, 3);
    assert_string_equal(s.v[0].name, "Gaia DR3 1");
    near(s.v[0].magnitude, 12.5, 0);
    assert_string_equal(s.v[1].name, "near");
    assert_string_equal(s.v[2].name, "=H");
    ast_left_out_text(&left, AST_NO_PLACE, text, sizeof text);
    assert_string_equal(text,
                        "2 rows without a position are left out (the first in line 5: ra 'null')");
    ast_left_out_text(&left, AST_NO_MAGNITUDE, text, sizeof text);
    assert_string_equal(
        text, "3 stars without a magnitude are left out (the first in line 3: magnitude '-999')");
    ast_left_out_text(&left, AST_TWICE, text, sizeof text);
    assert_string_equal(
        text, "2 rows are stars of another row and count once (the first in line 7: name 'again')");
    ast_stars_free(&s);
    assert_int_equal(
        read_text("name x y mag\n\"A B\" 1 -2 12\nC 1.1 -2 12\nD NaN 2 12\n", true, &s, &left),
        MOAO_OK);
    assert_int_equal(s.n, 1); /* 0.1 arcsec is one star */
    assert_string_equal(s.v[0].name, "A B");
    ast_left_out_text(&left, AST_NO_PLACE, text, sizeof text);
    assert_string_equal(text, "1 row without a position is left out (line 4: x 'NaN')");
    ast_stars_free(&s);
    assert_int_equal(read_text("ra,dec,mag\n1,2,3\n1,2,3\n", false, &s, &left), MOAO_OK);
    assert_int_equal(s.n, 2); /* fields may be the same */
    ast_stars_free(&s);
    assert_int_equal(read_text("ra,dec,mag\n1,2,x\n", true, &s, &left), MOAO_INPUT);
    ast_stars_free(&s);
    assert_int_equal(read_text("name,ra,dec\n\"A,1,2\n", false, &s, &left), MOAO_INPUT);
    ast_stars_free(&s);
    status_clear();
    static const char *const uneven[] = {
        "name,ra,dec,mag,id\nA,1,2,12,7\nB,1.1,2,12\n", "name,ra,dec,mag\nA,1,2,12\nB,1.1,2,12,7\n",
        "ra dec mag\n1 2 12\n1.1 2\n", "x,y\n1,2\n3\n"}; /* commas in a number, a cell left out */
    for (size_t i = 0; i < sizeof uneven / sizeof *uneven; i++) {
        assert_int_equal(read_text(uneven[i], false, &s, &left), MOAO_INPUT);
        assert_non_null(strstr(status_message(), ":3: not as many values as there are columns"));
        ast_stars_free(&s);
        status_clear();
    }
    assert_int_equal(read_text("ra,dec,rMeanPSFMag\n1,2,12\n", true, &s, &left), MOAO_INPUT);
    assert_non_null(strstr(status_message(), ":1: no column magnitude"));
    ast_stars_free(&s);
}

static void test_rank_correlation(void **state) {
    (void)state;
    const double a[5] = {1, 2, 3, 4, 5}, up[5] = {1, 8, 9, 20, 21}, down[5] = {5, 4, 3, 2, 1},
                 one[5] = {1, 2, 3, 5, 4}, flat[5] = {1, 1, 1, 1, 1};
    double r;
    assert_int_equal(ast_rank_correlation(5, a, up, &r), MOAO_OK);
    near(r, 1, 1e-15);
    assert_int_equal(ast_rank_correlation(5, a, down, &r), MOAO_OK);
    near(r, -1, 1e-15);
    assert_int_equal(ast_rank_correlation(5, a, one, &r), MOAO_OK);
    near(r, 0.9, 1e-15);
    assert_int_equal(ast_rank_correlation(5, a, flat, &r), MOAO_OK);
    assert_true(isnan(r));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_projection), cmocka_unit_test(test_zenith),
        cmocka_unit_test(test_words),      cmocka_unit_test(test_wants),
        cmocka_unit_test(test_values),     cmocka_unit_test(test_stars),
        cmocka_unit_test(test_left_out),   cmocka_unit_test(test_rank_correlation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
