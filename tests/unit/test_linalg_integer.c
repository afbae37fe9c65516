/* Products by integers: against sums in extended precision within their bound and against dgemm;
 * the same bits however a product is divided; NaN, infinities, zeros, 300 decades, subnormal
 * numbers; planted errors. */
#include "linalg/integer/integer_constants.h"
#include "moao/backend_integer.h"
#include "support/matrix.h"

typedef struct { /* rows of numbers, and their residues */
    mat x;       /* trans N: m x k, T: k x m */
    char trans;
    int64_t m, k;
    int8_t *r;
    integer_rows rows;
    int32_t *inner;
    int sign;
} operand;

static double operand_at(const operand *o, int64_t i, int64_t l) {
    return creal(o->trans == 'N' ? mat_get(&o->x, i, l) : mat_get(&o->x, l, i));
}

static void operand_set(operand *o, int64_t i, int64_t l, double x) {
    if (o->trans == 'N')
        mat_set(&o->x, i, l, x);
    else
        mat_set(&o->x, l, i, x);
}

static operand operand_new(int moduli, char trans, int64_t m, int64_t k) {
    const bool plain = trans == 'N';
    operand o = {
        .x = mat_new(BACKEND_D, plain ? m : k, plain ? k : m, 3), .trans = trans, .m = m, .k = k};
    int32_t *exponent = NULL;
    must(be->alloc(ctx, integer_bytes(moduli, m, k), (void **)&o.r));
    must(be->alloc(ctx, (size_t)m * sizeof *exponent, (void **)&exponent));
    o.rows = integer_plain(moduli, m, k, o.r, exponent);
    for (int64_t i = 0; i < m; i++) /* over three decades */
        for (int64_t l = 0; l < k; l++)
            operand_set(&o, i, l, lin_random() * pow(10, 3 * lin_random()));
    return o;
}

static void operand_free(operand *o) {
    mat_free(&o->x);
    be->release(ctx, o->r);
    be->release(ctx, o->rows.exponent);
}

static void *workspace_of(size_t bytes) {
    void *p = NULL;
    must(be->alloc(ctx, bytes, &p));
    return p;
}

static integer_matrix matrix_of(const operand *o) {
    return (integer_matrix){o->trans, o->m, o->k, o->x.dev, o->x.ld, o->inner, o->sign, NULL};
}

/* Residues of the numbers as they are now. */
static void operand_convert(operand *o, int moduli) {
    void *work = workspace_of((size_t)(16 * o->m));
    mat_up(&o->x);
    const integer_matrix x = matrix_of(o);
    must(be->integer->scale(ctx, moduli, o->k, &x, o->rows.exponent, work, (size_t)(16 * o->m)));
    must(be->integer->convert(ctx, moduli, &x, &o->rows));
    must(be->sync(ctx));
    be->release(ctx, work);
}

static integer_product product_of(int moduli, const operand *a, const operand *b, const mat *c) {
    return (integer_product){moduli, 'A',     a->m,    b->m,   a->k,  1,
                             0,      a->rows, b->rows, c->dev, c->ld, 0};
}

static void multiply(const integer_product *p, size_t lwork) {
    void *work = workspace_of(lwork);
    must(be->integer->gemm(ctx, p, work, lwork));
    must(be->sync(ctx));
    be->release(ctx, work);
}

static size_t usual(const integer_product *p) {
    return be->integer->workspace(p->moduli, p->m, p->n);
}

static mat result_of(int64_t m, int64_t n) {
    mat c = mat_new(BACKEND_D, m, n, 3);
    mat_up(&c); /* NaN, which beta = 0 must not read */
    return c;
}

static double norm_of(const operand *o, int64_t i) {
    double s = 0;
    for (int64_t l = 0; l < o->k; l++)
        s = hypot(s, operand_at(o, i, l));
    return s;
}

static long double exact_of(const operand *a, const operand *b, int64_t i, int64_t j) {
    long double s = 0;
    for (int64_t l = 0; l < a->k; l++)
        s += (long double)operand_at(a, i, l) * operand_at(b, j, l);
    return s;
}

