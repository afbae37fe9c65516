/* What one psf holds; private to the files of this folder.
 *
 * Everything that lives on the rho grid is even: f(-rho) = f(rho). So only the half plane x >= 0 is
 * kept, one row per x = u pixel, 0 <= u < P, with y = v pixel, |v| < P, where P = D / pixel: the
 * support of the OTF. Rows have the order of a Fourier transform (v, then N + v for negative v). */
#ifndef MOAO_PSF_PLAN_H
#define MOAO_PSF_PLAN_H

#include "backend/backend_psf.h"
#include "psf.h"
#include "psf_formula.h"

#include <complex.h>
#include <fftw3.h>

#define PSF_BATCH 8      /* rows of the image per transform */
#define PSF_BLOCK 64     /* pixels of an image of a band that are made at once, in x and in y */
#define PSF_PARALLEL 256 /* grids from this size on are shared out over the threads */

/* Kolmogorov variance beyond a square of half side 1/(2 d): 0.231263 (d/r0)^(5/3). */
#define PSF_BEYOND 0.231263
/* Spectrum of the phase: W(f) = 0.0229 r0^(-5/3) (f^2 + L0^-2)^(-11/6). */
#define PSF_SPECTRUM 0.02289558710855518

typedef struct { /* actuators next to one another in a row */
    int first;   /* index of the first of them */
    int ix;      /* its column */
    int len;
} psf_run;

typedef struct {        /* one of several mirrors, as a target sees it */
    int n, nact, first; /* pitches across, actuators, the first one's command */
    int *place;         /* [nact] index on the square of n + 1 actuators a side */
    const int *row_act; /* [n + 2] first actuator of each row, of this mirror; behind place */
    double pitch, x0, altitude;
    double *if_y, *if_x[2]; /* [lattice][n + 1], as those of a psf */
} psf_mirror;

struct psf {
    int n;      /* subapertures of the truth sensor across the diameter */
    int k;      /* pixels per pitch */
    int N;      /* rho grid and image, pixels */
    int P;      /* support of the OTF: n k pixels */
    int ld;     /* row length of `even` and `odd` */
    int nfreq;  /* row length of `rows`: N/2 + 1, padded to whole batches */
    int stride; /* row length of `otf` and `image` */
    int reach;  /* pixels beyond which the autocorrelation of the influence function is nil */
    int nsep;   /* 2 n + 1 */
    int crop;
    double pitch, pixel, x0;

    int nlambda, nbox;
    double *lambda, *box;

    /* the wavelengths of which images are made, of all images one after the other (psf_band.c) */
    int nmono, most;       /* their number; the most of an image */
    int *first;            /* [nlambda + 1] first of an image */
    double *mono;          /* [nmono] [m] */
    double *share, *light; /* [nmono] of an image: of the photons; of the light on the axis of the
                              diffraction-limited image */
    size_t nband;          /* doubles of band_even, 0: no image is of a band */
    double *band_even, *band_odd; /* [most][P][ld] even and odd of its wavelengths */
    double *band_work;            /* [4][P][PSF_BLOCK] factors and sums of a block of an image */
    double *band_image;           /* [PSF_BLOCK][PSF_BLOCK] */

    int nact, nrun;
    int *place;     /* [nact] index on the square of n + 1 actuators a side */
    double *weight; /* [nact] w_a */
    psf_run *run;   /* [nrun], by row of actuators */
    int *row_run;   /* [n + 2] first run of each row of actuators */
    int *row_act;   /* [n + 2] first actuator of each row */
    double *norm;   /* [nsep * nsep] sum of w_a w_b over the pairs of a separation */

