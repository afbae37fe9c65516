/* Shared by the files of this folder. */
#ifndef MOAO_RESIDENT_INTERNAL_H
#define MOAO_RESIDENT_INTERNAL_H

#include "backend/backend_matcov.h"
#include "resident/group.h"
#include "resident/resident.h"

typedef struct resident_stream resident_stream; /* stream.c */
struct mixed;                                   /* mixed.h */

struct resident {
    resident_setup u;
    const backend *be;
    const backend_matcov *mat;
    backend_ctx *ctx, *behind; /* behind: work that gives way to that of ctx */
    int device;
    device_group group; /* whose members make a factor together */
    rowteam team;       /* for results and progress: groups of one rank */
    rowchunk ch;        /* the targets solved last */
    int64_t m, t, v, w; /* w: columns of a panel */
    int64_t block;      /* columns of a panel of the factor */
    int64_t strip;      /* columns of a strip, which one member of the group makes; divides block */
    const profile *tor;
    matcov *mc; /* the profile loaded last */
    backend_cov *cov;
    backend_cov_target *target; /* the one aimed at; streamed: one of the stream's */
    resident_stream *stream; /* NULL: the factor is on the device too, `a` and `diag` hold it and T
                              */
    const backend_psf *img;
    backend_imager *imager;
    /* on the device */
    double *a;       /* m x m: L, and above the blocks on the diagonal T' */
    double *diag;    /* w x m: blocks of T on the diagonal side by side, 0 above their diagonals */
    double *dplus;   /* v x t */
    double *ctm, *z; /* t x w, v x w */
    double *y;       /* v x v */
    double *sum, *mtt;        /* stationary averages: of Y + Y', of D+ Ctt D+' */
    double *sample, *columns; /* v x n, m x n */
    double **wt;              /* [nw] v x m: W of a target */
    int nw, most;             /* targets that have room; that a rank gets at most */
    struct mixed *mixed;      /* NULL: everything in double precision */
    int *info;                /* [factor_strips] */
    void *work;
    size_t lwork;
    probe *look; /* what the exposure in hand is checked by; NULL: nothing */
    /* on the host */
    double *host[2]; /* v x n: sampled residual */
    double *average; /* mtt on its way */
};

/* Columns of the panel at j. */
static inline int64_t resident_width(const resident *r, int64_t j, int64_t end) {
    return end - j < r->w ? end - j : r->w;
}

/* Local. Make p the profile of the covariances to come. */
status resident_load(resident *r, const profile *p);

/* Local. The same of covariances prepared already; takes them, also when it fails. */
status resident_use(resident *r, matcov *mc);

/* Local, in stream order. out (v x n) = alpha D+ Ctm(:, j..j+n) + beta out for the target aimed at;
 * Ctt in the place of Ctm when `truth`. */
status resident_project(resident *r, bool truth, int64_t j, int64_t n, double alpha, double beta,
                        double *out);

/* gemm of doubles without workspace. */
status resident_gemm(resident *r, char ta, char tb, int64_t m, int64_t n, int64_t k, double alpha,
                     const double *a, int64_t lda, const double *b, int64_t ldb, double beta,
                     double *c, int64_t ldc);

/* Local. q and y of the probe's target number `target` from W (v x m) and Y (v x v), when it looks
 * at that one. Waits then. */
status resident_probe(resident *r, int target, const double *w, const double *y);

/* Local. comm_flip of a number on the device, where comm_flips says so. */
status resident_flip(resident *r, const char *where, double *x);

/* Copy between host and device, in stream order: contiguous. */
status resident_copy(resident *r, double *dst, const double *src, int64_t count);

/* Local. Wait for the device, and learn of its errors, or that another rank failed. */
status resident_sync(resident *r);

/* Collective. As comm_agree, for what ends the run: other ranks leave their work, and the message
 * says how to go on after a failure of the device. */
status resident_agree(const resident *r, status st);

/* Memory of the device; MOAO_MEMORY says what it was for and what to do. */
status resident_array(resident *r, size_t bytes, const char *what, void **p);
status resident_doubles(resident *r, int64_t count, const char *what, double **p);

/* --- the factor on the device (factor.c), all but the last local */

/* Columns of a panel of it, of a strip of such a panel, number of strips, and bytes of work that it
 * needs. */
int64_t factor_width(int64_t m, int64_t panel);
int64_t factor_strip(int64_t width);
int64_t factor_strips(const resident *r);
size_t factor_work(const resident *r);
/* Collective in the group, but for a failure, on which this rank ends the run if it has a group.
 * Cmm0 of a profile, and its factor; *minor: as stream_factor, among this rank's strips. */
status factor_make(resident *r, const profile *p, int *minor);

/* --- the factor in the host's memory (stream.c), all local */

/* Takes the memory of the device for W of up to r->most targets, for pieces of the factor and for
 * what the dense operations need, and the host's for the factor. Sets r->nw, r->wt. */
status panels_open(resident *r);
void panels_close(resident *r);

/* Cmm0 of a profile, and its factor; *minor: order of the first minor that is not positive, 0:
 * none. */
status stream_factor(resident *r, const profile *p, int *minor);
/* W of the targets of the chunk from their right-hand sides, all at once. */
status stream_solve(resident *r);
/* Y = (W T - D+ Ctm) W' of all targets of the chunk for the profile loaded; the k-th stays on the
 * device as stream_y(r, k), v x v. */
status stream_residuals(resident *r);
double *stream_y(const resident *r, int k);

#endif
