/* The one way in which the plugin reports failures: every function that can fail returns a status,
 * and where a call of CUDA fails it becomes one, with its text, at once. */
#ifndef MOAO_GPU_ERROR_CUH
#define MOAO_GPU_ERROR_CUH

#include "moao/status.h"
#include <cuda_runtime.h>

/* A failed call of CUDA leaves the function. */
#define CUDA_TRY(call)                                                                             \
    do {                                                                                           \
        cudaError_t e_ = (call);                                                                   \
        if (e_ != cudaSuccess)                                                                     \
            return status_fail(MOAO_INTERNAL, "CUDA: %s (%s)", cudaGetErrorString(e_), #call);     \
    } while (0)
/* After each kernel launch. */
#define LAUNCHED() CUDA_TRY(cudaGetLastError())
/* A failed call of our own leaves the function. */
#define GPU_TRY(call)                                                                              \
    do {                                                                                           \
        status s_ = (call);                                                                        \
        if (s_ != MOAO_OK)                                                                         \
            return s_;                                                                             \
    } while (0)

/* What a choice of kernels cannot serve. */
static inline status gpu_no_kernel(void) {
    return status_fail(MOAO_INTERNAL, "no kernel serves these sizes");
}
static inline status gpu_too_many_blocks(void) {
    return status_fail(MOAO_INPUT, "too many matrices for one call: more than 2^31 - 1 blocks");
}

#endif
