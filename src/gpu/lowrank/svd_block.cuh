/* One-sided Jacobi by one thread block, in blocks of 8 columns: a warp takes a pair of blocks,
 * makes the 16 x 16 Gram matrix with tensor cores, diagonalises it by one sweep of rotations in
 * registers, and multiplies the 16 columns by the product of the rotations, again with tensor
 * cores. X (and J, the product of all rotations) lie in shared or global memory. */
#ifndef MOAO_GPU_SVD_BLOCK_CUH
#define MOAO_GPU_SVD_BLOCK_CUH
#include "qr_block.cuh"

namespace lowrank {

constexpr int SWEEPS = 30;      /* at most */
constexpr int LATE = 20;        /* the sweep from which the bound is wider */
constexpr int WIDTH = 8;        /* columns of a block */
constexpr int PAIR = 2 * WIDTH; /* columns of a pair of blocks */
constexpr int AHEAD = 4;        /* products in flight */

__host__ __device__ constexpr int round_up(int n, int to) {
    return (n + to - 1) / to * to;
}
/* Leading dimension of X and J, whose rows are padded by zeros to a multiple of 8. */
__host__ __device__ constexpr int padded(int rows) {
    return conflict_free(round_up(rows, 8));
}

/* Highest power of two in s. */
__host__ __device__ constexpr int top_bit(int s) {
    return s >= 8 ? 8 : s >= 4 ? 4 : s >= 2 ? 2 : 1;
}

/* The rotation that makes two columns orthogonal: a, b their squares, p their product. Column 1
 * becomes c x1 - s x2, column 2 s x1 + c x2; t = s / c. Reciprocals are squares of reciprocal
 * roots, which cost less than divisions. */
struct Rotation {
    double c, s, t;
};
__device__ inline Rotation rotation(double a, double b, double p) {
    const double y = batch::inv_sqrt(2.0 * fabs(p)), zeta = copysign((b - a) * y * y, (b - a) * p),
                 size = fabs(zeta), z = size > 0x1p27 ? 0x1p27 : size, square = fma(z, z, 1.0),
                 root = batch::inv_sqrt(z + square * batch::inv_sqrt(square));
    Rotation r;
    r.t = size > 0x1p27 ? 0.5 / zeta : copysign(root * root, zeta);
    r.c = batch::inv_sqrt(fma(r.t, r.t, 1.0));
    r.s = r.c * r.t;
    return r;
}
/* Square root; NaN for 0 and below, infinity for a subnormal number. */
__device__ inline double root_of(double a) {
    return a * batch::inv_sqrt(a);
}

/* One step of the sweep on G: columns l and l ^ S of every pair are made orthogonal. Lane l < 16
 * holds column l of G, lane 16 + l column l of the product Q of the rotations, entry (l ^ r, l) in
 * x[r], so that a partner's entry is in a register known at compile time. cs: a rotation for each
 * column, in shared memory. Returns whether anything was rotated. */
template <int S>
__device__ inline bool inner_step(double (&x)[PAIR], double tol, double floor, double2 *cs,
                                  int lane) {
    const int l = lane % PAIR;
    const bool low = !(l & top_bit(S)), gram = lane < PAIR;
    const double a = x[0], root = gram ? root_of(a) : 0.0;
    const double b = __shfl_xor_sync(0xffffffffu, a, S), q = __shfl_xor_sync(0xffffffffu, x[S], S),
                 other = __shfl_xor_sync(0xffffffffu, root, S);
    const double p = low ? x[S] : q; /* the same bits in both lanes */
    /* a product that is the same bits in both lanes, so that they agree; floor: what counts as 0 */
    const bool rotate = gram && fabs(p) > tol * (root * other) && root > floor && other > floor;
    if (!__any_sync(0xffffffffu, rotate))
        return false;
    double c = 1.0, s = 0.0, diagonal = a;
    if (rotate) {
        const Rotation r = low ? rotation(a, b, p) : rotation(b, a, p);
        c = r.c;
        s = low ? -r.s : r.s;
        diagonal = fma(low ? -r.t : r.t, p, a);
    }
    if (gram)
        cs[l] = make_double2(c, s);
    __syncwarp();
    const double2 mine = cs[l];
#pragma unroll
    for (int r = 0; r < PAIR; r++)
        if (r < (r ^ S)) {
            const double u = x[r], v = x[r ^ S];
            const double pu = __shfl_xor_sync(0xffffffffu, v, S),
                         pv = __shfl_xor_sync(0xffffffffu, u, S);
            x[r] = fma(mine.y, pu, mine.x * u);
            x[r ^ S] = fma(mine.y, pv, mine.x * v);
        }
    if (gram) {
#pragma unroll
        for (int r = 0; r < PAIR; r++)
            if (r < (r ^ S)) {
                const double2 row = cs[l ^ r];
                const double u = x[r], v = x[r ^ S];
                x[r] = fma(row.y, v, row.x * u);
                x[r ^ S] = fma(-row.y, u, row.x * v);
            }
        if (rotate) {
            x[0] = diagonal;
            x[S] = 0.0;
        }
    }
    __syncwarp();
    return true;
}

/* A sweep: every pair of different blocks, and those within a block if `within`. */
__device__ inline bool inner_sweep(double (&x)[PAIR], bool within, double tol, double floor,
                                   double2 *cs, int lane) {
    bool any = false;
    if (within) {
        any |= inner_step<1>(x, tol, floor, cs, lane);
        any |= inner_step<2>(x, tol, floor, cs, lane);
        any |= inner_step<3>(x, tol, floor, cs, lane);
        any |= inner_step<4>(x, tol, floor, cs, lane);
        any |= inner_step<5>(x, tol, floor, cs, lane);
        any |= inner_step<6>(x, tol, floor, cs, lane);
        any |= inner_step<7>(x, tol, floor, cs, lane);
    }
    any |= inner_step<8>(x, tol, floor, cs, lane);
    any |= inner_step<9>(x, tol, floor, cs, lane);
    any |= inner_step<10>(x, tol, floor, cs, lane);
    any |= inner_step<11>(x, tol, floor, cs, lane);
    any |= inner_step<12>(x, tol, floor, cs, lane);
    any |= inner_step<13>(x, tol, floor, cs, lane);
    any |= inner_step<14>(x, tol, floor, cs, lane);
    any |= inner_step<15>(x, tol, floor, cs, lane);
    return any;
}

/* Gram matrix of columns x0 and x1 (8 each, leading dimension ld), 16 x 16 column-major to s. */
template <class T>
__device__ inline void pair_gram(const T *x0, const T *x1, int64_t ld, int rows, double *s,
                                 int lane) {
    const int r = lane % 4, c = lane / 4;
    double g[2][2][4] = {};
    x0 += c * ld + r;
    x1 += c * ld + r;
    for (int k = 0; k < rows; k += 16)
#pragma unroll
        for (int h = 0; h < 2; h++)
            if (h == 0 || k + 8 < rows) {
                const int i = k + 8 * h;
                const double a[4] = {(double)x0[i], (double)x1[i], (double)x0[i + 4],
                                     (double)x1[i + 4]};
                const double left[2] = {a[0], a[2]}, right[2] = {a[1], a[3]};
                tensor(g[h][0], a, left);
                tensor(g[h][1], a, right);
            }
#pragma unroll
    for (int h = 0; h < 2; h++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            s[c + (e >> 1) * 8 + (8 * h + 2 * r + (e & 1)) * PAIR] = g[0][h][e] + g[1][h][e];
}

/* The 16 columns y0, y1 := [y0 y1] Q; f: fragments of Q^T. */
template <class T>
__device__ inline void pair_update(T *y0, T *y1, int64_t ld, int rows, const double (&f)[2][4],
                                   int lane) {
    const int r = lane % 4, c = lane / 4;
    const T *in0 = y0 + r * ld + c, *in1 = y1 + r * ld + c;
    T *out0 = y0 + c * ld + 2 * r, *out1 = y1 + c * ld + 2 * r;
    for (int k = 0; k < rows; k += 8 * AHEAD) { /* loads of several products before any store */
        double y[AHEAD][4] = {}, b0[AHEAD][2], b1[AHEAD][2];
#pragma unroll
        for (int h = 0; h < AHEAD; h++) {
            const int i = k + 8 * h;
            const bool in = i < rows;
            b0[h][0] = in ? (double)in0[i] : 0.0;
            b0[h][1] = in ? (double)in0[i + 4 * ld] : 0.0;
            b1[h][0] = in ? (double)in1[i] : 0.0;
            b1[h][1] = in ? (double)in1[i + 4 * ld] : 0.0;
        }
#pragma unroll
        for (int h = 0; h < AHEAD; h++)
            tensor(y[h], f[0], b0[h]);
#pragma unroll
        for (int h = 0; h < AHEAD; h++)
            tensor(y[h], f[1], b1[h]);
#pragma unroll
        for (int h = 0; h < AHEAD; h++) {
            const int i = k + 8 * h;
            if (i < rows) {
                out0[i] = (T)y[h][0];
                out0[i + 1] = (T)y[h][1];
                out1[i] = (T)y[h][2];
                out1[i + 1] = (T)y[h][3];
            }
        }
    }
}

/* What the rotations know. */
template <class T> struct Rotated {
    T *X, *J; /* J may be NULL */
    int64_t ldx, ldj;
    int rows, j_rows;  /* multiples of 8 */
    double tol, floor; /* orthogonal enough; columns of norm up to floor count as zero */
    double noise;      /* (a few eps)^2 */
    double *squares;   /* of each column at its largest; shared memory */
};

/* A column of which rotations have left no more than rounding errors (it depended on others)
 * becomes zero: an error of the size that they made anyway, without which the noise is rotated down
 * to the smallest numbers. x: G in the lanes' registers. */
template <class T>
__device__ inline void drop_noise(const Rotated<T> &d, double (&x)[PAIR], int column, int lane) {
    const int l = lane % PAIR;
    bool gone = false;
    if (lane < PAIR) {
        gone = x[0] > 0.0 && x[0] <= d.noise * d.squares[column];
        d.squares[column] = fmax(d.squares[column], x[0]);
    }
    const unsigned mask = __ballot_sync(0xffffffffu, gone);
    if (mask == 0)
        return;
    if (gone)
        for (int i = 0; i < d.rows; i++)
            d.X[i + column * d.ldx] = T(0);
    if (lane < PAIR)
#pragma unroll
        for (int r = 0; r < PAIR; r++)
            if (gone || (mask >> (l ^ r) & 1))
                x[r] = 0.0;
    __syncwarp();
}

/* One pair of blocks, by one warp; s: its scratch. Returns whether it rotated. */
template <class T>
__device__ inline bool pair_rotate(const Rotated<T> &d, int b0, int b1, bool within, double *s,
                                   int lane) {
    const int l = lane % PAIR;
    T *x0 = d.X + WIDTH * b0 * d.ldx, *x1 = d.X + WIDTH * b1 * d.ldx;
    double x[PAIR], f[2][4];
    pair_gram(x0, x1, d.ldx, d.rows, s, lane);
    __syncwarp();
#pragma unroll
    for (int r = 0; r < PAIR; r++) /* G is symmetric: a row is read, across banks */
        x[r] = lane < PAIR ? s[l + (l ^ r) * PAIR] : r == 0 ? 1.0 : 0.0;
    __syncwarp();
    drop_noise(d, x, l < WIDTH ? WIDTH * b0 + l : WIDTH * b1 + l - WIDTH, lane);
    if (!inner_sweep(x, within, d.tol, d.floor, (double2 *)(s + FACTOR), lane))
        return false;
    if (lane >= PAIR)
#pragma unroll
        for (int r = 0; r < PAIR; r++)
            s[(l ^ r) + l * FLD] = x[r];
    __syncwarp();
#pragma unroll
    for (int t = 0; t < 2; t++)
#pragma unroll
        for (int q = 0; q < 4; q++)
            f[t][q] = s[8 * t + lane % 4 + (q >> 1) * 4 + (lane / 4 + (q & 1) * 8) * FLD];
    __syncwarp();
    pair_update(x0, x1, d.ldx, d.rows, f, lane);
    if (d.J)
        pair_update(d.J + WIDTH * b0 * d.ldj, d.J + WIDTH * b1 * d.ldj, d.ldj, d.j_rows, f, lane);
    return true;
}

/* Pair p of step 1 .. nb - 1, in which every block (nb, even) occurs once: i with i XOR step for
 * powers of two, else a tournament. */
__device__ inline int2 pair_blocks(int p, int step, int nb) {
    int2 r;
    if ((nb & (nb - 1)) == 0) {
        const int bit = 31 - __clz(step);
        r.x = (p >> bit << (bit + 1)) | (p & ((1 << bit) - 1));
        r.y = r.x ^ step;
    } else {
        const int n = nb - 1;
        r.x = p == 0 ? n : (step + p) % n;
        r.y = (step - p + n) % n;
    }
    return r.x < r.y ? r : int2{r.y, r.x};
}

/* Rotates the n columns of X until all pairs are orthogonal; columns up to a multiple of 16 must be
 * there, zero. Returns the sweeps, 0 if they were not enough. */
template <class T> __device__ __noinline__ int jacobi(Rotated<T> d, int n, const Block &g) {
    const int nb = round_up(n, PAIR) / WIDTH;
    for (int j = (int)threadIdx.x; j < WIDTH * nb; j += (int)blockDim.x)
        d.squares[j] = 0.0;
    __syncthreads();
    for (int sweep = 1; sweep <= SWEEPS; sweep++) {
        bool any = false;
        if (sweep == LATE) /* multiple values: roundings keep a few pairs just beyond the bound */
            d.tol *= 4.0;
        for (int step = 1; step < nb; step++) {
            for (int p = g.warp; p < nb / 2; p += g.warps) {
                const int2 b = pair_blocks(p, step, nb);
                any |= pair_rotate(d, b.x, b.y, step == 1, g.own, g.lane);
            }
            __syncthreads();
        }
        if (!__syncthreads_or(any))
            return sweep;
    }
    return 0;
}

} // namespace lowrank
#endif
