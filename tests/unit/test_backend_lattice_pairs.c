/* Products of sensors on a common lattice by Fourier transforms against dense ones with the entries
 * that fill_cmm gives: laser and natural stars, sizes 1:2 on one lattice, registration, masks,
 * slopes between points and mean gradients, two profiles, all types; which sensors are alike. */
#include "support/engine_case.h"
#include "support/matcov_backend.h"

#include "residual/lattice_pairs.h"

static const case_sensor sensors[] = {{7, {20, 5}, 9e4, 1, 0, {0}, 0},
                                      {7, {-15, 12}, 9e4, 1, 0, {0.02, -0.1}, 0},
                                      {5, {30, -9}, INFINITY, 1, 0, {0}, 10},
                                      {6, {-3, -30}, 8e4, 1, 0, {0}, 0},
                                      {10, {6, -7}, INFINITY, 1, 0, {0.1, 0}, 8},
                                      {4, {-8, 22}, INFINITY, 1.02, 0.05, {0}, 9},
                                      {1, {2, 2}, INFINITY, 1, 0, {0}, 9},
                                      {5, {9, 9}, INFINITY, 1, -0.3, {0, 0.2}, 9},
                                      {5, {-22, 14}, INFINITY, 1, 0, {0}, 11}};
#define NSENSOR ((int)(sizeof sensors / sizeof *sensors))
static const int group_of[NSENSOR] = {0, 0, 1, 2, 1, 3, 1, 4, 1};
static const double layers[2][3][5] = {
    {{0, 25, 60, 4, -3}, {2500, 40, 20, 10, 2}, {9000, 20, 7, 1, 8}},
    {{0, 30, 40, 1, 3}, {4000, 30, 30, 9, 2}, {15000, 25, 9, 1, 8}}};

typedef struct {
    engine e;
    sys s;
    profile p[2];
    report rep;
} fixture;

static void setup(fixture *f, bool gradient, double obscuration) {
    *f = (fixture){0};
    case_sys(8, obscuration, 5, NSENSOR, sensors, &f->s);
    f->s.ts.gradient = gradient;
    for (int w = 0; w < NSENSOR; w++)
        f->s.sensors[w].gradient = gradient;
    for (int i = 0; i < 2; i++)
        case_profile(3, layers[i], &f->p[i]);
    case_engine(&world, &f->s, &f->rep, &f->e);
}

static void teardown(fixture *f) {
    engine_close(&f->e);
    for (int i = 0; i < 2; i++)
        case_profile_free(&f->p[i]);
    sys_free(&f->s);
}

static void down(fixture *f, void *host, const void *dev, size_t bytes) {
    const int64_t n = (int64_t)bytes;
    must(be->copy(f->e.ctx, host, n, dev, n, n, 1));
    must(be->sync(f->e.ctx));
}

/* The blocks of one group of Cmm with noise, 0 elsewhere. */
static double *dense_of(fixture *f, const lattice_pairs *a) {
    const size_t m = f->s.m;
    double *dev, *host = malloc(m * m * sizeof *host);
    assert_non_null(host);
    case_ok(engine_doubles(&f->e, (int64_t)(m * m), "a test", &dev));
    must(f->e.mat->fill_cmm(f->e.cov, BACKEND_D, 'A', MATCOV_NOISE,
                            (matcov_region){0, (int64_t)m, 0, (int64_t)m}, dev, (int64_t)m));
    down(f, host, dev, m * m * sizeof *host);
    for (int v = 0; v < NSENSOR; v++)
        for (int w = 0; w < NSENSOR; w++)
            for (int j = 0; j < 2 * f->s.sensors[w].nsub && a->of[v] != a->of[w]; j++)
                memset(host + f->s.sensors[v].first + (f->s.sensors[w].first + (size_t)j) * m, 0,
                       2 * (size_t)f->s.sensors[v].nsub * sizeof *host);
    be->release(f->e.ctx, dev);
    return host;
}

/* Of X (Y - Z)' + (Y - Z) X', squared. */
static double squared_norm(int64_t v, int64_t m, const double *x, const double *y,
                           const double *z) {
    double sum = 0;
    for (int64_t i = 0; i < v; i++)
        for (int64_t j = 0; j < v; j++) {
            double one = 0;
            for (int64_t k = 0; k < m; k++)
                one += x[i + k * v] * (y[j + k * v] - (z ? z[j + k * v] : 0)) +
                       x[j + k * v] * (y[i + k * v] - (z ? z[i + k * v] : 0));
            sum += one * one;
        }
    return sum;
}

