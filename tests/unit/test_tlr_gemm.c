/* Products of tile low-rank matrices, symmetric ones, and triangular solves with a compressed right
 * side, against their dense expansion. */
#include "support/tlr_case.h"

enum { B = 32 };

/* A rectangular part of the covariance: between the points from `i0` and those from `j0`. */
typedef struct {
    const points *p;
    int64_t i0, j0;
} part;

static status fill_part(void *arg, int64_t i0, int64_t ni, int64_t j0, int64_t nj, double *a,
                        int64_t lda) {
    const part *s = arg;
    return fill((void *)s->p, s->i0 + i0, ni, s->j0 + j0, nj, a, lda);
}

static tlr *rectangle(const points *p, int64_t i0, const tlr_layout *r, int64_t j0,
                      const tlr_layout *c, const tlr_options *o) {
    part s = {p, i0, j0};
    tlr *a;
    ok(tlr_build(be, ctx, r, c, fill_part, &s, o, &a));
    return a;
}

/* The three extents, not multiples of the tile. */
static const int64_t extent[3] = {5 * B + 7, 4 * B + 1, 3 * B + 30};
static tlr_layout side[3];
static points scattered;

static int setup(void **state) {
    (void)state;
    scattered = points_new(400, B, TLR_KD);
    for (int i = 0; i < 3; i++)
        ok(tlr_layout_plain(extent[i], B, side + i));
    return 0;
}
static int teardown(void **state) {
    (void)state;
    points_free(&scattered);
    for (int i = 0; i < 3; i++)
        tlr_layout_free(side + i);
    return 0;
}

/* op(A) m x k, op(B) k x n, C m x n, and all their dense forms. */
typedef struct {
    tlr *a, *b, *c;
    double *fa, *fb, *fc;
} three;

static three three_new(char ta, char tb, const tlr_options *o) {
    const tlr_layout *m = side, *n = side + 1, *k = side + 2;
    three t;
    t.a = rectangle(&scattered, 0, ta == 'N' ? m : k, 200, ta == 'N' ? k : m, o);
    t.b = rectangle(&scattered, 200, tb == 'N' ? k : n, 0, tb == 'N' ? n : k, o);
    t.c = rectangle(&scattered, 0, m, 100, n, o);
    t.fa = expanded(t.a, ta == 'N' ? m->n : k->n, ta == 'N' ? k->n : m->n);
    t.fb = expanded(t.b, tb == 'N' ? k->n : n->n, tb == 'N' ? n->n : k->n);
    t.fc = expanded(t.c, m->n, n->n);
    return t;
}
static void three_free(three *t) {
    tlr_close(t->a), tlr_close(t->b), tlr_close(t->c);
    free(t->fa), free(t->fb), free(t->fc);
}

/* fc := alpha op(A) op(B) + beta fc */
static void expect(three *t, char ta, char tb, double alpha, double beta) {
    product_host(ta, tb, extent[0], extent[1], extent[2], alpha, t->fa,
                 ta == 'N' ? extent[0] : extent[2], t->fb, tb == 'N' ? extent[2] : extent[1], beta,
                 t->fc, extent[0]);
}

/* m x n numbers (NULL: NaN) in an array of ld rows, the rest NaN; and out of it again, where the
 * rest still has to be NaN. */
static double *in_larger(const double *a, int64_t m, int64_t n, int64_t ld) {
    double *host = malloc(8 * (size_t)(ld * n)), *there;
    memset(host, 0xff, 8 * (size_t)(ld * n));
    for (int64_t j = 0; a && j < n; j++)
        memcpy(host + j * ld, a + j * m, 8 * (size_t)m);
    there = up(host, ld * n);
    free(host);
    return there;
}
static double *out_of_larger(const double *there, int64_t m, int64_t n, int64_t ld) {
    double *host = down(there, ld * n), *a = malloc(8 * (size_t)(m * n + 1));
    for (int64_t j = 0; j < n; j++) {
        memcpy(a + j * m, host + j * ld, 8 * (size_t)m);
        for (int64_t i = m; i < ld; i++)
            assert_true(isnan(host[i + j * ld]));
    }
    free(host);
    return a;
}

