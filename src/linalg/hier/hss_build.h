/* Between the files that make an HSS matrix: hss_build.c (the levels), hss_sample.c (which entries
 * are sampled), hss_products.c (samples by products). */
#ifndef MOAO_HIER_HSS_BUILD_H
#define MOAO_HIER_HSS_BUILD_H

#include "hss.h"
#include "sampled.h"

/* What makes an HSS matrix, level by level. */
typedef struct {
    hss *h;
    const hier_source *s;
    bool once;       /* columns span what rows span: one kind of samples is enough */
    int l;           /* level current */
    int64_t *mine;   /* [nodes][rows] places of the rows of each node's basis */
    int64_t *chosen; /* [nodes below][most below] those that span a node of the level below */
    lists near;
    int64_t *sample, most_samples; /* [nodes][room] places; numbers in samples */
    int64_t *samples, room;
    char *r, *below; /* device: triangles of this level's bases and of the level below */
    char *raw; /* device: blocks of siblings between chosen rows, before bases are orthonormal */
    struct hss_products *products; /* samples are products; NULL: entries */
    const refinement *more;        /* of entries: what is sampled in addition; NULL: nothing */
    pack args;
} hss_builder;

/* Buffers for the samples of `count` nodes, and the results of all of a level. */
typedef struct {
    int64_t count, rows; /* rows: of a node's samples, both kinds */
    size_t lwork;
    char *g, *small, *work;
    char *u; /* rows of the basis x bound each, of all nodes */
    int64_t bound;
    int *order, *info;
    int64_t *rank;
} hss_samples;

/* The rows that the bases of the current level have; their samples decomposed, which gives ranks
 * and the rows that span each node; H2 matrices use them too. */
status hss_build_rows(hss_builder *w);
status hss_build_decompose(hss_builder *w, hss_samples *q, int64_t **chosen);
void hss_samples_close(const hss_builder *w, hss_samples *q);

/* Places of the entries that are sampled for the nodes of the current level (hss_sample.c). */
status hss_sample_level(hss_builder *w);

/* Samples by products (hss_products.c): begin with `count` random vectors; of each level, what the
 * nodes' rows give without the blocks inside them; those of nodes first .. into q->g; after the
 * choice of rows, what goes to the level above. */
status hss_products_open(hss_builder *w, int64_t count);
void hss_products_close(hss_builder *w);
status hss_products_level(hss_builder *w);
status hss_products_fill(hss_builder *w, const hss_samples *q, int64_t first, int64_t count);
status hss_products_carry(hss_builder *w, const hss_samples *q, const int *order);
/* By fresh products with what was made: the error of an entry (rms), and how many rows have more
 * than hier_open allows. */
status hss_products_error(hss *h, const hier_source *s, double *rms, int64_t *wrong);

#endif
