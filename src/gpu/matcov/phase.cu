/* Covariances of the phase at points of the pupil with slopes: sums over layers between points and
 * edge points, then differences of two of them. Model section 7. */
#include "matcov/formula.h"
#include "matcov_host.cuh"

#define THREADS 128

/* Columns of one job: points re .. re + nre with slopes ck .. ck + nc of an axis of a sensor. Grid:
 * points, slopes. */
template <class E>
static __global__ void differences(gpu_cov_job job, const gpu_cov_sensor *sensors,
                                   const double *sums, E *a, int64_t lda) {
    const gpu_cov_sensor &s = sensors[job.cs];
    const int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y;
    if (i >= job.nre)
        return;
    const int m = s.minus[GPU_COV_ROWS][job.ca][job.ck + j] - job.ce;
    const int p = s.plus[GPU_COV_ROWS][job.ca][job.ck + j] - job.ce;
    a[job.re + i + (job.col + j) * lda] =
        (E)(0.5 * formula_phase_scale(s.size) *
            (sums[(size_t)m * job.nre + i] - sums[(size_t)p * job.nre + i]));
}

static status one_job(backend_cov *c, gpu_cov_edges *p, backend_type t, const gpu_cov_job *job,
                      void *a, int64_t lda) {
    cudaStream_t stream = c->ctx->main.stream;
    const dim3 blocks((job->nre + THREADS - 1) / THREADS, job->nc);
    p->njob = 1;
    p->job[0] = *job;
    GPU_TRY(gpu_cov_sum(stream, t, p));
    if (t == BACKEND_D)
        differences<<<blocks, THREADS, 0, stream>>>(*job, c->sensors, c->sums, (double *)a, lda);
    else
        differences<<<blocks, THREADS, 0, stream>>>(*job, c->sensors, c->sums, (float *)a, lda);
    CUDA_TRY(cudaGetLastError());
    return MOAO_OK;
}

/* ---- mean gradients: an evaluation for each entry and layer */

#define COLS 16
#define CHUNK 8 /* layers prepared at a time */

struct layer_of_phase {
    matcov_gradient table;
    double x, y; /* of the points, less the first slope */
    double coef; /* 0: not seen */
    double2 slope[COLS];
};

/* Layers l0 .. l0 + n as a block sees them. */
static __device__ void prepare(const gpu_cov_means &p, const gpu_cov_job &job, int gradient,
                               int col0, int l0, int n, layer_of_phase *sh) {
    const gpu_cov_sensor &s = p.sensors[job.cs];
    const double still[2] = {0.0, 0.0};
    for (int i = threadIdx.x; i < n * COLS; i += blockDim.x) {
        const gpu_cov_layer &lay = p.layers[l0 + i / COLS];
        const int table = p.gradients.table[gradient * p.gradients.nlayer + l0 + i / COLS];
        layer_of_phase &to = sh[i / COLS];
        double one, here[2], cone, star[2];
        formula_on_layer(lay.h, 1.0, INFINITY, p.aim.dir, p.aim.drifts ? lay.drift : still, &one,
                         here);
        formula_on_layer(lay.h, 1.0, s.altitude, s.dir, still, &cone, star);
        const double2 c = s.centre[job.ck + min(col0 + i % COLS, job.nc - 1)];
        to.slope[i % COLS] = make_double2(fma(cone, c.x, star[0]), fma(cone, c.y, star[1]));
        if (i % COLS > 0)
            continue;
        to.table = p.gradients.tables[table >= 0 ? table : 0];
        to.x = here[0];
        to.y = here[1];
        to.coef = table >= 0 ? lay.coef : 0.0;
    }
}

