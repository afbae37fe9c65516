/* The matrix as it is: what the other formats are compared with, and what serves where none pays.
 */
#include "internal.h"
#include <stdlib.h>

typedef struct {
    format f;
    void *a;
} dense;

static status bytes(const backend *be, const hier_source *s, const hier_options *o, size_t *all,
                    size_t *most_work) {
    (void)be;
    *all = backend_size(o->type) * (size_t)s->rows * (size_t)s->cols;
    *most_work = 0;
    return MOAO_OK;
}

static void close_dense(format *f) {
    f->be->release(f->ctx, ((dense *)f)->a);
    free(f);
}

static status load(format *f, const hier_source *s) {
    return s->block(s->from, f->ctx, f->o.type, 0, s->rows, 0, s->cols, ((dense *)f)->a,
                    s->rows > 1 ? s->rows : 1);
}

static status open_dense(const backend *be, backend_ctx *ctx, const hier_source *s,
                         const hier_options *o, format **out) {
    dense *d;
    status st;
    *out = NULL;
    if (!s->block)
        return status_fail(MOAO_INPUT, "a dense format needs a source that gives blocks");
    TRY(ALLOC(d, 1, "a dense format"));
    hier_begin(&d->f, &hier_dense, be, ctx, s, o);
    d->f.info.bytes = d->f.info.bytes_dense_part =
        backend_size(o->type) * (size_t)s->rows * (size_t)s->cols;
    d->f.info.flops = 2.0 * (double)s->rows * (double)s->cols;
    *out = &d->f;
    TRY(be->alloc(ctx, d->f.info.bytes, &d->a));
    TRY(load(&d->f, s));
done:
    if (st != MOAO_OK && *out) {
        close_dense(*out);
        *out = NULL;
    }
    return st;
}

static size_t workspace(const format *f, char side, int64_t nvec) {
    (void)f, (void)side, (void)nvec;
    return 0;
}

status hier_apply_dense(const format *f, const void *a, int64_t lda, const hier_product *q) {
    const backend_type t = f->o.type;
    const bool turned = (q->trans != 'N') == (q->side == 'L');
    const int64_t in = turned ? f->info.rows : f->info.cols,
                  out = turned ? f->info.cols : f->info.rows;
    const float as = (float)q->alpha, bs = (float)q->beta;
    const void *alpha = t == BACKEND_D ? (const void *)&q->alpha : &as,
               *beta = t == BACKEND_D ? (const void *)&q->beta : &bs;
    return q->side == 'L' ? f->be->gemm(f->ctx, t, q->trans, 'N', out, q->nvec, in, alpha, a, lda,
                                        q->x, q->ldx, beta, q->y, q->ldy, NULL, 0)
                          : f->be->gemm(f->ctx, t, 'N', q->trans, q->nvec, out, in, alpha, q->x,
                                        q->ldx, a, lda, beta, q->y, q->ldy, NULL, 0);
}

static status apply(const format *f, const hier_product *q) {
    return hier_apply_dense(f, ((const dense *)f)->a, f->info.rows > 1 ? f->info.rows : 1, q);
}

const hier_table hier_dense = {.kind = HIER_DENSE,
                               .name = "dense",
                               .bytes = bytes,
                               .open = open_dense,
                               .load = load,
                               .close = close_dense,
                               .workspace = workspace,
                               .apply = apply};
