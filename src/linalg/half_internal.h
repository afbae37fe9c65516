/* Shared by the files of the factor in halves. */
#ifndef MOAO_HALF_INTERNAL_H
#define MOAO_HALF_INTERNAL_H

#include "linalg/half_factor.h"

/* Solve 0: X L' = B, column blocks ascending; 1: W L = X, descending. */
enum { HALF_SOLVES = 2 };

struct half_factor {
    const backend *be;
    backend_ctx *ctx;
    int64_t m, nt; /* order; tiles in a row */
    half_factor_options o;
    int64_t inside; /* 0, or the leading dimension of L, in the lower triangle of which the panels
                       lie */
    backend_f16 *place;   /* panels */
    backend_f16 *inverse; /* for each tile on the diagonal hi, lo: tile x tile, 0 above */
    int el;               /* exponents: L; X and W; right-hand sides at the diagonal, inverses */
    int ex[HALF_SOLVES], *ec[HALF_SOLVES], *ei; /* [nt] */
    bool *three[HALF_SOLVES];                   /* [nt nt] tile (i, j) at i + j nt */
    double share;
    double *norms, *host; /* device, host: sums of squares and largest entries */
    int *info;            /* device, [nt] */
    half_sample sample;   /* while panels are taken */
    bool ready;
};

static inline int64_t half_min(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* First row or column of tile i; of the one behind the last: m. */
static inline int64_t half_start(const half_factor *f, int64_t i) {
    return half_min(i * f->o.tile, f->m);
}

static inline int64_t half_order(const half_factor *f, int64_t i) {
    return half_start(f, i + 1) - half_start(f, i);
}

/* Leading dimension of n rows: a multiple of 8, which products on tensor cores want. */
static inline int64_t half_rows_ld(int64_t n) {
    return (n + 7) / 8 * 8;
}

/* A panel's. */
static inline int64_t half_ld(int64_t m, int64_t j0) {
    return half_rows_ld(m - j0);
}

/* Where the panel of columns from j0 on begins, in halves from `place`; n: where the last one ends.
 */
int64_t half_panel_start(int64_t m, int64_t panel, int64_t j0);

/* Entry (i, j) of L and what is below and right of it in its panel. */
half_pair half_entry(const half_factor *f, int64_t i, int64_t j);
half_pair half_inverse(const half_factor *f, int64_t i);

/* Sums of squares, by sample and tile, that the choice of tiles is made of. */
typedef struct {
    const double *l;              /* [nt nt], tile (i, j), i > j */
    const double *x[HALF_SOLVES]; /* [nt] columns of a tile of X, of W */
    double b;                     /* of all of B */
} half_sizes;

/* Fill three and share: single products where their errors are smallest, as many as the accuracy
 * allows. */
status half_choose_tiles(half_factor *f, const half_sizes *s);

/* Tiles [i0, i1) x [j0, j1). */
typedef struct {
    int64_t i0, i1, j0, j1;
} half_range;

/* The next of the rectangles that make up the tiles in three products of a range; `done` ([nt nt],
 * false in the range at the first call) tells which were given. False: no more. */
bool half_next_rectangle(const half_factor *f, int solve, half_range range, bool *done,
                         half_range *out);

#endif
