/* Cholesky factors of orders 9 to 64, FP64, and what is fused with them: a matrix by a warp or a
 * part of it, rows in registers, 16 columns at a time. What limits such kernels is the bandwidth of
 * the shared memory: two rows a lane (orders above 16) halve the broadcasts of a finished column,
 * and the rows come from and go to global memory without passing through it; and, at order 64, the
 * chain of pivots, which four columns at once shorten. */
#ifndef MOAO_GPU_BATCH_FACTOR_CUH
#define MOAO_GPU_BATCH_FACTOR_CUH
#include "batch_inverse.cuh"

namespace batch {

/* Calls f(h, c) for every half and column of panel P with elements in the lower triangle. */
template <int N, int P, class F> __device__ inline void for_panel(F f) {
    using L = Packed<N>;
    constexpr int G = L::G;
#pragma unroll
    for (int h = 0; h < L::H; h++)
#pragma unroll
        for (int c = 0; c < 16; c++)
            if (16 * P + c < (h + 1) * G)
                f(h, c);
}

template <int N, int P> __device__ inline void panel_load(Factor<N> &f) {
    using L = Packed<N>;
#pragma unroll
    for (int h = 0; h < L::H; h++) {
        const int row = f.l + h * L::G - 16 * P;
        const bool in = f.l + h * L::G < f.n;
        const double *p = f.A.at(16 * P + row, 16 * P), *s = f.s + L::at(P) + 16 * P + row;
#pragma unroll
        for (int c = 0; c < 16 && 16 * P + c < (h + 1) * L::G; c++)
            f.r[h][c] = row == c ? 1.0 : 0.0;
        if (f.A.along_i) {
            int64_t step = f.A.sj;
            asm volatile("" : "+l"(p), "+l"(step)); /* else 16 addresses are kept ready */
#pragma unroll
            for (int c = 0; c < 16 && 16 * P + c < (h + 1) * L::G; c++, p += step)
                if (in && (h * L::G >= 16 * P + c || row >= c))
                    f.r[h][c] = *p;
        } else {
#pragma unroll
            for (int c = 0; c < 16 && 16 * P + c < (h + 1) * L::G; c++)
                if (in && (h * L::G >= 16 * P + c || row >= c))
                    f.r[h][c] = s[c * L::ld(P)];
        }
    }
}
template <int N, int P> __device__ inline void panel_write(const Factor<N> &f) {
    using L = Packed<N>;
#pragma unroll
    for (int h = 0; h < L::H; h++) {
        const int row = f.l + h * L::G - 16 * P;
        const bool in = f.l + h * L::G < f.n;
        double *p = f.A.at(16 * P + row, 16 * P);
        int64_t step = f.A.sj;
        asm volatile("" : "+l"(p), "+l"(step));
#pragma unroll
        for (int c = 0; c < 16 && 16 * P + c < (h + 1) * L::G; c++, p += step)
            if (in && (h * L::G >= 16 * P + c || row >= c))
                *p = f.r[h][c];
    }
}

/* The product of L's rows below with panel P's rows, over the finished panels, to panel P's place:
 * one matrix by the whole warp. */
template <int N, int P> __device__ inline void panel_product(double *s, int lane) {
    using L = Packed<N>;
    constexpr int MT = N / 16 - P;
    double c[MT][2][4] = {};
    const int i = lane / 4, k = lane % 4;
#pragma unroll
    for (int q = 0; q < P; q++)
#pragma unroll
        for (int h = 0; h < 16; h += 8) {
            const double *p = s + L::at(q) + 16 * P + i + (h + 2 * k) * L::ld(q);
            double b[2][2];
#pragma unroll
            for (int e = 0; e < 4; e++)
                b[e & 1][e >> 1] = p[(e & 1) * 8 + (e >> 1) * L::ld(q)];
#pragma unroll
            for (int t = 0; t < MT; t++) {
                double x[4];
#pragma unroll
                for (int e = 0; e < 4; e++)
                    x[e] = t ? p[16 * t + (e & 1) * 8 + (e >> 1) * L::ld(q)] : b[e & 1][e >> 1];
                tensor(c[t][0], x, b[0]);
                tensor(c[t][1], x, b[1]);
            }
        }
#pragma unroll
    for (int t = 0; t < MT; t++)
#pragma unroll
        for (int j = 0; j < 2; j++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                s[L::at(P) + 16 * P + 16 * t + (e >> 1) * 8 + i +
                  (j * 8 + 2 * k + (e & 1)) * L::ld(P)] = c[t][j][e];
}

/* Column k of panel P: L's column to registers and shared memory, the panel's later columns
 * updated; SOLVE: so are the right-hand side, as a row below the matrix would be. */
template <int N, int P, bool SOLVE> __device__ inline void column_step(Factor<N> &f, int k) {
    using L = Packed<N>;
    constexpr int G = L::G, H0 = 16 * P / G;
    const int col = 16 * P + k, hk = col / G;
    const double y = inv_sqrt(__shfl_sync(0xffffffffu, f.d[hk], col % G, G));
    double *s = f.s + L::at(P) + k * L::ld(P), x[L::H];
#pragma unroll
    for (int h = H0; h < L::H; h++) {
        if (col >= (h + 1) * G)
            continue;
        const int row = f.l + h * G;
        x[h] = f.r[h][k] * y;
        f.r[h][k] = x[h];
        f.d[h] -= x[h] * x[h];
        if (!L::SHORT || h * G >= 16 * P || row >= 16 * P)
            s[row] = x[h];
    }
    if (f.l + hk * G == col)
        f.iv[hk] = y;
    if (SOLVE && f.solve) {
        const double t = __shfl_sync(0xffffffffu, f.b[hk], col % G, G) * y;
#pragma unroll
        for (int h = H0; h < L::H; h++)
            if (col < (h + 1) * G && f.l + h * G > col)
                f.b[h] -= x[h] * t;
    }
    __syncwarp();
#pragma unroll
    for (int v = (k + 1) / 2 * 2; v < 16; v += 2) {
        alignas(16) double w[2];
        vec_load(w, s + 16 * P + v);
#pragma unroll
        for (int e = 0; e < 2; e++)
#pragma unroll
            for (int h = H0; h < L::H; h++)
                if (v + e > k && 16 * P + v + e < (h + 1) * G)
                    f.r[h][v + e] -= w[e] * x[h];
    }
}

/* Order 4 in every lane: t = L L^T, L below the diagonal and the reciprocals y of its diagonal. */
__device__ inline void corner_factor(double (*t)[4], double *y) {
#pragma unroll
    for (int j = 0; j < 4; j++) {
        y[j] = inv_sqrt(t[j][j]);
#pragma unroll
        for (int i = j + 1; i < 4; i++) {
            t[i][j] *= y[j];
#pragma unroll
            for (int q = j + 1; q <= i; q++)
                t[i][q] -= t[i][j] * t[q][j];
        }
    }
}

/* The same for columns k to k + 3 at once: every lane factors their block on the diagonal, so that
 * only one pass through shared memory is needed for four pivots. */
template <int N, int P, bool SOLVE, bool INVERSE>
__device__ inline void columns_step(Factor<N> &f, int k) {
    using L = Packed<N>;
    constexpr int G = L::G, H0 = 16 * P / G;
    const int col = 16 * P + k, hk = col / G;
    double t[4][4], y[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j <= i; j++)
            t[i][j] = __shfl_sync(0xffffffffu, f.r[hk][k + j], (col + i) % G, G);
    corner_factor(t, y);
#pragma unroll
    for (int j = 0; j < 4; j++)
        if (f.l + hk * G == col + j) {
            if (INVERSE)
                f.s[L::INV + col + j] = y[j];
            else
                f.iv[hk] = y[j];
        }
    double *s = f.s + L::at(P) + k * L::ld(P);
#pragma unroll
    for (int h = H0; h < L::H; h++) {
        if (col >= (h + 1) * G)
            continue;
        const int row = f.l + h * G;
#pragma unroll
        for (int j = 0; j < 4; j++) {
            double x = f.r[h][k + j];
#pragma unroll
            for (int q = 0; q < j; q++)
                x -= f.r[h][k + q] * t[j][q];
            x *= y[j];
            f.r[h][k + j] = x;
            if (!L::SHORT || h * G >= 16 * P || row >= 16 * P)
                s[j * L::ld(P) + row] = x;
        }
    }
    if (SOLVE && f.solve) {
        double z[4];
#pragma unroll
        for (int j = 0; j < 4; j++) {
            z[j] = __shfl_sync(0xffffffffu, f.b[hk], (col + j) % G, G);
#pragma unroll
            for (int q = 0; q < j; q++)
                z[j] -= t[j][q] * z[q];
            z[j] *= y[j];
        }
#pragma unroll
        for (int h = H0; h < L::H; h++)
#pragma unroll
            for (int j = 0; j < 4; j++)
                if (col < (h + 1) * G && f.l + h * G > col + j)
                    f.b[h] -= f.r[h][k + j] * z[j];
    }
    __syncwarp();
#pragma unroll
    for (int v = k + 4; v < 16; v += 2)
#pragma unroll
        for (int j = 0; j < 4; j++) {
            alignas(16) double w[2];
            vec_load(w, s + j * L::ld(P) + 16 * P + v);
#pragma unroll
            for (int e = 0; e < 2; e++)
#pragma unroll
                for (int h = H0; h < L::H; h++)
                    if (16 * P + v + e < (h + 1) * G)
                        f.r[h][v + e] -= w[e] * f.r[h][k + j];
        }
}

/* The panels after the first in transit to the L2 cache, while the first is worked on. */
template <int N> __device__ inline void panels_prefetch(const Factor<N> &f) {
    if (f.A.along_i)
#pragma unroll 1
        for (int c = 16 + f.l; c < f.n; c += Packed<N>::G) {
            for (int i = c; i < f.n; i += 16)
                prefetch(f.A.at(i, c));
            prefetch(f.A.at(f.n - 1, c));
        }
}

template <int N, int P, bool SOLVE, bool WRITE>
__device__ inline void panels_run(Factor<N> &f, double *first) {
    using L = Packed<N>;
    constexpr int H0 = 16 * P / L::G;
    panel_load<N, P>(f);
    if constexpr (P == 0 && N == 64)
        panels_prefetch<N>(f);
    if constexpr (P > 0) {
        __syncwarp();
#pragma unroll
        for (int g = 0; g < L::PER_WARP; g++)
            panel_product<N, P>(first + g * L::SIZE, f.lane);
        __syncwarp();
        const double *s = f.s + L::at(P);
        for_panel<N, P>([&](int h, int c) {
            const int row = f.l + h * L::G;
            if (!L::SHORT || h * L::G >= 16 * P || row >= 16 * P)
                f.r[h][c] -= s[c * L::ld(P) + row];
        });
        __syncwarp();
    }
    for_panel<N, P>([&](int h, int c) {
        if (h >= H0 && f.l + h * L::G == 16 * P + c)
            f.d[h] = f.r[h][c];
    });
    if constexpr (N > 16) {
#pragma unroll
        for (int k = 0; k < 16; k += 4)
            columns_step<N, P, SOLVE, !WRITE>(f, k);
    } else {
#pragma unroll
        for (int k = 0; k < 16; k++)
            column_step<N, P, SOLVE>(f, k);
    }
    if (WRITE && f.A.along_i)
        panel_write<N, P>(f);
    if constexpr (P + 1 < L::PANELS)
        panels_run<N, P + 1, SOLVE, WRITE>(f, first);
}

/* L y = b and L^T x = y for the right-hand side, with lines of L scaled by the diagonal so that a
 * step is one shuffle and one multiply-add; lane l has rows (columns) l, l + G. */
template <int N> __device__ inline void forward(Factor<N> &f) {
    using L = Packed<N>;
    constexpr int G = L::G;
#pragma unroll
    for (int p = 0; p < L::PANELS; p++)
#pragma unroll 8
        for (int k = 0; k < 16; k++) {
            const int hp = 16 * p / G, col = 16 * p + k;
            const double *s = f.s + L::at(p) + k * L::ld(p) + f.l;
            const double x = __shfl_sync(0xffffffffu, f.b[hp], col % G, G);
#pragma unroll
            for (int h = hp; h < L::H; h++)
                f.b[h] -= (f.l + h * G > col ? s[h * G] * f.iv[h] : 0.0) * x;
        }
}
template <int N> __device__ inline void backward(Factor<N> &f) {
    using L = Packed<N>;
#pragma unroll
    for (int hj = L::H - 1; hj >= 0; hj--)
#pragma unroll 4
        for (int j = L::G - 2; j >= 0; j -= 2) {
            alignas(16) double w[L::H][2];
#pragma unroll
            for (int h = 0; h <= hj; h++)
                vec_load(w[h], f.s + L::column(f.l + h * L::G) + hj * L::G + j);
#pragma unroll
            for (int e = 1; e >= 0; e--) {
                const double x = __shfl_sync(0xffffffffu, f.b[hj], j + e, L::G);
#pragma unroll
                for (int h = 0; h <= hj; h++)
                    f.b[h] -= (h < hj || f.l < j + e ? w[h][e] * f.iv[h] : 0.0) * x;
            }
        }
}
/* The entries of the right-hand side times the reciprocals of the diagonal. */
template <int N> __device__ inline void scale(Factor<N> &f) {
#pragma unroll
    for (int h = 0; h < Packed<N>::H; h++)
        f.b[h] *= f.iv[h];
}

template <int N, int OP> __host__ __device__ constexpr int factor_blocks() {
    return N == 16 ? ((OP & INVERT) ? 7 : 6) : N == 32 ? 12 : (OP & FACTOR) ? 8 : 9;
}

/* Diagonal and reciprocals of a staged triangle; ones beyond the matrix. */
template <int N> __device__ inline void diagonal_inverse(Factor<N> &f) {
    using L = Packed<N>;
#pragma unroll
    for (int h = 0; h < L::H; h++) {
        const int row = f.l + h * L::G;
        f.d[h] = row < f.n ? f.s[L::column(row) + row] : 1.0;
        f.iv[h] = 1.0 / f.d[h];
    }
}

/* OP: FACTOR and what follows, INVERT | SQUARE or, for one right-hand side, FORWARD |
 * BACKWARD; or one of these with a given L; or SQUARE. */
template <int N, int OP>
__global__ void __launch_bounds__(32 * Packed<N>::WARPS, (factor_blocks<N, OP>()))
    factor_kernel(const __grid_constant__ Args<double> a) {
    extern __shared__ __align__(16) unsigned char shared[];
    using L = Packed<N>;
    constexpr bool SOLVE = (OP & FORWARD) != 0;
    constexpr bool EARLY = N > 16 && (OP & FACTOR) && (OP & INVERT); /* reciprocals in place */
    const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / L::G;
    const int64_t b = ((int64_t)blockIdx.x * L::WARPS + warp) * L::PER_WARP + g;
    double *first = (double *)shared + warp * L::PER_WARP * L::SIZE;
    Factor<N> f;
    f.lane = threadIdx.x % 32, f.l = f.lane % L::G;
    f.s = first + g * L::SIZE;
    f.solve = SOLVE && a.m.n > 0;
    wait_for_predecessor();
    const int order = b < a.count ? dim_part(a.n, b) : 0;
    const bool mine = b < a.count && order > a.lo && order <= N && !(a.skip && a.skip[b]);
    f.n = mine ? order : 0;
    f.A = {nullptr, 0, 0, !a.A.trans};
    Ref<double> B = {nullptr, 0, 0, !a.B.trans};
    int m = 0;
    if (f.n) {
        const int full = dim_full(a.n, b);
        f.A = resolve(a.A, b, full, full);
        if (SOLVE) {
            m = dim_part(a.m, b);
            B = resolve(a.B, b, full, dim_full(a.m, b));
        }
    }
    if (!(OP & FACTOR) || !f.A.along_i)
        triangle_stage<N>(f);
#pragma unroll
    for (int h = 0; h < L::H; h++)
        f.b[h] = SOLVE && m && f.l + h * L::G < f.n ? *B.at(f.l + h * L::G, 0) : 0.0;
    __syncwarp();
    if constexpr ((OP & FACTOR) != 0)
        panels_run<N, 0, SOLVE, !(OP & INVERT)>(f, first);
    else if constexpr (OP != SQUARE)
        diagonal_inverse<N>(f);
    int fail = 0;
#pragma unroll
    for (int h = L::H - 1; h >= 0; h--) {
        const bool good = OP == SQUARE ? true
                          : (OP & FACTOR)
                              ? inverse_ok(EARLY ? f.s[L::INV + f.l + h * L::G] : f.iv[h])
                              : f.d[h] > 0 || f.d[h] < 0;
        const int bad = first_lane<L::G>(!good, g);
        fail = bad ? h * L::G + bad : fail;
    }
    __syncwarp();
    if ((OP & FACTOR) && !(OP & INVERT) && !f.A.along_i)
        triangle_write<N>(f);
    if (SOLVE && f.solve) {
        scale(f);
        if (!(OP & FACTOR))
            forward<N>(f);
        scale(f);
        backward<N>(f);
#pragma unroll
        for (int h = 0; h < L::H; h++)
            if (((OP & FACTOR) == 0 || !fail) && m && f.l + h * L::G < f.n)
                *B.at(f.l + h * L::G, 0) = f.b[h];
    }
    if constexpr ((OP & INVERT) != 0) {
#pragma unroll
        for (int h = 0; h < L::H && !EARLY; h++)
            f.s[L::INV + h * L::G + f.l] = f.iv[h];
        __syncwarp();
        inverse_diagonal<N>(first, f.lane);
        square_whole<N, false>(f, first);
    } else if constexpr ((OP & SQUARE) != 0) {
        square_whole<N, true>(f, first);
    }
    if ((OP & (FACTOR | INVERT)) && mine && f.l == 0)
        info_write(a.info, a.info_base, b, dim_valid(a.n, b) ? fail : -1);
}

template <int N, int OP> status factor_start(const Args<double> &a, cudaStream_t s) {
    using L = Packed<N>;
    constexpr int PER_BLOCK = L::WARPS * L::PER_WARP;
    return launch(factor_kernel<N, OP>, dim3((unsigned)((a.count + PER_BLOCK - 1) / PER_BLOCK)),
                  32 * L::WARPS, sizeof(double) * PER_BLOCK * L::SIZE, s, a);
}

} // namespace batch
#endif
