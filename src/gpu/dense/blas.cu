/* cuBLAS with int64_t sizes: one name per operation for the four element types. */
#include "gpu/core/common.cuh"

const void *gpu_scalar(backend_type t, int value) {
    static const double d[3][2] = {{-1, 0}, {0, 0}, {1, 0}};
    static const float s[3][2] = {{-1, 0}, {0, 0}, {1, 0}};
    return t == BACKEND_D || t == BACKEND_Z ? (const void *)d[value + 1] : s[value + 1];
}

static cublasOperation_t op(char trans) {
    return trans == 'N' ? CUBLAS_OP_N : trans == 'T' ? CUBLAS_OP_T : CUBLAS_OP_C;
}
static cublasSideMode_t side_of(char side) {
    return side == 'L' ? CUBLAS_SIDE_LEFT : CUBLAS_SIDE_RIGHT;
}
static cublasFillMode_t uplo_of(char uplo) {
    return uplo == 'L' ? CUBLAS_FILL_MODE_LOWER : CUBLAS_FILL_MODE_UPPER;
}
static cublasDiagType_t diag_of(char diag) {
    return diag == 'U' ? CUBLAS_DIAG_UNIT : CUBLAS_DIAG_NON_UNIT;
}

typedef const double *cd;
typedef const float *cs;
typedef const cuDoubleComplex *cz;
typedef const cuFloatComplex *cc;

status blas_gemm(gpu_queue *q, backend_type t, char ta, char tb, int64_t m, int64_t n, int64_t k,
                 const void *alpha, const void *a, int64_t lda, const void *b, int64_t ldb,
                 const void *beta, void *c, int64_t ldc) {
    if (m == 0 || n == 0)
        return MOAO_OK;
    switch (t) {
    case BACKEND_D:
        BLAS_TRY(cublasDgemm_64(q->blas, op(ta), op(tb), m, n, k, (cd)alpha, (cd)a, lda, (cd)b, ldb,
                                (cd)beta, (double *)c, ldc));
        break;
    case BACKEND_S:
        BLAS_TRY(cublasSgemm_64(q->blas, op(ta), op(tb), m, n, k, (cs)alpha, (cs)a, lda, (cs)b, ldb,
                                (cs)beta, (float *)c, ldc));
        break;
    case BACKEND_Z:
        BLAS_TRY(cublasZgemm_64(q->blas, op(ta), op(tb), m, n, k, (cz)alpha, (cz)a, lda, (cz)b, ldb,
                                (cz)beta, (cuDoubleComplex *)c, ldc));
        break;
    default:
        BLAS_TRY(cublasCgemm_64(q->blas, op(ta), op(tb), m, n, k, (cc)alpha, (cc)a, lda, (cc)b, ldb,
                                (cc)beta, (cuFloatComplex *)c, ldc));
    }
    return MOAO_OK;
}

status blas_gemm_strided(gpu_queue *q, backend_type t, char ta, char tb, int64_t m, int64_t n,
                         int64_t k, const void *alpha, const void *a, int64_t lda, int64_t sa,
                         const void *b, int64_t ldb, int64_t sb, const void *beta, void *c,
                         int64_t ldc, int64_t sc, int64_t count) {
    if (m == 0 || n == 0 || count == 0)
        return MOAO_OK;
    switch (t) {
    case BACKEND_D:
        BLAS_TRY(cublasDgemmStridedBatched_64(q->blas, op(ta), op(tb), m, n, k, (cd)alpha, (cd)a,
                                              lda, sa, (cd)b, ldb, sb, (cd)beta, (double *)c, ldc,
                                              sc, count));
        break;
    case BACKEND_S:
        BLAS_TRY(cublasSgemmStridedBatched_64(q->blas, op(ta), op(tb), m, n, k, (cs)alpha, (cs)a,
                                              lda, sa, (cs)b, ldb, sb, (cs)beta, (float *)c, ldc,
                                              sc, count));
        break;
    case BACKEND_Z:
        BLAS_TRY(cublasZgemmStridedBatched_64(q->blas, op(ta), op(tb), m, n, k, (cz)alpha, (cz)a,
                                              lda, sa, (cz)b, ldb, sb, (cz)beta,
                                              (cuDoubleComplex *)c, ldc, sc, count));
        break;
    default:
        BLAS_TRY(cublasCgemmStridedBatched_64(q->blas, op(ta), op(tb), m, n, k, (cc)alpha, (cc)a,
                                              lda, sa, (cc)b, ldb, sb, (cc)beta,
                                              (cuFloatComplex *)c, ldc, sc, count));
    }
    return MOAO_OK;
}

