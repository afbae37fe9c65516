/* potrf, trtri, lauum, potri, poti, potrs, posv: backward errors, guards, info on indefinite and
 * NaN input, badly scaled and ill-conditioned matrices, the same bits again; planted errors must be
 * seen. */
#include "support/matrix.h"

typedef enum { POTRF, TRTRI, LAUUM, POTRI, POTI, POTRS, POSV, OPS } which;
static const char *const names[] = {"potrf", "trtri", "lauum", "potri", "poti", "potrs", "posv"};
static const backend_op ops[] = {BACKEND_POTRF, BACKEND_TRTRI, BACKEND_LAUUM, BACKEND_POTRI,
                                 BACKEND_POTI,  BACKEND_POTRS, BACKEND_POSV};

/* How hard the matrix is: random and dominated by its diagonal; scaled on both sides over 16 orders
 * of magnitude; a Gaussian covariance, condition number 1e8 (D) or 1e3 (S); all of it so small, or
 * so large, that squares of its entries leave the range of numbers. */
typedef enum { EASY, SCALED, COVARIANCE, TINY, ENORMOUS } kind;

typedef struct {
    which op;
    backend_type t;
    char uplo, diag;
    int64_t n, nrhs;
    kind how;
} job;

/* Run on a (and b); the info of the call. */
static int run(const job *p, mat *a, mat *b) {
    lin_work w = work_new(be->workspace(ops[p->op], p->t, p->nrhs, p->n));
    int info = -77;
    void *di;
    must(be->alloc(ctx, sizeof info, &di));
    must(be->copy(ctx, di, 4, &info, 4, 4, 1));
#define ARGS ctx, p->t, p->uplo
#define TAIL w.dev, w.bytes
    switch (p->op) {
    case POTRF:
        must(be->potrf(ARGS, p->n, a->dev, a->ld, di, TAIL));
        break;
    case TRTRI:
        must(be->trtri(ARGS, p->diag, p->n, a->dev, a->ld, di, TAIL));
        break;
    case LAUUM:
        must(be->lauum(ARGS, p->n, a->dev, a->ld, TAIL));
        break;
    case POTRI:
        must(be->potri(ARGS, p->n, a->dev, a->ld, di, TAIL));
        break;
    case POTI:
        must(be->poti(ARGS, p->n, a->dev, a->ld, di, TAIL));
        break;
    case POTRS:
        must(be->potrs(ARGS, p->n, p->nrhs, a->dev, a->ld, b->dev, b->ld, TAIL));
        break;
    default:
        must(be->posv(ARGS, p->n, p->nrhs, a->dev, a->ld, b->dev, b->ld, di, TAIL));
    }
#undef ARGS
#undef TAIL
    must(be->copy(ctx, &info, 4, di, 4, 4, 1));
    must(be->sync(ctx));
    mat_down(a);
    mat_down(b);
    be->release(ctx, di);
    work_free(&w);
    return p->op == LAUUM || p->op == POTRS ? 0 : info;
}

static double entry(const job *p, int64_t i, int64_t j) {
    const double far = (double)((i - j) * (i - j));
    if (p->how == COVARIANCE)
        return exp(-far / 800) + (i == j ? (p->t == BACKEND_D ? 5e-7 : 0.05) : 0);
    const int far_from_1 = p->t == BACKEND_D ? 800 : 80;
    const double scale = p->how == SCALED
                             ? pow(10, 8 * sin(3.0 * (double)i) + 8 * sin(3.0 * (double)j))
                         : p->how == TINY     ? ldexp(1, -far_from_1)
                         : p->how == ENORMOUS ? ldexp(1, far_from_1)
                                              : 1;
    return scale * (i == j ? 2 + 0.5 * lin_random() : lin_random() / (double)p->n);
}

/* The matrix in the triangle of a: SPD, its factor (made by the CPU in double precision), or a
 * triangle. */
