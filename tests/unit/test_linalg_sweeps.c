/* What comes of a matrix that is given too little: sweeps of rotations of the batched SVD, how many
 * each matrix took and what if they do not suffice; columns of an adaptive compression that is to
 * be whole or nothing. One body for every backend (MOAO_TEST_BACKEND). */
// timeout: 120
#include "support/lowrank_case.h"

enum { MATRICES = 4, ROTATED = 0, DIAGONAL = 1, ANOTHER = 2, BROKEN = 3 };

/* Normal entries in columns that fall off by 1e-4 (so that every backend rotates); a matrix of
 * orthogonal columns; a NaN. */
static void fill(double **given, backend_type t, int64_t m, int64_t n) {
    for (int b = 0; b < MATRICES; b++) {
        given[b] = matrix_of(GAUSS, t, m, n);
        for (int64_t j = 0; j < n; j++)
            for (int64_t i = 0; i < m; i++)
                given[b][i + j * m] = (b == DIAGONAL ? i == j : given[b][i + j * m]) *
                                      pow(10, -4 * (double)j / (double)n);
    }
    given[BROKEN][m * n - 1] = NAN;
}

/* A call with at most `most` sweeps (0: as many as there may be), without a cut where most < 0;
 * the sweeps of each matrix. */
static void call_with(lr_case *c, int most, int *sweeps) {
    for (int b = 0; b < MATRICES; b++)
        sweeps[b] = -77;
    c->is_cut = most >= 0;
    c->cut.sweeps_most = most;
    lr_build(c);
    c->cut.sweeps = device_copy(sweeps, sizeof(int) * MATRICES);
    const status st = lr_call(c);
    if (st != MOAO_OK)
        print_error("%s\n", status_message());
    assert_int_equal(st, MOAO_OK);
    lr_collect(c);
    bring(sweeps, c->cut.sweeps, sizeof(int) * MATRICES);
    be->release(ctx, c->cut.sweeps);
    c->cut.sweeps = NULL;
}

static void same_column(operand *x, operand *y, int64_t b, int64_t rows, int64_t j) {
    for (int64_t i = 0; i < rows; i++) {
        const double p = get(x, b, i, j), q = get(y, b, i, j);
        assert_memory_equal(&p, &q, sizeof p);
    }
}
static void same_result(lr_case *c, lr_case *d, int64_t b) {
    const int64_t k = least_of(c->m, c->n);
    assert_int_equal(c->rank[b], d->rank[b]);
    same_column(&c->s, &d->s, b, k, 0);
    for (int64_t j = 0; j < k; j++)
        same_column(&c->u, &d->u, b, c->m, j), same_column(&c->v, &d->v, b, c->n, j);
}

/* What info -2 promises: sorted values, vectors of norm 1, those of one side orthonormal. */
static void is_iterate(lr_case *c, int64_t b) {
    const int64_t k = least_of(c->m, c->n);
    const real allowed = 3 * unit_of(c, b);
    assert_int_equal(c->rank[b], k);
    for (int64_t p = 0; p < k; p++) {
        const double s = get(&c->s, b, p, 0);
        assert_true(s > 0 && (p == 0 || s <= get(&c->s, b, p - 1, 0)));
        real u = -1, v = -1;
        for (int64_t i = 0; i < c->m; i++)
            u += (real)get(&c->u, b, i, p) * get(&c->u, b, i, p);
        for (int64_t i = 0; i < c->n; i++)
            v += (real)get(&c->v, b, i, p) * get(&c->v, b, i, p);
        assert_true(fabsl(u) <= allowed && fabsl(v) <= allowed);
    }
    assert_true(skew(&c->u, b, c->m, k) <= allowed || skew(&c->v, b, c->n, k) <= allowed);
}

/* The sweeps of a matrix are exactly those that it needs: with so many its result has the same
 * bits, with one less it has info -2, and the others are as before. */
