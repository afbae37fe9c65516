/* Slope covariances: tables and fast fills against the closed form, golden matrices, blocks,
 * symmetry. */
#include "matcov/formula.h"
#include "matcov/matcov.h"
#include "support/matcov_case.h"

#include <mpi.h>

#define GOLDEN "tests/golden/b_covariances.bin"

static comm world;

/* Largest difference from a golden array, relative to the array's largest entry. */
static void expect_golden(const char *name, const double *a, size_t ld, size_t row_step) {
    size_t rows, cols;
    double *g = case_read(GOLDEN, name, &rows, &cols), worst = 0, largest = 0;
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < cols; j++) {
            double e = fabs(a[i * row_step + j * ld] - g[i * cols + j]);
            worst = e > worst || isnan(e) ? e : worst;
            largest = fabs(g[i * cols + j]) > largest ? fabs(g[i * cols + j]) : largest;
        }
    free(g);
    if (!(worst <= 1e-9 * largest))
        fail_msg("%s: differs by %.3g of its largest entry", name, worst / largest);
}

/* The matrices of the golden case, computed by an independent implementation, to 1e-9. */
static void test_golden(void **state) {
    (void)state;
    sys s;
    profile p;
    matcov *mc;
    matcov_target *mt;
    case_golden(&s, &p);
    assert_int_equal(s.m, 504);
    assert_int_equal(s.t, 72);
    case_ok(matcov_init(&world, &s, &p, &mc));
    double *a = calloc(s.m * s.m, sizeof *a);
    case_ok(matcov_fill_cmm(mc, 0, s.m, 0, s.m, a, s.m));
    expect_golden("Cmm0_every_7th_row", a, s.m, 7);
    case_ok(matcov_fill_ctt(mc, 0, s.t, 0, s.t, a, s.t));
    expect_golden("Ctt", a, s.t, 1);
    for (int shifted = 0; shifted < 2; shifted++) {
        case_ok(matcov_target_init(mc, (double[2]){0, 0}, shifted, &mt));
        case_ok(matcov_fill_ctm(mt, 0, s.m, a, s.t));
        expect_golden(shifted ? "Ctm" : "Ctm0", a, s.t, 1);
        matcov_target_free(mt);
    }
    case_ok(matcov_fill_interaction(&s, a, s.t + 3));
    expect_golden("D", a, s.t + 3, 1);
    free(a);
    matcov_free(mc);
    case_profile_free(&p);
    sys_free(&s);
}

/* Sensors of every relation: registered, of other sizes, on cones, coincident. */
static const case_sensor mixed[] = {{8, {30, -12}, 90000, 1, 0, {0}, 0},
                                    {8, {-21, 17}, 90000, 1, 0, {0.03, -0.02}, 0},
                                    {8, {-9, 8}, 90000, 1.01, 0.02, {0.01, 0.05}, 0},
                                    {8, {10, 25}, INFINITY, 1, 0, {0.02, 0.01}, 11},
                                    {4, {-50, 5}, INFINITY, 1, 0, {0}, 11},
                                    {12, {-50, 5}, INFINITY, 1, 0, {0}, 11},
                                    {8, {0, 0}, INFINITY, 0.99, -0.3, {-0.04, 0.02}, 11},
                                    {8, {0, 0}, INFINITY, 0.99, -0.3, {-0.04, 0.03}, 11},
                                    {7, {4, 3}, 9000, 1, 0.01, {0}, 11},
                                    {4, {7, -5}, INFINITY, 1, 0, {1e-6, 0}, 11}};
enum { NMIXED = sizeof mixed / sizeof *mixed };
static const double mixed_layers[][5] = {{0, 25, 9, 5, -3},          {150, 1.7, 3, 0, 9},
                                         {3000, INFINITY, 4, -8, 2}, {4000, 30, 0, 1, 1},
                                         {8999, 12, 1, 20, 10},      {12000, 900, 2, -30, 4}};

static double slope_variance(const profile *p, double size_a, double size_b) {
    double sum = 0;
    for (int l = 0; l < p->nlayer; l++)
        sum += formula_structure(p->strength[l], p->L0[l], 0.5 * (size_a + size_b));
    return formula_slope_scale(size_a, size_b) * sum;
}

static double size_of(const sys *s, const sensor *o) {
    return o->mag * s->diameter / o->nssp;
}

