/* HSS matrices against dense ones: the kernel 1 / (x - y) of the HSS paper and covariances of
 * points in a square; products from either side, accuracy, solves, what is refused. */
#include "linalg/hier/tree.h"
#include "support/hier_case.h"

static hier_options hss_options(double tol, int leaf) {
    return (hier_options){
        .kind = HIER_HSS, .type = BACKEND_D, .tol = tol, .leaf = leaf, .lean = true};
}

/* Every side and transposition, few and many vectors, odd sizes. */
static void test_products(void **state) {
    static const int64_t nvec[] = {1, 7, 33, 270};
    (void)state;
    for (int c = 0; c < 6 * 5; c++) {
        const int64_t n = (int64_t[]){0, 1, 43, 127, 295, 611}[c / 5];
        double *x = line_points(n);
        hier_source s;
        format *f;
        must(hier_points_open(be, ctx, HIER_CAUCHY, 1, 1, n, x, &s));
        hier_options o = hss_options(1e-9, n > 200 ? 10 : 24);
        o.together = c % 4 + 1;             /* levels that few columns take at a time */
        o.lean = o.together > 1 || n > 200; /* the others keep all entries */
        must(hier_open(be, ctx, &s, &o, &f));
        double *a = dense_of(f, &s);
        for (size_t k = 0; k < sizeof nvec / sizeof *nvec; k++)
            for (int q = 0; q < 4; q++) {
                const double e = product_error(f, a, n, BACKEND_D, q & 1 ? 'R' : 'L',
                                               q & 2 ? 'T' : 'N', nvec[k], 1.5, k % 2 ? 0 : -0.5);
                if (!(e < 1e-8))
                    fail_msg("n = %d, %d levels at a time, %d vectors, case %d: error %g", (int)n,
                             o.together, (int)nvec[k], q, e);
            }
        free(a), free(x);
        hier_close(f);
        hier_points_close(&s);
    }
}

/* The paper's problem: relative error of a product at most 1e-7, and the ranks it prints (21). */
static void test_paper(void **state) {
    (void)state;
    const int64_t n = small() ? 500 : 5000;
    double *x = line_points(n), rms, worst;
    hier_source s;
    format *f;
    hier_info info;
    must(hier_points_open(be, ctx, HIER_CAUCHY, 1, 1, n, x, &s));
    const hier_options o = hss_options(1e-7 * sqrt((double)n), 0);
    must(hier_open(be, ctx, &s, &o, &f));
    must(hier_check(f, &s, 8, 5, &rms, &worst));
    hier_describe(f, &info);
    print_message("n = %d: %d levels, rank %d (largest %d), rms error %.1e, worst %.1e\n", (int)n,
                  info.levels, info.rank_mean, info.rank_max, rms, worst);
    /* rms of an entry is about 0.9 sqrt(n) */
    assert_true(rms < 1e-7 * 0.9 * sqrt((double)n));
    assert_true(rms > 0);
    assert_in_range(info.rank_max, 8, 40);
    hier_close(f);
    hier_points_close(&s);
    free(x);
}

/* Solves against the dense matrix: |A x - b| / (|A| |x|), for several right-hand sides, both ways.
 */
