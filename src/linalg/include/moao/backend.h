/* Backends: one table of dense operations per kind of machine. The CPU's table is the
 * specification; the GPU's lives in a plugin that is loaded when it is asked for. The same program
 * runs with either.
 *
 * Conventions, for every operation here and in moao_backend_batch.h
 * - Matrices are column-major; sizes and leading dimensions are int64_t; a leading dimension is at
 * least max(1, rows). A size of 0 is allowed and leaves nothing to do.
 * - Options are the letters of BLAS and LAPACK: side L R, uplo L U, trans N T C, diag N U. Of a
 * triangular or symmetric matrix only the triangle named by uplo is read or written (not its
 * diagonal when diag is U); the other triangle and the rows beyond the matrix are never touched.
 * - `type` names the element type of all matrices of a call. alpha and beta point to one element in
 * host memory and are read before the call returns. alpha = 0 does not read the factors it
 * multiplies, beta = 0 does not read what it scales (NaN there does not spread).
 * - Matrices, info and work lie in the backend's memory (alloc below), or in any memory that the
 *   device can reach. An operation is put in the stream of its context and may return before it has
 * run: results and info are valid in later work of that stream, and on the host after sync.
 * - work: at least workspace(op, ...) bytes, 256-byte aligned, owned by the caller, not shared by
 * two calls that may run at once. With it no operation allocates, frees or waits, so that it can be
 * captured in a CUDA graph.
 * - The same call with the same data gives the same bits.
 * - Arguments are checked before a backend sees them, in the same way for all (checked.c).
 * - The returned status tells about the call (MOAO_INPUT: an argument is out of range, work is too
 * small, or the backend lacks the operation; MOAO_INTERNAL: the library or the device failed). What
 * the data are like is told by *info, an int in the backend's memory, always written: 0 fine; k >
 * 0: the leading minor of order k is not positive (potrf and all that contains it: a pivot and its
 * inverse must be positive normal numbers, so NaN, infinity and in double precision what is below
 * 2.2e-308 or above 4.48e307 count as not positive, in single precision below 1.2e-38 or above
 * 8.4e37), or the k-th diagonal element is 0 (trtri). What the matrices then hold is unspecified,
 * but nothing outside them is written.
 * - A context belongs to one thread at a time; different contexts are independent. The CPU's
 * operations take NULL for a context.
 * - What a backend lacks: an operation that it does not have is in its table all the same and
 * returns MOAO_INPUT with one message (backend_lacks). The families batch, fp16, lowrank and sparse
 * always exist; toeplitz, split, integer, matcov, psf and group are NULL where a backend has none;
 * the comment of each says what serves instead. */
#ifndef MOAO_BACKEND_H
#define MOAO_BACKEND_H

#include "status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum { MOAO_BACKEND_D, MOAO_BACKEND_S, MOAO_BACKEND_Z, MOAO_BACKEND_C } moao_backend_type;

/* Bytes of one element: 8, 4, 16, 8. */
static inline size_t moao_backend_size(moao_backend_type t) {
    return t == MOAO_BACKEND_Z ? 16 : t == MOAO_BACKEND_S ? 4 : 8;
}

/* Names of the operations, for the workspace query. */
typedef enum {
    MOAO_BACKEND_GEMM,
    MOAO_BACKEND_TRSM,
    MOAO_BACKEND_TRMM,
    MOAO_BACKEND_SYMM,
    MOAO_BACKEND_SYRK,
    MOAO_BACKEND_SYR2K,
    MOAO_BACKEND_POTRF,
    MOAO_BACKEND_TRTRI,
    MOAO_BACKEND_LAUUM,
    MOAO_BACKEND_POTRI,
    MOAO_BACKEND_POTRS,
    MOAO_BACKEND_POSV,
    MOAO_BACKEND_POTI,
} moao_backend_op;

typedef struct moao_backend_ctx
    moao_backend_ctx;          /* one device and one stream, with the library handles they need */
