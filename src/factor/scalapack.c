/* Cmm0 and its factor distributed block-cyclically over the ranks, in the host's memory
 * (ScaLAPACK). Solves are collective: a panel of the factor comes to all ranks and is used by all
 * their rows. The price, m^2/2 numbers received per rank and pass, is shared by all the rows of the
 * rank. */
#include "factor/bcmat.h"
#include "factor/factor.h"
#include "factor/panels.h"

#include <stdlib.h>

typedef struct {
    factor base;
    bcmat l;
} distributed;

static size_t panel_count(size_t m, const plan *p) {
    const size_t all = m * p->width,
                 work = bcmat_panel_work((int)m, p->block, p->grid[0], p->grid[1], p->width);
    return work > all ? work : all;
}

static void bytes(const sys *s, plan *p) {
    plan_add(p, "Cmm and its factor", bcmat_bytes((int)s->m, p->block, p->grid[0], p->grid[1]));
    plan_add(p, "panels of the factor", panel_count(s->m, p) * sizeof(double));
}

static void distributed_close(factor *base) {
    distributed *o = (distributed *)base;
    if (o == NULL)
        return;
    bcmat_free(&o->l);
    base->e->be->release(base->e->ctx, base->panel); /* of L or of T, and what gathering it needs */
    free(o);
}

static status distributed_open(engine *e, const plan *p, const double *proj, factor **out) {
    distributed *o = NULL;
    (void)proj;
    status st = ALLOC(o, 1, "distributed factor");
    if (st == MOAO_OK) {
        o->base = (factor){.kind = &factor_distributed, .e = e};
        st = engine_doubles(e, (int64_t)panel_count((size_t)e->m, p),
                            "panels of the covariance matrix", &o->base.panel);
    }
    TRY(comm_agree(e->c, st));
    TRY(bcmat_init(e->c, (int)e->m, p->block, p->grid[0], p->grid[1], &o->l));
done:
    if (st != MOAO_OK) {
        distributed_close(&o->base);
        o = NULL;
    }
    *out = &o->base;
    return st;
}

static status fill_block(void *ctx, size_t i0, size_t ni, size_t j0, size_t nj, double *a,
                         size_t ld) {
    engine *e = ctx;
    return e->mat->fill_cmm(e->cov, BACKEND_D, 'A', MATCOV_ALL, (int64_t)i0, (int64_t)ni,
                            (int64_t)j0, (int64_t)nj, a, (int64_t)ld);
}

static status distributed_make(factor *base, const profile *p, int *minor) {
    distributed *o = (distributed *)base;
    engine *e = base->e;
    const double m = (double)e->m;
    double from = report_now();
    status st;
    TRY(engine_load(e, p));
    report_phase("reconstructor: Cmm");
    TRY(bcmat_fill(&o->l, fill_block, e));
    e->rep->wall[STAGE_MATCOV] += report_now() - from;
    from = report_now();
    report_phase("reconstructor: Cholesky");
    st = bcmat_cholesky(&o->l, minor);
    if (*minor > 0) { /* the same on every rank, and told by it */
        status_clear();
        st = MOAO_OK;
    }
    e->rep->wall[STAGE_FACTOR] += report_now() - from;
    e->rep->flops[STAGE_FACTOR] += m * m * m / 3 / e->c->size;
done:
    return st;
}

static status distributed_solve(factor *base, int n, const wrows *w) {
    distributed *o = (distributed *)base;
    engine *e = base->e;
    const int64_t m = e->m, npanel = (m + e->width - 1) / e->width;
    status st = MOAO_OK;
    report_phase("solve: triangles");
    for (int64_t k = 0; k < 2 * npanel && st == MOAO_OK; k++) {
        const bool first = k < npanel;
        const int64_t j = (first ? k : 2 * npanel - 1 - k) * e->width, cols = engine_width(e, j, m);
        const double *l;
        size_t ldl;
        TIMED_WAIT(e->rep, STAGE_SOLVE,
                   st = bcmat_panel(&o->l, (size_t)j, (size_t)cols, o->base.panel, &l, &ldl));
        for (int i = 0; i < n && st == MOAO_OK; i++)
            st = first ? panel_forward(e, &w[i], j, cols, l, (int64_t)ldl)
                       : panel_backward(e, &w[i], j, cols, l, (int64_t)ldl);
        for (int i = 0; i < n; i++)
            e->rep->flops[STAGE_SOLVE] +=
                (double)w[i].rows * (double)cols * (double)(2 * (m - j) - cols);
        engine_progress(e);
    }
    return st;
}

const factor_kind factor_distributed = {
    .size = sizeof(factor_kind),
    .name = "distributed",
    .word = "dense",
    .together = true,
    .collective = true,
    .shares_panel = true,
    .bytes = bytes,
    .open = distributed_open,
    .close = distributed_close,
    .make = distributed_make,
    .solve = distributed_solve,
};
