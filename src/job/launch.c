#include "launch.h"

#include "base/file.h"
#include "base/machine.h"
#include "base/stop.h"
#include "job/launch_start.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

bool launch_is_rank(void) {
    return getenv("OMPI_COMM_WORLD_SIZE") != NULL || getenv("PMI_RANK") != NULL ||
           getenv("PMIX_RANK") != NULL;
}

/* Variables of launchers and jobs, by which a process finds other ranks. */
static const char *const launched[] = {
    "OMPI_COMM_", "OMPI_UNIVERSE", "PMI",   "SLURM_",    "PBS_",  "LSB_",    "COBALT_",
    "PALS_",      "FLUX_",         "ALPS_", "MPI_LOCAL", "MPIR_", "MPIEXEC", "MV2_COMM_"};

/* And what a user tells PMIx, without a launcher. */
#define SETTING "PMIX_MCA_"

static bool is_launched(void) {
    for (char **e = environ; e != NULL && *e != NULL; e++)
        for (size_t i = 0; i < sizeof launched / sizeof *launched; i++)
            if (strncmp(*e, launched[i], strlen(launched[i])) == 0 &&
                strncmp(*e, SETTING, strlen(SETTING)) != 0)
                return true;
    return false;
}

/* What Open MPI 4 takes for ranks that know of one another. */
#define OF_RANKS ((size_t)6 << 20)
static bool is_alone;

size_t launch_memory(void) {
    return is_alone ? OF_RANKS : 0;
}

/* Open MPI's: without them all processes that are alone share one folder of a session, which the
 * first to end removes from under those that start. And of its machine hwloc looks at Linux and the
 * processors: the drivers of devices, which it else asks too, take 0.3 s on a node with GPUs. */
static const char *const alone[][2] = {
    {"OMPI_MCA_ess_singleton_isolated", "1"},
    {"OMPI_MCA_pml", "ob1"},
    {"OMPI_MCA_btl", "self"},
    {"OMPI_MCA_orte_create_session_dirs", "0"},
    {"HWLOC_COMPONENTS", "-pci,-linuxio,-opencl,-cuda,-nvml,-gl,-rsmi,-levelzero"}};
enum { OF_MPI = 4, ALONE = sizeof alone / sizeof *alone };

bool launch_is_alone(void) {
    bool found = !is_launched();
    for (int i = 0; i < OF_MPI; i++)
        found = found && getenv(alone[i][0]) == NULL;
    return found;
}

static bool makes_folders(void) {
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int len, version;
    MPI_Get_library_version(text, &len);
    return sscanf(text, "Open MPI v%d.", &version) == 1 && version >= 5;
}

/* A new folder, in the first of those of temporary files where one can be made. */
static status make_folder(char *name, size_t size) {
    const char *const places[] = {getenv("TMPDIR"), "/tmp", "/dev/shm"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        if (places[i] == NULL || *places[i] == '\0')
            continue;
        const int n = snprintf(name, size, "%s/moao-mpi-XXXXXX", places[i]);
        if (n > 0 && (size_t)n < size && mkdtemp(name) != NULL)
            return MOAO_OK;
    }
    return status_fail(MOAO_INPUT, "MPI starts with a folder of its own, and none can be made in "
                                   "/tmp or in TMPDIR: name another folder by TMPDIR");
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at) {
    (void)st;
    (void)kind;
    (void)at;
    return remove(path);
}

/* Of a process that is alone Open MPI 5 makes folders below TMPDIR, puts nothing into them and
 * leaves them; where it cannot it crashes. It gets a folder of its own, for the time of its start.
 */
static status init_aside(int *argc, char ***argv) {
    char name[PATH_MAX], *was = NULL;
    status st;
    TRY(make_folder(name, sizeof name));
    const char *usual = getenv("TMPDIR");
    if (usual != NULL)
        TRY(ALLOC(was, strlen(usual) + 1, "name of a folder"));
    if (was != NULL)
        strcpy(was, usual);
    setenv("TMPDIR", name, 1);
    MPI_Init(argc, argv);
    if (was != NULL)
        setenv("TMPDIR", was, 1);
    else
        unsetenv("TMPDIR");
    nftw(name, remove_one, 8, FTW_DEPTH | FTW_PHYS);
done:
    free(was);
    return st;
}

