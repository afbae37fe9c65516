/* Kernels on blocks: copies that know about triangles, and inverses of diagonal blocks. */
#include "gpu/core/common.cuh"

#define TILE 32

__device__ inline bool kept(char part, int64_t i, int64_t j) {
    return part == 'A' || ((part == 'L' || part == 'l') ? i >= j : i <= j);
}

/* One 32 x 32 tile per block of 32 x 8 threads; symmetric parts pass through shared memory, so that
 * both triangles are read along columns. */
template <class T>
__global__ void copy_tiles(char part, bool unit, int64_t m, int64_t n, const T *__restrict__ src,
                           int64_t lds, T *__restrict__ dst, int64_t ldd, int64_t tiles_m) {
    __shared__ T turned[TILE][TILE + 1];
    const int64_t i0 = (blockIdx.x % tiles_m) * TILE, j0 = (blockIdx.x / tiles_m) * TILE;
    const int x = threadIdx.x;
    const bool symmetric = part == 'S' || part == 'T';
    if (symmetric) {
        for (int y = threadIdx.y; y < TILE; y += blockDim.y)
            if (j0 + x < m && i0 + y < n)
                turned[y][x] = src[j0 + x + (i0 + y) * lds];
        __syncthreads();
    }
    for (int y = threadIdx.y; y < TILE; y += blockDim.y) {
        const int64_t i = i0 + x, j = j0 + y;
        if (i >= m || j >= n)
            continue;
        if (symmetric) {
            const bool own = part == 'S' ? i >= j : i <= j;
            dst[i + j * ldd] = own ? src[i + j * lds] : turned[x][y];
        } else if (kept(part, i, j)) {
            dst[i + j * ldd] = unit && i == j ? gpu_make<T>(1) : src[i + j * lds];
        } else if (part == 'L' || part == 'U') {
            dst[i + j * ldd] = gpu_make<T>(0);
        }
    }
}

template <class T>
static status copy_block(cudaStream_t s, char part, bool unit, int64_t m, int64_t n,
                         const void *src, int64_t lds, void *dst, int64_t ldd) {
    const int64_t tiles_m = gpu_ceil(m, TILE), tiles = tiles_m * gpu_ceil(n, TILE);
    if (tiles == 0)
        return MOAO_OK;
    if (tiles > INT32_MAX)
        return status_fail(MOAO_INPUT, "a block of %lld x %lld is too large", (long long)m,
                           (long long)n);
    copy_tiles<T><<<(unsigned)tiles, dim3(TILE, 8), 0, s>>>(part, unit, m, n, (const T *)src, lds,
                                                            (T *)dst, ldd, tiles_m);
    LAUNCHED();
    return MOAO_OK;
}

status gpu_copy_block(cudaStream_t s, backend_type t, char part, bool unit, int64_t m, int64_t n,
                      const void *src, int64_t lds, void *dst, int64_t ldd) {
    return GPU_DISPATCH(t, copy_block, s, part, unit, m, n, src, lds, dst, ldd);
}

/* Tile number b of the lower triangle to its mirror image, or back (upper). */
template <class T>
__global__ void mirror_tiles(bool upper, int64_t n, T *__restrict__ a, int64_t lda) {
    __shared__ T turned[TILE][TILE + 1];
    const int64_t b = blockIdx.x;
    int64_t row = (int64_t)((sqrt(8.0 * (double)b + 1) - 1) / 2);
    row += (row + 1) * (row + 2) / 2 <= b;
    row -= row * (row + 1) / 2 > b;
    const int64_t i0 = row * TILE, j0 = (b - row * (row + 1) / 2) * TILE;
    const int64_t from_i = upper ? j0 : i0, from_j = upper ? i0 : j0; /* the tile to be read */
    const int x = threadIdx.x;
    for (int y = threadIdx.y; y < TILE; y += blockDim.y) {
        const int64_t i = from_i + x, j = from_j + y;
        if (i < n && j < n && (upper ? i < j : i > j))
            turned[y][x] = a[i + j * lda];
    }
    __syncthreads();
    for (int y = threadIdx.y; y < TILE; y += blockDim.y) {
        const int64_t i = from_j + x, j = from_i + y;
        if (i < n && j < n && (upper ? j < i : j > i))
            a[i + j * lda] = turned[x][y];
    }
}

