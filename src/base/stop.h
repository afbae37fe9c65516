/* Requests to stop a run: the signals that make one, and how long the run may go on after it. */
#ifndef MOAO_STOP_H
#define MOAO_STOP_H

#include "comm.h"
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <time.h>

/* Local. From now on INT, TERM, HUP, USR1 and USR2 ask for a stop and PIPE is ignored; INT and HUP
 * stay ignored where they were. To be called first thing, and again after MPI_Init. */
void stop_catch_signals(void);
bool stop_catches_signals(void);
/* Local. Before the program that calls exec on itself: those signals wait until the new one catches
 * them, one that came before too. */
void stop_hold_signals(void);
/* Collective. True on every rank when any rank got one of them since stop_catch_signals. */
bool stop_requested(const comm *c);

/* Time that a run may take until its next checkpoint after a signal [s], INFINITY: any. Whoever
 * sends INT, TERM, HUP or USR2 waits 30 s; USR1 comes some time before the end of a job, of which
 * job_end (SLURM_JOB_END_TIME: seconds since 1970, or NULL) tells the moment: 10 s before it.
 * Local.
 */
double stop_grace(int sig, const char *job_end, time_t now);

/* How far a run is. Called by another thread than the one that computes. */
typedef struct {
    double (*seconds_left)(void *of); /* until the next checkpoint, as expected; 0: unknown */
    void (*describe)(void *of, char *text, size_t size); /* what is finished: "3 of 80 PSFs" */
    void *of;
} stop_progress;

/* Local. Watch for requests from now on: at the first one rank 0 says at once when the next
 * checkpoint comes. Where that is later than stop_grace, or a second one comes (INT or TERM, a
 * second or more after the first), the process ends within 5 s with exit code 3 and with it all
 * ranks; what is on disk is complete at any time. MOAO_MEMORY where no thread can be started. */
status stop_watch(const comm *c, const stop_progress *p);
/* Local. The end of that; twice is fine. */
void stop_unwatch(void);

#endif
