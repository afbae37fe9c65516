#include "base/plain.h"
#include "commands.h"
#include "params/params.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char cmd_params_usage[] =
    "usage: moao params [SECTION|WORD...]\n"
    "\n"
    "Print every parameter, or those of a section (telescope, sensors, targets.grid,\n"
    "units...) or a single key: type, unit, default, range, and what it means. Any\n"
    "other word (actuators, photons, pupil, vibration...) is searched for in names\n"
    "and texts.\n"
    "\n"
    "  --markdown   as the page docs/parameters.md\n"
    "  --man        as the manual page moao-parameters(5)\n"
    "  --keys       as a list of keys and words, for completion in a shell\n";

static int print(char *text) {
    int bad = text == NULL || fputs(text, stdout) == EOF || fflush(stdout) == EOF;
    if (text == NULL)
        plain_line(stderr, "moao params: ", status_message());
    free(text);
    return bad ? 1 : 0;
}

static int print_sections(int n, char **names) {
    for (int i = 0; i < n; i++) {
        char *text;
        status st = params_reference_section(names[i], &text);
        if (st == MOAO_INPUT) {
            plain_line(stderr, "moao params: ", status_message());
            return 2;
        }
        if (i > 0)
            putchar('\n');
        if (print(text) != 0)
            return 1;
    }
    return 0;
}

int cmd_params(int argc, char **argv) {
    static const struct {
        const char *option;
        reference_form form;
    } forms[] = {
        {"--markdown", REFERENCE_MARKDOWN}, {"--man", REFERENCE_MAN}, {"--keys", REFERENCE_KEYS}};
    if (command_wants_help(argc, argv, cmd_params_usage))
        return 0;
    if (argc == 1)
        return print(params_reference(REFERENCE_PLAIN));
    for (size_t k = 0; argc == 2 && k < sizeof forms / sizeof *forms; k++)
        if (strcmp(argv[1], forms[k].option) == 0)
            return print(params_reference(forms[k].form));
    for (int i = 1; i < argc; i++)
        if (argv[i][0] == '-') {
            plain_line(stderr, "moao params: unknown option, see moao help params: ", argv[i]);
            return 2;
        }
    return print_sections(argc - 1, argv + 1);
}
