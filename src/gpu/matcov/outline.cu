/* Entries of partly lit subapertures: what nodes on their outlines change of tables of whole
 * squares. Model section 4. */
#include "matcov/gradient_formula.h"
#include "matcov/outline_formula.h"
#include "matcov_host.cuh"
#include "outline.cuh"
#include "structure.cuh"
#include <cuda_fp16.h>

/* A layer's structure function; the coarse table for results of type S. */
struct layer_function {
    const gpu_structure *tables;
    double kappa2;
    char kolmogorov, coarse;
};

template <class S>
static __device__ __forceinline__ double structure_of(const S &table, double kappa2, double r2) {
    const double least = __hiloint2double((1023 + S::first) << 20, 0);
    double sum = 0.0;
    float rest = 0.0f;
    add_structure(table, fma(kappa2, r2, least), 1.0, 1.0f, sum, rest);
    return sum + rest;
}

static __device__ __forceinline__ double structure_finest(const layer_function &f, double r2) {
    return structure_of(f.tables->finest[(int)f.kolmogorov], f.kappa2, r2);
}

static __device__ __forceinline__ double structure_at(const layer_function &f, double r2) {
    return f.coarse ? structure_of(f.tables->coarse[(int)f.kolmogorov], f.kappa2, r2)
                    : structure_finest(f, r2);
}

/* Where a layer has the place p of the pupil: at c p + of [m]. */
typedef struct {
    double c, of[2];
} outline_place;

/* e[axis of a + 2 axis of b] += factor times the covariance by nodes of set sa of outline ia with
 * those of set sb of outline ib, in units of the scale-free structure function. Nodes lane, lane +
 * lanes ... of a. */
static __device__ inline void outline_sets(const layer_function &layer, const matcov_outline *a,
                                           int sa, int ia, const outline_place *pa,
                                           const matcov_outline *b, int sb, int ib,
                                           const outline_place *pb, double factor, int lane,
                                           int lanes, double e[4]) {
    for (int i = a->first[sa][ia] + lane; i < a->first[sa][ia + 1]; i += lanes) {
        const double x = pa->c * a->x[sa][i] + pa->of[0] - pb->of[0];
        const double y = pa->c * a->y[sa][i] + pa->of[1] - pb->of[1];
        double sum[2] = {0.0, 0.0};
#pragma unroll 4 /* several nodes wait for their tables at a time */
        for (int j = b->first[sb][ib]; j < b->first[sb][ib + 1]; j++) {
            const double dx = x - pb->c * b->x[sb][j], dy = y - pb->c * b->y[sb][j];
            const double d = structure_at(layer, dx * dx + dy * dy);
            sum[0] += d * b->w[sb][0][j];
            sum[1] += d * b->w[sb][1][j];
        }
        for (int k = 0; k < 4; k++)
            e[k] -= 0.5 * factor * a->w[sa][k % 2][i] * sum[k / 2];
    }
}

static __device__ inline void outline_pair(const layer_function &layer, const matcov_outline *a,
                                           int ia, const outline_place *pa, const matcov_outline *b,
                                           int ib, const outline_place *pb, bool apart,
                                           double factor, int lane, int lanes, double e[4]) {
    const double other = 0.5 * (1.0 - OUTLINE_SAME) * factor;
    if (apart) {
        outline_sets(layer, a, 2, ia, pa, b, 2, ib, pb, factor, lane, lanes, e);
        return;
    }
    outline_sets(layer, a, 0, ia, pa, b, 0, ib, pb, OUTLINE_SAME * factor, lane, lanes, e);
    outline_sets(layer, a, 0, ia, pa, b, 1, ib, pb, other, lane, lanes, e);
    outline_sets(layer, a, 1, ia, pa, b, 0, ib, pb, other, lane, lanes, e);
}

/* The same with a whole subaperture around (x, y) on the layer [m], from its covariance with the
 * phase; turn: (cos, sin) of its sensor's rotation. */
