/* Covariances of slopes on a GPU: profiles, targets, and the table of operations. */
#include "matcov/formula.h"
#include "matcov_gpu.h"
#include "matcov_host.cuh"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void *copy_of(const void *p, size_t bytes) {
    void *q = malloc(bytes ? bytes : 1);
    return q ? memcpy(q, p, bytes) : NULL;
}

static status copy_lists(backend_cov *c, const matcov_model *m) {
    c->host = (host_sensor *)calloc(m->nsensor + 1, sizeof *c->host);
    c->tiptilt = (double *)copy_of(m->tiptilt, m->nsensor * sizeof(double));
    c->means.nclass = m->nclass;
    c->means.classes = (matcov_class *)copy_of(m->classes, m->nclass * sizeof *m->classes);
    bool fine = c->host && c->tiptilt && c->means.classes;
    for (int i = 0; i < MATCOV_LISTS; i++) {
        pair_list *k = &c->list[i];
        const int nfirst = i == MATCOV_CMM ? m->nsensor : 1;
        k->nsecond = i == MATCOV_CTT ? 1 : m->nsensor;
        k->ntable = m->list[i].ntable;
        k->tables = (matcov_table *)copy_of(m->list[i].tables, k->ntable * sizeof *k->tables);
        k->links = (matcov_link *)copy_of(m->list[i].links,
                                          (size_t)nfirst * k->nsecond * sizeof *k->links);
        fine = fine && k->tables && k->links;
        for (int j = 0; fine && j < k->ntable; j++)
            k->largest = k->tables[j].n > k->largest ? k->tables[j].n : k->largest;
    }
    return fine ? MOAO_OK
                : status_fail(MOAO_MEMORY, "no memory for the description of the sensors");
}

/* ---- profiles */

static gpu_cov_set_direction axis_set_direction(const backend_cov *c) {
    return gpu_cov_set_direction{c->nsensor, false, {0.0, 0.0}};
}

static int class_of(const matcov_model *m, int l) {
    double size = INFINITY;
    if (m->kolmogorov[l])
        return GPU_COV_KOLMOGOROV;
    for (int w = 0; w <= m->nsensor; w++)
        size = fmin(size, m->sensors[w].size);
    return FORMULA_K2 <= GPU_COV_GROWTH * formula_bracket(m->kappa[l] * size) ? GPU_COV_FLAT
                                                                              : GPU_COV_STEEP;
}

/* The tables of mean gradients into the staging buffer; order: of the layers there. */
static void stage_gradients(backend_cov *c, const matcov_model *m, const int *order) {
    host_gradients *h = &c->means;
    c->gradients.nlayer = m->nlayer;
    for (int i = 0; i < m->nclass; i++)
        for (int l = 0; l < m->nlayer; l++)
            h->table[i * m->nlayer + l] = m->classes[i].table[order[l]];
    if (h->serial == m->gradient_serial)
        return;
    memcpy(h->tables, m->gradients, m->ngradient * sizeof *h->tables);
    memcpy(h->values, m->gradient_values, m->ngradient_value * sizeof *h->values);
    for (int i = 0; i < m->ngradient; i++)
        if (i == 0 || m->gradients[i].lowest < h->lowest)
            h->lowest = m->gradients[i].lowest, h->near2 = m->gradients[i].near2;
}

/* The tables of one list of like pairs, under the profile sent last. */
static status tabulate(const backend_cov *c, const gpu_cov_set_direction *aim, int list,
                       const gpu_cov_table *tables, const gpu_cov_pair *pairs) {
    const pair_list *k = &c->list[list];
    cudaStream_t stream = c->ctx->main.stream;
    if (c->means.nclass > 0) {
        const gpu_cov_means p = gpu_cov_means_of(c, aim);
        GPU_TRY(gpu_cov_tabulate_means(stream, tables, pairs, k->ntable, k->largest, &p));
    }
    const gpu_cov_edges p = gpu_cov_edges_of(c, aim);
    return gpu_cov_tabulate(stream, tables, pairs, k->ntable, k->largest, &p);
}

/* The one other layer of the same altitude and outer scale, of a difference; -1: none, or several.
 */
