/* Refinement of W by a compressed factor, for products in FP16, which take B0 for W Cmm0: steps
 *
 *     D := R M^-1 rounded to FP16,  W += D,  R -= D Cmm0,
 *
 * from R = B0, W = 0 on, M the compressed matrix. As W and R change by the rounded D, one product
 * with the upper and one with the lower parts of Cmm0 in split FP16 do for R, to some 1e-6 of D
 * Cmm0 (Carson and Higham, SIAM J. Sci. Comput. 40 (2018) A817, iterative refinement in three
 * precisions). Tip-tilt constants of laser stars, which are large, are left to double precision. */
#ifndef MOAO_TLR_REFINE_H
#define MOAO_TLR_REFINE_H

#include "factor/factor.h"
#include "factor/tlr_cmm.h"

#define REFINE_GROUPS 8 /* of neighbouring columns at which the residual is checked, */
#define REFINE_GROUP 8  /* and columns of each */

typedef struct {
    engine *e;
    int64_t v;         /* rows of W of a target, at most */
    double *x;         /* tlr_refine_doubles: the step, in the order of tiles; then work */
    double *area;      /* m x width doubles: work */
    double *r;         /* v x m: R */
    backend_f16 *step; /* v x m, rows as fp16_rows: D, in the order of measurements */
    int exponent;      /* of step */
    int nk;            /* tip-tilt constants */
    double *axes;      /* m x nk: 1 where a measurement is of that laser star and axis */
    double *constants; /* nk x nk, diagonal: halves of the constants */
    double *along;     /* v x 2 nk: D times axes, and times constants */
    double *some;      /* v x 2 columns of a check: B0 there, and R */
    double *numbers;   /* on the device */
} tlr_refine;

/* Doubles of x. */
int64_t tlr_refine_doubles(int64_t v, int64_t m);
/* Local. Memory of the device, but for x, area and r, which are the caller's. close: fine on {0}.
 */
status tlr_refine_open(engine *e, int64_t v, double *x, double *area, double *r, tlr_refine *f);
void tlr_refine_close(tlr_refine *f);

/* Local. R := B0, which is in w. The profile is loaded. */
status tlr_refine_start(tlr_refine *f, const wrows *w);
/* Local. D from x; W := D, or, add, += D. Waits. */
status tlr_refine_advance(tlr_refine *f, const tlr_cmm *c, bool add, const wrows *w);
/* Local. R -= D Cmm0; x is lost. Waits. */
status tlr_refine_residual(tlr_refine *f, int64_t v);
/* Local. |B0 - W Cmm0| / |B0| in double precision at columns spread over the measurements, of the
 * B0 that tlr_refine_start had. Waits. */
status tlr_refine_check(tlr_refine *f, const wrows *w, double *rho);

#endif
