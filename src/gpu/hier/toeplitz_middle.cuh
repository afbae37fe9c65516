/* Lines ky of all images of a few pairs of vectors: along x, the coupling of images at each
 * frequency, and back, in one block. The way back takes the steps of the way there in the opposite
 * order, which is the same transform, for its matrix is symmetric: so every step finds its numbers
 * where the one before has left them, and none needs a second array. */
#ifndef MOAO_GPU_TOEPLITZ_MIDDLE_CUH
#define MOAO_GPU_TOEPLITZ_MIDDLE_CUH

#include "toeplitz_transform.cuh"

#include "gpu/core/common.cuh"
#include "toeplitz_launch.cuh"

#define THREADS 512
#define RUN 64 /* bytes of the pairs of a block, at most */

extern __shared__ __align__(16) unsigned char shared[];

/* Where a line's numbers lie: k + pitch q for k < radix[0], that is k + radix[0] q, and with
 * `lanes` pairs innermost. */
struct lines_of {
    int g, m, lanes, pitch, step; /* m: N / radix[0]; step: from image to image */
};

template <class T, int R>
__device__ inline void there_first(const toeplitz_device &d, const lines_of &l, int64_t pairs,
                                   const cplx<T> *from, cplx<T> *s) {
    const cplx<T> *w = (const cplx<T> *)d.twiddle;
    const int lane = threadIdx.x % l.lanes;
    for (int b = threadIdx.x / l.lanes; b < l.g * l.m; b += THREADS / l.lanes) {
        const int i = b / l.m, j = b - i * l.m;
        const cplx<T> *line = from + (int64_t)i * d.n * pairs + lane;
        cplx<T> x[R];
#pragma unroll
        for (int q = 0; q < R; q++)
            x[q] = j + q * l.m < d.n ? line[(j + q * l.m) * pairs] : cplx<T>{0, 0};
        small_transform<T, R>(x);
        cplx<T> *to = s + i * l.step + l.pitch * j * l.lanes + lane;
        to[0] = x[0];
#pragma unroll
        for (int q = 1; q < R; q++)
            to[q * l.lanes] = times(x[q], w[j * q]);
    }
}

/* The last step there, and the first one back: radix R = N / radix[0], in place. */
template <class T, int R>
__device__ inline void inner(const toeplitz_device &d, const lines_of &l, cplx<T> *s) {
    const int r = d.steps.radix[0], lane = threadIdx.x % l.lanes;
    for (int b = threadIdx.x / l.lanes; b < l.g * r; b += THREADS / l.lanes) {
        const int i = b / r, k = b - i * r;
        cplx<T> *line = s + i * l.step + k * l.lanes + lane;
        cplx<T> x[R];
#pragma unroll
        for (int q = 0; q < R; q++)
            x[q] = line[l.pitch * q * l.lanes];
        small_transform<T, R>(x);
#pragma unroll
        for (int q = 0; q < R; q++)
            line[l.pitch * q * l.lanes] = x[q];
    }
}

template <class T, int R>
__device__ inline void back_last(const toeplitz_device &d, const lines_of &l, int64_t pairs,
                                 const cplx<T> *s, cplx<T> *to) {
    const cplx<T> *w = (const cplx<T> *)d.twiddle;
    const int lane = threadIdx.x % l.lanes;
    for (int b = threadIdx.x / l.lanes; b < l.g * l.m; b += THREADS / l.lanes) {
        const int i = b / l.m, j = b - i * l.m;
        const cplx<T> *from = s + i * l.step + l.pitch * j * l.lanes + lane;
        cplx<T> x[R];
        x[0] = from[0];
#pragma unroll
        for (int q = 1; q < R; q++)
            x[q] = times(from[q * l.lanes], w[j * q]);
        small_transform<T, R>(x);
        cplx<T> *line = to + (int64_t)i * d.n * pairs + lane;
#pragma unroll
        for (int q = 0; q < R; q++)
            if (j + q * l.m < d.n)
                line[(j + q * l.m) * pairs] = x[q];
    }
}

/* 16 bytes: one or two pairs of vectors. */
template <class T> struct unit;
template <> struct unit<double> {
    double2 a;
    __device__ void fma(double2 s, const unit &z) {
        a.x += s.x * z.a.x - s.y * z.a.y, a.y += s.x * z.a.y + s.y * z.a.x;
    }
    __device__ unit exchanged() const {
        return unit{{a.y, a.x}};
    }
};
template <> struct unit<float> {
    float4 a;
    __device__ void fma(float2 s, const unit &z) {
        a.x += s.x * z.a.x - s.y * z.a.y, a.y += s.x * z.a.y + s.y * z.a.x;
        a.z += s.x * z.a.z - s.y * z.a.w, a.w += s.x * z.a.w + s.y * z.a.z;
    }
    __device__ unit exchanged() const {
        return unit{{a.y, a.x, a.w, a.z}};
    }
};
#define UNITS (RUN / 16)

