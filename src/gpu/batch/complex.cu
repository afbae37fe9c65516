/* Batched operations on complex matrices: cuBLAS's products, solves and reflectors on arrays of
 * pointers; the Cholesky factor, which it lacks, is in complex_potrf.cu, singular values are in
 * complex_svd.cu. */
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

extern "C" const backend_complex backend_complex_gpu = {.size = sizeof(backend_complex),
                                                        .gemm = gemm,
                                                        .trsm = trsm,
                                                        .potrf = gpu_complex_potrf,
                                                        .geqrf = geqrf,
                                                        .gesvj = gpu_complex_gesvj};
