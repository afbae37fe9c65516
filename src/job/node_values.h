/* Results of nodes under an exposure, those included that follow from other exposures
 * (field/field.h). */
#ifndef MOAO_NODE_VALUES_H
#define MOAO_NODE_VALUES_H

#include "job/run_state.h"

typedef struct { /* of an exposure's nodes, on every rank; 0 where a node does not exist */
    size_t ns, nkept;
    double *scalars; /* [nnode][ns] store_scalars */
    float *kept;     /* [nnode][nkept] psf_keep */
} node_values;

/* Collective. Those under exposure e of reconstructor k; kept: with what images are made of. Strehl
 * ratios and their like are 0 where a node follows. MOAO_MEMORY, MOAO_IO. */
status node_values_load(const run *r, int k, int e, bool kept, node_values *v);
void node_values_free(node_values *v);
/* Strehl ratios and their like of a node: the first of store_scalars. */
size_t node_quality_count(const run *r);

#endif
