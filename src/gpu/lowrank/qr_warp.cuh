/* Householder QR of matrices with up to G = 8, 16 or 32 rows and columns: G lanes a matrix, a
 * column a lane, in registers. Each reflector goes through shared memory, where all lanes read it
 * as 16-byte broadcasts; every lane makes its own dot product, update and sum of squares. */
#ifndef MOAO_GPU_QR_WARP_CUH
#define MOAO_GPU_QR_WARP_CUH
#include "gpu/batch/batch_warp.cuh"
#include "qr_block.cuh"

namespace lowrank {

/* A matrix in shared memory: odd multiples of 16 bytes between columns and between matrices. */
template <class T, int G> struct WarpTile {
    static constexpr int V = 16 / sizeof(T), LD = G + V, SIZE = G * LD + V;
};

template <class T> __device__ inline void vec_store(T *s, const T *x) {
    *(typename batch::Vec<T>::type *)s = *(const typename batch::Vec<T>::type *)x;
}

/* What one lane knows of its column's reflector. */
template <class T> struct WarpReflector {
    T tau, scale; /* v = 1, and scale times what is stored below the diagonal */
};

/* Rows above FROM are left out; the pairs (V a vector) that begin inside are masked. */
template <class T, int G, int FROM> __device__ inline T tail_dot(const T *v, const T *x) {
    constexpr int V = 16 / sizeof(T);
    T d[2] = {T(0), T(0)};
#pragma unroll
    for (int i = FROM / V * V; i < G; i += V) {
        alignas(16) T c[V];
        batch::vec_load(c, v + i);
#pragma unroll
        for (int e = 0; e < V; e++)
            if (i + e >= FROM)
                d[i / V % 2] += c[e] * x[i + e];
    }
    return d[0] + d[1];
}
/* x -= f v from row FROM on; returns the squares of x from row FROM + 1 on. */
template <class T, int G, int FROM> __device__ inline T tail_update(const T *v, T *x, T f) {
    constexpr int V = 16 / sizeof(T);
    T s[2] = {T(0), T(0)};
#pragma unroll
    for (int i = FROM / V * V; i < G; i += V) {
        alignas(16) T c[V];
        batch::vec_load(c, v + i);
#pragma unroll
        for (int e = 0; e < V; e++) {
            if (i + e >= FROM)
                x[i + e] -= f * c[e];
            if (i + e > FROM)
                s[i / V % 2] += x[i + e] * x[i + e];
        }
    }
    return s[0] + s[1];
}

/* Steps J and later of the factorisation; s: squares of this column below row J. */
template <class T, int G, int J>
__device__ inline void warp_steps(T *x, T *tile, WarpReflector<T> &mine, T s, int l) {
    constexpr int LD = WarpTile<T, G>::LD;
    const Reflector<T> h =
        reflector(__shfl_sync(0xffffffffu, x[J], J, G), __shfl_sync(0xffffffffu, s, J, G));
    T next = T(0);
    if (l == J) {
        mine.tau = h.tau;
        mine.scale = h.scale;
        constexpr int V = WarpTile<T, G>::V;
#pragma unroll
        for (int i = (J + 1) / V * V; i < G; i += V)
            vec_store(tile + J * LD + i, x + i);
    }
    __syncwarp();
    if constexpr (J + 1 < G) {
        const T *v = tile + J * LD;
        const T d = tail_dot<T, G, J + 1>(v, x), f = h.tau * fma(h.scale, d, x[J]);
        next = tail_update<T, G, J + 1>(v, x, l > J ? f * h.scale : T(0));
        x[J] = l > J ? x[J] - f : x[J];
    }
    x[J] = l == J ? h.beta : x[J];
    if constexpr (J + 1 < G)
        warp_steps<T, G, J + 1>(x, tile, mine, next, l);
}

/* x (this lane's column; zero outside the matrix) becomes R on and above the diagonal and,
 * unscaled, the tail of the column's reflector below; the tails are in the tile too. tail: squares
 * of the column below its first entry. */
template <class T, int G>
__device__ inline void warp_factor(T *x, T *tile, WarpReflector<T> &mine, T tail, int l) {
    mine.tau = mine.scale = T(0);
    warp_steps<T, G, 0>(x, tile, mine, tail, l);
}

/* q := H_0 ... H_J q */
template <class T, int G, int J>
__device__ inline void warp_apply(T *q, const T *tile, const WarpReflector<T> &mine) {
    constexpr int LD = WarpTile<T, G>::LD;
    const T tau = __shfl_sync(0xffffffffu, mine.tau, J, G),
            scale = __shfl_sync(0xffffffffu, mine.scale, J, G);
    if constexpr (J + 1 < G) {
        const T *v = tile + J * LD;
        const T f = tau * fma(scale, tail_dot<T, G, J + 1>(v, q), q[J]);
        q[J] -= f;
        tail_update<T, G, J + 1>(v, q, f * scale);
    } else {
        q[J] -= tau * q[J];
    }
    if (J % 4 == 0)
        __syncwarp(); /* bounds how far ahead the vectors are loaded, hence the registers */
    if constexpr (J > 0)
        warp_apply<T, G, J - 1>(q, tile, mine);
}

/* Squares of a column below its first entry, and whether all of it is finite. */
template <class T, int G> __device__ inline T tail_of(const T *x, bool *finite) {
    T s[2] = {T(0), T(0)};
    bool fine = fabs(x[0]) <= Squares<T>::TOP;
#pragma unroll
    for (int i = 1; i < G; i++) {
        s[i % 2] += x[i] * x[i];
        fine = fine && fabs(x[i]) <= Squares<T>::TOP;
    }
    *finite = fine;
    return s[0] + s[1];
}

/* Brings a finite column whose squares leave the range near 1: returns e, x was multiplied by 2^-e;
 * tail is made anew. */
template <class T, int G> __device__ inline int column_scale(T *x, T *tail) {
    T top = T(0);
#pragma unroll
    for (int i = 0; i < G; i++)
        top = fmax(top, fabs(x[i]));
    if (!(top > T(0)))
        return 0;
    const int e = ilogb(top);
    T s = T(0);
#pragma unroll
    for (int i = 0; i < G; i++) {
        x[i] = scalbn(x[i], -e);
        s += i ? x[i] * x[i] : T(0);
    }
    *tail = s;
    return e;
}

enum { GEQRF, FULL_Q, ONLY_R, ORGQR, ORMQR };

/* A, and tau of geqrf or R of qr. */
template <class T> struct QrWarpArgs {
    Mat<T> A, R, tau;
    Dim m, n;
    int *info;
    int64_t count;
    bool pending; /* only matrices that qr_pending */
};
/* A matrix (not of size 0) that launch_qr_gram left alone: by a sign that no R, no tau of geqrf,
 * has.
 */
template <class T> __device__ inline bool qr_pending(const Ref<T> &R) {
    return *R.p < T(0);
}
/* For matrices of up to 32 rows and columns; most: bound of both. op: the first three. */
template <class T> status launch_qr_warp(int op, const QrWarpArgs<T> &a, int most, cudaStream_t s);
/* The same for matrices of at most rows x cols, for which qr_grid_fits (qr_grid_kernel.cuh).
 * *served, here and below: whether a block has the shared memory; else nothing is done. */
template <class T>
status launch_qr_grid(int op, const QrWarpArgs<T> &a, int64_t rows, int64_t cols, cudaStream_t s,
                      bool *served);
/* Of at most 512 x 64. */
template <class T>
status launch_qr_twice(int op, const QrWarpArgs<T> &a, cudaStream_t s, bool *served);
constexpr size_t QR_TWICE_BYTES = 140 * 1024; /* of shared memory, at most */
/* C := op(Q) C, the k vectors in A (m x k), C m x n; at most 512 rows. */
template <class T> struct QrApply {
    Mat<T> A, tau, C;
    Dim m, n, k;
    bool trans;
    int64_t count;
};
template <class T>
status launch_qr_apply(const QrApply<T> &a, int64_t rows, cudaStream_t s, bool *served);
inline bool qr_grid_fits(int64_t rows, int64_t cols) {
    return (rows <= 128 && cols <= (rows <= 64 ? 64 : 128)) || (rows <= 256 && cols <= 64) ||
           (rows <= 512 && cols <= 32);
}

constexpr size_t QR_GRAM_BYTES = 128 * 1024; /* of shared memory for 96 columns, at most */
/* What a grid of threads holds is done there in less time, but for tall ones with Q. */
inline bool qr_gram_fits(int op, int64_t rows, int64_t cols) {
    const int64_t least = op == FULL_Q ? 129 : 513; /* rows */
    const bool tall = op == FULL_Q && rows >= 256 && cols > 16 && cols <= 32;
    const int64_t most = op == GEQRF ? 32 : QR_GRAM_BYTES <= gpu_shared_most() ? 96 : 64;
    return cols <= most && rows >= (cols > 64 ? 2 : 4) * cols && rows >= least &&
           (tall || !qr_grid_fits(rows, cols));
}

/* QR of tall matrices by their Gram matrix (qr_gram_kernel.cuh), columns up to cols;
 * the others are pending. */
template <class T>
status launch_qr_gram(int op, const QrWarpArgs<T> &a, int64_t cols, cudaStream_t s);
/* Does qr with job 'R' leave matrices of at most rows x cols as they are? */
inline bool qr_keeps(int64_t rows, int64_t cols) {
    return qr_grid_fits(rows, cols) ||
           (rows <= 512 && cols <= 64 && QR_TWICE_BYTES <= gpu_shared_most());
}

} // namespace lowrank
#endif
