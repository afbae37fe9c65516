/* The CPU backend: the specification that every other backend is compared with. One device, no
 * stream: each operation is done when it returns; device memory is host memory; work may be NULL.
 */
#include "cpu_blas.h"
#include "cpu_own.h"
#include "linalg/core/checked.h"
#include "linalg/core/kept.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct backend_ctx {
    backend_head head;
    int device;
};

static int cpu_devices(void) {
    return 1;
}

static status cpu_describe(int device, char *text, size_t len) {
    (void)device;
    snprintf(text, len, "CPU, %s kernels, %d thread%s, %s", openblas_get_corename(),
             openblas_get_num_threads(), openblas_get_num_threads() == 1 ? "" : "s",
             openblas_get_config());
    return MOAO_OK;
}

static status cpu_memory(int device, size_t *now, size_t *all) {
    (void)device;
    *now = *all = SIZE_MAX;
    return MOAO_OK;
}

static status cpu_identify(int device, char name[BACKEND_IDENTITY]) {
    (void)device;
    snprintf(name, BACKEND_IDENTITY, "cpu");
    return MOAO_OK;
}

static status cpu_open(int device, void *stream, backend_ctx **ctx) {
    status st;
    (void)stream;
    *ctx = NULL;
    if (device != 0)
        return status_fail(MOAO_INPUT, "the CPU backend has one device, number 0");
    TRY(ALLOC(*ctx, 1, "backend context"));
    (*ctx)->head.own = &backend_cpu_own;
    (*ctx)->device = device;
done:
    return st;
}

static void cpu_close(backend_ctx *ctx) {
    free(ctx);
}

static void *cpu_stream(backend_ctx *ctx) {
    (void)ctx;
    return NULL;
}

static status cpu_sync(backend_ctx *ctx) {
    (void)ctx;
    return MOAO_OK;
}

static status cpu_open_low_priority(backend_ctx *other, backend_ctx **ctx) {
    return cpu_open(other->device, NULL, ctx);
}

static status cpu_wait_for(backend_ctx *ctx, backend_ctx *other) {
    (void)ctx, (void)other;
    return MOAO_OK;
}

static status cpu_alloc(backend_ctx *ctx, size_t bytes, void **p) {
    (void)ctx;
    *p = NULL;
    return posix_memalign(p, 256, bytes > 0 ? bytes : 1) == 0
               ? MOAO_OK
               : status_fail(MOAO_MEMORY, "cannot allocate %zu bytes", bytes);
}

static void cpu_release(backend_ctx *ctx, void *p) {
    (void)ctx;
    free(p);
}

static status cpu_copy(backend_ctx *ctx, void *dst, int64_t ldd, const void *src, int64_t lds,
                       int64_t rows, int64_t cols) {
    (void)ctx;
    for (int64_t j = 0; rows > 0 && j < cols; j++)
        memmove((char *)dst + j * ldd, (const char *)src + j * lds, (size_t)rows);
    return MOAO_OK;
}

/* Tiles of MIRROR_TILE x MIRROR_TILE stay in the cache while they are transposed. */
#define MIRROR_TILE ((int64_t)32)

#define MIRROR_COLUMNS(T)                                                                          \
    for (int64_t j = j0; j < end_j; j++)                                                           \
        for (int64_t i = i0 > j + 1 ? i0 : j + 1; i < end_i; i++) {                                \
            T *low = (T *)a + i + j * lda, *high = (T *)a + j + i * lda;                           \
            *(lower ? high : low) = *(lower ? low : high);                                         \
        }

static void mirror_tile(backend_type t, bool lower, int64_t n, void *a, int64_t lda, int64_t i0,
                        int64_t j0) {
    const int64_t end_i = i0 + MIRROR_TILE < n ? i0 + MIRROR_TILE : n,
                  end_j = j0 + MIRROR_TILE < n ? j0 + MIRROR_TILE : n;
    if (t == BACKEND_S)
        MIRROR_COLUMNS(float)
    else if (t == BACKEND_Z)
        MIRROR_COLUMNS(double complex)
    else /* eight bytes are moved as they are */
        MIRROR_COLUMNS(uint64_t)
}

static status cpu_mirror(backend_ctx *ctx, backend_type t, char uplo, int64_t n, void *a,
                         int64_t lda) {
    (void)ctx;
#pragma omp parallel for schedule(dynamic)
    for (int64_t j = 0; j < n; j += MIRROR_TILE)
        for (int64_t i = j; i < n; i += MIRROR_TILE)
            mirror_tile(t, uplo == 'L', n, a, lda, i, j);
    return MOAO_OK;
}

#define GATHER(T)                                                                                  \
    for (int64_t i = 0; i < m; i++) {                                                              \
        const T x = ((const T *)a)[(rows ? rows[i] : i) + from];                                   \
        ((T *)b)[i + j * ldb] = beta ? ((T *)b)[i + j * ldb] + x : x;                              \
    }

