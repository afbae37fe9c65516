/* Singular values of a matrix of up to N = 32, 64, 96 or 128 rows and columns, and left vectors of
 * the largest ones, by one thread block of 2 N threads: S = H B K with B upper bidiagonal, H and K
 * products of reflectors (Golub and Kahan); values of B by counting those below a number; vectors
 * of B B^T from its twisted factorisations, each by one thread for itself. That costs a few times
 * what the reduction does alone, a fraction of rotations (svd_core.cuh), but close values leave
 * vectors that are not orthogonal: they have to be made so, and are of no use where they were one
 * and the same; errors are in proportion to the largest value. Good for projections on the span of
 * the largest ones, where only that span counts. */
#ifndef MOAO_GPU_BIDIAGONAL_CUH
#define MOAO_GPU_BIDIAGONAL_CUH
#include "gram.cuh"
#include "qr_grid_tensor.cuh"

namespace lowrank {

template <int N> using BidiagonalGrid = Grid<double, 8, N / 4, N / 8, 4>;

/* v: the vectors of H as grid_factor<true> leaves them, in memory; the rest in shared memory: their
 * factors; B on and next to its diagonal; column, row and products of a step. */
struct Bidiagonal {
    double *v, *factor, *d, *e, *column, *row, *dot, *part;
};

/* --- the reduction */

/* What is below the diagonal of column l of the strip, and its row. */
template <class X, class G>
__device__ inline void bidiagonal_publish(const G &g, int l, const Bidiagonal &s) {
    if (g.c == X::C0 + l)
#pragma unroll
        for (int a = X::FIRST; a < G::A; a++) {
            const double x = a > X::A0 || (a == X::A0 && g.r > X::R0 + l) ? g.x[a][X::P] : 0.0;
            s.column[g.row(a)] = x;
            s.v[g.row(a) + (X::J + l) * G::ROWS] = x;
        }
    if (g.r == X::R0 + l)
#pragma unroll
        for (int q = X::P; q < G::C; q++)
            s.row[g.col(q)] = g.x[X::A0][q];
}

/* f[a] of the four lanes of a warp that share their rows are added, rows dealt out among them; the
 * sums of this warp to part. */
template <int A0, class G>
__device__ inline void bidiagonal_parts(const G &g, const double (&f)[G::A], double *part) {
    static_assert(G::A % 4 == 0 && G::RL == 8, "four lanes share their rows");
    constexpr int WARPS = G::THREADS / 32;
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const bool high = lane & 16, low = lane & 8;
    double h[G::A / 2];
#pragma unroll
    for (int b = A0 / 2; b < G::A / 2; b++) {
        const double give = high ? f[2 * b] : f[2 * b + 1], keep = high ? f[2 * b + 1] : f[2 * b];
        h[b] = keep + __shfl_xor_sync(0xffffffffu, give, 16);
    }
#pragma unroll
    for (int b = A0 / 4; b < G::A / 4; b++) {
        const double first = 2 * b >= A0 / 2 ? h[2 * b] : 0.0, give = low ? first : h[2 * b + 1],
                     keep = low ? h[2 * b + 1] : first;
        part[(g.row(4 * b) + 8 * (2 * low + high)) * WARPS + warp] =
            keep + __shfl_xor_sync(0xffffffffu, give, 8);
    }
}

/* w: the column that was published; d: its products with the columns of the strip and after it. */
template <class X, class G>
__device__ inline void bidiagonal_products(const G &g, const double *column, double (&w)[G::A],
                                           double (&d)[G::C]) {
#pragma unroll
    for (int a = X::A0; a < G::A; a++)
        w[a] = column[g.row(a)];
#pragma unroll
    for (int q = X::P; q < G::C; q++) {
        d[q] = 0.0;
#pragma unroll
        for (int a = X::A0; a < G::A; a++)
            d[q] = fma(w[a], g.x[a][q], d[q]);
    }
#pragma unroll
    for (int q = X::P; q < G::C; q++)
        d[q] = column_sum<G::RL>(d[q]);
}

/* Step j = J + l of n: the reflector of what is left of column j, then that of row j right of the
 * superdiagonal. Products with the column are ready before its norm is known, as in qr_grid.cuh;
 * every warp finds both reflectors for itself. Two barriers. */
template <class X, class G>
__device__ __forceinline__ void bidiagonal_step(G &g, int l, int n, const Bidiagonal &s) {
    const int j = X::J + l, lane = (int)threadIdx.x % 32;
    double w[G::A], d[G::C], u[G::C], f[G::A];
    bidiagonal_products<X>(g, s.column, w, d);
    if (g.r == 0)
#pragma unroll
        for (int q = X::P; q < G::C; q++)
            s.dot[g.col(q)] = d[q];
    __syncthreads();
    const Pivot<double> left = pivot_of(s.row[j], s.dot[j]);
    const double pull = -left.factor * left.top;
    const auto reflected = [&](int k) {
        const double x = s.row[k];
        return fma(pull, fma(left.top, x, s.dot[k]), x);
    };
    double squares = 0.0;
#pragma unroll
    for (int h = 0; h < G::COLS; h += 32) {
        const int k = lane + h;
        const double x = k > j + 1 ? reflected(k) : 0.0;
        squares = fma(x, x, squares);
    }
    squares = column_sum<32>(squares);
    const Pivot<double> right = pivot_of(j + 1 < n ? reflected(j + 1) : 0.0, squares);
    w[X::A0] = g.r == X::R0 + l ? left.top : w[X::A0];
#pragma unroll
    for (int q = X::P; q < G::C; q++) {
        const int k = g.col(q);
        const double y = fma(left.top, s.row[k], d[q]), by = k > j ? -left.factor * y : 0.0;
        u[q] = k > j + 1 ? reflected(k) : k == j + 1 ? right.top : 0.0;
#pragma unroll
        for (int a = X::A0; a < G::A; a++)
            g.x[a][q] = fma(by, w[a], g.x[a][q]);
    }
#pragma unroll
    for (int a = X::A0; a < G::A; a++) {
        f[a] = 0.0;
#pragma unroll
        for (int q = X::P; q < G::C; q++)
            f[a] = fma(g.x[a][q], u[q], f[a]);
    }
#pragma unroll
    for (int a = 0; a < X::A0; a++)
        f[a] = 0.0;
    bidiagonal_parts<X::A0>(g, f, s.part);
    if (threadIdx.x == 0) {
        s.d[j] = left.beta, s.e[j] = j + 1 < n ? right.beta : 0.0;
        s.factor[j] = left.factor, s.v[j + j * G::ROWS] = left.top;
    }
    __syncthreads();
#pragma unroll
    for (int a = X::A0; a < G::A; a++) {
        double sum = 0.0;
#pragma unroll
        for (int k = 0; k < G::THREADS / 32; k += 2) {
            const double2 p = *(const double2 *)(s.part + g.row(a) * (G::THREADS / 32) + k);
            sum += p.x + p.y;
        }
        const double by = -right.factor * sum;
#pragma unroll
        for (int q = X::P; q < G::C; q++)
            g.x[a][q] = fma(by, u[q], g.x[a][q]);
    }
}

/* B of the matrix of order n in g, from strip S on; ends with a barrier. */
template <int S, class G>
__device__ __forceinline__ void bidiagonal_strips(G &g, int n, const Bidiagonal &s) {
    typedef Strip<G, S, 0> X;
    if (X::J >= n)
        return;
    const int steps = n - X::J < X::N ? n - X::J : X::N;
    bidiagonal_publish<X>(g, 0, s);
    __syncthreads();
#pragma unroll 1
    for (int l = 0; l < steps; l++) {
        bidiagonal_step<X>(g, l, n, s);
        if (l + 1 < steps)
            bidiagonal_publish<X>(g, l + 1, s);
        __syncthreads();
    }
    if constexpr ((S + 1) * X::N < G::COLS)
        bidiagonal_strips<S + 1>(g, n, s);
}

/* --- values */

/* A number that values are compared with: how many are below it, and the characteristic polynomial
 * there, minor 2^exponent. */
struct Count {
    double minor;
    int exponent, below;
};

/* The larger of two successive minors has exponent 0 afterwards, unless that is out of range;
 * returns what it was. */
__device__ inline int rescale(double &p, double &q) {
    const int hp = __double2hiint(p) >> 20 & 0x7ff, hq = __double2hiint(q) >> 20 & 0x7ff,
              most = hp > hq ? hp : hq, by = most > 0 && most < 0x7ff ? most - 1023 : 0;
    const double scale = __hiloint2double((1023 - by) << 20, 0);
    p *= scale, q *= scale;
    return by;
}

/* x > 0. Sign changes in the sequence of leading minors of the matrix with B's entries d_1, e_1,
 * d_2, ... next to its diagonal, less x on it; b: squares of these, zeros up to a multiple of 4
 * rows of B. Its eigenvalues are the values of B and their negatives, and zeros. Rounding changes
 * entries relative to themselves, hence also the values. */
__device__ inline Count values_below(const double *b, int n, double x) {
    const int quads = (n + 3) / 4;
    double p = 1.0, q = -x;
    int changes = 1, exponent = 0;
#pragma unroll 1
    for (int i = 0; i < quads; i++, b += 8) {
#pragma unroll
        for (int k = 0; k < 8; k += 2) {
            const double2 c = *(const double2 *)(b + k);
            p = fma(-x, q, -(c.x * p));
            changes += (int)((unsigned)(__double2hiint(p) ^ __double2hiint(q)) >> 31);
            q = fma(-x, p, -(c.y * q));
            changes += (int)((unsigned)(__double2hiint(p) ^ __double2hiint(q)) >> 31);
        }
        exponent += rescale(p, q);
    }
    return Count{q, exponent, changes - (8 * quads + 1 - n)};
}

/* Where a value lies: lo <= value < hi. bits: a guess from the polynomial at both ends was good to
 * so many of the width. */
struct Bracket {
    double lo, hi;
    Count at_lo, at_hi; /* exponent UNKNOWN: not counted yet */
    int bits;
    static constexpr int UNKNOWN = INT_MIN;
    __device__ Bracket(double most, int n)
        : lo(0.0), hi(most), at_lo{0.0, UNKNOWN, 0}, at_hi{0.0, UNKNOWN, n}, bits(4) {
    }
    __device__ double value() const {
        return 0.5 * (lo + hi);
    }
};

/* The two points between which the value probably lies: once it is alone in its bracket, next to
 * where a straight line would be 0, else thirds. */
__device__ inline void bracket_points(const Bracket &a, double &x1, double &x2) {
    const double w = a.hi - a.lo;
    x1 = fma(w, 1.0 / 3.0, a.lo), x2 = fma(w, 2.0 / 3.0, a.lo);
    if (a.at_hi.below - a.at_lo.below != 1 || a.at_lo.exponent == Bracket::UNKNOWN ||
        a.at_hi.exponent == Bracket::UNKNOWN)
        return;
    const int apart = a.at_hi.exponent - a.at_lo.exponent, by = apart > 500    ? 500
                                                                : apart < -500 ? -500
                                                                               : apart;
    const double low = fabs(a.at_lo.minor),
                 high = fabs(a.at_hi.minor) * __hiloint2double((1023 + by) << 20, 0),
                 at = fma(w, low / (low + high), a.lo),
                 off = fmax(w * __hiloint2double((1023 - a.bits) << 20, 0), 0x1p-52 * a.hi);
    if (at >= a.lo && at <= a.hi) { /* false for NaN */
        x1 = fmax(at - off, 0.5 * (a.lo + at));
        x2 = fmin(at + off, 0.5 * (at + a.hi));
    }
}

/* Narrows the bracket of value t of n, counted from the largest one, until its width is up to
 * `part` of hi or `least`; below(x): the Count of x. Two neighbouring lanes for one value; all
 * lanes of a warp. */
template <class F>
__device__ inline void narrow_by(F below, int n, int t, bool wanted, double part, double least,
                                 Bracket &a) {
    const bool second = threadIdx.x & 1;
    for (;;) {
        const bool wide = wanted && a.hi - a.lo > fmax(part * a.hi, least);
        if (!__any_sync(0xffffffffu, wide))
            return;
        double x1, x2;
        bracket_points(a, x1, x2);
        const Count mine = below(second ? x2 : x1),
                    other = {__shfl_xor_sync(0xffffffffu, mine.minor, 1),
                             __shfl_xor_sync(0xffffffffu, mine.exponent, 1),
                             __shfl_xor_sync(0xffffffffu, mine.below, 1)},
                    c1 = second ? other : mine, c2 = second ? mine : other;
        if (!wide)
            continue;
        const bool over1 = c1.below >= n - t, over2 = c2.below >= n - t;
        a.bits = !over1 && over2 ? (a.bits < 20 ? 2 * a.bits : 40) : (a.bits > 4 ? a.bits / 2 : 2);
        if (!over1)
            a.lo = over2 ? x1 : x2, a.at_lo = over2 ? c1 : c2;
        if (over1 || over2)
            a.hi = over1 ? x1 : x2, a.at_hi = over1 ? c1 : c2;
    }
}
/* The same of the values of B. */
__device__ inline void narrow(const double *b, int n, int t, bool wanted, double part, double least,
                              Bracket &a) {
    narrow_by([=](double x) { return values_below(b, n, x); }, n, t, wanted, part, least, a);
}

/* --- vectors */

/* B B^T with rows and columns in reverse order is L D L^T: D, squares below L's diagonal times D,
 * and products of both. */
struct Reversed {
    double *d, *squares, *products;
};

__device__ inline double twist_inverse(double x) {
    constexpr double tiny = 0x1p-900;
    x = fabs(x) < tiny ? copysign(tiny, x) : x;
    const double y = inverse_estimate(x), r = fma(-x, y, 1.0);
    return fma(y, fma(r, r, r), y);
}

/* z: the vector of norm 1 of the eigenvalue `square` of B B^T, n entries; what is left of
 * (B B^T - square) z. By one thread. */
__device__ inline double twisted_vector(const Reversed &m, int n, double square, double *z) {
    const int last = n - 1;
    double p = m.d[last] - square; /* z holds these meanwhile, its place i that of row last - i */
    z[0] = p;
#pragma unroll 1
    for (int i = last - 1; i >= 0; i--) {
        p = fma(p, m.d[i] * twist_inverse(m.squares[i] + p), -square);
        z[last - i] = p;
    }
    double s = -square, least = fabs(z[last]);
    int twist = 0;
#pragma unroll 1
    for (int i = 0; i < last; i++) {
        s = fma(s, m.squares[i] * twist_inverse(m.d[i] + s), -square);
        const double gamma = fabs(s + z[last - i - 1] + square);
        twist = gamma < least ? i + 1 : twist;
        least = gamma < least ? gamma : least;
    }
    double at = 1.0, squares = 1.0;
#pragma unroll 1
    for (int i = twist; i < last; i++) {
        at *= -m.products[i] * twist_inverse(m.squares[i] + z[last - i - 1]);
        z[last - i - 1] = at;
        squares = fma(at, at, squares);
    }
    s = -square;
#pragma unroll 1
    for (int i = 0; i < twist; i++) {
        const double y = twist_inverse(m.d[i] + s);
        z[last - i] = -m.products[i] * y;
        s = fma(s, m.squares[i] * y, -square);
    }
    z[last - twist] = at = 1.0;
#pragma unroll 1
    for (int i = twist - 1; i >= 0; i--) {
        at *= z[last - i];
        z[last - i] = at;
        squares = fma(at, at, squares);
    }
    const double scale = batch::inv_sqrt(squares);
#pragma unroll 4
    for (int i = 0; i < n; i++)
        z[i] *= scale;
    return least * scale;
}

/* Squares of sines between vectors and those before them: below the first one they are not told
 * apart; above the second one orthonormal to rounding when they have been made so once. */
constexpr double SPAN_APART = 1e-3, SPAN_CLOSE = 0.5;

/* Makes the r columns of z orthonormal, n rows of N, by their Gram matrix; false where they depend
 * on each other. g: Triangle<RW>::SHARED doubles. */
template <int N, int RW>
__device__ inline bool span_orthonormal(double *z, int ld, int n, int r, double *g) {
    constexpr int LD = Triangle<RW>::LD;
    double *const inverse = g + RW * LD, *const scale = inverse + RW / 8 * CELL;
    const int lane = (int)threadIdx.x % 32, row = (int)threadIdx.x / 32 * 16;
    const Columns<double> Z = {z, z, ld, ld, r, r};
    bool close = true;
#pragma unroll 1
    for (int pass = 0; pass < 2 && close; pass++) {
        gram_product<double, RW, BidiagonalGrid<N>::THREADS / 32>(Z, n, g);
        gram_scale<double, RW>(g, scale, r, 0, false);
        if (__syncthreads_or(!cholesky<RW>(g, inverse, pass ? SPAN_CLOSE : SPAN_APART)))
            return false;
        const int j = (int)threadIdx.x;
        close = __syncthreads_or(j < r && !(g[j + j * LD] * g[j + j * LD] >= SPAN_CLOSE));
        Rows<RW / 8> q;
        rows_load(q, Z, row, n, lane);
        __syncthreads();
        cells_out<RW>(g, inverse, z); /* in the place of what has been read */
        __syncthreads();
        rows_solve<RW>(q, z, lane);
        __syncthreads();
        rows_store(q, z, ld, row, N, r, lane);
        __syncthreads();
    }
    return true;
}

/* H z for r columns of z to x, n rows. v, factor: see Bidiagonal; t: room for 8 N doubles. */
template <int N, class T>
__device__ inline void span_reflect(double *v, const double *factor, const double *z, int ld,
                                    double *t, int n, int r, T *x, int64_t ldx) {
    const int panels = (n + Q_TILE - 1) / Q_TILE;
    for (int e = n * N + (int)threadIdx.x; e < Q_TILE * panels * N; e += BidiagonalGrid<N>::THREADS)
        v[e] = 0.0;
    __syncthreads();
    q_triangles<N / Q_TILE>(v, factor, n, t);
    __syncthreads();
    QTiles<N / Q_TILE> g;
    g.w = (int)threadIdx.x / 32;
    g.c = (int)threadIdx.x % 32 / 4, g.r = (int)threadIdx.x % 4;
    if (16 * g.w >= r)
        return;
    g.b = panels - 1;
#pragma unroll
    for (int e = 0; e < 4; e++)
#pragma unroll
        for (int i = 0; i < N / Q_TILE; i++)
            g.x[i][e] = g.col(e / 2) < r ? z[g.row(i) + e % 2 + g.col(e / 2) * ld] : 0.0;
    q_apply(g, v, t);
#pragma unroll 1
    while (g.b > 0) {
        g.back();
        q_apply(g, v, t);
    }
#pragma unroll
    for (int e = 0; e < 4; e++)
#pragma unroll
        for (int i = 0; i < N / Q_TILE; i++) {
            const int row = g.row(i) + e % 2, col = g.col(e / 2);
            if (row < n && col < r)
                x[row + col * ldx] = (T)g.x[i][e];
        }
}

} // namespace lowrank
#endif
