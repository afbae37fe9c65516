/* field.fits of a run at nodes, and images of directions between them. Rank 0 only; local. */
#ifndef MOAO_MAPS_FIELD_H
#define MOAO_MAPS_FIELD_H

#include "base/fits.h"
#include "field/field.h"
#include "moao/status.h"
#include "params/params.h"
#include "psf/psf.h"

struct maps_data;
/* field.fits, finished but not in place. */
status maps_write_field(const struct maps_data *m, const psf *p, const char *effective, fitsout *o);

typedef struct {
    const params *par;
    int n;                 /* directions */
    const double (*at)[2]; /* [rad] */
    int crop, exposure;    /* side of the images [pixels]; from 1, 0: the long exposure */
    const double *pixel;   /* [nlambda] [rad] */
    const double *scalars; /* [n][nlambda][3 + nbox] */
    const float *images;   /* [n][nlambda][crop][crop] */
} maps_directions;
/* PATH, whole or not at all: images PSF (EXTVER: the wavelength), table DIRECTIONS. */
status maps_write_directions(const char *path, const maps_directions *d, const char *effective);

#endif
