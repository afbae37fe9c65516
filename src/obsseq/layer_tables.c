#include "obsseq/layer_tables.h"

#include "moao/clones.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TAPS 6     /* places along an axis that a value is interpolated from */
#define BLOCK 1024 /* rows that are interpolated together: whole pages of the tables */
#define PARTS 16   /* of the points, for threads */
/* Steps in a subaperture on the layer: covariances of the phase with slopes have kinks at the edges
 * of subapertures, which decide. Of mean gradients 2 steps change Strehl ratios by 4e-4, 4 by 1e-5;
 * of differences between points, whose kinks are sharper, 4 by 5e-5. */
#define STEPS 3.0
#define STEPS_POINTS 4.0
/* Of layers with a fraction NOTED of the turbulence or more: displacements of all targets, in steps
 * of a lattice, up to which covariances are interpolated between SHIFTS displacements of each point
 * along an axis. 0.59 of Cn2 at 30 m, 0.12 up to 600 m, targets within 7.5 arcsec, subapertures of
 * 0.2 m, at 0.55 um: a lattice changes Strehl ratios by 6e-4, two displacements by 2e-4. */
#define NOTED 0.01
#define SHIFTED 0.5
#define SHIFTS 3

/* --- the lattices */

/* Of the finest sensor that sees the layer. */
static double step_of(const sys *s, double h) {
    double step = INFINITY;
    for (int w = 0; w < s->nsensor; w++) {
        const sensor *o = &s->sensors[w];
        const double cone = 1 - h / o->altitude, size = o->mag * s->diameter / o->nssp * cone;
        if (cone > 0)
            step = fmin(step, size / (o->gradient ? STEPS : STEPS_POINTS));
    }
    return isfinite(step) ? step : s->diameter;
}

/* Least and largest displacement of the pupil on the layer along an axis. */
static void range_of(const sys *s, const layer_table *g, int axis, bool still, double range[2]) {
    const double back = still ? -g->drift[axis] : 0;
    range[0] = INFINITY, range[1] = -INFINITY;
    for (int k = 0; k < s->ntarget; k++) {
        const double at = s->targets[k][axis] * g->h;
        range[0] = fmin(range[0], fmin(at, at + back));
        range[1] = fmax(range[1], fmax(at, at + back));
    }
}

/* Where the interpolation at a place begins, and the rest [steps]. */
static int first_tap(double at, double *rest) {
    const double whole = floor(at);
    *rest = at - whole;
    return (int)whole - (TAPS / 2 - 1);
}

/* Displacements that all targets are between, where these are small; false: they are not. */
static bool place_shifts(const sys *s, size_t points, bool still, layer_table *g) {
    const double step = step_of(s, g->h);
    double range[2][2], widest = 0;
    for (int i = 0; i < 2; i++) {
        range_of(s, g, i, still, range[i]);
        widest = fmax(widest, range[i][1] - range[i][0]);
    }
    g->shifts = widest <= SHIFTED * step;
    for (int i = 0; i < 2 && g->shifts; i++) {
        const double width = range[i][1] - range[i][0];
        g->from[i] = range[i][0];
        g->n[i] = width == 0 ? 1 : SHIFTS;
        g->step[i] = width == 0 ? step : width / (g->n[i] - 1);
    }
    g->count = (int64_t)points * g->n[0] * g->n[1];
    return g->shifts;
}

/* Places that a pupil around (x, y) needs, a run in each row: +1 at its beginning, -1 after it. */
static void mark(const sys *s, const layer_table *g, double x, double y, int *runs) {
    const double radius = 0.5 * s->diameter / g->step[0], margin = TAPS / 2 + 1e-6;
    const double cx = (x - g->from[0]) / g->step[0], cy = (y - g->from[1]) / g->step[0];
    for (int j = 0; j < g->n[1]; j++) {
        const double away = fmax(0, fabs(j - cy) - margin);
        if (away > radius)
            continue;
        const double half = sqrt(radius * radius - away * away) + margin;
        const int from = (int)fmax(0, ceil(cx - half)),
                  end = (int)fmin(g->n[0], floor(cx + half) + 1);
        if (from >= end)
            continue;
        runs[j * (g->n[0] + 1) + from]++;
        runs[j * (g->n[0] + 1) + end]--;
    }
}

