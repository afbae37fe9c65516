/* What the files of the batched QR, SVD and low-rank routines give each other. The arguments of the
 * functions here have been checked, the context's device is the current one and count is positive;
 * each only enqueues kernels: no allocation, no wait. info and rank may be NULL. A matrix whose
 * sizes in `each` arrays are 0 costs next to nothing, so that callers drop matrices that way. */
#ifndef MOAO_GPU_LOWRANK_GPU_H
#define MOAO_GPU_LOWRANK_GPU_H
#include "moao/backend.h"
#include "moao/backend_lowrank.h"
#include <cuda_runtime.h>

/* Orthogonal factors (qr_tall.cu); as the entries of backend_lowrank of the same names. lwork is at
 * least lowrank_qr_work of one matrix. */
size_t lowrank_qr_work(backend_type t, int64_t count, int64_t m, int64_t n);
status lowrank_geqrf(cudaStream_t s, backend_type t, int64_t count, batch_dim m, batch_dim n,
                     batch_mat a, batch_mat tau, int *info);
status lowrank_orgqr(cudaStream_t s, backend_type t, int64_t count, batch_dim m, batch_dim n,
                     batch_dim k, batch_mat a, batch_mat tau);
status lowrank_ormqr(cudaStream_t s, backend_type t, char side, char trans, int64_t count,
                     batch_dim m, batch_dim n, batch_dim k, batch_mat a, batch_mat tau,
                     batch_mat c);
status lowrank_qr(cudaStream_t s, backend_type t, char job, int64_t count, batch_dim m, batch_dim n,
                  batch_mat a, batch_mat r, int *info, void *work, size_t lwork);

/* Singular values and vectors (svd_large.cu): rotate by rotations alone, gesvj by what is fastest
 * (svd_eigen.cuh). */
size_t lowrank_gesvj_work(backend_type t, int64_t count, int64_t m, int64_t n);
status lowrank_gesvj(cudaStream_t s, backend_type t, char jobu, char jobv, const batch_cut *cut,
                     int64_t count, batch_dim m, batch_dim n, batch_mat a, batch_mat sigma,
                     batch_mat u, batch_mat v, int64_t *rank, int *info, void *work, size_t lwork);
size_t lowrank_rotate_work(backend_type t, int64_t count, int64_t m, int64_t n);
status lowrank_rotate(cudaStream_t s, backend_type t, char jobu, char jobv, const batch_cut *cut,
                      int64_t count, batch_dim m, batch_dim n, batch_mat a, batch_mat sigma,
                      batch_mat u, batch_mat v, int64_t *rank, int *info, void *work, size_t lwork);

/* By rotations for the factors of a product, whose rows are of about one size: a tall one goes by
 * its QR with rows as they are, so that single values are accurate where A = B D2 only. */
size_t lowrank_factor_svd_work(backend_type t, int64_t count, int64_t m, int64_t n);
status lowrank_factor_svd(cudaStream_t s, backend_type t, char jobu, char jobv,
                          const batch_cut *cut, int64_t count, batch_dim m, batch_dim n,
                          batch_mat a, batch_mat sigma, batch_mat u, batch_mat v, int64_t *rank,
                          int *info, void *work, size_t lwork);

/* Values and right vectors V of square matrices A, as left vectors of A^T, which cost less. */
status lowrank_right_vectors(cudaStream_t s, backend_type t, const batch_cut *cut, int64_t count,
                             batch_dim n, batch_mat a, batch_mat sigma, batch_mat v, int64_t *rank,
                             int *info, void *work, size_t lwork);

/* Values and left vectors of A (transposed: of A^T, A square) as far as the cut keeps them, for
 * those who project on the span of these: errors are in proportion to the largest value (span.cu).
 */
size_t lowrank_span_work(backend_type t, int64_t count, int64_t m, int64_t n);
status lowrank_span(cudaStream_t s, backend_type t, bool transposed, const batch_cut *cut,
                    int64_t count, batch_dim m, batch_dim n, batch_mat a, batch_mat sigma,
                    batch_mat x, int64_t *rank, int *info, void *work, size_t lwork);

/* Sketches (sketch.cu) and recompression (recompress.cu). */
size_t lowrank_rsvd_work(backend_type t, int64_t count, int64_t m, int64_t n, int64_t k);
size_t lowrank_ara_work(backend_type t, int64_t count, int64_t m, int64_t n, int64_t k);
size_t lowrank_recompress_work(backend_type t, int64_t count, int64_t m, int64_t n, int64_t k);
status lowrank_rsvd(cudaStream_t s, backend_type t, char jobu, char jobv, const batch_cut *cut,
                    int64_t over, int power, uint64_t seed, int64_t count, batch_dim m, batch_dim n,
                    batch_mat a, batch_mat sigma, batch_mat u, batch_mat v, int64_t *rank,
                    int *info, void *work, size_t lwork);
status lowrank_ara(cudaStream_t s, backend_type t, char job, const batch_cut *cut, uint64_t seed,
                   int64_t count, batch_dim m, batch_dim n, batch_mat a, batch_mat u, batch_mat v,
                   int64_t *rank, int *info, void *work, size_t lwork);
status lowrank_recompress(cudaStream_t s, backend_type t, char job, const batch_cut *cut,
                          int64_t count, batch_dim m, batch_dim n, const void *beta, batch_dim k,
                          batch_mat u, batch_mat v, const void *alpha, batch_dim k2, batch_mat u2,
                          batch_mat v2, int64_t *rank, int *info, void *work, size_t lwork);

extern "C" const backend_lowrank backend_lowrank_gpu;

#endif
