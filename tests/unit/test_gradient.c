/* Sensors that measure the mean gradient: covariances, tables and fills against quadrature along
 * the edges, and against what is known in closed form. */
#include "matcov/gradient.h"
#include "matcov/gradient_kernels.h"
#include "matcov/matcov.h"
#include "support/matcov_case.h"

#include <mpi.h>

static comm world;

static void make_gradient(sys *s) {
    s->ts.gradient = true;
    for (int w = 0; w < s->nsensor; w++)
        s->sensors[w].gradient = true;
}

/* Derivatives of the scale-free structure functions against differences of each other, at the
 * series, at the Bessel functions and where they meet. */
static void test_derivatives(void **state) {
    (void)state;
    for (int kolmogorov = 0; kolmogorov < 2; kolmogorov++)
        for (double s = 1e-6; s < 900; s *= 1.37) {
            double b[5], up[5], down[5], h = 1e-4 * s;
            gradient_derivatives(s, kolmogorov, b);
            gradient_derivatives(s + h, kolmogorov, up);
            gradient_derivatives(s - h, kolmogorov, down);
            double value[2];
            for (int k = 0; k < 2; k++) {
                double u = sqrt(k ? s - h : s + h);
                value[k] = kolmogorov ? pow(u, 5. / 3) : formula_bracket(u);
            }
            assert_true(fabs((value[0] - value[1]) / (2 * h) - b[1]) <= 1e-6 * fabs(b[1]) + 1e-12);
            for (int k = 1; k < 4; k++)
                assert_true(fabs((up[k] - down[k]) / (2 * h) - b[k + 1]) <= 1e-6 * fabs(b[k + 1]));
        }
}

/* Sensors of every relation: same lattice, other sizes, on cones, turned, much larger. */
static const case_sensor several[] = {
    {8, {30, -12}, 90000, 1, 0, {0}, 0},       {8, {-21, 17}, 90000, 1, 0, {0.03, -0.02}, 0},
    {9, {10, 25}, INFINITY, 1, 0, {0.02}, 11}, {8, {0, 0}, INFINITY, 0.99, -0.3, {-0.04, 0.02}, 11},
    {4, {-50, 5}, INFINITY, 1, 0, {0}, 11},    {2, {20, 5}, INFINITY, 1, 0, {0}, 11},
    {1, {-5, 15}, INFINITY, 1, 0, {0.01}, 11}, {7, {4, 3}, 14000, 1, 0, {0}, 0},
};
enum { NSEVERAL = sizeof several / sizeof *several };
static const double several_layers[][5] = {
    {0, 25, 9, 5, -3}, {150, 5, 3, 0, 9}, {3000, INFINITY, 4, -8, 2}, {9000, 30, 2, 1, 1}};

static void several_system(sys *s, profile *p) {
    case_sys(8, 0, 8, NSEVERAL, several, s);
    make_gradient(s);
    case_profile(4, several_layers, p);
    for (int w = 0; w < s->nsensor; w++)
        s->sensors[w].noise.variance = s->sensors[w].noise.tiptilt = 0;
}

/* Whether a subaperture is partly lit, or of a star of 1 or 2. */
static bool cut(const sys *s, int w, int isub) {
    return s->sensors[w].nssp <= 2 || sys_lit_share(s, &s->sensors[w], isub) < 1;
}

/* Random entries of Cmm and Ctm against quadrature, to 5e-5 of the slope variance, of partly lit
 * subapertures to 2e-4 (with differences between
 * points 5e-4). A third of them
 * are of neighbours in the list, which lie near each other. */
