/* BLAS calls of the four element types behind one name each: letters instead of cblas's
 * enumerations, int64_t sizes (long dimensions of the free side are cut into panels that fit a BLAS
 * int). */
#ifndef MOAO_CPU_BLAS_H
#define MOAO_CPU_BLAS_H

#include "linalg/core/backend_check.h"
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

/* Whether BLAS takes these leading dimensions or sizes; else the failure of operation `name`. */
status cpu_fits(const char *name, int64_t a, int64_t b, int64_t c);

/* The operations of the table (see backend.h). */
backend_gemm_op cpu_gemm;
backend_tri_op cpu_trsm, cpu_trmm;
backend_symm_op cpu_symm;
backend_syrk_op cpu_syrk;
backend_syr2k_op cpu_syr2k;
backend_factor_op cpu_potrf, cpu_potri, cpu_poti;
backend_trtri_op cpu_trtri;
backend_lauum_op cpu_lauum;
backend_potrs_op cpu_potrs;
backend_posv_op cpu_posv;

#endif
