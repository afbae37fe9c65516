#include "moao/fp16_gemm.h"

#include <math.h>

/* The small products first. What is cut off their sums does not count, so they may be longer. */
#define LONGER 8

status fp16_gemm_part(const backend *be, backend_ctx *ctx, fp16_products which, int64_t depth,
                      char ta, char tb, int64_t m, int64_t n, int64_t k, float alpha, fp16_pair a,
                      fp16_pair b, float beta, float *c, int64_t ldc) {
    const float scale = alpha * ldexpf(1, -a.exponent - b.exponent);
    const fp16_product all[] = {
        {a.lo, b.hi, depth * LONGER}, {a.hi, b.lo, depth * LONGER}, {a.hi, b.hi, depth}};
    const int first = which & FP16_OTHERS ? 0 : 2, end = which & FP16_FIRST ? 3 : 2;
    if (alpha != 0 && (!isnormal(scale) || depth < 1))
        return status_fail(MOAO_INPUT, "product in split FP16: exponents out of range");
    return be->fp16->gemm_rounded(ctx, ta, tb, m, n, k, scale, end - first, all + first, a.ld, b.ld,
                                  beta, c, ldc);
}

status fp16_gemm(const backend *be, backend_ctx *ctx, char transa, char transb, int64_t m,
                 int64_t n, int64_t k, float alpha, fp16_pair a, fp16_pair b, float beta, float *c,
                 int64_t ldc) {
    return fp16_gemm_part(be, ctx, FP16_ALL, FP16_DEPTH, transa, transb, m, n, k, alpha, a, b, beta,
                          c, ldc);
}
