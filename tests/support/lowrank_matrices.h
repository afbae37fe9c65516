/* Matrices of many kinds for the tests of QR, SVD and low-rank routines, and their singular values
 * in long double. */
#ifndef MOAO_TESTS_LOWRANK_MATRICES_H
#define MOAO_TESTS_LOWRANK_MATRICES_H

#include "operand.h"

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
    COLUMNS,    /* columns scaled over the whole range */
    ORTHOGONAL, /* all values 1 */
    MIXED,      /* entries of all sizes */
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
    case MIXED:
        return noise() * pow(wide ? 1e150 : 1e15, rnd());
    default:
        return kind == ZERO ? 0 : noise();
    }
}

static inline double *matrix_of(int kind, backend_type t, int64_t m, int64_t n) {
    double *a = calloc((size_t)(m * n + 1), sizeof *a);
    const bool wide = t == BACKEND_D;
    if (kind == GEOMETRIC || kind == STEEP || kind == CLUSTERED || kind == ORTHOGONAL)
        spectrum(m, n, a, kind,
                 kind == ORTHOGONAL ? 0
                 : kind == STEEP    ? (wide ? 14 : 6)
                                    : (wide ? 7 : 3));
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

#endif
