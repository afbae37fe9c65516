/* Maps from nodes: the directions in which a run computes, so that all targets follow from them by
 * interpolation (docs/field-maps.md).
 *
 * What images of a target are made of is a smooth function of the direction, but for a cusp at each
 * guide star. It is computed at nodes: a square lattice, one row more on every side than targets
 * need, and more of them about natural stars. Targets drawn at random are computed too, and
 * compared; where an error is over the tolerance, cells are halved, until it holds. All of it
 * follows from the case and the results, so that a run that goes on has the same nodes.
 *
 * Interpolation is local kriging with the generalised covariance r^5 and cubic polynomials
 * (polyharmonic splines; Wendland 2005, Scattered Data Approximation, section 8.3): exact at nodes,
 * of any places, without a length that has to be chosen. All functions are local. */
#ifndef MOAO_FIELD_H
#define MOAO_FIELD_H

#include "system/atmos.h"
#include "system/system.h"
#include <limits.h>
#include <stdbool.h>

enum { FIELD_NEAREST = 36 }; /* nodes from which a target is interpolated, on all sides */
enum { FIELD_NEVER = INT_MAX };
enum { FIELD_BASES = 2 }; /* exposures from which another one is completed, at most */
/* Nodes of every second row both ways; of the other places of even rows, too: half of all; all. */
enum { FIELD_SPARSE, FIELD_HALF, FIELD_WHOLE };

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
    int tor;     /* reconstructor from which on it exists, */
    int level;   /* exposures of that level compute it, or a higher one (field.level); */
    int full;    /* reconstructor from which on every exposure does */
    bool picked; /* NODE_CHECK: compared because most was expected of it, not drawn at random */
} field_node;

typedef struct { /* a cell that was halved: its lower corner and its side in steps */
    double u, v, side;
} field_cell;

typedef struct {
    int nwant;
    const double (*want)[2];   /* [nwant] directions of the targets [rad], borrowed */
    int *node_of;              /* [nwant] node that computes a target, -1: it is interpolated */
    field_stratum *stratum;    /* [nwant] */
    double *error;             /* [nwant] what is expected of its interpolation; 0: a node */
    double *bound;             /* [nwant] the same by targets compared that are about as far */
    double step;               /* of the lattice [rad] */
    double origin[2], axis[2]; /* of its coordinates; axis: unit vector */
    double size[2];            /* of the targets' extent, in steps */
    bool line;                 /* all targets are on a line: the lattice has one row */
    int nexposure;             /* 0: every node is computed in every exposure */
    unsigned char *level;      /* [nexposure] up to which nodes are computed; FIELD_WHOLE: all */
    int poor;      /* an exposure whose errors are larger than those of whole ones, -1: none */
    bool keeps;    /* nodes stay, even where all targets are computed */
    int left_from; /* reconstructor from which on targets alone are computed; 0: none */
    int nnode, capacity; /* capacity: at most, whatever is found */
    int most;            /* nodes beyond which all targets become nodes */
    field_node *node;    /* [capacity] */
    int nstar;
    double (*star)[2]; /* natural stars [rad] */
    int ncell, cells;  /* halved; room */
    field_cell *cell;
} field;

/* Steps of the lattice [rad] at which the largest error of a Strehl ratio or ensquared energy is
 * expected to be `tolerance`. Measured on three cases (docs/field-maps.md), of the exposures' mean
 * profile: where one is rougher, nodes are added. */
double field_step(const sys *s, const atmos *a, double tolerance);

/* Nodes for the targets of s, those of exact[nexact] (numbers from 0) among them, all of them
 * computed in every exposure. MOAO_MEMORY. */
status field_init(const sys *s, double step, const int *exact, int nexact, field *f);
/* The same for a sequence of exposures, at a tolerance. What differs between exposures is smoother
 * than a map, in units of it. Where that saves time, all nodes are computed in some exposures
 * (whole), fewer in the others, and what these lack follows from both (job/node_values.h). Nodes of
 * a lower level come first. MOAO_MEMORY. */
