/* Sums of products of bytes on the tensor cores, by the vendor's library. Both operands have their
 * inner index contiguous, the only layout that its fast kernels take. Moduli go one by one: in one
 * strided call they take a third longer, for the second-level cache then holds parts of all
 * (bench_integer bytes, bench/results/integer-h200.txt). */
#include "integer_gpu.h"

status integer_bytes_gemm(gpu_queue *q, const integer_bytes_call *c) {
    const int32_t one = 1, beta = c->more ? 1 : 0;
    for (int64_t t = 0; t < c->count; t++)
        BLAS_TRY(cublasGemmEx_64(q->blas, CUBLAS_OP_T, CUBLAS_OP_N, c->m, c->n, c->k, &one,
                                 c->a + t * c->sa, CUDA_R_8I, c->lda, c->b + t * c->sb, CUDA_R_8I,
                                 c->ldb, &beta, c->s + t * c->ss, CUDA_R_32I, c->lds,
                                 CUBLAS_COMPUTE_32I, CUBLAS_GEMM_DEFAULT));
    return MOAO_OK;
}
