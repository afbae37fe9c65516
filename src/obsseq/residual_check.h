/* Whether the residuals of an exposure are what they should be, found by another road.
 *
 * For a target with the residual S = Y + Y' (Y as residual_pass makes it) and a vector x of
 * numbers of either sign between 1 and 2, let q = W'x and p = D+'x. Then
 *
 *     x'S x = q'Cmm q - 2 p'Ctm q        under the profile of the exposure,
 *     q'Cmm0 q = p'Ctm0 q                under that of the reconstructor, as W Cmm0 = D+ Ctm0.
 *
 * The left of the first comes from the Y that the PSFs are made of, the right from entries that are
 * made anew, tile by tile, and products with one vector: an error of memory or of a processor in
 * the factor, W, T, the products or Y makes them differ, unless it is as small as rounding. (With
 * x drawn at random it is the test of Freivalds 1979 for products.) The second finds what
 * happened to W itself. Of the residual phase Y has no Ctm, and beside it there is C = W Cpm',
 * which is checked in the same way with one more vector z, a number for each point of the pupil:
 *
 *     x'C z = q'Cpm'z. */
#ifndef MOAO_RESIDUAL_CHECK_H
#define MOAO_RESIDUAL_CHECK_H

#include "engine/engine.h"

typedef struct {
    int n;
    const int *target; /* [n] targets that are looked at, in increasing order */
    double *x;         /* v x n, in (-2, -1] and [1, 2) */
    double *q;         /* m x n: W'x, this rank's part (the sum over ranks is meant) */
    double *y;         /* [n]: x'Y x, likewise */
    const double *p;   /* sys_fit_columns x n: P'x */
    size_t points;     /* of the pupil; 0: no residual phase is wanted, nor what follows */
    double *z;         /* points x n, as x */
    double *c;         /* [n]: x'C z, this rank's part */
    double *share;     /* [n]: how much of the reconstructor's Cpm that C is without, likewise */
} probe;

/* Which of the targets from `first` on a probe has: index into target[], -1: not that one. */
int residual_check_find(const probe *p, int target);

typedef struct {       /* of the targets of a probe, [n] each; NULL but cmm: not wanted */
    double *cmm, *ctm; /* q'Cmm q, p'Ctm q */
    double *cpm;       /* q'Cpm'z */
    double *terms; /* sum of |q_i| |(Cpm'z)_i|, by which differences of cpm are judged; with cpm */
} residual_check_forms;

/* Collective. Those of every target, whose q must be whole on every rank, under the profile that
 * the engine has loaded; shifted: Ctm and Cpm of the exposure, else of the reconstructor. x, y:
 * points of the pupil on the device. The tiles are shared out over the ranks. */
status residual_check_make_forms(engine *e, backend_cov_target *target, bool shifted,
                                 const probe *p, const double *x, const double *y,
                                 const residual_check_forms *f);

#endif
