/* Covariances of the difference of two profiles in single precision, of all axes of two sensors (or
 * of points with both axes) from one evaluation for each pair of subapertures and layer. Model
 * sections 4 and 7.
 *
 * The structure function of a layer is coef B(s), s the squared separation in units of 1 / kappa,
 * and the covariance of two slopes on it, of footprints la and lb in these units,
 *
 *   1/2 la lb A (u grad)(v grad) B,
 *
 * A averaging over both footprints: 1 + e1 (u grad)^2 + e2 (v grad)^2 + ... of differences between
 * points, 1 + (e1 + e2) laplacian + ... of mean gradients, e1 = la^2 / 24, e2 = lb^2 / 24; with the
 * phase at a point 1/2 lb A (v grad) B, e1 = 0. One table of B's derivatives serves all layers.
 * Below `near` exact values take that place (gathered, so that all lanes of a warp are at work),
 * beyond `plain` A is 1.
 *
 * A thread has one subaperture (or point) of the rows and COLS of the columns, in the axes of both
 * sensors, which are not turned against each other. Positions are relative to the first of these
 * columns, which keeps their digits where covariances change fast. */
#include "matcov/fit_formula.h"
#include "matcov/gradient_formula.h"
#include "near.cuh"
#include "pairs.cuh"

#define WARPS 8
#define THREADS (32 * WARPS) /* rows of a tile */
#define LAYERS 64            /* prepared at a time */
#define FULL 0xffffffffu

/* ---- tables */

static __device__ unsigned upper_half(double x) {
    return (__float_as_uint((float)x) + 0x8000u) >> 16;
}

/* Grid: intervals, functions. */
static __global__ void fit_radial(gpu_radial *radial) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x, kolmogorov = (int)blockIdx.y;
    gpu_radial &to = radial[kolmogorov];
    if (i < RADIAL_INTERVALS) {
        const double half = 0.5 / (1 << RADIAL_BITS), node = half * 0.70710678118654752440,
                     octave = ldexp(1.0, RADIAL_FIRST + (i >> RADIAL_BITS)),
                     middle = 1.0 + (2 * (i & ((1 << RADIAL_BITS) - 1)) + 1) * half;
        double b[5], low[5], high[5];
        gradient_derivatives(octave * middle, kolmogorov, b);
        gradient_derivatives(octave * (middle - node), kolmogorov, low);
        gradient_derivatives(octave * (middle + node), kolmogorov, high);
        float line[4];
        for (int k = 0; k < 2;
             k++) { /* through two nodes, in powers of 1 + what follows the bits */
            const double u = (k ? 4.0 : 2.0) * low[1 + k], v = (k ? 4.0 : 2.0) * high[1 + k];
            const double slope = (v - u) / (2.0 * node);
            line[2 * k] = (float)(0.5 * (u + v) - slope * (1.0 + half));
            line[2 * k + 1] = (float)slope;
        }
        to.line[i] = make_float4(line[0], line[1], line[2], line[3]);
        to.high[i] = upper_half(24.0 * b[3]) << 16 | upper_half(16.0 * b[4]);
    }
    if (i < RADIAL_NEAR_INTERVALS) {
        const int within = i & ((1 << RADIAL_NEAR_BITS) - 1);
        double c[4];
        formula_fit(ldexp(1.0, RADIAL_NEAR_FIRST + (i >> RADIAL_NEAR_BITS)),
                    1.0 + (double)within / (1 << RADIAL_NEAR_BITS), 0.5 / (1 << RADIAL_NEAR_BITS),
                    kolmogorov, 4, c, 1);
        to.near[i] = make_float4((float)c[0], (float)c[1], (float)c[2], (float)c[3]);
    }
}

status gpu_cov_fit_radial(cudaStream_t stream, gpu_radial *radial) {
    fit_radial<<<dim3((RADIAL_INTERVALS + 127) / 128, 2), 128, 0, stream>>>(radial);
    LAUNCHED();
    return MOAO_OK;
}

/* ---- shared memory */

struct pair_layer {
    float scale, cone, x, y; /* of the rows, less the first column; of the columns */
    float factor;            /* of the expansion, 0: not seen; */
    float coef;              /* of exact values */
    float e1, e2;
    float near, middle, plain; /* squared separations */
    /* it and its twin: the place between them, the sum of their factors, half their difference,
     * that times the way from this one to the twin, the way; of points the sum times the way's
     * square / 8 */
    float mid_x, mid_y, both, less, gx, gy, way_x, way_y, square;
    bool twin;
    float half[2]; /* of a footprint of the rows and the columns */
    int table;     /* of mean gradients */
    float metre;   /* 1 / kappa */
};

