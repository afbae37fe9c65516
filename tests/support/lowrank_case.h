/* What the tests of the batched QR, SVD and low-rank routines share: matrices of many kinds, one
 * call of a routine as a case, and its errors measured in long double against what is allowed. */
#ifndef MOAO_TESTS_LOWRANK_CASE_H
#define MOAO_TESTS_LOWRANK_CASE_H

#include "lowrank_matrices.h"
#include "moao/backend_lowrank.h"
#include <inttypes.h>

/* --- errors in long double; NaN counts as infinite --- */
static inline real worse(real a, real b) {
    return isnan(b) ? INFINITY : b > a ? b : a;
}

/* Largest |x^T x - I| of the first r columns of matrix b. */
static inline real skew(operand *x, int64_t b, int64_t rows, int64_t r) {
    real w = 0;
    for (int64_t p = 0; p < r; p++)
        for (int64_t q = 0; q <= p; q++) {
            real s = p == q ? -1 : 0;
            for (int64_t i = 0; i < rows; i++)
                s += (real)get(x, b, i, p) * get(x, b, i, q);
            w = worse(w, fabsl(s));
        }
    return w;
}

/* Column j of matrix b minus the sum over p < r of left(:, p) weight[p] right(j, p), in x. */
static inline void residual(const double *a, int64_t m, int64_t j, operand *left, operand *right,
                            const real *weight, int64_t b, int64_t r, real *x) {
    for (int64_t i = 0; i < m; i++)
        x[i] = a[i + j * m];
    for (int64_t p = 0; p < r; p++) {
        const real f = (weight ? weight[p] : 1) * get(right, b, j, p);
        for (int64_t i = 0; i < m; i++)
            x[i] -= f * get(left, b, i, p);
    }
}

static inline real norm2(int64_t n, const real *x) {
    real s = 0;
    for (int64_t i = 0; i < n; i++)
        s += x[i] * x[i];
    return s;
}

static inline real frobenius(int64_t count, const double *a) {
    real s = 0;
    for (int64_t i = 0; i < count; i++)
        s += (real)a[i] * a[i];
    return sqrtl(s);
}

/* norm_F(A - left diag(weight) right^T) */
static inline real distance(const double *a, int64_t m, int64_t n, operand *left, operand *right,
                            const real *weight, int64_t b, int64_t r) {
    real *x = malloc(sizeof(real) * (size_t)(m + 1)), s = 0;
    for (int64_t j = 0; j < n; j++) {
        residual(a, m, j, left, right, weight, b, r, x);
        s += norm2(m, x);
    }
    free(x);
    return isnan(s) ? INFINITY : sqrtl(s);
}

/* --- a case: one call of gesvj or qr on a batch --- */
enum { QR_Q, QR_R, FACTOR, SVD, RSVD, ARA };

typedef struct {
    int op, layout, kind;
    backend_type t;
    char jobu, jobv, job; /* job: of ara */
    int64_t count, m, n;
    bool varied, least; /* sizes for each matrix; only the workspace of one matrix */
    batch_cut cut;
    bool is_cut;
    int power;
    uint64_t seed;        /* of a sketch */
    double *const *given; /* matrices instead of `kind` */
    /* built */
    double **full; /* the matrices as they were sent */
    operand a, s, u, v;
    int64_t *ms, *ns, *rank;
    int *info;
    void *dms, *dns, *drank, *dinfo, *work;
} lr_case;

static inline int64_t least_of(int64_t a, int64_t b) {
    return a < b ? a : b;
}
static inline bool is_qr(const lr_case *c) {
    return c->op == QR_Q || c->op == QR_R || c->op == FACTOR;
}

static inline int64_t some(int64_t most) {
    return (int64_t)((rnd() + 1) / 2 * (double)(most + 1));
}

static inline void lr_matrix(lr_case *c, int64_t b) {
    const int64_t m = c->ms[b], n = c->ns[b];
    double *a = c->given ? c->given[b] : matrix_of(c->kind, c->t, m, n);
    c->full[b] = malloc(sizeof(double) * (size_t)(m * n + 1));
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < m; i++) {
            set(&c->a, b, i, j, a[i + j * m]);
            c->full[b][i + j * m] = get(&c->a, b, i, j);
            if (c->op < RSVD)
                allow(&c->a, b, i, j);
        }
    if (!c->given)
        free(a);
}

