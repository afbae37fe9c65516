/* Many products of FP16 numbers in one launch (backend_split_ops.h), on any chip: a block makes 64
 * rows of 64 columns of a result, 32 of the inner size at a time, through shared memory; what a
 * tensor core makes has rows of the result along its columns. Hopper has a kernel of its own. */
#include "gpu/core/common.cuh"
#include "split_gpu.h"
#include "split_products.cuh"

#define TILE 64
#define DEPTH 32
#define STRIDE (DEPTH + 8) /* halves of a row of a tile: no bank conflicts */
#define THREADS 128
#define MOST_BLOCKS 65535

/* c (16 x 8) += a (16 x 16) b (16 x 8). With r = lane / 4 and q = 2 (lane % 4): half e of
 * number i of a has
 * row r + 8 (i % 2), column q + e + 8 (i / 2); of b[i] row q + e + 8 i, column r; c[i] row r + 8 (i
 * / 2), column q + i % 2. */
__device__ inline void multiply_16x8(float *c, const uint4 &a, const unsigned *b) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b[0]), "r"(b[1]));
}

struct tiles { /* rows, or columns, of a result; along the inner size */
    __half a[TILE][STRIDE], b[TILE][STRIDE];
};

/* Part c .. c + DEPTH of a segment, zeros beyond it; columns n0 .. of the task's result. */
__device__ void load_tiles(tiles *s, const split_products &p, const split_segment &g, int cols,
                           int64_t m0, int n0, int c) {
    const __half zero = __ushort_as_half(0), *a = (const __half *)p.a, *b = (const __half *)p.b;
    for (int e = threadIdx.x; e < TILE * DEPTH; e += THREADS) {
        const int i = e % TILE, k = e / TILE; /* along columns of A */
        s->a[i][k] = m0 + i < p.m && c + k < g.inner ? a[m0 + i + (g.a + c + k) * p.lda] : zero;
    }
    for (int e = threadIdx.x; e < TILE * DEPTH; e += THREADS) {
        const int j = g.down ? e / DEPTH : e % TILE, k = g.down ? e % DEPTH : e / TILE;
        const bool there = n0 + j < cols && c + k < g.inner;
        const int64_t row = g.row + (g.down ? c + k : n0 + j),
                      col = g.b + (g.down ? n0 + j : c + k);
        s->b[j][k] = there ? b[row + col * p.ldb] : zero;
    }
}

__device__ inline unsigned pair_at(const __half *p) {
    return *(const unsigned *)p;
}

/* Of a warp: columns n .. n + 32 by rows m .. m + 32 of a tile. */
__device__ inline void multiply_tiles(float acc[2][4][4], const tiles *s, int n, int m) {
    const int r = threadIdx.x % 32 / 4, q = threadIdx.x % 4 * 2;
#pragma unroll
    for (int k = 0; k < DEPTH; k += 16) {
        uint4 left[2];
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const __half *const low = s->b[n + 16 * i + r], *const high = s->b[n + 16 * i + r + 8];
            left[i] = make_uint4(pair_at(low + k + q), pair_at(high + k + q),
                                 pair_at(low + k + q + 8), pair_at(high + k + q + 8));
        }
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const unsigned right[2] = {pair_at(&s->a[m + 8 * j + r][k + q]),
                                       pair_at(&s->a[m + 8 * j + r][k + q + 8])};
#pragma unroll
            for (int i = 0; i < 2; i++)
                multiply_16x8(acc[i][j], left[i], right);
        }
    }
}

__device__ inline void store(const split_target &to, const split_task &t, int64_t row, int col,
                             float x) {
    if (to.c) {
        float *const c = to.c + row + (int64_t)(t.to + col) * to.ld;
        *c = to.add ? *c + x : x;
        return;
    }
    const split_place p = to.place[t.to + col];
    const fp16_of y = two_fp16(x, 1);
    to.h[row + p.to * to.ld] = y.top;
    if (t.parts > 1)
        to.h[row + ((int64_t)p.to + p.step) * to.ld] = y.rest;
}

__global__ void __launch_bounds__(THREADS) products_kernel(split_products p, split_target to) {
    __shared__ tiles s;
    const int64_t along = (p.m + TILE - 1) / TILE, each = along * (SPLIT_WIDEST / TILE);
    const int warp = threadIdx.x / 32, n = warp % 2 * 32, m = warp / 2 * 32;
    for (int64_t e = blockIdx.x; e < p.count * each; e += gridDim.x) {
        const split_task t = p.task[e / each];
        const int n0 = (int)(e % each / along) * TILE;
        const int64_t m0 = e % along * TILE;
        float acc[2][4][4] = {}, scale = 0;
        if (n0 >= t.cols)
            continue;
        for (int k = t.first; k < t.first + t.segments; k++) {
            const split_segment g = p.segment[k];
            const float before = scale;
            scale = split_scale(g, p.exponent);
            for (int i = 0; i < 32; i++)
                acc[i / 16][i / 4 % 4][i % 4] *= before / scale;
            for (int c = 0; c < g.inner; c += DEPTH) {
                __syncthreads();
                load_tiles(&s, p, g, t.cols, m0, n0, c);
                __syncthreads();
                multiply_tiles(acc, &s, n, m);
            }
        }
        if (to.of_h)
            scale *= split_power(*to.of_h);
#pragma unroll
        for (int i = 0; i < 32; i++) {
            const int col = n0 + n + i / 16 * 16 + threadIdx.x % 32 / 4 + i % 4 / 2 * 8;
            const int64_t row = m0 + m + i / 4 % 4 * 8 + threadIdx.x % 4 * 2 + i % 2;
            if (col < t.cols && row < p.m)
                store(to, t, row, col, scale * acc[i / 16][i / 4 % 4][i % 4]);
        }
    }
}

static status products(backend_ctx *ctx, const split_products *p, const split_target &to) {
    gpu_device_guard guard(ctx->device);
    bool served;
    if (p->m == 0 || p->count == 0)
        return MOAO_OK;
    GPU_TRY(split_hopper(ctx, p, &to, &served));
    if (served)
        return MOAO_OK;
    const int64_t parts = p->count * gpu_ceil(p->m, TILE) * (SPLIT_WIDEST / TILE);
    products_kernel<<<(unsigned)gpu_min(parts, MOST_BLOCKS), THREADS, 0, ctx->main.stream>>>(*p,
                                                                                             to);
    LAUNCHED();
    return MOAO_OK;
}

extern "C" status split_sum(backend_ctx *ctx, const split_products *p, bool add, float *c,
                            int64_t ldc, int64_t c_cols) {
    return products(ctx, p, split_target{c, NULL, NULL, NULL, add, ldc, c_cols});
}

extern "C" status split_halve(backend_ctx *ctx, const split_products *p, const int32_t *exponent,
                              const split_place *place, backend_f16 *h, int64_t ldh) {
    return products(ctx, p, split_target{NULL, (__half *)h, exponent, place, false, ldh, 0});
}
