#include "engine/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

status engine_open(engine *e) {
    const int n = e->be->devices();
    status st;
    if (n < 1)
        return status_fail(MOAO_INPUT, "compute.backend: no device was found");
    e->mat = matcov_backend(e->be);
    e->device = e->c->node_rank % n;
    TRY(e->be->open(e->device, NULL, &e->ctx));
    st = e->be->open_low_priority(e->ctx, &e->low);
done:
    return st;
}

void engine_close(engine *e) {
    if (e->ctx != NULL) {
        if (e->cov != NULL)
            e->mat->close(e->cov);
        e->be->release(e->ctx, e->work);
        e->be->close(e->low);
        e->be->close(e->ctx);
    }
    matcov_free(e->mc);
    *e = (engine){0};
}

status engine_use(engine *e, matcov *mc) {
    matcov_model model = {0};
    status st;
    TRY(matcov_model_init(mc, &model));
    TRY(e->cov == NULL ? e->mat->open(e->ctx, &model, &e->cov) : e->mat->load(e->cov, &model));
    matcov_free(e->mc);
    e->mc = mc;
    mc = NULL;
done:
    matcov_model_free(&model);
    matcov_free(mc);
    return st;
}

status engine_prepare(const sys *s, bool phase, engine_model *m) {
    if (m->p0 == NULL)
        return matcov_prepare(s, m->p, &m->mc);
    if (phase && m->drifts)
        m->phase = matcov_phase_bound(s, m->p, m->p0, m->beta);
    return matcov_prepare_difference(s, m->p, m->p0, m->beta, m->drifts, &m->mc, &m->bound);
}

void engine_model_free(engine_model *m) {
    matcov_free(m->mc);
    *m = (engine_model){0};
}

static bool same_model(const engine_model *a, const engine_model *b) {
    return a->p == b->p && a->p0 == b->p0 && a->beta == b->beta && a->drifts == b->drifts;
}

void engine_model_take(engine_model *from, int n, engine_model *m) {
    for (int i = 0; i < n; i++)
        if (from[i].mc != NULL && same_model(&from[i], m)) {
            *m = from[i];
            from[i].mc = NULL;
            return;
        }
}

status engine_load_model(engine *e, engine_model *m) {
    status st = MOAO_OK;
    m->mc = NULL;
    engine_model_take(e->ready, e->nready, m);
    if (m->mc == NULL)
        st = engine_prepare(e->s, e->phase, m);
    if (st == MOAO_OK)
        st = engine_use(e, m->mc);
    m->mc = NULL; /* the engine's */
    return st;
}

status engine_load(engine *e, const profile *p) {
    engine_model m = {.p = p};
    matcov *mc = NULL;
    if (!e->collective)
        return engine_load_model(e, &m);
    const status st = matcov_init(e->c, e->s, p, &mc);
    return st != MOAO_OK ? st : engine_agree_now(e, STAGE_MATCOV, engine_use(e, mc));
}

status engine_aim_right(const engine *e, backend_cov_target *target, int d) {
    return e->s->fit.ndir > 0 ? e->mat->aim(target, e->s->fit.dir[d], false) : MOAO_OK;
}

status engine_fill_right(const engine *e, backend_cov_target *target, backend_type t, int64_t j,
                         int64_t n, void *a) {
    return e->s->fit.phase
               ? e->mat->fill_cpm(target, t, (matcov_points){e->t, e->x, e->y}, j, n, a, e->t)
               : e->mat->fill_ctm(target, t, (matcov_region){0, e->t, j, n}, a, e->t);
}

status engine_fill_right_both(const engine *e, backend_cov_target *target, matcov_slopes k,
                              double *a) {
    return e->s->fit.phase ? e->mat->fill_cpm_both(target, BACKEND_D,
                                                   (matcov_points){e->t, e->x, e->y}, k, a, e->t)
                           : e->mat->fill_ctm_both(target, BACKEND_D, k, a, e->t);
}

status engine_agree_now(const engine *e, stage stg, status st) {
    if (e->collective)
        TIMED_WAIT(e->rep, stg, st = comm_agree(e->c, st));
    return st;
}

status engine_agree(const engine *e, stage stg, status st) {
    char text[1024];
    if (e->collective)
        return engine_agree_now(e, stg, st);
    if (st != MOAO_OK)
        comm_alarm(e->c);
    if (st == MOAO_INTERNAL && status_message()[0] != '\0' &&
        strstr(status_message(), "--resume") == NULL) {
        snprintf(text, sizeof text,
                 "%.800s; what is finished is kept: go on with --resume, on another device or with "
                 "compute.backend=cpu",
                 status_message());
        status_clear();
        status_adopt(text);
    }
    TIMED_WAIT(e->rep, stg, st = comm_agree(e->c, st));
    return st;
}

