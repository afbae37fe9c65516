/* The error budget of a finished run, from its maps.fits. Local. */
#ifndef MOAO_BUDGET_READ_H
#define MOAO_BUDGET_READ_H

#include "budget/terms.h"
#include "moao/status.h"
#include <stdbool.h>

#define BUDGET_NAME 48 /* bytes of a name, with its zero */

typedef struct {
    char name[BUDGET_NAME];
    double *exposures; /* [ntarget][nexposure] signed rms [nm] */
    double *mean;      /* [ntarget] of the long exposure; NULL: the results have no such term */
} budget_term;

typedef struct {
    const char *dir, *target;
    int exposure, chosen; /* from 1, 0: the long one; the target from 0, -1: all */
    bool csv, json;
    long ntarget, nexposure, nstar;
    char merged[80]; /* which terms are in the tomography, "": none (budget/terms.h) */
    char at[48];     /* of the first image: results_label */
    double lambda,
        strehl;    /* its wavelength or band's centre [um]; mean Strehl ratio of what is shown */
    double *x, *y; /* of the targets [arcsec] */
    char (*names)[BUDGET_NAME]; /* of the targets; "" where they have none */
    budget_term *terms;         /* BUDGET_TERMS, then the stars */
} budget;

/* Read b->dir, with b->target (NULL: all) and b->exposure of the command line. MOAO_INPUT with one
 * line for results that are not as a run writes them. budget_free also after a failure. */
status budget_read(budget *b);
void budget_free(budget *b);

#endif
