/* Many products of halves in one launch (backend_terms.h), on Hopper. A block makes the 128 rows of
 * a result that begin at one place, all its columns: one warp has boxes of both operands copied to
 * shared memory, 64 of the inner size a stage; two groups of four warps multiply what came, 64
 * columns of the result at a time, and hold them in registers, rows of the result along the
 * columns of what a tensor core makes, so that a thread has two neighbours of a column. Blocks stay
 * for the next such part, whose boxes come while this one is stored; parts of one task follow each
 * other, so that what they share of B stays in the second-level cache. */
#include "gpu/core/common.cuh"
#include "tensor_map.cuh"
#include "terms_products.cuh"
#include "wgmma.cuh"
#include <limits.h>

namespace {

constexpr int BOX = TENSOR_BOX, BOX_BYTES = BOX * BOX * 2;
constexpr int ROWS = 128, STEP = TERMS_STEP; /* of a part; of the inner size */
constexpr int A_BOXES = ROWS / BOX, B_BOXES = TERMS_WIDEST / BOX;
constexpr int STAGES = 4, STAGE = (A_BOXES + B_BOXES) * BOX_BYTES;
constexpr int GROUPS = 2, PER_GROUP = 128, THREADS = (GROUPS + 1) * PER_GROUP;
constexpr int SHARED = STAGES * STAGE + 1024 + 16 * STAGES;
static_assert(STEP == BOX, "a stage is a box along the inner size");

struct operands {
    CUtensorMap a, b;
};

/* Results go to C, or as halves to H. */
struct job {
    int m, parts; /* of all tasks */
    const terms_task *task;
    const terms_segment *segment;
    terms_target to;
    bool pairs; /* two neighbours of a column are written at once */
};

struct ring { /* of stages */
    uint32_t base;
    int at;
    unsigned parity;
    __device__ uint32_t a() const {
        return base + at * STAGE;
    }
    __device__ uint32_t b() const {
        return a() + A_BOXES * BOX_BYTES;
    }
    __device__ uint32_t full(int stage) const {
        return base + STAGES * STAGE + 16 * stage;
    }
    __device__ uint32_t empty(int stage) const {
        return full(stage) + 8;
    }
    __device__ void next() {
        if (++at == STAGES) {
            at = 0;
            parity ^= 1;
        }
    }
};

__device__ inline int parts_along(const job &t) {
    return (t.m + ROWS - 1) / ROWS;
}

/* Blocks of 64 columns of a result. */
__device__ inline int blocks_of(const terms_task &k) {
    return (k.cols + BOX - 1) / BOX;
}

/* One thread: boxes of all steps of all parts. */
__device__ void copy_all(const operands &x, const job &t, ring r) {
    const int along = parts_along(t);
    for (int i = blockIdx.x; i < t.parts; i += gridDim.x) {
        const terms_task k = t.task[i / along];
        const int m0 = i % along * ROWS, n = blocks_of(k);
        for (int s = k.first; s < k.first + k.segments; s++) {
            const terms_segment g = t.segment[s];
            for (int c = 0; c < g.inner; c += STEP) {
                const uint32_t bar = r.full(r.at);
                barrier_wait(r.empty(r.at), r.parity ^ 1);
                barrier_expect(bar, (A_BOXES + n) * BOX_BYTES);
                for (int j = 0; j < A_BOXES; j++)
                    copy_box(r.a() + j * BOX_BYTES, &x.a, bar, m0 + j * BOX, g.a + c);
                for (int j = 0; j < n; j++)
                    copy_box(r.b() + j * BOX_BYTES, &x.b, bar, g.row + (g.down ? c : j * BOX),
                             g.b + (g.down ? j * BOX : c));
                r.next();
            }
        }
    }
}

__device__ inline void give_back(const ring &r, int stage) {
    if (stage >= 0 && threadIdx.x % 32 == 0)
        barrier_arrive(r.empty(stage), 0);
}

/* A stage for block `group` of 64 columns, and the second one after it. */
template <int N, bool DOWN>
__device__ inline void multiply(float (&acc)[N][64], const ring &r, int group, bool add) {
    wgmma_begin();
#pragma unroll
    for (int n = 0; n < N; n++) {
        const uint32_t b = r.b() + (group + n * GROUPS) * BOX_BYTES;
#pragma unroll
        for (int k = 0; k < STEP / 16; k++)
            wgmma_64x128<!DOWN, 1>(
                acc[n], DOWN ? operand(b + k * 32, 16) : operand(b + k * 2048, BOX_BYTES),
                operand(r.a() + k * 2048, BOX_BYTES), k > 0 || add);
    }
    wgmma_commit();
}

template <int N, bool DOWN>
__device__ inline void multiply_segment(float (&acc)[N][64], ring &r, int group, int inner,
                                        bool add) {
    int before = -1;
    for (int c = 0; c < inner; c += STEP) {
        barrier_wait(r.full(r.at), r.parity);
        multiply<N, DOWN>(acc, r, group, c > 0 || add);
        wgmma_wait<1>();
        give_back(r, before);
        before = r.at;
        r.next();
    }
    wgmma_wait<0>();
#pragma unroll
    for (int n = 0; n < N; n++)
        wgmma_written(acc[n]);
    give_back(r, before);
}

/* Rows m0 .. m0 + 128 of columns n .. n + 64 of a result: d times `scale` added to C. */
__device__ inline void add_block(const job &t, const terms_task &k, int m0, int n, float scale,
                                 const float (&d)[64]) {
    const int i = threadIdx.x % PER_GROUP, col = n + i / 32 * 16 + i % 32 / 4, row = m0 + i % 4 * 2;
    float *c = t.to.c + (int64_t)(k.to + col) * t.to.ld + row;
    const bool there[2] = {col < k.cols, col + 8 < k.cols};
    if (t.pairs && m0 + ROWS <= t.m) {
#pragma unroll
        for (int e = 0; e < 2; e++) {
            float2 x[16];
            if (!there[e])
                continue;
            float2 *p = (float2 *)(c + e * 8 * t.to.ld);
#pragma unroll
            for (int j = 0; j < 16; j++)
                x[j] = p[4 * j];
#pragma unroll
            for (int j = 0; j < 16; j++)
                p[4 * j] = make_float2(fmaf(scale, d[4 * j + 2 * e], x[j].x),
                                       fmaf(scale, d[4 * j + 2 * e + 1], x[j].y));
        }
        return;
    }
#pragma unroll
    for (int j = 0; j < 16; j++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            if (there[e / 2] && row + 8 * j + e % 2 < t.m) {
                float *p = c + e / 2 * 8 * t.to.ld + 8 * j + e % 2;
                *p = fmaf(scale, d[4 * j + e], *p);
            }
}

/* As halves. */
__device__ inline void halve_block(const job &t, const terms_task &k, int m0, int n, float scale,
                                   const float (&d)[64]) {
    const int i = threadIdx.x % PER_GROUP, col = n + i / 32 * 16 + i % 32 / 4, row = m0 + i % 4 * 2;
    const bool whole = t.pairs && m0 + ROWS <= t.m;
#pragma unroll
    for (int e = 0; e < 2; e++) {
        if (col + 8 * e >= k.cols)
            continue;
        const terms_place to = t.to.place[k.to + col + 8 * e];
        __half *h = t.to.h + to.to * t.to.ld + row, *rest = h + to.step * t.to.ld;
#pragma unroll
        for (int j = 0; j < 16; j++) {
            const halves_of x = two_halves(d[4 * j + 2 * e], scale),
                            y = two_halves(d[4 * j + 2 * e + 1], scale);
            const __half2 top = __halves2half2(x.top, y.top), left = __halves2half2(x.rest, y.rest);
            if (whole) {
                *(__half2 *)(h + 8 * j) = top;
                if (k.parts > 1)
                    *(__half2 *)(rest + 8 * j) = left;
                continue;
            }
            if (row + 8 * j < t.m) {
                h[8 * j] = __low2half(top);
                if (k.parts > 1)
                    rest[8 * j] = __low2half(left);
            }
            if (row + 8 * j + 1 < t.m) {
                h[8 * j + 1] = __high2half(top);
                if (k.parts > 1)
                    rest[8 * j + 1] = __high2half(left);
            }
        }
    }
}

/* A part of a result, of which this group has up to N blocks of columns. */
template <int N, bool HALVE>
__device__ inline void one_part(const job &t, const terms_task &k, int m0, int group, ring &r) {
    float acc[N][64] = {};
    float scale = 0;
    for (int s = 0; s < k.segments; s++) {
        const terms_segment g = t.segment[k.first + s];
        const float ratio = scale / g.scale; /* where it is 1 too: a branch would have the
                                                compiler wait for each product */
#pragma unroll
        for (int n = 0; n < N; n++)
#pragma unroll
            for (int j = 0; j < 64; j++)
                acc[n][j] *= ratio;
        scale = g.scale;
        if (g.down)
            multiply_segment<N, true>(acc, r, group, g.inner, s > 0);
        else
            multiply_segment<N, false>(acc, r, group, g.inner, s > 0);
    }
#pragma unroll
    for (int n = 0; n < N; n++)
        if (HALVE)
            halve_block(t, k, m0, (group + n * GROUPS) * BOX, scale, acc[n]);
        else
            add_block(t, k, m0, (group + n * GROUPS) * BOX, scale, acc[n]);
}

template <bool HALVE> __device__ void multiply_all(const job &t, ring r) {
    const int group = __shfl_sync(~0u, threadIdx.x / PER_GROUP, 0), along = parts_along(t);
    for (int i = blockIdx.x; i < t.parts; i += gridDim.x) {
        const terms_task k = t.task[i / along];
        const int m0 = i % along * ROWS;
        if (blocks_of(k) > GROUPS)
            one_part<2, HALVE>(t, k, m0, group, r);
        else
            one_part<1, HALVE>(t, k, m0, group, r);
    }
}

template <bool HALVE>
__global__ void __launch_bounds__(THREADS, 1)
    products_kernel(const __grid_constant__ operands x, const __grid_constant__ job t) {
    extern __shared__ unsigned char shared[];
    ring r = {(shared_address(shared) + 1023) / 1024 * 1024, 0, 0};
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) {
            barrier_init(r.full(s), 1);
            barrier_init(r.empty(s), GROUPS * PER_GROUP / 32);
        }
        barrier_init_fence();
    }
    __syncthreads();
    if (threadIdx.x >= GROUPS * PER_GROUP) {
        registers_fewer<40>();
        if (threadIdx.x == GROUPS * PER_GROUP)
            copy_all(x, t, r);
    } else {
        registers_more<232>();
        multiply_all<HALVE>(t, r);
    }
}

