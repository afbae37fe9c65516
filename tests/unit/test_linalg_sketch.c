/* Where products are cut: gesvj with a tolerance, adaptive and fixed-rank sketches, recompression
 * of sums, one body for every backend (MOAO_TEST_BACKEND). What takes long runs on the GPU or with
 * MOAO_TEST_FULL; MOAO_TEST_SMALL leaves only small sizes. */
// timeout: 240
#include "support/lowrank_case.h"

/* The least rank for threshold t by values s, and whether a value lies so close that one more is
 * right too. */
static int64_t least_rank(const real *s, int64_t k, char norm, real t, bool *close) {
    real tail = 0;
    int64_t r = k;
    *close = false;
    while (r > 0 && (norm == '2' ? s[r - 1] <= t : tail + s[r - 1] * s[r - 1] <= t * t))
        r--, tail += s[r] * s[r];
    if (r < k)
        *close = norm == '2' ? s[r] >= 0.99L * t : tail >= 0.98L * t * t;
    return r;
}

static real threshold(const lr_case *c, const real *s, int64_t k) {
    real f = 0;
    for (int64_t p = 0; p < k; p++)
        f += s[p] * s[p];
    return c->cut.tol * (c->cut.kind == 'A' ? 1 : c->cut.norm == '2' ? s[0] : sqrtl(f));
}

/* Error and rank of every matrix of a collected gesvj (U, V S), ara or recompress against values of
 * long double; `more`: how many columns above the least are right; `quiet` for tests of the check.
 */
static bool cut_right(lr_case *c, int64_t more, bool quiet) {
    bool right = lr_trespasses(c) == 0;
    for (int64_t b = 0; b < c->count; b++) {
        const int64_t m = c->ms[b], n = c->ns[b], k = least_of(m, n);
        real *a = malloc(sizeof(real) * (size_t)(m * n + 1)), *s;
        bool close;
        for (int64_t p = 0; p < m * n; p++)
            a[p] = c->full[b][p];
        s = values_of(m, n, a);
        const real t = threshold(c, s, k), norm = frobenius(m * n, c->full[b]);
        int64_t r = least_rank(s, k, c->cut.norm, t, &close);
        const bool lacks = r > c->cut.most;
        r = lacks ? c->cut.most : r;
        const int64_t got = c->rank[b];
        const real slack = 8 * unit_of(c, b) * norm;
        real off = c->info[b] > 0 || got < 0 || got > r + more + 1
                       ? INFINITY
                       : distance(c->full[b], m, n, &c->u, &c->v, NULL, b, got),
             limit = 0;
        for (int64_t p = got; p < k; p++)
            limit += s[p] * s[p];
        if (c->cut.norm == 'F' && !lacks)
            limit = t * (1 + 1e-3L) + slack;
        else /* a sketch lets t^2 beside the values that it cuts */
            limit =
                sqrtl(limit + (c->op == ARA || lacks ? t * t : 0)) * (1 + 1e-3L) + slack + 0.2L * t;
        /* values at the threshold itself, to rounding, may be cut */
        const bool enough = got >= r || s[got] <= t + slack;
        const bool fine = off <= limit && c->info[b] == (lacks ? -3 : 0) && enough &&
                          got <= r + (more ? more : close);
        if (!fine && !quiet)
            print_error(
                "%s op %d type %d %dx%d tol %g %c%c most %d: rank %d, least %d; error %.3Lg, "
                "allowed %.3Lg; info %d\n",
                be->name, c->op, c->t, (int)m, (int)n, c->cut.tol, c->cut.kind, c->cut.norm,
                (int)c->cut.most, (int)got, (int)r, off, limit, c->info[b]);
        right &= fine;
        free(a), free(s);
    }
    return right;
}

static lr_case cut_case(int op, backend_type t, int64_t m, int64_t n, double tol, int v) {
    lr_case c = plain(op, t, m, n);
    c.is_cut = true, c.kind = v % 3 == 2 ? GEOMETRIC : COVARIANCE;
    c.cut.tol = tol, c.cut.norm = v & 1 ? '2' : 'F', c.cut.kind = v & 2 ? 'A' : 'R';
    c.jobv = 'S', c.count = 2, c.varied = v == 3;
    return c;
}

