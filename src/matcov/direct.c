/* Slope covariances straight from the closed form: the reference of every fast path. Model
 * section 4. */
#include "formula.h"
#include "internal.h"

#include <math.h>

/* One slope in the pupil plane: registered centre, and vector from the centre to the + edge. */
typedef struct {
    double centre[2], half[2], size;
} slope;

static slope slope_of(const sys *s, const sensor *o, int axis, int isub) {
    double d = s->diameter / o->nssp, c = o->mag * cos(o->rot), e = o->mag * sin(o->rot);
    double x = (o->sub[isub] % o->nssp + 0.5) * d - 0.5 * s->diameter;
    double y = (o->sub[isub] / o->nssp + 0.5) * d - 0.5 * s->diameter;
    return (slope){.centre = {c * x - e * y + o->shift[0], e * x + c * y + o->shift[1]},
                   .half = {0.5 * d * (axis == 0 ? c : -e), 0.5 * d * (axis == 0 ? e : c)},
                   .size = o->mag * d};
}

/* Vector of length `size` along the edges of a slope's subaperture. */
static void edge_of(const slope *s, double size, double edge[2]) {
    double norm = hypot(s->half[0], s->half[1]);
    edge[0] = -s->half[1] / norm * size;
    edge[1] = s->half[0] / norm * size;
}

/* Second difference of one layer's structure function; delay: by which the first slope is shifted
 * down wind. */
static double layer_entry(const profile *p, int l, double delay, const sensor *o, const slope *so,
                          const sensor *v, const slope *sv) {
    double co = 1.0 - p->h[l] / o->altitude, cv = 1.0 - p->h[l] / v->altitude, q[2], D[4];
    for (int i = 0; i < 2; i++) {
        q[i] = so->centre[i] * co - sv->centre[i] * cv + (o->dir[i] - v->dir[i]) * p->h[l];
        if (delay != 0.0 && p->wind[i] != NULL)
            q[i] -= p->wind[i][l] * delay;
    }
    for (int k = 0; k < 4; k++) { /* pp, pm, mp, mm */
        double a = k < 2 ? co : -co, b = k % 2 == 0 ? -cv : cv;
        double at[2] = {q[0] + a * so->half[0] + b * sv->half[0],
                        q[1] + a * so->half[1] + b * sv->half[1]};
        if (o->gradient || v->gradient) {
            double eo[2], ev[2];
            edge_of(so, o->gradient ? co * so->size : 0.0, eo);
            edge_of(sv, v->gradient ? cv * sv->size : 0.0, ev);
            D[k] = direct_mean(p->strength[l], p->L0[l], at, eo, ev);
        } else {
            D[k] = formula_structure(p->strength[l], p->L0[l], sqrt(at[0] * at[0] + at[1] * at[1]));
        }
    }
    return formula_second_difference(D[0], D[1], D[2], D[3]);
}

static double entry(const sys *s, const profile *p, double delay, const sensor *o, int oa, int oi,
                    const sensor *v, int va, int vi) {
    slope so = slope_of(s, o, oa, oi), sv = slope_of(s, v, va, vi);
    double sum = 0.0;
    for (int l = 0; l < p->nlayer; l++)
        if (p->h[l] < o->altitude && p->h[l] < v->altitude && p->strength[l] != 0.0)
            sum += layer_entry(p, l, delay, o, &so, v, &sv);
    return sum *
           formula_slope_scale(o->mag * s->diameter / o->nssp, v->mag * s->diameter / v->nssp);
}

double matcov_direct_cmm(const sys *s, const profile *p, size_t i, size_t j) {
    int w, v, wa, va, wi, vi;
    sys_slope_at(s, i, &w, &wa, &wi);
    sys_slope_at(s, j, &v, &va, &vi);
    return entry(s, p, 0.0, &s->sensors[w], wa, wi, &s->sensors[v], va, vi);
}

static void truth_slope(const sensor *ts, size_t i, int *axis, int *isub) {
    size_t n = (size_t)ts->nsub;
    *axis = i >= n;
    *isub = (int)(i % n);
}

double matcov_direct_ctm(const sys *s, const profile *p, const double dir[2], bool shifted,
                         size_t i, size_t j) {
    sensor ts = truth_sensor(s, dir);
    int v, va, vi, ta, ti;
    truth_slope(&ts, i, &ta, &ti);
    sys_slope_at(s, j, &v, &va, &vi);
    return entry(s, p, shifted ? s->delay : 0.0, &ts, ta, ti, &s->sensors[v], va, vi);
}

double matcov_direct_cpm(const sys *s, const profile *p, const double dir[2], bool shifted,
                         double x, double y, size_t j) {
    int w, axis, isub;
    sys_slope_at(s, j, &w, &axis, &isub);
    const sensor *o = &s->sensors[w];
    const slope e = slope_of(s, o, axis, isub);
    const double at[2] = {x, y};
    double sum = 0.0;
    for (int l = 0; l < p->nlayer; l++) {
        const double c = 1.0 - p->h[l] / o->altitude;
        double minus[2], plus[2];
        if (!(c > 0.0) || p->strength[l] == 0.0)
            continue;
        for (int i = 0; i < 2; i++) {
            double q = at[i] + dir[i] * p->h[l] - c * e.centre[i] - o->dir[i] * p->h[l];
            if (shifted && p->wind[i] != NULL)
                q -= p->wind[i][l] * s->delay;
            minus[i] = q + c * e.half[i];
            plus[i] = q - c * e.half[i];
        }
        sum += 0.5 * (formula_structure(p->strength[l], p->L0[l], hypot(minus[0], minus[1])) -
                      formula_structure(p->strength[l], p->L0[l], hypot(plus[0], plus[1])));
    }
    return sum * formula_phase_scale(o->mag * s->diameter / o->nssp);
}

double matcov_direct_ctt(const sys *s, const profile *p, size_t i, size_t j) {
    sensor ts = truth_sensor(s, (double[2]){0.0, 0.0});
    int ia, ii, ja, ji;
    truth_slope(&ts, i, &ia, &ii);
    truth_slope(&ts, j, &ja, &ji);
    return entry(s, p, 0.0, &ts, ia, ii, &ts, ja, ji);
}
