/* Shared by the files of the operator `half`. */
#ifndef MOAO_RESIDUAL_FP16_INTERNAL_H
#define MOAO_RESIDUAL_FP16_INTERNAL_H

#include "factor/cholesky.h"
#include "moao/fp16_factor.h"
#include "residual/fp16.h"
#include "residual/lattice_pairs.h"

typedef struct fp16 fp16;

typedef struct { /* the reference: W of one target in double precision, T panel by panel */
    linop base;
    fp16 *of;
    double *w;  /* v x m */
    int target; /* whose W that is; -1: nobody's */
} fp16_exact;

struct fp16 {
    linop base;
    fp16_exact exact;
    const profile *tor;
    int64_t v;
    int nk; /* constants: laser stars times axes */
    const double *proj;

    /* what the factor is made in */
    device_group group;
    cholesky made;  /* on the device, */
    linop *passing; /* or, else NULL, in the host's memory */
    int most, planned;

    fp16_factor *l;
    int64_t sample; /* rows of the right-hand side by which its tiles are chosen */
    double direction[2];
    backend_cov_target *target; /* which that is of, and of the reference's */
    void *work;                 /* of solves */
    size_t lwork;

    /* of linop_fp16_lattice_pairs: blocks of sensors on a common lattice by Fourier transforms, dt
     * by pieces */
    bool lattice_pairs;
    struct lattice_pairs like;
    int npiece;
    lattice_pairs_piece *piece;
    float *wt; /* v x m: W dT, where sum is a panel of it */

    /* lent: split FP16 parts of L; then an area in which one after the other lie */
    double *room;
    backend_f16 *dt; /* dT, panel by panel: the block on the diagonal, then what is below,
                        transposed */
    float *b32;      /* at the solve: B0 of a target and then its W, v x m; */
    backend_f16
        *b0[2]; /* split FP16 parts of B0, v x m, rows as D+; of the reference those of its W; */
    double *some[2]; /* v x width each: panels of B0 and of W in double precision; */
    double *columns; /* of the reference: m x width of Cmm0 or of T; */
    double *ctm64;   /* t x width */

    backend_f16 *dplus[2], *ctm[2]; /* v x t, t x width: halves and what they leave */
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
    double *host; /* pinned: constants, numbers; the former are 0 beside their diagonal */
};

enum { FP16_NUMBERS = 2 };

/* Pieces of sums that drift by 1e-7 of themselves at most, for what stands in the results in full.
 */
#define FP16_SHORT ((int64_t)64)

/* Of the current target: B0 W' (v x v), then W times `axes` (v x nk), in its own memory; halves of
 * W where W is kept. */
static inline double *fp16_axes(const fp16 *x, double *own) {
    return own + engine_aligned(x->v * x->v);
}

/* Leading dimension of n rows of FP16 numbers: a multiple of 8, which products on tensor cores
 * want. */
static inline int64_t fp16_rows(int64_t n) {
    return (n + 7) / 8 * 8;
}

static inline int64_t fp16_w_size(const fp16 *x) { /* of one of the two */
    return (fp16_rows(x->v) * x->base.e->m + 127) / 128 * 128;
}

static inline fp16_pair fp16_w(const fp16 *x, const wrows *w, int64_t j) {
    const int64_t ld = fp16_rows(x->v);
    const backend_f16 *hi = (const backend_f16 *)(const void *)w->w + j * ld;
    return (fp16_pair){hi, hi + fp16_w_size(x), ld, fp16_factor_exponent(x->l)};
}

/* Doubles of the split FP16 parts of L and of the area, in the lent room. */
int64_t fp16_place(int64_t m);
int64_t fp16_area(int64_t m, int64_t t, int64_t v, int64_t width);
/* Doubles that the factor takes in that room in transit, behind what it is made in itself. */
int64_t fp16_sampling(const fp16 *x);

/* fp16_solve.c */
status fp16_factor_of(linop *base, const profile *p, int *minor);
status fp16_right(linop *base, backend_cov_target *target);
status fp16_right_column(linop *base, int64_t j, double *out);
status fp16_solve(linop *base, int n, const wrows *w, double *const *own);
status fp16_get(linop *base, const wrows *w, int64_t j, int64_t n, double *out);
double fp16_expected(const linop *base);
/* b32, a right-hand side, becomes W, which is also split to hi and lo (fp16_rows(v) x m each). */
status fp16_divide(fp16 *x, backend_f16 *hi, backend_f16 *lo);
/* Waits. Exponent for m x n numbers on the device, of type t. */
status fp16_exponent(fp16 *x, backend_type t, int64_t m, int64_t n, const void *a, int *exponent);

/* fp16_exposure.c */
status fp16_load(linop *base, const profile *p);
status fp16_begin(linop *base, const wrows *w, double *own);
status fp16_columns(linop *base, const wrows *w, int64_t j, int64_t n, double *z, int64_t ldz);
status fp16_project(linop *base, backend_cov_target *target, int64_t j, int64_t n);
status fp16_outer(linop *base, const wrows *w, int64_t j, int64_t n);
status fp16_end(linop *base, const wrows *w, double *own, double *y);
status fp16_phase(linop *base, backend_cov_target *target, const wrows *w, int64_t np,
                  const double *px, const double *py, int64_t j, int64_t n);
status fp16_phase_end(linop *base, const wrows *w, int64_t np, double *ct);
double fp16_share(const linop *base);
status fp16_phase_share(linop *base, backend_cov_target *target, const wrows *w, int64_t np,
                        const double *px, const double *py, int64_t j, int64_t n, double *ct);

/* fp16_reference.c */
extern const linop_kind fp16_exact_kind;

#endif
