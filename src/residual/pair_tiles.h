/* Products of W with covariances whose blocks of clusters are of low rank (backend_matcov.h,
 * tiles): subapertures, and points of the pupil, are taken together by squares of it. */
#ifndef MOAO_PAIR_TILES_H
#define MOAO_PAIR_TILES_H

#include "engine/engine.h"

typedef struct {
    int n; /* squares across the pupil */
    int ncluster;
    matcov_cluster *cluster; /* in the order of sensors; last the points, where there are some */
    int *square;             /* [ncluster] of each */
    int64_t **column;        /* [ncluster] of its measurements, or points, in matrices */
    int *sub;                /* what clusters borrow */
    double *at[2];
    int64_t most; /* measurements or points of a cluster */
} clusters;

/* Local. Those of all sensors, and of np points [m] in the host's memory. free: fine on {0}. */
status clusters_init(const sys *s, int64_t np, const double *x, const double *y, clusters *c);
void clusters_free(clusters *c);

/* Where tilings that are not needed at the same time keep their factors; it grows to what the
 * largest takes, and is touched for the first time once. free: fine on {0}. */
typedef struct {
    float *at[2];
    size_t room[2];
} pair_tiles_memory;
void pair_tiles_memory_free(pair_tiles_memory *m);

typedef struct { /* block (in, out) of a matrix is the transpose of a tile: V U' */
    const clusters *c;
    int ntile;
    matcov_tile *tile;
    int *out, *in;             /* [ntile] clusters, by increasing out */
    pair_tiles_memory *memory; /* U by `out`, V by `in`, side by side, from the last fill on */
    int64_t *at[2];            /* [ntile] where a tile's are in these; -1: no U, V is the block */
    int64_t low;               /* sum of the ranks of those with U */
} tiling;

/* Local. Blocks that a product has: of each pair of clusters of sensors of two groups, once, or,
 * with points, of all sensors with these. of: [sensors] group of each. m stays, and is the caller's
 * to free. free: fine on {0}. */
status pair_tiles_init(const clusters *c, const int *of, bool points, pair_tiles_memory *m,
                       tiling *t);
void pair_tiles_free(tiling *t);
/* Local. Covariances of the profile loaded, and of the target, if there is one; entries to about
 * tol. The engine's backend has tiles. */
status pair_tiles_fill(engine *e, backend_cov_target *target, double tol, tiling *t);

/* pair_tiles_share.c, for the plan; all local. Squares across the pupil. Share of the numbers of
 * dense blocks that tiles keep, about (bench/results/cpu-tiles.txt). Share of the entries on all
 * layers of a profile that are evaluated to make them: between sensors of two groups (of: [sensors]
 * group of each), or of the phase in a target's direction with all sensors (of NULL). */
int pair_tiles_squares(const sys *s);
double pair_tiles_share(const sys *s);
double pair_tiles_looks(const sys *s, const profile *p, const int *of);
/* Numbers of work for apply with v rows, of tilings of sensors and of up to so many points,
 * whatever their ranks turn out to be; what a filled one takes for one row, which is no more. */
size_t pair_tiles_work(const sys *s, int64_t points, int64_t v);
size_t pair_tiles_work_touched(const sys *s, int64_t points, int64_t v); /* that it writes to */
int64_t pair_tiles_row(const tiling *t);
/* Local. y (v x columns of clusters `out`) += x (v x columns of clusters `in`) times the blocks,
 * all in the host's memory; leading dimensions v. lwork: pair_tiles_work, or more than
 * pair_tiles_row. */
status pair_tiles_apply(engine *e, const tiling *t, int64_t v, const float *x, float *y,
                        float *work, size_t lwork);

#endif
