/* HSS matrices against dense ones: the kernel 1 / (x - y) of the HSS paper and covariances of
 * points in a square; products from either side, accuracy, solves, what is refused. */
#include "support/formats_case.h"

static format_options hss_options(double tol, int leaf) {
    return (format_options){.kind = FORMAT_HSS, .type = BACKEND_D, .tol = tol, .leaf = leaf};
}

/* Every side and transposition, few and many vectors, odd sizes. */
static void test_products(void **state) {
    static const int64_t nvec[] = {1, 7, 33, 70};
    (void)state;
    for (int64_t n = 0; n <= 331; n = 2 * n + (n > 0 ? 41 : 1)) {
        double *x = line_points(n);
        format_source s;
        format *f;
        must(format_points_open(be, ctx, FORMATS_CAUCHY, 1, 1, n, x, &s));
        const format_options o = hss_options(1e-9, 24);
        must(format_open(be, ctx, &s, &o, &f));
        double *a = dense_of(f, &s);
        for (size_t k = 0; k < sizeof nvec / sizeof *nvec; k++)
            for (int q = 0; q < 4; q++) {
                const double e = product_error(f, a, n, BACKEND_D, q & 1 ? 'R' : 'L',
                                               q & 2 ? 'T' : 'N', nvec[k], 1.5, k % 2 ? 0 : -0.5);
                if (!(e < 1e-8))
                    fail_msg("n = %d, %d vectors, case %d: error %g", (int)n, (int)nvec[k], q, e);
            }
        free(a), free(x);
        format_close(f);
        format_points_close(&s);
    }
}

/* The paper's problem: relative error of a product at most 1e-7, and the ranks it prints (21). */
static void test_paper(void **state) {
    (void)state;
    const int64_t n = small() ? 500 : 5000;
    double *x = line_points(n), rms, worst;
    format_source s;
    format *f;
    format_info info;
    must(format_points_open(be, ctx, FORMATS_CAUCHY, 1, 1, n, x, &s));
    const format_options o = hss_options(1e-7 * sqrt((double)n), 0);
    must(format_open(be, ctx, &s, &o, &f));
    must(format_check(f, &s, 8, 5, &rms, &worst));
    format_describe(f, &info);
    print_message("n = %d: %d levels, rank %d (largest %d), rms error %.1e, worst %.1e\n", (int)n,
                  info.levels, info.rank_mean, info.rank_max, rms, worst);
    /* rms of an entry is about 0.9 sqrt(n) */
    assert_true(rms < 1e-7 * 0.9 * sqrt((double)n));
    assert_true(rms > 0);
    assert_in_range(info.rank_max, 8, 40);
    format_close(f);
    format_points_close(&s);
    free(x);
}

/* Solves against the dense matrix: |A x - b| / (|A| |x|), for several right-hand sides, both ways.
 */
static void test_solve(void **state) {
    (void)state;
    for (int64_t n = 1; n <= 700; n = 4 * n + 9)
        for (int kind = 0; kind < 2; kind++) {
            double *x = kind ? square_points(n) : line_points(n);
            format_source s;
            format *f;
            must(format_points_open(be, ctx, kind ? FORMATS_EXPONENTIAL : FORMATS_CAUCHY, 0.3,
                                    kind ? 2 : 1, n, x, &s));
            const format_options o = hss_options(1e-9, 40);
            must(format_open(be, ctx, &s, &o, &f));
            double *a = dense_of(f, &s);
            const double shift = kind ? 0.25 : 0;
            must(format_factor(f, shift));
            for (int t = 0; t < 2; t++) {
                const int64_t nrhs = t ? 5 : 33, ld = n + 2;
                const size_t bytes = 8 * (size_t)(ld * nrhs),
                             lwork = format_solve_workspace(f, nrhs);
                double *b = random_host(BACKEND_D, ld, nrhs, 3), *y = malloc(bytes);
                void *db = device_copy(b, bytes), *work = poison(lwork);
                must(format_solve(f, t ? 'T' : 'N', nrhs, db, ld, work, lwork));
                to_host(y, db, bytes);
                double worst = 0, size = 0, largest = 0;
                for (int64_t j = 0; j < nrhs; j++)
                    for (int64_t i = 0; i < n; i++) {
                        double r = shift * y[i + j * ld] - b[i + j * ld], row = 0;
                        for (int64_t k = 0; k < n; k++) {
                            const double e = t ? a[k + i * n] : a[i + k * n];
                            r += e * y[k + j * ld], row += fabs(e);
                        }
                        worst = fabs(r) <= worst ? worst : fabs(r);
                        size = fmax(size, row), largest = fmax(largest, fabs(y[i + j * ld]));
                    }
                if (!(worst <= 1e-8 * size * largest))
                    fail_msg("n = %d, kernel %d, %c: residual %g of %g", (int)n, kind,
                             t ? 'T' : 'N', worst, size * largest);
                be->release(ctx, db), be->release(ctx, work);
                free(b), free(y);
            }
            free(a), free(x);
            format_close(f);
            format_points_close(&s);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_paper),
        cmocka_unit_test(test_solve),
    };
    return RUN_ON_BACKENDS(tests);
}