/* Largest error of C = A B' in units of |a_i| |b_j|. */
static double error_of(const mat *c, const operand *a, const operand *b) {
    double worst = 0;
    for (int64_t j = 0; j < b->m; j++)
        for (int64_t i = 0; i < a->m; i++) {
            const double x = creal(mat_get(c, i, j));
            const double e = fabs((double)(x - exact_of(a, b, i, j)));
            worst = fmax(worst, e / (norm_of(a, i) * norm_of(b, j)));
            assert_false(isnan(x));
        }
    return worst;
}

static void test_residues(void **state) {
    (void)state;
    for (int n = 2; n <= INTEGER_MODULI; n++) {
        const integer_constants s = integer_constants_of(n);
        for (int t = 0; t < n; t++)
            for (int k = 0; k < 2000; k++) {
                const int64_t x =
                    k < 8 ? (int64_t[]){0, INT32_MAX, INT32_MIN, 128, -128, 127, -127, 1}[k]
                          : (int64_t)(lin_random() * INT32_MAX);
                const int64_t v = (int64_t)(lin_random() * 0x1p58);
                const int r = integer_reduce((int)x, s.p[t], s.magic[t]);
                const int q = integer_residue(v, s.p[t], s.magic[t], s.w20[t], s.w40[t]);
                assert_int_equal((x - r) % s.p[t], 0);
                assert_int_equal((v - q) % s.p[t], 0);
                assert_true(r >= -(s.p[t] / 2) && r <= (s.p[t] - 1) / 2);
                assert_true(q >= -(s.p[t] / 2) && q <= (s.p[t] - 1) / 2);
            }
    }
}

/* 2^53 is kept by 14 moduli; the bound falls with each, and the choice is the first that meets it.
 */
static void test_moduli(void **state) {
    (void)state;
    assert_int_equal(integer_moduli(51200, 0), 14);
    assert_int_equal(integer_moduli(51200, 1e-30), 0);
    assert_int_equal(integer_moduli(-1, 0), 0);
    for (int n = 3; n <= INTEGER_MODULI; n++) {
        const double e = integer_error(n, 4096);
        assert_true(e < integer_error(n - 1, 4096));
        assert_int_equal(integer_moduli(4096, e), n);
    }
    assert_true(isnan(integer_error(16, 10)) && isnan(integer_error(14, INTEGER_LONGEST + 1)));
}

static void check_accuracy(int moduli, char ta, char tb, int64_t m, int64_t n, int64_t k) {
    operand a = operand_new(moduli, ta, m, k), b = operand_new(moduli, tb, n, k);
    mat c = result_of(m, n), d = result_of(m, n);
    const double one = 1, none = 0, bound = integer_error(moduli, k);
    operand_convert(&a, moduli), operand_convert(&b, moduli);
    integer_product p = product_of(moduli, &a, &b, &c);
    multiply(&p, usual(&p));
    mat_down(&c);
    assert_true(mat_untouched(&c, 'A'));
    const double error = error_of(&c, &a, &b);
    if (error > bound)
        fail_msg("%d moduli, %d x %d x %d: error %.2e, bound %.2e", moduli, (int)m, (int)n, (int)k,
                 error, bound);
    must(be->gemm(ctx, BACKEND_D, ta, tb == 'N' ? 'T' : 'N', m, n, k, &one, a.x.dev, a.x.ld,
                  b.x.dev, b.x.ld, &none, d.dev, d.ld, NULL, 0));
    mat_down(&d);
    if (moduli == 14) /* as exact as double precision */
        assert_true(error <= 2 * error_of(&d, &a, &b) + 2 * DBL_EPSILON);
    mat_free(&c), mat_free(&d), operand_free(&a), operand_free(&b);
}

static void test_accuracy(void **state) {
    (void)state;
    for (int moduli = 4; moduli <= INTEGER_MODULI; moduli++)
        check_accuracy(moduli, 'N', 'N', 9, 5, 70);
    check_accuracy(14, 'N', 'N', 1, 1, 1);
    check_accuracy(14, 'N', 'T', 3, 40, 17); /* m < n */
    check_accuracy(14, 'T', 'N', 37, 4, 130);
    check_accuracy(12, 'T', 'T', 33, 34, 257);
    if (!small()) {
        check_accuracy(14, 'N', 'N', 150, 130, 600);
        check_accuracy(14, 'T', 'N', 3, 2, 140000); /* more than fits into 32 bits */
    }
}

