/* The range Q of a matrix from random samples, and B = Q^T A: a thread block for each matrix, all
 * rounds inside. */
#ifndef MOAO_GPU_SKETCH_RANGE_CUH
#define MOAO_GPU_SKETCH_RANGE_CUH
#include "lowrank_block.cuh"
#include "qr_grid_wide.cuh"

namespace lowrank {

template <class T> struct SketchArgs {
    Mat<T> A;
    Dim m, n;
    bool adaptive, relative, frobenius;
    double tol;
    const double *tol_each;
    const int64_t *most_each;
    int most, over, power; /* largest rank; further samples; subspace iterations */
    int width, ly;         /* columns of q, bt; leading dimension of Y in shared memory, or 0 */
    const T *omega;        /* n.n x width */
    T *reflectors, *q, *bt,
        *y;         /* of each matrix: m.n x width; m.n x width; n.n x width; Y if ly 0 */
    T *tau;         /* width */
    int64_t *found; /* columns of q */
    double *cut;    /* threshold for the SVD of B */
    int *shift, *info;
    int64_t *plain; /* not NULL: samples of those matrices whose range it is that are found by
                       batched products, 0 for others */
    int64_t count;
};

/* One matrix in its block. */
template <class T> struct Sketched {
    Block g;
    double *red;
    int *bad;
    T *Y, *tau, *small; /* small: 5 WIDE elements of shared memory */
    int64_t ly;
    T *reflectors, *q, *bt;
    const T *a;
    int64_t lda, ldq, ldb;
    int m, n;
    Scale<T> scale;
};

template <class T> size_t sketch_shared(int width, int ly) {
    return sizeof(double) * (size_t)(block_scratch(WARPS) + WARPS + 1) +
           sizeof(T) * ((size_t)width + 5 * WIDE + (size_t)ly * WIDE) + 16;
}

template <class T>
__device__ inline Sketched<T> sketch_place(const SketchArgs<T> &a, int64_t b,
                                           unsigned char *shared) {
    Sketched<T> s;
    double *d = (double *)shared;
    s.g = block_place(d);
    s.red = d + block_scratch(WARPS);
    s.bad = (int *)(s.red + WARPS);
    s.ldq = a.m.n, s.ldb = a.n.n;
    s.tau = a.tau + b * a.width;
    s.small = (T *)(s.bad + 2);
    s.Y = a.ly ? s.small + 5 * WIDE : a.y + b * a.m.n * WIDE;
    s.ly = a.ly ? a.ly : a.m.n;
    s.reflectors = a.reflectors + b * a.m.n * a.width;
    s.q = a.q + b * a.m.n * a.width;
    s.bt = a.bt + b * a.n.n * a.width;
    s.m = dim_full(a.m, b), s.n = dim_full(a.n, b);
    const Ref<T> A = resolve(a.A, b, s.m, s.n);
    s.a = A.p, s.lda = A.sj;
    return s;
}

/* More columns of Q by w samples; false where what is left of them is within t (only looked at when
 * not `exact`). */
template <class T>
__device__ bool sketch_round(const Sketched<T> &s, const T *omega, int p, int w, bool exact,
                             double t) {
    narrow_product<T, false>(s.a, s.lda, omega, s.ldb, s.m, s.n, w, s.scale, s.Y, s.ly);
    __syncthreads();
    block_multiply<T, true, false>(s.reflectors, s.ldq, s.m, p, s.tau, s.Y, s.ly, w, s.g);
    __syncthreads();
    if (!exact) {
        const double left = squares(s.Y + p, s.ly, s.m - p, w, Scale<T>{T(1), T(1), false}, s.red);
        if (3 * left / w <= t * t / 4)
            return false;
    }
    block_factor(s.Y + p, s.ly, s.m - p, w, s.tau + p, s.g);
    __syncthreads();
    move(s.Y, s.ly, s.m, w, s.reflectors + p * s.ldq, s.ldq);
    __syncthreads();
    for (int e = threadIdx.x; e < s.m * w; e += blockDim.x)
        s.Y[e % s.m + e / s.m * s.ly] = T(e % s.m == p + e / s.m ? 1 : 0);
    __syncthreads();
    block_multiply<T, false, false>(s.reflectors, s.ldq, s.m, p + w, s.tau, s.Y, s.ly, w, s.g);
    __syncthreads();
    narrow_product<T, true>(s.a, s.lda, s.Y, s.ly, s.n, s.m, w, s.scale, s.bt + p * s.ldb, s.ldb);
    move(s.Y, s.ly, s.m, w, s.q + p * s.ldq, s.ldq);
    __syncthreads();
    return true;
}

/* The same with Y in the registers of the block's threads, where it fits. Y's place in shared
 * memory is that of the reflectors, too. */
template <class T> struct SketchGrid { typedef Grid<T, 32, WARPS, 8, 4> type; };

template <class T, class G>
__device__ inline void earlier_reflectors(G &g, const Sketched<T> &s, int p, bool trans) {
    const int blocks = (p + WIDE - 1) / WIDE;
    for (int e = 0; e < blocks; e++) {
        const int j = WIDE * (trans ? e : blocks - 1 - e), n = p - j < WIDE ? p - j : WIDE;
        vectors_in<G>(s.Y, s.reflectors + j * s.ldq, s.ldq, s.m, n, j);
        if ((int)threadIdx.x < n)
            s.small[threadIdx.x] = s.tau[j + (int)threadIdx.x];
        __syncthreads();
        vectors_apply(g, s.Y, s.small, n, trans);
    }
    __syncthreads();
}

template <class T>
__device__ __noinline__ bool sketch_round_grid(const Sketched<T> &s, const T *omega, int p, int w,
                                               bool exact, double t) {
    typedef typename SketchGrid<T>::type G;
    static_assert(G::THREADS == 32 * WARPS && G::COLS == WIDE, "a block is a grid");
    T *const one = s.small + 4 * WIDE, *const V = s.reflectors + p + p * s.ldq;
    G g;
    if (s.m == 32 * WARPS && s.n <= s.m && s.n % 8 == 0 && w == WIDE && !s.scale.on)
        product_in_place(s.a, s.lda, omega, s.ldb, s.n, s.Y, s.ly);
    else
        narrow_product<T, false>(s.a, s.lda, omega, s.ldb, s.m, s.n, w, s.scale, s.Y, s.ly);
    __syncthreads();
    grid_load(g, s.Y, s.ly, s.m, w);
    earlier_reflectors(g, s, p, true);
    if (!exact) {
        double left = 0;
#pragma unroll
        for (int q = 0; q < G::C; q++)
#pragma unroll
            for (int a = 0; a < G::A; a++)
                left += g.row(a) >= p ? (double)g.x[a][q] * (double)g.x[a][q] : 0.0;
        left = block_sum(left, s.red);
        if (3 * left / w <= t * t / 4)
            return false;
    }
    grid_store(g, s.Y, s.ly, s.m, w);
    __syncthreads();
    grid_load(g, s.Y + p, s.ly, s.m - p, w);
    if ((int)threadIdx.x < WIDE)
        one[threadIdx.x] = T(1);
    __syncthreads();
    const GridVectors<T> h = {s.Y, s.small, s.small + WIDE, s.small + 2 * WIDE, s.small + 3 * WIDE};
    grid_factor<true>(g, w, h);
    grid_scale(g, w, h);
    grid_store(g, V, s.ldq, s.m - p, w);
    if ((int)threadIdx.x < w)
        s.tau[p + (int)threadIdx.x] = h.tau[threadIdx.x];
    grid_form(g, w, h.v, h.factor, one);
    __syncthreads();
    for (int e = (int)threadIdx.x; e < p * w; e += G::THREADS)
        s.Y[e % p + e / p * s.ly] = T(0);
    grid_store(g, s.Y + p, s.ly, s.m - p, w);
    __syncthreads();
    if (p > 0) {
        grid_load(g, s.Y, s.ly, s.m, w);
        earlier_reflectors(g, s, p, false);
        grid_store(g, s.Y, s.ly, s.m, w);
        __syncthreads();
    }
    narrow_product<T, true>(s.a, s.lda, s.Y, s.ly, s.n, s.m, w, s.scale, s.bt + p * s.ldb, s.ldb);
    move(s.Y, s.ly, s.m, w, s.q + p * s.ldq, s.ldq);
    __syncthreads();
    return true;
}

/* Largest norm of a column of B^T, squared. */
template <class T> __device__ inline double largest_column(const Sketched<T> &s, int from, int to) {
    double most = 0;
    for (int j = from + s.g.warp; j < to; j += s.g.warps) {
        double x = 0;
        for (int i = s.g.lane; i < s.n; i += 32) {
            const double y = (double)s.bt[i + j * s.ldb];
            x += y * y;
        }
        x = warp_sum(x);
        most = x > most ? x : most;
    }
    return block_max(most, s.red);
}

/* Rounds until the residual is within the threshold. */
template <class T, bool GRID>
__device__ void adaptive_range(const SketchArgs<T> &a, const Sketched<T> &s, int64_t b, int shift,
                               int64_t limit, double all) {
    const int k = s.m < s.n ? s.m : s.n, block = k <= 128 ? 16 : 32;
    const double tol0 = a.tol_each ? a.tol_each[b] : a.tol, tol = tol0 > 0 ? tol0 : 0;
    const double least = (sizeof(T) == 8 ? 3e-7 : 1e-3) * sqrt(all);
    const int64_t rounded = (limit + block - 1) / block * block;
    const int most = (int)(rounded < k ? rounded : k);
    double rest = all, spectral = all / k, t;
    bool reached;
    int p = 0;
    for (;;) {
        t = !a.relative ? ldexp(tol, shift) : tol * sqrt(a.frobenius ? all : spectral);
        /* below `least` the difference may be 0 by its roundings */
        reached = rest <= t * t && (t >= least || p == k || all == 0);
        if ((reached && rest <= BATCH_ARA_SHARE * t * t) || p == most)
            break;
        const int w = most - p < block ? most - p : block;
        const T *omega = a.omega + (int64_t)p * a.n.n;
        const bool more = GRID ? sketch_round_grid(s, omega, p, w, t >= least, t)
                               : sketch_round(s, omega, p, w, t >= least, t);
        if (!more) {
            rest = t * t / 4;
            reached = true;
            break;
        }
        rest -= squares(s.bt + p * s.ldb, s.ldb, s.n, w, Scale<T>{T(1), T(1), false}, s.red);
        if (a.relative && !a.frobenius) {
            const double column = largest_column(s, p, p + w);
            spectral = column > spectral ? column : spectral;
        }
        p += w;
        rest = p == k || rest < 0 ? 0 : rest;
    }
    if (threadIdx.x == 0) {
        const double spare = t * t - rest;
        a.found[b] = p;
        a.cut[b] = spare > 0 ? sqrt(spare) : 0;
        a.info[b] = !reached && tol > 0 ? -3 : 0;
    }
}

/* y (rows x l, ld) := orthonormal columns that span it. */
template <class T>
__device__ inline void orthonormal(const Sketched<T> &s, T *y, int64_t ld, int rows, int l) {
    __syncthreads();
    block_factor(y, ld, rows, l, s.tau, s.g);
    __syncthreads();
    block_form(y, ld, rows, l, l, s.tau, (const T *)nullptr, s.g);
    __syncthreads();
}

/* Samples of a fixed rank. */
template <class T>
__device__ inline int fixed_samples(const SketchArgs<T> &a, const Sketched<T> &s, int64_t limit) {
    const int64_t k = s.m < s.n ? s.m : s.n, want = limit + a.over;
    return (int)(want < k ? want : k);
}
/* What is known of it before it is there. */
template <class T>
__device__ inline void fixed_note(const SketchArgs<T> &a, int64_t b, int l, int shift) {
    const double tol = a.tol_each ? a.tol_each[b] : a.tol;
    a.found[b] = l;
    a.cut[b] = !(tol > 0) ? 0 : a.relative ? tol : ldexp(tol, shift);
    a.info[b] = 0;
}

template <class T>
__device__ void fixed_range(const SketchArgs<T> &a, const Sketched<T> &s, int64_t b, int shift,
                            int64_t limit) {
    const int l = fixed_samples(a, s, limit);
    product<T, false>(s.a, s.lda, a.omega, s.ldb, s.m, s.n, l, s.scale, s.q, s.ldq);
    orthonormal(s, s.q, s.ldq, s.m, l);
    for (int p = 0; p < a.power; p++) {
        product<T, true>(s.a, s.lda, s.q, s.ldq, s.n, s.m, l, s.scale, s.bt, s.ldb);
        orthonormal(s, s.bt, s.ldb, s.n, l);
        product<T, false>(s.a, s.lda, s.bt, s.ldb, s.m, s.n, l, s.scale, s.q, s.ldq);
        orthonormal(s, s.q, s.ldq, s.m, l);
    }
    product<T, true>(s.a, s.lda, s.q, s.ldq, s.n, s.m, l, s.scale, s.bt, s.ldb);
    if (threadIdx.x == 0)
        fixed_note(a, b, l, shift);
}

enum { RANGE_BLOCK, RANGE_GRID, RANGE_SURVEY };
template <class T, int WAY>
__global__ void __launch_bounds__(32 * WARPS, 2)
    range_kernel(const __grid_constant__ SketchArgs<T> a) {
    extern __shared__ __align__(16) unsigned char shared[];
    const int64_t b = blockIdx.x;
    batch::wait_for_predecessor();
    if (WAY != RANGE_SURVEY && a.plain && a.plain[b])
        return;
    const bool valid = dim_valid(a.m, b) && dim_valid(a.n, b);
    Sketched<T> s = sketch_place(a, b, shared);
    int64_t limit = a.most;
    if (a.most_each && a.most_each[b] >= 0 && a.most_each[b] < limit)
        limit = a.most_each[b];
    if (threadIdx.x == 0)
        *s.bad = INT_MAX;
    __syncthreads();
    Survey seen = {0, 0};
    if (valid && s.m && s.n)
        seen = survey(s.a, s.lda, s.m, s.n, 0, s.bad, s.red);
    __syncthreads();
    const int bad = *s.bad, shift = shift_of<T>(seen.most);
    if (!valid || bad != INT_MAX || s.m == 0 || s.n == 0) {
        if (threadIdx.x == 0) {
            a.found[b] = 0, a.cut[b] = 0, a.shift[b] = 0;
            a.info[b] = !valid ? -1 : bad != INT_MAX ? bad : 0;
            if (WAY == RANGE_SURVEY)
                a.plain[b] = 0;
        }
        return;
    }
    s.scale = scale_by<T>(shift);
    if (threadIdx.x == 0)
        a.shift[b] = shift;
    if (WAY == RANGE_SURVEY) {
        const int l = fixed_samples(a, s, limit);
        if (threadIdx.x == 0) {
            fixed_note(a, b, l, shift);
            a.plain[b] = shift ? 0 : l;
        }
    } else if (a.adaptive)
        adaptive_range<T, WAY == RANGE_GRID>(a, s, b, shift, limit,
                                             shift ? squares(s.a, s.lda, s.m, s.n, s.scale, s.red)
                                                   : seen.sum);
    else
        fixed_range(a, s, b, shift, limit);
}

} // namespace lowrank
#endif
