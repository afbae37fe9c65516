/* What operators do with panels of a triangle that are streamed from host memory, against rows of
 * W, a panel at a time: a factor's two solves, and a product with T. A panel: columns j .. j + n of
 * L or T, from row j on, leading dimension ldl or ldt. */
#ifndef MOAO_PANELS_H
#define MOAO_PANELS_H

#include "operator/operator.h"

/* Local. X L' = W from the left to the right: the panel's columns of W, then what they give to
 * those after. */
status panel_forward(engine *e, const wrows *w, int64_t j, int64_t n, const double *l, int64_t ldl);
/* Local. X L = W from the right to the left: what the columns after those of the panel give to
 * them, then they themselves. */
status panel_backward(engine *e, const wrows *w, int64_t j, int64_t n, const double *l,
                      int64_t ldl);

/* Local. z (rows x n, leading dimension ldz) = W T(:, j:j+n). What lies above the diagonal of the
 * panel is not read. The shared work of e is for a trmm of rows x n. */
status panel_product(engine *e, const wrows *w, int64_t j, int64_t n, const double *t, int64_t ldt,
                     double *z, int64_t ldz);

#endif
