/* Randomized and adaptive low-rank approximation: one kernel finds the range Q of a matrix and B =
 * Q^T A, a thread block for each matrix, all rounds inside; the SVD of B^T and the product of Q
 * with its vectors follow. The random matrix is the same for all matrices of a call and is written
 * once, so that products read it from the L2 cache. */
#include "backend/backend_random.h"
#include "lowrank_block.cuh"

namespace lowrank {
namespace {

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
    int64_t count;
};

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

template <class T> size_t sketch_shared(int width, int ly) {
    return sizeof(double) * (size_t)(block_scratch(WARPS) + WARPS + 1) +
           sizeof(T) * ((size_t)width + (size_t)ly * WIDE) + 16;
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
    s.Y = a.ly ? (T *)(s.bad + 2) : a.y + b * a.m.n * WIDE;
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
template <class T>
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
        reached = rest <= t * t && (t >= least || rest == 0);
        if (reached || p == most)
            break;
        const int w = most - p < block ? most - p : block;
        if (!sketch_round(s, a.omega + (int64_t)p * a.n.n, p, w, t >= least, t)) {
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

template <class T>
__device__ void fixed_range(const SketchArgs<T> &a, const Sketched<T> &s, int64_t b, int shift,
                            int64_t limit) {
    const int64_t k = s.m < s.n ? s.m : s.n, want = limit + a.over;
    const int l = (int)(want < k ? want : k);
    const double tol = a.tol_each ? a.tol_each[b] : a.tol;
    product<T, false>(s.a, s.lda, a.omega, s.ldb, s.m, s.n, l, s.scale, s.q, s.ldq);
    orthonormal(s, s.q, s.ldq, s.m, l);
    for (int p = 0; p < a.power; p++) {
        product<T, true>(s.a, s.lda, s.q, s.ldq, s.n, s.m, l, s.scale, s.bt, s.ldb);
        orthonormal(s, s.bt, s.ldb, s.n, l);
        product<T, false>(s.a, s.lda, s.bt, s.ldb, s.m, s.n, l, s.scale, s.q, s.ldq);
        orthonormal(s, s.q, s.ldq, s.m, l);
    }
    product<T, true>(s.a, s.lda, s.q, s.ldq, s.n, s.m, l, s.scale, s.bt, s.ldb);
    if (threadIdx.x == 0) {
        a.found[b] = l;
        a.cut[b] = !(tol > 0) ? 0 : a.relative ? tol : ldexp(tol, shift);
        a.info[b] = 0;
    }
}

template <class T>
__global__ void __launch_bounds__(32 * WARPS, 2)
    range_kernel(const __grid_constant__ SketchArgs<T> a) {
    extern __shared__ __align__(16) unsigned char shared[];
    const int64_t b = blockIdx.x;
    batch::wait_for_predecessor();
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
        }
        return;
    }
    s.scale = scale_by<T>(shift);
    if (threadIdx.x == 0)
        a.shift[b] = shift;
    if (a.adaptive)
        adaptive_range(a, s, b, shift, limit,
                       shift ? squares(s.a, s.lda, s.m, s.n, s.scale, s.red) : seen.sum);
    else
        fixed_range(a, s, b, shift, limit);
}

/* --- U := Q X, and the scales and signs of the results */
template <class T> struct FinishArgs {
    Mat<T> U, V, S;
    Dim m, n;
    const T *q, *x, *sigma; /* m.n x width, width x width, width */
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
    for (int i = lane; i < m && a.jobu != 'N'; i += 32) {
        const T x = (T)(factor * root * (double)u[i]);
        u[i] = a.jobu == 'S' ? down(x) : x;
    }
    for (int i = lane; i < n && a.jobv != 'N'; i += 32) {
        const T x = (T)(factor * root * (double)v[i]);
        v[i] = a.jobv == 'S' ? down(x) : x;
    }
}

template <class T>
__global__ void __launch_bounds__(32 * WARPS)
    finish_kernel(const __grid_constant__ FinishArgs<T> a) {
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
    if (a.jobu != 'N')
        product<T, false>(a.q + b * a.m.n * a.width, a.m.n, a.x + b * a.width * a.width, a.width, m,
                          (int)a.found[b], r, Scale<T>{T(1), T(1), false}, U.p, U.sj);
    __syncthreads();
    for (int j = threadIdx.x / 32; j < r; j += WARPS)
        finish_column(a, U.p + j * U.sj, V.p + j * V.sj, m, n, sigma[j], a.shift[b], lane);
}

/* --- a call */

/* Work: what all matrices share, then the arrays of a chunk, then that of the SVD. */
template <class T> struct Layout {
    T *omega, *reflectors, *q, *bt, *y, *tau, *x, *sigma;
    int64_t *found, *rank;
    double *cut;
    int *shift, *mine, *svd;
    void *rest;
    size_t bytes;
    Layout(void *work, bool adaptive, int64_t chunk, int64_t m, int64_t n, int64_t width) {
        const int64_t each = chunk * width;
        Pieces w = {(char *)work, 0};
        omega = w.take<T>(n * width);
        reflectors = w.take<T>(adaptive ? each * m : 0);
        q = w.take<T>(each * m), bt = w.take<T>(each * n);
        y = w.take<T>(adaptive ? chunk * m * WIDE : 0);
        tau = w.take<T>(each), x = w.take<T>(each * width), sigma = w.take<T>(each);
        found = w.take<int64_t>(chunk), rank = w.take<int64_t>(chunk);
        cut = w.take<double>(chunk);
        shift = w.take<int>(chunk), mine = w.take<int>(chunk), svd = w.take<int>(chunk);
        rest = work ? (char *)work + w.used : nullptr;
        bytes =
            w.used + lowrank_gesvj_work(sizeof(T) == 8 ? BACKEND_D : BACKEND_S, chunk, n, width);
    }
};

int64_t columns(bool adaptive, int64_t m, int64_t n, int64_t k) {
    const int64_t least = m < n ? m : n, want = adaptive ? (k + WIDE - 1) / WIDE * WIDE : k,
                  width = want < least ? want : least;
    return width > 0 ? width : 1;
}

template <class T>
size_t work_bytes(bool adaptive, int64_t count, int64_t m, int64_t n, int64_t k) {
    const int64_t chunk = count < CHUNK ? count : CHUNK;
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

template <class T>
status find_range(cudaStream_t s, const Call &c, const Layout<T> &w, int64_t first, int64_t count,
                  int64_t width) {
    SketchArgs<T> k = {};
    const batch_cut cut = cut_from(c.cut, first);
    constexpr backend_type t = sizeof(T) == 8 ? BACKEND_D : BACKEND_S;
    k.A = plain_mat<T>(mat_from(c.a, t, first));
    k.m = plain_dim(dim_from(c.m, first)), k.n = plain_dim(dim_from(c.n, first));
    k.adaptive = c.adaptive, k.relative = cut.kind == 'R', k.frobenius = cut.norm == 'F';
    k.tol = cut.tol, k.tol_each = cut.tol_each, k.most_each = cut.most_each;
    k.most = (int)cut.most, k.over = (int)c.over, k.power = c.power;
    k.width = (int)width, k.omega = w.omega;
    k.reflectors = w.reflectors, k.q = w.q, k.bt = w.bt, k.y = w.y, k.tau = w.tau;
    k.found = w.found, k.cut = w.cut, k.shift = w.shift, k.info = w.mine;
    k.count = count;
    if (c.adaptive && c.m.n <= 4096) {
        k.ly = conflict_free((int)c.m.n);
        k.ly = sketch_shared<T>((int)width, k.ly) <= BLOCK_SHARED ? k.ly : 0;
    }
    return batch::launch(range_kernel<T>, dim3((unsigned)count), 32 * WARPS,
                         sketch_shared<T>((int)width, k.ly), s, k);
}

template <class T>
status finish(cudaStream_t s, const Call &c, const Layout<T> &w, int64_t first, int64_t count,
              int64_t width) {
    FinishArgs<T> k = {};
    constexpr backend_type t = sizeof(T) == 8 ? BACKEND_D : BACKEND_S;
    k.U = plain_mat<T>(mat_from(c.u, t, first)), k.V = plain_mat<T>(mat_from(c.v, t, first));
    k.S = plain_mat<T>(mat_from(c.sigma, t, first));
    k.m = plain_dim(dim_from(c.m, first)), k.n = plain_dim(dim_from(c.n, first));
    k.q = w.q, k.x = w.x, k.sigma = w.sigma;
    k.width = (int)width, k.most = (int)c.cut->most;
    k.jobu = c.jobu, k.jobv = c.jobv;
    k.values = !c.adaptive, k.signs = c.signs;
    k.found = w.found, k.rank = w.rank, k.shift = w.shift, k.mine = w.mine, k.svd = w.svd;
    k.info = c.info ? c.info + first : nullptr, k.rank_out = c.rank + first;
    return batch::launch(finish_kernel<T>, dim3((unsigned)count), 32 * WARPS, 0, s, k);
}

template <class T>
status run(cudaStream_t s, const Call &c, int64_t columns_most, void *work, size_t lwork,
           const char *name) {
    constexpr backend_type t = sizeof(T) == 8 ? BACKEND_D : BACKEND_S;
    const int64_t width = columns(c.adaptive, c.m.n, c.n.n, columns_most);
    int64_t chunk = c.count < CHUNK ? c.count : CHUNK;
    while (chunk > 1 && Layout<T>(nullptr, c.adaptive, chunk, c.m.n, c.n.n, width).bytes > lwork)
        chunk = (chunk + 1) / 2;
    const Layout<T> w(work, c.adaptive, chunk, c.m.n, c.n.n, width);
    const size_t left = lwork - (size_t)((char *)w.rest - (char *)work);
    status rc =
        batch::launch(random_kernel<T>, dim3(264), 256, 0, s, w.omega, c.n.n, width, c.seed);
    for (int64_t first = 0; first < c.count && rc == MOAO_OK; first += chunk) {
        const int64_t now = c.count - first < chunk ? c.count - first : chunk;
        rc = find_range<T>(s, c, w, first, now, width);
        if (rc != MOAO_OK)
            break;
        batch_cut cut = cut_from(c.cut, first);
        cut.kind = c.adaptive ? 'A' : cut.kind;
        cut.tol = 0, cut.tol_each = w.cut;
        const batch_dim found = {width, w.found};
        const status st =
            lowrank_gesvj(s, t, c.svd_left, c.svd_right, &cut, now, dim_from(c.n, first), found,
                          batch_strided(w.bt, c.n.n > 0 ? c.n.n : 1, c.n.n * width),
                          batch_strided(w.sigma, width, width), mat_from(c.v, t, first),
                          batch_strided(w.x, width, width * width), w.rank, w.svd, w.rest, left);
        if (st != MOAO_OK)
            return st;
        rc = finish<T>(s, c, w, first, now, width);
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
