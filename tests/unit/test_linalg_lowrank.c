/* Batched QR, SVD, sketches and recompression, one body for every backend (MOAO_TEST_BACKEND). What
 * takes long runs on the GPU or with MOAO_TEST_FULL; MOAO_TEST_SMALL leaves only small sizes. */
// timeout: 240
#include "lowrank_case.h"

#define COUNT(x) (sizeof(x) / sizeof *(x))

static bool small(void) {
    return getenv("MOAO_TEST_SMALL") != NULL;
}
static bool full(void) {
    return !small() && (be != &backend_cpu || getenv("MOAO_TEST_FULL") != NULL);
}

static lr_case plain(int op, backend_type t, int64_t m, int64_t n) {
    lr_case c = {
        .op = op, .t = t, .m = m, .n = n, .count = 3, .jobu = 'U', .jobv = 'U', .job = 'L'};
    c.cut.kind = 'R', c.cut.norm = 'F', c.cut.most = least_of(m, n);
    c.layout = (int)((m + 3 * n + op) % LAYOUTS);
    return c;
}

static bool run_case(lr_case *c) {
    lr_build(c);
    const status st = lr_call(c);
    if (st != MOAO_OK)
        print_error("%s\n", status_message());
    assert_int_equal(st, MOAO_OK);
    lr_collect(c);
    const bool right = lr_right(c, false);
    lr_free(c);
    return right;
}

/* Extents of a test: every class boundary for k, and several ratios. */
static const int64_t some_k[] = {1, 2, 7, 8, 9, 16, 17, 31, 33, 64, 65},
                     all_k[] = {1,  2,  7,  8,   9,   15,  16,  17,  31,  32,  33,  63,  64,
                                65, 96, 97, 100, 127, 128, 129, 200, 255, 256, 257, 511, 512};
static size_t ks_count(void) {
    return full() ? COUNT(all_k) : small() ? 6 : COUNT(some_k);
}
static int64_t k_at(size_t i) {
    return full() ? all_k[i] : some_k[i];
}
static int64_t wide_at(int64_t k, int v) {
    const int64_t wide[] = {k, k + 1, 2 * k, 129, 513, 1025, 4097};
    return wide[v] < k ? k : wide[v];
}
static int wides(int64_t k) {
    return small() ? 3 : full() && k <= 64 ? 7 : full() && k <= 256 ? 5 : k <= 33 ? 5 : 2;
}

static void qr_of_all_sizes(void **state) {
    (void)state;
    bool right = true;
    for (size_t i = 0; i < ks_count(); i++)
        for (int v = 0; v < wides(k_at(i)); v++)
            for (int e = 0; e < 8; e++) {
                const int64_t k = k_at(i), l = wide_at(k, v);
                if (k > 128 && e % 4 > 1)
                    continue;
                lr_case c = plain(e & 4 ? QR_R : QR_Q, e & 1 ? BACKEND_S : BACKEND_D, e & 2 ? k : l,
                                  e & 2 ? l : k);
                c.kind = (int)(k + e) % 3;
                c.varied = v == 1, c.count = k > 100 ? 2 : 5;
                right &= run_case(&c);
            }
    assert_true(right);
}

/* geqrf as LAPACK's, orgqr and ormqr against the Q that its vectors define. */
static real *explicit_q(const lr_case *c, operand *a, operand *tau, int64_t b) {
    const int64_t m = c->ms[b], n = c->ns[b], k = least_of(m, n);
    real *q = calloc((size_t)(m * m + 1), sizeof(real));
    for (int64_t i = 0; i < m; i++)
        q[i + i * m] = 1;
    for (int64_t p = k; p-- > 0;) /* q := H_p q */
        for (int64_t j = 0; j < m; j++) {
            real f = q[p + j * m];
            for (int64_t i = p + 1; i < m; i++)
                f += get(a, b, i, p) * q[i + j * m];
            f *= get(tau, b, p, 0);
            q[p + j * m] -= f;
            for (int64_t i = p + 1; i < m; i++)
                q[i + j * m] -= f * get(a, b, i, p);
        }
    return q;
}

static real factor_error(lr_case *c, int64_t b, const real *q) {
    const int64_t m = c->ms[b], n = c->ns[b];
    real w = 0, *x = malloc(sizeof(real) * (size_t)(m + 1));
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = 0; i < m; i++)
            x[i] = c->full[b][i + j * m];
        for (int64_t p = 0; p <= j && p < m; p++)
            for (int64_t i = 0; i < m; i++)
                x[i] -= q[i + p * m] * get(&c->a, b, p, j);
        const real norm = frobenius(m, c->full[b] + j * m), off = sqrtl(norm2(m, x));
        w = worse(w, off == 0 ? 0 : off / norm / (2 * unit_of(c, b)));
    }
    for (int64_t p = 0; p < least_of(m, n); p++) {
        const double tau = get(&c->s, b, p, 0);
        if (!(tau == 0 || (tau >= 1 - 1e-6 && tau <= 2 + 1e-6)))
            w = INFINITY;
    }
    free(x);
    return w;
}

