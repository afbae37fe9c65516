/* The factor of an HSS matrix, between what makes it (hss_factor.c) and what solves (hss_solve.c).
 */
#ifndef MOAO_HIER_HSS_FACTOR_H
#define MOAO_HIER_HSS_FACTOR_H

#include "hss.h"

typedef struct {
    int64_t nodes, rows, most; /* of a node: unknowns and columns of the basis at most */
    int64_t *n, *k;            /* host, [nodes] */
    int64_t *y, *s;            /* first row in the workspaces: [y; y~] (n rows), [b~; z] (2 k) */
    int64_t *v, *t;            /* transposed: [t; b~; z] (n + k rows), t~ (k) */
    int64_t ldg;
    char *g, *w; /* ldg x (rows + most) each; rows x rows each */
} factor_level;

struct hss_factor {
    factor_level level[NESTED_LEVELS];
    int64_t rows_y, rows_s, rows_v, rows_t;
    plan straight, turned;
};

/* Sizes of level l, from the tree, its ranks and the level below. */
status hss_factor_sizes(const hss *h, struct hss_factor *q, int l);
/* The launches of solves alone. */
status hss_solve_launch(hss *h);
/* The launches of solves with h->factor, that of A + shift I; its condition. */
status hss_solve_prepare(hss *h, double shift);
/* Estimates info.rcond (hss_condition.c). MOAO_NUMERIC: nothing can be solved. */
status hss_condition(hss *h, double shift);

#endif
