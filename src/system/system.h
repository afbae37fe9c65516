/* Telescope, sensors, deformable mirror and targets: geometry in SI units, derived once from the
 * parameters.
 *
 * Conventions of the model: pupil coordinates in m, origin at the pupil's centre; directions in rad
 * on the sky; altitudes in m along the line of sight (altitude above the pupil times the airmass);
 * slopes in arcsec. A slope vector is ordered by sensor; within a sensor all x slopes, then all y
 * slopes, subapertures row by row (y slow, x fast). */
#ifndef MOAO_SYSTEM_H
#define MOAO_SYSTEM_H

#include "loop.h"
#include "moao/status.h"
#include "pupil.h"
#include <stdbool.h>
#include <stddef.h>

#define ARCSEC_PER_RAD 206264.80624709636
#define LAMBDA_REF 500e-9 /* r0 and phase structure functions are quoted at this wavelength [m] */
#define SEEING_LAMBDA (0.976 * LAMBDA_REF) /* seeing [rad] times r0: Kolmogorov's FWHM */

typedef struct { /* noise of one sensor, as given by the parameters */
    double
        variance;  /* slope variance [arcsec^2] that replaces the model below; < 0: use the model */
    bool gaussian; /* photon noise of a Gaussian spot, else the published factor */
    double excess; /* factor on the variance of photons and background; below 1: 1 */
    double background; /* of a pixel in a frame, the sky's not counted [e-] */
    bool has_sky, extinct;
    double sky;        /* NGS: where has_sky, magnitudes per arcsec^2 */
    double extinction; /* where extinct, magnitudes per airmass: the light is as at zenith */
    double frame_time; /* [s] */
    double ron;        /* read-out noise [e-] */
    double pixel;      /* pixel size [rad] */
    double wavelength; /* of the sensor [m] */
    double bandwidth;  /* NGS [m] */
    double throughput; /* telescope, optics, detector [1] */
    double photons;    /* photo-electrons of a wholly lit subaperture and frame, in the place of
                          magnitude or return; 0: by these */
    double magnitude;  /* NGS */
    int band;          /* NGS: its band (photometry.h) */
    double zero;       /* NGS: photons of magnitude 0 above the atmosphere in the sensor's band
                          [1/m^2/s]; 0: the published constant, the same in all bands */
    double lgs_return; /* LGS: photons at M1 [1/m^2/s] */
    double t_atm;      /* LGS: transmission of the atmosphere [1] */
    double lgs_width;  /* LGS: spot's width [rad] */
    double lgs_depth;  /* LGS: depth of the layer at zenith [m] */
    bool corrected;    /* NGS: spots of a core without seeing and a halo of a full spot */
    double core;       /* of those: share of the light in the core */
    bool full_spot;    /* spots of seeing, diffraction and pixel, else of the seeing alone */
    double field_stop; /* side of a subaperture's field [rad]; 0: without end */
    double launch[2];  /* LGS: launch point in the pupil frame [m] */
    double tiptilt; /* LGS: constant added to all xx and all yy covariances [arcsec^2]; < 0: use the
                       factor */
    double tiptilt_factor; /* LGS: that constant in units of the sensor's slope variance (10) */
} sensor_noise;

typedef struct {
    char name[32];
    bool lgs;
    int nssp;        /* subapertures across the diameter */
    int nsub;        /* valid subapertures */
    int *sub;        /* [nsub] index iy*nssp + ix of each valid subaperture, increasing */
    double dir[2];   /* direction of the guide star [rad] */
    double altitude; /* of the guide star along the line of sight [m]; INFINITY for an NGS */
    double mag;      /* registration: magnification G */
    double rot;      /* registration: rotation, counterclockwise [rad] */
    double shift[2]; /* registration: shift [m] */
    bool gradient;   /* slopes are mean gradients, else differences between two points */
    double late;  /* what it measures is that much younger than what is as old as the loop's delay
                     [s]; 0 but for a sensor with a delay of its own */
    bool low;     /* of the low orders (low_control) */
    int loop;     /* which of the loops its slopes have (sys_loop) */
    bool whole;   /* not the pupil's part of subapertures counts: the truth sensor */
    size_t first; /* position of its first slope in the measurement vector */
    sensor_noise noise;
} sensor;

