/* Clusters of points. */
#include "tree.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

void tree_free(tree *t) {
    free(t->order), free(t->at), free(t->first), free(t->size), free(t->low), free(t->high);
    *t = (tree){0};
}

void lists_free(lists *l) {
    free(l->first), free(l->item);
    *l = (lists){0};
}

static void box_of(tree *t, int64_t node) {
    double *low = t->low + 3 * node, *high = t->high + 3 * node;
    for (int d = 0; d < 3; d++)
        low[d] = high[d] = 0;
    for (int d = 0; d < t->dim; d++) {
        const double *x = t->at + t->first[node] * t->dim + d;
        for (int64_t i = 0; i < t->size[node]; i++, x += t->dim) {
            low[d] = i == 0 || *x < low[d] ? *x : low[d];
            high[d] = i == 0 || *x > high[d] ? *x : high[d];
        }
    }
}

static void swap_points(tree *t, int64_t i, int64_t j) {
    const int64_t o = t->order[i];
    t->order[i] = t->order[j], t->order[j] = o;
    for (int d = 0; d < t->dim; d++) {
        const double x = t->at[i * t->dim + d];
        t->at[i * t->dim + d] = t->at[j * t->dim + d], t->at[j * t->dim + d] = x;
    }
}

/* Points i .. j so that coordinate d is at most the pivot up to the new j, and at least the pivot
 * from the new i > j on. */
static void partition(tree *t, int d, double pivot, int64_t *i, int64_t *j) {
    while (*i <= *j) {
        while (t->at[*i * t->dim + d] < pivot)
            ++*i;
        while (t->at[*j * t->dim + d] > pivot)
            --*j;
        if (*i <= *j)
            swap_points(t, (*i)++, (*j)--);
    }
}

/* Points [begin, end) so that the first `half` have no larger coordinate d than the others. */
static void select_points(tree *t, int d, int64_t begin, int64_t end, int64_t half) {
    int64_t low = begin, high = end - 1;
    const int64_t want = begin + half;
    while (low < high) {
        const double pivot = t->at[(low + high) / 2 * t->dim + d];
        int64_t i = low, j = high;
        partition(t, d, pivot, &i, &j);
        if (want <= j)
            high = j;
        else if (want >= i)
            low = i;
        else
            break;
    }
}

static bool sorted_along(const tree *t, int d, int64_t begin, int64_t end) {
    for (int64_t i = begin + 1; i < end; i++)
        if (t->at[i * t->dim + d] < t->at[(i - 1) * t->dim + d])
            return false;
    return true;
}

/* How many points of a node go to its first child; leaf: points of a leaf where all are alike. */
static int64_t cut(tree *t, int64_t node, char split, int64_t leaf) {
    const int64_t begin = t->first[node], n = t->size[node], end = begin + n;
    const int64_t leaves = (n + leaf - 1) / leaf, half = leaves > 1 ? (leaves + 1) / 2 * leaf : n;
    int d = 0;
    double mean = 0;
    if (t->dim == 0 || n == 0)
        return half;
    for (int e = 1; e < t->dim; e++)
        if (t->high[3 * node + e] - t->low[3 * node + e] >
            (1 + 1e-9) * (t->high[3 * node + d] - t->low[3 * node + d]))
            d = e;
    if (split == 'M') {
        for (int64_t i = begin; i < end; i++)
            mean += t->at[i * t->dim + d] / (double)n;
        int64_t first = begin, last = end - 1;
        partition(t, d, mean, &first, &last);
        if (first > begin && first < end)
            return first - begin;
    }
    if (half < n && !sorted_along(t, d, begin, end))
        select_points(t, d, begin, end, half);
    return half;
}

