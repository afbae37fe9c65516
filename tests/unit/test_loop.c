/* The loop in time: responses against closed forms, and covariances summed over ages against those
 * of single delays. */
#include "moao/backend.h"
#include "support/matcov_case.h"
#include "system/loop.h"

static loop_filter filter(int type, double gain, double frames, double rate) {
    loop_filter f = {.type = type,
                     .gain = gain,
                     .frames = frames,
                     .period = 1 / rate,
                     .size = 1,
                     .step = 0.1,
                     .exact = true};
    case_ok(loop_init(&f));
    return f;
}

static void near(double got, double want, double tolerance) {
    if (!(fabs(got - want) <= tolerance * fmax(1, fabs(want))))
        fail_msg("%.12g, expected %.12g", got, want);
}

/* Weights of frames; sum 1; noise g/(2-g) of leaky loops and of an integrator of one frame. */
static void test_response(void **state) {
    (void)state;
    for (int type = LOOP_INTEGRATOR; type <= LOOP_LEAKY; type++)
        for (int frames = 1; frames < 4; frames++) {
            loop_filter f = filter(type, 0.3, frames, 500);
            double sum = 0, before[4] = {0};
            for (int k = 0; k < f.n; k++) {
                /* h_k = h_(k-1) - g h_(k-d) + g [k = d]; h_k = g (1-g)^(k-d) */
                const double fed = k >= frames ? f.h[k - frames] : 0;
                before[0] = type == LOOP_INTEGRATOR
                                ? (k > 0 ? before[1] : 0) - 0.3 * fed + 0.3 * (k == frames)
                                : (k >= frames ? 0.3 * pow(0.7, k - frames) : 0);
                near(f.h[k], before[0], 1e-5);
                before[1] = before[0];
                sum += f.h[k];
            }
            near(sum, 1, 1e-13);
            if (type == LOOP_LEAKY || frames == 1)
                near(f.noise, 0.3 / 1.7, 1e-5);
            loop_free(&f);
        }
}

/* 2 sin(pi / (2 (2d - 1))) for an integrator; what is beyond is refused, in one line. */
static void test_stability(void **state) {
    (void)state;
    for (int frames = 1; frames < 9; frames++) {
        const double limit = 2 * sin(M_PI / (2 * (2 * frames - 1)));
        near(loop_limit(LOOP_INTEGRATOR, frames), limit, 1e-9);
        loop_filter f = {
            .type = LOOP_INTEGRATOR, .gain = 1.01 * limit, .frames = frames, .period = 1};
        assert_int_equal(loop_init(&f), MOAO_INPUT);
        assert_non_null(strstr(status_message(), "is not stable, expected less than"));
        status_clear();
        loop_free(&f);
    }
    const double between = loop_limit(LOOP_INTEGRATOR, 1.5);
    assert_true(between <= loop_limit(LOOP_INTEGRATOR, 1) &&
                between > loop_limit(LOOP_INTEGRATOR, 2));
    const double wrong[] = {0, -0.1, NAN, INFINITY, 2, 1e-5};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        loop_filter f = {.type = LOOP_LEAKY, .gain = wrong[i], .frames = 2, .period = 1};
        assert_int_equal(loop_init(&f), MOAO_INPUT);
        status_clear();
        loop_free(&f);
    }
    loop_filter slow = {.type = LOOP_INTEGRATOR, .gain = 1 - 1e-6, .frames = 2, .period = 1};
    assert_int_equal(loop_init(&slow), MOAO_INPUT); /* rings on and on */
    assert_non_null(strstr(status_message(), "remembers more than"));
    status_clear();
    loop_free(&slow);
}

/* A gain of 1 in a leaky loop is the pure delay; between whole frames two of them. The delay that
 * is equivalent is that of the power law. */
static void test_delay(void **state) {
    (void)state;
    loop_filter f = filter(LOOP_LEAKY, 1, 3, 200);
    assert_int_equal(f.n, 4);
    near(f.h[3], 1, 0);
    near(f.delay, 0.015, 1e-14);
    near(f.noise, 1, 0);
    loop_free(&f);
    f = filter(LOOP_LEAKY, 1, 1.25, 200);
    near(f.h[1], 0.75, 1e-14);
    near(f.h[2], 0.25, 1e-14);
    loop_free(&f);
}

