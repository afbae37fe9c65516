/* A triangle in transit to the device, in pieces. */
#include "arrival.cuh"

/* Blocks before the k-th piece, in the order of arrival. */
static int64_t piece_start(const gpu_arrival *w, int k) {
    const int64_t start = !w->doubling ? k : k > 0 ? (int64_t)1 << (k - 1) : 0;
    return gpu_min(start, gpu_ceil(w->n, w->block));
}

gpu_piece gpu_piece_of(const gpu_arrival *w, int k) {
    const int64_t blocks = gpu_ceil(w->n, w->block), first = piece_start(w, k),
                  end = piece_start(w, k + 1);
    const int64_t at = (w->descending ? blocks - end : first) * w->block,
                  size = gpu_min((w->descending ? blocks - first : end) * w->block, w->n) - at;
    return w->upper ? gpu_piece{at, size, 0, at} : gpu_piece{at, size, at + size, w->n - at - size};
}

status gpu_await(gpu_arrival *w, int64_t from, int64_t to) {
    if (!w)
        return MOAO_OK;
    const int64_t block = w->descending ? gpu_ceil(w->n, w->block) - 1 - from / w->block
                                        : (to - 1) / w->block; /* the last one to arrive */
    int last = 0;
    while (piece_start(w, last + 1) <= block)
        last++;
    if (last > w->waited) {
        CUDA_TRY(cudaStreamWaitEvent(w->stream, w->event[last], 0));
        w->waited = last;
    }
    return MOAO_OK;
}

status gpu_send_block(cudaStream_t q, backend_type t, int64_t rows, int64_t columns,
                      const void *src, int64_t lds, void *dst, int64_t ldd) {
    const size_t e = backend_size(t);
    CUDA_TRY(cudaMemcpy2DAsync(dst, (size_t)ldd * e, src, (size_t)lds * e, (size_t)rows * e,
                               (size_t)columns, cudaMemcpyDefault, q));
    return MOAO_OK;
}

status gpu_send_triangle(backend_ctx *ctx, gpu_tri p, bool solve, bool doubling, int64_t n,
                         const void *src, int64_t lds, void *dst, int64_t ldd, gpu_arrival *w) {
    const bool descending = backend_source_first(p.side, p.uplo, p.trans) != solve,
               upper = p.uplo == 'U';
    const int64_t nb = gpu_tune.trsm_nb_narrow > gpu_tune.trsm_nb_wide ? gpu_tune.trsm_nb_narrow
                                                                       : gpu_tune.trsm_nb_wide;
    const int64_t block = gpu_ceil(gpu_ceil(n, doubling ? 16 : GPU_PIECES), nb) * nb;
    *w = gpu_arrival{n, block, descending, upper, doubling, 0, -1, ctx->piece, ctx->main.stream};
    while (piece_start(w, w->pieces) < gpu_ceil(n, block))
        w->pieces++;
    for (int k = 0; k < w->pieces; k++) {
        const gpu_piece c = gpu_piece_of(w, k);
        const int64_t i = upper ? 0 : c.at;
        GPU_TRY(gpu_send_block(ctx->in, p.t, c.size + c.left, c.size,
                               gpu_at(p.t, src, i, c.at, lds), lds, gpu_at(p.t, dst, i, c.at, ldd),
                               ldd));
        CUDA_TRY(cudaEventRecord(w->event[k], ctx->in));
    }
    return MOAO_OK;
}

status gpu_piece_product(gpu_queue *q, const gpu_tri *p, gpu_piece c, int64_t other,
                         const void *alpha, const void *a, int64_t lda, const void *beta, void *b,
                         int64_t ldb) {
    const bool spreads = gpu_piece_spreads(p), left = p->side == 'L';
    const int64_t source = spreads ? c.at : c.rest, target = spreads ? c.rest : c.at;
    const int64_t from = spreads ? c.size : c.left, to = spreads ? c.left : c.size;
    const void *off = gpu_at(p->t, a, c.rest, c.at, lda),
               *x = left ? gpu_at(p->t, b, source, 0, ldb) : gpu_at(p->t, b, 0, source, ldb);
    void *y = left ? gpu_at(p->t, b, target, 0, ldb) : gpu_at(p->t, b, 0, target, ldb);
    if (left)
        return blas_gemm(q, p->t, p->trans, 'N', to, other, from, alpha, off, lda, x, ldb, beta, y,
                         ldb);
    return blas_gemm(q, p->t, 'N', p->trans, other, to, from, alpha, x, ldb, off, lda, beta, y,
                     ldb);
}