struct moao_backend_batch;     /* the batched operations: moao_backend_batch.h */
struct moao_backend_fp16;      /* products of FP16 numbers on tensor cores: moao_backend_fp16.h */
struct moao_backend_matcov;    /* covariances of slopes: moao_backend_matcov.h */
struct moao_backend_psf;       /* point-spread functions: moao_backend_psf.h */
struct moao_backend_lowrank;   /* batched QR, SVD, low rank: moao_backend_lowrank.h */
struct moao_backend_sparse;    /* products with sparse matrices: moao_backend_sparse.h */
struct moao_backend_toeplitz;  /* products by Fourier transforms: moao_backend_toeplitz.h */
struct moao_backend_split_ops; /* operands of products of FP16 numbers: moao_backend_split_ops.h */
struct moao_backend_hier;      /* what compressed formats stand on: moao_backend_hier.h */
struct moao_backend_integer;   /* products by integer tensor cores: moao_backend_integer.h */
struct moao_backend_mapped;    /* pages that come to other addresses: moao_backend_mapped.h */
struct moao_backend_group;     /* broadcasts among the devices of several processes:
                                  moao_backend_group.h */
#define MOAO_BACKEND_IDENTITY 40 /* bytes of a device's name */

/* The operations. A name here is the type of a function: a backend declares its own with it
 * (moao_backend_tri_op cpu_trsm, cpu_trmm;), and the table holds pointers to such functions. */

/* mirror: the triangle of an n x n matrix that uplo does not name := the transpose of the other
 * one. All types. */
typedef moao_status moao_backend_mirror_op(moao_backend_ctx *ctx, moao_backend_type t, char uplo,
                                           int64_t n, void *a, int64_t lda);

/* gather: B(i, j) := A(rows[i], cols[j]) + beta B(i, j), B m x n, beta 0 or 1 (0: B is not read).
 * rows, cols: indices in the backend's memory, not looked at; NULL: i, j themselves. A and B must
 * not overlap. Types D, S. */
typedef moao_status moao_backend_gather_op(moao_backend_ctx *ctx, moao_backend_type t, int64_t m,
                                           int64_t n, const int64_t *rows, const int64_t *cols,
                                           const void *a, int64_t lda, int beta, void *b,
                                           int64_t ldb);

/* gemm: C := alpha op(A) op(B) + beta C, C m x n, k the inner size. All types. */
typedef moao_status moao_backend_gemm_op(moao_backend_ctx *ctx, moao_backend_type t, char transa,
                                         char transb, int64_t m, int64_t n, int64_t k,
                                         const void *alpha, const void *a, int64_t lda,
                                         const void *b, int64_t ldb, const void *beta, void *c,
                                         int64_t ldc, void *work, size_t lwork);

/* trsm: B := alpha op(A)^-1 B (side L) or alpha B op(A)^-1 (side R), B m x n, A triangular; trmm:
 * B := alpha op(A) B or alpha B op(A). All types. */
typedef moao_status moao_backend_tri_op(moao_backend_ctx *ctx, moao_backend_type t, char side,
                                        char uplo, char trans, char diag, int64_t m, int64_t n,
                                        const void *alpha, const void *a, int64_t lda, void *b,
                                        int64_t ldb, void *work, size_t lwork);

/* symm: C := alpha A B + beta C (side L) or alpha B A + beta C (side R), A symmetric, B and C m x
 * n. Types D, S. */
typedef moao_status moao_backend_symm_op(moao_backend_ctx *ctx, moao_backend_type t, char side,
                                         char uplo, int64_t m, int64_t n, const void *alpha,
                                         const void *a, int64_t lda, const void *b, int64_t ldb,
                                         const void *beta, void *c, int64_t ldc, void *work,
                                         size_t lwork);

/* syrk: one triangle of C := alpha op(A) op(A)^T + beta C, C n x n, op(A) n x k. Types D, S. */
typedef moao_status moao_backend_syrk_op(moao_backend_ctx *ctx, moao_backend_type t, char uplo,
                                         char trans, int64_t n, int64_t k, const void *alpha,
                                         const void *a, int64_t lda, const void *beta, void *c,
                                         int64_t ldc, void *work, size_t lwork);

/* syr2k: one triangle of C := alpha (op(A) op(B)^T + op(B) op(A)^T) + beta C. Types D, S. */
typedef moao_status moao_backend_syr2k_op(moao_backend_ctx *ctx, moao_backend_type t, char uplo,
                                          char trans, int64_t n, int64_t k, const void *alpha,
                                          const void *a, int64_t lda, const void *b, int64_t ldb,
                                          const void *beta, void *c, int64_t ldc, void *work,
                                          size_t lwork);

