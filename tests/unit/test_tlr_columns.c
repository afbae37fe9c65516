/* Columns of a compressed factor that are kept in FP16: how much that changes a tile, how accurate
 * the factor is, solves by as many products as are asked for, copies. */
#include "support/tlr_factors.h"

enum { B = 32 };

/* Largest norm of a tile of (F - G) L_kk^T in the first block column, whose tiles come from the
 * same numbers in both factors: in the metric of the matrix, where columns are narrowed. */
static double worst_tile(const points *p, const tlr *l, const double *f, const double *g) {
    const int64_t n = p->n, *first = p->l.first;
    double worst = 0;
    for (int64_t i = 0; i < p->l.nt; i++)
        for (int64_t k = 0; k < 2; k++) {
            const int64_t rows = first[i + 1] - first[i], cols = first[k + 1] - first[k];
            double *d = malloc(sizeof *d * (size_t)(rows * cols)),
                   *e = malloc(sizeof *e * (size_t)(rows * cols));
            for (int64_t c = 0; c < cols; c++)
                for (int64_t r = 0; r < rows; r++)
                    d[r + c * rows] =
                        f[first[i] + r + (first[k] + c) * n] - g[first[i] + r + (first[k] + c) * n];
            product_host('N', 'T', rows, cols, cols, 1, d, rows, f + first[k] * (n + 1), n, 0, e,
                         rows);
            if (tlr_tile_at(l, i, k))
                worst = fmax(worst, distance(e, NULL, rows * cols));
            free(d), free(e);
        }
    return worst;
}

/* Columns that may be halves are: the factor is as accurate as without, wherever and by whatever
 * products it is made, and takes less memory. */
static void columns_as_fp16(void **state) {
    (void)state;
    const bool small = getenv("MOAO_TEST_SMALL") != NULL; /* an emulator */
    points p = points_new(small ? 200 : 450, B, TLR_KD);
    const int64_t n = p.n;
    const double tau = 3e-4;
    for (int k = small ? 3 : 0; k < 5; k++) {
        double *full[3], r[3];
        tlr_stats s[3];
        for (int h = 0; h < 2; h++) {
            tlr_options o = small_options(tau);
            o.fp32 = true;
            o.mixed = k >= 2;
            o.terms = k >= 3 ? 3 : 0;
            o.cut = k % 2 ? 8 : -1;
            o.fp16 = h == 1;
            tlr *l = factor(&p, variants[k == 4], &o), *other;
            tlr_statistics(l, &s[h]);
            full[h] = expanded(l, n, n);
            r[h] = residual(&p, l);
            if (h == 1) {
                const double worst = worst_tile(&p, l, full[0], full[1]);
                print_message("form %d: %d of %d columns, %d of %d dense tiles are halves, %.2f of "
                              "the memory; worst tile %.2f tau, residual %.2e, %.2e without\n",
                              k, (int)s[1].fp16, (int)s[1].columns, (int)s[1].dense_fp16,
                              (int)s[1].dense, s[1].bytes / s[0].bytes, worst / tau, r[1], r[0]);
                assert_true(worst < 2 * tau && worst > 1e-3 * tau);
                for (int c = 0; !o.terms && c < 3; c++)
                    assert_true(solve_error(l, full[1], n, "NTA"[c]) < (o.mixed ? 1e-5 : 1e-11));
                for (int c = 0; c < 15; c++) { /* whatever the factor was made with */
                    static const int terms[][2] = {{1, 0}, {2, 0}, {3, 0}, {3, 1}, {3, 2}};
                    static const double bound[] = {1e-3, 5e-4, 1e-6, 5e-4, 1e-6};
                    tlr_set_split(l, terms[c / 3][0], terms[c / 3][1]);
                    const double off = solve_error(l, full[1], n, "NTA"[c % 3]);
                    assert_true(off < bound[c / 3] && off > 0);
                }
                tlr_set_split(l, 0, 0); /* and back */
                assert_true(solve_error(l, full[1], n, 'A') < (o.mixed ? 1e-5 : 1e-11));
                ok(tlr_copy(l, 'N', &other));
                tlr_statistics(other, &s[2]);
                full[2] = expanded(other, n, n);
                assert_true(distance(full[1], full[2], n * n) <
                            1e-9 * distance(full[1], NULL, n * n));
                assert_true(s[2].fp16 == s[1].fp16 && s[2].bytes == s[1].bytes);
                tlr_close(other);
            }
            tlr_close(l);
        }
        assert_true(r[1] < (small ? 1.15 : 1.1) * r[0]);
        assert_true(s[0].fp16 == 0 && s[0].columns > 0);
        assert_true(s[1].fp16 > s[1].columns / 6 && s[1].fp16 < s[1].columns);
        assert_true(s[1].bytes < 0.97 * s[0].bytes); /* of so small tiles */
        for (int h = 0; h < 3; h++)
            free(full[h]);
    }
    points_free(&p);
}

/* Of a smaller tolerance fewer columns are narrowed: a tile changes by no more than twice that. */
static void columns_by_tolerance(void **state) {
    (void)state;
    points p = points_new(200, B, TLR_KD);
    const double tau[] = {3e-5, 1e-6};
    int64_t most = INT64_MAX;
    for (int k = 0; k < 2; k++) {
        double *full[2];
        tlr_stats s;
        for (int h = 0; h < 2; h++) {
            tlr_options o = small_options(tau[k]);
            o.fp32 = true;
            o.fp16 = h == 1;
            tlr *l = factor(&p, variants[0], &o);
            tlr_statistics(l, &s);
            full[h] = expanded(l, p.n, p.n);
            if (h == 1) {
                const double worst = worst_tile(&p, l, full[0], full[1]);
                print_message("tau %.0e: %d of %d columns, worst tile %.2f tau\n", tau[k],
                              (int)s.fp16, (int)s.columns, worst / tau[k]);
                assert_true(worst < 2 * tau[k] && worst > 1e-3 * tau[k]);
            }
            tlr_close(l);
        }
        assert_true(s.fp16 > 0 && s.fp16 < most);
        most = s.fp16;
        free(full[0]), free(full[1]);
    }
    points_free(&p);
}

/* Tiles wider than what a product of a solve takes at once, dense ones and others. */
static void wide_tiles(void **state) {
    (void)state;
    static const int terms[][2] = {{1, 0}, {2, 0}, {3, 1}, {3, 2}};
    static const double bound[] = {1e-3, 5e-4, 5e-4, 1e-6};
    if (getenv("MOAO_TEST_SMALL"))
        return;
    points p = points_new(530, 270, TLR_KD);
    tlr_options o = small_options(3e-3);
    o.fp32 = o.mixed = o.fp16 = true;
    o.terms = 3;
    o.width = 0;
    tlr *l = factor(&p, variants[0], &o);
    double *full = expanded(l, p.n, p.n);
    for (int c = 0; c < 12; c++) {
        tlr_set_split(l, terms[c / 3][0], terms[c / 3][1]);
        const double off = solve_error(l, full, p.n, "NTA"[c % 3]);
        assert_true(off < bound[c / 3] && off > 0);
    }
    tlr_close(l);
    free(full);
    points_free(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(columns_as_fp16),
                                       cmocka_unit_test(columns_by_tolerance),
                                       cmocka_unit_test(wide_tiles)};
    return run_on_backends(&(backend_tests){tests, sizeof tests / sizeof *tests, chosen, NULL});
}
