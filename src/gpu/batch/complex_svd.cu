/* Batched singular value decompositions of complex matrices: one-sided Jacobi rotations (Demmel and
 * Veselic 1992, SIAM J. Matrix Anal. Appl. 13, 1204), a thread block for each matrix at a time, a
 * warp for each pair of columns. B = A, or A^H where that is wide, is rotated in the workspace, and
 * V with it. Pairs meet in the order of a tournament, which begins with columns by size; sums are
 * in double precision. One plain kernel: what the real types do with tensor cores and registers
 * would have to be made anew for entries of twice the size. */
#include "gpu/batch/batch_device.cuh"
#include "gpu/batch/batch_gpu.h"
#include <float.h>

namespace complex_svd {

constexpr int THREADS = 256, WARPS = THREADS / 32, COLS = BATCH_SVD_MAX, SWEEPS = 30, BLOCKS = 2;

template <typename R> struct entry { R x, y; };

/* A matrix is scaled so that its largest part is near 2^TOP; values up to FLOOR count as zero. */
template <typename R> struct range;
template <> struct range<double> {
    static constexpr int TOP = 450;
    static constexpr double EPS = 0x1p-53, FLOOR = 0x1p-480;
};
template <> struct range<float> {
    static constexpr int TOP = 50;
    static constexpr double EPS = 0x1p-24, FLOOR = 0x1p-100;
};

struct Args {
    void *const *a, *const *s, *const *left, *const *right;
    int64_t lda, ldl, ldr, count;
    int *info;
    char *work;
    size_t slot;
    int m, n, rows, cols;
    char jobl, jobr;
    bool turned, by_left;
};

struct Shared {
    double square[COLS], most[COLS], red[WARPS];
    double cos, sin;      /* a phase */
    int column[COLS + 1]; /* which column is at a place of the tournament */
    int place[COLS];      /* which value a column has */
    int bad, moved;
};

template <typename R> struct Place {
    entry<R> *X, *V;
    int rows, cols;
    __device__ entry<R> *x(int j) const {
        return X + (int64_t)j * rows;
    }
    __device__ entry<R> *v(int j) const {
        return V + (int64_t)j * cols;
    }
};

__device__ inline double sum_of(double x) {
#pragma unroll
    for (int d = 16; d; d >>= 1)
        x += __shfl_xor_sync(0xffffffffu, x, d);
    return x;
}

/* X := B times 2^shift; the shift, or sh.bad: the first column of A that is not finite. */
template <typename R> __device__ int load(const Args &a, const Place<R> &p, int64_t b, Shared &sh) {
    const entry<R> *const A = (const entry<R> *)a.a[b];
    const int tid = (int)threadIdx.x;
    double top = 0.0;
    if (tid == 0)
        sh.bad = INT32_MAX;
    __syncthreads();
    for (int64_t e = tid; e < (int64_t)a.m * a.n; e += THREADS) {
        const int i = (int)(e % a.m), j = (int)(e / a.m);
        const entry<R> z = A[i + j * a.lda];
        const double here = fmax(fabs((double)z.x), fabs((double)z.y));
        if (!(fabs((double)z.x) <= DBL_MAX && fabs((double)z.y) <= DBL_MAX))
            atomicMin(&sh.bad, j + 1);
        top = fmax(top, here);
    }
#pragma unroll
    for (int d = 16; d; d >>= 1)
        top = fmax(top, __shfl_xor_sync(0xffffffffu, top, d));
    if (tid % 32 == 0)
        sh.red[tid / 32] = top;
    __syncthreads();
    for (int w = 0; w < WARPS; w++)
        top = fmax(top, sh.red[w]);
    if (sh.bad != INT32_MAX)
        return 0;
    const int shift = top > 0.0 ? range<R>::TOP - ilogb(top) : 0;
    const R first = (R)scalbn(1.0, shift / 2), second = (R)scalbn(1.0, shift - shift / 2);
    for (int64_t e = tid; e < (int64_t)a.m * a.n; e += THREADS) {
        const int i = (int)(e % a.m), j = (int)(e / a.m);
        const entry<R> z = A[i + j * a.lda];
        const entry<R> y = {z.x * first * second, (a.turned ? -z.y : z.y) * first * second};
        (a.turned ? p.x(i)[j] : p.x(j)[i]) = y;
    }
    __syncthreads();
    return shift;
}

/* Squares of all columns, and the places of these by size. */
template <typename R> __device__ void order(const Place<R> &p, Shared &sh) {
    const int lane = (int)threadIdx.x % 32;
    for (int j = (int)threadIdx.x / 32; j < p.cols; j += WARPS) {
        double s = 0.0;
        for (int i = lane; i < p.rows; i += 32) {
            const entry<R> z = p.x(j)[i];
            s += (double)z.x * z.x + (double)z.y * z.y;
        }
        s = sum_of(s);
        if (lane == 0)
            sh.square[j] = s;
    }
    __syncthreads();
    for (int j = (int)threadIdx.x; j < p.cols; j += THREADS) {
        const double mine = sh.square[j];
        int before = 0;
        for (int k = 0; k < p.cols; k++)
            before += sh.square[k] > mine || (sh.square[k] == mine && k < j);
        sh.place[j] = before;
    }
    __syncthreads();
}

/* x := c x - s e^-it y, y := s x + c e^-it y, (ex, ey) = e^-it. */
template <typename R>
__device__ void rotate(entry<R> *x, entry<R> *y, int n, R c, R s, R ex, R ey, int lane) {
    for (int i = lane; i < n; i += 32) {
        const entry<R> p = x[i], z = y[i], q = {ex * z.x - ey * z.y, ex * z.y + ey * z.x};
        x[i] = {c * p.x - s * q.x, c * p.y - s * q.y};
        y[i] = {s * p.x + c * q.x, s * p.y + c * q.y};
    }
}

/* Columns i and j, orthogonal; by one warp. Whether they were not. */
template <typename R>
__device__ bool pair(const Place<R> &p, int i, int j, bool vectors, double tol, Shared &sh,
                     int lane) {
    entry<R> *const x = p.x(i), *const y = p.x(j);
    double xx = 0.0, yy = 0.0, re = 0.0, im = 0.0; /* x^H x, y^H y, x^H y */
    for (int k = lane; k < p.rows; k += 32) {
        const double a = x[k].x, b = x[k].y, c = y[k].x, d = y[k].y;
        xx += a * a + b * b, yy += c * c + d * d;
        re += a * c + b * d, im += a * d - b * c;
    }
    xx = sum_of(xx), yy = sum_of(yy), re = sum_of(re), im = sum_of(im);
    constexpr double floor = range<R>::FLOOR * range<R>::FLOOR,
                     noise = 1024.0 * range<R>::EPS * range<R>::EPS;
    const double most_x = fmax(sh.most[i], xx), most_y = fmax(sh.most[j], yy);
    const bool drop_x = xx > 0.0 && (xx <= noise * most_x || xx <= floor),
               drop_y = yy > 0.0 && (yy <= noise * most_y || yy <= floor);
    __syncwarp();
    if (lane == 0)
        sh.most[i] = most_x, sh.most[j] = most_y;
    if (drop_x || drop_y) { /* no more than rounding errors are left of it */
        for (int k = lane; k < p.rows; k += 32) {
            if (drop_x)
                x[k] = {R(0), R(0)};
            if (drop_y)
                y[k] = {R(0), R(0)};
        }
        return true;
    }
    if (xx == 0.0 || yy == 0.0)
        return false;
    const double off = hypot(re, im);
    if (!(off > tol * sqrt(xx) * sqrt(yy)))
        return false;
    const double zeta = 0.5 * ((yy - xx) / off), size = fabs(zeta),
                 t = copysign(size > 1e150 ? 0.5 / size : 1.0 / (size + sqrt(1.0 + size * size)),
                              zeta),
                 c = 1.0 / sqrt(1.0 + t * t);
    const R ex = (R)(re / off), ey = (R)(-im / off);
    rotate<R>(x, y, p.rows, (R)c, (R)(c * t), ex, ey, lane);
    if (vectors)
        rotate<R>(p.v(i), p.v(j), p.cols, (R)c, (R)(c * t), ex, ey, lane);
    return true;
}

/* Sweeps until all columns are orthogonal; whether SWEEPS were enough. */
template <typename R> __device__ bool sweeps(const Place<R> &p, bool vectors, Shared &sh) {
    const int tid = (int)threadIdx.x, warp = tid / 32, lane = tid % 32, seats = p.cols + p.cols % 2;
    const double root = sqrt((double)p.cols), tol = range<R>::EPS * (root > 10.0 ? root : 10.0);
    for (int j = tid; j < p.cols; j += THREADS) {
        sh.column[sh.place[j]] = j;
        sh.most[j] = 0.0;
    }
    if (tid == 0 && seats > p.cols)
        sh.column[p.cols] = -1;
    for (int sweep = 0; sweep < SWEEPS; sweep++) {
        __syncthreads();
        if (tid == 0)
            sh.moved = 0;
        __syncthreads();
        for (int step = 0; step < seats - 1; step++) {
            for (int k = warp; k < seats / 2; k += WARPS) {
                const int n = seats - 1, u = k == 0 ? n : (step + k) % n, v = (step - k + n) % n,
                          i = sh.column[u < v ? u : v], j = sh.column[u < v ? v : u];
                if (i >= 0 && j >= 0 && pair(p, i, j, vectors, tol, sh, lane) && lane == 0)
                    sh.moved = 1;
            }
            __syncthreads();
        }
        if (!sh.moved)
            return true;
    }
    return p.cols < 2;
}

/* sh.cos + i sh.sin: what makes the entry of largest modulus (the first of equals) of z real and
 * positive. By warp 0. */
template <typename R> __device__ entry<double> phase_of(const entry<R> *z, int n, int lane) {
    double top = -1.0;
    int at = INT32_MAX;
    for (int i = lane; i < n; i += 32) {
        const double size = (double)z[i].x * z[i].x + (double)z[i].y * z[i].y;
        if (size > top)
            top = size, at = i;
    }
#pragma unroll
    for (int d = 16; d; d >>= 1) {
        const double t = __shfl_xor_sync(0xffffffffu, top, d);
        const int o = __shfl_xor_sync(0xffffffffu, at, d);
        if (t > top || (t == top && o < at))
            top = t, at = o;
    }
    if (!(top > 0.0))
        return {1.0, 0.0};
    const double size = sqrt(top);
    return {(double)z[at].x / size, -(double)z[at].y / size};
}
template <typename R>
__device__ void put(entry<R> *to, const entry<R> *z, int n, entry<double> phase, double factor,
                    int lane) {
    const double c = phase.x * factor, s = phase.y * factor;
    for (int i = lane; i < n; i += 32)
        to[i] = {(R)(c * z[i].x - s * z[i].y), (R)(c * z[i].y + s * z[i].x)};
}

/* Column p of U, whose value is 0: a unit vector less its projections on the columns before it,
 * made orthogonal twice. One of them has at least 1 / rows of its square left. */
template <typename R>
__device__ void complete(entry<R> *U, int64_t ld, int rows, int p, entry<R> *z, Shared &sh) {
    const int tid = (int)threadIdx.x, warp = tid / 32, lane = tid % 32;
    for (int k = 0; k < rows; k++) {
        for (int i = tid; i < rows; i += THREADS)
            z[i] = {R(i == k), R(0)};
        __syncthreads();
        double left = 0.0;
        for (int pass = 0; pass < 2; pass++)
            for (int j = 0; j < p; j++) {
                const entry<R> *const u = U + j * ld;
                double re = 0.0, im = 0.0;
                for (int i = lane; i < rows; i += 32) {
                    re += (double)u[i].x * z[i].x + (double)u[i].y * z[i].y;
                    im += (double)u[i].x * z[i].y - (double)u[i].y * z[i].x;
                }
                re = sum_of(re), im = sum_of(im);
                __syncthreads(); /* all warps have the same product */
                for (int i = tid; i < rows; i += THREADS)
                    z[i] = {(R)(z[i].x - (re * u[i].x - im * u[i].y)),
                            (R)(z[i].y - (re * u[i].y + im * u[i].x))};
                __syncthreads();
            }
        for (int i = lane; i < rows; i += 32)
            left += (double)z[i].x * z[i].x + (double)z[i].y * z[i].y;
        left = sum_of(left);
        if (left * rows > 0.5) {
            if (warp == 0)
                put(U + p * ld, z, rows, phase_of(z, rows, lane), 1.0 / sqrt(left), lane);
            break;
        }
        __syncthreads();
    }
    (void)sh;
    __syncthreads();
}

template <typename R>
__device__ void results(const Args &a, const Place<R> &p, int64_t b, int shift, Shared &sh) {
    const int lane = (int)threadIdx.x % 32;
    R *const values = (R *)a.s[b];
    entry<R> *const left = a.jobl == 'N' ? nullptr : (entry<R> *)a.left[b],
                    *const right = a.jobr == 'N' ? nullptr : (entry<R> *)a.right[b];
    order(p, sh);
    for (int j = (int)threadIdx.x / 32; j < p.cols; j += WARPS) {
        const double root = sqrt(sh.square[j]), s = root > range<R>::FLOOR ? root : 0.0,
                     out = (double)(R)scalbn(s, -shift);
        const int at = sh.place[j];
        const entry<double> phase = a.by_left       ? phase_of(p.x(j), p.rows, lane)
                                    : a.jobr != 'N' ? phase_of(p.v(j), p.cols, lane)
                                                    : entry<double>{1.0, 0.0};
        if (lane == 0)
            values[at] = (R)out;
        if (left && (s > 0.0 || a.jobl == 'S'))
            put(left + at * a.ldl, p.x(j), p.rows, phase,
                s > 0.0 ? (a.jobl == 'S' ? out : 1.0) / s : 0.0, lane);
        if (right)
            put(right + at * a.ldr, p.v(j), p.cols, phase, a.jobr == 'S' ? out : 1.0, lane);
    }
    __syncthreads();
    int r = 0;
    for (int j = 0; j < p.cols; j++)
        r += sqrt(sh.square[j]) > range<R>::FLOOR;
    if (left && a.jobl == 'U')
        for (; r < p.cols; r++)
            complete(left, a.ldl, p.rows, r, p.X, sh);
}

template <typename R>
static __global__ void __launch_bounds__(THREADS, BLOCKS)
    svd_kernel(const __grid_constant__ Args a) {
    __shared__ Shared sh;
    Place<R> p;
    const bool vectors = a.jobr != 'N';
    p.rows = a.rows, p.cols = a.cols;
    p.X = (entry<R> *)(a.work + blockIdx.x * a.slot);
    p.V = p.X + (int64_t)a.rows * a.cols;
    batch::wait_for_predecessor();
    for (int64_t b = blockIdx.x; b < a.count; b += gridDim.x) {
        const int shift = load(a, p, b, sh), bad = sh.bad;
        bool done = true;
        if (bad == INT32_MAX) {
            for (int64_t e = threadIdx.x; vectors && e < (int64_t)a.cols * a.cols; e += THREADS)
                p.V[e] = {R(e / a.cols == e % a.cols), R(0)};
            order(p, sh);
            done = sweeps(p, vectors, sh);
            __syncthreads();
            results(a, p, b, shift, sh);
        }
        if (threadIdx.x == 0)
            a.info[b] = bad != INT32_MAX ? bad : done ? 0 : -2;
        __syncthreads();
    }
}

} // namespace complex_svd