static void expect_entry(double fast, double direct, double noise, double unit, const char *what,
                         size_t i, size_t j) {
    if (!(fabs(fast - direct - noise) <= 1e-10 * unit))
        fail_msg("%s(%zu, %zu) = %.17g, directly %.17g: off by %.3g of the slope variance", what, i,
                 j, fast, direct + noise, (fast - direct - noise) / unit);
}

/* What noise and the tip-tilt constant add to an entry: that of the same sensor without turbulence,
 * checked by itself in test_noise; here noise is a plain variance. */
static double noise_at(const sys *s, size_t i, size_t j) {
    int w, v, wa, va, wi, vi;
    sys_slope_at(s, i, &w, &wa, &wi);
    sys_slope_at(s, j, &v, &va, &vi);
    if (w != v || wa != va)
        return 0;
    return (s->sensors[w].lgs ? 0.7 : 0) + (wi == vi ? 0.25 : 0);
}

/* skip: leave out so many of the lowest layers. */
static void mixed_system(int skip, sys *s, profile *p) {
    case_sys(8, 0.2, 8, NMIXED, mixed, s);
    for (int w = 0; w < s->nsensor; w++) {
        s->sensors[w].noise.variance = 0.25;
        s->sensors[w].noise.tiptilt = 0.7;
    }
    case_profile((int)(sizeof mixed_layers / sizeof *mixed_layers) - skip, mixed_layers + skip, p);
}

/* One profile of test_direct. */
static void check_direct(int skip) {
    sys s;
    profile p;
    matcov *mc;
    mixed_system(skip, &s, &p);
    case_ok(matcov_init(&world, &s, &p, &mc));
    double *a = calloc(s.m * s.m, sizeof *a);
    case_ok(matcov_fill_cmm(mc, 0, s.m, 0, s.m, a, s.m));
    for (int n = 0; n < 30000; n++) {
        size_t i = (size_t)case_random(0, (double)s.m), j = (size_t)case_random(0, (double)s.m);
        int w, v, axis, k;
        sys_slope_at(&s, i, &w, &axis, &k);
        sys_slope_at(&s, j, &v, &axis, &k);
        double unit = slope_variance(&p, size_of(&s, &s.sensors[w]), size_of(&s, &s.sensors[v]));
        expect_entry(a[i + j * s.m], matcov_direct_cmm(&s, &p, i, j), noise_at(&s, i, j), unit,
                     "Cmm", i, j);
    }
    const double dirs[][2] = {{CASE_ARCSEC(-50), CASE_ARCSEC(5)},
                              {CASE_ARCSEC(14), CASE_ARCSEC(60)}};
    for (int d = 0; d < 4; d++) {
        matcov_target *mt;
        case_ok(matcov_target_init(mc, dirs[d / 2], d % 2, &mt));
        case_ok(matcov_fill_ctm(mt, 0, s.m, a, s.t));
        matcov_target_free(mt);
        for (int n = 0; n < 5000; n++) {
            size_t i = (size_t)case_random(0, (double)s.t), j = (size_t)case_random(0, (double)s.m);
            int v, axis, k;
            sys_slope_at(&s, j, &v, &axis, &k);
            double unit = slope_variance(&p, size_of(&s, &s.ts), size_of(&s, &s.sensors[v]));
            expect_entry(a[i + j * s.t], matcov_direct_ctm(&s, &p, dirs[d / 2], d % 2, i, j), 0,
                         unit, "Ctm", i, j);
        }
    }
    case_ok(matcov_fill_ctt(mc, 0, s.t, 0, s.t, a, s.t));
    for (int n = 0; n < 3000; n++) {
        size_t i = (size_t)case_random(0, (double)s.t), j = (size_t)case_random(0, (double)s.t);
        expect_entry(a[i + j * s.t], matcov_direct_ctt(&s, &p, i, j), 0,
                     slope_variance(&p, size_of(&s, &s.ts), size_of(&s, &s.ts)), "Ctt", i, j);
    }
    free(a);
    matcov_free(mc);
    case_profile_free(&p);
    sys_free(&s);
}

/* Entries of Cmm, Ctm (shifted and not) and Ctt by every fast path agree with the closed form to
 * 1e-10 of the slope variance, over sensors of every relation, with a layer
 * on the ground and without. */
static void test_direct(void **state) {
    (void)state;
    check_direct(0);
    check_direct(1);
}

