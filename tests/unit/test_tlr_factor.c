/* Cholesky factor of tile low-rank matrices, all variants, solves and determinants against the
 * dense ones; what happens where a pivot is not positive. */
#include "support/tlr_factors.h"

enum { B = 32 };

static double norm_of(const points *p) {
    double *a = dense(p, 0, p->n, 0, p->n), s = distance(a, NULL, p->n * p->n);
    free(a);
    return s;
}

/* All variants make A to nt tau, with tiles of every kind; and no better than tau, so that the
 * bound says something. */
static void all_variants(void **state) {
    (void)state;
    points p = points_new(450, B, TLR_KD);
    for (int t = 0; t < 3; t++)
        for (int v = 0; v < VARIANTS; v++) {
            const double tau = (double[]){1e-2, 1e-4, 1e-8}[t];
            tlr_options o = small_options(tau);
            o.cut = t == 2 ? 12 : -1;
            tlr *l = factor(&p, variants[v], &o);
            tlr_stats s;
            tlr_statistics(l, &s);
            const double r = residual(&p, l);
            /* the right-looking one compresses each tile once for each block column before it */
            const double times = variants[v].compressed && variants[v].look == 'R' ? 8 : 2;
            print_message("%s, tau %.0e: residual %.1e, mean rank %.1f, dense %d of %d\n",
                          variants[v].name, tau, r, s.mean, (int)s.dense, (int)s.tiles);
            assert_true(r <= times * (double)p.l.nt * tau);
            assert_true(t == 2 || r > 0.1 * tau);
            assert_true(s.lowrank > 0 && (t < 2 || s.dense > 0));
            tlr_close(l);
        }
    points_free(&p);
}

/* Cut 0, or tau 0: all tiles are dense, the factor is the dense one to rounding. */
static void without_compression(void **state) {
    (void)state;
    points p = points_new(300, B, TLR_KD);
    for (int v = 0; v < VARIANTS; v++)
        for (int full = 0; full < 2; full++) {
            tlr_options o = small_options(full ? 0 : 1e-2);
            o.cut = full ? B : 0;
            tlr *l = factor(&p, variants[v], &o);
            assert_true(residual(&p, l) < 1e-13 * norm_of(&p));
            tlr_close(l);
        }
    points_free(&p);
}

/* Kept in the host's memory: the same bits as resident. In single precision: within what that
 * rounds, and half the memory but for the diagonal blocks. */
static void kept_apart(void **state) {
    (void)state;
    points p = points_new(450, B, TLR_KD);
    const int64_t n = p.n, v = 7;
    double *start = noise(v * n), *x[4], bytes[4];
    for (int k = 0; k < 4; k++) {
        tlr_options o = small_options(1e-4);
        tlr_stats s;
        o.host = k % 2;
        o.fp32 = k / 2;
        tlr *l = factor(&p, variants[0], &o), *other;
        tlr_statistics(l, &s);
        bytes[k] = s.bytes;
        assert_true(residual(&p, l) <= 2 * (double)p.l.nt * 1e-4);
        double *there = up(start, v * n);
        ok(tlr_solve(l, 'R', 'A', v, there, v));
        x[k] = down(there, v * n);
        be->release(ctx, there);
        ok(tlr_copy(l, 'N', &other));
        const double r = residual(&p, other);
        assert_true(r <= 2 * (double)p.l.nt * 1e-4);
        tlr_close(other), tlr_close(l);
    }
    for (int k = 0; k < 4; k += 2) /* the sums of some CPU libraries depend on places in memory */
        if (strcmp(be->name, "cpu") == 0)
            assert_true(distance(x[k], x[k + 1], v * n) < 1e-12 * distance(x[k], NULL, v * n));
        else
            assert_memory_equal(x[k], x[k + 1], sizeof(double) * (size_t)(v * n));
    assert_true(distance(x[0], x[2], v * n) > 0);
    assert_true(distance(x[0], x[2], v * n) < 1e-3 * distance(x[0], NULL, v * n));
    assert_true(bytes[1] < 1.1 * bytes[0] && bytes[2] < 0.8 * bytes[0] && bytes[2] == bytes[3]);
    for (int k = 0; k < 4; k++)
        free(x[k]);
    free(start);
    points_free(&p);
}

