/* Batched QR and SVD, one body for every backend (MOAO_TEST_BACKEND). What
 * takes long runs on the GPU or with MOAO_TEST_FULL; MOAO_TEST_SMALL leaves only small sizes. */
// timeout: 240
#include "support/lowrank_case.h"

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
static const int64_t few_k[] = {1, 2, 8, 9, 16, 33, 64},
                     some_k[] = {1, 2, 7, 8, 9, 16, 17, 31, 33, 64, 65},
                     all_k[] = {1,  2,  7,  8,   9,   15,  16,  17,  31,  32,  33,  63,  64,
                                65, 96, 97, 100, 127, 128, 129, 200, 255, 256, 257, 511, 512};
static size_t ks_count(void) {
    return full() ? COUNT(all_k) : small() ? COUNT(few_k) : COUNT(some_k);
}
static int64_t k_at(size_t i) {
    return full() ? all_k[i] : small() ? few_k[i] : some_k[i];
}
static int64_t wide_at(int64_t k, int v) {
    const int64_t tall = small() && k == 16  ? 160
                         : small() && k == 9 ? 300
                                             : 2 * k,
                  wide[] = {k, k + 1, tall, 129, 513, 511, 1025, 4097};
    return wide[v] < k ? k : wide[v];
}
static int wides(int64_t k) {
    return small() ? 3 : full() && k <= 64 ? 8 : full() && k <= 256 ? 5 : k <= 33 ? 5 : 2;
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
                c.varied = v == 1, c.count = k > 100 ? 2 : k == 9 && v == 0 ? 133 : 5;
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

static void reflectors_right(backend_type t, int64_t m, int64_t n, int kind) {
    lr_case c = plain(FACTOR, t, m, n);
    c.count = 1, c.kind = kind;
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
        const batch_dim k = batch_size(c.n);
        assert_int_equal(be->lowrank->orgqr(ctx, c.t, 1, batch_size(c.m), k, k, c.a.m, c.s.m),
                         MOAO_OK);
        fetch(&c.a);
        for (int64_t p = 0; p < c.n; p++)
            for (int64_t r = 0; r < c.m; r++)
                o = worse(o, fabsl(q[r + p * c.m] - get(&c.a, 0, r, p)));
        assert_int_equal(trespasses(&c.a), 0);
    }
    if (w > 1 || o > 2 * unit_of(&c, 0))
        print_error("reflectors %dx%d type %d kind %d: %.3Lg, %.3Lg\n", (int)c.m, (int)c.n, c.t,
                    c.kind, w, o / (2 * unit_of(&c, 0)));
    assert_true(w <= 1 && o <= 2 * unit_of(&c, 0));
    free(q);
    lr_free(&c);
}

static void reflectors(void **state) {
    (void)state;
    for (size_t i = 0; i < ks_count(); i++)
        for (int v = 0; v < 6; v++) {
            const int64_t k = k_at(i), l = v < 2 ? k : v < 4 ? k + 7 : 2 * k;
            if (k <= (small() ? 17 : 129) && (k <= 64 || v <= 2))
                reflectors_right(v & 1 ? BACKEND_S : BACKEND_D, v == 5 ? k : l, v == 5 ? l : k,
                                 v % 3);
        }
}

static void tall_reflectors(void **state) {
    (void)state;
    static const int kinds[] = {GAUSS, EQUAL, IDENTITY, STEEP, ORTHOGONAL, ZERO, GAPS};
    for (size_t i = 0; i < COUNT(kinds); i++)
        for (int v = 0; v < 2; v++)
            reflectors_right(v ? BACKEND_S : BACKEND_D, i % 3 ? 520 : 300,
                             i % 2     ? 9
                             : small() ? 19
                                       : 32,
                             kinds[i]);
}

/* Sizes and numbers of reflectors of each matrix: Q^T A is R, and Q's first columns are explicit.
 */
