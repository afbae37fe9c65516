/* What the covariances give to the plugin's table. */
#ifndef MOAO_GPU_MATCOV_GPU_H
#define MOAO_GPU_MATCOV_GPU_H

#include "backend/backend_matcov.h"

extern "C" const backend_matcov backend_matcov_gpu;

#endif
