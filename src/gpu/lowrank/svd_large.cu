/* Batched singular value decomposition: which kernels a call needs. */
#include "gpu/batch/batch_gpu.h"
#include "lowrank_gpu.h"
#include "svd_core.cuh"
#include "svd_eigen.cuh"
#include "svd_matrix.cuh"
#include "svd_tall.cuh"
#include "svd_warp.cuh"

namespace lowrank {

namespace {

constexpr int WARP_MAX = 32; /* rows and columns of a matrix that a warp works on */

/* Blocks of svd_core.cuh that are there at once. */
int64_t core_slots(int most, int64_t count) {
    const int64_t blocks = batch::resident(svd_core_blocks(most));
    return count < blocks ? count : blocks;
}

template <class T>
status svd(cudaStream_t st, char jobu, char jobv, const batch_cut *cut, int64_t count, batch_dim m,
           batch_dim n, batch_mat a, batch_mat sigma, batch_mat u, batch_mat v, int64_t *rank,
           int *info, void *work, size_t lwork, bool transposed = false) {
    SvdArgs<T> s = {};
    s.A = view<T>(a, transposed), s.S = view<T>(sigma), s.U = view<T>(u), s.V = view<T>(v);
    s.m = whole(m), s.n = whole(n);
    s.jobu = jobu, s.jobv = jobv;
    s.cut = device_cut(cut);
    s.rank = rank, s.info = info, s.count = count;
    s.sweeps = cut ? cut->sweeps : nullptr;
    s.sweeps_most = cut && cut->sweeps_most > 0 ? cut->sweeps_most : SWEEPS;
    s.rows_max = (int)(m.n > n.n ? m.n : n.n);
    s.cols_max = (int)(m.n > n.n ? n.n : m.n);
    if (s.rows_max <= WARP_MAX || s.cols_max == 0)
        return launch_svd_warp<T>(s, s.rows_max, st);
    s.work = (T *)work;
    if (s.rows_max <= core_max()) {
        const int64_t room = (int64_t)(lwork / (sizeof(T) * (size_t)svd_core_slot(s.rows_max))),
                      most = core_slots(s.rows_max, count);
        return launch_svd_core<T>(s, s.rows_max, room < most ? room : most, st);
    }
    return launch_svd_wide<T>(s, work, lwork, st);
}

} // namespace
} // namespace lowrank

/* A QR first, of sorted rows and columns, so that single values are as accurate as without. */
static bool sorts_by_qr(int64_t rows, int64_t cols) {
    return rows > lowrank::core_max() && rows <= lowrank::BLOCK_ROWS && cols > 0 &&
           cols <= lowrank::core_max() / 2;
}

namespace lowrank {
namespace {

size_t rotations_work(backend_type t, int64_t count, int64_t m, int64_t n) {
    const int64_t rows = m > n ? m : n, cols = m > n ? n : m;
    const size_t element = t == BACKEND_D ? sizeof(double) : sizeof(float);
    if (count == 0 || cols == 0 || rows <= WARP_MAX)
        return 0;
    if (rows > BLOCK_ROWS)
        return tall_work(t, count, rows, cols, false);
    if (sorts_by_qr(rows, cols))
        return tall_work(t, count, rows, cols, true);
    if (rows <= core_max())
        return element * (size_t)(svd_core_slot((int)rows) * core_slots((int)rows, count));
    return t == BACKEND_D ? wide_svd_work<double>(count, (int)rows, (int)cols)
                          : wide_svd_work<float>(count, (int)rows, (int)cols);
}

status rotations(cudaStream_t s, backend_type t, const SvdCall &call, void *work, size_t lwork) {
    SvdCall c = call;
    const int64_t rows = c.m.n > c.n.n ? c.m.n : c.n.n, cols = c.m.n > c.n.n ? c.n.n : c.m.n;
    c.sorted = rows <= BLOCK_ROWS;
    if (rows > BLOCK_ROWS || sorts_by_qr(rows, cols))
        return tall_svd(s, t, c, work, lwork);
    return t == BACKEND_D ? svd<double>(s, c.jobu, c.jobv, c.cut, c.count, c.m, c.n, c.a, c.sigma,
                                        c.u, c.v, c.rank, c.info, work, lwork)
                          : svd<float>(s, c.jobu, c.jobv, c.cut, c.count, c.m, c.n, c.a, c.sigma,
                                       c.u, c.v, c.rank, c.info, work, lwork);
}

constexpr EigenRest ROTATIONS = {rotations_work, rotations};

} // namespace
} // namespace lowrank

