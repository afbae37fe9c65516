/* Files of the published framework. The first byte says whether the rest is a profile or a system
 * file; an accepted profile must also serve as part of a parameter file. */
#include "fuzz.h"
#include "params/legacy.h"
#include "params/params.h"

#include <stdlib.h>
#include <string.h>

static void check_profile(const char *text, size_t n) {
    static const char *const file = "case.yaml", *const override[] = {
                                                     "atmosphere={legacy: {files: [profile.txt]}}"};
    static const char *const effective = "effective.yaml";
    params par, again;
    fuzz_write("profile.txt", text, n);
    status st = params_load(NULL, 1, &file, 1, override, &par);
    if (st != MOAO_OK) {
        fuzz_check_message(st);
    } else {
        char *written = params_effective_text(&par);
        if (written != NULL) {
            fuzz_write(effective, written, strlen(written));
            if (params_load(NULL, 1, &effective, 0, NULL, &again) != MOAO_OK)
                fuzz_broken("the effective parameters are refused", status_message());
            params_free(&again);
        }
        free(written);
    }
    params_free(&par);
}

void fuzz_legacy(const uint8_t *data, size_t n) {
    if (n == 0)
        return;
    char *text = calloc(n, 1);
    if (text == NULL)
        return;
    memcpy(text, data + 1, n - 1);
    if (data[0] == 'p') {
        legacy_profile p = {0};
        status st = legacy_profile_parse("profile", text, &p);
        if (st != MOAO_OK)
            fuzz_check_message(st);
        legacy_profile_free(&p);
        status_clear();
        check_profile(text, n - 1);
    } else {
        legacy_system s = {0};
        status st = legacy_system_parse("system", text, &s);
        if (st != MOAO_OK)
            fuzz_check_message(st);
        legacy_system_free(&s);
    }
    free(text);
}
