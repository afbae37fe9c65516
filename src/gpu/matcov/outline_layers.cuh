/* Layers as the outlines of partly lit subapertures see them, and what changes on them without
 * nodes: tables of whole squares, second moments, interpolation in the table of a lattice. For the
 * kernels of outline.cu. */
#ifndef MOAO_GPU_MATCOV_OUTLINE_LAYERS_CUH
#define MOAO_GPU_MATCOV_OUTLINE_LAYERS_CUH

#include "outline_nodes.cuh"

/* A layer as the outline of a block sees it, less the other side's offset. */
struct layer_of {
    double x, y;       /* of the outline's centre, */
    double one, other; /* scales of the two sides, and their offsets */
    double one_of[2], other_of[2];
    double coef, kappa2;
    double near2, apart2; /* nodes are closer than that, few of them from there on; */
    double rough2;        /* of a difference in single precision second moments closer than that, */
    double moments2;      /* else than that */
    double grid2;         /* squared separation below which tables are grids */
    int low;              /* first interval of their lines */
    int table;            /* -1: not seen */
    char kolmogorov;
};
/* a warp reads a member of 32 layers from as many banks */
static_assert(sizeof(layer_of) % 16 == 8, "banks of shared memory");

/* What 32 places of the other side have around them, in the pupil [m]. */
template <class T> struct box { T low[2], high[2]; };

template <class T> static __device__ __forceinline__ box<T> box_of(T x, T y) {
    box<T> b = {{x, y}, {x, y}};
    for (int d = WARP / 2; d > 0; d /= 2)
        for (int k = 0; k < 2; k++) {
            b.low[k] = fmin(b.low[k], __shfl_xor_sync(ALL, b.low[k], d));
            b.high[k] = fmax(b.high[k], __shfl_xor_sync(ALL, b.high[k], d));
        }
    return b;
}

static __device__ __forceinline__ bool is_near(const layer_of &l, double2 other) {
    const double dx = l.x - l.other * other.x, dy = l.y - l.other * other.y;
    return l.table >= 0 && dx * dx + dy * dy < l.rough2;
}

/* Layers on which a place of the box may be nearer than `reach2`, a bit for each. */
static __device__ __forceinline__ unsigned layers_near(const box<double> &b, const layer_of *sh,
                                                       int n, bool moments) {
    const int l = threadIdx.x % WARP;
    bool near = false;
    if (l < n && sh[l].table >= 0) {
        const layer_of &v = sh[l];
        const double c = v.other;
        const double dx = fmax(0.0, fmax(c * b.low[0] - v.x, v.x - c * b.high[0]));
        const double dy = fmax(0.0, fmax(c * b.low[1] - v.y, v.y - c * b.high[1]));
        near = dx * dx + dy * dy <= (moments ? v.moments2 : v.rough2);
    }
    return __ballot_sync(ALL, near);
}

/* Layers that a warp has to do with, a bit for each, of all that are prepared. */
struct layer_list {
    unsigned todo[LAYERS / WARP];
    int at; /* first layer of todo[0] */
};

static __device__ __forceinline__ layer_list list_layers(const box<double> &b, const layer_of *sh,
                                                         int n, bool all, bool moments) {
    layer_list v;
    v.at = 0;
#pragma unroll
    for (int k = 0; k < LAYERS / WARP; k++) {
        const int l = k * WARP + (int)(threadIdx.x % WARP);
        v.todo[k] = all ? __ballot_sync(ALL, l < n && sh[l].table >= 0)
                        : layers_near(b, sh + k * WARP, n - k * WARP, moments);
    }
    return v;
}

static __device__ __forceinline__ bool any_layer(const layer_list &v) {
    unsigned some = 0;
#pragma unroll
    for (int k = 0; k < LAYERS / WARP; k++)
        some |= v.todo[k];
    return some != 0;
}