static void check_fill(int count, bool mixed) {
    sys s;
    profile p;
    matcov *mc;
    matcov_target *mt;
    const double dir[2] = {CASE_ARCSEC(14), CASE_ARCSEC(60)};
    several_system(&s, &p);
    for (int w = 0; w < s.nsensor && mixed; w++)
        s.sensors[w].gradient = w % 2 == 0;
    case_ok(matcov_init(&world, &s, &p, &mc));
    double *a = calloc(s.m * s.m, sizeof *a), *t = calloc(s.t * s.m, sizeof *t);
    case_ok(matcov_fill_cmm(mc, 0, s.m, 0, s.m, a, s.m));
    case_ok(matcov_target_init(mc, dir, true, &mt));
    case_ok(matcov_fill_ctm(mt, 0, s.m, t, s.t));
    for (int k = 0; k < count; k++) {
        size_t i = (size_t)case_random(0, (double)s.m), j = (size_t)case_random(0, (double)s.m);
        if (k % 3 == 0)
            j = i + 3 < s.m ? i + (size_t)k / 3 % 4 : i;
        int w, v, wa, va, wi, vi;
        sys_slope_at(&s, i, &w, &wa, &wi);
        sys_slope_at(&s, j, &v, &va, &vi);
        if (k % 30 > 3 && (wa != va || s.sensors[w].rot != s.sensors[v].rot))
            continue; /* edges that are not parallel take long */
        double unit = sqrt(matcov_direct_cmm(&s, &p, i, i) * matcov_direct_cmm(&s, &p, j, j));
        double want = matcov_direct_cmm(&s, &p, i, j), e = (a[i + j * s.m] - want) / unit;
        const double allowed = cut(&s, w, wi) || cut(&s, v, vi) ? (mixed ? 5e-4 : 2e-4) : 5e-5;
        if (!(fabs(e) <= allowed))
            fail_msg("Cmm(%zu, %zu): off by %.2g (sensors %d and %d)", i, j, e, w, v);
        assert_true(fabs(a[i + j * s.m] - a[j + i * s.m]) <= 1e-12 * unit);
        if (k % 2 == 0)
            continue;
        e = (t[i % s.t + j * s.t] - matcov_direct_ctm(&s, &p, dir, true, i % s.t, j)) / unit;
        if (!(fabs(e) <= allowed))
            fail_msg("Ctm(%zu, %zu): off by %.2g", i % s.t, j, e);
    }
    matcov_target_free(mt);
    matcov_free(mc);
    free(a);
    free(t);
    case_profile_free(&p);
    sys_free(&s);
}

static void test_fill(void **state) {
    (void)state;
    check_fill(1200, false);
}

/* Where the near grids end and the radial functions begin: two footprints of equal size, 0.6 to 1.2
 * of that radius apart, on a layer that both stars see, against quadrature. The grids are much the
 * more accurate. */
static void test_radius(void **state) {
    (void)state;
    static const case_sensor two[] = {{8, {0, 0}, INFINITY, 1, 0, {0}, 11},
                                      {8, {40.3, 11.7}, INFINITY, 1, 0, {0}, 11}};
    static const double layer[][5] = {{9000, 25, 1, 0, 0}};
    sys s;
    profile p;
    matcov *mc;
    case_sys(8, 0, 8, 2, two, &s);
    make_gradient(&s);
    case_profile(1, layer, &p);
    for (int w = 0; w < 2; w++)
        s.sensors[w].noise.variance = 0;
    case_ok(matcov_init(&world, &s, &p, &mc));
    double *a = calloc(s.m * s.m, sizeof *a);
    int within = 0, beyond = 0;
    case_ok(matcov_fill_cmm(mc, 0, s.m, 0, s.m, a, s.m));
    const double unit = matcov_direct_cmm(&s, &p, s.m / 8, s.m / 8), h = p.h[0];
    const size_t half = s.m / 2, n = half / 2;
    for (size_t k = 0; k < 4 * n * n; k += 3) {
        const size_t i = k / (2 * n), j = k % (2 * n);
        const int *at = s.sensors[0].sub, p0 = at[i % n], p1 = at[j % n];
        const double x = p1 % 8 - p0 % 8 + h * s.sensors[1].dir[0],
                     y = p1 / 8 - p0 / 8 + h * s.sensors[1].dir[1];
        const double r = hypot(x, y) / GRADIENT_RADIUS;
        if (cut(&s, 0, (int)(i % n)) || cut(&s, 1, (int)(j % n)) || !(r > 0.6 && r < 1.2))
            continue;
        const double e =
            fabs(a[i + (half + j) * s.m] - matcov_direct_cmm(&s, &p, i, half + j)) / unit;
        if (!(e <= (r < 1 ? 5e-7 : 2e-5)))
            fail_msg("%.3f of the radius: off by %.2g of a slope's variance", r, e);
        within += r < 1;
        beyond += r >= 1;
    }
    print_message("%d within, %d beyond\n", within, beyond);
    assert_true(within > 100 && beyond > 10);
    matcov_free(mc);
    free(a);
    case_profile_free(&p);
    sys_free(&s);
}

