/* Cmm0 and its factor distributed block-cyclically over the ranks, in the host's memory
 * (ScaLAPACK). Solves are collective: a panel of the factor comes to all ranks and is used by all
 * their rows. The price, m^2/2 numbers received per rank and pass, is shared by all the rows of the
 * rank.
 *
 * Ranks that are not collective otherwise, each with a device and targets of its own
 * (factor_distributed_own), solve in rounds: in one all ranks take part, those in a solve with
 * their rows, those in `solved` without any. Rounds end when all are there. */
#include "factor/bcmat.h"
#include "factor/factor.h"
#include "factor/panels.h"

#include <stdlib.h>

typedef struct {
    factor base;
    bcmat l;
    int64_t width; /* columns of a panel of L: whole blocks */
    /* of ranks with a device each */
    bool direct;   /* which is the host: it reads panels where they are gathered */
    bool failed;   /* a rank did: no more rounds with this factor */
    double *whole; /* a panel and what gathering it needs, in the host's memory */
} distributed;

/* Doubles for a panel of L and for gathering it. */
static size_t panel_count(size_t m, const plan *p, size_t width) {
    const size_t all = m * width,
                 work = bcmat_panel_work((int)m, p->block, p->grid[0], p->grid[1], width);
    return work > all ? work : all;
}

static void bytes(const sys *s, plan *p) {
    plan_add(p, "Cmm and its factor", bcmat_bytes((int)s->m, p->block, p->grid[0], p->grid[1]));
    plan_add(p, "panels of the factor", panel_count(s->m, p, p->width) * sizeof(double));
}

static void distributed_close(factor *base) {
    distributed *o = (distributed *)base;
    bcmat_free(&o->l);
    base->e->be->release(base->e->ctx, base->panel); /* of L or of T, and what gathering it needs */
    base->e->be->release_host(base->e->ctx, o->whole);
}

static status fill_block(void *ctx, size_t i0, size_t ni, size_t j0, size_t nj, double *a,
                         size_t ld) {
    engine *e = ctx;
    return e->mat->fill_cmm(e->cov, BACKEND_D, 'A', MATCOV_ALL,
                            (matcov_region){(int64_t)i0, (int64_t)ni, (int64_t)j0, (int64_t)nj}, a,
                            (int64_t)ld);
}

/* The same by way of a device. */
static status fill_by_device(void *ctx, size_t i0, size_t ni, size_t j0, size_t nj, double *a,
                             size_t ld) {
    const distributed *o = ctx;
    engine *e = o->base.e;
    const int64_t d = sizeof(double), bytes = (int64_t)ni * d;
    status st;
    TRY(fill_block(e, i0, ni, j0, nj, o->base.panel, ni));
    TRY(e->be->copy(e->ctx, a, (int64_t)ld * d, o->base.panel, bytes, bytes, (int64_t)nj));
    st = engine_sync(e);
done:
    return st;
}

