/* Binary trees of sums in double precision, two or three levels at once (hier_fused): a block
 * keeps all factors of a tree in shared memory, and each of its warps takes 16 columns through the
 * whole tree, with what one level leaves to the next in registers: a lane's part of a product, with
 * columns as the 16-row side, is its part of the operand of the next one (rows 2 q and 2 q + 1 of
 * eight are inner indices 2 q and 2 q + 1). So results of a tree are read once less for each level
 * going up, and going down they are neither written nor read but at the last level.
 *
 * Operands from memory arrive by asynchronous copies of up to 16 inner indices, each lane's own
 * numbers, so that no warp waits for another one. Factors lie as in gemm_sums_resident.cuh. */
#ifndef MOAO_GPU_HIER_SUMS_CHAIN_CUH
#define MOAO_GPU_HIER_SUMS_CHAIN_CUH
#include "gemm_sums_resident.cuh"

namespace {
namespace chain {

using resident::CHUNK;
using resident::SLOT; /* numbers of eight inner indices of 16 columns */
constexpr int PIECE = 2 * CHUNK, COLS = 16, WARPS = 8, NODES = (1 << HIER_FUSED) - 1;

/* A tree's lists, as the kernel takes them. */
struct ChainArgs {
    SumArgs<double> sums; /* x, y, ldy, nvec; alpha 1, beta 0 */
    const hier_gemm_sum *sum[HIER_FUSED];
    int from;            /* operand with the results */
    int64_t units;       /* trees times blocks of 16 columns */
    int doubles, chunks; /* shared memory: numbers of factors, and chunks of them */
};

/* One node. Chunks of its own operands begin at `own`, those of the product with the result of the
 * node before it on the way (up: its own, in the sum of its parent; down: its parent's) at `link`,
 * numbers of shared memory. */
struct Node {
    int64_t row;
    int m, pieces, own, link, links; /* links: chunks of that */
};
/* Up to 16 inner indices of an operand. */
struct Piece {
    const double *x; /* first column */
    int64_t ldx;
    int left;
    bool pairs; /* may be read by pairs of inner indices */
};
/* Eight inner indices of a factor in transit to shared memory. */
struct Chunk {
    resident::Piece of;
    int m, high, to; /* rows, those that are kept, and where */
};
struct Lists {
    Node node[NODES];
    int pieces, chunks;
};

__device__ inline int eights(int n) {
    return (n + CHUNK - 1) / CHUNK;
}

/* --- trees: nodes by number */

template <int LEVELS, bool DOWN> struct Tree {
    static constexpr int COUNT = (1 << LEVELS) - 1, LAST = 1 << (LEVELS - 1);
    static constexpr int BELOW = LAST - 1; /* nodes of a child's tree (down) */
    /* List and place in it of node n. Up: list by list; down: a node, then what is below it. */
    __device__ static void place(int n, int &level, int &i) {
        level = 0, i = n;
        if (!DOWN) {
            for (int of = LAST; i >= of; of /= 2)
                i -= of, level++;
        } else if (n > 0) {
            const int c = (n - 1) / BELOW, r = (n - 1) % BELOW;
            level = r == 0 ? 1 : 2, i = r == 0 ? c : 2 * c + r - 1;
        }
    }
    __device__ static const hier_gemm_sum &sum(const ChainArgs &a, int64_t tree, int level, int i) {
        const int of = DOWN ? 1 << level : LAST >> level;
        return a.sum[level][tree * of + i];
    }
};

/* Rows that are kept of a node's factors, in eights: NT or one less. */
template <int NT> __device__ inline int height(int m) {
    return m <= 8 * (NT - 1) ? NT - 1 : NT;
}

/* Of node `lane` (others: none): the lists of its chunks and pieces. By one warp. */
template <int LEVELS, bool DOWN, int NT>
__device__ inline void list(Lists &l, Piece *piece, Chunk *chunk, const ChainArgs &a, int64_t tree,
                            int lane) {
    using T = Tree<LEVELS, DOWN>;
    const hier_gemm_term *term = a.sums.term;
    hier_gemm_sum s = {0, 0, 0, 0},
                  to = {0, 0, 0, 0}; /* its own, and the one with the link's rows */
    int level = 0, i = 0, inner = 0; /* inner: size of the link */
    hier_gemm_term link = {};
    if (lane < T::COUNT) {
        T::place(lane, level, i);
        s = T::sum(a, tree, level, i);
        if (!DOWN && level + 1 < LEVELS) {
            to = T::sum(a, tree, level + 1, i / 2);
            for (int e = 0; e < to.terms && s.m > 0; e++) {
                const hier_gemm_term t = term[to.first + e];
                if (s.row >= t.row && s.row < t.row + t.k) {
                    const int64_t before = s.row - t.row;
                    link = t, inner = s.m;
                    link.a = (const double *)t.a + (t.trans ? before : before * t.lda);
                }
            }
        }
    }
    int pieces = 0, own = 0;
    const bool outside = lane < T::COUNT && (DOWN || level == 0);
    for (int e = 0; outside && e < s.terms; e++) {
        const hier_gemm_term t = term[s.first + e];
        if (DOWN && level > 0 && t.from == a.from)
            link = t, inner = t.k, to = s;
        else
            pieces += (t.k + PIECE - 1) / PIECE, own += eights(t.k);
    }
    const int links = eights(inner), high = 8 * height<NT>(s.m), link_high = 8 * height<NT>(to.m);
    int first_piece = 0, first_chunk = 0, at = 0, all_pieces = 0, all_chunks = 0;
    for (int n = 0; n < T::COUNT; n++) {
        const int p = __shfl_sync(0xffffffffu, pieces, n), o = __shfl_sync(0xffffffffu, own, n),
                  k = __shfl_sync(0xffffffffu, links, n),
                  size = __shfl_sync(0xffffffffu, CHUNK * (own * high + links * link_high), n);
        all_pieces += p, all_chunks += o + k;
        if (n < lane)
            first_piece += p, first_chunk += o + k, at += size;
    }
    if (lane == 0)
        l.pieces = all_pieces, l.chunks = all_chunks;
    if (lane >= T::COUNT)
        return;
    l.node[lane] = {s.row, s.m, pieces, at, at + CHUNK * own * high, links};
    piece += first_piece, chunk += first_chunk;
    auto keep = [&](const hier_gemm_term &t, int k, int inner, int m, int high) {
        *chunk++ = {{(const double *)t.a + (t.trans ? k : (int64_t)k * t.lda), nullptr, 0, t.lda,
                     inner - k, t.trans != 0, false},
                    m,
                    high,
                    at};
        at += CHUNK * high;
    };
    for (int e = 0; outside && e < s.terms; e++) {
        const hier_gemm_term t = term[s.first + e];
        if (DOWN && level > 0 && t.from == a.from)
            continue;
        const hier_operand &x = a.sums.x.x[t.from];
        const double *p = (const double *)x.p + t.row;
        const bool pairs = t.k % 2 == 0 && x.ld % 2 == 0 && (uintptr_t)p % 16 == 0;
        for (int k = 0; k < t.k; k += PIECE)
            *piece++ = {p + k, x.ld, t.k - k, pairs};
        for (int k = 0; k < t.k; k += CHUNK)
            keep(t, k, t.k, s.m, high);
    }
    for (int k = 0; k < inner; k += CHUNK)
        keep(link, k, inner, to.m, link_high);
}

/* All chunks to shared memory, a row a lane, two chunks a warp at a time. */
__device__ inline void keep_factors(double *factor, const Chunk *chunk, int chunks, int warp,
                                    int lane) {
    for (int u = warp; u < chunks; u += 2 * WARPS) {
        double v[2][CHUNK];
#pragma unroll
        for (int h = 0; h < 2; h++)
            if (u + h * WARPS < chunks && lane < chunk[u + h * WARPS].high)
                resident::read_row(v[h], chunk[u + h * WARPS].of, lane, chunk[u + h * WARPS].m);
#pragma unroll
        for (int h = 0; h < 2; h++)
            if (u + h * WARPS < chunks && lane < chunk[u + h * WARPS].high)
                resident::keep_row(factor + chunk[u + h * WARPS].to + lane * CHUNK, v[h], lane);
    }
    for (int u = warp; u < chunks; u += WARPS) /* rows from 32 on */
        if (lane + 32 < chunk[u].high) {
            double v[CHUNK];
            resident::read_row(v, chunk[u].of, lane + 32, chunk[u].m);
            resident::keep_row(factor + chunk[u].to + (lane + 32) * CHUNK, v, lane + 32);
        }
}

/* --- a warp's products */

template <int NT> using Sum = double[1][NT][4];
template <int NT> __device__ inline void clear(Sum<NT> &c) {
#pragma unroll
    for (int e = 0; e < NT * 4; e++)
        c[0][e / 4][e % 4] = 0;
}

/* The first N eights of c += what x, this lane's numbers of a chunk, and the factor's chunk give;
 * f: this lane's place in it. */
template <int N, int NT>
__device__ inline void add(Sum<NT> &c, const double (&x)[4], const double *f) {
#pragma unroll
    for (int t = 0; t < N; t++) {
        double b[2];
        *(double2 *)b = *(const double2 *)(f + t * 8 * CHUNK);
        tensor(c[0][t], x, b);
    }
}

/* c += a factor of `chunks` chunks times the result r. */
template <int N, int NT>
__device__ inline void add_result(Sum<NT> &c, const Sum<NT> &r, const double *f, int chunks) {
#pragma unroll
    for (int s = 0; s < NT; s++)
        if (s < chunks) {
            const double x[4] = {r[0][s][0], r[0][s][2], r[0][s][1], r[0][s][3]};
            add<N>(c, x, f + s * N * 8 * CHUNK);
        }
}
template <int NT>
__device__ inline void add_result(Sum<NT> &c, const Sum<NT> &r, const double *f, int chunks,
                                  int m) {
    if (height<NT>(m) < NT)
        add_result<NT - 1>(c, r, f, chunks);
    else
        add_result<NT>(c, r, f, chunks);
}

/* The pieces of a tree, for the warp's columns one after another: AHEAD - 1 of them are on their
 * way, beyond the last one of 16 columns to the next. */
template <int AHEAD> struct Ring {
    double *at; /* this lane's place in the first slot */
    const Piece *piece;
    int pieces, next, slot, free, cols;
    int64_t column, step, end, nvec;

    __device__ void fetch(int g, int q) {
        if (column < end && pieces > 0) {
            const Piece p = piece[next];
#pragma unroll
            for (int h = 0; h < 4; h++) {
                const int k = h / 2 * CHUNK + 2 * q;
                const int64_t j = column + min(8 * (h % 2) + g, cols - 1);
                const double *x = p.x + k + j * p.ldx;
                double *s = at + free * 2 * SLOT + h * (SLOT / 2);
                if (h >= 2 && p.left <= CHUNK)
                    continue;
                if (p.pairs) {
                    resident::stage_pair(s, x, k < p.left);
                } else {
                    batch::stage(s, x, k < p.left);
                    batch::stage(s + 1, x + 1, k + 1 < p.left);
                }
            }
            free = free + 1 == AHEAD ? 0 : free + 1;
            if (++next == pieces)
                next = 0, column += step, cols = nvec - column < COLS ? (int)(nvec - column) : COLS;
        }
        stage_commit();
    }
};

/* c += a node's factors times its operands; p: its first piece. */
template <int N, int NT, int AHEAD>
__device__ inline void add_pieces(Sum<NT> &c, Ring<AHEAD> &ring, const Piece *p, int pieces,
                                  const double *f, int g, int q) {
#pragma unroll 1
    for (int u = 0; u < pieces; u++) {
        stage_wait<AHEAD - 2>();
        const double *s = ring.at + ring.slot * 2 * SLOT;
        const bool both = p[u].left > CHUNK;
        double x[2][4];
#pragma unroll
        for (int h = 0; h < 2; h++)
            if (h == 0 || both) {
                const double2 v = *(const double2 *)(s + h * SLOT),
                              w = *(const double2 *)(s + h * SLOT + SLOT / 2);
                x[h][0] = v.x, x[h][1] = w.x, x[h][2] = v.y, x[h][3] = w.y;
            }
        ring.slot = ring.slot + 1 == AHEAD ? 0 : ring.slot + 1;
        ring.fetch(g, q);
        add<N>(c, x[0], f);
        if (both)
            add<N>(c, x[1], f + N * 8 * CHUNK);
        f += (both ? 2 : 1) * N * 8 * CHUNK;
    }
}
template <int NT, int AHEAD>
__device__ inline void add_pieces(Sum<NT> &c, Ring<AHEAD> &ring, const Piece *&p, const Node &n,
                                  const double *f, int g, int q) {
    if (height<NT>(n.m) < NT)
        add_pieces<NT - 1>(c, ring, p, n.pieces, f + n.own, g, q);
    else
        add_pieces<NT>(c, ring, p, n.pieces, f + n.own, g, q);
    p += n.pieces;
}

/* One tree, columns j0, j0 + step ... below `end`. f: this lane's place in a chunk of factors. */
template <int LEVELS, bool DOWN, int NT, int AHEAD>
__device__ inline void products(const ChainArgs &a, const Lists &l, const Piece *piece,
                                const double *f, double *ring_at, int64_t j0, int step, int64_t end,
                                int g, int q) {
    using T = Tree<LEVELS, DOWN>;
    Ring<AHEAD> ring = {ring_at, piece, l.pieces, 0, 0, 0, 0, j0, step, end, a.sums.nvec};
    ring.cols = ring.nvec - j0 < COLS ? (int)(ring.nvec - j0) : COLS;
#pragma unroll 1
    for (int d = 0; d < AHEAD - 1; d++)
        ring.fetch(g, q);
#pragma unroll 1
    for (; j0 < end; j0 += step) {
        const int cols = ring.nvec - j0 < COLS ? (int)(ring.nvec - j0) : COLS;
        const Piece *p = piece;
        auto write = [&](const Sum<NT> &c, const Node &n) {
            write_tile<true, 1, NT>(a.sums, c, n.row, j0, g, q, cols, n.m);
        };
        Sum<NT> c[LEVELS];
        if constexpr (DOWN) {
            clear<NT>(c[0]);
            add_pieces<NT>(c[0], ring, p, l.node[0], f, g, q);
            auto child = [&](int level, int n) {
                clear<NT>(c[level]);
                add_pieces<NT>(c[level], ring, p, l.node[n], f, g, q);
                add_result<NT>(c[level], c[level - 1], f + l.node[n].link, l.node[n].links,
                               l.node[n].m);
            };
#pragma unroll 1
            for (int i = 0; i < 2; i++) {
                const int n = 1 + i * T::BELOW;
                child(1, n);
                if constexpr (LEVELS == 2) {
                    write(c[1], l.node[n]);
                } else {
#pragma unroll 1
                    for (int k = 1; k <= 2; k++) {
                        child(2, n + k);
                        write(c[2], l.node[n + k]);
                    }
                }
            }
        } else {
            clear<NT>(c[LEVELS - 1]);
            auto to_parent = [&](int level, int n, int parent) {
                write(c[level], l.node[n]);
                add_result<NT>(c[level + 1], c[level], f + l.node[n].link, l.node[n].links,
                               l.node[parent].m);
            };
#pragma unroll 1
            for (int i = 0; i < T::LAST; i += 2) {
                const int parent = T::LAST + i / 2;
                if (LEVELS > 2)
                    clear<NT>(c[1]);
#pragma unroll 1
                for (int n = i; n < i + 2; n++) {
                    clear<NT>(c[0]);
                    add_pieces<NT>(c[0], ring, p, l.node[n], f, g, q);
                    to_parent(0, n, parent);
                }
                if constexpr (LEVELS > 2)
                    to_parent(1, parent, T::COUNT - 1);
            }
            write(c[LEVELS - 1], l.node[T::COUNT - 1]);
        }
    }
    stage_wait<0>();
}

/* Blocks take as many columns of trees as any other, those of one tree one after another; the last
 * tree first, where it is not whole (gemm_sums_resident.cuh). */
template <int LEVELS, bool DOWN, int NT, int AHEAD>
__global__ void __launch_bounds__(32 * WARPS, 1) kernel(const __grid_constant__ ChainArgs a) {
    extern __shared__ __align__(16) unsigned char shared[];
    __shared__ Lists lists;
    double *factor = (double *)shared, *ring = factor + a.doubles;
    Chunk *chunk = (Chunk *)(ring + WARPS * AHEAD * 2 * SLOT);
    Piece *piece = (Piece *)(chunk + a.chunks);
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, q = lane % 4;
    const int64_t of = a.sums.col_tiles, begin = a.units * blockIdx.x / gridDim.x,
                  end = a.units * (blockIdx.x + 1) / gridDim.x, last = (end - 1) / of;
    const bool split = last > begin / of && end % of != 0;
    for (int64_t tree = split ? last : begin / of;;) {
        __syncthreads();
        if (warp == 0)
            list<LEVELS, DOWN, NT>(lists, piece, chunk, a, tree, lane);
        __syncthreads();
        keep_factors(factor, chunk, lists.chunks, warp, lane);
        batch::wait_for_predecessor();
        __syncthreads();
        const int64_t first = tree * of, from = max(begin, first) - first,
                      to = min(min(end - first, of) * COLS, a.sums.nvec);
        products<LEVELS, DOWN, NT, AHEAD>(a, lists, piece,
                                          factor + g * CHUNK + 2 * (q ^ (g / 2 % 4)),
                                          ring + warp * AHEAD * 2 * SLOT + 2 * lane,
                                          (from + warp) * COLS, WARPS * COLS, to, g, q);
        tree = split && tree == last ? begin / of : tree + 1;
        if (tree > last || (split && tree == last))
            break;
    }
}

} // namespace chain
} // namespace
#endif
