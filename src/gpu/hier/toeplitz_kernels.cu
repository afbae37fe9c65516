/* Transforms of lines of lattices, T pairs of vectors at a time. */
#include "toeplitz_transform.cuh"

#include "gpu/core/common.cuh"
#include "toeplitz_launch.cuh"
#include <cuda_fp16.h>

#define THREADS 256

extern __shared__ __align__(16) unsigned char shared[];

/* --- symbols */

/* Entries as functions of the difference of places, wrapped, divided by N^2. half: times e^(-i pi
 * (x + y) / N), which moves frequencies by half a step. */
template <class T>
__global__ void wrap_kernel(toeplitz_device d, const toeplitz_pair *__restrict__ pairs, bool half) {
    const int N = d.steps.order, dy = blockIdx.y, dx = blockIdx.x;
    /* number N - d of a wrapped axis belongs to the difference d of row and column */
    const int y = dy <= d.n - 1 ? -dy : N - dy, x = dx <= d.n - 1 ? -dx : N - dx;
    const bool inside = y < d.n && x < d.n;
    cplx<T> *to = (cplx<T> *)d.symbol + ((int64_t)dy * N + dx) * d.symbols;
    double re = 1, im = 0;
    if (half)
        sincospi((double)(x + y) / N, &im, &re);
    for (int k = threadIdx.x; k < d.symbols; k += blockDim.x) {
        const int one = k / d.gp, other = k % d.gp;
        const int column = d.by_row ? other : one, row = d.by_row ? one : other;
        double e = 0;
        if (inside && column < d.g && row < d.g) {
            const toeplitz_pair v = pairs[row * d.g + column];
            const int sign = v.reversed ? -1 : 1;
            if (v.value != NULL && y % v.step == 0 && x % v.step == 0) {
                const int at = sign * y / v.step + v.origin, on = sign * x / v.step + v.origin;
                if (at >= 0 && on >= 0 && at < v.width && on < v.width)
                    e = v.value[(int64_t)at * v.width + on] / ((double)N * N);
            }
        }
        to[k] = {(T)(e * re), (T)(e * im)};
    }
}

/* Lines of all symbols: numbers k of line i at i across + k along. */
template <class T>
__global__ void __launch_bounds__(THREADS) symbol_kernel(toeplitz_device d, int across, int along) {
    const int64_t from = (int64_t)blockIdx.y * d.lanes, left = d.symbols - from;
    cplx<T> *at = (cplx<T> *)d.symbol + (int64_t)blockIdx.x * across * d.symbols + from;
    transform<T, true>(
        d, (cplx<T> *)shared,
        [&](int k, int lane) {
            return lane < left ? at[(int64_t)k * along * d.symbols + lane] : cplx<T>{0, 0};
        },
        [&](int k, int lane, cplx<T> z) {
            if (lane < left)
                at[(int64_t)k * along * d.symbols + lane] = z;
        });
}

/* --- products */

/* Vectors v and v + 1 of a column; from halves: X of FP16 numbers. */
template <class T>
__device__ inline cplx<T> fetch(const toeplitz_job &q, int64_t v, int64_t column) {
    if (q.fp16) {
        const __half *x = (const __half *)q.x + v * q.xv + column * q.xc;
        return {v < q.nvec ? (T)__half2float(x[0]) : (T)0,
                v + 1 < q.nvec ? (T)__half2float(x[q.xv]) : (T)0};
    }
    const T *x = (const T *)q.x + v * q.xv + column * q.xc;
    if (q.xv == 1 && v + 1 < q.nvec && (size_t)x % sizeof(cplx<T>) == 0)
        return *(const cplx<T> *)x;
    return {v < q.nvec ? x[0] : (T)0, v + 1 < q.nvec ? x[q.xv] : (T)0};
}

template <class T>
__device__ inline void put(const toeplitz_job &q, int64_t v, int64_t column, cplx<T> z) {
    T *y = (T *)q.y + v * q.yv + column * q.yc;
    const T beta = (T)q.beta;
    if (q.yv == 1 && v + 1 < q.nvec && (size_t)y % sizeof(cplx<T>) == 0) {
        cplx<T> *two = (cplx<T> *)y;
        if (q.beta != 0)
            z.x += beta * two->x, z.y += beta * two->y;
        *two = z;
        return;
    }
    if (v < q.nvec)
        y[0] = q.beta != 0 ? z.x + beta * y[0] : z.x;
    if (v + 1 < q.nvec)
        y[q.yv] = q.beta != 0 ? z.y + beta * y[q.yv] : z.y;
}

