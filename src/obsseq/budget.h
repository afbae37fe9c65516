/* The terms of the residual's variance (budget/terms.h) of every target, beside its images. Model
 * section 7, "Error budget".
 *
 * Noise: W_i'G W_j of the slopes of each subaperture are found once for each W; an exposure's noise
 * multiplies them. Lag: W Cpm' without wind, at some points of the pupil, is taken from what the
 * exposure has there; of an operator that leaves a share of Cpm out, what wind changes of W Cpm' is
 * taken by itself, of all targets before the exposure. Where sensors have delays of their own or
 * the loop is closed, W Cmm W' has a part of the lag too: then it is what the total is more than
 * that of the exposure without wind, which is computed before. Fitting and aliasing come from the
 * mirror, tomography is what is left.
 */
#ifndef MOAO_OBSSEQ_BUDGET_H
#define MOAO_OBSSEQ_BUDGET_H

#include "base/background.h"
#include "budget/aliasing.h"
#include "budget/terms.h"
#include "obsseq/phase.h"

typedef struct {
    mirror_budget *mirror; /* NULL: no terms are wanted */
    psf *ps;
    const profile *prof; /* of the exposure */
    phase_term few;      /* points at which the lag is taken, and W Cpm' there */
    int *at;             /* [few.n] their numbers among all */
    double *shape;       /* on the device: rows of G + mean mean', then mean': (nlrow + 1) x nrow */
    double *mean;        /* of the influence functions of this rank's rows, on the device */
    int64_t high;        /* leading dimension of shape and product */
    background forming;  /* what is sent there at the first exposure: */
    const team *of;      /* of this rank's rows */
    double *rows, *means;
    bool shaped;      /* it is there */
    int (*band)[2];   /* of blocks of rows: their columns that are not 0 */
    double *weight;   /* influence functions at those points without their means, nlrow x few.n */
    double *product;  /* on the device: G times a panel of W, nlrow x width, then one row more */
    double *full;     /* in a group of ranks: all rows of a panel of W */
    double *dots;     /* on the device: blocks of W'G W, or products of the points' columns */
    double *ends;     /* pinned: of them, what is in transit to the host */
    double *each;     /* pinned [targets][few.n]: of all targets at once; NULL: never */
    bool all_at_once; /* so are those of the exposure */
    double *before; /* [targets][few.n] the products of each target's lag, of the exposure computed
                       last; NULL: not kept */
    void **columns; /* on the device: columns of W Cpm' at those points */
    void **column_hosts; /* pinned: PSF_SLOTS lists of them */
    double *gains;       /* [targets][m/2][3]: W_x'G W_x, W_y'G W_y, 2 W_x'G W_y of a subaperture */
    double *shared;      /* [targets][pairs of copies][slopes/2][3]: twice the same of a sensor and
                            a later copy of it, which have frames in common; NULL: none have */
    double *noise;       /* [m/2][3] of the exposure [arcsec^2] */
    long solved;         /* which solve the gains are of (tor) */
    bool lags;           /* the exposure has a delay and wind, and its lag is taken at the points */
    const double *still; /* [targets] total without wind [m^2], borrowed; NULL: not wanted */
} budget_term;

/* Bytes of the device, whatever the number of targets; of the host, for each target. Local. */
size_t budget_bytes(const sys *s, size_t points, size_t rows, size_t width);
size_t budget_target_bytes(const sys *s, size_t points);

/* How many of the pupil's points serve for the lag; whether a profile has one. */
size_t budget_points(size_t points);
bool budget_lags(const sys *s, const profile *p);
/* Whether W Cmm W' has a part of the lag, too. */
static inline bool budget_by_totals(const sys *s, const profile *p) {
    return sys_has_own_delays(s) || p->loop[0] != NULL;
}

/* Numbers that are kept of a target: BUDGET_TERMS, then the noise of each star. */
static inline int budget_count(const sys *s) {
    return BUDGET_TERMS + sys_stars(s);
}

/* Local. After tor_open; b stays where it is until close, which is fine on {0}. A thread waits for
 * the mirror's shapes: mirror_budget_end comes after budget_prepare or close. */
status budget_open(tor *t, psf *ps, mirror_budget *mirror, budget_term *b);
void budget_close(tor *t, budget_term *b);

/* Collective in the group. At the start of an exposure by an operator, the reconstructor's targets
 * solved; loads conditions of its own where it takes all lags at once. noise: matcov_noise. */
status budget_prepare(tor *t, budget_term *b, linop *op, const profile *p, const double *noise);
/* Local. Whether it takes all lags at once. */
bool budget_at_once(const budget_term *b, const linop *op, const sys *s, const profile *p);
/* Local. All lags kept become s times what they were: those of the next exposure. */
void budget_scale_lags(const tor *t, budget_term *b, double s);
/* Collective in the group. The lag of the k-th target, whose W Cpm' is ct, unless it was taken; the
 * target is aimed anew. scaled: it is the one kept (budget_scale_lags). */
status budget_lag(tor *t, budget_term *b, linop *op, int k, const double *ct, bool scaled);
/* Local, where the work of the target is done: its terms [m^2], out[budget_count]; total: variance
 * of its images [m^2]. Fitting, aliasing and what is left are for budget_complete, local, after
 * mirror_budget_end. */
void budget_fill(const tor *t, const budget_term *b, int k, double total, double *out);
void budget_complete(const tor *t, const budget_term *b, int k, double *out);

#endif