    /* the residual phase on the pupil (psf_phase.c): a lattice of points in place of actuators;
     * then nsep is 2 lattice + 1 and norm counts pairs of points */
    int lattice, np;    /* its rows across the diameter, 0: commands are averaged; points */
    double h;           /* rows of points are h = D/lattice apart */
    int shift;          /* 1: every other row is shifted by h/2; 0: a square lattice */
    double *px, *py;    /* [np] [m] */
    int *point_row;     /* [lattice + 1] first point of each row */
    int *point_column;  /* [np] */
    int if_reach;       /* pitches beyond which an influence function is nil */
    double *if_y;       /* [lattice][n + 1] factor of the influence functions along y at a row */
    double *if_x[2];    /* [lattice][n + 1] along x at a column, of even and odd rows */
    int nmirror;        /* several mirrors, or one that is not on the pupil; 0: the one above */
    psf_mirror *mirror; /* [nmirror]; their factors are in [0].if_y, place[] too */
    psf_model_mirror *model; /* [nmirror] the same for a backend */
    int ncommand;            /* of all */
    int *tap_x[2];     /* [P] first lattice point from which u is interpolated, even and odd rows */
    double *tap_wx[2]; /* [P][PHASE_TAPS] */
    int *tap_y;        /* [2 P - 1] the same for v */
    double *tap_wy;    /* [2 P - 1][PHASE_TAPS] */

    /* the mean of exp(-D/2) (psf_pairwise.c): pairs of a sampled point with any point */
    psf_average_kind average;
    int thinning;          /* 1: of all points */
    int nsample;           /* 0: not wanted */
    int *sample;           /* [nsample] points, increasing */
    int *sample_row;       /* [lattice + 1] first sampled point of each row */
    int *sample_of;        /* [np] its number among them, or -1 */
    int *run_end;          /* [np] end of the points next to one another in its row */
    int *ring_of;          /* [nsep * nsep] length of a separation in steps of h, rounded */
    double *sampled;       /* [nsep * nsep] sampled pairs of a separation and the opposite one */
    double *pair_mean;     /* [nsep * nsep] mean of S */
    double *excess;        /* [nsep * nsep] at a wavelength: sum over the pairs, then ln c */
    double *ring;          /* [2][PAIRWISE_RINGS] sums by length of the separation, in steps of h */
    const float *pairwise; /* borrowed [nsample][np]; NULL: images are of the mean of D */
    const double *logs;    /* borrowed [nmono][nsep * nsep] ln c in its place, or NULL */

    size_t nerrors; /* P^2, or 0: there are none */
    double *errors; /* [P][P] D of jitter and static error at LAMBDA_REF, one quadrant */
    bool mapped;    /* a static map is there */
    double *map_even, *map_odd; /* [nmono][P][2 P - 1] real and imaginary part of its factor of
                                   the OTF, u slow; where mapped */
    double errors_part[3];      /* variances of jitter, static error, focus [rad^2] */
    double *kernel; /* [2 reach + 1] one axis of A(rho)/d_t^2, which is a product over the axes */
    int ntel;       /* nmono where segments have errors, else 1 */
    double *tel;    /* [ntel][P][2 P - 1] OTF_tel, u slow, v from 1 - P on */
    int *vmax;      /* [P] largest |v| inside the support, for each u */

    double *mean;       /* [nsep][nsep] M(delta), x slow */
    double *part;       /* [P][nsep] C along x only */
    double *otf;        /* [P][stride] C, then the OTF */
    double *even;       /* [P][ld] OTF(u, v) + OTF(u, -v); once for v = 0 */
    double *odd;        /* [P][ld] OTF(u, v) - OTF(u, -v) */
    double *trig;       /* [2][P][2 PSF_NDIR] factors of the cosine sum along y */
    double *proj;       /* [2][P][2 PSF_NDIR] sums along y; follows `trig` */
    fftw_complex *rows; /* [N/2 + 1][nfreq] OTF transformed along y; rows from P on stay zero */
    int nrow;           /* rows of `image` that are there */
    double *image;      /* [nfreq][stride] PSF for y <= 0, row -y; wrapped along x */
    fftw_plan along_y, along_x, spectrum;
};

