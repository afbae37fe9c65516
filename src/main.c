/* moao: multi-object adaptive optics for extremely large telescopes, simulated from covariances.
 * `moao run` is the data flow: setup -> matcov -> tor -> obsseq -> psf -> maps (job/run.c). */
#include "backend/families.h"
#include "base/launcher.h"
#include "base/machine.h"
#include "base/memory_limits.h"
#include "base/plain.h"
#include "base/progress.h"
#include "base/stop.h"
#include "base/variables.h"
#include "commands.h"
#include "job/advise.h"
#include "job/launch.h"
#include "job/launch_start.h"
#include "version.h"

#include <cblas.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
    "usage: moao COMMAND ...\n"
    "\n"
    "  run            a parameter file to Strehl and ensquared-energy maps\n"
    "  check          validate a parameter file; what a run of it takes, and where\n"
    "  sweep          runs over ranges of parameters, with one table of results\n"
    "  asterism       guide stars of a catalogue, ranked by their image quality\n"
    "  psf            images of any direction of a run that kept its field\n"
    "  budget         where the wavefront error of a run comes from, term by term\n"
    "  lab            a case live in a browser: drag stars, see the map follow\n"
    "  params         every parameter: type, unit, default, range\n"
    "  import         parameter file from TIPTOP's or pyTomoAO's, or from a profile\n"
    "  import-legacy  parameter file from a legacy system file and profiles\n"
    "\n"
    "moao help COMMAND says more; moao --version names the libraries in use. Results\n"
    "are drawn and compared by moao-plot, moao-view and moao-compare (each: --help).\n";

static const struct {
    const char *name;
    int (*call)(int, char **);
    const char *usage;
} command[] = {{"run", cmd_run, cmd_run_usage},
               {"check", cmd_check, cmd_check_usage},
               {"sweep", cmd_sweep, cmd_sweep_usage},
               {"asterism", cmd_asterism, cmd_asterism_usage},
               {"psf", cmd_psf, cmd_psf_usage},
               {"budget", cmd_budget, cmd_budget_usage},
               {"lab", cmd_lab, cmd_lab_usage},
               {"params", cmd_params, cmd_params_usage},
               {"import", cmd_import, cmd_import_file_usage},
               {"import-legacy", cmd_import_legacy, cmd_import_usage}};

enum { NCOMMAND = sizeof command / sizeof *command };

bool command_wants_help(int argc, char **argv, const char *text) {
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            fputs(text, stdout);
            return true;
        }
    return false;
}

/* MPI, and whether its ranks are those that the user means. *tells: this one says what is wrong. */
static status start_mpi(int *argc, char ***argv, bool *tells) {
    int size, rank;
    status st = MOAO_OK;
    if (!launch_is_rank()) {
        TRY(launch_check_step(1, tells));
        TRY(launch_check_room(launch_is_alone() ? 0 : 1));
    }
    /* a run started without mpirun must not look for ssh */
    setenv("OMPI_MCA_plm_rsh_agent", "/bin/false", 0);
    comm_unbind();
    report_phase("start: MPI");
    TRY(launch_init(argc, argv));
    report_phase("start: ranks");
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    st = launch_check_step(size, tells);
    if (st == MOAO_OK)
        launcher_report_start(rank);
    else
        MPI_Finalize();
done:
    return st;
}

void command_start(int *argc, char ***argv) {
    bool tells = true;
    const status st = start_mpi(argc, argv, &tells);
    if (st == MOAO_OK)
        return;
    if (tells)
        command_fail(st);
    exit(status_exit_code(st));
}

static void print_failure(status st, const char *line) {
    if (progress_is_json())
        progress_error(line, status_exit_code(st));
    else
        plain_line(stderr, st == MOAO_INPUT ? "" : "moao: ", line);
}

int command_fail(status st) {
    if (st != MOAO_OK)
        print_failure(st, status_message());
    const char *first = params_mistake(0), *line;
    if (st == MOAO_INPUT && first != NULL && strcmp(first, status_message()) == 0)
        for (int i = 1; (line = params_mistake(i)) != NULL; i++)
            print_failure(st, line);
    return status_exit_code(st);
}

