/* symm, syrk, syr2k: recursion into gemm on the blocks off the diagonal. */
#include "gpu/core/common.cuh"

size_t gpu_symm_work(backend_type t, int64_t n) {
    const int64_t k = gpu_min(n, gpu_tune.symm_leaf);
    return n > 0 ? (size_t)(k * k) * backend_size(t) : 0;
}

typedef struct {
    gpu_queue *q;
    backend_type t;
    char side, uplo;
    int64_t other, lda, ldb, ldc;
    const void *alpha, *beta;
    void *full;
} symmetric;

/* C += or = for one side: alpha op(A) B or alpha B op(A), A rows x cols as op gives it. */
static status times(const symmetric *s, char trans, int64_t to, int64_t from, const void *a,
                    int64_t lda, const void *b, const void *beta, void *c) {
    if (s->side == 'L')
        return blas_gemm(s->q, s->t, trans, 'N', to, s->other, from, s->alpha, a, lda, b, s->ldb,
                         beta, c, s->ldc);
    return blas_gemm(s->q, s->t, 'N', trans, s->other, to, from, s->alpha, b, s->ldb, a, lda, beta,
                     c, s->ldc);
}

static status symm_recurse(const symmetric *s, int64_t n, const void *a, const void *b, void *c) {
    const backend_type t = s->t;
    if (n <= gpu_tune.symm_leaf) {
        GPU_TRY(gpu_copy_block(s->q->stream, t, s->uplo == 'L' ? 'S' : 'T', false, n, n, a, s->lda,
                               s->full, n));
        return times(s, 'N', n, n, s->full, n, b, s->beta, c);
    }
    const int64_t n1 = backend_split(n, gpu_tune.symm_leaf), n2 = n - n1;
    const bool left = s->side == 'L', lower = s->uplo == 'L';
    const void *off = lower ? gpu_at(t, a, n1, 0, s->lda) : gpu_at(t, a, 0, n1, s->lda);
    const void *b2 = left ? gpu_at(t, b, n1, 0, s->ldb) : gpu_at(t, b, 0, n1, s->ldb);
    void *c2 = left ? gpu_at(t, c, n1, 0, s->ldc) : gpu_at(t, c, 0, n1, s->ldc);
    const char to1 = left == lower ? 'T' : 'N', to2 = left == lower ? 'N' : 'T';
    GPU_TRY(symm_recurse(s, n1, a, b, c));
    GPU_TRY(symm_recurse(s, n2, gpu_at(t, a, n1, n1, s->lda), b2, c2));
    GPU_TRY(times(s, to1, n1, n2, off, s->lda, b2, gpu_scalar(t, 1), c));
    return times(s, to2, n2, n1, off, s->lda, b, gpu_scalar(t, 1), c2);
}

/* Single precision, a long triangle and few right-hand sides. */
static bool vendor_wins(backend_type t, int64_t n, int64_t other) {
    return t == BACKEND_S && n > 4096 && other <= 1024;
}

status gpu_symm(backend_ctx *ctx, backend_type t, char side, char uplo, int64_t m, int64_t n,
                const void *alpha, const void *a, int64_t lda, const void *b, int64_t ldb,
                const void *beta, void *c, int64_t ldc, void *work, size_t lwork) {
    gpu_device_guard guard(ctx->device);
    const int64_t order = side == 'L' ? m : n;
    if (lwork < gpu_symm_work(t, order))
        return status_fail(MOAO_INPUT, "symm: the workspace is too small");
    const symmetric s = {&ctx->main, t,     side, uplo, side == 'L' ? n : m, lda, ldb,
                         ldc,        alpha, beta, work};
    if (m == 0 || n == 0)
        return MOAO_OK;
    if (backend_equals(t, alpha, 0)) /* a gemm without inner size scales C by beta */
        return blas_gemm(&ctx->main, t, 'N', 'N', m, n, 0, alpha, c, ldc, c, n, beta, c, ldc);
    if (vendor_wins(t, order, s.other))
        return blas_symm(&ctx->main, side, uplo, m, n, alpha, a, lda, b, ldb, beta, c, ldc);
    return symm_recurse(&s, order, a, b, c);
}

/* Order up to which the vendor's rank-k update is used. It is at the ceiling for short inner sizes;
 * with a long one it is slow in double precision when the leading dimension is large, and in single
 * precision from order 8192 on with the little memory that a context gives it. */
static int64_t rank_leaf(backend_type t, int64_t k, int64_t ldc) {
    if (ldc <= 32768 && k <= 1024)
        return INT64_MAX;
    return t == BACKEND_D && k > 4096 ? gpu_min(gpu_tune.syrk_leaf, 512) : gpu_tune.syrk_leaf;
}

