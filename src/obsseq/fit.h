/* Commands fitted to the residual phase (reconstructor.fit: phase). With N the influence functions
 * at n points of the pupil, A = N less the mean over the points, and S = d^2/area of the pupil,
 *
 *     W = F Cpm0 Cmm0^-1,    F = M^-1 A'/n,    M = A'A/n + S (mu L'L + 11'/v + eps I)
 *
 * F takes the place of D+, the phase at the points that of the truth sensor's slopes. Of all W that
 * these measurements allow, it leaves the least residual variance over the points, but for the
 * regularisation: L as of D+ (tor/command.h) holds shapes that the pupil does not see, 11' piston,
 * eps actuators beyond its edge. Model section 6. */
#ifndef MOAO_OBSSEQ_FIT_H
#define MOAO_OBSSEQ_FIT_H

#include "base/comm.h"
#include "psf/psf.h"

/* Collective. F (v x n, leading dimension v) [1], whole on every rank; the columns are shared out
 * over the ranks and gathered. MOAO_NUMERIC where M is not positive definite. */
status fit_init(const comm *c, const sys *s, const psf *p, double *f);

/* Local, for the plan: bytes of a rank while it runs, without f; floating-point operations of all
 * ranks. */
size_t fit_work_bytes(const sys *s, const psf_opts *o);
double fit_flops(const sys *s, const psf_opts *o);

#endif
