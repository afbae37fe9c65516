/* Operations of a backend on which the compressed formats of a matrix stand
 * (linalg/include/moao/hier.h): sums of small products, which one level of a tree is; choice of the
 * rows that span a block; entries of a kernel at points. The conventions of backend.h and
 * moao_backend_batch.h hold; types D and S. */
#ifndef MOAO_BACKEND_HIER_H
#define MOAO_BACKEND_HIER_H

#include "backend_batch.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One product of a sum: op(A), m x k, times rows row .. row + k of operand `from`. */
typedef struct {
    const void *a; /* in the backend's memory */
    int64_t row;   /* first row (side R: column) of the operand */
    int32_t lda, k;
    int32_t from, trans; /* which operand; 1: op(A) is A transposed */
} moao_hier_gemm_term;

/* One block of rows of the result: rows row .. row + m := alpha sum of terms first .. first + terms
 * of the list, + beta times what is there. */
typedef struct {
    int64_t row;
    int32_t m, terms;
    int64_t first;
} moao_hier_gemm_sum;

/* Sums that can be formed at the same time: none writes what another reads or writes. Arrays lie in
 * the backend's memory; most: the largest m. */
typedef struct {
    int64_t count, most;
    const moao_hier_gemm_sum *sum;   /* [count] */
    const moao_hier_gemm_term *term; /* all terms of all sums */
    int64_t inner; /* the largest sum over a sum's terms of k rounded up to 8; 0: not known */
} moao_hier_gemm_sums;

/* A dense operand with a row for each row of the format: element (i, j), i < rows of the format and
 * j < nvec, lies at p[i + j ld] (side L) or at p[j + i ld] (side R). */
typedef struct {
    const void *p;
    int64_t ld;
} moao_hier_operand;
#define MOAO_HIER_OPERANDS 4

/* Y := sums, nvec columns (side L) or rows (side R). beta = 0 does not read Y. The order of a sum
 * does not depend on the values or on where a sum is in the list: the bits of Y repeat. For another
 * nvec, or as part of another list, a backend may add up in another order. */
typedef moao_status moao_hier_gemm_sums_op(moao_backend_ctx *ctx, moao_backend_type t, char side,
                                           const moao_hier_gemm_sums *s, int64_t nvec, double alpha,
                                           const moao_hier_operand x[MOAO_HIER_OPERANDS],
                                           double beta, void *y, int64_t ldy);

/* Binary trees of sums, several levels at once. Going up, sum i of a list has results of sums 2 i
 * and 2 i + 1 of the list before among its operands, going down results of sum i / 2: its terms of
 * operand `from` are these and nothing else. In the first list operand `from` is as any other.
 * Lists are whole, with sums of no rows where a tree has no node. */
#define MOAO_HIER_FUSED 3
typedef struct {
    int levels; /* 2 .. MOAO_HIER_FUSED */
    bool down;
    int from;      /* the operand that has the results */
    int64_t count; /* trees */
    moao_hier_gemm_sums
        level[MOAO_HIER_FUSED]; /* up: count 2^(levels - 1 - i) sums, down: count 2^i */
} moao_hier_fused;

/* Y := the sums of each list in turn, with x[from].p = y and x[from].ld = ldy. Results of lists
 * that go down need not be stored but for those of the last one. The bits of Y repeat; they may
 * differ from those of moao_hier_gemm_sums_op. */
typedef moao_status moao_hier_fused_op(moao_backend_ctx *ctx, moao_backend_type t, char side,
                                       const moao_hier_fused *c, int64_t nvec,
                                       const moao_hier_operand x[MOAO_HIER_OPERANDS], void *y,
                                       int64_t ldy);

/* The same list by list. */
static inline moao_status moao_hier_fused_lists(moao_hier_gemm_sums_op *sums, moao_backend_ctx *ctx,
                                                moao_backend_type t, char side,
                                                const moao_hier_fused *c, int64_t nvec,
                                                const moao_hier_operand x[MOAO_HIER_OPERANDS],
                                                void *y, int64_t ldy) {
    moao_status st = MOAO_OK;
    for (int l = 0; l < c->levels && st == MOAO_OK; l++)
        st = sums(ctx, t, side, &c->level[l], nvec, 1, x, 0, y, ldy);
    return st;
}