status gpu_syrk_run(gpu_queue *q, backend_type t, char uplo, char trans, int64_t n, int64_t k,
                    const void *alpha, const void *a, int64_t lda, const void *beta, void *c,
                    int64_t ldc) {
    if (n == 0)
        return MOAO_OK;
    if (n <= rank_leaf(t, k, ldc))
        return blas_syrk(q, t, uplo, trans, n, k, alpha, a, lda, beta, c, ldc);
    const int64_t n1 = backend_split(n, gpu_min(rank_leaf(t, k, ldc), 1024)), n2 = n - n1;
    const void *a2 = trans == 'N' ? gpu_at(t, a, n1, 0, lda) : gpu_at(t, a, 0, n1, lda);
    const char ta = trans == 'N' ? 'N' : 'T', tb = trans == 'N' ? 'T' : 'N';
    GPU_TRY(gpu_syrk_run(q, t, uplo, trans, n1, k, alpha, a, lda, beta, c, ldc));
    if (uplo == 'L')
        GPU_TRY(blas_gemm(q, t, ta, tb, n2, n1, k, alpha, a2, lda, a, lda, beta,
                          gpu_at(t, c, n1, 0, ldc), ldc));
    else
        GPU_TRY(blas_gemm(q, t, ta, tb, n1, n2, k, alpha, a, lda, a2, lda, beta,
                          gpu_at(t, c, 0, n1, ldc), ldc));
    return gpu_syrk_run(q, t, uplo, trans, n2, k, alpha, a2, lda, beta, gpu_at(t, c, n1, n1, ldc),
                        ldc);
}

static status syr2k_recurse(gpu_queue *q, backend_type t, char uplo, char trans, int64_t n,
                            int64_t k, const void *alpha, const void *a, int64_t lda, const void *b,
                            int64_t ldb, const void *beta, void *c, int64_t ldc) {
    if (n == 0)
        return MOAO_OK;
    if (n <= rank_leaf(t, k, ldc))
        return blas_syr2k(q, t, uplo, trans, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    const int64_t n1 = backend_split(n, gpu_min(rank_leaf(t, k, ldc), 1024)), n2 = n - n1;
    const void *a2 = trans == 'N' ? gpu_at(t, a, n1, 0, lda) : gpu_at(t, a, 0, n1, lda);
    const void *b2 = trans == 'N' ? gpu_at(t, b, n1, 0, ldb) : gpu_at(t, b, 0, n1, ldb);
    const char ta = trans == 'N' ? 'N' : 'T', tb = trans == 'N' ? 'T' : 'N';
    const void *one = gpu_scalar(t, 1);
    void *off = uplo == 'L' ? gpu_at(t, c, n1, 0, ldc) : gpu_at(t, c, 0, n1, ldc);
    GPU_TRY(syr2k_recurse(q, t, uplo, trans, n1, k, alpha, a, lda, b, ldb, beta, c, ldc));
    if (uplo == 'L') {
        GPU_TRY(blas_gemm(q, t, ta, tb, n2, n1, k, alpha, a2, lda, b, ldb, beta, off, ldc));
        GPU_TRY(blas_gemm(q, t, ta, tb, n2, n1, k, alpha, b2, ldb, a, lda, one, off, ldc));
    } else {
        GPU_TRY(blas_gemm(q, t, ta, tb, n1, n2, k, alpha, a, lda, b2, ldb, beta, off, ldc));
        GPU_TRY(blas_gemm(q, t, ta, tb, n1, n2, k, alpha, b, ldb, a2, lda, one, off, ldc));
    }
    return syr2k_recurse(q, t, uplo, trans, n2, k, alpha, a2, lda, b2, ldb, beta,
                         gpu_at(t, c, n1, n1, ldc), ldc);
}

status gpu_syrk(backend_ctx *ctx, backend_type t, char uplo, char trans, int64_t n, int64_t k,
                const void *alpha, const void *a, int64_t lda, const void *beta, void *c,
                int64_t ldc, void *work, size_t lwork) {
    gpu_device_guard guard(ctx->device);
    (void)work, (void)lwork;
    if (backend_equals(t, alpha, 0))
        k = 0;
    return gpu_syrk_run(&ctx->main, t, uplo, trans, n, k, alpha, a, lda, beta, c, ldc);
}

status gpu_syr2k(backend_ctx *ctx, backend_type t, char uplo, char trans, int64_t n, int64_t k,
                 const void *alpha, const void *a, int64_t lda, const void *b, int64_t ldb,
                 const void *beta, void *c, int64_t ldc, void *work, size_t lwork) {
    gpu_device_guard guard(ctx->device);
    (void)work, (void)lwork;
    if (backend_equals(t, alpha, 0))
        k = 0;
    return syr2k_recurse(&ctx->main, t, uplo, trans, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
