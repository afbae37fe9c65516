#include "base/background.h"

#include <omp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>

enum { LATER = 10 }; /* added to the thread's nice value: who feeds a device comes first */

static void *run(void *of) {
    background *b = of;
    setpriority(PRIO_PROCESS, 0, LATER); /* Linux: of this thread, and of those that it starts */
    omp_set_num_threads(b->threads);
    b->st = b->work(b->of);
    if (b->st != MOAO_OK)
        snprintf(b->message, sizeof b->message, "%s", status_message());
    return NULL;
}

void background_begin(background *b, int threads, status (*work)(void *of), void *of) {
    sigset_t all, before;
    *b = (background){.work = work, .of = of, .threads = threads};
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    b->started = pthread_create(&b->thread, NULL, run, b) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

status background_end(background *b) {
    if (b->work == NULL)
        return MOAO_OK;
    if (!b->started)
        b->st = b->work(b->of);
    else if (pthread_join(b->thread, NULL) == 0 && b->st != MOAO_OK)
        status_adopt(b->message);
    b->work = NULL;
    b->started = false;
    return b->st;
}

void background_drop(background *b) {
    if (b->started)
        pthread_join(b->thread, NULL);
    *b = (background){0};
}
