#include "comm.h"

#include "launcher.h"
#include "memory_limits.h"
#include "plain.h"

#include <cblas.h>
#include <errno.h>
#include <omp.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Cores this process may run on: its affinity mask, which mpirun and SLURM set when they bind. */
static int cores_allowed(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
        return CPU_COUNT(&set);
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (int)n : 1;
}

/* Variables by which the user asks for threads, the first one first. */
static const char *const thread_names[] = {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"};

int comm_threads_asked(void) {
    for (int i = 0; i < 2; i++) {
        const char *text = getenv(thread_names[i]);
        char *end;
        const long n = text == NULL ? 0 : strtol(text, &end, 10);
        /* OpenMP allows a list, one number for each level of nested regions */
        if (n > 0 && n <= 1 << 16 && (*end == '\0' || (i == 0 && *end == ',')))
            return (int)n;
    }
    return 0;
}

const char *comm_threads_warning(void) {
    static char text[160];
    if (comm_threads_asked() > 0)
        return NULL;
    for (int i = 0; i < 2; i++) {
        const char *value = getenv(thread_names[i]);
        if (value != NULL && value[0] != '\0') {
            snprintf(text, sizeof text, "%s=%.40s is no number of threads and counts for nothing",
                     thread_names[i], value);
            return text;
        }
    }
    return NULL;
}

/* Of Open MPI 5, whose ranks cannot tell: whether the options of this rank's mpirun say where ranks
 * go. Also true where these are not known, as of a rank on another node. */
static bool mpirun_places(void) {
    static const char *const placing[] = {"--bind-to", "--map-by", "--cpu-set", "--cpu-list",
                                          "ing_policy"}; /* of --prtemca */
    char path[64], line[8192];
    snprintf(path, sizeof path, "/proc/%ld/cmdline", (long)getppid());
    FILE *f = fopen(path, "re");
    const size_t n = f == NULL ? 0 : fread(line, 1, sizeof line - 1, f);
    if (f != NULL)
        fclose(f);
    line[n] = '\0';
    bool found = n == 0 || strstr(line, "prted") != NULL;
    for (const char *word = line; word < line + n; word += strlen(word) + 1)
        for (size_t i = 0; i < sizeof placing / sizeof *placing; i++)
            found = found || strstr(word, placing[i]) != NULL;
    return found;
}

/* Whether mpirun bound this rank to a core without being asked to. */
static bool bound_by_default(void) {
    if (getenv("OMPI_MCA_orte_bound_at_launch") != NULL)
        return getenv("OMPI_MCA_hwloc_base_binding_policy") == NULL;
    return getenv("PRTE_LAUNCHED") != NULL &&
           getenv("PRTE_MCA_hwloc_default_binding_policy") == NULL && !mpirun_places();
}

void comm_unbind(void) {
    cpu_set_t launcher;
    if (bound_by_default() && sched_getaffinity(getppid(), sizeof launcher, &launcher) == 0)
        sched_setaffinity(0, sizeof launcher, &launcher);
}

/* Collective. Ranks bound to disjoint cores each use all of theirs; ranks that share a mask divide
 * it. Every rank takes part, also one whose user says how many threads it has. */
static status threads_of_rank(const comm *c, int *threads) {
    cpu_set_t mine, *all = NULL;
    int sharing = 0;
    status st = comm_agree(c, ALLOC(all, (size_t)c->node_size, "cores of the ranks"));
    if (st != MOAO_OK)
        goto done;
    CPU_ZERO(&mine);
    sched_getaffinity(0, sizeof mine, &mine); /* unknown: stays empty */
    MPI_Allgather(&mine, sizeof mine, MPI_BYTE, all, sizeof mine, MPI_BYTE, c->node);
    for (int i = 0; i < c->node_size; i++) {
        cpu_set_t both;
        CPU_AND(&both, &mine, &all[i]);
        sharing += CPU_COUNT(&both) > 0;
    }
    const double quota = limits_cores() / c->node_size;
    *threads = comm_threads_asked();
    if (*threads == 0) {
        *threads = cores_allowed() / (sharing > 0 ? sharing : c->node_size);
        *threads = *threads < quota ? *threads : (int)quota;
    }
    *threads = *threads > 0 ? *threads : 1;
done:
    free(all);
    return st;
}

status comm_init(MPI_Comm mpi, comm *c) {
    memset(c, 0, sizeof *c);
    c->mpi = mpi;
    MPI_Comm_rank(mpi, &c->rank);
    MPI_Comm_size(mpi, &c->size);
    MPI_Comm_split_type(mpi, MPI_COMM_TYPE_SHARED, c->rank, MPI_INFO_NULL, &c->node);
    MPI_Comm_rank(c->node, &c->node_rank);
    MPI_Comm_size(c->node, &c->node_size);
    int leader = c->node_rank == 0;
    MPI_Allreduce(&leader, &c->nnode, 1, MPI_INT, MPI_SUM, mpi);
    unsigned long long memory[2] = {limits_node(), limits_node_total()};
    MPI_Allreduce(MPI_IN_PLACE, memory, 2, MPI_UNSIGNED_LONG_LONG, MPI_MIN, c->node);
    c->memory = (size_t)memory[0] / (size_t)c->node_size;
    c->total = (size_t)memory[1] / (size_t)c->node_size;
    status st = threads_of_rank(c, &c->threads);
    if (st == MOAO_OK)
        comm_set_threads(c, c->threads);
    return st;
}

void comm_set_threads(comm *c, int threads) {
    c->threads = threads;
    openblas_set_num_threads(threads);
    omp_set_num_threads(threads);
}

void comm_free(comm *c) {
    if (c->size > 0)
        MPI_Comm_free(&c->node);
    memset(c, 0, sizeof *c);
}

status comm_agree(const comm *c, status local) {
    enum { KNOWN = 256 }; /* more than any status */
    struct {
        int code, rank;
    } mine = {(int)local, c->rank}, worst;
    /* a rank that knows the reason comes before those that were told of the failure by their group,
     * whatever they call it; MAXLOC keeps the lowest rank among equals */
    if (local != MOAO_OK && status_message()[0] != '\0')
        mine.code += KNOWN;
    MPI_Allreduce(&mine, &worst, 1, MPI_2INT, MPI_MAXLOC, c->mpi);
    worst.code %= KNOWN;
    if (worst.code == MOAO_OK)
        return MOAO_OK;
    char text[2048] = "";
    if (c->rank == worst.rank) {
        bool plain = worst.code == MOAO_INPUT || worst.code == MOAO_STOPPED || c->size == 1 ||
                     strncmp(status_message(), "rank ", 5) == 0;
        if (plain)
            snprintf(text, sizeof text, "%s", status_message());
        else
            snprintf(text, sizeof text, "rank %d: %.2000s", c->rank, status_message());
    }
    MPI_Bcast(text, sizeof text, MPI_CHAR, worst.rank, c->mpi);
    status_clear();
    status_adopt(text);
    return (status)worst.code;
}

#define ALARM 4711 /* tag of a message without content */

void comm_alarm(const comm *c) {
    for (int i = 0; i < c->size; i++) {
        MPI_Request sent;
        if (i == c->rank)
            continue;
        MPI_Isend(NULL, 0, MPI_BYTE, i, ALARM, c->mpi, &sent);
        MPI_Request_free(&sent);
    }
}

bool comm_alarmed(const comm *c) {
    int told;
    MPI_Iprobe(MPI_ANY_SOURCE, ALARM, c->mpi, &told, MPI_STATUS_IGNORE);
    return told != 0;
}

void comm_abort(const comm *c) {
    char line[2200];
    snprintf(line, sizeof line, "rank %d: %s; what is finished is kept: go on with --resume",
             c->rank, status_message());
    plain_line(stderr, "moao: ", line);
    fflush(stderr);
    launcher_leave(status_exit_code(MOAO_INTERNAL));
    MPI_Abort(c->mpi, status_exit_code(MOAO_INTERNAL));
    abort();
}

void comm_bcast(const comm *c, void *data, size_t bytes) {
    const size_t most = (size_t)1 << 30; /* MPI counts with int */
    char *p = data;
    for (size_t n; bytes > 0; p += n, bytes -= n) {
        n = bytes < most ? bytes : most;
        MPI_Bcast(p, (int)n, MPI_BYTE, 0, c->mpi);
    }
}

void comm_sum(const comm *c, double *v, size_t count) {
    const size_t most = (size_t)1 << 27;
    for (size_t n; count > 0; v += n, count -= n) {
        n = count < most ? count : most;
        MPI_Allreduce(MPI_IN_PLACE, v, (int)n, MPI_DOUBLE, MPI_SUM, c->mpi);
    }
}
