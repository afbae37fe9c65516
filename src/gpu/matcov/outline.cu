/* Entries of partly lit subapertures: what nodes on their outlines change of tables of whole
 * squares. Model section 4. */
#include "matcov_host.cuh"
#include "outline.cuh"
#include "structure.cuh"
#include <cuda_fp16.h>

/* A layer's structure function. */
struct layer_function {
    const gpu_shape_finest *table;
    double kappa2;
};

static __device__ __noinline__ double structure_at(const layer_function &f, double r2) {
    const double least = __hiloint2double((1023 + gpu_shape_finest::first) << 20, 0);
    double sum = 0.0;
    float rest = 0.0f;
    add_structure(*f.table, fma(f.kappa2, r2, least), 1.0, 1.0f, sum, rest);
    return sum + rest;
}

#define OUTLINE_WHERE __device__
#define OUTLINE_LAYER const layer_function &
#define OUTLINE_STRUCTURE(layer, s) structure_at(layer, s)
#include "matcov/outline_formula.h"

#define THREADS 128
#define CHUNK 32 /* layers prepared at a time */

/* A layer as the outline of a block sees it, less the other side's offset. */
struct layer_of {
    bool seen;
    layer_function f;
    outline_place one, other;
    double x, y, coef; /* of the outline's centre, less the other side's offset */
    double near2, apart2;
    int table, phase;
};

template <class P>
static __device__ bool place_of(const P &p, const gpu_cov_layer &l, int sensor, outline_place *at) {
    const gpu_cov_sensor &w = p.sensors[sensor];
    const double still[2] = {0.0, 0.0};
    const bool aimed = sensor == p.aim.sensor;
    return formula_on_layer(l.h, 1.0, w.altitude, aimed ? p.aim.dir : w.dir,
                            aimed && p.aim.drifts ? l.drift : still, &at->c, at->of);
}

template <class P> static __device__ layer_function function_of(const P &p, int l) {
    const double kappa = p.layers[l].kappa;
    return layer_function{&p.structure->finest[l >= p.kolmogorov], kappa * kappa};
}

/* Squared separations for two footprints of such sizes. always: of stars of 1 and 2. */
static __device__ void set_reach(layer_of &to, double size_a, double size_b, bool always) {
    const double mean2 = 0.5 * (size_a * size_a + size_b * size_b);
    to.near2 = always ? INFINITY : OUTLINE_RADIUS * OUTLINE_RADIUS * mean2;
    to.apart2 = always ? INFINITY : OUTLINE_APART * OUTLINE_APART * mean2;
}

