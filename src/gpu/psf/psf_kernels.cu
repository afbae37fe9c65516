/* Kernels of the point-spread functions: model section 7, after src/psf. Every sum is made in a
 * fixed order. */
#include "gpu/core/common.cuh"
#include "psf.cuh"
#include "psf/psf_formula.h"
#include <limits.h>

#define THREADS 128
#define SEARCH 512 /* threads of the search for a half-peak radius */
#define WARPS (SEARCH / 32)

static int threads_for(int n) {
    return n < 1024 ? (n + 31) / 32 * 32 : 1024;
}

/* ---- stationary average */

/* Row blockIdx.x of actuators with row blockIdx.y: pairs[][][dx + n], a thread for each dx, so that
 * a column's elements are read side by side. */
__global__ void pair_sums(gpu_psf d, const double *__restrict__ y, int64_t ldy) {
    extern __shared__ double weight[]; /* of row a, by column of the mirror */
    int *index = (int *)(weight + d.side);
    const int ay = blockIdx.x, by = blockIdx.y, b0 = d.row[by], b1 = d.row[by + 1];
    for (int i = threadIdx.x; i < d.side; i += blockDim.x) {
        const int a = d.at[ay * d.side + i];
        index[i] = a;
        weight[i] = a < 0 ? 0 : d.weight[a];
    }
    __syncthreads();
    for (int t = threadIdx.x; t < d.nsep; t += blockDim.x) {
        double sum = 0;
#pragma unroll 4
        for (int b = b0; b < b1; b++) {
            const int x = d.place[b] - by * d.side - (t - d.n);
            if (x >= 0 && x < d.side && index[x] >= 0)
                sum += d.weight[b] * weight[x] * y[index[x] + b * ldy];
        }
        d.pairs[((int64_t)by * d.side + ay) * d.nsep + t] = sum;
    }
}

__device__ double separation_sum(const gpu_psf &d, int dy, int t) {
    double sum = 0;
    const int first = dy > 0 ? dy : 0, last = dy > 0 ? d.n : d.n + dy;
#pragma unroll 4
    for (int by = first; by <= last; by++)
        sum += d.pairs[((int64_t)by * d.side + by - dy) * d.nsep + t];
    return sum;
}

__global__ void row_sums(gpu_psf d, bool both, double *sum) {
    const int dy = (int)blockIdx.x - d.n;
    for (int t = threadIdx.x; t < d.nsep; t += blockDim.x) {
        double s = separation_sum(d, dy, t);
        if (both)
            s += separation_sum(d, -dy, d.nsep - 1 - t);
        sum[(int64_t)blockIdx.x * d.nsep + t] = s;
    }
}

status gpu_psf_average(cudaStream_t stream, const gpu_psf *d, const double *y, int64_t ldy,
                       bool both, double *sum) {
    const int threads = threads_for(d->nsep);
    const size_t shared = d->side * (sizeof(double) + sizeof(int));
    pair_sums<<<dim3(d->side, d->side), threads, shared, stream>>>(*d, y, ldy);
    row_sums<<<d->nsep, threads, 0, stream>>>(*d, both, sum);
    LAUNCHED();
    return MOAO_OK;
}

/* ---- phase covariance */

/* M(delta), x slow. */
__global__ void stationary_mean(gpu_psf d, const double *sum, const double *common) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x, all = d.nsep * d.nsep, j = all - 1 - i;
    if (i >= all)
        return;
    const double a = common ? sum[i] + common[i] : sum[i];
    const double b = common ? sum[j] + common[j] : sum[j];
    const double pairs = d.norm[i] + d.norm[j];
    d.mean[(i % d.nsep) * d.nsep + i / d.nsep] = pairs > 0 ? (a + b) / pairs : 0;
}

/* Actuators in reach of pixel p along one axis: first .. last, within +-n. */
__device__ void in_reach(const gpu_psf &d, int p, int *first, int *last) {
    const int below = p - d.reach, above = p + d.reach;
    const int lo = below >= 0 ? (below + d.k - 1) / d.k : -(-below / d.k);
    const int hi = above >= 0 ? above / d.k : -((-above + d.k - 1) / d.k);
    *first = lo < -d.n ? -d.n : lo;
    *last = hi > d.n ? d.n : hi;
}

