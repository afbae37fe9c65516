#include "commands.h"

#include "comm.h"
#include "job/run.h"

#include <stdio.h>
#include <stdlib.h>

static const char usage[] =
    "usage: mpirun -n N moao run FILE... [key=value ...] [-o DIR] [--resume | --overwrite] [--force] [-q]\n"
    "\n"
    "Computes Strehl and ensquared-energy maps and PSFs from a parameter file. Later files and "
    "key=value override\n"
    "earlier ones (sensors[2].magnitude=12, schedule.exposure_interval='5 min').\n"
    "\n"
    "  -o DIR       results go there (default: output.directory)\n"
    "  --resume     go on with an interrupted run in that directory; what is finished is kept\n"
    "  --overwrite  discard an earlier run in that directory\n"
    "  --force      use a folder that holds other files\n"
    "  -q           no progress, no table; only warnings and errors\n"
    "\n"
    "SIGTERM, SIGINT (Ctrl-C), SIGHUP or SIGUSR1 stops the run after the current exposure. Exit codes: 0 done, 2 bad input, "
    "3 stopped and\n"
    "resumable, 1 anything else. `moao params` lists every parameter.\n";

int cmd_run(int argc, char **argv) {
    if (command_wants_help(argc, argv, usage))
        return 0;
    comm c;
    cmdline cl = {0};
    command_start(&argc, &argv);
    comm_catch_signals(); /* whatever MPI_Init left */
    status st = comm_init(MPI_COMM_WORLD, &c);
    if (st == MOAO_OK)
        st = comm_agree(&c, cmdline_parse(argc, argv, "-o --resume --overwrite --force -q ", &cl));
    if (st == MOAO_OK)
        st = run_all(&c, &cl);
    return command_end(&c, &cl, st);
}
