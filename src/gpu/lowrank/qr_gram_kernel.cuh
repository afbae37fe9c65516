/* QR of tall matrices by CholeskyQR2 (gram.cuh), one thread block a matrix: R of the Gram matrix, A
 * := A R^-1 row by row, and the same again. Where a pivot of the first Gram matrix, of columns of
 * norm 1, is below QR_LEAST, or a column out of range or not finite, A stays as it is and is
 * left to reflectors (qr_pending). geqrf's reflectors are made from Q: with Q1 its first rows and S
 * the signs that make the pivots of Q1 - S = V1 U largest, V = (Q - S) U^-1, R := S R, and tau_j =
 * - U_jj S_jj, which is what Householder's way gives (LAPACK's signs). */
#ifndef MOAO_GPU_QR_GRAM_KERNEL_CUH
#define MOAO_GPU_QR_GRAM_KERNEL_CUH
#include "gram.cuh"
#include "qr_warp.cuh"

namespace lowrank {

__host__ __device__ constexpr int gram_warps(int w) {
    return w > 64 ? 12 : 4;
}
/* Blocks of an SM. */
__host__ __device__ constexpr int gram_blocks(int w) {
    return w > 64 ? 1 : w > 32 ? 3 : 4;
}
/* Least pivot of the first pass and of later ones; Gram matrices that are the identity to NEAR need
 * no further pass. In single precision one pass is enough: Gram matrices are made in double. */
constexpr double QR_LEAST = 1e-4, QR_FLOOR = 1e-14, NEAR = 0.1;
constexpr int PASSES = 5;
/* Share of each column's squares below the first n rows, at least, that reflectors are made from:
 * no tail is 0 then. */
constexpr double BELOW_TOP = 1e-6;

/* The block's shared memory. R: of geqrf. */
template <int W> struct GramPlace {
    static constexpr int DOUBLES = Triangle<W>::SHARED + Triangle<W>::SIZE,
                         MORE = W * Triangle<W>::LD + Triangle<W>::SIZE + W;
    double *G, *inverse, *scale, *cells, *R, *vectors, *sign;
    __device__ explicit GramPlace(double *shared)
        : G(shared), inverse(G + W * Triangle<W>::LD), scale(inverse + W / 8 * CELL),
          cells(scale + W), R(shared + DOUBLES), vectors(R + W * Triangle<W>::LD),
          sign(vectors + Triangle<W>::SIZE) {
    }
};

/* Is every entry of G - I at most NEAR? */
template <int W> __device__ inline bool gram_near(const double *G, int w) {
    bool far = false;
    for (int e = threadIdx.x; e < w * w; e += blockDim.x) {
        const int i = e % w, j = e / w;
        if (i <= j)
            far = far || !(fabs(G[i + j * Triangle<W>::LD] - (i == j)) <= NEAR);
    }
    return !__syncthreads_or(far);
}

/* Has every column a share of its squares, the diagonal of G, below the first n rows? */
template <class T, int W>
__device__ inline bool gram_tails(const Ref<T> &A, const double *G, int n) {
    bool none = false;
    for (int j = threadIdx.x / 32; j < n; j += blockDim.x / 32) {
        double top = 0;
        for (int i = threadIdx.x % 32; i < n; i += 32)
            top += (double)*A.at(i, j) * (double)*A.at(i, j);
        top = warp_sum(top);
        const double all = G[j + j * Triangle<W>::LD];
        none = none || !(all - top >= BELOW_TOP * all);
    }
    return !__syncthreads_or(none);
}

/* V1 and U (see above) of the n x n block in G, whose diagonal becomes that of U, but columns of V1
 * times those of U's diagonal; U in blocks to s.vectors. All threads. */
template <int W> __device__ inline void gram_vectors(const GramPlace<W> &s, int n) {
    constexpr int LD = Triangle<W>::LD;
    double *G = s.G;
    for (int e = threadIdx.x; e < W * W; e += blockDim.x)
        if (e / W >= n || e % W >= n)
            G[e % W + e / W * LD] = e % W == e / W ? 1.0 : 0.0;
    for (int j = 0; j < n; j++) {
        __syncthreads();
        const double q = G[j + j * LD], sign = q < 0 ? 1.0 : -1.0, f = 1 / (q - sign);
        const int left = n - j - 1;
        for (int e = threadIdx.x; e < left * left; e += blockDim.x) {
            const int i = j + 1 + e % left, c = j + 1 + e / left;
            G[i + c * LD] -= f * G[i + j * LD] * G[j + c * LD];
        }
        if (threadIdx.x == 0)
            s.sign[j] = sign;
    }
    __syncthreads();
    for (int j = threadIdx.x; j < n; j += blockDim.x)
        G[j + j * LD] -= s.sign[j];
    __syncthreads();
    for (int j = threadIdx.x; j < W; j += blockDim.x) { /* columns of inverses */
        const double *d = G + (j / 8 * 8) * (LD + 1);
        double x[8];
#pragma unroll
        for (int i = 7; i >= 0; i--) {
            double y = i == j % 8 ? 1.0 : 0.0;
#pragma unroll
            for (int k = i + 1; k < 8; k++)
                y -= d[i + k * LD] * x[k];
            x[i] = y / d[i + i * LD];
            s.inverse[8 * j + i] = x[i];
        }
    }
    __syncthreads();
    cells_out<W>(G, s.inverse, s.vectors);
    __syncthreads();
}

/* The last pass of geqrf: reflectors of Q = A R^-1 (cells), R on and above the diagonal, tau. */
template <class T, int W>
__device__ inline void gram_reflectors(const GramPlace<W> &s, const Ref<T> &A, T *tau, int m, int n,
                                       bool scaled) {
    constexpr int LD = Triangle<W>::LD, STEP = 16 * gram_warps(W);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const Columns<T> F = {A.p, A.p, A.sj, A.sj, n, n};
    Rows<W / 8> q;
    for (int pass = 0; pass < 2; pass++) { /* the first rows, the others */
        for (int row = 16 * warp + (pass ? n / 16 * 16 : 0); row < (pass ? m : n); row += STEP) {
            rows_load(q, F, row, m, lane);
            if (scaled)
                rows_scale(q, s.scale, lane);
            rows_solve<W>(q, s.cells, lane);
            if (pass == 0) {
                rows_store(q, s.G, LD, row, n, n, lane);
                continue;
            }
            rows_solve<W>(q, s.vectors, lane);
            rows_store(q, A.p, A.sj, row, m, n, lane, n);
        }
        __syncthreads();
        if (pass == 0)
            gram_vectors<W>(s, n);
    }
    for (int e = threadIdx.x; e < n * n; e += blockDim.x) {
        const int i = e % n, j = e / n;
        *A.at(i, j) = (T)(i <= j ? s.sign[i] * s.R[i + j * LD] : s.G[i + j * LD] / s.G[j + j * LD]);
        if (i == j)
            tau[j] = (T)(-s.sign[j] * s.G[j + j * LD]);
    }
}

/* One matrix; false: nothing has been written. r: its R, or NULL (geqrf). */
template <class T, int W, int OP>
__device__ inline bool gram_qr(const GramPlace<W> &s, const Ref<T> &A, const Ref<T> &R, T *tau,
                               int m, int n) {
    constexpr int LD = Triangle<W>::LD, WARPS = gram_warps(W);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const Columns<T> F = {A.p, A.p, A.sj, A.sj, n, n};
    for (int pass = 0; pass < PASSES; pass++) {
        gram_product<T, W, WARPS>(F, m, s.G);
        if (OP == GEQRF && pass == 0 && !gram_tails<T, W>(A, s.G, n))
            return false;
        const bool last = pass > 0 && gram_near<W>(s.G, n);
        bool fine = gram_scale<T, W>(s.G, s.scale, n, 0, pass == 0);
        if (pass == 0 && !fine)
            return false;
        fine = cholesky<W>(s.G, s.inverse, pass == 0 ? QR_LEAST : QR_FLOOR);
        if (pass == 0 && !fine)
            return false;
        cells_out<W>(s.G, s.inverse, s.cells);
        if (pass == 0) {
            for (int e = threadIdx.x; e < n * n; e += blockDim.x) {
                const int i = e % n, j = e / n;
                const double x = i <= j ? s.G[i + j * LD] / s.scale[j] : 0.0;
                if (OP == GEQRF)
                    s.R[i + j * LD] = x;
                else
                    *R.at(i, j) = (T)x;
            }
            __syncthreads();
        } else if (OP == GEQRF) {
            triangle_product<double, W, WARPS>(s.G, s.R, LD, n);
        } else {
            triangle_product<T, W, WARPS>(s.G, R.p, R.sj, n);
        }
        const bool end = last || (pass == 0 && sizeof(T) == 4);
        if (OP == ONLY_R && end)
            return true;
        if (OP == GEQRF && (end || pass == PASSES - 1)) {
            gram_reflectors<T, W>(s, A, tau, m, n, pass == 0);
            return true;
        }
        for (int row = 16 * warp; row < m; row += 16 * WARPS) {
            Rows<W / 8> q;
            rows_load(q, F, row, m, lane);
            if (pass == 0)
                rows_scale(q, s.scale, lane);
            rows_solve<W>(q, s.cells, lane);
            rows_store(q, A.p, A.sj, row, m, n, lane);
        }
        if (end)
            return true;
    }
    return true;
}

template <class T, int W, int OP>
__global__ void __launch_bounds__(32 * gram_warps(W), gram_blocks(W))
    qr_gram_kernel(const __grid_constant__ QrWarpArgs<T> a) {
    extern __shared__ __align__(16) unsigned char shared[];
    const GramPlace<W> s((double *)shared);
    const int64_t b = blockIdx.x;
    batch::wait_for_predecessor();
    const bool valid = dim_valid(a.m, b) && dim_valid(a.n, b);
    const int m = valid ? dim_full(a.m, b) : 0, n = valid ? dim_full(a.n, b) : 0;
    if (m == 0 || n == 0) {
        if (a.info && threadIdx.x == 0)
            a.info[b] = valid ? 0 : -1;
        return;
    }
    const Ref<T> R = resolve(OP == GEQRF ? a.tau : a.R, b, m < n ? m : n, OP == GEQRF ? 1 : n);
    const bool done = m >= n && gram_qr<T, W, OP>(s, resolve(a.A, b, m, n), R, R.p, m, n);
    if (threadIdx.x)
        return;
    if (!done)
        *R.p = T(-1);
    else if (a.info)
        a.info[b] = 0;
}

template <class T, int W, int OP> status start_gram(const QrWarpArgs<T> &a, cudaStream_t s) {
    constexpr int doubles = GramPlace<W>::DOUBLES + (OP == GEQRF ? GramPlace<W>::MORE : 0);
    static_assert(sizeof(double) * doubles <= QR_GRAM_BYTES, "see qr_gram_fits");
    return batch::launch(qr_gram_kernel<T, W, OP>, dim3((unsigned)a.count), 32 * gram_warps(W),
                         sizeof(double) * (size_t)doubles, s, a);
}
template <class T, int W> status start_gram(int op, const QrWarpArgs<T> &a, cudaStream_t s) {
    return op == FULL_Q ? start_gram<T, W, FULL_Q>(a, s) : start_gram<T, W, ONLY_R>(a, s);
}
template <class T> status start_gram(int op, const QrWarpArgs<T> &a, int64_t cols, cudaStream_t s) {
    return op == GEQRF  ? start_gram<T, 32, GEQRF>(a, s)
           : cols <= 32 ? start_gram<T, 32>(op, a, s)
           : cols <= 64 ? start_gram<T, 64>(op, a, s)
                        : start_gram<T, 96>(op, a, s);
}

} // namespace lowrank
#endif
