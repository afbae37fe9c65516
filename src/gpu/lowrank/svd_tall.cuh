/* Singular values of tall or wide matrices, between svd_large.cu and svd_tall.cu. */
#ifndef MOAO_GPU_SVD_TALL_CUH
#define MOAO_GPU_SVD_TALL_CUH
#include "lowrank_gpu.h"
#include "qr_block.cuh"

namespace lowrank {

constexpr int BLOCK_ROWS = 1024; /* of a matrix that one thread block works on */

/* A call of lowrank_gesvj. */
struct SvdCall {
    char jobu, jobv;
    const batch_cut *cut;
    int64_t count;
    batch_dim m, n;
    batch_mat a, sigma, u, v;
    int64_t *rank;
    int *info;
    bool sorted; /* rows by their largest entry, columns by their norm: up to BLOCK_ROWS */
};

size_t tall_work(backend_type t, int64_t count, int64_t rows, int64_t cols, bool sorted);
status tall_svd(cudaStream_t s, backend_type t, const SvdCall &call, void *work, size_t lwork);

} // namespace lowrank
#endif
