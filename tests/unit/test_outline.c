/* Mean gradients over the lit part of subapertures: outlines against areas that are counted, tilts
 * over a disc against what is known, and small systems against quadrature. */
#include "matcov/formula.h"
#include "matcov/internal.h"
#include "support/matcov_case.h"

#include <mpi.h>

static comm world;

static bool lit(const sys *s, double x, double y) {
    const double r = hypot(x, y) / (0.5 * s->diameter);
    return r < 1 && r >= s->obs;
}

/* Mean gradient of a polynomial over the lit part, on 400 x 400 points. */
static void counted(const sys *s, const sensor *o, int k, double mean[2]) {
    const double d = s->diameter / o->nssp;
    int n = 0;
    mean[0] = mean[1] = 0;
    for (int i = 0; i < 400 * 400; i++) {
        const double x = (o->sub[k] % o->nssp - 0.5 * o->nssp + (i % 400 + 0.5) / 400) * d;
        const double y = (o->sub[k] / o->nssp - 0.5 * o->nssp + (i / 400 + 0.5) / 400) * d;
        if (!lit(s, x, y))
            continue;
        n++;
        mean[0] += 1 + y + 2 * x * y + 3 * x * x;
        mean[1] += x + x * x - 2 * y;
    }
    mean[0] /= n, mean[1] /= n;
}

/* x + xy + x^2 y + x^3 - y^2, at the nodes; sensors of every size, with an obscuration. */
static void test_polynomials(void **state) {
    (void)state;
    static const case_sensor all[] = {
        {1, {0}, INFINITY, 1, 0, {0}, 9}, {2, {0}, INFINITY, 1, 0, {0}, 9},
        {3, {0}, INFINITY, 1, 0, {0}, 9}, {4, {0}, INFINITY, 1, 0, {0}, 9},
        {9, {0}, INFINITY, 1, 0, {0}, 9}, {16, {0}, INFINITY, 1, 0, {0}, 9}};
    for (int obs = 0; obs < 4; obs++) {
        sys s;
        case_sys(2, 0.17 * obs, 9, 6, all, &s);
        for (int w = 0; w < 6; w++) {
            const sensor *o = &s.sensors[w];
            for (int k = 0; k < o->nsub; k += w < 4 ? 1 : 5) {
                static double node[4][OUTLINE_NODES(8)];
                double mean[2], got[2] = {0, 0};
                const int n = outline_nodes(&s, o, k, false, 8, node[0], node[1], node[2], node[3]);
                counted(&s, o, k, mean);
                for (int i = 0; i < n; i++) {
                    const double x = node[0][i], y = node[1][i];
                    const double phase = x + x * y + x * x * y + x * x * x - y * y;
                    got[0] += node[2][i] * phase, got[1] += node[3][i] * phase;
                }
                for (int axis = 0; axis < 2; axis++)
                    if (!(fabs(got[axis] - mean[axis]) < 6e-3))
                        fail_msg("%d subapertures, obscuration %g, number %d, axis %d: %.5f, "
                                 "counted %.5f",
                                 o->nssp, s.obs, k, axis, got[axis], mean[axis]);
            }
        }
        sys_free(&s);
    }
}

/* Variance of a mean gradient over a disc for Kolmogorov's spectrum: 0.170 (lambda/D)^2
 * (D/r0)^(5/3) (Sasiela 1994, gradient tilt), of one axis. */
static void test_disc(void **state) {
    (void)state;
    static const case_sensor one = {1, {0}, INFINITY, 1, 0, {0}, 9};
    static const double layer[][5] = {{0, INFINITY, 1, 0, 0}};
    sys s;
    profile p;
    matcov *mc;
    double a[4];
    case_sys(4, 0, 4, 1, &one, &s);
    s.sensors[0].gradient = s.ts.gradient = true;
    s.sensors[0].noise.variance = 0;
    case_profile(1, layer, &p);
    case_ok(matcov_init(&world, &s, &p, &mc));
    case_ok(matcov_fill_cmm(mc, 0, 2, 0, 2, a, 2));
    const double want =
        0.170 * pow(500e-9 / 4 * ARCSEC_PER_RAD, 2) * p.strength[0] * pow(4, 5. / 3);
    print_message("variance over a disc: %.4f of 0.170\n", a[0] / want);
    assert_true(fabs(a[0] / want - 1) < 0.005 && fabs(a[3] / a[0] - 1) < 1e-6);
    assert_true(fabs(a[1]) < 1e-9 * a[0] && fabs(a[2]) < 1e-9 * a[0]);
    matcov_free(mc);
    case_profile_free(&p);
    sys_free(&s);
}

