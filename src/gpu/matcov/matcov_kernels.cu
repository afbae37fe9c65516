/* Kernels of the covariances of slopes. Model section 4. */
#include "gradient.cuh"
#include "matcov/fit_formula.h"
#include "structure.cuh"

/* ---- structure functions */

/* The words of an interval, of polynomial c: a single double, and several. */
static __device__ void pack(double *c, unsigned *word, int bits) {
    float f[3];
    for (int k = 0; k < 3; k++)
        f[k] = (float)ldexp(c[1 + k], -bits * (1 + k));
    c[0] += ldexp(c[1], -bits - 24); /* t is cut off, on average by half of 2^-23 */
    word[0] = (low(c[0]) & 0xfff00000u) | ((__float_as_uint(f[2]) + 0x800u) >> 12);
    word[1] = high(c[0]);
    word[2] = __float_as_uint(f[0]);
    word[3] = __float_as_uint(f[1]);
}
static __device__ void pack(const double *c, int n, unsigned *word) {
    for (int k = 0; k < n - 3; k++) {
        *word++ = low(c[k]);
        *word++ = high(c[k]);
    }
    *word++ = high(c[n - 3]);
    *word++ = high(c[n - 2]);
    *word++ = (low(c[n - 3]) & 0xffff0000u) | (low(c[n - 2]) >> 20 << 4) | low(c[n - 1]) >> 28;
    *word++ = high(c[n - 1]);
    *word++ = __float_as_uint((float)c[n]);
    *word++ = __float_as_uint((float)c[n + 1]);
}

/* All intervals of one structure function (blockIdx.y: 0 von Karman, 1 Kolmogorov). */
template <class S> __global__ void fit(S *tables) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x, within = i & ((1 << S::bits) - 1);
    double c[S::terms] = {0};
    unsigned word[4 * S::quads];
    if (i >= S::intervals)
        return;
    if (i > 0)
        formula_fit(ldexp(1.0, S::first + (i >> S::bits)), 1.0 + (double)within / (1 << S::bits),
                    0.5 / (1 << S::bits), (int)blockIdx.y, S::terms, c, 1);
    if (S::doubles == 1)
        pack(c, word, S::bits);
    else
        pack(c, S::doubles, word);
    for (int k = 0; k < S::quads; k++)
        tables[blockIdx.y].quad[k][i] =
            make_uint4(word[4 * k], word[4 * k + 1], word[4 * k + 2], word[4 * k + 3]);
}

/* Tables for the flat layers and for the others, by the type of the result. */
struct for_double {
    using flat = gpu_shape_fine;
    using steep = gpu_shape_finest;
    static __device__ const flat *flat_tables(const gpu_structure *p) {
        return p->fine;
    }
    static __device__ const steep *steep_tables(const gpu_structure *p) {
        return p->finest;
    }
};
struct for_float {
    using flat = gpu_shape_coarse;
    using steep = gpu_shape_fine;
    static __device__ const flat *flat_tables(const gpu_structure *p) {
        return p->coarse;
    }
    static __device__ const steep *steep_tables(const gpu_structure *p) {
        return p->fine;
    }
};

/* Position of sensor w on a layer: c p + offset, in units of 1 / kappa. False: it does not see the
 * layer. */
static __device__ bool on_layer(const gpu_cov_layer &l, const gpu_cov_sensor &w, bool aimed,
                                const gpu_cov_set_direction &aim, double *c, double offset[2]) {
    const double still[2] = {0.0, 0.0};
    return formula_on_layer(l.h, l.kappa, w.altitude, aimed ? aim.dir : w.dir,
                            aimed && aim.drifts ? l.drift : still, c, offset);
}

/* ---- sums between edge points */

#define WARPS 8
#define THREADS (32 * WARPS)
#define CHUNK 16 /* layers prepared at a time */

/* Tile of a block: warps stand WARP_ROWS x (WARPS / WARP_ROWS); a thread has R rows, 32 apart, and
 * C columns. */
template <int R, int C, int WARP_ROWS> struct tile {
    enum { rows = 32 * R * WARP_ROWS, cols = C * WARPS / WARP_ROWS };
};

