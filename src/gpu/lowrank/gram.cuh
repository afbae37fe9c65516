/* QR of tall matrices by way of their Gram matrix, by one thread block: F^T F on FP64 tensor cores,
 * its Cholesky factor, and rows of F times the inverse of that factor. The columns are scaled by
 * powers of two first, so that only angles between them count. One pass makes R to about u cond^2,
 * and Q, whose product with R is F to rounding, orthonormal to the same; a second pass on Q brings
 * both to u (CholeskyQR2). With a shift on the diagonal the factor exists whatever the rank is, and
 * what is nearly dependent comes out as small columns of Q (shifted CholeskyQR).
 *
 * What is multiplied from the right lies as blocks of 8 x 8, 64 contiguous numbers each, column by
 * column: a fragment is then one access of 16 bytes. Rows 2 r and 2 r + 1 of a block stand at
 * places r and r + 4 of the fragment, because an accumulator has its columns in this order:
 * accumulators are left operands of the next product as they are. */
#ifndef MOAO_GPU_LOWRANK_GRAM_CUH
#define MOAO_GPU_LOWRANK_GRAM_CUH
#include "qr_panel.cuh"

namespace lowrank {

/* Columns of a tall matrix: k from one operand, the rest of the w from another one. */
template <class T> struct Columns {
    const T *a, *b;
    int64_t lda, ldb;
    int k, w;
    __device__ const T *at(int j) const {
        return j < k ? a + j * lda : b + (j - k) * ldb;
    }
};

constexpr int CELL = 64; /* numbers of a block of 8 x 8 */
/* Triangle of W columns in blocks: block (i, j), i <= j, then the inverses of those on the
 * diagonal. */
__host__ __device__ constexpr int cell_at(int i, int j) {
    return (j * (j + 1) / 2 + i) * CELL;
}
template <int W> struct Triangle {
    static constexpr int N = W / 8, INVERSE = N * (N + 1) / 2 * CELL, SIZE = INVERSE + N * CELL,
                         LD = conflict_free(W);
    static constexpr int SHARED = W * LD + N * CELL + W; /* doubles: G, inverses, scales */
};

/* --- F^T F. The warps of JOBS share the upper half of its blocks of 16 x 16, warps of different
 * groups the rows. */
template <int W> __host__ __device__ constexpr int gram_jobs() {
    return W / 32;
}

template <class T, int BLOCKS>
__device__ inline void gram_load(double (&x)[BLOCKS][4], const T *const (&p)[BLOCKS][2], int at,
                                 int i, int m, bool whole, int w, int lane) {
    const int r = i + lane % 4;
#pragma unroll
    for (int b = 0; b < BLOCKS; b++)
#pragma unroll
        for (int q = 0; q < 4; q++) {
            const int row = r + (q >> 1) * 4, col = at + 16 * b + lane / 4 + (q & 1) * 8;
            x[b][q] = whole || (row < m && col < w) ? (double)p[b][q & 1][row] : 0.0;
        }
}

/* Rows of blocks I0 and I1 = W / 16 - 1 - I0 of the upper half, one after the other in acc: sum
 * over 8 rows of F from `from` on, every `step` rows. */
template <class T, int W, int I0>
__device__ inline void gram_job(double (&acc)[W / 16 + 1][2][4], const Columns<T> &f, int m,
                                int from, int step) {
    constexpr int N = W / 16, I1 = N - 1 - I0, BLOCKS = N - I0;
    constexpr bool AHEAD = W <= 64; /* registers for the next rows */
    const int lane = threadIdx.x % 32, c = lane / 4;
    const T *p[BLOCKS][2];
    double x[BLOCKS][4], next[AHEAD ? BLOCKS : 1][4];
#pragma unroll
    for (int b = 0; b < BLOCKS; b++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const int j = 16 * (I0 + b) + c + 8 * h;
            p[b][h] = f.at(j < f.w ? j : 0);
        }
    if constexpr (AHEAD)
        gram_load(next, p, 16 * I0, from, m, from + 8 <= m && f.w == W, f.w, lane);
#pragma unroll 1
    for (int i = from; i < m; i += step) {
        if constexpr (AHEAD) {
#pragma unroll
            for (int b = 0; b < BLOCKS; b++)
#pragma unroll
                for (int q = 0; q < 4; q++)
                    x[b][q] = next[b][q];
            if (i + step < m)
                gram_load(next, p, 16 * I0, i + step, m, i + step + 8 <= m && f.w == W, f.w, lane);
        } else {
            gram_load(x, p, 16 * I0, i, m, i + 8 <= m && f.w == W, f.w, lane);
        }
#pragma unroll
        for (int j = 0; j < BLOCKS; j++) {
            const double left[2] = {x[j][0], x[j][2]}, right[2] = {x[j][1], x[j][3]};
            tensor(acc[j][0], x[0], left);
            tensor(acc[j][1], x[0], right);
            if (I1 > I0 && j >= I1 - I0) {
                tensor(acc[BLOCKS + j - (I1 - I0)][0], x[I1 - I0], left);
                tensor(acc[BLOCKS + j - (I1 - I0)][1], x[I1 - I0], right);
            }
        }
    }
}

/* G := F^T F, its upper half, leading dimension Triangle<W>::LD, zeros beyond the columns. All
 * threads; begins and ends with a barrier. */
template <class T, int W, int WARPS>
__device__ inline void gram_product(const Columns<T> &f, int m, double *G) {
    constexpr int JOBS = gram_jobs<W>(), GROUPS = WARPS / JOBS, N = W / 16, LD = Triangle<W>::LD;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, job = warp % JOBS,
              group = warp / JOBS, /* beyond GROUPS: no share of the rows is left */
        from = group < GROUPS ? 8 * group : m;
    double acc[N + 1][2][4] = {};
    __syncthreads();
    if (job == 0)
        gram_job<T, W, 0>(acc, f, m, from, 8 * GROUPS);
    if constexpr (JOBS > 1)
        if (job == 1)
            gram_job<T, W, 1>(acc, f, m, from, 8 * GROUPS);
    if constexpr (JOBS > 2)
        if (job == 2)
            gram_job<T, W, 2>(acc, f, m, from, 8 * GROUPS);
    if constexpr (JOBS > 3)
        if (job == 3)
            gram_job<T, W, 3>(acc, f, m, from, 8 * GROUPS);
    for (int g = 0; g < GROUPS; g++) { /* in a fixed order */
        if (g == group)
#pragma unroll
            for (int t = 0; t < N + 1; t++) {
                const int i = t < N - job ? job : N - 1 - job, j = t < N - job ? job + t : t - 1;
#pragma unroll
                for (int e = 0; e < 8; e++) {
                    double *to = G + 16 * i + lane / 4 + (e & 2) * 4 +
                                 (16 * j + (e >> 2) * 8 + 2 * (lane % 4) + (e & 1)) * LD;
                    *to = (g ? *to : 0.0) + acc[t][e >> 2][e & 3];
                }
            }
        __syncthreads();
    }
}

/* --- Cholesky factor G = R^T R in the upper half, columns beyond w those of the identity. */

/* Range of squared column norms within which nothing overflows, underflows or loses digits. */
template <class T> __device__ inline bool gram_range(double square) {
    const double most = sizeof(T) == 8 ? 0x1p600 : 0x1p80;
    return square >= 1 / most && square <= most;
}

/* G := S G S + shift I with S of powers of two, diagonal in [1/4, 1) (S = I if not `scaled`). False
 * if a column is out of range: 0, not finite, too large or small. All threads; begins and ends with
 * a barrier. */
template <class T, int W>
__device__ inline bool gram_scale(double *G, double *scale, int w, double shift, bool scaled) {
    constexpr int LD = Triangle<W>::LD;
    bool fine = true;
    for (int j = threadIdx.x; j < W; j += blockDim.x) {
        const double d = G[j + j * LD];
        double s = 1;
        if (j < w && scaled) {
            fine = gram_range<T>(d);
            int e = 0;
            if (fine)
                frexp(d, &e);
            s = ldexp(1.0, -((e + 1) >> 1));
        }
        scale[j] = s;
    }
    fine = !__syncthreads_or(!fine);
    for (int e = threadIdx.x; e < W * W; e += blockDim.x) {
        const int i = e % W, j = e / W;
        if (i <= j)
            G[i + j * LD] = j >= w ? (i == j ? 1.0 : 0.0)
                                   : G[i + j * LD] * scale[i] * scale[j] + (i == j ? shift : 0.0);
    }
    __syncthreads();
    return fine;
}

/* Block on the diagonal, by every thread for itself: R in the upper half of d, 1 / R_jj in y. False
 * if a pivot is below `least`, which counts as 1 then. */
__device__ inline bool cholesky_cell(double (&d)[8][8], double (&y)[8], double least) {
    bool fine = true;
#pragma unroll
    for (int j = 0; j < 8; j++) {
        const bool good = d[j][j] >= least; /* false for NaN */
        const double p = good ? d[j][j] : 1.0;
        fine = fine && good;
        y[j] = batch::inv_sqrt(p);
        d[j][j] = p * y[j];
#pragma unroll
        for (int c = j + 1; c < 8; c++)
            d[j][c] *= y[j];
#pragma unroll
        for (int i = j + 1; i < 8; i++)
#pragma unroll
            for (int c = i; c < 8; c++)
                d[i][c] = fma(-d[j][i], d[j][c], d[i][c]);
    }
    return fine;
}

/* What is left of G from row and column `at` on, less the products of 8 rows of R. */
template <int W>
__device__ inline void cholesky_rest(double *G, int at, int warp, int warps, int lane) {
    constexpr int LD = Triangle<W>::LD;
    const int r = lane % 4, c = lane / 4, tiles = (W - at) / 8;
    int turn = 0;
    for (int i = 0; i < tiles; i += 2)
        for (int j = i; j < tiles; j++) {
            if (turn++ % warps != warp)
                continue;
            const int row = at + 8 * i, col = at + 8 * j;
            const bool both = row + 8 < W;
            double a[4], b[2], x[4];
#pragma unroll
            for (int q = 0; q < 4; q++)
                a[q] = (q & 1) == 0 || both
                           ? -G[at - 8 + r + (q >> 1) * 4 + (row + c + (q & 1) * 8) * LD]
                           : 0.0;
#pragma unroll
            for (int q = 0; q < 2; q++)
                b[q] = G[at - 8 + r + q * 4 + (col + c) * LD];
#pragma unroll
            for (int e = 0; e < 4; e++)
                x[e] =
                    e < 2 || both ? G[row + c + (e >> 1) * 8 + (col + 2 * r + (e & 1)) * LD] : 0.0;
            tensor(x, a, b);
#pragma unroll
            for (int e = 0; e < 4; e++)
                if (e < 2 || both)
                    G[row + c + (e >> 1) * 8 + (col + 2 * r + (e & 1)) * LD] = x[e];
        }
}

/* R in the place of the upper half of G, the inverses of its blocks on the diagonal in `inverse`.
 * At least W threads, all of the block; ends with a barrier. False: see cholesky_cell. */
template <int W> __device__ inline bool cholesky(double *G, double *inverse, double least) {
    constexpr int LD = Triangle<W>::LD;
    const int t = threadIdx.x, warp = t / 32, warps = blockDim.x / 32;
    bool fine = true;
#pragma unroll 1
    for (int k = 0; k < W; k += 8) {
        double d[8][8], y[8];
#pragma unroll
        for (int j = 0; j < 8; j++)
#pragma unroll
            for (int i = 0; i <= j; i++)
                d[i][j] = G[k + i + (k + j) * LD];
        fine = cholesky_cell(d, y, least) && fine;
        const int rest = W - k - 8;
        if (t < rest + 8) { /* a column of R^-T G, or of R^-T */
            double *g = G + k + (k + 8 + t) * LD, x[8];
#pragma unroll
            for (int i = 0; i < 8; i++)
                x[i] = t < rest ? g[i] : i == t - rest ? 1.0 : 0.0;
#pragma unroll
            for (int i = 0; i < 8; i++) {
#pragma unroll
                for (int q = 0; q < i; q++)
                    x[i] = fma(-d[q][i], x[q], x[i]);
                x[i] *= y[i];
            }
#pragma unroll
            for (int i = 0; i < 8; i++)
                if (t < rest)
                    g[i] = x[i];
                else
                    inverse[8 * k + t - rest + 8 * i] = x[i];
        }
        __syncthreads();
        if (t == 0)
#pragma unroll
            for (int j = 0; j < 8; j++)
#pragma unroll
                for (int i = 0; i <= j; i++)
                    G[k + i + (k + j) * LD] = d[i][j];
        cholesky_rest<W>(G, k + 8, warp, warps, t % 32);
        __syncthreads();
    }
    return fine;
}

/* -R in blocks, and the inverses behind them. A warp makes a block at a time. */
template <int W>
__device__ inline void cells_out(const double *G, const double *inverse, double *cells) {
    const int lane = threadIdx.x % 32, warps = blockDim.x / 32, at = lane % 8, by = lane / 8;
    int i = threadIdx.x / 32, j = 0;
    for (int to = i * CELL; to < Triangle<W>::INVERSE; to += warps * CELL, i += warps) {
        while (i > j)
            i -= ++j;
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const int row = 8 * i + at, col = 8 * j + by + 4 * h;
            cells[to + lane + 32 * h] = row <= col ? -G[row + col * Triangle<W>::LD] : 0.0;
        }
    }
    for (int e = threadIdx.x; e < W / 8 * CELL; e += blockDim.x)
        cells[Triangle<W>::INVERSE + e] = inverse[e];
}

