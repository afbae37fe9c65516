/* Products of slices, for the routines that run products of small inner extents one after another
 * without a break (batch_scatter.cu, batch_gather.cu): a thread block of 8 warps has 128 x 64 of a
 * result, slices of 16 of A and of B are staged ahead in four buffers, or in three where
 * a block has no room for so much. */
#ifndef MOAO_GPU_BATCH_SLICES_CUH
#define MOAO_GPU_BATCH_SLICES_CUH
#include "batch_tile.cuh"

namespace batch {
namespace slices {

constexpr int ROWS = 128, COLS = 64, DEPTH = 16, THREADS = 256;
/* leading dimensions that keep the reads of a warp in different banks */
constexpr int LDA = ROWS + 4, LDB = DEPTH + 4, LDT = COLS + 4, PART_B = DEPTH * LDA,
              STAGE = PART_B + COLS * LDB; /* LDT: of B when it is turned */

/* Buffers. */
template <class T> int ahead_of() {
    return sizeof(T) * 4 * STAGE <= gpu_shared_most() ? 4 : 3;
}

/* A warp's 32 x 32 block of the result, 2 x 8 pairs of rows a lane; A(i, k) at A[i + k LDA], B(k,
 * j) at B[k + j LDB], or, where it is TURNED, at B[j + k LDT]. The order of a sum is that of k. */
template <class T> struct Block;

template <> struct Block<double> {
    static constexpr int STEP = 8;
    double v[2][4][4];
    /* mma's row g + 8 b is row 2 g + b here */
    static __device__ int row(int lane) {
        return 2 * (lane / 4);
    }
    static __device__ int col(int c, int lane) {
        return c / 2 * 8 + 2 * (lane % 4) + c % 2;
    }
    __device__ void pair(int h, int c, double *x) const {
        x[0] = v[h][c / 2][c % 2];
        x[1] = v[h][c / 2][c % 2 + 2];
    }
    __device__ void clear() {
#pragma unroll
        for (int h = 0; h < 2; h++)
#pragma unroll
            for (int j = 0; j < 4; j++)
#pragma unroll
                for (int e = 0; e < 4; e++)
                    v[h][j][e] = 0;
    }
    template <bool TURNED>
    __device__ void add(const double *A, const double *B, int depth, int lane) {
        constexpr int BK = TURNED ? LDT : 1, BJ = TURNED ? 1 : LDB;
        A += row(lane) + lane % 4 * LDA;
        B += lane % 4 * BK + lane / 4 * BJ;
#pragma unroll 1
        for (int k = 0; k < depth; k += STEP) {
            alignas(16) double a[2][4];
#pragma unroll
            for (int h = 0; h < 2; h++)
#pragma unroll
                for (int q = 0; q < 2; q++)
                    vec_load(a[h] + 2 * q, A + 16 * h + (k + 4 * q) * LDA);
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const double b[2] = {B[k * BK + 8 * j * BJ], B[(k + 4) * BK + 8 * j * BJ]};
#pragma unroll
                for (int h = 0; h < 2; h++)
                    tensor(v[h][j], a[h], b);
            }
        }
    }
};

template <> struct Block<float> {
    static constexpr int STEP = 4;
    float v[2][8][2];
    static __device__ int row(int lane) {
        return 2 * (lane % 8);
    }
    static __device__ int col(int c, int lane) {
        return 4 * c + lane / 8;
    }
    __device__ void pair(int h, int c, float *x) const {
        x[0] = v[h][c][0];
        x[1] = v[h][c][1];
    }
    __device__ void clear() {
#pragma unroll
        for (int h = 0; h < 2; h++)
#pragma unroll
            for (int c = 0; c < 8; c++)
                v[h][c][0] = v[h][c][1] = 0;
    }
    template <bool TURNED>
    __device__ void add(const float *A, const float *B, int depth, int lane) {
        A += row(lane);
        B += lane / 8 * (TURNED ? 1 : LDB);
#pragma unroll 1
        for (int k = 0; k < depth; k += STEP) {
            alignas(16) float b[8][4];
#pragma unroll
            for (int c = 0; c < 8; c++)
                if constexpr (TURNED)
#pragma unroll
                    for (int q = 0; q < 4; q++)
                        b[c][q] = B[(k + q) * LDT + 4 * c];
                else
                    vec_load(b[c], B + k + 4 * c * LDB);
#pragma unroll
            for (int q = 0; q < 4; q++)
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    const float2 a = *(const float2 *)(A + 16 * h + (k + q) * LDA);
#pragma unroll
                    for (int c = 0; c < 8; c++) {
                        v[h][c][0] = fmaf(a.x, b[c][q], v[h][c][0]);
                        v[h][c][1] = fmaf(a.y, b[c][q], v[h][c][1]);
                    }
                }
        }
    }
};

/* N numbers that lie together in both, N of the size of 4, 8 or 16 bytes. */
template <int N, class T> __device__ inline void stage_some(T *s, const T *g) {
    if constexpr (N * sizeof(T) == 16)
        stage_wide(s, g);
    else if constexpr (N * sizeof(T) == 8)
        stage((double *)s, (const double *)g);
    else
        stage(s, g);
}

