/* Rotations that begin from eigenvectors. G = B^T B of B = A or A^T (as many rows as columns, or
 * more) has eigenvectors V0 (tridiagonal.cuh), made orthonormal by two steps V0 (I - D), D the
 * upper triangle of V0^T V0 - I with half its diagonal: what Gram and Schmidt do, to first order.
 * The columns of X = B V0 are orthogonal up to u kappa^2, so that rotations (svd_rotate.cu) end
 * after one sweep or two instead of ten: X J = U S. V = B^T U S^-1 is orthonormal up to u kappa and
 * becomes so by another such step, in which columns of large values come first and hence keep their
 * residual. Everything but the reduction and the rotations is products of n^3.
 *
 * Accuracy: errors of values are up to u sigma_1; U and V are orthonormal to rounding. Where rows,
 * or columns, have different sizes, rotations alone keep single values more accurate than that, so
 * these matrices are left to them, and so are those of kappa above some 10^5, whose G does not tell
 * small values apart, with entries far from 1, or with values too close together. */
#include "lowrank_block.cuh"
#include "svd_eigen.cuh"
#include "svd_place.cuh"
#include "tridiagonal.cuh"

namespace lowrank {

namespace {

constexpr int EIGEN_THREADS = 256, EIGEN_VALUES = EIGEN_THREADS / 2, EIGEN_COLUMNS = 64;
constexpr double EIGEN_EVEN = 256.0;    /* rows, or columns, of about one size: at most */
constexpr double EIGEN_LEAST = 0x1p-33; /* least value of G, of its norm */
/* |V0^T V0 - I|: at most, and up to where one step is enough. */
constexpr double EIGEN_APART = 1e-4, EIGEN_CLOSE = 0x1p-27;

/* A matrix in the workspace: that of rotations, whose W, L and J serve as places of U and of square
 * matrices, a third square matrix and vectors. */
struct EigenPlan {
    WidePlan p;
    size_t z, d;
};
EigenPlan eigen_plan(int rows, int cols) {
    EigenPlan e = {wide_plan<double>(round_up(rows, Gram::ROWS), cols), 0, 0};
    e.p.height = round_up(rows, Gram::ROWS);
    e.z = e.p.slot;
    e.p.slot += ((size_t)e.p.ldc * (size_t)cols * sizeof(double) + 255) / 256 * 256;
    e.d = e.p.slot;
    e.p.slot += (3 * (size_t)cols * sizeof(double) + 255) / 256 * 256;
    return e;
}

struct EigenArgs {
    WideArgs<double> w;
    size_t z, d;
    bool turned, right; /* B = A^T; right vectors of B are wanted */
    int *skip;          /* matrices that are left to rotations alone */
    int *weak;          /* those whose values turned out to be too small */
    int *calm;          /* those that need no second step */
    int64_t *rows, *cols, *left_rank;
    int *left_info;
};
struct EigenPlace : WidePlace<double> {
    double *Z, *d, *e, *tau;
};
__device__ inline EigenPlace eigen_place(const EigenArgs &a, int64_t slot) {
    EigenPlace q;
    (WidePlace<double> &)q = wide_place<double>(a.w.p, a.w.work, slot);
    unsigned char *const at = a.w.work + (size_t)slot * a.w.p.slot;
    q.Z = (double *)(at + a.z);
    q.d = (double *)(at + a.d), q.e = q.d + a.w.p.cols, q.tau = q.e + a.w.p.cols;
    return q;
}

/* --- which matrices */

/* Largest entries of rows, or columns: the largest one, and one divided by the least. */
struct Spread {
    double most, inverse;
    __device__ void see(double x) {
        most = fmax(most, x);
        inverse = fmax(inverse, 1.0 / x);
    }
    __device__ bool even(double *red) {
        most = block_max(most, red), inverse = block_max(inverse, red);
        return most * inverse <= EIGEN_EVEN;
    }
};
__global__ void __launch_bounds__(EIGEN_THREADS)
    eigen_begin_kernel(const __grid_constant__ EigenArgs a) {
    __shared__ double red[EIGEN_THREADS / 32];
    const int64_t b = blockIdx.x;
    const WideArgs<double> &w = a.w;
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    batch::wait_for_predecessor();
    const EigenPlace q = eigen_place(a, b);
    const int m = dim_full(w.a.m, b), n = dim_full(w.a.n, b);
    const Ref<double> A = resolve(w.a.A, b, m, n);
    bool fit = m == w.a.m.n && n == w.a.n.n, fine = true;
    Spread by_row = {0.0, 0.0}, by_col = {0.0, 0.0};
    for (int i = (int)threadIdx.x; i < m && fit; i += EIGEN_THREADS) {
        double top = 0.0;
#pragma unroll 8
        for (int j = 0; j < n; j++) {
            const double x = fabs(*A.at(i, j));
            fine = fine && x <= DBL_MAX;
            top = fmax(top, x);
        }
        by_row.see(top);
    }
    for (int j = warp; j < n && fit; j += EIGEN_THREADS / 32) {
        double top = 0.0;
#pragma unroll 8
        for (int i = lane; i < m; i += 32)
            top = fmax(top, fabs(*A.at(i, j)));
#pragma unroll
        for (int d = 16; d; d >>= 1)
            top = fmax(top, __shfl_xor_sync(0xffffffffu, top, d));
        by_col.see(top);
    }
    fit = by_row.even(red) && fit;
    fit = by_col.even(red) && by_col.most < 0x1p200 && by_col.most > 0x1p-200 && fit;
    fit = !__syncthreads_or(!fine) && fit;
    /* what rotations see beyond X */
    const int all = w.p.pairs * Gram::W, height = w.p.height, r = a.turned ? n : m;
    for (int j = warp; j < all; j += EIGEN_THREADS / 32)
        for (int i = (j < w.p.cols ? r : 0) + lane; i < height; i += 32)
            q.X[i + (int64_t)j * w.p.ldx] = 0.0;
    for (int j = (int)threadIdx.x; j < all; j += EIGEN_THREADS)
        q.squares[j] = 0.0;
    for (int i = (int)threadIdx.x; i < SWEEPS; i += EIGEN_THREADS)
        q.moved[i] = 0;
    if (threadIdx.x == 0) {
        a.skip[b] = !fit, a.weak[b] = 0;
        *q.tasks = *q.kept = 0;
        if (b == 0)
            *w.next = *w.done = 0;
    }
}

/* Whether G shows a least value below EIGEN_LEAST of its norm before it is reduced. Two columns
 * whose cosine is 1 - x bound it by 2 x times the norm; so does the pivot of each column in a
 * factor of the leading block, the square of its distance from those before. So equal columns, and
 * matrices of low rank, cost one look at G. */
constexpr int EIGEN_LEADING = 64, EIGEN_LEADING_LD = EIGEN_LEADING + 1;
constexpr size_t EIGEN_SCREEN = sizeof(double) * (EIGEN_LEADING * EIGEN_LEADING_LD + EIGEN_MOST);
__device__ inline bool dependent_pair(const double *G, int64_t ld, int n, const double *inverse) {
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    double most = 0.0;
    for (int j = warp; j < n; j += EIGEN_THREADS / 32)
#pragma unroll 4
        for (int i = j + 1 + lane; i < n; i += 32)
            most = fmax(most, fabs(G[i + j * ld]) * inverse[i] * inverse[j]);
    return most >= 1.0 - 0.5 * EIGEN_LEAST;
}
__device__ inline bool leading_dependent(double *s, int k, double least) {
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    for (int p = 0; p < k; p++) {
        const double pivot = s[p * (EIGEN_LEADING_LD + 1)];
        if (!(pivot > least))
            return true;
        for (int j = p + 1 + warp; j < k; j += EIGEN_THREADS / 32) {
            const double by = s[j + p * EIGEN_LEADING_LD] / pivot;
            for (int i = j + lane; i < k; i += 32)
                s[i + j * EIGEN_LEADING_LD] -= by * s[i + p * EIGEN_LEADING_LD];
        }
        __syncthreads();
    }
    return false;
}
__global__ void __launch_bounds__(EIGEN_THREADS)
    eigen_screen_kernel(const __grid_constant__ EigenArgs a) {
    extern __shared__ __align__(16) unsigned char shared[];
    __shared__ double red[EIGEN_THREADS / 32];
    const int64_t b = blockIdx.x;
    batch::wait_for_predecessor();
    if (a.skip[b])
        return;
    double *const leading = (double *)shared,
                  *const inverse = leading + EIGEN_LEADING * EIGEN_LEADING_LD, most = 0.0;
    const EigenPlace q = eigen_place(a, b);
    const int n = a.w.p.cols, k = n < EIGEN_LEADING ? n : EIGEN_LEADING;
    const int64_t ld = a.w.p.ldc;
    for (int j = (int)threadIdx.x; j < n; j += EIGEN_THREADS) {
        const double x = q.L[j * (ld + 1)];
        most = fmax(most, x);
        inverse[j] = 1.0 / sqrt(x);
    }
    for (int e = (int)threadIdx.x; e < k * k; e += EIGEN_THREADS)
        if (e % k >= e / k)
            leading[e % k + e / k * EIGEN_LEADING_LD] = q.L[e % k + e / k * ld];
    most = block_max(most, red);
    const bool lost = __syncthreads_or(dependent_pair(q.L, ld, n, inverse)) ||
                      leading_dependent(leading, k, EIGEN_LEAST * most);
    if (threadIdx.x == 0 && lost)
        a.skip[b] = 1;
}

/* --- eigenvectors */

template <class P>
__global__ void __launch_bounds__(P::THREADS, P::BLOCKS)
    eigen_reduce_kernel(const __grid_constant__ EigenArgs a) {
    extern __shared__ __align__(16) unsigned char shared[];
    batch::wait_for_predecessor();
    const EigenPlace q = eigen_place(a, blockIdx.x);
    if (!a.skip[blockIdx.x])
        tri_reduce<P>(q.L, a.w.p.ldc, a.w.p.cols, q.d, q.e, q.tau, (double *)shared);
}

/* Shared memory of what follows: T, its squares, values and scales, a tile of each warp. */
constexpr int EIGEN_TILE = 32 * 33;
constexpr size_t EIGEN_VECTORS =
    sizeof(double) * (4 * (size_t)EIGEN_MOST + 16 + 2 * EIGEN_VALUES + EIGEN_THREADS / 32 +
                      EIGEN_THREADS / 32 * EIGEN_TILE);

/* z (n x count) := the columns of t (count rows and n columns are stored), column k times
 * scale[k]; n rows. */
__device__ inline void eigen_turn(const double *t, int64_t ld, double *z, int n, int count,
                                  const double *scale, double *tiles) {
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32,
              across = (count + 31) / 32, down = (n + 31) / 32;
    double *const tile = tiles + warp * EIGEN_TILE;
    for (int task = warp; task < across * down; task += EIGEN_THREADS / 32) {
        const int k0 = 32 * (task % across), i0 = 32 * (task / across);
        for (int i = 0; i < 32 && i0 + i < n; i++)
            if (k0 + lane < count)
                tile[lane + 33 * i] = t[k0 + lane + (i0 + i) * ld] * scale[k0 + lane];
        __syncwarp();
        for (int k = 0; k < 32 && k0 + k < count; k++)
            if (i0 + lane < n)
                z[i0 + lane + (k0 + k) * ld] = tile[k + 33 * lane];
        __syncwarp();
    }
}

/* Values of T, the largest first, EIGEN_VALUES of them by each block, and their vectors to Z. J is
 * used. */
__global__ void __launch_bounds__(EIGEN_THREADS, 2)
    eigen_vectors_kernel(const __grid_constant__ EigenArgs a) {
    extern __shared__ __align__(16) unsigned char shared[];
    const int64_t b = blockIdx.x;
    batch::wait_for_predecessor();
    if (a.skip[b])
        return;
    const EigenPlace q = eigen_place(a, b);
    const int n = a.w.p.cols, first = (int)blockIdx.y * EIGEN_VALUES, t = (int)threadIdx.x / 2,
              count = n - first < EIGEN_VALUES ? n - first : EIGEN_VALUES;
    double *const d = (double *)shared, *const e = d + EIGEN_MOST, *const pairs = e + EIGEN_MOST,
                  *const value = pairs + 2 * EIGEN_MOST + 16, *const scale = value + EIGEN_VALUES,
                  *const red = scale + EIGEN_VALUES, *const tiles = red + EIGEN_THREADS / 32;
    double norm = 0.0;
    for (int i = (int)threadIdx.x; i < n; i += EIGEN_THREADS)
        norm = fmax(norm,
                    fabs(q.d[i]) + (i ? fabs(q.e[i - 1]) : 0.0) + (i + 1 < n ? fabs(q.e[i]) : 0.0));
    norm = block_max(norm, red);
    const double by = norm > 0.0 ? scalbn(1.0, -1 - ilogb(norm)) : 1.0;
    for (int i = (int)threadIdx.x; i < round_up(n, 8); i += EIGEN_THREADS) {
        d[i] = i < n ? by * q.d[i] : 2.0;
        e[i] = i + 1 < n ? by * q.e[i] : 0.0;
    }
    __syncthreads();
    for (int i = (int)threadIdx.x; i < round_up(n, 8); i += EIGEN_THREADS) {
        pairs[2 * i] = d[i];
        pairs[2 * i + 1] = i && i < n ? e[i - 1] * e[i - 1] : 0.0;
    }
    __syncthreads();
    Bracket place(1.0, n);
    narrow_by([&](double x) { return tri_below(pairs, n, x); }, n, first + t, t < count, 0x1p-50,
              0x1p-56, place);
    if (t < count && threadIdx.x % 2 == 0) {
        value[t] = place.value();
        if (first + t == n - 1 && !(place.value() > EIGEN_LEAST))
            a.weak[b] = 1;
    }
    __syncthreads();
    const int k = (int)threadIdx.x;
    if (k < count)
        scale[k] = tri_vector(d, e, n, value[k], q.J + first + k, a.w.p.ldc);
    __syncthreads();
    eigen_turn(q.J + first, a.w.p.ldc, q.Z + (int64_t)first * a.w.p.ldc, n, count, scale, tiles);
}

/* Z := Q Z, EIGEN_COLUMNS columns by each block; a weak matrix is left to rotations from here on.
 */
size_t reflect_shared(int cols) {
    return sizeof(double) * (size_t)(block_scratch(WARPS) + panel_room(cols));
}
__global__ void __launch_bounds__(32 * WARPS, 2)
    eigen_reflect_kernel(const __grid_constant__ EigenArgs a) {
    extern __shared__ __align__(16) unsigned char shared[];
    batch::wait_for_predecessor();
    if (a.skip[blockIdx.x] || a.weak[blockIdx.x]) {
        if (a.weak[blockIdx.x] && blockIdx.y == 0 && threadIdx.x == 0)
            a.skip[blockIdx.x] = 1;
        return;
    }
    const EigenPlace q = eigen_place(a, blockIdx.x);
    const int n = a.w.p.cols, first = (int)blockIdx.y * EIGEN_COLUMNS,
              count = n - first < EIGEN_COLUMNS ? n - first : EIGEN_COLUMNS;
    const int64_t ld = a.w.p.ldc;
    Block g = block_place((double *)shared);
    g.panel = (double *)shared + block_scratch(WARPS), g.rows = n;
    block_multiply<double, false, false>(q.L + 1, ld, n - 1, n - 2, q.tau, q.Z + 1 + first * ld, ld,
                                         count, g);
}

/* --- steps towards orthonormal columns */

enum { FIRST_STEP, SECOND_STEP, RIGHT_STEP };

/* gram: the lower triangle of Y^T Y; factor := I - D, after RIGHT_STEP with its rows divided by the
 * values (Y is V times these, in q.squares). What follows from how far Y was from orthonormal. */
template <int STEP>
__global__ void __launch_bounds__(EIGEN_THREADS)
    eigen_step_kernel(const __grid_constant__ EigenArgs a) {
    __shared__ double red[EIGEN_THREADS / 32];
    const int64_t b = blockIdx.x;
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32, n = a.w.p.cols;
    batch::wait_for_predecessor();
    const EigenPlace q = eigen_place(a, b);
    const int64_t ld = a.w.p.ldc;
    const double *const gram = STEP == FIRST_STEP ? q.L : q.J;
    double *const factor = STEP == FIRST_STEP ? q.J : q.Z, far = 0.0;
    const bool left = a.skip[b], done = STEP == SECOND_STEP && a.calm[b];
    for (int j = warp; j < n && !left && !done; j += EIGEN_THREADS / 32) {
        const double dj = STEP == RIGHT_STEP ? 1.0 / q.squares[j] : 1.0;
        for (int i = lane; i < n; i += 32) {
            const double di = STEP == RIGHT_STEP ? 1.0 / q.squares[i] : 1.0;
            if (i < j) {
                factor[j + i * ld] = 0.0;
                continue;
            }
            const double off = gram[i + j * ld] * di * dj - (i == j ? 1.0 : 0.0);
            far = fma(i == j ? 1.0 : 2.0, off * off, far);
            factor[j + i * ld] = dj * (i == j ? 1.0 - 0.5 * off : -off);
        }
    }
    if (STEP == SECOND_STEP && done && !left) /* V0 to its place */
        for (int j = warp; j < n; j += EIGEN_THREADS / 32)
            for (int i = lane; i < n; i += 32)
                q.J[i + j * ld] = q.L[i + j * ld];
    far = sqrt(block_sum(far, red));
    if (threadIdx.x)
        return;
    if (STEP == FIRST_STEP) {
        const bool skip = left || !(far <= EIGEN_APART); /* false for NaN, too */
        const int64_t m = a.w.a.m.each ? a.w.a.m.each[b] : a.w.a.m.n,
                      k = a.w.a.n.each ? a.w.a.n.each[b] : a.w.a.n.n;
        a.skip[b] = skip;
        a.calm[b] = skip || far <= EIGEN_CLOSE;
        a.rows[b] = skip ? m : 0, a.cols[b] = skip ? k : 0;
        *q.kept = skip ? 0 : n;
    }
}

/* --- results */

/* Values from X, which are stored in q.squares in descending order, and U to W. */
__global__ void __launch_bounds__(EIGEN_THREADS)
    eigen_left_kernel(const __grid_constant__ EigenArgs a) {
    __shared__ double sigma[EIGEN_MOST];
    __shared__ int place[EIGEN_MOST];
    const int64_t b = blockIdx.x;
    const WideArgs<double> &w = a.w;
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32, n = w.p.cols;
    batch::wait_for_predecessor();
    if (a.skip[b])
        return;
    const EigenPlace q = eigen_place(a, b);
    const int64_t ld = w.p.ldx;
    for (int j = warp; j < n; j += EIGEN_THREADS / 32) {
        double sum = 0.0;
#pragma unroll 4
        for (int i = lane; i < w.p.height; i += 32)
            sum = fma(q.X[i + j * ld], q.X[i + j * ld], sum);
        sum = warp_sum(sum);
        if (lane == 0)
            sigma[j] = sqrt(sum);
    }
    __syncthreads();
    rank_descending(sigma, n, place);
    int64_t r = n;
    if (w.a.cut.most >= 0) {
        r = w.a.cut.most_each ? w.a.cut.most_each[b] : w.a.cut.most;
        r = r > w.a.cut.most ? w.a.cut.most : r < 0 ? 0 : r;
        r = r > n ? n : r;
    }
    double *const values = resolve(w.a.S, b, n, 1).p;
    for (int j = (int)threadIdx.x; j < n; j += EIGEN_THREADS) {
        q.squares[place[j]] = sigma[j];
        values[place[j]] = place[j] < r ? sigma[j] : 0.0;
    }
    for (int j = warp; j < n; j += EIGEN_THREADS / 32) {
        const double by = 1.0 / sigma[j];
#pragma unroll 4
        for (int i = lane; i < w.p.height; i += 32)
            q.W[i + place[j] * ld] = by * q.X[i + j * ld];
    }
    if (threadIdx.x)
        return;
    if (w.a.rank)
        w.a.rank[b] = r;
    if (w.a.info)
        w.a.info[b] = wide_sweeps<double>(q, w.a.sweeps_most) < 0 ? -2 : 0;
}

/* U and V where they are wanted, with signs. */
__global__ void __launch_bounds__(EIGEN_THREADS)
    eigen_end_kernel(const __grid_constant__ EigenArgs a) {
    const int64_t b = blockIdx.x;
    const SvdArgs<double> &o = a.w.a;
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32, n = a.w.p.cols;
    batch::wait_for_predecessor();
    if (a.skip[b])
        return;
    const EigenPlace q = eigen_place(a, b);
    const double *const u = a.turned ? q.J : q.W, *const v = a.turned ? q.W : q.J;
    const int64_t ldu = a.turned ? a.w.p.ldc : a.w.p.ldx, ldv = a.turned ? a.w.p.ldx : a.w.p.ldc;
    const int rows = (int)o.m.n, cols = (int)o.n.n;
    int64_t r = n;
    if (o.cut.most >= 0)
        r = o.cut.most_each ? o.cut.most_each[b] : o.cut.most;
    r = r > n ? n : r;
    r = o.cut.most >= 0 && r > o.cut.most ? o.cut.most : r;
    const Ref<double> U = resolve(o.U, b, rows, n), V = resolve(o.V, b, cols, n);
    for (int j = warp + (int)blockIdx.y * (EIGEN_THREADS / 32); j < r;
         j += EIGEN_THREADS / 32 * (int)gridDim.y) {
        const double sign = o.jobu != 'N'   ? column_sign(u + j * ldu, nullptr, rows, lane)
                            : o.jobv != 'N' ? column_sign(v + j * ldv, nullptr, cols, lane)
                                            : 1.0,
                     fu = o.jobu == 'S' ? sign * q.squares[j] : sign,
                     fv = o.jobv == 'S' ? sign * q.squares[j] : sign;
        if (o.jobu != 'N')
            for (int i = lane; i < rows; i += 32)
                *U.at(i, j) = fu * u[i + j * ldu];
        if (o.jobv != 'N')
            for (int i = lane; i < cols; i += 32)
                *V.at(i, j) = fv * v[i + j * ldv];
    }
}

/* What rotations alone say of the matrices that were left to them. */
__global__ void eigen_merge_kernel(const __grid_constant__ EigenArgs a) {
    const int64_t b = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    batch::wait_for_predecessor();
    if (b >= a.w.count || !a.skip[b])
        return;
    if (a.w.a.rank)
        a.w.a.rank[b] = a.left_rank[b];
    if (a.w.a.info)
        a.w.a.info[b] = a.left_info[b];
}

/* --- the order of all this */

/* C (m x n) := A B, or its lower triangle where B = A^T, of the matrices without a mark in skip. */
status eigen_product(const EigenArgs &a, const Mat<double> &A, const Mat<double> &B,
                     const Mat<double> &C, int m, int n, int k, bool gram, const int *skip,
                     cudaStream_t s) {
    const auto dim = [](int x) { return Dim{nullptr, x, 0, x}; };
    const batch::GemmArgs<double> g = {A,   B,   C,    dim(m), dim(n), dim(k),
                                       1.0, 0.0, gram, gram,   skip,   a.w.count};
    return batch::launch_gemm<double>(g, s);
}
Mat<double> transposed(Mat<double> m) {
    m.trans = !m.trans;
    return m;
}

/* Matrices of the workspace that begin at a place of each slot. */
Mat<double> place(const EigenArgs &a, size_t at, int ld) {
    Mat<double> m = {};
    m.base = (double *)(a.w.work + at);
    m.stride = (int64_t)(a.w.p.slot / sizeof(double));
    m.ld = ld;
    return m;
}

template <class P> status reduce(const EigenArgs &a, cudaStream_t s) {
    return batch::launch(eigen_reduce_kernel<P>, dim3((unsigned)a.w.count), P::THREADS,
                         sizeof(double) * P::DOUBLES, s, a);
}

/* Which matrices are served, and X of these. */
status eigen_start(const EigenArgs &a, int r, cudaStream_t s) {
    const int n = a.w.p.cols;
    const WidePlan &p = a.w.p;
    const dim3 grid((unsigned)a.w.count);
    const Mat<double> B = a.turned ? transposed(a.w.a.A) : a.w.a.A, L = place(a, p.l, p.ldc),
                      J = place(a, p.j, p.ldc), Z = place(a, a.z, p.ldc), X = place(a, 0, p.ldx);
    GPU_TRY(batch::launch(eigen_begin_kernel, grid, EIGEN_THREADS, 0, s, a));
    GPU_TRY(eigen_product(a, transposed(B), B, L, n, n, r, true, a.skip, s));
    GPU_TRY(batch::launch(eigen_screen_kernel, grid, EIGEN_THREADS, EIGEN_SCREEN, s, a));
    GPU_TRY(n <= 128   ? reduce<Tri<128>>(a, s)
            : n <= 256 ? reduce<Tri<256>>(a, s)
                       : reduce<Tri<512>>(a, s));
    GPU_TRY(batch::launch(eigen_vectors_kernel,
                          dim3(grid.x, (unsigned)((n + EIGEN_VALUES - 1) / EIGEN_VALUES)),
                          EIGEN_THREADS, EIGEN_VECTORS, s, a));
    GPU_TRY(batch::launch(eigen_reflect_kernel,
                          dim3(grid.x, (unsigned)((n + EIGEN_COLUMNS - 1) / EIGEN_COLUMNS)),
                          32 * WARPS, reflect_shared(n), s, a));
    GPU_TRY(eigen_product(a, transposed(Z), Z, L, n, n, n, true, a.skip, s));
    GPU_TRY(batch::launch(eigen_step_kernel<FIRST_STEP>, grid, EIGEN_THREADS, 0, s, a));
    GPU_TRY(eigen_product(a, Z, J, L, n, n, n, false, a.skip, s));
    GPU_TRY(eigen_product(a, transposed(L), L, J, n, n, n, true, a.calm, s));
    GPU_TRY(batch::launch(eigen_step_kernel<SECOND_STEP>, grid, EIGEN_THREADS, 0, s, a));
    GPU_TRY(eigen_product(a, L, Z, J, n, n, n, false, a.calm, s));
    return eigen_product(a, B, J, X, r, n, n, false, a.skip, s);
}

/* Values and vectors of those. */
status eigen_finish(const EigenArgs &a, int r, cudaStream_t s) {
    const int n = a.w.p.cols;
    const WidePlan &p = a.w.p;
    const dim3 grid((unsigned)a.w.count);
    const Mat<double> B = a.turned ? transposed(a.w.a.A) : a.w.a.A, W = place(a, p.w, p.ldx),
                      L = place(a, p.l, p.ldc), J = place(a, p.j, p.ldc), Z = place(a, a.z, p.ldc);
    GPU_TRY(launch_rotations(a.w, s));
    GPU_TRY(batch::launch(eigen_left_kernel, grid, EIGEN_THREADS, 0, s, a));
    if (!a.right)
        return MOAO_OK;
    GPU_TRY(eigen_product(a, transposed(B), W, L, n, n, r, false, a.skip, s));
    GPU_TRY(eigen_product(a, transposed(L), L, J, n, n, n, true, a.skip, s));
    GPU_TRY(batch::launch(eigen_step_kernel<RIGHT_STEP>, grid, EIGEN_THREADS, 0, s, a));
    return eigen_product(a, L, Z, J, n, n, n, false, a.skip, s);
}

/* Workspace of so many matrices at a time. */
struct EigenChunk {
    int64_t *rows, *cols, *rank;
    int *skip, *weak, *calm, *info;
    void *rest; /* where what is left to rotations alone begins; slots: those of rotations, too */
    size_t slots, used;
    EigenChunk(void *work, int64_t count, size_t slot) {
        Pieces p = {(char *)work, 0};
        rows = p.take<int64_t>(count), cols = p.take<int64_t>(count);
        rank = p.take<int64_t>(count);
        skip = p.take<int>(count), weak = p.take<int>(count);
        calm = p.take<int>(count), info = p.take<int>(count);
        rest = work ? (char *)work + p.used : nullptr;
        slots = p.used;
        used = p.used + WIDE_HEAD + slot * (size_t)count;
    }
};
size_t chunk_work(int64_t count, int64_t m, int64_t n, const EigenRest &rest) {
    const EigenPlan e = eigen_plan((int)(m > n ? m : n), (int)(m > n ? n : m));
    const EigenChunk c(nullptr, count, e.p.slot);
    const size_t alone = c.slots + rest.work(BACKEND_D, count, m, n);
    return (c.used > alone ? c.used : alone) + 256;
}
int64_t chunk_most(int64_t count, int64_t m, int64_t n) {
    const int64_t cols = m > n ? n : m, sms = (int64_t)batch::resident(1),
                  most = sms * (cols > 256   ? 2
                                : cols > 128 ? 4
                                             : 8);
    return count < most ? count : most;
}

status eigen_chunk(cudaStream_t s, const SvdCall &c, const EigenRest &rest, void *work,
                   size_t lwork) {
    const int rows = (int)(c.m.n > c.n.n ? c.m.n : c.n.n),
              cols = (int)(c.m.n > c.n.n ? c.n.n : c.m.n);
    const EigenPlan e = eigen_plan(rows, cols);
    const EigenChunk k(work, c.count, e.p.slot);
    EigenArgs a = {};
    SvdArgs<double> &o = a.w.a;
    o.A = view<double>(c.a), o.S = view<double>(c.sigma);
    o.U = view<double>(c.u), o.V = view<double>(c.v);
    o.m = whole(c.m), o.n = whole(c.n), o.jobu = c.jobu, o.jobv = c.jobv;
    o.cut = device_cut(c.cut), o.rank = c.rank, o.info = c.info, o.count = c.count;
    o.sweeps_most = SWEEPS, o.rows_max = rows, o.cols_max = cols;
    a.w.p = e.p, a.w.count = c.count, a.w.next = (int *)k.rest, a.w.done = a.w.next + 1;
    a.w.work = (unsigned char *)k.rest + WIDE_HEAD;
    a.z = e.z, a.d = e.d, a.turned = c.m.n < c.n.n;
    a.right = (a.turned ? c.jobu : c.jobv) != 'N';
    a.skip = k.skip, a.weak = k.weak, a.calm = k.calm;
    a.rows = k.rows, a.cols = k.cols, a.left_rank = k.rank, a.left_info = k.info;
    GPU_TRY(eigen_start(a, rows, s));
    GPU_TRY(eigen_finish(a, rows, s));
    GPU_TRY(batch::launch(eigen_end_kernel, dim3((unsigned)c.count, (unsigned)((cols + 63) / 64)),
                          EIGEN_THREADS, 0, s, a));
    SvdCall left = c; /* in the places of what is done */
    left.m = batch_dim{c.m.n, k.rows}, left.n = batch_dim{c.n.n, k.cols};
    left.rank = k.rank, left.info = k.info;
    GPU_TRY(rest.run(s, BACKEND_D, left, k.rest, lwork - k.slots));
    return batch::launch(eigen_merge_kernel, dim3((unsigned)((c.count + 127) / 128)), 128, 0, s, a);
}

} // namespace

bool eigen_serves(backend_type t, const batch_cut *cut, int64_t m, int64_t n) {
    const int64_t rows = m > n ? m : n, cols = m > n ? n : m;
    return t == BACKEND_D && cols > 64 && rows <= EIGEN_MOST && rows <= 2 * cols &&
           !(cut && (cut->tol > 0.0 || cut->tol_each || cut->sweeps || cut->sweeps_most > 0));
}

size_t eigen_work(int64_t count, int64_t m, int64_t n, const EigenRest &rest) {
    return chunk_work(chunk_most(count, m, n), m, n, rest);
}

status eigen_svd(cudaStream_t s, const SvdCall &call, const EigenRest &rest, void *work,
                 size_t lwork) {
    int64_t chunk = chunk_most(call.count, call.m.n, call.n.n);
    while (chunk > 1 && chunk_work(chunk, call.m.n, call.n.n, rest) > lwork)
        chunk--;
    for (int64_t first = 0; first < call.count; first += chunk) {
        SvdCall c = call;
        batch_cut cut;
        c.count = call.count - first < chunk ? call.count - first : chunk;
        c.m = dim_from(c.m, first), c.n = dim_from(c.n, first);
        c.a = mat_from(c.a, BACKEND_D, first), c.sigma = mat_from(c.sigma, BACKEND_D, first);
        if (c.jobu != 'N')
            c.u = mat_from(c.u, BACKEND_D, first);
        if (c.jobv != 'N')
            c.v = mat_from(c.v, BACKEND_D, first);
        if (call.cut)
            cut = cut_from(call.cut, first), c.cut = &cut;
        c.rank = call.rank ? call.rank + first : nullptr;
        c.info = call.info ? call.info + first : nullptr;
        GPU_TRY(eigen_chunk(s, c, rest, work, lwork));
    }
    return MOAO_OK;
}

} // namespace lowrank
