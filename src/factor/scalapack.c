/* Cmm0 and its factor spread block-cyclically over the ranks, in the host's memory (ScaLAPACK); T
 * is not stored. All ranks work in lockstep: a panel of the factor, or of T, of which each rank
 * makes a share of the columns, comes to all of them and is used by all their rows. The price,
 * m^2/2 numbers received per rank and pass, is shared by all the rows of the rank. */
#include "factor/bcmat.h"
#include "factor/panels.h"

#include <stdlib.h>

typedef struct {
    linop base;
    bcmat l;
    double *panel; /* of the factor or of T, and what gathering it needs */
    int *count;    /* [2 ranks]: of the gathering, which must not fail on one rank */
    int64_t ldt;   /* of the panel of T */
} distributed;

static size_t panel_count(const linop_case *z) {
    const size_t all = z->s->m * z->width,
                 work = bcmat_panel_work((int)z->s->m, z->block, z->grid[0], z->grid[1], z->width);
    return work > all ? work : all;
}

static void bytes(const linop_case *z, linop_bytes *b) {
    linop_add(b, "Cmm and its factor", bcmat_bytes((int)z->s->m, z->block, z->grid[0], z->grid[1]));
    linop_add(b, "panels of the factor", panel_count(z) * sizeof(double));
    b->per_target = "W of a target";
    b->target = (size_t)z->rows * (z->s->m + (size_t)z->rows) * sizeof(double);
}

static void distributed_close(linop *base) {
    distributed *o = (distributed *)base;
    if (o == NULL)
        return;
    bcmat_free(&o->l);
    base->e->be->release(base->e->ctx, o->panel);
    free(o->count);
    free(o);
}

static status distributed_open(engine *e, const linop_setup *u, linop **out) {
    distributed *o = NULL;
    status st = ALLOC(o, 1, "distributed operator");
    if (st == MOAO_OK) {
        o->base = (linop){.kind = &linop_distributed, .e = e};
        st = ALLOC(o->count, 2 * (size_t)e->c->size, "columns per rank");
    }
    if (st == MOAO_OK)
        st = engine_doubles(e, (int64_t)panel_count(&u->size), "panels of the covariance matrix",
                            &o->panel);
    TRY(comm_agree(e->c, st));
    TRY(bcmat_init(e->c, (int)e->m, u->size.block, u->size.grid[0], u->size.grid[1], &o->l));
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

static status distributed_factor(linop *base, const profile *p, int *minor) {
    distributed *o = (distributed *)base;
    engine *e = base->e;
    const double m = (double)e->m;
    double from = report_now();
    status st;
    TRY(engine_load(e, p));
    TRY(bcmat_fill(&o->l, fill_block, e));
    e->rep->wall[STAGE_MATCOV] += report_now() - from;
    from = report_now();
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

static status distributed_solve(linop *base, int n, const wrows *w, double *const *own) {
    distributed *o = (distributed *)base;
    engine *e = base->e;
    const int64_t m = e->m, npanel = (m + e->width - 1) / e->width;
    status st = MOAO_OK;
    (void)own;
    report_phase("solve: triangles");
    for (int64_t k = 0; k < 2 * npanel && st == MOAO_OK; k++) {
        const bool first = k < npanel;
        const int64_t j = (first ? k : 2 * npanel - 1 - k) * e->width, cols = engine_width(e, j, m);
        const double *l;
        size_t ldl;
        TIMED_WAIT(e->rep, STAGE_SOLVE,
                   st = bcmat_panel(&o->l, (size_t)j, (size_t)cols, o->panel, &l, &ldl));
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

/* Columns j .. j + n of T, from row j on, on every rank. */
static status distributed_panel(linop *base, int64_t j, int64_t n) {
    distributed *o = (distributed *)base;
    engine *e = base->e;
    const int size = e->c->size;
    const int64_t rows = e->m - j, first = n * e->c->rank / size,
                  some = n * (e->c->rank + 1) / size - first;
    status st = comm_fault(e->c, "exposure");
    o->ldt = rows;
    if (st == MOAO_OK)
        st = e->mat->fill_cmm(e->cov, BACKEND_D, 'A', MATCOV_ALL, j, rows, j + first, some,
                              o->panel + first * rows, rows);
    if ((st = engine_agree_now(e, STAGE_EXPOSURE, st)) != MOAO_OK)
        return st;
    for (int r = 0; r < size; r++) {
        o->count[r] = (int)(n * (r + 1) / size - n * r / size) * (int)rows;
        o->count[size + r] = (int)(n * r / size) * (int)rows;
    }
    if (size > 1)
        TIMED_WAIT(e->rep, STAGE_EXPOSURE,
                   MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DOUBLE, o->panel, o->count, o->count + size,
                                  MPI_DOUBLE, e->c->mpi));
    for (int64_t i = 0; i < n; i++)
        o->panel[i + i * rows] *= 0.5;
    return engine_flip(e, "flip-t", o->panel + rows / 2);
}

static status distributed_columns(linop *base, const wrows *w, int64_t j, int64_t n, double *z,
                                  int64_t ldz) {
    const distributed *o = (const distributed *)base;
    return panel_product(base->e, w, j, n, o->panel, o->ldt, z, ldz);
}

const linop_kind linop_distributed = {
    .size = sizeof(linop_kind),
    .name = "distributed",
    .format = "dense",
    .exact = true,
    .together = true,
    .collective = true,
    .bytes = bytes,
    .open = distributed_open,
    .close = distributed_close,
    .factor = distributed_factor,
    .solve = distributed_solve,
    .panel = distributed_panel,
    .columns = distributed_columns,
};
