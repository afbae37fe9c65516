/* What the tests of tile low-rank matrices share: covariances of scattered points, their dense form
 * on the host in the order of the tiles, and arrays in the memory of the backend under test. */
#ifndef MOAO_TESTS_TLR_CASE_H
#define MOAO_TESTS_TLR_CASE_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "moao/tlr.h"
#include "support/backend.h"

static void ok(status st) {
    if (st != MOAO_OK)
        fail_msg("%s", status_message());
}

static uint64_t uniform_state = 1; /* what the next number follows from */
static inline double uniform(void) {
    uniform_state = uniform_state * 6364136223846793005u + 1442695040888963407u;
    return (double)(uniform_state >> 11) * 0x1p-53;
}

/* Points in the unit square, two groups in the same place as two sensors are, and their order. */
typedef struct {
    int64_t n;
    double *x, *y, *at; /* positions in the caller's order; at: [2 n] in the order of the tiles */
    tlr_layout l;
    double length, nugget;
    int64_t bad_i, bad_j; /* an entry that is NaN, -1: none */
    double lift;          /* added to the diagonal from index n/2 on */
} points;

static inline points points_new(int64_t n, int64_t b, tlr_order order) {
    points p = {.n = n, .length = 0.3, .nugget = 0.05, .bad_i = -1, .bad_j = -1};
    int64_t start[3] = {0, n / 2, n};
    p.x = malloc(sizeof(double) * (size_t)(n + 1));
    p.y = malloc(sizeof(double) * (size_t)(n + 1));
    p.at = malloc(sizeof(double) * (size_t)(2 * n + 1));
    for (int64_t i = 0; i < n; i++) {
        p.x[i] = uniform();
        p.y[i] = uniform();
    }
    ok(tlr_layout_points(&(tlr_points){2, start, p.x, p.y, 1}, b, order, &p.l));
    for (int64_t i = 0; i < n; i++) {
        p.at[2 * i] = p.x[p.l.perm[i]];
        p.at[2 * i + 1] = p.y[p.l.perm[i]];
    }
    return p;
}

static inline void points_free(points *p) {
    free(p->x), free(p->y), free(p->at);
    tlr_layout_free(&p->l);
}

/* Covariance of points i and j (in the order of the tiles). */
static inline double entry(const points *p, int64_t i, int64_t j) {
    const double d = hypot(p->at[2 * i] - p->at[2 * j], p->at[2 * i + 1] - p->at[2 * j + 1]);
    if (i == p->bad_i && j == p->bad_j)
        return NAN;
    return exp(-d / p->length) + (i == j ? p->nugget + (i >= p->n / 2 ? p->lift : 0) : 0);
}

/* tlr_fill: made on the host, sent to the backend. */
static status fill(void *arg, int64_t i0, int64_t ni, int64_t j0, int64_t nj, double *a,
                   int64_t lda) {
    const points *p = arg;
    double *host = malloc(sizeof(double) * (size_t)(ni * nj));
    for (int64_t j = 0; j < nj; j++)
        for (int64_t i = 0; i < ni; i++)
            host[i + j * ni] = entry(p, i0 + i, j0 + j);
    status st = be->copy(ctx, a, 8 * lda, host, 8 * ni, 8 * ni, nj);
    if (st == MOAO_OK)
        st = be->sync(ctx);
    free(host);
    return st;
}

/* Dense m x n block of the same matrix from row i0 and column j0. */
static inline double *dense(const points *p, int64_t i0, int64_t m, int64_t j0, int64_t n) {
    double *a = malloc(sizeof(double) * (size_t)(m * n + 1));
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < m; i++)
            a[i + j * m] = entry(p, i0 + i, j0 + j);
    return a;
}

static inline double *noise(int64_t count) {
    double *a = malloc(sizeof(double) * (size_t)(count + 1));
    for (int64_t i = 0; i < count; i++)
        a[i] = uniform() - 0.5;
    return a;
}

/* Numbers of the backend under test; NULL: NaN. */
static inline double *up(const double *host, int64_t count) {
    double *nan = NULL;
    void *p = NULL;
    if (!host) {
        host = nan = malloc(sizeof(double) * (size_t)(count + 1));
        memset(nan, 0xff, sizeof(double) * (size_t)(count + 1));
    }
    ok(be->alloc(ctx, sizeof(double) * (size_t)(count + 1), &p));
    ok(be->copy(ctx, p, 8 * count, host, 8 * count, 8 * count, 1));
    ok(be->sync(ctx));
    free(nan);
    return p;
}

static inline double *down(const double *there, int64_t count) {
    double *host = malloc(sizeof(double) * (size_t)(count + 1));
    ok(be->copy(ctx, host, 8 * count, there, 8 * count, 8 * count, 1));
    ok(be->sync(ctx));
    return host;
}

/* The dense form on the host. */
static inline double *expanded(const tlr *a, int64_t m, int64_t n) {
    double *there = up(NULL, m * n);
    ok(tlr_expand(a, there, m > 1 ? m : 1));
    double *host = down(there, m * n);
    be->release(ctx, there);
    return host;
}

/* Frobenius norm of a - b (b NULL: of a); NaN counts as infinite. */
static inline double distance(const double *a, const double *b, int64_t count) {
    double s = 0;
    for (int64_t i = 0; i < count; i++) {
        const double d = a[i] - (b ? b[i] : 0);
        s += d * d;
    }
    return isnan(s) ? INFINITY : sqrt(s);
}

/* C := alpha op(A) op(B) + beta C on the host, C m x n. */
static inline void product_host(char ta, char tb, int64_t m, int64_t n, int64_t k, double alpha,
                                const double *a, int64_t lda, const double *b, int64_t ldb,
                                double beta, double *c, int64_t ldc) {
    ok(backend_cpu.gemm(NULL, BACKEND_D, ta, tb, m, n, k, &alpha, a, lda, b, ldb, &beta, c, ldc,
                        NULL, 0));
}

/* Small block columns, so that small cases have several. */
static inline tlr_options small_options(double tau) {
    return (tlr_options){.tau = tau, .cut = -1, .width = 64, .seed = 1, .memory = 40000};
}

static inline void chosen(void) {
}

#endif
