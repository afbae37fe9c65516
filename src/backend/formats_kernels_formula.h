/* Values of the kernels of backend_formats.h, for both backends. */
#ifndef MOAO_BACKEND_FORMATS_KERNELS_FORMULA_H
#define MOAO_BACKEND_FORMATS_KERNELS_FORMULA_H

#include "backend_formats.h"
#include <math.h>

#ifdef __CUDACC__
#define FORMATS_HOST_DEVICE __host__ __device__
#else
#define FORMATS_HOST_DEVICE
#endif

FORMATS_HOST_DEVICE static inline double formats_kernel_value(formats_kernel kernel, double length,
                                                              int dim, const double *x,
                                                              const double *y) {
    double square = 0;
    if (kernel == FORMATS_CAUCHY)
        return x[0] == y[0] ? 1.0 : 1.0 / (x[0] - y[0]);
    for (int d = 0; d < dim; d++)
        square += (x[d] - y[d]) * (x[d] - y[d]);
    return kernel == FORMATS_EXPONENTIAL ? exp(-sqrt(square) / length)
                                         : exp(-square / (2 * length * length));
}

#endif
