/* moao: multi-object adaptive optics for extremely large telescopes, simulated from covariances.
 * `moao run` is the data flow: setup -> matcov -> tor -> obsseq -> psf -> maps (job/run.c). */
#include "backend.h"
#include "commands.h"
#include "machine.h"
#include "version.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: moao COMMAND ...\n"
    "\n"
    "  run            a parameter file to Strehl and ensquared-energy maps (under mpirun)\n"
    "  check          validate a parameter file; print what follows from it\n"
    "  params         every parameter: type, unit, default, range\n"
    "  import-legacy  parameter file from a legacy system file and profiles\n"
    "\n"
    "moao COMMAND --help says more; moao --version names the libraries in use.\n";

bool command_wants_help(int argc, char **argv, const char *text) {
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            fputs(text, stdout);
            return true;
        }
    return false;
}

void command_start(int *argc, char ***argv) {
    /* a run started without mpirun must not look for ssh */
    setenv("OMPI_MCA_plm_rsh_agent", "/bin/false", 0);
    comm_unbind();
    MPI_Init(argc, argv);
}

int command_end(comm *c, cmdline *cl, status st) {
    if (st != MOAO_OK && c->rank == 0)
        fprintf(stderr, "%s%s\n", st == MOAO_INPUT ? "" : "moao: ", status_message());
    cmdline_free(cl);
    comm_free(c);
    MPI_Finalize();
    return status_exit_code(st);
}

/* The GPUs that a run would use, or why there is none. */
static void print_gpus(void) {
    const backend *be;
    char text[320];
    if (backend_get("gpu", &be) != MOAO_OK) {
        printf("GPU      none (%s)\n", status_message());
        status_clear();
        return;
    }
    for (int d = 0; d < be->devices(); d++)
        if (be->describe(d, text, sizeof text) == MOAO_OK)
            printf("GPU %d    %s\n", d, text);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        int (*call)(int, char **);
    } command[] = {{"run", cmd_run},
                   {"check", cmd_check},
                   {"params", cmd_params},
                   {"import-legacy", cmd_import_legacy}};
    if (argc > 1 && strcmp(argv[1], "run") == 0)
        comm_catch_signals();
    machine_choose_kernel(argv);
    if (argc < 2) {
        fputs(usage, stderr);
        return 2;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("moao     %s\n", MOAO_VERSION);
        machine_versions v;
        machine_get_versions(&v);
        printf("MPI      %s\nBLAS     %s, kernel %s\nFFTW     %s\ncfitsio  %s\n", v.mpi, v.blas,
               v.blas_kernel, v.fftw, v.cfitsio);
        print_gpus();
        return 0;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        fputs(usage, stdout);
        return 0;
    }
    for (size_t i = 0; i < sizeof command / sizeof *command; i++)
        if (strcmp(argv[1], command[i].name) == 0)
            return command[i].call(argc - 1, argv + 1);
    fprintf(stderr, "moao: unknown command %s; see moao --help\n", argv[1]);
    return 2;
}