/* Any block equals that part of the whole matrix bit for bit, writes nothing outside, and the
 * matrix is symmetric bit for bit. */
static void test_blocks(void **state) {
    (void)state;
    sys s;
    profile p;
    matcov *mc;
    matcov_target *mt;
    mixed_system(0, &s, &p);
    case_ok(matcov_init(&world, &s, &p, &mc));
    size_t m = s.m, t = s.t, most = 300, ld = most + 5;
    double *a = calloc(m * m, sizeof *a), *c = calloc(t * m, sizeof *c),
           *b = calloc(ld * most, sizeof *b);
    case_ok(matcov_fill_cmm(mc, 0, m, 0, m, a, m));
    for (size_t j = 0; j < m; j++)
        for (size_t i = 0; i < j; i++)
            if (a[i + j * m] != a[j + i * m])
                fail_msg("Cmm(%zu, %zu) = %.17g but Cmm(%zu, %zu) = %.17g", i, j, a[i + j * m], j,
                         i, a[j + i * m]);
    for (int n = 0; n < 60; n++) {
        size_t i0 = (size_t)case_random(0, (double)m), j0 = (size_t)case_random(0, (double)m);
        size_t ni = (size_t)case_random(0, n % 3 == 0 ? 5 : 300),
               nj = (size_t)case_random(0, n % 2 == 0 ? 4 : 300);
        ni = i0 + ni > m ? m - i0 : ni;
        nj = j0 + nj > m ? m - j0 : nj;
        for (size_t i = 0; i < ld * most; i++)
            b[i] = 1e300;
        case_ok(matcov_fill_cmm(mc, i0, ni, j0, nj, b, ld));
        for (size_t j = 0; j < most; j++)
            for (size_t i = 0; i < ld; i++)
                if (b[i + j * ld] != (i < ni && j < nj ? a[i0 + i + (j0 + j) * m] : 1e300))
                    fail_msg("block %zu+%zu, %zu+%zu: entry (%zu, %zu) is %.17g", i0, ni, j0, nj, i,
                             j, b[i + j * ld]);
    }
    case_ok(matcov_target_init(mc, (double[2]){1e-4, 2e-4}, true, &mt));
    case_ok(matcov_fill_ctm(mt, 0, m, c, t));
    for (size_t j0 = 0; j0 < m; j0 += 37) {
        size_t nj = j0 + 37 > m ? m - j0 : 37;
        case_ok(matcov_fill_ctm(mt, j0, nj, a, t + 1));
        for (size_t j = 0; j < nj; j++)
            assert_memory_equal(a + j * (t + 1), c + (j0 + j) * t, t * sizeof *c);
    }
    matcov_target_free(mt);
    free(a);
    free(b);
    free(c);
    matcov_free(mc);
    case_profile_free(&p);
    sys_free(&s);
}

/* Some of a sensor's subapertures, at random but in order. */
static matcov_cluster random_cluster(const sys *s, int *sub) {
    matcov_cluster c = {.sensor = (int)case_random(0, NMIXED), .sub = sub};
    const double share = case_random(0.05, 1);
    const int nsub = s->sensors[c.sensor].nsub, one = (int)case_random(0, nsub);
    for (int k = 0; k < nsub; k++)
        if (k == one || case_random(0, 1) < share)
            sub[c.n++] = k;
    return c;
}

static void check_clusters(const sys *s, const matcov *mc, const double *whole) {
    int sub[2][200];
    double *b = calloc(s->m * s->m, sizeof *b);
    for (int n = 0; n < 100; n++) {
        const matcov_cluster row = random_cluster(s, sub[0]), col = random_cluster(s, sub[1]);
        const sensor *r = &s->sensors[row.sensor], *c = &s->sensors[col.sensor];
        const double unit = whole[r->first * (s->m + 1)];
        b[4 * row.n * col.n] = 1e300;
        case_ok(matcov_fill_clusters(mc, &row, &col, b));
        assert_true(b[4 * row.n * col.n] == 1e300);
        for (int j = 0; j < 2 * col.n; j++)
            for (int i = 0; i < 2 * row.n; i++) {
                const size_t at = r->first + (size_t)(i / row.n * r->nsub + sub[0][i % row.n]),
                             to = c->first + (size_t)(j / col.n * c->nsub + sub[1][j % col.n]);
                const double noise = at == to ? 0.25 : 0,
                             e = b[i + 2 * row.n * j] + noise - whole[at + to * s->m];
                if (!(fabs(e) <= 1e-13 * unit))
                    fail_msg("sensors %d and %d: entry (%d, %d) is off by %.3g of the slope "
                             "variance",
                             row.sensor, col.sensor, i, j, e / unit);
            }
    }
    free(b);
}

