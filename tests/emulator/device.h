/* Functions of device code for the emulator: barriers, exchange between lanes, atomics, arithmetic,
 * and the instructions that translate.py finds written in assembly. One that is missing here is an
 * error of the compiler. */
#ifndef MOAO_EMULATOR_DEVICE_H
#define MOAO_EMULATOR_DEVICE_H
#include "cuda_fp16.h"
#include "emulator.h"
#include <cfloat>
#include <cmath>
#include <cstring>

namespace emulator {
template <class T> T unpacked(uint64_t bits) {
    T value;
    memcpy(&value, &bits, sizeof(T));
    return value;
}
template <class T> uint64_t packed(T value) {
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof(T));
    return bits;
}
} // namespace emulator

/* ---- barriers, of the block and of a warp */
inline void __syncthreads() {
    emulator::meet_block(emulator::BARRIER, false);
}
inline int __syncthreads_or(int vote) {
    return emulator::meet_block(emulator::BARRIER_OR, vote != 0);
}
inline void __syncwarp(unsigned mask = 0xffffffffu) {
    emulator::meet_warp(emulator::SYNCWARP, mask, 0);
}

/* ---- exchange between lanes. A lane that is not among those that meet has no value to give. */
template <class T> T from_lane(emulator::meeting kind, unsigned mask, T value, unsigned lane) {
    const uint64_t *all = emulator::meet_warp(kind, mask, emulator::packed(value));
    if (!(mask >> lane & 1))
        emulator::fail("a shuffle reads lane %u, which is not in its mask %08x", lane, mask);
    return emulator::unpacked<T>(all[lane]);
}
template <class T> T __shfl_sync(unsigned mask, T value, int lane, int width = 32) {
    const unsigned w = (unsigned)width;
    return from_lane(emulator::SHUFFLE, mask, value,
                     (emulator::lane() & ~(w - 1)) | ((unsigned)lane & (w - 1)));
}
template <class T> T __shfl_xor_sync(unsigned mask, T value, int bits) {
    return from_lane(emulator::SHUFFLE_XOR, mask, value, emulator::lane() ^ (unsigned)bits);
}
template <class T> T __shfl_down_sync(unsigned mask, T value, unsigned lanes) {
    const unsigned to = emulator::lane() + lanes;
    return from_lane(emulator::SHUFFLE, mask, value, to < 32 ? to : emulator::lane());
}
inline unsigned __ballot_sync(unsigned mask, bool vote) {
    const uint64_t *all = emulator::meet_warp(emulator::BALLOT, mask, vote);
    unsigned votes = 0;
    for (int i = 0; i < 32; i++)
        if ((mask >> i & 1) && all[i])
            votes |= 1u << i;
    return votes;
}
inline int __all_sync(unsigned mask, bool vote) {
    return __ballot_sync(mask, vote) == mask;
}
inline int __any_sync(unsigned mask, bool vote) {
    return __ballot_sync(mask, vote) != 0;
}

/* ---- between blocks, which run one after the other */
inline void __threadfence() {
}
inline void __nanosleep(unsigned) {
    emulator::fail("a block waits for another one");
}
inline int atomicAdd(int *p, int value) {
    const int old = *p;
    *p = old + value;
    return old;
}
inline unsigned long long atomicAdd(unsigned long long *p, unsigned long long value) {
    const unsigned long long old = *p;
    *p = old + value;
    return old;
}
inline int atomicExch(int *p, int value) {
    const int old = *p;
    *p = value;
    return old;
}

