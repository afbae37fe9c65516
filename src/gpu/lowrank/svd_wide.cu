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
    wide_first(w, x.q, [&](int64_t b, int m, int n) { return wide_begin(x.s, w, x.q, b, m, n); });
}

template <class T>
__global__ void __launch_bounds__(32 * WARPS, 2)
    wide_end_kernel(const __grid_constant__ WideArgs<T> w) {
    extern __shared__ __align__(16) unsigned char shared[];
    WideMatrix<T> x(w, shared);
    if (*x.q.over)
        return;
    const int info = wide_end(x.s, w, x.q, x.b, dim_full(w.a.m, x.b), dim_full(w.a.n, x.b), x.tau3);
    if (threadIdx.x == 0 && w.a.info)
        w.a.info[x.b] = info;
}

/* Matrices that are worked on together. */
int64_t chunk_most(int64_t count) {
    const int64_t most = 2 * (int64_t)batch::resident(1);
    return count < most ? count : most;
}

} // namespace

template <class T> size_t wide_svd_work(int64_t count, int rows, int cols) {
    return WIDE_HEAD + wide_plan<T>(rows, cols).slot * (size_t)chunk_most(count);
}
template size_t wide_svd_work<double>(int64_t, int, int);
template size_t wide_svd_work<float>(int64_t, int, int);

template <class T>
status launch_svd_wide(const SvdArgs<T> &a, void *work, size_t lwork, cudaStream_t s) {
    WidePlan p = wide_plan<T>(a.rows_max, a.cols_max);
    for (p.panel = p.rows; p.panel > 0 && wide_shared<T>(p, WARPS) > gpu_shared_most();)
        p.panel = (p.panel - 1) / 32 * 32;
    const size_t shared = wide_shared<T>(p, WARPS);
    return in_chunks(a, p, chunk_most(a.count), work, lwork, [&](const WideArgs<T> &w) {
        const dim3 grid((unsigned)w.count);
        status st = batch::launch(wide_begin_kernel<T>, grid, 32 * WARPS, shared, s, w);
        if (st == MOAO_OK)
            st = launch_rotations(w, s);
        return st == MOAO_OK ? batch::launch(wide_end_kernel<T>, grid, 32 * WARPS, shared, s, w)
                             : st;
    });
}
template status launch_svd_wide<double>(const SvdArgs<double> &, void *, size_t, cudaStream_t);
template status launch_svd_wide<float>(const SvdArgs<float> &, void *, size_t, cudaStream_t);

} // namespace lowrank
