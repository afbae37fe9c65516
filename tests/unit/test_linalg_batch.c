/* Batched routines of a backend (the CPU's, or the one named by MOAO_TEST_BACKEND): backward errors
 * of every routine and variant in units of eps, with the unused triangle, the padding and the gaps
 * between matrices poisoned and compared bit by bit; info; sizes that differ; large batches;
 * repeatability.
 * seconds: 15 */
#include "support/batch_case.h"

/* Is everything right? Prints what is not. */
static bool verdict(test_case *c, bool quiet) {
    bool good = true;
    int64_t bad = trespasses(&c->a) + (has_b(c->op) ? trespasses(&c->b) : 0);
    double w = 0;
    for (int64_t k = 0; k < c->count; k++) {
        double e = error_of(c, k);
        w = e <= w ? w : e;
        if ((spd(c->op) || c->op == TRTRI || c->op == POTRI) && c->info[k] != 0)
            good = false;
    }
    good = good && bad == 0 && w <= tolerance[c->op];
    if (good && w > seen[c->t == BACKEND_S][c->op])
        seen[c->t == BACKEND_S][c->op] = w;
    if (!good && !quiet)
        print_error(
            "%s %c side %c uplo %c trans %c diag %c n %ld m %ld layout %d varied %d kind %d: "
            "error %.3g (n + 4) eps, %ld elements outside written, info %d\n",
            op_name[c->op], "DS"[c->t == BACKEND_S], c -> side, c -> uplo, c -> trans, c -> diag,
            (long)c -> n, (long)c -> m, c -> layout, c -> varied, c -> kind, w, (long)bad,
            c -> count ? c -> info[0] : 0);
    return good;
}

static void run_case(test_case c) {
    build(&c);
    assert_int_equal(call(&c), MOAO_OK);
    collect(&c);
    assert_true(verdict(&c, false));
    dismantle(&c);
}

static test_case plain(int op, backend_type t, int64_t n, int64_t m) {
    test_case c = {.op = op,
                   .t = t,
                   .side = 'L',
                   .uplo = 'L',
                   .trans = 'N',
                   .diag = 'N',
                   .count = 3,
                   .n = n,
                   .m = m,
                   .alpha = 1,
                   .beta = 0};
    return c;
}

/* MOAO_TEST_SMALL (runs under a checking tool): every kernel once, few sizes */
static const int64_t all_sizes[] = {0,  1,  7,  8,  9,   16,  17,  31, 32,
                                    33, 63, 64, 65, 100, 128, 255, 256};
static const int64_t small_sizes[] = {5, 8, 13, 16, 29, 32, 45, 64, 70};
static const int64_t *sizes = all_sizes;
static size_t size_count = sizeof all_sizes / sizeof *all_sizes;
static const int64_t widths[] = {1, 2, 3, 8, 17, 33, 0, 70, 130};
#define COUNT(a) (sizeof(a) / sizeof *(a))

/* A number of the case decides layout, sizes, right-hand sides and scalars, so that all meet. */
static void vary(test_case *c, unsigned q) {
    static const double alphas[] = {1, -0.75, 1, 2.5}, betas[] = {0, 1, -0.5};
    c->layout = (int)(q / 4 % LAYOUTS);
    c->varied = q / 2 % 2;
    c->m = c->op == SYRK || q % 3 ? widths[q % COUNT(widths)] : c->n;
    c->alpha = alphas[q / 3 % 4], c->beta = betas[q % 3];
    c->count = c->n > 100 ? 2 : c->varied ? 7 : 3;
}

/* Every side, uplo, trans and diag of trsm and trmm at every size is backward stable componentwise.
 */
static void triangular_on_b(void **state) {
    (void)state;
    unsigned q = 0;
    for (int op = TRSM; op <= TRMM; op++)
        for (size_t i = 0; i < size_count; i++)
            for (int v = 0; v < 16; v++, q++) {
                test_case c = plain(op, q % 5 < 3 ? BACKEND_D : BACKEND_S, sizes[i], 0);
                c.side = v & 1 ? 'R' : 'L', c.uplo = v & 2 ? 'U' : 'L';
                c.trans = v & 4 ? "TC"[q % 2] : 'N', c.diag = v & 8 ? 'U' : 'N';
                vary(&c, q + (unsigned)i);
                run_case(c);
            }
}

/* Factors, inverses, squares, solves and rank-k updates of both triangles and types, at every size.
 */