static int twin_of(const matcov_model *m, int l) {
    int found = -1;
    for (int i = 0; i < m->nlayer; i++)
        if (i != l && m->h[i] == m->h[l] && m->kappa[i] == m->kappa[l] &&
            m->kolmogorov[i] == m->kolmogorov[l]) {
            if (found >= 0)
                return -1;
            found = i;
        }
    return found;
}

static void put_layer(backend_cov *c, const matcov_model *m, int l, bool twin, int *order, int at) {
    order[at] = l;
    c->layers_host[at] =
        gpu_cov_layer{m->h[l], m->kappa[l], m->coef[l], {m->drift[0][l], m->drift[1][l]}, twin};
    c->highest = fmax(c->highest, fabs(m->h[l]));
    c->drift = fmax(c->drift, hypot(m->drift[0][l], m->drift[1][l]));
}

static status send_profile(backend_cov *c, const matcov_model *m) {
    cudaStream_t stream = c->ctx->main.stream;
    int at = 0, *order = (int *)malloc((m->nlayer + 1) * sizeof *order);
    if (!order)
        return status_fail(MOAO_MEMORY, "no memory for the layers of a profile");
    cudaEventSynchronize(c->sent);
    c->highest = c->drift = 0.0;
    c->surface.made = false;
    c->difference = m->difference;
    for (int k = 0; k < GPU_COV_CLASSES; k++) {
        c->from[k] = at;
        for (int l = 0; l < m->nlayer; l++) {
            const int twin = m->difference ? twin_of(m, l) : -1;
            if (class_of(m, l) != k || (twin >= 0 && twin < l))
                continue;
            put_layer(c, m, l, twin >= 0, order, at++);
            if (twin >= 0)
                put_layer(c, m, twin, false, order, at++);
        }
    }
    if (m->nclass > 0)
        stage_gradients(c, m, order);
    free(order);
    c->from[GPU_COV_CLASSES] = at;
    memcpy(c->noise_host, m->noise, 3 * (m->m / 2) * sizeof(double));
    memcpy(c->tiptilt, m->tiptilt, c->nsensor * sizeof(double));
    const bool others = m->nclass > 0 && c->means.serial != m->gradient_serial;
    const size_t bytes = others ? c->profile_bytes : c->means.tables_at - c->profile_at;
    c->means.serial = 0; /* until they are there */
    CUDA_TRY(cudaMemcpyAsync(c->device + c->profile_at, c->staging + c->profile_at, bytes,
                             cudaMemcpyHostToDevice, stream));
    CUDA_TRY(cudaEventRecord(c->sent, stream));
    if (others)
        GPU_TRY(gpu_cov_convert(stream, &c->gradients, m->ngradient));
    c->means.serial = m->gradient_serial;
    const gpu_cov_set_direction aim = axis_set_direction(c);
    const int ncmm = c->list[MATCOV_CMM].ntable;
    GPU_TRY(tabulate(c, &aim, MATCOV_CMM, c->tables, c->pairs));
    GPU_TRY(tabulate(c, &aim, MATCOV_CTT, c->tables + ncmm, c->pairs + ncmm));
    return MOAO_OK;
}

static status load(backend_cov *c, const matcov_model *m) {
    gpu_device_guard guard(c->ctx->device);
    if (m->nsensor != c->nsensor || m->m != c->m || m->t != c->t || m->nclass != c->means.nclass)
        return status_fail(MOAO_INPUT, "the profile belongs to another system");
    if (m->nlayer > c->room || (size_t)m->ngradient > c->means.tables_room ||
        m->ngradient_value > c->means.values_room) {
        CUDA_TRY(cudaStreamSynchronize(c->ctx->main.stream));
        gpu_cov_release(c);
        c->means.serial = 0;
        GPU_TRY(gpu_cov_build(c, m));
    }
    return send_profile(c, m);
}

static void close_cov(backend_cov *c) {
    if (!c)
        return;
    gpu_device_guard guard(c->ctx->device);
    cudaStreamSynchronize(c->ctx->main.stream);
    gpu_cov_release(c);
    if (c->sent)
        cudaEventDestroy(c->sent);
    for (pair_list &k : c->list) {
        free(k.tables);
        free(k.links);
    }
    free(c->means.classes);
    free(c->tiptilt);
    free(c->host);
    free(c);
}

