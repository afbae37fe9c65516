/* Tile low-rank matrices where memory of the backend runs out: whichever allocation fails, the call
 * says so, gives no matrix, and keeps nothing. The next call is as if nothing had been. */
#include "support/tlr_case.h"
#include "support/tlr_counted.h"

enum { B = 32 };

static int setup(void **state) {
    (void)state;
    counting_begin();
    return 0;
}
static int teardown(void **state) {
    (void)state;
    counting_end();
    return 0;
}

/* One call, which may make a matrix. */
typedef status call(void *arg, tlr **made);

/* Every allocation of the call fails once. anew: the call may begin anew with less memory, and then
 * succeeds. */
static void walk(call *make, void *arg, bool anew) {
    const int64_t before = live;
    int64_t failures = 0, successes = 0;
    for (int64_t k = 0;; k++) {
        tlr *made = NULL;
        left = k;
        const status st = make(arg, &made);
        const bool all = left >= 0;
        left = -1;
        if (all) {
            ok(st);
            tlr_close(made);
            assert_int_equal(live, before);
            break;
        }
        if (anew && st == MOAO_OK) {
            tlr_close(made);
            assert_int_equal(live, before);
            successes++;
            continue;
        }
        assert_int_equal(st, MOAO_MEMORY);
        assert_null(made);
        if (live != before)
            print_error("after allocation %d failed %d are kept\n", (int)k, (int)(live - before));
        assert_int_equal(live, before);
        assert_non_null(strstr(status_message(), "memory for a test"));
        status_clear();
        failures++;
    }
    assert_true(failures > 0);
    assert_int_equal(successes > 0, anew);
}

/* --- factors */
typedef struct {
    const points *p;
    const tlr *a; /* NULL: from entries */
    char look;
    tlr_options o;
} factor_case;

static int64_t most_finished; /* columns, of any factor that did not come about */

static status make_factor(void *arg, tlr **made) {
    const factor_case *c = arg;
    const tlr_source from = {
        .layout = &c->p->l, .fill = c->a ? NULL : fill, .arg = (void *)c->p, .a = c->a};
    tlr_report report;
    const status st = tlr_factor(be, ctx, &from, c->look, &c->o, NULL, made, &report);
    /* what was there when memory ran out: some of the columns, with as many tiles as they have */
    if (st == MOAO_MEMORY) {
        const int64_t at = report.columns, step = c->o.width / B; /* tiles of a block column */
        int64_t tiles = 0;
        most_finished = at > most_finished ? at : most_finished;
        for (int64_t k = 0; k < c->p->l.nt && c->p->l.first[k] < at; k++)
            for (int64_t i = k + 1; i < c->p->l.nt; i++)
                tiles += i / step > k / step;
        assert_in_range(at, 0, c->p->n - 1);
        assert_int_equal(report.made.tiles, tiles);
        assert_true((report.made.bytes > 0) == (at > 0));
    }
    return st;
}

static void factors(void **state) {
    (void)state;
    most_finished = 0;
    points p = points_new(100, B, TLR_KD);
    for (int v = 0; v < 11; v++) {
        factor_case c = {.p = &p, .look = v == 1 || v == 3 ? 'R' : 'L', .o = small_options(1e-4)};
        tlr *a = NULL;
        c.o.cut = v == 7 ? 4 : -1; /* many dense tiles */
        c.o.fp32 = v >= 4, c.o.host = v == 4 || v == 10, c.o.mixed = v >= 5 && v < 9,
        c.o.terms = v == 6 || v == 8 ? 3 : 0;
        c.o.fp16 = v == 8 || v == 9;
        c.o.room = v == 10 ? (size_t)1 << 28 : 0;
        if (v == 2 || v == 3) {
            ok(tlr_build(be, ctx, &p.l, NULL, fill, &p, &c.o, &a));
            c.a = a;
        }
        walk(make_factor, &c, c.o.host);
        tlr_close(a);
    }
    assert_true(most_finished > 0);
    points_free(&p);
}

/* --- matrices from their entries, and copies */
typedef struct {
    const points *p;
    const tlr_layout *cols;
    tlr_options o;
    const tlr *a;
    char trans;
} build_case;

static status make_matrix(void *arg, tlr **made) {
    const build_case *c = arg;
    return tlr_build(be, ctx, &c->p->l, c->cols, fill, (void *)c->p, &c->o, made);
}
static status make_copy(void *arg, tlr **made) {
    const build_case *c = arg;
    return tlr_copy(c->a, c->trans, made);
}

