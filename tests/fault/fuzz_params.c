/* Parameter files, profiles, target lists and overrides: refused in one line, or accepted; then the
 * effective parameters are accepted too and stay the same, and geometry, atmosphere and warnings
 * follow from them. */
#include "fuzz.h"
#include "params/params.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What follows is left out where it would only take long. */
static bool is_small(const params *par) {
    double slopes = (double)par->dm_nssp * par->dm_nssp;
    for (int i = 0; i < par->sensors.n; i++)
        slopes += (double)par->sensors.v[i].nssp * par->sensors.v[i].nssp;
    return slopes < 3e4 && (double)par->targets_grid_nx * par->targets_grid_ny < 1e5;
}

static void derive(const params *par) {
    sys s = {0};
    atmos a = {0};
    char **line = NULL;
    status st = sys_init(par, &s);
    if (st == MOAO_OK)
        st = atmos_init(par, &s, &a);
    if (st == MOAO_OK && a.nexposure <= 0)
        fuzz_broken("accepted without exposures", "");
    if (st == MOAO_OK) {
        int n = params_warnings(par, &s, &a, &line);
        params_free_warnings(n, line);
    } else {
        fuzz_check_message(st);
    }
    atmos_free(&a);
    sys_free(&s);
}

static void check_effective(const params *par) {
    static const char *const file = "effective.yaml";
    params again;
    char *text = params_effective_text(par);
    if (text == NULL)
        return; /* no memory */
    fuzz_write(file, text, strlen(text));
    if (params_load(NULL, 1, &file, 0, NULL, &again) != MOAO_OK)
        fuzz_broken("the effective parameters are refused", status_message());
    char *twice = params_effective_text(&again);
    if (twice != NULL && strcmp(text, twice) != 0)
        fuzz_broken("the effective parameters change when they are read", text);
    params_free(&again);
    free(twice);
    free(text);
}

static void load(const char *file, int noverride, const char *const *overrides) {
    params par;
    status st = params_load(NULL, 1, &file, noverride, overrides, &par);
    if (st != MOAO_OK) {
        fuzz_check_message(st);
    } else {
        check_effective(&par);
        if (is_small(&par))
            derive(&par);
    }
    params_free(&par);
}

void fuzz_params(const uint8_t *data, size_t n) {
    fuzz_write("input.yaml", data, n);
    load("input.yaml", 0, NULL);
}

void fuzz_profile(const uint8_t *data, size_t n) {
    static const char targets[] = "0 0\n";
    fuzz_write("targets.txt", targets, strlen(targets));
    fuzz_write("profiles.yaml", data, n);
    load("files.yaml", 0, NULL);
}

void fuzz_targets(const uint8_t *data, size_t n) {
    static const char profiles[] =
        "profiles: [{time: 0, r0: 0.15, layers: {altitude: [0], fraction: [1]}}]\n";
    fuzz_write("profiles.yaml", profiles, strlen(profiles));
    fuzz_write("targets.txt", data, n);
    load("files.yaml", 0, NULL);
}

/* One override a line. */
void fuzz_overrides(const uint8_t *data, size_t n) {
    enum { MOST = 20 };
    const char *list[MOST];
    int count = 0;
    char *text = calloc(n + 1, 1);
    if (text == NULL)
        return;
    memcpy(text, data, n);
    for (char *line = strtok(text, "\n"); line != NULL && count < MOST; line = strtok(NULL, "\n"))
        list[count++] = line;
    load("case.yaml", count, list);
    free(text);
}
