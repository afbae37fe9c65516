/* From covariances of DM commands to OTFs, point-spread functions and image quality. */
#ifndef MOAO_PSF_H
#define MOAO_PSF_H

#include "backend/backend_psf.h"
#include "system/atmos.h"
#include "system/system.h"
#include <stdbool.h>
#include <stddef.h>

typedef struct { /* a static error over the pupil, whose centre is that of the array */
    int nx, ny;
    double pixel; /* [m] */
    double *path; /* [ny][nx] optical path, y slow [m]; NAN: none */
    bool blocks;  /* constant over each pixel, as steps and white noise are; else linear between the
                     pixels' centres */
} psf_map;
/* The path at a point of the pupil [m], from the nearest pixels that have one; NAN. Local. */
double psf_map_path(const psf_map *m, double x, double y);
/* Samples of a map across the diameter [m], a multiple of P points of the PSF's grid. Local. */
int psf_map_samples(const psf_map *m, double diameter, int P);

/* Of a long exposure: the mean of exp(-D/2) over the pairs of points of a separation (EXACT), exp
 * of the mean of -D/2 (MEAN), or the first where the second would be off by more than
 * PSF_AVERAGE_ERROR (AUTO: psf_average_needed). */
typedef enum { PSF_AVERAGE_AUTO, PSF_AVERAGE_EXACT, PSF_AVERAGE_MEAN } psf_average_kind;

typedef struct { /* what the parameters ask for */
    int nlambda;
    const double *lambda; /* [nlambda] [m], borrowed */
    int nbox;
    const double *box; /* [nbox] sides of the ensquared-energy boxes [rad], borrowed */
    int oversampling;  /* k: pixel of the rho grid is d_t/k (4) */
    double span;       /* extent of the rho grid in diameters (3) */
    bool weighted; /* stationary average weighted by the influence functions' energy in the pupil */
    bool phase;    /* residual phase on the pupil, turbulence minus mirror, instead of the commands'
                      with an ideal fitting error */
    psf_average_kind average; /* of the residual phase on the pupil; without `phase` nothing */
    int all_pairs;     /* points up to which it is of all pairs, 0: PSF_ALL_PAIRS (psf_formula.h) */
    int crop;          /* side of the PSF that is kept, pixels, even; 0: whole grid */
    double jitter[2];  /* rms of the image's motion along x and y [rad] */
    double static_rms; /* of the static error's path [m] */
    double static_power;  /* its spectrum is f^-power */
    double focus;         /* rms of a random focus error: path = this times r^2 [1/m] */
    const psf_map *map;   /* a static error that is known beside it, NULL: none; borrowed */
    bool budget;          /* the terms of the variance are wanted (obsseq/budget.h) */
    bool square;          /* of `phase`: points in a square lattice, else every other row is shifted
                             by half a step */
    int across;           /* of `phase`: rows of points across the pupil, 0: by the mirror's size */
    const double *width;  /* [nlambda] of the band around lambda [m], 0: none; NULL: none of all;
                             borrowed */
    double subaperture;   /* side of a square pupil in place of the telescope's [m], 0: none */
    int band_wavelengths; /* that images of a band are the sum of */
} psf_opts;

typedef struct psf psf; /* plans, OTF_tel, autocorrelation of the influence function, weights */
typedef struct psf_fit psf_fit; /* D_fit of one profile at 500 nm (it scales with lambda^-2) */

typedef struct {     /* of one target, exposure and wavelength */
    double strehl;   /* PSF on the axis; the diffraction limit is 1 */
    double fwhm;     /* [rad]; NaN when the PSF stays above half its peak over the half width of the
                        grid */
    double variance; /* residual phase variance C(0) (2 pi/lambda)^2 + psf_fit_variance [rad^2] */
    double *ee;      /* [nbox] share of the energy in each box, owned by the caller */
    float *image; /* [crop*crop] PSF, diffraction-limited peak = 1, row-major (y slow); the axis is
                   * at pixel (crop/2, crop/2). NULL: not wanted */
} psf_result;