/* C, m x 5 or 5 x m, := op(Q) C; the difference from the explicit product over norm and unit. */
static real apply_error(lr_case *c, const real *q, char side, char trans) {
    const int64_t m = c->m, k = least_of(m, c->n), w = 5, one = 1;
    const int64_t rows = side == 'L' ? m : w, cols = side == 'L' ? w : m;
    operand o = operand_new(c->t, 1, &rows, &cols, c->layout);
    real worst_of = 0;
    for (int64_t j = 0; j < cols; j++)
        for (int64_t i = 0; i < rows; i++)
            set(&o, 0, i, j, noise()), allow(&o, 0, i, j);
    send(&o);
    assert_int_equal(be->lowrank->ormqr(ctx, c->t, side, trans, one, batch_size(rows),
                                        batch_size(cols), batch_size(k), c->a.m, c->s.m, o.m),
                     MOAO_OK);
    fetch(&o);
    for (int64_t j = 0; j < cols; j++)
        for (int64_t i = 0; i < rows; i++) {
            real x = get(&o, 0, i, j);
            for (int64_t p = 0; p < m; p++) {
                const int64_t r = side == 'L' ? i : p, s = side == 'L' ? p : j;
                const real e = trans == 'N' ? q[r + s * m] : q[s + r * m];
                x -= e * (side == 'L' ? was(&o, 0, p, j) : was(&o, 0, i, p));
            }
            worst_of = worse(worst_of, fabsl(x) / (3 * sqrtl((real)m)) / (2 * unit_of(c, 0)));
        }
    assert_int_equal(trespasses(&o), 0);
    operand_free(&o);
    return worst_of;
}

static void reflectors(void **state) {
    (void)state;
    for (size_t i = 0; i < ks_count(); i++)
        for (int v = 0; v < 6; v++) {
            const int64_t k = k_at(i), l = v < 2 ? k : v < 4 ? k + 7 : 2 * k;
            lr_case c =
                plain(FACTOR, v & 1 ? BACKEND_S : BACKEND_D, v == 5 ? k : l, v == 5 ? l : k);
            if (k > (small() ? 17 : 129) || (k > 64 && v > 2))
                continue;
            c.count = 1, c.kind = v % 3;
            lr_build(&c);
            assert_int_equal(lr_call(&c), MOAO_OK);
            lr_collect(&c);
            for (int64_t p = 0; p < least_of(c.m, c.n); p++)
                allow(&c.s, 0, p, 0);
            assert_int_equal(c.info[0], 0);
            assert_int_equal(trespasses(&c.a) + trespasses(&c.s), 0);
            real *q = explicit_q(&c, &c.a, &c.s, 0), w = factor_error(&c, 0, q), o = 0;
            for (int e = 0; e < 4; e++)
                w = worse(w, apply_error(&c, q, e & 1 ? 'L' : 'R', e & 2 ? 'N' : 'T'));
            if (c.n <= c.m) {
                const batch_dim n = batch_size(c.n);
                assert_int_equal(
                    be->lowrank->orgqr(ctx, c.t, 1, batch_size(c.m), n, n, c.a.m, c.s.m), MOAO_OK);
                fetch(&c.a);
                for (int64_t p = 0; p < c.n; p++)
                    for (int64_t r = 0; r < c.m; r++)
                        o = worse(o, fabsl(q[r + p * c.m] - get(&c.a, 0, r, p)));
                assert_int_equal(trespasses(&c.a), 0);
            }
            if (w > 1 || o > 2 * unit_of(&c, 0))
                print_error("reflectors %dx%d type %d kind %d: %.3Lg, %.3Lg\n", (int)c.m, (int)c.n,
                            c.t, c.kind, w, o / (2 * unit_of(&c, 0)));
            assert_true(w <= 1 && o <= 2 * unit_of(&c, 0));
            free(q);
            lr_free(&c);
        }
}

static void svd_of_all_sizes(void **state) {
    (void)state;
    bool right = true;
    static const int kinds[] = {GAUSS, GEOMETRIC, CLUSTERED, STEEP, COVARIANCE};
    for (size_t i = 0; i < ks_count(); i++)
        for (int v = 0; v < wides(k_at(i)); v++)
            for (int e = 0; e < 4; e++) {
                const int64_t k = k_at(i), l = wide_at(k, v);
                if ((k > 128 && (e > 1 || v > 1)) || (k > 33 && e > 1 && !full()))
                    continue;
                lr_case c = plain(SVD, e & 1 ? BACKEND_S : BACKEND_D, e & 2 ? k : l, e & 2 ? l : k);
                c.kind = kinds[(k + v + e) % 5];
                c.varied = v == 1, c.count = k > 100 ? 1 : 4;
                right &= run_case(&c);
            }
    assert_true(right);
}

