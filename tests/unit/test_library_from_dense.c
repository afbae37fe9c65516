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

/* A system in one call, in the caller's order, by coordinates and without; each wrong argument. */
static void system_solved(void **state) {
    enum { LD = COUNT + 3, LDB = COUNT + 1 };
    points p = points_new(COUNT, 32, TLR_KD);
    double *a = covariance(&p, LD), *at = calloc(2 * COUNT, sizeof *at), x[2 * LDB], b[2 * LDB];
    (void)state;
    for (int i = 0; i < COUNT; i++)
        at[2 * i] = p.x[i], at[2 * i + 1] = p.y[i];
    for (int way = 0; way < 2; way++) {
        double worst = 0;
        for (int i = 0; i < 2 * LDB; i++)
            x[i] = sin(i), b[i] = i % LDB < COUNT ? 0 : -77;
        for (int64_t c = 0; c < 2; c++)
            for (int64_t j = 0; j < COUNT; j++)
                for (int64_t i = 0; i < COUNT; i++)
                    b[i + c * LDB] += a[i + j * LD] * x[j + c * LDB];
        ok(moao_tlr_posv(be, ctx, COUNT, 2, a, LD, way ? 2 : 0, way ? at : NULL, 1e-8, b, LDB));
        for (int i = 0; i < 2 * LDB; i++)
            if (i % LDB < COUNT)
                worst = fmax(worst, fabs(b[i] - x[i]));
            else
                assert_true(b[i] == -77);
        assert_true(worst < 1e-5);
    }
    const struct {
        int64_t n, nrhs, lda, ldb;
        int dim;
        double tau;
        const char *text;
    } bad[] = {{-1, 1, 9, 9, 0, 1, "argument 3 (n) is -1, at least 0"},
               {5, -2, 9, 9, 0, 1, "argument 4 (nrhs) is -2, at least 0"},
               {5, 1, 3, 9, 0, 1, "argument 6 (lda) is 3, at least n"},
               {5, 1, 9, 9, 4, 1, "argument 7 (dim) is 4, 0 to 3"},
               {5, 1, 9, 9, 2, 1, "argument 8 (at) is NULL with dim 2"},
               {5, 1, 9, 9, 0, 0, "argument 9 (tau) is 0, a positive number"},
               {5, 1, 9, 4, 0, 1, "argument 11 (ldb) is 4, at least n"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(moao_tlr_posv(be, ctx, bad[i].n, bad[i].nrhs, a, bad[i].lda, bad[i].dim,
                                       NULL, bad[i].tau, b, bad[i].ldb),
                         MOAO_INPUT);
        if (!strstr(status_message(), bad[i].text))
            fail_msg("\"%s\" without \"%s\"", status_message(), bad[i].text);
        status_clear();
    }
    a[7 + 7 * LD] = -1; /* not positive definite: B stays */
    const double before = b[0];
    assert_int_equal(moao_tlr_posv(be, ctx, COUNT, 1, a, LD, 0, NULL, 1e-8, b, LDB), MOAO_NUMERIC);
    assert_true(b[0] == before);
    status_clear();
    free(a), free(at), points_free(&p);
}

/* The factor of a matrix that is there; of a factor, or a rectangular matrix: refused. */
static void factor_of(void **state) {
    points p = points_new(COUNT, 32, TLR_KD);
    double *a = covariance(&p, COUNT), det, want = 0;
    tlr *t, *l, *none;
    (void)state;
    ok(moao_tlr_from_dense(be, ctx, &p.l, a, COUNT, &(tlr_options){.tau = 1e-9, .cut = -1}, &t));
    ok(moao_tlr_potrf(t, &l));
    ok(tlr_logdet(l, &det));
    for (int64_t k = 0; k < COUNT; k++) { /* by elimination */
        want += log(a[k * (COUNT + 1)]);
        for (int64_t j = k + 1; j < COUNT; j++)
            for (int64_t i = j; i < COUNT; i++)
                a[i + j * COUNT] -= a[i + k * COUNT] * a[j + k * COUNT] / a[k * (COUNT + 1)];
    }
    assert_true(fabs(det - want) < 1e-5);
    assert_int_equal(moao_tlr_potrf(l, &none), MOAO_INPUT);
    assert_non_null(strstr(status_message(), "argument 1 (a) is a factor"));
    assert_null(none);
    status_clear();
    assert_int_equal(moao_tlr_potrf(NULL, &none), MOAO_INPUT);
    status_clear();
    tlr_close(t), tlr_close(l), free(a), points_free(&p);
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(tiles), cmocka_unit_test(system_solved),
                                       cmocka_unit_test(factor_of), cmocka_unit_test(hss)};
    return run_on_backends(&(backend_tests){tests, sizeof tests / sizeof *tests, chosen, NULL});
}
