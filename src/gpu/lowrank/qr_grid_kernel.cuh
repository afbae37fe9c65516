/* Kernels of qr_grid.cuh: QR, and products with the reflectors, of matrices whose shape fits a grid
 * of threads. One thread block a matrix; read once, written once. */
#ifndef MOAO_GPU_QR_GRID_KERNEL_CUH
#define MOAO_GPU_QR_GRID_KERNEL_CUH
#include "qr_grid_tensor.cuh"
#include "qr_warp.cuh"

namespace lowrank {

/* Shared memory of a block: so many vectors; tau, signs and scales of `all` columns; flags. */
template <class G> constexpr size_t grid_bytes(int vectors, int all = G::COLS) {
    return sizeof(typename G::T) * ((size_t)vectors * G::ROWS + 5 * (size_t)all) +
           sizeof(int) * (size_t)(all + 4);
}
template <class G> struct GridPlace {
    typedef typename G::T T;
    GridVectors<T> h;
    T *sign;
    int *scale, *flag; /* flag[0]: the first column that is not finite; flag[1]: any scaled */
};
template <class G>
__device__ inline GridPlace<G> grid_place(unsigned char *shared, int vectors, int all = G::COLS) {
    GridPlace<G> p;
    p.h.v = (typename G::T *)shared;
    p.h.tau = p.h.v + (size_t)vectors * G::ROWS;
    p.h.scale = p.h.tau + all, p.h.factor = p.h.scale + all, p.h.top = p.h.factor + all;
    p.sign = p.h.top + all;
    p.scale = (int *)(p.sign + all);
    p.flag = p.scale + all;
    for (int j = (int)threadIdx.x; j < all + 2; j += G::THREADS)
        if (j < all)
            p.scale[j] = 0;
        else
            p.flag[j - all] = j == all ? INT32_MAX : 0;
    return p;
}

/* The first column that is not finite, counted from 1 (0: none); columns (of the first k) whose
 * squares would leave the range are multiplied by 2^-scale. g holds columns from `from` on. */
template <class G>
__device__ inline int grid_check(G &g, const GridPlace<G> &p, int k, int from = 0) {
    typedef typename G::T T;
    __syncthreads();
#pragma unroll
    for (int q = 0; q < G::C; q++) {
        T s = T(0), top = T(0);
        const int j = from + g.col(q);
        bool fine = true;
#pragma unroll
        for (int a = 0; a < G::A; a++) {
            const T x = g.x[a][q];
            s += x * x;
            fine = fine && fabs(x) <= Squares<T>::TOP;
        }
        if (!fine)
            atomicMin(p.flag, j + 1);
        s = column_sum<G::RL>(s);
        const bool odd = j < k && !(s >= Squares<T>::LO && s <= Squares<T>::HI);
        if (!__any_sync(0xffffffffu, odd))
            continue;
#pragma unroll
        for (int a = 0; a < G::A; a++)
            top = fmax(top, fabs(g.x[a][q]));
#pragma unroll
        for (int d = G::RL / 2; d; d >>= 1)
            top = fmax(top, __shfl_xor_sync(0xffffffffu, top, d));
        if (!odd || !(top > T(0) && top <= Squares<T>::TOP))
            continue;
        const int e = ilogb(top);
#pragma unroll
        for (int a = 0; a < G::A; a++)
            g.x[a][q] = scalbn(g.x[a][q], -e);
        if (g.r == 0) {
            p.scale[j] = e;
            p.flag[1] = 1;
        }
    }
    __syncthreads();
    return p.flag[0] == INT32_MAX ? 0 : p.flag[0];
}

/* R on and above the diagonal goes back to its range. */
template <class G>
__device__ inline void grid_unscale(G &g, const GridPlace<G> &p, int k, int from = 0) {
    if (!p.flag[1])
        return;
#pragma unroll
    for (int q = 0; q < G::C; q++)
#pragma unroll
        for (int a = 0; a < G::A; a++) {
            const int j = from + g.col(q);
            if (j < k && g.row(a) <= j)
                g.x[a][q] = scalbn(g.x[a][q], p.scale[j]);
        }
}

/* These columns of R (k x n) with a diagonal >= 0 and zeros below it; the signs that make it so to
 * p.sign. */
template <class G>
__device__ inline void grid_triangle(const G &g, const GridPlace<G> &p, const Ref<typename G::T> &R,
                                     int n, int k, int from = 0) {
    typedef typename G::T T;
#pragma unroll
    for (int q = 0; q < G::C; q++)
#pragma unroll
        for (int a = 0; a < G::A; a++)
            if (g.row(a) == from + g.col(q))
                p.sign[g.row(a)] = g.x[a][q] < T(0) ? T(-1) : T(1);
    __syncthreads();
#pragma unroll
    for (int q = 0; q < G::C; q++)
#pragma unroll
        for (int a = 0; a < G::A; a++) {
            const int i = g.row(a), j = from + g.col(q);
            if (i < k && j < n)
                *R.at(i, j) = i <= j ? p.sign[i] * g.x[a][q] : T(0);
        }
}

/* Blocks of an SM: 512 threads with 128 registers each fill it. */
template <class G> constexpr int grid_blocks() {
    return 512 / G::THREADS > 1 ? 512 / G::THREADS : 1;
}

template <class G, int OP>
__global__ void __launch_bounds__(G::THREADS, grid_blocks<G>())
    qr_grid_kernel(const __grid_constant__ QrWarpArgs<typename G::T> a) {
    typedef typename G::T T;
    extern __shared__ __align__(16) unsigned char shared[];
    constexpr bool KEEP = OP == FULL_Q;
    const GridPlace<G> p = grid_place<G>(shared, KEEP ? G::COLS + q_vectors<G>() : 2);
    const int64_t b = blockIdx.x;
    batch::wait_for_predecessor();
    const bool valid = dim_valid(a.m, b) && dim_valid(a.n, b);
    const int m = valid ? dim_full(a.m, b) : 0, n = valid ? dim_full(a.n, b) : 0, k = m < n ? m : n;
    if (k == 0) {
        if (a.info && threadIdx.x == 0)
            a.info[b] = valid ? 0 : -1;
        return;
    }
    if (OP != GEQRF && a.pending && !qr_pending(resolve(a.R, b, k, n)))
        return;
    const Ref<T> A = resolve(a.A, b, m, n);
    G g;
    grid_load(g, A.p, A.sj, m, n);
    const int bad = grid_check(g, p, k);
    if (a.info && threadIdx.x == 0)
        a.info[b] = bad;
    if (bad)
        return;
    grid_factor<KEEP>(g, k, p.h);
    if (OP == GEQRF)
        grid_scale(g, k, p.h);
    grid_unscale(g, p, k);
    if (OP == GEQRF) {
        grid_store(g, A.p, A.sj, m, n);
        T *tau = resolve(a.tau, b, k, 1).p;
        for (int i = (int)threadIdx.x; i < k; i += G::THREADS)
            tau[i] = p.h.tau[i];
        return;
    }
    grid_triangle(g, p, resolve(a.R, b, k, n), n, k);
    if constexpr (OP == FULL_Q && q_in_tiles<G>()) {
        q_form(p.h.v, p.h.factor, p.sign, A.p, A.sj, m, k);
    } else if (OP == FULL_Q) {
        grid_form(g, k, p.h.v, p.h.factor, p.sign);
        grid_store(g, A.p, A.sj, m, k);
    }
}

/* *served: whether a block has room for it; else nothing is done. */
template <class G, int OP>
status start_grid(const QrWarpArgs<typename G::T> &a, cudaStream_t s, bool *served) {
    const size_t bytes = grid_bytes<G>(OP == FULL_Q ? G::COLS + q_vectors<G>() : 2);
    *served = bytes <= gpu_shared_most();
    return *served ? batch::launch(qr_grid_kernel<G, OP>, dim3((unsigned)a.count), G::THREADS,
                                   bytes, s, a)
                   : MOAO_OK;
}
template <class G>
status start_grid_op(int op, const QrWarpArgs<typename G::T> &a, cudaStream_t s, bool *served) {
    return op == GEQRF    ? start_grid<G, GEQRF>(a, s, served)
           : op == FULL_Q ? start_grid<G, FULL_Q>(a, s, served)
                          : start_grid<G, ONLY_R>(a, s, served);
}
/* The smallest shape that holds rows x cols. */
template <class T>
status start_grid_shape(int op, const QrWarpArgs<T> &a, int64_t rows, int64_t cols, cudaStream_t s,
                        bool *served) {
    if (rows <= 64)
        return start_grid_op<Grid<T, 8, 16, 8, 4>>(op, a, s, served);
    if (rows <= 128 && cols <= 32)
        return start_grid_op<Grid<T, 16, 8, 8, 4>>(op, a, s, served);
    if (rows <= 128 && cols <= 64)
        return start_grid_op<Grid<T, 16, 16, 8, 4>>(op, a, s, served);
    if (rows <= 128)
        return start_grid_op<Grid<T, 16, 32, 8, 4>>(op, a, s, served);
    if (rows <= 256 && cols <= 32)
        return start_grid_op<Grid<T, 32, 8, 8, 4>>(op, a, s, served);
    if (rows <= 256)
        return start_grid_op<Grid<T, 32, 16, 8, 4>>(op, a, s, served);
    return start_grid_op<Grid<T, 32, 16, 16, 2>>(op, a, s, served);
}

} // namespace lowrank
#endif
