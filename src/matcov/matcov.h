/* Covariances of slopes for one turbulence profile (stage struct). All fills are local,
 * thread-parallel inside, column-major, in arcsec^2, and may be asked for any block, so that each
 * rank fills what it owns. */
#ifndef MOAO_MATCOV_H
#define MOAO_MATCOV_H

#include "backend/backend_matcov.h"
#include "base/comm.h"
#include "system/atmos.h"
#include "system/system.h"
#include <stdbool.h>
#include <stddef.h>

typedef struct matcov matcov; /* one profile: tables of like pairs of sensors, noise */
typedef struct matcov_target
    matcov_target; /* one target under one profile: tables against sensors on a common lattice */

/* Collective. Prepares Cmm and Ctt of a profile: tables of the index differences for like pairs
 * (shared out over the ranks and gathered), noise covariances, LGS tip-tilt constants. `s` and `p`
 * are borrowed. */
status matcov_init(const comm *c, const sys *s, const profile *p, matcov **mc);
void matcov_free(matcov *mc);

/* Local. matcov_init without the tables of like pairs: what matcov_model needs. The fills below
 * need the tables, which matcov_tabulate makes (locally, unless they are there already). */
status matcov_prepare(const sys *s, const profile *p, matcov **mc);
status matcov_tabulate(matcov *mc);

/* Local. matcov_prepare of the difference C(p) - beta C(p0): Cmm, noise and tip-tilt constants
 * included, and, with `drifts` and aimed at shifted targets, Ctm of p (moved by its wind) - beta
 * Ctm of p0 (not moved). Sensors with delays of their own move in C(p), never in C(p0), which a
 * reconstructor without wind has. Fills are what they are for a profile, but the matrices are small
 * where p is about beta p0, so that little accuracy is needed. *bound: no entry without tip-tilt
 * constants is larger [arcsec^2], and it is not under 1e-10 of the slope variance of p. p must
 * outlive *mc. Model section 6. */
status matcov_prepare_difference(const sys *s, const profile *p, const profile *p0, double beta,
                                 bool drifts, matcov **mc, double *bound);
/* No entry of Cpm(p) - beta Cpm(p0) is larger, at points of the pupil [m arcsec]. */
double matcov_phase_bound(const sys *s, const profile *p, const profile *p0, double beta);
/* Whether covariances of two sensors depend, on all layers, on a difference of indices alone: of
 * steps[0] times those of a and steps[1] times those of b, in units of a pitch that they share. */
bool matcov_on_lattice(const sensor *a, const sensor *b, int steps[2]);
/* Number of the subapertures of a sensor whose slopes are not those of whole squares: partly lit
 * ones, all of a star of 1 or 2; which, where sub is not NULL. difference: those of a difference of
 * profiles, without nearly whole ones. Model section 4. */
int matcov_outlined(const sys *s, const sensor *o, bool difference, int *sub);
/* Constant of a laser star in Cmm, K of model section 6 [arcsec^2]. */
double matcov_tiptilt(const matcov *mc, int sensor);
/* Local. How often entries have layer l of a profile: of Cpm and Ctm once for each age of a closed
 * loop's slopes, of Cmm (slopes) once for each difference of two ages. */
double matcov_ages(const profile *p, int l, bool slopes);
/* Local. Whether a closed loop's sums over ages are tables (aged.c), which an entry of Cmm looks up
 * once: of many slopes, all mean gradients, of mirrors that all targets share. */
bool matcov_sums_ages(const sys *s);
/* Local. Strength of the layers that such a difference has left, winds apart [m^(-5/3)]: 0 where p
 * is a multiple of p0. */
status matcov_distance(const profile *p, const profile *p0, double *distance);
/* A beta that makes it small: the ratio of the strengths, 0 when p0 has none. */
double matcov_scale(const profile *p, const profile *p0);

/* Local. What a backend needs to make the covariances itself (backend_matcov.h). The model borrows
 * from `mc`, which must outlive it. Free with matcov_model_free, fine on {0}. */
status matcov_model_init(matcov *mc, matcov_model *m);
void matcov_model_free(matcov_model *m);

