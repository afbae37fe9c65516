/* What the tests of formats share: points, arrays of the backend under test, and errors of products
 * against the dense matrix of a source. Include after tests/support/backend.h. */
#ifndef MOAO_TESTS_FORMATS_CASE_H
#define MOAO_TESTS_FORMATS_CASE_H

#include "backend/backend_random.h"
#include "formats/formats.h"
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
static inline double *dense_of(const format *f, const format_source *s) {
    format_info info;
    format_describe(f, &info);
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

/* Largest difference between format_apply and the dense product, relative to the largest number of
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
    const size_t lwork = format_workspace(f, side, nvec);
    void *dx = device_copy(x, bytes), *dy = device_copy(y0, bytes), *work = poison(lwork);
    must(format_apply(f, side, trans, 'A', nvec, alpha, dx, ld, beta, dy, ld, work, lwork));
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
