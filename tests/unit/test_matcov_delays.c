/* Sensors with delays of their own: a layer moves by wind times delay between their measurements,
 * as it would be seen by stars elsewhere. */
#include "moao/backend.h"
#include "support/matcov_case.h"

enum { NSENSOR = 6 };
static const case_sensor sensors[NSENSOR] = {{8, {20, 20}, 90000, 1, 0, {0.01, 0}, 0},
                                             {8, {-21, 17}, 90000, 1, 0, {0.03, -0.02}, 0},
                                             {8, {10, 25}, INFINITY, 1, 0, {0.02, 0}, 11},
                                             {4, {-50, 5}, INFINITY, 1, 0, {0}, 11},
                                             {1, {5, -12}, INFINITY, 1, 0, {0}, 11},
                                             {8, {0, 0}, INFINITY, 0.99, -0.3, {-0.04, 0}, 11}};
static const double late[NSENSOR] = {0, -3e-3, 2e-3, 2e-3, -8e-3, 1e-3};
enum { POINTS = 9 };

typedef struct {
    sys s;
    profile p;
    matcov *mc;
    double *cmm, *ctm, *cpm;
} covariances;

/* layer: as case_profile has it; own: with the delays; elsewhere: stars displaced as the layer at
 * altitude h moves instead. */
static void make(const double layer[5], bool gradient, bool own, bool elsewhere, double delay,
                 covariances *c) {
    matcov_target *mt;
    double x[POINTS], y[POINTS];
    case_sys(8, 0.2, 8, NSENSOR, sensors, &c->s);
    case_profile(1, (const double(*)[5])layer, &c->p);
    c->s.delay = delay;
    c->s.ts.gradient = gradient;
    for (int w = 0; w < NSENSOR; w++) {
        sensor *o = &c->s.sensors[w];
        o->gradient = gradient;
        o->noise.variance = 0;
        o->late = own ? late[w] : 0;
        for (int i = 0; i < 2 && elsewhere; i++)
            o->dir[i] -= layer[3 + i] * late[w] / layer[0];
    }
    case_ok(matcov_prepare(&c->s, &c->p, &c->mc));
    case_ok(matcov_tabulate(c->mc));
    c->cmm = calloc(c->s.m * c->s.m, sizeof(double));
    c->ctm = calloc(c->s.t * c->s.m, sizeof(double));
    c->cpm = calloc(POINTS * c->s.m, sizeof(double));
    case_ok(matcov_fill_cmm(c->mc, 0, c->s.m, 0, c->s.m, c->cmm, c->s.m));
    case_ok(matcov_target_init(c->mc, (double[2]){CASE_ARCSEC(7), CASE_ARCSEC(-3)}, true, &mt));
    case_ok(matcov_fill_ctm(mt, 0, c->s.m, c->ctm, c->s.t));
    for (int i = 0; i < POINTS; i++) {
        x[i] = -3.5 + 0.8 * i;
        y[i] = 2.9 - 0.7 * i;
    }
    case_ok(matcov_fill_cpm(mt, (matcov_points){POINTS, x, y}, 0, c->s.m, c->cpm, POINTS));
    matcov_target_free(mt);
}

static void drop(covariances *c) {
    free(c->cmm);
    free(c->ctm);
    free(c->cpm);
    matcov_free(c->mc);
    case_profile_free(&c->p);
    sys_free(&c->s);
}

static double largest(const double *a, size_t n) {
    double most = 0;
    for (size_t i = 0; i < n; i++)
        most = fmax(most, fabs(a[i]));
    return most;
}

/* Largest difference over the largest entry. */
static double gap(const double *a, const double *b, size_t n) {
    double most = 0;
    for (size_t i = 0; i < n; i++)
        most = fmax(most, fabs(a[i] - b[i]));
    return most / largest(b, n);
}

static const double high[5] = {6000, 25, 5, 21, -13}, ground[5] = {0, 25, 5, 21, -13};

