/* The residual phase on the pupil; private to the files of this folder. Separations (dj rows, di
 * columns) of the lattice of psf_phase.c are stored at (dj + s) nsep + di + s, s = lattice, nsep =
 * 2 s
 * + 1, the rows dj lying dj h apart; in odd rows the place is that of di + 1/2. */
#ifndef MOAO_PSF_PHASE_H
#define MOAO_PSF_PHASE_H

#include "psf_plan.h"

#define PHASE_TAPS 12 /* lattice points per axis from which a point of the grid is interpolated */

/* Rows of the lattice that the options ask for (of `phase`), and points of a lattice. */
int phase_lattice(const sys *s, const psf_opts *o);
int phase_count(int rows, double obs);
/* Points, influence functions, pairs and weights; the arrays are there. */
status phase_init(psf *p, double obs);
/* Weights of the interpolation from the lattice to the grid of rho. */
void phase_weights(psf *p);
/* psf_covariance and psf_fit_init in this mode. */
void phase_covariance(psf *p, const double *sum);
status phase_rest(const psf *p, const profile *prof, psf_fit *f);

#endif
