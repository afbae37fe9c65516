#include "moao/toeplitz.h"

#include "internal.h"

#include <math.h>
#include <stdlib.h>

typedef struct {
    format f;
    backend_toeplitz_plan *plan;
} toeplitz;

static status detail_of(const backend *be, const hier_source *s, const hier_toeplitz_values **of) {
    const hier_toeplitz_values *d = s->detail;
    int64_t rows = 0;
    if (be->toeplitz == NULL)
        return status_fail(MOAO_INPUT, "the %s backend has no products by Fourier transforms",
                           be->name);
    if (d == NULL)
        return status_fail(MOAO_INPUT, "a block-Toeplitz format needs its places and values");
    for (int i = 0; i < d->shape->nimage; i++)
        rows += d->shape->count[i];
    if (rows != s->rows || rows != s->cols)
        return status_fail(MOAO_INPUT,
                           "the images of a block-Toeplitz format have %lld rows, not "
                           "%lld",
                           (long long)rows, (long long)s->rows);
    *of = d;
    return MOAO_OK;
}

static toeplitz_type number_of(const hier_options *o) {
    return o->type == BACKEND_D ? TOEPLITZ_D : o->half ? TOEPLITZ_FP16 : TOEPLITZ_S;
}

static status bytes(const backend *be, const hier_source *s, const hier_options *o, size_t *all,
                    size_t *most_work) {
    const hier_toeplitz_values *d;
    status st = detail_of(be, s, &d);
    if (st == MOAO_OK)
        *all = be->toeplitz->bytes(d->shape, number_of(o));
    *most_work = 0;
    return st;
}

static void close_toeplitz(format *f) {
    if (((toeplitz *)f)->plan != NULL)
        f->be->toeplitz->close(((toeplitz *)f)->plan);
    free(f);
}

static status load(format *f, const hier_source *s) {
    const hier_toeplitz_values *d;
    const status st = detail_of(f->be, s, &d);
    return st == MOAO_OK ? f->be->toeplitz->load(((toeplitz *)f)->plan, d->pairs) : st;
}

/* Operations of a product with one vector: transforms of all images, and their couplings. */
static double flops_of(const toeplitz_shape *s, int order) {
    const double n = (double)order * order, g = s->nimage;
    return n * (g * 10 * log2((double)order) + 4 * g * g);
}

static status open_toeplitz(const backend *be, backend_ctx *ctx, const hier_source *s,
                            const hier_options *o, format **out) {
    const hier_toeplitz_values *d;
    toeplitz *t = NULL;
    status st;
    TRY(detail_of(be, s, &d));
    TRY(ALLOC(t, 1, "block-Toeplitz format"));
    hier_begin(&t->f, &hier_toeplitz, be, ctx, s, o);
    TRY(be->toeplitz->open(ctx, d->shape, number_of(o), &t->plan));
    t->f.info.bytes = be->toeplitz->bytes(d->shape, number_of(o));
    t->f.info.flops = flops_of(d->shape, be->toeplitz->order(d->shape->n));
    st = be->toeplitz->load(t->plan, d->pairs);
done:
    if (st != MOAO_OK && t != NULL)
        close_toeplitz(&t->f);
    *out = st == MOAO_OK ? &t->f : NULL;
    return st;
}

static size_t workspace(const format *f, char side, int64_t nvec) {
    (void)side;
    return f->be->toeplitz->workspace(((const toeplitz *)f)->plan, nvec);
}

static size_t kept_bytes(const format *f, int64_t nvec) {
    return f->be->toeplitz->kept_bytes(((const toeplitz *)f)->plan, nvec);
}

static status keep(const format *f, char side, int64_t nvec, const void *x, int64_t ldx, void *kept,
                   void *work) {
    return f->be->toeplitz->keep(((const toeplitz *)f)->plan, side, nvec, x, ldx, kept,
                                 kept_bytes(f, nvec), work, workspace(f, side, nvec));
}

static status apply(const format *f, const hier_product *q) {
    const backend_toeplitz *z = f->be->toeplitz;
    backend_toeplitz_plan *p = ((const toeplitz *)f)->plan;
    const size_t lwork = workspace(f, q->side, q->nvec);
    return q->kept != NULL ? z->apply_kept(p, q->side, q->trans, q->nvec, q->alpha, q->kept,
                                           kept_bytes(f, q->nvec), q->x, q->ldx, q->beta, q->y,
                                           q->ldy, q->work, lwork)
                           : z->apply(p, q->side, q->trans, q->nvec, q->alpha, q->x, q->ldx,
                                      q->beta, q->y, q->ldy, q->work, lwork);
}

const hier_table hier_toeplitz = {.kind = HIER_TOEPLITZ,
                                  .name = "toeplitz",
                                  .bytes = bytes,
                                  .open = open_toeplitz,
                                  .load = load,
                                  .close = close_toeplitz,
                                  .workspace = workspace,
                                  .apply = apply,
                                  .kept_bytes = kept_bytes,
                                  .keep = keep};