/* C in a larger array, of which nothing else is written; beta = 0 does not read it; both 0. */
static void dense_result(void **state) {
    (void)state;
    const int64_t m = extent[0], n = extent[1], ld = m + 3;
    for (int t = 0; t < 4; t++)
        for (int64_t cut = 0; cut <= B; cut += 8)
            for (int scale = 0; scale < 4; scale++) {
                const char ta = "NT"[t % 2], tb = "NT"[t / 2];
                const double alpha = scale % 2 ? 0 : 0.7, beta = scale > 1 ? 0 : -1.5;
                tlr_options o = small_options(1e-3);
                o.cut = cut;
                three x = three_new(ta, tb, &o);
                double *c = in_larger(beta ? x.fc : NULL, m, n, ld);
                ok(tlr_gemm_dense(alpha, x.a, ta, x.b, tb, beta, c, ld));
                expect(&x, ta, tb, alpha, beta);
                double *got = out_of_larger(c, m, n, ld);
                assert_true(distance(got, x.fc, m * n) < 1e-12 * (1 + distance(x.fc, NULL, m * n)));
                be->release(ctx, c);
                free(got);
                three_free(&x);
            }
}

/* Both ways hold the tolerance, and not by keeping everything. */
static void compressed_result(void **state) {
    (void)state;
    const double tau = 1e-2;
    for (int t = 0; t < 4; t++)
        for (int way = 0; way < 2; way++)
            for (int scale = 0; scale < 3; scale++) {
                const char ta = "NT"[t % 2], tb = "NT"[t / 2];
                const double alpha = scale == 1 ? 0 : 0.7, beta = scale == 2 ? 0 : -1.5;
                tlr_options o = small_options(tau);
                tlr_stats s;
                o.cut = B;
                three x = three_new(ta, tb, &o);
                ok(tlr_gemm("AR"[way], alpha, x.a, ta, x.b, tb, beta, x.c));
                expect(&x, ta, tb, alpha, beta);
                double *got = expanded(x.c, extent[0], extent[1]);
                const double e = distance(got, x.fc, extent[0] * extent[1]);
                tlr_statistics(x.c, &s);
                /* each of 30 tiles to tau, once for each inner tile where they are recompressed */
                assert_true(e <= tau * sqrt(30) * (way ? 4 : 1));
                assert_true(s.mean < 0.6 * B && (alpha == 0 || e > 1e-3 * tau));
                free(got);
                three_free(&x);
            }
}

/* Dense tiles in one factor are fine for recompression, in both they are refused; so are sums that
 * need more columns than the cut. */
static void recompression_limits(void **state) {
    (void)state;
    tlr_options o = small_options(1e-3), few = o, none = o;
    o.cut = B;
    none.cut = 0;
    three x = three_new('N', 'T', &o), d = three_new('N', 'T', &none);
    double *before = expanded(x.c, extent[0], extent[1]);
    ok(tlr_gemm('R', 1, d.a, 'N', x.b, 'T', 0, x.c));
    ok(tlr_gemm('R', 1, x.a, 'N', d.b, 'T', 1, x.c));
    memset(x.fc, 0, sizeof(double) * (size_t)(extent[0] * extent[1]));
    expect(&x, 'N', 'T', 2, 0);
    double *got = expanded(x.c, extent[0], extent[1]);
    assert_true(distance(got, x.fc, extent[0] * extent[1]) <
                0.1 * distance(before, x.fc, extent[0] * extent[1]));
    assert_true(distance(got, x.fc, extent[0] * extent[1]) < 0.5);
    assert_int_equal(tlr_gemm('R', 1, d.a, 'N', d.b, 'T', 1, x.c), MOAO_NUMERIC);
    assert_int_equal(tlr_gemm('R', 1, x.a, 'N', x.b, 'T', 1, d.c), MOAO_INPUT);
    few.rank = 0;
    few.cut = 2;
    few.tau = 1;
    tlr *c = rectangle(&scattered, 0, side, 100, side + 1, &few);
    tlr_stats s;
    tlr_statistics(c, &s);
    status_clear();
    assert_int_equal(tlr_gemm('R', 100, x.a, 'N', x.b, 'T', 1, c),
                     s.dense ? MOAO_INPUT : MOAO_NUMERIC);
    assert_non_null(strstr(status_message(), "accumulate instead"));
    status_clear();
    free(before), free(got);
    tlr_close(c);
    three_free(&x), three_free(&d);
}

static void symmetric_dense(void **state) {
    (void)state;
    const int64_t m = extent[0], ld = m + 3;
    for (int64_t cut = 0; cut <= B; cut += B / 2)
        for (int scale = 0; scale < 4; scale++) {
            const double alpha = scale % 2 ? 0 : 0.7, beta = scale > 1 ? 0 : -1.5;
            tlr_options o = small_options(1e-3);
            o.cut = cut;
            tlr *a = rectangle(&scattered, 0, side, 100, side + 1, &o);
            double *f = expanded(a, m, extent[1]), *exact = dense(&scattered, 0, m, 0, m),
                   *c = in_larger(beta ? exact : NULL, m, m, ld);
            ok(tlr_syrk_dense(alpha, a, beta, c, ld));
            product_host('N', 'T', m, m, extent[1], alpha, f, m, f, m, beta, exact, m);
            double *got = out_of_larger(c, m, m, ld);
            for (int64_t j = 0; j < m; j++)
                assert_true(distance(got + j * (m + 1), exact + j * (m + 1), m - j) <
                            1e-12 * (1 + distance(exact, NULL, m * m)));
            be->release(ctx, c);
            free(f), free(exact), free(got);
            tlr_close(a);
        }
}

