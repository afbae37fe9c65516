/* The observing sequence: under the profile of each exposure, the residual of every target of a
 * chunk, and its point-spread functions. Model sections 6 and 7. */
#ifndef MOAO_OBSSEQ_H
#define MOAO_OBSSEQ_H

#include "obsseq/probe.h"
#include "psf/psf.h"
#include "store/store.h"
#include "tor/rows.h"

typedef struct {  /* what an exposure has in common for all targets and chunks; zeroed: not made yet
                   */
    double *mtt;  /* summed stationary average of D+ Ctt D+' */
    psf_fit *fit; /* fitting error */
} obsexposure;

/* Collective. Rows of P Cee P' but for P Ctt P': for every target on this rank, y[k] (nlrow x nrow,
 * leading dimension nlrow, k-th target of the chunk's slots, contiguous) = Y = (W T - P Ctm) W', so
 * that P Cee P' = P Ctt P' + Y + Y'. mc: conditions of the exposure; proj as in tor_solve. y is
 * overwritten. */
status obsseq_residual(const rowteam *t, const matcov *mc, const double *proj, const rowchunk *ch,
                       double *y);

/* Collective. Rows [i0, i0 + ni) of P Ctt P' (P: nrow x t) into c (ni x nrow, leading dimension
 * ni); the slices of the ranks are those of rows_slice(nrow, size, rank). */
status obsseq_truth(const rowteam *t, const matcov *mc, const double *proj, int nrow, int *i0,
                    int *ni, double **c);

/* Collective. One exposure of a chunk, from covariances to PSFs. W of the chunk, D+ (v x t), work y
 * as above. On rank 0 *block (owned by the caller) is filled, in the order of the targets. */
status obsseq_run(const rowteam *t, const profile *p, const double *dplus, const rowchunk *ch,
                  psf *ps, obsexposure *ex, double *y, result_block *block);
void obsexposure_free(obsexposure *ex);

/* Local. This rank's part of q and y of the targets that a probe looks at, from their W and Y; y as
 * obsseq_run leaves it. */
void obsseq_probe(const rowteam *t, const rowchunk *ch, const double *y, probe *p);

/* Collective. probe_forms on the CPU under a profile; shifted: Ctm of the exposure. */
status obsseq_forms(const rowteam *t, const profile *prof, bool shifted, const probe *p, double *a,
                    double *b);

/* Collective. Results of the targets that each rank owns, in order, to *b on rank 0. images: NULL
 * on every rank, or on none. */
status obsseq_collect(const rowteam *t, const rowchunk *ch, const double *scalars,
                      const float *images, result_block *b);

/* Number of targets of a chunk that no rank exceeds. */
size_t obsseq_most(const rowteam *t, const rowchunk *ch);

/* Bytes of y for chunks with nmine targets on a rank. */
size_t obsseq_work(const rowchunk *ch);

#endif