static inline void lr_build(lr_case *c) {
    const size_t len = sizeof(int64_t) * (size_t)(c->count + 1);
    int64_t *ks = calloc(1, len), *ones = calloc(1, len), *cols = calloc(1, len),
            *wide = calloc(1, len);
    c->ms = calloc(1, len), c->ns = calloc(1, len), c->rank = calloc(1, len);
    c->info = malloc(sizeof(int) * (size_t)(c->count + 1));
    c->full = calloc((size_t)c->count + 1, sizeof *c->full);
    for (int64_t b = 0; b < c->count; b++) {
        c->ms[b] = !c->varied || b == 0 ? c->m : some(c->m);
        c->ns[b] = !c->varied || b == 0 ? c->n : some(c->n);
        ks[b] = least_of(c->ms[b], c->ns[b]), ones[b] = 1;
        cols[b] = c->is_cut ? least_of(ks[b], c->cut.most) : ks[b];
        wide[b] = is_qr(c) && c->op != FACTOR ? c->ns[b] : 1;
        ks[b] = c->op == RSVD ? cols[b] : ks[b];
        c->info[b] = -77, c->rank[b] = -77;
    }
    c->a = operand_new(c->t, c->count, c->ms, c->ns, c->layout);
    for (int64_t b = 0; b < c->count; b++)
        lr_matrix(c, b);
    c->s = operand_new(c->t, c->count, ks, wide, c->layout); /* R or sigma or tau */
    c->u = operand_new(c->t, c->count, c->ms, cols, c->layout);
    c->v = operand_new(c->t, c->count, c->ns, cols, c->layout);
    send(&c->a), send(&c->s), send(&c->u), send(&c->v);
    c->dms = device_copy(c->ms, sizeof(int64_t) * (size_t)c->count);
    c->dns = device_copy(c->ns, sizeof(int64_t) * (size_t)c->count);
    c->drank = device_copy(c->rank, sizeof(int64_t) * (size_t)c->count);
    c->dinfo = device_copy(c->info, sizeof(int) * (size_t)c->count);
    free(ks), free(ones), free(cols), free(wide);
}

static inline size_t lr_workspace(const lr_case *c, int64_t count) {
    const batch_op op[] = {BATCH_QR, BATCH_QR, BATCH_QR, BATCH_GESVJ, BATCH_RSVD, BATCH_ARA};
    return be->lowrank->workspace(op[c->op], c->t, count, c->m, c->n,
                                  c->cut.most + (c->op == RSVD ? 8 : 0));
}

static inline status lr_call(lr_case *c) {
    const backend_lowrank *q = be->lowrank;
    const batch_dim m = {c->m, c->varied ? c->dms : NULL}, n = {c->n, c->varied ? c->dns : NULL};
    const size_t lwork = lr_workspace(c, c->least ? 1 : c->count);
    const batch_cut *cut = c->is_cut ? &c->cut : NULL;
    c->work = device_copy(NULL, 0);
    if (lwork) {
        be->release(ctx, c->work);
        assert_int_equal(be->alloc(ctx, lwork, &c->work), MOAO_OK);
    }
    switch (c->op) {
    case FACTOR:
        return q->geqrf(ctx, c->t, c->count, m, n, c->a.m, c->s.m, c->dinfo);
    case QR_Q:
    case QR_R:
        return q->qr(ctx, c->t, c->op == QR_Q ? 'Q' : 'R', c->count, m, n, c->a.m, c->s.m, c->dinfo,
                     c->work, lwork);
    case SVD:
        return q->gesvj(ctx, c->t, c->jobu, c->jobv, cut, c->count, m, n, c->a.m, c->s.m, c->u.m,
                        c->v.m, c->drank, c->dinfo, c->work, lwork);
    case RSVD:
        return q->rsvd(ctx, c->t, c->jobu, c->jobv, cut, -1, c->power, c->seed, c->count, m, n,
                       c->a.m, c->s.m, c->u.m, c->v.m, c->drank, c->dinfo, c->work, lwork);
    default:
        return q->ara(ctx, c->t, c->job, cut, c->seed, c->count, m, n, c->a.m, c->u.m, c->v.m,
                      c->drank, c->dinfo, c->work, lwork);
    }
}

static inline void bring(void *host, const void *dev, int64_t bytes) {
    if (bytes)
        assert_int_equal(be->copy(ctx, host, bytes, dev, bytes, bytes, 1), MOAO_OK);
    assert_int_equal(be->sync(ctx), MOAO_OK);
}

