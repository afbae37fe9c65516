/* Products of an exposure: Y = (W T - P Ctm) W' of a target, where Cmm = T + T' under the
 * exposure's conditions, T lower triangular with half the diagonal, with W of any factor
 * (factor/factor.h). One table of functions for each way in which they are computed.
 *
 * The life of one: `open` with the factor that W comes from; for each exposure `load`, which
 * prepares T; then passes over the columns of W T: `begin` with some rows of W, and for each panel
 * of columns `panel`, then `columns`. Where `own_products`, it keeps z = W T - P Ctm and Y in types
 * of its own until `end` gives Y.
 *
 * Targets pass one by one, or, where `together`, all targets of a chunk use a panel while it is
 * there. One that is not exact is checked by the stages: a target is computed by it and by its
 * `reference`, another product with the same factor (obsseq/obsseq.h). */
#ifndef MOAO_PRODUCT_H
#define MOAO_PRODUCT_H

#include "engine/group.h"
#include "factor/factor.h"

typedef struct product product;

enum { PRODUCT_MODELS = 3 };

typedef struct product_kind {
    size_t size;   /* sizeof(product_kind) */
    size_t object; /* size of its own struct, which begins with a product */
    const char *name;
    const char *word; /* of compute.product */
    bool exact;       /* exposures are those of dense matrices up to rounding, given W */
    bool together;    /* a panel of columns is used by all targets while it is there */
    bool
        differences; /* load prepares conditions of its own; else those of the profile are loaded */
    bool fp16;       /* large products are of FP16 numbers */
    bool own_products; /* project, outer and end */
    bool own_phase;    /* phase and phase_end */
    bool own_w;        /* W of a target is kept in a way of its own: store, right, keep, get */
    bool leaves_share; /* a part of Cpm is left out: share, phase_share, load_lag */
    bool refined;      /* what W Cmm0 leaves of B0 counts in full: compressed factors refine W */
    int width;         /* 0, or columns of a panel of a large system that fill a device evenly */

    /* Adds items of memory to a plan (plan_add), and what a target takes. */
    void (*bytes)(const sys *s, const factor_kind *f, plan *p);

    /* As open and close of a factor; the factor stays until close. */
    status (*open)(product *x, const plan *p, const double *proj);
    void (*close)(product *x);

    /* NULL: nothing. Doubles in addition to W of each target; doubles of its own in front of all W,
     * which may be a factor's while no W is alive, and where they are. */
    int64_t (*own)(const product *x);
    int64_t (*ground)(const product *x);
    status (*set_workspace)(product *x, double *room);

    /* NULL, or after a factor of the profile's Cmm0 was made. */
    status (*made)(product *x, const profile *p);

    /* own_w. Doubles of W of a target. right, right_column: of a `split` factor, whose W has no
     * other form: the right-hand side P Ctm0 of an aimed target, and column j of that. Columns j ..
     * j + n of W, rows x n. */
    int64_t (*store)(const product *x);
    status (*right)(product *x, backend_cov_target *target);
    status (*right_column)(product *x, int64_t j, double *out);
    status (*get)(product *x, const wrows *w, int64_t j, int64_t n, double *out);
    /* NULL, or after a solve (instead of one, where the factor is split) with W of one target, in
     * direction dir [rad], in `solved`: what it keeps of it, W in w (own_w) and more in own. */
    status (*keep)(product *x, const double dir[2], const wrows *solved, const wrows *w,
                   double *own);

    status (*load)(product *x, const profile *p);             /* NULL: nothing */
    status (*begin)(product *x, const wrows *w, double *own); /* NULL: nothing */
    status (*panel)(product *x, int64_t j, int64_t n);        /* NULL: nothing */
    /* z (rows x n, leading dimension ldz) = W T(:, j:j+n). */
    status (*columns)(product *x, const wrows *w, int64_t j, int64_t n, double *z, int64_t ldz);

    /* differences: the models that load asks engine_load_model for with the reconstructor of
     * profile tor, with lag that of load_lag before them: their first members, PRODUCT_MODELS at
     * most. Returns how many. Local. */
    int (*models)(const profile *tor, const profile *p, bool lag, engine_model *m);

    /* Local. NULL, or where T is approximated: entries of rows of T drawn at random, as it is
     * loaded, against those evaluated in double precision: root mean square and largest of the
     * errors of an entry of Cmm, in units of the least slope variance of these rows. Before begin.
     */
    status (*check)(product *x, uint64_t seed, double *rms, double *worst);

    /* NULL: gemm; else, without own_products, y (rows x rows) += z W(:, j:j+n)' with such a z; y is
     * 0 at j = 0, whatever it was. */
    status (*gram)(product *x, const wrows *w, int64_t j, int64_t n, const double *z, int64_t ldz,
                   double *y);

    /* own_products. z -= P Ctm of the target, Y += z W(:, j:j+n)', and at the end y (rows x rows)
     * in double precision. */
    status (*project)(product *x, backend_cov_target *target, int64_t j, int64_t n);
    status (*outer)(product *x, const wrows *w, int64_t j, int64_t n);
    status (*end)(product *x, const wrows *w, double *own, double *y);

    /* own_phase: the residual phase, where project is left out: W Cpm(:, j:j+n)' of some points
     * is added up, and at the end ct (rows x points) in double precision. leaves_share: what is
     * left out of Cpm is `share` times that of the reconstructor's profile, whose target has no
     * wind; phase_share adds that share's W Cpm(:, j:j+n)' (W = 0 there at j = 0) to ct (rows x
     * points), the reconstructor's profile loaded. load_lag, local, in place of load: from now on
     * phase and phase_end are of what wind has changed of Cpm when the target is aimed shifted,
     * Cpm(p) moved less Cpm(p) not moved, without a part left out; until the next load. */
    status (*phase)(product *x, backend_cov_target *target, const wrows *w, matcov_points p,
                    int64_t j, int64_t n);
    status (*phase_end)(product *x, const wrows *w, int64_t np, double *ct);
    double (*share)(const product *x);
    status (*phase_share)(product *x, backend_cov_target *target, const wrows *w, matcov_points p,
                          int64_t j, int64_t n, double *ct);
    status (*load_lag)(product *x, const profile *p);

    /* See linop_reduce_tolerance. NULL: it cannot be more accurate. */
    status (*tighten)(product *x, double excess, linop_step from, linop_step *again);

    /* NULL, or of a reference with a W of its own: of a target, in direction dir [rad]; loads the
     * reconstructor's conditions. Its passes take that W, which exact_rows has. With x->group
     * collective in it: all of its devices have that W, unless the sampler fails. */
    status (*sharpen)(product *x, int target, const double dir[2]);
    wrows (*exact_rows)(product *x, int slot);
} product_kind;

