/* Formats at their limits: entries that samples do not see, numbers that are not finite, scales
 * whose squares no type holds, matrices that are singular, and what holds after a failure. */
#include "support/hier_case.h"
#include <float.h>

static hier_options options_of(hier_kind kind, backend_type t, double tol, int leaf) {
    return (hier_options){.kind = kind, .type = t, .tol = tol, .leaf = leaf, .lean = true};
}

/* Largest difference of an entry between the format and its source; NaN where one is. */
static double worst_entry(const format *f, const hier_source *s, backend_type t) {
    double *had = entries_of(f, t), *want = dense_of(f, s), worst = 0;
    for (int64_t e = 0; e < s->rows * s->cols; e++) {
        const double d = fabs(had[e] - want[e]);
        worst = d <= worst ? worst : d;
    }
    free(had), free(want);
    return worst;
}

/* exp(-|i - j| / 30) and 1 on the diagonal. */
static double *smooth(int64_t n, double scale) {
    double *a = malloc(8 * (size_t)(n * n));
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < n; i++)
            a[i + j * n] = scale * exp(-fabs((double)(i - j)) / 30);
    return a;
}

/* Entries far from the diagonal that no sample of the construction holds: found, for every place of
 * them, in both triangles and in one. */
static void test_far_entry(void **state) {
    static const int64_t place[][2] = {{5, 247}, {201, 12}};
    const int64_t n = 250;
    (void)state;
    for (int kind = 0; kind < 3; kind++)
        for (size_t k = 0; k < (small() ? 1 : sizeof place / sizeof *place); k++) {
            const bool symmetric = kind > 0;
            double *a = smooth(n, 1), *x = line_points(n);
            host_matrix m = {a, n};
            hier_source s = host_source(&m, symmetric, 1, x);
            hier_options o = options_of(kind == 2 ? HIER_H2 : HIER_HSS, BACKEND_D, 1e-6, 25);
            format *f;
            const int64_t i = place[k][0], j = place[k][1];
            a[i + j * n] += 1;
            if (symmetric)
                a[j + i * n] += 1;
            must(hier_open(be, ctx, &s, &o, &f));
            const double e = worst_entry(f, &s, BACKEND_D);
            if (!(e < 1e-5))
                fail_msg("kind %d, entry (%d, %d): an error of %g", kind, (int)i, (int)j, e);
            a[i + j * n] -= 1; /* another load: the entry is somewhere else */
            a[i + 1 + j * n] += 1;
            if (symmetric) {
                a[j + i * n] -= 1;
                a[j + (i + 1) * n] += 1;
            }
            must(hier_load(f, &s));
            assert_true(worst_entry(f, &s, BACKEND_D) < 1e-5);
            hier_close(f);
            free(a), free(x);
        }
}

/* A permutation has full ranks everywhere: it comes out right, or is refused where ranks are
 * bounded. */
static void test_permutation(void **state) {
    (void)state;
    for (int64_t n = 400; n <= (small() ? 400 : 1200); n += 800) {
        double *a = calloc((size_t)(n * n), 8);
        for (int64_t i = 0; i < n; i++)
            a[i + i * 7919 % n * n] = 1;
        host_matrix m = {a, n};
        hier_source s = host_source(&m, false, 0, NULL);
        hier_options o = options_of(HIER_HSS, BACKEND_D, 1e-8, 0);
        format *f;
        const status st = hier_open(be, ctx, &s, &o, &f);
        if (st == MOAO_OK) {
            assert_true(worst_entry(f, &s, BACKEND_D) < 1e-7);
            hier_close(f);
        } else {
            assert_int_equal(st, MOAO_MEMORY);
            assert_null(f);
            assert_non_null(strstr(status_message(), "dense"));
            status_clear();
        }
        assert_true(st == MOAO_OK || n > 512);
        free(a);
    }
}

/* A matrix that needs more than the largest rank that is allowed is refused for that, and is opened
 * where the limit is one that it keeps. */