/* Grid: points, COLS slopes. */
template <class E>
static __global__ __launch_bounds__(THREADS) void means(const __grid_constant__ gpu_cov_means p,
                                                        const __grid_constant__ gpu_cov_job job,
                                                        int gradient, const double *px,
                                                        const double *py) {
    __shared__ layer_of_phase sh[CHUNK];
    const gpu_cov_sensor &s = p.sensors[job.cs];
    const int i = blockIdx.x * THREADS + threadIdx.x, col0 = blockIdx.y * COLS;
    const double x = px[min(i, job.nr - 1)], y = py[min(i, job.nr - 1)];
    const double turn[2] = {s.cos_rot, s.sin_rot};
    const double v[2] = {job.ca == 0 ? turn[0] : -turn[1], job.ca == 0 ? turn[1] : turn[0]};
    double sum[COLS] = {};
    for (int l0 = 0; l0 < p.gradients.nlayer; l0 += CHUNK) {
        const int n = min(CHUNK, p.gradients.nlayer - l0);
        __syncthreads();
        prepare(p, job, gradient, col0, l0, n, sh);
        __syncthreads();
        for (int l = 0; l < n; l++) {
            const layer_of_phase &at = sh[l];
            if (at.coef == 0.0)
                continue;
            for (int c = 0; c < COLS; c++)
                sum[c] +=
                    at.coef * gradient_phase(&at.table, p.gradients.values, v, turn, job.ca,
                                             x + at.x - at.slope[c].x, y + at.y - at.slope[c].y);
        }
    }
    for (int c = 0; c < COLS && i < job.nr && col0 + c < job.nc; c++)
        ((E *)p.a)[i + (job.col + col0 + c) * p.lda] = (E)(formula_phase_scale(s.size) * sum[c]);
}

static status fill_means(backend_cov *c, const gpu_cov_aim *aim, backend_type t,
                         const gpu_cov_job *job, const double *x, const double *y, void *a,
                         int64_t lda) {
    cudaStream_t stream = c->ctx->main.stream;
    const dim3 blocks((job->nr + THREADS - 1) / THREADS, (job->nc + COLS - 1) / COLS);
    const int gradient = c->host[job->cs].phase_class;
    gpu_cov_means p = gpu_cov_means_of(c, aim);
    p.a = a;
    p.lda = lda;
    if (t == BACKEND_D)
        means<double><<<blocks, THREADS, 0, stream>>>(p, *job, gradient, x, y);
    else
        means<float><<<blocks, THREADS, 0, stream>>>(p, *job, gradient, x, y);
    CUDA_TRY(cudaGetLastError());
    return MOAO_OK;
}

/* Slopes k0 .. k0 + n of an axis of sensor w, as many points and slopes at a time as there is
 * memory for their sums. */
static status some_slopes(backend_cov *c, gpu_cov_edges *p, backend_type t, int w, int axis, int k0,
                          int n, int64_t np, int64_t col, void *a, int64_t lda) {
    const host_sensor *h = &c->host[w];
    const int deep = h->nssp + 2; /* edge points between the two of a slope */
    int64_t high = (int64_t)(c->nsums / deep);
    high = high < 1 ? 1 : high < np ? high : np;
    const int wide = (int)(c->nsums / high);
    for (int k = k0, some; k < k0 + n; k += some) {
        const int e0 = h->minus[axis][k];
        some = 1;
        while (k + some < k0 + n && h->plus[axis][k + some] - e0 < wide)
            some++;
        for (int64_t i = 0; i < np; i += high) {
            gpu_cov_job job = {};
            job.rs = (short)c->nsensor, job.cs = (short)w, job.ca = (char)axis;
            job.re = (int)i, job.nre = (int)(np - i < high ? np - i : high);
            job.ck = k, job.nc = some, job.col = col + k - k0;
            job.ce = e0, job.nce = h->plus[axis][k + some - 1] - e0 + 1;
            GPU_TRY(one_job(c, p, t, &job, a, lda));
        }
    }
    return MOAO_OK;
}

status gpu_cov_fill_phase(backend_cov *c, const gpu_cov_aim *aim, backend_type t, int64_t np,
                          const double *x, const double *y, int64_t j0, int64_t nj, void *a,
                          int64_t lda) {
    gpu_device_guard guard(c->ctx->device);
    gpu_cov_edges p = gpu_cov_edges_of(c, aim);
    int64_t first = 0;
    p.px = x;
    p.py = y;
    for (int i = 0; i < 2 * c->nsensor && np > 0; i++) {
        const int nsub = c->host[i / 2].nsub;
        const int64_t from = j0 > first ? j0 : first, end = first + nsub,
                      to = j0 + nj < end ? j0 + nj : end;
        gpu_cov_job job = {};
        job.cs = (short)(i / 2), job.ca = (char)(i % 2);
        job.nr = (int)np;
        job.ck = (int)(from - first), job.nc = (int)(to - from), job.col = from - j0;
        if (from < to && c->host[i / 2].phase_class >= 0)
            GPU_TRY(fill_means(c, aim, t, &job, x, y, a, lda));
        else if (from < to)
            GPU_TRY(some_slopes(c, &p, t, i / 2, i % 2, (int)(from - first), (int)(to - from), np,
                                from - j0, a, lda));
        first = end;
    }
    return MOAO_OK;
}