status tree_alloc(int64_t n, int dim, int levels, tree *t) {
    const int64_t nodes = tree_node(levels + 1, 0);
    status st;
    *t = (tree){.n = n, .dim = dim, .levels = levels};
    TRY(ALLOC(t->order, (unsigned long)n, "order of a tree"));
    TRY(ALLOC(t->at, (unsigned long)(n * dim), "points of a tree"));
    TRY(ALLOC(t->first, (unsigned long)nodes, "nodes of a tree"));
    TRY(ALLOC(t->size, (unsigned long)nodes, "nodes of a tree"));
    TRY(ALLOC(t->low, (unsigned long)nodes * 3, "boxes of a tree"));
    TRY(ALLOC(t->high, (unsigned long)nodes * 3, "boxes of a tree"));
done:
    return st;
}

void tree_complete(tree *t) {
    for (int l = t->levels - 1; l >= 0; l--)
        for (int64_t p = 0; p < tree_nodes(l); p++)
            t->size[tree_node(l, p)] =
                t->size[tree_node(l + 1, 2 * p)] + t->size[tree_node(l + 1, 2 * p + 1)];
    box_of(t, 0);
    for (int64_t c = 1; c < tree_node(t->levels + 1, 0); c++) {
        const int64_t above = (c - 1) / 2;
        t->first[c] = t->first[above] + (c & 1 ? 0 : t->size[c - 1]);
        box_of(t, c);
    }
}

status tree_make(int64_t n, int dim, const double *at, int64_t leaf, char split, tree *t) {
    int levels = 0;
    status st;
    while (levels < 30 && (split == 'M' ? n >> levels > leaf : leaf << levels < n))
        levels++;
    TRY(tree_alloc(n, dim, levels, t));
    for (int64_t i = 0; i < n; i++)
        t->order[i] = i;
    if (dim > 0)
        memcpy(t->at, at, sizeof *at * (size_t)(n * dim));
    t->size[0] = n;
    box_of(t, 0);
    for (int l = 0; l < t->levels; l++) {
#pragma omp parallel for schedule(dynamic) if (n > 100000)
        for (int64_t p = 0; p < tree_nodes(l); p++) {
            const int64_t a = tree_node(l, p), c = tree_node(l + 1, 2 * p),
                          half = cut(t, a, split, leaf);
            t->first[c] = t->first[a], t->size[c] = half;
            t->first[c + 1] = t->first[a] + half, t->size[c + 1] = t->size[a] - half;
            box_of(t, c), box_of(t, c + 1);
        }
    }
done:
    if (st != MOAO_OK)
        tree_free(t);
    return st;
}

double tree_distance(const tree *t, int64_t a, int64_t b) {
    double s = 0;
    for (int d = 0; d < t->dim; d++) {
        const double gap = fmax(
            fmax(t->low[3 * a + d] - t->high[3 * b + d], t->low[3 * b + d] - t->high[3 * a + d]),
            0);
        s += gap * gap;
    }
    return sqrt(s);
}

double tree_diameter(const tree *t, int64_t a) {
    double s = 0;
    for (int d = 0; d < t->dim; d++)
        s += (t->high[3 * a + d] - t->low[3 * a + d]) * (t->high[3 * a + d] - t->low[3 * a + d]);
    return sqrt(s);
}

/* --- lists that grow ------------------------------------------------------------------------ */

static status lists_open(lists *l, int64_t count) {
    *l = (lists){.count = count};
    return ALLOC(l->first, (unsigned long)count + 1, "lists of nodes");
}

typedef struct {
    int64_t used, room;
    int64_t (*pair)[2]; /* list, item */
} pairs;

static status pairs_add(pairs *p, int64_t list, int64_t item) {
    if (p->used == p->room) {
        const int64_t room = p->room ? 2 * p->room : 4096;
        void *more = realloc(p->pair, sizeof *p->pair * (size_t)room);
        if (!more)
            return status_fail(MOAO_MEMORY, "no memory for %lld pairs of nodes", (long long)room);
        p->pair = more, p->room = room;
    }
    p->pair[p->used][0] = list, p->pair[p->used++][1] = item;
    return MOAO_OK;
}

