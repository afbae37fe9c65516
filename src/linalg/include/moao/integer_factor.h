/* The Cholesky factor in double precision by integer tensor cores (moao/backend_integer.h). Works
 * with the table of any backend that has products by integers; local.
 *
 * Left-looking by block columns of `block` columns. Column j of blocks, rows i >= j:
 *
 *     A(i, j) -= L(i, 0:j) L(j, 0:j)'      by integers, the inner size j block
 *     A(j, j) = L(j, j) L(j, j)'           potrf
 *     L(i, j) = A(i, j) L(j, j)^-T         trsm
 *
 * and the residues of L(i, j) are stored for all products to come. Row i of L has the norm
 * sqrt(a_ii), so its scale is known before the first column. Sums of residues are exact: the bits
 * of L do not depend on who forms which product. */
#ifndef MOAO_INTEGER_FACTOR_H
#define MOAO_INTEGER_FACTOR_H

#include "backend_integer.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    int moduli;    /* integer_moduli(n, 0): as accurate as potrf */
    int64_t n;     /* order of A */
    int64_t block; /* columns of a block, a multiple of MOAO_INTEGER_STEP */
    bool above;    /* residues of eight moduli are stored above the diagonal of A, whose leading
                      dimension is even and which begins at a multiple of 16 bytes */
} moao_integer_factor_options;

/* The largest n is MOAO_INTEGER_DEPTH times 128; 0 moduli: `moduli` as accurate as potrf; blocks
 * that suit a GPU. */
MOAO_PUBLIC moao_integer_factor_options moao_integer_factor_defaults(int64_t n, bool above);
/* Bytes of work on the device: residues, `moduli` (less 8 if above) n^2 / 2 and a little, and what
 * products and triangles take. */
MOAO_PUBLIC size_t moao_integer_potrf_bytes(const moao_backend *be,
                                            const moao_integer_factor_options *o);
/* The lower triangle of A := L, A = L L'. What is above its diagonal is neither read nor written
 * unless o->above, else unspecified. Waits. *minor: 0; k > 0: the leading minor of order k is not
 * positive, as potrf of backend.h decides, and A is unspecified. MOAO_INPUT: an option is out of
 * range, or the backend has no products by integers. exponent: [n] on the device: those of the rows
 * of L, for solves. */
MOAO_PUBLIC moao_status moao_integer_potrf(const moao_backend *be, moao_backend_ctx *ctx,
                                           const moao_integer_factor_options *o, double *a,
                                           int64_t lda, int32_t *exponent, int64_t *minor,
                                           void *work, size_t lwork);

/* Entries that are formed when they are needed: form(of, j, n) stores A(j:, j:j+n), on and below
 * the diagonal, in another stream for which it makes ctx wait (wait_for), so that they are computed
 * while ctx updates the columns before. */
typedef struct {
    moao_status (*form)(void *of, int64_t j, int64_t n);
    void *of;
} moao_integer_columns;
/* The same of a matrix of which only the diagonal is stored beforehand. form is called once for
 * each block of columns, j increasing, after the operations of ctx on the columns before have been
 * enqueued; at j = 0 ctx reads the diagonal first. Its status is returned. NULL: as
 * moao_integer_potrf. */
MOAO_PUBLIC moao_status moao_integer_potrf_columns(const moao_backend *be, moao_backend_ctx *ctx,
                                                   const moao_integer_factor_options *o,
                                                   const moao_integer_columns *columns, double *a,
                                                   int64_t lda, int32_t *exponent, int64_t *minor,
                                                   void *work, size_t lwork);

/* Rows of a right-hand side and of the solution in its place: rows x n, leading dimension ld. */
typedef struct {
    int64_t rows;
    double *w;
    int64_t ld;
} moao_integer_solve_rows;

/* Bytes of work for solves of at most `rows` rows at a time: residues of a block column of L and of
 * the rows, moduli n (block + rows) at most, and what products and triangles take. With more, as
 * many blocks of rows as it holds are solved for together, and L becomes residues once for all of
 * them. */
MOAO_PUBLIC size_t moao_integer_solve_bytes(const moao_backend *be,
                                            const moao_integer_factor_options *o, int64_t rows);
/* Exponents for solves with fewer moduli than the factor had: those of the rows of L, less what
 * rows have to be smaller by. `of`: options of the factor; exponent: [of->n] on the device, its own
 * that become those for `moduli`. Waits. MOAO_INPUT: not 2 to of->moduli moduli. */
MOAO_PUBLIC moao_status moao_integer_exponents(const moao_backend *be, moao_backend_ctx *ctx,
                                               const moao_integer_factor_options *of, int moduli,
                                               int32_t *exponent);
/* W := W (L L')^-1 for each of `count` blocks of rows, L the lower triangle of l with the exponents
 * of its factor, or those for fewer moduli. Left-looking, with the residues of the solution so far
 * as the left operand: X(j) = (W(j) - X(0:j) L(j, 0:j)') L(j, j)^-T, then W(j) = (X(j) - W(j+1:)
 * L(j+1:, j)) L(j, j)^-1. Scales of rows of W follow the data; in the second product columns of W
 * and rows of L are scaled against each other by the exponents, so that measurements of any size
 * keep their digits. Returns before it has run. The bits of a row do not depend on the others.
 * MOAO_INPUT as moao_integer_potrf; `above` is of no account. */
MOAO_PUBLIC moao_status moao_integer_solve(const moao_backend *be, moao_backend_ctx *ctx,
                                           const moao_integer_factor_options *o, const double *l,
                                           int64_t lda, const int32_t *exponent, int count,
                                           const moao_integer_solve_rows *w, void *work,
                                           size_t lwork);

#ifdef __cplusplus
}
#endif
#endif
