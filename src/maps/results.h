/* maps.fits of a finished run, read back: sizes and tables are as a run writes them, or one line
 * says where they are not (base/fits_in.h). Local. */
#ifndef MOAO_RESULTS_H
#define MOAO_RESULTS_H

#include "base/fits_in.h"

typedef struct {
    fitsin in; /* at the table TARGETS after results_open */
    long ntarget, nexposure, nlambda;
    double *lambda;   /* [nlambda] wavelengths, or centres of bands [um] */
    char (*band)[32]; /* [nlambda] name of a band; "": a single wavelength */
} results;

/* Open DIR/maps.fits. MOAO_INPUT when there is none. results_close also after a failure and on {0}.
 */
status results_open(results *r, const char *dir);
void results_close(results *r);
/* "at 1.65 um", or "in H". */
void results_label(const results *r, long i, char *out, size_t n);
/* A quantity of the long exposure: values [ntarget][nlambda] of a column NAME_LONG, in new memory.
 */
status results_long(results *r, const fitsin_column *c, double **out);
/* A term of the error budget in the long exposure: [ntarget]. */
status results_term(results *r, const fitsin_column *c, double **out);

#endif
