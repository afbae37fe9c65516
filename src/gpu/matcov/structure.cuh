/* Evaluation of the structure functions' tables (gpu_shape). */
#ifndef MOAO_GPU_MATCOV_STRUCTURE_CUH
#define MOAO_GPU_MATCOV_STRUCTURE_CUH

#include "matcov.cuh"

static __device__ unsigned high(double x) {
    return (unsigned)__double2hiint(x);
}

static __device__ unsigned low(double x) {
    return (unsigned)__double2loint(x);
}

/* Squared length, never below the table. */
template <class S> static __device__ __forceinline__ double square(double dx, double dy) {
    const double least = __hiloint2double((1023 + S::first) << 20, 0);
    return fma(dx, dx, fma(dy, dy, least));
}

/* Adds coef times the polynomial of one double to sum + rest; s: what chose the interval, rough:
 * coef as a float. */
static __device__ __forceinline__ void add_polynomial(const uint4 (&q)[1], double s, int bits,
                                                      double coef, float rough, double &sum,
                                                      float &rest) {
    const unsigned digits = __funnelshift_l(low(s), high(s), bits + 3);
    const float t = __uint_as_float((digits & 0x7fffffu) | 0x3f800000u) - 1.5f;
    const float f = fmaf(fmaf(__uint_as_float(q[0].x << 12), t, __uint_as_float(q[0].w)), t,
                         __uint_as_float(q[0].z));
    sum = fma(coef, __hiloint2double((int)q[0].y, (int)q[0].x), sum);
    rest = fmaf(rough * t, f, rest);
}

/* The same for several doubles. */
template <int Q>
static __device__ __forceinline__ void add_polynomial(const uint4 (&q)[Q], double s, int bits,
                                                      double coef, float rough, double &sum,
                                                      float &rest) {
    const unsigned within = (high(s) & ((1u << (20 - bits)) - 1)) | 0x3ff00000u;
    const double m = __hiloint2double((int)within, (int)low(s)) - (1.0 + 0.5 / (1 << bits));
    /* as a float: |m| < 1, so that the two exponents differ in the bit below the sign's alone */
    const float t = __uint_as_float((__funnelshift_l(low(m), high(m), 3) & 0x3fffffffu) |
                                    (high(m) & 0x80000000u));
    const uint4 last = q[Q - 1], two = q[Q - 2];
    double g = fma(__hiloint2double((int)last.y, (int)(last.x << 28)), m,
                   __hiloint2double((int)two.w, (int)(last.x << 16)));
    g = fma(g, m, __hiloint2double((int)two.z, (int)last.x));
    g = fma(g, m, __hiloint2double((int)two.y, (int)two.x));
    float power = t * t * (t * t);
#pragma unroll
    for (int k = Q - 3; k >= 0; k--) {
        g = fma(fma(g, m, __hiloint2double((int)q[k].w, (int)q[k].z)), m,
                __hiloint2double((int)q[k].y, (int)q[k].x));
        power *= t * t;
    }
    sum = fma(coef, g, sum);
    rest = fmaf(rough * power, fmaf(__uint_as_float(last.w), t, __uint_as_float(last.z)), rest);
}

/* Adds coef times the scale-free structure function at s, from square(), to sum + rest. */
template <class S>
static __device__ __forceinline__ void add_structure(const S &table, double s, double coef,
                                                     float rough, double &sum, float &rest) {
    const unsigned most = (unsigned)S::lowest + S::intervals - 1;
    const int i = (int)min(high(s) >> S::shift, most) - S::lowest;
    uint4 q[S::quads];
#pragma unroll
    for (int k = 0; k < S::quads; k++)
        q[k] = table.quad[k][i];
    add_polynomial(q, s, S::bits, coef, rough, sum, rest);
}

#endif