static __device__ inline void outline_whole(const matcov_gradient *phase, const double *values,
                                            const matcov_outline *a, int ia,
                                            const outline_place *pa, double x, double y,
                                            const double turn[2], bool apart, double factor,
                                            double e[4]) {
    const int set = apart ? 2 : 1;
    for (int i = a->first[set][ia]; i < a->first[set][ia + 1]; i++) {
        double f[2];
        gradient_phases(phase, values, turn, pa->c * a->x[set][i] + pa->of[0] - x,
                        pa->c * a->y[set][i] + pa->of[1] - y, f);
        for (int b = 0; b < 2; b++) {
            e[2 * b] += factor * f[b] * a->w[set][0][i];
            e[2 * b + 1] += factor * f[b] * a->w[set][1][i];
        }
    }
}

/* e[axis] += factor times the covariance of the phase at (x, y) on the layer [m] with outline i. */
static __device__ inline void outline_point(const layer_function &layer, const matcov_outline *o,
                                            int i, const outline_place *po, double x, double y,
                                            bool apart, double factor, double e[2]) {
    const int set = apart ? 2 : 1;
#pragma unroll 4
    for (int k = o->first[set][i]; k < o->first[set][i + 1]; k++) {
        const double dx = x - po->of[0] - po->c * o->x[set][k],
                     dy = y - po->of[1] - po->c * o->y[set][k];
        const double d = -0.5 * factor * structure_at(layer, dx * dx + dy * dy);
        e[0] += d * o->w[set][0][k];
        e[1] += d * o->w[set][1][k];
    }
}

/* e[axis of the first + 2 axis of the second] += factor times the covariance of two mean gradients
 * by their table; (dx, dy): the first's centre less the second's [m]. axes: with either axis of the
 * second. */
static __device__ inline void outline_table(const matcov_gradient *t, const double *values,
                                            const gradient_axes axes[2], double dx, double dy,
                                            double factor, double e[4]) {
    const double s = dx * dx + dy * dy, c = axes[0].rows[0], s1 = axes[0].rows[1];
    double m;
    if (s < t->near2) {
        const double x = axes[0].turn[0] * dx + axes[0].turn[1] * dy;
        const double y = axes[0].turn[0] * dy - axes[0].turn[1] * dx;
        for (int k = 0; k < 4; k++)
            e[k] += factor * gradient_near(t, values + t->near, axes[k / 2].kind[k % 2], x, y);
        return;
    }
    const double *at =
        values + t->radial + (size_t)gradient_interval(t, s, &m) * 2 * GRADIENT_TERMS;
    double k[8];
    for (int i = 0; i < 8; i += 2)
        gradient_two(at + i, k + i);
    const double P = factor * (k[0] + m * (k[1] + m * (k[2] + m * k[3])));
    const double Q = factor * (k[4] + m * (k[5] + m * (k[6] + m * k[7])));
    for (int b = 0; b < 2; b++) {
        const double vx = axes[b].v[0], vy = axes[b].v[1], q = (vx * dx + vy * dy) * Q;
        e[2 * b] += (c * vx + s1 * vy) * P + (c * dx + s1 * dy) * q;
        e[2 * b + 1] += (c * vy - s1 * vx) * P + (c * dy - s1 * dx) * q;
    }
}

/* e += factor times what the second moments of outline i add to outline_table, beyond
 * OUTLINE_RADIUS: second differences of the covariance over a subaperture. c:
 * the outline's scale on the layer. */
static __device__ inline void outline_moments(const matcov_gradient *t, const double *values,
                                              const gradient_axes axes[2], const matcov_outline *o,
                                              int i, double c, double dx, double dy, double factor,
                                              double e[4]) {
    const double *m = o->moments + 6 * i;
    outline_table(t, values, axes, dx, dy, -2.0 * factor * (m[2] + m[5]), e);
    for (int k = 0; k < 2; k++) {
        const double x = c * m[3 * k], y = c * m[3 * k + 1], f = factor * m[3 * k + 2];
        outline_table(t, values, axes, dx + x, dy + y, f, e);
        outline_table(t, values, axes, dx - x, dy - y, f, e);
    }
}

#define THREADS 128
#define WARP 32
#define CHUNK WARP /* layers prepared at a time, and tested against a warp's box, one a lane */
#define ALL 0xffffffffu
#define POINT_LAYERS (3 * WARP) /* the same where a block has points */

