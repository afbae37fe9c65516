/* One panel of a blocked Householder QR by one thread block: its reflectors, column after column,
 * and the triangle T of their product. Here also what all QR factorisations share: a thread block's
 * scratch, one reflector. */
#ifndef MOAO_GPU_QR_PANEL_CUH
#define MOAO_GPU_QR_PANEL_CUH
#include "gpu/batch/batch_tile.cuh"

namespace lowrank {
using batch::Dim;
using batch::dim_full;
using batch::dim_valid;
using batch::Mat;
using batch::Ref;
using batch::view;
using batch::whole;

constexpr int NB = 16;           /* columns of a panel */
constexpr int FLD = NB + 4;      /* leading dimension of 16 x 16 factors in shared memory */
constexpr int FACTOR = NB * FLD; /* doubles of one */
constexpr int STRIP = 8;         /* columns that a warp updates at a time */
constexpr int WARP_SCRATCH = FACTOR + 2 * NB; /* doubles of scratch of a warp */

/* The least leading dimension for so many rows without bank conflicts. */
__host__ __device__ constexpr int conflict_free(int rows) {
    return (rows + 11) / 16 * 16 + 4;
}

/* Where a thread stands in its block, and the block's scratch. */
struct Block {
    int warp, warps, lane;
    double *factor; /* T of the current panel, 16 x 16, leading dimension FLD */
    double *gram;   /* V^T V above its diagonal */
    double *own;    /* this warp's scratch */
    double *first;  /* that of warp 0; warp w has first + w WARP_SCRATCH */
    void *panel; /* shared memory for a panel of `rows` rows, or NULL: panels stay where they are */
    int rows;
};
/* Elements of such a panel. */
__host__ __device__ constexpr int panel_room(int rows) {
    return conflict_free(rows) * NB;
}
constexpr int BLOCK_SCRATCH = 2 * FACTOR;
__host__ __device__ constexpr int block_scratch(int warps) {
    return BLOCK_SCRATCH + warps * WARP_SCRATCH;
}
__device__ inline Block block_place(double *scratch) {
    Block g;
    g.warp = (int)threadIdx.x / 32, g.warps = (int)blockDim.x / 32, g.lane = (int)threadIdx.x % 32;
    g.factor = scratch, g.gram = scratch + FACTOR, g.first = scratch + BLOCK_SCRATCH;
    g.own = g.first + g.warp * WARP_SCRATCH;
    g.panel = nullptr, g.rows = 0;
    return g;
}

template <class S> __device__ inline S warp_sum(S x) {
#pragma unroll
    for (int d = 16; d; d >>= 1)
        x += __shfl_xor_sync(0xffffffffu, x, d);
    return x;
}
/* Sums over a warp of N numbers of each lane; a lane gets that of number lane / (32 / N). */
template <int N> __device__ inline double warp_sums(double (&x)[N], int lane) {
#pragma unroll
    for (int h = N / 2, d = 16; h; h /= 2, d /= 2)
#pragma unroll
        for (int u = 0; u < h; u++) {
            const bool upper = lane & d;
            const double sent = upper ? x[u] : x[u + h];
            x[u] = (upper ? x[u + h] : x[u]) + __shfl_xor_sync(0xffffffffu, sent, d);
        }
#pragma unroll
    for (int d = 16 / N; d; d /= 2)
        x[0] += __shfl_xor_sync(0xffffffffu, x[0], d);
    return x[0];
}

/* Sums of squares in between are exact enough and far from overflow; a smaller one in the middle of
 * a factorisation is that of a tail which counts as zero (columns begin with norms above LO). */
template <class T> struct Squares;
template <> struct Squares<double> {
    static constexpr double LO = 0x1p-700, HI = 0x1p900, ZERO = 0x1p-1000, TOP = DBL_MAX;
};
template <> struct Squares<float> {
    static constexpr float LO = 0x1p-60f, HI = 0x1p100f, ZERO = 0x1p-120f, TOP = FLT_MAX;
};

/* The reflector that brings (alpha, tail) to (beta, 0), s = sum of the tail's squares: beta =
 * -sign(alpha) norm, tau = (beta - alpha) / beta, v = tail * scale. A tail of 0 needs none. */
template <class T> struct Reflector { T beta, tau, scale; };
template <class T> __device__ inline Reflector<T> reflector(T alpha, T s) {
    Reflector<T> h = {alpha, T(0), T(0)};
    if (s >= Squares<T>::ZERO) {
        /* by reciprocal roots, which cost less than divisions, each result with one correction */
        const T p = fma(alpha, alpha, s), y = batch::inv_sqrt(p), near = p * y,
                norm = fma(fma(-near, near, p), T(0.5) * y, near), z = fabs(alpha) + norm,
                root = batch::inv_sqrt(z), square = root * root,
                inverse = fma(square, fma(-z, square, T(1)), square);
        h.beta = -copysign(norm, alpha);
        h.tau = fma(fabs(alpha), fma(y, fma(-norm, y, T(1)), y), T(1));
        h.scale = copysign(inverse, alpha);
    }
    return h;
}

/* Sum of squares of rows [from, m) of a column, by one warp. */
template <class T> __device__ inline T tail_squares(const T *c, int from, int m, int lane) {
    T s = T(0);
    for (int i = from + lane; i < m; i += 32)
        s += c[i] * c[i];
    return warp_sum(s);
}

/* Column j of a panel becomes its reflector (s: squares below the diagonal); by one warp. */
template <class T>
__device__ inline void make_reflector(T *c, int j, int m, T s, T *tau, int lane) {
    const Reflector<T> h = reflector(c[j], s);
    __syncwarp();
    for (int i = j + 1 + lane; i < m; i += 32)
        c[i] *= h.scale;
    if (lane == 0) {
        c[j] = h.beta;
        *tau = h.tau;
    }
    __syncwarp();
}

/* Reflector j (column v, made) on this warp's columns w, w + warps, ... of the panel: later columns
 * are updated; the products with earlier vectors go to gram. Returns the squares below the diagonal
 * of column j + 1, if that is this warp's. */
template <class T, int COLS>
__device__ inline T panel_step(T *P, int64_t ld, int m, int nb, int j, T tau, const Block &g) {
    const T *v = P + j * ld;
    T d[COLS], next = T(0);
#pragma unroll
    for (int q = 0; q < COLS; q++)
        d[q] = T(0);
    for (int i = j + 1 + g.lane; i < m; i += 32) {
        const T x = v[i];
#pragma unroll
        for (int q = 0; q < COLS; q++)
            if (g.warp + q * g.warps < nb)
                d[q] += x * P[i + (g.warp + q * g.warps) * ld];
    }
#pragma unroll
    for (int q = 0; q < COLS; q++)
        d[q] = warp_sum(d[q]);
#pragma unroll
    for (int q = 0; q < COLS; q++) {
        const int c = g.warp + q * g.warps;
        if (c >= nb || c == j)
            continue;
        T *x = P + c * ld;
        d[q] += x[j];
        __syncwarp();
        if (c < j) {
            if (g.lane == 0)
                g.gram[c + j * FLD] = (double)d[q];
            continue;
        }
        const T f = tau * d[q];
        if (g.lane == 0)
            x[j] -= f;
        if (c == j + 1) {
            for (int i = j + 1 + g.lane; i < m; i += 32) {
                const T y = x[i] - f * v[i];
                x[i] = y;
                next += i > j + 1 ? y * y : T(0);
            }
        } else {
            for (int i = j + 1 + g.lane; i < m; i += 32)
                x[i] -= f * v[i];
        }
    }
    return next;
}

/* The same for panels of at most 32 R rows, whose columns are read once: d is carried in registers.
 */
template <class T, int COLS, int R>
__device__ inline T panel_step_short(T *P, int64_t ld, int m, int nb, int j, T tau,
                                     const Block &g) {
    T v[R], x[COLS][R], d[COLS], next = T(0);
    const int last = j + 1 + g.lane; /* this lane's rows: last, last + 32, ... */
#pragma unroll
    for (int r = 0; r < R; r++)
        v[r] = last + 32 * r < m ? P[last + 32 * r + j * ld] : T(0);
#pragma unroll
    for (int q = 0; q < COLS; q++) {
        const int c = g.warp + q * g.warps;
        d[q] = T(0);
#pragma unroll
        for (int r = 0; r < R; r++) {
            x[q][r] = c < nb && last + 32 * r < m ? P[last + 32 * r + c * ld] : T(0);
            d[q] += v[r] * x[q][r];
        }
    }
#pragma unroll
    for (int q = 0; q < COLS; q++)
        d[q] = warp_sum(d[q]);
#pragma unroll
    for (int q = 0; q < COLS; q++) {
        const int c = g.warp + q * g.warps;
        if (c < nb && c != j)
            d[q] += P[j + c * ld];
    }
    __syncwarp();
#pragma unroll
    for (int q = 0; q < COLS; q++) {
        const int c = g.warp + q * g.warps;
        if (c >= nb || c == j)
            continue;
        if (c < j) {
            if (g.lane == 0)
                g.gram[c + j * FLD] = (double)d[q];
            continue;
        }
        const T f = tau * d[q];
        if (g.lane == 0)
            P[j + c * ld] -= f;
#pragma unroll
        for (int r = 0; r < R; r++) {
            const T y = x[q][r] - f * v[r];
            if (last + 32 * r < m)
                P[last + 32 * r + c * ld] = y;
            if (c == j + 1 && (r || g.lane))
                next += y * y; /* zero beyond the last row */
        }
    }
    return next;
}

/* T of the panel from its taus and gram: (I + D U) T = D, U the strict upper triangle of V^T V; a
 * lane solves for one column. By warp 0. */
template <class T> __device__ inline void panel_triangle(const T *tau, int nb, const Block &g) {
    double x[NB];
    const int c = g.lane % NB;
#pragma unroll
    for (int i = NB - 1; i >= 0; i--) {
        const double t = i < nb ? (double)tau[i] : 0.0;
        double s = 0.0;
#pragma unroll
        for (int k = NB - 1; k > i; k--)
            s += (k < nb ? g.gram[i + k * FLD] : 0.0) * x[k];
        x[i] = i < c ? -t * s : i == c ? t : 0.0;
    }
    if (g.lane < NB)
#pragma unroll
        for (int i = 0; i < NB; i++)
            g.factor[i + c * FLD] = x[i];
}

/* Factors an m x nb panel (nb <= 16) in place: R on and above the diagonal, vectors below, tau, and
 * the factor T of their product. */
template <class T, int COLS>
__device__ __noinline__ void panel_columns(T *P, int64_t ld, int m, int nb, T *tau,
                                           const Block &g) {
    const int last = nb < m ? nb : m;
    if (g.warp == 0)
        make_reflector(P, 0, m, tail_squares(P, 1, m, g.lane), tau, g.lane);
    __syncthreads();
    for (int j = 0; j < last; j++) {
        const T s = m <= 64    ? panel_step_short<T, COLS, 2>(P, ld, m, nb, j, tau[j], g)
                    : m <= 128 ? panel_step_short<T, COLS, 4>(P, ld, m, nb, j, tau[j], g)
                               : panel_step<T, COLS>(P, ld, m, nb, j, tau[j], g);
        if (j + 1 < last && (j + 1) % g.warps == g.warp) {
            __syncwarp();
            make_reflector(P + (j + 1) * ld, j + 1, m, warp_sum(s), tau + j + 1, g.lane);
        }
        __syncthreads();
    }
}
template <class T>
__device__ inline void panel_factor(T *P, int64_t ld, int m, int nb, T *tau, const Block &g) {
    if (g.warps >= 16)
        panel_columns<T, 1>(P, ld, m, nb, tau, g);
    else if (g.warps >= 8)
        panel_columns<T, 2>(P, ld, m, nb, tau, g);
    else
        panel_columns<T, 4>(P, ld, m, nb, tau, g);
    if (g.warp == 0)
        panel_triangle(tau, nb, g);
    __syncthreads();
}

/* Entry of V: unit lower trapezoid stored below the diagonal of a panel. */
template <class T>
__device__ inline double panel_entry(const T *P, int64_t ld, int m, int nb, int i, int c) {
    if (i >= m || c >= nb || i < c)
        return 0.0;
    return i == c ? 1.0 : (double)P[i + c * ld];
}

/* gram := V^T V of a finished panel, and T from it: every warp sums its share of the rows. */
template <class T>
__device__ inline void panel_again(const T *P, int64_t ld, int m, int nb, const T *tau,
                                   const Block &g) {
    const int r = g.lane % 4, c = g.lane / 4;
    double sum[2][4] = {};
    for (int k = 8 * g.warp; k < m; k += 8 * g.warps) {
        double a[4];
#pragma unroll
        for (int q = 0; q < 4; q++)
            a[q] = panel_entry(P, ld, m, nb, k + r + (q >> 1) * 4, c + (q & 1) * 8);
        const double left[2] = {a[0], a[2]}, right[2] = {a[1], a[3]};
        tensor(sum[0], a, left);
        tensor(sum[1], a, right);
    }
#pragma unroll
    for (int h = 0; h < 2; h++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            g.own[c + (e >> 1) * 8 + (8 * h + 2 * r + (e & 1)) * FLD] = sum[h][e];
    __syncthreads();
    for (int e = (int)threadIdx.x; e < NB * NB; e += (int)blockDim.x) {
        const int at = e % NB + e / NB * FLD;
        double s = 0.0;
        for (int w = 0; w < g.warps; w++)
            s += g.first[w * WARP_SCRATCH + at];
        g.gram[at] = s;
    }
    __syncthreads();
    if (g.warp == 0)
        panel_triangle(tau, nb, g);
    __syncthreads();
}

} // namespace lowrank
#endif