/* Blocks of any subapertures, noise left out, are those entries of the whole matrix, where slopes
 * are between points, mean gradients, and some of each. */
static void test_clusters(void **state) {
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        sys s;
        profile p;
        matcov *mc, *few;
        mixed_system(4, &s, &p); /* tables of many kinds, for each layer */
        s.ts.gradient = kind > 0;
        for (int w = 0; w < s.nsensor; w++)
            s.sensors[w].gradient = kind == 1 || (kind == 2 && w % 2 == 0);
        double *a = calloc(s.m * s.m, sizeof *a);
        case_ok(matcov_init(&world, &s, &p, &mc));
        case_ok(matcov_fill_cmm(mc, 0, s.m, 0, s.m, a, s.m));
        case_ok(matcov_prepare_clusters(&s, &p, &few));
        check_clusters(&s, few, a);
        matcov_free(few);
        matcov_free(mc);
        free(a);
        case_profile_free(&p);
        sys_free(&s);
    }
}

/* Cholesky factor in place, lower triangle; the order of the leading minor that is not positive, or
 * 0. */
static size_t cholesky(size_t n, double *a) {
    for (size_t j = 0; j < n; j++) {
        if (!(a[j + j * n] > 0))
            return j + 1;
        double d = sqrt(a[j + j * n]);
        for (size_t i = j; i < n; i++)
            a[i + j * n] /= d;
        for (size_t k = j + 1; k < n; k++)
            for (size_t i = k; i < n; i++)
                a[i + k * n] -= a[i + j * n] * a[k + j * n];
    }
    return 0;
}

/* Cmm with noise has a Cholesky factor. */
static void test_positive_definite(void **state) {
    (void)state;
    sys s;
    profile p;
    matcov *mc;
    case_golden(&s, &p);
    case_ok(matcov_init(&world, &s, &p, &mc));
    double *a = calloc(s.m * s.m, sizeof *a);
    case_ok(matcov_fill_cmm(mc, 0, s.m, 0, s.m, a, s.m));
    assert_int_equal(cholesky(s.m, a), 0);
    free(a);
    matcov_free(mc);
    case_profile_free(&p);
    sys_free(&s);
}

/* Without turbulence nothing is left of Cmm but plain noise, and Ctm and Ctt are zero. */
static void test_no_turbulence(void **state) {
    (void)state;
    sys s;
    profile p;
    matcov *mc;
    matcov_target *mt;
    const double none[1][5] = {{0, 25, 0, 0, 0}};
    mixed_system(0, &s, &p);
    case_profile_free(&p);
    case_profile(1, none, &p);
    case_ok(matcov_init(&world, &s, &p, &mc));
    double *a = calloc(s.m * s.m, sizeof *a);
    case_ok(matcov_fill_cmm(mc, 0, s.m, 0, s.m, a, s.m));
    for (size_t j = 0; j < s.m; j++)
        for (size_t i = 0; i < s.m; i++)
            if (a[i + j * s.m] != noise_at(&s, i, j))
                fail_msg("Cmm(%zu, %zu) is %.17g without turbulence", i, j, a[i + j * s.m]);
    case_ok(matcov_target_init(mc, (double[2]){1e-4, 0}, true, &mt));
    case_ok(matcov_fill_ctm(mt, 0, s.m, a, s.t));
    for (size_t i = 0; i < s.t * s.m; i++)
        assert_true(a[i] == 0.0);
    matcov_target_free(mt);
    free(a);
    matcov_free(mc);
    case_profile_free(&p);
    sys_free(&s);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_golden),
                                       cmocka_unit_test(test_direct),
                                       cmocka_unit_test(test_blocks),
                                       cmocka_unit_test(test_clusters),
                                       cmocka_unit_test(test_positive_definite),
                                       cmocka_unit_test(test_no_turbulence)};
    MPI_Init(&argc, &argv);
    comm_init(MPI_COMM_SELF, &world);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    comm_free(&world);
    MPI_Finalize();
    return failed;
}
