/* Maps from nodes: the directions in which a run computes, so that all targets follow from them by
 * interpolation (docs/field-maps.md).
 *
 * What images of a target are made of is a smooth function of the direction, but for a cusp at each
 * guide star. It is computed at nodes: a square lattice, one row more on every side than targets
 * need, and more of them about natural stars. Targets drawn at random are computed too, and
 * compared, then those of which the largest errors are expected; where an error is over the
 * tolerance, cells are refined, until it holds. Where that saves nothing, all targets are computed.
 * All of it follows from the case and the results, so that a run that goes on has the same nodes.
 *
 * Interpolation is local kriging with the generalised covariance r^5 and cubic polynomials
 * (polyharmonic splines; Wendland 2005, Scattered Data Approximation, section 8.3): exact at nodes,
 * of any places, without a length that has to be chosen. All functions are local. */
#ifndef MOAO_FIELD_H
#define MOAO_FIELD_H

#include "system/atmos.h"
#include "system/system.h"
#include <stdbool.h>

enum { FIELD_NEAREST = 36 }; /* nodes from which a target is interpolated, on all sides */
enum { FIELD_BASES = 3 };    /* exposures from which another one follows, at most */
/* Raised with every change of where nodes are or of what adds them: a run that goes on counts on
 * node i being where it was. */
enum { FIELD_RULE = 1 };

typedef enum {
    NODE_LATTICE,
    NODE_STAR,    /* about a natural star */
    NODE_TARGET,  /* a target that is to be exact */
    NODE_REFINED, /* where an error was too large */
    NODE_CHECK,   /* a target that the map is compared with; nothing is interpolated from it */
    NODE_AGAIN    /* a node that is computed twice (field_again) */
} field_kind;

typedef enum { STRATUM_CENTRE, STRATUM_EDGE, STRATUM_STAR, FIELD_STRATA } field_stratum;

typedef struct {
    double at[2]; /* direction [rad] */
    field_kind kind;
    int target;  /* which target it is, -1: none */
    int tor;     /* reconstructor from which on it is there */
    bool picked; /* NODE_CHECK: not drawn at random since its stratum was refined */
    bool fine;   /* not computed in exposures that follow from others */
} field_node;

/* An exposure that follows from others of its reconstructor. For one W the residual covariance is
 * linear in the strengths of the layers (docs/model.md), so
 *     K_e(x) = sum_b share_b K_b(x) + D_e(x)
 * where D_e is of what is left of the strengths: so little that it is interpolated from coarse
 * nodes. square_b: the same of what is of the second order (ln c of single pairs). */
typedef struct {
    int n; /* 0: all nodes are computed in it */
    int base[FIELD_BASES];
    double share[FIELD_BASES], square[FIELD_BASES];
} field_follow;

/* Of a map's roughness, as field_step has it: errors go as step^POWER, and a layer counts as its
 * strength times altitude^ALTITUDE. */
#define FIELD_STEP_POWER 3.3
#define FIELD_STEP_ALTITUDE 3.5

typedef struct { /* a cell that was refined: its lower corner and its side in steps */
    double u, v, side;
    bool halved;  /* false: it has a node in its middle only */
    double error; /* in tolerances, of the comparison that asked for it, 0: none */
} field_cell;

typedef struct {                 /* of the reconstructor that is compared, by stratum */
    int tor;                     /* whose they are */
    int drawn[FIELD_STRATA];     /* targets that failures have asked for, at random */
    int picked[FIELD_STRATA];    /* targets that were compared for their expected errors */
    bool doubtful[FIELD_STRATA]; /* one has failed since */
} field_rounds;

typedef struct {
    int nwant;
    const double (*want)[2];   /* [nwant] directions of the targets [rad], borrowed */
    int *node_of;              /* [nwant] node that computes a target, -1: it is interpolated */
    field_stratum *stratum;    /* [nwant] */
    double *error;             /* [nwant] what is expected of its interpolation; 0: a node */
    double step;               /* of the lattice [rad] */
    double origin[2], axis[2]; /* of its coordinates; axis: unit vector */
    double size[2];            /* of the targets' extent, in steps */
    bool line;                 /* all targets are on a line: the lattice has one row */
    int nnode, capacity;       /* capacity: at most, whatever is found */
    int most;                  /* nodes beyond which all targets become nodes */
    field_node *node;          /* [capacity] */
    int nstar;
    double (*star)[2]; /* natural stars [rad] */
    int ncell, cells;  /* refined; room */
    field_cell *cell;
    field_rounds rounds;
    bool whole;    /* more nodes save nothing: every target is one */
    int left_from; /* reconstructor from which on only targets are computed, 0: none */
    int stays;     /* but for this node */

    field_follow *follow; /* [exposures], NULL: none follows from others */
    int coarse;           /* rows from one node of every exposure to the next */
    int whole_from;       /* reconstructor from which on none follows; INT_MAX: none */
} field;

