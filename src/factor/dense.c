/* Factor and T on one device: an array of m x m numbers holds the factor L of Cmm0 in its lower
 * triangle and, above it, its mirror image while W is solved for, then T of an exposure
 * (transposed) but for the blocks on the diagonal, which lie beside it. The devices of a node make
 * the factor together. */
#include "factor/cholesky.h"
#include "operator/operator.h"

#include <stdlib.h>

typedef struct {
    linop base;
    device_group group; /* whose members make a factor together */
    cholesky f;
    double *a;    /* m x m */
    double *diag; /* width x m: blocks of T on the diagonal side by side, 0 above their diagonals */
    bool mirrored; /* what is above the diagonal of a is L' */
} dense;

static void bytes(const linop_case *z, linop_bytes *b) {
    const size_t m = z->s->m, v = (size_t)z->rows, d = sizeof(double);
    linop_add(b, "factor of Cmm0, and Cmm of an exposure", m * m * d);
    linop_add(b, "its blocks on the diagonal", m * z->width * d);
    linop_add(b, "residual covariance of a target", v * v * d);
    b->per_target = "W of a target";
    b->target = v * m * d;
}

static status take_memory(dense *o, const linop_setup *u) {
    engine *e = o->base.e;
    const int64_t m = e->m, w = e->width;
    const size_t trsm = e->be->workspace(BACKEND_TRSM, BACKEND_D, u->size.rows, m);
    const size_t factor = cholesky_work(&o->f), count = (size_t)cholesky_strips(&o->f);
    status st;
    TRY(engine_doubles(e, m * m, "the factor of Cmm", &o->a));
    TRY(engine_doubles(e, w * m, "blocks of Cmm", &o->diag));
    TRY(engine_array(e, count * sizeof(int), "numbers", (void **)&o->f.info));
    TRY(engine_work(e, factor > trsm ? factor : trsm));
    o->f.a = o->a;
    /* what lies above the diagonals stays 0: products read it, nothing writes it */
    st = engine_zero(e, BACKEND_D, w, m, o->diag, w);
done:
    return st;
}

static void dense_close(linop *base) {
    dense *o = (dense *)base;
    if (o == NULL)
        return;
    group_close(&o->group);
    ENGINE_RELEASE(base->e, o->a, o->diag, o->f.info);
    free(o);
}

static status dense_open(engine *e, const linop_setup *u, linop **out) {
    dense *o = NULL;
    status st = ALLOC(o, 1, "dense operator");
    if (st == MOAO_OK) {
        o->base = (linop){.kind = &linop_dense, .e = e};
        o->group.size = 1;
        o->f = (cholesky){.e = e, .group = &o->group};
        cholesky_widths(&o->f, e->width);
        st = take_memory(o, u);
    }
    TRY(comm_agree(e->c, st));
    TRY(cholesky_join(&o->f, u->sharing == 1, u->say));
done:
    if (st != MOAO_OK) {
        dense_close(&o->base);
        o = NULL;
    }
    *out = &o->base;
    return st;
}

static status dense_factor(linop *base, const profile *p, int *minor) {
    dense *o = (dense *)base;
    o->mirrored = false;
    return cholesky_factor(&o->f, p, minor);
}

/* Both triangles from the right, with L and with its mirror image above the diagonal, so that all
 * products are with a transposed block: those take less power than products with a block as it is,
 * and power is what bounds them at the full scale. */
static status dense_solve(linop *base, int n, const wrows *w, double *const *own) {
    dense *o = (dense *)base;
    engine *e = base->e;
    const double one = 1;
    status st = MOAO_OK;
    (void)own;
    report_phase("solve: triangles");
    if (!o->mirrored) /* exposures have put T where the mirror image belongs */
        TRY(e->be->mirror(e->ctx, BACKEND_D, 'L', e->m, o->a, e->m));
    o->mirrored = true;
    for (int k = 0; k < n; k++) {
        for (int pass = 0; pass < 2; pass++)
            TRY(e->be->trsm(e->ctx, BACKEND_D, 'R', pass == 0 ? 'L' : 'U', 'T', 'N', w[k].rows,
                            e->m, &one, o->a, e->m, w[k].w, w[k].ld, e->work, e->lwork));
        e->rep->flops[STAGE_SOLVE] += 2.0 * (double)(w[k].rows * e->m) * (double)e->m;
    }
done:
    return st;
}

/* Blocks of Cmm above the diagonal that begin with panel j: beside it, or, in the host's memory,
 * above it. There one evaluation gives both axes of a row's subaperture, and columns have both of
 * most sensors, where rows of a panel have one. */
static status fill_above(const dense *o, int64_t j, int64_t n) {
    engine *e = o->base.e;
    const int64_t m = e->m;
    if (e->be->group == NULL)
        return j == 0 ? MOAO_OK
                      : e->mat->fill_cmm(e->cov, BACKEND_D, 'A', MATCOV_ALL, 0, j, j, n,
                                         o->a + j * m, m);
    return j + n == m ? MOAO_OK
                      : e->mat->fill_cmm(e->cov, BACKEND_D, 'A', MATCOV_ALL, j, n, j + n, m - j - n,
                                         o->a + j + (j + n) * m, m);
}

/* T of Cmm = T + T', transposed: its blocks below the diagonal are those of Cmm above it. */
static status dense_load(linop *base, const profile *p) {
    dense *o = (dense *)base;
    engine *e = base->e;
    const int64_t m = e->m;
    status st = MOAO_OK;
    (void)p;
    report_phase("exposure: T of Cmm");
    o->mirrored = false;
    for (int64_t j = 0, n; j < m && st == MOAO_OK; j += n) {
        n = engine_width(e, j, m);
        st = e->mat->fill_cmm(e->cov, BACKEND_D, 'T', MATCOV_ALL, j, n, j, n,
                              o->diag + j * e->width, e->width);
        if (st == MOAO_OK)
            st = fill_above(o, j, n);
    }
    if (st == MOAO_OK)
        st = engine_flip(e, "flip-t", o->diag);
    return st;
}

static status dense_columns(linop *base, const wrows *w, int64_t j, int64_t n, double *z,
                            int64_t ldz) {
    const dense *o = (const dense *)base;
    engine *e = base->e;
    const int64_t m = e->m, below = m - j - n;
    status st;
    TRY(engine_gemm(e, 'N', 'N', w->rows, n, n, 1.0, w->w + j * w->ld, w->ld,
                    o->diag + j * e->width, e->width, 0.0, z, ldz));
    if (below > 0)
        TRY(engine_gemm(e, 'N', 'T', w->rows, n, below, 1.0, w->w + (j + n) * w->ld, w->ld,
                        o->a + j + (j + n) * m, m, 1.0, z, ldz));
done:
    return st;
}

const linop_kind linop_dense = {
    .size = sizeof(linop_kind),
    .name = "dense",
    .exact = true,
    .bytes = bytes,
    .open = dense_open,
    .close = dense_close,
    .factor = dense_factor,
    .solve = dense_solve,
    .load = dense_load,
    .columns = dense_columns,
};
