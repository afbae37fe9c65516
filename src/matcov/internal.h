/* What the files of matcov share. Nothing outside this folder includes it. */
#ifndef MOAO_MATCOV_INTERNAL_H
#define MOAO_MATCOV_INTERNAL_H

#include "gradient.h"
#include "matcov.h"
#include "structure.h"

/* Layers of non-zero strength, as the kernels want them. */
typedef struct {
    int n, nground; /* number of layers, and of those at h = 0 */
    double *h;      /* altitude [m] */
    double *kappa;  /* s = (kappa rho)^2 is the argument of the table: 2 pi / L0, or 1 */
    double *coef;   /* D = coef table(s) [rad^2]; 0: layer_is_unused */
    /* Of a closed loop a layer is there once for each age of slopes: sum over ages of the slopes
     * of sensors of loop a with those of loop b and other frames, of the phase with slopes of a.
     * Elsewhere coef. */
    int nloop; /* more than 1: sensors have different loops */
    bool aged; /* a layer is there more than once */
    int most;  /* of those that one pair uses, at most */
    double *coef_alone, *coef_slopes[LOOPS][LOOPS],
        *coef_phase[LOOPS]; /* coef_alone: coef, of the truth sensor */
    double *drift[2]; /* what a shifted truth sensor, or `rows` of matcov, moves by: -V tau [m] */
    double *wind[2];  /* V [m/s] */
    const structure_table **table;
} layers;

/* One run of valid subapertures that are neighbours along a row. */
typedef struct {
    int first, n; /* subaperture numbers first .. first+n-1 */
    int ix, iy;   /* of the first */
} run;

typedef struct outline_set outline_set;

/* A sensor's subapertures and the edge points between which its slopes are phase differences: slope
 * k of an axis is phase[plus[k]] - phase[minus[k]]. Neighbours share an edge point, and along a run
 * both lists increase by one, so any range of subapertures needs a contiguous range of edge points.
 */
typedef struct {
    int nssp, nsub, nrun;
    double size; /* of a subaperture, magnified [m] */
    double mag, rot, shift[2];
    double altitude, dir[2]; /* of the star [m], [rad] */
    bool drifts;             /* a shifted truth sensor */
    double late;             /* of a sensor with a delay of its own (system.h) [s] */
    int loop;                /* that slopes are of, among those of layers; truth sensor: -1 */
    bool gradient;           /* slopes are mean gradients, not differences between edge points */
    int kind;                /* of size, altitude and rotation, among the gradients'; or -1 */
    run *runs;
    int *run_of;             /* [nsub] */
    int nedge[2];            /* by axis */
    int *minus[2], *plus[2]; /* [nsub] */
    double *x[2], *y[2];     /* [nedge] registered position in the pupil plane [m] */
    double *centre[2];       /* [nsub] registered position, where `gradient` [m] */
    matcov_outline outline;  /* of partly lit subapertures, whose centres are their centroids */
    outline_set *lines;      /* that owns its arrays, or NULL */
    bool difference;         /* of profiles, which leaves out nearly whole ones */
} footprint;

typedef struct gradient_set gradient_set;
typedef struct aged_tables aged_tables; /* of a closed loop (aged.h) */

/* Tables for mean gradients: of every class of pairs of sensors and layer. */
typedef struct {
    int nkind, nclass, ntable;
    int *class_of; /* [nkind][nkind]: kind of the class's first <= that of the second */
    int *phase_of; /* [nkind]: class of the phase at a point with slopes of that kind */
    matcov_class *classes;
    int *index;         /* [nclass][layers], what the classes point to */
    gradient_key *keys; /* [ntable], while the set is not there */
    gradient_set *set;  /* what others share; of it: */
    const matcov_gradient *tables;
    const double *values;
    size_t nvalue;
    long serial;
    /* of a closed loop (aged.h), else NULL: tables of the structure function between nodes, whose
     * separations ages displace along the wind, from line[2 l] to line[2 l + 1] [m] */
    const int *planes;
    const double *wind[2], *line;
} gradients;

