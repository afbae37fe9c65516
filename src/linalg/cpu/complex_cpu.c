/* Batched operations on complex matrices of the CPU backend: BLAS and LAPACK, one thread for each
 * matrix. */
#include "cpu_own.h"
#include "moao/cpu_threads.h"

#include <cblas.h>
#include <math.h>
#include <stdlib.h>

/* Work with fewer operations than this is one thread's. */
#define FEW 1e5
enum { BLOCK = 32 }; /* columns of LAPACK's work */

extern void zpotrf_(const char *, const int *, void *, const int *, int *, size_t);
extern void cpotrf_(const char *, const int *, void *, const int *, int *, size_t);
extern void zgeqrf_(const int *, const int *, void *, const int *, void *, void *, const int *,
                    int *);
extern void cgeqrf_(const int *, const int *, void *, const int *, void *, void *, const int *,
                    int *);

static CBLAS_TRANSPOSE trans_of(char c) {
    return c == 'N' ? CblasNoTrans : c == 'T' ? CblasTrans : CblasConjTrans;
}

static status gemm(backend_ctx *ctx, backend_type t, char transa, char transb, int64_t count,
                   int64_t m, int64_t n, int64_t k, const void *alpha, const void *const *a,
                   int64_t lda, const void *const *b, int64_t ldb, const void *beta, void *const *c,
                   int64_t ldc) {
    const int blas = blas_alone();
    const double work = (double)count * (double)m * (double)n * (double)k;
    (void)ctx;
#pragma omp parallel for schedule(dynamic) if (work > FEW)
    for (int64_t q = 0; q < count; q++)
        (t == BACKEND_Z ? cblas_zgemm : cblas_cgemm)(
            CblasColMajor, trans_of(transa), trans_of(transb), (int)m, (int)n, (int)k, alpha, a[q],
            (int)lda, b[q], (int)ldb, beta, c[q], (int)ldc);
    blas_together(blas);
    return MOAO_OK;
}

static status trsm(backend_ctx *ctx, backend_type t, char side, char uplo, char trans, char diag,
                   int64_t count, int64_t m, int64_t n, const void *alpha, const void *const *a,
                   int64_t lda, void *const *b, int64_t ldb) {
    const int blas = blas_alone();
    const double order = (double)(side == 'L' ? m : n),
                 work = (double)count * (double)m * (double)n * order;
    (void)ctx;
#pragma omp parallel for schedule(dynamic) if (work > FEW)
    for (int64_t q = 0; q < count; q++)
        (t == BACKEND_Z ? cblas_ztrsm
                        : cblas_ctrsm)(CblasColMajor, side == 'L' ? CblasLeft : CblasRight,
                                       uplo == 'L' ? CblasLower : CblasUpper, trans_of(trans),
                                       diag == 'N' ? CblasNonUnit : CblasUnit, (int)m, (int)n,
                                       alpha, a[q], (int)lda, b[q], (int)ldb);
    blas_together(blas);
    return MOAO_OK;
}

/* Real part of entry (k, k). */
static double pivot(backend_type t, const void *a, int64_t lda, int64_t k) {
    return t == BACKEND_Z ? ((const double *)a)[2 * k * (lda + 1)]
                          : (double)((const float *)a)[2 * k * (lda + 1)];
}

/* LAPACK's info; it does not see every pivot that is no number. */
static int factor(backend_type t, char uplo, int64_t n, void *a, int64_t lda) {
    const int order = (int)n, ld = (int)lda;
    int info = 0;
    (t == BACKEND_Z ? zpotrf_ : cpotrf_)(&uplo, &order, a, &ld, &info, 1);
    for (int64_t k = 0; k < (info > 0 ? info - 1 : n); k++)
        if (!isfinite(pivot(t, a, lda, k)))
            return (int)k + 1;
    return info;
}

static status potrf(backend_ctx *ctx, backend_type t, char uplo, int64_t count, int64_t n,
                    void *const *a, int64_t lda, int *info) {
    const int blas = blas_alone();
    const double work = (double)count * (double)n * (double)n * (double)n;
    (void)ctx;
#pragma omp parallel for schedule(dynamic) if (work > FEW)
    for (int64_t q = 0; q < count; q++)
        info[q] = n > 0 ? factor(t, uplo, n, a[q], lda) : 0;
    blas_together(blas);
    return MOAO_OK;
}

static status geqrf(backend_ctx *ctx, backend_type t, int64_t count, int64_t m, int64_t n,
                    void *const *a, int64_t lda, void *const *tau) {
    const int rows = (int)m, cols = (int)n, ld = (int)lda, lwork = BLOCK * cols,
              blas = blas_alone();
    const double work = (double)count * (double)m * (double)n * (double)batch_least(m, n);
    bool full = false;
    (void)ctx;
#pragma omp parallel if (work > FEW) reduction(|| : full)
    {
        void *room = malloc((size_t)lwork * backend_size(t));
        full = room == NULL;
#pragma omp for schedule(dynamic)
        for (int64_t q = 0; q < count; q++) {
            int info = 0;
            if (room)
                (t == BACKEND_Z ? zgeqrf_ : cgeqrf_)(&rows, &cols, a[q], &ld, tau[q], room, &lwork,
                                                     &info);
        }
        free(room);
    }
    blas_together(blas);
    return full ? status_fail(MOAO_MEMORY, "no memory for the work of complex matrices") : MOAO_OK;
}

const backend_complex complex_cpu = {.size = sizeof(backend_complex),
                                     .gemm = gemm,
                                     .trsm = trsm,
                                     .potrf = potrf,
                                     .geqrf = geqrf,
                                     .gesvj = complex_cpu_gesvj};