template <class T> constexpr int blocks_of = sizeof(T) == 8 ? 2 : 3;
/* Of a block of the kernels along y. */
template <class T> constexpr int most_threads = sizeof(T) == 8 ? THREADS : 320;

/* Column x of an image's lattice, along y: to half. */
template <class T>
__global__ void __launch_bounds__(most_threads<T>, blocks_of<T>)
    gather_kernel(toeplitz_device d, toeplitz_job q) {
    const int64_t pair = (int64_t)blockIdx.x * d.lanes, image = blockIdx.y / d.n,
                  first = d.first[image];
    const int *at = d.at + (int64_t)blockIdx.y * d.n;
    cplx<T> *to = (cplx<T> *)q.half + blockIdx.y * q.pairs + pair;
    transform<T, false>(
        d, (cplx<T> *)shared,
        [&](int k, int lane) {
            const int row = k < d.n ? at[k] : -1;
            return row >= 0 ? fetch<T>(q, q.first + 2 * (pair + lane), first + row) : cplx<T>{0, 0};
        },
        [&](int k, int lane, cplx<T> z) { to[(int64_t)k * d.g * d.n * q.pairs + lane] = z; });
}

/* A row ky of an image's lattice, along x: half to full. */
template <class T>
__global__ void __launch_bounds__(THREADS, blocks_of<T>)
    along_kernel(toeplitz_device d, toeplitz_job q) {
    const int64_t pair = (int64_t)blockIdx.x * d.lanes, ky = blockIdx.y / d.g, i = blockIdx.y % d.g;
    const cplx<T> *from = (const cplx<T> *)q.half + (int64_t)blockIdx.y * d.n * q.pairs + pair;
    cplx<T> *to = (cplx<T> *)q.full + (ky * d.steps.order * d.g + i) * q.pairs + pair;
    transform<T, true>(
        d, (cplx<T> *)shared,
        [&](int k, int lane) {
            return k < d.n ? from[k * q.pairs + lane] : cplx<T>{0, 0};
        },
        [&](int k, int lane, cplx<T> z) { to[(int64_t)k * d.g * q.pairs + lane] = z; });
}

/* Back: coupled to half, real and imaginary parts exchanged. */
template <class T>
__global__ void __launch_bounds__(THREADS, blocks_of<T>)
    back_kernel(toeplitz_device d, toeplitz_job q) {
    const int64_t pair = (int64_t)blockIdx.x * d.lanes, ky = blockIdx.y / d.g, i = blockIdx.y % d.g;
    const cplx<T> *from =
        (const cplx<T> *)q.coupled + (ky * d.steps.order * d.g + i) * q.pairs + pair;
    cplx<T> *to = (cplx<T> *)q.half + (int64_t)blockIdx.y * d.n * q.pairs + pair;
    transform<T, true>(
        d, (cplx<T> *)shared,
        [&](int k, int lane) { return swapped(from[(int64_t)k * d.g * q.pairs + lane]); },
        [&](int k, int lane, cplx<T> z) {
            if (k < d.n)
                to[k * q.pairs + lane] = z;
        });
}

/* half to the columns of y. */
template <class T>
__global__ void __launch_bounds__(most_threads<T>, blocks_of<T>)
    scatter_kernel(toeplitz_device d, toeplitz_job q) {
    const int64_t pair = (int64_t)blockIdx.x * d.lanes, image = blockIdx.y / d.n,
                  first = d.first[image];
    const int *at = d.at + (int64_t)blockIdx.y * d.n;
    const cplx<T> *from = (const cplx<T> *)q.half + blockIdx.y * q.pairs + pair;
    const int *list = d.diagonals_from + (q.turned ? d.g + 1 : 0) + image;
    const int begin = list[0], end = list[1];
    transform<T, false>(
        d, (cplx<T> *)shared,
        [&](int k, int lane) { return from[(int64_t)k * d.g * d.n * q.pairs + lane]; },
        [&](int k, int lane, cplx<T> z) {
            const int64_t v = q.first + 2 * (pair + lane);
            const int row = k < d.n && v < q.nvec ? at[k] : -1;
            if (row < 0)
                return;
            z = swapped(z);
            for (int e = begin; e < end; e++) {
                const toeplitz_diagonal g = d.diagonals[e];
                const T f = (T)g.value[row];
                const cplx<T> b = fetch<T>(q, v, d.first[g.row] + row);
                z.x += f * b.x, z.y += f * b.y;
            }
            z.x *= (T)q.alpha, z.y *= (T)q.alpha;
            put<T>(q, v, first + row, z);
        });
}

