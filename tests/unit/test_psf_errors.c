/* Jitter and static error in the PSF: widths, Strehl ratios and variances that are known. */
#include "psf/psf_plan.h"
#include "support/psf_case.h"

enum { GRID = 40 };

/* PSF of a perfect wavefront but for these errors, at wavelength 1 of the case. */
static psf_result perfect(const psf_opts *o, double obs, double ee[3]) {
    double L0 = 25, none = 0, h = 0;
    profile prof = {.nlayer = 1, .h = &h, .L0 = &L0, .strength = &none, .r0 = INFINITY};
    psf_result r = {.ee = ee};
    sys s = case_system(GRID, 8, obs);
    psf_fit *fit;
    psf *p;
    OK(psf_init(&s, o, &p));
    OK(psf_rest_init(p, &prof, &fit));
    double *sum = case_doubles(psf_sep_count(p));
    OK(psf_compute(p, sum, fit, 1, &r));
    free(sum);
    psf_fit_free(fit);
    psf_free(p);
    sys_free(&s);
    return r;
}

/* A strong jitter makes the PSF a Gaussian of its width; along one axis it leaves the other alone:
 * the energy in a box is then that of the strip. Weak jitter takes what its tilt takes of the
 * Strehl ratio: 1 - S = variance of a tilt over the annulus. */
static void test_jitter(void **state) {
    (void)state;
    double ee[3], none[3];
    psf_opts o = case_opts();
    const double mas = 1e-3 / ARCSEC_PER_RAD, sharp = perfect(&o, 0.3, none).fwhm;
    o.jitter[0] = o.jitter[1] = 250 * mas;
    psf_result r = perfect(&o, 0.3, ee);
    CLOSE(r.fwhm, sqrt(8 * log(2)) * 250 * mas, 0.03);
    assert_true(r.fwhm > 10 * sharp && r.strehl < 0.01);
    double share = erf(0.5 * case_box[2] / (sqrt(2) * 250 * mas));
    assert_true(ee[2] < share * share && ee[2] > share * share * none[2]);
    o.jitter[1] = 0;
    r = perfect(&o, 0.3, ee);
    CLOSE(ee[2], share * none[2], 0.05);
    assert_true(ee[2] > 2 * share * share);
    o.jitter[0] = 2 * mas;
    o.jitter[1] = 1 * mas;
    r = perfect(&o, 0.3, ee);
    double k = 2 * M_PI / case_lambda[1] * mas;
    CLOSE(r.variance, k * k * 5 * 64 * (1 + 0.09) / 16, 1e-12);
    CLOSE(1 - r.strehl, r.variance, 0.01 + r.variance);
}

/* A static error of 60 nm takes about its variance of the Strehl ratio, whatever its spectrum; a
 * little less for a steep one, whose slowest waves are in part piston over the pupil. */
static void test_static(void **state) {
    (void)state;
    double ee[3];
    psf_opts o = case_opts();
    o.static_rms = 60e-9;
    double want = pow(2 * M_PI * 60e-9 / case_lambda[1], 2), last = 1;
    for (int power = 0; power <= 4; power += 2) {
        o.static_power = power;
        psf_result r = perfect(&o, 0, ee);
        CLOSE(r.variance, want, 1e-12);
        double lost = -log(r.strehl) / want;
        assert_true(lost > 0.8 && lost <= last * 1.001);
        last = lost;
    }
    o.static_power = 0; /* the light goes wide: no halo within the boxes */
    psf_result flat = perfect(&o, 0, ee);
    CLOSE(flat.strehl, exp(-want), 0.003);
}

/* Focus by the sodium layer, path c r^2: 10 m at 90 km are 66 nm rms on 38.5 m without obscuration;
 * what it takes of the Strehl ratio; and D against all pairs of points of a square grid. */
static void test_focus(void **state) {
    (void)state;
    enum { SIDE = 40, FINE = 5 }; /* pixels of the grid of rho across, points a pixel */
    const double obs = 0.3, radius = 4, wave = 2 * M_PI / LAMBDA_REF;
    double ee[3], jitter, fixed, focus;
    psf_opts o = case_opts();
    psf *p;
    sys s = case_system(10, 38.5, 0);
    o.focus = 10 / (2 * 90e3 * 90e3);
    OK(psf_init(&s, &o, &p));
    psf_errors_variance(p, &jitter, &fixed, &focus);
    CLOSE(sqrt(focus), 66.03e-9, 1e-4);
    assert_true(jitter == 0 && fixed == 0);
    psf_free(p);
    sys_free(&s);
    o.focus = 60e-9 * sqrt(12) / (radius * radius * (1 - obs * obs)); /* 60 nm rms */
    psf_result r = perfect(&o, obs, ee);
    CLOSE(r.variance, pow(2 * M_PI * 60e-9 / case_lambda[1], 2), 1e-9);
    CLOSE(-log(r.strehl), r.variance, 0.03);
    s = case_system(SIDE / 4, 2 * radius, obs);
    OK(psf_init(&s, &o, &p));
    for (int u = 0; u < SIDE; u += 9)
        for (int v = 0; v < SIDE; v += 6) {
            double sum = 0, n = 0;
            for (int k = 0; k < SIDE * SIDE * FINE * FINE; k++) {
                const int side = SIDE * FINE;
                const double x = (k % side + 0.5 - side / 2) * 0.2 / FINE,
                             y = (k / side + 0.5 - side / 2) * 0.2 / FINE;
                const double a = hypot(x, y), b = hypot(x + u * 0.2, y + v * 0.2);
                if (fmin(a, b) < obs * radius || fmax(a, b) >= radius)
                    continue;
                sum += pow(wave * o.focus * (a * a - b * b), 2);
                n++;
            }
            if (n > 1000 && u + v > 0)
                CLOSE(p->errors[u * p->P + v], sum / n, 0.02);
        }
    psf_free(p);
    sys_free(&s);
}