static void counts_of(backend_type t, int64_t m, int64_t n) {
    double *given[MATRICES];
    int sweeps[MATRICES], again[MATRICES];
    lr_case c = plain(SVD, t, m, n), d, none;
    fill(given, t, m, n);
    c.given = given, c.count = MATRICES, c.least = true;
    d = none = c;
    call_with(&c, 0, sweeps);
    call_with(&none, -1, again);
    for (int b = 0; b < BROKEN; b++) {
        assert_int_equal(again[b], -77);
        assert_int_equal(c.info[b], 0);
        same_result(&c, &none, b);
        if (!(sweeps[b] >= 1 && sweeps[b] <= 15))
            print_error("%s %dx%d type %d: %d sweeps\n", be->name, (int)m, (int)n, t, sweeps[b]);
        assert_in_range(sweeps[b], 1, 15);
    }
    assert_int_equal(sweeps[DIAGONAL], 1);
    assert_int_equal(sweeps[BROKEN], 0);
    assert_int_equal(c.info[BROKEN], n);
    assert_true(sweeps[ROTATED] >= 2);
    print_message("%s %dx%d type %d: %d and %d sweeps\n", be->name, (int)m, (int)n, t,
                  sweeps[ROTATED], sweeps[ANOTHER]);
    for (int less = 0; less < 3; less++) {
        lr_case e = d;
        const int most = less == 2 ? 1 : sweeps[ROTATED] - less;
        call_with(&e, most, again);
        for (int b = 0; b < BROKEN; b++) {
            const bool enough = sweeps[b] <= most;
            assert_int_equal(again[b], enough ? sweeps[b] : most);
            assert_int_equal(e.info[b], enough ? 0 : -2);
            if (enough)
                same_result(&c, &e, b);
            else
                is_iterate(&e, b);
        }
        assert_int_equal(e.info[BROKEN], n);
        assert_int_equal(again[BROKEN], 0);
        assert_int_equal(lr_trespasses(&e), 0);
        lr_free(&e);
    }
    lr_free(&c), lr_free(&none);
    for (int b = 0; b < MATRICES; b++)
        free(given[b]);
}

static void sweeps_are_counted(void **state) {
    (void)state;
    static const int64_t ms[] = {6, 16, 20, 12, 40, 70, 300, 130, 140, 128, 1100, 330},
                         ns[] = {6, 13, 20, 31, 40, 66, 20, 66, 135, 128, 30, 300};
    for (size_t i = 0; i < (small() ? 8 : full() ? 12 : 11); i++)
        for (int v = 0; v < 2; v++)
            counts_of(v ? BACKEND_S : BACKEND_D, ms[i], ns[i]);
}

/* Sizes for each matrix: nothing is rotated where there is nothing, or a size out of range. */
static void empty_matrices(void **state) {
    (void)state;
    for (int v = 0; v < 4; v++) {
        int sweeps[MATRICES];
        lr_case c = plain(SVD, v & 1 ? BACKEND_S : BACKEND_D, v & 2 ? 50 : 9, v & 2 ? 40 : 9);
        c.varied = true, c.count = MATRICES, c.is_cut = true;
        lr_build(&c);
        const int64_t right = c.ms[1], zero = c.ns[2];
        c.ms[1] = -1, c.ns[2] = 0;
        be->release(ctx, c.dms), be->release(ctx, c.dns);
        c.dms = device_copy(c.ms, sizeof(int64_t) * MATRICES);
        c.dns = device_copy(c.ns, sizeof(int64_t) * MATRICES);
        memset(sweeps, 0x55, sizeof sweeps);
        c.cut.sweeps = device_copy(sweeps, sizeof sweeps);
        assert_int_equal(lr_call(&c), MOAO_OK);
        lr_collect(&c);
        bring(sweeps, c.cut.sweeps, sizeof sweeps);
        assert_int_equal(c.info[1], -1);
        assert_int_equal(sweeps[1], 0);
        assert_int_equal(c.info[2], 0);
        assert_int_equal(sweeps[2], 0);
        be->release(ctx, c.cut.sweeps);
        c.ms[1] = right, c.ns[2] = zero;
        lr_free(&c);
    }
}

