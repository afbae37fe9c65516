/* gemm, symm, syrk, syr2k against products in double precision: variants, guards, alpha = 0 and
 * beta = 0. */
#include "support/matrix.h"

typedef enum { GEMM, SYMM, SYRK, SYR2K } which;

typedef struct {
    which op;
    backend_type t;
    char side, uplo, ta, tb;
    int64_t m, n, k;
    double alpha, beta;
} job;

static char part_of_a(const job *p) {
    return p->op == SYMM ? p->uplo : 'A';
}
static char part_of_c(const job *p) {
    return p->op == SYRK || p->op == SYR2K ? p->uplo : 'A';
}

static void run(const job *p, const mat *a, const mat *b, mat *c) {
    const scalar alpha = lin_scalar(p->t, p->alpha), beta = lin_scalar(p->t, p->beta);
    static const backend_op ops[] = {BACKEND_GEMM, BACKEND_SYMM, BACKEND_SYRK, BACKEND_SYR2K};
    lin_work w = work_new(be->workspace(ops[p->op], p->t, p->m, p->n));
    if (p->op == GEMM)
        must(be->gemm(ctx, p->t, p->ta, p->tb, p->m, p->n, p->k, &alpha, a->dev, a->ld, b->dev,
                      b->ld, &beta, c->dev, c->ld, w.dev, w.bytes));
    else if (p->op == SYMM)
        must(be->symm(ctx, p->t, p->side, p->uplo, p->m, p->n, &alpha, a->dev, a->ld, b->dev, b->ld,
                      &beta, c->dev, c->ld, w.dev, w.bytes));
    else if (p->op == SYRK)
        must(be->syrk(ctx, p->t, p->uplo, p->ta, p->n, p->k, &alpha, a->dev, a->ld, &beta, c->dev,
                      c->ld, w.dev, w.bytes));
    else
        must(be->syr2k(ctx, p->t, p->uplo, p->ta, p->n, p->k, &alpha, a->dev, a->ld, b->dev, b->ld,
                       &beta, c->dev, c->ld, w.dev, w.bytes));
    mat_down(c);
    work_free(&w);
}

/* x := x + its transpose */
static void add_transposed(int64_t n, cplx *x) {
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i <= j; i++)
            x[i + j * n] = x[j + i * n] = x[i + j * n] + x[j + i * n];
}

/* Full symmetric matrix from the triangle in x (zeros elsewhere). */
static void mirror(int64_t n, cplx *x) {
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < j; i++)
            x[i + j * n] = x[j + i * n] = x[i + j * n] + x[j + i * n];
}

/* Worst error of an entry of c over |alpha| |row of A| |column of B| + |beta c|, in eps. */
static double error(const job *p, const mat *a, const mat *b, const mat *old, const mat *c) {
    const int64_t m = c->m, n = c->n;
    int64_t k = p->k;
    cplx *x, *y, *r;
    double worst = 0;
    if (p->op == SYMM) {
        cplx *full = lin_dense(a, p->uplo, 'N', 'N'), *other = lin_dense(b, 'A', 'N', 'N');
        k = a->n;
        mirror(k, full);
        x = p->side == 'L' ? full : other, y = p->side == 'L' ? other : full;
    } else if (p->op == GEMM) {
        x = lin_dense(a, 'A', p->ta, 'N'), y = lin_dense(b, 'A', p->tb, 'N');
    } else {
        x = lin_dense(a, 'A', p->ta, 'N');
        y = lin_dense(p->op == SYRK ? a : b, 'A', p->ta == 'N' ? 'T' : 'N', 'N');
    }
    r = lin_product(m, n, k, x, y);
    if (p->op == SYR2K)
        add_transposed(n, r);
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < m; i++) {
            if (!lin_part(part_of_c(p), i, j))
                continue;
            const cplx before = p->beta != 0 ? mat_get(old, i, j) : 0;
            const double scale =
                fabs(p->alpha) *
                (p->alpha != 0
                     ? lin_norm(k, m, x + i) * lin_norm(k, 1, y + j * k) +
                           (p->op == SYR2K ? lin_norm(k, m, x + j) * lin_norm(k, 1, y + i * k) : 0)
                     : 0);
            const cplx want = (p->alpha != 0 ? p->alpha * r[i + j * m] : 0) + p->beta * before;
            const double gap = cabs(want - mat_get(c, i, j)) /
                               (scale + fabs(p->beta) * cabs(before) + DBL_MIN) / lin_eps(p->t);
            worst = lin_worst(gap, worst);
        }
    free(x), free(y), free(r);
    return worst;
}

