/* Descriptors of the batched kernels, shared by the host's dispatch and the device code. */
#ifndef MOAO_GPU_BATCH_ARGS_CUH
#define MOAO_GPU_BATCH_ARGS_CUH
#include "gpu/core/error.cuh"
#include "moao/backend_batch.h"
#include <cstdint>
#include <cuda_runtime.h>

namespace batch {

/* A size: n for every matrix, or each[b] (device memory) with n the largest allowed. A view of the
 * recursion sees the part from `off`, at most `cap` long. */
struct Dim {
    const int64_t *each;
    int64_t n;
    int off, cap;
};

/* An operand over the batch: pointers (device memory) or base + b stride; the canonical element (0,
 * 0) of the view is element (i0, j0) of the canonical operand. */
template <class T> struct Mat {
    T *base;
    T *const *ptrs;
    int64_t stride, ld;
    const int64_t *lds;
    bool trans, rev_i, rev_j;
    int64_t i0, j0;
};

/* A batch's operand as given, or transposed, or counted from the end; a size as given, and the same
 * with nothing in it, in which what is out of range stays so. */
template <class T>
inline Mat<T> view(batch_mat m, bool trans = false, bool rev_i = false, bool rev_j = false) {
    Mat<T> v = {(T *)m.base, (T *const *)m.ptrs, m.stride, m.ld, m.lds, trans, rev_i, rev_j, 0, 0};
    return v;
}
inline Dim whole(batch_dim d) {
    return Dim{d.each, d.n, 0, (int)d.n};
}
inline Dim nothing_of(Dim d) {
    return Dim{d.each, d.n, d.off, 0};
}

/* What a kernel does with the triangle A (order n) and the block B (n x m), in this order. */
enum {
    FACTOR = 1,    /* A := L, A = L L^T */
    INVERT = 2,    /* A := A^-1 (triangle) */
    SQUARE = 4,    /* A := A^T A (lower triangle) */
    FORWARD = 8,   /* B := A^-1 B */
    BACKWARD = 16, /* B := A^-T B */
    MULTIPLY = 32  /* B := A B */
};

template <class T> struct Args {
    Mat<T> A, B;
    Dim n, m;
    T alpha;   /* B is scaled by it */
    bool unit; /* unit diagonal: neither read nor written */
    int lo;    /* only matrices whose part is larger than lo (a smaller kernel serves the others) */
    int *info; /* per matrix, or NULL */
    int info_base;   /* > 0: a later part of the recursion: added to info, and an earlier failure
                        stays */
    const int *skip; /* matrices with a non-zero entry are left alone, or NULL */
    int64_t count;
};

/* C := beta C + alpha A B, C m x n, A m x k, B k x n; lower: only i >= j of C; same: B is A^T. */
template <class T> struct GemmArgs {
    Mat<T> A, B, C;
    Dim m, n, k;
    T alpha, beta;
    bool lower, same;
    const int *skip;
    int64_t count;
};

/* Launchers; n_max (bound of the part's size) picks the kernel. Each enqueues on the stream. */
template <class T> status launch_warp(int op, const Args<T> &a, int n_max, cudaStream_t s);
template <class T> status launch_block(int op, const Args<T> &a, int n_max, cudaStream_t s);
template <class T> status launch_vector(int op, const Args<T> &a, int n_max, cudaStream_t s);
status launch_factor(int op, const Args<double> &a, int n_max, cudaStream_t s);
status launch_trmm(const Args<double> &a, int n_max, cudaStream_t s);
status launch_trmm_quarters(const Args<double> &a, cudaStream_t s);
template <class T> status launch_gemm(const GemmArgs<T> &a, cudaStream_t s);
template <class T> status launch_syrk_block(const GemmArgs<T> &a, cudaStream_t s);
template <class T> status launch_syrk_warp(const GemmArgs<T> &a, int n_max, cudaStream_t s);

} // namespace batch
#endif
