/* Input that is legal and probably not what was meant. */
#include "params_warn.h"
#include "system/photometry.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Limits beyond which a number is more likely a wrong unit than a case. */
static const double LOW_LAYERS = 1e3;          /* m: km typed for m */
static const double LONG_FRAME = 1;            /* s */
static const double FEW_PHOTONS = 10;          /* per subaperture and frame */
static const double FAINT = 20;                /* mag */
static const double LOW_RETURN = 1e4;          /* ph/m2/s */
static const double R0_RANGE[] = {0.02, 1, 2}; /* m; above the last: cm typed for m */
static const double FAR_STAR = 600;            /* arcsec */
static const double SAME_PLACE = 1e-4;         /* arcsec */

/* How many things a doubt is about, and which came first. */
typedef struct {
    int n, first;
} cases;

static void count(cases *c, bool doubtful, int i) {
    if (doubtful && c->n++ == 0)
        c->first = i;
}

/* " (and 3 others)", "" for a single one. */
static const char *others(const cases *c, char text[32]) {
    text[0] = '\0';
    if (c->n > 1)
        snprintf(text, 32, " (and %d other%s)", c->n - 1, c->n > 2 ? "s" : "");
    return text;
}

/* --- the loop and the images */

static const double SLOW_LOOP = 0.05; /* s */
static const double SMALL_BOX = 0.1;  /* of the diffraction limit */

/* Frames typed for seconds. */
static void warn_loop(const params *par, const sys *s, warnings *w) {
    const double frame = sys_stars(s) > 0 ? s->sensors[0].noise.frame_time : NAN;
    const struct {
        const char *key;
        double v;
    } times[] = {{"delay", par->loop_delay}, {"integration", par->loop_integration}};
    for (int i = 0; i < 2; i++)
        if (times[i].v > SLOW_LOOP)
            params_warn(
                w,
                "loop.%s: %.4g is in seconds; were frames meant? %.4g of %s's frames are %.4g ms",
                times[i].key, times[i].v, times[i].v, s->sensors[0].name, 1e3 * times[i].v * frame);
}

/* Light of other frames than those of the loop. */
static void warn_rates(const sys *s, warnings *w) {
    cases other = {0};
    char more[32];
    for (int i = 0; i < sys_stars(s) && s->loop.type != LOOP_OPEN; i++) {
        const sensor *o = &s->sensors[i];
        const bool own = o->low && s->low.loop.type != LOOP_OPEN;
        const double frame = own ? s->low.loop.period : s->loop.period;
        count(&other, !(o->noise.variance >= 0) && fabs(o->noise.frame_time / frame - 1) > 0.01, i);
    }
    if (other.n == 0)
        return;
    const sensor *o = &s->sensors[other.first];
    const bool own = o->low && s->low.loop.type != LOOP_OPEN;
    params_warn(w,
                "%s%s: frames of %.4g ms in a loop of %.4g Hz, whose noise has their light; give "
                "the sensor the loop's frame_rate",
                o->name, others(&other, more), 1e3 * o->noise.frame_time,
                1 / (own ? s->low.loop.period : s->loop.period));
}

/* Arcsec typed for mas. */
static void warn_boxes(const params *par, const sys *s, warnings *w) {
    double lambda = INFINITY;
    cases small = {0};
    char more[32];
    for (int i = 0; i < par->images.n; i++)
        lambda = fmin(lambda, par->images.lambda[i]);
    for (int i = 0; i < par->psf_ee_boxes.n; i++)
        count(&small, par->psf_ee_boxes.v[i] < SMALL_BOX * lambda / s->diameter, i);
    if (small.n > 0) {
        const double mas = par->psf_ee_boxes.v[small.first] * ARCSEC_PER_RAD * 1e3;
        params_warn(
            w,
            "psf.ee_boxes: a box of %.4g mas%s is far below the diffraction limit, %.3g mas at "
            "%.4g um; was %.4g arcsec meant?",
            mas, others(&small, more), lambda / s->diameter * ARCSEC_PER_RAD * 1e3, lambda * 1e6,
            mas);
    }
}

/* --- stars */

