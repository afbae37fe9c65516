/* potrf: one launch per 64 columns up to potrf_small; above, panels with the next panel made beside
 * the update by the last one (two streams); above potrf_blocked, recursion into trsm and syrk. */
#include "potrf.cuh"

typedef struct {
    backend_ctx *ctx;
    backend_type t;
    char uplo;
    int64_t lda;
    int *info;
    void *scratch, *trsm_work;
} cholesky;

static int64_t split_of(int64_t n) {
    return backend_split(n, gpu_min(2048, gpu_tune.potrf_blocked));
}

/* Largest workspace of the trsm calls of the recursion. */
static size_t trsm_bytes(backend_type t, int64_t n) {
    if (n <= gpu_tune.potrf_blocked)
        return 0;
    const int64_t n1 = split_of(n), n2 = n - n1;
    size_t most = gpu_trsm_work(t, n1, n2), a = trsm_bytes(t, n1), b = trsm_bytes(t, n2);
    most = a > most ? a : most;
    return b > most ? b : most;
}

size_t gpu_potrf_work(backend_type t, int64_t n) {
    return n > 0 ? potrf_panel_work(t) + trsm_bytes(t, n) : 0;
}

static void *at(const cholesky *c, void *a, int64_t i, int64_t j) {
    return c->uplo == 'L' ? gpu_at(c->t, a, i, j, c->lda) : gpu_at(c->t, a, j, i, c->lda);
}

/* Columns [j, j + w) of the triangle from row j on -= panel (rows j.., columns k .. k + kb) times
 * its rows j .. j + w. */
static status update_columns(const cholesky *c, gpu_queue *q, void *a, int64_t n, int64_t j,
                             int64_t w, int64_t k, int64_t kb) {
    const backend_type t = c->t;
    const void *one = gpu_scalar(t, 1), *minus = gpu_scalar(t, -1);
    const bool lower = c->uplo == 'L';
    const char nt = lower ? 'N' : 'T';
    void *head = at(c, a, j, k), *rest = at(c, a, j + w, k);
    GPU_TRY(
        gpu_syrk_run(q, t, c->uplo, nt, w, kb, minus, head, c->lda, one, at(c, a, j, j), c->lda));
    if (n <= j + w)
        return MOAO_OK;
    if (lower)
        return blas_gemm(q, t, 'N', 'T', n - j - w, w, kb, minus, rest, c->lda, head, c->lda, one,
                         at(c, a, j + w, j), c->lda);
    return blas_gemm(q, t, 'T', 'N', w, n - j - w, kb, minus, head, c->lda, rest, c->lda, one,
                     at(c, a, j + w, j), c->lda);
}

/* A panel of w columns with all n rows, in halves down to potrf_inner: wider ones leave potrf_step
 * too many tiles. */
static status panel(const cholesky *c, int64_t n, int64_t w, bool follows, void *a, int64_t base) {
    if (w <= gpu_tune.potrf_inner || n <= gpu_tune.potrf_small)
        return potrf_panel(c->ctx->main.stream, c->t, c->uplo, n, w, follows, a, c->lda, base,
                           c->info, c->scratch);
    const int64_t w1 = backend_split(w, gpu_tune.potrf_inner), w2 = w - w1;
    GPU_TRY(panel(c, n, w1, follows, a, base));
    GPU_TRY(update_columns(c, &c->ctx->main, a, n, w1, w2, 0, w1));
    return panel(c, n - w1, w2, true, at(c, a, w1, w1), base + w1);
}

static status blocked(const cholesky *c, int64_t n, void *a, int64_t base) {
    gpu_queue *q = &c->ctx->main, *side = &c->ctx->side;
    const int64_t nb = gpu_tune.potrf_panel;
    bool beside = false; /* the side stream has an update that the main one has not waited for */
    for (int64_t k = 0; k < n; k += nb) {
        const int64_t w = gpu_min(nb, n - k), next = k + w;
        GPU_TRY(panel(c, n - k, w, k > 0, at(c, a, k, k), base + k));
        if (next >= n)
            break;
        const int64_t nw = gpu_min(nb, n - next), after = next + nw;
        CUDA_TRY(cudaEventRecord(c->ctx->fork, q->stream));
        if (beside)
            CUDA_TRY(cudaStreamWaitEvent(q->stream, c->ctx->join, 0));
        beside = after < n;
        if (beside) {
            CUDA_TRY(cudaStreamWaitEvent(side->stream, c->ctx->fork, 0));
            GPU_TRY(gpu_syrk_run(side, c->t, c->uplo, c->uplo == 'L' ? 'N' : 'T', n - after, w,
                                 gpu_scalar(c->t, -1), at(c, a, after, k), c->lda,
                                 gpu_scalar(c->t, 1), at(c, a, after, after), c->lda));
            CUDA_TRY(cudaEventRecord(c->ctx->join, side->stream));
        }
        GPU_TRY(update_columns(c, q, a, n, next, nw, k, w));
    }
    if (beside)
        CUDA_TRY(cudaStreamWaitEvent(q->stream, c->ctx->join, 0));
    return MOAO_OK;
}

static status recurse(const cholesky *c, int64_t n, void *a, int64_t base) {
    gpu_queue *q = &c->ctx->main;
    if (n <= gpu_tune.potrf_small)
        return panel(c, n, n, false, a, base);
    if (n <= gpu_tune.potrf_blocked)
        return blocked(c, n, a, base);
    const int64_t n1 = split_of(n), n2 = n - n1;
    const bool lower = c->uplo == 'L';
    const gpu_tri p = {c->t, lower ? 'R' : 'L', c->uplo, 'T', 'N'};
    void *off = at(c, a, n1, 0), *a2 = at(c, a, n1, n1);
    GPU_TRY(recurse(c, n1, a, base));
    GPU_TRY(gpu_trsm_run(c->ctx, p, lower ? n2 : n1, lower ? n1 : n2, gpu_scalar(c->t, 1), a,
                         c->lda, off, c->lda, c->trsm_work, NULL));
    GPU_TRY(gpu_syrk_run(q, c->t, c->uplo, lower ? 'N' : 'T', n2, n1, gpu_scalar(c->t, -1), off,
                         c->lda, gpu_scalar(c->t, 1), a2, c->lda));
    return recurse(c, n2, a2, base + n1);
}

status gpu_potrf(GPU_FACTOR_ARGS) {
    gpu_device_guard guard(ctx->device);
    if (!backend_is_real(t) || !backend_is(uplo, "LU") || !backend_ld_ok(n, lda) || n > INT32_MAX)
        return status_fail(MOAO_INPUT, "potrf: an argument is out of range");
    if (lwork < gpu_potrf_work(t, n))
        return status_fail(MOAO_INPUT, "potrf: the workspace is too small");
    CUDA_TRY(cudaMemsetAsync(info, 0, sizeof *info, ctx->main.stream));
    if (n == 0)
        return MOAO_OK;
    const cholesky c = {ctx, t, uplo, lda, info, work, (char *)work + potrf_panel_work(t)};
    return recurse(&c, n, a, 0);
}
