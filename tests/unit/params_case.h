/* A small valid parameter file and a folder of their own for the tests of parameters. */
#ifndef PARAMS_CASE_H
#define PARAMS_CASE_H

#include "params/params.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

extern const char params_case[];

/* Write a file of n bytes into the current folder; write_case writes params_case. */
void write_bytes(const char *name, const char *text, size_t n);
void write_case(const char *name);

/* The case with the first `old` replaced by `new`, into bad.yaml. */
void write_changed(const char *old, const char *new);
/* Load bad.yaml with one override or none; expect a message that starts with `place` and holds
 * `phrase`. Messages that are not as expected are shown and counted in `mistakes_missed`. */
extern int mistakes_missed;
void expect_mistake(const char *override, const char *place, const char *phrase);

/* Load one file with up to one override; the test fails with the message when that fails. */
void load(const char *file, const char *override, params *par);
/* ... and derive the rest. */
void load_all(const char *file, const char *override, params *par, sys *s, atmos *a);

/* cmocka group set-up and tear-down: a new current folder, which is removed with its files. */
int enter_folder(void **state);
int leave_folder(void **state);

#endif
