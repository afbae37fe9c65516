#include "capability.h"

#include <map>
#include <mutex>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utility>

/* What the compiler was asked for, e.g. "sm_80 sm_90 compute_90"; empty: not known (Makefile). */
#ifndef GPU_CODE
#define GPU_CODE ""
#endif
#define MOST_DEVICES 64

__global__ static void probe_kernel(int *p) {
    if (p)
        *p = 1;
}

/* Shared memory of a block by compute capability: CUDA C++ Programming Guide, table of technical
 * specifications. */
static size_t shared_of(int major, int minor) {
    return (size_t)(major == 8 && (minor == 0 || minor == 7) ? 163
                    : major < 9 || major >= 12               ? 99
                                                             : 227)
           << 10;
}

/* The capability of a device, or that of MOAO_TEST_GPU_CAPABILITY where it is less: then true. */
static bool take_for(int *major, int *minor) {
    const char *named = getenv("MOAO_TEST_GPU_CAPABILITY");
    int a, b;
    if (!named || sscanf(named, "%d.%d", &a, &b) != 2 || 10 * a + b >= 10 * *major + *minor)
        return false;
    *major = a, *minor = b;
    return true;
}

static status ask(int d, gpu_capability *is) {
    int l2;
    cudaFuncAttributes code;
    CUDA_TRY(cudaDeviceGetAttribute(&is->major, cudaDevAttrComputeCapabilityMajor, d));
    CUDA_TRY(cudaDeviceGetAttribute(&is->minor, cudaDevAttrComputeCapabilityMinor, d));
    CUDA_TRY(cudaDeviceGetAttribute(&is->sms, cudaDevAttrMultiProcessorCount, d));
    CUDA_TRY(cudaDeviceGetAttribute(&l2, cudaDevAttrL2CacheSize, d));
    CUDA_TRY(cudaFuncGetAttributes(&code, probe_kernel)); /* all files have the same targets */
    take_for(&is->major, &is->minor);
    is->l2 = (size_t)l2;
    is->early = is->major >= 9 && code.ptxVersion >= 90;
    return MOAO_OK;
}

status gpu_capability_of(int d, gpu_capability *is) {
    static std::mutex one_at_a_time;
    static gpu_capability known[MOST_DEVICES];
    if (d < 0 || d >= MOST_DEVICES)
        return status_fail(MOAO_INPUT, "GPU %d: at most %d are served", d, MOST_DEVICES);
    std::lock_guard<std::mutex> lock(one_at_a_time);
    if (known[d].sms == 0) {
        gpu_capability found = {};
        int before = d;
        cudaGetDevice(&before);
        if (before != d)
            CUDA_TRY(cudaSetDevice(d));
        const status st = ask(d, &found);
        if (before != d)
            cudaSetDevice(before);
        if (st != MOAO_OK)
            return st;
        known[d] = found;
    }
    *is = known[d];
    return MOAO_OK;
}

gpu_capability gpu_here() {
    gpu_capability is = {};
    int d = 0;
    if (cudaGetDevice(&d) != cudaSuccess || gpu_capability_of(d, &is) != MOAO_OK)
        return gpu_capability();
    return is;
}

/* Of a block of device d; 0: not known, or the device does not serve. */
static size_t shared_of_device(int d) {
    int major = 0, minor = 0, shared = 0;
    char why[8];
    if (!gpu_has_code(d, why, sizeof why) ||
        cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, d) != cudaSuccess ||
        cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, d) != cudaSuccess ||
        cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, d) != cudaSuccess)
        return 0;
    if (take_for(&major, &minor) && shared_of(major, minor) < (size_t)shared)
        return shared_of(major, minor);
    return (size_t)shared;
}

size_t gpu_shared_most() {
    static const size_t most = [] {
        size_t least = 0;
        int n = 0;
        if (cudaGetDeviceCount(&n) != cudaSuccess)
            n = 0;
        for (int d = 0; d < n; d++) {
            const size_t one = shared_of_device(d);
            least = one > 0 && (least == 0 || one < least) ? one : least;
        }
        return least > 0 ? least : (size_t)48 << 10;
    }();
    return most;
}