/* On one triangle of an n x n matrix, in place, types D, S. potrf: the Cholesky factor, A = L L^T
 * or U^T U; potri: the inverse of A from its factor; poti: the inverse of A (potrf, potri). */
typedef moao_status moao_backend_factor_op(moao_backend_ctx *ctx, moao_backend_type t, char uplo,
                                           int64_t n, void *a, int64_t lda, int *info, void *work,
                                           size_t lwork);
/* trtri: the inverse of a triangle. */
typedef moao_status moao_backend_trtri_op(moao_backend_ctx *ctx, moao_backend_type t, char uplo,
                                          char diag, int64_t n, void *a, int64_t lda, int *info,
                                          void *work, size_t lwork);
/* lauum: L^T L or U U^T. */
typedef moao_status moao_backend_lauum_op(moao_backend_ctx *ctx, moao_backend_type t, char uplo,
                                          int64_t n, void *a, int64_t lda, void *work,
                                          size_t lwork);

/* B := A^-1 B, B n x nrhs, types D, S. potrs: from the factor of A; posv: from A itself, which its
 * factor replaces. */
typedef moao_status moao_backend_potrs_op(moao_backend_ctx *ctx, moao_backend_type t, char uplo,
                                          int64_t n, int64_t nrhs, const void *a, int64_t lda,
                                          void *b, int64_t ldb, void *work, size_t lwork);
typedef moao_status moao_backend_posv_op(moao_backend_ctx *ctx, moao_backend_type t, char uplo,
                                         int64_t n, int64_t nrhs, void *a, int64_t lda, void *b,
                                         int64_t ldb, int *info, void *work, size_t lwork);

/* trsm and trmm over several contexts (one per device, as a rule): A lies on ctx[0]'s device, part
 * g of B (its columns for side L, its rows for side R) on ctx[g]'s: b[g], ldb[g], part[g] columns
 * or rows; size: the other extent of B, the order of A. A travels to the other devices while they
 * compute. dev[g]: memory on ctx[g]'s device, multi_workspace(g, ...) bytes. ctx[0]'s stream waits
 * for all.
 */
typedef moao_status moao_backend_tri_multi_op(int count, moao_backend_ctx *const *ctx,
                                              moao_backend_type t, char side, char uplo, char trans,
                                              char diag, int64_t size, const int64_t *part,
                                              const void *alpha, const void *a, int64_t lda,
                                              void *const *b, const int64_t *ldb, void *const *dev,
                                              const size_t *ldev);

/* Device memory [bytes] that contexts, kernels and libraries take in addition to what alloc and the
 * families' bytes() tell: a plan leaves it free. */
#define MOAO_BACKEND_RESERVE ((size_t)3 << 29)