static void triangle_alone(void **state) {
    (void)state;
    unsigned q = 0;
    for (int op = 0; op < OPS; op++)
        for (size_t i = 0; i < size_count && op != TRSM && op != TRMM; i++)
            for (int v = 0; v < 8; v++, q++) {
                test_case c = plain(op, v & 4 ? BACKEND_S : BACKEND_D, sizes[i], 0);
                c.uplo = v & 1 ? 'U' : 'L';
                c.trans = op == SYRK && v & 2 ? 'T' : 'N';
                c.diag = op == TRTRI && v & 2 ? 'U' : 'N';
                vary(&c, q + (unsigned)i);
                run_case(c);
            }
}

/* The errors stay as small for nearly singular and badly scaled matrices (scales over 80 decades in
 * double, 10 in single). Inverses are left out: their residual grows with the condition number. */
static void hard_matrices(void **state) {
    (void)state;
    static const int ops[] = {TRSM, TRMM, POTRF, POTRS, POSV};
    static const int64_t ns[] = {5, 16, 29, 61, 97, 200};
    for (size_t o = 0; o < COUNT(ops); o++)
        for (size_t i = 0; i < COUNT(ns); i++)
            for (int v = 0; v < 4; v++) {
                test_case c = plain(ops[o], v & 1 ? BACKEND_S : BACKEND_D, ns[i], i % 2 ? 1 : 9);
                c.kind = v & 2 ? SCALED : ILL;
                if (c.kind == SCALED && is_solve(c.op))
                    continue; /* the solution would overflow */
                c.uplo = i % 2 ? 'U' : 'L';
                run_case(c);
            }
}

/* info is the first minor that is not positive, or the row of a NaN; for an inverse the first zero
 * on the diagonal; a matrix beside a failing one is not disturbed, and the right-hand sides of a
 * failing one stay. */
static void info_of_bad_matrices(void **state) {
    (void)state;
    static const int ops[] = {POTRF, POTI, POSV, TRTRI, POTRI};
    static const int64_t ns[] = {1, 8, 13, 32, 50, 64, 90, 128, 129, 250};
    for (size_t o = 0; o < COUNT(ops); o++)
        for (size_t i = 0; i < (small() ? 5 : COUNT(ns)); i++)
            for (int v = 0; v < 12; v++) {
                test_case c = plain(ops[o], v & 1 ? BACKEND_S : BACKEND_D, ns[i], v & 2 ? 1 : 5);
                const int64_t n = c.n, p = (int64_t)((rnd() + 1) / 2 * (double)n);
                const int64_t j = spd(c.op) ? (int64_t)((rnd() + 1) / 2 * (double)(p + 1)) : p;
                const bool nan = v / 4 == 0, last = v / 4 == 2;
                const int64_t at = last ? n - 1 : p;
                c.uplo = v & 2 ? 'U' : 'L';
                build(&c);
                operand_free(&c.a); /* again, with the fault in matrix 1 */
                c.a = operand_new(c.t, c.count, c.ns, c.ns, STRIDED);
                for (int64_t k = 0; k < c.count; k++)
                    fill_triangle(&c, k);
                if (nan)
                    set(&c.a, 1, c.uplo == 'L' ? p : j, c.uplo == 'L' ? j : p, NAN);
                else
                    set(&c.a, 1, at, at, spd(c.op) ? -1e-3 : 0);
                send(&c.a);
                assert_int_equal(call(&c), MOAO_OK);
                collect(&c);
                assert_int_equal(c.info[0], 0);
                assert_int_equal(c.info[2], 0);
                assert_int_equal(c.info[1], (nan ? p : at) + 1);
                assert_true(error_of(&c, 0) <= tolerance[c.op]);
                assert_true(error_of(&c, 2) <= tolerance[c.op]);
                assert_int_equal(trespasses(&c.a), 0);
                for (int64_t q = 0; c.op == POSV && q < n; q++)
                    assert_true(get(&c.b, 1, q, 0) == was(&c.b, 1, q, 0));
                dismantle(&c);
            }
}

/* A size in the array that is negative or too large is refused for its matrix alone (info -1). */
static void sizes_out_of_range(void **state) {
    (void)state;
    static const int64_t ns[] = {6, 30, 60, 120, 200};
    for (size_t i = 0; i < COUNT(ns); i++) {
        test_case c = plain(POTRF, BACKEND_D, ns[i], 0);
        c.varied = true;
        build(&c);
        int64_t bad[3] = {c.n, -1, c.n + 1};
        be->release(ctx, c.dns);
        c.dns = device_copy(bad, sizeof bad);
        assert_int_equal(call(&c), MOAO_OK);
        collect(&c);
        assert_int_equal(c.info[0], 0);
        assert_int_equal(c.info[1], -1);
        assert_int_equal(c.info[2], -1);
        assert_true(error_of(&c, 0) <= tolerance[POTRF]);
        for (int64_t k = 1; k < 3; k++)
            for (int64_t j = 0; j < c.ns[k]; j++)
                assert_true(get(&c.a, k, j, j) == was(&c.a, k, j, j));
        dismantle(&c);
    }
}

