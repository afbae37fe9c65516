/* Products of a batch whose result's columns go to places of their own (scatter of
 * backend_batch.h). A thread block takes 128 rows of one product and all of its columns, 64 at a
 * time: slices of A and of B are staged ahead in four buffers without a break between one 64
 * columns and the next, so that products of a small inner extent run as long ones do. 8 warps with
 * 32 x 32 accumulators; a lane has rows in pairs, which are stored together where C allows it. */
#include "batch_gpu.h"
#include "batch_tile.cuh"

namespace batch {

namespace {
constexpr int ROWS = 128, COLS = 64, DEPTH = 16, AHEAD = 4, THREADS = 256;
/* leading dimensions that keep the reads of a warp in different banks */
constexpr int LDA = ROWS + 4, LDB = DEPTH + 4, PART_B = DEPTH * LDA, STAGE = PART_B + COLS * LDB;

/* A warp's 32 x 32 block of the result, 2 x 8 pairs of rows a lane; A(i, k) at A[i + k LDA], B(k,
 * j) at B[k + j LDB]. The order of a sum is that of k. */
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
    __device__ void add(const double *A, const double *B, int depth, int lane) {
        A += row(lane) + lane % 4 * LDA;
        B += lane % 4 + lane / 4 * LDB;
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
                const double b[2] = {B[k + 8 * j * LDB], B[k + 4 + 8 * j * LDB]};
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
    __device__ void add(const float *A, const float *B, int depth, int lane) {
        A += row(lane);
        B += lane / 8 * LDB;
#pragma unroll 1
        for (int k = 0; k < depth; k += STEP) {
            alignas(16) float b[8][4];
#pragma unroll
            for (int c = 0; c < 8; c++)
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

template <class T>
__device__ inline void stage_a(T *s, const T *g, int64_t ld, int rows, int depth, int by) {
    constexpr int WIDE = 16 / sizeof(T);
    if (by == WIDE)
        stage_lines<WIDE, ROWS, DEPTH, LDA, false, true>(s, g, ld, rows, depth);
    else if (by == WIDE / 2)
        stage_lines<WIDE / 2, ROWS, DEPTH, LDA, false, true>(s, g, ld, rows, depth);
    else if constexpr (WIDE == 4)
        stage_lines<1, ROWS, DEPTH, LDA, false, true>(s, g, ld, rows, depth);
}

template <class T>
__device__ inline void stage_b(T *s, const T *g, int64_t ld, int depth, int cols, int by) {
    constexpr int WIDE = 16 / sizeof(T);
    if (by == WIDE)
        stage_lines<WIDE, DEPTH, COLS, LDB, true, false>(s, g, ld, depth, cols);
    else
        stage_lines<1, DEPTH, COLS, LDB, true, false>(s, g, ld, depth, cols);
}

/* The same of B as it is given when it is to be turned: cols x depth. */
template <class T>
__device__ inline void stage_turned(T *s, const T *g, int64_t ld, int depth, int cols) {
    const int c = threadIdx.x % COLS, k0 = threadIdx.x / COLS;
    s += c * LDB + k0;
    g += c + k0 * ld;
#pragma unroll
    for (int k = k0; k < DEPTH; k += THREADS / COLS, s += THREADS / COLS, g += THREADS / COLS * ld)
        if (c < cols)
            stage(s, g, k < depth);
}

template <class T> struct Pair;
template <> struct Pair<double> { typedef double2 type; };
template <> struct Pair<float> { typedef float2 type; };

/* 32 x 32 of the result; `to`: places of its columns, of which there are `cols`. */
template <class T>
__device__ inline void store_block(const Block<T> &b, T *c, int64_t ldc, const int64_t *to,
                                   int rows, int cols, bool pairs, int lane) {
    const int r = b.row(lane);
#pragma unroll
    for (int e = 0; e < 8; e++) {
        const int x = b.col(e, lane);
        if (x >= cols)
            continue;
        T *p = c + to[x] * ldc + r;
#pragma unroll
        for (int h = 0; h < 2; h++) {
            alignas(16) T x[2];
            b.pair(h, e, x);
            if (pairs && r + 16 * h + 1 < rows) {
                *(typename Pair<T>::type *)(p + 16 * h) = *(const typename Pair<T>::type *)x;
            } else {
#pragma unroll
                for (int o = 0; o < 2; o++)
                    if (r + 16 * h + o < rows)
                        p[16 * h + o] = x[o];
            }
        }
    }
}

/* Columns of A as they are. */
template <class T>
__device__ inline void copy_columns(const T *a, int64_t lda, T *c, int64_t ldc, const int64_t *to,
                                    int rows, int n) {
    const int r = threadIdx.x % ROWS;
    if (r < rows)
#pragma unroll 8
        for (int x = threadIdx.x / ROWS; x < n; x += THREADS / ROWS)
            c[to[x] * ldc + r] = a[x * lda + r];
}

template <class T>
__global__ void __launch_bounds__(THREADS, 2)
    scatter_kernel(const batch_scatter *list, int tiles, const int64_t *column, int64_t ldc) {
    extern __shared__ __align__(16) unsigned char shared[];
    __shared__ batch_scatter p;
    T *const s = (T *)shared;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    wait_for_predecessor();
    if (threadIdx.x < sizeof p / sizeof(int64_t)) /* not in registers, of which there are few */
        ((int64_t *)&p)[threadIdx.x] = ((const int64_t *)(list + blockIdx.x / tiles))[threadIdx.x];
    __syncthreads();
    const int i0 = (int)(blockIdx.x % tiles) * ROWS, n = (int)p.n, depth = (int)p.k,
              rows = (int)p.m - i0 < ROWS ? (int)p.m - i0 : ROWS;
    if (rows <= 0 || n <= 0 || depth < 0)
        return;
    const int64_t *const to = column + p.first;
    T *const c = (T *)p.c + i0;
    if (!p.b) {
        copy_columns((const T *)p.a + i0, p.lda, c, ldc, to, rows, n);
        return;
    }
    const int slices = depth > DEPTH ? (depth + DEPTH - 1) / DEPTH : 1,
              steps = slices * ((n + COLS - 1) / COLS);
    const int by_a = together((const T *)p.a + i0, p.lda), by_b = together((const T *)p.b, p.ldb);
    const bool pairs = together(c, ldc) > 1;
    int ahead = 0, ahead_k = 0, ahead_x = 0; /* the next one to be fetched */
    auto fetch = [&] {
        if (ahead < steps) {
            T *const buf = s + ahead % AHEAD * STAGE;
            const T *const a = (const T *)p.a + i0, *const b = (const T *)p.b;
            const int left = depth - ahead_k, cols = n - ahead_x;
            stage_a(buf, a + ahead_k * p.lda, p.lda, rows, left, by_a);
            if (p.turned)
                stage_turned(buf + PART_B, b + ahead_x + ahead_k * p.ldb, p.ldb, left, cols);
            else
                stage_b(buf + PART_B, b + ahead_k + ahead_x * p.ldb, p.ldb, left, cols, by_b);
            ahead_k += DEPTH;
            if (ahead_k >= depth) {
                ahead_k = 0;
                ahead_x += COLS;
            }
        }
        ahead++;
        stage_commit();
    };
    Block<T> sum;
    sum.clear();
    const int wi = warp % 4 * 32, wj = warp / 4 * 32;
#pragma unroll 1
    for (int q = 0; q < AHEAD - 1; q++)
        fetch();
    for (int q = 0, k = 0, x = 0; q < steps; q++) {
        stage_wait<AHEAD - 2>();
        __syncthreads(); /* step q is there, and the buffer of step q - 1 is free */
        fetch();
        const T *const buf = s + q % AHEAD * STAGE;
        const int cols = n - x - wj, left = depth - k < DEPTH ? depth - k : DEPTH;
        const bool mine = wi < rows && cols > 0;
        if (mine)
            sum.add(buf + wi, buf + PART_B + wj * LDB, left, lane);
        k += DEPTH;
        if (k >= depth) {
            if (mine)
                store_block(sum, c + wi, ldc, to + x + wj, rows - wi, cols, pairs, lane);
            sum.clear();
            k = 0;
            x += COLS;
        }
    }
}

template <class T>
status start(int64_t count, const batch_scatter *list, int64_t rows, const int64_t *column,
             int64_t ldc, cudaStream_t s) {
    const int64_t tiles = (rows + ROWS - 1) / ROWS;
    if (count * tiles > INT32_MAX)
        return gpu_too_many_blocks();
    return launch(scatter_kernel<T>, dim3((unsigned)(count * tiles)), THREADS,
                  sizeof(T) * AHEAD * STAGE, s, list, (int)tiles, column, ldc);
}

} // namespace
} // namespace batch

status gpu_batch_scatter(backend_ctx *ctx, backend_type t, int64_t count, int64_t rows,
                         const batch_scatter *list, const int64_t *column, int64_t ldc) {
    gpu_batch_call call(ctx);
    if (rows == 0)
        return MOAO_OK;
    return t == BACKEND_D ? batch::start<double>(count, list, rows, column, ldc, call.stream)
                          : batch::start<float>(count, list, rows, column, ldc, call.stream);
}