/* The structure function that errors add, point by point: jitter of different sizes along x and y
 * on an oblong of separations; a static error of each power by its spectrum, integrated here in
 * equal steps of the frequency. */
static void test_structure_functions(void **state) {
    (void)state;
    const double mas = 1e-3 / ARCSEC_PER_RAD, wave = 2 * M_PI / LAMBDA_REF;
    sys s = case_system(10, 4, 0.2);
    for (int power = -1; power <= 6; power++) { /* -1: jitter */
        psf_opts o = case_opts();
        psf *p;
        if (power < 0) {
            o.jitter[0] = 5 * mas;
            o.jitter[1] = 2 * mas;
        } else {
            o.static_rms = 50e-9;
            o.static_power = 0.5 * power;
        }
        OK(psf_init(&s, &o, &p));
        for (int u = 0; u < p->P; u += 7)
            for (int v = 0; v < p->P; v += u == 0 ? 3 : 9) {
                const double x = u * p->pixel, y = v * p->pixel;
                double want = wave * wave * mas * mas * (25 * x * x + 4 * y * y);
                if (power >= 0) {
                    const double low = 1.0 / p->P, high = 0.5, steps = 20000;
                    double sum = 0, all = 0;
                    for (int i = 0; i < (int)steps; i++) {
                        const double f = low + (high - low) * (i + 0.5) / steps,
                                     weight = pow(f, 1 - o.static_power);
                        sum += weight * (1 - j0(2 * M_PI * f * hypot(u, v)));
                        all += weight;
                    }
                    want = pow(wave * 50e-9, 2) * 2 * sum / all;
                }
                NEAR(p->errors[u * p->P + v], want, 2e-3 * want + 1e-12);
            }
        psf_free(p);
    }
    sys_free(&s);
}

/* Jitter along x makes the image long along x. */
static void test_axes(void **state) {
    (void)state;
    for (int axis = 0; axis < 2; axis++) {
        double ee[3], sum[2] = {0, 0};
        psf_opts o = case_opts();
        const double mas = 1e-3 / ARCSEC_PER_RAD;
        o.crop = 64;
        o.jitter[axis] = 60 * mas;
        o.jitter[1 - axis] = 20 * mas;
        float *image = calloc(64 * 64, sizeof *image);
        sys s = case_system(10, 4, 0);
        double L0 = 25, none = 0, h = 0;
        profile prof = {.nlayer = 1, .h = &h, .L0 = &L0, .strength = &none, .r0 = INFINITY};
        psf_result r = {.ee = ee, .image = image};
        psf_fit *fit;
        psf *p;
        OK(psf_init(&s, &o, &p));
        OK(psf_rest_init(p, &prof, &fit));
        double *zero = case_doubles(psf_sep_count(p));
        OK(psf_compute(p, zero, fit, 1, &r));
        for (int i = 2; i < 8; i++) { /* from the axis; x runs fast */
            sum[0] += image[32 * 64 + 32 + i];
            sum[1] += image[(32 + i) * 64 + 32];
        }
        assert_true(sum[axis] > 1.5 * sum[1 - axis]);
        free(zero);
        free(image);
        psf_fit_free(fit);
        psf_free(p);
        sys_free(&s);
    }
}

/* Without errors nothing is added, to the last bit; with both, their structure functions add up. */
static void test_sum(void **state) {
    (void)state;
    double ee[3];
    psf_opts o = case_opts(), one = o, two = o;
    psf_result r = perfect(&o, 0.2, ee);
    NEAR(r.variance, 0, 0);
    one.jitter[0] = two.jitter[0] = 1e-8;
    two.static_rms = 3e-8;
    two.static_power = 2;
    o.static_rms = 3e-8;
    o.static_power = 2;
    double jitter = perfect(&one, 0.2, ee).variance, still = perfect(&o, 0.2, ee).variance;
    assert_true(jitter > 0 && still > 0);
    CLOSE(perfect(&two, 0.2, ee).variance, jitter + still, 1e-12);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_jitter), cmocka_unit_test(test_static),
        cmocka_unit_test(test_focus),  cmocka_unit_test(test_structure_functions),
        cmocka_unit_test(test_axes),   cmocka_unit_test(test_sum)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
