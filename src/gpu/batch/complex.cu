/* Batched operations on complex matrices: cuBLAS's products, solves and reflectors on arrays of
 * pointers; the Cholesky factor, which cuBLAS lacks, a thread block for each matrix. */
#include "gpu/batch/batch_gpu.h"
#include "gpu/core/common.cuh"

static cublasOperation_t op(char trans) {
    return trans == 'N' ? CUBLAS_OP_N : trans == 'T' ? CUBLAS_OP_T : CUBLAS_OP_C;
}

static status gemm(backend_ctx *ctx, backend_type t, char transa, char transb, int64_t count,
                   int64_t m, int64_t n, int64_t k, const void *alpha, const void *const *a,
                   int64_t lda, const void *const *b, int64_t ldb, const void *beta, void *const *c,
                   int64_t ldc) {
    gpu_device_guard guard(ctx->device);
    if (t == BACKEND_Z)
        BLAS_TRY(cublasZgemmBatched_64(
            ctx->main.blas, op(transa), op(transb), m, n, k, (const cuDoubleComplex *)alpha,
            (const cuDoubleComplex *const *)a, lda, (const cuDoubleComplex *const *)b, ldb,
            (const cuDoubleComplex *)beta, (cuDoubleComplex *const *)c, ldc, count));
    else
        BLAS_TRY(cublasCgemmBatched_64(
            ctx->main.blas, op(transa), op(transb), m, n, k, (const cuFloatComplex *)alpha,
            (const cuFloatComplex *const *)a, lda, (const cuFloatComplex *const *)b, ldb,
            (const cuFloatComplex *)beta, (cuFloatComplex *const *)c, ldc, count));
    return MOAO_OK;
}

static status trsm(backend_ctx *ctx, backend_type t, char side, char uplo, char trans, char diag,
                   int64_t count, int64_t m, int64_t n, const void *alpha, const void *const *a,
                   int64_t lda, void *const *b, int64_t ldb) {
    gpu_device_guard guard(ctx->device);
    const cublasSideMode_t s = side == 'L' ? CUBLAS_SIDE_LEFT : CUBLAS_SIDE_RIGHT;
    const cublasFillMode_t u = uplo == 'L' ? CUBLAS_FILL_MODE_LOWER : CUBLAS_FILL_MODE_UPPER;
    const cublasDiagType_t d = diag == 'U' ? CUBLAS_DIAG_UNIT : CUBLAS_DIAG_NON_UNIT;
    if (t == BACKEND_Z)
        BLAS_TRY(cublasZtrsmBatched_64(
            ctx->main.blas, s, u, op(trans), d, m, n, (const cuDoubleComplex *)alpha,
            (const cuDoubleComplex *const *)a, lda, (cuDoubleComplex *const *)b, ldb, count));
    else
        BLAS_TRY(cublasCtrsmBatched_64(
            ctx->main.blas, s, u, op(trans), d, m, n, (const cuFloatComplex *)alpha,
            (const cuFloatComplex *const *)a, lda, (cuFloatComplex *const *)b, ldb, count));
    return MOAO_OK;
}

static status geqrf(backend_ctx *ctx, backend_type t, int64_t count, int64_t m, int64_t n,
                    void *const *a, int64_t lda, void *const *tau) {
    gpu_device_guard guard(ctx->device);
    int info = 0;
    if (count > INT32_MAX)
        return gpu_too_many_blocks();
    if (t == BACKEND_Z)
        BLAS_TRY(cublasZgeqrfBatched(ctx->main.blas, (int)m, (int)n, (cuDoubleComplex *const *)a,
                                     (int)lda, (cuDoubleComplex *const *)tau, &info, (int)count));
    else
        BLAS_TRY(cublasCgeqrfBatched(ctx->main.blas, (int)m, (int)n, (cuFloatComplex *const *)a,
                                     (int)lda, (cuFloatComplex *const *)tau, &info, (int)count));
    return info == 0 ? MOAO_OK
                     : status_fail(MOAO_INTERNAL, "cuBLAS: argument %d of geqrfBatched", -info);
}

/* ---- the Cholesky factor */

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
            if (d > 0 && isfinite(d)) {
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

static status potrf(backend_ctx *ctx, backend_type t, char uplo, int64_t count, int64_t n,
                    void *const *a, int64_t lda, int *info) {
    gpu_device_guard guard(ctx->device);
    if (count > INT32_MAX)
        return gpu_too_many_blocks();
    if (t == BACKEND_Z)
        potrf_kernel<double>
            <<<(unsigned)count, THREADS, 0, ctx->main.stream>>>(uplo == 'U', (int)n, a, lda, info);
    else
        potrf_kernel<float>
            <<<(unsigned)count, THREADS, 0, ctx->main.stream>>>(uplo == 'U', (int)n, a, lda, info);
    LAUNCHED();
    return MOAO_OK;
}

extern "C" const backend_complex backend_complex_gpu = {
    .size = sizeof(backend_complex), .gemm = gemm, .trsm = trsm, .potrf = potrf, .geqrf = geqrf};
