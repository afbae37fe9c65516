/* Lines ky of all images of a few pairs of vectors: along x, the coupling of images at each
 * frequency, and back, in one block. The way back takes the steps of the way there in the opposite
 * order, which is the same transform, for its matrix is symmetric: so every step finds its numbers
 * where the one before has left them, and none needs a second array. */
#include "toeplitz_transform.cuh"

#include "gpu/core/common.cuh"
#include "toeplitz_launch.cuh"

#define THREADS 512
#define RUN 64 /* bytes of the pairs of a block, at most */

extern __shared__ __align__(16) unsigned char shared[];

/* Where a line's numbers lie: k + pitch q for k < radix[0], that is k + radix[0] q, and with
 * `lanes` pairs innermost. */
struct lines_of {
    int g, m, lanes, pitch, rows; /* m: N / radix[0] */
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
        cplx<T> *to = s + (i * l.rows + l.pitch * j) * l.lanes + lane;
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
        cplx<T> *line = s + (i * l.rows + k) * l.lanes + lane;
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
        const cplx<T> *from = s + (i * l.rows + l.pitch * j) * l.lanes + lane;
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

/* 16 bytes: pairs of vectors that a thread couples. */
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

/* Two numbers of a symbol. */
__device__ inline void two(const double2 *s, double2 *to) {
    to[0] = s[0], to[1] = s[1];
}
__device__ inline void two(const float2 *s, float2 *to) {
    const float4 f = *(const float4 *)s;
    to[0] = {f.x, f.y}, to[1] = {f.z, f.w};
}

/* All images at each frequency of the line, at most G; a thread takes a unit of them all, so that
 * results go where the images were. Results have real and imaginary parts exchanged. */
template <class T, int G>
__device__ inline void couple(const toeplitz_device &d, const lines_of &l, bool turned,
                              const cplx<T> *symbols, cplx<T> *s) {
    const int units = l.lanes * (int)sizeof(cplx<T>) / 16, u = threadIdx.x % units;
    const int r = d.steps.radix[0], N = d.steps.order, line = l.rows * units;
    for (int k = threadIdx.x / units; k < N; k += THREADS / units) {
        unit<T> *at = (unit<T> *)s + (k + k / r * (l.pitch - r)) * units + u, in[G];
        const cplx<T> *symbol = symbols + k * d.symbols;
#pragma unroll
        for (int i = 0; i < G; i++)
            in[i] = i < d.g ? at[i * line] : unit<T>{};
        for (int c = 0; c < d.g; c++) {
            unit<T> sum = {};
            if (!turned) {
#pragma unroll
                for (int i = 0; i < G; i += 2) {
                    cplx<T> two_of[2];
                    if (i >= d.gp)
                        break;
                    two(symbol + c * d.gp + i, two_of);
                    sum.fma(two_of[0], in[i]);
                    sum.fma(two_of[1], in[i + 1]);
                }
            } else {
#pragma unroll
                for (int i = 0; i < G; i++) {
                    if (i >= d.g)
                        break;
                    const cplx<T> z = symbol[i * d.gp + c];
                    sum.fma(cplx<T>{z.x, -z.y}, in[i]);
                }
            }
            at[c * line] = sum.exchanged();
        }
    }
}

template <class T, int G>
__global__ void __launch_bounds__(THREADS, 1)
    middle_kernel(toeplitz_device d, toeplitz_middle m, toeplitz_job q) {
    const int N = d.steps.order, R = d.steps.radix[0];
    const lines_of l = {d.g, N / R, m.lanes, m.pitch, m.rows};
    const int64_t ky = blockIdx.y;
    cplx<T> *lines = (cplx<T> *)q.half + ky * d.g * d.n * q.pairs + (int64_t)blockIdx.x * m.lanes;
    cplx<T> *s = (cplx<T> *)shared;
#define FIRST(R) there_first<T, R>(d, l, q.pairs, lines, s)
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

toeplitz_middle toeplitz_middle_of(backend_type t, const toeplitz_steps *s, int g) {
    const int number = 2 * (int)backend_size(t), R = s->radix[0];
    toeplitz_middle m = {};
    m.pitch = R | 1; /* so that runs of neighbouring steps are in different banks */
    m.rows = m.pitch * (s->order / R);
    if (s->n != 2 || g > 16)
        return m;
    m.lanes = RUN / number;
    while (m.lanes * number > 16 && (size_t)m.rows * g * m.lanes * number > TOEPLITZ_SHARED)
        m.lanes /= 2;
    if ((size_t)m.rows * g * m.lanes * number > TOEPLITZ_SHARED)
        m.lanes = 0;
    return m;
}

template <class T>
static status middle(cudaStream_t stream, const toeplitz_device *d, const toeplitz_middle *m,
                     const toeplitz_job *q) {
    const size_t bytes = (size_t)m->rows * d->g * m->lanes * sizeof(cplx<T>);
    const dim3 grid((unsigned)(q->pairs / m->lanes), (unsigned)d->steps.order);
    return toeplitz_launch(stream, grid, THREADS, bytes,
                           d->g <= 12 ? middle_kernel<T, 12> : middle_kernel<T, 16>, *d, *m, *q);
}

status toeplitz_couple(cudaStream_t stream, backend_type t, const toeplitz_device *d,
                       const toeplitz_middle *m, const toeplitz_job *q) {
    return GPU_DISPATCH_REAL(t, middle, stream, d, m, q);
}
