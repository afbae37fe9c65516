/* Products of FP16 numbers on the tensor cores of a warp. With r = lane / 4 and q = 2 (lane % 4),
 * an element of a fragment of A (16 x 16) is its split FP16 e = 0, 1 of register i: row r + 8 (i %
 * 2), column q + e + 8 (i / 2); B (16 x 8): row q + e + 8 i, column r; C (16 x 8), of floats: row r
 * + 8 (i / 2), column q + i % 2. */
#ifndef MOAO_GPU_TOEPLITZ_TENSOR_CUH
#define MOAO_GPU_TOEPLITZ_TENSOR_CUH

#include <cuda_fp16.h>
#include <cuda_runtime.h>

typedef unsigned int fragment_b[2];

/* c += a b. */
__device__ inline void tensor_fp16(float *c, const uint4 &a, const unsigned int *b) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b[0]), "r"(b[1]));
}

/* Four matrices of 8 x 8 halves in shared memory, row i of matrix j at the address that lane 8 j +
 * i gives: a fragment of A, where matrix j has rows 8 (j % 2) and columns 8 (j / 2). */
__device__ inline uint4 load_rows(const uint4 *row) {
    uint4 a;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(a.x), "=r"(a.y), "=r"(a.z), "=r"(a.w)
                 : "r"((unsigned)__cvta_generic_to_shared(row))
                 : "memory");
    return a;
}

/* Four matrices of 8 x 8 halves in shared memory, transposed: row i of matrix j is at the address
 * that lane 8 j + i gives; of matrix j a lane gets rows q, q + 1 of column r. */
__device__ inline void load_transposed(unsigned int *to, const uint4 *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"((unsigned)__cvta_generic_to_shared(row))
                 : "memory");
}

/* 16 bytes in transit to shared memory. */
__device__ inline void fetch_async(uint4 *s, const uint4 *p) {
    asm volatile(
        "cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((unsigned)__cvta_generic_to_shared(s)),
        "l"(p)
        : "memory");
}

__device__ inline unsigned int two_fp16(float a, float b) {
    const __half2 h = __floats2half2_rn(a, b);
    return *(const unsigned int *)&h;
}

#endif
