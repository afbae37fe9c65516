/* The GPU backend's table, its contexts and memory, and the one symbol that the program looks up.
 */
#include "gpu/batch/batch_gpu.h"
#include "gpu/core/capability.h"
#include "gpu/dense/fp16_gpu.h"
#include "gpu/dense/potrf.cuh"
#include "gpu/dense/sparse_gpu.h"
#include "gpu/dense/split_gpu.h"
#include "gpu/hier/hier_gpu.h"
#include "gpu/hier/toeplitz_gpu.h"
#include "gpu/integer/integer_gpu.h"
#include "gpu/lowrank/lowrank_gpu.h"
#include "gpu/matcov/matcov_gpu.h"
#include "gpu/psf/psf_gpu.h"
#include "moao/backend_group.h"
#include <mutex>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vector>

/* ---- messages go to the program's record */

static __typeof__(status_set) *report;

extern "C" status status_set(status code, const char *file, int line, const char *fmt, ...) {
    char text[480];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    static std::mutex one_at_a_time; /* threads that feed several devices */
    std::lock_guard<std::mutex> lock(one_at_a_time);
    return report ? report(code, file, line, "%s", text) : code;
}

/* ---- devices, contexts, memory */

extern const backend backend_gpu; /* at the end */

/* Numbers, by CUDA, of those that the plugin has code for. */
static std::vector<int> usable;

static int devices(void) {
    return (int)usable.size();
}

static status describe(int d, char *text, size_t len) {
    cudaDeviceProp p;
    int driver = 0, runtime = 0, blas[3] = {0, 0, 0};
    CUDA_TRY(cudaGetDeviceProperties(&p, usable[d]));
    CUDA_TRY(cudaDriverGetVersion(&driver));
    CUDA_TRY(cudaRuntimeGetVersion(&runtime));
    BLAS_TRY(cublasGetProperty(MAJOR_VERSION, &blas[0]));
    BLAS_TRY(cublasGetProperty(MINOR_VERSION, &blas[1]));
    BLAS_TRY(cublasGetProperty(PATCH_LEVEL, &blas[2]));
    snprintf(
        text, len,
        "%s (compute %d.%d), %d multiprocessors, %.1f GiB, driver for CUDA %d.%d, runtime %d.%d, "
        "cuBLAS %d.%d.%d",
        p.name, p.major, p.minor, p.multiProcessorCount, (double)p.totalGlobalMem / (1 << 30),
        driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10, blas[0], blas[1],
        blas[2]);
    return MOAO_OK;
}

static status memory(int d, size_t *now, size_t *all) {
    gpu_device_guard guard(usable[d]);
    CUDA_TRY(cudaMemGetInfo(now, all));
    return MOAO_OK;
}

static status identify(int d, char name[BACKEND_IDENTITY]) {
    cudaDeviceProp p;
    CUDA_TRY(cudaGetDeviceProperties(&p, usable[d]));
    for (int i = 0; i < 16; i++)
        snprintf(name + 2 * i, 3, "%02x", (unsigned char)p.uuid.bytes[i]);
    return MOAO_OK;
}

static status open_queue(gpu_queue *q, size_t bytes) {
    CUDA_TRY(cudaMalloc(&q->work, bytes));
    BLAS_TRY(cublasCreate(&q->blas));
    BLAS_TRY(cublasSetStream(q->blas, q->stream));
    BLAS_TRY(cublasSetWorkspace(q->blas, q->work, bytes));
    BLAS_TRY(cublasSetMathMode(q->blas, CUBLAS_DEFAULT_MATH));
    BLAS_TRY(cublasSetPointerMode(q->blas, CUBLAS_POINTER_MODE_HOST));
    return MOAO_OK;
}

static std::vector<cudaEvent_t *> events_of(backend_ctx *c) {
    std::vector<cudaEvent_t *> all = {&c->fork,     &c->join,     &c->mark[0], &c->mark[1],
                                      &c->ahead[0], &c->ahead[1], &c->arrived, &c->computed};
    for (cudaEvent_t &e : c->piece)
        all.push_back(&e);
    for (cudaEvent_t &e : c->stored)
        all.push_back(&e);
    return all;
}

