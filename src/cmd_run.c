#include "commands.h"

#include "base/comm.h"
#include "base/stop.h"
#include "job/launch.h"
#include "job/spots.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char cmd_run_usage[] =
    "usage: moao run [-n RANKS] FILE... [key=value ...] [-o DIR]\n"
    "                [--resume | --overwrite] [--force] [-q | --verbose]\n"
    "\n"
    "Computes Strehl and ensquared-energy maps and PSFs from a parameter file. Later\n"
    "files and key=value override earlier ones:\n"
    "\n"
    "  moao run -n 2 params/demo.yaml telescope.zenith=30 -o zenith30\n"
    "  moao run mine.yaml sensors[2].magnitude=12 schedule.exposure_interval='5 min'\n"
    "\n"
    "  -n RANKS     start so many ranks with mpirun (as root and in containers too);\n"
    "               without it one rank, or those of the mpirun in front of moao\n"
    "  -o DIR       results go there (default: output.directory)\n"
    "  --resume     go on with an interrupted run in DIR; what is finished is kept\n"
    "  --overwrite  discard an earlier run in DIR\n"
    "  --force      write into DIR although it holds other files\n"
    "  -q           no progress, no table; only warnings and errors\n"
    "  --verbose    also time, GFLOP/s and idle time of each stage, and memory;\n"
    "               DIR/run.json has them in any case\n"
    "\n"
    "Ctrl-C (INT), TERM and HUP stop the run at its next checkpoint, or at once if\n"
    "that is more than 30 s away; USR1 leaves it the time until a SLURM job ends.\n"
    "Exit codes: 0 done, 2 bad input, 3 stopped and resumable, 1 anything else. `moao\n"
    "params` lists every parameter, `moao check FILE` tells what a run will take.\n";

/* Start the ranks of `moao run -n N ...` with the same words but for -n and N. */
static int start_ranks(int argc, char **argv, int n) {
    char **words = NULL;
    int k = 0, code = 1;
    status st;
    TRY(ALLOC(words, (size_t)argc + 1, "command line"));
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "-n") == 0 && i + 1 < argc)
            i++;
        else if (strncmp(argv[i], "-n=", 3) != 0)
            words[k++] = argv[i];
    }
    st = launch_run(n, words, NULL, &code, NULL);
done:
    free(words);
    return st == MOAO_OK ? code : command_fail(st);
}

int cmd_run(int argc, char **argv) {
    comm c;
    cmdline cl = {0};
    if (command_wants_help(argc, argv, cmd_run_usage))
        return 0;
    status st = cmdline_parse(argc, argv, "-n -o --resume --overwrite --force -q --verbose", &cl);
    if (cl.ranks > 0 && launch_is_rank() && st == MOAO_OK)
        st = status_fail(MOAO_INPUT, "moao run: -n %d inside mpirun: say the number of ranks once",
                         cl.ranks);
    if (cl.ranks > 0 && !launch_is_rank()) {
        int n = cl.ranks;
        cmdline_free(&cl);
        return st == MOAO_OK ? start_ranks(argc, argv, n) : command_fail(st);
    }
    command_start(&argc, &argv);
    stop_catch_signals(); /* whatever MPI_Init left */
    status joined = comm_init(MPI_COMM_WORLD, &c);
    st = joined != MOAO_OK ? joined : comm_agree(&c, st);
    if (st == MOAO_OK)
        st = spots_run(&c, &cl);
    return command_end(&c, &cl, st);
}
