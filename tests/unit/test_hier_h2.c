/* H2 matrices against dense ones: the covariance of the QR/SVD paper's section 8 (jittered grid,
 * exponential kernel of length 0.1, leaves of 64, Chebyshev nodes), before and after compression.
 */
#include "support/hier_case.h"

static hier_options h2_options(backend_type t, int order, double eta) {
    return (hier_options){.kind = HIER_H2,
                          .type = t,
                          .leaf = 64,
                          .order = order,
                          .eta = eta,
                          .seed = 5,
                          .mean_split = order == 8};
}

/* Relative error of sampled rows in the Frobenius norm: rms error over rms entry. */
static double relative(format *f, const hier_source *s, int64_t n) {
    double rms, worst, *x = square_points(n), sum = 0;
    must(hier_check(f, s, 16, 3, &rms, &worst));
    for (int64_t i = 0; i < 16; i++)
        for (int64_t j = 0; j < n; j++) {
            const int64_t r = i * (n / 16);
            const double d = hypot(x[2 * r] - x[2 * j], x[2 * r + 1] - x[2 * j + 1]);
            sum += exp(-2 * d / 0.1);
        }
    free(x);
    return rms / sqrt(sum / (16 * (double)n));
}

static void test_products(void **state) {
    static const int64_t nvec[] = {1, 7, 70};
    (void)state;
    for (int64_t n = 0; n <= 1100; n = 3 * n + (n > 0 ? 150 : 30)) {
        double *x = square_points(n);
        hier_source s;
        format *f;
        must(hier_points_open(be, ctx, HIER_EXPONENTIAL, 0.5, 2, n, x, &s));
        const hier_options o = h2_options(BACKEND_D, 7, 0.8);
        must(hier_open(be, ctx, &s, &o, &f));
        double *a = dense_of(f, &s);
        for (int k = 0; k < (n > 500 ? 2 : 3); k++)
            for (int q = 0; q < 2; q++) {
                const double e = product_error(f, a, n, BACKEND_D, q ? 'R' : 'L', k % 2 ? 'T' : 'N',
                                               nvec[k], 1.5, k % 2 ? 0 : -0.5);
                if (!(e < 1e-5))
                    fail_msg("n = %d, %d vectors, side %d: error %g", (int)n, (int)nvec[k], q, e);
            }
        free(a), free(x);
        hier_close(f);
        hier_points_close(&s);
    }
}

/* Compression keeps the error at what was asked, with and without weights, full and sampled SVD,
 * and makes the low-rank part smaller; the dense part is not touched. */
static void test_compression(void **state) {
    static const struct {
        backend_type t;
        double tol, eta;
        char weights;
        int samples, order;
    } row[] = {
        {BACKEND_D, 1e-7, 1, 'N', 0, 8}, {BACKEND_D, 1e-7, 1, 'W', 0, 8},
        {BACKEND_D, 1e-4, 1, 'W', 0, 8}, {BACKEND_D, 1e-6, 1, 'W', 40, 8},
        {BACKEND_S, 1e-4, 1, 'W', 0, 6}, {BACKEND_D, 1e-7, 0.6, 'W', 0, 11},
    };
    (void)state;
    const int64_t n = small() ? 700 : 2048;
    double *x = square_points(n);
    hier_source s;
    must(hier_points_open(be, ctx, HIER_EXPONENTIAL, 0.1, 2, n, x, &s));
    for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
        const hier_options o = h2_options(row[k].t, row[k].order, row[k].eta);
        format *f;
        hier_info before, after;
        must(hier_open(be, ctx, &s, &o, &f));
        const double e0 = relative(f, &s, n);
        hier_describe(f, &before);
        must(hier_compress(f, row[k].tol, row[k].weights, row[k].samples));
        const double e1 = relative(f, &s, n);
        hier_describe(f, &after);
        print_message("%c %d x %d nodes, tol %.0e, weights %c, %d samples: error %.1e, then %.1e; "
                      "low rank part %.2f, "
                      "then %.2f MB (rank %d, largest %d); dense %.2f MB\n",
                      row[k].t == BACKEND_D ? 'D' : 'S', row[k].order, row[k].order, row[k].tol,
                      row[k].weights, row[k].samples, e0, e1,
                      1e-6 * (double)(before.bytes - before.bytes_dense_part),
                      1e-6 * (double)(after.bytes - after.bytes_dense_part), after.rank_mean,
                      after.rank_max, 1e-6 * (double)after.bytes_dense_part);
        assert_int_equal(before.bytes_dense_part, after.bytes_dense_part);
        /* singular values of the polynomials alone fall slowly: little is cut without weights */
        assert_true(after.bytes - after.bytes_dense_part <=
                    (before.bytes - before.bytes_dense_part) * (row[k].weights == 'W' ? 3 : 8) / 8);
        if (!(e1 <= e0 + row[k].tol))
            fail_msg("error %g after compression at %g, %g before", e1, row[k].tol, e0);
        hier_close(f);
    }
    hier_points_close(&s);
    free(x);
}

