/* What the tests of the batched routines share: operands in which everything that a routine must
 * not write is poison (NaN) and compared bit by bit, a call of any routine as a case, and its
 * backward errors. */
#ifndef MOAO_TESTS_BATCH_CASE_H
#define MOAO_TESTS_BATCH_CASE_H

#include "operand.h"

/* --- one case: a routine with its options on one batch --- */
enum { SYRK, TRSM, TRMM, POTRF, TRTRI, LAUUM, POTRI, POTI, POTRS, POSV, OPS };
static const char *const op_name[] = {"syrk",  "trsm",  "trmm", "potrf", "trtri",
                                      "lauum", "potri", "poti", "potrs", "posv"};
/* Tolerance of the check in units of (inner length + 4) eps */
static const double tolerance[] = {1.5, 1.5, 1.5, 1.5, 2, 1.5, 4, 8, 3, 4};
static double seen[2][OPS];

enum { GOOD, ILL, SCALED };

typedef struct {
    int op, layout, kind;
    backend_type t;
    char side, uplo, trans, diag;
    int64_t count, n, m; /* order; columns of B, k of syrk */
    bool varied;
    double alpha, beta;
    /* built */
    operand a, b;
    int64_t *ns, *ms;
    int *info;
    void *dns, *dms, *dinfo;
} test_case;

static bool is_solve(int op) {
    return op == POTRS || op == POSV;
}
static bool has_b(int op) {
    return op == SYRK || op == TRSM || op == TRMM || is_solve(op);
}
static bool spd(int op) {
    return op == POTRF || op == POTI || op == POSV;
}

/* Triangle of matrix k: of a triangular matrix, or of L L^T. */
static void fill_triangle(test_case *c, int64_t k) {
    const int64_t n = c->ns[k];
    const bool low = c->uplo == 'L', on_b = c->op == TRSM || c->op == TRMM;
    const double reach = c->t == BACKEND_D ? 40 : 5;
    dense l = dense_new(n, n), r = dense_new(n, n), s = dense_new(n, n), lt;
    double *scale = malloc(sizeof(double) * (size_t)(n + 1));
    for (int64_t j = 0; j < n; j++) {
        scale[j] = c->kind == SCALED ? pow(10, floor(reach * rnd())) : 1;
        AT(l, j, j) = 1.5 + 0.5 * rnd();
        if (!spd(c->op) && rnd() < 0)
            AT(l, j, j) = -AT(l, j, j);
        if (c->kind == ILL)
            AT(l, j, j) *= pow(c->t == BACKEND_D ? 1e-5 : 1e-2, (double)j / (double)n);
        for (int64_t i = j + 1; i < n; i++)
            AT(l, i, j) = rnd() / sqrt((double)n) * (on_b ? 1 : fabs(AT(l, j, j)));
    }
    lt = dense_new(n, n);
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < n; i++)
            AT(lt, i, j) = AT(l, j, i);
    if (spd(c->op))
        accumulate(r, s, 1, l, lt);
    else
        memcpy(r.v, l.v, sizeof(double) * (size_t)(n * n));
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = j; i < n; i++) {
            if (i == j && c->diag == 'U')
                continue;
            set(&c->a, k, low ? i : j, low ? j : i,
                AT(r, i, j) * scale[i] * (spd(c->op) ? scale[j] : 1));
            if (c->op >= POTRF && c->op != POTRS)
                allow(&c->a, k, low ? i : j, low ? j : i);
        }
    free(l.v), free(lt.v), free(r.v), free(s.v), free(scale);
}