/* Rows and columns in pieces, sums reduced after few terms, residues in two arrays, small
 * workspace: not a bit differs. */
static void test_same_bits(void **state) {
    enum { M = 21, N = 19, K = 200, MODULI = 13 };
    operand a = operand_new(MODULI, 'N', M, K), b = operand_new(MODULI, 'T', N, K);
    mat c = result_of(M, N), d = result_of(M, N);
    (void)state;
    operand_convert(&a, MODULI), operand_convert(&b, MODULI);
    integer_product p = product_of(MODULI, &a, &b, &c), q = product_of(MODULI, &a, &b, &d);
    multiply(&p, usual(&p));
    mat_down(&c);
    for (int way = 0; way < 4; way++) {
        q.depth = way == 0 ? 16 : way == 1 ? 112 : 0;
        if (way == 2) { /* the same residues, named as two arrays */
            q.a.first = q.b.first = 5;
            for (int o = 0; o < 2; o++) {
                integer_rows *r = o == 0 ? &q.a : &q.b;
                r->r[1] = r->r[0] + 5 * r->step[0], r->ld[1] = r->ld[0], r->step[1] = r->step[0];
            }
        }
        multiply(&q, way == 3 ? (size_t)(MODULI * 16 * 16 * 4) : usual(&q));
        mat_down(&d);
        assert_memory_equal(c.host, d.host, c.bytes);
        mat_up(&d);
    }
    q = product_of(MODULI, &a, &b, &d);
    for (int64_t i = 0; i < M; i += 16)
        for (int64_t j = 0; j < N; j += 16) {
            integer_product part = q;
            part.m = M - i < 16 ? M - i : 16, part.n = N - j < 16 ? N - j : 16;
            part.a.r[0] += i * part.a.ld[0], part.b.r[0] += j * part.b.ld[0];
            part.a.exponent += i, part.b.exponent += j, part.c += i + j * d.ld;
            multiply(&part, usual(&part));
        }
    mat_down(&d);
    assert_memory_equal(c.host, d.host, c.bytes);
    mat_free(&c), mat_free(&d), operand_free(&a), operand_free(&b);
}

/* C := 3 C - 2 A A', its lower triangle alone, by norms that are known: bit for bit what all of it
 * has there. */
static void test_triangle(void **state) {
    enum { M = 35, K = 48, MODULI = 14 };
    operand a = operand_new(MODULI, 'N', M, K);
    mat c = mat_new(BACKEND_D, M, M, 2), d = mat_new(BACKEND_D, M, M, 2),
        s = mat_new(BACKEND_D, 2, M, 1);
    (void)state;
    mat_fill(&c, 'A');
    memcpy(d.host, c.host, c.bytes);
    mat_up(&c), mat_up(&d), mat_up(&a.x);
    for (int64_t i = 0; i < M; i++)
        mat_set(&s, 1, i, norm_of(&a, i) * norm_of(&a, i));
    mat_up(&s);
    const integer_matrix x = matrix_of(&a);
    must(be->integer->scale_squares(ctx, MODULI, K, M, (double *)s.dev + 1, s.ld, a.rows.exponent));
    must(be->integer->convert(ctx, MODULI, &x, &a.rows));
    integer_product p = product_of(MODULI, &a, &a, &c), q = product_of(MODULI, &a, &a, &d);
    p.alpha = q.alpha = -2, p.beta = q.beta = 3, p.part = 'L';
    multiply(&p, usual(&p)), multiply(&q, usual(&q));
    mat_down(&c), mat_down(&d);
    assert_true(mat_untouched(&c, 'L'));
    for (int64_t j = 0; j < M; j++)
        for (int64_t i = j; i < M; i++) {
            unsigned char *was = c.host;
            const cplx x = mat_get(&c, i, j);
            c.host = c.before;
            const double old = 3 * creal(mat_get(&c, i, j));
            c.host = was;
            const double scale = norm_of(&a, i) * norm_of(&a, j);
            assert_true(creal(x) == creal(mat_get(&d, i, j)));
            assert_true(fabs(creal(x) - old + 2 * (double)exact_of(&a, &a, i, j)) <=
                        1e-13 * (scale + fabs(old)));
        }
    p.alpha = 0, p.beta = 1; /* does not read residues, of rows that are all marked */
    mat_set(&s, 1, 0, NAN);
    mat_up(&s);
    must(be->integer->scale_squares(ctx, MODULI, K, M, (double *)s.dev + 1, s.ld, a.rows.exponent));
    multiply(&p, usual(&p));
    mat_down(&d), mat_down(&c);
    for (int64_t i = 0; i < M; i++)
        assert_true(creal(mat_get(&c, i, 0)) == creal(mat_get(&d, i, 0)));
    mat_free(&c), mat_free(&d), mat_free(&s), operand_free(&a);
}

