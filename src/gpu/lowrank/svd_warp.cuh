/* Singular value decomposition of matrices with up to G = 8, 16 or 32 rows and columns: G lanes a
 * matrix, a column a lane, everything in registers: rows and columns sorted by size, two QR
 * factorisations, then one-sided Jacobi in which column l meets column l XOR s: columns stay where
 * they are, the partner's comes by shuffles, dot products need no reduction. */
#ifndef MOAO_GPU_SVD_WARP_CUH
#define MOAO_GPU_SVD_WARP_CUH
#include "qr_warp.cuh"
#include "svd_matrix.cuh"

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

/* x: this lane's column of A, scaled; afterwards that of the sorted matrix. Its rows go by their
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
    batch::column_load<T, G>(x, s.first + s.l * s.LD);
    __syncwarp();
}

/* x: a column of R with its reflector below; becomes a column of R^T, by way of the upper triangle
 * of the tile, whose lower one keeps the reflectors. */
template <class T, int G> __device__ inline void warp_transpose(T *x, T *tile, int l) {
    constexpr int LD = WarpTile<T, G>::LD;
    __syncwarp();
#pragma unroll
    for (int i = 0; i < G; i++)
        if (i <= l)
            tile[l * LD + i] = x[i];
    __syncwarp();
#pragma unroll
    for (int j = 0; j < G; j++)
        x[j] = j >= l ? tile[j * LD + l] : T(0);
    __syncwarp();
}

/* Squares of a column below its first entry. */
template <class T, int G> __device__ inline T below_first(const T *x) {
    bool fine;
    return tail_of<T, G>(x, &fine);
}

template <class T, int G> __device__ inline double squares_of(const T *x) {
    double s[2] = {0.0, 0.0};
#pragma unroll
    for (int i = 0; i < G; i++)
        s[i % 2] = fma((double)x[i], (double)x[i], s[i % 2]);
    return s[0] + s[1];
}

/* Step s of a sweep. a: squares of this lane's column. Returns the lanes that were rotated; others
 * keep their bits. */
template <class T, int G, bool WITH_J>
__device__ inline unsigned warp_rotate(T *x, T *q, double &a, int s, double tol, int l) {
    T y[G];
    double p[2] = {0.0, 0.0};
#pragma unroll
    for (int i = 0; i < G; i++) {
        y[i] = __shfl_xor_sync(0xffffffffu, x[i], s);
        p[i % 2] = fma((double)x[i], (double)y[i], p[i % 2]); /* the same bits in both lanes */
    }
    const double product = p[0] + p[1], b = __shfl_xor_sync(0xffffffffu, a, s), root = root_of(a),
                 other = __shfl_xor_sync(0xffffffffu, root, s);
    const bool low = l < (l ^ s);
    const bool rotate = fabs(product) > tol * (root * other) && root > SvdRange<T>::FLOOR &&
                        other > SvdRange<T>::FLOOR;
    const unsigned lanes = __ballot_sync(0xffffffffu, rotate);
    if (lanes == 0)
        return 0;
    T c = T(1), f = T(0);
    if (rotate) {
        const Rotation r = low ? rotation(a, b, product) : rotation(b, a, product);
        c = (T)r.c;
        f = (T)(low ? -r.s : r.s);
        a = fmax(fma(low ? -r.t : r.t, product, a), 0.0);
#pragma unroll
        for (int i = 0; i < G; i++)
            x[i] = fma(f, y[i], c * x[i]);
    }
    if (WITH_J)
#pragma unroll
        for (int i = 0; i < G; i++) {
            const T z = __shfl_xor_sync(0xffffffffu, q[i], s), turned = fma(f, z, c * q[i]);
            q[i] = rotate ? turned : q[i];
        }
    return lanes;
}

/* Rotates until no pair of the warp's matrices needs it; whether this matrix came to that. A column
 * of which only rounding errors are left becomes zero (see drop_noise). */
template <class T, int G, bool WITH_J>
__device__ inline bool warp_jacobi(T *x, T *q, int l, int g) {
    constexpr double EPS = SvdRange<T>::EPS, TOL = 10.0 * EPS, NOISE = 1024.0 * EPS * EPS;
    const unsigned mine = G == 32 ? 0xffffffffu : ((1u << (G & 31)) - 1u) << (g * G);
    double most = 0.0;
    unsigned lanes = 0;
    for (int sweep = 0; sweep < SWEEPS; sweep++) {
        double a = squares_of<T, G>(x);
        most = fmax(most, a);
        if (a > 0.0 && a <= NOISE * most) {
            a = 0.0;
#pragma unroll
            for (int i = 0; i < G; i++)
                x[i] = T(0);
        }
        lanes = 0;
        for (int s = 1; s < G; s++) {
            lanes |= warp_rotate<T, G, WITH_J>(x, q, a, s, TOL, l);
            if (s % 8 == 0)
                a = squares_of<T, G>(x); /* what is carried along loses accuracy */
        }
        if (lanes == 0)
            break;
    }
    return (lanes & mine) == 0;
}

/* For matrices of up to 32 rows and columns; most: bound of both. */
template <class T> status launch_svd_warp(const SvdArgs<T> &a, int most, cudaStream_t s);

} // namespace lowrank
#endif
