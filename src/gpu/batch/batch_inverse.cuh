/* Inverses from Cholesky factors, orders 9 to 64, FP64, in the layout of batch_factor.cuh. */
#ifndef MOAO_GPU_BATCH_INVERSE_CUH
#define MOAO_GPU_BATCH_INVERSE_CUH
#include "batch_warp.cuh"

namespace batch {

/* L in shared memory: panels of 16 columns, column-major, leading dimensions 2 (mod 16), where
 * columns side by side and, with two columns of the sum together, the tensor cores' fragments meet
 * no bank twice; from order 32 on each panel begins with its diagonal block. G lanes a matrix, H
 * rows a lane. */
template <int N> struct Packed {
    static constexpr int H = N == 16 ? 1 : 2, G = N / H, PER_WARP = 32 / G, P = 16, PANELS = N / P;
    static constexpr int WARPS = N == 16 ? 4 : 1; /* of a thread block */
    static constexpr bool SHORT = N > 16;
    static __host__ __device__ constexpr int ld(int p) {
        return N - P * p + 2;
    }
    /* where element (0, 16 p) would be */
    static __host__ __device__ constexpr int at(int p) {
        return P * (p * (N + 2) - P * (p * (p - 1) / 2)) - P * p;
    }
    static __device__ int column(int j) {
        return at(j / P) + j % P * ld(j / P);
    }
    /* where the reciprocals of the diagonal are for the inverse; numbers a matrix: with the rest
     * the matrices of a warp lie in different banks */
    static constexpr int INV = P * (N + 2) * PANELS - P * P * (PANELS * (PANELS - 1) / 2),
                         SIZE = INV + N +
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

/* --- X = L^-1 and X^T X through the tensor cores, blocks of 16, by a whole warp. All products are
 * taken transposed, and index k of a sum stands for 2 k, k + 4 for 2 k + 1: an accumulator then is
 * an operand of the next product as it lies in the registers. --- */

/* The diagonal blocks of the L's of a warp, from s on, to their inverses: blocks of 8 by eight
 * lanes each, joined by X21 = -X22 (L21 X11). Zeros are written above the diagonal of blocks of 8
 * only. */
template <int N> __device__ inline void inverse_diagonal(double *s, int lane) {
    using L = Packed<N>;
    constexpr int B = 2 * L::PANELS; /* blocks of 8 of a matrix */
#pragma unroll 1
    for (int q = lane / 8; q < B * L::PER_WARP; q += 4) {
        const int d = q % B, g = q / B, p = d / 2;
        double *own = s + g * L::SIZE, *D = own + L::at(p) + 16 * p + d % 2 * 8 * (L::ld(p) + 1);
        alignas(16) double x[8];
        unit_column<double, 8>(x, lane % 8);
        solve_lower<double, 8>(x, D, L::ld(p), own + L::INV + 8 * d);
        __syncwarp();
        column_store<double, 8>(D + lane % 8 * L::ld(p), x);
        __syncwarp();
    }
    const int i = lane / 4, k = lane % 4;
#pragma unroll
    for (int q = 0; q < L::PANELS * L::PER_WARP; q++) {
        const int p = q % L::PANELS, ld = L::ld(p);
        double *D = s + q / L::PANELS * L::SIZE + L::at(p) + 16 * p;
        alignas(16) double x[2];
        double c[4] = {}, e[4] = {};
        vec_load(x, D + i * ld + 2 * k);
        const double y[2] = {D[2 * k * ld + 8 + i], D[(2 * k + 1) * ld + 8 + i]},
                     w[2] = {D[(8 + 2 * k) * ld + 8 + i], D[(9 + 2 * k) * ld + 8 + i]},
                     u[4] = {x[0], 0.0, x[1], 0.0};
        tensor(c, u, y);
        const double v[4] = {-c[0], 0.0, -c[1], 0.0};
        tensor(e, v, w);
        __syncwarp();
        vec_load(D + i * ld + 8 + 2 * k, e);
    }
    __syncwarp();
}

/* A lower triangle X of order 16, as the operand X^T from the left and X from the right. */
struct Pairs {
    alignas(16) double p[3][2]; /* of rows 0 and columns 0, 8 and 0, 8 and 8 on: rows 2 k, 2 k + 1,
                                   column i */
    template <bool GIVEN> __device__ void load(const double *x, int ld, int i, int k) {
        vec_load(p[0], x + i * ld + 2 * k);
        vec_load(p[1], x + i * ld + 8 + 2 * k);
        vec_load(p[2], x + (8 + i) * ld + 8 + 2 * k);
#pragma unroll
        for (int e = 0; e < 2; e++)
            if (GIVEN && 2 * k + e < i) /* above the diagonal */
                p[0][e] = p[2][e] = 0.0;
    }
    /* c += A X, A a 16 x 16 operand from the left (see below) */
    __device__ void product(double (*c)[4], const double (*a)[4]) const {
        tensor(c[0], a[0], p[0]);
        tensor(c[0], a[1], p[1]);
        tensor(c[1], a[1], p[2]);
    }
    __device__ void left(double (*a)[4]) const {
#pragma unroll
        for (int e = 0; e < 2; e++) {
            a[0][2 * e] = p[0][e], a[0][2 * e + 1] = 0.0;
            a[1][2 * e] = p[1][e], a[1][2 * e + 1] = p[2][e];
        }
    }
};
/* An accumulator as operand from the left. */
__device__ inline void accumulated_left(double (*a)[4], const double (*c)[4]) {
#pragma unroll
    for (int h = 0; h < 2; h++)
#pragma unroll
        for (int e = 0; e < 2; e++)
            a[h][2 * e] = c[h][e], a[h][2 * e + 1] = c[h][2 + e];
}

/* The transpose of an accumulator (16 x 16) to rows i0, columns j0 on of A; LOWER: its lower
 * triangle. */
template <bool LOWER>
__device__ inline void transposed_write(const Ref<double> &A, const double (*c)[4], int i0, int j0,
                                        int n, bool wide, int i, int k) {
#pragma unroll
    for (int q = 0; q < 2; q++)
#pragma unroll
        for (int h = LOWER ? q : 0; h < 2; h++) {
            const int row = 8 * h + 2 * k, col = i + 8 * q;
            const bool first = (!LOWER || row >= col) && i0 + row < n,
                       second = (!LOWER || row + 1 >= col) && i0 + row + 1 < n;
            double *p = A.at(i0 + row, j0 + col);
            if (wide && first && second) {
                alignas(16) const double x[2] = {c[h][2 * q], c[h][2 * q + 1]};
                vec_load(p, x);
            } else {
                if (first)
                    *p = c[h][2 * q];
                if (second)
                    p[A.si] = c[h][2 * q + 1];
            }
        }
}

/* c += A B^T of blocks of order 16 through the tensor cores: A an operand from the left, B at b,
 * column-major with leading dimension ld; LOWER: a lower triangle; NEG: c -= A B^T. */
template <bool LOWER, bool NEG>
__device__ inline void product_transposed(double (*c)[4], const double (*a)[4], const double *b,
                                          int ld, int i, int k) {
#pragma unroll
    for (int h = 0; h < 2; h++)
#pragma unroll
        for (int j = LOWER ? h : 0; j < 2; j++) {
            const double *p = b + (8 * h + 2 * k) * ld + 8 * j + i;
            const double y[2] = {sign<NEG>(p[0]), sign<NEG>(p[ld])};
            tensor(c[j], a[h], y);
        }
}
/* c += A Z, where z is an accumulator of Z^T. */
__device__ inline void product_accumulated(double (*c)[4], const double (*a)[4],
                                           const double (*z)[4]) {
#pragma unroll
    for (int h = 0; h < 2; h++)
#pragma unroll
        for (int j = 0; j < 2; j++)
            tensor(c[j], a[h], z[h] + 2 * j);
}

/* Block column J of X = L^-1, whose diagonal blocks are there already, transposed to z: X_rJ^T =
 * -(sum over J <= q < r of X_qJ^T L_rq^T) X_rr^T for r > J; and to the place of L_rJ. */
template <int N, int J>
__device__ inline void inverse_column(double *s, double (*z)[2][4], const Pairs &x, int i, int k) {
    using L = Packed<N>;
    double a[2][4];
#pragma unroll
    for (int r = J + 1; r < L::PANELS; r++) {
        double w[2][4] = {};
        x.left(a);
        product_transposed<false, true>(w, a, s + L::at(J) + 16 * r, L::ld(J), i, k);
#pragma unroll
        for (int q = J + 1; q < r; q++) {
            accumulated_left(a, z[q - J - 1]);
            product_transposed<false, true>(w, a, s + L::at(q) + 16 * r, L::ld(q), i, k);
        }
        accumulated_left(a, w);
        product_transposed<true, false>(z[r - J - 1], a, s + L::at(r) + 16 * r, L::ld(r), i, k);
    }
    __syncwarp();
#pragma unroll
    for (int r = J + 1; r < L::PANELS; r++)
#pragma unroll
        for (int q = 0; q < 2; q++)
#pragma unroll
            for (int h = 0; h < 2; h++)
                vec_load(s + L::at(J) + 16 * r + 8 * h + 2 * k + (i + 8 * q) * L::ld(J),
                         z[r - J - 1][h] + 2 * q);
    __syncwarp();
}

/* Row J of blocks of X^T X to A; X: the inverse of L, or what shared memory holds (GIVEN). */
template <int N, int J, bool GIVEN>
__device__ inline void square_row(double *s, const Ref<double> &A, int n, bool wide, int i, int k) {
    using L = Packed<N>;
    constexpr int M = L::PANELS - J - 1;
    alignas(16) double z[M + 1][2][4] = {}; /* blocks below the diagonal of column J, transposed */
    double a[2][4], c[2][4] = {};
    Pairs x;
    x.load<GIVEN>(s + L::at(J) + 16 * J, L::ld(J), i, k);
    if constexpr (!GIVEN && M > 0)
        inverse_column<N, J>(s, z, x, i, k);
    if constexpr (GIVEN)
#pragma unroll
        for (int r = 0; r < M; r++)
#pragma unroll
            for (int q = 0; q < 2; q++)
#pragma unroll
                for (int h = 0; h < 2; h++)
                    vec_load(z[r][h] + 2 * q, s + L::at(J) + 16 * (r + J + 1) + 8 * h + 2 * k +
                                                  (i + 8 * q) * L::ld(J));
    x.left(a);
    x.product(c, a);
#pragma unroll
    for (int r = 0; r < M; r++) {
        accumulated_left(a, z[r]);
        product_accumulated(c, a, z[r]);
    }
    transposed_write<true>(A, c, 16 * J, 16 * J, n, wide, i, k);
#pragma unroll
    for (int l = 0; l < J; l++) {
        double d[2][4] = {};
#pragma unroll
        for (int r = J; r < L::PANELS; r++) {
            const double *p = s + L::at(l) + 16 * r + i * L::ld(l) + 2 * k;
#pragma unroll
            for (int h = 0; h < 2; h++) {
                alignas(16) double u[2], v[2];
                vec_load(u, p + 8 * h);
                vec_load(v, p + 8 * L::ld(l) + 8 * h);
                a[h][0] = u[0], a[h][1] = v[0], a[h][2] = u[1], a[h][3] = v[1];
            }
            if (r == J)
                x.product(d, a);
            else
                product_accumulated(d, a, z[r > J ? r - J - 1 : 0]);
        }
        transposed_write<false>(A, d, 16 * J, 16 * l, n, wide, i, k);
    }
}

/* The lower triangles of X^T X to memory for the matrices of a warp. */
template <int N, bool GIVEN>
__device__ inline void square_whole(const Factor<N> &f, double *first) {
    using L = Packed<N>;
    const int i = f.lane / 4, k = f.lane % 4;
#pragma unroll 1
    for (int g = 0; g < L::PER_WARP; g++) {
        const int from = g * L::G;
        Ref<double> A;
        A.p = (double *)__shfl_sync(0xffffffffu, (unsigned long long)f.A.p, from);
        A.si = __shfl_sync(0xffffffffu, f.A.si, from);
        A.sj = __shfl_sync(0xffffffffu, f.A.sj, from);
        const int n = __shfl_sync(0xffffffffu, f.n, from);
        const bool wide = is_wide(A);
        double *s = first + g * L::SIZE;
        square_row<N, 0, GIVEN>(s, A, n, wide, i, k);
        if constexpr (N > 16)
            square_row<N, 1, GIVEN>(s, A, n, wide, i, k);
        if constexpr (N > 32) {
            square_row<N, 2, GIVEN>(s, A, n, wide, i, k);
            square_row<N, 3, GIVEN>(s, A, n, wide, i, k);
        }
    }
}

} // namespace batch
#endif
