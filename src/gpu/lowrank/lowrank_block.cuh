/* What the sketches and the recompression do with one matrix by one thread block: products with a
 * narrow right factor on FP64 tensor cores (FP32 is widened on the way), sums over the block in a
 * fixed order, the first column that is not finite, and scaling by powers of two. */
#ifndef MOAO_GPU_LOWRANK_BLOCK_CUH
#define MOAO_GPU_LOWRANK_BLOCK_CUH
#include "gpu/batch/batch_gpu.h"
#include "lowrank_gpu.h"
#include "qr_block.cuh"
#include <float.h>

namespace lowrank {

constexpr int WIDE = 32; /* columns of a narrow factor at a time */
constexpr int WARPS = 8; /* of a block */

/* Multiplication by 2^shift in two exact steps, so that also subnormal numbers can be brought up.
 */
template <class T> struct Scale {
    T first, second;
    bool on;
    __device__ T operator()(T x) const {
        return on ? x * first * second : x;
    }
};
template <class T> __device__ inline Scale<T> scale_by(int shift) {
    const int half = shift / 2;
    return Scale<T>{(T)ldexp(1.0, half), (T)ldexp(1.0, shift - half), shift != 0};
}

/* Sum over the block in a fixed order; red: a double for each warp. All threads get it. */
__device__ inline double block_sum(double x, double *red) {
    x = warp_sum(x);
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        red[threadIdx.x / 32] = x;
    __syncthreads();
    double s = 0;
    for (int w = 0; w < (int)blockDim.x / 32; w++)
        s += red[w];
    return s;
}
__device__ inline double block_max(double x, double *red) {
#pragma unroll
    for (int d = 16; d; d >>= 1) {
        const double y = __shfl_xor_sync(0xffffffffu, x, d);
        x = y > x ? y : x;
    }
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        red[threadIdx.x / 32] = x;
    __syncthreads();
    double s = 0;
    for (int w = 0; w < (int)blockDim.x / 32; w++)
        s = red[w] > s ? red[w] : s;
    return s;
}

/* Largest modulus of a matrix, the sum of its squares, and (through *bad, a shared int) its first
 * column that holds a NaN or an infinity, counted from `from`; *bad is lowered only. Loads of
 * several rows are under way at once. */
struct Survey {
    double most, sum;
};
template <class T>
__device__ inline Survey survey(const T *a, int64_t ld, int m, int n, int from, int *bad,
                                double *red) {
    const int lane = threadIdx.x % 32, warps = blockDim.x / 32;
    double most = 0, sum = 0;
    for (int j = threadIdx.x / 32; j < n; j += warps) {
        const T *c = a + j * ld;
        bool fine = true;
        for (int i = lane; i < m; i += 32 * 8) {
            double x[8];
#pragma unroll
            for (int q = 0; q < 8; q++)
                x[q] = i + 32 * q < m ? fabs((double)c[i + 32 * q]) : 0.0;
#pragma unroll
            for (int q = 0; q < 8; q++) {
                fine = fine && x[q] <= DBL_MAX; /* false for NaN, too */
                most = x[q] > most ? x[q] : most;
                sum += x[q] * x[q];
            }
        }
        if (!fine)
            atomicMin(bad, from + j + 1);
    }
    most = block_max(most, red);
    return Survey{most, block_sum(sum, red)};
}

/* The exponent by which a matrix is scaled: 0 where sums of squares are far from the range's ends.
 */
template <class T> __device__ inline int shift_of(double most) {
    const int safe = sizeof(T) == 8 ? 300 : 50;
    int e = 0;
    if (!(most > 0))
        return 0;
    frexp(most, &e);
    return e < safe && e > -safe ? 0 : -e;
}

template <class T>
__device__ inline double squares(const T *a, int64_t ld, int m, int n, Scale<T> scale,
                                 double *red) {
    const int lane = threadIdx.x % 32, warps = blockDim.x / 32;
    double s = 0;
    for (int j = threadIdx.x / 32; j < n; j += warps)
#pragma unroll 8
        for (int i = lane; i < m; i += 32) {
            const double x = (double)scale(a[i + j * ld]);
            s += x * x;
        }
    return block_sum(s, red);
}

/* Element (i, k) of op(A), 0 outside m x n. */
template <class T, bool TRANS, bool EDGE>
__device__ inline double factor_entry(const T *a, int64_t ld, int m, int n, int i, int k,
                                      const Scale<T> &scale) {
    if (EDGE && (i >= m || k >= n))
        return 0.0;
    return (double)scale(TRANS ? a[k + i * ld] : a[i + k * ld]);
}

/* Eight columns of op(A) for TILES times 16 rows from `row` on, and their products with b. PLAIN:
 * everything is inside, w is WIDE, and nothing is scaled. */
template <class T, bool TRANS, bool PLAIN, int TILES>
__device__ inline void product_fetch(double (&x)[TILES][4], const T *a, int64_t lda, int m, int n,
                                     int row, int k, const Scale<T> &scale, int lane) {
    const int r = lane % 4, c = lane / 4;
#pragma unroll
    for (int i = 0; i < TILES; i++)
#pragma unroll
        for (int q = 0; q < 4; q++) {
            const int at = row + 16 * i + c + (q & 1) * 8, p = k + r + (q >> 1) * 4;
            x[i][q] = PLAIN ? (double)(TRANS ? a[p + at * lda] : a[at + p * lda])
                            : factor_entry<T, TRANS, true>(a, lda, m, n, at, p, scale);
        }
}
template <class T, bool PLAIN, int TILES>
__device__ inline void product_step(double (&acc)[TILES][WIDE / 8][4], const double (&x)[TILES][4],
                                    const T *b, int64_t ldb, int n, int w, int k, int lane) {
    const int r = lane % 4, c = lane / 4;
#pragma unroll
    for (int t = 0; t < WIDE / 8; t++) {
        double y[2];
        if (!PLAIN && 8 * t >= w)
            continue;
#pragma unroll
        for (int q = 0; q < 2; q++) {
            const int i = k + r + q * 4, j = 8 * t + c;
            y[q] = PLAIN || (i < n && j < w) ? (double)b[i + j * ldb] : 0.0;
        }
#pragma unroll
        for (int i = 0; i < TILES; i++)
            tensor(acc[i][t], x[i], y);
    }
}
template <class T, bool PLAIN, int TILES>
__device__ inline void product_store(const double (&acc)[TILES][WIDE / 8][4], int m, int w, T *c,
                                     int64_t ldc, int row, int lane) {
#pragma unroll
    for (int i = 0; i < TILES; i++)
#pragma unroll
        for (int t = 0; t < WIDE / 8; t++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int p = row + 16 * i + lane / 4 + (e >> 1) * 8,
                          j = 8 * t + 2 * (lane % 4) + (e & 1);
                if (PLAIN || (p < m && j < w))
                    c[p + j * ldc] = (T)acc[i][t][e];
            }
}

/* Rows from `row` on. */
template <class T, bool TRANS>
__device__ inline void product_edge(const T *a, int64_t lda, const T *b, int64_t ldb, int m, int n,
                                    int w, const Scale<T> &scale, T *c, int64_t ldc, int row,
                                    int lane) {
    double acc[1][WIDE / 8][4] = {}, x[4][1][4];
#pragma unroll 1
    for (int k = 0; k < n; k += 32) {
#pragma unroll
        for (int s = 0; s < 4; s++)
            product_fetch<T, TRANS, false, 1>(x[s], a, lda, m, n, row, k + 8 * s, scale, lane);
#pragma unroll
        for (int s = 0; s < 4; s++)
            product_step<T, false, 1>(acc, x[s], b, ldb, n, w, k + 8 * s, lane);
    }
    product_store<T, false, 1>(acc, m, w, c, ldc, row, lane);
}
/* What products see of a matrix on the way: its largest upper half word without the sign, and the
 * sum of squares. */
struct Glance {
    int top;
    double sum;
};
template <int TILES> __device__ inline void glance_at(Glance &g, const double (&x)[TILES][4]) {
#pragma unroll
    for (int i = 0; i < TILES; i++)
#pragma unroll
        for (int q = 0; q < 4; q++) {
            const int word = __double2hiint(x[i][q]) & 0x7fffffff;
            g.top = word > g.top ? word : g.top;
            g.sum = fma(x[i][q], x[i][q], g.sum);
        }
}

/* acc := 32 rows of the product; the next columns of op(A) are in transit while these are
 * multiplied. FULL: w is WIDE. */
template <class T, bool TRANS, bool FULL>
__device__ inline void product_plain(double (&acc)[2][WIDE / 8][4], const T *a, int64_t lda,
                                     const T *b, int64_t ldb, int n, int w, int row, int lane) {
    double x[2][4], next[2][4];
    const Scale<T> none = {T(1), T(1), false};
    product_fetch<T, TRANS, true, 2>(next, a, lda, 0, 0, row, 0, none, lane);
#pragma unroll 1
    for (int k = 0; k < n; k += 8) {
#pragma unroll
        for (int i = 0; i < 2; i++)
#pragma unroll
            for (int q = 0; q < 4; q++)
                x[i][q] = next[i][q];
        if (k + 8 < n)
            product_fetch<T, TRANS, true, 2>(next, a, lda, 0, 0, row, k + 8, none, lane);
        product_step<T, FULL, 2>(acc, x, b, ldb, n, w, k, lane);
    }
}
/* The same, n a multiple of 16, with b in shared memory at a leading dimension known at compile
 * time: two blocks of columns of op(A) are under way. */
template <class T, bool TRANS, int LDB, bool GLANCE>
__device__ inline void product_ahead(double (&acc)[2][WIDE / 8][4], const T *a, int64_t lda,
                                     const T *b, int n, int row, int lane, Glance &seen) {
    const int r = lane % 4, c = lane / 4;
    const T *at[TRANS ? 4 : 2];
#pragma unroll
    for (int q = 0; q < (TRANS ? 4 : 2); q++)
        at[q] = TRANS ? a + r + (int64_t)(row + c + 8 * q) * lda
                      : a + row + c + (int64_t)(r + 4 * q) * lda;
    const int64_t step = TRANS ? 8 : 8 * lda;
    const T *y = b + r + c * LDB;
    double x[2][2][4];
    auto fetch = [&](double(&x)[2][4]) {
#pragma unroll
        for (int i = 0; i < 2; i++)
#pragma unroll
            for (int q = 0; q < 4; q++)
                x[i][q] = (double)(TRANS ? at[2 * i + (q & 1)][(q >> 1) * 4]
                                         : at[q >> 1][16 * i + (q & 1) * 8]);
#pragma unroll
        for (int q = 0; q < (TRANS ? 4 : 2); q++)
            at[q] += step;
    };
    fetch(x[0]);
    fetch(x[1]);
#pragma unroll 1
    for (int k = 0; k < n; k += 16) {
#pragma unroll
        for (int s = 0; s < 2; s++) {
            if (GLANCE)
                glance_at(seen, x[s]);
#pragma unroll
            for (int t = 0; t < WIDE / 8; t++) {
                const double z[2] = {(double)y[8 * s + 8 * t * LDB],
                                     (double)y[8 * s + 4 + 8 * t * LDB]};
#pragma unroll
                for (int i = 0; i < 2; i++)
                    tensor(acc[i][t], x[s][i], z);
            }
            if (k + 16 < n)
                fetch(x[s]);
        }
        y += 16;
    }
}

/* c := op(a) b: op(a) m x n, b n x w, w <= WIDE; a is scaled on the way. Warps share the rows; no
 * barrier. */
template <class T, bool TRANS>
__device__ __noinline__ void narrow_product(const T *a, int64_t lda, const T *b, int64_t ldb, int m,
                                            int n, int w, Scale<T> scale, T *c, int64_t ldc) {
    const int lane = threadIdx.x % 32, warps = blockDim.x / 32, warp = threadIdx.x / 32;
    const int plain = n > 0 && n % 8 == 0 && !scale.on && m >= 32 * warps ? m / 32 * 32 : 0;
    for (int row = 32 * warp; row < plain; row += 32 * warps) {
        double acc[2][WIDE / 8][4] = {};
        if (w == WIDE) {
            product_plain<T, TRANS, true>(acc, a, lda, b, ldb, n, w, row, lane);
            product_store<T, true, 2>(acc, m, w, c, ldc, row, lane);
        } else {
            product_plain<T, TRANS, false>(acc, a, lda, b, ldb, n, w, row, lane);
            product_store<T, false, 2>(acc, m, w, c, ldc, row, lane);
        }
    }
    for (int row = plain + 16 * warp; row < m; row += 16 * warps)
        product_edge<T, TRANS>(a, lda, b, ldb, m, n, w, scale, c, ldc, row, lane);
}

/* y := a b for an a of 32 rows for each warp, unscaled, b n x WIDE (n a multiple of 16, at most
 * those rows), which is in y's place (shared memory) while it is read. What is seen of this
 * thread's part of a. All threads of the block. */
template <class T, int LDY>
__device__ inline Glance product_in_place(const T *a, int64_t lda, const T *b, int64_t ldb, int n,
                                          T *y) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    double acc[2][WIDE / 8][4] = {};
    Glance seen = {0, 0};
    for (int j = warp; j < WIDE; j += warps)
#pragma unroll 8
        for (int i = lane; i < n; i += 32)
            y[i + j * LDY] = b[i + j * ldb];
    __syncthreads();
    product_ahead<T, false, LDY, true>(acc, a, lda, y, n, 32 * warp, lane, seen);
    __syncthreads();
    product_store<T, true, 2>(acc, 0, 0, y, LDY, 32 * warp, lane);
    __syncthreads();
    return seen;
}
/* c := a^T y for an a of m x n, m a multiple of 16 and n of 32, y in shared memory. */
template <class T, int LDY>
__device__ inline void product_transposed(const T *a, int64_t lda, const T *y, int m, int n, T *c,
                                          int64_t ldc) {
    const int lane = threadIdx.x % 32, warps = blockDim.x / 32;
    Glance none;
    for (int row = 32 * (threadIdx.x / 32); row < n; row += 32 * warps) {
        double acc[2][WIDE / 8][4] = {};
        product_ahead<T, true, LDY, false>(acc, a, lda, y, m, row, lane, none);
        product_store<T, true, 2>(acc, 0, 0, c, ldc, row, lane);
    }
}