/* Sensors of mean gradients and of two points in one system. */
static void test_mixed(void **state) {
    (void)state;
    check_fill(900, true);
}

/* Slopes of an influence function: the mean of its gradient over each subaperture, by a midpoint
 * rule on 40 x 40 points. */
static void test_interaction(void **state) {
    (void)state;
    sys s;
    const case_sensor one = {5, {0}, INFINITY, 1, 0, {0}, 9};
    case_sys(8, 0, 5, 1, &one, &s);
    make_gradient(&s);
    s.dm.coupling = 0.35;
    double *d = calloc(s.t * (size_t)s.dm.nact, sizeof *d), k = -log(s.dm.coupling);
    case_ok(matcov_fill_interaction(&s, d, s.t));
    for (int v = 0; v < s.dm.nact; v++)
        for (int i = 0; i < s.ts.nsub; i++) {
            double sum[2] = {0, 0};
            for (int e = 0; e < 1600; e++) { /* in pitches */
                double x = s.ts.sub[i] % 5 + (e % 40 + 0.5) / 40 - s.dm.act[v] % 6;
                double y = s.ts.sub[i] / 5 + (e / 40 + 0.5) / 40 - s.dm.act[v] / 6;
                double value = exp(-k * (x * x + y * y)) / 1600;
                sum[0] += -2 * k * x * value;
                sum[1] += -2 * k * y * value;
            }
            for (int axis = 0; axis < 2; axis++) {
                double got = d[(size_t)v * s.t + (size_t)(axis * s.ts.nsub + i)];
                double want = sum[axis] * ARCSEC_PER_RAD / s.dm.pitch;
                assert_true(fabs(got - want) <= 3e-4 * ARCSEC_PER_RAD / s.dm.pitch);
            }
        }
    free(d);
    sys_free(&s);
}

/* Numbers to add to, at separations of up to twice what is near. */
typedef struct {
    double x[GRADIENT_AT_ONCE], y[GRADIENT_AT_ONCE], out[4][GRADIENT_AT_ONCE];
    near_places p;
} entries;

static void draw_entries(const matcov_gradient *t, entries *of) {
    const double wide = 2 * sqrt(t->near2);
    for (size_t i = 0; i < GRADIENT_AT_ONCE; i++) {
        of->x[i] = case_random(-wide, wide), of->y[i] = case_random(-wide, wide);
        for (int r = 0; r < 4; r++)
            of->out[r][i] = case_random(-1, 1);
    }
}

/* Covariances of the first n, by the kernels k, of one of three sorts. */
static void run_kernels(const gradient_kernels *k, const matcov_gradient *t, const double *radial,
                        size_t n, int what, entries *of) {
    const gradient_axes axes[2] = {{{0.8, 0.6}, {0.6, -0.8}, {0.96, 0.28}, {0, 1}},
                                   {{0.8, 0.6}, {0.28, 0.96}, {0.96, 0.28}, {1, 2}}};
    const double *const x = of->x, *const y = of->y;
    double *const out[4] = {of->out[0], of->out[1], of->out[2], of->out[3]};
    near_places *const p = &of->p;
    if (what == 0)
        k->far(t, radial, axes, n, x, y, 0.3, -0.2, 1.7, out[0], out[1], p);
    else if (what == 1)
        k->far_axes(t, radial, axes, n, x, y, 0.3, -0.2, 1.7, out, p);
    else
        k->far_phase(t, radial, axes->turn, n, x, y, 0.3, -0.2, 1.7, out[0], out[1], p);
    k->places(t, p);
}

