/* What a user wants to know of the sensors' noise. */
#ifndef MOAO_NOISE_TABLE_H
#define MOAO_NOISE_TABLE_H

#include "system/atmos.h"
#include "system/system.h"

/* Local. Prints photo-electrons, spot and noise of each sensor under a profile, a line each. */
void noise_table_print(const sys *s, const profile *p);

#endif
