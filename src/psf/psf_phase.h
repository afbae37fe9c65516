/* The residual phase on the pupil; private to the files of this folder. Separations (dj rows, di
 * columns) of the lattice of psf_phase.c are stored at (dj + s) nsep + di + s, s = lattice, nsep =
 * 2 s + 1, the rows dj lying dj h apart; in odd rows of a shifted lattice the place is that of
 * di + 1/2. */
#ifndef MOAO_PSF_PHASE_H
#define MOAO_PSF_PHASE_H

#include "psf_plan.h"

#define PAIRWISE_RINGS(nsep) (2 * (nsep))
#define PHASE_TAPS 12 /* lattice points per axis from which a point of the grid is interpolated */

/* Rows of the lattice that the options ask for (of `phase`), and points of a lattice. */
int phase_lattice(const sys *s, const psf_opts *o);
int phase_count(int rows, const sys *s, int shift);
/* Of them, those whose pairs with all others are taken one by one (psf_pairwise.c): of np points
 * one in phase_thinning, a lattice that takes all places within the cells of the actuators. */
int phase_samples(int rows, const sys *s, int shift, int thinning);
int phase_thinning(int np, int all_pairs);
bool phase_is_sample(int thinning, int column, int row);
/* Place of a separation of dj rows and di columns, the first point in row j, among the sums. In odd
 * rows the separations along x are halves: one less than there is room for. */
static inline size_t phase_separation(const psf *p, int j, int dj, int di) {
    const int s = p->lattice;
    return (size_t)((dj + s) * p->nsep + di + s - ((dj & p->shift) && (j & 1)));
}
/* Length of the separation at a place [m]; the place of the opposite one. */
double phase_length(const psf *p, int at);
int phase_opposite(const psf *p, int at);
/* Points, influence functions, pairs and weights; the arrays are there. */
status phase_init(psf *p, const sys *s);
/* Of several mirrors: bytes, for the plan; what phase_init took. */
size_t phase_mirror_bytes(const sys *s, const psf_opts *o);
void phase_mirrors_free(psf *p);
/* The i-th of psf_mirrors. */
psf_mirror phase_mirror_at(const psf *p, int i);
/* Actuators along a side of the largest. */
size_t phase_side(const psf *p);
/* A mirror for a backend, without its places. */
psf_model_mirror phase_mirror_model(const dmirror *dm);
/* Weights of the interpolation from the lattice to the grid of rho. */
void phase_weights(psf *p);
/* psf_covariance and psf_fit_init in this mode. */
void phase_covariance(psf *p, const double *sum);
/* Add to p->otf what a function on the lattice is on the grid: `value` at a separation with pairs,
 * elsewhere their mean beyond 0.6 diameters. */
void phase_add_grid(psf *p, const double *value, double factor);
/* Sampled points and their pairs; the arrays are there. Then, of all pairs at one wavelength, c of
 * model section 7: p->otf += ln c lambda^2/(2 pi)^2 [m^2]. */
void pairwise_init(psf *p);
void pairwise_add_excess(psf *p, int imono);
status phase_rest(const psf *p, const profile *prof, psf_fit *f);

#endif
