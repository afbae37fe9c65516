/* What the preloaded library of the fault campaign shares: whose turn it is, and the log.
 *
 * The library stands between the program and libc. It counts calls and lets one of them fail:
 *
 * FAULT_CALL=RANK:KIND:N:ACTION[*]: the N-th call of KIND (open, write, fsync, rename, close,
 * ftruncate, mmap, unlink, read) on a file below FAULT_DIR; ACTION is the name of an error
 * (EIO...), SHORT (a part is written), or a signal that the process sends to itself (KILL...); a
 * star behind it: every later call of the kind fails too
 *
 * FAULT_ALLOC=RANK:N: the N-th allocation that the program itself asks for gives NULL
 *
 * FAULT_ALLOC=RANK:places: no allocation fails; each is logged with its callers
 *
 * FAULT_LOG=FILE: gets a line for what was made to fail, and the counts when the program ends
 */
#ifndef FAULT_PRELOAD_H
#define FAULT_PRELOAD_H

#include <stdbool.h>

/* Number of this process among the ranks, 0 outside of mpirun. */
int fault_rank(void);
/* Append one line to the log, with system calls only (the library's own files are never counted).
 */
void fault_log(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
