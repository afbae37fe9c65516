/* Operators: Cmm of a profile and its factor, in one of several formats. A format is a file of this
 * folder with a table of functions; the stages tor and obsseq know no format.
 *
 * The life of one: `open`; for each reconstructor `factor`, which makes Cmm0 = L L'; for each chunk
 * of targets `solve`, W = B0 Cmm0^-1 in place; for each exposure of the chunk `load`, which makes
 * its T (Cmm = T + T', T lower triangular with half the diagonal), then passes over the columns of
 * W T: `begin` with some rows of W, and for each panel of columns `panel`, then `columns`. What the
 * factor needs may go when T comes and the other way round: `solve` follows `factor` or exposures.
 *
 * Which rows are multiplied at a time is a matter of the format: where everything lies on the
 * device, the rows of one target pass over all columns; where panels are streamed from host memory
 * (`together`), all targets of the chunk use a panel while it is there. Where the ranks work in
 * lockstep, all of them use the same panel at the same time, every function but bytes, columns and
 * close is collective, and the rows of all targets of a rank are one block.
 *
 * An operator that is not exact is checked by the stages: a target is computed by it and by its
 * `reference`, another operator that shares its memory (obsseq/obsseq.h). One that works in
 * another precision than double has project, outer and end of its own: it keeps z = W T - P Ctm
 * and Y in its own types until `end` gives Y. */
#ifndef MOAO_OPERATOR_H
#define MOAO_OPERATOR_H

#include "engine/engine.h"

/* Rows of W, for all m columns. */
typedef struct {
    int slot;         /* of the first target that they belong to, in the chunk of this rank */
    int64_t rows, ld; /* rows >= 0, ld >= 1 */
    double *w;        /* rows x m; or what an operator with `store` keeps in their place */
} wrows;

typedef struct linop linop;

#define LINOP_ITEMS 8

typedef struct { /* what the bytes follow from; no device is needed */
    const sys *s;
    int64_t rows;              /* of W of a target */
    size_t width;              /* columns of a panel */
    int nlayer;                /* most of a profile */
    int64_t points;            /* of the pupil, where the residual phase is wanted, else 0 */
    int nrank, block, grid[2]; /* of collective ranks: block-cyclic layout */
    int tile;                  /* order of the tiles of a compressed factor, 0: chosen, */
    int order;                 /* and order of its measurements (tlr_order) */
    bool fp16;                 /* its columns that may be are kept in FP16 */
    int members;               /* ranks over which it is distributed, 0: each has all of it */
    double compressed;         /* bytes that such a factor is expected to take, 0: unknown */
    bool host;                 /* the device is the host itself */
} linop_case;

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

/* How exact W is, where that is not up to rounding. A run keeps these numbers, so that a resumed
 * one computes the same. level: the larger, the more accurate; one of kind->levels, or, where the
 * factor is compressed, of each tile a part of Frobenius norm noise 2^(-level / LINOP_OCTAVE) may
 * be dropped, noise the least eigenvalue of a subaperture's noise. */
#define LINOP_OCTAVE 8
#define LINOP_LEVEL 24 /* at first: an eighth of the noise */
typedef struct {
    int level;
    int turns;   /* how often a smaller tolerance was taken */
    bool refine; /* W is refined once with Cmm0 itself, which squares its error */
    bool dense;  /* nothing is dropped */
} linop_accuracy;

typedef enum { LINOP_NOTHING, LINOP_FACTOR, LINOP_SOLVE, LINOP_LOAD } linop_step;

typedef struct { /* ranks of the tiles of a compressed factor */
    int64_t n;   /* tile rows, and columns */
    float *rank; /* [n][n] row by row; of a dense tile its columns; NaN: above the diagonal, or in a
                    block on it, which is dense */
    int *order;  /* [n] measurements of a tile row */
    int *sensor; /* [n] whose they are, -1: of several */
} linop_ranks;

