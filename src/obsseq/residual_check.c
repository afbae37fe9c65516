#include "obsseq/residual_check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST 16              /* targets at a time */
#define EDGE ((int64_t)1024) /* of a tile: not the panels that exposures are made by */

int residual_check_find(const probe *p, int target) {
    for (int k = 0; p != NULL && k < p->n; k++)
        if (p->target[k] == target)
            return k;
    return -1;
}

typedef struct {
    engine *e;
    backend_cov_target *target;
    bool shifted;
    int64_t m, t, edge;
    int n;                    /* targets current */
    const double *q, *p;      /* of them, on the host */
    const double *x, *y;      /* points of the pupil, on the device */
    double *tile, *dq, *sums; /* on the device: edge x edge or t x width, m x n, m x n */
    double *dz;               /* on the device: z of a target */
    double *host;             /* m x n */
    long turn;                /* tiles so far: they go to the ranks in turn */
} work;

static bool is_mine(work *w) {
    return w->turn++ % w->e->c->size == w->e->c->rank;
}

/* sums(rows, cols of the targets) += factor * tile * q(from..): ni x nj tile. */
static status multiply(const work *w, int64_t ni, int64_t nj, double factor, const double *q,
                       int64_t n, double *sums, int64_t ld) {
    return engine_gemm(w->e, 'N', 'N', ni, n, nj, factor, w->tile, ni, q, w->m, 1.0, sums, ld);
}

/* The numbers summed so far to the host; on the device they are 0 again. */
static status fetch(const work *w, int64_t count) {
    status st;
    TRY(engine_copy(w->e, w->host, w->sums, count));
    TRY(engine_sync(w->e));
    st = engine_zero(w->e, BACKEND_D, count, 1, w->sums, count);
done:
    return st;
}

static double dot(int64_t n, const double *x, const double *y) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}

/* a[k] += this rank's share of q'Cmm q; tiles below the diagonal count twice. */
static status form_cmm(work *w, double *a) {
    const int64_t m = w->m, e = w->edge;
    status st;
    for (int64_t j = 0; j < m; j += e)
        for (int64_t i = j; i < m; i += e) {
            const int64_t ni = m - i < e ? m - i : e, nj = m - j < e ? m - j : e;
            if (!is_mine(w))
                continue;
            TRY(w->e->mat->fill_cmm(w->e->cov, BACKEND_D, 'A', MATCOV_ALL,
                                    (matcov_region){i, ni, j, nj}, w->tile, ni));
            TRY(multiply(w, ni, nj, i > j ? 2 : 1, w->dq + j, w->n, w->sums + i, m));
        }
    TRY(fetch(w, m * w->n));
    for (int k = 0; k < w->n; k++)
        a[k] += dot(m, w->q + k * m, w->host + k * m);
done:
    return st;
}

/* b[k] += this rank's share of p'Ctm q for the k-th target current, aimed; in direction d. */
static status form_ctm(work *w, int k, int d, double *b) {
    const int64_t m = w->m, t = w->t, most = w->edge * w->edge / t, e = most > 0 ? most : 1;
    status st;
    for (int64_t j = 0; j < m; j += e) {
        const int64_t nj = m - j < e ? m - j : e;
        if (!is_mine(w))
            continue;
        TRY(engine_fill_right(w->e, w->target, BACKEND_D, j, nj, w->tile));
        TRY(multiply(w, t, nj, 1, w->dq + k * m + j, 1, w->sums, t));
    }
    TRY(fetch(w, t));
    b[k] += dot(t, w->p + ((int64_t)k * w->e->ndir + d) * t, w->host);
done:
    return st;
}

/* form[k] += this rank's share of q'Cpm'z for the k-th target current, aimed; terms[k]: of the
 * sizes of its terms. z: of the current targets. */
