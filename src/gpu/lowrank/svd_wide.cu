/* Kernels of svd_wide.cuh, and which of them a call needs. */
#include "svd_wide.cuh"

namespace lowrank {

namespace {

/* What a block works on that begins or ends a matrix; two of them on a multiprocessor. */
template <class T> struct WideMatrix {
    int64_t b;
    WidePlace<T> q;
    T *tau3;
    Svd<T> s;
    __device__ WideMatrix(const WideArgs<T> &w, unsigned char *shared)
        : b(w.first + blockIdx.x), q(wide_place<T>(w.p, w.work, blockIdx.x)),
          s(wide_svd(w.p, q, shared, tau3)) {
        batch::wait_for_predecessor();
    }
};

template <class T>
__global__ void __launch_bounds__(32 * WARPS, 2)
    wide_begin_kernel(const __grid_constant__ WideArgs<T> w) {
    extern __shared__ __align__(16) unsigned char shared[];
    WideMatrix<T> x(w, shared);
    const WidePlace<T> &q = x.q;
    const int64_t b = x.b;
    const int m = dim_full(w.a.m, b), n = dim_full(w.a.n, b);
    const bool valid = dim_valid(w.a.m, b) && dim_valid(w.a.n, b);
    int info = valid ? 0 : -1;
    for (int i = (int)threadIdx.x; i < SWEEPS; i += (int)blockDim.x)
        q.moved[i] = 0;
    if (threadIdx.x == 0)
        *q.kept = 0;
    __syncthreads();
    if (valid && m && n)
        info = wide_begin(x.s, w, q, b, m, n);
    if (threadIdx.x == 0) {
        if (w.a.info)
            w.a.info[b] = info;
        if (w.a.rank && (info || m == 0 || n == 0))
            w.a.rank[b] = 0;
        q.kept[2] = info || m == 0 || n == 0; /* nothing more to do */
    }
}

template <class T>
__global__ void __launch_bounds__(32 * WARPS, 2)
    wide_end_kernel(const __grid_constant__ WideArgs<T> w) {
    extern __shared__ __align__(16) unsigned char shared[];
    WideMatrix<T> x(w, shared);
    if (x.q.kept[2])
        return;
    const int info = wide_end(x.s, w, x.q, x.b, dim_full(w.a.m, x.b), dim_full(w.a.n, x.b), x.tau3);
    if (threadIdx.x == 0 && w.a.info)
        w.a.info[x.b] = info;
}

/* Columns of the matrix as it is worked on. */
template <class T> __device__ inline int wide_cols(const WideArgs<T> &w, int64_t b) {
    const int m = dim_full(w.a.m, b), n = dim_full(w.a.n, b);
    return m < n ? m : n;
}

/* Step `step` of a sweep: a pair of blocks of a matrix each. */
template <class T, class Q>
__global__ void __launch_bounds__(Q::THREADS, 1)
    wide_step_kernel(const __grid_constant__ WideArgs<T> w, int sweep, int step, int pairs) {
    extern __shared__ __align__(16) unsigned char shared[];
    const int64_t slot = blockIdx.x / pairs;
    const int p = (int)(blockIdx.x % pairs);
    const WidePlace<T> q = wide_place<T>(w.p, w.work, slot);
    Exchange<T> e = {(T *)(shared + sizeof(double) * Q::SCALARS), (double *)shared, 0};
    batch::wait_for_predecessor();
    const int nb = 2 * (round_up(*q.kept, Q::COLS) / Q::COLS);
    if (p >= nb / 2 || step >= nb || (sweep && !q.moved[sweep - 1]))
        return;
    if (wide_pair<T, Q>(q, w.p, wide_cols(w, w.first + slot), pair_blocks(p, step, nb), step == 1,
                        e) &&
        threadIdx.x == 0)
        q.moved[sweep] = 1;
}

/* Sweeps from `sweep` on, by one block a matrix. */
template <class T, class Q>
__global__ void __launch_bounds__(Q::THREADS, 1)
    wide_rest_kernel(const __grid_constant__ WideArgs<T> w, int sweep) {
    extern __shared__ __align__(16) unsigned char shared[];
    const WidePlace<T> q = wide_place<T>(w.p, w.work, blockIdx.x);
    Exchange<T> e = {(T *)(shared + sizeof(double) * Q::SCALARS), (double *)shared, 0};
    batch::wait_for_predecessor();
    const int nb = 2 * (round_up(*q.kept, Q::COLS) / Q::COLS),
              cols = wide_cols(w, w.first + blockIdx.x);
    bool more = sweep == 0 || q.moved[sweep - 1];
    for (; more && sweep < SWEEPS; sweep++) {
        more = false;
        for (int step = 1; step < nb; step++)
            for (int p = 0; p < nb / 2; p++) {
                more |= wide_pair<T, Q>(q, w.p, cols, pair_blocks(p, step, nb), step == 1, e);
                __syncthreads();
            }
        if (threadIdx.x == 0)
            q.moved[sweep] = more;
    }
}

template <class T, int ROWS> status rotate(const WideArgs<T> &w, cudaStream_t s) {
    typedef typename Wide<T, ROWS>::Q Q;
    const size_t shared = sizeof(double) * Q::SCALARS + sizeof(T) * Q::BUFFER;
    const int nb = 2 * (round_up(w.p.cols, Q::COLS) / Q::COLS), pairs = nb / 2;
    status st = MOAO_OK;
    for (int sweep = 0; nb > 2 && sweep < STEPPED && st == MOAO_OK; sweep++)
        for (int step = 1; step < nb && st == MOAO_OK; step++)
            st = batch::launch(wide_step_kernel<T, Q>, dim3((unsigned)(w.count * pairs)),
                               Q::THREADS, shared, s, w, sweep, step, pairs);
    if (st == MOAO_OK)
        st = batch::launch(wide_rest_kernel<T, Q>, dim3((unsigned)w.count), Q::THREADS, shared, s,
                           w, nb > 2 ? STEPPED : 0);
    return st;
}

/* Matrices that are worked on together. */
int64_t chunk_most(int64_t count) {
    const int64_t most = 2 * (int64_t)batch::resident(1);
    return count < most ? count : most;
}

} // namespace

template <class T> size_t wide_svd_work(int64_t count, int rows, int cols) {
    return wide_plan<T>(rows, cols).slot * (size_t)chunk_most(count);
}
template size_t wide_svd_work<double>(int64_t, int, int);
template size_t wide_svd_work<float>(int64_t, int, int);

template <class T>
status launch_svd_wide(const SvdArgs<T> &a, void *work, size_t lwork, cudaStream_t s) {
    WideArgs<T> w = {a, wide_plan<T>(a.rows_max, a.cols_max), (unsigned char *)work, 0, 0};
    const int64_t room = (int64_t)(lwork / w.p.slot), most = chunk_most(a.count),
                  chunk = room < most ? room : most;
    const size_t shared = wide_shared<T>(w.p, WARPS);
    status st = MOAO_OK;
    for (w.first = 0; w.first < a.count && st == MOAO_OK; w.first += chunk) {
        w.count = a.count - w.first < chunk ? a.count - w.first : chunk;
        const dim3 grid((unsigned)w.count);
        st = batch::launch(wide_begin_kernel<T>, grid, 32 * WARPS, shared, s, w);
        if (st == MOAO_OK)
            st = a.cols_max <= 128   ? rotate<T, 128>(w, s)
                 : a.cols_max <= 256 ? rotate<T, 256>(w, s)
                                     : rotate<T, 512>(w, s);
        if (st == MOAO_OK)
            st = batch::launch(wide_end_kernel<T>, grid, 32 * WARPS, shared, s, w);
    }
    return st;
}
template status launch_svd_wide<double>(const SvdArgs<double> &, void *, size_t, cudaStream_t);
template status launch_svd_wide<float>(const SvdArgs<float> &, void *, size_t, cudaStream_t);

} // namespace lowrank