static void sizes(void **state) {
    (void)state;
    const int64_t n[] = {1, 2, 3, B - 1, 2 * B - 2, 2 * B, 2 * B + 1, 2 * B + 3, 130, 197};
    for (size_t k = 0; k < sizeof n / sizeof *n; k++) {
        points p = points_new(n[k], B, k % 2 ? TLR_NATURAL : TLR_KD);
        for (int v = 0; v < VARIANTS; v++) {
            tlr_options o = small_options(1e-6);
            o.width = k % 3 ? 64 : 1; /* 1: a block column for each tile column */
            tlr *l = factor(&p, variants[v], &o);
            assert_true(residual(&p, l) <= 8 * (double)p.l.nt * 1e-6 + 1e-14 * norm_of(&p));
            tlr_close(l);
        }
        points_free(&p);
    }
}

/* The given number of singular values of each tile, whatever that drops. */
static void fixed_rank(void **state) {
    (void)state;
    points p = points_new(300, B, TLR_KD);
    double before = INFINITY;
    p.nugget = 2;
    for (int64_t rank = 1; rank <= B; rank = rank == 1 ? 8 : 4 * rank) {
        tlr_options o = small_options(0);
        tlr_stats s;
        o.rank = rank;
        tlr *l = factor(&p, variants[0], &o);
        tlr_statistics(l, &s);
        assert_int_equal(s.most, rank < 30 ? rank : 30); /* 10 leaves of 30 */
        assert_int_equal(s.dense, 0);
        const double r = residual(&p, l);
        assert_true(r < before);
        assert_true(rank < B || r < 1e-12 * norm_of(&p));
        before = r;
        tlr_close(l);
    }
    points_free(&p);
}

/* X of either side and any job against the dense factor of the same L. */
static void solve_case(const tlr *l, const double *f, int64_t n, int64_t v, char side, char job) {
    const int64_t m = side == 'L' ? n : v, cols = side == 'L' ? v : n, ld = m + 3;
    const double one = 1;
    double *x = noise(ld * cols), *there = up(x, ld * cols);
    for (int step = 0; step < 2; step++) /* 'A': L, then L^T, in the order of the side */
        if (job == 'A' || step == 0)
            ok(backend_cpu.trsm(NULL, BACKEND_D, side, 'L',
                                job != 'A'                     ? job
                                : (step == 0) == (side == 'L') ? 'N'
                                                               : 'T',
                                'N', m, cols, &one, f, n, x, ld, NULL, 0));
    ok(tlr_solve(l, side, job, v, there, ld));
    double *y = down(there, ld * cols);
    assert_true(distance(x, y, ld * cols) < 1e-11 * distance(x, NULL, ld * cols));
    be->release(ctx, there);
    free(x), free(y);
}

static void solves(void **state) {
    (void)state;
    points p = points_new(330, B, TLR_KD);
    for (int t = 0; t < 3; t++) {
        tlr_options o = small_options(1e-4);
        o.cut = t == 0 ? 0 : t == 1 ? 8 : -1; /* all, some, no dense tiles */
        tlr *l = factor(&p, variants[0], &o);
        double *f = expanded(l, p.n, p.n);
        for (int64_t v = 1; v <= 61; v += v == 1 ? 6 : 54)
            for (int c = 0; c < 6; c++)
                solve_case(l, f, p.n, v, "LR"[c % 2], "NTA"[c / 2]);
        free(f);
        tlr_close(l);
    }
    points_free(&p);
}

static void determinant(void **state) {
    (void)state;
    points p = points_new(300, B, TLR_KD);
    double *a = dense(&p, 0, p.n, 0, p.n), exact = 0, got;
    int info;
    ok(backend_cpu.potrf(NULL, BACKEND_D, 'L', p.n, a, p.n, &info, NULL, 0));
    for (int64_t i = 0; i < p.n; i++)
        exact += 2 * log(a[i * (p.n + 1)]);
    for (int t = 0; t < 2; t++) {
        tlr_options o = small_options(t ? 1e-5 : 0);
        tlr *l = factor(&p, variants[0], &o);
        ok(tlr_logdet(l, &got));
        assert_true(fabs(got - exact) < (t ? 1e-2 : 1e-10) * fabs(exact));
        assert_true(!t || got != exact);
        tlr_close(l);
    }
    free(a);
    points_free(&p);
}

