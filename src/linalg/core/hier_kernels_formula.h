/* Values of the kernels of backend_hier.h, for both backends. */
#ifndef MOAO_BACKEND_FORMATS_KERNELS_FORMULA_H
#define MOAO_BACKEND_FORMATS_KERNELS_FORMULA_H

#include "moao/backend_hier.h"
#include <math.h>

#ifdef __CUDACC__
#define FORMATS_HOST_DEVICE __host__ __device__
#else
#define FORMATS_HOST_DEVICE
#endif

/* Squares of norms, of a matrix whose largest modulus is about 1, that count as 0: products of two
 * such norms would not have an inverse. */
#define FORMATS_SQUARE_LEAST_D 0x1p-1000
#define FORMATS_SQUARE_LEAST_S 0x1p-116f

FORMATS_HOST_DEVICE static inline double
hier_kernel_value(hier_kernel kernel, double length, int dim, const double *x, const double *y) {
    double square = 0;
    if (kernel == HIER_CAUCHY)
        return x[0] == y[0] ? 1.0 : 1.0 / (x[0] - y[0]);
    for (int d = 0; d < dim; d++)
        square += (x[d] - y[d]) * (x[d] - y[d]);
    return kernel == HIER_EXPONENTIAL ? exp(-sqrt(square) / length)
                                      : exp(-square / (2 * length * length));
}

/* The Lagrange polynomial of Chebyshev node a of `order` on the box from low to high, at x. */
FORMATS_HOST_DEVICE static inline double hier_lagrange(int order, int a, double low, double high,
                                                       double x) {
    const double pi = 3.14159265358979323846, middle = (low + high) / 2, half = (high - low) / 2;
    const double z = half > 0 ? (x - middle) / half : 0, mine = cos(pi * (2 * a + 1) / (2 * order));
    double p = 1;
    for (int b = 0; b < order; b++) {
        const double node = cos(pi * (2 * b + 1) / (2 * order));
        p *= b == a ? 1 : (z - node) / (mine - node);
    }
    return p;
}

#endif
