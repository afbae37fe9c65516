/* Interaction matrix: truth-sensor slopes of each actuator. Model section 6. */
#include "matcov.h"

#include <math.h>

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
            column[k] = scale * dx * exp(decay * y * y);
            column[nsub + k] = scale * dy * exp(decay * x * x);
        }
    }
    return MOAO_OK;
}
