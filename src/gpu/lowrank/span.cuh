/* The left singular vectors that a cut keeps of matrices of up to 128 x 128, up to 64 of them, by a
 * bidiagonal matrix (bidiagonal.cuh). For those who project on their span, to whom an error of
 * angle e between a kept and a cut one is an error of e^2 in what is cut, and rotations within the
 * span are none at all. Matrices whose kept values reach down to rounding errors, or are so close
 * together that their vectors are not found apart, are left to rotations. */
#ifndef MOAO_GPU_SPAN_CUH
#define MOAO_GPU_SPAN_CUH
#include "bidiagonal.cuh"
#include "lowrank_block.cuh"
#include "svd_matrix.cuh"

namespace lowrank {

template <class T> struct SpanArgs {
    Mat<T> A, S, X;
    Dim m, n;
    Cut cut;
    int64_t *rank, *rows, *cols; /* rows and cols: of what is left to rotations, else 0 */
    int *info;
    double *vectors; /* of each matrix: order of the class, squared */
    int64_t count;
};

/* Least kept value, and most that a vector leaves, relative to the norm. */
constexpr double SPAN_LEAST = 1e-11, SPAN_LEFT = 1e-11;

/* A block's shared memory, order up to N, rank up to RW. */
template <int N, int RW> struct SpanPlace {
    typedef BidiagonalGrid<N> G;
    static constexpr int ORDER = N, RANK = RW, LDZ = N + 1,
                         GRAM = Triangle<RW>::SHARED > N *Q_TILE ? Triangle<RW>::SHARED : N *Q_TILE,
                         Z = RW * LDZ > Triangle<RW>::SIZE ? RW *LDZ : Triangle<RW>::SIZE,
                         DOUBLES = GRAM + Z + 6 * N + 8;
    Bidiagonal b;
    Reversed m;
    double *gram, *z, *squares, *sigma, *red;
    /* What is used one after the other has one place: products of a step, squares of B's entries in
     * turn, Gram matrices, T; B and values; of a step and of B B^T. */
    __device__ SpanPlace(double *s, double *vectors) {
        b.v = vectors;
        gram = b.part = squares = s, s += GRAM;
        z = s, s += Z;
        b.factor = s, b.e = s + N, b.d = sigma = s + 2 * N, s += 3 * N;
        m.d = b.row = s, m.squares = b.dot = s + N, m.products = b.column = s + 2 * N, s += 3 * N;
        red = s;
    }
};

/* B of A, scaled by 2^shift, and what the following steps want of it; norm: of the scaled matrix,
 * not finite where A is not. */
template <class T, class P>
__device__ inline void span_reduce(const Ref<T> &A, int n, const P &p, int *shift, double *norm) {
    typedef typename P::G G;
    G g;
    double top = 0.0, squares = 0.0;
    bool fine = true;
#pragma unroll
    for (int q = 0; q < G::C; q++)
#pragma unroll
        for (int a = 0; a < G::A; a++) {
            g.x[a][q] = g.row(a) < n && g.col(q) < n ? (double)*A.at(g.row(a), g.col(q)) : 0.0;
            top = fmax(top, fabs(g.x[a][q]));
            fine = fine && fabs(g.x[a][q]) <= DBL_MAX;
        }
    top = block_max(top, p.red);
    *shift = top > 0.0 && top <= DBL_MAX ? -ilogb(top) : 0;
    const Scale<double> scale = scale_by<double>(*shift);
#pragma unroll
    for (int q = 0; q < G::C; q++)
#pragma unroll
        for (int a = 0; a < G::A; a++) {
            g.x[a][q] = scale(g.x[a][q]);
            squares = fma(g.x[a][q], g.x[a][q], squares);
        }
    *norm = sqrt(block_sum(squares, p.red));
    if (__syncthreads_or(!fine))
        *norm = (double)INFINITY;
    if (!(*norm > 0.0 && *norm <= DBL_MAX))
        return;
    bidiagonal_strips<0>(g, n, p.b);
    for (int i = (int)threadIdx.x; i < G::ROWS; i += G::THREADS) {
        const bool in = i < n;
        const double d = in ? p.b.d[n - 1 - i] : 0.0, e = i + 1 < n ? p.b.e[n - 2 - i] : 0.0,
                     d0 = in ? p.b.d[i] : 0.0, e0 = in ? p.b.e[i] : 0.0;
        p.m.d[i] = d * d, p.m.squares[i] = e * e, p.m.products[i] = d * e;
        p.squares[2 * i] = d0 * d0, p.squares[2 * i + 1] = e0 * e0;
    }
    __syncthreads();
}

/* The least rank of n descending values whose error is up to t. */
__device__ inline int span_rank(const double *sigma, int n, bool frobenius, double t) {
    double tail = 0.0;
    int r = n;
    for (; r > 0; r--) {
        const double x = sigma[r - 1];
        if (!((frobenius ? sqrt(fma(x, x, tail)) : x) <= t))
            break;
        tail = fma(x, x, tail);
    }
    return r;
}

/* Values to p.sigma as far as they are kept, and how many; *miss: the cut asks for more. */
template <class T, class P>
__device__ inline int span_values(const SpanArgs<T> &a, int64_t b, int n, const P &p, int shift,
                                  double norm, bool *miss) {
    const int t = (int)threadIdx.x / 2;
    const double tol = a.cut.tol_each ? a.cut.tol_each[b] : a.cut.tol,
                 scaled = !(tol > 0.0)     ? 0.0
                          : a.cut.relative ? tol * norm
                                           : scalbn(tol, shift);
    int64_t most = a.cut.most_each ? a.cut.most_each[b] : a.cut.most;
    most = most > a.cut.most ? a.cut.most : most < 0 ? 0 : most;
    Bracket place(norm * (1.0 + 0x1p-30), n);
    int r = n;
    if (scaled > 0.0) { /* all of them, to tell what is cut */
        narrow(p.squares, n, t, t < n, 0x1p-30, 0x1p-33 * scaled, place);
        if (t < n)
            p.sigma[t] = place.value();
        __syncthreads();
        r = span_rank(p.sigma, n, a.cut.frobenius,
                      a.cut.relative && !a.cut.frobenius ? tol * p.sigma[0] : scaled);
        __syncthreads();
    }
    *miss = r > most && scaled > 0.0;
    r = r < most ? r : (int)most;
    narrow(p.squares, n, t, t < r, 0x1p-50, 0.0, place);
    if (t < r)
        p.sigma[t] = place.value();
    __syncthreads();
    return r;
}

/* The vectors of B B^T of the first r values to p.z; false where they are of no use. */
template <class P> __device__ inline bool span_vectors(int n, int r, double norm, const P &p) {
    constexpr int LDZ = P::LDZ;
    const int t = (int)threadIdx.x;
    bool fine = p.sigma[r - 1] > SPAN_LEAST * norm;
    if (t < r && fine) {
        const double sigma = p.sigma[t];
        double *const z = p.z + t * LDZ;
        fine = twisted_vector(p.m, n, sigma * sigma, z) <= SPAN_LEFT * sigma * norm;
        for (int i = n; i < P::ORDER; i++)
            z[i] = 0.0;
    }
    return !__syncthreads_or(!fine) && span_orthonormal<P::ORDER, P::RANK>(p.z, LDZ, n, r, p.gram);
}

/* Vectors and values of matrix b, n x n: their number, or -1 where it is left to rotations. */
template <class T, class P>
__device__ inline int span_of(const SpanArgs<T> &a, int64_t b, int n, const P &p, bool *miss) {
    int shift;
    double norm;
    span_reduce(resolve(a.A, b, n, n), n, p, &shift, &norm);
    if (!(norm > 0.0 && norm <= DBL_MAX))
        return norm == 0.0 ? 0 : -1;
    const int r = span_values(a, b, n, p, shift, norm, miss);
    if (r > P::RANK || (r > 0 && !span_vectors(n, r, norm, p)))
        return -1;
    const Ref<T> X = resolve(a.X, b, n, n);
    span_reflect<P::ORDER>(p.b.v, p.b.factor, p.z, P::LDZ, p.gram, n, r, X.p, X.sj);
    T *const values = resolve(a.S, b, n, 1).p;
    for (int t = (int)threadIdx.x; t < n; t += P::G::THREADS)
        values[t] = t < r ? (T)scalbn(p.sigma[t], -shift) : T(0);
    return r;
}

/* Blocks of an SM. */
__host__ __device__ constexpr int span_blocks(int n, int rank) {
    return n == 32 ? 8 : n == 64 ? (rank > 32 ? 3 : 4) : n == 96 ? 2 : 1;
}

template <class T, int N, int RW>
__global__ void __launch_bounds__(BidiagonalGrid<N>::THREADS, span_blocks(N, RW))
    span_kernel(const __grid_constant__ SpanArgs<T> a) {
    extern __shared__ __align__(16) unsigned char shared[];
    const int64_t b = blockIdx.x;
    const SpanPlace<N, RW> p((double *)shared, a.vectors + b * N * N);
    batch::wait_for_predecessor();
    const int m = dim_full(a.m, b), n = dim_full(a.n, b);
    const bool valid = dim_valid(a.m, b) && dim_valid(a.n, b);
    int r = valid && m && n ? -1 : 0;
    bool miss = false;
    if (r && m == n && n <= N)
        r = span_of<T>(a, b, n, p, &miss);
    if (threadIdx.x)
        return;
    a.rows[b] = r < 0 ? m : 0, a.cols[b] = r < 0 ? n : 0;
    a.rank[b] = r < 0 ? 0 : r;
    a.info[b] = !valid ? -1 : miss ? -3 : 0;
}

} // namespace lowrank
#endif
