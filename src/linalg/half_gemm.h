/* Products of matrices that are kept in two halves each (split of backend_half.h), on any backend:
 * of 22 bits, at the price of three products of halves. */
#ifndef MOAO_HALF_GEMM_H
#define MOAO_HALF_GEMM_H

#include "backend/backend.h"

/* A matrix 2^-exponent (hi + lo), both with the same leading dimension; borrowed. */
typedef struct {
    const backend_f16 *hi, *lo;
    int64_t ld;
    int exponent;
} half_pair;

/* Where a tensor core adds up it cuts off, so that long sums drift towards 0 (gemm_rounded of
 * backend_half.h); a product is made of pieces of this inner size, whose sum is rounded. A kernel
 * of the GPU's own has short pieces at no price. (To make all products larger by what is lost in
 * the mean was tried: sums of both signs lose less, and W became worse.) */
#define HALF_DEPTH ((int64_t)256)

/* C := alpha op(A) op(B) + beta C in single precision, C m x n, k the inner size: hi hi, hi lo and
 * lo hi. The exponents are undone. In stream order, no workspace, as the operations of backend.h.
 */
status half_gemm(const backend *be, backend_ctx *ctx, char transa, char transb, int64_t m,
                 int64_t n, int64_t k, float alpha, half_pair a, half_pair b, float beta, float *c,
                 int64_t ldc);

/* The part of it that is wanted: one product (hi hi) or the two others. */
typedef enum { HALF_FIRST = 1, HALF_OTHERS = 2, HALF_ALL = 3 } half_products;
status half_gemm_part(const backend *be, backend_ctx *ctx, half_products which, int64_t depth,
                      char transa, char transb, int64_t m, int64_t n, int64_t k, float alpha,
                      half_pair a, half_pair b, float beta, float *c, int64_t ldc);

#endif
