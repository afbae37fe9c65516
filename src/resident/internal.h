/* Shared by the files of this folder. */
#ifndef MOAO_RESIDENT_INTERNAL_H
#define MOAO_RESIDENT_INTERNAL_H

#include "backend_matcov.h"
#include "resident/resident.h"

struct resident {
    resident_setup u;
    const backend *be;
    const backend_matcov *mat;
    backend_ctx *ctx;
    rowteam team;       /* for results and progress: groups of one rank */
    rowchunk ch;        /* the targets solved last */
    int64_t m, t, v, w; /* w: columns of a panel */
    const profile *tor;
    matcov *mc; /* the profile loaded last */
    backend_cov *cov;
    backend_cov_target *target;
    /* on the device */
    double *a;       /* m x m: L, and above the blocks on the diagonal T' */
    double *diag;    /* w x m: blocks of T on the diagonal side by side, 0 above their diagonals */
    double *dplus;   /* v x t */
    double *ctm, *z; /* t x w, v x w */
    double *y;       /* v x v */
    double *sample, *columns; /* v x n, m x n */
    double **wt;              /* [nw] v x m: W of a target */
    int nw;
    int *info;
    void *work;
    size_t lwork;
    /* on the host */
    double *host[3]; /* v x v: Y of two targets in turn, D+ Ctt D+' */
};

/* Columns of the panel at j. */
static inline int64_t resident_width(const resident *r, int64_t j, int64_t end) {
    return end - j < r->w ? end - j : r->w;
}

/* Local. Make p the profile of the covariances to come. */
status resident_load(resident *r, const profile *p);

/* Local, in stream order. out (v x n) = alpha D+ Ctm(:, j..j+n) + beta out for the target aimed at;
 * Ctt in the place of Ctm when `truth`. */
status resident_project(resident *r, bool truth, int64_t j, int64_t n, double alpha, double beta,
                        double *out);

/* gemm of doubles without workspace. */
status resident_gemm(resident *r, char ta, char tb, int64_t m, int64_t n, int64_t k, double alpha,
                     const double *a, int64_t lda, const double *b, int64_t ldb, double beta,
                     double *c, int64_t ldc);

/* Copy between host and device, in stream order: contiguous. */
status resident_copy(resident *r, double *dst, const double *src, int64_t count);

#endif
