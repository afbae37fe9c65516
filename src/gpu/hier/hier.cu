/* Interpolative decomposition and entries of kernels on the GPU, and the table of formats. */
#include "gpu/batch/batch_args.cuh"
#include "gpu/batch/batch_gpu.h"
#include "gpu/core/capability.h"
#include "hier_gpu.h"
#include "linalg/core/hier_kernels_formula.h"
#include <cuda_runtime.h>

namespace {

/* --- entries: a thread takes entries of a block ---------------------------------------------- */

struct EntryArgs {
    hier_function f;
    int dim;
    const double *x, *y;
    const int *const *rows, *const *cols;
    batch_mat a;
    batch_dim m, n;
    bool turned;
    int parts;
};

__device__ inline int64_t size_of(const batch_dim &d, int64_t b) {
    const int64_t n = d.each ? d.each[b] : d.n;
    return n < 0 || n > d.n ? 0 : n;
}
template <class T> __device__ inline T *matrix_of(const batch_mat &m, int64_t b) {
    return m.ptrs ? (T *)m.ptrs[b] : (T *)m.base + b * m.stride;
}

constexpr int EACH = 8, ENTRY_THREADS = 256;

template <class T>
__global__ void __launch_bounds__(ENTRY_THREADS) entry_kernel(const EntryArgs a) {
    const int64_t b = blockIdx.x / a.parts, m = size_of(a.m, b), n = size_of(a.n, b);
    const int64_t begin = (int64_t)(blockIdx.x % a.parts) * EACH * ENTRY_THREADS;
    T *to = matrix_of<T>(a.a, b);
    const int64_t ld = a.a.lds ? a.a.lds[b] : a.a.ld;
    const int *rows = a.rows[b], *cols = a.cols[b];
    for (int64_t e = begin + threadIdx.x; e < begin + EACH * ENTRY_THREADS && e < m * n;
         e += ENTRY_THREADS) {
        const int64_t i = a.turned ? e / n : e % m, j = a.turned ? e % n : e / m;
        const double v = hier_kernel_value(&a.f, a.dim, a.x + (int64_t)a.dim * rows[i],
                                           a.y + (int64_t)a.dim * cols[j], rows[i] == cols[j]);
        to[a.turned ? j + i * ld : i + j * ld] = (T)v;
    }
}

/* --- Chebyshev polynomials: a thread takes a point and a node ----------------------------------
 */

template <class T>
__global__ void __launch_bounds__(256)
    chebyshev_kernel(int dim, int order, int columns, batch_dim m, const double *const *points,
                     const double *box, batch_mat u) {
    __shared__ double p[3][16][32];
    const int64_t b = blockIdx.x, rows = size_of(m, b), ld = u.lds ? u.lds[b] : u.ld;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    T *to = matrix_of<T>(u, b);
    for (int64_t i0 = 0; i0 < rows; i0 += 32) {
        const int64_t i = i0 + lane < rows ? i0 + lane : rows - 1;
        for (int e = warp; e < dim * order; e += 8) {
            const int d = e / order, a = e % order;
            p[d][a][lane] =
                hier_lagrange(order, a, box[6 * b + d], box[6 * b + 3 + d], points[b][i * dim + d]);
        }
        __syncthreads();
        for (int a = warp; a < columns && i0 + lane < rows; a += 8) {
            double v = 1;
            for (int d = 0, rest = a; d < dim; d++, rest /= order)
                v *= p[d][rest % order][lane];
            to[i + a * ld] = (T)v;
        }
        __syncthreads();
    }
}

/* --- interpolative decomposition: one block a matrix, which stays in the L2 cache or in shared
 * memory */

template <class T> struct IdArgs {
    batch_mat a, u;
    batch_dim m, n;
    double tol;
    int round;
    int64_t most;
    int *order, *info;
    int64_t *rank;
    bool shared;
};

constexpr int ID_WARPS = 16;

template <class T> __device__ inline T warp_sum(T x) {
#pragma unroll
    for (int d = 16; d > 0; d /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, d);
    return x;
}

/* What the threads of a block know together. */
template <class T> struct IdShared {
    T norm[BATCH_ORTH_MAX];
    int order[BATCH_ORTH_MAX];
    T best[ID_WARPS];
    int where[ID_WARPS];
    T head, r;
    int pivot, stop, info;
};

/* The first column from k on whose remainder has the largest norm, to all threads. */
template <class T> __device__ inline void find_pivot(IdShared<T> &s, int k, int n) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    T best = T(-1);
    int where = n;
    for (int j = k + threadIdx.x; j < n; j += blockDim.x)
        if (s.norm[j] > best)
            best = s.norm[j], where = j;
#pragma unroll
    for (int d = 16; d > 0; d /= 2) {
        const T other = __shfl_xor_sync(0xffffffffu, best, d);
        const int from = __shfl_xor_sync(0xffffffffu, where, d);
        if (other > best || (other == best && from < where))
            best = other, where = from;
    }
    if (lane == 0)
        s.best[warp] = best, s.where[warp] = where;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < ID_WARPS; w++)
            if (s.best[w] > best || (s.best[w] == best && s.where[w] < where))
                best = s.best[w], where = s.where[w];
        s.best[0] = best, s.pivot = where;
    }
    __syncthreads();
}

