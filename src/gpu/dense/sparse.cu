/* Products with sparse matrices. A thread makes a row of a few columns, for which it reads the row
 * of S once; neighbouring rows of a stencil take neighbouring entries of A, which the first-level
 * cache holds. */
#include "gpu/core/common.cuh"
#include "sparse_gpu.h"

#define THREADS 128
#define COLUMNS 8 /* of C, of a thread */
#define MOST_BLOCKS 65535

template <class T>
__global__ void times_kernel(backend_rows s, int64_t n, T alpha, const T *__restrict__ a,
                             int64_t lda, T beta, T *__restrict__ c, int64_t ldc) {
    const int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x;
    const T *value = (const T *)s.value + i;
    const int *column = s.column + i;
    if (i >= s.rows)
        return;
    for (int64_t j = blockIdx.y * (int64_t)COLUMNS; j < n; j += gridDim.y * (int64_t)COLUMNS) {
        const int64_t last = n - j - 1; /* columns past the end are the last one again */
        const T *x = a + j * lda;
        T sum[COLUMNS] = {};
        for (int64_t k = 0; k < s.width; k++) {
            const int at = column[k * s.rows];
            const T v = value[k * s.rows];
            if (at < 0)
                continue;
#pragma unroll
            for (int l = 0; l < COLUMNS; l++)
                sum[l] += v * x[at + (l < last ? l : last) * lda];
        }
        T *y = c + i + j * ldc;
#pragma unroll
        for (int l = 0; l < COLUMNS; l++)
            if (l <= last)
                y[l * ldc] = alpha * sum[l] + (beta != 0 ? beta * y[l * ldc] : 0);
    }
}

template <class T>
static status launch(backend_ctx *ctx, const backend_rows *s, int64_t n, double alpha,
                     const void *a, int64_t lda, double beta, void *c, int64_t ldc) {
    const dim3 blocks((unsigned)gpu_ceil(s->rows, THREADS),
                      (unsigned)gpu_min(gpu_ceil(n, COLUMNS), MOST_BLOCKS));
    times_kernel<T><<<blocks, THREADS, 0, ctx->main.stream>>>(*s, n, (T)alpha, (const T *)a, lda,
                                                              (T)beta, (T *)c, ldc);
    LAUNCHED();
    return MOAO_OK;
}

static status times(backend_ctx *ctx, backend_type t, const backend_rows *s, int64_t n,
                    double alpha, const void *a, int64_t lda, double beta, void *c, int64_t ldc) {
    gpu_device_guard guard(ctx->device);
    if (s->rows == 0 || n == 0)
        return MOAO_OK;
    return GPU_DISPATCH_REAL(t, launch, ctx, s, n, alpha, a, lda, beta, c, ldc);
}

const backend_sparse backend_sparse_gpu = {
    .size = sizeof(backend_sparse), .times = times, .filter = gpu_filter};