typedef struct moao_backend {
    const char *name; /* "cpu" or "gpu" */
    size_t size;      /* sizeof(backend) that the table was built with. A plugin whose tables, this
                         one or a family's, have another size is refused. */

    /* Number of usable devices, and one line about device d (name, memory, libraries), cut to len.
     */
    int (*devices)(void);
    moao_status (*describe)(int d, char *text, size_t len);
    /* Bytes of device d that nobody uses now, and that it has; SIZE_MAX where only the host's
     * memory limits. */
    moao_status (*memory)(int d, size_t *now, size_t *all);
    /* A name of device d that two processes of a machine share if and only if they mean the same
     * device, whatever number each of them knows it by. */
    moao_status (*identify)(int d, char name[MOAO_BACKEND_IDENTITY]);

    /* A context for device d. stream: the caller's cudaStream_t (which must outlive the context),
     * or NULL for a stream of the context's own; the CPU backend ignores it. close(NULL) is fine;
     * it waits for the stream. */
    moao_status (*open)(int d, void *stream, moao_backend_ctx **ctx);
    void (*close)(moao_backend_ctx *ctx);
    void *(*stream)(moao_backend_ctx *ctx);
    moao_status (*sync)(
        moao_backend_ctx *ctx); /* wait for the stream, and report errors of the work in it */
    /* What comes into ctx's stream from now on waits for what is in the other context's stream now.
     * Returns at once. */
    moao_status (*wait_for)(moao_backend_ctx *ctx, moao_backend_ctx *other);

    /* A second context on the device of `other`, with a low-priority stream of its own: where both
     * have work ready, that of `other` goes first. */
    moao_status (*open_low_priority)(moao_backend_ctx *other, moao_backend_ctx **ctx);

    /* Memory of the context's device (CPU: host memory, 256-byte aligned), and host memory that
     * transfers run fastest from. Both calls may wait. Free with NULL is fine. */
    moao_status (*alloc)(moao_backend_ctx *ctx, size_t bytes, void **p);
    void (*release)(moao_backend_ctx *ctx, void *p);
    moao_status (*alloc_host)(moao_backend_ctx *ctx, size_t bytes, void **p);
    void (*release_host)(moao_backend_ctx *ctx, void *p);

    /* Copy in stream order between any of host and device memory: `cols` columns of `rows` bytes
     * with leading dimensions in bytes. The host side must stay as it is until sync. */
    moao_status (*copy)(moao_backend_ctx *ctx, void *dst, int64_t ldd, const void *src, int64_t lds,
                        int64_t rows, int64_t cols);

    /* Bytes of work for an operation. m, n as in the operation; operations on an n x n matrix alone
     * take n and ignore m; potrs and posv take n and m = nrhs. That of trsm serves fewer rows and
     * columns, too. */
    size_t (*workspace)(moao_backend_op op, moao_backend_type t, int64_t m, int64_t n);

    moao_backend_mirror_op *mirror;
    moao_backend_gather_op *gather;
    moao_backend_gemm_op *gemm;
    moao_backend_tri_op *trsm, *trmm;
    moao_backend_symm_op *symm;
    moao_backend_syrk_op *syrk;
    moao_backend_syr2k_op *syr2k;
    moao_backend_factor_op *potrf, *potri, *poti;
    moao_backend_trtri_op *trtri;
    moao_backend_lauum_op *lauum;
    moao_backend_potrs_op *potrs;
    moao_backend_posv_op *posv;

    /* trsm and trmm on host data (A and B in host memory, best from alloc_host): transfers and
     * arithmetic overlap. work: device memory of at least host_workspace(...) bytes; the more, the
     * fewer and larger the panels of B. Returns before the work is done: B is ready after sync. */
    size_t (*host_workspace)(moao_backend_op op, moao_backend_type t, char side, int64_t m,
                             int64_t n);
    moao_backend_tri_op *trsm_host, *trmm_host;

    size_t (*multi_workspace)(int g, moao_backend_type t, char side, int64_t size, int64_t part);
    moao_backend_tri_multi_op *trsm_multi, *trmm_multi;

    const struct moao_backend_batch *batch;
    const struct moao_backend_complex *batch_complex; /* NULL: no batches of complex matrices */
    const struct moao_backend_fp16 *fp16;
    const struct moao_backend_lowrank *lowrank;
    const struct moao_backend_sparse *sparse;
    const struct moao_backend_toeplitz *toeplitz;
    const struct moao_backend_split_ops *split; /* NULL: products in FP32 serve instead */
    const struct moao_backend_integer *integer; /* NULL: gemm serves instead */
    const struct moao_backend_hier *hier;       /* NULL: no formats on this backend */
    const struct moao_backend_matcov *matcov;   /* NULL: matcov_backend (matcov/matcov.h) serves */
    const struct moao_backend_psf *psf;         /* NULL: psf_backend (psf/psf.h) serves */
    const struct moao_backend_group *group; /* NULL: device memory is the host's, MPI can send it */
    const struct moao_backend_mapped *mapped; /* NULL: memory stays where it is */
} moao_backend;

MOAO_PUBLIC extern const moao_backend moao_backend_cpu;

/* Find a backend: "cpu"; "gpu" (MOAO_INPUT with the reason when the plugin, its libraries, a driver
 * or a device is missing); "auto": the GPU's where it is usable, else the CPU's. The plugin is
 * libmoao_gpu.so: the file that the variable MOAO_GPU_PLUGIN names, else next to the program, else
 * in
 * ../lib/moao from it, and nowhere else. Local; the plugin is loaded once per process. */
MOAO_PUBLIC moao_status moao_backend_get(const char *name, const moao_backend **out);

#ifdef __cplusplus
}
#endif
#include "backend_batch.h"
#include "backend_fp16.h"
#include "backend_sparse.h"

#endif