/* Columns k and p change places; the reflection of column k on those to its right. */
template <class T>
__device__ inline void eliminate(IdShared<T> &s, T *a, int64_t lda, int m, int n, int k) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, p = s.pivot;
    for (int i = threadIdx.x; i < m && p != k; i += blockDim.x) {
        const T x = a[i + k * lda];
        a[i + k * lda] = a[i + p * lda], a[i + p * lda] = x;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        const int o = s.order[k];
        s.order[k] = s.order[p], s.order[p] = o;
        s.norm[p] = s.norm[k];
    }
    T *v = a + k * lda;
    if (warp == 0) {
        T sum = T(0);
        for (int i = k + lane; i < m; i += 32)
            sum += v[i] * v[i];
        sum = sqrt(warp_sum(sum));
        if (lane == 0)
            s.r = v[k] > T(0) ? -sum : sum, s.head = v[k] - s.r;
    }
    __syncthreads();
    const T head = s.head, r = s.r, scale = T(1) / (r * head);
    for (int j = k + 1 + warp; j < n; j += ID_WARPS) {
        T *c = a + j * lda, d = T(0), left = T(0);
        for (int i = k + 1 + lane; i < m; i += 32)
            d += v[i] * c[i];
        d = (warp_sum(d) + head * c[k]) * scale;
        for (int i = k + 1 + lane; i < m; i += 32) {
            const T x = c[i] + d * v[i];
            c[i] = x, left += x * x;
        }
        left = warp_sum(left);
        __syncwarp();
        if (lane == 0)
            c[k] += d * head, s.norm[j] = left;
    }
    __syncthreads();
    if (threadIdx.x == 0)
        v[k] = r;
}

/* A := 2^-e A with the largest modulus in [1/2, 1), so that squares stay in range; e, 0 where an
 * entry is not finite. */
template <class T> __device__ inline int rescale(IdShared<T> &s, T *a, int64_t lda, int m, int n) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    T most = T(0);
    int e = 0;
    for (int x = threadIdx.x; x < m * n; x += blockDim.x) {
        const T v = fabs(a[x % m + (int64_t)(x / m) * lda]);
        most = v <= most ? most : v == v ? v : T(INFINITY);
    }
