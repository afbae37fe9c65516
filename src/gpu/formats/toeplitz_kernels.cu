/* Transforms of lines of lattices, T pairs of vectors at a time. */
#include "toeplitz.cuh"

#include "gpu/core/common.cuh"

#define THREADS 256

template <class R> struct pair_of;
template <> struct pair_of<double> { typedef double2 type; };
template <> struct pair_of<float> { typedef float2 type; };
template <class R> using cplx = typename pair_of<R>::type;

template <class C> __device__ inline C add(C a, C b) {
    return {a.x + b.x, a.y + b.y};
}
template <class C> __device__ inline C sub(C a, C b) {
    return {a.x - b.x, a.y - b.y};
}
template <class C> __device__ inline C times(C a, C w) {
    return {a.x * w.x - a.y * w.y, a.x * w.y + a.y * w.x};
}
/* -i a. */
template <class C> __device__ inline C turn(C a) {
    return {a.y, -a.x};
}
template <class C> __device__ inline C swapped(C a) {
    return {a.y, a.x};
}

/* In place, the transform of R numbers. */
template <class T, int RADIX> __device__ inline void small_transform(cplx<T> *x) {
    typedef cplx<T> C;
    if (RADIX == 2) {
        const C a = x[0], b = x[1];
        x[0] = add(a, b), x[1] = sub(a, b);
    } else if (RADIX == 4) {
        const C a = add(x[0], x[2]), b = sub(x[0], x[2]);
        const C c = add(x[1], x[3]), d = turn(sub(x[1], x[3]));
        x[0] = add(a, c), x[1] = add(b, d), x[2] = sub(a, c), x[3] = sub(b, d);
    } else if (RADIX == 3) {
        const T s = (T)0.86602540378443864676, h = (T)0.5;
        const C a = add(x[1], x[2]), d = turn(sub(x[1], x[2]));
        const C m = {x[0].x - h * a.x, x[0].y - h * a.y}, t = {s * d.x, s * d.y};
        x[0] = add(x[0], a), x[1] = add(m, t), x[2] = sub(m, t);
    } else {
        const T c1 = (T)0.30901699437494742410, c2 = (T)-0.80901699437494742410;
        const T s1 = (T)0.95105651629515357212, s2 = (T)0.58778525229247312917;
        const C a = add(x[1], x[4]), b = turn(sub(x[1], x[4]));
        const C c = add(x[2], x[3]), d = turn(sub(x[2], x[3]));
        const C m = {x[0].x + c1 * a.x + c2 * c.x, x[0].y + c1 * a.y + c2 * c.y};
        const C n = {x[0].x + c2 * a.x + c1 * c.x, x[0].y + c2 * a.y + c1 * c.y};
        const C t = {s1 * b.x + s2 * d.x, s1 * b.y + s2 * d.y};
        const C u = {s2 * b.x - s1 * d.x, s2 * b.y - s1 * d.y};
        x[0] = add(x[0], add(a, c));
        x[1] = add(m, t), x[4] = sub(m, t), x[2] = add(n, u), x[3] = sub(n, u);
    }
}

/* One step, as on the CPU (linalg/toeplitz_cpu_real.h): a thread takes a lane and some of the
 * groups. */
template <class T, int RADIX>
__device__ inline void step(int N, int done, int lanes, const cplx<T> *__restrict__ w,
                            const cplx<T> *from, cplx<T> *to) {
    const int m = N / (RADIX * done), lane = threadIdx.x % lanes, rows = THREADS / lanes;
    for (int b = threadIdx.x / lanes; b < m * done; b += rows) {
        const int j = b / done, k = b - j * done;
        cplx<T> x[RADIX];
#pragma unroll
        for (int q = 0; q < RADIX; q++)
            x[q] = from[(k + done * (j + q * m)) * lanes + lane];
        small_transform<T, RADIX>(x);
        cplx<T> *out = to + (k + done * RADIX * j) * lanes + lane;
        out[0] = x[0];
#pragma unroll
        for (int q = 1; q < RADIX; q++)
            out[done * q * lanes] = times(x[q], w[j * q * done]);
    }
    __syncthreads();
}