/* ROWS: 0 points, 2 slopes. Sums of near pairs by warp, axes, column and lane. */
template <int ROWS, int COLS> struct pair_tile {
    enum { axes = ROWS == 0 ? 2 : 4 };
    pair_layer layer[LAYERS];
    float2 col[COLS], row[THREADS];
    int place[COLS]; /* among the job's columns */
    float near[WARPS][axes][COLS][32];
    unsigned char queue[WARPS][COLS * 32]; /* lane + 32 column */
};

struct pair_planes {
    float4 line[RADIAL_MOST + 1]; /* the last one is 0 */
    unsigned high[RADIAL_MOST + 1];
    float4 near[1]; /* of differences between points: as many as there are */
};

/* Layers l0 .. l0 + n, a thread each. */
template <bool MEANS, int ROWS>
static __device__ void prepare(const gpu_cov_pairs &p, double2 first, int l0, int n,
                               pair_layer *to) {
    const gpu_cov_mean_job &job = p.job;
    const gpu_cov_sensor &cols = p.sensors[job.cs], &rows = p.sensors[ROWS == 0 ? job.cs : job.rs];
    if ((int)threadIdx.x >= n)
        return;
    const gpu_cov_layer lay = p.layers[l0 + threadIdx.x];
    const bool ra = ROWS == 0 || job.rs == p.aim.sensor, ca = job.cs == p.aim.sensor;
    const double still[2] = {0.0, 0.0};
    double c, off[2], cc, other[2];
    const bool seen = formula_on_layer(lay.h, lay.kappa, ROWS == 0 ? INFINITY : rows.altitude,
                                       ra ? p.aim.dir : rows.dir,
                                       ra && p.aim.drifts ? lay.drift : still, &c, off) &&
                      formula_on_layer(lay.h, lay.kappa, cols.altitude, ca ? p.aim.dir : cols.dir,
                                       ca && p.aim.drifts ? lay.drift : still, &cc, other);
    const double la = ROWS == 0 ? 0.0 : rows.size * c, lb = cols.size * cc, e1 = la * la / 24.0,
                 e2 = lb * lb / 24.0, mean = 12.0 * (e1 + e2);
    const double2 at =
        in_axes(cols, off[0] - other[0] - cc * first.x, off[1] - other[1] - cc * first.y);
    const double coef = seen ? job.pair.scale * lay.coef : 0.0;
    pair_layer &l = to[threadIdx.x];
    l.scale = (float)c, l.cone = (float)cc, l.x = (float)at.x, l.y = (float)at.y;
    l.coef = (float)coef;
    l.factor = (float)(0.5 * coef * lb * (ROWS == 0 ? 1.0 : la));
    l.e1 = (float)e1, l.e2 = (float)e2;
    l.half[0] = (float)(0.5 * la), l.half[1] = (float)(0.5 * lb);
    l.metre = (float)(1.0 / lay.kappa);
    l.near = (float)(p.near * mean), l.middle = (float)(p.middle * mean);
    l.plain = (float)(p.plain * mean);
    l.twin = lay.twin;
    l.both = l.factor, l.mid_x = l.x, l.mid_y = l.y;
    l.less = l.gx = l.gy = l.way_x = l.way_y = l.square = 0.0f;
    if (lay.twin) {
        const gpu_cov_layer other_one = p.layers[l0 + threadIdx.x + 1];
        const double way = ra && p.aim.drifts ? lay.kappa : 0.0,
                     by = ca && p.aim.drifts ? lay.kappa : 0.0;
        const double2 to = in_axes(cols, (way - by) * (other_one.drift[0] - lay.drift[0]),
                                   (way - by) * (other_one.drift[1] - lay.drift[1]));
        const double factor = coef * 0.5 * lb * (ROWS == 0 ? 1.0 : la),
                     twin = lay.coef != 0.0 ? factor * (other_one.coef / lay.coef) : 0.0;
        l.both = (float)(factor + twin);
        l.mid_x = (float)(at.x + 0.5 * to.x), l.mid_y = (float)(at.y + 0.5 * to.y);
        l.less = (float)(0.5 * (twin - factor));
        l.gx = l.less * (float)to.x, l.gy = l.less * (float)to.y;
        l.way_x = (float)to.x, l.way_y = (float)to.y;
        l.square = (float)(0.125 * (factor + twin) * (to.x * to.x + to.y * to.y));
    }
    l.table = -1;
    if (MEANS && seen) {
        l.table = p.gradients.table[job.pair.gradient * p.gradients.nlayer + l0 + threadIdx.x];
        if (l.table >= 0)
            l.near = (float)(p.near * p.gradients.tables[l.table].near2 * lay.kappa * lay.kappa);
        else
            l.factor = 0.0f;
    }
}