/* Interpolative decomposition of the columns of each matrix: A ~ A(:, J) U^T, by QR with column
 * pivoting (Householder; the first of equal norms), cut before the first column whose remainder has
 * a norm of at most tol, or at `most`; a rank that is no multiple of `round` goes on to the next
 * one unless remainders are below 1e-3 tol. A, m x n, is overwritten. order: n.n indices for each
 * matrix, its n columns, J first; u: n x rank, its rows J are the identity. rank, info as in
 * moao_backend_lowrank.h (-3: cut by `most`). m and n at most MOAO_BATCH_ORTH_MAX; no workspace.
 * Squares neither overflow nor underflow: a matrix is scaled by a power of two first. */
typedef moao_status moao_hier_id_op(moao_backend_ctx *ctx, moao_backend_type t, int64_t count,
                                    moao_batch_dim m, moao_batch_dim n, moao_batch_mat a,
                                    double tol, int round, int64_t most, int *order,
                                    moao_batch_mat u, int64_t *rank, int *info);

/* Functions of two points. */
typedef enum {
    MOAO_HIER_CAUCHY,      /* 1 / (x - y), 1 where x = y; one coordinate */
    MOAO_HIER_EXPONENTIAL, /* exp(-|x - y| / length) */
    MOAO_HIER_GAUSSIAN,    /* exp(-|x - y|^2 / (2 length^2)) */
    MOAO_HIER_POWERED,     /* exp(-(|x - y| / length)^shape) */
    MOAO_HIER_MATERN,      /* Matern's of smoothness nu = shape (moao/gp.h), d = |x - y| / length */
} moao_hier_kernel;

/* A kernel with its parameters: variance times the function above, and the nugget where a point
 * meets itself (its number in the lists is the same). Lengths of several dimensions are in the
 * coordinates already, which are divided by them. */
typedef struct {
    moao_hier_kernel kernel;
    double length, shape, variance, nugget;
    /* MATERN, but for a shape of 0.5, 1.5 or 2.5: values at log(sqrt(2 nu) d) = first, first +
     * 0.01,
     * ..., `steps` of them, in the backend's memory */
    const double *table;
    int64_t steps;
    double first;
} moao_hier_function;

/* Blocks of entries: block b is m_b x n_b, entry (i, j) belongs to point rows[b][i] of x and point
 * cols[b][j] of y. rows and cols: arrays of pointers, they and the lists in the backend's memory.
 */
typedef struct {
    int64_t count;
    moao_batch_dim m, n;
    const int *const *rows, *const *cols;
    moao_batch_mat a;
    bool turned; /* blocks are stored transposed, n x m */
} moao_hier_blocks;

/* Coordinates x[dim p + d] of point p, in the backend's memory; dim 1 to 3. */
typedef moao_status moao_hier_entries_op(moao_backend_ctx *ctx, moao_backend_type t,
                                         const moao_hier_function *f, int dim, const double *x,
                                         const double *y, const moao_hier_blocks *blocks);

/* Lagrange polynomials on Chebyshev nodes: of matrix b, m_b x order^dim, entry (i, a) is the
 * polynomial that is 1 at node a of box b, at point i of the list points[b] (coordinates as above).
 * box: low and high of each dimension, [count][2][3], in the backend's memory. Node a of an axis:
 * the middle plus half the width times cos(pi (2 a + 1) / (2 order)); the first axis runs fastest.
 * order at most 16. */
typedef moao_status moao_hier_chebyshev_op(moao_backend_ctx *ctx, moao_backend_type t, int dim,
                                           int order, int64_t count, moao_batch_dim m,
                                           const double *const *points, const double *box,
                                           moao_batch_mat u);

typedef struct moao_backend_hier {
    size_t size; /* sizeof(moao_backend_hier) */
    moao_hier_gemm_sums_op *sums;
    moao_hier_fused_op *chain;
    moao_hier_id_op *id;
    moao_hier_entries_op *entries;
    moao_hier_chebyshev_op *chebyshev;
} moao_backend_hier;

#ifdef __cplusplus
}
#endif
#endif
