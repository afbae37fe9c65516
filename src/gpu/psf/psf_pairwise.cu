/* Kernels of the mean of exp(-D/2) over pairs of points: model section 7, after
 * src/psf/psf_pairwise.c. Every sum is made in a fixed order. */
#include "gpu/core/common.cuh"
#include "psf.cuh"

#define THREADS 128
#define TILE 32
#define TILE_ROWS 8

static __device__ int opposite(const gpu_psf &d, int at) { /* psf_lattice.c */
    const int s = d.lattice, dj = at / d.nsep - s, di = at % d.nsep - s;
    return (s - dj) * d.nsep + s - di - (dj & d.shift);
}

/* pairwise[r][b] += d.to[b][r]. Blocks of TILE TILE_ROWS threads; grid: tiles of b, of r. */
static __global__ void join(gpu_psf d, float *pairwise) {
    __shared__ float tile[TILE][TILE + 1];
    const int b0 = blockIdx.x * TILE, r0 = blockIdx.y * TILE, t = threadIdx.x % TILE;
    for (int i = threadIdx.x / TILE; i < TILE; i += TILE_ROWS)
        if (b0 + i < d.np && r0 + t < d.nsample)
            tile[i][t] = d.to[(int64_t)(b0 + i) * d.nsample + r0 + t];
    __syncthreads();
    for (int i = threadIdx.x / TILE; i < TILE; i += TILE_ROWS)
        if (r0 + i < d.nsample && b0 + t < d.np)
            pairwise[(int64_t)(r0 + i) * d.np + b0 + t] += tile[t][i];
}

status gpu_psf_join(cudaStream_t stream, const gpu_psf *d, float *pairwise) {
    const dim3 grid(gpu_ceil(d->np, TILE), gpu_ceil(d->nsample, TILE));
    join<<<grid, TILE * TILE_ROWS, 0, stream>>>(*d, pairwise);
    LAUNCHED();
    return MOAO_OK;
}

static __global__ void find_means(gpu_psf d, const double *sum) {
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < d.nsep * d.nsep && d.norm[at] > 0)
        d.pair_mean[at] = (sum[at] + sum[opposite(d, at)]) / (2 * d.norm[at]);
}

/* Sum over the sampled points x of exp(-z/2) - 1 + z/2 of their pairs, x' in the row dj after that
 * of x. Grid: places along x, dj, wavelengths. */
static __global__ void add_terms(gpu_psf d, const float *__restrict__ pairwise) {
    const int s = d.lattice, dj = (int)blockIdx.y - s, l = blockIdx.z;
    const int t = blockIdx.x * blockDim.x + threadIdx.x;
    const int64_t at = (int64_t)blockIdx.y * d.nsep + t;
    if (t >= d.nsep || !averaged(d, l))
        return;
    const int j0 = dj < 0 ? -dj : 0, j1 = dj > 0 ? s - dj : s;
    const double half = 0.5 * d.wave[l].phase, mean = d.norm[at] > 0 ? d.pair_mean[at] : 0;
    double total = 0;
    for (int j = j0; j < j1; j++) {
        const int di = t - s + ((dj & d.shift) && (j & 1)); /* phase_separation() */
        const int *row = d.point + (j + dj) * s;
        for (int r = d.sample_row[j]; r < d.sample_row[j + 1]; r++) {
            const int i = d.point_column[d.sample[r]] + di;
            const int b = i >= 0 && i < s ? row[i] : -1;
            if (b >= 0)
                total += psf_excess_term((float)(half * (mean - pairwise[(int64_t)r * d.np + b])));
        }
    }
    d.excess[(int64_t)l * d.nsep * d.nsep + at] = total;
}

/* The same sums, and the pairs, of all separations of a length. Grid: lengths, wavelengths. */
static __global__ void add_rings(gpu_psf d) {
    const int r = blockIdx.x, l = blockIdx.y;
    const double *excess = d.excess + (int64_t)l * d.nsep * d.nsep;
    double sum = 0, pairs = 0;
    if (!averaged(d, l))
        return;
    for (int i = threadIdx.x; i < d.nsep * d.nsep; i += blockDim.x)
        if (d.ring_of[i] == r && d.sampled[i] > 0) {
            sum += excess[i];
            pairs += 0.5 * d.sampled[i];
        }
    sum = block_sum(sum);
    pairs = block_sum(pairs);
    if (threadIdx.x == 0) {
        d.ring[2 * (l * d.rings + r)] = sum;
        d.ring[2 * (l * d.rings + r) + 1] = pairs;
    }
}

