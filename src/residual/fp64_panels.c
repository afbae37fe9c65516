/* T of an exposure in double precision that is never stored: a panel of it is computed, used by all
 * targets, and overwritten. Three ways to a panel: by itself, with any factor; by the streams of a
 * factor that is in the host's memory, so that the host stays one panel ahead; on collective ranks,
 * each of which computes a part of its columns. */
#include "residual/fp64_panels.h"
#include "factor/host_factor.h"

#include <stdlib.h>

typedef struct {
    product base;
    double *panel; /* columns of T, from their first row on; the factor's, or */
    double *mine;  /* NULL, or its own */
    int64_t ld;    /* of the panel */
    int *count;    /* NULL, or [2 ranks]: of the gathering, which must not fail on one rank */
} panels;

static void bytes(const sys *s, const factor_kind *f, plan *p) {
    const size_t m = s->m, v = (size_t)p->rows, d = sizeof(double);
    if (!f->shares_panel)
        plan_add(p, "panel of Cmm of an exposure", m * p->width * d);
    p->per_target = "W and residual covariance of a target";
    p->target = v * m * d + v * v * d + p->target_tables;
}

static void bytes_collective(const sys *s, const factor_kind *f, plan *p) {
    (void)f;
    p->per_target = "W of a target";
    p->target = (size_t)p->rows * (s->m + (size_t)p->rows) * sizeof(double);
}

static void panels_close(product *base) {
    panels *x = (panels *)base;
    base->e->be->release(base->e->ctx, x->mine);
    free(x->count);
}

static status panels_open(product *base, const plan *p, const double *proj) {
    panels *x = (panels *)base;
    engine *e = base->e;
    status st = MOAO_OK;
    (void)proj;
    x->panel = base->f->panel;
    x->ld = e->m;
    if (e->collective)
        TRY(ALLOC(x->count, 2 * (size_t)e->c->size, "columns per rank"));
    if (x->panel == NULL) {
        TRY(engine_doubles(e, e->m * e->width, "columns of Cmm", &x->mine));
        x->panel = x->mine;
    }
    if (base->kind == &product_panels)
        TRY(engine_work(e, e->be->workspace(BACKEND_TRMM, BACKEND_D, p->rows, e->width)));
done:
    return st;
}

status panel_diagonal(engine *e, const wrows *w, int64_t j, int64_t n, const double *t, int64_t ldt,
                      double *z, int64_t ldz) {
    const int64_t d = sizeof(double);
    const double one = 1;
    status st;
    TRY(e->be->copy(e->ctx, z, ldz * d, w->w + j * w->ld, w->ld * d, w->rows * d, n));
    TRY(e->be->trmm(e->ctx, BACKEND_D, 'R', 'L', 'N', 'N', w->rows, n, &one, t, ldt, z, ldz,
                    e->work, e->lwork));
done:
    return st;
}

status panel_product(engine *e, const wrows *w, int64_t j, int64_t n, const double *t, int64_t ldt,
                     double *z, int64_t ldz) {
    const int64_t below = e->m - j - n;
    status st;
    TRY(panel_diagonal(e, w, j, n, t, ldt, z, ldz));
    if (below > 0)
        TRY(engine_gemm(e, 'N', 'N', w->rows, n, below, 1.0, w->w + (j + n) * w->ld, w->ld, t + n,
                        ldt, 1.0, z, ldz));
done:
    return st;
}

static status panels_columns(product *base, const wrows *w, int64_t j, int64_t n, double *z,
                             int64_t ldz) {
    const panels *x = (const panels *)base;
    return panel_product(base->e, w, j, n, x->panel, x->ld, z, ldz);
}

/* --- with any factor */

static status panels_panel(product *base, int64_t j, int64_t n) {
    const panels *x = (const panels *)base;
    engine *e = base->e;
    const int64_t rows = e->m - j;
    const status st = e->mat->fill_cmm(e->cov, BACKEND_D, 'T', MATCOV_ALL,
                                       (matcov_region){j, rows, j, n}, x->panel, e->m);
    return st != MOAO_OK ? st : engine_flip(e, "flip-t", x->panel + rows / 2);
}