static void symmetric_compressed(void **state) {
    (void)state;
    const int64_t n = scattered.n;
    tlr_layout inner;
    tlr_options o = small_options(1e-2);
    tlr *c;
    ok(tlr_layout_plain(150, B, &inner));
    tlr *a = rectangle(&scattered, 0, &scattered.l, 100, &inner, &o);
    ok(tlr_build(be, ctx, &scattered.l, NULL, fill, &scattered, &o, &c));
    double *f = expanded(a, n, 150), *exact = expanded(c, n, n);
    ok(tlr_syrk(-0.01, a, 1, c));
    product_host('N', 'T', n, n, 150, -0.01, f, n, f, n, 1, exact, n);
    double *got = expanded(c, n, n);
    const double e = distance(got, exact, n * n);
    assert_true(e <= 1e-2 * (double)scattered.l.nt && e > 1e-5);
    free(f), free(exact), free(got);
    tlr_close(a), tlr_close(c);
    tlr_layout_free(&inner);
}

static void triangular_solve(void **state) {
    (void)state;
    const int64_t n = scattered.n, m = extent[0];
    const double one = 1, tau = 1e-3;
    tlr_options o = small_options(tau);
    tlr_source from = {.layout = &scattered.l, .fill = fill, .arg = &scattered};
    tlr *l;
    tlr *a = rectangle(&scattered, 0, side, 0, &scattered.l, &o);
    ok(tlr_factor(be, ctx, &from, 'L', &o, NULL, &l, NULL));
    double *fl = expanded(l, n, n), *fa = expanded(a, m, n);
    ok(backend_cpu.trsm(NULL, BACKEND_D, 'R', 'L', 'T', 'N', m, n, &one, fl, n, fa, m, NULL, 0));
    ok(tlr_trsm(l, a));
    double *got = expanded(a, m, n);
    const double e = distance(got, fa, m * n);
    /* tau a tile, carried on by L^-T */
    assert_true(e < 10 * tau * (double)scattered.l.nt / sqrt(scattered.nugget) && e > 0.1 * tau);
    free(fl), free(fa), free(got);
    tlr_close(a), tlr_close(l);
}

static void refused(void **state) {
    (void)state;
    const tlr_options o = small_options(1e-2);
    three x = three_new('N', 'N', &o);
    tlr *s;
    ok(tlr_build(be, ctx, &scattered.l, NULL, fill, &scattered, &o, &s));
    assert_int_equal(tlr_gemm('X', 1, x.a, 'N', x.b, 'N', 1, x.c), MOAO_INPUT);
    assert_int_equal(tlr_gemm('A', 1, x.a, 'T', x.b, 'N', 1, x.c), MOAO_INPUT);
    assert_int_equal(tlr_gemm('A', 1, x.a, 'N', x.b, 'N', 1, s), MOAO_INPUT);
    assert_int_equal(tlr_gemm('A', 1, s, 'N', x.b, 'N', 1, x.c), MOAO_INPUT);
    assert_int_equal(tlr_gemm_dense(1, x.a, 'N', x.b, 'N', 1, NULL, 1), MOAO_INPUT);
    assert_int_equal(tlr_syrk(1, x.a, 1, x.c), MOAO_INPUT);
    assert_int_equal(tlr_trsm(s, x.a), MOAO_INPUT);
    status_clear();
    tlr_close(s);
    three_free(&x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(dense_result, setup, teardown),
        cmocka_unit_test_setup_teardown(compressed_result, setup, teardown),
        cmocka_unit_test_setup_teardown(recompression_limits, setup, teardown),
        cmocka_unit_test_setup_teardown(symmetric_dense, setup, teardown),
        cmocka_unit_test_setup_teardown(symmetric_compressed, setup, teardown),
        cmocka_unit_test_setup_teardown(triangular_solve, setup, teardown),
        cmocka_unit_test_setup_teardown(refused, setup, teardown),
    };
    return run_on_backends(&(backend_tests){tests, sizeof tests / sizeof *tests, chosen, NULL});
}