static void build(test_case *c) {
    const size_t len = sizeof(int64_t) * (size_t)(c->count + 1);
    int64_t *br = calloc(1, len), *bc = calloc(1, len);
    c->ns = calloc(1, len), c->ms = calloc(1, len);
    c->info = malloc(sizeof(int) * (size_t)(c->count + 1));
    for (int64_t k = 0; k < c->count; k++) {
        c->ns[k] = !c->varied || k == 0 ? c->n : (int64_t)((rnd() + 1) / 2 * (double)(c->n + 1));
        c->ms[k] = !c->varied || k == 0 ? c->m : (int64_t)((rnd() + 1) / 2 * (double)(c->m + 1));
        c->info[k] = -77;
        bool rows_n = c->op == SYRK ? c->trans == 'N' : c->side == 'L';
        br[k] = rows_n ? c->ns[k] : c->ms[k];
        bc[k] = rows_n ? c->ms[k] : c->ns[k];
    }
    c->a = operand_new(c->t, c->count, c->ns, c->ns, c->layout);
    for (int64_t k = 0; k < c->count; k++)
        fill_triangle(c, k);
    if (has_b(c->op)) {
        c->b = operand_new(c->t, c->count, br, bc, c->layout);
        for (int64_t k = 0; k < c->count; k++)
            for (int64_t j = 0; j < bc[k]; j++)
                for (int64_t i = 0; i < br[k]; i++) {
                    set(&c->b, k, i, j, rnd());
                    if (c->op != SYRK)
                        allow(&c->b, k, i, j);
                }
        send(&c->b);
    }
    if (c->op == SYRK) /* the triangle is the result */
        for (int64_t k = 0; k < c->count; k++)
            for (int64_t j = 0; j < c->ns[k]; j++)
                for (int64_t i = j; i < c->ns[k]; i++)
                    allow(&c->a, k, c->uplo == 'L' ? i : j, c->uplo == 'L' ? j : i);
    send(&c->a);
    c->dns = device_copy(c->ns, sizeof(int64_t) * (size_t)c->count);
    c->dms = device_copy(c->ms, sizeof(int64_t) * (size_t)c->count);
    c->dinfo = device_copy(c->info, sizeof(int) * (size_t)c->count);
    free(br), free(bc);
}

static status call(test_case *c) {
    const backend_batch *q = be->batch;
    const double al = c->alpha, bt = c->beta;
    const float als = (float)al, bts = (float)bt;
    const void *alpha = c->t == BACKEND_D ? (const void *)&al : &als;
    const void *beta = c->t == BACKEND_D ? (const void *)&bt : &bts;
    const batch_dim n = {c->n, c->varied ? c->dns : NULL}, m = {c->m, c->varied ? c->dms : NULL};
    const batch_mat a = c->a.m, b = c->b.m;
    const batch_dim r = c->side == 'L' ? n : m, k = c->side == 'L' ? m : n;
    switch (c->op) {
    case SYRK:
        return q->syrk(ctx, c->t, c->uplo, c->trans, c->count, n, m, alpha, b, beta, a);
    case TRSM:
        return q->trsm(ctx, c->t, c->side, c->uplo, c->trans, c->diag, c->count, r, k, alpha, a, b);
    case TRMM:
        return q->trmm(ctx, c->t, c->side, c->uplo, c->trans, c->diag, c->count, r, k, alpha, a, b);
    case POTRF:
        return q->potrf(ctx, c->t, c->uplo, c->count, n, a, c->dinfo);
    case TRTRI:
        return q->trtri(ctx, c->t, c->uplo, c->diag, c->count, n, a, c->dinfo);
    case LAUUM:
        return q->lauum(ctx, c->t, c->uplo, c->count, n, a);
    case POTRI:
        return q->potri(ctx, c->t, c->uplo, c->count, n, a, c->dinfo);
    case POTI:
        return q->poti(ctx, c->t, c->uplo, c->count, n, a, c->dinfo);
    case POTRS:
        return q->potrs(ctx, c->t, c->uplo, c->count, n, m, a, b);
    default:
        return q->posv(ctx, c->t, c->uplo, c->count, n, m, a, b, c->dinfo);
    }
}

static void collect(test_case *c) {
    int64_t bytes = c->count * (int64_t)sizeof(int);
    fetch(&c->a);
    if (has_b(c->op))
        fetch(&c->b);
    if (bytes)
        assert_int_equal(be->copy(ctx, c->info, bytes, c->dinfo, bytes, bytes, 1), MOAO_OK);
    assert_int_equal(be->sync(ctx), MOAO_OK);
}

static void dismantle(test_case *c) {
    operand_free(&c->a);
    if (has_b(c->op))
        operand_free(&c->b);
    be->release(ctx, c->dns), be->release(ctx, c->dms), be->release(ctx, c->dinfo);
    free(c->ns), free(c->ms), free(c->info);
}

/* Backward errors of matrix k in units of (inner length + 4) eps, routine by routine. */
static double error_on_b(test_case *c, int64_t k) {
    const double f = c->op == TRSM ? 1 : c->alpha, g = c->op == TRSM ? c->alpha : 1;
    dense a = read_triangle(&c->a, BEFORE, k, c->uplo, c->diag, false);
    dense b = read_full(&c->b, c->op == TRSM ? NOW : BEFORE, k); /* what A multiplies */
    dense x = read_full(&c->b, c->op == TRSM ? BEFORE : NOW, k); /* the product */
    dense r = dense_new(b.n, b.m), s = dense_new(b.n, b.m);
    a = c->trans == 'N' ? a : transposed(a);
    accumulate(r, s, f, c->side == 'L' ? a : b, c->side == 'L' ? b : a);
    add(r, s, -g, x);
    double e = worst(r, s, eps_of(c->t), (double)c->ns[k] + 4, 'A');
    free(a.v), free(b.v), free(x.v), free(r.v), free(s.v);
    return e;
}