/* Sketches whose SVD may not end say so, and leave `sweeps` alone. */
static void sketches_say_so(void **state) {
    (void)state;
    for (int op = RSVD; op <= ARA; op++)
        for (int v = 0; v < 2; v++) {
            int sweeps[MATRICES] = {-77, -77, -77, -77};
            lr_case c = plain(op, v ? BACKEND_S : BACKEND_D, 40, 30);
            c.kind = GEOMETRIC, c.count = MATRICES, c.is_cut = true;
            c.cut.tol = 1e-2, c.cut.most = 20, c.cut.sweeps_most = 1;
            lr_build(&c);
            c.cut.sweeps = device_copy(sweeps, sizeof sweeps);
            assert_int_equal(lr_call(&c), MOAO_OK);
            lr_collect(&c);
            bring(sweeps, c.cut.sweeps, sizeof sweeps);
            for (int b = 0; b < MATRICES; b++) {
                assert_int_equal(c.info[b], -2);
                assert_int_equal(sweeps[b], -77);
            }
            be->release(ctx, c.cut.sweeps);
            lr_free(&c);
        }
}

static void limits_are_checked(void **state) {
    (void)state;
    static const int bad[] = {-1, BATCH_SWEEPS_MAX + 1};
    const batch_mat x = batch_strided(NULL, 8, 64);
    const batch_dim n = batch_size(8);
    int64_t rank;
    for (int v = 0; v < 2; v++) {
        const batch_cut cut = {.kind = 'R', .norm = 'F', .most = 8, .sweeps_most = bad[v]};
        status_clear();
        assert_int_equal(be->lowrank->gesvj(ctx, BACKEND_D, 'U', 'U', &cut, 1, n, n, x, x, x, x,
                                            &rank, NULL, NULL, 0),
                         MOAO_INPUT);
    }
    status_clear();
}

/* Or nothing: -3 for every matrix that `most` columns do not do for, and for few others, whose
 * ranks are near `most`; the rest is as without it. Of these -4 for those that are seen to need
 * more than a later call may give, and for few others. */
static void ara_or_nothing(void **state) {
    (void)state;
    int64_t early = 0, done = 0, refused = 0, never = 0, too_soon = 0;
    for (int64_t most = 24, kind = 0; most <= 72; most += 12 * (kind == 1), kind = 1 - kind) {
        enum { PLAIN, NOTHING, FORESEEN, LATER, CALLS };
        const int64_t later = most + 16;
        lr_case c[CALLS];
        for (int k = 0; k < CALLS; k++) {
            c[k] = plain(ARA, BACKEND_D, 120, 126);
            c[k].is_cut = true, c[k].kind = kind ? GEOMETRIC : COVARIANCE;
            c[k].cut.tol = 1e-5, c[k].cut.norm = 'F', c[k].cut.kind = 'R', c[k].jobv = 'S';
            c[k].count = kind ? 4 : 12, c[k].cut.most = k == LATER ? later : most;
            c[k].cut.or_nothing = k == NOTHING || k == FORESEEN;
            c[k].cut.later = k == FORESEEN ? later : 0;
            seed = 1; /* the same matrices */
            lr_build(&c[k]);
            assert_int_equal(lr_call(&c[k]), MOAO_OK);
            lr_collect(&c[k]);
        }
        for (int64_t b = 0; b < c[0].count; b++, done++) {
            const int info = c[NOTHING].info[b];
            refused += info == -3;
            if (c[PLAIN].info[b] == -3)
                assert_int_equal(info, -3);
            else if (info == -3)
                early++;
            else
                assert_int_equal(c[PLAIN].rank[b], c[NOTHING].rank[b]);
            if (c[PLAIN].info[b] == 0 && info == -3)
                assert_true(4 * c[PLAIN].rank[b] > 3 * most);
            if (c[FORESEEN].info[b] == -4) {
                assert_int_equal(info, -3);
                never++;
                too_soon += c[LATER].info[b] == 0;
                assert_true(c[LATER].info[b] == -3 || 4 * c[LATER].rank[b] > 3 * later);
            } else {
                assert_int_equal(c[FORESEEN].info[b], info);
            }
        }
        for (int k = 0; k < CALLS; k++)
            lr_free(&c[k]);
    }
    print_message("%s ara or nothing: %d of %d refused, %d of them too early; %d for good, %d of "
                  "them too early\n",
                  be->name, (int)refused, (int)done, (int)early, (int)never, (int)too_soon);
    assert_true(refused > 0 && refused < done && 10 * early <= done);
    assert_true(never > 0 && never < refused && 10 * too_soon <= done);
}

