/* The Cholesky factor by integers: backward error and that of native blocks, with residues above
 * the diagonal or not the same bits, what is above untouched, the first minor that is not positive,
 * NaN, columns that are formed as they are needed. */
#include "moao/integer_factor.h"
#include "support/matrix.h"

/* A(i, j) of a covariance of points on a line, ill-conditioned, with rows of different size. */
static double entry_of(int64_t i, int64_t j) {
    const double d = (double)(i - j) / 30, big = pow(10, (double)((i % 7) + (j % 7)) / 2);
    return (exp(-d * d / 2) + (i == j ? 1e-6 : 0)) * big;
}

static mat matrix_of(int64_t n, char part) {
    mat a = mat_new(BACKEND_D, n, n, n % 2 == 0 ? 4 : 3);
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < n; i++)
            if (lin_part(part, i, j))
                mat_set(&a, i, j, entry_of(i, j));
    mat_up(&a);
    return a;
}

/* Largest |A - L L'|_ij / sqrt(a_ii a_jj). */
static double backward(const mat *l) {
    double worst = 0;
    for (int64_t j = 0; j < l->n; j++)
        for (int64_t i = j; i < l->n; i++) {
            long double s = entry_of(i, j);
            for (int64_t k = 0; k <= j; k++)
                s -= (long double)creal(mat_get(l, i, k)) * creal(mat_get(l, j, k));
            worst = fmax(worst, fabs((double)s) / sqrt(entry_of(i, i) * entry_of(j, j)));
        }
    return worst;
}

/* The exponents of the rows stay on the device. */
static int64_t factor_for(mat *a, const integer_factor_options *o, int32_t *exponent) {
    const size_t bytes = integer_potrf_bytes(be, o);
    void *work = NULL;
    int64_t minor = -1;
    must(be->alloc(ctx, bytes, &work));
    must(integer_potrf(be, ctx, o, a->dev, a->ld, exponent, &minor, work, bytes));
    be->release(ctx, work);
    mat_down(a);
    return minor;
}

static int64_t factor(mat *a, const integer_factor_options *o) {
    int32_t *exponent = NULL;
    must(be->alloc(ctx, (size_t)a->n * sizeof *exponent, (void **)&exponent));
    const int64_t minor = factor_for(a, o, exponent);
    be->release(ctx, exponent);
    return minor;
}

/* The same blocks by potrf, trsm and gemm in double precision. */
static double native(int64_t n, int64_t block) {
    const size_t factor = be->workspace(BACKEND_POTRF, BACKEND_D, block, block),
                 solve = be->workspace(BACKEND_TRSM, BACKEND_D, n, block),
                 bytes = factor > solve ? factor : solve;
    const double one = 1, minus = -1;
    mat a = matrix_of(n, 'A');
    void *work = NULL;
    int *info = NULL;
    must(be->alloc(ctx, bytes, &work));
    must(be->alloc(ctx, sizeof *info, (void **)&info));
    for (int64_t j = 0; j < n; j += block) {
        const int64_t cols = n - j < block ? n - j : block, below = n - j - cols;
        double *at = (double *)a.dev + j + j * a.ld;
        must(be->potrf(ctx, BACKEND_D, 'L', cols, at, a.ld, info, work, bytes));
        must(be->trsm(ctx, BACKEND_D, 'R', 'L', 'T', 'N', below, cols, &one, at, a.ld, at + cols,
                      a.ld, work, bytes));
        must(be->gemm(ctx, BACKEND_D, 'N', 'T', below, below, cols, &minus, at + cols, a.ld,
                      at + cols, a.ld, &one, at + cols + cols * a.ld, a.ld, NULL, 0));
    }
    mat_down(&a);
    be->release(ctx, work), be->release(ctx, info);
    const double e = backward(&a);
    mat_free(&a);
    return e;
}

