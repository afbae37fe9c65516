/* Warnings as they are gathered. Private to params_warnings.c and params_doubts.c. Local. */
#ifndef MOAO_PARAMS_WARN_H
#define MOAO_PARAMS_WARN_H

#include "params.h"

typedef struct {
    int n;
    char **v;
} warnings;

/* Add one line; it is left out when memory is short. */
void params_warn(warnings *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Numbers that are legal but likely another unit or a slip: one line for each kind, with the number
 * and what was probably meant. */
void params_warn_doubts(const params *par, const sys *s, const atmos *a, warnings *w);

#endif