size_t lowrank_gesvj_work(backend_type t, int64_t count, int64_t m, int64_t n) {
    return count > 0 && lowrank::eigen_serves(t, nullptr, m, n)
               ? lowrank::eigen_work(count, m, n, lowrank::ROTATIONS)
               : lowrank::rotations_work(t, count, m, n);
}

status lowrank_gesvj(cudaStream_t s, backend_type t, char jobu, char jobv, const batch_cut *cut,
                     int64_t count, batch_dim m, batch_dim n, batch_mat a, batch_mat sigma,
                     batch_mat u, batch_mat v, int64_t *rank, int *info, void *work, size_t lwork) {
    const lowrank::SvdCall call = {jobu, jobv, cut, count, m, n, a, sigma, u, v, rank, info, false};
    return lowrank::eigen_serves(t, cut, m.n, n.n)
               ? lowrank::eigen_svd(s, call, lowrank::ROTATIONS, work, lwork)
               : lowrank::rotations(s, t, call, work, lwork);
}

size_t lowrank_rotate_work(backend_type t, int64_t count, int64_t m, int64_t n) {
    return lowrank::rotations_work(t, count, m, n);
}

status lowrank_rotate(cudaStream_t s, backend_type t, char jobu, char jobv, const batch_cut *cut,
                      int64_t count, batch_dim m, batch_dim n, batch_mat a, batch_mat sigma,
                      batch_mat u, batch_mat v, int64_t *rank, int *info, void *work,
                      size_t lwork) {
    return lowrank::rotations(
        s, t, {jobu, jobv, cut, count, m, n, a, sigma, u, v, rank, info, false}, work, lwork);
}

status lowrank_right_vectors(cudaStream_t s, backend_type t, const batch_cut *cut, int64_t count,
                             batch_dim n, batch_mat a, batch_mat sigma, batch_mat v, int64_t *rank,
                             int *info, void *work, size_t lwork) {
    return t == BACKEND_D ? lowrank::svd<double>(s, 'U', 'N', cut, count, n, n, a, sigma, v, v,
                                                 rank, info, work, lwork, true)
                          : lowrank::svd<float>(s, 'U', 'N', cut, count, n, n, a, sigma, v, v, rank,
                                                info, work, lwork, true);
}

/* A QR in registers, and rotations of a matrix of at most core_max(): worth two more passes. */
static bool goes_by_qr(int64_t m, int64_t n) {
    const int64_t rows = m > n ? m : n, cols = m > n ? n : m;
    return rows > lowrank::core_max() && rows <= 512 && cols > 0 &&
           (cols <= lowrank::core_max() / 2 || lowrank::qr_gram_fits(lowrank::FULL_Q, rows, cols));
}

size_t lowrank_factor_svd_work(backend_type t, int64_t count, int64_t m, int64_t n) {
    return goes_by_qr(m, n) ? lowrank::tall_work(t, count, m > n ? m : n, m > n ? n : m, false)
                            : lowrank_rotate_work(t, count, m, n);
}

status lowrank_factor_svd(cudaStream_t s, backend_type t, char jobu, char jobv,
                          const batch_cut *cut, int64_t count, batch_dim m, batch_dim n,
                          batch_mat a, batch_mat sigma, batch_mat u, batch_mat v, int64_t *rank,
                          int *info, void *work, size_t lwork) {
    return goes_by_qr(m.n, n.n)
               ? lowrank::tall_svd(
                     s, t, {jobu, jobv, cut, count, m, n, a, sigma, u, v, rank, info, false}, work,
                     lwork)
               : lowrank_rotate(s, t, jobu, jobv, cut, count, m, n, a, sigma, u, v, rank, info,
                                work, lwork);
}