static void matrices(void **state) {
    (void)state;
    points p = points_new(100, B, TLR_KD);
    for (int v = 0; v < 4; v++) {
        build_case c = {.p = &p, .cols = v & 1 ? &p.l : NULL, .o = small_options(1e-4)};
        tlr *a;
        c.o.rank = v & 2 ? 5 : 0, c.o.norms = v & 2;
        walk(make_matrix, &c, false);
        ok(make_matrix(&c, &a));
        c.a = a, c.trans = v & 1 ? 'T' : 'N';
        walk(make_copy, &c, false);
        tlr_close(a);
    }
    points_free(&p);
}

/* --- what is done with matrices */
typedef struct {
    int op;
    tlr *a, *l, *sym;
    double *x, *y;
    int64_t n;
} algebra_case;
enum { APPLY, SOLVE, DETERMINANT, EXPAND, LLD, LLL, RECOMPRESSED, LD, LL, TRSM, OPERATIONS };

static status algebra(void *arg, tlr **made) {
    const algebra_case *c = arg;
    double det;
    (void)made;
    switch (c->op) {
    case APPLY:
        return tlr_apply(c->l, 'R', 'T', 3, 1, c->x, 3, 0, c->y, 3);
    case SOLVE: { /* what it works in stays with the factor */
        tlr *to;
        status st = tlr_copy(c->l, 'N', &to);
        for (int turn = 0; turn < 2 && st == MOAO_OK; turn++)
            st = tlr_solve(to, 'R', 'A', 3, c->x, 3);
        tlr_close(to);
        return st;
    }
    case DETERMINANT:
        return tlr_logdet(c->l, &det);
    case EXPAND:
        return tlr_expand(c->a, c->y, c->n);
    case LLD:
        return tlr_gemm_dense(1, c->a, 'T', c->a, 'N', 0, c->y, c->n);
    case LLL:
    case RECOMPRESSED: { /* what it writes is a matrix of its own: a failure may leave anything */
        tlr *to;
        status st = tlr_copy(c->a, 'N', &to);
        if (st == MOAO_OK)
            st = tlr_gemm(c->op == LLL ? 'A' : 'R', 1, c->a, 'N', c->a, 'T', 1, to);
        tlr_close(to);
        return st;
    }
    case LD:
        return tlr_syrk_dense(1, c->a, 0, c->y, c->n);
    case LL: {
        tlr *to;
        status st = tlr_copy(c->sym, 'N', &to);
        if (st == MOAO_OK)
            st = tlr_syrk(1, c->a, 1, to);
        tlr_close(to);
        return st;
    }
    default: {
        tlr *to;
        status st = tlr_copy(c->a, 'N', &to);
        if (st == MOAO_OK)
            st = tlr_trsm(c->l, to);
        tlr_close(to);
        return st;
    }
    }
}

static void operations(void **state) {
    (void)state;
    points p = points_new(100, B, TLR_KD);
    tlr_options o = small_options(1e-3);
    algebra_case c = {.n = p.n};
    double *numbers = noise(p.n * p.n);
    c.x = up(numbers, 3 * p.n), c.y = up(numbers, p.n * p.n);
    o.cut = B;
    ok(tlr_build(be, ctx, &p.l, &p.l, fill, &p, &o, &c.a));
    ok(tlr_build(be, ctx, &p.l, NULL, fill, &p, &o, &c.sym));
    ok(make_factor(&(factor_case){.p = &p, .look = 'L', .o = o}, &c.l));
    for (c.op = APPLY; c.op < OPERATIONS; c.op++)
        if (c.op == DETERMINANT)
            ok(algebra(&c, NULL)); /* without memory of the backend, or with it */
        else
            walk(algebra, &c, false);
    be->release(ctx, c.x), be->release(ctx, c.y);
    tlr_close(c.a), tlr_close(c.l), tlr_close(c.sym);
    free(numbers);
    points_free(&p);
    assert_int_equal(live, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(factors, setup, teardown),
        cmocka_unit_test_setup_teardown(matrices, setup, teardown),
        cmocka_unit_test_setup_teardown(operations, setup, teardown),
    };
    return run_on_backends(&(backend_tests){tests, sizeof tests / sizeof *tests, chosen, NULL});
}
