/* Batched QR of matrices with up to 32 rows and columns: read once, written once. */
#include "qr_warp.cuh"

namespace lowrank {

namespace {

constexpr int WARPS = 4; /* of a block */

/* Blocks an SM should hold: what the registers allow without spills. */
template <class T, int G> constexpr int qr_blocks() {
    return G == 32 ? (sizeof(T) == 8 ? 3 : 5) : G == 16 && sizeof(T) == 8 ? 4 : 6;
}
/* Elements of a matrix's shared memory: its tile. */
template <class T, int G> constexpr int PER = WarpTile<T, G>::SIZE;

/* R (k x n, with a diagonal >= 0) from the tile; lane l writes row l. */
template <class T, int G>
__device__ inline void rows_of_r(const Ref<T> &R, const T *tile, T sign, int k, int n, int l) {
    constexpr int LD = WarpTile<T, G>::LD;
    if (l < k)
        for (int j = 0; j < n; j++)
            *R.at(l, j) = l <= j ? sign * tile[j * LD + l] : T(0);
}

template <class T, int G, int OP>
__global__ void __launch_bounds__(WARPS * 32, qr_blocks<T, G>())
    qr_warp_kernel(const __grid_constant__ QrWarpArgs<T> a) {
    extern __shared__ __align__(16) unsigned char shared[];
    constexpr int LD = WarpTile<T, G>::LD;
    const int slot = (int)threadIdx.x / G, g = (int)threadIdx.x % 32 / G, l = (int)threadIdx.x % G;
    const int64_t b = (int64_t)blockIdx.x * (WARPS * 32 / G) + slot;
    T *tile = (T *)shared + slot * PER<T, G>;

    batch::prefetch_operand<T, G>(a.A, a.m, a.n, b, a.count, l, G);
    batch::wait_for_predecessor();
    const bool here = b < a.count, valid = here && dim_valid(a.m, b) && dim_valid(a.n, b);
    int m = valid ? dim_full(a.m, b) : 0, n = valid ? dim_full(a.n, b) : 0;
    Ref<T> A = {nullptr, 0, 0, !a.A.trans};
    if (m && n)
        A = resolve(a.A, b, m, n);
    batch::tile_stage<T, G, LD, false, false>(tile, A, A.p, m, n, false, l);
    stage_commit();
    stage_wait<0>();
    __syncwarp();

    alignas(16) T x[G];
    WarpReflector<T> mine;
    bool fine;
    int e = 0;
    batch::column_load<T, G>(x, tile + l * LD);
    T tail = tail_of<T, G>(x, &fine);
    const T squares = fma(x[0], x[0], tail);
    const int bad = batch::first_lane<G>(!fine, g);
    if (fine && !(squares >= Squares<T>::LO && squares <= Squares<T>::HI))
        e = column_scale<T, G>(x, &tail);
    __syncwarp();
    warp_factor<T, G>(x, tile, mine, tail, l);

    if (here && l == 0 && a.info)
        a.info[b] = valid ? bad : -1;
    m = bad ? 0 : m;
    n = bad ? 0 : n;
    const int k = m < n ? m : n;
    T diagonal = T(1);
#pragma unroll
    for (int i = 0; i < G; i++) {
        if (OP == GEQRF && i > l)
            x[i] *= mine.scale;
        if (i <= l && e)
            x[i] = scalbn(x[i], e);
        diagonal = i == l ? x[i] : diagonal;
    }
    __syncwarp();
    batch::column_store<T, G>(tile + l * LD, x);
    if (OP == GEQRF) {
        __syncwarp();
        batch::tile_write<T, G, LD, false>(tile, A, A.p, m, n, false, l);
        if (l < k)
            resolve(a.tau, b, k, 1).p[l] = mine.tau;
        return;
    }
    const T sign = diagonal < T(0) ? T(-1) : T(1);
    __syncwarp();
    if (k)
        rows_of_r<T, G>(resolve(a.R, b, k, n), tile, sign, k, n, l);
    if (OP == FULL_Q) {
#pragma unroll
        for (int i = 0; i < G; i++)
            x[i] = i == l ? sign : T(0);
        __syncwarp();
        warp_apply<T, G, G - 1>(x, tile, mine);
        __syncwarp();
        batch::column_store<T, G>(tile + l * LD, x);
        __syncwarp();
        batch::tile_write<T, G, LD, false>(tile, A, A.p, m, k, false, l);
    }
}

template <class T, int G, int OP> status start(const QrWarpArgs<T> &a, cudaStream_t s) {
    constexpr int64_t per = WARPS * 32 / G;
    return batch::launch(qr_warp_kernel<T, G, OP>, dim3((unsigned)((a.count + per - 1) / per)),
                         WARPS * 32, sizeof(T) * per * PER<T, G>, s, a);
}
template <class T, int G> status start_op(int op, const QrWarpArgs<T> &a, cudaStream_t s) {
    return op == GEQRF    ? start<T, G, GEQRF>(a, s)
           : op == FULL_Q ? start<T, G, FULL_Q>(a, s)
                          : start<T, G, ONLY_R>(a, s);
}
template <class T> status start_size(int op, const QrWarpArgs<T> &a, int most, cudaStream_t s) {
    return most <= 8    ? start_op<T, 8>(op, a, s)
           : most <= 16 ? start_op<T, 16>(op, a, s)
                        : start_op<T, 32>(op, a, s);
}

} // namespace

template <>
status launch_qr_warp<double>(int op, const QrWarpArgs<double> &a, int most, cudaStream_t s) {
    return start_size<double>(op, a, most, s);
}
template <>
status launch_qr_warp<float>(int op, const QrWarpArgs<float> &a, int most, cudaStream_t s) {
    return start_size<float>(op, a, most, s);
}

} // namespace lowrank
