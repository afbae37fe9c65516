/* Operands of products of halves in one to three terms: a number in two halves is x = h + r (split
 * of backend_half.h), and
 *
 *     x y = h_x h_y  [+ h_x r_y  [+ r_x h_y]]
 *
 * with what is left out. A left operand holds its columns as h, h, r, one after another, a right
 * one as h, r, h, so that one product of halves over the longer inner extent adds up all terms. One
 * term keeps 11 bits of both; two keep 22 bits of the right operand; three keep 22 bits of both,
 * about what single precision does. |exponent| is at most 126. The conventions of backend.h hold.
 * Indices lie in the backend's memory and are not looked at; what is written twice in a call is
 * unspecified. */
#ifndef MOAO_BACKEND_TERMS_H
#define MOAO_BACKEND_TERMS_H

#include "backend_half.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A column of a left operand: column `from` of X, or, where from < 0, column -1 - from of Y;
 * its terms to columns to, to + step, to + 2 step of H. */
typedef struct {
    int64_t from, to, step;
} terms_column;

/* A block of a right operand: rows x cols numbers, column-major without gaps, at `from`; term t of
 * entry (i, j) to place to + t step + i + j ld of H. */
typedef struct {
    int64_t from, rows, cols, to, ld, step;
} terms_block;

/* `n` columns of 2^exponent X and Y, m numbers each, in single precision, into H. X and Y have the
 * same exponent; either may be NULL where no column comes from it. */
typedef status terms_columns_op(backend_ctx *ctx, int terms, int64_t m, int64_t n,
                                const terms_column *list, int exponent, const float *x, int64_t ldx,
                                const float *y, int64_t ldy, backend_f16 *h, int64_t ldh);

/* `n` blocks of 2^exponent X of at most `most` numbers each into H. */
typedef status terms_blocks_op(backend_ctx *ctx, int terms, int64_t n, const terms_block *list,
                               int64_t most, int exponent, const float *x, backend_f16 *h);

typedef struct backend_terms {
    size_t size; /* sizeof(backend_terms) */
    terms_columns_op *columns;
    terms_blocks_op *blocks;
} backend_terms;

#ifdef __cplusplus
}
#endif
#endif
