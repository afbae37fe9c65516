/* Products of FP16 numbers whose partial sums are rounded: where a tensor core adds up it cuts off,
 * so that long sums drift (backend_fp16.h). On Hopper a kernel of our own adds what tensor cores
 * have summed over `depth` terms to a second set of registers; elsewhere, and for operands that the
 * copy engine does not take, products by cuBLAS of that inner size add to C one after another.
 *
 * The kernel. A block makes 128 x 192 entries of C at a time: a warp of it has boxes of both
 * operands copied to shared memory, 64 of the inner size a stage, two groups of four warps multiply
 * what came, 64 x 192 entries each, and add up at different times, so that the tensor cores have
 * work meanwhile. Two blocks, one above the other, are a cluster: each copies half of what they
 * both need of B. Blocks stay for the next part of C, whose boxes come while this one is stored. */
#include "fp16_gpu.h"
#include "gpu/core/common.cuh"
#include "tensor_map.cuh"
#include "wgmma.cuh"
#include <cuda_fp16.h>
#include <limits.h>

namespace {

constexpr int BM = 128, BN = 192, BK = 64, STAGES = 5, GROUPS = 2, PER_GROUP = 128;
constexpr int CLUSTER = 2; /* blocks that share what they copy of B */
constexpr int THREADS = (GROUPS + 1) * PER_GROUP;
constexpr int A_BYTES = BM * BK * 2, B_BYTES = BN * BK * 2, STAGE = A_BYTES + B_BYTES;
constexpr int BOX = TENSOR_BOX;         /* halves in 128 bytes */
constexpr int BOX_BYTES = BOX * BK * 2; /* of a box of 64 x 64 */
constexpr int SHARED = STAGES * STAGE + 1024 + 16 * STAGES;
constexpr int MOST = FP16_MOST_PRODUCTS;
constexpr int BAND = 16; /* parts of C below each other that come before the next columns */

struct operands {
    CUtensorMap a[MOST], b[MOST];
};

struct job {
    int m, n, count, steps;
    int every[MOST];      /* steps after which sums are rounded */
    int rows, cols, band; /* parts of C; rows in clusters */
    float alpha, beta;
    float *c;
    int64_t ldc;
};

struct part {
    int row, col; /* in clusters, in blocks */
};

/* Bands of rows of C, in which both operands stay in the second-level cache. */
__device__ inline part part_at(const job &t, int i) {
    const int band = i / (t.band * t.cols), first = band * t.band;
    const int size = min(t.band, t.rows - first), rest = i - first * t.cols;
    return {first + rest % size, rest / size};
}

struct ring { /* of stages */
    uint32_t base;
    int at;
    unsigned parity;
    __device__ uint32_t a() const {
        return base + at * STAGE;
    }
    __device__ uint32_t b() const {
        return a() + A_BYTES;
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

/* One thread: boxes of all steps of all parts. */
template <bool ALONG>
__device__ void copy_all(const operands &x, const job &t, ring r, unsigned rank) {
    const uint16_t both = (1 << CLUSTER) - 1;
    for (int i = blockIdx.x / CLUSTER; i < t.rows * t.cols; i += gridDim.x / CLUSTER) {
        const part p = part_at(t, i);
        const int m0 = (p.row * CLUSTER + (int)rank) * BM, n0 = p.col * BN;
        for (int s = 0; s < t.count; s++)
            for (int step = 0; step < t.steps; step++) {
                const int k0 = step * BK;
                const uint32_t bar = r.full(r.at);
                barrier_wait(r.empty(r.at), r.parity ^ 1);
                barrier_expect(bar, STAGE);
                for (int j = 0; j < BM / BOX; j++)
                    copy_box(r.a() + j * BOX_BYTES, &x.a[s], bar, m0 + j * BOX, k0);
                /* this block's share of B: of the inner size, or of the columns */
                if (ALONG)
                    for (int j = 0; j < BN / BOX; j++)
                        copy_box_to(both, r.b() + j * BOX_BYTES + rank * (BOX_BYTES / CLUSTER),
                                    &x.b[s], bar, n0 + j * BOX, k0 + (int)rank * (BK / CLUSTER));
                else
                    copy_box_to(both, r.b() + rank * (B_BYTES / CLUSTER), &x.b[s], bar, k0,
                                n0 + (int)rank * (BN / CLUSTER));
                r.next();
            }
    }
}

/* The entries of C of this thread: F(sum, entry) for each that there is. */
template <class F>
__device__ inline void each_entry(const job &t, int m0, int n0, float (&sum)[96], F f) {
    const int i = threadIdx.x % PER_GROUP, row = m0 + i / 32 * 16 + i % 32 / 4,
              col = n0 + i % 4 * 2;
    float *c = t.c + row + col * t.ldc;
    if (m0 + 64 <= t.m && n0 + BN <= t.n) {
#pragma unroll
        for (int j = 0; j < 24; j++, c += 8 * t.ldc) {
            f(sum[4 * j], c[0]);
            f(sum[4 * j + 2], c[8]);
            f(sum[4 * j + 1], c[t.ldc]);
            f(sum[4 * j + 3], c[t.ldc + 8]);
        }
        return;
    }
#pragma unroll
    for (int j = 0; j < 24; j++, c += 8 * t.ldc)
#pragma unroll
        for (int k = 0; k < 4; k++)
            if (row + k / 2 * 8 < t.m && col + 8 * j + k % 2 < t.n)
                f(sum[4 * j + k], c[k / 2 * 8 + k % 2 * t.ldc]);
}

/* This warp needs no more of a stage. */
__device__ inline void give_back(const ring &r, int stage) {
    const unsigned lane = threadIdx.x % 32;
    if (stage >= 0 && lane < CLUSTER)
        barrier_arrive(r.empty(stage), lane);
}

/* A stage: 16 of the inner size are 2048 bytes of operands that are contiguous along C, and 32 of
 * each row of those that are not. */
template <bool ALONG>
__device__ inline void multiply(float (&acc)[96], uint32_t a, uint32_t b, bool add) {
    wgmma_begin();
#pragma unroll
    for (int k = 0; k < BK / 16; k++)
        wgmma_64x192<1, ALONG>(acc, operand(a + k * 2048, BOX_BYTES),
                               ALONG ? operand(b + k * 2048, BOX_BYTES) : operand(b + k * 32, 16),
                               k > 0 || add);
    wgmma_commit();
}

/* Some steps; their sum is rounded as it is added. */
template <bool ALONG>
__device__ inline void multiply_steps(int n, ring &r, int group, float alpha, float (&sum)[96]) {
    float acc[96];
    int before = -1;
    for (int i = 0; i < n; i++) {
        barrier_wait(r.full(r.at), r.parity);
        multiply<ALONG>(acc, r.a() + group * BOX_BYTES, r.b(), i > 0);
        wgmma_wait<1>();
        give_back(r, before);
        before = r.at;
        r.next();
    }
    wgmma_wait<0>();
    wgmma_written(acc);
    give_back(r, before);
#pragma unroll
    for (int j = 0; j < 96; j++)
        sum[j] = fmaf(alpha, acc[j], sum[j]);
}

template <bool ALONG> __device__ void multiply_all(const job &t, ring r, unsigned rank) {
    const int group = __shfl_sync(~0u, threadIdx.x / PER_GROUP, 0);
    float sum[96];
    for (int i = blockIdx.x / CLUSTER; i < t.rows * t.cols; i += gridDim.x / CLUSTER) {
        const part p = part_at(t, i);
        const int m0 = (p.row * CLUSTER + (int)rank) * BM + group * 64, n0 = p.col * BN;
#pragma unroll
        for (int j = 0; j < 96; j++)
            sum[j] = 0;
        if (t.beta != 0) /* in transit while the first steps are made */
            each_entry(t, m0, n0, sum, [](float &x, float &c) { x = c; });
        if (t.beta != 0 && t.beta != 1)
#pragma unroll
            for (int j = 0; j < 96; j++)
                sum[j] *= t.beta;
        for (int s = 0; s < t.count; s++) {
            /* the second group half a round later */
            int n = s > 0 || group == 0 ? t.every[s] : (t.every[s] + 1) / 2;
            for (int step = 0; step < t.steps; step += n, n = t.every[s]) {
                n = min(n, t.steps - step);
                multiply_steps<ALONG>(n, r, group, t.alpha, sum);
            }
        }
        each_entry(t, m0, n0, sum, [](float &x, float &c) { c = x; });
    }
}

/* ALONG: B is contiguous along the columns of C. */
template <bool ALONG>
__global__ void __launch_bounds__(THREADS, 1)
    rounded_kernel(const __grid_constant__ operands x, const __grid_constant__ job t) {
    extern __shared__ unsigned char shared[];
    ring r = {(shared_address(shared) + 1023) / 1024 * 1024, 0, 0};
    const unsigned rank = cluster_rank();
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) {
            barrier_init(r.full(s), 1);
            barrier_init(r.empty(s), CLUSTER * GROUPS * PER_GROUP / 32);
        }
        barrier_init_fence();
    }
    cluster_sync();
    if (threadIdx.x >= GROUPS * PER_GROUP) {
        registers_fewer<40>();
        if (threadIdx.x == GROUPS * PER_GROUP)
            copy_all<ALONG>(x, t, r, rank);
    } else {
        registers_more<232>();
        multiply_all<ALONG>(t, r, rank);
    }
    cluster_sync(); /* others arrive at barriers of this block until they are done */
}

/* --- the host's side */

bool reachable(const backend_f16 *a, int64_t ld) {
    return (uintptr_t)a % 16 == 0 && ld % 8 == 0;
}

template <bool ALONG> status launch(const backend_ctx *ctx, const operands &x, const job &t) {
    auto *kernel = rounded_kernel<ALONG>;
    cudaLaunchConfig_t config = {};
    cudaLaunchAttribute shape;
    const int64_t clusters = gpu_min((int64_t)t.rows * t.cols, ctx->sms / CLUSTER);
    CUDA_TRY(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED));
    shape.id = cudaLaunchAttributeClusterDimension;
    shape.val.clusterDim = {CLUSTER, 1, 1};
    config.gridDim = dim3((unsigned)(clusters * CLUSTER));
    config.blockDim = dim3(THREADS);
    config.dynamicSmemBytes = SHARED;
    config.stream = ctx->main.stream;
    config.attrs = &shape;
    config.numAttrs = 1;
    CUDA_TRY(cudaLaunchKernelEx(&config, kernel, x, t));
    return MOAO_OK;
}

