#include "job/setup.h"

#include "base/progress.h"
#include "matcov/matcov.h"
#include "system/photometry.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CROP_DEFAULT 128 /* pixels: +-21 lambda/D for a grid of 3 D */

/* Beyond these a case is a mistake: Cmm of 100 TB in all, D+ of 1 TB on every rank. The ELT at full
 * scale takes 84 GB and 0.4 GB. */
#define MOST_CMM 1e14
#define MOST_DPLUS 1e12

/* Valid subapertures, or actuators with `corners`, of n across. */
static double count_valid(int n, double obs, bool corners) {
    double count = 0;
    for (int iy = 0; iy < n + corners; iy++)
        for (int ix = 0; ix < n + corners; ix++)
            count += corners ? sys_actuator_valid(n, obs, ix, iy)
                             : sys_subaperture_valid(n, obs, ix, iy);
    return count;
}

static status check_sizes(const params *par) {
    const double obs = par->telescope_obscuration;
    const double t = 2 * count_valid(par->dm_nssp, obs, false);
    const double dplus = 8 * t * count_valid(par->dm_nssp, obs, true);
    double *known = NULL, m = 0; /* by subapertures across */
    int most = 0;
    status st;
    for (int w = 0; w < par->sensors.n; w++)
        most = par->sensors.v[w].nssp > most ? par->sensors.v[w].nssp : most;
    TRY(ALLOC(known, (size_t)most + 1, "numbers of subapertures"));
    for (int w = 0; w < par->sensors.n; w++) {
        const int n = par->sensors.v[w].nssp;
        if (known[n] == 0)
            known[n] = count_valid(n, obs, false);
        m += 2 * known[n];
    }
    if (8 * m * m > MOST_CMM || dplus > MOST_DPLUS)
        st = status_fail(
            MOAO_INPUT,
            "sizes: %.0f measurements and dm.nssp=%d take %.3g GB for Cmm and %.3g GB "
            "for D+ on every rank (a full ELT instrument: 84 and 0.4), expected smaller "
            "%s",
            m, par->dm_nssp, 8 * m * m / 1e9, dplus / 1e9,
            dplus > MOST_DPLUS ? "dm.nssp" : "sensors[].nssp");
done:
    free(known);
    return st;
}

/* Focus error by the sodium layer's altitude, rms: path = this times r^2 [1/m]. Of an error dh at
 * zenith dh X/(2 z^2), z = h X along the line of sight. Model section 7. */
static double sodium_focus(const params *par) {
    const double drift = par->errors_sodium_drift * par->errors_sodium_interval;
    double sum = 0;
    int n = 0;
    for (int i = 0; i < par->sensors.n; i++)
        if (par->sensors.v[i].type == SENSOR_LGS) {
            sum += cos(par->telescope_zenith) / (2 * pow(par->sensors.v[i].altitude, 2));
            n++;
        }
    return n > 0 ? sum / n * sqrt(pow(par->errors_sodium_altitude, 2) + drift * drift / 3) : 0;
}

/* psf.oversampling where it is chosen: at least, at most; seeings that an image holds; the grid's
 * largest side [pixels] (psf_init). */
enum { OVERSAMPLING = 4, MOST_OVERSAMPLING = 16 };
static const double HALO = 1.3, MOST_GRID = 32768;

/* An image is lambda/pixel wide; a halo wider than that is added to the other side of it, which at
 * Strehl ratios of a hundredth is 10 % of the axis. */
static void choose_oversampling(params *par, const sys *s, const atmos *a) {
    double r0 = INFINITY, lambda = INFINITY;
    if (par->psf_oversampling > 0)
        return;
    for (int i = 0; i < a->nprofile; i++)
        r0 = fmin(r0, a->profiles[i].r0);
    for (int i = 0; i < par->images.n; i++)
        lambda = fmin(lambda, par->images.lambda[i] - 0.5 * par->images.width[i]);
    r0 *= pow(lambda / LAMBDA_REF, 1.2);
    const double wanted = par->psf_residual == RESIDUAL_PHASE ? ceil(HALO * s->dm.pitch / r0) : 0,
                 most = fmin(MOST_OVERSAMPLING, MOST_GRID / (par->psf_span * par->dm_nssp));
    par->psf_oversampling = (int)fmax(OVERSAMPLING, fmin(wanted, most));
}

status setup_choose(params *par) {
    sys s = {0};
    atmos a = {0};
    status st;
    TRY(sys_init(par, &s));
    TRY(atmos_init(par, &s, &a));
    choose_oversampling(par, &s, &a);
    st = static_map_name(par);
done:
    atmos_free(&a);
    sys_free(&s);
    return st;
}

