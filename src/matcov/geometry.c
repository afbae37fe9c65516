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
                       .loop = o->loop,
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
    outline_free(f);
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
    double **const member[] = {&lay->h,        &lay->kappa,   &lay->coef,   &lay->drift[0],
                               &lay->drift[1], &lay->wind[0], &lay->wind[1]};
    for (size_t i = 0; i < sizeof member / sizeof *member; i++)
        TRY(ALLOC(*member[i], n, "layers"));
    for (int i = 0; i < lay->nloop; i++) {
        TRY(ALLOC(lay->coef_phase[i], n, "layers"));
        for (int j = 0; j < lay->nloop; j++)
            TRY(ALLOC(lay->coef_slopes[i][j], n, "layers"));
    }
    lay->coef_alone = lay->coef;
    st = ALLOC(lay->table, n, "layers");
done:
    return st;
}

typedef struct { /* a layer of a profile, and where it goes */
    const profile *p;
    int l;
    const structure_table *karman, *kolmogorov;
    layers *lay;
} source;

/* The layer once more, its first of a pair of an age [s]; returns its number, all of whose
 * coefficients are 0 yet, *coef: what they are in units of. */
static int add_layer(const source *x, double age, double *coef) {
    const profile *p = x->p;
    layers *lay = x->lay;
    const int k = lay->n++, l = x->l;
    const bool scaled = !isinf(p->L0[l]);
    *coef = p->strength[l] *
            (scaled ? FORMULA_K1 * p->L0[l] * cbrt(p->L0[l] * p->L0[l]) : FORMULA_KOLMOGOROV);
    lay->h[k] = p->h[l];
    lay->nground += p->h[l] == 0.0;
    lay->kappa[k] = scaled ? FORMULA_TWO_PI / p->L0[l] : 1.0;
    lay->table[k] = scaled ? x->karman : x->kolmogorov;
    for (int i = 0; i < 2; i++) {
        lay->wind[i][k] = p->wind[i] != NULL ? p->wind[i][l] : 0.0;
        lay->drift[i][k] = p->wind[i] != NULL ? -p->wind[i][l] * age : 0.0;
    }
    return k;
}

/* The same, a share of it in one list of coefficients. */
static void add_share(const source *x, double age, double share, double *to) {
    double coef;
    const int k = add_layer(x, age, &coef);
    to[k] = share * coef;
}

/* One age of all. */
static void add_once(const source *x, double age) {
    double coef;
    const int k = add_layer(x, age, &coef);
    x->lay->coef[k] = x->lay->coef_slopes[0][0][k] = x->lay->coef_phase[0][k] = coef;
}

static double speed_of(const profile *p, int l) {
    return p->wind[0] != NULL ? hypot(p->wind[0][l], p->wind[1][l]) : 0;
}

/* Loop i by its ages: sum_l a_l D(q - V l T) of its slopes, sum_k h_k D(q - V k T) of the phase
 * with them. */
static void add_loop(const source *x, int i, const loop_ages *a) {
    const layers *lay = x->lay;
    add_share(x, 0, a->correlation[0], lay->coef_slopes[i][i]);
    for (int k = 1; k < a->n; k++)
        for (int sign = -1; sign <= 1; sign += 2)
            add_share(x, sign * k * a->step, a->correlation[k], lay->coef_slopes[i][i]);
    for (int k = 0; k < a->n; k++)
        add_share(x, a->first + k * a->step, a->weight[k], lay->coef_phase[i]);
}

/* Slopes of loops i and j: sum_kl h_k h'_l D(q - V (l T' - k T)), and of the second with the first.
 */
static void add_gaps(const source *x, int i, int j, const loop_gaps *g) {
    for (int k = 0; k < g->n; k++) {
        add_share(x, g->age[k], g->weight[k], x->lay->coef_slopes[i][j]);
        add_share(x, -g->age[k], g->weight[k], x->lay->coef_slopes[j][i]);
    }
}