static void cut_by_tolerance(void **state) {
    (void)state;
    static const int64_t ms[] = {8, 24, 32, 64, 100, 40, 128, 256},
                         ns[] = {8, 20, 32, 64, 60, 90, 128, 200};
    static const double tols[] = {1e-1, 1e-3, 1e-6, 1e-9};
    bool right = true;
    for (size_t i = 0; i < (small() ? 3 : full() ? 8 : 6); i++)
        for (int v = 0; v < 16; v++) {
            const backend_type t = v & 8 ? BACKEND_S : BACKEND_D;
            lr_case c = cut_case(SVD, t, ms[i], ns[i], tols[v % (t == BACKEND_S ? 2 : 4)],
                                 v / 2 % 4 + v % 3);
            if (v == 5)
                c.cut.most = 3; /* too few for most of them */
            lr_build(&c);
            assert_int_equal(lr_call(&c), MOAO_OK);
            lr_collect(&c);
            right &= cut_right(&c, 0, false);
            lr_free(&c);
        }
    assert_true(right);
}

static void cut_edges(void **state) {
    (void)state;
    for (int op = SVD; op <= ARA; op += ARA - SVD)
        for (int v = 0; v < 3; v++) {
            lr_case c = cut_case(op, BACKEND_D, 20, 14, v == 1 ? 1e9 : 1e-6, 0);
            c.kind = v == 0 ? ZERO : COVARIANCE;
            c.cut.kind = v == 1 ? 'A' : 'R';
            c.cut.most = v == 2 ? 0 : 14;
            lr_build(&c);
            assert_int_equal(lr_call(&c), MOAO_OK);
            lr_collect(&c);
            for (int b = 0; b < 2; b++) {
                assert_int_equal(c.rank[b], 0);
                assert_int_equal(c.info[b], v == 2 ? -3 : 0);
            }
            assert_int_equal(lr_trespasses(&c), 0);
            lr_free(&c);
        }
}

/* Tolerances and ranks of each matrix. */
static void cut_of_each(void **state) {
    (void)state;
    double tol[4] = {1e-1, 1e-3, 1e-6, 0};
    int64_t most[4] = {40, 40, 5, 7};
    for (int op = SVD; op <= ARA; op += ARA - SVD) {
        lr_case c = cut_case(op, BACKEND_D, 48, 40, 0, 0);
        c.count = 4, c.cut.most = 40;
        void *dt = device_copy(tol, sizeof tol), *dm = device_copy(most, sizeof most);
        c.cut.tol_each = dt, c.cut.most_each = dm;
        lr_build(&c);
        assert_int_equal(lr_call(&c), MOAO_OK);
        lr_collect(&c);
        assert_true(c.rank[0] > 0 && c.rank[0] < c.rank[1] && c.rank[1] < 40);
        assert_int_equal(c.rank[2], 5);
        assert_int_equal(c.rank[3], 7);
        assert_int_equal(c.info[1], 0);
        assert_int_equal(c.info[2], -3);
        assert_int_equal(c.info[3], 0);
        assert_int_equal(lr_trespasses(&c), 0);
        be->release(ctx, dt), be->release(ctx, dm);
        lr_free(&c);
    }
}

/* Errors put into right results are found: a rank one too small or two too large, a column beyond
 * the rank, vectors that are off by more than the threshold, the wrong info. */
