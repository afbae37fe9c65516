/* A factor in FP16 against double precision, with covariances of slopes: residual at the
 * accuracies that are asked for, variance of a target, in place, tiles chosen, rows together, and
 * factors or rows that are not finite. */
#include "moao/fp16_factor.h"
#include "support/matcov_case.h"
#include "support/matrix.h"

typedef struct {
    int64_t m, v;
    double *l, *b, *w; /* m x m: Cmm0 above the diagonal, L on and below it; v x m: Ctm0, W */
    double *c;         /* m x m: Cmm0 */
    double truth;      /* trace of Ctt */
    double *l_dev;     /* room for l */
    void *place;       /* for its halves */
} problem;

static problem p;

/* 6 m, 3 laser and 2 natural stars of 12 subapertures across, truth sensor likewise. */
static void set_case(sys *s, profile *prof) {
    const case_sensor o[5] = {{12, {40, 0}, 90000, 1, 0, {0}, 0},
                              {12, {-20, 35}, 90000, 1, 0, {0}, 0},
                              {12, {-20, -35}, 90000, 1, 0, {0}, 0},
                              {11, {10, 20}, INFINITY, 1, 0, {0}, 9},
                              {11, {-25, 5}, INFINITY, 1, 0, {0}, 9.5}};
    const double total = pow(0.15, -5.0 / 3);
    const double layer[4][5] = {{0, 25, 0.6 * total, 5, 3},
                                {1500, 25, 0.15 * total, 8, -4},
                                {5000, 25, 0.15 * total, 15, 6},
                                {12000, 25, 0.1 * total, 20, 0}};
    case_sys(6, 0.2, 12, 5, o, s);
    case_profile(4, layer, prof);
}

static void *numbers(int64_t count) {
    void *x = calloc((size_t)count, sizeof(double));
    assert_non_null(x);
    return x;
}

static void fill_problem(void) {
    sys s;
    profile prof;
    matcov *mc;
    matcov_target *mt;
    const double dir[2] = {CASE_ARCSEC(5), CASE_ARCSEC(-8)};
    set_case(&s, &prof);
    case_ok(matcov_prepare(&s, &prof, &mc));
    case_ok(matcov_tabulate(mc));
    case_ok(matcov_target_init(mc, dir, false, &mt));
    p.m = (int64_t)s.m, p.v = (int64_t)s.t;
    p.l = numbers(p.m * p.m), p.c = numbers(p.m * p.m);
    p.b = numbers(p.v * p.m), p.w = numbers(p.v * p.m);
    case_ok(matcov_fill_cmm(mc, 0, s.m, 0, s.m, p.c, s.m));
    case_ok(matcov_fill_ctm(mt, 0, s.m, p.b, s.t));
    for (size_t i = 0; i < s.t; i++) {
        double x;
        case_ok(matcov_fill_ctt(mc, i, 1, i, 1, &x, 1));
        p.truth += x;
    }
    matcov_target_free(mt);
    matcov_free(mc);
    case_profile_free(&prof);
    sys_free(&s);
}

static void setup(void) {
    const double one = 1;
    int info;
    fill_problem();
    memcpy(p.l, p.c, (size_t)(p.m * p.m) * sizeof *p.l);
    memcpy(p.w, p.b, (size_t)(p.v * p.m) * sizeof *p.w);
    must(backend_cpu.potrf(NULL, BACKEND_D, 'L', p.m, p.l, p.m, &info, NULL, 0));
    assert_int_equal(info, 0);
    for (int k = 0; k < 2; k++)
        must(backend_cpu.trsm(NULL, BACKEND_D, 'R', 'L', k ? 'N' : 'T', 'N', p.v, p.m, &one, p.l,
                              p.m, p.w, p.v, NULL, 0));
    must(be->alloc(ctx, (size_t)(p.m * p.m) * sizeof *p.l, (void **)&p.l_dev));
    must(be->alloc(ctx, (size_t)(p.m * p.m) * sizeof *p.l, &p.place));
}

static void teardown(void) {
    free(p.l), free(p.c), free(p.b), free(p.w);
    be->release(ctx, p.l_dev);
    be->release(ctx, p.place);
}

