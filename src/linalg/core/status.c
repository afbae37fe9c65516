#include "moao/status.h"

#include <omp.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH = 2048 };

static _Thread_local char message[LENGTH];
/* The first message of an OpenMP worker, which nobody would ask: it is for the thread that the team
 * works for, the next one that asks without a message of its own. */
static char of_worker[LENGTH];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Files, names and values in a message are the user's, or damaged: what could steer a terminal or
 * break the line (C0, DEL, and C1 as UTF-8) becomes '?'. */
static void make_plain(char *text) {
    for (unsigned char *p = (unsigned char *)text; *p != '\0'; p++)
        if (*p < 0x20 || *p == 0x7f)
            *p = '?';
        else if (*p == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0)
            p[0] = p[1] = '?';
}

/* The text that was composed, where there is none yet. */
static void keep(const char *text) {
    if (message[0] == '\0')
        snprintf(message, sizeof message, "%s", text);
    if (omp_get_thread_num() == 0)
        return;
    pthread_mutex_lock(&lock);
    if (of_worker[0] == '\0')
        snprintf(of_worker, sizeof of_worker, "%s", text);
    pthread_mutex_unlock(&lock);
}

status status_set(status code, const char *file, int line, const char *fmt, ...) {
    char text[LENGTH];
    if (message[0] != '\0' && omp_get_thread_num() == 0)
        return code;
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    make_plain(text);
    if (code == MOAO_INTERNAL && n >= 0 && (size_t)n < sizeof text)
        snprintf(text + n, sizeof text - (size_t)n, " [internal error at %s:%d]", file, line);
    keep(text);
    return code;
}

const char *status_message(void) {
    if (message[0] == '\0') {
        pthread_mutex_lock(&lock);
        memcpy(message, of_worker, sizeof message);
        of_worker[0] = '\0';
        pthread_mutex_unlock(&lock);
    }
    return message;
}

void status_clear(void) {
    message[0] = '\0';
    pthread_mutex_lock(&lock);
    of_worker[0] = '\0';
    pthread_mutex_unlock(&lock);
}

void status_adopt(const char *text) {
    keep(text);
}

int status_exit_code(status st) {
    switch (st) {
    case MOAO_OK:
        return 0;
    case MOAO_INPUT:
        return 2;
    case MOAO_STOPPED:
        return 3;
    default:
        return 1;
    }
}

#define PIECE ((size_t)4 << 20)

/* By all threads: the system gives the pages when they are written first. */
static void zero(char *p, size_t bytes) {
    const size_t pieces = (bytes + PIECE - 1) / PIECE;
#pragma omp parallel for schedule(static) if (pieces > 8)
    for (size_t i = 0; i < pieces; i++)
        memset(p + i * PIECE, 0, bytes - i * PIECE < PIECE ? bytes - i * PIECE : PIECE);
}

status mem_alloc(void **p, unsigned long count, unsigned long size, const char *what) {
    *p = NULL;
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX - 63)
        return status_fail(MOAO_MEMORY, "%s: %lu elements of %lu bytes overflow", what, count,
                           size);
    bytes = (bytes + 63) / 64 * 64;
    void *q = aligned_alloc(64, bytes ? bytes : 64);
    if (q == NULL)
        return status_fail(MOAO_MEMORY,
                           "%s: no memory for %.3g GB; use more nodes, or a smaller compute.memory",
                           what, (double)bytes / 1e9);
    zero(q, bytes);
    *p = q;
    return MOAO_OK;
}
