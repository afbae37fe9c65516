/* The CPU backend's products of FP16 numbers: conversions bit by bit, products in single precision.
 */
#include "cpu_blas.h"
#include "cpu_own.h"
#include "moao/backend_fp16.h"
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define INNER ((int64_t)256) /* inner size of a product at a time */

int backend_fp16_exponent(double bound) {
    int e;
    if (!(bound > 0) || isinf(bound))
        return 0;
    frexp(bound, &e); /* bound <= 2^e */
    return 15 - e < -1000 ? -1000 : 15 - e > 1000 ? 1000 : 15 - e;
}

/* The half nearest to x, ties to even. */
static backend_f16 half_of(double x) {
    const backend_f16 sign = signbit(x) ? 0x8000 : 0;
    double a = fabs(x);
    int e;
    if (isnan(x))
        return 0x7fff;
    if (a >= 65520)
        return sign | 0x7c00;
    frexp(a, &e); /* a < 2^e, a multiple of 2^(e - 11) is a half */
    e = a > 0 && e > -13 ? e : -13;
    const double steps = nearbyint(ldexp(a, 11 - e)); /* up to 2^11: then the exponent grows */
    return sign | (backend_f16)((int)steps + ((e + 13) << 10));
}

static float fp16_value(backend_f16 h) {
    const int e = h >> 10 & 31, f = h & 1023;
    const double a = e == 31 ? (f ? NAN : INFINITY) : ldexp(e ? 1024 + f : f, (e ? e : 1) - 25);
    return (float)(h & 0x8000 ? -a : a);
}

static float values[65536]; /* of all FP16 numbers */

static void make_values(void) {
    for (int i = 0; i < 65536; i++)
        values[i] = fp16_value((backend_f16)i);
}

static const float *all_values(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_values);
    return values;
}

void fp16_cpu_floats(int64_t n, const backend_f16 *h, float *x) {
    const float *value = all_values();
    for (int64_t i = 0; i < n; i++)
        x[i] = value[h[i]];
}

static status cpu_max_abs(backend_ctx *ctx, backend_type t, int64_t m, int64_t n, const void *a,
                          int64_t lda, double *out) {
    double most = 0;
    (void)ctx;
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < m; i++) {
            const double x = t == BACKEND_D ? ((const double *)a)[i + j * lda]
                                            : (double)((const float *)a)[i + j * lda];
            if (!(fabs(x) <= most) && !isnan(most))
                most = fabs(x);
        }
    *out = most;
    return MOAO_OK;
}

static status cpu_cast_to_fp16(backend_ctx *ctx, backend_type t, int64_t m, int64_t n, int exponent,
                               const void *a, int64_t lda, backend_f16 *h, int64_t ldh) {
    (void)ctx;
    const double scale = ldexp(1, exponent);
#pragma omp parallel for
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < m; i++)
            h[i + j * ldh] =
                half_of(scale * (t == BACKEND_D ? ((const double *)a)[i + j * lda]
                                                : (double)((const float *)a)[i + j * lda]));
    return MOAO_OK;
}

/* Inner columns k0 .. k0 + n of op(A), m x n, in FP32. */
static void spread(char trans, int64_t m, int64_t k0, int64_t n, const backend_f16 *a, int64_t lda,
                   const float *value, float *out) {
#pragma omp parallel for
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < m; i++)
            out[i + j * m] = value[trans == 'N' ? a[i + (k0 + j) * lda] : a[k0 + j + i * lda]];
}

static status cpu_gemm_fp16(backend_ctx *ctx, char ta, char tb, int64_t m, int64_t n, int64_t k,
                            float alpha, const backend_f16 *a, int64_t lda, const backend_f16 *b,
                            int64_t ldb, float beta, float *c, int64_t ldc) {
    const float *value = all_values();
    float *x = NULL, *y = NULL;
    const float one = 1;
    status st = cpu_fits("gemm of FP16 numbers", m, n, ldc);
    (void)ctx;
    if (st != MOAO_OK || m == 0 || n == 0)
        return st;
    TRY(ALLOC(x, (size_t)(m * INNER), "FP16 numbers in FP32"));
    TRY(ALLOC(y, (size_t)(n * INNER), "FP16 numbers in FP32"));
    cpu_gemm_panel(BACKEND_S, 'N', 'N', m, n, 0, &one, x, m, y, INNER, &beta, c, ldc);
    for (int64_t j = 0; alpha != 0 && j < k; j += INNER) {
        const int64_t w = k - j < INNER ? k - j : INNER;
        spread(ta, m, j, w, a, lda, value, x);
        spread(tb == 'N' ? 'T' : 'N', n, j, w, b, ldb, value, y);
        cpu_gemm_panel(BACKEND_S, 'N', 'T', m, n, w, &alpha, x, m, y, n, &one, c, ldc);
    }
done:
    free(x);
    free(y);
    return st;
}

