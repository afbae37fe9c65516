/* QR of tall matrices by CholeskyQR2 (gram.cuh), one thread block a matrix: R of the Gram matrix, A
 * := A R^-1 row by row, and the same again. Where a pivot of the first Gram matrix, of columns of
 * norm 1, is below QR_LEAST, or a column out of range or not finite, A stays as it is and is
 * left to reflectors (qr_pending). */
#ifndef MOAO_GPU_QR_GRAM_KERNEL_CUH
#define MOAO_GPU_QR_GRAM_KERNEL_CUH
#include "gram.cuh"
#include "qr_warp.cuh"

namespace lowrank {

__host__ __device__ constexpr int gram_warps(int w) {
    return w > 64 ? 12 : 4;
}
/* Least pivot of the first pass and of later ones; Gram matrices that are the identity to NEAR need
 * no further pass. In single precision one pass is enough: Gram matrices are made in double. */
constexpr double QR_LEAST = 1e-4, QR_FLOOR = 1e-14, NEAR = 0.1;
constexpr int PASSES = 5;

/* Largest entry of G - I, up to rounding of the sum of moduli by each thread; all threads. */
template <int W> __device__ inline bool gram_near(const double *G, int w) {
    bool far = false;
    for (int e = threadIdx.x; e < w * w; e += blockDim.x) {
        const int i = e % w, j = e / w;
        if (i <= j)
            far = far || !(fabs(G[i + j * Triangle<W>::LD] - (i == j)) <= NEAR);
    }
    return !__syncthreads_or(far);
}

/* False: nothing has been written. */
template <class T, int W, int OP>
__device__ inline bool gram_qr(const Ref<T> &A, const Ref<T> &R, int m, int n, double *G,
                               double *inverse, double *scale, double *cells) {
    constexpr int LD = Triangle<W>::LD;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const Columns<T> F = {A.p, A.p, A.sj, A.sj, n, n};
    for (int pass = 0; pass < PASSES; pass++) {
        gram_product<T, W, gram_warps(W)>(F, m, G);
        const bool last = pass > 0 && gram_near<W>(G, n);
        bool fine = gram_scale<T, W>(G, scale, n, 0, pass == 0);
        if (pass == 0 && !fine)
            return false;
        fine = cholesky<W>(G, inverse, pass == 0 ? QR_LEAST : QR_FLOOR);
        if (pass == 0 && !fine)
            return false;
        cells_out<W>(G, inverse, cells);
        for (int j = threadIdx.x; j < n; j += blockDim.x) /* R := this one times R */
            for (int i = 0; i < n; i++) {
                double x = 0;
                for (int p = i; p <= j && pass > 0; p++)
                    x += G[i + p * LD] * (double)*R.at(p, j);
                if (pass == 0 && i <= j)
                    x = G[i + j * LD] / scale[j];
                *R.at(i, j) = (T)x;
            }
        __syncthreads();
        const bool end = last || (pass == 0 && sizeof(T) == 4);
        if (OP == ONLY_R && end)
            return true;
        for (int row = 16 * warp; row < m; row += 16 * gram_warps(W)) {
            Rows<W / 8> q;
            rows_load(q, F, row, m, lane);
            if (pass == 0)
                rows_scale(q, scale, lane);
            rows_solve<W>(q, cells, lane);
            rows_store(q, A.p, A.sj, row, m, n, lane);
        }
        if (end)
            return true;
    }
    return true;
}

template <class T, int W, int OP>
__global__ void __launch_bounds__(32 * gram_warps(W), W > 64   ? 1
                                                      : W > 32 ? 3
                                                               : 4)
    qr_gram_kernel(const __grid_constant__ QrWarpArgs<T> a) {
    extern __shared__ __align__(16) unsigned char shared[];
    double *const G = (double *)shared, *const inverse = G + W * Triangle<W>::LD,
                  *const scale = inverse + W / 8 * CELL, *const cells = scale + W;
    const int64_t b = blockIdx.x;
    batch::wait_for_predecessor();
    const bool valid = dim_valid(a.m, b) && dim_valid(a.n, b);
    const int m = valid ? dim_full(a.m, b) : 0, n = valid ? dim_full(a.n, b) : 0;
    if (m == 0 || n == 0) {
        if (a.info && threadIdx.x == 0)
            a.info[b] = valid ? 0 : -1;
        return;
    }
    const Ref<T> R = resolve(a.R, b, m < n ? m : n, n);
    const bool done =
        m >= n && gram_qr<T, W, OP>(resolve(a.A, b, m, n), R, m, n, G, inverse, scale, cells);
    if (threadIdx.x)
        return;
    if (!done)
        *R.p = T(-1);
    else if (a.info)
        a.info[b] = 0;
}

template <class T, int W> status start_gram(int op, const QrWarpArgs<T> &a, cudaStream_t s) {
    const size_t bytes = sizeof(double) * (Triangle<W>::SHARED + Triangle<W>::SIZE);
    return batch::launch(op == FULL_Q ? qr_gram_kernel<T, W, FULL_Q> : qr_gram_kernel<T, W, ONLY_R>,
                         dim3((unsigned)a.count), 32 * gram_warps(W), bytes, s, a);
}
template <class T> status start_gram(int op, const QrWarpArgs<T> &a, int64_t cols, cudaStream_t s) {
    return cols <= 32   ? start_gram<T, 32>(op, a, s)
           : cols <= 64 ? start_gram<T, 64>(op, a, s)
                        : start_gram<T, 96>(op, a, s);
}

} // namespace lowrank
#endif
