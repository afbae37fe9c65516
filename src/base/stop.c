#include "stop.h"

#include "launcher.h"
#include "progress.h"
#include "text.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const int stopping[] = {SIGTERM, SIGUSR1, SIGINT, SIGHUP, SIGUSR2};
enum { STOPPING = sizeof stopping / sizeof *stopping };
static const double PATIENCE = 30;   /* of a person, and of batch systems between TERM and KILL */
static const double END_OF_JOB = 10; /* before the end of a job: to end, and to be requeued */

static volatile sig_atomic_t stop_signal, hurried; /* the first signal; INT or TERM came again */
static volatile sig_atomic_t watching;
static struct timespec first_at;
static sem_t news; /* a signal came, or the watch ends */

static double seconds_since(const struct timespec *from) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - from->tv_sec) + 1e-9 * (double)(now.tv_nsec - from->tv_nsec);
}

/* Only calls that are safe in a handler. */
static void on_signal(int sig) {
    const int err = errno;
    if (stop_signal == 0) {
        clock_gettime(CLOCK_MONOTONIC, &first_at);
        stop_signal = sig;
    } else if ((sig == SIGINT || sig == SIGTERM) && seconds_since(&first_at) >= 1) {
        hurried = 1;
    }
    if (watching)
        sem_post(&news);
    errno = err;
}

static void change_mask(int how) {
    sigset_t set;
    sigemptyset(&set);
    for (int i = 0; i < STOPPING; i++)
        sigaddset(&set, stopping[i]);
    sigprocmask(how, &set, NULL);
}

void stop_catch_signals(void) {
    struct sigaction sa = {.sa_handler = on_signal, .sa_flags = SA_RESTART}, was;
    sigemptyset(&sa.sa_mask);
    for (int i = 0; i < STOPPING; i++) {
        const bool may_be_ignored = stopping[i] == SIGINT || stopping[i] == SIGHUP;
        sigaddset(&sa.sa_mask, stopping[i]);
        sigaction(stopping[i], NULL, &was);
        if (!may_be_ignored || was.sa_handler != SIG_IGN) /* nohup, or in the background */
            sigaction(stopping[i], &sa, NULL);
    }
    signal(SIGPIPE, SIG_IGN); /* a reader that goes away does not end a run */
    change_mask(SIG_UNBLOCK);
}

bool stop_catches_signals(void) {
    struct sigaction now;
    return sigaction(SIGTERM, NULL, &now) == 0 && now.sa_handler == on_signal;
}

void stop_hold_signals(void) {
    change_mask(SIG_BLOCK);
    if (stop_signal != 0)
        kill(getpid(), stop_signal); /* waits for the next program */
}

bool stop_requested(const comm *c) {
    int mine = stop_signal != 0, any;
    MPI_Allreduce(&mine, &any, 1, MPI_INT, MPI_MAX, c->mpi);
    return any != 0;
}

double stop_grace(int sig, const char *job_end, time_t now) {
    double grace = sig == SIGUSR1 ? INFINITY : PATIENCE;
    char *rest;
    const double end = job_end == NULL ? 0 : strtod(job_end, &rest);
    if (end > 0 && *rest == '\0')
        grace = fmin(grace, fmax(end - END_OF_JOB - (double)now, 0));
    return grace;
}

/* --- the watch */

static struct {
    const comm *c;
    stop_progress p;
    pthread_t thread;
    bool started;
    volatile bool ended;
} watch;

static void on_alarm(int sig) {
    (void)sig;
    _exit(3);
}

/* Ends all ranks: those of mpirun end when one does, those of srun by MPI's word. */
_Noreturn static void end_all(const comm *c) {
    struct sigaction sa = {.sa_handler = on_alarm};
    fflush(stderr);
    launcher_leave(status_exit_code(MOAO_STOPPED));
    if (c->size > 1 && getenv("OMPI_COMM_WORLD_SIZE") == NULL) {
        sigaction(SIGALRM, &sa, NULL);
        alarm(3); /* should MPI wait for the thread that computes */
        MPI_Abort(c->mpi, status_exit_code(MOAO_STOPPED));
    }
    _exit(status_exit_code(MOAO_STOPPED));
}

_Noreturn static void drop(double left) {
    if (watch.c->rank == 0) {
        text t = {0};
        char done[96];
        watch.p.describe(watch.p.of, done, sizeof done);
        text_add(&t, "stopped by a signal with %s finished; the step in progress", done);
        if (left >= 1) {
            text_add(&t, ", ");
            text_add_time(&t, left);
            text_add(&t, " before its end,");
        }
        text_add(&t, " is dropped; go on with --resume");
        progress_tell("%s", t.s != NULL ? t.s : "stopped by a signal; go on with --resume");
        free(t.s);
    }
    end_all(watch.c);
}

static void announce(double left) {
    text t = {0};
    if (watch.c->rank != 0)
        return;
    text_add(&t, "asked to stop: at the next checkpoint");
    if (left >= 1) {
        text_add(&t, ", in about ");
        text_add_time(&t, left);
    }
    text_add(&t, " (asked again: at once)");
    progress_tell("%s", t.s != NULL ? t.s : "asked to stop");
    free(t.s);
}

/* After a request: end in time, or be ended. Ranks other than 0 leave the decision to rank 0, which
 * tells the user, if it knows of the request. */
static void attend(void) {
    const double slack = watch.c->rank == 0 ? 0 : 2;
    const double grace = slack + stop_grace(stop_signal, getenv("SLURM_JOB_END_TIME"), time(NULL));
    bool told = false;
    while (!watch.ended) {
        const double left = watch.p.seconds_left(watch.p.of);
        const double rest = grace - seconds_since(&first_at);
        if (hurried || rest <= 0 || left > rest)
            drop(left);
        if (!told)
            announce(left);
        told = true;
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += 1;
        sem_timedwait(&news, &until);
    }
}

static void *watch_thread(void *unused) {
    (void)unused;
    while (stop_signal == 0 && !watch.ended)
        sem_wait(&news);
    if (!watch.ended)
        attend();
    return NULL;
}

status stop_watch(const comm *c, const stop_progress *p) {
    pthread_attr_t small;
    sigset_t all, before;
    watch.c = c;
    watch.p = *p;
    watch.ended = false;
    sem_init(&news, 0, 0);
    watching = 1;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, (size_t)256 << 10);
    sigfillset(&all); /* signals go to the thread that computes */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    watch.started = pthread_create(&watch.thread, &small, watch_thread, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&small);
    return watch.started ? MOAO_OK
                         : status_fail(MOAO_MEMORY, "no thread for the watch over signals");
}

void stop_unwatch(void) {
    watch.ended = true;
    if (!watch.started)
        return;
    sem_post(&news);
    pthread_join(watch.thread, NULL);
    watch.started = false;
    watching = 0;
    sem_destroy(&news);
}
