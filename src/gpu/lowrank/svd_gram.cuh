/* Rotations of a pair of blocks of 32 columns by way of their Gram matrix: G = X^T X by FP64 tensor
 * cores, a sweep of one-sided rotations on the columns of G J and J together (svd_quads.cuh: J is
 * the product of the rotations so far, entry (x, y) of J^T G J the product of column x of J and
 * column y of G J), X := X J by tensor cores. The angles are those that rotations of X itself would
 * have, up to roundings in proportion to both columns' norms, and J is orthogonal whatever they
 * are: an angle that is worth little costs another rotation, nothing else. By one thread block. */
#ifndef MOAO_GPU_SVD_GRAM_CUH
#define MOAO_GPU_SVD_GRAM_CUH
#include "qr_block.cuh"
#include "svd_quads.cuh"

namespace lowrank {

struct Gram {
    typedef Quads<double, 16, 16, 8, true> Q;
    static constexpr int BLOCK = 32, W = 2 * BLOCK, THREADS = Q::THREADS, BLOCKS = 2;
    static constexpr int ROWS = 16; /* X has a multiple of these, zero where there is nothing */
    /* Leading dimensions in shared memory: G is read along rows and columns, J in pairs of rows. */
    static constexpr int LDG = W + 1, LDJ = W + 8;
    static constexpr int ROOM = 2 * W * LDG; /* doubles: two parts of G; what moves; J */
    static constexpr size_t SHARED = sizeof(double) * (Q::SCALARS + ROOM);
    static_assert(Q::COLS == W && Q::ROWS == 2 * W && Q::BUFFER <= ROOM && W * LDJ <= ROOM, "");
};

/* The columns of a pair, as they lie in memory: column k at x + k ld, from BLOCK on at y + (k -
 * BLOCK) ld. */
template <class T> struct GramPair {
    T *x, *y;
    int64_t ld;
    int rows; /* a multiple of Gram::ROWS */
    __device__ T *column(int k) const {
        return k < Gram::BLOCK ? x + k * ld : y + (k - Gram::BLOCK) * ld;
    }
};

/* Two neighbours, at an even place. */
template <class T> struct alignas(2 * sizeof(T)) Two { T first, second; };
template <class T> __device__ inline void load_two(double *to, const T *from) {
    const Two<T> v = *(const Two<T> *)from;
    to[0] = (double)v.first, to[1] = (double)v.second;
}
template <class T> __device__ inline void store_two(T *to, double first, double second) {
    *(Two<T> *)to = Two<T>{(T)first, (T)second};
}

/* Tiles (16 x 8) of the upper triangle of G: of row tile i those from column tile 2 i on. Row tiles
 * 0 and 3 are one half of them, 1 and 2 the other. */
template <int HALF, class F> __device__ inline void gram_tiles(F each) {
    int at = 0;
#pragma unroll
    for (int i = 0; i < Gram::W / 16; i++)
        if ((i == 1 || i == 2) == (HALF == 1))
#pragma unroll
            for (int j = 2 * i; j < Gram::W / 8; j++)
                each(at++, i, j);
}
constexpr int GRAM_TILES = 10; /* of a half */

/* Half of the tiles of X^T X: of every `step`-th eight rows from `row` on. The rows of a fragment
 * are taken in an order in which a thread loads two at once. */
template <int HALF, class T>
__device__ inline void gram_product(double (&acc)[GRAM_TILES][4], const GramPair<T> &p, int row,
                                    int step, int lane) {
    const int64_t at = 2 * (lane % 4) + (lane / 4) * p.ld;
#pragma unroll 1
    for (; row < p.rows; row += step) {
        double f[Gram::W / 8][2];
#pragma unroll
        for (int c = 2 * HALF; c < Gram::W / 8; c++)
            load_two(f[c], p.column(8 * c) + row + at);
        gram_tiles<HALF>([&](int t, int i, int j) {
            const double a[4] = {f[2 * i][0], f[2 * i + 1][0], f[2 * i][1], f[2 * i + 1][1]};
            tensor(acc[t], a, f[j]);
        });
    }
}
template <int HALF, bool ADD>
__device__ inline void gram_put(const double (&acc)[GRAM_TILES][4], double *g, int lane) {
    gram_tiles<HALF>([&](int t, int i, int j) {
#pragma unroll
        for (int e = 0; e < 4; e++) {
            double *to = g + 16 * i + lane / 4 + (e >> 1) * 8 +
                         (8 * j + 2 * (lane % 4) + (e & 1)) * Gram::LDG;
            *to = ADD ? *to + acc[t][e] : acc[t][e];
        }
    });
}
template <bool ADD>
__device__ inline void gram_put(bool half, const double (&acc)[GRAM_TILES][4], double *g,
                                int lane) {
    if (half)
        gram_put<1, ADD>(acc, g, lane);
    else
        gram_put<0, ADD>(acc, g, lane);
}
/* The upper triangle of G in two parts, whose sum it is. Odd warps have the second half of the
 * tiles; all meet at the same barriers. */
template <class T> __device__ inline void gram_make(const GramPair<T> &p, double *s) {
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32, part = warp / 2;
    const bool half = warp % 2;
    double acc[GRAM_TILES][4] = {};
    double *const g = s + part % 2 * (Gram::W * Gram::LDG);
    if (half)
        gram_product<1>(acc, p, 8 * part, 8 * (Gram::THREADS / 64), lane);
    else
        gram_product<0>(acc, p, 8 * part, 8 * (Gram::THREADS / 64), lane);
    if (part < 2)
        gram_put<false>(half, acc, g, lane);
    __syncthreads();
    if (part >= 2)
        gram_put<true>(half, acc, g, lane);
    __syncthreads();
}

/* Column j of G and of the identity. */
__device__ inline void gram_column(double *c, const double *s, int j, int r) {
    constexpr int A = Gram::Q::A / 2, R = Gram::Q::R;
#pragma unroll
    for (int a = 0; a < A; a++) {
        const int i = a * R + r, at = i < j ? i + j * Gram::LDG : j + i * Gram::LDG;
        c[a] = s[at] + s[at + Gram::W * Gram::LDG];
        c[A + a] = i == j ? 1.0 : 0.0;
    }
}
__device__ inline void gram_load(Gram::Q &c, const double *s) {
    const int up = c.upper();
    c.jx = 2 * c.g + up, c.jy = Gram::BLOCK + 2 * c.g + up;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        gram_column(c.x[i], s, c.jx ^ i, c.r);
        gram_column(c.y[i], s, c.jy ^ i, c.r);
    }
    c.dx = c.dy = 1.0;
    quads_squares(c);
}
/* J, after a sweep. */
__device__ inline void gram_store(const Gram::Q &c, double *s) {
    constexpr int A = Gram::Q::A / 2, R = Gram::Q::R;
    double *const x0 = s + c.jx * Gram::LDJ + c.r,
                  *const x1 = s + other_half<Gram::Q>(c.jx) * Gram::LDJ + c.r,
                  *const y1 = s + c.jy * Gram::LDJ + c.r,
                  *const y0 = s + other_half<Gram::Q>(c.jy) * Gram::LDJ + c.r;
#pragma unroll
    for (int a = 0; a < A; a++) {
        x0[a * R] = c.x[0][A + a], x1[a * R] = c.x[1][A + a];
        y0[a * R] = c.y[0][A + a], y1[a * R] = c.y[1][A + a];
    }
}