/* By the whole block; the intervals of one function that the job needs. */
template <bool MEANS>
static __device__ void copy_planes(const gpu_cov_pairs &p, int kind, pair_planes *to) {
    const gpu_radial &from = p.radial[kind];
    const int n = p.count[kind];
    for (int i = threadIdx.x; i < n; i += THREADS) {
        to->line[i] = from.line[p.low[kind] + i];
        to->high[i] = from.high[p.low[kind] + i];
    }
    if (threadIdx.x == 0) {
        to->line[RADIAL_MOST] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        to->high[RADIAL_MOST] = 0;
    }
    for (int i = threadIdx.x; i < RADIAL_NEAR_INTERVALS && !MEANS; i += THREADS)
        to->near[i] = from.near[i];
}

/* ---- the expansion */

#define MIDDLE (1.0f + 0.5f / (1 << RADIAL_BITS)) /* of an interval */
static __device__ __forceinline__ float mantissa(float u) {
    return __uint_as_float((__float_as_uint(u) & ((1u << (23 - RADIAL_BITS)) - 1)) | 0x3f800000u);
}

/* Sums: xx, yx, xy, yy (rows' axis first) of slopes; x, y of points. A layer and its twin, with the
 * first derivative along the way between them. */
template <int COLS>
static __device__ __forceinline__ void add_slopes(const pair_planes &t, int low, float both,
                                                  float gx, float gy, float dx, float dy, float u,
                                                  int c, float (&sum)[4][COLS]) {
    const int i = (int)(__float_as_uint(u) >> (23 - RADIAL_BITS)) - low;
    const float m = mantissa(u), along = fmaf(gx, dx, gy * dy);
    const float4 a = t.line[i];
    const float third = __uint_as_float(t.high[i] & 0xffff0000u) * (1.0f / 3.0f);
    const float p = fmaf(a.y, m, a.x), q = fmaf(a.w, m, a.z), P = fmaf(q, along, both * p),
                Q = fmaf(third, along, both * q), x = q * gx, y = q * gy, first = fmaf(Q, dx, x),
                second = fmaf(Q, dy, y), cross = fmaf(first, dy, y * dx);
    sum[0][c] += fmaf(first + x, dx, P);
    sum[1][c] += cross;
    sum[2][c] += cross;
    sum[3][c] += fmaf(second + y, dy, P);
}

/* With the second derivative too, which counts where covariances grow with the separation; AVERAGE:
 * with the terms of the third order of differences between points or, of mean gradients, MEANS. */
template <bool AVERAGE, bool MEANS, int COLS>
static __device__ __forceinline__ void add_points(const pair_planes &t, int low,
                                                  const pair_layer &l, float dx, float dy, float u,
                                                  int c, float (&sum)[2][COLS]) {
    const int i = (int)(__float_as_uint(u) >> (23 - RADIAL_BITS)) - low;
    const float m = mantissa(u), along = fmaf(l.way_x, dx, l.way_y * dy);
    const float4 a = t.line[i];
    const float third =
        __uint_as_float(t.high[i] & 0xffff0000u) * fmaf(-0.5f, m, 0.5f * MIDDLE + 1.0f / 3.0f);
    const float p = fmaf(a.y, m, a.x), q = fmaf(a.w, m, a.z), step = q * along;
    float P = fmaf(l.both, p, fmaf(l.square, q, l.less * step));
    P = fmaf(0.125f * l.both * third * along, along, P);
    const float v = fmaf(l.less, p, 0.25f * l.both * step), e = l.both * l.e2;
    float Px = P, Py = P;
    if (AVERAGE && MEANS) {
        Px = Py = fmaf(e, fmaf(4.0f, q, u * third), P);
    } else if (AVERAGE) {
        const float base = fmaf(3.0f * e, q, P);
        Px = fmaf(e * third, dx * dx, base), Py = fmaf(e * third, dy * dy, base);
    }
    sum[0][c] = fmaf(Px, dx, fmaf(l.way_x, v, sum[0][c]));
    sum[1][c] = fmaf(Py, dy, fmaf(l.way_y, v, sum[1][c]));
}

