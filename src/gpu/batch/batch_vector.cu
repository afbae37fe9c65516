/* Batched solves with one or two right-hand sides, orders 33 to 256: what counts is to read the
 * triangle at the speed of the memory. Warp w of a block works on rows 32 w to 32 w + 31; a 32 x 32
 * block below the diagonal goes straight to registers, one line a lane in the direction in which it
 * is adjacent in memory, and is read once for each direction of the solve (the second time from the
 * L2 cache, or from shared memory as far as there is room); the diagonal blocks stay in shared
 * memory. */
#include "batch_device.cuh"

namespace batch {

namespace {

constexpr int FEW = 2, DLD = 33,
              DSIZE = 32 * DLD; /* a diagonal block: both ways without conflicts */

/* Lane l's line of a block: elements (l, u) if it is adjacent along i, else (u, l); outside 0. */
template <class T>
__device__ inline void line_load(T *r, const Ref<T> &a, int i0, int j0, int rows, int l) {
    const T *p = a.along_i ? a.at(i0 + l, j0) : a.at(i0, j0 + l);
    int64_t step = a.along_i ? a.sj : a.si;
    asm volatile("" : "+l"(p), "+l"(step)); /* else 32 addresses are kept ready */
    if (rows >= 32) {
#pragma unroll
        for (int u = 0; u < 32; u++, p += step)
            r[u] = *p;
    } else {
#pragma unroll
        for (int u = 0; u < 32; u++, p += step)
            r[u] = (a.along_i ? l : u) < rows ? *p : T(0);
    }
}

/* sum over u of r[u] x[u], x in shared memory */
template <class T> __device__ inline T line_dot(const T *r, const T *x) {
    T s[4] = {};
#pragma unroll
    for (int u = 0; u < 32; u++)
        s[u & 3] += r[u] * x[u];
    return (s[0] + s[1]) + (s[2] + s[3]);
}

/* Lane u: the sum over the lanes of r[u] x. Halves are exchanged until one element a lane is left.
 */
template <class T> __device__ inline T line_sum(const T *r, T x, int l) {
    T p[16];
#pragma unroll
    for (int u = 0; u < 16; u++) {
        T give = (l & 16 ? r[u] : r[u + 16]) * x, keep = (l & 16 ? r[u + 16] : r[u]) * x;
        p[u] = keep + __shfl_xor_sync(0xffffffffu, give, 16);
    }
#pragma unroll
    for (int k = 3; k >= 0; k--)
#pragma unroll
        for (int u = 0; u < 8; u++) /* a constant bound, else p would not stay in registers */
            if (u < 1 << k) {
                const int s = 1 << k;
                T give = l & s ? p[u] : p[u + s], keep = l & s ? p[u + s] : p[u];
                p[u] = keep + __shfl_xor_sync(0xffffffffu, give, s);
            }
    return p[0];
}

/* Solves with the diagonal block D (zero above the diagonal) or its transpose; c: right-hand sides,
 * entry l in lane l. Lines are scaled by the reciprocal of the diagonal, so that a step is one
 * shuffle and one fused multiply-add. */
template <class T, int M, bool TRANS>
__device__ inline void diagonal_solve(T *c, const T *D, T inv, int l) {
#pragma unroll
    for (int k = 0; k < M; k++)
        c[k] *= inv;
#pragma unroll 1
    for (int h = 0; h < 32; h += 8) {
        T r[8];
#pragma unroll
        for (int q = 0; q < 8; q++) {
            const int j = TRANS ? 31 - h - q : h + q;
            r[q] = j == l ? T(0) : inv * (TRANS ? D[l * DLD + j] : D[j * DLD + l]);
        }
#pragma unroll
        for (int q = 0; q < 8; q++)
#pragma unroll
            for (int k = 0; k < M; k++)
                c[k] -= r[q] * __shfl_sync(0xffffffffu, c[k], TRANS ? 31 - h - q : h + q);
    }
}

/* One matrix, as seen by one warp; v: the right-hand sides, 32 nb entries each. */
template <class T> struct Vectors {
    Ref<T> A;
    T *v, *diag;
    int n, nb, warp, lane;
};

template <class T, int M, bool TRANS>
__device__ inline void block_solve(const Vectors<T> &t, int i) {
    const T *D = t.diag + i * DSIZE;
    T *x = t.v + 32 * i + t.lane, c[M];
    const T inv = T(1) / D[t.lane * (DLD + 1)];
#pragma unroll
    for (int k = 0; k < M; k++)
        c[k] = x[k * 32 * t.nb];
    diagonal_solve<T, M, TRANS>(c, D, inv, t.lane);
#pragma unroll
    for (int k = 0; k < M; k++)
        x[k * 32 * t.nb] = c[k];
}

/* v_to -= block(i, j) v_from, or with its transpose; `lines`: to is the direction of the lanes. */
template <class T, int M>
__device__ inline void block_apply(const Vectors<T> &t, const T *r, int to, int from, bool lines) {
#pragma unroll
    for (int k = 0; k < M; k++) {
        T *v = t.v + k * 32 * t.nb;
        v[32 * to + t.lane] -=
            lines ? line_dot(r, v + 32 * from) : line_sum(r, v[32 * from + t.lane], t.lane);
    }
}

/* All block rows in the order of the solve: warp j solves with the diagonal block while the others'
 * blocks are in transit. Only warp i changes entries of block row i. */
template <class T, int M, bool TRANS> __device__ inline void solve_all(const Vectors<T> &t) {
    const int i = t.warp;
    for (int q = 0; q < t.nb; q++) {
        const int j = TRANS ? t.nb - 1 - q : q;
        const bool later = TRANS ? i < j : i > j && i < t.nb;
        T r[32];
        if (i == j)
            block_solve<T, M, TRANS>(t, j);
        else if (later)
            line_load(r, t.A, 32 * (TRANS ? j : i), 32 * (TRANS ? i : j),
                      t.n - 32 * (TRANS ? j : i), t.lane);
        __syncthreads();
        if (later)
            block_apply<T, M>(t, r, i, j, t.A.along_i != TRANS);
        __syncwarp();
    }
}

template <class T, int M>
__global__ void __launch_bounds__(256, 2)
    vector_kernel(const __grid_constant__ Args<T> a, int op, int nb_max) {
    extern __shared__ __align__(16) unsigned char shared[];
    const int64_t b = blockIdx.x;
    wait_for_predecessor();
    const int n = dim_part(a.n, b), m = dim_part(a.m, b);
    if (n <= a.lo || n > 32 * nb_max || m == 0 || (a.skip && a.skip[b]))
        return;
    const int full = dim_full(a.n, b);
    Vectors<T> t;
    t.A = resolve(a.A, b, full, full);
    t.n = n, t.nb = (n + 31) / 32;
    t.warp = (int)threadIdx.x / 32, t.lane = (int)threadIdx.x % 32;
    t.diag = (T *)shared;
    t.v = t.diag + nb_max * DSIZE;
    const int w = t.warp;
    if (w < t.nb)
        tile_stage<T, 32, DLD, true, true>(t.diag + w * DSIZE, t.A, t.A.at(32 * w, 32 * w),
                                           n - 32 * w, n - 32 * w, a.unit, t.lane);
    stage_commit();
    const Ref<T> B = resolve(a.B, b, full, dim_full(a.m, b));
    for (int i = threadIdx.x; i < M * 32 * t.nb; i += blockDim.x) {
        const int r = i % (32 * t.nb), c = i / (32 * t.nb);
        t.v[i] = r < n && c < m ? a.alpha * *B.at(r, c) : T(0);
    }
    stage_wait<0>();
    __syncwarp();
    if (w < t.nb && (a.unit || 32 * w + t.lane >= n))
        t.diag[w * DSIZE + t.lane * (DLD + 1)] = T(1);
    __syncthreads();
    if (op & FORWARD)
        solve_all<T, M, false>(t);
    if (op & BACKWARD)
        solve_all<T, M, true>(t);
    __syncthreads();
    for (int i = threadIdx.x; i < M * 32 * t.nb; i += blockDim.x) {
        const int r = i % (32 * t.nb), c = i / (32 * t.nb);
        if (r < n && c < m)
            *B.at(r, c) = t.v[i];
    }
}

template <class T, int M> status vector_start(int op, const Args<T> &a, int n_max, cudaStream_t s) {
    const int nb = (n_max + 31) / 32;
    const size_t bytes = sizeof(T) * (size_t)nb * (DSIZE + M * 32);
    const dim3 grid((unsigned)a.count);
    return launch(vector_kernel<T, M>, grid, 32 * nb, bytes, s, a, op, nb);
}

template <class T> status vector_pick(int op, const Args<T> &a, int n_max, cudaStream_t s) {
    return a.m.n == 1 ? vector_start<T, 1>(op, a, n_max, s) : vector_start<T, FEW>(op, a, n_max, s);
}
} // namespace

template <> status launch_vector<double>(int op, const Args<double> &a, int n_max, cudaStream_t s) {
    return vector_pick(op, a, n_max, s);
}
template <> status launch_vector<float>(int op, const Args<float> &a, int n_max, cudaStream_t s) {
    return vector_pick(op, a, n_max, s);
}

} // namespace batch
