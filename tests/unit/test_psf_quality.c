/* Strehl, ensquared energy, FWHM and image against independent computations. */
#include "support/psf_case.h"

#include "psf/psf_plan.h"

#include <malloc.h>

/* Diffraction limit of an annulus, x = pi D theta/lambda, peak 1. */
static double airy(double x, double obs) {
    if (x == 0)
        return 1;
    double a = 2 * j1(x) / x;
    double b = obs > 0 ? obs * obs * 2 * j1(obs * x) / (obs * x) : 0;
    return pow((a - b) / (1 - obs * obs), 2);
}

/* Cosine sum of the OTF at (x, y) image pixels, by brute force over the half plane. */
static double cosine_sum(const psf *p, double x, double y) {
    double sum = 0, turn = 2 * M_PI / p->N;
    for (int u = 0; u < p->P; u++)
        for (int v = -(p->P - 1); v < p->P; v++) {
            double otf = p->otf[u * p->stride + (v < 0 ? v + p->N : v)];
            sum += (u == 0 ? 1 : 2) * otf * cos(turn * (u * x + v * y));
        }
    return sum;
}

/* FWHM [pixels] as the model defines it: first crossing found in steps of 1/4 pixel, then
 * bisection. */
static double brute_fwhm(const psf *p) {
    double half = 0.5 * cosine_sum(p, 0, 0), mean = 0;
    for (int i = 0; i < 36; i++) {
        double c = cos(M_PI * i / 36), s = sin(M_PI * i / 36), lo = 0, hi = 0.25;
        for (; cosine_sum(p, hi * c, hi * s) > half; hi += 0.25)
            lo = hi;
        while (hi - lo > 1e-11 * hi) {
            double r = 0.5 * (lo + hi);
            if (cosine_sum(p, r * c, r * s) > half)
                lo = r;
            else
                hi = r;
        }
        mean += (lo + hi) / 36;
    }
    return mean;
}

/* Nothing to correct and perfect commands: Strehl 1, no variance, image peak 1 at pixel (crop/2,
 * crop/2), for even and odd mirrors, any obscuration, 2 to 5 pixels per pitch, also with a profile
 * of strength zero. */
static void test_perfect(void **in) {
    const struct {
        int n, k;
        double obs;
    } kind[] = {{7, 4, 0.285}, {8, 2, 0.14}, {13, 3, 0}, {10, 4, 0.7}, {1, 4, 0}, {16, 5, 0.3}};
    (void)in;
    for (size_t i = 0; i < sizeof kind / sizeof *kind; i++) {
        double ee[3], L0 = 25, none = 0, h = 0;
        profile prof = {.nlayer = 1, .h = &h, .L0 = &L0, .strength = &none, .r0 = INFINITY};
        psf_fit *fit;
        sys s = case_system(kind[i].n, 8, kind[i].obs);
        psf_opts o = case_opts();
        psf *p;
        o.oversampling = kind[i].k;
        o.weighted = i % 2;
        OK(psf_init(&s, &o, &p));
        OK(psf_fit_init(p, &prof, &fit));
        assert_true(psf_grid_size(p) % 2 == 0 && psf_grid_size(p) >= 3 * kind[i].n * kind[i].k);
        size_t c = (size_t)psf_crop_size(p);
        double *sum = case_doubles(psf_sep_count(p));
        float *image = calloc(c * c, sizeof *image), *peak = image;
        psf_result r = {.ee = ee, .image = image};
        OK(psf_compute(p, sum, fit, 1, &r));
        NEAR(r.strehl, 1, 1e-13);
        NEAR(r.variance, 0, 0);
        for (size_t j = 0; j < c * c; j++)
            peak = image[j] > *peak ? image + j : peak;
        assert_int_equal(peak - image, c / 2 * c + c / 2);
        NEAR(*peak, 1, 1e-6);
        assert_true(ee[0] > 0 && ee[0] < ee[1] && ee[1] < ee[2] && ee[2] < 1);
        free(image);
        free(sum);
        psf_fit_free(fit);
        psf_free(p);
        sys_free(&s);
    }
}

