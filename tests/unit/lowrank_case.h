/* What the tests of the batched QR, SVD and low-rank routines share: matrices of many kinds, one
 * call of a routine as a case, and its errors measured in long double against what is allowed. */
#ifndef MOAO_TESTS_LOWRANK_CASE_H
#define MOAO_TESTS_LOWRANK_CASE_H

#include "backend_lowrank.h"
#include "operand.h"
#include <inttypes.h>

typedef long double real;

/* --- kinds of matrices --- */
enum {
    GAUSS,      /* uniform entries, flat spectrum */
    GEOMETRIC,  /* singular values geometric over 1e7 (1e3 in single precision) */
    STEEP,      /* over 1e14 (1e6) */
    CLUSTERED,  /* half of the values 1, half 1e-4, reflections each side */
    COVARIANCE, /* exp(-distance) of points in two squares */
    ZERO,
    ENTRY, /* one entry */
    IDENTITY,
    ONES,      /* rank 1 of equal entries */
    EQUAL,     /* columns of equal norm: +-1 */
    DUPLICATE, /* pairs of equal columns */
    GAPS,      /* first and last column zero */
    HILBERT,
    KAHAN,
    PERMUTATION,
    BACKWARDS, /* diagonal in ascending order */
    MINUS_ZERO,
    HUGE_ENTRIES,
    TINY_ENTRIES,
    SUBNORMAL,
    COLUMNS, /* columns scaled over the whole range */
    KINDS
};

static inline double noise(void) {
    return rnd() + rnd() + rnd();
}

/* a (m x n, ld m) := (I - 2 w w^T) a or a (I - 2 w w^T) */
static inline void reflect(int64_t m, int64_t n, double *a, bool left) {
    const int64_t len = left ? m : n, other = left ? n : m, si = left ? 1 : m, sj = left ? m : 1;
    double *w = malloc(sizeof(double) * (size_t)(len + 1)), s = 0;
    for (int64_t i = 0; i < len; i++)
        w[i] = noise(), s += w[i] * w[i];
    for (int64_t j = 0; j < other; j++) {
        double f = 0;
        for (int64_t i = 0; i < len; i++)
            f += w[i] * a[i * si + j * sj];
        for (int64_t i = 0; i < len; i++)
            a[i * si + j * sj] -= 2 * f / s * w[i];
    }
    free(w);
}

static inline void spectrum(int64_t m, int64_t n, double *a, int kind, double decades) {
    const int64_t k = m < n ? m : n;
    memset(a, 0, sizeof(double) * (size_t)(m * n));
    for (int64_t i = 0; i < k; i++)
        a[i + i * m] = kind == CLUSTERED
                           ? (i < k / 2 ? 1 : 1e-4)
                           : pow(10, -decades * (double)i / (double)(k > 1 ? k - 1 : 1));
    for (int r = 0; r < 4; r++)
        reflect(m, n, a, true), reflect(m, n, a, false);
}

static inline void covariance(int64_t m, int64_t n, double *a) {
    double *p = malloc(sizeof(double) * (size_t)(2 * (m + n) + 1));
    for (int64_t i = 0; i < m + n; i++) {
        p[2 * i] = (rnd() + 1) / 2 + (i >= m), p[2 * i + 1] = (rnd() + 1) / 2;
    }
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < m; i++)
            a[i + j * m] =
                exp(-hypot(p[2 * i] - p[2 * (m + j)], p[2 * i + 1] - p[2 * (m + j) + 1]) / 0.3);
    free(p);
}

