/* The emulator as a plugin of the program: the CPU's table under the name "gpu", with the batched
 * low-rank routines of src/gpu. Its memory is the CPU's. */
#include "gpu/batch/batch_gpu.h"
#include "gpu/lowrank/lowrank_gpu.h"
#include <cstdio>
#include <cstring>

static __typeof__(status_set) *report;

gpu_batch_call::gpu_batch_call(backend_ctx *) : before(-1), stream(NULL) {
}
gpu_batch_call::~gpu_batch_call() {
}

status gpu_fail(status code, const char *name, const char *text) {
    return report(code, __FILE__, __LINE__, "%s: %s", name, text);
}

static status describe(int, char *text, size_t len) {
    snprintf(text, len, "emulator of the kernels of batched QR, SVD and low-rank routines");
    return MOAO_OK;
}

extern "C" __attribute__((visibility("default"))) const backend *
moao_gpu_backend(__typeof__(status_set) *set, char *, size_t) {
    static backend table;
    report = set;
    memcpy((void *)&table, &backend_cpu, sizeof table); /* its members are constant */
    table.name = "gpu";
    table.describe = describe;
    table.lowrank = &backend_lowrank_gpu;
    return &table;
}
