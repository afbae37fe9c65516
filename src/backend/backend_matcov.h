/* Covariances of slopes in a backend's memory. The conventions of backend.h hold: column-major,
 * int64_t sizes, work goes into the stream of the context, results are valid in later work of that
 * stream.
 *
 * The life of it: a matcov_model describes one profile (matcov/matcov.h makes it, at little cost);
 * `open` takes memory and computes what depends on the profile, `load` does the same for another
 * profile of the same system without taking memory. A target takes memory once (`open_target`);
 * `aim` points it to a direction under the profile loaded last. After that, fills neither allocate,
 * wait nor copy between host and device. All calls with one backend_cov and its targets belong to
 * one context.
 *
 * Accuracy: entries of type D are within 1e-10 of the closed form relative to the slope variance of
 * the sensors; type S is evaluated with fewer terms, within 1e-6 of the slope variance (mean
 * gradients 6e-6). Of a difference of profiles mean gradients of type S may be off by 5e-4 of that
 * variance near zero separation (of the largest covariance with the phase 6e-4), and are by 1e-5
 * (2e-5) in the mean; differences between points too, where both axes are asked for at once, and by
 * 2e-3 (4e-3) near zero separation. */
#ifndef MOAO_BACKEND_MATCOV_H
#define MOAO_BACKEND_MATCOV_H

#include "moao/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { MATCOV_SETS = 3 };

/* Subapertures whose mean gradients are not those of whole squares, as the pupil's edge or its
 * obscuration cuts them: a slope is a sum of weights times the phase at nodes on the outline of the
 * lit part. Of the sets of nodes the second has one more than the first on each piece, and the
 * third has few, for what is apart. Near other subapertures these replace the tables, whose squares
 * lie at the lit parts' centroids; `always`: at every separation. n = 0: there are none.
 * Differences of profiles leave out those that are nearly whole, and have them as whole squares. */
typedef struct {
    int n, nkept; /* of which differences have so many */
    bool always;
    const int *number; /* [nsub] of a subaperture among those n, or -1 */
    const int *sub;    /* [n] */
    const int *kept;   /* [n] number among those that differences have, or -1 */
    /* [n][6] for each principal axis of the second moments, less those of the whole subaperture: a
     * vector along it as long as that [m], and half the moment over the square of this length */
    const double *moments;
    const int *first[MATCOV_SETS];                 /* [n + 1] first node, by set */
    const double *x[MATCOV_SETS], *y[MATCOV_SETS]; /* registered place of a node in the pupil [m] */
    const double *w[MATCOV_SETS][2]; /* its weight, by set and axis of the slope [1/m] */
} matcov_outline;

/* A sensor: slope k of an axis is the phase difference between the edge points plus[k] and
 * minus[k], which both increase with k. */
typedef struct {
    int nssp, nsub;
    double size;          /* of a subaperture, magnified [m] */
    double rot, shift[2]; /* registration [rad], [m] */
    double altitude;      /* of the star [m], or INFINITY */
    double dir[2];        /* of the star [rad] */
    const int *sub;       /* [nsub] place iy nssp + ix */
    int nedge[2];
    const int *minus[2], *plus[2]; /* [nsub], by axis */
    const double *x[2], *y[2];     /* [nedge] registered position in the pupil plane [m] */
    bool gradient;                 /* slopes are mean gradients */
    const double *centre[2];       /* [nsub] registered centres, where `gradient` [m] */
    matcov_outline outline;
    int phase_class; /* of its slopes with the phase at a point, where `gradient` */
} matcov_sensor;

/* Tables of the covariance of two mean gradients on a layer, which depend on the outer scale and on
 * the two footprints' sizes (matcov/gradient_formula.h evaluates them). Near zero separation: two
 * grids of exact values, 0 the inner one, fine and small, 1 the outer one; squares around zero in
 * the axes of the first sensor, of side x side coefficients of cubic B-splines, step 1 / inverse,
 * the first one at -half. A grid holds `kinds` of them: xx, xy, yy, or, for sensors turned against
 * each other, xx, yx, xy, yy (axis of the first, then of the second). Beyond: two radial functions.
 */
typedef struct {
    double near2;               /* squared separation below which the grids serve [m^2] */
    double inner;               /* largest |x|, |y| that the inner grid serves [m] */
    double half[2], inverse[2]; /* [m], [1/m] */
    int side[2], kinds;
    int lowest;          /* first bits of the squared separation where the radial functions begin */
    size_t radial, near; /* where they are among the model's gradient_values */
} matcov_gradient;

/* Pairs of sensors whose footprints have the same sizes on every layer. A subaperture much larger
 * than the other sensor's counts as parts x parts equal ones, whose slopes are averaged. A first of
 * size 0 is the phase at a point, whose tables have two kinds, the axes of the second. */
