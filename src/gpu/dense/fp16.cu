/* Products of FP16 numbers on the tensor cores, by cuBLAS, and the conversions around them. */
#include "fp16_gpu.h"
#include "gpu/core/common.cuh"
#include "moao/backend_fp16.h"
#include <cuda_fp16.h>
#include <float.h>
#include <limits.h>
#include <math.h>

#define THREADS 256
#define SQUARES 32
#define MOST_BLOCKS 65535

/* Threads along the rows; blocks that run out of columns take another one. */
static dim3 blocks_of(int64_t m, int64_t n) {
    return dim3((unsigned)gpu_min(gpu_ceil(m, THREADS), MOST_BLOCKS),
                (unsigned)gpu_min(n, MOST_BLOCKS));
}

#define EACH(i, j, m, n)                                                                           \
    for (int64_t j = blockIdx.y; j < n; j += gridDim.y)                                            \
        for (int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x; i < m;                       \
             i += gridDim.x * (int64_t)THREADS)

/* Doubles that are not negative are in the order of their bits, and a NaN comes last. Columns are
 * dealt out to the blocks, each of which has one word for `out` in the end. */
template <class T>
__global__ void max_abs_kernel(int64_t m, int64_t n, const T *a, int64_t lda,
                               unsigned long long *out) {
    __shared__ unsigned long long part[THREADS / 32];
    unsigned long long most = 0;
    for (int64_t j = blockIdx.x; j < n; j += gridDim.x)
        for (int64_t i = threadIdx.x; i < m; i += THREADS) {
            const unsigned long long x = __double_as_longlong(fabs((double)a[i + j * lda]));
            most = x > most ? x : most;
        }
    for (int step = 16; step > 0; step /= 2) {
        const unsigned long long x = __shfl_xor_sync(~0u, most, step);
        most = x > most ? x : most;
    }
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = most;
    __syncthreads();
    for (int i = 0; threadIdx.x == 0 && i < THREADS / 32; i++)
        most = part[i] > most ? part[i] : most;
    if (threadIdx.x == 0 && most > 0)
        atomicMax(out, most);
}

template <class T>
__global__ void cast_to_fp16_kernel(int64_t m, int64_t n, double scale, const T *a, int64_t lda,
                                    __half *h, int64_t ldh) {
    EACH(i, j, m, n) {
        const double x = scale * (double)a[i + j * lda];
        /* the library's conversion keeps no NaN's bits apart: make them the CPU's */
        h[i + j * ldh] = isnan(x) ? __ushort_as_half(0x7fff) : __double2half(x);
    }
}

template <class T>
__global__ void split_kernel(bool lower, int64_t m, int64_t n, double scale, const T *a,
                             int64_t lda, __half *h, int64_t ldh, __half *r, int64_t ldr) {
    const __half nan = __ushort_as_half(0x7fff);
    EACH(i, j, m, n) {
        const double x = !lower || i >= j ? scale * (double)a[i + j * lda] : 0;
        const __half top = isnan(x) ? nan : __double2half(x);
        const double rest = x - (double)__half2float(top);
        h[i + j * ldh] = top;
        r[i + j * ldr] = isnan(rest) ? nan : __double2half(rest);
    }
}

/* The half of `scale` a, and what it leaves: exact in single precision, where beyond its range a
 * number that is finite stays so. */
__device__ inline __half top_fp16(float a, float scale, __half *rest) {
    const __half nan = __ushort_as_half(0x7fff);
    float x = scale * a;
    x = isinf(x) && !isinf(a) ? copysignf(FLT_MAX, x) : x;
    const __half top = isnan(x) ? nan : __float2half_rn(x);
    const float left = x - __half2float(top);
    *rest = isnan(left) ? nan : __float2half_rn(left);
    return top;
}

__device__ inline unsigned two(__half a, __half b) {
    return __half_as_ushort(a) | (unsigned)__half_as_ushort(b) << 16;
}

/* Four rows a thread, of single precision; REST: to r too, else h alone. */
template <bool REST>
__global__ void fours_kernel(int64_t fours, int64_t n, float scale, const float *a, int64_t lda,
                             __half *h, int64_t ldh, __half *r, int64_t ldr) {
    EACH(i, j, fours, n) {
        const float4 x = *(const float4 *)(a + 4 * i + j * lda);
        __half top[4], rest[4];
        top[0] = top_fp16(x.x, scale, &rest[0]), top[1] = top_fp16(x.y, scale, &rest[1]);
        top[2] = top_fp16(x.z, scale, &rest[2]), top[3] = top_fp16(x.w, scale, &rest[3]);
        *(uint2 *)(h + 4 * i + j * ldh) = make_uint2(two(top[0], top[1]), two(top[2], top[3]));
        if (REST)
            *(uint2 *)(r + 4 * i + j * ldr) =
                make_uint2(two(rest[0], rest[1]), two(rest[2], rest[3]));
    }
}