/* The same with terms of the fourth order; nothing where `skip`. The third and fourth derivatives
 * fall about as s^(-13/6) and s^(-19/6) where they count, within an interval as straight lines. */
template <bool MEANS, int ROWS, int COLS>
static __device__ __forceinline__ void add_full(const pair_planes &t, int low, const pair_layer &l,
                                                float f, float dx, float dy, float u, bool skip,
                                                int c, float (&sum)[ROWS == 0 ? 2 : 4][COLS]) {
    const int i = skip ? RADIAL_MOST : (int)(__float_as_uint(u) >> (23 - RADIAL_BITS)) - low;
    const float m = mantissa(u);
    const float4 a = t.line[i];
    const unsigned h = t.high[i];
    const float A = __uint_as_float(h & 0xffff0000u) * fmaf(-1.5f, m, 1.0f + 1.5f * MIDDLE),
                B = __uint_as_float(h << 16) * fmaf(-2.2f, m, 1.0f + 2.2f * MIDDLE);
    const float p = fmaf(a.y, m, a.x), q = fmaf(a.w, m, a.z), e = l.e1 + l.e2;
    if (MEANS) {
        const float P = f * fmaf(e, fmaf(4.0f, q, u * A * (1.0f / 3.0f)), p);
        if (ROWS == 0) {
            sum[0][c] = fmaf(P, dx, sum[0][c]);
            sum[1][c] = fmaf(P, dy, sum[1][c]);
            return;
        }
        const float Q = f * fmaf(e, fmaf(2.0f, A, u * B), q), x = Q * dx, cross = x * dy;
        sum[0][c] += fmaf(x, dx, P);
        sum[1][c] += cross;
        sum[ROWS][c] += cross;
        sum[ROWS + 1][c] += fmaf(Q * dy, dy, P);
        return;
    }
    const float xx = dx * dx, yy = dy * dy, base = fmaf(3.0f * e, q, p);
    if (ROWS == 0) {
        const float third = e * A * (1.0f / 3.0f);
        sum[0][c] = fmaf(f * dx, fmaf(third, xx, base), sum[0][c]);
        sum[1][c] = fmaf(f * dy, fmaf(third, yy, base), sum[1][c]);
        return;
    }
    const float first = fmaf(e, A, q), xy = f * dx * dy;
    const float wx = e * xx, wy = e * yy, v1 = fmaf(l.e1, xx, l.e2 * yy),
                v2 = fmaf(l.e1, yy, l.e2 * xx);
    sum[0][c] = fmaf(f, fmaf(xx, fmaf(B, wx, first), fmaf(A, wx, base)), sum[0][c]);
    sum[1][c] = fmaf(xy, fmaf(B, v2, first), sum[1][c]);
    sum[ROWS][c] = fmaf(xy, fmaf(B, v1, first), sum[ROWS][c]);
    sum[ROWS + 1][c] = fmaf(f, fmaf(yy, fmaf(B, wy, first), fmaf(A, wy, base)), sum[ROWS + 1][c]);
}

/* ---- exact values */

static __device__ __forceinline__ float structure(const float4 *near, float dx, float dy) {
    const float u = fmaf(dx, dx, dy * dy);
    const unsigned bits = __float_as_uint(u);
    const int first = (127 + RADIAL_NEAR_FIRST) << RADIAL_NEAR_BITS,
              i = min(max((int)(bits >> (23 - RADIAL_NEAR_BITS)) - first, 0),
                      RADIAL_NEAR_INTERVALS - 1);
    const float m = __uint_as_float((bits & ((1u << (23 - RADIAL_NEAR_BITS)) - 1)) | 0x3f800000u) -
                    (1.0f + 0.5f / (1 << RADIAL_NEAR_BITS));
    const float4 c = near[i];
    return fmaf(m, fmaf(m, fmaf(m, c.w, c.z), c.y), c.x);
}