/* Layers l0 .. l0 + n for outline k of a job. */
static __device__ void prepare(const gpu_outlines &p, const gpu_outline_job &job, int k, int l0,
                               int n, layer_of *sh) {
    const gpu_cov_sensor &a = p.sensors[job.one.sensor], &b = p.sensors[job.other.sensor];
    if ((int)threadIdx.x >= n)
        return;
    const int l = l0 + threadIdx.x;
    const gpu_cov_layer &lay = p.layers[l];
    layer_of &to = sh[threadIdx.x];
    to.table = p.gradients.table[job.pair.gradient * p.gradients.nlayer + l];
    to.seen = place_of(p, lay, job.one.sensor, &to.one) &&
              place_of(p, lay, job.other.sensor, &to.other) && to.table >= 0;
    to.phase = b.phase_class >= 0 ? p.gradients.table[b.phase_class * p.gradients.nlayer + l] : -1;
    to.f = function_of(p, l);
    to.coef = lay.coef;
    const double2 centre = a.centre[a.outline.sub[k]];
    to.x = to.one.c * centre.x + to.one.of[0] - to.other.of[0];
    to.y = to.one.c * centre.y + to.one.of[1] - to.other.of[1];
    set_reach(to, a.size * to.one.c, b.size * to.other.c,
              a.outline.always || (b.outline.n > 0 && b.outline.always));
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

/* Add the tables' covariances at separation (dx, dy). */
static __device__ __noinline__ void add_table(const gpu_outlines &p, const gpu_outline_job &job,
                                              const layer_of &l, double dx, double dy, double sign,
                                              double e[4]) {
    const gpu_cov_sensor &a = p.sensors[job.one.sensor], &b = p.sensors[job.other.sensor];
    const matcov_gradient &t = p.gradients.tables[l.table];
    const gradient_axes axes[2] = {axes_of(job, a, b, t.kinds, 0), axes_of(job, a, b, t.kinds, 1)};
    for (int i = 0; i < job.pair.parts[0] * job.pair.parts[0]; i++)
        for (int j = 0; j < job.pair.parts[1] * job.pair.parts[1]; j++) {
            const double2 pa = part_at(a, job.pair.step[0], job.pair.parts[0], i);
            const double2 pb = part_at(b, job.pair.step[1], job.pair.parts[1], j);
            outline_table(&t, p.gradients.values, axes, dx + l.one.c * pa.x - l.other.c * pb.x,
                          dy + l.one.c * pa.y - l.other.c * pb.y, sign * l.coef * job.pair.scale,
                          e);
        }
}

/* Add what second moments change of the tables' covariances; nk >= 0: of outline nk too. */
static __device__ __noinline__ void add_moments(const gpu_outlines &p, const gpu_outline_job &job,
                                                const layer_of &l, int k, int nk, double dx,
                                                double dy, double e[4]) {
    const gpu_cov_sensor &a = p.sensors[job.one.sensor], &b = p.sensors[job.other.sensor];
    const matcov_gradient &t = p.gradients.tables[l.table];
    const gradient_axes axes[2] = {axes_of(job, a, b, t.kinds, 0), axes_of(job, a, b, t.kinds, 1)};
    for (int i = 0; i < job.pair.parts[0] * job.pair.parts[0]; i++)
        for (int j = 0; j < job.pair.parts[1] * job.pair.parts[1]; j++) {
            const double2 pa = part_at(a, job.pair.step[0], job.pair.parts[0], i);
            const double2 pb = part_at(b, job.pair.step[1], job.pair.parts[1], j);
            const double x = dx + l.one.c * pa.x - l.other.c * pb.x;
            const double y = dy + l.one.c * pa.y - l.other.c * pb.y;
            outline_moments(&t, p.gradients.values, axes, &a.outline, k, l.one.c, x, y,
                            l.coef * job.pair.scale, e);
            if (nk >= 0)
                outline_moments(&t, p.gradients.values, axes, &b.outline, nk, l.other.c, x, y,
                                l.coef * job.pair.scale, e);
        }
}

/* What a layer changes for outline k and subaperture (or outline, nk >= 0) kb, by lanes. */
static __device__ void add_layer(const gpu_outlines &p, const gpu_outline_job &job,
                                 const layer_of &l, int k, int kb, int nk, int lane, int lanes,
                                 double e[4]) {
    const gpu_cov_sensor &a = p.sensors[job.one.sensor], &b = p.sensors[job.other.sensor];
    const double2 centre = b.centre[kb];
    const double dx = l.x - l.other.c * centre.x, dy = l.y - l.other.c * centre.y;
    const double r2 = dx * dx + dy * dy, scale = l.coef * formula_slope_scale(1.0, 1.0);
    const bool near = r2 < l.near2, lattice = job.table != NULL;
    if (near != lattice && lane == 0) /* of a lattice all is taken away in the end */
        add_table(p, job, l, dx, dy, near ? -1.0 : 1.0, e);
    if (!near && p.moments && lane == 0)
        add_moments(p, job, l, k, nk, dx, dy, e);
    if (!near)
        return;
    if (nk >= 0) {
        outline_pair(l.f, &a.outline, k, &l.one, &b.outline, nk, &l.other, r2 >= l.apart2, scale,
                     lane, lanes, e);
        return;
    }
    const double turn[2] = {b.cos_rot, b.sin_rot};
    outline_whole(&p.gradients.tables[l.phase], p.gradients.values, &a.outline, k, &l.one,
                  l.other.c * centre.x + l.other.of[0], l.other.c * centre.y + l.other.of[1], turn,
                  r2 >= l.apart2, scale / b.size, e);
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

/* Outlines with whole subapertures. Grid: subapertures, outlines, jobs. */
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
    for (int l0 = 0; l0 < p.nlayer; l0 += CHUNK) {
        const int n = min(CHUNK, p.nlayer - l0);
        __syncthreads();
        prepare(p, job, k, l0, n, sh);
        __syncthreads();
        for (int l = 0; l < n && mine; l++)
            if (sh[l].seen)
                add_layer(p, job, sh[l], k, kb, -1, 0, 1, e);
    }
    if (mine)
        put<E>(p, job, k, kb, false, e);
}

/* Outlines with outlines, a warp for each pair. Grid: the other side's, outlines, jobs. */
template <class E>
static __global__ __launch_bounds__(THREADS) void pairs(const __grid_constant__ gpu_outlines p) {
    __shared__ layer_of sh[CHUNK];
    const gpu_outline_job &job = p.job[blockIdx.z];
    const gpu_cov_sensor &b = p.sensors[job.other.sensor];
    const int k = job.o0 + blockIdx.y, lane = threadIdx.x % 32;
    const int i = blockIdx.x * (THREADS / 32) + threadIdx.x / 32;
    double e[4] = {0.0, 0.0, 0.0, 0.0};
    if ((int)blockIdx.y >= job.no || (int)(blockIdx.x * (THREADS / 32)) >= job.nb)
        return;
    const int nk = job.kb + min(i, job.nb - 1), kb = b.outline.sub[nk];
    for (int l0 = 0; l0 < p.nlayer; l0 += CHUNK) {
        const int n = min(CHUNK, p.nlayer - l0);
        __syncthreads();
        prepare(p, job, k, l0, n, sh);
        __syncthreads();
        for (int l = 0; l < n; l++)
            if (sh[l].seen)
                add_layer(p, job, sh[l], k, kb, nk, lane, 32, e);
    }
    for (int v = 0; v < 4; v++)
        for (int d = 16; d > 0; d /= 2)
            e[v] += __shfl_xor_sync(0xffffffffu, e[v], d);
    if (lane == 0 && i < job.nb)
        put<E>(p, job, k, kb, true, e);
}

/* Points with outlines. Grid: points, outlines. */
template <class E>
static __global__
__launch_bounds__(THREADS) void points(const __grid_constant__ gpu_outline_points p) {
    __shared__ layer_of sh[CHUNK];
    const gpu_cov_sensor &a = p.sensors[p.one];
    const int k = p.o0 + blockIdx.y, sub = a.outline.sub[k];
    const int i = blockIdx.x * THREADS + threadIdx.x, at = min(i, p.np - 1);
    const double2 edge = p.sensor >= 0
                             ? p.sensors[p.sensor].edge[GPU_COV_ROWS][p.axis][p.first + at]
                             : make_double2(p.px[at], p.py[at]);
    const double turn[2] = {a.cos_rot, a.sin_rot};
    const double axis[2][2] = {{turn[0], turn[1]}, {-turn[1], turn[0]}};
    double e[2] = {0.0, 0.0};
    for (int l0 = 0; l0 < p.nlayer; l0 += CHUNK) {
        const int n = min(CHUNK, p.nlayer - l0);
        __syncthreads();
        if ((int)threadIdx.x < n) {
            const int l = l0 + threadIdx.x;
            const gpu_cov_layer &lay = p.layers[l];
            const double still[2] = {0.0, 0.0};
            layer_of &to = sh[threadIdx.x];
            const bool there = p.sensor >= 0 ? place_of(p, lay, p.sensor, &to.other)
                                             : formula_on_layer(lay.h, 1.0, INFINITY, p.aim.dir,
                                                                p.aim.drifts ? lay.drift : still,
                                                                &to.other.c, to.other.of) != 0;
            to.phase = p.gradients.table[a.phase_class * p.gradients.nlayer + l];
            to.seen = place_of(p, lay, p.one, &to.one) && there && to.phase >= 0;
            to.f = function_of(p, l);
            to.coef = lay.coef * p.scale;
            to.x = to.one.c * a.centre[sub].x + to.one.of[0] - to.other.of[0];
            to.y = to.one.c * a.centre[sub].y + to.one.of[1] - to.other.of[1];
            set_reach(to, 0.0, a.size * to.one.c, a.outline.always);
        }
        __syncthreads();
        for (int l = 0; l < n; l++) {
            const layer_of &v = sh[l];
            const double x = v.other.c * edge.x, y = v.other.c * edge.y, dx = x - v.x, dy = y - v.y;
            const double r2 = dx * dx + dy * dy;
            if (!v.seen || r2 >= v.near2)
                continue;
            outline_point(v.f, &a.outline, k, &v.one, x + v.other.of[0], y + v.other.of[1],
                          r2 >= v.apart2, v.coef, e);
            for (int s = 0; s < 2; s++)
                e[s] -= v.coef / a.size *
                        gradient_phase(&p.gradients.tables[v.phase], p.gradients.values, axis[s],
                                       turn, s, dx, dy);
        }
    }
    for (int s = 0; s < 2 && i < p.np; s++)
        if (p.wanted[s])
            add_entry((E *)p.a, i + (p.col[s] + sub) * p.lda, p.to_fp16, e[s]);
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