static status cpu_gather(backend_ctx *ctx, backend_type t, int64_t m, int64_t n,
                         const int64_t *rows, const int64_t *cols, const void *a, int64_t lda,
                         int beta, void *b, int64_t ldb) {
    (void)ctx;
#pragma omp parallel for if (m * n > 65536)
    for (int64_t j = 0; j < n; j++) {
        const int64_t from = (cols ? cols[j] : j) * lda;
        if (t == BACKEND_D)
            GATHER(double)
        else
            GATHER(float)
    }
    return MOAO_OK;
}

static size_t cpu_workspace(backend_op op, backend_type t, int64_t m, int64_t n) {
    (void)op, (void)t, (void)m, (void)n;
    return 0;
}

static size_t cpu_host_workspace(backend_op op, backend_type t, char side, int64_t m, int64_t n) {
    (void)op, (void)t, (void)side, (void)m, (void)n;
    return 0;
}

static size_t cpu_multi_workspace(int g, backend_type t, char side, int64_t size, int64_t part) {
    (void)g, (void)t, (void)side, (void)size, (void)part;
    return 0;
}

#define OVER_PARTS(op)                                                                             \
    static status cpu_##op##_multi(                                                                \
        int count, backend_ctx *const *ctx, backend_type t, char side, char uplo, char trans,      \
        char diag, int64_t size, const int64_t *part, const void *alpha, const void *a,            \
        int64_t lda, void *const *b, const int64_t *ldb, void *const *dev, const size_t *ldev) {   \
        status st = MOAO_OK;                                                                       \
        for (int g = 0; g < count && st == MOAO_OK; g++)                                           \
            st = cpu_##op(ctx[g], t, side, uplo, trans, diag, side == 'L' ? size : part[g],        \
                          side == 'L' ? part[g] : size, alpha, a, lda, b[g], ldb[g],               \
                          dev ? dev[g] : NULL, ldev ? ldev[g] : 0);                                \
        return st;                                                                                 \
    }
OVER_PARTS(trsm)
OVER_PARTS(trmm)

/* What needs no check is the same in the CPU's own table and in the one that callers get. */
#define UNCHECKED                                                                                  \
    .name = "cpu", .size = sizeof(backend), .devices = cpu_devices, .describe = cpu_describe,      \
    .memory = cpu_memory, .identify = cpu_identify, .open = cpu_open, .stream = cpu_stream,        \
    .sync = cpu_sync, .wait_for = cpu_wait_for, .open_low_priority = cpu_open_low_priority,        \
    .alloc_host = cpu_alloc, .release_host = cpu_release, .workspace = cpu_workspace,              \
    .host_workspace = cpu_host_workspace, .multi_workspace = cpu_multi_workspace

const backend backend_cpu_own = {
    UNCHECKED,
    .close = cpu_close,
    .alloc = cpu_alloc,
    .release = cpu_release,
    .copy = cpu_copy,
    .mirror = cpu_mirror,
    .gather = cpu_gather,
    .gemm = cpu_gemm,
    .trsm = cpu_trsm,
    .trmm = cpu_trmm,
    .symm = cpu_symm,
    .syrk = cpu_syrk,
    .syr2k = cpu_syr2k,
    .potrf = cpu_potrf,
    .potri = cpu_potri,
    .poti = cpu_poti,
    .trtri = cpu_trtri,
    .lauum = cpu_lauum,
    .potrs = cpu_potrs,
    .posv = cpu_posv,
    .trsm_host = cpu_trsm,
    .trmm_host = cpu_trmm,
    .trsm_multi = cpu_trsm_multi,
    .trmm_multi = cpu_trmm_multi,
    .batch = &batch_cpu,
    .batch_complex = &complex_cpu,
    .fp16 = &fp16_cpu,
    .lowrank = &lowrank_cpu,
    .sparse = &sparse_cpu,
    .toeplitz = &toeplitz_cpu,
    .split = &split_cpu,
    .integer = &integer_cpu,
    .hier = &hier_cpu,
    .mapped = &mapped_cpu,
};

#define CHECKED(op) .op = checked_##op,
static const backend_lowrank lowrank_checked = {
    .size = sizeof(backend_lowrank), .workspace = lowrank_cpu_workspace, LOWRANK_CHECKED(CHECKED)};
const backend backend_cpu = {
    UNCHECKED,
    .close = checked_close,
    BACKEND_CHECKED(CHECKED).batch = &checked_batch,
    .batch_complex = &checked_complex,
    .fp16 = &checked_fp16,
    .lowrank = &lowrank_checked,
    .sparse = &checked_sparse,
    .toeplitz = &toeplitz_cpu,
    .split = &split_cpu,
    .integer = &checked_integer,
    .hier = &hier_cpu,
    .mapped = &mapped_cpu,
};
