/* Processor time of the exposures of a run by steps, with its format and with the dense reference
 * that its samples are held to: bench_exposure FILE... [key=value ...] -o DIR, words of `moao run`,
 * one rank. Without words a small system. Prints, for each pass of an exposure (one by the format
 * asked for, the next by the reference), the steps that the program marks (report_phase) in the
 * order of their first appearance, and those of the solves before the pass, which are not in its
 * sum. Seconds of all threads of the process together, so that other work on the machine matters
 * little. In the end the median time from one target of an exposure to the next, by the clock,
 * and what a tenth of them is below: the device has a sampled target, too, during some of them. */
#include "base/comm.h"
#include "base/progress.h"
#include "job/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PASSES 16
#define STEPS 32
#define TARGETS 4096

static struct {
    const char *name;
    double seconds[PASSES];
} steps[STEPS];
static int nstep, npass, step = -1;
static bool solving, begun; /* the solves of a pass are current; it began with them */
static double since;
static double between[TARGETS], last; /* targets of an exposure [s]; when one began, or 0 */
static int nbetween;

static double seconds(clockid_t of) {
    struct timespec t;
    clock_gettime(of, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Whether another target of an exposure begins is in the step's name. */
static void on_target(const char *name) {
    const bool next = strcmp(name, "exposure: next target") == 0;
    const double now = seconds(CLOCK_MONOTONIC);
    if (next && last > 0 && nbetween < TARGETS)
        between[nbetween++] = now - last;
    if (next || strcmp(name, "exposure: profile") == 0)
        last = next ? now : 0;
}

static void on_phase(const char *name) {
    const double now = seconds(CLOCK_PROCESS_CPUTIME_ID);
    on_target(name);
    if (step >= 0)
        steps[step].seconds[npass - 1] += now - since;
    since = now;
    step = -1;
    if (strncmp(name, "solve: ", 7) != 0) {
        if (strncmp(name, "exposure: ", 10) != 0)
            return;
        name += 10;
        solving = false;
    } else if (!solving) {
        solving = true;
        npass += npass < PASSES;
        begun = true;
    }
    if (strcmp(name, "profile") == 0 && npass < PASSES) {
        npass += !begun;
        begun = false;
    }
    for (step = 0; step < nstep && strcmp(steps[step].name, name) != 0; step++)
        ;
    if (step == nstep && nstep < STEPS)
        steps[nstep++].name = name;
    step = npass > 0 && step < nstep ? step : -1;
}

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print(void) {
    double sum[PASSES] = {0};
    printf("processor time [s] of a pass: the format's, the reference's, ...\n");
    for (int i = 0; i <= nstep; i++) {
        printf("%-28s", i < nstep ? steps[i].name : "all");
        for (int p = 0; p < npass; p++) {
            printf(" %9.3f", i < nstep ? steps[i].seconds[p] : sum[p]);
            sum[p] +=
                i < nstep && strncmp(steps[i].name, "solve: ", 7) != 0 ? steps[i].seconds[p] : 0;
        }
        printf("\n");
    }
    qsort(between, (size_t)nbetween, sizeof *between, compare);
    if (nbetween > 0)
        printf("from one target to the next, median of %d: %.4f s, a tenth below %.4f s\n",
               nbetween, between[nbetween / 2], between[nbetween / 10]);
}

int main(int argc, char **argv) {
    static char *small[] = {"bench_exposure",
                            "params/demo.yaml",
                            "compute.product=toeplitz",
                            "targets={list: [[0, 0]]}",
                            "schedule={tor_times: [0], exposure_times: [0]}",
                            "-o",
                            "/tmp/bench_exposure",
                            "--overwrite",
                            "-q"};
    char **words = argc > 1 ? argv : small;
    comm c;
    cmdline cl = {0};
    status st;
    report_listener = on_phase;
    setenv("OMPI_MCA_plm_rsh_agent", "/bin/false", 0);
    TRY(cmdline_parse(argc > 1 ? argc : (int)(sizeof small / sizeof *small), words,
                      "-o --resume --overwrite --force -q", &cl));
    MPI_Init(NULL, NULL);
    TRY(comm_init(MPI_COMM_WORLD, &c));
    TRY(run_all(&c, &cl));
    comm_free(&c);
    MPI_Finalize();
    print();
done:
    if (st != MOAO_OK)
        fprintf(stderr, "%s\n", status_message());
    return status_exit_code(st);
}
