/* Triangles that arrive while they are used (arrival.cu), and trsm and trmm with them, piece by
 * piece (trsm.cu, trmm.cu).
 *
 * A triangle travels in block columns, in the order in which they can be used: from its end where
 * `descending`. A piece is a block on the diagonal and the rows off the diagonal that come with it
 * (below it, or above it of an upper triangle). An event for each piece tells that it is there. */
#ifndef MOAO_GPU_ARRIVAL_CUH
#define MOAO_GPU_ARRIVAL_CUH

#include "gpu/core/common.cuh"

/* Rows and columns of a piece, and the rows off the diagonal that come with it: from `rest`, `left`
 * of them. */
struct gpu_piece {
    int64_t at, size, rest, left;
};

struct gpu_arrival {
    int64_t n, block;       /* order of the triangle; columns of the first piece */
    bool descending, upper; /* pieces arrive from the end of the triangle; which triangle it is */
    bool doubling;          /* each piece is as long as all before it; else they are equal */
    int pieces, waited;     /* number of them; the last one that `stream` waits for, -1: none */
    cudaEvent_t *event;
    cudaStream_t stream; /* the stream that waits */
};

/* Start the transfer of a triangle in stream `in`; solve: for trsm, else for trmm. doubling: for a
 * link that is much faster than the arithmetic, whose last pieces then are few and large. */
status gpu_send_triangle(backend_ctx *ctx, gpu_tri p, bool solve, bool doubling, int64_t n,
                         const void *src, int64_t lds, void *dst, int64_t ldd, gpu_arrival *w);
/* Start to copy a block of `rows` rows and `columns` columns on stream q. */
status gpu_send_block(cudaStream_t q, backend_type t, int64_t rows, int64_t columns,
                      const void *src, int64_t lds, void *dst, int64_t ldd);
/* Wait until rows and columns [from, to) of the triangle can be used; NULL: nothing to wait for. */
status gpu_await(gpu_arrival *w, int64_t from, int64_t to);
gpu_piece gpu_piece_of(const gpu_arrival *w, int k);
/* Is any of it still to be waited for? */
static inline bool gpu_arriving(const gpu_arrival *w) {
    return w && w->waited < w->pieces - 1;
}
/* Does the part of B at a piece go into the parts at its other rows (else they go into it)? */
static inline bool gpu_piece_spreads(const gpu_tri *p) {
    return (p->side == 'L') == (p->trans == 'N');
}
/* That: target := alpha op(block off the diagonal) source + beta target; side R likewise. */
status gpu_piece_product(gpu_queue *q, const gpu_tri *p, gpu_piece c, int64_t other,
                         const void *alpha, const void *a, int64_t lda, const void *beta, void *b,
                         int64_t ldb);

/* ---- trsm: begin, then for each piece k in turn `make`, after which the rows of B at the piece
 * are final, and `use`, which takes them from the rows to come */
struct gpu_solve {
    backend_ctx *ctx;
    gpu_queue *q;
    gpu_tri p;
    const void *alpha;
    const void *a; /* the whole triangle */
    void *b;
    int64_t n, other, lda, ldb, nb;
    int64_t group, groups,
        panel;        /* rows per group of inverses, their number, right-hand sides per copy */
    int64_t at_group; /* the group whose inverses are in use, -1: none */
    void *inv[2], *copy, *tmp;
    gpu_arrival *wait, wait_side;
};
/* alpha is not 0, B is not empty. */
void gpu_trsm_begin(gpu_solve *s, backend_ctx *ctx, gpu_tri p, int64_t m, int64_t n,
                    const void *alpha, const void *a, int64_t lda, void *b, int64_t ldb, void *work,
                    gpu_arrival *w);
status gpu_trsm_make(gpu_solve *s, int k);
status gpu_trsm_use(gpu_solve *s, int k);

/* ---- trmm: begin, then `make` for each piece k in turn, after which the rows of B at the piece
 * are final, but where pieces spread, only after the last one */
struct gpu_multiply {
    backend_ctx *ctx;
    gpu_queue *q;
    gpu_tri p;
    const void *a;
    void *b;
    int64_t other, lda, ldb;
    void *copy, *blocks;
    const void *alpha;
    gpu_arrival *wait;
    bool loaded; /* the side stream makes the copies of the next leaf */
};
void gpu_trmm_begin(gpu_multiply *s, backend_ctx *ctx, gpu_tri p, int64_t m, int64_t n,
                    const void *alpha, const void *a, int64_t lda, void *b, int64_t ldb, void *work,
                    gpu_arrival *w);
status gpu_trmm_make(gpu_multiply *s, int k);

#endif
