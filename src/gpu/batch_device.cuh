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
__device__ inline void stage_commit() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int N> __device__ inline void stage_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

/* Lets the next kernel of the stream be put in place while this one ends; it touches no data before
 * this one is done (programmatic dependent launch). */
__device__ inline void wait_for_predecessor() {
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    asm volatile("griddepcontrol.wait;" ::: "memory");
}

template <class K, class... A>
inline cudaError_t launch(K kernel, dim3 grid, int threads, size_t shared, cudaStream_t s,
                          A... args) {
    cudaLaunchConfig_t c = {};
    cudaLaunchAttribute early[1];
    cudaError_t rc = cudaSuccess;
    if (shared > 48 * 1024)
        rc = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
    early[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early[0].val.programmaticStreamSerializationAllowed = 1;
    c.gridDim = grid;
    c.blockDim = dim3(threads);
    c.dynamicSmemBytes = shared;
    c.stream = s;
    c.attrs = early;
    c.numAttrs = 1;
    return rc != cudaSuccess ? rc : cudaLaunchKernelEx(&c, kernel, args...);
}

} // namespace batch
#endif
