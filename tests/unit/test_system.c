/* The geometry derived from the parameters: valid subapertures and actuators, order of slopes,
 * airmass, launch points, grids of targets. */
#include "params_case.h"

#include <math.h>

static void assert_near(double value, double expected) {
    if (!(fabs(value - expected) <= 8e-16 * fabs(expected)))
        fail_msg("%.17g is not %.17g", value, expected);
}

static int count(int n, double obs, bool actuators) {
    int found = 0, side = n + actuators;
    for (int iy = 0; iy < side; iy++)
        for (int ix = 0; ix < side; ix++)
            found += actuators ? sys_actuator_valid(n, obs, ix, iy)
                               : sys_subaperture_valid(n, obs, ix, iy);
    return found;
}

/* Published counts of MOSAIC, those of the worked case, and those of the CANARY demonstrator. */
static void published_counts(void **state) {
    (void)state;
    assert_int_equal(count(84, 0.275, false), 5120);
    assert_int_equal(count(84, 0.275, true), 5336);
    assert_int_equal(count(7, 0.285, false), 36);
    assert_int_equal(count(7, 0.285, true), 52);
    assert_int_equal(count(20, 0.275, false), 292); /* 8,176 measurements of 14 sensors */
    assert_int_equal(count(7, 0, false), 37);
    assert_int_equal(count(2, 0, false), 4);
    assert_int_equal(count(1, 0, false), 1);
}

/* A centre exactly on the rim of the obscuration counts although o n may round up: r^2 = (o n)^2 =
 * 100 for nssp 40 and o 0.25 at (2i+1-n, 2j+1-n) = (9, ...) has none, so 50 and 0.2: 6^2 + 8^2
 * needs even offsets; the pair n = 9, o = 2/9 has the offset (2, 0) exactly at 2. */
static void rim_is_decided_in_integers(void **state) {
    (void)state;
    assert_true(sys_subaperture_valid(9, 2. / 9, 5, 4));
    assert_true(sys_subaperture_valid(9, nextafter(2. / 9, 1), 5, 4));
    assert_false(sys_subaperture_valid(9, 2. / 9 * 1.0001, 5, 4));
    assert_false(sys_subaperture_valid(9, 2. / 9, 4, 4));
    assert_false(sys_subaperture_valid(5, 0, 4, 4));
    assert_true(sys_subaperture_valid(5, 0, 4, 2));  /* r = 4 < 5 */
    assert_false(sys_subaperture_valid(5, 0, 5, 2)); /* r = 6 */
    assert_false(sys_actuator_valid(9, 3. / 9, 5, 5) && sys_actuator_valid(9, 3.5 / 9, 5, 5));
    /* every subaperture has its centre on the rim of an obscuration, which rounds either way */
    for (int n = 3; n < 90; n++)
        for (int y = 0; y < n; y++)
            for (int x = 0; x < n; x++) {
                const int r2 =
                    (2 * x + 1 - n) * (2 * x + 1 - n) + (2 * y + 1 - n) * (2 * y + 1 - n);
                const double obs = sqrt(r2) / n;
                if (obs > 0 && obs < 0.9) {
                    assert_true(sys_subaperture_valid(n, obs * (1 + 4e-16), x, y));
                    assert_false(sys_subaperture_valid(n, obs * (1 + 1e-6), x, y));
                }
                assert_int_equal(sys_subaperture_valid(n, 0, x, y), r2 < n * n);
            }
}

static void slopes_are_ordered_by_sensor_and_axis(void **state) {
    (void)state;
    params p;
    sys s;
    atmos a;
    write_case("a.yaml");
    load_all("a.yaml", NULL, &p, &s, &a);
    size_t expected = 0;
    for (int w = 0; w < s.nsensor; w++) {
        const sensor *o = &s.sensors[w];
        assert_int_equal(o->first, expected);
        for (int axis = 0; axis < 2; axis++)
            for (int i = 0; i < o->nsub; i++, expected++) {
                int gw, ga, gi;
                sys_slope_at(&s, expected, &gw, &ga, &gi);
                assert_int_equal(gw, w);
                assert_int_equal(ga, axis);
                assert_int_equal(gi, i);
                assert_true(i == 0 || o->sub[i] > o->sub[i - 1]);
                assert_true(sys_subaperture_valid(o->nssp, s.obs, o->sub[i] % o->nssp,
                                                  o->sub[i] / o->nssp));
            }
    }
    assert_int_equal(s.m, expected);
    assert_int_equal(s.t, 2 * s.ts.nsub);
    assert_near(s.dm.pitch, 0.5);
    for (int i = 0; i < s.dm.nact; i++)
        assert_true(sys_actuator_valid(16, s.obs, s.dm.act[i] % 17, s.dm.act[i] / 17));
    atmos_free(&a);
    sys_free(&s);
    sys_free(&s); /* idempotent */
    params_free(&p);
}