/* Values alone, left alone, vectors times values: as the full call. */
static void svd_jobs(void **state) {
    (void)state;
    static const int64_t ms[] = {12, 9, 40, 70, 20, 150}, ns[] = {12, 30, 33, 65, 100, 140};
    for (size_t i = 0; i < (small() ? 3 : full() ? 6 : 5); i++)
        for (int v = 0; v < 9; v++) {
            lr_case c = plain(SVD, BACKEND_D, ms[i], ns[i]), d;
            const uint64_t start = seed;
            c.kind = v % 2 ? GEOMETRIC : GAUSS, c.count = 2;
            lr_build(&c);
            seed = start;
            d = c, d.jobu = "NUS"[v % 3], d.jobv = "NUS"[v / 3];
            lr_build(&d);
            assert_int_equal(lr_call(&c), MOAO_OK);
            assert_int_equal(lr_call(&d), MOAO_OK);
            lr_collect(&c), lr_collect(&d);
            assert_true(lr_right(&c, false) && lr_right(&d, false));
            const real unit = unit_of(&c, 0);
            for (int64_t b = 0; b < 2; b++)
                for (int64_t p = 0; p < c.s.rows[b]; p++) {
                    const real s = get(&c.s, b, p, 0), top = get(&c.s, b, 0, 0);
                    assert_true(fabsl(s - get(&d.s, b, p, 0)) <= 12 * unit * top);
                    for (int64_t r = 0; r < d.n && d.jobv == 'S'; r++) { /* A^T U = V S */
                        real x = get(&d.v, b, r, p);
                        for (int64_t q = 0; q < d.m && d.jobu == 'U'; q++)
                            x -= get(&d.u, b, q, p) * c.full[b][q + r * d.m];
                        assert_true(d.jobu != 'U' || fabsl(x) <= 6 * unit * top);
                    }
                }
            lr_free(&c), lr_free(&d);
        }
}

static void special_matrices(void **state) {
    (void)state;
    static const int64_t ms[] = {1, 7, 16, 33, 30, 70, 20, 150, 300},
                         ns[] = {1, 7, 13, 33, 8, 64, 45, 130, 257};
    bool right = true;
    for (size_t i = 0; i < (small() ? 5 : full() ? 9 : 7); i++)
        for (int kind = 0; kind < KINDS; kind++)
            for (int v = 0; v < 4; v++) {
                lr_case c = plain(v & 2 ? SVD : QR_Q, v & 1 ? BACKEND_S : BACKEND_D, ms[i], ns[i]);
                c.kind = kind, c.count = 2;
                right &= run_case(&c);
            }
    assert_true(right);
}

/* B (kappa 30) times positive diagonals over 20 decades (10 in single precision) on either side. */
static double *graded(backend_type t, int64_t n, int sides) {
    double *a = calloc((size_t)(n * n), sizeof *a), reach = t == BACKEND_D ? 10 : 5;
    for (int64_t i = 0; i < n; i++)
        a[i + i * n] = 1 + 29 * (double)i / (double)(n > 1 ? n - 1 : 1);
    for (int64_t r = 0; r < n; r++)
        reflect(n, n, a, true), reflect(n, n, a, false);
    for (int e = 0; e < 2; e++)
        for (int64_t p = 0; p < n; p++) {
            const double f = pow(10, reach * rnd());
            for (int64_t q = 0; q < n && (sides >> e & 1); q++)
                a[e ? p + q * n : q + p * n] *= f;
        }
    return a;
}

static void graded_values(void **state) {
    (void)state;
    static const double allowed[] = {0, 4, 20, 60};
    static const int64_t sizes[] = {8, 16, 24, 40, 64, 100, 128};
    real seen[4] = {0};
    for (size_t i = 0; i < (small() ? 3 : full() ? 7 : 5); i++)
        for (int v = 0; v < 6; v++) {
            const int64_t n = sizes[i];
            const int sides = 1 + v / 2;
            double *given[2];
            lr_case c = plain(SVD, v & 1 ? BACKEND_S : BACKEND_D, n, n);
            for (int b = 0; b < 2; b++)
                given[b] = graded(c.t, n, sides);
            c.given = given, c.count = 2;
            lr_build(&c);
            assert_int_equal(lr_call(&c), MOAO_OK);
            lr_collect(&c);
            assert_true(lr_right(&c, false));
            for (int b = 0; b < 2; b++) {
                real *a = malloc(sizeof(real) * (size_t)(n * n)), *s;
                for (int64_t p = 0; p < n * n; p++)
                    a[p] = c.full[b][p];
                s = values_of(n, n, a);
                for (int64_t p = 0; p < n; p++) {
                    const real e = fabsl(get(&c.s, b, p, 0) - s[p]) / s[p] / unit_of(&c, b);
                    seen[sides] = worse(seen[sides], e);
                    if (!(e <= allowed[sides]))
                        print_error(
                            "graded %d sides %d type %d: value %d of %.3Le is %.3e: %.3Lg units\n",
                            (int)n, sides, c.t, (int)p, s[p], get(&c.s, b, p, 0), e);
                }
                free(a), free(s), free(given[b]);
            }
            lr_free(&c);
        }
    print_message("%s graded: relative errors %.2Lf %.2Lf %.2Lf (B D, D B, D B D) of (k + 4) u\n",
                  be->name, seen[1], seen[2], seen[3]);
    for (int sides = 1; sides < 4; sides++)
        assert_true(seen[sides] <= allowed[sides]);
}