/* The transform of N x lanes numbers at x in shared memory, which all threads have written; y as
 * large. Where the result is. */
template <class T>
__device__ inline cplx<T> *transform(const toeplitz_device &d, cplx<T> *x, cplx<T> *y) {
    const cplx<T> *w = (const cplx<T> *)d.twiddle;
    int done = 1;
    __syncthreads();
    for (int i = 0; i < d.steps.n; i++) {
        const int r = d.steps.radix[i];
        if (r == 4)
            step<T, 4>(d.steps.order, done, d.lanes, w, x, y);
        else if (r == 2)
            step<T, 2>(d.steps.order, done, d.lanes, w, x, y);
        else if (r == 3)
            step<T, 3>(d.steps.order, done, d.lanes, w, x, y);
        else
            step<T, 5>(d.steps.order, done, d.lanes, w, x, y);
        done *= r;
        cplx<T> *t = x;
        x = y, y = t;
    }
    return x;
}

extern __shared__ double2 shared[];

#define EACH(k, lane, first, last)                                                                 \
    for (int k = (first) + threadIdx.x / d.lanes, lane = threadIdx.x % d.lanes; k < (last);        \
         k += THREADS / d.lanes)

/* --- symbols */

/* Entries as functions of the difference of places, wrapped, divided by N^2. */
template <class T>
__global__ void wrap_kernel(toeplitz_device d, const toeplitz_pair *__restrict__ pairs) {
    const int N = d.steps.order, dy = blockIdx.y, dx = blockIdx.x;
    /* number N - d of a wrapped axis belongs to the difference d of row and column */
    const int y = dy <= d.n - 1 ? -dy : N - dy, x = dx <= d.n - 1 ? -dx : N - dx;
    const bool inside = y < d.n && x < d.n;
    cplx<T> *to = (cplx<T> *)d.symbol + ((int64_t)dy * N + dx) * d.symbols;
    for (int k = threadIdx.x; k < d.symbols; k += blockDim.x) {
        T e = 0;
        if (inside && k < d.g * d.g) {
            const toeplitz_pair v = pairs[k % d.g * d.g + k / d.g]; /* row image k % g */
            const int sign = v.reversed ? -1 : 1;
            if (v.value != NULL && y % v.step == 0 && x % v.step == 0) {
                const int at = sign * y / v.step + v.origin, on = sign * x / v.step + v.origin;
                if (at >= 0 && on >= 0 && at < v.width && on < v.width)
                    e = (T)v.value[(int64_t)at * v.width + on] / (T)(N * N);
            }
        }
        to[k] = {e, 0};
    }
}

/* Lines of all symbols: numbers k of line i at i across + k along. */
template <class T> __global__ void symbol_kernel(toeplitz_device d, int across, int along) {
    const int N = d.steps.order;
    cplx<T> *x = (cplx<T> *)shared, *y = x + N * d.lanes;
    const int64_t from = (int64_t)blockIdx.y * d.lanes, left = d.symbols - from;
    cplx<T> *at = (cplx<T> *)d.symbol + (int64_t)blockIdx.x * across * d.symbols + from;
    EACH(k, lane, 0, N)
    if (lane < left)
        x[k * d.lanes + lane] = at[(int64_t)k * along * d.symbols + lane];
    const cplx<T> *done = transform<T>(d, x, y);
    EACH(k, lane, 0, N)
    if (lane < left)
        at[(int64_t)k * along * d.symbols + lane] = done[k * d.lanes + lane];
}

/* --- products */

