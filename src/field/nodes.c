/* Places of the nodes. */
#include "field/field_internal.h"

#include "base/mix.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NEEDED = 1, SPARSE = 2 };
#define FLAT 1e-6        /* targets this much wider than long stand on a line */
#define SAME 0.02        /* of a step: a node is there already */
#define REACH 2          /* rows of nodes on each side of a target */
#define CHECK_FROM 0.3   /* of a step: as far from a star */
#define CHECK_SHARE 0.02 /* targets that are compared, of the nodes */
#define LEAST_CHECKS 8
#define ROOM 8       /* nodes at most, of those of the lattice; besides some for each target */
#define MOST_TIMES 3 /* where nodes are wanted that save nothing: as many as these at most */

void field_to_lattice(const field *f, const double at[2], double *u, double *v) {
    const double x = (at[0] - f->origin[0]) / f->step, y = (at[1] - f->origin[1]) / f->step;
    *u = f->axis[0] * x + f->axis[1] * y;
    *v = f->axis[0] * y - f->axis[1] * x;
}

void field_from_lattice(const field *f, double u, double v, double at[2]) {
    at[0] = f->origin[0] + f->step * (f->axis[0] * u - f->axis[1] * v);
    at[1] = f->origin[1] + f->step * (f->axis[1] * u + f->axis[0] * v);
}

bool field_inside(const field *f, const field_node *n) {
    double u, v;
    field_to_lattice(f, n->at, &u, &v);
    return u > -SAME && u < f->size[0] + SAME && (f->line || (v > -SAME && v < f->size[1] + SAME));
}

/* The target within `tolerance` steps of a place, -1: none. Targets are searched in order. */
static int target_at(const field *f, const double at[2], double tolerance) {
    for (int t = 0; t < f->nwant; t++)
        if (hypot(f->want[t][0] - at[0], f->want[t][1] - at[1]) < tolerance * f->step)
            return t;
    return -1;
}

/* The source within `tolerance` steps of a place, NULL: none. */
static field_node *source_at(const field *f, const double at[2], double tolerance) {
    for (int i = 0; i < f->nnode; i++)
        if (field_is_source(&f->node[i]) &&
            hypot(f->node[i].at[0] - at[0], f->node[i].at[1] - at[1]) < tolerance * f->step)
            return &f->node[i];
    return NULL;
}

/* A node that exists is computed in every exposure from now on; false: it is already. */
static bool make_full(field_node *n, int tor) {
    if (n->full <= tor)
        return false;
    n->full = tor;
    return true;
}

bool field_add(field *f, const double at[2], field_kind kind, int tor, int target) {
    field_node *there = target < 0 ? source_at(f, at, SAME) : NULL;
    if (there != NULL)
        return make_full(there, tor);
    if (target < 0)
        target = target_at(f, at, SAME);
    if (target >= 0 && f->node_of[target] >= 0) {
        field_node *n = &f->node[f->node_of[target]];
        if (kind == NODE_CHECK)
            return false;
        if (field_is_source(n))
            return make_full(n, tor);
        n->kind = kind; /* what was compared with is a node from now on */
        return true;
    }
    if (f->nnode == f->capacity)
        return false;
    const double *to = target >= 0 ? f->want[target] : at;
    f->node[f->nnode] =
        (field_node){.at = {to[0], to[1]}, .kind = kind, .target = target, .tor = tor, .full = tor};
    if (target >= 0)
        f->node_of[target] = f->nnode;
    f->nnode++;
    return true;
}

/* Axis and extent of the targets. */
static void find_frame(field *f, double size[2]) {
    double mean[2] = {0, 0}, xx = 0, yy = 0, xy = 0, lo[2] = {INFINITY, INFINITY},
           hi[2] = {-INFINITY, -INFINITY};
    for (int t = 0; t < f->nwant; t++)
        for (int k = 0; k < 2; k++)
            mean[k] += f->want[t][k] / f->nwant;
    for (int t = 0; t < f->nwant; t++) {
        const double x = f->want[t][0] - mean[0], y = f->want[t][1] - mean[1];
        xx += x * x;
        yy += y * y;
        xy += x * y;
    }
    /* along the axes, unless all stand on a line */
    const double gap = hypot(xx - yy, 2 * xy), small = 0.5 * (xx + yy - gap),
                 large = xx + yy - small;
    f->line = small <= FLAT * FLAT * large;
    const double turn = f->line ? 0.5 * atan2(2 * xy, xx - yy) : 0;
    f->axis[0] = cos(turn);
    f->axis[1] = sin(turn);
    f->origin[0] = mean[0];
    f->origin[1] = mean[1];
    for (int t = 0; t < f->nwant; t++) {
        double c[2];
        field_to_lattice(f, f->want[t], &c[0], &c[1]);
        for (int k = 0; k < 2; k++) {
            lo[k] = fmin(lo[k], c[k]);
            hi[k] = fmax(hi[k], c[k]);
        }
    }
    field_from_lattice(f, lo[0], f->line ? 0 : lo[1], f->origin);
    for (int k = 0; k < 2; k++)
        size[k] = (hi[k] - lo[k]) * f->step;
}

