/* Columns of the binary tables of a file that moao wrote. All local. *err is cfitsio's status: the
 * first error is kept, and later calls do nothing. */
#ifndef MOAO_FITS_TABLE_H
#define MOAO_FITS_TABLE_H

#include "fits.h"

/* Go to the table of a name; its number of rows. */
void fits_table_go(fitsfile *f, const char *name, long *rows, int *err);
/* Whether the current table has a column. */
bool fits_table_has(fitsfile *f, const char *column, int *err);
/* Of a column of numbers `each` elements of a row from `first` (from 0) on, in new memory:
 * out[n][each]. */
status fits_table_numbers(fitsfile *f, const char *column, long n, long each, long first,
                          double **out, int *err);
/* A column of text, safe on a terminal and cut to width - 1 bytes: out[n][width], as it is where
 * there is no such column. */
void fits_table_texts(fitsfile *f, const char *column, long n, size_t width, char *out, int *err);

#endif