static void check(job p) {
    const bool sym = p.op == SYRK || p.op == SYR2K;
    const int64_t order = p.side == 'L' ? p.m : p.n;
    lin_state = (uint64_t)(p.m + 7 * p.n + 31 * p.k) + p.op;
    mat a = p.op == SYMM ? mat_new(p.t, order, order, 3)
                         : mat_new(p.t, p.ta == 'N' ? (sym ? p.n : p.m) : p.k,
                                   p.ta == 'N' ? p.k : (sym ? p.n : p.m), 3);
    mat b = p.op == SYMM   ? mat_new(p.t, p.m, p.n, 1)
            : p.op == GEMM ? mat_new(p.t, p.tb == 'N' ? p.k : p.n, p.tb == 'N' ? p.n : p.k, 1)
                           : mat_new(p.t, a.m, a.n, 1);
    mat c = mat_new(p.t, sym ? p.n : p.m, p.n, 5), first = mat_new(p.t, c.m, c.n, 5), old;
    if (p.alpha != 0) { /* else they stay poison */
        mat_fill(&a, part_of_a(&p));
        mat_fill(&b, 'A');
    }
    if (p.beta != 0)
        mat_fill(&c, part_of_c(&p));
    memcpy(first.host, c.host, c.bytes);
    mat_up(&a), mat_up(&b), mat_up(&c), mat_up(&first);
    run(&p, &a, &b, &first);
    run(&p, &a, &b, &c);
    mat_down(&a), mat_down(&b);
    assert_true(mat_untouched(&a, '0') && mat_untouched(&b, '0') &&
                mat_untouched(&c, part_of_c(&p)));
    assert_memory_equal(first.host, c.host, c.bytes);
    old = c;
    old.host = c.before;
    const double err = error(&p, &a, &b, &old, &c);
    if (!(err <= 8))
        fail_msg("operation %d type %d %c%c%c%c %ld x %ld x %ld: error %.3g eps", p.op, p.t, p.side,
                 p.uplo, p.ta, p.tb, (long)p.m, (long)p.n, (long)p.k, err);
    if (c.m > 0 && c.n > 0 && p.alpha != 0) { /* a planted error is seen */
        mat_set(&c, c.m - 1, p.uplo == 'L' ? 0 : c.n - 1, 1e3 + 10 * (double)p.k);
        assert_false(error(&p, &a, &b, &old, &c) <= 8);
    }
    mat_free(&a), mat_free(&b), mat_free(&c), mat_free(&first);
}

static void variants(which op, int64_t m, int64_t n, int64_t k, double alpha, double beta) {
    for (backend_type t = BACKEND_D; t <= BACKEND_S; t++)
        for (int v = 0; v < 4; v++)
            check((job){op, t, "LR"[v >> 1], "LU"[v & 1], "NT"[v >> 1], "NT"[v & 1], m, n, k, alpha,
                        beta});
}

static void test_gemm(void **state) {
    static const int64_t sizes[] = {0, 1, 17, 64, 65};
    (void)state;
    for (int i = 0; i < 5; i++)
        variants(GEMM, sizes[i], sizes[4 - i], 33, -0.5, 0.25);
    variants(GEMM, 33, 7, 0, 1, 0.5);
    variants(GEMM, 33, 7, 5, 1, 0);
    variants(GEMM, 33, 7, 5, 0, 2);
}

static void each(which op) {
    static const int64_t sizes[] = {0, 1, 7, 17, 31, 32, 33, 63, 64, 65, 100, 255, 256, 257};
    for (size_t i = small() ? 8 : 0; i < (small() ? 11 : 14); i++) {
        variants(op, sizes[i], op == SYMM ? 9 : sizes[i], 13, -0.5, 0.25);
        variants(op, op == SYMM ? 9 : sizes[i], sizes[i], 70, 1, 0);
    }
    variants(op, 40, 40, 0, 1, 0.5);
    variants(op, 40, 40, 20, 0, 2);
    variants(op, 40, 40, 20, 0, 0);
    if (small())
        return;
    variants(op, 1031, op == SYMM ? 65 : 1031, 65, 1, 1);
    if (be != &backend_cpu) /* beyond the sizes of the leaves */
        for (int v = 0; v < 4; v++) {
            const bool left = v >> 1 || op != SYMM;
            check((job){op, BACKEND_D, left ? 'L' : 'R', "LU"[v & 1], "NT"[v >> 1], 'N',
                        left ? 4500 : 33, left && op == SYMM ? 33 : 4500, 33, -1, 1});
        }
}

static void test_symm(void **state) {
    (void)state;
    each(SYMM);
}
static void test_syrk(void **state) {
    (void)state;
    each(SYRK);
}
static void test_syr2k(void **state) {
    (void)state;
    each(SYR2K);
}

