/* The factor on one device: an array of m x m numbers holds L of Cmm0 in its lower triangle and,
 * above it, its mirror image while W is solved for; T of an exposure may take the place of that
 * (residual/fp64_stored.c). The devices of a node make the factor together. */
#ifndef MOAO_FACTOR_DENSE_H
#define MOAO_FACTOR_DENSE_H

#include "factor/cholesky.h"
#include "factor/factor.h"

typedef struct {
    factor base;
    device_group group; /* whose members make a factor together */
    cholesky f;
    double *a;     /* m x m */
    bool mirrored; /* what is above the diagonal of a is L'; whoever writes there makes it false */
} dense_factor;

#endif
