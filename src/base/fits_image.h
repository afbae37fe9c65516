/* A FITS image of two axes that anybody may have written, for a parameter that names it. All
 * functions are local. What is wrong is MOAO_INPUT, one line with the parameter, the file and what
 * is expected. */
#ifndef MOAO_FITS_IMAGE_H
#define MOAO_FITS_IMAGE_H

#include "moao/status.h"
#include <fitsio.h>

typedef struct {
    const char *key, *path; /* borrowed */
    fitsfile *f;
    int nx, ny; /* pixels of axis 1 and axis 2 */
} fits_image;

/* Open a plain file at its first image that has pixels: two axes of 2 to `most` pixels.
 * fits_image_close also after a failure and on {0}. */
status fits_image_open(fits_image *in, const char *key, const char *path, int most);
void fits_image_close(fits_image *in);
/* Its values, y slow, into v[ny][nx]; NAN where it has none. */
status fits_image_read(fits_image *in, double *v);
/* Text of a keyword, "" where there is none. */
void fits_image_text(fits_image *in, const char *key, char out[FLEN_VALUE]);
/* "KEY: PATH: what". */
status fits_image_refuse(const fits_image *in, const char *what);

#endif
