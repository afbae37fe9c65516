/* Launches of the kernels of block-Toeplitz products. */
#ifndef MOAO_GPU_TOEPLITZ_LAUNCH_CUH
#define MOAO_GPU_TOEPLITZ_LAUNCH_CUH

#include "gpu/core/capability.h"
#include <cuda_runtime.h>

/* Shared memory of a block, at most. */
static inline size_t toeplitz_shared() {
    return gpu_shared_most() < (size_t)224 << 10 ? gpu_shared_most() : (size_t)224 << 10;
}

template <class... Parameters, class... Arguments>
static inline status toeplitz_launch(cudaStream_t stream, dim3 grid, unsigned threads, size_t bytes,
                                     void (*kernel)(Parameters...), Arguments... arguments) {
    cudaLaunchConfig_t c = {};
    c.gridDim = grid;
    c.blockDim = dim3(threads);
    c.dynamicSmemBytes = bytes;
    c.stream = stream;
    GPU_TRY(gpu_allow_shared((const void *)kernel, bytes));
    CUDA_TRY(cudaLaunchKernelEx(&c, kernel, arguments...));
    return MOAO_OK;
}

#endif