void params_psf_opts(const params *par, psf_opts *o) {
    *o =
        (psf_opts){.nlambda = par->images.n,
                   .lambda = par->images.lambda,
                   .width = par->images.width,
                   .band_wavelengths = par->psf_band_wavelengths,
                   .subaperture = params_given(par->psf_subaperture) ? par->psf_subaperture : 0,
                   .nbox = par->psf_ee_boxes.n,
                   .box = par->psf_ee_boxes.v,
                   .oversampling = par->psf_oversampling > 0 ? par->psf_oversampling : OVERSAMPLING,
                   .span = par->psf_span,
                   .weighted = par->psf_weighting == WEIGHTING_ENERGY,
                   .phase = par->psf_residual == RESIDUAL_PHASE,
                   .average = (psf_average_kind)par->psf_average,
                   .square = par->psf_lattice == LATTICE_SQUARE,
                   .crop = par->output_crop,
                   .jitter = {hypot(par->errors_jitter[0], par->errors_windshake[0]),
                              hypot(par->errors_jitter[1], par->errors_windshake[1])},
                   .static_rms = par->errors_static_rms,
                   .static_power = par->errors_static_power,
                   .focus = sodium_focus(par),
                   .budget = params_wants_budget(par)};
}

status setup_init(const comm *c, const cmdline *cl, setup *u) {
    memset(u, 0, sizeof *u);
    params *par = NULL;
    status st;
    TRY(comm_agree(c, ALLOC(par, 1, "parameters")));
    u->par = par;
    TRY(params_load(c, cl->nfile, cl->files, cl->noverride, cl->overrides, par));
    st = check_sizes(par);
    if (st == MOAO_OK)
        st = sys_init(par, &u->s);
    if (st == MOAO_OK)
        st = atmos_init(par, &u->s, &u->a);
    if (st == MOAO_OK)
        st = static_map_name(par);
    TRY(comm_agree(c, st));
    choose_oversampling(par, &u->s, &u->a);
    params_psf_opts(u->par, &u->o);
    u->s.fit.points = u->s.fit.phase ? psf_points_of(&u->s, &u->o) : 0;
    if (u->o.crop == 0)
        u->o.crop = CROP_DEFAULT;
    TRY(static_map_read(c, u->par, &u->s, &u->map));
    u->o.map = u->map.map.path != NULL ? &u->map.map : NULL;
    st = psf_sizes_of(&u->s, &u->o, &u->grid);
    u->o.crop = u->grid.crop;
    if (st == MOAO_OK)
        st = setup_nodes(u);
    st = comm_agree(c, st);
done:
    return st;
}

status setup_psf(const comm *c, setup *u) {
    return comm_agree(c, psf_init(&u->s, &u->o, &u->ps));
}

void setup_free(setup *u) {
    psf_free(u->ps);
    static_map_free(&u->map);
    atmos_free(&u->a);
    if (u->sampled)
        free(u->want.targets);
    field_free(&u->f);
    sys_free(&u->s);
    if (u->par != NULL)
        params_free((params *)u->par);
    free((void *)u->par);
    memset(u, 0, sizeof *u);
}

/* What is asked for beyond the images of the PSF. */
static void warn_images(const setup *u) {
    const params *par = u->par;
    const int n = u->grid.grid;
    double box = 0, field = INFINITY, lambda = 0;
    for (int i = 0; i < u->o.nbox; i++)
        box = fmax(box, u->o.box[i]);
    for (int l = 0; l < u->o.nlambda; l++)
        if (u->o.lambda[l] / u->grid.pixel < field) {
            field = u->o.lambda[l] / u->grid.pixel;
            lambda = u->o.lambda[l];
        }
    if (box > field)
        progress_warn(
            "psf.ee_boxes: %.4g mas is more than the image at %.4g um has, %.4g mas; raise "
            "psf.oversampling or take a smaller box",
            box * ARCSEC_PER_RAD * 1e3, lambda * 1e6, field * ARCSEC_PER_RAD * 1e3);
    if (par->output_crop > n)
        progress_warn("output.crop: %d pixels are more than the grid's %d, which are kept",
                      par->output_crop, n);
}

/* A map that moves the image off the axis, where Strehl ratios and energies are taken. */
static void warn_map(const setup *u) {
    double lambda = INFINITY;
    for (int l = 0; l < u->o.nlambda; l++)
        lambda = fmin(lambda, u->o.lambda[l]);
    const double move = hypot(u->map.tilt[0], u->map.tilt[1]), mas = ARCSEC_PER_RAD * 1e3;
    if (u->o.map != NULL && move > 0.05 * lambda / u->s.diameter)
        progress_warn("errors.static_map: its tilt moves the images by (%.3g, %.3g) mas, which "
                      "Strehl ratios and energies on the axis feel: take it out of the map unless "
                      "that is meant",
                      u->map.tilt[0] * mas, u->map.tilt[1] * mas);
}

