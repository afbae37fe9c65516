/* Noise of the sensors, and the tip-tilt that laser stars do not measure. Model section 5. */
#include "formula.h"
#include "internal.h"

#include <math.h>
#include <stdlib.h>

typedef struct {
    double across, along; /* FWHM of the spot across and along its elongation [arcsec] */
    double angle;         /* of the elongation in the sensor's axes [rad] */
    double kept;          /* share of the light within the field stop */
    double read;          /* width that read-out noise counts [arcsec]; 0: across and along */
} spot;

/* Width of a point's image in a subaperture (FWHM) [arcsec]. */
static double image_width(const sys *s, const sensor *o, double r0) {
    const sensor_noise *n = &o->noise;
    const double published = formula_seeing(r0, n->wavelength);
    if (!n->full_spot)
        return published;
    const double seeing = SEEING_LAMBDA / LAMBDA_REF * published;
    const double diffraction = ARCSEC_PER_RAD * n->wavelength * o->nssp / s->diameter;
    return sqrt(seeing * seeing + diffraction * diffraction +
                formula_pixel_width(n->pixel * ARCSEC_PER_RAD));
}

/* A spot with a share of its light in a core without seeing: widths of the Gaussian spot whose
 * centroid has the same information (Cramer and Rao), from photons sum of share/e^2, in white noise
 * sum of share^2/e^4. Model section 5. */
static void correct_spot(const sys *s, const sensor *o, spot *p) {
    const sensor_noise *n = &o->noise;
    const double field = n->field_stop * ARCSEC_PER_RAD, core = n->core;
    const double diffraction = ARCSEC_PER_RAD * n->wavelength * o->nssp / s->diameter;
    const double narrow =
        sqrt(diffraction * diffraction + formula_pixel_width(n->pixel * ARCSEC_PER_RAD));
    double wide = p->across, halo = 1 - core;
    if (n->field_stop > 0)
        halo *= pow(formula_stop(field, &wide), 2);
    p->kept = core + halo;
    const double in_core = core / p->kept, in_halo = halo / p->kept;
    p->across = p->along = 1 / sqrt(in_core / (narrow * narrow) + in_halo / (wide * wide));
    p->read = pow(pow(in_core / (narrow * narrow), 2) + pow(in_halo / (wide * wide), 2), -0.25);
}

/* (x, y): registered position of the subaperture's centre [m]. */
static spot spot_of(const sys *s, const sensor *o, double r0, double x, double y) {
    const sensor_noise *n = &o->noise;
    spot p = {.across = image_width(s, o, r0), .kept = 1};
    p.along = p.across;
    if (o->lgs) {
        double width = n->lgs_width * ARCSEC_PER_RAD, bx = x - n->launch[0], by = y - n->launch[1];
        double length = hypot(bx, by);
        double elongation =
            ARCSEC_PER_RAD * n->lgs_depth * s->airmass * length / (o->altitude * o->altitude);
        p.angle = atan2(by, bx) - o->rot;
        p.across = hypot(p.across, width);
        p.along = hypot(p.across, elongation);
    }
    if (n->corrected) {
        correct_spot(s, o, &p);
    } else if (n->field_stop > 0) {
        const double field = n->field_stop * ARCSEC_PER_RAD;
        p.kept = formula_stop(field, &p.along) * formula_stop(field, &p.across);
    }
    return p;
}

/* Noise covariance of one subaperture in the sensor's own axes [arcsec^2]: v = {xx, yy, xy}; (x, y)
 * is the registered position of its centre, light its share of the light. */
static void noise_of(const sys *s, const sensor *o, double r0, double x, double y, double light,
                     double v[3]) {
    const sensor_noise *n = &o->noise;
    const spot p = spot_of(s, o, r0, x, y);
    double flux = light * p.kept * sys_photons(s, o), pixel = n->pixel * ARCSEC_PER_RAD;
    double excess = fmax(1.0, n->excess);
    double each = sqrt(n->ron * n->ron + excess * sys_background(s, o) * light);
    double photons = excess * (n->gaussian ? FORMULA_PHOTONS_GAUSSIAN : FORMULA_PHOTONS_PUBLISHED);
    double c = o->lgs ? cos(p.angle) : 1.0, e = o->lgs ? sin(p.angle) : 0.0;
    double va = formula_spot_variance(flux, photons, each, pixel, p.along, p.across);
    double vc = formula_spot_variance(flux, photons, each, pixel, p.across, p.along);
    if (p.read > 0)
        va = vc = formula_spot_variance(flux, photons, 0, pixel, p.across, p.across) +
                  formula_spot_variance(flux, 0, each, pixel, p.read, p.read);
    v[0] = c * c * va + e * e * vc;
    v[1] = e * e * va + c * c * vc;
    v[2] = c * e * (va - vc);
}

