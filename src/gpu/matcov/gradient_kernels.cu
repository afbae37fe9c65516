/* Entries of the covariances of mean gradients, with each other and with the phase at points of the
 * pupil. Model sections 4 and 7.
 *
 * A thread has one subaperture (or point) of the rows and COLS of the columns. All is in the axes
 * of the rows' sensor (of the columns' where the rows are points): the two radial functions at one
 * separation give the covariances of all axes there. Near zero separation, where grids serve, they
 * count as zero at first: the few columns of which that is true are gone through afterwards, so
 * that nothing branches in the loop that takes the time.
 *
 * The radial functions of some layers are in shared memory, times the layer's coefficient, in
 * planes of 16 bytes (8 for the phase in single precision) for each interval; the plane's last
 * element is zero. */
#include "matcov_host.cuh"
#include "near.cuh"
#include <math.h>

#define THREADS 256 /* rows of a tile */
#define CHUNK 16    /* most layers held at a time */
/* Bytes of radial functions of a block, of which two share a multiprocessor of Hopper. */
#define MOST_SHARED ((size_t)104 * 1024)

/* Position of sensor w on a layer [m]: c p + offset. False: it does not see the layer. */
static __device__ bool on_layer(const gpu_cov_layer &l, const gpu_cov_sensor &w, bool aimed,
                                const gpu_cov_set_direction &aim, double *c, double offset[2]) {
    const double still[2] = {0.0, 0.0};
    return formula_on_layer(l.h, 1.0, w.altitude, aimed ? aim.dir : w.dir,
                            aimed && aim.drifts ? l.drift : still, c, offset);
}

/* Centre of part i of n x n, `step` apart, of a subaperture, relative to its centre, in its axes.
 */
static __device__ double2 part_at(double step, int n, int i) {
    return make_double2((i % n - 0.5 * (n - 1)) * step, (i / n - 0.5 * (n - 1)) * step);
}

template <class T> struct pair_of;
template <> struct pair_of<double> { using type = double2; };
template <> struct pair_of<float> { using type = float2; };

/* ---- radial functions: F = 1, P alone, or 2, P and Q */

template <class T, int F> struct radial;

template <int F> struct radial<double, F> {
    enum { bits = GRADIENT_BITS, bytes = 32 * F };
    static __device__ int lowest(const matcov_gradient &t) {
        return t.lowest;
    }
    static __device__ int interval(double s) {
        return __double2hiint(s) >> (20 - bits);
    }
    /* Interval i of table number `table` into plane after plane of n + 1 elements. */
    static __device__ void copy(const gpu_cov_gradients &g, const matcov_gradient &t, int, int i,
                                double coef, char *to, int n) {
        const double2 *c = (const double2 *)(g.values + t.radial + (size_t)i * 2 * GRADIENT_TERMS);
#pragma unroll
        for (int k = 0; k < 2 * F; k++)
            ((double2 *)to)[k * (n + 1) + i] = make_double2(coef * c[k].x, coef * c[k].y);
    }
    static __device__ void clear(char *to, int n) {
        for (int k = 0; k < 2 * F; k++)
            ((double2 *)to)[k * (n + 1) + n] = make_double2(0.0, 0.0);
    }
    static __device__ __forceinline__ void at(const char *from, int n, int low, double s, double *P,
                                              double *Q) {
        const unsigned i = min((unsigned)(interval(s) - low), (unsigned)n);
        const double2 *c = (const double2 *)from + i;
        const int high = (__double2hiint(s) & ((1 << (20 - bits)) - 1)) | 0x3ff00000;
        const double m = __hiloint2double(high, __double2loint(s)) - (1.0 + 0.5 / (1 << bits));
        const double2 a = c[0], b = c[n + 1];
        *P = fma(fma(fma(b.y, m, b.x), m, a.y), m, a.x);
        if (F == 2) {
            const double2 d = c[2 * (n + 1)], e = c[3 * (n + 1)];
            *Q = fma(fma(fma(e.y, m, e.x), m, d.y), m, d.x);
        }
    }
};

