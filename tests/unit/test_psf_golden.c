/* The PSF stage against an independent implementation (tests/golden/extract_psf.py). */
#include "support/psf_case.h"

#include "psf/psf_plan.h"

static double *read_doubles(const char *name, size_t n) {
    char path[128];
    snprintf(path, sizeof path, "tests/golden/%s", name);
    double *a = case_doubles(n);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fread(a, sizeof *a, n, f), n);
    fclose(f);
    return a;
}

typedef struct {
    sys s;
    psf *p[2]; /* plain average, weighted */
    psf_fit *fit;
    double *sum[2];
} state;

static int setup(void **out) {
    state *t = calloc(1, sizeof *t);
    assert_non_null(t);
    double L0 = 25, strength, h;
    profile prof = case_profile(0.12, &L0, &strength, &h);
    psf_opts o = case_opts();
    t->s = case_system(7, 4.2, 0.285);
    assert_int_equal(t->s.dm.nact, 52);
    double *cvv = read_doubles("psf_cvv.f64", 52 * 52);
    for (int w = 0; w < 2; w++) {
        o.weighted = w == 1;
        OK(psf_init(&t->s, &o, &t->p[w]));
        t->sum[w] = case_sums(t->p[w], &t->s, cvv);
    }
    OK(psf_fit_init(t->p[0], &prof, &t->fit));
    free(cvv);
    *out = t;
    return 0;
}

static int teardown(void **in) {
    state *t = *in;
    for (int w = 0; w < 2; w++) {
        psf_free(t->p[w]);
        free(t->sum[w]);
    }
    psf_fit_free(t->fit);
    sys_free(&t->s);
    free(t);
    return 0;
}

/* The grid of the worked case: 84 pixels of 0.15 m, images of 27.01 mas at 1.65 um. */
static void test_grid(void **in) {
    state *t = *in;
    assert_int_equal(psf_grid_size(t->p[0]), 84);
    assert_int_equal(psf_crop_size(t->p[0]), 84);
    NEAR(psf_grid_pixel(t->p[0]), 0.15, 1e-15);
    NEAR(psf_image_pixel(t->p[0], 1) * ARCSEC_PER_RAD, 0.02701086748473881, 1e-12);
}

/* Strehl and ensquared energies agree to 1e-6 and FWHM to 1e-6, at three wavelengths and with both
 * averages. */
static void test_scalars(void **in) {
    state *t = *in;
    double lambda, strehl, e[3], fwhm, ee[3];
    int weighted, lines = 0;
    FILE *f = fopen("tests/golden/psf_case.txt", "r");
    assert_non_null(f);
    while (fscanf(f, "%lf %d %lf %lf %lf %lf %lf", &lambda, &weighted, &strehl, e, e + 1, e + 2,
                  &fwhm) == 7) {
        psf_result r = {.ee = ee};
        int il = 0;
        while (fabs(case_lambda[il] - lambda) > 1e-12)
            il++;
        OK(psf_compute(t->p[weighted], t->sum[weighted], t->fit, il, &r));
        NEAR(r.strehl, strehl, 1e-6);
        for (int b = 0; b < 3; b++)
            NEAR(ee[b], e[b], 1e-6);
        CLOSE(r.fwhm * ARCSEC_PER_RAD * 1e3, fwhm, 1e-6);
        lines++;
    }
    fclose(f);
    assert_int_equal(lines, 4);
}

/* Every pixel of the PSF agrees: axis at (crop/2, crop/2), x fast; a cropped image is its middle.
 */
static void test_image(void **in) {
    state *t = *in;
    double ee[3], *golden = read_doubles("psf_image.f64", 84 * 84);
    float *image = calloc(84 * 84, sizeof *image), crop[24 * 24];
    assert_non_null(image);
    psf_result r = {.ee = ee, .image = image};
    OK(psf_compute(t->p[0], t->sum[0], t->fit, 1, &r));
    for (int i = 0; i < 84 * 84; i++)
        NEAR(image[i], golden[i], 1e-7);
    CLOSE(image[42 * 84 + 42], r.strehl, 1e-7);

    psf_opts o = case_opts();
    psf *p;
    o.crop = 24;
    OK(psf_init(&t->s, &o, &p));
    assert_int_equal(psf_crop_size(p), 24);
    r.image = crop;
    OK(psf_compute(p, t->sum[0], t->fit, 1, &r));
    for (int y = 0; y < 24; y++)
        for (int x = 0; x < 24; x++)
            assert_true(crop[y * 24 + x] == image[(y + 30) * 84 + x + 30]);
    psf_free(p);
    free(image);
    free(golden);
}

/* OTF, D_tomo and D_fit along x agree with the worked case to 1e-7 of their largest value. */
static void test_rows(void **in) {
    state *t = *in;
    psf *p = t->p[0];
    double ee[3], *row = read_doubles("psf_rows.f64", 3 * 84);
    double q = pow(2 * M_PI / 1.65e-6, 2), fit = pow(LAMBDA_REF / 1.65e-6, 2);
    psf_result r = {.ee = ee};
    OK(psf_compute(p, t->sum[0], t->fit, 1, &r));
    for (int u = 0; u < p->P; u++)
        NEAR(p->otf[u * p->stride] / p->otf[0], row[42 + u], 1e-7);
    NEAR(row[42 + p->P], 0, 1e-12);
    psf_covariance(p, t->sum[0]);
    for (int u = 0; u < p->P; u++) {
        NEAR(2 * q * (p->otf[0] - p->otf[u * p->stride]), row[84 + 42 + u], 1e-7);
        NEAR(fit * t->fit->d[u * p->P], row[168 + 42 + u], 1e-7);
    }
    free(row);
}

/* The residual variance is C(0) (2 pi/lambda)^2 plus the fitting variance, and C(0) agrees with the
 * worked case. */
static void test_variance(void **in) {
    state *t = *in;
    double ee[3];
    psf_result r = {.ee = ee};
    for (int il = 0; il < 3; il++) {
        double q = pow(2 * M_PI / case_lambda[il], 2);
        OK(psf_compute(t->p[0], t->sum[0], t->fit, il, &r));
        psf_covariance(t->p[0], t->sum[0]);
        CLOSE(r.variance, q * t->p[0]->otf[0] + psf_fit_variance(t->fit, case_lambda[il]), 1e-13);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grid), cmocka_unit_test(test_scalars),  cmocka_unit_test(test_image),
        cmocka_unit_test(test_rows), cmocka_unit_test(test_variance),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