/* r := R r for R in the upper half of G and a triangle r in memory or shared memory. All threads;
 * begins and ends with a barrier. */
template <class T, int W, int WARPS>
__device__ inline void triangle_product(const double *G, T *r, int64_t ld, int w) {
    constexpr int LD = Triangle<W>::LD, TILES = W / 16 * (W / 16 + 1),
                  MINE = (TILES + WARPS - 1) / WARPS;
    const int lane = threadIdx.x % 32, p = lane % 4, c = lane / 4;
    double x[MINE][4] = {};
    int row[MINE], col[MINE];
    __syncthreads();
#pragma unroll
    for (int s = 0; s < MINE; s++) {
        int t = threadIdx.x / 32 + s * WARPS, i = 0;
        while (i < W / 16 && t >= W / 8 - 2 * i)
            t -= W / 8 - 2 * i, i++;
        row[s] = 16 * i, col[s] = 16 * i + 8 * t;
        if (i >= W / 16)
            continue;
#pragma unroll 4
        for (int k = row[s]; k < col[s] + 8; k += 8) {
            double a[4], b[2];
#pragma unroll
            for (int q = 0; q < 4; q++) {
                const int at = row[s] + c + (q & 1) * 8, by = k + p + (q >> 1) * 4;
                a[q] = at <= by ? G[at + by * LD] : 0.0;
            }
#pragma unroll
            for (int q = 0; q < 2; q++) {
                const int at = k + p + q * 4, by = col[s] + c;
                b[q] = at <= by && by < w ? (double)r[at + by * ld] : 0.0;
            }
            tensor(x[s], a, b);
        }
    }
    __syncthreads();
#pragma unroll
    for (int s = 0; s < MINE; s++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const int i = row[s] + c + (e >> 1) * 8, j = col[s] + 2 * p + (e & 1);
            if (row[s] < W && i <= j && j < w)
                r[i + j * ld] = (T)x[s][e];
        }
    __syncthreads();
}

