/* Images of a band: against those of many wavelengths, against the sum of Airy's patterns, and of a
 * narrow band against its wavelength, where the image has no symmetry. */
#include "psf/psf_plan.h"
#include "support/psf_case.h"

enum { GRID = 12, MANY = 81, CROP = 96 };
static const double centre = 1.63e-6, width = 0.307e-6;

typedef struct {
    sys s;
    profile prof;
    double h, L0, strength;
    psf *p;
    psf_fit *fit;
    double *sum;
} bench;

static void open_bench(bench *b, const psf_opts *o, double r0) {
    b->L0 = 25;
    b->h = 0;
    b->strength = r0 > 0 ? pow(r0, -5.0 / 3) : 0;
    b->prof = (profile){.nlayer = 1,
                        .h = &b->h,
                        .L0 = &b->L0,
                        .strength = &b->strength,
                        .r0 = r0 > 0 ? r0 : INFINITY};
    b->s = case_system(GRID, 8, 0.14);
    OK(psf_init(&b->s, o, &b->p));
    OK(psf_rest_init(b->p, &b->prof, &b->fit));
    b->sum = case_doubles(psf_sep_count(b->p));
}

static void close_bench(bench *b) {
    free(b->sum);
    psf_fit_free(b->fit);
    psf_free(b->p);
    sys_free(&b->s);
}

/* Strehl ratio, energy in a box, width and variance of the fitting error: 5 wavelengths are as good
 * as 81, with the weights of the definitions written out here. */
static void test_many(void **state) {
    (void)state;
    double lambda[MANY], ee[2], box = 60e-3 / ARCSEC_PER_RAD, sum = 0, peak = 0, energy = 0;
    psf_opts o = case_opts();
    bench b;
    o.nbox = 1;
    o.box = &box;
    o.crop = CROP;
    o.nlambda = MANY;
    o.lambda = lambda;
    for (int i = 0; i < MANY; i++)
        lambda[i] = centre + width * ((i + 0.5) / MANY - 0.5);
    open_bench(&b, &o, 0.08);
    double middle = 0;
    for (int i = 0; i < MANY; i++) {
        psf_result r = {.ee = ee};
        OK(psf_compute(b.p, b.sum, b.fit, i, &r));
        peak += r.strehl / pow(lambda[i], 2);
        sum += 1 / pow(lambda[i], 2);
        energy += ee[0] / MANY;
        middle = i == MANY / 2 ? r.strehl : middle;
    }
    close_bench(&b);
    o.nlambda = 1;
    o.lambda = &centre;
    o.width = &width;
    o.band_wavelengths = 5;
    open_bench(&b, &o, 0.08);
    float *image = malloc(CROP * CROP * sizeof *image);
    psf_result r = {.ee = ee, .image = image};
    OK(psf_compute(b.p, b.sum, b.fit, 0, &r));
    CLOSE(r.strehl, peak / sum, 2e-5);
    CLOSE(ee[0], energy, 2e-5);
    CLOSE(image[CROP / 2 * CROP + CROP / 2], r.strehl, 1e-6);
    CLOSE(r.variance, psf_fit_variance(b.fit, centre), 1e-12);
    assert_true(r.strehl < 0.99 * middle); /* the band matters */
    free(image);
    close_bench(&b);
}

/* Amplitude of an annulus of diameter D at an angle, 1 on the axis. */
static double airy(double angle, double lambda, double D, double obs) {
    const double x = M_PI * D * angle / lambda;
    if (x < 1e-9)
        return 1;
    return (2 * j1(x) / x - obs * obs * 2 * j1(obs * x) / (obs * x)) / (1 - obs * obs);
}

