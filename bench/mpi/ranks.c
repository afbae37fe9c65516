/* Where each rank's time goes, by the program's own marks (report_phase) and its calls of MPI: a
 * library (make bench-ranks) that is preloaded into every rank, for
 *
 *     mpirun -n 64 -x LD_PRELOAD=build/bench/libmoao_ranks.so -x MOAO_RANKS=DIR moao run ...
 *
 * Rank r writes DIR/r.csv at MPI_Finalize; bench/mpi/ranks.py adds them up. Lines: "phase", name,
 * seconds outside MPI, times, processor seconds; "mpi", phase, call, seconds waited, seconds,
 * calls, bytes received. A collective call begins with a barrier of its communicator, so that
 * waiting for others and moving bytes are told apart (MOAO_RANKS_BARRIER=no: without). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PHASES = 128, CALLS = 16 };
enum { ALLGATHERV, ALLGATHER, ALLREDUCE, BCAST, REDUCE, GATHER, GATHERV, BARRIER, SEND, RECV };
static const char *const call_name[] = {"Allgatherv", "Allgather", "Allreduce", "Bcast", "Reduce",
                                        "Gather",     "Gatherv",   "Barrier",   "Send",  "Recv"};

typedef struct {
    double waited, seconds, bytes;
    long calls;
} mpi_sum;

static struct {
    const char *name;
    double wall, cpu;
    long times;
    mpi_sum call[CALLS];
} all[PHASES] = {{.name = "start"}};
static int count = 1, now;
static double since, cpu_since, in_mpi, cpu_in_mpi; /* of the current phase */
static int split = 1;

