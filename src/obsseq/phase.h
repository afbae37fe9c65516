/* The residual phase on the pupil (psf.residual: phase): W Cpm' of the targets of an exposure,
 * beside their Y. Model section 7. */
#ifndef MOAO_OBSSEQ_PHASE_H
#define MOAO_OBSSEQ_PHASE_H

#include "psf/psf.h"
#include "tor/tor.h"

typedef struct layer_tables layer_tables;

typedef struct {
    int64_t n;     /* points; 0: commands are averaged, and nothing here is needed */
    double *x, *y; /* on the device [m] */
    int64_t ld;    /* of cpm, and columns of W Cpm': on a device more than n, see phase.c */
    double *cpm;   /* ld x (width + 1): of both axes of width / 2 subapertures, or of one */
    double *room;  /* W Cpm' of a target (nlrow x ld); NULL: it is kept of every target */
    double *one;   /* where an operator leaves a share of Cpm out: the number 1, on the device */
    float *one32;  /* the same */
    int64_t nsep;  /* sums of that share, kept of every target; 0: none */
    int64_t pairs; /* single pairs of it, behind them [floats] */
    long solved;   /* of which solves (tor) */
    const layer_tables *layers; /* of the exposure (layer_tables.h): W Cpm' is made of them; NULL:
                                   of covariances of each target */
} phase_term;

/* Bytes of the device: whatever the number of targets, and of each target that passes. Local. */
size_t phase_bytes(size_t points, size_t width);
size_t phase_target_bytes(size_t points, size_t rows);
/* What an operator with `share` takes more of each target. */
size_t phase_share_bytes(const sys *s, const psf_opts *o);

/* Local. Before tor_take. *beside: doubles to be kept of each target (tor_take); close: fine on
 * {0}. */
status phase_open(tor *t, const psf *ps, phase_term *ph, int64_t *beside);
void phase_close(tor *t, phase_term *ph);

/* W Cpm' of the k-th target, nlrow x n, and columns up to ld that mean nothing. */
static inline double *phase_of(const phase_term *ph, const tor *t, int k) {
    return ph->room != NULL ? ph->room : t->beside[k];
}
/* Sums of the share of the k-th target, nsep, and its single pairs, or NULL. */
static inline double *phase_base(const phase_term *ph, const tor *t, int k) {
    return t->beside[k] + (ph->room != NULL ? 0 : engine_aligned(ph->ld * t->t.nlrow));
}
static inline float *phase_base_pairs(const phase_term *ph, const tor *t, int k) {
    return ph->pairs > 0 ? (float *)(void *)(phase_base(ph, t, k) + ph->nsep) : NULL;
}

/* Of the k-th target, from its operator; local. */
status phase_end(tor *t, const phase_term *ph, linop *op, int k);

/* Collective in the group. W Cpm' of the k-th target (W = 0 there at j = 0) += W(:, j:j+n) Cpm(:,
 * j:j+n)', the target aimed, as the operator makes it; whole: in double precision. */
status phase_columns(tor *t, const phase_term *ph, linop *op, bool whole, int k, int64_t j,
                     int64_t n);

/* Local. W Cpm' of the k-th target, aimed without wind, under the reconstructor's profile, which is
 * loaded: what an operator leaves a share of out; as accurate as its W. */
status phase_share(tor *t, const phase_term *ph, linop *op, int k);

#endif