/* --- launches */

template <class T> static size_t line_bytes(const toeplitz_device *d, const toeplitz_steps &steps) {
    return (size_t)toeplitz_line_numbers(steps) * d->lanes * sizeof(cplx<T>);
}

int toeplitz_lanes(backend_type t, const toeplitz_steps *s) {
    const size_t one = toeplitz_line_numbers(*s) * 2 * backend_size(t);
    int lanes = t == BACKEND_D ? 16 : 32;
    while (lanes > 2 && one * lanes > toeplitz_shared() / 2)
        lanes /= 2;
    return one * lanes <= toeplitz_shared() ? lanes : 0;
}

template <class T>
static status spectra(cudaStream_t stream, const toeplitz_device *d, const toeplitz_pair *pairs,
                      bool half) {
    const int N = d->steps.order;
    const dim3 lines(N, (unsigned)gpu_ceil(d->symbols, d->lanes));
    GPU_TRY(toeplitz_launch(stream, dim3(N, N), 128, 0, wrap_kernel<T>, *d, pairs, half));
    GPU_TRY(toeplitz_launch(stream, lines, THREADS, line_bytes<T>(d, d->small), symbol_kernel<T>,
                            *d, N, 1));
    return toeplitz_launch(stream, lines, THREADS, line_bytes<T>(d, d->small), symbol_kernel<T>, *d,
                           1, N);
}

/* A kernel of lines: `lines` of all pairs. */
template <class T>
static status lines(cudaStream_t stream, void (*kernel)(toeplitz_device, toeplitz_job), int count,
                    const toeplitz_device *d, const toeplitz_steps &steps, const toeplitz_job *q,
                    int threads = THREADS) {
    return toeplitz_launch(stream, dim3((unsigned)(q->pairs / d->lanes), (unsigned)count), threads,
                           line_bytes<T>(d, steps), kernel, *d, *q);
}

/* So many that they make the first step, the one with memory's latency, all at once. */
template <class T> static int threads_of(const toeplitz_device *d) {
    const int all = d->lanes * (d->steps.order / d->steps.radix[0]);
    return all > THREADS && all <= most_threads<T> ? all : THREADS;
}
template <class T>
static status forward(cudaStream_t stream, const toeplitz_device *d, const toeplitz_job *q) {
    return lines<T>(stream, gather_kernel<T>, d->g * d->n, d, d->steps, q, threads_of<T>(d));
}
template <class T>
static status along(cudaStream_t stream, const toeplitz_device *d, const toeplitz_job *q) {
    return lines<T>(stream, along_kernel<T>, d->g * d->steps.order, d, d->small, q);
}
template <class T>
static status back(cudaStream_t stream, const toeplitz_device *d, const toeplitz_job *q) {
    return lines<T>(stream, back_kernel<T>, d->g * d->steps.order, d, d->small, q);
}
template <class T>
static status backward(cudaStream_t stream, const toeplitz_device *d, const toeplitz_job *q) {
    return lines<T>(stream, scatter_kernel<T>, d->g * d->n, d, d->steps, q, threads_of<T>(d));
}

status toeplitz_spectra(cudaStream_t stream, backend_type t, const toeplitz_device *d,
                        const toeplitz_pair *pairs, bool half) {
    return GPU_DISPATCH_REAL(t, spectra, stream, d, pairs, half);
}
status toeplitz_forward(cudaStream_t stream, backend_type t, const toeplitz_device *d,
                        const toeplitz_job *q) {
    return GPU_DISPATCH_REAL(t, forward, stream, d, q);
}
status toeplitz_along(cudaStream_t stream, backend_type t, const toeplitz_device *d,
                      const toeplitz_job *q) {
    return GPU_DISPATCH_REAL(t, along, stream, d, q);
}
status toeplitz_back(cudaStream_t stream, backend_type t, const toeplitz_device *d,
                     const toeplitz_job *q) {
    return GPU_DISPATCH_REAL(t, back, stream, d, q);
}
status toeplitz_backward(cudaStream_t stream, backend_type t, const toeplitz_device *d,
                         const toeplitz_job *q) {
    return GPU_DISPATCH_REAL(t, backward, stream, d, q);
}
