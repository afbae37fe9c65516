/* What the Toeplitz products give to the plugin's table. */
#ifndef MOAO_GPU_TOEPLITZ_GPU_H
#define MOAO_GPU_TOEPLITZ_GPU_H

#include "moao/backend_toeplitz.h"

extern "C" const backend_toeplitz backend_toeplitz_gpu;

#endif