template <int F> struct radial<float, F> {
    enum { bits = GPU_LINE_BITS, bytes = 8 * F };
    static __device__ int lowest(const matcov_gradient &t) {
        return ((t.lowest >> GRADIENT_BITS) - 1023 + 127) << bits;
    }
    static __device__ int interval(float s) {
        return __float_as_int(s) >> (23 - bits);
    }
    static __device__ void copy(const gpu_cov_gradients &g, const matcov_gradient &, int table,
                                int i, float coef, char *to, int) {
        const float4 c = g.lines[(size_t)table * GPU_LINES + i];
        if (F == 1)
            ((float2 *)to)[i] = make_float2(coef * c.x, coef * c.y);
        else
            ((float4 *)to)[i] = make_float4(coef * c.x, coef * c.y, coef * c.z, coef * c.w);
    }
    static __device__ void clear(char *to, int n) {
        for (int k = 0; k < 2 * F; k++)
            ((float *)to)[2 * F * n + k] = 0.0f;
    }
    static __device__ __forceinline__ void at(const char *from, int n, int low, float s, float *P,
                                              float *Q) {
        const unsigned i = min((unsigned)(interval(s) - low), (unsigned)n);
        const float m = __int_as_float((__float_as_int(s) & ((1 << (23 - bits)) - 1)) | 0x3f800000);
        if (F == 1) {
            const float2 c = ((const float2 *)from)[i];
            *P = fmaf(c.y, m, c.x);
        } else {
            const float4 c = ((const float4 *)from)[i];
            *P = fmaf(c.y, m, c.x);
            *Q = fmaf(c.w, m, c.z);
        }
    }
};

/* Bytes of one layer, a multiple of 16. */
template <class T, int F> static __host__ __device__ int layer_bytes(int n) {
    return (radial<T, F>::bytes * (n + 1) + 15) / 16 * 16;
}

/* ---- layers as a tile sees them */

/* Positions of type float are relative to the tile's first column, which keeps their digits where
 * covariances change fast. */
template <class T> struct layer_of {
    grids<T> near;
    double scale, x, y; /* of the rows, less the tile's first column */
    double cone;        /* of the columns */
    T coef;             /* 0: not seen */
    int table, lowest, intervals;
};

template <class T, int COLS> struct tile {
    layer_of<T> layer[CHUNK];
    typename pair_of<T>::type col[CHUNK][COLS];
};

/* Layers l0 .. l0 + n. */
template <class T, int F, int COLS>
static __device__ void prepare(const gpu_cov_means &p, const gpu_cov_mean_job &job, int col0,
                               int l0, int n, tile<T, COLS> &sh) {
    const bool points = job.rows == 0;
    const gpu_cov_sensor &cols = p.sensors[job.cs],
                         &rows = p.sensors[job.rs >= 0 ? job.rs : job.cs],
                         &frame = points ? cols : rows;
    const bool ra = job.rs == p.aim.sensor, ca = job.cs == p.aim.sensor;
    for (int i = threadIdx.x; i < n * COLS; i += THREADS) {
        const int l = i / COLS, k = i % COLS;
        const int table = p.gradients.table[job.pair.gradient * p.gradients.nlayer + l0 + l];
        const gpu_cov_layer &lay = p.layers[l0 + l];
        const double still[2] = {0.0, 0.0};
        double c, offset[2], cc, other[2];
        const bool seen =
            (job.rs < 0 ? formula_on_layer(lay.h, 1.0, INFINITY, p.aim.dir,
                                           p.aim.drifts ? lay.drift : still, &c, offset)
                        : on_layer(lay, rows, ra, p.aim, &c, offset)) &&
            on_layer(lay, cols, ca, p.aim, &cc, other);
        const double2 *centre = p.col_place ? p.col_place : cols.centre;
        const double2 first = centre[job.ck + min(col0, job.nc - 1)],
                      e = centre[job.ck + min(col0 + k, job.nc - 1)];
        const double2 to = in_axes(frame, cc * (e.x - first.x), cc * (e.y - first.y));
        sh.col[l][k].x = (T)to.x;
        sh.col[l][k].y = (T)to.y;
        if (k > 0)
            continue;
        const matcov_gradient &t = p.gradients.tables[table >= 0 ? table : 0];
        const double dx = offset[0] - other[0], dy = offset[1] - other[1],
                     far = p.reach + sqrt(dx * dx + dy * dy);
        const double2 at = in_axes(frame, dx - cc * first.x, dy - cc * first.y);
        layer_of<T> &to_layer = sh.layer[l];
        to_layer.near = grids_of<T>(p.gradients, t, p.near);
        to_layer.scale = c;
        to_layer.x = at.x;
        to_layer.y = at.y;
        to_layer.cone = cc;
        to_layer.coef = seen && table >= 0 ? (T)lay.coef : (T)0;
        to_layer.table = table;
        to_layer.lowest = radial<T, F>::lowest(t);
        to_layer.intervals =
            min(p.intervals, max(1, radial<T, F>::interval((T)(far * far)) - to_layer.lowest + 1));
    }
}