static void test_rank_limit(void **state) {
    const int64_t n = 200;
    double *a = calloc((size_t)(n * n), 8);
    host_matrix m = {a, n};
    hier_source s = host_source(&m, false, 0, NULL);
    hier_options o = options_of(HIER_HSS, BACKEND_D, 1e-8, 50);
    format *f;
    (void)state;
    for (int64_t i = 0; i < n; i++) /* blocks of 50 x 50 off the diagonal: rank 12 */
        for (int64_t j = 0; j < n; j++)
            a[i + j * n] = i == j ? 4 : i % 50 < 12 && j % 50 == i % 50 ? 1 : 0;
    o.rank = 8;
    assert_int_equal(hier_open(be, ctx, &s, &o, &f), MOAO_MEMORY);
    assert_null(f);
    assert_non_null(strstr(status_message(), "ranks above 8 "));
    status_clear();
    o.rank = 32;
    must(hier_open(be, ctx, &s, &o, &f));
    assert_true(worst_entry(f, &s, BACKEND_D) < 1e-7);
    hier_close(f);
    free(a);
}

/* Which of all rows are compared: all where options.verify says so, also of a larger matrix. */
static void test_verify_all(void **state) {
    (void)state;
    if (small())
        return;
    const int64_t n = 2300;
    double *a = calloc((size_t)(n * n), 8);
    for (int64_t i = 0; i < n; i++)
        a[i * (n + 1)] = 1;
    a[17 + 2250 * n] = 1;
    host_matrix m = {a, n};
    hier_source s = host_source(&m, false, 0, NULL);
    hier_options o = options_of(HIER_HSS, BACKEND_D, 1e-6, 0);
    format *f;
    o.verify = INT32_MAX;
    must(hier_open(be, ctx, &s, &o, &f));
    double rms, worst;
    hier_info info;
    hier_describe(f, &info);
    assert_true(info.error < 1e-6);
    must(hier_check(f, &s, 64, 3, &rms, &worst));
    assert_true(worst < 1e-5);
    double *y = calloc((size_t)n, 8), *x = calloc((size_t)n, 8);
    x[2250] = 1;
    const size_t lwork = hier_workspace(f, 'L', 1);
    void *dx = device_copy(x, 8 * (size_t)n), *dy = poison(8 * (size_t)n), *work = poison(lwork);
    must(hier_apply(f, 'L', 'N', 'A', 1, 1, dx, n, 0, dy, n, work, lwork));
    to_host(y, dy, 8 * (size_t)n);
    assert_true(fabs(y[17] - 1) < 1e-5);
    be->release(ctx, dx), be->release(ctx, dy), be->release(ctx, work);
    free(a), free(x), free(y);
    hier_close(f);
}

/* Coordinates and entries that are not finite. */
static void test_not_finite(void **state) {
    const double bad[] = {NAN, INFINITY, -INFINITY};
    const int64_t n = 300;
    (void)state;
    for (int b = 0; b < 3; b++)
        for (int kind = 0; kind < 3; kind++) {
            static const hier_kind kinds[] = {HIER_DENSE, HIER_HSS, HIER_H2};
            double *x = square_points(n), rms, worst, *a = smooth(n, 1), *line = line_points(n);
            hier_source s, t;
            hier_options o = options_of(kinds[kind], BACKEND_D, 1e-5, 30);
            format *f, *g;
            const double kept = x[41];
            x[41] = bad[b];
            assert_int_equal(hier_points_open(be, ctx, HIER_EXPONENTIAL, 0.3, 2, n, x, &s),
                             MOAO_NUMERIC);
            assert_non_null(strstr(status_message(), "coordinate 1 of point 20"));
            status_clear();
            x[41] = kept;
            must(hier_points_open(be, ctx, HIER_EXPONENTIAL, 0.3, 2, n, x, &s));
            must(hier_open(be, ctx, &s, &o, &f));
            x[41] = bad[b];
            assert_int_equal(hier_open(be, ctx, &s, &o, &g), MOAO_NUMERIC);
            assert_null(g);
            status_clear();
            assert_int_equal(hier_check(f, &s, 4, 1, &rms, &worst), MOAO_NUMERIC);
            status_clear();
            assert_int_equal(hier_load(f, &s), MOAO_NUMERIC);
            status_clear();
            hier_close(f), hier_points_close(&s);
            /* one entry, near the diagonal or far from it */
            for (int where = 0; where < 2; where++) {
                host_matrix m = {a, n};
                const int64_t i = 7, j = where ? 290 : 8;
                t = host_source(&m, true, 1, line);
                must(hier_open(be, ctx, &t, &o, &f));
                const double was = a[i + j * n];
                a[i + j * n] = a[j + i * n] = bad[b];
                assert_int_equal(hier_open(be, ctx, &t, &o, &g), MOAO_NUMERIC);
                assert_null(g);
                status_clear();
                assert_int_equal(hier_check(f, &t, 1000, 1, &rms, &worst), MOAO_NUMERIC);
                status_clear();
                /* a load that failed leaves nothing behind, and another one all */
                assert_int_equal(hier_load(f, &t), MOAO_NUMERIC);
                status_clear();
                double y[300];
                assert_int_equal(hier_apply(f, 'L', 'N', 'A', 1, 1, y, n, 0, y, n, NULL,
                                            hier_workspace(f, 'L', 1)),
                                 MOAO_INPUT);
                status_clear();
                a[i + j * n] = a[j + i * n] = was;
                must(hier_load(f, &t));
                assert_true(worst_entry(f, &t, BACKEND_D) < 1e-4);
                hier_close(f);
            }
            free(x), free(a), free(line);
        }
}

