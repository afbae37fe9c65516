/* The Cholesky factor of a block by one thread block with little shared memory, column after
 * column: for devices on which potrf_tiles.cu finds no room. Their FP64 units are few, so that the
 * products between such blocks take the time. */
#include "potrf.cuh"

#define THREADS 256
#define LD (POTRF_BLOCK + 1)

/* Element (i, j) of the lower triangle at a + i rs + j cs. */
template <class T>
static __global__ void __launch_bounds__(THREADS)
    block_kernel(int n, T *a, int64_t rs, int64_t cs, int base, int *info) {
    __shared__ T s[POTRF_BLOCK * LD];
    __shared__ int failed;
    if (threadIdx.x == 0)
        failed = *info;
    for (int e = threadIdx.x; e < n * n; e += THREADS)
        if (e % n >= e / n)
            s[e % n + e / n * LD] = a[e % n * rs + e / n * cs];
    __syncthreads();
    if (failed)
        return;
    for (int k = 0; k < n; k++) {
        const T pivot = s[k + k * LD];
        const T root = sqrt(pivot);
        if (!(root >= T(BACKEND_ROOT_MIN(sizeof(T))) && root <= T(BACKEND_ROOT_MAX(sizeof(T))))) {
            if (threadIdx.x == 0)
                *info = base + k + 1;
            return;
        }
        __syncthreads();
        for (int i = k + threadIdx.x; i < n; i += THREADS)
            s[i + k * LD] = i == k ? root : s[i + k * LD] / root;
        __syncthreads();
        const int left = n - k - 1;
        for (int e = threadIdx.x; e < left * left; e += THREADS) {
            const int i = k + 1 + e % left, j = k + 1 + e / left;
            if (i >= j)
                s[i + j * LD] -= s[i + k * LD] * s[j + k * LD];
        }
        __syncthreads();
    }
    for (int e = threadIdx.x; e < n * n; e += THREADS)
        if (e % n >= e / n)
            a[e % n * rs + e / n * cs] = s[e % n + e / n * LD];
}

template <class T>
static status launch(cudaStream_t s, char uplo, int64_t n, void *a, int64_t lda, int64_t base,
                     int *info) {
    const bool lower = uplo == 'L';
    block_kernel<<<1, THREADS, 0, s>>>((int)n, (T *)a, lower ? 1 : lda, lower ? lda : 1, (int)base,
                                       info);
    LAUNCHED();
    return MOAO_OK;
}

status potrf_block(cudaStream_t s, backend_type t, char uplo, int64_t n, void *a, int64_t lda,
                   int64_t base, int *info) {
    return t == BACKEND_D ? launch<double>(s, uplo, n, a, lda, base, info)
                          : launch<float>(s, uplo, n, a, lda, base, info);
}