/* c := a b of w columns, m a multiple of 32 and n of 16; b in shared memory, columns up to a
 * multiple of WIDE. */
template <class T, int LDB>
__device__ inline void product_shared(const T *a, int64_t lda, const T *b, int m, int n, int w,
                                      T *c, int64_t ldc) {
    const int lane = threadIdx.x % 32, warps = blockDim.x / 32;
    Glance none;
    for (int row = 32 * (threadIdx.x / 32); row < m; row += 32 * warps)
        for (int j = 0; j < w; j += WIDE) {
            double acc[2][WIDE / 8][4] = {};
            product_ahead<T, false, LDB, false>(acc, a, lda, b + j * LDB, n, row, lane, none);
            product_store<T, false, 2>(acc, m, w - j, c + j * ldc, ldc, row, lane);
        }
}

/* The same for any width of b. */
template <class T, bool TRANS>
__device__ inline void product(const T *a, int64_t lda, const T *b, int64_t ldb, int m, int n,
                               int w, Scale<T> scale, T *c, int64_t ldc) {
    for (int j = 0; j < w; j += WIDE)
        narrow_product<T, TRANS>(a, lda, b + j * ldb, ldb, m, n, w - j < WIDE ? w - j : WIDE, scale,
                                 c + j * ldc, ldc);
}

