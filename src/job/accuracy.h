/* Accuracy in a run: what is not exact up to rounding is checked by its effect on the Strehl
 * ratios and ensquared energies of one target, the sampled one, in the run that uses it, and made
 * more accurate where that is too large (linop_reduce_tolerance). Which of the two below is checked
 * follows from the format (operator/operator.h); what was found is kept in the store.
 *
 * W by a compressed factor: in the first exposure of each reconstructor, before all others, by W as
 * it is and refined with Cmm0 itself, which squares its error.
 *
 * Exposures: the sampled target is computed with the reference too. Sampled is, of each
 * reconstructor, the exposure whose profile is least like the reconstructor's, which errors of
 * differences are largest in, and of the others one of so many, drawn at random, the same in every
 * run. They come first, in that order. While all of a reconstructor are within the tolerance, its
 * other exposures are taken to be; once one is not, all of them are sampled. What that guarantees:
 * docs/gpu.md. */
#ifndef MOAO_ACCURACY_H
#define MOAO_ACCURACY_H

#include "base/progress.h"
#include "job/setup.h"
#include "obsseq/obsseq.h"
#include "store/store.h"

typedef struct {
    bool factors;   /* the plan's format has a compressed factor */
    bool exposures; /* it is not exact in exposures */
    int edge;       /* target farthest from the centre of the field: the sampled one */
    int n;          /* exposures */
    enum { ACCURACY_UNKNOWN, ACCURACY_APPROXIMATE, ACCURACY_EXACT } * state; /* [n] */
    double *difference;                                                      /* [n], NAN unknown */
    enum { ACCURACY_WORST, ACCURACY_DRAWN, ACCURACY_OTHER } * sample;        /* [n] */
    int *tor;                                                                /* [n] whose */
    int ntor;
    struct accuracy_of {   /* a reconstructor; [ntor] */
        factor_accuracy w; /* how accurate W is */
        bool known;        /* of a compressed factor: that was decided, and */
        double difference; /* what that changes */
    } * of;
    report_compression *told; /* [ntor] for run.json; tile 0: not made by this run */
} accuracy;

/* Local; free also after a failure. */
status accuracy_init(const setup *u, accuracy *a);
void accuracy_free(accuracy *a);

/* Local. What the format of the plan asks for. */
void accuracy_want(accuracy *a, const linop_pair *pair);

/* Collective. What earlier runs into the store (rank 0, else NULL) decided. */
void accuracy_restore(const comm *c, const store *st, accuracy *a);

/* Whether targets t0 .. t1 have the sampled one: they come first, and decide for the others. */
bool accuracy_decides(const accuracy *a, int t0, int t1);

/* When exposure e of targets t0 .. t1 has its turn among those of its reconstructor: 0 .. 2; those
 * of one turn in the order of time. */
int accuracy_turn(const accuracy *a, int e, int t0, int t1);

/* How exposure e of targets t0 .. t1 is to be computed. Where nothing was decided by a sample:
 * exactly. fresh: nothing is kept yet of this reconstructor. */
obsseq_accuracy accuracy_plan(const accuracy *a, int e, int t0, int t1, bool fresh);

/* What became of it, W being as accurate as `level` says; on rank 0 (st not NULL) kept, with a line
 * when the reference takes over. */
status accuracy_record(accuracy *a, int e, int t0, int t1, const obsseq_accuracy *how, int level,
                       store *st);

/* Local. For run.json. */
void accuracy_report(const accuracy *a, report *rep);

#endif
