/* The covariances of one profile minus a multiple of another's, as those of one profile whose
 * strengths have signs: covariances are linear in the strengths, and so are all fills. */
#include "formula.h"
#include "internal.h"

#include <math.h>
#include <stdlib.h>

#define FLOOR 1e-10 /* of the slope variance: the least bound */

double matcov_scale(const profile *p, const profile *p0) {
    double sum = 0, sum0 = 0;
    for (int l = 0; l < p->nlayer; l++)
        sum += p->strength[l];
    for (int l = 0; l < p0->nlayer; l++)
        sum0 += p0->strength[l];
    return sum0 > 0 ? sum / sum0 : 0;
}

double matcov_tiptilt(const matcov *mc, int sensor) {
    return mc->tiptilt[sensor];
}

static double wind(const profile *p, int axis, int l) {
    return p->wind[axis] != NULL ? p->wind[axis][l] : 0;
}

static void free_layers(profile *d) {
    free(d->h);
    free(d->L0);
    free(d->strength);
    free(d->wind[0]);
    free(d->wind[1]);
}

/* Add a layer, to one of the same altitude, outer scale and wind if there is one. */
static void add_layer(profile *d, double h, double L0, const double v[2], double strength) {
    int l = 0;
    while (l < d->nlayer &&
           !(d->h[l] == h && d->L0[l] == L0 && d->wind[0][l] == v[0] && d->wind[1][l] == v[1]))
        l++;
    d->h[l] = h;
    d->L0[l] = L0;
    d->wind[0][l] = v[0];
    d->wind[1][l] = v[1];
    d->strength[l] = (l < d->nlayer ? d->strength[l] : 0) + strength;
    d->nlayer += l == d->nlayer;
}

/* Layers of p - beta p0; only those of p drift, and none without `drifts`. */
static status signed_layers(const profile *p, const profile *p0, double beta, bool drifts,
                            profile *d) {
    status st;
    double **member[] = {&d->h, &d->L0, &d->strength, &d->wind[0], &d->wind[1]};
    const double still[2] = {0, 0};
    for (int i = 0; i < 5; i++)
        TRY(ALLOC(*member[i], (size_t)p->nlayer + (size_t)p0->nlayer, "layers of a difference"));
    for (int l = 0; l < p->nlayer; l++) {
        const double v[2] = {drifts ? wind(p, 0, l) : 0, drifts ? wind(p, 1, l) : 0};
        add_layer(d, p->h[l], p->L0[l], v, p->strength[l]);
    }
    for (int l = 0; l < p0->nlayer; l++)
        add_layer(d, p0->h[l], p0->L0[l], still, -beta * p0->strength[l]);
done:
    return st;
}

status matcov_distance(const profile *p, const profile *p0, double *distance) {
    profile d = {.r0 = p->r0};
    status st = signed_layers(p, p0, matcov_scale(p, p0), false, &d);
    *distance = 0;
    for (int l = 0; l < d.nlayer && st == MOAO_OK; l++)
        *distance += fabs(d.strength[l]);
    free_layers(&d);
    return st;
}

/* The largest factor by which weights of a loop's frames, which have signs, add up. */
static double loop_weight(const loop_filter *f) {
    double sum = 0;
    for (int k = 0; f != NULL && k < f->n; k++)
        sum += fabs(f->h[k]);
    return fmax(1, sum * sum);
}

/* Noise and tip-tilt constants of p - beta p0 into mc; the largest noise, of either sign. */
static status subtract_noise(const profile *p, const profile *p0, double beta, matcov *mc,
                             double *most) {
    status st;
    const sys *s = mc->s;
    const size_t n = 3 * (s->m / 2);
    double *noise = NULL, *tiptilt = NULL;
    TRY(ALLOC(noise, n, "noise of the sensors"));
    TRY(ALLOC(tiptilt, (size_t)s->nsensor, "tip-tilt of laser stars"));
    TRY(noise_of_profile(s, p, mc->noise, mc->tiptilt));
    TRY(noise_of_profile(s, p0, noise, tiptilt));
    *most = 0;
    for (size_t i = 0; i < n; i++) {
        mc->noise[i] -= beta * noise[i];
        *most = fmax(*most, fabs(mc->noise[i]));
    }
    for (int w = 0; w < s->nsensor; w++)
        mc->tiptilt[w] -= beta * tiptilt[w];
done:
    free(noise);
    free(tiptilt);
    return st;
}

/* A slope over half of a subaperture has a larger variance than one over all of it. */
#define PARTLY_LIT 1.25

/* Largest of all sensors, the truth sensor among them. */
static double slope_variance(const sys *s, const profile *p) {
    const sensor ts = truth_sensor(s, (double[2]){0, 0});
    double most = noise_slope_variance(s, &ts, p);
    for (int w = 0; w < s->nsensor; w++)
        most = fmax(most, (s->sensors[w].gradient ? PARTLY_LIT : 1) *
                              noise_slope_variance(s, &s->sensors[w], p));
    return most;
}

status matcov_prepare_difference(const sys *s, const profile *p, const profile *p0, double beta,
                                 bool drifts, matcov **mc, double *bound) {
    profile d = {.r0 = p->r0, .loop = {p->loop[0], p->loop[1], p->loop[2]}};
    double noise;
    status st;
    *mc = NULL;
    TRY(signed_layers(p, p0, beta, drifts || sys_has_own_delays(s) || p->loop[0] != NULL, &d));
    TRY(prepare_profile(s, &d, false, mc));
    (*mc)->p = p; /* d goes away */
    (*mc)->difference = true;
    for (int w = 0; w < (*mc)->nsensor; w++)
        (*mc)->feet[w].difference = (*mc)->rows[w].difference = true;
    TRY(subtract_noise(p, p0, beta, *mc, &noise));
    for (int l = 0; l < d.nlayer; l++)
        d.strength[l] = fabs(d.strength[l]);
    *bound = noise + loop_weight(p->loop[0]) * slope_variance(s, &d) + FLOOR * slope_variance(s, p);
done:
    free_layers(&d);
    if (st != MOAO_OK) {
        matcov_free(*mc);
        *mc = NULL;
    }
    return st;
}

/* Largest slope of a layer's structure function of unit strength up to a separation [rad^2/m]. */
static double steepest(double L0, double most) {
    const int n = 128;
    double before = 0, worst = 0;
    for (int i = 1; i <= n; i++) {
        const double d = formula_structure(1, L0, most * i / n);
        worst = fmax(worst, (d - before) * n / most);
        before = d;
    }
    return worst;
}

/* A slope's covariance with the phase is half a difference of D over the size of its footprint. */
static double phase_bound(const sys *s, const profile *p) {
    double field = 0, sum = 0;
    for (int w = 0; w < s->nsensor; w++)
        field = fmax(field, hypot(s->sensors[w].dir[0], s->sensors[w].dir[1]));
    for (int t = 0; t < s->ntarget; t++)
        field = fmax(field, hypot(s->targets[t][0], s->targets[t][1]));
    for (int l = 0; l < p->nlayer; l++)
        if (p->strength[l] > 0)
            sum +=
                p->strength[l] * steepest(p->L0[l], 1.5 * s->diameter + 2 * field * fabs(p->h[l]));
    return 0.5 * formula_phase_scale(1) * sum;
}

double matcov_phase_bound(const sys *s, const profile *p, const profile *p0, double beta) {
    return 1.5 * (loop_weight(p->loop[0]) * phase_bound(s, p) + fabs(beta) * phase_bound(s, p0));
}
