/* Batched C := beta C + alpha A B on 64 x 64 tiles: the large steps of the recursion, and syrk
 * above 32. One block a tile: 4 warps with 32 x 32 accumulators, slices of A and B staged ahead in
 * two buffers. */
#include "batch_warp.cuh"

namespace batch {

namespace {
constexpr int TILE = 64, SLICE = 16, GLD = TILE + 4, STAGE = SLICE * GLD, AHEAD = 4;

/* A slice of 64 x 32: element (r0 + r, k0 + k) of `a` to s[k GLD + r], zero outside; each warp
 * moves its share, N rows or columns apart by 4. */
template <class T>
__device__ inline void slice_stage(T *s, const Ref<T> &a, int r0, int k0, int rows, int depth,
                                   int warp, int lane) {
    const bool full = r0 + TILE <= rows && k0 + SLICE <= depth;
    if (a.along_i) {
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

/* BETA: C is added to. */
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
    if (i0 >= m || j0 >= n || (a.skip && a.skip[b]))
        return;
    const Ref<T> A = resolve(a.A, b, dim_full(a.m, b), dim_full(a.k, b));
    const Ref<T> B = flipped(resolve(a.B, b, dim_full(a.k, b), dim_full(a.n, b)));
    const Ref<T> C = resolve(a.C, b, dim_full(a.m, b), dim_full(a.n, b));
    const bool same = a.same && ti == tj;
    const int slices = a.alpha == T(0) ? 0 : (depth + SLICE - 1) / SLICE;

    auto fetch = [&](int q) {
        T *buf = s + q % AHEAD * 2 * STAGE;
        if (q < slices) {
            slice_stage(buf, A, i0, q * SLICE, m, depth, warp, lane);
            if (!same)
                slice_stage(buf + STAGE, B, j0, q * SLICE, n, depth, warp, lane);
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
    const int i1 = i0 + wi + c.row(0, lane), j1 = j0 + wj + c.col(0, lane);
    T *p = C.at(i1, j1);
    const bool inside = i0 + wi + 32 <= m && j0 + wj + 32 <= n && !(a.lower && i0 + wi == j0 + wj);
#pragma unroll
    for (int e = 0; e < 32; e++) {
        const int di = c.row(e, 0), dj = c.col(e, 0);
        T *pe = p + di * C.si + dj * C.sj;
        if (inside || (i1 + di < m && j1 + dj < n && (!a.lower || i1 + di >= j1 + dj)))
            *pe = a.alpha * c.v[e] + (BETA ? a.beta * *pe : T(0));
    }
}

template <class T> cudaError_t gemm_start(const GemmArgs<T> &a, cudaStream_t s) {
    int64_t m = a.m.n < a.m.cap ? a.m.n : a.m.cap, n = a.n.n < a.n.cap ? a.n.n : a.n.cap;
    int64_t rows = (m + TILE - 1) / TILE, cols = (n + TILE - 1) / TILE;
    int64_t tiles = a.lower ? rows * (rows + 1) / 2 : rows * cols;
    if (a.count * tiles > INT32_MAX)
        return cudaErrorInvalidConfiguration;
    return launch(a.beta != T(0) ? gemm_kernel<T, true> : gemm_kernel<T, false>,
                  dim3((unsigned)(a.count * tiles)), 128, sizeof(T) * 2 * AHEAD * STAGE, s, a,
                  (int)tiles, (int)rows);
}
} // namespace

template <> cudaError_t launch_gemm<double>(const GemmArgs<double> &a, cudaStream_t s) {
    return gemm_start(a, s);
}
template <> cudaError_t launch_gemm<float>(const GemmArgs<float> &a, cudaStream_t s) {
    return gemm_start(a, s);
}

} // namespace batch