/* A layer as the outline of a block sees it, less the other side's offset. */
struct layer_of {
    bool seen;
    layer_function f;
    outline_place one, other;
    double x, y, coef; /* of the outline's centre, less the other side's offset */
    double near2, apart2, moments2;
    int table, phase;
};

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
    if (l < n && sh[l].seen) {
        const layer_of &v = sh[l];
        const double c = v.other.c;
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

template <class P> static __device__ layer_function function_of(const P &p, int l, bool coarse) {
    const double kappa = p.layers[l].kappa;
    return layer_function{p.structure, kappa * kappa, (char)(l >= p.kolmogorov), (char)coarse};
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
                               int n, bool coarse, layer_of *sh) {
    const gpu_cov_sensor &a = p.sensors[job.one.sensor], &b = p.sensors[job.other.sensor];
    if ((int)threadIdx.x >= n)
        return;
    const int l = l0 + threadIdx.x;
    const gpu_cov_layer &lay = p.layers[l];
    layer_of &to = sh[threadIdx.x];
    to.table = p.gradients.table[job.pair.gradient * p.gradients.nlayer + l];
    to.seen = place_of(p, lay, job.one.sensor, &to.one) &&
              place_of(p, lay, job.other.sensor, &to.other) && to.table >= 0 && !is_one(p, l - 1);
    to.phase = b.phase_class >= 0 ? p.gradients.table[b.phase_class * p.gradients.nlayer + l] : -1;
    to.f = function_of(p, l, coarse);
    to.coef = coefficient_of(p, l);
    const double2 centre = a.centre[a.outline.sub[k]];
    to.x = to.one.c * centre.x + to.one.of[0] - to.other.of[0];
    to.y = to.one.c * centre.y + to.one.of[1] - to.other.of[1];
    set_reach(to, a.size * to.one.c, b.size * to.other.c,
              a.outline.always || (b.outline.n > 0 && b.outline.always));
    if (job.one.sensor == job.other.sensor)
        to.moments2 = INFINITY;
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
            f(dx + l.one.c * pa.x - l.other.c * pb.x, dy + l.one.c * pa.y - l.other.c * pb.y);
        }
}

/* outline_table for results of type S, beyond the grids: straight lines (gpu_cov_gradients). */
static __device__ __forceinline__ void add_line(const gpu_cov_gradients &g, int table,
                                                const gradient_axes axes[2], double x, double y,
                                                double factor, double e[4]) {
    const float dx = (float)x, dy = (float)y, s = dx * dx + dy * dy;
    const int low = ((g.tables[table].lowest >> GRADIENT_BITS) - 1023 + 127) << GPU_LINE_BITS;
    const int i = min((__float_as_int(s) >> (23 - GPU_LINE_BITS)) - low, GPU_LINES - 1);
    const float m =
        __int_as_float((__float_as_int(s) & ((1 << (23 - GPU_LINE_BITS)) - 1)) | 0x3f800000);
    const float4 k = g.lines[(size_t)table * GPU_LINES + i];
    const float P = (float)factor * fmaf(k.y, m, k.x), Q = (float)factor * fmaf(k.w, m, k.z);
    const float c = (float)axes[0].rows[0], t = (float)axes[0].rows[1];
    for (int b = 0; b < 2; b++) {
        const float vx = (float)axes[b].v[0], vy = (float)axes[b].v[1], q = (vx * dx + vy * dy) * Q;
        e[2 * b] += (c * vx + t * vy) * P + (c * dx + t * dy) * q;
        e[2 * b + 1] += (c * vy - t * vx) * P + (c * dy - t * dx) * q;
    }
}

/* Add the tables' covariances at separation (dx, dy). */
template <bool SINGLE>
static __device__ __forceinline__ void add_table(const gpu_outlines &p, const gpu_outline_job &job,
                                                 const job_tables &t, const layer_of &l, double dx,
                                                 double dy, double sign, double e[4]) {
    const double factor = sign * l.coef * job.pair.scale;
    const matcov_gradient *table = &p.gradients.tables[l.table];
    for_parts(p, job, l, t.divided, dx, dy, [&](double x, double y) {
        if (SINGLE && x * x + y * y >= table->near2)
            add_line(p.gradients, l.table, t.axes, x, y, factor, e);
        else
            outline_table(table, p.gradients.values, t.axes, x, y, factor, e);
    });
}