int command_in_python(int argc, char **argv, const char *word, const char *why) {
    char script[4096], **words = NULL;
    status st;
    TRY(ALLOC(words, (size_t)argc + 2, "command line"));
    advise_script("moao-results", script, sizeof script);
    words[0] = script;
    words[1] = (char *)word;
    memcpy(words + 2, argv + 1, (size_t)(argc - 1) * sizeof *words);
    fflush(NULL);
    execv(script, words);
    st = status_fail(MOAO_INPUT, "moao %s: %s cannot be started (%s): %s", word, script,
                     strerror(errno), why);
done:
    free(words);
    return command_fail(st);
}

/* Ranks of `moao run -n` end with 0 where the launcher knows their exit code: the mpirun of Open
 * MPI 5 has six lines to say of every other one. */
int command_end(comm *c, cmdline *cl, status st) {
    int code = status_exit_code(st), told = 0;
    if (c->rank == 0) {
        command_fail(st);
        told = launcher_report_end(code);
    }
    MPI_Bcast(&told, 1, MPI_INT, 0, MPI_COMM_WORLD);
    cmdline_free(cl);
    comm_free(c);
    MPI_Finalize();
    return told ? 0 : code;
}

/* The GPUs that a run would use, or why there is none. */
static void print_gpus(void) {
    const backend *be;
    char text[320];
    if (families_backend("gpu", &be) != MOAO_OK) {
        printf("GPU      none (%s)\n", status_message());
        status_clear();
        return;
    }
    for (int d = 0; d < be->devices(); d++)
        if (be->describe(d, text, sizeof text) == MOAO_OK)
            printf("GPU %d    %s\n", d, text);
}

static int print_version(void) {
    printf("moao     %s\n", MOAO_VERSION);
    machine_versions v;
    machine_get_versions(&v);
    printf("MPI      %s\nBLAS     %s, kernel %s\nFFTW     %s\ncfitsio  %s\n", v.mpi, v.blas,
           v.blas_kernel, v.fftw, v.cfitsio);
    print_gpus();
    return 0;
}

static int find_command(const char *name) {
    for (int i = 0; i < NCOMMAND; i++)
        if (strcmp(name, command[i].name) == 0)
            return i;
    return -1;
}

static int unknown(const char *name) {
    char line[200];
    snprintf(line, sizeof line, "moao: unknown command %.100s; see moao help", name);
    plain_line(stderr, "", line);
    return 2;
}

/* moao help [COMMAND], moao --help */
static int print_help(int argc, char **argv) {
    int k = argc > 2 ? find_command(argv[2]) : -1;
    if (argc > 2 && strcmp(argv[2], "variables") == 0) {
        variables_print();
        return 0;
    }
    if (argc > 2 && k < 0)
        return unknown(argv[2]);
    fputs(k < 0 ? usage : command[k].usage, stdout);
    return 0;
}

/* One rank of several speaks for all. */
static bool speaks(void) {
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    return rank == NULL || strcmp(rank, "0") == 0;
}

/* The variables of the environment that are this program's. */
static bool check_variables(void) {
    char warning[200];
    const status st = variables_check(warning, sizeof warning);
    if (*warning != '\0' && speaks())
        plain_line(stderr, "moao: warning: ", warning);
    if (st != MOAO_OK && speaks())
        plain_line(stderr, "moao: ", status_message());
    return st == MOAO_OK;
}

int main(int argc, char **argv) {
    const bool computes = argc > 1 && strcmp(argv[1], "run") == 0;
    if (computes)
        stop_catch_signals();
    machine_prepare(argv, computes);
    if (limits_probe(openblas_get_num_threads()) != MOAO_OK) {
        plain_line(stderr, "moao: ", status_message());
        _exit(2); /* exit would wait for threads that wait for memory */
    }
    if (!check_variables())
        return 2;
    if (argc < 2) {
        fputs(usage, stderr);
        return 2;
    }
    if (strcmp(argv[1], "--version") == 0)
        return print_version();
    if (strcmp(argv[1], "help") == 0 || strcmp(argv[1], "--help") == 0 ||
        strcmp(argv[1], "-h") == 0)
        return print_help(argc, argv);
    int k = find_command(argv[1]);
    return k < 0 ? unknown(argv[1]) : command[k].call(argc - 1, argv + 1);
}
