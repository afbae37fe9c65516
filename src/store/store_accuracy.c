#include "store_accuracy.h"

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

static void level_key(int tor, char key[32]) {
    snprintf(key, 32, "accuracy_%d", tor);
}

status store_set_level(store *s, int tor, int level) {
    char key[32];
    level_key(tor, key);
    return store_set_fact(s, key, level);
}

int store_get_level(const store *s, int tor) {
    char key[32];
    level_key(tor, key);
    return (int)store_get_fact(s, key, 0);
}

static const struct {
    const char *name;
    double step;
} part[] = {{"steps", 1},         {"form", 1},    {"change", STEP},
            {"tolerance", 1e-18}, {"rank", 1e-3}, {"bytes", 1}};
enum { PARTS = sizeof part / sizeof *part };

status store_set_compression(store *s, int tor, const store_compression *c) {
    const double value[PARTS] = {c->level, c->form, c->difference, c->tolerance, c->rank, c->bytes};
    status st = MOAO_OK;
    for (int i = 0; i < PARTS && st == MOAO_OK; i++) {
        char key[32];
        const double steps = value[i] / part[i].step;
        snprintf(key, sizeof key, "tlr_%s_%d", part[i].name, tor);
        st = store_set_fact(s, key, steps < (double)MOST ? lround(steps) : MOST);
    }
    return st;
}

bool store_get_compression(const store *s, int tor, store_compression *c) {
    double value[PARTS];
    for (int i = 0; i < PARTS; i++) {
        char key[32];
        snprintf(key, sizeof key, "tlr_%s_%d", part[i].name, tor);
        const long steps = store_get_fact(s, key, LONG_MIN);
        if (steps == LONG_MIN)
            return false;
        value[i] = (double)steps * part[i].step;
    }
    *c = (store_compression){.level = (int)value[0],
                             .form = (int)value[1],
                             .difference = value[2],
                             .tolerance = value[3],
                             .rank = value[4],
                             .bytes = value[5]};
    return true;
}
