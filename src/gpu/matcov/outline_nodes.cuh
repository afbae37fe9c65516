/* Nodes on the outlines of partly lit subapertures, and covariances by them: with another outline,
 * a whole subaperture, the phase at a point. For the kernels of outline.cu. */
#ifndef MOAO_GPU_MATCOV_OUTLINE_NODES_CUH
#define MOAO_GPU_MATCOV_OUTLINE_NODES_CUH

#include "matcov/gradient_formula.h"
#include "matcov/outline_formula.h"
#include "matcov_host.cuh"
#include "near.cuh"
#include "outline.cuh"
#include "pairs.cuh"
#include "structure.cuh"

/* A layer's structure function. */
struct layer_function {
    const gpu_structure *tables;
    double kappa2;
    char kolmogorov;
};

static __device__ __forceinline__ double structure_at(const layer_function &f, double r2) {
    const double least = __hiloint2double((1023 + gpu_shape_finest::first) << 20, 0);
    double sum = 0.0;
    float rest = 0.0f;
    add_structure(f.tables->finest[(int)f.kolmogorov], fma(f.kappa2, r2, least), 1.0, 1.0f, sum,
                  rest);
    return sum + rest;
}

/* From the coarse table, whose first term loses what a float has no room for. */
static __device__ __forceinline__ float structure_at(const layer_function &f, float r2) {
    typedef gpu_shape_coarse S;
    const int lowest = (127 + S::first) << S::bits, bits = 23 - S::bits;
    const float s = fmaf((float)f.kappa2, r2, __int_as_float((127 + S::first) << 23));
    const int digits = __float_as_int(s);
    const int i = min((digits >> bits) - lowest, (int)S::intervals - 1);
    const uint4 q = f.tables->coarse[(int)f.kolmogorov].quad[0][i];
    const float t = __int_as_float(((digits << S::bits) & 0x7fffff) | 0x3f800000) - 1.5f;
    const float first =
        q.y == 0 ? 0.0f : __uint_as_float(__funnelshift_l(q.x, q.y, 3) - (896u << 23));
    return fmaf(
        t, fmaf(fmaf(__uint_as_float(q.x << 12), t, __uint_as_float(q.w)), t, __uint_as_float(q.z)),
        first);
}

/* Where a layer has the place p of the pupil: at c p + of [m]. */
typedef struct {
    double c, of[2];
} outline_place;

#define THREADS 128
/* Blocks of a multiprocessor, by type of result. */
#define OCCUPANCY(E) (sizeof(E) == 4 ? 4 : 3)
#define WARP 32
#define ALL 0xffffffffu
#define LAYERS (3 * WARP) /* prepared at a time, and tested against a warp's box, one a lane */
#define HELD 128          /* nodes of all sets of an outline in shared memory */

/* Place, as a float less the outline's centre [m]; weights by axis [1/m]. */
template <class T> struct alignas(16) outline_node { T x, y, w[2]; };

/* Nodes of an outline, set by set. */
template <class T> struct outline_nodes {
    outline_node<T> at[HELD];
    const matcov_outline *of;
    double2 centre;
    int number, first[MATCOV_SETS], n[MATCOV_SETS];
};

template <class T>
static __device__ outline_node<T> read_node(const matcov_outline &o, double2 centre, int set,
                                            int i) {
    return outline_node<T>{(T)(o.x[set][i] - centre.x),
                           (T)(o.y[set][i] - centre.y),
                           {(T)o.w[set][0][i], (T)o.w[set][1][i]}};
}

/* By `threads` threads, which meet afterwards. */
template <class T>
static __device__ void hold_nodes(const gpu_cov_sensor &s, int number, int thread, int threads,
                                  outline_nodes<T> &to) {
    const matcov_outline &o = s.outline;
    const double2 centre = sizeof(T) == 4 ? s.centre[o.sub[number]] : make_double2(0.0, 0.0);
    int at = 0;
    for (int set = 0; set < MATCOV_SETS; set++) {
        const int from = o.first[set][number], n = o.first[set][number + 1] - from;
        for (int i = thread; i < n && at + i < HELD; i += threads)
            to.at[at + i] = read_node<T>(o, centre, set, from + i);
        if (thread == 0)
            to.first[set] = at, to.n[set] = n;
        at += n;
    }
    if (thread == 0)
        to.of = &o, to.centre = centre, to.number = number;
}

