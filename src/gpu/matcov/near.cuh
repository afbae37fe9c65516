/* Covariances of mean gradients near zero separation: values of the grids, cubic B-splines, for the
 * kernels (gradient_kernels.cu, pairs.cu). */
#ifndef MOAO_GPU_MATCOV_NEAR_CUH
#define MOAO_GPU_MATCOV_NEAR_CUH

#include "gradient.cuh"
#include <cuda_fp16.h>

/* An entry of a matrix of floats, or of FP16 numbers of to_fp16 times the entries. */
static __device__ __forceinline__ void put_single(void *a, int64_t at, float to_fp16, float v) {
    if (to_fp16 == 0.0f)
        ((float *)a)[at] = v;
    else
        ((__half *)a)[at] = __float2half(to_fp16 * v);
}

/* Components along the axes of a sensor. */
static __device__ double2 in_axes(const gpu_cov_sensor &w, double x, double y) {
    return make_double2(w.cos_rot * x + w.sin_rot * y, w.cos_rot * y - w.sin_rot * x);
}

template <class T> struct grids {
    T near2, inner, half[2], inverse[2];
    int side[2], kinds;
    const T *values;
};

static __device__ const double *values_of_grids(const gpu_cov_gradients &g,
                                                const matcov_gradient &t, double) {
    return g.values + t.near;
}
static __device__ const float *values_of_grids(const gpu_cov_gradients &g, const matcov_gradient &t,
                                               float) {
    return g.floats + gpu_floats_at(t.near);
}

template <class T>
static __device__ grids<T> grids_of(const gpu_cov_gradients &g, const matcov_gradient &t,
                                    float near) {
    return grids<T>{sizeof(T) == 4 ? (T)near * (T)t.near2 : (T)t.near2,
                    (T)t.inner,
                    {(T)t.half[0], (T)t.half[1]},
                    {(T)t.inverse[0], (T)t.inverse[1]},
                    {t.side[0], t.side[1]},
                    t.kinds,
                    values_of_grids(g, t, T())};
}

template <class T> static __device__ __forceinline__ void spline(T f, T w[4]) {
    const T g = (T)1 - f, sixth = (T)(1.0 / 6.0);
    w[0] = sixth * g * g * g;
    w[3] = sixth * f * f * f;
    w[1] = (T)(2.0 / 3.0) - (T)0.5 * f * f * ((T)1 + g);
    w[2] = (T)(2.0 / 3.0) - (T)0.5 * g * g * ((T)1 + f);
}

static __device__ __forceinline__ void add_to(float w, float2 c, float4 &sum) {
    sum.x += w * c.x;
    sum.y += w * c.y;
}
static __device__ __forceinline__ void add_to(float w, float4 c, float4 &sum) {
    sum.x += w * c.x;
    sum.y += w * c.y;
    sum.z += w * c.z;
    sum.w += w * c.w;
}

/* All kinds in single precision; PLACE: what a place of the grid holds. */
template <class PLACE>
static __device__ __noinline__ float4 near_kinds(const grids<float> &t, float x, float y) {
    const int grid = !(fabsf(x) < t.inner && fabsf(y) < t.inner), n = t.side[grid];
    const float ax = (x + t.half[grid]) * t.inverse[grid],
                ay = (y + t.half[grid]) * t.inverse[grid];
    const int i = (int)ax, j = (int)ay;
    const PLACE *c =
        (const PLACE *)t.values + (grid ? t.side[0] * t.side[0] : 0) + (j - 1) * n + i - 1;
    float wx[4], wy[4];
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    spline(ax - (float)i, wx);
    spline(ay - (float)j, wy);
#pragma unroll
    for (int k = 0; k < 4; k++, c += n)
#pragma unroll
        for (int l = 0; l < 4; l++)
            add_to(wy[k] * wx[l], __ldg(c + l), sum);
    return sum;
}

static __device__ __forceinline__ float component(float4 v, int k) {
    return k == 0 ? v.x : k == 1 ? v.y : k == 2 ? v.z : v.w;
}

#endif