static mat make(const job *p, double *spd) {
    const int64_t n = p->n;
    mat a = mat_new(p->t, n, n, 3);
    const bool factored = p->op == POTRI || p->op == POTRS || p->op == LAUUM || p->op == TRTRI;
    double *x = calloc((size_t)(n * n + 1), sizeof *x);
    int info = 0;
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = j; i < n; i++) {
            const double v = entry(p, i, j);
            x[i + j * n] = spd[i + j * n] = spd[j + i * n] =
                p->t == BACKEND_S && !factored ? (float)v : v;
        }
    if (factored)
        must(backend_cpu.potrf(NULL, BACKEND_D, 'L', n, x, n > 1 ? n : 1, &info, NULL, 0));
    assert_int_equal(info, 0);
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = j; i < n; i++)
            if (p->diag == 'N' || i != j)
                mat_set(&a, p->uplo == 'L' ? i : j, p->uplo == 'L' ? j : i, x[i + j * n]);
    free(x);
    return a;
}

static cplx *to_complex(int64_t count, const double *x) {
    cplx *r = calloc((size_t)(count + 1), sizeof *r);
    for (int64_t i = 0; i < count; i++)
        r[i] = x[i];
    return r;
}

/* Both triangles of a symmetric result. */
static cplx *symmetric(const mat *a, char uplo) {
    cplx *x = lin_dense(a, uplo, 'N', 'N');
    for (int64_t j = 0; j < a->n; j++)
        for (int64_t i = 0; i < j; i++)
            x[i + j * a->n] = x[j + i * a->n] = x[i + j * a->n] + x[j + i * a->n];
    return x;
}

/* max over entries of |r - want| / scale(i, j), in eps; rows and columns as given by the norms. */
static double compare(int64_t n, const cplx *r, const cplx *want, const double *row,
                      const double *col, double eps) {
    double worst = 0;
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < n; i++) {
            const cplx w = want ? want[i + j * n] : i == j;
            worst = lin_worst(cabs(r[i + j * n] - w) / (row[i] * col[j] + DBL_MIN) / eps, worst);
        }
    return worst;
}

/* potrf: |L L' - A| over sqrt(a_ii a_jj). trtri: |X L - I| over |row of X| |column of L|. lauum: |R
 * - L' L| likewise. potri, poti: |X A - I| over the same. potrs, posv: |A x - b| over |A| |x| +
 * |b|. */
static double error(const job *p, const double *spd, const mat *old, const mat *a, const mat *rhs,
                    const mat *x) {
    const int64_t n = p->n;
    const char L = p->uplo;
    double *row = calloc((size_t)n + 1, 8), *col = calloc((size_t)n + 1, 8), worst = 0;
    cplx *f = NULL, *g = NULL, *r = NULL, *want = NULL;
    if (p->op == POTRS || p->op == POSV) {
        f = to_complex(n * n, spd), g = lin_dense(x, 'A', 'N', 'N'),
        want = lin_dense(rhs, 'A', 'N', 'N');
        r = lin_product(n, p->nrhs, n, f, g);
        const double size = lin_norm(n * n, 1, f);
        for (int64_t k = 0; k < p->nrhs; k++) {
            const double scale = size * lin_norm(n, 1, g + k * n) + lin_norm(n, 1, want + k * n);
            for (int64_t i = 0; i < n; i++)
                r[i + k * n] -= want[i + k * n];
            worst = lin_worst(lin_norm(n, 1, r + k * n) / (scale + DBL_MIN) / lin_eps(p->t), worst);
        }
    } else {
        if (p->op == POTRF) {
            f = lin_dense(a, L, L == 'L' ? 'N' : 'T', 'N'),
            g = lin_dense(a, L, L == 'L' ? 'T' : 'N', 'N');
            want = to_complex(n * n, spd);
            for (int64_t i = 0; i < n; i++)
                row[i] = col[i] = sqrt(spd[i + i * n]);
            r = lin_product(n, n, n, f, g);
        } else if (p->op == LAUUM) {
            f = lin_dense(old, L, L == 'L' ? 'T' : 'N', 'N'),
            g = lin_dense(old, L, L == 'L' ? 'N' : 'T', 'N');
            want = symmetric(a, L), r = lin_product(n, n, n, f, g);
        } else {
            f = p->op == TRTRI ? lin_dense(a, L, 'N', p->diag) : symmetric(a, L);
            g = p->op == TRTRI ? lin_dense(old, L, 'N', p->diag) : to_complex(n * n, spd);
            r = lin_product(n, n, n, f, g);
        }
        for (int64_t i = 0; i < n && p->op != POTRF; i++)
            row[i] = lin_norm(n, n, f + i), col[i] = lin_norm(n, 1, g + i * n);
        worst = compare(n, r, want, row, col, lin_eps(p->t));
    }
    free(row), free(col), free(f), free(g), free(r), free(want);
    return worst;
}

