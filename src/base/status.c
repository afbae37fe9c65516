#include "status.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char message[2048];

/* Files, names and values in a message are the user's, or damaged: what could steer a terminal or
 * break the line (C0, DEL, and C1 as UTF-8) becomes '?'. */
static void make_plain(char *text) {
    for (unsigned char *p = (unsigned char *)text; *p != '\0'; p++)
        if (*p < 0x20 || *p == 0x7f)
            *p = '?';
        else if (*p == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0)
            p[0] = p[1] = '?';
}

status status_set(status code, const char *file, int line, const char *fmt, ...) {
    if (message[0] != '\0')
        return code;
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(message, sizeof message, fmt, ap);
    va_end(ap);
    make_plain(message);
    if (code == MOAO_INTERNAL && n >= 0 && (size_t)n < sizeof message)
        snprintf(message + n, sizeof message - (size_t)n, " [internal error at %s:%d]", file, line);
    return code;
}

const char *status_message(void) {
    return message;
}

void status_clear(void) {
    message[0] = '\0';
}

void status_adopt(const char *text) {
    if (message[0] == '\0')
        snprintf(message, sizeof message, "%s", text);
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
    memset(q, 0, bytes);
    *p = q;
    return MOAO_OK;
}
