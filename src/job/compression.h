/* How exact the compressed factor of a reconstructor is made: W of one target is computed twice, as
 * it is and refined with Cmm0 itself, which squares its error; what that changes in the target's
 * Strehl ratios and ensquared energies decides. */
#ifndef MOAO_COMPRESSION_H
#define MOAO_COMPRESSION_H

#include "base/progress.h"
#include "operator/operator.h"

typedef struct {
    int n;                    /* reconstructors */
    linop_accuracy *accuracy; /* [n] of those that are made */
    report_compression *told; /* [n] for run.json; tile 0: not made by this run */
    bool wanted;              /* the plan has a compressed factor */
} compression;

/* Local. free: fine on {0}. */
status compression_init(int ntor, compression *c);
void compression_free(compression *c);

/* Steps (linop_accuracy) by which the tolerance becomes smaller where results change by
 * `difference` and half of `limit` is allowed: the change is quadratic in the tolerance. At least
 * one, at most to a sixteenth. */
int compression_tighter(double difference, double limit);

#endif
