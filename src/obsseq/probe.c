#include "obsseq/probe.h"

#include <stdlib.h>
#include <string.h>

#define MOST 16              /* targets at a time */
#define EDGE ((int64_t)1024) /* of a tile: not the panels that exposures are made by */

int probe_find(const probe *p, int target) {
    for (int k = 0; p != NULL && k < p->n; k++)
        if (p->target[k] == target)
            return k;
    return -1;
}

typedef struct {
    const probe_conditions *o;
    int64_t m, t, edge;
    int n;                    /* targets in hand */
    const double *q, *p;      /* of them, on the host */
    double *tile, *dq, *sums; /* on the device: edge x edge or t x width, m x n, m x n */
    double *host;             /* m x n */
    long turn;                /* tiles so far: they go to the ranks in turn */
} work;

static bool is_mine(work *w) {
    return w->turn++ % w->o->c->size == w->o->c->rank;
}

static status copy(const work *w, double *to, const double *from, int64_t count) {
    const int64_t bytes = count * (int64_t)sizeof(double);
    return w->o->be->copy(w->o->ctx, to, bytes, from, bytes, bytes, 1);
}

/* sums(rows, cols of the targets) += factor * tile * q(from..): ni x nj tile. */
static status multiply(const work *w, int64_t ni, int64_t nj, double factor, const double *q,
                       int64_t n, double *sums, int64_t ld) {
    const double one = 1;
    return w->o->be->gemm(w->o->ctx, BACKEND_D, 'N', 'N', ni, n, nj, &factor, w->tile, ni, q, w->m,
                          &one, sums, ld, NULL, 0);
}

/* The numbers summed so far to the host; on the device they are 0 again. */
static status fetch(const work *w, int64_t count) {
    const double zero = 0;
    status st;
    TRY(copy(w, w->host, w->sums, count));
    TRY(w->o->be->sync(w->o->ctx));
    st = w->o->be->gemm(w->o->ctx, BACKEND_D, 'N', 'N', count, 1, 1, &zero, w->tile, count, w->tile,
                        1, &zero, w->sums, count, NULL, 0);
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
            TRY(w->o->mat->fill_cmm(w->o->cov, BACKEND_D, 'A', MATCOV_ALL, i, ni, j, nj, w->tile,
                                    ni));
            TRY(multiply(w, ni, nj, i > j ? 2 : 1, w->dq + j, w->n, w->sums + i, m));
        }
    TRY(fetch(w, m * w->n));
    for (int k = 0; k < w->n; k++)
        a[k] += dot(m, w->q + k * m, w->host + k * m);
done:
    return st;
}

/* b[k] += this rank's share of p'Ctm q for the k-th target in hand. */
static status form_ctm(work *w, int k, const double dir[2], double *b) {
    const int64_t m = w->m, t = w->t, most = w->edge * w->edge / t, e = most > 0 ? most : 1;
    status st;
    TRY(w->o->mat->aim(w->o->target, dir, w->o->shifted));
    for (int64_t j = 0; j < m; j += e) {
        const int64_t nj = m - j < e ? m - j : e;
        if (!is_mine(w))
            continue;
        TRY(w->o->mat->fill_ctm(w->o->target, BACKEND_D, 0, t, j, nj, w->tile, t));
        TRY(multiply(w, t, nj, 1, w->dq + k * m + j, 1, w->sums, t));
    }
    TRY(fetch(w, t));
    b[k] += dot(t, w->p + k * t, w->host);
done:
    return st;
}

/* The targets in hand, numbers k0 and following of the probe. */
static status some_forms(work *w, const probe *p, int k0, double *a, double *b) {
    status st;
    TRY(copy(w, w->dq, w->q, w->m * w->n));
    TRY(form_cmm(w, a));
    for (int k = 0; k < w->n; k++)
        TRY(form_ctm(w, k, w->o->s->targets[p->target[k0 + k]], b));
done:
    return st;
}

static status take(work *w) {
    const backend *be = w->o->be;
    const int64_t longest = w->m > w->t ? w->m : w->t, count = longest * MOST;
    const int64_t tile = w->edge * w->edge > w->t ? w->edge * w->edge : w->t;
    const size_t d = sizeof(double);
    status st;
    TRY(ALLOC(w->host, (size_t)count, "a check of the residuals"));
    TRY(be->alloc(w->o->ctx, (size_t)tile * d, (void **)&w->tile));
    TRY(be->alloc(w->o->ctx, (size_t)count * d, (void **)&w->dq));
    TRY(be->alloc(w->o->ctx, (size_t)count * d, (void **)&w->sums));
    memset(w->host, 0, (size_t)count * d);
    TRY(copy(w, w->sums, w->host, count));
    st = be->sync(w->o->ctx);
done:
    return st;
}

status probe_forms(const probe_conditions *o, const probe *p, double *a, double *b) {
    work w = {.o = o, .m = (int64_t)o->s->m, .t = (int64_t)o->s->t, .edge = EDGE};
    memset(a, 0, (size_t)p->n * sizeof *a);
    memset(b, 0, (size_t)p->n * sizeof *b);
    status st = take(&w);
    for (int k = 0; k < p->n && st == MOAO_OK; k += MOST) {
        w.n = p->n - k < MOST ? p->n - k : MOST;
        w.q = p->q + (int64_t)k * w.m;
        w.p = p->p + (int64_t)k * w.t;
        st = some_forms(&w, p, k, a + k, b + k);
    }
    o->be->sync(o->ctx); /* nothing may write to the host's array any more */
    o->be->release(o->ctx, w.tile);
    o->be->release(o->ctx, w.dq);
    o->be->release(o->ctx, w.sums);
    free(w.host);
    if ((st = comm_agree(o->c, st)) != MOAO_OK)
        return st;
    MPI_Allreduce(MPI_IN_PLACE, a, p->n, MPI_DOUBLE, MPI_SUM, o->c->mpi);
    MPI_Allreduce(MPI_IN_PLACE, b, p->n, MPI_DOUBLE, MPI_SUM, o->c->mpi);
    return MOAO_OK;
}
