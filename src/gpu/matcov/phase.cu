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
    c->surface.made = false;
    GPU_TRY(gpu_cov_sum(stream, t, p));
    if (t == BACKEND_D)
        differences<<<blocks, THREADS, 0, stream>>>(*job, c->sensors, c->sums, (double *)a, lda);
    else
        differences<<<blocks, THREADS, 0, stream>>>(*job, c->sensors, c->sums, (float *)a, lda);
    CUDA_TRY(cudaGetLastError());
    return MOAO_OK;
}

/* Slopes of one axis of a sensor, 0 or 1, or (2) of both; where their columns are. */
struct columns {
    int axis;
    matcov_slopes k;
    int64_t first;
    void *a;
    int64_t lda;
};

static gpu_cov_means job_with_points(const backend_cov *c, const gpu_cov_set_direction *aim,
                                     matcov_points at, const columns &s) {
    gpu_cov_means p = gpu_cov_means_of(c, aim);
    gpu_cov_mean_job *j = &p.job[0];
    p.njob = 1;
    p.px = at.x, p.py = at.y;
    p.a = s.a, p.lda = s.lda;
    j->rs = -1, j->nr = (int)at.n;
    j->cs = (short)s.k.sensor, j->ca = (char)(s.axis % 2), j->cols = (char)(s.axis == 2 ? 2 : 1);
    j->ck = (int)s.k.k0, j->nc = (int)s.k.n;
    j->col[0] = s.first, j->col[1] = s.k.apart;
    j->pair.gradient = c->host[s.k.sensor].phase_class;
    j->pair.parts[0] = j->pair.parts[1] = 1;
    j->pair.scale = formula_phase_scale(c->host[s.k.sensor].size);
    return p;
}

/* The ways of a difference in single precision. */
static status fill_difference(backend_cov *c, const gpu_cov_means *p, bool *done) {
    const gpu_cov_mean_job job = p->job[0];
    GPU_TRY(gpu_cov_by_surface(c, p, &job, done));
    if (!*done && job.cols == 2)
        GPU_TRY(gpu_cov_by_pairs(c, p, &job, gpu_cov_reach(c, true), done));
    return *done ? gpu_cov_outline_points(c, p, BACKEND_S, formula_phase_scale(1.0)) : MOAO_OK;
}

/* left: they are differences between points, for which this was no way. */
static status fill_means(backend_cov *c, const gpu_cov_set_direction *aim, backend_type t,
                         matcov_points at, const columns &s, bool *left) {
    gpu_cov_means p = job_with_points(c, aim, at, s);
    bool done = false;
    if (t == BACKEND_S && c->difference)
        GPU_TRY(fill_difference(c, &p, &done));
    *left = !done && p.job[0].pair.gradient < 0;
    if (done || *left)
        return MOAO_OK;
    GPU_TRY(gpu_cov_flush_means(c, t, &p));
    return gpu_cov_outline_points(c, &p, t, formula_phase_scale(1.0));
}

/* Entries of slopes between points with mean gradients from `sums`, of edge points e0 .. e0 + ne of
 * the former with the latter, of which there are as many as columns (rows, where the points' slopes
 * are the columns). Grid: rows, columns. */
template <class E>
static __global__ void mixed(gpu_cov_entries p, gpu_cov_job job, bool points_down, int e0, int ne) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y;
    const gpu_cov_sensor &s = p.sensors[points_down ? job.rs : job.cs];
    const int axis = points_down ? job.ra : job.ca, k = points_down ? job.rk + i : job.ck + j;
    if (i >= job.nr)
        return;
    const double *line = p.sums + (size_t)(points_down ? j : i) * ne;
    const int plus = s.plus[GPU_COV_ROWS][axis][k] - e0,
              minus = s.minus[GPU_COV_ROWS][axis][k] - e0;
    const int64_t row = job.row + i, col = job.col + j, below = p.i0 + row - (p.j0 + col);
    const double v = line[plus] - line[minus];
    if (p.part == 'A' || below >= 0)
        ((E *)p.a)[row + col * p.lda] = (E)(p.part == 'T' && below == 0 ? 0.5 * v : v);
}

