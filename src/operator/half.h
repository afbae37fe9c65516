/* Sizes of exposures in mixed precision, for the plan too. Local. */
#ifndef MOAO_HALF_H
#define MOAO_HALF_H

#include "operator/engine.h"

/* Bytes of dT in halves, in panels of `width` columns, or of D+ Ctm0 (rows x m), which takes that
 * place at the solve. */
size_t half_differences(size_t m, size_t rows, size_t width);
/* Tip-tilt constants: two for each laser star. */
int half_constants(const sys *s);
/* Which measurements are of which laser star and axis: m x half_constants(s) ones and zeros on the
 * device. Waits. */
status half_axes(engine *e, double *axes);

#endif