/* The next one, or -1. */
static __device__ __forceinline__ int next_layer(layer_list &v) {
    while (v.todo[0] == 0 && v.at < LAYERS - WARP) {
        v.at += WARP;
#pragma unroll
        for (int k = 0; k + 1 < LAYERS / WARP; k++)
            v.todo[k] = v.todo[k + 1];
        v.todo[LAYERS / WARP - 1] = 0;
    }
    if (v.todo[0] == 0)
        return -1;
    const int l = v.at + __ffs(v.todo[0]) - 1;
    v.todo[0] &= v.todo[0] - 1;
    return l;
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

/* Whether a job goes by the interpolation: those of targets, few, do without. */
template <class E, bool PLAIN>
static __device__ __forceinline__ bool interpolates(const gpu_outlines &p,
                                                    const gpu_outline_job &job) {
    return sizeof(E) == 4 && PLAIN && p.radial != NULL && job.table != NULL && job.table->n >= 3 &&
           job.one.sensor != p.aim.sensor && job.other.sensor != p.aim.sensor;
}

template <class E, bool PLAIN>
static __device__ __forceinline__ double rough_radius(const gpu_outlines &p,
                                                      const gpu_outline_job &job) {
    const bool moves = interpolates<E, PLAIN>(p, job);
    return sizeof(E) == 8 || p.radial == NULL || (job.table != NULL && !moves) ||
                   job.pair.parts[0] * job.pair.parts[1] > 1
               ? 0.0
           : moves ? ROUGH_LATTICE
                   : ROUGH_RADIUS;
}

/* Squared separations for two footprints of such sizes. always: of stars of 1 and 2; rough: the
 * radius for nodes of a difference in single precision, or 0. */
static __device__ void set_reach(layer_of &to, double size_a, double size_b, bool always,
                                 double rough) {
    const double mean2 = 0.5 * (size_a * size_a + size_b * size_b);
    const double near = rough > 0.0 ? rough : OUTLINE_RADIUS,
                 apart = rough > 0.0 ? ROUGH_APART : OUTLINE_APART;
    to.near2 = always ? INFINITY : near * near * mean2;
    to.apart2 = always ? INFINITY : apart * apart * mean2;
    to.rough2 = always ? INFINITY : OUTLINE_RADIUS * OUTLINE_RADIUS * mean2;
    to.moments2 = OUTLINE_MOMENTS * OUTLINE_MOMENTS * mean2;
}

/* Layers l0 .. l0 + n for outline k of a job. */
static __device__ void prepare(const gpu_outlines &p, const gpu_outline_job &job, int k, int l0,
                               int n, double rough, layer_of *sh) {
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
    to.grid2 = (p.radial != NULL ? (double)GPU_NEAR : 1.0) * t.near2;
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
              a.outline.always || (b.outline.n > 0 && b.outline.always), rough);
    if (job.one.sensor == job.other.sensor)
        to.moments2 = INFINITY;
    if (job.table != NULL)
        to.rough2 = to.near2;
}

/* The phase's tables on layers l0 .. l0 + n, of sensor s. */
template <class P, class T>
static __device__ void prepare_phase(const P &p, const gpu_cov_sensor &s, int l0, int n,
                                     double expanded, phase_tables<T> *to) {
    if ((int)threadIdx.x >= n || s.phase_class < 0)
        return;
    const int table = p.gradients.table[s.phase_class * p.gradients.nlayer + l0 + threadIdx.x];
    const matcov_gradient *t = p.gradients.tables + (table < 0 ? 0 : table);
    phase_tables<T> v = {t, p.gradients.values, NULL, grids_of<T>(p.gradients, *t, 1.0f), 0, 0, 0};
    if (sizeof(T) == 4 && p.radial != NULL) {
        const gpu_cov_layer &lay = p.layers[l0 + threadIdx.x];
        const double size = s.size * (1.0 - lay.h / s.altitude), scaled = size * lay.kappa;
        v.radial = p.radial + (l0 + (int)threadIdx.x >= p.kolmogorov);
        v.near.near2 = (T)(expanded * expanded * size * size);
        v.kappa2 = (float)(lay.kappa * lay.kappa);
        v.gain = (float)(0.5 * scaled * lay.kappa), v.e2 = (float)(scaled * scaled / 24.0);
    }
    to[threadIdx.x] = v;
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
        int k, double2 centre, int nk, table_sums<T> &e, bool *apart, bool *added) {
    const double dx = l.x - l.other * centre.x, dy = l.y - l.other * centre.y;
    const double r2 = dx * dx + dy * dy;
    *apart = r2 >= l.apart2;
    *added |= r2 < l.rough2;
    if (r2 < l.near2)
        return true;
    const bool moments = p.moments && r2 < l.moments2;
    if (!PLAIN && (t.divided || (sizeof(T) == 4 && moments))) {
        const table_sums<double> sum = places_at(p, job, t, l, k, nk, moments, dx, dy);
        e.p += (T)sum.p, e.xx += (T)sum.xx, e.xy += (T)sum.xy, e.yy += (T)sum.yy;
        for (int i = 0; i < 4; i++)
            e.grid.v[i] += (T)sum.grid.v[i];
    } else if (sizeof(T) == 4 && r2 < l.rough2) {
        add_places<T, true>(p, job, t, l, k, nk, true, (T)dx, (T)dy, e);
    } else if (moments || (job.table != NULL && !interpolates<T, PLAIN>(p, job))) {
        add_places<T, sizeof(T) == 8>(p, job, t, l, k, nk, sizeof(T) == 8 && moments, (T)dx, (T)dy,
                                      e);
    }
    return false;
}