static status distributed_make(factor *base, const profile *p, int *minor) {
    distributed *o = (distributed *)base;
    engine *e = base->e;
    const double m = (double)e->m;
    const bool device = !e->collective && !o->direct;
    double from = report_now();
    status st;
    o->failed = false;
    TRY(comm_agree(e->c, engine_load(e, p)));
    report_phase("reconstructor: Cmm");
    TRY(bcmat_fill(&o->l, device ? fill_by_device : fill_block, device ? (void *)o : (void *)e));
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

/* Columns j .. j + cols of L, from row j on, where the rows of W are. Collective. */
static status gather_panel(distributed *o, int64_t j, int64_t cols, const double **l,
                           int64_t *ldl) {
    engine *e = o->base.e;
    const bool apart = !e->collective;
    size_t ld;
    status st;
    TIMED_WAIT(
        e->rep, STAGE_SOLVE,
        st = bcmat_panel(&o->l, (size_t)j, (size_t)cols, apart ? o->whole : o->base.panel, l, &ld));
    *ldl = (int64_t)ld;
    if (st != MOAO_OK || !apart || o->direct)
        return st;
    const int64_t d = sizeof(double), bytes = (e->m - j) * d;
    TRY(e->be->copy(e->ctx, o->base.panel, bytes, *l, *ldl * d, bytes, cols));
    TRY(e->be->sync(e->ctx)); /* the next one is gathered in the same place */
    *l = o->base.panel;
    *ldl = e->m - j;
done:
    return st;
}

/* Both triangles. A rank whose own part fails goes on with those of others. */
static status triangles(distributed *o, int n, const wrows *w) {
    engine *e = o->base.e;
    const int64_t m = e->m, npanel = (m + o->width - 1) / o->width;
    status st = MOAO_OK, mine = MOAO_OK;
    report_phase("solve: triangles");
    for (int64_t k = 0; k < 2 * npanel && st == MOAO_OK; k++) {
        const bool first = k < npanel;
        const int64_t j = (first ? k : 2 * npanel - 1 - k) * o->width,
                      cols = m - j < o->width ? m - j : o->width;
        const double *l;
        int64_t ldl;
        st = gather_panel(o, j, cols, &l, &ldl);
        for (int i = 0; i < n && st == MOAO_OK && mine == MOAO_OK; i++)
            mine = first ? panel_forward(e, &w[i], j, cols, l, ldl)
                         : panel_backward(e, &w[i], j, cols, l, ldl);
        for (int i = 0; i < n; i++)
            e->rep->flops[STAGE_SOLVE] +=
                (double)w[i].rows * (double)cols * (double)(2 * (m - j) - cols);
        engine_progress(e);
    }
    return st != MOAO_OK ? st : mine;
}

static status distributed_solve(factor *base, int n, const wrows *w) {
    return triangles((distributed *)base, n, w);
}

/* --- on ranks that each have the road of devices */

/* Collective. *any: whether a rank has something to solve for. After a failure there are no more
 * rounds: all leave theirs with it. */
static status next_round(distributed *o, status local, bool more, bool *any) {
    const engine *e = o->base.e;
    int want = more;
    status st = local;
    *any = false;
    if (o->failed)
        return st != MOAO_OK ? st : MOAO_INTERNAL;
    if (st == MOAO_OK)
        st = comm_fault(e->c, "round");
    TIMED_WAIT(e->rep, STAGE_SOLVE, st = comm_agree(e->c, st));
    o->failed = st != MOAO_OK;
    if (st == MOAO_OK)
        TIMED_WAIT(e->rep, STAGE_SOLVE,
                   MPI_Allreduce(MPI_IN_PLACE, &want, 1, MPI_INT, MPI_MAX, e->c->mpi));
    *any = st == MOAO_OK && want > 0;
    return st;
}

static status own_solve(factor *base, int n, const wrows *w) {
    distributed *o = (distributed *)base;
    bool any;
    const status st = next_round(o, MOAO_OK, true, &any);
    return st == MOAO_OK ? triangles(o, n, w) : st;
}

static status own_solved(factor *base, status local) {
    distributed *o = (distributed *)base;
    bool any = true;
    status st = local;
    while (any) {
        TRY(next_round(o, st, false, &any));
        if (any)
            st = triangles(o, 0, NULL);
    }
done:
    return st;
}

static size_t own_width(const plan *p) {
    const size_t block = (size_t)p->block;
    return (p->width + block - 1) / block * block;
}

/* What lies in the host's memory is counted there, unless that is the device's. */
static size_t own_host(const sys *s, const plan *p, int targets) {
    (void)targets;
    return p->host ? 0
                   : bcmat_bytes((int)s->m, p->block, p->grid[0], p->grid[1]) +
                         panel_count(s->m, p, own_width(p)) * sizeof(double);
}

static void own_bytes(const sys *s, plan *p) {
    const size_t width = own_width(p);
    plan_add(p, "panel of the factor, of Cmm of an exposure", s->m * width * sizeof(double));
    if (p->host) {
        plan_add(p, "Cmm and its factor", bcmat_bytes((int)s->m, p->block, p->grid[0], p->grid[1]));
        plan_add(p, "panels of the factor", panel_count(s->m, p, width) * sizeof(double));
    }
}

/* --- life */

static status take_memory(distributed *o, const plan *p) {
    engine *e = o->base.e;
    const size_t whole = panel_count((size_t)e->m, p, (size_t)o->width);
    status st;
    if (e->collective)
        return engine_doubles(e, (int64_t)whole, "panels of the covariance matrix", &o->base.panel);
    TRY(engine_doubles(e, e->m * o->width, "panels of the covariance matrix", &o->base.panel));
    TRY(engine_work(e, e->be->workspace(BACKEND_TRSM, BACKEND_D, p->rows, o->width)));
    if (e->c->size > 1) /* else a panel is where the factor is */
        TRY(e->be->alloc_host(e->ctx, whole * sizeof(double), (void **)&o->whole));
done:
    return st;
}

static status distributed_open(factor *base, const plan *p, const double *proj) {
    distributed *o = (distributed *)base;
    engine *e = base->e;
    status st;
    (void)proj;
    o->width = e->collective ? e->width : (int64_t)own_width(p);
    o->direct = e->be->group == NULL;
    TRY(comm_agree(e->c, take_memory(o, p)));
    st = bcmat_init(e->c, (int)e->m, p->block, p->grid[0], p->grid[1], &o->l);
done:
    return st;
}

const factor_kind factor_distributed = {
    .size = sizeof(factor_kind),
    .object = sizeof(distributed),
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

const factor_kind factor_distributed_own = {
    .size = sizeof(factor_kind),
    .object = sizeof(distributed),
    .name = "distributed, ranks apart",
    .word = "distributed",
    .together = true,
    .on_host = true,
    .distributed = true,
    .shares_panel = true,
    .bytes = own_bytes,
    .host = own_host,
    .open = distributed_open,
    .close = distributed_close,
    .make = distributed_make,
    .solve = own_solve,
    .solved = own_solved,
};