template <class T>
static __device__ __forceinline__ outline_node<T> node_of(const outline_nodes<T> &o, int set,
                                                          int i) {
    const int k = o.first[set] + i;
    return k < HELD ? o.at[k] : read_node<T>(*o.of, o.centre, set, o.of->first[set][o.number] + i);
}

/* A node p of an outline less a place on a layer: c p + of - at [m], in the order in which the host
 * has it, so that the same intervals of tables serve. As floats c p + of. */
template <class T> struct outline_frame { T c, of[2], at[2]; };

static __device__ __forceinline__ double from_node(const outline_frame<double> &f, double p,
                                                   int axis) {
    return f.c * p + f.of[axis] - f.at[axis];
}
static __device__ __forceinline__ float from_node(const outline_frame<float> &f, float p,
                                                  int axis) {
    return f.c * p + f.of[axis];
}

/* e[axis of a + 2 axis of b] += factor times the covariance by nodes of set sa of a with those of
 * set sb of b, in units of the scale-free structure function. f: nodes of a, without cb times those
 * of b. All pairs of nodes, dealt to the lanes of a warp. */
template <class T>
static __device__ inline void outline_sets(const layer_function &layer, const outline_nodes<T> &a,
                                           int sa, const outline_nodes<T> &b, int sb,
                                           const outline_frame<T> &f, T cb, T factor, T e[4]) {
    const int lane = threadIdx.x % WARP, nb = b.n[sb], all = a.n[sa] * nb;
    const int down = WARP / nb, along = WARP % nb;
    int i = lane / nb, j = lane % nb;
    T sum[4] = {(T)0, (T)0, (T)0, (T)0};
#pragma unroll 2
    for (int k = lane; k < all; k += WARP) {
        const outline_node<T> p = node_of(a, sa, i), q = node_of(b, sb, j);
        const T x = from_node(f, p.x, 0) - cb * q.x, y = from_node(f, p.y, 1) - cb * q.y;
        const T d = structure_at(layer, x * x + y * y), u = d * p.w[0], v = d * p.w[1];
        sum[0] += u * q.w[0], sum[1] += v * q.w[0];
        sum[2] += u * q.w[1], sum[3] += v * q.w[1];
        i += down, j += along;
        if (j >= nb)
            i++, j -= nb;
    }
    for (int k = 0; k < 4; k++)
        e[k] -= (T)0.5 * factor * sum[k];
}

template <class T>
static __device__ inline void outline_pair(const layer_function &layer, const outline_nodes<T> &a,
                                           const outline_nodes<T> &b, const outline_frame<T> &f,
                                           T cb, bool apart, T factor, T e[4]) {
    const T other = (T)(0.5 * (1.0 - OUTLINE_SAME)) * factor;
    if (apart) {
        outline_sets<T>(layer, a, 2, b, 2, f, cb, factor, e);
        return;
    }
    for (int k = 0; k < 3; k++) /* 0 with 0, 0 with 1, 1 with 0 */
        outline_sets<T>(layer, a, k / 2, b, k % 2, f, cb, k == 0 ? (T)OUTLINE_SAME * factor : other,
                        e);
}

/* The phase with a whole subaperture on a layer: tables and, of a difference in single precision,
 * the expansion of pairs.cu from so many sizes on: what it leaves out falls as the fourth power of
 * the separation. Nodes of an outline at OUTLINE_APART are no closer to the other's centre. */
#define EXPANDED 2.0
/* OUTLINE_RADIUS and OUTLINE_APART of differences of profiles in single precision, with whole
 * subapertures, on a lattice and with points. Beyond it the interpolation in a lattice's table
 * serves; second moments of others in place of nodes take longer (H200). */
#define ROUGH_RADIUS OUTLINE_RADIUS
#define ROUGH_LATTICE 4.0
#define ROUGH_POINT OUTLINE_RADIUS
#define ROUGH_APART 1.6
#define EXPANDED_POINT 2.0
template <class T> struct phase_tables {
    const matcov_gradient *t;
    const double *values;
    const gpu_radial *radial; /* NULL: tables alone */
    grids<T> near;
    float kappa2, gain,
        e2; /* squared [1/m^2]; size and kappa / 2; size^2 / 24, in units of kappa */
};

