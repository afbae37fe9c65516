/* The operations of formats on the GPU, and what the plugin's table takes. */
#ifndef MOAO_GPU_FORMATS_FORMATS_GPU_H
#define MOAO_GPU_FORMATS_FORMATS_GPU_H
#include "backend/backend_formats.h"

extern "C" const backend_formats backend_formats_gpu;
formats_sums_op gpu_formats_sums;       /* sums.cu */
formats_chain_op gpu_formats_chain;     /* sums_chain.cu */
formats_id_op gpu_formats_id;           /* formats.cu */
formats_entries_op gpu_formats_entries; /* formats.cu */
formats_chebyshev_op gpu_formats_chebyshev;

#endif
