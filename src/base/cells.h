/* Cells of a line of a table of text. Local. */
#ifndef MOAO_CELLS_H
#define MOAO_CELLS_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of a cell's text that are kept, with its end. */
#define CELL_BYTES 65

typedef struct {
    char
        text[CELL_BYTES]; /* without quotes; control characters are blanks; cut when it is longer */
    int at;               /* column of its first character in the line, from 1 */
} cell;

/* Whether a line of names separates them by commas. */
bool cells_by_commas(const char *line, size_t n);

/* Split a line of n bytes. `commas`: it is CSV, whose cells may hold blanks or nothing (a line
 * without any comma is split at blanks all the same); else blanks or single commas separate cells.
 * Double quotes keep a cell together, "" inside them is one. # starts a comment: at the beginning
 * and after a blank, in lines split at blanks everywhere. A byte order mark in front, and what a
 * cell of CSV has for spreadsheets (text_cell_value), are taken off. Returns the number of cells,
 * room + 1 when there are more; -1: a quote is not closed. */
int cells_split(const char *line, size_t n, bool commas, cell *out, int room);

/* Whether a cell says that there is no value: empty, null, none, nan, n/a, na, -, --, ---, ~. */
bool cell_is_missing(const char *text);

#endif