/* By the whole block. */
template <class T, int F, int COLS>
static __device__ void copy_radial(const gpu_cov_means &p, int n, const tile<T, COLS> &sh,
                                   char *planes) {
    const int bytes = layer_bytes<T, F>(p.intervals);
    for (int l = 0; l < n; l++) {
        const layer_of<T> &at = sh.layer[l];
        if (at.coef == (T)0)
            continue;
        for (int i = threadIdx.x; i < at.intervals; i += THREADS)
            radial<T, F>::copy(p.gradients, p.gradients.tables[at.table], at.table, i, at.coef,
                               planes + l * bytes, p.intervals);
    }
}

/* ---- near zero separation */

template <class T, int N> struct values_of { T v[N]; };

/* gradient_near for N kinds. */
template <int N>
static __device__ __noinline__ values_of<double, N> near_at(const grids<double> &t, int4 kind,
                                                            double x, double y) {
    const int grid = !(fabs(x) < t.inner && fabs(y) < t.inner), n = t.side[grid];
    const double ax = (x + t.half[grid]) * t.inverse[grid],
                 ay = (y + t.half[grid]) * t.inverse[grid];
    const int i = (int)ax, j = (int)ay, kinds[4] = {kind.x, kind.y, kind.z, kind.w};
    const int step = t.kinds;
    const double *from =
        t.values + (grid ? step * t.side[0] * t.side[0] : 0) + ((j - 1) * n + i - 1) * step;
    double wx[4], wy[4];
    values_of<double, N> out;
    spline(ax - i, wx);
    spline(ay - j, wy);
#pragma unroll
    for (int v = 0; v < N; v++) {
        const double *c = from + kinds[v];
        double sum = 0.0;
#pragma unroll
        for (int k = 0; k < 4; k++, c += n * step)
            sum += wy[k] * (wx[0] * __ldg(c) + wx[1] * __ldg(c + step) +
                            wx[2] * __ldg(c + 2 * step) + wx[3] * __ldg(c + 3 * step));
        out.v[v] = sum;
    }
    return out;
}

template <int N>
static __device__ __forceinline__ values_of<float, N> near_at(const grids<float> &t, int4 kind,
                                                              float x, float y) {
    const int kinds[4] = {kind.x, kind.y, kind.z, kind.w};
    const float4 all = t.kinds == 2 ? near_kinds<float2>(t, x, y) : near_kinds<float4>(t, x, y);
    values_of<float, N> out;
#pragma unroll
    for (int v = 0; v < N; v++)
        out.v[v] = component(all, kinds[v]);
    return out;
}

/* ---- axes */