/* Columns of the places that some target needs: numbered, counted. */
static status choose_places(const sys *s, bool still, layer_table *g) {
    const size_t wide = (size_t)g->n[0] + 1, high = (size_t)g->n[1];
    int *runs = NULL;
    status st;
    TRY(ALLOC(runs, wide * high, "places on a layer"));
    TRY(ALLOC(g->column, (size_t)g->n[0] * high, "places on a layer"));
    for (int k = 0; k < s->ntarget; k++) {
        const double x = s->targets[k][0] * g->h, y = s->targets[k][1] * g->h;
        mark(s, g, x, y, runs);
        if (still)
            mark(s, g, x - g->drift[0], y - g->drift[1], runs);
    }
    g->count = 0;
    for (int j = 0; j < g->n[1]; j++)
        for (int i = 0, users = 0; i < g->n[0]; i++) {
            users += runs[(size_t)j * wide + (size_t)i];
            g->column[j * g->n[0] + i] = users > 0 ? (int)g->count++ : -1;
        }
done:
    free(runs);
    return st;
}

/* Fraction of the turbulence at the altitude of a table. */
static double fraction_at(const profile *p, double h) {
    double all = 0, here = 0;
    for (int l = 0; l < p->nlayer; l++) {
        all += p->strength[l];
        here += p->h[l] == h ? p->strength[l] : 0;
    }
    return all > 0 ? here / all : 0;
}

/* The places of a table. */
static status place_lattice(const sys *s, const profile *p, size_t points, bool still,
                            layer_table *g) {
    g->points = g->h == 0;
    if (g->points) {
        g->count = (int64_t)points;
        return MOAO_OK;
    }
    if (fraction_at(p, g->h) >= NOTED && place_shifts(s, points, still, g))
        return MOAO_OK;
    g->step[0] = g->step[1] = step_of(s, g->h);
    for (int i = 0; i < 2; i++) {
        double range[2];
        range_of(s, g, i, still, range);
        g->from[i] = range[0] - 0.5 * s->diameter - TAPS / 2 * g->step[i];
        g->n[i] = (int)ceil((range[1] - range[0] + s->diameter) / g->step[i]) + TAPS + 1;
    }
    return choose_places(s, still, g);
}

static void free_tables(int n, layer_table *table) {
    for (int i = 0; i < n && table != NULL; i++) {
        free(table[i].column);
        free(table[i].x);
        free(table[i].y);
        free(table[i].value);
    }
    free(table);
}

/* Of a pure delay, by which the phase of layer l is displaced. */
static void drift_of(const sys *s, const profile *p, int l, double drift[2]) {
    for (int i = 0; i < 2; i++)
        drift[i] = p->loop[0] == NULL && p->wind[i] != NULL ? -p->wind[i][l] * s->delay : 0;
}

/* Whether layer l of a profile is in the table. */
static bool belongs(const sys *s, const profile *p, int l, const layer_table *g, bool still) {
    double drift[2];
    drift_of(s, p, l, drift);
    return p->strength[l] > 0 && p->h[l] == g->h &&
           (!still || g->points || (drift[0] == g->drift[0] && drift[1] == g->drift[1]));
}

/* A table for each altitude, where displacements matter for each of these too; on the ground two
 * then, as points are no places of a lattice. */
static status open_tables(const sys *s, const profile *p, size_t points, bool still, int *n,
                          layer_table **table) {
    status st;
    *n = 0;
    TRY(ALLOC(*table, (size_t)p->nlayer + 2, "tables by layer"));
    for (int l = 0; l < p->nlayer; l++) {
        bool known = p->strength[l] == 0;
        for (int i = 0; i < *n && !known; i++)
            known = belongs(s, p, l, &(*table)[i], still);
        if (known)
            continue;
        layer_table *g = &(*table)[(*n)++];
        g->h = p->h[l];
        drift_of(s, p, l, g->drift);
        TRY(place_lattice(s, p, points, still, g));
        g->moved = g->points && still;
        if (g->moved)
            (*table)[(*n)++] =
                (layer_table){.points = true, .still = true, .count = (int64_t)points};
    }
done:
    return st;
}

