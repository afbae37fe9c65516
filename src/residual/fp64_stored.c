/* T of an exposure in the memory of a dense factor: in the triangle above its diagonal, transposed,
 * but for the blocks on the diagonal, which lie next to it. */
#include "factor/dense.h"
#include "residual/product.h"

#include <stdlib.h>

typedef struct {
    product base;
    double *diag; /* width x m: blocks of T on the diagonal side by side, 0 above their diagonals */
} stored;

static void bytes(const sys *s, const factor_kind *f, plan *p) {
    const size_t m = s->m, v = (size_t)p->rows, d = sizeof(double);
    (void)f;
    plan_add(p, "its blocks on the diagonal", m * p->width * d);
    plan_add(p, "residual covariance of a target", v * v * d);
    p->per_target = "W of a target";
    p->target = v * m * d;
}

static void stored_close(product *base) {
    stored *x = (stored *)base;
    base->e->be->release(base->e->ctx, x->diag);
}

static status stored_open(product *base, const plan *p, const double *proj) {
    stored *x = (stored *)base;
    engine *e = base->e;
    const int64_t m = e->m, w = e->width;
    status st;
    (void)p, (void)proj;
    TRY(engine_doubles(e, w * m, "blocks of Cmm", &x->diag));
    /* what lies above the diagonals stays 0: products read it, nothing writes it */
    TRY(engine_zero(e, BACKEND_D, w, m, x->diag, w));
done:
    return st;
}

/* Blocks of Cmm above the diagonal that begin with panel j: next to it, or, in the host's memory,
 * above it. There one evaluation gives both axes of a row's subaperture, and columns have both of
 * most sensors, where rows of a panel have one. */
static status fill_above(const stored *x, int64_t j, int64_t n) {
    engine *e = x->base.e;
    double *a = ((dense_factor *)x->base.f)->a;
    const int64_t m = e->m;
    if (e->be->group == NULL)
        return j == 0 ? MOAO_OK
                      : e->mat->fill_cmm(e->cov, BACKEND_D, 'A', MATCOV_ALL,
                                         (matcov_region){0, j, j, n}, a + j * m, m);
    return j + n == m
               ? MOAO_OK
               : e->mat->fill_cmm(e->cov, BACKEND_D, 'A', MATCOV_ALL,
                                  (matcov_region){j, n, j + n, m - j - n}, a + j + (j + n) * m, m);
}

/* T of Cmm = T + T', transposed: its blocks below the diagonal are those of Cmm above it. */
static status stored_load(product *base, const profile *p) {
    stored *x = (stored *)base;
    engine *e = base->e;
    const int64_t m = e->m;
    status st = MOAO_OK;
    (void)p;
    report_phase("exposure: T of Cmm");
    ((dense_factor *)base->f)->mirrored = false;
    for (int64_t j = 0, n; j < m && st == MOAO_OK; j += n) {
        n = engine_width(e, j, m);
        st = e->mat->fill_cmm(e->cov, BACKEND_D, 'T', MATCOV_ALL, (matcov_region){j, n, j, n},
                              x->diag + j * e->width, e->width);
        if (st == MOAO_OK)
            st = fill_above(x, j, n);
    }
    if (st == MOAO_OK)
        st = engine_flip(e, "flip-t", x->diag);
    return st;
}

static status stored_columns(product *base, const wrows *w, int64_t j, int64_t n, double *z,
                             int64_t ldz) {
    const stored *x = (const stored *)base;
    const double *a = ((const dense_factor *)base->f)->a;
    engine *e = base->e;
    const int64_t m = e->m, below = m - j - n;
    status st;
    TRY(engine_gemm(e, 'N', 'N', w->rows, n, n, 1.0, w->w + j * w->ld, w->ld,
                    x->diag + j * e->width, e->width, 0.0, z, ldz));
    if (below > 0)
        TRY(engine_gemm(e, 'N', 'T', w->rows, n, below, 1.0, w->w + (j + n) * w->ld, w->ld,
                        a + j + (j + n) * m, m, 1.0, z, ldz));
done:
    return st;
}

const product_kind product_stored = {
    .size = sizeof(product_kind),
    .object = sizeof(stored),
    .name = "stored",
    .word = "exact",
    .exact = true,
    .bytes = bytes,
    .open = stored_open,
    .close = stored_close,
    .load = stored_load,
    .columns = stored_columns,
};
