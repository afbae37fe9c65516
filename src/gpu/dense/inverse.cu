/* Inverses and solves from Cholesky factors: trtri, lauum, potri, poti, potrs, posv. */
#include "gpu/core/common.cuh"

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

/* ---- trtri: inverses of diagonal blocks, then L21 := -inv(L22) L21 inv(L11) on doubling sizes */

static int64_t trtri_block(backend_type t, int64_t n) {
    int64_t nb = gpu_invert_base(t);
    while (nb < gpu_tune.trtri_nb && nb < n)
        nb *= 2;
    return nb;
}

/* Diagonal blocks inverted at once: inverses and scratch in about 32 MiB. */
static int64_t trtri_group(backend_type t, int64_t n, int64_t nb) {
    const int64_t most = ((int64_t)24 << 20) / (nb * nb * (int64_t)backend_size(t));
    return gpu_min(gpu_ceil(n, nb), most > 1 ? most : 1);
}

size_t gpu_trtri_work(backend_type t, int64_t n) {
    if (n <= 0)
        return 0;
    const int64_t nb = trtri_block(t, n), group = trtri_group(t, n, nb);
    const size_t blocks =
        (size_t)(group * nb * nb) * backend_size(t) + gpu_invert_tmp(t, group * nb, nb);
    return larger(blocks, n > nb ? gpu_trmm_work_most(t, n, n) : 0);
}

/* info := the number of the first zero on the diagonal, or 0. */
template <class T> __global__ void first_zero(int64_t n, const T *a, int64_t lda, int *info) {
    __shared__ int first;
    if (threadIdx.x == 0)
        first = INT32_MAX;
    __syncthreads();
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x)
        if (a[i * (lda + 1)] == T(0))
            atomicMin(&first, (int)i + 1);
    __syncthreads();
    if (threadIdx.x == 0)
        *info = first == INT32_MAX ? 0 : first;
}

template <class T>
static status find_zero(cudaStream_t s, int64_t n, const void *a, int64_t lda, int *info) {
    first_zero<T><<<1, 1024, 0, s>>>(n, (const T *)a, lda, info);
    LAUNCHED();
    return MOAO_OK;
}

static status trtri_blocks(gpu_queue *q, backend_type t, char uplo, char diag, int64_t n, void *a,
                           int64_t lda, int64_t nb, void *work) {
    const int64_t group = trtri_group(t, n, nb);
    void *tmp = gpu_at(t, work, 0, group * nb, nb);
    for (int64_t g = 0; g < n; g += group * nb) {
        const int64_t rows = gpu_min(group * nb, n - g);
        GPU_TRY(
            gpu_invert_blocks(q, t, uplo, diag, rows, gpu_at(t, a, g, g, lda), lda, nb, work, tmp));
        GPU_TRY(gpu_place_blocks(q->stream, t, uplo, diag, rows, nb, work, gpu_at(t, a, g, g, lda),
                                 lda));
    }
    return MOAO_OK;
}

static status trtri_run(backend_ctx *ctx, backend_type t, char uplo, char diag, int64_t n, void *a,
                        int64_t lda, void *work) {
    const int64_t nb = trtri_block(t, n);
    const void *one = gpu_scalar(t, 1), *minus = gpu_scalar(t, -1);
    GPU_TRY(trtri_blocks(&ctx->main, t, uplo, diag, n, a, lda, nb, work));
    for (int64_t h = nb; h < n; h *= 2)
        for (int64_t o = 0; o + h < n; o += 2 * h) {
            const int64_t h2 = gpu_min(h, n - o - h);
            const bool lower = uplo == 'L';
            void *a1 = gpu_at(t, a, o, o, lda), *a2 = gpu_at(t, a, o + h, o + h, lda);
            void *off = lower ? gpu_at(t, a, o + h, o, lda) : gpu_at(t, a, o, o + h, lda);
            const int64_t rows = lower ? h2 : h, cols = lower ? h : h2;
            GPU_TRY(gpu_trmm_run(ctx, gpu_tri{t, 'L', uplo, 'N', diag}, rows, cols, minus,
                                 lower ? a2 : a1, lda, off, lda, work, NULL));
            GPU_TRY(gpu_trmm_run(ctx, gpu_tri{t, 'R', uplo, 'N', diag}, rows, cols, one,
                                 lower ? a1 : a2, lda, off, lda, work, NULL));
        }
    return MOAO_OK;
}

status gpu_trtri(backend_ctx *ctx, backend_type t, char uplo, char diag, int64_t n, void *a,
                 int64_t lda, int *info, void *work, size_t lwork) {
    gpu_device_guard guard(ctx->device);
    cudaStream_t s = ctx->main.stream;
    if (lwork < gpu_trtri_work(t, n))
        return status_fail(MOAO_INPUT, "trtri: the workspace is too small");
    if (n == 0 || diag == 'U')
        CUDA_TRY(cudaMemsetAsync(info, 0, sizeof *info, s));
    else
        GPU_TRY(GPU_DISPATCH_REAL(t, find_zero, s, n, a, lda, info));
    return n > 0 ? trtri_run(ctx, t, uplo, diag, n, a, lda, work) : MOAO_OK;
}