/* Orders above 256, wrong letters, types and leading dimensions are refused; empty batches are
 * fine. */
static void arguments(void **state) {
    (void)state;
    test_case c = plain(POTRF, BACKEND_D, 10, 1);
    build(&c);
    for (int op = 0; op < OPS; op++) {
        test_case d = c;
        d.op = op;
        d.b.m = c.a.m;
        d.count = 0;
        assert_int_equal(call(&d), MOAO_OK);
        d.count = 3, d.n = BATCH_MAX + 1;
        d.a.m.ld = d.b.m.ld = d.n;
        assert_int_equal(call(&d), MOAO_INPUT);
        d = c, d.b.m = c.a.m, d.op = op, d.uplo = 'X';
        assert_int_equal(call(&d), MOAO_INPUT);
        d.uplo = 'L', d.t = BACKEND_Z;
        assert_int_equal(call(&d), MOAO_INPUT);
        d.t = BACKEND_D, d.a.m.ld = 9;
        assert_int_equal(call(&d), MOAO_INPUT);
        d.a.m.ld = 13, d.count = -1;
        assert_int_equal(call(&d), MOAO_INPUT);
        status_clear();
    }
    dismantle(&c);
}

/* alpha = 0 gives zeros without reading A; beta = 0 does not read C. */
static void zero_scalars(void **state) {
    (void)state;
    for (int v = 0; v < 12; v++) {
        test_case c = plain(v / 4, v & 1 ? BACKEND_S : BACKEND_D, v & 2 ? 100 : 20, 5);
        c.alpha = 0;
        build(&c);
        operand *out = c.op == SYRK ? &c.a : &c.b;
        be->release(ctx, out == &c.a ? c.b.dev : c.a.dev);
        operand *in = out == &c.a ? &c.b : &c.a;
        memset(in->host, 0xff, (size_t)in->total * backend_size(in->t));
        memset(in->before, 0xff, (size_t)in->total * backend_size(in->t));
        in->dev = device_copy(in->host, (size_t)in->total * backend_size(in->t));
        in->m.base = in->dev + (size_t)in->lead * backend_size(in->t);
        assert_int_equal(call(&c), MOAO_OK);
        collect(&c);
        for (int64_t k = 0; k < c.count; k++)
            for (int64_t j = 0; j < (c.op == SYRK ? c.n : 5); j++)
                for (int64_t i = c.op == SYRK ? j : 0; i < c.n; i++)
                    assert_true(get(out, k, i, j) == 0);
        assert_int_equal(trespasses(&c.a) + trespasses(&c.b), 0);
        dismantle(&c);
    }
}

/* More matrices than a grid has rows: the first, the last and those around 65,536 are all worked
 * on. One triangle serves all (stride 0), for both kinds of kernels. */
static void large_batch(void **state) {
    (void)state;
    static const int64_t ns[] = {3, 12, 35};
    for (size_t i = 0; i < COUNT(ns); i++) {
        const int64_t n = ns[i], count = small() ? 1000 : n == 3 ? 1200000 : 70000;
        double one = 1, *a = calloc((size_t)(n * n), sizeof *a);
        double *b = malloc(sizeof(double) * (size_t)(n * count));
        for (int64_t j = 0; j < n; j++)
            a[j * n + j] = 2;
        for (int64_t k = 0; k < n * count; k++)
            b[k] = (double)k;
        double *da = device_copy(a, sizeof(double) * (size_t)(n * n));
        double *db = device_copy(b, sizeof(double) * (size_t)(n * count));
        assert_int_equal(be->batch->trsm(ctx, BACKEND_D, 'L', 'L', 'N', 'N', count, batch_size(n),
                                         batch_size(1), &one, batch_strided(da, n, 0),
                                         batch_strided(db, n, n)),
                         MOAO_OK);
        int64_t bytes = n * count * 8, wrong = 0;
        assert_int_equal(be->copy(ctx, b, bytes, db, bytes, bytes, 1), MOAO_OK);
        assert_int_equal(be->sync(ctx), MOAO_OK);
        for (int64_t k = 0; k < n * count; k++)
            wrong += b[k] != (double)k / 2;
        assert_int_equal(wrong, 0);
        be->release(ctx, da), be->release(ctx, db);
        free(a), free(b);
    }
}

/* More products than a device works on at once, one after the other by the same block: of one size
 * and of several, in one and in two panels. */
