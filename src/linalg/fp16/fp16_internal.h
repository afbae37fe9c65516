/* Shared by the files of the factor in FP16. */
#ifndef MOAO_FP16_INTERNAL_H
#define MOAO_FP16_INTERNAL_H

#include "moao/fp16_factor.h"

/* Solve 0: X L' = B, column blocks ascending; 1: W L = X, descending. */
enum { FP16_SOLVES = 2 };

struct fp16_factor {
    const backend *be;
    backend_ctx *ctx;
    int64_t m, nt; /* order; tiles in a row */
    fp16_factor_options o;
    int64_t inside; /* 0, or the leading dimension of L, in the lower triangle of which the panels
                       lie */
    backend_f16 *place;   /* panels */
    backend_f16 *inverse; /* for each tile on the diagonal hi, lo: tile x tile, 0 above */
    int el;               /* exponents: L; X and W; right-hand sides at the diagonal, inverses */
    int ex[FP16_SOLVES], *ec[FP16_SOLVES], *ei; /* [nt] */
    bool *three[FP16_SOLVES];                   /* [nt nt] tile (i, j) at i + j nt */
    double share;
    double *norms, *host; /* device, host: sums of squares and largest entries */
    int *info;            /* device, [nt] */
    fp16_sample sample;   /* while panels are taken */
    bool ready;
};

static inline int64_t fp16_min(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* First row or column of tile i; of the one behind the last: m. */
static inline int64_t fp16_start(const fp16_factor *f, int64_t i) {
    return fp16_min(i * f->o.tile, f->m);
}

static inline int64_t fp16_order(const fp16_factor *f, int64_t i) {
    return fp16_start(f, i + 1) - fp16_start(f, i);
}

/* Leading dimension of n rows: a multiple of 8, which products on tensor cores want. */
static inline int64_t fp16_rows_ld(int64_t n) {
    return (n + 7) / 8 * 8;
}

/* A panel's. */
static inline int64_t fp16_ld(int64_t m, int64_t j0) {
    return fp16_rows_ld(m - j0);
}

/* Where the panel of columns from j0 on begins, in FP16 from `place`; n: where the last one ends.
 */
int64_t fp16_panel_start(int64_t m, int64_t panel, int64_t j0);

/* Entry (i, j) of L and what is below and right of it in its panel. */
fp16_pair fp16_entry(const fp16_factor *f, int64_t i, int64_t j);
fp16_pair half_inverse(const fp16_factor *f, int64_t i);

/* Sums of squares, by sample and tile, that the choice of tiles is made of. */
typedef struct {
    const double *l;              /* [nt nt], tile (i, j), i > j */
    const double *x[FP16_SOLVES]; /* [nt] columns of a tile of X, of W */
    double b;                     /* of all of B */
} fp16_sizes;

/* Fill three and share: single products where their errors are smallest, as many as the accuracy
 * allows. */
status fp16_choose_tiles(fp16_factor *f, const fp16_sizes *s);

/* Tiles [i0, i1) x [j0, j1). */
typedef struct {
    int64_t i0, i1, j0, j1;
} fp16_range;

/* The next of the rectangles that make up the tiles in three products of a range; `done` ([nt nt],
 * false in the range at the first call) tells which were given. False: no more. */
bool fp16_next_rectangle(const fp16_factor *f, int solve, fp16_range range, bool *done,
                         fp16_range *out);

#endif