/* `across` x `along` numbers of g, those along contiguous, ALONG and ACROSS of them with room in s,
 * N at a time: number (e, c) to s[e + c LD]. There is nothing beyond `along` and `across`; ZERO_*:
 * which is zeros then. */
template <int N, int ALONG, int ACROSS, int LD, bool ZERO_ALONG, bool ZERO_ACROSS, class T>
__device__ inline void stage_lines(T *s, const T *g, int64_t ld, int along, int across) {
    constexpr int LANES = ALONG / N, STEP = THREADS / LANES;
    static_assert(ACROSS % STEP == 0, "every thread as many");
    const int e = threadIdx.x % LANES * N, c0 = threadIdx.x / LANES;
    s += e + c0 * LD;
    g += e + c0 * ld;
#pragma unroll
    for (int u = 0; u < ACROSS; u += STEP, s += STEP * LD, g += STEP * ld) {
        if (c0 + u < across && e + N <= along)
            stage_some<N>(s, g);
        else
#pragma unroll
            for (int x = 0; x < N; x++)
                if (c0 + u < across && e + x < along)
                    stage(s + x, g + x);
                else if (c0 + u < across ? ZERO_ALONG : ZERO_ACROSS)
                    s[x] = T(0);
    }
}

/* How many numbers may be copied at a time, of lines ld apart. */
template <class T> __device__ inline int together(const T *g, int64_t ld) {
    const uintptr_t any = (uintptr_t)g | (uintptr_t)(ld * (int64_t)sizeof(T));
    return any % 16 == 0 ? 16 / sizeof(T) : any % 8 == 0 ? 8 / sizeof(T) : 1;
}

/* A slice of A from g on, and of B, depth x cols, or, where it is turned, cols x depth. */
template <class T>
__device__ inline void stage_a(T *s, const T *g, int64_t ld, int rows, int depth) {
    constexpr int WIDE = 16 / sizeof(T);
    const int by = together(g, ld);
    if (by == WIDE)
        stage_lines<WIDE, ROWS, DEPTH, LDA, false, true>(s, g, ld, rows, depth);
    else if (by == WIDE / 2)
        stage_lines<WIDE / 2, ROWS, DEPTH, LDA, false, true>(s, g, ld, rows, depth);
    else if constexpr (WIDE == 4)
        stage_lines<1, ROWS, DEPTH, LDA, false, true>(s, g, ld, rows, depth);
}
/* Of A given as depth x rows: half a warp takes one of its columns. */
template <class T>
__device__ inline void stage_a_turned(T *s, const T *g, int64_t ld, int rows, int depth) {
    const int k = threadIdx.x % DEPTH, r0 = threadIdx.x / DEPTH;
    s += k * LDA + r0;
    g += k + r0 * ld;
#pragma unroll
    for (int r = r0; r < ROWS;
         r += THREADS / DEPTH, s += THREADS / DEPTH, g += THREADS / DEPTH * ld)
        if (r < rows)
            stage(s, g, k < depth);
}
template <class T>
__device__ inline void stage_b(T *s, const T *g, int64_t ld, int depth, int cols) {
    constexpr int WIDE = 16 / sizeof(T);
    if (together(g, ld) == WIDE)
        stage_lines<WIDE, DEPTH, COLS, LDB, true, false>(s, g, ld, depth, cols);
    else
        stage_lines<1, DEPTH, COLS, LDB, true, false>(s, g, ld, depth, cols);
}
template <class T>
__device__ inline void stage_turned(T *s, const T *g, int64_t ld, int depth, int cols) {
    constexpr int WIDE = 16 / sizeof(T);
    const int by = together(g, ld);
    if (by == WIDE)
        stage_lines<WIDE, COLS, DEPTH, LDT, false, true>(s, g, ld, cols, depth);
    else if (by == WIDE / 2)
        stage_lines<WIDE / 2, COLS, DEPTH, LDT, false, true>(s, g, ld, cols, depth);
    else if constexpr (WIDE == 4)
        stage_lines<1, COLS, DEPTH, LDT, false, true>(s, g, ld, cols, depth);
}

/* Threads of a block, and where a warp's 32 x 32 block of the result is. */
struct Place {
    int warp, lane, i, j;
    __device__ Place()
        : warp(threadIdx.x / 32), lane(threadIdx.x % 32), i(warp % 4 * 32), j(warp / 4 * 32) {
    }
};

/* The entry of a list that a block works on: in shared memory, for registers are few. All threads.
 */
template <class E> __device__ inline void take_entry(E *e, const E *from) {
    static_assert(sizeof(E) % sizeof(int64_t) == 0, "of numbers and pointers");
    if (threadIdx.x < sizeof(E) / sizeof(int64_t))
        ((int64_t *)e)[threadIdx.x] = ((const int64_t *)from)[threadIdx.x];
    __syncthreads();
}

} // namespace slices
} // namespace batch
#endif
