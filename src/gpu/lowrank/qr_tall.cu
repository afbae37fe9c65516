/* Batched QR: warps for matrices of up to 32 rows and columns (qr_warp.cu), else one thread block a
 * matrix. Where the matrix fits in shared memory it is staged there,
 * else it is worked on where it lies. Tall ones of well-conditioned columns go by their Gram matrix
 * (qr_gram_kernel.cuh). Columns whose squares would leave the range are scaled by
 * powers of two on the way in, and R on the way out. */
#include "gpu/batch/batch_gpu.h"
#include "lowrank_gpu.h"
#include "qr_warp.cuh"

namespace lowrank {

namespace {

template <class T> struct QrArgs {
    Mat<T> A, other, tau; /* other: R of qr, C of ormqr */
    Dim m, n, k;          /* A is m x n (ormqr: C is, and A has m or n rows and k columns) */
    bool left, trans;     /* ormqr */
    int ld;               /* leading dimension in shared memory, 0: A stays where it is */
    int panel;            /* then: rows of a panel in shared memory */
    int k_max;
    int *info;
    bool pending; /* only matrices that qr_pending */
};

template <class T> __device__ inline bool is_finite(T x) {
    return fabs(x) <= Squares<T>::TOP; /* false for NaN */
}
template <class T> __device__ inline T warp_max(T x) {
#pragma unroll
    for (int d = 16; d; d >>= 1)
        x = fmax(x, __shfl_xor_sync(0xffffffffu, x, d));
    return x;
}

/* Brings in column j (a global, w where it is worked on), by one warp. Returns whether it is
 * finite; *e: it was multiplied by 2^-e. */
template <class T>
__device__ inline bool column_load(T *w, const T *a, int m, bool pivot, int *e, int lane) {
    T s = T(0), top = T(0);
    bool fine = true;
    for (int i = lane; i < m; i += 32) {
        const T x = a[i];
        s += x * x;
        fine = fine && is_finite(x);
        if (w != a)
            w[i] = x;
    }
    *e = 0;
    s = warp_sum(s);
    if (!__all_sync(0xffffffffu, fine))
        return false;
    if (!pivot || (s >= Squares<T>::LO && s <= Squares<T>::HI))
        return true;
    for (int i = lane; i < m; i += 32)
        top = fmax(top, fabs(a[i]));
    top = warp_max(top);
    if (top > T(0)) {
        *e = ilogb(top);
        for (int i = lane; i < m; i += 32)
            w[i] = scalbn(a[i], -*e);
    }
    return true;
}

/* The block's shared memory, in this order. */
template <class T> struct QrShared {
    Block g;
    T *tau, *flip, *W;
    int *scale, *flag;
};
template <class T> size_t qr_shared_bytes(int warps, int k) {
    return sizeof(double) * block_scratch(warps) +
           (2 * sizeof(T) + sizeof(int)) * ((k + 3) / 4 * 4) + 16;
}
template <class T> __device__ inline QrShared<T> qr_shared(unsigned char *shared, int k) {
    QrShared<T> s;
    const int room = (k + 3) / 4 * 4;
    s.g = block_place((double *)shared);
    s.flag = (int *)((double *)shared + block_scratch(s.g.warps));
    s.tau = (T *)(s.flag + 4);
    s.flip = s.tau + room;
    s.scale = (int *)(s.flip + room);
    s.W = (T *)(s.scale + room);
    return s;
}

/* Does every size fit its bound? */
template <class T> __device__ inline bool sizes_valid(const QrArgs<T> &a, int64_t b) {
    return dim_valid(a.m, b) && dim_valid(a.n, b) && dim_valid(a.k, b);
}

/* All columns of A to where they are worked on; the first one that is not finite, counted from 1.
 * flag[1]: some column was scaled. */
template <class T>
__device__ inline int columns_in(const QrShared<T> &s, const Ref<T> &A, T *W, int64_t ld, int m,
                                 int n, int k) {
    if (threadIdx.x == 0) {
        s.flag[0] = INT32_MAX;
        s.flag[1] = 0;
    }
    __syncthreads();
    for (int j = s.g.warp; j < n; j += s.g.warps) {
        int e;
        const bool fine = column_load(W + j * ld, A.at(0, j), m, j < k, &e, s.g.lane);
        if (s.g.lane)
            continue;
        if (!fine)
            atomicMin(s.flag, j + 1);
        if (e)
            s.flag[1] = 1;
        if (j < k)
            s.scale[j] = e;
    }
    __syncthreads();
    return s.flag[0] == INT32_MAX ? 0 : s.flag[0];
}
template <class T>
__device__ inline void columns_out(const QrShared<T> &s, const Ref<T> &A, const T *W, int64_t ld,
                                   int m, int n) {
    if (W == A.p)
        return;
    for (int j = s.g.warp; j < n; j += s.g.warps)
        for (int i = s.g.lane; i < m; i += 32)
            *A.at(i, j) = W[i + j * ld];
}

/* R (k x n) with a diagonal >= 0 and zeros below it; flip: the signs that make it so. */
template <class T>
__device__ inline void triangle_out(const QrShared<T> &s, const Ref<T> &R, const T *W, int64_t ld,
                                    int n, int k) {
    for (int i = (int)threadIdx.x; i < k; i += (int)blockDim.x)
        s.flip[i] = W[i + i * ld] < T(0) ? T(-1) : T(1);
    __syncthreads();
    for (int j = s.g.warp; j < n; j += s.g.warps)
        for (int i = s.g.lane; i < k; i += 32) {
            T x = i <= j ? s.flip[i] * W[i + j * ld] : T(0);
            if (s.flag[1] && j < k)
                x = scalbn(x, s.scale[j]);
            *R.at(i, j) = x;
        }
    __syncthreads();
}

template <class T>
__device__ inline void run_factor(int op, const QrArgs<T> &a, const QrShared<T> &s, int64_t b,
                                  int m, int n) {
    const int k = m < n ? m : n;
    if (a.pending && !qr_pending(op == GEQRF ? resolve(a.tau, b, k, 1) : resolve(a.other, b, k, n)))
        return;
    const Ref<T> A = resolve(a.A, b, m, n);
    T *W = a.ld ? s.W : A.p;
    const int64_t ld = a.ld ? a.ld : A.sj;
    const int bad = columns_in(s, A, W, ld, m, n, k);
    if (a.info && threadIdx.x == 0)
        a.info[b] = bad;
    if (bad)
        return;
    block_factor(W, ld, m, n, s.tau, s.g);
    if (op == GEQRF) {
        T *tau = resolve(a.tau, b, k, 1).p;
        for (int i = (int)threadIdx.x; i < k; i += (int)blockDim.x)
            tau[i] = s.tau[i];
        if (s.flag[1])
            for (int j = s.g.warp; j < k; j += s.g.warps)
                for (int i = s.g.lane; i <= j; i += 32)
                    W[i + j * ld] = scalbn(W[i + j * ld], s.scale[j]);
        __syncthreads();
        columns_out(s, A, W, ld, m, n);
        return;
    }
    triangle_out(s, resolve(a.other, b, k, n), W, ld, n, k);
    if (op == FULL_Q) {
        block_form(W, ld, m, k, k, s.tau, s.flip, s.g);
        columns_out(s, A, W, ld, m, k);
    }
}

/* Reflectors of A (rows x k) to where they are worked on, and tau. */
template <class T>
__device__ inline T *reflectors_in(const QrArgs<T> &a, const QrShared<T> &s, const Ref<T> &A,
                                   int64_t b, int rows, int k) {
    const T *tau = resolve(a.tau, b, k, 1).p;
    for (int i = (int)threadIdx.x; i < k; i += (int)blockDim.x)
        s.tau[i] = tau[i];
    if (a.ld)
        for (int j = s.g.warp; j < k; j += s.g.warps)
            for (int i = s.g.lane; i < rows; i += 32)
                s.W[i + j * (int64_t)a.ld] = *A.at(i, j);
    __syncthreads();
    return a.ld ? s.W : A.p;
}

template <class T>
__device__ inline void run_form(const QrArgs<T> &a, const QrShared<T> &s, int64_t b, int m, int n,
                                int k) {
    if (k > n || n > m)
        return;
    const Ref<T> A = resolve(a.A, b, m, n);
    T *W = reflectors_in(a, s, A, b, m, k);
    const int64_t ld = a.ld ? a.ld : A.sj;
    block_form(W, ld, m, n, k, s.tau, (const T *)nullptr, s.g);
    columns_out(s, A, W, ld, m, n);
}

template <class T>
__device__ inline void run_multiply(const QrArgs<T> &a, const QrShared<T> &s, int64_t b, int m,
                                    int n, int k) {
    const int order = a.left ? m : n, other = a.left ? n : m;
    if (k > order)
        return;
    const Ref<T> A = resolve(a.A, b, order, k), C = resolve(a.other, b, m, n);
    const T *W = reflectors_in(a, s, A, b, order, k);
    const int64_t ld = a.ld ? a.ld : A.sj;
    if (a.left && a.trans)
        block_multiply<T, true, false>(W, ld, order, k, s.tau, C.p, C.sj, other, s.g);
    else if (a.left)
        block_multiply<T, false, false>(W, ld, order, k, s.tau, C.p, C.sj, other, s.g);
    else if (a.trans)
        block_multiply<T, false, true>(W, ld, order, k, s.tau, C.p, C.sj, other, s.g);
    else
        block_multiply<T, true, true>(W, ld, order, k, s.tau, C.p, C.sj, other, s.g);
}

/* Bounds on the registers: 16 warps an SM. */
template <class T, int OP, int WARPS>
__global__ void __launch_bounds__(32 * WARPS, 16 / WARPS)
    qr_kernel(const __grid_constant__ QrArgs<T> a) {
    extern __shared__ __align__(16) unsigned char shared[];
    QrShared<T> s = qr_shared<T>(shared, a.k_max);
    if (a.panel)
        s.g.panel = s.W, s.g.rows = a.panel;
    const int64_t b = blockIdx.x;
    batch::wait_for_predecessor();
    if (!sizes_valid(a, b)) {
        if (a.info && threadIdx.x == 0)
            a.info[b] = -1;
        return;
    }
    const int m = dim_full(a.m, b), n = dim_full(a.n, b), k = dim_full(a.k, b);
    if (m == 0 || n == 0) {
        if (a.info && threadIdx.x == 0)
            a.info[b] = 0;
        return;
    }
    if (OP == ORGQR)
        run_form(a, s, b, m, n, k);
    else if (OP == ORMQR)
        run_multiply(a, s, b, m, n, k);
    else
        run_factor(OP, a, s, b, m, n);
}

template <class T> Mat<T> plain(batch_mat m) {
    return Mat<T>{
        (T *)m.base, (T *const *)m.ptrs, m.stride, m.ld, m.lds, false, false, false, 0, 0};
}
Dim whole(batch_dim d) {
    return Dim{d.each, d.n, 0, (int)d.n};
}

constexpr int PANEL_ROWS = 640; /* of a panel of which two fit in it */

/* rows x cols: what would be staged. */
template <class T, int OP>
status start(QrArgs<T> a, int64_t count, int64_t rows, int64_t cols, int64_t k, cudaStream_t s) {
    const int warps = cols > 64 || rows > 256 ? 8 : 4;
    size_t bytes = qr_shared_bytes<T>(warps, (int)k);
    a.ld = 0;
    a.k_max = (int)k;
    if (rows <= 4096 && cols <= 4096) {
        const size_t tile = sizeof(T) * (size_t)conflict_free((int)rows) * (size_t)cols;
        if (bytes + tile <= gpu_shared_most()) {
            a.ld = conflict_free((int)rows);
            bytes += tile;
        }
    }
    const size_t panel = sizeof(T) * (size_t)panel_room((int)(rows <= PANEL_ROWS ? rows : 0));
    if (a.ld == 0 && rows <= PANEL_ROWS && bytes + panel <= gpu_shared_most()) {
        a.panel = (int)rows;
        bytes += panel;
    }
    return batch::launch(warps == 4 ? qr_kernel<T, OP, 4> : qr_kernel<T, OP, 8>,
                         dim3((unsigned)count), 32 * warps, bytes, s, a);
}

template <class T>
status factor(int op, cudaStream_t s, int64_t count, batch_dim m, batch_dim n, batch_mat a,
              batch_mat tau, batch_mat r, int *info) {
    const int64_t k = m.n < n.n ? m.n : n.n;
    QrArgs<T> q = {};
    q.A = plain<T>(a);
    q.tau = plain<T>(tau);
    q.other = plain<T>(r);
    q.m = whole(m);
    q.n = whole(n);
    q.info = info;
    QrWarpArgs<T> w = {q.A, q.other, q.tau, q.m, q.n, info, count, false};
    if (m.n <= 32 && n.n <= 32)
        return launch_qr_warp<T>(op, w, (int)(m.n > n.n ? m.n : n.n), s);
    if (qr_gram_fits(op, m.n, n.n)) {
        GPU_TRY(launch_qr_gram<T>(op, w, n.n, s));
        w.pending = q.pending = true;
    }
    bool served = false;
    if (qr_grid_fits(m.n, n.n))
        GPU_TRY(launch_qr_grid<T>(op, w, m.n, n.n, s, &served));
    if (!served && m.n <= 512 && n.n <= 64)
        GPU_TRY(launch_qr_twice<T>(op, w, s, &served));
    if (served)
        return MOAO_OK;
    return op == GEQRF    ? start<T, GEQRF>(q, count, m.n, n.n, k, s)
           : op == FULL_Q ? start<T, FULL_Q>(q, count, m.n, n.n, k, s)
                          : start<T, ONLY_R>(q, count, m.n, n.n, k, s);
}

template <class T>
status form(cudaStream_t s, int64_t count, batch_dim m, batch_dim n, batch_dim k, batch_mat a,
            batch_mat tau) {
    QrArgs<T> q = {};
    q.A = plain<T>(a);
    q.tau = plain<T>(tau);
    q.m = whole(m);
    q.n = whole(n);
    q.k = whole(k);
    return start<T, ORGQR>(q, count, m.n, n.n, k.n, s);
}

template <class T>
status multiply(cudaStream_t s, char side, char trans, int64_t count, batch_dim m, batch_dim n,
                batch_dim k, batch_mat a, batch_mat tau, batch_mat c) {
    if (side == 'L' && m.n <= 512 && k.n <= 128) {
        const QrApply<T> w = {plain<T>(a), plain<T>(tau), plain<T>(c),  whole(m),
                              whole(n),    whole(k),      trans != 'N', count};
        bool served;
        GPU_TRY(launch_qr_apply<T>(w, m.n, s, &served));
        if (served)
            return MOAO_OK;
    }
    QrArgs<T> q = {};
    q.A = plain<T>(a);
    q.tau = plain<T>(tau);
    q.other = plain<T>(c);
    q.m = whole(m);
    q.n = whole(n);
    q.k = whole(k);
    q.left = side == 'L';
    q.trans = trans != 'N';
    return start<T, ORMQR>(q, count, q.left ? m.n : n.n, k.n, k.n, s);
}

} // namespace
} // namespace lowrank

