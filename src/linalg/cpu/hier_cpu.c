/* The operations of formats on the CPU: the specification, OpenMP over the batch. */
#include "cpu_own.h"
#include "linalg/core/hier_kernels_formula.h"
#include "moao/backend_hier.h"
#include <math.h>
#include <omp.h>
#include <stdlib.h>

#define REAL double
#define NAME(x) x##_d
#define ROOT sqrt
#define SQUARE_LEAST FORMATS_SQUARE_LEAST_D
#include "hier_cpu_real.h"
#undef REAL
#undef NAME
#undef ROOT
#undef SQUARE_LEAST
#define REAL float
#define NAME(x) x##_s
#define ROOT sqrtf
#define SQUARE_LEAST FORMATS_SQUARE_LEAST_S
#include "hier_cpu_real.h"

static int64_t size_of(batch_dim d, int64_t b) {
    const int64_t n = d.each ? d.each[b] : d.n;
    return n < 0 || n > d.n ? 0 : n;
}
static void *matrix_of(batch_mat m, backend_type t, int64_t b) {
    return m.ptrs ? m.ptrs[b] : (char *)m.base + b * m.stride * (int64_t)backend_size(t);
}

static status sums(backend_ctx *ctx, backend_type t, char side, const hier_gemm_sums *s,
                   int64_t nvec, double alpha, const hier_operand x[HIER_OPERANDS], double beta,
                   void *y, int64_t ldy) {
    (void)ctx;
#pragma omp parallel for schedule(dynamic)
    for (int64_t b = 0; b < s->count; b++)
        if (t == BACKEND_D)
            one_sum_d(s, b, side == 'L', nvec, alpha, x, beta, y, ldy);
        else
            one_sum_s(s, b, side == 'L', nvec, (float)alpha, x, (float)beta, y, ldy);
    return MOAO_OK;
}

static status chain(backend_ctx *ctx, backend_type t, char side, const hier_fused *c, int64_t nvec,
                    const hier_operand x[HIER_OPERANDS], void *y, int64_t ldy) {
    return hier_fused_lists(sums, ctx, t, side, c, nvec, x, y, ldy);
}

static status id(backend_ctx *ctx, backend_type t, int64_t count, batch_dim m, batch_dim n,
                 batch_mat a, double tol, int round, int64_t most, int *order, batch_mat u,
                 int64_t *rank, int *info) {
    void *norm = NULL;
    status st;
    (void)ctx;
    if (m.n > BATCH_ORTH_MAX || n.n > BATCH_ORTH_MAX)
        return status_fail(MOAO_INPUT,
                           "interpolative decomposition of more than %d rows or columns",
                           BATCH_ORTH_MAX);
    TRY(mem_alloc(&norm, (unsigned long)(n.n * omp_get_max_threads()), sizeof(double),
                  "norms of columns"));
#pragma omp parallel for schedule(dynamic)
    for (int64_t b = 0; b < count; b++) {
        void *own = (char *)norm + n.n * omp_get_thread_num() * (int64_t)sizeof(double);
        const int64_t mb = size_of(m, b), nb = size_of(n, b), lda = a.lds ? a.lds[b] : a.ld,
                      ldu = u.lds ? u.lds[b] : u.ld;
        int *o = order + b * n.n;
        rank[b] = t == BACKEND_D ? decompose_d(mb, nb, matrix_of(a, t, b), lda, tol, round, most, o,
                                               matrix_of(u, t, b), ldu, own, info + b)
                                 : decompose_s(mb, nb, matrix_of(a, t, b), lda, tol, round, most, o,
                                               matrix_of(u, t, b), ldu, own, info + b);
    }
done:
    free(norm);
    return st;
}

/* Column j of block b. */
static void entries_of_column(backend_type t, const hier_function *f, int dim, const double *x,
                              const double *y, const hier_blocks *blocks, int64_t b, int64_t j) {
    const batch_mat a = blocks->a;
    const int64_t m = size_of(blocks->m, b), ld = a.lds ? a.lds[b] : a.ld;
    const int64_t si = blocks->turned ? ld : 1, sj = blocks->turned ? 1 : ld;
    const int q = blocks->cols[b][j];
    void *to = matrix_of(a, t, b);
    for (int64_t i = 0; i < m; i++) {
        const int p = blocks->rows[b][i];
        const double v =
            hier_kernel_value(f, dim, x + (int64_t)dim * p, y + (int64_t)dim * q, p == q);
        if (t == BACKEND_D)
            ((double *)to)[i * si + j * sj] = v;
        else
            ((float *)to)[i * si + j * sj] = (float)v;
    }
}

static status entries(backend_ctx *ctx, backend_type t, const hier_function *f, int dim,
                      const double *x, const double *y, const hier_blocks *blocks) {
    const int64_t columns = blocks->count == 1 ? size_of(blocks->n, 0) : 0;
    (void)ctx;
#pragma omp parallel for schedule(dynamic, 8)
    for (int64_t j = 0; j < columns; j++)
        entries_of_column(t, f, dim, x, y, blocks, 0, j);
    if (blocks->count == 1)
        return MOAO_OK;
#pragma omp parallel for schedule(dynamic)
    for (int64_t b = 0; b < blocks->count; b++) {
        const int64_t n = size_of(blocks->n, b);
        for (int64_t j = 0; j < n; j++)
            entries_of_column(t, f, dim, x, y, blocks, b, j);
    }
    return MOAO_OK;
}

static status chebyshev(backend_ctx *ctx, backend_type t, int dim, int order, int64_t count,
                        batch_dim m, const double *const *points, const double *box, batch_mat u) {
    (void)ctx;
#pragma omp parallel for schedule(dynamic)
    for (int64_t b = 0; b < count; b++) {
        const int64_t rows = size_of(m, b), ld = u.lds ? u.lds[b] : u.ld;
        const double *low = box + 6 * b, *high = low + 3;
        void *to = matrix_of(u, t, b);
        for (int64_t i = 0; i < rows; i++) {
            double p[3][16];
            int64_t columns = 1;
            for (int d = 0; d < dim; d++, columns *= order)
                for (int a = 0; a < order; a++)
                    p[d][a] = hier_lagrange(order, a, low[d], high[d], points[b][i * dim + d]);
            for (int64_t a = 0; a < columns; a++) {
                double v = 1;
                for (int64_t d = 0, rest = a; d < dim; d++, rest /= order)
                    v *= p[d][rest % order];
                if (t == BACKEND_D)
                    ((double *)to)[i + a * ld] = v;
                else
                    ((float *)to)[i + a * ld] = (float)v;
            }
        }
    }
    return MOAO_OK;
}

const backend_hier hier_cpu = {.size = sizeof(backend_hier),
                               .sums = sums,
                               .chain = chain,
                               .id = id,
                               .entries = entries,
                               .chebyshev = chebyshev};
