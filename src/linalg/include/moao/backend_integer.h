/* Products in double precision by integer tensor cores: C := alpha A B' + beta C from products of
 * signed bytes (Ozaki, Uchino & Imamura 2025, "Ozaki scheme II: a GEMM-oriented emulation of
 * floating-point matrix multiplication using an integer modular technique", arXiv:2504.08009).
 *
 * Row i of A and row j of B are scaled by powers of two, their exponents, and rounded to integers
 * whose Euclidean norms are at most T. So |sum over l of a'_il b'_jl| <= T^2 < M / 2 by
 * Cauchy-Schwarz, where M is the product of `moduli` pairwise coprime p <= 256. Both operands are
 * stored as residues modulo each p, a signed byte each. Products of bytes are summed in 32 bits,
 * which is exact up to an inner size of MOAO_INTEGER_DEPTH, and reduced modulo p; the Chinese
 * remainder theorem gives the sum in double precision. Nothing but the rounding of the operands
 * and of the result is inexact: the bits do not depend on the order of the sum, nor on how the
 * inner size, rows or columns of a product are divided.
 *
 * Residues are computed once and serve many products: one byte for each number and modulus. What
 * rows are known to be beforehand gives their scale (scale_squares): a row of a Cholesky factor
 * has the norm of the square root of the matrix' diagonal.
 *
 * Operands may have any values. A row with a NaN or an infinity, or one whose entries exceed what
 * its exponent allows, is marked and gives NaN wherever it enters. The conventions of backend.h
 * hold; matrices are in double precision. */
#ifndef MOAO_BACKEND_INTEGER_H
#define MOAO_BACKEND_INTEGER_H

#include "backend.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    MOAO_INTEGER_MODULI = 15,       /* of a product, 2 to this many */
    MOAO_INTEGER_DEPTH = 131072,    /* inner size whose sums of bytes are exact in 32 bits */
    MOAO_INTEGER_STEP = 16,         /* residues of a row are stored up to a multiple of this, */
    MOAO_INTEGER_ROWS = 16,         /* and rows of an operand can be read up to one of this */
    MOAO_INTEGER_SPARE = 1,         /* bits by which a row may grow before it is converted anew */
    MOAO_INTEGER_BAD = -2147483647, /* exponent of a marked row */
};
#define MOAO_INTEGER_LONGEST ((int64_t)1 << 24) /* inner size of a product */

/* Largest error of a product of inner size k, in units of |a_i| |b_j| (Euclidean norms of the
 * rows): 2 sqrt(k) / T and the rounding of the result. That of random operands is some sqrt(k)
 * times smaller. NaN where an argument is out of range. */
MOAO_PUBLIC double moao_integer_error(int moduli, int64_t k);
/* Moduli whose largest error is at most `tolerance`; of 0: those that keep all 53 bits of the
 * largest entries, 14, which is as accurate as a product in double precision. 0: there are none. */
MOAO_PUBLIC int moao_integer_moduli(int64_t k, double tolerance);

/* Residues of rows: that of entry l of row i modulo the t-th p at r[0][t step[0] + i ld[0] + l]
 * where t < first, else at r[1][(t - first) step[1] + i ld[1] + l]. ld, step and the places of r
 * are multiples of MOAO_INTEGER_STEP. exponent: [rows] entries are a_il = 2^-exponent a'_il. */
typedef struct {
    int8_t *r[2];
    int64_t ld[2], step[2];
    int first;
    int32_t *exponent;
} moao_integer_rows;

/* Bytes of the residues of m rows of k numbers in one array, and the array as rows. */
static inline int64_t moao_integer_ld(int64_t k) {
    return (k + MOAO_INTEGER_STEP - 1) / MOAO_INTEGER_STEP * MOAO_INTEGER_STEP;
}
static inline size_t moao_integer_bytes(int moduli, int64_t m, int64_t k) {
    return (size_t)(moduli * moao_integer_ld(k) * moao_integer_ld(m));
}
static inline moao_integer_rows moao_integer_plain(int moduli, int64_t m, int64_t k, int8_t *r,
                                                   int32_t *exponent) {
    moao_integer_rows x = {{r, NULL}, {0, 0}, {0, 0}, moduli, exponent};
    x.ld[0] = moao_integer_ld(k);
    x.step[0] = x.ld[0] * moao_integer_ld(m);
    return x;
}

