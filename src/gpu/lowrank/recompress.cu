/* Recompression of beta U V^T + alpha U2 V2^T, F = [U U2] and G = [beta V, alpha V2]: from their
 * triangles the left vectors X and values of S = Ru Rv^T; then U := Qu X and V := G (Ru^T X). The Q
 * of G is never formed. job 'R' exchanges the roles. The triangles come from Gram matrices, where
 * these are exact enough (sum_gram_kernel.cuh); for other matrices, which the kernels of this file
 * find by their states, F and G are gathered, QR of F with its reflectors, R alone of G. */
#include "lowrank_block.cuh"
#include "qr_warp.cuh"
#include "sum_gram.h"

namespace lowrank {
namespace {

template <class T> struct Side : SumSide<T> { /* scratch becomes F */
    T *copy;                                  /* a second F, or NULL */
};

template <class T> struct GatherArgs {
    Side<T> side[2];
    Dim k, k2;
    bool old, fresh; /* beta, alpha not 0 */
    bool turned;     /* side 0 is V */
    int width;
    int64_t *columns; /* k + k2, 0 for a matrix that is left alone */
    int64_t *core0, *core1;
    int64_t *vectors; /* reflectors: core0, or 0 where there are none */
    const int *state; /* of Gram matrices, two for each matrix; NULL: they are not used */
    double tol;
    const double *tol_each;
    double *cut;
    bool relative;
    int *shift, *info;
};

/* F := 2^shift [first a, second b]; returns the shift. bad is lowered to the first column that is
 * not finite, those of a counted from `from_a` + 1 and those of b from `from_b` + 1. */
template <class T>
__device__ inline int gather_side(const Side<T> &s, int64_t b, int k, int k2, int from_a,
                                  int from_b, int width, int *bad, double *red) {
    const int rows = dim_full(s.rows, b), lane = threadIdx.x % 32, warps = blockDim.x / 32;
    const Ref<T> A = resolve(s.a, b, rows, k), B = resolve(s.b, b, rows, k2);
    T *f = s.scratch + b * s.rows.n * width,
      *copy = s.copy ? s.copy + b * s.rows.n * width : nullptr;
    double most = 0;
    for (int j = threadIdx.x / 32; j < k + k2; j += warps) {
        const T *from = j < k ? A.p + j * A.sj : B.p + (j - k) * B.sj;
        const T factor = (T)(j < k ? s.first : s.second);
        bool fine = true;
#pragma unroll 4
        for (int i = lane; i < rows; i += 32) {
            const T x = from[i], y = factor * x;
            fine = fine && fabs((double)x) <= DBL_MAX; /* false for NaN, too */
            most = fmax(most, fabs((double)y));
            f[i + j * s.rows.n] = y;
        }
        if (!fine)
            atomicMin(bad, (j < k ? from_a + j : from_b + j - k) + 1);
    }
    most = block_max(most, red);
    const int shift = shift_of<T>(most);
    const Scale<T> scale = scale_by<T>(shift);
    for (int j = threadIdx.x / 32; j < k + k2 && (shift || copy); j += warps)
        for (int i = lane; i < rows; i += 32) {
            const T x = scale(f[i + j * s.rows.n]);
            f[i + j * s.rows.n] = x;
            if (copy)
                copy[i + j * s.rows.n] = x;
        }
    return shift;
}

template <class T>
__global__ void __launch_bounds__(32 * WARPS)
    gather_kernel(const __grid_constant__ GatherArgs<T> a) {
    extern __shared__ __align__(16) unsigned char shared[];
    double *red = (double *)shared;
    int *bad = (int *)(red + WARPS);
    const int64_t b = blockIdx.x;
    batch::wait_for_predecessor();
    if (a.state && a.state[2 * b] != SUM_NOT) {
        if (threadIdx.x == 0)
            a.vectors[b] = 0;
        return;
    }
    const bool valid = dim_valid(a.side[0].rows, b) && dim_valid(a.side[1].rows, b) &&
                       dim_valid(a.k, b) && dim_valid(a.k2, b);
    const int k0 = valid ? dim_full(a.k, b) : 0, l0 = valid ? dim_full(a.k2, b) : 0;
    if (threadIdx.x == 0)
        *bad = INT_MAX;
    __syncthreads();
    int k = a.old ? k0 : 0, k2 = a.fresh ? l0 : 0, shift = 0;
    for (int p = 0; p < 2 && k + k2; p++) { /* the caller's order: U, V, U2, V2 */
        const bool is_v = (p == 1) != a.turned;
        shift += gather_side(a.side[p], b, k, k2, is_v ? k0 : 0, 2 * k0 + (is_v ? l0 : 0), a.width,
                             bad, red);
    }
    __syncthreads();
    const bool lost = !valid || *bad != INT_MAX;
    if (lost)
        k = k2 = 0;
    if (threadIdx.x == 0) {
        const int m = valid ? dim_full(a.side[0].rows, b) : 0,
                  n = valid ? dim_full(a.side[1].rows, b) : 0, all = k + k2;
        const double tol = a.tol_each ? a.tol_each[b] : a.tol;
        a.columns[b] = m && n ? all : 0;
        a.core0[b] = m < all ? m : all, a.core1[b] = n < all ? n : all;
        a.shift[b] = shift;
        a.cut[b] = !(tol > 0) ? 0 : a.relative ? tol : ldexp(tol, shift);
        a.info[b] = !valid ? -1 : lost ? *bad : 0;
        if (!(m && n))
            a.core0[b] = a.core1[b] = 0;
        a.vectors[b] = a.core0[b];
    }
}

template <class T> struct CoreArgs {
    const T *f, *rv; /* Ru in the upper triangle of f (ld rows); Rv width x width */
    T *ru, *core, *x, *z;
    int64_t rows;
    int width;
    const int64_t *columns, *core0, *core1, *rank;
    const int *state;
};

/* Ru, apart from its reflectors, and S = Ru Rv^T. */
template <class T>
__global__ void __launch_bounds__(32 * WARPS) core_kernel(const __grid_constant__ CoreArgs<T> a) {
    const int64_t b = blockIdx.x;
    batch::wait_for_predecessor();
    if (a.state && a.state[2 * b] != SUM_NOT)
        return;
    const int k = (int)a.columns[b], k0 = (int)a.core0[b], k1 = (int)a.core1[b], w = a.width;
    const T *f = a.f + b * a.rows * w, *rv = a.rv + b * w * w;
    T *ru = a.ru + b * w * w, *core = a.core + b * w * w;
    for (int e = threadIdx.x; e < k0 * k; e += blockDim.x) {
        const int i = e % k0, j = e / k0;
        ru[i + j * w] = i <= j ? f[i + j * a.rows] : T(0);
    }
    __syncthreads();
    for (int e = threadIdx.x; e < k0 * k1; e += blockDim.x) {
        const int i = e % k0, j = e / k0;
        double s = 0;
        for (int p = i > j ? i : j; p < k; p++)
            s += (double)ru[i + p * w] * (double)rv[j + p * w];
        core[i + j * w] = (T)s;
    }
}

template <class T> struct SpreadArgs {
    Mat<T> X, Y; /* results: orthonormal (rows x), with values (other x) */
    Dim rows, other;
    const T *ru, *x, *sigma, *g;
    T *z;
    int width;
    bool roots;
    const int64_t *columns, *core0, *rank;
    const int *shift, *mine, *svd, *state;
    int *info;
    int64_t *rank_out;
};

/* X := [x; 0], which the reflectors then multiply; Y := G (Ru^T x) 2^-shift. */
template <class T>
__global__ void __launch_bounds__(32 * WARPS, 2)
    spread_kernel(const __grid_constant__ SpreadArgs<T> a) {
    const int64_t b = blockIdx.x;
    batch::wait_for_predecessor();
    if (a.state && a.state[2 * b] != SUM_NOT)
        return;
    const bool lost = a.mine[b] != 0;
    const int r = lost ? 0 : (int)a.rank[b], k = (int)a.columns[b], k0 = (int)a.core0[b],
              w = a.width, m = dim_full(a.rows, b), n = dim_full(a.other, b);
    if (threadIdx.x == 0) {
        if (a.info)
            a.info[b] = lost ? a.mine[b] : a.svd[b];
        a.rank_out[b] = r;
    }
    if (r == 0)
        return;
    const Ref<T> X = resolve(a.X, b, m, r), Y = resolve(a.Y, b, n, r);
    const T *x = a.x + b * w * w, *ru = a.ru + b * w * w, *sigma = a.sigma + b * w;
    T *z = a.z + b * w * w;
    const Scale<T> whole = {T(1), T(1), false};
    const int shift = a.shift[b];
    for (int e = threadIdx.x; e < m * r; e += blockDim.x) {
        const int i = e % m, j = e / m;
        const double root = a.roots ? sqrt(ldexp((double)sigma[j], -a.shift[b])) : 1.0;
        X.p[i + j * X.sj] = i < k0 ? (T)((double)x[i + j * w] * root) : T(0);
    }
    product<T, true>(ru, w, x, w, k, k0, r, whole, z, w);
    __syncthreads();
    if (shift == 0 && a.roots) {
        for (int e = threadIdx.x; e < k * r; e += blockDim.x)
            z[e % k + e / k * w] /= (T)sqrt((double)sigma[e / k]);
        __syncthreads();
    }
    product<T, false>(a.g + b * a.other.n * w, a.other.n, z, w, n, k, r, whole, Y.p, Y.sj);
    if (shift == 0)
        return;
    __syncthreads();
    const Scale<T> down = scale_by<T>(-shift);
    for (int e = threadIdx.x; e < n * r; e += blockDim.x) {
        T *y = Y.p + e % n + e / n * Y.sj;
        const double s = (double)sigma[e / n];
        *y = a.roots ? (T)((double)*y / s * sqrt(ldexp(s, -a.shift[b]))) : down(*y);
    }
}

template <class T> struct SumLayout {
    T *f, *g, *copy, *tau, *rv, *ru, *core, *x, *z, *sigma;
    int64_t *columns, *core0, *core1, *vectors, *rank;
    double *cut, *r, *cells, *scale; /* the last three: see sum_gram.h */
    int *shift, *mine, *svd, *factors, *state;
    void *rest;
    size_t bytes;
    SumLayout(void *work, int64_t chunk, int64_t m, int64_t n, int64_t w) {
        constexpr backend_type t = sizeof(T) == 8 ? BACKEND_D : BACKEND_S;
        const int64_t square = chunk * w * w;
        Pieces p = {(char *)work, 0};
        f = p.take<T>(chunk * m * w), g = p.take<T>(chunk * n * w);
        copy = qr_keeps(n, w) ? g : p.take<T>(chunk * n * w);
        tau = p.take<T>(chunk * w), rv = p.take<T>(square), ru = p.take<T>(square);
        core = p.take<T>(square), x = p.take<T>(square), z = p.take<T>(square);
        sigma = p.take<T>(chunk * w);
        columns = p.take<int64_t>(chunk), core0 = p.take<int64_t>(chunk);
        core1 = p.take<int64_t>(chunk), vectors = p.take<int64_t>(chunk);
        rank = p.take<int64_t>(chunk);
        cut = p.take<double>(chunk), shift = p.take<int>(chunk), mine = p.take<int>(chunk);
        svd = p.take<int>(chunk), factors = p.take<int>(chunk), state = p.take<int>(2 * chunk);
        const int64_t gram = w <= SUM_GRAM_WIDTH ? chunk : 0;
        r = p.take<double>(2 * gram * w * w), cells = p.take<double>(2 * gram * sum_gram_cells(w));
        scale = p.take<double>(gram * SUM_GRAM_WIDTH);
        rest = work ? (char *)work + p.used : nullptr;
        const size_t qr = lowrank_qr_work(t, chunk, n, w), sv = lowrank_span_work(t, chunk, w, w);
        bytes = p.used + (qr > sv ? qr : sv);
    }
};

/* The sum with the side that becomes orthonormal first. */
struct Sum {
    char job;
    const batch_cut *cut;
    int64_t count;
    batch_dim m, n, k, k2;
    batch_mat u, v, u2, v2;
    double fu, fu2, fv, fv2; /* factors of the four operands */
    bool old, fresh;
    int64_t *rank;
    int *info;
};

/* Are Gram matrices tried? */
bool by_gram(const Sum &q, int64_t width) {
    return width <= (SUM_GRAM_BYTES <= gpu_shared_most() ? SUM_GRAM_WIDTH : SUM_GRAM_WIDTH / 2) &&
           (q.cut->most <= SUM_GRAM_RANK || width <= SUM_GRAM_RANK);
}

/* Side 0 or 1 of a sum from matrix `first` on. */
template <class T>
SumSide<T> side_of(const Sum &q, const SumLayout<T> &w, int64_t first, int side) {
    constexpr backend_type t = sizeof(T) == 8 ? BACKEND_D : BACKEND_S;
    const batch_mat &a = side == 0 ? q.u : q.v, &b = side == 0 ? q.u2 : q.v2;
    return {view<T>(mat_from(a, t, first)),
            view<T>(mat_from(b, t, first)),
            whole(dim_from(side == 0 ? q.m : q.n, first)),
            side == 0 ? q.fu : q.fv,
            side == 0 ? q.fu2 : q.fv2,
            side == 0 ? w.f : w.g};
}

template <class T>
status gather(cudaStream_t s, const Sum &q, const SumLayout<T> &w, int64_t first, int64_t count,
              int width) {
    const batch_cut cut = cut_from(q.cut, first);
    GatherArgs<T> a = {};
    a.side[0] = Side<T>{side_of(q, w, first, 0), nullptr};
    a.side[1] = Side<T>{side_of(q, w, first, 1), w.copy == w.g ? nullptr : w.copy};
    a.k = whole(dim_from(q.k, first)), a.k2 = whole(dim_from(q.k2, first));
    a.old = q.old, a.fresh = q.fresh, a.turned = q.job == 'R', a.width = width;
    a.columns = w.columns, a.core0 = w.core0, a.core1 = w.core1, a.vectors = w.vectors;
    a.state = by_gram(q, width) ? w.state : nullptr;
    a.tol = cut.tol, a.tol_each = cut.tol_each, a.cut = w.cut, a.relative = cut.kind == 'R';
    a.shift = w.shift, a.info = w.mine;
    return batch::launch(gather_kernel<T>, dim3((unsigned)count), 32 * WARPS,
                         sizeof(double) * (WARPS + 1), s, a);
}

template <class T>
status spread(cudaStream_t s, const Sum &q, const SumLayout<T> &w, int64_t first, int64_t count,
              int width) {
    constexpr backend_type t = sizeof(T) == 8 ? BACKEND_D : BACKEND_S;
    SpreadArgs<T> a = {};
    a.X = view<T>(mat_from(q.u, t, first)), a.Y = view<T>(mat_from(q.v, t, first));
    a.rows = whole(dim_from(q.m, first)), a.other = whole(dim_from(q.n, first));
    a.ru = w.ru, a.x = w.x, a.sigma = w.sigma, a.g = w.g, a.z = w.z;
    a.width = width, a.roots = q.job == 'B';
    a.columns = w.columns, a.core0 = w.core0, a.rank = w.rank;
    a.shift = w.shift, a.mine = w.mine, a.svd = w.svd;
    a.state = by_gram(q, width) ? w.state : nullptr;
    a.info = q.info ? q.info + first : nullptr, a.rank_out = q.rank + first;
    return batch::launch(spread_kernel<T>, dim3((unsigned)count), 32 * WARPS, 0, s, a);
}

template <class T>
status core(cudaStream_t s, const Sum &q, const SumLayout<T> &w, int64_t count, int width) {
    CoreArgs<T> a = {};
    a.f = w.f, a.rv = w.rv, a.ru = w.ru, a.core = w.core;
    a.rows = q.m.n, a.width = width;
    a.columns = w.columns, a.core0 = w.core0, a.core1 = w.core1;
    a.state = by_gram(q, width) ? w.state : nullptr;
    return batch::launch(core_kernel<T>, dim3((unsigned)count), 32 * WARPS, 0, s, a);
}

template <class T>
SumGram<T> gram_of(const Sum &q, const SumLayout<T> &w, int64_t first, int64_t count, int width) {
    const batch_cut cut = cut_from(q.cut, first);
    SumGram<T> a = {};
    a.side[0] = side_of(q, w, first, 0), a.side[1] = side_of(q, w, first, 1);
    a.k = whole(dim_from(q.k, first)), a.k2 = whole(dim_from(q.k2, first));
    a.old = q.old, a.fresh = q.fresh, a.roots = q.job == 'B';
    a.relative = cut.kind == 'R', a.frobenius = cut.norm == 'F';
    a.width = width, a.most = (int)(cut.most < width ? cut.most : width), a.count = count;
    a.tol = cut.tol, a.tol_each = cut.tol_each;
    a.r = w.r, a.cells = w.cells, a.scale = w.scale, a.cut = w.cut;
    a.state = w.state, a.shift = w.shift, a.mine = w.mine, a.svd = w.svd;
    a.info = q.info ? q.info + first : nullptr;
    a.core = w.core, a.x = w.x, a.sigma = w.sigma;
    a.columns = w.columns, a.core0 = w.core0, a.core1 = w.core1;
    a.rank = w.rank, a.rank_out = q.rank + first;
    return a;
}

/* One chunk of matrices from `first` on. */
template <class T>
status chunk_of(cudaStream_t s, const Sum &q, const SumLayout<T> &w, int64_t first, int64_t count,
                int64_t width, size_t left) {
    constexpr backend_type t = sizeof(T) == 8 ? BACKEND_D : BACKEND_S;
    const int64_t m = q.m.n, n = q.n.n, k0 = m < width ? m : width, k1 = n < width ? n : width;
    const batch_dim dm = dim_from(q.m, first), dn = dim_from(q.n, first), all = {width, w.columns};
    const batch_mat f = batch_strided(w.f, m > 0 ? m : 1, m * width),
                    copy = batch_strided(w.copy, n > 0 ? n : 1, n * width),
                    tau = batch_strided(w.tau, width, width),
                    rv = batch_strided(w.rv, width, width * width),
                    x = batch_strided(w.x, width, width * width),
                    sigma = batch_strided(w.sigma, width, width);
    batch_cut cut = cut_from(q.cut, first);
    status st;
    cut.tol = 0, cut.tol_each = w.cut;
    const SumGram<T> by = gram_of<T>(q, w, first, count, (int)width);
    if (by_gram(q, width)) {
        GPU_TRY(launch_sum_factors<T>(by, s));
        GPU_TRY(launch_sum_cores<T>(by, s));
    }
    GPU_TRY(gather<T>(s, q, w, first, count, (int)width));
    if ((st = lowrank_geqrf(s, t, count, dm, all, f, tau, w.factors)) != MOAO_OK ||
        (st = lowrank_qr(s, t, 'R', count, dn, all, copy, rv, w.factors, w.rest, left)) != MOAO_OK)
        return st;
    GPU_TRY(core<T>(s, q, w, count, (int)width));
    if ((st = lowrank_span(s, t, false, &cut, count, batch_dim{k0, w.core0}, batch_dim{k1, w.core1},
                           batch_strided(w.core, width, width * width), sigma, x, w.rank, w.svd,
                           w.rest, left)) != MOAO_OK)
        return st;
    if (by_gram(q, width))
        GPU_TRY(launch_sum_results<T>(by, s));
    GPU_TRY(spread<T>(s, q, w, first, count, (int)width));
    return lowrank_ormqr(s, t, 'L', 'N', count, dm, batch_dim{q.cut->most, q.rank + first},
                         batch_dim{k0, w.vectors}, f, tau, mat_from(q.u, t, first));
}

template <class T> status run(cudaStream_t s, const Sum &q, void *work, size_t lwork) {
    const int64_t width = q.k.n + q.k2.n > 0 ? q.k.n + q.k2.n : 1;
    int64_t chunk = q.count < CHUNK ? q.count : CHUNK;
    while (chunk > 1 && SumLayout<T>(nullptr, chunk, q.m.n, q.n.n, width).bytes > lwork)
        chunk = (chunk + 1) / 2;
    const SumLayout<T> w(work, chunk, q.m.n, q.n.n, width);
    const size_t left = lwork - (size_t)((char *)w.rest - (char *)work);
    status st = MOAO_OK;
    for (int64_t first = 0; first < q.count && st == MOAO_OK; first += chunk)
        st = chunk_of<T>(s, q, w, first, q.count - first < chunk ? q.count - first : chunk, width,
                         left);
    return st;
}

template <class T> size_t sum_bytes(int64_t count, int64_t m, int64_t n, int64_t k) {
    const int64_t chunk = count < CHUNK ? count : CHUNK;
    return SumLayout<T>(nullptr, chunk, m, n, k > 0 ? k : 1).bytes;
}

} // namespace
} // namespace lowrank

