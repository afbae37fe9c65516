/* Results of nodes under an exposure, where some of them are computed in others alone.
 *
 * K_e(x), what images of direction x are made of in exposure e, has structure that the lattice of
 * nodes resolves, the more the stronger high layers are. Exposures have this structure in common:
 * with a_b fitted,
 *
 *     D_e(x) = K_e(x) - sum_b a_b K_b(x)
 *
 * over whole exposures b, in which all nodes are computed, is smoother than K_e. So D_e is
 * interpolated to the nodes that e lacks, from those that it has, and K_e there is D_e and the sum.
 * a_b: least squares of what K is off an interpolation from the other nodes, over the nodes of
 * every exposure, which measures the structure that is to be removed (a regression on auxiliary
 * variables: kriging with external drift; Wackernagel 2003, Multivariate Geostatistics, ch. 37).
 * They are fitted for the mean by separation, for ln c of each wavelength, and for each scalar. */
#ifndef MOAO_NODE_VALUES_H
#define MOAO_NODE_VALUES_H

#include "job/run_state.h"

/* Collective. Those under exposure e of reconstructor k; kept: with what images are made of (0
 * where a node does not exist). MOAO_MEMORY, MOAO_IO. */
status node_values_load(run *r, int k, int e, bool kept, node_values *v);
void node_values_free(node_values *v);
/* Local. Those of bases that are stored leave. */
void node_values_forget(run *r);

#endif
