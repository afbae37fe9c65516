/* Starting the ranks of a run: mpirun with the settings under which it works for root, for users,
 * in containers, with more ranks than cores and without ssh. Local, before MPI_Init. */
#ifndef MOAO_LAUNCH_H
#define MOAO_LAUNCH_H

#include "moao/status.h"
#include <stdbool.h>

/* Whether mpirun or srun started this process as one of its ranks. */
bool launch_is_rank(void);

/* MPI_Init. A process that neither a launcher nor a job has started is alone: Open MPI is told to
 * start no daemon, to open no network, to make no folder and to ask no driver of a device for it,
 * where the user does not say otherwise. MOAO_INPUT, and MPI is not started: it has no folder. */
status launch_init(int *argc, char ***argv);
/* Local. Whether launch_init will find it alone. */
bool launch_is_alone(void);
/* Local. Bytes that MPI takes of a rank beyond those of this process: of one that is alone less. */
size_t launch_memory(void);

/* Start n ranks of this program with `argv` (NULL-terminated, without the program), wait for their
 * end, and return their exit code. What the user sends to this process (INT, TERM, HUP, USR1, USR2)
 * asks the ranks to stop (base/stop.h); INT or TERM a second time ends them at once.
 * log: file that takes their output, NULL: this process's own. *code is 3 where they were stopped;
 * *asked (may be NULL) tells whether someone asked. MOAO_INPUT where mpirun is missing or has no
 * room for its session, MOAO_INTERNAL where the ranks do not come up within 60 s. */
status launch_run(int n, char *const *argv, const char *log, int *code, bool *asked);

#endif
