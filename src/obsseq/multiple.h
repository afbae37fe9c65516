/* Exposures whose turbulence is a multiple of that of the exposure before. For one W, with
 * Cmm_e = s Cmm_b + N (N: noise of e less s times that of b) and Cpm_e = s Cpm_b,
 *     W Cmm_e W' = s W Cmm_b W' + W N W',    W Cpm_e' = s W Cpm_b',
 * and the lag is s times that of b. No covariance is computed for it. */
#ifndef MOAO_OBSSEQ_MULTIPLE_H
#define MOAO_OBSSEQ_MULTIPLE_H

#include "obsseq/phase.h"

/* Local. s, where the turbulence of p and the tip-tilt that laser stars lack are s times those of
 * `before`, to rounding, in open loop with one delay; else 0. */
double multiple_of(const sys *s, const profile *p, const profile *before);

/* Whether residuals of an operator stay with the targets from an exposure to the next, in memory
 * of the host: those of the phase, in double precision. */
bool multiple_may(const tor *t, const phase_term *ph, const linop *op);

/* Collective in the group. Y and W Cpm' of all targets of the chunk, which are those of `before`,
 * become those of p, s = multiple_of > 0. MOAO_MEMORY, MOAO_NUMERIC. */
status multiple_form(tor *t, const phase_term *ph, linop *op, const profile *p,
                     const profile *before, double s);

#endif
