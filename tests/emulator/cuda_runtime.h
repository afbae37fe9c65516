/* In place of CUDA's header of this name, when kernels are compiled for the emulator: the calls of
 * the host that the batched low-rank routines make, the types of vectors, and what device code
 * uses. A call that is missing here is an error of the compiler. */
#ifndef MOAO_EMULATOR_CUDA_RUNTIME_H
#define MOAO_EMULATOR_CUDA_RUNTIME_H
#include "emulator.h"
#include <climits>
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
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(8) int2 {
    int x, y;
};
struct alignas(16) int4 {
    int x, y, z, w;
};

enum cudaError_t { cudaSuccess = 0, cudaErrorInvalidValue = 1, cudaErrorInvalidConfiguration = 9 };
enum { cudaDevAttrMultiProcessorCount };
enum { cudaFuncAttributeMaxDynamicSharedMemorySize };
enum { cudaLaunchAttributeProgrammaticStreamSerialization };
typedef void *cudaStream_t;
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
/* Few multiprocessors, so that small batches need several rounds of blocks too. */
inline cudaError_t cudaDeviceGetAttribute(int *value, int, int) {
    *value = 3;
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
    if (bytes < 0 || (size_t)bytes > emulator::SHARED_MOST)
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
    emulator::run(g, b, c->dynamicSmemBytes, [&] { kernel(Parameters(arguments)...); });
    return cudaSuccess;
}

#include "device.h"

#endif