static void cut_checks_notice_errors(void **state) {
    (void)state;
    lr_case c = cut_case(SVD, BACKEND_D, 40, 32, 1e-6, 0);
    lr_build(&c);
    assert_int_equal(lr_call(&c), MOAO_OK);
    lr_collect(&c);
    assert_true(cut_right(&c, 0, false));
    const int64_t r = c.rank[1];
    assert_true(r > 1 && r < 31);
    for (int64_t wrong = r - 1; wrong <= r + 2; wrong += 3) {
        c.rank[1] = wrong;
        assert_false(cut_right(&c, 0, true));
    }
    c.rank[1] = r;
    c.info[1] = -3;
    assert_false(cut_right(&c, 0, true));
    c.info[1] = 0;
    const double x = get(&c.v, 1, 5, 0), by = 4e-6 * (double)frobenius(40 * 32, c.full[1]);
    set(&c.v, 1, 5, 0, x + by);
    assert_false(cut_right(&c, 0, true));
    set(&c.v, 1, 5, 0, x);
    assert_true(cut_right(&c, 0, false));
    lr_free(&c);
    lr_build(&c); /* nothing is allowed beyond the rank */
    assert_int_equal(lr_call(&c), MOAO_OK);
    lr_collect(&c);
    set(&c.u, 1, 0, c.rank[1], 1);
    assert_false(cut_right(&c, 0, true));
    lr_free(&c);
}

/* --- sketches --- */
static void adaptive_ranks(void **state) {
    (void)state;
    static const int64_t ms[] = {16, 40, 64, 128, 150, 256, 512},
                         ns[] = {16, 70, 64, 100, 140, 256, 300};
    static const double tols[] = {1e-3, 1e-6, 1e-9};
    bool right = true;
    for (size_t i = 0; i < (small() ? 3 : full() ? 7 : 4); i++)
        for (int v = 0; v < 12; v++) {
            const backend_type t = v % 4 == 3 ? BACKEND_S : BACKEND_D;
            lr_case c = cut_case(ARA, t, ms[i], ns[i], t == BACKEND_S ? 1e-3 : tols[v % 3], v);
            c.job = "LRB"[v % 3];
            if (v == 7)
                c.cut.most = 4;
            lr_build(&c);
            assert_int_equal(lr_call(&c), MOAO_OK);
            lr_collect(&c);
            right &= cut_right(&c, c.cut.norm == '2' ? 4 : 2, false);
            for (int64_t b = 0; b < c.count && c.job != 'B'; b++) {
                operand *o = c.job == 'L' ? &c.u : &c.v;
                const real w = skew(o, b, o->rows[b], c.rank[b]) / (3 * unit_of(&c, b));
                if (!(w <= 1))
                    print_error("ara %dx%d job %c: orthogonality %.3Lg\n", (int)ms[i], (int)ns[i],
                                c.job, w);
                right &= w <= 1;
            }
            lr_free(&c);
        }
    assert_true(right);
}

/* Thousands of matrices: none beyond its tolerance, ranks near the least. */
static void ara_never_misses(void **state) {
    (void)state;
    int64_t misses = 0, done = 0, ranks = 0, least = 0, sampled = 0;
    static const struct {
        backend_type t;
        int64_t n;
        double tol;
    } kinds[] = {{BACKEND_D, 32, 1e-9}, {BACKEND_S, 64, 1e-4}, {BACKEND_D, 32, 1e-6}};
    const int64_t rounds = full() ? 30 : small() ? 2 : 3;
    for (int64_t round = 0; round < rounds; round++) {
        const int64_t n = kinds[round % 3].n;
        lr_case c = cut_case(ARA, kinds[round % 3].t, n, n, kinds[round % 3].tol, 0);
        c.count = small() ? 20 : full() ? 500 : 200, c.layout = ALIGNED;
        lr_build(&c);
        assert_int_equal(lr_call(&c), MOAO_OK);
        lr_collect(&c);
        for (int64_t b = 0; b < c.count; b++, done++) {
            const real norm = frobenius(n * n, c.full[b]);
            misses +=
                !(c.info[b] == 0 && distance(c.full[b], n, n, &c.u, &c.v, NULL, b, c.rank[b]) <=
                                        c.cut.tol * norm * 1.001L + 8 * unit_of(&c, b) * norm);
            if (b % 10)
                continue;
            real a[64 * 64], *s;
            bool close;
            for (int64_t p = 0; p < n * n; p++)
                a[p] = c.full[b][p];
            s = values_of(n, n, a);
            least += least_rank(s, n, 'F', c.cut.tol * norm, &close);
            ranks += c.rank[b], sampled++;
            free(s);
        }
        lr_free(&c);
    }
    print_message("%s ara: %d of %d matrices beyond the tolerance, mean rank %.2f, least %.2f\n",
                  be->name, (int)misses, (int)done, (double)ranks / (double)sampled,
                  (double)least / (double)sampled);
    assert_true(ranks <= least + sampled); /* the mean: one above the least */
    assert_int_equal(misses, 0);
}