static status form_cpm(work *w, int k, int64_t np, const double *z, double *form, double *terms) {
    const int64_t m = w->m, most = w->edge * w->edge / (2 * np);
    const double *q = w->q + k * m;
    engine *e = w->e;
    status st;
    TRY(engine_copy(e, w->dz, z + k * np, np));
    for (slope_pairs s = {0}; slope_pairs_next(e->s, 0, m, most > 0 ? most : 1, &s);) {
        if (!is_mine(w))
            continue;
        TRY(e->mat->fill_cpm_both(w->target, BACKEND_D, (matcov_points){np, w->x, w->y}, s.slopes,
                                  w->tile, np));
        for (int axis = 0; axis < 2; axis++)
            TRY(engine_gemm(e, 'T', 'N', s.n, 1, np, 1.0, w->tile + axis * s.n * np, np, w->dz, np,
                            1.0, w->sums + s.column[axis], m));
    }
    TRY(fetch(w, m));
    form[k] += dot(m, q, w->host);
    for (int64_t i = 0; i < m; i++)
        terms[k] += fabs(q[i] * w->host[i]);
done:
    return st;
}

/* The targets current, numbers k0 and following of the probe. */
static status some_forms(work *w, const probe *p, int k0, const residual_check_forms *f) {
    const int64_t np = (int64_t)p->points;
    status st;
    TRY(engine_copy(w->e, w->dq, w->q, w->m * w->n));
    TRY(form_cmm(w, f->cmm + k0));
    for (int k = 0; k < w->n; k++) {
        TRY(w->e->mat->aim(w->target, w->e->s->targets[p->target[k0 + k]], w->shifted));
        for (int d = 0; d < w->e->ndir && f->ctm != NULL; d++) {
            TRY(engine_aim_right(w->e, w->target, d));
            TRY(form_ctm(w, k, d, f->ctm + k0));
        }
        if (w->e->s->fit.ndir > 0)
            TRY(w->e->mat->aim(w->target, w->e->s->targets[p->target[k0 + k]], w->shifted));
        if (f->cpm != NULL)
            TRY(form_cpm(w, k, np, p->z + k0 * np, f->cpm + k0, f->terms + k0));
    }
done:
    return st;
}

static status take(work *w, int64_t points) {
    engine *e = w->e;
    const int64_t longest = w->m > w->t ? w->m : w->t, count = longest * MOST;
    const int64_t least = w->t > 2 * points ? w->t : 2 * points,
                  tile = w->edge * w->edge > least ? w->edge * w->edge : least;
    status st;
    TRY(ALLOC(w->host, (size_t)count, "a check of the residuals"));
    TRY(engine_doubles(e, tile, "a check", &w->tile));
    TRY(engine_doubles(e, count, "a check", &w->dq));
    TRY(engine_doubles(e, count, "a check", &w->sums));
    TRY(engine_doubles(e, points, "a check", &w->dz));
    TRY(engine_copy(e, w->sums, w->host, count));
    st = engine_sync(e);
done:
    return st;
}

status residual_check_make_forms(engine *e, backend_cov_target *target, bool shifted,
                                 const probe *p, const double *x, const double *y,
                                 const residual_check_forms *f) {
    work w = {.e = e,
              .target = target,
              .shifted = shifted,
              .m = e->m,
              .t = e->t,
              .edge = EDGE,
              .x = x,
              .y = y};
    double *const all[] = {f->cmm, f->ctm, f->cpm, f->terms};
    for (int i = 0; i < 4; i++)
        if (all[i] != NULL)
            memset(all[i], 0, (size_t)p->n * sizeof(double));
    status st = take(&w, (int64_t)p->points);
    for (int k = 0; k < p->n && st == MOAO_OK; k += MOST) {
        w.n = p->n - k < MOST ? p->n - k : MOST;
        w.q = p->q + (int64_t)k * w.m;
        w.p = p->p + (int64_t)k * w.t * e->ndir;
        st = some_forms(&w, p, k, f);
    }
    e->be->sync(e->ctx); /* nothing may write to the host's array any more */
    ENGINE_RELEASE(e, w.tile, w.dq, w.sums, w.dz);
    free(w.host);
    if ((st = comm_agree(e->c, st)) != MOAO_OK)
        return st;
    for (int i = 0; i < 4; i++)
        if (all[i] != NULL)
            comm_sum(e->c, all[i], (size_t)p->n);
    return MOAO_OK;
}
