/* Kernels of the residual phase on the pupil: model section 7, after src/psf/psf_phase.c and
 * psf_lattice.c. Every sum is made in a fixed order. */
#include "gpu/core/common.cuh"
#include "psf.cuh"
#include "psf/device_formula.h"

#define THREADS 128
#define SPREAD_WARPS 8

/* ---- factors of influence functions as a target sees them: psf_aim of psf_phase.c */

/* Grid: actuators along a side, places of the lattice. */
static __global__ void see_mirror(gpu_psf_mirror m, int shift, double x, double y, double quarter) {
    const int a = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y;
    const double unit = 1 / (sqrt(2.0) * m.x0), at = (a - 0.5 * (m.side - 1)) * m.pitch;
    if (a >= m.side)
        return;
    const double dy = unit * (y - at + quarter * (shift ? 4 * j + 1 : 4 * j + 2)),
                 even = unit * (x - at + quarter * (shift ? 4 * j + 1 : 4 * j + 2)),
                 odd = unit * (x - at + quarter * (shift ? 4 * j + 3 : 4 * j + 2));
    m.if_y[j * m.side + a] = exp(-dy * dy);
    m.if_x[0][j * m.side + a] = exp(-even * even);
    m.if_x[1][j * m.side + a] = exp(-odd * odd);
}

status gpu_psf_aim(cudaStream_t stream, const gpu_psf *d, const double dir[2]) {
    for (int i = 0; i < d->nmirror; i++) {
        gpu_psf_mirror *m = &d->mirror[i];
        if (m->fixed)
            continue;
        const double x = d->corner + dir[0] * m->altitude, y = d->corner + dir[1] * m->altitude;
        m->middle[0] = x / m->pitch + 0.5 * (m->side - 1);
        m->middle[1] = y / m->pitch + 0.5 * (m->side - 1);
        m->per_quarter = 0.25 * d->height / m->pitch;
        see_mirror<<<dim3((m->side + THREADS - 1) / THREADS, d->lattice), THREADS, 0, stream>>>(
            *m, d->shift, x, y, 0.25 * d->height);
        LAUNCHED();
    }
    return MOAO_OK;
}

/* ---- commands against the phase at points: g = Y IF' - C for PSF_ROWS rows of the lattice */

/* Actuators in reach of row (axis 1) or column (0) j of the lattice, first <= a < end. */
static __device__ void in_reach(const gpu_psf &d, const gpu_psf_mirror &m, int axis, int j,
                                int *first, int *end) {
    const int near = m.fixed ? j * d.n / d.lattice
                             : (int)floor(fmin(fmax(m.middle[axis] + (4 * j + 2) * m.per_quarter,
                                                    -1.0 * m.reach - 2),
                                               1.0 * m.side + m.reach));
    const int from = near - m.reach, to = near + 2 + m.reach;
    *first = from < 0 ? 0 : from;
    *end = to > m.side ? m.side : to;
}

/* lines[r][x][a] = sum over the actuators of column x of a mirror in reach of row j0 + r. Grid:
 * commands a, columns, rows. */
static __global__ void along_columns(gpu_psf d, gpu_psf_mirror m, int j0,
                                     const double *__restrict__ y, int64_t ldy) {
    const int a = blockIdx.x * blockDim.x + threadIdx.x, x = blockIdx.y, j = j0 + blockIdx.z;
    double sum = 0;
    int first, end;
    if (a >= d.nact)
        return;
    in_reach(d, m, 1, j, &first, &end);
    for (int i = first; i < end; i++) {
        const int b = m.at[i * m.side + x];
        if (b >= 0)
            sum += m.if_y[j * m.side + i] * y[a + (m.first + b) * ldy];
    }
    d.lines[((int64_t)blockIdx.z * m.side + x) * d.nact + a] = sum;
}

/* g[i][a] of the points first + i of the rows from j0 on; added to what is there of mirrors before.
 * Grid: commands, points. */