/* 16 rows and columns of X, from `row` and k on, as left operands of two products. */
template <class T>
__device__ inline void gram_fetch(double (&a)[2][4], const GramPair<T> &p, int row, int k,
                                  int lane) {
#pragma unroll
    for (int s = 0; s < 2; s++)
#pragma unroll
        for (int e = 0; e < 2; e++)
            load_two(a[s] + 2 * e,
                     p.column(k + 8 * s) + (2 * (lane % 4) + e) * p.ld + row + 2 * (lane / 4));
}
/* X := X J; a warp works on 16 rows at a time. */
template <class T> __device__ inline void gram_apply(const GramPair<T> &p, const double *s) {
    const int lane = (int)threadIdx.x % 32;
#pragma unroll 1
    for (int row = 16 * ((int)threadIdx.x / 32); row < p.rows; row += Gram::THREADS / 2) {
        double acc[Gram::W / 8][4] = {}, now[2][4], next[2][4];
        gram_fetch(next, p, row, 0, lane);
#pragma unroll
        for (int k = 0; k < Gram::W; k += 16) {
#pragma unroll
            for (int e = 0; e < 8; e++)
                now[e / 4][e % 4] = next[e / 4][e % 4];
            if (k + 16 < Gram::W)
                gram_fetch(next, p, row, k + 16, lane);
#pragma unroll
            for (int h = 0; h < 2; h++)
#pragma unroll
                for (int t = 0; t < Gram::W / 8; t++) {
                    double b[2];
                    load_two(b, s + k + 8 * h + 2 * (lane % 4) + (8 * t + lane / 4) * Gram::LDJ);
                    tensor(acc[t], now[h], b);
                }
        }
#pragma unroll
        for (int t = 0; t < Gram::W / 8; t++)
#pragma unroll
            for (int e = 0; e < 2; e++)
                store_two(p.column(8 * t) + (2 * (lane % 4) + e) * p.ld + row + 2 * (lane / 4),
                          acc[t][e], acc[t][e + 2]);
    }
}

/* Rotates the columns of two blocks, those inside a block too if `within`; squares_x, squares_y:
 * squares of each column at their largest; a column of less than `noise` times them becomes zero.
 * s: Gram::SHARED bytes of shared memory. Whether a rotation was large. */
template <class T>
__device__ inline bool gram_rotate(const GramPair<T> &p, bool within, const Bounds &d, double noise,
                                   double *squares_x, double *squares_y, double *s) {
    Gram::Q c;
    double *const buffer = s + Gram::Q::SCALARS;
    Exchange<double> e = {{buffer, buffer + Gram::Q::BUFFER / 2}, s, 0};
    gram_make(p, buffer);
    gram_load(c, buffer);
    double *const at_x = squares_x + c.jx, *const at_y = squares_y + c.jy - Gram::BLOCK;
    double most_x = *at_x, most_y = *at_y;
    const bool dropped = quads_drop(c, noise, most_x, most_y);
    __syncthreads();
    if (c.r % (c.R / 2) == 0)
        *at_x = most_x, *at_y = most_y;
    const unsigned lanes = quads_sweep(c, within, d, e);
    const bool large = __syncthreads_or(lanes != 0);
    if (!__syncthreads_or(c.rotated || dropped))
        return large;
    gram_store(c, buffer);
    __syncthreads();
    gram_apply(p, buffer);
    return large;
}

} // namespace lowrank
#endif
