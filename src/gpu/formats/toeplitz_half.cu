/* Block-Toeplitz products in halves on tensor cores. Scales keep every stage inside the range of
 * halves for vectors whose entries are up to 2^15 and not alike all over the lattice, and symbols
 * of which all may be near the largest; smaller ones lose nothing, for halves have 29 binary places
 * below 2^15. */
#include "toeplitz_half.cuh"

#include "toeplitz.cuh"
#include <mma.h>

#define THREADS 256
#define TILE 128 /* vectors of a coupling at a time */

/* --- matrices of the transforms */

__device__ inline __half cosine(int64_t k, int N, double scale, bool sine) {
    const double a = 2.0 * (double)(k % N) / N;
    return __double2half(scale * (sine ? sinpi(a) : cospi(a)));
}

/* e^(-i a) along y of a real line, and along x; back with e^(+i a). A thread an entry. */
__global__ void tables_kernel(toeplitz_halves h, double to_y, double to_x, double from_x) {
    const int n = h.n, nx = h.nx, N = h.N, K = h.K;
    const int step = gridDim.x * blockDim.x, thread = blockIdx.x * blockDim.x + threadIdx.x;
    for (int e = thread; e < h.ldy * 2 * K; e += step) { /* row y, column (ky, ri) */
        const int y = e % h.ldy, ky = e / h.ldy / 2, ri = e / h.ldy % 2;
        h.to_y[e] = y < n ? cosine((int64_t)y * ky, N, ri ? -to_y : to_y, ri) : __half(0.0f);
    }
    for (int e = thread; e < h.ldx * 2 * N; e += step) { /* row (ri, x), column (ri', kx) */
        const int row = e % h.ldx, ri = row / nx, x = row % nx, col = e / h.ldx, kx = col % N;
        const bool same = ri == col / N; /* re' = re c + im s, im' = im c - re s */
        const double s = same || ri == 1 ? to_x : -to_x;
        h.to_x[e] = row < 2 * nx && x < n ? cosine((int64_t)x * kx, N, s, !same) : __half(0.0f);
    }
    for (int e = thread; e < h.ldbx * 2 * nx; e += step) { /* row (ri, kx), column (ri', x) */
        const int row = e % h.ldbx, ri = row / N, kx = row % N, col = e / h.ldbx, x = col % nx;
        const bool same = ri == col / nx; /* re' = re c - im s, im' = im c + re s */
        const double s = same || ri == 0 ? from_x : -from_x;
        h.from_x[e] = row < 2 * N && x < n ? cosine((int64_t)x * kx, N, s, !same) : __half(0.0f);
    }
    for (int e = thread; e < h.ldby * n; e += step) { /* row (ky, ri), column y */
        const int row = e % h.ldby, ky = row / 2, ri = row % 2, y = e / h.ldby;
        const double w = ky == 0 || 2 * ky == N ? 1 : 2;
        h.from_y[e] = row < 2 * K ? cosine((int64_t)y * ky, N, ri ? -w : w, ri) : __half(0.0f);
    }
}

typedef struct {
    double to, from; /* of each transform to frequencies; of that along x back */
    double coupled;  /* of sums over images */
} scales;

/* Sums of n numbers grow as sqrt(n) where signs are mixed: after both transforms X is n^-0.6 of
 * what it was, unless it is alike all over the lattice, when it is n^0.4 of that. */
static scales scales_of(const toeplitz_halves *h) {
    const double bits = log2((double)h->n), images = log2(2.0 * h->g);
    return scales{exp2(-ceil(0.8 * bits)), 0.5 * exp2(-ceil(0.5 * log2((double)h->N))),
                  exp2(floor(0.6 * bits - 0.5 * images) - 17)};
}

status toeplitz_half_tables(cudaStream_t stream, const toeplitz_halves *h) {
    const scales s = scales_of(h);
    tables_kernel<<<512, THREADS, 0, stream>>>(*h, s.to, s.to, s.from);
    LAUNCHED();
    return MOAO_OK;
}

