/* What the kernels of the singular value decomposition share: a matrix and its places, scaling,
 * sorting of rows and columns by size, trimming, values and the rank after the cut. */
#ifndef MOAO_GPU_SVD_MATRIX_CUH
#define MOAO_GPU_SVD_MATRIX_CUH
#include "qr_block.cuh"

namespace lowrank {

constexpr int SWEEPS = BATCH_SWEEPS_MAX; /* at most */

__host__ __device__ constexpr int round_up(int n, int to) {
    return (n + to - 1) / to * to;
}

/* Where a product is cut (batch_cut), for the device; most < 0: not at all. */
struct Cut {
    double tol;
    const double *tol_each;
    bool relative, frobenius;
    int most;
    const int64_t *most_each;
};

inline Cut device_cut(const batch_cut *c) {
    Cut d = {};
    d.most = -1;
    if (c) {
        d.tol = c->tol;
        d.tol_each = c->tol_each;
        d.relative = c->kind == 'R';
        d.frobenius = c->norm == 'F';
        d.most = (int)c->most;
        d.most_each = c->most_each;
    }
    return d;
}

template <class T> struct SvdArgs {
    Mat<T> A, S, U, V;
    Dim m, n;
    char jobu, jobv;
    Cut cut;
    int64_t *rank;
    int *info, *sweeps; /* NULL: not wanted */
    int sweeps_most;
    int64_t count;
    int rows_max, cols_max; /* of the matrix as it is worked on: at least as many rows as columns */
    T *work;
};

/* One matrix and the block's memory. W: reflectors of the first QR (rows x cols), L of the second
 * (cols x cols); X: columns that are rotated, later left vectors; J: right vectors. */
template <class T> struct Svd {
    Block g;
    int rows, cols, kept; /* columns that the rotations see */
    bool turned;          /* the matrix is A^T */
    bool left, right;     /* vectors that are wanted */
    T *W, *L, *X, *J;
    int64_t ldw, ldl, ldx, ldj;
    double *sigma, *key; /* cols; rows */
    int *row, *col;      /* where row i and column j went */
    int *order;          /* which column has the q-th singular value */
    T *tau1, *tau2, *flip;
    int *flag;        /* 4 */
    double *total;    /* 4: squares of A, dropped squares, threshold */
    int shift;        /* A was multiplied by 2^shift */
    T scale1, scale2; /* their product is that */
    int64_t most;     /* largest rank */
    double tol;
    bool cut;
};

/* A matrix is scaled so that its largest entry is near 2^TOP; columns of norm up to FLOOR, whose
 * squares would leave the range, count as zero. */
template <class T> struct SvdRange;
template <> struct SvdRange<double> {
    static constexpr int TOP = 470;
    static constexpr double EPS = 0x1p-53, FLOOR = 0x1p-480, MAX = DBL_MAX;
};
template <> struct SvdRange<float> {
    static constexpr int TOP = 50;
    static constexpr double EPS = 0x1p-24, FLOOR = 0x1p-100;
    static constexpr float MAX = FLT_MAX;
};

/* X := A as it is; the largest modulus, and in flag[0] the first column of the caller's matrix
 * that is not finite (counted from 1; INT32_MAX: none). */
template <class T> __device__ inline T svd_load(Svd<T> &s, const Ref<T> &A) {
    T top = T(0);
    const int inner = s.turned ? s.cols : s.rows, outer = s.turned ? s.rows : s.cols;
    if (threadIdx.x == 0)
        s.flag[0] = INT32_MAX;
    __syncthreads();
    for (int o = s.g.warp; o < outer; o += s.g.warps) {
        bool fine = true;
        for (int e = s.g.lane; e < inner; e += 32) {
            const int i = s.turned ? o : e, j = s.turned ? e : o;
            const T x = *A.at(i, j);
            s.X[i + j * s.ldx] = x;
            top = fmax(top, fabs(x));
            fine = fine && fabs(x) <= SvdRange<T>::MAX;
        }
        if (!fine)
            atomicMin(s.flag, o + 1);
    }
#pragma unroll
    for (int d = 16; d; d >>= 1)
        top = fmax(top, __shfl_xor_sync(0xffffffffu, top, d));
    if (s.g.lane == 0)
        s.key[s.g.warp] = (double)top;
    __syncthreads();
    for (int w = 0; w < s.g.warps; w++)
        top = fmax(top, (T)s.key[w]);
    __syncthreads();
    return top;
}

/* place[i]: how many keys come before key i, in descending order, equal ones by index. */
__device__ inline void rank_descending(const double *key, int n, int *place) {
    for (int i = (int)threadIdx.x; i < n; i += (int)blockDim.x) {
        const double mine = key[i];
        int before = 0;
        for (int j = 0; j < n; j++)
            before += key[j] > mine || (key[j] == mine && j < i);
        place[i] = before;
    }
    __syncthreads();
}

/* X scaled, and where its rows go by their largest modulus and its columns by their norms. */
template <class T> __device__ inline void svd_order(Svd<T> &s) {
    for (int j = s.g.warp; j < s.cols; j += s.g.warps) {
        double sum = 0.0;
        for (int i = s.g.lane; i < s.rows; i += 32) {
            const T x = s.X[i + j * s.ldx] * s.scale1 * s.scale2;
            s.X[i + j * s.ldx] = x;
            sum += (double)x * (double)x;
        }
        sum = warp_sum(sum);
        if (s.g.lane == 0)
            s.sigma[j] = sum;
    }
    __syncthreads();
    for (int i = (int)threadIdx.x; i < s.rows; i += (int)blockDim.x) {
        T top = T(0);
        for (int j = 0; j < s.cols; j++)
            top = fmax(top, fabs(s.X[i + j * s.ldx]));
        s.key[i] = (double)top;
    }
    if (s.g.warp == 0) {
        double sum = 0.0;
        for (int j = s.g.lane; j < s.cols; j += 32)
            sum += s.sigma[j];
        sum = warp_sum(sum);
        if (s.g.lane == 0)
            s.total[0] = sum;
    }
    rank_descending(s.sigma, s.cols, s.col); /* its barrier closes the keys too */
    rank_descending(s.key, s.rows, s.row);
}
/* W := X scaled and sorted. */
template <class T> __device__ inline void svd_sort(Svd<T> &s) {
    svd_order(s);
    for (int j = s.g.warp; j < s.cols; j += s.g.warps)
        for (int i = s.g.lane; i < s.rows; i += 32)
            s.W[s.row[i] + s.col[j] * s.ldw] = s.X[i + j * s.ldx];
    __syncthreads();
}

/* To := the transposed upper triangle of From (cols x cols), zero above the diagonal. */
template <class T>
__device__ inline void transpose_triangle(const Svd<T> &s, const T *from, int64_t ldf, T *to,
                                          int64_t ldt, int rows, int columns) {
    for (int j = s.g.warp; j < columns; j += s.g.warps)
        for (int i = s.g.lane; i < rows; i += 32)
            to[i + j * ldt] = j <= i && i < s.cols ? from[j + i * ldf] : T(0);
    __syncthreads();
}

/* Squares of the first n columns of X to sigma. */
template <class T> __device__ inline void column_squares(const Svd<T> &s, int n) {
    for (int j = s.g.warp; j < n; j += s.g.warps) {
        double sum = 0.0;
        for (int i = s.g.lane; i < s.cols; i += 32) {
            const double x = (double)s.X[i + j * s.ldx];
            sum += x * x;
        }
        sum = warp_sum(sum);
        if (s.g.lane == 0)
            s.sigma[j] = sum;
    }
    __syncthreads();
}

/* The threshold in the scaled matrix, `largest` its largest singular value or a lower bound. */
template <class T>
__device__ inline double threshold(const SvdArgs<T> &a, const Svd<T> &s, double largest) {
    if (!(s.tol > 0.0))
        return 0.0;
    if (!a.cut.relative)
        return scalbn(s.tol, s.shift);
    return s.tol * (a.cut.frobenius ? sqrt(s.total[0]) : largest);
}

/* Drops the last columns of X whose joint norm is at most a tenth of the threshold; their squares
 * to total[1]; zeros up to a multiple of `pair` columns. */
template <class T> __device__ inline void svd_trim(Svd<T> &s, const SvdArgs<T> &a, int pair) {
    s.kept = s.cols;
    if (threadIdx.x == 0)
        s.total[1] = 0.0;
    if (!s.cut || !(s.tol > 0.0))
        return;
    column_squares(s, s.cols);
    if (threadIdx.x == 0) {
        double top = 0.0, sum = 0.0;
        for (int j = 0; j < s.cols; j++)
            top = fmax(top, s.sigma[j]);
        const double t = 0.1 * threshold(a, s, sqrt(top));
        int n = s.cols;
        while (n > 0 && sqrt(sum + s.sigma[n - 1]) <= t)
            sum += s.sigma[--n];
        s.total[1] = sum;
        s.flag[1] = n;
    }
    __syncthreads();
    s.kept = s.flag[1];
    for (int j = s.kept + s.g.warp; j < round_up(s.kept, pair); j += s.g.warps)
        for (int i = s.g.lane; i < s.cols; i += 32)
            s.X[i + j * s.ldx] = T(0);
    __syncthreads();
}

/* The rank after the cut: the least one whose error meets the threshold, among the columns whose
 * singular value is not 0; flag[1]: rank, flag[2]: -3 if `most` did not suffice. By one thread. */
template <class T> __device__ inline void cut_rank(Svd<T> &s, const SvdArgs<T> &a) {
    int r = 0;
    while (r < s.kept && s.sigma[s.order[r]] > 0.0)
        r++;
    const double t = threshold(a, s, r ? s.sigma[s.order[0]] : 0.0), gone = s.total[1];
    double tail = 0.0;
    if (t > 0.0)
        while (r > 0) {
            const double x = s.sigma[s.order[r - 1]];
            const double error = a.cut.frobenius ? gone + tail + x * x : gone + x * x;
            if (!(sqrt(error) <= t))
                break;
            tail += x * x;
            r--;
        }
    s.flag[2] = r > s.most && t > 0.0 ? -3 : 0;
    s.flag[1] = r > s.most ? (int)s.most : r;
}

/* Singular values, their order, and the rank. */
template <class T> __device__ inline void svd_values(Svd<T> &s, const SvdArgs<T> &a) {
    column_squares(s, s.kept);
    for (int j = (int)threadIdx.x; j < s.kept; j += (int)blockDim.x) {
        const double x = sqrt(s.sigma[j]);
        s.sigma[j] = x > SvdRange<T>::FLOOR ? x : 0.0;
    }
    __syncthreads();
    for (int i = (int)threadIdx.x; i < s.kept; i += (int)blockDim.x) {
        const double mine = s.sigma[i];
        int before = 0;
        for (int j = 0; j < s.kept; j++)
            before += s.sigma[j] > mine || (s.sigma[j] == mine && j < i);
        s.order[before] = i;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        s.flag[1] = s.cols;
        s.flag[2] = 0;
        if (s.cut)
            cut_rank(s, a);
    }
    __syncthreads();
}

/* The sign of a column, by one warp: -1 if its entry of largest modulus (the first of equals, in
 * the caller's order) is negative, else 1. */
template <class T> struct Largest {
    T top = T(-1), value = T(0);
    int at = INT32_MAX;
    __device__ void see(T v, int i) {
        const T t = fabs(v);
        if (t > top || (t == top && i < at))
            top = t, value = v, at = i;
    }
    __device__ T sign() {
#pragma unroll
        for (int d = 16; d; d >>= 1) {
            const T t = __shfl_xor_sync(0xffffffffu, top, d),
                    v = __shfl_xor_sync(0xffffffffu, value, d);
            const int o = __shfl_xor_sync(0xffffffffu, at, d);
            if (t > top || (t == top && o < at))
                top = t, value = v, at = o;
        }
        return value < T(0) ? T(-1) : T(1);
    }
};
/* place: where the caller's entry i went; NULL: nowhere. */
template <class T> __device__ inline T column_sign(const T *x, const int *place, int n, int lane) {
    Largest<T> l;
#pragma unroll 4
    for (int i = lane; i < n; i += 32)
        l.see(x[place ? place[i] : i], i);
    return l.sign();
}
/* at: the caller's number of entry i. */
template <class T> __device__ inline T column_sign_at(const T *x, const int *at, int n, int lane) {
    Largest<T> l;
#pragma unroll 4
    for (int i = lane; i < n; i += 32)
        l.see(x[i], at[i]);
    return l.sign();
}

/* What is asked for matrix b, m x n. */
template <class T>
__device__ inline void svd_begin(Svd<T> &s, const SvdArgs<T> &a, int64_t b, int m, int n) {
    s.turned = m < n;
    s.rows = m < n ? n : m, s.cols = m < n ? m : n;
    s.left = (s.turned ? a.jobv : a.jobu) != 'N';
    s.right = (s.turned ? a.jobu : a.jobv) != 'N';
    s.cut = a.cut.most >= 0;
    s.most = a.cut.most_each ? a.cut.most_each[b] : a.cut.most;
    s.most = s.most > a.cut.most ? a.cut.most : s.most < 0 ? 0 : s.most;
    s.tol = a.cut.tol_each ? a.cut.tol_each[b] : a.cut.tol;
}
/* X := A and the factor that svd_order applies; the first column that is not finite (0: none). */
template <class T> __device__ inline int svd_scale(Svd<T> &s, const Ref<T> &A) {
    const T top = svd_load(s, A);
    if (s.flag[0] != INT32_MAX)
        return s.flag[0];
    s.shift = top > T(0) ? SvdRange<T>::TOP - ilogb(top) : 0;
    s.scale1 = scalbn(T(1), s.shift / 2);
    s.scale2 = scalbn(T(1), s.shift - s.shift / 2);
    return 0;
}

/* Matrices of more rows than svd_core.cuh takes (svd_wide.cu), and their workspace in bytes. */
template <class T>
status launch_svd_wide(const SvdArgs<T> &a, void *work, size_t lwork, cudaStream_t s);
template <class T> size_t wide_svd_work(int64_t count, int rows, int cols);

} // namespace lowrank
#endif