/* Rows: plain, zero, with NaN, with an infinity, over 300 decades, subnormal, huge, tiny. */
static void test_special(void **state) {
    enum { M = 8, N = 3, K = 40, MODULI = 14 };
    operand a = operand_new(MODULI, 'N', M, K), b = operand_new(MODULI, 'N', N, K);
    mat c = result_of(M, N);
    (void)state;
    for (int64_t l = 0; l < K; l++) {
        operand_set(&a, 1, l, 0);
        operand_set(&a, 4, l, lin_random() * pow(10, 150 - 7.5 * (double)l));
        operand_set(&a, 5, l, 0x1p-1074 * floor(1000 * lin_random()));
        operand_set(&a, 6, l, lin_random() * 1e307);
        operand_set(&a, 7, l, lin_random() * 1e-290);
        operand_set(&b, 2, l, 0);
        operand_set(&b, 1, l, operand_at(&b, 1, l) * 1e-12); /* no sum is infinite */
    }
    operand_set(&b, 0, 0, 1e-5);
    operand_set(&a, 2, 3, (double)NAN);
    operand_set(&a, 3, K - 1, (double)-INFINITY);
    operand_convert(&a, MODULI), operand_convert(&b, MODULI);
    integer_product p = product_of(MODULI, &a, &b, &c);
    multiply(&p, usual(&p));
    mat_down(&c);
    for (int64_t i = 0; i < M; i++)
        for (int64_t j = 0; j < N; j++) {
            const double x = creal(mat_get(&c, i, j));
            if (i == 2 || i == 3) {
                assert_true(isnan(x));
            } else if (i == 1 || j == 2) {
                assert_true(x == 0);
            } else if (!(i == 6 && j == 0)) {
                const double error = fabs((double)(x - exact_of(&a, &b, i, j)));
                assert_true(error <=
                            integer_error(MODULI, K) * norm_of(&a, i) * norm_of(&b, j) + 0x1p-1074);
            }
        }
    mat_free(&c), operand_free(&a), operand_free(&b);
}

/* Columns of A of very different size, and those of B inversely: with their exponents as inner
 * scales the product is as exact as without the sizes, and without them it is not. */
static void test_inner(void **state) {
    enum { M = 9, N = 7, K = 60, MODULI = 14 };
    operand a = operand_new(MODULI, 'N', M, K), b = operand_new(MODULI, 'T', N, K);
    mat c = result_of(M, N), d = result_of(M, N);
    int32_t size[K], *inner = workspace_of(sizeof size);
    (void)state;
    operand_convert(&a, MODULI), operand_convert(&b, MODULI);
    integer_product p = product_of(MODULI, &a, &b, &c);
    multiply(&p, usual(&p));
    mat_down(&c);
    for (int64_t l = 0; l < K; l++) {
        size[l] = (int32_t)(40 * lin_random());
        for (int64_t i = 0; i < M; i++)
            operand_set(&a, i, l, ldexp(operand_at(&a, i, l), size[l]));
        for (int64_t i = 0; i < N; i++)
            operand_set(&b, i, l, ldexp(operand_at(&b, i, l), -size[l]));
    }
    must(be->copy(ctx, inner, sizeof size, size, sizeof size, sizeof size, 1));
    must(be->sync(ctx));
    for (int scaled = 0; scaled < 2; scaled++) {
        a.inner = b.inner = scaled ? inner : NULL;
        a.sign = -1, b.sign = 1;
        operand_convert(&a, MODULI), operand_convert(&b, MODULI);
        p = product_of(MODULI, &a, &b, &d);
        multiply(&p, usual(&p));
        mat_down(&d);
        assert_true((memcmp(c.host, d.host, c.bytes) == 0) == scaled);
    }
    be->release(ctx, inner);
    mat_free(&c), mat_free(&d), operand_free(&a), operand_free(&b);
}

