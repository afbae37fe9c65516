/* One-sided Jacobi rotations with the columns in registers: R lanes hold a pair of columns (x, y),
 * A rows each; G pairs make a matrix of up to 2 G columns and R A rows. In a step every pair is
 * made orthogonal, and then y goes to another pair: first each of G columns meets each of the
 * others, x staying, y coming by XOR in Gray's order (most moves stay within a warp); then the two
 * halves of the pairs do the same among the x and among the y, and so on: 2 G - 1 steps a sweep, in
 * which all pairs meet once. Dot products need a shuffle or two, and no rotation is multiplied
 * into a matrix of right vectors: svd_core.cuh gets them from a QR factorisation.
 *
 * A rotation is two shears in place, x += f y, then y += g x with the new x, a column being d times
 * what is stored: with t the tangent, f = -t dy / dx and g = t / (1 + t^2) dx / dy, x then has the
 * scale dx c and y has dy / c. Two operations an entry instead of four, and only squares of d are
 * carried, so that there is no root, no 1 / d and no copy of x; d is multiplied in at the end of a
 * sweep, or when its square leaves [2^-20, 2^20]. Angles are found in single precision, which costs
 * no sweep: only what f and g do has to be one rotation in double precision. */
#ifndef MOAO_GPU_SVD_PAIRS_CUH
#define MOAO_GPU_SVD_PAIRS_CUH
#include "svd_matrix.cuh"

namespace lowrank {

template <class T_, int R_, int G_, int A_> struct Pairs {
    typedef T_ T;
    static constexpr int R = R_, G = G_, A = A_, THREADS = R * G, ROWS = R * A, COLS = 2 * G;
    static constexpr bool BLOCK = THREADS > 32; /* else one or several matrices a warp */
    T x[A], y[A];
    double xx, yy; /* squares of the columns */
    double dx, dy; /* squares of d: a column is d times what is stored */
    int jx, jy;    /* which columns */
    int r, p;      /* lane of the pair, pair */
    __device__ Pairs() : dx(1.0), dy(1.0), r((int)threadIdx.x % R), p((int)threadIdx.x / R % G) {
    }
};

/* The threads of one matrix. */
template <class P> __device__ inline void pairs_sync() {
    if (P::BLOCK)
        __syncthreads();
    else
        __syncwarp();
}

template <class P> __device__ inline double lanes_sum(double s) {
#pragma unroll
    for (int d = P::R / 2; d; d >>= 1)
        s += __shfl_xor_sync(0xffffffffu, s, d);
    return s;
}
template <class T, int A> __device__ inline double dot(const T *x, const T *y) {
    double s[4] = {0.0, 0.0, 0.0, 0.0};
#pragma unroll
    for (int a = 0; a < A; a++)
        s[a % 4] = fma((double)x[a], (double)y[a], s[a % 4]);
    return (s[0] + s[1]) + (s[2] + s[3]);
}

/* d, from its square. */
template <class T> __device__ inline T scale_of(double square) {
    return (T)(square * batch::inv_sqrt(square));
}

/* Columns as they are, and their squares afresh. */
template <class P> __device__ inline void pairs_refresh(P &c) {
    typedef typename P::T T;
    const T dx = scale_of<T>(c.dx), dy = scale_of<T>(c.dy);
#pragma unroll
    for (int a = 0; a < P::A; a++) {
        c.x[a] *= dx;
        c.y[a] *= dy;
    }
    c.dx = c.dy = 1.0;
    c.xx = lanes_sum<P>(dot<T, P::A>(c.x, c.x));
    c.yy = lanes_sum<P>(dot<T, P::A>(c.y, c.y));
}

/* Has the square of a factor d left the range in which it is carried? */
__device__ inline bool scale_far(double square) {
    return !(square > 0x1p-20 && square < 0x1p20);
}
/* The squares afresh; columns as they are where that is due. */
template <class P> __device__ inline void pairs_squares(P &c) {
    typedef typename P::T T;
    if (P::COLS > 32) { /* in up to 31 steps a square of d changes by 2^31 at most */
        if (scale_far(c.dx)) {
            const T dx = scale_of<T>(c.dx);
#pragma unroll
            for (int a = 0; a < P::A; a++)
                c.x[a] *= dx;
            c.dx = 1.0;
        }
        if (scale_far(c.dy)) {
            const T dy = scale_of<T>(c.dy);
#pragma unroll
            for (int a = 0; a < P::A; a++)
                c.y[a] *= dy;
            c.dy = 1.0;
        }
    }
    c.xx = c.dx * lanes_sum<P>(dot<T, P::A>(c.x, c.x));
    c.yy = c.dy * lanes_sum<P>(dot<T, P::A>(c.y, c.y));
}

/* 1 / sqrt(s), good to 20 bits and more. */
__device__ inline double near_inverse_root(double s) {
    double y;
    asm("rsqrt.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(s));
    return y;
}

__device__ inline float near_inverse_root(float s) {
    float y;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(s));
    return y;
}

/* Is a, a sum of squares, above b? Both positive or NaN, in integers. */
__device__ inline bool above(double a, double b) {
    return __double2hiint(a) > __double2hiint(b);
}

/* Two columns are orthogonal when the square of their cosine is up to `tol`, or a square of one up
 * to `floor`. A sweep in which no square of a cosine or tangent is above `calm` leaves all pairs
 * so: what later rotations bring back into a pair, 2 n products of a tangent and a cosine, is below
 * sqrt(tol). */
struct Bounds {
    double tol, floor, calm;
};
/* tol: of a cosine; floor: of a square. */
__device__ inline Bounds pair_bounds(double tol, double floor, int columns) {
    return Bounds{tol * tol, floor, tol / (4.0 * columns)};
}

/* 1 / s, good to single precision; of double precision to 19 bits and more. */
__device__ inline float near_inverse(float s) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(s));
    return y;
}
/* 1 / s to about one unit in the last place, s in [1, 2]. */
__device__ inline double inverse_of(double s) {
    double y;
    asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(s));
    const double e = fma(-s, y, 1.0);
    return fma(y, fma(e, e, e), y);
}