size_t lowrank_qr_work(backend_type, int64_t, int64_t, int64_t) {
    return 0; /* every class works where the matrix lies, or in shared memory */
}

status lowrank_geqrf(cudaStream_t s, backend_type t, int64_t count, batch_dim m, batch_dim n,
                     batch_mat a, batch_mat tau, int *info) {
    return t == BACKEND_D
               ? lowrank::factor<double>(lowrank::GEQRF, s, count, m, n, a, tau, batch_mat(), info)
               : lowrank::factor<float>(lowrank::GEQRF, s, count, m, n, a, tau, batch_mat(), info);
}

status lowrank_qr(cudaStream_t s, backend_type t, char job, int64_t count, batch_dim m, batch_dim n,
                  batch_mat a, batch_mat r, int *info, void *, size_t) {
    const int op = job == 'Q' ? lowrank::FULL_Q : lowrank::ONLY_R;
    return t == BACKEND_D ? lowrank::factor<double>(op, s, count, m, n, a, batch_mat(), r, info)
                          : lowrank::factor<float>(op, s, count, m, n, a, batch_mat(), r, info);
}

status lowrank_orgqr(cudaStream_t s, backend_type t, int64_t count, batch_dim m, batch_dim n,
                     batch_dim k, batch_mat a, batch_mat tau) {
    return t == BACKEND_D ? lowrank::form<double>(s, count, m, n, k, a, tau)
                          : lowrank::form<float>(s, count, m, n, k, a, tau);
}

status lowrank_ormqr(cudaStream_t s, backend_type t, char side, char trans, int64_t count,
                     batch_dim m, batch_dim n, batch_dim k, batch_mat a, batch_mat tau,
                     batch_mat c) {
    return t == BACKEND_D ? lowrank::multiply<double>(s, side, trans, count, m, n, k, a, tau, c)
                          : lowrank::multiply<float>(s, side, trans, count, m, n, k, a, tau, c);
}
