/* What the batched routines take from the plugin, and what they give to its table. */
#ifndef MOAO_GPU_BATCH_GPU_H
#define MOAO_GPU_BATCH_GPU_H
#include "moao/backend.h"
#include <cuda_runtime.h>

/* For the life of the object the context's device is the current one. */
struct gpu_batch_call {
    int before;
    cudaStream_t stream;
    explicit gpu_batch_call(backend_ctx *ctx);
    ~gpu_batch_call();
};
batch_gemm_op gpu_batch_gemm;       /* batch_gemm.cu */
batch_scatter_op gpu_batch_scatter; /* batch_scatter.cu */
batch_gather_op gpu_batch_gather;   /* batch_gather.cu */
complex_potrf_op gpu_complex_potrf; /* complex_potrf.cu */
complex_gesvj_op gpu_complex_gesvj; /* complex_svd.cu */
extern "C" const backend_batch backend_batch_gpu;
extern "C" const backend_complex backend_complex_gpu; /* complex.cu */

#endif