static void test_solve(void **state) {
    (void)state;
    for (int64_t n = 1; n <= 700; n = 4 * n + 9)
        for (int kind = 0; kind < 2; kind++) {
            double *x = kind ? square_points(n) : line_points(n);
            hier_source s;
            format *f;
            must(hier_points_open(be, ctx, kind ? HIER_EXPONENTIAL : HIER_CAUCHY, 0.3, kind ? 2 : 1,
                                  n, x, &s));
            const hier_options o = hss_options(1e-9, 40);
            must(hier_open(be, ctx, &s, &o, &f));
            double *a = dense_of(f, &s);
            const double shift = kind ? 0.25 : 0;
            must(hier_factor(f, shift));
            for (int t = 0; t < 2; t++) {
                const int64_t nrhs = t ? 5 : 33, ld = n + 2;
                const size_t bytes = 8 * (size_t)(ld * nrhs), lwork = hier_solve_workspace(f, nrhs);
                double *b = random_host(BACKEND_D, ld, nrhs, 3), *y = malloc(bytes);
                void *db = device_copy(b, bytes), *work = poison(lwork);
                must(hier_solve(f, t ? 'T' : 'N', nrhs, db, ld, work, lwork));
                to_host(y, db, bytes);
                double worst = 0, size = 0, largest = 0;
                for (int64_t j = 0; j < nrhs; j++)
                    for (int64_t i = 0; i < n; i++) {
                        double r = shift * y[i + j * ld] - b[i + j * ld], row = 0;
                        for (int64_t k = 0; k < n; k++) {
                            const double e = t ? a[k + i * n] : a[i + k * n];
                            r += e * y[k + j * ld], row += fabs(e);
                        }
                        worst = fabs(r) <= worst ? worst : fabs(r);
                        size = fmax(size, row), largest = fmax(largest, fabs(y[i + j * ld]));
                    }
                if (!(worst <= 1e-8 * size * largest))
                    fail_msg("n = %d, kernel %d, %c: residual %g of %g", (int)n, kind,
                             t ? 'T' : 'N', worst, size * largest);
                be->release(ctx, db), be->release(ctx, work);
                free(b), free(y);
            }
            free(a), free(x);
            hier_close(f);
            hier_points_close(&s);
        }
}

/* A source whose entries are those of `inner`, but one, which is NaN. */
typedef struct {
    hier_source inner;
    int64_t n;
} spoiled;

static status spoiled_gather(void *from, backend_ctx *c, backend_type t, const hier_blocks *b) {
    const spoiled *s = from;
    const status st = s->inner.gather(s->inner.from, c, t, b);
    const double bad = NAN;
    void *first;
    /* the first entry of the last block of every call */
    if (st != MOAO_OK || b->a.ptrs || b->count == 0)
        return st;
    first = (char *)b->a.base + (b->count - 1) * b->a.stride * 8;
    return be->copy(c, first, 8, &bad, 8, 8, 1);
}

/* A rank beyond the bound and an entry that is not finite are told, and nothing is left; a singular
 * matrix, and what the format has not got. */
static void test_refused(void **state) {
    (void)state;
    const int64_t n = 400;
    double *x = line_points(n);
    hier_source s, bad;
    format *f;
    hier_options o = hss_options(1e-9, 64);
    must(hier_points_open(be, ctx, HIER_CAUCHY, 1, 1, n, x, &s));
    o.rank = 5;
    assert_int_equal(hier_open(be, ctx, &s, &o, &f), MOAO_MEMORY);
    assert_null(f);
    assert_non_null(strstr(status_message(), "dense"));
    status_clear();
    o.rank = 0;
    spoiled w = {s, n};
    bad = s;
    bad.from = &w, bad.gather = spoiled_gather, bad.block = NULL;
    assert_int_equal(hier_open(be, ctx, &bad, &o, &f), MOAO_NUMERIC);
    assert_null(f);
    status_clear();
    must(hier_open(be, ctx, &s, &o, &f));
    assert_int_equal(hier_apply(f, 'L', 'N', 'H', 1, 1, x, n, 0, x, n, NULL, 0), MOAO_INPUT);
    status_clear();
    assert_int_equal(hier_solve(f, 'N', 1, x, n, NULL, 0), MOAO_INPUT);
    status_clear();
    assert_int_equal(hier_compress(f, -1e-3, 'N', 0), MOAO_INPUT);
    status_clear();
    assert_int_equal(hier_compress(f, 1e-3, 'X', 0), MOAO_INPUT);
    status_clear();
    hier_close(f);
    hier_points_close(&s);
    /* two equal points of a covariance: two equal rows */
    double *y = square_points(n);
    y[2] = y[0], y[3] = y[1];
    must(hier_points_open(be, ctx, HIER_GAUSSIAN, 0.01, 2, n, y, &s));
    must(hier_open(be, ctx, &s, &o, &f));
    assert_int_equal(hier_factor(f, 0), MOAO_NUMERIC);
    status_clear();
    must(hier_factor(f, 0.1));
    hier_close(f);
    hier_points_close(&s);
    free(x), free(y);
}

