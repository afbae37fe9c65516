/* Compressed matrices, formats and what is left of the installed library at their edges: sizes of
 * -1, 0, 1 and huge ones, numbers that are not finite, extremes that are legal: each call returns,
 * and the right status. Sanitizers see the rest. */
#include "moao/tlr.h"
#include "moao/toeplitz.h"
#include "moao/version.h"
#include "support/edges.h"
#include <float.h>
#include <limits.h>

/* Points of a square; those of a line, a sensor of places. */
static status fill(void *arg, int64_t i0, int64_t ni, int64_t j0, int64_t nj, double *a,
                   int64_t lda) {
    const double scale = *(const double *)arg;
    double *host = malloc(8 * (size_t)(ni * nj + 1));
    for (int64_t j = 0; j < nj; j++)
        for (int64_t i = 0; i < ni; i++)
            host[i + j * ni] =
                scale * (exp(-fabs((double)(i0 + i - j0 - j)) / 20) + (i0 + i == j0 + j));
    status st = ni > 0 && nj > 0 ? be->copy(ctx, a, 8 * lda, host, 8 * ni, 8 * ni, nj) : MOAO_OK;
    if (st == MOAO_OK)
        st = be->sync(ctx);
    free(host);
    return st;
}

/* All that can be done with a matrix of tiles and its factor. */
static void use_tlr(const tlr_layout *l, double scale, const tlr_options *o) {
    tlr *a = NULL, *r = NULL, *f = NULL, *copy = NULL;
    const int64_t n = l->n;
    const tlr_source s = {.layout = l, .fill = fill, .arg = &scale};
    double det, error, deviation, rcond;
    tlr_stats stats;
    const bool good = isfinite(scale) && scale > 0;
    const status st = tlr_build(be, ctx, l, NULL, fill, &scale, o, &a);
    if (!(st == MOAO_OK || (st == MOAO_NUMERIC && !isfinite(scale))))
        fail_msg("order %d, scale %g: %s", (int)n, scale, status_message());
    status_clear();
    const status made = tlr_factor(be, ctx, &s, 'L', o, NULL, &f, NULL);
    if (!(good || n == 0 ? made == MOAO_OK : made == MOAO_NUMERIC && !f))
        fail_msg("factor of order %d, scale %g: status %d, %s", (int)n, scale, (int)made,
                 status_message());
    status_clear();
    if (st == MOAO_OK && made == MOAO_OK) {
        double *x = poison(8 * (size_t)(n * n + 1)), *y = poison(8 * (size_t)(n * n + 1));
        tlr_statistics(a, &stats), tlr_statistics(f, &stats);
        assert_true(stats.dropped >= 0);
        (void)tlr_tile_at(a, -1, 0), (void)tlr_tile_at(a, INT64_MAX, 0),
            (void)tlr_tile_at(a, 0, INT64_MIN);
        must(tlr_expand(a, x, n > 1 ? n : 1));
        must(tlr_apply(a, 'L', 'N', n, 1, x, n > 1 ? n : 1, 0, y, n > 1 ? n : 1));
        must(tlr_solve(f, 'L', 'A', n, x, n > 1 ? n : 1));
        must(tlr_solve(f, 'R', 'N', 0, x, 1));
        must(tlr_logdet(f, &det));
        must(tlr_logdet_error(f, &s, 2, 1, &error, &deviation));
        must(tlr_condition(f, &rcond));
        assert_true(rcond > 1e-4 && rcond <= 1.0001 && fabs(error) < 1 + n);
        tlr_set_split(f, 3, 1), tlr_set_split(a, 3, 1);
        must(tlr_build(be, ctx, l, l, fill, &scale, o, &r));
        must(tlr_copy(r, 'T', &copy));
        must(tlr_gemm_dense(1, r, 'N', copy, 'N', 0, y, n > 1 ? n : 1));
        must(tlr_syrk_dense(1, r, 1, y, n > 1 ? n : 1));
        if (scale == 1) {
            must(tlr_gemm('A', 1, r, 'N', copy, 'N', 1, copy));
            must(tlr_syrk(1, r, 1, a));
            must(tlr_trsm(f, r));
        }
        be->release(ctx, x), be->release(ctx, y);
    }
    tlr_close(a), tlr_close(r), tlr_close(f), tlr_close(copy);
}