/* What sums have been multiplied by at the end, the symbols' scale not counted. */
static float gain(const toeplitz_halves *h) {
    const scales s = scales_of(h);
    return (float)(s.to * s.to * s.from * s.coupled);
}

/* --- symbols */

/* Floats that are not negative are in the order of their bits. */
__global__ void largest_kernel(int64_t count, const float2 *a, int *out) {
    float most = 0;
    for (int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x; i < count;
         i += gridDim.x * (int64_t)THREADS)
        most = fmaxf(most, fmaxf(fabsf(a[i].x), fabsf(a[i].y)));
    for (int step = 16; step > 0; step /= 2)
        most = fmaxf(most, __shfl_xor_sync(~0u, most, step));
    if (threadIdx.x % 32 == 0)
        atomicMax(out, __float_as_int(most));
}

/* A power of two that brings the largest near 2^15, and its inverse. */
__global__ void scale_kernel(float *scale) {
    int e;
    frexpf(scale[0], &e);
    scale[0] = scale[0] > 0 ? ldexpf(1, 15 - e) : 1;
    scale[1] = 1 / scale[0];
}

/* Rows (c, ri) of columns (r, ri'): out = sum in (re + i im), as a real matrix. */
__global__ void symbols_kernel(toeplitz_halves h, const float2 *spectra, int64_t stride) {
    const int64_t f = blockIdx.x; /* ky N + kx */
    const float s = h.scale[0];
    for (int e = threadIdx.x; e < h.order * h.order; e += blockDim.x) {
        const int in = e / h.order, out = e % h.order; /* out fastest */
        const int r = in / 2, c = out / 2;
        float v = 0;
        if (r < h.g && c < h.g) {
            const float2 z = spectra[f * stride + c * h.g + r];
            v = in % 2 == out % 2 ? z.x : in % 2 == 0 ? z.y : -z.y;
        }
        h.symbol[f * h.order * h.order + e] = __float2half(s * v);
    }
}

status toeplitz_half_symbols(cudaStream_t stream, const toeplitz_halves *h, const float2 *spectra,
                             int64_t stride) {
    CUDA_TRY(cudaMemsetAsync(h->scale, 0, 2 * sizeof(float), stream));
    largest_kernel<<<256, THREADS, 0, stream>>>((int64_t)h->K * h->N * stride, spectra,
                                                (int *)h->scale);
    LAUNCHED();
    scale_kernel<<<1, 1, 0, stream>>>(h->scale);
    LAUNCHED();
    symbols_kernel<<<h->K * h->N, THREADS, 0, stream>>>(*h, spectra, stride);
    LAUNCHED();
    return MOAO_OK;
}

/* --- products */

/* Rows of X to their places: a block takes PLACES places of an image, a thread 8 vectors. */
#define PLACES 4
__global__ void lattice_kernel(toeplitz_halves h, int64_t V, int64_t left, bool whole,
                               const __half *x, int64_t ldx, __half *lattice) {
    const int i = blockIdx.y, place = blockIdx.x * PLACES + threadIdx.y;
    const int y = place / h.nx, at = place % h.nx;
    if (y >= h.n)
        return;
    const int row = at < h.n ? h.at[(i * h.n + y) * h.n + at] : -1;
    __half *to = lattice + (((int64_t)i * h.n + y) * h.nx + at) * V;
    const __half *from = x + (h.first[i] + row) * ldx;
    for (int64_t v = 8 * threadIdx.x; v < V; v += 8 * blockDim.x) {
        uint4 z = {0, 0, 0, 0};
        if (row >= 0 && whole)
            z = *(const uint4 *)(from + v);
        __half *one = (__half *)&z;
        for (int k = 0; k < 8 && row >= 0 && !whole; k++)
            one[k] = v + k < left ? from[v + k] : __half(0.0f);
        *(uint4 *)(to + v) = z;
    }
}

