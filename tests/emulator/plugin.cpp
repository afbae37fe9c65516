/* The emulator as a plugin of the program: batched products, the low-rank routines and others of
 * src/gpu under the name "gpu", on the CPU's memory. The CPU's dense operations and those of FP16
 * numbers serve with them; others are missing. */
#include "gpu/batch/batch_gpu.h"
#include "gpu/core/capability.h"
#include "gpu/core/common.cuh"
#include "gpu/dense/sparse_gpu.h"
#include "gpu/dense/split_gpu.h"
#include "gpu/dense/split_products.cuh"
#include "gpu/hier/hier_gpu.h"
#include "gpu/hier/toeplitz_gpu.h"
#include "gpu/integer/integer_gpu.h"
#include "gpu/lowrank/lowrank_gpu.h"
#include "gpu/matcov/matcov_gpu.h"
#include "gpu/psf/psf_gpu.h"
#include "linalg/core/backend_own.h"
#include "moao/backend_sparse.h"
#include <cstdarg>
#include <cstdio>

static __typeof__(status_set) *report;

gpu_batch_call::gpu_batch_call(backend_ctx *) : before(-1), stream(NULL) {
}
gpu_batch_call::~gpu_batch_call() {
}

/* Failures of the plugin go to the program's record. */
extern "C" status status_set(status code, const char *file, int line, const char *fmt, ...) {
    char text[480];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return report(code, file, line, "%s", text);
}

static status describe(int, char *text, size_t len) {
    snprintf(text, len, "emulator of the kernels of batched gemm, QR, SVD and low-rank routines");
    return MOAO_OK;
}

extern const backend emulated;

/* A context of the CPU, with room behind it for what the plugin's has, whose operations are the
 * emulator's. */
static status open_context(int d, void *stream, backend_ctx **ctx) {
    backend_ctx *cpu;
    const status st = backend_cpu.open(d, stream, &cpu);
    *ctx = NULL;
    if (st != MOAO_OK)
        return st;
    *ctx = (backend_ctx *)calloc(1, sizeof(backend_ctx));
    if (*ctx == NULL)
        return MOAO_MEMORY;
    (*ctx)->head = *(backend_head *)cpu; /* with the device, 0, all that the CPU's has */
    (*ctx)->head.own = &emulated;
    backend_cpu.close(cpu);
    return MOAO_OK;
}

/* Not backend_cpu's, which calls the one of the context's own table: this. */
static void close_context(backend_ctx *ctx) {
    free(ctx);
}

/* What block-Toeplitz products ask of cuBLAS. */
const void *gpu_scalar(backend_type, int value) {
    static const double2 d[] = {{0, 0}, {1, 0}};
    return &d[value];
}

template <class C>
static void gemm_strided(bool conjugate, int64_t m, int64_t n, int64_t k, const C *a, int64_t lda,
                         const C *b, int64_t ldb, C *c, int64_t ldc) {
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < m; i++) {
            C sum = {0, 0};
            for (int64_t l = 0; l < k; l++) {
                const C x = a[i + l * lda], y = conjugate ? b[j + l * ldb] : b[l + j * ldb];
                const C z = {y.x, conjugate ? -y.y : y.y};
                sum.x += x.x * z.x - x.y * z.y, sum.y += x.x * z.y + x.y * z.x;
            }
            c[i + j * ldc] = sum;
        }
}

status blas_gemm_strided(gpu_queue *, backend_type t, char, char tb, int64_t m, int64_t n,
                         int64_t k, const void *, const void *a, int64_t lda, int64_t sa,
                         const void *b, int64_t ldb, int64_t sb, const void *, void *c, int64_t ldc,
                         int64_t sc, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        if (t == BACKEND_Z)
            gemm_strided(tb == 'C', m, n, k, (const double2 *)a + i * sa, lda,
                         (const double2 *)b + i * sb, ldb, (double2 *)c + i * sc, ldc);
        else
            gemm_strided(tb == 'C', m, n, k, (const float2 *)a + i * sa, lda,
                         (const float2 *)b + i * sb, ldb, (float2 *)c + i * sc, ldc);
    return MOAO_OK;
}

/* Sums of products of bytes, which cuBLAS forms. */
status integer_bytes_gemm(gpu_queue *, const integer_bytes_call *c) {
    for (int64_t t = 0; t < c->count; t++)
        for (int64_t j = 0; j < c->n; j++)
            for (int64_t i = 0; i < c->m; i++) {
                const int8_t *a = c->a + t * c->sa + i * c->lda, *b = c->b + t * c->sb + j * c->ldb;
                int32_t *s = c->s + t * c->ss + i + j * c->lds;
                unsigned sum = c->more ? (unsigned)*s : 0;
                for (int64_t l = 0; l < c->k; l++)
                    sum += (unsigned)(a[l] * b[l]);
                *s = (int32_t)sum;
            }
    return MOAO_OK;
}

static const backend_batch batch = {.size = sizeof(backend_batch),
                                    .gemm = gpu_batch_gemm,
                                    .scatter = gpu_batch_scatter,
                                    .gather = gpu_batch_gather};
