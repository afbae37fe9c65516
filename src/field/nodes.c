/* Places of the nodes. */
#include "field/field.h"

#include "base/mix.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FLAT 1e-6        /* targets this much wider than long stand on a line */
#define SAME 0.02        /* of a step: a node is there already */
#define REACH 2          /* rows of nodes on each side of a target */
#define CHECK_FROM 0.3   /* of a step: as far from a star */
#define EXPECTED 2.5     /* errors expected, in standard deviations: one in 80 is larger */
#define CHECK_SHARE 0.02 /* targets that are compared, of the nodes */
#define LEAST_CHECKS 8
#define ROOM 8         /* nodes at most, of those of the lattice; besides some for each target */
#define MOST_TIMES 3   /* where nodes are wanted that save nothing: as many as these at most */
#define MORE_CHECKS 24 /* of each stratum where an error was too large, then twice as many */
#define WORST_CHECKS 8 /* of the largest expected errors of a stratum, then twice as many */
#define MANY 8         /* of so many compared one is over: too many for cells one by one */
#define WORST 0.8      /* of the largest expected error: one of those that are compared first */
#define RARE 0.02      /* of a stratum: more targets over the tolerance are not left as they are */
#define ENOUGH 8       /* comparisons of a stratum that say how large its errors are */
#define LOWERED 0.7    /* of the error in a cell before it was refined: the nodes have helped */
#define MIDDLE 0.3     /* of a cell's side: a node there is in its middle */
#define LEVELS 2       /* by which a cell is refined at once, at most */
#define WORTH 0.75     /* of the targets' number: more nodes save too little */
/* Errors go as step^LEVEL_POWER where cells are refined: of a map, 1.5 about stars, 2.8 at edges */
#define LEVEL_POWER 2.4
/* field_step: error 1e-3 at LENGTH (D / 8 m)^GROWTH over the layers' altitude */
#define STEP_LENGTH 0.28
#define STEP_GROWTH 0.59

/* Altitude that counts: of strong and high layers [m]. */
static double rough_altitude(const profile *p) {
    double sum = 0, all = 0;
    for (int l = 0; l < p->nlayer; l++) {
        sum += p->strength[l] * pow(p->h[l], FIELD_STEP_ALTITUDE);
        all += p->strength[l];
    }
    return all > 0 ? pow(sum / all, 1 / FIELD_STEP_ALTITUDE) : 0;
}

double field_step(const sys *s, const atmos *a, double tolerance) {
    double high = 0;
    for (int e = 0; e < a->nexposure; e++)
        high += rough_altitude(atmos_profile_at(a, a->exposure_time[e])) / a->nexposure;
    const double length = STEP_LENGTH * pow(s->diameter / 8, STEP_GROWTH);
    return length * pow(tolerance / 1e-3, 1 / FIELD_STEP_POWER) / fmax(high, 1.0);
}

static void to_lattice(const field *f, const double at[2], double *u, double *v) {
    const double x = (at[0] - f->origin[0]) / f->step, y = (at[1] - f->origin[1]) / f->step;
    *u = f->axis[0] * x + f->axis[1] * y;
    *v = f->axis[0] * y - f->axis[1] * x;
}

static void from_lattice(const field *f, double u, double v, double at[2]) {
    at[0] = f->origin[0] + f->step * (f->axis[0] * u - f->axis[1] * v);
    at[1] = f->origin[1] + f->step * (f->axis[1] * u + f->axis[0] * v);
}

bool field_inside(const field *f, const field_node *n) {
    double u, v;
    to_lattice(f, n->at, &u, &v);
    return u > -SAME && u < f->size[0] + SAME && (f->line || (v > -SAME && v < f->size[1] + SAME));
}

/* The target within `tolerance` steps of a place, -1: none. Targets are searched in order. */
static int target_at(const field *f, const double at[2], double tolerance) {
    for (int t = 0; t < f->nwant; t++)
        if (hypot(f->want[t][0] - at[0], f->want[t][1] - at[1]) < tolerance * f->step)
            return t;
    return -1;
}

