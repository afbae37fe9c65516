/* What the tests of formats share: points, arrays of the backend under test, and errors of products
 * against the dense matrix of a source. Include after tests/support/backend.h. */
#ifndef MOAO_TESTS_FORMATS_CASE_H
#define MOAO_TESTS_FORMATS_CASE_H

#include "moao/backend_random.h"
#include "moao/hier.h"
#include "support/backend.h"
#include <math.h>
#include <string.h>

/* n points of a line, -1 to 1 (the HSS paper's), or of a jittered grid of the unit square. */
static inline double *line_points(int64_t n) {
    double *x = malloc(sizeof *x * (size_t)(n + 1));
    for (int64_t i = 0; i < n; i++)
        x[i] = n > 1 ? -1 + 2.0 * (double)i / (double)(n - 1) : 0;
    return x;
}
static inline double *square_points(int64_t n) {
    double *x = malloc(sizeof *x * (size_t)(2 * n + 1));
    const int64_t side = (int64_t)ceil(sqrt((double)n));
    for (int64_t i = 0; i < n; i++) {
        float jitter[4];
        backend_random(7, i, 0, jitter);
        x[2 * i] = ((double)(i % side) + 0.5 + 0.4 * (double)jitter[0]) / (double)side;
        x[2 * i + 1] = ((double)(i / side) + 0.5 + 0.4 * (double)jitter[1]) / (double)side;
    }
    return x;
}

/* Device memory with a copy of host data, or poison. */
static inline void *device_copy(const void *host, size_t bytes) {
    void *p;
    must(be->alloc(ctx, bytes + 1, &p));
    must(be->copy(ctx, p, (int64_t)bytes, host, (int64_t)bytes, (int64_t)bytes, 1));
    must(be->sync(ctx));
    return p;
}
static inline void to_host(void *host, const void *device, size_t bytes) {
    must(be->copy(ctx, host, (int64_t)bytes, device, (int64_t)bytes, (int64_t)bytes, 1));
    must(be->sync(ctx));
}
static inline void *poison(size_t bytes) {
    unsigned char *host = malloc(bytes + 1);
    memset(host, 0xff, bytes + 1); /* NaN in both types */
    void *p = device_copy(host, bytes);
    free(host);
    return p;
}

/* rows x cols random numbers of type t on the host. */
static inline void *random_host(backend_type t, int64_t rows, int64_t cols, uint64_t seed) {
    void *p = malloc(backend_size(t) * (size_t)(rows * cols) + 1);
    for (int64_t j = 0; j < cols; j++)
        for (int64_t i = 0; i < rows; i++) {
            float v[4];
            backend_random(seed, i / 4, j, v);
            if (t == BACKEND_D)
                ((double *)p)[i + j * rows] = v[i % 4];
            else
                ((float *)p)[i + j * rows] = v[i % 4];
        }
    return p;
}
static inline double number(backend_type t, const void *p, int64_t i) {
    return t == BACKEND_D ? ((const double *)p)[i] : ((const float *)p)[i];
}

/* The source's matrix in the format's order, double, on the host. */
static inline double *dense_of(const format *f, const hier_source *s) {
    hier_info info;
    hier_describe(f, &info);
    const int64_t m = info.rows, n = info.cols;
    double *a = malloc(8 * (size_t)(m * n) + 1), *b = malloc(8 * (size_t)(m * n) + 1);
    void *d = poison(8 * (size_t)(m * n));
    must(s->block(s->from, ctx, BACKEND_D, 0, m, 0, n, d, m > 1 ? m : 1));
    to_host(b, d, 8 * (size_t)(m * n));
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < m; i++)
            a[i + j * m] =
                b[(info.order ? info.order[i] : i) + (info.order ? info.order[j] : j) * m];
    free(b);
    be->release(ctx, d);
    return a;
}

/* A source of a matrix on the host, n x n, column-major; points of a line where dim is 1. */
typedef struct {
    const double *a;
    int64_t n;
} host_matrix;

static inline status host_gather(void *from, backend_ctx *c, backend_type t, const hier_blocks *b) {
    const host_matrix *s = from;
    const size_t count = (size_t)b->count, size = backend_size(t);
    int64_t *m = malloc(8 * (count + 1)), *n = malloc(8 * (count + 1));
    const int **rows = malloc(8 * (count + 1)), **cols = malloc(8 * (count + 1));
    char **to = malloc(8 * (count + 1));
    int *row = malloc(4 * (size_t)(b->m.n + 1)), *col = malloc(4 * (size_t)(b->n.n + 1));
    char *block = malloc(size * (size_t)(b->m.n * b->n.n + 1));
    status st = MOAO_OK;
    (void)c;
    if (b->m.each)
        to_host(m, b->m.each, 8 * count);
    if (b->n.each)
        to_host(n, b->n.each, 8 * count);
    if (b->a.ptrs)
        to_host(to, b->a.ptrs, 8 * count);
    to_host(rows, b->rows, 8 * count), to_host(cols, b->cols, 8 * count);
    for (int64_t k = 0; k < b->count && st == MOAO_OK; k++) {
        const int64_t mk = b->m.each ? m[k] : b->m.n, nk = b->n.each ? n[k] : b->n.n,
                      ld = b->a.lds ? 0 : b->a.ld, high = b->turned ? nk : mk,
                      wide = b->turned ? mk : nk;
        char *at = b->a.ptrs ? to[k] : (char *)b->a.base + k * b->a.stride * (int64_t)size;
        to_host(row, rows[k], 4 * (size_t)mk), to_host(col, cols[k], 4 * (size_t)nk);
        for (int64_t j = 0; j < nk; j++)
            for (int64_t i = 0; i < mk; i++) {
                const double v = s->a[row[i] + col[j] * s->n];
                const int64_t e = b->turned ? j + i * nk : i + j * mk;
                if (t == BACKEND_D)
                    ((double *)(void *)block)[e] = v;
                else
                    ((float *)(void *)block)[e] = (float)v;
            }
        const int64_t bytes = (int64_t)size * high;
        if (high > 0 && wide > 0)
            st = be->copy(ctx, at, (int64_t)size * ld, block, bytes, bytes, wide);
        if (st == MOAO_OK)
            st = be->sync(ctx);
    }
    free(m), free(n), free(rows), free(cols), free(to), free(row), free(col), free(block);
    return st;
}