static void check_factor(int64_t n, int64_t block) {
    integer_factor_options o = integer_factor_defaults(n, false);
    mat a = matrix_of(n, 'L'), b = matrix_of(n, 'L');
    o.block = block;
    assert_int_equal(factor(&a, &o), 0);
    assert_true(mat_untouched(&a, 'L'));
    const double ours = backward(&a), theirs = native(n, block);
    if (!(ours <= 3 * theirs + 2 * DBL_EPSILON))
        fail_msg("order %d: backward error %.2e, of native blocks %.2e", (int)n, ours, theirs);
    if (b.ld % 2 == 0) { /* residues above the diagonal: the same bits */
        o.above = true;
        assert_true(n <= 2 * block || integer_potrf_bytes(be, &o) <
                                          integer_potrf_bytes(be, &(integer_factor_options){
                                                                      o.moduli, n, block, false}));
        assert_int_equal(factor(&b, &o), 0);
        for (int64_t j = 0; j < n; j++)
            assert_memory_equal(b.host + (size_t)(j + j * b.ld) * 8,
                                a.host + (size_t)(j + j * a.ld) * 8, (size_t)(n - j) * 8);
    }
    mat_free(&a), mat_free(&b);
}

static void test_factor(void **state) {
    (void)state;
    check_factor(1, 16);
    check_factor(40, 64);
    check_factor(96, 32);
    check_factor(101, 16);
    check_factor(106, 48); /* the last block row is no multiple of 16 */
    if (!small())
        check_factor(400, 64);
}

/* Fewer moduli: an error as large as they allow, and not much smaller. */
static void test_fewer(void **state) {
    enum { N = 160 };
    (void)state;
    for (int moduli = 9; moduli <= 13; moduli += 2) {
        integer_factor_options o = {moduli, N, 32, true};
        mat a = matrix_of(N, 'L');
        assert_int_equal(factor(&a, &o), 0);
        const double e = backward(&a), bound = integer_error(moduli, N);
        assert_true(e <= bound + 3 * native(N, 32));
        assert_true(moduli > 11 || e > 1e-3 * bound);
        mat_free(&a);
    }
}

static int64_t minor_with(int64_t at, double x) {
    integer_factor_options o = integer_factor_defaults(96, true);
    mat a = matrix_of(96, 'L');
    o.block = 32;
    mat_set(&a, at, at, x);
    mat_up(&a);
    const int64_t minor = factor(&a, &o);
    mat_free(&a);
    return minor;
}

static void test_minor(void **state) {
    (void)state;
    assert_int_equal(minor_with(0, -1), 1);
    assert_int_equal(minor_with(40, 0), 41);
    assert_int_equal(minor_with(70, (double)NAN), 71);
    assert_int_equal(minor_with(95, -3), 96);
    assert_int_equal(minor_with(50, 1e-9), 51); /* positive, but not the minor */
}

/* A NaN off the diagonal reaches the pivot of its row. */
static void test_nan(void **state) {
    integer_factor_options o = integer_factor_defaults(96, true);
    mat a = matrix_of(96, 'L');
    (void)state;
    o.block = 32;
    mat_set(&a, 77, 5, (double)NAN);
    mat_up(&a);
    assert_int_equal(factor(&a, &o), 78);
    mat_free(&a);
}

/* Columns that are formed one block after the other: the diagonal and NaN at first. */
typedef struct {
    const mat *from, *to;
    backend_ctx *ctx; /* of another stream */
    int64_t next, block, fails_at;
} columns_made;

static status form(void *of, int64_t j, int64_t n) {
    columns_made *c = of;
    const int64_t d = sizeof(double), size = c->to->n;
    assert_int_equal(j, c->next);
    assert_int_equal(n, size - j < c->block ? size - j : c->block);
    if (j == c->fails_at)
        return status_fail(MOAO_INPUT, "column %d", (int)j);
    c->next += n;
    status st = j > 0 ? MOAO_OK : be->wait_for(c->ctx, ctx);
    for (int64_t i = j; i < j + n && st == MOAO_OK; i++)
        st = be->copy(c->ctx, (double *)c->to->dev + i + i * c->to->ld, (size - i) * d,
                      (const double *)c->from->dev + i + i * c->from->ld, (size - i) * d,
                      (size - i) * d, 1);
    return st == MOAO_OK ? be->wait_for(ctx, c->ctx) : st;
}

