/* Batched kernels for orders up to 32: G = 8, 16 or 32 lanes a matrix, several matrices a warp. The
 * triangle (and 32/G-fold columns of B) are staged once in shared memory, worked on in registers,
 * and written back once: a fused sequence (POSV, POTI) costs the traffic of one pass. */
#ifndef MOAO_GPU_BATCH_WARP_CUH
#define MOAO_GPU_BATCH_WARP_CUH
#include "batch_tile.cuh"

namespace batch {

constexpr int WARPS = 4; /* of a block */
constexpr int FEW = 2;   /* right-hand sides solved with one entry a lane */

/* Shared memory of one matrix: odd multiples of 16 bytes as leading dimension and between matrices
 * keep the accesses of a warp in different banks. */
template <class T, int G> struct WarpTile {
    static constexpr int V = 16 / sizeof(T), LD = G + V, SIZE = G * LD + V;
};
template <class T, int G> constexpr size_t warp_shared(bool with_b) {
    return sizeof(T) * (size_t)(WARPS * 32 / G) * (WarpTile<T, G>::SIZE * (with_b ? 2 : 1) + G);
}

/* First group lane whose predicate holds, counted from 1; 0 if none. */
template <int G> __device__ inline int first_lane(bool pred, int g) {
    unsigned mask = __ballot_sync(0xffffffffu, pred) >> (g * G);
    return __ffs(mask & (G == 32 ? 0xffffffffu : (1u << (G & 31)) - 1u));
}

/* Diagonal of a staged triangle: ones where padded or unit, reciprocals in inv; the first zero or
 * NaN. */
template <class T, int G>
__device__ inline int diagonal_prepare(T *s, T *inv, int n, bool unit, int g, int l) {
    constexpr int LD = WarpTile<T, G>::LD;
    bool one = unit || l >= n;
    T d = one ? T(1) : s[l * LD + l];
    if (one)
        s[l * LD + l] = T(1);
    inv[l] = T(1) / d;
    return first_lane<G>(!(d > T(0)) && !(d < T(0)), g);
}

/* One 32 x 32 product at a time goes through the tensor cores, which take FP64. */
template <class T, int G> constexpr bool TENSOR = G == 32 && sizeof(T) == 8;

/* s := f c */
template <class T, int LD> __device__ inline void acc_scaled(T *s, const Acc<T> &c, T f, int l) {
    __syncwarp();
#pragma unroll
    for (int e = 0; e < 32; e++)
        s[c.col(e, l) * LD + c.row(e, l)] = f * c.v[e];
    __syncwarp();
}

template <class T, int G, int OP>
__device__ inline void apply_columns(T *x, const T *L, const T *inv) {
    constexpr int LD = WarpTile<T, G>::LD;
    if (OP & FORWARD)
        solve_lower<T, G>(x, L, LD, inv);
    __syncwarp(); /* keeps the compiler from holding all of L in registers for the way back */
    if (OP & BACKWARD)
        solve_lower_trans<T, G, LD>(x, L, inv);
    if (OP & MULTIPLY)
        mult_lower<T, G, LD>(x, L);
}

__device__ inline void info_write(int *info, int base, int64_t b, int fail) {
    if (info && (base == 0 || (fail && info[b] == 0)))
        info[b] = fail > 0 ? fail + base : fail;
}

/* B in chunks of G columns, the first of which is already in transit. */
template <class T, int G, int OP>
__device__ inline void columns_run(const Args<T> &a, const Ref<T> &b, const T *sA, const T *inv,
                                   T *sB, int n, int m, bool keep, int l) {
    constexpr int LD = WarpTile<T, G>::LD;
    const int m_all = (int)a.m.n < a.m.cap ? (int)a.m.n : a.m.cap;
    for (int c0 = 0; c0 < m_all; c0 += G) {
        if (c0) {
            tile_stage<T, G, LD, false, false>(sB, b, b.at(0, c0), n, m - c0, false, l);
            stage_commit();
            stage_wait<0>();
            __syncwarp();
        }
        if constexpr (OP == MULTIPLY && TENSOR<T, G>) {
            Acc<T> c;
            acc_zero(c);
            c.template mma_part<LEFT_LOWER>(sA, 1, LD, sB, 1, LD, l);
            acc_scaled<T, LD>(sB, c, a.alpha, l);
        } else if constexpr (OP != FORWARD && TENSOR<T, G>) {
            if (a.alpha != T(1))
                for (int c = 0; c < 32; c++)
                    sB[c * LD + l] *= a.alpha;
            __syncwarp();
            if (OP & FORWARD)
                block_forward<T, LD>(sB, sA, inv, l);
            if (OP & BACKWARD)
                block_backward<T, LD>(sB, sA, inv, l);
        } else {
            alignas(16) T x[G];
            column_load<T, G>(x, sB + l * LD);
            if (a.alpha != T(1))
#pragma unroll
                for (int i = 0; i < G; i++)
                    x[i] *= a.alpha;
            apply_columns<T, G, OP>(x, sA, inv);
            column_store<T, G>(sB + l * LD, x);
            __syncwarp();
        }
        if (keep)
            tile_write<T, G, LD, false>(sB, b, b.at(0, c0), n, m - c0, false, l);
        __syncwarp();
    }
}

/* Up to FEW columns, entry l of each in lane l. */
template <class T, int G, int OP>
__device__ inline void vectors_run(const Args<T> &a, const Ref<T> &b, T *v, const T *sA,
                                   const T *inv, int n, int m, bool keep, int l) {
    constexpr int LD = WarpTile<T, G>::LD;
#pragma unroll
    for (int c = 0; c < FEW; c++) {
        if (c >= a.m.n)
            break;
        T x = a.alpha * v[c];
        if (OP & FORWARD)
            x = solve_vector<T, G, LD>(x, sA, inv, l);
        if (OP & BACKWARD)
            x = solve_vector_trans<T, G, LD>(x, sA, inv, l);
        if (keep && l < n && c < m)
            *b.at(l, c) = x;
    }
}

/* A := A^-1 and/or A^T A on the staged triangle. */
template <class T, int G, int OP> __device__ inline void triangle_run(T *sA, const T *inv, int l) {
    constexpr int LD = WarpTile<T, G>::LD;
    alignas(16) T x[G];
    if constexpr ((OP & INVERT) != 0 && TENSOR<T, G>) {
        block_invert<T, LD>(sA, inv, l);
    } else if (OP & INVERT) {
        unit_column<T, G>(x, l);
        solve_lower<T, G>(x, sA, LD, inv);
        __syncwarp();
        column_store<T, G>(sA + l * LD, x);
        __syncwarp();
    }
    if constexpr ((OP & SQUARE) != 0 && TENSOR<T, G>) {
        Acc<T> c;
        acc_zero(c);
        c.template mma_part<SQUARED>(sA, LD, 1, sA, 1, LD, l);
        acc_scaled<T, LD>(sA, c, T(1), l);
    } else if (OP & SQUARE) {
        if (!(OP & INVERT))
            column_load<T, G>(x, sA + l * LD);
        mult_lower_trans<T, G, LD>(x, sA);
        __syncwarp();
        column_store<T, G>(sA + l * LD, x);
        __syncwarp();
    }
}

/* Blocks an SM should hold: bounds the registers so that enough loads are in flight. */
template <class T, int G> constexpr int warp_blocks(bool with_b) {
    return G == 32 ? (with_b ? 3 : sizeof(T) == 8 ? 6 : 4) : G == 16 ? (with_b ? 5 : 6) : 8;
}

template <class T, int G, int OP>
__global__ void __launch_bounds__(WARPS * 32,
                                  warp_blocks<T, G>((OP & (FORWARD | BACKWARD | MULTIPLY)) != 0))
    warp_kernel(const __grid_constant__ Args<T> a, int early) {
    extern __shared__ __align__(16) unsigned char shared[];
    constexpr bool WITH_B = (OP & (FORWARD | BACKWARD | MULTIPLY)) != 0;
    constexpr bool CHANGES_A = (OP & (FACTOR | INVERT | SQUARE)) != 0;
    constexpr bool ZERO = OP == SQUARE || (OP == MULTIPLY && TENSOR<T, G>); /* above the diagonal */
    constexpr int SIZE = WarpTile<T, G>::SIZE, LD = WarpTile<T, G>::LD,
                  PER = SIZE * (WITH_B ? 2 : 1) + G;
    const int slot = threadIdx.x / G, g = threadIdx.x % 32 / G, l = threadIdx.x % G;
    const int64_t b = (int64_t)blockIdx.x * (WARPS * 32 / G) + slot;
    T *sA = (T *)shared + slot * PER, *sB = sA + SIZE, *inv = sA + PER - G;

    if ((int)blockIdx.x < early) {
        prefetch_triangle<T, G>(a, b, l, G);
        if (WITH_B)
            prefetch_operand<T, G>(a.B, a.n, a.m, b, a.count, l, G);
    }
    wait_for_predecessor();
    int n = b < a.count ? dim_part(a.n, b) : 0;
    bool mine = b < a.count && n > a.lo && n <= G && !(a.skip && a.skip[b]);
    n = mine ? n : 0;
    Ref<T> A = {nullptr, 0, 0, !a.A.trans}, B = {nullptr, 0, 0, !a.B.trans};
    int m = 0;
    if (n) {
        int full = dim_full(a.n, b);
        A = resolve(a.A, b, full, full);
        if (WITH_B) {
            m = dim_part(a.m, b);
            B = resolve(a.B, b, full, dim_full(a.m, b));
        }
    }
    tile_stage<T, G, LD, true, ZERO>(sA, A, A.p, n, n, a.unit, l);
    const bool few = WITH_B && !(OP & MULTIPLY) && a.m.n <= FEW;
    T v[FEW] = {};
    if (WITH_B && few) {
        for (int c = 0; c < FEW; c++)
            if (l < n && c < m)
                v[c] = *B.at(l, c);
    } else if (WITH_B) {
        tile_stage<T, G, LD, false, false>(sB, B, B.p, n, m, false, l);
    }
    stage_commit();
    stage_wait<0>();
    __syncwarp();

    int fail = 0;
    if (OP & FACTOR) {
        if (l >= n)
            sA[l * LD + l] = T(1);
        __syncwarp();
        if constexpr (G == 32)
            block_factor<T, LD>(sA, inv, l);
        else
            factor_columns<T, G, G, LD>(sA, inv, 0, l);
        __syncwarp();
        fail = first_lane<G>(!inverse_ok(inv[l]), g);
    } else {
        fail = diagonal_prepare<T, G>(sA, inv, n, a.unit, g, l);
    }
    __syncwarp();
    if (OP & (INVERT | SQUARE))
        triangle_run<T, G, OP>(sA, inv, l);
    if (CHANGES_A)
        tile_write<T, G, LD, true>(sA, A, A.p, n, n, a.unit, l);
    const bool keep = !(OP & FACTOR) || !fail;
    if (WITH_B && few)
        vectors_run<T, G, OP>(a, B, v, sA, inv, n, m, keep, l);
    else if (WITH_B)
        columns_run<T, G, OP>(a, B, sA, inv, sB, n, m, keep, l);
    if ((OP & (FACTOR | INVERT)) && mine && l == 0)
        info_write(a.info, a.info_base, b, dim_valid(a.n, b) ? fail : -1);
}

/* Column l of C += A A^T for G columns of A. */
template <class T, int G> __device__ inline void rank_update(T *c, const T *sA, int l) {
    constexpr int LD = WarpTile<T, G>::LD, V = 16 / sizeof(T);
#pragma unroll 4
    for (int q = 0; q < G; q++) {
        T x = sA[q * LD + l];
#pragma unroll
        for (int v = 0; v < G; v += V) {
            alignas(16) T w[V];
            vec_load(w, sA + q * LD + v);
#pragma unroll
            for (int e = 0; e < V; e++)
                c[v + e] += w[e] * x;
        }
    }
}

/* C := beta C + alpha A A^T, lower: A comes in chunks of G columns. */
template <int G> constexpr int SYRK_WARPS = G == 32 ? 1 : WARPS;
template <class T, int G>
__global__ void __launch_bounds__(SYRK_WARPS<G> * 32,
                                  warp_blocks<T, G>(true) * WARPS / SYRK_WARPS<G>)
    syrk_kernel(const __grid_constant__ GemmArgs<T> a) {
    extern __shared__ __align__(16) unsigned char shared[];
    constexpr int SIZE = WarpTile<T, G>::SIZE, LD = WarpTile<T, G>::LD;
    const int slot = threadIdx.x / G, l = threadIdx.x % G;
    const int64_t b = (int64_t)blockIdx.x * (SYRK_WARPS<G> * 32 / G) + slot;
    T *sA = (T *)shared + slot * (2 * SIZE + G), *sC = sA + SIZE;

    prefetch_operand<T, G>(a.A, a.m, a.k, b, a.count, l, G);
    wait_for_predecessor();
    int n = b < a.count ? dim_part(a.m, b) : 0;
    n = n > G || (n && (!dim_valid(a.k, b) || (a.skip && a.skip[b]))) ? 0 : n;
    int k = 0;
    Ref<T> A = {nullptr, 0, 0, !a.A.trans}, C = {nullptr, 0, 0, !a.C.trans};
    if (n) {
        k = dim_part(a.k, b);
        A = resolve(a.A, b, dim_full(a.m, b), dim_full(a.k, b));
        C = resolve(a.C, b, dim_full(a.m, b), dim_full(a.m, b));
    }
    if (a.beta != T(0))
        tile_stage<T, G, LD, true, false>(sC, C, C.p, n, n, false, l);
    Acc<T> acc;
    alignas(16) T c[G];
    acc_zero(acc);
#pragma unroll
    for (int i = 0; i < G; i++)
        c[i] = T(0);
    const int k_all = (int)a.k.n < a.k.cap ? (int)a.k.n : a.k.cap;
    for (int k0 = 0; k0 < k_all; k0 += G) {
        tile_stage<T, G, LD, false, false>(sA, A, A.at(0, k0), n, k - k0, false, l);
        stage_commit();
        stage_wait<0>();
        __syncwarp();
        if constexpr (TENSOR<T, G>)
            acc.template mma_part<LOWER_ONLY>(sA, 1, LD, sA, LD, 1, l);
        else
            rank_update<T, G>(c, sA, l);
        __syncwarp();
    }
    stage_wait<0>();
    __syncwarp();
    if constexpr (TENSOR<T, G>) {
#pragma unroll
        for (int e = 0; e < 32; e++) {
            T *p = sC + acc.col(e, l) * LD + acc.row(e, l);
            *p = a.alpha * acc.v[e] + (a.beta != T(0) ? a.beta * *p : T(0));
        }
    } else {
#pragma unroll
        for (int i = 0; i < G; i++)
            c[i] = a.alpha * c[i] + (a.beta != T(0) ? a.beta * sC[l * LD + i] : T(0));
        __syncwarp();
        column_store<T, G>(sC + l * LD, c);
    }
    __syncwarp();
    tile_write<T, G, LD, true>(sC, C, C.p, n, n, false, l);
}

template <class T, int G, int OP> status warp_start(const Args<T> &a, cudaStream_t s) {
    constexpr bool WITH_B = (OP & (FORWARD | BACKWARD | MULTIPLY)) != 0;
    constexpr size_t bytes = warp_shared<T, G>(WITH_B);
    const int64_t per = WARPS * 32 / G;
    return launch(warp_kernel<T, G, OP>, dim3((unsigned)((a.count + per - 1) / per)), WARPS * 32,
                  bytes, s, a, G < 32 ? resident(warp_blocks<T, G>(WITH_B)) : INT32_MAX);
}

template <class T, int OP> status warp_pick(const Args<T> &a, int n_max, cudaStream_t s) {
    return n_max <= 8    ? warp_start<T, 8, OP>(a, s)
           : n_max <= 16 ? warp_start<T, 16, OP>(a, s)
                         : warp_start<T, 32, OP>(a, s);
}

template <class T, int G> status syrk_start(const GemmArgs<T> &a, cudaStream_t s) {
    constexpr int64_t per = SYRK_WARPS<G> * 32 / G;
    return launch(syrk_kernel<T, G>, dim3((unsigned)((a.count + per - 1) / per)),
                  32 * SYRK_WARPS<G>, warp_shared<T, G>(true) * SYRK_WARPS<G> / WARPS, s, a);
}

} // namespace batch
#endif