/* A row that does not fit the scale it is given is marked, and only that. */
static void test_unfit(void **state) {
    enum { M = 6, K = 33, MODULI = 14 };
    operand a = operand_new(MODULI, 'N', M, K), b = operand_new(MODULI, 'T', 4, K);
    mat c = result_of(M, 4);
    (void)state;
    operand_convert(&a, MODULI), operand_convert(&b, MODULI);
    operand_set(&a, 4, K - 2, 1e9);
    mat_up(&a.x);
    const integer_matrix x = matrix_of(&a);
    must(be->integer->convert(ctx, MODULI, &x, &a.rows));
    integer_product p = product_of(MODULI, &a, &b, &c);
    multiply(&p, usual(&p));
    mat_down(&c);
    for (int64_t i = 0; i < M; i++)
        assert_int_equal(isnan(creal(mat_get(&c, i, 1))), i == 4);
    mat_free(&c), operand_free(&a), operand_free(&b);
}

/* One bit of one residue of any modulus is noticed by the error of the result. */
static void test_planted(void **state) {
    enum { M = 5, K = 64, MODULI = 14 };
    operand a = operand_new(MODULI, 'N', M, K), b = operand_new(MODULI, 'N', M, K);
    mat c = result_of(M, M);
    (void)state;
    operand_convert(&a, MODULI), operand_convert(&b, MODULI);
    integer_product p = product_of(MODULI, &a, &b, &c);
    for (int t = 0; t < MODULI; t++) {
        int8_t *at = a.r + t * a.rows.step[0] + 3 * a.rows.ld[0] + 17, byte, bad;
        must(be->copy(ctx, &byte, 1, at, 1, 1, 1));
        must(be->sync(ctx));
        bad = (int8_t)(byte ^ 1);
        must(be->copy(ctx, at, 1, &bad, 1, 1, 1));
        multiply(&p, usual(&p));
        mat_down(&c);
        assert_true(error_of(&c, &a, &b) > 1e6 * integer_error(MODULI, K));
        must(be->copy(ctx, at, 1, &byte, 1, 1, 1));
        must(be->sync(ctx));
    }
    multiply(&p, usual(&p));
    mat_down(&c);
    assert_true(error_of(&c, &a, &b) <= integer_error(MODULI, K));
    mat_free(&c), operand_free(&a), operand_free(&b);
}

static void refused(status st) {
    assert_int_equal(st, MOAO_INPUT);
    status_clear();
}

static void test_refused(void **state) {
    operand a = operand_new(14, 'N', 4, 20);
    mat c = result_of(4, 4);
    (void)state;
    operand_convert(&a, 14);
    const integer_product good = product_of(14, &a, &a, &c);
    for (int way = 0; way < 9; way++) {
        integer_product p = good;
        p.moduli = way == 0 ? 16 : way == 1 ? 1 : p.moduli;
        p.part = way == 2 ? 'U' : 'A';
        p.k = way == 3 ? -1 : way == 4 ? 40 : p.k; /* 40: beyond the rows */
        p.a.first = way == 5 ? 3 : p.a.first;
        p.b.r[0] += way == 6 ? 4 : 0;
        p.depth = way == 7 ? 8 : 0;
        p.ldc = way == 8 ? 3 : p.ldc;
        refused(be->integer->gemm(ctx, &p, NULL, 0));
    }
    integer_matrix x = matrix_of(&a);
    refused(be->integer->scale(ctx, 14, 10, &x, a.rows.exponent, NULL, 0));
    refused(be->integer->scale_squares(ctx, 2, INTEGER_LONGEST, 4, a.x.dev, 1, a.rows.exponent));
    x.trans = 'U';
    refused(be->integer->convert(ctx, 14, &x, &a.rows));
    mat_free(&c), operand_free(&a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_residues), cmocka_unit_test(test_moduli),
        cmocka_unit_test(test_accuracy), cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_triangle), cmocka_unit_test(test_special),
        cmocka_unit_test(test_inner),    cmocka_unit_test(test_unfit),
        cmocka_unit_test(test_planted),  cmocka_unit_test(test_refused),
    };
    return RUN_ON_BACKENDS(tests);
}