static __global__ void along_rows(gpu_psf d, gpu_psf_mirror m, bool added, int j0, int first,
                                  const double *__restrict__ ct, int64_t ldct) {
    const int a = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y;
    int j = j0, from, end;
    if (a >= d.nact)
        return;
    while (d.point_row[j + 1] <= first + i)
        j++;
    const int column = d.point_column[first + i];
    const double *f = m.if_x[j & d.shift] + column * m.side;
    const double *lines = d.lines + (int64_t)(j - j0) * m.side * d.nact + a;
    double sum = 0, *to = d.g + (int64_t)i * d.nact + a;
    in_reach(d, m, 0, column, &from, &end);
    for (int x = from; x < end; x++)
        sum += f[x] * lines[(int64_t)x * d.nact];
    *to = added ? *to + sum : sum - ct[a + (first + i) * ldct];
}

/* ---- z[i][x'] (+)= sum_a IF_a(x') g[i][a] of a mirror for all points x', a block for each i: a
 * warp takes a row of the lattice at a time. The grid of actuators of large telescopes has no room
 * in shared memory and is read where it lies. */
static __device__ inline double actuator(const gpu_psf_mirror &m, const double *g, int i) {
    return m.at[i] < 0 ? 0 : g[m.at[i]];
}
template <bool STAGED> static __global__ void spread(gpu_psf d, gpu_psf_mirror m, bool added) {
    extern __shared__ double grid[]; /* STAGED: [side][side]; then [SPREAD_WARPS][side] */
    const double *g = d.g + (int64_t)blockIdx.x * d.nact + m.first;
    double *z = d.z + (int64_t)blockIdx.x * d.np;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    double *part = grid + (STAGED ? m.side * m.side : 0) + warp * m.side;
    if (STAGED) {
        for (int i = threadIdx.x; i < m.side * m.side; i += blockDim.x)
            grid[i] = actuator(m, g, i);
        __syncthreads();
    }
    for (int j = warp; j < d.lattice; j += SPREAD_WARPS) {
        int y0, y1, x0, x1;
        in_reach(d, m, 1, j, &y0, &y1);
        for (int x = lane; x < m.side; x += 32) {
            double sum = 0;
            for (int y = y0; y < y1; y++)
                sum += m.if_y[j * m.side + y] *
                       (STAGED ? grid[y * m.side + x] : actuator(m, g, y * m.side + x));
            part[x] = sum;
        }
        __syncwarp();
        for (int b = d.point_row[j] + lane; b < d.point_row[j + 1]; b += 32) {
            const int column = d.point_column[b];
            const double *f = m.if_x[j & d.shift] + column * m.side;
            double sum = 0;
            in_reach(d, m, 0, column, &x0, &x1);
            for (int x = x0; x < x1; x++)
                sum += f[x] * part[x];
            z[b] = added ? z[b] + sum : sum;
        }
        __syncwarp();
    }
}

/* sum(rho) += 4 [Z(x, x) - Z(x', x)] for the points x of rows j0 to j1, x' in the row dj after
 * that of x. Grid: places along x, dj. */
static __global__ void add_pairs(gpu_psf d, int j0, int j1, double *sum) {
    const int dj = (int)blockIdx.y - d.lattice, s = d.lattice, first = d.point_row[j0];
    const int t = blockIdx.x * blockDim.x + threadIdx.x;
    const int64_t at = (int64_t)blockIdx.y * d.nsep + t;
    if (t >= d.nsep)
        return;
    for (int j = j0; j < j1; j++) {
        const int l = j + dj;
        const int di = t - s + ((dj & d.shift) && (j & 1)); /* separation() of psf_phase.c */
        double total = 0;
        if (l < 0 || l >= s)
            continue;
        for (int a = d.point_row[j]; a < d.point_row[j + 1]; a++) {
            const int i = d.point_column[a] + di;
            const int b = i >= 0 && i < s ? d.point[l * s + i] : -1;
            const double *z = d.z + (int64_t)(a - first) * d.np;
            if (b >= 0)
                total += 4 * (z[a] - z[b]);
        }
        sum[at] += total;
    }
}