typedef struct {
    double size[2]; /* of a part in the pupil [m] */
    int parts[2];
    const int *table; /* [nlayer] number of the tables, or -1 for a layer that one does not see */
} matcov_class;

/* Covariances of two sensors on one lattice, which depend on a difference of indices only:
 * value[kind][(y0 - y1 + origin) n + x0 - x1 + origin] with x0 = steps[0] ix of the first, x1 =
 * steps[1] ix of the second; kind: axis of the first + 2 axis of the second. */
typedef struct {
    int first, second; /* sensors */
    int steps[2], n, origin;
    int gradient; /* class of mean gradients, or -1; swapped: its first is `second` */
    bool swapped;
} matcov_table;

/* Which table serves a pair of sensors; -1: none. reversed: the table's first is the pair's second.
 * For mean gradients their class, else -1; swapped: the class's first is the pair's second. */
typedef struct {
    int table;
    bool reversed, swapped;
    int gradient;
} matcov_link;

/* The three lists of pairs: sensors with sensors, the truth sensor with itself and with the
 * sensors. */
enum { MATCOV_CMM, MATCOV_CTT, MATCOV_CTM, MATCOV_LISTS };

typedef struct {
    int64_t m, t;                   /* slopes of all sensors, of the truth sensor */
    int nlayer;                     /* of non-zero strength */
    const double *h, *kappa, *coef; /* altitude [m]; D = coef B((kappa rho)^2), B the scale-free
                                       structure function (matcov/fit_formula.h) */
    const double *drift[2];         /* by which a shifted truth sensor moves [m] */
    const bool *kolmogorov;         /* which B */
    int nsensor;
    matcov_sensor *sensors; /* [nsensor + 1]: the last one is the truth sensor, in direction 0 */
    struct {
        int ntable;
        matcov_table *tables;
        matcov_link *links; /* [firsts][seconds] */
    } list[MATCOV_LISTS];
    const double *noise;   /* [m/2][3] xx, yy, xy of each subaperture [arcsec^2] */
    const double *tiptilt; /* [nsensor] constant of a laser star [arcsec^2] */
    int ngradient, nclass; /* 0 where slopes are differences between points */
    const matcov_gradient *gradients;
    const matcov_class *classes;
    const double *gradient_values;
    size_t ngradient_value;
    long gradient_serial; /* equal where tables and values are those of another model, in order */
    bool difference;      /* of two profiles: entries are small */
    struct matcov *host;  /* what it was made of, for the CPU backend */
} matcov_model;

/* Parts of Cmm to include beside the turbulence. */
enum { MATCOV_NOISE = 1, MATCOV_TIPTILT = 2, MATCOV_ALL = 3 };

/* Covariances of sensors a and b, without noise and tip-tilt constants, that depend on a difference
 * of indices only: value[kind][y n + x] in the backend's memory, kind: axis of a + 2 axis of b, x =
 * steps[0] ix of a - steps[1] ix of b + origin; reversed: the difference is that of b to a. n = 0:
 * they do not. */
typedef struct {
    int steps[2], n, origin;
    bool reversed;
    const double *value[4];
    const double *noise; /* of all sensors, as in the model */
} matcov_values;

/* Rows or columns of a block: the x slopes of n subapertures `sub` of a sensor, then their y
 * slopes; or, where sensor = -1, the phase at points x, y [m] of the pupil. */
typedef struct {
    int sensor, n;
    const int *sub;
    const double *x, *y;
} matcov_cluster;

/* A block as U V' in single precision, in the host's memory, U rows x rank and V columns x rank;
 * or, u = NULL, V is the block's transpose and rank the number of its rows. full: wanted that way.
 */
typedef struct {
    const matcov_cluster *row, *col;
    bool full;
    int rank;
    float *u, *v;
} matcov_tile;

/* Rows i0 .. i0 + ni and columns j0 .. j0 + nj of a matrix. */
typedef struct {
    int64_t i0, ni, j0, nj;
} matcov_region;

/* Points of the pupil [m], in the backend's memory. */
typedef struct {
    int64_t n;
    const double *x, *y;
} matcov_points;

/* Both axes of subapertures k0 .. k0 + n of a sensor, from one evaluation where there is a way: x
 * slopes in columns 0:n of a block, y slopes in columns apart:apart+n, apart >= n. */
typedef struct {
    int sensor;
    int64_t k0, n, apart;
} matcov_slopes;

typedef struct backend_cov backend_cov;
typedef struct backend_cov_target backend_cov_target;

