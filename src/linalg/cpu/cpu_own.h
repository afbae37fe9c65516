/* The families of the CPU backend's own table (cpu.c). */
#ifndef MOAO_CPU_OWN_H
#define MOAO_CPU_OWN_H

#include "linalg/core/backend_own.h"
#include "moao/backend_integer.h"
#include "moao/backend_split.h"

extern const backend_batch batch_cpu;
extern const backend_complex complex_cpu;
extern complex_gesvj_op complex_cpu_gesvj; /* complex_svd.c */
extern const backend_fp16 fp16_cpu;
extern const backend_lowrank lowrank_cpu;
extern const backend_sparse sparse_cpu;
extern sparse_filter_op cpu_filter;
extern const struct backend_toeplitz toeplitz_cpu;
extern const struct backend_mapped mapped_cpu;
/* n FP16 numbers as floats. */
void fp16_cpu_floats(int64_t n, const backend_f16 *h, float *x);
extern const struct backend_hier hier_cpu;
extern const backend_integer integer_cpu;
extern const backend_split_ops split_cpu;
/* n numbers in single precision in split FP16: top, and what it leaves. */
status split_cpu_two_fp16(int64_t n, int exponent, const float *x, backend_f16 *top,
                          backend_f16 *rest);
extern split_exponent_op split_cpu_exponent; /* cpu_split_products.c */
extern split_take_op split_cpu_take;
extern split_pack_op split_cpu_pack;
extern split_sum_op split_cpu_sum;
extern split_halve_op split_cpu_halve;
size_t lowrank_cpu_workspace(batch_op o, backend_type t, int64_t count, int64_t m, int64_t n,
                             int64_t k);

#endif
