/* Many products of FP16 numbers in one launch (backend_split_ops.h), on Hopper. A block makes the
 * 128 rows of a result that begin at one place, all its columns: one warp has boxes of both
 * operands copied to shared memory, 64 of the inner size a stage; two groups of four warps multiply
 * what came, 64 columns of the result at a time, and hold them in registers, rows of the result
 * along the columns of what a tensor core makes, so that a thread has two neighbours of a column.
 * Blocks stay for the next such part, whose boxes come while this one is stored; parts of one task
 * follow each other, so that what they share of B stays in the second-level cache. */
#include "gpu/core/common.cuh"
#include "split_products.cuh"
#include "tensor_map.cuh"
#include "wgmma.cuh"
#include <cuda_fp16.h>
#include <limits.h>

namespace {

constexpr int BOX = TENSOR_BOX, BOX_BYTES = BOX * BOX * 2;
constexpr int ROWS = 128, STEP = SPLIT_STEP; /* of a part; of the inner size */
constexpr int A_BOXES = ROWS / BOX, B_BOXES = SPLIT_WIDEST / BOX;
constexpr int STAGES = 4, STAGE = (A_BOXES + B_BOXES) * BOX_BYTES;
constexpr int GROUPS = 2, PER_GROUP = 128, THREADS = (GROUPS + 1) * PER_GROUP;
constexpr int BARRIERS = 16 * STAGES;
/* A warp's part of shared memory: 8 columns of 128 singles, or 16 of FP16 numbers; gaps against
 * bank conflicts. */
constexpr int C_STRIDE = ROWS * 4 + 32, H_STRIDE = ROWS * 2 + 16, OWN = 16 * H_STRIDE;
constexpr int SHARED = STAGES * STAGE + BARRIERS + GROUPS * PER_GROUP / 32 * OWN;
static_assert(8 * C_STRIDE == OWN, "both fit");
static_assert(STEP == BOX, "a stage is a box along the inner size");

struct operands {
    CUtensorMap a, b;
};

/* Results go to C, or in FP16 to H. */
struct job {
    int m, parts; /* of all tasks */
    const split_task *task;
    const split_segment *segment;
    const int32_t *exponent;
    split_target to;
    bool wide; /* columns of results begin at multiples of 16 bytes */
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
__device__ inline int blocks_of(const split_task &k) {
    return (k.cols + BOX - 1) / BOX;
}

/* One thread: boxes of all steps of all parts. */
__device__ void copy_all(const operands &x, const job &t, ring r) {
    const int along = parts_along(t);
    for (int i = blockIdx.x; i < t.parts; i += gridDim.x) {
        const split_task k = t.task[i / along];
        const int m0 = i % along * ROWS, n = blocks_of(k);
        for (int s = k.first; s < k.first + k.segments; s++) {
            const split_segment g = t.segment[s];
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

/* --- results. What a warp has of a block, 16 columns of 128 rows, passes through its part of
 * shared memory, so that each column is written in one piece. --- */

struct corner { /* of what a warp has of a block: first row, column of the result */
    int m, n;
    unsigned char *own; /* shared memory */
};

__device__ inline int lane_of() {
    return threadIdx.x % 32;
}

/* Eight columns of C, this lane's four rows of each. */
struct eight {
    float4 x[8];
};

__device__ inline float *place_in_c(const job &t, const split_task &k, const corner &at, int j) {
    return t.to.c + (int64_t)(k.to + at.n + j) * t.to.ld + at.m + 4 * lane_of();
}

/* The first ones of four numbers, or of eight halves. */
__device__ inline void some_of(int rows, const float *from, float4 *x) {
    x->x = rows > 0 ? from[0] : 0;
    x->y = rows > 1 ? from[1] : 0;
    x->z = rows > 2 ? from[2] : 0;
    x->w = rows > 3 ? from[3] : 0;
}
__device__ inline void some_of(int rows, const float4 &x, float *to) {
    const float all[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
    for (int i = 0; i < 4; i++)
        if (i < rows)
            to[i] = all[i];
}
__device__ inline void some_of(int rows, const uint4 &x, __half *to) {
    const unsigned all[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
    for (int i = 0; i < 8; i++)
        if (i < rows)
            to[i] = __ushort_as_half((unsigned short)(all[i / 2] >> 16 * (i % 2)));
}

__device__ inline void load_eight(const job &t, const split_task &k, const corner &at, eight *c) {
    const int rows = t.m - at.m - 4 * lane_of();
    const bool whole = rows >= 4;
#pragma unroll
    for (int j = 0; j < 8; j++) {
        const float *from = place_in_c(t, k, at, j);
        c->x[j] = make_float4(0, 0, 0, 0);
        if (!t.to.add || at.n + j >= k.cols)
            continue;
        if (t.wide && whole)
            c->x[j] = *(const float4 *)from;
        else
            some_of(rows, from, &c->x[j]);
    }
}

/* d: half `e` of the columns of a warp's part of a block. */
__device__ inline void add_eight(const job &t, const split_task &k, const corner &at, float scale,
                                 const float (&d)[64], int e, const eight &c) {
    const int lane = lane_of(), rows = t.m - at.m - 4 * lane;
    const bool whole = rows >= 4;
    __syncwarp();
#pragma unroll
    for (int j = 0; j < 16; j++)
        *(float2 *)(at.own + lane / 4 * C_STRIDE + (8 * j + lane % 4 * 2) * 4) =
            make_float2(d[4 * j + 2 * e], d[4 * j + 2 * e + 1]);
    __syncwarp();
#pragma unroll
    for (int j = 0; j < 8; j++) {
        const float4 x = *(const float4 *)(at.own + j * C_STRIDE + 16 * lane);
        const float4 y = make_float4(fmaf(scale, x.x, c.x[j].x), fmaf(scale, x.y, c.x[j].y),
                                     fmaf(scale, x.z, c.x[j].z), fmaf(scale, x.w, c.x[j].w));
        float *to = place_in_c(t, k, at, j);
        if (at.n + j >= k.cols)
            continue;
        if (t.wide && whole)
            *(float4 *)to = y;
        else
            some_of(rows, y, to);
    }
}

/* Halves (REST: what they leave) of 16 columns to their places, which lane j has of column j. */
template <bool REST>
__device__ inline void halve_columns(const job &t, const split_task &k, const corner &at,
                                     float scale, const float (&d)[64], split_place place) {
    const int lane = lane_of(), m = at.m + 8 * (lane % 16), rows = t.m - m;
    const bool whole = rows >= 8;
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 32; i++) {
        const int j = i / 2, e = i % 2;
        const fp16_of x = two_fp16(d[4 * j + 2 * e], scale),
                      y = two_fp16(d[4 * j + 2 * e + 1], scale);
        *(__half2 *)(at.own + (lane / 4 + 8 * e) * H_STRIDE + (8 * j + lane % 4 * 2) * 2) =
            REST ? __halves2half2(x.rest, y.rest) : __halves2half2(x.top, y.top);
    }
    __syncwarp();
#pragma unroll
    for (int j = 0; j < 8; j++) {
        const int col = 2 * j + lane / 16;
        const int64_t to = __shfl_sync(~0u, place.to, col) +
                           (REST ? (int64_t)__shfl_sync(~0u, place.step, col) : 0);
        const uint4 x = *(const uint4 *)(at.own + col * H_STRIDE + lane % 16 * 16);
        __half *h = t.to.h + to * t.to.ld + m;
        if (at.n + col >= k.cols)
            continue;
        if (t.wide && whole)
            *(uint4 *)h = x;
        else
            some_of(rows, x, h);
    }
}

/* The products of a part; the scale of what they are in. */
template <int N>
__device__ inline float multiply_part(const job &t, const split_task &k, int group, ring &r,
                                      float (&acc)[N][64]) {
    float scale = 0;
    for (int s = 0; s < k.segments; s++) {
        const split_segment g = t.segment[k.first + s];
        const float before = scale;
        scale = split_scale(g, t.exponent);
        const float ratio = before / scale; /* where it is 1 too: a branch would have the
                                                compiler wait for each product */
#pragma unroll
        for (int n = 0; n < N; n++)
#pragma unroll
            for (int j = 0; j < 64; j++)
                acc[n][j] *= ratio;
        if (g.down)
            multiply_segment<N, true>(acc, r, group, g.inner, s > 0);
        else
            multiply_segment<N, false>(acc, r, group, g.inner, s > 0);
    }
    return scale;
}

/* A part of a result, of which this group has up to N blocks of columns, a warp 16 of each. */
template <int N, bool HALVE>
__device__ inline void one_part(const job &t, const split_task &k, int m0, int group, ring &r,
                                unsigned char *own) {
    const int warp = threadIdx.x % PER_GROUP / 32;
    float acc[N][64] = {};
    corner at[N];
#pragma unroll
    for (int n = 0; n < N; n++)
        at[n] = {m0, (group + n * GROUPS) * BOX + 16 * warp, own};
    if (HALVE) {
        split_place place[N];
#pragma unroll
        for (int n = 0; n < N; n++)
            place[n] = t.to.place[k.to + min(at[n].n + lane_of() % 16, k.cols - 1)];
        const float scale = multiply_part(t, k, group, r, acc) * split_power(*t.to.of_h);
#pragma unroll
        for (int n = 0; n < N; n++) {
            halve_columns<false>(t, k, at[n], scale, acc[n], place[n]);
            if (k.parts > 1)
                halve_columns<true>(t, k, at[n], scale, acc[n], place[n]);
        }
    } else {
        eight c[2]; /* what is added to is in transit while products are made */
        load_eight(t, k, at[0], &c[0]);
        const float scale = multiply_part(t, k, group, r, acc);
#pragma unroll
        for (int i = 0; i < 2 * N; i++) {
            corner next = at[(i + 1) / 2 % N];
            next.n += (i + 1) % 2 * 8;
            if (i + 1 < 2 * N)
                load_eight(t, k, next, &c[(i + 1) % 2]);
            corner here = at[i / 2];
            here.n += i % 2 * 8;
            add_eight(t, k, here, scale, acc[i / 2], i % 2, c[i % 2]);
        }
    }
}

template <bool HALVE> __device__ void multiply_all(const job &t, ring r, unsigned char *own) {
    const int group = __shfl_sync(~0u, threadIdx.x / PER_GROUP, 0), along = parts_along(t);
    for (int i = blockIdx.x; i < t.parts; i += gridDim.x) {
        const split_task k = t.task[i / along];
        const int m0 = i % along * ROWS;
        if (blocks_of(k) > GROUPS)
            one_part<2, HALVE>(t, k, m0, group, r, own);
        else
            one_part<1, HALVE>(t, k, m0, group, r, own);
    }
}

template <bool HALVE>
__global__ void __launch_bounds__(THREADS, 1)
    products_kernel(const __grid_constant__ operands x, const __grid_constant__ job t) {
    /* the copy engine's swizzle asks for that */
    extern __shared__ __align__(1024) unsigned char shared[];
    ring r = {shared_address(shared), 0, 0};
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
        multiply_all<HALVE>(t, r, shared + STAGES * STAGE + BARRIERS + threadIdx.x / 32 * OWN);
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

bool reachable(const void *a, int64_t ld, size_t size) {
    return (uintptr_t)a % 16 == 0 && ld * size % 16 == 0;
}

bool serves(const backend_ctx *ctx, const split_products *p) {
    gpu_capability is;
    if (!reachable(p->a, p->lda, sizeof *p->a) || !reachable(p->b, p->ldb, sizeof *p->b))
        return false;
    return gpu_capability_of(ctx->device, &is) == MOAO_OK && is.major == 9 && is.minor == 0 &&
           tensor_map_encoder() != NULL;
}

} // namespace

extern "C" status split_hopper(backend_ctx *ctx, const split_products *p, const split_target *to,
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
    t.task = p->task, t.segment = p->segment, t.exponent = p->exponent;
    t.to = *to;
    t.wide =
        to->c ? reachable(to->c, to->ld, sizeof *to->c) : reachable(to->h, to->ld, sizeof *to->h);
    return to->c ? launch<false>(ctx, x, t) : launch<true>(ctx, x, t);
}
