/* Sums of products of small matrices with blocks of rows of a few dense operands: one launch for
 * all sums of a level. Wide operands: tiles of the result by warps with 32 x 32 accumulators,
 * slices of both factors staged ahead, the slices of all terms of a sum one after another. Up to 16
 * columns: the factors are read once, by blocks of 32 rows whose warps share the inner sizes. */
#include "formats_gpu.h"
#include "gpu/batch/batch_gpu.h"
#include "gpu/batch/batch_tile.cuh"

namespace {
using batch::Acc;

constexpr int SLICE = 16, AHEAD = 4, LDK = SLICE + 4;

struct Operands {
    formats_operand x[FORMATS_OPERANDS];
};

template <class T> struct SumArgs {
    const formats_sum *sum;
    const formats_term *term;
    Operands x;
    T alpha, beta;
    T *y;
    int64_t ldy, nvec;
    int row_tiles, col_tiles;
};

/* ROWS x 16 of op(A) at row i0, inner index k0, to s[k LD + i]; zero outside. NT threads. */
template <class T, int ROWS, int NT>
__device__ inline void stage_factor(T *s, const formats_term &e, int i0, int rows, int k0) {
    constexpr int LD = ROWS + 4, V = 16 / sizeof(T);
    const T *a = (const T *)e.a;
    const int tid = threadIdx.x;
    if (!e.trans) {
        const T *p = a + i0 + (int64_t)k0 * e.lda;
        if (i0 + ROWS <= rows && k0 + SLICE <= e.k && (uintptr_t)p % 16 == 0 && e.lda % V == 0) {
#pragma unroll
            for (int q = tid; q < ROWS / V * SLICE; q += NT) {
                const int r = q % (ROWS / V) * V, k = q / (ROWS / V);
                batch::stage_wide(s + k * LD + r, p + r + (int64_t)k * e.lda);
            }
            return;
        }
#pragma unroll 4
        for (int q = tid; q < ROWS * SLICE; q += NT) {
            const int r = q % ROWS, k = q / ROWS;
            batch::stage(s + k * LD + r, p + r + (int64_t)k * e.lda, i0 + r < rows && k0 + k < e.k);
        }
        return;
    }
    const T *p = a + k0 + (int64_t)i0 * e.lda;
#pragma unroll 4
    for (int q = tid; q < ROWS * SLICE; q += NT) {
        const int k = q % SLICE, r = q / SLICE;
        batch::stage(s + k * LD + r, p + k + (int64_t)r * e.lda, i0 + r < rows && k0 + k < e.k);
    }
}

/* 16 x COLS of the operand: LEFT: to s[j LDK + k], else to s[k (COLS + 4) + j]. */
template <class T, bool LEFT, int COLS, int NT>
__device__ inline void stage_operand(T *s, const T *x, int64_t ld, int64_t row, int depth,
                                     int64_t j0, int64_t nvec) {
    constexpr int V = 16 / sizeof(T), LD = COLS + 4;
    const int tid = threadIdx.x;
    const T *p = LEFT ? x + row + j0 * ld : x + j0 + row * ld;
    const bool wide = depth >= SLICE && j0 + COLS <= nvec && (uintptr_t)p % 16 == 0 && ld % V == 0;
    if (LEFT) {
        if (wide) {
#pragma unroll
            for (int q = tid; q < COLS * SLICE / V; q += NT) {
                const int k = q % (SLICE / V) * V, j = q / (SLICE / V);
                batch::stage_wide(s + j * LDK + k, p + k + j * ld);
            }
            return;
        }
#pragma unroll 4
        for (int q = tid; q < COLS * SLICE; q += NT) {
            const int k = q % SLICE, j = q / SLICE;
            batch::stage(s + j * LDK + k, p + k + j * ld, k < depth && j0 + j < nvec);
        }
    } else {
        if (wide) {
#pragma unroll
            for (int q = tid; q < COLS * SLICE / V; q += NT) {
                const int j = q % (COLS / V) * V, k = q / (COLS / V);
                batch::stage_wide(s + k * LD + j, p + j + k * ld);
            }
            return;
        }
#pragma unroll 4
        for (int q = tid; q < COLS * SLICE; q += NT) {
            const int j = q % COLS, k = q / COLS;
            batch::stage(s + k * LD + j, p + j + k * ld, k < depth && j0 + j < nvec);
        }
    }
}

template <bool LEFT, int WM, int WN>
constexpr int stage_elements = SLICE *(32 * WM + 4) +
                               (LEFT ? 32 * WN * LDK : SLICE * (32 * WN + 4));

/* Where the stream of slices stands: term, and inner index in it. */
struct Place {
    int term, k;
    __device__ void next(const formats_term *t, int terms) {
        k += SLICE;
        skip(t, terms);
    }
    __device__ void skip(const formats_term *t, int terms) {
        while (term < terms && k >= t[term].k)
            term++, k = 0;
    }
};

template <class T, bool LEFT, int WM, int WN>
__global__ void __launch_bounds__(32 * WM * WN) wide_kernel(const __grid_constant__ SumArgs<T> a) {
    extern __shared__ __align__(16) unsigned char shared[];
    constexpr int TM = 32 * WM, TN = 32 * WN, NT = 32 * WM * WN,
                  STAGE = stage_elements<LEFT, WM, WN>;
    constexpr int PART = SLICE * (TM + 4);
    T *s = (T *)shared;
    const int tile = blockIdx.x % (a.row_tiles * a.col_tiles);
    const int i0 = tile % a.row_tiles * TM, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int64_t j0 = (int64_t)(tile / a.row_tiles) * TN;
    const formats_sum q = a.sum[blockIdx.x / (a.row_tiles * a.col_tiles)];
    batch::wait_for_predecessor();
    const int rows = q.m, terms = a.alpha == T(0) ? 0 : q.terms;
    if (i0 >= rows)
        return;
    const formats_term *t = a.term + q.first;
    Place in = {0, 0}, at = {0, 0};
    in.skip(t, terms), at = in;
    auto fetch = [&](int slot) {
        if (in.term < terms) {
            const formats_term e = t[in.term];
            T *buf = s + slot * STAGE;
            stage_factor<T, TM, NT>(buf, e, i0, rows, in.k);
            const formats_operand x = a.x.x[e.from];
            stage_operand<T, LEFT, TN, NT>(buf + PART, (const T *)x.p, x.ld, e.row + in.k,
                                           e.k - in.k, j0, a.nvec);
            in.next(t, terms);
        }
        stage_commit();
    };
    Acc<T> c;
    batch::acc_zero(c);
    const int wi = warp % WM * 32, wj = warp / WM * 32;
    const bool idle = i0 + wi >= rows || j0 + wj >= a.nvec;
#pragma unroll
    for (int u = 0; u < AHEAD - 1; u++)
        fetch(u);
    for (int u = 0; at.term < terms; u++, at.next(t, terms)) {
        stage_wait<AHEAD - 2>();
        __syncthreads();
        fetch((u + AHEAD - 1) % AHEAD);
        const T *sa = s + u % AHEAD * STAGE, *sb = sa + PART;
        if (!idle)
            c.mma(sa + wi, 1, TM + 4, LEFT ? sb + wj * LDK : sb + wj, LEFT ? 1 : TN + 4,
                  LEFT ? LDK : 1, SLICE, lane);
    }
    if (idle)
        return;
    const int64_t si = LEFT ? 1 : a.ldy, sj = LEFT ? a.ldy : 1;
    T *y = a.y + (q.row + i0 + wi) * si + (j0 + wj) * sj;
#pragma unroll
    for (int e = 0; e < 32; e++) {
        const int i = Acc<T>::row(e, lane), j = Acc<T>::col(e, lane);
        if (i0 + wi + i < rows && j0 + wj + j < a.nvec) {
            T *p = y + i * si + j * sj;
            *p = a.alpha * c.v[e] + (a.beta != T(0) ? a.beta * *p : T(0));
        }
    }
}

/* Up to N columns: 32 rows a block, its warps take every fourth chunk of 32 inner indices. */
constexpr int NARROW_WARPS = 4;
template <class T, bool LEFT, int N>
__global__ void __launch_bounds__(32 * NARROW_WARPS)
    narrow_kernel(const __grid_constant__ SumArgs<T> a) {
    __shared__ T s[NARROW_WARPS][32][33];
    __shared__ T xs[NARROW_WARPS][32][N];
    const int tile = blockIdx.x % a.row_tiles, i0 = tile * 32, warp = threadIdx.x / 32,
              lane = threadIdx.x % 32;
    const int64_t j0 = (int64_t)blockIdx.y * N;
    const formats_sum q = a.sum[blockIdx.x / a.row_tiles];
    batch::wait_for_predecessor();
    const int cols = a.nvec - j0 < N ? (int)(a.nvec - j0) : N;
    if (i0 >= q.m)
        return;
    T c[N];
#pragma unroll
    for (int j = 0; j < N; j++)
        c[j] = T(0);
    int turn = 0;
    for (int t = 0; t < q.terms && a.alpha != T(0); t++) {
        const formats_term e = a.term[q.first + t];
        const T *A = (const T *)e.a, *x = (const T *)a.x.x[e.from].p;
        const int64_t ld = a.x.x[e.from].ld;
        for (int k0 = 0; k0 < e.k; k0 += 32, turn++) {
            if (turn % NARROW_WARPS != warp)
                continue;
            T v[32];
            if (e.trans) {
#pragma unroll
                for (int i = 0; i < 32; i++)
                    v[i] = i0 + i < q.m && k0 + lane < e.k
                               ? A[k0 + lane + (int64_t)(i0 + i) * e.lda]
                               : T(0);
#pragma unroll
                for (int i = 0; i < 32; i++)
                    s[warp][i][lane] = v[i];
            } else {
#pragma unroll
                for (int k = 0; k < 32; k++)
                    v[k] = i0 + lane < q.m && k0 + k < e.k
                               ? A[i0 + lane + (int64_t)(k0 + k) * e.lda]
                               : T(0);
            }
            for (int u = lane; u < 32 * N; u += 32) {
                const int k = LEFT ? u % 32 : u / N, j = LEFT ? u / 32 : u % N;
                xs[warp][k][j] =
                    k0 + k < e.k && j < cols
                        ? x[LEFT ? e.row + k0 + k + (j0 + j) * ld : (e.row + k0 + k) * ld + j0 + j]
                        : T(0);
            }
            __syncwarp();
            if (e.trans) {
#pragma unroll
                for (int k = 0; k < 32; k++)
                    v[k] = s[warp][lane][k];
            }
#pragma unroll
            for (int k = 0; k < 32; k++)
#pragma unroll
                for (int j = 0; j < N; j++)
                    c[j] += v[k] * xs[warp][k][j];
            __syncwarp();
        }
    }
#pragma unroll
    for (int j = 0; j < N; j++) {
        s[warp][lane][j % 32] = c[j];
    }
    __syncthreads();
    for (int u = threadIdx.x; u < 32 * N; u += blockDim.x) {
        const int i = u % 32, j = u / 32;
        if (i0 + i >= q.m || j >= cols)
            continue;
        T sum = T(0);
#pragma unroll
        for (int w = 0; w < NARROW_WARPS; w++)
            sum += s[w][i][j];
        T *p = a.y + (LEFT ? q.row + i0 + i + (j0 + j) * a.ldy : (q.row + i0 + i) * a.ldy + j0 + j);
        *p = a.alpha * sum + (a.beta != T(0) ? a.beta * *p : T(0));
    }
}

/* A launch whose blocks may be put in place while the launch before it ends. */
template <class T>
status start(void (*kernel)(const SumArgs<T>), dim3 grid, int threads, size_t bytes, cudaStream_t s,
             const SumArgs<T> &a) {
    if (bytes > 48 << 10)
        CUDA_TRY(
            cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes));
    cudaLaunchAttribute early = {};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = grid, config.blockDim = dim3((unsigned)threads), config.stream = s;
    config.dynamicSmemBytes = bytes, config.attrs = &early, config.numAttrs = 1;
    CUDA_TRY(cudaLaunchKernelEx(&config, kernel, a));
    return MOAO_OK;
}

