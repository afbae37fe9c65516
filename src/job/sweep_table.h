/* The table of a sweep: figures of merit of its runs against the swept keys. Local. */
#ifndef MOAO_SWEEP_TABLE_H
#define MOAO_SWEEP_TABLE_H

#include "job/sweep.h"
#include <stdbool.h>

/* Whether DIR/FOLDER holds the results of a finished run, or a run that was begun. */
bool sweep_finished(const char *dir, const char *folder);
bool sweep_begun(const char *dir, const char *folder);

/* Write DIR/sweep.fits and DIR/sweep.csv. Columns: the swept keys; then for each wavelength, of the
 * long exposure over the targets, Strehl ratio (mean, min, max), FWHM (mean) [mas], ensquared
 * energy of each box (mean), rms of the residual phase [nm], from the mean of its variances;
 * folder, status and time. Runs without results have NaN (FITS) or nothing (CSV) there. *nfinished:
 * how many have. */
status sweep_table_write(const char *dir, const sweep_list *l, int *nfinished);

/* Mean Strehl ratio of a run at its last wavelength; NaN without results. */
status sweep_strehl(const char *dir, const char *folder, double *strehl, double *lambda);

#endif