status field_init_sequence(const sys *s, const atmos *a, double tolerance, const int *exact,
                           int nexact, field *f);
void field_free(field *f);
/* The exposures from which what exposure e lacks follows: the last ones of its reconstructor of a
 * higher level, else of those before it. Returns how many; the last first. */
int field_bases(const unsigned char *level, const atmos *a, int e, int base[FIELD_BASES]);
/* W and residuals of nodes in the whole run, before any are added. */
void field_work(const field *f, const atmos *a, double *solves, double *residuals);
/* Nodes from which is interpolated or that are computed to compare; nodes that are to be made of
 * the whole field before anything is known. */
int field_count(const field *f, field_kind kind);
/* Nodes that are computed in every exposure; exposures in which all nodes are. */
int field_everywhere(const field *f);
int field_whole(const field *f);
/* Whether they save at least a quarter of the targets. */
bool field_pays(const field *f);
/* Whether node i exists under reconstructor `tor`, is computed in an exposure of it; whether every
 * node is that exists there. */
bool field_exists(const field *f, int i, int tor);
bool field_computes(const field *f, int i, int tor, int exposure);
bool field_is_complete(const field *f, int tor, int exposure);
/* Whether every target is computed in every exposure of a reconstructor. */
bool field_computes_all(const field *f, int tor);

typedef struct { /* weights of a row: w[first[i] .. first[i+1]] of nodes node[] */
    int n, *first, *node;
    double *w;
    double *power; /* [n] kriging's standard deviation up to a factor: 0 at a node */
} field_weights;

typedef struct {    /* sources under reconstructor `tor`: */
    int tor, since; /* those that exist since an earlier one, */
    int level;      /* and are computed in exposures of that level */
} field_sources;

/* Weights for n directions [rad] from sources; a node in that very place counts alone, unless it is
 * without[i] (NULL: none; -1). field_interpolate: of all that exist. MOAO_MEMORY. */
status field_interpolate_from(const field *f, field_sources from, int n, const double (*at)[2],
                              const int *without, field_weights *w);
status field_interpolate(const field *f, int tor, int n, const double (*at)[2], const int *without,
                         field_weights *w);
bool field_from(const field *f, const field_node *n, field_sources from);
void field_weights_free(field_weights *w);
bool field_is_source(const field_node *n);
/* Whether a node is within the extent of the targets: it has others on all sides. */
bool field_inside(const field *f, const field_node *n);

typedef struct { /* a comparison */
    int node;    /* of kind NODE_CHECK */
    double error, power;
    double whole; /* error in the exposures in which all nodes are computed */
    int exposure; /* that of `error` */
} field_check;

typedef struct {        /* of a run */
    int checked, nodes; /* targets that were compared; nodes */
    double largest;     /* error among those that were compared last */
    double found;       /* and among all, before nodes were added */
    int added;          /* nodes that were added */
} field_report;

/* Adds nodes where one of n checks is over the tolerance, with checks of their own; their number is
 * returned in *added, 0: the map holds. Where a check fails in exposures that lack nodes alone,
 * those about it are computed from now on; where many do, the worst exposure becomes whole.
 * MOAO_MEMORY. */
status field_refine(field *f, int tor, double tolerance, const field_check *check, int n,
                    int *added);
/* Expected errors of all targets [of a Strehl ratio] under reconstructor `tor`, from n checks that
 * hold and powers of all targets: f->error, as the worst check in units of kriging's deviation; and
 * f->bound, no more than follows from checks that are about as far from nodes, if these are uniform
 * up to an upper end (at 99 % confidence). Where bounds are over the tolerance for many targets,
 * field_refine_expected compares the worst of them first; for few, or for as many as were compared,
 * it adds nodes. *added as above, 0: the map holds, and errors expected are the tolerance at most.
 * MOAO_MEMORY. */
void field_errors(field *f, int tor, const double *power, const field_check *check, int n);
status field_refine_expected(field *f, int tor, double tolerance, int *added);
/* Appends a node in the place of node i, to compare both. */
status field_again(field *f, int i, int tor, int *again);

#endif