const product_kind product_panels = {
    .size = sizeof(product_kind),
    .object = sizeof(panels),
    .name = "panels",
    .word = "exact",
    .exact = true,
    .together = true,
    .bytes = bytes,
    .open = panels_open,
    .close = panels_close,
    .panel = panels_panel,
    .columns = panels_columns,
};

/* --- with a factor in the host's memory */

/* What lies above the diagonal of a panel of T: products read it, fills leave it alone. */
static status streamed_load(product *base, const profile *p) {
    engine *e = base->e;
    (void)p;
    return engine_zero(e, BACKEND_D, e->width, e->width, ((const panels *)base)->panel, e->m);
}

static status streamed_panel(product *base, int64_t j, int64_t n) {
    engine *e = base->e;
    status st;
    TRY(host_factor_pace(base->f)); /* until the panel before the last one is done */
    TRY(host_factor_follow(base->f));
    TRY(e->mat->fill_cmm(e->cov, BACKEND_D, 'T', MATCOV_ALL, (matcov_region){j, e->m - j, j, n},
                         ((const panels *)base)->panel, e->m));
done:
    return st;
}

static status streamed_columns(product *base, const wrows *w, int64_t j, int64_t n, double *z,
                               int64_t ldz) {
    const int64_t m = base->e->m;
    return engine_gemm(base->e, 'N', 'N', w->rows, n, m - j, 1.0, w->w + j * w->ld, w->ld,
                       ((const panels *)base)->panel, m, 0.0, z, ldz);
}

const product_kind product_streamed = {
    .size = sizeof(product_kind),
    .object = sizeof(panels),
    .name = "streamed",
    .word = "exact",
    .exact = true,
    .together = true,
    .bytes = bytes,
    .open = panels_open,
    .close = panels_close,
    .load = streamed_load,
    .panel = streamed_panel,
    .columns = streamed_columns,
};

/* --- on collective ranks */

/* Columns j .. j + n of T, from row j on, on every rank. */
static status collective_panel(product *base, int64_t j, int64_t n) {
    panels *x = (panels *)base;
    engine *e = base->e;
    const int size = e->c->size;
    const int64_t rows = e->m - j, first = n * e->c->rank / size,
                  some = n * (e->c->rank + 1) / size - first;
    status st = comm_fault(e->c, "exposure");
    report_phase("exposure: T of Cmm");
    x->ld = rows;
    if (st == MOAO_OK)
        st = e->mat->fill_cmm(e->cov, BACKEND_D, 'A', MATCOV_ALL,
                              (matcov_region){j, rows, j + first, some}, x->panel + first * rows,
                              rows);
    if ((st = engine_agree_now(e, STAGE_EXPOSURE, st)) != MOAO_OK)
        return st;
    for (int r = 0; r < size; r++) {
        x->count[r] = (int)(n * (r + 1) / size - n * r / size) * (int)rows;
        x->count[size + r] = (int)(n * r / size) * (int)rows;
    }
    if (size > 1)
        TIMED_WAIT(e->rep, STAGE_EXPOSURE,
                   MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DOUBLE, x->panel, x->count, x->count + size,
                                  MPI_DOUBLE, e->c->mpi));
    for (int64_t i = 0; i < n; i++)
        x->panel[i + i * rows] *= 0.5;
    return engine_flip(e, "flip-t", x->panel + rows / 2);
}

const product_kind product_collective = {
    .size = sizeof(product_kind),
    .object = sizeof(panels),
    .name = "collective",
    .word = "exact",
    .exact = true,
    .together = true,
    .bytes = bytes_collective,
    .open = panels_open,
    .close = panels_close,
    .panel = collective_panel,
    .columns = panels_columns,
};
