/* Profiles along the line of sight, and which profile and reconstructor are in force when. */
#include "params_case.h"

#include <math.h>

static void assert_near(double value, double expected) {
    if (!(fabs(value - expected) <= 2e-15 * fabs(expected)))
        fail_msg("%.17g is not %.17g", value, expected);
}

static void airmass_stretches_and_strengthens(void **state) {
    (void)state;
    params p;
    sys s;
    atmos a;
    write_case("a.yaml");
    load_all("a.yaml", "telescope={zenith: 60 deg}", &p, &s, &a);
    const profile *q = &a.profiles[0];
    assert_near(q->h[1], 8000);
    assert_near(q->strength[0], 0.6 * 2 * pow(0.15, -5. / 3));
    assert_near(q->r0, 0.15 * pow(2, -0.6));
    assert_near(q->L0[0], 25);
    atmos_free(&a);
    sys_free(&s);
    params_free(&p);
}

static void wind_is_a_velocity(void **state) {
    (void)state;
    params p;
    sys s;
    atmos a;
    load_all(
        "a.yaml",
        "atmosphere.profiles[1].layers={wind_speed: [10, 36 km/h], wind_direction: [90 deg, 180]}",
        &p, &s, &a);
    const profile *q = &a.profiles[1];
    assert_near(q->wind[1][0], 10);
    assert_near(q->wind[0][1], -10);
    assert_true(fabs(q->wind[0][0]) < 1e-14 && fabs(q->wind[1][1]) < 1e-14);
    atmos_free(&a);
    sys_free(&s);
    params_free(&p);
}

static void no_turbulence_is_legal(void **state) {
    (void)state;
    params p;
    sys s;
    atmos a;
    load_all("a.yaml", "atmosphere.profiles=[{layers: {altitude: [0, 1], strength: [0, 0]}}]", &p,
             &s, &a);
    assert_true(isinf(a.profiles[0].r0));
    atmos_free(&a);
    sys_free(&s);
    params_free(&p);
}

static void last_started_is_in_force(void **state) {
    (void)state;
    params p;
    sys s;
    atmos a;
    load_all("a.yaml", NULL, &p, &s, &a);
    assert_ptr_equal(atmos_profile_at(&a, -5), &a.profiles[0]);
    assert_ptr_equal(atmos_profile_at(&a, 599.9), &a.profiles[0]);
    assert_ptr_equal(atmos_profile_at(&a, 600), &a.profiles[1]);
    assert_ptr_equal(atmos_profile_at(&a, 1e9), &a.profiles[1]);
    assert_int_equal(a.ntor, 2);
    assert_int_equal(a.nexposure, 3);
    assert_int_equal(atmos_tor_of(&a, 1), 0);
    assert_int_equal(atmos_tor_of(&a, 2), 1);
    atmos_free(&a);
    atmos_free(&a); /* idempotent */
    sys_free(&s);
    params_free(&p);
}

/* Intervals end before the end, whatever the rounding of a multiple; nothing stated is one of each.
 */
static void layerings_are_counted(void **state) {
    (void)state;
    double low[] = {0, 5000}, high[] = {0, 5001}, L0[] = {25, 30}, far[] = {25, INFINITY};
    profile p[] = {{.nlayer = 2, .h = low, .L0 = L0},  {.nlayer = 2, .h = low, .L0 = L0},
                   {.nlayer = 2, .h = high, .L0 = L0}, {.nlayer = 2, .h = low, .L0 = L0},
                   {.nlayer = 1, .h = low, .L0 = L0},  {.nlayer = 2, .h = high, .L0 = far}};
    const int expected[] = {0, 1, 1, 2, 2, 3, 4};
    for (int n = 0; n <= 6; n++) {
        atmos a = {.nprofile = n, .profiles = p};
        assert_int_equal(atmos_count_layerings(&a, 10), expected[n]);
        assert_int_equal(atmos_count_layerings(&a, 2), expected[n] < 2 ? expected[n] : 2);
    }
}