static status no_svd(backend_ctx *c, backend_type t, char jobu, char jobv, const batch_cut *cut,
                     int64_t count, batch_dim m, batch_dim n, batch_mat a, batch_mat s, batch_mat u,
                     batch_mat v, int64_t *rank, int *info, void *work, size_t lwork) {
    (void)c, (void)t, (void)jobu, (void)jobv, (void)cut, (void)count, (void)m, (void)n, (void)a;
    (void)s, (void)u, (void)v, (void)rank, (void)info, (void)work, (void)lwork;
    return status_fail(MOAO_NUMERIC, "an SVD that fails");
}

/* As those of the backend, but they say that the last matrix has a number that is not finite. */
static status tell_not_finite(int64_t count, int *info, status st) {
    const int one = 1;
    return st != MOAO_OK ? st : be->copy(ctx, info + count - 1, 4, &one, 4, 4, 1);
}
static status svd_not_finite(backend_ctx *c, backend_type t, char jobu, char jobv,
                             const batch_cut *cut, int64_t count, batch_dim m, batch_dim n,
                             batch_mat a, batch_mat s, batch_mat u, batch_mat v, int64_t *rank,
                             int *info, void *work, size_t lwork) {
    return tell_not_finite(count, info,
                           be->lowrank->gesvj(c, t, jobu, jobv, cut, count, m, n, a, s, u, v, rank,
                                              info, work, lwork));
}
static status sampled_not_finite(backend_ctx *c, backend_type t, char jobu, char jobv,
                                 const batch_cut *cut, int64_t over, int power, uint64_t seed,
                                 int64_t count, batch_dim m, batch_dim n, batch_mat a, batch_mat s,
                                 batch_mat u, batch_mat v, int64_t *rank, int *info, void *work,
                                 size_t lwork) {
    return tell_not_finite(count, info,
                           be->lowrank->rsvd(c, t, jobu, jobv, cut, over, power, seed, count, m, n,
                                             a, s, u, v, rank, info, work, lwork));
}

/* A number that is not finite, found by an SVD while f is compressed: no such format is kept. */
static void refuse_not_finite(format *f, const hier_source *s, backend_lowrank *low) {
    double rms, worst;
    for (int samples = 0; samples <= 10; samples += 10) {
        must(hier_load(f, s));
        low->gesvj = svd_not_finite, low->rsvd = sampled_not_finite;
        assert_int_equal(hier_compress(f, 1e-3, 'W', samples), MOAO_NUMERIC);
        assert_non_null(strstr(status_message(), "not finite"));
        status_clear();
        low->gesvj = be->lowrank->gesvj, low->rsvd = be->lowrank->rsvd;
        assert_int_equal(hier_check(f, s, 4, 1, &rms, &worst), MOAO_INPUT);
        status_clear();
    }
}

/* After a compression that failed a format says that it holds no matrix, whatever is asked of it,
 * and a load gives it one. */
