/* The singular value decomposition of a matrix of up to 64, 96 or 128 rows and columns by one
 * thread block: the QR factorisations and what their reflectors are multiplied with in a grid of
 * registers (qr_grid.cuh), the rotations in columns in registers (svd_quads.cuh; where half of them
 * were trimmed, svd_pairs.cuh). The rotations give X = L J = W S; J is Q of a third QR, of L^T W =
 * J S with the columns in descending order, so that what the roundings of large values leave in the
 * vectors of small ones is taken out, and not the other way round. */
#ifndef MOAO_GPU_SVD_CORE_CUH
#define MOAO_GPU_SVD_CORE_CUH
#include "qr_grid.cuh"
#include "svd_matrix.cuh"
#include "svd_quads.cuh"

namespace lowrank {

/* Shapes of a class: the grid, the columns of the rotations in double and in single precision (in
 * which the arithmetic of angles, which is the same, weighs more), and of half of them. */
template <class T> struct Core64 {
    typedef Grid<T, 8, 16, 8, 4> G;
    typedef Quads<T, 8, 16, 8> P;
    typedef Pairs<T, 4, 32, 16> Single;
    typedef Pairs<T, 8, 16, 8> Half;
    static constexpr int N = 64, LD = N + 4, THREADS = G::THREADS, BLOCKS = 4;
};
template <class T> struct Core96 {
    typedef Grid<T, 8, 32, 12, 3> G;
    typedef Quads<T, 16, 16, 6> P; /* two thirds of the columns */
    static constexpr int N = 96, LD = N + 4, THREADS = G::THREADS, BLOCKS = 2;
};
template <class T> struct Core128 {
    typedef Grid<T, 16, 32, 8, 4> G;
    typedef Quads<T, 16, 32, 8> P;
    typedef Pairs<T, 8, 64, 16> Single;
    typedef Pairs<T, 16, 32, 8> Half;
    static constexpr int N = 128, LD = N + 8, THREADS = G::THREADS, BLOCKS = 1;
};
/* Elements of a block's part of the workspace: reflectors of both QR factorisations, W. */
template <class C> __host__ __device__ constexpr int64_t core_slot() {
    return 3 * C::N * C::N;
}

/* What a block has in addition to Svd: inverse permutations, scratch of the third QR, the
 * workspace. */
template <class T> struct CorePlace {
    int *row_at, *col_at;        /* the row and column that went to place i */
    double *scalars;             /* of svd_quads.cuh */
    T *tau3, *sign, *reflectors; /* reflectors: what a QR stores in addition to its tau */
    T *first, *second, *w;
};

template <class T, class C> constexpr size_t core_bytes() {
    return sizeof(T) * (C::N * C::LD + 8 * C::N) + sizeof(double) * (2 * C::N + 4 + C::P::SCALARS) +
           sizeof(int) * (5 * C::N + 4);
}
template <class T, class C>
__device__ inline CorePlace<T> core_place(Svd<T> &s, unsigned char *shared, T *work) {
    CorePlace<T> c;
    constexpr int N = C::N;
    double *d = (double *)shared;
    s.total = d, s.sigma = d + 4, s.key = s.sigma + N;
    c.scalars = s.key + N;
    T *t = (T *)(c.scalars + C::P::SCALARS);
    s.X = t, t += N * C::LD;
    s.ldx = C::LD;
    s.tau1 = t, s.tau2 = t + N, s.flip = t + 2 * N, c.tau3 = t + 3 * N, c.sign = t + 4 * N;
    c.reflectors = t + 5 * N;
    int *i = (int *)(t + 8 * N);
    s.flag = i, s.row = i + 4, s.col = s.row + N, s.order = s.col + N;
    c.row_at = s.order + N, c.col_at = c.row_at + N;
    c.first = work + (int64_t)blockIdx.x * core_slot<C>();
    c.second = c.first + N * N, c.w = c.second + N * N;
    s.g.warp = (int)threadIdx.x / 32, s.g.warps = C::THREADS / 32;
    s.g.lane = (int)threadIdx.x % 32;
    return c;
}

/* Where a QR leaves its reflectors. */
template <class T, class C>
__device__ inline GridVectors<T> core_reflectors(const Svd<T> &s, const CorePlace<T> &c, T *tau) {
    return GridVectors<T>{s.X, tau, c.reflectors, c.reflectors + C::N, c.reflectors + 2 * C::N};
}

/* s := the transposed upper triangle of g, order n, zero elsewhere. */
template <class G>
__device__ inline void core_transpose(const G &g, typename G::T *s, int ld, int n) {
    typedef typename G::T T;
#pragma unroll
    for (int q = 0; q < G::C; q++)
#pragma unroll
        for (int a = 0; a < G::A; a++) {
            const int i = g.row(a), j = g.col(q);
            s[j + i * ld] = i <= j && j < n ? g.x[a][q] : T(0);
        }
    __syncthreads();
}

/* v := the n reflectors of f (leading dimension ROWS, R above them): 1 on the diagonal, zeros above
 * it and beyond `rows`. */
template <class G>
__device__ inline void core_vectors(typename G::T *v, const typename G::T *f, int rows, int n) {
    typedef typename G::T T;
#pragma unroll 8
    for (int e = (int)threadIdx.x; e < n * G::ROWS; e += G::THREADS) {
        const int i = e % G::ROWS, j = e / G::ROWS;
        v[e] = i > j && i < rows ? f[e] : T(i == j ? 1 : 0);
    }
    __syncthreads();
}

/* The reflectors of both QR factorisations go to the workspace, the triangle L that is left to X.
 */
template <class T, class C> __device__ inline void core_triangle(Svd<T> &s, const CorePlace<T> &c) {
    typename C::G g;
    const int n = s.cols;
#pragma unroll
    for (int q = 0; q < C::G::C; q++)
#pragma unroll
        for (int a = 0; a < C::G::A; a++) {
            const int i = g.row(a), j = g.col(q);
            g.x[a][q] = i < s.rows && j < n ? s.X[c.row_at[i] + c.col_at[j] * C::LD] : T(0);
        }
#pragma unroll 1
    for (int pass = 0; pass < 2; pass++) {
        __syncthreads();
        const GridVectors<T> h = core_reflectors<T, C>(s, c, pass ? s.tau2 : s.tau1);
        grid_factor<false>(g, n, h);
        grid_scale(g, n, h);
        grid_store(g, pass ? c.second : c.first, C::N, pass ? n : s.rows, n);
        core_transpose(g, s.X, C::LD, n);
        if (pass == 0)
            grid_load(g, s.X, C::LD, n, n);
    }
}

/* g := Q of its first r columns, each with the sign of R's diagonal. */
template <class T, class C>
__device__ inline void core_orthonormal(typename C::G &g, Svd<T> &s, const CorePlace<T> &c, int r) {
    __syncthreads();
    const GridVectors<T> h = core_reflectors<T, C>(s, c, c.tau3);
    grid_factor<true>(g, r, h);
#pragma unroll
    for (int q = 0; q < C::G::C; q++)
#pragma unroll
        for (int a = 0; a < C::G::A; a++)
            if (g.row(a) == g.col(q))
                c.sign[g.row(a)] = g.x[a][q] < T(0) ? T(-1) : T(1);
    __syncthreads();
    grid_form(g, r, h.v, h.factor, c.sign);
    __syncthreads();
}

/* The r left vectors W of L, which are in X times their values, to the workspace. */
template <class T, class C>
__device__ inline void core_left(Svd<T> &s, const CorePlace<T> &c, int r) {
    typename C::G g;
#pragma unroll
    for (int q = 0; q < C::G::C; q++) {
        const int j = g.col(q), from = j < r ? s.order[j] : 0;
        const double sigma = j < r ? s.sigma[from] : 0.0;
        const T inverse = sigma > 0.0 ? (T)(1.0 / sigma) : T(0);
#pragma unroll
        for (int a = 0; a < C::G::A; a++)
            g.x[a][q] = s.X[g.row(a) + from * C::LD] * inverse;
    }
    if (!s.cut && !(s.sigma[s.order[r - 1]] > 0.0)) /* columns of zero values */
        core_orthonormal<T, C>(g, s, c, r);
    grid_store(g, c.w, C::N, s.cols, r);
    __syncthreads();
}

/* g := Q1 W or Q2 J. */
template <class T, class C>
__device__ inline void core_vectors_of(typename C::G &g, bool left, Svd<T> &s,
                                       const CorePlace<T> &c, int r) {
    const int n = s.cols;
    if (left) {
        grid_load(g, c.w, C::N, n, r);
    } else {
        for (int e = (int)threadIdx.x; e < n * C::N; e += C::THREADS)
            if (e / C::N < r && e % C::N < n)
                s.X[e % C::N + e / C::N * C::LD] = c.w[e];
        __syncthreads();
        grid_load(g, s.X, 0, 0, 0); /* zero */
#pragma unroll 2
        for (int k = 0; k < n; k++) {
            T w[C::G::C], x;
#pragma unroll
            for (int q = 0; q < C::G::C; q++)
                w[q] = g.col(q) < r ? s.X[k + g.col(q) * C::LD] : T(0);
#pragma unroll
            for (int a = 0; a < C::G::A; a++) {
                x = g.row(a) <= k ? c.second[g.row(a) + k * C::N] : T(0);
#pragma unroll
                for (int q = 0; q < C::G::C; q++)
                    g.x[a][q] = fma(x, w[q], g.x[a][q]);
            }
        }
        core_orthonormal<T, C>(g, s, c, r);
    }
    core_vectors<typename C::G>(s.X, left ? c.first : c.second, left ? s.rows : n, n);
    grid_multiply(g, n, s.X, left ? s.tau1 : s.tau2);
    __syncthreads();
}

/* flip: -1 for columns whose entry of largest modulus (the first of equals, in the caller's order)
 * is negative, else 1. at: the caller's index of a row. */
template <class G>
__device__ inline void core_signs(const G &g, const int *at, int rows, typename G::T *flip) {
    typedef typename G::T T;
#pragma unroll
    for (int q = 0; q < G::C; q++) {
        T top = T(-1), value = T(0);
        int first = INT32_MAX;
#pragma unroll
        for (int a = 0; a < G::A; a++) {
            const int i = g.row(a) < rows ? at[g.row(a)] : INT32_MAX;
            const T x = g.x[a][q], size = fabs(x);
            if (i != INT32_MAX && (size > top || (size == top && i < first)))
                top = size, value = x, first = i;
        }
#pragma unroll
        for (int d = G::RL / 2; d; d >>= 1) {
            const T t = __shfl_xor_sync(0xffffffffu, top, d),
                    v = __shfl_xor_sync(0xffffffffu, value, d);
            const int o = __shfl_xor_sync(0xffffffffu, first, d);
            if (t > top || (t == top && o < first))
                top = t, value = v, first = o;
        }
        if (g.r == 0)
            flip[g.col(q)] = value < T(0) ? T(-1) : T(1);
    }
    __syncthreads();
}

/* Vectors and values to where they are wanted. */
template <class T, class C>
__device__ inline void core_write(Svd<T> &s, const CorePlace<T> &c, const SvdArgs<T> &a,
                                  int64_t b) {
    const int m = s.turned ? s.cols : s.rows, n = s.turned ? s.rows : s.cols, r = s.flag[1];
    T *values = resolve(a.S, b, s.cols, 1).p;
    for (int q = (int)threadIdx.x; q < s.cols; q += C::THREADS)
        values[q] = q < r ? (T)scalbn(s.sigma[s.order[q]], -s.shift) : T(0);
    if (threadIdx.x == 0 && a.rank)
        a.rank[b] = r;
    if (r == 0 || (!s.left && !s.right))
        return;
    core_left<T, C>(s, c, r);
    /* the side that decides the signs comes first */
    const bool begin = a.jobu != 'N' ? !s.turned : s.turned;
#pragma unroll 1
    for (int pass = 0; pass < 2; pass++) {
        const bool left = (pass == 0) == begin, is_u = left != s.turned;
        if (!(left ? s.left : s.right))
            continue;
        typename C::G g;
        core_vectors_of<T, C>(g, left, s, c, r);
        const int *at = left ? c.row_at : c.col_at, rows = left ? s.rows : s.cols;
        if (pass == 0)
            core_signs(g, at, rows, s.flip);
        const Ref<T> to = is_u ? resolve(a.U, b, m, r) : resolve(a.V, b, n, r);
        const bool valued = (is_u ? a.jobu : a.jobv) == 'S';
#pragma unroll
        for (int q = 0; q < C::G::C; q++) {
            const int j = g.col(q);
            if (j >= r)
                continue;
            const T f = valued ? s.flip[j] * (T)scalbn(s.sigma[s.order[j]], -s.shift) : s.flip[j];
#pragma unroll
            for (int k = 0; k < C::G::A; k++)
                if (g.row(k) < rows)
                    *to.at(at[g.row(k)], j) = f * g.x[k][q];
        }
    }
}

/* The sweeps, times -1 if `most` did not suffice. */
template <class T, class C>
__device__ inline int core_jacobi(const Svd<T> &s, const CorePlace<T> &c, double tol, double floor,
                                  double noise, int most) {
    const Bounds d = pair_bounds(tol, floor, C::N);
    if constexpr (C::N == 96)
        return s.kept <= C::P::COLS
                   ? quads_jacobi<typename C::P>(s.X, C::LD, c.scalars, d, noise, most)
                   : thirds_jacobi<typename C::P>(s.X, C::LD, c.scalars, d, noise, most);
    else if (s.kept <= C::N / 2)
        return pairs_jacobi<typename C::Half>(s.X, C::LD, d, noise, most);
    else if constexpr (sizeof(T) == 4)
        return pairs_jacobi<typename C::Single>(s.X, C::LD, d, noise, most);
    else
        return quads_jacobi<typename C::P>(s.X, C::LD, c.scalars, d, noise, most);
}

/* The factors, the rotations and the vectors; returns info. sweeps: how many it took. */
template <class T, class C>
__device__ inline int core_solve(Svd<T> &s, const CorePlace<T> &c, const SvdArgs<T> &a, int64_t b,
                                 int *sweeps) {
    constexpr double eps = SvdRange<T>::EPS, floor = SvdRange<T>::FLOOR;
    svd_order(s);
    for (int i = (int)threadIdx.x; i < s.rows; i += C::THREADS)
        c.row_at[s.row[i]] = i;
    for (int j = (int)threadIdx.x; j < s.cols; j += C::THREADS)
        c.col_at[s.col[j]] = j;
    __syncthreads();
    core_triangle<T, C>(s, c);
    svd_trim(s, a, 1);
    for (int e = (int)threadIdx.x; e < (s.cols - s.kept) * C::N; e += C::THREADS)
        s.X[e % C::N + (s.kept + e / C::N) * C::LD] = T(0);
    __syncthreads();
    const double root = sqrt((double)s.cols), tol = eps * (root > 10.0 ? root : 10.0),
                 noise = 1024.0 * eps * eps;
    const int taken = core_jacobi<T, C>(s, c, tol, floor * floor, noise, a.sweeps_most);
    *sweeps = s.kept ? abs(taken) : 0;
    svd_values(s, a);
    core_write<T, C>(s, c, a, b);
    return taken > 0 ? s.flag[2] : -2;
}

template <class T, class C>
__global__ void __launch_bounds__(C::THREADS, C::BLOCKS)
    svd_core_kernel(const __grid_constant__ SvdArgs<T> a) {
    extern __shared__ __align__(16) unsigned char shared[];
    Svd<T> s;
    const CorePlace<T> c = core_place<T, C>(s, shared, a.work);
    batch::wait_for_predecessor();
    for (int64_t b = blockIdx.x; b < a.count; b += gridDim.x) {
        const int m = dim_full(a.m, b), n = dim_full(a.n, b);
        int info = 0, sweeps = 0;
        if (!dim_valid(a.m, b) || !dim_valid(a.n, b)) {
            info = -1;
        } else if (m && n) {
            svd_begin(s, a, b, m, n);
            const Ref<T> A = resolve(a.A, b, m, n);
            info = svd_scale(s, s.turned ? Ref<T>{A.p, A.sj, A.si, false} : A);
            if (info == 0)
                info = core_solve<T, C>(s, c, a, b, &sweeps);
        }
        if (threadIdx.x == 0) {
            if (a.info)
                a.info[b] = info;
            if (a.sweeps)
                a.sweeps[b] = sweeps;
            if (a.rank && (info == -1 || info > 0 || m == 0 || n == 0))
                a.rank[b] = 0;
        }
        __syncthreads();
    }
}

/* Rows and columns of the matrices that it serves, at most: 128, or 96 where a block has too little
 * shared memory for more. */
inline int core_max() {
    return core_bytes<double, Core128<double>>() <= gpu_shared_most() ? Core128<double>::N
                                                                      : Core96<double>::N;
}
/* blocks: how many, each with its part of the workspace. */
template <class T>
status launch_svd_core(const SvdArgs<T> &a, int most, int64_t blocks, cudaStream_t s);
/* Elements of a block's part, and blocks of an SM. */
inline int64_t svd_core_slot(int most) {
    return most <= 64   ? core_slot<Core64<double>>()
           : most <= 96 ? core_slot<Core96<double>>()
                        : core_slot<Core128<double>>();
}
inline int svd_core_blocks(int most) {
    return most <= 64   ? Core64<double>::BLOCKS
           : most <= 96 ? Core96<double>::BLOCKS
                        : Core128<double>::BLOCKS;
}

template <class T, class C>
status start_svd_core(const SvdArgs<T> &a, int64_t blocks, cudaStream_t s) {
    return batch::launch(svd_core_kernel<T, C>, dim3((unsigned)blocks), C::THREADS,
                         core_bytes<T, C>(), s, a);
}

} // namespace lowrank
#endif
