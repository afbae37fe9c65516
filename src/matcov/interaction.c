/* Interaction matrix: truth-sensor slopes of each actuator, as a matrix and as a filter. Model
 * section 6. */
#include "matcov.h"

#include <math.h>
#include <stdlib.h>

#define PI 3.14159265358979323846
/* Entries below this part of the largest one are left out of the filter. */
#define NOTHING 0x1p-60

/* Along an edge: the influence function's factor of the distance x from the actuator [pitches],
 * exp(decay x^2), at the middle, or its mean over the edge, in closed form. */
static double along(double decay, double x, bool gradient) {
    if (!gradient)
        return exp(decay * x * x);
    double k = sqrt(-decay);
    return 0.5 * sqrt(PI) / k * (erf(k * (x + 0.5)) - erf(k * (x - 0.5)));
}

/* The factors of a subaperture whose middle is k + 1/2 pitches from the actuator, for k < count:
 * odd[k] across it, phi(k + 1) - phi(k) in units of a slope [arcsec/m], which has the other sign on
 * the other side of the actuator, even[k] along its edges. */
static status factors(const sys *s, int count, double *odd, double *even) {
    const int n = s->ts.nssp;
    if (s->dm.nssp != n)
        return status_fail(MOAO_INTERNAL, "truth sensor of %d subapertures, mirror of %d", n,
                           s->dm.nssp);
    /* in units of the pitch: exp(-r^2 / (2 x0^2)) = coupling^(r^2) */
    const double scale = ARCSEC_PER_RAD / (s->diameter / n), decay = log(s->dm.coupling);
    for (int k = 0; k < count; k++) {
        odd[k] = scale * (exp(decay * (k + 1) * (k + 1)) - exp(decay * k * k));
        even[k] = along(decay, k + 0.5, s->ts.gradient);
    }
    return MOAO_OK;
}

status matcov_fill_interaction(const sys *s, double *d, size_t ld) {
    const sensor *ts = &s->ts;
    const int n = ts->nssp, nact = n + 1;
    const size_t nsub = (size_t)ts->nsub;
    double *odd = NULL, *even = NULL;
    status st;
    TRY(ALLOC(odd, (size_t)n, "interaction matrix"));
    TRY(ALLOC(even, (size_t)n, "interaction matrix"));
    TRY(factors(s, n, odd, even));
#pragma omp parallel for schedule(static)
    for (int v = 0; v < s->dm.nact; v++) {
        double *column = d + (size_t)v * ld;
        const int ax = s->dm.act[v] % nact, ay = s->dm.act[v] / nact;
        for (size_t k = 0; k < nsub; k++) {
            const int x = ts->sub[k] % n - ax, y = ts->sub[k] / n - ay; /* of the near edges */
            const int i = x < 0 ? -1 - x : x, j = y < 0 ? -1 - y : y;
            column[k] = (x < 0 ? -odd[i] : odd[i]) * even[j];
            column[nsub + k] = (y < 0 ? -odd[j] : odd[j]) * even[i];
        }
    }
done:
    free(odd);
    free(even);
    return st;
}

status matcov_interaction_filter(const sys *s, backend_filter *f) {
    const int n = s->ts.nssp, most = n <= BACKEND_REACH ? n : BACKEND_REACH + 1;
    double odd[BACKEND_REACH + 1], even[BACKEND_REACH + 1], largest[2] = {0, 0};
    int reach = 0;
    status st = factors(s, most, odd, even);
    *f = (backend_filter){.n = n,
                          .squares = s->ts.nsub,
                          .corners = s->dm.nact,
                          .square = s->ts.sub,
                          .corner = s->dm.act};
    if (st != MOAO_OK)
        return st;
    for (int k = 0; k < most; k++) {
        largest[0] = fmax(largest[0], fabs(odd[k]));
        largest[1] = fmax(largest[1], fabs(even[k]));
    }
    for (int k = 0; k < most; k++)
        if (fabs(odd[k]) > NOTHING * largest[0] || fabs(even[k]) > NOTHING * largest[1])
            reach = k + 1;
    f->reach = reach <= BACKEND_REACH ? reach : 0;
    for (int k = 0; k < f->reach; k++) {
        f->odd[k] = odd[k];
        f->even[k] = even[k];
    }
    return st;
}