static void test_failed_compression(void **state) {
    (void)state;
    backend failing = *be;
    backend_lowrank low = *be->lowrank;
    const int64_t n = 700;
    failing.lowrank = &low;
    for (int kind = 0; kind < 2; kind++) {
        double *x = square_points(n), rms, worst, y[1];
        hier_source s;
        format *f;
        hier_options o = options_of(kind ? HIER_HSS : HIER_H2, BACKEND_D, 1e-5, 40);
        o.order = kind ? 0 : 5;
        must(hier_points_open(be, ctx, HIER_EXPONENTIAL, 0.3, 2, n, x, &s));
        must(hier_open(&failing, ctx, &s, &o, &f));
        low.gesvj = no_svd;
        assert_int_equal(hier_compress(f, 1e-3, 'W', 0), MOAO_NUMERIC);
        status_clear();
        low.gesvj = be->lowrank->gesvj;
        assert_int_equal(hier_check(f, &s, 4, 1, &rms, &worst), MOAO_INPUT);
        status_clear();
        assert_int_equal(hier_compress(f, 1e-3, 'W', 0), MOAO_INPUT);
        status_clear();
        assert_int_equal(hier_apply(f, 'L', 'N', 'A', 1, 1, y, n, 0, y, n, NULL, (size_t)1 << 40),
                         MOAO_INPUT);
        status_clear();
        assert_int_not_equal(hier_factor(f, 1), MOAO_OK);
        status_clear();
        assert_int_not_equal(hier_solve(f, 'N', 1, y, n, NULL, (size_t)1 << 40), MOAO_OK);
        status_clear();
        hier_parts(f, NULL, NULL);
        refuse_not_finite(f, &s, &low);
        must(hier_load(f, &s));
        must(hier_check(f, &s, 16, 1, &rms, &worst));
        assert_true(rms < (kind ? 1e-5 : 1e-2));
        must(hier_compress(f, 1e-4, 'W', 0));
        must(hier_check(f, &s, 16, 1, &rms, &worst));
        assert_true(rms < (kind ? 1e-4 : 1e-2));
        hier_close(f), hier_points_close(&s);
        free(x);
    }
}

/* A matrix times a power of two is the format times that power, bit for bit, where no number leaves
 * the type's range: squares of numbers do. */
static void test_scales(void **state) {
    static const struct {
        backend_type t;
        int exponent;
    } scale[] = {{BACKEND_D, -560}, {BACKEND_D, 530}, {BACKEND_D, -900}, {BACKEND_D, 900},
                 {BACKEND_S, -66},  {BACKEND_S, 70},  {BACKEND_S, -90},  {BACKEND_S, 100}};
    const int64_t n = small() ? 150 : 360;
    (void)state;
    for (size_t k = 0; k < sizeof scale / sizeof *scale; k += small() ? 3 : 1)
        for (int kind = 0; kind < 4; kind++) {
            const backend_type t = scale[k].t;
            const double tol = t == BACKEND_D ? 1e-7 : 1e-4, by = ldexp(1, scale[k].exponent);
            double *x = line_points(n), *had[2];
            hier_info info[2];
            for (int turn = 0; turn < 2; turn++) {
                double *a = smooth(n, turn ? by : 1), rms, worst;
                host_matrix m = {a, n};
                hier_source s = host_source(&m, kind != 1, 1, x);
                hier_options o =
                    options_of(kind < 2 ? HIER_HSS : HIER_H2, t, turn ? tol * by : tol, 30);
                format *f;
                must(hier_open(be, ctx, &s, &o, &f));
                if (kind == 3 || kind == 1)
                    must(hier_compress(f, 1e-3, 'W', 0));
                must(hier_check(f, &s, 30, 3, &rms, &worst));
                assert_true(rms > 0 && worst >= rms &&
                            rms < (turn ? by : 1) * (kind % 2 ? 0.1 : tol));
                hier_describe(f, &info[turn]);
                had[turn] = entries_of(f, t);
                free(a);
                hier_close(f);
            }
            assert_int_equal(info[0].rank_max, info[1].rank_max);
            assert_int_equal(info[0].rank_mean, info[1].rank_mean);
            if (!(fabs(info[1].error / by - info[0].error) <=
                  1e-6 * info[0].error + (t == BACKEND_D ? DBL_EPSILON : FLT_EPSILON)))
                fail_msg("kind %d, 2^%d: error %g, %g times the scale", kind, scale[k].exponent,
                         info[0].error, info[1].error / by);
            for (int64_t e = 0; e < n * n; e++)
                if (!(fabs(had[1][e] / by - had[0][e]) <=
                      64 * (t == BACKEND_D ? DBL_EPSILON : FLT_EPSILON)))
                    fail_msg("kind %d, 2^%d: entry %d is %g, not %g", kind, scale[k].exponent,
                             (int)e, had[1][e] / by, had[0][e]);
            free(x), free(had[0]), free(had[1]);
        }
}

