/* Between the batched routines and the rest of the plugin: the context's device and stream. */
#include "batch_gpu.h"
#include "gpu/core/common.cuh"

gpu_batch_call::gpu_batch_call(backend_ctx *ctx) : before(-1), stream(ctx->main.stream) {
    int device = ctx->device;
    if (cudaGetDevice(&device) == cudaSuccess && device != ctx->device) {
        before = device;
        cudaSetDevice(ctx->device);
    }
}

gpu_batch_call::~gpu_batch_call() {
    if (before >= 0)
        cudaSetDevice(before);
}
