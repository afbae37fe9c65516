/* Products of matrices of 16-bit numbers for tensor cores, and the conversions around them. The
 * conventions of backend.h hold: column-major, int64_t sizes, work goes into the stream of the
 * context, nothing is allocated on a device and nothing waits, the same call gives the same bits.
 *
 * A number x is kept as the half (IEEE binary16: 11 significant bits, 2^-14 to 65504 in full
 * precision) nearest to 2^exponent x, ties to even; what exceeds the range becomes infinite, NaN
 * stays NaN. One exponent for a whole matrix is enough: with its largest entry near 2^15, entries
 * keep all 11 bits down to 2^-29 of that, and smaller ones are wrong by 2^-40 of it. */
#ifndef MOAO_BACKEND_FP16_H
#define MOAO_BACKEND_FP16_H

#include "backend.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef uint16_t moao_backend_f16; /* the bits of a half */
/* Exponent that brings numbers up to `bound` to at most 2^15; 0 for bounds that are 0 or not
 * finite. */
MOAO_PUBLIC int moao_backend_fp16_exponent(double bound);

/* *out = max |a_ij|, NaN where an entry is, 0 of nothing; types D, S. `out` lies in the backend's
 * memory. */
typedef moao_status moao_fp16_max_abs_op(moao_backend_ctx *ctx, moao_backend_type t, int64_t m,
                                         int64_t n, const void *a, int64_t lda, double *out);

/* H := FP16 numbers of 2^exponent A, m x n; A of type D or S, |exponent| <= 1000. */
typedef moao_status moao_fp16_cast_to_fp16_op(moao_backend_ctx *ctx, moao_backend_type t, int64_t m,
                                              int64_t n, int exponent, const void *a, int64_t lda,
                                              moao_backend_f16 *h, int64_t ldh);

/* C := alpha op(A) op(B) + beta C, C m x n in single precision, k the inner size; products are
 * exact and summed in single precision; op: N or T. alpha = 0 reads neither A nor B, beta = 0 not
 * C. */
typedef moao_status moao_fp16_gemm_op(moao_backend_ctx *ctx, char transa, char transb, int64_t m,
                                      int64_t n, int64_t k, float alpha, const moao_backend_f16 *a,
                                      int64_t lda, const moao_backend_f16 *b, int64_t ldb,
                                      float beta, float *c, int64_t ldc);

/* A factor of one product and one of another, and the most terms of its inner size whose sum is
 * made where it is fastest. */
typedef struct {
    const moao_backend_f16 *a, *b;
    int64_t depth;
} moao_fp16_product;
enum { MOAO_FP16_MOST_PRODUCTS = 3 };

/* C := alpha (op(A_1) op(B_1) + ... + op(A_count) op(B_count)) + beta C, as gemm, count 1 to
 * MOAO_FP16_MOST_PRODUCTS, all of one shape. Tensor cores cut off where they add up, so that long
 * sums drift towards 0 by some 5e-9 of themselves for each term (H200); here sums are made of parts
 * of at most p->depth terms, or of what a kernel takes at once (64) where that is more, which are
 * rounded to single precision as they are added. */
typedef moao_status moao_fp16_gemm_rounded_op(moao_backend_ctx *ctx, char transa, char transb,
                                              int64_t m, int64_t n, int64_t k, float alpha,
                                              int count, const moao_fp16_product *p, int64_t lda,
                                              int64_t ldb, float beta, float *c, int64_t ldc);

/* Y := alpha X + beta Y in double precision, X in single, m x n; beta = 0 does not read Y. */
typedef moao_status moao_fp16_cast_to_double_op(moao_backend_ctx *ctx, int64_t m, int64_t n,
                                                double alpha, const float *x, int64_t ldx,
                                                double beta, double *y, int64_t ldy);

/* y := x, n numbers in single precision to as many in double; of any alignment. */
typedef struct {
    const float *x;
    double *y;
    int64_t n;
} moao_fp16_piece;
/* Many pieces, whose list lies in the host's memory and has been read when it returns; what is
 * written does not overlap. For short ones, of which each takes less time than a call of its own.
 */
typedef moao_status moao_fp16_cast_pieces_op(moao_backend_ctx *ctx, int64_t count,
                                             const moao_fp16_piece *p);

/* Y := X in single precision, X in double, m x n. */
typedef moao_status moao_fp16_cast_to_single_op(moao_backend_ctx *ctx, int64_t m, int64_t n,
                                                const double *x, int64_t ldx, float *y,
                                                int64_t ldy);

/* A number in split FP16: H := FP16 numbers of 2^exponent A, R := FP16 numbers of what H leaves of
 * it, m x n, A of type D or S, |exponent| <= 1000. With the largest entry near 2^15, H + R is right
 * to 22 bits down to 2^-28 of that, and to 2^-40 of it further down. part: 'A' all; 'L' the lower
 * triangle, the upper one is not read and becomes 0. */
typedef moao_status moao_fp16_split_op(moao_backend_ctx *ctx, moao_backend_type t, char part,
                                       int64_t m, int64_t n, int exponent, const void *a,
                                       int64_t lda, moao_backend_f16 *h, int64_t ldh,
                                       moao_backend_f16 *r, int64_t ldr);

/* Y := 2^-exponent (H + R) in double precision, m x n: what split took apart. */
typedef moao_status moao_fp16_join_op(moao_backend_ctx *ctx, int64_t m, int64_t n, int exponent,
                                      const moao_backend_f16 *h, int64_t ldh,
                                      const moao_backend_f16 *r, int64_t ldr, double *y,
                                      int64_t ldy);

/* out[i + j ldo] := sum of the squares of the entries of tile (i, j) of A, m x n, in tiles of tile
 * x tile entries (what is left in the last ones); types D, S. Sums are in double precision; `out`
 * lies in the backend's memory. */
typedef moao_status moao_fp16_squares_op(moao_backend_ctx *ctx, moao_backend_type t, int64_t m,
                                         int64_t n, const void *a, int64_t lda, int64_t tile,
                                         double *out, int64_t ldo);

typedef struct moao_backend_fp16 {
    size_t size; /* sizeof(moao_backend_fp16) */
    moao_fp16_max_abs_op *max_abs;
    moao_fp16_cast_to_fp16_op *cast_to_fp16;
    moao_fp16_gemm_op *gemm;
    moao_fp16_gemm_rounded_op *gemm_rounded;
    moao_fp16_cast_to_double_op *cast_to_double;
    moao_fp16_cast_to_single_op *cast_to_single;
    moao_fp16_split_op *split;
    moao_fp16_join_op *join;
    moao_fp16_squares_op *squares;
    moao_fp16_cast_pieces_op *cast_pieces;
} moao_backend_fp16;

#ifdef __cplusplus
}
#endif
#endif