static bool has_source(const field *f, const double at[2], double tolerance) {
    for (int i = 0; i < f->nnode; i++)
        if (field_is_source(&f->node[i]) &&
            hypot(f->node[i].at[0] - at[0], f->node[i].at[1] - at[1]) < tolerance * f->step)
            return true;
    return false;
}

/* A node, which is the very target where it is next to one. False: one is there, or there is no
 * room. */
static bool add_node(field *f, const double at[2], field_kind kind, int tor, int target) {
    if (f->nnode == f->capacity || (target < 0 && has_source(f, at, SAME)))
        return false;
    if (target < 0)
        target = target_at(f, at, SAME);
    if (target >= 0 && f->node_of[target] >= 0) {
        field_node *n = &f->node[f->node_of[target]];
        if (field_is_source(n) || kind == NODE_CHECK)
            return false;
        n->kind = kind; /* what was compared with is a node from now on */
        return true;
    }
    const double *to = target >= 0 ? f->want[target] : at;
    const bool fine = f->follow != NULL && kind == NODE_REFINED;
    f->node[f->nnode] = (field_node){{to[0], to[1]}, kind, target, tor, false, fine};
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
        to_lattice(f, f->want[t], &c[0], &c[1]);
        for (int k = 0; k < 2; k++) {
            lo[k] = fmin(lo[k], c[k]);
            hi[k] = fmax(hi[k], c[k]);
        }
    }
    from_lattice(f, lo[0], f->line ? 0 : lo[1], f->origin);
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
    for (int t = 0; t < f->nwant; t++) {
        double u, v;
        to_lattice(f, f->want[t], &u, &v);
        int i = (int)floor(u + 1e-9), j = (int)floor(v + 1e-9);
        i = i < 0 ? 0 : i > nu - 1 ? nu - 1 : i;
        j = j < 0 ? 0 : j > nv - 1 ? nv - 1 : j;
        for (int b = f->line ? 0 : j + 1 - REACH; b <= (f->line ? 0 : j + REACH); b++)
            for (int a = i + 1 - REACH; a <= i + REACH; a++)
                need[(size_t)(b + margin) * (size_t)(nu + 1 + 2 * margin) + (size_t)(a + margin)] =
                    1;
    }
}

static field_stratum stratum_of(const field *f, const double at[2], double nu, double nv) {
    double u, v;
    for (int i = 0; i < f->nstar; i++)
        if (hypot(at[0] - f->star[i][0], at[1] - f->star[i][1]) < f->step)
            return STRATUM_STAR;
    to_lattice(f, at, &u, &v);
    const bool edge = u < 1 || u > nu - 1 || (!f->line && (v < 1 || v > nv - 1));
    return edge ? STRATUM_EDGE : STRATUM_CENTRE;
}

/* Place of a target; the last ones of a row belong to the last cell. */
static void place_of(const field *f, const double at[2], double *u, double *v) {
    to_lattice(f, at, u, v);
    *u = fmin(*u, f->size[0] - 1e-9);
    *v = fmin(*v, f->size[1] - 1e-9);
}

static bool in_cell(const field *f, int t, const field_cell *c) {
    double u, v;
    place_of(f, f->want[t], &u, &v);
    return u >= c->u && u < c->u + c->side && (f->line || (v >= c->v && v < c->v + c->side));
}

/* The target of a stratum (-1: any) in a cell that is no node, drawn at random; -1: none. */
static int draw(const field *f, int stratum, const field_cell *c) {
    int best = -1;
    uint64_t least = UINT64_MAX;
    for (int t = 0; t < f->nwant; t++) {
        const uint64_t key = mix_bits((uint64_t)t);
        if (f->node_of[t] >= 0 || (stratum >= 0 && (int)f->stratum[t] != stratum) || key >= least ||
            (c != NULL && !in_cell(f, t, c)))
            continue;
        best = t;
        least = key;
    }
    return best;
}

