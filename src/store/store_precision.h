/* Facts of a run in mixed precision: in which precision an exposure is computed, and how far the
 * two are apart. */
#ifndef MOAO_STORE_PRECISION_H
#define MOAO_STORE_PRECISION_H

#include "store.h"

/* Local, as store_set_fact. difference: as obsseq_accuracy has it, kept to 1e-12; NaN: other
 * exposures were sampled. */
status store_set_precision(store *s, int exposure, bool mixed, double difference);
/* False: nothing is known, all of the exposure is in double precision. */
bool store_get_precision(const store *s, int exposure, bool *mixed, double *difference);

#endif
