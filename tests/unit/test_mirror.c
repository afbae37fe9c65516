/* Slopes that a mirror makes on the sensors (matcov/mirror.c): against the truth sensor's
 * interaction matrix, moved mirrors, and gradients over lit parts by differences of the phase. */
#include "matcov/matcov.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { N = 6 };

static sys case_of(bool gradient, double obs, double altitude) {
    sys s = {.diameter = 3, .obs = obs, .nsensor = 1, .ntarget = 1};
    s.sensors = calloc(1, sizeof *s.sensors);
    s.targets = calloc(1, sizeof *s.targets);
    s.sensors[0] = (sensor){.nssp = N, .altitude = altitude, .mag = 1, .gradient = gradient};
    s.ts = (sensor){.nssp = N, .altitude = INFINITY, .mag = 1, .gradient = gradient};
    s.dm = (dmirror){.nssp = N, .coupling = 0.3, .mu = 3e-3};
    assert_int_equal(sys_derive(&s), MOAO_OK);
    return s;
}

static double *slopes(const sys *s, const dmirror *dm, const matcov_placement *at) {
    double *g = malloc(s->m * (size_t)dm->nact * sizeof *g);
    assert_int_equal(matcov_fill_mirror(s, dm, at, g, s->m), MOAO_OK);
    return g;
}

static const matcov_placement model = {.scale = 1};

static void test_interaction(void **state) {
    (void)state;
    for (int gradient = 0; gradient < 2; gradient++) {
        sys s = case_of(gradient, 0, INFINITY);
        double *g = slopes(&s, &s.dm, &model), *d = calloc(s.t * (size_t)s.dm.nact, sizeof *d);
        assert_int_equal(matcov_fill_interaction(&s, d, s.t), MOAO_OK);
        int whole = 0;
        for (int k = 0; k < s.sensors[0].nsub; k++) {
            if (gradient && !sys_is_whole(&s, &s.sensors[0], k))
                continue;
            whole++;
            for (size_t a = 0; a < (size_t)s.dm.nact; a++)
                for (size_t i = (size_t)k; i < s.m; i += s.m / 2)
                    assert_true(fabs(g[i + a * s.m] - d[i + a * s.t]) < ARCSEC_PER_RAD * 1e-6);
        }
        assert_true(whole >= 12);
        free(g);
        free(d);
        sys_free(&s);
    }
}

/* phase of an actuator at a point of the pupil, with a mirror that is moved */
static double shape(const dmirror *dm, int a, const matcov_placement *at, double x, double y) {
    const int side = dm->nssp + 1;
    const double px = (dm->act[a] % side - 0.5 * dm->nssp) * dm->pitch,
                 py = (dm->act[a] / side - 0.5 * dm->nssp) * dm->pitch, c = cos(at->rot),
                 s = sin(at->rot);
    const double dx = (x - at->shift[0] - at->scale * (c * px - s * py)) / (at->scale * dm->pitch),
                 dy = (y - at->shift[1] - at->scale * (s * px + c * py)) / (at->scale * dm->pitch);
    return exp(log(dm->coupling) * (dx * dx + dy * dy));
}

/* A laser star aside, a mirror at an altitude that is moved, an obscuration that cuts subapertures,
 * a registered sensor. */
static void test_gradients(void **state) {
    (void)state;
    const matcov_placement at = {{0.07, -0.04}, 0.1, 1.05};
    sys s = case_of(true, 0.3, 9000);
    sensor *o = &s.sensors[0];
    o->dir[0] = 1e-4;
    o->rot = 0.2;
    o->shift[1] = 0.05;
    dmirror dm = {.nssp = 7, .pitch = 0.5, .coupling = 0.2, .altitude = 900};
    assert_int_equal(sys_derive_mirror(&s, &dm), MOAO_OK);
    double *g = slopes(&s, &dm, &at), most = 0, gap = 0;
    const double cone = 1 - dm.altitude / o->altitude, d = s.diameter / N, step = 1e-4;
    enum { CELLS = 60 };
    for (int k = 0; k < o->nsub; k++)
        for (int a = 0; a < dm.nact; a++)
            for (int axis = 0; axis < 2; axis++) {
                double sum = 0;
                int lit = 0;
                for (int i = 0; i < CELLS * CELLS; i++) {
                    const double u = (o->sub[k] % N - N / 2 + (i % CELLS + 0.5) / CELLS) * d,
                                 v = (o->sub[k] / N - N / 2 + (i / CELLS + 0.5) / CELLS) * d;
                    if (a % 5 != k % 5 || !sys_is_lit(&s, u, v))
                        continue;
                    double end[2];
                    for (int sign = 0; sign < 2; sign++) {
                        const double p = u + (axis == 0 ? (sign - 0.5) * step : 0),
                                     q = v + (axis == 1 ? (sign - 0.5) * step : 0);
                        const double x = cos(o->rot) * p - sin(o->rot) * q,
                                     y = sin(o->rot) * p + cos(o->rot) * q + o->shift[1];
                        end[sign] =
                            shape(&dm, a, &at, cone * x + o->dir[0] * dm.altitude, cone * y);
                    }
                    sum += (end[1] - end[0]) / step * ARCSEC_PER_RAD;
                    lit++;
                }
                if (lit == 0)
                    continue;
                gap =
                    fmax(gap, fabs(sum / lit - g[(size_t)(axis * o->nsub + k) + (size_t)a * s.m]));
                most = fmax(most, fabs(sum / lit));
            }
    assert_true(most > 1e5);
    assert_true(gap < 0.005 * most);
    free(g);
    free(dm.act);
    sys_free(&s);
}

/* A mirror above the star is not seen; one that is moved by a pitch is the next actuator. */
static void test_places(void **state) {
    (void)state;
    sys s = case_of(false, 0, 500);
    dmirror dm = {.nssp = 6, .pitch = 0.5, .coupling = 0.2, .altitude = 500};
    assert_int_equal(sys_derive_mirror(&s, &dm), MOAO_OK);
    double *g = slopes(&s, &dm, &model);
    for (size_t i = 0; i < s.m * (size_t)dm.nact; i++)
        assert_true(g[i] == 0);
    free(g);
    dm.altitude = 0;
    g = slopes(&s, &dm, &model);
    double *moved = slopes(&s, &dm, &(matcov_placement){{0.5, 0}, 0, 1});
    int pairs = 0;
    for (int a = 0; a + 1 < dm.nact; a++)
        for (size_t i = 0; dm.act[a] % 7 < 6 && dm.act[a + 1] == dm.act[a] + 1 && i < s.m;
             i++, pairs++)
            assert_true(fabs(moved[i + (size_t)a * s.m] - g[i + (size_t)(a + 1) * s.m]) < 1e-6);
    assert_true(pairs > 0);
    free(g);
    free(moved);
    free(dm.act);
    sys_free(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_interaction),
                                       cmocka_unit_test(test_gradients),
                                       cmocka_unit_test(test_places)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