/* Along x: part[u][dy + n]. */
__global__ void along_x(gpu_psf d) {
    const int u = blockIdx.x;
    int first, last;
    in_reach(d, u, &first, &last);
    for (int i = threadIdx.x; i < d.nsep; i += blockDim.x) {
        double sum = 0;
        for (int dx = first; dx <= last; dx++)
            sum += d.kernel[u - d.k * dx + d.reach] * d.mean[(dx + d.n) * d.nsep + i];
        d.part[(int64_t)u * d.nsep + i] = sum;
    }
}

/* Along y: cov[u][v + P - 1] inside the support. */
__global__ void along_y(gpu_psf d) {
    const int u = blockIdx.x, vmax = d.vmax[u];
    const double *part = d.part + (int64_t)u * d.nsep + d.n;
    for (int v = (int)threadIdx.x - vmax; v <= vmax; v += blockDim.x) {
        int first, last;
        double sum = 0;
        in_reach(d, v, &first, &last);
        for (int dy = first; dy <= last; dy++)
            sum += part[dy] * d.kernel[v - d.k * dy + d.reach];
        d.cov[(int64_t)u * (2 * d.P - 1) + v + d.P - 1] = sum;
    }
}

/* ---- OTFs and what follows from them directly */

__global__ void make_otf(gpu_psf d) {
    const int u = blockIdx.x, l = blockIdx.y, vmax = d.vmax[u];
    const int64_t plane = (int64_t)l * d.P + u;
    double *row = d.otf + plane * d.N, *even = d.even + plane * d.P, *odd = d.odd + plane * d.P;
    const double *cov = d.cov + (int64_t)u * (2 * d.P - 1) + d.P - 1;
    const int64_t row_of_tel = (int64_t)(d.ntel > 1 ? l : 0) * d.P + u;
    const double *tel = d.tel + row_of_tel * (2 * d.P - 1) + d.P - 1;
    const double *fit = d.fit + (int64_t)u * d.P;
    const double c0 = d.cov[d.P - 1], q = d.wave[l].phase, f = 0.5 * d.wave[l].fit;
    const double *gain = d.gain ? d.gain + plane * (2 * d.P - 1) + d.P - 1 : NULL;
    for (int v = threadIdx.x; v < d.N; v += blockDim.x) {
        if (v > vmax && v < d.N - vmax)
            row[v] = 0;
        if (v >= d.P)
            continue;
        double plus = 0, minus = 0;
        if (v <= vmax) {
            const double rest = d.fitted ? exp(-f * fit[v]) : 1.0;
            row[v] = plus = tel[v] * rest * exp(-q * (c0 - cov[v]) + (gain ? gain[v] : 0));
            if (v > 0)
                row[d.N - v] = minus =
                    tel[-v] * rest * exp(-q * (c0 - cov[-v]) + (gain ? gain[-v] : 0));
        }
        even[v] = plus + minus;
        odd[v] = v > 0 ? plus - minus : 0;
    }
}

__global__ void quality_rows(gpu_psf d) {
    const int u = blockIdx.x, l = blockIdx.y, vmax = d.vmax[u];
    const double *even = d.even + ((int64_t)l * d.P + u) * d.P;
    for (int q = 0; q <= d.nbox; q++) {
        const double *sinc = d.sinc + ((int64_t)l * d.nbox + q - 1) * d.P;
        double sum = 0;
        for (int v = threadIdx.x; v <= vmax; v += blockDim.x)
            sum += q == 0 ? even[v] : even[v] * sinc[v];
        sum = block_sum(sum);
        if (threadIdx.x == 0)
            d.sums[((int64_t)l * (1 + d.nbox) + q) * d.P + u] =
                (u == 0 ? 1 : 2) * (q == 0 ? sum : sinc[u] * sum);
    }
}