/* Weights at coarse ages have the sum, the mean and the second moment of h. */
static void test_ages(void **state) {
    (void)state;
    loop_filter f = filter(LOOP_INTEGRATOR, 0.4, 2, 1000);
    for (double speed = 0; speed < 2000; speed = 3 * speed + 1) {
        loop_ages a;
        double got[3] = {0}, want[3] = {0}, all = 0;
        case_ok(loop_ages_init(&f, speed, &a));
        if (speed == 0)
            assert_int_equal(a.n, 1);
        for (int k = 0; k < f.n; k++)
            for (int p = 0; p < 3; p++)
                want[p] += f.h[k] * pow(k * f.period, p);
        for (int j = 0; j < a.n; j++)
            for (int p = 0; p < 3; p++)
                got[p] += a.weight[j] * pow(a.first + j * a.step, p);
        for (int l = 0; l < a.n; l++)
            all += (l > 0 ? 2 : 1) * a.correlation[l];
        assert_true(a.n <= f.n && a.step * speed <= fmax(0.1, speed * f.period) + 1e-12);
        near(all, 1, 1e-12);
        for (int p = 0; p < 3 && speed > 0; p++)
            near(got[p] / want[p], 1, 1e-11);
        loop_ages_free(&a);
    }
    loop_free(&f);
}

/* --- covariances */

enum { NSENSOR = 4, POINTS = 9 };
static const case_sensor sensors[NSENSOR] = {{8, {20, 20}, 90000, 1, 0, {0.01, 0}, 0},
                                             {8, {-21, 17}, 90000, 1, 0, {0.03, -0.02}, 0},
                                             {4, {-50, 5}, INFINITY, 1, 0, {0}, 11},
                                             {8, {0, 0}, INFINITY, 0.99, -0.3, {-0.04, 0}, 11}};
static const double turbulence[2][5] = {{0, 25, 3, 8, -3}, {6000, 25, 2, 0, 0}};

typedef struct {
    sys s;
    profile p;
    matcov *mc;
    matcov_target *mt;
} covariances;

static void make(bool gradient, const loop_filter *f, double delay, covariances *c) {
    case_sys(8, 0.2, 8, NSENSOR, sensors, &c->s);
    case_profile(2, turbulence, &c->p);
    c->p.loop[0] = f;
    c->s.delay = delay;
    c->s.ts.gradient = gradient;
    for (int w = 0; w < NSENSOR; w++) {
        c->s.sensors[w].gradient = gradient;
        c->s.sensors[w].noise.variance = 1e-3;
    }
    case_ok(matcov_prepare(&c->s, &c->p, &c->mc));
    case_ok(matcov_tabulate(c->mc));
    case_ok(matcov_target_init(c->mc, (double[2]){CASE_ARCSEC(7), CASE_ARCSEC(-3)}, true, &c->mt));
}

static void drop(covariances *c) {
    matcov_target_free(c->mt);
    matcov_free(c->mc);
    case_profile_free(&c->p);
    sys_free(&c->s);
}

static double *filled(const covariances *c, char what) {
    const size_t m = c->s.m, rows = what == 'm' ? m : what == 't' ? c->s.t : POINTS;
    double *a = calloc(rows * m, sizeof *a), x[POINTS], y[POINTS];
    for (int i = 0; i < POINTS; i++) {
        x[i] = -3.5 + 0.8 * i;
        y[i] = 2.9 - 0.7 * i;
    }
    if (what == 'm')
        case_ok(matcov_fill_cmm(c->mc, 0, m, 0, m, a, m));
    else if (what == 't')
        case_ok(matcov_fill_ctm(c->mt, 0, m, a, rows));
    else
        case_ok(matcov_fill_cpm(c->mt, (matcov_points){POINTS, x, y}, 0, m, a, POINTS));
    return a;
}

/* Largest difference over the largest entry; then both are freed. */
static double gap(double *a, double *b, size_t n) {
    double most = 0, largest = 0;
    for (size_t i = 0; i < n; i++) {
        most = fmax(most, fabs(a[i] - b[i]));
        largest = fmax(largest, fabs(b[i]));
    }
    free(a);
    free(b);
    if (getenv("SHOW"))
        print_message("%.2e\n", most / largest);
    return most / largest;
}