size_t lowrank_recompress_work(backend_type t, int64_t count, int64_t m, int64_t n, int64_t k) {
    const int64_t a = m > n ? m : n; /* either side may be the orthonormal one */
    return t == BACKEND_D ? lowrank::sum_bytes<double>(count, a, a, k)
                          : lowrank::sum_bytes<float>(count, a, a, k);
}

status lowrank_recompress(cudaStream_t s, backend_type t, char job, const batch_cut *cut,
                          int64_t count, batch_dim m, batch_dim n, const void *beta, batch_dim k,
                          batch_mat u, batch_mat v, const void *alpha, batch_dim k2, batch_mat u2,
                          batch_mat v2, int64_t *rank, int *info, void *work, size_t lwork) {
    const double fb = t == BACKEND_D ? *(const double *)beta : (double)*(const float *)beta,
                 fa = t == BACKEND_D ? *(const double *)alpha : (double)*(const float *)alpha;
    lowrank::Sum q = {job, cut, count, m,  n,  k,       k2,      u,    v,   u2,
                      v2,  1,   1,     fb, fa, fb != 0, fa != 0, rank, info};
    if (job == 'R') {
        q.m = n, q.n = m, q.u = v, q.v = u, q.u2 = v2, q.v2 = u2;
        q.fu = fb, q.fu2 = fa, q.fv = q.fv2 = 1;
    }
    return t == BACKEND_D ? lowrank::run<double>(s, q, work, lwork)
                          : lowrank::run<float>(s, q, work, lwork);
}
