/* Products by integers and the factor by them at their edges: sizes of -1, 0, 1 and huge ones,
 * moduli out of range, numbers that are not finite: each call returns, and the right status. */
#include "moao/integer_factor.h"
#include "support/matrix.h"

static const int64_t sizes[] = {-1, 0, 1, 2, INTEGER_LONGEST + 1, INT64_MAX};

static void test_choice(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        const bool fine = sizes[k] >= 0 && sizes[k] <= INTEGER_LONGEST;
        for (int moduli = 0; moduli <= INTEGER_MODULI + 1; moduli++)
            assert_int_equal(isnan(integer_error(moduli, sizes[k])),
                             !fine || moduli < 2 || moduli > INTEGER_MODULI);
        assert_int_equal(integer_moduli(sizes[k], 0), fine ? 14 : 0);
        assert_int_equal(integer_moduli(sizes[k], INFINITY), fine ? 2 : 0);
        const integer_factor_options o = integer_factor_defaults(sizes[k], true);
        assert_int_equal(integer_potrf_bytes(be, &o) > 0, fine && sizes[k] > 0);
        assert_int_equal(integer_solve_bytes(be, &o, 3) > 0, fine);
        assert_int_equal(integer_solve_bytes(be, &o, -1), 0);
    }
}

/* A factor of order n of one number, and a solve; the statuses of all that is out of range. */
static void test_factor(void **state) {
    static const double value[] = {4, 0, -1, (double)NAN, (double)INFINITY, 1e-320, 1e308};
    double *a, *w;
    int32_t *exponent;
    void *work;
    int64_t minor;
    const integer_factor_options one = integer_factor_defaults(1, true);
    const size_t bytes = integer_potrf_bytes(be, &one) + integer_solve_bytes(be, &one, 2);
    (void)state;
    must(be->alloc(ctx, 64, (void **)&a));
    must(be->alloc(ctx, 64, (void **)&w));
    must(be->alloc(ctx, 4, (void **)&exponent));
    must(be->alloc(ctx, bytes, &work));
    for (size_t k = 0; k < sizeof value / sizeof *value; k++) {
        const double b[] = {value[k], value[k]};
        double x[2] = {0};
        const integer_solve_rows rows = {2, w, 2}, none = {0, w, 1};
        must(be->copy(ctx, a, 8, b, 8, 8, 1));
        must(be->copy(ctx, w, 16, b, 16, 16, 1));
        must(integer_potrf(be, ctx, &one, a, 2, exponent, &minor, work, bytes));
        assert_int_equal(minor, k == 0 ? 0 : 1); /* 1e-320 and 1 / 1e308 are not normal */
        must(integer_solve(be, ctx, &one, a, 2, exponent, 1, &rows, work, bytes));
        must(integer_solve(be, ctx, &one, a, 2, exponent, 1, &none, work, bytes));
        must(integer_solve(be, ctx, &one, a, 2, exponent, 0, NULL, work, bytes));
        must(be->copy(ctx, x, 16, w, 16, 16, 1));
        must(be->sync(ctx));
        if (k == 0)
            assert_true(x[0] == 1 && x[1] == 1);
    }
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        const integer_factor_options o = integer_factor_defaults(sizes[k], false);
        const integer_solve_rows rows = {2, w, 2}, bad = {3, w, 2};
        const bool fine = sizes[k] == 0;
        if (sizes[k] == 1 || sizes[k] == 2)
            continue;
        assert_int_equal(integer_potrf(be, ctx, &o, a, 1, exponent, &minor, work, bytes),
                         fine ? MOAO_OK : MOAO_INPUT);
        status_clear();
        assert_int_equal(integer_solve(be, ctx, &o, a, 1, exponent, 1, &rows, work, bytes),
                         fine ? MOAO_OK : MOAO_INPUT);
        status_clear();
        assert_int_equal(integer_solve(be, ctx, &o, a, 1, exponent, 1, &bad, work, bytes),
                         MOAO_INPUT);
        status_clear();
        assert_int_equal(integer_solve(be, ctx, &one, a, 2, exponent, -1, &rows, work, bytes),
                         MOAO_INPUT);
        status_clear();
    }
    be->release(ctx, a), be->release(ctx, w), be->release(ctx, exponent), be->release(ctx, work);
}

