/* What a pupil holds; private to pupil*.c. */
#ifndef MOAO_PUPIL_PARTS_H
#define MOAO_PUPIL_PARTS_H

#include "pupil.h"

#define PUPIL_CELLS 1024 /* across, of the tables */

struct pupil {
    pupil_opts o;  /* with its own lists */
    double pitch;  /* of segments, size + gap [m] */
    double closed; /* size of a segment with its gaps where they are narrow [m] */
    int reach;     /* lattice indices of segments run from -reach to reach */
    int *number;   /* [2 reach + 1][2 reach + 1] of a segment, or -1 */
    int nsegment;
    double (*centre)[2]; /* [nsegment] */
    double *light;       /* [PUPIL_CELLS + 1][PUPIL_CELLS + 1] integral from the corner, in cells */
    int *crossed;        /* the same of cells near the outline */
    int nedge;
    pupil_edge *edge;
    pupil_figures figures;
};

/* Polygons at half the amplitude of n x n cells into p->edge, and of the cells near them into
 * p->crossed. tolerance [cells]: by how much corners may be cut. */
status pupil_find_edges(pupil *p, const double *amplitude, double tolerance);

#endif
