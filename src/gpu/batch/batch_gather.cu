/* Sums of products of a batch added to matrices in double precision (gather of backend_batch.h). A
 * thread block takes 128 rows of one matrix and all of its columns, 64 at a time, and of these one
 * product after another. */
#include "batch_gpu.h"
#include "batch_slices.cuh"

namespace batch {

namespace {
using namespace slices;

/* C += alpha SUM, 32 x 32 with whole pairs of rows; some columns at a time, whose loads do not wait
 * for each other. */
template <class T>
__device__ inline void add_pairs(const Block<T> &b, double *c, int64_t ldc, double alpha, int rows,
                                 int cols, int lane) {
    constexpr int SOME = 2;
    const bool there[2] = {b.row(lane) < rows, b.row(lane) + 16 < rows};
    c += b.row(lane);
#pragma unroll
    for (int e = 0; e < 8; e += SOME) {
        double2 z[SOME][2];
#pragma unroll
        for (int q = 0; q < 2 * SOME; q++)
            if (there[q % 2] && b.col(e + q / 2, lane) < cols)
                z[q / 2][q % 2] = *(const double2 *)(c + b.col(e + q / 2, lane) * ldc + q % 2 * 16);
#pragma unroll
        for (int q = 0; q < 2 * SOME; q++) {
            T y[2];
            b.pair(q % 2, e + q / 2, y);
            z[q / 2][q % 2].x += alpha * (double)y[0];
            z[q / 2][q % 2].y += alpha * (double)y[1];
            if (there[q % 2] && b.col(e + q / 2, lane) < cols)
                *(double2 *)(c + b.col(e + q / 2, lane) * ldc + q % 2 * 16) = z[q / 2][q % 2];
        }
    }
}
/* The same of any rows. */
template <class T>
__device__ inline void add_part(const Block<T> &b, double *c, int64_t ldc, double alpha, int rows,
                                int cols, int lane) {
    const int r = b.row(lane);
#pragma unroll
    for (int e = 0; e < 8; e++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            T y[2];
            b.pair(h, e, y);
#pragma unroll
            for (int o = 0; o < 2; o++)
                if (b.col(e, lane) < cols && r + 16 * h + o < rows)
                    c[r + 16 * h + o + b.col(e, lane) * ldc] += alpha * (double)y[o];
        }
}

/* 128 x 64 of C in transit to the L2 cache, until they are added to. */
__device__ inline void prefetch_block(const double *c, int64_t ldc, int rows, int cols) {
    constexpr int LINE = 16, LINES = ROWS / LINE;
#pragma unroll
    for (int e = threadIdx.x; e < COLS * LINES; e += THREADS)
        if (e % LINES * LINE < rows && e / LINES < cols)
            prefetch(c + e % LINES * LINE + e / LINES * ldc);
}

template <class T, int AHEAD>
__global__ void __launch_bounds__(THREADS, 2)
    gather_kernel(const batch_gather *list, int tiles, const batch_part *part, double alpha,
                  int64_t ldc) {
    extern __shared__ __align__(16) unsigned char shared[];
    __shared__ batch_gather p;
    T *const s = (T *)shared;
    const Place at;
    wait_for_predecessor();
    take_entry(&p, list + blockIdx.x / tiles);
    const int i0 = (int)(blockIdx.x % tiles) * ROWS, n = (int)p.n, parts = (int)p.parts,
              rows = (int)p.m - i0 < ROWS ? (int)p.m - i0 : ROWS;
    if (rows <= 0 || n <= 0 || parts <= 0)
        return;
    const batch_part *const of = part + p.first;
    const bool pairs = together(p.c + i0, ldc) > 1 && rows % 2 == 0;
    int ahead = 0, ahead_p = 0, ahead_k = 0, ahead_x = 0; /* the next one to be fetched */
    auto fetch = [&] {
        if (ahead_x < n) {
            T *const buf = s + ahead % AHEAD * STAGE;
            const int64_t lda = of[ahead_p].lda, ldb = of[ahead_p].ldb;
            const int left = (int)of[ahead_p].k - ahead_k;
            if (ahead_p == 0 && ahead_k == 0)
                prefetch_block(p.c + i0 + ahead_x * ldc, ldc, rows, n - ahead_x);
            stage_a(buf, (const T *)of[ahead_p].a + i0 + ahead_k * lda, lda, rows, left);
            stage_turned(buf + PART_B, (const T *)of[ahead_p].b + ahead_x + ahead_k * ldb, ldb,
                         left, n - ahead_x);
            ahead_k += DEPTH;
            if (left <= DEPTH) {
                ahead_k = 0;
                if (++ahead_p == parts) {
                    ahead_p = 0;
                    ahead_x += COLS;
                }
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
    for (int q = 0, o = 0, k = 0, x = 0; x < n; q++) {
        stage_wait<AHEAD - 2>();
        __syncthreads(); /* step q is there, and the buffer of step q - 1 is free */
        fetch();
        const T *const buf = s + q % AHEAD * STAGE;
        const int cols = n - x - at.j, left = (int)of[o].k - k;
        const bool mine = at.i < rows && cols > 0;
        if (mine)
            sum.template add<true>(buf + at.i, buf + PART_B + at.j, left < DEPTH ? left : DEPTH,
                                   at.lane);
        k += DEPTH;
        if (left > DEPTH)
            continue;
        k = 0;
        if (++o == parts) {
            double *const c = p.c + i0 + at.i + (x + at.j) * ldc;
            if (mine && pairs)
                add_pairs(sum, c, ldc, alpha, rows - at.i, cols, at.lane);
            else if (mine)
                add_part(sum, c, ldc, alpha, rows - at.i, cols, at.lane);
            sum.clear();
            o = 0;
            x += COLS;
        }
    }
}

template <class T>
status start(int64_t count, const batch_gather *list, int64_t rows, const batch_part *part,
             double alpha, int64_t ldc, cudaStream_t s) {
    const int64_t tiles = (rows + ROWS - 1) / ROWS;
    if (count * tiles > INT32_MAX)
        return gpu_too_many_blocks();
    const int ahead = ahead_of<T>();
    return launch(ahead == 4 ? gather_kernel<T, 4> : gather_kernel<T, 3>,
                  dim3((unsigned)(count * tiles)), THREADS, sizeof(T) * ahead * STAGE, s, list,
                  (int)tiles, part, alpha, ldc);
}

} // namespace
} // namespace batch

status gpu_batch_gather(backend_ctx *ctx, backend_type t, int64_t count, int64_t rows, int64_t cols,
                        const batch_gather *list, const batch_part *part, double alpha,
                        int64_t ldc) {
    gpu_batch_call call(ctx);
    if (rows == 0 || cols == 0)
        return MOAO_OK;
    return t == BACKEND_D ? batch::start<double>(count, list, rows, part, alpha, ldc, call.stream)
                          : batch::start<float>(count, list, rows, part, alpha, ldc, call.stream);
}