/* --- the host's side */

template <bool HALVE> status launch(const backend_ctx *ctx, const operands &x, const job &t) {
    auto *kernel = products_kernel<HALVE>;
    CUDA_TRY(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED));
    kernel<<<(unsigned)gpu_min(t.parts, ctx->sms), THREADS, SHARED, ctx->main.stream>>>(x, t);
    LAUNCHED();
    return MOAO_OK;
}

bool reachable(const backend_f16 *a, int64_t ld) {
    return (uintptr_t)a % 16 == 0 && ld % 8 == 0;
}

bool serves(const backend_ctx *ctx, const terms_products *p) {
    int major = 0, minor = 0;
    if (!reachable(p->a, p->lda) || !reachable(p->b, p->ldb))
        return false;
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, ctx->device);
    cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, ctx->device);
    return major == 9 && minor == 0 && tensor_map_encoder() != NULL;
}

} // namespace

extern "C" status terms_hopper(backend_ctx *ctx, const terms_products *p, const terms_target *to,
                               bool *served) {
    const int64_t parts = p->count * gpu_ceil(p->m, ROWS);
    operands x = {};
    job t = {};
    *served = parts <= INT_MAX / 2 && serves(ctx, p);
    if (!*served)
        return MOAO_OK;
    if (!tensor_map(&x.a, p->a, p->m, p->a_cols, p->lda, BOX) ||
        !tensor_map(&x.b, p->b, p->ldb, p->b_cols, p->ldb, BOX))
        return status_fail(MOAO_INTERNAL, "CUDA: a matrix cannot be described to the copy engine");
    t.m = (int)p->m, t.parts = (int)parts;
    t.task = p->task, t.segment = p->segment;
    t.to = *to;
    t.pairs = to->ld % 2 == 0 && (to->c ? (uintptr_t)to->c % 8 : (uintptr_t)to->h % 4) == 0;
    return to->c ? launch<false>(ctx, x, t) : launch<true>(ctx, x, t);
}
