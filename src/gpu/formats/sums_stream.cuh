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
#ifndef MOAO_GPU_FORMATS_SUMS_STREAM_CUH
#define MOAO_GPU_FORMATS_SUMS_STREAM_CUH
#include "gpu/batch/batch_device.cuh"
#include "sums_args.cuh"

namespace {
namespace stream {

static_assert(sizeof(formats_term) == 32, "a term is eight words");
constexpr int COLUMNS = 64, ROWS = 24, CHUNK = 8, WARPS = 4;

/* Fragments of a chunk: x[i] of columns 16 i .., b[t] of rows 8 t ... */
template <int NT> struct Chunk { double x[COLUMNS / 16][4], b[NT][2]; };

/* Where a warp stands in the terms of its sum. All but `a` and `x`, which are this lane's, is the
 * same in all lanes. */
template <bool LEFT> struct Reader {
    const formats_term *term, *end;
    const double *a, *x; /* at this lane's inner index of the chunk in hand */
    int64_t ldx;
    int lda, left;      /* inner indices that are left, this chunk included; 0: no term left */
    bool turned, pairs; /* op(A) is A'; both factors may be read by pairs of inner indices */
    int ahead;          /* lane l: word l % 8 of the term after this one */

    __device__ void look(int lane) {
        if (term < end)
            ahead = ((const int *)term)[lane % 8];
    }
    __device__ void next(const SumArgs<double> &args, int64_t j0, int lane) {
        const int q = lane % 4;
        union {
            formats_term term;
            int word[8];
        } u;
        formats_term &e = u.term;
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
        const formats_operand &from = args.x.x[e.from];
        const double *p = (const double *)from.p;
        ldx = from.ld, lda = e.lda, left = e.k, turned = e.trans;
        x = LEFT ? p + e.row + 2 * q + j0 * ldx : p + (e.row + 2 * q) * ldx + j0;
        a = (const double *)e.a + (turned ? (int64_t)2 * q : (int64_t)2 * q * lda);
        pairs = e.k % 2 == 0 && (!LEFT || ((uintptr_t)(p + e.row) % 16 == 0 && ldx % 2 == 0)) &&
                (!turned || ((uintptr_t)e.a % 16 == 0 && lda % 2 == 0));
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
template <bool LEFT, bool PAIR, int NT>
__device__ inline void load_x(Chunk<NT> &c, const Reader<LEFT> &r, int g, bool in0, bool in1,
                              int cols) {
#pragma unroll
    for (int i = 0; i < COLUMNS / 16; i++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const int64_t j = min(16 * i + 8 * h + g, cols - 1);
            const double2 v = LEFT ? two<PAIR>(r.x + j * r.ldx, 1, in0, in1)
                                   : two<false>(r.x + j, r.ldx, in0, in1);
            c.x[i][h] = v.x, c.x[i][2 + h] = v.y;
        }
}
template <bool LEFT, bool TURNED, bool PAIR, int NT>
__device__ inline void load_a(Chunk<NT> &c, const Reader<LEFT> &r, int g, bool in0, bool in1,
                              int m) {
#pragma unroll
    for (int t = 0; t < NT; t++) {
        const int64_t n = min(8 * t + g, m - 1);
        const double2 v =
            TURNED ? two<PAIR>(r.a + n * r.lda, 1, in0, in1) : two<false>(r.a + n, r.lda, in0, in1);
        c.b[t][0] = v.x, c.b[t][1] = v.y;
    }
}

/* The chunk in hand into registers; what lies beyond the term's inner size is zero. g: lane / 4, q:
 * lane % 4; cols and m: columns and rows that there are, from this warp's first; those beyond
 * repeat the last one, and are not written. */
template <bool LEFT, int NT>
__device__ inline void load(Chunk<NT> &c, Reader<LEFT> &r, int g, int q, int cols, int m) {
    const bool in0 = 2 * q < r.left, in1 = 2 * q + 1 < r.left;
    if (!LEFT || !r.pairs)
        load_x<LEFT, false, NT>(c, r, g, in0, in1, cols);
    else
        load_x<LEFT, true, NT>(c, r, g, in0, in1, cols);
    if (!r.turned)
        load_a<LEFT, false, false, NT>(c, r, g, in0, in1, m);
    else if (r.pairs)
        load_a<LEFT, true, true, NT>(c, r, g, in0, in1, m);
    else
        load_a<LEFT, true, false, NT>(c, r, g, in0, in1, m);
    r.x += LEFT ? CHUNK : CHUNK * r.ldx;
    r.a += r.turned ? CHUNK : (int64_t)CHUNK * r.lda;
    r.left -= CHUNK;
}

template <int NT>
__device__ inline void multiply(double (&acc)[COLUMNS / 16][NT][4], const Chunk<NT> &c) {
#pragma unroll
    for (int t = 0; t < NT; t++)
#pragma unroll
        for (int i = 0; i < COLUMNS / 16; i++) {
            double *to = acc[i][t];
            const double *x = c.x[i], *b = c.b[t];
            tensor(to, x, b);
        }
}

template <bool LEFT, int NT>
__device__ inline void sum(const SumArgs<double> &args, const formats_sum &s, int i0, int64_t j0,
                           int lane) {
    const int g = lane / 4, q = lane % 4;
    const int cols = args.nvec - j0 < COLUMNS ? (int)(args.nvec - j0) : COLUMNS, m = s.m - i0;
    double acc[COLUMNS / 16][NT][4];
    Chunk<NT> c[2];
    Reader<LEFT> r;
    r.term = args.term + s.first, r.end = r.term + (args.alpha == 0 ? 0 : s.terms), r.left = 0;
    r.look(lane);
#pragma unroll
    for (int i = 0; i < COLUMNS / 16; i++)
#pragma unroll
        for (int t = 0; t < NT; t++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                acc[i][t][e] = 0;
    batch::wait_for_predecessor();
    auto fetch = [&](Chunk<NT> &to) {
        if (r.left <= 0) {
            r.next(args, j0, lane);
            if (r.left <= 0)
                return false;
            r.a += r.turned ? (int64_t)i0 * r.lda : i0;
        }
        load<LEFT, NT>(to, r, g, q, cols, m);
        return true;
    };
    bool more = fetch(c[0]);
    while (more) {
        more = fetch(c[1]);
        multiply<NT>(acc, c[0]);
        if (!more)
            break;
        more = fetch(c[0]);
        multiply<NT>(acc, c[1]);
    }
    write_tile<LEFT, NT>(args, acc, s.row + i0, j0, g, q, cols, m);
}

/* Tiles of 24 rows and 64 columns: the columns of a tile's rows one after another; the tiles of a
 * sum next (rows_next), or those of the other sums, where most have few rows. */
template <bool LEFT>
__global__ void __launch_bounds__(32 * WARPS, 2)
    kernel(const __grid_constant__ SumArgs<double> args, int64_t tiles, bool rows_next) {
    const int64_t tile = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    const int64_t count = tiles / (args.row_tiles * args.col_tiles), rest = tile / args.col_tiles;
    const int lane = threadIdx.x % 32;
    if (tile >= tiles)
        return;
    const formats_sum s = args.sum[rows_next ? rest / args.row_tiles : rest % count];
    const int i0 = (int)(rows_next ? rest % args.row_tiles : rest / count) * ROWS;
    const int64_t j0 = tile % args.col_tiles * COLUMNS;
    const int m = s.m - i0;
    if (m <= 0)
        return;
    if (m > 16)
        sum<LEFT, 3>(args, s, i0, j0, lane);
    else if (m > 8)
        sum<LEFT, 2>(args, s, i0, j0, lane);
    else
        sum<LEFT, 1>(args, s, i0, j0, lane);
}

} // namespace stream
} // namespace
#endif