static inline void lr_collect(lr_case *c) {
    fetch(&c->a), fetch(&c->s), fetch(&c->u), fetch(&c->v);
    bring(c->info, c->dinfo, c->count * (int64_t)sizeof(int));
    bring(c->rank, c->drank, c->count * (int64_t)sizeof(int64_t));
}

static inline void lr_free(lr_case *c) {
    operand_free(&c->a), operand_free(&c->s), operand_free(&c->u), operand_free(&c->v);
    be->release(ctx, c->dms), be->release(ctx, c->dns), be->release(ctx, c->drank);
    be->release(ctx, c->dinfo), be->release(ctx, c->work);
    for (int64_t b = 0; b < c->count; b++)
        free(c->full[b]);
    free(c->full), free(c->ms), free(c->ns), free(c->rank), free(c->info);
}

/* Marks what a right call may have written; then nothing else may differ. */
static inline void lr_permit(lr_case *c) {
    for (int64_t b = 0; b < c->count; b++) {
        const int64_t r = c->op >= SVD ? c->rank[b] : 0;
        for (int64_t j = 0; j < c->s.cols[b]; j++)
            for (int64_t i = 0; i < c->s.rows[b] && c->op != ARA; i++)
                allow(&c->s, b, i, j);
        for (int64_t j = 0; j < r && j < c->u.cols[b]; j++) {
            for (int64_t i = 0; i < c->ms[b] && (c->op == ARA || c->jobu != 'N'); i++)
                allow(&c->u, b, i, j);
            for (int64_t i = 0; i < c->ns[b] && (c->op == ARA || c->jobv != 'N'); i++)
                allow(&c->v, b, i, j);
        }
    }
}
static inline int64_t lr_trespasses(lr_case *c) {
    lr_permit(c);
    return trespasses(&c->a) + trespasses(&c->s) + trespasses(&c->u) + trespasses(&c->v);
}

/* --- verdicts: the error over what is allowed, worst of all measures; <= 1 is right --- */
/* (k + 4) u, and what a sum over the rows beyond k adds: roundings of equal terms are equal, so
 * that they add up like their number (LAPACK, 520 x 20: 42 to 120 u by its BLAS; 979 x 30 on an
 * H200: 770 u). */
static inline real unit_of(const lr_case *c, int64_t b) {
    const int64_t m = c->ms[b], n = c->ns[b], k = least_of(m, n);
    const real beyond = (real)(m > n ? m - n : n - m), sum = sqrtl(beyond);
    return (real)eps_of(c->t) * ((real)(k + 4) + (c->kind == ONES ? fmaxl(sum, beyond / 2) : sum));
}

/* Q and R of matrix b, column by column; R's shape and signs. */
static inline real qr_error(lr_case *c, int64_t b) {
    const int64_t m = c->ms[b], n = c->ns[b], k = least_of(m, n);
    const real unit = unit_of(c, b);
    real w = 0, *x = malloc(sizeof(real) * (size_t)(m + 1));
    for (int64_t j = 0; j < n; j++) {
        const real norm = frobenius(m, c->full[b] + j * m);
        for (int64_t i = 0; i < k; i++) {
            const double r = get(&c->s, b, i, j);
            if ((i > j && r != 0) || (i == j && !(r >= 0)) || isnan(r))
                w = INFINITY;
        }
        if (c->op == QR_R) { /* R^T R against the norms of the columns */
            real s = 0;
            for (int64_t i = 0; i < k; i++)
                s += (real)get(&c->s, b, i, j) * get(&c->s, b, i, j);
            w = worse(w, norm > 0 ? fabsl(sqrtl(s) - norm) / norm / (2 * unit)
                         : s > 0  ? INFINITY
                                  : 0);
            continue;
        }
        for (int64_t i = 0; i < m; i++)
            x[i] = c->full[b][i + j * m];
        for (int64_t p = 0; p < k && p <= j; p++)
            for (int64_t i = 0; i < m; i++)
                x[i] -= (real)get(&c->a, b, i, p) * get(&c->s, b, p, j);
        const real off = sqrtl(norm2(m, x));
        /* what is below the smallest normal number is lost whatever is done */
        const real floor = c->t == BACKEND_D ? 0x1p-1074L * m : 0x1p-149L * m;
        w = worse(w, off <= floor ? 0 : off / norm / (2 * unit));
    }
    free(x);
    return c->op == QR_Q ? worse(w, skew(&c->a, b, m, k) / (2 * unit)) : w;
}

