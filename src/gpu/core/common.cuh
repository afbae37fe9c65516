/* What the files of the GPU plugin share: the context, error handling, cuBLAS behind one name per
 * operation, and the internal forms of the operations (arguments checked, device selected). */
#ifndef MOAO_GPU_COMMON_CUH
#define MOAO_GPU_COMMON_CUH

#include "capability.h"
#include "error.cuh"
#include "linalg/core/backend_check.h"
#include "linalg/core/backend_own.h"
#include "moao/backend.h"
#include <cuComplex.h>
#include <cublas_v2.h>
#include <cuda_runtime.h>

/* A library handle bound to one stream, with the workspace that makes its results repeatable. */
struct gpu_queue {
    cudaStream_t stream;
    cublasHandle_t blas;
    void *work;
};

struct backend_ctx {
    backend_head head;
    int device, sms;
    bool own_stream;
    gpu_queue main,
        side; /* side: work that may run concurrently with the main stream, always joined again */
    cudaStream_t in, out; /* transfers of the host-data and multi-device variants */
    cudaEvent_t fork, join, mark[2], ahead[2];
    cudaEvent_t piece[32];                    /* arrivals of parts of a matrix */
    cudaEvent_t arrived, computed, stored[3]; /* blocks of host data, and buffers of it */
};
#define GPU_PIECES 32 /* parts in which a triangle travels, at most */

/* Memory that cuBLAS gets for its split-k kernels, in the main and in the side stream. With the
 * largest workspace of trsm and trmm it stays under 64 MiB. */
#define GPU_BLAS_WORK ((size_t)16 << 20)
#define GPU_BLAS_SIDE ((size_t)3 << 20)

