/* How far nodes are from what the others say: where a map is rough, and whether a node has erred.
 */
#ifndef MOAO_NODE_GAPS_H
#define MOAO_NODE_GAPS_H

#include "job/run_state.h"

typedef struct {   /* [nnode], largest of the exposures of a reconstructor; -1: of a node unknown */
    double *gap;   /* difference of Strehl ratios and ensquared energies, in units of kriging's
                      deviation */
    double *off;   /* the difference itself */
    double *rough; /* as gap, in the exposures that have most nodes alone */
    double least;  /* roughness of a place, at least */
    double median; /* of gap */
} node_gaps;

/* Collective. Of reconstructor k. MOAO_MEMORY, MOAO_IO. */
status node_gaps_find(run *r, int k, node_gaps *g);
void node_gaps_free(node_gaps *g);
/* Local. The source that is farthest from its neighbours, if that is suspicious; else -1. */
int node_gaps_suspect(const run *r, const node_gaps *g);
/* Local. Multiplies powers (kriging's deviations) of n directions [rad] by the roughness about
 * them: errors are expected in proportion to both. */
void node_gaps_scale(const run *r, const node_gaps *g, int n, const double (*at)[2], double *power);

#endif