template <class P, class T> struct sum_memory {
    union {
        typename P::flat flat;
        typename P::steep steep;
    };
    double2 col[CHUNK][T::cols];
    double scale[CHUNK], x[CHUNK], y[CHUNK], coef[CHUNK];
};

/* The job that block b of a launch works on. */
template <class P> static __device__ int job_of(const P &p, int b, bool edges) {
    int i = 0;
    while (i + 1 < p.njob && b >= (edges ? p.job[i + 1].eblock0 : p.job[i + 1].block0))
        i++;
    return i;
}

/* By the whole block. */
template <class S> static __device__ void copy_table(const S *from, S *to) {
    static_assert(sizeof(S) % sizeof(int4) == 0, "copied in words of 16 bytes");
    for (int i = threadIdx.x; i < (int)(sizeof(S) / sizeof(int4)); i += THREADS)
        ((int4 *)to)[i] = ((const int4 *)from)[i];
}

/* Layers l0 .. l0 + n as the tile sees them: what maps the rows' points to the layer, relative to
 * the columns' offset, and the columns' points there. */
template <class T, class M>
static __device__ void prepare_layers(const gpu_cov_edges &p, const gpu_cov_job &job, int col0,
                                      int l0, int n, M &sh) {
    const gpu_cov_sensor &rows = p.sensors[job.rs], &cols = p.sensors[job.cs];
    const bool ra = job.rs == p.aim.sensor, ca = job.cs == p.aim.sensor;
    double c, offset[2], cc, other[2];
    for (int i = threadIdx.x; i < n * T::cols; i += THREADS) {
        const int l = i / T::cols, k = i % T::cols;
        const double2 e = cols.edge[GPU_COV_ROWS][job.ca][job.ce + min(col0 + k, job.nce - 1)];
        on_layer(p.layers[l0 + l], cols, ca, p.aim, &cc, other);
        sh.col[l][k] = make_double2(fma(cc, e.x, other[0]), fma(cc, e.y, other[1]));
    }
    if ((int)threadIdx.x < n) {
        const gpu_cov_layer &l = p.layers[l0 + threadIdx.x];
        const bool seen =
            on_layer(l, rows, ra, p.aim, &c, offset) && on_layer(l, cols, ca, p.aim, &cc, other);
        sh.scale[threadIdx.x] = c;
        sh.x[threadIdx.x] = offset[0];
        sh.y[threadIdx.x] = offset[1];
        sh.coef[threadIdx.x] = seen ? l.coef : 0.0;
    }
}

/* Add layers 0 .. n of shared memory to the sums of a thread. */
template <int R, int C, class S, class M>
static __device__ __forceinline__ void add_layers(const M &sh, const S &table, int n, int wc,
                                                  const double2 (&point)[R], double (&sum)[R][C],
                                                  float (&rest)[R][C]) {
    for (int l = 0; l < n; l++) {
        const double coef = sh.coef[l];
        const float rough = (float)coef;
        double2 at[R];
        if (coef == 0.0)
            continue;
#pragma unroll
        for (int r = 0; r < R; r++)
            at[r] = make_double2(fma(sh.scale[l], point[r].x, sh.x[l]),
                                 fma(sh.scale[l], point[r].y, sh.y[l]));
#pragma unroll
        for (int c = 0; c < C; c++) {
            const double2 q = sh.col[l][wc * C + c];
#pragma unroll
            for (int r = 0; r < R; r++) {
                const double dx = at[r].x - q.x, dy = at[r].y - q.y;
                add_structure(table, square<S>(dx, dy), coef, rough, sum[r][c], rest[r][c]);
            }
        }
    }
}

/* Add the layers of a class, whose table goes to shared memory. */
template <class T, int R, int C, class S, class M>
static __device__ __forceinline__ void
add_class(const gpu_cov_edges &p, const gpu_cov_job &job, int c, int col0, int wc, const S *from,
          S *table, M &sh, const double2 (&point)[R], double (&sum)[R][C], float (&rest)[R][C]) {
    const int last = p.from[c + 1];
    if (p.from[c] == last)
        return;
    __syncthreads();
    copy_table(from, table);
    for (int l = p.from[c]; l < last; l += CHUNK) {
        const int n = min(CHUNK, last - l);
        __syncthreads();
        prepare_layers<T>(p, job, col0, l, n, sh);
        __syncthreads();
        add_layers<R, C>(sh, *table, n, wc, point, sum, rest);
    }
}