/* Values sorted, >= 0 and 0 beyond the rank; signs; orthogonality; what is left of A. */
static inline real svd_error(lr_case *c, int64_t b) {
    const int64_t m = c->ms[b], n = c->ns[b], k = c->s.rows[b], r = c->rank[b];
    const real unit = unit_of(c, b), norm = frobenius(m * n, c->full[b]);
    const real floor = (c->t == BACKEND_D ? 0x1p-1074L : 0x1p-149L) * (real)(m + n) * (real)k;
    real w = 0, *s = calloc((size_t)(k + 1), sizeof(real));
    for (int64_t i = 0; i < k; i++) {
        s[i] = get(&c->s, b, i, 0);
        if (!(s[i] >= 0) || (i > 0 && s[i] > s[i - 1]) || (i >= r && s[i] != 0))
            w = INFINITY;
    }
    for (int64_t p = 0; p < r; p++) { /* the sign */
        operand *x = c->jobu != 'N' ? &c->u : &c->v;
        const int64_t rows = c->jobu != 'N' ? m : n;
        double most = 0;
        if (c->jobu == 'N' && c->jobv == 'N')
            break;
        for (int64_t i = 0; i < rows; i++)
            most = fabs(get(x, b, i, p)) > fabs(most) ? get(x, b, i, p) : most;
        if (most < 0)
            w = INFINITY;
    }
    if (c->jobu == 'U')
        w = worse(w, skew(&c->u, b, m, r) / (3 * unit));
    if (c->jobv == 'U')
        w = worse(w, skew(&c->v, b, n, r) / (3 * unit));
    if (c->jobu != 'N' && c->jobv != 'N' && !(c->jobu == 'S' && c->jobv == 'S') && !c->is_cut) {
        const bool plain = c->jobu == 'U' && c->jobv == 'U';
        const real d = distance(c->full[b], m, n, &c->u, &c->v, plain ? s : NULL, b, r);
        w = worse(w, d <= floor ? 0 : d / norm / (6 * unit));
    }
    free(s);
    return w;
}

static inline real lr_error(lr_case *c, int64_t b) {
    if (c->info[b] != 0 || (c->op >= SVD && (c->rank[b] < 0 || c->rank[b] > c->u.cols[b])))
        return INFINITY;
    return is_qr(c) ? qr_error(c, b) : svd_error(c, b);
}

/* Worst matrix; `quiet` for tests of the check itself. */
static inline bool lr_right(lr_case *c, bool quiet) {
    real w = 0;
    int64_t at = 0;
    for (int64_t b = 0; b < c->count; b++) {
        const real e = lr_error(c, b);
        if (!(e <= w))
            w = e, at = b;
    }
    const int64_t outside = lr_trespasses(c);
    if ((w > 1 || outside) && !quiet)
        print_error("%s op %d type %d layout %d kind %d %" PRId64 " of %" PRId64 " x %" PRId64
                    " jobs %c%c: matrix %" PRId64 " (%" PRId64 " x %" PRId64
                    ", info %d, rank %" PRId64 ") has %.3Lg of what is allowed; %" PRId64
                    " elements written outside\n",
                    be->name, c->op, c->t, c->layout, c->kind, c->count, c->m, c->n,
                    c->jobu ? c->jobu : '-', c->jobv ? c->jobv : '-', at, c->ms[at], c->ns[at],
                    c->info[at], c->rank[at], w, outside);
    return w <= 1 && outside == 0;
}

/* --- what both programs begin with --- */
#define COUNT(x) (sizeof(x) / sizeof *(x))

static inline bool full(void) {
    return !small() && (be != &backend_cpu || getenv("MOAO_TEST_FULL") != NULL);
}

static inline lr_case plain(int op, backend_type t, int64_t m, int64_t n) {
    lr_case c = {.op = op,
                 .t = t,
                 .m = m,
                 .n = n,
                 .count = 3,
                 .jobu = 'U',
                 .jobv = 'U',
                 .job = 'L',
                 .seed = 99};
    c.cut.kind = 'R', c.cut.norm = 'F', c.cut.most = least_of(m, n);
    c.layout = (int)((m + 3 * n + op) % LAYOUTS);
    return c;
}

#endif