/* Vectors v and v + 1 of a column. */
template <class T>
__device__ inline cplx<T> fetch(const toeplitz_job &q, int64_t v, int64_t column) {
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

/* Column x of an image's lattice, along y: to half. */
template <class T> __global__ void gather_kernel(toeplitz_device d, toeplitz_job q) {
    const int N = d.steps.order, i = blockIdx.y / d.n, at = blockIdx.y % d.n;
    cplx<T> *x = (cplx<T> *)shared, *y = x + N * d.lanes;
    const int64_t pair = (int64_t)blockIdx.x * d.lanes;
    const int *start = d.start + i * (d.n + 1) + at;
    EACH(k, lane, 0, N)
    x[k * d.lanes + lane] = {0, 0};
    __syncthreads();
    EACH(k, lane, start[0], start[1])
    x[d.y[k] * d.lanes + lane] = fetch<T>(q, q.first + 2 * (pair + lane), d.column[k]);
    const cplx<T> *done = transform<T>(d, x, y);
    cplx<T> *to = (cplx<T> *)q.half + ((int64_t)i * d.n + at) * q.pairs + pair;
    EACH(k, lane, 0, N)
    to[(int64_t)k * d.g * d.n * q.pairs + lane] = done[k * d.lanes + lane];
}

/* A row ky of an image's lattice, along x: half to full. */
template <class T> __global__ void along_kernel(toeplitz_device d, toeplitz_job q) {
    const int N = d.steps.order;
    const int64_t line = blockIdx.y, ky = line / d.g, i = line % d.g;
    cplx<T> *x = (cplx<T> *)shared, *y = x + N * d.lanes;
    const int64_t pair = (int64_t)blockIdx.x * d.lanes;
    const cplx<T> *from = (const cplx<T> *)q.half + line * d.n * q.pairs + pair;
    EACH(k, lane, 0, N)
    x[k * d.lanes + lane] = k < d.n ? from[k * q.pairs + lane] : cplx<T>{0, 0};
    const cplx<T> *done = transform<T>(d, x, y);
    cplx<T> *to = (cplx<T> *)q.full + (ky * N * d.g + i) * q.pairs + pair;
    EACH(k, lane, 0, N)
    to[(int64_t)k * d.g * q.pairs + lane] = done[k * d.lanes + lane];
}

/* Back: coupled to half, real and imaginary parts exchanged. */
template <class T> __global__ void back_kernel(toeplitz_device d, toeplitz_job q) {
    const int N = d.steps.order;
    const int64_t line = blockIdx.y, ky = line / d.g, i = line % d.g;
    cplx<T> *x = (cplx<T> *)shared, *y = x + N * d.lanes;
    const int64_t pair = (int64_t)blockIdx.x * d.lanes;
    const cplx<T> *from = (const cplx<T> *)q.coupled + (ky * N * d.g + i) * q.pairs + pair;
    EACH(k, lane, 0, N)
    x[k * d.lanes + lane] = swapped(from[(int64_t)k * d.g * q.pairs + lane]);
    const cplx<T> *done = transform<T>(d, x, y);
    cplx<T> *to = (cplx<T> *)q.half + line * d.n * q.pairs + pair;
    EACH(k, lane, 0, d.n)
    to[k * q.pairs + lane] = done[k * d.lanes + lane];
}

/* half to the columns of y. */
template <class T> __global__ void scatter_kernel(toeplitz_device d, toeplitz_job q) {
    const int N = d.steps.order, i = blockIdx.y / d.n, at = blockIdx.y % d.n;
    cplx<T> *x = (cplx<T> *)shared, *y = x + N * d.lanes;
    const int64_t pair = (int64_t)blockIdx.x * d.lanes;
    const cplx<T> *from = (const cplx<T> *)q.half + ((int64_t)i * d.n + at) * q.pairs + pair;
    const int *start = d.start + i * (d.n + 1) + at;
    EACH(k, lane, 0, N)
    x[k * d.lanes + lane] = from[(int64_t)k * d.g * d.n * q.pairs + lane];
    const cplx<T> *done = transform<T>(d, x, y);
    EACH(k, lane, start[0], start[1]) {
        const int64_t v = q.first + 2 * (pair + lane), column = d.column[k];
        cplx<T> z = swapped(done[d.y[k] * d.lanes + lane]);
        const int *list = d.diagonals_from + (q.turned ? d.g + 1 : 0) + i;
        for (int e = list[0]; e < list[1]; e++) {
            const toeplitz_diagonal g = d.diagonals[e];
            const T f = (T)g.value[column - d.first[i]];
            const cplx<T> b = fetch<T>(q, v, d.first[g.row] + column - d.first[i]);
            z.x += f * b.x, z.y += f * b.y;
        }
        z.x *= (T)q.alpha, z.y *= (T)q.alpha;
        put<T>(q, v, column, z);
    }
}

/* --- launches */

#define MOST_SHARED ((size_t)224 << 10)

static size_t shared_bytes(backend_type t, int order, int lanes) {
    return 2 * (size_t)order * lanes * 2 * backend_size(t);
}

int toeplitz_lanes(backend_type t, int order) {
    int lanes = t == BACKEND_D ? 16 : 32;
    while (lanes > 2 && shared_bytes(t, order, lanes) > MOST_SHARED / 2)
        lanes /= 2;
    return shared_bytes(t, order, lanes) <= MOST_SHARED ? lanes : 0;
}

template <class K> static status allow(K *kernel, size_t bytes) {
    CUDA_TRY(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes));
    return MOAO_OK;
}