typedef struct backend_matcov {
    size_t size; /* sizeof(backend_matcov) */

    /* Device memory [bytes] that open and open_target take. */
    size_t (*bytes)(const matcov_model *m);
    size_t (*target_bytes)(const matcov_model *m);

    /* open may wait, and must be closed before its context; load waits at most for the transfer of
     * the load before (it takes memory only for more layers than ever before). The model may change
     * as soon as they return. close(NULL) is fine. */
    status (*open)(backend_ctx *ctx, const matcov_model *m, backend_cov **c);
    status (*load)(backend_cov *c, const matcov_model *m);
    void (*close)(backend_cov *c);

    /* A block of Cmm or Ctt, types D and S. part: 'A' all of it; 'L' what is on or below the
     * diagonal of the matrix, the rest is not touched; 'T' the same with the diagonal halved, so
     * that T + T' is the matrix. with: MATCOV_NOISE, MATCOV_TIPTILT or both. */
    status (*fill_cmm)(backend_cov *c, backend_type t, char part, unsigned with, matcov_region g,
                       void *a, int64_t lda);
    status (*fill_ctt)(backend_cov *c, backend_type t, char part, matcov_region g, void *a,
                       int64_t lda);

    /* Of two sensors, under the profile loaded, and until the next one is. */
    status (*values)(backend_cov *c, int a, int b, matcov_values *v);

    /* What the n outlined subapertures of sensor a (of a difference of profiles nkept of them)
     * change of such entries with sensor b, under the profile loaded: e is 2 n x 2 nsub of b, rows
     * their x slopes, then their y slopes, types D and S; entries with an outlined subaperture of b
     * are halved, as those of (b, a) have them too. */
    status (*outlined)(backend_cov *c, backend_type t, int a, int b, void *e, int64_t lde);

    /* A target: the truth sensor in direction dir [rad]; shifted: moved by -V tau
     * (matcov_target_init). fill_ctm: a block of Ctm, truth-sensor slopes with measurements. */
    status (*open_target)(backend_cov *c, backend_cov_target **t);
    void (*close_target)(backend_cov_target *t);
    status (*aim)(backend_cov_target *t, const double dir[2], bool shifted);
    status (*fill_ctm)(backend_cov_target *target, backend_type t, matcov_region g, void *a,
                       int64_t lda);
    /* All truth-sensor slopes with those slopes. */
    status (*fill_ctm_both)(backend_cov_target *target, backend_type t, matcov_slopes k, void *a,
                            int64_t lda);
    /* NULL, or the same of a difference of profiles in FP16 of 2^exponent x (backend_fp16.h);
     * *done: this backend has a way for that sensor, else nothing is written. */
    status (*fill_ctm_fp16)(backend_cov_target *target, int exponent, matcov_slopes k, uint16_t *a,
                            int64_t lda, bool *done);

    /* Covariance of the phase at points seen in the target's direction with measurements j0:j0+nj,
     * p.n x nj [m arcsec] (matcov_fill_cpm). Points lie in the pupil: none is further from the axis
     * than the furthest corner of a subaperture of any sensor, the truth sensor included. */
    status (*fill_cpm)(backend_cov_target *target, backend_type t, matcov_points p, int64_t j0,
                       int64_t nj, void *a, int64_t lda);
    /* The same with those slopes. */
    status (*fill_cpm_both)(backend_cov_target *target, backend_type t, matcov_points p,
                            matcov_slopes k, void *a, int64_t lda);
    /* NULL, or the same of a difference of profiles in FP16 of 2^exponent x, as fill_ctm_fp16. */
    status (*fill_cpm_fp16)(backend_cov_target *target, int exponent, matcov_points p,
                            matcov_slopes k, uint16_t *a, int64_t lda, bool *done);

    /* NULL, or blocks of sensors with sensors (without noise and tip-tilt constants), or, with a
     * target that was aimed, of points with sensors, each to a root mean square error of its
     * entries of about tol [arcsec^2], [m arcsec]; takes memory for u and v, which
     * matcov_tiles_free gives back. Of sensors that are matcov_tileable. */
    status (*tiles)(backend_cov *c, backend_cov_target *target, double tol, int ntile,
                    matcov_tile *tile);
} backend_matcov;

/* Argument checks that every backend makes: of a block of a matrix, of its columns that slopes of a
 * sensor of nsub subapertures take. */
static inline bool matcov_block_ok(backend_type t, int64_t rows, int64_t cols, matcov_region g,
                                   int64_t lda) {
    return (t == BACKEND_D || t == BACKEND_S) && g.i0 >= 0 && g.ni >= 0 && g.ni <= rows - g.i0 &&
           g.j0 >= 0 && g.nj >= 0 && g.nj <= cols - g.j0 && lda >= (g.ni > 1 ? g.ni : 1);
}
static inline bool matcov_slopes_ok(backend_type t, int64_t rows, int64_t nsub, matcov_slopes k,
                                    int64_t lda) {
    const matcov_region g = {0, rows, k.k0, k.n};
    return k.apart >= k.n && matcov_block_ok(t, rows, nsub, g, lda);
}

#ifdef __cplusplus
}
#endif
#endif
