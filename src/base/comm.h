/* The ranks of a run, what each may use of its node, and agreement on errors. */
#ifndef MOAO_COMM_H
#define MOAO_COMM_H

#include "moao/status.h"
#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct {
    MPI_Comm mpi; /* all ranks of the run */
    int rank, size;
    MPI_Comm node;            /* the ranks of this node */
    int node_rank, node_size; /* position and number of ranks on this node */
    int nnode;                /* number of nodes */
    int threads; /* BLAS and OpenMP threads of this rank: cores it may use / ranks that share them,
                    within the quota of a control group */
    size_t memory; /* bytes of the node's available memory / node_size, */
    size_t total;  /* and of what it has, or its control groups allow */
} comm;

/* Local, before MPI_Init. mpirun binds each rank to one core (or one socket) unless told otherwise,
 * which would leave the other cores idle: where the user asked for no binding policy, take back the
 * cores that the launcher itself may use. comm_init then divides them among the ranks of the node.
 */
void comm_unbind(void);

/* Collective. MPI_Init must have been called. Sets the number of BLAS and OpenMP threads, unless
 * the user's variables (OMP_NUM_THREADS, OPENBLAS_NUM_THREADS) say otherwise. */
status comm_init(MPI_Comm mpi, comm *c);
/* Local. The number of threads that the user asks for by OMP_NUM_THREADS (of a list its first),
 * else by OPENBLAS_NUM_THREADS; 0 where neither is a number above 0. */
int comm_threads_asked(void);
/* Local. A sentence where one of those variables has a value that is no such number, else NULL. */
const char *comm_threads_warning(void);
/* Collective. Twice is fine. */
void comm_free(comm *c);
/* Local. Use another number of BLAS and OpenMP threads. */
void comm_set_threads(comm *c, int threads);

/* Collective. MOAO_OK on every rank, or on every rank the worst status of those ranks that know a
 * reason; the message of the lowest of them ("rank 3: ...") is then every rank's. */
status comm_agree(const comm *c, status local);

/* Local. For long work between two calls of comm_agree: a rank whose part failed for good tells the
 * others before it waits for them there, and they end theirs when they find that one did. */
void comm_alarm(const comm *c);
bool comm_alarmed(const comm *c);

/* Local. Ends all ranks at once, with this rank's message: for failures inside work that the others
 * cannot leave before this rank takes part. */
_Noreturn void comm_abort(const comm *c);

/* Collective. rank 0's bytes on every rank; sums over the ranks, in place. Any number of them. */
void comm_bcast(const comm *c, void *data, size_t bytes);
void comm_sum(const comm *c, double *v, size_t count);

#endif