/* Covariances of two sensors whose entries depend on a difference of indices only: both footprints
 * are on one lattice of pitch D/lcm(nssp, nssp), of which the pitches of the first and the second
 * are steps[0] and steps[1]. value[kind][(y0 - y1 + origin) * n + x0 - x1 + origin] with x0 =
 * steps[0] ix of the first, x1 = steps[1] ix of the second, and so on. Stars of different altitudes
 * share a lattice on the ground only: such a table holds the layers at h = 0, and the others are
 * filled as for other sensors. */
enum { LIKE_XX, LIKE_YY, LIKE_XY, LIKE_YX, LIKE_KINDS }; /* axis of the first, axis of the second */
typedef struct {
    const footprint *first, *second;
    bool ground; /* only the layers at h = 0 */
    int steps[2], n, origin;
    double *value[LIKE_KINDS]; /* YX is XY when the steps are equal */
} like;

/* Whether two sensors share a lattice, on every layer or on the ground; fills the table's lattice.
 */
bool like_lattice(const footprint *a, const footprint *b, like *t);

/* The like pairs of some sensors (the firsts) with others (the seconds): which table serves which
 * pair. */
typedef struct {
    int nfirst, nsecond, ntable;
    like *tables;
    struct {
        int table;     /* -1: an unlike pair */
        bool reversed; /* the table's first is this pair's second */
    } * links;         /* [nfirst][nsecond] */
    double *values;    /* of all tables */
    size_t nvalue;
} lattice_table;

struct matcov {
    const sys *s;
    const profile *p;
    structure_table karman, kolmogorov;
    layers lay;           /* of the truth sensor with itself */
    layers slopes, phase; /* the same with coef_slopes, coef_phase of the first loop; borrowed */
    int nsensor;
    footprint *feet; /* [nsensor] */
    footprint *rows; /* [nsensor] the first of a pair of sensors: feet, or where layers have ages of
                        slopes a copy that drifts. In one loop all ages have their negative, so
                        that it does not matter which of the two it is */
    footprint ts;
    lattice_table pairs; /* of the sensors */
    lattice_table self;  /* of the truth sensor with itself */
    gradients means;     /* empty where slopes are differences between points */
    aged_tables *aged;   /* sums over the ages of a closed loop, or NULL */
    bool difference;     /* of two profiles */
    double *noise;       /* [m/2][3] xx, yy, xy of each subaperture [arcsec^2] */
    double *tiptilt;     /* [nsensor] [arcsec^2] */
};

struct matcov_target {
    const matcov *mc;
    footprint ts;        /* borrows the arrays of mc->ts */
    lattice_table pairs; /* of the truth sensor with the sensors */
};

/* geometry.c */
/* The members that decide which pairs are alike. */
footprint footprint_outline(const sys *s, const sensor *o);
status footprint_init(const sys *s, const sensor *o, footprint *f);
void footprint_free(footprint *f);
size_t footprint_bytes(int nssp, int nsub);
/* The truth sensor as the model has it: at infinity and unregistered, in direction dir. */
sensor truth_sensor(const sys *s, const double dir[2]);
/* By what it is displaced on layer l, as the frozen flow moves there until it measures [m]. */
void footprint_drift(const layers *lay, int l, const footprint *f, double drift[2]);
/* Position on layer l of a sensor's pupil-plane point p: c p + offset, both in units of 1/kappa_l.
 * False when the layer is at or above the star. */
bool footprint_on_layer(const layers *lay, int l, const footprint *f, double *c, double offset[2]);
/* The same in m. */
bool footprint_metres(const layers *lay, int l, const footprint *f, double *c, double offset[2]);
/* Those with coefficients of a pair, where there are several loops; borrowed. */
static inline layers layers_between(const layers *lay, const footprint *a, const footprint *b) {
    layers of = *lay;
    if (lay->nloop > 1)
        of.coef = a->loop >= 0 && b->loop >= 0   ? lay->coef_slopes[a->loop][b->loop]
                  : a->loop >= 0 || b->loop >= 0 ? lay->coef_phase[a->loop >= 0 ? a->loop : b->loop]
                                                 : lay->coef_alone;
    return of;
}
/* Layers of a profile, and their ages where it has a loop. */
status layers_init(const profile *p, double delay, const structure_table *karman,
                   const structure_table *kolmogorov, layers *lay);