/* A layer by the ages of loops. One age of one loop is a pure delay. */
static status add_ages(const source *x) {
    loop_ages a[LOOPS] = {{0}};
    loop_gaps g = {0};
    status st = MOAO_OK;
    for (int i = 0; i < x->lay->nloop; i++)
        TRY(loop_ages_init(x->p->loop[i], speed_of(x->p, x->l), &a[i]));
    if (x->lay->nloop == 1 && a[0].n == 1) {
        add_once(x, a[0].first);
        goto done;
    }
    x->lay->aged = true;
    add_share(x, 0, 1, x->lay->coef);
    for (int i = 0; i < x->lay->nloop; i++)
        add_loop(x, i, &a[i]);
    for (int i = 0; i < x->lay->nloop; i++)
        for (int j = i + 1; j < x->lay->nloop; j++) {
            loop_gaps_free(&g);
            TRY(loop_gaps_init(&a[i], &a[j], &g));
            add_gaps(x, i, j, &g);
        }
done:
    for (int i = 0; i < LOOPS; i++)
        loop_ages_free(&a[i]);
    loop_gaps_free(&g);
    return st;
}

static int count_loops(const profile *p) {
    int n = 0;
    while (n < LOOPS && p->loop[n] != NULL)
        n++;
    return n;
}

double matcov_ages(const profile *p, int l, bool slopes) {
    const int n = p->loop[0] != NULL ? loop_count_ages(p->loop[0], speed_of(p, l)) : 1;
    return slopes ? 2 * n - 1 : n;
}

/* Most entries of a layer. */
static size_t count_ages(const profile *p, int l) {
    const double speed = speed_of(p, l);
    size_t n = 1;
    for (int i = 0; i < count_loops(p); i++) {
        n += 3 * (size_t)loop_count_ages(p->loop[i], speed);
        for (int j = 0; j < i; j++)
            n += 2 * (size_t)loop_count_gaps(p->loop[j], p->loop[i], speed);
    }
    return n;
}

/* Those that one pair of sensors uses, at most. */
static int count_used(const layers *lay) {
    int most = 0;
    const int loops = lay->nloop, all = loops * loops;
    for (int i = 0; i < all + loops && loops > 1; i++) {
        const double *coef =
            i < all ? lay->coef_slopes[i / loops][i % loops] : lay->coef_phase[i - all];
        int n = 0;
        for (int k = 0; k < lay->n; k++)
            n += coef[k] != 0.0;
        most = n > most ? n : most;
    }
    return loops > 1 ? most : lay->n;
}

status layers_init(const profile *p, double delay, const structure_table *karman,
                   const structure_table *kolmogorov, layers *lay) {
    status st;
    size_t n = 0;
    *lay = (layers){.nloop = count_loops(p)};
    lay->nloop = lay->nloop > 1 ? lay->nloop : 1;
    for (int l = 0; l < p->nlayer; l++)
        n += count_ages(p, l);
    TRY(allocate_layers(lay, n));
    for (int l = 0; l < p->nlayer; l++) {
        const source x = {p, l, karman, kolmogorov, lay};
        if (p->strength[l] == 0.0)
            continue;
        if (p->loop[0] != NULL)
            TRY(add_ages(&x));
        else
            add_once(&x, delay);
    }
    lay->most = count_used(lay);
done:
    if (st != MOAO_OK)
        layers_free(lay);
    return st;
}

void layers_free(layers *lay) {
    free(lay->h);
    free(lay->kappa);
    free(lay->coef);
    for (int i = 0; i < LOOPS; i++) {
        free(lay->coef_phase[i]);
        for (int j = 0; j < LOOPS; j++)
            free(lay->coef_slopes[i][j]);
    }
    free(lay->drift[0]);
    free(lay->drift[1]);
    free(lay->wind[0]);
    free(lay->wind[1]);
    free(lay->table);
    *lay = (layers){0};
}