template <class T>
static status mirror(cudaStream_t s, char uplo, int64_t n, void *a, int64_t lda) {
    const int64_t rows = gpu_ceil(n, TILE), tiles = rows * (rows + 1) / 2;
    if (tiles > INT32_MAX)
        return status_fail(MOAO_INPUT, "mirror: the order %lld is too large", (long long)n);
    mirror_tiles<T><<<(unsigned)tiles, dim3(TILE, 8), 0, s>>>(uplo == 'U', n, (T *)a, lda);
    LAUNCHED();
    return MOAO_OK;
}

status gpu_mirror(backend_ctx *ctx, backend_type t, char uplo, int64_t n, void *a, int64_t lda) {
    gpu_device_guard guard(ctx->device);
    return n > 0 ? GPU_DISPATCH(t, mirror, ctx->main.stream, uplo, n, a, lda) : MOAO_OK;
}

#define GATHER_THREADS 256

template <class T>
__global__ void gather_kernel(int64_t m, int64_t n, const int64_t *rows, const int64_t *cols,
                              const T *__restrict__ a, int64_t lda, bool add, T *__restrict__ b,
                              int64_t ldb) {
    for (int64_t j = blockIdx.y; j < n; j += gridDim.y) {
        const T *from = a + (cols ? cols[j] : j) * lda;
        for (int64_t i = blockIdx.x * (int64_t)GATHER_THREADS + threadIdx.x; i < m;
             i += gridDim.x * (int64_t)GATHER_THREADS) {
            const T x = from[rows ? rows[i] : i];
            b[i + j * ldb] = add ? b[i + j * ldb] + x : x;
        }
    }
}

status gpu_gather(backend_ctx *ctx, backend_type t, int64_t m, int64_t n, const int64_t *rows,
                  const int64_t *cols, const void *a, int64_t lda, int beta, void *b, int64_t ldb) {
    gpu_device_guard guard(ctx->device);
    if (m == 0 || n == 0)
        return MOAO_OK;
    const dim3 blocks((unsigned)gpu_min(gpu_ceil(m, GATHER_THREADS), 65535),
                      (unsigned)gpu_min(n, 65535));
    if (t == BACKEND_D)
        gather_kernel<<<blocks, GATHER_THREADS, 0, ctx->main.stream>>>(
            m, n, rows, cols, (const double *)a, lda, beta != 0, (double *)b, ldb);
    else
        gather_kernel<<<blocks, GATHER_THREADS, 0, ctx->main.stream>>>(
            m, n, rows, cols, (const float *)a, lda, beta != 0, (float *)b, ldb);
    LAUNCHED();
    return MOAO_OK;
}

status gpu_zero_block(cudaStream_t s, backend_type t, int64_t m, int64_t n, void *b, int64_t ldb) {
    const size_t e = backend_size(t);
    if (m > 0 && n > 0)
        CUDA_TRY(cudaMemset2DAsync(b, (size_t)ldb * e, 0, (size_t)m * e, (size_t)n, s));
    return MOAO_OK;
}

/* ---- inverses of diagonal blocks */

/* Order of the blocks that one thread block inverts in shared memory, and the bytes of it. */
template <class T> struct base_order { static const int value = sizeof(T) == 16 ? 64 : 128; };
template <class T> constexpr size_t base_bytes(int order) {
    return sizeof(T) * (size_t)(order * (order + 1) + order * order / 4);
}
#define INVERT_THREADS 256

/* The lower triangle of order 32 at s (leading dimension ld), inverted by one warp: lane j makes
 * column j. */