/* The same bits again, and for any amount of memory for intermediate products on one side. */
static void repeatable(void **state) {
    (void)state;
    points p = points_new(300, B, TLR_KD);
    tlr_options o = small_options(1e-4);
    tlr *l = factor(&p, variants[0], &o), *again = factor(&p, variants[0], &o),
        *right = factor(&p, variants[1], &o);
    o.seed = 2;
    tlr *other = factor(&p, variants[0], &o);
    double *a = expanded(l, p.n, p.n), *b = expanded(again, p.n, p.n),
           *c = expanded(right, p.n, p.n), *d = expanded(other, p.n, p.n);
    assert_memory_equal(a, b, sizeof(double) * (size_t)(p.n * p.n));
    /* left and right: the same sums, but for their order */
    assert_true(distance(a, c, p.n * p.n) < 1e-10 * distance(a, NULL, p.n * p.n));
    assert_true(distance(a, d, p.n * p.n) > 0);
    assert_true(residual(&p, other) <= 2 * (double)p.l.nt * 1e-4);
    free(a), free(b), free(c), free(d);
    tlr_close(l), tlr_close(again), tlr_close(right), tlr_close(other);
    points_free(&p);
}

/* On a CPU, where a context may be NULL: the same bits as with one but for the order of sums, since
 * no update is ahead then. */
static void without_context(void **state) {
    (void)state;
    backend_ctx *const opened = ctx;
    points p = points_new(300, B, TLR_KD);
    tlr_options o = small_options(1e-4);
    for (int v = 0; v < VARIANTS && be == &backend_cpu; v++) {
        tlr *with = factor(&p, variants[v], &o);
        double *a = expanded(with, p.n, p.n);
        ctx = NULL;
        tlr *without = factor(&p, variants[v], &o);
        double *b = expanded(without, p.n, p.n);
        ctx = opened;
        assert_true(distance(a, b, p.n * p.n) < 1e-10 * distance(a, NULL, p.n * p.n));
        free(a), free(b);
        tlr_close(with), tlr_close(without);
    }
    points_free(&p);
}

/* Little memory for intermediate products: more and smaller steps, the same factor to rounding. */
static void any_memory(void **state) {
    (void)state;
    points p = points_new(400, B, TLR_KD);
    tlr_options o = small_options(1e-4);
    o.memory = 1;
    tlr *small = factor(&p, variants[0], &o);
    o.memory = 0;
    tlr *large = factor(&p, variants[0], &o);
    double *a = expanded(small, p.n, p.n), *b = expanded(large, p.n, p.n);
    double *x = noise(9 * p.n), *there = up(x, 9 * p.n), *other = up(x, 9 * p.n);
    assert_true(distance(a, b, p.n * p.n) < 1e-10 * distance(a, NULL, p.n * p.n));
    ok(tlr_solve(small, 'R', 'A', 9, there, 9));
    ok(tlr_solve(large, 'R', 'A', 9, other, 9));
    double *y = down(there, 9 * p.n), *z = down(other, 9 * p.n);
    assert_true(distance(y, z, 9 * p.n) < 1e-8 * distance(y, NULL, 9 * p.n));
    be->release(ctx, there), be->release(ctx, other);
    free(a), free(b), free(x), free(y), free(z);
    tlr_close(small), tlr_close(large);
    points_free(&p);
}

static void refused(const points *p, variant v, const tlr_options *o, const tlr_rescue *r,
                    tlr_report *report, const char *says) {
    tlr *l = (tlr *)p;
    assert_int_equal(try_factor(p, v, o, r, &l, report), MOAO_NUMERIC);
    assert_null(l);
    assert_non_null(strstr(status_message(), says));
    status_clear();
}

static void not_finite(void **state) {
    (void)state;
    points p = points_new(200, B, TLR_KD);
    const tlr_options o = small_options(1e-4);
    const int64_t at[][2] = {{0, 0}, {150, 149}, {199, 3}, {70, 64}, {130, 20}};
    for (size_t k = 0; k < sizeof at / sizeof *at; k++)
        for (int v = 0; v < 2; v++) {
            tlr_report report;
            p.bad_i = at[k][0];
            p.bad_j = at[k][1];
            refused(&p, variants[v], &o, NULL, &report, "not finite");
        }
    points_free(&p);
}

