/* What the operands of products in several terms give to the plugin's table. */
#ifndef MOAO_GPU_TERMS_GPU_H
#define MOAO_GPU_TERMS_GPU_H

#include "backend/backend_terms.h"

extern "C" const backend_terms backend_terms_gpu;

#endif