/* Share of the light that subaperture k has. The published model knows no partly lit ones. */
static double light_of(const sys *s, const sensor *o, int k) {
    return o->gradient ? sys_lit_share(s, o, k) : 1.0;
}

/* Registered position of the centre of subaperture k [m]. */
static void place_of(const sys *s, const sensor *o, int k, double at[2]) {
    double d = s->diameter / o->nssp, c = o->mag * cos(o->rot), e = o->mag * sin(o->rot);
    double x = (o->sub[k] % o->nssp + 0.5 - 0.5 * o->nssp) * d;
    double y = (o->sub[k] / o->nssp + 0.5 - 0.5 * o->nssp) * d;
    at[0] = c * x - e * y + o->shift[0];
    at[1] = e * x + c * y + o->shift[1];
}

void matcov_noise_figures(const sys *s, const profile *p, int w, noise_figures *f) {
    const sensor *o = &s->sensors[w];
    const double least = noise_floor(s, o, p), given = o->noise.variance;
    *f = (noise_figures){.photons = NAN,
                         .across = NAN,
                         .along = NAN,
                         .variance = fmax(given, least),
                         .model = given,
                         .raised = given < least};
    if (given >= 0.0)
        return;
    *f = (noise_figures){0};
    for (int k = 0; k < o->nsub; k++) {
        double at[2], v[3];
        place_of(s, o, k, at);
        const spot one = spot_of(s, o, p->r0, at[0], at[1]);
        noise_of(s, o, p->r0, at[0], at[1], light_of(s, o, k), v);
        f->photons += one.kept * sys_photons(s, o) / o->nsub;
        f->across += one.across / o->nsub;
        f->along += one.along / o->nsub;
        for (int axis = 0; axis < 2; axis++) {
            f->variance += 0.5 * fmax(v[axis], least) / o->nsub;
            f->model += 0.5 * v[axis] / o->nsub;
            f->raised += v[axis] < least ? 0.5 / o->nsub : 0;
        }
    }
}

double noise_slope_variance(const sys *s, const sensor *o, const profile *p) {
    double size = o->mag * s->diameter / o->nssp, sum = 0.0;
    for (int l = 0; l < p->nlayer; l++)
        if (p->h[l] < o->altitude)
            sum +=
                formula_structure(p->strength[l], p->L0[l], size * (1.0 - p->h[l] / o->altitude));
    return formula_slope_scale(size, size) * sum;
}

static status noise_init(const sys *s, const profile *p, double *noise, double *tiptilt) {
    for (int w = 0; w < s->nsensor; w++) {
        const sensor *o = &s->sensors[w];
        double *v = noise + 3 * (o->first / 2), at[2];
        tiptilt[w] = 0.0;
        if (o->lgs)
            tiptilt[w] = o->noise.tiptilt >= 0.0
                             ? o->noise.tiptilt
                             : o->noise.tiptilt_factor * noise_slope_variance(s, o, p);
        for (int k = 0; k < o->nsub; k++, v += 3) {
            place_of(s, o, k, at);
            if (o->noise.variance >= 0.0)
                v[0] = v[1] = o->noise.variance, v[2] = 0.0;
            else
                noise_of(s, o, p->r0, at[0], at[1], light_of(s, o, k), v);
            if (!isfinite(v[0] + v[1] + v[2]))
                return status_fail(
                    MOAO_NUMERIC,
                    "sensor %s: its noise is not finite; give it some flux and a pixel "
                    "size, or noise_variance",
                    o->name);
        }
    }
    return MOAO_OK;
}

status noise_of_profile(const sys *s, const profile *p, double *noise, double *tiptilt) {
    const status st = noise_init(s, p, noise, tiptilt);
    if (st != MOAO_OK)
        return st;
    noise_raise(s, p, noise);
    for (int w = 0; p->loop[0] != NULL && w < s->nsensor; w++) {
        const sensor *o = &s->sensors[w];
        const double left = profile_loop(p, o->loop)->noise;
        for (size_t i = 3 * (o->first / 2); i < 3 * (o->first / 2 + (size_t)o->nsub); i++)
            noise[i] *= left;
    }
    return st;
}

status matcov_noise(const sys *s, const profile *p, double *noise) {
    double *tiptilt = NULL;
    status st = ALLOC(tiptilt, (size_t)s->nsensor, "tip-tilt of laser stars");
    if (st == MOAO_OK)
        st = noise_of_profile(s, p, noise, tiptilt);
    free(tiptilt);
    return st;
}