static void many_products(void **state) {
    (void)state;
    static const int64_t ns[] = {256, 200, 70, 129}, ms[] = {130, 33, 130, 33};
    for (int v = 0; v < 4; v++) {
        test_case c = plain(TRMM, BACKEND_D, small() ? 70 : ns[v], small() ? 3 : ms[v]);
        c.count = small() || v ? 300 : 150, c.varied = v % 2, c.uplo = v % 2 ? 'U' : 'L';
        c.layout = v ? v % LAYOUTS : ALIGNED;
        run_case(c);
    }
}

/* Every routine beyond 65,536 matrices: around that number and the last ones are right, and so is
 * every hundredth of the others. */
static void large_batch_of_all(void **state) {
    (void)state;
    for (int op = 0; op < OPS; op++)
        for (int64_t n = 2; n <= 9; n += 7) {
            test_case c = plain(op, BACKEND_D, n, 2);
            c.count = small() ? 1000 : 65600;
            build(&c);
            assert_int_equal(call(&c), MOAO_OK);
            collect(&c);
            for (int64_t k = 0; k<c.count; k += k> 65500 || k % 100 ? 1 : 99)
                assert_true(error_of(&c, k) <= tolerance[op]);
            assert_int_equal(trespasses(&c.a), 0);
            dismantle(&c);
        }
}

/* The same call gives the same bits, alone and beside other work in a second stream. */
static void repeatable(void **state) {
    (void)state;
    static const int64_t ns[] = {8, 31, 64, 111, 256};
    for (size_t i = 0; i < (small() ? 2 : COUNT(ns)); i++)
        for (int op = POTRF; op < OPS; op++) {
            test_case c = plain(op, BACKEND_D, ns[i], 7), d;
            backend_ctx *first = ctx, *second = NULL;
            c.count = 40;
            const uint64_t start = seed;
            build(&c);
            seed = start;
            d = plain(op, BACKEND_D, ns[i], 7);
            d.count = 40;
            build(&d);
            assert_int_equal(be->open(0, NULL, &second), MOAO_OK);
            assert_int_equal(call(&c), MOAO_OK);
            ctx = second;
            assert_int_equal(call(&d), MOAO_OK);
            collect(&d);
            ctx = first;
            collect(&c);
            size_t bytes = (size_t)c.a.total * sizeof(double);
            assert_memory_equal(c.a.host, d.a.host, bytes);
            if (has_b(op))
                assert_memory_equal(c.b.host, d.b.host, (size_t)c.b.total * sizeof(double));
            dismantle(&c), dismantle(&d);
            be->close(second);
        }
}

/* The checks notice an error of 100 (n + 4) eps in one element, and one element written outside. */
static void checks_notice_errors(void **state) {
    (void)state;
    for (int op = 0; op < OPS; op++)
        for (int v = 0; v < 4; v++) {
            test_case c = plain(op, v & 1 ? BACKEND_S : BACKEND_D, v & 2 ? 40 : 12, 4);
            build(&c);
            assert_int_equal(call(&c), MOAO_OK);
            collect(&c);
            assert_true(verdict(&c, false));
            operand *o = op == TRSM || op == TRMM || is_solve(op) ? &c.b : &c.a;
            double x = get(o, 2, 3, 3), off = 100 * (double)(c.n + 4) * eps_of(c.t);
            set(o, 2, 3, 3, x + (x < 0 ? -off : off) * fmax(1, fabs(x)));
            assert_false(verdict(&c, true));
            set(o, 2, 3, 3, NAN);
            assert_false(verdict(&c, true));
            set(o, 2, 3, 3, x);
            assert_true(verdict(&c, false));
            set(&c.a, 1, c.n, 2, 1.0); /* the padding below a column */
            assert_false(verdict(&c, true));
            dismantle(&c);
        }
}

static void chosen(void) {
    if (small())
        sizes = small_sizes, size_count = COUNT(small_sizes);
    memset(seen, 0, sizeof seen);
}

static void print_errors(void) {
    for (int op = 0; op < OPS; op++)
        print_message("%s %-5s worst error %.2f (FP64) %.2f (FP32) of (n + 4) eps, allowed %.1f\n",
                      be->name, op_name[op], seen[0][op], seen[1][op], tolerance[op]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(triangular_on_b),    cmocka_unit_test(triangle_alone),
        cmocka_unit_test(hard_matrices),      cmocka_unit_test(info_of_bad_matrices),
        cmocka_unit_test(sizes_out_of_range), cmocka_unit_test(arguments),
        cmocka_unit_test(zero_scalars),       cmocka_unit_test(large_batch),
        cmocka_unit_test(many_products),      cmocka_unit_test(large_batch_of_all),
        cmocka_unit_test(repeatable),         cmocka_unit_test(checks_notice_errors),
    };
    const backend_tests all = {tests, COUNT(tests), chosen, print_errors};
    return run_on_backends(&all);
}
