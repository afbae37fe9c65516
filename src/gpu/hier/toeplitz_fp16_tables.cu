/* What products of block-Toeplitz matrices in FP16 multiply with: matrices of the transforms, and
 * couplings of images. */
#include "toeplitz_fp16.cuh"

#include "toeplitz_launch.cuh"
#include "toeplitz_tensor.cuh"

#define THREADS 256

/* --- sizes */

size_t toeplitz_fp16_along_y(int n, int N) {
    return (size_t)(N / 16) * toeplitz_tiles(n) * 32;
}
size_t toeplitz_fp16_along_x(int n, int N) {
    return (size_t)toeplitz_tiles(N / 2) * toeplitz_tiles(n) * 2 * 32;
}
size_t toeplitz_fp16_symbol(int N) {
    return (size_t)(N / 2) * (N / 2) * 4 * 32;
}
size_t toeplitz_fp16_rest(int N) {
    return (size_t)toeplitz_low(N) * toeplitz_low(N) * 4 * 32;
}

/* --- matrices of the transforms */

/* The half above or below v. */
__device__ inline float rounded(float v, int up) {
    return __half2float(up ? __float2half_ru(v) : __float2half_rd(v));
}

/* A thread a wave: cosines and sines at frequency k + 1/2, places x. Roundings to the nearest half
 * are the same ones for all vectors, and do not cancel: along the wave itself they shift the
 * variances of a covariance by up to 9e-5. Each number is rounded up or down so that the sum of the
 * errors so far, as seen from the wave (times its conjugate), stays least; what is left changes
 * fast along x, where a covariance has nothing, and shifts variances by 2e-6. */
__global__ void waves_kernel(toeplitz_fp16 h) {
    const int k = blockIdx.x * blockDim.x + threadIdx.x;
    float sum[2] = {}; /* re, im */
    for (int x = 0; x < h.n && k < h.N / 2; x++) {
        const double a = (double)((2 * k + 1) * x % (2 * h.N)) / h.N;
        const float c = (float)cospi(a), s = (float)sinpi(a);
        float least = INFINITY, to[2] = {}, after[2] = {};
        for (int way = 0; way < 4; way++) {
            const float rc = rounded(c, way & 1), rs = rounded(s, way >> 1);
            const float dc = rc - c, ds = rs - s;
            const float re = sum[0] + (dc * c + ds * s), im = sum[1] + (dc * s - ds * c);
            if (re * re + im * im < least) {
                least = re * re + im * im;
                to[0] = rc, to[1] = rs, after[0] = re, after[1] = im;
            }
        }
        h.wave[k * h.n + x] = __floats2half2_rn(to[0], to[1]);
        sum[0] = after[0], sum[1] = after[1];
    }
}

/* Cosine (or sine) at frequency k + 1/2 and place x of the lattice; 0 beyond. */
__device__ inline float wave(const toeplitz_fp16 &h, int k, int x, bool sine) {
    if (k >= h.N / 2 || x >= h.n)
        return 0;
    const float2 w = __half22float2(h.wave[k * h.n + x]);
    return sine ? w.y : w.x;
}

/* Element e of the fragments' halves: its row and column in the tile. */
struct element {
    int row, column;
    __device__ element(int lane, int i, int e)
        : row(lane / 4 + 8 * (i % 2)), column(2 * (lane % 4) + e + 8 * (i / 2)) {
    }
};

/* A fragment of which f(row, column) are the elements. */
template <class F> __device__ inline uint4 fragment_of(int lane, F f) {
    unsigned int r[4];
    for (int i = 0; i < 4; i++) {
        const element a(lane, i, 0), b(lane, i, 1);
        r[i] = two_fp16(f(a.row, a.column), f(b.row, b.column));
    }
    return uint4{r[0], r[1], r[2], r[3]};
}