static status fill_context(backend_ctx *c, void *stream) {
    int least, greatest;
    gpu_capability is;
    GPU_TRY(gpu_check_code(c->device));
    GPU_TRY(gpu_capability_of(c->device, &is));
    c->sms = is.sms;
    CUDA_TRY(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    if (stream)
        c->main.stream = (cudaStream_t)stream;
    else
        CUDA_TRY(cudaStreamCreateWithPriority(&c->main.stream, cudaStreamNonBlocking, greatest));
    c->own_stream = !stream;
    /* lower than the main stream, but higher than that of a low-priority context */
    CUDA_TRY(cudaStreamCreateWithPriority(&c->side.stream, cudaStreamNonBlocking,
                                          least - 1 > greatest ? least - 1 : least));
    CUDA_TRY(cudaStreamCreateWithFlags(&c->in, cudaStreamNonBlocking));
    CUDA_TRY(cudaStreamCreateWithFlags(&c->out, cudaStreamNonBlocking));
    GPU_TRY(open_queue(&c->main, GPU_BLAS_WORK));
    GPU_TRY(open_queue(&c->side, GPU_BLAS_SIDE));
    for (cudaEvent_t *e : events_of(c))
        CUDA_TRY(cudaEventCreateWithFlags(e, cudaEventDisableTiming));
    return MOAO_OK;
}

static void close_context(backend_ctx *c) {
    if (!c)
        return;
    gpu_device_guard guard(c->device);
    gpu_queue *const queues[] = {&c->main, &c->side};
    if (c->main.stream)
        cudaStreamSynchronize(c->main.stream);
    for (gpu_queue *q : queues) {
        if (q->blas)
            cublasDestroy(q->blas);
        cudaFree(q->work);
    }
    for (cudaEvent_t *e : events_of(c))
        if (*e)
            cudaEventDestroy(*e);
    cudaStream_t const streams[] = {c->side.stream, c->in, c->out,
                                    c->own_stream ? c->main.stream : NULL};
    for (cudaStream_t s : streams)
        if (s)
            cudaStreamDestroy(s);
    free(c);
}

/* On a device by CUDA's number. */
static status open_on(int d, void *stream, backend_ctx **ctx) {
    *ctx = NULL;
    gpu_device_guard guard(d);
    backend_ctx *c = (backend_ctx *)calloc(1, sizeof *c);
    if (!c)
        return status_fail(MOAO_MEMORY, "cannot allocate a context");
    c->head.own = &backend_gpu;
    c->device = d;
    status st = fill_context(c, stream);
    if (st != MOAO_OK)
        close_context(c);
    else
        *ctx = c;
    return st;
}

static status open_context(int d, void *stream, backend_ctx **ctx) {
    *ctx = NULL;
    if (d < 0 || d >= devices())
        return status_fail(MOAO_INPUT, "there is no GPU %d", d);
    return open_on(usable[d], stream, ctx);
}

static status open_low_priority(backend_ctx *other, backend_ctx **ctx) {
    gpu_device_guard guard(other->device);
    int least, greatest;
    cudaStream_t stream;
    *ctx = NULL;
    CUDA_TRY(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    CUDA_TRY(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, least));
    status st = open_on(other->device, stream, ctx);
    if (st == MOAO_OK)
        (*ctx)->own_stream = true;
    else
        cudaStreamDestroy(stream);
    return st;
}

static void *stream_of(backend_ctx *c) {
    return c->main.stream;
}

static status sync(backend_ctx *c) {
    gpu_device_guard guard(c->device);
    CUDA_TRY(cudaStreamSynchronize(c->main.stream));
    return MOAO_OK;
}

/* A wait keeps the record of its event that it was given, so the event serves again at once. */
static status wait_for(backend_ctx *c, backend_ctx *other) {
    {
        gpu_device_guard guard(other->device);
        CUDA_TRY(cudaEventRecord(other->fork, other->main.stream));
    }
    gpu_device_guard guard(c->device);
    CUDA_TRY(cudaStreamWaitEvent(c->main.stream, other->fork, 0));
    return MOAO_OK;
}

static status allocate(backend_ctx *c, size_t bytes, void **p) {
    gpu_device_guard guard(c->device);
    *p = NULL;
    if (cudaMalloc(p, bytes ? bytes : 1) != cudaSuccess) {
        cudaGetLastError();
        return status_fail(MOAO_MEMORY, "GPU %d has no room for %zu bytes", c->device, bytes);
    }
    return MOAO_OK;
}

static void release(backend_ctx *c, void *p) {
    gpu_device_guard guard(c->device);
    cudaFree(p);
}

static status copy(backend_ctx *c, void *dst, int64_t ldd, const void *src, int64_t lds,
                   int64_t rows, int64_t cols) {
    gpu_device_guard guard(c->device);
    if (rows > 0 && cols > 0)
        CUDA_TRY(cudaMemcpy2DAsync(dst, (size_t)ldd, src, (size_t)lds, (size_t)rows, (size_t)cols,
                                   cudaMemcpyDefault, c->main.stream));
    return MOAO_OK;
}

/* ---- the table */

extern const backend_group backend_group_gpu;   /* group.cu */
extern const backend_mapped backend_mapped_gpu; /* mapped.cu */

static size_t workspace(backend_op op, backend_type t, int64_t m, int64_t n) {
    size_t a, b;
    switch (op) {
    case BACKEND_TRSM: /* either side may be the triangle's */
        a = gpu_trsm_work(t, m, n), b = gpu_trsm_work(t, n, m);
        return a > b ? a : b;
    case BACKEND_TRMM:
        a = gpu_trmm_work(t, m, n), b = gpu_trmm_work(t, n, m);
        return a > b ? a : b;
    case BACKEND_SYMM:
        return gpu_symm_work(t, m > n ? m : n);
    case BACKEND_POTRF:
        return gpu_potrf_work(t, n);
    case BACKEND_TRTRI:
        return gpu_trtri_work(t, n);
    case BACKEND_LAUUM:
        return gpu_lauum_work(t, n);
    case BACKEND_POTRI:
    case BACKEND_POTI:
        a = gpu_trtri_work(t, n), b = gpu_lauum_work(t, n);
        a = a > b ? a : b;
        b = op == BACKEND_POTI ? gpu_potrf_work(t, n) : 0;
        return a > b ? a : b;
    case BACKEND_POTRS:
        return gpu_trsm_work(t, n, m);
    case BACKEND_POSV:
        a = gpu_trsm_work(t, n, m), b = gpu_potrf_work(t, n);
        return a > b ? a : b;
    default:
        return 0;
    }
}

static status gemm(backend_ctx *ctx, backend_type t, char transa, char transb, int64_t m, int64_t n,
                   int64_t k, const void *alpha, const void *a, int64_t lda, const void *b,
                   int64_t ldb, const void *beta, void *c, int64_t ldc, void *work, size_t lwork) {
    gpu_device_guard guard(ctx->device);
    (void)work, (void)lwork;
    return blas_gemm(&ctx->main, t, transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

const backend backend_gpu = {
    .name = "gpu",
    .size = sizeof(backend),
    .devices = devices,
    .describe = describe,
    .memory = memory,
    .identify = identify,
    .open = open_context,
    .close = close_context,
    .stream = stream_of,
    .sync = sync,
    .wait_for = wait_for,
    .open_low_priority = open_low_priority,
    .alloc = allocate,
    .release = release,
    .alloc_host = gpu_alloc_host,
    .release_host = gpu_release_host,
    .copy = copy,
    .workspace = workspace,
    .mirror = gpu_mirror,
    .gather = gpu_gather,
    .gemm = gemm,
    .trsm = gpu_trsm,
    .trmm = gpu_trmm,
    .symm = gpu_symm,
    .syrk = gpu_syrk,
    .syr2k = gpu_syr2k,
    .potrf = gpu_potrf,
    .potri = gpu_potri,
    .poti = gpu_poti,
    .trtri = gpu_trtri,
    .lauum = gpu_lauum,
    .potrs = gpu_potrs,
    .posv = gpu_posv,
    .host_workspace = gpu_host_workspace,
    .trsm_host = gpu_trsm_host,
    .trmm_host = gpu_trmm_host,
    .multi_workspace = gpu_multi_workspace,
    .trsm_multi = gpu_trsm_multi,
    .trmm_multi = gpu_trmm_multi,
    .batch = &backend_batch_gpu,
    .batch_complex = &backend_complex_gpu,
    .fp16 = &backend_fp16_gpu,
    .lowrank = &backend_lowrank_gpu,
    .sparse = &backend_sparse_gpu,
    .toeplitz = &backend_toeplitz_gpu,
    .split = &backend_split_gpu,
    .integer = &backend_integer_gpu,
    .hier = &backend_formats_gpu,
    .matcov = &backend_matcov_gpu,
    .psf = &backend_psf_gpu,
    .group = &backend_group_gpu,
    .mapped = &backend_mapped_gpu,
};

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT const backend *moao_gpu_backend_2(__typeof__(status_set) *set, char *why, size_t len) {
    int n = 0;
    cudaError_t e = cudaGetDeviceCount(&n);
    report = set;
    if (e != cudaSuccess || n == 0) {
        snprintf(why, len, "%s", e != cudaSuccess ? cudaGetErrorString(e) : "no device found");
        cudaGetLastError();
        return NULL;
    }
    for (int d = n - 1; d >= 0; d--) /* the first one's reason stays */
        if (gpu_has_code(d, why, len))
            usable.insert(usable.begin(), d);
    return usable.empty() ? NULL : &backend_gpu;
}