static void reflectors_of_each(void **state) {
    (void)state;
    for (int v = 0; v < 4; v++) {
        const int64_t n = v & 2 ? 40 : 12, m = n + 9;
        lr_case c = plain(FACTOR, v & 1 ? BACKEND_S : BACKEND_D, m, n);
        int64_t ks[5];
        c.varied = true, c.count = 5;
        lr_build(&c);
        operand x = operand_new(c.t, c.count, c.ms, c.ns, c.layout);
        for (int64_t b = 0; b < c.count; b++) {
            ks[b] = least_of(c.ms[b], c.ns[b]);
            for (int64_t j = 0; j < c.ns[b]; j++)
                for (int64_t i = 0; i < c.ms[b]; i++)
                    set(&x, b, i, j, c.full[b][i + j * c.ms[b]]), allow(&x, b, i, j);
        }
        send(&x);
        const batch_dim dm = {m, c.dms}, dn = {n, c.dns}, dk = {n, device_copy(ks, sizeof ks)};
        assert_int_equal(lr_call(&c), MOAO_OK);
        assert_int_equal(
            be->lowrank->ormqr(ctx, c.t, 'L', 'T', c.count, dm, dn, dk, c.a.m, c.s.m, x.m),
            MOAO_OK);
        lr_collect(&c), fetch(&x);
        assert_int_equal(trespasses(&x), 0);
        real *q[5];
        for (int64_t b = 0; b < c.count; b++) {
            const real allowed = 4 * unit_of(&c, b) * frobenius(c.ms[b] * c.ns[b], c.full[b]);
            for (int64_t j = 0; j < c.ns[b]; j++)
                for (int64_t i = 0; i < c.ms[b]; i++)
                    assert_true(fabsl(get(&x, b, i, j) - (i <= j ? get(&c.a, b, i, j) : 0)) <=
                                allowed);
            q[b] = explicit_q(&c, &c.a, &c.s, b);
        }
        const batch_dim columns = {n, dk.each}; /* as many as there are reflectors */
        assert_int_equal(be->lowrank->orgqr(ctx, c.t, c.count, dm, columns, dk, c.a.m, c.s.m),
                         MOAO_OK);
        fetch(&c.a);
        for (int64_t b = 0; b < c.count; b++) {
            for (int64_t j = 0; j < ks[b]; j++)
                for (int64_t i = 0; i < c.ms[b]; i++)
                    assert_true(fabsl(q[b][i + j * c.ms[b]] - get(&c.a, b, i, j)) <=
                                2 * unit_of(&c, b));
            free(q[b]);
        }
        be->release(ctx, (void *)dk.each), operand_free(&x), lr_free(&c);
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
                c.varied = v == 1, c.count = k > 100 ? 1 : k == 9 && v == 0 ? 133 : 4;
                right &= run_case(&c);
            }
    assert_true(right);
}

/* Orders whose rotations a device deals out over thread blocks: one pair of blocks of columns, two,
 * three; matrices of which some have fewer. */
static void svd_over_blocks(void **state) {
    (void)state;
    static const int64_t ms[] = {66, 96, 100, 150, 130, 192}, ns[] = {65, 96, 100, 70, 129, 140};
    bool right = true;
    for (size_t i = 0; i < COUNT(ms); i++)
        for (int v = 0; v < 2; v++) {
            const bool turned = (i + (size_t)v) % 2;
            lr_case c = plain(SVD, v ? BACKEND_S : BACKEND_D, turned ? ns[i] : ms[i],
                              turned ? ms[i] : ns[i]);
            c.kind = i % 2 ? GAUSS : GEOMETRIC, c.varied = i < 4, c.count = i < 4 ? 3 : 1;
            c.least = i == 2;
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
    for (size_t i = 0; i < (small() ? 5 : 9); i++)
        for (int kind = 0; kind < KINDS; kind++)
            for (int v = 0; v < 4; v++) {
                if (i > 6 && !full() && kind != ONES) /* what is left shrinks to underflow */
                    continue;
                lr_case c = plain(v & 2 ? SVD : QR_Q, v & 1 ? BACKEND_S : BACKEND_D, ms[i], ns[i]);
                c.kind = kind, c.count = 2;
                right &= run_case(&c);
            }
    assert_true(right);
}

/* Tall ones, well conditioned or not, beside each other. */
static void tall_matrices(void **state) {
    (void)state;
    static const int64_t ms[] = {280, 200, 520, 260, 512, 600, 1100},
                         ns[] = {40, 80, 20, 64, 33, 96, 64};
    bool right = true;
    for (size_t i = 0; i < (small() ? 3 : COUNT(ms)); i++)
        for (int kind = 0; kind < KINDS; kind += small() ? 3 : 1)
            for (int v = 0; v < 4; v++) {
                lr_case c = plain(v & 2 ? QR_R : QR_Q, v & 1 ? BACKEND_S : BACKEND_D, ms[i], ns[i]);
                c.kind = kind, c.count = 3, c.varied = v == 0;
                right &= run_case(&c);
            }
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
            /* LAPACK's QR takes up to 1.1 of what is allowed in 3 of 20,000 */
            for (int64_t b = 0; b < c.count; b += b < 100 || b > c.count - 100 ? 1 : 61) {
                const real e = lr_error(&c, b) / (be == &backend_cpu ? 1.25L : 1);
                if (!(e <= 1))
                    print_error("op %d type %d matrix %" PRId64 ": %.3Lg of what is allowed\n",
                                c.op, c.t, b, e);
                assert_true(e <= 1);
            }
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(qr_of_all_sizes),    cmocka_unit_test(reflectors),
        cmocka_unit_test(tall_reflectors),    cmocka_unit_test(reflectors_of_each),
        cmocka_unit_test(svd_of_all_sizes),   cmocka_unit_test(svd_over_blocks),
        cmocka_unit_test(svd_jobs),           cmocka_unit_test(special_matrices),
        cmocka_unit_test(tall_matrices),      cmocka_unit_test(names_bad_columns),
        cmocka_unit_test(sizes_out_of_range), cmocka_unit_test(arguments),
        cmocka_unit_test(many_matrices),      cmocka_unit_test(repeatable),
    };
    return RUN_ON_BACKENDS(tests);
}
