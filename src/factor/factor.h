/* Factors of Cmm0, the covariance of all measurements under a reconstructor's conditions: one table
 * of functions for each way in which a factor is computed and stored.
 *
 * The life of one: `open`; for each reconstructor `make`, Cmm0 = L L'; for each chunk of targets
 * `solve`, W = B0 Cmm0^-1 in place. How exposures are computed with W is the product's
 * (residual/product.h): every factor that solves in double precision serves every product.
 *
 * A collective factor has all of its functions called by all ranks at the same time, but for bytes
 * and close. */
#ifndef MOAO_FACTOR_H
#define MOAO_FACTOR_H

#include "engine/plan.h"

/* How accurate W is, where that is not up to rounding. A run keeps these numbers, so that a resumed
 * one computes the same. level: the larger, the more accurate; one of kind->levels, or, where the
 * factor is compressed, of each tile a part of Frobenius norm noise 2^(-level / FACTOR_OCTAVE) may
 * be dropped, noise the least eigenvalue of a subaperture's noise. */
#define FACTOR_OCTAVE 8
#define FACTOR_LEVEL 24      /* at first: an eighth of the noise, */
#define FACTOR_LEVEL_FP16 40 /* with products in FP16 1/32: W is refined faster */
/* |B0 - W Cmm0| / |B0| of a W that is refined, at most: images of the residual phase, which feel it
 * in first order, change by less than that; a factor in split FP16 leaves 5e-5 to 8e-5. */
#define FACTOR_REFINED 2e-5
typedef struct {
    int level;
    int turns;   /* how often a smaller tolerance was taken */
    bool refine; /* W is refined once with Cmm0 itself, which squares its error */
    bool dense;  /* nothing is dropped */
} factor_accuracy;

typedef struct { /* ranks of the tiles of a compressed factor */
    int64_t n;   /* tile rows, and columns */
    float *rank; /* [n][n] row by row; of a dense tile its columns; NaN: above the diagonal, or in a
                    block on it, which is dense */
    int *order;  /* [n] measurements of a tile row */
    int *sensor; /* [n] whose they are, -1: of several */
} factor_ranks;

typedef struct factor factor;

typedef struct factor_kind {
    size_t size;   /* sizeof(factor_kind) */
    size_t object; /* size of its own struct, which begins with a factor */
    const char *name;
    const char *word; /* of compute.factor */
    bool together;    /* a panel of L is used by all targets while it is on the device */
    bool collective;  /* ranks use the same panels at the same time; implies together */
    bool compressed; /* look and ranks say what it is like, and its accuracy is chosen by results */
    bool split;      /* it is in split FP16 and solves by fp16_factor_divide (factor/fp16.h) */
    bool on_host;    /* it is kept, or computed, in the host's memory */
    bool distributed;  /* ranks with targets each compute one together, and each has a part of it */
    bool shares_panel; /* `panel` of the factor is set */
    int levels;        /* of accuracy of W that differ in the solve, 0: none */
    int residuals;     /* about so many residuals of W with Cmm0 itself that a solve takes */

    /* Adds items of memory to a plan (plan_add). */
    void (*bytes)(const sys *s, plan *p);
    /* NULL, or bytes of the host's memory, where `targets` fit into the device's. */
    size_t (*host)(const sys *s, const plan *p, int targets);

    /* Collective. f: kind and e are set, the rest is zero. Takes memory; e and proj, P on the
     * device (rows x t), stay until close. What fails on this rank alone at the end need not be
     * agreed upon. close releases what open and make took, also after a failure of open. */
    status (*open)(factor *f, const plan *p, const double *proj);
    void (*close)(factor *f);

    /* NULL: nothing. Memory of n targets (W, Y), which a factor can use while no W is alive,
     * follows `ground` doubles: the first of them the factor's own all the time, `kept` of the
     * product. room: doubles from the start of all that it wants; set_workspace says where it
     * starts. */
    int64_t (*ground)(const factor *f);
    int64_t (*room)(const factor *f, int n, int64_t kept);
    status (*set_workspace)(factor *f, int n, double *room, int64_t kept);

    /* Collective. Cmm0 of a profile and its factor; times and flops, here and in solve, go into the
     * report. *minor: order of the first leading minor that is not positive, as far as this rank
     * knows, 0: none. */
    status (*make)(factor *f, const profile *p, int *minor);
    /* W := W Cmm0^-1 for n blocks of rows. NULL: `split`. */
    status (*solve)(factor *f, int n, const wrows *w);
    /* Collective. NULL, or of a factor whose solves are, on ranks that are not collective: after
     * those of a rank's targets, or none, local: what came of them. It returns when all ranks are
     * there, and the worst status. */
    status (*solved)(factor *f, status local);
    /* NULL: W is exact up to rounding; else, of a factor that refines, after a solve: W += R (L
     * L')^-1 of one target, R = B0 - W Cmm0 (rows x m, leading dimension its rows) in f->spare.
     * again: R is there as it was before the last step. */
    status (*refine)(factor *f, const wrows *w, bool again);
    /* NULL: W is exact up to rounding; else |W Cmm0 - B0| / |B0| that is to be expected. */
    double (*expected)(const factor *f);
    /* See linop_reduce_tolerance. NULL: more accurate by another one of its levels only. */
    status (*tighten)(factor *f, double excess, linop_step from, linop_step *again);

    /* Local, of a compressed factor: what the last one is like (form and difference are left out);
     * the same tile by tile, in arrays that are the caller's, also where it fails. */
    void (*look)(const factor *f, report_compression *c);
    status (*ranks)(const factor *f, factor_ranks *r);
} factor_kind;

struct factor { /* the first member of each kind's own struct */
    const factor_kind *kind;
    engine *e;
    factor_accuracy accuracy; /* of the next make and solves; make may leave a higher one */
    bool refines;             /* W is refined, whatever accuracy says: the product needs it */
    double *panel;            /* shares_panel: m x width, anybody's between its functions */
    double *spare;            /* where refine is: rows of W of a target x m, once W was refined */
};

/* Collective. *f: NULL on failure, which all ranks see. */
status factor_open(const factor_kind *kind, engine *e, const plan *p, const double *proj,
                   factor **f);
void factor_close(factor *f); /* local; NULL is fine */

extern const factor_kind factor_dense;         /* m x m on the device */
extern const factor_kind factor_dense_integer; /* the same by integers; solves targets together */
extern const factor_kind factor_host;          /* in the host's memory, streamed from there */
extern const factor_kind factor_fp16;          /* split FP16 on the device, computed there */
extern const factor_kind factor_fp16_host;     /* the same, computed in the host's memory */
extern const factor_kind factor_tlr;           /* compressed by tiles */
extern const factor_kind factor_tlr_host;      /* the same, out of core: in the host's memory */
extern const factor_kind factor_distributed;   /* block-cyclic over the ranks (ScaLAPACK) */
extern const factor_kind
    factor_distributed_own; /* the same, of ranks with a device and targets each */
/* Those in FP16 that solve in double precision: W is refined (fp16_refined.c). */
extern const factor_kind factor_fp16_refined, factor_fp16_host_refined;

#endif
