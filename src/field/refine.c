/* Nodes that are added where comparisons ask for them, and the errors to expect. */
#include "field/field_internal.h"

#include "base/mix.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CONFIDENT 0.01 /* probability of an error beyond a bound */
#define EXPECTED 1.5   /* what is expected, in units of the worst target compared: at most */
#define AS_FAR 0.7     /* of kriging's deviation of a target: one compared says what to expect */
#define FILLED 2.5     /* steps: nodes as far from a check are computed where it asks for them */
#define LARGER 1.25    /* errors of an exposure that lacks nodes, than of whole ones */
#define MORE_CHECKS 8  /* of a stratum in which an error was too large, or is expected to be */
#define WORST 0.8      /* of the largest expected error: one of those that are compared first */
#define PER_CELL 3     /* nodes that a cell takes to be halved, where its neighbours are too */

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

/* The smallest cell about a place. */
static field_cell cell_at(const field *f, double u, double v) {
    double side = 1;
    for (int i = 0; i < f->ncell; i++) {
        const field_cell *c = &f->cell[i];
        if (u >= c->u && u < c->u + c->side && (f->line || (v >= c->v && v < c->v + c->side)))
            side = fmin(side, c->side / 2);
    }
    return (field_cell){floor(u / side) * side, f->line ? 0 : floor(v / side) * side, side};
}

/* Whether a target is computed in every exposure from a reconstructor on. */
static bool is_computed(const field *f, int t, int tor) {
    return f->node_of[t] >= 0 && f->node[f->node_of[t]].full <= tor;
}

/* All targets of a cell (NULL: all) are nodes from now on. */
static int take_targets(field *f, int tor, const field_cell *c) {
    int added = 0;
    for (int t = 0; t < f->nwant; t++)
        if (!is_computed(f, t, tor) && (c == NULL || field_in_cell(f, t, c)))
            added += field_add(f, f->want[t], NODE_REFINED, tor, t);
    return added;
}

static int count_in(const field *f, const field_cell *c) {
    int n = 0;
    for (int t = 0; t < f->nwant; t++)
        n += f->node_of[t] < 0 && field_in_cell(f, t, c);
    return n;
}

/* Halves a cell: nodes in its middle and in those of its sides, or its targets where they are
 * fewer; a target of it is compared then. */
static status halve(field *f, int tor, field_cell c, int *added) {
    static const double middle[5][2] = {{0.5, 0.5}, {0.5, 0}, {0.5, 1}, {0, 0.5}, {1, 0.5}};
    const int n = f->line ? 1 : 5, left = count_in(f, &c);
    double at[2];
    status st = remember(f, c);
    if (st != MOAO_OK)
        return st;
    if (left <= n) {
        *added += take_targets(f, tor, &c);
        return MOAO_OK;
    }
    for (int k = 0; k < n; k++) {
        field_from_lattice(f, c.u + middle[k][0] * c.side,
                           f->line ? 0 : c.v + middle[k][1] * c.side, at);
        *added += field_add(f, at, NODE_REFINED, tor, -1);
    }
    const int t = field_draw(f, -1, &c);
    if (t >= 0 && field_add(f, f->want[t], NODE_CHECK, tor, t))
        ++*added;
    return MOAO_OK;
}

/* A cell, unless it was halved since there were `before` of them. */
static status halve_fresh(field *f, int tor, int t, int before, int *added) {
    double u, v;
    for (int i = before; i < f->ncell; i++)
        if (field_in_cell(f, t, &f->cell[i]))
            return MOAO_OK;
    field_place(f, f->want[t], &u, &v);
    return halve(f, tor, cell_at(f, u, v), added);
}

/* Every cell with a target of the stratum that is no node. */
static status halve_stratum(field *f, int tor, int stratum, int before, int *added) {
    status st = MOAO_OK;
    for (int t = 0; t < f->nwant && st == MOAO_OK; t++)
        if (f->node_of[t] < 0 && (int)f->stratum[t] == stratum)
            st = halve_fresh(f, tor, t, before, added);
    return st;
}

/* Nodes about a place that some exposures lack are computed in all of them from now on; returns how
 * many. */
static int fill_about(field *f, int tor, const double at[2]) {
    int added = 0;
    for (int i = 0; i < f->nnode; i++) {
        field_node *p = &f->node[i];
        if (p->full <= tor || !field_is_source(p) ||
            hypot(p->at[0] - at[0], p->at[1] - at[1]) > FILLED * f->step)
            continue;
        p->full = tor;
        added++;
    }
    return added;
}

/* All nodes are computed in an exposure; returns how many more. */
static int make_whole(field *f, int tor, int exposure) {
    int added = 0;
    for (int i = 0; i < f->nnode; i++)
        added += f->node[i].tor <= tor && !field_computes(f, i, tor, exposure);
    f->level[exposure] = FIELD_WHOLE;
    return added;
}

/* Where so many nodes are wanted, all targets are: those since `before`, which are not computed
 * yet, leave unless they are targets. */
