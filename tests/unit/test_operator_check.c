/* What compute.product: toeplitz finds of its own errors (product_kind.check), with tiles and with
 * dense blocks: small as it is loaded; where its profile is another one than that of the
 * comparison, the difference of the two. */
#include "support/engine_case.h"
#include "support/matcov_backend.h"

#include "operator/operator.h"

#define ROWS 9

/* two groups of sensors on a common lattice, and one on its own */
static const case_sensor sensors[] = {{10, {20, 5}, 9e4, 1, 0, {0}, 0},
                                      {9, {30, -9}, INFINITY, 1, 0, {0}, 10},
                                      {10, {-15, 12}, 9e4, 1, 0, {0}, 0},
                                      {9, {-3, -30}, INFINITY, 1, 0, {0}, 9},
                                      {10, {-8, 22}, 9e4, 1, 0.1, {0, 0.1}, 0}};
static const double layers[2][5] = {{0, 25, 60, 4, -3}, {6000, 40, 30, 10, 2}};

/* Errors of the grid with the profile loaded, and with turbulence 1 + more times as strong for the
 * comparison. */
static void errors(bool gradient, double more, double *rms, double *worst) {
    report rep = {0};
    engine e;
    sys s;
    profile p;
    linop *o = NULL;
    double *proj;
    case_sys(8, 0.2, 5, 5, sensors, &s);
    for (int w = 0; w < s.nsensor; w++)
        s.sensors[w].gradient = gradient;
    s.ts.gradient = gradient;
    case_profile(2, layers, &p);
    case_engine(&world, &s, &rep, &e);
    e.rows = ROWS;
    case_ok(engine_load(&e, &p));
    proj = device(sizeof(double) * (size_t)(ROWS * e.t));
    const plan plan = {.pair = linop_find("grid"),
                       .devices = true,
                       .host = true,
                       .rows = ROWS,
                       .width = (size_t)e.width,
                       .nrank = 1,
                       .most = 1,
                       .fits = 1};
    case_ok(linop_open(&e, &plan, proj, &o));
    case_ok(linop_load(o, &p));
    for (int l = 0; l < p.nlayer; l++)
        p.strength[l] *= 1 + more;
    case_ok(engine_load(&e, &p));
    case_ok(o->product->check(o->x, 1, rms, worst));
    linop_close(o);
    be->release(ctx, proj);
    engine_close(&e);
    case_profile_free(&p);
    sys_free(&s);
}

static void test_errors(void **state) {
    (void)state;
    for (int gradient = 0; gradient < 2; gradient++) {
        double rms, worst, other[2];
        errors(gradient, 0, &rms, &worst);
        /* of single precision; these sensors are of few squares, whose tiles are whole */
        assert_true(rms > 1e-9 && rms < 1e-7);
        assert_true(worst > 2 * rms && worst < 1e-6);
        for (int k = 0; k < 2; k++) {
            double large;
            errors(gradient, k ? 0.02 : 0.01, &other[k], &large);
            /* the variance of a slope is wrong by that, of the smallest subapertures by most */
            const double of_one = large / (k ? 0.02 / 1.02 : 0.01 / 1.01);
            assert_true(of_one > 0.999 && of_one < 1.2);
            assert_true(other[k] < large / 2 && other[k] > large / 100);
        }
        const double ratio = other[1] / other[0] * (1.02 / 1.01);
        assert_true(fabs(ratio - 2) < 0.01);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_errors)};
    return run_alone(tests, 1);
}
