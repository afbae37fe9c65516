/* What the products with sparse matrices give to the plugin's table. */
#ifndef MOAO_GPU_SPARSE_GPU_H
#define MOAO_GPU_SPARSE_GPU_H

#include "moao/backend_sparse.h"

extern "C" const backend_sparse backend_sparse_gpu;
sparse_filter_op gpu_filter; /* filter.cu */

#endif