/* max |a - b| / max |b| */
static double apart(const double *a, const double *b, int64_t count) {
    double most = 0, size = 0;
    for (int64_t i = 0; i < count; i++) {
        most = fmax(most, isnan(a[i]) ? INFINITY : fabs(a[i] - b[i]));
        size = fmax(size, fabs(b[i]));
    }
    return most / size;
}

/* Products with tiles in single precision: factors as accurate as their tolerance, whatever the
 * memory for intermediate products; apply and solve from either side as those of the same factor in
 * dense form, up to rounding. */
static void mixed_products(void **state) {
    (void)state;
    points p = points_new(450, B, TLR_KD);
    const int64_t n = p.n, v = 7;
    double *start = noise(v * n);
    for (int k = 0; k < 6; k++) {
        tlr_options o = small_options(1e-4);
        tlr_report report;
        o.fp32 = o.mixed = true;
        o.cut = k / 2 == 1 ? 8 : -1; /* many dense tiles */
        o.memory = k < 4 ? o.memory : (size_t)1 << 20;
        tlr *l = factor(&p, variants[k % 2], &o), *exact;
        assert_true(residual(&p, l) <= 2 * (double)p.l.nt * 1e-4);
        assert_true(residual(&p, l) > 1e-7 * norm_of(&p));
        double *full = expanded(l, n, n);
        for (int c = 0; c < 4; c++) { /* side and transposition */
            const char side = "RL"[c / 2], trans = "NT"[c % 2];
            const int64_t ld = side == 'R' ? v : n;
            double *x = up(start, v * n), *y = up(start, v * n),
                   *dense = malloc(8 * (size_t)(v * n));
            memcpy(dense, start, 8 * (size_t)(v * n));
            ok(tlr_apply(l, side, trans, v, 2, x, ld, -1, y, ld));
            if (side == 'R')
                product_host('N', trans, v, n, n, 2, start, v, full, n, -1, dense, v);
            else
                product_host(trans, 'N', n, v, n, 2, full, n, start, n, -1, dense, n);
            double *got = down(y, v * n);
            assert_true(apart(got, dense, v * n) < 1e-5 && apart(got, dense, v * n) > 0);
            /* what solve gives, multiplied back */
            ok(tlr_solve(l, side, trans, v, y, ld));
            free(got);
            got = down(y, v * n);
            double *back = malloc(8 * (size_t)(v * n));
            if (side == 'R')
                product_host('N', trans, v, n, n, 1, got, v, full, n, 0, back, v);
            else
                product_host(trans, 'N', n, v, n, 1, full, n, got, n, 0, back, n);
            assert_true(apart(back, dense, v * n) < 1e-5);
            be->release(ctx, x), be->release(ctx, y);
            free(got), free(dense), free(back);
        }
        free(full);
        /* doubles, where mixed is asked for without fp32, or with a factor on the host */
        o.fp32 = k % 2;
        o.host = true;
        ok(try_factor(&p, variants[k % 2], &o, NULL, &exact, &report));
        assert_true(residual(&p, exact) <= 2 * (double)p.l.nt * 1e-4);
        tlr_close(l), tlr_close(exact);
    }
    free(start);
    points_free(&p);
}

/* Products of FP16 numbers. A factor, whose updates are in three terms, is as accurate as one by
 * products in single precision, whatever the memory for intermediate products; solves from the
 * right in three terms are those of the same factor to single precision, in fewer to what a half of
 * 11 bits of X, or of tiles, rounds; so are those of a factor that is kept in single precision, but
 * made in double. */
static void products_in_split(void **state) {
    (void)state;
    static const double bound[] = {0, 1e-3, 5e-4, 1e-6};
    points p = points_new(300, B, TLR_KD);
    const int64_t n = p.n;
    for (int k = 0; k < 8; k++) {
        tlr_options o = small_options(1e-4);
        o.fp32 = true;
        o.mixed = k < 6;
        o.terms = 3;
        o.cut = k / 2 == 1 ? 8 : -1; /* many dense tiles */
        o.memory = k < 4 ? o.memory : (size_t)1 << 20;
        tlr *l = factor(&p, variants[k % 2], &o);
        const double r = residual(&p, l);
        assert_true(r <= 2 * (double)p.l.nt * 1e-4);
        double *full = expanded(l, n, n);
        assert_true(o.mixed || solve_error(l, full, n, 'A') < 1e-11);
        for (int c = 0; c < 9; c++) {
            const int terms = 1 + c / 3;
            tlr_set_split(l, terms, 0);
            const double off = solve_error(l, full, n, "NTA"[c % 3]);
            assert_true(off < bound[terms] && off > 0);
        }
        free(full);
        tlr_close(l);
    }
    points_free(&p);
}

