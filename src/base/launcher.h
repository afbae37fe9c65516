/* Words of a rank to the `moao run -n` that started it (job/launch_start.h): datagrams to a socket
 * without a file, which a full disk does not lose. All local; nothing where no launcher listens. */
#ifndef MOAO_LAUNCHER_H
#define MOAO_LAUNCHER_H

#include <stdbool.h>

/* A word is this byte, and of the last two an exit code. */
enum { LAUNCHER_STARTED = 1, LAUNCHER_ENDED = 2, LAUNCHER_LEAVES = 3 };

/* Called by every rank once MPI is up; rank 0 says so. It alone: more words than a socket holds
 * (10) wait for ever. */
void launcher_report_start(int rank);
/* Called by rank 0 when all ranks are at the end of the command: from here on a signal changes
 * nothing of it, though it may still end mpirun. Whether the launcher will have the word. */
bool launcher_report_end(int code);
/* Called by a rank that ends the others before their time and has said why: the launcher ends them
 * by way of mpirun, which says nothing then. Returns where no launcher does, at once or after 5 s.
 */
void launcher_leave(int code);

#endif