/* The star's altitude is that along the line of sight; a natural star is at infinity. */
static void altitudes_grow_with_the_airmass(void **state) {
    (void)state;
    params p;
    sys s;
    atmos a;
    load_all("a.yaml", "telescope.zenith=60 deg", &p, &s, &a);
    if (!(fabs(s.airmass - 2) <= 1e-15))
        fail_msg("airmass %.17g", s.airmass);
    assert_true(isinf(s.sensors[0].altitude));
    if (!(fabs(s.sensors[2].altitude / 180e3 - 1) <= 1e-15))
        fail_msg("altitude %.17g", s.sensors[2].altitude);
    atmos_free(&a);
    sys_free(&s);
    params_free(&p);
}

static void launch_points(void **state) {
    (void)state;
    static const struct {
        const char *override;
        double x, y;
    } c[] = {
        {"sensors[2].direction=[30, -40]", 2.4, -3.2},
        {"sensors[2].direction=[0, 0]", 4, 0},
        {"sensors[2].launch=[0, 1 m]", 0, 1},
    };
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        params p;
        sys s;
        atmos a;
        load_all("a.yaml", c[i].override, &p, &s, &a);
        assert_near(s.sensors[2].noise.launch[0], c[i].x);
        assert_near(s.sensors[2].noise.launch[1], c[i].y);
        atmos_free(&a);
        sys_free(&s);
        params_free(&p);
    }
}

/* A laser star that is fixed to the pupil: its direction and its launch point, given or not, turn
 * by the same angle into the field, whose y axis is at sky.position_angle from north and the zenith
 * at the parallactic angle; counterclockwise as north through east, which is towards -x. */
static void pupil_turns_into_the_field(void **state) {
    (void)state;
    static const char *const launch[] = {"", ", launch: [1 m, -3 m]"};
    for (int given = 0; given < 2; given++)
        for (int turn = 0; turn < 2; turn++) {
            char text[512];
            params p;
            sys s;
            atmos a;
            snprintf(text, sizeof text, "sensors:\n  - {type: lgs, direction: [30, -40]%s}\n",
                     launch[given]);
            write_changed("sensors:\n", text);
            FILE *f = fopen("bad.yaml", "a");
            assert_non_null(f);
            fprintf(f,
                    "sky: {ra: 150 deg, dec: -10 deg, latitude: -24 deg, hour_angle: 30 deg, "
                    "position_angle: 25 deg, lgs: %s}\n",
                    turn ? "pupil" : "field");
            assert_int_equal(fclose(f), 0);
            load_all("bad.yaml", NULL, &p, &s, &a);
            const double d = M_PI / 180, phi = -24 * d, dec = -10 * d, h = 30 * d;
            const double zenith = atan2(sin(h), tan(phi) * cos(dec) - sin(dec) * cos(h)),
                         angle = turn ? zenith - 25 * d : 0;
            const double was[2] = {given ? 1 : 2.4, given ? -3 : -3.2};
            const double *dir = s.sensors[0].dir, *at = s.sensors[0].noise.launch;
            assert_true(fabs(angle) > 0.2 || !turn);
            assert_true(fabs(at[0] - (cos(angle) * was[0] - sin(angle) * was[1])) <= 1e-9);
            assert_true(fabs(at[1] - (sin(angle) * was[0] + cos(angle) * was[1])) <= 1e-9);
            assert_true(fabs(dir[0] * ARCSEC_PER_RAD - (cos(angle) * 30 + sin(angle) * 40)) <=
                        1e-7);
            assert_true(fabs(dir[1] * ARCSEC_PER_RAD - (sin(angle) * 30 - cos(angle) * 40)) <=
                        1e-7);
            assert_near(s.sensors[1].dir[0], 40 / ARCSEC_PER_RAD); /* natural ones stay */
            atmos_free(&a);
            sys_free(&s);
            params_free(&p);
        }
}

