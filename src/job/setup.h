/* From the command line to everything that is derived before any large allocation; shared by run
 * and check. */
#ifndef MOAO_SETUP_H
#define MOAO_SETUP_H

#include "atmos.h"
#include "comm.h"
#include "params.h"
#include "psf/psf.h"
#include "system.h"
#include <stdbool.h>

typedef struct { /* the command line after the subcommand; borrowed */
    int nfile, noverride;
    const char **files, **overrides; /* parameter files, key=value; owned arrays */
    const char *dir;                 /* -o, NULL: output.directory */
    bool resume, overwrite, force, quiet;
    int ranks;     /* check: plan for so many ranks, 0: those of this run */
    double memory; /* check: bytes that a rank may use, 0: what this machine offers */
} cmdline;

/* Parse argv[1..]; options not in `allowed` (a string of option names, each followed by a space)
 * are refused. MOAO_INPUT with a one-line message. Local. */
status cmdline_parse(int argc, char **argv, const char *allowed, cmdline *cl);
void cmdline_free(cmdline *cl);

typedef struct {
    params par;
    sys s;
    atmos a;
    psf_opts o; /* crop resolved */
    psf *ps;
} setup;

/* Collective. Reads and checks the parameters and derives geometry, atmosphere and PSF plans. */
status setup_init(const comm *c, const cmdline *cl, setup *u);
void setup_free(setup *u);

/* Rank 0. Print what is doubtful but legal, with progress_warn: the parameters' own warnings, a
 * Strehl that the fitting error alone keeps under 0.05. */
status setup_warn(const setup *u);

#endif
