/* Kernels of qr_grid.cuh for more columns than a block's registers hold: QR of two blocks of
 * columns, and products with reflectors, whose vectors pass through shared memory 32 at a time. */
#ifndef MOAO_GPU_QR_GRID_WIDE_CUH
#define MOAO_GPU_QR_GRID_WIDE_CUH
#include "qr_grid_kernel.cuh"

namespace lowrank {

/* v := n vectors as geqrf left them in f: 1 on the diagonal (row `from` of the first one), zeros
 * above it and beyond `rows`. Between barriers. */
template <class G>
__device__ inline void vectors_in(typename G::T *v, const typename G::T *f, int64_t ld, int rows,
                                  int n, int from) {
    typedef typename G::T T;
    __syncthreads();
#pragma unroll 8
    for (int e = (int)threadIdx.x; e < n * G::ROWS; e += G::THREADS) {
        const int i = e % G::ROWS, j = e / G::ROWS;
        v[e] = i > from + j && i < rows ? f[i + j * ld] : T(i == from + j ? 1 : 0);
    }
    __syncthreads();
}
/* g := H_1 ... H_n g, or H_n ... H_1 g (trans). */
template <class G>
__device__ inline void vectors_apply(G &g, const typename G::T *v, const typename G::T *tau, int n,
                                     bool trans) {
#pragma unroll 1
    for (int e = 0; e < n; e++) {
        const int l = trans ? e : n - 1 - e;
        grid_reflect<0, 0>(g, v + l * G::ROWS, tau[l]);
    }
}

/* QR of up to 2 COLS columns; COLS = RL, so that the second block's diagonal lies one local row
 * further down. The first block's vectors are in shared memory while the second one is made. */
template <class G, int OP>
__global__ void __launch_bounds__(G::THREADS, grid_blocks<G>())
    qr_twice_kernel(const __grid_constant__ QrWarpArgs<typename G::T> a) {
    typedef typename G::T T;
    static_assert(G::COLS == G::RL, "blocks of columns as wide as local rows are far apart");
    extern __shared__ __align__(16) unsigned char shared[];
    constexpr int COLS = G::COLS;
    constexpr bool KEEP = OP == FULL_Q;
    const GridPlace<G> p = grid_place<G>(shared, KEEP ? COLS : COLS + 2, 2 * COLS);
    const int64_t b = blockIdx.x;
    batch::wait_for_predecessor();
    const bool valid = dim_valid(a.m, b) && dim_valid(a.n, b);
    const int m = valid ? dim_full(a.m, b) : 0, n = valid ? dim_full(a.n, b) : 0, k = m < n ? m : n,
              k0 = k < COLS ? k : COLS, k1 = k - k0;
    if (k == 0) {
        if (a.info && threadIdx.x == 0)
            a.info[b] = valid ? 0 : -1;
        return;
    }
    const Ref<T> A = resolve(a.A, b, m, n);
    T *const right = A.p + COLS * A.sj;
    const Ref<T> R = OP == GEQRF ? A : resolve(a.R, b, k, n);
    if (OP != GEQRF && a.pending && !qr_pending(R))
        return;
    G g;
    grid_load(g, A.p, A.sj, m, n);
    int bad = grid_check(g, p, k);
    if (bad == 0) {
        grid_factor<true>(g, k0, p.h);
        grid_scale(g, k0, p.h);
        grid_unscale(g, p, k);
        if (OP != ONLY_R)
            grid_store(g, A.p, A.sj, m, n < COLS ? n : COLS);
        if (OP != GEQRF)
            grid_triangle(g, p, R, n < COLS ? n : COLS, k);
        grid_load(g, right, A.sj, m, n - COLS);
        bad = grid_check(g, p, k, COLS);
    }
    if (a.info && threadIdx.x == 0)
        a.info[b] = bad;
    if (bad)
        return;
    vectors_apply(g, p.h.v, p.h.factor, k0, true);
    __syncthreads();
    const GridVectors<T> h = {KEEP ? p.h.v : p.h.v + COLS * G::ROWS, p.h.tau + COLS,
                              p.h.scale + COLS, p.h.factor + COLS, p.h.top + COLS};
    grid_factor<KEEP, 1>(g, k1, h);
    if (OP == GEQRF)
        grid_scale<1>(g, k1, h);
    grid_unscale(g, p, k, COLS);
    if (OP == GEQRF) {
        grid_store(g, right, A.sj, m, n - COLS);
        T *tau = resolve(a.tau, b, k, 1).p;
        for (int i = (int)threadIdx.x; i < k; i += G::THREADS)
            tau[i] = p.h.tau[i];
        return;
    }
    grid_triangle(g, p, R, n, k, COLS);
    if (OP == FULL_Q) {
        grid_form<1>(g, k1, h.v, h.factor, p.sign + COLS);
        vectors_in<G>(p.h.v, A.p, A.sj, m, k0, 0);
        vectors_apply(g, p.h.v, p.h.tau, k0, false);
        grid_store(g, right, A.sj, m, k1);
        grid_form(g, k0, p.h.v, p.h.tau, p.sign);
        grid_store(g, A.p, A.sj, m, k0);
    }
}
template <class T>
status start_twice(int op, const QrWarpArgs<T> &a, cudaStream_t s, bool *served) {
    typedef Grid<T, 32, 16, 16, 2> G;
    const size_t all = grid_bytes<G>(G::COLS + 2, 2 * G::COLS);
    static_assert(grid_bytes<G>(G::COLS + 2, 2 * G::COLS) <= QR_TWICE_BYTES, "see qr_keeps");
    *served = all <= gpu_shared_most();
    if (!*served)
        return MOAO_OK;
    return batch::launch(op == GEQRF    ? qr_twice_kernel<G, GEQRF>
                         : op == FULL_Q ? qr_twice_kernel<G, FULL_Q>
                                        : qr_twice_kernel<G, ONLY_R>,
                         dim3((unsigned)a.count), G::THREADS, all, s, a);
}

/* C := op(Q) C in blocks of COLS of vectors and of columns. */
template <class G>
__global__ void __launch_bounds__(G::THREADS, grid_blocks<G>())
    qr_apply_kernel(const __grid_constant__ QrApply<typename G::T> a) {
    typedef typename G::T T;
    extern __shared__ __align__(16) unsigned char shared[];
    constexpr int COLS = G::COLS;
    T *const v = (T *)shared, *const tau = v + COLS * G::ROWS;
    const int64_t b = blockIdx.x;
    batch::wait_for_predecessor();
    const bool valid = dim_valid(a.m, b) && dim_valid(a.n, b) && dim_valid(a.k, b);
    const int m = valid ? dim_full(a.m, b) : 0, n = valid ? dim_full(a.n, b) : 0,
              k = valid ? dim_full(a.k, b) : 0, blocks = (k + COLS - 1) / COLS;
    if (k == 0 || n == 0 || k > m)
        return;
    const Ref<T> A = resolve(a.A, b, m, k), C = resolve(a.C, b, m, n);
    const T *taus = resolve(a.tau, b, k, 1).p;
    for (int c0 = 0; c0 < n; c0 += COLS) {
        G g;
        grid_load(g, C.at(0, c0), C.sj, m, n - c0);
        for (int e = 0; e < blocks; e++) {
            const int j = COLS * (a.trans ? e : blocks - 1 - e), w = k - j < COLS ? k - j : COLS;
            if (c0 == 0 || blocks > 1) {
                vectors_in<G>(v, A.at(0, j), A.sj, m, w, j);
                if ((int)threadIdx.x < w)
                    tau[threadIdx.x] = taus[j + (int)threadIdx.x];
                __syncthreads();
            }
            vectors_apply(g, v, tau, w, a.trans);
        }
        grid_store(g, C.at(0, c0), C.sj, m, n - c0);
    }
}
template <class G>
status start_apply(const QrApply<typename G::T> &a, cudaStream_t s, bool *served) {
    const size_t bytes = sizeof(typename G::T) * (size_t)(G::COLS * (G::ROWS + 1));
    *served = bytes <= gpu_shared_most();
    return *served
               ? batch::launch(qr_apply_kernel<G>, dim3((unsigned)a.count), G::THREADS, bytes, s, a)
               : MOAO_OK;
}

} // namespace lowrank
#endif
