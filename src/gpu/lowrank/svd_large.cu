/* Batched singular value decomposition: a thread block takes a matrix after the other. What does
 * not fit in its shared memory lies in its part of the workspace. */
#include "gpu/batch/batch_gpu.h"
#include "lowrank_gpu.h"
#include "svd_core.cuh"
#include "svd_matrix.cuh"
#include "svd_tall.cuh"
#include "svd_warp.cuh"

namespace lowrank {

namespace {

constexpr int WARP_MAX = 32; /* rows and columns of a matrix that a warp works on */
constexpr size_t SHARED_MAX = 227 * 1024;

template <class T, int WARPS>
__global__ void __launch_bounds__(32 * WARPS, WARPS == 4 ? 3 : 1)
    svd_kernel(const __grid_constant__ SvdArgs<T> a) {
    extern __shared__ __align__(16) unsigned char shared[];
    Svd<T> s;
    svd_place(s, a, shared);
    batch::wait_for_predecessor();
    for (int64_t b = blockIdx.x; b < a.count; b += gridDim.x) {
        const int m = dim_full(a.m, b), n = dim_full(a.n, b);
        int info = 0;
        if (!dim_valid(a.m, b) || !dim_valid(a.n, b))
            info = -1;
        else if (m && n)
            info = svd_matrix(s, a, b, m, n);
        if (threadIdx.x == 0) {
            if (a.info)
                a.info[b] = info;
            if (a.rank && (info == -1 || info > 0 || m == 0 || n == 0))
                a.rank[b] = 0;
        }
        __syncthreads();
    }
}

/* How a call is carried out. */
struct Plan {
    int warps, in_shared, blocks; /* blocks of an SM */
    size_t shared;
    int64_t slot; /* elements */
};

/* X, J, W and L go to shared memory in this order while they fit; where X and J leave room for
 * several blocks an SM, W and L, which are used less, may have to stay outside. */
template <class T> Plan make_plan(int rows, int cols, bool with_j) {
    Plan p = {};
    p.warps = cols <= 64 ? 4 : cols <= 128 || sizeof(T) == 4 ? 8 : 16;
    p.shared = svd_small<T>(p.warps, rows, cols);
    const size_t least =
        p.shared + sizeof(T) * (size_t)(svd_part(0, rows, cols) + svd_part(1, rows, cols));
    p.blocks = p.warps > 4 ? 1 : least <= SHARED_MAX / 3 ? 3 : least <= SHARED_MAX / 2 ? 2 : 1;
    const size_t most = SHARED_MAX / (size_t)p.blocks - 1024;
    for (int q = 0; q < 4; q++) {
        const size_t bytes = sizeof(T) * (size_t)svd_part(q, rows, cols);
        if (q == 1 && !with_j)
            continue;
        if (p.shared + bytes <= most) {
            p.shared += bytes;
            p.in_shared |= 1 << q;
        } else {
            p.slot += svd_part(q, rows, cols);
        }
    }
    return p;
}

/* Blocks that are there at once, if their matrices need workspace. */
int64_t slots(const Plan &p, int64_t count) {
    const int64_t most = batch::resident(p.blocks);
    return count < most ? count : most;
}

/* The same of svd_core.cuh. */
int64_t core_slots(int most, int64_t count) {
    const int64_t blocks = batch::resident(svd_core_blocks(most));
    return count < blocks ? count : blocks;
}

template <class T> Mat<T> plain(batch_mat m) {
    return Mat<T>{
        (T *)m.base, (T *const *)m.ptrs, m.stride, m.ld, m.lds, false, false, false, 0, 0};
}
Dim whole(batch_dim d) {
    return Dim{d.each, d.n, 0, (int)d.n};
}
Cut device_cut(const batch_cut *c) {
    Cut d = {};
    d.most = -1;
    if (c) {
        d.tol = c->tol;
        d.tol_each = c->tol_each;
        d.relative = c->kind == 'R';
        d.frobenius = c->norm == 'F';
        d.most = (int)c->most;
        d.most_each = c->most_each;
    }
    return d;
}

template <class T>
status svd(cudaStream_t st, char jobu, char jobv, const batch_cut *cut, int64_t count, batch_dim m,
           batch_dim n, batch_mat a, batch_mat sigma, batch_mat u, batch_mat v, int64_t *rank,
           int *info, void *work, size_t lwork) {
    SvdArgs<T> s = {};
    s.A = plain<T>(a), s.S = plain<T>(sigma), s.U = plain<T>(u), s.V = plain<T>(v);
    s.m = whole(m), s.n = whole(n);
    s.jobu = jobu, s.jobv = jobv;
    s.cut = device_cut(cut);
    s.rank = rank, s.info = info, s.count = count;
    s.rows_max = (int)(m.n > n.n ? m.n : n.n);
    s.cols_max = (int)(m.n > n.n ? n.n : m.n);
    const bool varied = m.each || n.each;
    s.with_j = varied ? jobu != 'N' || jobv != 'N' : (m.n < n.n ? jobu : jobv) != 'N';
    if (s.rows_max <= WARP_MAX)
        return launch_svd_warp<T>(s, s.rows_max, st);
    s.work = (T *)work;
    if (s.rows_max <= CORE_MAX) {
        const int64_t room = (int64_t)(lwork / (sizeof(T) * (size_t)svd_core_slot(s.rows_max))),
                      most = core_slots(s.rows_max, count);
        return launch_svd_core<T>(s, s.rows_max, room < most ? room : most, st);
    }
    const Plan p = make_plan<T>(s.rows_max, s.cols_max, s.with_j);
    int64_t blocks = count;
    s.in_shared = p.in_shared;
    s.slot = p.slot;
    if (p.slot) {
        const int64_t room = (int64_t)(lwork / (sizeof(T) * (size_t)p.slot)),
                      most = slots(p, count);
        blocks = room < most ? room : most;
    }
    if constexpr (sizeof(T) == 8)
        if (p.warps == 16)
            return batch::launch(svd_kernel<T, 16>, dim3((unsigned)blocks), 32 * 16, p.shared, st,
                                 s);
    return batch::launch(p.warps == 4 ? svd_kernel<T, 4> : svd_kernel<T, 8>, dim3((unsigned)blocks),
                         32 * p.warps, p.shared, st, s);
}

} // namespace
} // namespace lowrank

