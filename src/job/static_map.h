/* errors.static_map: a map of the static error from a FITS file. */
#ifndef MOAO_STATIC_MAP_H
#define MOAO_STATIC_MAP_H

#include "base/comm.h"
#include "params/params.h"
#include "psf/psf.h"

typedef struct {
    psf_map map;
    double tilt[2]; /* of the path over the pupil [rad] */
    double rms;     /* over the pupil, without piston, at the samples of the PSF [m] */
    double pixels;  /* the same of the file's pixels, each by its area in the pupil [m] */
    int samples;    /* across the pupil */
    bool no_unit;   /* BUNIT was not given: nm */
    uint32_t sum;   /* CRC-32 of map and pixel */
} static_map;

/* Collective; rank 0 reads the file. MOAO_INPUT says what is wrong with it: an image of two axes,
 * its unit (BUNIT: nm, um or m; none: nm), the size of a pixel (errors.static_pixel, or CDELT1 with
 * CUNIT1 m, or the diameter over the columns), a finite value in every pixel that lies in the pupil
 * (those on its edge may lack one, those outside do not count). The map is linear between its
 * pixels where that keeps their rms to 0.5 %, else constant over each of them. free: fine on {0}.
 */
status static_map_read(const comm *c, const params *par, const sys *s, static_map *m);
/* Local. The file's name in par becomes an absolute one, which the effective parameters state. */
status static_map_name(params *par);
/* What is doubtful about a map that was read, as warnings. Local. */
void static_map_warn(const static_map *m);
void static_map_free(static_map *m);

#endif
