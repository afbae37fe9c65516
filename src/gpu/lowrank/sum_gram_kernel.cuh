/* Recompression of beta U V^T + alpha U2 V2^T by Gram matrices (gram.cuh). F = [U U2] = Q Ru and
 * G = [beta V, alpha V2] = P Rv, of which only the triangles are made; S = Ru Rv^T = X Sigma Y^T;
 * rows of U := F Ru^-1 X are found from the same rows of F, in their place. The columns of U are
 * orthonormal to rounding only after T, the Cholesky factor of U^T U, is taken out of them;
 * V := G Ru^T X T^T has it instead, so that the product stays as it is.
 *
 * What that is worth: one pass where the pivots of both Gram matrices, of columns of norm 1, are at
 * least LEAST: values of S are then exact to about u / LEAST relative to themselves. Else two
 * passes with a shift of SHIFT, after which the squares of values are exact to SHIFT of their own
 * and SHIFT^2 of (norm(F) norm(G))^2, whatever the ranks are: taken where the threshold is above
 * 1e-11 of those norms. The rest is left to reflectors. */
#ifndef MOAO_GPU_SUM_GRAM_KERNEL_CUH
#define MOAO_GPU_SUM_GRAM_KERNEL_CUH
#include "gram.cuh"
#include "lowrank_block.cuh"
#include "sum_gram.h"