/* ---- differences in single precision of sensors on a lattice: the table of the lattice itself,
 * sums over all layers of covariances of whole squares, gives that of squares at the centroids of
 * lit parts by interpolation, of the second order, about the pair's place (6 of its entries). What
 * is near and has nodes is taken out of the interpolation by the same weights. */

#define STENCIL 6
struct stencil {
    float x, y;       /* of the centroids' separation less that of place 0, in the table's steps */
    float xx, yy, xy; /* products of that, and what lit parts add to the second moments; xy times */
    float sx, sy;     /* the signs of x and y, towards the sixth place */
};

static __device__ __forceinline__ void stencil_place(const stencil &s, int k, float *i, float *j) {
    *i = k == 1 ? 1.0f : k == 2 ? -1.0f : k == 5 ? s.sx : 0.0f;
    *j = k == 3 ? 1.0f : k == 4 ? -1.0f : k == 5 ? s.sy : 0.0f;
}

static __device__ __forceinline__ float stencil_weight(const stencil &s, int k) {
    switch (k) {
    case 0:
        return 1.0f - s.xx - s.yy + s.xy;
    case 1:
        return 0.5f * (s.xx + s.x) - (s.sx > 0.0f ? s.xy : 0.0f);
    case 2:
        return 0.5f * (s.xx - s.x) - (s.sx > 0.0f ? 0.0f : s.xy);
    case 3:
        return 0.5f * (s.yy + s.y) - (s.sy > 0.0f ? s.xy : 0.0f);
    case 4:
        return 0.5f * (s.yy - s.y) - (s.sy > 0.0f ? 0.0f : s.xy);
    default:
        return s.xy;
    }
}

/* The pair's first is `one` where it is in the rows. */
static __device__ __forceinline__ bool is_flipped(const gpu_outline_job &job) {
    return job.reversed == job.down;
}

/* Place of a pair in the table of a lattice; that of place 0, so that all are in the table. */
static __device__ __forceinline__ int2 lattice_place(const gpu_outlines &p,
                                                     const gpu_outline_job &job, int ka, int kb) {
    const gpu_cov_table &t = *job.table;
    const int2 pa = p.sensors[job.one.sensor].place[ka], pb = p.sensors[job.other.sensor].place[kb];
    const int2 first = is_flipped(job) ? pb : pa, second = is_flipped(job) ? pa : pb;
    return make_int2(t.steps[0] * first.x - t.steps[1] * second.x + t.origin,
                     t.steps[0] * first.y - t.steps[1] * second.y + t.origin);
}
static __device__ __forceinline__ int within(const gpu_cov_table &t, int i) {
    return min(max(i, 1), t.n - 2);
}

/* Second moments of outline k's lit part less those of its square, in the axes (c, s) and units of
 * u: xx, yy, xy. */
static __device__ void add_moments(const gpu_cov_sensor &w, int k, double c, double s, double u,
                                   double to[3]) {
    for (int axis = 0; axis < 2 && k >= 0; axis++) {
        const double *m = w.outline.moments + 6 * k + 3 * axis;
        const double x = (c * m[0] + s * m[1]) / u, y = (c * m[1] - s * m[0]) / u,
                     twice = 2.0 * m[2];
        to[0] += twice * x * x, to[1] += twice * y * y, to[2] += twice * x * y;
    }
}

