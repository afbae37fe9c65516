/* Householder QR of one matrix in the registers of one thread block: thread (r, c) of a grid of RL
 * x CL holds rows r, r + RL, ... and columns c, c + CL, ... A column passes through shared memory
 * once, before its norm is known; the reflector's scalars follow, so that all threads have their
 * dot products ready by then (two barriers a column). Dot products end in shuffles among the RL
 * lanes that share a column. Panels are the CL columns of one register index, so that finished
 * columns and rows drop out at compile time. */
#ifndef MOAO_GPU_QR_GRID_CUH
#define MOAO_GPU_QR_GRID_CUH
#include "qr_block.cuh"

namespace lowrank {

/* A rows and C columns of each thread. RL: a power of two up to 32. */
template <class T_, int RL_, int CL_, int A_, int C_> struct Grid {
    typedef T_ T;
    static constexpr int RL = RL_, CL = CL_, A = A_, C = C_, ROWS = RL * A, COLS = CL * C,
                         THREADS = RL * CL;
    /* Panel p: its first local row, and the first one that lies below all its columns. */
    static __host__ __device__ constexpr int first(int p) {
        return p * CL / RL;
    }
    static __host__ __device__ constexpr int below(int p) {
        return ((p + 1) * CL + RL - 1) / RL;
    }
    T x[A][C];
    int r, c;
    __device__ Grid() : r((int)threadIdx.x % RL), c((int)threadIdx.x / RL) {
    }
    __device__ int row(int a) const {
        return a * RL + r;
    }
    __device__ int col(int q) const {
        return q * CL + c;
    }
};

/* Sum over the lanes of a column, the same bits in each. */
template <int RL, class T> __device__ inline T column_sum(T x) {
#pragma unroll
    for (int d = RL / 2; d; d >>= 1)
        x += __shfl_xor_sync(0xffffffffu, x, d);
    return x;
}

template <class G>
__device__ inline void grid_load(G &g, const typename G::T *a, int64_t ld, int m, int n) {
#pragma unroll
    for (int q = 0; q < G::C; q++)
#pragma unroll
        for (int k = 0; k < G::A; k++)
            g.x[k][q] =
                g.row(k) < m && g.col(q) < n ? a[g.row(k) + g.col(q) * ld] : typename G::T(0);
}
template <class G>
__device__ inline void grid_store(const G &g, typename G::T *a, int64_t ld, int m, int n) {
    asm volatile("" : "+l"(a), "+l"(ld)); /* no addresses are kept since the load */
#pragma unroll
    for (int q = 0; q < G::C; q++)
#pragma unroll
        for (int k = 0; k < G::A; k++)
            if (g.row(k) < m && g.col(q) < n)
                a[g.row(k) + g.col(q) * ld] = g.x[k][q];
}

/* Reflectors in shared memory: the vector w_j, from row j on, is what is left of column j, with
 * w_jj = top_j = x_jj - beta, unscaled: H = I - factor w w^T. LAPACK's vector is scale w, with tau.
 */
template <class T> struct GridVectors { T *v, *tau, *scale, *factor, *top; };

/* The reflector that brings (alpha, tail) to (beta, 0), s = sum of the tail's squares: beta =
 * -sign(alpha) norm, top = alpha - beta, factor = 1 / (norm |top|). A tail of 0 needs none. */
template <class T> struct Pivot { T beta, top, factor; };
__device__ inline double root_estimate(double p) {
    double y;
    asm("rsqrt.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(p));
    return y;
}
__device__ inline float root_estimate(float p) {
    float y;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(p));
    return y;
}
__device__ inline double inverse_estimate(double p) {
    double y;
    asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(p));
    return y;
}
__device__ inline float inverse_estimate(float p) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(p));
    return y;
}
/* Both estimates are made at once; each result has one step of third order. */
template <class T> __device__ inline Pivot<T> pivot_of(T alpha, T s) {
    const T p = fma(alpha, alpha, s), y = root_estimate(p), near = p * y,
            z = inverse_estimate(fma(fabs(alpha), near, p)), e = fma(-near, y, T(1)),
            norm = fma(near * e, fma(T(0.375), e, T(0.5)), near),
            r = fma(-fma(fabs(alpha), norm, p), z, T(1)), inverse = fma(z, fma(r, r, r), z);
    const bool any = s >= Squares<T>::ZERO;
    return Pivot<T>{any ? -copysign(norm, alpha) : alpha,
                    any ? alpha + copysign(norm, alpha) : T(0), any ? inverse : T(0)};
}
/* What others need at once first. */
template <class T>
__device__ inline void pivot_note(const GridVectors<T> &h, int j, T alpha, const Pivot<T> &p) {
    h.top[j] = p.top;
    h.factor[j] = p.factor;
    const T norm = fabs(p.beta), near = p.factor * norm, close = p.factor * fabs(p.top),
            inverse = fma(near, fma(-fabs(p.top), near, T(1)), near);
    h.scale[j] = copysign(inverse, alpha);
    h.tau[j] =
        p.factor > T(0) ? fma(fabs(alpha), fma(close, fma(-norm, close, T(1)), close), T(1)) : T(0);
}

