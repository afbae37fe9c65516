/* Tables for sensors that measure the mean gradient. The mean of the gradient over a subaperture is
 * that of the phase differences between opposite edges; two of them have the covariance
 *
 *   1/2 la lb (u grad)(v grad) <D>,     <D>: D averaged over both footprints, of sizes la and lb
 *
 * which tables hold: beyond GRADIENT_RADIUS footprints two radial functions, below it grids of
 * exact values. Both depend on the outer scale and the two sizes alone. Model section 4. */
#ifndef MOAO_MATCOV_GRADIENT_H
#define MOAO_MATCOV_GRADIENT_H

#include "gradient_formula.h"
#include "moao/status.h"
#include <stdbool.h>
#include <stddef.h>

/* Separation, in root mean square sizes of the two footprints, up to which the grids serve. Its
 * square is no separation of a lattice, where rounding would choose between grid and function. */
#define GRADIENT_RADIUS 6.107
/* What the fine grid serves, in mean sizes of the two: not a distance on lattices of FP16 numbers
 * or quarters of a pitch, where rounding would decide which of the two grids gives a value. */
#define GRADIENT_INNER 1.763
#define GRADIENT_INNER_PHASE 1.261
/* Sizes in the pupil that differ by more: the larger is cut into equal squares. */
#define GRADIENT_RATIO 1.5

/* kappa: 2 pi / L0, or 1 for Kolmogorov; turn: of the second sensor against the first [rad]. la =
 * 0: the first is the phase at a point, and
 *
 *   cov = 1/2 lb (v grad) <D>,    <D>: D averaged over the second's footprint,
 *
 * a function of the point less the footprint's centre; kinds x and y, in the second's axes, and one
 * radial function. */
typedef struct {
    double kappa, la, lb, turn;
    bool kolmogorov;
} gradient_key;

/* Shape of the tables of a key. */
matcov_gradient gradient_shape(const gradient_key *k);
/* Numbers in its near grids. */
size_t gradient_near_size(const matcov_gradient *t);

/* radial: [GRADIENT_INTERVALS][2 GRADIENT_TERMS], P then Q, powers of the mantissa about the
 * interval's middle. Local. */
void gradient_fill_radial(const gradient_key *k, const matcov_gradient *t, double *radial);
/* Local; takes memory for the time of the call. */
status gradient_fill_near(const gradient_key *k, const matcov_gradient *t, double *near);

/* Values on both grids of a table, kind by kind, to coefficients of cubic B-splines, at near those
 * of all kinds side by side. work: as many numbers as the longer side. Local. */
void gradient_to_splines(const matcov_gradient *t, double *grids, double *work, double *near);

/* f[e] += coef times the covariance at (x[e] - x0, y[e] - y0) [m] of the rows' x axis, in the units
 * of the scale-free structure function, 0 <= e < n; g[e]: of their y axis. values: where
 * table->radial and table->near count from. gradient_add_axes: with both axes of the columns,
 * axes[0] and axes[1]: f and g of the first, then of the second. gradient_add_phase: of the phase
 * at (x[e], y[e]) with the x and y slopes around (x0, y0) of a sensor turned by (cos, sin) = turn.
 * Local. */
void gradient_add(const matcov_gradient *table, const double *values, const gradient_axes *axes,
                  size_t n, const double *x, const double *y, double x0, double y0, double coef,
                  double *f, double *g);
void gradient_add_axes(const matcov_gradient *table, const double *values,
                       const gradient_axes axes[2], size_t n, const double *x, const double *y,
                       double x0, double y0, double coef, double *const out[4]);
void gradient_add_phase(const matcov_gradient *table, const double *values, const double turn[2],
                        size_t n, const double *x, const double *y, double x0, double y0,
                        double coef, double *f, double *g);

/* gradient_add_phase of those of n <= GRADIENT_AT_ONCE points that the radial function serves,
 * around `at`; lists the others, and returns how many. Local. */
#define GRADIENT_AT_ONCE 128 /* a multiple of 8 */
int gradient_add_phase_far(const matcov_gradient *table, const double *values, const double turn[2],
                           int n, const double *x, const double *y, const double at[2], double coef,
                           double *f, double *g, int near[GRADIENT_AT_ONCE]);

/* Numbers of the radial functions of a table. */
#define GRADIENT_LINES (GRADIENT_INTERVALS * 2 * GRADIENT_TERMS)

/* A table in single precision: radial functions, and grids of 4 kinds side by side, of the phase 2;
 * the squared separation [m^2] from which on the functions serve. NULL: it is not there. */
typedef struct {
    const matcov_gradient *t;
    const float *radial, *near;
    float near2;
} gradient_single;

/* The same in single precision. both: with both axes of the columns, axes[0] and axes[1]: f and g
 * of the first, then of the second. */
void gradient_add_both(const gradient_single *table, const gradient_axes axes[2], size_t n,
                       const float *x, const float *y, float x0, float y0, float coef,
                       float *const out[4]);
void gradient_add_phase_single(const gradient_single *table, const double turn[2], size_t n,
                               const float *x, const float *y, float x0, float y0, float coef,
                               float *const out[2]);

#endif
