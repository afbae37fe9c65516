/* What the operands of products in several terms give to the plugin's table. */
#ifndef MOAO_GPU_TERMS_GPU_H
#define MOAO_GPU_TERMS_GPU_H

#include "backend/backend_terms.h"

extern "C" const backend_terms backend_terms_gpu;
extern "C" terms_add_op terms_add;     /* terms_products.cu */
extern "C" terms_halve_op terms_halve; /* the same */

#endif
