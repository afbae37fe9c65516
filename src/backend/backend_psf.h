/* Point-spread functions in a backend's memory: stationary average of a covariance, phase
 * covariance, OTFs and images. The conventions of backend.h hold: column-major, int64_t sizes, work
 * goes into the stream of the context, the same call with the same data gives the same bits.
 *
 * The life of it: a psf_model describes mirror, grids and wavelengths (psf/psf.h makes it, for
 * nothing); `open` takes memory and plans; `load` gives the fitting error of a profile. For each
 * target `average` makes sums by separation from a covariance in the backend's memory, `compute`
 * (or `images`) puts all that follows into the stream, with results for one of PSF_SLOTS slots, and
 * `collect` waits for that slot alone: a target's results are fetched while the next one is
 * computed. After `open` nothing allocates, and only `collect` waits (`load` at most for the
 * transfer of the load before). All calls with one backend_imager belong to one context. Model
 * section 7. */
#ifndef MOAO_BACKEND_PSF_H
#define MOAO_BACKEND_PSF_H

#include "moao/backend.h"
#include <math.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PSF_SLOTS 2

/* One of several mirrors, or one that is not on the pupil: actuators p_a = (place - n/2) pitch,
 * influence functions exp(-|x - p_a|^2/(2 x0^2)), of which a target in direction d sees those at
 * x + d altitude. */
typedef struct {
    int n, nact, first;         /* pitches across; actuators, the number of the first's command */
    const int *place;           /* [nact] y (n + 1) + x, increasing */
    double pitch, x0, altitude; /* [m] */
    int reach;                  /* pitches beyond which an influence function is nil */
} psf_model_mirror;

/* All arrays are borrowed, and stay until the backend_imager is closed. A separation (dx, dy), both
 * from -n to n, is stored at (dy + n) (2 n + 1) + dx + n; grids hold u = 0..P-1 slow, v fast. */
typedef struct {
    int n;                /* subapertures across the mirror */
    int k, N, P, reach;   /* pixels per pitch, of the grid, of the support, of the kernel */
    int crop;             /* side of the images that are kept, even, at most N */
    double pixel;         /* of the grid [m] */
    double lambda_ref;    /* wavelength of psf_fit_model [m] */
    int nlambda, nbox;    /* nlambda >= 1 */
    const double *lambda; /* [nlambda] [m] */
    const double *box;    /* [nbox] sides of the ensquared-energy boxes [rad] */
    int nact;             /* actuators, by row (y) and column of the mirror; of several: of all */
    const int *place;     /* [nact] y (n + 1) + x, increasing */
    const double *weight; /* [nact] */
    const double *norm;   /* [2n+1][2n+1] sum of products of weights by separation */
    const double *kernel; /* [2 reach + 1] autocorrelation of the influence function, one axis */
    int ntel;             /* planes of tel: 1, or nlambda */
    const double *tel;    /* [ntel][P][2 P - 1] OTF_tel, v from 1 - P on */
    const int *vmax;      /* [P] largest |v| inside the support */
    /* of the residual phase on the pupil; lattice 0: not wanted. Separations are then those of a
     * lattice (psf/psf_phase.h), in number nsep^2, as norm */
    int lattice, nsep, np;   /* rows across the diameter; 2 lattice + 1; points */
    int shift;               /* 1: odd rows are shifted by half a step; 0: a square lattice */
    int taps;                /* lattice points from which one of the grid is made, per axis */
    const int *point_row;    /* [lattice + 1] first point of each row of the lattice */
    const int *point_column; /* [np] */
    /* pairs of sampled points with all, for the mean of exp(-D/2) (psf/psf_pairwise.c) */
    int nsample;           /* 0: not wanted */
    bool always;           /* whatever the variance, else where psf_average_needed */
    const int *sample;     /* [nsample] points, increasing */
    const int *sample_of;  /* [np] number among them, or -1 */
    const int *sample_row; /* [lattice + 1] first of each row of the lattice */
    int rings;             /* lengths of separations in steps of the lattice, rounded: less */
    const int *ring_of;    /* [nsep][nsep] */
    const double *sampled; /* [nsep][nsep] sampled pairs of a separation and its opposite */
    int if_reach;          /* pitches beyond which an influence function is nil */
    const double *if_y, *if_x[2]; /* [lattice][n + 1] its factors, along x in even and odd rows */
    const int *tap_x[2], *tap_y;  /* [P], [2 P - 1] first lattice point */
    const double *tap_wx[2], *tap_wy; /* [P][taps], [2 P - 1][taps] */
    /* several mirrors in the place of the one above, whose if_y and if_x do not count then */
    int nmirror; /* 0: none */
    const psf_model_mirror *mirror;
    double corner, step; /* of the lattice: x and y of the pupil's square, a row's height [m] */
    struct psf *host;    /* what it was made of, for the CPU backend */
} psf_model;