static void test_tlr(void **state) {
    static const double scale[] = {1, 0x1p-800, 0x1p800, -1, 0, NAN, INFINITY};
    (void)state;
    for (int64_t n = 0; n <= 70; n = 5 * n + (n ? 2 : 1)) /* 0, 1, 7, 37 */
        for (int64_t b = 1; b <= 16; b = b == 1 ? 4 : 4 * b)
            for (size_t k = 0; k < sizeof scale / sizeof *scale; k++) {
                tlr_layout l;
                must(tlr_layout_plain(n, b, &l));
                const tlr_options o = {.tau = 1e-6 * (isfinite(scale[k]) ? fabs(scale[k]) : 1),
                                       .cut = -1,
                                       .width = 2 * b,
                                       .norms = true};
                use_tlr(&l, scale[k], &o);
                tlr_layout_free(&l);
            }
    tlr_layout l;
    const double x[3] = {0, 1, NAN};
    const int64_t start[2] = {0, 3}, back[3] = {0, 3, 2};
    for (int e = 0; e < SIZES; e++) {
        const bool legal = sizes[e] == 1 || sizes[e] == 3 || sizes[e] == INT64_MAX;
        expect(tlr_layout_plain(3, sizes[e], &l), legal, "layout of tiles", 3, sizes[e], 0);
        tlr_layout_free(&l);
        if (sizes[e] < 4) {
            expect(tlr_layout_plain(sizes[e], 2, &l), sizes[e] >= 0, "layout", sizes[e], 2, 0);
            tlr_layout_free(&l);
        }
        for (int order = 0; order <= TLR_NATURAL; order++) {
            expect(
                tlr_layout_points(&(tlr_points){1, start, x, x, 1}, sizes[e], (tlr_order)order, &l),
                false, "layout of a point that is NaN", 3, sizes[e], order);
            expect(tlr_layout_points(&(tlr_points){1, (int64_t[]){0, 2}, x, x, 1}, sizes[e],
                                     (tlr_order)order, &l),
                   legal, "layout of points", 2, sizes[e], order);
            tlr_layout_free(&l);
        }
        expect(tlr_layout_points(&(tlr_points){1, start, x, x, sizes[e] > 0 ? -1 : sizes[e]}, 2,
                                 TLR_KD, &l),
               false, "layout of points without entries", 3, sizes[e], 0);
    }
    expect(tlr_layout_points(&(tlr_points){2, back, x, x, 1}, 2, TLR_KD, &l), false,
           "layout backwards", 3, 2, 0);
    tlr_layout_free(&l);
    tlr_close(NULL);
}

static void add_area(void *arg, int64_t row, int64_t rows, int64_t col, int64_t cols, int rank) {
    (void)row, (void)col, (void)rank;
    *(int64_t *)arg += rows * cols;
}

/* Sums of a format with itself: H2 has them, and where there is none it is NULL. */
static void add_to_itself(const format *f, const hier_options *o, int64_t n) {
    static const double factor[] = {1, 0, INFINITY, NAN, 1}, tol[] = {1e-3, 0, 0, 0, NAN};
    for (int k = 0; k < 5; k++) {
        const bool legal = o->kind == HIER_H2 && k < 2;
        format *sum = (format *)&sum;
        expect(hier_add(factor[k], f, -factor[k], f, tol[k], &sum), legal, "add", n, k, 0);
        assert_int_equal(sum != NULL, legal);
        hier_close(sum);
    }
}