/* A thread a lane of a fragment. Along y, real and imaginary parts of 8 frequencies are a tile. */
__global__ void tables_kernel(toeplitz_fp16 h) {
    const int n = h.n, N = h.N, nt = toeplitz_tiles(n), ht = toeplitz_tiles(N / 2), yt = N / 16;
    const int step = gridDim.x * blockDim.x, thread = blockIdx.x * blockDim.x + threadIdx.x;
    const int lane = thread % 32;
    for (int f = thread / 32; f < yt * nt; f += step / 32) {
        const int one = f / nt, other = f % nt; /* to_y: tile of frequencies, of places */
        h.to_y[f * 32 + lane] = fragment_of(lane, [&](int row, int column) {
            const int ky = 8 * one + row % 8, y = 16 * other + column;
            return row < 8 ? wave(h, ky, y, false) : -wave(h, ky, y, true);
        });
        const int places = f / yt, waves = f % yt;
        h.from_y[f * 32 + lane] = fragment_of(lane, [&](int row, int column) {
            const int ky = 8 * waves + column % 8, y = 16 * places + row;
            return column < 8 ? 2 * wave(h, ky, y, false) : -2 * wave(h, ky, y, true);
        });
    }
    for (int f = thread / 32; f < 2 * nt * ht; f += step / 32) { /* a lane a row of a matrix */
        const int k = 16 * (f / 2 / nt) + lane / 8 % 2 * 8 + lane % 8;
        const int x = 16 * (f / 2 % nt) + lane / 16 * 8;
        unsigned int r[4];
        for (int e = 0; e < 4; e++) {
            const int at = x + 2 * e;
            r[e] = two_fp16(wave(h, k, at, f % 2 == 1), wave(h, k, at + 1, f % 2 == 1));
        }
        h.along_x[f * 32 + lane] = uint4{r[0], r[1], r[2], r[3]};
    }
}

status toeplitz_fp16_tables(cudaStream_t stream, const toeplitz_fp16 *h) {
    GPU_TRY(toeplitz_launch(stream, dim3((h->N / 2 + 31) / 32), 32, 0, waves_kernel, *h));
    return toeplitz_launch(stream, dim3(64), THREADS, 0, tables_kernel, *h);
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
    if (threadIdx.x > 0)
        return;
    frexpf(scale[0], &e);
    scale[0] = scale[0] > 0 ? ldexpf(1, 15 - e) : 1;
    scale[1] = 1 / scale[0];
}

/* A block: a frequency and its opposite along x; a thread a lane of one of the four fragments, of
 * which a row is the image of a column of the matrix. Low frequencies have a rest. */
__global__ void symbols_kernel(toeplitz_fp16 h, const float2 *spectra, int gp, int64_t stride) {
    const int half = h.N / 2, k = blockIdx.x, ky = blockIdx.y;
    const int f = threadIdx.x / 32, lane = threadIdx.x % 32;
    const float2 *from = spectra + ((int64_t)ky * h.N + (f / 2 ? h.N - 1 - k : k)) * stride;
    const float s = h.scale[0];
    const auto value = [&](int row, int column) {
        if (row >= h.g || column >= h.g)
            return 0.0f;
        const float2 z = from[row * gp + column];
        return s * (f % 2 ? z.y : z.x);
    };
    const int low = toeplitz_low(h.N);
    h.symbol[((int64_t)ky * half + k) * 128 + threadIdx.x] = fragment_of(lane, value);
    if (ky < low && k < low)
        h.rest[(ky * low + k) * 128 + threadIdx.x] = fragment_of(lane, [&](int row, int column) {
            const float z = value(row, column);
            return z - __half2float(__float2half(z));
        });
}

status toeplitz_fp16_symbols(cudaStream_t stream, const toeplitz_fp16 *h, const float2 *spectra,
                             int gp, int64_t stride) {
    const int half = h->N / 2;
    CUDA_TRY(cudaMemsetAsync(h->scale, 0, 2 * sizeof(float), stream));
    GPU_TRY(toeplitz_launch(stream, dim3(256), THREADS, 0, largest_kernel,
                            (int64_t)half * h->N * stride, spectra, (int *)h->scale));
    GPU_TRY(toeplitz_launch(stream, dim3(1), 32, 0, scale_kernel, h->scale));
    return toeplitz_launch(stream, dim3(half, half), 128, 0, symbols_kernel, *h, spectra, gp,
                           stride);
}