static status cpu_gemm_rounded(backend_ctx *ctx, char ta, char tb, int64_t m, int64_t n, int64_t k,
                               float alpha, int count, const fp16_product *p, int64_t lda,
                               int64_t ldb, float beta, float *c, int64_t ldc) {
    status st = MOAO_OK;
    if (k == 0)
        return cpu_gemm_fp16(ctx, ta, tb, m, n, 0, 0, p->a, lda, p->b, ldb, beta, c, ldc);
    for (int i = 0; i < count; i++)
        for (int64_t j = 0, w; j < k && st == MOAO_OK; j += w) {
            w = k - j < p[i].depth ? k - j : p[i].depth;
            st = cpu_gemm_fp16(ctx, ta, tb, m, n, w, alpha, p[i].a + (ta == 'N' ? j * lda : j), lda,
                               p[i].b + (tb == 'N' ? j : j * ldb), ldb, i + j > 0 ? 1 : beta, c,
                               ldc);
        }
    return st;
}

static status cpu_cast_to_double(backend_ctx *ctx, int64_t m, int64_t n, double alpha,
                                 const float *x, int64_t ldx, double beta, double *y, int64_t ldy) {
    (void)ctx;
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < m; i++) {
            const double before = beta != 0 ? beta * y[i + j * ldy] : 0;
            y[i + j * ldy] = alpha * (double)x[i + j * ldx] + before;
        }
    return MOAO_OK;
}

static status cpu_cast_pieces(backend_ctx *ctx, int64_t count, const fp16_piece *p) {
    (void)ctx;
    for (int64_t k = 0; k < count; k++)
        for (int64_t i = 0; i < p[k].n; i++)
            p[k].y[i] = (double)p[k].x[i];
    return MOAO_OK;
}

static status cpu_cast_to_single(backend_ctx *ctx, int64_t m, int64_t n, const double *x,
                                 int64_t ldx, float *y, int64_t ldy) {
    (void)ctx;
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < m; i++)
            y[i + j * ldy] = (float)x[i + j * ldx];
    return MOAO_OK;
}

static double entry(backend_type t, const void *a, int64_t k) {
    return t == BACKEND_D ? ((const double *)a)[k] : (double)((const float *)a)[k];
}

static status cpu_split(backend_ctx *ctx, backend_type t, char part, int64_t m, int64_t n,
                        int exponent, const void *a, int64_t lda, backend_f16 *h, int64_t ldh,
                        backend_f16 *r, int64_t ldr) {
    (void)ctx;
    const double scale = ldexp(1, exponent);
    const float *value = all_values();
#pragma omp parallel for
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < m; i++) {
            const double x = part == 'A' || i >= j ? scale * entry(t, a, i + j * lda) : 0;
            const backend_f16 top = half_of(x);
            h[i + j * ldh] = top;
            r[i + j * ldr] = half_of(x - (double)value[top]);
        }
    return MOAO_OK;
}

static status cpu_join(backend_ctx *ctx, int64_t m, int64_t n, int exponent, const backend_f16 *h,
                       int64_t ldh, const backend_f16 *r, int64_t ldr, double *y, int64_t ldy) {
    (void)ctx;
    const double scale = ldexp(1, -exponent);
    const float *value = all_values();
#pragma omp parallel for
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < m; i++)
            y[i + j * ldy] = scale * ((double)value[h[i + j * ldh]] + value[r[i + j * ldr]]);
    return MOAO_OK;
}

static status cpu_squares(backend_ctx *ctx, backend_type t, int64_t m, int64_t n, const void *a,
                          int64_t lda, int64_t tile, double *out, int64_t ldo) {
    (void)ctx;
    for (int64_t j0 = 0; j0 < n; j0 += tile)
        for (int64_t i0 = 0; i0 < m; i0 += tile) {
            double sum = 0;
            for (int64_t j = j0; j < n && j < j0 + tile; j++)
                for (int64_t i = i0; i < m && i < i0 + tile; i++)
                    sum += entry(t, a, i + j * lda) * entry(t, a, i + j * lda);
            out[i0 / tile + j0 / tile * ldo] = sum;
        }
    return MOAO_OK;
}

const backend_fp16 fp16_cpu = {
    .size = sizeof(backend_fp16),
    .max_abs = cpu_max_abs,
    .cast_to_fp16 = cpu_cast_to_fp16,
    .gemm = cpu_gemm_fp16,
    .gemm_rounded = cpu_gemm_rounded,
    .cast_to_double = cpu_cast_to_double,
    .cast_to_single = cpu_cast_to_single,
    .split = cpu_split,
    .join = cpu_join,
    .squares = cpu_squares,
    .cast_pieces = cpu_cast_pieces,
};
