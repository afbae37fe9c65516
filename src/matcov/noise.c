/* Noise of the sensors, and the tip-tilt that laser stars do not measure. Model section 5. */
#include "formula.h"
#include "internal.h"

#include <math.h>

/* Photo-electrons per subaperture and frame. */
static double flux_of(const sensor *o, double pitch) {
    const sensor_noise *n = &o->noise;
    double common = n->throughput * pitch * pitch * n->frame_time;
    if (o->lgs)
        return n->lgs_return * common / n->t_atm;
    return pow(10.0, 2.9 - 0.4 * n->magnitude) * common * (n->bandwidth * 1e10) * 1e4;
}

/* Noise covariance of one subaperture in the sensor's own axes [arcsec^2]: v = {xx, yy, xy}; (x, y)
 * is the registered position of its centre. */
static void noise_of(const sys *s, const sensor *o, double r0, double x, double y, double v[3]) {
    const sensor_noise *n = &o->noise;
    double flux = flux_of(o, s->diameter / o->nssp), pixel = n->pixel * ARCSEC_PER_RAD;
    double across = formula_seeing(r0, n->wavelength), along = across, c = 1.0, e = 0.0;
    if (o->lgs) {
        double width = n->lgs_width * ARCSEC_PER_RAD, bx = x - n->launch[0], by = y - n->launch[1];
        double length = hypot(bx, by), angle = atan2(by, bx) - o->rot;
        double elongation =
            ARCSEC_PER_RAD * n->lgs_depth * s->airmass * length / (o->altitude * o->altitude);
        across = hypot(across, width);
        along = hypot(across, elongation);
        c = cos(angle);
        e = sin(angle);
    }
    double va = formula_spot_variance(flux, n->ron, pixel, along, across);
    double vc = formula_spot_variance(flux, n->ron, pixel, across, along);
    v[0] = c * c * va + e * e * vc;
    v[1] = e * e * va + c * c * vc;
    v[2] = c * e * (va - vc);
}

double noise_slope_variance(const sys *s, const sensor *o, const profile *p) {
    double size = o->mag * s->diameter / o->nssp, sum = 0.0;
    for (int l = 0; l < p->nlayer; l++)
        if (p->h[l] < o->altitude)
            sum +=
                formula_structure(p->strength[l], p->L0[l], size * (1.0 - p->h[l] / o->altitude));
    return formula_slope_scale(size, size) * sum;
}

status noise_init(const sys *s, const profile *p, double *noise, double *tiptilt) {
    for (int w = 0; w < s->nsensor; w++) {
        const sensor *o = &s->sensors[w];
        double *v = noise + 3 * (o->first / 2), d = s->diameter / o->nssp;
        double c = o->mag * cos(o->rot), e = o->mag * sin(o->rot);
        tiptilt[w] = 0.0;
        if (o->lgs)
            tiptilt[w] = o->noise.tiptilt >= 0.0
                             ? o->noise.tiptilt
                             : o->noise.tiptilt_factor * noise_slope_variance(s, o, p);
        for (int k = 0; k < o->nsub; k++, v += 3) {
            double x = (o->sub[k] % o->nssp + 0.5 - 0.5 * o->nssp) * d;
            double y = (o->sub[k] / o->nssp + 0.5 - 0.5 * o->nssp) * d;
            if (o->noise.variance >= 0.0)
                v[0] = v[1] = o->noise.variance, v[2] = 0.0;
            else
                noise_of(s, o, p->r0, c * x - e * y + o->shift[0], e * x + c * y + o->shift[1], v);
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
