/* What the commands of a noiseless truth sensor leave of the turbulence, but for the turbulence's
 * own variance. Model section 7, "Error budget". */
#ifndef MOAO_BUDGET_TRUTH_H
#define MOAO_BUDGET_TRUTH_H

#include "base/comm.h"
#include "psf/psf.h"
#include "system/system.h"

/* out[n] = this rank's part of
 *
 *     <D+'G D+, Ctt> - 2/points <A D+, Cpt>      [m^2], of a layer of strength 1 m^(-5/3)
 *
 * for n outer scales L0 [m] (mirror.c has the symbols). dplus: v x t; mean: [v] of the influence
 * functions over the points. Local; the sum over ranks is meant. MOAO_MEMORY, MOAO_INTERNAL. */
status truth_variance(const comm *c, const sys *s, const psf *p, const double *dplus,
                      const double *mean, int n, double *L0, double *out);

/* Local, for the plan: bytes of a rank while it runs, floating-point operations of all ranks. */
size_t truth_bytes(const sys *s, size_t points);
double truth_flops(const sys *s, size_t points);

#endif