/* Strehl ratio (blockIdx.x = 0), and variance with it; energy in box blockIdx.x - 1. */
__global__ void quality(gpu_psf d) {
    const int q = blockIdx.x, l = blockIdx.y;
    const double *sums = d.sums + ((int64_t)l * (1 + d.nbox) + q) * d.P;
    double *out = d.scalars + l * (3 + d.nbox), sum = 0;
    for (int u = threadIdx.x; u < d.P; u += blockDim.x)
        sum += sums[u];
    sum = block_sum(sum);
    if (threadIdx.x > 0)
        return;
    if (q == 0) {
        const gpu_psf_wave w = d.wave[l];
        out[0] = sum;
        out[2] = d.cov[d.P - 1] * w.phase + (d.fitted ? d.variance * w.fit : 0);
    } else {
        const double step = d.step[l * d.nbox + q - 1];
        out[2 + q] = sum * step * step / d.otf[(int64_t)l * d.P * d.N];
    }
}

status gpu_psf_otf(cudaStream_t stream, const gpu_psf *d, const double *sum, const double *common,
                   const float *pairwise, const double *logs) {
    const int all = d->nsep * d->nsep;
    gpu_psf of = *d;
    if (d->lattice > 0) {
        GPU_TRY(gpu_psf_phase(stream, d, sum, common));
    } else {
        stationary_mean<<<(all + THREADS - 1) / THREADS, THREADS, 0, stream>>>(*d, sum, common);
        along_x<<<d->P, threads_for(d->nsep), 0, stream>>>(*d);
        along_y<<<d->P, threads_for(2 * d->P - 1), 0, stream>>>(*d);
    }
    if (pairwise)
        GPU_TRY(gpu_psf_excess(stream, d, sum, pairwise));
    else if (logs)
        GPU_TRY(gpu_psf_use_logs(stream, d, logs));
    else
        of.gain = NULL;
    make_otf<<<dim3(d->P, d->nlambda), threads_for(d->P), 0, stream>>>(of);
    quality_rows<<<dim3(d->P, d->nlambda), THREADS, 0, stream>>>(*d);
    quality<<<dim3(1 + d->nbox, d->nlambda), THREADS, 0, stream>>>(*d);
    LAUNCHED();
    return MOAO_OK;
}

/* ---- FWHM */

/* First radius [pixels] at which the image falls to `half` along (c, s), or N/2. */
__device__ double guess_radius(const gpu_psf &d, const double *image, double c, double s,
                               double half) {
    __shared__ int found;
    const int n = (int)(d.N / 2 / PSF_GUESS);
    if (threadIdx.x == 0)
        found = INT_MAX;
    __syncthreads();
    for (int base = 1; base <= n; base += blockDim.x) {
        const int i = base + threadIdx.x;
        const double r = i * PSF_GUESS;
        bool stop = i <= n && (int)(r * s) + 2 >= d.half;
        if (i <= n && !stop)
            stop = psf_image_at(image, d.N, d.N, -r * c, -r * s) < half;
        if (stop)
            atomicMin(&found, i);
        if (__syncthreads_or(stop))
            break;
    }
    const double r = found * PSF_GUESS, before = r - PSF_GUESS;
    if (found == INT_MAX || (int)(r * s) + 2 >= d.half)
        return d.N / 2.0;
    const double f = psf_image_at(image, d.N, d.N, -r * c, -r * s);
    const double last =
        found == 1 ? 2 * half : psf_image_at(image, d.N, d.N, -before * c, -before * s);
    return r - PSF_GUESS * (half - f) / (last - f);
}

/* Value and radial derivative [per pixel] of the cosine sum of the OTF at r pixels along (c, s), in
 * every thread. A warp takes a row u; cosines and sines of v's angles are in shared memory. */
