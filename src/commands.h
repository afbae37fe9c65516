/* The subcommands of the program, and what they share. Each returns the exit code; argv[0] is its
 * name. */
#ifndef MOAO_COMMANDS_H
#define MOAO_COMMANDS_H

#include "base/comm.h"
#include "job/setup.h"

int cmd_run(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_sweep(int argc, char **argv);
int cmd_asterism(int argc, char **argv);
int cmd_budget(int argc, char **argv);
int cmd_psf(int argc, char **argv);
int cmd_params(int argc, char **argv);
int cmd_import(int argc, char **argv);
int cmd_lab(int argc, char **argv);
int cmd_import_legacy(int argc, char **argv);

/* What --help prints, by lines of at most 80 columns. */
extern const char cmd_run_usage[], cmd_check_usage[], cmd_sweep_usage[], cmd_params_usage[],
    cmd_import_usage[], cmd_import_file_usage[], cmd_asterism_usage[], cmd_budget_usage[],
    cmd_psf_usage[], cmd_lab_usage[];

/* Prints the usage and returns true when an argument is --help or -h. */
bool command_wants_help(int argc, char **argv, const char *usage);
/* Starts MPI. Exits, with a line, where that cannot be: no room for its session, or srun started
 * processes that do not know of each other. */
void command_start(int *argc, char ***argv);
/* Prints the failure (rank 0), ends MPI, returns the exit code. */
int command_end(comm *c, cmdline *cl, status st);
/* The same without MPI. */
int command_fail(status st);
/* A command of the Python package by its word there, with the arguments of this one; it takes the
 * place of this process. Returns the exit code where it cannot be started; why: what it needs the
 * package for. */
int command_in_python(int argc, char **argv, const char *word, const char *why);

#endif
