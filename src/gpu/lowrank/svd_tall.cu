/* Singular values of matrices with many rows (or columns): A (or A^T) = Q R first, then
 * the decomposition of R, then Q times its left vectors; a chunk of the batch at a time. */
#include "gpu/batch/batch_gpu.h"
#include "svd_matrix.cuh"
#include "svd_tall.cuh"

namespace lowrank {

namespace {

constexpr int THREADS = 256;
constexpr int64_t ALIGN = 256;

/* What a chunk of the batch has in the workspace: Q, R and the left vectors W of R; for each matrix
 * its rows and columns as it is worked on (0: left out), the smaller of them, rank, info of the
 * input and of the core; where rows and columns are sorted, the left vectors in that order and
 * which row and column went to which place. */
struct Chunk {
    int64_t matrices, rows, cols;                            /* bounds */
    size_t q, r, w, sizes, infos, left, places, core, total; /* offsets in bytes */
};

size_t aligned(size_t bytes) {
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}
Chunk chunk_layout(backend_type t, int64_t matrices, int64_t rows, int64_t cols, bool sorted) {
    const size_t element = t == BACKEND_D ? sizeof(double) : sizeof(float);
    Chunk c = {matrices, rows, cols, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    c.r = aligned(element * (size_t)(matrices * rows * cols));
    c.w = c.r + aligned(element * (size_t)(matrices * cols * cols));
    c.sizes = c.w + aligned(element * (size_t)(matrices * cols * cols));
    c.infos = c.sizes + aligned(4 * sizeof(int64_t) * (size_t)matrices);
    c.left = c.infos + aligned(2 * sizeof(int) * (size_t)matrices);
    c.places = c.left + (sorted ? aligned(element * (size_t)(matrices * rows * cols)) : 0);
    c.core = c.places + (sorted ? aligned(sizeof(int) * (size_t)(matrices * (rows + cols))) : 0);
    c.total = c.core + lowrank_gesvj_work(t, matrices, cols, cols);
    return c;
}
int64_t chunk_most(int64_t count, int64_t rows) {
    const int64_t most = (rows > BLOCK_ROWS ? 2 : 8) * (int64_t)batch::resident(1);
    return count < most ? count : most;
}

/* The operand of matrices c0, c0 + 1, ... of the batch. */
batch_mat mat_from(batch_mat m, int64_t c0, size_t element) {
    if (m.ptrs)
        m.ptrs += c0;
    else if (m.base)
        m.base = (char *)m.base + (size_t)(c0 * m.stride) * element;
    if (m.lds)
        m.lds += c0;
    return m;
}
batch_dim dim_from(batch_dim d, int64_t c0) {
    if (d.each)
        d.each += c0;
    return d;
}

template <class T> struct TallArgs {
    Mat<T> A;
    Dim m, n;
    T *Q;
    bool turned;        /* Q := A^T */
    int64_t rows, cols; /* bounds; Q has rows x cols a matrix */
    int64_t *row_each, *col_each, *least_each;
    int *info;
    int *places; /* of each matrix: rows.. then cols..; NULL: as they are */
};

constexpr int WARPS = THREADS / 32;

/* What orders numbers that are not negative, infinity and NaN included: equal keys may come from
 * numbers that differ by a millionth. */
__device__ inline int size_key(double x) {
    return min(__double2hiint(x) & INT32_MAX, 0x7ff00000);
}
/* at[p]: which of n keys has place p in descending order, equal ones by index. There is room for a
 * multiple of four keys. All threads. */
__device__ inline void place_keys(int *key, int n, int *at) {
    for (int i = n + (int)threadIdx.x; i < round_up(n, 4); i += THREADS)
        key[i] = -2;
    __syncthreads();
    for (int i = (int)threadIdx.x; i < n; i += THREADS) {
        const int mine = key[i];
        int before = 0;
#pragma unroll 4
        for (int o = 0; o < n; o += 4) {
            const int4 k = *(const int4 *)(key + o);
            before += (k.x + (o < i) > mine) + (k.y + (o + 1 < i) > mine) +
                      (k.z + (o + 2 < i) > mine) + (k.w + (o + 3 < i) > mine);
        }
        at[before] = i;
    }
    __syncthreads();
}

/* Shared memory of tall_in for the order of rows and columns. */
struct TallOrder {
    double *sums; /* of each warp: of the moduli of each column */
    int *row_key, *col_key;
    __host__ __device__ static size_t bytes(int rows, int cols) {
        return sizeof(double) * (size_t)(WARPS * round_up(cols, 8)) +
               sizeof(int) * (size_t)(round_up(rows, 4) + round_up(cols, 4));
    }
    __device__ TallOrder(unsigned char *s, int rows, int cols)
        : sums((double *)s), row_key((int *)(sums + WARPS * round_up(cols, 8))),
          col_key(row_key + round_up(rows, 4)) {
    }
};
/* Which row goes to which place by its largest entry, which column by the sum of its moduli, both
 * descending: row_at and col_at, whose lengths are `rows` and `cols`. A is read once; *bad: the
 * first row (by_row) or column, from 1, that is not finite. */
template <class T>
__device__ inline void tall_order(const Ref<T> &A, int rows, int cols, bool by_row, TallOrder s,
                                  int *bad, int *row_at, int *col_at) {
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32, width = round_up(cols, 8);
    for (int j = lane; j < width; j += 32)
        s.sums[warp * width + j] = 0.0;
    __syncwarp();
    for (int first = 32 * warp; first < rows; first += THREADS) {
        const int i = first + lane;
        T top = T(0);
        for (int j = 0; j < cols; j += 8) {
            T x[8];
            double sum[8];
#pragma unroll
            for (int u = 0; u < 8; u++)
                x[u] = i < rows && j + u < cols ? fabs(*A.at(i, j + u)) : T(0);
#pragma unroll
            for (int u = 0; u < 8; u++) {
                if (!(x[u] <= Squares<T>::TOP))
                    atomicMin(bad, (by_row ? i : j + u) + 1);
                top = fmax(top, x[u]);
                sum[u] = (double)x[u];
            }
            const double all = warp_sums(sum, lane);
            if (lane % 4 == 0)
                s.sums[warp * width + j + lane / 4] += all;
        }
        if (i < rows)
            s.row_key[i] = size_key((double)top);
    }
    __syncthreads();
    for (int j = (int)threadIdx.x; j < cols; j += THREADS) {
        double sum = 0.0;
        for (int w = 0; w < WARPS; w++)
            sum += s.sums[w * width + j];
        s.col_key[j] = size_key(sum);
    }
    place_keys(s.row_key, rows, row_at);
    place_keys(s.col_key, cols, col_at);
}

/* Q := A or A^T, sorted if so asked; its sizes, 0 where the sizes are out of range
 * (info -1) or something is not finite (info: its column). */
template <class T>
__global__ void __launch_bounds__(THREADS) tall_in(const __grid_constant__ TallArgs<T> a) {
    extern __shared__ __align__(16) unsigned char shared[];
    int *bad = (int *)shared;
    const int64_t b = blockIdx.x;
    batch::wait_for_predecessor();
    const int m = dim_full(a.m, b), n = dim_full(a.n, b), rows = a.turned ? n : m,
              cols = a.turned ? m : n;
    const bool valid = dim_valid(a.m, b) && dim_valid(a.n, b);
    const Ref<T> A = resolve(a.A, b, m, n), B = a.turned ? Ref<T>{A.p, A.sj, A.si, false} : A;
    T *Q = a.Q + b * a.rows * a.cols;
    int *row_at = nullptr, *col_at = nullptr;
    if (threadIdx.x == 0)
        *bad = INT32_MAX;
    __syncthreads();
    if (valid && a.places) {
        row_at = a.places + b * (a.rows + a.cols), col_at = row_at + a.rows;
        tall_order(B, rows, cols, a.turned, TallOrder(shared + 16, (int)a.rows, (int)a.cols), bad,
                   row_at, col_at);
        for (int j = (int)threadIdx.x / 32; j < cols; j += WARPS)
#pragma unroll 8
            for (int i = (int)threadIdx.x % 32; i < rows; i += 32)
                Q[i + j * a.rows] = *B.at(row_at[i], col_at[j]);
    } else if (valid) {
        for (int j = (int)threadIdx.x / 32; j < n; j += WARPS)
            for (int i = (int)threadIdx.x % 32; i < m; i += 32) {
                const T x = *A.at(i, j);
                Q[a.turned ? j + i * a.rows : i + j * a.rows] = x;
                if (!(fabs(x) <= Squares<T>::TOP))
                    atomicMin(bad, j + 1);
            }
    }
    __syncthreads();
    if (threadIdx.x)
        return;
    const bool out = !valid || *bad != INT32_MAX || m == 0 || n == 0;
    a.row_each[b] = out ? 0 : rows;
    a.col_each[b] = out ? 0 : cols;
    a.least_each[b] = out ? 0 : m < n ? m : n;
    a.info[b] = !valid ? -1 : *bad != INT32_MAX ? *bad : 0;
}

/* W := R with its columns where they were. */
template <class T>
__global__ void __launch_bounds__(THREADS)
    tall_columns(const T *R, T *W, const int64_t *least_each, const int64_t *col_each,
                 const int *places, int64_t rows, int64_t cols) {
    const int64_t b = blockIdx.x;
    batch::wait_for_predecessor();
    const int k = (int)least_each[b], n = (int)col_each[b];
    const int *col_at = places + b * (rows + cols) + rows;
    for (int e = (int)threadIdx.x; e < k * n; e += THREADS)
        W[b * cols * cols + e % k + col_at[e / k] * cols] =
            R[b * cols * cols + e % k + e / k * cols];
}

template <class T> struct SignArgs {
    Mat<T> U, V;
    const T *left; /* left vectors, rows sorted; NULL: they are in place */
    const int *places;
    bool turned;
    int64_t rows, cols; /* bounds of left */
    Dim m, n;
    bool by_u, has_u, has_v;
    const int64_t *rank;
    const int *first, *second; /* info of the input, of the core */
    int64_t *rank_out;
    int *info_out;
};

/* The signs of the vectors, and what the caller learns of the matrix. */
template <class T>
__global__ void __launch_bounds__(THREADS) tall_out(const __grid_constant__ SignArgs<T> a) {
    const int64_t b = blockIdx.x;
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    batch::wait_for_predecessor();
    const int info = a.first[b] ? a.first[b] : a.second[b], m = dim_full(a.m, b),
              n = dim_full(a.n, b), r = a.first[b] ? 0 : (int)a.rank[b];
    if (threadIdx.x == 0) {
        if (a.info_out)
            a.info_out[b] = info;
        if (a.rank_out)
            a.rank_out[b] = r;
    }
    const Ref<T> U = resolve(a.U, b, m, r), V = resolve(a.V, b, n, r);
    const int rows = a.turned ? n : m, *const row_at = a.places + b * (a.rows + a.cols);
    for (int q = warp; q < r; q += WARPS) {
        const T *const left = a.left ? a.left + (b * a.cols + q) * a.rows : nullptr;
        T *const u = U.at(0, q), *const v = V.at(0, q);
        /* of the side that decides: sorted, or as the caller has it */
        const T sign =
            left && a.by_u != a.turned
                ? column_sign_at(left, row_at, rows, lane)
                : column_sign(a.by_u ? u : v, (const int *)nullptr, a.by_u ? m : n, lane);
        __syncwarp();
        if (left) {
            T *const to = a.turned ? v : u;
#pragma unroll 8
            for (int i = lane; i < rows; i += 32)
                to[row_at[i]] = sign * left[i];
        }
        if (sign > T(0))
            continue;
        if (a.has_u && (!left || a.turned))
            for (int i = lane; i < m; i += 32)
                u[i] = -u[i];
        if (a.has_v && (!left || !a.turned))
            for (int i = lane; i < n; i += 32)
                v[i] = -v[i];
    }
}

template <class T> Mat<T> plain(batch_mat m) {
    return Mat<T>{
        (T *)m.base, (T *const *)m.ptrs, m.stride, m.ld, m.lds, false, false, false, 0, 0};
}
Dim whole(batch_dim d) {
    return Dim{d.each, d.n, 0, (int)d.n};
}

/* One chunk: c.matrices of the batch, whose operands are as given. */
template <class T>
status run_chunk(cudaStream_t s, backend_type t, const SvdCall &p, const Chunk &c, char *work) {
    const int64_t count = c.matrices;
    const bool turned = p.m.n < p.n.n;
    const char job_left = turned ? p.jobv : p.jobu, job_right = turned ? p.jobu : p.jobv;
    T *Q = (T *)work, *R = (T *)(work + c.r), *W = (T *)(work + c.w);
    int64_t *rows = (int64_t *)(work + c.sizes), *cols = rows + count, *least = cols + count,
            *rank = least + count;
    int *first = (int *)(work + c.infos), *second = first + count;
    const batch_dim row_dim = {c.rows, rows}, col_dim = {c.cols, cols}, k_dim = {c.cols, least};
    const batch_mat q = batch_strided(Q, c.rows, c.rows * c.cols),
                    r = batch_strided(R, c.cols, c.cols * c.cols),
                    w = batch_strided(W, c.cols, c.cols * c.cols);
    const batch_mat left = turned ? p.v : p.u, right = turned ? p.u : p.v;
    int *const places = p.sorted ? (int *)(work + c.places) : nullptr;
    T *const sorted = p.sorted && job_left != 'N' ? (T *)(work + c.left) : nullptr;
    const TallArgs<T> in = {plain<T>(p.a), whole(p.m), whole(p.n), Q,     turned, c.rows,
                            c.cols,        rows,       cols,       least, first,  places};
    status rc =
        batch::launch(tall_in<T>, dim3((unsigned)count), THREADS,
                      16 + (p.sorted ? TallOrder::bytes((int)c.rows, (int)c.cols) : 0), s, in);
    if (rc != MOAO_OK)
        return rc;
    status st = lowrank_qr(s, t, job_left == 'N' ? 'R' : 'Q', count, row_dim, col_dim, q, r,
                           nullptr, nullptr, 0);
    if (st == MOAO_OK && places)
        rc = batch::launch(tall_columns<T>, dim3((unsigned)count), THREADS, 0, s, (const T *)R, W,
                           (const int64_t *)least, (const int64_t *)cols, (const int *)places,
                           c.rows, c.cols);
    if (st == MOAO_OK && rc == MOAO_OK)
        st = lowrank_gesvj(s, t, job_left, job_right, p.cut, count, k_dim, col_dim, places ? w : r,
                           p.sigma, w, right, rank, second, work + c.core, c.total - c.core);
    if (st != MOAO_OK)
        return st;
    if (job_left != 'N' && rc == MOAO_OK) {
        const batch_dim rank_dim = {c.cols, rank};
        batch::GemmArgs<T> g = {};
        g.A = plain<T>(q), g.B = plain<T>(w);
        g.C = plain<T>(sorted ? batch_strided(sorted, c.rows, c.rows * c.cols) : left);
        g.m = whole(row_dim), g.n = whole(rank_dim), g.k = whole(k_dim);
        g.alpha = T(1), g.beta = T(0), g.count = count;
        rc = batch::launch_gemm<T>(g, s);
    }
    const SignArgs<T> out = {plain<T>(p.u), plain<T>(p.v), sorted,     places,     turned,
                             c.rows,        c.cols,        whole(p.m), whole(p.n), p.jobu != 'N',
                             p.jobu != 'N', p.jobv != 'N', rank,       first,      second,
                             p.rank,        p.info};
    if (rc == MOAO_OK)
        rc = batch::launch(tall_out<T>, dim3((unsigned)count), THREADS, 0, s, out);
    return rc;
}

} // namespace

size_t tall_work(backend_type t, int64_t count, int64_t rows, int64_t cols, bool sorted) {
    return chunk_layout(t, chunk_most(count, rows), rows, cols, sorted).total;
}

status tall_svd(cudaStream_t s, backend_type t, const SvdCall &call, void *work, size_t lwork) {
    const size_t element = t == BACKEND_D ? sizeof(double) : sizeof(float);
    const int64_t rows = call.m.n > call.n.n ? call.m.n : call.n.n,
                  cols = call.m.n > call.n.n ? call.n.n : call.m.n;
    int64_t most = chunk_most(call.count, rows);
    while (most > 1 && chunk_layout(t, most, rows, cols, call.sorted).total > lwork)
        most = (most + 1) / 2;
    status st = MOAO_OK;
    for (int64_t c0 = 0; st == MOAO_OK && c0 < call.count; c0 += most) {
        SvdCall p = call;
        batch_cut cut;
        const int64_t left = call.count - c0;
        p.m = dim_from(call.m, c0), p.n = dim_from(call.n, c0);
        p.a = mat_from(call.a, c0, element), p.sigma = mat_from(call.sigma, c0, element);
        p.u = mat_from(call.u, c0, element), p.v = mat_from(call.v, c0, element);
        p.rank = call.rank ? call.rank + c0 : nullptr;
        p.info = call.info ? call.info + c0 : nullptr;
        if (call.cut) {
            cut = *call.cut;
            cut.tol_each = cut.tol_each ? cut.tol_each + c0 : nullptr;
            cut.most_each = cut.most_each ? cut.most_each + c0 : nullptr;
            cut.sweeps = cut.sweeps ? cut.sweeps + c0 : nullptr;
            p.cut = &cut;
        }
        const Chunk c = chunk_layout(t, left < most ? left : most, rows, cols, call.sorted);
        st = t == BACKEND_D ? run_chunk<double>(s, t, p, c, (char *)work)
                            : run_chunk<float>(s, t, p, c, (char *)work);
    }
    return st;
}

} // namespace lowrank