/* Whether the kernel serves it; small products are too few blocks for a GPU in any case. */
bool served(const backend_ctx *ctx, char ta, int64_t m, int64_t n, int64_t k, int count,
            const fp16_product *p, int64_t lda, int64_t ldb) {
    gpu_capability is;
    if (ta != 'N' || m < BM || n < BOX || k < BK || m > INT_MAX / 2 || n > INT_MAX / 2 ||
        k > INT_MAX / 2)
        return false;
    for (int i = 0; i < count; i++)
        if (!reachable(p[i].a, lda) || !reachable(p[i].b, ldb))
            return false;
    return gpu_capability_of(ctx->device, &is) == MOAO_OK && is.major == 9 && is.minor == 0 &&
           tensor_map_encoder() != NULL;
}

status make(const backend_ctx *ctx, char tb, int64_t k, const fp16_product *p, int64_t lda,
            int64_t ldb, job t) {
    const int64_t parts = gpu_ceil(t.m, BM), bands = gpu_ceil(parts, BAND);
    operands x = {};
    bool fine = true;
    t.steps = (int)gpu_ceil(k, BK);
    t.rows = (int)gpu_ceil(parts, CLUSTER);
    t.cols = (int)gpu_ceil(t.n, BN);
    t.band = (int)gpu_ceil(t.rows, bands);
    for (int i = 0; i < t.count; i++) {
        t.every[i] = (int)(p[i].depth > BK ? gpu_min(p[i].depth / BK, t.steps) : 1);
        fine = fine && tensor_map(&x.a[i], p[i].a, t.m, k, lda, BK) &&
               (tb == 'T' ? tensor_map(&x.b[i], p[i].b, t.n, k, ldb, BK / CLUSTER)
                          : tensor_map(&x.b[i], p[i].b, k, t.n, ldb, BN / CLUSTER));
    }
    for (int i = t.count; i < MOST; i++)
        x.a[i] = x.a[0], x.b[i] = x.b[0];
    if (!fine)
        return status_fail(MOAO_INTERNAL, "CUDA: a matrix cannot be described to the copy engine");
    return tb == 'T' ? launch<true>(ctx, x, t) : launch<false>(ctx, x, t);
}

} // namespace

