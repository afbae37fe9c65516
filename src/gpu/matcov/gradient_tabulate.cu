/* Tables of the covariances of mean gradients: those of like pairs of sensors, and what is made on
 * the device of the tables that the host sends. Model section 4. */
#include "gradient.cuh"

#define THREADS 128

/* Position of sensor w on a layer [m]: c p + offset. */
static __device__ void on_layer(const gpu_cov_layer &l, const gpu_cov_sensor &w, bool aimed,
                                const gpu_cov_set_direction &aim, double *c, double offset[2]) {
    const double still[2] = {0.0, 0.0};
    formula_on_layer(l.h, 1.0, w.altitude, aimed ? aim.dir : w.dir,
                     aimed && aim.drifts ? l.drift : still, c, offset);
}

/* Centre of part i of n x n, `step` apart, of a subaperture, relative to its centre. */
static __device__ double2 part_at(const gpu_cov_sensor &w, double step, int n, int i) {
    const double x = (i % n - 0.5 * (n - 1)) * step, y = (i / n - 0.5 * (n - 1)) * step;
    return make_double2(w.cos_rot * x - w.sin_rot * y, w.sin_rot * x + w.cos_rot * y);
}

/* Unit vector of an axis of a sensor. */
static __device__ double2 axis_of(const gpu_cov_sensor &w, int axis) {
    return axis == 0 ? make_double2(w.cos_rot, w.sin_rot) : make_double2(-w.sin_rot, w.cos_rot);
}

/* Axes of a pair: unit vectors of both, and of the sensor that the grids are turned as. */
struct directions {
    double2 u, v;
    double cos_rot, sin_rot;
    int a, b; /* axes of the class's first and second */
};

/* The covariance at one separation on one layer, in units of the scale-free structure function. */
static __device__ double value_at(const matcov_gradient &t, const double *values,
                                  const directions &d, double dx, double dy) {
    const double s = dx * dx + dy * dy;
    double m;
    if (s < t.near2)
        return gradient_near(&t, values + t.near, gradient_kind(t.kinds, d.a, d.b),
                             d.cos_rot * dx + d.sin_rot * dy, d.cos_rot * dy - d.sin_rot * dx);
    const double *c = values + t.radial + (size_t)gradient_interval(&t, s, &m) * 2 * GRADIENT_TERMS;
    const double P = c[0] + m * (c[1] + m * (c[2] + m * c[3])),
                 Q = c[4] + m * (c[5] + m * (c[6] + m * c[7]));
    return (d.u.x * d.v.x + d.u.y * d.v.y) * P +
           (d.u.x * dx + d.u.y * dy) * (d.v.x * dx + d.v.y * dy) * Q;
}

/* One value of a table of a like pair. Grid: values, kinds, tables. */
__global__ __launch_bounds__(THREADS) void tabulate_means(const gpu_cov_table *tables,
                                                          const gpu_cov_pair *pairs,
                                                          const __grid_constant__ gpu_cov_means p) {
    const gpu_cov_table t = tables[blockIdx.z];
    const gpu_cov_pair pair = pairs[blockIdx.z];
    if (pair.gradient < 0)
        return;
    const gpu_cov_sensor &a = p.sensors[t.first], &b = p.sensors[t.second];
    const int i = blockIdx.x * blockDim.x + threadIdx.x, ra = (int)blockIdx.y & 1,
              ca = (int)blockIdx.y >> 1, na = pair.parts[0] * pair.parts[0],
              nb = pair.parts[1] * pair.parts[1];
    if (i >= t.n * t.n)
        return;
    const double u = a.size / t.steps[0], half = 0.5 * (t.steps[0] - t.steps[1]);
    const double px = (i % t.n - t.origin + half) * u, py = (i / t.n - t.origin + half) * u;
    const double qx = a.cos_rot * px - a.sin_rot * py + a.shift[0] - b.shift[0];
    const double qy = a.sin_rot * px + a.cos_rot * py + a.shift[1] - b.shift[1];
    const gpu_cov_sensor &first = pair.swapped ? b : a;
    const directions d = {axis_of(a, ra), axis_of(b, ca),         first.cos_rot,
                          first.sin_rot,  pair.swapped ? ca : ra, pair.swapped ? ra : ca};
    double sum = 0.0;
    for (int l = 0; l < p.gradients.nlayer; l++) {
        double c, cb, of[2], os[2];
        const gpu_cov_layer lay = p.layers[l];
        const int table = p.gradients.table[pair.gradient * p.gradients.nlayer + l];
        if (table < 0)
            continue;
        on_layer(lay, a, t.first == p.aim.sensor, p.aim, &c, of);
        on_layer(lay, b, t.second == p.aim.sensor, p.aim, &cb, os);
        for (int part = 0; part < na * nb; part++) {
            const double2 at = part_at(a, pair.step[0], pair.parts[0], part % na),
                          to = part_at(b, pair.step[1], pair.parts[1], part / na);
            sum += lay.coef * value_at(p.gradients.tables[table], p.gradients.values, d,
                                       c * (qx + at.x - to.x) + (of[0] - os[0]),
                                       c * (qy + at.y - to.y) + (of[1] - os[1]));
        }
    }
    t.value[(size_t)blockIdx.y * t.n * t.n + i] = pair.scale * sum;
}