/* ---- arithmetic */
template <class T> T atomicMax(T *p, T value) {
    const T old = *p;
    *p = value > old ? value : old;
    return old;
}
template <class T> T atomicMin(T *p, T value) {
    const T old = *p;
    *p = value < old ? value : old;
    return old;
}
inline int __ffs(int x) {
    return __builtin_ffs(x);
}
inline int __clz(int x) {
    return x ? __builtin_clz((unsigned)x) : 32;
}
inline int __double2hiint(double x) {
    return (int)(emulator::packed(x) >> 32);
}
inline int __double2loint(double x) {
    return (int)(uint32_t)emulator::packed(x);
}
inline double __hiloint2double(int high, int low) {
    return emulator::unpacked<double>((uint64_t)(uint32_t)high << 32 | (uint32_t)low);
}
inline unsigned __float_as_uint(float x) {
    return (unsigned)emulator::packed(x);
}
inline int __float_as_int(float x) {
    return (int)__float_as_uint(x);
}
inline float __uint_as_float(unsigned x) {
    return emulator::unpacked<float>(x);
}
inline float __int_as_float(int x) {
    return __uint_as_float((unsigned)x);
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned by) {
    return (unsigned)(((uint64_t)high << 32 | low) << (by & 31) >> 32);
}
inline int __popc(unsigned x) {
    return __builtin_popcount(x);
}
template <class T> T __ldg(const T *p) {
    return *p;
}
inline double sinpi(double x) {
    return sin(M_PI * x);
}
inline double cospi(double x) {
    return cos(M_PI * x);
}
inline void sincospi(double x, double *sine, double *cosine) {
    *sine = sinpi(x), *cosine = cospi(x);
}
inline double rsqrt(double x) {
    return 1 / sqrt(x);
}
#define EMULATED_MIN_MAX(T)                                                                        \
    inline T min(T a, T b) {                                                                       \
        return a < b ? a : b;                                                                      \
    }                                                                                              \
    inline T max(T a, T b) {                                                                       \
        return a > b ? a : b;                                                                      \
    }
EMULATED_MIN_MAX(int)
EMULATED_MIN_MAX(unsigned)
EMULATED_MIN_MAX(int64_t)

