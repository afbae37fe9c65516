/* Entries of partly lit subapertures: what nodes on their outlines change of tables of whole
 * squares. Model section 4. */
#include "matcov/gradient_formula.h"
#include "matcov/outline_formula.h"
#include "matcov_host.cuh"
#include "near.cuh"
#include "outline.cuh"
#include "structure.cuh"
#include <cuda_fp16.h>

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
#define OCCUPANCY(E) (sizeof(E) == 4 ? 5 : 3)
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

/* Tables of the phase with a whole subaperture on a layer. */
template <class T> struct phase_tables {
    const matcov_gradient *t;
    const double *values;
    grids<T> near;
    char apart[sizeof(T) == 4 ? 8 : 16]; /* from the next one, as of layer_of */
};
static_assert(sizeof(phase_tables<float>) % 16 == 8 && sizeof(phase_tables<double>) % 16 == 8,
              "banks of shared memory");

static __device__ __forceinline__ void
phases_at(const phase_tables<double> &p, const double turn[2], double dx, double dy, double f[2]) {
    gradient_phases(p.t, p.values, turn, dx, dy, f);
}

static __device__ __forceinline__ void phases_at(const phase_tables<float> &p, const float turn[2],
                                                 float dx, float dy, float f[2]) {
    const float x = turn[0] * dx + turn[1] * dy, y = turn[0] * dy - turn[1] * dx, s = x * x + y * y;
    if (s < p.near.near2) {
        const float4 v = near_kinds<float2>(p.near, x, y);
        f[0] = v.x, f[1] = v.y;
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

/* A layer as the outline of a block sees it, less the other side's offset. */
struct layer_of {
    double x, y;       /* of the outline's centre, */
    double one, other; /* scales of the two sides, and their offsets */
    double one_of[2], other_of[2];
    double coef, kappa2, near2, apart2, moments2;
    double grid2; /* squared separation below which tables are grids */
    int low;      /* first interval of their lines */
    int table;    /* -1: not seen */
    char kolmogorov;
    double apart; /* from the next one: a warp reads a member of 32 layers from as many banks */
};
static_assert(sizeof(layer_of) % 16 == 8, "banks of shared memory");

/* What 32 places of the other side have around them, in the pupil [m]. */
struct box {
    double low[2], high[2];
};

static __device__ box box_of(double x, double y) {
    box b = {{x, y}, {x, y}};
    for (int d = WARP / 2; d > 0; d /= 2)
        for (int k = 0; k < 2; k++) {
            b.low[k] = fmin(b.low[k], __shfl_xor_sync(ALL, b.low[k], d));
            b.high[k] = fmax(b.high[k], __shfl_xor_sync(ALL, b.high[k], d));
        }
    return b;
}

/* Layers on which a place of the box may be nearer than `reach2`, a bit for each. */
static __device__ __forceinline__ unsigned layers_near(const box &b, const layer_of *sh, int n,
                                                       bool moments) {
    const int l = threadIdx.x % WARP;
    bool near = false;
    if (l < n && sh[l].table >= 0) {
        const layer_of &v = sh[l];
        const double c = v.other;
        const double dx = fmax(0.0, fmax(c * b.low[0] - v.x, v.x - c * b.high[0]));
        const double dy = fmax(0.0, fmax(c * b.low[1] - v.y, v.y - c * b.high[1]));
        near = dx * dx + dy * dy <= (moments ? v.moments2 : v.near2);
    }
    return __ballot_sync(ALL, near);
}

template <class P>
static __device__ bool place_of(const P &p, const gpu_cov_layer &l, int sensor, outline_place *at) {
    const gpu_cov_sensor &w = p.sensors[sensor];
    const double still[2] = {0.0, 0.0};
    const bool aimed = sensor == p.aim.sensor;
    return formula_on_layer(l.h, 1.0, w.altitude, aimed ? p.aim.dir : w.dir,
                            aimed && p.aim.drifts ? l.drift : still, &at->c, at->of);
}

template <class P>
static __device__ __forceinline__ layer_function function_of(const P &p, const layer_of &l) {
    return layer_function{p.structure, l.kappa2, l.kolmogorov};
}

/* From the place `at` of the other side; of two outlines its centre, or, as doubles, 0. */
template <class T>
static __device__ __forceinline__ outline_frame<T> frame_of(const layer_of &l, double2 at) {
    if constexpr (sizeof(T) == 4)
        return outline_frame<T>{
            (T)l.one, {(T)(l.x - l.other * at.x), (T)(l.y - l.other * at.y)}, {0, 0}};
    else
        return outline_frame<T>{(T)l.one,
                                {l.one_of[0], l.one_of[1]},
                                {l.other * at.x + l.other_of[0], l.other * at.y + l.other_of[1]}};
}

/* Whether both of a difference's layers are in the same place, so that one serves for both. */
template <class P> static __device__ bool is_one(const P &p, int l) {
    const gpu_cov_layer *v = p.layers + l;
    return l >= 0 && v[0].twin &&
           (!p.aim.drifts || (v[0].drift[0] == v[1].drift[0] && v[0].drift[1] == v[1].drift[1]));
}

template <class P> static __device__ double coefficient_of(const P &p, int l) {
    return p.layers[l].coef + (is_one(p, l) ? p.layers[l + 1].coef : 0.0);
}

/* Squared separations for two footprints of such sizes. always: of stars of 1 and 2. */
static __device__ void set_reach(layer_of &to, double size_a, double size_b, bool always) {
    const double mean2 = 0.5 * (size_a * size_a + size_b * size_b);
    to.near2 = always ? INFINITY : OUTLINE_RADIUS * OUTLINE_RADIUS * mean2;
    to.apart2 = always ? INFINITY : OUTLINE_APART * OUTLINE_APART * mean2;
    to.moments2 = OUTLINE_MOMENTS * OUTLINE_MOMENTS * mean2;
}

/* Layers l0 .. l0 + n for outline k of a job. */
static __device__ void prepare(const gpu_outlines &p, const gpu_outline_job &job, int k, int l0,
                               int n, layer_of *sh) {
    const gpu_cov_sensor &a = p.sensors[job.one.sensor], &b = p.sensors[job.other.sensor];
    if ((int)threadIdx.x >= n)
        return;
    const int l = l0 + threadIdx.x;
    const gpu_cov_layer &lay = p.layers[l];
    outline_place one, other;
    layer_of &to = sh[threadIdx.x];
    const bool seen = place_of(p, lay, job.one.sensor, &one) &&
                      place_of(p, lay, job.other.sensor, &other) && !is_one(p, l - 1);
    to.table = seen ? p.gradients.table[job.pair.gradient * p.gradients.nlayer + l] : -1;
    const matcov_gradient &t = p.gradients.tables[to.table < 0 ? 0 : to.table];
    to.grid2 = t.near2;
    to.low = ((t.lowest >> GRADIENT_BITS) - 1023 + 127) << GPU_LINE_BITS;
    to.kolmogorov = l >= p.kolmogorov;
    to.kappa2 = lay.kappa * lay.kappa;
    to.coef = coefficient_of(p, l);
    const double2 centre = a.centre[a.outline.sub[k]];
    to.one = one.c, to.other = other.c;
    for (int i = 0; i < 2; i++)
        to.one_of[i] = one.of[i], to.other_of[i] = other.of[i];
    to.x = one.c * centre.x + one.of[0] - other.of[0];
    to.y = one.c * centre.y + one.of[1] - other.of[1];
    set_reach(to, a.size * one.c, b.size * other.c,
              a.outline.always || (b.outline.n > 0 && b.outline.always));
    if (job.one.sensor == job.other.sensor)
        to.moments2 = INFINITY;
}

/* The phase's tables on layers l0 .. l0 + n, of sensor s. */
template <class P, class T>
static __device__ void prepare_phase(const P &p, const gpu_cov_sensor &s, int l0, int n,
                                     phase_tables<T> *to) {
    if ((int)threadIdx.x >= n || s.phase_class < 0)
        return;
    const int table = p.gradients.table[s.phase_class * p.gradients.nlayer + l0 + threadIdx.x];
    const matcov_gradient *t = p.gradients.tables + (table < 0 ? 0 : table);
    to[threadIdx.x] = phase_tables<T>{t, p.gradients.values, grids_of<T>(p.gradients, *t, 1.0f)};
}

/* Both axes of the outline's sensor with an axis of the other one, as the tables have them. */
static __device__ gradient_axes axes_of(const gpu_outline_job &job, const gpu_cov_sensor &a,
                                        const gpu_cov_sensor &b, int kinds, int axis_b) {
    const gpu_cov_sensor &frame = job.pair.swapped ? b : a;
    gradient_axes x;
    x.rows[0] = a.cos_rot, x.rows[1] = a.sin_rot;
    x.turn[0] = frame.cos_rot, x.turn[1] = frame.sin_rot;
    for (int axis = 0; axis < 2; axis++)
        x.kind[axis] = job.pair.swapped ? gradient_kind(kinds, axis_b, axis)
                                        : gradient_kind(kinds, axis, axis_b);
    x.v[0] = axis_b == 0 ? b.cos_rot : -b.sin_rot;
    x.v[1] = axis_b == 0 ? b.sin_rot : b.cos_rot;
    return x;
}

static __device__ double2 part_at(const gpu_cov_sensor &w, double step, int n, int i) {
    const double x = (i % n - 0.5 * (n - 1)) * step, y = (i / n - 0.5 * (n - 1)) * step;
    return make_double2(w.cos_rot * x - w.sin_rot * y, w.sin_rot * x + w.cos_rot * y);
}

/* A job's tables: both axes of the outline's sensor with each of the other's. */
struct job_tables {
    gradient_axes axes[2];
    int kinds;
    bool divided; /* subapertures count as several equal ones */
};

static __device__ job_tables tables_of(const gpu_outlines &p, const gpu_outline_job &job) {
    const gpu_cov_sensor &a = p.sensors[job.one.sensor], &b = p.sensors[job.other.sensor];
    const int *table = p.gradients.table + job.pair.gradient * p.gradients.nlayer;
    job_tables t;
    int l = 0;
    while (l < p.nlayer - 1 && table[l] < 0)
        l++;
    t.kinds = table[l] >= 0 ? p.gradients.tables[table[l]].kinds : 3;
    for (int axis = 0; axis < 2; axis++)
        t.axes[axis] = axes_of(job, a, b, t.kinds, axis);
    t.divided = job.pair.parts[0] * job.pair.parts[1] > 1;
    return t;
}

/* Four values: axis of the first + 2 axis of the second. */
template <class T> struct four { T v[4]; };

/* Sums of covariances of two mean gradients by their tables. Beyond the grids these are u.v P +
 * (u.d) (v.d) Q, d the separation, so that the axes u and v can wait: p has P, xx, xy and yy
 * products of d's components times Q. */
template <class T> struct table_sums {
    T p, xx, xy, yy;
    four<T> grid;
};

static __device__ __noinline__ four<double>
grid_at(const gpu_cov_gradients &g, int table, const gradient_axes *axes, double dx, double dy) {
    const matcov_gradient *t = &g.tables[table];
    const double x = axes[0].turn[0] * dx + axes[0].turn[1] * dy;
    const double y = axes[0].turn[0] * dy - axes[0].turn[1] * dx;
    four<double> e;
    for (int k = 0; k < 4; k++)
        e.v[k] = gradient_near(t, g.values + t->near, axes[k / 2].kind[k % 2], x, y);
    return e;
}

static __device__ __noinline__ four<float> grid_at(const gpu_cov_gradients &g, int table,
                                                   const gradient_axes *axes, float dx, float dy) {
    const float c = (float)axes[0].turn[0], s = (float)axes[0].turn[1];
    const float4 all = near_kinds<float4>(grids_of<float>(g, g.tables[table], 1.0f),
                                          c * dx + s * dy, c * dy - s * dx);
    four<float> e;
    for (int k = 0; k < 4; k++)
        e.v[k] = component(all, axes[k / 2].kind[k % 2]);
    return e;
}

static __device__ __forceinline__ void radial_at(const gpu_cov_gradients &g, const layer_of &l,
                                                 double s, double *P, double *Q) {
    const matcov_gradient *t = &g.tables[l.table];
    double m, k[8];
    const double *at =
        g.values + t->radial + (size_t)gradient_interval(t, s, &m) * 2 * GRADIENT_TERMS;
    for (int i = 0; i < 8; i += 2)
        gradient_two(at + i, k + i);
    *P = k[0] + m * (k[1] + m * (k[2] + m * k[3]));
    *Q = k[4] + m * (k[5] + m * (k[6] + m * k[7]));
}

/* By straight lines (gpu_cov_gradients). */
static __device__ __forceinline__ void radial_at(const gpu_cov_gradients &g, const layer_of &l,
                                                 float s, float *P, float *Q) {
    const int i = min((__float_as_int(s) >> (23 - GPU_LINE_BITS)) - l.low, GPU_LINES - 1);
    const float m =
        __int_as_float((__float_as_int(s) & ((1 << (23 - GPU_LINE_BITS)) - 1)) | 0x3f800000);
    const float4 k = __ldg(g.lines + (size_t)l.table * GPU_LINES + i);
    *P = fmaf(k.y, m, k.x);
    *Q = fmaf(k.w, m, k.z);
}

/* Add factor times the tables' values at separation (x, y); GRID: which may be on their grids. */
template <class T, bool GRID>
static __device__ __forceinline__ void add_place(const gpu_cov_gradients &g, const layer_of &l,
                                                 const job_tables &t, T x, T y, T factor,
                                                 table_sums<T> &e) {
    const T s = x * x + y * y;
    if (GRID && s < (T)l.grid2) {
        const four<T> v = grid_at(g, l.table, t.axes, x, y);
        for (int k = 0; k < 4; k++)
            e.grid.v[k] += factor * v.v[k];
        return;
    }
    T P, Q;
    radial_at(g, l, s, &P, &Q);
    Q *= factor;
    e.p += factor * P;
    e.xx += x * x * Q, e.xy += x * y * Q, e.yy += y * y * Q;
}

/* e += what the sums are for all axes. */
template <class T>
static __device__ __forceinline__ void turn_sums(const job_tables &t, const table_sums<T> &sum,
                                                 T e[4]) {
    const T c = (T)t.axes[0].rows[0], s = (T)t.axes[0].rows[1];
    for (int k = 0; k < 4; k++) {
        const T ux = k % 2 ? -s : c, uy = k % 2 ? c : s, vx = (T)t.axes[k / 2].v[0],
                vy = (T)t.axes[k / 2].v[1];
        e[k] += (ux * vx + uy * vy) * sum.p + ux * vx * sum.xx + (ux * vy + uy * vx) * sum.xy +
                uy * vy * sum.yy + sum.grid.v[k];
    }
}

/* f(x, y) at the separations of all equal parts. */
template <class F>
static __device__ __forceinline__ void for_parts(const gpu_outlines &p, const gpu_outline_job &job,
                                                 const layer_of &l, bool divided, double dx,
                                                 double dy, F f) {
    if (!divided) {
        f(dx, dy);
        return;
    }
    const gpu_cov_sensor &a = p.sensors[job.one.sensor], &b = p.sensors[job.other.sensor];
    for (int i = 0; i < job.pair.parts[0] * job.pair.parts[0]; i++)
        for (int j = 0; j < job.pair.parts[1] * job.pair.parts[1]; j++) {
            const double2 pa = part_at(a, job.pair.step[0], job.pair.parts[0], i);
            const double2 pb = part_at(b, job.pair.step[1], job.pair.parts[1], j);
            f(dx + l.one * pa.x - l.other * pb.x, dy + l.one * pa.y - l.other * pb.y);
        }
}

/* Covariances of whole squares, of which nodes take the place. */
template <class T>
static __device__ __noinline__ four<T> square_at(const gpu_outlines &p, const gpu_outline_job &job,
                                                 const job_tables &t, const layer_of &l, double dx,
                                                 double dy) {
    table_sums<T> sum = {};
    four<T> e = {};
    for_parts(p, job, l, t.divided, dx, dy, [&](double x, double y) {
        add_place<T, true>(p.gradients, l, t, (T)x, (T)y, (T)(l.coef * job.pair.scale), sum);
    });
    turn_sums(t, sum, e.v);
    return e;
}

/* Add the tables' covariances (of a lattice, all of which is taken away in the end), and (moments)
 * what second moments of outline k, and of outline nk of the other side where nk >= 0, change of
 * them: second differences over a subaperture. */
template <class T, bool GRID>
static __device__ __forceinline__ void
add_places(const gpu_outlines &p, const gpu_outline_job &job, const job_tables &t,
           const layer_of &l, int k, int nk, bool moments, T dx, T dy, table_sums<T> &e) {
    const T factor = (T)(l.coef * job.pair.scale);
    T middle = (T)(job.table != NULL);
#pragma unroll 1
    for (int i = moments ? (nk >= 0 ? 8 : 4) : 0; i >= 0; i--) {
        T x = dx, y = dy, weight = middle;
        if (i > 0) {
            const int axis = (i - 1) / 2 % 2, sign = i % 2 ? 1 : -1;
            const double *m = i <= 4 ? p.sensors[job.one.sensor].outline.moments + 6 * k
                                     : p.sensors[job.other.sensor].outline.moments + 6 * nk;
            const T c = (T)(sign * (i <= 4 ? l.one : l.other));
            weight = (T)m[3 * axis + 2];
            x += c * (T)m[3 * axis], y += c * (T)m[3 * axis + 1];
            middle -= weight;
        }
        add_place<T, GRID>(p.gradients, l, t, x, y, factor * weight, e);
    }
}

/* The same where subapertures count as several, or in double precision alone: lines are too rough
 * for second differences. */
static __device__ __noinline__ table_sums<double>
places_at(const gpu_outlines &p, const gpu_outline_job &job, const job_tables &t, const layer_of &l,
          int k, int nk, bool moments, double dx, double dy) {
    table_sums<double> e = {};
    for_parts(p, job, l, t.divided, dx, dy, [&](double x, double y) {
        add_places<double, true>(p, job, t, l, k, nk, moments, x, y, e);
    });
    return e;
}

/* What a layer changes without nodes, for outline k and subaperture (or outline, nk >= 0) kb;
 * whether nodes serve, and whether few of them. PLAIN: no places_at. */
template <class T, bool PLAIN>
static __device__ __forceinline__ bool
add_far(const gpu_outlines &p, const gpu_outline_job &job, const job_tables &t, const layer_of &l,
        int k, double2 centre, int nk, table_sums<T> &e, bool *apart) {
    const double dx = l.x - l.other * centre.x, dy = l.y - l.other * centre.y;
    const double r2 = dx * dx + dy * dy;
    *apart = r2 >= l.apart2;
    if (r2 < l.near2)
        return true;
    const bool moments = p.moments && r2 < l.moments2;
    if (!PLAIN && (t.divided || (sizeof(T) == 4 && moments))) {
        const table_sums<double> sum = places_at(p, job, t, l, k, nk, moments, dx, dy);
        e.p += (T)sum.p, e.xx += (T)sum.xx, e.xy += (T)sum.xy, e.yy += (T)sum.yy;
        for (int i = 0; i < 4; i++)
            e.grid.v[i] += (T)sum.grid.v[i];
    } else if (moments || job.table != NULL) {
        add_places<T, sizeof(T) == 8>(p, job, t, l, k, nk, sizeof(T) == 8 && moments, (T)dx, (T)dy,
                                      e);
    }
    return false;
}

/* ---- nodes: a warp collects the pairs of places and layers that need them, and computes as many
 * as it has lanes at a time, whichever lanes they belong to */

template <class T, int N> struct collected {
    unsigned short item[2][2 * WARP]; /* close, apart: lane + WARP layer */
    T value[WARP][N];
};

template <class T, int N>
static __device__ __forceinline__ void collect(collected<T, N> &c, int (&n)[2], bool near,
                                               bool apart, int layer) {
    const int lane = threadIdx.x % WARP;
    const unsigned below = (1u << lane) - 1;
#pragma unroll
    for (int set = 0; set < 2; set++) {
        const unsigned some = __ballot_sync(ALL, near && apart == (set == 1));
        if (some >> lane & 1)
            c.item[set][n[set] + __popc(some & below)] = (unsigned short)(lane + WARP * layer);
        n[set] += __popc(some);
    }
}

/* Compute items of which at least `least` have been collected, and add them to their lanes' e:
 * f(lane, layer, set of nodes, value). In an order that depends on nothing else. */
template <class T, int N, class F>
static __device__ __forceinline__ void take(collected<T, N> &c, int (&n)[2], int least, T (&e)[N],
                                            F f) {
    const int lane = threadIdx.x % WARP;
    while (n[0] >= least || n[1] >= least) {
        const int set = n[1] >= least, some = min(set ? n[1] : n[0], WARP);
        n[0] -= set ? 0 : some, n[1] -= set ? some : 0;
        __syncwarp();
        const int item = lane < some ? c.item[set][(set ? n[1] : n[0]) + lane] : 0;
        T v[N] = {};
        if (lane < some)
            f(item % WARP, item / WARP, 1 + set, v);
#pragma unroll
        for (int k = 0; k < N; k++)
            c.value[lane][k] = v[k];
        unsigned mine = some == WARP ? ALL : (1u << some) - 1;
#pragma unroll
        for (int bit = 0; bit < 5; bit++) {
            const unsigned with = __ballot_sync(ALL, item >> bit & 1);
            mine &= lane >> bit & 1 ? with : ~with;
        }
        __syncwarp();
        for (; mine != 0; mine &= mine - 1)
#pragma unroll
            for (int k = 0; k < N; k++)
                e[k] += c.value[__ffs(mine) - 1][k];
    }
    __syncwarp();
}

/* Entry of a lattice, rows' subaperture first. */
static __device__ double lattice_entry(const gpu_outlines &p, const gpu_outline_job &job, int ka,
                                       int kb, int axis_a, int axis_b) {
    const gpu_cov_table &t = *job.table;
    /* the pair's first is `one` where it is in the rows */
    const bool flipped = job.reversed == job.down;
    const int2 pa = p.sensors[job.one.sensor].place[ka], pb = p.sensors[job.other.sensor].place[kb];
    const int2 first = flipped ? pb : pa, second = flipped ? pa : pb;
    const int x = t.steps[0] * first.x - t.steps[1] * second.x + t.origin;
    const int y = t.steps[0] * first.y - t.steps[1] * second.y + t.origin;
    const int kind = flipped ? axis_b + 2 * axis_a : axis_a + 2 * axis_b;
    return t.value[((size_t)kind * t.n + y) * t.n + x];
}

static __device__ void add_entry(double *a, int64_t at, float, double v) {
    a[at] += v;
}
static __device__ void add_entry(float *a, int64_t at, float to_fp16, double v) {
    if (to_fp16 == 0.0f)
        a[at] = (float)(a[at] + v);
    else
        ((__half *)a)[at] =
            __float2half((float)(__half2float(((__half *)a)[at]) + (double)to_fp16 * v));
}

static __device__ bool holds(const gpu_outline_side &s, int axis, int k) {
    return k >= s.k0[axis] && k < s.k1[axis];
}

template <class E>
static __device__ void put(const gpu_outlines &p, const gpu_outline_job &job, int k, int kb,
                           bool two, const double e[4]) {
    const int ka = p.sensors[job.one.sensor].outline.sub[k];
    for (int i = 0; i < 4; i++) {
        const int axis_a = i % 2, axis_b = i / 2;
        if (!holds(job.one, axis_a, ka) || !holds(job.other, axis_b, kb))
            continue;
        const int64_t one = job.one.at[axis_a] + (p.compact ? k : ka),
                      other = job.other.at[axis_b] + kb;
        const int64_t row = job.down ? one : other, col = job.down ? other : one,
                      below = p.i0 + row - (p.j0 + col);
        if (p.part != 'A' && below < 0)
            continue;
        double v = e[i];
        if (job.table != NULL)
            v -= lattice_entry(p, job, ka, kb, axis_a, axis_b);
        if ((p.part == 'T' && below == 0) || (two && p.half))
            v *= 0.5;
        add_entry((E *)p.a, row + col * p.lda, p.to_fp16, v);
    }
}

template <class T> struct whole_block {
    layer_of layer[LAYERS];
    phase_tables<T> phase[LAYERS];
    outline_nodes<T> nodes;
    job_tables tables;
    double2 centre[THREADS];
    collected<T, 4> warp[THREADS / WARP];
};

/* Outlines with whole subapertures. Grid: subapertures, outlines, jobs. */
template <class E, bool PLAIN>
static __global__
__launch_bounds__(THREADS, OCCUPANCY(E)) void whole(const __grid_constant__ gpu_outlines p) {
    __shared__ whole_block<E> sh;
    const gpu_outline_job &job = p.job[blockIdx.z];
    const gpu_cov_sensor &a = p.sensors[job.one.sensor], &b = p.sensors[job.other.sensor];
    const int k = job.o0 + blockIdx.y, i = blockIdx.x * THREADS + threadIdx.x;
    const int first = threadIdx.x / WARP * WARP, lane = threadIdx.x % WARP;
    if ((int)blockIdx.y >= job.no || (int)(blockIdx.x * THREADS) >= job.nb)
        return;
    const int kb = job.kb + min(i, job.nb - 1);
    const bool mine = i < job.nb && (b.outline.n == 0 || b.outline.number[kb] < 0);
    const double2 centre = b.centre[kb];
    const box around = box_of(centre.x, centre.y);
    const E turn[2] = {(E)b.cos_rot, (E)b.sin_rot},
            scale = (E)(formula_slope_scale(1.0, 1.0) / b.size);
    table_sums<E> far = {};
    E e[4] = {0, 0, 0, 0};
    if (threadIdx.x == 0)
        sh.tables = tables_of(p, job);
    sh.centre[threadIdx.x] = centre;
    hold_nodes(a, k, threadIdx.x, THREADS, sh.nodes);
    __syncthreads(); /* a difference of equal profiles has no layer */
    for (int l0 = 0; l0 < p.nlayer; l0 += LAYERS) {
        const int n = min(LAYERS, p.nlayer - l0);
        int number[2] = {0, 0}, w = -WARP;
        unsigned todo = 0;
        __syncthreads();
        prepare(p, job, k, l0, n, sh.layer);
        prepare_phase(p, b, l0, n, sh.phase);
        __syncthreads();
        for (bool more = true; more;) {
            while (todo == 0 && (w += WARP) < n)
                todo = job.table == NULL
                           ? layers_near(around, sh.layer + w, n - w, p.moments)
                           : __ballot_sync(ALL, w + lane < n && sh.layer[w + lane].table >= 0);
            more = todo != 0;
            if (more) {
                const int l = w + __ffs(todo) - 1;
                bool apart = false;
                const bool near = mine && add_far<E, PLAIN>(p, job, sh.tables, sh.layer[l], k,
                                                            centre, -1, far, &apart);
                collect(sh.warp[first / WARP], number, near, apart, l);
                todo &= todo - 1;
            }
            take(sh.warp[first / WARP], number, more ? WARP : 1, e,
                 [&](int of, int l, int set, E *v) {
                     const layer_of &q = sh.layer[l];
                     const double2 to = sh.centre[first + of];
                     outline_whole<E>(sh.phase[l], turn, sh.nodes, set, frame_of<E>(q, to),
                                      (E)q.coef * scale, v);
                     if (job.table != NULL)
                         return;
                     const four<E> less = square_at<E>(p, job, sh.tables, q, q.x - q.other * to.x,
                                                       q.y - q.other * to.y);
                     for (int i = 0; i < 4; i++)
                         v[i] -= less.v[i];
                 });
        }
    }
    turn_sums(sh.tables, far, e);
    const double sum[4] = {e[0], e[1], e[2], e[3]};
    if (mine)
        put<E>(p, job, k, kb, false, sum);
}

template <class T> struct pairs_block {
    layer_of layer[LAYERS];
    job_tables tables;
    outline_nodes<T> one, other[THREADS / WARP];
};

/* Outlines with outlines, a warp for each pair: a layer a lane without nodes, then all lanes for
 * the nodes of a layer. Grid: the other side's, outlines, jobs. */
template <class E, bool PLAIN>
static __global__
__launch_bounds__(THREADS, OCCUPANCY(E)) void pairs(const __grid_constant__ gpu_outlines p) {
    __shared__ pairs_block<E> sh;
    const gpu_outline_job &job = p.job[blockIdx.z];
    const gpu_cov_sensor &a = p.sensors[job.one.sensor], &b = p.sensors[job.other.sensor];
    const int k = job.o0 + blockIdx.y, lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const int i = blockIdx.x * (THREADS / WARP) + warp;
    E e[4] = {0, 0, 0, 0};
    if ((int)blockIdx.y >= job.no || (int)(blockIdx.x * (THREADS / WARP)) >= job.nb)
        return;
    const int nk = job.kb + min(i, job.nb - 1), kb = b.outline.sub[nk];
    const double2 centre = b.centre[kb];
    table_sums<E> sums = {};
    if (threadIdx.x == 0)
        sh.tables = tables_of(p, job);
    hold_nodes(a, k, threadIdx.x, THREADS, sh.one);
    hold_nodes(b, nk, lane, WARP, sh.other[warp]);
    __syncthreads();
    for (int l0 = 0; l0 < p.nlayer; l0 += LAYERS) {
        const int n = min(LAYERS, p.nlayer - l0);
        __syncthreads();
        prepare(p, job, k, l0, n, sh.layer);
        __syncthreads();
        for (int w = 0; w < n; w += WARP) {
            const layer_of &l = sh.layer[min(w + lane, n - 1)];
            bool apart = false;
            const bool mine = w + lane < n && l.table >= 0 &&
                              add_far<E, PLAIN>(p, job, sh.tables, l, k, centre, nk, sums, &apart);
            if (mine && job.table == NULL) {
                const four<E> less = square_at<E>(p, job, sh.tables, l, l.x - l.other * centre.x,
                                                  l.y - l.other * centre.y);
                for (int v = 0; v < 4; v++)
                    e[v] -= less.v[v];
            }
            unsigned near = __ballot_sync(ALL, mine);
            const unsigned far = __ballot_sync(ALL, apart);
            for (; near != 0; near &= near - 1) {
                const layer_of &v = sh.layer[w + __ffs(near) - 1];
                outline_pair<E>(function_of(p, v), sh.one, sh.other[warp],
                                frame_of<E>(v, sizeof(E) == 4 ? centre : make_double2(0.0, 0.0)),
                                (E)v.other, far >> (__ffs(near) - 1) & 1,
                                (E)(v.coef * formula_slope_scale(1.0, 1.0)), e);
            }
        }
    }
    double sum[4];
    turn_sums(sh.tables, sums, e);
    for (int v = 0; v < 4; v++) {
        sum[v] = e[v];
        for (int d = WARP / 2; d > 0; d /= 2)
            sum[v] += __shfl_xor_sync(ALL, sum[v], d);
    }
    if (lane == 0 && i < job.nb)
        put<E>(p, job, k, kb, true, sum);
}

/* Layers l0 .. l0 + n for subaperture `sub` of the outlines' sensor. */
static __device__ void prepare_point(const gpu_outline_points &p, int l0, int n, int sub,
                                     layer_of *sh) {
    const gpu_cov_sensor &a = p.sensors[p.one];
    if ((int)threadIdx.x >= n)
        return;
    const int l = l0 + threadIdx.x;
    const gpu_cov_layer &lay = p.layers[l];
    const double still[2] = {0.0, 0.0};
    outline_place one, other;
    layer_of &to = sh[threadIdx.x];
    const bool there =
        p.sensor >= 0 ? place_of(p, lay, p.sensor, &other)
                      : formula_on_layer(lay.h, 1.0, INFINITY, p.aim.dir,
                                         p.aim.drifts ? lay.drift : still, &other.c, other.of) != 0;
    const bool seen = place_of(p, lay, p.one, &one) && there && !is_one(p, l - 1);
    to.table = seen ? p.gradients.table[a.phase_class * p.gradients.nlayer + l] : -1;
    to.kolmogorov = l >= p.kolmogorov;
    to.kappa2 = lay.kappa * lay.kappa;
    to.coef = coefficient_of(p, l) * p.scale;
    to.one = one.c, to.other = other.c;
    for (int i = 0; i < 2; i++)
        to.one_of[i] = one.of[i], to.other_of[i] = other.of[i];
    to.x = one.c * a.centre[sub].x + one.of[0] - other.of[0];
    to.y = one.c * a.centre[sub].y + one.of[1] - other.of[1];
    set_reach(to, 0.0, a.size * one.c, a.outline.always);
}

template <class T> struct points_block {
    layer_of layer[LAYERS];
    phase_tables<T> phase[LAYERS];
    outline_nodes<T> nodes;
    double2 place[THREADS];
    collected<T, 2> warp[THREADS / WARP];
};

/* Points with outlines: nodes in place of the table of the outline's square. Few of the layers are
 * near a point, and most points are near none. Grid: points, outlines. */
template <class E>
static __global__
__launch_bounds__(THREADS) void points(const __grid_constant__ gpu_outline_points p) {
    __shared__ points_block<E> sh;
    const gpu_cov_sensor &a = p.sensors[p.one];
    const int k = p.o0 + blockIdx.y, sub = a.outline.sub[k];
    const int first = threadIdx.x / WARP * WARP;
    const E turn[2] = {(E)a.cos_rot, (E)a.sin_rot}, inverse = (E)(1.0 / a.size);
    const int i = blockIdx.x * THREADS + threadIdx.x, at = min(i, p.np - 1);
    const double2 place = p.sensor >= 0
                              ? p.sensors[p.sensor].edge[GPU_COV_ROWS][p.axis][p.first + at]
                              : make_double2(p.px[at], p.py[at]);
    const box around = box_of(place.x, place.y);
    E e[2] = {0, 0};
    bool any = false;
    sh.place[threadIdx.x] = place;
    hold_nodes(a, k, threadIdx.x, THREADS, sh.nodes);
    for (int l0 = 0; l0 < p.nlayer; l0 += LAYERS) {
        const int n = min(LAYERS, p.nlayer - l0);
        int number[2] = {0, 0}, w = -WARP;
        unsigned todo = 0;
        __syncthreads();
        prepare_point(p, l0, n, sub, sh.layer);
        prepare_phase(p, a, l0, n, sh.phase);
        __syncthreads();
        for (bool more = true; more;) {
            while (todo == 0 && (w += WARP) < n)
                todo = layers_near(around, sh.layer + w, n - w, false);
            more = todo != 0;
            if (more) {
                const layer_of &v = sh.layer[w + __ffs(todo) - 1];
                const double dx = v.other * place.x - v.x, dy = v.other * place.y - v.y,
                             r2 = dx * dx + dy * dy;
                const bool near = i < p.np && r2 < v.near2;
                collect(sh.warp[first / WARP], number, near, r2 >= v.apart2, w + __ffs(todo) - 1);
                any |= near;
                todo &= todo - 1;
            }
            take(sh.warp[first / WARP], number, more ? WARP : 1, e,
                 [&](int of, int l, int set, E *v) {
                     const layer_of &q = sh.layer[l];
                     const double2 to = sh.place[first + of];
                     const E dx = (E)(q.other * to.x - q.x), dy = (E)(q.other * to.y - q.y);
                     E square[2];
                     outline_point<E>(function_of(p, q), sh.nodes, set, frame_of<E>(q, to),
                                      (E)q.coef, v);
                     phases_at(sh.phase[l], turn, dx, dy, square);
                     for (int s = 0; s < 2; s++)
                         v[s] -= (E)q.coef * inverse * square[s];
                 });
        }
    }
    for (int s = 0; s < 2 && any; s++)
        if (p.wanted[s])
            add_entry((E *)p.a, i + (p.col[s] + sub) * p.lda, p.to_fp16, e[s]);
}

template <class E, bool PLAIN>
static void launch(cudaStream_t stream, dim3 blocks, const gpu_outlines *p, bool both) {
    if (both)
        pairs<E, PLAIN><<<blocks, THREADS, 0, stream>>>(*p);
    else
        whole<E, PLAIN><<<blocks, THREADS, 0, stream>>>(*p);
}

/* Jobs of outlines in the rows, or in the columns: blocks are as many as the largest job needs. */
static status launch_jobs(cudaStream_t stream, backend_type t, const gpu_outlines *all, bool down,
                          bool both) {
    const int each = both ? THREADS / WARP : THREADS;
    int no = 0, nb = 0;
    bool plain = t == BACKEND_D || !all->moments;
    gpu_outlines p = *all;
    p.njob = 0;
    for (int i = 0; i < all->njob; i++) {
        const gpu_outline_job *j = &all->job[i];
        if (j->down != down)
            continue;
        p.job[p.njob++] = *j;
        plain = plain && j->pair.parts[0] * j->pair.parts[1] == 1;
        no = j->no > no ? j->no : no;
        nb = j->nb > nb ? j->nb : nb;
    }
    if (no == 0 || nb == 0)
        return MOAO_OK;
    const dim3 blocks((nb + each - 1) / each, no, p.njob);
    if (t == BACKEND_D && plain)
        launch<double, true>(stream, blocks, &p, both);
    else if (t == BACKEND_D)
        launch<double, false>(stream, blocks, &p, both);
    else if (plain)
        launch<float, true>(stream, blocks, &p, both);
    else
        launch<float, false>(stream, blocks, &p, both);
    LAUNCHED();
    return MOAO_OK;
}

status gpu_outline_add(cudaStream_t stream, backend_type t, const gpu_outlines *p, bool both) {
    GPU_TRY(launch_jobs(stream, t, p, true, both));
    return launch_jobs(stream, t, p, false, both);
}

status gpu_outline_add_points(cudaStream_t stream, backend_type t, const gpu_outline_points *p) {
    if (p->no == 0 || p->np == 0)
        return MOAO_OK;
    const dim3 blocks((p->np + THREADS - 1) / THREADS, p->no);
    if (t == BACKEND_D)
        points<double><<<blocks, THREADS, 0, stream>>>(*p);
    else
        points<float><<<blocks, THREADS, 0, stream>>>(*p);
    LAUNCHED();
    return MOAO_OK;
}