#pragma unroll
    for (int d = 16; d > 0; d /= 2)
        most = fmax(most, __shfl_xor_sync(0xffffffffu, most, d));
    if (lane == 0)
        s.best[warp] = most;
    __syncthreads();
    for (int w = 0; w < ID_WARPS; w++)
        most = fmax(most, s.best[w]);
    __syncthreads();
    if (!(most > T(0)) || isinf(most))
        return 0;
    frexp(most, &e);
    const T f = ldexp(T(1), -e / 2), g = ldexp(T(1), -e - -e / 2);
    for (int x = threadIdx.x; x < m * n; x += blockDim.x)
        a[x % m + (int64_t)(x / m) * lda] = a[x % m + (int64_t)(x / m) * lda] * f * g;
    __syncthreads();
    return e;
}

/* Column j of R12 := R11^-1 of it, by a warp; then its row of U. */
template <class T>
__device__ inline void weights(const IdShared<T> &s, T *a, int64_t lda, int n, int rank, T *u,
                               int64_t ldu) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int j = warp; j < n; j += ID_WARPS) {
        T *c = a + j * lda;
        for (int k = rank - 1; k >= 0 && j >= rank; k--) {
            const T x = c[k] / a[k + k * lda];
            __syncwarp();
            if (lane == 0)
                c[k] = x;
            for (int i = lane; i < k; i += 32)
                c[i] -= a[i + k * lda] * x;
            __syncwarp();
        }
        for (int i = lane; i < rank; i += 32)
            u[s.order[j] + i * ldu] = j >= rank ? c[i] : T(i == j);
    }
}

template <class T> __global__ void __launch_bounds__(32 * ID_WARPS) id_kernel(const IdArgs<T> q) {
    extern __shared__ __align__(16) unsigned char room[];
    __shared__ IdShared<T> s;
    const int64_t b = blockIdx.x;
    const int m = (int)size_of(q.m, b), n = (int)size_of(q.n, b), end = m < n ? m : n;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    T *a = matrix_of<T>(q.a, b);
    int64_t lda = q.a.lds ? q.a.lds[b] : q.a.ld;
    if (q.shared) {
        T *near = (T *)room;
        for (int e = threadIdx.x; e < m * n; e += blockDim.x)
            near[e] = a[e % m + (int64_t)(e / m) * lda];
        a = near, lda = m;
    }
    if (threadIdx.x == 0)
        s.info = INT32_MAX;
    __syncthreads();
    const double tol = ldexp(q.tol, -rescale(s, a, lda, m, n));
    const T least = sizeof(T) == 8 ? T(FORMATS_SQUARE_LEAST_D) : T(FORMATS_SQUARE_LEAST_S);
    for (int j = warp; j < n; j += ID_WARPS) {
        T sum = T(0);
        for (int i = lane; i < m; i += 32)
            sum += a[i + j * lda] * a[i + j * lda];
        sum = warp_sum(sum);
        if (lane == 0) {
            s.norm[j] = sum, s.order[j] = j;
            if (!(sum >= T(0) &&
                  sum <= T(sizeof(T) == 8 ? 1.7976931348623157e308 : 3.402823466e38)))
                atomicMin(&s.info, j + 1);
        }
    }
    __syncthreads();
    int k = 0, info = s.info == INT32_MAX ? 0 : s.info;
    for (; info == 0 && k < end; k++) {
        find_pivot(s, k, n);
        const double end_at = k % q.round ? 1e-3 * tol : tol;
        if (!(s.best[0] > least) || !(s.best[0] > T(end_at * end_at)) ||
            (k == q.most && !(s.best[0] > T(tol * tol))))
            break;
        if (k == q.most) {
            info = -3;
            break;
        }
        eliminate(s, a, lda, m, n, k);
        __syncthreads();
    }
    if (info > 0)
        k = 0;
    else
        weights(s, a, lda, n, k, matrix_of<T>(q.u, b), q.u.lds ? q.u.lds[b] : q.u.ld);
    for (int j = threadIdx.x; j < n; j += blockDim.x)
        q.order[b * q.n.n + j] = s.order[j];
    if (threadIdx.x == 0)
        q.rank[b] = k, q.info[b] = info;
}