struct psf_fit {
    int P;
    double variance; /* at LAMBDA_REF [rad^2] */
    double *d;       /* [P][P] D_fit at LAMBDA_REF, one quadrant */
};

/* psf_errors.c: jitter and static error; whether there are any, into p->errors, and from there into
 * what psf_compute adds. */
bool psf_has_errors(const psf_opts *o);
status psf_errors_init(psf *p, const sys *s, const psf_opts *o);
void psf_errors_add(const psf *p, psf_fit *f);
/* psf_map.c: the factors of a static map (NULL: none) at every wavelength; the arrays are there. */
status psf_map_init(psf *p, const psf_map *m, const sys *s);
/* psf_telescope.c: OTF_tel and its support, and the number of its planes; errors of segments are
 * added to p->errors_part. */
#define TELESCOPE_CELLS 1024                        /* across the pupil, at least */
size_t telescope_bytes(const psf *p, const sys *s); /* while it is made, of a pupil's cells */
int telescope_planes(const psf *p, const sys *s);
/* subaperture: side of a square pupil in its place [m], 0: none. */
status telescope_init(psf *p, const sys *s, double subaperture);
/* Mean of (r'^2 - r^2)^2 over the pairs of points of a pupil and variance of r^2, r in units of its
 * radius: [P][P], one quadrant. */
status telescope_radii(const psf *p, const pupil *shape, double *mean, double *variance);
/* Row u of OTF_tel at a wavelength, at v = 0. */
static inline const double *telescope_row(const psf *p, int imono, int u) {
    const size_t row = (size_t)(p->ntel > 1 ? imono : 0) * (size_t)p->P + (size_t)u;
    return p->tel + row * (size_t)(2 * p->P - 1) + (size_t)(p->P - 1);
}

/* Weights, runs of actuators and norm of the stationary average; the arrays are there. */
status psf_average_init(psf *p, const sys *s, bool weighted);
/* Phase covariance C on the support [m^2] into p->otf, from the sums of psf_accumulate. Model
 * section 7. */
void psf_covariance(psf *p, const double *sum);
/* The OTF at a wavelength into p->otf, and its parts even and odd in y; or, with `odd`, the
 * imaginary part that a static map gives it. The variance over the pupil [rad^2], of the mean of D.
 */
double psf_otf_of(psf *p, const double *sum, const psf_fit *f, int imono, bool odd);
/* psf_band.c: wavelengths and weights of the images, the arrays are there; the image of a band. */
void psf_band_sizes(psf *p, const psf_opts *o);
void psf_band_init(psf *p, const psf_opts *o);
status psf_band_compute(psf *p, const double *sum, const psf_fit *f, int ilambda, psf_result *r);
/* PSF of p->otf: begin does the transforms along y; extend makes the rows 0 <= -y < want of
 * p->image that are not there yet. */
void psf_image_begin(psf *p);
void psf_image_extend(psf *p, int want);
/* Strehl, ensquared energy in a box [rad], and mean FWHM [image pixels] of the OTF (model section
 * 7). The FWHM makes image rows as it needs them for its first guess; NaN when some direction has
 * no half-peak crossing within N/2 pixels. */
double psf_strehl(const psf *p);
double psf_ensquared(const psf *p, double lambda, double side);
double psf_fwhm(psf *p);
/* The same of an image that is the sum of several: even and odd parts of their OTFs, the share of
 * each in the value on the axis, and pixels of it in one of the sum. p->otf is that of the part of
 * the first guess, with the Strehl ratio `near`. [pixels of the sum] */
typedef struct {
    const double *even, *odd;
    double light, scale;
} psf_layer;
double psf_fwhm_of(psf *p, int n, const psf_layer *layer, int guess, double near, double peak);

/* Smallest even number >= n whose prime factors are 2, 3, 5 and 7: a side of Fourier transforms. */
int psf_even_size(int n);

#endif
