/* Compressed matrices at their limits: what a determinant is worth, conditions, matrices that are
 * singular, scales whose squares no number holds, tiles of a few entries. */
#include "support/tlr_case.h"
#include <float.h>
#include <time.h>

enum { N = 320, B = 32 };

static tlr_options options_of(double tau) {
    return (tlr_options){.tau = tau, .cut = -1, .width = 2 * B, .seed = 1, .norms = true};
}

/* A matrix on the host (order of the layout), times a scale. */
typedef struct {
    const double *a;
    int64_t n;
    double scale;
} matrix;

static status fill_matrix(void *arg, int64_t i0, int64_t ni, int64_t j0, int64_t nj, double *a,
                          int64_t lda) {
    const matrix *m = arg;
    double *host = malloc(sizeof(double) * (size_t)(ni * nj + 1));
    for (int64_t j = 0; j < nj; j++)
        for (int64_t i = 0; i < ni; i++)
            host[i + j * ni] = m->scale * m->a[i0 + i + (j0 + j) * m->n];
    status st = be->copy(ctx, a, 8 * lda, host, 8 * ni, 8 * ni, nj);
    if (st == MOAO_OK)
        st = be->sync(ctx);
    free(host);
    return st;
}

static double exact_logdet(const double *a, int64_t n) {
    double *f = malloc(sizeof(double) * (size_t)(n * n)), sum = 0;
    int info;
    memcpy(f, a, sizeof(double) * (size_t)(n * n));
    ok(backend_cpu.potrf(NULL, BACKEND_D, 'L', n, f, n, &info, NULL, 0));
    assert_int_equal(info, 0);
    for (int64_t i = 0; i < n; i++)
        sum += 2 * log(f[i * (n + 1)]);
    free(f);
    return sum;
}

/* A covariance of analytic fields, whose least eigenvalue is the nugget, in the order of the tiles.
 */
static double *gaussian(const points *p, double nugget) {
    double *a = malloc(sizeof(double) * (size_t)(p->n * p->n));
    for (int64_t j = 0; j < p->n; j++)
        for (int64_t i = 0; i < p->n; i++) {
            const double d =
                hypot(p->at[2 * i] - p->at[2 * j], p->at[2 * i + 1] - p->at[2 * j + 1]);
            a[i + j * p->n] = exp(-d * d / 0.08) + (i == j ? nugget : 0);
        }
    return a;
}

/* The estimate of a determinant's error is the error, to a few of its deviations, from where
 * compression changes nothing to where it changes all; entries and a compressed matrix as source.
 */
static void test_logdet_error(void **state) {
    static const struct {
        double nugget, tau;
    } row[] = {{0.05, 1e-5}, {1e-3, 1e-4}, {1e-8, 1e-6}, {0.05, 0}};
    int large = 0;
    (void)state;
    for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
        points p = points_new(N, B, TLR_KD);
        double *a = gaussian(&p, row[k].nugget), got, error, deviation;
        matrix m = {a, N, 1};
        const double exact = exact_logdet(a, N);
        tlr_options o = options_of(row[k].tau), whole = options_of(0);
        const tlr_source s = {.layout = &p.l, .fill = fill_matrix, .arg = &m};
        const tlr_rescue none = {0};
        tlr *l, *c;
        const status st = tlr_factor(be, ctx, &s, 'L', &o, &none, &l, NULL);
        if (st != MOAO_OK) { /* what was dropped is more than the matrix bears, and that is said */
            assert_int_equal(st, MOAO_NUMERIC);
            status_clear();
            print_message("nugget %.0e, tau %.0e: refused\n", row[k].nugget, row[k].tau);
        } else {
            ok(tlr_logdet(l, &got));
            ok(tlr_logdet_error(l, &s, 64, 3, &error, &deviation));
            print_message("nugget %.0e, tau %.0e: error %.3e, estimated %.3e +- %.1e\n",
                          row[k].nugget, row[k].tau, got - exact, error, deviation);
            const double rounding = 1e-15 * N / row[k].nugget;
            assert_true(fabs(got - exact - error) <= 4 * deviation + rounding);
            if (fabs(got - exact) > 0.3)
                assert_true(deviation <= 0.5 * fabs(got - exact));
            large += fabs(got - exact) > 0.3;
            ok(tlr_build(be, ctx, &p.l, NULL, fill_matrix, &m, &whole, &c));
            const tlr_source of = {.layout = &p.l, .a = c};
            double again, spread;
            ok(tlr_logdet_error(l, &of, 64, 3, &again, &spread));
            assert_true(fabs(again - error) <= 1e-3 * fabs(error) + rounding);
            assert_int_equal(tlr_logdet_error(c, &of, 16, 3, &again, &spread), MOAO_INPUT);
            status_clear();
            assert_int_equal(tlr_logdet_error(l, &of, 1, 3, &again, &spread), MOAO_INPUT);
            status_clear();
            tlr_close(c);
            tlr_close(l);
        }
        free(a);
        points_free(&p);
    }
    assert_true(large > 0);
}

