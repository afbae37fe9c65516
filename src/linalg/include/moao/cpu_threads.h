/* Threads of BLAS where each thread of the caller makes products of its own. */
#ifndef MOAO_CPU_THREADS_H
#define MOAO_CPU_THREADS_H

/* Local, outside parallel regions. BLAS computes with one thread from here on, and its bits do not
 * depend on how many there are; returns how many it had, which moao_blas_together gives it back. */
int moao_blas_alone(void);
void moao_blas_together(int threads);

#endif
