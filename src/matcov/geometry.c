#include "formula.h"
#include "internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

sensor truth_sensor(const sys *s, const double dir[2]) {
    sensor o = s->ts;
    o.mag = 1.0;
    o.rot = o.shift[0] = o.shift[1] = 0.0;
    o.altitude = INFINITY;
    memcpy(o.dir, dir, sizeof o.dir);
    return o;
}

/* Registered pupil position of the point (px, py) counted in subapertures from the corner of the
 * array. */
static void place(const sys *s, const sensor *o, double px, double py, double *x, double *y) {
    double d = s->diameter / o->nssp, c = o->mag * cos(o->rot), n = o->mag * sin(o->rot);
    double u = (px - 0.5 * o->nssp) * d, v = (py - 0.5 * o->nssp) * d;
    *x = c * u - n * v + o->shift[0];
    *y = n * u + c * v + o->shift[1];
}

/* Runs of the list of subapertures; returns how many. */
static int find_runs(const sensor *o, run *runs, int *run_of) {
    int n = 0;
    for (int k = 0; k < o->nsub; k++) {
        int ix = o->sub[k] % o->nssp;
        if (k == 0 || ix == 0 || o->sub[k] != o->sub[k - 1] + 1)
            runs[n++] = (run){.first = k, .ix = ix, .iy = o->sub[k] / o->nssp};
        runs[n - 1].n++;
        run_of[k] = n - 1;
    }
    return n;
}

/* Edge points of the x slopes: along a run each subaperture's right edge is the next one's left
 * edge. */
static void edges_x(const sys *s, const sensor *o, footprint *f) {
    int e = 0;
    for (int k = 0; k < o->nsub; k++) {
        int ix = o->sub[k] % o->nssp, iy = o->sub[k] / o->nssp;
        if (k == f->runs[f->run_of[k]].first)
            place(s, o, ix, iy + 0.5, &f->x[0][e], &f->y[0][e]), e++;
        f->minus[0][k] = e - 1;
        f->plus[0][k] = e;
        place(s, o, ix + 1, iy + 0.5, &f->x[0][e], &f->y[0][e]), e++;
    }
    f->nedge[0] = e;
}

/* Edge points of the y slopes, by rows of edges: row r bounds the subapertures of rows r-1 and r.
 * `at` is scratch: the number of the subaperture at each place of the array, or -1. */
static void edges_y(const sys *s, const sensor *o, footprint *f, int *at) {
    int n = o->nssp, e = 0;
    for (int i = 0; i < n * n; i++)
        at[i] = -1;
    for (int k = 0; k < o->nsub; k++)
        at[o->sub[k]] = k;
    for (int r = 0; r <= n; r++)
        for (int ix = 0; ix < n; ix++) {
            int below = r > 0 ? at[(r - 1) * n + ix] : -1, above = r < n ? at[r * n + ix] : -1;
            if (below < 0 && above < 0)
                continue;
            if (below >= 0)
                f->plus[1][below] = e;
            if (above >= 0)
                f->minus[1][above] = e;
            place(s, o, ix + 0.5, r, &f->x[1][e], &f->y[1][e]);
            e++;
        }
    f->nedge[1] = e;
}

footprint footprint_outline(const sys *s, const sensor *o) {
    return (footprint){.nssp = o->nssp,
                       .nsub = o->nsub,
                       .size = o->mag * s->diameter / o->nssp,
                       .mag = o->mag,
                       .rot = o->rot,
                       .shift = {o->shift[0], o->shift[1]},
                       .altitude = o->altitude,
                       .dir = {o->dir[0], o->dir[1]},
                       .late = o->late,
                       .gradient = o->gradient};
}

status footprint_init(const sys *s, const sensor *o, footprint *f) {
    status st;
    int *at = NULL;
    size_t n = (size_t)o->nsub;
    *f = footprint_outline(s, o);
    TRY(ALLOC(at, (size_t)o->nssp * (size_t)o->nssp, "places of subapertures"));
    TRY(ALLOC(f->runs, 2 * (size_t)o->nssp, "runs of subapertures"));
    TRY(ALLOC(f->run_of, n, "runs of subapertures"));
    for (int axis = 0; axis < 2; axis++) {
        size_t most = n + 2 * (size_t)o->nssp + 2;
        TRY(ALLOC(f->centre[axis], o->gradient ? n : 0, "centres of subapertures"));
        TRY(ALLOC(f->minus[axis], n, "edge points"));
        TRY(ALLOC(f->plus[axis], n, "edge points"));
        TRY(ALLOC(f->x[axis], most, "edge points"));
        TRY(ALLOC(f->y[axis], most, "edge points"));
    }
    f->nrun = find_runs(o, f->runs, f->run_of);
    edges_x(s, o, f);
    edges_y(s, o, f, at);
    for (int k = 0; o->gradient && k < o->nsub; k++)
        place(s, o, o->sub[k] % o->nssp + 0.5, o->sub[k] / o->nssp + 0.5, &f->centre[0][k],
              &f->centre[1][k]);
done:
    free(at);
    if (st != MOAO_OK)
        footprint_free(f);
    return st;
}

void footprint_free(footprint *f) {
    for (int axis = 0; axis < 2; axis++) {
        free(f->minus[axis]);
        free(f->plus[axis]);
        free(f->x[axis]);
        free(f->y[axis]);
        free(f->centre[axis]);
    }
    outline_free(&f->outline);
    free(f->runs);
    free(f->run_of);
    memset(f, 0, sizeof *f);
}

