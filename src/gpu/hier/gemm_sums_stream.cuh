/* Sums in double precision for more than a few columns, without shared memory: a warp takes 64
 * columns and up to 24 rows of a sum, and each number of its factors goes from memory into the
 * registers of the one lane that gives it to the tensor cores. Two chunks of eight inner indices
 * are in registers: one is multiplied while the other arrives, across the ends of terms. Blocks of
 * a few tens of rows have nothing to share that would be worth a barrier; what the warps of a block
 * have in common (operands of neighbouring nodes) they find in the cache of their multiprocessor.
 *
 * The columns are the 16-row side of the tensor cores' product and the rows of the sum its 8-column
 * side: columns come by the dozen, rows in eights, so that little is multiplied for nothing. Lane
 * l holds inner indices 2 (l % 4) and 2 (l % 4) + 1 of a chunk, which are adjacent in memory, in
 * place of l % 4 and l % 4 + 4: the order within a chunk is the same for both factors. */
#ifndef MOAO_GPU_HIER_SUMS_STREAM_CUH
#define MOAO_GPU_HIER_SUMS_STREAM_CUH
#include "gemm_sums_args.cuh"
#include "gpu/batch/batch_device.cuh"

namespace {
namespace stream {

static_assert(sizeof(hier_gemm_term) == 32, "a term is eight words");
constexpr int ROWS = 24, CHUNK = 8, WARPS = 4;

/* Fragments of a chunk: x[i] of columns 16 i .., b[t] of rows 8 t ... */
template <int MT, int NT> struct Chunk { double x[MT][4], b[NT][2]; };

/* Where a warp stands in the terms of its sum. All but `a` and `x`, which are this lane's, is the
 * same in all lanes. */
template <bool LEFT> struct Reader {
    const hier_gemm_term *term, *end;
    const double *a, *x; /* at this lane's inner index of the current chunk */
    int64_t ldx;
    int lda, left;      /* inner indices that are left, this chunk included; 0: no term left */
    bool turned, pairs; /* op(A) is A'; both factors may be read by pairs of inner indices */
    int ahead;          /* lane l: word l % 8 of the term after this one */

    __device__ void look(int lane) {
        if (term < end)
            ahead = ((const int *)term)[lane % 8];
    }
    __device__ void next(const SumArgs<double> &args, int i0, int64_t j0, int lane) {
        const int q = lane % 4;
        union {
            hier_gemm_term term;
            int word[8];
        } u;
        hier_gemm_term &e = u.term;
        left = 0;
        do {
            if (term == end)
                return;
#pragma unroll
            for (int w = 0; w < 8; w++)
                u.word[w] = __shfl_sync(0xffffffffu, ahead, w);
            term++;
            look(lane);
        } while (e.k <= 0);
        const hier_operand &from = args.x.x[e.from];
        const double *p = (const double *)from.p;
        ldx = from.ld, lda = e.lda, left = e.k, turned = e.trans;
        x = LEFT ? p + e.row + 2 * q + j0 * ldx : p + (e.row + 2 * q) * ldx + j0;
        a = (const double *)e.a + (turned ? 2 * q + (int64_t)i0 * lda : i0 + (int64_t)2 * q * lda);
        pairs = e.k % 2 == 0 && (!LEFT || ((uintptr_t)(p + e.row) % 16 == 0 && ldx % 2 == 0)) &&
                (!turned || ((uintptr_t)e.a % 16 == 0 && lda % 2 == 0));
    }
    /* Passes over n chunks. */
    __device__ void skip(int n, const SumArgs<double> &args, int i0, int64_t j0, int lane) {
        for (;;) {
            if (left <= 0)
                next(args, i0, j0, lane);
            const int have = (left + CHUNK - 1) / CHUNK;
            if (left <= 0 || n < have)
                break;
            n -= have, left = 0;
        }
        x += LEFT ? n * CHUNK : n * CHUNK * ldx;
        a += turned ? n * CHUNK : (int64_t)n * CHUNK * lda;
        left -= n * CHUNK;
    }
};

/* Numbers of inner indices 2 q and 2 q + 1 that lie `step` apart; those that there are not are
 * zero. */
template <bool PAIR>
__device__ inline double2 two(const double *p, int64_t step, bool in0, bool in1) {
    double2 v = {0, 0};
    if constexpr (PAIR) {
        if (in0)
            v = *(const double2 *)p;
    } else {
        if (in0)
            v.x = p[0];
        if (in1)
            v.y = p[step];
    }
    return v;
}
template <bool LEFT, bool PAIR, int MT, int NT>
__device__ inline void load_x(Chunk<MT, NT> &c, const Reader<LEFT> &r, int g, bool in0, bool in1,
                              int cols) {
#pragma unroll
    for (int i = 0; i < MT; i++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const int64_t j = min(16 * i + 8 * h + g, cols - 1);
            const double2 v = LEFT ? two<PAIR>(r.x + j * r.ldx, 1, in0, in1)
                                   : two<false>(r.x + j, r.ldx, in0, in1);
            c.x[i][h] = v.x, c.x[i][2 + h] = v.y;
        }
}
template <bool LEFT, bool TURNED, bool PAIR, int MT, int NT>
__device__ inline void load_a(Chunk<MT, NT> &c, const Reader<LEFT> &r, int g, bool in0, bool in1,
                              int m) {
#pragma unroll
    for (int t = 0; t < NT; t++) {
        const int64_t n = min(8 * t + g, m - 1);
        const double2 v =
            TURNED ? two<PAIR>(r.a + n * r.lda, 1, in0, in1) : two<false>(r.a + n, r.lda, in0, in1);
        c.b[t][0] = v.x, c.b[t][1] = v.y;
    }
}

/* The chunk current into registers; what lies beyond the term's inner size is zero. g: lane / 4, q:
 * lane % 4; cols and m: columns and rows that there are, from this warp's first; those beyond
 * repeat the last one, and are not written. */
template <bool LEFT, int MT, int NT>
__device__ inline void load(Chunk<MT, NT> &c, Reader<LEFT> &r, int g, int q, int cols, int m) {
    const bool in0 = 2 * q < r.left, in1 = 2 * q + 1 < r.left;
    if (!LEFT || !r.pairs)
        load_x<LEFT, false, MT, NT>(c, r, g, in0, in1, cols);
    else
        load_x<LEFT, true, MT, NT>(c, r, g, in0, in1, cols);
    if (!r.turned)
        load_a<LEFT, false, false, MT, NT>(c, r, g, in0, in1, m);
    else if (r.pairs)
        load_a<LEFT, true, true, MT, NT>(c, r, g, in0, in1, m);
    else
        load_a<LEFT, true, false, MT, NT>(c, r, g, in0, in1, m);
    r.x += LEFT ? CHUNK : CHUNK * r.ldx;
    r.a += r.turned ? CHUNK : (int64_t)CHUNK * r.lda;
    r.left -= CHUNK;
}

template <int MT, int NT>
__device__ inline void multiply(double (&acc)[MT][NT][4], const Chunk<MT, NT> &c) {
#pragma unroll
    for (int t = 0; t < NT; t++)
#pragma unroll
        for (int i = 0; i < MT; i++) {
            double *to = acc[i][t];
            const double *x = c.x[i], *b = c.b[t];
            tensor(to, x, b);
        }
}

/* acc of the first warp := the sum of all warps', in their order. */
template <int MT, int NT> __device__ inline void gather(double (&acc)[MT][NT][4], double *s) {
    constexpr int N = MT * NT * 4;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
    for (int e = 0; e < N; e++)
        if (warp > 0)
            s[((warp - 1) * N + e) * 32 + lane] = acc[e / 4 / NT][e / 4 % NT][e % 4];
    __syncthreads();
#pragma unroll
    for (int e = 0; e < N; e++)
        if (warp == 0)
            for (int w = 0; w < WARPS - 1; w++)
                acc[e / 4 / NT][e / 4 % NT][e % 4] += s[(w * N + e) * 32 + lane];
}

/* By one warp, or by all warps of a block, each of which takes every fourth chunk (shared: memory
 * for their sums). */
template <bool LEFT, int MT, int NT, bool SHARED>
__device__ inline void sum(const SumArgs<double> &args, const hier_gemm_sum &s, int i0, int64_t j0,
                           double *shared) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, q = lane % 4;
    const int cols = args.nvec - j0 < 16 * MT ? (int)(args.nvec - j0) : 16 * MT, m = s.m - i0;
    double acc[MT][NT][4];
    Chunk<MT, NT> c[2];
    Reader<LEFT> r;
    r.term = args.term + s.first, r.end = r.term + (args.alpha == 0 ? 0 : s.terms), r.left = 0;
    r.look(lane);
#pragma unroll
    for (int e = 0; e < MT * NT * 4; e++)
        acc[e / 4 / NT][e / 4 % NT][e % 4] = 0;
    r.skip(SHARED ? warp : 0, args, i0, j0, lane);
    if (SHARED && r.left > 0) { /* the first factor in transit before the operand is there */
        const int n = lane < m ? lane : m - 1;
        if (r.turned)
            batch::prefetch(r.a - 2 * q + n * (int64_t)r.lda);
        else if (lane / 4 < r.left)
            batch::prefetch(r.a + (lane / 4 - 2 * q) * (int64_t)r.lda + min(8 * q, m - 1));
    }
    batch::wait_for_predecessor();
    auto fetch = [&](Chunk<MT, NT> &to) {
        if (r.left <= 0)
            r.next(args, i0, j0, lane);
        if (r.left <= 0)
            return false;
        load<LEFT, MT, NT>(to, r, g, q, cols, m);
        if (SHARED)
            r.skip(WARPS - 1, args, i0, j0, lane);
        return true;
    };
    bool more = fetch(c[0]);
    while (more) {
        more = fetch(c[1]);
        multiply<MT, NT>(acc, c[0]);
        if (!more)
            break;
        more = fetch(c[0]);
        multiply<MT, NT>(acc, c[1]);
    }
    if (SHARED)
        gather<MT, NT>(acc, shared);
    if (!SHARED || warp == 0)
        write_tile<LEFT, MT, NT>(args, acc, s.row + i0, j0, g, q, cols, m);
}

/* Tiles of 24 rows and 16 MT columns, each by a warp or (SHARED) by a block: the columns of a
 * tile's rows one after another; the tiles of a sum next (rows_next), or those of the other sums,
 * where most have few rows. */
template <bool LEFT, int MT, bool SHARED>
__global__ void __launch_bounds__(32 * WARPS, MT == 4   ? 2
                                              : MT == 2 ? 3
                                                        : 4)
    kernel(const __grid_constant__ SumArgs<double> args, int64_t tiles, bool rows_next) {
    __shared__ double shared[SHARED ? (WARPS - 1) * MT * 3 * 4 * 32 : 1];
    const int64_t tile = SHARED ? blockIdx.x : (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    const int64_t count = tiles / (args.row_tiles * args.col_tiles), rest = tile / args.col_tiles;
    if (tile >= tiles)
        return;
    const hier_gemm_sum s = args.sum[rows_next ? rest / args.row_tiles : rest % count];
    const int i0 = (int)(rows_next ? rest % args.row_tiles : rest / count) * ROWS;
    const int64_t j0 = tile % args.col_tiles * 16 * MT;
    const int m = s.m - i0;
    if (m <= 0)
        return;
    if (m > 16)
        sum<LEFT, MT, 3, SHARED>(args, s, i0, j0, shared);
    else if (m > 8)
        sum<LEFT, MT, 2, SHARED>(args, s, i0, j0, shared);
    else
        sum<LEFT, MT, 1, SHARED>(args, s, i0, j0, shared);
}

} // namespace stream
} // namespace
#endif