__device__ void cosine_sum(const gpu_psf &d, int l, double c, double s, double r, double *f,
                           double *df) {
    extern __shared__ double table[];
    __shared__ double part[2][WARPS];
    double *cosine = table, *sine = table + d.P, value = 0, slope = 0;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int v = threadIdx.x; v < d.P; v += blockDim.x)
        sincospi(2 * v * (r * s) / d.N, &sine[v], &cosine[v]);
    __syncthreads();
    for (int u = warp; u < d.P; u += WARPS) {
        const int64_t row = ((int64_t)l * d.P + u) * d.P;
        double sum[4] = {0, 0, 0, 0}, cu, su; /* e cos, o sin, v e sin, v o cos */
        for (int v = lane; v <= d.vmax[u]; v += 32) {
            const double e = d.even[row + v], o = d.odd[row + v];
            sum[0] += e * cosine[v];
            sum[1] += o * sine[v];
            sum[2] += v * e * sine[v];
            sum[3] += v * o * cosine[v];
        }
        for (int i = 0; i < 4; i++)
            for (int k = 16; k > 0; k /= 2)
                sum[i] += __shfl_xor_sync(0xffffffffu, sum[i], k);
        sincospi(2 * u * (r * c) / d.N, &su, &cu);
        const double twice = u == 0 ? 1 : 2;
        value += twice * (cu * sum[0] - su * sum[1]);
        slope -= twice * (2 * PSF_PI / d.N) *
                 (c * u * (su * sum[0] + cu * sum[1]) + s * (cu * sum[2] + su * sum[3]));
    }
    if (lane == 0) {
        part[0][warp] = value;
        part[1][warp] = slope;
    }
    __syncthreads();
    *f = *df = 0;
    for (int w = 0; w < WARPS; w++) {
        *f += part[0][w];
        *df += part[1][w];
    }
}

/* Half-peak radius in direction blockIdx.x at wavelength blockIdx.y. Every thread follows the
 * search by itself. */
__global__ void __launch_bounds__(SEARCH) half_peak_radius(gpu_psf d) {
    const int dir = blockIdx.x, l = blockIdx.y;
    const double c = d.direction[dir], s = d.direction[PSF_NDIR + dir];
    const double half = 0.5 * d.scalars[l * (3 + d.nbox)];
    double *radius = d.radius + l * PSF_NDIR + dir;
    if (!isfinite(half)) {
        if (threadIdx.x == 0)
            *radius = NAN;
        return;
    }
    const double *image = d.image + (int64_t)l * d.half * d.N;
    psf_search k = {0, INFINITY, guess_radius(d, image, c, s, half), false};
    while (!k.done) {
        double f, df;
        cosine_sum(d, l, c, s, k.r, &f, &df);
        psf_search_step(&k, d.N / 2.0, half, f, df);
    }
    if (threadIdx.x == 0)
        *radius = k.r;
}

/* FWHM, and the part of an image that is kept: the axis comes to pixel crop/2 both ways. */
__global__ void deliver(gpu_psf d) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x, l = blockIdx.y, half = d.crop / 2;
    if (i == 0) {
        double sum = 0;
        for (int k = 0; k < PSF_NDIR; k++)
            sum += 2 * d.radius[l * PSF_NDIR + k] / PSF_NDIR;
        d.scalars[l * (3 + d.nbox) + 1] = sum * d.wave[l].pixel;
    }
    if (i >= d.crop * d.crop)
        return;
    const int y = i / d.crop - half, at = i % d.crop - half, x = y > 0 ? -at : at;
    const double *row = d.image + ((int64_t)l * d.half + (y < 0 ? -y : y)) * d.N;
    d.images[(int64_t)l * d.crop * d.crop + i] = (float)row[x < 0 ? x + d.N : x];
}

size_t gpu_psf_shared(const gpu_psf *d) {
    return 2 * (size_t)d->P * sizeof(double);
}

status gpu_psf_prepare(const gpu_psf *d) {
    return gpu_allow_shared((const void *)half_peak_radius, gpu_psf_shared(d));
}

status gpu_psf_finish(cudaStream_t stream, const gpu_psf *d) {
    half_peak_radius<<<dim3(PSF_NDIR, d->nlambda), SEARCH, gpu_psf_shared(d), stream>>>(*d);
    deliver<<<dim3(gpu_ceil((int64_t)d->crop * d->crop, THREADS), d->nlambda), THREADS, 0,
              stream>>>(*d);
    LAUNCHED();
    return MOAO_OK;
}
