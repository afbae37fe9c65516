/* Reading of the framework's files item by item. Private to legacy*.c. Local. */
#ifndef MOAO_LEGACY_READ_H
#define MOAO_LEGACY_READ_H

#include "moao/status.h"
#include <stdbool.h>

typedef struct {
    const char *file;
    const char *p; /* next character */
    const char *line_start;
    int line;
} legacy_reader;

/* A mistake at the reader's place, about the item `key`. */
status legacy_fail(const legacy_reader *r, const char *key, const char *what);
void legacy_next_line(legacy_reader *r);
void legacy_skip_blank(legacy_reader *r);
/* The line of comment, then between `least` and `most` finite numbers, on one or more lines. */
status legacy_read_list(legacy_reader *r, const char *key, int least, int most, double *v, int *n);
/* The line of comment, then one number from low to high; and a whole one. */
status legacy_read_one(legacy_reader *r, const char *key, double low, double high, double *v);
status legacy_read_whole(legacy_reader *r, const char *key, int low, int high, int *v);
/* `n` numbers of which none may be below `low`, in new memory; the last may be missing when
 * `short_by_one` (it is then 0). */
status legacy_read_array(legacy_reader *r, const char *key, int n, bool short_by_one, double low,
                         double **v);

#endif
