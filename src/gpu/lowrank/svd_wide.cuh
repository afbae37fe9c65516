/* Singular values of matrices of more than 128 rows, in three kernels: the first one sorts, makes
 * two QR factorisations and leaves the transposed second triangle X; the second one rotates X, a
 * thread block taking two blocks of its columns at a time (svd_gram.cuh); the last one makes values
 * and vectors. Right vectors come from a third QR, as in svd_core.cuh. */
#ifndef MOAO_GPU_SVD_WIDE_CUH
#define MOAO_GPU_SVD_WIDE_CUH
#include "lowrank_block.cuh"
#include "qr_pivot.cuh"
#include "svd_place.cuh"

namespace lowrank {

/* Shared memory of the first and the last kernel: small arrays and a panel. */
template <class T> size_t wide_shared(const WidePlan &p, int warps) {
    return sizeof(double) * (size_t)(block_scratch(warps) + 4 + p.cols + round_up(p.rows, 4)) +
           sizeof(int) * (size_t)(4 + round_up(p.cols, 4)) +
           sizeof(T) * (size_t)(3 * round_up(p.cols, 4) + panel_room(p.panel)) + 16;
}
template <class T>
__device__ inline Svd<T> wide_svd(const WidePlan &p, const WidePlace<T> &q, unsigned char *shared,
                                  T *&tau3) {
    Svd<T> s;
    double *d = (double *)shared;
    s.g = block_place(d);
    d += block_scratch(s.g.warps);
    s.total = d, s.sigma = d + 4, s.key = s.sigma + p.cols;
    s.flag = (int *)(s.key + round_up(p.rows, 4)), s.order = s.flag + 4;
    T *t = (T *)(s.order + round_up(p.cols, 4));
    s.flip = t, tau3 = t + round_up(p.cols, 4);
    s.g.panel = tau3 + 2 * round_up(p.cols, 4), s.g.rows = p.panel;
    s.row = q.row, s.col = q.col, s.tau1 = q.tau1, s.tau2 = q.tau2;
    s.X = q.X, s.W = q.W, s.L = q.L, s.J = q.J;
    s.ldx = s.ldw = p.ldx, s.ldl = s.ldj = p.ldc;
    return s;
}

/* sigma, squares of columns as they came, to their places; order[p]: the column at place p. */
template <class T> __device__ inline void wide_squares(const Svd<T> &s) {
    for (int j = (int)threadIdx.x; j < s.cols; j += (int)blockDim.x) {
        s.key[s.col[j]] = s.sigma[j];
        s.order[s.col[j]] = j;
    }
    __syncthreads();
    for (int j = (int)threadIdx.x; j < s.cols; j += (int)blockDim.x)
        s.sigma[j] = s.key[j];
    __syncthreads();
}

/* X := the transposed triangle of the sorted and scaled matrix; returns info. */
template <class T>
__device__ inline int wide_begin(Svd<T> &s, const WideArgs<T> &w, const WidePlace<T> &q, int64_t b,
                                 int m, int n) {
    const Ref<T> A = resolve(w.a.A, b, m, n);
    svd_begin(s, w.a, b, m, n);
    const int info = svd_scale(s, s.turned ? Ref<T>{A.p, A.sj, A.si, false} : A);
    if (info)
        return info;
    svd_sort(s);
    wide_squares(s);
    block_factor_pivoted(s.W, s.ldw, s.rows, s.cols, s.tau1, s.sigma, s.key, s.order, s.g);
    for (int j = (int)threadIdx.x; j < s.cols; j += (int)blockDim.x)
        s.col[s.order[j]] = j;
    __syncthreads();
    transpose_triangle(s, s.W, s.ldw, s.L, s.ldl, s.cols, s.cols);
    block_factor(s.L, s.ldl, s.cols, s.cols, s.tau2, s.g);
    const int all = round_up(s.cols, Gram::W);
    transpose_triangle(s, s.L, s.ldl, s.X, s.ldx, round_up(s.cols, Gram::ROWS), all);
    svd_trim(s, w.a, Gram::W);
    for (int j = (int)threadIdx.x; j < all; j += (int)blockDim.x)
        q.squares[j] = 0.0;
    if (threadIdx.x == 0) { /* which wrote total[1] */
        q.state[0] = s.total[0], q.state[1] = s.total[1];
        *q.kept = s.kept, *q.shift = s.shift;
    }
    return 0;
}

/* c (n x r) := R b, column j divided by value[order[j]]: R the upper triangle of l. */
template <class T>
__device__ inline void triangle_product(const T *l, int64_t ldl, const T *b, int64_t ldb, int n,
                                        int r, const double *value, const int *order, T *c,
                                        int64_t ldc, const Block &g) {
    const int row4 = g.lane / 4, col4 = g.lane % 4, rows = (n + 15) / 16, strips = (r + 31) / 32;
    for (int task = g.warp; task < rows * strips; task += g.warps) {
        const int i0 = 16 * (task % rows), j0 = 32 * (task / rows);
        double acc[4][4] = {};
#pragma unroll 2
        for (int k = i0; k < n; k += 8) {
            double x[4];
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int i = i0 + row4 + (e & 1) * 8, at = k + col4 + (e >> 1) * 4;
                x[e] = i <= at && at < n ? (double)l[i + at * ldl] : 0.0;
            }
#pragma unroll
            for (int t = 0; t < 4; t++) {
                double y[2];
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    const int at = k + col4 + 4 * e, j = j0 + 8 * t + row4;
                    y[e] = at < n && j < r ? (double)b[at + j * ldb] : 0.0;
                }
                tensor(acc[t], x, y);
            }
        }
#pragma unroll
        for (int t = 0; t < 4; t++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int i = i0 + row4 + (e >> 1) * 8, j = j0 + 8 * t + 2 * col4 + (e & 1);
                if (i >= n || j >= r)
                    continue;
                const double sigma = value[order[j]];
                c[i + j * ldc] = (T)(sigma > 0.0 ? acc[t][e] / sigma : acc[t][e]);
            }
    }
    __syncthreads();
}