/* Rows that become residues: those of op(A) D, op(A) m x k (trans N: A is m x k; T: k x m), D
 * diagonal with d_l = 2^(sign inner[l]), sign 1 or -1; NULL: D = I. Products of A D and B D^-1 are
 * those of A and B: where the entries of A and B differ in size from column to column, inner keeps
 * the digits of the small ones. */
typedef struct {
    char trans;
    int64_t m, k;
    const double *a;
    int64_t lda;
    const int32_t *inner; /* [k] in the backend's memory, at most 400 in modulus, */
    int sign;
    const int32_t *span; /* NULL, or [2 m] in the backend's memory: of row i, entries span[2 i] up
                            to span[2 i + 1] are converted, multiples of MOAO_INTEGER_STEP or k */
} moao_integer_matrix;

/* Exponents of the rows for products of `moduli` and an inner size of at most `longest`. work: 16
 * bytes for each row. */
typedef moao_status moao_integer_scale_op(moao_backend_ctx *ctx, int moduli, int64_t longest,
                                          const moao_integer_matrix *a, int32_t *exponent,
                                          void *work, size_t lwork);
/* The same of rows whose sums of squares are at most square[i inc]; what is not positive marks its
 * row. */
typedef moao_status moao_integer_scale_squares_op(moao_backend_ctx *ctx, int moduli,
                                                  int64_t longest, int64_t m, const double *square,
                                                  int64_t inc, int32_t *exponent);
/* Rows whose entries become known block by block, and whose residues are stored: a row is converted
 * anew only where its norm has outgrown its exponent. exponent: of the residues, [m], and span, [2
 * m], of what has to be converted now; the others belong to the operation. */
typedef struct {
    int32_t *exponent, *span, *unit;
    double *sum; /* of squares, at most, in units of the limit times 2^(-2 unit) */
} moao_integer_growth;
/* `a` has the new entries of the rows; `before` entries of each are stored already (0: the first
 * block), and the new ones follow them or, front, precede them. An exponent has MOAO_INTEGER_SPARE
 * bits more than its row needs at first. `longest`: inner size at the end; work as of scale. */
typedef moao_status moao_integer_extend_op(moao_backend_ctx *ctx, int moduli, int64_t longest,
                                           const moao_integer_matrix *a, int64_t before, bool front,
                                           const moao_integer_growth *g, void *work, size_t lwork);
/* Residues of the rows, with exponents that are there; zeros up to the next multiple of
 * MOAO_INTEGER_STEP. Rows that do not fit their exponents are marked. */
typedef moao_status moao_integer_convert_op(moao_backend_ctx *ctx, int moduli,
                                            const moao_integer_matrix *a,
                                            const moao_integer_rows *rows);

/* C := alpha A B' + beta C, A m x k, B n x k as rows of residues with the same `first`. part A: all
 * of C; L: its lower triangle (m = n), the rest is neither read nor written. depth: inner size
 * after which sums are reduced, a multiple of MOAO_INTEGER_STEP; 0: MOAO_INTEGER_DEPTH. */
typedef struct {
    int moduli;
    char part;
    int64_t m, n, k;
    double alpha, beta;
    moao_integer_rows a, b;
    double *c;
    int64_t ldc, depth;
} moao_integer_product;
/* work: workspace(moduli, m, n) bytes, or fewer: at least those of 16 rows and columns. */
typedef moao_status moao_integer_gemm_op(moao_backend_ctx *ctx, const moao_integer_product *p,
                                         void *work, size_t lwork);

typedef struct moao_backend_integer {
    size_t size; /* sizeof(moao_backend_integer) */
    size_t (*workspace)(int moduli, int64_t m, int64_t n);
    moao_integer_scale_op *scale;
    moao_integer_scale_squares_op *scale_squares;
    moao_integer_extend_op *extend;
    moao_integer_convert_op *convert;
    moao_integer_gemm_op *gemm;
} moao_backend_integer;

#ifdef __cplusplus
}
#endif
#endif