/* The tangent over dx dy of the rotation that makes columns of squares xx and yy orthogonal; p:
 * product of what is stored of them, w = dx^2 dy^2. 0 where they are. *cosine: its square. */
__device__ inline double shear_angle(double p, double w, double xx, double yy, const Bounds &d,
                                     bool *rotate, double *cosine) {
    const double uv = near_inverse_root(xx) * near_inverse_root(yy), part = p * uv,
                 half = (yy - xx) * uv;
    *cosine = part * part * w;
    *rotate = above(xx, d.floor) && above(yy, d.floor) && above(*cosine, d.tol);
    const float h = 0.5f * fabsf((float)half), s = fmaf(h, h, (float)*cosine);
    double inverse = (double)near_inverse(fmaf(s, near_inverse_root(s), h));
    if (!above(1e15, fabs(half))) {
        const double root = near_inverse_root(fabs(half));
        inverse = root * root;
    }
    return *rotate ? copysign(inverse, half) * part : 0.0;
}

/* What a rotation by that angle q does: f and g; squares of columns and of d. */
struct Shear {
    double f, g;
};
__device__ inline Shear shear(double q, double p, double w, double &xx, double &yy, double &dx,
                              double &dy) {
    const double qw = q * w, grow = fma(q, qw, 1.0), tp = p * qw;
    Shear r;
    r.f = -q * dy;
    dx *= inverse_of(grow), dy *= grow;
    r.g = q * dx;
    xx -= tp, yy += tp;
    return r;
}

/* Makes the pair's columns orthogonal; the lanes of the warp whose pairs were not. */
template <class P> __device__ inline unsigned pairs_rotate(P &c, const Bounds &d) {
    typedef typename P::T T;
    const double p = lanes_sum<P>(dot<T, P::A>(c.x, c.y)), w = c.dx * c.dy;
    bool rotate, weak = false;
    double cosine;
    const double q = shear_angle(p, w, c.xx, c.yy, d, &rotate, &cosine);
    const unsigned lanes = __ballot_sync(0xffffffffu, rotate);
    if (lanes == 0)
        return 0;
    if (rotate) { /* other pairs keep their bits */
        const double x0 = c.xx, y0 = c.yy;
        const Shear r = shear(q, p, w, c.xx, c.yy, c.dx, c.dy);
        const T f = (T)r.f, g = (T)r.g;
#pragma unroll
        for (int a = 0; a < P::A; a++) {
            c.x[a] = fma(f, c.y[a], c.x[a]);
            c.y[a] = fma(g, c.x[a], c.y[a]);
        }
        weak = !above(8.0 * c.xx, x0) || !above(8.0 * c.yy, y0);
    }
    /* what is carried along loses accuracy; with several matrices a warp it is made afresh often */
    if (P::THREADS >= 32 && __any_sync(0xffffffffu, weak))
        pairs_squares(c);
    return lanes;
}

/* What goes with a column: its number, square and d. Those of y from the lane XOR `bits`; those
 * of x and y exchanged where `upper`. */
template <class P> __device__ inline void move_scalars(P &c, int bits) {
    c.yy = __shfl_xor_sync(0xffffffffu, c.yy, bits);
    c.dy = __shfl_xor_sync(0xffffffffu, c.dy, bits);
    c.jy = __shfl_xor_sync(0xffffffffu, c.jy, bits);
}
template <class P> __device__ inline void split_scalars(P &c, bool upper) {
    const int jx = c.jx, jy = c.jy;
    const double xx = c.xx, yy = c.yy, dx = c.dx, dy = c.dy;
    c.jx = upper ? jy : jx, c.jy = upper ? jx : jy;
    c.xx = upper ? yy : xx, c.yy = upper ? xx : yy;
    c.dx = upper ? dy : dx, c.dy = upper ? dx : dy;
}

/* y of pair p goes to pair p XOR `by`; buffer: A x THREADS elements of shared memory, used between
 * warps. */