/* Bases from sampled entries: the error that was asked for, and smaller than by interpolation. */
static void test_sketched(void **state) {
    (void)state;
    const int64_t n = small() ? 600 : 1500;
    double *x = square_points(n), rms, worst;
    hier_source s;
    format *f;
    hier_info a, b;
    must(hier_points_open(be, ctx, HIER_EXPONENTIAL, 0.1, 2, n, x, &s));
    hier_options o = h2_options(BACKEND_D, 0, 1);
    o.tol = 1e-6;
    must(hier_open(be, ctx, &s, &o, &f));
    must(hier_check(f, &s, 16, 2, &rms, &worst));
    hier_describe(f, &a);
    assert_true(rms < 1e-6);
    assert_in_range(a.rank_max, 5, 40);
    must(hier_compress(f, 1e-6, 'W', 0));
    must(hier_check(f, &s, 16, 2, &rms, &worst));
    hier_describe(f, &b);
    print_message("rank %d, largest %d; %d, %d after compression; rms error %.1e\n", a.rank_mean,
                  a.rank_max, b.rank_mean, b.rank_max, rms);
    assert_true(rms < 1e-6);
    assert_true(b.bytes <= a.bytes);
    hier_close(f);
    o.rank = 4;
    assert_int_equal(hier_open(be, ctx, &s, &o, &f), MOAO_MEMORY);
    status_clear();
    hier_points_close(&s);
    free(x);
}

/* Two kernels at the same points: the sum is that of their dense matrices, before and after it is
 * compressed, which cuts the ranks that have added up; A - A is nothing. */
static void test_sums(void **state) {
    (void)state;
    const int64_t n = small() ? 500 : 700;
    double *x = square_points(n);
    hier_source s[2];
    format *f[2], *c;
    hier_info own, both, cut;
    const hier_options o = h2_options(BACKEND_D, 6, 1);
    for (int k = 0; k < 2; k++) {
        must(hier_points_open(be, ctx, k ? HIER_GAUSSIAN : HIER_EXPONENTIAL, 0.3, 2, n, x, s + k));
        must(hier_open(be, ctx, s + k, &o, f + k));
    }
    must(hier_compress(f[1], 1e-8, 'W', 0)); /* ranks of its own */
    double *a = dense_of(f[0], s), *b = dense_of(f[1], s + 1);
    for (int64_t e = 0; e < n * n; e++)
        b[e] = 2 * a[e] - 0.5 * b[e];
    hier_describe(f[0], &own);
    for (int k = 0; k < 2; k++) {
        must(hier_add(2, f[0], -0.5, f[1], k ? 1e-6 : 0, &c));
        hier_describe(c, k ? &cut : &both);
        const double e = product_error(c, b, n, BACKEND_D, k ? 'R' : 'L', 'N', 7, 1.5, -0.5);
        if (!(e < 2e-5))
            fail_msg("sum, compressed %d: error %g", k, e);
        hier_close(c);
    }
    assert_true(both.rank_mean > own.rank_mean && cut.rank_mean < both.rank_mean &&
                cut.bytes < both.bytes && both.bytes_dense_part == own.bytes_dense_part);
    must(hier_add(1, f[0], -1, f[0], 1e-6, &c));
    memset(b, 0, sizeof *b * (size_t)(n * n));
    assert_true(product_error(c, b, n, BACKEND_D, 'L', 'N', 3, 1, 0) < 1e-12);
    hier_close(c), hier_close(f[1]);
    const hier_options other = h2_options(BACKEND_D, 6, 0.7);
    must(hier_open(be, ctx, s + 1, &other, f + 1));
    assert_int_equal(hier_add(1, f[0], 1, f[1], 0, &c), MOAO_INPUT);
    assert_true(c == NULL && strstr(status_message(), "pairs of clusters"));
    status_clear();
    for (int k = 0; k < 2; k++)
        hier_close(f[k]), hier_points_close(s + k);
    free(a), free(b), free(x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_compression),
        cmocka_unit_test(test_sketched),
        cmocka_unit_test(test_sums),
    };
    return RUN_ON_BACKENDS(tests);
}
