/* The ranks that make a compressed factor together: the members of tlr_factor
 * (linalg/include/moao/tlr.h) as a group of devices. */
#ifndef MOAO_TLR_GROUP_H
#define MOAO_TLR_GROUP_H

#include "engine/engine.h"
#include "engine/group.h"

#include "moao/tlr.h"

typedef struct {
    engine *e;
    device_group group;
    tlr_procs members;
    bool failed; /* all were told of a failure of the current factor */
} tlr_group;

/* Collective. The ranks that group_open finds: those of all nodes where their memory is the host's,
 * those of a node on devices, where NCCL connects them; apart: no device serves two ranks; say: a
 * line of progress reports how. Errors are those of memory. */
status tlr_group_open(engine *e, bool apart, bool say, tlr_group *g);
/* Local. This rank alone. */
void tlr_group_alone(engine *e, tlr_group *g);
void tlr_group_close(tlr_group *g); /* fine on {0} */

/* Collective in the group. Before each factor: the worst status of its members. */
status tlr_group_begin(tlr_group *g, status local);
/* Local. What tlr_source.members is. */
const tlr_procs *tlr_group_procs(const tlr_group *g);
/* tlr_options.parts of m measurements. */
int tlr_group_parts(const tlr_group *g, bool distributed, int64_t m);

/* Local. How often ranks of so many nodes compute a factor that each of them needs; host: their
 * memory is the host's; apart: no device serves two ranks. */
int tlr_group_factors(bool host, bool apart, int ranks, int nodes);

/* Collective in the group, for the solves with a distributed factor, which go round: `more`: this
 * rank begins one. *any: one of them does. */
status tlr_group_round(tlr_group *g, status local, bool more, bool *any);

/* Collective in the group, among the calls of its factor's merge: see there. */
status tlr_group_agree(tlr_group *g, status local);

#endif
