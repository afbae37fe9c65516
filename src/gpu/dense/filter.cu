/* Products with a mirror's transposed interaction matrix. A block takes a column, or a strip of the
 * corners of one: both images of it are put into shared memory, filtered along the rows where they
 * lie by a warp a row, and along the columns by a thread a corner. A strip's rows of corners need
 * `reach` rows of squares more on each side. */
#include "gpu/core/common.cuh"
#include "sparse_gpu.h"

#define THREADS 512
#define WARPS (THREADS / 32)
/* Shared memory of a block [bytes]: a multiprocessor of 228 KiB holds two. */
#define MOST_SHARED ((size_t)112 * 1024)
#define MOST_STRIPS 65535

template <class T> struct filter_args {
    int n, reach, rows; /* rows: of corners in a strip */
    int squares, corners;
    const int *square, *corner;
    T odd[BACKEND_REACH], even[BACKEND_REACH];
    T alpha, beta;
    const T *a;
    int64_t lda;
    T *b;
    int64_t ldb;
};

/* How many of the increasing places are below `end`. */
__device__ static int count_below(const int *list, int count, int end) {
    int low = 0;
    for (int high = count; low < high;) {
        const int middle = (low + high) / 2;
        if (list[middle] < end)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* At corner x of a row of squares. */
template <class T>
__device__ inline T along_row(const filter_args<T> &f, bool odd, const T *row, int x) {
    T sum = 0;
    for (int k = 0; k < f.reach; k++) {
        const T right = x + k < f.n ? row[x + k] : 0, left = x - 1 - k >= 0 ? row[x - 1 - k] : 0;
        sum += odd ? f.odd[k] * (right - left) : f.even[k] * (right + left);
    }
    return sum;
}

/* A row of squares becomes one of corners, 32 at a time by the lanes of a warp. What is written
 * lies two steps behind what is read, of which the next step needs up to 16 numbers. */
template <class T>
__device__ inline void filter_row(const filter_args<T> &f, bool odd, T *row, int lane) {
    T before = 0;
    for (int x = lane; x - lane < f.n + 1 + 32; x += 32) {
        const T now = x <= f.n ? along_row(f, odd, row, x) : 0;
        __syncwarp();
        if (x >= 32 && x - 32 <= f.n)
            row[x - 32] = before;
        before = now;
    }
}

/* At a corner: rows of squares first to end of both images lie in shared memory. */
template <class T>
__device__ inline T along_column(const filter_args<T> &f, const T *in, int first, int end, int x,
                                 int y) {
    const int line = f.n + 1;
    const T *here = in + (y - first) * line + x, *other = here + (end - first) * line;
    T sum = 0;
    for (int k = 0; k < f.reach; k++) {
        const bool above = y + k < f.n, below = y - 1 - k >= 0;
        const int up = k * line, down = -(k + 1) * line;
        const T x1 = above ? here[up] : 0, x0 = below ? here[down] : 0;
        const T y1 = above ? other[up] : 0, y0 = below ? other[down] : 0;
        sum += f.even[k] * (x1 + x0) + f.odd[k] * (y1 - y0);
    }
    return sum;
}

template <class T> __global__ void __launch_bounds__(THREADS) filter_kernel(filter_args<T> f) {
    extern __shared__ __align__(16) unsigned char shared[];
    T *in = (T *)shared;
    const int thread = threadIdx.x, n = f.n, line = n + 1;
    const int top = blockIdx.y * f.rows, bottom = top + f.rows < line ? top + f.rows : line;
    const int first = top - f.reach > 0 ? top - f.reach : 0;
    const int end = bottom - 1 + f.reach < n ? bottom - 1 + f.reach : n,
              image = (end - first) * line;
    const T *a = f.a + blockIdx.x * f.lda;
    T *b = f.b + blockIdx.x * f.ldb;
    int s0 = 0, s1 = f.squares, c0 = 0, c1 = f.corners;
    if (gridDim.y > 1) {
        s0 = count_below(f.square, f.squares, first * n),
        s1 = count_below(f.square, f.squares, end * n);
        c0 = count_below(f.corner, f.corners, top * line);
        c1 = count_below(f.corner, f.corners, bottom * line);
    }
    for (int i = thread; i < 2 * image; i += THREADS)
        in[i] = 0;
    __syncthreads();
#pragma unroll 4
    for (int i = s0 + thread; i < s1; i += THREADS) {
        const int place = f.square[i], y = place / n, at = (y - first) * line + place - y * n;
        in[at] = a[i];
        in[at + image] = a[i + f.squares];
    }
    __syncthreads();
    for (int row = thread / 32; row < 2 * (end - first); row += WARPS)
        filter_row(f, row < end - first, in + row * line, thread % 32);
    __syncthreads();
    for (int i = c0 + thread; i < c1; i += THREADS) {
        const int place = f.corner[i], y = place / line;
        const T sum = along_column(f, in, first, end, place - y * line, y);
        b[i] = f.alpha * sum + (f.beta != 0 ? f.beta * b[i] : 0);
    }
}

template <class T>
static status launch(backend_ctx *ctx, const backend_filter *f, int64_t n, double alpha,
                     const void *a, int64_t lda, double beta, void *b, int64_t ldb) {
    const int64_t line = f->n + 1, row = 2 * line * (int64_t)sizeof(T);
    const size_t most = gpu_shared_most() < MOST_SHARED ? gpu_shared_most() : MOST_SHARED;
    const int64_t rows = (int64_t)most / row; /* of squares, of both images */
    filter_args<T> args = {(int)f->n,       f->reach,  (int)line, (int)f->squares,
                           (int)f->corners, f->square, f->corner};
    if (rows < f->n) /* strips */
        args.rows = (int)(rows - 2 * f->reach + 1);
    if (args.rows < 1 || gpu_ceil(line, args.rows) > MOST_STRIPS || line * line > INT32_MAX)
        return gpu_no_kernel();
    for (int k = 0; k < f->reach; k++)
        args.odd[k] = (T)f->odd[k], args.even[k] = (T)f->even[k];
    args.alpha = (T)alpha, args.beta = (T)beta;
    args.a = (const T *)a, args.lda = lda;
    args.b = (T *)b, args.ldb = ldb;
    const int64_t held = rows < f->n ? rows : f->n;
    const size_t bytes = (size_t)(held * row);
    const dim3 blocks((unsigned)n, (unsigned)gpu_ceil(line, args.rows));
    GPU_TRY(gpu_allow_shared((const void *)filter_kernel<T>, bytes));
    filter_kernel<T><<<blocks, THREADS, bytes, ctx->main.stream>>>(args);
    LAUNCHED();
    return MOAO_OK;
}

status gpu_filter(backend_ctx *ctx, backend_type t, const backend_filter *f, int64_t n,
                  double alpha, const void *a, int64_t lda, double beta, void *b, int64_t ldb) {
    gpu_device_guard guard(ctx->device);
    if (n == 0 || f->corners == 0)
        return MOAO_OK;
    if (n > INT32_MAX)
        return gpu_too_many_blocks();
    return GPU_DISPATCH_REAL(t, launch, ctx, f, n, alpha, a, lda, beta, b, ldb);
}
