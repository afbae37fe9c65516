/* In place of CUDA's header of this name, when kernels are compiled for the emulator: halves, and
 * their conversions by the instructions of the processor. */
#ifndef MOAO_EMULATOR_CUDA_FP16_H
#define MOAO_EMULATOR_CUDA_FP16_H
#include <immintrin.h>

struct __half {
    unsigned short bits;
};
struct alignas(4) __half2 {
    __half x, y;
};

__attribute__((target("f16c"))) inline float __half2float(__half h) {
    return _cvtsh_ss(h.bits);
}
__attribute__((target("f16c"))) inline __half __float2half(float f) {
    return {_cvtss_sh(f, _MM_FROUND_TO_NEAREST_INT)};
}
inline __half __float2half_rn(float f) {
    return __float2half(f);
}
__attribute__((target("f16c"))) inline __half __float2half_ru(float f) {
    return {_cvtss_sh(f, _MM_FROUND_TO_POS_INF)};
}
__attribute__((target("f16c"))) inline __half __float2half_rd(float f) {
    return {_cvtss_sh(f, _MM_FROUND_TO_NEG_INF)};
}
inline __half __ushort_as_half(unsigned short bits) {
    return {bits};
}
inline __half2 __halves2half2(__half a, __half b) {
    return {a, b};
}
inline __half2 __floats2half2_rn(float a, float b) {
    return {__float2half(a), __float2half(b)};
}
inline float2 __half22float2(__half2 h) {
    return {__half2float(h.x), __half2float(h.y)};
}

#endif
