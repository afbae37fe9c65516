/* Batched Cholesky factors of complex matrices, a thread block for each. */
#include "gpu/batch/batch_gpu.h"
#include "gpu/core/error.cuh"

#define THREADS 256

template <typename R> struct entry { R x, y; };

/* L(i, j), i >= j, of a matrix whose lower or upper triangle is stored: U = L^H. */
template <typename R> struct triangle {
    entry<R> *a;
    int64_t lda;
    bool upper;
    __device__ entry<R> get(int64_t i, int64_t j) const {
        if (!upper)
            return a[i + j * lda];
        const entry<R> v = a[j + i * lda];
        return {v.x, -v.y};
    }
    __device__ void set(int64_t i, int64_t j, entry<R> v) const {
        if (upper)
            a[j + i * lda] = {v.x, -v.y};
        else
            a[i + j * lda] = v;
    }
};

/* Column by column, each taken from those to its right at once. */
template <typename R>
static __global__ void __launch_bounds__(THREADS)
    potrf_kernel(bool upper, int n, void *const *matrix, int64_t lda, int *info) {
    const int tid = (int)threadIdx.x, lane = tid % 32, warp = tid / 32;
    const triangle<R> l = {(entry<R> *)matrix[blockIdx.x], lda, upper};
    __shared__ R pivot;
    __shared__ int bad;
    if (tid == 0)
        bad = 0;
    for (int k = 0; k < n; k++) {
        if (tid == 0) {
            const R d = l.get(k, k).x;
            if (d > 0 && d - d == 0) { /* an infinity is no pivot */
                pivot = sqrt(d);
                l.set(k, k, {pivot, 0});
            } else {
                bad = k + 1;
            }
        }
        __syncthreads();
        if (bad != 0)
            break;
        for (int i = k + 1 + tid; i < n; i += THREADS) {
            const entry<R> v = l.get(i, k);
            l.set(i, k, {v.x / pivot, v.y / pivot});
        }
        __syncthreads();
        for (int j = k + 1 + warp; j < n; j += THREADS / 32) {
            const entry<R> q = l.get(j, k);
            for (int i = j + lane; i < n; i += 32) {
                const entry<R> p = l.get(i, k), v = l.get(i, j);
                const R x = v.x - (p.x * q.x + p.y * q.y), y = v.y - (p.y * q.x - p.x * q.y);
                l.set(i, j, {x, i == j ? 0 : y});
            }
        }
        __syncthreads();
    }
    if (tid == 0)
        info[blockIdx.x] = bad;
}

status gpu_complex_potrf(backend_ctx *ctx, backend_type t, char uplo, int64_t count, int64_t n,
                         void *const *a, int64_t lda, int *info) {
    gpu_batch_call call(ctx);
    if (count > INT32_MAX)
        return gpu_too_many_blocks();
    auto *kernel = t == BACKEND_Z ? potrf_kernel<double> : potrf_kernel<float>;
    kernel<<<(unsigned)count, THREADS, 0, call.stream>>>(uplo == 'U', (int)n, a, lda, info);
    LAUNCHED();
    return MOAO_OK;
}
