/* In place of CUDA's header of this name, when kernels are compiled for the emulator: the calls of
 * the host that the batched low-rank routines make, the types of vectors, and what device code
 * uses. A call that is missing here is an error of the compiler. */
#ifndef MOAO_EMULATOR_CUDA_RUNTIME_H
#define MOAO_EMULATOR_CUDA_RUNTIME_H
#include "emulator.h"
#include <climits>
#include <cstdlib>
#include <cstring>
#include <map>

#define __device__
#define __host__
#define __global__
#define __grid_constant__
#define __launch_bounds__(...)
#define __forceinline__ inline
#define __noinline__
#define __restrict__
/* one block runs at a time; dynamic shared memory is replaced by translate.py */
#define __shared__ static

struct alignas(16) double2 {
    double x, y;
};
inline double2 make_double2(double x, double y) {
    return {x, y};
}
struct alignas(8) float2 {
    float x, y;
};
inline float2 make_float2(float x, float y) {
    return {x, y};
}
struct alignas(8) uint2 {
    unsigned x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
inline float4 make_float4(float x, float y, float z, float w) {
    return {x, y, z, w};
}
struct alignas(8) int2 {
    int x, y;
};
inline int2 make_int2(int x, int y) {
    return {x, y};
}
struct alignas(16) int4 {
    int x, y, z, w;
};
inline int4 make_int4(int x, int y, int z, int w) {
    return {x, y, z, w};
}
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) {
    return {x, y, z, w};
}

enum cudaError_t { cudaSuccess = 0, cudaErrorInvalidValue = 1, cudaErrorInvalidConfiguration = 9 };
enum {
    cudaDevAttrMultiProcessorCount,
    cudaDevAttrMaxSharedMemoryPerBlockOptin,
    cudaDevAttrComputeCapabilityMajor,
    cudaDevAttrComputeCapabilityMinor,
    cudaDevAttrL2CacheSize
};
struct cudaDeviceProp {
    char name[16];
    int major, minor;
};
struct cudaFuncAttributes {
    int ptxVersion;
    size_t sharedSizeBytes; /* 0: not known before it runs */
};
enum { cudaFuncAttributeMaxDynamicSharedMemorySize };
enum { cudaLaunchAttributeProgrammaticStreamSerialization };
enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice };
enum { cudaEventDisableTiming = 2 };
typedef void *cudaStream_t;
typedef void *cudaEvent_t;
struct cudaLaunchAttribute {
    int id;
    struct {
        int programmaticStreamSerializationAllowed;
    } val;
};
struct cudaLaunchConfig_t {
    dim3 gridDim, blockDim;
    size_t dynamicSmemBytes;
    cudaStream_t stream;
    cudaLaunchAttribute *attrs;
    int numAttrs;
};

inline const char *cudaGetErrorString(cudaError_t) {
    return "refused by the emulator";
}
inline cudaError_t cudaGetDevice(int *device) {
    *device = 0;
    return cudaSuccess;
}
inline cudaError_t cudaSetDevice(int) {
    return cudaSuccess;
}
inline cudaError_t cudaStreamSynchronize(cudaStream_t) {
    return cudaSuccess;
}
inline cudaError_t cudaMalloc(void **p, size_t bytes) {
    *p = aligned_alloc(256, (bytes + 255) / 256 * 256);
    return *p || bytes == 0 ? cudaSuccess : cudaErrorInvalidValue;
}
inline cudaError_t cudaFree(void *p) {
    free(p);
    return cudaSuccess;
}
inline cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t) {
    memset(p, value, bytes);
    return cudaSuccess;
}
static inline cudaError_t cudaMemset2DAsync(void *p, size_t pitch, int value, size_t width,
                                            size_t height, cudaStream_t) {
    for (size_t i = 0; i < height; i++)
        memset((char *)p + i * pitch, value, width);
    return cudaSuccess;
}
inline cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind,
                                   cudaStream_t) {
    memcpy(to, from, bytes);
    return cudaSuccess;
}
inline cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                                     size_t width, size_t height, cudaMemcpyKind, cudaStream_t) {
    for (size_t i = 0; i < height; i++)
        memcpy((char *)to + i * to_pitch, (const char *)from + i * from_pitch, width);
    return cudaSuccess;
}
inline cudaError_t cudaGetDeviceCount(int *n) {
    *n = 1;
    return cudaSuccess;
}
/* Few multiprocessors, so that small batches need several rounds of blocks too. */
inline cudaError_t cudaDeviceGetAttribute(int *value, int which, int) {
    switch (which) {
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
        *value = (int)emulator::shared_most();
        break;
    case cudaDevAttrComputeCapabilityMajor:
        *value = emulator::capability() / 10;
        break;
    case cudaDevAttrComputeCapabilityMinor:
        *value = emulator::capability() % 10;
        break;
    case cudaDevAttrL2CacheSize:
        *value = 50 << 20;
        break;
    default:
        *value = 3;
    }
    return cudaSuccess;
}
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int) {
    *p = {"emulator", emulator::capability() / 10, emulator::capability() % 10};
    return cudaSuccess;
}
template <class Kernel> cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *a, Kernel *) {
    a->ptxVersion = EMULATED_ARCH / 10, a->sharedSizeBytes = 0;
    return cudaSuccess;
}