status layer_tables_count(const sys *s, const profile *p, size_t points, bool still,
                          layer_tables_size *z) {
    status st;
    layer_table *table = NULL;
    int n;
    *z = (layer_tables_size){0};
    TRY(open_tables(s, p, points, still, &n, &table));
    for (int i = 0; i < n; i++) {
        const double count = (double)table[i].count;
        z->columns += count;
        for (int l = 0; l < p->nlayer; l++)
            if (belongs(s, p, l, &table[i], still))
                z->evaluations += count * matcov_ages(p, l, false);
    }
done:
    free_tables(n, table);
    return st;
}

size_t layer_tables_bytes(const layer_tables_size *z, size_t rows) {
    return (size_t)(z->columns * ((double)rows + 3) * sizeof(double)); /* and places */
}

/* --- values */

/* Layers of p that are in table g, as a profile of their own. */
static status one_altitude(const sys *s, const profile *p, const layer_table *g, bool still,
                           profile *one) {
    status st = profile_still(p, one);
    int n = 0;
    for (int l = 0; st == MOAO_OK && l < p->nlayer; l++) {
        if (!belongs(s, p, l, g, still))
            continue;
        one->h[n] = p->h[l];
        one->L0[n] = p->L0[l];
        one->strength[n] = p->strength[l];
        for (int i = 0; i < 2; i++)
            one->wind[i][n] = p->wind[i] != NULL ? p->wind[i][l] : 0;
        n++;
    }
    one->nlayer = st == MOAO_OK ? n : 0;
    return st;
}

/* Places of a table's columns. */
static status fill_places(const layer_tables *g, layer_table *t) {
    status st;
    TRY(ALLOC(t->x, (size_t)t->count, "places on a layer"));
    TRY(ALLOC(t->y, (size_t)t->count, "places on a layer"));
    if (t->points) {
        memcpy(t->x, g->x, (size_t)t->count * sizeof *t->x);
        memcpy(t->y, g->y, (size_t)t->count * sizeof *t->y);
        return st;
    }
    for (int64_t k = 0; t->shifts && k < t->count; k++) {
        const int64_t point = k % g->points;
        const int shift = (int)(k / g->points);
        t->x[k] = g->x[point] + t->from[0] + shift % t->n[0] * t->step[0];
        t->y[k] = g->y[point] + t->from[1] + shift / t->n[0] * t->step[1];
    }
    if (t->shifts)
        return st;
    for (int j = 0; j < t->n[1]; j++)
        for (int i = 0; i < t->n[0]; i++) {
            const int at = t->column[j * t->n[0] + i];
            if (at < 0)
                continue;
            t->x[at] = t->from[0] + i * t->step[0];
            t->y[at] = t->from[1] + j * t->step[1];
        }
done:
    return st;
}

/* Columns first .. first + n: W cov(s, phi) there, panel by panel. */
static status fill_columns(tor *t, linop *op, layer_tables *g, const layer_table *of, int64_t first,
                           int64_t n) {
    engine *e = &t->e;
    phase_term *part = &g->part;
    status st;
    part->n = part->ld = n;
    part->room = of->value + first * g->rows;
    TRY(engine_copy(e, part->x, of->x + first, n));
    TRY(engine_copy(e, part->y, of->y + first, n));
    for (int64_t j = 0, wide; j < e->m; j += wide) {
        wide = engine_width(e, j, e->m);
        TRY(phase_columns(t, part, op, true, 0, j, wide));
    }
done:
    return st;
}

/* Covariances of the layers of a table, and its memory. */
static status open_table(tor *t, layer_tables *g, const profile *p, bool still, layer_table *of) {
    engine *e = &t->e;
    profile one = {0};
    matcov *mc = NULL;
    status st;
    TRY(one_altitude(e->s, p, of, still, &one));
    TRY(matcov_prepare(e->s, &one, &mc));
    TRY(engine_use(e, mc)); /* borrows `one` */
    profile_free(&g->one);
    g->one = one;
    one = (profile){0};
    TRY(fill_places(g, of));
    TRY(ALLOC(of->value, (size_t)(g->rows * of->count), "covariances of commands by layer"));
    if (t->ch.nmine > 0)
        st = e->mat->aim(tor_target(t, 0), (double[2]){0, 0}, !of->still);
done:
    profile_free(&one);
    return st;
}