/* Sums of all images at one frequency, TILE vectors of a block; a warp makes 16 rows. */
__global__ void couple_kernel(toeplitz_halves h, int64_t V, float scale, const __half *full,
                              __half *coupled) {
    using namespace nvcuda;
    extern __shared__ __align__(128) char memory[];
    const int order = h.order, lda = TILE + 8;
    __half *in = (__half *)memory;            /* [order][lda] */
    float *out = (float *)(in + order * lda); /* [order][TILE + 4] */
    const int ldo = TILE + 4;
    const int64_t f = blockIdx.y, ky = f / h.N, kx = f % h.N, v0 = blockIdx.x * (int64_t)TILE;
    const int64_t image = (int64_t)h.K * 2 * h.N * V;
    const int64_t at = (ky * 2 * h.N + kx) * V + v0; /* of image 0, real */
    for (int e = threadIdx.x; e < order * (TILE / 2); e += THREADS) {
        const int c = e / (TILE / 2), v = e % (TILE / 2) * 2;
        __half2 z = __float2half2_rn(0);
        if (c < 2 * h.g)
            z = *(const __half2 *)(full + at + c / 2 * image + c % 2 * h.N * V + v);
        *(__half2 *)(in + c * lda + v) = z;
    }
    __syncthreads();
    const __half *s = h.symbol + f * order * order;
    const int warp = threadIdx.x / 32, tiles = order / 16;
    for (int t = warp; t < TILE / 16 * tiles; t += THREADS / 32) {
        const int row = t % (TILE / 16) * 16, col = t / (TILE / 16) * 16;
        wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
        wmma::fill_fragment(c, 0.0f);
        for (int k = 0; k < order; k += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::col_major> a;
            wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> b;
            wmma::load_matrix_sync(a, in + k * lda + row, lda);
            wmma::load_matrix_sync(b, s + k * order + col, order);
            wmma::mma_sync(c, a, b, c);
        }
        wmma::store_matrix_sync(out + col * ldo + row, c, ldo, wmma::mem_col_major);
    }
    __syncthreads();
    for (int e = threadIdx.x; e < 2 * h.g * (TILE / 2); e += THREADS) {
        const int c = e / (TILE / 2), v = e % (TILE / 2) * 2;
        const float *z = out + c * ldo + v;
        *(__half2 *)(coupled + at + c / 2 * image + c % 2 * h.N * V + v) =
            __floats2half2_rn(scale * z[0], scale * z[1]);
    }
}

/* Places of the lattice to the columns of Y, with the diagonals: a block takes a row of the matrix.
 */
__global__ void columns_kernel(toeplitz_halves h, int64_t V, int64_t left, float alpha, float scale,
                               const float *sums, const int *diagonals_from,
                               const toeplitz_diagonal *diagonals, const __half *x, int64_t ldx,
                               float beta, float *y, int64_t ldy) {
    const int i = h.image[blockIdx.x], place = h.place[blockIdx.x];
    const int64_t column = h.column[blockIdx.x], row = column - h.first[i];
    const float *from = sums + (((int64_t)i * h.n + place / h.n) * h.nx + place % h.n) * V;
    float *to = y + column * ldy;
    const float f = alpha * scale * h.scale[1];
    for (int64_t v = threadIdx.x; v < left; v += blockDim.x) {
        float e = f * from[v];
        for (int k = diagonals_from[i]; k < diagonals_from[i + 1]; k++)
            e += alpha * (float)diagonals[k].value[row] *
                 __half2float(x[(h.first[diagonals[k].row] + row) * ldx + v]);
        to[v] = beta != 0 ? e + beta * to[v] : e;
    }
}

/* Halves of the arrays of V vectors. */
static size_t lattice_size(const toeplitz_halves *h, int64_t V) {
    return gpu_align(sizeof(__half) * h->g * h->n * h->nx * V);
}
static size_t lines_size(const toeplitz_halves *h, int64_t V) {
    return gpu_align(sizeof(__half) * h->g * h->K * 2 * h->nx * V);
}
static size_t full_size(const toeplitz_halves *h, int64_t V) {
    return gpu_align(sizeof(__half) * h->g * h->K * 2 * h->N * V);
}

static int64_t vectors(int64_t nvec) {
    return gpu_min(gpu_ceil(nvec, TILE) * TILE, TOEPLITZ_VECTORS);
}