template <class T>
__device__ inline void move(const T *src, int64_t lds, int m, int n, T *dst, int64_t ldd) {
    const int lane = threadIdx.x % 32, warps = blockDim.x / 32;
    for (int j = threadIdx.x / 32; j < n; j += warps)
        for (int i = lane; i < m; i += 32)
            dst[i + j * ldd] = src[i + j * lds];
}

/* The operands of a batch from matrix `first` on. */
inline batch_mat mat_from(batch_mat m, backend_type t, int64_t first) {
    if (m.ptrs)
        m.ptrs += first;
    else
        m.base = (char *)m.base + first * m.stride * (int64_t)backend_size(t);
    if (m.lds)
        m.lds += first;
    return m;
}
inline batch_dim dim_from(batch_dim d, int64_t first) {
    if (d.each)
        d.each += first;
    return d;
}
inline batch_cut cut_from(const batch_cut *c, int64_t first) {
    batch_cut d = *c;
    if (d.tol_each)
        d.tol_each += first;
    if (d.most_each)
        d.most_each += first;
    d.sweeps = nullptr; /* of gesvj alone */
    return d;
}

/* Work given out in pieces of multiples of 256 bytes; with p = NULL it only counts. */
struct Pieces {
    char *p;
    size_t used;
    template <class E> E *take(int64_t count) {
        E *q = p ? (E *)(p + used) : nullptr;
        used += ((size_t)(count > 0 ? count : 1) * sizeof(E) + 255) / 256 * 256;
        return q;
    }
};

/* Matrices of a call that are worked on at once: enough for several blocks on each multiprocessor,
 * or what the workspace holds. */
constexpr int64_t CHUNK = 1056;

} // namespace lowrank
#endif
