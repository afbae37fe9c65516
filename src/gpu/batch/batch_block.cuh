/* Batched kernels for orders 33 to 128: one thread block a matrix. The lower triangle lies in
 * shared memory as 32 x 32 blocks; diagonal blocks are worked on by one warp in registers, the
 * blocks below them by products of blocks (FP64 tensor cores), each warp holding one 32 x 32
 * accumulator. */
#ifndef MOAO_GPU_BATCH_BLOCK_CUH
#define MOAO_GPU_BATCH_BLOCK_CUH
#include "batch_warp.cuh"

namespace batch {

/* Leading dimension of a 32 x 32 block. FP64: with 34 one block more fits an SM than with 36, where
 * the fragments of the tensor cores would meet no bank twice; measured, the former wins. */
template <class T> constexpr int BLD = sizeof(T) == 8 ? 34 : 36;
template <class T> constexpr int BSIZE = 32 * BLD<T>;
__host__ __device__ constexpr int triangle_blocks(int nb) {
    return nb * (nb + 1) / 2;
}
/* FP64 solves of order 33 to 64: diagonal blocks without the part above the diagonal, so that four
 * thread blocks fit an SM. */
template <class T, int OP>
constexpr bool SMALL_DIAGONAL = sizeof(T) == 8 && (OP & ~(FORWARD | BACKWARD)) == 0;
template <class T, int OP> __host__ __device__ constexpr int triangle_size(int nb) {
    return SMALL_DIAGONAL<T, OP> ? BSIZE<T> * triangle_blocks(nb - 1) + Compact::SIZE * nb
                                 : BSIZE<T> * triangle_blocks(nb);
}
template <class T, int OP> constexpr size_t block_shared(int nb, int warps, int b_blocks) {
    return sizeof(T) * (size_t)(triangle_size<T, OP>(nb) + BSIZE<T> * b_blocks * warps + 32 * nb) +
           (SMALL_DIAGONAL<T, OP> && nb > 1 ? 0 : 16);
}

/* The triangle in shared memory, as seen by one warp. */
template <class T> struct Tiles {
    T *s, *inv, *diagonal; /* diagonal: of small diagonal blocks */
    int nb, warp, warps, lane;
    int first, step; /* columns of B: this warp's first chunk, and from one to its next */
    __device__ T *at(int i, int j) const {
        return s + (i * (i + 1) / 2 + j) * BSIZE<T>;
    }
    /* the blocks of a solve */
    template <bool SMALL> __device__ T *below(int i, int j) const {
        return SMALL ? s + (i * (i - 1) / 2 + j) * BSIZE<T> : at(i, j);
    }
    template <bool SMALL> __device__ T *on(int i) const {
        return SMALL ? diagonal + i * Compact::SIZE : at(i, i);
    }
    template <bool SMALL> __device__ T *element_on(int i) const {
        return SMALL ? on<true>(i / 32) + i % 32 / 16 * Compact::SECOND + i % 16 * (Compact::LD + 1)
                     : at(i / 32, i / 32) + i % 32 * (BLD<T> + 1);
    }
};
template <class T, bool SMALL> struct Layout { typedef InBlock<BLD<T>> type; };
template <class T> struct Layout<T, true> { typedef Compact type; };

template <class T> __device__ inline void acc_load(Acc<T> &c, const T *s, int lane) {
#pragma unroll
    for (int e = 0; e < 32; e++)
        c.v[e] = s[c.col(e, lane) * BLD<T> + c.row(e, lane)];
}
template <class T> __device__ inline void acc_store(T *s, const Acc<T> &c, int lane) {
#pragma unroll
    for (int e = 0; e < 32; e++)
        s[c.col(e, lane) * BLD<T> + c.row(e, lane)] = c.v[e];
}
/* c += A B, A^T B and A B^T of blocks. */
template <bool NEG = false, class T>
__device__ inline void mult_nn(Acc<T> &c, const T *A, const T *B, int lane) {
    c.template mma<NEG>(A, 1, BLD<T>, B, 1, BLD<T>, 32, lane);
}
template <bool NEG = false, class T>
__device__ inline void mult_tn(Acc<T> &c, const T *A, const T *B, int lane) {
    c.template mma<NEG>(A, BLD<T>, 1, B, 1, BLD<T>, 32, lane);
}
template <bool NEG = false, class T>
__device__ inline void mult_nt(Acc<T> &c, const T *A, const T *B, int lane) {
    c.template mma<NEG>(A, 1, BLD<T>, B, BLD<T>, 1, 32, lane);
}

/* All blocks of the triangle, dealt to the warps. */
template <class T, class F> __device__ inline void for_tiles(const Tiles<T> &t, F f) {
    int q = 0;
    for (int i = 0; i < t.nb; i++)
        for (int j = 0; j <= i; j++, q++)
            if (q % t.warps == t.warp)
                f(i, j);
}

/* A = L L^T, block column by block column. Returns the first minor that is not positive, 0 if none.
 */
template <class T> __device__ inline int factor_tiles(const Tiles<T> &t, int *flag) {
    for (int k = 0; k < t.nb; k++) {
        if (t.warp == 0) {
            block_factor<T, BLD<T>>(t.at(k, k), t.inv + 32 * k, t.lane);
            int fail = first_lane<32>(!inverse_ok(t.inv[32 * k + t.lane]), 0);
            if (t.lane == 0)
                *flag = fail ? 32 * k + fail : 0;
        }
        __syncthreads();
        if (*flag)
            return *flag;
        for (int i = k + 1 + t.warp; i < t.nb; i += t.warps)
            block_forward_rows<T, BLD<T>>(t.at(i, k), t.at(k, k), t.inv + 32 * k, t.lane);
        __syncthreads();
        int q = 0;
        for (int i = k + 1; i < t.nb; i++)
            for (int j = k + 1; j <= i; j++, q++)
                if (q % t.warps == t.warp) {
                    Acc<T> c;
                    acc_load(c, t.at(i, j), t.lane);
                    mult_nt<true>(c, t.at(i, k), t.at(j, k), t.lane);
                    acc_store(t.at(i, j), c, t.lane);
                }
        __syncthreads();
    }
    return 0;
}

/* L := L^-1: diagonal blocks first, then row by row X_ij = -X_ii sum_{j<=k<i} L_ik X_kj. */
template <class T> __device__ inline void invert_tiles(const Tiles<T> &t) {
    for (int i = t.warp; i < t.nb; i += t.warps)
        block_invert<T, BLD<T>>(t.at(i, i), t.inv + 32 * i, t.lane);
    __syncthreads();
    for (int i = 1; i < t.nb; i++) {
        const int j = t.warp; /* at least as many warps as blocks in a row */
        Acc<T> c;
        acc_zero(c);
        if (j < i)
            for (int k = j; k < i; k++)
                mult_nn(c, t.at(i, k), t.at(k, j), t.lane);
        __syncthreads();
        if (j < i) {
            acc_store(t.at(i, j), c, t.lane);
            __syncwarp();
            acc_zero(c);
            mult_nn<true>(c, t.at(i, i), t.at(i, j), t.lane);
            __syncwarp();
            acc_store(t.at(i, j), c, t.lane);
        }
        __syncthreads();
    }
}

/* L := lower triangle of L^T L; the upper part of the diagonal blocks must be zero. */
template <class T> __device__ inline void square_tiles(const Tiles<T> &t) {
    for (int i = 0; i < t.nb; i++) {
        const int j = t.warp;
        Acc<T> c;
        acc_zero(c);
        if (j <= i)
            for (int k = i; k < t.nb; k++)
                if (k == i && j == i)
                    c.template mma_part<SQUARED>(t.at(i, i), BLD<T>, 1, t.at(i, i), 1, BLD<T>,
                                                 t.lane);
                else
                    mult_tn(c, t.at(k, i), t.at(k, j), t.lane);
        __syncthreads();
        if (j <= i)
            acc_store(t.at(i, j), c, t.lane);
    }
    __syncthreads();
}

/* A chunk of 32 columns of B, blocks b + i BSIZE<T>, by one warp. */
template <class T, bool SMALL> __device__ inline void chunk_forward(const Tiles<T> &t, T *b) {
    for (int i = 0; i < t.nb; i++) {
        T *s = b + i * BSIZE<T>;
        if (i) {
            Acc<T> c;
            acc_load(c, s, t.lane);
            for (int k = 0; k < i; k++)
                mult_nn<true>(c, t.template below<SMALL>(i, k), b + k * BSIZE<T>, t.lane);
            acc_store(s, c, t.lane);
            __syncwarp();
        }
        block_forward<T, BLD<T>, typename Layout<T, SMALL>::type>(s, t.template on<SMALL>(i),
                                                                  t.inv + 32 * i, t.lane);
    }
}
template <class T, bool SMALL> __device__ inline void chunk_backward(const Tiles<T> &t, T *b) {
    for (int i = t.nb - 1; i >= 0; i--) {
        T *s = b + i * BSIZE<T>;
        if (i < t.nb - 1) {
            Acc<T> c;
            acc_load(c, s, t.lane);
            for (int k = i + 1; k < t.nb; k++)
                mult_tn<true>(c, t.template below<SMALL>(k, i), b + k * BSIZE<T>, t.lane);
            acc_store(s, c, t.lane);
            __syncwarp();
        }
        block_backward<T, BLD<T>, typename Layout<T, SMALL>::type>(s, t.template on<SMALL>(i),
                                                                   t.inv + 32 * i, t.lane);
    }
}
template <class T> __device__ inline void chunk_multiply(const Tiles<T> &t, T *b) {
    for (int i = t.nb - 1; i >= 0; i--) {
        Acc<T> c;
        acc_zero(c);
        c.template mma_part<LEFT_LOWER>(t.at(i, i), 1, BLD<T>, b + i * BSIZE<T>, 1, BLD<T>, t.lane);
        for (int k = 0; k < i; k++)
            mult_nn(c, t.at(i, k), b + k * BSIZE<T>, t.lane);
        __syncwarp();
        acc_store(b + i * BSIZE<T>, c, t.lane);
        __syncwarp();
    }
}

template <class T, int OP>
__device__ inline void chunks_run(const Tiles<T> &t, const Args<T> &a, const Ref<T> &B, T *b, int n,
                                  int m) {
    for (int c0 = t.first; c0 < m; c0 += t.step) {
        if (c0 != t.first) {
            for (int i = 0; i < t.nb; i++)
                tile_stage<T, 32, BLD<T>, false, false>(b + i * BSIZE<T>, B, B.at(32 * i, c0),
                                                        n - 32 * i, m - c0, false, t.lane);
            stage_commit();
            stage_wait<0>();
            __syncwarp();
        }
        if (a.alpha != T(1)) {
            for (int i = 0; i < t.nb; i++)
                for (int c = 0; c < 32; c++)
                    b[i * BSIZE<T> + c * BLD<T> + t.lane] *= a.alpha;
            __syncwarp();
        }
        if (OP & FORWARD)
            chunk_forward<T, SMALL_DIAGONAL<T, OP>>(t, b);
        if (OP & BACKWARD)
            chunk_backward<T, SMALL_DIAGONAL<T, OP>>(t, b);
        if (OP & MULTIPLY)
            chunk_multiply(t, b);
        for (int i = 0; i < t.nb; i++)
            tile_write<T, 32, BLD<T>, false>(b + i * BSIZE<T>, B, B.at(32 * i, c0), n - 32 * i,
                                             m - c0, false, t.lane);
        __syncwarp();
    }
}

/* Ones on the padded or unit diagonal, reciprocals to inv; returns the first zero or NaN, 0 if
 * none. */
template <class T, bool SMALL>
__device__ inline int diagonal_tiles(const Tiles<T> &t, int n, bool unit, bool factor, int *flag) {
    if (threadIdx.x == 0)
        *flag = 1 << 30;
    __syncthreads();
    for (int i = threadIdx.x; i < 32 * t.nb; i += blockDim.x) {
        T *d = t.template element_on<SMALL>(i);
        if (unit || i >= n)
            *d = T(1);
        if (!factor) {
            t.inv[i] = T(1) / *d;
            if (!(*d > T(0)) && !(*d < T(0)))
                atomicMin(flag, i + 1);
        }
    }
    __syncthreads();
    int fail = *flag == 1 << 30 ? 0 : *flag;
    __syncthreads();
    return fail;
}

/* A triangle of order 33 to 64 to shared memory with small diagonal blocks: half a warp for each of
 * the triangles and squares of order 16 on the diagonal. */
template <class T>
__device__ inline void small_tiles_stage(const Tiles<T> &t, const Ref<T> &A, int n, bool unit) {
    const int h = t.lane / 16, l = t.lane % 16;
    if (t.warp == t.warps - 1)
        tile_stage<T, 32, BLD<T>, false, false>(t.template below<true>(1, 0), A, A.at(32, 0),
                                                n - 32, 32, false, t.lane);
    if (t.warp)
        return;
    for (int i = 0; i < 2; i++) {
        const int k = 32 * i + 16 * h;
        tile_stage<T, 16, Compact::LD, true, false>(t.template on<true>(i) + h * Compact::SECOND, A,
                                                    A.at(k, k), n - k, n - k, unit, l);
    }
    const int k = 32 * h;
    tile_stage<T, 16, Compact::SQUARE_LD, false, false>(
        t.template on<true>(h) + Compact::BELOW, A, A.at(k + 16, k), n - k - 16, n - k, false, l);
}

/* nb: most blocks a side, warps >= nb unless there is only B to work on. */
template <class T, int OP>
__global__ void __launch_bounds__((OP & (FORWARD | BACKWARD | MULTIPLY)) ? 64 : 128, 4)
    block_kernel(const __grid_constant__ Args<T> a, int nb_max, int panels) {
    extern __shared__ __align__(16) unsigned char shared[];
    constexpr bool WITH_B = (OP & (FORWARD | BACKWARD | MULTIPLY)) != 0;
    constexpr bool CHANGES_A = (OP & (FACTOR | INVERT | SQUARE)) != 0;
    const int64_t b = blockIdx.x / panels;
    const int panel = (int)(blockIdx.x % panels);
    if (panel == 0)
        prefetch_triangle<T, 128>(a, b, threadIdx.x, blockDim.x);
    if (WITH_B && nb_max <= 2)
        prefetch_operand<T, 64>(a.B, a.n, a.m, b, a.count, threadIdx.x, blockDim.x);
    wait_for_predecessor();
    const int n = dim_part(a.n, b);
    /* solves after a factor: whether it failed is known when the data are in transit already */
    constexpr bool LATER = SMALL_DIAGONAL<T, OP>;
    const bool skipped = a.skip && a.skip[b];
    if (n <= a.lo || n > 32 * nb_max || (!LATER && skipped))
        return;
    const int full = dim_full(a.n, b);
    const Ref<T> A = resolve(a.A, b, full, full);
    Tiles<T> t = {};
    t.s = (T *)shared;
    t.nb = (n + 31) / 32;
    t.warp = (int)threadIdx.x / 32, t.warps = (int)blockDim.x / 32, t.lane = (int)threadIdx.x % 32;
    t.first = 32 * (panel * t.warps + t.warp), t.step = 32 * t.warps * panels;
    t.diagonal = t.s + BSIZE<T> * triangle_blocks(nb_max - 1);
    t.inv = t.s + triangle_size<T, OP>(nb_max);
    T *sB = t.inv + 32 * nb_max;
    int *flag = (int *)(sB + (WITH_B ? t.warps * nb_max * BSIZE<T> : 0));
    if (SMALL_DIAGONAL<T, OP> && nb_max > 1)
        flag = (int *)(t.s + 32); /* below a block's first column */
    sB += t.warp * nb_max * BSIZE<T>;

    if constexpr (SMALL_DIAGONAL<T, OP>)
        small_tiles_stage(t, A, n, a.unit);
    else
        for_tiles(t, [&](int i, int j) {
            const T *first = A.at(32 * i, 32 * j);
            if (i == j)
                tile_stage<T, 32, BLD<T>, true, OP == SQUARE || OP == MULTIPLY>(
                    t.at(i, i), A, first, n - 32 * i, n - 32 * i, a.unit, t.lane);
            else
                tile_stage<T, 32, BLD<T>, false, false>(t.at(i, j), A, first, n - 32 * i,
                                                        n - 32 * j, false, t.lane);
        });
    int m = 0;
    Ref<T> B = {};
    if (WITH_B) {
        m = dim_part(a.m, b);
        B = resolve(a.B, b, full, dim_full(a.m, b));
        if (t.first < m)
            for (int i = 0; i < t.nb; i++)
                tile_stage<T, 32, BLD<T>, false, false>(sB + i * BSIZE<T>, B, B.at(32 * i, t.first),
                                                        n - 32 * i, m - t.first, false, t.lane);
    }
    stage_commit();
    stage_wait<0>();
    if (LATER && skipped)
        return;
    __syncthreads();

    int fail = diagonal_tiles<T, SMALL_DIAGONAL<T, OP>>(t, n, a.unit, (OP & FACTOR) != 0, flag);
    if (OP & FACTOR)
        fail = factor_tiles(t, flag);
    if ((OP & INVERT) && !fail)
        invert_tiles(t);
    if ((OP & SQUARE) && !fail)
        square_tiles(t);
    if (CHANGES_A && !fail)
        for_tiles(t, [&](int i, int j) {
            T *first = A.at(32 * i, 32 * j);
            if (i == j)
                tile_write<T, 32, BLD<T>, true>(t.at(i, i), A, first, n - 32 * i, n - 32 * i,
                                                a.unit, t.lane);
            else
                tile_write<T, 32, BLD<T>, false>(t.at(i, j), A, first, n - 32 * i, n - 32 * j,
                                                 false, t.lane);
        });
    if (WITH_B)
        chunks_run<T, OP>(t, a, B, sB, n, m);
    if ((OP & (FACTOR | INVERT)) && threadIdx.x == 0)
        info_write(a.info, a.info_base, b, fail);
}

template <class T, int OP> status block_start(const Args<T> &a, int n_max, cudaStream_t s) {
    constexpr bool WITH_B = (OP & (FORWARD | BACKWARD | MULTIPLY)) != 0;
    constexpr bool CHANGES_A = (OP & (FACTOR | INVERT | SQUARE)) != 0;
    const int nb = (n_max + 31) / 32;
    int64_t m = a.m.n < a.m.cap ? a.m.n : a.m.cap;
    int warps = CHANGES_A ? nb : 1;
    if (WITH_B && (m + 31) / 32 > warps)
        warps = (m + 31) / 32 < nb ? (int)((m + 31) / 32) : nb;
    /* without work on A, every 32 * warps columns get a block of their own */
    int64_t panels = WITH_B && !CHANGES_A ? (m + 32 * warps - 1) / (32 * warps) : 1;
    if (a.count * panels > INT32_MAX)
        panels = 1;
    const size_t bytes = block_shared<T, OP>(nb, warps, WITH_B ? nb : 0);
    return launch(block_kernel<T, OP>, dim3((unsigned)(a.count * panels)), 32 * warps, bytes, s, a,
                  nb, (int)panels);
}

} // namespace batch
#endif