/* --- cuts --- */

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
 * long double; `more`: how many columns above the least are right. */
static bool cut_right(lr_case *c, int64_t more) {
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
        /* a value at the threshold itself may be cut */
        const bool enough = got >= r || (got == r - 1 && s[got] <= t + slack);
        const bool fine = off <= limit && c->info[b] == (lacks ? -3 : 0) && enough &&
                          got <= r + (more ? more : close);
        if (!fine)
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
            right &= cut_right(&c, 0);
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
            right &= cut_right(&c, c.cut.norm == '2' ? 4 : 2);
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

/* Thousands of matrices: none beyond its tolerance. */
static void ara_never_misses(void **state) {
    (void)state;
    int64_t misses = 0, done = 0, ranks = 0;
    const int64_t rounds = full() ? 20 : small() ? 1 : 2;
    for (int64_t round = 0; round < rounds; round++) {
        lr_case c = cut_case(ARA, BACKEND_D, 32, 32, round % 2 ? 1e-6 : 1e-9, 0);
        c.count = small() ? 20 : full() ? 500 : 200, c.layout = ALIGNED;
        lr_build(&c);
        assert_int_equal(lr_call(&c), MOAO_OK);
        lr_collect(&c);
        for (int64_t b = 0; b < c.count; b++, done++) {
            const real norm = frobenius(32 * 32, c.full[b]);
            misses +=
                !(c.info[b] == 0 && distance(c.full[b], 32, 32, &c.u, &c.v, NULL, b, c.rank[b]) <=
                                        c.cut.tol * norm * 1.001L + 8 * unit_of(&c, b) * norm);
            ranks += c.rank[b];
        }
        lr_free(&c);
    }
    print_message("%s ara: %d of %d matrices beyond the tolerance, mean rank %.1f\n", be->name,
                  (int)misses, (int)done, (double)ranks / (double)done);
    assert_int_equal(misses, 0);
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

/* --- recompression --- */
typedef struct {
    int64_t m, n, k, k2;
    bool cancels; /* U2 = -U (1 - 1e-6), V2 = V */
    double beta, alpha;
} sum_case;

/* One call on two matrices of a sum, brought into the form that cut_right looks at. */
static bool sum_right(sum_case q, backend_type t, int v) {
    const int64_t wide = q.k + q.k2 > 1 ? q.k + q.k2 : 1, m2[2] = {q.m, q.m}, n2[2] = {q.n, q.n},
                  w2[2] = {wide, wide}, k2[2] = {q.k2, q.k2};
    lr_case c = cut_case(ARA, t, q.m, q.n, t == BACKEND_S ? 1e-2 : v % 2 ? 1e-4 : 1e-7, 0);
    operand u2 = operand_new(t, 2, m2, k2, v % LAYOUTS),
            v2 = operand_new(t, 2, n2, k2, v % LAYOUTS);
    float al = (float)q.alpha, bt = (float)q.beta;
    const void *alpha = t == BACKEND_D ? (void *)&q.alpha : (void *)&al,
               *beta = t == BACKEND_D ? (void *)&q.beta : (void *)&bt;
    c.cut.most = wide, c.layout = v % LAYOUTS, c.job = "LRB"[v % 3], c.kind = ZERO;
    lr_build(&c);
    operand_free(&c.u), operand_free(&c.v);
    c.u = operand_new(t, 2, m2, w2, c.layout), c.v = operand_new(t, 2, n2, w2, c.layout);
    for (int b = 0; b < 2; b++) {
        for (int64_t p = 0; p < q.k + q.k2; p++) {
            const bool old = p < q.k;
            operand *uo = old ? &c.u : &u2, *vo = old ? &c.v : &v2;
            const int64_t at = old ? p : p - q.k;
            const double f = pow(10, -(double)at / 3);
            for (int64_t i = 0; i < q.m; i++)
                set(uo, b, i, at,
                    q.cancels && !old ? -get(&c.u, b, i, at) * (1 - 1e-6) : noise() * f);
            for (int64_t i = 0; i < q.n; i++)
                set(vo, b, i, at, q.cancels && !old ? get(&c.v, b, i, at) : noise());
        }
        for (int64_t j = 0; j < q.n; j++)
            for (int64_t i = 0; i < q.m; i++) {
                real x = 0;
                for (int64_t p = 0; p < q.k && q.beta != 0; p++)
                    x += (real)q.beta * get(&c.u, b, i, p) * get(&c.v, b, j, p);
                for (int64_t p = 0; p < q.k2; p++)
                    x += (real)q.alpha * get(&u2, b, i, p) * get(&v2, b, j, p);
                c.full[b][i + j * q.m] = (double)x;
            }
    }
    send(&c.u), send(&c.v), send(&u2), send(&v2);
    const int64_t lwork =
        (int64_t)be->lowrank->workspace(BATCH_RECOMPRESS, t, v % 2 ? 1 : 2, q.m, q.n, q.k + q.k2);
    c.work = device_copy(NULL, 0);
    if (lwork) {
        be->release(ctx, c.work);
        assert_int_equal(be->alloc(ctx, (size_t)lwork, &c.work), MOAO_OK);
    }
    assert_int_equal(be->lowrank->recompress(ctx, t, c.job, &c.cut, 2, batch_size(q.m),
                                             batch_size(q.n), beta, batch_size(q.k), c.u.m, c.v.m,
                                             alpha, batch_size(q.k2), u2.m, v2.m, c.drank, c.dinfo,
                                             c.work, (size_t)lwork),
                     MOAO_OK);
    lr_collect(&c), fetch(&u2), fetch(&v2);
    bool right = trespasses(&u2) + trespasses(&v2) == 0;
    /* rounding of the sum's own factors, not of the sum, limits what can be right */
    right &= q.cancels ? c.info[0] == 0 && c.rank[0] <= q.k + 1 && c.rank[0] > 0 : cut_right(&c, 0);
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
        {20, 16, 4, 4, false, 1, 1},     {40, 33, 8, 5, false, -2, 0.5},
        {64, 64, 16, 16, false, 1, -1},  {30, 50, 6, 6, true, 1, 1},
        {64, 40, 16, 16, true, 1, 1},    {10, 12, 8, 9, false, 1, 1},
        {12, 200, 8, 9, false, 1, 1},    {50, 50, 7, 0, false, 1, 1},
        {50, 40, 5, 6, false, 0, 2},     {33, 33, 0, 9, false, 1, 1},
        {128, 100, 20, 30, false, 1, 1}, {256, 256, 32, 32, false, 1, -1},
        {300, 512, 50, 60, false, 1, 1},
    };
    bool right = true;
    for (size_t i = 0; i < (small() ? 6 : full() ? COUNT(cases) : 11); i++)
        for (int v = 0; v < 6; v++)
            if (!cases[i].cancels || v < 4)
                right &= sum_right(cases[i], v >= 4 ? BACKEND_S : BACKEND_D, v);
    assert_true(right);
}

/* --- bad data, sizes, arguments --- */
static void names_bad_columns(void **state) {
    (void)state;
    static const int ops[] = {FACTOR, QR_Q, QR_R, SVD, RSVD, ARA};
    static const int64_t ns[] = {1, 7, 16, 33, 64, 100, 130};
    for (size_t o = 0; o < COUNT(ops); o++)
        for (size_t i = 0; i < (small() ? 4 : full() ? 7 : 6); i++)
            for (int v = 0; v < 6; v++) {
                const int64_t n = ns[i], m = v & 1 ? n : n + 5, at[] = {0, n - 1, n / 2};
                lr_case c = plain(ops[o], v & 2 ? BACKEND_S : BACKEND_D, m, n), d;
                double *given[3];
                c.is_cut = c.op >= RSVD, c.cut.most = n, c.cut.tol = 1e-6;
                if (c.op == RSVD)
                    c.cut.most = n > 8 ? n - 8 : 1;
                for (int b = 0; b < 3; b++)
                    given[b] = matrix_of(GAUSS, c.t, m, n);
                c.given = given;
                lr_build(&c);
                given[1][(v + 1) % m + at[v / 2] * m] = v & 1 ? NAN : INFINITY;
                d = c;
                lr_build(&d);
                assert_int_equal(lr_call(&c), MOAO_OK);
                assert_int_equal(lr_call(&d), MOAO_OK);
                lr_collect(&c), lr_collect(&d);
                if (d.info[1] != at[v / 2] + 1)
                    print_error("op %d %dx%d type %d: info %d\n", c.op, (int)m, (int)n, c.t,
                                d.info[1]);
                assert_int_equal(d.info[1], at[v / 2] + 1);
                assert_true(c.op < SVD || d.rank[1] == 0);
                for (int b = 0; b < 3; b += 2) { /* the neighbours, bit by bit */
                    assert_int_equal(d.info[b], c.info[b]);
                    for (int64_t j = 0; j < n; j++)
                        for (int64_t p = 0; p < m; p++) {
                            double x = get(&c.a, b, p, j), y = get(&d.a, b, p, j);
                            assert_memory_equal(&x, &y, sizeof x);
                        }
                    for (int64_t p = 0; p < c.s.rows[b]; p++) {
                        double x = get(&c.s, b, p, 0), y = get(&d.s, b, p, 0);
                        assert_memory_equal(&x, &y, sizeof x);
                    }
                }
                for (int b = 0; b < 3; b++)
                    free(given[b]);
                lr_free(&c), lr_free(&d);
            }
}

static void sizes_out_of_range(void **state) {
    (void)state;
    static const int64_t bad[] = {-1, 100, 41};
    for (int op = QR_Q; op <= ARA; op++)
        for (int v = 0; v < 3; v++) {
            lr_case c = plain(op, BACKEND_D, 40, 20);
            c.varied = true, c.count = 4, c.layout = POINTERS;
            c.is_cut = op >= RSVD, c.cut.tol = 1e-3, c.cut.most = 12;
            lr_build(&c);
            const int64_t right = c.ms[1];
            c.ms[1] = bad[v];
            be->release(ctx, c.dms);
            c.dms = device_copy(c.ms, sizeof(int64_t) * 4);
            assert_int_equal(lr_call(&c), MOAO_OK);
            lr_collect(&c);
            assert_int_equal(c.info[1], -1);
            c.ms[1] = right;
            memset(c.a.may, 0, (size_t)c.a.total);
            for (int b = 0; b < 4; b++)
                for (int64_t j = 0; j < c.ns[b] && op < RSVD && b != 1; j++)
                    for (int64_t i = 0; i < c.ms[b]; i++)
                        allow(&c.a, b, i, j);
            c.s.rows[1] = c.s.cols[1] = 0;
            if (op >= SVD) {
                assert_int_equal(c.rank[1], 0);
                assert_int_equal(lr_trespasses(&c), 0);
            } else
                assert_int_equal(trespasses(&c.a), 0);
            lr_free(&c);
        }
}

static void arguments(void **state) {
    (void)state;
    const backend_lowrank *q = be->lowrank;
    const batch_mat x = batch_strided(NULL, 8, 64), thin = batch_strided(NULL, 3, 64);
    const batch_dim n = batch_size(8), zero = batch_size(0), over = batch_size(BATCH_ORTH_MAX + 1);
    batch_cut cut = {.tol = 1e-3, .kind = 'R', .norm = 'F', .most = 4}, bad = cut;
    int64_t rank;
    const double one = 1;
    status_clear();
    assert_int_equal(q->geqrf(ctx, BACKEND_Z, 1, n, n, x, x, NULL), MOAO_INPUT);
    assert_int_equal(q->geqrf(ctx, BACKEND_D, -1, n, n, x, x, NULL), MOAO_INPUT);
    assert_int_equal(q->geqrf(ctx, BACKEND_D, 1, n, n, thin, x, NULL), MOAO_INPUT);
    assert_int_equal(q->geqrf(ctx, BACKEND_D, 1, over, over, batch_strided(NULL, 600, 1), x, NULL),
                     MOAO_INPUT);
    assert_int_equal(q->orgqr(ctx, BACKEND_D, 1, batch_size(4), n, zero, x, x), MOAO_INPUT);
    assert_int_equal(q->ormqr(ctx, BACKEND_D, 'X', 'N', 1, n, n, n, x, x, x), MOAO_INPUT);
    assert_int_equal(q->ormqr(ctx, BACKEND_D, 'L', 'C', 1, n, n, n, x, x, x), MOAO_INPUT);
    assert_int_equal(q->qr(ctx, BACKEND_D, 'X', 1, n, n, x, x, NULL, NULL, 0), MOAO_INPUT);
    assert_int_equal(
        q->gesvj(ctx, BACKEND_D, 'V', 'U', NULL, 1, n, n, x, x, x, x, NULL, NULL, NULL, 0),
        MOAO_INPUT);
    assert_int_equal(
        q->gesvj(ctx, BACKEND_D, 'U', 'U', &cut, 1, n, n, x, x, x, x, NULL, NULL, NULL, 0),
        MOAO_INPUT);
    bad.kind = 'X';
    assert_int_equal(
        q->gesvj(ctx, BACKEND_D, 'U', 'U', &bad, 1, n, n, x, x, x, x, &rank, NULL, NULL, 0),
        MOAO_INPUT);
    assert_int_equal(q->rsvd(ctx, BACKEND_D, 'U', 'U', &cut, -1, 3, 1, 1, n, n, x, x, x, x, &rank,
                             NULL, NULL, 0),
                     MOAO_INPUT);
    assert_int_equal(q->ara(ctx, BACKEND_D, 'X', &cut, 1, 1, n, n, x, x, x, &rank, NULL, NULL, 0),
                     MOAO_INPUT);
    assert_int_equal(q->recompress(ctx, BACKEND_D, 'L', &cut, 1, n, n, &one, batch_size(300), x, x,
                                   &one, n, x, x, &rank, NULL, NULL, 0),
                     MOAO_INPUT);
    assert_true(strlen(status_message()) > 0);
    status_clear();
    /* nothing to do */
    assert_int_equal(
        q->gesvj(ctx, BACKEND_D, 'U', 'U', NULL, 0, n, n, x, x, x, x, NULL, NULL, NULL, 0),
        MOAO_OK);
    for (int op = QR_Q; op <= ARA; op++) {
        lr_case c = plain(op, BACKEND_D, op % 2 ? 0 : 5, op % 2 ? 5 : 0);
        c.is_cut = op >= RSVD, c.cut.most = 0;
        lr_build(&c);
        assert_int_equal(lr_call(&c), MOAO_OK);
        lr_collect(&c);
        assert_int_equal(c.info[1], 0);
        assert_true(op < SVD || c.rank[1] == 0);
        lr_free(&c);
    }
}

/* --- many matrices, repeatable bits --- */
static void many_matrices(void **state) {
    (void)state;
    static const int ops[] = {QR_Q, SVD};
    for (size_t o = 0; o < COUNT(ops); o++)
        for (int v = 0; v < 2; v++) {
            lr_case c = plain(ops[o], v ? BACKEND_S : BACKEND_D, 3, 3);
            c.count = small() ? 3000 : full() && !v ? 1200000 : 65600;
            c.layout = STRIDED;
            lr_build(&c);
            assert_int_equal(lr_call(&c), MOAO_OK);
            lr_collect(&c);
            for (int64_t b = 0; b < c.count; b += b < 100 || b > c.count - 100 ? 1 : 61)
                assert_true(lr_error(&c, b) <= 1);
            lr_free(&c);
        }
}

/* The bits of a matrix: alone and at place 17 of 40, in a second stream, with the least workspace.
 */
static void repeatable(void **state) {
    (void)state;
    static const int ops[] = {QR_Q, SVD, RSVD, ARA};
    static const int64_t ns[] = {9, 24, 50, 100, 160};
    for (size_t o = 0; o < COUNT(ops); o++)
        for (size_t i = 0; i < (small() ? 2 : full() ? 5 : 4); i++) {
            lr_case c = plain(ops[o], BACKEND_D, ns[i] + 3, ns[i]), d, e;
            double *given[40];
            backend_ctx *first = ctx, *second = NULL;
            c.count = 40, c.is_cut = c.op >= RSVD, c.cut.tol = 1e-6, c.layout = ALIGNED;
            c.cut.most = ns[i] > 20 ? ns[i] / 2 : 5;
            for (int b = 0; b < 40; b++)
                given[b] = matrix_of(COVARIANCE, BACKEND_D, c.m, c.n);
            c.given = given;
            d = c, d.least = true, e = c, e.count = 1, e.given = given + 17;
            lr_build(&c), lr_build(&d), lr_build(&e);
            assert_int_equal(be->open(0, NULL, &second), MOAO_OK);
            assert_int_equal(lr_call(&c), MOAO_OK);
            ctx = second;
            assert_int_equal(lr_call(&d), MOAO_OK);
            assert_int_equal(lr_call(&e), MOAO_OK);
            lr_collect(&d), lr_collect(&e);
            ctx = first;
            lr_collect(&c);
            assert_memory_equal(c.a.host, d.a.host, (size_t)c.a.total * 8);
            assert_memory_equal(c.s.host, d.s.host, (size_t)c.s.total * 8);
            assert_memory_equal(c.u.host, d.u.host, (size_t)c.u.total * 8);
            assert_memory_equal(c.v.host, d.v.host, (size_t)c.v.total * 8);
            assert_int_equal(c.rank[17], e.rank[0]);
            for (int64_t p = 0; p < c.u.cols[17]; p++) {
                for (int64_t r = 0; r < c.m; r++) {
                    double x = get(&c.u, 17, r, p), y = get(&e.u, 0, r, p);
                    assert_memory_equal(&x, &y, sizeof x);
                }
                for (int64_t r = 0; r < c.n; r++) {
                    double x = get(&c.v, 17, r, p), y = get(&e.v, 0, r, p);
                    assert_memory_equal(&x, &y, sizeof x);
                }
            }
            for (int b = 0; b < 40; b++)
                free(given[b]);
            lr_free(&c), lr_free(&d), lr_free(&e);
            be->close(second);
        }
}

/* Errors put into right results are found. */
static void notices(lr_case *c, operand *o, int64_t i, int64_t j, double by) {
    const double x = get(o, 1, i, j);
    set(o, 1, i, j, x + by);
    if (lr_right(c, true))
        print_error("an error of %g in op %d (%d, %d) is not noticed\n", by, c->op, (int)i, (int)j);
    assert_false(lr_right(c, true));
    set(o, 1, i, j, NAN);
    assert_false(lr_right(c, true));
    set(o, 1, i, j, x);
    assert_true(lr_right(c, false));
}

static void checks_notice_errors(void **state) {
    (void)state;
    for (int v = 0; v < 4; v++) {
        const backend_type t = v & 1 ? BACKEND_S : BACKEND_D;
        const int64_t n = v & 2 ? 40 : 10;
        lr_case c = plain(SVD, t, n + 2, n), q = plain(QR_Q, t, n + 2, n);
        const double by = 100 * (double)(n + 4) * eps_of(t);
        lr_build(&c), lr_build(&q);
        assert_int_equal(lr_call(&c), MOAO_OK);
        assert_int_equal(lr_call(&q), MOAO_OK);
        lr_collect(&c), lr_collect(&q);
        assert_true(lr_right(&c, false) && lr_right(&q, false));
        notices(&q, &q.a, 3, 2, by), notices(&q, &q.s, 2, 4, by * frobenius(n + 2, q.full[1]));
        notices(&q, &q.s, 4, 2, 1e-30);
        notices(&c, &c.u, 3, 2, by), notices(&c, &c.v, 4, 2, by);
        notices(&c, &c.s, 0, 0, by * get(&c.s, 1, 0, 0) * (double)n);
        const double s0 = get(&c.s, 1, 0, 0), s1 = get(&c.s, 1, 1, 0);
        set(&c.s, 1, 0, 0, s1), set(&c.s, 1, 1, 0, s0);
        assert_false(lr_right(&c, true));
        set(&c.s, 1, 0, 0, s0), set(&c.s, 1, 1, 0, s1);
        for (int64_t i = 0; i < n + 2; i++) /* both signs, so that only their rule is broken */
            set(&c.u, 1, i, 0, -get(&c.u, 1, i, 0));
        for (int64_t i = 0; i < n; i++)
            set(&c.v, 1, i, 0, -get(&c.v, 1, i, 0));
        assert_false(lr_right(&c, true));
        for (int64_t i = 0; i < n + 2; i++)
            set(&c.u, 1, i, 0, -get(&c.u, 1, i, 0));
        for (int64_t i = 0; i < n; i++)
            set(&c.v, 1, i, 0, -get(&c.v, 1, i, 0));
        c.rank[1]--;
        assert_false(lr_right(&c, true));
        c.rank[1]++;
        c.info[1] = 1;
        assert_false(lr_right(&c, true));
        c.info[1] = 0;
        set(&c.u, 1, n + 2, 0, 1); /* the padding */
        assert_false(lr_right(&c, true));
        lr_free(&c), lr_free(&q);
    }
}

static int start(void **state) {
    const char *name = getenv("MOAO_TEST_BACKEND");
    (void)state;
    if (backend_get(name && *name ? name : "cpu", &be) != MOAO_OK ||
        be->open(0, NULL, &ctx) != MOAO_OK) {
        print_error("%s\n", status_message());
        return -1;
    }
    print_message("backend %s%s\n", be->name, be == &backend_cpu ? "; no GPU is used" : "");
    return 0;
}

static int finish(void **state) {
    (void)state;
    be->close(ctx);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(qr_of_all_sizes),
        cmocka_unit_test(reflectors),
        cmocka_unit_test(svd_of_all_sizes),
        cmocka_unit_test(svd_jobs),
        cmocka_unit_test(special_matrices),
        cmocka_unit_test(graded_values),
        cmocka_unit_test(cut_by_tolerance),
        cmocka_unit_test(cut_edges),
        cmocka_unit_test(cut_of_each),
        cmocka_unit_test(adaptive_ranks),
        cmocka_unit_test(ara_never_misses),
        cmocka_unit_test(fixed_rank_sketch),
        cmocka_unit_test(sums),
        cmocka_unit_test(names_bad_columns),
        cmocka_unit_test(sizes_out_of_range),
        cmocka_unit_test(arguments),
        cmocka_unit_test(many_matrices),
        cmocka_unit_test(repeatable),
        cmocka_unit_test(checks_notice_errors),
    };
    return cmocka_run_group_tests(tests, start, finish);
}
