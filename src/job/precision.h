/* Mixed precision in a run: which exposures of which targets, and what the samples say. */
#ifndef MOAO_PRECISION_H
#define MOAO_PRECISION_H

#include "base/progress.h"
#include "job/setup.h"
#include "obsseq/obsseq.h"
#include "store/store.h"

typedef struct {
    bool wanted; /* the plan has it: by the parameters, and there is a device with room for it */
    int edge;    /* target farthest from the centre of the field: sampled in every exposure */
    int n;       /* exposures */
    enum { PRECISION_UNKNOWN, PRECISION_MIXED, PRECISION_DOUBLE } * state; /* [n] */
    double *difference;                                                    /* [n], NAN unknown */
} precision;

/* Local; free also after a failure. */
status precision_init(const setup *u, precision *p);
void precision_free(precision *p);

/* Collective. What earlier runs into the store (rank 0, else NULL) decided. */
void precision_restore(const comm *c, const store *st, precision *p);

/* Whether targets t0 .. t1 have the sampled one: they come first, and decide for the others. */
bool precision_decides(const precision *p, int t0, int t1);

/* How exposure e of targets t0 .. t1 is to be computed. Where nothing was decided by a sample:
 * double precision. */
obsseq_accuracy precision_plan(const precision *p, int e, int t0, int t1);

/* What became of it; on rank 0 (st not NULL) kept, with a line when double precision takes over. */
status precision_record(precision *p, int e, const obsseq_accuracy *how, store *st);

/* Local. For run.json. */
void precision_report(const precision *p, report *rep);

#endif
