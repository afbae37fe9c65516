/* Device side of the batched routines: descriptors, staging and the register kernels of one 32 x 32
 * block.
 *
 * Every routine is brought to one canonical form when its operands are loaded: the triangle is
 * lower, it stands on the left, and nothing is transposed. Element (i, j) of a canonical operand
 * lies at p + i si + j sj; a transposed operand swaps the strides, and an upper triangle that must
 * be solved backwards is read from its last row and column (negative strides). One kernel therefore
 * serves every side/uplo/trans combination, and the unused triangle is never touched. */
#ifndef MOAO_GPU_BATCH_DEVICE_CUH
#define MOAO_GPU_BATCH_DEVICE_CUH
#include "batch_args.cuh"
#include "gpu/core/capability.h"
#include "gpu/core/device.cuh"
#include <cuda_runtime.h>

namespace batch {

/* An operand of one matrix of the batch, resolved. `along_i`: consecutive i are adjacent in memory.
 */
template <class T> struct Ref {
    T *p;
    int64_t si, sj;
    bool along_i;
    __device__ T *at(int64_t i, int64_t j) const {
        return p + i * si + j * sj;
    }
};

/* The size of matrix b within the view: clamped to [0, cap]; a size outside [0, dim.n] counts as 0.
 */
__device__ inline int dim_full(const Dim &d, int64_t b) {
    int64_t n = d.each ? d.each[b] : d.n;
    return n < 0 || n > d.n ? 0 : (int)n;
}
__device__ inline int dim_part(const Dim &d, int64_t b) {
    int n = dim_full(d, b) - d.off;
    return n < 0 ? 0 : n > d.cap ? d.cap : n;
}
__device__ inline bool dim_valid(const Dim &d, int64_t b) {
    int64_t n = d.each ? d.each[b] : d.n;
    return n >= 0 && n <= d.n;
}

/* rows, cols: full canonical size of the operand (a reversed view starts from its end). */
template <class T> __device__ Ref<T> resolve(const Mat<T> &m, int64_t b, int rows, int cols) {
    Ref<T> r;
    int64_t ld = m.lds ? m.lds[b] : m.ld;
    r.p = m.ptrs ? m.ptrs[b] : m.base + b * m.stride;
    r.si = m.trans ? ld : 1;
    r.sj = m.trans ? 1 : ld;
    r.along_i = !m.trans;
    if (m.rev_i) {
        r.p += (int64_t)(rows - 1) * r.si;
        r.si = -r.si;
    }
    if (m.rev_j) {
        r.p += (int64_t)(cols - 1) * r.sj;
        r.sj = -r.sj;
    }
    r.p += m.i0 * r.si + m.j0 * r.sj;
    return r;
}

template <class T> struct Vec; /* 16 bytes */
template <> struct Vec<double> { typedef double2 type; };
template <> struct Vec<float> { typedef float4 type; };

/* Copies 16 bytes between shared memory and registers. */
template <class T> __device__ inline void vec_load(T *x, const T *s) {
    *(typename Vec<T>::type *)x = *(const typename Vec<T>::type *)s;
}

/* Asynchronous copy of one element to shared memory. */
template <class T> __device__ inline void stage(T *s, const T *g) {
    asm volatile(
        "cp.async.ca.shared.global [%0], [%1], %2;" ::"r"((unsigned)__cvta_generic_to_shared(s)),
        "l"(g), "n"(sizeof(T))
        : "memory");
}
/* The same of 16 bytes, both addresses multiples of 16; true where columns of `a` allow it. */
template <class T> __device__ inline void stage_wide(T *s, const T *g) {
    asm volatile(
        "cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((unsigned)__cvta_generic_to_shared(s)),
        "l"(g)
        : "memory");
}
template <class T> __device__ inline bool is_wide(const Ref<T> &a) {
    return a.si == 1 && (uintptr_t)a.p % 16 == 0 && a.sj * (int64_t)sizeof(T) % 16 == 0;
}
template <class T> __device__ inline void stage(T *s, const T *g, bool used) {
    if (used)
        stage(s, g);
    else
        *s = T(0);
}

/* A line of N elements by each lane l of a group, across the direction in which the operand is
 * adjacent in memory (so that the group reads consecutive addresses): element u from p + u step to
 * q + u QS. `nl` lanes and `nu` elements are inside the operand; outside reads as 0. PART: BELOW (u
 * <= l) or ABOVE (u >= l) keep one triangle; then `unit` skips u == l, and the rest is 0 only if
 * ZERO. */
enum { WHOLE, BELOW, ABOVE };
template <int PART> __device__ inline bool in_part(int u, int l, bool unit) {
    return PART == WHOLE || (PART == BELOW ? u <= l : u >= l) && !(unit && u == l);
}
template <class T, int N, int QS, int PART, bool ZERO>
__device__ inline void line_stage(T *q, const T *p, int64_t step, int l, int nl, int nu,
                                  bool unit) {
    asm volatile("" : "+r"(l), "+l"(p), "+l"(step));
    if (__all_sync(0xffffffffu, l < nl && nu >= N && !unit)) {
#pragma unroll
        for (int u = 0; u < N; u++, p += step)
            if (in_part<PART>(u, l, false))
                stage(q + u * QS, p);
            else if (ZERO)
                q[u * QS] = T(0);
    } else {
#pragma unroll 4
        for (int u = 0; u < N; u++, p += step, q += QS)
            stage(q, p, l < nl && u < nu && in_part<PART>(u, l, unit));
    }
}
template <class T, int N, int QS, int PART>
__device__ inline void line_write(const T *q, T *p, int64_t step, int l, int nl, int nu,
                                  bool unit) {
    asm volatile("" : "+r"(l), "+l"(p), "+l"(step));
    if (__all_sync(0xffffffffu, l < nl && nu >= N && !unit)) {
#pragma unroll
        for (int u = 0; u < N; u++, p += step)
            if (in_part<PART>(u, l, false))
                *p = q[u * QS];
    } else {
#pragma unroll 4
        for (int u = 0; u < N; u++, p += step, q += QS)
            if (l < nl && u < nu && in_part<PART>(u, l, unit))
                *p = *q;
    }
}

/* A tile of N x N: columns at s with leading dimension LD, from element (0, 0) of `a` at `first`,
 * of which rows x cols are inside; lower: only the lower triangle. */
template <class T, int N, int LD, bool LOWER, bool ZERO>
__device__ inline void tile_stage(T *s, const Ref<T> &a, const T *first, int rows, int cols,
                                  bool unit, int l) {
    constexpr int V = 16 / sizeof(T), LANES = N / V; /* of a column */
    if constexpr (LD * sizeof(T) % 16 == 0) {
        const bool whole = rows >= N && cols >= N && !unit;
        if (__all_sync(0xffffffffu, whole && is_wide(a) && (uintptr_t)first % 16 == 0)) {
            const int r = l % LANES * V;
            int c = l / LANES;
            T *q = s + c * LD + r;
            const T *p = first + c * a.sj + r;
            const int64_t step = V * a.sj;
#pragma unroll
            for (int u = 0; u < N; u += V, c += V, q += V * LD, p += step)
                if (!LOWER || r >= c)
                    stage_wide(q, p);
                else if (ZERO)
#pragma unroll
                    for (int e = 0; e < V; e++)
                        if (r + e < c)
                            q[e] = T(0);
            if (LOWER)
#pragma unroll
                for (int e = 0; e < V - 1; e++) /* columns that begin inside 16 bytes */
                    if ((l + e) / V == l / V && l % V)
                        stage(s + l * LD + l + e, first + l * a.sj + l + e);
            return;
        }
    }
    if (a.along_i)
        line_stage<T, N, LD, LOWER ? BELOW : WHOLE, ZERO>(s + l, first + l * a.si, a.sj, l, rows,
                                                          cols, unit);
    else
        line_stage<T, N, 1, LOWER ? ABOVE : WHOLE, ZERO>(s + l * LD, first + l * a.sj, a.si, l,
                                                         cols, rows, unit);
}
template <class T, int N, int LD, bool LOWER>
__device__ inline void tile_write(const T *s, const Ref<T> &a, T *first, int rows, int cols,
                                  bool unit, int l) {
    if (a.along_i)
        line_write<T, N, LD, LOWER ? BELOW : WHOLE>(s + l, first + l * a.si, a.sj, l, rows, cols,
                                                    unit);
    else
        line_write<T, N, 1, LOWER ? ABOVE : WHOLE>(s + l * LD, first + l * a.sj, a.si, l, cols,
                                                   rows, unit);
}

/* Lets the next kernel of the stream be put in place while this one ends; it touches no data before
 * this one is done (programmatic dependent launch). Before sm_90 a kernel begins when its
 * predecessor has ended (gpu_capability.early). */
__device__ inline void wait_for_predecessor() {
#if GPU_TARGET >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* Before that: the lower triangle of matrix b, order up to N, in transit to the L2 cache, which
 * does no harm whatever the predecessor still writes. Only where the addresses need nothing from
 * memory. `l`: of `lanes` that share the matrix. */
template <class T> __device__ inline void prefetch(const T *p) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(p));
}
template <class T> __device__ inline bool addresses_known(const Mat<T> &m, const Dim &n) {
    return !m.ptrs && !m.lds && !n.each;
}
template <class T, int N>
__device__ inline void prefetch_triangle(const Args<T> &a, int64_t b, int l, int lanes) {
    constexpr int LINE = 128 / sizeof(T);
    if (b >= a.count || !addresses_known(a.A, a.n))
        return;
    const int n = dim_part(a.n, b), full = dim_full(a.n, b);
    const Ref<T> A = resolve(a.A, b, full, full);
    for (int j = l; j < n; j += lanes)
#pragma unroll
        for (int u = 0; u < N; u += LINE) {
            const int i = j + u < n ? j + u : n - 1;
            prefetch(A.along_i ? A.at(i, j) : A.at(n - 1 - j, n - 1 - i));
        }
}
/* The same for the first N rows and columns of an operand B of n x m. */
template <class T, int N>
__device__ inline void prefetch_block(const Ref<T> &B, int n, int m, int l, int lanes) {
    constexpr int LINE = 128 / sizeof(T);
    for (int j = l; j < N && j < (B.along_i ? m : n); j += lanes)
#pragma unroll
        for (int u = 0; u < N; u += LINE)
            if (u < (B.along_i ? n : m))
                prefetch(B.along_i ? B.at(u, j) : B.at(j, u));
}
template <class T, int N>
__device__ inline void prefetch_operand(const Mat<T> &M, const Dim &rows, const Dim &cols,
                                        int64_t b, int64_t count, int l, int lanes) {
    if (b < count && addresses_known(M, rows) && !cols.each)
        prefetch_block<T, N>(resolve(M, b, dim_full(rows, b), dim_full(cols, b)), dim_part(rows, b),
                             dim_part(cols, b), l, lanes);
}
/* Blocks that the device holds at once. */
inline int resident(int blocks_of_sm) {
    return gpu_here().sms * blocks_of_sm;
}

template <class K, class... A>
inline status launch(K kernel, dim3 grid, int threads, size_t shared, cudaStream_t s, A... args) {
    cudaLaunchConfig_t c = {};
    cudaLaunchAttribute early[1];
    const bool may = gpu_here().early;
    GPU_TRY(gpu_allow_shared((const void *)kernel, shared));
    early[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early[0].val.programmaticStreamSerializationAllowed = 1;
    c.gridDim = grid;
    c.blockDim = dim3(threads);
    c.dynamicSmemBytes = shared;
    c.stream = s;
    c.attrs = may ? early : NULL;
    c.numAttrs = may ? 1 : 0;
    CUDA_TRY(cudaLaunchKernelEx(&c, kernel, args...));
    return MOAO_OK;
}

} // namespace batch
#endif
