/* What the point-spread functions give to the plugin's table. */
#ifndef MOAO_GPU_PSF_GPU_H
#define MOAO_GPU_PSF_GPU_H

#include "backend/backend_psf.h"

extern "C" const backend_psf backend_psf_gpu;

#endif