static double error_syrk(test_case *c, int64_t k) {
    const int64_t n = c->ns[k];
    dense a = read_full(&c->b, BEFORE, k), b = read_full(&c->b, BEFORE, k);
    dense x = read_triangle(&c->a, NOW, k, c->uplo, 'N', false);
    dense t = read_triangle(&c->a, BEFORE, k, c->uplo, 'N', false);
    dense r = dense_new(n, n), s = dense_new(n, n);
    if (c->trans == 'N')
        b = transposed(b);
    else
        a = transposed(a);
    accumulate(r, s, c->alpha, a, b);
    add(r, s, -1, x);
    if (c->beta != 0)
        add(r, s, c->beta, t);
    double e = worst(r, s, eps_of(c->t), (double)c->ms[k] + 4, c->uplo);
    free(a.v), free(b.v), free(x.v), free(t.v), free(r.v), free(s.v);
    return e;
}

/* |X A - 1| against the column's largest |X| |A| */
static double error_inverse(test_case *c, dense x, dense a) {
    dense r = dense_new(x.n, x.n), s = dense_new(x.n, x.n);
    accumulate(r, s, 1, x, a);
    for (int64_t i = 0; i < x.n; i++)
        AT(r, i, i) -= 1;
    double e = worst_norm(r, s, eps_of(c->t), (double)x.n + 4);
    free(r.v), free(s.v);
    return e;
}

/* A = f f^T (lower) or f^T f (upper), from the triangle f as it is at `when`; |f| |f^T| to s. */
static void product_of_factor(test_case *c, int64_t k, int when, bool square, dense a, dense s) {
    dense f = read_triangle(&c->a, when, k, c->uplo, 'N', false);
    dense ft = transposed(read_triangle(&c->a, when, k, c->uplo, 'N', false));
    const bool first = (c->uplo == 'L') != square;
    accumulate(a, s, 1, first ? f : ft, first ? ft : f);
    free(f.v), free(ft.v);
}

/* |A Y - Y0| against |f| |f^T| |Y| + |Y0| */
static double error_solution(test_case *c, int64_t k, dense a, dense size) {
    const int64_t n = c->ns[k], m = c->ms[k];
    dense y = read_full(&c->b, NOW, k), y0 = read_full(&c->b, BEFORE, k);
    dense r = dense_new(n, m), s = dense_new(n, m), unused = dense_new(n, m);
    accumulate(r, unused, 1, a, y);
    accumulate(unused, s, 1, size, y);
    add(r, s, -1, y0);
    double e = worst(r, s, eps_of(c->t), (double)n + 4, 'A');
    free(y.v), free(y0.v), free(r.v), free(s.v), free(unused.v);
    return e;
}

/* potrf, lauum, potri, potrs, posv, poti */
static double error_spd(test_case *c, int64_t k) {
    const int64_t n = c->ns[k];
    const bool factored = c->op == POTRF || c->op == POSV; /* the triangle now holds the factor */
    dense a = dense_new(n, n), s = dense_new(n, n);
    dense x = read_triangle(&c->a, factored ? BEFORE : NOW, k, c->uplo, 'N', true);
    double e = 0, e2 = 0;
    if (c->op == POTI) {
        free(a.v);
        a = read_triangle(&c->a, BEFORE, k, c->uplo, 'N', true);
    } else {
        product_of_factor(c, k, factored ? NOW : BEFORE, c->op == LAUUM, a, s);
    }
    if (is_solve(c->op))
        e2 = error_solution(c, k, a, s);
    if (c->op == POTI || c->op == POTRI) {
        e = error_inverse(c, x, a);
    } else if (c->op != POTRS) {
        add(a, s, -1, x);
        e = worst(a, s, eps_of(c->t), (double)n + 4, c->uplo);
    }
    free(a.v), free(s.v), free(x.v);
    return e > e2 ? e : e2;
}

static double error_of(test_case *c, int64_t k) {
    if (c->op == TRSM || c->op == TRMM)
        return error_on_b(c, k);
    if (c->op == SYRK)
        return error_syrk(c, k);
    if (c->op != TRTRI)
        return error_spd(c, k);
    dense x = read_triangle(&c->a, NOW, k, c->uplo, c->diag, false);
    dense a = read_triangle(&c->a, BEFORE, k, c->uplo, c->diag, false);
    double e = error_inverse(c, x, a);
    free(x.v), free(a.v);
    return e;
}

#endif
