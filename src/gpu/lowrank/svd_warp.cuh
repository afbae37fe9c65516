/* Singular value decomposition of matrices with up to G = 8, 16 or 32 rows and columns: G lanes a
 * matrix, a column a lane in registers: rows and columns sorted by size, two QR factorisations,
 * one-sided Jacobi rotations (svd_pairs.cuh), and for right vectors a third QR. */
#ifndef MOAO_GPU_SVD_WARP_CUH
#define MOAO_GPU_SVD_WARP_CUH
#include "qr_warp.cuh"
#include "svd_matrix.cuh"
#include "svd_pairs.cuh"

namespace lowrank {

/* A matrix's shared memory: two tiles, and what its rows and columns are called. */
template <class T, int G> struct WarpSvd {
    T *first, *second; /* tiles: reflectors of the first and second QR */
    double *value;     /* G */
    int *row, *col;    /* where row i and column j went */
    int l, g;          /* lane of the matrix, matrix of the warp */
    static constexpr int LD = WarpTile<T, G>::LD;
    static constexpr size_t BYTES =
        2 * sizeof(T) * WarpTile<T, G>::SIZE + G * (sizeof(double) + 2 * sizeof(int));
};

template <class T, int G> __device__ inline T group_max(T x) {
#pragma unroll
    for (int d = G / 2; d; d >>= 1)
        x = fmax(x, __shfl_xor_sync(0xffffffffu, x, d));
    return x;
}

/* How many keys come before this lane's, in descending order, equal ones by lane. */
template <int G> __device__ inline int rank_of(double key, int l) {
    int before = 0;
#pragma unroll 8
    for (int j = 0; j < G; j++) {
        const double other = __shfl_sync(0xffffffffu, key, j, G);
        before += other > key || (other == key && j < l);
    }
    return before;
}

/* The first tile := A sorted; x: this lane's column of A, scaled. Its rows go by their
 * largest modulus (kept in s.row), its columns by their norms (s.col). */
template <class T, int G> __device__ inline void warp_sort(const WarpSvd<T, G> &s, T *x) {
    double squares = 0.0;
    T top = T(0);
    batch::column_store<T, G>(s.second + s.l * s.LD, x);
#pragma unroll
    for (int i = 0; i < G; i++)
        squares = fma((double)x[i], (double)x[i], squares);
    __syncwarp();
#pragma unroll
    for (int j = 0; j < G; j++)
        top = fmax(top, fabs(s.second[j * s.LD + s.l]));
    const int to = rank_of<G>(squares, s.l);
    s.row[s.l] = rank_of<G>((double)top, s.l);
    s.col[s.l] = to;
    __syncwarp();
#pragma unroll
    for (int i = 0; i < G; i++)
        s.first[to * s.LD + s.row[i]] = x[i];
    __syncwarp();
}

/* QR of a tile in place: R on and above the diagonal, unscaled reflectors below. One copy of this
 * code and of the next one, because what does not fit in the cache of instructions waits for them.
 */
template <class T, int G> __device__ __noinline__ WarpReflector<T> tile_factor(T *tile, int l) {
    alignas(16) T x[G];
    WarpReflector<T> h;
    bool fine;
    T *const mine = tile + l * WarpTile<T, G>::LD;
    __syncwarp();
    batch::column_load<T, G>(x, mine);
    __syncwarp();
    const T tail = tail_of<T, G>(x, &fine);
    warp_factor<T, G>(x, tile, h, tail, l);
    __syncwarp();
    batch::column_store<T, G>(mine, x);
    __syncwarp();
    return h;
}
/* x := Q x by the reflectors of a tile; x goes by way of local memory. */
template <class T, int G>
__device__ __noinline__ void apply_local(T *x, const T *tile, WarpReflector<T> h) {
    alignas(16) T q[G];
#pragma unroll
    for (int i = 0; i < G; i++)
        q[i] = x[i];
    warp_apply<T, G, G - 1>(q, tile, h);
#pragma unroll
    for (int i = 0; i < G; i++)
        x[i] = q[i];
}
template <class T, int G>
__device__ inline void tile_apply(T *x, const T *tile, WarpReflector<T> h) {
    T q[G];
#pragma unroll
    for (int i = 0; i < G; i++)
        q[i] = x[i];
    apply_local<T, G>(q, tile, h);
#pragma unroll
    for (int i = 0; i < G; i++)
        x[i] = q[i];
}
/* x := a column of R^T, R the upper triangle of a tile. */
template <class T, int G> __device__ inline void tile_row(T *x, const T *tile, int l) {
#pragma unroll
    for (int j = 0; j < G; j++)
        x[j] = j >= l ? tile[j * WarpTile<T, G>::LD + l] : T(0);
    __syncwarp();
}

template <class T, int G> __device__ inline double squares_of(const T *x) {
    double s[2] = {0.0, 0.0};
#pragma unroll
    for (int i = 0; i < G; i++)
        s[i % 2] = fma((double)x[i], (double)x[i], s[i % 2]);
    return s[0] + s[1];
}

/* x := R x, R the upper triangle of a tile. */
template <class T, int G> __device__ inline void warp_upper(T *x, const T *tile) {
    constexpr int LD = WarpTile<T, G>::LD, V = 16 / sizeof(T);
#pragma unroll
    for (int j = 0; j < G; j++) {
        const T f = x[j];
#pragma unroll
        for (int i = 0; i <= j; i += V) {
            alignas(16) T c[V];
            batch::vec_load(c, tile + j * LD + i);
#pragma unroll
            for (int e = 0; e < V; e++)
                if (i + e < j)
                    x[i + e] = fma(c[e], f, x[i + e]);
                else if (i + e == j)
                    x[j] = c[e] * f;
        }
        if (j % 4 == 3)
            __syncwarp(); /* bounds how far ahead R is loaded, hence the registers */
    }
}

/* Rotates the columns of a tile until all pairs are orthogonal; the sweeps, times -1 if `most` did
 * not suffice. */
template <class T, int G> __device__ inline int warp_jacobi(T *tile, int most) {
    constexpr double EPS = SvdRange<T>::EPS, FLOOR = SvdRange<T>::FLOOR;
    return pairs_jacobi<Pairs<T, 2, G / 2, G / 2>>(tile, WarpTile<T, G>::LD,
                                                   pair_bounds(10.0 * EPS, FLOOR * FLOOR, G),
                                                   1024.0 * EPS * EPS, most);
}

/* For matrices of up to 32 rows and columns; most: bound of both. */
template <class T> status launch_svd_warp(const SvdArgs<T> &a, int most, cudaStream_t s);

} // namespace lowrank
#endif
