/* Which entries are sampled for the nodes of an HSS matrix: all that touch the rows of the nearest
 * nodes, and some of all others, fewer the farther away. */
#include "hss_build.h"
#include <stdlib.h>

enum {
    NEAR_NODES = 10,   /* nodes whose rows are sampled in addition to a node's own */
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

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* How many of the rows near to a node, and of each sibling above. */
static int64_t near_points(const hss_builder *w) {
    return (int64_t)NEAR_POINTS << (w->more ? w->more->turn : 0);
}
static int64_t far_points(const hss_builder *w) {
    return (int64_t)FAR_POINTS << (w->more ? w->more->turn : 0);
}

/* Rows of the neighbours of node i; too many: the nearest, and some of the others evenly. */
static int64_t near_samples(const hss_builder *w, int64_t i, candidate *c, int64_t *out) {
    const nested_level *v = w->h->level + w->l;
    const int64_t most = near_points(w);
    int64_t n = 0, used = 0;
    for (int64_t e = w->near.first[i]; e < w->near.first[i + 1]; e++)
        for (int64_t k = 0; k < v->size[w->near.item[e]]; k++)
            c[n++].point = w->mine[w->near.item[e] * v->rows + k];
    if (n > most) {
        for (int64_t k = 0; k < n; k++)
            c[k].far = from_box(&w->h->t, tree_node(w->l, i), c[k].point);
        qsort(c, (size_t)n, sizeof *c, by_distance);
    }
    const int64_t first = n > most ? most * 2 / 3 : n;
    for (; used < first; used++)
        out[used] = c[used].point;
    for (int64_t k = first; used < most && k < n; used++) {
        k = first + (used - first) * (n - first) / (most - first);
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
        const int64_t few = w->more && w->more->all ? n : least(n, far_points(w));
        for (int64_t k = 0; k < few; k++)
            out[used++] = t->first[a] + (2 * k + 1) * n / (2 * few);
    }
    return used;
}

/* Columns outside node i in which its rows were found to be wrong, to `out`; their number. */
static int64_t wrong_samples(const hss_builder *w, int64_t i, int64_t *out) {
    const tree *t = &w->h->t;
    const int64_t a = tree_node(w->l, i), first = t->first[a], end = first + t->size[a];
    int64_t used = 0;
    for (int64_t e = 0; w->more && e < w->more->count; e++)
        for (int k = 0; k < 2; k++) {
            const int64_t mine = w->more->entry[e][k], other = w->more->entry[e][1 - k];
            if (mine >= first && mine < end && (other < first || other >= end)) {
                if (out)
                    out[used] = other;
                used++;
            }
        }
    return used;
}

/* The largest number of samples of a node of the level. */
static int64_t room_of(const hss_builder *w) {
    const nested_level *v = w->h->level + w->l;
    int64_t wrong = 0;
    for (int64_t i = 0; w->more && i < v->nodes; i++) {
        const int64_t mine = wrong_samples(w, i, NULL);
        wrong = mine > wrong ? mine : wrong;
    }
    return (w->more && w->more->all ? w->h->t.n : far_points(w) * w->l) + near_points(w) + wrong;
}

status hss_sample_level(hss_builder *w) {
    const nested_level *v = w->h->level + w->l;
    status st;
    int failed = 0;
    TRY(tree_neighbours(&w->h->t, w->l, NEAR_NODES, &w->near));
    w->room = room_of(w), w->most_samples = 0;
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
            w->samples[i] += wrong_samples(w, i, to + w->samples[i]);
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