static void check_columns(int64_t n, int64_t block, bool above, int64_t fails_at) {
    integer_factor_options o = integer_factor_defaults(n, above);
    mat whole = matrix_of(n, 'L'), from = matrix_of(n, 'L'), a = matrix_of(n, 'L');
    columns_made made = {.from = &from, .to = &a, .block = block, .fails_at = fails_at};
    const integer_columns columns = {form, &made};
    int32_t *exponent = NULL;
    void *work = NULL;
    int64_t minor = -1;
    o.block = block;
    const size_t bytes = integer_potrf_bytes(be, &o);
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = j + 1; i < n; i++)
            mat_set(&a, i, j, (double)NAN);
    mat_up(&a);
    must(be->open_low_priority(ctx, &made.ctx));
    must(be->alloc(ctx, (size_t)n * sizeof *exponent, (void **)&exponent));
    must(be->alloc(ctx, bytes, &work));
    const status st =
        integer_potrf_columns(be, ctx, &o, &columns, a.dev, a.ld, exponent, &minor, work, bytes);
    must(be->sync(made.ctx));
    must(be->sync(ctx));
    mat_down(&a);
    if (fails_at >= 0) {
        assert_int_equal(st, MOAO_INPUT);
        status_clear();
    } else {
        must(st);
        assert_int_equal(minor, 0);
        assert_int_equal(made.next, n);
        assert_int_equal(factor(&whole, &o), 0);
        for (int64_t j = 0; j < n; j++)
            assert_memory_equal(a.host + (size_t)(j + j * a.ld) * 8,
                                whole.host + (size_t)(j + j * whole.ld) * 8, (size_t)(n - j) * 8);
    }
    assert_true(above || mat_untouched(&a, 'L'));
    be->close(made.ctx);
    be->release(ctx, work), be->release(ctx, exponent);
    mat_free(&whole), mat_free(&from), mat_free(&a);
}

static void test_columns(void **state) {
    (void)state;
    check_columns(40, 64, false, -1);
    check_columns(101, 32, false, -1);
    check_columns(96, 32, true, -1);
    check_columns(96, 32, true, 64);
}

/* Largest |W L L' - B|_ij / (|w_i| sqrt(a_jj)) up to the norms' growth. */
static double residual_of(const mat *w, const mat *b) {
    double worst = 0;
    for (int64_t i = 0; i < w->m; i++) {
        double norm = 0;
        for (int64_t k = 0; k < w->n; k++)
            norm += fabs(creal(mat_get(w, i, k))) * sqrt(entry_of(k, k));
        for (int64_t j = 0; j < w->n; j++) {
            long double s = -creal(mat_get(b, i, j));
            for (int64_t k = 0; k < w->n; k++)
                s += (long double)creal(mat_get(w, i, k)) * entry_of(k, j);
            worst = fmax(worst, fabs((double)s) / (norm * sqrt(entry_of(j, j))));
        }
    }
    return worst;
}

/* Rows of two blocks in one call: as accurate as two calls of trsm, and with the bits of each by
 * itself. */
static void check_solve(int64_t n, int64_t block, int64_t r0, int64_t r1) {
    integer_factor_options o = integer_factor_defaults(n, false);
    mat l = matrix_of(n, 'L'), b[2], w[2], v = mat_new(BACKEND_D, r0, n, 2);
    const double one = 1;
    void *work = NULL;
    int32_t *exponent = NULL;
    o.block = block;
    must(be->alloc(ctx, (size_t)n * sizeof *exponent, (void **)&exponent));
    assert_int_equal(factor_for(&l, &o, exponent), 0);
    for (int i = 0; i < 2; i++) {
        b[i] = mat_new(BACKEND_D, i == 0 ? r0 : r1, n, 2), w[i] = mat_new(BACKEND_D, b[i].m, n, 2);
        mat_fill(&b[i], 'A');
        memcpy(w[i].host, b[i].host, b[i].bytes);
        mat_up(&w[i]);
    }
    memcpy(v.host, b[0].host, b[0].bytes);
    mat_up(&v);
    const size_t bytes = integer_solve_bytes(be, &o, r0 > r1 ? r0 : r1);
    const integer_solve_rows rows[] = {{r0, w[0].dev, w[0].ld}, {r1, w[1].dev, w[1].ld}},
                             alone = {r0, v.dev, v.ld};
    must(be->alloc(ctx, bytes, &work));
    must(integer_solve(be, ctx, &o, l.dev, l.ld, exponent, 2, rows, work, bytes));
    must(integer_solve(be, ctx, &o, l.dev, l.ld, exponent, 1, &alone, work, bytes));
    be->release(ctx, work);
    mat_down(&w[0]), mat_down(&w[1]), mat_down(&v);
    assert_true(mat_untouched(&w[0], 'A') && mat_untouched(&w[1], 'A'));
    assert_memory_equal(w[0].host, v.host, v.bytes);
    memcpy(v.host, b[0].host, b[0].bytes);
    mat_up(&v);
    const size_t lwork = be->workspace(BACKEND_TRSM, BACKEND_D, r0, n);
    must(be->alloc(ctx, lwork, &work));
    for (int pass = 0; pass < 2; pass++)
        must(be->trsm(ctx, BACKEND_D, 'R', 'L', pass == 0 ? 'T' : 'N', 'N', r0, n, &one, l.dev,
                      l.ld, v.dev, v.ld, work, lwork));
    be->release(ctx, work);
    mat_down(&v);
    const double ours = residual_of(&w[0], &b[0]), theirs = residual_of(&v, &b[0]);
    if (!(ours <= 2 * theirs + DBL_EPSILON) || !(residual_of(&w[1], &b[1]) < 1e-12))
        fail_msg("order %d: residual %.2e, of trsm %.2e", (int)n, ours, theirs);
    for (int i = 0; i < 2; i++)
        mat_free(&b[i]), mat_free(&w[i]);
    be->release(ctx, exponent);
    mat_free(&l), mat_free(&v);
}

