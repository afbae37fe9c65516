/* trsm and trmm: every variant and type against a product in double precision, guards, alpha = 0,
 * host data, several contexts, ill-conditioned and badly scaled triangles; planted errors must be
 * seen.
 * seconds: 15 */
#include "support/matrix.h"

typedef struct {
    bool solve;
    backend_type t;
    char side, uplo, trans, diag;
    int64_t m, n;
    cplx alpha;
    enum { RESIDENT, HOST, MULTI } where;
} job;

/* A triangle that is well conditioned: off the diagonal entries of size 1 / sqrt(n). */
static mat triangle(const job *p) {
    const int64_t n = p->side == 'L' ? p->m : p->n;
    mat a = mat_new(p->t, n, n, 3);
    const char strict = p->uplo == 'L' ? 'l' : 'u';
    mat_fill(&a, strict);
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < n; i++)
            if (lin_part(strict, i, j))
                mat_set(&a, i, j, mat_get(&a, i, j) / (2 * sqrt((double)n)));
            else if (i == j && p->diag == 'N')
                mat_set(&a, i, j, 1.5 + 0.5 * lin_random());
    return a;
}

/* Part g of B between the whole, on the first context's device, and its own context's. */
static void move_part(const job *p, backend_ctx *its, const mat *b, int64_t from, int64_t part,
                      void *own, bool back) {
    const int64_t e = (int64_t)backend_size(p->t), rows = p->side == 'L' ? p->m : part,
                  cols = p->side == 'L' ? part : p->n;
    char *whole = (char *)b->dev + (p->side == 'L' ? from * b->ld : from) * e;
    const int64_t ld = b->ld * e, ldo = rows * e;
    must(be->sync(ctx));
    must(back ? be->copy(its, whole, ld, own, ldo, ldo, cols)
              : be->copy(its, own, ldo, whole, ld, ldo, cols));
    must(be->sync(its));
}

static void run_multi(const job *p, const scalar *alpha, const mat *a, mat *b) {
    enum { PARTS = 3 };
    const int64_t size = p->side == 'L' ? p->m : p->n, other = p->side == 'L' ? p->n : p->m;
    backend_ctx *each[PARTS];
    int64_t part[PARTS], start[PARTS], ldb[PARTS], from = 0;
    void *bs[PARTS], *dev[PARTS];
    size_t ldev[PARTS];
    for (int g = 0; g < PARTS; g++) {
        each[g] = ctx;
        if (g > 0)
            must(be->open(g % be->devices(), NULL, &each[g]));
        start[g] = from;
        part[g] = other * (g + 1) / PARTS - from;
        from += part[g];
        ldb[g] = p->side == 'L' ? size : part[g];
        must(be->alloc(each[g], (size_t)(size * part[g]) * backend_size(p->t), &bs[g]));
        move_part(p, each[g], b, start[g], part[g], bs[g], false);
        ldev[g] = be->multi_workspace(g, p->t, p->side, size, part[g]);
        must(be->alloc(each[g], ldev[g], &dev[g]));
    }
    must((p->solve ? be->trsm_multi : be->trmm_multi)(PARTS, each, p->t, p->side, p->uplo, p->trans,
                                                      p->diag, size, part, alpha, a->dev, a->ld, bs,
                                                      ldb, dev, ldev));
    must(be->sync(ctx));
    for (int g = 0; g < PARTS; g++) {
        move_part(p, each[g], b, start[g], part[g], bs[g], true);
        be->release(each[g], bs[g]);
        be->release(each[g], dev[g]);
        if (g > 0)
            be->close(each[g]);
    }
}

/* The result in b->host. */
static void run(const job *p, const mat *a, mat *b) {
    const scalar alpha = lin_scalar(p->t, p->alpha);
    const backend_op op = p->solve ? BACKEND_TRSM : BACKEND_TRMM;
    lin_work w = work_new(p->where == HOST ? be->host_workspace(op, p->t, p->side, p->m, p->n)
                                           : be->workspace(op, p->t, p->m, p->n));
    if (p->where == HOST) {
        must((p->solve ? be->trsm_host : be->trmm_host)(ctx, p->t, p->side, p->uplo, p->trans,
                                                        p->diag, p->m, p->n, &alpha, a->host, a->ld,
                                                        b->host, b->ld, w.dev, w.bytes));
        must(be->sync(ctx));
    } else {
        if (p->where == MULTI)
            run_multi(p, &alpha, a, b);
        else
            must((p->solve ? be->trsm : be->trmm)(ctx, p->t, p->side, p->uplo, p->trans, p->diag,
                                                  p->m, p->n, &alpha, a->dev, a->ld, b->dev, b->ld,
                                                  w.dev, w.bytes));
        mat_down(b);
    }
    work_free(&w);
}