/* Ensquared energy of the diffraction limit against a Simpson integral of the Bessel-function PSF
 * over the box, and FWHM against its half-peak radius: 1e-5, what sampling the OTF 160 times across
 * the diameter allows. */
static void test_diffraction(void **in) {
    const double obscuration[] = {0, 0.285, 0.6};
    (void)in;
    for (int i = 0; i < 3; i++) {
        const int n = 200;
        double ee[3], lambda = case_lambda[1], D = 8, obs = obscuration[i], lo = 0, hi = 3;
        sys s = case_system(40, D, obs);
        psf_opts o = case_opts();
        psf *p;
        OK(psf_init(&s, &o, &p));
        double *sum = case_doubles(psf_sep_count(p));
        psf_result r = {.ee = ee};
        OK(psf_compute(p, sum, NULL, 1, &r));
        for (int b = 0; b < 3; b++) {
            double h = 0.5 * case_box[b] / n, total = 0;
            double area = M_PI * D * D / 4 * (1 - obs * obs) / (lambda * lambda);
            for (int y = 0; y <= n; y++)
                for (int x = 0; x <= n; x++) {
                    double wx = x == 0 || x == n ? 1 : x % 2 ? 4 : 2;
                    double wy = y == 0 || y == n ? 1 : y % 2 ? 4 : 2;
                    total += wx * wy * airy(M_PI * D / lambda * h * hypot(x, y), obs);
                }
            NEAR(ee[b], 4 * total * h * h / 9 * area, 1e-5);
        }
        while (hi - lo > 1e-12) {
            double x = 0.5 * (lo + hi);
            if (airy(x, obs) > 0.5)
                lo = x;
            else
                hi = x;
        }
        CLOSE(r.fwhm, 2 * lo / M_PI * lambda / D, 1e-5);
        if (obs == 0)
            NEAR(r.fwhm * D / lambda, 1.0290, 1e-4);
        free(sum);
        psf_free(p);
        sys_free(&s);
    }
}

/* A small variance that is uncorrelated beyond a pitch: ln Strehl is minus the residual variance
 * (Marechal), up to the share that the pupil is too small to average out, 4 pi x0^2 over the
 * pupil's area. */
static void test_marechal(void **in) {
    double ee[3], lambda = case_lambda[1];
    (void)in;
    sys s = case_system(30, 8, 0.2);
    psf_opts o = case_opts();
    psf *p;
    OK(psf_init(&s, &o, &p));
    double sigma = 0.15 * lambda / (2 * M_PI), x0 = p->x0 / s.dm.pitch;
    double *c = case_covariance(&s, sigma, 0), *sum = case_sums(p, &s, c);
    psf_result r = {.ee = ee};
    OK(psf_compute(p, sum, NULL, 1, &r));
    CLOSE(r.variance, 0.15 * 0.15 * M_PI * x0 * x0, 1e-12);
    NEAR(-log(r.strehl) / r.variance, 1, 1.5 * 4 * M_PI * x0 * x0 / (M_PI / 4 * 30 * 30 * 0.96));
    free(c);
    free(sum);
    psf_free(p);
    sys_free(&s);
}

/* Covariances without symmetry: image, Strehl, ensquared energy and FWHM all equal brute-force sums
 * over the OTF. */
