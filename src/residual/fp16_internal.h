/* Mixed precision, by differences. With W Cmm0 = B0 = D+ Ctm0, dT the lower triangle (diagonal
 * halved) of the difference dC = Cmm - beta Cmm0 without tip-tilt constants, K and K0 those
 * constants, and any beta, Y = (W dT + 1/2 W (K - beta K0) - D+ (Ctm - beta Ctm0)) W' - beta/2 B0
 * W' is what products in double precision make, but for an antisymmetric part. The differences are
 * small, so their products may be of low precision: they are products of FP16 numbers on tensor
 * cores, and the entries come in single precision. Of the two other terms, B0 W' is made of split
 * FP16 a number, with sums that do not drift, and those of rank one in W K W' in double precision.
 * Model section 6.
 *
 * W is kept in split FP16. A factor in split FP16 (factor/fp16.h) gives it so; of other factors it
 * is cast.
 *
 * How far all this is from double precision is seen on the sampled target of an exposure, which the
 * reference computes in double precision with a W of its own (fp16_reference.c). */
#ifndef MOAO_RESIDUAL_FP16_INTERNAL_H
#define MOAO_RESIDUAL_FP16_INTERNAL_H

#include "engine/lgs_tiptilt.h"
#include "factor/fp16.h"
#include "residual/lattice_pairs.h"
#include "residual/product.h"

typedef struct fp16 fp16;

typedef struct { /* the reference: W of one target in double precision, W T of all columns */
    product base;
    fp16 *of;
    double *w;   /* v x m */
    int target;  /* whose W that is; -1: nobody's */
    bool solved; /* w is a W that another factor than one in split FP16 gave for direction dir */
    double dir[2];
} fp16_exact;

typedef struct { /* of the reference by integers; moduli 0: native */
    int moduli;
    int8_t *w, *columns; /* residues of its W, and of columns of Cmm0 or T */
    int32_t *of_w, *of_columns;
    void *work;
    size_t lwork;
} fp16_integers;

struct fp16 {
    product base;
    fp16_exact exact;
    fp16_integers integers;
    const profile *tor;
    int64_t v, np; /* rows of a target's reconstructor W_k; points */
    int nk;        /* constants: laser stars times axes */
    const double *proj;
    bool split; /* the factor is in split FP16; else */
    int *ew;    /* [targets] W of each is cast with an exponent of its own */

    backend_cov_target *target; /* the sampled one */

    /* of product_fp16_lattice: blocks of sensors on a common lattice by Fourier transforms, dt
     * by pieces */
    bool lattice_pairs;
    struct lattice_pairs like;
    int npiece;
    lattice_pairs_piece *piece;
    float *wt; /* v x m: W dT, where sum is a panel of it */

    /* workspace, in which one after the other lie */
    backend_f16 *dt;    /* dT, panel by panel: the block on the diagonal, then what is below,
                           transposed */
    float *b32;         /* at the solve: B0 of a target and then its W, v x m; */
    backend_f16 *b0[2]; /* split FP16 parts of B0, v x m, rows as D+; of the reference those of its
                           W, and R or W T from b32 on; */
    double *some[2];    /* v x width each: panels of B0 and of W in double precision; */
    double *columns;    /* of the reference: a block of Cmm0 or of T; */
    double *ctm64;      /* t x width */

    backend_f16 *dplus[2], *ctm[2]; /* v x t, t x width: FP16 and what it leaves */
    backend_f16 *block; /* of Ctm - beta Ctm0 the columns of a sensor, t x 2 nsub of the largest; */
    int sensor;         /* whose they are, of the current target; -1: nobody's */
    backend_f16 *z;     /* v x width */
    float *wide;        /* width x m, t x width: covariances in transit to FP16 */
    float *diag;        /* width x width: a block of dT on the diagonal, 0 above it */
    float *sum, *y;     /* v x width, v x v */
    backend_f16 *cpm[2]; /* points x (width + 1): of both axes of width / 2 subapertures, or of one;
                            what that leaves, of the reconstructor's; a multiple of 8 points, the
                            last ones 0, for else products leave the fast kernels */
    float *ct;           /* v x so many points */
    int ep, ep0;         /* exponents of Cpm - beta Cpm0, and of Cpm0 */
    double *axes;        /* m x nk: 1 where a measurement is of that laser star and axis */
    double *kd;          /* v x nk: W K times `constants` */
    double *constants;   /* nk x nk, diagonal: split FP16 parts of K - beta K0 */
    double *numbers;     /* some, on the device */
    int ed, eb, et, ec, es, ez; /* exponents: D+, B0, dT, Ctm - beta Ctm0, W dT, z */
    double beta;
    double *host; /* pinned: constants, numbers; the former are 0 off their diagonal */
};

