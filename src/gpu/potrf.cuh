/* The Cholesky factor of a panel, one launch per 64 columns (potrf_step.cu). */
#ifndef MOAO_GPU_POTRF_CUH
#define MOAO_GPU_POTRF_CUH

#include "common.cuh"

#define POTRF_TILE 64

/* Bytes of scratch for potrf_panel. */
size_t potrf_panel_work(backend_type t);

/* The first `cols` columns of the factor of a symmetric matrix of order `rows` (of its transpose
 * for an upper triangle), with all the rows below: what a blocked right-looking method calls its
 * panel. base: columns of the whole matrix before it, a multiple of 64. The last diagonal tile
 * stays in scratch until the next panel, told by `follows`, puts it in its place; a panel that ends
 * the matrix does so itself. *info must be 0 or the order of an earlier failure, which is kept; a
 * failure here is base + its column + 1. */
status potrf_panel(cudaStream_t s, backend_type t, char uplo, int64_t rows, int64_t cols,
                   bool follows, void *a, int64_t lda, int64_t base, int *info, void *scratch);

#endif