/* Error of x for right-hand sides `old`, worst vector, in units of eps: trsm |op(A) x - alpha b|
 * over |A| |x| + |alpha b|; trmm |x - alpha op(A) b| over |alpha| |A| |b|, with Frobenius norms. */
static double tri_error(const job *p, const mat *a, const mat *old, const mat *x) {
    const int64_t n = p->side == 'L' ? p->m : p->n, other = p->side == 'L' ? p->n : p->m;
    cplx *t = lin_dense(a, p->uplo, p->trans, p->diag), *b = lin_dense(old, 'A', 'N', 'N');
    cplx *y = lin_dense(x, 'A', 'N', 'N');
    const cplx *in = p->solve ? y : b, *out = p->solve ? b : y;
    cplx *r = p->side == 'L' ? lin_product(n, other, n, t, in) : lin_product(other, n, n, in, t);
    const int64_t stride = p->side == 'L' ? 1 : p->m, step = p->side == 'L' ? p->m : 1;
    const double size = lin_norm(n * n, 1, t);
    double worst = 0;
    for (int64_t k = 0; k < other; k++) {
        double scale = size * lin_norm(n, stride, in + k * step) * (p->solve ? 1 : cabs(p->alpha));
        if (p->solve)
            scale += cabs(p->alpha) * lin_norm(n, stride, out + k * step);
        for (int64_t i = 0; i < n; i++) {
            const int64_t at = i * stride + k * step;
            r[at] = p->solve ? r[at] - p->alpha * out[at] : p->alpha * r[at] - out[at];
        }
        worst =
            lin_worst(lin_norm(n, stride, r + k * step) / (scale + DBL_MIN) / lin_eps(p->t), worst);
    }
    free(t), free(b), free(y), free(r);
    return worst;
}

/* Errors grow like the square root of the order; 4 + sqrt(n) is several times what is seen. */
static double bound(int64_t n) {
    return 4 + sqrt((double)n);
}

static void check(job p) {
    const int64_t n = p.side == 'L' ? p.m : p.n;
    lin_state = (uint64_t)(p.m * 1000 + p.n + p.t) * 77 +
                (uint64_t)(p.side + p.uplo * 2 + p.trans * 4 + p.diag * 8);
    mat a = triangle(&p), b = mat_new(p.t, p.m, p.n, 5), first = mat_new(p.t, p.m, p.n, 5), old;
    mat_fill(&b, 'A');
    memcpy(first.host, b.host, b.bytes);
    mat_up(&a);
    mat_up(&b);
    mat_up(&first);
    run(&p, &a, &first);
    run(&p, &a, &b);
    mat_down(&a);
    assert_true(mat_untouched(&a, '0'));
    assert_true(mat_untouched(&b, 'A'));
    assert_memory_equal(first.host, b.host, b.bytes); /* the same bits again */
    old = b;
    old.host = b.before;
    const double err = tri_error(&p, &a, &old, &b);
    if (!(err <= bound(n)))
        fail_msg("%s type %d %c%c%c%c %ld x %ld where %d: error %.3g eps",
                 p.solve ? "trsm" : "trmm", p.t, p.side, p.uplo, p.trans, p.diag, (long)p.m,
                 (long)p.n, p.where, err);
    if (p.m > 0 && p.n > 0) { /* a planted error is seen */
        const double big = lin_norm(1, 1, (cplx[]){mat_get(&b, p.m - 1, p.n / 2)}) + 1;
        mat_set(&b, p.m - 1, p.n / 2,
                mat_get(&b, p.m - 1, p.n / 2) +
                    big * 100 * bound(n) * sqrt((double)n + 1) * lin_eps(p.t) * 10);
        assert_false(tri_error(&p, &a, &old, &b) <= bound(n));
    }
    mat_free(&a), mat_free(&b), mat_free(&first);
}

