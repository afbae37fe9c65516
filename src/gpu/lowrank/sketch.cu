/* Randomized and adaptive low-rank approximation: one kernel finds the range Q of a matrix and B =
 * Q^T A, a thread block for each matrix, all rounds inside; the SVD of B^T and the product of Q
 * with its vectors follow. The random matrix is the same for all matrices of a call and is written
 * once, so that products read it from the L2 cache. */
#include "moao/backend_random.h"
#include "qr_warp.cuh"
#include "sketch_range.cuh"
#include "svd_matrix.cuh"

namespace lowrank {
namespace {

template <class T>
__global__ void random_kernel(T *omega, int64_t n, int64_t width, uint64_t seed) {
    const int64_t quads = (n + 3) / 4;
    batch::wait_for_predecessor();
    for (int64_t e = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; e < quads * width;
         e += (int64_t)gridDim.x * blockDim.x) {
        const int64_t i = e % quads, j = e / quads;
        float x[4];
        backend_random(seed, i, j, x);
        for (int k = 0; k < 4 && 4 * i + k < n; k++)
            omega[4 * i + k + j * n] = (T)x[k];
    }
}

/* --- U := Q X, and the scales and signs of the results */
constexpr int FINISH_MOST = 96,
              FINISH_LD = conflict_free(FINISH_MOST); /* columns of an X in shared memory */
template <class T> struct FinishArgs {
    Mat<T> U, V, S;
    Dim m, n;
    const T *q, *x, *sigma; /* m.n x width, width x width, width */
    const T *bt;            /* n.n x width: V := B^T X; NULL: V is there */
    int width, most;
    char jobu, jobv; /* vectors, 'S' with values; 'B': times their roots; ' ' none */
    bool values, signs;
    const int64_t *found;
    const int64_t *rank;
    const int *shift, *mine, *svd;
    int *info;
    int64_t *rank_out;
};

/* Column j of U and V: sign, scale. By one warp. */
template <class T>
__device__ inline void finish_column(const FinishArgs<T> &a, T *u, T *v, int m, int n, T sigma,
                                     int shift, int lane) {
    double factor = 1;
    if (a.signs && a.jobu != 'N') {
        double best = -1;
        int at = 0;
        for (int i = lane; i < m; i += 32)
            if (fabs((double)u[i]) > best)
                best = fabs((double)u[i]), at = i;
#pragma unroll
        for (int d = 16; d; d >>= 1) {
            const double other = __shfl_xor_sync(0xffffffffu, best, d);
            const int place = __shfl_xor_sync(0xffffffffu, at, d);
            if (other > best || (other == best && place < at))
                best = other, at = place;
        }
        factor = m > 0 && u[at] < 0 ? -1 : 1;
        __syncwarp();
    }
    const double root = a.jobu == 'B' ? sqrt(ldexp((double)sigma, -shift)) : 1;
    const Scale<T> down = scale_by<T>(-shift);
    const bool same = factor * root == 1; /* nothing to do but to scale back */
    if (a.jobu != 'N' && (!same || (a.jobu == 'S' && down.on)))
        for (int i = lane; i < m; i += 32) {
            const T x = (T)(factor * root * (double)u[i]);
            u[i] = a.jobu == 'S' ? down(x) : x;
        }
    if (a.jobv != 'N' && (!same || (a.jobv == 'S' && down.on)))
        for (int i = lane; i < n; i += 32) {
            const T x = (T)(factor * root * (double)v[i]);
            v[i] = a.jobv == 'S' ? down(x) : x;
        }
}

/* U := Q X and V := B^T X (where they are wanted) of r columns, X found x r, in shared memory if it
 * has room for it. */
template <class T>
__device__ inline void finish_products(const FinishArgs<T> &a, const T *x, int found, int r,
                                       T *shared, const T *q, int m, const Ref<T> &U, const T *bt,
                                       int n, const Ref<T> &V) {
    if (a.width > FINISH_MOST || found % 16 || m % 32 || n % 32) {
        const Scale<T> none = {T(1), T(1), false};
        if (q)
            product<T, false>(q, a.m.n, x, a.width, m, found, r, none, U.p, U.sj);
        if (bt)
            product<T, false>(bt, a.n.n, x, a.width, n, found, r, none, V.p, V.sj);
        return;
    }
    for (int j = threadIdx.x / 32; j < round_up(r, WIDE); j += WARPS)
        for (int i = threadIdx.x % 32; i < found; i += 32)
            shared[i + j * FINISH_LD] = j < r ? x[i + j * a.width] : T(0);
    __syncthreads();
    if (q)
        product_shared<T, FINISH_LD>(q, a.m.n, shared, m, found, r, U.p, U.sj);
    if (bt)
        product_shared<T, FINISH_LD>(bt, a.n.n, shared, n, found, r, V.p, V.sj);
}

template <class T>
__global__ void __launch_bounds__(32 * WARPS, 2)
    finish_kernel(const __grid_constant__ FinishArgs<T> a) {
    extern __shared__ __align__(16) unsigned char shared[];
    const int64_t b = blockIdx.x;
    const int lane = threadIdx.x % 32;
    batch::wait_for_predecessor();
    const bool lost = a.mine[b] > 0 || a.mine[b] == -1;
    const int r = lost ? 0 : (int)a.rank[b], m = dim_full(a.m, b), n = dim_full(a.n, b);
    if (threadIdx.x == 0) {
        if (a.info)
            a.info[b] = a.mine[b] ? a.mine[b] : a.svd[b];
        a.rank_out[b] = r;
    }
    const Ref<T> U = resolve(a.U, b, m, r), V = resolve(a.V, b, n, r);
    const T *sigma = a.sigma + b * a.width;
    if (a.values && !lost) {
        const Ref<T> S = resolve(a.S, b, m, 1);
        const int k = m < n ? m : n, values = k < a.most ? k : a.most;
        for (int i = threadIdx.x; i < values; i += blockDim.x)
            S.p[i] = i < r ? scale_by<T>(-a.shift[b])(sigma[i]) : T(0);
    }
    if (r == 0)
        return;
    const T *q = a.q + b * a.m.n * a.width, *bt = a.bt ? a.bt + b * a.n.n * a.width : nullptr;
    finish_products(a, a.x + b * a.width * a.width, (int)a.found[b], r, (T *)shared,
                    a.jobu != 'N' ? q : nullptr, m, U, bt, n, V);
    __syncthreads();
    for (int j = threadIdx.x / 32; j < r; j += WARPS)
        finish_column(a, U.p + j * U.sj, V.p + j * V.sj, m, n, sigma[j], a.shift[b], lane);
}

/* --- a call */

/* Matrices at once, if the workspace holds them. Adaptive ones take different numbers of rounds,
 * and the last ones of a chunk have the device to themselves: fewer and larger ones. */
int64_t chunk_of(bool adaptive, int64_t count) {
    const int64_t most = adaptive ? 2 * CHUNK : CHUNK;
    return count < most ? count : most;
}

/* Work: what all matrices share, then the arrays of a chunk, then that of the SVD. */
template <class T> struct Layout {
    T *omega, *reflectors, *q, *bt, *y, *tau, *x, *r, *sigma;
    int64_t *found, *rank, *plain;
    double *cut;
    int *shift, *mine, *svd;
    void *rest;
    size_t bytes;
    Layout(void *work, bool adaptive, int64_t chunk, int64_t m, int64_t n, int64_t width) {
        const int64_t each = chunk * width;
        Pieces w = {(char *)work, 0};
        omega = w.take<T>(n * width);
        reflectors = w.take<T>(adaptive ? each * (m > n ? m : n) : 0);
        q = w.take<T>(each * m), bt = w.take<T>(each * n);
        y = w.take<T>(adaptive ? chunk * m * WIDE : 0);
        tau = w.take<T>(each), x = w.take<T>(each * width), sigma = w.take<T>(each);
        r = w.take<T>(each * width), plain = w.take<int64_t>(adaptive ? 0 : chunk);
        found = w.take<int64_t>(chunk), rank = w.take<int64_t>(chunk);
        cut = w.take<double>(chunk);
        shift = w.take<int>(chunk), mine = w.take<int>(chunk), svd = w.take<int>(chunk);
        rest = work ? (char *)work + w.used : nullptr;
        constexpr backend_type t = sizeof(T) == 8 ? BACKEND_D : BACKEND_S;
        const size_t tall = lowrank_factor_svd_work(t, chunk, n, width),
                     square = lowrank_span_work(t, chunk, width, width);
        bytes = w.used + (tall > square ? tall : square);
    }
};

int64_t columns(bool adaptive, int64_t m, int64_t n, int64_t k) {
    const int64_t least = m < n ? m : n, want = adaptive ? (k + WIDE - 1) / WIDE * WIDE : k,
                  width = want < least ? want : least;
    return width > 0 ? width : 1;
}

template <class T>
size_t work_bytes(bool adaptive, int64_t count, int64_t m, int64_t n, int64_t k) {
    const int64_t chunk = chunk_of(adaptive, count);
    return Layout<T>(nullptr, adaptive, chunk, m, n, columns(adaptive, m, n, k)).bytes;
}

/* What one call of either routine asks for. */
struct Call {
    bool adaptive, signs;
    char svd_left, svd_right; /* jobs of the SVD of B^T: V and X */
    char jobu, jobv;          /* of the last kernel */
    const batch_cut *cut;
    int64_t over;
    int power;
    uint64_t seed;
    int64_t count;
    batch_dim m, n;
    batch_mat a, sigma, u, v;
    int64_t *rank;
    int *info;
};

/* Range and B^T of matrices of a fixed rank: products of the whole chunk at once. */
template <class T>
status fixed_ranges(cudaStream_t s, const Call &c, const Layout<T> &w, const SketchArgs<T> &k,
                    int64_t width) {
    constexpr backend_type t = sizeof(T) == 8 ? BACKEND_D : BACKEND_S;
    const int64_t m = c.m.n > 0 ? c.m.n : 1, n = c.n.n > 0 ? c.n.n : 1;
    const batch_dim l = {width, w.plain};
    const batch_mat q = batch_strided(w.q, m, m * width), bt = batch_strided(w.bt, n, n * width),
                    r = batch_strided(w.r, width, width * width);
    const Mat<T> omega = view<T>(batch_strided(w.omega, n, 0));
    Mat<T> turned = k.A;
    turned.trans = true;
    GPU_TRY(batch::launch(range_kernel<T, RANGE_SURVEY>, dim3((unsigned)k.count), 32 * WARPS,
                          sketch_shared<T>((int)width, 0), s, k));
    for (int p = 0; p <= c.power && c.m.n > 0 && c.n.n > 0; p++) {
        const batch::GemmArgs<T> y = {k.A,        p ? view<T>(bt) : omega,
                                      view<T>(q), k.m,
                                      whole(l),   k.n,
                                      T(1),       T(0),
                                      false,      false,
                                      nullptr,    k.count},
                                 b = {turned, view<T>(q), view<T>(bt), k.n,   whole(l), k.m,
                                      T(1),   T(0),       false,       false, nullptr,  k.count};
        GPU_TRY(batch::launch_gemm<T>(y, s));
        GPU_TRY(lowrank_qr(s, t, 'Q', k.count, batch_dim{c.m.n, k.m.each}, l, q, r, nullptr,
                           nullptr, 0));
        GPU_TRY(batch::launch_gemm<T>(b, s));
        if (p < c.power)
            GPU_TRY(lowrank_qr(s, t, 'Q', k.count, batch_dim{c.n.n, k.n.each}, l, bt, r, nullptr,
                               nullptr, 0));
    }
    return MOAO_OK;
}

template <class T>
status find_range(cudaStream_t s, const Call &c, const Layout<T> &w, int64_t first, int64_t count,
                  int64_t width) {
    SketchArgs<T> k = {};
    const batch_cut cut = cut_from(c.cut, first);
    constexpr backend_type t = sizeof(T) == 8 ? BACKEND_D : BACKEND_S;
    k.A = view<T>(mat_from(c.a, t, first));
    k.m = whole(dim_from(c.m, first)), k.n = whole(dim_from(c.n, first));
    k.adaptive = c.adaptive, k.or_nothing = c.adaptive && cut.or_nothing,
    k.relative = cut.kind == 'R', k.frobenius = cut.norm == 'F';
    k.tol = cut.tol, k.tol_each = cut.tol_each, k.most_each = cut.most_each;
    k.most = (int)cut.most, k.later = k.or_nothing ? (int)cut.later : 0, k.over = (int)c.over,
    k.power = c.power;
    k.width = (int)width, k.omega = w.omega;
    k.reflectors = w.reflectors, k.q = w.q, k.bt = w.bt, k.y = w.y, k.tau = w.tau;
    k.found = w.found, k.cut = w.cut, k.shift = w.shift, k.info = w.mine;
    k.plain = c.adaptive ? nullptr : w.plain;
    k.count = count;
    if (!c.adaptive)
        GPU_TRY(fixed_ranges<T>(s, c, w, k, width));
    const bool tall =
        sketch_shared<T>((int)width, conflict_free(64 * WARPS), 2 * WARPS) <= gpu_shared_most();
    const int way = !c.adaptive || c.m.n > (tall ? 64 : 32) * WARPS ? RANGE_BLOCK
                    : c.m.n <= 32 * WARPS                           ? RANGE_GRID
                                                                    : RANGE_GRID_TALL,
              warps = way == RANGE_GRID_TALL ? 2 * WARPS : WARPS;
    if (c.adaptive && c.m.n <= 4096) {
        k.ly = conflict_free(way == RANGE_BLOCK ? (int)c.m.n : 32 * warps);
        k.ly = sketch_shared<T>((int)width, k.ly, warps) <= gpu_shared_most() ? k.ly : 0;
    }
    return batch::launch(way == RANGE_GRID        ? range_kernel<T, RANGE_GRID>
                         : way == RANGE_GRID_TALL ? range_kernel<T, RANGE_GRID_TALL>
                                                  : range_kernel<T, RANGE_BLOCK>,
                         dim3((unsigned)count), 32 * warps,
                         sketch_shared<T>((int)width, k.ly, warps), s, k);
}

template <class T>
status finish(cudaStream_t s, const Call &c, const Layout<T> &w, int64_t first, int64_t count,
              int64_t width, bool direct) {
    FinishArgs<T> k = {};
    constexpr backend_type t = sizeof(T) == 8 ? BACKEND_D : BACKEND_S;
    k.U = view<T>(mat_from(c.u, t, first)), k.V = view<T>(mat_from(c.v, t, first));
    k.S = view<T>(mat_from(c.sigma, t, first));
    k.m = whole(dim_from(c.m, first)), k.n = whole(dim_from(c.n, first));
    k.q = w.q, k.x = w.x, k.sigma = w.sigma, k.bt = direct ? w.bt : nullptr;
    k.width = (int)width, k.most = (int)c.cut->most;
    k.jobu = c.jobu, k.jobv = c.jobv;
    k.values = !c.adaptive, k.signs = c.signs;
    k.found = w.found, k.rank = w.rank, k.shift = w.shift, k.mine = w.mine, k.svd = w.svd;
    k.info = c.info ? c.info + first : nullptr, k.rank_out = c.rank + first;
    const size_t shared =
        width <= FINISH_MOST ? sizeof(T) * (size_t)(round_up((int)width, WIDE) * FINISH_LD) : 0;
    return batch::launch(finish_kernel<T>, dim3((unsigned)count), 32 * WARPS, shared, s, k);
}

template <class T>
status run(cudaStream_t s, const Call &c, int64_t columns_most, void *work, size_t lwork,
           const char *name) {
    constexpr backend_type t = sizeof(T) == 8 ? BACKEND_D : BACKEND_S;
    const int64_t width = columns(c.adaptive, c.m.n, c.n.n, columns_most);
    int64_t chunk = chunk_of(c.adaptive, c.count);
    while (chunk > 1 && Layout<T>(nullptr, c.adaptive, chunk, c.m.n, c.n.n, width).bytes > lwork)
        chunk = (chunk + 1) / 2;
    const Layout<T> w(work, c.adaptive, chunk, c.m.n, c.n.n, width);
    /* V that carries the values is B^T X: R alone of B^T gives X, if B^T stays as it is or is
     * copied */
    const bool keeps = qr_keeps(c.n.n, width), gram = qr_gram_fits(FULL_Q, c.n.n, width),
               direct = c.adaptive && c.svd_left == 'S' && (keeps || gram);
    const size_t left = lwork - (size_t)((char *)w.rest - (char *)work);
    status rc = batch::launch(random_kernel<T>, dim3((unsigned)batch::resident(2)), 256, 0, s,
                              w.omega, c.n.n, width, c.seed);
    for (int64_t first = 0; first < c.count && rc == MOAO_OK; first += chunk) {
        const int64_t now = c.count - first < chunk ? c.count - first : chunk;
        rc = find_range<T>(s, c, w, first, now, width);
        if (rc != MOAO_OK)
            break;
        batch_cut cut = cut_from(c.cut, first);
        cut.kind = c.adaptive ? 'A' : cut.kind;
        cut.tol = 0, cut.tol_each = w.cut;
        const batch_dim found = {width, w.found}, dn = dim_from(c.n, first);
        const batch_mat bt = batch_strided(w.bt, c.n.n > 0 ? c.n.n : 1, c.n.n * width),
                        sigma = batch_strided(w.sigma, width, width),
                        x = batch_strided(w.x, width, width * width),
                        r = batch_strided(w.r, width, width * width);
        status st;
        if (!direct)
            st = lowrank_factor_svd(s, t, c.svd_left, c.svd_right, &cut, now, dn, found, bt, sigma,
                                    mat_from(c.v, t, first), x, w.rank, w.svd, w.rest, left);
        else {
            batch_mat copy = bt;
            if (!keeps) {
                copy.base = w.reflectors;
                CUDA_TRY(cudaMemcpyAsync(w.reflectors, w.bt,
                                         sizeof(T) * (size_t)(now * c.n.n * width),
                                         cudaMemcpyDeviceToDevice, s));
            }
            st = lowrank_qr(s, t, keeps ? 'R' : 'Q', now, dn, found, copy, r, nullptr, nullptr, 0);
            if (st == MOAO_OK)
                st = lowrank_span(s, t, true, &cut, now, found, found, r, sigma, x, w.rank, w.svd,
                                  w.rest, left);
        }
        if (st != MOAO_OK)
            return st;
        rc = finish<T>(s, c, w, first, now, width, direct);
    }
    return rc;
}

} // namespace
} // namespace lowrank

