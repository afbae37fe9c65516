#include "cpu_blas.h"

const double cpu_one[2] = {1, 0}, cpu_minus_one[2] = {-1, 0};
static const float one_f[2] = {1, 0}, minus_one_f[2] = {-1, 0};

const void *cpu_scalar(backend_type t, int which) {
    bool wide = t == BACKEND_D || t == BACKEND_Z;
    if (which > 0)
        return wide ? (const void *)cpu_one : one_f;
    return wide ? (const void *)cpu_minus_one : minus_one_f;
}

static CBLAS_TRANSPOSE op(char trans) {
    return trans == 'N' ? CblasNoTrans : trans == 'T' ? CblasTrans : CblasConjTrans;
}
static CBLAS_SIDE side_of(char side) {
    return side == 'L' ? CblasLeft : CblasRight;
}
static CBLAS_UPLO uplo_of(char uplo) {
    return uplo == 'L' ? CblasLower : CblasUpper;
}
static double d(const void *x) {
    return *(const double *)x;
}
static float s(const void *x) {
    return *(const float *)x;
}

status cpu_fits(const char *name, int64_t a, int64_t b, int64_t c) {
    if (a <= CPU_PANEL && b <= CPU_PANEL && c <= CPU_PANEL)
        return MOAO_OK;
    return status_fail(MOAO_INPUT, "%s: a matrix has more than 2^30 rows or columns", name);
}

static bool is_zero(backend_type t, const void *x) {
    switch (t) {
    case BACKEND_D:
        return d(x) == 0;
    case BACKEND_S:
        return s(x) == 0;
    case BACKEND_Z:
        return d(x) == 0 && ((const double *)x)[1] == 0;
    default:
        return s(x) == 0 && ((const float *)x)[1] == 0;
    }
}

/* C := alpha op(A) op(B) + beta C of a few numbers, of which a call of BLAS takes ten times as
 * long. */
enum { FEW = 8 };
#define SMALL(name, real)                                                                          \
    static void name(bool ta, bool tb, int64_t m, int64_t n, int64_t k, real alpha, const real *a, \
                     int64_t lda, const real *b, int64_t ldb, real beta, real *c, int64_t ldc) {   \
        for (int64_t j = 0; j < n; j++)                                                            \
            for (int64_t i = 0; i < m; i++) {                                                      \
                real sum = 0, *to = c + i + j * ldc;                                               \
                for (int64_t e = 0; e < k; e++)                                                    \
                    sum += a[ta ? e + i * lda : i + e * lda] * b[tb ? j + e * ldb : e + j * ldb];  \
                *to = alpha * sum + (beta == 0 ? 0 : beta * *to);                                  \
            }                                                                                      \
    }
SMALL(small_d, double)
SMALL(small_s, float)
#undef SMALL

void cpu_gemm_panel(backend_type t, char ta, char tb, int64_t m, int64_t n, int64_t k,
                    const void *alpha, const void *a, int64_t lda, const void *b, int64_t ldb,
                    const void *beta, void *c, int64_t ldc) {
#define GEMM(x, al, be)                                                                            \
    cblas_##x##gemm(CblasColMajor, op(ta), op(tb), (int)m, (int)n, (int)k, al, a, (int)lda, b,     \
                    (int)ldb, be, c, (int)ldc)
    if (is_zero(t, alpha))
        k = 0; /* OpenBLAS's kernels for small matrices read A and B even then */
    const bool few = m <= FEW && n <= FEW && k <= FEW && m * n * k <= FEW;
    if (few && t == BACKEND_D) {
        small_d(ta != 'N', tb != 'N', m, n, k, d(alpha), a, lda, b, ldb, d(beta), c, ldc);
        return;
    }
    if (few && t == BACKEND_S) {
        small_s(ta != 'N', tb != 'N', m, n, k, s(alpha), a, lda, b, ldb, s(beta), c, ldc);
        return;
    }
    switch (t) {
    case BACKEND_D:
        GEMM(d, d(alpha), d(beta));
        break;
    case BACKEND_S:
        GEMM(s, s(alpha), s(beta));
        break;
    case BACKEND_Z:
        GEMM(z, alpha, beta);
        break;
    default:
        GEMM(c, alpha, beta);
    }
