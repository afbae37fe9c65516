/* Facts of the machine and of the libraries in use. */
#ifndef MOAO_MACHINE_H
#define MOAO_MACHINE_H

#include "comm.h"
#include <stddef.h>

/* Collective. Rate of dgemm on this rank while all ranks compute at once [flop/s]: the best of a
 * few products within about a third of a second. */
double machine_dgemm_rate(const comm *c);

/* Start the program anew with a kernel of OpenBLAS for this processor, where OpenBLAS does not know
 * the processor and took its oldest one (five times slower), unless the user chose one. Call first
 * in main, with its argv. */
void machine_choose_kernel(char **argv);

/* A sentence when the rate shows that OpenBLAS chose a kernel that is slow on this processor, else
 * NULL. Local. rate: of one rank with `threads` threads. */
const char *machine_blas_warning(double rate, int threads);

/* Resident memory of this process now, and at its peak [bytes]. Local. */
size_t machine_memory_now(void);
size_t machine_memory_peak(void);

/* Versions of MPI, BLAS (with the kernel in use), FFTW and cfitsio, one line each. Local; MPI need
 * not be initialised. */
void machine_print_versions(void);

#endif