size_t footprint_bytes(int nssp, int nsub) {
    size_t n = (size_t)nsub, side = (size_t)nssp;
    return 5 * n * sizeof(int) + 4 * (n + 2 * side + 2) * sizeof(double) + 2 * side * sizeof(run);
}

void footprint_drift(const layers *lay, int l, const footprint *f, double drift[2]) {
    for (int i = 0; i < 2; i++) {
        drift[i] = f->drifts ? lay->drift[i][l] : 0.0;
        if (f->late != 0.0)
            drift[i] -= lay->wind[i][l] * f->late;
    }
}

bool footprint_on_layer(const layers *lay, int l, const footprint *f, double *c, double offset[2]) {
    double drift[2];
    footprint_drift(lay, l, f, drift);
    return !layer_is_unused(lay, l) &&
           formula_on_layer(lay->h[l], lay->kappa[l], f->altitude, f->dir, drift, c, offset);
}

static status allocate_layers(layers *lay, size_t n) {
    status st;
    double **const member[] = {&lay->h,           &lay->kappa,      &lay->coef,
                               &lay->coef_slopes, &lay->coef_phase, &lay->drift[0],
                               &lay->drift[1],    &lay->wind[0],    &lay->wind[1]};
    for (size_t i = 0; i < sizeof member / sizeof *member; i++)
        TRY(ALLOC(*member[i], n, "layers"));
    st = ALLOC(lay->table, n, "layers");
done:
    return st;
}

/* Layer l of a profile once more, with shares of its coefficient: alone, of slopes, of the phase;
 * age [s] of the first of a pair. */
static void add_layer(const profile *p, int l, const structure_table *karman,
                      const structure_table *kolmogorov, const double share[3], double age,
                      layers *lay) {
    const bool scaled = !isinf(p->L0[l]);
    const int k = lay->n++;
    const double coef = p->strength[l] * (scaled ? FORMULA_K1 * p->L0[l] * cbrt(p->L0[l] * p->L0[l])
                                                 : FORMULA_KOLMOGOROV);
    lay->h[k] = p->h[l];
    lay->nground += p->h[l] == 0.0;
    lay->kappa[k] = scaled ? FORMULA_TWO_PI / p->L0[l] : 1.0;
    lay->coef[k] = share[0] * coef;
    lay->coef_slopes[k] = share[1] * coef;
    lay->coef_phase[k] = share[2] * coef;
    lay->table[k] = scaled ? karman : kolmogorov;
    for (int i = 0; i < 2; i++) {
        lay->wind[i][k] = p->wind[i] != NULL ? p->wind[i][l] : 0.0;
        lay->drift[i][k] = p->wind[i] != NULL ? -p->wind[i][l] * age : 0.0;
    }
}

static double speed_of(const profile *p, int l) {
    return p->wind[0] != NULL ? hypot(p->wind[0][l], p->wind[1][l]) : 0;
}

/* Layer l by the ages of a loop: sum_l a_l D(q - V l T) of slopes, sum_k h_k D(q - V k T) of the
 * phase with slopes. One age is a pure delay. */
static status add_ages(const profile *p, int l, const structure_table *karman,
                       const structure_table *kolmogorov, layers *lay) {
    loop_ages a;
    status st = loop_ages_init(p->loop, speed_of(p, l), &a);
    if (st != MOAO_OK)
        return st;
    if (a.n == 1) {
        add_layer(p, l, karman, kolmogorov, (double[3]){1, 1, 1}, a.first, lay);
    } else {
        add_layer(p, l, karman, kolmogorov, (double[3]){1, a.correlation[0], 0}, 0, lay);
        for (int k = 1; k < a.n; k++)
            for (int sign = -1; sign <= 1; sign += 2)
                add_layer(p, l, karman, kolmogorov, (double[3]){0, a.correlation[k], 0},
                          sign * k * a.step, lay);
        for (int k = 0; k < a.n; k++)
            add_layer(p, l, karman, kolmogorov, (double[3]){0, 0, a.weight[k]},
                      a.first + k * a.step, lay);
    }
    loop_ages_free(&a);
    return st;
}

status layers_init(const profile *p, double delay, const structure_table *karman,
                   const structure_table *kolmogorov, layers *lay) {
    status st;
    size_t n = 0;
    *lay = (layers){0};
    for (int l = 0; l < p->nlayer; l++)
        n += p->loop != NULL ? 3 * (size_t)loop_count_ages(p->loop, speed_of(p, l)) : 1;
    TRY(allocate_layers(lay, n));
    for (int l = 0; l < p->nlayer; l++) {
        if (p->strength[l] == 0.0)
            continue;
        if (p->loop != NULL)
            TRY(add_ages(p, l, karman, kolmogorov, lay));
        else
            add_layer(p, l, karman, kolmogorov, (double[3]){1, 1, 1}, delay, lay);
    }
done:
    if (st != MOAO_OK)
        layers_free(lay);
    return st;
}

void layers_free(layers *lay) {
    free(lay->h);
    free(lay->kappa);
    free(lay->coef);
    free(lay->coef_slopes);
    free(lay->coef_phase);
    free(lay->drift[0]);
    free(lay->drift[1]);
    free(lay->wind[0]);
    free(lay->wind[1]);
    free(lay->table);
    *lay = (layers){0};
}