/* Whether four rows at a time can be read and written at once. */
static bool in_fours(backend_type t, int exponent, int64_t m, const void *a, int64_t lda,
                     const backend_f16 *h, int64_t ldh) {
    return t == BACKEND_S && exponent >= -120 && exponent <= 120 && m % 4 == 0 && lda % 4 == 0 &&
           ldh % 4 == 0 && (uintptr_t)a % 16 == 0 && (uintptr_t)h % 8 == 0;
}

__global__ void join_kernel(int64_t m, int64_t n, double scale, const __half *h, int64_t ldh,
                            const __half *r, int64_t ldr, double *y, int64_t ldy) {
    EACH(i, j, m, n)
    y[i + j * ldy] =
        scale * ((double)__half2float(h[i + j * ldh]) + (double)__half2float(r[i + j * ldr]));
}

/* A block of SQUARES x SQUARES threads for each tile: four rows of a column at a time, so that a
 * few tiles keep the memory busy, then over the threads as a tree. */
template <class T>
__global__ void squares_kernel(int64_t m, int64_t n, const T *a, int64_t lda, int64_t tile,
                               double *out, int64_t ldo) {
    __shared__ double part[SQUARES * SQUARES];
    const int64_t i0 = blockIdx.x * tile, j0 = blockIdx.y * tile;
    const int64_t i1 = i0 + tile < m ? i0 + tile : m, j1 = j0 + tile < n ? j0 + tile : n;
    const int me = threadIdx.x + SQUARES * threadIdx.y;
    double sum[4] = {0, 0, 0, 0};
    for (int64_t j = j0 + threadIdx.y; j < j1; j += SQUARES)
        for (int64_t i = i0 + threadIdx.x; i < i1; i += 4 * SQUARES) {
            T x[4];
#pragma unroll
            for (int k = 0; k < 4; k++)
                x[k] = i + k * SQUARES < i1 ? a[i + k * SQUARES + j * lda] : T(0);
#pragma unroll
            for (int k = 0; k < 4; k++)
                sum[k] += (double)x[k] * (double)x[k];
        }
    part[me] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    for (int step = SQUARES * SQUARES / 2; step > 0; step /= 2) {
        __syncthreads();
        if (me < step)
            part[me] += part[me + step];
    }
    if (me == 0)
        out[blockIdx.x + blockIdx.y * ldo] = part[0];
}

__global__ void cast_to_double_kernel(int64_t m, int64_t n, double alpha, const float *x,
                                      int64_t ldx, double beta, double *y, int64_t ldy) {
    EACH(i, j, m, n) {
        const double before = beta != 0 ? beta * y[i + j * ldy] : 0;
        y[i + j * ldy] = __dadd_rn(__dmul_rn(alpha, (double)x[i + j * ldx]), before);
    }
}

/* Pieces of a launch, by value: no list has to travel to the device. A block has WIDENED numbers of
 * one of them; first[k]: of its blocks. */
#define PIECES 100
#define WIDENED (16 * THREADS)
struct pieces_of_launch {
    fp16_piece piece[PIECES];
    int first[PIECES], count;
};

__global__ void widen_kernel(const __grid_constant__ pieces_of_launch s) {
    int k = 0;
    for (int step = 64; step > 0; step /= 2) /* the last one that begins before this block */
        if (k + step < s.count && s.first[k + step] <= (int)blockIdx.x)
            k += step;
    const int64_t from = (blockIdx.x - s.first[k]) * (int64_t)WIDENED + threadIdx.x;
    const float *x = s.piece[k].x + from;
    double *y = s.piece[k].y + from;
    const int64_t left = s.piece[k].n - from;
    if (left > WIDENED - THREADS) {
        float v[WIDENED / THREADS];
#pragma unroll
        for (int i = 0; i < WIDENED / THREADS; i++)
            v[i] = x[i * THREADS];
#pragma unroll
        for (int i = 0; i < WIDENED / THREADS; i++)
            y[i * THREADS] = (double)v[i];
        return;
    }
    for (int i = 0; i < left; i += THREADS)
        y[i] = (double)x[i];
}

