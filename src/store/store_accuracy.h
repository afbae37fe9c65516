/* Facts of a run that is not exact up to rounding (job/accuracy.h). */
#ifndef MOAO_STORE_ACCURACY_H
#define MOAO_STORE_ACCURACY_H

#include "store.h"

/* In which precision an exposure is computed, and how far the two are apart. Local, as
 * store_set_fact. difference: as obsseq_accuracy has it, kept to 1e-12; NaN: other exposures were
 * sampled. */
status store_set_precision(store *s, int exposure, bool mixed, double difference);
/* False: nothing is known, all of the exposure is in double precision. */
bool store_get_precision(const store *s, int exposure, bool *mixed, double *difference);

/* Level of accuracy (operator/operator.h) of W of reconstructor tor; 0 where none is known. */
status store_set_level(store *s, int tor, int level);
int store_get_level(const store *s, int tor);

/* A compressed factor: how it was made, and what came of it. */
enum { COMPRESSION_TILES, COMPRESSION_REFINED, COMPRESSION_DENSE };
typedef struct {
    int level, form;
    double difference;  /* of results, kept to 1e-12 */
    double tolerance;   /* [arcsec^2], kept to 1e-18 */
    double rank, bytes; /* mean, kept to 0.001; of the factor */
} store_compression;
/* Local, as store_set_fact; of reconstructor tor. get: false where nothing is known. */
status store_set_compression(store *s, int tor, const store_compression *c);
bool store_get_compression(const store *s, int tor, store_compression *c);

#endif