#define BLAS_TRY(call)                                                                             \
    do {                                                                                           \
        cublasStatus_t e_ = (call);                                                                \
        if (e_ != CUBLAS_STATUS_SUCCESS)                                                           \
            return status_fail(MOAO_INTERNAL, "cuBLAS: %s (%s)", cublasGetStatusString(e_),        \
                               #call);                                                             \
    } while (0)
/* Makes the context's device the current one for the life of the object. */
struct gpu_device_guard {
    int before;
    explicit gpu_device_guard(int device) : before(device) {
        cudaGetDevice(&before);
        if (before != device)
            cudaSetDevice(device);
        else
            before = -1;
    }
    ~gpu_device_guard() {
        if (before >= 0)
            cudaSetDevice(before);
    }
};

static inline char *gpu_at(backend_type t, const void *a, int64_t i, int64_t j, int64_t ld) {
    return (char *)a + (i + j * ld) * (int64_t)backend_size(t);
}
static inline int64_t gpu_min(int64_t a, int64_t b) {
    return a < b ? a : b;
}
/* Up to a whole number of 256 bytes. */
static inline size_t gpu_align(size_t bytes) {
    return (bytes + 255) / 256 * 256;
}
static inline int64_t gpu_ceil(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

/* 1, 0 and -1 of type t in host memory. */
const void *gpu_scalar(backend_type t, int value);

/* Call F<element type>(args...) for a backend_type. */
#define GPU_DISPATCH(t, F, ...)                                                                    \
    ((t) == BACKEND_D   ? F<double>(__VA_ARGS__)                                                   \
     : (t) == BACKEND_S ? F<float>(__VA_ARGS__)                                                    \
     : (t) == BACKEND_Z ? F<cuDoubleComplex>(__VA_ARGS__)                                          \
                        : F<cuFloatComplex>(__VA_ARGS__))
#define GPU_DISPATCH_REAL(t, F, ...)                                                               \
    ((t) == BACKEND_D ? F<double>(__VA_ARGS__) : F<float>(__VA_ARGS__))

/* ---- arithmetic of the four element types */
template <class T> __host__ __device__ inline T gpu_make(double x) {
    return T(x);
}
template <> __host__ __device__ inline cuDoubleComplex gpu_make(double x) {
    return make_cuDoubleComplex(x, 0);
}
template <> __host__ __device__ inline cuFloatComplex gpu_make(double x) {
    return make_cuFloatComplex((float)x, 0);
}
__device__ inline double gpu_fma(double a, double b, double c) {
    return fma(a, b, c);
}
__device__ inline float gpu_fma(float a, float b, float c) {
    return fmaf(a, b, c);
}
__device__ inline cuDoubleComplex gpu_fma(cuDoubleComplex a, cuDoubleComplex b, cuDoubleComplex c) {
    return cuCfma(a, b, c);
}
__device__ inline cuFloatComplex gpu_fma(cuFloatComplex a, cuFloatComplex b, cuFloatComplex c) {
    return cuCfmaf(a, b, c);
}
__device__ inline double gpu_neg(double a) {
    return -a;
}
__device__ inline float gpu_neg(float a) {
    return -a;
}
__device__ inline cuDoubleComplex gpu_neg(cuDoubleComplex a) {
    return make_cuDoubleComplex(-a.x, -a.y);
}
__device__ inline cuFloatComplex gpu_neg(cuFloatComplex a) {
    return make_cuFloatComplex(-a.x, -a.y);
}
__device__ inline double gpu_inverse(double a) {
    return 1.0 / a;
}
__device__ inline float gpu_inverse(float a) {
    return 1.0f / a;
}
__device__ inline cuDoubleComplex gpu_inverse(cuDoubleComplex a) {
    return cuCdiv(make_cuDoubleComplex(1, 0), a);
}
__device__ inline cuFloatComplex gpu_inverse(cuFloatComplex a) {
    return cuCdivf(make_cuFloatComplex(1, 0), a);
}
__device__ inline double gpu_mul(double a, double b) {
    return a * b;
}
__device__ inline float gpu_mul(float a, float b) {
    return a * b;
}
__device__ inline cuDoubleComplex gpu_mul(cuDoubleComplex a, cuDoubleComplex b) {
    return cuCmul(a, b);
}
__device__ inline cuFloatComplex gpu_mul(cuFloatComplex a, cuFloatComplex b) {
    return cuCmulf(a, b);
}

/* ---- cuBLAS (blas.cu) */
struct gpu_tri {
    backend_type t;
    char side, uplo, trans, diag;
};
status blas_gemm(gpu_queue *q, backend_type t, char ta, char tb, int64_t m, int64_t n, int64_t k,
                 const void *alpha, const void *a, int64_t lda, const void *b, int64_t ldb,
                 const void *beta, void *c, int64_t ldc);
status blas_gemm_strided(gpu_queue *q, backend_type t, char ta, char tb, int64_t m, int64_t n,
                         int64_t k, const void *alpha, const void *a, int64_t lda, int64_t sa,
                         const void *b, int64_t ldb, int64_t sb, const void *beta, void *c,
                         int64_t ldc, int64_t sc, int64_t count);
/* B := alpha A + B, m x n. */
status blas_add(gpu_queue *q, backend_type t, int64_t m, int64_t n, const void *alpha,
                const void *a, int64_t lda, void *b, int64_t ldb);
/* Out of place: C := alpha op(A) B or alpha B op(A). */
status blas_trmm(gpu_queue *q, gpu_tri p, int64_t m, int64_t n, const void *alpha, const void *a,
                 int64_t lda, const void *b, int64_t ldb, void *c, int64_t ldc);
/* In single precision. */
status blas_symm(gpu_queue *q, char side, char uplo, int64_t m, int64_t n, const void *alpha,
                 const void *a, int64_t lda, const void *b, int64_t ldb, const void *beta, void *c,
                 int64_t ldc);
status blas_syrk(gpu_queue *q, backend_type t, char uplo, char trans, int64_t n, int64_t k,
                 const void *alpha, const void *a, int64_t lda, const void *beta, void *c,
                 int64_t ldc);
status blas_syr2k(gpu_queue *q, backend_type t, char uplo, char trans, int64_t n, int64_t k,
                  const void *alpha, const void *a, int64_t lda, const void *b, int64_t ldb,
                  const void *beta, void *c, int64_t ldc);

/* ---- kernels on blocks (tri_kernels.cu) */
/* Copy m x n. part: 'A' all; 'L' 'U': that triangle, with zeros in the other triangle of dst; 'l'
 * 'u': that triangle, leaving the other one of dst alone; 'S' 'T': dst full and symmetric from the
 * lower (S) or upper (T) triangle of src. unit: the diagonal is 1. */
status gpu_copy_block(cudaStream_t s, backend_type t, char part, bool unit, int64_t m, int64_t n,
                      const void *src, int64_t lds, void *dst, int64_t ldd);
/* B := 0, m x n. */
status gpu_zero_block(cudaStream_t s, backend_type t, int64_t m, int64_t n, void *b, int64_t ldb);
/* Inverses of the diagonal blocks of order nb (the last one: what is left) of a triangle of order
 * n, stored one after another in inv, nb x nb each with leading dimension nb, the other triangle
 * zero. nb: gpu_invert_base(t) times a power of two. tmp: at least gpu_invert_tmp bytes. */
int64_t gpu_invert_base(backend_type t);
size_t gpu_invert_tmp(backend_type t, int64_t n, int64_t nb);
status gpu_invert_blocks(gpu_queue *q, backend_type t, char uplo, char diag, int64_t n,
                         const void *a, int64_t lda, int64_t nb, void *inv, void *tmp);

/* The diagonal blocks of order nb of a triangle, one after another in `full` with leading dimension
 * nb, zero in the other triangle; only whole blocks and what is left of the last one are written.
 */
status gpu_dense_blocks(cudaStream_t s, backend_type t, char uplo, char diag, int64_t n, int64_t nb,
                        const void *a, int64_t lda, void *full);
/* Back from inv into the triangle a (the diagonal only when diag is N). */
status gpu_place_blocks(cudaStream_t s, backend_type t, char uplo, char diag, int64_t n, int64_t nb,
                        const void *inv, void *a, int64_t lda);

/* ---- operations */
struct gpu_arrival; /* a triangle in transit to the device: dense/arrival.cuh */
size_t gpu_trsm_work(backend_type t, int64_t n, int64_t other);
size_t gpu_trmm_work(backend_type t, int64_t n, int64_t other);
/* Enough for every trmm of at most these sizes. */
size_t gpu_trmm_work_most(backend_type t, int64_t n, int64_t other);
status gpu_trsm_run(backend_ctx *ctx, gpu_tri p, int64_t m, int64_t n, const void *alpha,
                    const void *a, int64_t lda, void *b, int64_t ldb, void *work, gpu_arrival *w);
status gpu_trmm_run(backend_ctx *ctx, gpu_tri p, int64_t m, int64_t n, const void *alpha,
                    const void *a, int64_t lda, void *b, int64_t ldb, void *work, gpu_arrival *w);
status gpu_syrk_run(gpu_queue *q, backend_type t, char uplo, char trans, int64_t n, int64_t k,
                    const void *alpha, const void *a, int64_t lda, const void *beta, void *c,
                    int64_t ldc);
size_t gpu_symm_work(backend_type t, int64_t n);
size_t gpu_potrf_work(backend_type t, int64_t n);
size_t gpu_trtri_work(backend_type t, int64_t n);
size_t gpu_lauum_work(backend_type t, int64_t n);

/* Sizes at which one method hands over to another: the table in bench/results/dense-h200.md says
 * what decided each. */
struct gpu_tuning {
    int64_t trsm_narrow; /* up to so many right-hand sides: blocks of trsm_nb_narrow are inverted */
    int64_t trsm_nb_narrow, trsm_nb_wide;
    int64_t trsm_group; /* MiB of one group of inverses; there are two */
    int64_t trmm_leaf;  /* order under which a triangle is multiplied out of place, in panels */
    int64_t symm_leaf, syrk_leaf;
    int64_t potrf_tiles; /* order up to which one kernel makes the factor; recursion above */
    int64_t trtri_nb, lauum_leaf;
};
constexpr gpu_tuning gpu_tune = {1024, 512, 256, 16, 2048, 2048, 4096, 4096, 512, 512};

/* ---- entries of the table */
status gpu_alloc_host(backend_ctx *ctx, size_t bytes, void **p);
void gpu_release_host(backend_ctx *ctx, void *p);
size_t gpu_host_workspace(backend_op op, backend_type t, char side, int64_t m, int64_t n);
size_t gpu_multi_workspace(int g, backend_type t, char side, int64_t size, int64_t part);
backend_mirror_op gpu_mirror;
backend_gather_op gpu_gather;
backend_tri_op gpu_trsm, gpu_trmm, gpu_trsm_host, gpu_trmm_host;
backend_tri_multi_op gpu_trsm_multi, gpu_trmm_multi;
backend_symm_op gpu_symm;
backend_syrk_op gpu_syrk;
backend_syr2k_op gpu_syr2k;
backend_factor_op gpu_potrf, gpu_potri, gpu_poti;
backend_trtri_op gpu_trtri;
backend_lauum_op gpu_lauum;
backend_potrs_op gpu_potrs;
backend_posv_op gpu_posv;

#endif