__global__ void cast_to_single_kernel(int64_t m, int64_t n, const double *x, int64_t ldx, float *y,
                                      int64_t ldy) {
    EACH(i, j, m, n)
    y[i + j * ldy] = (float)x[i + j * ldx];
}

static status max_abs(backend_ctx *ctx, backend_type t, int64_t m, int64_t n, const void *a,
                      int64_t lda, double *out) {
    gpu_device_guard guard(ctx->device);
    CUDA_TRY(cudaMemsetAsync(out, 0, sizeof *out, ctx->main.stream));
    if (m == 0 || n == 0)
        return MOAO_OK;
    const unsigned blocks = (unsigned)gpu_min(n, 8 * ctx->sms);
    if (t == BACKEND_D)
        max_abs_kernel<<<blocks, THREADS, 0, ctx->main.stream>>>(m, n, (const double *)a, lda,
                                                                 (unsigned long long *)out);
    else
        max_abs_kernel<<<blocks, THREADS, 0, ctx->main.stream>>>(m, n, (const float *)a, lda,
                                                                 (unsigned long long *)out);
    LAUNCHED();
    return MOAO_OK;
}

static status cast_to_fp16(backend_ctx *ctx, backend_type t, int64_t m, int64_t n, int exponent,
                           const void *a, int64_t lda, backend_f16 *h, int64_t ldh) {
    gpu_device_guard guard(ctx->device);
    if (m == 0 || n == 0)
        return MOAO_OK;
    const double scale = ldexp(1.0, exponent);
    if (in_fours(t, exponent, m, a, lda, h, ldh))
        fours_kernel<false><<<blocks_of(m / 4, n), THREADS, 0, ctx->main.stream>>>(
            m / 4, n, (float)scale, (const float *)a, lda, (__half *)h, ldh, NULL, 0);
    else if (t == BACKEND_D)
        cast_to_fp16_kernel<<<blocks_of(m, n), THREADS, 0, ctx->main.stream>>>(
            m, n, scale, (const double *)a, lda, (__half *)h, ldh);
    else
        cast_to_fp16_kernel<<<blocks_of(m, n), THREADS, 0, ctx->main.stream>>>(
            m, n, scale, (const float *)a, lda, (__half *)h, ldh);
    LAUNCHED();
    return MOAO_OK;
}

static status gemm(backend_ctx *ctx, char ta, char tb, int64_t m, int64_t n, int64_t k, float alpha,
                   const backend_f16 *a, int64_t lda, const backend_f16 *b, int64_t ldb, float beta,
                   float *c, int64_t ldc) {
    gpu_device_guard guard(ctx->device);
    if (m == 0 || n == 0)
        return MOAO_OK;
    if (k == 0 || alpha == 0) { /* C := beta C, which the single precision product does alone */
        const float none = 0;
        return blas_gemm(&ctx->main, BACKEND_S, 'N', 'N', m, n, 0, &none, c, ldc, c, 1, &beta, c,
                         ldc);
    }
    BLAS_TRY(cublasGemmEx_64(ctx->main.blas, ta == 'N' ? CUBLAS_OP_N : CUBLAS_OP_T,
                             tb == 'N' ? CUBLAS_OP_N : CUBLAS_OP_T, m, n, k, &alpha, a, CUDA_R_16F,
                             lda, b, CUDA_R_16F, ldb, &beta, c, CUDA_R_32F, ldc, CUBLAS_COMPUTE_32F,
                             CUBLAS_GEMM_DEFAULT));
    return MOAO_OK;
}

static status cast_to_double(backend_ctx *ctx, int64_t m, int64_t n, double alpha, const float *x,
                             int64_t ldx, double beta, double *y, int64_t ldy) {
    gpu_device_guard guard(ctx->device);
    if (m == 0 || n == 0)
        return MOAO_OK;
    cast_to_double_kernel<<<blocks_of(m, n), THREADS, 0, ctx->main.stream>>>(m, n, alpha, x, ldx,
                                                                             beta, y, ldy);
    LAUNCHED();
    return MOAO_OK;
}

static status launch_pieces(backend_ctx *ctx, pieces_of_launch *s, int64_t blocks) {
    if (blocks > 0)
        widen_kernel<<<(unsigned)blocks, THREADS, 0, ctx->main.stream>>>(*s);
    s->count = 0;
    LAUNCHED();
    return MOAO_OK;
}

