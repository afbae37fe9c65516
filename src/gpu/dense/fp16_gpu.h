/* What the products of FP16 numbers give to the plugin's table. */
#ifndef MOAO_GPU_FP16_GPU_H
#define MOAO_GPU_FP16_GPU_H

#include "moao/backend_fp16.h"

extern "C" const backend_fp16 backend_fp16_gpu;
extern "C" fp16_gemm_rounded_op fp16_gemm_rounded; /* fp16_rounded.cu */

#endif
