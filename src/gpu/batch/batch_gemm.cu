/* Batched C := beta C + alpha A B on 64 x 64 tiles: gemm, the large steps of the recursion, and
 * syrk above 32; syrk and trmm of order 33 to 64. One block a tile: 4 warps with 32 x 32
 * accumulators, slices of A and B staged ahead in four buffers. */
#include "batch_gpu.h"
#include "batch_warp.cuh"

namespace batch {

namespace {
constexpr int TILE = 64, SLICE = 16, GLD = TILE + 4, STAGE = SLICE * GLD, AHEAD = 4;

/* A slice of 64 x 32: element (r0 + r, k0 + k) of `a` to s[k GLD + r], zero outside; each warp
 * moves its share, N rows or columns apart by 4. */
template <class T>
__device__ inline void slice_stage(T *s, const Ref<T> &a, int r0, int k0, int rows, int depth,
                                   bool wide, int warp, int lane) {
    const bool full = r0 + TILE <= rows && k0 + SLICE <= depth;
    if (full && wide) {
        constexpr int V = 16 / sizeof(T), LANES = TILE / V, STEP = 128 / LANES;
        const int tid = 32 * warp + lane, r = tid % LANES * V, k = tid / LANES;
        const T *p = a.at(r0 + r, k0 + k);
        T *q = s + k * GLD + r;
#pragma unroll
        for (int u = 0; u < SLICE; u += STEP)
            stage_wide(q + u * GLD, p + u * a.sj);
    } else if (a.along_i) {
        const T *p = a.at(r0 + lane, k0 + warp);
        const int64_t step = 4 * a.sj, far = 32 * a.si;
        T *q = s + warp * GLD + lane;
        if (full) {
#pragma unroll
            for (int k = 0; k < SLICE; k += 4, p += step) {
                stage(q + k * GLD, p);
                stage(q + k * GLD + 32, p + far);
            }
        } else {
            for (int k = k0 + warp; k < k0 + SLICE; k += 4, p += step, q += 4 * GLD) {
                stage(q, p, r0 + lane < rows && k < depth);
                stage(q + 32, p + far, r0 + lane + 32 < rows && k < depth);
            }
        }
    } else { /* a half warp takes the 16 elements of one row */
        const int r1 = 2 * warp + lane / SLICE, k = lane % SLICE;
        const T *p = a.at(r0 + r1, k0 + k);
        const int64_t step = 8 * a.si;
        T *q = s + k * GLD + r1;
        if (full) {
#pragma unroll
            for (int r = 0; r < TILE; r += 8, p += step)
                stage(q + r, p);
        } else {
            for (int r = r0 + r1; r < r0 + TILE; r += 8, p += step, q += 8)
                stage(q, p, r < rows && k0 + k < depth);
        }
    }
}

template <class T> __device__ inline Ref<T> flipped(const Ref<T> &r) {
    Ref<T> f = {r.p, r.sj, r.si, !r.along_i};
    return f;
}

/* The 32 x 32 block at (i1, j1) of C from one warp's accumulator; BETA: C is added to. */
template <bool BETA, class T>
__device__ inline void block_write(const Ref<T> &C, const Acc<T> &c, T alpha, T beta, bool lower,
                                   int i1, int j1, int m, int n, int lane) {
    const bool inside = i1 + 32 <= m && j1 + 32 <= n && !(lower && i1 == j1);
    i1 += c.row(0, lane), j1 += c.col(0, lane);
    T *p = C.at(i1, j1);
#pragma unroll
    for (int e = 0; e < 32; e++) {
        const int di = c.row(e, 0), dj = c.col(e, 0);
        T *pe = p + di * C.si + dj * C.sj;
        if (inside || (i1 + di < m && j1 + dj < n && (!lower || i1 + di >= j1 + dj)))
            *pe = alpha * c.v[e] + (BETA ? beta * *pe : T(0));
    }
}

template <class T, bool BETA>
__global__ void __launch_bounds__(128, 3)
    gemm_kernel(const __grid_constant__ GemmArgs<T> a, int tiles, int rows_of_tiles) {
    extern __shared__ __align__(16) unsigned char shared[];
    T *s = (T *)shared;
    const int64_t b = blockIdx.x / tiles;
    const int tile = (int)(blockIdx.x % tiles);
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    wait_for_predecessor();
    const int m = dim_part(a.m, b), n = dim_part(a.n, b), depth = dim_part(a.k, b);
    int ti, tj;
    if (a.lower) { /* tiles of the lower triangle, row by row */
        ti = (int)((sqrtf(8.0f * (float)tile + 1.0f) - 1.0f) / 2.0f);
        tj = tile - ti * (ti + 1) / 2;
    } else {
        ti = tile % rows_of_tiles;
        tj = tile / rows_of_tiles;
    }
    const int i0 = ti * TILE, j0 = tj * TILE;
    if (i0 >= m || j0 >= n || !dim_valid(a.k, b) || (a.skip && a.skip[b]))
        return;
    const Ref<T> A = resolve(a.A, b, dim_full(a.m, b), dim_full(a.k, b));
    const Ref<T> B = flipped(resolve(a.B, b, dim_full(a.k, b), dim_full(a.n, b)));
    const Ref<T> C = resolve(a.C, b, dim_full(a.m, b), dim_full(a.n, b));
    const bool same = a.same && ti == tj;
    const int slices = a.alpha == T(0) ? 0 : (depth + SLICE - 1) / SLICE;

    const bool wide_a = is_wide(A), wide_b = is_wide(B);
    auto fetch = [&](int q) {
        T *buf = s + q % AHEAD * 2 * STAGE;
        if (q < slices) {
            slice_stage(buf, A, i0, q * SLICE, m, depth, wide_a, warp, lane);
            if (!same)
                slice_stage(buf + STAGE, B, j0, q * SLICE, n, depth, wide_b, warp, lane);
        }
        stage_commit();
    };
    Acc<T> c;
    acc_zero(c);
    const int wi = (warp & 1) * 32, wj = (warp >> 1) * 32;
    const bool idle = i0 + wi >= m || j0 + wj >= n || (a.lower && ti == tj && wj > wi);
    for (int q = 0; q < AHEAD - 1; q++)
        fetch(q);
    if (BETA) /* C is read at the end only: have it in the L2 cache by then */
        for (int e = threadIdx.x; e < TILE * 4; e += blockDim.x) {
            const int line = e / 4, part = e % 4 * (TILE / 4);
            const int i = i0 + (C.along_i ? part : line), j = j0 + (C.along_i ? line : part);
            if (i < m && j < n)
                asm volatile("prefetch.global.L2 [%0];" ::"l"(C.at(i, j)));
        }
    for (int q = 0; q < slices; q++) {
        stage_wait<AHEAD - 2>();
        __syncthreads(); /* slice q is there, and the buffer of slice q - 1 is free */
        fetch(q + AHEAD - 1);
        const T *sa = s + q % AHEAD * 2 * STAGE, *sb = same ? sa : sa + STAGE;
        if (!idle)
            c.mma(sa + wi, 1, GLD, sb + wj, GLD, 1, SLICE, lane);
    }
    if (idle)
        return;
    block_write<BETA>(C, c, a.alpha, a.beta, a.lower, i0 + wi, j0 + wj, m, n, lane);
}

template <class T> status gemm_start(const GemmArgs<T> &a, cudaStream_t s) {
    int64_t m = a.m.n < a.m.cap ? a.m.n : a.m.cap, n = a.n.n < a.n.cap ? a.n.n : a.n.cap;
    int64_t rows = (m + TILE - 1) / TILE, cols = (n + TILE - 1) / TILE;
    int64_t tiles = a.lower ? rows * (rows + 1) / 2 : rows * cols;
    if (a.count * tiles > INT32_MAX)
        return gpu_too_many_blocks();
    return launch(a.beta != T(0) ? gemm_kernel<T, true> : gemm_kernel<T, false>,
                  dim3((unsigned)(a.count * tiles)), 128, sizeof(T) * 2 * AHEAD * STAGE, s, a,
                  (int)tiles, (int)rows);
}

/* C := beta C + alpha A A^T, lower, order up to 64: one block a matrix, one warp a 32 x 32 block
 * of C, so that A passes through shared memory once; 32 columns at a time. */
struct Rank {
    static constexpr int NB = 2, WARPS = NB * (NB + 1) / 2, LD = 32 * NB + 4, DEPTH = 32,
                         STAGE = DEPTH * LD, AHEAD = 2;
};
template <class T> constexpr int RANK_BLOCKS = sizeof(T) == 8 ? 4 : 5;

template <class T>
__device__ inline void rank_stage(T *s, const Ref<T> &A, int k0, int rows, int depth, int warp,
                                  int lane) {
    using R = Rank;
    constexpr int V = 16 / sizeof(T), LANES = 32 * R::NB / V;
    if (k0 + R::DEPTH <= depth && 32 * R::NB <= rows && is_wide(A)) {
        for (int q = 32 * warp + lane; q < LANES * R::DEPTH; q += 32 * R::WARPS)
            stage_wide(s + q / LANES * R::LD + q % LANES * V, A.at(q % LANES * V, k0 + q / LANES));
        return;
    }
    for (int q = warp; q < R::NB * R::DEPTH; q += R::WARPS) {
        const int i = A.along_i ? q % R::NB * 32 + lane : q, k = A.along_i ? q / R::NB : lane;
        stage(s + k * R::LD + i, A.at(i, k0 + k), i < rows && k0 + k < depth);
    }
}

template <class T, bool BETA>
__global__ void __launch_bounds__(32 * Rank::WARPS, RANK_BLOCKS<T>)
    rank_kernel(const __grid_constant__ GemmArgs<T> a, int early) {
    extern __shared__ __align__(16) unsigned char shared[];
    using R = Rank;
    T *s = (T *)shared;
    const int64_t b = blockIdx.x;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if ((int)blockIdx.x < early)
        prefetch_operand<T, 64>(a.A, a.m, a.k, b, a.count, threadIdx.x, blockDim.x);
    wait_for_predecessor();
    const int n = dim_part(a.m, b), depth = dim_part(a.k, b);
    if (n == 0 || !dim_valid(a.k, b) || (a.skip && a.skip[b]))
        return;
    const Ref<T> A = resolve(a.A, b, dim_full(a.m, b), dim_full(a.k, b));
    const Ref<T> C = resolve(a.C, b, dim_full(a.m, b), dim_full(a.m, b));
    int i = 0, j = warp;
    while (j > i)
        j -= ++i;
    const int i1 = 32 * i, j1 = 32 * j, slices = (depth + R::DEPTH - 1) / R::DEPTH;
    auto fetch = [&](int q) {
        if (q < slices)
            rank_stage(s + q % R::AHEAD * R::STAGE, A, q * R::DEPTH, n, depth, warp, lane);
        stage_commit();
    };
    Acc<T> c;
    acc_zero(c);
    for (int q = 0; q < R::AHEAD; q++)
        fetch(q);
    if (sizeof(T) == 4 && !BETA) /* columns of the result begin inside sectors, which cost less to
                                    write when they are in the L2 cache (FP64: no gain) */
        for (int j = threadIdx.x; j < n; j += blockDim.x)
            prefetch(C.at(j, j));
    for (int q = 0; q < slices; q++) {
        stage_wait<R::AHEAD - 1>();
        __syncthreads();
        const T *p = s + q % R::AHEAD * R::STAGE;
        if (i == j)
            c.template mma_part<LOWER_ONLY>(p + i1, 1, R::LD, p + i1, R::LD, 1, lane);
        else if (i1 < n)
            c.mma(p + i1, 1, R::LD, p + j1, R::LD, 1, R::DEPTH, lane);
        if (q + R::AHEAD < slices) {
            __syncthreads();
            fetch(q + R::AHEAD);
        } else {
            stage_commit();
        }
    }
    if (i1 < n)
        block_write<BETA>(C, c, a.alpha, a.beta, true, i1, j1, n, n, lane);
}

template <class T> status rank_start(const GemmArgs<T> &a, cudaStream_t s) {
    using R = Rank;
    return launch(a.beta != T(0) ? rank_kernel<T, true> : rank_kernel<T, false>,
                  dim3((unsigned)a.count), 32 * R::WARPS, sizeof(T) * R::AHEAD * R::STAGE, s, a,
                  resident(RANK_BLOCKS<T>));
}

/* B := alpha A B in place, A lower triangular of order 33 to 64, FP64: a thread block takes 64
 * columns of B, one warp a 32 x 32 block of the result. The first 32 columns of A and rows of B
 * come first; when they are there, the upper half of the result replaces those rows. */
struct Quarters {
    static constexpr int LD = 36, TILE = 32 * LD, BLOCKS = 3;
};

/* The block at (i, j) of a triangle, by one warp; zero above the diagonal. */
__device__ inline void quarter_stage(double *s, const Ref<double> &A, int i, int j, int n,
                                     bool unit, int lane) {
    constexpr int LD = Quarters::LD;
    if (i != j) {
        tile_stage<double, 32, LD, false, false>(s, A, A.at(i, j), n - i, n - j, false, lane);
        return;
    }
    tile_stage<double, 32, LD, true, true>(s, A, A.at(i, i), n - i, n - i, unit, lane);
    if (unit)
        s[lane * (LD + 1)] = 1.0;
}

__global__ void __launch_bounds__(128, Quarters::BLOCKS)
    trmm_quarters_kernel(const __grid_constant__ Args<double> a, int panels, int early) {
    extern __shared__ __align__(16) unsigned char shared[];
    constexpr int LD = Quarters::LD, TILE = Quarters::TILE;
    /* blocks (0, 0), (1, 0), (1, 1) of A; block (i, j) of B has number 2 i + j */
    double *sA = (double *)shared, *sB = sA + 3 * TILE;
    const int64_t b = blockIdx.x / panels;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, j0 = 64 * (blockIdx.x % panels);
    if ((int)blockIdx.x < early) {
        prefetch_triangle<double, 64>(a, b, threadIdx.x, blockDim.x);
        prefetch_operand<double, 64>(a.B, a.n, a.m, b, a.count, threadIdx.x, blockDim.x);
    }
    wait_for_predecessor();
    const int n = dim_part(a.n, b), m = dim_part(a.m, b), full = dim_full(a.n, b);
    if (n <= a.lo || n > 64 || j0 >= m || (a.skip && a.skip[b]))
        return;
    const Ref<double> A = resolve(a.A, b, full, full), B = resolve(a.B, b, full, dim_full(a.m, b));
#pragma unroll 1
    for (int q = 0; q < 2; q++) {
        const int k = 32 * q, w = warp & 1, j = j0 + 32 * w;
        if (warp >= 2)
            tile_stage<double, 32, LD, false, false>(sB + (2 * q + w) * TILE, B, B.at(k, j), n - k,
                                                     m - j, false, lane);
        else if (q + w < 2)
            quarter_stage(sA + (2 * q + w) * TILE, A, k + 32 * w, k, n, a.unit, lane);
        stage_commit();
    }
    const int i = (warp ^ blockIdx.x) & 1, j = warp >> 1; /* a scheduler's warps take turns */
    Acc<double> c;
    acc_zero(c);
    stage_wait<1>();
#pragma unroll 1
    for (int q = 0; q < 2; q++) {
        __syncthreads();
        const double *p = sB + (2 * q + j) * TILE;
        if (q < i)
            c.mma(sA + TILE, 1, LD, p, 1, LD, 32, lane);
        else if (q == i)
            c.template mma_part<LEFT_LOWER>(sA + 2 * q * TILE, 1, LD, p, 1, LD, lane);
        stage_wait<0>();
    }
    block_write<false>(B, c, a.alpha, 0.0, false, 32 * i, j0 + 32 * j, n, m, lane);
}

} // namespace

status launch_trmm_quarters(const Args<double> &a, cudaStream_t s) {
    const int64_t m = a.m.n < a.m.cap ? a.m.n : a.m.cap, panels = (m + 63) / 64;
    if (a.count * panels > INT32_MAX)
        return gpu_too_many_blocks();
    return launch(trmm_quarters_kernel, dim3((unsigned)(a.count * panels)), 128,
                  sizeof(double) * 7 * Quarters::TILE, s, a, (int)panels,
                  resident(Quarters::BLOCKS));
}
template <> status launch_gemm<double>(const GemmArgs<double> &a, cudaStream_t s) {
    return gemm_start(a, s);
}
template <> status launch_gemm<float>(const GemmArgs<float> &a, cudaStream_t s) {
    return gemm_start(a, s);
}
template <> status launch_syrk_block<double>(const GemmArgs<double> &a, cudaStream_t s) {
    return rank_start(a, s);
}
template <> status launch_syrk_block<float>(const GemmArgs<float> &a, cudaStream_t s) {
    return rank_start(a, s);
}

} // namespace batch