/* Axes of the columns in those of the rows: (c, s) and (-s, c); ra, ca: of which, where there is
 * one. */
template <class T> struct axes {
    T c, s;
    int ra, ca;
    bool swapped;
};

/* Add the covariances of all axes, rows' axis first, at (dx, dy). RA = 0: points. */
template <class T, int RA, int CA, int COLS>
static __device__ __forceinline__ void add_far(const axes<T> &d, T dx, T dy, T P, T Q,
                                               T (&sum)[(RA > 1 ? RA : 1) * CA][COLS], int c) {
    if (RA == 0) {
        sum[0][c] += P * (CA == 1 && d.ca ? dy : dx);
        if (CA == 2)
            sum[CA - 1][c] += P * dy;
    }
#pragma unroll
    for (int b = 0; b < (RA > 0 ? CA : 0); b++) {
        const bool second = CA == 2 ? b == 1 : d.ca == 1;
        const T vx = second ? -d.s : d.c, vy = second ? d.c : d.s;
        const T along = (vx * dx + vy * dy) * Q;
        if (RA == 2) {
            sum[2 * b][c] += vx * P;
            sum[2 * b][c] += along * dx;
            sum[2 * b + RA - 1][c] += vy * P;
            sum[2 * b + RA - 1][c] += along * dy;
        } else {
            sum[b][c] += (d.ra ? vy : vx) * P;
            sum[b][c] += along * (d.ra ? dy : dx);
        }
    }
}

/* The same from the grids. */
template <class T, int RA, int CA, int COLS>
static __device__ __forceinline__ void add_near(const layer_of<T> &l, const axes<T> &d, T dx, T dy,
                                                T (&sum)[(RA > 1 ? RA : 1) * CA][COLS], int c) {
    constexpr int NR = RA > 1 ? RA : 1, N = NR * CA;
    int kind[4] = {0, 0, 0, 0};
#pragma unroll
    for (int k = 0; k < N; k++) {
        const int a = RA == 2 ? k % 2 : d.ra, b = CA == 2 ? k / NR : d.ca;
        kind[k] = RA == 0 ? b : gradient_kind(l.near.kinds, d.swapped ? b : a, d.swapped ? a : b);
    }
    const T x = d.swapped ? d.c * dx + d.s * dy : dx, y = d.swapped ? d.c * dy - d.s * dx : dy;
    const values_of<T, N> v =
        near_at<N>(l.near, make_int4(kind[0], kind[1], kind[2], kind[3]), x, y);
#pragma unroll
    for (int k = 0; k < N; k++)
        sum[k][c] += l.coef * v.v[k];
}

/* A layer, for one part of the rows' subaperture and one of the columns'; (x, y): the row. */
template <class T, int RA, int CA, int COLS>
static __device__ __forceinline__ void
add_layer(const layer_of<T> &l, const typename pair_of<T>::type (&col)[COLS], const char *planes,
          int intervals, const axes<T> &d, T x, T y, T (&sum)[(RA > 1 ? RA : 1) * CA][COLS]) {
    const T near2 = l.near.near2;
    unsigned close = 0;
#pragma unroll
    for (int c = 0; c < COLS; c++) {
        const T dx = x - col[c].x, dy = y - col[c].y, s = dx * dx + dy * dy;
        T P, Q = (T)0;
        if (s < near2)
            close |= 1u << c;
        radial<T, (RA > 0 ? 2 : 1)>::at(planes, intervals, l.lowest, s < near2 ? (T)0 : s, &P, &Q);
        add_far<T, RA, CA, COLS>(d, dx, dy, P, Q, sum, c);
    }
    if (close == 0)
        return;
#pragma unroll
    for (int c = 0; c < COLS; c++)
        if (close >> c & 1)
            add_near<T, RA, CA, COLS>(l, d, x - col[c].x, y - col[c].y, sum, c);
}

static __device__ int job_of(const gpu_cov_means &p, int b) {
    int i = 0;
    while (i + 1 < p.njob && b >= p.job[i + 1].block0)
        i++;
    return i;
}