static inline double entry_of(int kind, bool wide, int64_t m, int64_t n, int64_t i, int64_t j) {
    const double big = wide ? 1e300 : 1e36, small = wide ? 1e-300 : 1e-36;
    switch (kind) {
    case ENTRY:
        return i == m / 2 && j == n / 2 ? -3 : 0;
    case IDENTITY:
        return i == j;
    case ONES:
        return 0.7;
    case EQUAL:
        return rnd() < 0 ? -1 : 1;
    case HILBERT:
        return 1 / (double)(i + j + 1);
    case KAHAN:
        return i == j ? pow(0.8, (double)i) : i < j ? -0.6 * pow(0.8, (double)i) : 0;
    case PERMUTATION:
        return (7 * i + 3) % m == j;
    case BACKWARDS:
        return i == j ? (double)(i + 1) : 0;
    case MINUS_ZERO:
        return j % 2 ? -0.0 : noise();
    case HUGE_ENTRIES:
        return big * rnd();
    case TINY_ENTRIES:
        return small * rnd();
    case SUBNORMAL:
        return rnd() * (wide ? 0x1p-1026 : 0x1p-130);
    case COLUMNS:
        return noise() * pow(wide ? 1e200 : 1e16, j % 3 - 1);
    default:
        return kind == ZERO ? 0 : noise();
    }
}

static inline double *matrix_of(int kind, backend_type t, int64_t m, int64_t n) {
    double *a = calloc((size_t)(m * n + 1), sizeof *a);
    const bool wide = t == BACKEND_D;
    if (kind == GEOMETRIC || kind == STEEP || kind == CLUSTERED)
        spectrum(m, n, a, kind, kind == STEEP ? (wide ? 14 : 6) : (wide ? 7 : 3));
    else if (kind == COVARIANCE)
        covariance(m, n, a);
    else
        for (int64_t j = 0; j < n; j++)
            for (int64_t i = 0; i < m; i++)
                a[i + j * m] = entry_of(kind, wide, m, n, i, j);
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < m; i++) {
            if (kind == DUPLICATE && j % 2)
                a[i + j * m] = a[i + (j - 1) * m];
            if (kind == GAPS && (j == 0 || j == n - 1))
                a[i + j * m] = 0;
        }
    return a;
}

/* --- singular values in long double: rows and columns sorted, QR, rotations on the columns of R^T,
 * which finds every value to a few eps where A = D1 B D2 --- */
static inline void swap_rows(int64_t m, int64_t n, real *a, bool rows) {
    const int64_t len = rows ? m : n, other = rows ? n : m, si = rows ? 1 : m, sj = rows ? m : 1;
    for (int64_t p = 0; p < len; p++) {
        int64_t best = p;
        real most = -1;
        for (int64_t i = p; i < len; i++) {
            real key = 0;
            for (int64_t j = 0; j < other; j++) {
                real x = fabsl(a[i * si + j * sj]);
                key = rows ? fmaxl(key, x) : key + x * x;
            }
            if (key > most)
                most = key, best = i;
        }
        for (int64_t j = 0; j < other && best != p; j++) {
            real x = a[p * si + j * sj];
            a[p * si + j * sj] = a[best * si + j * sj], a[best * si + j * sj] = x;
        }
    }
}

/* Column j changes places with the one whose rows from j on are largest. */
static inline void swap_columns(int64_t m, int64_t n, real *a, int64_t j) {
    int64_t best = j;
    real most = -1;
    for (int64_t c = j; c < n; c++) {
        real s = 0;
        for (int64_t i = j; i < m; i++)
            s += a[i + c * m] * a[i + c * m];
        if (s > most)
            most = s, best = c;
    }
    for (int64_t i = 0; i < m && best != j; i++) {
        const real x = a[i + j * m];
        a[i + j * m] = a[i + best * m], a[i + best * m] = x;
    }
}

