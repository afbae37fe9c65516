/* On which machine a case can be computed, and how: ranks, memory, time, jobs, the line for SLURM.
 */
#ifndef MOAO_ADVISE_H
#define MOAO_ADVISE_H

#include "base/text.h"
#include "job/plan.h"
#include "job/setup.h"

typedef struct {            /* a machine of equal nodes */
    int nodes;              /* 0: as many as it takes */
    int ranks;              /* in all, 0: chosen */
    int cores;              /* of a node */
    int gpus;               /* of a node that compute, 0: the CPUs do */
    const gpu_model *model; /* of these, NULL: the reference */
    double memory;          /* of a node that the ranks may use [bytes] */
    double rate;            /* dgemm of a core, or of a GPU; 0: a guess [flop/s] */
    size_t base;            /* what the program takes before any array [bytes] */
} machine_kind;

typedef struct {
    bool fits;
    int nodes; /* 0: the ranks are those of m, wherever they are */
    int gpus;  /* of a node */
    machine m;
    plan p;        /* where it does not fit, of the smallest part */
    size_t memory; /* of a rank, in all [bytes] */
    double step;   /* from checkpoint to checkpoint [s] */
    double first;  /* from the start of a job to its first checkpoint [s] */
    double limit;  /* of a job [s] */
    int notice;    /* that a job gets before its end [s] */
    int jobs;      /* 1: one; 0: a job is too short to reach a checkpoint */
} advice;

/* Longest time of a job where the user does not say [s]: what many clusters allow. */
#define ADVISE_LIMIT 86400.0

/* Local. The plan for these very ranks, on CPUs. MOAO_INPUT only where the parameters ask for the
 * impossible (compute.grid); what does not fit is told by a->fits. */
status advise_ranks(const request *q, const machine *m, double limit, advice *a);

/* Local. The plan for nodes of a kind. Where their number is open, the smallest power of two that
 * holds the case and computes it within a week, or the largest that was tried. */
status advise_nodes(const request *q, const machine_kind *kind, double limit, advice *a);

/* Local. Memory to ask of SLURM for a core [MB]: the plan's, with what mpirun itself takes. */
long advise_core_memory(const advice *a);

/* Local. The complete line, in pieces of at most 76 columns that end in a backslash. cl: files and
 * overrides; dir: for the results. */
void advise_slurm(const advice *a, const cmdline *cl, const char *dir, text *out);
/* Path of a script of this project, of the source folder or of an installation, as short as it can
 * be said from here; scripts/NAME when it is in neither. */
void advise_script(const char *name, char *path, size_t size);
/* The words of a command on results (plot, view, plot-sweep...) as it is called from here:
 * moao-plot where the PATH has that of this installation, its path where the PATH has it not, else
 * scripts/moao-results plot. */
void advise_results(const char *command, text *out);
/* The program as it is called from here: its path below this folder where it lies there, moao where
 * the PATH has it, else its path. */
void advise_program(char *path, size_t size);
/* A word as the shell reads it, quoted where needed. */
void advise_word(text *out, const char *word);

#endif
