/* Which entries are sampled for the nodes of an HSS matrix: all that touch the rows of the nearest
 * nodes, and some of all others, fewer the farther away. */
#include "hss_build.h"
#include <stdlib.h>

enum {
    NEAR_NODES = 10,   /* nodes whose rows are sampled beside a node's own */
    NEAR_POINTS = 384, /* of their rows at most, two thirds of them the nearest */
    FAR_POINTS = 12,   /* rows of the sibling of each node above */
};

/* Square of the distance of a point to the box of a node. */
static double from_box(const tree *t, int64_t node, int64_t point) {
    double s = 0;
    for (int d = 0; d < t->dim; d++) {
        const double x = t->at[point * t->dim + d], lo = t->low[3 * node + d],
                     hi = t->high[3 * node + d];
        const double gap = x < lo ? lo - x : x > hi ? x - hi : 0;
        s += gap * gap;
    }
    return s;
}

typedef struct {
    double far;
    int64_t point;
} candidate;

static int by_distance(const void *a, const void *b) {
    const candidate *p = a, *q = b;
    return p->far < q->far       ? -1
           : p->far > q->far     ? 1
           : p->point < q->point ? -1
                                 : p->point > q->point;
}

/* Rows of the neighbours of node i; too many: the nearest, and some of the others evenly. */
static int64_t near_samples(const hss_builder *w, int64_t i, candidate *c, int64_t *out) {
    const nested_level *v = w->h->level + w->l;
    int64_t n = 0, used = 0;
    for (int64_t e = w->near.first[i]; e < w->near.first[i + 1]; e++)
        for (int64_t k = 0; k < v->size[w->near.item[e]]; k++)
            c[n++].point = w->mine[w->near.item[e] * v->rows + k];
    if (n > NEAR_POINTS) {
        for (int64_t k = 0; k < n; k++)
            c[k].far = from_box(&w->h->t, tree_node(w->l, i), c[k].point);
        qsort(c, (size_t)n, sizeof *c, by_distance);
    }
    const int64_t first = n > NEAR_POINTS ? NEAR_POINTS * 2 / 3 : n;
    for (; used < first; used++)
        out[used] = c[used].point;
    for (int64_t k = first; used < NEAR_POINTS && k < n; used++) {
        k = first + (used - first) * (n - first) / (NEAR_POINTS - first);
        out[used] = c[k].point;
    }
    return used;
}

/* Evenly from the siblings of the nodes above i, at places that differ from node to node. */
static int64_t far_samples(const hss_builder *w, int64_t i, int64_t *out) {
    const tree *t = &w->h->t;
    int64_t used = 0;
    for (int l = w->l; l >= 1; l--, i /= 2) {
        const int64_t a = tree_node(l, i ^ 1), n = t->size[a];
        const int64_t few = n < FAR_POINTS ? n : FAR_POINTS;
        for (int64_t k = 0; k < few; k++)
            out[used++] = t->first[a] + (2 * k + 1) * n / (2 * few);
    }
    return used;
}

status hss_sample_level(hss_builder *w) {
    const nested_level *v = w->h->level + w->l;
    status st;
    int failed = 0;
    TRY(tree_neighbours(&w->h->t, w->l, NEAR_NODES, &w->near));
    w->room = NEAR_POINTS + FAR_POINTS * w->l, w->most_samples = 0;
    TRY(ALLOC(w->sample, (unsigned long)(v->nodes * w->room), "samples of nodes"));
    TRY(ALLOC(w->samples, (unsigned long)v->nodes, "samples of nodes"));
#pragma omp parallel reduction(| : failed) if (v->nodes > 512)
    {
        candidate *c = malloc(sizeof *c * (size_t)(NEAR_NODES * v->rows + 1));
        failed |= c == NULL;
#pragma omp for schedule(static)
        for (int64_t i = 0; i < v->nodes; i++) {
            int64_t *to = w->sample + i * w->room;
            if (c)
                w->samples[i] = near_samples(w, i, c, to);
            w->samples[i] += far_samples(w, i, to + w->samples[i]);
        }
        free(c);
    }
    if (failed)
        st = status_fail(MOAO_MEMORY, "no memory for the samples of an HSS matrix");
    for (int64_t i = 0; i < v->nodes; i++)
        w->most_samples = w->samples[i] > w->most_samples ? w->samples[i] : w->most_samples;
done:
    return st;
}