/* On one layer a delay is a displacement of the star; both kinds of slopes, cones, sensors on a
 * lattice and not, partly lit subapertures, a star of one. */
static void test_displaced(void **state) {
    (void)state;
    for (int gradient = 0; gradient < 2; gradient++) {
        covariances a, b, c;
        make(high, gradient, true, false, 5e-3, &a);
        make(high, gradient, false, true, 5e-3, &b);
        make(high, gradient, false, false, 5e-3, &c);
        const size_t m = a.s.m, t = a.s.t;
        assert_true(gap(a.cmm, b.cmm, m * m) < 1e-10);
        assert_true(gap(a.ctm, b.ctm, t * m) < 1e-10);
        assert_true(gap(a.cpm, b.cpm, POINTS * m) < 1e-10);
        assert_true(gap(c.cmm, b.cmm, m * m) > 1e-3);
        assert_true(gap(c.ctm, b.ctm, t * m) > 1e-3);
        drop(&a);
        drop(&b);
        drop(&c);
    }
}

/* The same delay of all sensors is the loop's; on the ground too, where stars do not matter. */
static void test_common(void **state) {
    (void)state;
    const double *layer[] = {high, ground};
    for (int k = 0; k < 4; k++) {
        covariances a, b;
        make(layer[k / 2], k % 2, false, false, 7e-3, &a);
        make(layer[k / 2], k % 2, false, false, 0, &b);
        double *ctm = calloc(b.s.t * b.s.m, sizeof *ctm);
        matcov *mc;
        matcov_target *mt;
        for (int w = 0; w < NSENSOR; w++)
            b.s.sensors[w].late = -7e-3;
        case_ok(matcov_prepare(&b.s, &b.p, &mc));
        case_ok(matcov_tabulate(mc));
        case_ok(matcov_target_init(mc, (double[2]){CASE_ARCSEC(7), CASE_ARCSEC(-3)}, true, &mt));
        case_ok(matcov_fill_ctm(mt, 0, b.s.m, ctm, b.s.t));
        assert_true(gap(ctm, a.ctm, b.s.t * b.s.m) < 1e-10);
        assert_true(gap(b.ctm, a.ctm, b.s.t * b.s.m) > 1e-4);
        matcov_target_free(mt);
        case_ok(matcov_fill_cmm(mc, 0, b.s.m, 0, b.s.m, b.cmm, b.s.m));
        assert_true(gap(b.cmm, a.cmm, b.s.m * b.s.m) < 1e-12);
        matcov_free(mc);
        free(ctm);
        drop(&a);
        drop(&b);
    }
}

/* Entries against the closed form, layers at the ground and above at once. */
static void test_direct(void **state) {
    (void)state;
    for (int gradient = 0; gradient < 2; gradient++) {
        covariances c;
        make(ground, gradient, true, false, 5e-3, &c);
        const double most = largest(c.cmm, c.s.m * c.s.m),
                     dir[2] = {CASE_ARCSEC(7), CASE_ARCSEC(-3)};
        for (int n = 0; n < (gradient ? 100 : 5000); n++) {
            const size_t i = (size_t)case_random(0, (double)c.s.m),
                         j = (size_t)case_random(0, (double)c.s.m), k = i % c.s.t;
            int w, v, axis, sub;
            sys_slope_at(&c.s, i, &w, &axis, &sub);
            sys_slope_at(&c.s, j, &v, &axis, &sub);
            const double tolerance = gradient ? 3e-4 : 1e-9;
            if (w != v)
                assert_true(fabs(c.cmm[i + j * c.s.m] - matcov_direct_cmm(&c.s, &c.p, i, j)) <
                            tolerance * most);
            assert_true(fabs(c.ctm[k + j * c.s.t] -
                             matcov_direct_ctm(&c.s, &c.p, dir, true, k, j)) < tolerance * most);
        }
        drop(&c);
    }
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_displaced),
        cmocka_unit_test(test_common),
        cmocka_unit_test(test_direct),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    MPI_Finalize();
    return failed;
}