/* Without turbulence: the image of an annulus in closed form, at 400 wavelengths; and its width. */
static void test_annulus(void **state) {
    (void)state;
    enum { FINE = 400, STEP = 5 };
    psf_opts o = case_opts();
    bench b;
    float *image = malloc(CROP * CROP * sizeof *image);
    double ee[3], worst = 0;
    o.crop = CROP;
    o.oversampling = 8;
    o.nlambda = 1;
    o.lambda = &centre;
    o.width = &width;
    o.band_wavelengths = 9;
    open_bench(&b, &o, 0);
    psf_result r = {.ee = ee, .image = image};
    OK(psf_compute(b.p, b.sum, b.fit, 0, &r));
    CLOSE(r.strehl, 1.0, 1e-6);
    const double pixel = psf_image_pixel(b.p, 0);
    for (int j = 0; j < CROP; j += STEP)
        for (int i = 1; i < CROP; i += STEP) {
            const double angle = pixel * hypot(i - CROP / 2, j - CROP / 2);
            double want = 0, sum = 0;
            for (int k = 0; k < FINE; k++) {
                const double lambda = centre + width * ((k + 0.5) / FINE - 0.5);
                want += pow(airy(angle, lambda, 8, 0.14) / lambda, 2);
                sum += 1 / (lambda * lambda);
            }
            worst = fmax(worst, fabs(image[j * CROP + i] - want / sum));
        }
    assert_true(worst < 4e-4);   /* of the peak: OTFs on a grid */
    double low = 0, high = 2e-7; /* half the peak, by bisection */
    for (int n = 0; n < 50; n++) {
        const double at = 0.5 * (low + high);
        double value = 0, sum = 0;
        for (int k = 0; k < FINE; k++) {
            const double lambda = centre + width * ((k + 0.5) / FINE - 0.5);
            value += pow(airy(at, lambda, 8, 0.14) / lambda, 2);
            sum += 1 / (lambda * lambda);
        }
        *(value > 0.5 * sum ? &low : &high) = at;
    }
    CLOSE(r.fwhm, 2 * low, 2e-3);
    free(image);
    close_bench(&b);
}

/* A band of nearly no width, with a static map that tilts and deforms the image: pixel by pixel
 * that of its wavelength, which is made in another way. */
static void test_narrow(void **state) {
    (void)state;
    enum { SIDE = 64 };
    const double lambda[2] = {centre, centre}, widths[2] = {0, 1e-6 * centre};
    double ee[2][3];
    float *image[2];
    psf_result r[2];
    bench b;
    psf_opts o = case_opts();
    psf_map map = {.nx = SIDE, .ny = SIDE, .pixel = 8.0 / SIDE, .path = case_doubles(SIDE * SIDE)};
    for (int j = 0; j < SIDE; j++)
        for (int i = 0; i < SIDE; i++) {
            const double x = (i - 31.5) / 32, y = (j - 31.5) / 32;
            map.path[j * SIDE + i] = 1e-7 * (x + 2 * y + 1.5 * x * (x * x + y * y) + x * y);
        }
    o.map = &map;
    o.crop = CROP;
    o.nlambda = 2;
    o.lambda = lambda;
    o.width = widths;
    o.band_wavelengths = 3;
    open_bench(&b, &o, 0.2);
    for (int i = 0; i < 2; i++) {
        image[i] = malloc(CROP * CROP * sizeof **image);
        r[i] = (psf_result){.ee = ee[i], .image = image[i]};
        OK(psf_compute(b.p, b.sum, b.fit, i, &r[i]));
    }
    double odd = 0;
    for (int k = 0; k < CROP * CROP; k++)
        assert_true(fabsf(image[0][k] - image[1][k]) < 2e-6);
    for (int k = 1; k < CROP * CROP; k++)
        if (k % CROP > 0 && k / CROP > 0)
            odd = fmax(odd,
                       fabsf(image[1][k] - image[1][(CROP - k / CROP) * CROP + CROP - k % CROP]));
    assert_true(odd > 0.05); /* there is something to get wrong */
    CLOSE(r[1].strehl, r[0].strehl, 1e-5);
    CLOSE(r[1].fwhm, r[0].fwhm, 1e-5);
    for (int i = 0; i < 3; i++)
        CLOSE(ee[1][i], ee[0][i], 1e-5);
    for (int i = 0; i < 2; i++)
        free(image[i]);
    free(map.path);
    close_bench(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_annulus),
        cmocka_unit_test(test_narrow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