static void warn_frames(const params *par, const sys *s, warnings *w) {
    cases late = {0}, slow = {0};
    char more[32];
    for (int i = 0; i < sys_stars(s); i++) {
        double t = s->sensors[i].noise.frame_time;
        count(&slow, t > LONG_FRAME, i);
        count(&late,
              par->loop_integration == 0 && par->loop_delay > 0 && t > par->loop_delay &&
                  t <= LONG_FRAME && !params_given(par->sensors.v[i].delay),
              i);
    }
    if (slow.n > 0)
        params_warn(w, "%s%s: frame_time is %.4g s; was %.4g ms meant?",
                    s->sensors[slow.first].name, others(&slow, more),
                    s->sensors[slow.first].noise.frame_time,
                    s->sensors[slow.first].noise.frame_time);
    if (late.n > 0)
        params_warn(w,
                    "%s%s: frame_time %.4g ms is longer than loop.delay, %.4g ms, which must hold "
                    "half of it; or give loop.integration, or the sensor a delay of its own",
                    s->sensors[late.first].name, others(&late, more),
                    1e3 * s->sensors[late.first].noise.frame_time, 1e3 * par->loop_delay);
}

static void warn_flux(const sys *s, warnings *w) {
    cases few = {0}, faint = {0}, weak = {0};
    char more[32];
    for (int i = 0; i < sys_stars(s); i++) {
        const sensor *o = &s->sensors[i];
        bool used = !(o->noise.variance >= 0);
        bool dim = used && !o->lgs && o->noise.magnitude > FAINT;
        bool low = used && o->lgs && !(o->noise.photons > 0) && o->noise.lgs_return < LOW_RETURN;
        count(&faint, dim, i);
        count(&weak, low, i);
        count(&few, used && !dim && !low && sys_photons(s, o) < FEW_PHOTONS, i);
    }
    if (faint.n > 0)
        params_warn(w, "%s%s: magnitude %.4g is fainter than %g; no sensor sees such a star",
                    s->sensors[faint.first].name, others(&faint, more),
                    s->sensors[faint.first].noise.magnitude, FAINT);
    if (weak.n > 0)
        params_warn(w,
                    "%s%s: lgs_return is %.4g ph/m2/s, a sodium star gives some 1e6 to 1e7; was "
                    "%.4g ph/cm2/s meant?",
                    s->sensors[weak.first].name, others(&weak, more),
                    s->sensors[weak.first].noise.lgs_return,
                    s->sensors[weak.first].noise.lgs_return);
    if (few.n > 0)
        params_warn(w,
                    "%s%s: %.2g photons per subaperture and frame, the noise model wants %g or "
                    "more; a brighter star, a longer frame_time or fewer subapertures",
                    s->sensors[few.first].name, others(&few, more),
                    sys_photons(s, &s->sensors[few.first]), FEW_PHOTONS);
}

/* Light of a band that the sensor does not see. */
static void warn_bands(const params *par, const sys *s, warnings *w) {
    cases away = {0};
    char more[32];
    for (int i = 0; i < sys_stars(s); i++) {
        const sensor_noise *n = &s->sensors[i].noise;
        const char *type = par->sensors.v[i].spectral_type;
        const bool counts = !(n->variance >= 0) && !(n->photons > 0) && n->zero > 0;
        count(&away,
              counts && (type == NULL || *type == '\0') &&
                  !photometry_in_band(n->band, n->wavelength),
              i);
    }
    if (away.n > 0) {
        const sensor *o = &s->sensors[away.first];
        params_warn(w,
                    "%s%s: a magnitude in %s and a sensor at %.4g um without spectral_type; the "
                    "star's colours are taken as 0 (Vega's)",
                    o->name, others(&away, more), photometry_band_name(o->noise.band),
                    o->noise.wavelength * 1e6);
    }
}

static bool same_star(const sensor *a, const sensor *b) {
    double d = hypot(a->dir[0] - b->dir[0], a->dir[1] - b->dir[1]) * ARCSEC_PER_RAD;
    return d < SAME_PLACE && a->lgs == b->lgs && (!a->lgs || a->altitude == b->altitude);
}

