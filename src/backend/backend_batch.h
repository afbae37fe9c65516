/* Batched operations of a backend: the same operation on many small matrices, orders up to
 * BATCH_MAX. The conventions of backend.h hold (letters, types, streams, unused triangles,
 * repeatability), with these additions.
 * - No workspace is needed, and nothing is allocated: every call can be captured in a CUDA graph.
 * - A size may be the same for all matrices or given for each; a size in the array that is negative
 * or above the stated bound makes that matrix be left alone, with info -1.
 * - info: one int for each matrix, in the backend's memory, always written: 0 fine; k > 0: the
 * leading minor of order k is not positive (a pivot must be a normal, finite, positive number, so
 * NaN counts as not positive), or diagonal element k of a triangle to be inverted is 0 or NaN; -1:
 * size out of range. The triangle of a matrix with info != 0 is unspecified, its right-hand sides
 * (posv) are left as they were.
 * - Solves multiply by the reciprocal of the diagonal: a diagonal element below the smallest normal
 *   number counts as 0. Backward error: a few times n eps, as without reciprocals.
 * - Matrices of a batch must not overlap where they are written. */
#ifndef MOAO_BACKEND_BATCH_H
#define MOAO_BACKEND_BATCH_H

#include "backend.h"
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Largest order of the triangular or symmetric matrix, and of the other extent of B (trsm, trmm,
 * potrs, posv) and k of syrk. */
#define BATCH_MAX 256
#define BATCH_WIDE_MAX 4000000

/* The matrices of a batch, column-major. Matrix b begins at base + b stride (elements of the type),
 * or, if ptrs is not NULL, at ptrs[b]; its leading dimension is ld, or lds[b] if lds is not NULL.
 * The arrays have `count` entries and lie in the backend's memory. */
typedef struct {
    void *base;
    int64_t stride;
    void *const *ptrs;
    int64_t ld;
    const int64_t *lds;
} batch_mat;

/* A size: n for all, or, if each is not NULL, each[b] (array in the backend's memory) of at most n.
 */
typedef struct {
    int64_t n;
    const int64_t *each;
} batch_dim;

/* Strided batch and uniform size, the common case. */
static inline batch_mat batch_strided(void *base, int64_t ld, int64_t stride) {
    batch_mat m = {base, stride, NULL, ld, NULL};
    return m;
}
static inline batch_mat batch_pointers(void *const *ptrs, int64_t ld) {
    batch_mat m = {NULL, 0, ptrs, ld, NULL};
    return m;
}
static inline batch_dim batch_size(int64_t n) {
    batch_dim d = {n, NULL};
    return d;
}

/* The operations, each as its dense counterpart in backend.h; types D and S. MOAO_INPUT: a letter
 * or the type is wrong, count is negative, a size is negative or above its bound, or a leading
 * dimension too small (what lies in arrays is not looked at). */
typedef struct backend_batch {
    status (*syrk)(backend_ctx *ctx, backend_type t, char uplo, char trans, int64_t count,
                   batch_dim n, batch_dim k, const void *alpha, batch_mat a, const void *beta,
                   batch_mat c);
    status (*trsm)(backend_ctx *ctx, backend_type t, char side, char uplo, char trans, char diag,
                   int64_t count, batch_dim m, batch_dim n, const void *alpha, batch_mat a,
                   batch_mat b);
    status (*trmm)(backend_ctx *ctx, backend_type t, char side, char uplo, char trans, char diag,
                   int64_t count, batch_dim m, batch_dim n, const void *alpha, batch_mat a,
                   batch_mat b);
    status (*potrf)(backend_ctx *ctx, backend_type t, char uplo, int64_t count, batch_dim n,
                    batch_mat a, int *info);
    status (*trtri)(backend_ctx *ctx, backend_type t, char uplo, char diag, int64_t count,
                    batch_dim n, batch_mat a, int *info);
    status (*lauum)(backend_ctx *ctx, backend_type t, char uplo, int64_t count, batch_dim n,
                    batch_mat a);
    status (*potri)(backend_ctx *ctx, backend_type t, char uplo, int64_t count, batch_dim n,
                    batch_mat a, int *info);
    status (*poti)(backend_ctx *ctx, backend_type t, char uplo, int64_t count, batch_dim n,
                   batch_mat a, int *info);
    status (*potrs)(backend_ctx *ctx, backend_type t, char uplo, int64_t count, batch_dim n,
                    batch_dim nrhs, batch_mat a, batch_mat b);
    status (*posv)(backend_ctx *ctx, backend_type t, char uplo, int64_t count, batch_dim n,
                   batch_dim nrhs, batch_mat a, batch_mat b, int *info);
} backend_batch;

extern const backend_batch backend_batch_cpu;

/* Argument checks that both backends make. */
static inline bool batch_letter(char c, const char *set) {
    for (; *set; set++)
        if (c == *set)
            return true;
    return false;
}
static inline bool batch_mat_ok(batch_mat m, int64_t rows) {
    return m.lds || m.ld >= (rows > 1 ? rows : 1);
}
static inline bool batch_dim_ok(batch_dim d, int64_t bound) {
    return d.n >= 0 && d.n <= bound;
}
static inline bool batch_common_ok(backend_type t, char uplo, int64_t count, batch_dim n) {
    return (t == BACKEND_D || t == BACKEND_S) && batch_letter(uplo, "LU") && count >= 0 &&
           batch_dim_ok(n, BATCH_MAX);
}
/* trsm and trmm */
static inline bool batch_tri_ok(backend_type t, char side, char uplo, char trans, char diag,
                                int64_t count, batch_dim m, batch_dim n, batch_mat a, batch_mat b) {
    batch_dim order = side == 'L' ? m : n, width = side == 'L' ? n : m;
    return batch_common_ok(t, uplo, count, order) && batch_letter(side, "LR") &&
           batch_letter(trans, "NTC") && batch_letter(diag, "NU") &&
           batch_dim_ok(width, BATCH_WIDE_MAX) && batch_mat_ok(a, order.n) && batch_mat_ok(b, m.n);
}
static inline bool batch_syrk_ok(backend_type t, char uplo, char trans, int64_t count, batch_dim n,
                                 batch_dim k, batch_mat a, batch_mat c) {
    return batch_common_ok(t, uplo, count, n) && batch_letter(trans, "NTC") &&
           batch_dim_ok(k, BATCH_WIDE_MAX) && batch_mat_ok(a, trans == 'N' ? n.n : k.n) &&
           batch_mat_ok(c, n.n);
}

#ifdef __cplusplus
}
#endif
/* at the end, for it needs what stands above */
#include "backend_lowrank.h"

#endif