/* Every pair of a small system, of all kinds of sensors, against quadrature. */
static void test_all_pairs(void **state) {
    (void)state;
    static const case_sensor all[] = {{4, {10, -5}, 90000, 1, 0, {0}, 9},
                                      {4, {3, 7}, INFINITY, 1.02, 0.3, {0.1, 0}, 9},
                                      {1, {0, 0}, INFINITY, 1, 0, {0}, 9},
                                      {2, {-4, 2}, INFINITY, 1, 0, {0}, 9}};
    static const double layer[][5] = {{0, 25, 6, 3, 1}, {5000, 20, 2, 5, 5}};
    sys s;
    profile p;
    matcov *mc;
    double worst = 0;
    case_sys(4, 0.2, 4, 4, all, &s);
    s.ts.gradient = true;
    for (int w = 0; w < 4; w++)
        s.sensors[w].gradient = true, s.sensors[w].noise.variance = s.sensors[w].noise.tiptilt = 0;
    case_profile(2, layer, &p);
    case_ok(matcov_init(&world, &s, &p, &mc));
    double *a = calloc(s.m * s.m, sizeof *a);
    case_ok(matcov_fill_cmm(mc, 0, s.m, 0, s.m, a, s.m));
    for (size_t i = 0; i < s.m; i++)
        for (size_t j = 0; j <= i; j += 1 + (i + j) % 3) {
            const double want = matcov_direct_cmm(&s, &p, i, j);
            const double unit = sqrt(a[i + i * s.m] * a[j + j * s.m]);
            worst = fmax(worst, fabs(a[i + j * s.m] - want) / unit);
            assert_true(fabs(a[i + j * s.m] - a[j + i * s.m]) <= 1e-12 * unit);
        }
    print_message("all pairs: %.1e of the slope variance\n", worst);
    assert_true(worst < 2e-4);
    free(a);
    matcov_free(mc);
    case_profile_free(&p);
    sys_free(&s);
}

/* The phase at a line of points with one subaperture, point by point. */
static void point_by_point(const outline_phase *p, int k, int n, const double *x, const double *y,
                           double *f, double *g) {
    for (int i = 0; i < n; i++) {
        double e[2];
        gradient_phases(p->t, p->g->values, p->turn, x[i] - p->c * p->f->centre[0][k] - p->of[0],
                        y[i] - p->c * p->f->centre[1][k] - p->of[1], e);
        for (int axis = 0; axis < 2; axis++)
            e[axis] *= formula_phase_scale(p->f->size) * p->coef;
        outline_add_phase(p, x[i], y[i], k, formula_phase_scale(1.0), e);
        f[i] += e[0], g[i] += e[1];
    }
}

/* Lines of points at once, near a subaperture and far from it, on a layer as on the ground, give
 * what each point gives by itself, to rounding; of whole subapertures nothing is added. */