/* x := (I - tau v v^T) x on local rows from FROM and columns from Q on. */
template <int FROM, int Q, class G>
__device__ inline void grid_reflect(G &g, const typename G::T *v, typename G::T tau) {
    typedef typename G::T T;
    T w[G::A], d[G::C];
#pragma unroll
    for (int a = FROM; a < G::A; a++)
        w[a] = v[g.row(a)];
#pragma unroll
    for (int q = Q; q < G::C; q++) {
        d[q] = T(0);
#pragma unroll
        for (int a = FROM; a < G::A; a++)
            d[q] = fma(w[a], g.x[a][q], d[q]);
    }
#pragma unroll
    for (int q = Q; q < G::C; q++)
        d[q] = column_sum<G::RL>(d[q]);
#pragma unroll
    for (int q = Q; q < G::C; q++) {
        const T f = -tau * d[q];
#pragma unroll
        for (int a = FROM; a < G::A; a++)
            g.x[a][q] = fma(f, w[a], g.x[a][q]);
    }
}

/* Strip S: N columns of one register index P whose diagonals lie in one local row A0, so that what
 * is above, on and below the diagonal is known at compile time but for that row. They are held by
 * threads c = C0, C0 + 1, ...; their diagonals by r = R0, R0 + 1, ... */
template <class G, int S, int OFF> struct Strip {
    static constexpr int N = G::RL < G::CL ? G::RL : G::CL, J = S * N, P = J / G::CL,
                         A0 = OFF + J / G::RL, R0 = J % G::RL, C0 = J % G::CL,
                         FIRST = OFF + G::first(P);
};

/* What is below the diagonal of column l of the strip to v, zeros on it and above. By those who
 * hold it. */
template <class X, class G>
__device__ inline void strip_publish(const G &g, int l, typename G::T *v) {
    typedef typename G::T T;
    if (g.c != X::C0 + l)
        return;
#pragma unroll
    for (int a = X::FIRST; a < G::A; a++)
        v[g.row(a)] = a > X::A0 || (a == X::A0 && g.r > X::R0 + l) ? g.x[a][X::P] : T(0);
}

/* Column l of the strip, whose part below the diagonal is in v, becomes its reflector and acts on
 * the columns right of it. Products with that part and the rows of the diagonal do not wait for the
 * reflector: the owner's own product is the sum of squares that it is made of, so that no column is
 * read twice. Returns w's entry on the diagonal. One barrier. */
template <class X, class G>
__device__ inline typename G::T strip_step(G &g, int l, const typename G::T *v,
                                           const GridVectors<typename G::T> &h) {
    typedef typename G::T T;
    const int j = X::J + l;
    const bool owner = g.c == X::C0 + l, diagonal = g.r == X::R0 + l;
    T w[G::A], d[G::C], row[G::C];
#pragma unroll
    for (int a = X::A0; a < G::A; a++)
        w[a] = v[g.row(a)];
#pragma unroll
    for (int q = X::P; q < G::C; q++)
        row[q] = __shfl_sync(0xffffffffu, g.x[X::A0][q], X::R0 + l, G::RL);
#pragma unroll
    for (int q = X::P; q < G::C; q++) {
        T s[2] = {T(0), T(0)}; /* a shorter chain where others wait for it */
#pragma unroll
        for (int a = X::A0; a < G::A; a++) {
            const int k = q == X::P ? a % 2 : 0;
            s[k] = fma(w[a], g.x[a][q], s[k]);
        }
        d[q] = q == X::P ? s[0] + s[1] : s[0];
    }
#pragma unroll
    for (int q = X::P; q < G::C; q++)
        d[q] = column_sum<G::RL>(d[q]);
    if ((X::C0 + l) * G::RL / 32 == (int)threadIdx.x / 32) {
        const Pivot<T> p = pivot_of(row[X::P], d[X::P]);
        if (owner && diagonal) {
            pivot_note(h, j, row[X::P], p);
            g.x[X::A0][X::P] = p.beta;
        }
    }
    __syncthreads();
    const T top = h.top[j], factor = h.factor[j];
    w[X::A0] = diagonal ? top : w[X::A0];
#pragma unroll
    for (int q = X::P; q < G::C; q++) {
        T f = -factor * fma(top, row[q], d[q]);
        if (q == X::P)
            f = g.c > X::C0 + l ? f : T(0);
#pragma unroll
        for (int a = X::A0; a < G::A; a++)
            g.x[a][q] = fma(f, w[a], g.x[a][q]);
    }
    return top;
}

