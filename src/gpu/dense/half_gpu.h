/* What the products of halves give to the plugin's table. */
#ifndef MOAO_GPU_HALF_GPU_H
#define MOAO_GPU_HALF_GPU_H

#include "backend/backend_half.h"

extern "C" const backend_half backend_half_gpu;
extern "C" half_gemm_rounded_op half_gemm_rounded; /* half_rounded.cu */

#endif