/* A few times what is seen. Inverses of an ill-conditioned matrix, and solutions with inverted
 * diagonal blocks (the GPU's), have errors amplified by the condition number of the factor. */
static double bound(const job *p) {
    const double grow = 8 + 2 * sqrt((double)p->n), condition = p->t == BACKEND_D ? 1e4 : 30;
    const bool inverse = p->op == POTRI || p->op == POTI, solve = p->op == TRTRI || p->op >= POTRS;
    if (p->how != COVARIANCE)
        return grow;
    return grow * (inverse ? 3 * condition : solve && be != &backend_cpu ? condition : 3);
}

static void check(job p) {
    double *spd = calloc((size_t)(p.n * p.n + 1), sizeof *spd);
    const char part = p.op == TRTRI && p.diag == 'U' ? (p.uplo == 'L' ? 'l' : 'u') : p.uplo;
    assert_non_null(spd);
    lin_state = (uint64_t)(p.n * 5 + p.op);
    mat a = make(&p, spd), b = mat_new(p.t, p.n, p.nrhs, 2), a1 = mat_new(p.t, p.n, p.n, 3);
    mat b1 = mat_new(p.t, p.n, p.nrhs, 2), old_a, old_b;
    mat_fill(&b, 'A');
    memcpy(a1.host, a.host, a.bytes), memcpy(b1.host, b.host, b.bytes);
    mat_up(&a), mat_up(&b), mat_up(&a1), mat_up(&b1);
    assert_int_equal(run(&p, &a1, &b1), 0);
    assert_int_equal(run(&p, &a, &b), 0);
    assert_memory_equal(a.host, a1.host, a.bytes);
    assert_memory_equal(b.host, b1.host, b.bytes);
    assert_true(mat_untouched(&a, p.op == POTRS ? '0' : part));
    assert_true(mat_untouched(&b, p.op >= POTRS ? 'A' : '0'));
    old_a = a, old_b = b;
    old_a.host = a.before, old_b.host = b.before;
    const double err = error(&p, spd, &old_a, &a, &old_b, &b);
    if (!(err <= bound(&p)))
        fail_msg("%s type %d %c%c n = %ld kind %d: error %.3g eps, bound %.3g", names[p.op], p.t,
                 p.uplo, p.diag, (long)p.n, p.how, err, bound(&p));
    if (p.n > 2 && p.how == EASY) { /* a planted error is seen */
        if (p.op >= POTRS)
            mat_set(&b, 1, 0, mat_get(&b, 1, 0) + 1e3);
        else
            mat_set(&a, p.uplo == 'L' ? p.n - 1 : 0, p.uplo == 'L' ? 0 : p.n - 1, 1e3);
        assert_false(error(&p, spd, &old_a, &a, &old_b, &b) <= bound(&p));
    }
    mat_free(&a), mat_free(&b), mat_free(&a1), mat_free(&b1);
    free(spd);
}

static void all(int64_t n, kind how) {
    for (which op = POTRF; op < OPS; op++)
        for (backend_type t = BACKEND_D; t <= BACKEND_S; t++)
            for (int v = 0; v < 4; v++) {
                const job p = {op, t, "LU"[v & 1], "NU"[v >> 1], n, v & 1 ? 1 : 5, how};
                if (p.diag == 'N' || (op == TRTRI && how == EASY))
                    check(p);
            }
}

static void test_sizes(void **state) {
    static const int64_t sizes[] = {0,  1,   7,   17,  31,  32,  33,  63,  64,
                                    65, 100, 127, 128, 129, 255, 256, 257, 193};
    (void)state;
    if (small()) {
        all(33, EASY);
        all(193, EASY);
        return;
    }
    for (size_t i = 0; i < (be == &backend_cpu ? 17 : 18); i++)
        all(sizes[i], EASY);
}

