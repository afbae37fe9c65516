/* Operands of products of FP16 numbers in several terms: each number is read once and its halves
 * are written to all their places. Bound by memory: a thread takes four numbers of a column, where
 * their places allow. */
#include "gpu/core/common.cuh"
#include "split_fp16.cuh"
#include "split_gpu.h"
#include <math.h>

#define THREADS 256
#define MOST_BLOCKS 65535

__global__ void columns_kernel(order_of o, int64_t m, int64_t n, const split_column *list,
                               float scale, const float *x, int64_t ldx, const float *y,
                               int64_t ldy, __half *h, int64_t ldh) {
    for (int64_t e = blockIdx.x; e < n; e += gridDim.x) {
        const split_column c = list[e];
        const float *from = c.from >= 0 ? x + c.from * ldx : y + (-1 - c.from) * ldy;
        __half *const to[3] = {h + c.to * ldh, h + (c.to + c.step) * ldh,
                               h + (c.to + 2 * c.step) * ldh};
        one_column(o, m, from, scale, to, blockIdx.y * (int64_t)THREADS + threadIdx.x,
                   gridDim.y * (int64_t)THREADS);
    }
}

__global__ void blocks_kernel(order_of o, int64_t n, const split_block *list, float scale,
                              const float *x, __half *h) {
    for (int64_t e = blockIdx.y; e < n; e += gridDim.y) {
        const split_block b = list[e];
        for (int64_t j = blockIdx.x * 8 + threadIdx.x / 32; j < b.cols; j += gridDim.x * 8) {
            __half *const to[3] = {h + b.to + j * b.ld, h + b.to + j * b.ld + b.step,
                                   h + b.to + j * b.ld + 2 * b.step};
            one_column(o, b.rows, x + b.from + j * b.rows, scale, to, threadIdx.x % 32, 32);
        }
    }
}

static status columns(backend_ctx *ctx, const char *parts, int64_t m, int64_t n,
                      const split_column *list, int exponent, const float *x, int64_t ldx,
                      const float *y, int64_t ldy, backend_f16 *h, int64_t ldh) {
    gpu_device_guard guard(ctx->device);
    if (m == 0 || n == 0)
        return MOAO_OK;
    const dim3 grid((unsigned)gpu_min(n, INT32_MAX),
                    (unsigned)gpu_min(gpu_ceil(m, 8 * THREADS), MOST_BLOCKS));
    columns_kernel<<<grid, THREADS, 0, ctx->main.stream>>>(
        order(parts), m, n, list, ldexpf(1.0f, exponent), x, ldx, y, ldy, (__half *)h, ldh);
    LAUNCHED();
    return MOAO_OK;
}

static status blocks(backend_ctx *ctx, const char *parts, int64_t n, const split_block *list,
                     int64_t most, int exponent, const float *x, backend_f16 *h) {
    gpu_device_guard guard(ctx->device);
    if (n == 0 || most == 0)
        return MOAO_OK;
    /* a warp takes a column; those of a block of the usual tile, by as many blocks */
    const dim3 grid((unsigned)gpu_min(gpu_ceil(most, 64 * THREADS), 1024),
                    (unsigned)gpu_min(n, MOST_BLOCKS));
    blocks_kernel<<<grid, THREADS, 0, ctx->main.stream>>>(order(parts), n, list,
                                                          ldexpf(1.0f, exponent), x, (__half *)h);
    LAUNCHED();
    return MOAO_OK;
}

/* --- numbers as they are kept --- */

__device__ inline __half half_of(float x, float scale) {
    return two_fp16(x, scale).top;
}

/* Runs in pairs of numbers where their places and lengths allow it. */
__device__ inline bool in_pairs(split_run r, int64_t kept) {
    return ((r.at | r.count | kept) & 1) == 0;
}

__global__ void narrow_kernel(int64_t n, const split_run *list, float scale, const float *x,
                              float *s, __half *h) {
    const int64_t first = blockIdx.x * (int64_t)THREADS + threadIdx.x,
                  step = gridDim.x * (int64_t)THREADS;
    for (int64_t e = blockIdx.y; e < n; e += gridDim.y) {
        const split_run r = list[e];
        const int64_t at = -1 - r.kept;
        if (r.kept >= 0)
            for (int64_t i = first; i < r.count; i += step)
                s[r.kept + i] = x[r.at + i];
        else if (in_pairs(r, at))
            for (int64_t i = first; i < r.count / 2; i += step) {
                const float2 pair = ((const float2 *)(x + r.at))[i];
                ((__half2 *)(h + at))[i] =
                    __halves2half2(half_of(pair.x, scale), half_of(pair.y, scale));
            }
        else
            for (int64_t i = first; i < r.count; i += step)
                h[at + i] = half_of(x[r.at + i], scale);
    }
}