/* Reciprocal conditions: within a factor of 10 of the truth, with and without a shift, at any
 * scale; what is singular is refused. */
static void test_condition(void **state) {
    const int64_t n = 300;
    (void)state;
    for (int k = 0; k < 7;
         k++) { /* diagonal 1, .., 10^-2k, turned by a reflection: known condition */
        const backend_type t = k == 6 ? BACKEND_S : BACKEND_D;
        const double least = k == 6 ? 1e-3 : pow(10, -2 * k), scale = k == 3 ? 0x1p-800 : 1;
        double *a = malloc(8 * (size_t)(n * n)), norm = 0, inverse = 0;
        double *v = malloc(8 * (size_t)n), *d = malloc(8 * (size_t)n);
        for (int64_t i = 0; i < n; i++)
            d[i] = pow(least, (double)i / (double)(n - 1)),
            v[i] = sqrt(2.0 / (double)n) * cos(0.7 * (double)i);
        double vv = 0, vdv = 0, viv = 0;
        for (int64_t i = 0; i < n; i++)
            vv += v[i] * v[i], vdv += v[i] * v[i] * d[i], viv += v[i] * v[i] / d[i];
        for (int64_t j = 0; j < n;
             j++) { /* (I - 2 v v' / v'v) D (I - 2 v v' / v'v) and its inverse */
            double sum = 0, isum = 0;
            for (int64_t i = 0; i < n; i++) {
                const double b = 2 / vv,
                             e = (i == j) * d[i] - b * v[i] * v[j] * (d[i] + d[j]) +
                                 b * b * vdv * v[i] * v[j],
                             g = (i == j) / d[i] - b * v[i] * v[j] * (1 / d[i] + 1 / d[j]) +
                                 b * b * viv * v[i] * v[j];
                a[i + j * n] = scale * e, sum += fabs(e), isum += fabs(g);
            }
            norm = fmax(norm, sum), inverse = fmax(inverse, isum);
        }
        host_matrix m = {a, n};
        hier_source s = host_source(&m, k % 2, 0, NULL);
        hier_options o = options_of(HIER_HSS, t, (t == BACKEND_D ? 1e-15 : 1e-6) * scale, 40);
        hier_info info;
        format *f;
        must(hier_open(be, ctx, &s, &o, &f));
        hier_describe(f, &info);
        assert_true(isnan(info.rcond));
        must(hier_factor(f, 0));
        hier_describe(f, &info);
        if (!(info.rcond * norm * inverse > 0.1 && info.rcond * norm * inverse < 10))
            fail_msg("condition 1e%d: %g estimated, %g it is", 2 * k, info.rcond,
                     1 / norm / inverse);
        must(hier_factor(f, 10 * scale)); /* the condition is 11 / 10 or a little more */
        hier_describe(f, &info);
        assert_in_range((int)(1000 * info.rcond), 50, 1000);
        hier_close(f);
        free(a), free(v), free(d);
    }
}