/* Whole tiles of a GPU's kernel, one matrix in another range, one of zeros, one that is not finite.
 */
static void ara_whole_tiles(void **state) {
    (void)state;
    enum { MATRICES = 5, BAD = 37 };
    static const struct {
        backend_type t;
        int64_t m, n;
        double tol;
    } kinds[] = {{BACKEND_D, 256, 256, 1e-6},
                 {BACKEND_S, 256, 160, 1e-3},
                 {BACKEND_D, 512, 192, 1e-6},
                 {BACKEND_S, 512, 512, 1e-3},
                 {BACKEND_D, 512, 512, 1e-6}};
    for (size_t i = 0; i < (small() ? 3 : sizeof kinds / sizeof *kinds); i++) {
        const int64_t m = kinds[i].m, n = kinds[i].n;
        double *given[MATRICES];
        for (int b = 0; b < MATRICES; b++) {
            given[b] = matrix_of(COVARIANCE, kinds[i].t, m, n);
            for (int64_t e = 0; e < m * n && b > 1 && b < 4; e++)
                given[b][e] *= b == 3 ? 0 : kinds[i].t == BACKEND_S ? 1e25 : 1e250;
        }
        given[4][BAD * m + m - 1] = NAN;
        lr_case c = cut_case(ARA, kinds[i].t, m, n, kinds[i].tol, 0);
        c.count = MATRICES, c.layout = ALIGNED, c.given = given, c.job = 'L', c.cut.most = 96;
        lr_build(&c);
        assert_int_equal(lr_call(&c), MOAO_OK);
        lr_collect(&c);
        for (int b = 0; b < 4; b++) {
            const real norm = frobenius(m * n, c.full[b]);
            assert_int_equal(c.info[b], 0);
            assert_true(distance(c.full[b], m, n, &c.u, &c.v, NULL, b, c.rank[b]) <=
                        c.cut.tol * norm * 1.001L + 8 * unit_of(&c, b) * norm);
            assert_true(skew(&c.u, b, m, c.rank[b]) <= 3 * unit_of(&c, b));
            assert_true(b == 3 ? c.rank[b] == 0 : c.rank[b] > 2 && c.rank[b] < 96);
        }
        assert_int_equal(c.info[4], BAD + 1);
        assert_int_equal(c.rank[4], 0);
        lr_free(&c);
        for (int b = 0; b < MATRICES; b++)
            free(given[b]);
    }
}

static void fixed_rank_sketch(void **state) {
    (void)state;
    static const int64_t ms[] = {30, 64, 100, 256}, ns[] = {20, 90, 100, 256};
    bool right = true;
    for (size_t i = 0; i < (small() ? 2 : full() ? 4 : 3); i++)
        for (int v = 0; v < 6; v++) {
            lr_case c = cut_case(RSVD, v % 2 ? BACKEND_S : BACKEND_D, ms[i], ns[i], 0, 0);
            const int64_t k = least_of(ms[i], ns[i]);
            c.power = v / 2, c.cut.most = 8, c.jobv = 'U', c.kind = COVARIANCE;
            lr_build(&c);
            assert_int_equal(lr_call(&c), MOAO_OK);
            lr_collect(&c);
            for (int64_t b = 0; b < c.count; b++) {
                real *a = malloc(sizeof(real) * (size_t)(c.m * c.n)), *s, w[8], off;
                for (int64_t p = 0; p < c.m * c.n; p++)
                    a[p] = c.full[b][p];
                s = values_of(c.m, c.n, a);
                for (int p = 0; p < 8; p++)
                    w[p] = get(&c.s, b, p, 0);
                off = c.rank[b] == 8 && c.info[b] == 0
                          ? distance(c.full[b], c.m, c.n, &c.u, &c.v, w, b, 8)
                          : INFINITY;
                right &= off <= 10 * s[8] * sqrtl((real)k) + 8 * unit_of(&c, b) * s[0];
                right &= lr_error(&c, b) <= 1;
                if (!right)
                    print_error(
                        "rsvd %dx%d type %d power %d: error %.3Lg, next value %.3Lg, rank %d "
                        "info %d\n",
                        (int)c.m, (int)c.n, c.t, c.power, off, s[8], (int)c.rank[b], c.info[b]);
                free(a), free(s);
            }
            assert_int_equal(lr_trespasses(&c), 0);
            lr_free(&c);
        }
    assert_true(right);
}

