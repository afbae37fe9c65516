/* What the fuzz targets share. FAULT_FUZZ names the target: params, profile, legacy, targets,
 * overrides, checkpoint, results, lists or matrices; the files they need lie in FAULT_DIR, which
 * becomes the current folder.
 */
#ifndef FAULT_FUZZ_H
#define FAULT_FUZZ_H

#include "moao/status.h"
#include <stddef.h>
#include <stdint.h>

typedef void fuzz_target(const uint8_t *data, size_t n);
fuzz_target fuzz_params, fuzz_profile, fuzz_legacy, fuzz_targets, fuzz_overrides, fuzz_checkpoint,
    fuzz_results, fuzz_lists, fuzz_matrices;

/* A parameter file that is good, with its profile and its targets in files of their own. */
extern const char fuzz_case[], fuzz_case_of_files[];

void fuzz_write(const char *name, const void *data, size_t n);
/* Ends the process with a report: the program has broken a promise. */
void fuzz_broken(const char *what, const char *detail) __attribute__((noreturn));
/* A failure must be MOAO_INPUT (or MOAO_MEMORY), told in one line without control characters. */
void fuzz_check_message(status st);

#endif