/* QR with column pivoting, without which small rows lose their accuracy */
static inline void triangle_of(int64_t m, int64_t n, real *a) {
    for (int64_t j = 0; j < n; j++) {
        real s = 0, f;
        swap_columns(m, n, a, j);
        for (int64_t i = j + 1; i < m; i++)
            s += a[i + j * m] * a[i + j * m];
        if (s == 0)
            continue;
        const real alpha = a[j + j * m], beta = -copysignl(sqrtl(alpha * alpha + s), alpha);
        for (int64_t i = j + 1; i < m; i++)
            a[i + j * m] /= alpha - beta;
        a[j + j * m] = beta;
        for (int64_t c = j + 1; c < n; c++) {
            f = a[j + c * m];
            for (int64_t i = j + 1; i < m; i++)
                f += a[i + j * m] * a[i + c * m];
            f *= (beta - alpha) / beta;
            a[j + c * m] -= f;
            for (int64_t i = j + 1; i < m; i++)
                a[i + c * m] -= f * a[i + j * m];
        }
    }
}

static inline bool turn_pair(int64_t k, real *x, real *y) {
    real a = 0, b = 0, p = 0;
    for (int64_t i = 0; i < k; i++)
        a += x[i] * x[i], b += y[i] * y[i], p += x[i] * y[i];
    if (!(fabsl(p) > 1e-19L * sqrtl(a) * sqrtl(b) * sqrtl((real)k)))
        return false;
    const real zeta = (b - a) / (2 * p),
               t = copysignl(1, zeta) / (fabsl(zeta) + sqrtl(1 + zeta * zeta)),
               c = 1 / sqrtl(1 + t * t), s = c * t;
    for (int64_t i = 0; i < k; i++) {
        const real xi = x[i];
        x[i] = c * xi - s * y[i], y[i] = s * xi + c * y[i];
    }
    return true;
}

static inline int descending(const void *x, const void *y) {
    const real a = *(const real *)x, b = *(const real *)y;
    return (a < b) - (a > b);
}

/* min(m, n) values, descending; a (m x n) is lost. Free the result. */
static inline real *values_of(int64_t m, int64_t n, real *a) {
    const int64_t k = m < n ? m : n, l = m < n ? n : m;
    real *b = malloc(sizeof(real) * (size_t)(l * k + 1)),
         *r = calloc((size_t)(k * k + 1), sizeof(real)),
         *s = malloc(sizeof(real) * (size_t)(k + 1));
    for (int64_t j = 0; j < k; j++)
        for (int64_t i = 0; i < l; i++)
            b[i + j * l] = m < n ? a[j + i * m] : a[i + j * m];
    swap_rows(l, k, b, true), swap_rows(l, k, b, false);
    triangle_of(l, k, b);
    for (int64_t j = 0; j < k; j++)
        for (int64_t i = j; i < k; i++)
            r[i + j * k] = b[j + i * l];
    bool turned = true;
    for (int sweep = 0; sweep < 60 && turned; sweep++) {
        turned = false;
        for (int64_t p = 0; p < k; p++)
            for (int64_t q = p + 1; q < k; q++)
                turned |= turn_pair(k, r + p * k, r + q * k);
    }
    for (int64_t j = 0; j < k; j++) {
        s[j] = 0;
        for (int64_t i = 0; i < k; i++)
            s[j] += r[i + j * k] * r[i + j * k];
        s[j] = sqrtl(s[j]);
    }
    qsort(s, (size_t)k, sizeof(real), descending);
    free(b), free(r);
    return s;
}

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
        return q->rsvd(ctx, c->t, c->jobu, c->jobv, cut, -1, c->power, 99, c->count, m, n, c->a.m,
                       c->s.m, c->u.m, c->v.m, c->drank, c->dinfo, c->work, lwork);
    default:
        return q->ara(ctx, c->t, c->job, cut, 99, c->count, m, n, c->a.m, c->u.m, c->v.m, c->drank,
                      c->dinfo, c->work, lwork);
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

/* (k + 4) u, and what a sum over the rows beyond k adds */
/* --- verdicts: the error over what is allowed, worst of all measures; <= 1 is right --- */
static inline real unit_of(const lr_case *c, int64_t b) {
    const int64_t m = c->ms[b], n = c->ns[b], k = least_of(m, n);
    return (real)eps_of(c->t) * ((real)(k + 4) + sqrtl((real)(m > n ? m - n : n - m)));
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

#endif
