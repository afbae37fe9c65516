/* One-sided Jacobi rotations with the columns in registers, two pairs of them at a time: R lanes
 * hold columns x0, x1, y0, y1 (A rows each), G such groups a matrix of up to 4 G columns and R A
 * rows. A round makes (x0, y0) and (x1, y1) orthogonal, the next one (x0, y1) and (x1, y0); then
 * the two y go to another group, as in svd_pairs.cuh: a sweep in which all pairs meet once takes 4
 * G
 * - 1 rounds and 2 G - 2 moves. Each half of a group's lanes finds the angle of one of the two
 * pairs: what it calls x[0] and y[0] are the columns of its own pair, x[1] and y[1] those of the
 * other half's. Columns are d times what is stored, as there. */
#ifndef MOAO_GPU_SVD_QUADS_CUH
#define MOAO_GPU_SVD_QUADS_CUH
#include "svd_pairs.cuh"

namespace lowrank {

/* METRIC: the first half of a column is that of G J, the second one that of J (svd_gram.cuh). */
template <class T_, int R_, int G_, int A_, bool METRIC_ = false> struct Quads {
    typedef T_ T;
    static constexpr bool METRIC = METRIC_;
    static constexpr int R = R_, G = G_, A = A_, THREADS = R * G, ROWS = R * A, COLS = 4 * G;
    /* Shared memory that moves between warps need: elements, and doubles. */
    static constexpr int BUFFER = 4 * A * THREADS, SCALARS = 16 * G;
    T x[2][A], y[2][A];
    /* squares of this half's x[0] and y[0] (after the first round y[1]), and of their d */
    double xx, dx, yy, dy;
    int jx, jy;   /* which columns */
    bool rotated; /* the warp rotated something since the load */
    int r, g;
    __device__ Quads() : rotated(false), r((int)threadIdx.x % R), g((int)threadIdx.x / R) {
    }
    __device__ bool upper() const {
        return r >= R / 2;
    }
};

template <class Q, class E> __device__ inline E other_half(E x) {
    return __shfl_xor_sync(0xffffffffu, x, Q::R / 2);
}
/* What this thread has of the product of two columns. */
template <class Q>
__device__ inline double part_dot(const typename Q::T *u, const typename Q::T *w) {
    return Q::METRIC ? dot<typename Q::T, Q::A / 2>(u + Q::A / 2, w)
                     : dot<typename Q::T, Q::A>(u, w);
}
/* u0 w0 of this half's pair; u1 w1 is the other half's. The same bits in all lanes of a half. */
template <class Q>
__device__ inline double half_dot(const typename Q::T *u0, const typename Q::T *w0,
                                  const typename Q::T *u1, const typename Q::T *w1) {
    const double mine = part_dot<Q>(u0, w0), other = part_dot<Q>(u1, w1);
    double s = mine + other_half<Q>(other);
#pragma unroll
    for (int d = Q::R / 4; d; d >>= 1)
        s += __shfl_xor_sync(0xffffffffu, s, d);
    return s;
}

/* Columns as they are stored; NAMED: which y the scalars are of. */
template <int NAMED, class Q> __device__ inline void quads_scale(Q &c) {
    typedef typename Q::T T;
    const T dx = scale_of<T>(c.dx), dy = scale_of<T>(c.dy), bx = other_half<Q>(dx),
            by = other_half<Q>(dy);
#pragma unroll
    for (int a = 0; a < Q::A; a++) {
        c.x[0][a] *= dx, c.x[1][a] *= bx;
        c.y[NAMED][a] *= dy, c.y[1 - NAMED][a] *= by;
    }
    c.dx = c.dy = 1.0;
}
template <class Q> __device__ inline void quads_squares(Q &c) {
    c.xx = half_dot<Q>(c.x[0], c.x[0], c.x[1], c.x[1]);
    c.yy = half_dot<Q>(c.y[0], c.y[0], c.y[1], c.y[1]);
}

/* Squares afresh, of y[0]; columns as they are, where that is due. */
template <class Q> __device__ inline void quads_refresh(Q &c) {
    if (__any_sync(0xffffffffu, scale_far(c.dx) || scale_far(c.dy)))
        quads_scale<0>(c);
    quads_squares(c);
    c.xx *= c.dx, c.yy *= c.dy;
}

/* Makes x[0] and y[NAMED] orthogonal, and the other half's pair; the lanes of the warp whose
 * rotations were large. *weak: a column has lost most of its length, so that what is known of it is
 * worth little. */
template <int NAMED, class Q>
__device__ inline unsigned quads_round(Q &c, const Bounds &d, bool *weak) {
    typedef typename Q::T T;
    T *const y0 = c.y[NAMED], *const y1 = c.y[1 - NAMED];
    const double p = half_dot<Q>(c.x[0], y0, c.x[1], y1), w = c.dx * c.dy, xx = c.xx, yy = c.yy;
    bool rotate;
    double cosine;
    const double q = shear_angle(p, w, xx, yy, d, &rotate, &cosine);
    if (!__any_sync(0xffffffffu, rotate))
        return 0;
    c.rotated = true;
    const Shear r = shear(q, p, w, c.xx, c.yy, c.dx, c.dy);
    const T f = (T)r.f, g = (T)r.g, f1 = other_half<Q>(f), g1 = other_half<Q>(g);
#pragma unroll
    for (int a = 0; a < Q::A; a++) {
        c.x[0][a] = fma(f, y0[a], c.x[0][a]);
        c.x[1][a] = fma(f1, y1[a], c.x[1][a]);
        y0[a] = fma(g, c.x[0][a], y0[a]);
        y1[a] = fma(g1, c.x[1][a], y1[a]);
    }
    *weak |= !above(8.0 * c.xx, xx) || !above(8.0 * c.yy, yy);
    return __ballot_sync(0xffffffffu,
                         rotate && (above(cosine, d.calm) || above(q * (q * w), d.calm)));
}

/* The same of (x[0], x[1]) and of (y[0], y[1]), d being 1: the lower half finds the angle of the
 * first pair, the upper one that of the second. */
template <class Q> __device__ inline unsigned quads_inside(Q &c, const Bounds &d) {
    typedef typename Q::T T;
    const bool up = c.upper();
    const double dx = part_dot<Q>(c.x[0], c.x[1]), dy = part_dot<Q>(c.y[0], c.y[1]);
    double p = (up ? dy : dx) + other_half<Q>(up ? dx : dy);
#pragma unroll
    for (int by = Q::R / 4; by; by >>= 1)
        p += __shfl_xor_sync(0xffffffffu, p, by);
    const double next = other_half<Q>(up ? c.xx : c.yy), mine = up ? c.yy : c.xx;
    bool rotate;
    double cosine;
    const double t = shear_angle(p, 1.0, mine, next, d, &rotate, &cosine);
    const bool large = rotate && (above(cosine, d.calm) || above(t * t, d.calm));
    if (!__any_sync(0xffffffffu, rotate))
        return 0;
    c.rotated = true;
    const double root = batch::inv_sqrt(fma(t, t, 1.0)), cs = rotate ? root : 1.0, sn = cs * t,
                 cs1 = other_half<Q>(cs), sn1 = other_half<Q>(sn);
    const T cx = (T)(up ? cs1 : cs), sx = (T)(up ? -sn1 : sn), cy = (T)(up ? cs : cs1),
            sy = (T)(up ? sn : -sn1);
#pragma unroll
    for (int a = 0; a < Q::A; a++) {
        const T u = c.x[0][a], v = c.y[0][a];
        c.x[0][a] = fma(cx, u, -sx * c.x[1][a]);
        c.x[1][a] = fma(cx, c.x[1][a], sx * u);
        c.y[0][a] = fma(cy, v, -sy * c.y[1][a]);
        c.y[1][a] = fma(cy, c.y[1][a], sy * v);
    }
    quads_squares(c);
    return __ballot_sync(0xffffffffu, large);
}

/* What moves between warps goes through one of two places in turn, so that a barrier a move is
 * enough. */
template <class T> struct Exchange {
    T *place[2];
    double *scalars;
    int turn;
};

/* Both y of group g go to group g XOR `by`, and change names: the scalars are of y[1] before, of
 * y[0] afterwards. */
template <class Q> __device__ inline void quads_move(Q &c, int by, Exchange<typename Q::T> &e) {
    typedef typename Q::T T;
    const int bits = by * Q::R;
    if (bits < 32) {
#pragma unroll
        for (int a = 0; a < Q::A; a++) {
            const T y0 = __shfl_xor_sync(0xffffffffu, c.y[1][a], bits);
            c.y[1][a] = __shfl_xor_sync(0xffffffffu, c.y[0][a], bits);
            c.y[0][a] = y0;
        }
        move_scalars(c, bits);
        return;
    }
    const int here = (int)threadIdx.x, there = here ^ bits;
    T *const b = e.place[e.turn];
    double *const s = e.scalars + e.turn * (Q::SCALARS / 2);
#pragma unroll
    for (int a = 0; a < Q::A; a++) {
        b[a * Q::THREADS + there] = c.y[1][a];
        b[(Q::A + a) * Q::THREADS + there] = c.y[0][a];
    }
    if (c.r % (Q::R / 2) == 0) {
        double *const to = s + 4 * (there / (Q::R / 2));
        to[0] = c.yy, to[1] = c.dy, to[2] = (double)c.jy;
    }
    __syncthreads();
#pragma unroll
    for (int a = 0; a < Q::A; a++) {
        c.y[0][a] = b[a * Q::THREADS + here];
        c.y[1][a] = b[(Q::A + a) * Q::THREADS + here];
    }
    const double *const from = s + 4 * (here / (Q::R / 2));
    c.yy = from[0], c.dy = from[1], c.jy = (int)from[2];
    e.turn ^= 1;
}

/* Groups of the lower half of 2 `half` keep their x and take those of their partner in the upper
 * half as y; that one keeps its y as x and takes the partner's y. */
template <class Q> __device__ inline void quads_split(Q &c, int half, Exchange<typename Q::T> &e) {
    typedef typename Q::T T;
    const bool up = c.g & half;
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int a = 0; a < Q::A; a++) {
            const T x = c.x[i][a], y = c.y[1 - i][a];
            c.x[i][a] = up ? y : x;
            c.y[1 - i][a] = up ? x : y;
        }
    split_scalars(c, up);
    quads_move(c, half, e);
}

