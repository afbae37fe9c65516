/* The product of rows of W with a panel of T: columns j .. j + n, from row j on. */
#ifndef MOAO_FP64_PANELS_H
#define MOAO_FP64_PANELS_H

#include "residual/product.h"

/* Local. z (rows x n, leading dimension ldz) = W(:, j:j+n) T(j:j+n, j:j+n), as below. */
status panel_diagonal(engine *e, const wrows *w, int64_t j, int64_t n, const double *t, int64_t ldt,
                      double *z, int64_t ldz);

/* Local. z (rows x n, leading dimension ldz) = W T(:, j:j+n), t the panel with leading dimension
 * ldt. What lies above its diagonal is not read. The shared work of e is for a trmm of rows x n. */
status panel_product(engine *e, const wrows *w, int64_t j, int64_t n, const double *t, int64_t ldt,
                     double *z, int64_t ldz);

#endif