status gpu_cov_fill_mixed(backend_cov *c, const gpu_cov_set_direction *aim, backend_type t,
                          const gpu_cov_entries *p, const gpu_cov_job *job) {
    cudaStream_t stream = c->ctx->main.stream;
    const bool down = c->host[job->rs].phase_class < 0; /* points are the rows */
    const host_sensor *h = &c->host[down ? job->rs : job->cs],
                      *b = &c->host[down ? job->cs : job->rs];
    const int axis = down ? job->ra : job->ca, k0 = down ? job->rk : job->ck,
              n = down ? job->nr : job->nc, nb = down ? job->nc : job->nr;
    const int e0 = h->minus[axis][k0], ne = h->plus[axis][k0 + n - 1] - e0 + 1;
    const int most = (int)(c->nsums / ne < 32768 ? c->nsums / ne : 32768);
    c->surface.made = false;
    for (int at = 0, some; at < nb; at += some) {
        gpu_cov_means q = gpu_cov_means_of(c, aim);
        gpu_cov_mean_job *j = &q.job[0];
        gpu_cov_job part = *job;
        some = nb - at < most ? nb - at : most;
        q.njob = 1;
        q.a = c->sums, q.lda = ne;
        j->rs = down ? job->rs : job->cs, j->ra = (char)axis, j->rk = e0, j->nr = ne;
        j->cs = down ? job->cs : job->rs, j->ca = down ? job->ca : job->ra, j->cols = 1;
        j->ck = (down ? job->ck : job->rk) + at, j->nc = some;
        j->pair.gradient = b->phase_class;
        j->pair.parts[0] = j->pair.parts[1] = 1;
        j->pair.scale = formula_slope_scale(h->size, b->size);
        GPU_TRY(gpu_cov_flush_means(c, BACKEND_D, &q));
        GPU_TRY(gpu_cov_outline_points(c, &q, BACKEND_D, formula_slope_scale(1.0, h->size)));
        if (down)
            part.ck += at, part.nc = some, part.col += at;
        else
            part.rk += at, part.nr = some, part.row += at;
        const dim3 blocks((part.nr + THREADS - 1) / THREADS, part.nc);
        if (t == BACKEND_D)
            mixed<double><<<blocks, THREADS, 0, stream>>>(*p, part, down, e0, ne);
        else
            mixed<float><<<blocks, THREADS, 0, stream>>>(*p, part, down, e0, ne);
        LAUNCHED();
    }
    return MOAO_OK;
}

/* Slopes of one axis of a sensor, as many points and slopes at a time as there is memory for their
 * sums. */
static status some_slopes(backend_cov *c, gpu_cov_edges *p, backend_type t, int64_t np,
                          const columns &s) {
    const host_sensor *h = &c->host[s.k.sensor];
    const int axis = s.axis, k0 = (int)s.k.k0, end = (int)(s.k.k0 + s.k.n),
              deep = h->nssp + 2; /* edge points between the two of a slope */
    int64_t high = (int64_t)(c->nsums / deep);
    high = high < 1 ? 1 : high < np ? high : np;
    const int wide = (int)(c->nsums / high);
    for (int k = k0, some; k < end; k += some) {
        const int e0 = h->minus[axis][k];
        some = 1;
        while (k + some < end && h->plus[axis][k + some] - e0 < wide)
            some++;
        for (int64_t i = 0; i < np; i += high) {
            gpu_cov_job job = {};
            job.rs = (short)c->nsensor, job.cs = (short)s.k.sensor, job.ca = (char)axis;
            job.re = (int)i, job.nre = (int)(np - i < high ? np - i : high);
            job.ck = k, job.nc = some, job.col = s.first + k - k0;
            job.ce = e0, job.nce = h->plus[axis][k + some - 1] - e0 + 1;
            GPU_TRY(one_job(c, p, t, &job, s.a, s.lda));
        }
    }
    return MOAO_OK;
}

status gpu_cov_fill_phase(backend_cov *c, const gpu_cov_set_direction *aim, backend_type t,
                          matcov_points at, int64_t j0, int64_t nj, void *a, int64_t lda) {
    gpu_device_guard guard(c->ctx->device);
    gpu_cov_edges p = gpu_cov_edges_of(c, aim);
    int64_t first = 0;
    p.px = at.x;
    p.py = at.y;
    for (int i = 0; i < 2 * c->nsensor && at.n > 0; i++) {
        const int w = i / 2, nsub = c->host[w].nsub;
        const int64_t from = j0 > first ? j0 : first, end = first + nsub,
                      to = j0 + nj < end ? j0 + nj : end;
        const columns s = {i % 2, {w, from - first, to - from, 0}, from - j0, a, lda};
        bool left = true;
        if (from < to && c->host[w].phase_class >= 0)
            GPU_TRY(fill_means(c, aim, t, at, s, &left));
        if (from < to && left)
            GPU_TRY(some_slopes(c, &p, t, at.n, s));
        first = end;
    }
    return MOAO_OK;
}

status gpu_cov_fill_phase_both(backend_cov *c, const gpu_cov_set_direction *aim, backend_type t,
                               matcov_points at, matcov_slopes k, void *a, int64_t lda) {
    gpu_device_guard guard(c->ctx->device);
    gpu_cov_edges p = gpu_cov_edges_of(c, aim);
    if (at.n == 0 || k.n == 0)
        return MOAO_OK;
    bool left = true;
    if (c->host[k.sensor].phase_class >= 0 || (t == BACKEND_S && c->difference))
        GPU_TRY(fill_means(c, aim, t, at, columns{2, k, 0, a, lda}, &left));
    p.px = at.x;
    p.py = at.y;
    for (int axis = 0; axis < 2 && left; axis++)
        GPU_TRY(some_slopes(c, &p, t, at.n, columns{axis, k, axis * k.apart, a, lda}));
    return MOAO_OK;
}

status gpu_cov_fill_phase_fp16(backend_cov *c, const gpu_cov_set_direction *aim, matcov_points at,
                               matcov_slopes k, float to_fp16, void *a, int64_t lda, bool *done) {
    gpu_device_guard guard(c->ctx->device);
    *done = at.n == 0 || k.n == 0;
    if (*done || !c->difference)
        return MOAO_OK;
    gpu_cov_means p = job_with_points(c, aim, at, columns{2, k, 0, a, lda});
    p.to_fp16 = to_fp16;
    return fill_difference(c, &p, done);
}