status blas_add(gpu_queue *q, backend_type t, int64_t m, int64_t n, const void *alpha,
                const void *a, int64_t lda, void *b, int64_t ldb) {
    const void *one = gpu_scalar(t, 1);
    switch (t) {
    case BACKEND_D:
        BLAS_TRY(cublasDgeam_64(q->blas, CUBLAS_OP_N, CUBLAS_OP_N, m, n, (cd)alpha, (cd)a, lda,
                                (cd)one, (cd)b, ldb, (double *)b, ldb));
        break;
    case BACKEND_S:
        BLAS_TRY(cublasSgeam_64(q->blas, CUBLAS_OP_N, CUBLAS_OP_N, m, n, (cs)alpha, (cs)a, lda,
                                (cs)one, (cs)b, ldb, (float *)b, ldb));
        break;
    case BACKEND_Z:
        BLAS_TRY(cublasZgeam_64(q->blas, CUBLAS_OP_N, CUBLAS_OP_N, m, n, (cz)alpha, (cz)a, lda,
                                (cz)one, (cz)b, ldb, (cuDoubleComplex *)b, ldb));
        break;
    default:
        BLAS_TRY(cublasCgeam_64(q->blas, CUBLAS_OP_N, CUBLAS_OP_N, m, n, (cc)alpha, (cc)a, lda,
                                (cc)one, (cc)b, ldb, (cuFloatComplex *)b, ldb));
    }
    return MOAO_OK;
}

status blas_trmm(gpu_queue *q, gpu_tri p, int64_t m, int64_t n, const void *alpha, const void *a,
                 int64_t lda, const void *b, int64_t ldb, void *c, int64_t ldc) {
    const cublasSideMode_t side = side_of(p.side);
    const cublasFillMode_t uplo = uplo_of(p.uplo);
    const cublasOperation_t trans = op(p.trans);
    const cublasDiagType_t diag = diag_of(p.diag);
    switch (p.t) {
    case BACKEND_D:
        BLAS_TRY(cublasDtrmm_64(q->blas, side, uplo, trans, diag, m, n, (cd)alpha, (cd)a, lda,
                                (cd)b, ldb, (double *)c, ldc));
        break;
    case BACKEND_S:
        BLAS_TRY(cublasStrmm_64(q->blas, side, uplo, trans, diag, m, n, (cs)alpha, (cs)a, lda,
                                (cs)b, ldb, (float *)c, ldc));
        break;
    case BACKEND_Z:
        BLAS_TRY(cublasZtrmm_64(q->blas, side, uplo, trans, diag, m, n, (cz)alpha, (cz)a, lda,
                                (cz)b, ldb, (cuDoubleComplex *)c, ldc));
        break;
    default:
        BLAS_TRY(cublasCtrmm_64(q->blas, side, uplo, trans, diag, m, n, (cc)alpha, (cc)a, lda,
                                (cc)b, ldb, (cuFloatComplex *)c, ldc));
    }
    return MOAO_OK;
}

status blas_symm(gpu_queue *q, char side, char uplo, int64_t m, int64_t n, const void *alpha,
                 const void *a, int64_t lda, const void *b, int64_t ldb, const void *beta, void *c,
                 int64_t ldc) {
    BLAS_TRY(cublasSsymm_64(q->blas, side_of(side), uplo_of(uplo), m, n, (cs)alpha, (cs)a, lda,
                            (cs)b, ldb, (cs)beta, (float *)c, ldc));
    return MOAO_OK;
}

status blas_syrk(gpu_queue *q, backend_type t, char uplo, char trans, int64_t n, int64_t k,
                 const void *alpha, const void *a, int64_t lda, const void *beta, void *c,
                 int64_t ldc) {
    if (t == BACKEND_D)
        BLAS_TRY(cublasDsyrk_64(q->blas, uplo_of(uplo), op(trans), n, k, (cd)alpha, (cd)a, lda,
                                (cd)beta, (double *)c, ldc));
    else
        BLAS_TRY(cublasSsyrk_64(q->blas, uplo_of(uplo), op(trans), n, k, (cs)alpha, (cs)a, lda,
                                (cs)beta, (float *)c, ldc));
    return MOAO_OK;
}

status blas_syr2k(gpu_queue *q, backend_type t, char uplo, char trans, int64_t n, int64_t k,
                  const void *alpha, const void *a, int64_t lda, const void *b, int64_t ldb,
                  const void *beta, void *c, int64_t ldc) {
    if (t == BACKEND_D)
        BLAS_TRY(cublasDsyr2k_64(q->blas, uplo_of(uplo), op(trans), n, k, (cd)alpha, (cd)a, lda,
                                 (cd)b, ldb, (cd)beta, (double *)c, ldc));
    else
        BLAS_TRY(cublasSsyr2k_64(q->blas, uplo_of(uplo), op(trans), n, k, (cs)alpha, (cs)a, lda,
                                 (cs)b, ldb, (cs)beta, (float *)c, ldc));
    return MOAO_OK;
}
