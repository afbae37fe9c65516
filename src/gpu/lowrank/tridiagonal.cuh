/* Eigenvectors of symmetric matrices G of up to N = 128, 256 or 512 rows by way of a tridiagonal
 * one, T = Q^T G Q: reflectors in panels of 8 columns, whose effect on the rest is one product
 * (Dongarra, Sorensen, Hammarling 1989, J. Comput. Appl. Math. 27, 215; LAPACK's sytrd); values by
 * sign changes of leading minors; vectors from twisted factorisations of T - lambda, each by one
 * thread for itself. Errors of values are in proportion to the largest one. Vectors of close values
 * are not orthogonal: they have to be made so. The reduction reads half of what is left of G once
 * for each column, 4/3 N^3 bytes in all, and these set its time: it is bound by memory. */
#ifndef MOAO_GPU_TRIDIAGONAL_CUH
#define MOAO_GPU_TRIDIAGONAL_CUH
#include "bidiagonal.cuh"
#include "lowrank_block.cuh"

namespace lowrank {

template <int N_> struct Tri {
    static constexpr int N = N_, PANEL = 8, SLABS = N / 32, THREADS = N < 256 ? 128 : 256,
                         WARPS_OF = THREADS / 32, ROWS = N / THREADS, BLOCKS = N < 256 ? 4 : 2,
                         AHEAD = SLABS < 8 ? SLABS : 8; /* loads of a lane that are in transit */
    static constexpr int LDV = conflict_free(N);
    static constexpr int DOUBLES = 2 * PANEL * LDV + (WARPS_OF + 1) * N + WARPS_OF + 2 * PANEL + 2;
};

/* V and W: columns of a panel, zero above row j + 1 of column j: G less V W^T + W V^T is what the
 * reflectors so far leave; part: of each warp, its part of a product; dots: those of columns. */
template <class P> struct TriPlace {
    double *V, *W, *part, *dots, *red, *scalars, *alpha;
    __device__ explicit TriPlace(double *s) {
        V = s, W = V + P::PANEL * P::LDV, part = W + P::PANEL * P::LDV;
        dots = part + P::WARPS_OF * P::N, red = dots + P::N, scalars = red + P::WARPS_OF;
        alpha = scalars + 2 * P::PANEL;
    }
};

/* The parts of y = A v of this warp's columns, for rows and columns from `first` to n of A, of
 * which the lower triangle is read: what column c gives to the rows below to part, what the rows
 * give to c to dots. v is zero outside these rows. */
template <class P>
__device__ inline void tri_product(const double *A, int64_t ld, int n, int first, const double *v,
                                   const TriPlace<P> &s) {
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    double x[P::SLABS], y[P::SLABS];
#pragma unroll
    for (int q = 0; q < P::SLABS; q++) {
        x[q] = v[32 * q + lane];
        y[q] = 0.0;
    }
#pragma unroll 1
    for (int c0 = first + warp; c0 < n; c0 += 4 * P::WARPS_OF) {
        double dot[4] = {};
#pragma unroll
        for (int u = 0; u < 4; u++) {
            const int c = c0 + u * P::WARPS_OF;
            if (c >= n)
                continue;
            const double vc = v[c], *column = A + c * ld;
#pragma unroll
            for (int h = 0; h < P::SLABS; h += P::AHEAD) {
                if (32 * (h + P::AHEAD) <= c || 32 * h >= n)
                    continue;
                double a[P::AHEAD];
#pragma unroll
                for (int q = 0; q < P::AHEAD; q++) {
                    const int r = 32 * (h + q) + lane;
                    a[q] = r >= c && r < n ? column[r] : 0.0;
                }
#pragma unroll
                for (int q = 0; q < P::AHEAD; q++) {
                    const int r = 32 * (h + q) + lane;
                    dot[u] = fma(a[q], x[h + q], dot[u]);
                    y[h + q] = fma(r == c ? 0.0 : a[q], vc, y[h + q]);
                }
            }
        }
        const double sum = warp_sums(dot, lane);
        const int c = c0 + lane / 8 * P::WARPS_OF;
        if (lane % 8 == 0 && c < n)
            s.dots[c] = sum;
    }
#pragma unroll
    for (int q = 0; q < P::SLABS; q++)
        s.part[warp * P::N + 32 * q + lane] = y[q];
}

/* Products of v with the l columns of V and W of the panel: scalars 2 i and 2 i + 1. */
template <class P>
__device__ inline void tri_scalars(int l, const double *v, const TriPlace<P> &s) {
    const int lane = (int)threadIdx.x % 32;
    for (int k = (int)threadIdx.x / 32; k < 2 * l; k += P::WARPS_OF) {
        const double *c = (k % 2 ? s.W : s.V) + k / 2 * P::LDV;
        double sum = 0.0;
#pragma unroll
        for (int q = 0; q < P::SLABS; q++)
            sum = fma(c[32 * q + lane], v[32 * q + lane], sum);
        sum = warp_sum(sum);
        if (lane == 0)
            s.scalars[k] = sum;
    }
}

/* Column j, the l-th one of its panel: its reflector to column j of A below the subdiagonal, and
 * as column l to V, that of W with it. */
template <class P>
__device__ inline void tri_column(double *A, int64_t ld, int n, int j, int l, double *d, double *e,
                                  double *tau, const TriPlace<P> &s) {
    double x[P::ROWS], squares = 0.0, *const v = s.V + l * P::LDV, *const w = s.W + l * P::LDV;
#pragma unroll
    for (int h = 0; h < P::ROWS; h++) {
        const int r = (int)threadIdx.x + h * P::THREADS;
        x[h] = r >= j && r < n ? A[r + j * ld] : 0.0;
        for (int i = 0; i < l && r >= j; i++)
            x[h] -= s.V[r + i * P::LDV] * s.W[j + i * P::LDV] +
                    s.W[r + i * P::LDV] * s.V[j + i * P::LDV];
        if (r == j)
            d[j] = x[h];
        if (r == j + 1)
            *s.alpha = x[h];
        squares = r > j + 1 ? fma(x[h], x[h], squares) : squares;
    }
    squares = block_sum(squares, s.red);
    if (j + 1 >= n)
        return;
    const Reflector<double> f = reflector(*s.alpha, squares);
#pragma unroll
    for (int h = 0; h < P::ROWS; h++) {
        const int r = (int)threadIdx.x + h * P::THREADS;
        x[h] = r > j + 1 ? x[h] * f.scale : r == j + 1 ? 1.0 : 0.0;
        v[r] = x[h];
        if (r > j + 1 && r < n)
            A[r + j * ld] = x[h];
    }
    if (threadIdx.x == 0)
        e[j] = f.beta, tau[j] = f.tau;
    __syncthreads();
    tri_product(A, ld, n, j + 1, v, s);
    tri_scalars(l, v, s);
    __syncthreads();
    double y[P::ROWS], product = 0.0;
#pragma unroll
    for (int h = 0; h < P::ROWS; h++) {
        const int r = (int)threadIdx.x + h * P::THREADS;
        y[h] = r > j && r < n ? s.dots[r] : 0.0;
#pragma unroll
        for (int k = 0; k < P::WARPS_OF; k++)
            y[h] += s.part[k * P::N + r];
        for (int i = 0; i < l; i++)
            y[h] -=
                s.V[r + i * P::LDV] * s.scalars[2 * i + 1] + s.W[r + i * P::LDV] * s.scalars[2 * i];
        y[h] = r > j ? f.tau * y[h] : 0.0;
        product = fma(y[h], x[h], product);
    }
    product = -0.5 * f.tau * block_sum(product, s.red);
#pragma unroll
    for (int h = 0; h < P::ROWS; h++)
        w[(int)threadIdx.x + h * P::THREADS] = fma(product, x[h], y[h]);
    __syncthreads();
}

/* The lower triangle of A from row and column `first`, a multiple of 8, on: less V W^T + W V^T. */
template <class P>
__device__ inline void tri_update(double *A, int64_t ld, int n, int first, const TriPlace<P> &s) {
    const int lane = (int)threadIdx.x % 32, r = lane % 4, c = lane / 4;
    for (int j = first + 8 * ((int)threadIdx.x / 32); j < n; j += 8 * P::WARPS_OF) {
        const double v[2] = {s.V[j + c + r * P::LDV], s.V[j + c + (r + 4) * P::LDV]},
                     w[2] = {s.W[j + c + r * P::LDV], s.W[j + c + (r + 4) * P::LDV]};
#pragma unroll 4
        for (int i = j / 16 * 16; i < n; i += 16) {
            double acc[4], av[4], aw[4];
#pragma unroll
            for (int q = 0; q < 4; q++) {
                const int at = i + c + (q & 1) * 8 + (r + (q >> 1) * 4) * P::LDV,
                          row = i + c + (q >> 1) * 8, col = j + 2 * r + (q & 1);
                av[q] = -s.V[at], aw[q] = -s.W[at];
                acc[q] = row >= col && row < n ? A[row + col * ld] : 0.0;
            }
            tensor(acc, av, w);
            tensor(acc, aw, v);
#pragma unroll
            for (int q = 0; q < 4; q++) {
                const int row = i + c + (q >> 1) * 8, col = j + 2 * r + (q & 1);
                if (row >= col && row < n)
                    A[row + col * ld] = acc[q];
            }
        }
    }
}

/* A (order n, lower triangle) := the reflectors of Q below its subdiagonal; d and e: T; tau: their
 * factors. By one thread block. */
template <class P>
__device__ inline void tri_reduce(double *A, int64_t ld, int n, double *d, double *e, double *tau,
                                  double *shared) {
    const TriPlace<P> s(shared);
    for (int j0 = 0; j0 < n; j0 += P::PANEL) {
        const int last = n - j0 < P::PANEL ? n - j0 : P::PANEL;
        for (int l = 0; l < last; l++)
            tri_column(A, ld, n, j0 + l, l, d, e, tau, s);
        tri_update(A, ld, n, j0 + P::PANEL, s);
        __syncthreads();
    }
}

/* --- values */

/* t: d_i and e_{i-1}^2 of row i of T, e_{-1} = 0, in turn; |T| up to 1; up to a multiple of 8 rows
 * d = 2 and e = 0. How many values are below x, and the characteristic polynomial there. */
__device__ inline Count tri_below(const double *t, int n, double x) {
    double p = 0.0, q = 1.0;
    int changes = 0, exponent = 0;
#pragma unroll 1
    for (int i = 0; i < n; i += 8, t += 16) {
#pragma unroll
        for (int k = 0; k < 16; k += 4) {
            const double2 a = *(const double2 *)(t + k), b = *(const double2 *)(t + k + 2);
            p = fma(a.x - x, q, -(a.y * p));
            changes += (int)((unsigned)(__double2hiint(p) ^ __double2hiint(q)) >> 31);
            q = fma(b.x - x, p, -(b.y * q));
            changes += (int)((unsigned)(__double2hiint(p) ^ __double2hiint(q)) >> 31);
        }
        exponent += rescale(p, q);
    }
    return Count{q, exponent, changes};
}

/* --- vectors */

/* z: the vector of T's value x, n entries `step` apart; returns 1 / its norm. By one thread. */
__device__ inline double tri_vector(const double *d, const double *e, int n, double x, double *z,
                                    int64_t step) {
    double p = d[n - 1] - x; /* z holds these meanwhile: pivots from the end */
    z[(n - 1) * step] = p;
#pragma unroll 1
    for (int i = n - 2; i >= 0; i--) {
        p = fma(-(e[i] * e[i]), twist_inverse(p), d[i] - x);
        z[i * step] = p;
    }
    double s = d[0] - x, least = fabs(p);
    int twist = 0;
#pragma unroll 1
    for (int i = 1; i < n; i++) {
        s = fma(-(e[i - 1] * e[i - 1]), twist_inverse(s), d[i] - x);
        const double gamma = fabs(s + z[i * step] - (d[i] - x));
        twist = gamma < least ? i : twist;
        least = gamma < least ? gamma : least;
    }
    double at = 1.0, squares = 1.0;
#pragma unroll 1
    for (int i = twist + 1; i < n; i++) {
        at *= -e[i - 1] * twist_inverse(z[i * step]);
        z[i * step] = at;
        squares = fma(at, at, squares);
    }
    s = d[0] - x;
#pragma unroll 1
    for (int i = 0; i < twist; i++) {
        const double y = twist_inverse(s);
        z[i * step] = -e[i] * y;
        s = fma(-(e[i] * e[i]), y, d[i + 1] - x);
    }
    z[twist * step] = at = 1.0;
#pragma unroll 1
    for (int i = twist - 1; i >= 0; i--) {
        at *= z[i * step];
        z[i * step] = at;
        squares = fma(at, at, squares);
    }
    return batch::inv_sqrt(squares);
}

} // namespace lowrank
#endif