/* a (n x r) := its Q, each column with the sign of R's diagonal. */
template <class T>
__device__ inline void wide_orthonormal(T *a, int64_t ld, int n, int r, T *tau, T *sign,
                                        const Block &g) {
    block_factor(a, ld, n, r, tau, g);
    for (int j = (int)threadIdx.x; j < r; j += (int)blockDim.x)
        sign[j] = a[j + j * ld] < T(0) ? T(-1) : T(1);
    __syncthreads();
    block_form(a, ld, n, r, r, tau, sign, g);
}

/* X := Q1 [W; 0] or Q2 J for the r left vectors W of the triangle in s.J. */
template <class T> __device__ inline void wide_vectors(Svd<T> &s, bool left, int r, T *tau3) {
    if (left) {
        for (int j = s.g.warp; j < r; j += s.g.warps)
            for (int i = s.g.lane; i < s.rows; i += 32)
                s.X[i + j * s.ldx] = i < s.cols ? s.J[i + j * s.ldj] : T(0);
        __syncthreads();
        block_multiply<T, false, false>(s.W, s.ldw, s.rows, s.cols, s.tau1, s.X, s.ldx, r, s.g);
        return;
    }
    triangle_product(s.L, s.ldl, s.J, s.ldj, s.cols, r, s.sigma, s.order, s.X, s.ldx, s.g);
    wide_orthonormal(s.X, s.ldx, s.cols, r, tau3, tau3 + round_up(s.cols, 4), s.g);
    block_multiply<T, false, false>(s.L, s.ldl, s.cols, s.cols, s.tau2, s.X, s.ldx, r, s.g);
}

/* Values and vectors to where they are wanted; returns info. */
template <class T>
__device__ inline int wide_end(Svd<T> &s, const WideArgs<T> &w, const WidePlace<T> &q, int64_t b,
                               int m, int n, T *tau3) {
    const SvdArgs<T> &a = w.a;
    svd_begin(s, a, b, m, n);
    s.kept = *q.kept, s.shift = *q.shift;
    if (threadIdx.x < 2)
        s.total[threadIdx.x] = q.state[threadIdx.x];
    svd_values(s, a);
    const int r = s.flag[1];
    T *values = resolve(a.S, b, s.cols, 1).p;
    for (int j = (int)threadIdx.x; j < s.cols; j += (int)blockDim.x)
        values[j] = j < r ? (T)scalbn(s.sigma[s.order[j]], -s.shift) : T(0);
    if (threadIdx.x == 0 && a.rank)
        a.rank[b] = r;
    const int sweeps = wide_sweeps<T>(q, a.sweeps_most), info = sweeps < 0 ? -2 : s.flag[2];
    if (threadIdx.x == 0 && a.sweeps)
        a.sweeps[b] = abs(sweeps);
    if (r == 0 || (!s.left && !s.right))
        return info;
    for (int j = s.g.warp; j < r; j += s.g.warps) {
        const double sigma = s.sigma[s.order[j]];
        for (int i = s.g.lane; i < s.cols; i += 32)
            s.J[i + j * s.ldj] =
                sigma > 0.0 ? (T)((double)s.X[i + s.order[j] * s.ldx] / sigma) : T(0);
    }
    __syncthreads();
    if (!s.cut && !(s.sigma[s.order[r - 1]] > 0.0)) /* columns of zero values */
        wide_orthonormal(s.J, s.ldj, s.cols, r, tau3, s.flip, s.g);
    /* the side that decides the signs comes first */
    const bool begin = a.jobu != 'N' ? !s.turned : s.turned;
#pragma unroll 1
    for (int pass = 0; pass < 2; pass++) {
        const bool left = (pass == 0) == begin, is_u = left != s.turned;
        if (!(left ? s.left : s.right))
            continue;
        __syncthreads();
        wide_vectors(s, left, r, tau3);
        const int *place = left ? s.row : s.col, rows = left ? s.rows : s.cols;
        const Ref<T> to = is_u ? resolve(a.U, b, m, r) : resolve(a.V, b, n, r);
        const bool valued = (is_u ? a.jobu : a.jobv) == 'S';
        for (int j = s.g.warp; j < r; j += s.g.warps) {
            const T *x = s.X + j * s.ldx;
            const T sign = pass ? s.flip[j] : column_sign(x, place, rows, s.g.lane),
                    f = valued ? sign * (T)scalbn(s.sigma[s.order[j]], -s.shift) : sign;
            __syncwarp();
            if (pass == 0 && s.g.lane == 0)
                s.flip[j] = sign;
            for (int i = s.g.lane; i < rows; i += 32)
                *to.at(i, j) = f * x[place[i]];
        }
    }
    return info;
}

} // namespace lowrank
#endif
