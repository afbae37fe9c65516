#include "params_case.h"

#include <dirent.h>

const char params_case[] =
    "title: good\n"
    "telescope: {diameter: 8, obscuration: 0.14}\n"
    "dm: {nssp: 16}\n"
    "lgs_defaults: {nssp: 12, altitude: 90 km}\n"
    "sensors:\n"
    "  - {type: ngs, nssp: 10, direction: [40, 10], magnitude: 10}\n"
    "  - {type: ngs, nssp: 10, direction: [-30, 35], magnitude: 11}\n"
    "  - {type: lgs, direction: [30, -30]}\n"
    "targets: {grid: {nx: 4, ny: 2, width: 60, height: 30}}\n"
    "atmosphere:\n"
    "  profiles:\n"
    "    - {time: 0, r0: 0.15, layers: {altitude: [0, 4000, 10000], fraction: [0.6, 0.3, 0.1]}}\n"
    "    - {time: 10 min, r0: 0.12, layers: {altitude: [0, 5000], strength: [20, 10]}}\n"
    "schedule: {tor_times: [0, 600], exposure_times: [0, 300, 600]}\n"
    "psf: {wavelengths: [1.65, 2.2]}\n";

void write_bytes(const char *name, const char *text, size_t n) {
    FILE *f = fopen(name, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

void write_case(const char *name) {
    write_bytes(name, params_case, strlen(params_case));
}

int mistakes_missed; /* messages that were not as expected, all of which are shown */

/* The case with the first `old` replaced by `new`, into bad.yaml. */
void write_changed(const char *old, const char *new) {
    char text[4096];
    const char *at = strstr(params_case, old);
    assert_non_null(at);
    int n = snprintf(text, sizeof text, "%.*s%s%s", (int)(at - params_case), params_case, new,
                     at + strlen(old));
    assert_true(n > 0 && (size_t)n < sizeof text);
    write_bytes("bad.yaml", text, (size_t)n);
}

/* Load bad.yaml with one override or none; expect a message that starts with `place` and holds
 * `phrase`. */
void expect_mistake(const char *override, const char *place, const char *phrase) {
    const char *file = "bad.yaml";
    params par;
    status_clear();
    status st = params_load(NULL, 1, &file, override != NULL, &override, &par);
    const char *message = status_message();
    if (st != MOAO_INPUT || strncmp(message, place, strlen(place)) != 0 ||
        strstr(message, phrase) == NULL || strpbrk(message, "\n\r\t") != NULL)
        print_error("expected %s ... %s, got status %d: %s\n", place, phrase, (int)st, message),
            mistakes_missed++;
    params_free(&par);
    status_clear();
}

void load(const char *file, const char *override, params *par) {
    status_clear();
    status st = params_load(NULL, 1, &file, override != NULL, &override, par);
    if (st != MOAO_OK)
        fail_msg("%s", status_message());
}

void load_all(const char *file, const char *override, params *par, sys *s, atmos *a) {
    load(file, override, par);
    assert_int_equal(sys_init(par, s), MOAO_OK);
    assert_int_equal(atmos_init(par, s, a), MOAO_OK);
}

int enter_folder(void **state) {
    static char folder[] = "/tmp/moao-test-XXXXXX";
    *state = folder;
    return mkdtemp(folder) == NULL || chdir(folder) != 0;
}

int leave_folder(void **state) {
    DIR *d = opendir(".");
    for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            remove(e->d_name);
    return d == NULL || closedir(d) != 0 || chdir("/") != 0 || rmdir(*state) != 0;
}
