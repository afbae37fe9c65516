/* What the mirror and a noiseless truth sensor leave of the turbulence: fitting error and aliasing.
 * Both follow from mirror, command matrix and outer scales, and are proportional to the layers'
 * strength: they are found once for a run, for all its profiles. Model section 7, "Error budget".
 */
#ifndef MOAO_ALIASING_H
#define MOAO_ALIASING_H

#include "base/comm.h"
#include "budget/generalised.h"
#include "psf/psf.h"
#include "system/atmos.h"
#include "system/system.h"

typedef struct {
    int n;             /* outer scales, increasing */
    double *L0;        /* [n] [m], INFINITY the last */
    int ndir;          /* directions (fitting_directions): of each target, or 1 */
    double *fitting;   /* [ndir][n] variance for a strength of 1 m^(-5/3) [m^2] */
    double *aliasing;  /* [n] the same, whatever the direction */
    generalised more;  /* of every target where all share their commands */
    double *influence; /* v x v: G = A'A/points, A = influence functions at the points without their
                          means, on the axis: c'G c is the variance of the commands' shape over the
                          pupil. Of psf.residual: sensor, c'G c by the stationary average */
    struct mirror_work *work; /* NULL: fitting and aliasing are computed */
} mirror_budget;

/* Collective; the panels of the truth sensor's slopes are shared out over the ranks. dplus: v x t,
 * on every rank. Where p is without psf_opts.phase the fitting error is the ideal filter's, and
 * there is no aliasing: the truth sensor's is in the tomography. Nor is there where commands are
 * fitted to the phase, whose `dplus` is F (obsseq/fit.h): no truth sensor is meant there. Layers
 * with more than 16 different outer scales are taken from a table over their logarithm. free: fine
 * on {0}. */
status mirror_budget_init(const comm *c, const sys *s, psf *p, const double *dplus, const atmos *a,
                          mirror_budget *b);
/* The same in two steps, for runs on devices: begin starts a thread (seconds of all cores at 84
 * subapertures, at a lower priority), which computes G first; end waits for it and has the sums
 * over the ranks. Both are collective; end again does nothing. Between them
 * s, p, dplus and a are in use; this rank must not plan Fourier transforms, and products of BLAS on
 * the host may be computed by one thread. The bits are those of mirror_budget_init. begin does it
 * all where a run aims p or computes on the host: mirrors at altitudes, behind a common mirror, of
 * low orders, images on the host. */
status mirror_budget_begin(const comm *c, const sys *s, psf *p, const double *dplus, const atmos *a,
                           mirror_budget *b);
status mirror_budget_end(const comm *c, mirror_budget *b);
/* Where is_early says so (local), it may begin before D+ is computed: dplus is the place of it,
 * which nobody reads before mirror_budget_command (local; without a begin it does nothing). */
bool mirror_budget_is_early(const sys *s, const psf *p);
status mirror_budget_begin_early(const comm *c, const sys *s, psf *p, const double *dplus,
                                 const atmos *a, mirror_budget *b);
void mirror_budget_command(mirror_budget *b);
/* Local. Waits for `influence` after begin. */
status mirror_budget_shapes(const mirror_budget *b);
void mirror_budget_free(mirror_budget *b);

/* Local, after init or end. Variances of a target under a profile of the run [m^2]; of generalised
 * fitting, 0 where targets have commands of their own. */
void mirror_budget_of(const mirror_budget *b, const profile *p, int target, double *fitting,
                      double *aliasing, double *more);

/* Local, for the plan: bytes of a rank while it is made and after it; floating-point operations of
 * all ranks. */
size_t mirror_budget_work(const sys *s, const psf_opts *o);
size_t mirror_budget_bytes(const sys *s);
double mirror_budget_flops(const sys *s, const psf_opts *o, const atmos *a);

#endif