static void give_up(field *f, int tor, int before, int *added) {
    int n = before;
    if (*added == 0 || f->nnode <= f->most)
        return;
    for (int i = before; i < f->nnode; i++)
        if (f->node[i].target >= 0) {
            f->node_of[f->node[i].target] = n;
            f->node[n++] = f->node[i];
        }
    f->nnode = n;
    take_targets(f, tor, NULL);
    f->left_from = f->keeps ? 0 : tor + 1;
    *added = f->nnode > before ? f->nnode - before : 1; /* checks that became sources count */
}

/* Targets of a stratum that were compared because most was expected of them; *failed: of these,
 * over the tolerance. */
static int count_picked(const field *f, int tor, int stratum, int *failed) {
    int n = 0;
    *failed = 0;
    for (int i = 0; i < f->nnode; i++) {
        const field_node *p = &f->node[i];
        if (!p->picked || p->tor != tor || (int)f->stratum[p->target] != stratum)
            continue;
        n++;
        *failed += p->kind != NODE_CHECK;
    }
    return n;
}

/* Compares `count` targets of a stratum, drawn at random from those whose expected errors are
 * largest. */
static int pick_worst(field *f, int tor, int stratum, int count) {
    int added = 0;
    for (bool any = true; any && added < count;) {
        double largest = 0;
        int best = -1;
        for (int t = 0; t < f->nwant; t++)
            if (f->node_of[t] < 0 && (int)f->stratum[t] == stratum)
                largest = fmax(largest, f->bound[t]);
        for (int t = 0; t < f->nwant; t++)
            if (f->node_of[t] < 0 && (int)f->stratum[t] == stratum &&
                f->bound[t] >= WORST * largest &&
                (best < 0 || mix_bits((uint64_t)t) < mix_bits((uint64_t)best)))
                best = t;
        any = best >= 0 && field_add(f, f->want[best], NODE_CHECK, tor, best);
        if (any)
            f->node[f->node_of[best]].picked = true;
        added += any;
    }
    return added;
}

/* Cells with targets of a stratum whose expected error is over the tolerance. */
static status count_over(const field *f, int stratum, double tolerance, int *count) {
    field_cell *cell = NULL;
    int n = 0;
    status st;
    *count = 0;
    TRY(ALLOC(cell, (size_t)f->nwant, "cells of nodes"));
    for (int t = 0; t < f->nwant; t++) {
        double u, v;
        bool known = false;
        if (f->node_of[t] >= 0 || (int)f->stratum[t] != stratum || !(f->bound[t] > tolerance))
            continue;
        for (int i = n - 1; i >= 0 && !known; i--)
            known = field_in_cell(f, t, &cell[i]);
        if (known)
            continue;
        field_place(f, f->want[t], &u, &v);
        cell[n++] = cell_at(f, u, v);
    }
    *count = n;
done:
    free(cell);
    return st;
}

status field_refine_expected(field *f, int tor, double tolerance, int *added) {
    const int before = f->nnode, cells = f->ncell;
    bool compare[FIELD_STRATA], many = false;
    status st = MOAO_OK;
    *added = 0;
    for (int s = 0; s < FIELD_STRATA; s++) {
        int failed, over;
        const int picked = count_picked(f, tor, s, &failed);
        TRY(count_over(f, s, tolerance, &over));
        compare[s] =
            PER_CELL * over > MORE_CHECKS && PER_CELL * over > 2 * picked && 2 * failed <= picked;
        if (compare[s])
            *added += pick_worst(f, tor, s, picked > MORE_CHECKS ? picked : MORE_CHECKS);
        else
            many = many || over > MORE_CHECKS;
    }
    if (many && f->poor >= 0) {
        *added += make_whole(f, tor, f->poor);
        return st;
    }
    for (int t = 0; t < f->nwant && st == MOAO_OK; t++)
        if (f->node_of[t] < 0 && f->bound[t] > tolerance && !compare[f->stratum[t]])
            st = halve_fresh(f, tor, t, cells, added);
    give_up(f, tor, before, added);
    for (int t = 0; t < f->nwant && *added == 0; t++)
        f->error[t] = fmin(f->error[t], tolerance);
done:
    return st;
}

typedef struct {                                /* checks that are over the tolerance, by stratum */
    int failed[FIELD_STRATA], of[FIELD_STRATA]; /* where all nodes are computed, of all */
    int lacking[FIELD_STRATA];                  /* only where nodes are not */
    int exposure;                               /* the worst of these */
} failures;

/* Checks that are no random sample say nothing of others. */
static failures count_failures(const field *f, double tolerance, const field_check *check, int n) {
    failures c = {.exposure = -1};
    double worst = 0;
    for (int i = 0; i < n; i++) {
        const field_node *p = &f->node[check[i].node];
        const field_stratum s = f->stratum[p->target];
        const bool over = !(check[i].error <= tolerance), whole = !(check[i].whole <= tolerance);
        c.of[s] += !p->picked;
        c.failed[s] += whole && !p->picked;
        c.lacking[s] += over && !whole && !p->picked;
        if (over && !whole && !(check[i].error <= worst)) {
            worst = check[i].error;
            c.exposure = check[i].exposure;
        }
    }
    return c;
}

