/* The atmosphere: a sequence of turbulence profiles in time, as seen along the line of sight. */
#ifndef MOAO_ATMOS_H
#define MOAO_ATMOS_H

#include "loop.h"
#include "moao/status.h"

#include <stdbool.h>

typedef struct {
    double time; /* start of validity [s] */
    int nlayer;
    double *h;        /* [nlayer] altitude along the line of sight (altitude * airmass) [m] */
    double *L0;       /* [nlayer] outer scale [m]; INFINITY: Kolmogorov */
    double *strength; /* [nlayer] r0_l^(-5/3) along the line of sight, at 500 nm [m^(-5/3)] */
    double *wind[2];  /* [nlayer] wind velocity [m/s] */
    double r0;        /* (sum of strengths)^(-3/5), along the line of sight [m]; INFINITY without
                         turbulence */
    bool of_tor;      /* of reconstructors, without wind (atmos_make_still) */
    const loop_filter *loop[LOOPS]; /* of an exposure of a closed loop, by the loop of a sensor
                                       (system.h), borrowed; NULL: of an open one, and of a
                                       reconstructor; of others than the first: the first */
    char label[64];                 /* where it came from, for headers and messages */
} profile;

typedef struct {
    int nprofile;
    profile *profiles; /* increasing time */
    profile *still;    /* [nprofile] the same without wind, where reconstructors need them */
    int ntor;
    double *tor_time; /* [ntor] [s], increasing */
    int nexposure;
    double *exposure_time; /* [nexposure] [s], increasing */
} atmos;

/* That of a sensor; NULL in open loop. */
static inline const loop_filter *profile_loop(const profile *p, int i) {
    return p->loop[i] != NULL ? p->loop[i] : p->loop[0];
}

/* The profile in force at a time: the last one that started (the first one before that). Borrowed.
 */
const profile *atmos_profile_at(const atmos *a, double time);
/* That of reconstructor k: without wind and loop, which it does not know of, where sensors have
 * delays of their own or the loop is closed (elsewhere its wind does not matter). Borrowed. */
const profile *atmos_tor_profile(const atmos *a, int k);
/* A copy without wind; free with profile_free, also after a failure. MOAO_MEMORY. */
status profile_still(const profile *p, profile *still);
/* Make a->still. MOAO_MEMORY. */
status atmos_make_still(atmos *a);
/* Index of the ToR in force at exposure e: the last computed at or before its time. */
int atmos_tor_of(const atmos *a, int e);
/* The exposures of ToR k: *first <= e < *end. */
void atmos_exposures_of(const atmos *a, int k, int *first, int *end);
/* How many of the profiles differ in their layers' altitudes or outer scales from all before them,
 * at most `most`: what depends on these alone is made that often. */
int atmos_count_layerings(const atmos *a, int most);
/* Variance of the log-amplitude at a point of the pupil, of the turbulence at a wavelength [m]:
 * weak scintillation of a plane wave (Roddier 1981, model section 7), without outer scale. A mirror
 * leaves it; a long exposure's Strehl ratio has the factor exp(-variance). */
double profile_scintillation(const profile *p, double lambda);
void profile_free(profile *p);
void atmos_free(atmos *a);

#endif