/* Add what second moments change of the tables' covariances; nk >= 0: of outline nk too. */
static __device__ __forceinline__ void add_moments(const gpu_outlines &p,
                                                   const gpu_outline_job &job, const job_tables &t,
                                                   const layer_of &l, int k, int nk, double dx,
                                                   double dy, double e[4]) {
    const gpu_cov_sensor &a = p.sensors[job.one.sensor], &b = p.sensors[job.other.sensor];
    for_parts(p, job, l, t.divided, dx, dy, [&](double x, double y) {
        for (int side = 0; side < (nk >= 0 ? 2 : 1); side++)
            outline_moments(&p.gradients.tables[l.table], p.gradients.values, t.axes,
                            side ? &b.outline : &a.outline, side ? nk : k,
                            side ? l.other.c : l.one.c, x, y, l.coef * job.pair.scale, e);
    });
}

/* What a layer changes without nodes, for outline k and subaperture (or outline, nk >= 0) kb;
 * whether nodes serve. Of a lattice all is taken away in the end. */
template <bool SINGLE>
static __device__ __forceinline__ bool add_far(const gpu_outlines &p, const gpu_outline_job &job,
                                               const job_tables &t, const layer_of &l, int k,
                                               double2 centre, int nk, double e[4]) {
    const double dx = l.x - l.other.c * centre.x, dy = l.y - l.other.c * centre.y;
    const double r2 = dx * dx + dy * dy;
    const bool near = r2 < l.near2;
    if (near != (job.table != NULL))
        add_table<SINGLE>(p, job, t, l, dx, dy, near ? -1.0 : 1.0, e);
    if (!near && p.moments && r2 < l.moments2)
        add_moments(p, job, t, l, k, nk, dx, dy, e);
    return near;
}