/* The condition of the factor is that of the matrix; at any scale. */
static void test_condition(void **state) {
    (void)state;
    for (int k = 0; k < 3; k++) {
        points p = points_new(N, B, TLR_KD);
        p.nugget = pow(10, -1 - 2 * k);
        double *a = dense(&p, 0, N, 0, N), *inverse = calloc(N * N, sizeof(double)),
               norm[2] = {0, 0}, rcond;
        matrix m = {a, N, k == 1 ? 0x1p-700 : 1};
        const tlr_source s = {.layout = &p.l, .fill = fill_matrix, .arg = &m};
        tlr_options o = options_of(1e-8 * m.scale);
        tlr *l;
        ok(tlr_factor(be, ctx, &s, 'L', &o, NULL, &l, NULL));
        ok(tlr_condition(l, &rcond));
        for (int64_t i = 0; i < N; i++)
            inverse[i * (N + 1)] = 1;
        double *f = malloc(sizeof(double) * N * N);
        memcpy(f, a, sizeof(double) * N * N);
        int info;
        ok(backend_cpu.posv(NULL, BACKEND_D, 'L', N, N, f, N, inverse, N, &info, NULL, 0));
        for (int64_t j = 0; j < N; j++) {
            double sum[2] = {0, 0};
            for (int64_t i = 0; i < N; i++)
                sum[0] += fabs(a[i + j * N]), sum[1] += fabs(inverse[i + j * N]);
            norm[0] = fmax(norm[0], sum[0]), norm[1] = fmax(norm[1], sum[1]);
        }
        if (!(rcond * norm[0] * norm[1] > 0.1 && rcond * norm[0] * norm[1] < 10))
            fail_msg("nugget %g: %g estimated, %g it is", p.nugget, rcond, 1 / norm[0] / norm[1]);
        tlr_close(l);
        free(a), free(f), free(inverse);
        points_free(&p);
    }
}

/* Singular matrices whose last pivots are rounding errors. */
static void test_singular(void **state) {
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        points p = points_new(N, B, TLR_KD);
        p.nugget = 0;
        double *a = dense(&p, 0, N, 0, N);
        for (int64_t j = 0; j < N; j++)
            for (int64_t i = 0; i < N; i++)
                if (kind == 1) /* of rank 3 */
                    a[i + j * N] = 2 + cos(0.1 * (double)(i - j));
        if (kind == 0) /* a point twice */
            for (int64_t i = 0; i < N; i++)
                a[i + 300 * N] = a[i + 7 * N];
        if (kind == 0)
            for (int64_t i = 0; i < N; i++)
                a[300 + i * N] = a[7 + i * N];
        matrix m = {a, N, kind == 2 ? 0 : 1};
        const tlr_source s = {.layout = &p.l, .fill = fill_matrix, .arg = &m};
        tlr_options o = options_of(0);
        tlr_report r;
        tlr *l;
        assert_int_equal(tlr_factor(be, ctx, &s, 'L', &o, NULL, &l, &r), MOAO_NUMERIC);
        assert_null(l);
        assert_in_range(r.minor, 1, N);
        status_clear();
        free(a);
        points_free(&p);
    }
}

/* A matrix times a power of two is compressed, factored and told of as the matrix itself; on other
 * backends as far as the squares of its entries are numbers (tlr.h). */
