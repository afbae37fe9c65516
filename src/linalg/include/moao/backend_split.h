/* Operands of products of FP16 numbers in several terms: a number in split FP16 is x = h + r (split
 * of moao_backend_fp16.h), and
 *
 *     x y = h_x h_y  [+ h_x r_y  [+ r_x h_y]]
 *
 * with what is left out. An operand holds its columns in an order of parts, such as "hrh": all h,
 * then all r, then all h again. Where the other one has "rhh", one product of FP16 numbers over the
 * longer inner extent adds up all three terms, the largest last: tensor cores cut off what does not
 * fit within a sum, at every step. One term keeps 11 bits of both, "hh" by "rh" 22 bits of the
 * second, "hrh" by "rhh" 22 bits of both. |exponent| is at most 126. The conventions of backend.h
 * hold. Lists lie in the backend's memory and are not looked at; what is written twice in a call is
 * unspecified. */
#ifndef MOAO_BACKEND_SPLIT_H
#define MOAO_BACKEND_SPLIT_H

#include "backend_fp16.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A column of a left operand: column `from` of X, or, where from < 0, column -1 - from of Y;
 * its parts to columns to, to + step, to + 2 step of H. */
typedef struct {
    int64_t from, to, step;
} moao_split_column;

/* A block of a right operand: rows x cols numbers, column-major without gaps, at `from`; part t of
 * entry (i, j) to place to + t step + i + j ld of H. */
typedef struct {
    int64_t from, rows, cols, to, ld, step;
} moao_split_block;

/* parts: one to three letters h and r. `n` columns of 2^exponent X and Y, m numbers each, in single
 * precision, into H. X and Y have the same exponent; either may be NULL where no column comes from
 * it. */
typedef moao_status moao_split_columns_op(moao_backend_ctx *ctx, const char *parts, int64_t m,
                                          int64_t n, const moao_split_column *list, int exponent,
                                          const float *x, int64_t ldx, const float *y, int64_t ldy,
                                          moao_backend_f16 *h, int64_t ldh);

/* `n` blocks of 2^exponent X of at most `most` numbers each into H. */
typedef moao_status moao_split_blocks_op(moao_backend_ctx *ctx, const char *parts, int64_t n,
                                         const moao_split_block *list, int64_t most, int exponent,
                                         const float *x, moao_backend_f16 *h);

/* A run of `count` numbers from `at` of X on, and where they are kept: kept >= 0: in single
 * precision, from S[kept] on; else in FP16, from H[-1 - kept] on. */
typedef struct {
    int64_t at, count, kept;
} moao_split_run;

/* `n` runs of at most `most` numbers: X in single precision to S and to H, FP16 numbers of
 * 2^exponent X; and back, 2^-exponent H, which is exact. What is not in a run is neither read nor
 * written. */
typedef moao_status moao_split_narrow_op(moao_backend_ctx *ctx, int64_t n,
                                         const moao_split_run *list, int64_t most, int exponent,
                                         const float *x, float *s, moao_backend_f16 *h);
typedef moao_status moao_split_widen_op(moao_backend_ctx *ctx, int64_t n,
                                        const moao_split_run *list, int64_t most, int exponent,
                                        const float *s, const moao_backend_f16 *h, float *x);

/* A block of X, rows x cols numbers, its columns ld apart, at `from`. */
typedef struct {
    int64_t from, rows, cols, ld, to;
} moao_split_part;

/* out[to + j] := sum of the squares of column j of each of `n` blocks of at most `most` columns, in
 * double precision; out lies in the backend's memory. */
typedef moao_status moao_split_squares_op(moao_backend_ctx *ctx, int64_t n,
                                          const moao_split_part *list, int64_t most,
                                          const double *x, double *out);

/* --- many products at once, the results of which have few columns each ---
 *
 * Operands are columns of FP16 numbers, or of split FP16 of each number: first all upper parts,
 * then all rests. A, whose columns are long, has exponents that lie in the backend's memory, so
 * that nobody waits for the largest entry. */

/* *bound := the larger of it and *most, NaN where one is (most NULL: as it is); *out := the
 * exponent that brings numbers up to factor times that to 2^15, at most MOAO_SPLIT_EXPONENT in
 * modulus.
 */