template <class T, bool LEFT, int WM, int WN>
status wide(SumArgs<T> a, int64_t count, int64_t most, cudaStream_t s) {
    const int64_t rows = (most + 32 * WM - 1) / (32 * WM),
                  cols = (a.nvec + 32 * WN - 1) / (32 * WN);
    a.row_tiles = (int)rows, a.col_tiles = (int)cols;
    if (count * rows * cols > INT32_MAX)
        return status_fail(MOAO_INPUT, "sums of a format: more than 2^31 - 1 tiles in one call");
    return start<T>(wide_kernel<T, LEFT, WM, WN>, dim3((unsigned)(count * rows * cols)),
                    32 * WM * WN, sizeof(T) * AHEAD * stage_elements<LEFT, WM, WN>, s, a);
}

template <class T, bool LEFT, int N>
status narrow(SumArgs<T> a, int64_t count, int64_t most, cudaStream_t s) {
    const int64_t rows = (most + 31) / 32;
    a.row_tiles = (int)rows, a.col_tiles = 1;
    return start<T>(narrow_kernel<T, LEFT, N>,
                    dim3((unsigned)(count * rows), (unsigned)((a.nvec + N - 1) / N)),
                    32 * NARROW_WARPS, 0, s, a);
}

template <class T, bool LEFT>
status pick(const SumArgs<T> &a, int64_t count, int64_t most, cudaStream_t s) {
    if (a.nvec == 1)
        return narrow<T, LEFT, 1>(a, count, most, s);
    if (a.nvec <= 4)
        return narrow<T, LEFT, 4>(a, count, most, s);
    if (a.nvec <= 16)
        return narrow<T, LEFT, 8>(a, count, most, s);
    if (most <= 32)
        return a.nvec <= 64 ? wide<T, LEFT, 1, 2>(a, count, most, s)
                            : wide<T, LEFT, 1, 4>(a, count, most, s);
    if (most <= 64)
        return a.nvec <= 64 ? wide<T, LEFT, 2, 2>(a, count, most, s)
                            : wide<T, LEFT, 2, 4>(a, count, most, s);
    return a.nvec <= 64 ? wide<T, LEFT, 4, 2>(a, count, most, s)
                        : wide<T, LEFT, 4, 4>(a, count, most, s);
}

template <class T>
status run(cudaStream_t stream, bool left, const formats_sums *s, int64_t nvec, double alpha,
           const formats_operand *x, double beta, void *y, int64_t ldy) {
    SumArgs<T> a = {s->sum, s->term, {}, (T)alpha, (T)beta, (T *)y, ldy, nvec, 0, 0};
    for (int i = 0; i < FORMATS_OPERANDS; i++)
        a.x.x[i] = x[i];
    return left ? pick<T, true>(a, s->count, s->most, stream)
                : pick<T, false>(a, s->count, s->most, stream);
}
} // namespace

status gpu_formats_sums(backend_ctx *ctx, backend_type t, char side, const formats_sums *s,
                        int64_t nvec, double alpha, const formats_operand x[FORMATS_OPERANDS],
                        double beta, void *y, int64_t ldy) {
    if (s->count == 0 || s->most == 0 || nvec == 0)
        return MOAO_OK;
    gpu_batch_call call(ctx);
    return t == BACKEND_D ? run<double>(call.stream, side == 'L', s, nvec, alpha, x, beta, y, ldy)
                          : run<float>(call.stream, side == 'L', s, nvec, alpha, x, beta, y, ldy);
}