/* The operation gemm of the table. */
template <class T>
static status product(cudaStream_t s, bool ta, bool tb, int64_t count, batch_dim m, batch_dim n,
                      batch_dim k, T alpha, batch_mat a, batch_mat b, T beta, batch_mat c) {
    using namespace batch;
    const Dim depth = whole(k);
    const GemmArgs<T> g = {view<T>(a, ta, false, false),
                           view<T>(b, tb, false, false),
                           view<T>(c, false, false, false),
                           whole(m),
                           whole(n),
                           alpha == T(0) ? nothing_of(depth) : depth,
                           alpha,
                           beta,
                           false,
                           false,
                           nullptr,
                           count};
    return launch_gemm<T>(g, s);
}

status gpu_batch_gemm(backend_ctx *ctx, backend_type t, char transa, char transb, int64_t count,
                      batch_dim m, batch_dim n, batch_dim k, const void *alpha, batch_mat a,
                      batch_mat b, const void *beta, batch_mat c) {
    const bool ta = transa != 'N', tb = transb != 'N';
    if (m.n == 0 || n.n == 0)
        return MOAO_OK;
    gpu_batch_call call(ctx);
    return t == BACKEND_D ? product<double>(call.stream, ta, tb, count, m, n, k,
                                            *(const double *)alpha, a, b, *(const double *)beta, c)
                          : product<float>(call.stream, ta, tb, count, m, n, k,
                                           *(const float *)alpha, a, b, *(const float *)beta, c);
}