template <class T> status decompose(cudaStream_t stream, int64_t count, const IdArgs<T> &given) {
    IdArgs<T> a = given;
    const size_t bytes = sizeof(T) * (size_t)(a.m.n * a.n.n);
    cudaFuncAttributes own;
    CUDA_TRY(cudaFuncGetAttributes(&own, id_kernel<T>));
    a.shared = bytes + own.sharedSizeBytes <= gpu_shared_most();
    if (a.shared)
        GPU_TRY(gpu_allow_shared((const void *)id_kernel<T>, bytes));
    id_kernel<T><<<(unsigned)count, 32 * ID_WARPS, a.shared ? bytes : 0, stream>>>(a);
    LAUNCHED();
    return MOAO_OK;
}
} // namespace

status gpu_hier_id(backend_ctx *ctx, backend_type t, int64_t count, batch_dim m, batch_dim n,
                   batch_mat a, double tol, int round, int64_t most, int *order, batch_mat u,
                   int64_t *rank, int *info) {
    if (m.n > BATCH_ORTH_MAX || n.n > BATCH_ORTH_MAX)
        return status_fail(MOAO_INPUT,
                           "interpolative decomposition of more than %d rows or columns",
                           BATCH_ORTH_MAX);
    if (count == 0)
        return MOAO_OK;
    if (count > INT32_MAX)
        return gpu_too_many_blocks();
    gpu_batch_call call(ctx);
    return t == BACKEND_D
               ? decompose<double>(call.stream, count,
                                   {a, u, m, n, tol, round, most, order, info, rank, false})
               : decompose<float>(call.stream, count,
                                  {a, u, m, n, tol, round, most, order, info, rank, false});
}

status gpu_hier_entries(backend_ctx *ctx, backend_type t, const hier_function *f, int dim,
                        const double *x, const double *y, const hier_blocks *b) {
    const int64_t per = EACH * ENTRY_THREADS, parts = (b->m.n * b->n.n + per - 1) / per;
    if (b->count == 0 || parts == 0)
        return MOAO_OK;
    if (b->count * parts > INT32_MAX)
        return gpu_too_many_blocks();
    gpu_batch_call call(ctx);
    const EntryArgs a = {*f, dim, x, y, b->rows, b->cols, b->a, b->m, b->n, b->turned, (int)parts};
    const unsigned grid = (unsigned)(b->count * parts);
    if (t == BACKEND_D)
        entry_kernel<double><<<grid, ENTRY_THREADS, 0, call.stream>>>(a);
    else
        entry_kernel<float><<<grid, ENTRY_THREADS, 0, call.stream>>>(a);
    LAUNCHED();
    return MOAO_OK;
}

status gpu_hier_chebyshev(backend_ctx *ctx, backend_type t, int dim, int order, int64_t count,
                          batch_dim m, const double *const *points, const double *box,
                          batch_mat u) {
    int columns = 1;
    for (int d = 0; d < dim; d++)
        columns *= order;
    if (count == 0 || m.n == 0)
        return MOAO_OK;
    if (count > INT32_MAX)
        return gpu_too_many_blocks();
    gpu_batch_call call(ctx);
    if (t == BACKEND_D)
        chebyshev_kernel<double>
            <<<(unsigned)count, 256, 0, call.stream>>>(dim, order, columns, m, points, box, u);
    else
        chebyshev_kernel<float>
            <<<(unsigned)count, 256, 0, call.stream>>>(dim, order, columns, m, points, box, u);
    LAUNCHED();
    return MOAO_OK;
}

const backend_hier backend_formats_gpu = {.size = sizeof(backend_hier),
                                          .sums = gpu_hier_gemm_sums,
                                          .chain = gpu_hier_fused,
                                          .id = gpu_hier_id,
                                          .entries = gpu_hier_entries,
                                          .chebyshev = gpu_hier_chebyshev};
