/* Sums in double precision for many columns, through shared memory: a block takes 32 WR rows and 64
 * WV columns, a warp 32 x 64 of them; slices of 16 inner indices of both factors are on their way
 * while others are multiplied, those of all terms one after another. With PAIR the rows are those
 * of two sums, of which terms with the same rows of an operand come together, so that these are
 * read once for both: leaves that are siblings have most of their neighbours in common.
 *
 * As in sums_stream.cuh the columns are the 16-row side of the tensor cores' product, and a lane
 * holds two inner indices that are adjacent. */
#ifndef MOAO_GPU_FORMATS_SUMS_BLOCK_CUH
#define MOAO_GPU_FORMATS_SUMS_BLOCK_CUH
#include "gpu/batch/batch_device.cuh"
#include "sums_args.cuh"

namespace {
namespace block {

constexpr int SLICE = 16;

/* In shared memory: lines of 16 inner indices, of which every second one has its halves exchanged,
 * so that lanes meet no bank twice; or 16 lines of N numbers and two that are not used. */
template <int N> constexpr int SLICE_SIZE = SLICE *(N + 2);
__device__ inline int along(int line, int unit) { /* unit: pair of inner indices */
    return line * SLICE + 2 * (unit ^ (line & 1) << 2);
}

/* Inner indices 0 .. depth (at most 16 of them) of N lines into shared memory; number (line, k)
 * lies at p[k + line ld], ACROSS: at p[line + k ld]. Lines from `count` on repeat one that is
 * there. */
template <int N, int THREADS, bool ACROSS>
__device__ inline void fetch(double *s, const double *p, int64_t ld, int count, int depth,
                             int tid) {
    const bool wide = (uintptr_t)p % 16 == 0 && ld % 2 == 0;
    constexpr int LINE =
        ACROSS ? N / 2 : SLICE / 2; /* pairs that lie in memory one after another */
    if (wide && count >= N && depth >= SLICE) {
#pragma unroll
        for (int e = tid; e < N * SLICE / 2; e += THREADS) {
            const int in = e % LINE, out = e / LINE;
            double *to = ACROSS ? s + out * (N + 2) + 2 * in : s + along(out, in);
            batch::stage_wide(to, p + 2 * in + out * ld);
        }
        return;
    }
#pragma unroll 2
    for (int e = tid; e < N * SLICE / 2; e += THREADS) {
        const int in = 2 * (e % LINE), out = e / LINE;
        if constexpr (ACROSS) {
            double *to = s + out * (N + 2) + in;
            const double *from = p + out * ld;
            const bool used = out < depth;
            if (wide && used && in + 1 < count) {
                batch::stage_wide(to, from + in);
            } else {
                batch::stage(to, from + min(in, count - 1), used);
                batch::stage(to + 1, from + min(in + 1, count - 1), used);
            }
        } else {
            double *to = s + along(out, in / 2);
            const double *from = p + in + min(out, count - 1) * ld;
            if (wide && in + 1 < depth) {
                batch::stage_wide(to, from);
            } else {
                batch::stage(to, from, in < depth);
                batch::stage(to + 1, from + 1, in + 1 < depth);
            }
        }
    }
}

/* A list of terms, and where its reader is; the same in all threads but for `ahead`. */
struct Terms {
    const formats_term *term, *end;
    formats_term e; /* in hand; k: what is left of its inner indices, 0: none */
    int ahead;      /* lane l: word l % 8 of the term after it */
    __device__ void look(int lane) {
        if (term < end)
            ahead = ((const int *)term)[lane % 8];
    }
    __device__ void next(int lane) {
        union {
            formats_term term;
            int word[8];
        } u;
        e.k = 0;
        while (term < end && e.k <= 0) {
#pragma unroll
            for (int w = 0; w < 8; w++)
                u.word[w] = __shfl_sync(0xffffffffu, ahead, w);
            e = u.term;
            term++;
            look(lane);
        }
    }
    __device__ void open(const formats_term *first, int terms, int lane) {
        term = first, end = first + terms;
        look(lane);
        next(lane);
    }
    __device__ const double *factor(int i0) const {
        return (const double *)e.a + (e.trans ? (int64_t)i0 * e.lda : i0);
    }
    __device__ void advance(int lane) {
        e.a = (const double *)e.a + (e.trans ? SLICE : (int64_t)SLICE * e.lda);
        e.row += SLICE, e.k -= SLICE;
        if (e.k <= 0)
            next(lane);
    }
};

/* acc += the product of a slice for this warp: its columns at sx, its rows at sa. */
template <bool LEFT, int NX, int NA>
__device__ inline void multiply(double (&acc)[4][4][4], const double *sx, int j, const double *sa,
                                int i, bool turned, int g, int q) {
#pragma unroll 1
    for (int k = 0; k < SLICE / 8; k++) {
        double x[4][4];
#pragma unroll
        for (int u = 0; u < 4; u++)
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const int line = j + 16 * u + 8 * h + g;
                if constexpr (LEFT) {
                    const double2 v = *(const double2 *)(sx + along(line, 4 * k + q));
                    x[u][h] = v.x, x[u][2 + h] = v.y;
                } else {
                    x[u][h] = sx[(8 * k + 2 * q) * (NX + 2) + line];
                    x[u][2 + h] = sx[(8 * k + 2 * q + 1) * (NX + 2) + line];
                }
            }
#pragma unroll
        for (int t = 0; t < 4; t++) {
            double b[2];
            const int line = i + 8 * t + g;
            if (turned) {
                const double2 v = *(const double2 *)(sa + along(line, 4 * k + q));
                b[0] = v.x, b[1] = v.y;
            } else {
                b[0] = sa[(8 * k + 2 * q) * (NA + 2) + line];
                b[1] = sa[(8 * k + 2 * q + 1) * (NA + 2) + line];
            }
#pragma unroll
            for (int u = 0; u < 4; u++) {
                double *to = acc[u][t];
                const double *xu = x[u];
                tensor(to, xu, b);
            }
        }
    }
}

/* Blocks take every gridDim-th tile, whose slices follow those of the tile before without a pause.
 */
template <bool LEFT, int WR, int WV, bool PAIR, int AHEAD>
__global__ void __launch_bounds__(32 * WR * WV, 256 / (32 * WR * WV))
    kernel(const __grid_constant__ SumArgs<double> args, int64_t count, int64_t tiles) {
    extern __shared__ __align__(16) unsigned char shared[];
    constexpr int SUMS = PAIR ? 2 : 1, NA = 32 * WR / SUMS, NX = 64 * WV, THREADS = 32 * WR * WV,
                  STAGE = SLICE_SIZE<NX> + SUMS * SLICE_SIZE<NA>;
    static_assert(AHEAD <= 8, "eight marks");
    double *mem = (double *)shared;
    const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32, g = lane / 4, q = lane % 4;
    const int per_sum = args.row_tiles * args.col_tiles;
    const int mine = PAIR ? warp % WR / (WR / 2) : 0; /* the sum of this warp */
    const int wi = warp % WR * 32 - mine * NA, wj = warp / WR * 64;
    Terms t[SUMS];
    /* of the tile whose slices are asked for */
    int64_t ahead = blockIdx.x, j0 = 0;
    int i0 = 0, cols = 0, rows[SUMS];
    auto first_row = [&](int64_t tile) { return (int)(tile % per_sum % args.row_tiles) * NA; };
    auto first_col = [&](int64_t tile) { return tile % per_sum / args.row_tiles * NX; };
    auto open = [&] {
        if (ahead >= tiles)
            return;
        i0 = first_row(ahead), j0 = first_col(ahead);
        cols = args.nvec - j0 < NX ? (int)(args.nvec - j0) : NX;
#pragma unroll
        for (int s = 0; s < SUMS; s++) {
            const int64_t b = ahead / per_sum * SUMS + s;
            int terms = 0;
            int64_t first = 0;
            rows[s] = 0;
            if (b < count) {
                const formats_sum *sum = args.sum + b;
                rows[s] = sum->m - i0, first = sum->first;
                terms = args.alpha == 0 || rows[s] <= 0 ? 0 : sum->terms;
            }
            t[s].open(args.term + first, terms, lane);
        }
    };
    /* of the last eight slices: which sums have it, which of them turned (4, 8), the tile's last */
    unsigned long long marks = 0;
    int asked = 0;
    auto get = [&](int slot) {
        if (ahead < tiles) {
            bool has[2] = {t[0].e.k > 0, PAIR && t[SUMS - 1].e.k > 0};
            unsigned mark = 0;
            if (PAIR && has[0] && has[1]) {
                const formats_term &a = t[0].e, &b = t[SUMS - 1].e;
                if (a.from != b.from || a.row != b.row || a.k != b.k) {
                    const bool before = a.from != b.from ? a.from < b.from : a.row <= b.row;
                    has[before] = false;
                }
            }
            if (has[0] || has[1]) {
                const formats_term &e = t[has[0] ? 0 : SUMS - 1].e;
                const formats_operand &x = args.x.x[e.from];
                double *to = mem + slot * STAGE;
                const double *p =
                    (const double *)x.p + (LEFT ? e.row + j0 * x.ld : j0 + e.row * x.ld);
                fetch<NX, THREADS, !LEFT>(to, p, x.ld, cols, e.k, tid);
#pragma unroll
                for (int s = 0; s < SUMS; s++)
                    if (has[s]) {
                        const formats_term &f = t[s].e;
                        double *part = to + SLICE_SIZE<NX> + s * SLICE_SIZE<NA>;
                        if (f.trans)
                            fetch<NA, THREADS, false>(part, t[s].factor(i0), f.lda, rows[s], f.k,
                                                      tid);
                        else
                            fetch<NA, THREADS, true>(part, t[s].factor(i0), f.lda, rows[s], f.k,
                                                     tid);
                        mark |= 1u << s | (f.trans ? 4u << s : 0);
                        t[s].advance(lane);
                    }
            }
            if (t[0].e.k <= 0 && t[SUMS - 1].e.k <= 0)
                mark |= 16, ahead += gridDim.x, open();
            const int at = asked++ % 8 * 8;
            marks = (marks & ~(255ull << at)) | (unsigned long long)mark << at;
        }
        stage_commit();
    };
    double acc[4][4][4];
    int64_t tile = blockIdx.x; /* in hand */
#pragma unroll
    for (int e = 0; e < 64; e++)
        acc[e / 16][e / 4 % 4][e % 4] = 0;
    open();
    batch::wait_for_predecessor();
#pragma unroll 1
    for (int u = 0; u < AHEAD - 1; u++)
        get(u);
#pragma unroll 1
    for (int u = 0; u < asked; u++) {
        stage_wait<AHEAD - 2>();
        __syncthreads();
        get((u + AHEAD - 1) % AHEAD);
        const unsigned mark = (unsigned)(marks >> u % 8 * 8) & 255;
        const double *sx = mem + u % AHEAD * STAGE,
                     *sa = sx + SLICE_SIZE<NX> + mine * SLICE_SIZE<NA>;
        if (mark >> mine & 1)
            multiply<LEFT, NX, NA>(acc, sx, wj, sa, wi, mark >> (2 + mine) & 1, g, q);
        if (mark & 16) {
            const int64_t b = tile / per_sum * SUMS + mine, j = first_col(tile) + wj;
            const int i = first_row(tile) + wi;
            if (b < count && j < args.nvec) {
                const formats_sum *sum = args.sum + b;
                if (i < sum->m)
                    write_tile<LEFT, 4, 4>(args, acc, sum->row + i, j, g, q,
                                           (int)min(args.nvec - j, (int64_t)64), sum->m - i);
            }
#pragma unroll
            for (int e = 0; e < 64; e++)
                acc[e / 16][e / 4 % 4][e % 4] = 0;
            tile += gridDim.x;
        }
    }
}

} // namespace block
} // namespace
#endif
