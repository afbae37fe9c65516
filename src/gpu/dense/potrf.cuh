/* The Cholesky factor of a block in one launch (potrf_tiles.cu). */
#ifndef MOAO_GPU_POTRF_CUH
#define MOAO_GPU_POTRF_CUH

#include "gpu/core/common.cuh"

/* Factor of a symmetric matrix of order n (of its transpose for an upper triangle) by one kernel,
 * made for orders up to gpu_tune.potrf_tiles. base: columns of a larger matrix before it. *info
 * must be 0 or the order of an earlier failure, which is kept; a failure here is base + its column
 * + 1. work: potrf_tiles_work bytes. sms: multiprocessors to be used. */
size_t potrf_tiles_work(int64_t n);
/* Whether a block has the shared memory for it; else potrf_block, of orders up to POTRF_BLOCK. */
bool potrf_tiles_fits(backend_type t);
enum { POTRF_BLOCK = 64 };
status potrf_block(cudaStream_t s, backend_type t, char uplo, int64_t n, void *a, int64_t lda,
                   int64_t base, int *info);
status potrf_tiles(cudaStream_t s, int sms, backend_type t, char uplo, int64_t n, void *a,
                   int64_t lda, int64_t base, int *info, void *work);

#endif