/* The operations by which a backend makes covariances: its own, or those of the CPU. */
const backend_matcov *matcov_backend(const backend *be);

/* Cmm(i0:i0+ni, j0:j0+nj), noise and tip-tilt constants included. */
status matcov_fill_cmm(const matcov *mc, size_t i0, size_t ni, size_t j0, size_t nj, double *a,
                       size_t ld);
/* Ctt(i0:i0+ni, j0:j0+nj) of the truth sensor with itself (the same for every target). */
status matcov_fill_ctt(const matcov *mc, size_t i0, size_t ni, size_t j0, size_t nj, double *a,
                       size_t ld);

/* Sensors of different delays (system.h, late) see a layer of an exposure displaced against each
 * other by its wind; a profile without wind, of a reconstructor, displaces none.
 *
 * Prepare the truth sensor in direction dir [rad]; shifted: positions moved by -V tau (the
 * exposure's Ctm of the model), else not (Ctm0 of the reconstructor). Local. */
status matcov_target_init(const matcov *mc, const double dir[2], bool shifted, matcov_target **mt);
void matcov_target_free(matcov_target *mt);
/* Ctm(0:t, j0:j0+nj): all truth-sensor slopes with a range of measurements; ld >= t. */
status matcov_fill_ctm(const matcov_target *mt, size_t j0, size_t nj, double *a, size_t ld);
/* The same with both axes of some subapertures of a sensor. */
status matcov_fill_ctm_both(const matcov_target *mt, matcov_slopes k, double *a, size_t ld);

/* Covariance of the phase, as optical path, at points of the pupil seen in the target's direction
 * with measurements j0:j0+nj: a (p.n x nj, ld >= p.n) [m arcsec]. A shifted target's phase is tau
 * older than the measurements. Model section 7. */
status matcov_fill_cpm(const matcov_target *mt, matcov_points p, size_t j0, size_t nj, double *a,
                       size_t ld);
/* The same with both axes of some subapertures of a sensor. */
status matcov_fill_cpm_both(const matcov_target *mt, matcov_points p, matcov_slopes k, double *a,
                            size_t ld);

/* Local. A few blocks of Cmm in double precision: the entries of two clusters' subapertures, x
 * slopes, then y slopes, of each (a: 2 row->n x 2 col->n, without gaps), tip-tilt constants
 * included, noise not. Of sensors on a common lattice only those differences of places are
 * evaluated that the two clusters have. mc by matcov_prepare_clusters, which makes no table that
 * only targets, or other fills, would need. */
status matcov_prepare_clusters(const sys *s, const profile *p, matcov **mc);
status matcov_fill_clusters(const matcov *mc, const matcov_cluster *row, const matcov_cluster *col,
                            double *a);

/* Local. Blocks as products of low rank (backend_matcov.h, tiles); tol > 0. mt: NULL for pairs of
 * sensors. tileable: all sensors have mean gradients and subapertures of about one size, which
 * tiles need. tiles_free leaves NULL in u and v, and is fine with it. */
bool matcov_tileable(const sys *s);
#define MATCOV_TILES_REACH 3.0 /* subapertures beyond which a layer is far in a tile */
status matcov_tiles(const matcov *mc, const matcov_target *mt, double tol, int ntile,
                    matcov_tile *tile);
void matcov_tiles_free(int ntile, matcov_tile *tile);

/* Whether entries are looked up with AVX-512, which in double precision takes half of the time. */
bool matcov_wide(void);

/* Goes through the measurements j:j+n by pieces of x slopes, each with the y slopes of the same
 * subapertures, wherever those are: where both are asked for at once and all measurements are gone
 * through, panel by panel, each comes once. *p is {0} at first; false: no more. Local. */
typedef struct {
    int64_t n;            /* subapertures, at most `most` */
    matcov_slopes slopes; /* of those, y right after x */
    int64_t column[2];    /* the measurement of the first of them, by axis */
    int64_t next;
} slope_pairs;
bool slope_pairs_next(const sys *s, int64_t j, int64_t n, int64_t most, slope_pairs *p);

/* Interaction matrix D (t x v, ld >= t) [arcsec/m]: truth-sensor slopes of each actuator at 1 m.
 * Local. */
