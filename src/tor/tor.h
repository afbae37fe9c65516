/* The tomographic reconstructor (ToR) of one profile: Cmm0 = L L', and W = P Ctm0 Cmm0^-1 of chunks
 * of targets, P = D+ (rows are DM commands) or the identity (rows are truth-sensor slopes, W = R).
 * Model section 6. */
#ifndef MOAO_TOR_H
#define MOAO_TOR_H

#include "linalg/bcmat.h"
#include "tor/rows.h"

typedef struct {
    const profile *prof; /* conditions "0" */
    matcov *mc;
    bcmat l; /* Cholesky factor of Cmm0 */
} tor;

/* Collective. Fills Cmm0 and factors it. Not positive definite: MOAO_NUMERIC with the sensor that
 * the leading minor belongs to and what to change. */
status tor_init(const rowteam *t, const profile *p, int nb, int nprow, int npcol, tor *r);
void tor_free(tor *r);

/* Local. MOAO_NUMERIC for a leading minor of Cmm0 that is not positive: which sensor it belongs to
 * and what helps. */
status tor_explain_minor(const sys *s, int minor);

/* Collective. W of the targets of a chunk into ch->w. proj: ch->nrow x t, or NULL for the identity.
 * *residual: |W Cmm0 - P Ctm0| / |P Ctm0| in the Frobenius norm, over all rows and `nsample`
 * columns spread over the measurements (0: not computed, NAN). */
status tor_solve(const rowteam *t, const tor *r, const double *proj, int nsample, rowchunk *ch,
                 double *residual);

#endif
