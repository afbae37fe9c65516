/* Singular values of graded matrices, each as accurate as the matrix determines it, and errors put
 * into right results, which have to be found; one body for every backend (MOAO_TEST_BACKEND). */
// timeout: 240
#include "support/lowrank_case.h"

/* B (kappa 30) times positive diagonals over 20 decades (10 in single precision) on either side. */
static double *graded(backend_type t, int64_t m, int64_t n, int sides) {
    const int64_t k = least_of(m, n);
    double *a = calloc((size_t)(m * n), sizeof *a), reach = t == BACKEND_D ? 10 : 5;
    for (int64_t i = 0; i < k; i++)
        a[i + i * m] = 1 + 29 * (double)i / (double)(k > 1 ? k - 1 : 1);
    for (int64_t r = 0; r < k; r++)
        reflect(m, n, a, true), reflect(m, n, a, false);
    for (int e = 0; e < 2; e++)
        for (int64_t p = 0; p < (e ? m : n); p++) {
            const double f = pow(10, reach * rnd());
            for (int64_t q = 0; q < (e ? n : m) && (sides >> e & 1); q++)
                a[e ? p + q * m : q + p * m] *= f;
        }
    return a;
}

/* Errors of all values of two such matrices, in units; the worst is kept in seen[sides]. */
static void graded_case(backend_type t, int64_t m, int64_t n, int sides, const double *allowed,
                        real *seen) {
    double *given[2] = {graded(t, m, n, sides), graded(t, m, n, sides)};
    lr_case c = plain(SVD, t, m, n);
    c.given = given, c.count = 2;
    lr_build(&c);
    assert_int_equal(lr_call(&c), MOAO_OK);
    lr_collect(&c);
    assert_true(lr_right(&c, false));
    for (int b = 0; b < 2; b++) {
        real *a = malloc(sizeof(real) * (size_t)(m * n)), *s;
        for (int64_t p = 0; p < m * n; p++)
            a[p] = c.full[b][p];
        s = values_of(m, n, a);
        for (int64_t p = 0; p < least_of(m, n); p++) {
            const real e = fabsl(get(&c.s, b, p, 0) - s[p]) / s[p] / unit_of(&c, b);
            seen[sides] = worse(seen[sides], e);
            if (!(e <= allowed[sides]))
                print_error("graded %dx%d sides %d type %d: value %d of %.3Le is %.3e: %.3Lg "
                            "units\n",
                            (int)m, (int)n, sides, t, (int)p, s[p], get(&c.s, b, p, 0), e);
        }
        free(a), free(s), free(given[b]);
    }
    lr_free(&c);
}

static void graded_values(void **state) {
    (void)state;
    static const double allowed[] = {0, 4, 20, 60};
    static const int64_t sizes[] = {8, 24, 40, 16, 64, 100, 128};
    real seen[4] = {0};
    for (size_t i = 0; i < (small() ? 3 : full() ? 7 : 5); i++)
        for (int v = 0; v < 6; v++)
            graded_case(v & 1 ? BACKEND_S : BACKEND_D, sizes[i], sizes[i], 1 + v / 2, allowed,
                        seen);
    print_message("%s graded: relative errors %.2Lf %.2Lf %.2Lf (B D, D B, D B D) of (k + 4) u\n",
                  be->name, seen[1], seen[2], seen[3]);
    for (int sides = 1; sides < 4; sides++)
        assert_true(seen[sides] <= allowed[sides]);
}

/* The same of tall and wide matrices. */
static void graded_tall_values(void **state) {
    (void)state;
    static const double allowed[] = {0, 4, 20, 60};
    static const int64_t ms[] = {60, 16, 200, 1024, 30}, ns[] = {16, 50, 24, 20, 512};
    real seen[4] = {0};
    for (size_t i = 0; i < (small() ? 2 : COUNT(ms)); i++)
        for (int v = 0; v < 6; v++)
            graded_case(v & 1 ? BACKEND_S : BACKEND_D, ms[i], ns[i], 1 + v / 2, allowed, seen);
    print_message("%s graded, tall: relative errors %.2Lf %.2Lf %.2Lf of (k + 4) u\n", be->name,
                  seen[1], seen[2], seen[3]);
    for (int sides = 1; sides < 4; sides++)
        assert_true(seen[sides] <= allowed[sides]);
}