/* Outline k with subaperture kb, or (nk >= 0) the other sensor's outline nk. */
static __device__ stencil stencil_of(const gpu_outlines &p, const gpu_outline_job &job, int k,
                                     int kb, int nk) {
    const gpu_cov_table &t = *job.table;
    const gpu_cov_sensor &one = p.sensors[job.one.sensor], &other = p.sensors[job.other.sensor];
    const bool flipped = is_flipped(job);
    const gpu_cov_sensor &a = flipped ? other : one, &b = flipped ? one : other;
    const int ka = one.outline.sub[k], first = flipped ? kb : ka, second = flipped ? ka : kb;
    const int2 at = lattice_place(p, job, ka, kb);
    const double u = a.size / t.steps[0], half = 0.5 * (t.steps[0] - t.steps[1]) - t.origin;
    const double dx = a.centre[first].x - b.centre[second].x - a.shift[0] + b.shift[0],
                 dy = a.centre[first].y - b.centre[second].y - a.shift[1] + b.shift[1];
    double m[3] = {0.0, 0.0, 0.0};
    add_moments(one, k, a.cos_rot, a.sin_rot, u, m);
    add_moments(other, nk, a.cos_rot, a.sin_rot, u, m);
    stencil s;
    s.x = (float)((a.cos_rot * dx + a.sin_rot * dy) / u - (within(t, at.x) + half));
    s.y = (float)((a.cos_rot * dy - a.sin_rot * dx) / u - (within(t, at.y) + half));
    s.sx = s.x < 0.0f ? -1.0f : 1.0f, s.sy = s.y < 0.0f ? -1.0f : 1.0f;
    s.xx = s.x * s.x + (float)m[0], s.yy = s.y * s.y + (float)m[1];
    s.xy = s.sx * s.sy * (s.x * s.y + (float)m[2]);
    return s;
}

/* What the interpolation gives, less the table's entry. */
static __device__ double stencil_entry(const gpu_outlines &p, const gpu_outline_job &job,
                                       const stencil &s, int ka, int kb, int axis_a, int axis_b) {
    const gpu_cov_table &t = *job.table;
    const int2 at = lattice_place(p, job, ka, kb);
    const double *v =
        t.value + (size_t)(is_flipped(job) ? axis_b + 2 * axis_a : axis_a + 2 * axis_b) * t.n * t.n;
    double sum = -v[at.y * t.n + at.x];
#pragma unroll
    for (int k = 0; k < STENCIL; k++) {
        float i, j;
        stencil_place(s, k, &i, &j);
        sum += (double)stencil_weight(s, k) *
               v[(within(t, at.y) + (int)j) * t.n + within(t, at.x) + (int)i];
    }
    return sum;
}

/* What the interpolation has of a layer whose centroids are at (dx, dy). */
static __device__ __noinline__ four<float> stencil_at(const gpu_outlines &p,
                                                      const gpu_outline_job &job,
                                                      const job_tables &t, const layer_of &l,
                                                      const stencil &s, float dx, float dy) {
    const gpu_cov_sensor &a = p.sensors[is_flipped(job) ? job.other.sensor : job.one.sensor];
    const float u = (float)(l.one * a.size / job.table->steps[0]) *
                    (is_flipped(job) ? -1.0f : 1.0f),
                ux = u * (float)a.cos_rot, uy = u * (float)a.sin_rot,
                factor = (float)(l.coef * job.pair.scale);
    table_sums<float> sum = {};
    four<float> e = {};
#pragma unroll 1
    for (int k = 0; k < STENCIL; k++) {
        float i, j;
        stencil_place(s, k, &i, &j);
        i -= s.x, j -= s.y;
        add_place<float, true>(p.gradients, l, t, dx + ux * i - uy * j, dy + uy * i + ux * j,
                               factor * stencil_weight(s, k), sum);
    }
    turn_sums(t, sum, e.v);
    return e;
}

/* Covariances of whole squares, of which nodes take the place. */
template <class T>
static __device__ __forceinline__ four<T>
replaced_at(const gpu_outlines &p, const gpu_outline_job &job, const job_tables &t,
            const layer_of &l, const stencil &s, double dx, double dy) {
    if constexpr (sizeof(T) == 4)
        if (job.table != NULL)
            return stencil_at(p, job, t, l, s, (float)dx, (float)dy);
    return square_at<T>(p, job, t, l, dx, dy);
}

#endif
