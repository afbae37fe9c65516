/* Singular values of nearly square matrices of 65 to 512 rows and columns by rotations that begin
 * from eigenvectors, between svd_large.cu and svd_eigen.cu. */
#ifndef MOAO_GPU_SVD_EIGEN_CUH
#define MOAO_GPU_SVD_EIGEN_CUH
#include "svd_tall.cuh"

namespace lowrank {

constexpr int64_t EIGEN_MOST = 512; /* rows and columns */

/* Whether a call goes by these: in double precision, without a tolerance and without a limit of
 * sweeps, by sizes alone, so that a matrix has the same bits in every batch. cut: NULL where it is
 * not known. */
bool eigen_serves(backend_type t, const batch_cut *cut, int64_t m, int64_t n);

/* What is left to rotations alone: as lowrank_gesvj. */
struct EigenRest {
    size_t (*work)(backend_type t, int64_t count, int64_t m, int64_t n);
    status (*run)(cudaStream_t s, backend_type t, const SvdCall &call, void *work, size_t lwork);
};
size_t eigen_work(int64_t count, int64_t m, int64_t n, const EigenRest &rest);
status eigen_svd(cudaStream_t s, const SvdCall &call, const EigenRest &rest, void *work,
                 size_t lwork);

} // namespace lowrank
#endif
