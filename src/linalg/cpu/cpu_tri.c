/* trsm and trmm over OpenBLAS: recursion into gemm where it wins, OpenBLAS's own below. */
#include "cpu_blas.h"
#include <string.h>

/* Order of the triangle under which OpenBLAS solves and multiplies by itself. */
#define LEAF 256

status cpu_gemm(backend_ctx *ctx, backend_type t, char transa, char transb, int64_t m, int64_t n,
                int64_t k, const void *alpha, const void *a, int64_t lda, const void *b,
                int64_t ldb, const void *beta, void *c, int64_t ldc, void *work, size_t lwork) {
    (void)ctx, (void)work, (void)lwork;
    const status st = cpu_fits("gemm", lda, ldb, ldc);
    if (st != MOAO_OK)
        return st;
    for (int64_t j = 0; m > 0 && j < n; j += CPU_PANEL) {
        int64_t cols = n - j < CPU_PANEL ? n - j : CPU_PANEL;
        cpu_gemm_panel(t, transa, transb, m, cols, k, alpha, a, lda,
                       cpu_at(t, b, transb == 'N' ? 0 : j, transb == 'N' ? j : 0, ldb), ldb, beta,
                       cpu_at(t, c, 0, j, ldc), ldc);
    }
    return MOAO_OK;
}

typedef struct {
    backend_type t;
    bool solve;
    char side, uplo, trans, diag;
    int64_t lda, ldb;
} tri;

/* B_target := beta B_target + sign * alpha op(off) B_source (side L; side R: the factors swapped).
 */
static void off_diagonal(const tri *p, int64_t target, int64_t source, int64_t other,
                         const void *alpha, const void *off, const void *from, const void *beta,
                         void *to) {
    if (p->side == 'L')
        cpu_gemm_panel(p->t, p->trans, 'N', target, other, source, alpha, off, p->lda, from, p->ldb,
                       beta, to, p->ldb);
    else
        cpu_gemm_panel(p->t, 'N', p->trans, other, target, source, alpha, from, p->ldb, off, p->lda,
                       beta, to, p->ldb);
}

static void recurse(const tri *p, int64_t n, int64_t other, const void *alpha, const void *a,
                    void *b) {
    const backend_type t = p->t;
    if (n <= LEAF) {
        cpu_tri_leaf(p->solve, t, p->side, p->uplo, p->trans, p->diag, p->side == 'L' ? n : other,
                     p->side == 'L' ? other : n, alpha, a, p->lda, b, p->ldb);
        return;
    }
    const int64_t n1 = backend_split(n, LEAF), n2 = n - n1;
    const void *a2 = cpu_at(t, a, n1, n1, p->lda);
    const void *off = p->uplo == 'L' ? cpu_at(t, a, n1, 0, p->lda) : cpu_at(t, a, 0, n1, p->lda);
    void *b2 = p->side == 'L' ? cpu_at(t, b, n1, 0, p->ldb) : cpu_at(t, b, 0, n1, p->ldb);
    const bool first = backend_source_first(p->side, p->uplo, p->trans);
    const int64_t ns = first ? n1 : n2, nt = first ? n2 : n1;
    const void *as = first ? a : a2, *at = first ? a2 : a;
    void *bs = first ? b : b2, *bt = first ? b2 : b;
    if (p->solve) {
        recurse(p, ns, other, alpha, as, bs);
        off_diagonal(p, nt, ns, other, cpu_scalar(t, -1), off, bs, alpha, bt);
        recurse(p, nt, other, cpu_scalar(t, 1), at, bt);
    } else {
        recurse(p, nt, other, alpha, at, bt);
        off_diagonal(p, nt, ns, other, alpha, off, bs, cpu_scalar(t, 1), bt);
        recurse(p, ns, other, alpha, as, bs);
    }
}

static status run(const tri *p, int64_t m, int64_t n, const void *alpha, const void *a, void *b,
                  const char *name) {
    const status st = cpu_fits(name, p->lda, p->ldb, 0);
    if (st != MOAO_OK || m == 0 || n == 0)
        return st;
    if (backend_equals(p->t, alpha, 0)) {
        for (int64_t j = 0; j < n; j++)
            memset(cpu_at(p->t, b, 0, j, p->ldb), 0, (size_t)m * backend_size(p->t));
        return MOAO_OK;
    }
    if (p->side == 'R')
        recurse(p, n, m, alpha, a, b);
    for (int64_t j = 0; p->side == 'L' && j < n; j += CPU_PANEL)
        recurse(p, m, n - j < CPU_PANEL ? n - j : CPU_PANEL, alpha, a,
                cpu_at(p->t, b, 0, j, p->ldb));
    return MOAO_OK;
}

status cpu_trsm(backend_ctx *ctx, backend_type t, char side, char uplo, char trans, char diag,
                int64_t m, int64_t n, const void *alpha, const void *a, int64_t lda, void *b,
                int64_t ldb, void *work, size_t lwork) {
    (void)ctx, (void)work, (void)lwork;
    return run(&(tri){t, true, side, uplo, trans, diag, lda, ldb}, m, n, alpha, a, b, "trsm");
}

status cpu_trmm(backend_ctx *ctx, backend_type t, char side, char uplo, char trans, char diag,
                int64_t m, int64_t n, const void *alpha, const void *a, int64_t lda, void *b,
                int64_t ldb, void *work, size_t lwork) {
    (void)ctx, (void)work, (void)lwork;
    return run(&(tri){t, false, side, uplo, trans, diag, lda, ldb}, m, n, alpha, a, b, "trmm");
}
