/* Point-spread functions on a GPU: what the kernels share with their callers. Names and grids are
 * those of src/psf/psf_plan.h, with one plane for each wavelength. */
#ifndef MOAO_GPU_PSF_CUH
#define MOAO_GPU_PSF_CUH

#include "backend/backend_psf.h"
#include "gpu/core/capability.h"
#include "psf/psf_formula.h"
#include <cuda_runtime.h>
#include <cufft.h>

struct gpu_psf_wave { /* what a wavelength scales */
    double phase;     /* (2 pi / lambda)^2 */
    double fit;       /* (lambda_ref / lambda)^2 */
    double pixel;     /* of the image [rad] */
};

/* A mirror as a target sees it. Along an axis the actuator at a place of the lattice, in quarters
 * q of a row's height, has the number middle + q per_quarter. */
struct gpu_psf_mirror {
    int side, nact, first, reach;
    bool fixed;             /* the one on the pupil of a psf_model without mirrors */
    const int *at;          /* [side][side]: actuator there, or -1 */
    double *if_y, *if_x[2]; /* [lattice][side] */
    double pitch, x0, altitude;
    double middle[2], per_quarter;
};

struct gpu_psf {
    int n, side, nsep, k, N, P, reach, crop, half, nlambda, nbox, nact; /* half: N/2 + 1 */
    int ntel, shift;                                                    /* psf_model's */
    /* tables */
    const int *place, *at;                /* [nact], [side][side]: actuator there, or -1 */
    const int *row;                       /* [side + 1] first actuator of each row */
    const int *vmax;                      /* [P] */
    const double *weight, *norm, *kernel; /* [nact], [nsep][nsep], [2 reach + 1] */
    const double *tel;                    /* [ntel][P][2 P - 1] */
    const double *direction;              /* [2][PSF_NDIR] cosines, sines */
    const double *step;                   /* [nlambda][nbox] side of a box in cycles per pixel */
    const double *sinc;                   /* [nlambda][nbox][P] */
    const gpu_psf_wave *wave;             /* [nlambda] */
    /* of the residual phase on the pupil: psf_model's, and the point of each place of the lattice
     */
    int np, lattice, taps, if_reach, wide;       /* lattice: rows of it, or 0; wide: nsep + taps */
    const int *point_row, *point_column, *point; /* point: [lattice][lattice], -1: none */
    int nmirror;
    gpu_psf_mirror *mirror; /* [nmirror] of the host; handed to kernels one by one */
    double corner, height;  /* psf_model.corner, step */
    const int *tap_x[2], *tap_y;
    const double *tap_wx[2], *tap_wy;
    /* of PSF_ROWS rows of the lattice: [.][side of a mirror][nact], [. lattice][nact], [.
     * lattice][np] */
    double *lines, *g, *z;
    /* of the mean of exp(-D/2), where nsample > 0: psf_model's, and work */
    int nsample, rings;
    bool always;
    const int *sample, *sample_of, *sample_row, *ring_of;
    const double *sampled;
    float *to;         /* [np][nsample] 2 [Z(x, x) - Z(x', x)], x' sampled */
    double *pair_mean; /* [nsep][nsep] mean of S */
    double *excess;    /* [nlambda][nsep][nsep] sum over pairs of exp(-z/2) - 1 + z/2 */
    double *log_c;     /* [nlambda][nsep][nsep] */
    double *ring;      /* [nlambda][rings][2] the same sums, and pairs, by length */
    double *far;       /* [nlambda] mean of log_c of far separations */
    double *gain;      /* [nlambda][P][2 P - 1] log_c on the grid; NULL: of the mean of D */
    double *totals;    /* sum of all sums; mean of those of far separations */
    /* of the profile */
    bool fitted;
    double variance; /* of the fitting error */
    double *fit;     /* [P][P] */
    /* work */
    double *pairs;             /* [side][side][nsep] sums over pairs of rows of actuators */
    double *mean, *part, *cov; /* [nsep][nsep] x slow, [P][nsep], [P][2 P - 1] */
    double *otf;               /* [nlambda][P][N] */
    double *even, *odd;        /* [nlambda][P][P] */
    double *sums;              /* [nlambda][1 + nbox][P] rows of the sums for Strehl ratio, boxes */
    cufftDoubleComplex *rows;  /* [nlambda][half][half] OTF transformed along y */
    double *image;             /* [nlambda][half][N] row -y, wrapped along x */
    double *radius;            /* [nlambda][PSF_NDIR] half-peak radii [pixel] */
    double *scalars;           /* [nlambda][3 + nbox] */
    float *images;             /* [nlambda][crop][crop] */
};

/* Whether a wavelength's images are of the mean of exp(-D/2). */
static __device__ inline bool averaged(const gpu_psf &d, int l) {
    const double fit = d.fitted ? d.variance * d.wave[l].fit : 0;
    return psf_average_needed(d.always, d.cov[d.P - 1] * d.wave[l].phase + fit);
}

/* Sum over the block, in thread 0. */
static __device__ inline double block_sum(double x) {
    __shared__ double warp[32];
    for (int k = 16; k > 0; k /= 2)
        x += __shfl_down_sync(0xffffffffu, x, k);
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        warp[threadIdx.x / 32] = x;
    __syncthreads();
    if (threadIdx.x == 0)
        for (int w = 1; w < (int)blockDim.x / 32; w++)
            x += warp[w];
    return x;
}

/* Each puts its kernels into the stream. */
status gpu_psf_average(cudaStream_t stream, const gpu_psf *d, const double *y, int64_t ldy,
                       bool both, double *sum);
/* Shapes of mirrors in a direction, where they depend on it (psf_phase.cu). */
status gpu_psf_aim(cudaStream_t stream, const gpu_psf *d, const double dir[2]);
/* Sums over pairs of points (psf_phase.cu). */
status gpu_psf_pairs(cudaStream_t stream, const gpu_psf *d, const int *point_row, const double *y,
                     int64_t ldy, const double *ct, int64_t ldct, double *sum, float *pairwise);
/* From the sums to d->cov in this mode. */
status gpu_psf_phase(cudaStream_t stream, const gpu_psf *d, const double *sum,
                     const double *common);
/* Then d->gain from single pairs (psf_pairwise.cu). */
status gpu_psf_join(cudaStream_t stream, const gpu_psf *d, float *pairwise);
status gpu_psf_excess(cudaStream_t stream, const gpu_psf *d, const double *sum,
                      const float *pairwise);
/* ln c of every wavelength to `logs`; and d->gain from such. */
status gpu_psf_logs(cudaStream_t stream, const gpu_psf *d, const double *sum, const float *pairwise,
                    double *logs);
status gpu_psf_use_logs(cudaStream_t stream, const gpu_psf *d, const double *logs);
/* Of psf_phase.cu: a function of the lattice's separations in d->mean, along both axes; to `out`,
 * [P][2 P - 1]. */
status gpu_psf_to_grid(cudaStream_t stream, const gpu_psf *d, int l, double *out);
/* From the sums to the OTFs (zero beyond the support), their even and odd parts, and the scalars
 * but for the FWHM; common may be NULL. */
status gpu_psf_otf(cudaStream_t stream, const gpu_psf *d, const double *sum, const double *common,
                   const float *pairwise, const double *logs);
/* From the images to the FWHM, and the parts of the images that are kept. */
status gpu_psf_finish(cudaStream_t stream, const gpu_psf *d);
/* Shared memory of a block of the search for the FWHM. */
size_t gpu_psf_shared(const gpu_psf *d);
status gpu_psf_prepare(const gpu_psf *d);

#endif