template <class T> __device__ void invert_32(T *s, int ld, bool unit) {
    const int j = threadIdx.x % 32;
    T x[32];
#pragma unroll
    for (int i = 0; i < 32; i++)
        x[i] = gpu_make<T>(i == j ? 1 : 0);
    const T mine = unit ? gpu_make<T>(1) : gpu_inverse(s[j + j * ld]);
    T *diagonal = s; /* s[k + k ld] is replaced by its inverse before use */
    __syncwarp();
    diagonal[j + j * ld] = mine;
    __syncwarp();
#pragma unroll
    for (int k = 0; k < 32; k++) {
        x[k] = k >= j ? gpu_mul(x[k], s[k + k * ld]) : x[k];
#pragma unroll
        for (int i = k + 1; i < 32; i++)
            x[i] = gpu_fma(gpu_neg(s[i + k * ld]), x[k], x[i]);
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 32; i++)
        s[i + j * ld] = i >= j ? x[i] : gpu_make<T>(0);
}

/* out(i, j) = sign * sum over k of left(i, k) right(k, j), all s x s in shared memory; one of the
 * factors is lower triangular, so that k runs from lo(j) or to hi(i). Threads own 4 x 4 entries, a
 * quarter of s apart. */
template <class T>
__device__ void product(int s, const T *left, int ldl, bool left_lower, const T *right, int ldr,
                        T *out, int ldo, bool negative, int tile) {
    const int q = s / 4, ti = tile % q, tj = tile / q;
    T acc[4][4];
#pragma unroll
    for (int r = 0; r < 4; r++)
#pragma unroll
        for (int c = 0; c < 4; c++)
            acc[r][c] = gpu_make<T>(0);
    const int from = left_lower ? 0 : tj, to = left_lower ? ti + 3 * q + 1 : s;
#pragma unroll 2
    for (int k = from; k < to; k++) {
        T l[4], u[4];
#pragma unroll
        for (int r = 0; r < 4; r++) {
            l[r] = left[ti + r * q + k * ldl];
            u[r] = right[k + (tj + r * q) * ldr];
        }
#pragma unroll
        for (int r = 0; r < 4; r++)
#pragma unroll
            for (int c = 0; c < 4; c++)
                acc[r][c] = gpu_fma(l[r], u[c], acc[r][c]);
    }
#pragma unroll
    for (int r = 0; r < 4; r++)
#pragma unroll
        for (int c = 0; c < 4; c++)
            out[ti + r * q + (tj + c * q) * ldo] = negative ? gpu_neg(acc[r][c]) : acc[r][c];
}

/* Block b: inverse of the b-th diagonal block of order NB, into its place in the nb x nb block of
 * inv that contains it. An upper triangle is handled as the lower triangle of its transpose. */
template <class T, int NB>
__global__ void __launch_bounds__(INVERT_THREADS)
    invert_base(bool upper, bool unit, int64_t n, const T *__restrict__ a, int64_t lda, int64_t nb,
                T *__restrict__ inv) {
    extern __shared__ __align__(16) unsigned char memory[];
    const int LD = NB + 1;
    T *s = (T *)memory, *t = s + NB * LD;
    const int64_t r0 = (int64_t)blockIdx.x * NB, inner = r0 % nb;
    const int order = (int)(n - r0 < NB ? n - r0 : NB), tid = threadIdx.x;
    a += r0 * (lda + 1);
    inv += (r0 / nb) * nb * nb + inner * nb;
    for (int e = tid; e < NB * NB; e += INVERT_THREADS) {
        const int mr = e % NB, mc = e / NB, i = upper ? mc : mr, j = upper ? mr : mc;
        T v = gpu_make<T>(i == j ? 1 : 0);
        if (i >= j && i < order && !(unit && i == j))
            v = a[mr + mc * lda];
        s[i + j * LD] = v;
    }
    __syncthreads();
    if (tid < NB)
        invert_32(s + (tid / 32) * 32 * (LD + 1), LD, unit);
    __syncthreads();
    for (int h = 32; h < NB; h *= 2) {
        const int per = (h / 4) * (h / 4), tiles = NB / (2 * h) * per;
        for (int e = tid; e < tiles; e += INVERT_THREADS) { /* t = L21 X11 */
            const T *pair = s + (e / per) * 2 * h * (LD + 1);
            product(h, pair + h, LD, false, pair, LD, t + (e / per) * h * h, h, false, e % per);
        }
        __syncthreads();
        for (int e = tid; e < tiles; e += INVERT_THREADS) { /* X21 = -X22 t */
            T *pair = s + (e / per) * 2 * h * (LD + 1);
            product(h, pair + h * (LD + 1), LD, true, t + (e / per) * h * h, h, pair + h, LD, true,
                    e % per);
        }
        __syncthreads();
    }
    for (int e = tid; e < NB * NB; e += INVERT_THREADS) {
        const int mr = e % NB, mc = e / NB;
        if (mr < order && mc < order)
            inv[inner + mr + mc * nb] = upper ? s[mc + mr * LD] : s[mr + mc * LD];
    }
    /* zeros in the other triangle of the nb x nb block: above this block, or below */
    const int64_t zero0 = upper ? inner + NB : 0, zeros = upper ? nb - zero0 : inner;
    for (int j = tid / 32; j < order; j += INVERT_THREADS / 32)
        for (int64_t i = tid % 32; i < zeros; i += 32)
            inv[zero0 + i + j * nb] = gpu_make<T>(0);
}

