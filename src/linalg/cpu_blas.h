/* BLAS calls of the four element types behind one name each: letters instead of cblas's
 * enumerations, int64_t sizes (long dimensions of the free side are cut into panels that fit a BLAS
 * int). */
#ifndef MOAO_CPU_BLAS_H
#define MOAO_CPU_BLAS_H

#include "backend/backend_check.h"
#include <cblas.h>

/* Largest dimension handed to one BLAS call. */
#define CPU_PANEL ((int64_t)1 << 30)

extern const double cpu_one[2], cpu_minus_one[2];
/* One and minus one of type t, as alpha or beta. */
const void *cpu_scalar(backend_type t, int which);

static inline void *cpu_at(backend_type t, const void *a, int64_t i, int64_t j, int64_t ld) {
    return (char *)a + (i + j * ld) * (int64_t)backend_size(t);
}

void cpu_gemm_panel(backend_type t, char ta, char tb, int64_t m, int64_t n, int64_t k,
                    const void *alpha, const void *a, int64_t lda, const void *b, int64_t ldb,
                    const void *beta, void *c, int64_t ldc);
void cpu_tri_leaf(bool solve, backend_type t, char side, char uplo, char trans, char diag,
                  int64_t m, int64_t n, const void *alpha, const void *a, int64_t lda, void *b,
                  int64_t ldb);

/* The operations of the table (see backend.h). */
status cpu_gemm(backend_ctx *ctx, backend_type t, char transa, char transb, int64_t m, int64_t n,
                int64_t k, const void *alpha, const void *a, int64_t lda, const void *b,
                int64_t ldb, const void *beta, void *c, int64_t ldc, void *work, size_t lwork);
status cpu_trsm(backend_ctx *ctx, backend_type t, char side, char uplo, char trans, char diag,
                int64_t m, int64_t n, const void *alpha, const void *a, int64_t lda, void *b,
                int64_t ldb, void *work, size_t lwork);
status cpu_trmm(backend_ctx *ctx, backend_type t, char side, char uplo, char trans, char diag,
                int64_t m, int64_t n, const void *alpha, const void *a, int64_t lda, void *b,
                int64_t ldb, void *work, size_t lwork);
status cpu_symm(backend_ctx *ctx, backend_type t, char side, char uplo, int64_t m, int64_t n,
                const void *alpha, const void *a, int64_t lda, const void *b, int64_t ldb,
                const void *beta, void *c, int64_t ldc, void *work, size_t lwork);
status cpu_syrk(backend_ctx *ctx, backend_type t, char uplo, char trans, int64_t n, int64_t k,
                const void *alpha, const void *a, int64_t lda, const void *beta, void *c,
                int64_t ldc, void *work, size_t lwork);
status cpu_syr2k(backend_ctx *ctx, backend_type t, char uplo, char trans, int64_t n, int64_t k,
                 const void *alpha, const void *a, int64_t lda, const void *b, int64_t ldb,
                 const void *beta, void *c, int64_t ldc, void *work, size_t lwork);
status cpu_potrf(backend_ctx *ctx, backend_type t, char uplo, int64_t n, void *a, int64_t lda,
                 int *info, void *work, size_t lwork);
status cpu_trtri(backend_ctx *ctx, backend_type t, char uplo, char diag, int64_t n, void *a,
                 int64_t lda, int *info, void *work, size_t lwork);
status cpu_lauum(backend_ctx *ctx, backend_type t, char uplo, int64_t n, void *a, int64_t lda,
                 void *work, size_t lwork);
status cpu_potri(backend_ctx *ctx, backend_type t, char uplo, int64_t n, void *a, int64_t lda,
                 int *info, void *work, size_t lwork);
status cpu_poti(backend_ctx *ctx, backend_type t, char uplo, int64_t n, void *a, int64_t lda,
                int *info, void *work, size_t lwork);
status cpu_potrs(backend_ctx *ctx, backend_type t, char uplo, int64_t n, int64_t nrhs,
                 const void *a, int64_t lda, void *b, int64_t ldb, void *work, size_t lwork);
status cpu_posv(backend_ctx *ctx, backend_type t, char uplo, int64_t n, int64_t nrhs, void *a,
                int64_t lda, void *b, int64_t ldb, int *info, void *work, size_t lwork);

#endif