/* What is not the emulator's: the CPU's operations, which find their table by the context. */
template <class Table> static const Table *cpu_table();
template <> const backend *cpu_table<backend>() {
    return &backend_cpu;
}
template <> const backend_fp16 *cpu_table<backend_fp16>() {
    return backend_cpu.fp16;
}
template <auto M> struct of_cpu;
template <class Table, class... A, status (*Table::*M)(backend_ctx *, A...)> struct of_cpu<M> {
    static status call(backend_ctx *, A... a) {
        return (cpu_table<Table>()->*M)(NULL, a...);
    }
};
template <> const backend_complex *cpu_table<backend_complex>() {
    return backend_cpu.batch_complex;
}
static const backend_complex batch_complex = {.size = sizeof(backend_complex),
                                              .gemm = of_cpu<&backend_complex::gemm>::call,
                                              .trsm = of_cpu<&backend_complex::trsm>::call,
                                              .potrf = gpu_complex_potrf,
                                              .geqrf = of_cpu<&backend_complex::geqrf>::call,
                                              .gesvj = gpu_complex_gesvj};
static const backend_fp16 fp16 = {.size = sizeof(backend_fp16),
                                  .max_abs = of_cpu<&backend_fp16::max_abs>::call,
                                  .cast_to_fp16 = of_cpu<&backend_fp16::cast_to_fp16>::call,
                                  .gemm = of_cpu<&backend_fp16::gemm>::call,
                                  .cast_to_double = of_cpu<&backend_fp16::cast_to_double>::call,
                                  .cast_to_single = of_cpu<&backend_fp16::cast_to_single>::call};
/* Of hierarchical matrices sums and decompositions are the emulator's, entries the CPU's. */
static status entries(backend_ctx *ctx, backend_type t, const hier_function *f, int dim,
                      const double *x, const double *y, const hier_blocks *blocks) {
    return backend_cpu.hier->entries(ctx, t, f, dim, x, y, blocks);
}
static status chebyshev(backend_ctx *ctx, backend_type t, int dim, int order, int64_t count,
                        batch_dim m, const double *const *points, const double *box, batch_mat u) {
    return backend_cpu.hier->chebyshev(ctx, t, dim, order, count, m, points, box, u);
}
static const backend_hier hier = {.size = sizeof(backend_hier),
                                  .sums = gpu_hier_gemm_sums,
                                  .chain = gpu_hier_fused,
                                  .id = gpu_hier_id,
                                  .entries = entries,
                                  .chebyshev = chebyshev};
static const backend_sparse sparse = {.size = sizeof(backend_sparse), .filter = gpu_filter};

/* Memory of the device is the host's. */
static status take(backend_ctx *, size_t bytes, void **p) {
    return cudaMalloc(p, bytes) == cudaSuccess ? MOAO_OK : MOAO_MEMORY;
}
static void give_back(backend_ctx *, void *p) {
    cudaFree(p);
}
static status copy(backend_ctx *, void *dst, int64_t ldd, const void *src, int64_t lds,
                   int64_t rows, int64_t cols) {
    cudaMemcpy2DAsync(dst, (size_t)ldd, src, (size_t)lds, (size_t)rows, (size_t)cols,
                      cudaMemcpyHostToDevice, NULL);
    return MOAO_OK;
}

const backend emulated = {
    .name = "gpu",
    .size = sizeof(backend),
    .devices = backend_cpu.devices,
    .describe = describe,
    .memory = backend_cpu.memory,
    .identify = backend_cpu.identify,
    .open = open_context,
    .close = close_context,
    .stream = backend_cpu.stream,
    .sync = backend_cpu.sync,
    .wait_for = backend_cpu.wait_for,
    .open_low_priority = backend_cpu.open_low_priority,
    .alloc = take,
    .release = give_back,
    .alloc_host = backend_cpu.alloc_host,
    .release_host = backend_cpu.release_host,
    .copy = copy,
    .workspace = backend_cpu.workspace,
    .mirror = of_cpu<&backend::mirror>::call,
    .gather = of_cpu<&backend::gather>::call,
    .gemm = of_cpu<&backend::gemm>::call,
    .trsm = of_cpu<&backend::trsm>::call,
    .trmm = of_cpu<&backend::trmm>::call,
    .potrf = of_cpu<&backend::potrf>::call,
    .host_workspace = backend_cpu.host_workspace,
    .multi_workspace = backend_cpu.multi_workspace,
    .batch = &batch,
    .batch_complex = &batch_complex,
    .fp16 = &fp16,
    .lowrank = &backend_lowrank_gpu,
    .sparse = &sparse,
    .toeplitz = &backend_toeplitz_gpu,
    .split = &backend_split_gpu,
    .integer = &backend_integer_gpu,
    .hier = &hier,
    .matcov = &backend_matcov_gpu,
    .psf = &backend_psf_gpu,
};

/* Instructions of one chip. */
extern "C" status split_hopper(backend_ctx *, const split_products *, const split_target *,
                               bool *served) {
    *served = false;
    return MOAO_OK;
}

extern "C" __attribute__((visibility("default"))) const backend *
moao_gpu_backend_2(__typeof__(status_set) *set, char *why, size_t len) {
    report = set;
    return gpu_has_code(0, why, len) ? &emulated : NULL;
}
