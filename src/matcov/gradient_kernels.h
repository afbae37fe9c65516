/* The loops of gradient_add.c, of which there is a version for AVX-512 processors. */
#ifndef MOAO_MATCOV_GRADIENT_KERNELS_H
#define MOAO_MATCOV_GRADIENT_KERNELS_H

#include "gradient.h"

#include <stdint.h>

/* Where near entries are: their numbers, places in the grids, and weights of the splines there. */
typedef struct {
    int n;
    int32_t entry[GRADIENT_AT_ONCE];
    int64_t from[GRADIENT_AT_ONCE], step[GRADIENT_AT_ONCE]; /* first coefficient, from row to row */
    double x[GRADIENT_AT_ONCE], y[GRADIENT_AT_ONCE];        /* in the axes of the grids */
    double wx[4][GRADIENT_AT_ONCE], wy[4][GRADIENT_AT_ONCE];
} near_places;

/* The same in single precision. */
typedef struct {
    int n;
    int32_t entry[GRADIENT_AT_ONCE], from[GRADIENT_AT_ONCE], step[GRADIENT_AT_ONCE];
    float x[GRADIENT_AT_ONCE], y[GRADIENT_AT_ONCE];
    float wx[4][GRADIENT_AT_ONCE], wy[4][GRADIENT_AT_ONCE];
} near_single;

/* n <= GRADIENT_AT_ONCE entries. far, far_axes, far_phase, both, phase: those beyond the grids, as
 * gradient_add, gradient_add_axes, gradient_add_phase, and the two in single precision; the others
 * are listed in *p (entry, x, y). places: the rest of *p. near_phase, near_axes: those listed, from
 * grids of 2 and of 3 or 4 kinds; kind: of both axes of the rows with the first axis of the
 * columns, then with the second. */
typedef struct {
    void (*far)(const matcov_gradient *t, const double *radial, const gradient_axes *axes, size_t n,
                const double *x, const double *y, double x0, double y0, double coef, double *f,
                double *g, near_places *p);
    void (*far_axes)(const matcov_gradient *t, const double *radial, const gradient_axes axes[2],
                     size_t n, const double *x, const double *y, double x0, double y0, double coef,
                     double *const out[4], near_places *p);
    void (*far_phase)(const matcov_gradient *t, const double *radial, const double turn[2],
                      size_t n, const double *x, const double *y, double x0, double y0, double coef,
                      double *f, double *g, near_places *p);
    void (*both)(const gradient_single *t, const gradient_axes axes[2], size_t n, const float *x,
                 const float *y, float x0, float y0, float coef, float *const out[4],
                 near_single *p);
    void (*phase)(const gradient_single *t, const double turn[2], size_t n, const float *x,
                  const float *y, float x0, float y0, float coef, float *const out[2],
                  near_single *p);
    void (*places)(const matcov_gradient *t, near_places *p);
    void (*near_phase)(const near_places *p, const double *near, double coef, double *const out[2]);
    void (*near_axes)(const near_places *p, const double *near, int kinds, const int kind[4],
                      double coef, double *const out[4]);
} gradient_kernels;

/* Of any processor. */
const gradient_kernels *gradient_kernels_plain(void);
/* NULL where the processor has none. */
const gradient_kernels *gradient_kernels_avx512(void);
/* Those in double precision give the bits of the plain ones, but near_phase and near_axes, which
 * are fused. False, *k untouched, where the processor has none. */
bool gradient_kernels_avx2(gradient_kernels *k);
/* Sets those two on such a processor. */
void gradient_near_avx2(gradient_kernels *k);
/* For any processor. */
void gradient_near_phase(const near_places *p, const double *near, double coef,
                         double *const out[2]);
void gradient_near_axes(const near_places *p, const double *near, int kinds, const int kind[4],
                        double coef, double *const out[4]);

#endif