static void move(void *to, const void *from, size_t bytes) {
    const int64_t n = (int64_t)bytes;
    must(be->copy(ctx, to, n, from, n, n, 1));
    must(be->sync(ctx));
}

enum { BESIDE, IN_PLACE, INSIDE }; /* where the halves lie */

/* A factor of order m (the first ones of the case) from a sample of every fifth row. */
static fp16_factor *make(int64_t m, const fp16_factor_options *o, const double *l, int where,
                         int *info) {
    const int64_t n = p.v / 5;
    fp16_factor *f;
    double *b = numbers(n * m);
    for (int64_t j = 0; j < m; j++)
        for (int64_t i = 0; i < n; i++)
            b[i + j * n] = p.b[5 * i + j * p.v];
    mat rows = mat_new(BACKEND_D, n, m, 0);
    memcpy(rows.host, b, (size_t)(n * m) * sizeof *b);
    mat_up(&rows);
    move(p.l_dev, l, (size_t)(p.m * m) * sizeof *l);
    must(fp16_factor_open(be, ctx, m, o, &f));
    lin_work work = work_new(fp16_factor_make_work(f, n));
    must(fp16_factor_make(f, p.l_dev, p.m, n, rows.dev, n,
                          where == INSIDE     ? NULL
                          : where == IN_PLACE ? (void *)p.l_dev
                                              : p.place,
                          work.dev, work.bytes, info));
    work_free(&work);
    mat_free(&rows);
    free(b);
    return f;
}

/* What is above the blocks on the diagonal, and beyond the matrix, is as it was in p.l. */
static void above_untouched(int64_t m, int64_t panel) {
    double *l = numbers(p.m * m);
    move(l, p.l_dev, (size_t)(p.m * m) * sizeof *l);
    for (int64_t j = 0; j < m; j++)
        for (int64_t i = 0; i < p.m; i++)
            if (i < j / panel * panel || i >= m)
                assert_true(l[i + j * p.m] == p.l[i + j * p.m]);
    free(l);
}

/* n rows of b (ld n) solved, in single precision; half: also its halves. */
static float *solve(fp16_factor *f, int64_t n, int64_t m, const float *b, backend_f16 *half) {
    float *x = numbers(n * m), *dev;
    backend_f16 *w[2];
    const size_t bytes = (size_t)(n * m) * sizeof *x;
    must(be->alloc(ctx, bytes, (void **)&dev));
    for (int k = 0; k < 2; k++)
        must(be->alloc(ctx, bytes / 2, (void **)&w[k]));
    move(dev, b, bytes);
    lin_work work = work_new(fp16_factor_solve_work(f));
    must(fp16_factor_solve(f, n, dev, n, w[0], w[1], n, work.dev, work.bytes));
    move(x, dev, bytes);
    if (half != NULL)
        move(half, w[0], bytes / 2);
    work_free(&work);
    be->release(ctx, dev);
    for (int k = 0; k < 2; k++)
        be->release(ctx, w[k]);
    return x;
}

static float *right_side(int64_t m) {
    float *b = numbers(p.v * m);
    for (int64_t k = 0; k < p.v * m; k++)
        b[k] = (float)p.b[k];
    return b;
}

/* |B - W Cmm0| / |B|, and the target's variance by W: whole, and with W Cmm0 = B taken for granted.
 */
static double judge(const float *x, double variance[2]) {
    const double minus = -1, one = 1;
    double *w = numbers(p.v * p.m), *r = numbers(p.v * p.m), rho = 0, size = 0;
    for (int64_t k = 0; k < p.v * p.m; k++)
        w[k] = (double)x[k];
    memcpy(r, p.b, (size_t)(p.v * p.m) * sizeof *r);
    must(backend_cpu.gemm(NULL, BACKEND_D, 'N', 'N', p.v, p.m, p.m, &minus, w, p.v, p.c, p.m, &one,
                          r, p.v, NULL, 0));
    variance[0] = variance[1] = p.truth;
    for (int64_t k = 0; k < p.v * p.m; k++) {
        rho += r[k] * r[k];
        size += p.b[k] * p.b[k];
        variance[1] -= w[k] * p.b[k];
        variance[0] -= w[k] * (p.b[k] + r[k]); /* W Cmm0 W' - 2 W B' */
    }
    free(w);
    free(r);
    return sqrt(rho / size);
}