template <class P, int R, int C, int WARP_ROWS, int BLOCKS>
__global__ __launch_bounds__(THREADS,
                             BLOCKS) void sum_edges(const __grid_constant__ gpu_cov_edges p) {
    using T = tile<R, C, WARP_ROWS>;
    using M = sum_memory<P, T>;
    extern __shared__ __align__(16) char memory[];
    M &sh = *(M *)memory;
    const gpu_cov_job &job = p.job[job_of(p, blockIdx.x, true)];
    const int b = blockIdx.x - job.eblock0, down = (job.nre + T::rows - 1) / T::rows;
    const int warp = threadIdx.x / 32, wr = warp % WARP_ROWS, wc = warp / WARP_ROWS;
    const int row0 = b % down * T::rows + wr * 32 * R + threadIdx.x % 32, col0 = b / down * T::cols;
    double2 point[R];
    double sum[R][C];
    float rest[R][C];
#pragma unroll
    for (int r = 0; r < R; r++) {
        const int row = job.re + min(row0 + 32 * r, job.nre - 1);
        point[r] = p.px ? make_double2(p.px[row], p.py[row])
                        : p.sensors[job.rs].edge[job.order][job.ra][row];
#pragma unroll
        for (int c = 0; c < C; c++)
            sum[r][c] = 0.0, rest[r][c] = 0.0f;
    }
    add_class<T>(p, job, GPU_COV_FLAT, col0, wc, P::flat_tables(p.structure), &sh.flat, sh, point,
                 sum, rest);
#pragma unroll 1
    for (int c = GPU_COV_STEEP; c <= GPU_COV_KOLMOGOROV; c++)
        add_class<T>(p, job, c, col0, wc, P::steep_tables(p.structure) + (c == GPU_COV_KOLMOGOROV),
                     &sh.steep, sh, point, sum, rest);
#pragma unroll
    for (int c = 0; c < C; c++)
#pragma unroll
        for (int r = 0; r < R; r++)
            if (row0 + 32 * r < job.nre && col0 + wc * C + c < job.nce)
                p.sums[job.sums + (size_t)(col0 + wc * C + c) * job.nre + row0 + 32 * r] =
                    sum[r][c] + (double)rest[r][c];
}

/* ---- entries */

#define ENTRY_COLS 16

/* Columns of the tile of a block: those of the job from col0 on, at most ENTRY_COLS; this thread's
 * row or -1. */
static __device__ int entry_tile(const gpu_cov_job &job, int b, int *col0, int *col1) {
    const int down = (job.nr + THREADS - 1) / THREADS, row = b % down * THREADS + threadIdx.x;
    *col0 = b / down * ENTRY_COLS;
    *col1 = min(*col0 + ENTRY_COLS, job.nc);
    return row < job.nr ? row : -1;
}

/* Store an entry of the job, as the part wants it. */
template <class E>
static __device__ __forceinline__ void put(const gpu_cov_entries &p, const gpu_cov_job &job, int i,
                                           int j, double v) {
    const int64_t row = job.row + i, col = job.col + j, below = p.i0 + row - (p.j0 + col);
    if (p.part != 'A' && below < 0)
        return;
    ((E *)p.a)[row + col * p.lda] = (E)(p.part == 'T' && below == 0 ? 0.5 * v : v);
}

template <class E>
__global__ __launch_bounds__(THREADS) void combine(const __grid_constant__ gpu_cov_entries p) {
    const gpu_cov_job &job = p.job[job_of(p, blockIdx.x, false)];
    const gpu_cov_sensor &rows = p.sensors[job.rs], &cols = p.sensors[job.cs];
    int j, end;
    const int i = entry_tile(job, blockIdx.x - job.block0, &j, &end);
    if (i < 0)
        return;
    const int rm = rows.minus[job.order][job.ra][job.rk + i] - job.re;
    const int rp = rows.plus[job.order][job.ra][job.rk + i] - job.re;
    const int *cm = cols.minus[GPU_COV_ROWS][job.ca] + job.ck,
              *cp = cols.plus[GPU_COV_ROWS][job.ca] + job.ck;
    const double scale = formula_slope_scale(rows.size, cols.size);
    for (; j < end; j++) {
        const double *m = p.sums + job.sums + (size_t)(cm[j] - job.ce) * job.nre;
        const double *q = p.sums + job.sums + (size_t)(cp[j] - job.ce) * job.nre;
        put<E>(p, job, i, j, scale * formula_second_difference(q[rp], m[rp], q[rm], m[rm]));
    }
}