struct product { /* the first member of each kind's own struct */
    const product_kind *kind;
    engine *e;
    factor *f;           /* that W comes from */
    product *reference;  /* of one that is not exact: closed with it */
    device_group *group; /* NULL, or whose devices sample a target together, */
    int sampler;         /* for this member of it */
    bool whole_y; /* Y of all targets comes from the reference: load prepares no T, and phase is all
                     that is asked for */
    double *solve_in; /* own_w: NULL, or where W of one target is solved for, rows x m; else that is
                         in its place */
};

/* Whether this rank computes all of a pass, or the part of one that it samples alone. */
static inline bool product_samples(const product *x) {
    return x->group == NULL || x->group->rank == x->sampler;
}
/* Which one in turn of the group's members has item i of a pass, from the sampler on. */
static inline int product_owner(const product *x, int64_t i) {
    return x->group == NULL ? 0 : (int)((x->sampler + i) % x->group->size);
}

extern const product_kind product_stored;     /* T in the other triangle of a dense factor */
extern const product_kind product_integer;    /* T as residues, with a dense factor by integers */
extern const product_kind product_panels;     /* T panel by panel */
extern const product_kind product_streamed;   /* the same, by the streams of a factor on the host */
extern const product_kind product_collective; /* panels of which each rank makes a part */
extern const product_kind product_fp16;       /* differences to the reconstructor's Cmm0 in FP16 */
extern const product_kind product_fp16_lattice; /* the same, by Fourier transforms on a lattice */
extern const product_kind product_toeplitz;     /* pairs of sensors in FP32, by transforms */

/* Collective. *x: NULL on failure, which all ranks see. */
status product_open(const product_kind *kind, engine *e, const plan *p, const double *proj,
                    factor *f, product **x);
void product_close(product *x); /* local; NULL is fine */

/* Local. The product in double precision that goes with a factor. */
const product_kind *product_exact(const factor_kind *f);

#endif