static double exact_variance(void) {
    double sum = p.truth;
    for (int64_t k = 0; k < p.v * p.m; k++)
        sum -= p.w[k] * p.b[k];
    return sum;
}

/* Tensor cores do not round sums but cut off, which costs more than what three products leave. */
static double cut_off(void) {
    return be == &backend_cpu ? 0 : 1e-4;
}

/* A random matrix in split FP16 on the device, and in double precision. */
static fp16_pair split(int64_t m, int64_t n, int exponent, double *a, backend_f16 *room[2]) {
    const size_t bytes = (size_t)(m * n) * sizeof **room;
    double *dev;
    must(be->alloc(ctx, 4 * bytes, (void **)&dev));
    for (int64_t k = 0; k < m * n; k++)
        a[k] = ldexp(lin_random(), -exponent + 14);
    move(dev, a, 4 * bytes);
    for (int k = 0; k < 2; k++)
        must(be->alloc(ctx, bytes, (void **)&room[k]));
    must(be->fp16->split(ctx, BACKEND_D, 'A', m, n, exponent, dev, m, room[0], m, room[1], m));
    must(be->sync(ctx));
    be->release(ctx, dev);
    return (fp16_pair){room[0], room[1], m, exponent};
}

/* The three products: 22 bits, whatever the pieces of the inner size; exponents and alpha undone;
 * beta = 0 does not read C. */
static void check_products(char ta, char tb, int64_t m, int64_t n, int64_t k, int64_t depth,
                           float beta) {
    double *a = numbers(m * k), *b = numbers(k * n);
    float *c = numbers(m * n), *dev;
    backend_f16 *room[2][2];
    const fp16_pair x = split(ta == 'N' ? m : k, ta == 'N' ? k : m, 20, a, room[0]),
                    y = split(tb == 'N' ? k : n, tb == 'N' ? n : k, -7, b, room[1]);
    const size_t bytes = (size_t)(m * n) * sizeof *c;
    for (int64_t i = 0; i < m * n; i++)
        c[i] = beta != 0 ? 3 : NAN;
    must(be->alloc(ctx, bytes, (void **)&dev));
    move(dev, c, bytes);
    must(fp16_gemm_part(be, ctx, FP16_ALL, depth, ta, tb, m, n, k, -0.5F, x, y, beta, dev, m));
    move(c, dev, bytes);
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < m; i++) {
            double sum = 0, size = 0;
            for (int64_t l = 0; l < k; l++) {
                const double z =
                    a[ta == 'N' ? i + l * m : l + i * k] * b[tb == 'N' ? l + j * k : j + l * n];
                sum += z;
                size += fabs(z);
            }
            const double want = -0.5 * sum + 3 * (double)beta;
            if (!(fabs((double)c[i + j * m] - want) <= 0x1p-20 * size + 1e-6 * (double)beta))
                fail_msg("%c%c %dx%dx%d: %g, not %g", ta, tb, (int)m, (int)n, (int)k,
                         (double)c[i + j * m], want);
        }
    for (int i = 0; i < 4; i++)
        be->release(ctx, room[i / 2][i % 2]);
    be->release(ctx, dev);
    free(a), free(b), free(c);
}

static void test_products(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) {
        check_products("NT"[i % 2], "NT"[i / 2], 33, 17, 100, 4096, 0);
        check_products("NT"[i % 2], "NT"[i / 2], 8, 40, 100, 30, 2);
        check_products("NT"[i % 2], "NT"[i / 2], 5, 1, 1, 1, 0);
    }
    const fp16_pair x = {NULL, NULL, 1, 100};
    assert_int_equal(fp16_gemm(be, ctx, 'N', 'N', 1, 1, 1, 1, x, x, 0, NULL, 1), MOAO_INPUT);
    status_clear();
}

/* Three products everywhere: nearly single precision. One product: 11 bits. In between, what is
 * asked for is what comes, within a factor 3. The variance of the target follows. */