/* ---- lauum: A11 := L11' L11 + L21' L21, L21 := L22' L21, A22 := L22' L22, recursively */

size_t gpu_lauum_work(backend_type t, int64_t n) {
    const int64_t k = gpu_min(n, gpu_tune.lauum_leaf);
    return n > 0
               ? larger((size_t)(k * k) * backend_size(t), n > k ? gpu_trmm_work_most(t, n, n) : 0)
               : 0;
}

static status lauum_run(backend_ctx *ctx, backend_type t, char uplo, int64_t n, void *a,
                        int64_t lda, void *work) {
    gpu_queue *q = &ctx->main;
    const void *one = gpu_scalar(t, 1);
    const bool lower = uplo == 'L';
    const char trans = lower ? 'T' : 'N';
    if (n <= gpu_tune.lauum_leaf) {
        GPU_TRY(gpu_copy_block(q->stream, t, uplo, false, n, n, a, lda, work, n));
        return gpu_syrk_run(q, t, uplo, trans, n, n, one, work, n, gpu_scalar(t, 0), a, lda);
    }
    const int64_t n1 = backend_split(n, gpu_tune.lauum_leaf), n2 = n - n1;
    void *off = lower ? gpu_at(t, a, n1, 0, lda) : gpu_at(t, a, 0, n1, lda),
         *a2 = gpu_at(t, a, n1, n1, lda);
    GPU_TRY(lauum_run(ctx, t, uplo, n1, a, lda, work));
    GPU_TRY(gpu_syrk_run(q, t, uplo, trans, n1, n2, one, off, lda, one, a, lda));
    GPU_TRY(gpu_trmm_run(ctx, gpu_tri{t, lower ? 'L' : 'R', uplo, 'T', 'N'}, lower ? n2 : n1,
                         lower ? n1 : n2, one, a2, lda, off, lda, work, NULL));
    return lauum_run(ctx, t, uplo, n2, a2, lda, work);
}

status gpu_lauum(backend_ctx *ctx, backend_type t, char uplo, int64_t n, void *a, int64_t lda,
                 void *work, size_t lwork) {
    gpu_device_guard guard(ctx->device);
    if (lwork < gpu_lauum_work(t, n))
        return status_fail(MOAO_INPUT, "lauum: the workspace is too small");
    return n > 0 ? lauum_run(ctx, t, uplo, n, a, lda, work) : MOAO_OK;
}

/* ---- what is made of them */

status gpu_potri(backend_ctx *ctx, backend_type t, char uplo, int64_t n, void *a, int64_t lda,
                 int *info, void *work, size_t lwork) {
    GPU_TRY(gpu_trtri(ctx, t, uplo, 'N', n, a, lda, info, work, lwork));
    return gpu_lauum(ctx, t, uplo, n, a, lda, work, lwork);
}

/* The first failure is potrf's: what trtri then reports on the unusable factor is kept apart. */
status gpu_poti(backend_ctx *ctx, backend_type t, char uplo, int64_t n, void *a, int64_t lda,
                int *info, void *work, size_t lwork) {
    gpu_device_guard guard(ctx->device);
    GPU_TRY(gpu_potrf(ctx, t, uplo, n, a, lda, info, work, lwork));
    if (n == 0)
        return MOAO_OK;
    GPU_TRY(trtri_run(ctx, t, uplo, 'N', n, a, lda, work));
    return gpu_lauum(ctx, t, uplo, n, a, lda, work, lwork);
}

status gpu_potrs(backend_ctx *ctx, backend_type t, char uplo, int64_t n, int64_t nrhs,
                 const void *a, int64_t lda, void *b, int64_t ldb, void *work, size_t lwork) {
    const void *one = gpu_scalar(t, 1);
    GPU_TRY(gpu_trsm(ctx, t, 'L', uplo, uplo == 'L' ? 'N' : 'T', 'N', n, nrhs, one, a, lda, b, ldb,
                     work, lwork));
    return gpu_trsm(ctx, t, 'L', uplo, uplo == 'L' ? 'T' : 'N', 'N', n, nrhs, one, a, lda, b, ldb,
                    work, lwork);
}

status gpu_posv(backend_ctx *ctx, backend_type t, char uplo, int64_t n, int64_t nrhs, void *a,
                int64_t lda, void *b, int64_t ldb, int *info, void *work, size_t lwork) {
    GPU_TRY(gpu_potrf(ctx, t, uplo, n, a, lda, info, work, lwork));
    return gpu_potrs(ctx, t, uplo, n, nrhs, a, lda, b, ldb, work, lwork);
}
