/* Work of the host on a thread of its own, while this one feeds a device. */
#ifndef MOAO_BACKGROUND_H
#define MOAO_BACKGROUND_H

#include "moao/status.h"
#include <pthread.h>
#include <stdbool.h>

typedef struct {
    status (*work)(void *of); /* local, no MPI; NULL: there is none */
    void *of;
    int threads; /* of OpenMP for it */
    pthread_t thread;
    bool started; /* on a thread */
    status st;
    char message[1024];
} background;

/* Local. Begins work(of) at a lower priority than this thread, which receives the signals of the
 * process. Where no thread can be started, background_end does the work. b stays where it is until
 * then. */
void background_begin(background *b, int threads, status (*work)(void *of), void *of);
/* Local. Waits for it: its status, and its message becomes that of this thread. Again: MOAO_OK;
 * fine on {0}. */
status background_end(background *b);
/* Local. Waits for a thread, and forgets its status and message; fine on {0}. */
void background_drop(background *b);

#endif