/* A source that multiplies with its dense matrix. */
typedef struct {
    hier_source inner;
    void *a;
    int64_t n;
} multiplied;

static status gather_of(void *from, backend_ctx *c, backend_type t, const hier_blocks *b) {
    const multiplied *m = from;
    return m->inner.gather(m->inner.from, c, t, b);
}
static status times_of(void *from, backend_ctx *c, backend_type t, char trans, int64_t n,
                       const void *x, int64_t ldx, void *y, int64_t ldy) {
    const multiplied *m = from;
    const double one = 1, zero = 0;
    return be->gemm(c, t, trans, 'N', m->n, n, m->n, &one, m->a, m->n, x, ldx, &zero, y, ldy, NULL,
                    0);
}

/* From products as from entries: the error that was asked for, with ranks alike; the first number
 * of samples is far too small. */
static void test_from_products(void **state) {
    (void)state;
    const int64_t n = 450;
    for (int kind = 0; kind < 2; kind++) {
        double *x = kind ? square_points(n) : line_points(n), rms, worst;
        hier_source s;
        format *f, *g;
        hier_info a, b;
        must(hier_points_open(be, ctx, kind ? HIER_EXPONENTIAL : HIER_CAUCHY, 0.5, kind ? 2 : 1, n,
                              x, &s));
        multiplied m = {s, poison(8 * (size_t)(n * n)), n};
        must(s.block(s.from, ctx, BACKEND_D, 0, n, 0, n, m.a, n));
        hier_source p = s;
        p.from = &m, p.gather = gather_of, p.times = times_of, p.block = NULL, p.values = NULL;
        hier_options o = hss_options(1e-6, 48);
        must(hier_open(be, ctx, &s, &o, &f));
        o.samples = 10, o.seed = 4;
        must(hier_open(be, ctx, &p, &o, &g));
        must(hier_check(g, &s, 32, 9, &rms, &worst));
        hier_describe(f, &a), hier_describe(g, &b);
        print_message("kernel %d: rank %d (%d from entries), rms error %.1e\n", kind, b.rank_max,
                      a.rank_max, rms);
        assert_true(rms < 1e-6);
        assert_in_range(b.rank_max, a.rank_max / 2, 2 * a.rank_max);
        double *dense = dense_of(g, &s);
        assert_true(product_error(g, dense, n, BACKEND_D, 'L', 'T', 5, 1, 0) < 1e-5);
        be->release(ctx, m.a);
        free(dense), free(x);
        hier_close(f), hier_close(g);
        hier_points_close(&s);
    }
}

/* The estimate of the error is within a factor 2 of the truth; the same call gives the same bits;
 * another load of the same values too. */
