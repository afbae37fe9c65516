#include "atmos.h"

#include "params.h"
#include "params_load.h"

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
    free(a->profiles);
    free(a->tor_time);
    free(a->exposure_time);
    memset(a, 0, sizeof *a);
}

/* A profile seen at an airmass X: altitudes times X, strengths times X. Model section 1. */
static status set_profile(const profile_params *from, double airmass, profile *p) {
    size_t n = (size_t)from->layers_altitude.n;
    double total = 0;
    status st;
    TRY(ALLOC(p->h, n, "layers"));
    TRY(ALLOC(p->L0, n, "layers"));
    TRY(ALLOC(p->strength, n, "layers"));
    TRY(ALLOC(p->wind[0], n, "layers"));
    TRY(ALLOC(p->wind[1], n, "layers"));
    p->time = from->time;
    p->nlayer = (int)n;
    for (size_t i = 0; i < n; i++) {
        double speed = from->layers_wind_speed.v[i], direction = from->layers_wind_direction.v[i];
        p->h[i] = from->layers_altitude.v[i] * airmass;
        p->L0[i] = from->layers_L0.v[i];
        p->strength[i] = from->layers_strength.v[i] * airmass;
        p->wind[0][i] = speed * cos(direction);
        p->wind[1][i] = speed * sin(direction);
        total += p->strength[i];
    }
    p->r0 = total > 0 ? pow(total, -0.6) : INFINITY;
    memcpy(p->label, from->label, sizeof p->label);
done:
    return st;
}

static status set_times(const params *par, const real_list *times, double interval, double **out,
                        int *n) {
    status st;
    *n = params_schedule(times, interval, par->schedule_start, par->schedule_end, NULL);
    if (*n < 0)
        return status_fail(MOAO_INPUT, "too many times in the schedule, use a longer interval");
    TRY(ALLOC(*out, (size_t)*n, "times"));
    params_schedule(times, interval, par->schedule_start, par->schedule_end, *out);
done:
    return st;
}

status atmos_init(const params *par, const sys *s, atmos *a) {
    const profile_list *from = &par->atmosphere_profiles;
    status st;
    *a = (atmos){0};
    TRY(ALLOC(a->profiles, (size_t)from->n, "profiles"));
    a->nprofile = from->n;
    for (int i = 0; i < from->n; i++)
        TRY(set_profile(&from->v[i], s->airmass, &a->profiles[i]));
    TRY(set_times(par, &par->schedule_tor_times, par->schedule_tor_interval, &a->tor_time,
                  &a->ntor));
    TRY(set_times(par, &par->schedule_exposure_times, par->schedule_exposure_interval,
                  &a->exposure_time, &a->nexposure));
done:
    return st;
}
