#include "launch_start.h"

#include "base/launcher.h"
#include "base/progress.h"
#include "base/text.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Open MPI 4.1 takes 8.2 MB in the folder of a session with 1 to 8 ranks; 40 open files suffice for
 * 2 ranks, 48 for 4 and 64 for 8. Both with a margin. */
static const double SESSION = 12e6, SESSION_RANK = 64e3;
static const rlim_t FILES = 48, FILES_RANK = 8;

/* Open MPI's order. */
static const char *session_folder(const char **from) {
    static const char *const names[] = {"OMPI_MCA_orte_tmpdir_base", "TMPDIR", "TEMP", "TMP"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *dir = getenv(names[i]);
        if (dir != NULL && dir[0] != '\0') {
            *from = names[i];
            return dir;
        }
    }
    *from = "TMPDIR";
    return "/tmp";
}

static status check_session_folder(int n) {
    const double need = SESSION + n * SESSION_RANK;
    const char *from, *dir = session_folder(&from);
    struct statvfs v;
    if (access(dir, W_OK | X_OK) != 0 || statvfs(dir, &v) != 0)
        return status_fail(MOAO_INPUT,
                           "MPI keeps its session in %.200s, which cannot be used (%s): name "
                           "another folder by %s",
                           dir, strerror(errno), from);
    const double room = (double)v.f_bavail * (double)v.f_frsize;
    if (room < need)
        return status_fail(MOAO_INPUT,
                           "MPI keeps its session in %.200s, which has %.1f MB left of the %.0f "
                           "MB that %d rank%s need%s: make room, or name another folder by %s",
                           dir, room / 1e6, ceil(need / 1e6), n, text_plural(n), n == 1 ? "s" : "",
                           from);
    return MOAO_OK;
}

static status check_files(int n) {
    const rlim_t need = FILES + (rlim_t)n * FILES_RANK;
    struct rlimit r;
    if (getrlimit(RLIMIT_NOFILE, &r) != 0 || r.rlim_cur >= need)
        return MOAO_OK;
    r.rlim_cur = r.rlim_max < need ? r.rlim_max : need;
    if (r.rlim_cur >= need && setrlimit(RLIMIT_NOFILE, &r) == 0)
        return MOAO_OK;
    return status_fail(MOAO_INPUT,
                       "%llu open files are allowed, and MPI needs %llu for %d rank%s: raise the "
                       "limit (ulimit -n)",
                       (unsigned long long)r.rlim_cur, (unsigned long long)need, n, text_plural(n));
}

static status check_current_folder(void) {
    char here[PATH_MAX];
    if (getcwd(here, sizeof here) != NULL)
        return MOAO_OK;
    return status_fail(MOAO_INPUT,
                       "the current folder cannot be found (%s), and MPI starts ranks there: "
                       "change to another",
                       strerror(errno));
}

status launch_check_room(int n) {
    status st;
    TRY(check_files(n));
    if (n > 0) {
        TRY(check_session_folder(n));
        TRY(check_current_folder());
    }
done:
    return st;
}

/* --- words of ranks (base/launcher.h) */

static bool elsewhere(void) {
    static const char *const names[] = {"SLURM_JOB_ID",     "PBS_JOBID",
                                        "LSB_JOBID",        "JOB_ID", /* Grid Engine */
                                        "COBALT_JOBID",     "OMPI_MCA_orte_default_hostfile",
                                        "OMPI_MCA_hostfile"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (getenv(names[i]) != NULL)
            return true;
    return false;
}

void launch_start_begin(launch_start *s) {
    const char *text = getenv("MOAO_START_SECONDS");
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    socklen_t len = sizeof a;
    char name[32];
    *s = (launch_start){.socket = -1,
                        .seconds = text != NULL ? strtod(text, NULL) : 60,
                        .from = report_now(),
                        .code = -1};
    if (!(s->seconds > 0) || elsewhere())
        s->seconds = 0;
    s->socket = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    /* bound with the family alone, the kernel chooses an abstract name: a zero, five digits */
    if (s->socket >= 0 && bind(s->socket, (struct sockaddr *)&a, sizeof a.sun_family) == 0 &&
        getsockname(s->socket, (struct sockaddr *)&a, &len) == 0) {
        const int n = (int)(len - offsetof(struct sockaddr_un, sun_path)) - 1;
        snprintf(name, sizeof name, "%.*s", n, a.sun_path + 1);
        setenv("MOAO_LAUNCHER", name, 1);
        if (s->seconds > 0)
            prctl(PR_SET_CHILD_SUBREAPER, 1); /* what mpirun leaves behind is found */
    } else {
        launch_start_end(s);
    }
}

static void hear(launch_start *s) {
    unsigned char word[2];
    ssize_t n;
    while (s->socket >= 0 && (n = recv(s->socket, word, sizeof word, 0)) > 0) {
        s->started = true;
        if (n == 2)
            s->code = word[1];
        s->left = s->left || (n == 2 && word[0] == LAUNCHER_LEAVES);
    }
}

bool launch_start_failed(launch_start *s) {
    hear(s);
    return s->socket >= 0 && s->seconds > 0 && !s->started && report_now() - s->from > s->seconds;
}

bool launch_start_left(launch_start *s) {
    hear(s);
    return s->left;
}

int launch_start_code(launch_start *s) {
    hear(s);
    return s->code;
}

void launch_start_end(launch_start *s) {
    if (s->socket >= 0)
        close(s->socket);
    s->socket = -1;
    unsetenv("MOAO_LAUNCHER");
}

/* Kill the children of this process; those of a child that ends become its own, and follow. */
static void kill_children(void) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%ld/children", (long)getpid());
    do {
        FILE *f = fopen(path, "re");
        long pid;
        while (f != NULL && fscanf(f, "%ld", &pid) == 1)
            kill((pid_t)pid, SIGKILL);
        if (f != NULL)
            fclose(f);
    } while (waitpid(-1, NULL, 0) > 0);
}

status launch_start_give_up(launch_start *s, int child) {
    const struct timespec tick = {.tv_nsec = 100000000};
    const char *from, *dir = session_folder(&from);
    bool there = true;
    kill(child, SIGTERM);
    for (int i = 0; there && i < 30; i++) {
        there = waitpid(child, NULL, WNOHANG) == 0;
        if (there)
            nanosleep(&tick, NULL);
    }
    kill_children();
    return status_fail(
        MOAO_INTERNAL,
        "mpirun did not start the ranks within %.0f s and was ended: see that %.200s "
        "(%s) has room and that a small program starts (mpirun -n 2 hostname); "
        "MOAO_START_SECONDS allows more time",
        s->seconds, dir, from);
}

status launch_check_step(int size, bool *first) {
    const char *tasks = getenv("SLURM_STEP_NUM_TASKS"), *number = getenv("SLURM_PROCID");
    const long n = tasks == NULL ? 0 : strtol(tasks, NULL, 10);
    *first = number == NULL || strcmp(number, "0") == 0;
    if (size > 1 || n <= 1 || getenv("OMPI_COMM_WORLD_SIZE") != NULL)
        return MOAO_OK;
    return status_fail(
        MOAO_INPUT,
        "srun started %ld processes, and MPI knows of one: start the ranks by srun "
        "--mpi=pmix (srun --mpi=list names what this SLURM has), or by mpirun -n %ld "
        "inside the job",
        n, n);
}