namespace emulator {
/* Shared memory that each kernel was allowed to have. */
inline std::map<const void *, size_t> allowed;
inline size_t allowed_to(const void *kernel) {
    const auto found = allowed.find(kernel);
    return found == allowed.end() ? SHARED_DEFAULT : found->second;
}
} // namespace emulator

template <class Kernel> cudaError_t cudaFuncSetAttribute(Kernel *kernel, int, int bytes) {
    if (bytes < 0 || (size_t)bytes > emulator::shared_most())
        return cudaErrorInvalidValue;
    emulator::allowed[(const void *)kernel] = (size_t)bytes;
    return cudaSuccess;
}

template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *c, void (*kernel)(Parameters...),
                               Arguments... arguments) {
    const dim3 &g = c->gridDim, &b = c->blockDim;
    if (g.x < 1 || g.x > 0x7fffffffu || g.y < 1 || g.y > 65535 || g.z != 1 || b.x < 1 ||
        b.x > 1024 || b.y != 1 || b.z != 1)
        return cudaErrorInvalidConfiguration;
    if (c->dynamicSmemBytes > emulator::allowed_to((const void *)kernel))
        return cudaErrorInvalidValue;
    emulator::run(g, b, c->dynamicSmemBytes, emulator::allowed_to((const void *)kernel),
                  [&] { kernel(Parameters(arguments)...); });
    return cudaSuccess;
}

/* Memory of the device is the host's; what a launch is refused for, the next question tells. */
inline cudaError_t cudaMallocHost(void **p, size_t bytes) {
    return cudaMalloc(p, bytes);
}
inline cudaError_t cudaFreeHost(void *p) {
    return cudaFree(p);
}
inline cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind) {
    memcpy(to, from, bytes);
    return cudaSuccess;
}
inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned) {
    *e = NULL;
    return cudaSuccess;
}
inline cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) {
    return cudaSuccess;
}
inline cudaError_t cudaEventSynchronize(cudaEvent_t) {
    return cudaSuccess;
}
inline cudaError_t cudaEventDestroy(cudaEvent_t) {
    return cudaSuccess;
}
namespace emulator {
inline cudaError_t last = cudaSuccess;
/* kernel<<<grid, block, shared, stream>>>(...), by translate.py; kernel: NULL where shared is 0. */
template <class Call>
void launch(const Call &call, const void *kernel, dim3 g, dim3 b, size_t shared = 0,
            cudaStream_t = NULL) {
    if (g.x < 1 || g.x > 0x7fffffffu || g.y < 1 || g.y > 65535 || g.z < 1 || g.z > 65535 ||
        b.x < 1 || b.x > 1024 || b.y != 1 || b.z != 1 || shared > shared_most())
        last = cudaErrorInvalidConfiguration;
    else
        run(g, b, shared, allowed_to(kernel), call);
}
} // namespace emulator
inline cudaError_t cudaGetLastError() {
    const cudaError_t e = emulator::last;
    emulator::last = cudaSuccess;
    return e;
}

#include "device.h"

#endif