/* Where a pivot is not positive doubles follow before anything else, and tell that it is the matrix
 * itself. */
static void mixed_indefinite(void **state) {
    (void)state;
    points p = points_new(200, B, TLR_KD);
    const tlr_rescue all = {.retries = 2, .shift = 1, .dense = true};
    tlr_options o = small_options(1e-3);
    tlr_report report;
    p.lift = -3;
    o.fp32 = o.mixed = true;
    refused(&p, variants[0], &o, &all, &report, "not positive definite");
    assert_true(report.not_positive && report.restarts == 0 && report.minor == 101);
    points_free(&p);
}

/* Not positive definite itself: no rescue is tried. */
static void indefinite(void **state) {
    (void)state;
    points p = points_new(200, B, TLR_KD);
    const tlr_rescue all = {.retries = 2, .shift = 1, .dense = true};
    p.lift = -3;
    for (int v = 0; v < VARIANTS; v++)
        for (int cut = 0; cut <= B; cut += B) {
            tlr_report report;
            tlr_options o = small_options(1e-3);
            o.cut = cut;
            refused(&p, variants[v], &o, &all, &report, "not positive definite");
            assert_true(report.not_positive && report.restarts == 0 && report.shifts == 0 &&
                        !report.dense);
            assert_int_equal(report.minor, 101);
        }
    points_free(&p);
}

/* The identity, but for two rows of its second half, whose Schur complement has a pivot of -depth.
 */
typedef struct {
    int64_t n;
    double depth;
} few_rows;

static status fill_few_rows(void *arg, int64_t i0, int64_t ni, int64_t j0, int64_t nj, double *a,
                            int64_t lda) {
    const few_rows *f = arg;
    const int64_t h = f->n / 2;
    /* L: rows h and h + 1 are 1, 0 and 1, 0.5; then 1 and 0.9 with the pivot */
    const struct {
        int64_t i, j;
        double a;
    } of[] = {{h, 0, 1},     {h + 1, 0, 1},       {h + 1, 1, 0.5},
              {h, h, 1 + 1}, {h + 1, h, 1 + 0.9}, {h + 1, h + 1, 1.25 + 0.81 - f->depth}};
    double *host = calloc((size_t)(ni * nj + 1), sizeof *host);
    for (int64_t j = 0; j < nj; j++)
        for (int64_t i = 0; i < ni; i++) {
            const int64_t row = i0 + i, col = j0 + j, high = row > col ? row : col,
                          low = row + col - high;
            host[i + j * ni] = row == col;
            for (size_t k = 0; k < sizeof of / sizeof *of; k++)
                if (of[k].i == high && of[k].j == low)
                    host[i + j * ni] = of[k].a;
        }
    status st = be->copy(ctx, a, 8 * lda, host, 8 * ni, 8 * ni, nj);
    st = st == MOAO_OK ? be->sync(ctx) : st;
    free(host);
    return st;
}

/* A pivot is below zero for certain where that is more than the tiles that were cut, each so many
 * times, can do to it: tau times the square of the vector of the pivot, here (-0.1, -0.5; -0.9, 1),
 * times sqrt(2) for one tile on both sides of the diagonal. */
