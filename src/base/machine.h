/* Facts of the machine and of the libraries in use. */
#ifndef MOAO_MACHINE_H
#define MOAO_MACHINE_H

#include "comm.h"
#include "gpu_models.h"
#include "moao/backend.h"
#include <stddef.h>

/* Start the program anew where the libraries, which read their variables as they are loaded, need
 * others than they have: a kernel of OpenBLAS for this processor where it does not know the
 * processor and took its oldest one (five times slower), and, for a program that computes, threads
 * that do not spin while they wait. What the user has set stays. Call first in main, with its argv.
 */
void machine_prepare(char **argv, bool computes);
/* Set the variables that make threads sleep while they wait: those of OpenMP and of OpenBLAS wait
 * in turns, and where they spin they take the cores from one another and from other programs (5 s
 * instead of 1.5 s were seen for a small case). Whether any was changed. */
bool machine_wait_quietly(void);

/* Warns of what makes this process slower than its machine: a kernel of OpenBLAS for older
 * processors, a variable with no number of threads in it. Local. */
void machine_warn(void);

/* Resident memory of this process now, and at its peak [bytes]. Local. */
size_t machine_memory_now(void);
size_t machine_memory_peak(void);

/* What a run has to compute with: its ranks, and their devices. */
typedef struct {
    int nrank, nnode, threads; /* threads of a rank */
    double rate;               /* dgemm of a rank while all compute [flop/s] */
    size_t available;          /* bytes that a rank may use in all, as much as is free now, */
    size_t total;              /* and where nothing else runs: what formats are chosen by */
    size_t base;        /* bytes the program and its libraries take before any array is allocated */
    size_t peak;        /* bytes at the peak so far */
    bool devices;       /* each rank has one; else all work on the same panels */
    bool host;          /* devices are the ranks' processors: this is their memory, */
    bool own;           /* as there is no GPU, for a form that asks for devices */
    const backend *be;  /* of the devices; NULL: the machine is another one, or has none */
    int sharing;        /* ranks of a node on one device, at most */
    double device_free; /* bytes free on the fullest device, */
    double device_memory;   /* and that the smallest one has */
    double device_rate;     /* dgemm of one, 0: a guess [flop/s] */
    const gpu_model *model; /* which they are; NULL: not known, taken for the reference */
    char text[320]; /* the device of this rank; without one: what is missing, "" when the user
                       wanted none */
} machine;

/* Collective. Measures the ranks and their host, without devices (job/device.h); limit: bytes that
 * a rank may use, 0: 85 % of its share of the node's free memory, or of what its own limits
 * (ulimit) leave. The least available and the most in use of all ranks. measure: dgemm's rate, in a
 * third of a second, or, for what takes less itself, in a fiftieth. */
typedef enum { MACHINE_NO_RATE, MACHINE_QUICK_RATE, MACHINE_RATE } machine_rate;
machine machine_measure(const comm *c, double limit, machine_rate measure);

/* Versions of the libraries in use. Local; MPI need not be initialised. */
typedef struct {
    char mpi[MPI_MAX_LIBRARY_VERSION_STRING], cfitsio[16];
    const char *blas, *blas_kernel, *fftw;
} machine_versions;
void machine_get_versions(machine_versions *v);

#endif
