/* Sums in double precision for many columns: a block keeps all factors of a sum in shared memory
 * and goes through as many columns as fall to it, 16 at a time by each warp, or of high tiles by
 * two warps, each with half of the rows. Operands are in transit to shared memory several chunks
 * ahead, each number once; no warp waits for another one but for the one with the other rows, and
 * where the block takes the next sum. Columns are the 16-row side of the tensor cores' product and
 * pairs of inner indices are adjacent, as in gemm_sums_stream.cuh.
 *
 * Four warps a scheduler are what it takes: registers of a product's factor are loaded anew only
 * when the product has read them, and until then its warp cannot go on. With two warps, which had
 * all rows of a leaf, the tensor cores idled half of the time (H200, 144 rows: 1.49 ms, now 1.13).
 * Slower: products of 16 inner indices, by two warps a scheduler (1.78) and for few rows; copies of
 * 16 inner indices, in lines of 128 bytes, with half as many in transit (1.40).
 *
 * In shared memory eight inner indices of a row, a chunk, are together: row n of chunk c begins at
 * 8 (c rows + n), and its pair j is at place j ^ (n / 2 % 4), so that neither the lanes that write
 * the same pair of eight rows nor those that read eight rows meet in a bank. */
#ifndef MOAO_GPU_HIER_SUMS_RESIDENT_CUH
#define MOAO_GPU_HIER_SUMS_RESIDENT_CUH
#include "gemm_sums_args.cuh"
#include "gpu/batch/batch_device.cuh"

namespace {
namespace resident {

constexpr int CHUNK = 8, GROUPS = 8;
constexpr int COLS = 16 * GROUPS; /* a group, of one or two warps, has 16 columns */
constexpr int SLOT = 16 * CHUNK;  /* numbers of a chunk of a warp's columns */
/* Of a multiprocessor, for the blocks' dynamic memory: another KiB is kept for each of two blocks.
 */
inline size_t most_bytes() {
    return gpu_shared_most() - 1024;
}

/* Two numbers, or zeros where they are not used; nothing is read then. What lies next to them goes
 * to the L2 cache as well: it is asked for next. */
__device__ inline void stage_pair(double *s, const double *g, bool used) {
    const unsigned bytes = used ? 16 : 0;
    asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16, %2;" ::"r"(
                     (unsigned)__cvta_generic_to_shared(s)),
                 "l"(g), "r"(bytes)
                 : "memory");
}

/* From so many columns and blocks of sums it pays to keep factors in shared memory. */
constexpr int MANY_COLUMNS = 128, MANY_UNITS = 100;

/* Eight inner indices of a term, or as many as are left of it. */
struct Piece {
    const double *a, *x; /* op(A) of the tile's first row and the first of these indices; operand */
    int64_t ldx;
    int lda, left;
    bool turned, pairs; /* op(A) is A'; the operand may be read by pairs of inner indices */
};

/* Bytes of shared memory for `rows` rows and inner sizes of `inner` in all, with so many chunks of
 * the operand ahead. */
constexpr size_t bytes(int64_t rows, int64_t inner, int ahead) {
    return sizeof(double) * (size_t)(rows * inner + GROUPS * ahead * SLOT) +
           sizeof(Piece) * (size_t)(inner / CHUNK);
}

/* Of tiles of 8 nt rows: chunks of the current operand or in transit to a group, blocks of a
 * multiprocessor, and warps of a group. */
constexpr int chunks_ahead(int nt) {
    return nt <= 5 ? 6 : 4;
}
constexpr int blocks(int nt) {
    return nt <= 5 ? 2 : 1;
}
constexpr int parts(int nt) {
    return nt >= 16 ? 2 : 1;
}

/* The chunks of a sum, from row i0; returns their number. By one warp, a term a lane. */
template <bool LEFT>
__device__ inline int list_pieces(Piece *piece, const SumArgs<double> &args, const hier_gemm_sum &q,
                                  int i0, int lane) {
    const int terms = args.alpha == 0 ? 0 : q.terms;
    int chunks = 0;
    for (int t0 = 0; t0 < terms; t0 += 32) {
        hier_gemm_term e = {};
        if (t0 + lane < terms)
            e = args.term[q.first + t0 + lane];
        const int own = (e.k + CHUNK - 1) / CHUNK;
        int before = 0, all = 0;
        for (int l = 0; l < 32; l++) {
            const int of = __shfl_sync(0xffffffffu, own, l);
            before += l < lane ? of : 0, all += of;
        }
        const hier_operand &from = args.x.x[e.from];
        const double *p = (const double *)from.p, *a = (const double *)e.a;
        const bool pairs =
            e.k % 2 == 0 && LEFT && from.ld % 2 == 0 && (uintptr_t)(p + e.row) % 16 == 0;
        for (int c = 0; c < own; c++) {
            const int k = c * CHUNK;
            piece[chunks + before + c] = {
                a + (e.trans ? k + (int64_t)i0 * e.lda : i0 + (int64_t)k * e.lda),
                LEFT ? p + e.row + k : p + (e.row + k) * from.ld,
                from.ld,
                e.lda,
                e.k - k,
                e.trans != 0,
                pairs};
        }
        chunks += all;
    }
    return chunks;
}

