/* Errors: every function that can fail returns a status; the first failure of a thread keeps its
 * message.
 *
 * A function that takes a `comm` is collective and returns the same status on every rank (it ends
 * in comm_agree); a function without one is local and never communicates. main() prints the message
 * once. */
#ifndef MOAO_STATUS_H
#define MOAO_STATUS_H

/* What the library shows of itself: all names begin with moao_ or MOAO_. */
#ifndef MOAO_PUBLIC
#define MOAO_PUBLIC __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    MOAO_OK = 0,
    MOAO_STOPPED,  /* a signal asked for a stop; what is finished is saved (exit code 3) */
    MOAO_INPUT,    /* bad input (exit code 2) */
    MOAO_MEMORY,   /* allocation failed, or would not fit */
    MOAO_NUMERIC,  /* not positive definite, NaN, residual too large */
    MOAO_IO,       /* a file could not be read or written */
    MOAO_INTERNAL, /* a library call failed, or a fault was injected */
} moao_status;

/* Record a failure with a one-line message (printf format, no newline: what is wrong and what to
 * do) and return `code`. The first message of this thread is kept until it calls moao_status_clear;
 * threads do not see each other's, but for that of an OpenMP worker, which the next thread gets
 * that asks without one of its own. Control characters become '?'. */
#define moao_status_fail(code, ...) moao_status_set((code), __FILE__, __LINE__, __VA_ARGS__)
MOAO_PUBLIC moao_status moao_status_set(moao_status code, const char *file, int line,
                                        const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* The message kept by moao_status_set, "" when none; it stays as it is until the same thread clears
 * it. Of MOAO_INTERNAL it ends in the place in the source, for those who mend it; all others are
 * for users and stand alone. */
MOAO_PUBLIC const char *moao_status_message(void);
MOAO_PUBLIC void moao_status_clear(void);
/* Keep this text as the message, as it is (of another rank, say), unless there is one. */
MOAO_PUBLIC void moao_status_adopt(const char *text);

/* Exit code of the program for a status: 0 done, 2 bad input, 3 stopped and resumable, 1 anything
 * else. */
MOAO_PUBLIC int moao_status_exit_code(moao_status st);

/* Evaluate a call; on failure leave through the function's only exit label, `done`. Needs
 * `moao_status st`. */
#define MOAO_TRY(call)                                                                             \
    do {                                                                                           \
        if ((st = (call)) != MOAO_OK)                                                              \
            goto done;                                                                             \
    } while (0)

/* Zeroed allocation of count * size bytes, 64-byte aligned; size 0 gives a valid pointer. Sets *p
 * (NULL on failure). `what` names the array in the message. Free with free(). */
MOAO_PUBLIC moao_status moao_mem_alloc(void **p, unsigned long count, unsigned long size,
                                       const char *what);

#ifdef __cplusplus
}
#endif

#endif