static void test_accuracy(void **state) {
    (void)state;
    static const double asked[] = {0, 1e-5, 1e-4, 1};
    static const double rho_most[] = {4e-6, 3e-5, 3e-4, 1e-2},
                        var_most[] = {1e-6, 1e-5, 1e-4, 1e-2};
    const fp16_factor_options o = {64, 256, 512, p.v, 0};
    double share = 2, want = exact_variance();
    float *b = right_side(p.m);
    int info;
    fp16_factor *f = make(p.m, &o, p.l, false, &info);
    assert_int_equal(info, 0);
    for (int k = 0; k < 4; k++) {
        double variance[2];
        must(fp16_factor_choose(f, asked[k]));
        assert_true(fp16_factor_share(f) < share);
        share = fp16_factor_share(f);
        assert_true(k > 0 || share == 1);
        float *x = solve(f, p.v, p.m, b, NULL);
        const double rho = judge(x, variance);
        print_message("asked %-6g share %.3f: rho %.2e, variance %+.1e whole, %+.1e differences\n",
                      asked[k], share, rho, variance[0] / want - 1, variance[1] / want - 1);
        assert_true(rho <= rho_most[k] + cut_off());
        assert_true(fabs(variance[0] / want - 1) <= var_most[k] + cut_off());
        assert_true(fabs(variance[1] / want - 1) <= var_most[k] + cut_off());
        free(x);
    }
    assert_true(share == 0); /* accuracy 1 */
    fp16_factor_close(f);
    free(b);
}

/* Orders that are no multiple of anything, in place and beside L, tiles and panels of several
 * sizes, inner sizes cut: the same W within what three products leave. In place and not: the same
 * bits. */
static void test_shapes(void **state) {
    (void)state;
    static const int64_t orders[] = {1, 2, 63, 64, 65, 130, 200, 333};
    static const fp16_factor_options options[] = {{64, 64, 4096, 1000, 0},
                                                  {32, 96, 50, 1000, 0},
                                                  {50, 150, 4096, 37, 0},
                                                  {512, 512, 64, 8, 0}};
    for (int k = 0; k < (int)(sizeof orders / sizeof *orders); k += small() ? 3 : 1) {
        const int64_t m = orders[k];
        float *b = right_side(m);
        double *want = numbers(p.v * m), size = 0;
        const double one = 1;
        memcpy(want, p.b, (size_t)(p.v * m) * sizeof *want);
        for (int j = 0; j < 2; j++)
            must(backend_cpu.trsm(NULL, BACKEND_D, 'R', 'L', j ? 'N' : 'T', 'N', p.v, m, &one, p.l,
                                  p.m, want, p.v, NULL, 0));
        for (int64_t j = 0; j < p.v * m; j++)
            size = fmax(size, fabs(want[j]));
        for (int i = 0; i < 4; i++) {
            float *x[3];
            for (int where = BESIDE; where <= INSIDE; where++) {
                int info;
                fp16_factor *f = make(m, &options[i], p.l, where, &info);
                assert_int_equal(info, 0);
                if (where == INSIDE)
                    above_untouched(m, options[i].panel);
                x[where] = solve(f, p.v, m, b, NULL);
                fp16_factor_close(f);
            }
            for (int where = IN_PLACE; where <= INSIDE; where++)
                assert_memory_equal(x[0], x[where], (size_t)(p.v * m) * sizeof(float));
            for (int64_t j = 0; j < p.v * m; j++)
                if (!(fabs((double)x[0][j] - want[j]) <= (2e-4 + 50 * cut_off()) * size))
                    fail_msg("order %d, tiles %d: entry %d is %g, not %g", (int)m,
                             (int)options[i].tile, (int)j, (double)x[0][j], want[j]);
            free(x[0]), free(x[1]), free(x[2]);
        }
        free(want);
        free(b);
    }
}

