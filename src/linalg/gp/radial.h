/* Correlations as functions of the scaled distance (moao/gp.h), with their derivatives. */
#ifndef MOAO_GP_RADIAL_H
#define MOAO_GP_RADIAL_H

#include "moao/gp.h"

typedef struct {
    gp_family family;
    double shape, scale; /* Matern: t = scale d */
    int64_t steps;       /* of the tables; 0: in closed form */
    double first;        /* log t of their first entry */
    double *table[3];    /* f, df / dlog d, df / dlog shape */
} gp_radial;

/* Zeros before the first time. derivatives: gp_radial_all will be called, of_shape: with s. */
status gp_radial_set(gp_radial *r, const gp_kernel *k, bool of_shape);
void gp_radial_free(gp_radial *r);

/* f at the square of a distance. */
double gp_radial_value(const gp_radial *r, double square);
/* f, g = df / dlog d, and (gp_radial_set with of_shape) s = df / dlog shape, else 0. */
void gp_radial_all(const gp_radial *r, double square, bool of_shape, double *f, double *g,
                   double *s);

#endif
