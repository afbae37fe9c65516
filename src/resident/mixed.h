/* Exposures in mixed precision: products of differences in halves (resident/mixed.c). All local, in
 * stream order unless it says that it waits. */
#ifndef MOAO_RESIDENT_MIXED_H
#define MOAO_RESIDENT_MIXED_H

#include "resident/internal.h"

/* Takes memory on the device and prepares D+; waits. For up to `most` targets, each of which takes
 * its own. close: fine without open. */
status mixed_open(resident *r, int most);
status mixed_take(resident *r, int k);
void mixed_close(resident *r);

/* At the solve: D+ Ctm0 of a target while W takes its place, then what W of slot k gives; waits. */
status mixed_keep(resident *r, const double *b0);
status mixed_solved(resident *r, int k, const double *w);

/* The difference of a profile and the reconstructor's, for the targets solved last; waits. What was
 * loaded before is gone. */
status mixed_load(resident *r, const profile *p);

/* Y of the target in slot k, W at w, into r->y. */
status mixed_residual(resident *r, int k, int target, const double *w);

#endif
