/* What the factor and the product of an operator (operator/operator.h) are opened with, and the
 * memory that follows, which a plan asks for where no device is needed. */
#ifndef MOAO_ENGINE_SIZES_H
#define MOAO_ENGINE_SIZES_H

#include "engine/engine.h"

/* Rows of W, for all m columns. */
typedef struct {
    int slot;         /* of the first target that they belong to, in the chunk of this rank */
    int64_t rows, ld; /* rows >= 0, ld >= 1 */
    double *w;        /* rows x m; or what a product with a W of its own keeps in their place */
} wrows;

typedef struct { /* what the bytes follow from */
    const sys *s;
    int64_t rows;              /* of W of a target */
    size_t width;              /* columns of a panel */
    int nlayer;                /* most of a profile */
    int64_t points;            /* of the pupil, where the residual phase is wanted, else 0 */
    int nrank, block, grid[2]; /* of collective ranks: block-cyclic layout */
    int tile;                  /* order of the tiles of a compressed factor, 0: chosen, */
    bool fp16;                 /* its columns that may be are kept in FP16 */
    int members;               /* ranks over which it is distributed, 0: each has all of it */
    double compressed;         /* bytes that such a factor is expected to take, 0: unknown */
    bool host;                 /* the device is the host itself */
} linop_case;

#define LINOP_ITEMS 14

typedef struct { /* memory of the device [bytes] */
    int nitem;   /* whatever the number of targets */
    struct {
        const char *name;
        size_t bytes;
    } item[LINOP_ITEMS];
    const char *per_target; /* what one target takes, its W included */
    size_t target;
    size_t least; /* that the memory of all targets has at least, for the factor in transit */
} linop_bytes;

typedef struct { /* borrowed */
    linop_case size;
    const double *proj;   /* P on the device, rows x t */
    int most;             /* targets that a rank gets at most, */
    int planned;          /* and those that the plan has memory for */
    int sharing;          /* ranks on one device, at most */
    const double *sample; /* direction of the target by which an operator that is not exact chooses
                             how accurate it is [rad] */
    bool say;             /* lines of progress tell how factors will be made */
} linop_setup;

/* Steps that are repeated where results have to be more accurate. */
typedef enum { LINOP_NOTHING, LINOP_FACTOR, LINOP_SOLVE, LINOP_LOAD } linop_step;

/* Local. A part of the memory that does not depend on the number of targets. */
void linop_add(linop_bytes *b, const char *name, size_t bytes);

#endif