static size_t entries(const covariances *c, char what) {
    return c->s.m * (what == 'm' ? c->s.m : what == 't' ? c->s.t : POINTS);
}

/* The pure delay in both ways. */
static void test_pure_delay(void **state) {
    (void)state;
    loop_filter f = filter(LOOP_LEAKY, 1, 3, 250);
    for (int gradient = 0; gradient < 2; gradient++) {
        covariances a, b, c;
        make(gradient, &f, 0, &a);
        make(gradient, NULL, 0.012, &b);
        make(gradient, NULL, 0, &c);
        for (const char *what = "mtp"; *what != '\0'; what++) {
            assert_true(gap(filled(&a, *what), filled(&b, *what), entries(&a, *what)) < 1e-13);
            if (*what != 'm')
                assert_true(gap(filled(&c, *what), filled(&b, *what), entries(&a, *what)) > 1e-3);
        }
        drop(&a);
        drop(&b);
        drop(&c);
    }
    loop_free(&f);
}

/* sum_k h_k C(phi, s; k T), of covariances for each delay; sum_l a_l C(s, s; l T), by the closed
 * form of sensors of different delays; noise times sum h^2. All ages, and coarse ones within 1e-3.
 */
static void test_sums(void **state) {
    (void)state;
    for (int gradient = 0; gradient < 2; gradient++) {
        loop_filter f = filter(LOOP_INTEGRATOR, 0.8, 1, 300), coarse = f;
        covariances c, few;
        f.size = 0; /* all of 0.085 m; else steps of at most 0.1 m, 0.2 of mean gradients */
        make(gradient, &f, 0, &c);
        make(gradient, &coarse, 0, &few);
        const size_t m = c.s.m;
        for (const char *what = "tp"; *what != '\0'; what++) {
            const size_t n = entries(&c, *what);
            double *sum = calloc(n, sizeof *sum);
            for (int k = 0; k < f.n; k++) {
                covariances one;
                if (fabs(f.h[k]) < 1e-9)
                    continue;
                make(gradient, NULL, k * f.period, &one);
                double *a = filled(&one, *what);
                for (size_t i = 0; i < n; i++)
                    sum[i] += f.h[k] * a[i];
                free(a);
                drop(&one);
            }
            assert_true(gap(filled(&c, *what), sum, n) < 1e-11);
            assert_true(gap(filled(&few, *what), filled(&c, *what), n) < 3e-4);
        }
        assert_true(gap(filled(&few, 'm'), filled(&c, 'm'), m * m) < 3e-4);
        double *cmm = filled(&c, 'm'), largest = 0;
        for (size_t i = 0; i < m; i++)
            largest = fmax(largest, cmm[i * (m + 1)]);
        c.p.loop[0] = NULL;
        for (int n = 0; n < (gradient ? 10 : 300); n++) {
            const size_t i = (size_t)case_random(0, (double)m),
                         j = (size_t)case_random(0, (double)m);
            int w, v, axis, sub;
            double sum = i == j ? 1e-3 * f.noise : 0;
            sys_slope_at(&c.s, i, &w, &axis, &sub);
            sys_slope_at(&c.s, j, &v, &axis, &sub);
            near(cmm[i + j * m], cmm[j + i * m], 1e-15);
            if (w == v) /* one sensor has one delay */
                continue;
            for (int l = 1 - f.n; l < f.n; l++) {
                double a = 0;
                for (int k = 0; k < f.n; k++)
                    a += k + l >= 0 && k + l < f.n ? f.h[k] * f.h[k + l] : 0;
                c.s.sensors[w].late = l * f.period;
                sum += fabs(a) > 1e-9 ? a * matcov_direct_cmm(&c.s, &c.p, i, j) : 0;
                c.s.sensors[w].late = 0;
            }
            assert_true(fabs(cmm[i + j * m] - sum) < (gradient ? 3e-4 : 1e-8) * largest);
        }
        c.p.loop[0] = &f;
        free(cmm);
        drop(&c);
        drop(&few);
        loop_free(&f);
    }
}