typedef struct linop_kind {
    size_t size; /* sizeof(linop_kind) */
    const char *name;
    const char *format; /* the word of compute.format that it computes; NULL: its name */
    bool exact;         /* exposures are those of dense matrices up to rounding; W is, too, unless
                           it is `expected` not to be */
    bool together;      /* a panel of columns is used by all targets while it is there */
    bool collective;    /* ranks use the same panels at the same time; implies together */
    bool differences;   /* load makes conditions of its own; else those of the profile are loaded */
    int width;          /* 0, or columns of a panel of a large system that fill a device evenly */

    /* The plan's. Adds items. */
    void (*bytes)(const linop_case *z, linop_bytes *b);

    /* NULL, or bytes of the host's memory, where `targets` of v rows fit into the device's. */
    size_t (*host)(size_t m, size_t v, size_t width, int targets);

    /* Collective. Takes memory; e and u->proj stay until close. */
    status (*open)(engine *e, const linop_setup *u, linop **o);
    void (*close)(linop *o); /* NULL is fine */

    /* NULL: nothing. Doubles of its own beside W of each target, which solve and the passes find
     * at own(k); and doubles that it can use in the memory of n targets (W, Y and the former) while
     * no W is alive: lend tells where they are, and who much there is of them. The first `ground`
     * of these are its own all the time. */
    int64_t (*own)(const linop *o);
    int64_t (*room)(const linop *o, int n);
    int64_t (*ground)(const linop *o);
    status (*lend)(linop *o, int n, double *room);

    /* NULL, or an operator that keeps W of a target (one block of rows) in a way of its own: how
     * many doubles that takes; its right-hand side P Ctm0 of an aimed target, and column j of that,
     * which solve follows; and columns j .. j + n of W, rows x n. */
    int64_t (*store)(const linop *o);
    status (*right)(linop *o, backend_cov_target *target);
    status (*right_column)(linop *o, int64_t j, double *out);
    status (*get)(linop *o, const wrows *w, int64_t j, int64_t n, double *out);

    /* Collective. Cmm0 of a profile and its factor; Times and flops, here and in solve, go
     * into the report. *minor: order
     * of the first leading minor that is not positive, as far as this rank knows, 0: none. */
    status (*factor)(linop *o, const profile *p, int *minor);
    /* W := W Cmm0^-1 for n blocks of rows; own[k]: of block k. */
    status (*solve)(linop *o, int n, const wrows *w, double *const *own);
    /* Collective. NULL, or of an operator whose solves are, on ranks that are not in lockstep:
     * after those of a rank's targets, or none, local: what came of them. It returns when all ranks
     * are there, and the worst status. */
    status (*solved)(linop *o, status local);

    /* Local. NULL, or a compressed factor: what the last one is like; form and difference are left
     * out. */
    void (*look)(const linop *o, report_compression *c);
    /* Local. The same, tile by tile; the arrays are the caller's, also where it fails. */
    status (*ranks)(const linop *o, linop_ranks *r);

    /* T of a profile. exposures: the reconstructor is that of the last factor. NULL: nothing. */
    status (*load)(linop *o, const profile *p);
    status (*begin)(linop *o, const wrows *w, double *own); /* NULL: nothing */
    status (*panel)(linop *o, int64_t j, int64_t n);        /* NULL: nothing */
    /* z (rows x n, leading dimension ldz) = W T(:, j:j+n). */
    status (*columns)(linop *o, const wrows *w, int64_t j, int64_t n, double *z, int64_t ldz);

    /* Local. NULL, or an operator whose T is approximated: entries of rows of T drawn at random, as
     * it is loaded, against those evaluated in double precision: root mean square and largest of
     * the errors of an entry of Cmm, in units of the least slope variance of these rows. Before
     * begin. */
    status (*check)(linop *o, uint64_t seed, double *rms, double *worst);

    /* NULL, or an operator in a precision of its own: z -= P Ctm of the target, Y += z W(:,
     * j:j+n)', and at the end y (rows x rows) in double precision. */
    status (*project)(linop *o, backend_cov_target *target, int64_t j, int64_t n);
    status (*outer)(linop *o, const wrows *w, int64_t j, int64_t n);
    status (*end)(linop *o, const wrows *w, double *own, double *y);

    /* The same for the residual phase, where project is left out: W Cpm(:, j:j+n)' of np points x,
     * y is added up, and at the end ct (rows x np) in double precision. What is left out of Cpm is
     * `share` times that of the reconstructor's profile, whose target has no wind. */
    status (*phase)(linop *o, backend_cov_target *target, const wrows *w, int64_t np,
                    const double *x, const double *y, int64_t j, int64_t n);
    status (*phase_end)(linop *o, const wrows *w, int64_t np, double *ct);
    double (*share)(const linop *o);
    /* NULL: in double precision, by W; or that share's W Cpm(:, j:j+n)' (W = 0 there at j = 0)
     * added to ct (rows x np), the reconstructor's profile loaded. */
    status (*phase_share)(linop *o, backend_cov_target *target, const wrows *w, int64_t np,
                          const double *x, const double *y, int64_t j, int64_t n, double *ct);

    /* See linop_reduce_tolerance. NULL: it cannot be more accurate than by another one of its
     * levels. */
    status (*tighten)(linop *o, double excess, linop_step from, linop_step *again);

    /* Levels of accuracy of W that differ in the solve, 0: none. NULL: W is exact up to rounding;
     * else |W Cmm0 - P Ctm0| / |P Ctm0| that is to be expected. */
    int levels;
    double (*expected)(const linop *o);
    /* Of its reference: make W of a target exact, which lies in direction dir [rad]; loads the
     * reconstructor's conditions. The passes of the reference take that W, which exact_rows has. */
    status (*sharpen)(linop *o, int target, const double dir[2]);
    wrows (*exact_rows)(linop *o, int slot);
} linop_kind;