status launch_init(int *argc, char ***argv) {
    bool own[ALONE] = {false};
    status st = MOAO_OK;
    is_alone = launch_is_alone();
    for (int i = 0; i < ALONE && is_alone; i++) {
        own[i] = getenv(alone[i][0]) == NULL;
        setenv(alone[i][0], alone[i][1], 0);
    }
    if (is_alone && makes_folders())
        st = init_aside(argc, argv);
    else
        MPI_Init(argc, argv);
    for (int i = 0; i < ALONE; i++) /* of this process alone, not of what it starts */
        if (own[i])
            unsetenv(alone[i][0]);
    return st;
}

/* Whether a program is on the PATH. */
static bool on_path(const char *name) {
    const char *p = getenv("PATH");
    char file[PATH_MAX];
    while (p != NULL && *p != '\0') {
        size_t n = strcspn(p, ":");
        snprintf(file, sizeof file, "%.*s/%s", (int)n, p, name);
        if (access(file, X_OK) == 0)
            return true;
        p += n + (p[n] == ':');
    }
    return false;
}

/* Open MPI's variables, the same as scripts/mpi-env.sh; those that are set already stay as they
 * are. */
static void set_environment(void) {
    /* mpirun fails without one */
    setenv("PATH", "/usr/local/bin:/usr/bin:/bin", 0);
    if (geteuid() == 0) { /* else mpirun refuses */
        setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 0);
        setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 0);
    }
    setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", 0);
    setenv("OMPI_MCA_hwloc_base_binding_policy", "none", 0);
    setenv("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe", 0); /* of Open MPI 5 */
    setenv("PRTE_MCA_hwloc_default_binding_policy", "none", 0);
    setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 0);
    machine_wait_quietly();
    /* why they ended is said by the ranks, or by launch_run */
    setenv("OMPI_MCA_orte_execute_quiet", "1", 0);
    setenv("PRTE_MCA_prte_execute_quiet", "1", 0);
    if (!on_path("ssh") && !on_path("rsh"))
        setenv("OMPI_MCA_plm_rsh_agent", "/bin/false", 0);
}

