/* potrf: one kernel up to the order gpu_tune.potrf_tiles, recursion into trsm and syrk above. Where
 * a block has no shared memory for that kernel: up to POTRF_BLOCK. */
#include "potrf.cuh"

typedef struct {
    backend_ctx *ctx;
    backend_type t;
    char uplo;
    int64_t lda;
    int *info;
    void *tiles_work, *trsm_work;
} cholesky;

/* Order up to which one kernel makes the factor. */
static int64_t leaf(backend_type t) {
    return potrf_tiles_fits(t) ? gpu_tune.potrf_tiles : POTRF_BLOCK;
}
static int64_t split_of(backend_type t, int64_t n) {
    return backend_split(n, gpu_min(2048, leaf(t)));
}

/* Largest workspace of the trsm calls of the recursion. */
static size_t trsm_bytes(backend_type t, int64_t n) {
    if (n <= leaf(t))
        return 0;
    const int64_t n1 = split_of(t, n), n2 = n - n1;
    size_t most = gpu_trsm_work(t, n1, n2), a = trsm_bytes(t, n1), b = trsm_bytes(t, n2);
    most = a > most ? a : most;
    return b > most ? b : most;
}

static size_t tiles_bytes(int64_t n) { /* a multiple of what the trsm workspace is aligned to */
    return (size_t)gpu_ceil(potrf_tiles_work(gpu_min(n, gpu_tune.potrf_tiles)), 256) * 256;
}

size_t gpu_potrf_work(backend_type t, int64_t n) {
    return n > 0 ? tiles_bytes(n) + trsm_bytes(t, n) : 0;
}

static void *at(const cholesky *c, void *a, int64_t i, int64_t j) {
    return c->uplo == 'L' ? gpu_at(c->t, a, i, j, c->lda) : gpu_at(c->t, a, j, i, c->lda);
}

static status recurse(const cholesky *c, int64_t n, void *a, int64_t base) {
    gpu_queue *q = &c->ctx->main;
    if (n <= leaf(c->t) && !potrf_tiles_fits(c->t))
        return potrf_block(q->stream, c->t, c->uplo, n, a, c->lda, base, c->info);
    if (n <= leaf(c->t))
        return potrf_tiles(q->stream, c->ctx->sms, c->t, c->uplo, n, a, c->lda, base, c->info,
                           c->tiles_work);
    const int64_t n1 = split_of(c->t, n), n2 = n - n1;
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

status gpu_potrf(backend_ctx *ctx, backend_type t, char uplo, int64_t n, void *a, int64_t lda,
                 int *info, void *work, size_t lwork) {
    gpu_device_guard guard(ctx->device);
    if (lwork < gpu_potrf_work(t, n))
        return status_fail(MOAO_INPUT, "potrf: the workspace is too small");
    CUDA_TRY(cudaMemsetAsync(info, 0, sizeof *info, ctx->main.stream));
    if (n == 0)
        return MOAO_OK;
    const cholesky c = {ctx, t, uplo, lda, info, work, (char *)work + tiles_bytes(n)};
    return recurse(&c, n, a, 0);
}
