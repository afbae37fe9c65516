/* Differences of mean gradients in single precision by the backends where a pair is so large that a
 * backend may interpolate between sums over layers: against the stage, entry by entry and in the
 * mean. The variable MOAO_TEST_BACKEND picks a backend. */
#include "support/matcov_backend.h"

#include "moao/backend_fp16.h"

/* A registered and a turned natural star of other orders than the truth sensor, and a laser star.
 */
static const case_sensor stars[] = {{34, {17, -9}, INFINITY, 0.98, 0, {0.04, -0.03}, 10},
                                    {29, {-24, 30}, INFINITY, 1, CASE_DEGREE(9), {0.02, 0.05}, 11},
                                    {30, {5, 12}, 90000, 1, 0, {0}, 0}};
static const double layers[][5] = {{0, 25, 9, 5, -3}, {2500, 12, 3, 11, 9}, {9000, 30, 3, -14, 20}};
static const double before[][5] = {{0, 25, 5, 5, -3}, {2500, 12, 6, 11, 9}, {9000, 30, 1, -14, 20}};
static const double dir[2] = {CASE_ARCSEC(21), CASE_ARCSEC(-13)};

typedef struct {
    sys s;
    profile p, p0;
    matcov *mc;
    matcov_target *mt;
    matcov_model model;
    backend_cov *c;
    backend_cov_target *v;
} fixture;

/* Of the difference of two profiles, which is what may be so rough. */
static void setup(fixture *f, bool gradient) {
    *f = (fixture){0};
    case_sys(8, 0.2, 40, 3, stars, &f->s);
    f->s.ts.gradient = gradient;
    for (int w = 0; w < f->s.nsensor; w++)
        f->s.sensors[w].gradient = gradient;
    case_profile(3, layers, &f->p);
    case_profile(3, before, &f->p0);
    double bound;
    case_ok(matcov_prepare_difference(&f->s, &f->p, &f->p0, 0.8, true, &f->mc, &bound));
    case_ok(matcov_model_init(f->mc, &f->model));
    case_ok(ops->open(ctx, &f->model, &f->c));
    case_ok(ops->open_target(f->c, &f->v));
    case_ok(ops->aim(f->v, dir, true));
    case_ok(matcov_target_init(f->mc, dir, true, &f->mt));
}

static void teardown(fixture *f) {
    matcov_target_free(f->mt);
    ops->close_target(f->v);
    ops->close(f->c);
    matcov_model_free(&f->model);
    matcov_free(f->mc);
    case_profile_free(&f->p);
    case_profile_free(&f->p0);
    sys_free(&f->s);
}

typedef struct {
    double worst, square, count;
} differences;

static void compare(differences *d, int64_t n, const float *got, const double *want) {
    for (int64_t i = 0; i < n; i++) {
        const double e = isnan(got[i]) ? INFINITY : fabs(got[i] - want[i]);
        d->worst = fmax(d->worst, e);
        d->square += e * e;
        d->count++;
    }
}

static void expect(const char *what, const differences *d, double scale, double worst, double rms) {
    const double mean = sqrt(d->square / d->count);
    if (!(d->worst <= worst * scale && mean <= rms * scale))
        fail_msg("%s: at most %.3g, rms %.3g", what, d->worst / scale, mean / scale);
    printf("%s: at most %.3g, rms %.3g\n", what, d->worst / scale, mean / scale);
}

/* Ctm by panels that end anywhere, rows from 0 and from elsewhere on; in units of the slope
 * variance. */
static void test_ctm(void **state) {
    (void)state;
    fixture f;
    differences d = {0};
    setup(&f, true);
    const int64_t t = (int64_t)f.s.t, m = (int64_t)f.s.m, width = 431;
    double *want = malloc((size_t)(t * width) * sizeof *want);
    float *got = malloc((size_t)(t * width) * sizeof *got);
    float *a = device((size_t)(t * width) * sizeof *got);
    for (int64_t j = 0; j < m; j += width) {
        const int64_t n = m - j < width ? m - j : width, i0 = j / width % 2 * 77;
        case_ok(ops->fill_ctm(f.v, BACKEND_S, (matcov_region){i0, t - i0, j, n}, a, t - i0));
        move(got, a, (size_t)((t - i0) * n) * sizeof *got);
        case_ok(matcov_fill_ctm(f.mt, (size_t)j, (size_t)n, want, (size_t)t));
        for (int64_t k = 0; k < n; k++)
            compare(&d, t - i0, got + k * (t - i0), want + k * t + i0);
    }
    expect("Ctm", &d, matcov_direct_cmm(&f.s, &f.p, 0, 0), 5e-4, 1e-5);
    be->release(ctx, a);
    free(want);
    free(got);
    teardown(&f);
}