/* The kernels for AVX2 give the bits of those for any processor. */
static void test_kernels(void **state) {
    (void)state;
    const gradient_key key = {.kappa = 0.2, .la = 1, .lb = 1.25, .turn = 0.1};
    const matcov_gradient t = gradient_shape(&key);
    double *radial = malloc(GRADIENT_LINES * sizeof *radial);
    static entries a, b;
    gradient_kernels avx2;
    assert_non_null(radial);
    if (!gradient_kernels_avx2(&avx2)) {
        free(radial);
        skip();
    }
    gradient_fill_radial(&key, &t, radial);
    for (size_t n = 1; n <= GRADIENT_AT_ONCE; n++)
        for (int what = 0; what < 3; what++) {
            draw_entries(&t, &a);
            b = a;
            run_kernels(gradient_kernels_plain(), &t, radial, n, what, &a);
            run_kernels(&avx2, &t, radial, n, what, &b);
            const size_t near = (size_t)a.p.n * sizeof(double);
            assert_int_equal(a.p.n, b.p.n);
            assert_memory_equal(a.out, b.out, sizeof a.out);
            for (int r = 0; r < 4; r++) {
                assert_memory_equal(a.p.wx[r], b.p.wx[r], near);
                assert_memory_equal(a.p.wy[r], b.p.wy[r], near);
            }
            assert_memory_equal(a.p.entry, b.p.entry, near / 2);
            assert_memory_equal(a.p.from, b.p.from, near);
            assert_memory_equal(a.p.step, b.p.step, near);
            assert_true(n < GRADIENT_AT_ONCE || (a.p.n > 9 && a.p.n < GRADIENT_AT_ONCE - 9));
        }
    free(radial);
}

/* Sums of the grids at the near places by the kernels for AVX2 differ from those for any processor
 * by rounding alone, for every number of places; the grids end with the last place. */
static void test_near_kernels(void **state) {
    (void)state;
    static const int kind[4] = {0, 1, 1, 2};
    static entries a, b;
    gradient_kernels avx2;
    if (!gradient_kernels_avx2(&avx2))
        skip();
    for (int kinds = 2; kinds <= 4; kinds++) {
        const gradient_key key = {
            .kappa = 0.2, .la = kinds > 2, .lb = 1.25, .turn = kinds == 3 ? 0 : 0.1};
        const matcov_gradient t = gradient_shape(&key);
        const size_t size = gradient_near_size(&t);
        double *near = malloc(size * sizeof *near), worst = 0;
        assert_non_null(near);
        assert_int_equal(t.kinds, kinds);
        for (size_t i = 0; i < size; i++)
            near[i] = case_random(-1, 1);
        for (int n = 0; n <= GRADIENT_AT_ONCE; n++) {
            draw_entries(&t, &a);
            a.p.n = n;
            for (int i = 0; i < n; i++) {
                a.p.entry[i] = GRADIENT_AT_ONCE - 1 - i;
                a.p.x[i] = i ? case_random(-1, 1) * sqrt(t.near2) : 0.9999999 * sqrt(t.near2);
                a.p.y[i] = sqrt(t.near2 - a.p.x[i] * a.p.x[i]) * case_random(-1, 1);
            }
            gradient_kernels_plain()->places(&t, &a.p);
            b = a;
            double *const one[4] = {a.out[0], a.out[1], a.out[2], a.out[3]}, *const two[4] = {
                                                                                 b.out[0], b.out[1],
                                                                                 b.out[2],
                                                                                 b.out[3]};
            if (kinds == 2) {
                gradient_near_phase(&a.p, near, 1.7, one);
                avx2.near_phase(&b.p, near, 1.7, two);
            } else {
                gradient_near_axes(&a.p, near, kinds, kind, 1.7, one);
                avx2.near_axes(&b.p, near, kinds, kind, 1.7, two);
            }
            for (int r = 0; r < 4; r++)
                for (int i = 0; i < GRADIENT_AT_ONCE; i++)
                    worst = fmax(worst, fabs(a.out[r][i] - b.out[r][i]));
        }
        if (!(worst <= 2e-15))
            fail_msg("%d kinds: off by %.2g", kinds, worst);
        free(near);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_derivatives),  cmocka_unit_test(test_kernels),
        cmocka_unit_test(test_near_kernels), cmocka_unit_test(test_fill),
        cmocka_unit_test(test_radius),       cmocka_unit_test(test_mixed),
        cmocka_unit_test(test_interaction)};
    MPI_Init(&argc, &argv);
    comm_init(MPI_COMM_SELF, &world);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    comm_free(&world);
    MPI_Finalize();
    return failed;
}