template <class T> static int64_t base_of() {
    constexpr int most = base_order<T>::value;
    return base_bytes<T>(most) <= gpu_shared_most() ? most : 64;
}

int64_t gpu_invert_base(backend_type t) {
    return GPU_DISPATCH(t, base_of);
}

size_t gpu_invert_tmp(backend_type t, int64_t n, int64_t nb) {
    const int64_t full = n / nb > 1 ? n / nb : 1;
    return (size_t)(full * (nb / 2) * (nb / 2)) * backend_size(t);
}

template <class T, int NB>
static status launch_order(cudaStream_t s, char uplo, char diag, int64_t n, const void *a,
                           int64_t lda, int64_t nb, void *inv) {
    const size_t shared = base_bytes<T>(NB);
    GPU_TRY(gpu_allow_shared((const void *)invert_base<T, NB>, shared));
    invert_base<T, NB><<<(unsigned)gpu_ceil(n, NB), INVERT_THREADS, shared, s>>>(
        uplo == 'U', diag == 'U', n, (const T *)a, lda, nb, (T *)inv);
    LAUNCHED();
    return MOAO_OK;
}

template <class T>
static status launch_base(cudaStream_t s, char uplo, char diag, int64_t n, const void *a,
                          int64_t lda, int64_t nb, void *inv) {
    return base_of<T>() == 64
               ? launch_order<T, 64>(s, uplo, diag, n, a, lda, nb, inv)
               : launch_order<T, base_order<T>::value>(s, uplo, diag, n, a, lda, nb, inv);
}

/* From inverses of order h to 2h: for `count` pairs, strides sa in a and si in inv, second parts of
 * order h2. */
static status combine(gpu_queue *q, backend_type t, char uplo, int64_t h, int64_t h2, const void *a,
                      int64_t lda, int64_t sa, void *inv, int64_t nb, int64_t si, void *tmp,
                      int64_t count) {
    const void *one = gpu_scalar(t, 1), *zero = gpu_scalar(t, 0), *minus = gpu_scalar(t, -1);
    void *x11 = inv, *x22 = gpu_at(t, inv, h, h, nb);
    if (uplo == 'L') { /* X21 = -X22 (A21 X11) */
        GPU_TRY(blas_gemm_strided(q, t, 'N', 'N', h2, h, h, one, gpu_at(t, a, h, 0, lda), lda, sa,
                                  x11, nb, si, zero, tmp, h2, h2 * h, count));
        return blas_gemm_strided(q, t, 'N', 'N', h2, h, h2, minus, x22, nb, si, tmp, h2, h2 * h,
                                 zero, gpu_at(t, inv, h, 0, nb), nb, si, count);
    }
    /* X12 = -X11 (A12 X22) */
    GPU_TRY(blas_gemm_strided(q, t, 'N', 'N', h, h2, h2, one, gpu_at(t, a, 0, h, lda), lda, sa, x22,
                              nb, si, zero, tmp, h, h * h2, count));
    return blas_gemm_strided(q, t, 'N', 'N', h, h2, h, minus, x11, nb, si, tmp, h, h * h2, zero,
                             gpu_at(t, inv, 0, h, nb), nb, si, count);
}