/* A sweep over all pairs, or over those of an x and a y (within false); the lanes of the warp whose
 * rotations were large. Afterwards the scalars are of y[1], and d is 1. */
template <class Q>
__device__ inline unsigned quads_sweep(Q &c, bool within, const Bounds &d,
                                       Exchange<typename Q::T> &e) {
    bool weak = false;
    unsigned lanes = within ? quads_inside(c, d) : 0;
#pragma unroll 1
    for (int group = Q::G;; group /= 2) {
#pragma unroll 1
        for (int s = 0; s < group; s++) {
            if (s)
                quads_move(c, s & -s, e);
            if (__any_sync(0xffffffffu, weak) || (s % 8 == 0 && (s || group < Q::G))) {
                quads_refresh(c);
                weak = false;
            }
            lanes |= quads_round<0>(c, d, &weak);
            c.yy = other_half<Q>(c.yy), c.dy = other_half<Q>(c.dy), c.jy = other_half<Q>(c.jy);
            lanes |= quads_round<1>(c, d, &weak);
        }
        if (group == 1 || !within)
            break;
        quads_split(c, group / 2, e);
    }
    quads_scale<1>(c);
    return lanes;
}

/* Columns x of group g: first + apart g and the next one, in memory at s + j ld; those below
 * `rows`, the rest is zero. */