/* Of differences between points. */
template <int ROWS>
static __device__ void exact_points(const float4 *near, const pair_layer &l, float dx, float dy,
                                    float (&v)[ROWS == 0 ? 2 : 4]) {
    const float a = l.half[0], b = l.half[1];
    if constexpr (ROWS == 0) {
        v[0] = 0.5f * (structure(near, dx + b, dy) - structure(near, dx - b, dy));
        v[1] = 0.5f * (structure(near, dx, dy + b) - structure(near, dx, dy - b));
    } else {
#pragma unroll 1
        for (int k = 0; k < 4; k++) { /* axes of the row and of the column */
            const float ax = k & 1 ? 0.0f : a, ay = k & 1 ? a : 0.0f, bx = k & 2 ? 0.0f : b,
                        by = k & 2 ? b : 0.0f;
            const float pm = structure(near, dx + ax + bx, dy + ay + by),
                        mp = structure(near, dx - ax - bx, dy - ay - by),
                        pp = structure(near, dx + ax - bx, dy + ay - by),
                        mm = structure(near, dx - ax + bx, dy - ay + by);
            const float value = 0.5f * ((pm + mp) - (pp + mm));
#pragma unroll
            for (int j = 0; j < 4; j++)
                if (j == k)
                    v[j] = value;
        }
    }
}

/* Of mean gradients. */
template <int ROWS>
static __device__ void exact_means(const gpu_cov_gradients &g, const pair_layer &l, float dx,
                                   float dy, float (&v)[ROWS == 0 ? 2 : 4]) {
    const grids<float> t = grids_of<float>(g, g.tables[l.table], 1.0f);
    const float x = dx * l.metre, y = dy * l.metre;
    const float4 all = ROWS == 0 ? near_kinds<float2>(t, x, y) : near_kinds<float4>(t, x, y);
    if (ROWS == 0) {
        v[0] = all.x, v[1] = all.y;
        return;
    }
    v[0] = all.x, v[1] = all.y, v[ROWS] = all.y, v[ROWS + 1] = all.z;
}

/* Columns `close` of this lane on a layer, gathered from all lanes of its warp. */
template <bool MEANS, int ROWS, int COLS>
static __device__ __noinline__ void add_near(const gpu_cov_pairs &p, const pair_planes &t,
                                             const pair_layer &l, unsigned close,
                                             pair_tile<ROWS, COLS> &sh) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    unsigned char *queue = sh.queue[warp];
    int n = 0;
    for (int c = 0; c < COLS; c++) {
        const bool mine = close >> c & 1;
        const unsigned all = __ballot_sync(FULL, mine);
        if (mine)
            queue[n + __popc(all & ((1u << lane) - 1))] = (unsigned char)(lane + 32 * c);
        n += __popc(all);
    }
    __syncwarp();
    for (int i = lane; i < n; i += 32) {
        const int of = queue[i] % 32, c = queue[i] / 32;
        const float2 row = sh.row[warp * 32 + of], col = sh.col[c];
        const float dx = fmaf(-l.cone, col.x, fmaf(l.scale, row.x, l.x)),
                    dy = fmaf(-l.cone, col.y, fmaf(l.scale, row.y, l.y));
        float v[pair_tile<ROWS, COLS>::axes];
        if (MEANS)
            exact_means<ROWS>(p.gradients, l, dx, dy, v);
        else
            exact_points<ROWS>(t.near, l, dx, dy, v);
#pragma unroll
        for (int k = 0; k < pair_tile<ROWS, COLS>::axes; k++)
            sh.near[warp][k][c][of] += l.coef * v[k];
    }
    __syncwarp();
}

/* ---- the kernel */

/* A layer by itself, of which some pairs are near. */
template <bool MEANS, int ROWS, int COLS>
static __device__ __forceinline__ void
add_close(const gpu_cov_pairs &p, const pair_planes &t, int low, const pair_layer &l,
          pair_tile<ROWS, COLS> &sh, float (&sum)[ROWS == 0 ? 2 : 4][COLS]) {
    const float2 row = sh.row[threadIdx.x];
    const float x = fmaf(l.scale, row.x, l.x), y = fmaf(l.scale, row.y, l.y), cone = l.cone;
    unsigned close = 0;
#pragma unroll
    for (int c = 0; c < COLS; c++) {
        const float dx = fmaf(-cone, sh.col[c].x, x), dy = fmaf(-cone, sh.col[c].y, y),
                    u = fmaf(dx, dx, dy * dy);
        const bool skip = u < l.near;
        if (skip)
            close |= 1u << c;
        add_full<MEANS, ROWS, COLS>(t, low, l, l.factor, dx, dy, u, skip, c, sum);
    }
    if (__any_sync(FULL, close != 0))
        add_near<MEANS, ROWS, COLS>(p, t, l, close, sh);
}

