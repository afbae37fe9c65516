#include "atmos.h"

#include "system.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const profile *atmos_profile_at(const atmos *a, double time) {
    int low = 0, high = a->nprofile - 1;
    while (low < high) {
        int middle = (low + high + 1) / 2;
        if (a->profiles[middle].time <= time)
            low = middle;
        else
            high = middle - 1;
    }
    return &a->profiles[low];
}

const profile *atmos_tor_profile(const atmos *a, int k) {
    const profile *p = atmos_profile_at(a, a->tor_time[k]);
    return a->still != NULL ? &a->still[p - a->profiles] : p;
}

status profile_still(const profile *p, profile *still) {
    const size_t n = (size_t)p->nlayer;
    status st;
    *still = *p;
    still->h = still->L0 = still->strength = still->wind[0] = still->wind[1] = NULL;
    TRY(ALLOC(still->h, n, "layers"));
    TRY(ALLOC(still->L0, n, "layers"));
    TRY(ALLOC(still->strength, n, "layers"));
    TRY(ALLOC(still->wind[0], n, "layers"));
    TRY(ALLOC(still->wind[1], n, "layers"));
    memcpy(still->h, p->h, n * sizeof *p->h);
    memcpy(still->L0, p->L0, n * sizeof *p->L0);
    memcpy(still->strength, p->strength, n * sizeof *p->strength);
done:
    return st;
}

status atmos_make_still(atmos *a) {
    status st = ALLOC(a->still, (size_t)a->nprofile, "profiles without wind");
    for (int i = 0; i < a->nprofile && st == MOAO_OK; i++) {
        st = profile_still(&a->profiles[i], &a->still[i]);
        memset(a->still[i].loop, 0, sizeof a->still[i].loop);
        a->still[i].of_tor = true;
    }
    return st;
}

/* First of n increasing times that is not before `time`; n when there is none. */
static int first_from(const double *times, int n, double time) {
    int low = 0, high = n;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (times[middle] < time)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int atmos_tor_of(const atmos *a, int e) {
    int i = first_from(a->tor_time, a->ntor, a->exposure_time[e]);
    bool exact = i < a->ntor && a->tor_time[i] == a->exposure_time[e];
    return exact || i == 0 ? i : i - 1;
}

void atmos_exposures_of(const atmos *a, int k, int *first, int *end) {
    *first = k == 0 ? 0 : first_from(a->exposure_time, a->nexposure, a->tor_time[k]);
    *end = k + 1 < a->ntor ? first_from(a->exposure_time, a->nexposure, a->tor_time[k + 1])
                           : a->nexposure;
}

static bool same_layers(const profile *p, const profile *q) {
    const size_t bytes = (size_t)p->nlayer * sizeof *p->h;
    return p->nlayer == q->nlayer && memcmp(p->h, q->h, bytes) == 0 &&
           memcmp(p->L0, q->L0, bytes) == 0;
}

int atmos_count_layerings(const atmos *a, int most) {
    int n = 0;
    for (int i = 0; i < a->nprofile && n < most; i++) {
        bool known = false;
        for (int k = 0; k < i && !known; k++)
            known = same_layers(&a->profiles[k], &a->profiles[i]);
        n += !known;
    }
    return n;
}

/* 2 pi W 2^(5/6) pi^(5/3) int f^(-8/3) sin^2(f^2) df, W of the spectrum of the phase. */
#define SCINTILLATION 1.3301994886872046

double profile_scintillation(const profile *p, double lambda) {
    const double wave = 2 * M_PI / lambda, dispersion = pow(LAMBDA_REF / lambda, 2);
    double sum = 0;
    for (int l = 0; l < p->nlayer; l++)
        sum += p->strength[l] * pow(fmax(0, p->h[l]), 5.0 / 6);
    return SCINTILLATION * dispersion * pow(wave, -5.0 / 6) * sum;
}

void profile_free(profile *p) {
    free(p->h);
    free(p->L0);
    free(p->strength);
    free(p->wind[0]);
    free(p->wind[1]);
    memset(p, 0, sizeof *p);
}

void atmos_free(atmos *a) {
    for (int i = 0; a->profiles != NULL && i < a->nprofile; i++)
        profile_free(&a->profiles[i]);
    for (int i = 0; a->still != NULL && i < a->nprofile; i++)
        profile_free(&a->still[i]);
    free(a->profiles);
    free(a->still);
    free(a->tor_time);
    free(a->exposure_time);
    memset(a, 0, sizeof *a);
}
