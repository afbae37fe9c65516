/* Instructions of Hopper (sm_90a) for products of FP16 numbers: barriers in shared memory, copies
 * of boxes of a matrix by the copy engine, products by groups of four warps. Names follow PTX. */
#ifndef MOAO_GPU_WGMMA_CUH
#define MOAO_GPU_WGMMA_CUH

#include <cuda.h>
#include <stdint.h>

__device__ inline uint32_t shared_address(const void *p) {
    return (uint32_t)__cvta_generic_to_shared(p);
}

/* --- barriers (mbarrier) at shared addresses */

__device__ inline void barrier_init(uint32_t bar, unsigned arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(arrivals) : "memory");
}

/* Barriers that were made are seen by the copy engine and by the other blocks of the cluster. */
__device__ inline void barrier_init_fence() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/* Arrive; this phase also waits for so many bytes that the copy engine brings. */
__device__ inline void barrier_expect(uint32_t bar, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes)
                 : "memory");
}

/* Arrive at the barrier of that place in block `rank` of the cluster. Here and in barrier_wait the
 * order is that of a block: nothing but what the copy engine and tensor cores read and write is
 * passed on, and a fence for the cluster, after each step, halves the rate of products. */
__device__ inline void barrier_arrive(uint32_t bar, unsigned rank) {
    asm volatile("{\n.reg .b32 there;\n"
                 "mapa.shared::cluster.u32 there, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [there];\n}" ::"r"(bar),
                 "r"(rank)
                 : "memory");
}

/* Until the phase of that parity is over. */
__device__ inline void barrier_wait(uint32_t bar, unsigned parity) {
    asm volatile("{\n.reg .pred over;\n"
                 "again: mbarrier.try_wait.parity.shared::cta.b64 over, [%0], %1;\n"
                 "@!over bra again;\n}" ::"r"(bar),
                 "r"(parity)
                 : "memory");
}

__device__ inline unsigned cluster_rank() {
    unsigned r;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
    return r;
}

__device__ inline void cluster_sync() {
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::
                     : "memory");
}

/* --- the copy engine */

/* The box at (x, y), x along the contiguous dimension, to shared memory; its bytes count at `bar`.
 */
__device__ inline void copy_box(uint32_t to, const CUtensorMap *map, uint32_t bar, int x, int y) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4}], [%2];" ::"r"(to),
                 "l"(map), "r"(bar), "r"(x), "r"(y)
                 : "memory");
}

/* The same to that place of every block of the cluster in `mask`, and their barriers. */
__device__ inline void copy_box_to(uint16_t mask, uint32_t to, const CUtensorMap *map, uint32_t bar,
                                   int x, int y) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 ".multicast::cluster [%0], [%1, {%3, %4}], [%2], %5;" ::"r"(to),
                 "l"(map), "r"(bar), "r"(x), "r"(y), "h"(mask)
                 : "memory");
}

/* --- products */

/* Where an operand lies: rows of 128 bytes with the copy engine's swizzle of 128 bytes, 8 of them
 * 1024 bytes. `leading`: bytes between blocks of 64 along the contiguous dimension, where that is
 * not the inner one. */
__device__ inline uint64_t operand(uint32_t at, uint32_t leading) {
    return (uint64_t)1 << 62 | (uint64_t)(1024 >> 4) << 32 | (uint64_t)(leading >> 4) << 16 |
           (at & 0x3ffff) >> 4;
}

__device__ inline void wgmma_begin() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ inline void wgmma_commit() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/* Until all groups but the last N are done. */
template <int N> __device__ inline void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}

#define WGMMA_8(d, i)                                                                              \
    "+f"((d)[i]), "+f"((d)[(i) + 1]), "+f"((d)[(i) + 2]), "+f"((d)[(i) + 3]), "+f"((d)[(i) + 4]),  \
        "+f"((d)[(i) + 5]), "+f"((d)[(i) + 6]), "+f"((d)[(i) + 7])

/* d (64 x 192) := a (64 x 16) b (16 x 192) + (add ? d : 0) by the four warps of a group. Thread i
 * of it holds rows 16 (i / 32) + i % 32 / 4 + {0, 8} of columns 8 j + 2 (i % 4) + {0, 1}: d[4 j + 2
 * row + column]. TA, TB: 1 where an operand is contiguous along the rows or columns of d, 0 along
 * the inner dimension. */
template <int TA, int TB>
__device__ inline void wgmma_64x192(float (&d)[96], uint64_t a, uint64_t b, int add) {
    asm volatile("{\n.reg .pred also;\nsetp.ne.b32 also, %98, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n192k16.f32.f16.f16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
                 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
                 "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
                 "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95}, "
                 "%96, %97, also, 1, 1, %99, %100;\n}"
                 : WGMMA_8(d, 0), WGMMA_8(d, 8), WGMMA_8(d, 16), WGMMA_8(d, 24), WGMMA_8(d, 32),
                   WGMMA_8(d, 40), WGMMA_8(d, 48), WGMMA_8(d, 56), WGMMA_8(d, 64), WGMMA_8(d, 72),
                   WGMMA_8(d, 80), WGMMA_8(d, 88)
                 : "l"(a), "l"(b), "r"(add), "n"(TA), "n"(TB));
}

/* The same for d (64 x 128). */
template <int TA, int TB>
__device__ inline void wgmma_64x128(float (&d)[64], uint64_t a, uint64_t b, int add) {
    asm volatile("{\n.reg .pred also;\nsetp.ne.b32 also, %66, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
                 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
                 "%64, %65, also, 1, 1, %67, %68;\n}"
                 : WGMMA_8(d, 0), WGMMA_8(d, 8), WGMMA_8(d, 16), WGMMA_8(d, 24), WGMMA_8(d, 32),
                   WGMMA_8(d, 40), WGMMA_8(d, 48), WGMMA_8(d, 56)
                 : "l"(a), "l"(b), "r"(add), "n"(TA), "n"(TB));
}

/* Registers that products wrote are read after this only. */
template <int N> __device__ inline void wgmma_written(float (&d)[N]) {
#pragma unroll
    for (int i = 0; i < N; i++)
        asm volatile("" : "+f"(d[i])::"memory");
}

template <int N> __device__ inline void registers_more() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}
template <int N> __device__ inline void registers_fewer() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}

#endif