/* Power iterations and columns beyond the rank that an operation has not got. */
static void powers(void **state) {
    (void)state;
    const batch_mat x = batch_strided(NULL, 8, 64);
    const batch_dim n = batch_size(8);
    batch_cut cut = {.tol = 0, .kind = 'A', .norm = '2', .most = 4};
    int64_t rank;
    for (int power = -1; power <= 3; power++) {
        assert_int_equal(be->lowrank->rsvd(ctx, BACKEND_D, 'U', 'U', &cut, 2, power, 1, 0, n, n, x,
                                           x, x, x, &rank, NULL, NULL, 0),
                         power >= 0 && power <= 2 ? MOAO_OK : MOAO_INPUT);
        status_clear();
    }
    cut.most = BATCH_SVD_MAX;
    assert_int_equal(be->lowrank->rsvd(ctx, BACKEND_D, 'U', 'U', &cut, 1, 0, 1, 0, n, n, x, x, x, x,
                                       &rank, NULL, NULL, 0),
                     MOAO_INPUT);
    status_clear();
}

/* What a cut may say, one member at a time; a tolerance of its own for each matrix takes the place
 * of the common one. */
static void cuts(void **state) {
    (void)state;
    const backend_lowrank *q = be->lowrank;
    const batch_mat x = batch_strided(NULL, 8, 64);
    const batch_dim n = batch_size(8);
    const batch_cut good = {.tol = 0, .kind = 'A', .norm = '2', .most = 4};
    const double each = 1;
    for (int what = 0; what < 12; what++) {
        batch_cut cut = good;
        int64_t rank;
        cut.tol = what == 1 || what == 2 ? -1e-3 : 0;
        cut.tol_each = what == 2 ? &each : NULL;
        cut.kind = what == 3 ? 'F' : 'A';
        cut.norm = what == 4 ? 'A' : '2';
        cut.most = what == 5 ? -1 : what == 6 ? BATCH_SVD_MAX + 1 : 4;
        cut.later = what == 7 ? -1 : what == 8 ? BATCH_SVD_MAX + 1 : 0;
        cut.sweeps_most = what == 9 ? -1 : what == 10 ? BATCH_SWEEPS_MAX + 1 : 0;
        const status want = what == 0 || what == 2 || what == 11 ? MOAO_OK : MOAO_INPUT;
        const double one = 1;
        const status st[4] = {
            q->gesvj(ctx, BACKEND_D, 'U', 'U', &cut, 0, n, n, x, x, x, x, &rank, NULL, NULL, 0),
            q->rsvd(ctx, BACKEND_D, 'U', 'U', &cut, 2, 1, 1, 0, n, n, x, x, x, x, &rank, NULL, NULL,
                    0),
            q->ara(ctx, BACKEND_D, 'L', &cut, 1, 0, n, n, x, x, x, &rank, NULL, NULL, 0),
            q->recompress(ctx, BACKEND_D, 'L', &cut, 0, n, n, &one, n, x, x, &one, n, x, x, &rank,
                          NULL, NULL, 0)};
        for (int op = 0; op < 4; op++)
            if (st[op] != want)
                fail_msg("cut %d, operation %d: status %d", what, op, (int)st[op]);
        status_clear();
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cuts),
        cmocka_unit_test(powers),
        cmocka_unit_test(sweeps_are_counted),
        cmocka_unit_test(empty_matrices),
        cmocka_unit_test(sketches_say_so),
        cmocka_unit_test(limits_are_checked),
        cmocka_unit_test(ara_or_nothing),
    };
    return RUN_ON_BACKENDS(tests);
}
