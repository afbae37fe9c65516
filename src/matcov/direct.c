/* Slope covariances straight from the closed form: the reference of every fast path. Model
 * section 4. */
#include "formula.h"
#include "internal.h"

#include <math.h>
#include <stdlib.h>

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

/* Not the truth sensor, which no pupil cuts. */
static bool is_sensor(const sys *s, const sensor *o) {
    return o >= s->sensors && o < s->sensors + s->nsensor;
}

static bool is_outlined(const sys *s, const sensor *o, int isub) {
    return is_sensor(s, o) && o->gradient && (o->nssp <= 2 || !sys_is_whole(s, o, isub));
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

/* Places of a slope's nodes on the outline of its lit part, and their weights along its axis. */
typedef struct {
    int n;
    double *x, *y, *w[2];
    double room[];
} nodes;

/* A difference between two points has two nodes for each axis. */
static void point_nodes(const sys *s, const sensor *o, int isub, nodes *v) {
    v->n = 4;
    for (int i = 0; i < 4; i++) {
        const slope e = slope_of(s, o, i / 2, isub);
        const double sign = i % 2 == 0 ? 1.0 : -1.0;
        v->x[i] = e.centre[0] + sign * e.half[0], v->y[i] = e.centre[1] + sign * e.half[1];
        v->w[i / 2][i] = sign / e.size;
    }
}

/* So many nodes on a piece of an outline that a set with one more changes nothing. */
static nodes *nodes_of(const sys *s, const sensor *o, int isub, int q) {
    const bool whole = !is_sensor(s, o);
    const size_t n = o->gradient ? (size_t)outline_count(s, o, isub, whole, q) : 4;
    nodes *v = calloc(1, sizeof *v + 4 * n * sizeof *v->room);
    if (v == NULL)
        return NULL;
    v->x = v->room, v->y = v->x + n, v->w[0] = v->y + n, v->w[1] = v->w[0] + n;
    if (o->gradient)
        v->n = outline_nodes(s, o, isub, whole, q, v->x, v->y, v->w[0], v->w[1]);
    else
        point_nodes(s, o, isub, v);
    return v;
}

/* Sum over two slopes' nodes of a layer's structure function, the first's moved by `at`. */
static double sum_nodes(const profile *p, int l, const double at[2], double co, const nodes *a,
                        int oa, double cv, const nodes *b, int va) {
    double sum = 0.0;
    for (int i = 0; i < a->n; i++)
        for (int j = 0; j < b->n; j++)
            sum -= 0.5 * a->w[oa][i] * b->w[va][j] *
                   formula_structure(p->strength[l], p->L0[l],
                                     hypot(at[0] + co * a->x[i] - cv * b->x[j],
                                           at[1] + co * a->y[i] - cv * b->y[j]));
    return sum;
}

/* Two mean gradients, one of them over a lit part: nodes of one set, and of different sets, whose
 * errors are opposite. */
static double outline_entry(const sys *s, const profile *p, double delay, const sensor *o, int oa,
                            int oi, const sensor *v, int va, int vi) {
    const int few = o->nssp <= 2 || v->nssp <= 2 ? 14 : 6;
    const int q = o->gradient && v->gradient ? few : 20;
    nodes *a[2], *b[2];
    double sum = 0.0;
    for (int k = 0; k < 2; k++)
        a[k] = nodes_of(s, o, oi, q + k), b[k] = nodes_of(s, v, vi, q + k);
    for (int l = 0; l < p->nlayer; l++) {
        const double co = 1.0 - p->h[l] / o->altitude, cv = 1.0 - p->h[l] / v->altitude;
        double at[2];
        if (!(co > 0.0 && cv > 0.0) || p->strength[l] == 0.0)
            continue;
        for (int i = 0; i < 2; i++)
            at[i] = (o->dir[i] - v->dir[i]) * p->h[l] -
                    (delay != 0.0 && p->wind[i] != NULL ? p->wind[i][l] * delay : 0.0);
        sum += 2.0 / 7.0 * sum_nodes(p, l, at, co, a[0], oa, cv, b[0], va);
        sum += 5.0 / 14.0 * sum_nodes(p, l, at, co, a[0], oa, cv, b[1], va);
        sum += 5.0 / 14.0 * sum_nodes(p, l, at, co, a[1], oa, cv, b[0], va);
    }
    for (int k = 0; k < 2; k++)
        free(a[k]), free(b[k]);
    return sum * formula_slope_scale(1.0, 1.0);
}

static double entry(const sys *s, const profile *p, double delay, const sensor *o, int oa, int oi,
                    const sensor *v, int va, int vi) {
    if (is_outlined(s, o, oi) || is_outlined(s, v, vi))
        return outline_entry(s, p, delay, o, oa, oi, v, va, vi);
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
    const double delay = s->sensors[w].late - s->sensors[v].late;
    return entry(s, p, delay, &s->sensors[w], wa, wi, &s->sensors[v], va, vi);
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
    const double delay = (shifted ? s->delay : 0.0) - s->sensors[v].late;
    return entry(s, p, delay, &ts, ta, ti, &s->sensors[v], va, vi);
}

double matcov_direct_cpm(const sys *s, const profile *p, const double dir[2], bool shifted,
                         double x, double y, size_t j) {
    int w, axis, isub;
    sys_slope_at(s, j, &w, &axis, &isub);
    const sensor *o = &s->sensors[w];
    const double at[2] = {x, y};
    nodes *e = nodes_of(s, o, isub, 20);
    double sum = 0.0;
    for (int l = 0; l < p->nlayer; l++) {
        const double c = 1.0 - p->h[l] / o->altitude;
        double q[2];
        if (!(c > 0.0) || p->strength[l] == 0.0)
            continue;
        for (int i = 0; i < 2; i++) {
            q[i] = at[i] + dir[i] * p->h[l] - o->dir[i] * p->h[l];
            if (p->wind[i] != NULL)
                q[i] -= p->wind[i][l] * ((shifted ? s->delay : 0.0) - o->late);
        }
        for (int i = 0; i < e->n; i++)
            sum -= 0.5 * e->w[axis][i] *
                   formula_structure(p->strength[l], p->L0[l],
                                     hypot(q[0] - c * e->x[i], q[1] - c * e->y[i]));
    }
    free(e);
    return sum * formula_phase_scale(1.0);
}

double matcov_direct_ctt(const sys *s, const profile *p, size_t i, size_t j) {
    sensor ts = truth_sensor(s, (double[2]){0.0, 0.0});
    int ia, ii, ja, ji;
    truth_slope(&ts, i, &ia, &ii);
    truth_slope(&ts, j, &ja, &ji);
    return entry(s, p, 0.0, &ts, ia, ii, &ts, ja, ji);
}
