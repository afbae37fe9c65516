/* Q of the reflectors that qr_grid.cuh leaves of matrices of up to 64 x 64 in double precision, on
 * tensor cores: panels of 8 reflectors together, I - V T V^T. A warp makes 16 columns, in registers
 * as accumulators of the transposed matrix, which are left operands as they are, but for the order
 * of what is summed over; it needs only the reflectors up to its last column, and no barrier. */
#ifndef MOAO_GPU_QR_GRID_TENSOR_CUH
#define MOAO_GPU_QR_GRID_TENSOR_CUH
#include "qr_grid.cuh"

namespace lowrank {

constexpr int Q_TILE = 8, Q_TILES = 8, Q_ORDER = Q_TILE * Q_TILES, Q_WARPS = Q_TILES / 2;
/* Below, N: tiles of a matrix, of 8 N rows; N / 2 warps. */
/* Is this grid's Q made here? */
template <class G> __host__ __device__ constexpr bool q_in_tiles() {
    return sizeof(typename G::T) == 8 && G::ROWS == Q_ORDER && G::COLS == Q_ORDER &&
           G::THREADS == 32 * Q_WARPS;
}
/* So many vectors' room more in shared memory: T of each panel. */
template <class G> __host__ __device__ constexpr int q_vectors() {
    return q_in_tiles<G>() ? Q_TILE : 0;
}

/* -T of each panel to t, row by row, T from the products of its vectors with each other. Columns of
 * v from k on are zero up to a whole panel. */
template <int N>
__device__ inline void q_triangles(const double *v, const double *factor, int k, double *t) {
    constexpr int ORDER = Q_TILE * N;
    const int c = (int)threadIdx.x % 32 / 4, r = (int)threadIdx.x % 4;
    for (int b = (int)threadIdx.x / 32; Q_TILE * b < k; b += N / 2) {
        const double *const at = v + (Q_TILE * b + c) * ORDER + Q_TILE * b + r;
        double y[4] = {}, row[2] = {0.0, 0.0}; /* row c of T, columns r and r + 4 */
#pragma unroll
        for (int i = 0; i < N; i++)
            if (i < N - b) {
                const double e[2] = {at[Q_TILE * i], at[Q_TILE * i + 4]},
                             a[4] = {e[0], 0.0, e[1], 0.0};
                tensor(y, a, e);
            }
#pragma unroll
        for (int l = 0; l < Q_TILE; l++) {
            const double f = Q_TILE * b + l < k ? factor[Q_TILE * b + l] : 0.0,
                         all = __shfl_sync(0xffffffffu, y[l % 2], l / 2, 4),
                         z = column_sum<4>(row[0] * __shfl_sync(0xffffffffu, all, 4 * r) +
                                           row[1] * __shfl_sync(0xffffffffu, all, 4 * r + 16)),
                         mine = c < l    ? -f * z
                                : c == l ? f
                                         : 0.0;
            row[l / 4] = r == l % 4 ? mine : row[l / 4];
        }
        double *const to = t + Q_TILE * (Q_TILE * b + c) + r;
        to[0] = -row[0];
        to[4] = -row[1];
    }
}

/* x[i][e]: row 8 ((b + i) mod N) + 2 r + e % 2 of column 16 w + 8 (e / 2) + c of Q. */
template <int N> struct QTiles {
    double x[N][4];
    int w, c, r, b;
    __device__ int row(int i) const {
        return Q_TILE * ((b + i) % N) + 2 * r;
    }
    __device__ int col(int q) const {
        return 16 * w + Q_TILE * q + c;
    }
    /* The tile before comes first. */
    __device__ void back() {
        b = (b + N - 1) % N;
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const double last = x[N - 1][e];
#pragma unroll
            for (int i = N - 1; i > 0; i--)
                x[i][e] = x[i - 1][e];
            x[0][e] = last;
        }
    }
};