/* --- rows of F, 16 of them by one warp: entries of rows c and c + 8, columns 8 j + 2 r and the
 * next one, r = lane % 4, c = lane / 4. */
template <int N> struct Rows { double x[N][4]; };

__device__ inline void tensor_rows(double (&c)[4], const double (&a)[4], const double *cell,
                                   int lane) {
    const double left[4] = {a[0], a[2], a[1], a[3]};
    double b[2];
    *(double2 *)b = *(const double2 *)(cell + 2 * (lane % 4) + 8 * (lane / 4));
    tensor(c, left, b);
}

template <class T, int N>
__device__ inline void rows_load(Rows<N> &q, const Columns<T> &f, int row, int m, int lane) {
    const int r = lane % 4, c = lane / 4;
    const bool whole = row + 16 <= m && f.w == 8 * N;
#pragma unroll
    for (int j = 0; j < N; j++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const int col = 8 * j + 2 * r + h;
            const T *p = f.at(whole || col < f.w ? col : 0) + row + c;
#pragma unroll
            for (int e = 0; e < 2; e++)
                q.x[j][h + 2 * e] =
                    whole || (col < f.w && row + c + 8 * e < m) ? (double)p[8 * e] : 0.0;
        }
}
/* Those from row `from` on. */
template <class T, int N>
__device__ inline void rows_store(const Rows<N> &q, T *to, int64_t ld, int row, int m, int w,
                                  int lane, int from = 0) {
    const int r = lane % 4, c = lane / 4;
#pragma unroll
    for (int j = 0; j < N; j++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const int i = row + c + (e >> 1) * 8, col = 8 * j + 2 * r + (e & 1);
            if (i >= from && i < m && col < w)
                to[i + col * ld] = (T)q.x[j][e];
        }
}
/* Columns times powers of two. */
template <int N> __device__ inline void rows_scale(Rows<N> &q, const double *scale, int lane) {
#pragma unroll
    for (int j = 0; j < N; j++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            q.x[j][e] *= scale[8 * j + 2 * (lane % 4) + (e & 1)];
}

/* q := q R^-1, each row with a residual of a few u of its own |q| |R|: by substitution in blocks,
 * those on the diagonal by their inverses with one correction. */
template <int W> __device__ inline void rows_solve(Rows<W / 8> &q, const double *cells, int lane) {
#pragma unroll
    for (int j = 0; j < W / 8; j++) {
        const double *inverse = cells + Triangle<W>::INVERSE + j * CELL;
        double y[4] = {}, left[4];
        tensor_rows(y, q.x[j], inverse, lane);
#pragma unroll
        for (int e = 0; e < 4; e++)
            left[e] = q.x[j][e];
        tensor_rows(left, y, cells + cell_at(j, j), lane);
        tensor_rows(y, left, inverse, lane);
#pragma unroll
        for (int e = 0; e < 4; e++)
            q.x[j][e] = y[e];
#pragma unroll
        for (int k = j + 1; k < W / 8; k++)
            tensor_rows(q.x[k], q.x[j], cells + cell_at(j, k), lane);
    }
}

/* y := y + q B, B of W rows and 8 N columns from block column `from` on; block (i, j) at
 * B + (i + j W / 8) CELL. */
template <int W, int N>
__device__ inline void rows_multiply(Rows<N> &y, const Rows<W / 8> &q, const double *B, int from,
                                     int lane) {
#pragma unroll
    for (int i = 0; i < W / 8; i++)
#pragma unroll
        for (int j = 0; j < N; j++)
            tensor_rows(y.x[j], q.x[i], B + (i + (from + j) * (W / 8)) * CELL, lane);
}

} // namespace lowrank
#endif