template <class Q>
__device__ inline void quads_load(Q &c, const typename Q::T *s, int64_t ld, int rows, int first_x,
                                  int first_y, int apart) {
    typedef typename Q::T T;
    const int up = c.upper();
    c.jx = first_x + apart * c.g + up, c.jy = first_y + apart * c.g + up;
    const T *const x0 = s + c.jx * ld, *const x1 = s + (c.jx ^ 1) * ld, *const y0 = s + c.jy * ld,
                   *const y1 = s + (c.jy ^ 1) * ld;
#pragma unroll
    for (int a = 0; a < Q::A; a++) {
        const int i = a * Q::R + c.r;
        const bool in = i < rows;
        c.x[0][a] = in ? x0[i] : T(0), c.x[1][a] = in ? x1[i] : T(0);
        c.y[0][a] = in ? y0[i] : T(0), c.y[1][a] = in ? y1[i] : T(0);
    }
    c.dx = c.dy = 1.0;
    quads_squares(c);
}
/* After a sweep. */
template <class Q>
__device__ inline void quads_store(const Q &c, typename Q::T *s, int64_t ld, int rows) {
    typedef typename Q::T T;
    T *const x0 = s + c.jx * ld, *const x1 = s + other_half<Q>(c.jx) * ld,
             *const y1 = s + c.jy * ld, *const y0 = s + other_half<Q>(c.jy) * ld;
#pragma unroll
    for (int a = 0; a < Q::A; a++) {
        const int i = a * Q::R + c.r;
        if (i < rows)
            x0[i] = c.x[0][a], x1[i] = c.x[1][a], y0[i] = c.y[0][a], y1[i] = c.y[1][a];
    }
}
/* As drop_column, after a load: x[0] and y[0] whose squares were once `most_x` and `most_y`.
 * Whether a column of the warp was dropped. */