typedef struct {
    double variance;            /* at lambda_ref [rad^2] */
    const double *d;            /* [P][P] D_fit at lambda_ref, one quadrant */
    const struct psf_fit *host; /* for the CPU backend: outlives the next load */
} psf_fit_model;

typedef struct backend_imager backend_imager;

typedef status psf_average_op(backend_imager *p, const double *y, int64_t ldy, bool both,
                              double *sum);
typedef status psf_aim_op(backend_imager *p, const double dir[2]);
typedef status psf_pairs_op(backend_imager *p, const double *y, int64_t ldy, const double *ct,
                            int64_t ldct, double *sum, float *pairwise);
typedef status psf_compute_op(backend_imager *p, int slot, const double *sum, const double *common,
                              const float *pairwise);
typedef status psf_logs_op(backend_imager *p, const double *sum, const float *pairwise,
                           double *logs);
typedef status psf_images_op(backend_imager *p, int slot, const double *sum, const double *common,
                             const double *logs);
typedef status psf_collect_op(backend_imager *p, int slot, double *scalars, float *images);

typedef struct backend_psf {
    size_t size; /* sizeof(backend_psf) */

    /* Device memory [bytes] that open takes. */
    size_t (*bytes)(const psf_model *m);

    /* close(NULL) is fine; close before the context. load: NULL for no fitting error, which is also
     * the state after open. */
    status (*open)(backend_ctx *ctx, const psf_model *m, backend_imager **p);
    void (*close)(backend_imager *p);
    status (*load)(backend_imager *p, const psf_fit_model *f);

    /* sum[(2n+1)^2] = weighted sums by separation of the nact x nact matrix y: sum(delta) of w_a
     * w_b y(a, b), delta = position of b minus that of a. When `both`, y stands for y + y'. */
    psf_average_op *average;

    /* Shapes that `pairs` has from now on are those that a target in direction dir [rad] sees; (0,
     * 0) after open. Nothing where there is one mirror on the pupil. */
    psf_aim_op *aim;

    /* The same sums where psf_model.lattice > 0: of the residual phase at pairs of points (model
     * section 7). y: nact x nact, W Cmm W' = y + y'; ct: nact x np, W Cpm' [m^2]. pairwise (NULL:
     * not wanted; needs psf_model.nsample > 0): S(x, x') of sampled points x with all, np x nsample
     * [m^2].
     */
    psf_pairs_op *pairs;

    /* PSFs at every wavelength of sum + common (NULL: sum alone) under the fitting error loaded
     * last, for `slot`, 0 .. PSF_SLOTS-1, whose results were collected before. pairwise: those of
     * `sum`, for the mean of exp(-D/2) where the model's `average` asks for it; NULL: images of the
     * mean of D. All may be overwritten by later work of the stream. */
    psf_compute_op *compute;

    /* ln c (model section 7) of every wavelength, whatever its variance, from sums and single pairs
     * of `pairs`: logs [nlambda][nsep][nsep]. Needs psf_model.nsample > 0. */
    psf_logs_op *logs;

    /* compute with what logs made, or what was interpolated of it, in place of single pairs; logs
     * NULL: images of the mean of D. */
    psf_images_op *images;

    /* Waits for the slot: scalars [nlambda][3 + nbox] (Strehl, FWHM [rad], residual variance
     * [rad^2], ensquared energies) and images [nlambda][crop][crop] (NULL: not wanted), as in
     * psf/psf.h, both in any host memory. MOAO_NUMERIC when a result is not finite; a backend that
     * does not put work off says so in compute. */
    psf_collect_op *collect;
} backend_psf;

/* MOAO_NUMERIC, with its message, unless Strehl ratio and variance at a wavelength [m] are finite.
 */
static inline status psf_finite(double lambda, double strehl, double variance) {
    if (strehl - strehl == 0 && variance - variance == 0)
        return MOAO_OK;
    return status_fail(MOAO_NUMERIC,
                       "PSF at %g um: the covariance of the commands is not finite, or far "
                       "from positive (residual variance %g rad^2)",
                       lambda * 1e6, variance != variance ? NAN : variance); /* without sign */
}

#ifdef __cplusplus
}
#endif
#endif
