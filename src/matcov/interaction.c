/* Interaction matrix: truth-sensor slopes of each actuator. Model section 6. */
#include "matcov.h"

#include <math.h>

#define PI 3.14159265358979323846

/* Along an edge: the influence function's factor of the distance x from the actuator [pitches],
 * exp(decay x^2), at the middle, or its mean over the edge, in closed form. */
static double along(double decay, double x, bool gradient) {
    if (!gradient)
        return exp(decay * x * x);
    double k = sqrt(-decay);
    return 0.5 * sqrt(PI) / k * (erf(k * (x + 0.5)) - erf(k * (x - 0.5)));
}

status matcov_fill_interaction(const sys *s, double *d, size_t ld) {
    const sensor *ts = &s->ts;
    int n = ts->nssp, nact = n + 1;
    size_t nsub = (size_t)ts->nsub;
    if (s->dm.nssp != n)
        return status_fail(MOAO_INTERNAL, "truth sensor of %d subapertures, mirror of %d", n,
                           s->dm.nssp);
    /* in units of the pitch: exp(-r^2 / (2 x0^2)) = coupling^(r^2) */
    double scale = ARCSEC_PER_RAD / (s->diameter / n), decay = log(s->dm.coupling);
#pragma omp parallel for schedule(static)
    for (int v = 0; v < s->dm.nact; v++) {
        double *column = d + (size_t)v * ld;
        int ax = s->dm.act[v] % nact, ay = s->dm.act[v] / nact;
        for (size_t k = 0; k < nsub; k++) {
            double x = ts->sub[k] % n + 0.5 - ax, y = ts->sub[k] / n + 0.5 - ay;
            /* phi(x + 1/2) - phi(x - 1/2), and the same along y */
            double dx = exp(decay * (x + 0.5) * (x + 0.5)) - exp(decay * (x - 0.5) * (x - 0.5));
            double dy = exp(decay * (y + 0.5) * (y + 0.5)) - exp(decay * (y - 0.5) * (y - 0.5));
            column[k] = scale * dx * along(decay, y, ts->gradient);
            column[nsub + k] = scale * dy * along(decay, x, ts->gradient);
        }
    }
    return MOAO_OK;
}
