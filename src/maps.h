/* The files a user gets: maps.fits, psf.fits, from a complete store. Rank 0 only; local. */
#ifndef MOAO_MAPS_H
#define MOAO_MAPS_H

#include "atmos.h"
#include "params.h"
#include "psf/psf.h"
#include "status.h"
#include "store.h"
#include "system.h"

/* maps.fits in the run's directory: Strehl, ensquared energy of each box, FWHM, residual variance,
 * over (x, y, exposure and the long exposure, wavelength), guide stars and targets as tables,
 * headers sufficient to recreate the run. psf.fits as output.psf asks. Both appear whole or not at
 * all. The long exposure is the mean of a target's short-exposure PSFs (its Strehl and ensquared
 * energies are the means; its FWHM is that of the mean PSF, which `psf` measures from the images
 * when kept, else it is left NaN with a comment). */
status maps_write(const char *dir, const params *par, const sys *s, const atmos *a, const psf *p,
                  store *st);

/* Write one matrix (rows x cols, column-major in `a`, slope order of the model) as
 * DIR/matrices/NAME.fits with EXTNAME, BUNIT and a title; `name` is Cmm, Ctm, ... with a suffix for
 * target and exposure. */
status maps_write_matrix(const char *dir, const char *name, const char *unit, const char *title,
                         const double *a, size_t rows, size_t cols, size_t ld);

#endif