static status make_table(tor *t, linop *op, layer_tables *g, const profile *p, bool still, int i) {
    layer_table *of = &g->table[i];
    status st = team_agree(&t->t, open_table(t, g, p, still, of));
    for (int64_t first = 0, n; t->ch.nmine > 0 && first < of->count && st == MOAO_OK; first += n) {
        n = of->count - first < g->points ? of->count - first : g->points;
        st = fill_columns(t, op, g, of, first, n);
    }
    return st;
}

status layer_tables_make(tor *t, const psf *ps, const phase_term *ph, linop *op, const profile *p,
                         bool still, layer_tables *g) {
    engine *e = &t->e;
    status st;
    layer_tables_free(t, g);
    *g = (layer_tables){.rows = t->t.nlrow, .points = ph->n};
    report_phase("exposure: covariances by layer");
    psf_points(ps, &g->x, &g->y);
    st = engine_doubles(e, ph->n, "places on a layer", &g->part.x);
    if (st == MOAO_OK)
        st = engine_doubles(e, ph->n, "places on a layer", &g->part.y);
    if (st == MOAO_OK)
        st = open_tables(e->s, p, (size_t)ph->n, still, &g->n, &g->table);
    TRY(engine_agree_now(e, STAGE_EXPOSURE, st));
    g->part.cpm = ph->cpm; /* as wide as all points */
    for (int i = 0; i < g->n; i++) {
        st = make_table(t, op, g, p, still, i);
        TRY(engine_agree_now(e, STAGE_EXPOSURE, st));
    }
done:
    return st;
}

void layer_tables_free(tor *t, layer_tables *g) {
    free_tables(g->n, g->table);
    profile_free(&g->one);
    ENGINE_RELEASE(&t->e, g->part.x, g->part.y);
    *g = (layer_tables){0};
}

/* --- a target */

/* Weights of n places 0 .. n-1 at t. */
static void lagrange(double t, int n, double w[TAPS]) {
    for (int i = 0; i < n; i++) {
        w[i] = 1;
        for (int j = 0; j < n; j++)
            if (j != i)
                w[i] *= (t - j) / (i - j);
    }
}

/* out += sum_k w_k column_k of n rows, in the order of k. */
MOAO_CLONES static void add_columns(int64_t n, int count, const double *const *column,
                                    const double *w, double *restrict out) {
    int k = 0;
    for (; k + 5 < count; k += 6) {
        const double *a = column[k], *b = column[k + 1], *c = column[k + 2], *d = column[k + 3],
                     *e = column[k + 4], *f = column[k + 5];
        const double wa = w[k], wb = w[k + 1], wc = w[k + 2], wd = w[k + 3], we = w[k + 4],
                     wf = w[k + 5];
        for (int64_t i = 0; i < n; i++)
            out[i] += (wa * a[i] + wb * b[i]) + (wc * c[i] + wd * d[i]) + (we * e[i] + wf * f[i]);
    }
    for (; k < count; k++) {
        const double *a = column[k];
        for (int64_t i = 0; i < n; i++)
            out[i] += w[k] * a[i];
    }
}

typedef struct { /* rows row0 .. row0 + rows of a target at some points */
    const layer_tables *g;
    const layer_table *t;
    double move[2]; /* of the pupil on the layer [m] */
    int64_t row0, rows;
    int64_t from, n;    /* the points: from .. n of */
    const int *at;      /* these, NULL: all */
    double *along, *ct; /* a row of places, interpolated along y; columns of all points */
} look;

static int64_t point_of(const look *k, int64_t i) {
    return k->at != NULL ? k->at[i] : i;
}

static double *result_of(const look *k, int64_t i) {
    return k->ct + i * k->g->rows + k->row0;
}

static const double *values_of(const look *k, int64_t column) {
    return k->t->value + column * k->g->rows + k->row0;
}

static void add_points(const look *k) {
    const double one = 1;
    for (int64_t i = k->from; i < k->n; i++) {
        const double *column = values_of(k, point_of(k, i));
        add_columns(k->rows, 1, &column, &one, result_of(k, i));
    }
}