static status fill_cov(backend_cov *c, const matcov_model *m) {
    GPU_TRY(copy_lists(c, m));
    CUDA_TRY(cudaEventCreateWithFlags(&c->sent, cudaEventDisableTiming));
    GPU_TRY(gpu_cov_build(c, m));
    return send_profile(c, m);
}

static status open_cov(backend_ctx *ctx, const matcov_model *m, backend_cov **out) {
    gpu_device_guard guard(ctx->device);
    *out = NULL;
    backend_cov *c = (backend_cov *)calloc(1, sizeof *c);
    if (!c)
        return status_fail(MOAO_MEMORY, "no memory for covariances");
    c->head = backend_cov_head{&backend_matcov_gpu, m->m, m->t};
    c->ctx = ctx;
    c->nsensor = m->nsensor;
    c->m = m->m;
    c->t = m->t;
    const status st = fill_cov(c, m);
    if (st != MOAO_OK)
        close_cov(c);
    else
        *out = c;
    return st;
}

/* ---- targets */

static void close_target(backend_cov_target *t) {
    if (!t)
        return;
    gpu_device_guard guard(t->c->ctx->device);
    cudaFree(t->device);
    free(t);
}

static status open_target(backend_cov *c, backend_cov_target **out) {
    gpu_device_guard guard(c->ctx->device);
    *out = NULL;
    backend_cov_target *t = (backend_cov_target *)calloc(1, sizeof *t);
    if (!t)
        return status_fail(MOAO_MEMORY, "no memory for a target");
    t->head.cov = &c->head;
    t->c = c;
    const status st = gpu_cov_build_target(t);
    if (st != MOAO_OK)
        close_target(t);
    else
        *out = t;
    return st;
}

static status aim(backend_cov_target *t, const double dir[2], bool shifted) {
    gpu_device_guard guard(t->c->ctx->device);
    t->aim = gpu_cov_set_direction{t->c->nsensor, shifted, {dir[0], dir[1]}};
    t->aimed = true;
    GPU_TRY(tabulate(t->c, &t->aim, MATCOV_CTM, t->tables, t->pairs));
    return MOAO_OK;
}

/* ---- the table */

static status fill_cmm(backend_cov *c, backend_type t, char part, unsigned with, matcov_region g,
                       void *a, int64_t lda) {
    const gpu_cov_set_direction aim = axis_set_direction(c);
    return gpu_cov_fill(c, MATCOV_CMM, &aim, c->tables, t, part, with, g, a, lda);
}

static status fill_ctt(backend_cov *c, backend_type t, char part, matcov_region g, void *a,
                       int64_t lda) {
    const gpu_cov_set_direction aim = axis_set_direction(c);
    return gpu_cov_fill(c, MATCOV_CTT, &aim, c->tables + c->list[MATCOV_CMM].ntable, t, part, 0, g,
                        a, lda);
}

static status fill_ctm(backend_cov_target *v, backend_type t, matcov_region g, void *a,
                       int64_t lda) {
    return gpu_cov_fill(v->c, MATCOV_CTM, &v->aim, v->tables, t, 'A', 0, g, a, lda);
}

/* Of operations on both axes of subapertures of a sensor. */
static status check_both(const backend_cov_target *v, const char *operation, backend_type t,
                         int64_t rows, matcov_slopes k, int64_t lda) {
    if (k.sensor < 0 || k.sensor >= v->c->nsensor ||
        !matcov_slopes_ok(t, rows, v->c->host[k.sensor].nsub, k, lda))
        return status_fail(MOAO_INPUT, "%s: an argument is out of range", operation);
    if (!v->aimed)
        return status_fail(MOAO_INPUT, "%s: the target was not aimed", operation);
    return MOAO_OK;
}

static status fill_ctm_both(backend_cov_target *v, backend_type t, matcov_slopes k, void *a,
                            int64_t lda) {
    const status st = check_both(v, "fill_ctm_both", t, v->c->t, k, lda);
    return st != MOAO_OK ? st : gpu_cov_fill_both(v->c, &v->aim, v->tables, t, k, a, lda);
}