static double fp16_value(uint16_t h) {
    const int e = h >> 10 & 31, m = h & 1023;
    const double v = e > 0 ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
    return e == 31 ? INFINITY : h >> 15 ? -v : v;
}

/* FP16 of 2^exponent times the floats, rounded twice where subapertures are partly lit. */
static void same_fp16(const char *what, size_t n, const uint16_t *h, int exponent, const float *a,
                      double scale) {
    for (size_t i = 0; i < n; i++) {
        const double v = ldexp(a[i], exponent);
        if (!(fabs(fp16_value(h[i]) - v) <=
              fmax(ldexp(fabs(v), -10), ldexp(1, exponent) * 1e-4 * scale)))
            fail_msg("%s: half %zu is %g, not %g", what, i, fp16_value(h[i]), v);
    }
}

/* Of sensor w; a: t x 2 nsub floats. Where a backend has a way. */
static void expect_fp16(const fixture *f, int w, const float *a, double scale) {
    const int64_t t = (int64_t)f->s.t, n = f->s.sensors[w].nsub;
    const size_t numbers = (size_t)(2 * t * n);
    const int exponent = backend_fp16_exponent(4 * scale);
    bool done = false;
    uint16_t *h = malloc(numbers * sizeof *h), *d = device(numbers * sizeof *h);
    if (ops->fill_ctm_fp16 != NULL)
        case_ok(ops->fill_ctm_fp16(f->v, exponent, (matcov_slopes){w, 0, n, n}, d, t, &done));
    move(h, d, numbers * sizeof *h);
    if (done)
        same_fp16("Ctm", numbers, h, exponent, a, scale);
    be->release(ctx, d);
    free(h);
}

/* The same in double precision, against columns of one axis. */
static void ctm_both_double(const fixture *f, int w, int64_t k0, int64_t n, double variance) {
    const int64_t t = (int64_t)f->s.t, nsub = f->s.sensors[w].nsub, apart = n + 1;
    const size_t numbers = (size_t)(t * (apart + n));
    double *got = malloc(numbers * sizeof *got), *want = malloc((size_t)(t * n) * sizeof *want);
    double *a = device(numbers * sizeof *got);
    case_ok(ops->fill_ctm_both(f->v, BACKEND_D, (matcov_slopes){w, k0, n, apart}, a, t));
    move(got, a, numbers * sizeof *got);
    for (int axis = 0; axis < 2; axis++) {
        case_ok(matcov_fill_ctm(f->mt, f->s.sensors[w].first + (size_t)(axis * nsub + k0),
                                (size_t)n, want, (size_t)t));
        for (int64_t i = 0; i < t * n; i++)
            if (!(fabs(got[axis * apart * t + i] - want[i]) <= 3e-9 * variance))
                fail_msg("sensor %d, axis %d, entry %ld: %.17g, expected %.17g", w, axis, (long)i,
                         got[axis * apart * t + i], want[i]);
    }
    be->release(ctx, a);
    free(want);
    free(got);
}

/* Ctm of both axes of some subapertures of each sensor, of slopes of either kind; in units of the
 * slope variance. Columns between the two axes are not touched. */
static void ctm_both(bool gradient, double worst, double rms) {
    fixture f;
    differences d = {0};
    setup(&f, gradient);
    const int64_t t = (int64_t)f.s.t;
    for (int w = 0; w < f.s.nsensor; w++) {
        const int64_t nsub = f.s.sensors[w].nsub, some[][2] = {{0, nsub}, {nsub / 3, 77}};
        for (int i = 0; i < 2; i++) {
            const int64_t k0 = some[i][0], n = some[i][1], apart = n + 3, ld = t + 2 * i;
            const size_t numbers = (size_t)(ld * (apart + n));
            double *want = malloc((size_t)(t * n) * sizeof *want);
            float *got = malloc(numbers * sizeof *got), *a = device(numbers * sizeof *got);
            for (size_t k = 0; k < numbers; k++)
                got[k] = -77;
            move(a, got, numbers * sizeof *got);
            case_ok(ops->fill_ctm_both(f.v, BACKEND_S, (matcov_slopes){w, k0, n, apart}, a, ld));
            move(got, a, numbers * sizeof *got);
            for (int axis = 0; axis < 2; axis++) {
                const size_t first = f.s.sensors[w].first + (size_t)(axis * nsub + k0);
                case_ok(matcov_fill_ctm(f.mt, first, (size_t)n, want, (size_t)t));
                for (int64_t k = 0; k < n; k++)
                    compare(&d, t, got + (axis * apart + k) * ld, want + k * t);
            }
            for (int64_t k = n * ld; k < apart * ld; k++)
                assert_true(got[k] == -77);
            if (i == 0) {
                float *both = malloc(2 * (size_t)(t * n) * sizeof *both);
                memcpy(both, got, (size_t)(t * n) * sizeof *both);
                memcpy(both + t * n, got + apart * ld, (size_t)(t * n) * sizeof *both);
                expect_fp16(&f, w, both, matcov_direct_cmm(&f.s, &f.p, 0, 0));
                free(both);
            }
            be->release(ctx, a);
            free(want);
            free(got);
            ctm_both_double(&f, w, k0, n, matcov_direct_cmm(&f.s, &f.p, 0, 0));
        }
    }
    expect(gradient ? "Ctm of both axes, mean gradients" : "Ctm of both axes, points", &d,
           matcov_direct_cmm(&f.s, &f.p, 0, 0), worst, rms);
    teardown(&f);
}

