/* A text that grows. Local. */
#ifndef MOAO_TEXT_H
#define MOAO_TEXT_H

#include "moao/status.h"
#include <stdbool.h>
#include <stddef.h>

typedef struct {
    char *s; /* NUL-terminated once something was added; free with free() */
    size_t len, room;
    status
        failed; /* MOAO_MEMORY from the first addition that did not fit: check once, at the end */
} text;

void text_add(text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A duration [s]: "41 s", "12 min", "3.4 h", "5.2 days". */
void text_add_time(text *t, double seconds);
/* False when some bytes are no characters (or stand for one that was lost before, U+FFFD). */
bool text_is_utf8(const char *s);
/* "" for one, else "s": the end of a noun after its number. */
const char *text_plural(double n);
/* A cell of CSV: in double quotes where it has a comma, a quote, a line's end or one of `others`.
 * What a spreadsheet would take for a formula (=, +, -, @, a tab in front, and no number) gets an
 * apostrophe in front, as spreadsheets need it, which text_cell_value takes off again. */
void text_add_cell(text *t, const char *s, const char *others);
/* The value of a cell as text_add_cell wrote it, once its quotes are off: `cell` or its second
 * byte.
 */
const char *text_cell_value(const char *cell);
/* A string in double quotes, as YAML and JSON write it, in ASCII. */
void text_add_quoted(text *t, const char *s);

/* A text in printable ASCII, as FITS needs it. Other characters, blanks at its ends, and a ' behind
 * another one, of which some readers of FITS lose one, become \uXXXX or \UXXXXXXXX; a byte that is
 * no UTF-8 becomes \uDCXX; a \u of the text itself \u005Cu. text_from_ascii takes that back, in
 * place, and returns s. */
void text_add_ascii(text *t, const char *s);
char *text_from_ascii(char *s);

#endif