template <class E>
__global__ __launch_bounds__(THREADS) void look_up(const __grid_constant__ gpu_cov_entries p) {
    const gpu_cov_job &job = p.job[job_of(p, blockIdx.x, false)];
    const gpu_cov_table &t = p.tables[job.table];
    int j, end;
    const int i = entry_tile(job, blockIdx.x - job.block0, &j, &end);
    if (i < 0)
        return;
    const int kind = job.reversed ? job.ca + 2 * job.ra : job.ra + 2 * job.ca;
    const int rs = job.reversed ? -t.steps[1] : t.steps[0],
              cs = job.reversed ? t.steps[0] : -t.steps[1];
    const double *value = t.value + ((size_t)kind * t.n + t.origin) * t.n + t.origin;
    const int2 rp = p.sensors[job.rs].place[job.rk + i];
    const double add = job.own && job.ra == job.ca && (p.with & MATCOV_TIPTILT) ? job.tiptilt : 0.0;
    const bool noisy = job.own && (p.with & MATCOV_NOISE);
    for (; j < end; j++) {
        const int2 cp = p.sensors[job.cs].place[job.ck + j];
        double v = value[(rs * rp.y + cs * cp.y) * t.n + rs * rp.x + cs * cp.x] + add;
        if (noisy && job.rk + i == job.ck + j)
            v += p.noise[3 * (p.first[job.rs] + job.rk + i) + (job.ra != job.ca ? 2 : job.ra)];
        put<E>(p, job, i, j, v);
    }
}

/* One value of a table: the four structure functions of its second difference, layer by layer.
 * Grid: values, kinds, tables. */