/* The part of a mirror for which the Strehl ratio of the fitting error is computed: with more
 * actuators it is the same to a percent, as it depends on their pitch. */
#define FITTING_NSSP 64

/* Strehl ratios of the fitting error alone. */
static status warn_fitting(const setup *u, const profile *worst) {
    const int n = u->s.dm.nssp < FITTING_NSSP ? u->s.dm.nssp : FITTING_NSSP;
    sys s = {.diameter = n * u->s.dm.pitch, .obs = u->s.obs, .dm = {.nssp = n}, .ts = {.nssp = n}};
    psf *ps = NULL;
    psf_fit *f = NULL;
    status st;
    psf_opts o = u->o;
    o.oversampling = o.oversampling < 4 ? o.oversampling : 4;
    o.span = fmin(o.span, 3);
    o.map = NULL;
    o.crop = 0;
    s.dm.coupling = u->s.dm.coupling;
    s.ts.mag = 1;
    TRY(sys_derive(&s));
    TRY(psf_init(&s, &o, &ps));
    TRY(psf_fit_init(ps, worst, &f));
    for (int l = 0; l < u->o.nlambda; l++) {
        double strehl = psf_fit_strehl(ps, f, l);
        if (strehl < 0.05)
            progress_warn("psf.wavelengths: at %.4g um the fitting error alone limits the Strehl "
                          "ratio to %.2g (r0 %.3g m, actuator pitch %.3g m): the PSF model is "
                          "doubtful there",
                          u->o.lambda[l] * 1e6, strehl, worst->r0, u->s.dm.pitch);
    }
done:
    psf_fit_free(f);
    psf_free(ps);
    sys_free(&s);
    return st;
}

/* Magnitudes whose band is assumed. */
static void warn_bands(const setup *u) {
    const sensor *first = NULL;
    int n = 0;
    for (int i = 0; i < sys_stars(&u->s); i++) {
        const sensor *o = &u->s.sensors[i];
        if (o->noise.variance >= 0 || o->noise.photons > 0 || !(o->noise.zero > 0) ||
            u->par->sensors.v[i].band != BAND_AUTO)
            continue;
        first = n++ == 0 ? o : first;
    }
    if ((u->par->errors_sodium_altitude > 0 || u->par->errors_sodium_drift > 0) &&
        !(u->o.focus > 0))
        progress_warn("errors.sodium_altitude and sodium_drift have no effect: there is no laser "
                      "star, or a drift without errors.sodium_interval");
    if (n > 0)
        progress_warn("%s%s: a magnitude without a band counts in the one nearest to the sensor's "
                      "wavelength, %s at %.4g um; sensors[].band states it",
                      first->name, n > 1 ? " and others" : "",
                      photometry_band_name(first->noise.band), first->noise.wavelength * 1e6);
}

/* Noise that is raised so that Cmm is positive definite, under the profile of the first exposure.
 */
static void warn_floor(const setup *u) {
    const profile *p = atmos_profile_at(&u->a, u->a.exposure_time[0]);
    const sensor *first = NULL;
    noise_figures of = {0};
    int n = 0;
    for (int w = 0; w < sys_stars(&u->s); w++) {
        noise_figures f;
        matcov_noise_figures(&u->s, p, w, &f);
        if (!(f.raised > 0))
            continue;
        of = n == 0 ? f : of;
        first = n++ == 0 ? &u->s.sensors[w] : first;
    }
    if (n > 0)
        progress_warn("%s%s: noise of %.2g mas rms is computed as %.2g mas (%.0f %% of the slopes "
                      "are raised): %d subapertures of mean gradients need as much for Cmm to be "
                      "positive definite; the budget's noise contains it",
                      first->name, n > 1 ? " and others" : "", 1e3 * sqrt(of.model),
                      1e3 * sqrt(of.variance), 100 * of.raised, first->nssp);
}

status setup_warn(const setup *u) {
    char **line = NULL;
    int n = params_warnings(u->par, setup_wanted(u), &u->a, &line);
    for (int i = 0; i < n; i++)
        progress_warn("%s", line[i]);
    params_free_warnings(n, line);
    warn_bands(u);
    warn_floor(u);
    warn_images(u);
    static_map_warn(&u->map);
    warn_map(u);
    const profile *worst = atmos_profile_at(&u->a, u->a.exposure_time[0]);
    for (int e = 1; e < u->a.nexposure; e++) {
        const profile *p = atmos_profile_at(&u->a, u->a.exposure_time[e]);
        if (p->r0 < worst->r0)
            worst = p;
    }
    return warn_fitting(u, worst);
}
