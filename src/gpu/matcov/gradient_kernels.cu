/* Kernels of the covariances of mean gradients. Model section 4. */
#include "gradient.cuh"

#define THREADS 256 /* rows of a tile */
#define COLS 16     /* columns of a tile, all of them a thread's */
#define CHUNK 8     /* layers prepared at a time */

/* Position of sensor w on a layer [m]: c p + offset. False: it does not see the layer. */
static __device__ bool on_layer(const gpu_cov_layer &l, const gpu_cov_sensor &w, bool aimed,
                                const gpu_cov_aim &aim, double *c, double offset[2]) {
    const double still[2] = {0.0, 0.0};
    return formula_on_layer(l.h, 1.0, w.altitude, aimed ? aim.dir : w.dir,
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

/* Radial functions at a squared separation. */
static __device__ __forceinline__ void radial(const matcov_gradient &t, const double *values,
                                              const float4 *, double s, double *P, double *Q) {
    double m;
    const int i = gradient_interval(&t, s, &m);
    const double2 *c = (const double2 *)(values + t.radial + (size_t)i * 2 * GRADIENT_TERMS);
    const double2 a = __ldg(c), b = __ldg(c + 1), d = __ldg(c + 2), e = __ldg(c + 3);
    *P = fma(fma(fma(b.y, m, b.x), m, a.y), m, a.x);
    *Q = fma(fma(fma(e.y, m, e.x), m, d.y), m, d.x);
}

static __device__ __forceinline__ void radial(const matcov_gradient &t, const double *,
                                              const float4 *floats, float s, float *P, float *Q) {
    const int shift = 23 - GRADIENT_BITS;
    const unsigned bits = __float_as_uint(s);
    const int lowest = t.lowest - ((1023 - 127) << GRADIENT_BITS);
    const int i = min((int)(bits >> shift) - lowest, GRADIENT_INTERVALS - 1);
    const float m = __uint_as_float((bits & ((1u << shift) - 1)) | 0x3f800000u) -
                    (1.0f + 0.5f / (1 << GRADIENT_BITS));
    const float4 p = __ldg(floats + 2 * i), q = __ldg(floats + 2 * i + 1);
    *P = fmaf(fmaf(fmaf(p.w, m, p.z), m, p.y), m, p.x);
    *Q = fmaf(fmaf(fmaf(q.w, m, q.z), m, q.y), m, q.x);
}

template <class T> struct pair_of;
template <> struct pair_of<double> { using type = double2; };
template <> struct pair_of<float> { using type = float2; };

/* The layers of a chunk as a tile sees them. Positions of type float are relative to the tile's
 * first column, which keeps their digits where covariances change fast. */
template <class T> struct chunk {
    typename pair_of<T>::type col[CHUNK][COLS];
    matcov_gradient table[CHUNK];
    const float4 *radial[CHUNK];
    double scale[CHUNK], x[CHUNK], y[CHUNK]; /* of the rows, less the tile's first column */
    double cone[CHUNK];                      /* of the columns */
    T coef[CHUNK];                           /* 0: not seen */
};

template <class T>
static __device__ void prepare(const gpu_cov_means &p, const gpu_cov_mean_job &job, int col0,
                               int l0, int n, chunk<T> &sh) {
    const gpu_cov_sensor &rows = p.sensors[job.rs], &cols = p.sensors[job.cs];
    const bool ra = job.rs == p.aim.sensor, ca = job.cs == p.aim.sensor;
    for (int i = threadIdx.x; i < n * COLS; i += THREADS) {
        const int l = i / COLS, k = i % COLS;
        const int table = p.gradients.table[job.pair.gradient * p.gradients.nlayer + l0 + l];
        const gpu_cov_layer &lay = p.layers[l0 + l];
        double c, offset[2], cc, other[2];
        on_layer(lay, rows, ra, p.aim, &c, offset);
        on_layer(lay, cols, ca, p.aim, &cc, other);
        const double2 first = cols.centre[job.ck + min(col0, job.nc - 1)],
                      e = cols.centre[job.ck + min(col0 + k, job.nc - 1)];
        sh.col[l][k].x = (T)(cc * (e.x - first.x));
        sh.col[l][k].y = (T)(cc * (e.y - first.y));
        if (k > 0)
            continue;
        sh.scale[l] = c;
        sh.cone[l] = cc;
        sh.x[l] = offset[0] - fma(cc, first.x, other[0]);
        sh.y[l] = offset[1] - fma(cc, first.y, other[1]);
        sh.coef[l] = table >= 0 ? (T)lay.coef : (T)0;
        sh.table[l] = p.gradients.tables[table >= 0 ? table : 0];
        sh.radial[l] =
            p.gradients.radial + (size_t)(table >= 0 ? table : 0) * GRADIENT_INTERVALS * 2;
    }
}

/* Axes of a job: unit vectors of rows and columns, and of the sensor that the grids are turned as.
 */
template <class T> struct directions {
    T ux, uy, vx, vy, uv;
    double cos_rot, sin_rot;
    int a, b; /* axes of the class's first and second */
};

template <class T>
static __device__ directions<T> directions_of(const gpu_cov_sensor &rows, int ra,
                                              const gpu_cov_sensor &cols, int ca, bool swapped) {
    const double2 u = axis_of(rows, ra), v = axis_of(cols, ca);
    const gpu_cov_sensor &first = swapped ? cols : rows;
    return directions<T>{(T)u.x,
                         (T)u.y,
                         (T)v.x,
                         (T)v.y,
                         (T)(u.x * v.x + u.y * v.y),
                         first.cos_rot,
                         first.sin_rot,
                         swapped ? ca : ra,
                         swapped ? ra : ca};
}

static __device__ __noinline__ double near_at(const matcov_gradient &t, const double *values,
                                              int kind, double x, double y) {
    return gradient_near(&t, values + t.near, kind, x, y);
}

/* The covariance at one separation on one layer, in units of the scale-free structure function. */
template <class T>
static __device__ __forceinline__ T value_at(const matcov_gradient &t, const double *values,
                                             const float4 *floats, const directions<T> &d, T dx,
                                             T dy) {
    const T s = dx * dx + dy * dy;
    T P, Q;
    if (s < (T)t.near2)
        return (T)near_at(t, values, gradient_kind(t.kinds, d.a, d.b),
                          d.cos_rot * dx + d.sin_rot * dy, d.cos_rot * dy - d.sin_rot * dx);
    radial(t, values, floats, s, &P, &Q);
    return d.uv * P + (d.ux * dx + d.uy * dy) * (d.vx * dx + d.vy * dy) * Q;
}

/* Add a layer for one part of the rows' subaperture and one of the columns'; (x, y): the row. */
template <class T>
static __device__ __forceinline__ void add_layer(const chunk<T> &sh, int l, const double *values,
                                                 const directions<T> &d, T x, T y, T (&sum)[COLS]) {
#pragma unroll
    for (int c = 0; c < COLS; c++)
        sum[c] += sh.coef[l] * value_at(sh.table[l], values, sh.radial[l], d, x - sh.col[l][c].x,
                                        y - sh.col[l][c].y);
}

static __device__ int job_of(const gpu_cov_means &p, int b) {
    int i = 0;
    while (i + 1 < p.njob && b >= p.job[i + 1].block0)
        i++;
    return i;
}

/* Grid: tiles of THREADS rows and COLS columns of all jobs. */
template <class T>
__global__ __launch_bounds__(THREADS) void fill_means(const __grid_constant__ gpu_cov_means p) {
    __shared__ chunk<T> sh;
    const gpu_cov_mean_job &job = p.job[job_of(p, blockIdx.x)];
    const gpu_cov_sensor &rows = p.sensors[job.rs], &cols = p.sensors[job.cs];
    const int b = blockIdx.x - job.block0, down = (job.nr + THREADS - 1) / THREADS;
    const int row = b % down * THREADS + threadIdx.x, col0 = b / down * COLS;
    const double2 point = rows.centre[job.rk + min(row, job.nr - 1)];
    const directions<T> d = directions_of<T>(rows, job.ra, cols, job.ca, job.pair.swapped);
    const int nr = job.pair.parts[0], nc = job.pair.parts[1];
    T sum[COLS] = {};
    for (int l0 = 0; l0 < p.gradients.nlayer; l0 += CHUNK) {
        const int n = min(CHUNK, p.gradients.nlayer - l0);
        __syncthreads();
        prepare(p, job, col0, l0, n, sh);
        __syncthreads();
        for (int l = 0; l < n; l++) {
            if (sh.coef[l] == (T)0)
                continue;
            for (int part = 0; part < nr * nr * nc * nc; part++) {
                const double2 at = part_at(rows, job.pair.step[0], nr, part % (nr * nr)),
                              to = part_at(cols, job.pair.step[1], nc, part / (nr * nr));
                const T x = (T)(fma(sh.scale[l], point.x + at.x, sh.x[l]) - sh.cone[l] * to.x),
                        y = (T)(fma(sh.scale[l], point.y + at.y, sh.y[l]) - sh.cone[l] * to.y);
                add_layer(sh, l, p.gradients.values, d, x, y, sum);
            }
        }
    }
    if (row >= job.nr)
        return;
    const int64_t i = job.row + row;
#pragma unroll
    for (int c = 0; c < COLS; c++) {
        const int64_t j = job.col + col0 + c, below = p.i0 + i - (p.j0 + j);
        if (col0 + c >= job.nc || (p.part != 'A' && below < 0))
            continue;
        const double v = job.pair.scale * sum[c];
        ((T *)p.a)[i + j * p.lda] = (T)(p.part == 'T' && below == 0 ? 0.5 * v : v);
    }
}

/* One value of a table of a like pair. Grid: values, kinds, tables. */
__global__ __launch_bounds__(128) void tabulate_means(const gpu_cov_table *tables,
                                                      const gpu_cov_pair *pairs,
                                                      const __grid_constant__ gpu_cov_means p) {
    const gpu_cov_table t = tables[blockIdx.z];
    const gpu_cov_pair pair = pairs[blockIdx.z];
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
    const directions<double> d = directions_of<double>(a, ra, b, ca, pair.swapped);
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
            sum += lay.coef * value_at<double>(p.gradients.tables[table], p.gradients.values, NULL,
                                               d, c * (qx + at.x - to.x) + (of[0] - os[0]),
                                               c * (qy + at.y - to.y) + (of[1] - os[1]));
        }
    }
    t.value[(size_t)blockIdx.y * t.n * t.n + i] = pair.scale * sum;
}

status gpu_cov_fill_means(cudaStream_t stream, backend_type t, gpu_cov_means *p) {
    int blocks = 0;
    for (int i = 0; i < p->njob; i++) {
        p->job[i].block0 = blocks;
        blocks += (p->job[i].nr + THREADS - 1) / THREADS * ((p->job[i].nc + COLS - 1) / COLS);
    }
    if (blocks > 0 && t == BACKEND_D)
        fill_means<double><<<blocks, THREADS, 0, stream>>>(*p);
    else if (blocks > 0)
        fill_means<float><<<blocks, THREADS, 0, stream>>>(*p);
    LAUNCHED();
    return MOAO_OK;
}

status gpu_cov_tabulate_means(cudaStream_t stream, const gpu_cov_table *tables,
                              const gpu_cov_pair *pairs, int ntable, int largest,
                              const gpu_cov_means *p) {
    if (ntable > 0)
        tabulate_means<<<dim3((largest * largest + 127) / 128, 4, ntable), 128, 0, stream>>>(
            tables, pairs, *p);
    LAUNCHED();
    return MOAO_OK;
}
