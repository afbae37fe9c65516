/* Batched singular value decomposition of matrices with up to 32 rows and columns: several a warp
 * or one, read once, written once. */
#include "svd_warp.cuh"

namespace lowrank {

namespace {

constexpr int WARPS = 4; /* of a block */

/* Blocks an SM should hold: what the registers allow without spills. */
template <class T, int G, bool WITH_J> constexpr int svd_blocks() {
    return sizeof(T) == 4 ? (G == 32 ? 4 : 5) : G == 32 ? 3 : G == 16 ? 5 : 6;
}

/* The rank after the cut (see cut_rank), of k sorted values; *miss: `most` did not suffice. */
__device__ inline int warp_rank(const double *value, int k, const Cut &cut, int64_t b, double total,
                                int shift, bool *miss) {
    double tol = cut.tol_each ? cut.tol_each[b] : cut.tol, t = 0.0, tail = 0.0;
    int64_t most = cut.most_each ? cut.most_each[b] : cut.most;
    int r = 0;
    most = most > cut.most ? cut.most : most < 0 ? 0 : most;
    while (r < k && value[r] > 0.0)
        r++;
    if (tol > 0.0)
        t = !cut.relative ? scalbn(tol, shift)
                          : tol * (cut.frobenius ? sqrt(total)
                                   : r           ? value[0]
                                                 : 0.0);
    while (t > 0.0 && r > 0) {
        const double x = value[r - 1];
        if (!((cut.frobenius ? sqrt(tail + x * x) : x) <= t))
            break;
        tail += x * x;
        r--;
    }
    *miss = r > most && t > 0.0;
    return r > most ? (int)most : r;
}

/* The reflectors of the first QR wait in the caller's matrix while rotations use their tile. */
template <class T, int G>
__device__ inline void reflectors_back(const WarpSvd<T, G> &s, const Ref<T> &A, int m, int n) {
    __syncwarp();
#pragma unroll 8
    for (int j = 0; j < G; j++)
        s.first[j * s.LD + s.l] = s.l < m && j < n ? *A.at(s.l, j) : T(0);
    __syncwarp();
}

/* x := this lane's column of Q with the signs of R's diagonal, from a QR of the columns in x; the
 * reflectors stay in the tile. */
template <class T, int G>
__device__ inline void warp_orthonormal(T *x, T *tile, WarpReflector<T> &h, int l) {
    __syncwarp();
    batch::column_store<T, G>(tile + l * WarpTile<T, G>::LD, x);
    h = tile_factor<T, G>(tile, l);
    const T sign = tile[l * WarpTile<T, G>::LD + l] < T(0) ? T(-1) : T(1);
#pragma unroll
    for (int i = 0; i < G; i++)
        x[i] = i == l ? sign : T(0);
    tile_apply<T, G>(x, tile, h);
    __syncwarp();
}

/* Columns of zero singular values (among the first k) get orthonormal directions. Uses the first
 * tile. */
template <class T, int G>
__device__ inline void warp_complete(const WarpSvd<T, G> &s, T *x, bool needed) {
    if (!__any_sync(0xffffffffu, needed))
        return;
    T q[G];
    WarpReflector<T> h;
#pragma unroll
    for (int i = 0; i < G; i++)
        q[i] = x[i];
    warp_orthonormal<T, G>(q, s.first, h, s.l);
#pragma unroll
    for (int i = 0; i < G; i++)
        x[i] = needed ? q[i] : x[i];
}

/* -1 if the entry of largest modulus of the sorted column (the first of equals, in the caller's
 * order) is negative. */
template <class T> __device__ inline T tile_sign(const T *column, const int *place, int n) {
    T top = T(-1), value = T(0);
    for (int i = 0; i < n; i++) {
        const T v = column[place[i]];
        if (fabs(v) > top)
            top = fabs(v), value = v;
    }
    return value < T(0) ? T(-1) : T(1);
}

/* The first r columns of a tile, times f (of lane c for column c), rows in the caller's order. */
template <class T, int G>
__device__ inline void tile_vectors(const Ref<T> &to, const T *tile, T f, int at, int rows, int r,
                                    int l) {
    constexpr int LD = WarpTile<T, G>::LD;
#pragma unroll 4
    for (int c = 0; c < G; c++) {
        const T factor = __shfl_sync(0xffffffffu, f, c, G);
        if (l < rows && c < r)
            *to.at(l, c) = factor * tile[c * LD + at];
    }
}

template <class T, int G, bool WITH_J>
__global__ void __launch_bounds__(WARPS * 32, svd_blocks<T, G, WITH_J>())
    svd_warp_kernel(const __grid_constant__ SvdArgs<T> a) {
    extern __shared__ __align__(16) unsigned char shared[];
    typedef WarpSvd<T, G> S;
    const int slot = (int)threadIdx.x / G;
    const int64_t b = (int64_t)blockIdx.x * (WARPS * 32 / G) + slot;
    S s;
    s.l = (int)threadIdx.x % G, s.g = (int)threadIdx.x % 32 / G;
    s.first = (T *)(shared + slot * S::BYTES), s.second = s.first + WarpTile<T, G>::SIZE;
    s.value = (double *)(s.second + WarpTile<T, G>::SIZE);
    s.row = (int *)(s.value + G), s.col = s.row + G;

    batch::prefetch_operand<T, G>(a.A, a.m, a.n, b, a.count, s.l, G);
    batch::wait_for_predecessor();
    const bool here = b < a.count, valid = here && dim_valid(a.m, b) && dim_valid(a.n, b);
    int m = valid ? dim_full(a.m, b) : 0, n = valid ? dim_full(a.n, b) : 0;
    Ref<T> A = {nullptr, 0, 0, !a.A.trans};
    if (m && n)
        A = resolve(a.A, b, m, n);
    batch::tile_stage<T, G, S::LD, false, false>(s.first, A, A.p, m, n, false, s.l);
    stage_commit();
    stage_wait<0>();
    __syncwarp();

    alignas(16) T x[G], q[G];
    WarpReflector<T> h1, h2;
    T top = T(0);
    bool fine = true;
    batch::column_load<T, G>(x, s.first + s.l * S::LD);
#pragma unroll
    for (int i = 0; i < G; i++) {
        fine = fine && fabs(x[i]) <= Squares<T>::TOP;
        top = fmax(top, fabs(x[i]));
    }
    const int bad = batch::first_lane<G>(!fine, s.g);
    top = group_max<T, G>(top);
    const int shift = !bad && top > T(0) ? SvdRange<T>::TOP - ilogb(top) : 0;
    const T scale1 = scalbn(T(1), shift / 2), scale2 = scalbn(T(1), shift - shift / 2);
#pragma unroll
    for (int i = 0; i < G; i++)
        x[i] = bad ? T(0) : x[i] * scale1 * scale2;
    __syncwarp();
    double total = squares_of<T, G>(x);
#pragma unroll
    for (int d = G / 2; d; d >>= 1)
        total += __shfl_xor_sync(0xffffffffu, total, d);
    warp_sort(s, x);
    h1 = tile_factor<T, G>(s.first, s.l);
    if (a.jobu != 'N')
        batch::tile_write<T, G, S::LD, false>(s.first, A, A.p, m, n, false, s.l);
    tile_row<T, G>(x, s.first, s.l);
    batch::column_store<T, G>(s.second + s.l * S::LD, x);
    h2 = tile_factor<T, G>(s.second, s.l);
    tile_row<T, G>(x, s.second, s.l);
    batch::column_store<T, G>(s.first + s.l * S::LD, x);
    __syncwarp();
    const int sweeps = warp_jacobi<T, G>(s.first, a.sweeps_most);

    batch::column_load<T, G>(x, s.first + s.l * S::LD);
    double sigma = sqrt(squares_of<T, G>(x));
    sigma = sigma > SvdRange<T>::FLOOR ? sigma : 0.0;
    const int to = rank_of<G>(sigma, s.l);
    const T inverse = sigma > 0.0 ? (T)(1.0 / sigma) : T(0);
    s.value[to] = sigma;
#pragma unroll
    for (int i = 0; i < G; i++)
        x[i] *= inverse;
    __syncwarp();
    batch::column_store<T, G>(s.first + to * S::LD, x);
    __syncwarp();
    batch::column_load<T, G>(x, s.first + s.l * S::LD);
    const int rows = m, cols = n; /* as they lie in the caller's matrix */
    m = bad ? 0 : m;
    n = bad ? 0 : n;
    const int k = m < n ? m : n;
    bool miss = false;
    const bool cut = a.cut.most >= 0;
    const int r = cut && k ? warp_rank(s.value, k, a.cut, b, total, shift, &miss) : k;
    const T value = s.l < r ? (T)scalbn(s.value[s.l], -shift) : T(0);
    if (s.l < k)
        resolve(a.S, b, k, 1).p[s.l] = value;
    T sign = T(1);
    if (WITH_J) /* R2 W = J S: J is what a QR makes of it */
#pragma unroll
        for (int i = 0; i < G; i++)
            q[i] = x[i];
    if (WITH_J)
        warp_upper<T, G>(q, s.second);
    if (a.jobu != 'N') {
        warp_complete<T, G>(s, x, !cut && k > 0 && !(s.value[k - 1] > 0.0));
        reflectors_back<T, G>(s, A, rows, cols);
        tile_apply<T, G>(x, s.first, h1);
        __syncwarp();
        batch::column_store<T, G>(s.first + s.l * S::LD, x);
        __syncwarp();
        sign = tile_sign(s.first + s.l * S::LD, s.row, m);
        tile_vectors<T, G>(k ? resolve(a.U, b, m, k) : A, s.first,
                           a.jobu == 'S' ? sign * value : sign, s.row[s.l], m, r, s.l);
    }
    if (WITH_J) {
        WarpReflector<T> h3;
        warp_orthonormal<T, G>(q, s.first, h3, s.l);
        tile_apply<T, G>(q, s.second, h2);
        batch::column_store<T, G>(s.first + s.l * S::LD, q);
        __syncwarp();
        if (a.jobu == 'N')
            sign = tile_sign(s.first + s.l * S::LD, s.col, n);
        tile_vectors<T, G>(k ? resolve(a.V, b, n, k) : A, s.first,
                           a.jobv == 'S' ? sign * value : sign, s.col[s.l], n, r, s.l);
    }
    if (!here || s.l)
        return;
    if (a.info)
        a.info[b] = !valid ? -1 : bad ? bad : sweeps < 0 ? -2 : miss ? -3 : 0;
    if (a.rank)
        a.rank[b] = r;
    if (a.sweeps)
        a.sweeps[b] = k ? abs(sweeps) : 0;
}

template <class T, int G> status start(const SvdArgs<T> &a, cudaStream_t s) {
    constexpr int64_t per = WARPS * 32 / G;
    return batch::launch(a.jobv != 'N' ? svd_warp_kernel<T, G, true> : svd_warp_kernel<T, G, false>,
                         dim3((unsigned)((a.count + per - 1) / per)), WARPS * 32,
                         per * WarpSvd<T, G>::BYTES, s, a);
}
template <class T> status start_size(const SvdArgs<T> &a, int most, cudaStream_t s) {
    return most <= 8 ? start<T, 8>(a, s) : most <= 16 ? start<T, 16>(a, s) : start<T, 32>(a, s);
}

} // namespace

template <> status launch_svd_warp<double>(const SvdArgs<double> &a, int most, cudaStream_t s) {
    return start_size<double>(a, most, s);
}
template <> status launch_svd_warp<float>(const SvdArgs<float> &a, int most, cudaStream_t s) {
    return start_size<float>(a, most, s);
}

} // namespace lowrank
