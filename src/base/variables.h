/* The variables of the environment that moao knows. */
#ifndef MOAO_VARIABLES_H
#define MOAO_VARIABLES_H

#include "moao/status.h"

#include <stddef.h>

typedef struct {
    const char *name;
    const char *words; /* what it may be, separated by |; NULL: anything, as `value` says */
    const char *value; /* what it stands for, where words are NULL */
    const char *sentence;
} variable;

/* Ends with a NULL name. */
extern const variable variables[];

/* Local. MOAO_INPUT with one line where one of them has a word that it may not have. An empty value
 * is none. warning (size bytes): "", or a line about a name that resembles one of them. */
status variables_check(char *warning, size_t size);

/* Local. For people, on stdout. */
void variables_print(void);

#endif
