/* Outlines of partly lit subapertures in blocks of covariances: jobs for the kernels of outline.cu.
 */
#include "matcov/formula.h"
#include "matcov_host.cuh"

gpu_cov_outlines gpu_cov_outlines_of(const backend_cov *c, const gpu_cov_set_direction *aim,
                                     backend_type t) {
    gpu_cov_outlines p = {};
    gpu_outlines *q = &p.whole;
    q->nlayer = c->from[GPU_COV_CLASSES];
    q->kolmogorov = c->from[GPU_COV_KOLMOGOROV];
    q->sensors = c->sensors;
    q->layers = c->layers;
    q->structure = c->structure;
    q->radial = t == BACKEND_S && c->difference ? c->radial : NULL;
    q->gradients = c->gradients;
    q->aim = *aim;
    q->part = 'A';
    q->moments = t == BACKEND_D || !c->difference;
    q->difference = c->difference;
    p.both = p.whole;
    p.type = t;
    return p;
}

status gpu_cov_flush_outlines(backend_cov *c, gpu_cov_outlines *p) {
    cudaStream_t stream = c->ctx->main.stream;
    GPU_TRY(gpu_outline_add(stream, p->type, &p->whole, false));
    GPU_TRY(gpu_outline_add(stream, p->type, &p->both, true));
    p->whole.njob = p->both.njob = 0;
    return MOAO_OK;
}

/* Subapertures of either axis that a side has. */
static void range_of(const gpu_outline_side *s, int *k0, int *k1) {
    const bool x = s->k1[0] > s->k0[0], y = s->k1[1] > s->k0[1];
    *k0 = x && (!y || s->k0[0] < s->k0[1]) ? s->k0[0] : s->k0[1];
    *k1 = x && (!y || s->k1[0] > s->k1[1]) ? s->k1[0] : s->k1[1];
}

/* Outlines of subapertures k0 <= k < k1. */
static void outlines_in(const host_sensor *h, int k0, int k1, int *from, int *n) {
    int low = 0, high;
    while (low < h->noutline && h->outline[low] < k0)
        low++;
    for (high = low; high < h->noutline && h->outline[high] < k1;)
        high++;
    *from = low, *n = high - low;
}

static status add_job(backend_cov *c, gpu_cov_outlines *p, bool both, gpu_outline_job job) {
    gpu_outlines *q = both ? &p->both : &p->whole;
    const host_sensor *h = &c->host[job.one.sensor];
    int k0, k1;
    range_of(&job.one, &k0, &k1);
    outlines_in(h, k0, k1, &job.o0, &job.no);
    range_of(&job.other, &k0, &k1);
    job.kb = k0, job.nb = k1 - k0;
    if (both)
        outlines_in(&c->host[job.other.sensor], k0, k1, &job.kb, &job.nb);
    if (job.no <= 0 || job.nb <= 0)
        return MOAO_OK;
    if (q->njob == GPU_OUTLINE_JOBS)
        GPU_TRY(gpu_cov_flush_outlines(c, p));
    q->job[q->njob++] = job;
    return MOAO_OK;
}

status gpu_cov_add_outlines(backend_cov *c, gpu_cov_outlines *p, const gpu_outline_side *rows,
                            const gpu_outline_side *cols, matcov_link link,
                            const gpu_cov_table *tables) {
    if (link.gradient < 0)
        return MOAO_OK;
    gpu_outline_job job = {};
    job.table = link.table >= 0 ? tables + link.table : NULL;
    job.reversed = link.reversed;
    job.one = *rows, job.other = *cols, job.down = true;
    job.pair = gpu_cov_pair_of(c, link.gradient, link.swapped);
    GPU_TRY(add_job(c, p, false, job));
    GPU_TRY(add_job(c, p, true, job));
    job.one = *cols, job.other = *rows, job.down = false;
    job.pair = gpu_cov_pair_of(c, link.gradient, !link.swapped);
    return add_job(c, p, false, job);
}

status gpu_cov_outline_points(backend_cov *c, const gpu_cov_means *means, backend_type t,
                              double scale) {
    const gpu_cov_mean_job *j = &means->job[0];
    gpu_outline_points p = {};
    if (j->pair.gradient < 0)
        return MOAO_OK;
    p.nlayer = c->from[GPU_COV_CLASSES];
    p.kolmogorov = c->from[GPU_COV_KOLMOGOROV];
    p.sensors = c->sensors;
    p.layers = c->layers;
    p.structure = c->structure;
    p.radial = t == BACKEND_S && c->difference ? c->radial : NULL;
    p.gradients = c->gradients;
    p.aim = means->aim;
    p.px = means->px, p.py = means->py;
    p.one = j->cs, p.sensor = j->rs, p.axis = j->ra;
    p.np = j->nr, p.first = j->rk;
    p.difference = c->difference;
    p.scale = scale;
    p.to_fp16 = means->to_fp16;
    p.a = means->a, p.lda = means->lda;
    for (int axis = 0; axis < 2; axis++) {
        p.wanted[axis] = j->cols == 2 || axis == j->ca;
        p.col[axis] = j->col[j->cols == 2 ? axis : 0] - j->ck;
    }
    outlines_in(&c->host[j->cs], j->ck, j->ck + j->nc, &p.o0, &p.no);
    return gpu_outline_add_points(c->ctx->main.stream, t, &p);
}

status gpu_cov_outlined(backend_cov *c, const gpu_cov_set_direction *aim, backend_type t, int a,
                        int b, void *e, int64_t lde) {
    gpu_device_guard guard(c->ctx->device);
    const host_sensor *one = &c->host[a], *two = &c->host[b];
    const size_t size = backend_size(t);
    gpu_cov_outlines p = gpu_cov_outlines_of(c, aim, t);
    gpu_outline_job job = {};
    const matcov_link *link = &c->list[MATCOV_CMM].links[a * c->nsensor + b];
    if (link->table < 0 || link->gradient < 0)
        return status_fail(MOAO_INPUT, "outlined: the two sensors are on no lattice");
    const int n = c->difference ? one->nkept : one->noutline;
    if (n == 0)
        return MOAO_OK;
    CUDA_TRY(cudaMemset2DAsync(e, lde * size, 0, 2 * n * size, 2 * two->nsub, c->ctx->main.stream));
    p.whole.a = e, p.whole.lda = lde;
    p.whole.half = p.whole.compact = true;
    p.both = p.whole;
    job.one = gpu_outline_side{(short)a, {0, 0}, {one->nsub, one->nsub}, {0, n}};
    job.other = gpu_outline_side{(short)b, {0, 0}, {two->nsub, two->nsub}, {0, two->nsub}};
    job.down = true;
    job.reversed = link->reversed;
    job.table = c->tables + link->table;
    job.pair = gpu_cov_pair_of(c, link->gradient, link->swapped);
    GPU_TRY(add_job(c, &p, false, job));
    GPU_TRY(add_job(c, &p, true, job));
    return gpu_cov_flush_outlines(c, &p);
}
