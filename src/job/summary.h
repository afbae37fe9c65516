/* What a finished run found, for its user: the last lines of `moao run`. */
#ifndef MOAO_SUMMARY_H
#define MOAO_SUMMARY_H

#include "params/params.h"

/* Rank 0. Print from DIR/maps.fits, of the long exposure, in 80 columns: Strehl ratio, ensquared
 * energies and FWHM at each wavelength and the wavefront error [nm rms], as mean, min and max over
 * the targets with the place of both; the largest terms of the error budget; and the command that
 * draws them. The mean of wavefront errors is that of their squares, as `moao budget` has it.
 * names: of the targets, none or as many. seconds: of the run on `ranks` ranks, NAN where it was
 * finished before. */
status summary_print(const char *dir, const text_list *names, double seconds, int ranks);

#endif