/* A QR first, of sorted rows and columns, so that single values are as accurate as without. */
static bool sorts_by_qr(int64_t rows, int64_t cols) {
    return rows > lowrank::CORE_MAX && rows <= lowrank::BLOCK_ROWS && cols > 0 &&
           cols <= lowrank::CORE_MAX / 2;
}

size_t lowrank_gesvj_work(backend_type t, int64_t count, int64_t m, int64_t n) {
    const int64_t rows = m > n ? m : n, cols = m > n ? n : m;
    const size_t element = t == BACKEND_D ? sizeof(double) : sizeof(float);
    if (count == 0 || cols == 0 || rows <= lowrank::WARP_MAX)
        return 0;
    if (rows > lowrank::BLOCK_ROWS)
        return lowrank::tall_work(t, count, rows, cols, false);
    if (sorts_by_qr(rows, cols))
        return lowrank::tall_work(t, count, rows, cols, true);
    if (rows <= lowrank::CORE_MAX)
        return element *
               (size_t)(lowrank::svd_core_slot((int)rows) * lowrank::core_slots((int)rows, count));
    const lowrank::Plan p = t == BACKEND_D ? lowrank::make_plan<double>((int)rows, (int)cols, true)
                                           : lowrank::make_plan<float>((int)rows, (int)cols, true);
    return element * (size_t)p.slot * (size_t)lowrank::slots(p, count);
}

status lowrank_gesvj(cudaStream_t s, backend_type t, char jobu, char jobv, const batch_cut *cut,
                     int64_t count, batch_dim m, batch_dim n, batch_mat a, batch_mat sigma,
                     batch_mat u, batch_mat v, int64_t *rank, int *info, void *work, size_t lwork) {
    if (m.n > lowrank::BLOCK_ROWS || n.n > lowrank::BLOCK_ROWS)
        return lowrank::tall_svd(
            s, t, {jobu, jobv, cut, count, m, n, a, sigma, u, v, rank, info, false}, work, lwork);
    if (sorts_by_qr(m.n > n.n ? m.n : n.n, m.n > n.n ? n.n : m.n))
        return lowrank::tall_svd(
            s, t, {jobu, jobv, cut, count, m, n, a, sigma, u, v, rank, info, true}, work, lwork);
    return t == BACKEND_D ? lowrank::svd<double>(s, jobu, jobv, cut, count, m, n, a, sigma, u, v,
                                                 rank, info, work, lwork)
                          : lowrank::svd<float>(s, jobu, jobv, cut, count, m, n, a, sigma, u, v,
                                                rank, info, work, lwork);
}

/* A QR in registers, and rotations of a matrix of at most CORE_MAX: worth two more passes. */
static bool goes_by_qr(int64_t m, int64_t n) {
    const int64_t rows = m > n ? m : n, cols = m > n ? n : m;
    return cols > 0 && cols <= lowrank::CORE_MAX / 2 && rows > lowrank::CORE_MAX && rows <= 512;
}

size_t lowrank_factor_svd_work(backend_type t, int64_t count, int64_t m, int64_t n) {
    return goes_by_qr(m, n) ? lowrank::tall_work(t, count, m > n ? m : n, m > n ? n : m, false)
                            : lowrank_gesvj_work(t, count, m, n);
}

status lowrank_factor_svd(cudaStream_t s, backend_type t, char jobu, char jobv,
                          const batch_cut *cut, int64_t count, batch_dim m, batch_dim n,
                          batch_mat a, batch_mat sigma, batch_mat u, batch_mat v, int64_t *rank,
                          int *info, void *work, size_t lwork) {
    return goes_by_qr(m.n, n.n)
               ? lowrank::tall_svd(
                     s, t, {jobu, jobv, cut, count, m, n, a, sigma, u, v, rank, info, false}, work,
                     lwork)
               : lowrank_gesvj(s, t, jobu, jobv, cut, count, m, n, a, sigma, u, v, rank, info, work,
                               lwork);
}
