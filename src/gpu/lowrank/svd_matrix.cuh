/* The singular value decomposition of one matrix by one thread block: rows and columns sorted by
 * size, two QR factorisations, Jacobi rotations on the transposed second triangle, and the way
 * back. */
#ifndef MOAO_GPU_SVD_MATRIX_CUH
#define MOAO_GPU_SVD_MATRIX_CUH
#include "svd_block.cuh"

namespace lowrank {

/* Where a product is cut (batch_cut), for the device; most < 0: not at all. */
struct Cut {
    double tol;
    const double *tol_each;
    bool relative, frobenius;
    int most;
    const int64_t *most_each;
};

template <class T> struct SvdArgs {
    Mat<T> A, S, U, V;
    Dim m, n;
    char jobu, jobv;
    Cut cut;
    int64_t *rank;
    int *info;
    int64_t count;
    int rows_max, cols_max; /* of the matrix as it is worked on: at least as many rows as columns */
    bool with_j;            /* right vectors of the matrix as it is worked on may be wanted */
    int in_shared;          /* which of the arrays X, J, W, L (bits 0 to 3) */
    T *work;
    int64_t slot; /* elements of a block's part of work */
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

/* Elements of X, J, W, L for a matrix of so many rows and columns. */
__host__ __device__ inline int64_t svd_part(int part, int rows, int cols) {
    const int n = round_up(cols, PAIR);
    return part == 0   ? (int64_t)padded(rows) * n
           : part == 1 ? (int64_t)padded(cols) * n
           : part == 2 ? (int64_t)conflict_free(rows) * round_up(cols, 4)
                       : (int64_t)conflict_free(cols) * round_up(cols, 4);
}
/* Bytes of the small arrays. */
template <class T> __host__ __device__ inline size_t svd_small(int warps, int rows, int cols) {
    return sizeof(double) * (block_scratch(warps) + 4 + round_up(cols, PAIR) + round_up(rows, 4)) +
           sizeof(int) * (4 + round_up(rows, 4) + 2 * round_up(cols, PAIR)) +
           3 * sizeof(T) * round_up(cols, PAIR);
}

template <class T>
__device__ inline void svd_place(Svd<T> &s, const SvdArgs<T> &a, unsigned char *shared) {
    const int rows = round_up(a.rows_max, 4), cols = round_up(a.cols_max, PAIR);
    double *d = (double *)shared;
    s.g = block_place(d);
    d += block_scratch(s.g.warps);
    s.total = d, d += 4;
    s.sigma = d, d += cols;
    s.key = d, d += rows;
    int *i = (int *)d;
    s.flag = i, i += 4;
    s.row = i, i += rows;
    s.col = i, i += cols;
    s.order = i, i += cols;
    T *t = (T *)i;
    s.tau1 = t, t += cols;
    s.tau2 = t, t += cols;
    s.flip = t, t += cols;
    T *w = a.work + (int64_t)blockIdx.x * a.slot, *part[4];
    for (int q = 0; q < 4; q++) {
        T *&from = a.in_shared >> q & 1 ? t : w;
        part[q] = from;
        if (q != 1 || a.with_j)
            from += svd_part(q, a.rows_max, a.cols_max);
    }
    s.X = part[0], s.J = part[1], s.W = part[2], s.L = part[3];
}

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
 * to total[1]. */
template <class T> __device__ inline void svd_trim(Svd<T> &s, const SvdArgs<T> &a) {
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
    for (int j = s.kept + s.g.warp; j < round_up(s.kept, PAIR); j += s.g.warps)
        for (int i = s.g.lane; i < round_up(s.cols, 8); i += 32)
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

/* X := W S to W: columns divided by their singular values. */
template <class T> __device__ inline void svd_normalise(const Svd<T> &s) {
    for (int j = s.g.warp; j < s.kept; j += s.g.warps) {
        const double sigma = s.sigma[j];
        for (int i = s.g.lane; i < s.cols; i += 32) {
            T *x = s.X + i + j * s.ldx;
            *x = sigma > 0.0 ? (T)((double)*x / sigma) : T(0);
        }
    }
    __syncthreads();
}

/* Columns of zero singular values get orthonormal directions: Q of the sorted columns is what they
 * are, and what completes them. L is used. */
template <class T> __device__ inline void svd_complete(const Svd<T> &s) {
    if (s.cut || s.sigma[s.order[s.cols - 1]] > 0.0)
        return;
    for (int q = s.g.warp; q < s.cols; q += s.g.warps)
        for (int i = s.g.lane; i < s.cols; i += 32)
            s.L[i + q * s.ldl] = s.X[i + s.order[q] * s.ldx];
    __syncthreads();
    block_factor(s.L, s.ldl, s.cols, s.cols, s.tau2, s.g);
    for (int j = (int)threadIdx.x; j < s.cols; j += (int)blockDim.x)
        s.flip[j] = s.L[j + j * s.ldl] < T(0) ? T(-1) : T(1);
    __syncthreads();
    block_form(s.L, s.ldl, s.cols, s.cols, s.cols, s.tau2, s.flip, s.g);
    for (int q = s.g.warp; q < s.cols; q += s.g.warps)
        for (int i = s.g.lane; i < s.cols; i += 32)
            s.X[i + s.order[q] * s.ldx] = s.L[i + q * s.ldl];
    __syncthreads();
}

/* -1 if the entry of largest modulus (the first of equals, in the caller's order) is negative, else
 * 1; place: where entry i went. By one warp. */
template <class T> __device__ inline T column_sign(const T *x, const int *place, int n, int lane) {
    T top = T(-1), value = T(0);
    int at = INT32_MAX;
    for (int i = lane; i < n; i += 32) {
        const T v = x[place[i]];
        if (fabs(v) > top)
            top = fabs(v), value = v, at = i;
    }
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

/* Vectors and values to where they are wanted. */
template <class T>
__device__ inline void svd_write(const Svd<T> &s, const SvdArgs<T> &a, int64_t b) {
    const int m = s.turned ? s.cols : s.rows, n = s.turned ? s.rows : s.cols, r = s.flag[1];
    const Ref<T> U = resolve(a.U, b, m, r), V = resolve(a.V, b, n, r);
    T *values = resolve(a.S, b, s.cols, 1).p;
    const T *u = s.turned ? s.J : s.X, *v = s.turned ? s.X : s.J;
    const int64_t ldu = s.turned ? s.ldj : s.ldx, ldv = s.turned ? s.ldx : s.ldj;
    const int *pu = s.turned ? s.col : s.row, *pv = s.turned ? s.row : s.col;
    for (int q = s.g.warp; q < s.cols; q += s.g.warps) {
        const T sigma = q < r ? (T)scalbn(s.sigma[s.order[q]], -s.shift) : T(0);
        if (s.g.lane == 0)
            values[q] = sigma;
        if (q >= r || (a.jobu == 'N' && a.jobv == 'N'))
            continue;
        const T *x = u + s.order[q] * ldu, *y = v + s.order[q] * ldv;
        const T sign =
            a.jobu != 'N' ? column_sign(x, pu, m, s.g.lane) : column_sign(y, pv, n, s.g.lane);
        const T fu = a.jobu == 'S' ? sign * sigma : sign, fv = a.jobv == 'S' ? sign * sigma : sign;
        if (a.jobu != 'N')
            for (int i = s.g.lane; i < m; i += 32)
                *U.at(i, q) = fu * x[pu[i]];
        if (a.jobv != 'N')
            for (int i = s.g.lane; i < n; i += 32)
                *V.at(i, q) = fv * y[pv[i]];
    }
    if (threadIdx.x == 0 && a.rank)
        a.rank[b] = r;
}

/* The factors, the rotations and the vectors; returns info. */
template <class T> __device__ inline int svd_solve(Svd<T> &s, const SvdArgs<T> &a) {
    svd_sort(s);
    block_factor(s.W, s.ldw, s.rows, s.cols, s.tau1, s.g);
    transpose_triangle(s, s.W, s.ldw, s.L, s.ldl, s.cols, s.cols);
    block_factor(s.L, s.ldl, s.cols, s.cols, s.tau2, s.g);
    transpose_triangle(s, s.L, s.ldl, s.X, s.ldx, round_up(s.cols, 8), round_up(s.cols, PAIR));
    svd_trim(s, a);
    T *J = s.right ? s.J : nullptr;
    if (J)
        for (int j = s.g.warp; j < round_up(s.kept, PAIR); j += s.g.warps)
            for (int i = s.g.lane; i < round_up(s.cols, 8); i += 32)
                J[i + j * s.ldj] = i == j ? T(1) : T(0);
    __syncthreads();
    /* beyond 128 rows the roundings of many products of blocks add up */
    const double eps = SvdRange<T>::EPS, root = sqrt((double)s.cols) * (s.cols > 128 ? 10.0 : 1.0);
    const Rotated<T> d = {s.X,
                          J,
                          s.ldx,
                          s.ldj,
                          round_up(s.cols, 8),
                          round_up(s.cols, 8),
                          eps * (root > 10.0 ? root : 10.0),
                          SvdRange<T>::FLOOR,
                          1024.0 * eps * eps,
                          s.sigma};
    const int sweeps = jacobi(d, s.kept, s.g);
    svd_values(s, a);
    if (s.right)
        block_multiply<T, false, false>(s.L, s.ldl, s.cols, s.cols, s.tau2, s.J, s.ldj, s.kept,
                                        s.g);
    if (s.left) {
        svd_normalise(s);
        svd_complete(s);
        for (int j = s.g.warp; j < s.kept; j += s.g.warps)
            for (int i = s.cols + s.g.lane; i < s.rows; i += 32)
                s.X[i + j * s.ldx] = T(0);
        __syncthreads();
        block_multiply<T, false, false>(s.W, s.ldw, s.rows, s.cols, s.tau1, s.X, s.ldx, s.kept,
                                        s.g);
    }
    return sweeps == 0 ? -2 : s.flag[2];
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

/* Matrix b, m x n. */
template <class T>
__device__ inline int svd_matrix(Svd<T> &s, const SvdArgs<T> &a, int64_t b, int m, int n) {
    svd_begin(s, a, b, m, n);
    s.ldw = conflict_free(s.rows), s.ldl = conflict_free(s.cols);
    s.ldx = padded(s.rows), s.ldj = padded(s.cols);
    const Ref<T> A = resolve(a.A, b, m, n);
    int info = svd_scale(s, s.turned ? Ref<T>{A.p, A.sj, A.si, false} : A);
    if (info)
        return info;
    info = svd_solve(s, a);
    svd_write(s, a, b);
    return info;
}

} // namespace lowrank
#endif
