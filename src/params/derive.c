/* What follows from the parameters: geometry (system/system.h) and atmosphere (system/atmos.h). */
#include "params_load.h"
#include "system/photometry.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* How much light a magnitude is, in the sensor's band. */
static void set_photometry(const sensor_params *p, sensor_noise *n) {
    const bool published = p->photometry == PHOTOMETRY_PUBLISHED ||
                           (p->photometry == PHOTOMETRY_AUTO && p->slope == SLOPE_POINTS);
    double type;
    n->band = p->band != BAND_AUTO ? p->band - 1 : photometry_band_at(p->wavelength);
    if (p->spectral_type == NULL || !photometry_type(p->spectral_type, &type))
        type = NAN;
    if (!published)
        n->zero = photometry_zero(n->band, type, p->wavelength, p->bandwidth);
}

static void set_noise(const sensor_params *p, double diameter, sensor_noise *n) {
    bool lgs = p->type == SENSOR_LGS;
    *n = (sensor_noise){
        .variance = params_given(p->noise_variance) ? p->noise_variance : -1,
        .gaussian = p->noise_model == NOISE_GAUSSIAN,
        .excess = p->excess_noise,
        .background = p->background,
        .has_sky = !lgs && params_given(p->sky),
        .extinct = params_given(p->extinction),
        .sky = !lgs && params_given(p->sky) ? p->sky : 0,
        .extinction = params_given(p->extinction) ? p->extinction : 0,
        .frame_time = p->frame_time,
        .ron = p->ron,
        .pixel = p->pixel,
        .wavelength = p->wavelength,
        .bandwidth = lgs ? 0 : p->bandwidth,
        .throughput = p->throughput,
        .photons = params_given(p->photons) ? p->photons : 0,
        .magnitude = !lgs && params_given(p->magnitude) ? p->magnitude : 0,
        .lgs_return = lgs && params_given(p->lgs_return) ? p->lgs_return : 0,
        .t_atm = lgs ? p->atm_transmission : 1,
        .lgs_width = lgs ? p->lgs_width : 0,
        .lgs_depth = lgs ? p->lgs_depth : 0,
        .corrected = !lgs && p->spot == SPOT_CORRECTED,
        .core = !lgs && params_given(p->spot_strehl) ? p->spot_strehl : 0,
        .full_spot = p->spot == SPOT_FULL || p->spot == SPOT_CORRECTED ||
                     (p->spot == SPOT_AUTO && p->slope == SLOPE_GRADIENT),
        .field_stop = params_given(p->field_stop) ? p->field_stop : 0,
        .tiptilt = lgs && params_given(p->tiptilt_variance) ? p->tiptilt_variance : -1,
        .tiptilt_factor = lgs ? p->tiptilt_factor : 0,
    };
    if (lgs)
        place_launch(p, diameter, n->launch);
    else
        set_photometry(p, n);
}

/* From the frame of the pupil into the field: counterclockwise by the angle from the field's y axis
 * to the zenith. */
static void turn(double angle, double v[2]) {
    const double c = cos(angle), s = sin(angle), x = v[0], y = v[1];
    v[0] = c * x - s * y;
    v[1] = s * x + c * y;
}