/* Strips S and later of the factorisation; k reflectors in all. Their vectors go to v, ROWS each:
 * column j to place j, or to two places in turn (KEEP false). All threads of the block. */
template <int S, bool KEEP, int OFF, class G>
__device__ inline void grid_strips(G &g, int k, const GridVectors<typename G::T> &h) {
    typedef typename G::T T;
    typedef Strip<G, S, OFF> X;
    if (X::J >= k)
        return;
    const int n = k - X::J < X::N ? k - X::J : X::N, mine = g.c - X::C0;
    T *const v = h.v + (KEEP ? X::J : 0) * G::ROWS;
    T top = T(0);
    strip_publish<X>(g, 0, v);
    __syncthreads();
#pragma unroll 1
    for (int l = 0; l < n; l++) {
        const T t = strip_step<X>(g, l, v + (KEEP ? l : l % 2) * G::ROWS, h);
        top = l == mine ? t : top;
        if (l + 1 < n)
            strip_publish<X>(g, l + 1, v + (KEEP ? l + 1 : (l + 1) % 2) * G::ROWS);
        __syncthreads();
    }
    if (KEEP && mine >= 0 && mine < n && g.r == X::R0 + mine)
        v[mine * G::ROWS + g.row(X::A0)] = top;
    if constexpr ((S + 1) * X::N < G::COLS)
        grid_strips<S + 1, KEEP, OFF>(g, k, h);
}
/* A = Q R: g holds R on and above the diagonal and w below it; h: k entries of shared memory. With
 * OFF the first OFF RL rows stay as they are. */
template <bool KEEP, int OFF = 0, class G>
__device__ inline void grid_factor(G &g, int k, const GridVectors<typename G::T> &h) {
    grid_strips<0, KEEP, OFF>(g, k, h);
    if (KEEP)
        __syncthreads();
}
/* What LAPACK's geqrf leaves. */
template <int OFF = 0, class G>
__device__ inline void grid_scale(G &g, int k, const GridVectors<typename G::T> &h) {
    typedef typename G::T T;
#pragma unroll
    for (int q = 0; q < G::C; q++) {
        const T f = g.col(q) < k ? h.scale[g.col(q)] : T(1);
#pragma unroll
        for (int a = 0; a < G::A; a++)
            g.x[a][q] = g.row(a) > g.col(q) + OFF * G::RL ? f * g.x[a][q] : g.x[a][q];
    }
}

/* g := H_1 ... H_k diag(sign) E, the vectors in v as grid_factor<true> left them. No barrier. */
template <int P, int OFF, class G>
__device__ inline void grid_form_panels(G &g, int k, const typename G::T *v,
                                        const typename G::T *tau) {
    constexpr int J = P * G::CL;
    const int n = k - J < G::CL ? k - J : G::CL;
#pragma unroll 1
    for (int l = n - 1; l >= 0; l--)
        grid_reflect<OFF + G::first(P), P>(g, v + (J + l) * G::ROWS, tau[J + l]);
    if constexpr (P > 0)
        grid_form_panels<P - 1, OFF>(g, k, v, tau);
}
template <int OFF = 0, class G>
__device__ inline void grid_form(G &g, int k, const typename G::T *v, const typename G::T *tau,
                                 const typename G::T *sign) {
    typedef typename G::T T;
#pragma unroll
    for (int q = 0; q < G::C; q++)
#pragma unroll
        for (int a = 0; a < G::A; a++)
            g.x[a][q] = g.row(a) == g.col(q) + OFF * G::RL && g.col(q) < k ? sign[g.col(q)] : T(0);
    grid_form_panels<G::C - 1, OFF>(g, k, v, tau);
}

/* g := H_1 ... H_k g, the vectors in v with zeros above and ones on the diagonal. No barrier. */
template <int P, class G>
__device__ inline void grid_multiply_panels(G &g, int k, const typename G::T *v,
                                            const typename G::T *tau) {
    constexpr int J = P * G::CL;
    const int n = k - J < G::CL ? k - J : G::CL;
#pragma unroll 1
    for (int l = n - 1; l >= 0; l--)
        grid_reflect<G::first(P), 0>(g, v + (J + l) * G::ROWS, tau[J + l]);
    if constexpr (P > 0)
        grid_multiply_panels<P - 1>(g, k, v, tau);
}
template <class G>
__device__ inline void grid_multiply(G &g, int k, const typename G::T *v,
                                     const typename G::T *tau) {
    grid_multiply_panels<G::C - 1>(g, k, v, tau);
}

} // namespace lowrank
#endif