struct linop { /* the first member of each format's own struct */
    const linop_kind *kind;
    engine *e;
    linop *reference;        /* of one that is not exact */
    linop_accuracy accuracy; /* of the next factor and solves; factor may leave a higher one */
};

extern const linop_kind linop_dense; /* factor and T on the device */
extern const linop_kind linop_host;  /* factor in the host's memory, streamed from host memory */
extern const linop_kind linop_fp16;  /* W by a factor in FP16, exposures by differences */
extern const linop_kind
    linop_fp16_lattice_pairs; /* half; sensors on a common lattice by Fourier transforms */
extern const linop_kind linop_fp16_host;   /* the same; the factor is made in the host's memory */
extern const linop_kind linop_tlr;         /* factor compressed by tiles */
extern const linop_kind linop_toeplitz;    /* dense; exposures by pairs of sensors, in floats */
extern const linop_kind linop_distributed; /* block-cyclic over the ranks, in the host's memory */

/* Local. A format of that name, NULL: none. Others are registered, by a program that has them,
 * before the first use; the variable MOAO_OPERATOR names the one that a run takes. A table of
 * another size is refused. */
const linop_kind *linop_find(const char *name);
status linop_register(const linop_kind *kind);

/* Local. The word of compute.format that a kind computes. */
static inline const char *linop_format(const linop_kind *kind) {
    return kind->format != NULL ? kind->format : kind->name;
}

/* Local. The number that a checkpoint keeps of a kind, from 1 on, the same in every version; and
 * the kind of a number, NULL: none. */
int linop_number(const linop_kind *kind);
const linop_kind *linop_numbered(long number);

static inline status linop_load(linop *o, const profile *p) {
    return o->kind->load != NULL ? o->kind->load(o, p) : MOAO_OK;
}

/* Be more accurate from now on, as results differ by `excess` times what is allowed (INFINITY: by
 * no number). from: the first step that may be made again; *again: the first one that has to be,
 * for that to hold; LINOP_NOTHING: it cannot be more accurate. The same on every rank. */
status linop_reduce_tolerance(linop *o, double excess, linop_step from, linop_step *again);

/* Local. A part of what an operator takes beside its targets. */
void linop_add(linop_bytes *b, const char *name, size_t bytes);

#endif