static void test_brute(void **in) {
    (void)in;
    unsigned seed = 5;
    for (int kind = 0; kind < 4; kind++) {
        const int n[] = {9, 10, 11, 7};
        double ee[3], L0 = 20, strength, h;
        profile prof = case_profile(0.15, &L0, &strength, &h);
        sys s = case_system(n[kind], 8, 0.3);
        psf_opts o = case_opts();
        psf *p;
        psf_fit *fit;
        o.oversampling = kind == 1 ? 2 : 4;
        o.span = kind == 2 ? 2 : 3;
        o.crop = 32;
        OK(psf_init(&s, &o, &p));
        OK(psf_fit_init(p, &prof, &fit));
        size_t v = (size_t)s.dm.nact;
        double *c = case_covariance(&s, 3e-7, 1.5), *tilt = case_doubles(v);
        /* an elongated part, and an asymmetric one that only the mean with its transpose leaves */
        for (size_t a = 0; a < v; a++)
            tilt[a] = 2e-7 * (s.dm.act[a] % (n[kind] + 1) + 0.5 * (s.dm.act[a] / (n[kind] + 1)));
        for (size_t b = 0; b < v; b++)
            for (size_t a = 0; a < v; a++)
                c[a + b * v] += 1e-14 * case_random(&seed) - 0.02 * pow(tilt[a] - tilt[b], 2);
        double *sum = case_sums(p, &s, c);
        float image[32 * 32];
        psf_result r = {.ee = ee, .image = image};
        OK(psf_compute(p, sum, fit, 2, &r));
        CLOSE(r.strehl, cosine_sum(p, 0, 0), 1e-12);
        for (int y = -16; y < 16; y += 5)
            for (int x = -16; x < 16; x += 3)
                NEAR(image[(y + 16) * 32 + x + 16], cosine_sum(p, x, y), 1e-7 * r.strehl);
        CLOSE(r.fwhm, brute_fwhm(p) * psf_image_pixel(p, 2), 1e-9);
        double t = case_box[1] * p->pixel / case_lambda[2], total = 0;
        for (int u = 0; u < p->P; u++)
            for (int w = -(p->P - 1); w < p->P; w++) {
                double su = u ? 2 * sin(M_PI * t * u) / (M_PI * t * u) : 1;
                double sw = w ? sin(M_PI * t * w) / (M_PI * t * w) : 1;
                total += su * sw * p->otf[u * p->stride + (w < 0 ? w + p->N : w)];
            }
        CLOSE(ee[1], total * t * t / p->otf[0], 1e-12);
        psf_fit_free(fit);
        free(tilt);
        free(c);
        free(sum);
        psf_free(p);
        sys_free(&s);
    }
}

/* The FWHM of a halo that holds nearly all the light (Strehl below 0.005) is found far out,
 * exactly. */
static void test_halo(void **in) {
    (void)in;
    double ee[3], L0 = INFINITY, strength, h;
    profile prof = case_profile(0.08, &L0, &strength, &h);
    sys s = case_system(12, 6, 0.3);
    psf_opts o = case_opts();
    psf *p;
    psf_fit *fit;
    OK(psf_init(&s, &o, &p));
    OK(psf_fit_init(p, &prof, &fit));
    double *c = case_covariance(&s, 1e-6, 1.2), *sum = case_sums(p, &s, c);
    psf_result r = {.ee = ee};
    OK(psf_compute(p, sum, fit, 0, &r));
    assert_true(r.strehl < 0.005);
    double brute = brute_fwhm(p);
    assert_true(brute > 15);
    CLOSE(r.fwhm, brute * psf_image_pixel(p, 0), 1e-9);
    free(c);
    free(sum);
    psf_fit_free(fit);
    psf_free(p);
    sys_free(&s);
}

/* A core on a wide halo, while the half-peak level passes from the one to the other: the search
 * ends, at the first crossing. */
static void test_core_on_halo(void **in) {
    (void)in;
    sys s = case_system(10, 5, 0.2);
    psf_opts o = case_opts();
    psf *p;
    OK(psf_init(&s, &o, &p));
    double ee[3];
    for (int i = 0; i < 6; i++) {
        double *c = case_covariance(&s, (1.4 + 0.12 * i) * 2.6e-7, 0.7), *sum = case_sums(p, &s, c);
        psf_result r = {.ee = ee};
        OK(psf_compute(p, sum, NULL, 1, &r));
        CLOSE(r.fwhm, brute_fwhm(p) * psf_image_pixel(p, 1), 1e-9);
        assert_true(i > 0 || r.fwhm < 5 * psf_image_pixel(p, 1));
        assert_true(i < 5 || r.fwhm > 20 * psf_image_pixel(p, 1));
        free(c);
        free(sum);
    }
    psf_free(p);
    sys_free(&s);
}

