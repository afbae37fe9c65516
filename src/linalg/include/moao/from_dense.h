/* Compressed forms of a matrix that is there, in one call. a: n x n, column-major with leading
 * dimension lda, in the host's memory, in the caller's order; it is not kept. Local; they wait.
 * MOAO_INPUT: a size or an option is out of range; MOAO_NUMERIC: an entry is not finite (the
 * message names it). *out is NULL on failure. */
#ifndef MOAO_FROM_DENSE_H
#define MOAO_FROM_DENSE_H

#include "hier.h"
#include "tlr.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Symmetric, as moao_tlr_build; layout says how rows are ordered and cut (moao_tlr_layout_cloud
 * brings near rows together, moao_tlr_layout_plain keeps their order) and must outlive the matrix.
 * MOAO_INPUT: a_ij and a_ji differ by more than 64 units of rounding of the largest entry. */
MOAO_PUBLIC moao_status moao_tlr_from_dense(const moao_backend *be, moao_backend_ctx *ctx,
                                            const moao_tlr_layout *layout, const double *a,
                                            int64_t lda, const moao_tlr_options *o, moao_tlr **out);

/* A = L L^T of a symmetric tile low-rank matrix, with its options; where compression took its
 * positive pivots, with tau / 4 and tau / 16. moao_tlr_solve, moao_tlr_logdet, moao_tlr_save take
 * L. MOAO_INPUT: a is a factor or rectangular; MOAO_NUMERIC: not positive definite. */
MOAO_PUBLIC moao_status moao_tlr_potrf(const moao_tlr *a, moao_tlr **l);

/* B := A^-1 B, n x nrhs in the host's memory, A symmetric positive definite: compressed to tau (as
 * moao_tlr_from_dense), factored, solved. dim, at: coordinates of the rows, which order them; 0,
 * NULL: they stay in their order. The error is about tau times the norm of A^-1. MOAO_INPUT: an
 * argument is wrong; the message has its position, be being 1. B is as it was after a failure. */
MOAO_PUBLIC moao_status moao_tlr_posv(const moao_backend *be, moao_backend_ctx *ctx, int64_t n,
                                      int64_t nrhs, const double *a, int64_t lda, int dim,
                                      const double *at, double tau, double *b, int64_t ldb);

/* HSS, as moao_hier_open with options.kind and options.samples set here; symmetric or not. at:
 * host, coordinates at[dim i + d] of row (and column) i, by which rows are ordered; NULL, dim 0:
 * they stay in their order. At most 2^31 - 1 rows. */
MOAO_PUBLIC moao_status moao_hss_from_dense(const moao_backend *be, moao_backend_ctx *ctx,
                                            int64_t n, const double *a, int64_t lda, int dim,
                                            const double *at, const moao_hier_options *o,
                                            moao_hier **out);

#ifdef __cplusplus
}
#endif
#endif