typedef moao_status moao_split_exponent_op(moao_backend_ctx *ctx, const double *most, double *bound,
                                           double factor, int32_t *out);
enum { MOAO_SPLIT_EXPONENT = 60 };

/* H := FP16 numbers of 2^*exponent X, m x n; of two parts, what they leave to columns from `step`
 * on. */
typedef moao_status moao_split_take_op(moao_backend_ctx *ctx, int parts, int64_t m, int64_t n,
                                       const int32_t *exponent, const float *x, int64_t ldx,
                                       int64_t step, moao_backend_f16 *h, int64_t ldh);

/* Where a column of a result goes: upper parts to column `to`, rests to column to + step. */
typedef struct {
    int32_t to, step;
} moao_split_place;

/* rows x cols numbers without gaps, where a run has them (moao_split_run), to columns from `to` on
 * of B, rests to those from to + step on (parts: 2; not of numbers that are kept in FP16); zeros in
 * the rows below. Where place.to >= 0, column to + j of the list of places is {place.to + j,
 * place.step}. */
typedef struct {
    int64_t kept;
    int32_t rows, cols, to, step, parts;
    moao_split_place place;
} moao_split_pack;

/* `n` of these: 2^exponent S, and H as it is, to B of ldb rows, an even number. */
typedef moao_status moao_split_pack_op(moao_backend_ctx *ctx, int64_t n,
                                       const moao_split_pack *list, int exponent, const float *s,
                                       const moao_backend_f16 *h, moao_backend_f16 *b, int64_t ldb,
                                       moao_split_place *places);

/* A part of the sum that is a result, of columns of A and a block of B: scale 2^-exponent[of]
 * [2^-exponent[of_b], of_b >= 0] times the sum over c < inner of
 *
 *     down: A(:, a + c) B(row + c, b + j)      else: A(:, a + c) B(row + j, b + c)
 *
 * for column j of the result. What of B lies beyond `inner` up to the next multiple of
 * MOAO_SPLIT_STEP is there, and 0 where A has a column; such columns of A are finite. */
typedef struct {
    int32_t a, b, row, inner, down, of, of_b;
    float scale; /* a power of two, or its negative */
} moao_split_segment;

/* A result of 1 to MOAO_SPLIT_WIDEST columns: the sum of segments first .. first + segments, in
 * this order. The sum so far is kept in units of one's scale, and has to be in the range of single
 * precision in those of the next one's. */
typedef struct {
    int32_t first, segments, cols, to;
    int32_t parts; /* of moao_split_halve_op: parts of each number that are written, 1 or 2 */
} moao_split_task;

enum { MOAO_SPLIT_STEP = 64, MOAO_SPLIT_WIDEST = 256 };

/* m: rows of A and of results. Lists and exponents lie in the backend's memory. */
typedef struct {
    int64_t m, count;
    const moao_split_task *task;
    const moao_split_segment *segment;
    const int32_t *exponent;
    const moao_backend_f16 *a, *b;
    int64_t lda, a_cols, ldb, b_cols;
} moao_split_products;

/* C(:, to + j) := column j of each task's result, or (add) += that; C of c_cols columns, none of
 * which belongs to two tasks. */
typedef moao_status moao_split_sum_op(moao_backend_ctx *ctx, const moao_split_products *p, bool add,
                                      float *c, int64_t ldc, int64_t c_cols);

/* FP16 parts of column j of each task's result times 2^*exponent, as place[to + j] says. H may lie
 * within A where no task reads what is written. */
typedef moao_status moao_split_halve_op(moao_backend_ctx *ctx, const moao_split_products *p,
                                        const int32_t *exponent, const moao_split_place *place,
                                        moao_backend_f16 *h, int64_t ldh);

typedef struct moao_backend_split_ops {
    size_t size; /* sizeof(moao_backend_split_ops) */
    moao_split_columns_op *columns;
    moao_split_blocks_op *blocks;
    moao_split_narrow_op *narrow;
    moao_split_widen_op *widen;
    moao_split_squares_op *squares;
    moao_split_exponent_op *exponent;
    moao_split_take_op *take;
    moao_split_pack_op *pack;
    moao_split_sum_op *sum;
    moao_split_halve_op *halve;
} moao_backend_split_ops;

#ifdef __cplusplus
}
#endif
#endif
