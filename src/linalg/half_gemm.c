#include "linalg/half_gemm.h"

#include <math.h>

#define FEWER 8 /* pieces of the products with second halves are that much longer */
#define BLOCK ((int64_t)8 << 20) /* entries of C that a GPU's second-level cache keeps */

/* What a product with some columns of C is made of. */
typedef struct {
    const backend *be;
    backend_ctx *ctx;
    char ta, tb;
    int64_t m, n, k;
    float scale;
} job;

/* C := scale op(A) op(B) + beta C, in pieces of the inner size. */
static status pieces(const job *p, int64_t depth, const backend_f16 *a, int64_t lda,
                     const backend_f16 *b, int64_t ldb, float beta, float *c, int64_t ldc) {
    status st = MOAO_OK;
    for (int64_t j = 0, n; j < p->k && st == MOAO_OK; j += n) {
        n = p->k - j < depth ? p->k - j : depth;
        st = p->be->half->gemm(p->ctx, p->ta, p->tb, p->m, p->n, n, p->scale,
                               a + (p->ta == 'N' ? j * lda : j), lda,
                               b + (p->tb == 'N' ? j : j * ldb), ldb, j > 0 ? 1 : beta, c, ldc);
    }
    return st;
}

/* The small products first. What is cut off their sums does not count: fewer pieces. */
static status columns(const job *p, half_products which, int64_t depth, half_pair a, half_pair b,
                      float beta, float *c, int64_t ldc) {
    status st = MOAO_OK;
    if (which & HALF_OTHERS) {
        TRY(pieces(p, depth * FEWER, a.lo, a.ld, b.hi, b.ld, beta, c, ldc));
        TRY(pieces(p, depth * FEWER, a.hi, a.ld, b.lo, b.ld, 1, c, ldc));
        beta = 1;
    }
    if (which & HALF_FIRST)
        st = pieces(p, depth, a.hi, a.ld, b.hi, b.ld, beta, c, ldc);
done:
    return st;
}

status half_gemm_part(const backend *be, backend_ctx *ctx, half_products which, int64_t depth,
                      char ta, char tb, int64_t m, int64_t n, int64_t k, float alpha, half_pair a,
                      half_pair b, float beta, float *c, int64_t ldc) {
    job p = {be, ctx, ta, tb, m, n, k, alpha * ldexpf(1, -a.exponent - b.exponent)};
    const int64_t some = m > 0 ? BLOCK / m / 256 * 256 : 0, block = some > 256 ? some : 256;
    status st = MOAO_OK;
    if (alpha != 0 && (!isnormal(p.scale) || depth < 1))
        return status_fail(MOAO_INPUT, "product of split halves: exponents out of range");
    if (k == 0)
        return be->half->gemm(ctx, ta, tb, m, n, 0, 0, a.hi, a.ld, b.hi, b.ld, beta, c, ldc);
    for (int64_t j = 0, w; j < n && st == MOAO_OK; j += w) {
        const int64_t at = tb == 'N' ? j * b.ld : j;
        const half_pair part = {b.hi + at, b.lo + at, b.ld, b.exponent};
        w = k <= depth || n - j < block ? n - j : block; /* one piece: all at once */
        p.n = w;
        st = columns(&p, which, depth, a, part, beta, c + j * ldc, ldc);
    }
    return st;
}

status half_gemm(const backend *be, backend_ctx *ctx, char transa, char transb, int64_t m,
                 int64_t n, int64_t k, float alpha, half_pair a, half_pair b, float beta, float *c,
                 int64_t ldc) {
    return half_gemm_part(be, ctx, HALF_ALL, HALF_DEPTH, transa, transb, m, n, k, alpha, a, b, beta,
                          c, ldc);
}