typedef struct {
    int nssp; /* subapertures of the truth sensor across the diameter; actuators at their corners */
    int nact; /* v: number of valid actuators */
    int *act; /* [nact] index iy*(nssp+1) + ix of each valid actuator, increasing */
    double pitch;    /* d_t [m] */
    double altitude; /* along the line of sight [m]; of those of fit_target */
    int first;       /* its first command; of those of fit_target */
    double coupling; /* influence function at the neighbouring actuator */
    double mu;       /* regularisation of the command matrix D+ (3e-3) */
} dmirror;

/* A common mirror, fit.mirrors[0], in closed loop, and one for each target behind it in open loop,
 * fit.mirrors[1] (mode: split, tor/split.h). */
typedef struct {
    bool on;
    bool residual; /* slopes as measured behind the common mirror, else pseudo-open-loop slopes */
    bool unknown;  /* a target's commands do not know those of the common mirror */
    int copies;    /* 0: one delay. 2: slopes of different times; the second half of the sensors are
                      the first ones once more, as the common mirror's commands have them. 3: and
                      again, as these were when residual slopes were measured behind it */
    loop_filter own, seen;       /* where the common loop is closed (sys.loop): slopes of a target's
                                    commands; those of the third copies */
    double shift[2], rot, scale; /* how sensors see the common mirror, against its model: [m],
                                    counterclockwise [rad], magnification */
} split_control;

/* Low orders of shared mirrors by stars of their own, N, the others by the rest, L. LOW_JOINT: one
 * minimum-variance W of all; else tor/low_orders.h. */
enum { LOW_SPLIT, LOW_CASCADE, LOW_INDEPENDENT, LOW_JOINT };
enum { LOW_TIPTILT, LOW_FOCUS, LOW_PLATE_SCALE, LOW_ALL };
#define LOW_MOST 6 /* modes */
typedef struct {
    bool on;
    int control;
    int modes;        /* tip and tilt; with focus, plate scale, both */
    loop_filter loop; /* of these stars; type LOOP_OPEN: that of the others */
} low_control;

typedef struct {      /* what the commands of a target are fitted to */
    bool phase;       /* the phase at points of the pupil, else the truth sensor's slopes */
    size_t points;    /* of the former */
    int ndir;         /* directions that one set of commands is fitted to, for all targets; 0: each
                         target has its own, fitted to its direction */
    double (*dir)[2]; /* [ndir] [rad] */
    double *weight;   /* [ndir], sum 1 */
    int nmirror;      /* mirrors that are shared by all targets; 0: sys.dm, on the pupil, is one */
    dmirror *mirrors; /* [nmirror] */
    split_control split;
} fit_target;

typedef struct {
    double diameter;  /* [m] */
    double obs;       /* central obscuration, fraction of the diameter */
    pupil *pupil;     /* what of the annulus is lit (pupil.h), owned; NULL: all */
    double zenith;    /* zenith angle [rad] */
    double airmass;   /* 1/cos(zenith) */
    double delay;     /* loop delay tau [s]; of a closed loop 0, */
    loop_filter loop; /* which has a filter; type LOOP_OPEN: has none */
    low_control low;
    int nsensor;
    sensor *sensors;
    sensor ts; /* truth sensor: noiseless, at infinity, direction of whatever target is asked for */
    dmirror dm;
    fit_target fit;
    size_t m; /* measurements, 2 * sum of nsub */
    size_t t; /* truth-sensor measurements, 2 * ts.nsub */
    int ntarget;
    double (*targets)[2]; /* [ntarget] directions [rad]; in a grid: x fast, y slow, increasing */
    int grid[2];          /* targets along x and y, or {0, 0} when they are no grid */
    double grid_step[2];  /* [rad], when a grid */
} sys;

/* Validity of subaperture (ix, iy) of n x n, and of actuator (ix, iy) of (n+1) x (n+1), in integers
 * so that rounding cannot decide; obs: fraction of the diameter. */
bool sys_subaperture_valid(int n, double obs, int ix, int iy);
bool sys_actuator_valid(int n, double obs, int ix, int iy);

/* Valid actuators of a mirror of nssp pitches across, into act and nact: those of
 * sys_actuator_valid; an obscuration is seen by a mirror at altitude 0 alone. Local. MOAO_INPUT
 * where there is none. */
status sys_derive_mirror(const sys *s, dmirror *dm);

/* Fill the derived fields (nsub, sub, nact, act, pitch, airmass, first, m, t) of a sys whose plain
 * fields are set; s->ts.nssp and s->dm.nssp are equal. The obscuration becomes that of the pupil.
 * Local. Used by sys_init (params.h) and by tests. */
status sys_derive(sys *s);
void sys_free(sys *s);

