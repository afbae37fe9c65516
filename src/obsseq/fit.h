/* Commands fitted to the residual phase (reconstructor.fit: phase). With N_d the influence
 * functions at n points of the pupil, as a target in direction d sees them, A_d = N_d less the mean
 * over the points, w_d weights of sum 1, and S = d^2/area of the pupil for each mirror,
 *
 *     W = [sum_d F_d Cpm0_d] Cmm0^-1,    F_d = w_d M^-1 A_d'/n,
 *     M = sum_d w_d A_d'A_d/n + S (mu L'L + 11'/v + eps I)
 *
 * One direction, that of each target, or those that shared commands are fitted to (sys.fit). The
 * F_d stand side by side where D+ stands else, the phase at the points where truth-sensor slopes
 * do. Of all W that these measurements allow, it leaves the least residual variance over the
 * points, but for the regularisation: L as of D+ (tor/command.h) holds shapes that the pupil does
 * not see, 11' piston, eps actuators beyond its edge. Model section 6. */
#ifndef MOAO_OBSSEQ_FIT_H
#define MOAO_OBSSEQ_FIT_H

#include "base/comm.h"
#include "psf/psf.h"

/* Collective. F (v x sys_fit_columns, leading dimension v) [1], whole on every rank; the columns
 * are shared out over the ranks and gathered. p: aimed elsewhere after it (psf_aim). MOAO_NUMERIC
 * where M is not positive definite. */
status fit_init(const comm *c, const sys *s, psf *p, double *f);

/* Local. Low orders y_d (sys_low_at) of F: z = sum_d F_d y_d and q = M z = sum_d w_d A_d'y_d/n,
 * both v x sys_low_modes(s), leading dimension v. MOAO_MEMORY. */
status fit_low_orders(const sys *s, psf *p, const double *f, double *z, double *q);

/* Local, for the plan: bytes of a rank while it runs, without f; floating-point operations of nrank
 * ranks: M^-1 is every rank's, columns of F are shared out. */
size_t fit_work_bytes(const sys *s, const psf_opts *o);
double fit_flops(const sys *s, const psf_opts *o, int nrank);

#endif