/* Grid: separations, wavelengths. */
static __global__ void find_logs(gpu_psf d) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x, l = blockIdx.y, all = d.nsep * d.nsep;
    if (i >= all || !averaged(d, l))
        return;
    const int j = opposite(d, i);
    const double *excess = d.excess + (int64_t)l * all;
    const double *ring = d.ring + 2 * ((int64_t)l * d.rings + d.ring_of[i]);
    double mean = 0;
    if (d.norm[i] > 0 && i != j)
        mean = d.sampled[i] > 0                  ? (excess[i] + excess[j]) / d.sampled[i]
               : d.nsample < d.np && ring[1] > 0 ? ring[0] / ring[1]
                                                 : 0;
    d.log_c[(int64_t)l * all + i] = log1p(mean);
}

/* A block for each wavelength. */
static __global__ void find_far(gpu_psf d) {
    const int l = blockIdx.x;
    const double *log_c = d.log_c + (int64_t)l * d.nsep * d.nsep;
    double far = 0, pairs = 0;
    if (!averaged(d, l))
        return;
    for (int i = threadIdx.x; i < d.nsep * d.nsep; i += blockDim.x) {
        const int dj = i / d.nsep - d.lattice;
        const double dx = i % d.nsep - d.lattice + (dj & d.shift ? 0.5 : 0);
        if (d.norm[i] > 0 && hypot((double)dj, dx) > 0.6 * d.lattice) {
            far += d.norm[i] * log_c[i];
            pairs += d.norm[i];
        }
    }
    far = block_sum(far);
    pairs = block_sum(pairs);
    if (threadIdx.x == 0)
        d.far[l] = far / (pairs > 0 ? pairs : 1);
}

/* d.mean = log_c with a margin. */
static __global__ void lay_logs(gpu_psf d, int l) {
    const int t = blockIdx.x * blockDim.x + threadIdx.x, half = d.taps / 2;
    if (t >= d.wide * d.wide || !averaged(d, l))
        return;
    const int j = t / d.wide - half, i = t % d.wide - half;
    const bool inside = j >= 0 && j < d.nsep && i >= 0 && i < d.nsep;
    d.mean[t] = inside && d.norm[j * d.nsep + i] > 0
                    ? d.log_c[((int64_t)l * d.nsep + j) * d.nsep + i]
                    : d.far[l];
}

/* d->log_c of the wavelengths that are averaged. */
static status make_logs(cudaStream_t stream, const gpu_psf *d, const double *sum,
                        const float *pairwise) {
    const int nsep = d->nsep, nl = d->nlambda, lines = gpu_ceil(nsep * nsep, THREADS);
    find_means<<<lines, THREADS, 0, stream>>>(*d, sum);
    add_terms<<<dim3(gpu_ceil(nsep, THREADS), nsep, nl), THREADS, 0, stream>>>(*d, pairwise);
    if (d->nsample < d->np)
        add_rings<<<dim3(d->rings, nl), THREADS, 0, stream>>>(*d);
    find_logs<<<dim3(lines, nl), THREADS, 0, stream>>>(*d);
    LAUNCHED();
    return MOAO_OK;
}

/* d->gain from d->log_c. */
static status make_gain(cudaStream_t stream, const gpu_psf *d) {
    find_far<<<d->nlambda, 1024, 0, stream>>>(*d);
    LAUNCHED();
    for (int l = 0; l < d->nlambda; l++) {
        lay_logs<<<gpu_ceil(d->wide * d->wide, THREADS), THREADS, 0, stream>>>(*d, l);
        GPU_TRY(gpu_psf_to_grid(stream, d, l, d->gain + (int64_t)l * d->P * (2 * d->P - 1)));
    }
    return MOAO_OK;
}

status gpu_psf_excess(cudaStream_t stream, const gpu_psf *d, const double *sum,
                      const float *pairwise) {
    GPU_TRY(make_logs(stream, d, sum, pairwise));
    return make_gain(stream, d);
}

status gpu_psf_logs(cudaStream_t stream, const gpu_psf *d, const double *sum, const float *pairwise,
                    double *logs) {
    gpu_psf of = *d;
    of.always = true;
    GPU_TRY(make_logs(stream, &of, sum, pairwise));
    CUDA_TRY(cudaMemcpyAsync(logs, d->log_c, (size_t)d->nlambda * d->nsep * d->nsep * sizeof *logs,
                             cudaMemcpyDeviceToDevice, stream));
    return MOAO_OK;
}

status gpu_psf_use_logs(cudaStream_t stream, const gpu_psf *d, const double *logs) {
    CUDA_TRY(cudaMemcpyAsync(d->log_c, logs, (size_t)d->nlambda * d->nsep * d->nsep * sizeof *logs,
                             cudaMemcpyDeviceToDevice, stream));
    return make_gain(stream, d);
}