status matcov_fill_interaction(const sys *s, double *d, size_t ld);

/* How sensors see a mirror, against the place that its commands are computed with. */
typedef struct {
    double shift[2], rot, scale; /* [m], counterclockwise [rad], about the pupil's centre */
} matcov_placement;
/* Local. Slopes that a unit command of each actuator makes on the guide stars' sensors (sys_stars),
 * g(measurement, actuator), leading dimension ld [arcsec/m]: of `points` between their two points,
 * else the mean gradient over the lit part; seen in the direction of the star, with its cone. 0
 * where the mirror is at or above the star. MOAO_MEMORY. */
status matcov_fill_mirror(const sys *s, const dmirror *dm, const matcov_placement *at, double *g,
                          size_t ld);

/* D' as a filter, of which the places are those of s. f->reach 0: the influence functions are so
 * wide that more than BACKEND_REACH subapertures on each side of an actuator matter in double
 * precision, and there is none. Local. */
status matcov_interaction_filter(const sys *s, backend_filter *f);

/* Noise of a sensor as people quote it. Local. Model section 5. */
typedef struct {
    double photons;       /* photo-electrons per wholly lit subaperture and frame, within its
                             field stop, mean */
    double across, along; /* FWHM of the spots across and along their elongation, mean [arcsec] */
    double variance;      /* of a slope, mean over subapertures and axes [arcsec^2], as computed:
                             at least the floor below which Cmm is not positive definite */
    double model;         /* the same by the noise model or as given, without that floor */
    double raised;        /* share of the variances that the floor raises */
} noise_figures;          /* photons and widths NAN where a sensor's variance is given */
void matcov_noise_figures(const sys *s, const profile *p, int sensor, noise_figures *f);

/* Noise covariances of every subaperture as Cmm has them, in the order of the slopes:
 * noise[m/2][3], xx, yy, xy [arcsec^2]. Local. */
status matcov_noise(const sys *s, const profile *p, double *noise);

/* Bytes of tables, which the memory plan counts from: of the lattices of pairs of a profile and of
 * a target, and of the mean gradients of a profile. */
typedef struct {
    int nlayer; /* of the profile */
    size_t profile, target, gradients;
} matcov_sizes;

/* Counts them for a profile of so many layers. Needs memory: MOAO_MEMORY where there is none.
 * Local. */
status matcov_count(const sys *s, int nlayer, matcov_sizes *z);

/* Bytes that matcov_init and one matcov_target will hold, for the memory plan. Tables of mean
 * gradients are counted once for each profile that is held; profiles with the same layers share
 * them, and of those that nobody holds the last are kept. matcov_device_bytes: what a profile takes
 * of a device's memory, where those tables are in single precision too. matcov_held_bytes: of the
 * two profiles that a rank holds while one gives way to the next, with the tables of as many
 * layerings of the night (atmos_count_layerings) as there are then: at most MATCOV_LAYERINGS, one
 * of them kept. */
#define MATCOV_LAYERINGS 3
/* matcov_prepared_bytes: of so many profiles that matcov_prepare alone prepared, with the tables of
 * mean gradients of so many layerings. */
size_t matcov_bytes(const sys *s, const matcov_sizes *z);
size_t matcov_held_bytes(const sys *s, const matcov_sizes *z, int layerings);
size_t matcov_prepared_bytes(const sys *s, const matcov_sizes *z, int count, int layerings);
size_t matcov_device_bytes(const sys *s, const matcov_sizes *z);
size_t matcov_target_bytes(const matcov_sizes *z);

/* Sum of the slope covariance over layers, evaluated directly from the structure function's closed
 * form, one entry at a time: the reference of every fast path (tests and bench only). Without
 * noise. */
double matcov_direct_cmm(const sys *s, const profile *p, size_t i, size_t j);
double matcov_direct_ctm(const sys *s, const profile *p, const double dir[2], bool shifted,
                         size_t i, size_t j);
double matcov_direct_cpm(const sys *s, const profile *p, const double dir[2], bool shifted,
                         double x, double y, size_t j);
double matcov_direct_ctt(const sys *s, const profile *p, size_t i, size_t j);

#endif
