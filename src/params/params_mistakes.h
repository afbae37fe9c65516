/* Mistakes of one reading, so that all of them can be told at once. A reading goes on after a
 * mistake where what follows does not hang on it. Private to params*.c; params_mistake (params.h)
 * gives the lines. Local, one reading at a time. */
#ifndef MOAO_PARAMS_MISTAKES_H
#define MOAO_PARAMS_MISTAKES_H

#include "moao/status.h"
#include <stdbool.h>

void mistakes_begin(void);
/* MOAO_INPUT while a reading collects: keeps the message, unless it is known, clears it and returns
 * MOAO_OK. Anything else is returned as it is. */
status mistakes_keep(status st);
int mistakes_count(void);
/* Whether one is about this key, or keys below it. */
bool mistakes_about(const char *path);
/* Whether one has these words. */
bool mistakes_mention(const char *words);
/* Ends the collecting: MOAO_INPUT with the first message when there were mistakes, else st. */
status mistakes_end(status st);

#endif