__global__ void widen_kernel(int64_t n, const split_run *list, float scale, const float *s,
                             const __half *h, float *x) {
    const int64_t first = blockIdx.x * (int64_t)THREADS + threadIdx.x,
                  step = gridDim.x * (int64_t)THREADS;
    for (int64_t e = blockIdx.y; e < n; e += gridDim.y) {
        const split_run r = list[e];
        const int64_t at = -1 - r.kept;
        if (r.kept >= 0)
            for (int64_t i = first; i < r.count; i += step)
                x[r.at + i] = s[r.kept + i];
        else if (in_pairs(r, at))
            for (int64_t i = first; i < r.count / 2; i += step) {
                const float2 pair = __half22float2(((const __half2 *)(h + at))[i]);
                ((float2 *)(x + r.at))[i] = make_float2(scale * pair.x, scale * pair.y);
            }
        else
            for (int64_t i = first; i < r.count; i += step)
                x[r.at + i] = scale * __half2float(h[at + i]);
    }
}

/* A thread block for some runs, each cut into as many pieces as the longest one asks for. */
static dim3 grid_of_runs(int64_t n, int64_t most) {
    return dim3((unsigned)gpu_min(gpu_ceil(most, 64 * THREADS), 1024),
                (unsigned)gpu_min(n, MOST_BLOCKS));
}

static status narrow(backend_ctx *ctx, int64_t n, const split_run *list, int64_t most, int exponent,
                     const float *x, float *s, backend_f16 *h) {
    gpu_device_guard guard(ctx->device);
    if (n == 0 || most == 0)
        return MOAO_OK;
    narrow_kernel<<<grid_of_runs(n, most), THREADS, 0, ctx->main.stream>>>(
        n, list, ldexpf(1.0f, exponent), x, s, (__half *)h);
    LAUNCHED();
    return MOAO_OK;
}

static status widen(backend_ctx *ctx, int64_t n, const split_run *list, int64_t most, int exponent,
                    const float *s, const backend_f16 *h, float *x) {
    gpu_device_guard guard(ctx->device);
    if (n == 0 || most == 0)
        return MOAO_OK;
    widen_kernel<<<grid_of_runs(n, most), THREADS, 0, ctx->main.stream>>>(
        n, list, ldexpf(1.0f, -exponent), s, (const __half *)h, x);
    LAUNCHED();
    return MOAO_OK;
}

/* A warp takes a column. */
__global__ void squares_kernel(int64_t n, const split_part *list, const double *x, double *out) {
    const int lane = threadIdx.x % 32;
    for (int64_t e = blockIdx.y; e < n; e += gridDim.y) {
        const split_part b = list[e];
        for (int64_t j = blockIdx.x * 8 + threadIdx.x / 32; j < b.cols; j += gridDim.x * 8) {
            const double *from = x + b.from + j * b.ld;
            double sum = 0;
            for (int64_t i = lane; i < b.rows; i += 32)
                sum += from[i] * from[i];
            for (int d = 16; d > 0; d /= 2)
                sum += __shfl_xor_sync(0xffffffffu, sum, d);
            if (lane == 0)
                out[b.to + j] = sum;
        }
    }
}

static status squares(backend_ctx *ctx, int64_t n, const split_part *list, int64_t most,
                      const double *x, double *out) {
    gpu_device_guard guard(ctx->device);
    if (n == 0 || most == 0)
        return MOAO_OK;
    const dim3 grid((unsigned)gpu_min(gpu_ceil(most, 32), 1024), (unsigned)gpu_min(n, MOST_BLOCKS));
    squares_kernel<<<grid, THREADS, 0, ctx->main.stream>>>(n, list, x, out);
    LAUNCHED();
    return MOAO_OK;
}

const backend_split_ops backend_split_gpu = {
    .size = sizeof(backend_split_ops),
    .columns = columns,
    .blocks = blocks,
    .narrow = narrow,
    .widen = widen,
    .squares = squares,
    .exponent = split_exponent,
    .take = split_take,
    .pack = split_pack_columns,
    .sum = split_sum,
    .halve = split_halve,
};