/* Options and sizes of formats, legal and not; then all that can be done with one. */
static void use_format(const hier_source *s, const hier_options *o, double scale) {
    const int64_t n = s->rows;
    size_t bytes, most;
    hier_info info;
    format *f = NULL;
    double rms, worst;
    must(hier_bytes(be, s, o, &bytes, &most));
    must(hier_open(be, ctx, s, o, &f));
    hier_describe(f, &info);
    assert_int_equal(info.rows, n);
    int64_t area = 0;
    hier_parts(f, add_area, &area);
    assert_true(area == 0 || area == n * n);
    for (int64_t v = 0; v <= 2; v++) {
        const size_t lwork = hier_workspace(f, 'L', v), lkept = hier_kept_bytes(f, v);
        const int64_t ld = n > 1 ? n : 1;
        const size_t room = 8 * (size_t)(ld * 2 + 1);
        void *x = poison(room), *y = poison(room), *work = poison(lwork), *kept = poison(lkept);
        expect(hier_apply(f, 'L', 'N', 'A', v, scale, x, ld, 0, y, ld, work, lwork), true, "apply",
               n, v, ld);
        expect(hier_apply(f, 'L', 'N', 'A', v, 1, x, n - 1, 0, y, ld, work, lwork), false, "apply",
               n, v, n - 1);
        expect(hier_apply(f, 'X', 'N', 'A', v, 1, x, ld, 0, y, ld, work, lwork), false, "apply X",
               n, v, ld);
        expect(hier_apply(f, 'L', 'N', 'A', -1, 1, x, ld, 0, y, ld, work, lwork), false, "apply", n,
               -1, ld);
        if (lwork > 0)
            expect(hier_apply(f, 'L', 'N', 'A', v, 1, x, ld, 0, y, ld, work, lwork - 1), false,
                   "apply", n, v, ld);
        expect(hier_keep(f, 'L', v, x, ld, kept, lkept, work, lwork), true, "keep", n, v, ld);
        expect(hier_apply_kept(f, 'L', 'T', 'A', v, 1, kept, lkept, x, ld, NAN, y, ld, work, lwork),
               true, "apply_kept", n, v, ld);
        be->release(ctx, x), be->release(ctx, y), be->release(ctx, work), be->release(ctx, kept);
    }
    expect(hier_check(f, s, 0, 1, &rms, &worst), false, "check", n, 0, 0);
    expect(hier_check(f, s, -1, 1, &rms, &worst), false, "check", n, -1, 0);
    must(hier_check(f, s, 70, 1, &rms, &worst));
    const bool solves = o->kind == HIER_HSS;
    expect(hier_factor(f, NAN), false, "factor", n, n, 0);
    expect(hier_factor(f, 2), solves, "factor", n, n, 0);
    if (solves) {
        const int64_t ld = n > 1 ? n : 1;
        const size_t lwork = hier_solve_workspace(f, 2);
        void *x = numbers(BACKEND_D), *work = poison(lwork);
        void *wide = poison(8 * (size_t)(2 * ld));
        expect(hier_solve(f, 'T', 2, wide, ld, work, lwork), true, "solve", n, 2, ld);
        expect(hier_solve(f, 'T', INT64_MIN, x, ld, work, lwork), false, "solve", n, INT64_MIN, ld);
        expect(hier_solve(f, 'Q', 2, x, ld, work, lwork), false, "solve Q", n, 2, ld);
        be->release(ctx, x), be->release(ctx, wide), be->release(ctx, work);
    }
    const bool cut = o->kind == HIER_HSS || o->kind == HIER_H2;
    expect(hier_compress(f, NAN, 'W', 0), false, "compress", n, n, 0);
    expect(hier_compress(f, 1e-3, 'W', 0), cut, "compress", n, n, 0);
    must(hier_load(f, s));
    add_to_itself(f, o, n);
    hier_close(f);
}

static void test_formats(void **state) {
    static const double at[] = {0, 1e-300, 1, 1e300, DBL_MAX, -DBL_MAX};
    static const hier_kind kinds[] = {HIER_DENSE, HIER_HSS, HIER_H2};
    hier_source s;
    (void)state;
    for (int64_t n = 0; n <= 130; n = 4 * n + (n ? 1 : 1)) /* 0, 1, 5, 21, 85 */
        for (int k = 0; k < 3; k++) {
            double *x = square_points(n);
            must(hier_points_open(be, ctx, HIER_EXPONENTIAL, 0.5, 2, n, x, &s));
            const hier_options o = {
                .kind = kinds[k], .type = BACKEND_D, .tol = 1e-4, .leaf = n > 50 ? 9 : 1};
            use_format(&s, &o, k == 1 ? INFINITY : 1);
            hier_points_close(&s);
            free(x);
        }
    for (int e = 0; e < SIZES; e++)
        for (int dim = -1; dim <= 4; dim++) {
            const bool legal = sizes[e] >= 0 && sizes[e] <= 3 && dim >= 1 && dim <= 3;
            if (dim * (sizes[e] == 3 ? 3 : 0) > 6)
                continue;
            expect(hier_points_open(be, ctx, HIER_GAUSSIAN, 1e-300, dim, sizes[e], at, &s), legal,
                   "points", sizes[e], dim, 0);
            hier_points_close(&s);
        }
    const double lengths[] = {0, -1, NAN, INFINITY, -INFINITY};
    for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++)
        expect(hier_points_open(be, ctx, HIER_EXPONENTIAL, lengths[k], 1, 3, at, &s), false,
               "length", 3, 1, 0);
    must(hier_points_open(be, ctx, HIER_EXPONENTIAL, 1, 1, 6, at, &s)); /* distances overflow */
    const hier_options fine = {.kind = HIER_HSS, .type = BACKEND_D, .tol = 1e-4, .leaf = 1};
    use_format(&s, &fine, 1);
    for (int k = 0; k < 10; k++) { /* options that are out of range, one by one */
        hier_options o = fine;
        format *f;
        size_t bytes, most;
        *(k == 0   ? &o.leaf
          : k == 1 ? &o.rank
          : k == 2 ? &o.samples
          : k == 3 ? &o.order
          : k == 4 ? &o.together
          : k == 5 ? &o.verify
                   : &o.leaf) = k < 6 ? INT32_MIN : 1;
        o.kind = k == 6 ? (hier_kind)99 : o.kind;
        o.type = k == 7 ? BACKEND_Z : o.type;
        o.tol = k == 8 ? NAN : k == 9 ? -1 : o.tol;
        expect(hier_open(be, ctx, &s, &o, &f), false, "options", k, 0, 0);
        assert_null(f);
        expect(hier_bytes(be, &s, &o, &bytes, &most), false, "options", k, 0, 0);
    }
    hier_source odd = s;
    odd.rows = -1;
    format *f;
    expect(hier_open(be, ctx, &odd, &fine, &f), false, "rows", -1, 0, 0);
    odd = s, odd.cols = 7;
    expect(hier_open(be, ctx, &odd, &fine, &f), false, "cols", 6, 7, 0);
    odd = s, odd.at = NULL;
    expect(hier_open(be, ctx, &odd, &fine, &f), false, "no points", 6, 6, 0);
    hier_points_close(&s), hier_points_close(&s);
    hier_close(NULL);
}

