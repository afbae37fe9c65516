/* The operations as everybody calls them: arguments are checked here, once for every backend; then
 * the backend's own operation, which the context leads to, is called. Sizes and letters are checked
 * in the same way for all; a backend itself refuses only what it alone knows: work that is too
 * small, extents that its library cannot take. */
#ifndef MOAO_BACKEND_CHECKED_H
#define MOAO_BACKEND_CHECKED_H

#include "backend_check.h"
#include "backend_own.h"
#include "extents.h"
#include "moao/backend_integer.h"

/* The operations of the table `backend` itself that are checked: X(name of the member). */
#define BACKEND_CHECKED(X)                                                                         \
    X(alloc)                                                                                       \
    X(release)                                                                                     \
    X(copy)                                                                                        \
    X(mirror)                                                                                      \
    X(gather)                                                                                      \
    X(gemm)                                                                                        \
    X(trsm)                                                                                        \
    X(trmm)                                                                                        \
    X(symm)                                                                                        \
    X(syrk)                                                                                        \
    X(syr2k)                                                                                       \
    X(potrf)                                                                                       \
    X(potri)                                                                                       \
    X(poti)                                                                                        \
    X(trtri)                                                                                       \
    X(lauum)                                                                                       \
    X(potrs)                                                                                       \
    X(posv)                                                                                        \
    X(trsm_host)                                                                                   \
    X(trmm_host)                                                                                   \
    X(trsm_multi)                                                                                  \
    X(trmm_multi)

status checked_alloc(backend_ctx *ctx, size_t bytes, void **p);
void checked_release(backend_ctx *ctx, void *p);
status checked_copy(backend_ctx *ctx, void *dst, int64_t ldd, const void *src, int64_t lds,
                    int64_t rows, int64_t cols);
extern backend_mirror_op checked_mirror;
extern backend_gather_op checked_gather;
extern backend_gemm_op checked_gemm;
extern backend_tri_op checked_trsm, checked_trmm, checked_trsm_host, checked_trmm_host;
extern backend_symm_op checked_symm;
extern backend_syrk_op checked_syrk;
extern backend_syr2k_op checked_syr2k;
extern backend_factor_op checked_potrf, checked_potri, checked_poti;
extern backend_trtri_op checked_trtri;
extern backend_lauum_op checked_lauum;
extern backend_potrs_op checked_potrs;
extern backend_posv_op checked_posv;
extern backend_tri_multi_op checked_trsm_multi, checked_trmm_multi;

/* Families that are the same with every backend, for all their operations are checked. */
extern const backend_batch checked_batch;
extern const backend_fp16 checked_fp16;
extern const backend_sparse checked_sparse;
extern const backend_complex checked_complex; /* where a backend has the family */
extern const backend_integer checked_integer; /* where a backend has the family */

/* The checked operations of backend_lowrank; workspace, which no context leads to, is each
 * backend's. */
#define LOWRANK_CHECKED(X)                                                                         \
    X(geqrf)                                                                                       \
    X(orgqr)                                                                                       \
    X(ormqr)                                                                                       \
    X(qr)                                                                                          \
    X(gesvj)                                                                                       \
    X(rsvd)                                                                                        \
    X(ara)                                                                                         \
    X(recompress)

extern lowrank_geqrf_op checked_geqrf;
extern lowrank_orgqr_op checked_orgqr;
extern lowrank_ormqr_op checked_ormqr;
extern lowrank_qr_op checked_qr;
extern lowrank_gesvj_op checked_gesvj;
extern lowrank_rsvd_op checked_rsvd;
extern lowrank_ara_op checked_ara;
extern lowrank_recompress_op checked_recompress;

/* Own table of the backend that a context belongs to; NULL: the CPU's. */
static inline const backend *backend_own(const backend_ctx *ctx) {
    return ctx != NULL ? ((const backend_head *)ctx)->own : &backend_cpu_own;
}

static inline status checked_range(bool in_range, const char *name) {
    return in_range ? MOAO_OK : status_fail(MOAO_INPUT, "%s: an argument is out of range", name);
}

/* Whether an operation can go on: the backend has it (`there`), and its arguments are in range. */
static inline status checked_admit(const backend *own, bool there, bool in_range,
                                   const char *name) {
    if (!there)
        return backend_lacks(own, name);
    return checked_range(in_range, name);
}

#endif