static void certain_pivots(void **state) {
    (void)state;
    few_rows f = {2 * B, 0.01};
    const double norm = 0.1 * 0.1 + 0.5 * 0.5 + 0.9 * 0.9 + 1, limit = f.depth / (sqrt(2) * norm);
    const double times[VARIANTS] = {1, 1, 2, 2}; /* that a tile is compressed */
    tlr_layout layout;
    ok(tlr_layout_plain(f.n, B, &layout));
    for (int v = 0; v < VARIANTS; v++)
        for (int above = 0; above < 2; above++) {
            tlr_options o = small_options(limit / times[v] * (above ? 1.02 : 0.98));
            tlr_source from = {.layout = &layout, .fill = fill_few_rows, .arg = &f};
            tlr_report report;
            tlr *a = NULL, *l;
            o.width = B;
            if (variants[v].compressed) {
                ok(tlr_build(be, ctx, &layout, NULL, fill_few_rows, &f, &o, &a));
                from.a = a;
            }
            assert_int_equal(tlr_factor(be, ctx, &from, variants[v].look, &o, NULL, &l, &report),
                             MOAO_NUMERIC);
            status_clear();
            assert_int_equal(report.minor, B + 2);
            assert_int_equal(report.not_positive, !above);
            tlr_close(a);
        }
    tlr_layout_free(&layout);
}

/* A matrix that compression makes indefinite; each rescue in its turn. */
static void rescues(void **state) {
    (void)state;
    points p = points_new(400, B, TLR_KD);
    const double tau = 0.5;
    tlr_options o = small_options(tau);
    tlr_report report;
    tlr *l;
    p.nugget = 1e-3;
    for (int v = 0; v < 2; v++) {
        refused(&p, variants[v], &o, NULL, &report, "smaller tolerance");
        assert_true(report.minor > 0 && !report.not_positive);

        ok(try_factor(&p, variants[v], &o, &(tlr_rescue){.retries = 9}, &l, &report));
        assert_true(report.restarts > 0 && report.minor == 0);
        assert_true(report.tau == ldexp(tau, -2 * report.restarts));
        assert_true(residual(&p, l) <= 2 * (double)p.l.nt * report.tau);
        tlr_close(l);

        ok(try_factor(&p, variants[v], &o, &(tlr_rescue){.shift = 100}, &l, &report));
        assert_true(report.shifts > 0 && report.shift > 0 && report.shift <= 100);
        assert_true(report.restarts == 0 && report.tau == tau && !report.dense);
        tlr_close(l);

        refused(&p, variants[v], &o, &(tlr_rescue){.retries = 1, .shift = 1e-9}, &report,
                "smaller tolerance");
        assert_int_equal(report.restarts, 1);
        assert_int_equal(report.shifts, 0);

        ok(try_factor(&p, variants[v], &o, &(tlr_rescue){.dense = true}, &l, &report));
        assert_true(report.dense && report.minor == 0);
        assert_true(residual(&p, l) < 1e-13 * norm_of(&p));
        tlr_close(l);
    }
    points_free(&p);
}

static void bad_arguments(void **state) {
    (void)state;
    points p = points_new(100, B, TLR_KD);
    const tlr_options o = small_options(1e-4);
    tlr_source from = {.layout = &p.l, .fill = fill, .arg = &p};
    tlr *l;
    double det;
    assert_int_equal(tlr_factor(be, ctx, &from, 'X', &o, NULL, &l, NULL), MOAO_INPUT);
    from.fill = NULL;
    assert_int_equal(tlr_factor(be, ctx, &from, 'L', &o, NULL, &l, NULL), MOAO_INPUT);
    ok(tlr_build(be, ctx, &p.l, NULL, fill, &p, &o, &l));
    assert_int_equal(tlr_solve(l, 'L', 'N', 1, NULL, p.n), MOAO_INPUT);
    assert_int_equal(tlr_logdet(l, &det), MOAO_INPUT);
    status_clear();
    tlr_close(l);
    points_free(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_variants),      cmocka_unit_test(without_compression),
        cmocka_unit_test(kept_apart),        cmocka_unit_test(sizes),
        cmocka_unit_test(fixed_rank),        cmocka_unit_test(solves),
        cmocka_unit_test(determinant),       cmocka_unit_test(repeatable),
        cmocka_unit_test(not_finite),        cmocka_unit_test(indefinite),
        cmocka_unit_test(rescues),           cmocka_unit_test(bad_arguments),
        cmocka_unit_test(any_memory),        cmocka_unit_test(mixed_products),
        cmocka_unit_test(products_in_split), cmocka_unit_test(mixed_indefinite),
        cmocka_unit_test(certain_pivots),    cmocka_unit_test(without_context),
    };
    return run_on_backends(&(backend_tests){tests, sizeof tests / sizeof *tests, chosen, NULL});
}