/* The same tiles and bits at every making, and for rows whatever others come with them. */
static void test_repeatable(void **state) {
    (void)state;
    const fp16_factor_options o = {64, 192, 4096, 40, 2e-5};
    const int64_t n = 120;
    float *all = numbers(n * p.m), *some = numbers(o.rows * p.m);
    backend_f16 *half = numbers(n * p.m), *part = numbers(o.rows * p.m);
    fp16_factor *f[2];
    int info, three = 0;
    for (int k = 0; k < 2; k++)
        f[k] = make(p.m, &o, p.l, k == 1, &info);
    const int64_t nt = (p.m + 63) / 64;
    for (int solve_number = 0; solve_number < 2; solve_number++)
        for (int64_t j = 0; j < nt; j++)
            for (int64_t i = j + 1; i < nt; i++) {
                const bool here = fp16_factor_three(f[0], solve_number, i, j);
                assert_int_equal(here, fp16_factor_three(f[1], solve_number, i, j));
                three += here;
            }
    assert_true(three > 0 && three < nt * (nt - 1));
    for (int64_t j = 0; j < p.m; j++)
        for (int64_t i = 0; i < n; i++)
            all[i + j * n] = (float)p.b[i + j * p.v];
    float *x = solve(f[0], n, p.m, all, half);
    for (int64_t at = 0; at < n; at += o.rows) {
        for (int64_t j = 0; j < p.m; j++)
            for (int64_t i = 0; i < o.rows; i++)
                some[i + j * o.rows] = all[at + i + j * n];
        float *y = solve(f[1], o.rows, p.m, some, part);
        for (int64_t j = 0; j < p.m; j++) {
            assert_memory_equal(y + j * o.rows, x + at + j * n, (size_t)o.rows * sizeof *y);
            assert_memory_equal(part + j * o.rows, half + at + j * n,
                                (size_t)o.rows * sizeof *part);
        }
        free(y);
    }
    fp16_factor_close(f[0]), fp16_factor_close(f[1]);
    free(x), free(all), free(some), free(half), free(part);
}

/* A zero on the diagonal is told by its number; NaN and infinity by -1; a
 * NaN in a row of B stays in that row. */
static void test_not_finite(void **state) {
    (void)state;
    const fp16_factor_options o = {64, 128, 4096, p.v, 0};
    static const double wrong[] = {0, NAN, INFINITY};
    double *l = numbers(p.m * p.m);
    int info;
    for (int k = 0; k < 3; k++)
        for (int off = 0; off < (k > 0 ? 2 : 1); off++) {
            memcpy(l, p.l, (size_t)(p.m * p.m) * sizeof *l);
            l[100 + off * 80 + 100 * p.m] = wrong[k];
            fp16_factor_close(make(p.m, &o, l, false, &info));
            assert_int_equal(info, k == 0 ? 101 : -1);
        }
    free(l);
    fp16_factor *f = make(p.m, &o, p.l, false, &info);
    float *b = right_side(p.m), *x = solve(f, p.v, p.m, b, NULL);
    b[7 + 200 * p.v] = NAN;
    float *y = solve(f, p.v, p.m, b, NULL);
    for (int64_t j = 0; j < p.m; j++)
        for (int64_t i = 0; i < p.v; i++)
            assert_true(i == 7 ? isnan(y[i + j * p.v]) : y[i + j * p.v] == x[i + j * p.v]);
    fp16_factor_close(f);
    free(b), free(x), free(y);
}

static void test_refused(void **state) {
    (void)state;
    static const fp16_factor_options bad[] = {
        {0, 64, 1, 1, 0},  {64, 32, 1, 1, 0},  {64, 96, 1, 1, 0},  {64, 64, 0, 1, 0},
        {64, 64, 1, 0, 0}, {64, 64, 1, 1, -1}, {64, 64, 1, 1, NAN}};
    fp16_factor *f;
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        assert_int_equal(fp16_factor_open(be, ctx, 100, &bad[k], &f), MOAO_INPUT);
        assert_null(f);
        status_clear();
    }
    const fp16_factor_options o = {64, 64, 1, 1, 0};
    must(fp16_factor_open(be, ctx, 100, &o, &f));
    assert_int_equal(fp16_factor_solve(f, 1, NULL, 1, NULL, NULL, 1, NULL, (size_t)-1), MOAO_INPUT);
    status_clear();
    fp16_factor_close(f);
    fp16_factor_close(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products),   cmocka_unit_test(test_accuracy),
        cmocka_unit_test(test_shapes),     cmocka_unit_test(test_repeatable),
        cmocka_unit_test(test_not_finite), cmocka_unit_test(test_refused)};
    const backend_tests all = {tests, sizeof tests / sizeof *tests, setup, teardown};
    return run_on_backends(&all);
}
