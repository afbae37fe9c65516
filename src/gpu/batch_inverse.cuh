/* Inverses from Cholesky factors, orders 9 to 64, FP64, in the layout of batch_factor.cuh. */
#ifndef MOAO_GPU_BATCH_INVERSE_CUH
#define MOAO_GPU_BATCH_INVERSE_CUH
#include "batch_warp.cuh"

namespace batch {

/* L in shared memory: panels of 16 columns, column-major, leading dimensions 4 (mod 16), where the
 * tensor cores' fragments meet no bank twice; from order 32 on each panel begins with its diagonal
 * block. G lanes a matrix, H rows a lane. */
template <int N> struct Packed {
    static constexpr int H = N == 16 ? 1 : 2, G = N / H, PER_WARP = 32 / G, P = 16, PANELS = N / P;
    static constexpr int WARPS = N == 16 ? 4 : 1; /* of a thread block */
    static constexpr bool SHORT = N > 16;
    static __host__ __device__ constexpr int ld(int p) {
        return N - P * p + 4;
    }
    /* where element (0, 16 p) would be */
    static __host__ __device__ constexpr int at(int p) {
        return P * (p * (N + 4) - P * (p * (p - 1) / 2)) - P * p;
    }
    static __device__ int column(int j) {
        return at(j / P) + j % P * ld(j / P);
    }
    /* numbers a matrix; with the rest the matrices of a warp lie in different banks */
    static constexpr int SIZE = P * (N + 4) * PANELS - P * P * (PANELS * (PANELS - 1) / 2) +
                                (N == 64   ? 0
                                 : N == 32 ? 2
                                           : 8);
};

/* One matrix, as seen by one lane. */
template <int N> struct Factor {
    static constexpr int H = Packed<N>::H;
    Ref<double> A;
    double *s; /* L */
    int n, l, lane;
    bool solve; /* there is a right-hand side */
    double r[H][16], d[H],
        iv[H];   /* rows in the panel, their diagonal elements, reciprocals of L's */
    double b[H]; /* right-hand side, entries of these rows */
};

/* Calls f(q, p, in) for the lower triangle of order N, in the direction in which A is adjacent in
 * memory: q where the element lies, p where it comes from, if it is inside. */
template <int N, class F> __device__ inline void for_triangle(const Factor<N> &f, F g) {
    using L = Packed<N>;
    constexpr int G = L::G;
#pragma unroll
    for (int h = 0; h < L::H; h++) {
        const int k = f.l + h * G; /* this lane's row, or column */
        double *p = f.A.along_i ? f.A.at(k, 0) : f.A.at(h * G, k);
        if (f.A.along_i) {
            const bool in = k < f.n;
#pragma unroll
            for (int P = 0; P < L::PANELS; P++)
#pragma unroll 8
                for (int c = 0; c < 16; c++, p += f.A.sj)
                    if (16 * P + c < (h + 1) * G && (h * G >= 16 * P + 15 || k >= 16 * P + c))
                        g(f.s + L::at(P) + c * L::ld(P) + k, p, in);
        } else {
            double *q = f.s + L::column(k) + h * G;
#pragma unroll 8
            for (int i = h * G; i < N; i++, q++, p += f.A.si)
                if (i >= k)
                    g(q, p, i < f.n);
        }
    }
}
/* From and to memory; rows beyond n are zero. */
template <int N> __device__ inline void triangle_stage(const Factor<N> &f) {
    using L = Packed<N>;
    if (L::H == 2 && __all_sync(0xffffffffu, is_wide(f.A) && f.n == N)) { /* two rows a lane */
        const double *p = f.A.at(2 * f.l, 0);
#pragma unroll
        for (int P = 0; P < L::PANELS; P++)
#pragma unroll 8
            for (int c = 0; c < 16; c++, p += f.A.sj)
                if (2 * f.l >= 16 * P + c)
                    stage_wide(f.s + L::at(P) + c * L::ld(P) + 2 * f.l, p);
#pragma unroll
        for (int h = 0; h < L::H; h++) /* odd columns begin between two such pairs */
            if (f.l % 2)
                stage(f.s + L::column(f.l + h * L::G) + f.l + h * L::G,
                      f.A.at(f.l + h * L::G, f.l + h * L::G));
    } else {
        for_triangle<N>(f, [](double *q, const double *p, bool in) { stage(q, p, in); });
    }
    stage_commit();
    stage_wait<0>();
    __syncwarp();
}
template <int N> __device__ inline void triangle_write(const Factor<N> &f) {
    for_triangle<N>(f, [](const double *q, double *p, bool in) {
        if (in)
            *p = *q;
    });
}

/* The inverse from L, order 16: lane l solves for column l, which is row l too. */
__device__ inline void inverse_whole(const Factor<16> &f, const double *inv) {
    constexpr int LD = Packed<16>::ld(0);
    double x[16];
    unit_column<double, 16>(x, f.l);
    solve_lower<double, 16>(x, f.s, LD, inv);
    solve_lower_trans<double, 16, LD>(x, f.s, inv);
#pragma unroll
    for (int i = 0; i < 16; i++)
        if (f.A.along_i ? i <= f.l && f.l < f.n : i >= f.l && i < f.n)
            *(f.A.along_i ? f.A.at(f.l, i) : f.A.at(i, f.l)) = x[i];
}

/* --- orders 32 and 64: blocks of 16 through the tensor cores --- */

/* J + 1 accumulators of 16 x 16 to blocks (I, 0) to (I, J), with a sign */
template <int N, int I, int J>
__device__ inline void blocks_store(double *s, const double (*c)[2][4], double sign, int lane) {
    using L = Packed<N>;
#pragma unroll
    for (int j = 0; j <= J; j++)
#pragma unroll
        for (int t = 0; t < 2; t++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                s[L::at(j) + 16 * I + (e >> 1) * 8 + lane / 4 +
                  (t * 8 + 2 * (lane % 4) + (e & 1)) * L::ld(j)] = sign * c[j][t][e];
}

/* c[j] += A (block K, j) for j = 0 to J; element (m, k) of the 16 x 16 block A at a[m mi + k ki] */
template <int N, int J>
__device__ inline void blocks_product(double (*c)[2][4], const double *a, int mi, int ki,
                                      const double *s, int K, int lane) {
    using L = Packed<N>;
    a += lane / 4 * mi + lane % 4 * ki;
#pragma unroll
    for (int h = 0; h < 16; h += 8) {
        double x[4];
#pragma unroll
        for (int e = 0; e < 4; e++)
            x[e] = a[(e & 1) * 8 * mi + (h + (e >> 1) * 4) * ki];
#pragma unroll
        for (int j = 0; j <= J; j++) {
            const double *p = s + L::at(j) + 16 * K + h + lane % 4 + lane / 4 * L::ld(j);
#pragma unroll
            for (int t = 0; t < 2; t++) {
                const double b[2] = {p[t * 8 * L::ld(j)], p[t * 8 * L::ld(j) + 4]};
                tensor(c[j][t], x, b);
            }
        }
    }
}

/* The following work on the matrices of one warp, from s on, side by side. */

/* Diagonal blocks of L to their inverses, a half warp each; inv: reciprocals of the diagonals. */
template <int N> __device__ inline void inverse_diagonal(double *s, const double *inv, int lane) {
    using L = Packed<N>;
#pragma unroll 1
    for (int q = lane / 16; q < L::PANELS * L::PER_WARP; q += 2) {
        const int d = q % L::PANELS, g = q / L::PANELS;
        double *D = s + g * L::SIZE + L::at(d) + 16 * d;
        alignas(16) double x[16];
        unit_column<double, 16>(x, lane % 16);
        solve_lower<double, 16>(x, D, L::ld(d), inv + g * N + 16 * d);
        __syncwarp();
        column_store<double, 16>(D + lane % 16 * L::ld(d), x);
        __syncwarp();
    }
}

/* Block row I of X = L^-1 in place: X_Ij = -X_II sum_{j <= k < I} L_Ik X_kj */
template <int N, int I> __device__ inline void inverse_row(double *s, int lane) {
    using L = Packed<N>;
    constexpr int M = L::PER_WARP;
    double c[M][I][2][4] = {}, x[M][I][2][4] = {};
#pragma unroll
    for (int g = 0; g < M; g++) {
        double *p = s + g * L::SIZE;
        blocks_product<N, 0>(c[g], p + L::at(0) + 16 * I, 1, L::ld(0), p, 0, lane);
        if constexpr (I > 1)
            blocks_product<N, 1>(c[g], p + L::at(1) + 16 * I, 1, L::ld(1), p, 1, lane);
        if constexpr (I > 2)
            blocks_product<N, 2>(c[g], p + L::at(2) + 16 * I, 1, L::ld(2), p, 2, lane);
    }
    __syncwarp();
#pragma unroll
    for (int g = 0; g < M; g++)
        blocks_store<N, I, I - 1>(s + g * L::SIZE, c[g], 1.0, lane);
    __syncwarp();
#pragma unroll
    for (int g = 0; g < M; g++) {
        double *p = s + g * L::SIZE;
        blocks_product<N, I - 1>(x[g], p + L::at(I) + 16 * I, 1, L::ld(I), p, I, lane);
    }
    __syncwarp();
#pragma unroll
    for (int g = 0; g < M; g++)
        blocks_store<N, I, I - 1>(s + g * L::SIZE, x[g], -1.0, lane);
    __syncwarp();
}

/* Block row I of X^T X in place: the sum over k >= I of X_kI^T X_kj. */
template <int N, int I> __device__ inline void square_row(double *s, int lane) {
    using L = Packed<N>;
    constexpr int M = L::PER_WARP;
    double c[M][I + 1][2][4] = {};
#pragma unroll
    for (int g = 0; g < M; g++)
#pragma unroll
        for (int k = I; k < N / 16; k++) {
            double *p = s + g * L::SIZE;
            blocks_product<N, I>(c[g], p + L::at(I) + 16 * k, L::ld(I), 1, p, k, lane);
        }
    __syncwarp();
#pragma unroll
    for (int g = 0; g < M; g++)
        blocks_store<N, I, I>(s + g * L::SIZE, c[g], 1.0, lane);
    __syncwarp();
}

/* L's of a warp, from `first` on, to the inverses. */
template <int N>
__device__ inline void inverse_whole(const Factor<N> &f, double *first, const double *inv) {
    inverse_diagonal<N>(first, inv, f.lane);
    inverse_row<N, 1>(first, f.lane);
    if constexpr (N > 32) {
        inverse_row<N, 2>(first, f.lane);
        inverse_row<N, 3>(first, f.lane);
    }
    square_row<N, 0>(first, f.lane);
    square_row<N, 1>(first, f.lane);
    if constexpr (N > 32) {
        square_row<N, 2>(first, f.lane);
        square_row<N, 3>(first, f.lane);
    }
    triangle_write<N>(f);
}

} // namespace batch
#endif
