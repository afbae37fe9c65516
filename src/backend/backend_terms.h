/* Operands of products of halves in several terms: a number in two halves is x = h + r (split of
 * backend_half.h), and
 *
 *     x y = h_x h_y  [+ h_x r_y  [+ r_x h_y]]
 *
 * with what is left out. An operand holds its columns in an order of parts, such as "hrh": all h,
 * then all r, then all h again. Where the other one has "rhh", one product of halves over the
 * longer inner extent adds up all three terms, the largest last: tensor cores cut off what does not
 * fit beside a sum, at every step. One term keeps 11 bits of both, "hh" by "rh" 22 bits of the
 * second, "hrh" by "rhh" 22 bits of both. |exponent| is at most 126. The conventions of backend.h
 * hold. Lists lie in the backend's memory and are not looked at; what is written twice in a call is
 * unspecified. */
#ifndef MOAO_BACKEND_TERMS_H
#define MOAO_BACKEND_TERMS_H

#include "backend_half.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A column of a left operand: column `from` of X, or, where from < 0, column -1 - from of Y;
 * its parts to columns to, to + step, to + 2 step of H. */
typedef struct {
    int64_t from, to, step;
} terms_column;

/* A block of a right operand: rows x cols numbers, column-major without gaps, at `from`; part t of
 * entry (i, j) to place to + t step + i + j ld of H. */
typedef struct {
    int64_t from, rows, cols, to, ld, step;
} terms_block;

/* parts: one to three letters h and r. `n` columns of 2^exponent X and Y, m numbers each, in single
 * precision, into H. X and Y have the same exponent; either may be NULL where no column comes from
 * it. */
typedef status terms_columns_op(backend_ctx *ctx, const char *parts, int64_t m, int64_t n,
                                const terms_column *list, int exponent, const float *x, int64_t ldx,
                                const float *y, int64_t ldy, backend_f16 *h, int64_t ldh);

/* `n` blocks of 2^exponent X of at most `most` numbers each into H. */
typedef status terms_blocks_op(backend_ctx *ctx, const char *parts, int64_t n,
                               const terms_block *list, int64_t most, int exponent, const float *x,
                               backend_f16 *h);

/* A run of `count` numbers from `at` of X on, and where they are kept: kept >= 0: in single
 * precision, from S[kept] on; else as halves, from H[-1 - kept] on. */
typedef struct {
    int64_t at, count, kept;
} terms_run;

/* `n` runs of at most `most` numbers: X in single precision to S and to H, halves of 2^exponent X;
 * and back, 2^-exponent H, which is exact. What is not in a run is neither read nor written. */
typedef status terms_narrow_op(backend_ctx *ctx, int64_t n, const terms_run *list, int64_t most,
                               int exponent, const float *x, float *s, backend_f16 *h);
typedef status terms_widen_op(backend_ctx *ctx, int64_t n, const terms_run *list, int64_t most,
                              int exponent, const float *s, const backend_f16 *h, float *x);

/* A block of X, rows x cols numbers, its columns ld apart, at `from`. */
typedef struct {
    int64_t from, rows, cols, ld, to;
} terms_part;

/* out[to + j] := sum of the squares of column j of each of `n` blocks of at most `most` columns, in
 * double precision; out lies in the backend's memory. */
typedef status terms_squares_op(backend_ctx *ctx, int64_t n, const terms_part *list, int64_t most,
                                const double *x, double *out);

/* --- many products at once, results of which have few columns each --- */

/* A part of the sum that is a result, as columns of A and a block of B, whose columns are ldb
 * apart: scale times the sum over c < inner of
 *
 *     down: A(:, a + c) B(row + c, b + j)      else: A(:, a + c) B(row + j, b + c)
 *
 * for column j of the result. What of B lies beyond `inner` up to the next multiple of TERMS_STEP
 * is there, and 0 where A has a column; such columns of A are finite. */
typedef struct {
    int32_t a, b, row, inner, down;
    float scale; /* a power of two, or its negative */
} terms_segment;

/* A result of 1 to TERMS_WIDEST columns: the sum of segments first .. first + segments, whose
 * scales have one sign and moduli that do not fall. */
typedef struct {
    int32_t first, segments, cols, to;
    int32_t parts; /* of terms_halve: halves of each number that are written, 1 or 2 */
} terms_task;

enum { TERMS_STEP = 64, TERMS_WIDEST = 256 };

/* m: rows of A and of results. Lists lie in the backend's memory. */
typedef struct {
    int64_t m, count;
    const terms_task *task;
    const terms_segment *segment;
    const backend_f16 *a, *b;
    int64_t lda, a_cols, ldb, b_cols;
} terms_products;

/* Where a column of a result goes: its halves to column `to`, what they leave to column to + step.
 */
typedef struct {
    int32_t to, step;
} terms_place;

/* C(:, to + j) += column j of each task's result. No column belongs to two tasks. */
typedef status terms_add_op(backend_ctx *ctx, const terms_products *p, float *c, int64_t ldc);

/* Halves of column j of each task's result, as place[to + j] says. Where H lies within A, no task
 * reads what is written. */
typedef status terms_halve_op(backend_ctx *ctx, const terms_products *p, const terms_place *place,
                              backend_f16 *h, int64_t ldh);

typedef struct backend_terms {
    size_t size; /* sizeof(backend_terms) */
    terms_columns_op *columns;
    terms_blocks_op *blocks;
    terms_narrow_op *narrow;
    terms_widen_op *widen;
    terms_squares_op *squares;
    terms_add_op *add;
    terms_halve_op *halve;
} backend_terms;

#ifdef __cplusplus
}
#endif
#endif