/* Many seeds: none gives a sketch that is far from the best of its rank. */
static void sketches_of_many_seeds(void **state) {
    (void)state;
    enum { RANK = 8, M = 40, N = 32, MATRICES = 4 };
    double *given[MATRICES];
    real next[MATRICES];
    int64_t failures = 0;
    for (int b = 0; b < MATRICES; b++) {
        real a[M * N], *s;
        given[b] = matrix_of(b % 2 ? GEOMETRIC : COVARIANCE, BACKEND_D, M, N);
        for (int p = 0; p < M * N; p++)
            a[p] = given[b][p];
        s = values_of(M, N, a);
        next[b] = s[RANK];
        free(s);
    }
    for (uint64_t k = 0; k < (small() ? 10 : full() ? 1000 : 200); k++) {
        lr_case c = cut_case(RSVD, BACKEND_D, M, N, 0, 0);
        c.cut.most = RANK, c.jobv = 'U', c.count = MATRICES, c.given = given, c.seed = k;
        lr_build(&c);
        assert_int_equal(lr_call(&c), MOAO_OK);
        lr_collect(&c);
        for (int b = 0; b < MATRICES; b++) {
            real w[RANK];
            for (int p = 0; p < RANK; p++)
                w[p] = get(&c.s, b, p, 0);
            failures +=
                !(c.info[b] == 0 && c.rank[b] == RANK &&
                  distance(c.full[b], M, N, &c.u, &c.v, w, b, RANK) <= 10 * next[b] * sqrtl(N));
        }
        lr_free(&c);
    }
    for (int b = 0; b < MATRICES; b++)
        free(given[b]);
    assert_int_equal(failures, 0);
}

/* --- recompression --- */
typedef struct {
    int64_t m, n, k, k2;
    bool cancels; /* U2 = -U (1 - 1e-6), V2 = V */
    double beta, alpha;
    bool same;    /* U2 = U */
    int64_t less; /* the second matrix has so many columns fewer in each factor */
    int64_t most; /* largest rank; 0: k + k2 */
} sum_case;

/* The factors of matrix b of a sum, k + k2 columns, and the sum itself. */
static void fill_sum(sum_case q, lr_case *c, operand *u2, operand *v2, int b, int64_t k,
                     int64_t k2) {
    for (int64_t p = 0; p < k + k2; p++) {
        const bool old = p < k;
        operand *uo = old ? &c->u : u2, *vo = old ? &c->v : v2;
        const int64_t at = old ? p : p - k;
        const double f = pow(10, -(double)at / 3);
        for (int64_t i = 0; i < q.m; i++)
            set(uo, b, i, at,
                q.cancels && !old ? -get(&c->u, b, i, at) * (1 - 1e-6)
                : q.same && !old  ? get(&c->u, b, i, at)
                                  : noise() * f);
        for (int64_t i = 0; i < q.n; i++)
            set(vo, b, i, at, q.cancels && !old ? get(&c->v, b, i, at) : noise());
    }
    for (int64_t j = 0; j < q.n; j++)
        for (int64_t i = 0; i < q.m; i++) {
            real x = 0;
            for (int64_t p = 0; p < k && q.beta != 0; p++)
                x += (real)q.beta * get(&c->u, b, i, p) * get(&c->v, b, j, p);
            for (int64_t p = 0; p < k2; p++)
                x += (real)q.alpha * get(u2, b, i, p) * get(v2, b, j, p);
            c->full[b][i + j * q.m] = (double)x;
        }
}

