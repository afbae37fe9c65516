/* Which jobs the kernels by expansions (pairs.cu) serve, and what they need of the layers. */
#include "matcov_host.cuh"
#include <math.h>

/* Number of the interval of a squared separation. */
static int interval(double s) {
    int exponent;
    const double m = 2.0 * frexp(s, &exponent) - 1.0; /* s = (1 + m) 2^(exponent - 1) */
    return ((exponent - 1 - RADIAL_FIRST) << RADIAL_BITS) + (int)(m * (1 << RADIAL_BITS));
}

/* The layers' share of what separations there are. False: a table does not cover them. */
static bool cover(const backend_cov *c, const gpu_cov_mean_job *job, double farthest,
                  gpu_cov_pairs *q) {
    const host_sensor *cols = &c->host[job->cs], *rows = job->rows > 0 ? &c->host[job->rs] : NULL;
    const host_gradients *g = &c->means;
    double low[2] = {INFINITY, INFINITY}, high[2] = {0.0, 0.0};
    for (int l = 0; l < q->nlayer; l++) {
        const gpu_cov_layer *lay = &c->layers_host[l];
        const int kind = l >= q->from[1];
        const double k2 = lay->kappa * lay->kappa,
                     la = rows ? rows->size * (1.0 - lay->h / rows->altitude) : 0.0,
                     lb = cols->size * (1.0 - lay->h / cols->altitude);
        double near = RADIAL_NEAR * RADIAL_NEAR * 0.5 * (la * la + lb * lb);
        if (lb <= 0.0 || (rows && la <= 0.0))
            continue;
        if (job->pair.gradient >= 0) {
            const int table = g->table[job->pair.gradient * q->nlayer + l];
            near = table >= 0 ? q->near * g->tables[table].near2 : INFINITY;
        }
        low[kind] = fmin(low[kind], k2 * near);
        high[kind] = fmax(high[kind], k2 * farthest * farthest);
    }
    for (int kind = 0; kind < 2; kind++) {
        if (isinf(low[kind]))
            continue;
        q->low[kind] = interval(low[kind]) - 1;
        q->count[kind] = interval(fmax(high[kind], low[kind])) + 2 - q->low[kind];
        if (q->low[kind] < 0 || q->count[kind] > RADIAL_MOST ||
            q->low[kind] + q->count[kind] > RADIAL_INTERVALS)
            return false;
    }
    return true;
}

status gpu_cov_by_pairs(backend_cov *c, const gpu_cov_means *p, const gpu_cov_mean_job *job,
                        double reach, bool *done) {
    const bool means = job->pair.gradient >= 0;
    const host_sensor *cols = &c->host[job->cs], *rows = job->rows > 0 ? &c->host[job->rs] : cols;
    *done = false;
    if (!c->difference || job->cols != 2 || job->rows == 1 || (job->rows == 0 && job->rs >= 0) ||
        rows->rot != cols->rot || (rows->phase_class < 0) != (cols->phase_class < 0) ||
        (means && (job->pair.parts[0] != 1 || job->pair.parts[1] != 1)))
        return MOAO_OK;
    gpu_cov_pairs q = {};
    q.sensors = c->sensors;
    q.layers = c->layers;
    q.radial = c->radial;
    q.gradients = c->gradients;
    q.aim = p->aim;
    q.nlayer = c->from[GPU_COV_CLASSES];
    q.from[0] = 0, q.from[1] = c->from[GPU_COV_KOLMOGOROV];
    q.px = p->px, q.py = p->py;
    q.row_place = p->row_place, q.col_place = p->col_place;
    q.near = means ? p->near : RADIAL_NEAR * RADIAL_NEAR;
    q.middle = RADIAL_MIDDLE * RADIAL_MIDDLE;
    q.plain = job->rows > 0 ? RADIAL_PLAIN * RADIAL_PLAIN : RADIAL_PLAIN_PHASE * RADIAL_PLAIN_PHASE;
    q.all_cols = !p->col_place && job->nc == cols->nsub;
    q.a = p->a;
    q.to_fp16 = p->to_fp16;
    q.lda = p->lda;
    q.job = *job;
    if (!cover(c, job, reach + gpu_cov_field(c, &p->aim), &q))
        return MOAO_OK;
    GPU_TRY(gpu_cov_fill_pairs(c->ctx->main.stream, &q, means));
    *done = true;
    return MOAO_OK;
}