/* Single pairs of the points first + i: those from a sampled point into pairwise, those to one into
 * d.to. Grid: points x', i. */
static __global__ void keep_pairs(gpu_psf d, int first, float *pairwise) {
    const int b = blockIdx.x * blockDim.x + threadIdx.x, a = first + (int)blockIdx.y;
    const double *z = d.z + (int64_t)blockIdx.y * d.np;
    if (b >= d.np)
        return;
    const float q = (float)(2 * (z[a] - z[b]));
    const int64_t from = d.sample_of[a], to = d.sample_of[b];
    if (from >= 0)
        pairwise[from * d.np + b] = q;
    if (to >= 0)
        d.to[(int64_t)a * d.nsample + to] = q;
}

/* g and z of rows j .. end of the lattice, all mirrors'. */
static status make_shapes(cudaStream_t stream, const gpu_psf *d, const int *point_row, int j,
                          int end, const double *y, int64_t ldy, const double *ct, int64_t ldct) {
    const int blocks = (d->nact + THREADS - 1) / THREADS, np = point_row[end] - point_row[j];
    for (int i = 0; i < d->nmirror; i++) {
        const gpu_psf_mirror m = d->mirror[i];
        along_columns<<<dim3(blocks, m.side, end - j), THREADS, 0, stream>>>(*d, m, j, y, ldy);
        along_rows<<<dim3(blocks, np), THREADS, 0, stream>>>(*d, m, i > 0, j, point_row[j], ct,
                                                             ldct);
    }
    for (int i = 0; i < d->nmirror; i++) {
        const gpu_psf_mirror m = d->mirror[i];
        const size_t line = (size_t)m.side * sizeof(double), parts = SPREAD_WARPS * line,
                     whole = m.side * line + parts;
        const bool staged = whole <= gpu_shared_most();
        const size_t shared = staged ? whole : parts;
        GPU_TRY(gpu_allow_shared(staged ? (const void *)spread<true> : (const void *)spread<false>,
                                 shared));
        if (staged)
            spread<true><<<np, 32 * SPREAD_WARPS, shared, stream>>>(*d, m, i > 0);
        else
            spread<false><<<np, 32 * SPREAD_WARPS, shared, stream>>>(*d, m, i > 0);
    }
    LAUNCHED();
    return MOAO_OK;
}

status gpu_psf_pairs(cudaStream_t stream, const gpu_psf *d, const int *point_row, const double *y,
                     int64_t ldy, const double *ct, int64_t ldct, double *sum, float *pairwise) {
    const int across = (d->nsep + THREADS - 1) / THREADS;
    CUDA_TRY(cudaMemsetAsync(sum, 0, (size_t)d->nsep * d->nsep * sizeof *sum, stream));
    for (int j = 0, end; j < d->lattice; j = end) {
        end = j + PSF_ROWS < d->lattice ? j + PSF_ROWS : d->lattice;
        const int np = point_row[end] - point_row[j];
        if (np == 0)
            continue;
        GPU_TRY(make_shapes(stream, d, point_row, j, end, y, ldy, ct, ldct));
        add_pairs<<<dim3(across, 2 * d->lattice + 1), THREADS, 0, stream>>>(*d, j, end, sum);
        if (pairwise)
            keep_pairs<<<dim3(gpu_ceil(d->np, THREADS), np), THREADS, 0, stream>>>(*d, point_row[j],
                                                                                   pairwise);
        LAUNCHED();
    }
    if (pairwise)
        GPU_TRY(gpu_psf_join(stream, d, pairwise));
    return MOAO_OK;
}

/* ---- from the sums to the structure function on the grid */

static __device__ double total_at(const double *sum, const double *common, int i) {
    return common ? sum[i] + common[i] : sum[i];
}

