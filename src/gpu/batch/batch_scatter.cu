/* Products of a batch whose result's columns go to places of their own (scatter of
 * backend_batch.h). A thread block takes 128 rows of one product and all of its columns, 64 at a
 * time. */
#include "batch_gpu.h"
#include "batch_slices.cuh"

namespace batch {

namespace {
using namespace slices;

template <class T> struct Pair;
template <> struct Pair<double> { typedef double2 type; };
template <> struct Pair<float> { typedef float2 type; };

/* 32 x 32 of the result; `to`: places of its columns, of which there are `cols`. */
template <class T>
__device__ inline void store_block(const Block<T> &b, T *c, int64_t ldc, const int64_t *to,
                                   int rows, int cols, bool pairs, int lane) {
    const int r = b.row(lane);
    int at[8];
#pragma unroll
    for (int e = 0; e < 8; e++)
        at[e] = b.col(e, lane) < cols ? (int)to[b.col(e, lane)] : -1;
#pragma unroll
    for (int e = 0; e < 8; e++) {
        if (at[e] < 0)
            continue;
        T *p = c + at[e] * ldc + r;
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

template <class T, int AHEAD>
__global__ void __launch_bounds__(THREADS, 2)
    scatter_kernel(const batch_scatter *list, int tiles, const int64_t *column, int64_t ldc) {
    extern __shared__ __align__(16) unsigned char shared[];
    __shared__ batch_scatter p;
    T *const s = (T *)shared;
    const Place at;
    wait_for_predecessor();
    take_entry(&p, list + blockIdx.x / tiles);
    const int i0 = (int)(blockIdx.x % tiles) * ROWS, n = (int)p.n, depth = (int)p.k,
              rows = (int)p.m - i0 < ROWS ? (int)p.m - i0 : ROWS;
    if (rows <= 0 || n <= 0 || depth < 0)
        return;
    const int64_t *const to = column + p.first;
    T *const c = (T *)p.c + i0;
    const bool pairs = together(c, ldc) > 1;
    const int slices = depth > DEPTH ? (depth + DEPTH - 1) / DEPTH : 1,
              steps = slices * ((n + COLS - 1) / COLS);
    int ahead = 0, ahead_k = 0, ahead_x = 0; /* the next one to be fetched */
    auto fetch = [&] {
        if (ahead < steps) {
            T *const buf = s + ahead % AHEAD * STAGE;
            const T *const a = (const T *)p.a, *const b = (const T *)p.b;
            const int left = depth - ahead_k;
            if (p.turned)
                stage_a_turned(buf, a + i0 * p.lda + ahead_k, p.lda, rows, left);
            else
                stage_a(buf, a + i0 + ahead_k * p.lda, p.lda, rows, left);
            stage_b(buf + PART_B, b + ahead_k + ahead_x * p.ldb, p.ldb, left, n - ahead_x);
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
#pragma unroll 1
    for (int q = 0; q < AHEAD - 1; q++)
        fetch();
    for (int q = 0, k = 0, x = 0; q < steps; q++) {
        stage_wait<AHEAD - 2>();
        __syncthreads(); /* step q is there, and the buffer of step q - 1 is free */
        fetch();
        const T *const buf = s + q % AHEAD * STAGE;
        const int cols = n - x - at.j, left = depth - k < DEPTH ? depth - k : DEPTH;
        const bool mine = at.i < rows && cols > 0;
        if (mine)
            sum.template add<false>(buf + at.i, buf + PART_B + at.j * LDB, left, at.lane);
        k += DEPTH;
        if (k >= depth) {
            if (mine)
                store_block(sum, c + at.i, ldc, to + x + at.j, rows - at.i, cols, pairs, at.lane);
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
    const int ahead = ahead_of<T>();
    return launch(ahead == 4 ? scatter_kernel<T, 4> : scatter_kernel<T, 3>,
                  dim3((unsigned)(count * tiles)), THREADS, sizeof(T) * ahead * STAGE, s, list,
                  (int)tiles, column, ldc);
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
