/* The residual of targets under a profile, with W from tor_solve: P Cee P' = P Ctt P' + Y + Y',
 * Y = (W T - P Ctm) W', Cmm = T + T'. Model section 6. The only place where Y is made. */
#ifndef MOAO_RESIDUAL_H
#define MOAO_RESIDUAL_H

#include "obsseq/phase.h"
#include "tor/tor.h"

/* With ph (NULL, or none of its points: sensor) nothing is projected, P Cee P' has no part in it: Y
 * + Y' = W Cmm W', and W Cpm' is made beside it.
 *
 * Conditions are loaded and so is `op`, the operator of the reconstructor or its reference. Y of
 * targets k0 .. k0 + n of this rank's chunk, all of them where op->together, else one, into t->y,
 * which other targets share where these pass one by one. Collective where ranks work in lockstep.
 */
status residual_pass(tor *t, const phase_term *ph, linop *op, int k0, int n);

/* Local. Y of targets that share W into t->y[0], without a part of theirs (a phase_term): the rest
 * of a residual_pass with t->has_y. `op`, a reference, has the exposure's T and that W. */
status residual_of_w(tor *t, const phase_term *ph, linop *op);

/* Collective in op->x->group, which forms the reference's Y of one target and has its W. The
 * sampler: residual_pass of its k-th target, whose bits are those of one device alone; the others
 * (k < 0): their part of it, of a target in direction dir [rad]. Local: whether it can be, for one
 * target at a time (its panels pass through t->ctm). */
status residual_together(tor *t, const phase_term *ph, linop *op, int k, const double dir[2]);
bool residual_may_share(const tor *t);

/* c (ni x nrow, leading dimension ni) = rows i0 .. i0 + ni of P Ctt P', of all of it or, where
 * ranks work in lockstep, of this rank's share of it (residual_rows). Local. */
void residual_rows(const tor *t, int *i0, int *ni);
status residual_truth(tor *t, double *c);

#endif
