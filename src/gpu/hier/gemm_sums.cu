/* Sums of products of small matrices with blocks of rows of a few dense operands: one launch for
 * all sums of a level. Wide operands: tiles of the result by warps with 32 x 32 accumulators,
 * slices of both factors staged ahead, the slices of all terms of a sum one after another; in
 * double precision also with all factors of a sum in shared memory (gemm_sums_resident.cuh). Up to
 * 16 columns: the factors are read once, by blocks of 32 rows whose warps share the inner sizes. */
#include "gemm_sums_resident.cuh"
#include "gemm_sums_stream.cuh"
#include "gpu/batch/batch_gpu.h"
#include "gpu/batch/batch_tile.cuh"
#include "hier_gpu.h"

namespace {
using batch::Acc;

constexpr int SLICE = 16, AHEAD = 3, LDK = SLICE + 4;
/* Tiles that leave multiprocessors without work, and that do not: two and four for each. */
inline int64_t few_tiles() {
    return batch::resident(2);
}
inline int64_t many_tiles() {
    return batch::resident(4);
}

/* ROWS x 16 numbers of which `rows` x `depth` are inside, zero elsewhere, by NT threads. ALONG:
 * element (r, k) lies at p[k + r ld] and goes to s[r LDK + k]; else at p[r + k ld], to s[k (ROWS +
 * 4) + r]. */
template <class T, bool ALONG, int ROWS, int NT>
__device__ inline void stage_slice(T *s, const T *p, int64_t ld, int64_t rows, int depth, int tid) {
    constexpr int V = 16 / sizeof(T), LD = ROWS + 4;
    if (rows >= ROWS && depth >= SLICE && (uintptr_t)p % 16 == 0 && ld % V == 0) {
        constexpr int LINE = ALONG ? SLICE / V : ROWS / V;
#pragma unroll
        for (int q = tid; q < ROWS * SLICE / V; q += NT) {
            const int in = q % LINE * V, line = q / LINE;
            batch::stage_wide(s + line * (ALONG ? LDK : LD) + in, p + in + line * ld);
        }
        return;
    }
    if ((uintptr_t)p % 16 == 0 && ld % V == 0) { /* what is inside in pieces of 16 bytes */
        constexpr int LINE = ALONG ? SLICE / V : ROWS / V;
#pragma unroll 4
        for (int q = tid; q < ROWS * SLICE / V; q += NT) {
            const int in = q % LINE * V, line = q / LINE;
            const int64_t end = ALONG ? depth : rows;
            T *to = s + line * (ALONG ? LDK : LD) + in;
            if (line < (ALONG ? rows : depth) && in + V <= end)
                batch::stage_wide(to, p + in + line * ld);
            else
                for (int e = 0; e < V; e++)
                    batch::stage(to + e, p + in + e + line * ld,
                                 line < (ALONG ? rows : depth) && in + e < end);
        }
        return;
    }
#pragma unroll 4
    for (int q = tid; q < ROWS * SLICE; q += NT) {
        const int r = ALONG ? q / SLICE : q % ROWS, k = ALONG ? q % SLICE : q / ROWS;
        batch::stage(s + (ALONG ? r * LDK + k : k * LD + r), p + (ALONG ? k + r * ld : r + k * ld),
                     r < rows && k < depth);
    }
}

/* A slice of op(A), from row i0 and inner index k0; in shared memory as it lies in A. */
template <class T, int ROWS, int NT>
__device__ inline void stage_factor(T *s, const hier_gemm_term &e, int i0, int rows, int k0,
                                    int tid) {
    const T *a = (const T *)e.a;
    if (e.trans)
        stage_slice<T, true, ROWS, NT>(s, a + k0 + (int64_t)i0 * e.lda, e.lda, rows - i0, e.k - k0,
                                       tid);
    else
        stage_slice<T, false, ROWS, NT>(s, a + i0 + (int64_t)k0 * e.lda, e.lda, rows - i0, e.k - k0,
                                        tid);
}

/* A slice of the operand: columns j0 .. (side R: rows) of rows row + k0 ... */
template <class T, bool LEFT, int COLS, int NT>
__device__ inline void stage_operand(T *s, const hier_operand &x, int64_t row, int depth,
                                     int64_t j0, int64_t nvec, int tid) {
    const T *p = (const T *)x.p + (LEFT ? row + j0 * x.ld : j0 + row * x.ld);
    stage_slice<T, LEFT, COLS, NT>(s, p, x.ld, nvec - j0, depth, tid);
}

template <int ROWS, bool ALONG>
constexpr int slice_elements = ALONG ? ROWS *LDK : SLICE *(ROWS + 4);
template <bool LEFT, int WM, int WN>
constexpr int stage_elements = slice_elements<32 * WM, true> + slice_elements<32 * WN, LEFT>;

/* c += the 32 x 32 product of a slice: A from row wi, the operand from column wj. */
template <class T, bool LEFT, int TM, int TN>
__device__ inline void slice_product(Acc<T> &c, const T *sa, const T *sb, bool trans, int wi,
                                     int wj, int lane) {
    const T *b = LEFT ? sb + wj * LDK : sb + wj;
    constexpr int bk = LEFT ? 1 : TN + 4, bj = LEFT ? LDK : 1;
    if (trans)
        c.mma(sa + wi * LDK, LDK, 1, b, bk, bj, SLICE, lane);
    else
        c.mma(sa + wi, 1, TM + 4, b, bk, bj, SLICE, lane);
}

/* Where the stream of slices stands: a term, and the inner index in it. */
struct Place {
    hier_gemm_term e;
    int term, k;
    __device__ Place(const hier_gemm_term *t, int terms) : e(), term(0), k(0) {
        if (terms > 0)
            e = t[0];
    }
    __device__ void next(const hier_gemm_term *t, int terms) {
        k += SLICE;
        if (k >= e.k && ++term < terms)
            e = t[term], k = 0;
    }
};

/* How many slices were asked for, and which of the last ones belong to a transposed factor. */
struct Asked {
    int count = 0;
    unsigned turned = 0;
    __device__ void add(bool trans) {
        const unsigned bit = 1u << (count++ & 31);
        turned = trans ? turned | bit : turned & ~bit;
    }
    __device__ bool is_turned(int u) const {
        return turned >> (u & 31) & 1;
    }
};

/* Element (i, j) of a tile's part of the result from an accumulator. */
template <class T, bool LEFT>
__device__ inline void write_result(const SumArgs<T> &a, const hier_gemm_sum &q, const Acc<T> &c,
                                    int i0, int64_t j0, int lane) {
    const int64_t si = LEFT ? 1 : a.ldy, sj = LEFT ? a.ldy : 1;
    T *y = a.y + (q.row + i0) * si + j0 * sj;
#pragma unroll
    for (int e = 0; e < 32; e++) {
        const int i = Acc<T>::row(e, lane), j = Acc<T>::col(e, lane);
        if (i0 + i < q.m && j0 + j < a.nvec) {
            T *p = y + i * si + j * sj;
            *p = a.alpha * c.v[e] + (a.beta != T(0) ? a.beta * *p : T(0));
        }
    }
}

template <class T, bool LEFT, int WM, int WN>
__global__ void __launch_bounds__(32 * WM * WN, WM *WN == 8    ? 2
                                                : WM * WN == 4 ? 3
                                                               : 1)
    wide_kernel(const __grid_constant__ SumArgs<T> a) {
    extern __shared__ __align__(16) unsigned char shared[];
    constexpr int TM = 32 * WM, TN = 32 * WN, NT = 32 * WM * WN,
                  STAGE = stage_elements<LEFT, WM, WN>, PART = slice_elements<TM, true>;
    T *s = (T *)shared;
    const int tile = blockIdx.x % (a.row_tiles * a.col_tiles);
    const int i0 = tile % a.row_tiles * TM, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int64_t j0 = (int64_t)(tile / a.row_tiles) * TN;
    const hier_gemm_sum q = a.sum[blockIdx.x / (a.row_tiles * a.col_tiles)];
    const int terms = a.alpha == T(0) ? 0 : q.terms;
    const hier_gemm_term *t = a.term + q.first;
    Place in(t, terms);
    Asked asked;
    batch::wait_for_predecessor();
    if (i0 >= q.m)
        return;
    auto fetch = [&](int slot) {
        if (in.term < terms) {
            T *buf = s + slot * STAGE;
            stage_factor<T, TM, NT>(buf, in.e, i0, q.m, in.k, threadIdx.x);
            stage_operand<T, LEFT, TN, NT>(buf + PART, a.x.x[in.e.from], in.e.row + in.k,
                                           in.e.k - in.k, j0, a.nvec, threadIdx.x);
            asked.add(in.e.trans);
            in.next(t, terms);
        }
        stage_commit();
    };
    Acc<T> c;
    batch::acc_zero(c);
    const int wi = warp % WM * 32, wj = warp / WM * 32;
    const bool idle = i0 + wi >= q.m || j0 + wj >= a.nvec;
#pragma unroll 1
    for (int u = 0; u < AHEAD - 1; u++)
        fetch(u);
    for (int u = 0; u < asked.count; u++) {
        stage_wait<AHEAD - 2>();
        __syncthreads();
        fetch((u + AHEAD - 1) % AHEAD);
        const T *sa = s + u % AHEAD * STAGE;
        if (!idle)
            slice_product<T, LEFT, TM, TN>(c, sa, sa + PART, asked.is_turned(u), wi, wj, lane);
    }
    if (!idle)
        write_result<T, LEFT>(a, q, c, i0 + wi, j0 + wj, lane);
}

/* Where there are few tiles: 32 x 32 of the result by four warps, each of which takes every fourth
 * slice at its own pace; their sums meet in shared memory. */
constexpr int DEEP_WARPS = 4, DEEP_AHEAD = 2;
template <class T, bool LEFT>
__global__ void __launch_bounds__(32 * DEEP_WARPS, 3)
    deep_kernel(const __grid_constant__ SumArgs<T> a) {
    extern __shared__ __align__(16) unsigned char shared[];
    constexpr int STAGE = stage_elements<LEFT, 1, 1>, PART = slice_elements<32, true>;
    const int tile = blockIdx.x % (a.row_tiles * a.col_tiles);
    const int i0 = tile % a.row_tiles * 32, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int64_t j0 = (int64_t)(tile / a.row_tiles) * 32;
    T *s = (T *)shared + warp * DEEP_AHEAD * STAGE;
    const hier_gemm_sum q = a.sum[blockIdx.x / (a.row_tiles * a.col_tiles)];
    const int terms = a.alpha == T(0) ? 0 : q.terms;
    const hier_gemm_term *t = a.term + q.first;
    Place in(t, terms);
    Asked asked;
    if (terms > 0 && i0 + lane < q.m && 16 * warp < in.e.k) { /* as in narrow_kernel */
        const T *p = (const T *)in.e.a;
        if (in.e.trans)
            batch::prefetch(p + 16 * warp + (int64_t)(i0 + lane) * in.e.lda);
        else if (16 * warp + lane / 2 < in.e.k)
            batch::prefetch(p + i0 + lane % 2 * 16 + (int64_t)(16 * warp + lane / 2) * in.e.lda);
    }
    batch::wait_for_predecessor();
    if (i0 >= q.m)
        return;
    auto fetch = [&](int slot) {
        if (in.term < terms) {
            T *buf = s + slot * STAGE;
            stage_factor<T, 32, 32>(buf, in.e, i0, q.m, in.k, lane);
            stage_operand<T, LEFT, 32, 32>(buf + PART, a.x.x[in.e.from], in.e.row + in.k,
                                           in.e.k - in.k, j0, a.nvec, lane);
            asked.add(in.e.trans);
            for (int w = 0; w < DEEP_WARPS && in.term < terms; w++)
                in.next(t, terms);
        }
        stage_commit();
    };
    for (int w = 0; w < warp && in.term < terms; w++)
        in.next(t, terms);
    Acc<T> c;
    batch::acc_zero(c);
    fetch(0);
    for (int u = 0; u < asked.count; u++) {
        fetch((u + 1) % DEEP_AHEAD);
        stage_wait<1>();
        __syncwarp();
        const T *sa = s + u % DEEP_AHEAD * STAGE;
        slice_product<T, LEFT, 32, 32>(c, sa, sa + PART, asked.is_turned(u), 0, 0, lane);
        __syncwarp();
    }
    stage_wait<0>();
    T *all = (T *)shared;
    for (int w = 1; w < DEEP_WARPS; w++) { /* in the order of the warps */
        __syncthreads();
        if (warp == w)
#pragma unroll
            for (int e = 0; e < 32; e++)
                all[e * 32 + lane] = c.v[e];
        __syncthreads();
        if (warp == 0)
#pragma unroll
            for (int e = 0; e < 32; e++)
                c.v[e] += all[e * 32 + lane];
    }
    if (warp == 0)
        write_result<T, LEFT>(a, q, c, i0, j0, lane);
}

/* Up to N columns: 32 rows a block, its warps take every fourth chunk of 32 inner indices. */
constexpr int NARROW_WARPS = 4;
template <class T, bool LEFT, int N>
__global__ void __launch_bounds__(32 * NARROW_WARPS)
    narrow_kernel(const __grid_constant__ SumArgs<T> a) {
    __shared__ T s[NARROW_WARPS][32][33];
    __shared__ T xs[NARROW_WARPS][32][N];
    const int tile = blockIdx.x % a.row_tiles, i0 = tile * 32, warp = threadIdx.x / 32,
              lane = threadIdx.x % 32;
    const int64_t j0 = (int64_t)blockIdx.y * N;
    const hier_gemm_sum q = a.sum[blockIdx.x / a.row_tiles];
    if (q.terms > 0 && i0 < q.m) { /* the first factor in transit before the operand is there */
        const hier_gemm_term e = a.term[q.first];
        const int k = 32 * warp + lane;
        const T *p = (const T *)e.a;
        if (e.trans && i0 + lane < q.m && 32 * warp < e.k)
            batch::prefetch(p + 32 * warp + (int64_t)(i0 + lane) * e.lda);
        else if (!e.trans && k < e.k)
            batch::prefetch(p + i0 + (int64_t)k * e.lda);
    }
    batch::wait_for_predecessor();
    const int cols = a.nvec - j0 < N ? (int)(a.nvec - j0) : N;
    if (i0 >= q.m)
        return;
    T c[N];
#pragma unroll
    for (int j = 0; j < N; j++)
        c[j] = T(0);
    int turn = 0;
    for (int t = 0; t < q.terms && a.alpha != T(0); t++) {
        const hier_gemm_term e = a.term[q.first + t];
        const T *A = (const T *)e.a, *x = (const T *)a.x.x[e.from].p;
        const int64_t ld = a.x.x[e.from].ld;
        for (int k0 = 0; k0 < e.k; k0 += 32, turn++) {
            if (turn % NARROW_WARPS != warp)
                continue;
            T v[32];
            if (e.trans) {
#pragma unroll
                for (int i = 0; i < 32; i++)
                    v[i] = i0 + i < q.m && k0 + lane < e.k
                               ? A[k0 + lane + (int64_t)(i0 + i) * e.lda]
                               : T(0);
#pragma unroll
                for (int i = 0; i < 32; i++)
                    s[warp][i][lane] = v[i];
            } else {
#pragma unroll
                for (int k = 0; k < 32; k++)
                    v[k] = i0 + lane < q.m && k0 + k < e.k
                               ? A[i0 + lane + (int64_t)(k0 + k) * e.lda]
                               : T(0);
            }
            for (int u = lane; u < 32 * N; u += 32) {
                const int k = LEFT ? u % 32 : u / N, j = LEFT ? u / 32 : u % N;
                xs[warp][k][j] =
                    k0 + k < e.k && j < cols
                        ? x[LEFT ? e.row + k0 + k + (j0 + j) * ld : (e.row + k0 + k) * ld + j0 + j]
                        : T(0);
            }
            __syncwarp();
            if (e.trans) {
#pragma unroll
                for (int k = 0; k < 32; k++)
                    v[k] = s[warp][lane][k];
            }
#pragma unroll
            for (int k = 0; k < 32; k++)
#pragma unroll
                for (int j = 0; j < N; j++)
                    c[j] += v[k] * xs[warp][k][j];
            __syncwarp();
        }
    }
#pragma unroll
    for (int j = 0; j < N; j++) {
        s[warp][lane][j % 32] = c[j];
    }
    __syncthreads();
    for (int u = threadIdx.x; u < 32 * N; u += blockDim.x) {
        const int i = u % 32, j = u / 32;
        if (i0 + i >= q.m || j >= cols)
            continue;
        T sum = T(0);
#pragma unroll
        for (int w = 0; w < NARROW_WARPS; w++)
            sum += s[w][i][j];
        T *p = a.y + (LEFT ? q.row + i0 + i + (j0 + j) * a.ldy : (q.row + i0 + i) * a.ldy + j0 + j);
        *p = a.alpha * sum + (a.beta != T(0) ? a.beta * *p : T(0));
    }
}

/* A launch whose blocks may be put in place while the launch before it ends. */
template <class... A>
status start(void (*kernel)(A...), int64_t blocks, int rows, int threads, size_t bytes,
             cudaStream_t s, const A &...args) {
    if (blocks > INT32_MAX)
        return status_fail(MOAO_INPUT, "sums of a format: more than 2^31 - 1 tiles in one call");
    return batch::launch(kernel, dim3((unsigned)blocks, (unsigned)rows), threads, bytes, s,
                         args...);
}

template <class T, bool LEFT, int WM, int WN>
status wide(SumArgs<T> a, int64_t count, int64_t most, cudaStream_t s) {
    const int64_t rows = (most + 32 * WM - 1) / (32 * WM),
                  cols = (a.nvec + 32 * WN - 1) / (32 * WN);
    a.row_tiles = (int)rows, a.col_tiles = (int)cols;
    return start(wide_kernel<T, LEFT, WM, WN>, count * rows * cols, 1, 32 * WM * WN,
                 sizeof(T) * AHEAD * stage_elements<LEFT, WM, WN>, s, a);
}

template <class T, bool LEFT>
status deep(SumArgs<T> a, int64_t count, int64_t most, cudaStream_t s) {
    const int64_t rows = (most + 31) / 32, cols = (a.nvec + 31) / 32;
    a.row_tiles = (int)rows, a.col_tiles = (int)cols;
    return start(deep_kernel<T, LEFT>, count * rows * cols, 1, 32 * DEEP_WARPS,
                 sizeof(T) * DEEP_WARPS * DEEP_AHEAD * stage_elements<LEFT, 1, 1>, s, a);
}

template <class T, bool LEFT, int N>
status narrow(SumArgs<T> a, int64_t count, int64_t most, cudaStream_t s) {
    const int64_t rows = (most + 31) / 32;
    a.row_tiles = (int)rows, a.col_tiles = 1;
    return start(narrow_kernel<T, LEFT, N>, count * rows, (int)((a.nvec + N - 1) / N),
                 32 * NARROW_WARPS, 0, s, a);
}

/* Double precision: gemm_sums_stream.cuh. */
template <bool LEFT, int MT, bool SHARED>
status streamed(SumArgs<double> a, int64_t count, int64_t most, cudaStream_t s) {
    const int64_t rows = (most + stream::ROWS - 1) / stream::ROWS,
                  cols = (a.nvec + 16 * MT - 1) / (16 * MT), tiles = count * rows * cols;
    a.row_tiles = (int)rows, a.col_tiles = (int)cols;
    return start(stream::kernel<LEFT, MT, SHARED>,
                 SHARED ? tiles : (tiles + stream::WARPS - 1) / stream::WARPS, 1,
                 32 * stream::WARPS, 0, s, a, tiles, most > 48);
}
/* Double precision: gemm_sums_resident.cuh. */
template <bool LEFT, int HIGH>
status resident_start(SumArgs<double> a, int64_t count, int64_t most, int64_t inner,
                      cudaStream_t s) {
    constexpr int PARTS = resident::parts(HIGH), AHEAD = resident::chunks_ahead(HIGH),
                  BLOCKS = resident::blocks(HIGH);
    const int64_t rows = (most + 8 * HIGH - 1) / (8 * HIGH),
                  cols = (a.nvec + resident::COLS - 1) / resident::COLS,
                  units = count * rows * cols, most_blocks = batch::resident(BLOCKS);
    a.row_tiles = (int)rows, a.col_tiles = (int)cols;
    return start(resident::kernel<LEFT, HIGH / PARTS, PARTS, AHEAD, BLOCKS>,
                 units < most_blocks ? units : most_blocks, 1, 32 * resident::GROUPS * PARTS,
                 resident::bytes(8 * HIGH, inner, AHEAD), s, a, units, (int)inner);
}
template <bool LEFT>
status resident_pick(int nt, const SumArgs<double> &a, int64_t count, int64_t most, int64_t inner,
                     cudaStream_t s) {
    return nt == 3    ? resident_start<LEFT, 3>(a, count, most, inner, s)
           : nt == 4  ? resident_start<LEFT, 4>(a, count, most, inner, s)
           : nt == 5  ? resident_start<LEFT, 5>(a, count, most, inner, s)
           : nt == 9  ? resident_start<LEFT, 9>(a, count, most, inner, s)
           : nt == 10 ? resident_start<LEFT, 10>(a, count, most, inner, s)
           : nt == 12 ? resident_start<LEFT, 12>(a, count, most, inner, s)
           : nt == 16 ? resident_start<LEFT, 16>(a, count, most, inner, s)
                      : resident_start<LEFT, 18>(a, count, most, inner, s);
}
template <class T, bool LEFT>
status pick(const SumArgs<T> &a, int64_t count, int64_t most, int64_t inner, cudaStream_t s) {
    if (a.nvec == 1)
        return narrow<T, LEFT, 1>(a, count, most, s);
    if (a.nvec <= 4)
        return narrow<T, LEFT, 4>(a, count, most, s);
    if constexpr (sizeof(T) == 8) {
        const int tall = resident::height(most, inner);
        if (tall > 0 && resident::pays(tall, a.nvec, count, most, inner))
            return resident_pick<LEFT>(tall, a, count, most, inner, s);
        const int64_t tiles = count * ((most + stream::ROWS - 1) / stream::ROWS);
        const bool few = tiles * ((a.nvec + 63) / 64) < many_tiles() && a.nvec <= 256;
        if (a.nvec <= 16)
            return streamed<LEFT, 1, true>(a, count, most, s);
        if (a.nvec <= 32)
            return streamed<LEFT, 2, true>(a, count, most, s);
        if (few)
            return streamed<LEFT, 4, true>(a, count, most, s);
        /* ranks by up to 64 columns, and leaves that would leave half of a tile of 128 rows empty
         */
        if ((most <= 48 && a.nvec <= 64 && count >= few_tiles()) || most > 128)
            return streamed<LEFT, 4, false>(a, count, most, s);
    }
    if (a.nvec <= 16)
        return narrow<T, LEFT, 8>(a, count, most, s);
    /* too few tiles of the wide kernels for the device: shorter chains of slices */
    const int64_t high = most <= 32 ? 32 : most <= 64 ? 64 : 128;
    const int64_t tiles = count * ((most + high - 1) / high) * ((a.nvec + 63) / 64);
    if (tiles < few_tiles() || a.nvec <= 32)
        return deep<T, LEFT>(a, count, most, s);
    return most <= 32   ? wide<T, LEFT, 1, 4>(a, count, most, s)
           : most <= 64 ? wide<T, LEFT, 2, 2>(a, count, most, s)
                        : wide<T, LEFT, 4, 2>(a, count, most, s);
}

template <class T>
status run(cudaStream_t stream, bool left, const hier_gemm_sums *s, int64_t nvec, double alpha,
           const hier_operand *x, double beta, void *y, int64_t ldy) {
    SumArgs<T> a = {s->sum, s->term, {}, (T)alpha, (T)beta, (T *)y, ldy, nvec, 0, 0};
    for (int i = 0; i < HIER_OPERANDS; i++)
        a.x.x[i] = x[i];
    return left ? pick<T, true>(a, s->count, s->most, s->inner, stream)
                : pick<T, false>(a, s->count, s->most, s->inner, stream);
}
} // namespace

status gpu_hier_gemm_sums(backend_ctx *ctx, backend_type t, char side, const hier_gemm_sums *s,
                          int64_t nvec, double alpha, const hier_operand x[HIER_OPERANDS],
                          double beta, void *y, int64_t ldy) {
    if (s->count == 0 || s->most == 0 || nvec == 0)
        return MOAO_OK;
    gpu_batch_call call(ctx);
    return t == BACKEND_D ? run<double>(call.stream, side == 'L', s, nvec, alpha, x, beta, y, ldy)
                          : run<float>(call.stream, side == 'L', s, nvec, alpha, x, beta, y, ldy);
}