status gpu_complex_gesvj(backend_ctx *ctx, backend_type t, char jobu, char jobv, int64_t count,
                         int64_t m, int64_t n, void *const *a, int64_t lda, void *const *s,
                         void *const *u, int64_t ldu, void *const *v, int64_t ldv, int *info,
                         void *work, size_t lwork) {
    using namespace complex_svd;
    gpu_batch_call call(ctx);
    const bool turned = m < n;
    Args g = {};
    g.a = a, g.s = s, g.left = turned ? v : u, g.right = turned ? u : v;
    g.lda = lda, g.ldl = turned ? ldv : ldu, g.ldr = turned ? ldu : ldv;
    g.count = count, g.info = info, g.work = (char *)work,
    g.slot = complex_gesvj_bytes(NULL, t, 1, m, n);
    g.m = (int)m, g.n = (int)n, g.rows = (int)(turned ? n : m), g.cols = (int)(turned ? m : n);
    g.jobl = turned ? jobv : jobu, g.jobr = turned ? jobu : jobv;
    g.turned = turned, g.by_left = (jobu != 'N') == !turned;
    const int64_t room = (int64_t)(lwork / g.slot), here = batch::resident(BLOCKS),
                  most = count < here ? count : here;
    if (room < 1)
        return status_fail(MOAO_INPUT, "gesvj: the workspace is too small");
    return batch::launch(t == BACKEND_Z ? svd_kernel<double> : svd_kernel<float>,
                         dim3((unsigned)(room < most ? room : most)), THREADS, 0, call.stream, g);
}