/* Row n of a chunk: eight numbers, zero where there is no row or no inner index. */
__device__ inline void read_row(double (&v)[CHUNK], const Piece p, int n, int m) {
    const double *a = p.a + n * (int64_t)(p.turned ? p.lda : 1);
    const int step = p.turned ? 1 : p.lda, inside = n < m ? p.left : 0;
#pragma unroll
    for (int k = 0; k < CHUNK; k++, a += step)
        v[k] = k < inside ? *a : 0;
}
__device__ inline void keep_row(double *row, const double (&v)[CHUNK], int n) {
#pragma unroll
    for (int j = 0; j < CHUNK / 2; j++)
        *(double2 *)(row + 2 * (j ^ (n / 2 % 4))) = make_double2(v[2 * j], v[2 * j + 1]);
}

/* All chunks to shared memory: ROWS rows of which m are there. A warp takes 32 rows of a chunk, two
 * such at a time. */
template <int ROWS, int WARPS>
__device__ inline void keep_factors(double *factor, const Piece *piece, int chunks, int m, int warp,
                                    int lane) {
    constexpr int EACH = (ROWS + 31) / 32;
    for (int u = warp; u < chunks * EACH; u += 2 * WARPS) {
        double v[2][CHUNK];
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const int w = u + h * WARPS, n = w % EACH * 32 + lane;
            if (w < chunks * EACH && n < ROWS)
                read_row(v[h], piece[w / EACH], n, m);
        }
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const int w = u + h * WARPS, n = w % EACH * 32 + lane;
            if (w < chunks * EACH && n < ROWS)
                keep_row(factor + (w / EACH * ROWS + n) * CHUNK, v[h], n);
        }
    }
}

/* A lane's numbers of a chunk of the operand, columns g and g + 8 of 16, inner indices 2 q and
 * 2 q + 1, in transit to this lane's place; of two warps of a group each fetches eight columns.
 * Columns that there are not repeat the last one, and are not written. */
template <bool LEFT, int PARTS>
__device__ inline void fetch_columns(double *to, const Piece &p, int64_t j0, int g, int q, int part,
                                     int cols) {
#pragma unroll
    for (int e = 0; e < 2 / PARTS; e++) {
        const int h = PARTS == 1 ? e : part, k = 2 * q;
        const int64_t j = j0 + min(8 * h + g, cols - 1);
        const double *at = LEFT ? p.x + k + j * p.ldx : p.x + k * p.ldx + j;
        double *s = to + h * SLOT / 2;
        if (LEFT && p.pairs) {
            stage_pair(s, at, k < p.left);
        } else {
            batch::stage(s, at, k < p.left);
            batch::stage(s + 1, at + (LEFT ? 1 : p.ldx), k + 1 < p.left);
        }
    }
}

/* Until all chunks that the warps of group `group` have asked for are there but the LATER last
 * ones. With one warp each lane reads what it copied. */
template <int PARTS, int LATER> __device__ inline void arrive(int group) {
    constexpr int threads = 32 * PARTS;
    const unsigned number = group + 1;
    stage_wait<LATER>();
    if (PARTS > 1)
        asm volatile("bar.sync %0, %1;" ::"r"(number), "n"(threads) : "memory");
}

/* Columns j0, j0 + step ... below `end`, 16 at a time, and 8 NT rows, of which there are m. factor,
 * ring: this lane's place in the first chunk of each. AHEAD - 1 chunks of the operand are on their
 * way, beyond the end of one product to the next. */
template <bool LEFT, int NT, int PARTS, int AHEAD>
__device__ inline void products(const SumArgs<double> &args, const double *factor, double *ring,
                                const Piece *piece, int chunks, int64_t row, int64_t j0, int step,
                                int64_t end, int g, int q, int part, int group, int m) {
    int64_t ask = j0; /* columns and chunk to fetch next */
    int asked = 0, slot = 0, free = 0;
    auto fetch = [&] {
        if (ask < end && chunks > 0) {
            const int cols = args.nvec - ask < 16 ? (int)(args.nvec - ask) : 16;
            fetch_columns<LEFT, PARTS>(ring + free * SLOT, piece[asked], ask, g, q, part, cols);
            free = free + 1 == AHEAD ? 0 : free + 1;
            if (++asked == chunks)
                asked = 0, ask += step;
        }
        stage_commit();
    };
#pragma unroll 1
    for (int d = 0; d < AHEAD - 1; d++)
        fetch();
#pragma unroll 1
    for (; j0 < end; j0 += step) {
        double acc[1][NT][4];
#pragma unroll
        for (int e = 0; e < NT * 4; e++)
            acc[0][e / 4][e % 4] = 0;
        const double *b = factor;
#pragma unroll 1
        for (int c = 0; c < chunks; c++, b += PARTS * NT * 8 * CHUNK) {
            double x[4];
            arrive<PARTS, AHEAD - 2>(group);
            const double2 u = *(const double2 *)(ring + slot * SLOT),
                          v = *(const double2 *)(ring + slot * SLOT + SLOT / 2);
            x[0] = u.x, x[1] = v.x, x[2] = u.y, x[3] = v.y;
            slot = slot + 1 == AHEAD ? 0 : slot + 1;
            if (PARTS > 1)
                fetch();
#pragma unroll
            for (int t = 0; t < NT; t++) {
                double f[2];
                if (PARTS == 1 && t == NT / 2) /* while the tensor cores have work */
                    fetch();
                *(double2 *)f = *(const double2 *)(b + t * 8 * CHUNK);
                tensor(acc[0][t], x, f);
            }
        }
        const int cols = args.nvec - j0 < 16 ? (int)(args.nvec - j0) : 16;
        write_tile<LEFT, 1, NT>(args, acc, row, j0, g, q, cols, m);
    }
    arrive<PARTS, 0>(group);
}

