#include "commands.h"
#include "params.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char cmd_params_usage[] = "usage: moao params [--markdown]\n"
                           "Print every parameter: type, unit, default, range, and a sentence.\n"
                           "  --markdown   as the page docs/parameters.md\n";

int cmd_params(int argc, char **argv) {
    bool markdown = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            fputs(cmd_params_usage, stdout);
            return 0;
        }
        if (strcmp(argv[i], "--markdown") != 0) {
            fprintf(stderr, "moao params: unknown argument %s, expected --markdown\n", argv[i]);
            return 2;
        }
        markdown = true;
    }
    char *text = params_reference(markdown);
    if (text == NULL) {
        fprintf(stderr, "moao params: %s\n", status_message());
        return 1;
    }
    int bad = fputs(text, stdout) == EOF || fflush(stdout) == EOF;
    free(text);
    return bad ? 1 : 0;
}