/* The command line of n ranks, in new memory: *out, to free as one block. */
static status make_command(int n, char *const *argv, char ***out) {
    enum { OWN = 4 };
    size_t count = 0;
    char exe[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", exe, sizeof exe - 1);
    while (argv[count] != NULL)
        count++;
    const size_t words = OWN + count + 1, text = PATH_MAX + 16;
    char **v;
    status st = ALLOC(v, words + text / sizeof *v + 1, "command line");
    *out = v;
    if (st != MOAO_OK)
        return st;
    char *room = (char *)(v + words);
    exe[len > 0 ? len : 0] = '\0';
    snprintf(room, 16, "%d", n);
    strcpy(room + 16, exe);
    v[0] = "mpirun";
    v[1] = "-n";
    v[2] = room;
    v[3] = room + 16;
    memcpy(v + OWN, argv, count * sizeof *v);
    return MOAO_OK;
}

/* The child: output to the log, signals as by default, in a process group of its own so that Ctrl-C
 * reaches it only by way of the parent, and no longer than the parent lives. */
_Noreturn static void become(char **v, int out, pid_t parent, const sigset_t *mask, int failure) {
    int null = open("/dev/null", O_RDONLY);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    sigprocmask(SIG_SETMASK, mask, NULL);
    signal(SIGPIPE, SIG_DFL);
    if (null >= 0)
        dup2(null, STDIN_FILENO);
    if (out >= 0) {
        dup2(out, STDOUT_FILENO);
        dup2(out, STDERR_FILENO);
    }
    if (getppid() == parent)
        execvp(v[0], v);
    int err = errno;
    if (write(failure, &err, sizeof err) != sizeof err)
        _exit(126);
    _exit(127);
}

/* Wait for the child while signals arrive; *how it ended, as waitpid has it. mpirun passes on USR1
 * and USR2 alone: USR1 leaves the ranks the time until the end of the job, USR2 as much as INT and
 * TERM (base/stop.h). Once asked, mpirun is asked again each second: what comes before its ranks
 * exist, it forgets. */
static status attend(pid_t child, const sigset_t *wanted, launch_start *start, bool *asked,
                     bool *ended, int *how) {
    const struct timespec second = {.tv_sec = 1};
    int passed = SIGUSR2;
    while (waitpid(child, how, WNOHANG) == 0) {
        if (launch_start_failed(start))
            return launch_start_give_up(start, child);
        if (launch_start_left(start) && !*ended) {
            kill(child, SIGTERM);
            *ended = true;
        }
        const int sig = sigtimedwait(wanted, NULL, &second);
        if (sig < 0 && errno == EAGAIN && *asked)
            kill(child, passed);
        if (sig < 0 || sig == SIGCHLD)
            continue;
        if (!*asked) {
            fprintf(stderr, "moao: %s: the run is asked to stop\n",
                    sig == SIGINT ? "interrupted" : strsignal(sig));
            passed = sig == SIGUSR1 ? SIGUSR1 : SIGUSR2;
            kill(child, passed);
        } else if (sig == SIGINT || sig == SIGTERM) {
            kill(child, SIGTERM);
            *ended = true;
        }
        *asked = true;
    }
    return MOAO_OK;
}

/* Exit code that a run of ours stands for, from how mpirun ended and what the ranks said. mpirun
 * that is ended from elsewhere says nothing of it, and loses lines of the ranks. */
static int exit_code(int how, bool asked, bool ended, launch_start *start) {
    int code = WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how);
    const int said = launch_start_code(start);
    const bool of_mpirun = (asked && code > 128) || (ended && code == 1); /* after a signal to it */
    if (said == 0 || (said > 0 && (of_mpirun || code == 0 || start->left)))
        return said;
    if (of_mpirun) {
        fprintf(stderr, "moao: stopped; what is finished is kept: go on with --resume\n");
        return 3;
    }
    if (code > 128 && said < 0) {
        fprintf(stderr,
                "moao: a rank was ended by signal %d (%s)%s; what is finished is kept: go on with "
                "--resume\n",
                code - 128, strsignal(code - 128),
                code == 128 + SIGKILL ? ", as happens when the memory is short" : "");
        return 1;
    }
    /* of ranks that did not come up here: what ends before MPI is up ends with 2, and has told */
    if (start->started || asked || (code == 1 && start->seconds > 0)) {
        fprintf(stderr,
                "moao: mpirun ended (exit code %d), perhaps before all that the run said came "
                "out; what is finished is kept: go on with --resume\n",
                code);
        return said > 0 ? said : 1;
    }
    return code;
}

status launch_run(int n, char *const *argv, const char *log, int *code, bool *asked) {
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGCHLD};
    char **v = NULL;
    int failure[2] = {-1, -1}, err = 0, out = -1;
    bool any = false;
    launch_start start = {.socket = -1};
    sigset_t wanted, before;
    status st;
    sigemptyset(&wanted);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        sigaddset(&wanted, signals[i]);
    set_environment();
    TRY(launch_check_room(n));
    TRY(make_command(n, argv, &v));
    if (log != NULL)
        TRY(file_open_log(log, &out));
    if (pipe2(failure, O_CLOEXEC) != 0)
        TRY(status_fail(MOAO_INTERNAL, "mpirun cannot be started: %s", strerror(errno)));
    fflush(NULL);
    sigprocmask(SIG_BLOCK, &wanted, &before);
    if (stop_catches_signals())
        stop_hold_signals(); /* one that came before is waited for again */
    launch_start_begin(&start);
    const pid_t self = getpid(), child = fork();
    if (child == 0)
        become(v, out, self, &before, failure[1]);
    close(failure[1]);
    if (child < 0)
        st = status_fail(MOAO_INTERNAL, "mpirun cannot be started: %s", strerror(errno));
    else if (read(failure[0], &err, sizeof err) == sizeof err)
        st = status_fail(MOAO_INPUT,
                         "mpirun cannot be started (%s): install Open MPI (Debian's package "
                         "openmpi-bin) or load its module",
                         strerror(err));
    if (child > 0) {
        bool ended = false;
        int how = 0;
        const status came = attend(child, &wanted, &start, &any, &ended, &how);
        if (came != MOAO_OK)
            st = came;
        else
            *code = exit_code(how, any, ended, &start);
    }
    launch_start_end(&start);
    close(failure[0]);
    sigprocmask(SIG_SETMASK, &before, NULL);
done:
    if (asked != NULL)
        *asked = any;
    if (out >= 0)
        close(out);
    free(v);
    return st;
}