static void test_solve(void **state) {
    (void)state;
    check_solve(40, 64, 5, 17);
    check_solve(101, 16, 7, 1);
    check_solve(96, 32, 20, 33);
}

/* W by a factor's rows and so many moduli; its residual. */
static double residual_by(int moduli, const mat *l, const integer_factor_options *of,
                          const int32_t *exponent) {
    const int64_t n = of->n, bytes = n * (int64_t)sizeof *exponent;
    integer_factor_options o = *of;
    mat b = mat_new(BACKEND_D, 9, n, 2), w = mat_new(BACKEND_D, 9, n, 2);
    int32_t *own = NULL;
    void *work = NULL;
    o.moduli = moduli;
    mat_fill(&b, 'A');
    memcpy(w.host, b.host, b.bytes);
    mat_up(&w);
    const integer_solve_rows rows = {9, w.dev, w.ld};
    const size_t lwork = integer_solve_bytes(be, &o, 9);
    must(be->alloc(ctx, (size_t)bytes, (void **)&own));
    must(be->alloc(ctx, lwork, &work));
    must(be->copy(ctx, own, bytes, exponent, bytes, bytes, 1));
    must(integer_exponents(be, ctx, of, moduli, own));
    must(integer_solve(be, ctx, &o, l->dev, l->ld, own, 1, &rows, work, lwork));
    mat_down(&w);
    const double e = residual_of(&w, &b);
    be->release(ctx, own), be->release(ctx, work);
    mat_free(&b), mat_free(&w);
    return e;
}

/* Triangles by fewer moduli than the factor: less accurate by what they allow, and no row is
 * marked. Exponents of marked rows stay. */
static void test_fewer_in_solves(void **state) {
    enum { N = 160 };
    integer_factor_options o = integer_factor_defaults(N, false);
    mat l = matrix_of(N, 'L');
    int32_t *exponent = NULL, host[N], bad[N];
    (void)state;
    o.block = 32;
    must(be->alloc(ctx, N * sizeof *exponent, (void **)&exponent));
    assert_int_equal(factor_for(&l, &o, exponent), 0);
    const double all = residual_by(14, &l, &o, exponent);
    for (int moduli = 9; moduli <= 12; moduli++) {
        const double e = residual_by(moduli, &l, &o, exponent), bound = integer_error(moduli, N);
        if (!(e <= 2 * all + 2 * bound && e > (moduli < 11 ? 1e-3 * bound : 0)))
            fail_msg("%d moduli: residual %.2e, by 14 %.2e, bound %.2e", moduli, e, all, bound);
    }
    for (int i = 0; i < N; i++)
        bad[i] = i % 2 == 0 ? INTEGER_BAD : 7;
    must(be->copy(ctx, exponent, sizeof bad, bad, sizeof bad, sizeof bad, 1));
    must(integer_exponents(be, ctx, &o, 10, exponent));
    must(be->copy(ctx, host, sizeof host, exponent, sizeof host, sizeof host, 1));
    must(be->sync(ctx));
    for (int i = 0; i < N; i++)
        assert_true(i % 2 == 0 ? host[i] == INTEGER_BAD : host[i] < 7 - 14 && host[i] >= 7 - 17);
    for (int moduli = 1; moduli <= 15; moduli += 14) {
        assert_int_equal(integer_exponents(be, ctx, &o, moduli, exponent), MOAO_INPUT);
        status_clear();
    }
    be->release(ctx, exponent);
    mat_free(&l);
}

