/* The files that parameters name. Rank 0 reads them from disk and keeps them; the other ranks get
 * its copies, so that all parse the same bytes whatever happens to the disk. Private to params*.c.
 */
#ifndef MOAO_PARAMS_FILES_H
#define MOAO_PARAMS_FILES_H

#include "base/comm.h"
#include "moao/status.h"
#include <stdbool.h>

typedef struct {
    char *path;
    char *found; /* where it was found instead, in the folder of shipped files; NULL */
    char *data;  /* NUL-terminated; names separated by newlines for a pattern */
    size_t len;
    int error; /* errno, 0 when it was read; FILE_NOT_REGULAR */
} params_file;

enum { FILE_NOT_REGULAR = -1 }; /* a pipe, a device: nothing that can be read to its end */

typedef struct {
    int n;
    params_file **file;
    bool sealed; /* nothing more is read from disk */
} params_files;

/* Content of a file, or the names that match a shell pattern in natural order (prof2 before
 * prof10). Borrowed; an unreadable file has error set. Local. */
status params_files_get(params_files *b, const char *path, const params_file **f);
/* The same of a file that parameters state: where there is none at `path`, that of the name as
 * stated is looked for in the folder of shipped parameter files. */
status params_files_get_stated(params_files *b, const char *path, const char *stated,
                               const params_file **f);
status params_files_match(params_files *b, const char *pattern, const params_file **f);
/* Why it could not be read, for messages. */
const char *params_files_reason(const params_file *f);
/* The same of a stated file, with the other places where it was looked for. Valid until the next
 * call. */
const char *params_files_stated_reason(const params_file *f, const char *stated);
/* Where its content is from. */
const char *params_files_name(const params_file *f);
/* Place (line and column from 1) of the first NUL, which would end a text too early; false when
 * there is none. */
bool params_files_find_nul(const params_file *f, int *line, int *column);
/* Collective: every rank gets rank 0's files and seals them. */
status params_files_broadcast(const comm *c, params_files *b);
void params_files_free(params_files *b);

/* Order of names in which numbers count as numbers. */
int params_files_natural_order(const char *a, const char *b);

#endif