static void all_variants(int64_t n, int64_t other, backend_type from, backend_type to, int where,
                         bool both) {
    for (int v = 0; v < 24; v++)
        for (backend_type t = from; t <= to; t++) {
            job p = {true, t, "LR"[v & 1], "LU"[v >> 1 & 1], "NTC"[v >> 3], "NU"[v >> 2 & 1], 0,
                     0,    0, where};
            if (p.trans == 'C' && (t == BACKEND_D || t == BACKEND_S) && v < 20)
                continue; /* the same as T; two variants are enough */
            p.m = p.side == 'L' ? n : other;
            p.n = p.side == 'L' ? other : n;
            p.alpha = t == BACKEND_Z || t == BACKEND_C ? 0.75 - 0.5 * I : -0.75;
            check(p);
            p.solve = false;
            if (both)
                check(p);
        }
}

/* Sizes around every power of two, in all variants and types. */
static void test_small(void **state) {
    static const int64_t sizes[] = {0, 1, 7, 17, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129};
    (void)state;
    if (small()) { /* a partial block, and two blocks with a partial third */
        all_variants(33, 5, BACKEND_D, BACKEND_C, RESIDENT, true);
        all_variants(300, 3, BACKEND_D, BACKEND_D, RESIDENT, true);
        return;
    }
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        all_variants(sizes[i], 5, BACKEND_D, BACKEND_C, RESIDENT, true);
    all_variants(17, 0, BACKEND_D, BACKEND_C, RESIDENT, true);
    all_variants(33, 1, BACKEND_D, BACKEND_C, RESIDENT, true);
    all_variants(40, 257, BACKEND_D, BACKEND_C, RESIDENT, true);
}

static void test_medium(void **state) {
    (void)state;
    if (small())
        skip();
    for (int64_t n = 255; n <= 257; n++)
        all_variants(n, 7, BACKEND_D, BACKEND_C, RESIDENT, true);
    all_variants(521, 3, BACKEND_D, BACKEND_C, RESIDENT, true);
    all_variants(300, 1100, BACKEND_D, BACKEND_D, RESIDENT, true);
}

/* Longer than one group of inverted blocks, and than the part that is multiplied out of place. */
static void test_large(void **state) {
    (void)state;
    if (small())
        skip();
    all_variants(1031, 6, BACKEND_D, BACKEND_S, RESIDENT, true);
    if (be == &backend_cpu)
        return;
    for (int v = 0; v < 8; v++) {
        job p = {true, BACKEND_D, "LR"[v & 1], "LU"[v >> 1 & 1], "NT"[v >> 2], 'N',
                 0,    0,         1,           RESIDENT};
        p.m = p.side == 'L' ? 4700 : 1100;
        p.n = p.side == 'L' ? 1100 : 4700;
        check(p);
        p.solve = false;
        check(p);
    }
}