static double clock_of(clockid_t c) {
    struct timespec t;
    clock_gettime(c, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void end_phase(void) {
    const double t = clock_of(CLOCK_MONOTONIC), c = clock_of(CLOCK_PROCESS_CPUTIME_ID);
    all[now].wall += t - since - in_mpi;
    all[now].cpu += c - cpu_since - cpu_in_mpi;
    all[now].times++;
    since = t;
    cpu_since = c;
    in_mpi = cpu_in_mpi = 0;
}

static void on_phase(const char *phase) {
    int i = 0;
    end_phase();
    while (i < count && strcmp(all[i].name, phase) != 0)
        i++;
    if (i == count && count < PHASES)
        all[count++].name = phase;
    now = i < PHASES ? i : 0;
}

__attribute__((constructor)) static void begin(void) {
    void (**listener)(const char *) =
        (void (**)(const char *))dlsym(RTLD_DEFAULT, "report_listener");
    const char *barrier = getenv("MOAO_RANKS_BARRIER");
    split = barrier == NULL || strcmp(barrier, "no") != 0;
    since = clock_of(CLOCK_MONOTONIC);
    cpu_since = clock_of(CLOCK_PROCESS_CPUTIME_ID);
    if (listener != NULL)
        *listener = on_phase;
}

static void finish(void) {
    const char *dir = getenv("MOAO_RANKS"), *rank = getenv("OMPI_COMM_WORLD_RANK");
    char name[4096];
    if (dir == NULL)
        return;
    end_phase();
    snprintf(name, sizeof name, "%s/%s.csv", dir, rank != NULL ? rank : "0");
    FILE *f = fopen(name, "w");
    if (f == NULL) {
        perror(name);
        return;
    }
    for (int i = 0; i < count; i++) {
        fprintf(f, "phase,%s,%.6f,%ld,%.6f\n", all[i].name, all[i].wall, all[i].times, all[i].cpu);
        for (int k = 0; k < CALLS; k++)
            if (all[i].call[k].calls > 0)
                fprintf(f, "mpi,%s,%s,%.6f,%.6f,%ld,%.0f\n", all[i].name, call_name[k],
                        all[i].call[k].waited, all[i].call[k].seconds, all[i].call[k].calls,
                        all[i].call[k].bytes);
    }
    fclose(f);
}

static double size_of(MPI_Datatype t) {
    int n = 0;
    MPI_Type_size(t, &n);
    return n;
}

/* One call: what is waited for first, then the call itself. */
#define COUNTED(which, comm, received, made)                                                       \
    do {                                                                                           \
        const double t0 = clock_of(CLOCK_MONOTONIC), c0 = clock_of(CLOCK_PROCESS_CPUTIME_ID);      \
        if (split && (comm) != MPI_COMM_NULL)                                                      \
            PMPI_Barrier(comm);                                                                    \
        const double t1 = clock_of(CLOCK_MONOTONIC);                                               \
        const int rc = made;                                                                       \
        const double t2 = clock_of(CLOCK_MONOTONIC);                                               \
        mpi_sum *s = &all[now].call[which];                                                        \
        s->waited += t1 - t0;                                                                      \
        s->seconds += t2 - t1;                                                                     \
        s->bytes += received;                                                                      \
        s->calls++;                                                                                \
        in_mpi += t2 - t0;                                                                         \
        cpu_in_mpi += clock_of(CLOCK_PROCESS_CPUTIME_ID) - c0;                                     \
        return rc;                                                                                 \
    } while (0)

int MPI_Allgatherv(const void *in, int n, MPI_Datatype t, void *out, const int *counts,
                   const int *at, MPI_Datatype to, MPI_Comm c) {
    int size;
    double sum = 0;
    PMPI_Comm_size(c, &size);
    for (int i = 0; i < size; i++)
        sum += counts[i];
    COUNTED(ALLGATHERV, c, sum * size_of(to), PMPI_Allgatherv(in, n, t, out, counts, at, to, c));
}

int MPI_Allgather(const void *in, int n, MPI_Datatype t, void *out, int m, MPI_Datatype to,
                  MPI_Comm c) {
    int size;
    PMPI_Comm_size(c, &size);
    COUNTED(ALLGATHER, c, (double)m * size * size_of(to), PMPI_Allgather(in, n, t, out, m, to, c));
}

int MPI_Allreduce(const void *in, void *out, int n, MPI_Datatype t, MPI_Op op, MPI_Comm c) {
    COUNTED(ALLREDUCE, c, n * size_of(t), PMPI_Allreduce(in, out, n, t, op, c));
}

int MPI_Bcast(void *a, int n, MPI_Datatype t, int root, MPI_Comm c) {
    COUNTED(BCAST, c, n * size_of(t), PMPI_Bcast(a, n, t, root, c));
}

int MPI_Reduce(const void *in, void *out, int n, MPI_Datatype t, MPI_Op op, int root, MPI_Comm c) {
    COUNTED(REDUCE, c, n * size_of(t), PMPI_Reduce(in, out, n, t, op, root, c));
}

int MPI_Gather(const void *in, int n, MPI_Datatype t, void *out, int m, MPI_Datatype to, int root,
               MPI_Comm c) {
    COUNTED(GATHER, c, 0, PMPI_Gather(in, n, t, out, m, to, root, c));
}

int MPI_Gatherv(const void *in, int n, MPI_Datatype t, void *out, const int *counts, const int *at,
                MPI_Datatype to, int root, MPI_Comm c) {
    COUNTED(GATHERV, c, 0, PMPI_Gatherv(in, n, t, out, counts, at, to, root, c));
}

int MPI_Barrier(MPI_Comm c) {
    COUNTED(BARRIER, MPI_COMM_NULL, 0, PMPI_Barrier(c));
}

/* between two ranks: those of ScaLAPACK, which also broadcasts by them */
int MPI_Send(const void *a, int n, MPI_Datatype t, int to, int tag, MPI_Comm c) {
    COUNTED(SEND, MPI_COMM_NULL, 0, PMPI_Send(a, n, t, to, tag, c));
}

int MPI_Recv(void *a, int n, MPI_Datatype t, int from, int tag, MPI_Comm c, MPI_Status *st) {
    COUNTED(RECV, MPI_COMM_NULL, n * size_of(t), PMPI_Recv(a, n, t, from, tag, c, st));
}

int MPI_Finalize(void) {
    finish();
    return PMPI_Finalize();
}