static void test_scales(void **state) {
    static const int any[] = {-560, 530, -900, 664, 900}, squares[] = {-400, 400, -100, 100, 350};
    const int(*list)[5] = strcmp(be->name, "cpu") == 0 ? &any : &squares, *exponent = *list;
    points p = points_new(N, B, TLR_KD);
    double *a = dense(&p, 0, N, 0, N), *want[2] = {NULL, NULL}, det[2];
    tlr_stats first[2], s;
    (void)state;
    for (int k = 0; k <= 5; k++) {
        const double by = k == 0 ? 1 : ldexp(1, exponent[k - 1]), root = sqrt(by);
        matrix m = {a, N, by};
        const tlr_source from = {.layout = &p.l, .fill = fill_matrix, .arg = &m};
        tlr_options o = options_of(1e-4 * by);
        tlr *c, *l;
        ok(tlr_build(be, ctx, &p.l, NULL, fill_matrix, &m, &o, &c));
        ok(tlr_factor(be, ctx, &from, 'L', &o, NULL, &l, NULL));
        for (int t = 0; t < 2; t++) {
            const double unit = t ? root : by;
            double *had = expanded(t ? l : c, N, N);
            tlr_statistics(t ? l : c, &s);
            if (k == 0) {
                want[t] = had, first[t] = s;
                continue;
            }
            assert_int_equal(s.columns, first[t].columns);
            assert_int_equal(s.dense, first[t].dense);
            assert_int_equal(s.most, first[t].most);
            if (!(fabs(s.dropped / by - first[t].dropped) <= 1e-6 * first[t].dropped))
                fail_msg("2^%d: %g was dropped, %g without the scale", exponent[k - 1],
                         s.dropped / by, first[t].dropped);
            for (int64_t e = 0; e < N * N; e++)
                if (!(fabs(had[e] / unit - want[t][e]) <= 1e-9))
                    fail_msg("2^%d: number %d is %g, not %g", exponent[k - 1], (int)e,
                             had[e] / unit, want[t][e]);
            free(had);
        }
        ok(tlr_logdet(l, &det[k > 0]));
        assert_true(k == 0 || fabs(det[1] - N * log(by) - det[0]) < 1e-9 * fabs(det[1]));
        tlr_close(c), tlr_close(l);
    }
    free(a), free(want[0]), free(want[1]);
    points_free(&p);
}

/* Tiles in single precision do not bear any scale: what they do not is refused. */
static void test_single_scales(void **state) {
    static const int exponent[] = {0, -40, 60, -160, -300, 200};
    points p = points_new(N, B, TLR_KD);
    double *a = dense(&p, 0, N, 0, N), exact = exact_logdet(a, N), got;
    (void)state;
    for (int k = 0; k < 6; k++) {
        matrix m = {a, N, ldexp(1, exponent[k])};
        const tlr_source s = {.layout = &p.l, .fill = fill_matrix, .arg = &m};
        tlr_options o = options_of(1e-4 * m.scale);
        tlr *l;
        o.fp32 = o.mixed = true;
        const status st = tlr_factor(be, ctx, &s, 'L', &o, NULL, &l, NULL);
        assert_int_equal(st, k < 3 ? MOAO_OK : MOAO_NUMERIC);
        if (k < 3) {
            ok(tlr_logdet(l, &got));
            assert_true(fabs(got - N * log(m.scale) - exact) < 0.1);
        }
        status_clear();
        tlr_close(l);
    }
    free(a);
    points_free(&p);
}

/* Hundreds of tiles of order 1, and others of a few entries, end soon, with the exact factor's
 * values, or are refused with the order that does. */
static void test_small_tiles(void **state) {
    static const int64_t order[] = {1, 2, 5};
    (void)state;
    for (int k = 0; k < 3; k++) {
        const int64_t n = small() ? 100 : k == 0 ? 700 : 400;
        points p = points_new(n, order[k], TLR_KD);
        const tlr_source s = {.layout = &p.l, .fill = fill, .arg = &p};
        tlr_options o = {.tau = 1e-4, .cut = -1, .width = 2 * order[k], .seed = 1};
        double *a = dense(&p, 0, n, 0, n), got;
        tlr *l;
        const clock_t from = clock();
        ok(tlr_factor(be, ctx, &s, 'L', &o, NULL, &l, NULL));
        ok(tlr_logdet(l, &got));
        print_message("%d entries in tiles of %d: %.2f s\n", (int)n, (int)order[k],
                      (double)(clock() - from) / CLOCKS_PER_SEC);
        assert_true(fabs(got - exact_logdet(a, n)) < 0.5);
        tlr_close(l);
        free(a);
        points_free(&p);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_logdet_error),  cmocka_unit_test(test_condition),
        cmocka_unit_test(test_singular),      cmocka_unit_test(test_scales),
        cmocka_unit_test(test_single_scales), cmocka_unit_test(test_small_tiles),
    };
    return RUN_ON_BACKENDS(tests);
}