/* --- by cuBLAS */

/* Entries of C that the second-level cache keeps: of 50 MiB, and of what a device has where that is
 * less. */
static int64_t kept_entries(const backend_ctx *ctx) {
    const int64_t of_hopper = (int64_t)8 << 20;
    gpu_capability is;
    if (gpu_capability_of(ctx->device, &is) != MOAO_OK)
        return of_hopper;
    return gpu_min(of_hopper, (int64_t)is.l2 * 4 / 25);
}

static status pieces(backend_ctx *ctx, char ta, char tb, int64_t m, int64_t n, int64_t k,
                     float alpha, const fp16_product *p, int64_t lda, int64_t ldb, float beta,
                     float *c, int64_t ldc) {
    status st = MOAO_OK;
    for (int64_t j = 0, w; j < k && st == MOAO_OK; j += w) {
        w = gpu_min(k - j, p->depth);
        st = backend_fp16_gpu.gemm(ctx, ta, tb, m, n, w, alpha, p->a + (ta == 'N' ? j * lda : j),
                                   lda, p->b + (tb == 'N' ? j : j * ldb), ldb, j > 0 ? 1 : beta, c,
                                   ldc);
    }
    return st;
}

/* Some columns of C after the others, all pieces of which find them in the cache. */
static status by_pieces(backend_ctx *ctx, char ta, char tb, int64_t m, int64_t n, int64_t k,
                        float alpha, int count, const fp16_product *p, int64_t lda, int64_t ldb,
                        float beta, float *c, int64_t ldc) {
    const int64_t some = kept_entries(ctx) / m / 256 * 256, block = some > 256 ? some : 256;
    const bool once = count == 1 && k <= p->depth;
    status st = MOAO_OK;
    for (int64_t j = 0, w; j < n; j += w) {
        w = once || n - j < block ? n - j : block;
        for (int i = 0; i < count && st == MOAO_OK; i++) {
            const fp16_product part = {p[i].a, p[i].b + (tb == 'N' ? j * ldb : j), p[i].depth};
            st = pieces(ctx, ta, tb, m, w, k, alpha, &part, lda, ldb, i > 0 ? 1 : beta, c + j * ldc,
                        ldc);
        }
    }
    return st;
}

extern "C" status fp16_gemm_rounded(backend_ctx *ctx, char ta, char tb, int64_t m, int64_t n,
                                    int64_t k, float alpha, int count, const fp16_product *p,
                                    int64_t lda, int64_t ldb, float beta, float *c, int64_t ldc) {
    gpu_device_guard guard(ctx->device);
    if (m == 0 || n == 0)
        return MOAO_OK;
    if (k == 0 || alpha == 0)
        return backend_fp16_gpu.gemm(ctx, ta, tb, m, n, 0, 0, p->a, lda, p->b, ldb, beta, c, ldc);
    if (!served(ctx, ta, m, n, k, count, p, lda, ldb))
        return by_pieces(ctx, ta, tb, m, n, k, alpha, count, p, lda, ldb, beta, c, ldc);
    job t = {};
    t.m = (int)m, t.n = (int)n, t.count = count;
    t.alpha = alpha, t.beta = beta;
    t.c = c, t.ldc = ldc;
    return make(ctx, tb, k, p, lda, ldb, t);
}
