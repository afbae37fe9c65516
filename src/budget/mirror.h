/* What the mirror and a noiseless truth sensor leave of the turbulence: fitting error and aliasing.
 * Both follow from mirror, command matrix and outer scales, and are proportional to the layers'
 * strength: they are found once for a run, for all its profiles. Model section 7, "Error budget".
 */
#ifndef MOAO_BUDGET_MIRROR_H
#define MOAO_BUDGET_MIRROR_H

#include "base/comm.h"
#include "psf/psf.h"
#include "system/atmos.h"
#include "system/system.h"

typedef struct {
    int n;             /* outer scales, increasing */
    double *L0;        /* [n] [m], INFINITY the last */
    int ndir;          /* directions (fitting_directions): of each target, or 1 */
    double *fitting;   /* [ndir][n] variance for a strength of 1 m^(-5/3) [m^2] */
    double *aliasing;  /* [n] the same, whatever the direction */
    double *influence; /* v x v: G = A'A/points, A = influence functions at the points without their
                          means, on the axis: c'G c is the variance of the commands' shape over the
                          pupil. Of psf.residual: sensor, c'G c by the stationary average */
} mirror_budget;

/* Collective; the panels of the truth sensor's slopes are shared out over the ranks. dplus: v x t,
 * on every rank. Where p is without psf_opts.phase the fitting error is the ideal filter's, and
 * there is no aliasing: the truth sensor's is in the tomography. Nor is there where commands are
 * fitted to the phase, whose `dplus` is not looked at: no truth sensor is meant there. Layers with
 * more than 16 different outer scales are taken from a table over their logarithm. free: fine on
 * {0}. */
status mirror_budget_init(const comm *c, const sys *s, psf *p, const double *dplus, const atmos *a,
                          mirror_budget *b);
void mirror_budget_free(mirror_budget *b);

/* Local. Variances of a target under a profile of the run [m^2]. */
void mirror_budget_of(const mirror_budget *b, const profile *p, int target, double *fitting,
                      double *aliasing);

/* Local, for the plan: bytes of a rank while it is made and after it; floating-point operations of
 * all ranks. */
size_t mirror_budget_work(const sys *s, const psf_opts *o);
size_t mirror_budget_bytes(const sys *s);
double mirror_budget_flops(const sys *s, const psf_opts *o);

#endif
