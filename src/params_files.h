/* The files that parameters name. Rank 0 reads them from disk and keeps them; the other ranks get
 * its copies, so that all parse the same bytes whatever happens to the disk. Private to params*.c.
 */
#ifndef MOAO_PARAMS_FILES_H
#define MOAO_PARAMS_FILES_H

#include "comm.h"
#include "status.h"
#include <stdbool.h>

typedef struct {
    char *path;
    char *data; /* NUL-terminated; names separated by newlines for a pattern */
    size_t len;
    int error; /* errno, 0 when it was read */
} params_file;

typedef struct {
    int n;
    params_file **file;
    bool sealed; /* nothing more is read from disk */
} params_files;

/* Content of a file, or the names that match a shell pattern in natural order (prof2 before
 * prof10). Borrowed; an unreadable file has error set. Local. */
status params_files_get(params_files *b, const char *path, const params_file **f);
status params_files_match(params_files *b, const char *pattern, const params_file **f);
/* Collective: every rank gets rank 0's files and seals them. */
status params_files_broadcast(const comm *c, params_files *b);
void params_files_free(params_files *b);

/* Order of names in which numbers count as numbers. */
int params_files_natural_order(const char *a, const char *b);

#endif
