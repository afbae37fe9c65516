/* Faults that tests inject. A program itself has none: tests preload or link the function
 * moao_test_fault (tests/support/fault_hook.c), which decides by the variable MOAO_FAULT. */
#ifndef MOAO_FAULT_H
#define MOAO_FAULT_H

#include "comm.h"

/* Local. Whether the function is there. */
bool fault_possible(void);

/* Local. MOAO_INTERNAL where a fault is wanted at this place of this rank; the function may also
 * end the process. Cheap where there is none. */
status comm_fault(const comm *c, const char *where);
/* The same for a bit of memory: whether one is to change there, and a number in which it did. */
bool comm_flips(const comm *c, const char *where);
double comm_flip(double x);
/* Local. NULL, or a word by which a test decides a choice that a program makes by itself
 * (moao_test_choice). */
const char *test_choice(const char *what);

#endif
