/* The operations of formats on the GPU, and what the plugin's table takes. */
#ifndef MOAO_GPU_HIER_HIER_GPU_H
#define MOAO_GPU_HIER_HIER_GPU_H
#include "moao/backend_hier.h"

extern "C" const backend_hier backend_formats_gpu;
hier_gemm_sums_op gpu_hier_gemm_sums; /* gemm_sums.cu */
hier_fused_op gpu_hier_fused;         /* fused_levels.cu */
hier_id_op gpu_hier_id;               /* hier.cu */
hier_entries_op gpu_hier_entries;     /* hier.cu */
hier_chebyshev_op gpu_hier_chebyshev;

#endif
