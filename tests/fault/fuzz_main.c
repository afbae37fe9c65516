/* Entry of libFuzzer: chooses the target, prepares its folder. What is not of interest here is
 * replaced: messages while computing, and what ranks agree on. */
#include "fuzz.h"

#include "base/comm.h"
#include "base/progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define PLAIN                                                                                      \
    "telescope: {diameter: 8, obscuration: 0.14}\n"                                                \
    "dm: {nssp: 6}\n"                                                                              \
    "sensors:\n"                                                                                   \
    "  - {type: ngs, nssp: 4, direction: [40, 10], magnitude: 10}\n"                               \
    "  - {type: lgs, nssp: 5, direction: [30, -30], altitude: 90 km}\n"                            \
    "schedule: {tor_times: [0, 600], exposure_times: [0, 300, 600]}\n"                             \
    "psf: {wavelengths: [1.65]}\n"
const char fuzz_case[] =
    PLAIN "targets: {grid: {nx: 2, ny: 2, width: 60, height: 30}}\n"
          "atmosphere: {profiles: [{time: 0, r0: 0.15, layers: {altitude: [0, 4000], fraction: "
          "[0.6, 0.4]}}]}\n";
const char fuzz_case_of_files[] = PLAIN "targets: {file: targets.txt}\n"
                                        "atmosphere: {file: profiles.yaml}\n";

static fuzz_target *target;

void progress_warn(const char *fmt, ...) {
    (void)fmt;
}
void progress_note(const char *fmt, ...) {
    (void)fmt;
}
int fsync(int fd) { /* nobody pulls the plug here */
    (void)fd;
    return 0;
}
status comm_agree(const comm *c, status local) {
    (void)c;
    return local;
}

void fuzz_write(const char *name, const void *data, size_t n) {
    FILE *f = fopen(name, "wb");
    if (f == NULL || fwrite(data, 1, n, f) != n || fclose(f) != 0)
        abort();
}

void fuzz_broken(const char *what, const char *detail) {
    fprintf(stderr, "BROKEN: %s: %s\n", what, detail);
    abort();
}

void fuzz_check_message(status st) {
    const char *message = status_message();
    if (st != MOAO_INPUT && st != MOAO_MEMORY)
        fuzz_broken("neither bad input nor lack of memory", message);
    if (message[0] == '\0')
        fuzz_broken("no message", "");
    for (const unsigned char *p = (const unsigned char *)message; *p != '\0'; p++)
        if (*p < 0x20 || *p == 0x7f || (*p == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0))
            fuzz_broken("a message with control characters", message);
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc;
    (void)argv;
    static const struct {
        const char *name;
        fuzz_target *call;
    } all[] = {
        {"params", fuzz_params},   {"profile", fuzz_profile},     {"legacy", fuzz_legacy},
        {"targets", fuzz_targets}, {"overrides", fuzz_overrides}, {"checkpoint", fuzz_checkpoint},
        {"results", fuzz_results}, {"lists", fuzz_lists},         {"matrices", fuzz_matrices}};
    const char *name = getenv("FAULT_FUZZ");
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (name != NULL && strcmp(name, all[i].name) == 0)
            target = all[i].call;
    const char *folder = getenv("FAULT_DIR");
    if (target == NULL || folder == NULL || chdir(folder) != 0) {
        fprintf(stderr, "FAULT_FUZZ must name a target, FAULT_DIR a folder to work in\n");
        exit(2);
    }
    fuzz_write("case.yaml", fuzz_case, strlen(fuzz_case));
    fuzz_write("files.yaml", fuzz_case_of_files, strlen(fuzz_case_of_files));
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    status_clear();
    target(data, n);
    return 0;
}