static void test_singular(void **state) {
    const int64_t n = 280;
    (void)state;
    for (int type = 0; type < 2; type++)
        for (int kind = 0; kind < 6; kind++) {
            const backend_type t = type ? BACKEND_S : BACKEND_D;
            double *a = smooth(n, kind == 5 ? 0x1p-60 : 1);
            for (int64_t j = 0; j < n; j++)
                for (int64_t i = 0; i < n; i++) {
                    if (kind == 0)
                        a[i + j * n] = 0;
                    else if (kind == 1) /* of rank 2 */
                        a[i + j * n] = cos(0.01 * (double)(i - j));
                    else if (kind == 2 && i == 200) /* two equal rows */
                        a[i + j * n] = a[13 + j * n];
                    else if (kind == 3 && j == 100) /* a column of zeros */
                        a[i + j * n] = 0;
                    else if (kind == 4) /* smoother than numbers can hold */
                        a[i + j * n] = exp(-pow((double)(i - j) / 60, 2));
                    else if (kind == 5 && i == 0) /* a row is the sum of two others */
                        a[j * n] = a[20 + j * n] + a[250 + j * n];
                }
            host_matrix m = {a, n};
            hier_source s = host_source(&m, false, 0, NULL);
            hier_options o = options_of(HIER_HSS, t, 0, 40);
            hier_info info;
            format *f;
            o.tol = kind == 5 ? 0x1p-80 : t == BACKEND_D ? 1e-14 : 1e-6;
            must(hier_open(be, ctx, &s, &o, &f));
            const status st = hier_factor(f, 0);
            hier_describe(f, &info);
            print_message("singular %c %d: %s, reciprocal condition %.1e\n",
                          t == BACKEND_D ? 'D' : 'S', kind,
                          st == MOAO_NUMERIC ? "refused" : "taken", info.rcond);
            assert_int_equal(st, MOAO_NUMERIC);
            assert_non_null(strstr(status_message(), "singular"));
            status_clear();
            double y[280] = {0};
            assert_int_equal(hier_solve(f, 'N', 1, y, n, y, sizeof y), MOAO_INPUT);
            status_clear();
            must(hier_factor(f, kind == 5 ? 0x1p-60 : 1));
            hier_close(f);
            free(a);
        }
}

/* HSS: singular values cut anew; symmetric or not, small errors, smaller ranks; solves afterwards.
 */
static void test_hss_compression(void **state) {
    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        const int64_t n = 500;
        const backend_type t = kind == 3 ? BACKEND_S : BACKEND_D;
        double *x = kind % 2 ? square_points(n) : line_points(n), rms, worst, size = 0;
        hier_source s;
        format *f;
        hier_info a, b;
        must(hier_points_open(be, ctx, kind % 2 ? HIER_EXPONENTIAL : HIER_CAUCHY, 0.3,
                              kind % 2 ? 2 : 1, n, x, &s));
        hier_options o = options_of(HIER_HSS, t, t == BACKEND_D ? 1e-9 : 1e-5, 40);
        must(hier_open(be, ctx, &s, &o, &f));
        hier_describe(f, &a);
        const double tol = kind == 2 ? 1e-6 : 1e-3;
        must(hier_compress(f, tol, 'W', 0));
        must(hier_check(f, &s, 64, 1, &rms, &worst));
        hier_describe(f, &b);
        double *dense = dense_of(f, &s);
        for (int64_t e = 0; e < n * n; e++)
            size = hypot(size, dense[e]);
        print_message(
            "HSS %d: ranks %d (%d), %d (%d) after compression at %.0e, rms error %.1e of %.1e\n",
            kind, a.rank_mean, a.rank_max, b.rank_mean, b.rank_max, tol, rms, size / (double)n);
        assert_true(b.rank_mean < a.rank_mean && b.rank_max < a.rank_max && b.bytes < a.bytes);
        assert_true(rms <= tol * size / (double)n);
        assert_true(rms > 0.001 * tol * size / (double)n);
        const double e = product_error(f, dense, n, t, 'R', 'T', 5, 1, 0);
        assert_true(e < 20 * tol);
        must(hier_factor(f, 2));
        must(hier_compress(f, 0, 'N', 0)); /* nothing is cut */
        hier_describe(f, &a);
        assert_int_equal(a.rank_max, b.rank_max);
        assert_true(isnan(a.rcond));
        free(dense), free(x);
        hier_close(f), hier_points_close(&s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_far_entry),          cmocka_unit_test(test_permutation),
        cmocka_unit_test(test_verify_all),         cmocka_unit_test(test_not_finite),
        cmocka_unit_test(test_failed_compression), cmocka_unit_test(test_scales),
        cmocka_unit_test(test_condition),          cmocka_unit_test(test_singular),
        cmocka_unit_test(test_hss_compression),    cmocka_unit_test(test_rank_limit),
    };
    return RUN_ON_BACKENDS(tests);
}
