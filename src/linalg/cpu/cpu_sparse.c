/* The CPU backend's products with sparse matrices. */
#include "cpu_own.h"

/* Column j of C. */
#define COLUMN(T)                                                                                  \
    do {                                                                                           \
        const T *x = (const T *)a + j * lda, *value = s->value;                                    \
        T *y = (T *)c + j * ldc;                                                                   \
        for (int64_t i = 0; i < s->rows; i++) {                                                    \
            T sum = 0;                                                                             \
            for (int64_t k = i; k < s->width * s->rows; k += s->rows)                              \
                if (s->column[k] >= 0)                                                             \
                    sum += value[k] * x[s->column[k]];                                             \
            y[i] = (T)alpha * sum + (beta != 0 ? (T)beta * y[i] : 0);                              \
        }                                                                                          \
    } while (0)

static status times(backend_ctx *ctx, backend_type t, const backend_rows *s, int64_t n,
                    double alpha, const void *a, int64_t lda, double beta, void *c, int64_t ldc) {
    (void)ctx;
#pragma omp parallel for
    for (int64_t j = 0; j < n; j++)
        if (t == BACKEND_D)
            COLUMN(double);
        else
            COLUMN(float);
    return MOAO_OK;
}

const backend_sparse sparse_cpu = {
    .size = sizeof(backend_sparse), .times = times, .filter = cpu_filter};
