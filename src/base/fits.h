/* FITS files written whole or not at all, with checksums in every HDU: a thin layer over cfitsio,
 * whose reading and writing goes through file.h, so that no failure of the system is lost and names
 * of files may have any characters and length. All functions are local. The first error is kept;
 * later calls do nothing, and fitsout_finish or fitsout_commit reports it (MOAO_IO). */
#ifndef MOAO_FITS_H
#define MOAO_FITS_H

#include "file.h"
#include "moao/status.h"
#include "text.h"
#include <fitsio.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct {
    fitsfile *f;
    file_out out;
    int err; /* cfitsio's status */
    int nhdu;
    bool finished;
    text ascii; /* the last text, as the file has it */
} fitsout;

typedef struct {                    /* one column of a binary table */
    const char *name, *form, *unit; /* form as in TFORM; unit "" when dimensionless */
    const char *comment;
} fitsout_column;

/* Begin PATH with a primary HDU without data. */
status fitsout_create(fitsout *o, const char *path);
/* Finish the last HDU and read the whole file back: its size, number of HDUs and every checksum
 * must be right. It still has its temporary name: several files can be finished before the first
 * one appears. */
status fitsout_finish(fitsout *o);
/* Its last step alone, for a file that cfitsio has closed. */
status fitsout_verify(fitsout *o);
/* fitsout_finish unless it was done, and make the file appear; or remove it (fine after a commit,
 * and on {0}). */
status fitsout_commit(fitsout *o);
void fitsout_abandon(fitsout *o);

/* Begin an extension, after finishing the one before (DATE, CHECKSUM, DATASUM). compress_step > 0:
 * tiles of one plane (axes 1 and 2), Rice-compressed, values quantised in steps of compress_step
 * with subtractive dithering. */
void fitsout_image(fitsout *o, const char *extname, int bitpix, int naxis, const long *naxes,
                   double compress_step);
void fitsout_table(fitsout *o, const char *extname, long nrow, int ncol,
                   const fitsout_column *columns);

/* Keywords; a real that is not finite is written without a value. All texts, names of columns and
 * cells too, are written by text_add_ascii; of text, fitsout_width tells how many characters that
 * gives (at least 1), 0 without memory. A name of a column has at most FITSOUT_NAME of them, a cell
 * FITSOUT_CELL. */
enum { FITSOUT_NAME = 68, FITSOUT_CELL = 28000 };
size_t fitsout_width(const char *text);
void fitsout_real(fitsout *o, const char *key, double value, const char *comment);
void fitsout_integer(fitsout *o, const char *key, long value, const char *comment);
void fitsout_text(fitsout *o, const char *key, const char *value, const char *comment);
void fitsout_comment(fitsout *o, const char *text);
/* Linear axis (1-based): world = crval + (pixel - crpix) * cdelt. */
void fitsout_axis(fitsout *o, int axis, const char *ctype, const char *cunit, double crpix,
                  double crval, double cdelt);

/* Data: pixels from `first` to `last` (1-based, inclusive, as many as the axes), axis 1 fastest;
 * columns (1-based) from a row and element on. */
void fitsout_pixels_double(fitsout *o, long *first, long *last, const double *a);
void fitsout_pixels_float(fitsout *o, long *first, long *last, const float *a);
void fitsout_cells_double(fitsout *o, int col, long row, long element, long n, const double *a);
void fitsout_cell_integer(fitsout *o, int col, long row, long value);
void fitsout_cell_text(fitsout *o, int col, long row, const char *value);
/* A text that is ASCII, as it is. */
void fitsout_cell_line(fitsout *o, int col, long row, const char *line);

#endif