static void warn_stars(const sys *s, warnings *w) {
    cases far = {0}, twin = {0}, lattice_pairs = {0};
    int twin_of = 0, lattice_pairs_of = 0;
    char more[32];
    for (int i = 0; i < sys_stars(s); i++) {
        const sensor *o = &s->sensors[i];
        bool star = false, name = false;
        for (int j = 0; j < i; j++) {
            if (!star && same_star(&s->sensors[j], o)) {
                twin_of = twin.n == 0 ? j : twin_of;
                star = true;
            }
            if (!name && strcmp(s->sensors[j].name, o->name) == 0) {
                lattice_pairs_of = lattice_pairs.n == 0 ? j : lattice_pairs_of;
                name = true;
            }
        }
        count(&far, hypot(o->dir[0], o->dir[1]) * ARCSEC_PER_RAD > FAR_STAR, i);
        count(&twin, star, i);
        count(&lattice_pairs, name, i);
    }
    if (far.n > 0) {
        const sensor *o = &s->sensors[far.first];
        params_warn(w,
                    "%s%s: direction [%.4g, %.4g] arcsec is %.3g arcmin from the axis, farther "
                    "than %g; are these mas?",
                    o->name, others(&far, more), o->dir[0] * ARCSEC_PER_RAD,
                    o->dir[1] * ARCSEC_PER_RAD, hypot(o->dir[0], o->dir[1]) * ARCSEC_PER_RAD / 60,
                    FAR_STAR / 60);
    }
    if (twin.n > 0)
        params_warn(w, "%s and %s%s: the same star twice, at [%.4g, %.4g] arcsec",
                    s->sensors[twin_of].name, s->sensors[twin.first].name, others(&twin, more),
                    s->sensors[twin.first].dir[0] * ARCSEC_PER_RAD,
                    s->sensors[twin.first].dir[1] * ARCSEC_PER_RAD);
    if (lattice_pairs.n > 0)
        params_warn(w, "sensors[%d] and sensors[%d]%s have the same name %s", lattice_pairs_of,
                    lattice_pairs.first, others(&lattice_pairs, more),
                    s->sensors[lattice_pairs.first].name);
}

/* --- targets and wavelengths */

typedef struct {
    long long x, y; /* in units of SAME_PLACE */
    int number;
} place;

static int compare_places(const void *a, const void *b) {
    const place *p = a, *q = b;
    if (p->x != q->x)
        return p->x < q->x ? -1 : 1;
    if (p->y != q->y)
        return p->y < q->y ? -1 : 1;
    return (p->number > q->number) - (p->number < q->number);
}

static void warn_same_targets(const sys *s, warnings *w) {
    place *all = malloc((size_t)s->ntarget * sizeof *all);
    cases twin = {0};
    char more[32];
    for (int i = 0; all != NULL && i < s->ntarget; i++) {
        all[i] = (place){.number = i};
        all[i].x = llround(s->targets[i][0] * ARCSEC_PER_RAD / SAME_PLACE);
        all[i].y = llround(s->targets[i][1] * ARCSEC_PER_RAD / SAME_PLACE);
    }
    if (all != NULL)
        qsort(all, (size_t)s->ntarget, sizeof *all, compare_places);
    for (int i = 1; all != NULL && i < s->ntarget; i++)
        count(&twin, all[i].x == all[i - 1].x && all[i].y == all[i - 1].y, i);
    if (twin.n > 0)
        params_warn(w, "targets: %d and %d%s are the same direction, [%.4g, %.4g] arcsec",
                    all[twin.first - 1].number + 1, all[twin.first].number + 1, others(&twin, more),
                    (double)all[twin.first].x * SAME_PLACE, (double)all[twin.first].y * SAME_PLACE);
    free(all);
}