/* The truth sensor measures mean gradients unless all sensors have points, whichever of them has
 * not; each sensor keeps its own kind. */
static void kinds_of_slopes(void **state) {
    (void)state;
    for (int kinds = 0; kinds < 8; kinds++) {
        char text[512];
        params p;
        sys s;
        atmos a;
        int n = snprintf(text, sizeof text, "sensors:\n");
        for (int w = 0; w < 3; w++)
            n += snprintf(text + n, sizeof text - (size_t)n,
                          "  - {type: ngs, nssp: 8, direction: [%d, 0], magnitude: 9, slope: %s}\n",
                          w, kinds >> w & 1 ? "gradient" : "points");
        snprintf(text + n, sizeof text - (size_t)n, "targets: {list: [[0, 0]]}\n");
        const char *from = strstr(params_case, "sensors:\n"),
                   *to = strstr(params_case, "atmosphere:");
        char all[4096];
        n = snprintf(all, sizeof all, "%.*s%s%s", (int)(from - params_case), params_case, text, to);
        write_bytes("kinds.yaml", all, (size_t)n);
        load_all("kinds.yaml", NULL, &p, &s, &a);
        assert_int_equal(s.nsensor, 3);
        assert_int_equal(s.ts.gradient, kinds != 0);
        for (int w = 0; w < 3; w++)
            assert_int_equal(s.sensors[w].gradient, kinds >> w & 1);
        atmos_free(&a);
        sys_free(&s);
        params_free(&p);
    }
}

static void targets_of_a_grid(void **state) {
    (void)state;
    const double arcsec = 1 / ARCSEC_PER_RAD;
    params p;
    sys s;
    atmos a;
    load_all("a.yaml", "targets.grid.center=[1, -2]", &p, &s, &a);
    assert_int_equal(s.ntarget, 8);
    assert_int_equal(s.grid[0], 4);
    assert_int_equal(s.grid[1], 2);
    assert_near(s.grid_step[0], 20 * arcsec);
    assert_near(s.grid_step[1], 30 * arcsec);
    for (int k = 0; k < 8; k++) {
        double x = -29 + 20 * (k % 4), y = -17 + 30 * (k / 4);
        if (!(fabs(s.targets[k][0] / arcsec - x) <= 1e-13 &&
              fabs(s.targets[k][1] / arcsec - y) <= 1e-13))
            fail_msg("target %d at %.17g %.17g", k, s.targets[k][0] / arcsec,
                     s.targets[k][1] / arcsec);
    }
    atmos_free(&a);
    sys_free(&s);
    params_free(&p);
    load_all("a.yaml", "targets={grid: {nx: 3, ny: 3, width: 10, height: 10}}", &p, &s, &a);
    assert_int_equal(s.ntarget, 9);
    assert_true(s.targets[4][0] == 0 && s.targets[4][1] == 0);
    assert_true(s.targets[3][0] == -s.targets[5][0]);
    atmos_free(&a);
    sys_free(&s);
    params_free(&p);
    load_all("a.yaml", "targets={grid: {nx: 1, ny: 1}}", &p, &s, &a);
    assert_int_equal(s.ntarget, 1);
    assert_true(s.targets[0][0] == 0);
    atmos_free(&a);
    sys_free(&s);
    params_free(&p);
}

static void noise_of_each_type(void **state) {
    (void)state;
    params p;
    sys s;
    atmos a;
    load_all("a.yaml", "lgs_defaults.tiptilt_variance=3", &p, &s, &a);
    assert_true(s.sensors[0].noise.variance < 0);
    assert_near(s.sensors[0].noise.magnitude, 10);
    assert_near(s.sensors[2].noise.tiptilt, 3);
    assert_near(s.sensors[2].noise.lgs_return, 7e6);
    assert_true(s.sensors[2].lgs && !s.sensors[1].lgs);
    atmos_free(&a);
    sys_free(&s);
    params_free(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_counts),
        cmocka_unit_test(rim_is_decided_in_integers),
        cmocka_unit_test(slopes_are_ordered_by_sensor_and_axis),
        cmocka_unit_test(altitudes_grow_with_the_airmass),
        cmocka_unit_test(launch_points),
        cmocka_unit_test(pupil_turns_into_the_field),
        cmocka_unit_test(kinds_of_slopes),
        cmocka_unit_test(targets_of_a_grid),
        cmocka_unit_test(noise_of_each_type),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
