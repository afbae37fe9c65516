/* Products of matrices that are kept in split FP16 (split of moao_backend_fp16.h), on any backend:
 * of 22 bits, at the price of three products of FP16 numbers. */
#ifndef MOAO_FP16_GEMM_H
#define MOAO_FP16_GEMM_H

#include "backend.h"

/* A matrix 2^-exponent (hi + lo), both with the same leading dimension; borrowed. */
typedef struct {
    const moao_backend_f16 *hi, *lo;
    int64_t ld;
    int exponent;
} moao_fp16_pair;

/* Where a tensor core adds up it cuts off, so that long sums drift towards 0 (gemm_rounded of
 * moao_backend_fp16.h); a product is made of pieces of this inner size, whose sum is rounded. A
 * kernel of the GPU's own has short pieces at no price. (To make all products larger by what is
 * lost in the mean was tried: sums of both signs lose less, and W became worse.) */
#define MOAO_FP16_DEPTH ((int64_t)256)

/* C := alpha op(A) op(B) + beta C in single precision, C m x n, k the inner size: hi hi, hi lo and
 * lo hi. The exponents are undone. In stream order, no workspace, as the operations of backend.h.
 */
moao_status moao_fp16_gemm(const moao_backend *be, moao_backend_ctx *ctx, char transa, char transb,
                           int64_t m, int64_t n, int64_t k, float alpha, moao_fp16_pair a,
                           moao_fp16_pair b, float beta, float *c, int64_t ldc);

/* The part of it that is wanted: one product (hi hi) or the two others. */
typedef enum { MOAO_FP16_FIRST = 1, MOAO_FP16_OTHERS = 2, MOAO_FP16_ALL = 3 } moao_fp16_products;
moao_status moao_fp16_gemm_part(const moao_backend *be, moao_backend_ctx *ctx,
                                moao_fp16_products which, int64_t depth, char transa, char transb,
                                int64_t m, int64_t n, int64_t k, float alpha, moao_fp16_pair a,
                                moao_fp16_pair b, float beta, float *c, int64_t ldc);

#endif