/* g := (I - V T V^T) g, panel g.b. */
template <int N> __device__ inline void q_apply(QTiles<N> &g, const double *v, const double *t) {
    constexpr int ORDER = Q_TILE * N;
    const int c = g.c, r = g.r, left = N - g.b;
    /* the vector of this lane's column of the first product, of its first one of two of that
     * product, and of its column of the second one */
    const int mine = c / 2 % 2 + c % 2 * 2 + c / 4 * 4, k = r % 2 + r / 2 * 4,
              n = c / 2 + c % 2 * 4;
    const double *const panel = v + Q_TILE * g.b * (ORDER + 1),
                        *const first = panel + mine * ORDER + 2 * r,
                        *const second = panel + r * ORDER + c,
                        *const triangle = t + Q_TILE * Q_TILE * g.b + k + n * Q_TILE;
    double y[2][4] = {}, z[4] = {}, b[2];
#pragma unroll
    for (int i = 0; i < N; i++) {
        const double a[4] = {g.x[i][0], g.x[i][2], g.x[i][1], g.x[i][3]};
        const double2 w =
            i < left ? *(const double2 *)(first + Q_TILE * i) : make_double2(0.0, 0.0);
        b[0] = w.x, b[1] = w.y;
        tensor(y[i % 2], a, b);
    }
    const double a[4] = {y[0][0] + y[1][0], y[0][2] + y[1][2], y[0][1] + y[1][1],
                         y[0][3] + y[1][3]};
    b[0] = triangle[0], b[1] = triangle[2];
    tensor(z, a, b);
    const double f[4] = {z[0], z[2], z[1], z[3]};
#pragma unroll
    for (int i = 0; i < N; i++) {
        b[0] = i < left ? second[Q_TILE * i] : 0.0;
        b[1] = i < left ? second[Q_TILE * i + 4 * ORDER] : 0.0;
        tensor(g.x[i], f, b);
    }
}

/* A := the first k columns of H_1 ... H_k diag(sign), m rows; v with room for T behind it, as
 * grid_factor<true> left it. All threads. */
__device__ inline void q_form(double *v, const double *factor, const double *sign, double *A,
                              int64_t ld, int m, int k) {
    double *const t = v + Q_ORDER * Q_ORDER;
    const int panels = (k + Q_TILE - 1) / Q_TILE;
    for (int e = k * Q_ORDER + (int)threadIdx.x; e < Q_TILE * panels * Q_ORDER; e += 32 * Q_WARPS)
        v[e] = 0.0;
    __syncthreads();
    q_triangles<Q_TILES>(v, factor, k, t);
    __syncthreads();
    QTiles<Q_TILES> g;
    /* not in the same quarter of an SM in all of its blocks: later columns take longer */
    g.w = (int)(threadIdx.x / 32 + blockIdx.x / 4) % Q_WARPS;
    g.c = (int)threadIdx.x % 32 / 4, g.r = (int)threadIdx.x % 4;
    if (16 * g.w >= k)
        return;
    g.b = (2 * g.w + 2 < panels ? 2 * g.w + 2 : panels) - 1;
#pragma unroll
    for (int e = 0; e < 4; e++) {
        const int j = g.col(e / 2);
        const double s = j < k ? sign[j] : 0.0;
#pragma unroll
        for (int i = 0; i < Q_TILES; i++)
            g.x[i][e] = g.row(i) + e % 2 == j ? s : 0.0;
    }
    q_apply(g, v, t);
#pragma unroll 1
    while (g.b > 0) {
        g.back();
        q_apply(g, v, t);
    }
    const bool two = (uintptr_t)A % 16 == 0 && ld % 2 == 0 && m % 2 == 0;
#pragma unroll
    for (int q = 0; q < 2; q++) {
        double *const to = A + g.col(q) * ld + 2 * g.r;
        const int rows = g.col(q) < k ? m - 2 * g.r : 0;
#pragma unroll
        for (int i = 0; i < Q_TILES; i++) {
            double *const at = to + Q_TILE * i;
            const double2 y = make_double2(g.x[i][2 * q], g.x[i][2 * q + 1]);
            if (two && Q_TILE * i < rows) {
                *(double2 *)at = y;
            } else {
                if (Q_TILE * i < rows)
                    at[0] = y.x;
                if (Q_TILE * i + 1 < rows)
                    at[1] = y.y;
            }
        }
    }
}

} // namespace lowrank
#endif