/* Pairs as lists; the items of a list keep their order. */
static status lists_from(lists *l, int64_t count, const pairs *p) {
    status st;
    int64_t *next = NULL;
    TRY(lists_open(l, count));
    TRY(ALLOC(l->item, (unsigned long)p->used, "lists of nodes"));
    TRY(ALLOC(next, (unsigned long)count + 1, "lists of nodes"));
    for (int64_t i = 0; i < p->used; i++)
        l->first[p->pair[i][0] + 1]++;
    for (int64_t i = 0; i < count; i++)
        next[i] = l->first[i], l->first[i + 1] += l->first[i];
    for (int64_t i = 0; i < p->used; i++)
        l->item[next[p->pair[i][0]]++] = p->pair[i][1];
done:
    free(next);
    return st;
}

status lists_partners(const lists *l, const char *who, int64_t **partner) {
    const int64_t count = l->count, items = l->first[count];
    int64_t *first = NULL, *from = NULL, *item = NULL, *mark = NULL;
    status st;
    *partner = NULL;
    TRY(ALLOC(*partner, (unsigned long)items, "pairs of nodes"));
    TRY(ALLOC(first, (unsigned long)count + 2, "pairs of nodes"));
    TRY(ALLOC(from, (unsigned long)items, "pairs of nodes"));
    TRY(ALLOC(item, (unsigned long)items, "pairs of nodes"));
    TRY(ALLOC(mark, (unsigned long)count, "pairs of nodes"));
    for (int64_t e = 0; e < items; e++) {
        if (l->item[e] < 0 || l->item[e] >= count)
            TRY(status_fail(MOAO_INPUT, "%s: a node has node %lld of %lld in its list", who,
                            (long long)l->item[e], (long long)count));
        first[l->item[e] + 2]++;
    }
    for (int64_t b = 0; b < count; b++)
        first[b + 2] += first[b + 1];
    for (int64_t a = 0; a < count; a++) /* those that list b: items first[b] .. first[b + 1] */
        for (int64_t e = l->first[a]; e < l->first[a + 1]; e++) {
            const int64_t at = first[l->item[e] + 1]++;
            from[at] = a, item[at] = e;
        }
    for (int64_t b = 0; b < count; b++) {
        for (int64_t i = first[b]; i < first[b + 1]; i++) {
            if (mark[from[i]] != 0)
                TRY(status_fail(MOAO_INPUT, "%s: node %lld has node %lld twice in its list", who,
                                (long long)from[i], (long long)b));
            mark[from[i]] = item[i] + 1;
        }
        for (int64_t e = l->first[b]; e < l->first[b + 1]; e++) {
            if (mark[l->item[e]] == 0)
                TRY(status_fail(MOAO_INPUT,
                                "%s: node %lld has node %lld in its list, which lacks it", who,
                                (long long)b, (long long)l->item[e]));
            (*partner)[e] = mark[l->item[e]] - 1;
        }
        for (int64_t i = first[b]; i < first[b + 1]; i++)
            mark[from[i]] = 0;
    }
done:
    free(first), free(from), free(item), free(mark);
    return st;
}

/* --- neighbours ----------------------------------------------------------------------------- */

static bool touch(const tree *t, int64_t a, int64_t b) {
    return tree_distance(t, a, b) <= 0.1 * fmax(tree_diameter(t, a), tree_diameter(t, b));
}

/* The nearest `most` of node a's neighbours (numbers within the level): their list, in place. */
static int64_t nearest(const tree *t, int level, int64_t p, int64_t *item, int64_t n,
                       int64_t most) {
    const int64_t a = tree_node(level, p);
    for (int64_t i = 0; i < n && i < most; i++) {
        int64_t best = i;
        for (int64_t j = i + 1; j < n; j++)
            if (tree_distance(t, a, tree_node(level, item[j])) <
                tree_distance(t, a, tree_node(level, item[best])))
                best = j;
        const int64_t x = item[i];
        item[i] = item[best], item[best] = x;
    }
    return n < most ? n : most;
}

