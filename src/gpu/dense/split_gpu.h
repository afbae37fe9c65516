/* What the operands of products in several terms give to the plugin's table. */
#ifndef MOAO_GPU_SPLIT_GPU_H
#define MOAO_GPU_SPLIT_GPU_H

#include "moao/backend_split.h"

extern "C" const backend_split_ops backend_split_gpu;
/* split_pack.cu */
extern "C" split_exponent_op split_exponent;
extern "C" split_take_op split_take;
extern "C" split_pack_op split_pack_columns;
/* split_products.cu */
extern "C" split_sum_op split_sum;
extern "C" split_halve_op split_halve;

#endif