/* Lattice rows along an axis: whole cells across the targets, so that the first and last stand on
 * nodes. */
static int fit_cells(double size, double step) {
    const int n = (int)ceil(size / step * (1 - 1e-9));
    return n > 0 ? n : 1;
}

/* Marks the nodes that the targets of a cell need: REACH rows on each side. */
static void mark(const field *f, unsigned char *need, int nu, int nv, int margin) {
    const int above = f->line ? 0 : margin;
    for (int t = 0; t < f->nwant; t++) {
        double u, v;
        field_to_lattice(f, f->want[t], &u, &v);
        int i = (int)floor(u + 1e-9), j = (int)floor(v + 1e-9);
        i = i < 0 ? 0 : i > nu - 1 ? nu - 1 : i;
        j = j < 0 ? 0 : j > nv - 1 ? nv - 1 : j;
        for (int b = f->line ? 0 : j + 1 - REACH; b <= (f->line ? 0 : j + REACH); b++)
            for (int a = i + 1 - REACH; a <= i + REACH; a++)
                need[(size_t)(b + above) * (size_t)(nu + 1 + 2 * margin) + (size_t)(a + margin)] =
                    NEEDED;
    }
}

static field_stratum stratum_of(const field *f, const double at[2], double nu, double nv) {
    double u, v;
    for (int i = 0; i < f->nstar; i++)
        if (hypot(at[0] - f->star[i][0], at[1] - f->star[i][1]) < f->step)
            return STRATUM_STAR;
    field_to_lattice(f, at, &u, &v);
    const bool edge = u < 1 || u > nu - 1 || (!f->line && (v < 1 || v > nv - 1));
    return edge ? STRATUM_EDGE : STRATUM_CENTRE;
}

void field_place(const field *f, const double at[2], double *u, double *v) {
    field_to_lattice(f, at, u, v);
    *u = fmin(*u, f->size[0] - 1e-9);
    *v = fmin(*v, f->size[1] - 1e-9);
}

bool field_in_cell(const field *f, int t, const field_cell *c) {
    double u, v;
    field_place(f, f->want[t], &u, &v);
    return u >= c->u && u < c->u + c->side && (f->line || (v >= c->v && v < c->v + c->side));
}

int field_draw(const field *f, int stratum, const field_cell *c) {
    int best = -1;
    uint64_t least = UINT64_MAX;
    for (int t = 0; t < f->nwant; t++) {
        const uint64_t key = mix_bits((uint64_t)t);
        if (f->node_of[t] >= 0 || (stratum >= 0 && (int)f->stratum[t] != stratum) || key >= least ||
            (c != NULL && !field_in_cell(f, t, c)))
            continue;
        best = t;
        least = key;
    }
    return best;
}

int field_draw_more(field *f, int tor, int stratum, int count) {
    int added = 0;
    for (int t; added < count && (t = field_draw(f, stratum, NULL)) >= 0;)
        added += field_add(f, f->want[t], NODE_CHECK, tor, t);
    return added;
}

/* Targets to compare with: a share of the nodes, spread over the strata. */
static void draw_checks(field *f) {
    const int share = (int)ceil(CHECK_SHARE * f->nnode);
    int left = share > LEAST_CHECKS ? share : LEAST_CHECKS;
    for (bool any = true; any && left > 0;) {
        any = false;
        for (int s = 0; s < FIELD_STRATA && left > 0; s++) {
            const int t = field_draw(f, s, NULL);
            if (t >= 0 && field_add(f, f->want[t], NODE_CHECK, 0, t)) {
                any = true;
                left--;
            }
        }
    }
}

/* A natural star within the field, where errors are largest: nodes on it and in the middle of the
 * cells about it. */
static void add_star(field *f, const double at[2]) {
    static const double about[4][2] = {{0.5, 0.5}, {-0.5, 0.5}, {-0.5, -0.5}, {0.5, -0.5}};
    double u, v, to[2];
    field_to_lattice(f, at, &u, &v);
    if (u < 0 || u > f->size[0] || (f->line ? fabs(v) > 1 : v < 0 || v > f->size[1]))
        return;
    for (int k = 0; k < (f->line ? 2 : 4); k++) {
        field_from_lattice(f, round(u) + about[k][0], f->line ? 0 : round(v) + about[k][1], to);
        if (source_at(f, to, 0.25) == NULL)
            field_add(f, to, NODE_STAR, 0, -1);
    }
    field_from_lattice(f, u, f->line ? 0 : v, to);
    if (source_at(f, to, 0.25) == NULL)
        field_add(f, to, NODE_STAR, 0, -1);
}