static inline status host_block(void *from, backend_ctx *c, backend_type t, int64_t i0, int64_t ni,
                                int64_t j0, int64_t nj, void *a, int64_t lda) {
    const host_matrix *s = from;
    const int64_t size = (int64_t)backend_size(t);
    char *x = malloc((size_t)(ni * nj * size) + 1);
    (void)c;
    for (int64_t j = 0; j < nj; j++)
        for (int64_t i = 0; i < ni; i++)
            if (t == BACKEND_D)
                ((double *)(void *)x)[i + j * ni] = s->a[i0 + i + (j0 + j) * s->n];
            else
                ((float *)(void *)x)[i + j * ni] = (float)s->a[i0 + i + (j0 + j) * s->n];
    status st =
        ni > 0 && nj > 0 ? be->copy(ctx, a, size * lda, x, size * ni, size * ni, nj) : MOAO_OK;
    if (st == MOAO_OK)
        st = be->sync(ctx);
    free(x);
    return st;
}

static inline hier_source host_source(host_matrix *m, bool symmetric, int dim, const double *at) {
    return (hier_source){.from = m,
                         .rows = m->n,
                         .cols = m->n,
                         .symmetric = symmetric,
                         .mirrored = symmetric,
                         .dim = dim,
                         .at = at,
                         .block = host_block,
                         .gather = host_gather};
}

/* Every entry of the format, in its order, double, on the host. */
static inline double *entries_of(const format *f, backend_type t) {
    hier_info info;
    hier_describe(f, &info);
    const int64_t n = info.rows;
    const size_t bytes = backend_size(t) * (size_t)(n * n), lwork = hier_workspace(f, 'L', n);
    char *one = calloc(bytes + 1, 1), *raw = malloc(bytes + 1);
    double *a = malloc(8 * (size_t)(n * n) + 1);
    for (int64_t i = 0; i < n; i++)
        if (t == BACKEND_D)
            ((double *)(void *)one)[i * (n + 1)] = 1;
        else
            ((float *)(void *)one)[i * (n + 1)] = 1;
    void *x = device_copy(one, bytes), *y = poison(bytes), *work = poison(lwork);
    must(hier_apply(f, 'L', 'N', 'A', n, 1, x, n, 0, y, n, work, lwork));
    to_host(raw, y, bytes);
    for (int64_t e = 0; e < n * n; e++)
        a[e] = number(t, raw, e);
    be->release(ctx, x), be->release(ctx, y), be->release(ctx, work);
    free(one), free(raw);
    return a;
}

/* Largest difference between hier_apply and the dense product, relative to the largest number of
 * the product; y is poisoned where beta is 0, and what lies between the columns must stay as it
 * was. */
static inline double product_error(const format *f, const double *a, int64_t n, backend_type t,
                                   char side, char trans, int64_t nvec, double alpha, double beta) {
    const int64_t pad = 3, ld = (side == 'L' ? n : nvec) + pad, cols = side == 'L' ? nvec : n;
    const size_t size = backend_size(t), bytes = size * (size_t)(ld * cols);
    void *x = random_host(t, ld, cols, 11), *y0 = random_host(t, ld, cols, 12),
         *y = malloc(bytes + 1);
    if (beta == 0)
        memset(y0, 0xff, bytes);
    const size_t lwork = hier_workspace(f, side, nvec);
    void *dx = device_copy(x, bytes), *dy = device_copy(y0, bytes), *work = poison(lwork);
    must(hier_apply(f, side, trans, 'A', nvec, alpha, dx, ld, beta, dy, ld, work, lwork));
    to_host(y, dy, bytes);
    double worst = 0, largest = 0;
    for (int64_t j = 0; j < cols; j++) {
        for (int64_t i = 0; i < ld - pad; i++) {
            double want = beta == 0 ? 0 : beta * number(t, y0, i + j * ld);
            const int64_t r = side == 'L' ? i : j; /* row of op(A) or column of it */
            for (int64_t k = 0; k < n; k++) {
                const bool down = (side == 'L') == (trans == 'N');
                const double e = down ? a[r + k * n] : a[k + r * n];
                want += alpha * e * number(t, x, side == 'L' ? k + j * ld : i + k * ld);
            }
            const double had = number(t, y, i + j * ld);
            largest = fmax(largest, fabs(want));
            worst = fabs(had - want) <= worst ? worst : fabs(had - want);
        }
        assert_memory_equal((char *)y + size * (size_t)(j * ld + ld - pad),
                            (char *)y0 + size * (size_t)(j * ld + ld - pad), size * (size_t)pad);
    }
    be->release(ctx, dx), be->release(ctx, dy), be->release(ctx, work);
    free(x), free(y0), free(y);
    return largest > 0 ? worst / largest : worst;
}

#endif
