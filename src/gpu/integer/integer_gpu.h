/* What products by integers give to the plugin's table. */
#ifndef MOAO_GPU_INTEGER_GPU_H
#define MOAO_GPU_INTEGER_GPU_H

#include "gpu/core/common.cuh"
#include "moao/backend_integer.h"

extern "C" const backend_integer backend_integer_gpu;

/* Sums of products of bytes: S[t] := A[t]' B[t] (+ S[t], if `more`), t < count; A k x m, B k x n, S
 * m x n, their numbers t apart by sa, sb, ss. m, k, all leading dimensions and sa, sb are multiples
 * of INTEGER_STEP. (integer_bytes.cu) */
struct integer_bytes_call {
    int64_t m, n, k, count;
    const int8_t *a, *b;
    int64_t lda, sa, ldb, sb;
    int32_t *s;
    int64_t lds, ss;
    bool more;
};
status integer_bytes_gemm(gpu_queue *q, const integer_bytes_call *c);

#endif