template <class P> __device__ inline void pairs_move(P &c, int by, typename P::T *buffer) {
    typedef typename P::T T;
    const int bits = by * P::R;
    if (!P::BLOCK || bits < 32) {
#pragma unroll
        for (int a = 0; a < P::A; a++)
            c.y[a] = __shfl_xor_sync(0xffffffffu, c.y[a], bits);
        move_scalars(c, bits);
        return;
    }
    const int here = (int)threadIdx.x, there = here ^ bits;
    int *column = (int *)(buffer + P::A * P::THREADS);
    const T d = scale_of<T>(c.dy);
#pragma unroll
    for (int a = 0; a < P::A; a++)
        buffer[a * P::THREADS + there] = c.y[a] * d;
    column[there] = c.jy;
    __syncthreads();
#pragma unroll
    for (int a = 0; a < P::A; a++)
        c.y[a] = buffer[a * P::THREADS + here];
    c.jy = column[here];
    c.yy = lanes_sum<P>(dot<T, P::A>(c.y, c.y));
    c.dy = 1.0;
    __syncthreads();
}

/* Pairs of the lower half of a group of 2 `half` keep x and take the x of their partner in the
 * upper half as y; that one keeps y as its x and takes the partner's y. */
template <class P> __device__ inline void pairs_split(P &c, int half, typename P::T *buffer) {
    typedef typename P::T T;
    const bool upper = c.p & half;
#pragma unroll
    for (int a = 0; a < P::A; a++) {
        const T x = c.x[a], y = c.y[a];
        c.x[a] = upper ? y : x;
        c.y[a] = upper ? x : y; /* what the partner wants... */
    }
    split_scalars(c, upper);
    pairs_move(c, half, buffer);
}

/* A sweep; the lanes of the warp that rotated something. */
template <class P>
__device__ inline unsigned pairs_sweep(P &c, const Bounds &d, typename P::T *buffer) {
    unsigned lanes = 0;
#pragma unroll 1
    for (int group = P::G;; group /= 2) {
#pragma unroll 1
        for (int s = 0; s < group; s++) {
            if (s)
                pairs_move(c, s & -s, buffer);
            if (s % (P::THREADS < 32 ? 4 : 16) == 0)
                pairs_squares(c);
            lanes |= pairs_rotate(c, d);
        }
        if (group == 1)
            break;
        pairs_split(c, group / 2, buffer);
    }
    pairs_refresh(c);
    return lanes;
}

/* Columns from and to shared memory: column j at s + j ld. */
template <class P> __device__ inline void pairs_load(P &c, const typename P::T *s, int ld) {
    c.jx = 2 * c.p, c.jy = c.jx + 1;
#pragma unroll
    for (int a = 0; a < P::A; a++) {
        c.x[a] = s[a * P::R + c.r + c.jx * ld];
        c.y[a] = s[a * P::R + c.r + c.jy * ld];
    }
}
template <class P> __device__ inline void pairs_store(const P &c, typename P::T *s, int ld) {
#pragma unroll
    for (int a = 0; a < P::A; a++) {
        s[a * P::R + c.r + c.jx * ld] = c.x[a];
        s[a * P::R + c.r + c.jy * ld] = c.y[a];
    }
}

/* A column of which rotations have left no more than rounding errors (it depended on others)
 * becomes zero: an error of the size that they made anyway, without which the noise is rotated down
 * to the smallest numbers. most: its squares at their largest. */
template <class T, int A>
__device__ inline void drop_column(T *x, double squares, double noise, double &most) {
    most = fmax(most, squares);
    if (squares > 0.0 && squares <= noise * most)
#pragma unroll
        for (int a = 0; a < A; a++)
            x[a] = T(0);
}

/* Rotates the columns of s (COLS of ROWS, zero where there is nothing) until all are orthogonal, in
 * up to `most` sweeps. s has room for the buffer of pairs_move. The sweeps of this thread's matrix,
 * times -1 if they did not suffice. */
template <class P>
__device__ __noinline__ int pairs_jacobi(typename P::T *s, int ld, Bounds d, double noise,
                                         int most) {
    typedef typename P::T T;
    P c;
    double most_x = 0.0, most_y = 0.0;
    constexpr int LANES = P::THREADS % 32; /* 0: whole warps */
    const unsigned mine = LANES == 0 ? 0xffffffffu
                                     : ((1u << LANES) - 1u)
                                           << ((int)threadIdx.x % 32 / (LANES ? LANES : 1) * LANES);
    unsigned lanes = 0;
    int taken = 0;
    bool done = false;
    for (int sweep = 0; sweep < most; sweep++) {
        pairs_load(c, s, ld);
        pairs_sync<P>();
        pairs_refresh(c);
        drop_column<T, P::A>(c.x, c.xx, noise, most_x);
        drop_column<T, P::A>(c.y, c.yy, noise, most_y);
        lanes = pairs_sweep(c, d, s);
        pairs_store(c, s, ld);
        if (P::BLOCK)
            lanes = (unsigned)__syncthreads_or(lanes != 0);
        else
            __syncwarp();
        taken += !done;
        done = (lanes & mine) == 0;
        if (lanes == 0)
            break;
    }
    return done ? taken : -taken;
}

} // namespace lowrank
#endif