/* More of a stratum. */
static int draw_more(field *f, int tor, int stratum, int count) {
    int added = 0;
    for (int t; added < count && (t = draw(f, stratum, NULL)) >= 0;)
        added += add_node(f, f->want[t], NODE_CHECK, tor, t);
    return added;
}

/* Targets to compare with: a share of the nodes, spread over the strata. */
static void draw_checks(field *f) {
    const int share = (int)ceil(CHECK_SHARE * f->nnode);
    int left = share > LEAST_CHECKS ? share : LEAST_CHECKS;
    for (bool any = true; any && left > 0;) {
        any = false;
        for (int s = 0; s < FIELD_STRATA && left > 0; s++) {
            const int t = draw(f, s, NULL);
            if (t >= 0 && add_node(f, f->want[t], NODE_CHECK, 0, t)) {
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
    to_lattice(f, at, &u, &v);
    if (u < 0 || u > f->size[0] || (f->line ? fabs(v) > 1 : v < 0 || v > f->size[1]))
        return;
    for (int k = 0; k < (f->line ? 2 : 4); k++) {
        from_lattice(f, round(u) + about[k][0], f->line ? 0 : round(v) + about[k][1], to);
        if (!has_source(f, to, 0.25))
            add_node(f, to, NODE_STAR, 0, -1);
    }
    from_lattice(f, u, f->line ? 0 : v, to);
    if (!has_source(f, to, 0.25))
        add_node(f, to, NODE_STAR, 0, -1);
}

/* Two targets next to a natural star are compared with: the map is roughest there. */
static void check_star(field *f, const double at[2]) {
    for (int k = 0; k < (f->line ? 1 : 2); k++) {
        double u, v, to[2], least = CHECK_FROM;
        int best = -1;
        to_lattice(f, at, &u, &v);
        from_lattice(f, u + (k == 0 ? CHECK_FROM : 0), v + (k == 1 ? CHECK_FROM : 0), to);
        for (int t = 0; t < f->nwant; t++) {
            const double r = hypot(f->want[t][0] - to[0], f->want[t][1] - to[1]) / f->step;
            if (f->node_of[t] < 0 && r < least) {
                least = r;
                best = t;
            }
        }
        if (best >= 0)
            add_node(f, f->want[best], NODE_CHECK, 0, best);
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

/* Whether a place of the lattice is computed in every exposure: every f->coarse-th row and the last
 * one, of those of the targets and one more on each side. */
static bool is_coarse(const field *f, int i, int n) {
    return (i + 1) % f->coarse == 0 || i == n + 1;
}

static void add_lattice(field *f, const unsigned char *need, int nu, int nv, int margin) {
    const int across = nu + 1 + 2 * margin, down = nv + 1 + 2 * margin;
    for (int j = 0; j < down; j++)
        for (int i = 0; i < across; i++) {
            double at[2];
            from_lattice(f, i - margin, j - margin, at);
            if (!need[j * across + i] || !add_node(f, at, NODE_LATTICE, 0, -1))
                continue;
            f->node[f->nnode - 1].fine =
                f->follow != NULL &&
                !(is_coarse(f, i - margin, nu) && (f->line || is_coarse(f, j - margin, nv)));
        }
}

/* The node that is farthest from the axis, by which mixed precision is sampled, in every exposure;
 * fine nodes come last, so that a chunk's exposures are those of all its nodes. */
static status sort_nodes(field *f) {
    field_node *all = NULL;
    int n = 0, edge = 0;
    const status st = f->follow != NULL ? ALLOC(all, (size_t)f->nnode, "nodes") : MOAO_OK;
    if (st != MOAO_OK || f->follow == NULL)
        return st;
    for (int i = 1; i < f->nnode; i++)
        if (hypot(f->node[i].at[0], f->node[i].at[1]) >
            hypot(f->node[edge].at[0], f->node[edge].at[1]))
            edge = i;
    f->node[edge].fine = false;
    for (int fine = 0; fine < 2; fine++)
        for (int i = 0; i < f->nnode; i++)
            if (f->node[i].fine == (fine == 1))
                all[n++] = f->node[i];
    memcpy(f->node, all, (size_t)n * sizeof *all);
    for (int i = 0; i < n; i++)
        if (f->node[i].target >= 0)
            f->node_of[f->node[i].target] = i;
    free(all);
    return st;
}

status field_init(const sys *s, const atmos *a, double step, const int *exact, int nexact,
                  field *f) {
    const int margin = REACH;
    double size[2];
    unsigned char *need = NULL;
    status st;
    *f = (field){.nwant = s->ntarget,
                 .want = (const double(*)[2])s->targets,
                 .step = step,
                 .whole_from = INT_MAX};
    TRY(ALLOC(f->node_of, (size_t)f->nwant, "targets"));
    TRY(ALLOC(f->stratum, (size_t)f->nwant, "targets"));
    TRY(ALLOC(f->error, (size_t)f->nwant, "targets"));
    TRY(take_stars(s, f));
    for (int t = 0; t < f->nwant; t++)
        f->node_of[t] = -1;
    find_frame(f, size);
    int nu = fit_cells(size[0], step), nv = f->line ? 0 : fit_cells(size[1], step);
    f->step = size[0] / nu > 0 ? fmax(size[0] / nu, nv > 0 ? size[1] / nv : 0) : step;
    nu = fit_cells(size[0], f->step);
    nv = f->line ? 0 : fit_cells(size[1], f->step);
    f->size[0] = size[0] / f->step;
    f->size[1] = size[1] / f->step;
    const int across = nu + 1 + 2 * margin, down = nv + 1 + 2 * margin;
    TRY(ALLOC(need, (size_t)across * (size_t)down, "nodes"));
    memset(need, 0, (size_t)across * (size_t)down);
    mark(f, need, nu, nv > 0 ? nv : 1, margin);
    for (int i = 0; i < across * down; i++)
        f->capacity += need[i];
    f->capacity = ROOM * f->capacity + 3 * f->nwant + 7 * f->nstar + 64;
    TRY(ALLOC(f->node, (size_t)f->capacity, "nodes"));
    if (a != NULL)
        TRY(field_follow_init(a, f));
    add_lattice(f, need, nu, nv, margin);
    for (int i = 0; i < nexact; i++) {
        add_node(f, f->want[exact[i]], NODE_TARGET, 0, exact[i]);
        f->node[f->node_of[exact[i]]].fine = false;
    }
    for (int i = 0; i < f->nstar; i++)
        add_star(f, f->star[i]);
    for (int t = 0; t < f->nwant; t++)
        f->stratum[t] = stratum_of(f, f->want[t], nu, nv);
    draw_checks(f);
    for (int i = 0; i < f->nstar; i++)
        check_star(f, f->star[i]);
    f->most = field_pays(f) ? (int)(WORTH * f->nwant) : MOST_TIMES * f->nnode;
    st = sort_nodes(f);
done:
    free(need);
    if (st != MOAO_OK)
        field_free(f);
    return st;
}

void field_free(field *f) {
    free(f->node_of);
    free(f->stratum);
    free(f->error);
    free(f->node);
    free(f->star);
    free(f->cell);
    free(f->follow);
    *f = (field){0};
}

int field_count(const field *f, field_kind kind) {
    int n = 0;
    for (int i = 0; i < f->nnode; i++)
        n += f->node[i].kind == kind;
    return n;
}

bool field_pays(const field *f) {
    return f->nnode <= WORTH * f->nwant;
}

/* --- nodes that are added */

static status remember(field *f, field_cell c) {
    if (f->ncell == f->cells) {
        const int room = f->cells > 0 ? 2 * f->cells : 32;
        field_cell *more = realloc(f->cell, (size_t)room * sizeof *more);
        if (more == NULL)
            return status_fail(MOAO_MEMORY, "no memory for %d cells of nodes", room);
        f->cell = more;
        f->cells = room;
    }
    f->cell[f->ncell++] = c;
    return MOAO_OK;
}

/* The smallest cell about a place; *parent: the entry that it is or is of, -1: none. */
static field_cell cell_at(const field *f, double u, double v, int *parent) {
    double side = 1;
    *parent = -1;
    for (int i = 0; i < f->ncell; i++) {
        const field_cell *c = &f->cell[i];
        if (u < c->u || u >= c->u + c->side || (!f->line && (v < c->v || v >= c->v + c->side)))
            continue;
        const double mine = c->halved ? c->side / 2 : c->side;
        if (mine <= side) {
            side = mine;
            *parent = i;
        }
    }
    return (field_cell){floor(u / side) * side, f->line ? 0 : floor(v / side) * side, side,
                        *parent >= 0 && !f->cell[*parent].halved, 0};
}

/* All targets of a cell (NULL: all) of a stratum (-1: any) are nodes from now on. */
static int take_targets(field *f, int tor, int stratum, const field_cell *c) {
    int added = 0;
    for (int t = 0; t < f->nwant; t++)
        if (f->node_of[t] < 0 && (stratum < 0 || (int)f->stratum[t] == stratum) &&
            (c == NULL || in_cell(f, t, c)) && add_node(f, f->want[t], NODE_REFINED, tor, t)) {
            f->node[f->node_of[t]].fine = false;
            added++;
        }
    return added;
}

static int count_in(const field *f, const field_cell *c) {
    int n = 0;
    for (int t = 0; t < f->nwant; t++)
        n += f->node_of[t] < 0 && in_cell(f, t, c);
    return n;
}

/* A node in the middle of a cell, the target that is nearest where one is near; none where a source
 * is there. */
static int add_middle(field *f, int tor, const field_cell *c) {
    double at[2], least = INFINITY;
    int best = -1;
    from_lattice(f, c->u + c->side / 2, f->line ? 0 : c->v + c->side / 2, at);
    if (has_source(f, at, MIDDLE * c->side))
        return 0;
    for (int t = 0; t < f->nwant; t++) {
        const double r = hypot(f->want[t][0] - at[0], f->want[t][1] - at[1]) / f->step;
        if (r < MIDDLE * c->side && r < least) {
            least = r;
            best = t;
        }
    }
    return add_node(f, best >= 0 ? f->want[best] : at, NODE_REFINED, tor, best);
}

/* Nodes that are added in a cell about target t, from `from` on: those next to a star and in every
 * f->coarse-th cell both ways are computed in every exposure, so that what exposures that follow
 * lack is interpolated from nodes that get denser, too. */
static void mark_coarse(field *f, const field_cell *c, int t, int from) {
    const long i = lround(c->u / c->side), j = lround(c->v / c->side), n = f->coarse;
    const bool every = f->stratum[t] == STRATUM_STAR ||
                       ((i + 1) % n == n / 2 && (f->line || (j + 1) % n == n / 2));
    for (int k = from; k < f->nnode && every; k++)
        f->node[k].fine = false;
}

/* Refines the smallest cell about a target by a level: a node in its middle, then in those of its
 * sides, which divides it by two; or its targets where they are no more, or where `error` is as
 * large as before the last failure. keep: error that the cell is remembered with. */
static status refine_level(field *f, int tor, int t, double error, double keep, int *added) {
    static const double middle[4][2] = {{0.5, 0}, {0.5, 1}, {0, 0.5}, {1, 0.5}};
    double u, v, at[2];
    int parent;
    place_of(f, f->want[t], &u, &v);
    field_cell c = cell_at(f, u, v, &parent);
    const double was = parent >= 0 ? f->cell[parent].error : 0;
    const int before = f->nnode;
    c.halved = c.halved || f->line; /* the middle of a row's cell is that of its side */
    const int n = f->line || !c.halved ? 1 : 4, left = count_in(f, &c);
    c.error = keep;
    const status st = remember(f, c);
    if (st != MOAO_OK)
        return st;
    if (left <= n || (was > 0 && error > LOWERED * was)) {
        *added += take_targets(f, tor, -1, &c);
        return MOAO_OK;
    }
    if (f->line || !c.halved)
        *added += add_middle(f, tor, &c);
    for (int k = 0; k < 4 && c.halved && !f->line; k++) {
        from_lattice(f, c.u + middle[k][0] * c.side, c.v + middle[k][1] * c.side, at);
        *added += add_node(f, at, NODE_REFINED, tor, -1);
    }
    if (f->follow != NULL)
        mark_coarse(f, &c, t, before);
    return MOAO_OK;
}

/* Levels that an error over the tolerance by a factor asks for: each divides the step by sqrt(2),
 * on a line by 2. */
static int levels_of(const field *f, double factor) {
    const double n = (f->line ? 1 : 2) * log2(factor) / LEVEL_POWER;
    return n > LEVELS - 1 ? LEVELS : n > 1 ? (int)ceil(n) : 1;
}

/* Refines the smallest cell about a target. error: of a comparison there, in units of the
 * tolerance, which asks for so many levels, then another target of the cell is compared; 0: none,
 * and one level has to do, as errors that are only expected would ask for those of a stratum. */
static status refine(field *f, int tor, int t, double error, int *added) {
    const int levels = error != 0 ? levels_of(f, error) : 1, before = f->ncell;
    status st = MOAO_OK;
    for (int i = 0; i < levels && st == MOAO_OK; i++)
        st = refine_level(f, tor, t, i == 0 ? error : 0, error, added);
    if (st != MOAO_OK || error == 0)
        return st;
    const int check = draw(f, -1, &f->cell[before]);
    if (check >= 0 && add_node(f, f->want[check], NODE_CHECK, tor, check)) {
        f->node[f->node_of[check]].picked = true;
        ++*added;
    }
    return MOAO_OK;
}

/* Every cell with a target of the stratum that is no node and whose expected error is over `most`,
 * unless it was refined since there were `before` of them. */
static status refine_many(field *f, int tor, int stratum, double most, int before, int *added) {
    status st = MOAO_OK;
    for (int t = 0; t < f->nwant && st == MOAO_OK; t++) {
        bool fresh = false;
        if (f->node_of[t] >= 0 || (int)f->stratum[t] != stratum || f->error[t] < most)
            continue;
        for (int i = before; i < f->ncell && !fresh; i++)
            fresh = in_cell(f, t, &f->cell[i]);
        if (!fresh)
            st = refine(f, tor, t, 0, added);
    }
    return st;
}

/* Where so many nodes are wanted, or as many as targets are left, all targets are computed instead:
 * nodes since `before`, which are not computed yet, leave unless they are targets. */
static void give_up(field *f, int tor, int before, int *added) {
    int n = before, fresh = 0, left = 0;
    for (int i = before; i < f->nnode; i++)
        fresh += f->node[i].target < 0;
    for (int t = 0; t < f->nwant; t++)
        left += f->node_of[t] < 0;
    if (f->whole || (left > 0 && f->nnode <= f->most && (fresh == 0 || fresh < left)))
        return;
    for (int i = before; i < f->nnode; i++)
        if (f->node[i].target >= 0) {
            f->node_of[f->node[i].target] = n;
            f->node[n++] = f->node[i];
        }
    f->nnode = n;
    f->whole = true;
    f->whole_from = tor < f->whole_from ? tor : f->whole_from;
    take_targets(f, tor, -1, NULL);
    *added = f->nnode - before + 1; /* checks that became sources count */
}

void field_leave(field *f, int tor, int stays) {
    f->left_from = tor + 1;
    f->stays = stays;
}

/* Compares up to `count` targets of a stratum, drawn at random from those whose expected errors are
 * largest. */
static int pick_worst(field *f, int tor, int stratum, int count) {
    int added = 0;
    for (; added < count; added++) {
        double largest = 0;
        int best = -1;
        for (int t = 0; t < f->nwant; t++)
            if (f->node_of[t] < 0 && (int)f->stratum[t] == stratum)
                largest = fmax(largest, f->error[t]);
        for (int t = 0; t < f->nwant; t++)
            if (f->node_of[t] < 0 && (int)f->stratum[t] == stratum &&
                f->error[t] >= WORST * largest &&
                (best < 0 || mix_bits((uint64_t)t) < mix_bits((uint64_t)best)))
                best = t;
        if (best < 0 || !add_node(f, f->want[best], NODE_CHECK, tor, best))
            return added;
        f->node[f->node_of[best]].picked = true;
    }
    return added;
}

/* Targets of a stratum whose expected error is over the tolerance; *frequent: so many are over it
 * themselves, if errors are normal, that it is to be refined. */
static int count_over(const field *f, int stratum, double tolerance, bool *frequent) {
    double sum = 0;
    int over = 0, left = 0;
    for (int t = 0; t < f->nwant; t++) {
        if (f->node_of[t] >= 0 || (int)f->stratum[t] != stratum)
            continue;
        left++;
        over += f->error[t] > tolerance;
        sum += erfc(EXPECTED / sqrt(2) * tolerance / f->error[t]);
    }
    *frequent = sum > RARE * left;
    return over;
}

/* After failures the targets of a stratum that held say nothing of the rest any more: of the first
 * n nodes they become nodes that are interpolated from, as they are computed. Returns how many. */
static int use_checks(field *f, int stratum, int n) {
    int used = 0;
    for (int i = 0; i < f->nnode; i++) {
        field_node *p = &f->node[i];
        if (p->kind != NODE_CHECK || (int)f->stratum[p->target] != stratum)
            continue;
        p->picked = true;
        if (i < n) {
            p->kind = NODE_REFINED;
            used++;
        }
    }
    return used;
}

/* More targets of a stratum to compare with: at random after failures, twice as many each time, or
 * the worst where errors over the tolerance are expected and these were not compared. */
static int compare_more(field *f, int tor, int stratum, bool failed, int over) {
    field_rounds *r = &f->rounds;
    int count;
    if (failed) {
        count = draw_more(f, tor, stratum,
                          r->drawn[stratum] > MORE_CHECKS ? r->drawn[stratum] : MORE_CHECKS);
        r->drawn[stratum] += count;
        r->doubtful[stratum] = true;
        return count;
    }
    if (over == 0 || (r->picked[stratum] > 0 && !r->doubtful[stratum]))
        return 0;
    count = r->picked[stratum] > WORST_CHECKS ? r->picked[stratum] : WORST_CHECKS;
    count = pick_worst(f, tor, stratum, count < over ? count : over);
    r->picked[stratum] += count;
    r->doubtful[stratum] = false;
    return count;
}

/* Whether a target is over the tolerance in an exposure that follows from others, and nodes are not
 * the cause. */
static bool fails_to_follow(const field_check *c, double tolerance) {
    return !(c->error <= tolerance) && !(c->whole > LOWERED * c->error);
}

/* Nodes within a coarse cell of such a target are computed in every exposure from now on; returns
 * how many were not. */
static int compute_about(field *f, const double at[2]) {
    int n = 0;
    for (int i = 0; i < f->nnode; i++) {
        field_node *p = &f->node[i];
        if (p->fine && hypot(p->at[0] - at[0], p->at[1] - at[1]) < f->coarse * f->step) {
            p->fine = false;
            n++;
        }
    }
    return n;
}

/* Where targets fail to follow: nodes about them, or all nodes where many do or nothing is left
 * about one. Returns changes. */
static int end_following(field *f, int tor, double tolerance, const field_check *check, int n) {
    int failed = 0, changed = 0;
    bool none = false;
    for (int i = 0; i < n; i++)
        failed += fails_to_follow(&check[i], tolerance);
    const bool many = failed > 1 && MANY * failed > n;
    for (int i = 0; i < n && !many; i++)
        if (fails_to_follow(&check[i], tolerance)) {
            const int about = compute_about(f, f->node[check[i].node].at);
            changed += about;
            none = none || about == 0;
        }
    if (many || (none && changed == 0)) {
        f->whole_from = tor;
        changed++;
    }
    return changed;
}

status field_refine(field *f, int tor, double tolerance, const field_check *check, int n,
                    int *added) {
    const int cells = f->ncell, before = f->nnode;
    int failed[FIELD_STRATA] = {0}, drawn[FIELD_STRATA] = {0}, missed[FIELD_STRATA] = {0},
        of[FIELD_STRATA] = {0};
    bool any = false;
    status st = MOAO_OK;
    *added = 0;
    if (f->follow != NULL && tor < f->whole_from) {
        *added = end_following(f, tor, tolerance, check, n);
        if (*added > 0)
            return st;
    }
    if (f->rounds.tor != tor)
        f->rounds = (field_rounds){.tor = tor};
    for (int i = 0; i < n && st == MOAO_OK; i++) {
        field_node *p = &f->node[check[i].node];
        const field_stratum s = f->stratum[p->target];
        const bool over = !(check[i].error <= tolerance);
        of[s]++;
        drawn[s] += !p->picked;
        missed[s] += over;
        failed[s] += over && !p->picked;
        any = any || over;
        if (!over)
            continue;
        p->kind = NODE_REFINED;
        ++*added;
        st = refine(f, tor, p->target, check[i].error / tolerance, added);
    }
    for (int s = 0; s < FIELD_STRATA && st == MOAO_OK; s++) {
        bool frequent;
        const int over = count_over(f, s, tolerance, &frequent);
        const bool many = failed[s] > 1 && MANY * failed[s] > drawn[s],
                   wide = many || (frequent && (of[s] >= ENOUGH || missed[s] > 0));
        if (wide)
            st = refine_many(f, tor, s, many ? 0 : tolerance, cells, added);
        if (missed[s] > 0 || wide)
            *added += use_checks(f, s, before);
        if (!any || missed[s] > 0 || wide)
            *added += compare_more(f, tor, s, missed[s] > 0 || wide, over);
        else if (drawn[s] < MORE_CHECKS) /* the few of the others say too little then */
            *added += draw_more(f, tor, s, MORE_CHECKS - drawn[s]);
    }
    give_up(f, tor, before, added);
    return st;
}

/* Standard deviation of errors in units of kriging's, or of the mean one of targets where that is
 * larger, of a stratum (-1: all); the largest of n is left out, for whose sake its cell is refined:
 * of normal errors its square is about 2 ln n variances. */
static double deviation(const field *f, int stratum, double mean, const field_check *check, int n) {
    double sum = 0, largest = 0;
    int count = 0;
    for (int i = 0; i < n; i++) {
        if (stratum >= 0 && (int)f->stratum[f->node[check[i].node].target] != stratum)
            continue;
        const double r = check[i].error / fmax(check[i].power, mean);
        largest = fmax(largest, r);
        sum += r * r;
        count++;
    }
    return count > 3 ? sqrt((sum - largest * largest) / (count - 2 * log(count))) : largest;
}

void field_errors(field *f, const double *power, const field_check *check, int n) {
    double of[FIELD_STRATA], all, mean = 0; /* power of a target */
    int left = 0;
    for (int t = 0; t < f->nwant; t++)
        if (f->node_of[t] < 0) {
            mean += power[t];
            left++;
        }
    mean /= left > 0 ? left : 1;
    all = deviation(f, -1, mean, check, n);
    for (int s = 0; s < FIELD_STRATA; s++)
        of[s] = deviation(f, s, mean, check, n);
    for (int t = 0; t < f->nwant; t++) {
        const double r = of[f->stratum[t]] > 0 ? of[f->stratum[t]] : all;
        f->error[t] = f->node_of[t] < 0 ? EXPECTED * r * power[t] : 0;
    }
}

status field_again(field *f, int i, int tor, int *again) {
    if (f->nnode == f->capacity)
        return status_fail(MOAO_INTERNAL, "no place for another node");
    *again = f->nnode++;
    f->node[*again] = f->node[i];
    f->node[*again].kind = NODE_AGAIN;
    f->node[*again].target = -1;
    f->node[*again].tor = tor;
    return MOAO_OK;
}
