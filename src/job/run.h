/* The main job: reconstructors, exposures, results, with a checkpoint after each exposure of a
 * chunk. */
#ifndef MOAO_RUN_H
#define MOAO_RUN_H

#include "base/comm.h"
#include "job/setup.h"

/* Collective. The whole run into its directory. MOAO_STOPPED when a signal ended it early; what is
 * finished is kept, and cl->resume goes on from there. */
status run_all(const comm *c, const cmdline *cl);

#endif
