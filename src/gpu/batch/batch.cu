/* Batched routines: which kernel serves which order.
 *
 * - up to 32: warp kernel (batch_warp.cuh), 8, 16 or 32 lanes a matrix, all steps on one staging.
 * - FP64, 9 to 64, factors and what is fused with them, and squares above 32: factor kernel
 * (batch_factor.cuh).
 * - solves with one or two right-hand sides, 33 to 256: vector kernel (batch_vector.cu).
 * - 33 to 128: block kernel (batch_block.cuh), one thread block a matrix; solves with more
 * right-hand sides up to 64 only, above by halves joined by a gemm (batch_gemm.cu).
 * - trmm, FP64: 33 to 64 one block for 64 columns (batch_gemm.cu), 65 to 256 its own kernel
 * (batch_trmm.cu); FP32 above 64 by halves.
 * - syrk above 32: one block a matrix up to 64, then tiles of 64 x 64 (batch_gemm.cu), as gemm of
 *   any size.
 * - the rest from 129 to 256: halves of 128, trsm, trmm and syrk between them.
 *
 * Where sizes differ, every kernel that can be met is launched once and takes the matrices of its
 * range. */
#include "batch_args.cuh"
#include "batch_gpu.h"

namespace batch {

namespace {

constexpr int WARP_MAX = 32, SOLVE_MAX = 64, BLOCK_MAX = 128, FEW = 2;

/* Enqueues on one stream; the first error is kept and ends the sequence. */
template <class T> struct Runner {
    cudaStream_t stream;
    int64_t count;
    const int *skip;
    status rc;
    static int part(const Dim &d) {
        int64_t n = d.n - d.off;
        return n < 0 ? 0 : n > d.cap ? d.cap : (int)n;
    }
    static Dim sub(Dim d, int off, int cap) {
        int left = d.cap - off;
        d.off += off;
        d.cap = left < 0 ? 0 : left < cap ? left : cap;
        return d;
    }
    static Dim fixed(int n) {
        Dim d = {nullptr, n, 0, n};
        return d;
    }
    static Mat<T> at(Mat<T> m, int64_t i, int64_t j) {
        m.i0 += i;
        m.j0 += j;
        return m;
    }
    static Mat<T> transposed(Mat<T> m) {
        bool rev = m.rev_i;
        int64_t i0 = m.i0;
        m.trans = !m.trans;
        m.rev_i = m.rev_j;
        m.rev_j = rev;
        m.i0 = m.j0;
        m.j0 = i0;
        return m;
    }
    static int half(int n) {
        return n > BLOCK_MAX ? BLOCK_MAX : SOLVE_MAX;
    }
    void keep(status e);
    void step(int op, Args<T> a);
    Args<T> args(Mat<T> A, Dim n, bool unit, int *info, int base);
    void gemm(Mat<T> C, Mat<T> A, Mat<T> B, Dim m, Dim n, Dim k, T alpha, T beta);
    void syrk(Mat<T> C, Mat<T> A, Dim n, Dim k, T alpha, T beta);
    void triangle_on_b(int op, Mat<T> A, Mat<T> B, Dim n, Dim m, T alpha, bool unit);
    void potrf(Mat<T> A, Dim n, int *info, int base);
    void trtri(Mat<T> A, Dim n, bool unit, int *info, int base);
    void lauum(Mat<T> A, Dim n);
    void potri(Mat<T> A, Dim n, int *info);
    void poti(Mat<T> A, Dim n, int *info);
    void potrs(Mat<T> A, Mat<T> B, Dim n, Dim m);
    void posv(Mat<T> A, Mat<T> B, Dim n, Dim m, int *info);
};

template <class T> void Runner<T>::keep(status e) {
    if (rc == MOAO_OK)
        rc = e;
}

/* Does the factor kernel serve orders up to `top`? FP64 only, right-hand sides only if they are
 * few. */
bool factor_serves(int op, const Args<double> &a, int top) {
    constexpr int SOLVES = FORWARD | BACKWARD;
    if (top > 64 || ((op & SOLVES) && a.m.n > 1))
        return false;
    switch (op) {
    case FACTOR:
    case FACTOR | INVERT | SQUARE:
    case FACTOR | SOLVES:
        return top > 8;
    case SOLVES:
        return top > 16;
    default:
        return (op == (INVERT | SQUARE) || op == SQUARE) && top == 64;
    }
}
bool factor_serves(int, const Args<float> &, int) {
    return false;
}
status launch_factor(int, const Args<float> &, int, cudaStream_t) {
    return gpu_no_kernel();
}
status launch_trmm(const Args<float> &, int, cudaStream_t) {
    return gpu_no_kernel(); /* the block kernel and halves are faster in FP32 */
}

/* The kernel for orders up to `top`, at most n_max. */
template <class T>
status launch_class(int op, const Args<T> &a, int top, int n_max, cudaStream_t s) {
    const bool vectors = (op & (FORWARD | BACKWARD)) && !(op & FACTOR) && a.m.n <= FEW;
    return factor_serves(op, a, top)          ? launch_factor(op, a, top, s)
           : top <= WARP_MAX                  ? launch_warp<T>(op, a, top, s)
           : op == MULTIPLY && sizeof(T) == 8 ? launch_trmm(a, n_max, s)
           : vectors                          ? launch_vector<T>(op, a, n_max, s)
                                              : launch_block<T>(op, a, n_max, s);
}

/* One fused step for orders up to the kernels' limit. Sizes that differ: one launch for each class
 * of orders, 8, 16, 32, 64, 128, 256. */
template <class T> void Runner<T>::step(int op, Args<T> a) {
    const int n = part(a.n);
    const bool varied = a.n.each != nullptr;
    a.count = count;
    a.skip = skip;
    a.lo = -1;
    for (int top = 8; rc == MOAO_OK; top += top < 64 ? top : 32)
        if (n <= top || (varied && (top & (top - 1)) == 0)) {
            keep(launch_class<T>(op, a, top, n < top ? n : top, stream));
            if (n <= top)
                return;
            a.lo = top;
        }
}

template <class T> Args<T> Runner<T>::args(Mat<T> A, Dim n, bool unit, int *info, int base) {
    Args<T> a = {};
    a.A = A;
    a.n = n;
    a.alpha = T(1);
    a.unit = unit;
    a.info = info;
    a.info_base = base;
    return a;
}

template <class T>
void Runner<T>::gemm(Mat<T> C, Mat<T> A, Mat<T> B, Dim m, Dim n, Dim k, T alpha, T beta) {
    GemmArgs<T> g = {A, B, C, m, n, k, alpha, beta, false, false, skip, count};
    if (part(m) && part(n) && rc == MOAO_OK)
        keep(launch_gemm<T>(g, stream));
}

/* C := beta C + alpha A A^T, lower */
template <class T> void Runner<T>::syrk(Mat<T> C, Mat<T> A, Dim n, Dim k, T alpha, T beta) {
    GemmArgs<T> g = {A,     transposed(A), C,    n,    n,    alpha == T(0) ? nothing_of(k) : k,
                     alpha, beta,          true, true, skip, count};
    if (part(n) == 0 || rc != MOAO_OK)
        return;
    if (part(n) <= WARP_MAX)
        keep(launch_syrk_warp<T>(g, part(n), stream));
    else if (part(n) <= SOLVE_MAX)
        keep(launch_syrk_block<T>(g, stream));
    else
        keep(launch_gemm<T>(g, stream));
}

/* op on B with the triangle A: the order is halved until one kernel serves it. */
template <class T>
void Runner<T>::triangle_on_b(int op, Mat<T> A, Mat<T> B, Dim n, Dim m, T alpha, bool unit) {
    Args<T> a = args(A, n, unit, nullptr, 0);
    const int order = part(n), h = half(order);
    if (order == 0 || part(m) == 0)
        return;
    a.B = B;
    a.m = m;
    a.alpha = alpha;
    const bool one_kernel = op == MULTIPLY ? sizeof(T) == 8 : m.n <= FEW;
    if (order <= (one_kernel ? BATCH_MAX : SOLVE_MAX)) {
        step(op, a);
        return;
    }
    Dim n1 = sub(n, 0, h), n2 = sub(n, h, order);
    Mat<T> A21 = at(A, h, 0), A22 = at(A, h, h), B2 = at(B, h, 0);
    if (op == FORWARD) {
        triangle_on_b(op, A, B, n1, m, alpha, unit);
        gemm(B2, A21, B, n2, m, n1, T(-1), alpha);
        triangle_on_b(op, A22, B2, n2, m, T(1), unit);
    } else if (op == BACKWARD) {
        triangle_on_b(op, A22, B2, n2, m, alpha, unit);
        gemm(B, transposed(A21), B2, n1, m, n2, T(-1), alpha);
        triangle_on_b(op, A, B, n1, m, T(1), unit);
    } else {
        triangle_on_b(op, A22, B2, n2, m, alpha, unit);
        gemm(B2, A21, B, n2, m, n1, alpha, T(1));
        triangle_on_b(op, A, B, n1, m, alpha, unit);
    }
}

template <class T> void Runner<T>::potrf(Mat<T> A, Dim n, int *info, int base) {
    const int order = part(n), h = BLOCK_MAX;
    if (order <= BLOCK_MAX) {
        step(FACTOR, args(A, n, false, info, base));
        return;
    }
    Dim n1 = sub(n, 0, h), n2 = sub(n, h, order);
    Mat<T> A21 = at(A, h, 0);
    potrf(A, n1, info, base);
    triangle_on_b(FORWARD, A, transposed(A21), n1, n2, T(1), false);
    syrk(at(A, h, h), A21, n2, n1, T(-1), T(1));
    potrf(at(A, h, h), n2, info, base + h);
}

/* L21 := -L22^-1 L21 L11^-1, then the diagonal blocks */
template <class T> void Runner<T>::trtri(Mat<T> A, Dim n, bool unit, int *info, int base) {
    const int order = part(n), h = BLOCK_MAX;
    if (order <= BLOCK_MAX) {
        step(INVERT, args(A, n, unit, info, base));
        return;
    }
    Dim n1 = sub(n, 0, h), n2 = sub(n, h, order);
    Mat<T> A21 = at(A, h, 0), A22 = at(A, h, h);
    triangle_on_b(FORWARD, A22, A21, n2, n1, T(-1), unit);
    triangle_on_b(BACKWARD, A, transposed(A21), n1, n2, T(1), unit);
    trtri(A, n1, unit, info, base);
    trtri(A22, n2, unit, info, base + h);
}

/* L11^T L11 + L21^T L21, L22^T L21, L22^T L22. L22^T from the left is a lower triangle when
 * rows are counted from the end, where its part begins at 0. */
template <class T> void Runner<T>::lauum(Mat<T> A, Dim n) {
    const int order = part(n), h = BLOCK_MAX;
    if (order <= BLOCK_MAX) {
        step(SQUARE, args(A, n, false, nullptr, 0));
        return;
    }
    Dim n1 = sub(n, 0, h), n2 = sub(n, h, order);
    Mat<T> A21 = at(A, h, 0), back = transposed(A), rows = A;
    lauum(A, n1);
    syrk(A, transposed(A21), n1, n2, T(1), T(1));
    back.rev_i = back.rev_j = rows.rev_i = true;
    triangle_on_b(MULTIPLY, back, rows, n2, fixed(h), T(1), false);
    lauum(at(A, h, h), n2);
}

template <class T> void Runner<T>::potri(Mat<T> A, Dim n, int *info) {
    if (part(n) <= BLOCK_MAX) {
        step(INVERT | SQUARE, args(A, n, false, info, 0));
        return;
    }
    trtri(A, n, false, info, 0);
    skip = info;
    lauum(A, n);
}

template <class T> void Runner<T>::poti(Mat<T> A, Dim n, int *info) {
    if (part(n) <= BLOCK_MAX) {
        step(FACTOR | INVERT | SQUARE, args(A, n, false, info, 0));
        return;
    }
    potrf(A, n, info, 0);
    skip = info;
    trtri(A, n, false, nullptr, 0);
    lauum(A, n);
}

template <class T> void Runner<T>::potrs(Mat<T> A, Mat<T> B, Dim n, Dim m) {
    Args<T> a = args(A, n, false, nullptr, 0);
    a.B = B;
    a.m = m;
    if (part(n) == 0 || part(m) == 0)
        return;
    if (part(n) <= (part(m) <= FEW ? BATCH_MAX : SOLVE_MAX)) {
        step(FORWARD | BACKWARD, a);
        return;
    }
    triangle_on_b(FORWARD, A, B, n, m, T(1), false);
    triangle_on_b(BACKWARD, A, B, n, m, T(1), false);
}

template <class T> void Runner<T>::posv(Mat<T> A, Mat<T> B, Dim n, Dim m, int *info) {
    Args<T> a = args(A, n, false, info, 0);
    a.B = B;
    a.m = m;
    if (part(n) <= (part(m) <= 1 && sizeof(T) == 8 ? SOLVE_MAX : WARP_MAX)) {
        step(FACTOR | FORWARD | BACKWARD, a);
        return;
    }
    potrf(A, n, info, 0);
    skip = info;
    potrs(A, B, n, m);
}

/* trsm and trmm: brought to a lower triangle on the left (see batch_device.cuh). */
template <class T>
status on_b(int op, cudaStream_t s, char side, char uplo, char trans, char diag, int64_t count,
            batch_dim m, batch_dim n, const void *alpha, batch_mat a, batch_mat b) {
    const bool left = side == 'L', t = (trans != 'N') != !left, rev = (uplo == 'L') == t;
    Runner<T> r = {s, count, nullptr, MOAO_OK};
    Mat<T> A = view<T>(a, t, rev, rev), B = view<T>(b, !left, rev, false);
    Dim order = whole(left ? m : n), width = whole(left ? n : m);
    T scale = *(const T *)alpha;
    if (scale == T(0))
        r.gemm(B, B, B, order, width, Runner<T>::fixed(0), T(0), T(0));
    else
        r.triangle_on_b(op, A, B, order, width, scale, diag == 'U');
    return r.rc;
}

status start_on_b(int op, backend_ctx *ctx, backend_type t, char side, char uplo, char trans,
                  char diag, int64_t count, batch_dim m, batch_dim n, const void *alpha,
                  batch_mat a, batch_mat b) {
    if (m.n == 0 || n.n == 0)
        return MOAO_OK;
    gpu_batch_call call(ctx);
    const cudaStream_t s = call.stream;
    return t == BACKEND_D ? on_b<double>(op, s, side, uplo, trans, diag, count, m, n, alpha, a, b)
                          : on_b<float>(op, s, side, uplo, trans, diag, count, m, n, alpha, a, b);
}

status batch_trsm(backend_ctx *ctx, backend_type t, char side, char uplo, char trans, char diag,
                  int64_t count, batch_dim m, batch_dim n, const void *alpha, batch_mat a,
                  batch_mat b) {
    return start_on_b(FORWARD, ctx, t, side, uplo, trans, diag, count, m, n, alpha, a, b);
}
status batch_trmm(backend_ctx *ctx, backend_type t, char side, char uplo, char trans, char diag,
                  int64_t count, batch_dim m, batch_dim n, const void *alpha, batch_mat a,
                  batch_mat b) {
    return start_on_b(MULTIPLY, ctx, t, side, uplo, trans, diag, count, m, n, alpha, a, b);
}

status batch_syrk(backend_ctx *ctx, backend_type t, char uplo, char trans, int64_t count,
                  batch_dim n, batch_dim k, const void *alpha, batch_mat a, const void *beta,
                  batch_mat c) {
    if (n.n == 0)
        return MOAO_OK;
    gpu_batch_call call(ctx);
    const cudaStream_t s = call.stream;
    auto run = [&](auto zero) {
        typedef decltype(zero) T;
        Runner<T> r = {s, count, nullptr, MOAO_OK};
        r.syrk(view<T>(c, uplo == 'U', false, false), view<T>(a, trans != 'N', false, false),
               whole(n), whole(k), *(const T *)alpha, *(const T *)beta);
        return r.rc;
    };
    return t == BACKEND_D ? run(0.0) : run(0.0f);
}

/* The operations on one triangle, with or without right-hand sides. */
enum { POTRF, TRTRI, LAUUM, POTRI, POTI, POTRS, POSV };

template <class T>
status on_a(int which, cudaStream_t s, char uplo, char diag, int64_t count, batch_dim n,
            batch_dim nrhs, batch_mat a, batch_mat b, int *info) {
    Runner<T> r = {s, count, nullptr, MOAO_OK};
    Mat<T> A = view<T>(a, uplo == 'U', false, false), B = view<T>(b, false, false, false);
    Dim d = whole(n);
    switch (which) {
    case POTRF:
        r.potrf(A, d, info, 0);
        break;
    case TRTRI:
        r.trtri(A, d, diag == 'U', info, 0);
        break;
    case LAUUM:
        r.lauum(A, d);
        break;
    case POTRI:
        r.potri(A, d, info);
        break;
    case POTI:
        r.poti(A, d, info);
        break;
    case POTRS:
        r.potrs(A, B, d, whole(nrhs));
        break;
    default:
        r.posv(A, B, d, whole(nrhs), info);
    }
    return r.rc;
}

status start_on_a(int which, backend_ctx *ctx, backend_type t, char uplo, char diag, int64_t count,
                  batch_dim n, batch_dim nrhs, batch_mat a, batch_mat b, int *info) {
    gpu_batch_call call(ctx);
    const cudaStream_t s = call.stream;
    return t == BACKEND_D ? on_a<double>(which, s, uplo, diag, count, n, nrhs, a, b, info)
                          : on_a<float>(which, s, uplo, diag, count, n, nrhs, a, b, info);
}

const batch_mat NONE = {};

status batch_potrf(backend_ctx *ctx, backend_type t, char uplo, int64_t count, batch_dim n,
                   batch_mat a, int *info) {
    return start_on_a(POTRF, ctx, t, uplo, 'N', count, n, batch_dim(), a, NONE, info);
}
status batch_trtri(backend_ctx *ctx, backend_type t, char uplo, char diag, int64_t count,
                   batch_dim n, batch_mat a, int *info) {
    return start_on_a(TRTRI, ctx, t, uplo, diag, count, n, batch_dim(), a, NONE, info);
}
status batch_lauum(backend_ctx *ctx, backend_type t, char uplo, int64_t count, batch_dim n,
                   batch_mat a) {
    return start_on_a(LAUUM, ctx, t, uplo, 'N', count, n, batch_dim(), a, NONE, nullptr);
}
status batch_potri(backend_ctx *ctx, backend_type t, char uplo, int64_t count, batch_dim n,
                   batch_mat a, int *info) {
    return start_on_a(POTRI, ctx, t, uplo, 'N', count, n, batch_dim(), a, NONE, info);
}
status batch_poti(backend_ctx *ctx, backend_type t, char uplo, int64_t count, batch_dim n,
                  batch_mat a, int *info) {
    return start_on_a(POTI, ctx, t, uplo, 'N', count, n, batch_dim(), a, NONE, info);
}
status batch_potrs(backend_ctx *ctx, backend_type t, char uplo, int64_t count, batch_dim n,
                   batch_dim nrhs, batch_mat a, batch_mat b) {
    return start_on_a(POTRS, ctx, t, uplo, 'N', count, n, nrhs, a, b, nullptr);
}
status batch_posv(backend_ctx *ctx, backend_type t, char uplo, int64_t count, batch_dim n,
                  batch_dim nrhs, batch_mat a, batch_mat b, int *info) {
    return start_on_a(POSV, ctx, t, uplo, 'N', count, n, nrhs, a, b, info);
}

} // namespace
} // namespace batch

extern "C" const backend_batch backend_batch_gpu = {
    .size = sizeof(backend_batch),
    .gemm = gpu_batch_gemm,
    .syrk = batch::batch_syrk,
    .trsm = batch::batch_trsm,
    .trmm = batch::batch_trmm,
    .potrf = batch::batch_potrf,
    .potri = batch::batch_potri,
    .poti = batch::batch_poti,
    .trtri = batch::batch_trtri,
    .lauum = batch::batch_lauum,
    .potrs = batch::batch_potrs,
    .posv = batch::batch_posv,
    .scatter = gpu_batch_scatter,
    .gather = gpu_batch_gather,
};