static status cast_pieces(backend_ctx *ctx, int64_t count, const fp16_piece *p) {
    gpu_device_guard guard(ctx->device);
    pieces_of_launch s;
    int64_t blocks = 0;
    s.count = 0;
    for (int64_t k = 0; k < count; k++) {
        const int64_t more = gpu_ceil(p[k].n, WIDENED);
        if (more == 0)
            continue;
        if (s.count == PIECES || blocks + more > INT_MAX) {
            GPU_TRY(launch_pieces(ctx, &s, blocks));
            blocks = 0;
        }
        s.piece[s.count] = p[k];
        s.first[s.count++] = (int)blocks;
        blocks += more;
    }
    return launch_pieces(ctx, &s, blocks);
}

static status cast_to_single(backend_ctx *ctx, int64_t m, int64_t n, const double *x, int64_t ldx,
                             float *y, int64_t ldy) {
    gpu_device_guard guard(ctx->device);
    if (m == 0 || n == 0)
        return MOAO_OK;
    cast_to_single_kernel<<<blocks_of(m, n), THREADS, 0, ctx->main.stream>>>(m, n, x, ldx, y, ldy);
    LAUNCHED();
    return MOAO_OK;
}

static status split(backend_ctx *ctx, backend_type t, char part, int64_t m, int64_t n, int exponent,
                    const void *a, int64_t lda, backend_f16 *h, int64_t ldh, backend_f16 *r,
                    int64_t ldr) {
    gpu_device_guard guard(ctx->device);
    if (m == 0 || n == 0)
        return MOAO_OK;
    const double scale = ldexp(1.0, exponent);
    if (part == 'A' && in_fours(t, exponent, m, a, lda, h, ldh) &&
        in_fours(t, exponent, m, a, lda, r, ldr))
        fours_kernel<true><<<blocks_of(m / 4, n), THREADS, 0, ctx->main.stream>>>(
            m / 4, n, (float)scale, (const float *)a, lda, (__half *)h, ldh, (__half *)r, ldr);
    else if (t == BACKEND_D)
        split_kernel<<<blocks_of(m, n), THREADS, 0, ctx->main.stream>>>(
            part == 'L', m, n, scale, (const double *)a, lda, (__half *)h, ldh, (__half *)r, ldr);
    else
        split_kernel<<<blocks_of(m, n), THREADS, 0, ctx->main.stream>>>(
            part == 'L', m, n, scale, (const float *)a, lda, (__half *)h, ldh, (__half *)r, ldr);
    LAUNCHED();
    return MOAO_OK;
}

static status join(backend_ctx *ctx, int64_t m, int64_t n, int exponent, const backend_f16 *h,
                   int64_t ldh, const backend_f16 *r, int64_t ldr, double *y, int64_t ldy) {
    gpu_device_guard guard(ctx->device);
    if (m == 0 || n == 0)
        return MOAO_OK;
    join_kernel<<<blocks_of(m, n), THREADS, 0, ctx->main.stream>>>(
        m, n, ldexp(1.0, -exponent), (const __half *)h, ldh, (const __half *)r, ldr, y, ldy);
    LAUNCHED();
    return MOAO_OK;
}

static status squares(backend_ctx *ctx, backend_type t, int64_t m, int64_t n, const void *a,
                      int64_t lda, int64_t tile, double *out, int64_t ldo) {
    gpu_device_guard guard(ctx->device);
    if (m == 0 || n == 0)
        return MOAO_OK;
    const dim3 blocks((unsigned)gpu_ceil(m, tile), (unsigned)gpu_ceil(n, tile));
    const dim3 threads(SQUARES, SQUARES);
    if (t == BACKEND_D)
        squares_kernel<<<blocks, threads, 0, ctx->main.stream>>>(m, n, (const double *)a, lda, tile,
                                                                 out, ldo);
    else
        squares_kernel<<<blocks, threads, 0, ctx->main.stream>>>(m, n, (const float *)a, lda, tile,
                                                                 out, ldo);
    LAUNCHED();
    return MOAO_OK;
}

const backend_fp16 backend_fp16_gpu = {
    .size = sizeof(backend_fp16),
    .max_abs = max_abs,
    .cast_to_fp16 = cast_to_fp16,
    .gemm = gemm,
    .gemm_rounded = fp16_gemm_rounded,
    .cast_to_double = cast_to_double,
    .cast_to_single = cast_to_single,
    .split = split,
    .join = join,
    .squares = squares,
    .cast_pieces = cast_pieces,
};
