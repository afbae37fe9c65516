/* Files that appear whole or not at all: written under a name of our own in the same directory,
 * synced, renamed. All functions are local. Every call of the system is repeated when a signal
 * interrupts it. Errors are MOAO_IO with one line that names the file, what failed, the system's
 * reason and what to do. */
#ifndef MOAO_FILE_H
#define MOAO_FILE_H

#include "moao/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A limit on file sizes shall be an error of the write, not the end of the process. Once per
 * process is enough. */
void file_limits_as_errors(void);
/* Make a directory and its parents. Fine when it is there already. MOAO_INPUT when the user's
 * choice is at fault: no permission, no directory... */
status file_make_dir(const char *dir);
bool file_exists(const char *path);
/* The same where a wrong "no" would do harm: whether it is there, or MOAO_IO when that cannot be
 * told. What this user may not even look for, or no system could hold, is not there. */
status file_find(const char *path, bool *there);
/* NULL when `path` is a regular file that can be opened for reading, as every input must be; else
 * why not, in words. To be asked before a library opens it: one would wait for a pipe for ever. */
const char *file_unreadable(const char *path);
/* Path of what stands at `relative` from the folder of the running program, without links, in new
 * memory (*out, to free); NULL where there is no such file. */
status file_near_program(const char *relative, char **out);
/* "DIR/NAME" in new memory (*out, to free). */
status file_join(const char *dir, const char *name, char **out);
/* The same of a file that has to be there: MOAO_INPUT, naming what was `expected` of the folder,
 * where it cannot be read. *out is to be freed after a failure, too. */
status file_of_run(const char *dir, const char *name, const char *expected, char **out);
/* Replace a path in memory by the same file's, whatever folder the program is started in later. */
status file_make_absolute(char **path);
/* Remove a file; fine when it is not there. A link is removed, not what it leads to. */
status file_delete(const char *path);
/* Whether a name is one that unfinished files have: .moao-12345678.tmp */
bool file_is_temporary(const char *name);
/* A path for a message: the end of it where it is so long that the rest of the line would be lost.
 * Valid until the next call but one. */
const char *file_shown(const char *path);
/* "PATH: cannot WHAT: reason of errno; what to do". file_unusable is for folders and files that the
 * user chose: MOAO_INPUT when the choice is at fault, MOAO_IO otherwise (a full disk, say). */
status file_fail(const char *path, const char *what, int err);
status file_unusable(const char *path, const char *what, int err);
/* Descriptor of a file opened with these flags of open(2), -1 and errno on failure. For reading it
 * does not wait for a pipe's other end. */
int file_open_fd(const char *path, int flags);

typedef struct { /* a file being written */
    bool open;
    int fd;
    char *path, *temp;
    uint64_t size; /* bytes so far */
    int err;       /* errno of the first failure */
    size_t used;   /* bytes in buffer that belong at the end of the file */
    unsigned char buffer[4096];
} file_out;
status file_begin(file_out *o, const char *path);
status file_append(file_out *o, const void *data, size_t size);
/* The same anywhere, for files that are not appended to. */
status file_write_at(file_out *o, const void *data, size_t size, uint64_t offset);
/* `size` bytes from `offset` of an open file; `path` is for messages. */
status file_read_at(int fd, const char *path, void *out, size_t size, uint64_t offset);
/* Ends the writing: everything is on the disk, under the temporary name. May be left out. */
status file_finish(file_out *o);
/* file_commit makes the file appear; file_abandon (fine after a commit, and on {0}) removes it. */
status file_commit(file_out *o);
void file_abandon(file_out *o);

status file_write_text(const char *path, const char *text);
/* The whole file, followed by a zero byte, in new memory (*text, to free). */
status file_read_text(const char *path, char **text);
/* The same of a list that people or other programs write: MOAO_INPUT where it holds a zero byte,
 * behind which the rest would be lost. */
status file_read_lines(const char *path, char **text);
/* Open a plain file for reading, without waiting for the other end of a pipe; *fd is -1 after a
 * failure. */
status file_open_plain(const char *path, int *fd, uint64_t *size);
/* Open a file of a name that others can foresee for appending, made when it is not there: no link
 * is followed, nothing but a plain file is written to. */
status file_open_log(const char *path, int *fd);
/* Take the lock of a folder, which is the file `path` in it, until *fd is closed; *fd is -1 after a
 * failure. MOAO_INPUT with the words "DIR: another WHAT is writing there" when somebody has it. On
 * file systems without locks: *unlocked is why, else NULL. */
status file_lock(const char *path, const char *dir, const char *what, int *fd,
                 const char **unlocked);
/* Size and CRC-32 of a whole file. */
status file_sum(const char *path, uint64_t *size, uint32_t *crc);

#endif
