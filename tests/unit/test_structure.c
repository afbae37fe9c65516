/* Phase structure function: closed form against the model's table and against an integral that
 * shares nothing with it; the fast table and its kernels against the closed form. */
#include "matcov/formula.h"
#include "matcov/structure.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define EPS 2.220446049250313e-16

static void expect_close(double got, double want, double tol, const char *what, double at) {
    if (!(fabs(got - want) <= tol * fabs(want)))
        fail_msg("%s at %.17g: %.17g instead of %.17g (%.3g relative)", what, at, got, want,
                 got / want - 1);
}

/* k2 - u^nu K_nu(u) = 2^(nu-1) int_0^oo t^(nu-1) exp(-t) (1 - exp(-u^2/(4 t))) dt with t = exp(x),
 * by the trapezoidal rule, which converges exponentially; every term is positive, so nothing
 * cancels. */
static double bracket_integral(double s) {
    const long double nu = 5.0L / 6;
    long double sum = 0;
    for (long double x = 4; x > fminl(logl(s), 0) - 50; x -= 0.1875L)
        sum += expl(nu * x - expl(x)) * -expm1l(-0.25L * s * expl(-x));
    return (double)(0.1875L * powl(2, nu - 1) * sum);
}

/* The 18 check values of the model (section 3). */
static void test_table(void **state) {
    (void)state;
    static const double rho[6] = {1e-4, 0.01, 0.1, 1, 10, 100}, L0[3] = {10, 25, 50};
    static const double want[6][3] = {
        {1.435636999010533e-6, 1.448125376811532e-6, 1.455337813383564e-6},
        {0.002720734119171468, 0.00284560522512045, 0.002917727717296237},
        {0.1009190372740496, 0.1133580431324219, 0.1205627952049128},
        {2.312263050417929, 3.423518155989565, 4.119156614468651},
        {7.977150010493464, 31.43884817766592, 65.91098507261998},
        {8.012712597990815, 36.89885699903604, 117.1453647961032}};
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 3; j++) {
            expect_close(formula_structure(1, L0[j], rho[i]), want[i][j], 1e-14, "D", rho[i]);
            expect_close(formula_structure(3.5, L0[j], rho[i]), 3.5 * want[i][j], 1e-14, "D",
                         rho[i]);
        }
}

/* Kolmogorov is 6.88 (rho/r0)^(5/3), and what von Karman tends to as rho / L0 goes to 0: the next
 * term of D is -(k1 b / a') (rho/L0)^(1/3) of it, so at rho/L0 = 1e-24 they agree to 2e-8. */
static void test_kolmogorov(void **state) {
    (void)state;
    for (double rho = 1e-6; rho < 1e4; rho *= 1.7)
        expect_close(formula_structure(2, INFINITY, rho), 2 * 6.883877182293811 * pow(rho, 5. / 3),
                     10 * EPS, "D", rho);
    expect_close(formula_structure(1, 1e20, 1e-4), formula_structure(1, INFINITY, 1e-4), 3e-8, "D",
                 1e-4);
    assert_true(formula_structure(1, INFINITY, 0) == 0 && formula_structure(1, 25, 0) == 0);
}

/* The closed form is accurate to 20 eps from u = 1e-9 to saturation, across its change of method.
 */
static void test_closed_form(void **state) {
    (void)state;
    for (double u = 1e-9; u < 100; u *= 1.0137)
        expect_close(formula_bracket(u), bracket_integral(u * u), 20 * EPS, "bracket", u);
    for (double u = 0.9; u < 2.5; u += 0.0037)
        expect_close(formula_bracket(u), bracket_integral(u * u), 20 * EPS, "bracket", u);
}

/* One kernel over separations in random order, so that neighbours in a vector are far apart, then
 * rising. */
static void check_kernel(structure_kernel *kernel, int kolmogorov) {
    enum { n = 4096 };
    structure_table t;
    double *x = aligned_alloc(64, n * sizeof *x), *y = aligned_alloc(64, n * sizeof *y);
    double *f = aligned_alloc(64, n * sizeof *f), *g = aligned_alloc(64, n * sizeof *g);
    assert_int_equal(structure_table_init(&t, kolmogorov), MOAO_OK);
    uint64_t seed = 1;
    for (int rising = 0; rising < 2; rising++) {
        for (int i = 0; i < n; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            double r = rising ? i / (double)n : (double)(seed >> 11) / 9007199254740992.0;
            double rho = 1e-9 * pow(kolmogorov ? 1e14 : 1e13, r); /* von Karman: up to u = 1e4 */
            x[i] = 0.6 * rho + 0.25;
            y[i] = 0.8 * rho - 0.5;
            f[i] = g[i] = 0.125;
        }
        x[0] = 0.25;
        y[0] = -0.5;
        kernel(&t, n, x, y, 0.25, -0.5, 2.0, f);
        /* the same separations moved by three places: every value must be the same to the last bit
         */
        memmove(x + 3, x, (n - 3) * sizeof *x);
        memmove(y + 3, y, (n - 3) * sizeof *y);
        kernel(&t, n, x, y, 0.25, -0.5, 2.0, g);
        assert_memory_equal(g + 3, f, (n - 3) * sizeof *f);
        assert_true(f[0] == 0.125);
        for (int i = 1; i < n - 3; i++) {
            double dx = x[i + 3] - 0.25, dy = y[i + 3] + 0.5, s = dx * dx + dy * dy;
            double want = kolmogorov ? pow(s, 5. / 6) : bracket_integral(s);
            double tol = 90 * EPS * 2 * want + EPS * 0.125 + 1e-19;
            if (!(fabs(f[i] - 0.125 - 2 * want) <= tol))
                fail_msg("s = %.17g: %.17g instead of %.17g", s, (f[i] - 0.125) / 2, want);
        }
    }
    free(x);
    free(y);
    free(f);
    free(g);
}

/* The tables, by every kernel that this processor runs, are good to 90 eps (2e-14) of D at any
 * separation, to 0 at 0, and do not depend on the place of an element. */
static void test_kernels(void **state) {
    (void)state;
    for (int kolmogorov = 0; kolmogorov < 2; kolmogorov++) {
        check_kernel(structure_add_portable, kolmogorov);
        check_kernel(structure_kernel_best(), kolmogorov);
        if (structure_kernel_avx2() != NULL)
            check_kernel(structure_kernel_avx2(), kolmogorov);
    }
}

/* Relative accuracy where the sum over layers would hide it: f starts at 0 and separations go from
 * 1e-6 to 1e4 m under outer scales from 1 m to 1 km. */
static void test_relative(void **state) {
    (void)state;
    structure_table t;
    static const double L0[] = {1, 25, 1000};
    assert_int_equal(structure_table_init(&t, 0), MOAO_OK);
    for (int i = 0; i < 3; i++)
        for (double rho = 1e-6; rho < 1e4; rho *= 1.0213) {
            _Alignas(64) double x[8] = {FORMULA_TWO_PI / L0[i] * rho}, y[8] = {0}, f[8] = {0},
                                h[8] = {0};
            structure_add_portable(&t, 8, x, y, 0, 0, 1, f);
            structure_kernel_best()(&t, 8, x, y, 0, 0, 1, h);
            expect_close(f[0], bracket_integral(x[0] * x[0]), 90 * EPS, "portable table", rho);
            expect_close(h[0], bracket_integral(x[0] * x[0]), 90 * EPS, "fast table", rho);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table), cmocka_unit_test(test_kolmogorov),
        cmocka_unit_test(test_closed_form), cmocka_unit_test(test_kernels),
        cmocka_unit_test(test_relative)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
