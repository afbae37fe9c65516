/* Sizes of exposures in mixed precision, for the plan too. Local. */
#ifndef MOAO_HALF_H
#define MOAO_HALF_H

#include "system/system.h"
#include <stddef.h>

/* Bytes of dT in halves, in panels of `width` columns, or of D+ Ctm0 (rows x m), which takes that
 * place at the solve. */
size_t half_differences(size_t m, size_t rows, size_t width);
/* Tip-tilt constants: two for each laser star. */
int half_constants(const sys *s);

#endif