/* Number of this thread's row among the job's. */
static __device__ int row_of(const gpu_cov_means &p, const gpu_cov_mean_job &job, int row) {
    return job.whole && job.rows > 0 ? p.sensors[job.rs].patch[min(row, job.nr - 1)]
                                     : min(row, job.nr - 1);
}

template <class T, int RA, int CA, int COLS>
static __device__ __forceinline__ void store(const gpu_cov_means &p, const gpu_cov_mean_job &job,
                                             int row, int col0,
                                             const T (&sum)[(RA > 1 ? RA : 1) * CA][COLS]) {
    constexpr int NR = RA > 1 ? RA : 1;
#pragma unroll
    for (int k = 0; k < NR * CA; k++) {
        const int64_t i = job.row[RA == 2 ? k % 2 : 0] + row,
                      j0 = job.col[CA == 2 ? k / NR : 0] + col0;
#pragma unroll
        for (int c = 0; c < COLS; c++) {
            const int64_t j = j0 + c, below = p.i0 + i - (p.j0 + j);
            if (col0 + c >= job.nc || (p.part != 'A' && below < 0))
                continue;
            const double v = job.pair.scale * sum[k][c];
            ((T *)p.a)[i + j * p.lda] = (T)(p.part == 'T' && below == 0 ? 0.5 * v : v);
        }
    }
}

/* Grid: tiles of THREADS rows and COLS columns of all jobs. */
template <class T, int RA, int CA, int COLS>
__global__ __launch_bounds__(THREADS, 2) void fill_means(const __grid_constant__ gpu_cov_means p) {
    constexpr int F = RA > 0 ? 2 : 1;
    extern __shared__ __align__(16) char planes[];
    __shared__ tile<T, COLS> sh;
    const gpu_cov_mean_job &job = p.job[job_of(p, blockIdx.x)];
    const gpu_cov_sensor &cols = p.sensors[job.cs], &frame = RA > 0 ? p.sensors[job.rs] : cols;
    const int b = blockIdx.x - job.block0, down = (job.nr + THREADS - 1) / THREADS;
    const int place = b % down * THREADS + threadIdx.x, col0 = b / down * COLS;
    const int row = row_of(p, job, place);
    const double2 there = p.row_place   ? p.row_place[job.rk + row]
                          : RA > 0      ? frame.centre[job.rk + row]
                          : job.rs >= 0 ? p.sensors[job.rs].edge[GPU_COV_ROWS][job.ra][job.rk + row]
                                        : make_double2(p.px[job.rk + row], p.py[job.rk + row]);
    const double2 point = in_axes(frame, there.x, there.y);
    const axes<T> d = {(T)(frame.cos_rot * cols.cos_rot + frame.sin_rot * cols.sin_rot),
                       (T)(frame.cos_rot * cols.sin_rot - frame.sin_rot * cols.cos_rot), job.ra,
                       job.ca, RA > 0 && job.pair.swapped};
    const int nr = job.pair.parts[0], nc = job.pair.parts[1];
    const int bytes = layer_bytes<T, F>(p.intervals);
    T sum[(RA > 1 ? RA : 1) * CA][COLS];
#pragma unroll
    for (int k = 0; k < (RA > 1 ? RA : 1) * CA; k++)
#pragma unroll
        for (int c = 0; c < COLS; c++)
            sum[k][c] = (T)0;
    if ((int)threadIdx.x < p.deep)
        radial<T, F>::clear(planes + threadIdx.x * bytes, p.intervals);
    for (int l0 = 0; l0 < p.gradients.nlayer; l0 += p.deep) {
        const int n = min(p.deep, p.gradients.nlayer - l0);
        __syncthreads();
        prepare<T, F, COLS>(p, job, col0, l0, n, sh);
        __syncthreads();
        copy_radial<T, F, COLS>(p, n, sh, planes);
        __syncthreads();
        for (int l = 0; l < n; l++) {
            const layer_of<T> &at = sh.layer[l];
            if (at.coef == (T)0)
                continue;
            for (int part = 0; part < nr * nr * nc * nc; part++) {
                const double2 mine = part_at(job.pair.step[0], nr, part % (nr * nr)),
                              to = part_at(job.pair.step[1], nc, part / (nr * nr));
                const double tx = d.c * to.x - d.s * to.y, ty = d.s * to.x + d.c * to.y;
                add_layer<T, RA, CA, COLS>(
                    at, sh.col[l], planes + l * bytes, p.intervals, d,
                    (T)(fma(at.scale, point.x + mine.x, at.x) - at.cone * tx),
                    (T)(fma(at.scale, point.y + mine.y, at.y) - at.cone * ty), sum);
            }
        }
    }
    if (place < job.nr)
        store<T, RA, CA, COLS>(p, job, row, col0, sum);
}