/* One block. Far separations: psf_lattice.c. */
static __global__ void find_totals(gpu_psf d, const double *sum, const double *common) {
    double all = 0, far = 0, pairs = 0;
    for (int i = threadIdx.x; i < d.nsep * d.nsep; i += blockDim.x) {
        const int dj = i / d.nsep - d.lattice;
        const double dx = i % d.nsep - d.lattice + (dj & d.shift ? 0.5 : 0);
        const double x = total_at(sum, common, i);
        all += x;
        if (d.norm[i] > 0 && hypot((double)dj, dx) > 0.6 * d.lattice) {
            far += x;
            pairs += d.norm[i];
        }
    }
    all = block_sum(all);
    far = block_sum(far);
    pairs = block_sum(pairs);
    if (threadIdx.x == 0) {
        d.totals[0] = 0.5 * all / ((double)d.np * d.np);
        d.totals[1] = far / (pairs > 0 ? pairs : 1);
    }
}

static __global__ void lattice_mean(gpu_psf d, const double *sum, const double *common) {
    const int t = blockIdx.x * blockDim.x + threadIdx.x, s = d.lattice, half = d.taps / 2;
    if (t >= d.wide * d.wide)
        return;
    const int j = t / d.wide - half, i = t % d.wide - half;
    double mean = d.totals[1];
    if (j >= 0 && j < d.nsep && i >= 0 && i < d.nsep && d.norm[j * d.nsep + i] > 0) {
        const int at = j * d.nsep + i, dj = j - s;
        const int opposite = (s - dj) * d.nsep + s - (i - s) - (dj & d.shift);
        mean = (total_at(sum, common, at) + total_at(sum, common, opposite)) / (2 * d.norm[at]);
    }
    d.mean[t] = mean;
}

static __global__ void lattice_x(gpu_psf d) {
    const int u = blockIdx.x, half = d.taps / 2;
    for (int j = threadIdx.x; j < d.wide; j += blockDim.x) {
        const int odd = (j - half - d.lattice) & d.shift;
        const double *w = d.tap_wx[odd] + u * d.taps;
        const double *f = d.mean + (int64_t)j * d.wide + half + d.tap_x[odd][u];
        double sum = 0;
        for (int i = 0; i < d.taps; i++)
            sum += w[i] * f[i];
        d.part[(int64_t)u * d.wide + j] = sum;
    }
}

/* c0 - half of it, or with `out` itself, where the wavelength is averaged, else 0. */
static __global__ void lattice_y(gpu_psf d, int l, double *out) {
    const int u = blockIdx.x, vmax = d.vmax[u];
    for (int v = (int)threadIdx.x - vmax; v <= vmax; v += blockDim.x) {
        const double *w = d.tap_wy + (v + d.P - 1) * d.taps;
        const double *f = d.part + (int64_t)u * d.wide + d.taps / 2 + d.tap_y[v + d.P - 1];
        double sum = 0;
        for (int j = 0; j < d.taps; j++)
            sum += w[j] * f[j];
        const int64_t at = (int64_t)u * (2 * d.P - 1) + v + d.P - 1;
        if (out)
            out[at] = averaged(d, l) ? sum : 0;
        else
            d.cov[at] = d.totals[0] - 0.5 * sum;
    }
}

status gpu_psf_to_grid(cudaStream_t stream, const gpu_psf *d, int l, double *out) {
    lattice_x<<<d->P, 256, 0, stream>>>(*d);
    lattice_y<<<d->P, 256, 0, stream>>>(*d, l, out);
    LAUNCHED();
    return MOAO_OK;
}

status gpu_psf_phase(cudaStream_t stream, const gpu_psf *d, const double *sum,
                     const double *common) {
    find_totals<<<1, 1024, 0, stream>>>(*d, sum, common);
    lattice_mean<<<(d->wide * d->wide + THREADS - 1) / THREADS, THREADS, 0, stream>>>(*d, sum,
                                                                                      common);
    return gpu_psf_to_grid(stream, d, 0, NULL);
}
