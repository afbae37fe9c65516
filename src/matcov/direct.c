/* Slope covariances straight from the closed form: the reference of every fast path. Model
 * section 4. */
#include "formula.h"
#include "internal.h"

#include <math.h>

/* Pupil position of a subaperture's centre, registered. */
static void centre_of(const sys *s, const sensor *o, int isub, double p[2]) {
    double d = s->diameter / o->nssp, c = o->mag * cos(o->rot), e = o->mag * sin(o->rot);
    double x = (o->sub[isub] % o->nssp + 0.5) * d - 0.5 * s->diameter;
    double y = (o->sub[isub] / o->nssp + 0.5) * d - 0.5 * s->diameter;
    p[0] = c * x - e * y + o->shift[0];
    p[1] = e * x + c * y + o->shift[1];
}

/* Footprint on a layer: centre, and vector from the centre to the + edge. */
static void project(const sys *s, const sensor *o, int axis, int isub, double h, double centre[2],
                    double half[2]) {
    double cone = 1.0 - h / o->altitude, a = 0.5 * o->mag * s->diameter / o->nssp * cone;
    centre_of(s, o, isub, centre);
    for (int i = 0; i < 2; i++)
        centre[i] = centre[i] * cone + o->dir[i] * h;
    half[0] = axis == 0 ? a * cos(o->rot) : -a * sin(o->rot);
    half[1] = axis == 0 ? a * sin(o->rot) : a * cos(o->rot);
}

/* delay: loop delay by which the first sensor's wind-shifted position is late; 0: no shift. */
static double entry(const sys *s, const profile *p, double delay, const sensor *o, int oa, int oi,
                    const sensor *v, int va, int vi) {
    double sum = 0.0;
    for (int l = 0; l < p->nlayer; l++) {
        double q[2], c[2], a[2], b[2], D[4];
        if (p->h[l] >= o->altitude || p->h[l] >= v->altitude || p->strength[l] == 0.0)
            continue;
        project(s, o, oa, oi, p->h[l], q, a);
        project(s, v, va, vi, p->h[l], c, b);
        for (int i = 0; i < 2; i++) {
            q[i] -= c[i];
            if (delay != 0.0 && p->wind[i] != NULL)
                q[i] -= p->wind[i][l] * delay;
        }
        for (int k = 0; k < 4; k++) { /* pp, pm, mp, mm */
            double sa = k < 2 ? 1.0 : -1.0, sb = k % 2 == 0 ? -1.0 : 1.0;
            D[k] = formula_structure(
                p->strength[l], p->L0[l],
                hypot(q[0] + sa * a[0] + sb * b[0], q[1] + sa * a[1] + sb * b[1]));
        }
        sum += formula_second_difference(D[0], D[1], D[2], D[3]);
    }
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

double matcov_direct_ctt(const sys *s, const profile *p, size_t i, size_t j) {
    sensor ts = truth_sensor(s, (double[2]){0.0, 0.0});
    int ia, ii, ja, ji;
    truth_slope(&ts, i, &ia, &ii);
    truth_slope(&ts, j, &ja, &ji);
    return entry(s, p, 0.0, &ts, ia, ii, &ts, ja, ji);
}