template <class Q>
__device__ inline bool quads_drop(Q &c, double noise, double &most_x, double &most_y) {
    typedef typename Q::T T;
    most_x = fmax(most_x, c.xx), most_y = fmax(most_y, c.yy);
    const bool x0 = c.xx > 0.0 && c.xx <= noise * most_x, y0 = c.yy > 0.0 && c.yy <= noise * most_y;
    if (!__any_sync(0xffffffffu, x0 || y0))
        return false;
    const bool x1 = other_half<Q>((int)x0), y1 = other_half<Q>((int)y0);
#pragma unroll
    for (int a = 0; a < Q::A; a++) {
        c.x[0][a] = x0 ? T(0) : c.x[0][a], c.x[1][a] = x1 ? T(0) : c.x[1][a];
        c.y[0][a] = y0 ? T(0) : c.y[0][a], c.y[1][a] = y1 ? T(0) : c.y[1][a];
    }
    c.xx = x0 ? 0.0 : c.xx, c.yy = y0 ? 0.0 : c.yy;
    return true;
}

/* Rotates the columns of s (COLS of ROWS in shared memory, zero where there is nothing, with room
 * for Q::BUFFER elements) until all are orthogonal, in up to `most` sweeps; how many there were,
 * times -1 if they did not suffice. */
template <class Q>
__device__ __noinline__ int quads_jacobi(typename Q::T *s, int ld, double *scalars, Bounds d,
                                         double noise, int most) {
    Q c;
    Exchange<typename Q::T> e = {{s, s + Q::BUFFER / 2}, scalars, 0};
    double most_x = 0.0, most_y = 0.0;
#pragma unroll 1
    for (int sweep = 0; sweep < most; sweep++) {
        quads_load(c, s, ld, Q::ROWS, 0, 2, 4);
        __syncthreads();
        quads_drop(c, noise, most_x, most_y);
        const unsigned lanes = quads_sweep(c, true, d, e);
        __syncthreads(); /* what moved last has been read */
        quads_store(c, s, ld, Q::ROWS);
        if (!__syncthreads_or(lanes != 0))
            return sweep + 1;
    }
    return -most;
}

/* The same of 3 / 2 COLS columns, in three blocks of COLS / 2: a sweep takes two of them after the
 * other into registers, whose places are the buffer meanwhile. */
template <class Q>
__device__ __noinline__ int thirds_jacobi(typename Q::T *s, int ld, double *scalars, Bounds d,
                                          double noise, int most) {
    constexpr int W = Q::COLS / 2; /* pairs of blocks: 0 and 1, 0 and 2, 1 and 2 */
    double most_x[2] = {0.0, 0.0}, most_y[2] = {0.0, 0.0};
    Q c;
#pragma unroll 1
    for (int sweep = 0; sweep < most; sweep++) {
        bool large = false;
#pragma unroll 1
        for (int step = 0; step < 3; step++) {
            const bool all = step != 1;
            const int x = step == 2 ? W : 0, y = step == 0 ? W : 2 * W, last = step / 2;
            Exchange<typename Q::T> e = {{s + x * ld, s + y * ld}, scalars, 0};
            quads_load(c, s, ld, Q::ROWS, x, all ? x + 2 : y, all ? 4 : 2);
            __syncthreads();
            if (all) {
                double mx = last ? most_x[1] : most_x[0], my = last ? most_y[1] : most_y[0];
                quads_drop(c, noise, mx, my);
                (last ? most_x[1] : most_x[0]) = mx, (last ? most_y[1] : most_y[0]) = my;
            }
            large |= quads_sweep(c, all, d, e) != 0;
            __syncthreads(); /* what moved last has been read */
            quads_store(c, s, ld, Q::ROWS);
            __syncthreads();
        }
        if (!__syncthreads_or(large))
            return sweep + 1;
    }
    return -most;
}

} // namespace lowrank
#endif