/* Errors put into right results are found. */
static void notices(lr_case *c, operand *o, int64_t i, int64_t j, double by) {
    const double x = get(o, 1, i, j);
    set(o, 1, i, j, x + by);
    if (lr_right(c, true))
        print_error("an error of %g in op %d (%d, %d) is not noticed\n", by, c->op, (int)i, (int)j);
    assert_false(lr_right(c, true));
    set(o, 1, i, j, NAN);
    assert_false(lr_right(c, true));
    set(o, 1, i, j, x);
    assert_true(lr_right(c, false));
}

static void checks_notice_errors(void **state) {
    (void)state;
    for (int v = 0; v < 4; v++) {
        const backend_type t = v & 1 ? BACKEND_S : BACKEND_D;
        const int64_t n = v & 2 ? 40 : 10;
        lr_case c = plain(SVD, t, n + 2, n), q = plain(QR_Q, t, n + 2, n);
        const double by = 100 * (double)(n + 4) * eps_of(t);
        lr_build(&c), lr_build(&q);
        assert_int_equal(lr_call(&c), MOAO_OK);
        assert_int_equal(lr_call(&q), MOAO_OK);
        lr_collect(&c), lr_collect(&q);
        assert_true(lr_right(&c, false) && lr_right(&q, false));
        notices(&q, &q.a, 3, 2, by), notices(&q, &q.s, 2, 4, by * frobenius(n + 2, q.full[1]));
        notices(&q, &q.s, 4, 2, 1e-30);
        notices(&c, &c.u, 3, 2, by), notices(&c, &c.v, 4, 2, by);
        notices(&c, &c.s, 0, 0, by * get(&c.s, 1, 0, 0) * (double)n);
        const double s0 = get(&c.s, 1, 0, 0), s1 = get(&c.s, 1, 1, 0);
        set(&c.s, 1, 0, 0, s1), set(&c.s, 1, 1, 0, s0);
        assert_false(lr_right(&c, true));
        set(&c.s, 1, 0, 0, s0), set(&c.s, 1, 1, 0, s1);
        for (int64_t i = 0; i < n + 2; i++) /* both signs, so that only their rule is broken */
            set(&c.u, 1, i, 0, -get(&c.u, 1, i, 0));
        for (int64_t i = 0; i < n; i++)
            set(&c.v, 1, i, 0, -get(&c.v, 1, i, 0));
        assert_false(lr_right(&c, true));
        for (int64_t i = 0; i < n + 2; i++)
            set(&c.u, 1, i, 0, -get(&c.u, 1, i, 0));
        for (int64_t i = 0; i < n; i++)
            set(&c.v, 1, i, 0, -get(&c.v, 1, i, 0));
        c.rank[1]--;
        assert_false(lr_right(&c, true));
        c.rank[1]++;
        c.info[1] = 1;
        assert_false(lr_right(&c, true));
        c.info[1] = 0;
        const double given = c.full[1][1];
        c.full[1][1] = NAN; /* info 0 for a NaN */
        assert_false(lr_right(&c, true));
        c.full[1][1] = given;
        const double outside = get(&c.u, 1, n + 2, 0);
        set(&c.u, 1, n + 2, 0, 1); /* the padding */
        assert_false(lr_right(&c, true));
        set(&c.u, 1, n + 2, 0, outside);
        assert_true(lr_right(&c, false));
        for (int64_t i = 0; i < n && t == BACKEND_D; i++) { /* two columns of V turned a little */
            const double x = get(&c.v, 1, i, 0), y = get(&c.v, 1, i, n - 1);
            set(&c.v, 1, i, 0, x - 1e-10 * y), set(&c.v, 1, i, n - 1, y + 1e-10 * x);
        }
        assert_true(lr_right(&c, true) == (t == BACKEND_S));
        lr_free(&c), lr_free(&q);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(graded_values),
        cmocka_unit_test(graded_tall_values),
        cmocka_unit_test(checks_notice_errors),
    };
    return RUN_ON_BACKENDS(tests);
}