/* Steps of the lattice [rad] at which the largest error of a Strehl ratio or ensquared energy is
 * expected to be `tolerance`. Measured on three cases (docs/field-maps.md), of the exposures' mean
 * profile: where one is rougher, nodes are added. */
double field_step(const sys *s, const atmos *a, double tolerance);

/* Nodes for the targets of s, those of exact[nexact] (numbers from 0) among them; a: exposures of
 * which some may follow from others, NULL: none. MOAO_MEMORY. */
status field_init(const sys *s, const atmos *a, double step, const int *exact, int nexact,
                  field *f);
void field_free(field *f);
/* Nodes from which is interpolated or that are computed to compare; nodes that are to be made of
 * the whole field before anything is known. */
int field_count(const field *f, field_kind kind);
/* Exposures that follow from others, where that saves time (f->size is known). MOAO_MEMORY. */
status field_follow_init(const atmos *a, field *f);
/* Exposures in which all nodes are computed; residuals of nodes of all exposures. */
int field_whole_exposures(const field *f, const atmos *a);
double field_residuals(const field *f, const atmos *a);
/* Whether they save at least a quarter of the targets. */
bool field_pays(const field *f);

typedef struct { /* weights of a row: w[first[i] .. first[i+1]] of nodes node[] */
    int n, *first, *node;
    double *w;
    double *power; /* [n] kriging's standard deviation up to a factor: 0 at a node */
} field_weights;

/* Weights for n directions [rad] from the nodes that are sources under reconstructor `tor` and are
 * computed in its exposure e (-1: in any); a node in that very place counts alone, unless it is
 * without[i] (NULL: none; -1). MOAO_MEMORY. */
status field_interpolate(const field *f, int tor, int e, int n, const double (*at)[2],
                         const int *without, field_weights *w);
void field_weights_free(field_weights *w);
bool field_is_source(const field_node *n);
/* Whether node i is computed under reconstructor `tor`, in its exposure e (-1: in any). */
bool field_computes(const field *f, int i, int tor, int e);
/* Whether exposure e of reconstructor `tor` follows from others. */
bool field_follows(const field *f, int tor, int e);
/* Whether a node is within the extent of the targets: it has others on all sides. */
bool field_inside(const field *f, const field_node *n);

typedef struct { /* a comparison */
    int node;    /* of kind NODE_CHECK */
    double error, power;
    double whole; /* error among exposures in which all nodes are computed */
} field_check;

typedef struct {        /* of a run */
    int checked, nodes; /* targets that were compared; nodes */
    double largest;     /* error among those that were compared last */
    double found;       /* and among all, before nodes were added */
    int added;          /* nodes that were added */
} field_report;

/* Expected errors of all targets from n checks and the powers of all targets. */
void field_errors(field *f, const double *power, const field_check *check, int n);
/* After field_errors. Where one of n checks is over the tolerance in an exposure that follows from
 * others, and much less off in these, nodes about it are computed in every exposure; where many
 * are, or no node is left there, none follows from this reconstructor on. Else refines the field
 * where one is over the tolerance, and a stratum where that is expected of too many targets: a node
 * in the middle of a cell, later in those of its sides, both where the error is large. Targets of
 * the stratum that held become nodes, and more are compared then, or those of the largest expected
 * errors if these are over the tolerance. Targets are computed instead where nodes have not lowered
 * an error, and all of them where more nodes would save nothing (f->whole). *added: changes, 0: the
 * map holds. MOAO_MEMORY. */
status field_refine(field *f, int tor, double tolerance, const field_check *check, int n,
                    int *added);
/* Where all targets are computed: nodes that are none, but for one, leave after reconstructor
 * `tor`. */
void field_leave(field *f, int tor, int stays);
/* Appends a node in the place of node i, to compare both. */
status field_again(field *f, int i, int tor, int *again);

#endif