size_t lowrank_rsvd_work(backend_type t, int64_t count, int64_t m, int64_t n, int64_t k) {
    return t == BACKEND_D ? lowrank::work_bytes<double>(false, count, m, n, k)
                          : lowrank::work_bytes<float>(false, count, m, n, k);
}
size_t lowrank_ara_work(backend_type t, int64_t count, int64_t m, int64_t n, int64_t k) {
    return t == BACKEND_D ? lowrank::work_bytes<double>(true, count, m, n, k)
                          : lowrank::work_bytes<float>(true, count, m, n, k);
}

status lowrank_rsvd(cudaStream_t s, backend_type t, char jobu, char jobv, const batch_cut *cut,
                    int64_t over, int power, uint64_t seed, int64_t count, batch_dim m, batch_dim n,
                    batch_mat a, batch_mat sigma, batch_mat u, batch_mat v, int64_t *rank,
                    int *info, void *work, size_t lwork) {
    const int64_t more = over < 0 ? 8 : over;
    const lowrank::Call c = {false, true, jobv, jobu, jobu,  jobv, cut, more, power, seed,
                             count, m,    n,    a,    sigma, u,    v,   rank, info};
    return t == BACKEND_D
               ? lowrank::run<double>(s, c, cut->most + more, work, lwork, "batched rsvd")
               : lowrank::run<float>(s, c, cut->most + more, work, lwork, "batched rsvd");
}

status lowrank_ara(cudaStream_t s, backend_type t, char job, const batch_cut *cut, uint64_t seed,
                   int64_t count, batch_dim m, batch_dim n, batch_mat a, batch_mat u, batch_mat v,
                   int64_t *rank, int *info, void *work, size_t lwork) {
    const char left = job == 'L' ? 'S' : 'U', right = job == 'R' ? 'S' : 'U',
               lastu = job == 'B' ? 'B' : right, lastv = job == 'B' ? 'B' : left;
    const lowrank::Call c = {true,  false, left, right, lastu,       lastv, cut, 0,    0,   seed,
                             count, m,     n,    a,     batch_mat{}, u,     v,   rank, info};
    return t == BACKEND_D ? lowrank::run<double>(s, c, cut->most, work, lwork, "batched ara")
                          : lowrank::run<float>(s, c, cut->most, work, lwork, "batched ara");
}
