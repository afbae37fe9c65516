/* What the tests of the dense operations share: matrices with guards, and errors in units of eps. A
 * matrix lives in a buffer that starts as NaN: padding, unused triangles and whatever a test does
 * not fill are poison on input and must come back bit for bit. */
#ifndef MOAO_TESTS_MATRIX_H
#define MOAO_TESTS_MATRIX_H

#include "backend.h"
#include <complex.h>
#include <float.h>
#include <math.h>
#include <string.h>

typedef double complex cplx;

static inline double lin_eps(backend_type t) {
    return t == BACKEND_D || t == BACKEND_Z ? DBL_EPSILON : (double)FLT_EPSILON;
}

/* Uniform in (-1, 1), the same everywhere. */
static uint64_t lin_state = 1;
static inline double lin_random(void) {
    lin_state = lin_state * 6364136223846793005u + 1442695040888963407u;
    return (double)(lin_state >> 11) * 0x1p-52 - 1 + 0x1p-53;
}

typedef struct {
    backend_type t;
    int64_t m, n, ld;
    size_t bytes;
    unsigned char *host, *before;
    void *dev;
} mat;

static inline mat mat_new(backend_type t, int64_t m, int64_t n, int64_t pad) {
    mat a = {t, m, n, (m > 1 ? m : 1) + pad, 0, NULL, NULL, NULL};
    a.bytes = (size_t)(a.ld * n + 3 * pad + 16) * backend_size(t);
    a.host = malloc(a.bytes);
    a.before = malloc(a.bytes);
    assert_true(a.host && a.before);
    memset(a.host, 0xff, a.bytes); /* a NaN in every type */
    must(be->alloc(ctx, a.bytes, &a.dev));
    return a;
}

static inline void mat_free(mat *a) {
    free(a->host);
    free(a->before);
    be->release(ctx, a->dev);
}

static inline cplx mat_get(const mat *a, int64_t i, int64_t j) {
    const unsigned char *p = a->host + (size_t)(i + j * a->ld) * backend_size(a->t);
    switch (a->t) {
    case BACKEND_D:
        return *(const double *)p;
    case BACKEND_S:
        return *(const float *)p;
    case BACKEND_Z:
        return *(const double complex *)p;
    default:
        return *(const float complex *)p;
    }
}

static inline void mat_set(mat *a, int64_t i, int64_t j, cplx x) {
    unsigned char *p = a->host + (size_t)(i + j * a->ld) * backend_size(a->t);
    switch (a->t) {
    case BACKEND_D:
        *(double *)p = creal(x);
        break;
    case BACKEND_S:
        *(float *)p = (float)creal(x);
        break;
    case BACKEND_Z:
        *(double complex *)p = x;
        break;
    default:
        *(float complex *)p = (float complex)x;
    }
}

/* Is (i, j) part of: A all, L U a triangle with its diagonal, l u without it? */
static inline bool lin_part(char part, int64_t i, int64_t j) {
    return part == 'A' || (part == 'L' && i >= j) || (part == 'U' && i <= j) ||
           (part == 'l' && i > j) || (part == 'u' && i < j);
}

static inline void mat_fill(mat *a, char part) {
    for (int64_t j = 0; j < a->n; j++)
        for (int64_t i = 0; i < a->m; i++)
            if (lin_part(part, i, j)) {
                double re = lin_random(), im = lin_random();
                mat_set(a, i, j, a->t == BACKEND_Z || a->t == BACKEND_C ? re + im * I : re);
            }
}

static inline void mat_up(mat *a) {
    memcpy(a->before, a->host, a->bytes);
    must(
        be->copy(ctx, a->dev, (int64_t)a->bytes, a->host, (int64_t)a->bytes, (int64_t)a->bytes, 1));
    must(be->sync(ctx));
}