/* Of each point, displaced: all have the same weights. */
static void add_shifts(const look *k) {
    const layer_table *t = k->t;
    const int count = t->n[0] * t->n[1];
    const double *column[SHIFTS * SHIFTS];
    double w[2][TAPS], weight[SHIFTS * SHIFTS];
    for (int i = 0; i < 2; i++)
        lagrange((k->move[i] - t->from[i]) / t->step[i], t->n[i], w[i]);
    for (int s = 0; s < count; s++)
        weight[s] = w[0][s % t->n[0]] * w[1][s / t->n[0]];
    for (int64_t i = k->from; i < k->n; i++) {
        for (int s = 0; s < count; s++)
            column[s] = values_of(k, s * k->g->points + point_of(k, i));
        add_columns(k->rows, count, column, weight, result_of(k, i));
    }
}

/* First of the places along an axis that a point is interpolated from, and their weights. */
static int taps_of(const look *k, int axis, int64_t i, double w[TAPS]) {
    const double *from = axis == 0 ? k->g->x : k->g->y;
    const double place = from[point_of(k, i)] + k->move[axis];
    double rest;
    const int first = first_tap((place - k->t->from[axis]) / k->t->step[axis], &rest);
    lagrange(rest + TAPS / 2 - 1, TAPS, w);
    return first;
}

/* Points i .. end, which stand in a row: all places that they need along y first, then each point
 * along x. */
static void add_row(const look *k, int64_t i, int64_t end) {
    const layer_table *t = k->t;
    const double *column[TAPS];
    double w[TAPS];
    const int x0 = taps_of(k, 0, i, w), x1 = taps_of(k, 0, end - 1, w) + TAPS;
    const int y0 = taps_of(k, 1, i, w);
    memset(k->along, 0, (size_t)((x1 - x0) * k->rows) * sizeof *k->along);
    for (int x = x0; x < x1; x++) {
        for (int j = 0; j < TAPS; j++)
            column[j] = values_of(k, t->column[(y0 + j) * t->n[0] + x]);
        add_columns(k->rows, TAPS, column, w, k->along + (x - x0) * k->rows);
    }
    for (; i < end; i++) {
        const int first = taps_of(k, 0, i, w);
        for (int j = 0; j < TAPS; j++)
            column[j] = k->along + (first - x0 + j) * k->rows;
        add_columns(k->rows, TAPS, column, w, result_of(k, i));
    }
}

static void add_lattice(const look *k) {
    for (int64_t i = k->from, end; i < k->n; i = end) {
        const double y = k->g->y[point_of(k, i)];
        for (end = i + 1; end < k->n && k->g->y[point_of(k, end)] == y;)
            end++;
        add_row(k, i, end);
    }
}

/* Some rows of a target at some points, layer by layer. */
static void look_up(const look *some, const double dir[2], bool still) {
    look k = *some;
    for (int64_t i = k.from; i < k.n; i++)
        memset(result_of(&k, i), 0, (size_t)k.rows * sizeof *k.ct);
    for (int l = 0; l < k.g->n; l++) {
        const layer_table *t = k.t = &k.g->table[l];
        if (still ? t->moved : t->still)
            continue;
        for (int i = 0; i < 2; i++)
            k.move[i] = dir[i] * t->h - (still ? t->drift[i] : 0);
        if (t->points)
            add_points(&k);
        else if (t->shifts)
            add_shifts(&k);
        else
            add_lattice(&k);
    }
}

status layer_tables_look_up(const layer_tables *g, const double dir[2], bool still, int64_t n,
                            const int *at, double *ct) {
    int most = 1;
    status st = MOAO_OK;
    for (int l = 0; l < g->n; l++)
        most = g->table[l].n[0] > most ? g->table[l].n[0] : most;
#pragma omp parallel
    {
        double *along = NULL;
        const status mine = ALLOC(along, (size_t)most * BLOCK, "covariances of a row of places");
        if (mine != MOAO_OK)
#pragma omp critical
            st = mine;
#pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < PARTS * ((g->rows + BLOCK - 1) / BLOCK); i++) {
            const int64_t row0 = i / PARTS * BLOCK, part = i % PARTS;
            const look k = {.g = g,
                            .row0 = row0,
                            .rows = g->rows - row0 < BLOCK ? g->rows - row0 : BLOCK,
                            .from = n * part / PARTS,
                            .n = n * (part + 1) / PARTS,
                            .at = at,
                            .along = along,
                            .ct = ct};
            if (along != NULL)
                look_up(&k, dir, still);
        }
        free(along);
    }
    return st;
}
