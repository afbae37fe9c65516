/* What the operands of products in several terms give to the plugin's table. */
#ifndef MOAO_GPU_TERMS_GPU_H
#define MOAO_GPU_TERMS_GPU_H

#include "backend/backend_terms.h"

extern "C" const backend_terms backend_terms_gpu;
/* terms_pack.cu */
extern "C" terms_exponent_op terms_exponent;
extern "C" terms_take_op terms_take;
extern "C" terms_pack_op terms_pack_columns;
/* terms_products.cu */
extern "C" terms_sum_op terms_sum;
extern "C" terms_halve_op terms_halve;

#endif