namespace lowrank {

constexpr double LEAST = 1e-6, SHIFT = 2e-13, FLOOR = 1e-14, SOUND = 1e-11;

/* The sizes of a sum, 0 columns where this way is not for it. */
struct SumSizes {
    int rows[2], k, w;
};
template <class T> __device__ inline SumSizes sum_sizes(const SumGram<T> &a, int64_t b) {
    SumSizes z = {{0, 0}, 0, 0};
    if (!dim_valid(a.side[0].rows, b) || !dim_valid(a.side[1].rows, b) || !dim_valid(a.k, b) ||
        !dim_valid(a.k2, b))
        return z;
    const int k = a.old ? dim_full(a.k, b) : 0, k2 = a.fresh ? dim_full(a.k2, b) : 0;
    z.rows[0] = dim_full(a.side[0].rows, b), z.rows[1] = dim_full(a.side[1].rows, b);
    if (z.rows[0] >= k + k2 && z.rows[1] >= k + k2)
        z.k = k, z.w = k + k2;
    return z;
}
template <class T>
__device__ inline Columns<T> sum_columns(const SumGram<T> &a, const SumSizes &z, int side,
                                         int64_t b) {
    const SumSide<T> &s = a.side[side];
    const Ref<T> A = resolve(s.a, b, z.rows[side], z.k),
                 B = resolve(s.b, b, z.rows[side], z.w - z.k);
    return Columns<T>{A.p, B.p, A.sj, B.sj, z.k, z.w};
}
template <class T> __device__ inline T *sum_scratch(const SumGram<T> &a, int side, int64_t b) {
    return a.side[side].scratch + b * a.side[side].rows.n * a.width;
}

/* Warps of the kernel that makes the triangles. */
__host__ __device__ constexpr int factor_warps(int w) {
    return w > 64 ? 8 : 4;
}

/* R of a side (see SumGram) to r and cells. */
template <class T, int W>
__device__ inline int sum_factor(const SumGram<T> &a, const SumSizes &z, int side, int64_t b,
                                 double *G, double *inverse, double *scale, double *r,
                                 double *cells) {
    constexpr int LD = Triangle<W>::LD, WARPS = factor_warps(W);
    const int m = z.rows[side], w = z.w, lane = threadIdx.x % 32;
    const Columns<T> F = sum_columns(a, z, side, b);
    const SumSide<T> &s = a.side[side];
    int state = SUM_ONCE;
    gram_product<T, W, WARPS>(F, m, G);
    if (!gram_scale<T, W>(G, scale, w, 0, true))
        return SUM_NOT;
    if (!cholesky<W>(G, inverse, LEAST)) {
        state = SUM_TWICE;
        gram_product<T, W, WARPS>(F, m, G);
        gram_scale<T, W>(G, scale, w, SHIFT, true);
        if (!cholesky<W>(G, inverse, FLOOR))
            return SUM_NOT;
    }
    if (side == 0 || state == SUM_TWICE)
        cells_out<W>(G, inverse, cells);
    for (int j = threadIdx.x / 32; j < w; j += WARPS) {
        const double by = 1.0 / scale[j], factor = j < z.k ? s.first : s.second; /* of two */
        for (int i = lane; i < w; i += 32)
            r[i + j * a.width] = i <= j ? G[i + j * LD] * by * factor : 0.0;
    }
    __syncthreads();
    if (state == SUM_ONCE)
        return state;
    T *Q = sum_scratch(a, side, b);
    for (int row = 16 * (threadIdx.x / 32); row < m; row += 16 * WARPS) {
        Rows<W / 8> q;
        rows_load(q, F, row, m, lane);
        rows_scale(q, scale, lane);
        rows_solve<W>(q, cells, lane);
        rows_store(q, Q, s.rows.n, row, m, w, lane);
    }
    gram_product<T, W, WARPS>(Columns<T>{Q, Q, s.rows.n, s.rows.n, w, w}, m, G);
    gram_scale<T, W>(G, scale, w, SHIFT, false);
    if (!cholesky<W>(G, inverse, FLOOR))
        return SUM_NOT;
    cells_out<W>(G, inverse, cells);
    triangle_product<double, W, WARPS>(G, r, a.width, w);
    return state;
}

template <class T, int W>
__global__ void __launch_bounds__(32 * factor_warps(W), W > 64 ? 1 : 3)
    sum_factor_kernel(const __grid_constant__ SumGram<T> a) {
    extern __shared__ __align__(16) unsigned char shared[];
    double *const G = (double *)shared, *const inverse = G + W * Triangle<W>::LD,
                  *const scale = inverse + W / 8 * CELL;
    const int64_t b = blockIdx.x;
    const int side = blockIdx.y;
    batch::wait_for_predecessor();
    const SumSizes z = sum_sizes(a, b);
    int state = SUM_NOT;
    if (z.w > 0)
        state = sum_factor<T, W>(a, z, side, b, G, inverse, scale,
                                 a.r + (2 * b + side) * a.width * a.width,
                                 a.cells + (2 * b + side) * Triangle<W>::SIZE);
    if (threadIdx.x == 0)
        a.state[2 * b + side] = state;
    if (side == 0)
        for (int j = threadIdx.x; j < W; j += blockDim.x)
            a.scale[b * W + j] = state == SUM_ONCE ? scale[j] : 1.0;
}

/* Element of a triangle in memory, 0 outside. */
__device__ inline double upper_entry(const double *r, int ld, int i, int j, int w) {
    return i <= j && j < w ? r[i + j * ld] : 0.0;
}

/* Sum over columns of norm(column of F) norm(column of G). */
__device__ inline double norms_of_sum(const double *ru, const double *rv, int w, int ld,
                                      double *red) {
    double all = 0;
    for (int j = threadIdx.x / 32; j < w; j += blockDim.x / 32) {
        double u = 0, v = 0;
        for (int i = threadIdx.x % 32; i <= j; i += 32)
            u += ru[i + j * ld] * ru[i + j * ld], v += rv[i + j * ld] * rv[i + j * ld];
        u = warp_sum(u), v = warp_sum(v);
        all += threadIdx.x % 32 == 0 ? sqrt(u) * sqrt(v) : 0.0;
    }
    return block_sum(all, red);
}

template <class T>
__global__ void __launch_bounds__(32 * WARPS)
    sum_core_kernel(const __grid_constant__ SumGram<T> a) {
    __shared__ double red[WARPS];
    const int64_t b = blockIdx.x;
    const int lane = threadIdx.x % 32, r = lane % 4, c = lane / 4, ld = a.width;
    batch::wait_for_predecessor();
    const int first = a.state[2 * b], second = a.state[2 * b + 1];
    const SumSizes z = sum_sizes(a, b);
    const double *ru = a.r + 2 * b * ld * ld, *rv = ru + ld * ld;
    double squares = 0;
    bool sound = first != SUM_NOT && second != SUM_NOT;
    if (sound) {
        const int w = z.w, tiles = (w + 7) / 8, all = (w + 15) / 16 * tiles;
        T *core = a.core + b * ld * ld;
        for (int t = threadIdx.x / 32; t < all; t += WARPS) {
            const int row = t / tiles * 16, col = t % tiles * 8;
            double x[4] = {};
#pragma unroll 2
            for (int k = row > col ? row : col; k < w; k += 8) {
                double p[4], q[2];
#pragma unroll
                for (int e = 0; e < 4; e++)
                    p[e] = upper_entry(ru, ld, row + c + (e & 1) * 8, k + r + (e >> 1) * 4, w);
#pragma unroll
                for (int e = 0; e < 2; e++)
                    q[e] = upper_entry(rv, ld, col + c, k + r + e * 4, w);
                tensor(x, p, q);
            }
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int i = row + c + (e >> 1) * 8, j = col + 2 * r + (e & 1);
                if (i < w && j < w) {
                    core[i + j * ld] = (T)x[e];
                    squares += x[e] * x[e];
                }
            }
        }
        if (first == SUM_TWICE || second == SUM_TWICE) {
            const double tol = a.tol_each ? a.tol_each[b] : a.tol,
                         norm =
                             sqrt(block_sum(squares, red)) / (a.frobenius ? 1.0 : sqrt((double)w)),
                         t = a.relative ? tol * norm : tol;
            sound = t >= SOUND * norms_of_sum(ru, rv, w, ld, red);
        }
    }
    if (threadIdx.x)
        return;
    const double tol = a.tol_each ? a.tol_each[b] : a.tol;
    if (!sound) {
        a.state[2 * b] = SUM_NOT;
        return;
    }
    a.columns[b] = 0; /* of the other way */
    a.core0[b] = a.core1[b] = z.w;
    a.shift[b] = a.mine[b] = 0;
    a.cut[b] = tol > 0 ? tol : 0;
}