typedef struct {    /* what follows from sizes alone */
    int grid, crop; /* side of the rho grid and of the kept image [pixels] */
    double pixel;   /* of the rho grid [m] */
} psf_sizes;
/* Local; allocates nothing. The same errors as psf_init. */
status psf_sizes_of(const sys *s, const psf_opts *o, psf_sizes *sizes);

/* Whether images are made on the host (psf_backend of the CPU): with a static map, of a band. */
bool psf_on_host(const psf *p);
/* Local; plans are made once per rank. `s` is borrowed. */
status psf_init(const sys *s, const psf_opts *o, psf **p);
void psf_free(psf *p);
int psf_grid_size(const psf *p); /* N */
int psf_crop_size(const psf *p);
double psf_grid_pixel(const psf *p);              /* [m] */
int psf_images(const psf *p);                     /* at wavelengths and of bands: nlambda */
int psf_wavelengths(const psf *p);                /* of which those are made: [nlambda] of logs */
int psf_boxes(const psf *p);                      /* of ensquared energies */
double psf_wavelength(const psf *p, int ilambda); /* or centre of the band [m] */
/* The wavelengths of an image, in number the result: of a band its share of the photons at each.
 * The arrays are borrowed. */
int psf_image_parts(const psf *p, int ilambda, const double **lambda, const double **share);
double psf_image_pixel(const psf *p, int ilambda); /* lambda/(N pixel) [rad] */
size_t psf_bytes(const sys *s, const psf_opts *o); /* memory that psf_init takes, for the plan */

/* Local. Fitting-error structure function of a profile, and its variance: the integral of the
 * phase spectrum outside the square |fx|, |fy| <= 1/(2 d_t). */
status psf_fit_init(const psf *p, const profile *prof, psf_fit **f);
void psf_fit_free(psf_fit *f);
size_t psf_fit_bytes(const sys *s, const psf_opts *o);    /* memory that one psf_fit holds */
double psf_fit_variance(const psf_fit *f, double lambda); /* [rad^2] */
/* That of an ideal filter at the mirror's pitch under a profile, in closed form [m^2]; allocates.
 */
status psf_fit_ideal(const psf *p, const profile *prof, double *variance);
/* Strehl that the fitting error alone leaves (for warnings). */
double psf_fit_strehl(const psf *p, const psf_fit *f, int ilambda);

/* Stationary average M(delta): number of separations, (2 n + 1)^2 for n = dm.nssp, delta = (dx, dy)
 * stored at (dy + n) * (2 n + 1) + dx + n. */
size_t psf_sep_count(const psf *p);
/* Add to sum[] the weighted sums over rows a0..a0+na of a v x v covariance `c` (element (a, b) at
 * c[(a - a0) + b * ld]): sum(delta) += w_a w_b c(a,b), delta = position of b minus that of a. When
 * `both`, each element also counts transposed (for c standing for c + c'). Linear, so ranks may add
 * their own rows. Local. */
void psf_accumulate(const psf *p, size_t a0, size_t na, const double *c, size_t ld, bool both,
                    double *sum);

/* The variance that follows from a covariance c of the actuators is <g, c>: g, v x v [1]. Local, of
 * the average over actuators only. */
void psf_variance_weights(const psf *p, double *g);

/* Where commands are of several mirrors, or of one at an altitude (sys.fit): seen in direction dir
 * [rad] from now on, in psf_influence and psf_accumulate_phase. Else nothing. Local. */
void psf_aim(psf *p, const double dir[2]);

/* With psf_opts.phase the pairs are of points of the pupil instead of actuators (model section 7),
 * and psf_sep_count counts their separations. The points [m], borrowed; 0: not in this mode. */
