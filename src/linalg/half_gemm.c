#include "linalg/half_gemm.h"

#include <math.h>

status half_gemm_part(const backend *be, backend_ctx *ctx, half_products which, int64_t depth,
                      char ta, char tb, int64_t m, int64_t n, int64_t k, float alpha, half_pair a,
                      half_pair b, float beta, float *c, int64_t ldc) {
    const backend_half *half = be->half;
    const float scale = alpha * ldexpf(1, -a.exponent - b.exponent);
    status st = MOAO_OK;
    if (alpha != 0 && (!isnormal(scale) || depth < 1))
        return status_fail(MOAO_INPUT, "product of split halves: exponents out of range");
    if (k == 0)
        return half->gemm(ctx, ta, tb, m, n, 0, 0, a.hi, a.ld, b.hi, b.ld, beta, c, ldc);
    for (int64_t j = 0; j < k; j += depth) {
        const int64_t w = k - j < depth ? k - j : depth;
        const int64_t i = ta == 'N' ? j * a.ld : j, l = tb == 'N' ? j : j * b.ld;
        /* the small ones first */
        if (which & HALF_OTHERS) {
            TRY(half->gemm(ctx, ta, tb, m, n, w, scale, a.lo + i, a.ld, b.hi + l, b.ld, beta, c,
                           ldc));
            TRY(half->gemm(ctx, ta, tb, m, n, w, scale, a.hi + i, a.ld, b.lo + l, b.ld, 1, c, ldc));
            beta = 1;
        }
        if (which & HALF_FIRST)
            TRY(half->gemm(ctx, ta, tb, m, n, w, scale, a.hi + i, a.ld, b.hi + l, b.ld, beta, c,
                           ldc));
        beta = 1;
    }
done:
    return st;
}

status half_gemm(const backend *be, backend_ctx *ctx, char transa, char transb, int64_t m,
                 int64_t n, int64_t k, float alpha, half_pair a, half_pair b, float beta, float *c,
                 int64_t ldc) {
    return half_gemm_part(be, ctx, HALF_ALL, HALF_DEPTH, transa, transb, m, n, k, alpha, a, b, beta,
                          c, ldc);
}
