#include "commands.h"

#include <string.h>

const char cmd_import_file_usage[] =
    "usage: moao import FILE -o OUT [--force]\n"
    "       moao import PROFILE -o OUT [--seeing ARCSEC | --r0 M] [--unit C=UNIT]\n"
    "       moao import SYSTEM PROFILE... -o OUT [--interval TIME] [--force]\n"
    "\n"
    "Makes a parameter file from another program's file, and lists how it was\n"
    "understood and what was left out; both stand at its head too.\n"
    "\n"
    "  *.ini          of TIPTOP, with Shack-Hartmann sensors; pyramids are refused\n"
    "  *.yaml         of pyTomoAO\n"
    "  *.fits         Adaptive Optics Telemetry (AOT)\n"
    "  a table        CSV, FITS, ECSV, VOTable or text of heights, Cn2 dh in m^(1/3),\n"
    "                 Cn2 in m^(-2/3) or fractions, and winds: a file with profiles\n"
    "                 alone, to be named behind a case: moao run mine.yaml OUT\n"
    "  SYSTEM...      several files: as moao import-legacy\n"
    "\n"
    "  -o OUT         parameter file to write\n"
    "  --force        replace OUT when there is one\n"
    "  --seeing, --r0 of a profile, at 500 nm and zenith; needed with fractions\n"
    "  --unit C=UNIT  unit of a column that states none: cn2=m^(1/3), height=km\n"
    "\n"
    "It needs Python with numpy and astropy, but for the last form.\n";

/* Files among the words: what is no option and no value of one. */
static int count_files(int argc, char **argv) {
    static const char *const valued[] = {"-o",   "--output", "--seeing",
                                         "--r0", "--unit",   "--interval"};
    int n = 0;
    for (int i = 1; i < argc; i++) {
        bool value = false;
        for (size_t k = 0; k < sizeof valued / sizeof *valued; k++)
            value = value || strcmp(argv[i], valued[k]) == 0;
        if (value)
            i++;
        else
            n += argv[i][0] != '-';
    }
    return n;
}

int cmd_import(int argc, char **argv) {
    if (command_wants_help(argc, argv, cmd_import_file_usage))
        return 0;
    if (count_files(argc, argv) > 1)
        return cmd_import_legacy(argc, argv);
    return command_in_python(argc, argv, "import",
                             "it reads files of other programs, with the Python package of moao");
}