__global__ __launch_bounds__(128) void tabulate(const gpu_cov_table *tables,
                                                const gpu_cov_pair *pairs,
                                                const __grid_constant__ gpu_cov_edges p) {
    const gpu_cov_table t = tables[blockIdx.z];
    if (pairs[blockIdx.z].gradient >= 0)
        return;
    const gpu_cov_sensor &a = p.sensors[t.first], &b = p.sensors[t.second];
    const int i = blockIdx.x * blockDim.x + threadIdx.x,
              axis[2] = {(int)blockIdx.y & 1, (int)blockIdx.y >> 1};
    if (i >= t.n * t.n)
        return;
    const double sa = t.steps[0], sb = t.steps[1], u = a.size / sa, cx = a.cos_rot, sx = a.sin_rot;
    const double centre[2] = {i % t.n - t.origin + 0.5 * (sa - sb),
                              i / t.n - t.origin + 0.5 * (sa - sb)};
    double sum[4] = {0.0, 0.0, 0.0, 0.0}; /* pp, pm, mp, mm; each with its rest */
    float rest[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (int l = 0; l < p.from[GPU_COV_CLASSES]; l++) {
        double c, cb, of[2], os[2];
        const gpu_cov_layer lay = p.layers[l];
        if (!on_layer(lay, a, t.first == p.aim.sensor, p.aim, &c, of) ||
            !on_layer(lay, b, t.second == p.aim.sensor, p.aim, &cb, os))
            continue;
        const gpu_shape_finest &table = p.structure->finest[l >= p.from[GPU_COV_KOLMOGOROV]];
        for (int k = 0; k < 4; k++) {
            double q[2] = {centre[0], centre[1]};
            q[axis[0]] += (k & 2) ? -0.5 * sa : 0.5 * sa;
            q[axis[1]] -= (k & 1) ? -0.5 * sb : 0.5 * sb;
            const double x =
                c * (u * (cx * q[0] - sx * q[1]) + a.shift[0] - b.shift[0]) + (of[0] - os[0]);
            const double y =
                c * (u * (sx * q[0] + cx * q[1]) + a.shift[1] - b.shift[1]) + (of[1] - os[1]);
            add_structure(table, square<gpu_shape_finest>(x, y), lay.coef, (float)lay.coef, sum[k],
                          rest[k]);
        }
    }
    t.value[(size_t)blockIdx.y * t.n * t.n + i] =
        formula_slope_scale(a.size, b.size) *
        formula_second_difference(sum[0] + rest[0], sum[1] + rest[1], sum[2] + rest[2],
                                  sum[3] + rest[3]);
}

/* ---- launches */

status gpu_cov_fit(cudaStream_t stream, gpu_structure *structure) {
    const dim3 blocks((gpu_shape_fine::intervals + 63) / 64,
                      2); /* all shapes have as many intervals */
    fit<<<blocks, 64, 0, stream>>>(structure->coarse);
    fit<<<blocks, 64, 0, stream>>>(structure->fine);
    fit<<<blocks, 64, 0, stream>>>(structure->finest);
    LAUNCHED();
    return MOAO_OK;
}

status gpu_cov_tabulate(cudaStream_t stream, const gpu_cov_table *tables, const gpu_cov_pair *pairs,
                        int ntable, int largest, const gpu_cov_edges *layers) {
    if (ntable > 0)
        tabulate<<<dim3((largest * largest + 127) / 128, 4, ntable), 128, 0, stream>>>(
            tables, pairs, *layers);
    LAUNCHED();
    return MOAO_OK;
}

template <class P, int R, int C, int WARP_ROWS, int BLOCKS>
static status launch_sum(cudaStream_t stream, gpu_cov_edges *p) {
    using T = tile<R, C, WARP_ROWS>;
    const int bytes = sizeof(sum_memory<P, T>);
    int blocks = 0;
    for (int i = 0; i < p->njob; i++) {
        p->job[i].eblock0 = blocks;
        blocks +=
            (p->job[i].nre + T::rows - 1) / T::rows * ((p->job[i].nce + T::cols - 1) / T::cols);
    }
    GPU_TRY(gpu_allow_shared((const void *)sum_edges<P, R, C, WARP_ROWS, BLOCKS>, (size_t)bytes));
    if (blocks == 0)
        return MOAO_OK;
    sum_edges<P, R, C, WARP_ROWS, BLOCKS><<<blocks, THREADS, bytes, stream>>>(*p);
    LAUNCHED();
    return MOAO_OK;
}

/* Two blocks of 128 registers a thread run faster than three of 80, and than tiles of twice the
 * rows. */
#define TILE 2, 8, 2, 2

status gpu_cov_sum(cudaStream_t stream, backend_type t, gpu_cov_edges *p) {
    return t == BACKEND_D ? launch_sum<for_double, TILE>(stream, p)
                          : launch_sum<for_float, TILE>(stream, p);
}

static int entry_blocks(gpu_cov_entries *p) {
    int blocks = 0;
    for (int i = 0; i < p->njob; i++) {
        p->job[i].block0 = blocks;
        blocks +=
            (p->job[i].nr + THREADS - 1) / THREADS * ((p->job[i].nc + ENTRY_COLS - 1) / ENTRY_COLS);
    }
    return blocks;
}

status gpu_cov_combine(cudaStream_t stream, backend_type t, gpu_cov_entries *p) {
    const int blocks = entry_blocks(p);
    if (blocks > 0 && t == BACKEND_D)
        combine<double><<<blocks, THREADS, 0, stream>>>(*p);
    else if (blocks > 0)
        combine<float><<<blocks, THREADS, 0, stream>>>(*p);
    LAUNCHED();
    return MOAO_OK;
}

status gpu_cov_look_up(cudaStream_t stream, backend_type t, gpu_cov_entries *p) {
    const int blocks = entry_blocks(p);
    if (blocks > 0 && t == BACKEND_D)
        look_up<double><<<blocks, THREADS, 0, stream>>>(*p);
    else if (blocks > 0)
        look_up<float><<<blocks, THREADS, 0, stream>>>(*p);
    LAUNCHED();
    return MOAO_OK;
}
