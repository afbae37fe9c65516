/* Launches of the kernels of block-Toeplitz products. */
#ifndef MOAO_GPU_TOEPLITZ_LAUNCH_CUH
#define MOAO_GPU_TOEPLITZ_LAUNCH_CUH

#include "gpu/core/error.cuh"
#include <cuda_runtime.h>

#define TOEPLITZ_SHARED ((size_t)224 << 10) /* of a block, at most */

template <class... Parameters, class... Arguments>
static inline status toeplitz_launch(cudaStream_t stream, dim3 grid, unsigned threads, size_t bytes,
                                     void (*kernel)(Parameters...), Arguments... arguments) {
    cudaLaunchConfig_t c = {};
    c.gridDim = grid;
    c.blockDim = dim3(threads);
    c.dynamicSmemBytes = bytes;
    c.stream = stream;
    if (bytes > (size_t)48 << 10)
        CUDA_TRY(
            cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes));
    CUDA_TRY(cudaLaunchKernelEx(&c, kernel, arguments...));
    return MOAO_OK;
}

#endif
