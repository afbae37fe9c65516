/* Fitting error and OTF of the telescope against closed forms and independent integrals. */
#include "support/psf_case.h"

#include "psf/psf_plan.h"

/* Kolmogorov: 0.2313 (d_t/r0)^(5/3) rad^2, at any wavelength (r0 goes as its power 6/5). */
static void test_kolmogorov(void **in) {
    (void)in;
    for (int n = 7; n <= 40; n += 11) {
        double L0 = INFINITY, strength, h, r0 = 0.1 + 0.005 * n;
        profile prof = case_profile(r0, &L0, &strength, &h);
        sys s = case_system(n, 8, 0.3);
        psf_opts o = case_opts();
        psf *p;
        psf_fit *f;
        OK(psf_init(&s, &o, &p));
        OK(psf_fit_init(p, &prof, &f));
        for (int il = 0; il < 3; il++) {
            double r = r0 * pow(case_lambda[il] / 500e-9, 1.2);
            CLOSE(psf_fit_variance(f, case_lambda[il]), 0.231263 * pow(8.0 / n / r, 5.0 / 3), 1e-5);
        }
        psf_fit_free(f);
        psf_free(p);
        sys_free(&s);
    }
}

/* Finite outer scale: variance = whole spectrum (0.0229 (6/5) pi L0^(5/3) r0^(-5/3)) minus its
 * Simpson integral over the square; and a profile of several layers is the sum of its layers. */
static void test_outer_scale(void **in) {
    (void)in;
    double L0[] = {3, 25, 3, 1, INFINITY}, strength[] = {10, 20, 5, 0, 7}, h[5] = {0}, total = 0;
    profile all = {.nlayer = 5, .h = h, .L0 = L0, .strength = strength};
    sys s = case_system(10, 8, 0.3);
    psf_opts o = case_opts();
    psf *p;
    psf_fit *f, *one[5];
    OK(psf_init(&s, &o, &p));
    OK(psf_fit_init(p, &all, &f));
    for (int l = 0; l < 5; l++) {
        profile prof = {.nlayer = 1, .h = h, .L0 = L0 + l, .strength = strength + l};
        OK(psf_fit_init(p, &prof, &one[l]));
        total += psf_fit_variance(one[l], 1e-6);
    }
    CLOSE(psf_fit_variance(f, 1e-6), total, 1e-13);
    for (int i = 0; i < p->P * p->P; i += 37) {
        double d = 0;
        for (int l = 0; l < 5; l++)
            d += one[l]->d[i];
        NEAR(f->d[i], d, 1e-11 * total);
    }
    const int n = 400;
    double step = 0.5 / s.dm.pitch / n, inside = 0;
    for (int y = 0; y <= n; y++)
        for (int x = 0; x <= n; x++) {
            double wx = x == 0 || x == n ? 1 : x % 2 ? 4 : 2;
            double wy = y == 0 || y == n ? 1 : y % 2 ? 4 : 2;
            double f2 = (x * x + y * y) * step * step;
            inside += wx * wy * pow(f2 + 1 / 9.0, -11.0 / 6);
        }
    inside *= 4 * step * step / 9;
    CLOSE(psf_fit_variance(one[0], 500e-9),
          0.02289558710855518 * 10 * (M_PI * 1.2 * pow(3, 5.0 / 3) - inside), 1e-7);
    for (int l = 0; l < 5; l++)
        psf_fit_free(one[l]);
    psf_fit_free(f);
    psf_free(p);
    sys_free(&s);
}

/* D_fit is the sum that the model writes, with each cell's share outside the square by counting a
 * fine mesh. */
static void test_structure(void **in) {
    (void)in;
    for (int k = 2; k <= 4; k++) {
        double L0 = 20, strength, h;
        profile prof = case_profile(0.15, &L0, &strength, &h);
        sys s = case_system(7, 8, 0.3);
        psf_opts o = case_opts();
        psf *p;
        psf_fit *f;
        o.oversampling = k;
        o.span = 3.3;
        OK(psf_init(&s, &o, &p));
        OK(psf_fit_init(p, &prof, &f));
        int N = p->N, mesh = 1000;
        double df = 1 / (N * p->pixel), side = 0.5 / s.dm.pitch / df;
        double *w = case_doubles((size_t)N * (size_t)N), *in_square = case_doubles((size_t)N);
        for (int x = 0; x < N; x++)
            for (int i = 0; i < mesh; i++)
                in_square[x] += (fabs(x - N / 2 - 0.5 + (i + 0.5) / mesh) < side) / (double)mesh;
        for (int y = 0; y < N; y++)
            for (int x = 0; x < N; x++) {
                double f2 = (pow(x - N / 2, 2) + pow(y - N / 2, 2)) * df * df;
                w[y * N + x] = (1 - in_square[x] * in_square[y]) * pow(f2 + 1 / 400.0, -11.0 / 6);
            }
        const int at[][2] = {{0, 1}, {1, 0}, {3, 2}, {p->P - 1, 0}, {p->P / 2, p->P / 3}};
        for (int i = 0; i < 5; i++) {
            double d = 0;
            for (int y = -N / 2; y < N / 2; y++)
                for (int x = -N / 2; x < N / 2; x++)
                    d += w[(y + N / 2) * N + x + N / 2] *
                         (1 - cos(2 * M_PI * (x * at[i][0] + y * at[i][1]) / N));
            d = 2 * 0.02289558710855518 * strength * d * df * df +
                2 * 0.231263 * pow(p->pixel / 0.15, 5.0 / 3);
            CLOSE(f->d[at[i][0] * p->P + at[i][1]], d, 1e-4);
        }
        assert_true(f->d[0] == 0);
        free(in_square);
        free(w);
        psf_fit_free(f);
        psf_free(p);
        sys_free(&s);
    }
}

