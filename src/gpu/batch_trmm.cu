/* Batched B := alpha A B in place, A lower triangular of order 65 to 256, FP64. One block takes 64
 * columns of B: they stay in shared memory, the triangle passes by in slices of 128 rows and 16
 * columns, and rows of the result go straight from the accumulators to memory, so that B is read
 * and written once. */
#include "batch_warp.cuh"

namespace batch {

namespace {
constexpr int ROWS = 128, COLS = 64, SLICE = 16, ALD = ROWS + 4, ASIZE = SLICE * ALD, THREADS = 256;

/* One block of columns, as seen by one thread; sb: the columns of B, leading dimension ldb. */
template <class T> struct Product {
    Ref<T> A, B;
    T *sa, *sb;
    int n, m, j0, ldb, slices, tid; /* slices: of B, and of A's last rows */
    bool unit, wide_a, wide_b;      /* diagonal; see is_wide */
    __device__ int slices_of(int step) const {
        const int k = (step + 1) * (ROWS / SLICE);
        return k < slices ? k : slices;
    }
};

/* One element of A at (row, col), 0 outside the triangle. */
template <class T>
__device__ inline void element_of_a(const Product<T> &t, T *s, const T *p, int row, int col) {
    if (t.unit && row == col)
        *s = T(1);
    else
        stage(s, p, row < t.n && col <= row);
}

/* Rows i0 .. i0 + 128 and columns k0 .. k0 + 16 of A; 16 bytes at a time where t.wide_a allows it.
 */
template <class T> __device__ inline void slice_of_a(const Product<T> &t, T *s, int i0, int k0) {
    if (t.wide_a) {
        constexpr int V = 16 / sizeof(T), LANES = ROWS / V, STEP = THREADS / LANES;
        const int r = t.tid % LANES * V, row = i0 + r;
        int col = k0 + t.tid / LANES;
        const T *p = t.A.at(row, col);
        const int64_t step = STEP * t.A.sj;
        T *q = s + t.tid / LANES * ALD + r;
#pragma unroll
        for (int u = 0; u < SLICE; u += STEP, col += STEP, p += step, q += STEP * ALD) {
            if (row > col && row + V <= t.n) {
                stage_wide(q, p);
            } else {
#pragma unroll
                for (int e = 0; e < V; e++)
                    element_of_a(t, q + e, p + e, row + e, col);
            }
        }
        return;
    }
    const int i = t.A.along_i ? t.tid % ROWS : t.tid / SLICE,
              k = t.A.along_i ? t.tid / ROWS : t.tid % SLICE,
              di = t.A.along_i ? 0 : THREADS / SLICE, dk = t.A.along_i ? THREADS / ROWS : 0;
    const T *p = t.A.at(i0 + i, k0 + k);
    const int64_t step = di * t.A.si + dk * t.A.sj;
    T *q = s + k * ALD + i;
#pragma unroll
    for (int u = 0; u < ROWS * SLICE / THREADS; u++, p += step, q += dk * ALD + di)
        element_of_a(t, q, p, i0 + i + u * di, k0 + k + u * dk);
}

/* Rows k0 .. k0 + 16 of the block's columns of B, zero outside. */
template <class T> __device__ inline void slice_of_b(const Product<T> &t, int k0) {
    if (t.wide_b && k0 + SLICE <= t.n && t.j0 + COLS <= t.m) {
        constexpr int V = 16 / sizeof(T), LANES = SLICE / V, STEP = THREADS / LANES;
        const int k = k0 + t.tid % LANES * V, j = t.tid / LANES;
        const T *p = t.B.at(k, t.j0 + j);
#pragma unroll
        for (int u = 0; u < COLS; u += STEP)
            if (STEP <= COLS || j < COLS)
                stage_wide(t.sb + (j + u) * t.ldb + k, p + u * t.B.sj);
        return;
    }
    const int k = t.B.along_i ? t.tid % SLICE : t.tid / COLS,
              j = t.B.along_i ? t.tid / SLICE : t.tid % COLS, dk = t.B.along_i ? 0 : THREADS / COLS,
              dj = t.B.along_i ? THREADS / SLICE : 0;
    const T *p = t.B.at(k0 + k, t.j0 + j);
    const int64_t step = dk * t.B.si + dj * t.B.sj;
#pragma unroll
    for (int u = 0; u < COLS * SLICE / THREADS; u++, p += step)
        stage(t.sb + (j + u * dj) * t.ldb + k0 + k + u * dk, p,
              k0 + k + u * dk < t.n && t.j0 + j + u * dj < t.m);
}

/* All of the block's columns of B on their way to the L2 cache. */
template <class T> __device__ inline void columns_prefetch(const Product<T> &t) {
    constexpr int LINE = 128 / sizeof(T), ALONG = COLS / LINE;
    if (t.B.along_i) {
        const int j = t.j0 + t.tid % COLS;
        for (int i = t.tid / COLS * LINE; i < t.n && j < t.m; i += THREADS / COLS * LINE)
            prefetch(t.B.at(i, j));
    } else {
        const int j = t.j0 + t.tid % ALONG * LINE;
        for (int i = t.tid / ALONG; i < t.n && j < t.m; i += THREADS / ALONG)
            prefetch(t.B.at(i, j));
    }
}

/* alpha times the accumulator of one warp to rows i1, columns j1 on of B. */
template <class T>
__device__ inline void result_write(const Product<T> &t, const Acc<T> &c, T alpha, int i1, int j1,
                                    int lane) {
    const bool inside = i1 + 32 <= t.n && j1 + 32 <= t.m;
    i1 += c.row(0, lane), j1 += c.col(0, lane);
    T *p = t.B.at(i1, j1);
#pragma unroll
    for (int e = 0; e < 32; e++) {
        const int di = c.row(e, 0), dj = c.col(e, 0);
        if (inside || (i1 + di < t.n && j1 + dj < t.m))
            p[di * t.B.si + dj * t.B.sj] = alpha * c.v[e];
    }
}

/* The warps of one scheduler (w and w + 4) share out short and long rows of the triangle. */
template <class T, int AHEAD> __device__ inline void product_run(const Product<T> &t, T alpha) {
    const int warp = t.tid / 32, lane = t.tid % 32, pair = warp / 2;
    const int wi = 32 * (pair < 2 ? pair : 5 - pair), wj = 32 * (warp & 1);
    const int steps = (t.n + ROWS - 1) / ROWS;
    int next_step = 0, next = 0, loaded = 0, buffer = 0; /* what is fetched next */
    auto fetch = [&] {
        if (next_step < steps) {
            slice_of_a(t, t.sa + buffer * ASIZE, next_step * ROWS, next * SLICE);
            if (next == loaded) {
                slice_of_b(t, next * SLICE);
                loaded++;
            }
            if (++next == t.slices_of(next_step))
                next = 0, next_step++;
        }
        buffer = buffer + 1 == AHEAD ? 0 : buffer + 1;
        stage_commit();
    };
    for (int q = 0; q < AHEAD - 1; q++)
        fetch();
    int ready = 0;
    for (int s = 0; s < steps; s++) {
        const int i1 = s * ROWS + wi;
        Acc<T> c;
        acc_zero(c);
        for (int q = 0; q < t.slices_of(s); q++) {
            stage_wait<AHEAD - 2>();
            __syncthreads();
            fetch();
            if (q * SLICE < i1 + 32 && i1 < t.n && t.j0 + wj < t.m)
                c.mma(t.sa + ready * ASIZE + wi, 1, ALD, t.sb + wj * t.ldb + q * SLICE, 1, t.ldb,
                      SLICE, lane);
            ready = ready + 1 == AHEAD ? 0 : ready + 1;
        }
        if (i1 < t.n && t.j0 + wj < t.m)
            result_write(t, c, alpha, i1, t.j0 + wj, lane);
    }
}

template <class T, int AHEAD>
__global__ void __launch_bounds__(THREADS, AHEAD == 2 ? 2 : 1)
    trmm_kernel(const __grid_constant__ Args<T> a, int panels, int n_max) {
    extern __shared__ __align__(16) unsigned char shared[];
    const int64_t b = blockIdx.x / panels;
    Product<T> t;
    t.j0 = (int)(blockIdx.x % panels) * COLS, t.tid = threadIdx.x;
    if (addresses_known(a.B, a.n) && !a.m.each) {
        t.n = dim_part(a.n, b), t.m = dim_part(a.m, b);
        t.B = resolve(a.B, b, dim_full(a.n, b), dim_full(a.m, b));
        columns_prefetch(t);
    }
    wait_for_predecessor();
    t.n = dim_part(a.n, b), t.m = dim_part(a.m, b);
    if (t.n <= a.lo || t.n > n_max || (a.skip && a.skip[b]))
        return;
    const int full = dim_full(a.n, b);
    t.A = resolve(a.A, b, full, full);
    t.B = resolve(a.B, b, full, dim_full(a.m, b));
    t.sa = (T *)shared, t.sb = t.sa + AHEAD * ASIZE;
    t.ldb = n_max + 4, t.slices = (t.n + SLICE - 1) / SLICE;
    t.unit = a.unit, t.wide_a = is_wide(t.A), t.wide_b = is_wide(t.B);
    for (int panel = (int)(blockIdx.x % panels); panel * COLS < t.m; panel += panels) {
        t.j0 = panel * COLS;
        product_run<T, AHEAD>(t, a.alpha);
        __syncthreads();
    }
}

template <class T, int AHEAD> cudaError_t trmm_start(const Args<T> &a, int n_max, cudaStream_t s) {
    const int64_t m = a.m.n < a.m.cap ? a.m.n : a.m.cap;
    const int ldb = n_max + 4;
    int64_t panels = (m + COLS - 1) / COLS;
    if (a.count * panels > INT32_MAX)
        panels = 1;
    return launch(trmm_kernel<T, AHEAD>, dim3((unsigned)(a.count * panels)), THREADS,
                  sizeof(T) * (size_t)(AHEAD * ASIZE + COLS * ldb), s, a, (int)panels, n_max);
}

} // namespace

cudaError_t launch_trmm(const Args<double> &a, int n_max, cudaStream_t s) {
    return n_max <= 128 ? trmm_start<double, 2>(a, 128, s) : trmm_start<double, 5>(a, 256, s);
}

} // namespace batch
