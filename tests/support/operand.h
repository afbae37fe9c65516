/* What the tests of the batched routines share: operands in which everything that a routine must
 * not write is poison (NaN) and compared bit by bit, and small dense matrices. */
#ifndef MOAO_TESTS_OPERAND_H
#define MOAO_TESTS_OPERAND_H

#include "backend.h"
#include <float.h>
#include <math.h>
#include <string.h>

static uint64_t seed = 1;
static inline double rnd(void) { /* uniform in (-1, 1) */
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(int64_t)seed * 0x1p-63;
}
static inline double eps_of(backend_type t) {
    return t == BACKEND_D ? DBL_EPSILON / 2 : FLT_EPSILON / 2;
}

/* --- an operand: a batch of matrices on host and device, everything poisoned (NaN) at first --- */
/* ALIGNED: strided, every column at a multiple of 16 bytes */
enum { STRIDED, POINTERS, ALIGNED, LAYOUTS };

typedef struct {
    backend_type t;
    int64_t count, total;
    int64_t *rows, *cols, *ld, *off, lead; /* lead: elements before a strided batch */
    char *host, *before;                   /* as it is now, as it was sent */
    char *dev;
    void *ptrs, *lds; /* device arrays */
    bool *may;        /* elements that an operation may write */
    batch_mat m;
} operand;

static inline void *device_copy(const void *host, size_t bytes) {
    void *p = NULL;
    assert_int_equal(be->alloc(ctx, bytes ? bytes : 1, &p), MOAO_OK);
    if (bytes)
        assert_int_equal(be->copy(ctx, p, (int64_t)bytes, host, (int64_t)bytes, (int64_t)bytes, 1),
                         MOAO_OK);
    assert_int_equal(be->sync(ctx), MOAO_OK);
    return p;
}

static inline operand operand_new(backend_type t, int64_t count, const int64_t *rows,
                                  const int64_t *cols, int layout) {
    operand o = {.t = t, .count = count};
    int64_t max_r = 0, max_c = 0, stride;
    o.rows = malloc(sizeof(int64_t) * (size_t)(count + 1));
    o.cols = malloc(sizeof(int64_t) * (size_t)(count + 1));
    o.ld = malloc(sizeof(int64_t) * (size_t)(count + 1));
    o.off = malloc(sizeof(int64_t) * (size_t)(count + 1));
    for (int64_t b = 0; b < count; b++) {
        o.rows[b] = rows[b], o.cols[b] = cols[b];
        max_r = rows[b] > max_r ? rows[b] : max_r;
        max_c = cols[b] > max_c ? cols[b] : max_c;
    }
    const int64_t ld = layout == ALIGNED ? (max_r + 7) / 4 * 4 : max_r + 3;
    stride = layout == ALIGNED ? ld * max_c + 8 : ld * max_c + 5;
    o.total = o.lead = layout == ALIGNED ? 4 : 1;
    for (int64_t b = 0; b < count; b++) {
        o.ld[b] = layout == POINTERS ? rows[b] + 1 + b % 3 : ld;
        o.off[b] = o.total;
        o.total += layout == POINTERS ? o.ld[b] * cols[b] + 1 + b % 2 : stride;
    }
    size_t bytes = (size_t)o.total * backend_size(t);
    o.host = malloc(bytes), o.before = malloc(bytes), o.may = calloc((size_t)o.total, 1);
    memset(o.host, 0xff, bytes);
    o.m = batch_strided(NULL, ld, stride);
    if (layout == POINTERS)
        o.m.stride = -1;
    return o;
}

static inline void operand_free(operand *o) {
    be->release(ctx, o->dev), be->release(ctx, o->ptrs), be->release(ctx, o->lds);
    free(o->rows), free(o->cols), free(o->ld), free(o->off);
    free(o->host), free(o->before), free(o->may);
}

static inline double get(const operand *o, int64_t b, int64_t i, int64_t j) {
    int64_t k = o->off[b] + i + j * o->ld[b];
    return o->t == BACKEND_D ? ((double *)o->host)[k] : (double)((float *)o->host)[k];
}
static inline void set(operand *o, int64_t b, int64_t i, int64_t j, double v) {
    int64_t k = o->off[b] + i + j * o->ld[b];
    if (o->t == BACKEND_D)
        ((double *)o->host)[k] = v;
    else
        ((float *)o->host)[k] = (float)v;
}
static inline double was(operand *o, int64_t b, int64_t i, int64_t j) {
    char *now = o->host;
    o->host = o->before;
    double v = get(o, b, i, j);
    o->host = now;
    return v;
}
static inline void allow(operand *o, int64_t b, int64_t i, int64_t j) {
    o->may[o->off[b] + i + j * o->ld[b]] = true;
}

