/* The two solves with a factor, panel by panel, against rows of W. A panel: columns j .. j + n of
 * L, from row j on, leading dimension ldl. */
#ifndef MOAO_PANELS_H
#define MOAO_PANELS_H

#include "engine/plan.h"

/* Local. X L' = W from the left to the right: the panel's columns of W, then what they give to
 * those after. */
status panel_forward(engine *e, const wrows *w, int64_t j, int64_t n, const double *l, int64_t ldl);
/* Local. X L = W from the right to the left: what the columns after those of the panel give to
 * them, then they themselves. */
status panel_backward(engine *e, const wrows *w, int64_t j, int64_t n, const double *l,
                      int64_t ldl);

#endif
