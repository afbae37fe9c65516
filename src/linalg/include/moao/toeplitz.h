/* Block-Toeplitz matrices as a format: moao_hier_source.detail points to a hier_toeplitz, borrowed
 * while the format is opened or loaded. Neither block, gather nor points are asked for; rows and
 * columns are in the caller's order, and every one belongs to an image. Products are exact but for
 * rounding; part 'H' is half of the matrix. */
#ifndef MOAO_HIER_TOEPLITZ_H
#define MOAO_HIER_TOEPLITZ_H

#include "backend_toeplitz.h"

typedef struct {
    const moao_toeplitz_shape *shape;
    const moao_toeplitz_pair *pairs; /* [nimage][nimage], values in the backend's memory */
} moao_hier_toeplitz_values;

#endif
