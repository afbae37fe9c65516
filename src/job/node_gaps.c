#include "job/node_gaps.h"

#include "job/node_values.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ABOUT = 6, QUALITIES = 512 }; /* nodes about a place; numbers of an image, at most */
#define SUSPICIOUS 15.0 /* a node that far from its neighbours, in medians, is computed again */
#define LEAST 0.3       /* of the median: roughness of a place, at least */

void node_gaps_free(node_gaps *g) {
    free(g->gap);
    free(g->off);
    free(g->rough);
    *g = (node_gaps){0};
}

/* Nodes that were computed in an exposure against those between the others; rough: also there. */
static void add_gaps(const run *r, int k, int e, const field_weights *w, const node_values *v,
                     bool rough, node_gaps *g) {
    const result_block b = run_block(r, 0, 0, 1);
    const size_t all = store_scalars(r->u.o.nlambda, r->u.o.nbox, 0),
                 nq = all < QUALITIES ? all : 0;
    double between[QUALITIES];
    for (int i = 0; i < w->n; i++) {
        if (!field_computes(&r->u.f, i, k, e))
            continue;
        memset(between, 0, sizeof between);
        for (int j = w->first[i]; j < w->first[i + 1]; j++)
            for (size_t q = 0; q < nq; q++)
                between[q] += w->w[j] * v->scalars[(size_t)w->node[j] * v->ns + q];
        const double d =
            nq > 0 ? obsseq_difference(&b, between, v->scalars + (size_t)i * v->ns) : 0;
        const double gap = w->power[i] > 0 ? d / w->power[i] : 0;
        g->off[i] = fmax(g->off[i], d);
        g->gap[i] = fmax(g->gap[i], gap);
        if (rough)
            g->rough[i] = fmax(g->rough[i], gap);
    }
}

static int level_of(const field *f, int e) {
    return f->nexposure > 0 ? f->level[e] : FIELD_WHOLE;
}

static int compare_doubles(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sources in the field that were computed. */
static bool counts(const run *r, const double *gap, int i) {
    const field *f = &r->u.f;
    return field_is_source(&f->node[i]) && gap[i] >= 0 && field_inside(f, &f->node[i]);
}

/* The median of gaps, 0: none. */
static status median_of(const run *r, const double *gap, double *median) {
    const int n = r->u.f.nnode;
    double *sorted = NULL;
    int count = 0;
    status st = ALLOC(sorted, (size_t)n, "nodes");
    *median = 0;
    for (int i = 0; st == MOAO_OK && i < n; i++)
        if (counts(r, gap, i))
            sorted[count++] = gap[i];
    if (count > 0) {
        qsort(sorted, (size_t)count, sizeof *sorted, compare_doubles);
        *median = sorted[count / 2];
    }
    free(sorted);
    return st;
}

/* Collective. Exposures first .. end of one level: what nodes of it say of each other. */
static status find_level(run *r, int k, int level, bool rough, const double (*at)[2],
                         const int *self, node_gaps *g) {
    const field_sources computed = {.tor = k, .since = k, .level = level};
    field_weights w = {0};
    int first, end;
    status st = MOAO_OK;
    atmos_exposures_of(&r->u.a, k, &first, &end);
    for (int e = first; e < end; e++) {
        node_values v;
        if (level_of(&r->u.f, e) != level)
            continue;
        if (w.n == 0)
            TRY(comm_agree(r->c,
                           field_interpolate_from(&r->u.f, computed, r->u.f.nnode, at, self, &w)));
        TRY(node_values_load(r, k, e, false, &v));
        add_gaps(r, k, e, &w, &v, rough, g);
        node_values_free(&v);
    }
done:
    field_weights_free(&w);
    return st;
}

/* Local. Memory, and places of the nodes. */
static status begin(const field *f, node_gaps *g, double (**at)[2], int **self) {
    const size_t n = (size_t)f->nnode;
    status st;
    TRY(ALLOC(g->gap, n, "nodes"));
    TRY(ALLOC(g->off, n, "nodes"));
    TRY(ALLOC(g->rough, n, "nodes"));
    TRY(ALLOC(*at, n, "nodes"));
    TRY(ALLOC(*self, n, "nodes"));
    for (size_t i = 0; i < n; i++) {
        memcpy((*at)[i], f->node[i].at, sizeof **at);
        (*self)[i] = (int)i;
        g->gap[i] = g->off[i] = g->rough[i] = -1;
    }
done:
    return st;
}

status node_gaps_find(run *r, int k, node_gaps *g) {
    double(*at)[2] = NULL;
    int *self = NULL, first, end, highest = FIELD_SPARSE;
    *g = (node_gaps){0};
    status st = comm_agree(r->c, begin(&r->u.f, g, &at, &self));
    atmos_exposures_of(&r->u.a, k, &first, &end);
    for (int e = first; e < end; e++)
        highest = level_of(&r->u.f, e) > highest ? level_of(&r->u.f, e) : highest;
    for (int level = FIELD_SPARSE; level <= highest && st == MOAO_OK; level++)
        st = find_level(r, k, level, level == highest, (const double(*)[2])at, self, g);
    if (st == MOAO_OK) {
        st = median_of(r, g->rough, &g->least);
        if (st == MOAO_OK)
            st = median_of(r, g->gap, &g->median);
        st = comm_agree(r->c, st);
    }
    g->least *= LEAST;
    free(at);
    free(self);
    if (st != MOAO_OK)
        node_gaps_free(g);
    return st;
}

int node_gaps_suspect(const run *r, const node_gaps *g) {
    int most = -1;
    for (int i = 0; i < r->u.f.nnode; i++)
        if (counts(r, g->gap, i) && r->nodes.again[i] == 0 &&
            (most < 0 || g->gap[i] > g->gap[most]))
            most = i;
    return most >= 0 && g->gap[most] > SUSPICIOUS * g->median &&
                   g->off[most] > r->u.par->targets_tolerance
               ? most
               : -1;
}

/* Root mean square of the nearest nodes that are known. */
static double rough_at(const run *r, const node_gaps *g, const double at[2]) {
    const field *f = &r->u.f;
    double near[ABOUT], rough[ABOUT], sum = 0;
    int n = 0;
    for (int i = 0; i < f->nnode; i++) {
        if (!counts(r, g->rough, i))
            continue;
        const double d = hypot(f->node[i].at[0] - at[0], f->node[i].at[1] - at[1]);
        if (n == ABOUT && d >= near[n - 1])
            continue;
        int j = n < ABOUT ? n++ : n - 1;
        for (; j > 0 && near[j - 1] > d; j--) {
            near[j] = near[j - 1];
            rough[j] = rough[j - 1];
        }
        near[j] = d;
        rough[j] = g->rough[i];
    }
    for (int i = 0; i < n; i++)
        sum += rough[i] * rough[i] / n;
    return fmax(sqrt(sum), g->least);
}

void node_gaps_scale(const run *r, const node_gaps *g, int n, const double (*at)[2],
                     double *power) {
    if (!(g->least > 0))
        return;
    for (int i = 0; i < n; i++)
        power[i] *= rough_at(r, g, at[i]);
}
