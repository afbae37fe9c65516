/* The emulator as a plugin of the program: batched products and the low-rank routines of src/gpu
 * under the name "gpu", on the CPU's memory. It lacks the other operations. */
#include "backend/backend_own.h"
#include "backend/backend_sparse.h"
#include "gpu/batch/batch_gpu.h"
#include "gpu/lowrank/lowrank_gpu.h"
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

/* A context of the CPU, whose operations are the emulator's. */
static status open_context(int d, void *stream, backend_ctx **ctx) {
    const status st = backend_cpu.open(d, stream, ctx);
    if (st == MOAO_OK)
        ((backend_head *)*ctx)->own = &emulated;
    return st;
}

static const backend_batch batch = {.size = sizeof(backend_batch), .gemm = gpu_batch_gemm};
static const backend_half half = {.size = sizeof(backend_half)};
static const backend_sparse sparse = {.size = sizeof(backend_sparse)};

const backend emulated = {
    .name = "gpu",
    .size = sizeof(backend),
    .devices = backend_cpu.devices,
    .describe = describe,
    .memory = backend_cpu.memory,
    .identify = backend_cpu.identify,
    .open = open_context,
    .close = backend_cpu.close,
    .stream = backend_cpu.stream,
    .sync = backend_cpu.sync,
    .wait_for = backend_cpu.wait_for,
    .open_low_priority = backend_cpu.open_low_priority,
    .alloc = backend_cpu.alloc,
    .release = backend_cpu.release,
    .alloc_host = backend_cpu.alloc_host,
    .release_host = backend_cpu.release_host,
    .copy = backend_cpu.copy,
    .workspace = backend_cpu.workspace,
    .host_workspace = backend_cpu.host_workspace,
    .multi_workspace = backend_cpu.multi_workspace,
    .batch = &batch,
    .half = &half,
    .lowrank = &backend_lowrank_gpu,
    .sparse = &sparse,
};

extern "C" __attribute__((visibility("default"))) const backend *
moao_gpu_backend(__typeof__(status_set) *set, char *, size_t) {
    report = set;
    return &emulated;
}