status gpu_cov_tabulate_means(cudaStream_t stream, const gpu_cov_table *tables,
                              const gpu_cov_pair *pairs, int ntable, int largest,
                              const gpu_cov_means *p) {
    if (ntable > 0)
        tabulate_means<<<dim3((largest * largest + THREADS - 1) / THREADS, 4, ntable), THREADS, 0,
                         stream>>>(tables, pairs, *p);
    LAUNCHED();
    return MOAO_OK;
}

/* The straight line through a cubic (powers of the place about the middle of an interval that is
 * `wide` times as long as the line's) at the two nodes of Chebyshev of the line's interval, whose
 * middle is at `middle`; in powers of the mantissa, which is `from` more than that place. */
static __device__ float2 line_through(const double *c, double middle, double half, double from) {
    const double at = half * 0.70710678118654752440, x = middle - at, y = middle + at;
    const double u = c[0] + x * (c[1] + x * (c[2] + x * c[3])),
                 v = c[0] + y * (c[1] + y * (c[2] + y * c[3]));
    const double slope = (v - u) / (y - x);
    return make_float2((float)(u - slope * (x + from)), (float)slope);
}

/* Grid: intervals of all tables. */
__global__ __launch_bounds__(THREADS) void make_lines(const matcov_gradient *tables,
                                                      const double *values, int ntable,
                                                      float4 *lines) {
    const int each = 1 << (GPU_LINE_BITS - GRADIENT_BITS); /* lines of a cubic's interval */
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= (int64_t)ntable * GPU_LINES)
        return;
    const matcov_gradient &t = tables[i / GPU_LINES];
    const int line = (int)(i % GPU_LINES), k = line % each;
    const double *c = values + t.radial + (size_t)(line / each) * 2 * GRADIENT_TERMS;
    const double half = 0.5 / (1 << GPU_LINE_BITS), middle = (2 * k + 1 - each) * half;
    const float2 P = line_through(c, middle, half, 1.0 + half - middle),
                 Q = line_through(c + GRADIENT_TERMS, middle, half, 1.0 + half - middle);
    lines[i] = make_float4(P.x, P.y, Q.x, Q.y);
}

/* Grid: tables. */
__global__ __launch_bounds__(THREADS) void to_floats(const matcov_gradient *tables,
                                                     const double *values, float *floats) {
    const matcov_gradient &t = tables[blockIdx.x];
    const int n = gradient_cells(&t, 0) + gradient_cells(&t, 1), each = t.kinds == 2 ? 2 : 4;
    const double *from = values + t.near;
    float *to = floats + gpu_floats_at(t.near);
    for (int i = threadIdx.x; i < n * each; i += THREADS)
        to[i] = i % each < t.kinds ? (float)from[i / each * t.kinds + i % each] : 0.0f;
}

status gpu_cov_convert(cudaStream_t stream, const gpu_cov_gradients *g, int ntable) {
    if (ntable == 0)
        return MOAO_OK;
    const int64_t lines = (int64_t)ntable * GPU_LINES;
    make_lines<<<(unsigned)((lines + THREADS - 1) / THREADS), THREADS, 0, stream>>>(
        g->tables, g->values, ntable, g->lines);
    LAUNCHED();
    to_floats<<<ntable, THREADS, 0, stream>>>(g->tables, g->values, g->floats);
    LAUNCHED();
    return MOAO_OK;
}