static inline bool layer_is_unused(const layers *lay, int l) {
    return lay->coef[l] == 0.0;
}
void layers_free(layers *lay);

/* lattice.c: lattice_table_plan decides and may allocate, else lattice_table_allocate does;
 * lattice_table_compute evaluates tables first <= i < last. `symmetric`: the firsts are the
 * seconds, and one table serves both orders. */
status lattice_table_plan(const footprint *firsts, int nfirst, const footprint *seconds,
                          int nsecond, bool symmetric, bool allocate, lattice_table *k);
status lattice_table_allocate(lattice_table *k);
status lattice_table_compute(lattice_table *k, const layers *lay, const gradients *means,
                             const aged_tables *aged, int first, int last);
void lattice_table_free(lattice_table *k);

/* outline.c: outlines of the partly lit subapertures of a sensor of mean gradients, of all of those
 * of a star of 1 or 2 subapertures; moves f->centre to the centroids of the former. Sensors of the
 * same geometry share them, under all profiles, from the first footprint that has them until the
 * last one is freed. */
status outline_init(const sys *s, const sensor *o, footprint *f);
void outline_free(footprint *f);
size_t outline_bytes(const sys *s, const sensor *o);
/* Nodes on the outline of the lit part (whole: of all of it) of subaperture k, q on a piece: places
 * and weights as in matcov_outline; returns how many, which outline_count does before, of an
 * annulus OUTLINE_NODES(q) at most. q <= OUTLINE_MOST; short pieces of other pupils have fewer. */
#define OUTLINE_MOST 24
#define OUTLINE_NODES(q) (40 * (q))
int outline_count(const sys *s, const sensor *o, int k, bool whole, int q);
int outline_nodes(const sys *s, const sensor *o, int k, bool whole, int q, double *x, double *y,
                  double *wx, double *wy);
/* direct_mean.c: mean of a layer's structure function over two edges whose centres are `at` apart
 * [m], by quadrature; edge vectors [m], one of which may be 0. Slow. */
double direct_mean(double strength, double L0, const double at[2], const double edge_a[2],
                   const double edge_b[2]);

/* gradient_tables.c: classes and tables of all pairs of the sensors and the truth sensor, numbering
 * the footprints' kinds. ts NULL: of the sensors alone, and of the phase only where outlines need
 * it. Nothing where they are not mean gradients. Local. */
status gradients_init(footprint *feet, int nsensor, footprint *ts, const layers *lay,
                      const structure_table *kolmogorov, gradients *g);
void gradients_free(gradients *g);
/* Bytes of the tables of a profile of so many layers, at most. Local. */
status gradients_count(const sys *s, int nlayer, size_t *bytes);
/* Class of a pair, -1 where one is not mean gradients; *swapped: its first is the pair's second. */
int gradients_class(const gradients *g, const footprint *a, const footprint *b, bool *swapped);

/* gradient_fill.c: entries of slopes rows->k0 <= k < k1 with those of an axis of another sensor,
 * instead of what is there: of the rows' x axis in ax, of their y axis in ay, NULL where one is not
 * wanted (rows->axis does not matter); work: 3 (k1 - k0) numbers. */
typedef struct {
    const footprint *f;
    int axis, k0, k1;
    const int *sub; /* k counts these subapertures, NULL: those of the sensor */
} gradient_slopes;
/* A pair of sensors as its tables have it: a class and which of the two is its first. */
typedef struct {
    const matcov_class *c;
    bool swapped;
    int parts[2];   /* of the rows' and of the columns' subapertures */
    double scale;   /* of an entry, per unit of a layer's coefficient [arcsec^2/rad^2] */
    double step[2]; /* between parts, in the pupil [m] */
} gradient_relation;
gradient_relation gradients_relation(const gradients *g, const footprint *a, const footprint *b);
/* Of both axes of a with axis_b of b. */
gradient_axes gradients_axes_of(const gradient_relation *r, int kinds, const footprint *a,
                                const footprint *b, int axis_b);