/* Layers of shared memory, of one structure function. */
template <bool MEANS, int ROWS, int COLS>
static __device__ __forceinline__ void add_layers(const gpu_cov_pairs &p, const pair_planes &t,
                                                  int kind, int n, pair_tile<ROWS, COLS> &sh,
                                                  float (&sum)[ROWS == 0 ? 2 : 4][COLS]) {
    const float2 row = sh.row[threadIdx.x];
    const int low = ((127 + RADIAL_FIRST) << RADIAL_BITS) + p.low[kind];
    for (int i = 0, some; i < n; i += some) {
        const pair_layer &l = sh.layer[i];
        const float x = fmaf(l.scale, row.x, l.mid_x), y = fmaf(l.scale, row.y, l.mid_y);
        const float cone = l.cone;
        float dx[COLS], dy[COLS], u[COLS], least = INFINITY;
        some = l.twin ? 2 : 1;
        if (l.factor == 0.0f)
            continue;
#pragma unroll
        for (int c = 0; c < COLS; c++) {
            dx[c] = fmaf(-cone, sh.col[c].x, x);
            dy[c] = fmaf(-cone, sh.col[c].y, y);
            u[c] = fmaf(dx[c], dx[c], dy[c] * dy[c]);
            least = fminf(least, u[c]);
        }
        const bool expand = __all_sync(FULL, least > l.middle),
                   plain = __all_sync(FULL, least > fmaxf(l.plain, l.middle));
        if constexpr (ROWS == 0) {
            if (plain) {
#pragma unroll
                for (int c = 0; c < COLS; c++)
                    add_points<false, MEANS, COLS>(t, low, l, dx[c], dy[c], u[c], c, sum);
                continue;
            } else if (expand) {
#pragma unroll
                for (int c = 0; c < COLS; c++)
                    add_points<true, MEANS, COLS>(t, low, l, dx[c], dy[c], u[c], c, sum);
                continue;
            }
        } else {
            const float both = l.both, gx = l.gx, gy = l.gy;
            if (plain) {
#pragma unroll
                for (int c = 0; c < COLS; c++)
                    add_slopes<COLS>(t, low, both, gx, gy, dx[c], dy[c], u[c], c, sum);
                continue;
            } else if (expand) {
#pragma unroll
                for (int c = 0; c < COLS; c++) {
                    add_full<MEANS, ROWS, COLS>(t, low, l, both, dx[c], dy[c], u[c], false, c, sum);
                    add_slopes<COLS>(t, low, 0.0f, gx, gy, dx[c], dy[c], u[c], c, sum);
                }
                continue;
            }
        }
#pragma unroll 1
        for (int k = 0; k < some; k++)
            add_close<MEANS, ROWS, COLS>(p, t, low, sh.layer[i + k], sh, sum);
    }
}

/* Place of subaperture i of the n that a job has, its first one k0. */
static __device__ __forceinline__ int place_of(const gpu_cov_sensor &s, bool whole, int i, int n) {
    return whole ? s.patch[min(i, n - 1)] : min(i, n - 1);
}

