/* H2 matrices: a tree of clusters with nested bases; a block of two clusters that are apart is U_t
 * S U_s', blocks of leaves that are not are dense. Symmetric matrices; blocks are stored once.
 *
 * Sources: Hackbusch, Hierarchical Matrices, 2015 (form, interpolation, weights); Boukaram,
 * Turkiyyah, Ltaief, Keyes, Batched QR and SVD algorithms on GPUs, section 8 (compression level by
 * level). */
#ifndef MOAO_HIER_H2_H
#define MOAO_HIER_H2_H

#include "nested.h"
#include "sampled.h"

/* Blocks of pairs of nodes p <= q of a level, rank x rank (far) or points x points (near). */
typedef struct {
    int64_t count, *row, *col; /* host: numbers within the level */
    int64_t ld, stride;        /* elements */
    char *s;
} pair_blocks;

typedef struct {
    format f;
    tree t;
    nested_level level[NESTED_LEVELS]; /* b is not used: blocks are in `far` */
    int top;                           /* first level that has far pairs, levels + 1: none has */
    pair_blocks far[NESTED_LEVELS], near;
    lists far_of, near_of;           /* of each node (of each leaf) all its partners, both sides */
    int64_t *far_block, *near_block; /* for each item of these lists the number of its block */
    int64_t ranks;
    int sums_up, sums_far; /* launches of the plan that go up; with those of far blocks */
    plan plan;
} h2;

static inline char *h2_basis(const h2 *h, int l, int64_t i) {
    const nested_level *v = h->level + l;
    return v->u + i * v->rows * v->most * (int64_t)backend_size(h->f.o.type);
}
static inline char *h2_block(const h2 *h, const pair_blocks *b, int64_t e) {
    return b->s + e * b->stride * (int64_t)backend_size(h->f.o.type);
}

status h2_interpolate(h2 *h, const hier_source *s); /* bases and far blocks (h2_build.c) */
/* The same by sampled entries, and those of `more` (h2_sketch.c). */
status h2_sketch(h2 *h, const hier_source *s, const refinement *more);
status h2_dense_blocks(h2 *h, const hier_source *s);
/* Blocks of pairs between rows first[i] .. + size[i] of node i's list, numbers of the source on the
 * device. */
status h2_gather(const h2 *h, const hier_source *s, pair_blocks *b, const int64_t *first,
                 const int64_t *size, const int *index, pack *args);
/* Blocks of the pairs in far_of and near_of, and `top`. MOAO_INPUT: as lists_partners. */
status h2_number_pairs(h2 *h, const char *who);
status h2_store(format **f, hier_file *file); /* h2_file.c */
void h2_close(format *f);
status h2_plan(h2 *h); /* launches and statistics, after ranks have changed */
status h2_compress(format *f, double tol, char weights, int samples); /* h2_compress.c */
/* Its bases and far blocks, without h2_plan: HSS matrices use it too (hss_compress.c). */
status h2_cut(h2 *h, double tol, char weights, int samples);
/* h2_weights.c: triangles Z (most x most each, of all nodes of level l) with Z'Z the sum of B B'
 * over the blocks B of a node's row, those of the nodes above it included. Bases are orthonormal.
 */
status h2_weights(h2 *h, char *one, int64_t ld_one, pack *args, char *z[NESTED_LEVELS]);

#endif
