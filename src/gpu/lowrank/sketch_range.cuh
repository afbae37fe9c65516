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
    bool adaptive, relative, frobenius, or_nothing;
    double tol;
    const double *tol_each;
    const int64_t *most_each;
    int most, later, over, power; /* largest rank, that of another call (or 0); further samples;
                                     subspace iterations */
    int width, ly;  /* columns of q, bt; leading dimension of Y in shared memory, or 0 */
    const T *omega; /* n.n x width */
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
    T *Y, *tau;
    int64_t ly;
    T *reflectors, *q, *bt;
    const T *a;
    int64_t lda, ldq, ldb;
    int m, n;
    Scale<T> scale;
};

template <class T> size_t sketch_shared(int width, int ly, int warps = WARPS) {
    return sizeof(double) * (size_t)(block_scratch(warps) + warps + 1) +
           sizeof(T) * ((size_t)width + 5 * WIDE + (size_t)ly * WIDE) + 16;
}

template <class T>
__device__ inline Sketched<T> sketch_place(const SketchArgs<T> &a, int64_t b,
                                           unsigned char *shared) {
    Sketched<T> s;
    double *d = (double *)shared;
    s.g = block_place(d);
    s.red = d + block_scratch(s.g.warps);
    s.bad = (int *)(s.red + s.g.warps);
    s.ldq = a.m.n, s.ldb = a.n.n;
    s.tau = a.tau + b * a.width;
    /* as GridSamples has it */
    s.Y = a.ly ? (T *)(s.bad + 2) + 5 * WIDE : a.y + b * a.m.n * WIDE;
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
enum { RANGE_BLOCK, RANGE_SURVEY, RANGE_GRID, RANGE_GRID_TALL };
template <class T, int WAY> struct SketchGrid { typedef Grid<T, 32, WARPS, 8, 4> type; };
template <class T> struct SketchGrid<T, RANGE_GRID_TALL> {
    typedef Grid<T, 32, 2 * WARPS, 16, 2> type;
};
template <class T, int WAY> constexpr int range_threads() {
    return WAY == RANGE_GRID_TALL ? 64 * WARPS : 32 * WARPS;
}

/* Y in shared memory and before it five arrays of WIDE, where sketch_place has left them room, at
 * addresses known at compile time. */
template <class T, int WAY> struct GridSamples {
    typedef typename SketchGrid<T, WAY>::type G;
    static constexpr int LD = conflict_free(G::ROWS);
    T *small, *Y;
    __device__ explicit GridSamples(unsigned char *shared)
        : small((T *)(shared +
                      sizeof(double) * (block_scratch(G::THREADS / 32) + G::THREADS / 32 + 1))),
          Y(small + 5 * WIDE) {
    }
};

template <class T, int WAY, class G>
__device__ inline void earlier_reflectors(G &g, const Sketched<T> &s,
                                          const GridSamples<T, WAY> &here, int p, bool trans) {
    const int blocks = (p + WIDE - 1) / WIDE;
    for (int e = 0; e < blocks; e++) {
        const int j = WIDE * (trans ? e : blocks - 1 - e), n = p - j < WIDE ? p - j : WIDE;
        vectors_in<G>(here.Y, s.reflectors + j * s.ldq, s.ldq, s.m, n, j);
        if ((int)threadIdx.x < n)
            here.small[threadIdx.x] = s.tau[j + (int)threadIdx.x];
        __syncthreads();
        vectors_apply(g, here.Y, here.small, n, trans);
    }
    __syncthreads();
}

/* Whole tiles for the warps of a block, nothing to be scaled: Y is made in its place. */
template <class T> __device__ inline bool sample_in_place(const Sketched<T> &s, int w) {
    return s.m == (int)blockDim.x && s.n <= s.m && s.n % 32 == 0 && w == WIDE;
}

template <class T, int WAY>
__device__ inline bool sketch_round_grid(const Sketched<T> &s, const GridSamples<T, WAY> &here,
                                         const T *omega, int p, int w, bool exact, double t,
                                         bool sampled) {
    typedef GridSamples<T, WAY> Here;
    typedef typename Here::G G;
    static_assert(G::COLS == WIDE, "a block is a grid");
    constexpr int LD = Here::LD;
    T *const Y = here.Y, *const one = here.small + 4 * WIDE,
             *const V = s.reflectors + p + p * s.ldq;
    const bool plain = sample_in_place(s, w) && !s.scale.on;
    G g;
    if (!sampled) {
        if (plain)
            product_in_place<T, LD>(s.a, s.lda, omega, s.ldb, s.n, Y);
        else
            narrow_product<T, false>(s.a, s.lda, omega, s.ldb, s.m, s.n, w, s.scale, Y, LD);
    }
    __syncthreads();
    grid_load(g, Y, LD, s.m, w);
    earlier_reflectors(g, s, here, p, true);
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
    grid_store(g, Y, LD, s.m, w);
    __syncthreads();
    grid_load(g, Y + p, LD, s.m - p, w);
    if ((int)threadIdx.x < WIDE)
        one[threadIdx.x] = T(1);
    __syncthreads();
    const GridVectors<T> h = {Y, here.small, here.small + WIDE, here.small + 2 * WIDE,
                              here.small + 3 * WIDE};
    grid_factor<true>(g, w, h);
    grid_scale(g, w, h);
    grid_store(g, V, s.ldq, s.m - p, w);
    if ((int)threadIdx.x < w)
        s.tau[p + (int)threadIdx.x] = h.tau[threadIdx.x];
    grid_form(g, w, h.v, h.factor, one);
    __syncthreads();
    for (int j = s.g.warp; j < w; j += s.g.warps)
        for (int i = s.g.lane; i < p; i += 32)
            Y[i + j * LD] = T(0);
    grid_store(g, Y + p, LD, s.m - p, w);
    __syncthreads();
    if (p > 0) {
        grid_load(g, Y, LD, s.m, w);
        earlier_reflectors(g, s, here, p, false);
        grid_store(g, Y, LD, s.m, w);
        __syncthreads();
    }
    if (plain)
        product_transposed<T, LD>(s.a, s.lda, Y, s.m, s.n, s.bt + p * s.ldb, s.ldb);
    else
        narrow_product<T, true>(s.a, s.lda, Y, LD, s.n, s.m, w, s.scale, s.bt + p * s.ldb, s.ldb);
    move(Y, LD, s.m, w, s.q + p * s.ldq, s.ldq);
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

/* Columns that are sampled for a matrix of k rows or columns that gets `most`. */
__device__ inline int samples_for(int64_t most, int k, int block) {
    const int64_t rounded = (most + block - 1) / block * block;
    return (int)(rounded < k ? rounded : k);
}

/* Whether `most` columns will not do, by the rule of lowrank_cpu_sketch.h. */
__device__ inline bool hopeless(double rest, double before, double t, int p, int most, int block) {
    const double rounds = (double)(most - p) / (double)block;
    return p >= 2 * block && log(rest) + 1.25 * rounds * log(rest / before) > 2 * log(t);
}

/* Rounds until the residual is within the threshold, or (or_nothing) it is seen that it will not
 * be: nothing is left to do for such a matrix, then. */
template <class T, int WAY>
__device__ inline void adaptive_range(const SketchArgs<T> &a, const Sketched<T> &s,
                                      unsigned char *shared, int64_t b, int shift, int64_t limit,
                                      double all, bool sampled) {
    const int k = s.m < s.n ? s.m : s.n, block = k <= 128 ? 16 : 32;
    const double tol0 = a.tol_each ? a.tol_each[b] : a.tol, tol = tol0 > 0 ? tol0 : 0;
    const double least = (sizeof(T) == 8 ? 3e-7 : 1e-3) * sqrt(all);
    const int most = samples_for(limit, k, block);
    double rest = all, before = all, spectral = all / k, t;
    bool reached;
    int p = 0;
    for (;;) {
        t = !a.relative ? ldexp(tol, shift) : tol * sqrt(a.frobenius ? all : spectral);
        /* below `least` the difference may be 0 by its roundings */
        reached = rest <= t * t && (t >= least || p == k || all == 0);
        if ((reached && rest <= BATCH_ARA_SHARE * t * t) || p == most)
            break;
        if (a.or_nothing && t >= least && hopeless(rest, before, t, p, most, block))
            break;
        before = rest;
        const int w = most - p < block ? most - p : block;
        const T *omega = a.omega + (int64_t)p * a.n.n;
        bool more;
        if constexpr (WAY >= RANGE_GRID)
            more = sketch_round_grid<T, WAY>(s, GridSamples<T, WAY>(shared), omega, p, w,
                                             t >= least, t, p == 0 && sampled);
        else
            more = sketch_round(s, omega, p, w, t >= least, t);
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
        const bool missed = !reached && tol > 0,
                   never = missed && a.later > limit && t >= least &&
                           hopeless(rest, before, t, p, samples_for(a.later, k, block), block);
        a.found[b] = missed && a.or_nothing ? 0 : p;
        a.cut[b] = spare > 0 ? sqrt(spare) : 0;
        a.info[b] = never ? -4 : missed ? -3 : 0;
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

/* The first samples of a matrix that is looked at meanwhile; false if it may have to be scaled or
 * is not finite. */
template <class T, int WAY>
__device__ inline bool first_samples(const Sketched<T> &s, const GridSamples<T, WAY> &here,
                                     const T *omega, Survey *seen) {
    constexpr int LD = GridSamples<T, WAY>::LD;
    const Glance g = product_in_place<T, LD>(s.a, s.lda, omega, s.ldb, s.n, here.Y);
    const int word = (int)block_max((double)g.top, s.red); /* NaN would not be the largest */
    *seen = Survey{__hiloint2double(word, 0), block_sum(g.sum, s.red)};
    return word > 0 && word < 0x7ff00000 && shift_of<T>(seen->most) == 0;
}

template <class T, int WAY>
__global__ void __launch_bounds__(range_threads<T, WAY>(), WAY == RANGE_GRID_TALL ? 1 : 2)
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
    bool sampled = false;
    if constexpr (WAY >= RANGE_GRID)
        if (valid && sample_in_place(s, limit > 0 && s.n > 128 ? WIDE : 0))
            sampled = first_samples(s, GridSamples<T, WAY>(shared), a.omega, &seen);
    if (!sampled && valid && s.m && s.n)
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
    } else if (WAY >= RANGE_GRID || a.adaptive) {
        adaptive_range<T, WAY>(a, s, shared, b, shift, limit,
                               shift ? squares(s.a, s.lda, s.m, s.n, s.scale, s.red) : seen.sum,
                               sampled);
    } else if constexpr (WAY == RANGE_BLOCK) {
        fixed_range(a, s, b, shift, limit);
    }
}

} // namespace lowrank
#endif
