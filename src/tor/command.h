/* The command matrix D+ (v x t): from truth-sensor slopes [arcsec] to DM commands [m]. */
#ifndef MOAO_COMMAND_H
#define MOAO_COMMAND_H

#include "base/comm.h"
#include "system/system.h"

/* Collective. D+ = (I - 11'/v) [D'D + g (mu L'L + 11'/v)]^-1 D' (Model section 6) into dplus (v x
 * t, leading dimension v), whole on every rank. g = (206264.8/d_t)^2; L holds one row (1, -2, 1)
 * for every three consecutive valid actuators of a row or column, so that low orders are kept at
 * every size and waffle is not amplified. The columns are shared out over the ranks and gathered.
 */
status command_init(const comm *c, const sys *s, double *dplus);

/* Local. The matrix in brackets, M, of the interaction matrix d (t x v, leading dimension t): its
 * lower triangle into a (v x v), which is 0 before. */
status command_normal(const sys *s, const double *d, double *a);

/* Bytes that command_init needs beside dplus, for the memory plan. */
size_t command_work_bytes(const sys *s);

#endif