status engine_sync(engine *e) {
    status st = comm_fault(e->c, "device");
    if (st == MOAO_OK)
        st = e->be->sync(e->ctx);
    return st == MOAO_OK && !e->collective && comm_alarmed(e->c) ? MOAO_INTERNAL : st;
}

status engine_array(engine *e, size_t bytes, const char *what, void **p) {
    status st = e->be->alloc(e->ctx, bytes > 0 ? bytes : 1, p);
    if (st != MOAO_MEMORY)
        return st;
    status_clear();
    if (e->collective)
        return status_fail(MOAO_MEMORY, "no memory for %s (%.2f GB); use more ranks on more nodes",
                           what, (double)bytes / 1e9);
    return status_fail(MOAO_MEMORY,
                       "the device has no room for %s (%.2f GB); this run needs %.2f GB of it for "
                       "one target at a time: use a GPU with more memory that nothing else "
                       "uses, smaller sensors, or compute.backend=cpu",
                       what, (double)bytes / 1e9, e->one_target / 1e9);
}

status engine_doubles(engine *e, int64_t count, const char *what, double **p) {
    return engine_array(e, (size_t)count * sizeof(double), what, (void **)p);
}

void engine_release(const engine *e, size_t n, void *const *p) {
    for (size_t i = 0; i < n; i++)
        e->be->release(e->ctx, p[i]);
}

status engine_work(engine *e, size_t bytes) {
    if (e->work != NULL && bytes <= e->lwork)
        return MOAO_OK;
    e->be->release(e->ctx, e->work);
    e->work = NULL;
    e->lwork = bytes > e->lwork ? bytes : e->lwork;
    return engine_array(e, e->lwork, "work", &e->work);
}

status engine_copy(engine *e, double *dst, const double *src, int64_t count) {
    const int64_t bytes = count * (int64_t)sizeof(double);
    return e->be->copy(e->ctx, dst, bytes, src, bytes, bytes, 1);
}

status engine_gemm(engine *e, char ta, char tb, int64_t m, int64_t n, int64_t k, double alpha,
                   const double *a, int64_t lda, const double *b, int64_t ldb, double beta,
                   double *c, int64_t ldc) {
    return e->be->gemm(e->ctx, BACKEND_D, ta, tb, m, n, k, &alpha, a, lda, b, ldb, &beta, c, ldc,
                       e->work, e->lwork);
}

status engine_zero(engine *e, backend_type t, int64_t rows, int64_t cols, void *a, int64_t ld) {
    const double zero = 0;
    const float zero32 = 0;
    const void *none = t == BACKEND_D ? (const void *)&zero : &zero32;
    if (rows == 0 || cols == 0)
        return MOAO_OK;
    return e->be->gemm(e->ctx, t, 'N', 'N', rows, cols, 1, none, a, ld, a, 1, none, a, ld, e->work,
                       e->lwork);
}

status engine_flip(engine *e, const char *where, double *x) {
    double value;
    status st;
    if (!comm_flips(e->c, where))
        return MOAO_OK;
    TRY(engine_copy(e, &value, x, 1));
    TRY(engine_sync(e));
    value = comm_flip(value);
    TRY(engine_copy(e, x, &value, 1));
    st = engine_sync(e);
done:
    return st;
}

void engine_progress(const engine *e) {
    double total = 0;
    for (int i = 0; i < STAGE_COUNT; i++)
        total += i == STAGE_SETUP ? 0 : e->rep->flops[i];
    if (e->c->rank == 0)
        progress_advance((total - e->rep->shown) * e->c->size);
    e->rep->shown = total;
}

sensor_columns engine_columns_after(const engine *e, int64_t most, sensor_columns p) {
    sensor_columns next = {p.number + 1, p.end, e->m};
    for (int w = 0; w < e->s->nsensor; w++) {
        const int64_t first = (int64_t)e->s->sensors[w].first, n = 2 * e->s->sensors[w].nsub,
                      parts = (n + most - 1) / most;
        for (int64_t k = 1; k <= parts; k++)
            if (first + n * k / parts > next.j && first + n * k / parts < next.end)
                next.end = first + n * k / parts;
    }
    return next;
}
