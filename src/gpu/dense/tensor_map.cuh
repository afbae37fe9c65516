/* How a matrix of FP16 numbers is described to the copy engine, on the host. */
#ifndef MOAO_GPU_TENSOR_MAP_CUH
#define MOAO_GPU_TENSOR_MAP_CUH

#include "moao/backend_fp16.h"
#include <cudaTypedefs.h>
#include <cuda_runtime.h>

enum { TENSOR_BOX = 64 }; /* halves along columns in a box: 128 bytes, as its swizzle */

/* The driver's function for it; NULL: it has none. */
static inline PFN_cuTensorMapEncodeTiled_v12000 tensor_map_encoder() {
    static const PFN_cuTensorMapEncodeTiled_v12000 found = [] {
        void *p = NULL;
        cudaDriverEntryPointQueryResult result;
#if CUDART_VERSION >= 12050
        const cudaError_t e = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &p, 12000,
                                                               cudaEnableDefault, &result);
#else
        const cudaError_t e =
            cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &p, cudaEnableDefault, &result);
#endif
        return e == cudaSuccess && result == cudaDriverEntryPointSuccess
                   ? (PFN_cuTensorMapEncodeTiled_v12000)p
                   : NULL;
    }();
    return found;
}

/* Boxes of rows x cols entries of a matrix, of TENSOR_BOX halves along its columns; zero beyond it.
 */
static inline bool tensor_map(CUtensorMap *map, const backend_f16 *a, int64_t rows, int64_t cols,
                              int64_t ld, int box_cols) {
    const cuuint64_t size[2] = {(cuuint64_t)rows, (cuuint64_t)cols},
                     stride[1] = {(cuuint64_t)ld * sizeof *a};
    const cuuint32_t box[2] = {TENSOR_BOX, (cuuint32_t)box_cols}, step[2] = {1, 1};
    return tensor_map_encoder()(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, (void *)a, size, stride,
                                box, step, CU_TENSOR_MAP_INTERLEAVE_NONE,
                                CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

#endif
