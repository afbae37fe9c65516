/* The plan of what a rank computes: which pair of factor and product, on what layout, how many
 * targets at a time, in how much memory. It is made once (job/plan.h) and passed down as const. */
#ifndef MOAO_ENGINE_PLAN_H
#define MOAO_ENGINE_PLAN_H

#include "engine/engine.h"

/* How D+ is applied to covariances (tor/command.h): as a matrix; by the filter, then H; or by the
 * filter alone, where H can wait until the end of an exposure (tor.h), else as the former. */
typedef enum { COMMAND_MATRIX, COMMAND_FILTER, COMMAND_RAW } command_way;

typedef enum { PLAN_HOST, PLAN_DEVICE, PLAN_MEMORIES } plan_memory;
#define PLAN_ITEMS 24

typedef struct plan {
    const struct linop_pair *pair; /* factor and product of Cmm; NULL: not chosen */
    const backend *be;             /* what computes */
    bool devices;                  /* each rank has a device; else all work on the same panels */
    bool host;                     /* these are the ranks' own processors */
    bool quiet;                    /* no lines of progress about how factors are computed */

    /* layout */
    int nrank, sharing;     /* ranks; of them on one device, at most */
    int grid[2], block;     /* block-cyclic matrices: grid of ranks, size of a block */
    size_t width;           /* columns of a panel */
    int group_size;         /* ranks that share targets */
    int chunk, nchunk;      /* targets at a time, on all ranks together, and how many times */
    int most, fits;         /* targets of a rank at a time, at most; that memory holds */
    int rows;               /* of W of a target */
    size_t ld_max;          /* rows of W on a rank, at most */
    int64_t points;         /* of the pupil, where the residual phase is wanted, else 0 */
    const profile *largest; /* one with the most layers */
    size_t target_tables;   /* bytes of the tables of covariances of a target */

    /* method */
    command_way way;     /* how D+ is applied, if H is exact */
    bool by_layers;      /* W Cpm' of all targets by tables of each layer (obsseq/layer_tables.h) */
    bool raw;            /* V = D' Ctm0 Cmm0^-1 may take the place of W */
    int sample;          /* target by which what is not exact is checked */
    int nsample;         /* columns of the sampled residual */
    bool keep;           /* what images are made of is kept of every target (obsseq_interpolate) */
    bool mixed;          /* exposures in mixed precision are wanted */
    int moduli;          /* of a dense factor by integers (moao/integer_factor.h), 0: native; */
    int moduli_solve;    /* of its triangles against rows, */
    int moduli_exposure; /* of products of its exposures */
    int moduli_reference; /* of those of the sampled target's reference in mixed precision */
    int split_moduli;     /* the same of one that is kept in split FP16 (job/plan.h) */
    int tile;             /* size of the tiles of a compressed factor, */
    bool fp16;            /* whose columns that may be are kept in FP16; */
    int members;          /* ranks over which it is distributed, 0: each has all of it; */
    double compressed;    /* bytes that it is expected to take, 0: unknown */
    const struct tlr_prediction *ranks; /* what is predicted of it; NULL: dense */

    /* memory of a rank [bytes] */
    struct {
        int n;
        struct {
            const char *name;
            size_t bytes;
        } item[PLAN_ITEMS];
    } memory[PLAN_MEMORIES]; /* by use, whatever the number of targets */
    const char *per_target;  /* what a target takes of the device's, */
    size_t target;           /* and how much */
    size_t fixed;            /* sum of the device's items */
    size_t least;         /* that all targets together have at least, for the factor before them */
    size_t peak;          /* of the host's, the program itself included */
    struct {              /* what a rank is given of its device: */
        double now, ever; /* as much as is free; where nothing else runs */
        bool host;        /* it is the host's memory, */
        double rest;      /* of which the rest of the rank takes so much, which is not in these */
    } given;
    double mixed_needs; /* double precision computes because mixed, which was expected to save time,
                           needs so many bytes of the device for one target; 0: not so */
    bool held;          /* the device has the memory of one target where nothing else runs */

    /* work of the whole run */
    double flops[STAGE_COUNT]; /* all ranks */
    double follow;             /* of the exposures the share whose residual follows from that of
                                  the one before (obsseq/multiple.h) */
    double output;             /* bytes that stay on disk */
    struct {                   /* expected, all ranks together [s] */
        double tor;            /* Cmm of a reconstructor and its factor */
        double solve;          /* W of one target */
        double common;         /* what the targets of a chunk share, in each exposure */
        double exposure;       /* one target of one exposure */
        double start;          /* what comes before */
        double sample_w;       /* W of the sampled target by the reference; 0: as all others */
        double sample;         /* that target in an exposure by the reference */
        double total;          /* of the whole run */
        double exact;          /* the same where no sample is within compute.mixed_tolerance */
    } time;
} plan;

/* Local. A part of the memory where the plan's factor is, whatever the number of targets. */
void plan_add(plan *p, const char *name, size_t bytes);
/* Local. Bytes of the device with n targets at a time. */
size_t plan_device_bytes(const plan *p, int n);

/* Rows of W, for all m columns. */
typedef struct {
    int slot;         /* of the first target that they belong to, in the chunk of this rank */
    int64_t rows, ld; /* rows >= 0, ld >= 1 */
    double *w;        /* rows x m; or what a product with a W of its own keeps in their place */
} wrows;

/* Steps that are repeated where results have to be more accurate. */
typedef enum { LINOP_NOTHING, LINOP_FACTOR, LINOP_SOLVE, LINOP_LOAD } linop_step;

#endif
