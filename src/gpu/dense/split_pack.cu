/* Operands of many products in several terms (backend_split_ops.h): exponents where they are used,
 * and numbers from where they are kept. Bound by memory. */
#include "gpu/core/common.cuh"
#include "split_fp16.cuh"
#include "split_gpu.h"

#define THREADS 256
#define MOST_BLOCKS 65535

/* As backend_fp16_exponent: bound < 2^e. */
__global__ void exponent_kernel(const double *most, double *bound, double factor, int32_t *out) {
    double b = *bound;
    int e = 0;
    if (threadIdx.x > 0)
        return;
    if (most && !(*most <= b) && !isnan(b))
        *bound = b = *most;
    b *= factor;
    if (b > 0 && !isinf(b)) {
        frexp(b, &e);
        e = 15 - e;
    }
    *out = max(-(int)SPLIT_EXPONENT, min((int)SPLIT_EXPONENT, e));
}

extern "C" status split_exponent(backend_ctx *ctx, const double *most, double *bound, double factor,
                                 int32_t *out) {
    gpu_device_guard guard(ctx->device);
    exponent_kernel<<<1, 32, 0, ctx->main.stream>>>(most, bound, factor, out);
    LAUNCHED();
    return MOAO_OK;
}

__global__ void take_kernel(order_of o, int64_t m, int64_t n, const int32_t *exponent,
                            const float *x, int64_t ldx, int64_t step, __half *h, int64_t ldh) {
    const float scale = split_power(*exponent);
    for (int64_t j = blockIdx.x; j < n; j += gridDim.x) {
        __half *const to[3] = {h + j * ldh, h + (step + j) * ldh, NULL};
        one_column(o, m, x + j * ldx, scale, to, blockIdx.y * (int64_t)THREADS + threadIdx.x,
                   gridDim.y * (int64_t)THREADS);
    }
}

extern "C" status split_take(backend_ctx *ctx, int parts, int64_t m, int64_t n,
                             const int32_t *exponent, const float *x, int64_t ldx, int64_t step,
                             backend_f16 *h, int64_t ldh) {
    gpu_device_guard guard(ctx->device);
    if (m == 0 || n == 0)
        return MOAO_OK;
    const dim3 grid((unsigned)gpu_min(n, INT32_MAX),
                    (unsigned)gpu_min(gpu_ceil(m, 8 * THREADS), MOST_BLOCKS));
    take_kernel<<<grid, THREADS, 0, ctx->main.stream>>>(order(parts > 1 ? "hr" : "h"), m, n,
                                                        exponent, x, ldx, step, (__half *)h, ldh);
    LAUNCHED();
    return MOAO_OK;
}

/* Two rows of a column of numbers that are kept as such or in FP16; beyond the last one, zeros.
 */
__device__ inline void two_rows(const split_pack &p, int64_t j, int64_t i, float scale,
                                const float *s, const __half *h, __half2 *top, __half2 *rest) {
    const __half zero = __ushort_as_half(0);
    __half t[2] = {zero, zero}, r[2] = {zero, zero};
#pragma unroll
    for (int e = 0; e < 2; e++) {
        const bool there = i + e < p.rows;
        const int64_t at = j * p.rows + i + e;
        if (p.kept < 0) {
            t[e] = there ? h[at - 1 - p.kept] : zero;
        } else {
            const fp16_of x = two_fp16(there ? s[at + p.kept] : 0, scale);
            t[e] = x.top, r[e] = x.rest;
        }
    }
    *top = __halves2half2(t[0], t[1]);
    *rest = __halves2half2(r[0], r[1]);
}

#define PAIRS 4 /* of rows that a lane has in transit */

/* A warp takes a column, a lane some pairs of its rows at a time, which are fetched before the
 * first of them is written. */
__global__ void pack_kernel(int64_t n, const split_pack *list, float scale, const float *s,
                            const __half *h, __half *b, int64_t ldb, split_place *places) {
    const int lane = threadIdx.x % 32;
    for (int64_t e = blockIdx.x; e < n; e += gridDim.x) {
        const split_pack p = list[e];
        for (int64_t j = threadIdx.x / 32; j < p.cols; j += THREADS / 32) {
            __half *const to = b + (p.to + j) * ldb;
            for (int64_t i0 = 2 * lane; i0 < ldb; i0 += 64 * PAIRS) {
                __half2 top[PAIRS], rest[PAIRS];
#pragma unroll
                for (int k = 0; k < PAIRS; k++)
                    two_rows(p, j, i0 + 64 * k, scale, s, h, &top[k], &rest[k]);
#pragma unroll
                for (int k = 0; k < PAIRS; k++) {
                    const int64_t i = i0 + 64 * k;
                    if (i < ldb)
                        *(__half2 *)(to + i) = top[k];
                    if (i < ldb && p.parts > 1)
                        *(__half2 *)(to + p.step * ldb + i) = rest[k];
                }
            }
            if (lane == 0 && p.place.to >= 0)
                places[p.to + j] = {(int32_t)(p.place.to + j), p.place.step};
        }
    }
}

extern "C" status split_pack_columns(backend_ctx *ctx, int64_t n, const split_pack *list,
                                     int exponent, const float *s, const backend_f16 *h,
                                     backend_f16 *b, int64_t ldb, split_place *places) {
    gpu_device_guard guard(ctx->device);
    if (n == 0)
        return MOAO_OK;
    pack_kernel<<<(unsigned)gpu_min(n, INT32_MAX), THREADS, 0, ctx->main.stream>>>(
        n, list, ldexpf(1.0f, exponent), s, (const __half *)h, (__half *)b, ldb, places);
    LAUNCHED();
    return MOAO_OK;
}