/* All images at each frequency of the line; a thread makes one image of all pairs at one frequency.
 * Symbols are of G images, 0 beyond those there are. Results have real and imaginary parts
 * exchanged. */
template <class T, int G>
__device__ inline void couple(const toeplitz_device &d, const lines_of &l, bool turned,
                              const cplx<T> *__restrict__ symbols, cplx<T> *s) {
    const int slots = THREADS / G, slot = threadIdx.x / G, c = threadIdx.x % G;
    const int r = d.steps.radix[0], N = d.steps.order;
    const int image = l.step * (int)sizeof(cplx<T>) / 16;
    const int step = turned ? 1 : G;
    const T sign = turned ? -1 : 1;
    for (int k0 = 0; k0 < N; k0 += slots) {
        const int k = k0 + slot;
        const bool mine = slot < slots && k < N && c < d.g;
        unit<T> *at = (unit<T> *)s + (k + k / r * (l.pitch - r)) * UNITS, sum[UNITS] = {};
        if (mine) {
            const cplx<T> *symbol = symbols + k * d.symbols + (turned ? c * G : c);
#pragma unroll
            for (int i = 0; i < G; i++) {
                const cplx<T> z = symbol[i * step];
                const unit<T> *from = at + min(i, d.g - 1) * image;
#pragma unroll
                for (int u = 0; u < UNITS; u++)
                    sum[u].fma(cplx<T>{z.x, sign * z.y}, from[u]);
            }
        }
        __syncthreads(); /* before the images of these frequencies go */
#pragma unroll
        for (int u = 0; mine && u < UNITS; u++)
            at[c * image + u] = sum[u].exchanged();
    }
}

/* KEPT: X's lines are in q.kept, which stays as it is; else in q.half. */
template <class T, int G, bool KEPT>
__global__ void __launch_bounds__(THREADS, 1)
    middle_kernel(toeplitz_device d, toeplitz_middle m, toeplitz_job q) {
    const int N = d.steps.order, R = d.steps.radix[0];
    const lines_of l = {d.g, N / R, m.lanes, m.pitch, m.step};
    const int64_t ky = blockIdx.y;
    cplx<T> *lines = (cplx<T> *)q.half + ky * d.g * d.n * q.pairs + (int64_t)blockIdx.x * m.lanes;
    const cplx<T> *in =
        KEPT ? (const cplx<T> *)q.kept + ky * d.g * d.n * q.pairs + (int64_t)blockIdx.x * m.lanes
             : lines;
    cplx<T> *s = (cplx<T> *)shared;
#define FIRST(R) there_first<T, R>(d, l, q.pairs, in, s)
    TOEPLITZ_RADIX(R, FIRST)
#undef FIRST
    __syncthreads();
#define INNER(R) inner<T, R>(d, l, s)
    TOEPLITZ_RADIX(d.steps.radix[1], INNER)
    __syncthreads();
    couple<T, G>(d, l, q.turned, (const cplx<T> *)d.symbol + ky * N * d.symbols, s);
    __syncthreads();
    TOEPLITZ_RADIX(d.steps.radix[1], INNER)
#undef INNER
    __syncthreads();
#define LAST(R) back_last<T, R>(d, l, q.pairs, s, lines)
    TOEPLITZ_RADIX(R, LAST)
#undef LAST
}

static inline size_t middle_bytes(backend_type t, const toeplitz_middle *m, int g) {
    return (size_t)m->step * g * 2 * backend_size(t);
}

template <class T, bool KEPT>
static status middle(cudaStream_t stream, const toeplitz_device *d, const toeplitz_middle *m,
                     const toeplitz_job *q) {
    const backend_type t = sizeof(T) == 8 ? BACKEND_D : BACKEND_S;
    const dim3 grid((unsigned)(q->pairs / m->lanes), (unsigned)d->steps.order);
    return toeplitz_launch(
        stream, grid, THREADS, middle_bytes(t, m, d->g),
        m->images == 12 ? middle_kernel<T, 12, KEPT> : middle_kernel<T, 16, KEPT>, *d, *m, *q);
}

#endif
