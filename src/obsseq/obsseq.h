/* The observing sequence, and the executor of a run: reconstructors (tor/tor.h) and, under the
 * profile of each exposure, the residual of every target of a chunk and its point-spread functions.
 * Model sections 6 and 7. Results of a target leave the device while the next one is
 * computed there. */
#ifndef MOAO_OBSSEQ_H
#define MOAO_OBSSEQ_H

#include "obsseq/budget.h"
#include "obsseq/layer_tables.h"
#include "obsseq/multiple.h"
#include "obsseq/phase.h"
#include "obsseq/residual_check.h"
#include "obsseq/tables.h"
#include "psf/psf.h"
#include "store/store.h"
#include "tor/tor.h"

typedef struct {  /* what an exposure has in common for all targets and chunks; zeroed: not made yet
                   */
    double *mtt;  /* summed stationary average of D+ Ctt D+' */
    psf_fit *fit; /* fitting error */
} obsexposure;
void obsexposure_free(obsexposure *ex);

typedef struct {
    tor t;
    psf *ps;
    int edge;
    double tolerance;
    const backend_psf *img;
    backend_imager *imager;
    const backend_psf *last; /* what makes images of the sums: img, or where a static map is there
                                the CPU's, with an imager and sums of its own */
    backend_imager *last_imager;
    double *host_sum; /* pinned */
    phase_term phase;
    layer_tables layers; /* of the exposure; plan.by_layers */
    budget_term budget;
    double *sum, *mtt;    /* on the device, stationary averages: of Y + Y', of P Ctt P' */
    float *pairwise;      /* on the device, of a target: psf_accumulate_phase; NULL: not wanted */
    double *pair_sums;    /* of a group of ranks: this rank's part of it, before it is rounded */
    float *host_pairwise; /* pinned, beside host_sum */
    double *truth;        /* rows of P Ctt P' */
    double *average;      /* pinned: mtt in transit */
    bool keep;
    double *logs;            /* on the device, ln c of each wavelength; NULL: not wanted */
    double *kept[PSF_SLOTS]; /* pinned: sums and logs, of the target in a slot */
    double psf_seconds;      /* of an exposure, where PSFs are made at once */
    probe *look;             /* what the current exposure is checked by; NULL: nothing */
    device_group group;      /* whose devices sample a target together */
    bool apart;              /* tables are prepared ahead, on a thread */
    exposure_tables now, ahead;
    struct {
        const profile *p; /* of the exposure that is expected next; NULL: none */
        const obsexposure *ex;
    } next;
    struct {         /* Y, W Cpm' and lags of all targets that are there: */
        bool any;    /* false: of no exposure that has a number */
        int number;  /* of which one */
        long solved; /* of which solve (tor) */
    } last_residual;
    struct { /* exposures of a reconstructor: first .. number; a NULL: not said */
        const atmos *a;
        int first, number;
    } in;
    bool formed;       /* residuals of the exposure follow from those of another one */
    bool has_shared_y; /* Y of the exposure, by the reference (product.whole_y), is in t.y[0] */
} obsseq;

/* Collective. What makes PSFs for an executor that tor_open has opened, then tor_take. mirror:
 * NULL, no error budget; begun or computed
 * (obsseq_expose ends it). tolerance: largest difference of a Strehl ratio or ensquared energy of
 * the plan's sampled target, where the operator is not exact. close, which closes the executor too:
 * fine on {0}. */
status obsseq_open(psf *ps, mirror_budget *mirror, double tolerance, obsseq *o, int *chunk);
void obsseq_close(obsseq *o);

typedef struct {       /* how an exposure of a chunk is computed, where the operator is not exact */
    bool approximate;  /* in: try it; out: results are of it */
    bool sample;       /* in: with the sampled target by the reference, if the chunk has it */
    bool fresh;        /* in: nothing is kept of this reconstructor: W may become more accurate */
    double difference; /* out: largest difference of a Strehl ratio or ensquared energy between it
                          and its reference; where the lags of the error budget differ by more than
                          1e-3, the tolerance times that over 1e-3, if it is more; NAN: the chunk
                          has no sampled target */
} obsseq_accuracy;

/* Collective. One exposure of the targets solved last, from covariances to PSFs: on rank 0 *block
 * (owned by the caller) is filled, in the order of the targets; for the targets of `look` (may be
 * NULL) q and y of the probe, 0 where another rank has them.
 *
 * Where the operator is not exact and how->approximate and how->sample, the target `edge`, if it is
 * among them, is computed with the reference too, which is its result; where the difference exceeds
 * the tolerance, the operator is tightened and the exposure made again (with W too, where
 * how->fresh allows), or, where it cannot be, all targets are computed with the reference. The same
 * on every rank. */
status obsseq_expose(obsseq *o, const profile *p, obsexposure *ex, obsseq_accuracy *how,
                     probe *look, result_block *block);

/* Local. The exposure that obsseq_expose computes next is that of number e: residuals of one whose
 * turbulence is a multiple of that before, of the same reconstructor, may follow from these
 * (multiple.h). They do so in the same way, bit for bit, whether that one was computed or not. a is
 * borrowed until then. */
void obsseq_number(obsseq *o, const atmos *a, int e);

/* Local. The exposure after the one that obsseq_expose computes next: a device's host prepares its
 * tables meanwhile, with the same results. Both are borrowed until that exposure, or obsseq_close.
 * A failure is that exposure's. */
void obsseq_expect(obsseq *o, const profile *p, const obsexposure *ex);

/* Local. The same of the first exposure with the reconstructor of profile tor, before that is
 * computed: begun at once. tor is borrowed, too. */
void obsseq_begin(obsseq *o, const profile *tor, const profile *p, const obsexposure *ex);

/* Local. Largest difference of a Strehl ratio or ensquared energy between two targets' results, as
 * a block of that shape has them; INFINITY where one is not a number. */
double obsseq_difference(const result_block *b, const double *x, const double *y);

/* Collective. residual_check_make_forms under a profile. */
status obsseq_forms(obsseq *o, const profile *p, bool shifted, const probe *look,
                    const residual_check_forms *f);

/* Collective. Results of the targets that each rank makes PSFs of (team_owned), to *b on rank 0.
 * images, kept: NULL on every rank, or on none. */
status obsseq_collect(const tor *t, const double *scalars, const float *images, const float *kept,
                      result_block *b);

/* Local. Results of n directions that were not computed, under a profile: number i of what is kept
 * is the sum of w[k] kept[node[k]][i], k from first[row] to first[row + 1], kept in rows of
 * psf_kept_count numbers. scalars: [n][nlambda (3 + nbox)]; images: [n][nlambda][crop][crop], NULL:
 * not wanted. ex has, or gets, the fitting error. Of an executor that keeps, between exposures. */
typedef struct {
    int n; /* directions, rows of weights */
    const int *first, *node;
    const double *w;
    const float *kept;
} obsseq_rows;
status obsseq_interpolate(obsseq *o, const profile *p, obsexposure *ex, const obsseq_rows *rows,
                          double *scalars, float *images);

#endif