/* Centre of part i of n x n, of size `step`, of a subaperture, relative to its centre [m]; turn:
 * (cos, sin) of the sensor's rotation. */
void gradients_part_at(const double turn[2], double step, int n, int i, double at[2]);
void gradients_fill(const gradients *g, const layers *lay, const gradient_slopes *rows,
                    const gradient_slopes *cols, double *work, double *ax, double *ay, size_t ld);
/* The same of both axes of the columns: a[axis of the rows + 2 axis of the columns], all wanted.
 * work: 2 numbers for each row. */
void gradients_fill_axes(const gradients *g, const layers *lay, const gradient_slopes *rows,
                         const gradient_slopes *cols, double *work, double *const a[4], size_t ld);
/* The same where the slopes of one sensor are mean gradients and those of the other differences
 * between two points, by the phase at these points. work: 4 numbers for each edge point of the rows
 * and each of their slopes. */
void gradients_fill_mixed(const gradients *g, const layers *lay, const gradient_slopes *rows,
                          const gradient_slopes *cols, double *work, double *a, size_t ld);
/* Table of layer l for slopes of sensors a and b, or for the phase at a point with slopes of f;
 * *scale: of an entry, per unit of a layer's coefficient. NULL: one does not see the layer. Axes,
 * with tables of so many kinds, of slopes of a with both axes of those of b (gradient_add_both).
 * Subapertures are not cut into parts. */
const matcov_gradient *gradients_table(const gradients *g, int l, const footprint *a,
                                       const footprint *b, double *scale);
const matcov_gradient *gradients_phase(const gradients *g, int l, const footprint *f,
                                       double *scale);
void gradients_axes(const gradients *g, const footprint *a, const footprint *b, int kinds,
                    gradient_axes axes[2]);
/* Those of all tables that are wanted in single precision; both to be freed. */
status gradients_single(const gradients *g, const bool *wanted, gradient_single **tables,
                        float **values);
/* Values of a table of a like pair. */
status gradients_like(const gradients *g, const layers *lay, like *t);
/* n of them, one axis of the second, instead of what is there: for the differences ix and iy of
 * places, in units of the lattice's pitch, those of the first's x axis in value[0], of its y axis
 * in value[1]. t without values; work: 4 n numbers. */
void gradients_differences(const gradients *g, const layers *lay, const like *t, int axis_b,
                           size_t n, const int *ix, const int *iy, double *work,
                           double *const value[2]);

/* outline_fill.c: covariances of outlined subapertures. outline_squares: entries that are those of
 * a lattice become those of squares at the lit parts' centroids, `constant` more; work: as
 * gradients_fill. */
void outline_squares(const gradients *g, const layers *lay, const gradient_slopes *rows,
                     const gradient_slopes *cols, double constant, double *work, double *a,
                     size_t ld);
/* Adds what outlines change of those, a[axis of the rows + 2 axis of the columns], NULL: not wanted
 * (the axes of rows and cols do not matter). */
void outline_correct(const gradients *g, const layers *lay, const gradient_slopes *rows,
                     const gradient_slopes *cols, double *const a[4], size_t ld);
/* How many outlines of a sensor serve: those of a difference of profiles, or all. */
int outline_served(const footprint *f);
/* The operation `outlined` of two sensors with a table, which has them in the other order where
 * `reversed`. */
status outline_of_lattice(const gradients *g, const layers *lay, const like *t, bool reversed,
                          double *e, size_t ld);