static __device__ __forceinline__ void
phases_at(const phase_tables<double> &p, const double turn[2], double dx, double dy, double f[2]) {
    gradient_phases(p.t, p.values, turn, dx, dy, f);
}

/* 2 B' + e2 (16 B'' + 8 u B'''), B of the squared separation u in units of 1 / kappa: the average
 * over a square of size^2 = 24 e2 to the second order. */
static __device__ __forceinline__ float phase_expansion(const gpu_radial &t, float u, float e2) {
    const int first = (127 + RADIAL_FIRST) << RADIAL_BITS;
    const int i =
        min(max((__float_as_int(u) >> (23 - RADIAL_BITS)) - first, 0), RADIAL_INTERVALS - 1);
    const float m =
        __int_as_float((__float_as_int(u) & ((1 << (23 - RADIAL_BITS)) - 1)) | 0x3f800000);
    const float4 a = __ldg(&t.line[i]);
    const float third = __uint_as_float(__ldg(&t.high[i]) & 0xffff0000u) * (1.0f / 3.0f);
    return fmaf(e2, fmaf(4.0f, fmaf(a.w, m, a.z), u * third), fmaf(a.y, m, a.x));
}

static __device__ __forceinline__ void phases_at(const phase_tables<float> &p, const float turn[2],
                                                 float dx, float dy, float f[2]) {
    const float x = turn[0] * dx + turn[1] * dy, y = turn[0] * dy - turn[1] * dx, s = x * x + y * y;
    if (s < p.near.near2) {
        const float4 v = near_kinds<float2>(p.near, x, y);
        f[0] = v.x, f[1] = v.y;
        return;
    }
    if (p.radial != NULL) {
        const float v = p.gain * phase_expansion(*p.radial, s * p.kappa2, p.e2);
        f[0] = x * v, f[1] = y * v;
        return;
    }
    float m;
    const double *c =
        p.values + p.t->radial + (size_t)gradient_interval_single(p.t, s, &m) * 2 * GRADIENT_TERMS;
    double a[2], b[2];
    gradient_two(c, a), gradient_two(c + 2, b);
    const float v = (float)a[0] + m * ((float)a[1] + m * ((float)b[0] + m * (float)b[1]));
    f[0] = x * v, f[1] = y * v;
}

/* e[axis of a + 2 axis of the other] += factor times the covariance with a whole subaperture, from
 * its covariance with the phase; turn: (cos, sin) of its sensor's rotation. */
template <class T>
static __device__ inline void outline_whole(const phase_tables<T> &phase, const T turn[2],
                                            const outline_nodes<T> &a, int set,
                                            const outline_frame<T> &frame, T factor, T e[4]) {
    const int n = a.n[set];
    T sum[4] = {(T)0, (T)0, (T)0, (T)0};
#pragma unroll 2
    for (int i = 0; i < n; i++) {
        const outline_node<T> p = node_of(a, set, i);
        T f[2];
        phases_at(phase, turn, from_node(frame, p.x, 0), from_node(frame, p.y, 1), f);
        sum[0] += f[0] * p.w[0], sum[1] += f[0] * p.w[1];
        sum[2] += f[1] * p.w[0], sum[3] += f[1] * p.w[1];
    }
    for (int k = 0; k < 4; k++)
        e[k] += factor * sum[k];
}

/* e[axis] += factor times the covariance of an outline with the phase at a point. */
template <class T>
static __device__ inline void outline_point(const layer_function &layer, const outline_nodes<T> &o,
                                            int set, const outline_frame<T> &frame, T factor,
                                            T e[2]) {
    const int n = o.n[set];
    T sum[2] = {(T)0, (T)0};
#pragma unroll 4 /* several nodes wait for their tables at a time */
    for (int k = 0; k < n; k++) {
        const outline_node<T> p = node_of(o, set, k);
        const T x = from_node(frame, p.x, 0), y = from_node(frame, p.y, 1),
                d = structure_at(layer, x * x + y * y);
        sum[0] += d * p.w[0], sum[1] += d * p.w[1];
    }
    for (int k = 0; k < 2; k++)
        e[k] -= (T)0.5 * factor * sum[k];
}

#endif
