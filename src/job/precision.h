/* Mixed precision in a run: which exposures of which targets, and what the samples say.
 *
 * The sampled target of an exposure is computed in double precision too. Sampled is, of each
 * reconstructor, the exposure whose profile is least like the reconstructor's, which errors of
 * differences are largest in, and of the others one of so many, drawn at random, the same in every
 * run. They come first, in that order. While all of a reconstructor are within the tolerance, its
 * other exposures are taken to be; once one is not, all of them are sampled. What that guarantees:
 * docs/gpu-pipeline.md. */
#ifndef MOAO_PRECISION_H
#define MOAO_PRECISION_H

#include "base/progress.h"
#include "job/setup.h"
#include "obsseq/obsseq.h"
#include "store/store.h"

typedef struct {
    bool wanted; /* the plan has it: by the parameters, and there is a device with room for it */
    int edge;    /* target farthest from the centre of the field: the sampled one */
    int n;       /* exposures */
    enum { PRECISION_UNKNOWN, PRECISION_MIXED, PRECISION_DOUBLE } * state; /* [n] */
    double *difference;                                                    /* [n], NAN unknown */
    enum { PRECISION_WORST, PRECISION_DRAWN, PRECISION_OTHER } * sample;   /* [n] */
    int ntor;
    int *tor;   /* [n] reconstructor of an exposure */
    int *level; /* [ntor] how exact W is (linop.level) */
} precision;

/* Local; free also after a failure. */
status precision_init(const setup *u, precision *p);
void precision_free(precision *p);

/* Collective. What earlier runs into the store (rank 0, else NULL) decided. */
void precision_restore(const comm *c, const store *st, precision *p);

/* Whether targets t0 .. t1 have the sampled one: they come first, and decide for the others. */
bool precision_decides(const precision *p, int t0, int t1);

/* When exposure e of targets t0 .. t1 has its turn among those of its reconstructor: 0 .. 2; those
 * of one turn in the order of time. */
int precision_turn(const precision *p, int e, int t0, int t1);

/* How exposure e of targets t0 .. t1 is to be computed. Where nothing was decided by a sample:
 * double precision. fresh: nothing is kept yet of this reconstructor. */
obsseq_accuracy precision_plan(const precision *p, int e, int t0, int t1, bool fresh);

/* What became of it, W being as exact as `level` says; on rank 0 (st not NULL) kept, with a line
 * when double precision takes over. */
status precision_record(precision *p, int e, int t0, int t1, const obsseq_accuracy *how, int level,
                        store *st);

/* Local. For run.json. */
void precision_report(const precision *p, report *rep);

#endif