/* Far apart, D_fit is twice the variance, and the Strehl that it leaves is near exp(-variance): 2
 * %. Strehl with the fitting error alone is what psf_fit_strehl says. */
static void test_strehl(void **in) {
    (void)in;
    double ee[3], L0 = 25, strength, h;
    profile prof = case_profile(0.15, &L0, &strength, &h);
    sys s = case_system(16, 8, 0.28);
    psf_opts o = case_opts();
    psf *p;
    psf_fit *f;
    OK(psf_init(&s, &o, &p));
    OK(psf_fit_init(p, &prof, &f));
    CLOSE(f->d[40 * p->P + 17], 2 * psf_fit_variance(f, 500e-9), 0.02);
    double *sum = case_doubles(psf_sep_count(p));
    for (int il = 0; il < 3; il++) {
        psf_result r = {.ee = ee};
        OK(psf_compute(p, sum, f, il, &r));
        CLOSE(psf_fit_strehl(p, f, il), r.strehl, 1e-12);
        CLOSE(r.variance, psf_fit_variance(f, case_lambda[il]), 1e-14);
        CLOSE(-log(r.strehl), r.variance, 0.02);
    }
    free(sum);
    psf_fit_free(f);
    psf_free(p);
    sys_free(&s);
}

/* Length of the annulus' chord at height y that a copy shifted by s along x covers too. */
static double common_chord(double obs, double y, double s) {
    double out = 1 - y * y, in = obs * obs - y * y, sum = 0;
    if (out <= 0)
        return 0;
    double a = sqrt(out), b = in > 0 ? sqrt(in) : 0;
    const double piece[2][2] = {{-a, -b}, {b, a}};
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
            sum += fmax(0, fmin(piece[i][1], piece[j][1] + s) - fmax(piece[i][0], piece[j][0] + s));
    return sum;
}

/* OTF_tel is the autocorrelation of the pupil (integrated chord by chord, 1e-5), for every way in
 * which the four circles can overlap; and it sums to 1 over the grid. */
static void test_telescope(void **in) {
    (void)in;
    const double obscuration[] = {0, 0.1, 0.285, 1.0 / 3, 0.5, 0.8, 0.95};
    for (int i = 0; i < 7; i++) {
        const int n = 20000;
        sys s = case_system(20, 10, obscuration[i]);
        psf_opts o = case_opts();
        psf *p;
        OK(psf_init(&s, &o, &p));
        double total = 0;
        for (int u = 0; u < p->P; u++)
            for (int v = 1 - p->P; v < p->P; v++)
                total += (u ? 2 : 1) * telescope_row(p, 0, u)[v];
        NEAR(total, 1, 1e-13);
        for (int u = 0; u < p->P; u += 3) {
            double sum = 0, zero = 0;
            for (int y = 0; y < n; y++) {
                sum += common_chord(obscuration[i], -1 + (y + 0.5) * 2 / n, 2.0 * u / p->P);
                zero += common_chord(obscuration[i], -1 + (y + 0.5) * 2 / n, 0);
            }
            NEAR(telescope_row(p, 0, u)[0] / telescope_row(p, 0, 0)[0], sum / zero, 1e-5);
        }
        /* a function of the distance, zero from D on: (24, 32) is 40 away and (48, 64) is 80 */
        NEAR(telescope_row(p, 0, 24)[32], telescope_row(p, 0, 40)[0], 1e-15);
        NEAR(telescope_row(p, 0, 24)[-32], telescope_row(p, 0, 40)[0], 1e-15);
        NEAR(telescope_row(p, 0, 48)[64], 0, 0);
        psf_free(p);
        sys_free(&s);
    }
}

/* Options that make no sense are refused with a message. */
static void test_options(void **in) {
    (void)in;
    sys s = case_system(7, 4.2, 0.3);
    psf_opts bad[] = {case_opts(), case_opts(), case_opts(), case_opts()};
    bad[0].oversampling = 0;
    bad[1].crop = 31;
    bad[2].span = NAN;
    bad[3].span = 1e9;
    for (int i = 0; i < 4; i++) {
        psf *p;
        assert_int_equal(psf_init(&s, &bad[i], &p), MOAO_INPUT);
        assert_null(p);
        assert_true(strlen(status_message()) > 10);
        status_clear();
    }
    psf_free(NULL);
    psf_fit_free(NULL);
    sys_free(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kolmogorov), cmocka_unit_test(test_outer_scale),
        cmocka_unit_test(test_structure),  cmocka_unit_test(test_strehl),
        cmocka_unit_test(test_telescope),  cmocka_unit_test(test_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