static void schedule_of_intervals(void **state) {
    (void)state;
    static const struct {
        const char *override;
        int ntor, nexposure;
        double last;
    } c[] = {
        {"schedule={tor_interval: 1 h, exposure_interval: 10 min, end: 3 h}", 3, 18, 10200},
        {"schedule={tor_interval: 0.1, exposure_interval: 0.1, start: 0.3, end: 0.7}", 4, 4, 0.6},
        {"schedule={tor_interval: 1, exposure_interval: 0.7, end: 1}", 1, 2, 0.7},
        {"schedule={tor_times: [-10], exposure_interval: 1, end: 2.5}", 1, 3, 2},
    };
    params p;
    sys s;
    atmos a;
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        load_all("a.yaml", c[i].override, &p, &s, &a);
        assert_int_equal(a.ntor, c[i].ntor);
        assert_int_equal(a.nexposure, c[i].nexposure);
        assert_near(a.exposure_time[a.nexposure - 1], c[i].last);
        atmos_free(&a);
        sys_free(&s);
        params_free(&p);
    }
    char *text = strdup(params_case); /* without the line of the schedule */
    assert_non_null(text);
    char *at = strstr(text, "schedule"), *next = strchr(at, '\n') + 1;
    memmove(at, next, strlen(next) + 1);
    write_bytes("b.yaml", text, strlen(text));
    free(text);
    load_all("b.yaml", NULL, &p, &s, &a);
    assert_int_equal(a.ntor, 1);
    assert_int_equal(a.nexposure, 1);
    assert_true(a.exposure_time[0] == 0);
    atmos_free(&a);
    sys_free(&s);
    params_free(&p);
}

/* The reconstructor of an exposure and the exposures of a reconstructor, against their definition,
 * for times between and on one another. */
static void exposures_of_reconstructors(void **state) {
    (void)state;
    enum { NTOR = 37, NEXP = 500 };
    double tor[NTOR], exposure[NEXP];
    for (int k = 0; k < NTOR; k++)
        tor[k] = 10 * k + (k % 3) * 2.5;
    for (int e = 0; e < NEXP; e++)
        exposure[e] = 0.75 * e;
    for (int few = 0; few < 2; few++) {
        atmos a = {
            .ntor = few ? 1 : NTOR, .tor_time = tor, .nexposure = NEXP, .exposure_time = exposure};
        int next = 0;
        for (int e = 0; e < NEXP; e++) {
            int k = 0;
            while (k + 1 < a.ntor && tor[k + 1] <= exposure[e])
                k++;
            assert_int_equal(atmos_tor_of(&a, e), k);
        }
        for (int k = 0; k < a.ntor; k++) {
            int first, end;
            atmos_exposures_of(&a, k, &first, &end);
            assert_int_equal(first, next);
            for (int e = first; e < end; e++)
                assert_int_equal(atmos_tor_of(&a, e), k);
            next = end;
        }
        assert_int_equal(next, NEXP);
    }
}

/* The integral of the spectrum of the log-amplitude, that of the phase times sin(pi lambda h
 * f^2)^2, over 6 decades of frequencies. */
static void scintillation_of_layers(void **state) {
    (void)state;
    double h[] = {0, 4000, 15000}, strength[] = {20, 9, 4}, sum = 0;
    const profile p = {.nlayer = 3, .h = h, .strength = strength};
    const double lambda = 0.8e-6, step = 1e-4;
    for (double t = log(1e-3); t < log(1e3); t += step)
        for (int l = 0; l < 3; l++) {
            const double f = exp(t);
            sum += 2 * M_PI * f * f * step * 0.02289558710855518 * pow(500e-9 / lambda, 2) *
                   strength[l] * pow(f, -11. / 3) * pow(sin(M_PI * lambda * h[l] * f * f), 2);
        }
    print_message("log-amplitude variance %.6f, integral %.6f\n", profile_scintillation(&p, lambda),
                  sum);
    assert_true(sum > 0.01);
    assert_true(fabs(profile_scintillation(&p, lambda) / sum - 1) < 5e-4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(airmass_stretches_and_strengthens),
        cmocka_unit_test(wind_is_a_velocity),
        cmocka_unit_test(no_turbulence_is_legal),
        cmocka_unit_test(last_started_is_in_force),
        cmocka_unit_test(layerings_are_counted),
        cmocka_unit_test(schedule_of_intervals),
        cmocka_unit_test(exposures_of_reconstructors),
        cmocka_unit_test(scintillation_of_layers),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