static void test_larger(void **state) {
    (void)state;
    if (small())
        skip();
    all(521, EASY);
    if (be == &backend_cpu)
        return;
    all(801, EASY);
    all(1537, EASY);
    for (which op = POTRF; op < OPS; op++) /* beyond one panel, one group of blocks, one leaf */
        for (int v = 0; v < 2; v++)
            check((job){op, BACKEND_D, "LU"[v], 'N', 2777, 3, EASY});
    check((job){POTRF, BACKEND_D, 'L', 'N', 6500, 1, EASY});
    check((job){POTRF, BACKEND_D, 'U', 'N', 4500, 1, EASY});
}

static void test_hard(void **state) {
    (void)state;
    for (int v = 0; v < 8; v++)
        for (int64_t n = 7; n < 200; n = 11 * n + 53) /* one tile, some */
            check((job){POTRF, v & 1 ? BACKEND_S : BACKEND_D, "LU"[v >> 1 & 1], 'N', n, 1,
                        v & 4 ? TINY : ENORMOUS});
    if (small())
        skip();
    all(100, SCALED);
    all(100, COVARIANCE);
    all(385, SCALED);
    all(385, COVARIANCE);
    if (be != &backend_cpu)
        all(700, COVARIANCE);
}

/* A pivot that is negative, infinite, subnormal or of subnormal inverse, a NaN, an infinity off the
 * diagonal. */
static double bad_entry(backend_type t, int k) {
    const bool d = t == BACKEND_D;
    const double bad[] = {-1,          (double)INFINITY, d ? 1e-320 : 1e-40, d ? 1e308 : 3e38,
                          (double)NAN, (double)INFINITY};
    return bad[k];
}

/* An indefinite minor of order k gives info = k; so does what is no number in row k. */
static void test_info(void **state) {
    static const which with[] = {POTRF, POTI, POSV};
    (void)state;
    for (int64_t n = 1; n <= (small() ? 100 : 300); n = n * 3 + 4)
        for (int w = 0; w < 3; w++)
            for (int v = 0; v < 24; v++) {
                const job p = {with[w], v & 1 ? BACKEND_S : BACKEND_D, "LU"[v >> 1 & 1], 'N', n, 2,
                               EASY};
                const int64_t at[] = {0, n / 3, n - 1};
                const bool off = v >= 16;
                const double bad = bad_entry(p.t, v >> 2);
                double *spd = calloc((size_t)(n * n), sizeof *spd);
                for (int i = 0; i < 3; i++) {
                    const int64_t k = at[i], j = off ? k / 2 : k;
                    mat a = make(&p, spd), b = mat_new(p.t, n, 2, 2);
                    mat_fill(&b, 'A');
                    mat_set(&a, p.uplo == 'L' ? k : j, p.uplo == 'L' ? j : k, bad);
                    mat_up(&a), mat_up(&b);
                    const int info = run(&p, &a, &b);
                    if (info != k + 1)
                        fail_msg("%s type %d %c n = %ld, %g: info %d, not %ld", names[p.op], p.t,
                                 p.uplo, (long)n, bad, info, (long)k + 1);
                    assert_true(mat_untouched(&a, p.uplo) && mat_untouched(&b, 'A'));
                    mat_free(&a), mat_free(&b);
                }
                free(spd);
            }
}

/* A zero on the diagonal: its position. */
static void test_singular(void **state) {
    (void)state;
    for (int v = 0; v < 4; v++) {
        const job p = {v & 2 ? POTRI : TRTRI, BACKEND_D, "LU"[v & 1], 'N', 150, 1, EASY};
        double *spd = calloc(150 * 150, sizeof *spd);
        mat a = make(&p, spd), b = mat_new(p.t, 150, 1, 2);
        mat_set(&a, 140, 140, 0), mat_set(&a, 77, 77, 0);
        mat_up(&a), mat_up(&b);
        assert_int_equal(run(&p, &a, &b), 78);
        assert_true(mat_untouched(&a, p.uplo));
        mat_free(&a), mat_free(&b);
        free(spd);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),    cmocka_unit_test(test_info),
        cmocka_unit_test(test_singular), cmocka_unit_test(test_hard),
        cmocka_unit_test(test_larger),
    };
    return RUN_ON_BACKENDS(tests);
}
