/* Compressed forms of a dense matrix in one call (moao/from_dense.h): the same products, fewer
 * bytes; what is not symmetric or not finite is named. */
#include "moao/from_dense.h"
#include "support/tlr_case.h"

enum { COUNT = 600 };

static double *covariance(points *p, int64_t lda) {
    double *a = calloc((size_t)(lda * p->n), sizeof *a);
    for (int64_t j = 0; j < p->n; j++)
        for (int64_t i = 0; i < p->n; i++)
            a[i + j * lda] =
                exp(-hypot(p->x[i] - p->x[j], p->y[i] - p->y[j]) / 0.3) + 0.05 * (i == j);
    return a;
}

static void tiles(void **state) {
    points p = points_new(COUNT, 32, TLR_KD);
    double *a = covariance(&p, COUNT + 3);
    tlr_stats s;
    tlr *t;
    (void)state;
    ok(moao_tlr_from_dense(be, ctx, &p.l, a, COUNT + 3, &(tlr_options){.tau = 1e-4, .cut = -1},
                           &t));
    tlr_statistics(t, &s);
    assert_true(s.bytes < 0.9 * s.bytes_dense);
    double *all = expanded(t, COUNT, COUNT), square = 0;
    for (int64_t j = 0; j < COUNT; j++)
        for (int64_t i = 0; i < COUNT; i++)
            square += pow(all[i + j * COUNT] - a[p.l.perm[i] + p.l.perm[j] * (COUNT + 3)], 2);
    assert_true(square > 0 && sqrt(square) < 1e-4 * sqrt(2 * (double)s.tiles));
    tlr_close(t); /* from entries the same, bit for bit */
    ok(tlr_build(be, ctx, &p.l, NULL, fill, &p, &(tlr_options){.tau = 1e-4, .cut = -1}, &t));
    double *other = expanded(t, COUNT, COUNT);
    assert_memory_equal(all, other, sizeof *all * COUNT * COUNT);
    free(all), free(other), tlr_close(t);
    a[3 + 9 * (COUNT + 3)] += 1;
    assert_int_equal(
        moao_tlr_from_dense(be, ctx, &p.l, a, COUNT + 3, &(tlr_options){.tau = 1e-4}, &t),
        MOAO_INPUT);
    assert_non_null(strstr(status_message(), "not symmetric"));
    status_clear();
    a[3 + 9 * (COUNT + 3)] = NAN;
    assert_int_equal(
        moao_tlr_from_dense(be, ctx, &p.l, a, COUNT + 3, &(tlr_options){.tau = 1e-4}, &t),
        MOAO_NUMERIC);
    assert_non_null(strstr(status_message(), "(3, 9)"));
    assert_null(t);
    status_clear();
    free(a), points_free(&p);
}

/* exp(-|x - y|) of points on a line, with another factor below the diagonal where it is not
 * symmetric; in their order, or in any and with coordinates. */
static void hss(void **state) {
    enum { LD = COUNT + 1 };
    double *a = calloc(LD * COUNT, sizeof *a), at[COUNT], x[COUNT], y[COUNT];
    (void)state;
    for (int way = 0; way < 8; way++) {
        const bool symmetric = way & 1, ordered = way & 2;
        const backend_type type = way & 4 ? BACKEND_S : BACKEND_D;
        const double off = type == BACKEND_D ? 1e-7 : 1e-3;
        const hier_options o = {.type = type, .tol = off / 100, .lean = true};
        moao_hier *f;
        hier_info info;
        for (int i = 0; i < COUNT; i++)
            at[i] = 4 * (ordered ? (double)i / COUNT : uniform()), x[i] = sin(i);
        for (int j = 0; j < COUNT; j++)
            for (int i = 0; i < COUNT; i++)
                a[i + j * LD] = (symmetric || at[i] < at[j] ? 1 : 0.5) * exp(-fabs(at[i] - at[j]));
        ok(moao_hss_from_dense(be, ctx, COUNT, a, LD, ordered ? 0 : 1, ordered ? NULL : at, &o,
                               &f));
        hier_describe(f, &info);
        assert_true((double)info.bytes < 0.6 * (double)backend_size(type) * COUNT * COUNT);
        if (type == BACKEND_D) { /* y := A x */
            double turned[COUNT];
            const size_t lwork = hier_workspace(f, 'L', 1);
            for (int i = 0; i < COUNT; i++)
                turned[i] = x[info.order ? info.order[i] : i];
            double *dx = up(turned, COUNT), *dy = up(turned, COUNT);
            void *work;
            ok(be->alloc(ctx, lwork + 1, &work));
            ok(hier_apply(f, 'L', 'N', 'A', 1, 1, dx, COUNT, 0, dy, COUNT, work, lwork));
            double *hy = down(dy, COUNT);
            for (int i = 0; i < COUNT; i++)
                y[info.order ? info.order[i] : i] = hy[i];
            for (int i = 0; i < COUNT; i++) {
                double exact = 0;
                for (int j = 0; j < COUNT; j++)
                    exact += a[i + j * LD] * x[j];
                assert_true(fabs(y[i] - exact) < 100 * off);
            }
            free(hy), be->release(ctx, dx), be->release(ctx, dy), be->release(ctx, work);
        }
        moao_hier_close(f);
    }
    moao_hier *f;
    const hier_options o = {.type = BACKEND_D, .tol = 1e-6};
    assert_int_equal(moao_hss_from_dense(be, ctx, COUNT, a, 3, 0, NULL, &o, &f), MOAO_INPUT);
    status_clear();
    assert_int_equal(moao_hss_from_dense(be, ctx, COUNT, a, LD, 4, at, &o, &f), MOAO_INPUT);
    status_clear();
    at[5] = INFINITY;
    assert_int_equal(moao_hss_from_dense(be, ctx, COUNT, a, LD, 1, at, &o, &f), MOAO_NUMERIC);
    assert_non_null(strstr(status_message(), "row 5"));
    status_clear();
    free(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(tiles), cmocka_unit_test(hss)};
    return run_on_backends(&(backend_tests){tests, sizeof tests / sizeof *tests, chosen, NULL});
}