static double moment(int n, const double *weight, double first, double step, int power) {
    double sum = 0;
    for (int k = 0; k < n; k++)
        sum += weight[k] * pow(first + k * step, power);
    return sum;
}

/* A loop of frames of 5 steps: weights by steps against the sum over pairs of step measured and
 * step corrected; ages of two loops have the moments of the difference. */
static void test_steps(void **state) {
    (void)state;
    loop_filter fast = filter(LOOP_INTEGRATOR, 0.4, 2, 500), f = {.type = LOOP_LEAKY,
                                                                  .gain = 0.3,
                                                                  .frames = 1,
                                                                  .period = 0.01,
                                                                  .held = 5,
                                                                  .size = 1,
                                                                  .step = 0.1,
                                                                  .exact = true};
    case_ok(loop_init(&f));
    for (int age = 0; age < f.nstep; age++) {
        double mean = 0, one = 0;
        for (int k = 0; k < f.n; k++)
            for (int i = 0; i < 5; i++) /* measured */
                for (int p = 0; p < 5; p++)
                    if (5 * k + p - i == age) {
                        mean += f.h[k] / 25;
                        one += p == 0 ? f.h[k] / 5 : 0;
                    }
        near(f.mean[age], mean, 1e-15);
        near(f.one[age], one, 1e-15);
    }
    for (double speed = 0.5; speed < 1000; speed *= 7) {
        loop_ages a, b;
        loop_gaps g;
        case_ok(loop_ages_init(&fast, speed, &a));
        case_ok(loop_ages_init(&f, speed, &b));
        case_ok(loop_gaps_init(&a, &b, &g));
        assert_true(g.n <= loop_count_gaps(&fast, &f, speed));
        double got[3] = {0}, of_a[3], of_b[3];
        for (int p = 0; p < 3; p++) {
            for (int k = 0; k < g.n; k++)
                got[p] += g.weight[k] * pow(g.age[k], p);
            of_a[p] = moment(fast.n, fast.h, 0, fast.period, p);
            of_b[p] = moment(f.nstep, f.mean, 0, f.period / 5, p);
        }
        near(got[0], 1, 1e-11);
        near(got[1] / (of_b[1] - of_a[1]), 1, 1e-10);
        near(got[2] / (of_b[2] - 2 * of_a[1] * of_b[1] + of_a[2]), 1, 1e-10);
        loop_gaps_free(&g);
        loop_ages_free(&a);
        loop_ages_free(&b);
    }
    loop_filter slow = {.type = LOOP_LEAKY, .gain = 0.01, .frames = 2, .period = 1, .held = 100};
    assert_int_equal(loop_init(&slow), MOAO_INPUT);
    assert_non_null(strstr(status_message(), "frames of the faster loop, more than"));
    status_clear();
    loop_free(&slow);
    loop_free(&f);
    loop_free(&fast);
}

/* |E|^2 by the sum over h, and 0 for what does not move. */
static void test_rejection(void **state) {
    (void)state;
    for (int type = LOOP_INTEGRATOR; type <= LOOP_LEAKY; type++)
        for (double frames = 1; frames < 3; frames += 0.6) {
            loop_filter f = filter(type, 0.35, frames, 200);
            near(loop_rejection(&f, NULL, 0), 0, 0);
            for (double at = 1; at < 150; at *= 3) {
                double re = 0, im = 0;
                const double x = M_PI * at * f.period, box = sin(x) / x;
                for (int k = 0; k < f.n; k++) {
                    re += f.h[k] * cos(2 * x * k);
                    im -= f.h[k] * sin(2 * x * k);
                }
                near(loop_rejection(&f, NULL, at), 1 - box * box * (2 * re - re * re - im * im),
                     1e-5);
            }
            loop_free(&f);
        }
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_response),   cmocka_unit_test(test_stability),
        cmocka_unit_test(test_delay),      cmocka_unit_test(test_ages),
        cmocka_unit_test(test_pure_delay), cmocka_unit_test(test_sums),
        cmocka_unit_test(test_steps),      cmocka_unit_test(test_rejection),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    MPI_Finalize();
    return failed;
}