/* Grid: tiles of THREADS rows and COLS columns. */
template <bool MEANS, int ROWS, int COLS, int BLOCKS>
static __global__
__launch_bounds__(THREADS, BLOCKS) void fill_pairs(const __grid_constant__ gpu_cov_pairs p) {
    constexpr int AXES = pair_tile<ROWS, COLS>::axes, NR = ROWS == 0 ? 1 : ROWS;
    extern __shared__ __align__(16) unsigned char memory[];
    pair_tile<ROWS, COLS> &sh = *(pair_tile<ROWS, COLS> *)memory;
    pair_planes &planes = *(pair_planes *)(memory + (sizeof sh + 15) / 16 * 16);
    const gpu_cov_mean_job &job = p.job;
    const gpu_cov_sensor &cols = p.sensors[job.cs];
    const int down = (job.nr + THREADS - 1) / THREADS,
              place = blockIdx.x % down * THREADS + threadIdx.x, col0 = blockIdx.x / down * COLS;
    int row;
    double2 there;
    if (ROWS == 0) {
        row = min(place, job.nr - 1);
        there = p.row_place ? p.row_place[job.rk + row]
                            : make_double2(p.px[job.rk + row], p.py[job.rk + row]);
    } else {
        const gpu_cov_sensor &rows = p.sensors[job.rs];
        row = place_of(rows, job.whole && !p.row_place, place, job.nr);
        there = p.row_place ? p.row_place[job.rk + row] : rows.centre[job.rk + row];
    }
    const bool all = p.all_cols;
    const double2 *centre = p.col_place ? p.col_place : cols.centre;
    const double2 first = centre[job.ck + place_of(cols, all, col0, job.nc)];
    const double2 at = in_axes(cols, there.x, there.y);
    sh.row[threadIdx.x] = make_float2((float)at.x, (float)at.y);
    if (threadIdx.x < COLS) {
        const int k = place_of(cols, all, col0 + threadIdx.x, job.nc);
        const double2 e = centre[job.ck + k], to = in_axes(cols, e.x - first.x, e.y - first.y);
        sh.col[threadIdx.x] = make_float2((float)to.x, (float)to.y);
        sh.place[threadIdx.x] = k;
    }
    float sum[AXES][COLS];
#pragma unroll
    for (int k = 0; k < AXES; k++)
#pragma unroll
        for (int c = 0; c < COLS; c++)
            sum[k][c] = 0.0f, sh.near[threadIdx.x / 32][k][c][threadIdx.x % 32] = 0.0f;
#pragma unroll 1
    for (int kind = 0; kind < 2; kind++) {
        const int end = kind == 0 ? p.from[1] : p.nlayer;
        if (p.from[kind] == end)
            continue;
        __syncthreads();
        copy_planes<MEANS>(p, kind, &planes);
        for (int l = p.from[kind], n; l < end; l += n) {
            n = l + LAYERS < end ? LAYERS - p.layers[l + LAYERS - 1].twin : end - l;
            __syncthreads();
            prepare<MEANS, ROWS>(p, first, l, n, sh.layer);
            __syncthreads();
            add_layers<MEANS, ROWS, COLS>(p, planes, kind, n, sh, sum);
        }
    }
    __syncthreads(); /* sh.place, where no layer has waited for it */
    if (place >= job.nr)
        return;
#pragma unroll
    for (int c = 0; c < COLS; c++) {
        if (col0 + c >= job.nc)
            continue;
        const int j = sh.place[c];
#pragma unroll
        for (int k = 0; k < AXES; k++)
            put_single(p.a, job.row[NR == 2 ? k % 2 : 0] + row + (job.col[k / NR] + j) * p.lda,
                       p.to_fp16, sum[k][c] + sh.near[threadIdx.x / 32][k][c][threadIdx.x % 32]);
    }
}

/* ---- launches */

template <bool MEANS, int ROWS, int COLS, int BLOCKS>
static status launch(cudaStream_t stream, const gpu_cov_pairs *p) {
    const int bytes = (int)((sizeof(pair_tile<ROWS, COLS>) + 15) / 16 * 16 + sizeof(pair_planes)) +
                      (MEANS ? 0 : RADIAL_NEAR_INTERVALS * (int)sizeof(float4));
    const int64_t blocks =
        (int64_t)((p->job.nr + THREADS - 1) / THREADS) * ((p->job.nc + COLS - 1) / COLS);
    if (blocks == 0)
        return MOAO_OK;
    GPU_TRY(gpu_allow_shared((const void *)fill_pairs<MEANS, ROWS, COLS, BLOCKS>, (size_t)bytes));
    fill_pairs<MEANS, ROWS, COLS, BLOCKS><<<(unsigned)blocks, THREADS, bytes, stream>>>(*p);
    LAUNCHED();
    return MOAO_OK;
}

status gpu_cov_fill_pairs(cudaStream_t stream, const gpu_cov_pairs *p, bool means) {
    if (p->job.rows == 0)
        return means ? launch<true, 0, 8, 2>(stream, p) : launch<false, 0, 8, 2>(stream, p);
    return means ? launch<true, 2, 8, 2>(stream, p) : launch<false, 2, 8, 2>(stream, p);
}
