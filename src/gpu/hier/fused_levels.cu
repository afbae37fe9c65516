/* Which trees of sums go by one kernel (fused_levels.cuh), and its launch; the others go list by
 * list.
 */
#include "fused_levels.cuh"
#include "gpu/batch/batch_gpu.h"
#include "hier_gpu.h"

namespace {
using namespace chain;

/* From so many trees times blocks of 16 columns on it pays: with fewer of them most multiprocessors
 * have little to do, and each keeps all factors of a tree for it. */
constexpr int64_t MANY_UNITS = 4000;

/* Of a tree, at most: numbers of its factors, chunks of them, pieces of its operands. */
struct Sizes {
    int64_t doubles, chunks, pieces;
    size_t bytes(int ahead) const {
        return sizeof(double) * (size_t)(doubles + WARPS * ahead * 2 * SLOT) +
               sizeof(Chunk) * (size_t)chunks + sizeof(Piece) * (size_t)pieces;
    }
};
template <int NT> Sizes sizes(const hier_fused *c) {
    Sizes s = {0, 0, 0};
    for (int i = 0; i < c->levels; i++) {
        const hier_gemm_sums &l = c->level[i];
        const int64_t nodes = l.count / c->count, rows = 8 * (l.most <= 8 * (NT - 1) ? NT - 1 : NT);
        int64_t inner = l.inner;
        if (!c->down && i > 0) /* two children, whose results begin at chunks of their own */
            inner = 2 * ((c->level[i - 1].most + CHUNK - 1) / CHUNK * CHUNK);
        s.doubles += nodes * rows * inner, s.chunks += nodes * inner / CHUNK;
        if (c->down || i == 0)
            s.pieces += nodes * inner / CHUNK;
    }
    return s;
}

template <int LEVELS, bool DOWN, int NT, int AHEAD>
status start(const ChainArgs &a, const Sizes &s, cudaStream_t stream) {
    const int64_t most = batch::resident(1);
    return batch::launch(kernel<LEVELS, DOWN, NT, AHEAD>,
                         dim3((unsigned)(a.units < most ? a.units : most)), 32 * WARPS,
                         s.bytes(AHEAD), stream, a);
}
template <int LEVELS, bool DOWN, int NT>
status pick(const hier_fused *c, ChainArgs a, cudaStream_t stream, bool *done) {
    const Sizes s = sizes<NT>(c);
    a.doubles = (int)s.doubles, a.chunks = (int)s.chunks;
    *done = s.bytes(4) <= resident::most_bytes();
    return s.bytes(5) <= resident::most_bytes() ? start<LEVELS, DOWN, NT, 5>(a, s, stream)
           : *done                              ? start<LEVELS, DOWN, NT, 4>(a, s, stream)
                                                : MOAO_OK;
}
template <int LEVELS, bool DOWN>
status pick(const hier_fused *c, const ChainArgs &a, int64_t most, cudaStream_t stream,
            bool *done) {
    return most <= 24   ? pick<LEVELS, DOWN, 3>(c, a, stream, done)
           : most <= 32 ? pick<LEVELS, DOWN, 4>(c, a, stream, done)
                        : pick<LEVELS, DOWN, 5>(c, a, stream, done);
}
} // namespace

status gpu_hier_fused(backend_ctx *ctx, backend_type t, char side, const hier_fused *c,
                      int64_t nvec, const hier_operand x[HIER_OPERANDS], void *y, int64_t ldy) {
    const int64_t cols = (nvec + COLS - 1) / COLS;
    int64_t most = 0;
    bool known = true, done = false;
    for (int i = 0; i < c->levels; i++) {
        most = most < c->level[i].most ? c->level[i].most : most;
        known = known && c->level[i].inner > 0;
    }
    if (t == BACKEND_D && side == 'L' && known && most <= 40 && c->count * cols >= MANY_UNITS) {
        gpu_batch_call call(ctx);
        ChainArgs a = {};
        a.sums = {nullptr, c->level[0].term, {}, 1, 0, (double *)y, ldy, nvec, 1, (int)cols};
        a.from = c->from, a.units = c->count * cols;
        for (int i = 0; i < HIER_OPERANDS; i++)
            a.sums.x.x[i] = x[i];
        for (int i = 0; i < c->levels; i++)
            a.sum[i] = c->level[i].sum;
        const status st = c->levels == 3 ? c->down ? pick<3, true>(c, a, most, call.stream, &done)
                                                   : pick<3, false>(c, a, most, call.stream, &done)
                          : c->down ? pick<2, true>(c, a, most, call.stream, &done)
                                         : pick<2, false>(c, a, most, call.stream, &done);
        if (done || st != MOAO_OK)
            return st;
    }
    return hier_fused_lists(gpu_hier_gemm_sums, ctx, t, side, c, nvec, x, y, ldy);
}