/* Host data in panels, and B split over contexts (of one device where there is only one). */
static void test_host_and_multi(void **state) {
    (void)state;
    if (small()) {
        check((job){true, BACKEND_D, 'L', 'L', 'N', 'N', 65, 11, 1, HOST});
        check((job){false, BACKEND_D, 'R', 'L', 'N', 'N', 11, 65, 1, HOST});
        check((job){true, BACKEND_D, 'L', 'U', 'N', 'N', 65, 11, 1, MULTI});
        check((job){false, BACKEND_D, 'R', 'L', 'T', 'N', 11, 65, 1, MULTI});
        check((job){true, BACKEND_D, 'L', 'L', 'N', 'N', 1024, 20, 1, HOST});  /* A in pieces */
        check((job){true, BACKEND_D, 'L', 'L', 'N', 'N', 1024, 512, 1, HOST}); /* by halves */
        check((job){false, BACKEND_D, 'R', 'U', 'T', 'N', 600, 1024, 1, HOST});
        return;
    }
    all_variants(65, 11, BACKEND_D, BACKEND_C, HOST, true);
    all_variants(be == &backend_cpu ? 40 : 100, 7, BACKEND_D, BACKEND_C, MULTI, true);
    if (be == &backend_cpu) { /* one function for data wherever they lie: there are no pieces, and
                                 test_medium has large sizes */
        check((job){true, BACKEND_D, 'L', 'L', 'N', 'N', 1100, 600, 1, HOST});
        check((job){false, BACKEND_D, 'R', 'U', 'T', 'N', 300, 1100, 1, HOST});
    } else {
        all_variants(1100, 300, BACKEND_D, BACKEND_D, HOST, true); /* A in three pieces */
        all_variants(1100, 600, BACKEND_D, BACKEND_D, HOST, true); /* the first panel by halves */
    }
    if (be != &backend_cpu) {
        all_variants(521, 70, BACKEND_D, BACKEND_D, MULTI, true);
        check((job){true, BACKEND_D, 'L', 'L', 'N', 'N', 2100, 9000, 1, HOST});
        for (int k = 0; k < 8; k++) /* panels by halves, the last one halved three times */
            check((job){k & 1, BACKEND_D, 'L', k & 2 ? 'U' : 'L', k & 4 ? 'T' : 'N', 'N', 1101,
                        8900, -0.5, HOST});
        check((job){true, BACKEND_D, 'R', 'U', 'N', 'N', 8900, 1101, -0.5, HOST});
        check((job){false, BACKEND_D, 'R', 'U', 'N', 'U', 8900, 1101, -0.5, HOST});
        check((job){true, BACKEND_D, 'R', 'U', 'N', 'N', 9000, 600, 1, HOST});
        check((job){false, BACKEND_D, 'R', 'U', 'T', 'N', 5000, 1100, 1, HOST});
        check((job){false, BACKEND_D, 'L', 'L', 'N', 'N', 600, 9000, 1, HOST});
        check(
            (job){true, BACKEND_D, 'L', 'U', 'N', 'N', 5000, 300, 1, HOST}); /* rows leave early */
        check((job){false, BACKEND_D, 'L', 'L', 'T', 'N', 5000, 300, 1, HOST});
        for (backend_type t = BACKEND_S; t <= BACKEND_C; t++) {
            check((job){true, t, 'L', 'L', 'C', 'N', 1031, 1300, -0.5, HOST});
            check((job){false, t, 'R', 'U', 'T', 'U', 1300, 1031, -0.5, HOST});
        }
        check((job){true, BACKEND_D, 'L', 'L', 'N', 'N', 2700, 600, 1, MULTI});
        check((job){true, BACKEND_D, 'L', 'U', 'N', 'N', 2700, 600, 1, MULTI});
        check((job){true, BACKEND_D, 'R', 'L', 'T', 'U', 600, 2700, 1, MULTI});
        check((job){true, BACKEND_D, 'R', 'L', 'N', 'N', 600, 2700, 1, MULTI});
        for (int v = 0; v < 8; v++) /* products go through A from either end */
            check((job){false, BACKEND_D, "LR"[v & 1], "LU"[v >> 1 & 1], "NT"[v >> 2], 'N',
                        v & 1 ? 600 : 2700, v & 1 ? 2700 : 600, -0.5, MULTI});
    }
}

/* alpha = 0 zeroes B without reading A or B. */
static void test_alpha_zero(void **state) {
    (void)state;
    for (backend_type t = BACKEND_D; t <= BACKEND_C; t++)
        for (int solve = 0; solve < 2; solve++) {
            const job p = {solve, t, 'L', 'U', 'N', 'N', 33, 9, 0, RESIDENT};
            mat a = mat_new(t, 33, 33, 2), b = mat_new(t, 33, 9, 4);
            mat_up(&a);
            mat_up(&b);
            run(&p, &a, &b);
            for (int64_t j = 0; j < 9; j++)
                for (int64_t i = 0; i < 33; i++)
                    assert_true(mat_get(&b, i, j) == 0);
            assert_true(mat_untouched(&b, 'A'));
            mat_free(&a), mat_free(&b);
        }
}

/* The Cholesky factor of a Gaussian covariance with condition number 1e11, in place of a. */
static void covariance_factor(mat *a) {
    const int64_t n = a->m;
    double *k = calloc((size_t)(n * n), sizeof *k);
    int info;
    assert_non_null(k);
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < n; i++)
            k[i + j * n] = exp(-(double)((i - j) * (i - j)) / 800) + (i == j ? 5e-10 : 0);
    must(backend_cpu.potrf(NULL, BACKEND_D, 'L', n, k, n, &info, NULL, 0));
    assert_int_equal(info, 0);
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < n; i++) {
            const bool here = !isnan(creal(mat_get(a, i, j)));
            if (here)
                mat_set(a, i, j, i >= j ? k[i + j * n] : k[j + i * n]);
        }
    free(k);
}

/* Rows scaled over 24 orders of magnitude, and an ill-conditioned factor whose solution is of size
 * 1 (b = op(A) x: the hard case for inverted blocks): the backward error stays small, amplified by
 * the condition number of a block (up to 1e5 here) where blocks are inverted, as they are on the
 * GPU. */
