#include "store_precision.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>

#define STEP 1e-12
#define MOST 1000000000000000000L /* stands for all above */
#define UNSEEN (MOST + 1)         /* nothing was sampled */

static void key_of(int exposure, char key[32]) {
    snprintf(key, 32, "precision_%d", exposure);
}

/* The difference d in steps; -1 - d in double precision. */
status store_set_precision(store *s, int exposure, bool mixed, double difference) {
    char key[32];
    const long steps = isnan(difference)                  ? UNSEEN
                       : difference < (double)MOST * STEP ? lround(difference / STEP)
                                                          : MOST;
    key_of(exposure, key);
    return store_set_fact(s, key, mixed ? steps : -1 - steps);
}

bool store_get_precision(const store *s, int exposure, bool *mixed, double *difference) {
    char key[32];
    key_of(exposure, key);
    const long value = store_get_fact(s, key, LONG_MIN);
    const long steps = value < 0 ? -1 - value : value;
    *mixed = value >= 0;
    *difference = value == LONG_MIN || steps == UNSEEN ? NAN
                  : steps >= MOST                      ? INFINITY
                                                       : (double)steps * STEP;
    return value != LONG_MIN;
}
