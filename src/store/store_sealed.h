/* Small texts of the checkpoint with the fingerprint of their run and a checksum:
 *   moao KIND 2
 *   run 0123456789abcdef
 *   ... lines of the text ...
 *   crc 01234567
 * Local. */
#ifndef MOAO_STORE_SEALED_H
#define MOAO_STORE_SEALED_H

#include "moao/status.h"
#include <stdint.h>

typedef enum {
    SEALED_GOOD,
    SEALED_NONE,    /* there is no such file */
    SEALED_OLD,     /* of another version of the program */
    SEALED_FOREIGN, /* of another run */
    SEALED_DAMAGED,
} sealed_state;

status sealed_write(const char *path, const char *kind, uint64_t run, const char *text);
/* *text (to free): the lines between, NULL unless *state is SEALED_GOOD. */
status sealed_read(const char *path, const char *kind, uint64_t run, char **text,
                   sealed_state *state);

#endif
