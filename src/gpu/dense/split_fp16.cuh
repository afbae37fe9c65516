/* Numbers in one or split FP16, column by column. */
#ifndef MOAO_GPU_SPLIT_FP16_CUH
#define MOAO_GPU_SPLIT_FP16_CUH

#include <cuda_fp16.h>
#include <math.h>
#include <stdint.h>

/* 2^e, |e| at most 126. */
__device__ inline float split_power(int e) {
    return __int_as_float((e + 127) << 23);
}

struct fp16_of {
    __half top, rest;
};

/* As the split of fp16.cu: a NaN's bits are the CPU's. */
__device__ inline fp16_of two_fp16(float x, float scale) {
    const __half nan = __ushort_as_half(0x7fff);
    fp16_of h;
    x *= scale; /* a power of two */
    h.top = isnan(x) ? nan : __float2half_rn(x);
    const float rest = x - __half2float(h.top);
    h.rest = isnan(rest) ? nan : __float2half_rn(rest);
    return h;
}

/* How many parts, and which of them are the rest: a bit each. */
struct order_of {
    int count;
    unsigned rest;
};

static inline order_of order(const char *parts) {
    order_of o = {0, 0};
    for (; parts[o.count] && o.count < 3; o.count++)
        o.rest |= (unsigned)(parts[o.count] == 'r') << o.count;
    return o;
}

/* Numbers i .. i + 4 of a column whose beginning allows it. */
__device__ inline void four(order_of o, const float *from, float scale, __half *const to[3],
                            int64_t i) {
    const float4 x = *(const float4 *)(from + i);
    const fp16_of h[4] = {two_fp16(x.x, scale), two_fp16(x.y, scale), two_fp16(x.z, scale),
                          two_fp16(x.w, scale)};
    alignas(8) __half top[4], rest[4];
#pragma unroll
    for (int e = 0; e < 4; e++)
        top[e] = h[e].top, rest[e] = h[e].rest;
#pragma unroll
    for (int t = 0; t < 3; t++)
        if (t < o.count)
            *(uint2 *)(to[t] + i) = *(const uint2 *)(o.rest >> t & 1 ? rest : top);
}

/* A column of m numbers, by the threads t of so many. */
__device__ inline void one_column(order_of o, int64_t m, const float *from, float scale,
                                  __half *const to[3], int64_t t, int64_t threads) {
    bool wide = ((uintptr_t)from & 15) == 0;
    for (int k = 0; k < o.count; k++)
        wide = wide && ((uintptr_t)to[k] & 7) == 0;
    const int64_t whole = wide ? m / 4 * 4 : 0;
    for (int64_t i = 4 * t; i < whole; i += 4 * threads)
        four(o, from, scale, to, i);
    for (int64_t i = whole + t; i < m; i += threads) {
        const fp16_of h = two_fp16(from[i], scale);
#pragma unroll
        for (int k = 0; k < 3; k++)
            if (k < o.count)
                to[k][i] = o.rest >> k & 1 ? h.rest : h.top;
    }
}

#endif