template <class T>
static status spectra(cudaStream_t stream, const toeplitz_device *d, const toeplitz_pair *pairs) {
    const int N = d->steps.order;
    const size_t bytes = 2 * (size_t)N * d->lanes * sizeof(cplx<T>);
    const dim3 lines(N, (unsigned)gpu_ceil(d->symbols, d->lanes));
    wrap_kernel<T><<<dim3(N, N), 128, 0, stream>>>(*d, pairs);
    LAUNCHED();
    GPU_TRY(allow(symbol_kernel<T>, bytes));
    symbol_kernel<T><<<lines, THREADS, bytes, stream>>>(*d, N, 1);
    LAUNCHED();
    symbol_kernel<T><<<lines, THREADS, bytes, stream>>>(*d, 1, N);
    LAUNCHED();
    return MOAO_OK;
}

template <class T>
static status forward(cudaStream_t stream, const toeplitz_device *d, const toeplitz_job *q) {
    const size_t bytes = 2 * (size_t)d->steps.order * d->lanes * sizeof(cplx<T>);
    const unsigned tiles = (unsigned)(q->pairs / d->lanes);
    GPU_TRY(allow(gather_kernel<T>, bytes));
    gather_kernel<T><<<dim3(tiles, d->g * d->n), THREADS, bytes, stream>>>(*d, *q);
    LAUNCHED();
    GPU_TRY(allow(along_kernel<T>, bytes));
    along_kernel<T><<<dim3(tiles, d->g * d->steps.order), THREADS, bytes, stream>>>(*d, *q);
    LAUNCHED();
    return MOAO_OK;
}

template <class T>
static status backward(cudaStream_t stream, const toeplitz_device *d, const toeplitz_job *q) {
    const size_t bytes = 2 * (size_t)d->steps.order * d->lanes * sizeof(cplx<T>);
    const unsigned tiles = (unsigned)(q->pairs / d->lanes);
    GPU_TRY(allow(back_kernel<T>, bytes));
    back_kernel<T><<<dim3(tiles, d->g * d->steps.order), THREADS, bytes, stream>>>(*d, *q);
    LAUNCHED();
    GPU_TRY(allow(scatter_kernel<T>, bytes));
    scatter_kernel<T><<<dim3(tiles, d->g * d->n), THREADS, bytes, stream>>>(*d, *q);
    LAUNCHED();
    return MOAO_OK;
}

status toeplitz_spectra(cudaStream_t stream, backend_type t, const toeplitz_device *d,
                        const toeplitz_pair *pairs) {
    return GPU_DISPATCH_REAL(t, spectra, stream, d, pairs);
}

status toeplitz_forward(cudaStream_t stream, backend_type t, const toeplitz_device *d,
                        const toeplitz_job *q) {
    return GPU_DISPATCH_REAL(t, forward, stream, d, q);
}

status toeplitz_backward(cudaStream_t stream, backend_type t, const toeplitz_device *d,
                         const toeplitz_job *q) {
    return GPU_DISPATCH_REAL(t, backward, stream, d, q);
}