/* The columns of a factor: its status is returned, and it is called where there are columns. */
static status form(void *of, int64_t j, int64_t n) {
    int *called = of;
    assert_true(j == 0 && n == 1);
    return called[0]++ == 0 ? MOAO_OK : MOAO_STOPPED;
}

static void test_columns(void **state) {
    int called = 0;
    const integer_columns columns = {form, &called};
    const integer_factor_options one = integer_factor_defaults(1, true);
    const size_t bytes = integer_potrf_bytes(be, &one);
    const double value = 4;
    double *a, x = 0;
    int32_t *exponent;
    int64_t minor;
    void *work;
    (void)state;
    must(be->alloc(ctx, 16, (void **)&a));
    must(be->alloc(ctx, 4, (void **)&exponent));
    must(be->alloc(ctx, bytes, &work));
    must(be->copy(ctx, a, 8, &value, 8, 8, 1));
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        const integer_factor_options o = integer_factor_defaults(sizes[k], false);
        if (sizes[k] == 1 || sizes[k] == 2)
            continue;
        minor = -1;
        assert_int_equal(
            integer_potrf_columns(be, ctx, &o, &columns, a, 1, exponent, &minor, work, bytes),
            sizes[k] == 0 ? MOAO_OK : MOAO_INPUT);
        assert_true(minor == 0 && called == 0);
        status_clear();
    }
    assert_int_equal(
        integer_potrf_columns(be, ctx, &one, &columns, a, 2, exponent, &minor, work, bytes - 1),
        MOAO_INPUT);
    status_clear();
    must(integer_potrf_columns(be, ctx, &one, &columns, a, 2, exponent, &minor, work, bytes));
    must(be->copy(ctx, &x, 8, a, 8, 8, 1));
    must(be->sync(ctx));
    assert_true(minor == 0 && x == 2 && called == 1);
    assert_int_equal(
        integer_potrf_columns(be, ctx, &one, &columns, a, 2, exponent, &minor, work, bytes),
        MOAO_STOPPED);
    status_clear();
    be->release(ctx, a), be->release(ctx, exponent), be->release(ctx, work);
}

static void test_exponents(void **state) {
    static const int32_t value[] = {INTEGER_BAD, INT32_MIN / 2, 0, 1000};
    int32_t *exponent, now = 0;
    (void)state;
    must(be->alloc(ctx, sizeof *exponent, (void **)&exponent));
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        const integer_factor_options o = integer_factor_defaults(sizes[k], false);
        for (int moduli = 0; sizes[k] != 2 && moduli <= o.moduli + 1; moduli++) {
            const bool fine = (sizes[k] == 0 || sizes[k] == 1) && moduli >= 2 && moduli <= o.moduli;
            const int32_t from = value[moduli % 4];
            must(be->copy(ctx, exponent, 4, &from, 4, 4, 1));
            assert_int_equal(integer_exponents(be, ctx, &o, moduli, exponent),
                             fine ? MOAO_OK : MOAO_INPUT);
            status_clear();
            must(be->copy(ctx, &now, 4, exponent, 4, 4, 1));
            must(be->sync(ctx));
            if (!fine || sizes[k] == 0 || moduli == o.moduli || from == INTEGER_BAD)
                assert_int_equal(now, from);
            else
                assert_true(now < from && now > from - 64);
        }
    }
    be->release(ctx, exponent);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_choice), cmocka_unit_test(test_factor),
                                       cmocka_unit_test(test_columns),
                                       cmocka_unit_test(test_exponents)};
    return RUN_ON_BACKENDS(tests);
}
