/* The table of a sweep: figures of merit of its runs against the swept keys. Local. */
#ifndef MOAO_SWEEP_TABLE_H
#define MOAO_SWEEP_TABLE_H

#include "budget/terms.h"
#include "job/sweep.h"
#include <stdbool.h>

/* Whether DIR/FOLDER holds the results of a finished run, or a run that was begun. */
bool sweep_finished(const char *dir, const char *folder);
bool sweep_begun(const char *dir, const char *folder);

#define SWEEP_COLUMNS 999 /* that a table of FITS has at most */
/* figures of a wavelength besides the boxes; terms of the budget, time, folder, status */
enum { SWEEP_FIGURES = 5, SWEEP_OTHERS = BUDGET_TERMS + 3 };

/* Write DIR/sweep.fits and DIR/sweep.csv. Columns: the swept keys; then for each wavelength, of the
 * long exposure over the targets, Strehl ratio (mean, min, max), FWHM (mean) [mas], ensquared
 * energy of each box (mean), rms of the residual phase [nm], from the mean of its variances;
 * folder, status and time. Runs without results have NaN (FITS) or nothing (CSV) there; so have
 * those whose maps.fits cannot be read, which become `damaged` with two lines on stderr, once.
 * *nfinished: how many have results. */
status sweep_table_write(const char *dir, sweep_list *l, int *nfinished);

enum { SWEEP_AT = 64 };
/* Mean Strehl ratio of a finished run at its last wavelength, and that as its column has it, such
 * as "1.65um" or "H_1.63um"; NaN when the run is damaged. */
status sweep_check(const char *dir, sweep_run *r, double *strehl, char at[SWEEP_AT]);

/* The line on stderr that says how a run is computed once more. */
void sweep_say_again(const char *dir, const char *folder);

#endif