size_t psf_points(const psf *p, const double **x, const double **y);
bool psf_is_phase(const psf *p);
size_t psf_points_of(const sys *s, const psf_opts *o); /* their number, for the plan */
/* psf_sep_count, for the plan. */
size_t psf_sep_count_of(const sys *s, const psf_opts *o);
/* Add to sum[] what rows a0..a0+na contribute of a v x v matrix y, W Cmm W' = y + y' (element (a,
 * b) at y[(a - a0) + b * ldy]), and of W Cpm' [m^2] (actuator a and point i at ct[(a - a0) + i *
 * ldct]). Linear, so ranks may add their own rows. pairwise (NULL: not wanted): the same for
 * S(x, x') of single pairs [m^2], np numbers for each sampled point x. Local; allocates. */
status psf_accumulate_phase(const psf *p, size_t a0, size_t na, const double *y, size_t ldy,
                            const double *ct, size_t ldct, double *sum, double *pairwise);
/* Numbers of `pairwise`; 0: images are of the mean of D. The first is of an open psf, the second
 * for the plan. */
size_t psf_pairwise_count(const psf *p);
size_t psf_pairwise_count_of(const sys *s, const psf_opts *o);
/* The mean of exp(-D/2) instead of the exponential of the mean, in what psf_compute makes from now
 * on, where psf_opts.average asks for it: of S by pairs, whose sums by separation are s. Both are
 * borrowed until the next call; NULL: of none. Local. */
void psf_use_pairwise(psf *p, const float *pairwise, const double *s);
/* ln c of every wavelength, whatever its variance, from single pairs and the sums of the same
 * target: logs [psf_wavelengths][psf_sep_count]. Where psf_pairwise_count > 0; local. psf_use_logs:
 * what psf_compute makes from now on is of these (NULL: of the mean of D); borrowed. */
void psf_logs(psf *p, const float *pairwise, const double *s, double *logs);
void psf_use_logs(psf *p, const double *logs);
/* A target's sums, those that all targets have in common, and its logs (where psf_pairwise_count >
 * 0) as few numbers, which may be interpolated over the field: psf_kept_count of them; and back, in
 * place of sums and common ones. Local. */
size_t psf_kept_count(const psf *p);
size_t psf_kept_count_of(const sys *s, const psf_opts *o); /* as many at most, for the plan */
size_t psf_kept_planes(const psf *p); /* of so many each: the mean, then ln c by wavelength */
void psf_keep(const psf *p, const double *sum, const double *common, const double *logs,
              float *out);
void psf_unkeep(const psf *p, const double *kept, double *sum, double *logs);
/* In single precision, from sums of psf_accumulate_phase over all rows. Local. */
void psf_round_pairwise(const psf *p, const double *sum, float *pairwise);
/* Bytes that it takes on a rank with na rows and some threads, for the plan. */
size_t psf_phase_work(const sys *s, const psf_opts *o, size_t na, int threads);

/* Widths x0 beyond which an influence function, less than 2e-14 there, is nil. */
#define PSF_CUT 8.0

/* What follows needs psf_opts.phase too. The points stand in rows (psf_lattice_rows); the influence
 * functions of a mirror's actuators that reach row j at its points, nact x n, column-major (NULL:
 * sizes only). Elsewhere they are nil. Local. */
typedef struct {
    int first, n;      /* points of the row */
    int act, nact;     /* actuators that reach them, counted over all mirrors */
    const int *column; /* [n] places of the points in their row; borrowed */
} psf_strip;
int psf_lattice_rows(const psf *p);
psf_strip psf_influence(const psf *p, int j, int mirror, double *out);
/* Mirrors whose influence functions psf_influence gives, one after the other. Local. */
int psf_mirrors(const psf *p);
/* Numbers that psf_influence writes for a row, at most, wherever p is aimed; 1 at least. Local. */
size_t psf_influence_most(const psf *p);
/* out (rows x n, leading dimension ldout) += scale A N of points i0 .. i0 + n of row j: A (rows x
 * commands of all mirrors, leading dimension lda), N the mirror's influence functions there; by
 * PSF_PRODUCT_ROWS of the rows and PSF_PRODUCT_POINTS. room: psf_influence_room numbers, a thread's
 * own. Local. */
