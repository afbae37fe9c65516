/* Mean gradients over the lit part of subapertures: outlines against areas that are counted, tilts
 * over a disc against what is known, and small systems against quadrature. */
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

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_polynomials),
                                       cmocka_unit_test(test_disc),
                                       cmocka_unit_test(test_all_pairs)};
    MPI_Init(&argc, &argv);
    comm_init(MPI_COMM_SELF, &world);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    comm_free(&world);
    MPI_Finalize();
    return failed;
}
