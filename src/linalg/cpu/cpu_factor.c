/* Factors and inverses over LAPACK (OpenBLAS's own implementations). */
#include "cpu_blas.h"
#include "linalg/core/backend_check.h"

#define LAPACK(name, ...) extern void name##_(const char *uplo, __VA_ARGS__)
LAPACK(dpotrf, const int *n, double *a, const int *lda, int *info);
LAPACK(spotrf, const int *n, float *a, const int *lda, int *info);
LAPACK(dlauum, const int *n, double *a, const int *lda, int *info);
LAPACK(slauum, const int *n, float *a, const int *lda, int *info);
LAPACK(dtrtri, const char *diag, const int *n, double *a, const int *lda, int *info);
LAPACK(strtri, const char *diag, const int *n, float *a, const int *lda, int *info);

static double diagonal(backend_type t, const void *a, int64_t lda, int64_t i) {
    const void *p = cpu_at(t, a, i, i, lda);
    return t == BACKEND_D ? *(const double *)p : *(const float *)p;
}

status cpu_potrf(backend_ctx *ctx, backend_type t, char uplo, int64_t n, void *a, int64_t lda,
                 int *info, void *work, size_t lwork) {
    (void)ctx, (void)work, (void)lwork;
    const int order = (int)n, ld = (int)lda;
    int64_t upto;
    const status st = cpu_fits("potrf", lda, 0, 0);
    if (st != MOAO_OK)
        return st;
    *info = 0;
    if (n > 0 && t == BACKEND_D)
        dpotrf_(&uplo, &order, a, &ld, info);
    else if (n > 0)
        spotrf_(&uplo, &order, a, &ld, info);
    /* LAPACK takes NaN, infinite and subnormal pivots; their roots are the factor's diagonal */
    upto = *info > 0 ? *info - 1 : n;
    for (int64_t i = 0; i < upto; i++) {
        const double root = diagonal(t, a, lda, i);
        if (!(root >= BACKEND_ROOT_MIN(backend_size(t)) &&
              root <= BACKEND_ROOT_MAX(backend_size(t)))) {
            *info = (int)(i + 1);
            break;
        }
    }
    return MOAO_OK;
}

status cpu_trtri(backend_ctx *ctx, backend_type t, char uplo, char diag, int64_t n, void *a,
                 int64_t lda, int *info, void *work, size_t lwork) {
    (void)ctx, (void)work, (void)lwork;
    const int order = (int)n, ld = (int)lda;
    const status st = cpu_fits("trtri", lda, 0, 0);
    if (st != MOAO_OK)
        return st;
    *info = 0;
    if (n > 0 && t == BACKEND_D)
        dtrtri_(&uplo, &diag, &order, a, &ld, info);
    else if (n > 0)
        strtri_(&uplo, &diag, &order, a, &ld, info);
    return MOAO_OK;
}

status cpu_lauum(backend_ctx *ctx, backend_type t, char uplo, int64_t n, void *a, int64_t lda,
                 void *work, size_t lwork) {
    (void)ctx, (void)work, (void)lwork;
    const int order = (int)n, ld = (int)lda;
    int info = 0;
    const status st = cpu_fits("lauum", lda, 0, 0);
    if (st != MOAO_OK)
        return st;
    if (n > 0 && t == BACKEND_D)
        dlauum_(&uplo, &order, a, &ld, &info);
    else if (n > 0)
        slauum_(&uplo, &order, a, &ld, &info);
    return info == 0 ? MOAO_OK
                     : status_fail(MOAO_INTERNAL, "lauum: LAPACK refused argument %d", -info);
}

status cpu_potri(backend_ctx *ctx, backend_type t, char uplo, int64_t n, void *a, int64_t lda,
                 int *info, void *work, size_t lwork) {
    status st = cpu_trtri(ctx, t, uplo, 'N', n, a, lda, info, work, lwork);
    if (st != MOAO_OK || *info)
        return st;
    return cpu_lauum(ctx, t, uplo, n, a, lda, work, lwork);
}

status cpu_poti(backend_ctx *ctx, backend_type t, char uplo, int64_t n, void *a, int64_t lda,
                int *info, void *work, size_t lwork) {
    status st = cpu_potrf(ctx, t, uplo, n, a, lda, info, work, lwork);
    if (st != MOAO_OK || *info)
        return st;
    return cpu_potri(ctx, t, uplo, n, a, lda, info, work, lwork);
}

status cpu_potrs(backend_ctx *ctx, backend_type t, char uplo, int64_t n, int64_t nrhs,
                 const void *a, int64_t lda, void *b, int64_t ldb, void *work, size_t lwork) {
    const void *one = cpu_scalar(t, 1);
    const char first = uplo == 'L' ? 'N' : 'T', second = uplo == 'L' ? 'T' : 'N';
    status st = cpu_trsm(ctx, t, 'L', uplo, first, 'N', n, nrhs, one, a, lda, b, ldb, work, lwork);
    if (st == MOAO_OK)
        st = cpu_trsm(ctx, t, 'L', uplo, second, 'N', n, nrhs, one, a, lda, b, ldb, work, lwork);
    return st;
}

status cpu_posv(backend_ctx *ctx, backend_type t, char uplo, int64_t n, int64_t nrhs, void *a,
                int64_t lda, void *b, int64_t ldb, int *info, void *work, size_t lwork) {
    status st = cpu_potrf(ctx, t, uplo, n, a, lda, info, work, lwork);
    if (st != MOAO_OK || *info)
        return st;
    return cpu_potrs(ctx, t, uplo, n, nrhs, a, lda, b, ldb, work, lwork);
}
