/* The telescope's pupil: what of the annulus between obscuration and edge is lit. Spiders, segments
 * and an amplitude map take light away from the annulus; all may be turned together. Model
 * section 2.
 *
 * Coordinates are those of system.h [m]. Every shape comes to cells, squares of the plane with the
 * means of amplitude and light (amplitude squared) over them, from which areas, lit fractions, the
 * outline and the OTF follow. All functions are local; what is made of the same options is the same
 * on every rank. */
#ifndef MOAO_PUPIL_H
#define MOAO_PUPIL_H

#include "moao/status.h"
#include <stdbool.h>

typedef enum { PUPIL_WHOLE, PUPIL_HEXAGONS, PUPIL_SQUARES } pupil_tiling;

typedef struct { /* segments of the primary; the first stands around the centre */
    pupil_tiling tiling;
    double size, gap; /* from flat to flat of one; between two [m] */
    double angle;     /* direction from the first to a neighbour, counterclockwise from x [rad] */
    double within[2]; /* least and largest distance of their centres from the centre [m] */
    int nmissing;
    const double (*missing)[2]; /* [nmissing] a place on each [m] */
    double piston;              /* of each, rms of the optical path [m] */
    double tiptilt;             /* of each, rms of the wavefront's tilt along an axis [rad] */
} pupil_segments;

typedef struct { /* blocks; the pupil's centre is that of the array; dark beyond it */
    int nx, ny;
    double pixel;      /* [m] */
    double *amplitude; /* [ny][nx] 0 to 1, y slow; NULL: no map */
} pupil_map;

typedef struct {
    double diameter, obs;        /* of the annulus [m]; fraction of it */
    double angle;                /* of all that follows, counterclockwise [rad] */
    int nspider;                 /* from the centre outward */
    const double *spider_angle;  /* [nspider] directions, counterclockwise from x [rad] */
    const double *spider_offset; /* [nspider] to the left of that direction [m] */
    double spider_width;         /* [m] */
    double min_light;            /* of what the annulus gives a subaperture: below it is not used */
    pupil_segments segments;
    pupil_map map;
} pupil_opts;

typedef struct pupil pupil;

/* *out NULL: the annulus alone. `o` is copied, with its lists. MOAO_INPUT: more segments than a
 * telescope has, missing ones that are none, or no light at all. */
status pupil_init(const pupil_opts *o, pupil **out);
void pupil_free(pupil *p);

/* Whether a point is lit, for functions of the phase: gaps of less than 5 % of a segment count as
 * lit, and so do amplitudes of a map from 1/2 on. */
bool pupil_contains(const pupil *p, double x, double y);
/* Share of the light in a square from (x, y) on; whether the outline crosses it. */
double pupil_light(const pupil *p, double x, double y, double side);
bool pupil_crosses(const pupil *p, double x, double y, double side);
/* Means of amplitude and light (either NULL: not wanted) over n x n cells that cover the square of
 * the diameter: [n][n], y slow. */
void pupil_cells(const pupil *p, int n, double *amplitude, double *light);

typedef struct {
    double area;      /* integral of the light [m^2] */
    double amplitude; /* integral of the amplitude [m^2] */
    double square[2]; /* mean squares of x and of y by light, from its centroid [m^2] */
    double obs;       /* diameter of the circle around the centre without light, over the pupil's */
    double min_light; /* as in the options */
} pupil_figures;
const pupil_figures *pupil_about(const pupil *p);

#define PUPIL_MOST_EDGES 4096

typedef struct { /* a straight part of the outline, the light on its left */
    double from[2], to[2];
} pupil_edge;
/* Closed polygons around what pupil_contains calls lit; to a sixth of a 1024th of the diameter, or
 * to 0.6 pixels of a map; PUPIL_MOST_EDGES at most. Borrowed. */
int pupil_edges(const pupil *p, const pupil_edge **edges);

/* Segments: number, centres (borrowed), the one around a place (-1: none), and their errors. */
int pupil_segment_count(const pupil *p, const double (**centres)[2]);
int pupil_segment_at(const pupil *p, double x, double y);
double pupil_segment_radius(const pupil *p); /* of the circle around one with its gap [m] */
double pupil_angle(const pupil *p);          /* rotation, counterclockwise [rad] */
double pupil_piston(const pupil *p);         /* [m] */
double pupil_tiptilt(const pupil *p);        /* [rad] */

#endif