static void test_hard_triangles(void **state) {
    (void)state;
    const int64_t n = small() ? 100 : 700;
    for (int v = 0; v < 8; v++) {
        job p = {true, BACKEND_D, 'L', "LU"[v & 1], "NT"[v >> 1 & 1], 'N', n, 9, 1, RESIDENT};
        lin_state = 5;
        mat a = triangle(&p), b = mat_new(p.t, n, 9, 5), old;
        mat_fill(&b, 'A');
        if (v & 4)
            covariance_factor(&a);
        for (int64_t i = 0; i < n && !(v & 4); i++)
            for (int64_t j = 0; j < n; j++)
                if (lin_part(p.uplo, i, j))
                    mat_set(&a, i, j, mat_get(&a, i, j) * pow(10, 12 * sin(7.0 * (double)i)));
        cplx *t = lin_dense(&a, p.uplo, p.trans, 'N'), *x = lin_dense(&b, 'A', 'N', 'N');
        cplx *ax = lin_product(n, 9, n, t, x);
        for (int64_t k = 0; k < n * 9; k++)
            mat_set(&b, k % n, k / n, ax[k]);
        mat_up(&a), mat_up(&b);
        run(&p, &a, &b);
        old = b;
        old.host = b.before;
        const double err = tri_error(&p, &a, &old, &b);
        print_message("%s %c%c: backward error %.2g eps\n", v & 4 ? "covariance" : "scaled rows",
                      p.uplo, p.trans, err);
        assert_false(!(err <= bound(n) * (v & 4 && be != &backend_cpu ? 1e5 : 1)));
        free(t), free(x), free(ax);
        mat_free(&a), mat_free(&b);
    }
}

/* Arguments out of range are refused before anything is touched. */
static void test_refusals(void **state) {
    double x[4] = {1, 1, 1, 1};
    (void)state;
#define TRI(side, uplo, trans, diag, m, n, lda, ldb)                                               \
    be->trsm(ctx, BACKEND_D, side, uplo, trans, diag, m, n, x, x, lda, x, ldb, NULL, 0)
    assert_int_equal(TRI('X', 'L', 'N', 'N', 0, 0, 1, 1), MOAO_INPUT);
    assert_int_equal(TRI('L', 'X', 'N', 'N', 0, 0, 1, 1), MOAO_INPUT);
    assert_int_equal(TRI('L', 'L', 'X', 'N', 0, 0, 1, 1), MOAO_INPUT);
    assert_int_equal(TRI('L', 'L', 'N', 'X', 0, 0, 1, 1), MOAO_INPUT);
    assert_int_equal(TRI('L', 'L', 'N', 'N', -1, 0, 1, 1), MOAO_INPUT);
    assert_int_equal(TRI('L', 'L', 'N', 'N', 2, 1, 1, 2), MOAO_INPUT);
    assert_int_equal(TRI('L', 'L', 'N', 'N', 2, 1, 2, 1), MOAO_INPUT);
    assert_int_equal(TRI('L', 'L', 'N', 'N', 0, 0, 1, 1), MOAO_OK);
    status_clear();
}

/* The workspace of any size and type, with the 19 MiB that a context holds, stays under 64 MiB;
 * that of trsm serves fewer rows and columns. */
static void test_memory(void **state) {
    (void)state;
    for (backend_type t = BACKEND_D; t <= BACKEND_C; t++)
        for (int64_t n = 1; n < 200000; n = n * 3 / 2 + 1) {
            size_t before = 0;
            for (int64_t w = 1; w < 200000; w = w * 3 / 2 + 1) {
                const size_t bytes = be->workspace(BACKEND_TRSM, t, n, w);
                assert_true(bytes >= before && bytes >= be->workspace(BACKEND_TRSM, t, w, n));
                before = bytes;
                assert_true(bytes <= (size_t)45 << 20);
                assert_true(be->workspace(BACKEND_TRMM, t, n, w) <= (size_t)45 << 20);
            }
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory),         cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_alpha_zero),     cmocka_unit_test(test_small),
        cmocka_unit_test(test_hard_triangles), cmocka_unit_test(test_medium),
        cmocka_unit_test(test_host_and_multi), cmocka_unit_test(test_large),
    };
    return RUN_ON_BACKENDS(tests);
}