/* Error of X C / 2 as a whole, or, where subapertures are partly lit, which leaves that an
 * antisymmetric part, of X C X'; X is v x m, its leading dimension a multiple of 8. */
static double error_of(fixture *f, lattice_pairs *a, toeplitz_type t, const double *c, int64_t v) {
    const int64_t m = f->e.m, count = v * m, ld = (v + 7) / 8 * 8;
    const size_t size = t == TOEPLITZ_D ? 8 : 4;
    double *x = malloc((size_t)count * sizeof *x), *dx, gap = 0, norm = 0;
    char *y = malloc((size_t)count * size);
    void *dy, *in;
    backend_f16 *half;
    assert_true(x && y);
    for (int64_t i = 0; i < count; i++)
        x[i] = case_random(-1, 1);
    case_ok(engine_doubles(&f->e, count, "a test", &dx));
    case_ok(engine_copy(&f->e, dx, x, count));
    case_ok(engine_array(&f->e, (size_t)count * size, "a test", &dy));
    case_ok(engine_array(&f->e, (size_t)(ld * m) * size, "a test", (void **)&half));
    in = t == TOEPLITZ_D ? (void *)dx : half;
    if (t == TOEPLITZ_S)
        must(be->fp16->cast_to_single(f->e.ctx, v, m, dx, v, (float *)(void *)half, ld));
    else if (t == TOEPLITZ_FP16)
        must(be->fp16->cast_to_fp16(f->e.ctx, BACKEND_D, v, m, 15, dx, v, half, ld));
    case_ok(engine_work(&f->e, lattice_pairs_workspace(&f->e, a, v)));
    case_ok(lattice_pairs_apply(&f->e, a, v, t == TOEPLITZ_FP16 ? 0x1p-16 : 0.5, in,
                                t == TOEPLITZ_D ? v : ld, 0, dy, v));
    down(f, y, dy, (size_t)count * size);
    double *want = calloc((size_t)count, sizeof *want), *is = calloc((size_t)count, sizeof *is);
    assert_true(want && is);
    for (int64_t j = 0; j < m; j++)
        for (int64_t i = 0; i < v; i++) {
            for (int64_t k = 0; k < m; k++)
                want[i + j * v] += 0.5 * x[i + k * v] * c[k + j * m];
            is[i + j * v] = t == TOEPLITZ_D ? ((double *)(void *)y)[i + j * v]
                                            : ((float *)(void *)y)[i + j * v];
        }
    if (a->outlines.most > 0) {
        gap = squared_norm(v, m, x, is, want);
        norm = squared_norm(v, m, x, want, NULL);
    }
    for (int64_t i = 0; i < count && a->outlines.most == 0; i++) {
        gap += (is[i] - want[i]) * (is[i] - want[i]);
        norm += want[i] * want[i];
    }
    free(want), free(is);
    be->release(f->e.ctx, dx), be->release(f->e.ctx, dy), be->release(f->e.ctx, half);
    free(x), free(y);
    return sqrt(gap / norm);
}

static void test_products(void **state) {
    (void)state;
    static const struct {
        toeplitz_type t;
        double most;
    } types[] = {{TOEPLITZ_D, 1e-13}, {TOEPLITZ_S, 2e-6}, {TOEPLITZ_FP16, 1e-3}};
    if (be->toeplitz == NULL)
        skip();
    for (int gradient = 0; gradient < 2; gradient++) {
        fixture f;
        setup(&f, gradient, gradient ? 0.3 : 0);
        for (int k = 0; k < 3; k++) {
            lattice_pairs a;
            case_ok(lattice_pairs_init(&f.s, false, &a));
            assert_int_equal(a.ngroup, 5);
            assert_memory_equal(a.of, group_of, sizeof group_of);
            case_ok(lattice_pairs_open(&f.e, types[k].t, 5, &a));
            for (int p = 0; p < 2; p++) {
                case_ok(engine_load(&f.e, &f.p[p]));
                case_ok(lattice_pairs_load(&f.e, 10, &a));
                double *c = dense_of(&f, &a);
                const double e = error_of(&f, &a, types[k].t, c, p == 0 ? 5 : 2);
                print_message("%s, type %d: relative error %.1e\n",
                              gradient ? "mean gradients" : "points", k, e);
                /* entries with outlines are symmetric to 1e-12 */
                assert_true(e <= fmax(types[k].most, a.outlines.most > 0 ? 1e-10 : 0));
                free(c);
            }
            lattice_pairs_close(&f.e, &a);
        }
        teardown(&f);
    }
}