/* Rows of the right-hand side that commands are fitted to, in one direction. */
static inline size_t sys_fit_rows(const sys *s) {
    return s->fit.phase ? s->fit.points : s->t;
}
/* Directions of which P has columns: of a split system those of the common mirror, then that of the
 * target. */
static inline int sys_fit_directions(const sys *s) {
    return s->fit.split.on ? s->fit.ndir + 1 : s->fit.ndir > 0 ? s->fit.ndir : 1;
}
/* Whether all targets have one set of commands. */
static inline bool sys_shares(const sys *s) {
    return s->fit.ndir > 0 && !s->fit.split.on;
}
/* Guide stars: sensors, those of another delay once. */
static inline int sys_stars(const sys *s) {
    return s->fit.split.copies > 0 ? s->nsensor / s->fit.split.copies : s->nsensor;
}
/* The i-th loop, 0 <= i < LOOPS; NULL: there is none, and where it is the first no other. */
static inline const loop_filter *sys_loop(const sys *s, int i) {
    const loop_filter *second = s->fit.split.on ? &s->fit.split.own : &s->low.loop,
                      *f = i == 0   ? &s->loop
                           : i == 1 ? second
                                    : &s->fit.split.seen;
    return f->type != LOOP_OPEN ? f : NULL;
}
/* Local. fit.split.seen, where it is needed, from the loops of both mirrors. MOAO_MEMORY. */
status sys_see_common(sys *s);
/* Delay of the common mirror of a split system in open loop [s]. */
static inline double sys_common_delay(const sys *s) {
    return s->delay -
           (s->fit.split.copies > 0 ? s->sensors[sys_stars(s)].late - s->sensors[0].late : 0);
}
/* Their measurements. */
static inline size_t sys_slopes(const sys *s) {
    return s->fit.split.copies > 0 ? s->m / (size_t)s->fit.split.copies : s->m;
}
/* Whether commands of the low orders follow from those of one minimum-variance W. */
static inline bool sys_low_follows(const sys *s) {
    return s->low.on && s->low.control != LOW_JOINT;
}
/* How many low orders there are. */
int sys_low_modes(const sys *s);
/* They, at a point of the pupil [m] in direction d of those that commands are fitted to: of order
 * 1, not without their means. */
void sys_low_at(const sys *s, int d, double x, double y, double mode[LOW_MOST]);
/* Measurements of their stars: numbers into `list` unless NULL; how many. */
size_t sys_low_slopes(const sys *s, size_t *list);
/* Commands: rows of W of a target. */
static inline int sys_commands(const sys *s) {
    const dmirror *last = s->fit.nmirror > 0 ? &s->fit.mirrors[s->fit.nmirror - 1] : &s->dm;
    return last->first + last->nact;
}
/* Whether a target's direction decides what it sees of the mirrors. */
static inline bool sys_is_aloft(const sys *s) {
    bool any = false;
    for (int i = 0; i < s->fit.nmirror; i++)
        any = any || s->fit.mirrors[i].altitude != 0;
    return any;
}
/* Columns of P. */
static inline size_t sys_fit_columns(const sys *s) {
    return sys_fit_rows(s) * (size_t)sys_fit_directions(s);
}

/* Photo-electrons per wholly lit subaperture and frame of a sensor's star, and of the background in
 * one pixel. Model section 5. */
double sys_photons(const sys *s, const sensor *o);
double sys_background(const sys *s, const sensor *o);
/* Photons of magnitude 0 above the atmosphere in the band of a natural star's sensor [1/m^2/s]. */
double sys_zero_photons(const sensor_noise *n);
/* Share of a subaperture (number among the valid ones) that the pupil lights, without registration.
 * Whether no outline of the pupil cuts it. */
double sys_lit_share(const sys *s, const sensor *o, int isub);
bool sys_is_whole(const sys *s, const sensor *o, int isub);
/* Whether a place of the annulus is lit [m]. */
bool sys_is_lit(const sys *s, double x, double y);
/* Peak of the diffraction-limited image over that of the clear annulus; collecting area [m^2]. */
double sys_peak(const sys *s);
double sys_area(const sys *s);

/* Delay of a sensor's measurements, from the middle of a frame [s]; whether any sensor's is not the
 * loop's. */
double sys_delay_of(const sys *s, const sensor *o);
bool sys_has_own_delays(const sys *s);

/* Slope index (0 <= k < m) -> sensor, axis (0 x, 1 y), subaperture number. */
void sys_slope_at(const sys *s, size_t k, int *w, int *axis, int *isub);

#endif