/* The other triangle is the mirror image, bit for bit; the given one and what is around stay. */
static void test_mirror(void **state) {
    static const int64_t sizes[] = {0, 1, 7, 31, 32, 33, 65, 100, 257};
    (void)state;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int v = 0; v < 8; v++) {
            const int64_t n = sizes[s];
            const char uplo = "LU"[v & 1];
            mat a = mat_new((backend_type)(v >> 1), n, n, 3);
            mat_fill(&a, uplo);
            mat_up(&a);
            must(be->mirror(ctx, a.t, uplo, n, a.dev, a.ld));
            mat_down(&a);
            assert_true(mat_untouched(&a, uplo == 'L' ? 'u' : 'l'));
            for (int64_t j = 0; j < n; j++)
                for (int64_t i = 0; i < n; i++)
                    assert_true(mat_get(&a, i, j) == mat_get(&a, j, i));
            mat_free(&a);
        }
    assert_int_equal(be->mirror(ctx, BACKEND_D, 'X', 0, NULL, 1), MOAO_INPUT);
    assert_int_equal(be->mirror(ctx, BACKEND_D, 'L', 2, NULL, 1), MOAO_INPUT);
    status_clear();
}

/* Each argument out of range, one at a time, is refused; what an operation does not use is not
 * asked for. */
static void test_refusals(void **state) {
    enum { NONE = 0, M = 1, K = 2, K2 = 4 }; /* symm, syrk, syr2k */
    static const struct {
        char side, uplo, trans;
        int64_t m, n, k, lda, ldb, ldc;
        backend_type t;
        int refused;
    } of[] = {
        {'L', 'L', 'N', 2, 2, 2, 2, 2, 2, BACKEND_D, NONE},
        {'R', 'U', 'N', 2, 1, 0, 1, 2, 2, BACKEND_D, NONE},
        {'L', 'L', 'N', 2, 2, 2, 1, 2, 2, BACKEND_D, M | K | K2}, /* lda */
        {'L', 'L', 'T', 2, 2, 3, 2, 3, 2, BACKEND_D, K | K2},
        {'L', 'L', 'T', 2, 2, 1, 1, 2, 2, BACKEND_D, M},
        {'R', 'L', 'N', 2, 3, 2, 2, 3, 3, BACKEND_D, M | K | K2},
        {'L', 'L', 'N', 2, 2, 2, 2, 1, 2, BACKEND_D, M | K2}, /* ldb */
        {'L', 'L', 'T', 2, 2, 3, 3, 2, 2, BACKEND_D, K2},
        {'L', 'L', 'N', 2, 2, 2, 2, 2, 1, BACKEND_D, M | K | K2}, /* ldc */
        {'X', 'L', 'N', 2, 2, 2, 2, 2, 2, BACKEND_D, M},
        {'L', 'X', 'N', 2, 2, 2, 2, 2, 2, BACKEND_D, M | K | K2},
        {'L', 'L', 'X', 2, 2, 2, 2, 2, 2, BACKEND_D, K | K2},
        {'L', 'U', 'N', -1, 2, 2, 2, 2, 2, BACKEND_D, M},
        {'L', 'U', 'N', 2, -1, 2, 2, 2, 2, BACKEND_D, M | K | K2},
        {'L', 'U', 'N', 2, 2, -1, 2, 2, 2, BACKEND_D, K | K2},
        {'L', 'U', 'N', 2, 2, 2, 2, 2, 2, BACKEND_Z, M | K | K2},
    };
    (void)state;
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        const double one = 1, x[32] = {0};
        lin_work w = work_new(1 << 20), in = work_new(sizeof x), out = work_new(sizeof x);
        const status st[3] = {
            be->symm(ctx, of[i].t, of[i].side, of[i].uplo, of[i].m, of[i].n, &one, in.dev,
                     of[i].lda, in.dev, of[i].ldb, &one, out.dev, of[i].ldc, w.dev, w.bytes),
            be->syrk(ctx, of[i].t, of[i].uplo, of[i].trans, of[i].n, of[i].k, &one, in.dev,
                     of[i].lda, &one, out.dev, of[i].ldc, w.dev, w.bytes),
            be->syr2k(ctx, of[i].t, of[i].uplo, of[i].trans, of[i].n, of[i].k, &one, in.dev,
                      of[i].lda, in.dev, of[i].ldb, &one, out.dev, of[i].ldc, w.dev, w.bytes)};
        for (int op = 0; op < 3; op++)
            if (st[op] != (of[i].refused >> op & 1 ? MOAO_INPUT : MOAO_OK))
                fail_msg("case %zu, %s: status %d", i,
                         op == 0   ? "symm"
                         : op == 1 ? "syrk"
                                   : "syr2k",
                         (int)st[op]);
        status_clear();
        work_free(&w), work_free(&in), work_free(&out);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gemm),   cmocka_unit_test(test_symm),
        cmocka_unit_test(test_syrk),   cmocka_unit_test(test_syr2k),
        cmocka_unit_test(test_mirror), cmocka_unit_test(test_refusals),
    };
    return RUN_ON_BACKENDS(tests);
}