#define PSF_PRODUCT_ROWS 256
#define PSF_PRODUCT_POINTS 32
void psf_influence_product(const psf *p, int j, int mirror, int i0, int n, int rows, double scale,
                           const double *a, size_t lda, double *out, size_t ldout, double *room);
size_t psf_influence_room(const psf *p);
/* psf_thin: one point in psf_thin_step(most), in places of their cells that change from row to row:
 * their numbers into at, of psf_points of them at most; how many. psf_thin_step: the largest odd
 * number that is at most `most`, at least 1. Local. */
int psf_thin_step(size_t most);
int psf_thin(const psf *p, size_t most, int *at);
/* all[x] = sum over the points x' of a function of their separation. Local. */
void psf_pair_sums(const psf *p, const double *d, double *all);
/* Structure function of the turbulence at the separations [m^2], 0 where there are no pairs; and
 * the mean over all pairs of points of such a function. Local; the first allocates. */
status psf_structure(const psf *p, const profile *prof, double *d);
double psf_pair_mean(const psf *p, const double *d);
/* Of a layer of strength 1 m^(-5/3) and outer scale L0 [m], the structure function at the
 * separations [m^2] of its frequencies beyond the first Brillouin zone of the lattice of points:
 * on the points they cannot be told from lower ones. d: [psf_sep_count]. MOAO_MEMORY. Local. */
status psf_structure_beyond(const psf *p, double L0, double *d);
/* d += the structure function of a layer of that strength [m^(-5/3)] and outer scale L0 [m], at the
 * separations displaced by `shift` [m]; [m^2], where there are pairs. Local. */
void psf_structure_displaced(const psf *p, double strength, double L0, const double shift[2],
                             double *d);
/* A function of separations, from a point to another, for all points and those from the j-th on:
 * out[points][n], of the first the faster. Local. */
void psf_pair_columns(const psf *p, const double *d, int j, int n, double *out);
/* Add what all targets have in common under a profile. Local; allocates. */
status psf_phase_common(const psf *p, const profile *prof, double *sum);
/* What psf_compute adds to the sums: the ideal fitting error of psf_fit_init, or with
 * psf_opts.phase what of the turbulence is not in them; and the errors that no loop corrects. */
status psf_rest_init(const psf *p, const profile *prof, psf_fit **f);
/* Variances over the pupil of the errors that no loop corrects [m^2]. */
void psf_errors_variance(const psf *p, double *jitter, double *fixed, double *focus);

/* PSF of one target and exposure at one wavelength or of a band (model section 7) from the summed M
 * (unnormalised: psf divides by sum w_a w_b; of sum(delta) and sum(-delta) the mean counts). `f`
 * NULL: no fitting error. MOAO_NUMERIC when the result is not finite. Local, uses the plan's work
 * arrays (not for concurrent calls on one psf). */
status psf_compute(psf *p, const double *sum, const psf_fit *f, int ilambda, psf_result *r);
/* The same at every wavelength: scalars [nlambda][3 + nbox] (Strehl ratio, FWHM, variance,
 * ensquared energies), images [nlambda][crop][crop] or NULL. */
status psf_compute_all(psf *p, const double *sum, const psf_fit *f, double *scalars, float *images);

/* What a backend needs to make PSFs itself (backend_psf.h). The models borrow from p and f. */
void psf_model_init(psf *p, psf_model *m);
void psf_fit_model_init(const psf_fit *f, psf_fit_model *m);
/* The operations by which a backend makes PSFs: its own, or those of the CPU. */
const backend_psf *psf_backend(const backend *be);
/* Memory of a device that they take, for the plan. */
size_t psf_device_bytes(const sys *s, const psf_opts *o);

#endif
