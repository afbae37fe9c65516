/* Householder QR of one matrix in the registers of one thread block: thread (r, c) of a grid of RL
 * x CL holds rows r, r + RL, ... and columns c, c + CL, ... A reflector passes through shared
 * memory once, with one barrier a column; dot products end in shuffles among the RL lanes that
 * share a column. Panels are the CL columns of one register index, so that finished columns and
 * rows drop out at compile time. */
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

/* Column P CL + l, which is complete, becomes its reflector: R on and above the diagonal, the
 * vector below it and, with zeros above and 1 on the diagonal, in v (from the panel's first row
 * on). OFF: its diagonal lies OFF local rows further down. By the warp that holds it. */
template <int P, int OFF, class G>
__device__ inline void grid_pivot(G &g, int l, typename G::T *v, typename G::T *tau) {
    typedef typename G::T T;
    constexpr int FIRST = OFF + G::first(P), BELOW = OFF + G::below(P);
    if (l * G::RL / 32 != (int)threadIdx.x / 32)
        return;
    const int j = OFF * G::RL + P * G::CL + l; /* row of the diagonal */
    T s[2] = {T(0), T(0)}, alpha = T(0);
#pragma unroll
    for (int a = FIRST; a < G::A; a++) {
        const T x = g.x[a][P];
        if (a < BELOW) {
            s[a % 2] += g.row(a) > j ? x * x : T(0);
            alpha = a == j / G::RL ? x : alpha;
        } else {
            s[a % 2] += x * x;
        }
    }
    const T squares = column_sum<G::RL>(s[0] + s[1]);
    const Reflector<T> h = reflector(__shfl_sync(0xffffffffu, alpha, j % G::RL, G::RL), squares);
    if (g.c != l)
        return;
#pragma unroll
    for (int a = FIRST; a < G::A; a++) {
        T x = g.x[a][P], y = x * h.scale;
        if (a < BELOW) {
            const int i = g.row(a);
            x = i > j ? y : i == j ? h.beta : x;
            y = i > j ? y : i == j ? T(1) : T(0);
        } else {
            x = y;
        }
        g.x[a][P] = x;
        v[g.row(a)] = y;
    }
    if (g.r == 0)
        tau[P * G::CL + l] = h.tau;
}

/* x := (I - tau v v^T) x on local rows from FROM and columns from Q on; those of column Q only
 * right of l. */
template <int FROM, int Q, class G>
__device__ inline void grid_reflect(G &g, const typename G::T *v, typename G::T tau, int l) {
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
        T f = -tau * d[q];
        if (q == Q)
            f = g.c > l ? f : T(0);
#pragma unroll
        for (int a = FROM; a < G::A; a++)
            g.x[a][q] = fma(f, w[a], g.x[a][q]);
    }
}

/* Panels P and later of the factorisation; k reflectors in all. Their vectors go to v, ROWS each:
 * column j to place j, or to two places in turn (KEEP false). All threads of the block. */
template <int P, bool KEEP, int OFF, class G>
__device__ inline void grid_panels(G &g, int k, typename G::T *v, typename G::T *tau) {
    constexpr int J = P * G::CL;
    if (J >= k)
        return;
    const int n = k - J < G::CL ? k - J : G::CL;
    grid_pivot<P, OFF>(g, 0, v + (KEEP ? J : J % 2) * G::ROWS, tau);
    __syncthreads();
#pragma unroll 1
    for (int l = 0; l < n; l++) {
        const int j = J + l, here = KEEP ? j : j % 2, next = KEEP ? j + 1 : (j + 1) % 2;
        grid_reflect<OFF + G::first(P), P>(g, v + here * G::ROWS, tau[j], l);
        if (l + 1 < n)
            grid_pivot<P, OFF>(g, l + 1, v + next * G::ROWS, tau);
        __syncthreads();
    }
    if constexpr (P + 1 < G::C)
        grid_panels<P + 1, KEEP, OFF>(g, k, v, tau);
}
/* A = Q R: g holds what LAPACK's geqrf leaves; tau: k entries of shared memory. With OFF the first
 * OFF RL rows stay as they are. */
template <bool KEEP, int OFF = 0, class G>
__device__ inline void grid_factor(G &g, int k, typename G::T *v, typename G::T *tau) {
    grid_panels<0, KEEP, OFF>(g, k, v, tau);
}

/* g := H_1 ... H_k diag(sign) E, the vectors in v as grid_factor<true> left them. No barrier. */
template <int P, int OFF, class G>
__device__ inline void grid_form_panels(G &g, int k, const typename G::T *v,
                                        const typename G::T *tau) {
    constexpr int J = P * G::CL;
    const int n = k - J < G::CL ? k - J : G::CL;
#pragma unroll 1
    for (int l = n - 1; l >= 0; l--)
        grid_reflect<OFF + G::first(P), P>(g, v + (J + l) * G::ROWS, tau[J + l], -1);
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
        grid_reflect<G::first(P), 0>(g, v + (J + l) * G::ROWS, tau[J + l], -1);
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