/* Rows whose residues have to be converted anew: right-hand sides that grow by three decades a
 * block, that are zero up to the last block or in the first, of another size by 150 decades; and
 * one with a NaN, which marks itself alone. In room for one block of rows and for all. */
static void test_growing(void **state) {
    enum { N = 112, BLOCK = 16, ROWS = 6 };
    integer_factor_options o = integer_factor_defaults(N, false);
    mat l = matrix_of(N, 'L'), b = mat_new(BACKEND_D, ROWS, N, 1),
        w = mat_new(BACKEND_D, ROWS, N, 1);
    int32_t *exponent = NULL;
    (void)state;
    o.block = BLOCK;
    must(be->alloc(ctx, N * sizeof *exponent, (void **)&exponent));
    assert_int_equal(factor_for(&l, &o, exponent), 0);
    for (int64_t j = 0; j < N; j++)
        for (int64_t i = 0; i < ROWS; i++) {
            const double x = sin((double)(3 * i + 7 * j + 1)) * sqrt(entry_of(j, j));
            const int64_t k = j / BLOCK;
            mat_set(&b, i, j,
                    i == 0   ? x * pow(1e3, (double)k)
                    : i == 1 ? (j < N - 5 ? 0 : x)
                    : i == 2 ? (k == 0 ? 0 : x)
                    : i == 3 ? x * (k < 3 ? 1e-75 : 1e75)
                    : i == 4 ? (j == 40 ? (double)NAN : x)
                             : x);
        }
    for (int together = 1; together < 4; together += 2) {
        const size_t bytes = integer_solve_bytes(be, &o, ROWS) * (size_t)together;
        void *work = NULL;
        memcpy(w.host, b.host, b.bytes);
        mat_up(&w);
        const integer_solve_rows rows[] = {
            {2, w.dev, w.ld}, {3, (double *)w.dev + 2, w.ld}, {1, (double *)w.dev + 5, w.ld}};
        must(be->alloc(ctx, bytes, &work));
        must(integer_solve(be, ctx, &o, l.dev, l.ld, exponent, 3, rows, work, bytes));
        be->release(ctx, work);
        mat_down(&w);
        for (int64_t i = 0; i < ROWS; i++) {
            mat x = mat_new(BACKEND_D, 1, N, 0), y = mat_new(BACKEND_D, 1, N, 0);
            for (int64_t j = 0; j < N; j++)
                mat_set(&x, 0, j, mat_get(&w, i, j)), mat_set(&y, 0, j, mat_get(&b, i, j));
            const double error = residual_of(&x, &y);
            if (i == 4 ? !isnan(creal(mat_get(&x, 0, 0))) : !(error < 1e-14))
                fail_msg("row %d of %d together: residual %.1e", (int)i, together, error);
            mat_free(&x), mat_free(&y);
        }
    }
    be->release(ctx, exponent);
    mat_free(&l), mat_free(&b), mat_free(&w);
}

static void test_refused(void **state) {
    mat a = matrix_of(40, 'L');
    integer_factor_options good = {14, 40, 16, false}, o = good;
    int64_t minor;
    (void)state;
    for (int way = 0; way < 4; way++) {
        o = good;
        o.moduli = way == 0 ? 20 : 14;
        o.block = way == 1 ? 24 : 16;
        o.above = way == 2; /* with an odd leading dimension */
        assert_int_equal(integer_potrf(be, ctx, &o, a.dev, way == 2 ? 41 : a.ld, NULL, &minor, NULL,
                                       way == 3 ? 0 : (size_t)1 << 30),
                         MOAO_INPUT);
        status_clear();
    }
    mat_free(&a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_factor),  cmocka_unit_test(test_fewer),
        cmocka_unit_test(test_minor),   cmocka_unit_test(test_nan),
        cmocka_unit_test(test_columns), cmocka_unit_test(test_solve),
        cmocka_unit_test(test_growing), cmocka_unit_test(test_fewer_in_solves),
        cmocka_unit_test(test_refused),
    };
    return RUN_ON_BACKENDS(tests);
}