/* Add what the nodes have; of two outlines (nk >= 0) by the lanes of a warp. */
static __device__ __forceinline__ void add_near(const gpu_outlines &p, const gpu_outline_job &job,
                                                const layer_of &l, int k, double2 centre, int nk,
                                                double e[4]) {
    const gpu_cov_sensor &a = p.sensors[job.one.sensor], &b = p.sensors[job.other.sensor];
    const double dx = l.x - l.other.c * centre.x, dy = l.y - l.other.c * centre.y;
    const double scale = l.coef * formula_slope_scale(1.0, 1.0);
    const bool apart = dx * dx + dy * dy >= l.apart2;
    if (nk >= 0) {
        outline_pair(l.f, &a.outline, k, &l.one, &b.outline, nk, &l.other, apart, scale,
                     threadIdx.x % WARP, WARP, e);
        return;
    }
    const double turn[2] = {b.cos_rot, b.sin_rot};
    outline_whole(&p.gradients.tables[l.phase], p.gradients.values, &a.outline, k, &l.one,
                  l.other.c * centre.x + l.other.of[0], l.other.c * centre.y + l.other.of[1], turn,
                  apart, scale / b.size, e);
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

/* Outlines with whole subapertures. Every thread collects the layers on which nodes serve before it
 * takes them one by one, so that the threads of a warp are at nodes at the same time. Grid:
 * subapertures, outlines, jobs. */
template <class E>
static __global__ __launch_bounds__(THREADS) void whole(const __grid_constant__ gpu_outlines p) {
    __shared__ layer_of sh[CHUNK];
    const gpu_outline_job &job = p.job[blockIdx.z];
    const gpu_cov_sensor &b = p.sensors[job.other.sensor];
    const int k = job.o0 + blockIdx.y, i = blockIdx.x * THREADS + threadIdx.x;
    double e[4] = {0.0, 0.0, 0.0, 0.0};
    if ((int)blockIdx.y >= job.no || (int)(blockIdx.x * THREADS) >= job.nb)
        return;
    const int kb = job.kb + min(i, job.nb - 1);
    const bool mine = i < job.nb && (b.outline.n == 0 || b.outline.number[kb] < 0);
    const double2 centre = b.centre[kb];
    const box around = box_of(centre.x, centre.y);
    const job_tables t = tables_of(p, job);
    for (int l0 = 0; l0 < p.nlayer; l0 += CHUNK) {
        const int n = min(CHUNK, p.nlayer - l0);
        __syncthreads();
        prepare(p, job, k, l0, n, sizeof(E) == 4, sh);
        __syncthreads();
        unsigned todo =
            __ballot_sync(ALL, (int)(threadIdx.x % WARP) < n && sh[threadIdx.x % WARP].seen);
        if (job.table == NULL)
            todo &= layers_near(around, sh, n, p.moments);
        unsigned near = 0;
        for (; todo != 0 && mine; todo &= todo - 1) {
            const int l = __ffs(todo) - 1;
            if (add_far<sizeof(E) == 4>(p, job, t, sh[l], k, centre, -1, e))
                near |= 1u << l;
        }
        __syncwarp();
        for (; near != 0; near &= near - 1)
            add_near(p, job, sh[__ffs(near) - 1], k, centre, -1, e);
    }
    if (mine)
        put<E>(p, job, k, kb, false, e);
}

/* Outlines with outlines, a warp for each pair: a layer a lane without nodes, then all lanes for
 * the nodes of a layer. Grid: the other side's, outlines, jobs. */
template <class E>
static __global__ __launch_bounds__(THREADS) void pairs(const __grid_constant__ gpu_outlines p) {
    __shared__ layer_of sh[CHUNK];
    const gpu_outline_job &job = p.job[blockIdx.z];
    const gpu_cov_sensor &b = p.sensors[job.other.sensor];
    const int k = job.o0 + blockIdx.y, lane = threadIdx.x % WARP;
    const int i = blockIdx.x * (THREADS / WARP) + threadIdx.x / WARP;
    double e[4] = {0.0, 0.0, 0.0, 0.0};
    if ((int)blockIdx.y >= job.no || (int)(blockIdx.x * (THREADS / WARP)) >= job.nb)
        return;
    const int nk = job.kb + min(i, job.nb - 1), kb = b.outline.sub[nk];
    const double2 centre = b.centre[kb];
    const job_tables t = tables_of(p, job);
    for (int l0 = 0; l0 < p.nlayer; l0 += CHUNK) {
        const int n = min(CHUNK, p.nlayer - l0);
        __syncthreads();
        prepare(p, job, k, l0, n, sizeof(E) == 4, sh);
        __syncthreads();
        unsigned near =
            __ballot_sync(ALL, lane < n && sh[lane].seen &&
                                   add_far<sizeof(E) == 4>(p, job, t, sh[lane], k, centre, nk, e));
        for (; near != 0; near &= near - 1)
            add_near(p, job, sh[__ffs(near) - 1], k, centre, nk, e);
    }
    for (int v = 0; v < 4; v++)
        for (int d = WARP / 2; d > 0; d /= 2)
            e[v] += __shfl_xor_sync(ALL, e[v], d);
    if (lane == 0 && i < job.nb)
        put<E>(p, job, k, kb, true, e);
}

/* Layers l0 .. l0 + n for subaperture `sub` of the outlines' sensor. */
static __device__ void prepare_point(const gpu_outline_points &p, int l0, int n, int sub,
                                     bool coarse, layer_of *sh) {
    const gpu_cov_sensor &a = p.sensors[p.one];
    if ((int)threadIdx.x >= n)
        return;
    const int l = l0 + threadIdx.x;
    const gpu_cov_layer &lay = p.layers[l];
    const double still[2] = {0.0, 0.0};
    layer_of &to = sh[threadIdx.x];
    const bool there = p.sensor >= 0 ? place_of(p, lay, p.sensor, &to.other)
                                     : formula_on_layer(lay.h, 1.0, INFINITY, p.aim.dir,
                                                        p.aim.drifts ? lay.drift : still,
                                                        &to.other.c, to.other.of) != 0;
    to.phase = p.gradients.table[a.phase_class * p.gradients.nlayer + l];
    to.seen = place_of(p, lay, p.one, &to.one) && there && to.phase >= 0 && !is_one(p, l - 1);
    to.f = function_of(p, l, coarse);
    to.coef = coefficient_of(p, l) * p.scale;
    to.x = to.one.c * a.centre[sub].x + to.one.of[0] - to.other.of[0];
    to.y = to.one.c * a.centre[sub].y + to.one.of[1] - to.other.of[1];
    set_reach(to, 0.0, a.size * to.one.c, a.outline.always);
}

/* Nodes of outline k in place of the table of its square. */
static __device__ __forceinline__ void add_point(const gpu_outline_points &p,
                                                 const gpu_cov_sensor &a, const layer_of &v, int k,
                                                 double2 at, const double turn[2], double e[2]) {
    const double x = v.other.c * at.x, y = v.other.c * at.y, dx = x - v.x, dy = y - v.y;
    double square[2];
    outline_point(v.f, &a.outline, k, &v.one, x + v.other.of[0], y + v.other.of[1],
                  dx * dx + dy * dy >= v.apart2, v.coef, e);
    gradient_phases(&p.gradients.tables[v.phase], p.gradients.values, turn, dx, dy, square);
    for (int s = 0; s < 2; s++)
        e[s] -= v.coef / a.size * square[s];
}

/* Points with outlines; few of the layers are near a point, and most points are near none. Grid:
 * points, outlines. */
template <class E>
static __global__
__launch_bounds__(THREADS) void points(const __grid_constant__ gpu_outline_points p) {
    __shared__ layer_of sh[POINT_LAYERS];
    const gpu_cov_sensor &a = p.sensors[p.one];
    const int k = p.o0 + blockIdx.y, sub = a.outline.sub[k];
    const double turn[2] = {a.cos_rot, a.sin_rot};
    const int i = blockIdx.x * THREADS + threadIdx.x, at = min(i, p.np - 1);
    const double2 place = p.sensor >= 0
                              ? p.sensors[p.sensor].edge[GPU_COV_ROWS][p.axis][p.first + at]
                              : make_double2(p.px[at], p.py[at]);
    const box around = box_of(place.x, place.y);
    for (int l0 = 0; l0 < p.nlayer; l0 += POINT_LAYERS) {
        const int n = min(POINT_LAYERS, p.nlayer - l0);
        __syncthreads();
        prepare_point(p, l0, n, sub, sizeof(E) == 4, sh);
        __syncthreads();
        unsigned any = 0;
        double e[2] = {0.0, 0.0};
        for (int w = 0; w < n; w += WARP) {
            unsigned near = 0;
            for (unsigned todo = layers_near(around, sh + w, n - w, false); todo != 0;
                 todo &= todo - 1) {
                const layer_of &v = sh[w + __ffs(todo) - 1];
                const double dx = v.other.c * place.x - v.x, dy = v.other.c * place.y - v.y;
                if (dx * dx + dy * dy < v.near2)
                    near |= todo & -todo;
            }
            any |= near;
            for (; near != 0; near &= near - 1)
                add_point(p, a, sh[w + __ffs(near) - 1], k, place, turn, e);
            __syncwarp();
        }
        for (int s = 0; s < 2 && any != 0 && i < p.np; s++)
            if (p.wanted[s])
                add_entry((E *)p.a, i + (p.col[s] + sub) * p.lda, p.to_fp16, e[s]);
    }
}

status gpu_outline_add(cudaStream_t stream, backend_type t, const gpu_outlines *p, bool both) {
    int no = 0, nb = 0;
    for (int i = 0; i < p->njob; i++) {
        no = p->job[i].no > no ? p->job[i].no : no;
        nb = p->job[i].nb > nb ? p->job[i].nb : nb;
    }
    if (no == 0 || nb == 0)
        return MOAO_OK;
    const int each = both ? THREADS / 32 : THREADS;
    const dim3 blocks((nb + each - 1) / each, no, p->njob);
    if (t == BACKEND_D && both)
        pairs<double><<<blocks, THREADS, 0, stream>>>(*p);
    else if (t == BACKEND_D)
        whole<double><<<blocks, THREADS, 0, stream>>>(*p);
    else if (both)
        pairs<float><<<blocks, THREADS, 0, stream>>>(*p);
    else
        whole<float><<<blocks, THREADS, 0, stream>>>(*p);
    LAUNCHED();
    return MOAO_OK;
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
