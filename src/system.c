#include "system.h"

#include "params.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool sys_subaperture_valid(int n, double obs, int ix, int iy) {
    int64_t x = 2 * (int64_t)ix + 1 - n, y = 2 * (int64_t)iy + 1 - n;
    int64_t r2 = x * x + y * y;
    double hole = obs * n;
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

/* Launch point: as given, else on the pupil's edge in the star's direction. Model section 5. */
static void place_launch(const sensor_params *p, double diameter, double launch[2]) {
    double norm = hypot(p->direction[0], p->direction[1]);
    if (params_given(p->launch[0])) {
        memcpy(launch, p->launch, sizeof p->launch);
    } else {
        launch[0] = norm > 0 ? diameter / 2 * p->direction[0] / norm : diameter / 2;
        launch[1] = norm > 0 ? diameter / 2 * p->direction[1] / norm : 0;
    }
}

static void set_noise(const sensor_params *p, double diameter, sensor_noise *n) {
    bool lgs = p->type == SENSOR_LGS;
    *n = (sensor_noise){
        .variance = params_given(p->noise_variance) ? p->noise_variance : -1,
        .frame_time = p->frame_time,
        .ron = p->ron,
        .pixel = p->pixel,
        .wavelength = p->wavelength,
        .bandwidth = lgs ? 0 : p->bandwidth,
        .throughput = p->throughput,
        .magnitude = !lgs && params_given(p->magnitude) ? p->magnitude : 0,
        .lgs_return = lgs ? p->lgs_return : 0,
        .t_atm = lgs ? p->atm_transmission : 1,
        .lgs_width = lgs ? p->lgs_width : 0,
        .lgs_depth = lgs ? p->lgs_depth : 0,
        .tiptilt = lgs && params_given(p->tiptilt_variance) ? p->tiptilt_variance : -1,
        .tiptilt_factor = lgs ? p->tiptilt_factor : 0,
    };
    if (lgs)
        place_launch(p, diameter, n->launch);
}

static void set_sensor(const params *par, const sensor_params *p, double airmass, sensor *o) {
    snprintf(o->name, sizeof o->name, "%s", p->name);
    o->lgs = p->type == SENSOR_LGS;
    o->nssp = p->nssp;
    memcpy(o->dir, p->direction, sizeof o->dir);
    o->altitude = o->lgs ? p->altitude * airmass : INFINITY;
    o->mag = p->magnification;
    o->rot = p->rotation;
    memcpy(o->shift, p->shift, sizeof o->shift);
    set_noise(p, par->telescope_diameter, &o->noise);
}

/* Position i of n that are `step` apart and centred. */
static double centred(int i, int n, double step) {
    return (i - (n - 1) / 2.) * step;
}

static status set_targets(const params *par, sys *s) {
    int nx = par->targets_grid_nx, ny = par->targets_grid_ny;
    double width = par->targets_grid_width, height = par->targets_grid_height;
    status st;
    s->ntarget = nx > 0 ? nx * ny : par->targets_list.n;
    TRY(ALLOC(s->targets, (size_t)s->ntarget, "targets"));
    if (nx == 0) {
        memcpy(s->targets, par->targets_list.v, (size_t)s->ntarget * sizeof *s->targets);
        goto done;
    }
    s->grid[0] = nx;
    s->grid[1] = ny;
    s->grid_step[0] = nx > 1 ? width / (nx - 1) : width;
    s->grid_step[1] = ny > 1 ? height / (ny - 1) : height;
    for (int iy = 0; iy < ny; iy++)
        for (int ix = 0; ix < nx; ix++) {
            double *t = s->targets[iy * nx + ix];
            t[0] = par->targets_grid_center[0] + centred(ix, nx, s->grid_step[0]);
            t[1] = par->targets_grid_center[1] + centred(iy, ny, s->grid_step[1]);
        }
done:
    return st;
}

status sys_init(const params *par, sys *s) {
    status st;
    *s = (sys){.diameter = par->telescope_diameter,
               .obs = par->telescope_obscuration,
               .zenith = par->telescope_zenith,
               .delay = par->loop_delay};
    s->dm = (dmirror){.nssp = par->dm_nssp, .coupling = par->dm_coupling, .mu = par->dm_mu};
    s->ts = (sensor){.name = "TS", .nssp = par->dm_nssp, .altitude = INFINITY, .mag = 1};
    TRY(ALLOC(s->sensors, (size_t)par->sensors.n, "sensors"));
    s->nsensor = par->sensors.n;
    for (int w = 0; w < s->nsensor; w++)
        set_sensor(par, &par->sensors.v[w], 1 / cos(s->zenith), &s->sensors[w]);
    TRY(set_targets(par, s));
    TRY(sys_derive(s));
done:
    return st;
}