static void test_lines(void **state) {
    (void)state;
    static const case_sensor all[] = {{4, {10, -5}, 90000, 1, 0, {0}, 9},
                                      {5, {3, 7}, INFINITY, 1.02, 0.3, {0.1, 0}, 9},
                                      {1, {0, 0}, INFINITY, 1, 0, {0}, 9},
                                      {2, {-4, 2}, INFINITY, 1, 0, {0}, 9}};
    static const double layer[][5] = {{0, 25, 6, 3, 1}, {5000, 20, 2, 5, 5}};
    enum { N = 700 };
    static double x[N], y[N], got[2][N], want[2][N];
    int whole = 0, others = 0;
    sys s;
    profile p;
    matcov *mc;
    case_sys(4, 0.2, 4, 4, all, &s);
    s.ts.gradient = true;
    for (int w = 0; w < 4; w++)
        s.sensors[w].gradient = true;
    case_profile(2, layer, &p);
    case_ok(matcov_init(&world, &s, &p, &mc));
    for (int w = 0; w < 4; w++)
        for (int l = 0; l < 2; l++)
            for (int k = 0; k < mc->feet[w].nsub; k++) {
                outline_phase of;
                const int n = (int[]){N, 1, 513, 130}[k % 4];
                double worst = 0, most = 0;
                assert_true(outline_open_phase(&mc->means, &mc->phase, l, &mc->feet[w], &of));
                for (int i = 0; i < n; i++) {
                    x[i] = case_random(-7, 7), y[i] = case_random(-7, 7);
                    for (int axis = 0; axis < 2; axis++)
                        got[axis][i] = want[axis][i] = 0;
                }
                if (!outline_phases(&of, k, (size_t)n, x, y, got[0], got[1])) {
                    whole++;
                    assert_true(mc->feet[w].outline.number[k] < 0 && got[0][0] == 0);
                    continue;
                }
                others++;
                point_by_point(&of, k, n, x, y, want[0], want[1]);
                for (int i = 0; i < n; i++)
                    for (int axis = 0; axis < 2; axis++) {
                        worst = fmax(worst, fabs(got[axis][i] - want[axis][i]));
                        most = fmax(most, fabs(want[axis][i]));
                    }
                if (!(worst <= 1e-12 * most && most > 0))
                    fail_msg("sensor %d, layer %d, subaperture %d: off by %.2g of %.2g", w, l, k,
                             worst, most);
            }
    assert_true(whole > 10 && others > 20);
    matcov_free(mc);
    case_profile_free(&p);
    sys_free(&s);
}

/* Sensors of one geometry have the same arrays under all profiles, also when those that made them
 * are gone; others have their own: turned, of another pupil, of fewer subapertures. */
static void test_shared(void **state) {
    (void)state;
    static const case_sensor all[] = {{6, {10, -5}, 90000, 1, 0, {0}, 0},
                                      {6, {-3, 7}, INFINITY, 1, 0, {0}, 9},
                                      {6, {3, 2}, INFINITY, 1, 0.2, {0}, 9},
                                      {6, {4, 2}, INFINITY, 1, 0, {0.05, 0}, 9}};
    static const double layer[][5] = {{0, 25, 6, 3, 1}, {5000, 20, 2, 5, 5}};
    sys s[2];
    profile p[2];
    matcov *mc[4];
    for (int i = 0; i < 2; i++) {
        case_sys(4, i ? 0.3 : 0.2, 4, 4, all, &s[i]);
        for (int w = 0; w < 4; w++)
            s[i].sensors[w].gradient = true;
        case_profile(1 + i, layer, &p[i]);
    }
    for (int i = 0; i < 4; i++)
        case_ok(matcov_prepare(&s[i == 3], &p[i % 2], &mc[i]));
    const footprint *f = mc[0]->feet;
    for (int i = 0; i < 4; i++) {
        const bool same = i < 3;
        assert_true((mc[i]->feet[0].outline.x[0] == f[0].outline.x[0]) == same);
        assert_true((mc[i]->feet[1].outline.number == f[0].outline.number) == same);
        for (int w = 2; w < 4; w++)
            assert_ptr_not_equal(mc[i]->feet[w].outline.x[0], f[0].outline.x[0]);
    }
    assert_true(f[2].lines != f[3].lines && f[2].lines != f[0].lines);
    const double was = f[0].outline.x[0][3], centre = f[1].centre[0][f[1].outline.sub[0]];
    const outline_set *lines = f[0].lines;
    matcov_free(mc[0]);
    matcov_free(mc[1]);
    f = mc[2]->feet;
    assert_ptr_equal(f[1].lines, lines);
    assert_true(f[0].outline.x[0][3] == was && f[1].centre[0][f[1].outline.sub[0]] == centre);
    matcov_free(mc[2]);
    matcov_free(mc[3]);
    for (int i = 0; i < 2; i++) {
        case_profile_free(&p[i]);
        sys_free(&s[i]);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_polynomials),
                                       cmocka_unit_test(test_disc),
                                       cmocka_unit_test(test_all_pairs),
                                       cmocka_unit_test(test_lines), cmocka_unit_test(test_shared)};
    MPI_Init(&argc, &argv);
    comm_init(MPI_COMM_SELF, &world);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    comm_free(&world);
    MPI_Finalize();
    return failed;
}