enum { FP16_NUMBERS = 2 };

/* Pieces of sums that drift by 1e-7 of themselves at most, for what stands in the results in full.
 */
#define FP16_SHORT ((int64_t)64)

/* Of the current target: B0 W' (v x v), then W times `axes` (v x nk), in its own memory; FP16 parts
 * of W where W is kept. */
static inline double *fp16_axes(const fp16 *x, double *own) {
    return own + engine_aligned(x->v * x->v);
}

static inline int64_t fp16_w_size(const fp16 *x) { /* of one of the two */
    return (fp16_rows(x->v) * x->base.e->m + 127) / 128 * 128;
}

static inline int fp16_exponent_of(const fp16 *x, const wrows *w) {
    return x->split ? fp16_factor_w_exponent(x->base.f) : x->ew[w->slot];
}

static inline fp16_pair fp16_w(const fp16 *x, const wrows *w, int64_t j) {
    const int64_t ld = fp16_rows(x->v);
    const backend_f16 *hi = (const backend_f16 *)(const void *)w->w + j * ld;
    return (fp16_pair){hi, hi + fp16_w_size(x), ld, fp16_exponent_of(x, w)};
}

/* Doubles of x->columns: a panel, and in small systems a block of Cmm0 with what pads it. */
static inline int64_t fp16_columns_room(int64_t m, int64_t width) {
    const int64_t least = (int64_t)128 * 128;
    return m * width > least ? m * width : least;
}

/* Numbers of x->wide: width columns of the longest. */
static inline int64_t fp16_wide(const fp16 *x) {
    const engine *e = x->base.e;
    const int64_t rows = e->m > x->np ? e->m : x->np;
    return e->width * (rows > e->t ? rows : e->t);
}

/* Doubles of the area. */
int64_t fp16_area(int64_t m, int64_t t, int64_t v, int64_t width);

/* fp16_w.c */
status fp16_right(product *base, backend_cov_target *target);
status fp16_right_column(product *base, int64_t j, double *out);
status fp16_keep(product *base, const double dir[2], const wrows *solved, const wrows *w,
                 double *own);
status fp16_get(product *base, const wrows *w, int64_t j, int64_t n, double *out);
/* Waits. Exponent for m x n numbers on the device, of type t. */
status fp16_exponent(fp16 *x, backend_type t, int64_t m, int64_t n, const void *a, int *exponent);

/* fp16_exposure.c */
status fp16_load(product *base, const profile *p);
int fp16_models(const profile *tor, const profile *p, bool lag, engine_model *m);
status fp16_begin(product *base, const wrows *w, double *own);
status fp16_columns(product *base, const wrows *w, int64_t j, int64_t n, double *z, int64_t ldz);
status fp16_project(product *base, backend_cov_target *target, int64_t j, int64_t n);
status fp16_outer(product *base, const wrows *w, int64_t j, int64_t n);
status fp16_end(product *base, const wrows *w, double *own, double *y);
status fp16_phase(product *base, backend_cov_target *target, const wrows *w, matcov_points p,
                  int64_t j, int64_t n);
status fp16_phase_end(product *base, const wrows *w, int64_t np, double *ct);
status fp16_load_lag(product *base, const profile *p);
double fp16_share(const product *base);
status fp16_phase_share(product *base, backend_cov_target *target, const wrows *w, matcov_points p,
                        int64_t j, int64_t n, double *ct);

/* fp16_integer.c. Memory for the reference; fp16_integers_take: W of the reference has changed;
 * fp16_exact_gemm: Z += alpha W(:, from: from + k) op(T), op(T) k x n, with from % INTEGER_STEP
 * rows of zeros in front of it where moduli > 0. */
size_t fp16_integers_bytes(const backend *be, int moduli, int64_t m, int64_t v, int64_t width);
status fp16_integers_open(fp16 *x, int moduli);
void fp16_integers_close(fp16 *x);
status fp16_integers_take(fp16 *x);
status fp16_exact_gemm(fp16 *x, char trans, int64_t from, int64_t k, int64_t n, double alpha,
                       const double *t, int64_t ldt, double *z, int64_t ldz);

/* fp16_reference.c */
extern const product_kind fp16_exact_kind;

#endif