status gpu_invert_blocks(gpu_queue *q, backend_type t, char uplo, char diag, int64_t n,
                         const void *a, int64_t lda, int64_t nb, void *inv, void *tmp) {
    const int64_t full = n / nb, rest = n % nb;
    void *last = gpu_at(t, inv, 0, full * nb, nb);
    if (n == 0)
        return MOAO_OK;
    GPU_TRY(GPU_DISPATCH(t, launch_base, q->stream, uplo, diag, n, a, lda, nb, inv));
    for (int64_t h = gpu_invert_base(t); h < nb; h *= 2) {
        const int64_t pairs = nb / (2 * h);
        if (full >= pairs) {
            for (int64_t u = 0; u < pairs; u++)
                GPU_TRY(combine(q, t, uplo, h, h, gpu_at(t, a, 2 * h * u, 2 * h * u, lda), lda,
                                nb * (lda + 1), gpu_at(t, inv, 2 * h * u, 2 * h * u, nb), nb,
                                nb * nb, tmp, full));
        } else {
            for (int64_t b = 0; b < full; b++)
                GPU_TRY(combine(q, t, uplo, h, h, gpu_at(t, a, nb * b, nb * b, lda), lda,
                                2 * h * (lda + 1), gpu_at(t, inv, 0, nb * b, nb), nb,
                                2 * h * (nb + 1), tmp, pairs));
        }
        for (int64_t o = 0; o + h < rest; o += 2 * h)
            GPU_TRY(combine(q, t, uplo, h, gpu_min(h, rest - o - h),
                            gpu_at(t, a, full * nb + o, full * nb + o, lda), lda, 0,
                            gpu_at(t, last, o, o, nb), nb, 0, tmp, 1));
    }
    return MOAO_OK;
}

/* Tiles of the diagonal blocks, between a triangle and its blocks one after another. */
template <class T>
__global__ void block_tiles(bool upper, bool unit, int64_t n, int64_t nb, T *__restrict__ blocks,
                            T *__restrict__ a, int64_t lda, bool to_blocks) {
    const int64_t per = nb / TILE, tile = blockIdx.x % (per * per),
                  r0 = blockIdx.x / (per * per) * nb;
    const int64_t i = tile % per * TILE + threadIdx.x;
    for (int y = threadIdx.y; y < TILE; y += blockDim.y) {
        const int64_t j = tile / per * TILE + y;
        if (r0 + i >= n || r0 + j >= n)
            continue;
        const bool in = upper ? i <= j : i >= j, implied = unit && i == j;
        T *block = blocks + r0 * nb + i + j * nb, *place = a + r0 + i + (r0 + j) * lda;
        if (to_blocks)
            *block = implied ? gpu_make<T>(1) : in ? *place : gpu_make<T>(0);
        else if (in && !implied)
            *place = *block;
    }
}

template <class T>
static status move_blocks(cudaStream_t s, char uplo, char diag, int64_t n, int64_t nb, void *blocks,
                          void *a, int64_t lda, bool to_blocks) {
    const unsigned grid = (unsigned)(gpu_ceil(n, nb) * (nb / TILE) * (nb / TILE));
    block_tiles<T><<<grid, dim3(TILE, 8), 0, s>>>(uplo == 'U', diag == 'U', n, nb, (T *)blocks,
                                                  (T *)a, lda, to_blocks);
    LAUNCHED();
    return MOAO_OK;
}

status gpu_place_blocks(cudaStream_t s, backend_type t, char uplo, char diag, int64_t n, int64_t nb,
                        const void *inv, void *a, int64_t lda) {
    return n > 0 ? GPU_DISPATCH(t, move_blocks, s, uplo, diag, n, nb, (void *)inv, a, lda, false)
                 : MOAO_OK;
}

status gpu_dense_blocks(cudaStream_t s, backend_type t, char uplo, char diag, int64_t n, int64_t nb,
                        const void *a, int64_t lda, void *full) {
    return n > 0 ? GPU_DISPATCH(t, move_blocks, s, uplo, diag, n, nb, full, (void *)a, lda, true)
                 : MOAO_OK;
}