static inline void send(operand *o) {
    size_t size = backend_size(o->t);
    memcpy(o->before, o->host, (size_t)o->total * size);
    o->dev = device_copy(o->host, (size_t)o->total * size);
    if (o->m.stride >= 0) {
        o->m.base = o->dev + (size_t)o->lead * size;
        return;
    }
    void **ptrs = malloc(sizeof(void *) * (size_t)(o->count + 1));
    for (int64_t b = 0; b < o->count; b++)
        ptrs[b] = o->dev + (size_t)o->off[b] * size;
    o->ptrs = device_copy(ptrs, sizeof(void *) * (size_t)o->count);
    o->lds = device_copy(o->ld, sizeof(int64_t) * (size_t)o->count);
    o->m = (batch_mat){.ptrs = o->ptrs, .lds = o->lds};
    free(ptrs);
}

static inline void fetch(operand *o) {
    int64_t bytes = o->total * (int64_t)backend_size(o->t);
    assert_int_equal(be->copy(ctx, o->host, bytes, o->dev, bytes, bytes, 1), MOAO_OK);
    assert_int_equal(be->sync(ctx), MOAO_OK);
}

/* Elements written that must not be. */
static inline int64_t trespasses(const operand *o) {
    size_t size = backend_size(o->t);
    int64_t bad = 0;
    for (int64_t k = 0; k < o->total; k++)
        bad += !o->may[k] &&
               memcmp(o->host + (size_t)k * size, o->before + (size_t)k * size, size) != 0;
    return bad;
}

/* --- small dense reference in double --- */
typedef struct {
    int64_t n, m;
    double *v; /* n x m, column-major */
} dense;

static inline dense dense_new(int64_t n, int64_t m) {
    dense d = {n, m, calloc((size_t)(n * m + 1), sizeof(double))};
    return d;
}
#define AT(d, i, j) ((d).v[(i) + (j) * (d).n])

enum { NOW, BEFORE };
static inline double read_at(operand *o, int when, int64_t b, int64_t i, int64_t j) {
    return when == NOW ? get(o, b, i, j) : was(o, b, i, j);
}
/* A full matrix; a triangle with zeros; a symmetric matrix from its triangle. */
static inline dense read_full(operand *o, int when, int64_t b) {
    dense d = dense_new(o->rows[b], o->cols[b]);
    for (int64_t j = 0; j < d.m; j++)
        for (int64_t i = 0; i < d.n; i++)
            AT(d, i, j) = read_at(o, when, b, i, j);
    return d;
}
static inline dense read_triangle(operand *o, int when, int64_t b, char uplo, char diag,
                                  bool symmetric) {
    dense d = dense_new(o->rows[b], o->rows[b]);
    for (int64_t j = 0; j < d.n; j++)
        for (int64_t i = j; i < d.n; i++) {
            bool low = uplo == 'L';
            double v = i == j && diag == 'U' ? 1 : read_at(o, when, b, low ? i : j, low ? j : i);
            if (low || symmetric)
                AT(d, i, j) = v;
            if (!low || symmetric)
                AT(d, j, i) = v;
        }
    return d;
}
static inline dense transposed(dense a) {
    dense d = dense_new(a.m, a.n);
    for (int64_t j = 0; j < d.m; j++)
        for (int64_t i = 0; i < d.n; i++)
            AT(d, i, j) = AT(a, j, i);
    free(a.v);
    return d;
}
/* r += f A B, s += |f| |A| |B| */
static inline void accumulate(dense r, dense s, double f, dense a, dense b) {
    for (int64_t j = 0; j < b.m; j++)
        for (int64_t k = 0; k < a.m; k++) {
            double w = f * AT(b, k, j);
            if (w == 0)
                continue;
            for (int64_t i = 0; i < a.n; i++) {
                AT(r, i, j) += w * AT(a, i, k);
                AT(s, i, j) += fabs(w * AT(a, i, k));
            }
        }
}
static inline void add(dense r, dense s, double f, dense a) {
    for (int64_t k = 0; k < r.n * r.m; k++)
        r.v[k] += f * a.v[k], s.v[k] += fabs(f * a.v[k]);
}
/* Largest |r| / s in units of eps times `length`; lower: only that triangle. NaN counts as
 * infinite. */
static inline double worst(dense r, dense s, double eps, double length, char part) {
    double w = 0;
    for (int64_t j = 0; j < r.m; j++)
        for (int64_t i = 0; i < r.n; i++) {
            if ((part == 'L' && i < j) || (part == 'U' && i > j) || AT(r, i, j) == 0)
                continue;
            double q = fabs(AT(r, i, j)) / (AT(s, i, j) * eps * length);
            w = q <= w ? w : isnan(q) ? INFINITY : q;
        }
    return w;
}
/* The same with the largest s of its column: for inverses, whose error is not componentwise. */
static inline double worst_norm(dense r, dense s, double eps, double length) {
    double w = 0;
    for (int64_t j = 0; j < r.m; j++) {
        double big = 0;
        for (int64_t i = 0; i < r.n; i++)
            big = AT(s, i, j) > big ? AT(s, i, j) : big;
        for (int64_t i = 0; i < r.n; i++) {
            double q = fabs(AT(r, i, j)) / (big * eps * length);
            w = q <= w ? w : isnan(q) ? INFINITY : q;
        }
    }
    return w;
}

#endif
