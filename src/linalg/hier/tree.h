/* Clusters of points: a binary tree of full depth, whose node p of level l holds consecutive points
 * of the tree's order. Host only. */
#ifndef MOAO_HIER_TREE_H
#define MOAO_HIER_TREE_H

#include "moao/hier.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    int64_t n;
    int levels;         /* leaves are level `levels`, the root is level 0 */
    int dim;            /* of coordinates */
    int64_t *order;     /* [n] caller's index of each point */
    double *at;         /* [n dim] coordinates in this order */
    int64_t *first;     /* of each node its first point, see tree_node */
    int64_t *size;      /* points of each node */
    double *low, *high; /* [nodes][3] smallest box around the points */
} tree;

/* Number of node p of level l. */
static inline int64_t tree_node(int level, int64_t p) {
    return ((int64_t)1 << level) - 1 + p;
}
static inline int64_t tree_nodes(int level) {
    return (int64_t)1 << level;
}

/* Points at[dim i + d] into leaves: each node is cut across the longest side of its box, 'M' at the
 * mean of the coordinate (Boukaram et al., section 8), leaves have `leaf` points on average at
 * most; 'E' so that all leaves but one have `leaf` points, and some have none, where their number
 * is no power of two. dim 0: the order is kept. */
status tree_make(int64_t n, int dim, const double *at, int64_t leaf, char split, tree *t);
void tree_free(tree *t);

/* A tree of so many levels with memory for its arrays; what they say is the caller's. */
status tree_alloc(int64_t n, int dim, int levels, tree *t);
/* Sizes of inner nodes, first points and boxes, when the sizes of the leaves, order and coordinates
 * are known. */
void tree_complete(tree *t);

/* Distance of the boxes of two nodes; diameter of one. */
double tree_distance(const tree *t, int64_t a, int64_t b);
double tree_diameter(const tree *t, int64_t a);

/* Lists of numbers: list i is item first[i] .. first[i + 1]. */
typedef struct {
    int64_t count, *first, *item;
} lists;
void lists_free(lists *l);

/* Of lists of nodes that list each other: partner[e] of item e, which says b in the list of a, is
 * the item that says a in the list of b. MOAO_INPUT: an item is no list, or it has no partner, or
 * two; the message begins with `who`. */
status lists_partners(const lists *l, const char *who, int64_t **partner);

/* For each node of a level: those of its level whose boxes touch its own or nearly so (distance at
 * most a tenth of the larger diameter), at most `most`, the nearest first, without itself. */
status tree_neighbours(const tree *t, int level, int64_t most, lists *l);

/* Pairs of a matrix whose rows and columns are the tree's points, by dual traversal from the root:
 * far pairs (distance >= eta times the mean of the diameters, or what the source says), each a
 * number of its row node of the list `far` (by node number), and near ones among the leaves
 * (`near`, by leaf). */
status tree_pairs(const tree *t, double eta, const hier_source *s, lists *far, lists *near);

#ifdef __cplusplus
}
#endif
#endif
