/* Values of the kernels of backend_hier.h, for both backends. */
#ifndef MOAO_BACKEND_FORMATS_KERNELS_FORMULA_H
#define MOAO_BACKEND_FORMATS_KERNELS_FORMULA_H

#include "moao/backend_hier.h"
#include "radial_formula.h"
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

/* Matern's function at the square of t. */
FORMATS_HOST_DEVICE static inline double hier_matern(const hier_function *f, double square) {
    double w[8];
    int64_t at;
    if (radial_matern_closed(f->shape))
        return radial_matern(f->shape, sqrt(square));
    if (!radial_place(f->first, f->steps, 0.5 * log(square), &at, w))
        return at < 0 ? 1 : 0;
    return radial_weighted(f->table + at, w);
}

/* same: a point with itself. */
FORMATS_HOST_DEVICE static inline double
hier_kernel_value(const hier_function *f, int dim, const double *x, const double *y, bool same) {
    double square = 0, value;
    if (f->kernel == HIER_CAUCHY)
        return x[0] == y[0] ? 1.0 : 1.0 / (x[0] - y[0]);
    for (int d = 0; d < dim; d++)
        square += (x[d] - y[d]) * (x[d] - y[d]);
    if (f->kernel == HIER_EXPONENTIAL)
        value = exp(-sqrt(square) / f->length);
    else if (f->kernel == HIER_GAUSSIAN)
        value = exp(-square / (2 * f->length * f->length));
    else if (f->kernel == HIER_POWERED)
        value = radial_powered(f->shape, square / (f->length * f->length));
    else
        value = hier_matern(f, 2 * f->shape * square / (f->length * f->length));
    return f->variance * value + (same ? f->nugget : 0);
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
