/* Errors of memory and processors: some residuals are checked while a run goes on
 * (obsseq/residual_check.h), before their results are kept. compute.verify says which: `full` all
 * of them, `sample` one target of a chunk, drawn anew for each exposure, in the first exposure and
 * then as often as SHARE of the time of the exposures allows. */
#ifndef MOAO_VERIFY_H
#define MOAO_VERIFY_H

#include "base/progress.h"
#include "job/setup.h"
#include "obsseq/obsseq.h"

typedef struct {
    const comm *c;
    const sys *s;
    const double *dplus;  /* v x t */
    int mode;             /* VERIFY_ of params.h */
    size_t points;        /* of the pupil (psf.residual: phase): Y + Y' is W Cmm W' then */
    double worked, spent; /* seconds in exposures, in checks */
    double cost;          /* of the last check of one target [s] */
    long checked;         /* residuals */
    double largest[VERIFY_SUBJECTS]; /* relative differences */
    int *target;                     /* the probe's arrays */
    double *p;
    probe look; /* n = 0: nothing is checked this time */
} verify;

/* Local. Borrows all. */
void verify_init(const comm *c, const setup *u, const double *dplus, verify *v);
void verify_free(verify *v);

/* Collective. Draws what is checked of exposure e of targets t0 .. t1: *look, which the executor
 * fills; NULL: nothing. */
status verify_begin(verify *v, int e, int t0, int t1, probe **look);

/* Collective. MOAO_NUMERIC, with the target and what to do, where a residual of exposure e is not
 * what it should be. p, p0: profiles of the exposure and of the reconstructor; mixed: its
 * precision. seconds: what the exposure took. */
status verify_end(verify *v, obsseq *o, int e, bool mixed, const profile *p, const profile *p0,
                  double seconds);

/* Local. For run.json. */
void verify_report(const verify *v, report *rep);

#endif
