/* The families of the CPU backend's own table (cpu.c). */
#ifndef MOAO_CPU_OWN_H
#define MOAO_CPU_OWN_H

#include "backend/backend_own.h"
#include "backend/backend_terms.h"

extern const backend_batch batch_cpu;
extern const backend_half half_cpu;
extern const backend_lowrank lowrank_cpu;
extern const backend_sparse sparse_cpu;
extern sparse_filter_op cpu_filter;
extern const struct backend_toeplitz toeplitz_cpu;
/* n halves as floats. */
void half_cpu_floats(int64_t n, const backend_f16 *h, float *x);
extern const struct backend_formats formats_cpu;
extern const backend_terms terms_cpu;
/* n numbers in single precision in two halves: top, and what it leaves. */
status terms_cpu_two_halves(int64_t n, int exponent, const float *x, backend_f16 *top,
                            backend_f16 *rest);
extern terms_exponent_op terms_cpu_exponent; /* cpu_terms_products.c */
extern terms_take_op terms_cpu_take;
extern terms_pack_op terms_cpu_pack;
extern terms_sum_op terms_cpu_sum;
extern terms_halve_op terms_cpu_halve;
size_t lowrank_cpu_workspace(batch_op o, backend_type t, int64_t count, int64_t m, int64_t n,
                             int64_t k);

#endif
