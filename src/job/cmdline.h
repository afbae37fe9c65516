/* The command line after a subcommand: parameter files, key=value, options. */
#ifndef MOAO_CMDLINE_H
#define MOAO_CMDLINE_H

#include "moao/status.h"
#include <stdbool.h>

typedef struct { /* borrowed from argv, but for the arrays and `joined` */
    int nfile, noverride;
    const char **files, **overrides; /* parameter files, key=value; owned arrays */
    const char *dir;                 /* -o, NULL: output.directory */
    bool resume, overwrite, force, quiet, verbose, json, effective, slurm, table;
    int ranks;     /* -n, --ranks; 0: not given */
    double memory; /* --memory [bytes], 0: not given */
    /* check: another machine; 0: not given */
    int nodes, cores, gpus; /* cores and GPUs of a node */
    const char *gpu;        /* a card by its name */
    double gflops;          /* dgemm of a core, of a GPU with --gpus [GFLOP/s] */
    double limit;           /* --time: longest time of a job [s] */
    /* asterism; texts NULL, numbers 0: not given */
    const char *stars, *fields, *want, *keep; /* --stars, --fields, --want, --keep */
    int choose, most, order;                  /* --choose, --most, --order */
    int refine, full, sample;                 /* --refine, --full, --sample */
    double faintest, radius, apart;           /* --limit [mag], --radius, --apart [rad] */
    bool greedy;
    char **joined; /* overrides put together from several words, NULL-terminated */
} cmdline;

/* Parse argv[1..]. allowed: names of the options of this command, separated by blanks; others are
 * refused, and so are values given twice and values that are not wholly a positive number in
 * range. Spaces around = are allowed, also as words of their own (key = value). MOAO_INPUT with a
 * one-line message. Local. */
status cmdline_parse(int argc, char **argv, const char *allowed, cmdline *cl);
void cmdline_free(cmdline *cl);

#endif