static void test_check(void **state) {
    (void)state;
    const int64_t n = 500, nvec = 40;
    double *x = square_points(n), truth = 0;
    hier_source s;
    format *f;
    must(hier_points_open(be, ctx, HIER_EXPONENTIAL, 0.4, 2, n, x, &s));
    const hier_options o = hss_options(1e-3, 50);
    must(hier_open(be, ctx, &s, &o, &f));
    double *a = dense_of(f, &s), *one = calloc((size_t)(n * n), 8),
           *had = malloc(8 * (size_t)(n * n));
    for (int64_t i = 0; i < n; i++)
        one[i * (n + 1)] = 1;
    void *dx = device_copy(one, 8 * (size_t)(n * n)), *dy = poison(8 * (size_t)(n * n)),
         *work = poison(hier_workspace(f, 'L', n));
    must(hier_apply(f, 'L', 'N', 'A', n, 1, dx, n, 0, dy, n, work, hier_workspace(f, 'L', n)));
    to_host(had, dy, 8 * (size_t)(n * n));
    for (int64_t e = 0; e < n * n; e++)
        truth += (had[e] - a[e]) * (had[e] - a[e]);
    truth = sqrt(truth / (double)(n * n));
    assert_true(truth <= 1e-3 && truth > 0);
    for (uint64_t seed = 1; seed <= 20; seed++) {
        double rms, worst;
        must(hier_check(f, &s, 16, seed, &rms, &worst));
        if (!(rms < 2 * truth && rms > truth / 2 && worst >= rms))
            fail_msg("seed %d: estimate %g, worst %g, truth %g", (int)seed, rms, worst, truth);
    }
    for (int turn = 0; turn < 2; turn++) { /* part H: half of A, and the same bits */
        const size_t lwork = hier_workspace(f, 'R', nvec), bytes = 8 * (size_t)(n * nvec);
        double *y1 = malloc(bytes), *y2 = malloc(bytes);
        must(hier_apply(f, 'R', 'N', 'A', nvec, 1, dx, n, 0, dy, nvec, work, lwork));
        to_host(y1, dy, bytes);
        if (turn)
            must(hier_load(f, &s));
        must(hier_apply(f, 'R', 'N', 'A', nvec, 1, dx, n, 0, dy, nvec, work, lwork));
        to_host(y2, dy, bytes);
        assert_memory_equal(y1, y2, bytes);
        must(hier_apply(f, 'R', 'N', 'H', nvec, 1, dx, n, 0, dy, nvec, work, lwork));
        to_host(y2, dy, bytes);
        for (int64_t e = 0; e < n * nvec; e++)
            assert_true(fabs(2 * y2[e] - y1[e]) <= 1e-14 * n);
        free(y1), free(y2);
    }
    be->release(ctx, dx), be->release(ctx, dy), be->release(ctx, work);
    free(a), free(one), free(had), free(x);
    hier_close(f);
    hier_points_close(&s);
}

/* An option that is negative, or no number, is refused by every kind of format, as are sizes. */
static void test_options(void **state) {
    static const hier_kind kinds[] = {HIER_DENSE, HIER_HSS, HIER_H2};
    (void)state;
    const int64_t n = 40;
    double *x = line_points(n);
    hier_source s;
    must(hier_points_open(be, ctx, HIER_CAUCHY, 1, 1, n, x, &s));
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++)
        for (int what = 0; what < 9; what++) {
            format *f = NULL;
            size_t bytes, work;
            hier_options o = hss_options(1e-6, 16);
            hier_source bad = s;
            o.kind = kinds[kind];
            o.tol = what == 0 ? -1e-6 : what == 1 ? NAN : o.tol;
            o.leaf = what == 2 ? -1 : o.leaf;
            o.rank = what == 3 ? -1 : o.rank;
            o.samples = what == 4 ? -1 : o.samples;
            o.order = what == 5 ? -1 : o.order;
            o.type = what == 6 ? BACKEND_Z : o.type;
            bad.rows = what == 7 ? -1 : bad.rows;
            bad.dim = what == 8 ? 4 : bad.dim;
            assert_int_equal(hier_open(be, ctx, &bad, &o, &f), MOAO_INPUT);
            assert_null(f);
            assert_int_equal(hier_bytes(be, &bad, &o, &bytes, &work), MOAO_INPUT);
            status_clear();
        }
    hier_points_close(&s);
    free(x);
}

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Clusters that touch one, each against all others of its level: the nearest of them, none twice,
 * none missing, the nearest first. */