/* Ru^T X T^T in blocks in the place of X, rows times the factors of V's columns, columns over the
 * roots; T in blocks. All threads; a warp has 16 rows. */
template <class T, int W, int RW>
__device__ inline void sum_right(const SumGram<T> &a, const SumSizes &z, const double *ru,
                                 const double *t, const double *root, double *X) {
    const int lane = threadIdx.x % 32, r = lane % 4, c = lane / 4, row = threadIdx.x / 32 * 16;
    Rows<RW / 8> y = {}, x = {};
    if (row < W) {
        for (int k = 0; k < row + 16; k += 8) {
            double p[4];
#pragma unroll
            for (int e = 0; e < 4; e++)
                p[e] = upper_entry(ru, a.width, k + 2 * r + (e & 1), row + c + (e >> 1) * 8, z.w);
#pragma unroll
            for (int j = 0; j < RW / 8; j++)
                tensor_rows(y.x[j], p, X + (k / 8 + j * (W / 8)) * CELL, lane);
        }
#pragma unroll
        for (int k = 0; k < RW / 8; k++)
#pragma unroll
            for (int j = 0; j <= k; j++) {
                const double *cell = t + cell_at(j, k) + c + 16 * r;
                const double left[4] = {y.x[k][0], y.x[k][2], y.x[k][1], y.x[k][3]},
                             right[2] = {-cell[0], -cell[8]};
                tensor(x.x[j], left, right);
            }
    }
    __syncthreads();
    if (row < W) {
#pragma unroll
        for (int j = 0; j < RW / 8; j++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int i = row + c + (e >> 1) * 8, q = 2 * r + (e & 1);
                X[(i / 8 + j * (W / 8)) * CELL + i % 8 + 8 * q] =
                    x.x[j][e] * (i < z.k ? a.side[1].first : a.side[1].second) / root[8 * j + q];
            }
    }
    __syncthreads();
}

/* Doubles of shared memory: the triangle of F and then that of U; X; U^T U; roots. */
template <int W, int RW> constexpr int results_shared() {
    return Triangle<W>::SIZE + W * RW + Triangle<RW>::SHARED + RW;
}

/* U := F Ru^-1 X in F's place, or that of Q. */
template <class T, int W, int RW>
__device__ inline void sum_left(const Columns<T> &F, const double *cells, const double *scale,
                                const double *X, const Ref<T> &U, int m, int r) {
    const int lane = threadIdx.x % 32;
    for (int row = 16 * (threadIdx.x / 32); row < m; row += 16 * WARPS) {
        Rows<W / 8> q;
        rows_load(q, F, row, m, lane);
        rows_scale(q, scale, lane);
        rows_solve<W>(q, cells, lane);
#pragma unroll 1
        for (int j = 0; j < r; j += 32) {
            Rows<4> y = {};
            rows_multiply<W, 4>(y, q, X, j / 8, lane);
            rows_store(y, U.p + j * U.sj, U.sj, row, m, r - j, lane);
        }
    }
    __syncthreads();
}