/* Two targets next to a natural star are compared with: the map is roughest there. */
static void check_star(field *f, const double at[2]) {
    for (int k = 0; k < (f->line ? 1 : 2); k++) {
        double u, v, to[2], least = CHECK_FROM;
        int best = -1;
        field_to_lattice(f, at, &u, &v);
        field_from_lattice(f, u + (k == 0 ? CHECK_FROM : 0), v + (k == 1 ? CHECK_FROM : 0), to);
        for (int t = 0; t < f->nwant; t++) {
            const double r = hypot(f->want[t][0] - to[0], f->want[t][1] - to[1]) / f->step;
            if (f->node_of[t] < 0 && r < least) {
                least = r;
                best = t;
            }
        }
        if (best >= 0)
            field_add(f, f->want[best], NODE_CHECK, 0, best);
    }
}

static status take_stars(const sys *s, field *f) {
    const status st = ALLOC(f->star, (size_t)sys_stars(s), "stars");
    for (int w = 0; st == MOAO_OK && w < sys_stars(s); w++)
        if (!s->sensors[w].lgs) {
            f->star[f->nstar][0] = s->sensors[w].dir[0];
            f->star[f->nstar++][1] = s->sensors[w].dir[1];
        }
    return st;
}

/* The sparse rows of a lattice of which every second one both ways is computed in every exposure:
 * those about the nodes that are needed, so that what these lack follows from all sides. Rows count
 * from -1, which is one of them. */
static void mark_sparse(unsigned char *need, int across, int down, int margin, bool line) {
    for (int j = 0; j < down; j++)
        for (int i = 0; i < across; i++) {
            if (!(need[j * across + i] & NEEDED))
                continue;
            for (int b = 0; b < (line ? 1 : 2); b++)
                for (int a = 0; a < 2; a++) {
                    const int p = (i - margin) % 2 != 0 ? i : i - 1 + 2 * a,
                              q = line || (j - margin) % 2 != 0 ? j : j - 1 + 2 * b;
                    need[q * across + p] |= SPARSE;
                }
        }
}

/* Nodes of a lower level first. */
static void sort_nodes(field *f) {
    int to = 0;
    for (int level = FIELD_SPARSE; level <= FIELD_WHOLE; level++)
        for (int i = to; i < f->nnode; i++) /* stable: what is between moves up by one */
            if (f->node[i].level == level) {
                const field_node n = f->node[i];
                memmove(&f->node[to + 1], &f->node[to], (size_t)(i - to) * sizeof n);
                f->node[to++] = n;
            }
    for (int i = 0; i < f->nnode; i++)
        if (f->node[i].target >= 0)
            f->node_of[f->node[i].target] = i;
}

/* The lattice; sparse: see mark_sparse. */
static status add_lattice(field *f, int nu, int nv, bool sparse) {
    const int margin = REACH + (sparse ? 1 : 0);
    const int across = nu + 1 + 2 * margin, down = f->line ? 1 : nv + 1 + 2 * margin;
    const int above = f->line ? 0 : margin;
    unsigned char *need = NULL;
    status st;
    TRY(ALLOC(need, (size_t)across * (size_t)down, "nodes"));
    memset(need, 0, (size_t)across * (size_t)down);
    mark(f, need, nu, nv > 0 ? nv : 1, margin);
    if (sparse)
        mark_sparse(need, across, down, margin, f->line);
    for (int i = 0; i < across * down; i++)
        f->capacity += need[i] != 0;
    f->capacity = ROOM * f->capacity + 3 * f->nwant + 7 * f->nstar + 64;
    TRY(ALLOC(f->node, (size_t)f->capacity, "nodes"));
    for (int j = 0; j < down; j++)
        for (int i = 0; i < across; i++) {
            double at[2];
            field_from_lattice(f, i - margin, j - above, at);
            const int bits = need[j * across + i];
            if (bits == 0 || !field_add(f, at, NODE_LATTICE, 0, -1) || !sparse || (bits & SPARSE))
                continue;
            const bool even = (i - margin) % 2 == 0 && (j - above) % 2 == 0;
            f->node[f->nnode - 1].level = even && !f->line ? FIELD_HALF : FIELD_WHOLE;
            f->node[f->nnode - 1].full = FIELD_NEVER;
        }
done:
    free(need);
    return st;
}

