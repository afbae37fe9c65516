#include "factor/dense.h"

#include <stdlib.h>

static void bytes(const sys *s, plan *p) {
    const size_t m = s->m, d = sizeof(double);
    plan_add(p, "factor of Cmm0, and Cmm of an exposure", m * m * d);
    if (p->moduli > 0)
        plan_add(p, "residues of the factor",
                 cholesky_residues(p->be, (int64_t)m, p->moduli, p->rows) +
                     2 * m * sizeof(int32_t));
}

static status take_memory(dense_factor *o, const plan *p) {
    engine *e = o->base.e;
    const int64_t m = e->m;
    const size_t trsm = e->be->workspace(BACKEND_TRSM, BACKEND_D, p->rows, m);
    const size_t factor = cholesky_work(&o->f), count = (size_t)cholesky_strips(&o->f);
    status st;
    TRY(engine_doubles(e, m * m, "the factor of Cmm", &o->a));
    TRY(engine_array(e, count * sizeof(int), "numbers", (void **)&o->f.info));
    TRY(engine_work(e, factor > trsm ? factor : trsm));
    if (p->moduli > 0) {
        TRY(engine_array(e, cholesky_residues(e->be, m, p->moduli, p->rows), "bytes of residues",
                         &o->f.residues));
        TRY(engine_array(e, (size_t)m * sizeof(int32_t), "exponents", (void **)&o->f.exponent));
    }
    if (o->f.solve_moduli < p->moduli)
        TRY(engine_array(e, (size_t)m * sizeof(int32_t), "exponents", (void **)&o->f.of_solve));
    o->f.a = o->a;
done:
    return st;
}

static void dense_close(factor *base) {
    dense_factor *o = (dense_factor *)base;
    group_close(&o->group);
    ENGINE_RELEASE(base->e, o->a, o->f.info, o->f.residues, o->f.exponent, o->f.of_solve);
}

static status dense_open(factor *base, const plan *p, const double *proj) {
    dense_factor *o = (dense_factor *)base;
    engine *e = base->e;
    status st;
    (void)proj;
    o->group.size = 1;
    o->f = (cholesky){.e = e,
                      .group = &o->group,
                      .moduli = p->moduli,
                      .solve_moduli = p->moduli_solve,
                      .rows = p->rows};
    cholesky_widths(&o->f, e->width);
    TRY(comm_agree(e->c, take_memory(o, p)));
    if (p->moduli == 0)
        TRY(cholesky_join(&o->f, p->sharing == 1, !p->quiet));
done:
    return st;
}

static status dense_make(factor *base, const profile *p, int *minor) {
    dense_factor *o = (dense_factor *)base;
    o->mirrored = false;
    return cholesky_factor(&o->f, p, minor);
}

/* Both triangles from the right, with L and with its mirror image above the diagonal, so that all
 * products are with a transposed block: those take less power than products with a block as it is,
 * and power is what bounds them at the full scale. */
static status dense_solve(factor *base, int n, const wrows *w) {
    dense_factor *o = (dense_factor *)base;
    engine *e = base->e;
    const double one = 1;
    const double square = (double)e->m * (double)e->m;
    status st = MOAO_OK;
    report_phase("solve: triangles");
    if (o->f.moduli > 0) {
        for (int k = 0; k < n; k++)
            e->rep->flops[STAGE_SOLVE] += 2.0 * (double)w[k].rows * square;
        return cholesky_solve_integers(&o->f, n, w);
    }
    if (!o->mirrored) /* exposures have put T where the mirror image belongs */
        TRY(e->be->mirror(e->ctx, BACKEND_D, 'L', e->m, o->a, e->m));
    o->mirrored = true;
    for (int k = 0; k < n; k++) {
        for (int pass = 0; pass < 2; pass++)
            TRY(e->be->trsm(e->ctx, BACKEND_D, 'R', pass == 0 ? 'L' : 'U', 'T', 'N', w[k].rows,
                            e->m, &one, o->a, e->m, w[k].w, w[k].ld, e->work, e->lwork));
        e->rep->flops[STAGE_SOLVE] += 2.0 * (double)w[k].rows * square;
    }
done:
    return st;
}

const factor_kind factor_dense_integer = {
    .size = sizeof(factor_kind),
    .object = sizeof(dense_factor),
    .name = "dense_integer",
    .word = "dense",
    .together = true,
    .bytes = bytes,
    .open = dense_open,
    .close = dense_close,
    .make = dense_make,
    .solve = dense_solve,
};

const factor_kind factor_dense = {
    .size = sizeof(factor_kind),
    .object = sizeof(dense_factor),
    .name = "dense",
    .word = "dense",
    .bytes = bytes,
    .open = dense_open,
    .close = dense_close,
    .make = dense_make,
    .solve = dense_solve,
};