template <class T, int W, int RW>
__global__ void __launch_bounds__(32 * WARPS, W > 64 ? 1 : 2)
    sum_result_kernel(const __grid_constant__ SumGram<T> a) {
    extern __shared__ __align__(16) unsigned char shared[];
    double *const cells = (double *)shared, *const X = cells + Triangle<W>::SIZE,
                  *const G = X + W * RW, *const inverse = G + RW * Triangle<RW>::LD,
                  *const scale = inverse + RW / 8 * CELL, *const root = scale + RW;
    const int64_t b = blockIdx.x;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, ld = a.width;
    batch::wait_for_predecessor();
    if (a.state[2 * b] == SUM_NOT)
        return;
    const SumSizes z = sum_sizes(a, b);
    const int r = (int)a.rank[b], m = z.rows[0], n = z.rows[1];
    if (threadIdx.x == 0) {
        if (a.info)
            a.info[b] = a.svd[b];
        a.rank_out[b] = r;
    }
    if (r == 0)
        return;
    const double *from = a.cells + 2 * b * Triangle<W>::SIZE;
    for (int e = threadIdx.x; e < Triangle<W>::SIZE; e += blockDim.x)
        cells[e] = from[e];
    for (int e = threadIdx.x; e < W * RW; e += blockDim.x) {
        const int at = e / CELL, i = 8 * (at % (W / 8)) + e % 8,
                  j = 8 * (at / (W / 8)) + e % CELL / 8;
        X[e] = i < z.w && j < r ? (double)a.x[b * ld * ld + i + j * ld] : 0.0;
    }
    for (int j = threadIdx.x; j < RW; j += blockDim.x)
        root[j] = a.roots && j < r ? sqrt((double)a.sigma[b * ld + j]) : 1.0;
    __syncthreads();
    const Ref<T> U = resolve(a.side[0].a, b, m, r), V = resolve(a.side[1].a, b, n, r);
    T *Q = sum_scratch(a, 0, b);
    const int64_t ldq = a.side[0].rows.n;
    sum_left<T, W, RW>(a.state[2 * b] == SUM_TWICE ? Columns<T>{Q, Q, ldq, ldq, z.w, z.w}
                                                   : sum_columns(a, z, 0, b),
                       cells, a.scale + b * W, X, U, m, r);
    const Columns<T> u = {U.p, U.p, U.sj, U.sj, r, r};
    gram_product<T, RW, WARPS>(u, m, G);
    gram_scale<T, RW>(G, scale, r, 0, false);
    cholesky<RW>(G, inverse, FLOOR);
    cells_out<RW>(G, inverse, cells);
    __syncthreads();
    sum_right<T, W, RW>(a, z, a.r + 2 * b * ld * ld, cells, root, X);
    for (int row = 16 * warp; row < m; row += 16 * WARPS) {
        Rows<RW / 8> q;
        rows_load(q, u, row, m, lane);
        rows_solve<RW>(q, cells, lane);
        rows_scale(q, root, lane);
        rows_store(q, U.p, U.sj, row, m, r, lane);
    }
    const Columns<T> right = sum_columns(a, z, 1, b);
    for (int row = 16 * warp; row < n; row += 16 * WARPS) {
        Rows<W / 8> q;
        rows_load(q, right, row, n, lane);
#pragma unroll 1
        for (int j = 0; j < r; j += 32) {
            Rows<4> y = {};
            rows_multiply<W, 4>(y, q, X, j / 8, lane);
            rows_store(y, V.p + j * V.sj, V.sj, row, n, r - j, lane);
        }
    }
}

template <class T, int W> status start_factors(const SumGram<T> &a, cudaStream_t s) {
    return batch::launch(sum_factor_kernel<T, W>, dim3((unsigned)a.count, 2), 32 * factor_warps(W),
                         sizeof(double) * Triangle<W>::SHARED, s, a);
}
template <class T> status start_factors(const SumGram<T> &a, cudaStream_t s) {
    return a.width <= 32   ? start_factors<T, 32>(a, s)
           : a.width <= 64 ? start_factors<T, 64>(a, s)
                           : start_factors<T, 128>(a, s);
}
template <class T> status start_cores(const SumGram<T> &a, cudaStream_t s) {
    return batch::launch(sum_core_kernel<T>, dim3((unsigned)a.count), 32 * WARPS, 0, s, a);
}
template <class T, int W, int RW> status start_results(const SumGram<T> &a, cudaStream_t s) {
    static_assert(sizeof(double) * results_shared<W, RW>() <= SUM_GRAM_BYTES, "see by_gram");
    return batch::launch(sum_result_kernel<T, W, RW>, dim3((unsigned)a.count), 32 * WARPS,
                         sizeof(double) * results_shared<W, RW>(), s, a);
}
template <class T> status start_results(const SumGram<T> &a, cudaStream_t s) {
    const bool narrow = a.most <= 32;
    return a.width <= 32 ? start_results<T, 32, 32>(a, s)
           : a.width <= 64
               ? (narrow ? start_results<T, 64, 32>(a, s) : start_results<T, 64, 64>(a, s))
               : start_results<T, 128, 64>(a, s);
}

} // namespace lowrank
#endif