#undef GEMM
}

void cpu_tri_leaf(bool solve, backend_type t, char side, char uplo, char trans, char diag,
                  int64_t m, int64_t n, const void *alpha, const void *a, int64_t lda, void *b,
                  int64_t ldb) {
    const CBLAS_DIAG unit = diag == 'U' ? CblasUnit : CblasNonUnit;
#define TRI(f, al)                                                                                 \
    cblas_##f(CblasColMajor, side_of(side), uplo_of(uplo), op(trans), unit, (int)m, (int)n, al, a, \
              (int)lda, b, (int)ldb)
    switch (t) {
    case BACKEND_D:
        if (solve)
            TRI(dtrsm, d(alpha));
        else
            TRI(dtrmm, d(alpha));
        break;
    case BACKEND_S:
        if (solve)
            TRI(strsm, s(alpha));
        else
            TRI(strmm, s(alpha));
        break;
    case BACKEND_Z:
        if (solve)
            TRI(ztrsm, alpha);
        else
            TRI(ztrmm, alpha);
        break;
    default:
        if (solve)
            TRI(ctrsm, alpha);
        else
            TRI(ctrmm, alpha);
    }
#undef TRI
}

status cpu_symm(backend_ctx *ctx, backend_type t, char side, char uplo, int64_t m, int64_t n,
                const void *alpha, const void *a, int64_t lda, const void *b, int64_t ldb,
                const void *beta, void *c, int64_t ldc, void *work, size_t lwork) {
    (void)ctx, (void)work, (void)lwork;
    const status st = cpu_fits("symm", lda, ldb > ldc ? ldb : ldc, n);
    if (st != MOAO_OK || m == 0 || n == 0)
        return st;
    if (t == BACKEND_D)
        cblas_dsymm(CblasColMajor, side_of(side), uplo_of(uplo), (int)m, (int)n, d(alpha), a,
                    (int)lda, b, (int)ldb, d(beta), c, (int)ldc);
    else
        cblas_ssymm(CblasColMajor, side_of(side), uplo_of(uplo), (int)m, (int)n, s(alpha), a,
                    (int)lda, b, (int)ldb, s(beta), c, (int)ldc);
    return MOAO_OK;
}

status cpu_syrk(backend_ctx *ctx, backend_type t, char uplo, char trans, int64_t n, int64_t k,
                const void *alpha, const void *a, int64_t lda, const void *beta, void *c,
                int64_t ldc, void *work, size_t lwork) {
    (void)ctx, (void)work, (void)lwork;
    const status st = cpu_fits("syrk", lda, ldc, k);
    if (st != MOAO_OK || n == 0)
        return st;
    if (t == BACKEND_D)
        cblas_dsyrk(CblasColMajor, uplo_of(uplo), op(trans), (int)n, (int)k, d(alpha), a, (int)lda,
                    d(beta), c, (int)ldc);
    else
        cblas_ssyrk(CblasColMajor, uplo_of(uplo), op(trans), (int)n, (int)k, s(alpha), a, (int)lda,
                    s(beta), c, (int)ldc);
    return MOAO_OK;
}

status cpu_syr2k(backend_ctx *ctx, backend_type t, char uplo, char trans, int64_t n, int64_t k,
                 const void *alpha, const void *a, int64_t lda, const void *b, int64_t ldb,
                 const void *beta, void *c, int64_t ldc, void *work, size_t lwork) {
    (void)ctx, (void)work, (void)lwork;
    const status st = cpu_fits("syr2k", lda > ldb ? lda : ldb, ldc, k);
    if (st != MOAO_OK || n == 0)
        return st;
    if (t == BACKEND_D)
        cblas_dsyr2k(CblasColMajor, uplo_of(uplo), op(trans), (int)n, (int)k, d(alpha), a, (int)lda,
                     b, (int)ldb, d(beta), c, (int)ldc);
    else
        cblas_ssyr2k(CblasColMajor, uplo_of(uplo), op(trans), (int)n, (int)k, s(alpha), a, (int)lda,
                     b, (int)ldb, s(beta), c, (int)ldc);
    return MOAO_OK;
}
