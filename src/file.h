/* Files that appear whole or not at all: written under a temporary name in the same directory,
 * synced, renamed. All functions are local. Errors are MOAO_IO with one line that names the file
 * and the system's reason. */
#ifndef MOAO_FILE_H
#define MOAO_FILE_H

#include "status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* A limit on file sizes shall be an error of the write, not the end of the process. Once per
 * process is enough. */
void file_limits_as_errors(void);
/* Make a directory and its parents. Fine when it is there already. */
status file_make_dir(const char *dir);
bool file_exists(const char *path);
/* "DIR/NAME" or "PATH.tmp" in new memory (*out, to free). */
status file_join(const char *dir, const char *name, char **out);
status file_temp_name(const char *path, char **out);
/* Make what was written as `temp` appear as `path`: sync, rename, sync the directory. Removes temp
 * on failure. */
status file_publish(const char *temp, const char *path);

typedef struct { /* a file being written */
    FILE *f;
    char *path, *temp;
} file_out;
status file_begin(file_out *o, const char *path);
status file_append(file_out *o, const void *data, size_t size);
/* Ends the writing: file_commit makes the file appear, file_abandon (fine after a commit, and on
 * {0}) removes it. */
status file_commit(file_out *o);
void file_abandon(file_out *o);

status file_write_text(const char *path, const char *text);
/* The whole file, followed by a zero byte, in new memory (*text, to free). */
status file_read_text(const char *path, char **text);

#endif