/* One call on two matrices of a sum, brought into the form that cut_right looks at. */
static bool sum_right(sum_case q, backend_type t, int v) {
    const int64_t wide = q.k + q.k2 > 1 ? q.k + q.k2 : 1, m2[2] = {q.m, q.m}, n2[2] = {q.n, q.n},
                  w2[2] = {wide, wide}, k[2] = {q.k, q.k > q.less ? q.k - q.less : 0},
                  k2[2] = {q.k2, q.k2 > q.less ? q.k2 - q.less : 0};
    lr_case c = cut_case(ARA, t, q.m, q.n, t == BACKEND_S ? 1e-2 : v % 2 ? 1e-4 : 1e-7, 0);
    operand u2 = operand_new(t, 2, m2, k2, v % LAYOUTS),
            v2 = operand_new(t, 2, n2, k2, v % LAYOUTS);
    float al = (float)q.alpha, bt = (float)q.beta;
    const void *alpha = t == BACKEND_D ? (void *)&q.alpha : (void *)&al,
               *beta = t == BACKEND_D ? (void *)&q.beta : (void *)&bt;
    c.cut.most = q.most ? q.most : wide, c.layout = v % LAYOUTS, c.job = "LRB"[v % 3],
    c.kind = ZERO;
    lr_build(&c);
    operand_free(&c.u), operand_free(&c.v);
    c.u = operand_new(t, 2, m2, w2, c.layout), c.v = operand_new(t, 2, n2, w2, c.layout);
    for (int b = 0; b < 2; b++)
        fill_sum(q, &c, &u2, &v2, b, k[b], k2[b]);
    send(&c.u), send(&c.v), send(&u2), send(&v2);
    const int64_t lwork =
        (int64_t)be->lowrank->workspace(BATCH_RECOMPRESS, t, v % 2 ? 1 : 2, q.m, q.n, q.k + q.k2);
    c.work = device_copy(NULL, 0);
    if (lwork) {
        be->release(ctx, c.work);
        assert_int_equal(be->alloc(ctx, (size_t)lwork, &c.work), MOAO_OK);
    }
    void *dk = device_copy(k, sizeof k), *dk2 = device_copy(k2, sizeof k2);
    const batch_dim old = {q.k, q.less ? dk : NULL}, more = {q.k2, q.less ? dk2 : NULL};
    assert_int_equal(be->lowrank->recompress(ctx, t, c.job, &c.cut, 2, batch_size(q.m),
                                             batch_size(q.n), beta, old, c.u.m, c.v.m, alpha, more,
                                             u2.m, v2.m, c.drank, c.dinfo, c.work, (size_t)lwork),
                     MOAO_OK);
    be->release(ctx, dk), be->release(ctx, dk2);
    lr_collect(&c), fetch(&u2), fetch(&v2);
    bool right = trespasses(&u2) + trespasses(&v2) == 0;
    /* rounding of the sum's own factors, not of the sum, limits what can be right */
    right &= q.cancels ? c.info[0] == 0 && c.rank[0] <= q.k + 1 && c.rank[0] > 0
                       : cut_right(&c, 0, false);
    for (int64_t b = 0; b < 2 && q.cancels; b++) {
        const real norm = frobenius(q.m * q.n, c.full[b]);
        const real off = distance(c.full[b], q.m, q.n, &c.u, &c.v, NULL, b, c.rank[b]);
        right &= off <= c.cut.tol * norm * 1.001L + 30e6L * unit_of(&c, b) * norm;
    }
    for (int64_t b = 0; b < 2 && c.job != 'B'; b++)
        right &= skew(c.job == 'L' ? &c.u : &c.v, b, c.job == 'L' ? q.m : q.n, c.rank[b]) <=
                 3 * (real)eps_of(t) * (real)(wide + 4);
    operand_free(&u2), operand_free(&v2);
    if (!right)
        print_error("recompress %dx%d %d + %d type %d job %c cancels %d beta %g: rank %d info %d\n",
                    (int)q.m, (int)q.n, (int)q.k, (int)q.k2, t, c.job, q.cancels, q.beta,
                    (int)c.rank[0], c.info[0]);
    lr_free(&c);
    return right;
}