/* A flat image has no FWHM: NaN, in finite time. */
static void test_flat(void **in) {
    (void)in;
    double ee[3], L0 = 25, strength, h;
    profile prof = case_profile(0.001, &L0, &strength, &h);
    sys s = case_system(10, 8, 0.3);
    psf_opts o = case_opts();
    psf *p;
    psf_fit *fit;
    OK(psf_init(&s, &o, &p));
    OK(psf_fit_init(p, &prof, &fit));
    double *sum = case_doubles(psf_sep_count(p));
    psf_result r = {.ee = ee};
    OK(psf_compute(p, sum, fit, 0, &r));
    assert_true(r.strehl > 0 && isnan(r.fwhm));
    free(sum);
    psf_fit_free(fit);
    psf_free(p);
    sys_free(&s);
}

/* A covariance with a NaN is an error, not a map with a hole. */
static void test_nan(void **in) {
    (void)in;
    double ee[3];
    sys s = case_system(7, 4.2, 0.285);
    psf_opts o = case_opts();
    psf *p;
    OK(psf_init(&s, &o, &p));
    double *sum = case_doubles(psf_sep_count(p));
    psf_result r = {.ee = ee};
    sum[7 * 15 + 8] = NAN;
    assert_int_equal(psf_compute(p, sum, NULL, 0, &r), MOAO_NUMERIC);
    assert_non_null(strstr(status_message(), "not finite"));
    status_clear();
    free(sum);
    psf_free(p);
    sys_free(&s);
}

/* The same result, bit for bit, from the same sums with a second psf (an interrupted run makes one
 * anew). */
static void test_repeatable(void **in) {
    (void)in;
    double ee[2][3], L0 = 25, strength, h;
    profile prof = case_profile(0.12, &L0, &strength, &h);
    sys s = case_system(24, 8, 0.3);
    psf_opts o = case_opts();
    o.crop = 64;
    float image[2][64 * 64];
    psf_result r[2] = {{.ee = ee[0], .image = image[0]}, {.ee = ee[1], .image = image[1]}};
    double *c = case_covariance(&s, 2e-7, 1.3);
    for (int i = 0; i < 2; i++) {
        psf *p;
        psf_fit *fit;
        OK(psf_init(&s, &o, &p));
        OK(psf_fit_init(p, &prof, &fit));
        double *sum = case_sums(p, &s, c);
        if (i == 1) /* what a psf computed before does not matter */
            OK(psf_compute(p, sum, NULL, 0, &r[i]));
        OK(psf_compute(p, sum, fit, 1, &r[i]));
        free(sum);
        psf_fit_free(fit);
        psf_free(p);
    }
    assert_true(r[0].strehl == r[1].strehl && r[0].fwhm == r[1].fwhm &&
                r[0].variance == r[1].variance);
    assert_memory_equal(ee[0], ee[1], sizeof ee[0]);
    assert_memory_equal(image[0], image[1], sizeof image[0]);
    free(c);
    sys_free(&s);
}

#ifndef __SANITIZE_ADDRESS__
static double heap(void) {
    struct mallinfo2 m = mallinfo2();
    return (double)(m.uordblks + m.hblkhd);
}

/* psf_bytes is what psf_init takes from the heap, and psf_fit_bytes what a psf_fit keeps of it,
 * within 3 %, at two sizes. */
static void test_bytes(void **in) {
    (void)in;
    double L0 = 25, strength, h;
    profile prof = case_profile(0.12, &L0, &strength, &h);
    for (int n = 30; n <= 60; n += 30) {
        sys s = case_system(n, 8, 0.3);
        psf_opts o = case_opts();
        psf *p;
        psf_fit *f;
        double before = heap();
        OK(psf_init(&s, &o, &p));
        CLOSE(heap() - before, (double)psf_bytes(&s, &o), 0.03);
        before = heap();
        OK(psf_fit_init(p, &prof, &f));
        CLOSE(heap() - before, (double)psf_fit_bytes(&s, &o), 0.03);
        psf_fit_free(f);
        psf_free(p);
        sys_free(&s);
    }
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_perfect),    cmocka_unit_test(test_diffraction),
        cmocka_unit_test(test_marechal),   cmocka_unit_test(test_brute),
        cmocka_unit_test(test_halo),       cmocka_unit_test(test_core_on_halo),
        cmocka_unit_test(test_flat),       cmocka_unit_test(test_nan),
        cmocka_unit_test(test_repeatable),
#ifndef __SANITIZE_ADDRESS__
        cmocka_unit_test(test_bytes),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