/* Without coordinates: the nodes before and after. */
static status in_a_row(int level, lists *l) {
    pairs found = {0};
    status st = MOAO_OK;
    for (int64_t p = 0; p < tree_nodes(level); p++) {
        if (p > 0)
            TRY(pairs_add(&found, p, p - 1));
        if (p + 1 < tree_nodes(level))
            TRY(pairs_add(&found, p, p + 1));
    }
    TRY(lists_from(l, tree_nodes(level), &found));
done:
    free(found.pair);
    return st;
}

status tree_neighbours(const tree *t, int level, int64_t most, lists *out) {
    lists above = {0}, here = {0};
    pairs found = {0};
    status st;
    *out = (lists){0};
    if (t->dim == 0)
        return in_a_row(level, out);
    TRY(pairs_add(&found, 0, 0));
    TRY(lists_from(&above, 1, &found));
    for (int l = 1; l <= level; l++) {
        found.used = 0;
        for (int64_t p = 0; p < tree_nodes(l); p++)
            for (int64_t e = above.first[p / 2]; e < above.first[p / 2 + 1]; e++)
                for (int64_t q = 2 * above.item[e]; q < 2 * above.item[e] + 2; q++)
                    if (touch(t, tree_node(l, p), tree_node(l, q)))
                        TRY(pairs_add(&found, p, q));
        TRY(lists_from(&here, tree_nodes(l), &found));
        lists_free(&above);
        above = here, here = (lists){0};
    }
    found.used = 0;
    for (int64_t p = 0; p < tree_nodes(level); p++) {
        int64_t *item = above.item + above.first[p], n = 0;
        for (int64_t e = above.first[p]; e < above.first[p + 1]; e++)
            if (above.item[e] != p)
                item[n++] = above.item[e];
        n = nearest(t, level, p, item, n, most);
        for (int64_t e = 0; e < n; e++)
            TRY(pairs_add(&found, p, item[e]));
    }
    TRY(lists_from(out, tree_nodes(level), &found));
done:
    lists_free(&above), lists_free(&here), free(found.pair);
    if (st != MOAO_OK)
        lists_free(out);
    return st;
}

/* --- far and near pairs --------------------------------------------------------------------- */

static bool are_apart(const tree *t, double eta, const hier_source *s, int64_t a, int64_t b) {
    if (s->apart != NULL)
        return s->apart(s->from, t->low + 3 * a, t->high + 3 * a, t->low + 3 * b,
                        t->high + 3 * b) >= eta;
    return tree_distance(t, a, b) >= eta * ((tree_diameter(t, a) + tree_diameter(t, b)) / 2);
}

status tree_pairs(const tree *t, double eta, const hier_source *s, lists *far, lists *near) {
    pairs apart = {0}, now = {0}, next = {0};
    status st;
    *far = *near = (lists){0};
    TRY(pairs_add(&now, 0, 0));
    for (int l = 0; l <= t->levels; l++) {
        next.used = 0;
        for (int64_t i = 0; i < now.used; i++) {
            const int64_t p = now.pair[i][0], q = now.pair[i][1], a = tree_node(l, p),
                          b = tree_node(l, q);
            if (t->size[a] == 0 || t->size[b] == 0)
                continue;
            if (p != q && t->dim > 0 && are_apart(t, eta, s, a, b)) {
                TRY(pairs_add(&apart, a, b));
            } else if (l == t->levels) {
                TRY(pairs_add(&next, p, q));
            } else {
                for (int c = 0; c < 4; c++)
                    TRY(pairs_add(&next, 2 * p + c / 2, 2 * q + c % 2));
            }
        }
        pairs x = now;
        now = next, next = x;
    }
    TRY(lists_from(far, tree_node(t->levels + 1, 0), &apart));
    TRY(lists_from(near, tree_nodes(t->levels), &now));
done:
    free(apart.pair), free(now.pair), free(next.pair);
    if (st != MOAO_OK)
        lists_free(far), lists_free(near);
    return st;
}