/* Tiles of 8 NT PARTS rows by blocks of COLS columns; a block of threads takes as many of them as
 * any other, those of one tile's rows one after another. All go through the columns in one
 * direction at about the same pace, so that what is read at a time lies in few pages of memory: the
 * columns that a block takes of its last tile are the first, and it begins with them. */
template <bool LEFT, int NT, int PARTS, int AHEAD, int BLOCKS>
__global__ void __launch_bounds__(32 * GROUPS * PARTS, BLOCKS)
    kernel(const __grid_constant__ SumArgs<double> args, int64_t units, int inner) {
    extern __shared__ __align__(16) unsigned char shared[];
    __shared__ int found;
    constexpr int ROWS = 8 * NT * PARTS;
    double *factor = (double *)shared, *ring = factor + ROWS * inner;
    Piece *piece = (Piece *)(ring + GROUPS * AHEAD * SLOT);
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, q = lane % 4,
              part = warp % PARTS, group = warp / PARTS;
    const int64_t begin = units * blockIdx.x / gridDim.x,
                  end = units * (blockIdx.x + 1) / gridDim.x, last = (end - 1) / args.col_tiles;
    const bool split = last > begin / args.col_tiles && end % args.col_tiles != 0;
    for (int64_t tile = split ? last : begin / args.col_tiles;;) {
        const hier_gemm_sum s = args.sum[tile / args.row_tiles];
        const int i0 = (int)(tile % args.row_tiles) * ROWS, m = s.m - i0;
        __syncthreads();
        if (warp == 0) {
            const int listed = m > 0 ? list_pieces<LEFT>(piece, args, s, i0, lane) : 0;
            if (lane == 0)
                found = listed;
        }
        __syncthreads();
        const int chunks = found;
        keep_factors<ROWS, GROUPS * PARTS>(factor, piece, chunks, m, warp, lane);
        batch::wait_for_predecessor();
        __syncthreads();
        const int64_t first = tile * args.col_tiles, from = max(begin, first) - first,
                      to = min(min(end - first, (int64_t)args.col_tiles) * COLS, args.nvec);
        const int own = part * 8 * NT; /* rows before this warp's */
        if (m > 0)
            products<LEFT, NT, PARTS, AHEAD>(
                args, factor + (own + g) * CHUNK + 2 * (q ^ (g / 2 % 4)),
                ring + group * AHEAD * SLOT + 2 * lane, piece, chunks, s.row + i0 + own,
                from * COLS + 16 * group, COLS, to, g, q, part, group, m - own);
        tile = split && tile == last ? begin / args.col_tiles : tile + 1;
        if (tile > last || (split && tile == last))
            break;
    }
}

/* --- which kernel, if one of these */

/* The height, in eights, of tiles whose factors fit into shared memory: the least that has the rows
 * of a sum, or of a half of one, and so on; 0: none. */
inline int height(int64_t most, int64_t inner) {
    for (int64_t tiles = 1; tiles <= 4 && inner > 0; tiles++)
        for (int nt : {3, 4, 5, 9, 10, 12, 16, 18})
            if (8 * nt * tiles >= most && (tiles == 1 || nt >= 9) &&
                bytes(8 * nt, inner, chunks_ahead(nt)) <= most_bytes() / blocks(nt))
                return nt;
    return 0;
}
/* Columns and blocks enough, and no long sums of few rows: there the operand is all that is read,
 * and longer pieces of its columns at a time take less (H200, 24 rows of 144 inner indices and 4096
 * columns: 0.42 ms by wide_kernel, 0.55 so). */
inline bool pays(int nt, int64_t nvec, int64_t count, int64_t most, int64_t inner) {
    const int64_t units = count * ((most + 8 * nt - 1) / (8 * nt)) * ((nvec + COLS - 1) / COLS);
    return nvec >= MANY_COLUMNS && (nvec > 256 || units >= MANY_UNITS) &&
           (most > 40 || inner <= 96);
}

} // namespace resident
} // namespace
#endif