static void set_sensor(const params *par, const sensor_params *p, double airmass, sensor *o) {
    snprintf(o->name, sizeof o->name, "%s", p->name);
    o->lgs = p->type == SENSOR_LGS;
    o->nssp = p->nssp;
    o->gradient = p->slope == SLOPE_GRADIENT;
    o->low = p->low_order;
    o->loop = o->low ? 1 : 0;
    memcpy(o->dir, p->direction, sizeof o->dir);
    o->altitude = o->lgs ? p->altitude * airmass : INFINITY;
    o->mag = p->magnification;
    o->rot = p->rotation;
    memcpy(o->shift, p->shift, sizeof o->shift);
    if (params_given(p->delay))
        o->late = par->loop_delay + 0.5 * par->loop_integration - (p->delay + 0.5 * p->frame_time);
    set_noise(p, par->telescope_diameter, &o->noise);
    if (o->lgs && par->sky_lgs == SKY_PUPIL) {
        sky field;
        params_sky(par, &field);
        turn(field.parallactic - field.angle, o->dir);
        turn(field.parallactic - field.angle, o->noise.launch);
    }
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

/* What of the annulus is lit, in the frame of the directions. */
static status set_pupil(const params *par, sys *s) {
    const real_list *angles = &par->telescope_spiders_angles,
                    *offsets = &par->telescope_spiders_offset;
    const int n = angles->n > 0 ? angles->n : par->telescope_spiders_number;
    const double first =
        params_given(par->telescope_spiders_angle) ? par->telescope_spiders_angle : 0;
    double *v = NULL;
    sky field;
    status st;
    TRY(ALLOC(v, 2 * (size_t)n + 1, "spiders"));
    for (int i = 0; i < n; i++) {
        v[i] = angles->n > 0 ? angles->v[i] : first + 2 * M_PI * i / n;
        v[n + i] = offsets->n > 0 ? offsets->v[offsets->n > 1 ? i : 0] : 0;
    }
    pupil_opts o = {.diameter = s->diameter,
                    .obs = s->obs,
                    .angle = par->telescope_pupil_angle,
                    .nspider = n,
                    .spider_angle = v,
                    .spider_offset = v + n,
                    .spider_width = par->telescope_spiders_width,
                    .min_light = par->telescope_min_light,
                    .map = par->pupil};
    o.segments = (pupil_segments){
        .tiling = (pupil_tiling)par->telescope_segments_shape,
        .size = par->telescope_segments_size,
        .gap = par->telescope_segments_gap,
        .angle = par->telescope_segments_angle,
        .within = {par->telescope_segments_within[0], par->telescope_segments_within[1]},
        .nmissing = par->telescope_segments_missing.n,
        .missing = (const double(*)[2])par->telescope_segments_missing.v,
        .piston = par->telescope_segments_piston,
        .tiptilt = par->telescope_segments_tiptilt};
    params_sky(par, &field);
    if (par->sky_pupil != SKY_PUPIL_FIELD && params_given(field.parallactic))
        o.angle += field.parallactic - field.angle;
    TRY(pupil_init(&o, &s->pupil));
done:
    free(v);
    return st;
}

status sys_init(const params *par, sys *s) {
    status st;
    *s = (sys){.diameter = par->telescope_diameter,
               .obs = par->telescope_obscuration,
               .zenith = par->telescope_zenith,
               .delay = par->loop_delay + 0.5 * par->loop_integration};
    s->dm = (dmirror){.nssp = par->dm_nssp, .coupling = par->dm_coupling, .mu = par->dm_mu};
    s->ts = (sensor){.name = "TS", .nssp = par->dm_nssp, .altitude = INFINITY, .mag = 1};
    TRY(ALLOC(s->sensors, (size_t)par->sensors.n, "sensors"));
    s->nsensor = par->sensors.n;
    for (int w = 0; w < s->nsensor; w++) {
        set_sensor(par, &par->sensors.v[w], 1 / cos(s->zenith), &s->sensors[w]);
        s->ts.gradient = s->ts.gradient || s->sensors[w].gradient;
    }
    TRY(params_split_delays(par, s));
    TRY(set_targets(par, s));
    TRY(set_pupil(par, s));
    TRY(sys_derive(s));
    TRY(params_set_correctors(par, s));
    for (int w = 0; w < s->nsensor; w++)
        s->low.on = s->low.on || s->sensors[w].low;
    s->low.control = par->loop_low_control;
    s->low.modes = par->loop_low_modes;
    TRY(params_set_loop(par, s));
done:
    return st;
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
    if (sys_has_own_delays(s) || s->loop.type != LOOP_OPEN)
        TRY(atmos_make_still(a));
    for (int i = 0; i < from->n; i++)
        for (int k = 0; k < LOOPS; k++)
            a->profiles[i].loop[k] = sys_loop(s, k);
    TRY(set_times(par, &par->schedule_tor_times, par->schedule_tor_interval, &a->tor_time,
                  &a->ntor));
    TRY(set_times(par, &par->schedule_exposure_times, par->schedule_exposure_interval,
                  &a->exposure_time, &a->nexposure));
done:
    return st;
}