static bool is_many(int failed, int of) {
    return failed > 1 && 3 * failed > of;
}

/* A check that is over the tolerance: nodes that its exposures lack, or a finer cell. */
static status mend(field *f, int tor, double tolerance, const field_check *check, int *added) {
    field_node *p = &f->node[check->node];
    const int filled = check->whole <= tolerance ? fill_about(f, tor, p->at) : 0;
    double u, v;
    *added += filled;
    if (filled > 0)
        return MOAO_OK;
    field_place(f, p->at, &u, &v);
    p->kind = NODE_REFINED;
    ++*added;
    return halve(f, tor, cell_at(f, u, v), added);
}

status field_refine(field *f, int tor, double tolerance, const field_check *check, int n,
                    int *added) {
    const int before = f->ncell, nodes = f->nnode;
    const failures c = count_failures(f, tolerance, check, n);
    bool whole = false;
    status st = MOAO_OK;
    *added = 0;
    for (int s = 0; s < FIELD_STRATA; s++)
        whole = whole || (f->nexposure > 0 && is_many(c.lacking[s], c.of[s]));
    if (whole)
        *added += make_whole(f, tor, c.exposure);
    for (int i = 0; i < n && st == MOAO_OK; i++)
        if (!(check[i].error <= tolerance) && !(whole && check[i].whole <= tolerance))
            st = mend(f, tor, tolerance, &check[i], added);
    for (int s = 0; s < FIELD_STRATA && st == MOAO_OK; s++) {
        if (is_many(c.failed[s], c.of[s]))
            st = halve_stratum(f, tor, s, before, added);
        if (c.failed[s] + c.lacking[s] > 0) /* one was found: are there others? */
            *added += field_draw_more(f, tor, s, MORE_CHECKS);
    }
    give_up(f, tor, nodes, added);
    return st;
}

/* Largest of all, in units of the largest of n that were drawn: at 99 % confidence where they are
 * uniform up to it (0.01^(1/n) is the 1 % quantile of the largest of n). */
static double beyond(int n) {
    return n > 0 ? pow(CONFIDENT, -1.0 / n) : INFINITY;
}

/* The error of a target from those compared of its stratum that are about as far from nodes. */
static double expect_as_far(const field *f, int t, double power, const field_check *check, int n) {
    double largest = 0;
    int count = 0;
    for (int i = 0; i < n; i++) {
        if (f->stratum[f->node[check[i].node].target] != f->stratum[t] ||
            check[i].power < AS_FAR * power)
            continue;
        largest = fmax(largest, check[i].error * fmax(1, power / check[i].power));
        count++;
    }
    return count > 0 ? beyond(count) * largest : INFINITY;
}

/* The exposure of the largest error, where it lacks nodes and is worse than whole ones; -1: none.
 */
static int find_poor(const field *f, const field_check *check, int n) {
    double largest = 0, whole = 0;
    int poor = -1;
    for (int i = 0; i < n; i++) {
        whole = fmax(whole, check[i].whole);
        if (check[i].error > largest) {
            largest = check[i].error;
            poor = check[i].exposure;
        }
    }
    return f->nexposure > 0 && poor >= 0 && f->level[poor] < FIELD_WHOLE && largest > LARGER * whole
               ? poor
               : -1;
}

void field_errors(field *f, int tor, const double *power, const field_check *check, int n) {
    double ratio[FIELD_STRATA] = {0}, all = 0, mean = 0; /* power of a target */
    int left = 0, of[FIELD_STRATA] = {0};
    for (int t = 0; t < f->nwant; t++)
        if (f->node_of[t] < 0) {
            mean += power[t];
            left++;
        }
    mean /= left > 0 ? left : 1;
    f->poor = find_poor(f, check, n);
    for (int i = 0; i < n; i++) {
        const field_stratum s = f->stratum[f->node[check[i].node].target];
        const double r = check[i].error / fmax(check[i].power, mean);
        ratio[s] = fmax(ratio[s], r);
        all = fmax(all, r);
        of[s]++;
    }
    for (int t = 0; t < f->nwant; t++) {
        const field_stratum s = f->stratum[t];
        const double r = of[s] > 0 ? ratio[s] : all;
        const bool node = f->node_of[t] >= 0; /* of whole exposures: as the others on the mean */
        const double far = node ? mean : power[t];
        const bool here = is_computed(f, t, tor);
        const double likely = r * far;
        const int like = of[s] > 0 ? of[s] : n;
        f->error[t] = here ? 0 : EXPECTED * likely;
        f->bound[t] =
            here ? 0
                 : fmin(fmin(EXPECTED, beyond(like)) * likely, expect_as_far(f, t, far, check, n));
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
