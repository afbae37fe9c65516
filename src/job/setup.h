/* From the command line to everything that is derived before any large allocation; shared by run
 * and check. */
#ifndef MOAO_SETUP_H
#define MOAO_SETUP_H

#include "base/comm.h"
#include "field/field.h"
#include "job/cmdline.h"
#include "job/static_map.h"
#include "params/params.h"
#include "psf/psf.h"
#include "system/atmos.h"
#include "system/system.h"
#include <stdbool.h>

typedef struct {
    const params *par; /* nothing writes to them once they are loaded */
    sys s;
    atmos a;
    psf_opts o; /* crop resolved */
    psf_sizes grid;
    static_map map; /* errors.static_map; {0}: none */
    psf *ps;        /* NULL before setup_psf */
    bool sampled;   /* targets are interpolated: the targets of s are the nodes of f, */
    field f;
    sys want; /* and those of want, which borrows the rest from s, are the user's */
} setup;

/* Local. What of setup_init chooses nodes where the parameters ask for them; the nodes that were
 * added to u->f as targets of u->s; the user's targets. */
status setup_nodes(setup *u);
void setup_more_nodes(setup *u);
const sys *setup_wanted(const setup *u);

/* Collective. Reads and checks the parameters and derives geometry and atmosphere: sizes, nothing
 * that is large. MOAO_INPUT, from counts alone, for a case beyond any machine. */
status setup_init(const comm *c, const cmdline *cl, setup *u);
/* Local. The end of loading: parameters that are chosen where they are not given
 * (psf.oversampling), as the effective parameters of a run have them. */
status setup_choose(params *par);
/* Local. What the parameters ask of the psf stage; the lists are borrowed from par. */
void params_psf_opts(const params *par, psf_opts *o);
/* Collective. The plans of the PSFs, for a run. */
status setup_psf(const comm *c, setup *u);
void setup_free(setup *u);

/* Rank 0. Print what is doubtful but legal, with progress_warn: the parameters' own warnings, a
 * Strehl that the fitting error alone keeps under 0.05. */
status setup_warn(const setup *u);

#endif
