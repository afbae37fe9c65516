/* field.fits of a finished run (maps/maps_field.h), read back: nodes, and what is kept of them. */
#ifndef MOAO_FIELD_FILE_H
#define MOAO_FIELD_FILE_H

#include "base/fits_in.h"
#include "field/field.h"
#include "job/setup.h"

typedef struct {
    fitsin in;
    field f;
    size_t nkept;
    double low[2], high[2]; /* of the nodes, along their axes [rad] */
} field_file;

/* Local. Open DIR/field.fits, which is of the case u, its plans of PSFs made. MOAO_INPUT, one line:
 * there is none, it is damaged, of another case or version. Close: fine on {0}. */
status field_file_open(const char *dir, const setup *u, field_file *file);
void field_file_close(field_file *file);

/* Local. MOAO_INPUT where a direction [rad] is not among the nodes. */
status field_file_check(const field_file *file, const double at[2]);

/* Local. Results of n directions [rad] of an exposure (from 0), or of the long exposure (-1):
 * scalars [n][nlambda][3 + nbox], images [n][nlambda][crop][crop]. The FWHM of a long exposure is
 * that of the mean image. */
status field_file_images(field_file *file, const setup *u, int exposure, int n,
                         const double (*at)[2], double *scalars, float *images);

#endif
