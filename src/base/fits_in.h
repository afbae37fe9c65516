/* FITS tables that anybody may have written, cut or edited: nothing is read before its type, its
 * size and its place in the file are as expected. A thin layer over cfitsio, which reads through
 * file.h. All functions are local. What is wrong is MOAO_INPUT, one line with file, table and
 * column; a failure of the system is MOAO_IO. */
#ifndef MOAO_FITS_IN_H
#define MOAO_FITS_IN_H

#include "moao/status.h"
#include <fitsio.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    fitsfile *f;
    int fd;
    uint64_t size;
    char *path;
    /* the current table */
    char table[FLEN_VALUE];
    long rows;
    int ncol;
} fitsin;

typedef struct {
    int number;            /* from 1 */
    char name[FLEN_VALUE]; /* as the file has it */
    int type;              /* typecode of cfitsio */
    long repeat, width;    /* of a cell */
} fitsin_column;

/* Open a plain file, all of whose extensions lie within it. fitsin_close also after a failure and
 * on {0}. */
status fitsin_open(fitsin *in, const char *path);
void fitsin_close(fitsin *in);
/* Go to a binary table, which has at least one row. */
status fitsin_table(fitsin *in, const char *name);
/* Column by its number, from 1 to in->ncol; by its name, whatever its case: *there where it may be
 * missing, else NULL. */
status fitsin_column_at(fitsin *in, int number, fitsin_column *c);
status fitsin_column_find(fitsin *in, const char *name, fitsin_column *c, bool *there);
/* Numbers `first` (from 0) to first + each - 1 of every cell of a column of real or whole numbers,
 * whose cells have `repeat` of them: [rows][each], in new memory (*out, to free). */
status fitsin_numbers(fitsin *in, const fitsin_column *c, long repeat, long first, long each,
                      double **out);
/* The text of a cell, row from 1, without blanks at its end, its characters as text_add_ascii
 * wrote them; cut to `size` bytes with the zero. */
status fitsin_text(fitsin *in, const fitsin_column *c, long row, char *out, size_t size);
/* NULL, or what is wrong with the cards of a file: values that are neither texts nor numbers and
 * so long that cfitsio writes beyond a buffer of its own while it opens the file. */
const char *fits_cards_wrong(int fd, uint64_t size);
/* Number of a keyword of the current header; false where there is none, or another value. cfitsio's
 * own conversion writes beyond a buffer of its own when a value is not a number and long. */
bool fits_key_number(fitsfile *f, const char *key, double *v);
/* Text of a keyword of the current table; "" where there is none, cut to `size` bytes. */
void fitsin_key_text(fitsin *in, const char *key, char *out, size_t size);

#endif
