/* trsm and trmm on host data: what the two schedules share (host_data.cu). Panels of B, which lie
 * in the host's memory as A does, stream through buffers on the device. Three streams work at once:
 * `in` brings A and panels, the main stream computes, `out` takes results back.
 *
 * - Whole columns (host_columns.cu): every panel is one trsm or trmm.
 * - By halves (host_fp16.cu), where B has many columns: a panel is taken by halves of the
 * triangle, so that work begins before all of its rows are there, and results leave before all are
 * made. */
#ifndef MOAO_GPU_HOST_DATA_CUH
#define MOAO_GPU_HOST_DATA_CUH

#include "arrival.cuh"

#define HOST_BUFFERS ((int64_t)(sizeof(backend_ctx::stored) / sizeof(cudaEvent_t)))

/* Widths of the panels of B. */
struct host_widths {
    int64_t first, panel; /* of the first one, and of all others at most */
    int64_t most;         /* columns of a buffer */
    bool fp16;            /* they are taken by halves of the triangle */
};

/* A call in transit. Side R is described as if it were transposed: `rows` are along the triangle,
 * `columns` the other extent. */
struct host_call {
    backend_ctx *ctx;
    gpu_tri p;
    bool solve;
    int64_t n, other, lda, ldb;
    const void *alpha;
    char *dev, *work, *panels; /* A on the device, leading dimension n; work; buffers */
    size_t panel_bytes;
    const void *a; /* host */
    void *b;
    host_widths w;
};

static inline void *host_buffer(const host_call *s, int64_t k) {
    return s->panels + k % HOST_BUFFERS * s->panel_bytes;
}
/* Row i, column j of B or of a panel of it; side R: column i, row j. */
static inline void *host_place(const host_call *s, const void *b, int64_t i, int64_t j,
                               int64_t ld) {
    return s->p.side == 'L' ? gpu_at(s->p.t, b, i, j, ld) : gpu_at(s->p.t, b, j, i, ld);
}
static inline int64_t host_panel_ld(const host_call *s, int64_t w) {
    return s->p.side == 'L' ? s->n : w;
}

/* Start to copy the block of `rows` rows and w columns at (row, from) of B to the device, in stream
 * `in`. */
status host_fetch(const host_call *s, int64_t row, int64_t rows, int64_t from, int64_t w,
                  void *part, int64_t ld);
/* What `in` has been given so far comes before all that the main stream does next. */
status host_use_what_comes(const host_call *s);
/* Panel number k of w columns from `from` in transit into its buffer, when that is free. */
status host_load(const host_call *s, int64_t from, int64_t w, int64_t k);
/* A block of buffer k, at `part`, in transit back after what the main stream has been given so far.
 */
status host_store(const host_call *s, int64_t k, int64_t row, int64_t rows, int64_t from, int64_t w,
                  void *part, int64_t ld);
/* The triangle of order n at (at, at) of A in transit. */
status host_send_triangle(const host_call *s, int64_t at, int64_t n, gpu_arrival *wait);
/* The operation with that triangle on w columns of a panel. */
status host_compute(const host_call *s, int64_t at, int64_t n, int64_t w, const void *alpha,
                    void *part, int64_t ld, gpu_arrival *wait);
/* Of panel number k (from 1), `left` columns before the end. */
int64_t host_width(host_widths w, int64_t k, int64_t left);

/* The two schedules: all panels of B, first to last. */
status host_columns(const host_call *s);
status host_fp16(const host_call *s);

#endif
