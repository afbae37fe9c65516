/* The files a user gets: maps.fits, psf.fits, from a complete store. Rank 0 only; local. */
#ifndef MOAO_MAPS_H
#define MOAO_MAPS_H

#include "base/progress.h"
#include "field/field.h"
#include "matrix_file.h" /* maps_matrix_open */
#include "moao/status.h"
#include "params/params.h"
#include "psf/psf.h"
#include "store/store.h"
#include "system/atmos.h"
#include "system/system.h"

typedef struct {               /* of a run at nodes (field/field.h) */
    const field *f;            /* the nodes */
    const int *node_of;        /* [ntarget] -1: interpolated */
    const double *error;       /* [ntarget] expected of a Strehl ratio or ensquared energy */
    int nodes, checked;        /* nodes; targets that were compared */
    long residuals;            /* of nodes, that were computed */
    double step;               /* of the nodes' lattice [rad] */
    double tolerance, largest; /* targets.tolerance; the largest difference of those compared */
} maps_sampling;

/* maps.fits in the run's directory: Strehl, ensquared energy of each box, FWHM, residual variance,
 * over (x, y, exposure and the long exposure, wavelength), guide stars and targets as tables,
 * headers sufficient to recreate the run. psf.fits as output.psf asks, field.fits (maps_field.h) as
 * output.field does. All appear whole or not at
 * all. The long exposure is the mean of a target's short-exposure PSFs (its Strehl and ensquared
 * energies are the means; its FWHM is that of the mean PSF, which `psf` measures from the images
 * when kept, else it is left NaN with a comment). sampling: NULL where every
 * target was computed. rep (may be NULL) gets a summary of the error budget. */
status maps_write(const char *dir, const params *par, const sys *s, const atmos *a, const psf *p,
                  store *st, const maps_sampling *sampling, report *rep);

/* FWHM [pixels] of an image n x n with its axis on pixel (n/2, n/2): the mean over 36 directions in
 * [0, 180) degrees of twice the radius at which it falls to half its value on the axis; between
 * pixels by windowed sinc interpolation (exact to 1e-4 for images sampled as the PSF's are). NaN
 * when half is not reached inside the image. */
double maps_image_fwhm(const float *image, int n);

#endif