/* Places of a lattice, all of them and none. */
static void test_toeplitz(void **state) {
    static const int place[] = {0, 1, 2, 3};
    const int *places[] = {place};
    (void)state;
    if (!be->toeplitz)
        return;
    for (int64_t n = 0; n <= 4; n += n < 1 ? 1 : 3) {
        const int64_t count[] = {n}, first[] = {0};
        const toeplitz_shape shape = {2, 1, count, first, places};
        double table[9] = {0.1, 0.2, 0.1, 0.2, 1, 0.2, 0.1, 0.2, 0.1};
        for (int bad = 0; bad < 3; bad++) {
            table[4] = bad == 1 ? NAN : bad == 2 ? 1e300 : 1;
            void *value = device_copy(table, sizeof table);
            const toeplitz_pair pair = {.value = value, .step = 1, .width = 3, .origin = 1};
            const hier_toeplitz_values detail = {&shape, &pair};
            const hier_source s = {.rows = n, .cols = n, .symmetric = true, .detail = &detail};
            const hier_options o = {.kind = HIER_TOEPLITZ, .type = BACKEND_D};
            format *f;
            const status st = hier_open(be, ctx, &s, &o, &f);
            assert_int_equal(st, n > 0 && bad == 1 ? MOAO_NUMERIC : MOAO_OK);
            status_clear();
            hier_close(f);
            be->release(ctx, value);
        }
        const hier_source none = {.rows = n, .cols = n, .symmetric = true};
        const hier_options o = {.kind = HIER_TOEPLITZ, .type = BACKEND_D};
        format *f;
        expect(hier_open(be, ctx, &none, &o, &f), false, "no places", n, n, 0);
    }
}

/* The address sanitizer's: what is too large to allocate is NULL, as without it. */
MOAO_PUBLIC const char *__asan_default_options(void);
const char *__asan_default_options(void) {
    return "allocator_may_return_null=1";
}

static void test_rest(void **state) {
    const backend *found;
    void *p;
    (void)state;
    static const double bounds[] = {0, -1, NAN, INFINITY, 1, 32768, DBL_MAX, DBL_TRUE_MIN};
    static const int brought[] = {0, 0, 0, 0, 15, 0, -1000, 1000}; /* at most what casts take */
    for (int k = 0; k < 8; k++)
        assert_in_range(backend_fp16_exponent(bounds[k]) - brought[k] + 2, 1, 2);
    expect(backend_get("", &found), false, "backend", 0, 0, 0);
    expect(backend_get("abacus", &found), false, "backend", 0, 0, 0);
    must(backend_get("cpu", &found));
    assert_ptr_equal(found, &backend_cpu);
    assert_int_equal(mem_alloc(&p, ULONG_MAX, 8, "all"), MOAO_MEMORY);
    assert_null(p);
    status_clear();
    assert_int_equal(mem_alloc(&p, ULONG_MAX, 1, "all"), MOAO_MEMORY);
    status_clear();
    must(mem_alloc(&p, 0, 0, "nothing"));
    assert_non_null(p);
    free(p);
    status_adopt("\033[31m kept as it is");
    assert_string_equal(status_message(), "\033[31m kept as it is");
    status_clear();
    char *text = malloc(100000);
    memset(text, 'x', 99999), text[99999] = 0;
    status_fail(MOAO_INTERNAL, "%s\n\033", text);
    assert_in_range(strlen(status_message()), 100, 4096);
    status_clear();
    free(text);
    for (int st = -1; st <= MOAO_INTERNAL + 1; st++)
        assert_in_range(status_exit_code((status)st), 0, 3);
    must(be->alloc(ctx, 0, &p));
    be->release(ctx, p), be->release(ctx, NULL);
    assert_int_equal(be->alloc(ctx, SIZE_MAX / 2, &p), MOAO_MEMORY);
    status_clear();
    be->close(NULL);
    assert_int_equal(moao_linalg_version(), MOAO_LINALG_VERSION);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tlr),
        cmocka_unit_test(test_formats),
        cmocka_unit_test(test_toeplitz),
        cmocka_unit_test(test_rest),
    };
    return RUN_ON_BACKENDS(tests);
}