static inline void mat_down(mat *a) {
    must(
        be->copy(ctx, a->host, (int64_t)a->bytes, a->dev, (int64_t)a->bytes, (int64_t)a->bytes, 1));
    must(be->sync(ctx));
}

/* All that is outside `part` came back as it went in ('0': everything). */
static inline bool mat_untouched(const mat *a, char part) {
    const size_t e = backend_size(a->t);
    for (size_t k = 0; k < a->bytes / e; k++) {
        const int64_t i = (int64_t)k % a->ld, j = (int64_t)k / a->ld;
        if (!(i < a->m && j < a->n && lin_part(part, i, j)) &&
            memcmp(a->host + k * e, a->before + k * e, e))
            return false;
    }
    return true;
}

/* A workspace of exactly the queried size, with a guard behind it. */
typedef struct {
    void *dev;
    size_t bytes;
} lin_work;

static inline lin_work work_new(size_t bytes) {
    static const unsigned char guard[256] = {0x5a, 0xa5};
    lin_work w = {NULL, bytes};
    must(be->alloc(ctx, bytes + sizeof guard, &w.dev));
    must(be->copy(ctx, (char *)w.dev + bytes, 256, guard, 256, 256, 1));
    must(be->sync(ctx));
    return w;
}

static inline void work_free(lin_work *w) {
    unsigned char guard[256];
    must(be->copy(ctx, guard, 256, (char *)w->dev + w->bytes, 256, 256, 1));
    must(be->sync(ctx));
    assert_true(guard[0] == 0x5a && guard[1] == 0xa5 && guard[2] == 0 && guard[255] == 0);
    be->release(ctx, w->dev);
}

/* One element of type t, as alpha and beta are passed. */
typedef union {
    double d[2];
    float s[2];
} scalar;

static inline scalar lin_scalar(backend_type t, cplx x) {
    scalar r = {{0, 0}};
    if (t == BACKEND_D || t == BACKEND_Z)
        r.d[0] = creal(x), r.d[1] = cimag(x);
    else
        r.s[0] = (float)creal(x), r.s[1] = (float)cimag(x);
    return r;
}

/* Dense column-major copies in complex double precision, of the part that an operation reads. */
static inline cplx *lin_dense(const mat *a, char part, char trans, char diag) {
    const bool turn = trans != 'N';
    const int64_t rows = turn ? a->n : a->m;
    cplx *x = calloc((size_t)(a->m * a->n + 1), sizeof *x);
    assert_non_null(x);
    for (int64_t j = 0; j < a->n; j++)
        for (int64_t i = 0; i < a->m; i++)
            if (lin_part(part, i, j)) {
                cplx v = diag == 'U' && i == j ? 1 : mat_get(a, i, j);
                x[turn ? j + i * rows : i + j * rows] = trans == 'C' ? conj(v) : v;
            }
    return x;
}

/* r := a b, m x k times k x n, with leading dimensions m, k, m. */
static inline cplx *lin_product(int64_t m, int64_t n, int64_t k, const cplx *a, const cplx *b) {
    const double one[2] = {1, 0}, zero[2] = {0, 0};
    cplx *r = calloc((size_t)(m * n + 1), sizeof *r);
    assert_non_null(r);
    must(backend_cpu.gemm(NULL, BACKEND_Z, 'N', 'N', m, n, k, one, a, m > 1 ? m : 1, b,
                          k > 1 ? k : 1, zero, r, m > 1 ? m : 1, NULL, 0));
    return r;
}

static inline double lin_norm(int64_t count, int64_t stride, const cplx *x) {
    double s = 0;
    for (int64_t i = 0; i < count; i++)
        s += creal(x[i * stride]) * creal(x[i * stride]) +
             cimag(x[i * stride]) * cimag(x[i * stride]);
    return sqrt(s);
}

/* Larger of two numbers; NaN wins. */
static inline double lin_worst(double a, double b) {
    return isnan(a) || a > b ? a : b;
}

#endif