static status fill_ctm_fp16(backend_cov_target *v, int exponent, matcov_slopes k, uint16_t *a,
                            int64_t lda, bool *done) {
    *done = false;
    const status st = check_both(v, "fill_ctm_fp16", BACKEND_S, v->c->t, k, lda);
    if (st != MOAO_OK || abs(exponent) > 120)
        return st;
    return gpu_cov_fill_single(v->c, &v->aim, k, ldexpf(1.0f, exponent), a, lda, done);
}

static status fill_cpm(backend_cov_target *v, backend_type t, matcov_points p, int64_t j0,
                       int64_t nj, void *a, int64_t lda) {
    return gpu_cov_fill_phase(v->c, &v->aim, t, p, j0, nj, a, lda);
}

static status fill_cpm_both(backend_cov_target *v, backend_type t, matcov_points p, matcov_slopes k,
                            void *a, int64_t lda) {
    const status st = check_both(v, "fill_cpm_both", t, p.n, k, lda);
    return st != MOAO_OK ? st : gpu_cov_fill_phase_both(v->c, &v->aim, t, p, k, a, lda);
}

static status fill_cpm_fp16(backend_cov_target *v, int exponent, matcov_points p, matcov_slopes k,
                            uint16_t *a, int64_t lda, bool *done) {
    *done = false;
    const status st = check_both(v, "fill_cpm_fp16", BACKEND_S, p.n, k, lda);
    if (st != MOAO_OK || abs(exponent) > 120)
        return st;
    return gpu_cov_fill_phase_fp16(v->c, &v->aim, p, k, ldexpf(1.0f, exponent), a, lda, done);
}

static status values(backend_cov *c, int a, int b, matcov_values *v) {
    const pair_list *k = &c->list[MATCOV_CMM];
    *v = matcov_values{};
    v->noise = c->noise;
    if (a < 0 || b < 0 || a >= c->nsensor || b >= c->nsensor)
        return status_fail(MOAO_INPUT, "values: there is no such sensor");
    const matcov_link *link = &k->links[a * c->nsensor + b];
    if (link->table < 0)
        return MOAO_OK;
    const bool r = link->reversed;
    const matcov_table *t = &k->tables[link->table];
    const size_t at = (char *)(c->tables + link->table) - c->device;
    const double *value = ((const gpu_cov_table *)(c->staging + at))->value;
    const size_t size = (size_t)t->n * t->n;
    v->steps[0] = t->steps[r], v->steps[1] = t->steps[!r];
    v->n = t->n, v->origin = t->origin, v->reversed = r;
    for (int p = 0; p < 2; p++)
        for (int q = 0; q < 2; q++)
            v->value[p + 2 * q] = value + (r ? q + 2 * p : p + 2 * q) * size;
    return MOAO_OK;
}

static status outlined(backend_cov *c, backend_type t, int a, int b, void *e, int64_t lde) {
    const gpu_cov_set_direction aim = axis_set_direction(c);
    if (a < 0 || b < 0 || a >= c->nsensor || b >= c->nsensor)
        return status_fail(MOAO_INPUT, "outlined: there is no such sensor");
    return gpu_cov_outlined(c, &aim, t, a, b, e, lde);
}

const backend_matcov backend_matcov_gpu = {
    .size = sizeof(backend_matcov),
    .bytes = gpu_cov_bytes,
    .target_bytes = gpu_cov_target_bytes,
    .open = open_cov,
    .load = load,
    .close = close_cov,
    .fill_cmm = fill_cmm,
    .fill_ctt = fill_ctt,
    .values = values,
    .outlined = outlined,
    .open_target = open_target,
    .close_target = close_target,
    .aim = aim,
    .fill_ctm = fill_ctm,
    .fill_ctm_both = fill_ctm_both,
    .fill_ctm_fp16 = fill_ctm_fp16,
    .fill_cpm = fill_cpm,
    .fill_cpm_both = fill_cpm_both,
    .fill_cpm_fp16 = fill_cpm_fp16,
};