/* ---- launches */

template <class T, int RA, int CA>
static status launch(cudaStream_t stream, gpu_cov_means *p, double farthest,
                     const host_gradients *host) {
    constexpr int F = RA > 0 ? 2 : 1, N = (RA > 1 ? RA : 1) * CA;
    constexpr int COLS = sizeof(T) == 8 ? (N == 4 ? 4 : 8) : (N == 4 ? 8 : 16);
    const int each = sizeof(T) == 8 ? 1 : 1 << (GPU_LINE_BITS - GRADIENT_BITS);
    const double far2 = farthest * farthest;
    matcov_gradient any = {};
    double m;
    any.lowest = host->lowest;
    const int needed =
        (gradient_interval(&any, far2 > host->near2 ? far2 : host->near2, &m) + 1) * each;
    int blocks = 0;
    p->intervals = needed < GRADIENT_INTERVALS * each ? needed : GRADIENT_INTERVALS * each;
    const size_t left = gpu_shared_most() - sizeof(tile<T, COLS>),
                 room = left < MOST_SHARED ? left : MOST_SHARED;
    p->deep = (int)room / layer_bytes<T, F>(p->intervals);
    p->deep = p->deep < 1 ? 1 : p->deep > CHUNK ? CHUNK : p->deep;
    const int bytes = p->deep * layer_bytes<T, F>(p->intervals);
    for (int i = 0; i < p->njob; i++) {
        p->job[i].block0 = blocks;
        blocks += (p->job[i].nr + THREADS - 1) / THREADS * ((p->job[i].nc + COLS - 1) / COLS);
    }
    if (blocks == 0)
        return MOAO_OK;
    GPU_TRY(gpu_allow_shared((const void *)fill_means<T, RA, CA, COLS>, (size_t)bytes));
    fill_means<T, RA, CA, COLS><<<blocks, THREADS, bytes, stream>>>(*p);
    LAUNCHED();
    return MOAO_OK;
}

template <class T>
static status launch_axes(cudaStream_t stream, gpu_cov_means *p, double farthest,
                          const host_gradients *host) {
    switch (p->job[0].rows * 2 + p->job[0].cols - 1) {
    case 0:
        return launch<T, 0, 1>(stream, p, farthest, host);
    case 1:
        return launch<T, 0, 2>(stream, p, farthest, host);
    case 2:
        return launch<T, 1, 1>(stream, p, farthest, host);
    case 3:
        return launch<T, 1, 2>(stream, p, farthest, host);
    case 4:
        return launch<T, 2, 1>(stream, p, farthest, host);
    default:
        return launch<T, 2, 2>(stream, p, farthest, host);
    }
}

status gpu_cov_fill_means(cudaStream_t stream, backend_type t, gpu_cov_means *p, double farthest,
                          const host_gradients *host) {
    if (p->njob == 0)
        return MOAO_OK;
    return t == BACKEND_D ? launch_axes<double>(stream, p, farthest, host)
                          : launch_axes<float>(stream, p, farthest, host);
}