static int compare_texts(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void warn_same_names(const params *par, warnings *w) {
    int n = par->targets_names.n;
    char **sorted = malloc(((size_t)n + 1) * sizeof *sorted), more[32];
    cases twin = {0};
    if (sorted != NULL && n > 0) {
        memcpy(sorted, par->targets_names.v, (size_t)n * sizeof *sorted);
        qsort(sorted, (size_t)n, sizeof *sorted, compare_texts);
        for (int i = 1; i < n; i++)
            count(&twin, *sorted[i] != '\0' && strcmp(sorted[i], sorted[i - 1]) == 0, i);
        if (twin.n > 0)
            params_warn(w, "targets.names: %s%s names two targets", sorted[twin.first],
                        others(&twin, more));
    }
    free(sorted);
}

static int compare_numbers(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void warn_same_wavelengths(const params *par, warnings *w) {
    int n = par->psf_wavelengths.n;
    double *sorted = malloc((size_t)n * sizeof *sorted);
    cases twin = {0};
    char more[32];
    if (sorted == NULL || n == 0) {
        free(sorted);
        return;
    }
    memcpy(sorted, par->psf_wavelengths.v, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, compare_numbers);
    for (int i = 1; i < n; i++)
        count(&twin, sorted[i] - sorted[i - 1] < 1e-6 * sorted[i], i);
    if (twin.n > 0)
        params_warn(w, "psf.wavelengths: %.6g um%s is given twice", sorted[twin.first] * 1e6,
                    others(&twin, more));
    free(sorted);
}

/* --- atmosphere */

static void warn_layers(const params *par, const atmos *a, warnings *w) {
    const profile_list *v = &par->atmosphere_profiles;
    cases low = {0}, odd = {0};
    double top = 0, r0 = 0;
    char more[32], meant[48] = "";
    for (int i = 0; i < v->n; i++) { /* at zenith, as typed */
        const profile_params *p = &v->v[i];
        double highest = 0, total = 0;
        for (int k = 0; k < p->layers_altitude.n; k++) {
            highest = fmax(highest, p->layers_altitude.v[k]);
            total += p->layers_strength.v[k];
        }
        double own = total > 0 ? pow(total, -0.6) : INFINITY;
        bool is_low = highest > 0 && highest < LOW_LAYERS;
        bool is_odd = !(own >= R0_RANGE[0] && own <= R0_RANGE[1]);
        top = is_low && low.n == 0 ? highest : top;
        r0 = is_odd && odd.n == 0 ? own : r0;
        count(&low, is_low, i);
        count(&odd, is_odd, i);
    }
    if (low.n > 0)
        params_warn(w, "%s%s: all layers are below 1 km, the highest at %.4g m; was %.4g km meant?",
                    a->profiles[low.first].label, others(&low, more), top, top);
    if (odd.n > 0 && r0 > R0_RANGE[2] && isfinite(r0))
        snprintf(meant, sizeof meant, "; was %.4g cm meant?", r0);
    if (odd.n > 0)
        params_warn(w,
                    "atmosphere: r0 is outside 0.02 to 1 m in %d profile%s, first %.4g m (a seeing "
                    "of %.3g arcsec) at zenith in %s%s",
                    odd.n, odd.n > 1 ? "s" : "", r0, SEEING_LAMBDA / r0 * ARCSEC_PER_RAD,
                    a->profiles[odd.first].label, meant);
}

static void warn_format(const params *par, warnings *w) {
    const bool tlr = par->compute_factor == FACTOR_PARAM_TLR ||
                     par->compute_factor == FACTOR_PARAM_TLR_HOST,
               may = tlr || par->compute_factor == FACTOR_PARAM_AUTO;
    if (tlr && par->compute_precision == PRECISION_PARAM_MIXED &&
        (par->compute_product == PRODUCT_PARAM_AUTO || par->compute_product == PRODUCT_PARAM_EXACT))
        params_warn(w,
                    "compute.factor: tlr computes exposures in double precision%s; "
                    "compute.precision: mixed is for the factor's columns alone%s",
                    par->compute_product == PRODUCT_PARAM_AUTO ? " on CPUs" : "",
                    par->compute_product == PRODUCT_PARAM_AUTO ? " there" : "");
    if (!may && (par->compute_tlr_tolerance > 0 || par->compute_tlr_tile > 0 ||
                 par->compute_tlr_distributed))
        params_warn(w, "compute.tlr_tolerance, tlr_tile and tlr_distributed are for "
                       "compute.factor: tlr and have no effect");
    if (par->output_ranks && !tlr)
        params_warn(w,
                    "output.ranks is for compute.factor: tlr and has no effect with another one");
    if (par->compute_tlr_tolerance > 4)
        params_warn(
            w,
            "compute.tlr_tolerance: with %.4g times the noise of a slope a factor is hardly "
            "ever positive definite",
            par->compute_tlr_tolerance);
}

void params_warn_doubts(const params *par, const sys *s, const atmos *a, warnings *w) {
    warn_loop(par, s, w);
    warn_rates(s, w);
    warn_boxes(par, s, w);
    warn_frames(par, s, w);
    warn_flux(s, w);
    warn_bands(par, s, w);
    warn_stars(s, w);
    warn_same_targets(s, w);
    warn_same_names(par, w);
    warn_same_wavelengths(par, w);
    warn_layers(par, a, w);
    warn_format(par, w);
}
