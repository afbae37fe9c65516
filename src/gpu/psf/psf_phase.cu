/* Kernels of the residual phase on the pupil: model section 7, after src/psf/psf_phase.c and
 * psf_lattice.c. Every sum is made in a fixed order. */
#include "gpu/core/common.cuh"
#include "psf.cuh"
#include "psf/device_formula.h"

#define THREADS 128
#define SPREAD_WARPS 8

/* ---- commands against the phase at points: g = Y IF' - C for PSF_ROWS rows of the lattice */

static __device__ int least_row(const gpu_psf &d, int j) { /* of actuators in reach of row j */
    const int a = j * d.n / d.lattice - d.if_reach;
    return a < 0 ? 0 : a;
}

static __device__ int end_row(const gpu_psf &d, int j) {
    const int a = j * d.n / d.lattice + 2 + d.if_reach;
    return a > d.side ? d.side : a;
}

/* lines[r][x][a] = sum over the actuators of column x in reach of row j0 + r. Grid: actuators a,
 * columns, rows. */
static __global__ void along_columns(gpu_psf d, int j0, const double *__restrict__ y, int64_t ldy) {
    const int a = blockIdx.x * blockDim.x + threadIdx.x, x = blockIdx.y, j = j0 + blockIdx.z;
    double sum = 0;
    if (a >= d.nact)
        return;
    for (int i = least_row(d, j); i < end_row(d, j); i++) {
        const int b = d.at[i * d.side + x];
        if (b >= 0)
            sum += d.if_y[j * d.side + i] * y[a + b * ldy];
    }
    d.lines[((int64_t)blockIdx.z * d.side + x) * d.nact + a] = sum;
}

/* g[i][a] of the points first + i of the rows from j0 on. Grid: actuators, points. */
static __global__ void along_rows(gpu_psf d, int j0, int first, const double *__restrict__ ct,
                                  int64_t ldct) {
    const int a = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y;
    int j = j0;
    if (a >= d.nact)
        return;
    while (d.point_row[j + 1] <= first + i)
        j++;
    const int column = d.point_column[first + i];
    const double *f = d.if_x[j & d.shift] + column * d.side;
    const double *lines = d.lines + (int64_t)(j - j0) * d.side * d.nact + a;
    double sum = 0;
    for (int x = least_row(d, column); x < end_row(d, column); x++)
        sum += f[x] * lines[(int64_t)x * d.nact];
    d.g[(int64_t)i * d.nact + a] = sum - ct[a + (first + i) * ldct];
}

/* ---- z[i][x'] = sum_a IF_a(x') g[i][a] for all points x', a block for each i: a warp takes a row
 * of the lattice at a time. The grid of actuators of large telescopes has no room in shared memory
 * and is read where it lies. */
static __device__ inline double actuator(const gpu_psf &d, const double *g, int i) {
    return d.at[i] < 0 ? 0 : g[d.at[i]];
}
template <bool STAGED> static __global__ void spread(gpu_psf d) {
    extern __shared__ double grid[]; /* STAGED: [side][side]; then [SPREAD_WARPS][side] */
    const double *g = d.g + (int64_t)blockIdx.x * d.nact;
    double *z = d.z + (int64_t)blockIdx.x * d.np;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    double *part = grid + (STAGED ? d.side * d.side : 0) + warp * d.side;
    if (STAGED) {
        for (int i = threadIdx.x; i < d.side * d.side; i += blockDim.x)
            grid[i] = actuator(d, g, i);
        __syncthreads();
    }
    for (int j = warp; j < d.lattice; j += SPREAD_WARPS) {
        const int y0 = least_row(d, j), y1 = end_row(d, j);
        for (int x = lane; x < d.side; x += 32) {
            double sum = 0;
            for (int y = y0; y < y1; y++)
                sum += d.if_y[j * d.side + y] *
                       (STAGED ? grid[y * d.side + x] : actuator(d, g, y * d.side + x));
            part[x] = sum;
        }
        __syncwarp();
        for (int b = d.point_row[j] + lane; b < d.point_row[j + 1]; b += 32) {
            const int column = d.point_column[b];
            const double *f = d.if_x[j & d.shift] + column * d.side;
            double sum = 0;
            for (int x = least_row(d, column); x < end_row(d, column); x++)
                sum += f[x] * part[x];
            z[b] = sum;
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

status gpu_psf_pairs(cudaStream_t stream, const gpu_psf *d, const int *point_row, const double *y,
                     int64_t ldy, const double *ct, int64_t ldct, double *sum, float *pairwise) {
    const int blocks = (d->nact + THREADS - 1) / THREADS,
              across = (d->nsep + THREADS - 1) / THREADS;
    const size_t line = (size_t)d->side * sizeof(double), parts = SPREAD_WARPS * line,
                 whole = d->side * line + parts;
    const bool staged = whole <= gpu_shared_most();
    const size_t shared = staged ? whole : parts;
    GPU_TRY(gpu_allow_shared(staged ? (const void *)spread<true> : (const void *)spread<false>,
                             shared));
    CUDA_TRY(cudaMemsetAsync(sum, 0, (size_t)d->nsep * d->nsep * sizeof *sum, stream));
    for (int j = 0, end; j < d->lattice; j = end) {
        end = j + PSF_ROWS < d->lattice ? j + PSF_ROWS : d->lattice;
        const int np = point_row[end] - point_row[j];
        if (np == 0)
            continue;
        along_columns<<<dim3(blocks, d->side, end - j), THREADS, 0, stream>>>(*d, j, y, ldy);
        along_rows<<<dim3(blocks, np), THREADS, 0, stream>>>(*d, j, point_row[j], ct, ldct);
        if (staged)
            spread<true><<<np, 32 * SPREAD_WARPS, shared, stream>>>(*d);
        else
            spread<false><<<np, 32 * SPREAD_WARPS, shared, stream>>>(*d);
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