static void test_neighbours(void **state) {
    enum { N = 900 };
    double *at = square_points(N);
    int cut = 0;
    tree t;
    (void)state;
    must(tree_make(N, 2, at, 16, 'M', &t));
    for (int64_t most = 2; most < 40; most += most < 6 ? 2 : 32) {
        const int level = t.levels;
        lists l;
        must(tree_neighbours(&t, level, most, &l));
        assert_int_equal(l.count, tree_nodes(level));
        for (int64_t p = 0; p < l.count; p++) {
            const int64_t a = tree_node(level, p), n = l.first[p + 1] - l.first[p];
            double gap[1024];
            int64_t near = 0;
            for (int64_t q = 0; q < l.count; q++) {
                const int64_t b = tree_node(level, q);
                const double d = tree_distance(&t, a, b);
                if (q != p && d <= 0.1 * fmax(tree_diameter(&t, a), tree_diameter(&t, b)))
                    gap[near++] = d;
            }
            qsort(gap, (size_t)near, sizeof *gap, ascending);
            assert_int_equal(n, near < most ? near : most);
            cut += near > most;
            for (int64_t i = 0; i < n; i++) {
                const int64_t q = l.item[l.first[p] + i];
                assert_true(q != p && q >= 0 && q < l.count);
                assert_true(fabs(tree_distance(&t, a, tree_node(level, q)) - gap[i]) <= 1e-15);
                for (int64_t j = 0; j < i; j++)
                    assert_true(l.item[l.first[p] + j] != q);
            }
        }
        lists_free(&l);
    }
    assert_true(cut > 20);
    tree_free(&t);
    free(at);
}

/* Of equal leaves: each node is cut at the median of the longer side of its box, so that no point
 * of its first child lies beyond one of its second; sizes as promised, each point in one leaf. */
static void test_medians(void **state) {
    (void)state;
    for (int64_t n = 5; n < 700; n = n * 3 / 2) {
        double *at = square_points(n);
        bool *seen = calloc((size_t)n, 1);
        const int64_t leaf = 8;
        tree t;
        for (int64_t i = 0; i < n; i++) { /* in no order, some coordinates several times */
            float v[4];
            backend_random(3, i, 0, v);
            at[2 * i] = n % 2 ? (double)v[0] : floor(8 * (double)v[0]);
            at[2 * i + 1] = 0.7 * (double)v[1];
        }
        must(tree_make(n, 2, at, leaf, 'E', &t));
        for (int level = 0; level < t.levels; level++)
            for (int64_t p = 0; p < tree_nodes(level); p++) {
                const int64_t a = tree_node(level, p), b = tree_node(level + 1, 2 * p), c = b + 1;
                const double *low = t.low + 3 * a, *high = t.high + 3 * a;
                const int d = high[1] - low[1] > (1 + 1e-9) * (high[0] - low[0]);
                assert_int_equal(t.size[a], t.size[b] + t.size[c]);
                if (t.size[b] > 0 && t.size[c] > 0)
                    assert_true(t.high[3 * b + d] <= t.low[3 * c + d]);
            }
        for (int64_t p = 0, part = 0; p < tree_nodes(t.levels); p++) {
            const int64_t size = t.size[tree_node(t.levels, p)];
            assert_true(size == leaf || size == 0 || (size < leaf && part++ == 0));
        }
        for (int64_t i = 0; i < n; i++) {
            const int64_t o = t.order[i];
            assert_true(o >= 0 && o < n && !seen[o]);
            assert_true(t.at[2 * i] == at[2 * o] && t.at[2 * i + 1] == at[2 * o + 1]);
            seen[o] = true;
        }
        tree_free(&t);
        free(at), free(seen);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products), cmocka_unit_test(test_paper),
        cmocka_unit_test(test_solve),    cmocka_unit_test(test_refused),
        cmocka_unit_test(test_check),    cmocka_unit_test(test_neighbours),
        cmocka_unit_test(test_options),  cmocka_unit_test(test_from_products),
        cmocka_unit_test(test_medians),
    };
    return RUN_ON_BACKENDS(tests);
}