static void sums(void **state) {
    (void)state;
    static const sum_case cases[] = {
        {20, 16, 4, 4, false, 1, 1, false, 0, 0},
        {40, 33, 8, 5, false, -2, 0.5, false, 0, 0},
        {64, 64, 16, 16, false, 1, -1, false, 0, 0},
        {30, 50, 6, 6, true, 1, 1, false, 0, 0},
        {64, 40, 16, 16, true, 1, 1, false, 0, 0},
        {10, 12, 8, 9, false, 1, 1, false, 0, 0},
        {40, 30, 6, 6, false, 1, 1, true, 0, 0},
        {40, 33, 8, 5, false, 1, 1, false, 3, 0},
        {20, 30, 4, 4, false, 1, 1, false, 4, 0},
        {12, 200, 8, 9, false, 1, 1, false, 0, 0},
        {50, 50, 7, 0, false, 1, 1, false, 0, 0},
        {50, 40, 5, 6, false, 0, 2, false, 0, 0},
        {33, 33, 0, 9, false, 1, 1, false, 0, 0},
        {30, 64, 9, 9, false, -0.5, 2, true, 0, 0},
        {64, 20, 6, 9, false, 2, -1, false, 6, 0},
        {128, 100, 20, 30, false, 1, 1, false, 0, 0},
        {160, 150, 25, 25, false, 1, 1, false, 0, 20},
        {200, 220, 40, 50, false, 1, 1, false, 0, 40},
        {256, 256, 32, 32, false, 1, -1, false, 0, 0},
        {300, 512, 50, 60, false, 1, 1, false, 0, 0},
    };
    bool right = true;
    for (size_t i = 0; i < (small() ? 9 : full() ? COUNT(cases) : 18); i++)
        for (int v = 0; v < 6; v++)
            if (!cases[i].cancels || v < 4)
                right &= sum_right(cases[i], v >= 4 ? BACKEND_S : BACKEND_D, v);
    assert_true(right);
}

/* Counts as large as can be, whose sums no int64_t holds. */
static void largest_counts(void **state) {
    const backend_lowrank *q = be->lowrank;
    const batch_mat x = batch_strided(NULL, 8, 64);
    const batch_dim n = batch_size(8), huge = batch_size(INT64_MAX);
    const batch_cut cut = {.tol = 1e-3, .kind = 'R', .norm = 'F', .most = 4},
                    most = {.tol = 1e-3, .kind = 'R', .norm = 'F', .most = INT64_MAX};
    const double one = 1;
    int64_t rank;
    (void)state;
    assert_int_equal(q->rsvd(ctx, BACKEND_D, 'U', 'U', &most, INT64_MAX, 0, 1, 1, n, n, x, x, x, x,
                             &rank, NULL, NULL, 0),
                     MOAO_INPUT);
    assert_int_equal(q->recompress(ctx, BACKEND_D, 'B', &cut, 1, n, n, &one, huge, x, x, &one, huge,
                                   x, x, &rank, NULL, NULL, 0),
                     MOAO_INPUT);
    /* columns of a sum, of no matrix: as many as there is room for, and one more */
    const batch_mat wide = batch_strided(NULL, 300, 300 * 256);
    const batch_dim rows = batch_size(300), half = batch_size(BATCH_SUM_MAX / 2);
    for (int more = 0; more <= 1; more++)
        assert_int_equal(q->recompress(ctx, BACKEND_D, 'B', &cut, 0, rows, rows, &one, half, wide,
                                       wide, &one, batch_size(half.n + more), wide, wide, &rank,
                                       NULL, NULL, 0),
                         more ? MOAO_INPUT : MOAO_OK);
    status_clear();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cut_by_tolerance),
        cmocka_unit_test(cut_edges),
        cmocka_unit_test(cut_checks_notice_errors),
        cmocka_unit_test(cut_of_each),
        cmocka_unit_test(adaptive_ranks),
        cmocka_unit_test(ara_never_misses),
        cmocka_unit_test(fixed_rank_sketch),
        cmocka_unit_test(sketches_of_many_seeds),
        cmocka_unit_test(sums),
        cmocka_unit_test(largest_counts),
        cmocka_unit_test(ara_whole_tiles),
    };
    return RUN_ON_BACKENDS(tests);
}