/* The same of a difference of profiles, which leaves out outlines of nearly whole subapertures. */
static void test_products_of_difference(void **state) {
    (void)state;
    fixture f;
    lattice_pairs a, all;
    matcov *mc;
    double bound;
    if (be->toeplitz == NULL)
        skip();
    setup(&f, true, 0.3);
    case_ok(lattice_pairs_init(&f.s, false, &all));
    case_ok(lattice_pairs_init(&f.s, true, &a));
    assert_true(a.outlines.most < all.outlines.most);
    case_ok(lattice_pairs_open(&f.e, TOEPLITZ_D, 5, &a));
    case_ok(matcov_prepare_difference(&f.s, &f.p[0], &f.p[1], 1, false, &mc, &bound));
    case_ok(engine_use(&f.e, mc));
    case_ok(lattice_pairs_load(&f.e, 10, &a));
    double *c = dense_of(&f, &a);
    const double e = error_of(&f, &a, TOEPLITZ_D, c, 5);
    print_message("a difference: relative error %.1e\n", e);
    assert_true(e <= 1e-9);
    free(c);
    lattice_pairs_close(&f.e, &a);
    lattice_pairs_close(NULL, &all);
    teardown(&f);
}

/* What partly lit subapertures change of a difference of profiles, of sensors large enough that
 * most pairs are far apart: single precision, in units of the slope variance of all layers. */
static void test_difference(void **state) {
    (void)state;
    static const case_sensor large[] = {{18, {20, 5}, INFINITY, 1, 0, {0}, 10},
                                        {18, {-35, 12}, INFINITY, 1, 0, {0}, 10},
                                        {9, {15, -30}, INFINITY, 1, 0, {0.1, 0}, 10},
                                        {18, {9, -7}, 9e4, 1, 0, {0}, 0}};
    static const double now[3][5] = {{0, 25, 40, 4, -3},
                                     {4000, 30, 45, 9, 2},
                                     {12000, 25, 15, 1, 8}},
                        then[3][5] = {
                            {0, 25, 50, 4, -3}, {4000, 30, 30, 9, 2}, {12000, 25, 20, 1, 8}};
    fixture f = {0};
    lattice_pairs a;
    matcov *mc;
    double bound, worst = 0;
    case_sys(8, 0.3, 5, 4, large, &f.s);
    f.s.ts.gradient = true;
    for (int w = 0; w < 4; w++)
        f.s.sensors[w].gradient = true;
    case_profile(3, now, &f.p[0]);
    case_profile(3, then, &f.p[1]);
    case_engine(&world, &f.s, &f.rep, &f.e);
    case_ok(lattice_pairs_init(&f.s, true, &a));
    const double variance = matcov_direct_cmm(&f.s, &f.p[0], 0, 0);
    case_ok(matcov_prepare_difference(&f.s, &f.p[0], &f.p[1], 1, false, &mc, &bound));
    case_ok(engine_use(&f.e, mc));
    for (int v = 0; v < 4; v++)
        for (int w = 0; w < 4; w++) {
            const int64_t n = a.outlines.n[v], count = n * 2 * f.s.sensors[w].nsub;
            double *dev, *want = malloc((size_t)count * sizeof *want);
            float *got = malloc((size_t)count * sizeof *got);
            if (a.of[v] == a.of[w]) {
                case_ok(engine_doubles(&f.e, count, "a test", &dev));
                must(f.e.mat->outlined(f.e.cov, BACKEND_D, v, w, dev, n));
                down(&f, want, dev, (size_t)count * sizeof *want);
                must(f.e.mat->outlined(f.e.cov, BACKEND_S, v, w, dev, n));
                down(&f, got, dev, (size_t)count * sizeof *got);
                for (int64_t i = 0; i < count; i++)
                    worst = fmax(worst, fabs(got[i] - want[i]) / variance);
                be->release(f.e.ctx, dev);
            }
            free(want), free(got);
        }
    print_message("outlines of a difference, single precision: errors at most %.1e\n", worst);
    assert_true(worst <= 3e-4);
    lattice_pairs_close(&f.e, &a);
    teardown(&f);
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(test_products),
                                          cmocka_unit_test(test_products_of_difference),
                                          cmocka_unit_test(test_difference)};

int main(void) {
    return run_alone(tests, sizeof tests / sizeof *tests);
}
