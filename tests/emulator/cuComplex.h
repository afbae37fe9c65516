/* In place of CUDA's header of this name, when kernels are compiled for the emulator. */
#ifndef MOAO_EMULATOR_CUCOMPLEX_H
#define MOAO_EMULATOR_CUCOMPLEX_H
#include "cuda_runtime.h"

typedef double2 cuDoubleComplex;
typedef float2 cuFloatComplex;

inline cuDoubleComplex make_cuDoubleComplex(double x, double y) {
    return {x, y};
}
inline cuFloatComplex make_cuFloatComplex(float x, float y) {
    return {x, y};
}
inline cuDoubleComplex cuCfma(cuDoubleComplex a, cuDoubleComplex b, cuDoubleComplex c) {
    return {a.x * b.x - a.y * b.y + c.x, a.x * b.y + a.y * b.x + c.y};
}
inline cuFloatComplex cuCfmaf(cuFloatComplex a, cuFloatComplex b, cuFloatComplex c) {
    return {a.x * b.x - a.y * b.y + c.x, a.x * b.y + a.y * b.x + c.y};
}
inline cuDoubleComplex cuCmul(cuDoubleComplex a, cuDoubleComplex b) {
    return cuCfma(a, b, {0, 0});
}
inline cuFloatComplex cuCmulf(cuFloatComplex a, cuFloatComplex b) {
    return cuCfmaf(a, b, {0, 0});
}
inline cuDoubleComplex cuCdiv(cuDoubleComplex a, cuDoubleComplex b) {
    const double n = b.x * b.x + b.y * b.y;
    return {(a.x * b.x + a.y * b.y) / n, (a.y * b.x - a.x * b.y) / n};
}
inline cuFloatComplex cuCdivf(cuFloatComplex a, cuFloatComplex b) {
    const float n = b.x * b.x + b.y * b.y;
    return {(a.x * b.x + a.y * b.y) / n, (a.y * b.x - a.x * b.y) / n};
}
inline double cuCreal(cuDoubleComplex a) {
    return a.x;
}
inline double cuCimag(cuDoubleComplex a) {
    return a.y;
}
inline float cuCrealf(cuFloatComplex a) {
    return a.x;
}
inline float cuCimagf(cuFloatComplex a) {
    return a.y;
}
inline cuDoubleComplex cuConj(cuDoubleComplex a) {
    return {a.x, -a.y};
}
inline cuFloatComplex cuConjf(cuFloatComplex a) {
    return {a.x, -a.y};
}

#endif