static void test_ctm_both(void **state) {
    (void)state;
    ctm_both(true, 5e-4, 1e-5);
}

static void test_ctm_points(void **state) {
    (void)state;
    ctm_both(false, 2e-3, 2e-5);
}

/* Cpm on points anywhere in the pupil, one axis and both; in units of the largest. */
static void cpm(bool gradient, double worst, double rms) {
    enum { NP = 1500 };
    fixture f;
    differences d = {0};
    static double x[NP], y[NP];
    double most = 0;
    setup(&f, gradient);
    for (int i = 0; i < NP; i++) {
        const double r = 4 * sqrt(case_random(0, 1)), angle = case_random(0, 7);
        x[i] = r * cos(angle), y[i] = r * sin(angle);
    }
    double *dx = device(sizeof x), *dy = device(sizeof y);
    move(dx, x, sizeof x);
    move(dy, y, sizeof y);
    for (int w = 0; w < f.s.nsensor; w++) {
        const int64_t n = f.s.sensors[w].nsub, first = (int64_t)f.s.sensors[w].first;
        const size_t numbers = (size_t)(2 * n * NP);
        double *want = malloc(numbers * sizeof *want);
        float *got = malloc(numbers * sizeof *got), *a = device(numbers * sizeof *got);
        case_ok(matcov_fill_cpm(f.mt, (matcov_points){NP, x, y}, (size_t)first, (size_t)(2 * n),
                                want, NP));
        for (size_t i = 0; i < numbers; i++)
            most = fmax(most, fabs(want[i]));
        case_ok(ops->fill_cpm_both(f.v, BACKEND_S, (matcov_points){NP, dx, dy},
                                   (matcov_slopes){w, 0, n, n}, a, NP));
        move(got, a, numbers * sizeof *got);
        compare(&d, (int64_t)numbers, got, want);
        if (ops->fill_cpm_fp16 != NULL) {
            const int exponent = backend_fp16_exponent(4 * most);
            bool done;
            uint16_t *h = malloc(numbers * sizeof *h), *dh = device(numbers * sizeof *h);
            case_ok(ops->fill_cpm_fp16(f.v, exponent, (matcov_points){NP, dx, dy},
                                       (matcov_slopes){w, 0, n, n}, dh, NP, &done));
            move(h, dh, numbers * sizeof *h);
            if (done)
                same_fp16("Cpm", numbers, h, exponent, got, most);
            be->release(ctx, dh);
            free(h);
        }
        case_ok(ops->fill_cpm(f.v, BACKEND_S, (matcov_points){NP, dx, dy}, first + 5, n, a, NP));
        move(got, a, numbers / 2 * sizeof *got);
        compare(&d, (int64_t)numbers / 2, got, want + 5 * NP);
        be->release(ctx, a);
        free(want);
        free(got);
    }
    expect(gradient ? "Cpm, mean gradients" : "Cpm, points", &d, most, worst, rms);
    be->release(ctx, dx);
    be->release(ctx, dy);
    teardown(&f);
}

static void test_cpm(void **state) {
    (void)state;
    cpm(true, 6e-4, 2e-5);
}

static void test_cpm_points(void **state) {
    (void)state;
    cpm(false, 4e-3, 2e-5);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_ctm), cmocka_unit_test(test_ctm_both), cmocka_unit_test(test_ctm_points),
    cmocka_unit_test(test_cpm), cmocka_unit_test(test_cpm_points)};

int main(void) {
    return run_alone(tests, sizeof tests / sizeof *tests);
}