/* Shared memory of fixed size of a kernel [bytes]; on the first call for a device the kernel is
 * allowed all that a block has beyond that, so that no thread lowers what another one needs. */
static status static_shared(const void *kernel, size_t *bytes) {
    static std::mutex lock;
    static std::map<std::pair<const void *, int>, size_t> known;
    const std::lock_guard<std::mutex> guard(lock);
    int device;
    CUDA_TRY(cudaGetDevice(&device));
    const auto found = known.find({kernel, device});
    if (found != known.end()) {
        *bytes = found->second;
        return MOAO_OK;
    }
    cudaFuncAttributes own;
    CUDA_TRY(cudaFuncGetAttributes(&own, kernel));
    *bytes = own.sharedSizeBytes;
    CUDA_TRY(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  (int)(gpu_shared_most() - *bytes)));
    known[{kernel, device}] = *bytes;
    return MOAO_OK;
}

status gpu_allow_shared(const void *kernel, size_t bytes) {
    size_t own = 0;
    if (bytes > 0)
        GPU_TRY(static_shared(kernel, &own));
    if (bytes + own > gpu_shared_most())
        return status_fail(MOAO_INPUT,
                           "these sizes need %zu KiB of shared memory, and a block of this GPU has "
                           "%zu; use compute.backend=cpu",
                           (bytes + own + 1023) >> 10, gpu_shared_most() >> 10);
    return MOAO_OK;
}

/* --- code */

/* Words of GPU_CODE one after the other: machine code of sm_XY serves devices of the same major
 * number from XY on, intermediate code of compute_XY all from XY on. */
static bool serves(const char *code, int major, int minor) {
    int of;
    for (const char *p = code; *p; p += strcspn(p, " "), p += strspn(p, " "))
        if (sscanf(p, "sm_%d", &of) == 1) {
            if (of / 10 == major && of % 10 <= minor)
                return true;
        } else if (sscanf(p, "compute_%d", &of) == 1 && of <= 10 * major + minor) {
            return true;
        }
    return false;
}

/* "8.0, 9.0 and later" */
static void list_code(const char *code, char *text, size_t len) {
    int of, most = 0;
    size_t n = 0;
    text[0] = 0;
    for (const char *p = code; *p; p += strcspn(p, " "), p += strspn(p, " "))
        if (sscanf(p, "sm_%d", &of) == 1 && n < len)
            n += (size_t)snprintf(text + n, len - n, "%s%d.%d", n ? ", " : "", of / 10, of % 10);
        else if (sscanf(p, "compute_%d", &of) == 1)
            most = of > most ? of : most;
    if (most > 0 && n < len)
        snprintf(text + n, len - n, "%s%d.%d and later", n ? "; " : "", most / 10, most % 10);
}

static void refuse(int d, const char *because, char *why, size_t len) {
    cudaDeviceProp p;
    char have[160];
    list_code(GPU_CODE, have, sizeof have);
    if (cudaGetDeviceProperties(&p, d) != cudaSuccess)
        p.name[0] = 0, p.major = p.minor = 0;
    snprintf(why, len, "GPU %d, %s (compute %d.%d): this plugin has code for %s%s%s", d, p.name,
             p.major, p.minor, *have ? have : "other GPUs", *because ? ": " : "", because);
}

bool gpu_has_code(int d, char *why, size_t len) {
    int major = 0, minor = 0;
    if (!*GPU_CODE ||
        cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, d) != cudaSuccess ||
        cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, d) != cudaSuccess ||
        serves(GPU_CODE, major, minor))
        return true;
    refuse(d, "", why, len);
    return false;
}

status gpu_check_code(int d) {
    cudaFuncAttributes code;
    char why[800];
    const cudaError_t e = cudaFuncGetAttributes(&code, probe_kernel);
    if (e == cudaSuccess)
        return MOAO_OK;
    cudaGetLastError();
    refuse(d, cudaGetErrorString(e), why, sizeof why);
    return status_fail(MOAO_INPUT, "%s; use compute.backend=cpu", why);
}
