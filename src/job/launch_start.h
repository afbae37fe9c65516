/* What mpirun needs before it can start ranks, and whether they came up: it waits for ever where a
 * file system is full or files cannot be opened. All local. */
#ifndef MOAO_LAUNCH_START_H
#define MOAO_LAUNCH_START_H

#include "moao/status.h"
#include <stdbool.h>

/* Whether n ranks can be started on this node, 0: one alone, without a session: room in the folder
 * of Open MPI's sessions (TMPDIR), open files (the soft limit is raised as far as the hard one
 * allows), a current folder that exists. MOAO_INPUT says what to do. */
status launch_check_room(int n);

/* The launcher's end of what ranks say (base/launcher.h). */
typedef struct {
    int socket;     /* -1: nobody listens */
    double seconds; /* allowed for the start, 0: any */
    double from;    /* report_now() */
    bool started;
    bool left; /* a rank ends all before their time */
    int code;  /* exit code of the command, -1: no word */
} launch_start;

/* To be called before the child is started. The ranks may come up on other nodes, from where no
 * word comes: under a batch system or with a list of hosts any time is allowed.
 * MOAO_START_SECONDS (60): time allowed for the start, 0: any. */
void launch_start_begin(launch_start *s);
/* Whether the start has failed: no word within the time. */
bool launch_start_failed(launch_start *s);
/* Whether a rank wants mpirun ended, and all ranks with it. */
bool launch_start_left(launch_start *s);
/* Exit code that the ranks stand for, -1 where no word came. Once the child has ended. */
int launch_start_code(launch_start *s);
void launch_start_end(launch_start *s);
/* Ends the child, then what it left behind; the failure says where to look. */
status launch_start_give_up(launch_start *s, int child);

/* Whether srun started several processes that do not know of each other, as it does without PMIx:
 * each would make the same run. MOAO_INPUT in each; `first`: in the first one, which tells. size:
 * of MPI_COMM_WORLD. */
status launch_check_step(int size, bool *first);

#endif