/* Two sensors on a layer: what pairs of their subapertures share. */
typedef struct {
    const gradients *g;
    const footprint *f[2];
    double c[2], of[2][2]; /* a place p of the pupil is at c p + of [m] */
    double turn[2][2];     /* (cos, sin) of the rotation */
    const structure_table *d;
    structure_kernel *kernel;
    double kappa;
    const matcov_gradient *t, *phase[2]; /* of both; of the phase with slopes of either */
    gradient_relation r;
    gradient_axes axes[2];
    double coef, scale;               /* of entries of t; of nodes, over sizes of 1 m */
    double radius2, apart2, moments2; /* squared separations [m^2] (outline_formula.h) */
    /* of a closed loop: the structure function's table, or NULL; the ages' line, along a unit
     * vector, from line[0] to line[1] [m] */
    const matcov_gradient *plane;
    double along[2], line[2];
} outline_pair;
/* False: neither has outlines, or one does not see the layer. */
bool outline_open(const gradients *g, const layers *lay, int l, const footprint *a,
                  const footprint *b, outline_pair *x);
/* Adds what outlines change of n subapertures from k0 on, or n that are sub[k0 ..], with kb: to
 * to[axis of the first + 2 axis of the second] [arcsec^2], NULL: not wanted. */
void outline_add(const outline_pair *x, int n, int k0, const int *sub, int kb, double *const to[4]);
/* The same of the phase with a sensor. */
typedef struct {
    const gradients *g;
    const footprint *f;
    double c, of[2], turn[2];
    const structure_table *d;
    structure_kernel *kernel;
    double kappa, coef;
    const matcov_gradient *t;
    double radius2, apart2;
} outline_phase;
bool outline_open_phase(const gradients *g, const layers *lay, int l, const footprint *f,
                        outline_phase *x);
/* Of the phase at (x, y) on the layer [m] with subaperture k, e[axis], times `scale`, which is that
 * of a phase and of a slope over a size of 1 m. */
void outline_add_phase(const outline_phase *p, double x, double y, int k, double scale,
                       double e[2]);

/* Adds the covariances of the phase at n points (x, y) on the layer [m] with both axes of
 * subaperture k to f and g; false, nothing added: an outline makes no difference to it. */
bool outline_phases(const outline_phase *p, int k, size_t n, const double *x, const double *y,
                    double *f, double *g);

typedef struct { /* rows i0 .. i0 + ni, columns j0 .. j0 + nj of a matrix, at a */
    size_t i0, ni, j0, nj;
    double *a;
    size_t ld;
} cov_block;

/* matcov.c: matcov_prepare, without `noise` with zeros in its place. */
status prepare_profile(const sys *s, const profile *p, bool noise, matcov **mc);
/* matcov.c: Cmm with noise and tip-tilt constants as `with` says (MATCOV_NOISE, MATCOV_TIPTILT). */
status fill_cmm_with(const matcov *mc, unsigned with, cov_block b);

/* noise.c */
/* As Cmm has it: raised where it must be, of which an exposure of a closed loop has the sum of h^2.
 */
status noise_of_profile(const sys *s, const profile *p, double *noise, double *tiptilt);
/* noise_floor.c: raise variances of mean gradients that are too small for Cmm to be positive
 * definite. */
void noise_raise(const sys *s, const profile *p, double *noise);
/* The least variance of a sensor's slopes [arcsec^2]. */
double noise_floor(const sys *s, const sensor *o, const profile *p);
/* Slope variance of a sensor, k sum_l D_l(d_wl) [arcsec^2]. */
double noise_slope_variance(const sys *s, const sensor *o, const profile *p);

/* fill.c: entries of rows [i0, i0+ni) and columns [j0, j0+nj) of the covariance of the slopes of
 * two lists of sensors, noise left out. */
typedef struct {
    const footprint *rows, *cols;
    int nrow, ncol; /* sensors */
    const lattice_table *pairs;
    const layers *lay;
    const gradients *means;
    const aged_tables *aged; /* which some pairs have in the place of lay and means, or NULL */
    const double *constant;  /* [nrow] added to xx and yy of a sensor with itself, or NULL */
} fill_source;
status fill_block(const fill_source *src, cov_block b);
/* Rows 0 .. ni with slopes of a sensor of the columns. */
status fill_block_axes(const fill_source *src, size_t ni, matcov_slopes k, double *a, size_t ld);

#endif