/* Step of a lattice that ends on the targets' extent. */
static status place_nodes(field *f, const double size[2], double step, bool sparse,
                          const int *exact, int nexact) {
    int nu = fit_cells(size[0], step), nv = f->line ? 0 : fit_cells(size[1], step);
    status st;
    f->step = size[0] / nu > 0 ? fmax(size[0] / nu, nv > 0 ? size[1] / nv : 0) : step;
    nu = fit_cells(size[0], f->step);
    nv = f->line ? 0 : fit_cells(size[1], f->step);
    f->size[0] = size[0] / f->step;
    f->size[1] = size[1] / f->step;
    TRY(add_lattice(f, nu, nv, sparse));
    for (int i = 0; i < nexact; i++)
        field_add(f, f->want[exact[i]], NODE_TARGET, 0, exact[i]);
    for (int i = 0; i < f->nstar; i++)
        add_star(f, f->star[i]);
    for (int t = 0; t < f->nwant; t++)
        f->stratum[t] = stratum_of(f, f->want[t], nu, nv);
    draw_checks(f);
    for (int i = 0; i < f->nstar; i++)
        check_star(f, f->star[i]);
    if (sparse)
        sort_nodes(f);
    f->most = field_pays(f) ? (int)(FIELD_WORTH * f->nwant) : MOST_TIMES * f->nnode;
done:
    return st;
}

/* Targets and stars, without nodes. */
static status begin(const sys *s, field *f, double size[2], double step) {
    status st;
    *f = (field){
        .nwant = s->ntarget, .want = (const double(*)[2])s->targets, .step = step, .poor = -1};
    TRY(ALLOC(f->node_of, (size_t)f->nwant, "targets"));
    TRY(ALLOC(f->stratum, (size_t)f->nwant, "targets"));
    TRY(ALLOC(f->error, (size_t)f->nwant, "targets"));
    TRY(ALLOC(f->bound, (size_t)f->nwant, "targets"));
    TRY(take_stars(s, f));
    for (int t = 0; t < f->nwant; t++)
        f->node_of[t] = -1;
    find_frame(f, size);
done:
    return st;
}

status field_init(const sys *s, double step, const int *exact, int nexact, field *f) {
    double size[2];
    status st;
    TRY(begin(s, f, size, step));
    st = place_nodes(f, size, step, false, exact, nexact);
done:
    if (st != MOAO_OK)
        field_free(f);
    return st;
}

status field_init_sequence(const sys *s, const atmos *a, double tolerance, const int *exact,
                           int nexact, field *f) {
    const double step = field_step(s, a, tolerance);
    double size[2];
    bool sparse = false;
    status st;
    TRY(begin(s, f, size, step));
    TRY(ALLOC(f->level, (size_t)a->nexposure, "exposures"));
    f->nexposure = a->nexposure;
    sparse = field_choose_levels(s, a, tolerance, step, f->line, f->level);
    st = place_nodes(f, size, step, sparse, exact, nexact);
done:
    if (st != MOAO_OK)
        field_free(f);
    return st;
}

void field_free(field *f) {
    free(f->node_of);
    free(f->stratum);
    free(f->error);
    free(f->bound);
    free(f->node);
    free(f->star);
    free(f->cell);
    free(f->level);
    *f = (field){0};
}

int field_count(const field *f, field_kind kind) {
    int n = 0;
    for (int i = 0; i < f->nnode; i++)
        n += f->node[i].kind == kind;
    return n;
}

int field_everywhere(const field *f) {
    int n = 0;
    for (int i = 0; i < f->nnode; i++)
        n += f->node[i].full == 0;
    return n;
}

int field_whole(const field *f) {
    int n = 0;
    for (int e = 0; e < f->nexposure; e++)
        n += f->level[e] == FIELD_WHOLE;
    return n;
}

bool field_pays(const field *f) {
    return f->nnode <= FIELD_WORTH * f->nwant;
}

bool field_exists(const field *f, int i, int tor) {
    return f->node[i].tor <= tor && !field_has_left(f, &f->node[i], tor);
}

bool field_computes(const field *f, int i, int tor, int exposure) {
    const field_node *n = &f->node[i];
    if (!field_exists(f, i, tor))
        return false;
    return n->full <= tor || f->nexposure == 0 || n->level <= f->level[exposure];
}

bool field_is_complete(const field *f, int tor, int exposure) {
    for (int i = 0; i < f->nnode; i++)
        if (field_exists(f, i, tor) && !field_computes(f, i, tor, exposure))
            return false;
    return true;
}

bool field_computes_all(const field *f, int tor) {
    for (int t = 0; t < f->nwant; t++)
        if (f->node_of[t] < 0 || f->node[f->node_of[t]].tor > tor ||
            f->node[f->node_of[t]].full > tor)
            return false;
    return true;
}