/* ---- instructions */
namespace emulator {
/* rsqrt.approx.ftz: subnormal numbers count as 0. That of double precision is good to half the
 * digits only, so the emulator's is as well. */
inline double rsqrt_approx(double x) {
    if (x < DBL_MIN)
        return x >= 0 ? INFINITY : NAN;
    return 1 / sqrt(x) * (1 + 3e-7);
}
inline float rsqrt_approx(float x) {
    if (x < FLT_MIN)
        return x >= 0 ? INFINITY : NAN;
    return 1 / sqrtf(x);
}
/* rcp.approx.ftz: the same. */
inline double rcp_approx(double x) {
    return fabs(x) < DBL_MIN ? copysign(INFINITY, x) : 1 / x * (1 - 3e-7);
}
inline float rcp_approx(float x) {
    return fabsf(x) < FLT_MIN ? copysignf(INFINITY, x) : 1 / x;
}
/* cp.async: arrives at once; an address that its size does not divide is an error on a GPU too. */
inline void copy_async(void *to, const void *from, size_t size) {
    if ((uintptr_t)to % size || (uintptr_t)from % size)
        fail("a copy of %zu bytes to shared memory begins at an odd address", size);
    memcpy(to, from, size);
}
/* The same; only the first `used` bytes are read, the others become zero. */
inline void copy_async(void *to, const void *from, size_t size, unsigned used) {
    if ((uintptr_t)to % size || (uintptr_t)from % size)
        fail("a copy of %zu bytes to shared memory begins at an odd address", size);
    memset(to, 0, size);
    memcpy(to, from, used);
}
/* mma.m16n8k8 in double precision, c (16 x 8) += a (16 x 8) b (8 x 8). Lane l holds, with r = l / 4
 * and q = l % 4, a(r + 8 (e % 2), q + 4 (e / 2)), b(q + 4 e, r) and c(r + 8 (e / 2), 2 q + e % 2).
 */
/* mma.m8n8k4, c (8 x 8) += a (8 x 4) b (4 x 8): lane l holds a(r, q), b(q, r) and c(r, 2 q + e). */
inline void tensor_quarter(double *c, double a, double b) {
    double left[8][4], right[4][8];
    for (int e = 0; e < 2; e++) {
        const uint64_t *all = meet_warp(TENSOR, ~0u, packed(e == 0 ? a : b));
        for (int l = 0; l < 32; l++)
            if (e == 0)
                left[l / 4][l % 4] = unpacked<double>(all[l]);
            else
                right[l % 4][l / 4] = unpacked<double>(all[l]);
    }
    const int r = (int)lane() / 4, q = (int)lane() % 4;
    for (int e = 0; e < 2; e++)
        for (int k = 0; k < 4; k++)
            c[e] = fma(left[r][k], right[k][2 * q + e], c[e]);
}
inline void tensor(double *c, const double *a, const double *b) {
    double left[16][8], right[8][8];
    for (int e = 0; e < 6; e++) {
        const uint64_t *all = meet_warp(TENSOR, ~0u, packed(e < 4 ? a[e] : b[e - 4]));
        for (int l = 0; l < 32; l++) {
            const int r = l / 4, q = l % 4;
            if (e < 4)
                left[r + 8 * (e % 2)][q + 4 * (e / 2)] = unpacked<double>(all[l]);
            else
                right[q + 4 * (e - 4)][r] = unpacked<double>(all[l]);
        }
    }
    const int r = (int)lane() / 4, q = (int)lane() % 4;
    for (int e = 0; e < 4; e++)
        for (int k = 0; k < 8; k++)
            c[e] = fma(left[r + 8 * (e / 2)][k], right[k][2 * q + e % 2], c[e]);
}
/* mma.m16n8k16 of FP16 numbers with sums in single precision, c (16 x 8) += a (16 x 16) b (16 x 8),
 * and ldmatrix.x4 of four matrices of 8 x 8 halves, row i of matrix j at the address of lane 8 j +
 * i. With r = l / 4 and q = 2 (l % 4), lane l holds in half e of register i a(r + 8 (i % 2), q + e
 * + 8 (i / 2)), b(q + e + 8 i, r) or row r, column q + e of matrix i (transposed: row q + e, column
 * r), and c(r + 8 (i / 2), q + i % 2). */
inline void tensor_fp16(float *c, const unsigned *a, const unsigned *b) {
    float left[16][16], right[16][8];
    for (int i = 0; i < 6; i++) {
        const uint64_t *all = meet_warp(TENSOR, ~0u, i < 4 ? a[i] : b[i - 4]);
        for (int l = 0; l < 32; l++)
            for (int e = 0; e < 2; e++) {
                const int r = l / 4, q = 2 * (l % 4) + e;
                const float z = __half2float(__half{(unsigned short)(all[l] >> 16 * e)});
                if (i < 4)
                    left[r + 8 * (i % 2)][q + 8 * (i / 2)] = z;
                else
                    right[q + 8 * (i - 4)][r] = z;
            }
    }
    const int r = (int)lane() / 4, q = 2 * ((int)lane() % 4);
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 16; k++)
            c[i] += left[r + 8 * (i / 2)][k] * right[k][q + i % 2];
}
inline void load_matrices(unsigned *to, const void *row, bool transposed) {
    if ((uintptr_t)row % 16 || row < shared_memory || row >= shared_memory + SHARED_MOST)
        fail("a row of a matrix is not 16 bytes of shared memory");
    const uint64_t *all = meet_warp(MATRICES, ~0u, (uint64_t)row);
    const int r = (int)lane() / 4, q = 2 * ((int)lane() % 4);
    unsigned got[4];
    for (int i = 0; i < 4; i++) {
        const unsigned short *a = (const unsigned short *)all[8 * i + (transposed ? q : r)];
        const unsigned short *b = (const unsigned short *)all[8 * i + (transposed ? q + 1 : r)];
        got[i] = a[transposed ? r : q] | (unsigned)b[transposed ? r : q + 1] << 16;
    }
    memcpy(to, got, sizeof got);
    meet_warp(SYNCWARP, ~0u, 0); /* all have read before one goes on */
}
} // namespace emulator

#endif
