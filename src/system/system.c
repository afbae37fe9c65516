#include "system.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool sys_subaperture_valid(int n, double obs, int ix, int iy) {
    int64_t x = 2 * (int64_t)ix + 1 - n, y = 2 * (int64_t)iy + 1 - n;
    int64_t r2 = x * x + y * y;
    double hole = obs * n;
    if (n <= 2) /* stars for tip-tilt and focus: each subaperture has its share of the annulus */
        return true;
    return hole * hole * (1 - 1e-9) <= (double)r2 && r2 < (int64_t)n * n;
}

bool sys_actuator_valid(int n, double obs, int ix, int iy) {
    int64_t x = 2 * (int64_t)ix - n, y = 2 * (int64_t)iy - n;
    double r = sqrt((double)(x * x + y * y));
    return obs * n - 1 + 1e-9 * n < r && r < n + 1.4;
}

/* Indices iy*side + ix for which valid() holds, increasing. */
static status list_valid(int n, int side, double obs, bool (*valid)(int, double, int, int),
                         int **list, int *count) {
    status st;
    *count = 0;
    free(*list);
    TRY(ALLOC(*list, (size_t)side * (size_t)side, "valid subapertures or actuators"));
    for (int iy = 0; iy < side; iy++)
        for (int ix = 0; ix < side; ix++)
            if (valid(n, obs, ix, iy))
                (*list)[(*count)++] = iy * side + ix;
    if (*count == 0)
        st = status_fail(MOAO_INPUT,
                         "%d subapertures across with an obscuration of %g: none is valid", n, obs);
done:
    return st;
}

status sys_derive(sys *s) {
    status st;
    s->airmass = 1 / cos(s->zenith);
    s->m = 0;
    for (int w = 0; w < s->nsensor; w++) {
        sensor *o = &s->sensors[w];
        TRY(list_valid(o->nssp, o->nssp, s->obs, sys_subaperture_valid, &o->sub, &o->nsub));
        o->first = s->m;
        s->m += 2 * (size_t)o->nsub;
    }
    TRY(list_valid(s->ts.nssp, s->ts.nssp, s->obs, sys_subaperture_valid, &s->ts.sub, &s->ts.nsub));
    s->t = 2 * (size_t)s->ts.nsub;
    TRY(list_valid(s->dm.nssp, s->dm.nssp + 1, s->obs, sys_actuator_valid, &s->dm.act,
                   &s->dm.nact));
    s->dm.pitch = s->diameter / s->dm.nssp;
done:
    return st;
}

void sys_free(sys *s) {
    for (int w = 0; s->sensors != NULL && w < s->nsensor; w++)
        free(s->sensors[w].sub);
    free(s->sensors);
    free(s->ts.sub);
    free(s->dm.act);
    free(s->targets);
    memset(s, 0, sizeof *s);
}

void sys_slope_at(const sys *s, size_t k, int *w, int *axis, int *isub) {
    int low = 0, high = s->nsensor - 1;
    while (low < high) {
        int middle = (low + high + 1) / 2;
        if (s->sensors[middle].first <= k)
            low = middle;
        else
            high = middle - 1;
    }
    size_t i = k - s->sensors[low].first, n = (size_t)s->sensors[low].nsub;
    *w = low;
    *axis = i >= n;
    *isub = (int)(i >= n ? i - n : i);
}

double sys_photons(const sys *s, const sensor *o) {
    const sensor_noise *n = &o->noise;
    double pitch = s->diameter / o->nssp;
    double common = n->throughput * pitch * pitch * n->frame_time;
    if (o->lgs)
        return n->lgs_return * common / n->t_atm;
    return pow(10.0, 2.9 - 0.4 * n->magnitude) * common * (n->bandwidth * 1e10) * 1e4;
}