size_t toeplitz_half_work(const toeplitz_halves *h, int64_t nvec) {
    const int64_t V = vectors(nvec);
    return 2 * lattice_size(h, V) + lines_size(h, V) + 2 * full_size(h, V);
}

static status product(gpu_queue *q, int64_t m, int64_t n, int64_t k, const __half *a, int64_t lda,
                      int64_t sa, const __half *b, int64_t ldb, void *c, cudaDataType_t tc,
                      int64_t ldc, int64_t sc, int64_t count) {
    const float one = 1, none = 0;
    BLAS_TRY(cublasGemmStridedBatchedEx(q->blas, CUBLAS_OP_N, CUBLAS_OP_N, (int)m, (int)n, (int)k,
                                        &one, a, CUDA_R_16F, (int)lda, sa, b, CUDA_R_16F, (int)ldb,
                                        0, &none, c, tc, (int)ldc, sc, (int)count,
                                        CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
    return MOAO_OK;
}

/* Up to V vectors. */
static status some(gpu_queue *q, const toeplitz_halves *h, const int *diagonals_from,
                   const toeplitz_diagonal *diagonals, int64_t V, int64_t left, float alpha,
                   const __half *x, int64_t ldx, float beta, float *y, int64_t ldy, char *work) {
    const int64_t n = h->n, N = h->N, K = h->K, g = h->g, row = h->nx * V;
    __half *lattice = (__half *)work; /* and sums: twice the room */
    __half *lines = (__half *)(work + 2 * lattice_size(h, V));
    __half *full = (__half *)((char *)lines + lines_size(h, V));
    __half *coupled = (__half *)((char *)full + full_size(h, V));
    const size_t shared = h->order * ((TILE + 8) * sizeof(__half) + (TILE + 4) * sizeof(float));
    const bool whole = left == V && ldx % 8 == 0 && (size_t)x % 16 == 0;
    lattice_kernel<<<dim3((unsigned)gpu_ceil(n * h->nx, PLACES), (unsigned)g), dim3(64, PLACES), 0,
                     q->stream>>>(*h, V, left, whole, x, ldx, lattice);
    LAUNCHED();
    GPU_TRY(product(q, row, 2 * K, n, lattice, row, n * row, h->to_y, h->ldy, lines, CUDA_R_16F,
                    row, 2 * K * row, g));
    GPU_TRY(product(q, V, 2 * N, 2 * h->nx, lines, V, 2 * row, h->to_x, h->ldx, full, CUDA_R_16F, V,
                    2 * N * V, g * K));
    CUDA_TRY(cudaFuncSetAttribute(couple_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  (int)shared));
    couple_kernel<<<dim3((unsigned)(V / TILE), (unsigned)(K * N)), THREADS, shared, q->stream>>>(
        *h, V, (float)scales_of(h).coupled, full, coupled);
    LAUNCHED();
    GPU_TRY(product(q, V, 2 * h->nx, 2 * N, coupled, V, 2 * N * V, h->from_x, h->ldbx, lines,
                    CUDA_R_16F, V, 2 * row, g * K));
    GPU_TRY(product(q, row, n, 2 * K, lines, row, 2 * K * row, h->from_y, h->ldby, lattice,
                    CUDA_R_32F, row, n * row, g));
    columns_kernel<<<(unsigned)h->total, 128, 0, q->stream>>>(
        *h, V, left, alpha, 1 / gain(h), (const float *)lattice, diagonals_from, diagonals, x, ldx,
        beta, y, ldy);
    LAUNCHED();
    return MOAO_OK;
}

status toeplitz_half_apply(gpu_queue *q, const toeplitz_halves *h, const int *diagonals_from,
                           const struct toeplitz_diagonal *diagonals, int64_t nvec, float alpha,
                           const __half *x, int64_t ldx, float beta, float *y, int64_t ldy,
                           char *work) {
    const int64_t V = vectors(nvec);
    if (h->total == 0)
        return MOAO_OK;
    for (int64_t v = 0; v < nvec; v += V)
        GPU_TRY(some(q, h, diagonals_from, diagonals, V, gpu_min(V, nvec - v), alpha, x + v, ldx,
                     beta, y + v, ldy, work));
    return MOAO_OK;
}
